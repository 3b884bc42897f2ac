//! What a server offers: tools, prompts, resources and templates, each with
//! the raw entry and the sanitised fields that a front end draws.

pub mod diff;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use base::human::Bytes;
use base::text::SafePart;
use base::text::json::WrittenValue;
use base::{Redactor, SafeText};
pub use diff::Risk;

/// All lists of one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// `tools/list`, in the server's order.
    pub tools: Vec<Arc<Tool>>,
    /// `prompts/list`.
    pub prompts: Vec<Arc<Prompt>>,
    /// `resources/list`.
    pub resources: Vec<Arc<Resource>>,
    /// `resources/templates/list`.
    pub templates: Vec<Arc<Resource>>,
    /// Entries that did not decode, kept aside with the reason.
    pub rejected: Vec<RejectedEntry>,
    /// Lists that were cut short (page or entry limit, error on a later page), with the reason.
    pub partial: Vec<(ListKind, PartialList)>,
}

impl Capabilities {
    /// No lists: one copy for all servers that have listed nothing.
    pub fn none() -> Arc<Self> {
        static NONE: LazyLock<Arc<Capabilities>> = LazyLock::new(Arc::default);
        Arc::clone(&NONE)
    }

    /// Rough size of the lists in bytes.
    pub fn weight(&self) -> usize {
        let lists = ListKind::ALL.iter().flat_map(|kind| self.entries(*kind));
        let rejected = self.rejected.iter().map(|entry| &*entry.raw);
        let all = lists.map(|(_, raw)| &raw.value).chain(rejected);
        // Held twice, raw and in the fields drawn; a `Value` takes more than its JSON text.
        all.map(|raw| 4 * base::text::json::weigh(raw)).sum()
    }

    /// The entries of a list: the name or URI of each, and the entry as sent.
    pub fn entries(&self, kind: ListKind) -> Vec<(&Arc<str>, &Arc<WrittenValue>)> {
        match kind {
            ListKind::Tools => self.tools.iter().map(|t| (&t.name, &t.raw)).collect(),
            ListKind::Prompts => self.prompts.iter().map(|p| (&p.name, &p.raw)).collect(),
            ListKind::Resources => self.resources.iter().map(|r| (&r.uri, &r.raw)).collect(),
            ListKind::ResourceTemplates => {
                self.templates.iter().map(|t| (&t.uri, &t.raw)).collect()
            }
        }
    }

    /// Replaces a list with a freshly fetched one. Secrets are masked in everything that is kept or
    /// shown: titles, descriptions, schemas. Names and URIs stay as sent, for use on the wire.
    pub fn replace(&mut self, kind: ListKind, list: &FetchedList, masks: &Redactor) {
        self.rejected.retain(|entry| entry.list != kind);
        self.partial.retain(|(list, _)| *list != kind);
        let mut rejected = list.rejected.clone();
        match kind {
            ListKind::Tools => self.tools = decode(kind, list, masks, &mut rejected, tool),
            ListKind::Prompts => self.prompts = decode(kind, list, masks, &mut rejected, prompt),
            ListKind::Resources => {
                self.resources = decode(kind, list, masks, &mut rejected, resource);
            }
            ListKind::ResourceTemplates => {
                self.templates = decode(kind, list, masks, &mut rejected, resource);
            }
        }
        for entry in &mut rejected {
            if let Some(shown) = masks.redact_json(&entry.raw) {
                entry.raw = Arc::new(shown);
                entry.reason = SafeText::line(&masks.redact(&entry.reason));
            }
        }
        self.rejected.append(&mut rejected);
        self.rejected.sort_by_key(|entry| (entry.list, entry.index));
        if let Some(reason) = &list.partial {
            self.partial.push((kind, reason.clone()));
        }
    }
}

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ListKind {
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    ResourceTemplates,
}

