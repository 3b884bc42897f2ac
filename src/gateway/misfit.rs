//! What is wrong with a message, and with the parameters of a method that is known: which one, and
//! what it must be.

use serde_json::Value;

use protocol::{RequestId, find_id, find_last_id, tokens};

/// The id of a request that cannot be parsed, as far as the beginning of its text can be followed, or
/// its end where that was kept alone. An answer has the id of another's request, and none of its own.
pub(crate) fn id_of_request(head: &[u8], tail: &[u8]) -> Option<RequestId> {
    let is_request = names_a_method(head);
    is_request.then(|| find_id(head).or_else(|| find_last_id(tail.trim_ascii_end()))).flatten()
}

/// Whether `method` is a key of the first level of a message.
fn names_a_method(text: &[u8]) -> bool {
    let mut depth = 0_i64;
    tokens(text).any(|token| {
        let next = text[token.end..].trim_ascii_start().first();
        match &text[token] {
            b"{" | b"[" => depth += 1,
            b"}" | b"]" => depth -= 1,
            b"\"method\"" => return depth == 1 && next == Some(&b':'),
            _ => {}
        }
        false
    })
}

/// Levels of log messages (logging, "Log Levels").
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// What a parameter must be.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Object,
    /// An object of texts.
    Texts,
    Level,
}

impl Form {
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Object => "an object",
            Self::Texts => "an object whose values are text",
            Self::Level => {
                "one of: debug, info, notice, warning, error, critical, alert, emergency"
            }
        }
    }

    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Text => value.is_string(),
            Self::Object => value.is_object(),
            Self::Texts => value.as_object().is_some_and(|all| all.values().all(Value::is_string)),
            Self::Level => value.as_str().is_some_and(|level| LEVELS.contains(&level)),
        }
    }
}

/// A parameter: its name, whether it is required, and what it must be.
type Wanted = (&'static str, bool, Form);

/// The parameters of a method, as far as they have a fixed form.
fn wanted(method: &str) -> &'static [Wanted] {
    match method {
        "initialize" => &[
            ("protocolVersion", true, Form::Text),
            ("capabilities", true, Form::Object),
            ("clientInfo", true, Form::Object),
        ],
        "tools/call" => &[("name", true, Form::Text), ("arguments", false, Form::Object)],
        "prompts/get" => &[("name", true, Form::Text), ("arguments", false, Form::Texts)],
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
            &[("uri", true, Form::Text)]
        }
        "completion/complete" => &[("ref", true, Form::Object), ("argument", true, Form::Object)],
        "logging/setLevel" => &[("level", true, Form::Level)],
        "tasks/get" | "tasks/cancel" | "tasks/update" => &[("taskId", true, Form::Text)],
        _ => &[("cursor", false, Form::Text)],
    }
}

/// Says what is wrong with the parameters of a request that could not be read.
pub(crate) fn misfit(method: &str, params: Option<&Value>) -> String {
    for (name, is_required, form) in wanted(method) {
        let value = params.and_then(|params| params.get(*name)).filter(|value| !value.is_null());
        match value {
            None if *is_required => return format!("`{method}`: `{name}` is missing"),
            Some(value) if !form.fits(value) => {
                return format!("`{method}`: `{name}` must be {}", form.name());
            }
            _ => {}
        }
    }
    for name in ["name", "version"] {
        let client = params.and_then(|params| params.get("clientInfo"));
        if method == "initialize" && client.is_some_and(|client| !client[name].is_string()) {
            return format!("`initialize`: `clientInfo` must have `{name}`, a text");
        }
    }
    format!("the parameters of `{method}` are not of the form that it has")
}

/// What keeps a value from being a message (JSON-RPC 2.0, section 4); `None` when that is not plain.
pub(crate) fn flaw(sent: &Value) -> Option<&'static str> {
    let Some(members) = sent.as_object() else { return Some("a message is an object") };
    let is_id = |id: &Value| id.is_string() || id.as_i64().is_some();
    Some(match (members.get("jsonrpc"), members.get("method"), members.get("params")) {
        (None, ..) => "`jsonrpc` is missing",
        (Some(version), ..) if version != "2.0" => "`jsonrpc` is not \"2.0\"",
        (_, Some(method), _) if !method.is_string() => "`method` is not text",
        (_, None, _) if !members.contains_key("result") && !members.contains_key("error") => {
            "`method` is missing"
        }
        (_, Some(_), _) if members.get("id").is_some_and(|id| !is_id(id)) => {
            "`id` is neither text nor an integer of 64 bits"
        }
        (_, Some(_), Some(params)) if !params.is_object() && !params.is_null() => {
            "`params` is not an object"
        }
        (_, Some(_), Some(params))
            if params.get("_meta").is_some_and(|meta| !meta.is_object() && !meta.is_null()) =>
        {
            "`_meta` is not an object"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_parameter_that_is_wrong_is_named_with_what_it_must_be() {
        for (method, params, said) in [
            ("initialize", json!({}), "`initialize`: `protocolVersion` is missing"),
            ("initialize", json!({"protocolVersion": 7}), "`protocolVersion` must be text"),
            (
                "initialize",
                json!({"protocolVersion": "x", "capabilities": {}, "clientInfo": {"name": "a"}}),
                "`clientInfo` must have `version`",
            ),
            ("tools/call", json!({}), "`name` is missing"),
            (
                "tools/call",
                json!({"name": "a", "arguments": "{}"}),
                "`arguments` must be an object",
            ),
            ("prompts/get", json!({"name": "a", "arguments": {"n": 1}}), "whose values are text"),
            ("resources/read", json!({"uri": 5}), "`uri` must be text"),
            ("logging/setLevel", json!({"level": "warn"}), "`level` must be one of: debug"),
            ("completion/complete", json!({"ref": {}}), "`argument` is missing"),
            ("tools/list", json!({"cursor": 5}), "`cursor` must be text"),
            ("tools/call", json!({"name": "a"}), "are not of the form"),
        ] {
            let words = misfit(method, Some(&params));
            assert!(words.contains(said), "{method} {params}: {words}");
        }
        assert!(misfit("tools/call", None).contains("`name` is missing"));
    }
}
