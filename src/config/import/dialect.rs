//! Converts another program's entry to ours, key by key. Pure.

use serde_json::{Map, Value, json};

use crate::import::{ImportHost, insert};
use crate::keys::SERVER;

/// Converts one entry. `None` when it names neither a command nor an address.
pub(super) fn convert(
    host: ImportHost,
    name: &str,
    entry: &Map<String, Value>,
    notes: &mut Vec<String>,
) -> Option<Map<String, Value>> {
    let mut left = entry.clone();
    let mut out = Map::new();
    let is_crush = host == ImportHost::Opencode && is_crush(entry);
    words(&mut left);
    match host {
        ImportHost::Opencode if is_crush => {}
        ImportHost::Opencode => opencode(&mut left),
        ImportHost::Goose => goose(&mut left),
        ImportHost::Continue => continue_dev(&mut left),
        _ => {}
    }
    transport(host, &mut left, &mut out)?;
    common(&mut left, &mut out);
    listed_tools(&mut left, &mut out);
    let keys = if is_crush { keys(ImportHost::Goose) } else { keys(host) };
    for (theirs, ours) in keys.iter().chain(&KEYS_ANYWHERE) {
        match (left.remove(*theirs), ours.strip_prefix("tools.")) {
            (Some(Value::Null) | None, _) => {}
            (Some(value), Some(rule)) => tools(list(Some(value)), rule, &mut out),
            (Some(value), None) if value.is_number() => insert(&mut out, ours, Some(value)),
            // Of another form than any that is known: told below.
            (Some(value), None) => insert(&mut left, theirs, Some(value)),
        }
    }
    match host {
        ImportHost::Codex => codex(&mut left, &mut out, (name, notes)),
        ImportHost::Zed => zed(&mut left),
        ImportHost::VsCode => own_keys(&mut left, &mut out),
        ImportHost::Goose => forwarded(&mut left, &mut out, ("env_keys", name, notes)),
        _ => {}
    }
    // Every program's way to say it, in the files of all of them: people copy entries.
    let mut take = |key: &str| left.remove(key).or_else(|| out.shift_remove(key));
    let (disabled, others) = (take("disabled"), [take("enabled"), take("isActive")]);
    let is_off = others.contains(&Some(Value::Bool(false)));
    if disabled.map_or(is_off, |disabled| disabled == Value::Bool(true)) {
        out.insert("disabled".to_owned(), Value::Bool(true));
    }
    // It reads `$NAME` as Gemini CLI does.
    references(if is_crush { ImportHost::GeminiCli } else { host }, &mut out);
    for foreign in foreign_references(host, &out) {
        notes.push(format!(
            "`{name}`: `{foreign:.60}` has no counterpart here; write the value, or a reference"
        ));
    }
    // What people write for people changes nothing.
    let quiet = ["description", "icon", "name"];
    let ignored = left.keys().map(String::as_str).filter(|key| !quiet.contains(key));
    let ignored: Vec<&str> = ignored.collect();
    if !ignored.is_empty() {
        let have = if ignored.len() > 1 { "have" } else { "has" };
        notes.push(format!("`{name}`: {} {have} no counterpart here", ignored.join(", ")));
    }
    Some(out)
}

/// Takes over the command, or the address with its transport type.
fn transport(
    host: ImportHost,
    left: &mut Map<String, Value>,
    out: &mut Map<String, Value>,
) -> Option<()> {
    if host == ImportHost::Zed {
        flatten_command(left);
    }
    let declared = left
        .remove("type")
        .or_else(|| left.remove("transportType"))
        .or_else(|| left.remove("transport"))
        .and_then(|value| value.as_str().map(str::to_owned));
    let urls = [("httpUrl", "http"), ("url", ""), ("serverUrl", ""), ("baseUrl", "")];
    let url = urls.into_iter().find_map(|(key, kind)| {
        let url = left.remove(key).filter(|url| !url.is_null() && url != "");
        Some((key, kind, url?))
    });
    let is_program = |command: &Value| command.as_str().is_some_and(|it| !it.trim().is_empty());
    if let Some(command) = left.remove("command").filter(is_program)
        && url.is_none()
    {
        out.insert("command".to_owned(), command);
        return Some(());
    }
    let (key, kind, url) = url?;
    let address = url.as_str()?.to_owned();
    let kind = match (declared.as_deref(), kind) {
        (Some("sse"), _) => "sse",
        (Some("ws" | "websocket"), _) => "websocket",
        (Some(_), _) | (None, "http") => "http",
        // Gemini CLI keeps `url` for the older transport.
        (None, _) if host == ImportHost::GeminiCli && key == "url" => "sse",
        (None, _) if address.trim_end_matches('/').ends_with("/sse") => "sse",
        (None, _) => "http",
    };
    out.insert("type".to_owned(), json!(kind));
    out.insert("url".to_owned(), url);
    Some(())
}

