//! A request as JSON-RPC has it: method, target and parameters, and how these are written.
//!
//! The arguments of a caller may be a megabyte, so they are shared on the whole way from the caller
//! to the bytes of the request.

use std::borrow::Cow;
use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use crate::base::text::SafeText;
use crate::mcp::wire::cut;

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
    /// A request with the given parameters; what is no object is none.
    pub fn new(
        method: impl Into<Cow<'static, str>>,
        target: Option<&str>,
        params: Option<Value>,
    ) -> Self {
        let target = target.map(|text| SafeText::line(cut(text, 256)));
        let params = params.map(|params| match params {
            Value::Object(params) => Params::Whole(params),
            _ => Params::Whole(Map::new()),
        });
        Self { method: method.into(), target, params }
    }

    /// A request about something that has a name and takes arguments.
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

    /// What it is about, as its server spells it, and its arguments.
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

    /// Its text. `meta` is what `_meta` holds besides the progress token, which is the id.
    ///
    /// # Errors
    /// A value that has no JSON form.
    pub fn body(&self, id: i64, meta: &Map<String, Value>) -> serde_json::Result<Vec<u8>> {
        #[derive(serde::Serialize)]
        struct Body<'a> {
            jsonrpc: &'static str,
            id: i64,
            method: &'a str,
            params: Written<'a>,
        }
        let token = (!self.is_handshake()).then_some(id);
        let params = Written { params: self.params.as_ref(), meta, token };
        serde_json::to_vec(&Body { jsonrpc: "2.0", id, method: &self.method, params })
    }
}

/// `params` of a request, without `_meta`, which every transport adds itself.
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
        /// What later rounds add.
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

/// Parameters as they are written: with `_meta`, which holds the token of their progress.
struct Written<'a> {
    params: Option<&'a Params>,
    meta: &'a Map<String, Value>,
    token: Option<i64>,
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const META: &str = "_meta";
        let mut out = serializer.serialize_map(None)?;
        let more = match self.params {
            Some(Params::Named { name, arguments, more }) => {
                out.serialize_entry("name", &**name)?;
                if !arguments.is_null() {
                    out.serialize_entry("arguments", &**arguments)?;
                }
                Some(more)
            }
            Some(Params::Whole(params)) => Some(params),
            None => None,
        };
        for (key, value) in more.into_iter().flatten().filter(|(key, _)| *key != META) {
            out.serialize_entry(key, value)?;
        }
        if self.token.is_some() || !self.meta.is_empty() {
            out.serialize_entry(META, &Meta(self.meta, self.token))?;
        }
        out.end()
    }
}

struct Meta<'a>(&'a Map<String, Value>, Option<i64>);

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const TOKEN: &str = "progressToken";
        let mut out = serializer.serialize_map(None)?;
        for (key, value) in self.0.iter().filter(|(key, _)| *key != TOKEN) {
            out.serialize_entry(key, value)?;
        }
        if let Some(token) = self.1 {
            out.serialize_entry(TOKEN, &token)?;
        }
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(params: Option<&Params>, meta: &Value) -> Value {
        let meta = meta.as_object().cloned().unwrap_or_default();
        serde_json::to_value(Written { params, meta: &meta, token: Some(7) }).unwrap()
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
    fn no_arguments_are_left_out() {
        let rpc = RpcRequest::named("a", "b".into(), Arc::new(Value::Null));
        let expected = json!({"name": "b", "_meta": {"progressToken": 7}});
        assert_eq!(written(rpc.params.as_ref(), &json!({})), expected);
        assert_eq!(written(None, &json!({})), json!({"_meta": {"progressToken": 7}}));
    }
}
