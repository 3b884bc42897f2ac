//! What a request repeats in its headers (2026-07-28, Streamable HTTP): its method, its name, and the
//! parameters that a tool annotates (`x-mcp-header`). A tool whose annotations cannot be kept is set
//! aside, as the specification asks. Pure.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use serde_json::{Map, Value};

use super::message::RpcRequest;

const KEY: &str = "x-mcp-header";

/// Annotated parameters by tool: where each stands, and the name of its header.
#[derive(Debug, Default)]
pub struct Mirrored(HashMap<String, Vec<(String, String)>>);

impl Mirrored {
    /// Learns the annotations of a tool from its list, where [`problem`] found none in them.
    pub(super) fn learn(&mut self, tool: &Value) {
        let Some(name) = tool.get("name").and_then(Value::as_str) else { return };
        let mut found = Vec::new();
        if let Some(schema) = tool.get("inputSchema").and_then(Value::as_object) {
            collect(schema, "", &mut found);
        }
        if found.is_empty() {
            self.0.remove(name);
        } else {
            self.0.insert(name.to_owned(), found);
        }
    }

    /// The headers of a request.
    pub(super) fn headers(&self, rpc: &RpcRequest) -> Vec<(String, String)> {
        let mut headers = vec![("mcp-method".to_owned(), rpc.method.to_string())];
        let (name, arguments) = rpc.subject();
        if let Some(name) = name {
            headers.push(("mcp-name".to_owned(), encoded(name)));
        }
        let annotated = name.filter(|_| rpc.method == "tools/call").and_then(|n| self.0.get(n));
        for (pointer, header) in annotated.into_iter().flatten() {
            let value = match arguments.and_then(|arguments| arguments.pointer(pointer)) {
                Some(Value::String(text)) => text.clone(),
                Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
                _ => continue,
            };
            headers.push((format!("mcp-param-{header}"), encoded(&value)));
        }
        headers
    }
}

fn collect(schema: &Map<String, Value>, at: &str, found: &mut Vec<(String, String)>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, property) in properties.into_iter().flatten() {
        let Some(property) = property.as_object() else { continue };
        let pointer = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
        if let Some(header) = property.get(KEY).and_then(Value::as_str) {
            found.push((pointer.clone(), header.to_owned()));
        }
        collect(property, &pointer, found);
    }
}

/// A value as a header carries it; one that cannot stand there goes as base64.
fn encoded(value: &str) -> String {
    let blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    let bytes = value.as_bytes();
    let odd = bytes.iter().any(|byte| !(0x20..=0x7e).contains(byte));
    let marked = value.starts_with("=?base64?") && value.ends_with("?=");
    let plain = !(odd || marked || blank(bytes.first()) || blank(bytes.last()));
    if plain {
        return value.to_owned();
    }
    format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(value))
}

/// Why the annotations of a tool cannot be kept; `None` when they can, or when there are none.
pub(super) fn problem(tool: &Value) -> Option<String> {
    let schema = tool.get("inputSchema")?.as_object()?;
    if schema.contains_key(KEY) {
        return Some(format!("`{KEY}` stands at the root, not at a parameter"));
    }
    let mut names = HashSet::new();
    along(schema, "", &mut names).or_else(|| {
        elsewhere(schema).then(|| format!("`{KEY}` stands where no parameter of its own is"))
    })
}

/// Annotations on the way through `properties` alone, the only place where they mean something.
fn along(schema: &Map<String, Value>, path: &str, names: &mut HashSet<String>) -> Option<String> {
    for (key, property) in schema.get("properties")?.as_object()? {
        let Some(property) = property.as_object() else { continue };
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        if let Some(header) = property.get(KEY)
            && let Some(flaw) = flaw(header, property, names)
        {
            return Some(format!("parameter `{path}`: {flaw}"));
        }
        if let Some(flaw) = along(property, &path, names) {
            return Some(flaw);
        }
    }
    None
}

fn flaw(
    header: &Value,
    property: &Map<String, Value>,
    names: &mut HashSet<String>,
) -> Option<String> {
    let Some(name) = header.as_str() else {
        return Some(format!("`{KEY}` is no text"));
    };
    if name.is_empty() || !name.bytes().all(is_token) {
        return Some(format!("`{KEY}` is no name of an HTTP header"));
    }
    if !names.insert(name.to_ascii_lowercase()) {
        return Some(format!("the header `{name}` is named twice"));
    }
    let kind = property.get("type").and_then(Value::as_str);
    (!matches!(kind, Some("string" | "integer" | "boolean")))
        .then(|| format!("`{KEY}` needs a text, an integer or a boolean"))
}

/// Token characters of RFC 9110, section 5.6.2.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.' | b'^'..=b'`' | b'|' | b'~')
}

/// Whether an annotation stands below anything but `properties`: items, variants, definitions.
fn elsewhere(schema: &Map<String, Value>) -> bool {
    schema.iter().any(|(key, value)| match key.as_str() {
        "properties" => value
            .as_object()
            .is_some_and(|map| map.values().filter_map(Value::as_object).any(elsewhere)),
        "default" | "const" | "enum" | "examples" => false,
        _ => holds(value),
    })
}

fn holds(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(holds),
        Value::Object(map) => map.contains_key(KEY) || map.values().any(holds),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(properties: Value) -> Value {
        json!({"name": "t", "inputSchema": {"type": "object", "properties": properties}})
    }

    #[test]
    fn names_of_headers_on_plain_parameters_are_kept() {
        let city = json!({"type": "string", "x-mcp-header": "City"});
        let nested = json!({"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}});
        assert_eq!(problem(&tool(json!({"city": city, "nested": nested}))), None);
        assert_eq!(problem(&tool(json!({}))), None);
        assert_eq!(problem(&json!({"name": "no schema"})), None);
        let sample = json!({"type": "object", "default": {"x-mcp-header": "data, not schema"}});
        assert_eq!(problem(&tool(json!({"a": sample}))), None);
    }

    #[test]
    fn names_that_cannot_be_sent_set_the_tool_aside() {
        for header in [json!("X\r\nEvil: 1"), json!(""), json!("two words"), json!(5), json!("ü")]
        {
            let property = json!({"type": "string", "x-mcp-header": header});
            assert!(problem(&tool(json!({"a": property}))).is_some(), "{header}");
        }
        let number = json!({"type": "number", "x-mcp-header": "N"});
        assert!(problem(&tool(json!({"a": number}))).is_some());
        let same = |name: &str| json!({"type": "string", "x-mcp-header": name});
        assert!(problem(&tool(json!({"a": same("City"), "b": same("city")}))).is_some());
    }

    #[test]
    fn annotations_off_the_path_of_parameters_set_the_tool_aside() {
        let items = json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}});
        assert!(problem(&tool(json!({"a": items}))).is_some());
        let root = json!({"name": "t", "inputSchema": {"type": "object", "x-mcp-header": "A"}});
        assert!(problem(&root).is_some());
    }
}