/// Zed once wrote `command` as an object.
fn flatten_command(left: &mut Map<String, Value>) {
    if left.get("command").is_some_and(Value::is_object) {
        let mut command = map(left.remove("command"));
        insert(left, "command", command.remove("path"));
        insert(left, "args", command.remove("args"));
        insert(left, "env", command.remove("env").filter(|env| !env.is_null()));
    }
}

/// Keys with the same name everywhere.
fn common(left: &mut Map<String, Value>, out: &mut Map<String, Value>) {
    for key in ["args", "env", "envFile", "cwd", "headers"] {
        let other = if key == "cwd" { left.remove("workingDirectory") } else { None };
        let value = left.remove(key).or(other);
        let empty = value
            .as_ref()
            .is_some_and(|v| v.is_null() || v.as_object().is_some_and(Map::is_empty) || v == "");
        insert(out, key, value.filter(|_| !empty));
    }
}

/// Keys VS Code shares with us.
fn own_keys(left: &mut Map<String, Value>, out: &mut Map<String, Value>) {
    let own = |key: &&String| {
        let is_switch = ["disabled", "enabled", "isActive"].contains(&key.as_str());
        !is_switch && SERVER.keys.iter().any(|k| k.name == **key)
    };
    let known: Vec<String> = left.keys().filter(own).cloned().collect();
    for key in known {
        insert(out, &key, left.remove(&key));
    }
}

/// A program's keys and our equivalents. Tool lists become rules of `tools`.
const fn keys(host: ImportHost) -> &'static [(&'static str, &'static str)] {
    match host {
        ImportHost::Cline | ImportHost::Zed => &[("timeout", "timeout")],
        // Milliseconds there, seconds here.
        ImportHost::ClaudeCode | ImportHost::Cursor | ImportHost::Opencode => {
            &[("timeout", "timeoutMs")]
        }
        ImportHost::GeminiCli => &[
            ("timeout", "timeoutMs"),
            ("includeTools", "tools.allow"),
            ("excludeTools", "tools.deny"),
        ],
        ImportHost::Codex => &[
            ("tool_timeout_sec", "timeout"),
            ("startup_timeout_sec", "startupTimeout"),
            ("startup_timeout_ms", "startupTimeoutMs"),
            ("enabled_tools", "tools.allow"),
            ("disabled_tools", "tools.deny"),
        ],
        ImportHost::Goose => &[("timeout", "timeout"), ("available_tools", "tools.allow")],
        ImportHost::Continue => &[("connectionTimeout", "startupTimeoutMs")],
        ImportHost::ClaudeDesktop | ImportHost::VsCode | ImportHost::Windsurf => &[],
    }
}

/// Which tools a server may or may not offer, as Gemini CLI and the kin of Cline have it; people copy
/// entries.
const KEYS_ANYWHERE: [(&str, &str); 3] = [
    ("disabledTools", "tools.deny"),
    ("includeTools", "tools.allow"),
    ("excludeTools", "tools.deny"),
];

fn zed(left: &mut Map<String, Value>) {
    left.remove("source");
    if left.get("settings").and_then(Value::as_object).is_some_and(Map::is_empty) {
        left.remove("settings");
    }
}

/// A command that is a list holds its first arguments.
fn words(left: &mut Map<String, Value>) {
    if let Some(Value::Array(words)) = left.get("command") {
        let more = left.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
        let mut words = words.clone().into_iter().chain(more);
        left.insert("command".to_owned(), words.next().unwrap_or_default());
        left.insert("args".to_owned(), words.collect());
    }
}

/// Whether an entry is one of Crush, whose file has the place of opencode's and another form.
fn is_crush(entry: &Map<String, Value>) -> bool {
    let kind = entry.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| ["stdio", "http", "sse"].contains(&kind))
}

fn opencode(left: &mut Map<String, Value>) {
    let env = left.remove("environment");
    insert(left, "env", env);
    // `local` and `remote` say no more than the command and the address do.
    left.remove("type");
}

