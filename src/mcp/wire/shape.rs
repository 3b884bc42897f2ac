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
    if !result.is_object() {
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
    }
    let kind = result.get("resultType").map(|kind| kind.as_str().unwrap_or("no string"));
    match kind {
        None | Some("complete") => {}
        Some("input_required" | "task") => return None,
        Some(other) => return Some(Misfit::Odd(format!("unknown `resultType`: {other}"))),
    }
    let (key, of) = match method {
        "tools/call" | "tasks/result" => return tool_result(result),
        "prompts/get" => ("messages", message as fn(&Value) -> Option<String>),
        "resources/read" => ("contents", content as fn(&Value) -> Option<String>),
        _ => return None,
    };
    match result.get(key) {
        Some(Value::Array(list)) => {
            let mut flaws = list.iter().enumerate();
            let flaw = flaws.find_map(|(at, item)| Some((at, of(item)?)));
            flaw.map(|(at, flaw)| Misfit::Useless(format!("`{key}[{at}]` {flaw}")))
        }
        Some(_) => Some(Misfit::Useless(format!("`{key}` is no array"))),
        None => Some(Misfit::Odd(format!("the result has no `{key}`"))),
    }
}

/// What is wrong with a message of a prompt.
fn message(item: &Value) -> Option<String> {
    let content = match item.get("content") {
        Some(content) if content.is_object() => content,
        Some(list) if list.is_array() => return None,
        _ => return Some("has no `content`".to_owned()),
    };
    let text = content["type"] == "text";
    let lacks = text && !content.get("text").is_some_and(Value::is_string);
    lacks.then(|| "is a text without `text`".to_owned())
}

/// What is wrong with a content of a resource.
fn content(item: &Value) -> Option<String> {
    let holds = |key: &str| item.get(key).is_some_and(Value::is_string);
    (!holds("text") && !holds("blob")).then(|| "has neither a `text` nor a `blob`".to_owned())
}

fn tool_result(result: &Value) -> Option<Misfit> {
    let odd = |text: String| Some(Misfit::Odd(text));
    let list = match result.get("content") {
        Some(Value::Array(list)) => list,
        Some(_) => return Some(Misfit::Useless("`content` is no array".into())),
        // A task that was begun has its result later.
        None if result.get("task").is_some_and(Value::is_object) => return None,
        None if result.get("structuredContent").is_some() => return None,
        None => return odd("the result has no `content`".into()),
    };
    let mut strange = None;
    for (index, item) in list.iter().enumerate() {
        match item.get("type").and_then(Value::as_str) {
            Some("text") if !item.get("text").is_some_and(Value::is_string) => {
                let reason = format!("`content[{index}].text` is no string");
                return Some(Misfit::Useless(reason));
            }
            Some(
                "text" | "image" | "audio" | "resource" | "resource_link" | "tool_use"
                | "tool_result",
            ) => {}
            _ if strange.is_some() => {}
            Some(other) => {
                strange = Some(format!("`content[{index}]` has the unknown type {other}"));
            }
            None => strange = Some(format!("`content[{index}]` has no type")),
        }
    }
    if strange.is_none() && result.get("isError").is_some_and(|flag| !flag.is_boolean()) {
        return odd("`isError` is neither true nor false".into());
    }
    strange.map(Misfit::Odd)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_breaks_the_specification_is_useless_and_what_is_strange_is_told() {
        for (method, useless) in [
            ("tools/call", json!(null)),
            ("tools/call", json!([])),
            ("tools/call", json!({"content": "x"})),
            ("tools/call", json!({"content": [{"type": "text", "text": null}]})),
            ("prompts/get", json!({"messages": "x"})),
            ("prompts/get", json!({"messages": [{"role": "user"}]})),
            ("prompts/get", json!({"messages": [{"role": "user", "content": {"type": "text"}}]})),
            ("resources/read", json!({"contents": {}})),
            ("resources/read", json!({"contents": [{"uri": "a:b"}]})),
        ] {
            let found = check(method, &useless);
            assert!(matches!(found, Some(Misfit::Useless(_))), "{useless}");
        }
        assert!(matches!(check("logging/setLevel", &json!(null)), Some(Misfit::Odd(_))));
        for odd in [
            json!({}),
            json!({"content":[{"type":"video"}]}),
            json!({"content":[],"isError":"yes"}),
            json!({"content":[],"resultType":"later"}),
        ] {
            assert!(matches!(check("tools/call", &odd), Some(Misfit::Odd(_))), "{odd}");
        }
        let good = json!({"content":[{"type":"text","text":"x","x-vendor":1}],"extra":1});
        assert_eq!(check("tools/call", &good), None);
        assert_eq!(check("tools/call", &json!({"resultType":"input_required"})), None);
    }
}
