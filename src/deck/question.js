function make(tag, kind, ...inner) {
  const part = document.createElement(tag);
  if (kind) part.className = kind;
  part.append(...inner);
  return part;
}
function button(label, does, title) {
  const part = make("button", "", label);
  part.type = "button";
  part.onclick = does;
  if (title) { part.title = title; part.setAttribute("aria-label", title); }
  return part;
}

// A field of a form that a server asks for, and what reads it: undefined for what is left out.
function field(name, schema, required) {
  const options = (of, titles) => of.enum ? of.enum.map((value, n) => [value, (of.enumNames || titles || [])[n]]) : (of.oneOf || of.anyOf || []).filter(one => "const" in one).map(one => [one.const, one.title]);
  const label = make("label", "", make("span", "", (schema.title || name) + (required ? " *" : "")));
  if (schema.description) label.append(make("span", "status", schema.description));
  const kind = schema.type, choices = options(schema);
  let part, read;
  if (kind === "boolean") {
    part = make("input");
    part.type = "checkbox";
    part.checked = schema.default === true;
    read = () => part.checked;
  } else if (kind === "array" && schema.items && options(schema.items).length) {
    const boxes = options(schema.items).map(([value, title]) => {
      const box = make("input");
      box.type = "checkbox";
      box.checked = (schema.default || []).includes(value);
      return [value, box, make("label", "choice", box, String(title || value))];
    });
    part = make("span", "choices", ...boxes.map(([, , shown]) => shown));
    read = () => { const chosen = boxes.filter(([, box]) => box.checked).map(([value]) => value); return chosen.length || required ? chosen : undefined; };
  } else if (choices.length) {
    part = make("select", "", make("option", "", "choose"), ...choices.map(([value, title]) => make("option", "", String(title || value))));
    part.selectedIndex = choices.findIndex(([value]) => value === schema.default) + 1;
    read = () => part.selectedIndex ? choices[part.selectedIndex - 1][0] : undefined;
  } else {
    const isJson = kind && !["string", "integer", "number"].includes(kind);
    part = make(isJson || kind === "string" && schema.maxLength > 200 ? "textarea" : "input");
    if (kind === "integer" || kind === "number") part.inputMode = kind === "integer" ? "numeric" : "decimal";
    else if (part.tagName === "INPUT") part.type = { email: "email", uri: "url", date: "date" }[schema.format] || "text";
    if (schema.format === "date-time") part.placeholder = "2025-06-30T12:00:00Z";
    else if (isJson) part.placeholder = "JSON";
    if (schema.default !== undefined) part.value = typeof schema.default === "string" ? schema.default : JSON.stringify(schema.default);
    read = () => {
      const text = part.value;
      if (text === "") return required && kind === "string" ? "" : undefined;
      if (kind === "string") return text;
      const value = isJson || !kind ? JSON.parse(text) : Number(text);
      if (typeof value === "number" && (!Number.isFinite(value) || Number.isInteger(value) && !Number.isSafeInteger(value))) throw new Error(text + " cannot be sent as a number from a browser");
      return value;
    };
  }
  label.append(part);
  return { name, label, read };
}
// Puts into a box what a server asks during a call: a form, an address to open, or what a model is to
// answer. Returns the line with the buttons.
function fillQuestion(box, event, reply) {
  const params = event.params, forModel = event.method === "sampling/createMessage";
  const head = "Server “" + event.server + "” asks" + (event.during ? " during " + event.during : "");
  box.tabIndex = -1;
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", head);
  box.append(make("strong", "", head));
  if (params.message) box.append(make("p", "", params.message));
  (event.warnings || []).forEach(warning => box.append(make("p", "error", "! " + warning)));
  const line = make("div", ""), wrong = make("p", "error wrong");
  const does = (label, what) => line.append(button(label, what), " ");
  if (forModel) {
    if (params.systemPrompt) box.append(make("pre", "", "system: " + params.systemPrompt));
    for (const message of params.messages || []) {
      const blocks = [message.content].flat();
      box.append(make("pre", "", message.role + ": " + blocks.map(block => (block || {}).text !== undefined ? block.text : "[" + ((block || {}).type || "nothing") + "]").join("\n")));
    }
    const text = make("textarea");
    text.rows = 3;
    text.placeholder = "What the assistant answers";
    text.setAttribute("aria-label", text.placeholder);
    box.append(text);
    does("Send", () => { if (text.value.trim()) reply({ text: text.value }); else wrong.textContent = "the answer is empty"; });
    does("Decline", () => reply({ decline: true }));
  } else if (params.mode === "url") {
    const shown = make("p", "", "It wants you to open "), address = String(params.url);
    let parts = null;
    try { parts = new URL(event.open || ""); } catch { /* It is not to be opened. */ }
    if (parts) shown.append(parts.protocol + "//", make("strong", "", parts.host), parts.href.slice(parts.href.indexOf(parts.host) + parts.host.length));
    else shown.append(address);
    box.append(shown);
    if (parts) does("Open the page", () => { open(event.open, "_blank", "noopener,noreferrer"); reply({ accept: {} }); });
    does("Decline", () => reply({ decline: true }));
    does("Cancel", () => reply({ cancel: true }));
  } else {
    const schema = params.requestedSchema || {}, needed = schema.required || [];
    const fields = Object.entries(schema.properties || {}).map(([name, of]) => field(name, of || {}, needed.includes(name)));
    box.append(...fields.map(one => one.label));
    does(fields.length ? "Send" : "Accept", () => {
      const content = {};
      try { for (const one of fields) { const value = one.read(); if (value !== undefined) Object.defineProperty(content, one.name, { value, enumerable: true }); } }
      catch (error) { wrong.textContent = error.message; return; }
      wrong.textContent = "";
      reply({ accept: content });
    });
    does("Decline", () => reply({ decline: true }));
    does("Cancel", () => reply({ cancel: true }));
  }
  box.append(wrong, line);
  return line;
}