impl ListKind {
    /// All of them, in the order in which they are fetched and shown.
    pub const ALL: [Self; 4] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::ResourceTemplates];

    /// The method that lists it, the key of the result that holds the entries, the key that names
    /// an entry on the wire, and what an entry is.
    const fn words(self) -> [&'static str; 4] {
        match self {
            Self::Tools => ["tools/list", "tools", "name", "tool"],
            Self::Prompts => ["prompts/list", "prompts", "name", "prompt"],
            Self::Resources => ["resources/list", "resources", "uri", "resource"],
            Self::ResourceTemplates => [
                "resources/templates/list",
                "resourceTemplates",
                "uriTemplate",
                "resource template",
            ],
        }
    }

    /// The method of the specification that lists it.
    pub const fn method(self) -> &'static str {
        self.words()[0]
    }

    /// The key of the result that holds the entries.
    pub const fn key(self) -> &'static str {
        self.words()[1]
    }

    /// The key of an entry that names it on the wire.
    pub const fn id_key(self) -> &'static str {
        self.words()[2]
    }

    /// What an entry is, in the singular.
    pub const fn noun(self) -> &'static str {
        self.words()[3]
    }
}

/// A tool (MCP, server features, tools).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Name as the server spells it; goes on the wire, never on the screen.
    pub name: Arc<str>,
    /// Name to draw.
    pub label: SafeText,
    /// Title to draw, from `title` or `annotations.title`.
    pub title: Option<SafeText>,
    /// Description to draw.
    pub description: Option<SafeText>,
    /// `inputSchema`.
    pub input_schema: Arc<Value>,
    /// `outputSchema`.
    pub output_schema: Option<Arc<Value>>,
    /// Hints about its behaviour.
    pub hints: ToolHints,
    /// The entry as sent, unknown keys included.
    #[serde(with = "written_entry")]
    pub raw: Arc<WrittenValue>,
}

impl Tool {
    /// Whether it only runs as a task (`execution.taskSupport`, MCP 2025-11-25).
    pub fn needs_task(&self) -> bool {
        self.raw["execution"]["taskSupport"] == "required"
    }

    /// The URI of the page that shows what the tool answers (MCP Apps), if it has one.
    pub fn app(&self) -> Option<&str> {
        app_of(&self.raw)
    }

    /// Whether a model may be offered it: tools may be meant for the pages of their server alone.
    pub fn is_for_models(&self) -> bool {
        is_visible_to(&self.raw, "model")
    }

    /// Whether the pages of its server may call it.
    pub fn is_for_apps(&self) -> bool {
        is_visible_to(&self.raw, "app")
    }

    /// The tool under another definition; its name and its hints stay.
    #[must_use]
    pub fn with_definition(&self, raw: WrittenValue) -> Self {
        let object = |key: &str| raw.get(key).filter(|schema| schema.is_object()).cloned();
        Self {
            title: line(&raw, "title").or_else(|| line(raw.get("annotations")?, "title")),
            description: block(&raw, "description"),
            input_schema: Arc::new(object("inputSchema").unwrap_or_default()),
            output_schema: object("outputSchema").map(Arc::new),
            raw: Arc::new(raw),
            ..self.clone()
        }
    }
}

/// The extension of MCP Apps (SEP-1865) in `capabilities.extensions`.
pub const APPS_EXTENSION: &str = "io.modelcontextprotocol/ui";
/// The media type of its pages.
pub const APP_MEDIA_TYPE: &str = "text/html;profile=mcp-app";
/// The beginning of the URI of each of its pages.
pub const APP_URIS: &str = "ui://";

/// The URI of the page in the definition of a tool, if it has one.
pub fn app_of(tool: &Value) -> Option<&str> {
    let meta = tool.get("_meta")?;
    // The flat key is that of servers from before the extension was final.
    let uri = meta.pointer("/ui/resourceUri").or_else(|| meta.get("ui/resourceUri"))?.as_str()?;
    uri.starts_with(APP_URIS).then_some(uri)
}