/// Kinds of Goose's extensions that are parts of the program.
const GOOSE_PARTS: [&str; 4] = ["builtin", "platform", "frontend", "inline_python"];

/// Whether an entry names a part of the program itself, or one of its extensions.
pub(super) fn is_built_in(host: ImportHost, entry: &Map<String, Value>) -> bool {
    let kind = entry.get("type").or_else(|| entry.get("config")?.get("type"));
    let is_part = kind.and_then(Value::as_str).is_some_and(|kind| GOOSE_PARTS.contains(&kind));
    let is_extension = entry.get("source").is_some_and(|source| source == "extension");
    host == ImportHost::Goose && is_part || host == ImportHost::Zed && is_extension
}

fn goose(left: &mut Map<String, Value>) {
    // An older form has the settings in an object of their own.
    for (key, value) in map(left.remove("config")) {
        left.entry(key).or_insert(value);
    }
    for (theirs, ours) in [("cmd", "command"), ("envs", "env"), ("uri", "url")] {
        let value = left.remove(theirs).filter(|value| !value.is_null());
        insert(left, ours, value);
    }
    if left.get("type").is_some_and(|kind| kind == "stdio") {
        left.remove("url");
    }
    for key in ["name", "description", "bundled", "display_name"] {
        left.remove(key);
    }
    left.retain(|_, value| !value.is_null());
}

fn continue_dev(left: &mut Map<String, Value>) {
    // Its older form has the transport in an object of its own.
    for (key, value) in map(left.remove("transport").filter(Value::is_object)) {
        left.entry(key).or_insert(value);
    }
    let mut options = map(left.remove("requestOptions"));
    let mut headers = map(options.remove("headers"));
    if let Some(key) = left.remove("apiKey").as_ref().and_then(Value::as_str) {
        headers.insert("Authorization".to_owned(), json!(format!("Bearer {key}")));
    }
    if !headers.is_empty() {
        left.insert("headers".to_owned(), Value::Object(headers));
    }
    for (key, value) in options {
        left.insert(format!("requestOptions.{key}"), value);
    }
    left.remove("name");
}

fn codex(
    left: &mut Map<String, Value>,
    out: &mut Map<String, Value>,
    (name, notes): (&str, &mut Vec<String>),
) {
    if out.contains_key("startupTimeoutMs") {
        out.shift_remove("startupTimeout");
    }
    let mut headers = map(left.remove("http_headers"));
    for (header, variable) in map(left.remove("env_http_headers")) {
        if let Some(variable) = variable.as_str() {
            headers.insert(header, json!(marked(variable)));
        }
    }
    if let Some(variable) = left.remove("bearer_token_env_var").as_ref().and_then(Value::as_str) {
        headers.insert("Authorization".to_owned(), json!(format!("Bearer {}", marked(variable))));
    }
    if !headers.is_empty() {
        out.insert("headers".to_owned(), Value::Object(headers));
    }
    forwarded(left, out, ("env_vars", name, notes));
}

/// Takes over variables that are passed on by name.
fn forwarded(
    left: &mut Map<String, Value>,
    out: &mut Map<String, Value>,
    (key, name, notes): (&str, &str, &mut Vec<String>),
) {
    // A newer form of Codex says where each comes from.
    let named = |value: Value| match value {
        Value::Object(mut of) => of.remove("name").unwrap_or_default(),
        other => other,
    };
    let all = left.remove(key).and_then(|all| match all {
        Value::Array(all) => Some(all.into_iter().map(named).collect()),
        _ => None,
    });
    let forwarded: Vec<String> = list(all);
    if !forwarded.is_empty() {
        let mut env = map(out.remove("env"));
        for variable in forwarded {
            env.insert(variable.clone(), json!(marked(&variable)));
        }
        out.insert("env".to_owned(), Value::Object(env));
        notes.push(format!("`{name}`: forwarded variables must be set now, or given a default"));
    }
}

/// A list of tools by name: `tools.allow` and `tools.deny` are globs, so names are escaped.
fn tools(names: Vec<String>, rule: &str, out: &mut Map<String, Value>) {
    if !names.is_empty() {
        let globs: Vec<String> = names.iter().map(|tool| globset::escape(tool)).collect();
        out.entry("tools").or_insert_with(|| json!({}))[rule] = json!(globs);
    }
}

