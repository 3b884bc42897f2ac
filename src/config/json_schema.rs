//! The JSON Schema of an `mcp.json`, generated from the same table as the check.

use serde_json::{Map, Value, json};

use crate::keys;
use crate::shape::{BYTES_PATTERN, KnownKey, MAX_BYTES, MAX_DURATION_SECONDS, ObjectShape, Shape};

/// The schema as JSON Schema 2020-12. Unknown keys are allowed, as they are in the file.
pub fn json_schema() -> Value {
    let mut defs = Map::new();
    let root = object(&keys::FILE, &mut defs);
    for name in ["server", "listedServer"] {
        if let Some(server) = defs.get_mut(name).and_then(Value::as_object_mut) {
            server.insert("allOf".into(), transport_rules());
        }
    }
    let mut whole = Map::new();
    whole.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    whole.insert("title".into(), json!("mcp.json"));
    if let Value::Object(root) = root {
        whole.extend(root);
    }
    let servers = json!([{ "required": ["servers"] }, { "required": ["mcpServers"] }]);
    whole.insert("anyOf".into(), servers);
    whole.insert("$defs".into(), Value::Object(defs));
    Value::Object(whole)
}

/// Which of `command`, `launch`, `url` and `openapi` an entry needs.
fn transport_rules() -> Value {
    let process = json!({ "anyOf": [{ "required": ["command"] }, { "required": ["launch"] }] });
    let url = json!({ "anyOf": [
        { "required": ["url"] }, { "required": ["httpUrl"] }, { "required": ["serverUrl"] }
    ]});
    let openapi = json!({ "required": ["openapi"] });
    let of = |key: &str, words: &[&str]| json!({ "properties": { key: { "enum": words } }, "required": [key] });
    let remote = ["http", "sse", "websocket", "streamable-http", "streamableHttp", "ws"];
    let mut remote_types = remote.to_vec();
    remote_types.push("remote");
    json!([
        { "anyOf": [process, url, openapi] },
        {
            "if": { "anyOf": [of("type", &["stdio", "local"]), of("transport", &["stdio"])] },
            "then": process
        },
        {
            "if": { "anyOf": [of("type", &remote_types), of("transport", &remote)] },
            "then": url
        },
        {
            "if": { "anyOf": [of("type", &["openapi"]), of("transport", &["openapi"])] },
            "then": openapi
        }
    ])
}

fn schema(shape: &Shape, defs: &mut Map<String, Value>) -> Value {
    match shape {
        Shape::Text | Shape::Glob | Shape::Folder => json!({ "type": "string" }),
        Shape::Scalar => json!({ "type": ["string", "number", "boolean", "null"] }),
        Shape::Word(words) => {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            if words.iter().all(|(_, doc)| doc.is_empty()) {
                json!({ "type": "string", "enum": all })
            } else {
                let docs: Vec<&str> = words.iter().map(|(_, doc)| *doc).collect();
                json!({ "type": "string", "enum": all, "enumDescriptions": docs })
            }
        }
        Shape::Version(words) => {
            let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            json!({ "anyOf": [
                { "type": "string", "enum": all },
                { "type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}$" }
            ]})
        }
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::Seconds => {
            json!({ "type": "number", "exclusiveMinimum": 0, "maximum": MAX_DURATION_SECONDS })
        }
        Shape::Millis => {
            json!({ "type": "number", "exclusiveMinimum": 0, "maximum": MAX_DURATION_SECONDS * 1e3 })
        }
        Shape::Number { min, max } => json!({ "type": "number", "minimum": min, "maximum": max }),
        Shape::Integer { min, max } => {
            json!({ "type": "integer", "minimum": min, "maximum": max })
        }
        Shape::Bytes => json!({ "anyOf": [
            { "type": "integer", "minimum": 1, "maximum": MAX_BYTES },
            { "type": "string", "pattern": BYTES_PATTERN }
        ]}),
        Shape::List(of) => json!({ "type": "array", "items": schema(of, defs) }),
        Shape::Map(of) => json!({ "type": "object", "additionalProperties": schema(of, defs) }),
        Shape::Object(of) => {
            if !defs.contains_key(of.name) {
                // Inserted first, so that a recursive object does not loop forever.
                defs.insert(of.name.to_owned(), Value::Null);
                let value = object(of, defs);
                defs.insert(of.name.to_owned(), value);
            }
            json!({ "$ref": format!("#/$defs/{}", of.name) })
        }
        Shape::Either(shapes) => {
            let all: Vec<Value> = shapes.iter().map(|s| schema(s, defs)).collect();
            json!({ "anyOf": all })
        }
        Shape::Apart(of) => schema(of, defs),
        Shape::Any => json!({}),
    }
}

fn object(of: &ObjectShape, defs: &mut Map<String, Value>) -> Value {
    let mut properties = Map::new();
    for key in of.keys {
        properties.insert(key.name.to_owned(), property(key, defs));
    }
    let mut out = json!({ "type": "object", "properties": properties });
    if !of.required.is_empty() {
        out["required"] = json!(of.required);
    }
    // A setting and its alias are mutually exclusive.
    let conflicts: Vec<Value> = of
        .keys
        .iter()
        .filter_map(|k| k.alias_of.map(|main| json!({ "required": [main, k.name] })))
        .collect();
    if !conflicts.is_empty() {
        out["not"] = json!({ "anyOf": conflicts });
    }
    out
}

fn property(key: &KnownKey, defs: &mut Map<String, Value>) -> Value {
    let mut out = schema(&key.shape, defs);
    out["description"] = json!(key.doc);
    if let Some(default) = key.default.and_then(|text| serde_json::from_str::<Value>(text).ok()) {
        out["default"] = default;
    }
    out
}
