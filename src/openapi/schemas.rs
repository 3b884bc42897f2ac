//! Schemas of a document as schemas of tools: JSON Schema 2020-12, complete in itself.
//!
//! What a schema refers to moves into `$defs`; `oneOf` becomes `anyOf`. The dialect of `OpenAPI` 3.0
//! (`nullable`, flags beside limits, `example`) is written as 2020-12 has it. Properties that only
//! responses hold (`readOnly`) are left out: the schemas are those of requests.

use std::collections::VecDeque;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use base::text::percent::decoded;
use schema::{Holds, holds};

/// Deepest nesting of a schema; below, anything is allowed.
const MAX_SCHEMA_DEPTH: usize = 48;
/// Most sub-schemas of one tool; beyond, anything is allowed.
const MAX_TOOL_SUBSCHEMAS: usize = 4_000;
/// References followed to reach an object that is no schema.
const MAX_REFERENCE_STEPS: usize = 16;

/// Keywords without a meaning in the schema of a tool, or with another there.
const DROPPED: [&str; 10] = [
    "xml",
    "externalDocs",
    "nullable",
    "example",
    "$id",
    "$schema",
    "$anchor",
    "$dynamicAnchor",
    "$defs",
    "definitions",
];

/// Follows the references of an object that is no schema (a parameter, a body); `None` when they
/// lead nowhere within the document.
pub(crate) fn resolve<'d>(root: &'d Value, mut value: &'d Value) -> Option<&'d Value> {
    for _ in 0..MAX_REFERENCE_STEPS {
        let Some(reference) = value.get("$ref").and_then(Value::as_str) else {
            return Some(value);
        };
        value = target(root, reference)?;
    }
    None
}

/// What a reference within the document names.
fn target<'d>(root: &'d Value, reference: &str) -> Option<&'d Value> {
    root.pointer(&decoded(reference.strip_prefix('#')?))
}

/// Whether a value is a text in base64 that stands for bytes.
pub(crate) fn is_binary(root: &Value, schema: &Value) -> bool {
    let schema = resolve(root, schema).unwrap_or(schema);
    let text = |key: &str| schema.get(key).and_then(Value::as_str);
    text("format") == Some("binary")
        || text("type").is_none() && text("contentMediaType").is_some()
        || text("contentMediaType") == Some("application/octet-stream")
}

/// Writes the schemas of one tool.
pub(crate) struct ToolSchemas<'d> {
    root: &'d Value,
    /// Whether the document is of 3.0, whose dialect differs.
    is_older: bool,
    /// The names in `$defs`, by reference.
    names: IndexMap<String, String>,
    pending: VecDeque<(String, &'d Value)>,
    count: usize,
}

impl<'d> ToolSchemas<'d> {
    pub(crate) fn new(root: &'d Value, is_older: bool) -> Self {
        let (names, pending) = (IndexMap::new(), VecDeque::new());
        Self { root, is_older, names, pending, count: 0 }
    }

    /// The schema as 2020-12, with references into `$defs`.
    pub(crate) fn convert(&mut self, schema: &'d Value) -> Value {
        self.convert_at(schema, 0)
    }

    /// The `$defs` of everything converted so far.
    pub(crate) fn definitions(&mut self) -> Map<String, Value> {
        let mut out = Map::new();
        while let Some((name, schema)) = self.pending.pop_front() {
            let schema = self.convert_at(schema, 1);
            out.insert(name, schema);
        }
        out
    }

