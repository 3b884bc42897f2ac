//! What a profile changes of a tool as its callers see it: its name and description, its parameters,
//! the size of its results. The server, its reviewed definition and the rules keep seeing the tool as
//! it is.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use base::human::Bytes;
use base::pointer::child_pointer;
use config::error::{Error, ErrorCode, Violation};
use schema::{SchemaDocument, SchemaVerdict, Validator};
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
        let whole = SchemaDocument::new(&Arc::new(schema.clone()));
        let mut known = KnownParameters::default();
        known.collect(whole.raw(), &whole, &mut { MAX_SCHEMA_PARTS });
        let mut out = Vec::new();
        for (name, change) in &self.parameters {
            let value = change.fixed.as_ref().or(change.default.as_ref());
            if !known.names.contains(name.as_str()) {
                if known.has_more {
                    continue;
                }
                let refused = value.is_some() && schema["additionalProperties"] == false;
                let so = if refused { ", so that every call is refused" } else { "" };
                out.push(format!("`{name}` is no parameter of it{so}"));
            } else if change.hidden && value.is_none() && known.required.contains(name.as_str()) {
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
        if let Some(schema) = object.get_mut("inputSchema").filter(|_| !self.parameters.is_empty())
        {
            let whole = SchemaDocument::new(&Arc::new(schema.clone()));
            self.overlay_schema(schema, &whole, &mut { MAX_SCHEMA_PARTS });
            drop_unused_definitions(schema);
        }
        out
    }

    /// Changes the parameters in a schema of all arguments, and in those that it is put together
    /// from: references within the `whole` are written out, as others may refer to them too.
    fn overlay_schema(&self, schema: &mut Value, whole: &SchemaDocument, left: &mut usize) {
        let Some(schema) = schema.as_object_mut().filter(|_| take_one(left)) else {
            return;
        };
        if let Some(target) = target_of(schema, whole) {
            let target = target.clone();
            schema.shift_remove("$ref");
            if schema.keys().any(|key| target.contains_key(key)) {
                let parts = schema.entry("allOf").or_insert_with(|| json!([]));
                if let Some(parts) = parts.as_array_mut() {
                    parts.push(json!(target));
                }
            } else {
                schema.extend(target);
                // What it refers to in turn.
                if schema.contains_key("$ref") {
                    let mut inner = Value::Object(std::mem::take(schema));
                    self.overlay_schema(&mut inner, whole, left);
                    *schema = inner.as_object_mut().map(std::mem::take).unwrap_or_default();
                    return;
                }
            }
        }
        self.change_parameters(schema);
        let is_hidden =
            |name: &str| self.parameters.get(name).is_some_and(ParameterOverlay::is_hidden);
        if let Some(pairs) = schema.get_mut("dependentRequired").and_then(Value::as_object_mut) {
            pairs.retain(|name, _| !is_hidden(name));
            for names in pairs.values_mut().filter_map(Value::as_array_mut) {
                names.retain(|name| !name.as_str().is_some_and(is_hidden));
            }
        }
        if let Some(parts) = schema.get_mut("dependentSchemas").and_then(Value::as_object_mut) {
            parts.retain(|name, _| !is_hidden(name));
            for part in parts.values_mut() {
                self.overlay_schema(part, whole, left);
            }
        }
        // What a condition on a hidden value comes to is not the callers' to know.
        if schema.get("if").is_some_and(|part| {
            part["properties"].as_object().is_some_and(|all| all.keys().any(|it| is_hidden(it)))
        }) {
            for key in ["if", "then", "else"] {
                schema.shift_remove(key);
            }
        }
        for key in ["then", "else"] {
            if let Some(part) = schema.get_mut(key) {
                self.overlay_schema(part, whole, left);
            }
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            let Some(parts) = schema.get_mut(key).and_then(Value::as_array_mut) else { continue };
            let is_possible = |part: &Value| key == "allOf" || self.may_fit(part, whole);
            if parts.iter().any(is_possible) {
                parts.retain(is_possible);
            }
            for part in parts {
                self.overlay_schema(part, whole, left);
            }
        }
    }

    /// Whether the values that are fixed can be those of an alternative.
    fn may_fit(&self, part: &Value, whole: &SchemaDocument) -> bool {
        let fixed =
            self.parameters.iter().filter_map(|(name, it)| Some((name, it.fixed.as_ref()?)));
        let object = part.as_object().map(|part| target_of(part, whole).unwrap_or(part));
        let properties = object.and_then(|part| part.get("properties"));
        { fixed }.all(|(name, value)| {
            let Some(property) = properties.and_then(|all| all.get(name)) else { return true };
            let mut schema = json!({"properties": {name: property}});
            for key in ["$defs", "definitions"] {
                if let Some(definitions) = whole.raw().get(key) {
                    schema[key] = definitions.clone();
                }
            }
            unfit(&schema, name, value).is_none()
        })
    }

    fn change_parameters(&self, schema: &mut Map<String, Value>) {
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

/// How many parts of a schema are looked into that is put together from others.
const MAX_SCHEMA_PARTS: usize = 64;

/// Takes one of what is left; whether there was one.
const fn take_one(left: &mut usize) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}

/// The object that a schema refers to within the whole, and not the whole itself.
fn target_of<'w>(
    schema: &Map<String, Value>,
    whole: &'w SchemaDocument,
) -> Option<&'w Map<String, Value>> {
    let target = whole.referenced(schema.get("$ref")?.as_str()?)?;
    target.as_object().filter(|_| !std::ptr::eq(target, Arc::as_ptr(whole.raw())))
}

