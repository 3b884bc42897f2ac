//! A JSON-RPC request: method, target and parameters, and their serialisation.
//!
//! A caller's arguments may be a megabyte, so they are shared all the way from the caller to the
//! serialised request.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

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

    /// `logging/setLevel`
    pub fn set_level(level: LogLevel) -> Self {
        Self::new("logging/setLevel", None, Some(json!({"level": level_name(level)})))
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
    /// `numbers` are those of the arguments, and of `meta`, that are sent as they were written.
    ///
    /// # Errors
    /// When a value has no JSON form.
    pub fn body(
        &self,
        id: i64,
        meta: &Map<String, Value>,
        numbers: [&WrittenNumbers; 2],
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

/// The level as the specification spells it; it has no `trace` (MCP, server features, utilities,
/// logging).
pub fn level_name(level: LogLevel) -> Value {
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
    known: ExactJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress_token: Option<i64>,
}

impl<'a> WrittenParams<'a> {
    fn new(
        params: Option<&'a Params>,
        known: &'a Map<String, Value>,
        token: Option<i64>,
        [numbers, of_meta]: [&'a WrittenNumbers; 2],
    ) -> Self {
        let meta = Meta { known: of_meta.within_members(known), progress_token: token };
        let meta = (token.is_some() || !known.is_empty()).then_some(meta);
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(params: Option<&Params>, meta: &Value) -> Value {
        let meta = meta.as_object().cloned().unwrap_or_default();
        serde_json::to_value(WrittenParams::new(params, &meta, Some(7), [&NO_NUMBERS; 2])).unwrap()
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
            String::from_utf8(rpc.body(7, &Map::new(), [&numbers, &NO_NUMBERS]).unwrap()).unwrap()
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
