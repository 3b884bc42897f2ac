//! A JSON-RPC request: method, target and parameters, and their serialisation.
//!
//! A caller's arguments may be a megabyte, so they are shared all the way from the caller to the
//! serialised request.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Map, Value, json};

use base::pointer::child_pointer;
use base::text::cut;
use base::text::json::{ExactJson, NO_NUMBERS, WrittenNumbers};
use base::{LogLevel, SafeText};

/// A request of the host as it is sent.
#[derive(Clone, Debug)]
pub struct RpcRequest {
    /// Method.
    pub method: Cow<'static, str>,
    /// Tool, prompt or URI.
    pub target: Option<SafeText>,
    /// `params`.
    pub params: Option<Params>,
}

impl RpcRequest {
    /// A request with the given parameters; a value that is not an object counts as empty.
    pub fn new(
        method: impl Into<Cow<'static, str>>,
        target: Option<&str>,
        params: Option<Value>,
    ) -> Self {
        let target = target.map(|text| SafeText::line(cut(text, 256)));
        let params = params.map(|params| match params {
            Value::Object(mut params) => {
                params.shift_remove("_meta");
                Params::Whole(params)
            }
            _ => Params::Whole(Map::new()),
        });
        Self { method: method.into(), target, params }
    }

    /// A request with a name and arguments.
    pub fn named(method: &'static str, name: Arc<str>, arguments: Arc<Value>) -> Self {
        let target = Some(SafeText::line(cut(&name, 256)));
        let method = Cow::Borrowed(method);
        Self { method, target, params: Some(Params::Named { name, arguments, more: Map::new() }) }
    }

    /// Whether it opens a session.
    pub fn is_handshake(&self) -> bool {
        matches!(&*self.method, "initialize" | "server/discover")
    }

    /// `tools/call echo`
    pub fn name(&self) -> String {
        match &self.target {
            Some(target) => format!("{} {target}", self.method),
            None => self.method.to_string(),
        }
    }

    /// Its name, URI or task id as the server spells it, and its arguments.
    pub fn subject(&self) -> (Option<&str>, Option<&Value>) {
        match &self.params {
            Some(Params::Named { name, arguments, .. }) => (Some(name), Some(arguments)),
            Some(Params::Whole(params)) => {
                let key = match &*self.method {
                    "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "uri",
                    "tasks/get" | "tasks/cancel" => "taskId",
                    "tools/call" | "prompts/get" => "name",
                    _ => return (None, None),
                };
                (params.get(key).and_then(Value::as_str), params.get("arguments"))
            }
            None => (None, None),
        }
    }

    /// Its JSON text. `meta` is the content of `_meta` besides the progress token, which is the id;
    /// `numbers` are those of the arguments that are sent as they were written.
    ///
    /// # Errors
    /// When a value has no JSON form.
    pub fn body(
        &self,
        id: i64,
        meta: &Map<String, Value>,
        numbers: &WrittenNumbers,
    ) -> serde_json::Result<Vec<u8>> {
        #[derive(Serialize)]
        struct MessageBody<'a> {
            jsonrpc: &'static str,
            id: i64,
            method: &'a str,
            params: WrittenParams<'a>,
        }
        let token = (!self.is_handshake()).then_some(id);
        let params = WrittenParams::new(self.params.as_ref(), meta, token, numbers);
        serde_json::to_vec(&MessageBody { jsonrpc: "2.0", id, method: &self.method, params })
    }
}

/// `logging/setLevel`
pub(super) fn set_level(level: LogLevel) -> RpcRequest {
    RpcRequest::new("logging/setLevel", None, Some(json!({"level": level_name(level)})))
}

/// The level as the specification spells it; it has no `trace`.
pub(super) fn level_name(level: LogLevel) -> Value {
    json!(level.max(LogLevel::Debug))
}

/// `params` of a request, without `_meta`, which [`RpcRequest::body`] adds.
#[derive(Clone, Debug)]
pub enum Params {
    /// As they are.
    Whole(Map<String, Value>),
    /// A name and arguments.
    Named {
        /// `name`.
        name: Arc<str>,
        /// `arguments`; left out when they are null.
        arguments: Arc<Value>,
        /// Parameters added by later rounds.
        more: Map<String, Value>,
    },
}