/// The tools that may be used, as Copilot has them: names, or `*` for all.
fn listed_tools(left: &mut Map<String, Value>, out: &mut Map<String, Value>) {
    if left.get("tools").is_some_and(Value::is_array) {
        let names = list(left.remove("tools"));
        if !names.iter().any(|name| name == "*") {
            tools(names, "allow", out);
        }
    }
}

fn map(value: Option<Value>) -> Map<String, Value> {
    if let Some(Value::Object(map)) = value { map } else { Map::new() }
}

fn list(value: Option<Value>) -> Vec<String> {
    let list = value.and_then(|v| v.as_array().cloned()).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Marks a reference we generated, so that it is not mistaken for text of the other program.
const OURS: char = '\u{e000}';

fn marked(variable: &str) -> String {
    format!("{OURS}{{{variable}}}")
}

/// Rewrites references so that they keep their meaning.
fn references(host: ImportHost, out: &mut Map<String, Value>) {
    for value in out.values_mut() {
        rewrite(value, &|text| {
            let text = match host {
                // These programs do not expand references.
                ImportHost::Codex | ImportHost::Zed | ImportHost::Goose => {
                    text.replace("${", "$${")
                }
                // Nor does this one; but many files have its form, and a reference of an editor in one
                // was copied from there.
                ImportHost::ClaudeDesktop => text.replace("${", "$${").replace("$${env:", "${env:"),
                ImportHost::GeminiCli => dollar_names(text),
                ImportHost::Opencode => renamed(&text.replace("${", "$${"), ("{env:", "}")),
                ImportHost::Continue => {
                    renamed(&renamed(text, ("${{ secrets.", " }}")), ("${{ inputs.", " }}"))
                }
                _ => text.to_owned(),
            };
            text.replace(OURS, "$")
        });
    }
}

/// What in an entry stands for a value that only its program, or an editor, has: `${file:/x}`.
fn foreign_references(host: ImportHost, entry: &Map<String, Value>) -> Vec<String> {
    let mut texts = Vec::new();
    let mut values: Vec<&Value> = entry.values().collect();
    while let Some(value) = values.pop() {
        match value {
            Value::String(text) => texts.push(text),
            Value::Array(list) => values.extend(list),
            Value::Object(map) => values.extend(map.values()),
            _ => {}
        }
    }
    let mut out = Vec::new();
    for text in texts {
        for (at, open) in text.match_indices("${") {
            let inside = text.get(at + open.len()..).unwrap_or_default();
            let inside = inside.split('}').next().unwrap_or_default();
            let is_literal = text.get(..at).is_some_and(|before| before.ends_with('$'));
            if !is_literal && !is_reference_here(inside) {
                out.push(format!("${{{inside}}}"));
            }
        }
        if host == ImportHost::Opencode
            && let Some((_, file)) = text.split_once("{file:")
        {
            out.push(format!("{{file:{}}}", file.split('}').next().unwrap_or_default()));
        }
    }
    out.dedup();
    out
}

/// Whether what stands in `${...}` is a reference of ours.
fn is_reference_here(inside: &str) -> bool {
    let name = inside.split_once(":-").map_or(inside, |(name, _)| name);
    match name.split_once(':') {
        Some((scheme, _)) => ["env", "input", "secret", "keyring", "cmd"].contains(&scheme),
        None => {
            name == "/" || name.chars().all(|c| c.is_ascii_alphanumeric() || "_().-".contains(c))
        }
    }
}

fn rewrite(value: &mut Value, change: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(list) => list.iter_mut().for_each(|item| rewrite(item, change)),
        Value::Object(map) => map.values_mut().for_each(|item| rewrite(item, change)),
        _ => {}
    }
}

/// Each name between two marks becomes a reference.
fn renamed(text: &str, (open, close): (&str, &str)) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(open) {
        let Some((name, then)) = after.split_once(close) else { break };
        out.extend([before, "${", name.trim(), "}"]);
        rest = then;
    }
    out.push_str(rest);
    out
}

/// `$NAME` becomes `${NAME}`, as Gemini CLI reads it.
fn dollar_names(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(i) = rest.find('$') {
        let (before, after) = rest.split_at(i);
        out.push_str(before);
        let name_end = after
            .char_indices()
            .skip(1)
            .find(|(_, c)| !c.is_ascii_alphanumeric() && *c != '_')
            .map_or(after.len(), |(i, _)| i);
        let name = after.get(1..name_end).unwrap_or_default();
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            out.extend(["${", name, "}"]);
            rest = after.get(name_end..).unwrap_or_default();
        } else {
            out.push('$');
            rest = after.get(1..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    out
}