    /// Sub-schemas converted so far.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    fn convert_at(&mut self, schema: &'d Value, depth: usize) -> Value {
        let Value::Object(map) = schema else {
            return if schema == &Value::Bool(false) { json!(false) } else { json!({}) };
        };
        self.count += 1;
        if depth > MAX_SCHEMA_DEPTH || self.count > MAX_TOOL_SUBSCHEMAS {
            return json!({});
        }
        let mut out = Map::new();
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            let Some(name) = self.named(reference) else {
                return json!({ "description": format!("anything; see {reference}") });
            };
            out.insert("$ref".to_owned(), format!("#/$defs/{name}").into());
            if self.is_older {
                // Its other keywords mean nothing (3.0, Reference Object).
                if let Some(text) = map.get("description").filter(|text| text.is_string()) {
                    out.insert("description".to_owned(), text.clone());
                }
                return out.into();
            }
        }
        let hidden = self.answered_only(map.get("properties"));
        for (keyword, value) in map.iter().filter(|(keyword, _)| *keyword != "$ref") {
            let keyword = keyword.as_str();
            // Not those of a media type, which are named (3.1, Media Type Object).
            let is_named = keyword == "examples" && !value.is_array();
            if DROPPED.contains(&keyword) || keyword.starts_with("x-") || is_named {
                continue;
            }
            let converted = match (holds(keyword), value) {
                (Some(Holds::Map), Value::Object(members)) => {
                    let members = members.iter().filter(|(name, _)| {
                        keyword != "properties" || !hidden.contains(&name.as_str())
                    });
                    let converted = members.map(|(name, member)| {
                        // Names that another one needs (`dependencies` before 2019-09).
                        let is_list = member.is_array();
                        let member = if is_list {
                            member.clone()
                        } else {
                            self.convert_at(member, depth + 1)
                        };
                        (name.clone(), member)
                    });
                    converted.collect()
                }
                (Some(Holds::List | Holds::OneOrList), Value::Array(list)) => {
                    list.iter().map(|member| self.convert_at(member, depth + 1)).collect()
                }
                (Some(Holds::One | Holds::OneOrList), Value::Object(_) | Value::Bool(_)) => {
                    self.convert_at(value, depth + 1)
                }
                (None, Value::Array(names)) if keyword == "required" => {
                    let is_hidden =
                        |name: &&Value| name.as_str().is_some_and(|name| hidden.contains(&name));
                    names.iter().filter(|name| !is_hidden(name)).cloned().collect()
                }
                (_, Value::Object(_)) if keyword == "discriminator" => {
                    json!({ "propertyName": value["propertyName"] })
                }
                (_, value) => value.clone(),
            };
            out.insert(keyword.to_owned(), converted);
        }
        if let (Some(example), false) = (map.get("example"), out.contains_key("examples")) {
            out.insert("examples".to_owned(), json!([example]));
        }
        if let Some(options) = out.shift_remove("oneOf") {
            one_of_as_any_of(options, &mut out);
        }
        if self.is_older {
            modernize(map, &mut out);
        }
        out.into()
    }

    /// The name in `$defs` of what a reference leads to.
    fn named(&mut self, reference: &str) -> Option<String> {
        if let Some(name) = self.names.get(reference) {
            return Some(name.clone());
        }
        let schema = target(self.root, reference)?;
        let last = decoded(reference.rsplit('/').next().unwrap_or_default());
        let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
        let base: String = last.chars().map(plain).collect();
        let mut name = base.clone();
        for n in 2.. {
            if !self.names.values().any(|taken| *taken == name) {
                break;
            }
            name = format!("{base}_{n}");
        }
        self.names.insert(reference.to_owned(), name.clone());
        self.pending.push_back((name.clone(), schema));
        Some(name)
    }

    /// The properties that only responses hold.
    fn answered_only(&self, properties: Option<&'d Value>) -> Vec<&'d str> {
        let each = properties.and_then(Value::as_object).into_iter().flatten();
        let is_hidden = |schema: &Value| {
            let schema = resolve(self.root, schema).unwrap_or(schema);
            schema.get("readOnly") == Some(&Value::Bool(true))
        };
        each.filter(|(_, schema)| is_hidden(schema)).map(|(name, _)| name.as_str()).collect()
    }
}

/// Has a value fit any of several alternatives where it should fit exactly one. Those of APIs overlap,
/// since a `discriminator`, or the API itself, tells them apart: strictly read, no value would fit
/// alternatives that require nothing.
fn one_of_as_any_of(options: Value, out: &mut Map<String, Value>) {
    if !out.contains_key("anyOf") {
        out.insert("anyOf".to_owned(), options);
        return;
    }
    let all = out.entry("allOf").or_insert_with(|| json!([]));
    if let Some(all) = all.as_array_mut() {
        all.push(json!({ "anyOf": options }));
    }
}

