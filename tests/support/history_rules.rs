//! What providers take as the history of a conversation, written down from the errors that they answer
//! with, independent of what the program does.

use std::collections::HashSet;

use serde_json::Value;

/// Why a provider refuses the messages of a request.
pub fn refuse(path: &str, body: &Value) -> Option<String> {
    if path.ends_with("/responses") {
        return responses(body);
    }
    let messages = body["messages"].as_array()?;
    if path.ends_with("/messages") {
        return anthropic(messages);
    }
    if !path.ends_with("/chat/completions") {
        return None;
    }
    let model = body["model"].as_str().unwrap_or_default();
    let is_mistral = model.contains("mistral");
    if is_mistral && body.get("max_completion_tokens").is_some() {
        return Some("body.max_completion_tokens: Extra inputs are not permitted".to_owned());
    }
    let alternates = is_mistral.then(|| roles(messages)).flatten();
    alternates.or_else(|| completions(messages, is_mistral, model.contains("kimi")))
}

fn plain(text: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric())
}

/// Whether a call may have this name.
fn is_name(name: &Value) -> bool {
    let name = name.as_str().unwrap_or_default();
    (1..=64).contains(&name.len()) && plain(&name.replace(['_', '-'], ""))
}

/// Anthropic: text that is text, ids of one form, each once.
fn anthropic(messages: &[Value]) -> Option<String> {
    let mut ids = HashSet::new();
    for content in messages.iter().filter_map(|message| message["content"].as_array()) {
        let is_result = |block: &&Value| block["type"] == "tool_result";
        if content.iter().skip_while(is_result).any(|block| is_result(&block)) {
            return Some("`tool_use` ids were found without `tool_result` blocks after".into());
        }
    }
    let blocks = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
    for block in blocks {
        let parts = block["content"].as_array().into_iter().flatten();
        if block["is_error"] == true && parts.into_iter().any(|part| part["type"] != "text") {
            return Some("all content must be type \"text\" if \"is_error\" is true".into());
        }
        let text = block["text"].as_str();
        if block["type"] == "text" && text.is_none_or(|text| text.trim().is_empty()) {
            return Some("messages: text content blocks must contain non-whitespace text".into());
        }
        if block["type"] == "tool_use" {
            let id = block["id"].as_str().unwrap_or_default();
            if id.is_empty() || !plain(&id.replace(['_', '-'], "")) {
                return Some("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'".into());
            }
            if !ids.insert(id) {
                return Some("`tool_use` ids must be unique".into());
            }
            if !is_name(&block["name"]) {
                return Some("tool_use.name: String should match pattern '^[a-zA-Z0-9_-]'".into());
            }
        }
    }
    None
}

/// Mistral: an answer after results, and turns.
fn roles(messages: &[Value]) -> Option<String> {
    let pairs = messages.windows(2).map(|pair| (&pair[0]["role"], &pair[1]["role"]));
    let mut wrong = pairs.filter(|(first, second)| {
        *second == "user" && (*first == "tool" || *first == "user")
            || *second == "tool" && *first == "user"
    });
    let (first, second) = wrong.next()?;
    Some(format!("Unexpected role {second} after role {first}"))
}

/// `OpenAI`'s Responses API: items in their order, reasoning only whole and before what it led to, and
/// nothing that would have to be stored.
fn responses(body: &Value) -> Option<String> {
    if body.get("messages").is_some() {
        return Some("Unsupported parameter: 'messages'. It has moved to 'input'.".into());
    }
    if body["store"] != false {
        return Some("this organization keeps nothing: store must be false".into());
    }
    let tools = body["tools"].as_array().into_iter().flatten();
    if let Some(tool) = tools.into_iter().find(|tool| tool["strict"] != false) {
        return Some(format!("Invalid schema for function '{}' in strict mode", tool["name"]));
    }
    let items = body["input"].as_array()?;
    let (mut open, mut known) = (HashSet::new(), HashSet::new());
    for (at, item) in items.iter().enumerate() {
        let word = |key: &str| item[key].as_str().unwrap_or_default();
        if item.get("id").is_some() {
            return Some(format!("Item with id '{}' not found.", word("id")));
        }
        match word("type") {
            "reasoning" => {
                let follows = items.get(at + 1).map(|next| next["type"].as_str());
                let leads =
                    matches!(follows, Some(Some("function_call" | "message" | "reasoning")));
                if word("encrypted_content").is_empty() || !item["summary"].is_array() {
                    return Some(format!("input[{at}]: reasoning is not stored"));
                }
                if !leads {
                    return Some(
                        "'reasoning' was provided without its required following item".into(),
                    );
                }
            }
            "function_call" => {
                if !is_name(&item["name"]) || !item["arguments"].is_string() {
                    return Some(format!("Invalid 'input[{at}].name'"));
                }
                if !known.insert(word("call_id")) {
                    return Some(format!("Duplicate call_id {}", word("call_id")));
                }
                open.insert(word("call_id"));
            }
            "function_call_output" if !open.remove(word("call_id")) => {
                return Some(format!(
                    "No tool call found for function call output with call_id {}",
                    word("call_id")
                ));
            }
            "function_call_output" if item["output"].is_null() => {
                return Some(format!("input[{at}].output: missing"));
            }
            "function_call_output" => {}
            "message" | "" => {
                let wanted = if word("role") == "assistant" { "output_text" } else { "input_" };
                let parts = item["content"].as_array().into_iter().flatten();
                let mut kinds = parts.map(|part| part["type"].as_str().unwrap_or_default());
                if let Some(kind) = kinds.find(|kind| !kind.starts_with(wanted)) {
                    return Some(format!("Invalid value: '{kind}' at input[{at}]"));
                }
            }
            other => return Some(format!("Invalid value: '{other}' at input[{at}].type")),
        }
    }
    let first = open.into_iter().next()?;
    Some(format!("No tool output found for function call {first}."))
}

fn completions(messages: &[Value], is_mistral: bool, is_kimi: bool) -> Option<String> {
    let mut ids = HashSet::new();
    for (at, message) in messages.iter().enumerate() {
        let calls = message["tool_calls"].as_array();
        let content = message["content"].as_str();
        let is_empty = content.is_none_or(|text| text.trim().is_empty());
        if message["role"] == "assistant" && calls.is_none() && is_empty {
            return Some(format!("the message at position {at} must not be empty"));
        }
        if is_kimi && message["role"] == "assistant" && content == Some("") {
            return Some("text content is empty".into());
        }
        for call in calls.into_iter().flatten() {
            let id = call["id"].as_str().unwrap_or_default();
            if is_mistral && !(id.len() == 9 && plain(id)) {
                return Some(format!(
                    "Tool call id was {id} but must be a-z, A-Z, 0-9, with a length of 9."
                ));
            }
            if id.is_empty() || !ids.insert(id) {
                return Some(format!("the id {id} comes twice"));
            }
            if !is_name(&call["function"]["name"]) {
                return Some("Invalid 'messages.tool_calls.function.name': no match".into());
            }
        }
        if message["role"] == "tool" && !ids.contains(message["tool_call_id"].as_str()?) {
            return Some("a result without its call".into());
        }
    }
    None
}
