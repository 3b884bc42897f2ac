//! What a request repeats in its headers (2026-07-28, Streamable HTTP): method, name, and the
//! parameters that a tool annotates (`x-mcp-header`). A tool with invalid annotations is set aside,
//! as the specification requires. Pure.

use std::collections::HashMap;

use base64::Engine as _;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use base::pointer::child_pointer;
use protocol::RpcRequest;

const KEY: &str = "x-mcp-header";

/// Annotated parameters by tool.
#[derive(Debug, Default)]
pub struct Mirrored(HashMap<String, Headers>);

/// JSON pointer of each header's parameter; header names in lower case, for comparison.
type Headers = IndexMap<String, String>;

impl Mirrored {
    /// Reads the annotations of a tool from its list entry.
    ///
    /// # Errors
    /// Why they are invalid.
    pub(super) fn learn(&mut self, tool: &Value) -> Result<(), String> {
        let Some(schema) = tool.get("inputSchema").and_then(Value::as_object) else {
            return Ok(());
        };
        if schema.contains_key(KEY) {
            return Err(format!("`{KEY}` is at the root, not on a parameter"));
        }
        let mut found = Headers::new();
        collect(schema, "", &mut found)?;
        if elsewhere(schema) {
            return Err(format!("`{KEY}` is outside the parameters"));
        }
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        self.0.insert(name.to_owned(), found);
        Ok(())
    }

    /// The headers of a request.
    pub(super) fn headers(&self, rpc: &RpcRequest) -> Vec<(String, String)> {
        let mut headers = vec![("mcp-method".to_owned(), rpc.method.to_string())];
        let (name, arguments) = rpc.subject();
        if let Some(name) = name {
            headers.push(("mcp-name".to_owned(), encoded(name)));
        }
        let annotated = name.filter(|_| rpc.method == "tools/call").and_then(|n| self.0.get(n));
        for (header, pointer) in annotated.into_iter().flatten() {
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

/// Collects annotations reached through `properties` only, where alone they are valid.
fn collect(schema: &Map<String, Value>, at: &str, found: &mut Headers) -> Result<(), String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (key, property) in properties.into_iter().flatten() {
        let Some(property) = property.as_object() else { continue };
        let pointer = child_pointer(at, key);
        if let Some(header) = property.get(KEY) {
            let name = header_name(header, property, found);
            let named = |flaw| format!("parameter `{}`: {flaw}", pointer[1..].replace('/', "."));
            found.insert(name.map_err(named)?, pointer.clone());
        }
        collect(property, &pointer, found)?;
    }
    Ok(())
}

fn header_name(
    header: &Value,
    property: &Map<String, Value>,
    found: &Headers,
) -> Result<String, String> {
    let name = header.as_str().ok_or_else(|| format!("`{KEY}` is not text"))?;
    if http::HeaderName::from_bytes(name.as_bytes()).is_err() {
        return Err(format!("`{KEY}` is not an HTTP header name"));
    }
    let lower = name.to_ascii_lowercase();
    if found.contains_key(&lower) {
        return Err(format!("the header `{name}` is named twice"));
    }
    match property.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => Ok(lower),
        _ => Err(format!("`{KEY}` needs a string, integer or boolean")),
    }
}

/// A value as a header value; base64 if it cannot be sent literally.
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

/// Whether an annotation is below anything but `properties`: items, variants, definitions.
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

    fn problem(tool: &Value) -> Option<String> {
        Mirrored::default().learn(tool).err()
    }

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

    #[test]
    fn any_number_of_headers_is_compared_in_one_pass() {
        let header = |n: usize| json!({"type": "string", "x-mcp-header": format!("H{n:06}")});
        let many = tool((0..40_000).map(|n| (n.to_string(), header(n))).collect());
        let began = std::time::Instant::now();
        assert_eq!(problem(&many), None);
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    }
}
