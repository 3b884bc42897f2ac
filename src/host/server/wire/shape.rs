//! The rough shape of results: enough to say that an answer is no answer, never enough to lose one.

use serde_json::Value;

/// What is wrong with a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Nothing can be made of it: the call fails with this reason.
    Useless(String),
    /// It is handed on as it is, with this remark.
    Odd(String),
}

/// Looks at the result of `method`.
pub fn check(method: &str, result: &Value) -> Option<Misfit> {
    let Value::Object(object) = result else {
        let what = match result {
            Value::Null => "null",
            Value::Array(_) => "an array",
            Value::String(_) => "a string",
            _ => "a bare value",
        };
        return match method {
            // Their results are empty anyway.
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => {
                Some(Misfit::Odd(format!("the result is {what}, not an object")))
            }
            _ => Some(Misfit::Useless(format!("the result is {what}, not an object"))),
        };
    };
    match object.get("resultType").map(|kind| kind.as_str().unwrap_or("no string")) {
        None | Some("complete") => {}
        Some("input_required" | "task") => return None,
        Some(other) => return Some(Misfit::Odd(format!("unknown `resultType`: {other}"))),
    }
    let key = match method {
        "tools/call" => return tool_result(object),
        "prompts/get" => "messages",
        "resources/read" => "contents",
        _ => return None,
    };
    match object.get(key) {
        Some(Value::Array(_)) => None,
        Some(_) => Some(Misfit::Odd(format!("`{key}` is no array"))),
        None => Some(Misfit::Odd(format!("the result has no `{key}`"))),
    }
}

fn tool_result(object: &serde_json::Map<String, Value>) -> Option<Misfit> {
    let odd = |text: String| Some(Misfit::Odd(text));
    let content = match object.get("content") {
        Some(Value::Array(items)) => items,
        Some(_) => return odd("`content` is no array".into()),
        None if object.contains_key("structuredContent") => return None,
        None => return odd("the result has no `content`".into()),
    };
    for (index, item) in content.iter().enumerate() {
        match item.get("type").and_then(Value::as_str) {
            Some("text") if item.get("text").is_none_or(|text| !text.is_string()) => {
                return odd(format!("`content[{index}].text` is no string"));
            }
            Some(
                "text" | "image" | "audio" | "resource" | "resource_link" | "tool_use"
                | "tool_result",
            ) => {}
            Some(other) => return odd(format!("`content[{index}]` has the unknown type {other}")),
            None => return odd(format!("`content[{index}]` has no type")),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_no_object_is_useless() {
        assert!(matches!(check("tools/call", &json!(null)), Some(Misfit::Useless(_))));
        assert!(matches!(check("tools/call", &json!([])), Some(Misfit::Useless(_))));
        assert!(matches!(check("logging/setLevel", &json!(null)), Some(Misfit::Odd(_))));
        for odd in [
            json!({}),
            json!({"content":[{"type":"video"}]}),
            json!({"content":[{"type":"text","text":null}]}),
            json!({"content":[],"resultType":"later"}),
        ] {
            assert!(matches!(check("tools/call", &odd), Some(Misfit::Odd(_))), "{odd}");
        }
        let good = json!({"content":[{"type":"text","text":"x","x-vendor":1}],"extra":1});
        assert_eq!(check("tools/call", &good), None);
        assert_eq!(check("tools/call", &json!({"resultType":"input_required"})), None);
    }
}