/// Whether the definition of a tool offers it to a model, or to pages: `who` is the word of
/// `_meta.ui.visibility`.
fn is_visible_to(tool: &Value, who: &str) -> bool {
    let words = tool.pointer("/_meta/ui/visibility").and_then(Value::as_array);
    words.is_none_or(|words| words.iter().any(|word| word == who))
}

/// Whether the definition of a tool may be shown to a model.
pub fn is_for_models(tool: &Value) -> bool {
    is_visible_to(tool, "model")
}

/// An entry in what is kept of lists, and sent to other processes: as it is, and as its text where it
/// has numbers that a value cannot hold. Entries with that key alone have no name, and are rejected.
pub mod written_entry {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
    use serde_json::Value;

    use base::text::json::WrittenValue;

    const KEY: &str = "mcpdeck/json";

    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(entry: &Arc<WrittenValue>, to: S) -> Result<S::Ok, S::Error> {
        if entry.numbers.is_empty() {
            return entry.value.serialize(to);
        }
        let text = serde_json::to_string(&**entry).map_err(ser::Error::custom)?;
        to.collect_map([(KEY, text)])
    }

    /// # Errors
    /// Those of the deserializer, and a text that is not JSON.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<WrittenValue>, D::Error> {
        let value = Value::deserialize(from)?;
        let entry = match value.as_object().and_then(|entry| entry.get(KEY)?.as_str()) {
            Some(text) => WrittenValue::parse(text).map_err(de::Error::custom)?,
            None => value.into(),
        };
        Ok(Arc::new(entry))
    }
}

/// `annotations` of a tool: hints, not promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolHints {
    /// `readOnlyHint`
    pub read_only: Option<bool>,
    /// `destructiveHint`
    pub destructive: Option<bool>,
    /// `idempotentHint`
    pub idempotent: Option<bool>,
    /// `openWorldHint`
    pub open_world: Option<bool>,
}

impl ToolHints {
    /// Reads the hints of a tool as sent.
    pub fn from_tool(tool: &Value) -> Self {
        let hint = |key: &str| tool.get("annotations")?.get(key)?.as_bool();
        Self {
            read_only: hint("readOnlyHint"),
            destructive: hint("destructiveHint"),
            idempotent: hint("idempotentHint"),
            open_world: hint("openWorldHint"),
        }
    }

    /// What a tool does to its environment, in the words of the specification (MCP 2025-11-25,
    /// `ToolAnnotations`); empty where it does not say. A tool that is not read-only and not
    /// destructive performs additive updates alone.
    pub const fn manner(self) -> &'static str {
        match (self.read_only, self.destructive) {
            (Some(true), _) => "read-only",
            (_, Some(true)) => "destructive",
            (_, Some(false)) => "additive",
            (Some(false), None) => "not read-only",
            (None, None) => "",
        }
    }

    /// All that the hints say: the manner, and whether it is idempotent and of an open world.
    pub fn words(self) -> impl Iterator<Item = &'static str> {
        let of = |hint: Option<bool>, yes, no| hint.map_or("", |hint| if hint { yes } else { no });
        let words = [
            self.manner(),
            of(self.idempotent, "idempotent", "not idempotent"),
            of(self.open_world, "open-world", "not open-world"),
        ];
        words.into_iter().filter(|word| !word.is_empty())
    }
}

/// A prompt (MCP, server features, prompts).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// Name on the wire.
    pub name: Arc<str>,
    /// Name to draw.
    pub label: SafeText,
    /// Title to draw.
    pub title: Option<SafeText>,
    /// Description to draw.
    pub description: Option<SafeText>,
    /// Its arguments.
    pub arguments: Vec<PromptArgument>,
    /// The entry as sent.
    #[serde(with = "written_entry")]
    pub raw: Arc<WrittenValue>,
}

