//! The rough shape of results: enough to say that an answer is no answer, never enough to lose one.

use crate::mcp::payload::{Kind, Node};

/// What is wrong with a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Nothing can be made of it: the call fails with this reason.
    Useless(String),
    /// It is handed on as it is, with this remark.
    Odd(String),
}

/// Looks at the result of `method`.
pub fn check(method: &str, result: Node<'_>) -> Option<Misfit> {
    if !result.is_object() {
        let what = match result.kind() {
            Kind::Null => "null",
            Kind::Array => "an array",
            Kind::String => "a string",
            _ => "a bare value",
        };
        return match method {
            // Their results are empty anyway.
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => {
                Some(Misfit::Odd(format!("the result is {what}, not an object")))
            }
            _ => Some(Misfit::Useless(format!("the result is {what}, not an object"))),
        };
    }
    let kind = result.get("resultType").map(|kind| kind.as_str().unwrap_or("no string".into()));
    match kind.as_deref() {
        None | Some("complete") => {}
        Some("input_required" | "task") => return None,
        Some(other) => return Some(Misfit::Odd(format!("unknown `resultType`: {other}"))),
    }
    let key = match method {
        "tools/call" | "tasks/result" => return tool_result(result),
        "prompts/get" => "messages",
        "resources/read" => "contents",
        _ => return None,
    };
    match result.get(key) {
        Some(list) if list.is_array() => None,
        Some(_) => Some(Misfit::Odd(format!("`{key}` is no array"))),
        None => Some(Misfit::Odd(format!("the result has no `{key}`"))),
    }
}

fn tool_result(result: Node<'_>) -> Option<Misfit> {
    let odd = |text: String| Some(Misfit::Odd(text));
    let content = match result.get("content") {
        Some(list) if list.is_array() => list,
        Some(_) => return odd("`content` is no array".into()),
        // A task that was begun has its result later.
        None if result.get("task").is_some_and(Node::is_object) => return None,
        None if result.get("structuredContent").is_some() => return None,
        None => return odd("the result has no `content`".into()),
    };
    for (index, (_, item)) in content.members(0).enumerate() {
        match item.text("type").as_deref() {
            Some("text") if !item.get("text").is_some_and(Node::is_string) => {
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
    use serde_json::{Value, json};

    fn check(method: &str, result: &Value) -> Option<Misfit> {
        super::check(method, result.into())
    }

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