impl Params {
    /// Adds a parameter.
    pub fn insert(&mut self, key: &str, value: Value) {
        let (Self::Whole(more) | Self::Named { more, .. }) = self;
        more.insert(key.to_owned(), value);
    }
}

/// Parameters as serialised: with `_meta`, which holds the progress token.
#[derive(Serialize)]
struct WrittenParams<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<ExactJson<'a>>,
    #[serde(flatten)]
    more: Option<ExactJson<'a>>,
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<Meta<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(flatten)]
    known: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_token: Option<i64>,
}

impl<'a> WrittenParams<'a> {
    fn new(
        params: Option<&'a Params>,
        known: &'a Map<String, Value>,
        token: Option<i64>,
        numbers: &'a WrittenNumbers,
    ) -> Self {
        let meta = Meta { known, progress_token: token };
        let meta = Some(meta).filter(|_| token.is_some() || !known.is_empty());
        let (name, arguments, more) = match params {
            Some(Params::Named { name, arguments, more }) => {
                let arguments = Some(&**arguments).filter(|value| !value.is_null());
                let arguments = arguments.map(|value| numbers.within(value));
                (Some(&**name), arguments, Some(NO_NUMBERS.within_members(more)))
            }
            Some(Params::Whole(params)) => (None, None, Some(numbers.within_members(params))),
            None => (None, None, None),
        };
        Self { name, arguments, more, meta }
    }
}

// What a request repeats in its headers (2026-07-28, Streamable HTTP): method, name, and the
// parameters that a tool annotates (`x-mcp-header`). A tool with invalid annotations is set aside,
// as the specification requires. Pure.

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
    use super::*;
    use serde_json::json;

    fn written(params: Option<&Params>, meta: &Value) -> Value {
        let meta = meta.as_object().cloned().unwrap_or_default();
        serde_json::to_value(WrittenParams::new(params, &meta, Some(7), &NO_NUMBERS)).unwrap()
    }

    #[test]
    fn parameters_are_written_as_they_are_given_and_meta_is_the_hosts() {
        let mut params = Params::Named {
            name: "echo".into(),
            arguments: Arc::new(json!({"a": 1})),
            more: Map::new(),
        };
        params.insert("requestState", json!("s"));
        let whole = json!({"name": "echo", "arguments": {"a": 1}, "requestState": "s"});
        let mut expected = whole;
        expected["_meta"] = json!({"x": 1, "progressToken": 7});
        assert_eq!(written(Some(&params), &json!({"x": 1, "progressToken": 0})), expected);
        let forged = RpcRequest::new("a", None, Some(json!({"_meta": {"y": 1}, "b": 2}))).params;
        let expected = json!({"b": 2, "_meta": {"progressToken": 7}});
        assert_eq!(written(forged.as_ref(), &json!({})), expected);
    }

    #[test]
    fn numbers_of_arguments_and_of_whole_parameters_are_written_as_they_were_typed() {
        let body = |rpc: &RpcRequest, text: &str| {
            let numbers = base::text::json::WrittenValue::parse(text).unwrap().numbers;
            String::from_utf8(rpc.body(7, &Map::new(), &numbers).unwrap()).unwrap()
        };
        let arguments = Arc::new(json!({"a": [0.0, 1.5]}));
        let named = RpcRequest::named("tools/call", "t".into(), arguments);
        let text = body(&named, r#"{"a":[1e-400,1.5]}"#);
        assert!(text.contains(r#""arguments":{"a":[1e-400,1.5]}"#), "{text}");
        let whole = RpcRequest::new("x/y", None, Some(json!({"n": 1000.0, "s": "1e3"})));
        let text = body(&whole, r#"{"n":1e3,"s":"1e3"}"#);
        assert!(text.contains(r#""n":1e3,"s":"1e3""#), "{text}");
    }

    #[test]
    fn no_arguments_are_left_out() {
        let rpc = RpcRequest::named("a", "b".into(), Arc::new(Value::Null));
        let expected = json!({"name": "b", "_meta": {"progressToken": 7}});
        assert_eq!(written(rpc.params.as_ref(), &json!({})), expected);
        assert_eq!(written(None, &json!({})), json!({"_meta": {"progressToken": 7}}));
    }
}

#[cfg(test)]
mod mirrored_tests {
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