/// One argument of a prompt; always a string on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Name on the wire.
    pub name: Arc<str>,
    /// Name or title to draw.
    pub label: SafeText,
    /// Description to draw.
    pub description: Option<SafeText>,
    /// Whether it must be given.
    pub required: bool,
}

/// A resource, or a template of resources (MCP, server features, resources).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// URI on the wire; of a template the URI template (RFC 6570).
    #[serde(alias = "uri_template")]
    pub uri: Arc<str>,
    /// URI to draw.
    pub label: SafeText,
    /// Name to draw.
    pub name: SafeText,
    /// Title to draw.
    pub title: Option<SafeText>,
    /// Description to draw.
    pub description: Option<SafeText>,
    /// MIME type to draw.
    pub mime_type: Option<SafeText>,
    /// Size in bytes, if the server states it.
    pub size: Option<u64>,
    /// The entry as sent.
    #[serde(with = "written_entry")]
    pub raw: Arc<WrittenValue>,
}

/// A fetched list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchedList {
    /// Entries as sent, pages joined.
    pub entries: Vec<Arc<WrittenValue>>,
    /// Entries that are not objects, or that could not be called.
    pub rejected: Vec<RejectedEntry>,
    /// Why it is incomplete, when it is.
    pub partial: Option<PartialList>,
}

/// Why a list is incomplete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PartialList {
    /// It has more entries than this, the limit.
    Entries(usize),
    /// It has more pages than this, the limit.
    Pages(usize),
    /// Its pages together have more bytes than this, the limit.
    Bytes(u64),
    /// A cursor came a second time, so that the list would never end.
    CursorAgain {
        /// The cursor, cut.
        cursor: SafeText,
        /// The page that it came with, from 1.
        page: usize,
    },
    /// A page after the first could not be fetched.
    PageFailed {
        /// The page, from 1.
        page: usize,
        /// Why.
        message: SafeText,
    },
    /// The server refused to list anything, in these words. Recordings of earlier versions
    /// hold every reason in words.
    #[serde(untagged)]
    Refused(SafeText),
}

impl SafePart for PartialList {}

impl fmt::Display for PartialList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries(most) => write!(f, "more than {most} entries, the rest was not read"),
            Self::Pages(most) => write!(f, "more than {most} pages, the rest was not read"),
            Self::Bytes(most) => write!(f, "more than {}, the rest was not read", Bytes(*most)),
            Self::CursorAgain { cursor, page } => write!(
                f,
                "the cursor `{cursor}` came again on page {page}: the list would never end"
            ),
            Self::PageFailed { page, message } => write!(f, "page {page} failed: {message}"),
            Self::Refused(message) => write!(f, "{message}"),
        }
    }
}

/// A list entry that could not be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RejectedEntry {
    /// The list it was in.
    pub list: ListKind,
    /// Its index in the list as sent, from 0.
    pub index: usize,
    /// Why it was rejected.
    pub reason: SafeText,
    /// The entry as sent.
    pub raw: Arc<Value>,
}

/// Suffix of the reason for an entry whose name is already in its list.
const REPEATED: &str = "is listed twice; the first one counts";

impl RejectedEntry {
    /// Whether its only problem is that its name was taken.
    pub fn is_repeated(&self) -> bool {
        self.reason.ends_with(REPEATED)
    }
}

/// How a list changed since the previous fetch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListChanges {
    /// Entries that are new.
    pub added: Vec<(ListKind, SafeText)>,
    /// Entries that are gone.
    pub removed: Vec<(ListKind, SafeText)>,
    /// Entries that differ, with the fields that do.
    pub changed: Vec<(ListKind, SafeText, Vec<FieldChange>)>,
}

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// JSON pointer within the entry.
    pub pointer: String,
    /// Value before; `None` when it was not there.
    pub before: Option<Value>,
    /// Value now; `None` when it is gone.
    pub after: Option<Value>,
}

// Decoding of list entries: a bad entry is set aside with its raw JSON, the others
// are kept.
//
// Optional fields of the wrong type count as absent, so that a sloppy server stays usable; what a
// call needs (name, URI, schema) must be right.

