//! What a JSON value means as a JSON-RPC 2.0 message (sections 4 and 5), leniently: whatever can be
//! understood in one way only is understood, and what was wrong with it is noted.

use rmcp::model::RequestId;
use serde_json::{Map, Value};

use crate::base::text::SafeText;
use crate::error::RpcError;

/// A message of the server.
#[derive(Debug, PartialEq)]
pub enum Inbound {
    /// Asks the host something.
    Request {
        /// Its id.
        id: RequestId,
        /// Its method.
        method: String,
        /// Its parameters.
        params: Option<Value>,
    },
    /// Tells the host something.
    Notification {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Option<Value>,
    },
    /// Answers a request of the host.
    Answer {
        /// The id it answers; `None` when it names none.
        id: Option<RequestId>,
        /// What it says.
        outcome: Outcome,
    },
    /// Meant as a message, but no kind of one.
    Malformed {
        /// The id it names.
        id: Option<RequestId>,
        /// What is wrong.
        reason: String,
    },
    /// JSON that has nothing of the protocol, such as a structured log line.
    Junk,
}

/// What an answer says.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// A result.
    Result(Value),
    /// An error object.
    Error(RpcError),
    /// Neither, or both.
    Broken(String),
}

/// A message with what was tolerated in it.
#[derive(Debug)]
pub struct Classified {
    /// The message.
    pub inbound: Inbound,
    /// What was wrong with it, in a few words each.
    pub notes: Vec<String>,
}

/// Says what `value` is.
pub fn classify(value: Value) -> Classified {
    let mut notes = Vec::new();
    let inbound = match value {
        Value::Object(object) => from_object(object, &mut notes),
        _ => Inbound::Junk,
    };
    Classified { inbound, notes }
}

fn from_object(mut object: Map<String, Value>, notes: &mut Vec<String>) -> Inbound {
    let known = ["jsonrpc", "id", "method", "result", "error"];
    if !known.iter().any(|key| object.contains_key(*key)) {
        return Inbound::Junk;
    }
    match object.get("jsonrpc") {
        Some(Value::String(version)) if version == "2.0" => {}
        Some(other) => notes.push(format!("`jsonrpc` is {other}, not \"2.0\"")),
        None => notes.push("`jsonrpc` is missing".to_owned()),
    }
    let had_id = object.contains_key("id");
    let id = object.get("id").and_then(|id| request_id(id, notes));
    match object.remove("method") {
        Some(Value::String(method)) => {
            let params = object.remove("params");
            if params.as_ref().is_some_and(|p| !p.is_object()) {
                notes.push("`params` is no object".to_owned());
            }
            match id {
                Some(id) => Inbound::Request { id, method, params },
                None if had_id => Inbound::Malformed {
                    id: None,
                    reason: format!("request `{}` has an unusable id", SafeText::line(&method)),
                },
                None => Inbound::Notification { method, params },
            }
        }
        Some(_) => Inbound::Malformed { id, reason: "`method` is no string".to_owned() },
        None => answer(object, id, notes),
    }
}

/// An id that can be matched: an integer or a string. Whole floats count as integers.
fn request_id(id: &Value, notes: &mut Vec<String>) -> Option<RequestId> {
    match id {
        Value::Number(number) => number.as_i64().map(RequestId::Number).or_else(|| {
            let float = number.as_f64()?;
            let whole = float.fract() == 0.0 && float.abs() < 9e15;
            notes.push(format!("id {number} is no integer"));
            whole.then_some(RequestId::Number(float as i64))
        }),
        Value::String(text) => Some(RequestId::String(text.as_str().into())),
        Value::Null => None,
        _ => {
            notes.push("the id is neither a number nor a string".to_owned());
            None
        }
    }
}

