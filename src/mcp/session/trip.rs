//! One round trip as it is asked for: method, target and parameters, and how these are written.
//!
//! The arguments of a caller may be a megabyte, so they are shared on the whole way from the caller
//! to the bytes of the request.

use std::sync::Arc;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value};

use crate::base::text::SafeText;
use crate::mcp::wire::exchange::cut;

/// One round trip: method, target and parameters.
#[derive(Clone, Debug)]
pub struct Trip {
    /// Method.
    pub method: &'static str,
    /// Tool, prompt or URI.
    pub target: Option<SafeText>,
    /// `params`.
    pub params: Option<Params>,
}

impl Trip {
    /// A round trip with the given parameters; what is no object is none.
    pub fn new(method: &'static str, target: Option<&str>, params: Option<Value>) -> Self {
        let target = target.map(|text| SafeText::line(cut(text, 256)));
        let params = params.map(|params| match params {
            Value::Object(params) => Params::Whole(params),
            _ => Params::Whole(Map::new()),
        });
        Self { method, target, params }
    }

    /// A round trip about something that has a name and takes arguments.
    pub fn named(method: &'static str, name: Arc<str>, arguments: Arc<Value>) -> Self {
        let target = Some(SafeText::line(cut(&name, 256)));
        Self { method, target, params: Some(Params::Named { name, arguments, more: Map::new() }) }
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

    /// As one value.
    pub fn into_value(self) -> Value {
        Value::Object(match self {
            Self::Whole(params) => params,
            Self::Named { name, arguments, more } => {
                let mut params = Map::new();
                params.insert("name".to_owned(), Value::from(&*name));
                if !arguments.is_null() {
                    params.insert("arguments".to_owned(), Arc::unwrap_or_clone(arguments));
                }
                params.extend(more);
                params
            }
        })
    }
}

/// Parameters as they are written: with `_meta`, which holds the token of their progress.
pub struct Written<'a> {
    /// The parameters.
    pub params: Option<&'a Params>,
    /// What `_meta` holds besides.
    pub meta: &'a Map<String, Value>,
    /// `progressToken`.
    pub token: i64,
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
        out.serialize_entry(META, &Meta(self.meta, self.token))?;
        out.end()
    }
}

struct Meta<'a>(&'a Map<String, Value>, i64);

impl Serialize for Meta<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const TOKEN: &str = "progressToken";
        let mut out = serializer.serialize_map(None)?;
        for (key, value) in self.0.iter().filter(|(key, _)| *key != TOKEN) {
            out.serialize_entry(key, value)?;
        }
        out.serialize_entry(TOKEN, &self.1)?;
        out.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn written(params: Option<&Params>, meta: &Value) -> Value {
        let meta = meta.as_object().cloned().unwrap_or_default();
        serde_json::to_value(Written { params, meta: &meta, token: 7 }).unwrap()
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
        let mut expected = whole.clone();
        expected["_meta"] = json!({"x": 1, "progressToken": 7});
        assert_eq!(written(Some(&params), &json!({"x": 1, "progressToken": 0})), expected);
        assert_eq!(params.into_value(), whole);
        let forged = Trip::new("a", None, Some(json!({"_meta": {"y": 1}, "b": 2}))).params;
        let expected = json!({"b": 2, "_meta": {"progressToken": 7}});
        assert_eq!(written(forged.as_ref(), &json!({})), expected);
    }

    #[test]
    fn no_arguments_are_left_out() {
        let trip = Trip::named("a", "b".into(), Arc::new(Value::Null));
        assert_eq!(trip.params.unwrap().into_value(), json!({"name": "b"}));
        assert_eq!(written(None, &json!({})), json!({"_meta": {"progressToken": 7}}));
    }
}