/// Longest name of a tool or prompt, in bytes. The specification asks for at most 128 characters.
pub const MAX_NAME: usize = 1_024;
/// Longest URI or URI template, in bytes.
pub const MAX_URI: usize = 8_192;

/// An entry with a valid name or URI.
struct Entry<'a> {
    /// As it was sent.
    sent: &'a Value,
    /// As it may be shown, secrets masked.
    shown: Arc<WrittenValue>,
    /// Its name or URI as it was sent.
    key: Arc<str>,
    /// The same, sanitised to draw.
    label: SafeText,
}

impl<'a> Entry<'a> {
    /// # Errors
    /// Why the entry cannot be used.
    fn read(kind: ListKind, raw: &'a Arc<WrittenValue>, masks: &Redactor) -> Result<Self, String> {
        let object = raw.as_object().ok_or("is not an object")?;
        let key = match kind {
            ListKind::Tools | ListKind::Prompts => name(object)?,
            ListKind::Resources | ListKind::ResourceTemplates => {
                required(object, kind.id_key(), MAX_URI)?
            }
        };
        match object.get("inputSchema") {
            Some(Value::Object(_)) => {}
            _ if kind != ListKind::Tools => {}
            Some(other) => {
                return Err(format!("`inputSchema` is {}, not an object", schema_kind(other)));
            }
            None => return Err("`inputSchema` is missing".to_owned()),
        }
        let masked = masks.redact_json(raw);
        let masked = masked.map(|value| WrittenValue { value, numbers: raw.numbers.clone() });
        let shown = masked.map_or_else(|| Arc::clone(raw), Arc::new);
        let label = SafeText::line(&masks.redact(&key));
        Ok(Self { sent: raw, shown, key, label })
    }
}