/// Takes the definitions out of a schema that nothing in it refers to any more.
fn drop_unused_definitions(schema: &mut Value) {
    fn references<'s>(value: &'s Value, out: &mut HashSet<&'s str>) {
        match value {
            Value::Object(members) => {
                for (key, inner) in members {
                    match inner {
                        Value::String(text) if key == "$ref" => _ = out.insert(text),
                        inner => references(inner, out),
                    }
                }
            }
            Value::Array(all) => {
                for inner in all {
                    references(inner, out);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    // Those of one may refer to those of the other.
    for key in ["$defs", "definitions", "$defs"] {
        let Some(definitions) = schema.get(key).and_then(Value::as_object) else { continue };
        let place = |name: &str| format!("#/{key}{}", child_pointer("", name));
        let mut used: HashSet<&str> = HashSet::new();
        let rest = schema.as_object().into_iter().flatten().filter(|(it, _)| *it != key);
        for (_, value) in rest {
            references(value, &mut used);
        }
        // References by any other means than the place of a definition keep all.
        if !used.iter().all(|it| it.starts_with("#/") && !it.contains('%')) {
            return;
        }
        let is_used = |used: &HashSet<&str>, name: &str| {
            let place = place(name);
            used.iter().any(|it| **it == place || it.starts_with(&format!("{place}/")))
        };
        let mut kept: HashSet<String> = HashSet::new();
        while let Some((name, definition)) =
            definitions.iter().find(|(name, _)| !kept.contains(*name) && is_used(&used, name))
        {
            kept.insert(name.clone());
            references(definition, &mut used);
        }
        if let Some(all) = schema.get_mut(key).and_then(Value::as_object_mut) {
            all.retain(|name, _| kept.contains(name));
            if all.is_empty()
                && let Some(schema) = schema.as_object_mut()
            {
                schema.shift_remove(key);
            }
        }
    }
}

/// Keywords by which a schema may have parameters that are not looked for.
const OPEN_PARTS: [&str; 7] = [
    "anyOf",
    "oneOf",
    "if",
    "patternProperties",
    "dependentSchemas",
    "$dynamicRef",
    "$recursiveRef",
];

/// The parameters that a schema says something about.
#[derive(Default)]
struct KnownParameters<'s> {
    names: HashSet<&'s str>,
    /// Those that every call needs.
    required: HashSet<&'s str>,
    /// Whether it may have others, which are not looked for.
    has_more: bool,
}

impl<'s> KnownParameters<'s> {
    /// Looks into a schema of all arguments and what it is put together from.
    fn collect(&mut self, schema: &'s Value, whole: &'s SchemaDocument, left: &mut usize) {
        let Some(schema) = schema.as_object() else { return };
        let properties = schema.get("properties").and_then(Value::as_object);
        self.names.extend(properties.into_iter().flatten().map(|(name, _)| name.as_str()));
        let required = schema.get("required").and_then(Value::as_array);
        self.required.extend(required.into_iter().flatten().filter_map(Value::as_str));
        self.has_more |= OPEN_PARTS.iter().any(|key| schema.contains_key(*key));
        let is_put_together = ["$ref", "allOf"].iter().any(|key| schema.contains_key(*key));
        self.has_more |= properties.is_none() && required.is_none() && !is_put_together;
        if !take_one(left) {
            self.has_more = true;
            return;
        }
        if let Some(reference) = schema.get("$ref") {
            match reference.as_str().and_then(|it| whole.referenced(it)) {
                Some(target) => self.collect(target, whole, left),
                None => self.has_more = true,
            }
        }
        let parts = schema.get("allOf").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            self.collect(part, whole, left);
        }
    }
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
    fn parameters_are_changed_wherever_a_schema_has_them() {
        let overlay = overlay(json!({"tool": "a.b", "parameters": {
            "owner": {"fixed": "acme"}, "page": {"default": 1},
        }}));
        let shown = |schema: Value| {
            overlay.definition(&json!({"inputSchema": schema}))["inputSchema"].take()
        };
        let args = json!({"type": "object", "required": ["owner", "page", "text"], "properties": {
            "owner": {"$ref": "#/$defs/Owner"}, "page": {"type": "integer"}, "text": {"type": "string"},
        }});
        let own = json!({"type": "string"});
        let left = json!({"type": "object", "required": ["text"], "properties": {
            "page": {"type": "integer", "default": 1}, "text": {"type": "string"},
        }});
        // A root that only refers, through another one, as generators write it.
        let root = json!({"$ref": "#/$defs/Alias", "$defs": {
            "Alias": {"$ref": "#/$defs/Args"}, "Args": args, "Owner": own,
        }});
        assert_eq!(shown(root), left);
        // By the other ways to name a definition.
        let mut anchored = args.clone();
        anchored["$anchor"] = json!("args");
        let spaced = json!({"$ref": "#/$defs/My%20Args", "$defs": {"My Args": args, "Owner": own}});
        let by_anchor = json!({"$ref": "#args", "$defs": {"A": anchored, "Owner": own}});
        for schema in [spaced, by_anchor] {
            let shown = shown(schema);
            assert_eq!(shown["properties"], left["properties"], "{shown}");
        }
        let joined = json!({"type": "object", "allOf": [{"$ref": "#/definitions/Args"}, {
            "required": ["owner"], "properties": {"owner": {"minLength": 1}},
        }], "definitions": {"Args": args}, "$defs": {"Owner": own}});
        assert_eq!(
            shown(joined),
            json!({"type": "object", "allOf": [left, {"required": [], "properties": {}}]})
        );
        // Alternatives that what is fixed excludes are none, and one that it meets is met.
        let kind = |kind: &str, more: &str| json!({"properties": {"owner": {"const": kind}, more: {}}, "required": ["owner", more]});
        let either = json!({"type": "object", "oneOf": [kind("acme", "x"), kind("other", "y")]});
        assert_eq!(
            shown(either),
            json!({"type": "object", "oneOf": [{"properties": {"x": {}}, "required": ["x"]}]})
        );
        let any = json!({"anyOf": [{"required": ["owner"]}, {"required": ["org"]}],
                         "dependentRequired": {"owner": ["org"], "text": ["owner", "page"]}});
        assert_eq!(
            shown(any),
            json!({"anyOf": [{"required": []}, {"required": ["org"]}],
                   "dependentRequired": {"text": ["page"]}})
        );
        let condition = json!({"if": {"properties": {"owner": {"const": "x"}}},
                               "then": {"required": ["text"]}, "else": {"required": ["owner"]}});
        assert_eq!(shown(condition), json!({}));
        // What refers to itself ends, and what others refer to stays.
        let tree = json!({"$ref": "#/$defs/Node", "$defs": {"Node": {"type": "object",
            "properties": {"owner": {}, "next": {"$ref": "#/$defs/Node"}}}}});
        let tree = shown(tree);
        assert_eq!(tree["properties"], json!({"next": {"$ref": "#/$defs/Node"}}));
        assert!(tree["$defs"]["Node"]["properties"]["owner"].is_object());
        let circle = json!({"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/A"}}});
        assert!(shown(circle).is_object());
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
        let referring = json!({"inputSchema": {"$ref": "#/$defs/Args", "$defs": {
            "Args": raw["inputSchema"], "page": raw["inputSchema"]["$defs"]["page"],
        }}});
        for (parameters, word) in [
            (json!({"owner": {"hidden": true}}), "hidden but required"),
            (json!({"gone": {"description": "x"}}), "`gone` is no parameter of it"),
            (json!({"owner": {"fixed": 5}}), "`owner`: expected text"),
        ] {
            let told = misfits(parameters, &referring);
            assert!(told.contains(word), "{word}: {told}");
        }
        let open = json!({"inputSchema": {"properties": {}, "anyOf": [{}]}});
        assert_eq!(misfits(json!({"gone": {"fixed": 5}}), &open), "");
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