fn answer(
    mut object: Map<String, Value>,
    id: Option<RequestId>,
    notes: &mut Vec<String>,
) -> Inbound {
    let outcome = match (object.remove("result"), object.remove("error")) {
        (Some(result), None) => Outcome::Result(result),
        (Some(result), Some(Value::Null)) => {
            notes.push("a result with `error: null`".to_owned());
            Outcome::Result(result)
        }
        (None, Some(error)) => Outcome::Error(rpc_error(error, notes)),
        (Some(Value::Null), Some(error)) => {
            notes.push("an error with `result: null`".to_owned());
            Outcome::Error(rpc_error(error, notes))
        }
        (Some(_), Some(_)) => Outcome::Broken("it has both a result and an error".to_owned()),
        (None, None) => {
            let near = object.keys().find(|key| {
                key.eq_ignore_ascii_case("result") || key.eq_ignore_ascii_case("error")
            });
            let near = near.map(|key| format!(" (it has `{}`)", SafeText::line(key)));
            let reason =
                format!("it has neither a result nor an error{}", near.unwrap_or_default());
            if id.is_none() {
                return Inbound::Malformed { id, reason };
            }
            Outcome::Broken(reason)
        }
    };
    if id.is_none() {
        notes.push("an answer without an id".to_owned());
    }
    Inbound::Answer { id, outcome }
}

fn rpc_error(error: Value, notes: &mut Vec<String>) -> RpcError {
    let Value::Object(mut object) = error else {
        notes.push("`error` is no object".to_owned());
        let message = match &error {
            Value::String(text) => SafeText::line(text),
            other => SafeText::line(&other.to_string()),
        };
        return RpcError { code: None, message: message.to_string(), data: None };
    };
    let code = object.get("code").and_then(whole_number);
    if code.is_none() {
        notes.push("the error has no integer `code`".to_owned());
    }
    let message = match object.get("message") {
        Some(Value::String(text)) => SafeText::line(text).to_string(),
        Some(other) => SafeText::line(&other.to_string()).to_string(),
        None => String::new(),
    };
    RpcError { code, message, data: object.remove("data") }
}