fn decode<T>(
    kind: ListKind,
    list: &FetchedList,
    masks: &Redactor,
    rejected: &mut Vec<RejectedEntry>,
    one: fn(Entry<'_>) -> T,
) -> Vec<Arc<T>> {
    let mut entries = Vec::with_capacity(list.entries.len());
    let mut seen = HashSet::new();
    let holes: HashSet<usize> = list.rejected.iter().map(|entry| entry.index).collect();
    let places = (0..).filter(|place| !holes.contains(place));
    for (raw, index) in list.entries.iter().zip(places) {
        let reason = match Entry::read(kind, raw, masks) {
            Ok(entry) if seen.insert(Arc::clone(&entry.key)) => {
                entries.push(Arc::new(one(entry)));
                continue;
            }
            Ok(entry) => format!("`{}` {REPEATED}", entry.key),
            Err(reason) => reason,
        };
        let (reason, raw) = (SafeText::line(&reason), Arc::new(raw.value.clone()));
        rejected.push(RejectedEntry { list: kind, index, reason, raw });
    }
    entries
}

fn tool(entry: Entry<'_>) -> Tool {
    let Entry { shown, key, label, .. } = entry;
    Tool {
        name: key,
        label,
        title: line(&shown, "title").or_else(|| line(shown.get("annotations")?, "title")),
        description: block(&shown, "description"),
        input_schema: Arc::new(shown.get("inputSchema").cloned().unwrap_or_default()),
        output_schema: shown
            .get("outputSchema")
            .filter(|schema| schema.is_object())
            .map(|schema| Arc::new(schema.clone())),
        hints: ToolHints::from_tool(&shown),
        raw: shown,
    }
}

fn prompt(entry: Entry<'_>) -> Prompt {
    /// The arguments of a prompt.
    fn arguments(prompt: &Value) -> impl Iterator<Item = &Value> {
        prompt.get("arguments").and_then(Value::as_array).into_iter().flatten()
    }
    let Entry { sent, shown, key, label } = entry;
    let pairs = arguments(sent).zip(arguments(&shown)).filter_map(|(sent, shown)| {
        Some(PromptArgument {
            name: sent.get("name")?.as_str()?.into(),
            label: line(shown, "title").or_else(|| line(shown, "name"))?,
            description: block(shown, "description"),
            required: sent.get("required").and_then(Value::as_bool).unwrap_or_default(),
        })
    });
    Prompt {
        name: key,
        label,
        title: line(&shown, "title"),
        description: block(&shown, "description"),
        arguments: pairs.collect(),
        raw: shown,
    }
}

fn resource(entry: Entry<'_>) -> Resource {
    let Entry { shown, key, label, .. } = entry;
    Resource {
        uri: key,
        name: line(&shown, "name").unwrap_or_else(|| label.clone()),
        label,
        title: line(&shown, "title"),
        description: block(&shown, "description"),
        mime_type: line(&shown, "mimeType"),
        size: shown.get("size").and_then(Value::as_u64),
        raw: shown,
    }
}

fn name(object: &Map<String, Value>) -> Result<Arc<str>, String> {
    let name = required(object, "name", MAX_NAME)?;
    if name.split(['/', '\\']).any(|part| part == "..") {
        return Err("`name` leaves its directory (`..`)".to_owned());
    }
    Ok(name)
}

fn required(object: &Map<String, Value>, key: &str, max: usize) -> Result<Arc<str>, String> {
    let text = match object.get(key) {
        Some(Value::String(text)) => text,
        Some(other) => return Err(format!("`{key}` is {}, not a string", schema_kind(other))),
        None => return Err(format!("`{key}` is missing")),
    };
    if text.is_empty() {
        return Err(format!("`{key}` is empty"));
    }
    if text.len() > max {
        return Err(format!("`{key}` has {} bytes, more than {max}", text.len()));
    }
    if text.chars().any(char::is_control) {
        return Err(format!("`{key}` holds a control character"));
    }
    Ok(text.as_str().into())
}

fn line(entry: &Value, key: &str) -> Option<SafeText> {
    entry.get(key)?.as_str().map(SafeText::line)
}

fn block(entry: &Value, key: &str) -> Option<SafeText> {
    entry.get(key)?.as_str().map(SafeText::block)
}

/// The JSON type of a value with its article, as messages name it.
pub const fn schema_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn list(entries: &[Value]) -> FetchedList {
        let entries = entries.iter().cloned().map(|entry| Arc::new(entry.into())).collect();
        FetchedList { entries, ..FetchedList::default() }
    }

    #[test]
    fn why_a_list_is_incomplete_is_read_as_it_is_and_as_it_was_written() {
        let cut = PartialList::Pages(100);
        let written = serde_json::to_value(&cut).unwrap();
        assert_eq!(serde_json::from_value::<PartialList>(written).unwrap(), cut);
        let words = "more than 100 pages, the rest was not read";
        let old: PartialList = serde_json::from_value(words.into()).unwrap();
        assert_eq!(old.to_string(), cut.to_string());
    }

    #[test]
    fn an_entry_is_kept_with_its_numbers_by_every_form() {
        let odd = r#"{"name":"t","inputSchema":{"maximum":1e400,"default":1e3}}"#;
        let plain = r#"{"name":"p","inputSchema":{}}"#;
        let parse = |text: &str| Arc::new(WrittenValue::parse(text).expect("JSON"));
        let list =
            FetchedList { entries: vec![parse(odd), parse(plain)], ..FetchedList::default() };
        let mut all = Capabilities::default();
        all.replace(ListKind::Tools, &list, &Redactor::default());
        let text = serde_json::to_string(&all).expect("JSON");
        assert!(text.contains(&format!(r#""raw":{plain}"#)), "{text}");
        let value: Value = serde_json::from_str(&text).expect("every reader can read it");
        for again in [serde_json::from_str(&text), serde_json::from_value(value)] {
            let again: Capabilities = again.expect("the same");
            assert_eq!(again, all);
            assert_eq!(serde_json::to_string(&*again.tools[0].raw).expect("JSON"), odd);
        }
    }

    #[test]
    fn a_bad_tool_is_set_aside_with_its_reason_and_the_others_stay() {
        let good = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
        let bad = [
            json!({"name": "a"}),
            json!({"name": "b", "inputSchema": null}),
            json!({"name": "c", "inputSchema": true}),
            json!({"name": "x".repeat(10_000), "inputSchema": {}}),
            json!({"name": "new\nline", "inputSchema": {}}),
            json!({"name": "../x", "inputSchema": {}}),
            json!({"name": "", "inputSchema": {}}),
            json!({"name": 7, "inputSchema": {}}),
            json!(["no", "object"]),
            good("first"),
        ];
        for broken in bad {
            let mut capabilities = Capabilities::default();
            let entries = [good("first"), broken.clone(), good("last")];
            capabilities.replace(ListKind::Tools, &list(&entries), &Redactor::default());
            let names: Vec<_> = capabilities.tools.iter().map(|tool| &*tool.name).collect();
            assert_eq!(names, ["first", "last"], "{broken}");
            let rejected = &capabilities.rejected;
            assert_eq!((rejected.len(), rejected[0].index), (1, 1), "{broken}");
            assert_eq!(*rejected[0].raw, broken);
        }
    }

    #[test]
    fn optional_fields_of_the_wrong_type_count_as_absent() {
        let mut capabilities = Capabilities::default();
        let sloppy = json!({
            "name": "t", "inputSchema": {}, "title": null, "description": 7,
            "annotations": {"readOnlyHint": "yes", "idempotentHint": true}, "outputSchema": [],
        });
        capabilities.replace(ListKind::Tools, &list(&[sloppy]), &Redactor::default());
        let tool = &capabilities.tools[0];
        assert_eq!((&tool.title, &tool.description), (&None, &None));
        assert_eq!((tool.hints.read_only, tool.hints.idempotent), (None, Some(true)));
        assert!(tool.output_schema.is_none());
    }

    #[test]
    fn fetching_a_list_again_forgets_what_was_wrong_with_it_before() {
        let mut capabilities = Capabilities::default();
        let mut first = list(&[json!({"name": "p"}), json!({})]);
        first.partial = Some(PartialList::Pages(2));
        capabilities.replace(ListKind::Prompts, &first, &Redactor::default());
        assert_eq!((capabilities.rejected.len(), capabilities.partial.len()), (1, 1));
        capabilities.replace(
            ListKind::Prompts,
            &list(&[json!({"name": "q"})]),
            &Redactor::default(),
        );
        assert_eq!((capabilities.rejected.len(), capabilities.partial.len()), (0, 0));
        assert_eq!(&*capabilities.prompts[0].name, "q");
    }

    #[test]
    fn secrets_are_masked_in_what_is_shown_and_names_stay_as_they_were_sent() {
        let masks = Redactor::new(["hunter2-token".into()]);
        let sent = json!({
            "name": "ask hunter2-token", "description": "like hunter2-token",
            "arguments": [{"name": "hunter2-token", "description": "as hunter2-token"}],
        });
        let mut capabilities = Capabilities::default();
        capabilities.replace(ListKind::Prompts, &list(&[sent, json!("hunter2-token")]), &masks);
        let prompt = &capabilities.prompts[0];
        assert_eq!((&*prompt.name, prompt.label.as_str()), ("ask hunter2-token", "ask ***"));
        let argument = &prompt.arguments[0];
        assert_eq!((&*argument.name, argument.label.as_str()), ("hunter2-token", "***"));
        let kept =
            serde_json::to_string(&(&prompt.raw, &prompt.description, &argument.description));
        assert!(!kept.unwrap().contains("hunter2"));
        assert_eq!(*capabilities.rejected[0].raw, json!("***"));
    }
}
