//! What a profile changes of a tool as its callers see it: its name and description, its parameters,
//! the size of its results. The server, its reviewed definition and the rules keep seeing the tool as
//! it is.

use std::collections::BTreeMap;

use base::human::Bytes;
use base::pointer::child_pointer;
use config::error::{Error, ErrorCode, Violation};
use schema::{SchemaVerdict, Validator};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Maximum length of a name that clients of the gateway accept.
const MAX_NAME_CHARS: usize = 64;
/// Least size of a result that can be asked for: there has to be room to say that it was cut.
const MIN_RESULT_BYTES: usize = 256;

/// Changes of the tools that a glob matches, for the callers of a profile. Several that match a tool
/// are applied one after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct OverlayConfig {
    /// Which tools: a name or a glob over `server.tool`.
    pub tool: String,
    /// The name under which the gateway offers it. Not with a glob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its title, instead of the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its description, instead of the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Changes of its parameters, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, ParameterOverlay>,
    /// Annotations to offer instead of the server's, such as `readOnlyHint`. Rules go by the
    /// server's own.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
    /// Maximum size of a result in bytes of JSON. Texts are cut, anything else that is too large is
    /// replaced by a note.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_result_bytes: Option<usize>,
}

/// Changes of one parameter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct ParameterOverlay {
    /// The value that is always sent. Callers neither see nor give the parameter.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub fixed: Option<Value>,
    /// The value that is sent when a caller gives none; the parameter is optional then.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    /// Whether callers neither see nor give the parameter.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// Its description, instead of the server's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A value that is there, `null` too.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

impl ParameterOverlay {
    const fn is_hidden(&self) -> bool {
        self.hidden || self.fixed.is_some()
    }
}