/// Rewrites what 3.0 says in another way.
fn modernize(from: &Map<String, Value>, out: &mut Map<String, Value>) {
    for (flag, limit) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(Value::Bool(is_exclusive)) = from.get(flag) {
            let number = out.get(limit).cloned().filter(|_| *is_exclusive);
            out.shift_remove(flag);
            if let Some(number) = number {
                out.shift_remove(limit);
                out.insert(flag.to_owned(), number);
            }
        }
    }
    if from.get("nullable") != Some(&Value::Bool(true)) {
        return;
    }
    if let Some(Value::String(kind)) = out.get("type") {
        let kind = json!([kind, "null"]);
        out.insert("type".to_owned(), kind);
    }
    if let Some(Value::Array(options)) = out.get_mut("enum")
        && !options.contains(&Value::Null)
    {
        options.push(Value::Null);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn convert(root: &Value, is_older: bool) -> (Value, Map<String, Value>) {
        let mut schemas = ToolSchemas::new(root, is_older);
        let schema = schemas.convert(&root["s"]);
        (schema, schemas.definitions())
    }

    #[test]
    fn the_dialect_of_3_0_becomes_2020_12() {
        let root = json!({"s": {
            "type": "object", "required": ["id", "name"], "xml": {"name": "x"},
            "properties": {
                "id": {"type": "integer", "readOnly": true},
                "name": {"type": "string", "nullable": true, "enum": ["a"], "example": "a"},
                "size": {"type": "number", "minimum": 0, "exclusiveMinimum": true,
                    "maximum": 9, "exclusiveMaximum": false},
            }
        }});
        let (schema, definitions) = convert(&root, true);
        assert_eq!(
            schema,
            json!({"type": "object", "required": ["name"], "properties": {
                "name": {"type": ["string", "null"], "enum": ["a", null], "examples": ["a"]},
                "size": {"type": "number", "exclusiveMinimum": 0, "maximum": 9},
            }})
        );
        assert!(definitions.is_empty());
    }

    #[test]
    fn alternatives_of_an_api_may_overlap() {
        let (cat, dog) =
            (json!({"properties": {"claws": {}}}), json!({"properties": {"bark": {}}}));
        let root = json!({"s": {"type": "object", "oneOf": [cat, dog], "properties": {
            "both": {"oneOf": [{"type": "integer"}, {"type": "number"}], "anyOf": [{"minimum": 1}],
                "allOf": [{"maximum": 9}]},
        }}});
        let (schema, _) = convert(&root, false);
        assert_eq!(schema["anyOf"], json!([cat, dog]));
        let both = &schema["properties"]["both"];
        assert_eq!(both["anyOf"], json!([{"minimum": 1}]));
        let numbers = json!({"anyOf": [{"type": "integer"}, {"type": "number"}]});
        assert_eq!(both["allOf"], json!([{"maximum": 9}, numbers]));
        assert!(schema.get("oneOf").is_none() && both.get("oneOf").is_none(), "{schema}");
    }

    #[test]
    fn references_move_into_definitions_and_may_be_recursive() {
        let root = json!({
            "s": {"type": "array", "items": {"$ref": "#/components/schemas/A%20b"}},
            "components": {"schemas": {
                "A b": {"type": "object", "properties": {"next": {"$ref": "#/components/schemas/A%20b"},
                    "far": {"$ref": "https://elsewhere.example/x"}, "lost": {"$ref": "#/nowhere"}}},
            }}
        });
        let (schema, definitions) = convert(&root, false);
        assert_eq!(schema, json!({"type": "array", "items": {"$ref": "#/$defs/A_b"}}));
        let properties = &definitions["A_b"]["properties"];
        assert_eq!(properties["next"], json!({"$ref": "#/$defs/A_b"}));
        assert!(properties["far"]["$ref"].is_null() && properties["lost"]["$ref"].is_null());
    }

    #[test]
    fn neither_depth_nor_number_of_schemas_is_up_to_the_document() {
        let mut deep = json!({});
        for _ in 0..500 {
            deep = json!({"items": deep});
        }
        let wide: Map<String, Value> =
            (0..10_000).map(|n| (n.to_string(), json!({"type": "string"}))).collect();
        let root = json!({"s": {"properties": {"deep": deep, "wide": {"properties": wide}}}});
        let mut schemas = ToolSchemas::new(&root, false);
        schemas.convert(&root["s"]);
        assert!(schemas.count() <= 10_100);
        let circle = json!({"a": {"$ref": "#/b"}, "b": {"$ref": "#/a"}});
        assert_eq!(resolve(&circle, &circle["a"]), None);
    }

    #[test]
    fn references_are_followed_wherever_a_schema_can_stand() {
        let part = json!({"$ref": "#/parts/a"});
        let moved = json!({"$ref": "#/$defs/a"});
        for (keyword, at) in [
            ("contentSchema", ""),
            ("additionalItems", ""),
            ("unevaluatedItems", ""),
            ("items", "list"),
            ("prefixItems", "list"),
            ("dependencies", "map"),
            ("dependentSchemas", "map"),
        ] {
            let holder = |part: &Value| match at {
                "list" => json!([part]),
                "map" => json!({"x": part}),
                _ => part.clone(),
            };
            let root = json!({"s": {keyword: holder(&part)}, "parts": {"a": {"type": "string"}}});
            let (schema, definitions) = convert(&root, false);
            assert_eq!(schema, json!({keyword: holder(&moved)}), "{keyword}");
            assert_eq!(definitions.len(), 1, "{keyword}");
        }
        let names = json!({"s": {"dependencies": {"x": ["y"]}}});
        assert_eq!(convert(&names, false).0, names["s"]);
    }
}
