//! A JSON Schema in readable form: a signature on one line, and a tree. Pure; bounded in depth and
//! size, because schemas come from servers.

use serde_json::{Map, Value};

use crate::prelude::*;
use crate::widget::Doc;

const MAX_DEPTH: usize = 8;
const MAX_LINES: usize = 400;
const MAX_PARAMETERS: usize = 24;

/// `(path: string, depth?: integer)`.
pub fn signature(schema: &Value) -> Ink {
    let mut out = String::from("(");
    let properties = schema.get("properties").and_then(Value::as_object);
    let total = properties.map_or(0, Map::len);
    for (n, (name, sub)) in properties.into_iter().flatten().take(MAX_PARAMETERS).enumerate() {
        if n > 0 {
            out.push_str(", ");
        }
        let optional = if is_required(schema, name) { "" } else { "?" };
        out.extend([name, optional, ": ", &type_name(sub, schema, 2)]);
    }
    if total > MAX_PARAMETERS {
        out.push_str(", ...");
    }
    out.push(')');
    Ink::line(&out)
}

fn is_required(schema: &Value, name: &str) -> bool {
    let names = schema["required"].as_array();
    names.is_some_and(|names| names.iter().any(|n| n.as_str() == Some(name)))
}

fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    let pointer = schema["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    pointer.and_then(|pointer| root.pointer(pointer)).unwrap_or(schema)
}

/// `string`, `[object]`, `"a" | "b"`, `string | null`, ...
fn type_name(schema: &Value, root: &Value, depth: usize) -> String {
    let schema = resolve(schema, root);
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let shown: Vec<String> = values.iter().take(4).map(ToString::to_string).collect();
        let more = if values.len() > 4 { " | ..." } else { "" };
        return format!("{}{more}", shown.join(" | "));
    }
    if let Some(value) = schema.get("const") {
        return value.to_string();
    }
    for key in ["anyOf", "oneOf"] {
        if let Some(options) = schema.get(key).and_then(Value::as_array).filter(|_| depth > 0) {
            let names: Vec<String> =
                options.iter().take(4).map(|option| type_name(option, root, depth - 1)).collect();
            return names.join(" | ");
        }
    }
    match schema.get("type") {
        Some(Value::String(name)) if name == "array" => match schema.get("items") {
            Some(items) if depth > 0 => format!("[{}]", type_name(items, root, depth - 1)),
            _ => "[any]".into(),
        },
        Some(Value::String(name)) => name.clone(),
        Some(Value::Array(names)) => {
            names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" | ")
        }
        _ if schema.get("properties").is_some() => "object".into(),
        _ => "any".into(),
    }
}

/// Adds the schema's members as a tree.
pub fn tree(schema: &Value, doc: &mut Doc) {
    let end = doc.len() + MAX_LINES;
    members(schema, schema, 1, doc, end);
}

fn members(schema: &Value, root: &Value, depth: usize, doc: &mut Doc, end: usize) {
    let schema = resolve(schema, root);
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        if depth == 1 {
            doc.text(2, &ink!("no parameters"), Role::Faint);
        }
        return;
    };
    for (name, sub) in properties {
        if doc.len() >= end {
            doc.text((depth * 2) as u16, &ink!("..."), Role::Faint);
            return;
        }
        member(schema, name, sub, root, depth, doc);
        if depth < MAX_DEPTH {
            let sub = resolve(sub, root);
            let inner = sub.get("items").map_or(sub, |items| resolve(items, root));
            if inner.get("properties").is_some() {
                members(inner, root, depth + 1, doc, end);
            }
        }
    }
}

fn member(parent: &Value, name: &str, sub: &Value, root: &Value, depth: usize, doc: &mut Doc) {
    let resolved = resolve(sub, root);
    let star: &'static str = if is_required(parent, name) { " *" } else { "" };
    let mut line = vec![
        (ink!("{:1$}", "", depth * 2), Role::Text),
        (Ink::line(name), Role::JsonKey),
        (ink!("{}", star), Role::Warning),
        (ink!("  {}", Ink::line(&type_name(sub, root, 2))), Role::Muted),
    ];
    for key in ["default", "format", "minimum", "maximum", "minLength", "maxLength", "pattern"] {
        if let Some(value) = resolved.get(key) {
            let text = match value {
                Value::String(text) => Ink::line(text),
                other => Ink::line(&other.to_string()),
            };
            line.push((ink!("  {} {}", key, text), Role::Faint));
        }
    }
    doc.line(line);
    let words = sub.get("description").or_else(|| resolved.get("description"));
    if let Some(words) = words.and_then(Value::as_str) {
        doc.text((depth * 2 + 2) as u16, &SafeText::block(words), Role::Foreign);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_signature_reads_like_a_function() {
        let schema = json!({
            "type": "object",
            "required": ["path"],
            "properties": {
                "path": {"type": "string"},
                "tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}},
                "mode": {"enum": ["r", "w"]},
                "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            },
            "$defs": {"tag": {"type": "string"}},
        });
        assert_eq!(
            signature(&schema).as_str(),
            r#"(path: string, tags?: [string], mode?: "r" | "w", limit?: integer | null)"#
        );
    }

    #[test]
    fn a_schema_that_contains_itself_ends() {
        let schema = json!({"properties": {"child": {"$ref": "#"}}});
        let mut doc = Doc::new(80);
        tree(&schema, &mut doc);
        assert!(doc.len() <= MAX_DEPTH + 1, "{}", doc.len());
        assert_eq!(signature(&json!(true)).as_str(), "()");
    }
}