impl OverlayConfig {
    /// Everything that is wrong with it, each a sentence.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut out = Vec::new();
        if let Some(name) = &self.name {
            let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
            if name.is_empty() || name.len() > MAX_NAME_CHARS || !name.chars().all(allowed) {
                out.push(format!(
                    "`name` has 1 to {MAX_NAME_CHARS} of the characters a-z, A-Z, 0-9, _ and -"
                ));
            }
            if self.tool.contains(['*', '?', '[', '{']) {
                out.push("`name` goes with one tool: write its name in `tool`, not a glob".into());
            }
        }
        for (name, parameter) in &self.parameters {
            if parameter.fixed.is_some() && parameter.default.is_some() {
                out.push(format!("`parameters`/{name}: it has either `fixed` or `default`"));
            }
        }
        if self.max_result_bytes.is_some_and(|most| most < MIN_RESULT_BYTES) {
            out.push(format!("`maxResultBytes` is at least {MIN_RESULT_BYTES}"));
        }
        let changes = Self { tool: self.tool.clone(), ..Self::default() };
        if *self == changes {
            out.push("it changes nothing".into());
        }
        out
    }

    /// Adds a later overlay, whose changes win.
    pub(super) fn then(&mut self, later: &Self) {
        self.tool.clone_from(&later.tool);
        let text = |mine: &mut Option<String>, theirs: &Option<String>| {
            if theirs.is_some() {
                mine.clone_from(theirs);
            }
        };
        text(&mut self.name, &later.name);
        text(&mut self.title, &later.title);
        text(&mut self.description, &later.description);
        self.parameters.extend(later.parameters.clone());
        self.annotations.extend(later.annotations.clone());
        self.max_result_bytes = later.max_result_bytes.or(self.max_result_bytes);
    }

    /// What in it cannot work with a tool that a server defines in this way.
    pub(super) fn misfits(&self, raw: &Value) -> Vec<String> {
        let schema = &raw["inputSchema"];
        // Schemas that are put together are not looked into.
        let parts = ["$ref", "allOf", "anyOf", "oneOf", "patternProperties"];
        let Some(known) = schema["properties"].as_object() else { return Vec::new() };
        if parts.iter().any(|part| schema.get(part).is_some()) {
            return Vec::new();
        }
        let required = schema["required"].as_array();
        let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|it| it == name));
        let mut out = Vec::new();
        for (name, change) in &self.parameters {
            let value = change.fixed.as_ref().or(change.default.as_ref());
            if !known.contains_key(name) {
                let refused = value.is_some() && schema["additionalProperties"] == false;
                let so = if refused { ", so that every call is refused" } else { "" };
                out.push(format!("`{name}` is no parameter of it{so}"));
            } else if change.hidden && value.is_none() && is_required(name) {
                out.push(format!(
                    "`{name}` is hidden but required, so that every call is refused: give it a \
                     `fixed` value"
                ));
            } else if let Some(why) = value.and_then(|value| unfit(schema, name, value)) {
                out.push(format!("`{name}`: {why}"));
            }
        }
        out
    }

    /// A definition as it is offered, under the server's name.
    pub fn definition(&self, raw: &Value) -> Value {
        let mut out = raw.clone();
        let Some(object) = out.as_object_mut() else { return out };
        for (key, text) in [("title", &self.title), ("description", &self.description)] {
            if let Some(text) = text {
                object.insert(key.to_owned(), json!(text));
            }
        }
        if !self.annotations.is_empty() || self.title.is_some() {
            let annotations = object.entry("annotations").or_insert_with(|| json!({}));
            if let Some(annotations) = annotations.as_object_mut() {
                if self.title.is_some() {
                    annotations.shift_remove("title");
                }
                annotations.extend(self.annotations.clone());
            }
        }
        if object.get("annotations").is_some_and(|all| *all == json!({})) {
            object.shift_remove("annotations");
        }
        if self.max_result_bytes.is_some() {
            // A result that was cut need not fit it.
            object.shift_remove("outputSchema");
        }
        if let Some(schema) = object.get_mut("inputSchema").and_then(Value::as_object_mut) {
            self.parameters(schema);
        }
        out
    }

    fn parameters(&self, schema: &mut Map<String, Value>) {
        for (name, change) in &self.parameters {
            if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut)
                && (change.is_hidden() || change.default.is_some())
            {
                required.retain(|it| it != name);
            }
            let Some(all) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
                continue;
            };
            if change.is_hidden() {
                all.shift_remove(name);
            } else if let Some(one) = all.get_mut(name) {
                if !one.is_object() {
                    *one = json!({});
                }
                if let Some(default) = &change.default {
                    one["default"] = default.clone();
                }
                if let Some(description) = &change.description {
                    one["description"] = json!(description);
                }
            }
        }
    }

    /// The arguments to send for those of a caller.
    ///
    /// # Errors
    /// [`ErrorCode::Validation`] with every parameter that is not the caller's to give.
    pub fn arguments(&self, mut given: Value) -> Result<Value, Error> {
        if given.is_null() {
            given = json!({});
        }
        // Anything else is refused with the schema.
        let Some(object) = given.as_object_mut() else { return Ok(given) };
        let taken = |(name, _): &(&String, &ParameterOverlay)| object.contains_key(*name);
        let hidden = self.parameters.iter().filter(|(_, change)| change.is_hidden());
        let violations: Vec<Violation> = hidden
            .filter(taken)
            .map(|(name, _)| Violation {
                pointer: child_pointer("", name),
                message: "the tool has no such parameter".to_owned(),
                keyword: "additionalProperties".to_owned(),
            })
            .collect();
        if !violations.is_empty() {
            let message = "the arguments do not fit the schema; nothing was sent".to_owned();
            return Err(Error::new(ErrorCode::Validation, message).violations(violations));
        }
        for (name, change) in &self.parameters {
            if let Some(value) = change.fixed.as_ref().or(change.default.as_ref()) {
                object.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        Ok(given)
    }

    /// Cuts a result to the size it may have; whether anything was cut.
    pub fn cut(&self, result: &mut Value) -> bool {
        let Some(most) = self.max_result_bytes else { return false };
        let size = |value: &Value| value.to_string().len();
        let whole = size(result);
        if whole <= most {
            return false;
        }
        let note =
            format!("the result has {}; {} are shown", Bytes(whole as u64), Bytes(most as u64));
        let Some(object) = result.as_object_mut() else { return false };
        object.retain(|key, _| matches!(key.as_str(), "content" | "isError"));
        let blocks = object.get_mut("content").map(Value::take);
        let mut left = most.saturating_sub(MIN_RESULT_BYTES / 2 + note.len());
        let mut kept = Vec::new();
        for mut block in blocks.as_ref().and_then(Value::as_array).cloned().unwrap_or_default() {
            let needed = size(&block) + 1;
            if needed <= left {
                left -= needed;
                kept.push(block);
                continue;
            }
            if let Some(text) = block["text"].as_str().filter(|_| block["type"] == "text") {
                let fits = cut_text(text, left.saturating_sub(needed - size(&json!(text))));
                if !fits.is_empty() {
                    block["text"] = json!(format!("{fits}…"));
                    kept.push(block);
                }
            }
            break;
        }
        kept.push(json!({"type": "text", "text": format!("({note})")}));
        object.insert("content".to_owned(), kept.into());
        true
    }

    /// What it changes, in words.
    pub fn words(&self) -> String {
        let mut out = Vec::new();
        if let Some(name) = &self.name {
            out.push(format!("offered as `{name}`"));
        }
        if self.title.is_some() || self.description.is_some() {
            out.push("described anew".to_owned());
        }
        for (name, change) in &self.parameters {
            out.push(match (&change.fixed, &change.default) {
                (Some(value), _) => format!("`{name}` fixed to {value}"),
                (_, _) if change.hidden => format!("`{name}` hidden"),
                (_, Some(value)) => format!("`{name}` is {value} by default"),
                _ => format!("`{name}` described anew"),
            });
        }
        for (key, value) in &self.annotations {
            out.push(format!("shown with {key}: {value}"));
        }
        if let Some(most) = self.max_result_bytes {
            out.push(format!("results of at most {}", Bytes(most as u64)));
        }
        out.join(", ")
    }
}

/// Why a value does not fit a parameter of a schema.
fn unfit(schema: &Value, name: &str, value: &Value) -> Option<String> {
    let mut alone = schema.clone();
    alone.as_object_mut()?.shift_remove("required");
    let verdict = Validator::compile(&alone).ok()?.check(&json!({ name: value }));
    let SchemaVerdict::Invalid(violations) = verdict else { return None };
    let place = child_pointer("", name);
    let violation = violations.into_iter().find(|it| it.pointer.starts_with(&place))?;
    Some(violation.message)
}

/// The beginning of a text that takes at most `most` bytes as JSON.
fn cut_text(text: &str, most: usize) -> &str {
    // Quotation marks, and the mark that something is missing.
    let mut left = most.saturating_sub(8);
    for (at, c) in text.char_indices() {
        let needed = match c {
            '"' | '\\' | '\n' | '\r' | '\t' => 2,
            c if c.is_control() => 6,
            c => c.len_utf8(),
        };
        let Some(rest) = left.checked_sub(needed) else { return &text[..at] };
        left = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlay(value: Value) -> OverlayConfig {
        serde_json::from_value(value).expect("an overlay")
    }

    #[test]
    fn a_fixed_parameter_is_neither_seen_nor_given_and_a_default_is_optional() {
        let overlay = overlay(json!({"tool": "a.b", "description": "new", "title": "T",
        "annotations": {"readOnlyHint": true},
        "parameters": {
            "owner": {"fixed": "acme"}, "page": {"default": 1, "description": "from 1"},
            "secret": {"hidden": true}, "none": {"fixed": null},
        }}));
        let raw = json!({"name": "b", "description": "old", "annotations": {"title": "old"},
        "outputSchema": {"type": "object"},
        "inputSchema": {"type": "object", "required": ["owner", "page", "text"], "properties": {
            "owner": {"type": "string"}, "page": {"type": "integer"}, "text": true,
            "secret": {"type": "string"}, "none": true,
        }}});
        let shown = overlay.definition(&raw);
        assert_eq!(
            shown,
            json!({"name": "b", "description": "new", "title": "T",
            "annotations": {"readOnlyHint": true},
            "outputSchema": {"type": "object"},
            "inputSchema": {"type": "object", "required": ["text"], "properties": {
                "page": {"type": "integer", "default": 1, "description": "from 1"}, "text": true,
            }}})
        );
        let sent = overlay.arguments(json!({"text": "x"})).expect("sent");
        assert_eq!(sent, json!({"text": "x", "owner": "acme", "page": 1, "none": null}));
        let sent = overlay.arguments(json!({"page": 7})).expect("sent");
        assert_eq!(sent["page"], 7);
        assert_eq!(overlay.arguments(Value::Null).expect("sent")["owner"], "acme");
        let refused = overlay.arguments(json!({"owner": "acme", "secret": 1})).expect_err("no");
        let places: Vec<&str> = refused.violations.iter().map(|it| it.pointer.as_str()).collect();
        assert_eq!(places, ["/owner", "/secret"]);
        assert_eq!(overlay.arguments(json!([1])).expect("left"), json!([1]));
    }

    #[test]
    fn what_cannot_work_with_a_tool_is_told() {
        let raw = json!({"name": "b", "inputSchema": {
            "type": "object", "required": ["owner", "page"], "additionalProperties": false,
            "properties": {"owner": {"type": "string"}, "page": {"$ref": "#/$defs/page"},
                           "free": true},
            "$defs": {"page": {"type": "integer", "minimum": 1}},
        }});
        let misfits = |parameters: Value, raw: &Value| {
            overlay(json!({"tool": "a.b", "parameters": parameters})).misfits(raw).join("; ")
        };
        for (parameters, word) in [
            (json!({"owner": {"hidden": true}}), "hidden but required"),
            (json!({"gone": {"fixed": 1}}), "`gone` is no parameter of it, so that every call"),
            (json!({"gone": {"description": "x"}}), "`gone` is no parameter of it"),
            (json!({"owner": {"fixed": 5}}), "`owner`: expected text"),
            (json!({"page": {"default": 0}}), "`page`: "),
        ] {
            let told = misfits(parameters, &raw);
            assert!(told.contains(word), "{word}: {told}");
        }
        for parameters in [
            json!({"owner": {"fixed": "acme"}, "page": {"hidden": true, "default": 1}}),
            json!({"free": {"hidden": true}, "page": {"description": "x"}}),
        ] {
            assert_eq!(misfits(parameters, &raw), "");
        }
        let joined = json!({"inputSchema": {"allOf": [{"properties": {"owner": {}}}]}});
        assert_eq!(misfits(json!({"owner": {"fixed": 5}}), &joined), "");
    }

    #[test]
    fn a_result_is_cut_to_its_size_and_says_so() {
        let overlay = overlay(json!({"tool": "a.b", "maxResultBytes": 1_000}));
        let text = |text: String| json!({"type": "text", "text": text});
        for content in [
            json!([text("a".repeat(5_000))]),
            json!([text("\n\"ü🙂".repeat(900)), text("b".into())]),
            json!([text("first".into()), {"type": "image", "data": "x".repeat(9_000)}]),
            json!("x".repeat(5_000)),
        ] {
            let mut result = json!({"content": content, "structuredContent": {"a": "b"}});
            assert!(overlay.cut(&mut result));
            let shown = result.to_string();
            assert!(shown.len() <= 1_000, "{} bytes: {shown}", shown.len());
            assert!(shown.contains("are shown"), "{shown}");
            assert!(!shown.contains("structuredContent"));
        }
        let mut small = json!({"content": [text("x".into())], "structuredContent": {}});
        assert!(!overlay.cut(&mut small) && small["structuredContent"].is_object());
    }

    #[test]
    fn what_cannot_work_is_told() {
        for (value, word) in [
            (json!({"tool": "a.*", "name": "b"}), "one tool"),
            (json!({"tool": "a.b", "name": "b c"}), "characters"),
            (json!({"tool": "a.b", "parameters": {"p": {"fixed": 1, "default": 2}}}), "either"),
            (json!({"tool": "a.b", "maxResultBytes": 3}), "at least"),
            (json!({"tool": "a.b"}), "nothing"),
        ] {
            let problems = overlay(value.clone()).problems().join("; ");
            assert!(problems.contains(word), "{value}: {problems}");
        }
    }
}