fn whole_number(value: &Value) -> Option<i64> {
    // Beyond this a number with a fraction stands for many whole ones, none of them meant.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let whole = |f: &f64| f.fract() == 0.0 && f.abs() <= EXACT;
    value.as_i64().or_else(|| value.as_f64().filter(whole).map(|f| f as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn noted(value: Value) -> (Inbound, Vec<String>) {
        let classified = classify(value);
        (classified.inbound, classified.notes)
    }

    #[test]
    fn understands_the_four_kinds_without_a_note() {
        let (message, notes) = noted(json!({"jsonrpc":"2.0","id":1,"result":{"a":1}}));
        assert_eq!(
            message,
            Inbound::Answer {
                id: Some(RequestId::Number(1)),
                outcome: Outcome::Result(json!({"a":1}))
            }
        );
        assert!(notes.is_empty());
        let (message, _) = noted(json!({"jsonrpc":"2.0","method":"a","params":{}}));
        assert!(matches!(message, Inbound::Notification { .. }));
        let (message, _) = noted(json!({"jsonrpc":"2.0","id":"x","method":"a"}));
        assert!(matches!(message, Inbound::Request { .. }));
    }

    #[test]
    fn tolerates_what_has_one_meaning_and_notes_it() {
        let (message, notes) = noted(json!({"id":3.0,"result":{},"error":null}));
        assert!(matches!(message, Inbound::Answer { id: Some(RequestId::Number(3)), .. }));
        assert_eq!(notes.len(), 3, "{notes:?}");
        let (message, notes) = noted(json!({"jsonrpc":"2.0","id":3,"error":"boom"}));
        let Inbound::Answer { outcome: Outcome::Error(error), .. } = message else {
            panic!("an error")
        };
        assert_eq!((error.code, error.message.as_str()), (None, "boom"));
        assert_eq!(notes, ["`error` is no object"]);
    }

    #[test]
    fn names_what_is_wrong_with_the_rest() {
        let broken = |value| match classify(value).inbound {
            Inbound::Answer { outcome: Outcome::Broken(reason), .. }
            | Inbound::Malformed { reason, .. } => reason,
            other => panic!("{other:?}"),
        };
        let says = |value, text: &str| {
            let reason = broken(value);
            assert!(reason.contains(text), "{reason}");
        };
        says(json!({"jsonrpc":"2.0","id":3,"Result":{}}), "`Result`");
        says(json!({"jsonrpc":"2.0","id":3,"result":1,"error":{"code":1}}), "both");
        says(json!({"jsonrpc":"2.0","id":[1],"method":"x"}), "unusable id");
        says(json!({"jsonrpc":"2.0","method":7}), "no string");
        assert_eq!(classify(json!({"level":"info"})).inbound, Inbound::Junk);
        assert_eq!(classify(json!(5)).inbound, Inbound::Junk);
    }

    use proptest::prelude::*;

    fn any_message() -> impl Strategy<Value = Value> {
        let ids = [
            json!(1),
            json!("x"),
            json!(null),
            json!(2.5),
            json!(4.0),
            json!([1]),
            json!(u64::MAX),
        ];
        let errors =
            [json!({"code": 1, "message": "m"}), json!({"message": 2}), json!("e"), json!(null)];
        let key = |key: &'static str, values: Vec<Value>| {
            let member = prop::sample::select(values).prop_map(move |value| (key, value));
            prop::option::weighted(0.6, member)
        };
        let members = (
            key("jsonrpc", vec![json!("2.0"), json!("2.0"), json!("2.0"), json!("1.0"), json!(2)]),
            key("id", ids.to_vec()),
            key("method", vec![json!("ping"), json!("a/b"), json!(7), json!(null)]),
            key("params", vec![json!({}), json!([1]), json!(null)]),
            key("result", vec![json!({}), json!("r"), json!(null)]),
            key("error", errors.to_vec()),
            key("Result", vec![json!({})]),
            key("level", vec![json!("info")]),
        );
        members.prop_map(|(a, b, c, d, e, f, g, h)| {
            let members = [a, b, c, d, e, f, g, h].into_iter().flatten();
            Value::Object(members.map(|(key, value)| (key.to_owned(), value)).collect())
        })
    }

    /// What a message is by the letter of JSON-RPC 2.0 and MCP; `None` when it breaks a rule.
    fn by_the_letter(message: &Value) -> Option<&'static str> {
        let id = message.get("id");
        let named = id.is_some_and(|id| id.is_i64() || id.is_string());
        let plain = message["jsonrpc"] == "2.0" && (id.is_none() || named);
        if !plain {
            return None;
        }
        if let Some(method) = message.get("method") {
            let params = message.get("params").is_none_or(Value::is_object);
            let kind = if named { "request" } else { "notification" };
            return (method.is_string() && params).then_some(kind);
        }
        let error = |error: &Value| error["code"].is_i64() && error.is_object();
        match (message.get("result"), message.get("error")) {
            (Some(_), None) if named => Some("result"),
            (None, Some(found)) if named && error(found) => Some("error"),
            _ => None,
        }
    }

    proptest! {
        #[test]
        fn every_mixture_of_keys_is_what_the_letter_says_or_is_told_to_break_it(
            message in any_message()
        ) {
            let (inbound, notes) = noted(message.clone());
            let kind = match &inbound {
                Inbound::Request { .. } => Some("request"),
                Inbound::Notification { .. } => Some("notification"),
                Inbound::Answer { outcome: Outcome::Result(_), .. } => Some("result"),
                Inbound::Answer { outcome: Outcome::Error(_), .. } => Some("error"),
                Inbound::Answer { .. } | Inbound::Malformed { .. } | Inbound::Junk => None,
            };
            let kind = kind.filter(|_| notes.is_empty());
            prop_assert_eq!(kind, by_the_letter(&message), "{:?} {:?}", inbound, notes);
            if let Inbound::Answer { id: None, outcome: Outcome::Result(_) } = &inbound {
                prop_assert!(!notes.is_empty(), "an answer to nobody is not told");
            }
        }
    }
}
