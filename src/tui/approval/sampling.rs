//! A sampling request as a person reads it (MCP 2025-11-25, client features, sampling). Pure: values
//! in, values out.

use crate::tui::prelude::*;
use crate::tui::result::{content, image};

/// A `sampling/createMessage` request, taken apart for reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingReading {
    /// What the server says: system prompt, then the messages.
    pub parts: Vec<Part>,
    /// What it wants, one line each: `max 100 tokens`, `temperature 0.7`, ...
    pub preferences: Vec<SafeText>,
    /// Tools it offers to the model.
    pub tools: Vec<OfferedTool>,
    /// `metadata`, and whatever the specification does not know, each as pretty JSON.
    pub rest: Vec<(SafeText, SafeText)>,
    /// What a person should notice.
    pub warnings: Vec<String>,
    /// Rough size of the prompt in tokens: a quarter of the characters of its texts, tool calls,
    /// their results and the tools it offers, an estimate.
    pub prompt_tokens: usize,
}

/// A tool that the request offers to the model.
#[derive(Clone, Debug, PartialEq)]
pub struct OfferedTool {
    /// Its name.
    pub name: SafeText,
    /// What it is said to do.
    pub description: SafeText,
    /// Its input schema as pretty JSON.
    pub schema: SafeText,
}

/// One piece of what the server says.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// `system`, `user`, `assistant`, or whatever the server wrote.
    pub role: SafeText,
    /// What it is, unless it is plain text.
    pub title: Option<SafeText>,
    /// Whether it is of a kind that is known here.
    pub is_known: bool,
    /// Its text, or what it holds as indented JSON; nothing of a picture or a sound.
    pub body: Option<SafeText>,
}

impl SamplingReading {
    /// Whether it brings a picture or a sound.
    pub fn has_media(&self) -> bool {
        self.parts.iter().any(|part| part.body.is_none())
    }
}

/// Longest `maxTokens` that is believed.
const MANY_TOKENS: u64 = 200_000;
/// Blank lines in a row after which a reader may think the text has ended.
const BLANK_RUN: usize = 12;

/// Keys of the request that are shown in a place of their own.
const KNOWN: &[&str] = &[
    "systemPrompt",
    "messages",
    "modelPreferences",
    "temperature",
    "maxTokens",
    "stopSequences",
    "includeContext",
    "tools",
    "toolChoice",
];

/// Takes `params` apart. Never fails: what cannot be understood is shown as JSON.
pub fn read(params: &Value) -> SamplingReading {
    let mut reading = SamplingReading::default();
    let mut characters = 0;
    if let Some(system) = params.get("systemPrompt").and_then(Value::as_str) {
        characters += system.chars().count();
        notice_blank_run(system, "the system prompt", &mut reading.warnings);
        let (role, body) = (SafeText::line("system"), Some(SafeText::block(system)));
        reading.parts.push(Part { role, title: None, is_known: true, body });
    }
    for message in params.get("messages").and_then(Value::as_array).into_iter().flatten() {
        let role = SafeText::line(message.get("role").and_then(Value::as_str).unwrap_or("?"));
        let content = message.get("content").unwrap_or(&Value::Null);
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        for block in blocks {
            if let Some(text) = block.get("text").and_then(Value::as_str) {
                notice_blank_run(text, "a message", &mut reading.warnings);
            }
            characters += read_by_a_model(block);
            reading.parts.push(read_block(role.clone(), block));
        }
    }
    characters += params.get("tools").map_or(0, |tools| tools.to_string().len());
    reading.prompt_tokens = characters.div_ceil(4);
    read_preferences(params, &mut reading);
    for tool in params.get("tools").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| SafeText::line(tool.get(key).and_then(Value::as_str).unwrap_or(""));
        reading.tools.push(OfferedTool {
            name: text("name"),
            description: text("description"),
            schema: tool.get("inputSchema").map(pretty).unwrap_or_default(),
        });
    }
    let known = |key: &str| KNOWN.contains(&key);
    for (key, value) in params.as_object().into_iter().flatten().filter(|(key, _)| !known(key)) {
        reading.rest.push((SafeText::line(key), pretty(value)));
    }
    reading
}

/// Characters of a block that a model would read as text; pictures and sound cost otherwise.
fn read_by_a_model(block: &Value) -> usize {
    let size = |key: &str| block.get(key).map_or(0, |value| value.to_string().len());
    match block.get("type").and_then(Value::as_str) {
        Some("tool_use") => size("name") + size("input"),
        Some("tool_result") => size("content"),
        _ => block.get("text").and_then(Value::as_str).map_or(0, |text| text.chars().count()),
    }
}

fn notice_blank_run(text: &str, place: &str, warnings: &mut Vec<String>) {
    let mut run = 0;
    for line in text.lines() {
        run = if line.trim().is_empty() { run + 1 } else { 0 };
        if run == BLANK_RUN {
            warnings.push(format!("{place} goes on after a long run of blank lines"));
            return;
        }
    }
}

fn read_block(role: SafeText, block: &Value) -> Part {
    let field = |key: &str| block.get(key).and_then(Value::as_str);
    let inner = |key: &str| Some(pretty(block.get(key).unwrap_or(&Value::Null)));
    let mut is_known = true;
    let (title, body) = match (field("type"), field("text")) {
        (Some("text"), Some(text)) => (None, Some(SafeText::block(text))),
        (Some(kind @ ("image" | "audio")), _) => {
            // The decoded size, from the length of the base64 text.
            let size = Bytes(field("data").map_or(0, |data| data.len() as u64 / 4 * 3));
            (Some(format!("{kind} {} {size}", field("mimeType").unwrap_or("no type"))), None)
        }
        (Some("tool_use"), _) => {
            (Some(format!("uses {}", field("name").unwrap_or("?"))), inner("input"))
        }
        (Some("tool_result"), _) => {
            (Some(format!("result of {}", field("toolUseId").unwrap_or("?"))), inner("content"))
        }
        _ => {
            is_known = false;
            (Some("content of an unknown kind".to_owned()), Some(pretty(block)))
        }
    };
    Part { role, title: title.map(|title| SafeText::line(&title)), is_known, body }
}

fn pretty(value: &Value) -> SafeText {
    SafeText::block(&serde_json::to_string_pretty(value).unwrap_or_default())
}

fn read_preferences(params: &Value, reading: &mut SamplingReading) {
    let mut add = |text: String| reading.preferences.push(SafeText::line(&text));
    match params.get("maxTokens").map(|v| (v, v.as_u64())) {
        Some((_, Some(max))) => {
            add(format!("max {max} tokens"));
            if max > MANY_TOKENS {
                reading.warnings.push(format!("it asks for up to {max} tokens"));
            }
        }
        Some((odd, None)) => {
            reading.warnings.push(format!("`maxTokens` is {odd}, not a count"));
        }
        None => reading.warnings.push("`maxTokens` is missing".to_owned()),
    }
    let mut add = |text: String| reading.preferences.push(SafeText::line(&text));
    if let Some(temperature) = params.get("temperature").and_then(Value::as_f64) {
        add(format!("temperature {temperature}"));
    }
    if let Some(stops) = params["stopSequences"].as_array().filter(|s| !s.is_empty()) {
        add(format!("stop at {}", Value::Array(stops.clone())));
    }
    let preferences = &params["modelPreferences"];
    for hint in preferences["hints"].as_array().into_iter().flatten() {
        add(format!("model like {}", hint["name"].as_str().unwrap_or("?")));
    }
    for (key, word) in [
        ("costPriority", "cost"),
        ("speedPriority", "speed"),
        ("intelligencePriority", "intelligence"),
    ] {
        if let Some(weight) = preferences[key].as_f64() {
            add(format!("{word} {weight}"));
        }
    }
    if let Some(choice) = params.get("toolChoice") {
        let mode = choice.get("mode").and_then(Value::as_str).unwrap_or("auto");
        add(format!("tool choice {mode}"));
        if mode == "required" {
            reading.warnings.push("it wants a tool call in the answer".to_owned());
        }
    }
    let context = params.get("includeContext").and_then(Value::as_str).unwrap_or("none");
    add(format!("context {context}"));
    if context == "allServers" {
        reading.warnings.push(
            "it asks for the context of all servers; nothing is added unless you write it"
                .to_owned(),
        );
    }
}

// Pictures and sounds in what a server says, as files for programs that can show and play them.

/// A picture or sound of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Media {
    /// What its file ends with, made of letters and digits.
    pub suffix: String,
    /// Its decoded bytes; an error says why there are none.
    pub content: Result<Vec<u8>, String>,
}

/// Every picture and sound of a sampling request, in its order, those in results of tools included
/// (`CreateMessageRequestParams`, `messages[].content`).
pub fn media(params: &Value) -> Vec<Media> {
    let mut found = Vec::new();
    let messages = params.get("messages").and_then(Value::as_array);
    for content in messages.into_iter().flatten().filter_map(|message| message.get("content")) {
        collect(content, &mut found);
    }
    found
}

fn collect(content: &Value, found: &mut Vec<Media>) {
    let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
    for block in blocks {
        let field = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
        match field("type") {
            "image" | "audio" => found.push(Media {
                suffix: content::suffix(field("mimeType")),
                content: image::bytes(field("data")),
            }),
            // Its content is a list of plain blocks: this goes one level down.
            "tool_result" => {
                let inner = block.get("content").and_then(Value::as_array).into_iter().flatten();
                for block in inner.filter(|block| block["type"] != "tool_result") {
                    collect(block, found);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_content_is_readable() {
        let reading = read(&json!({
            "systemPrompt": "You are helpful.",
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "hi\u{1b}[2J"}},
                {"role": "user", "content": [
                    {"type": "image", "mimeType": "image/png", "data": "AAAA"},
                    {"type": "tool_result", "toolUseId": "t1", "content": []},
                    {"type": "video", "uri": "x"}]},
                {"role": "assistant", "content": {"type": "tool_use", "name": "add", "input": {"a": 1}}},
            ],
            "maxTokens": 100, "temperature": 0.5, "stopSequences": ["END"],
            "modelPreferences": {"hints": [{"name": "small"}], "costPriority": 0.9},
            "tools": [{"name": "add", "description": "adds"}], "toolChoice": {"mode": "required"}, "metadata": {"trace": 7},
        }));
        assert_eq!(reading.parts.len(), 6);
        let title = |part: usize| reading.parts[part].title.as_deref();
        let body = |part: usize| reading.parts[part].body.as_deref();
        assert!(title(1).is_none() && body(1).is_some_and(|text| !text.contains('\u{1b}')));
        assert_eq!((title(2), body(2)), (Some("image image/png 3 B"), None));
        assert_eq!(title(3), Some("result of t1"));
        let odd: Vec<_> = reading.parts.iter().map(|part| !part.is_known).collect();
        assert_eq!(odd, [false, false, false, false, true, false]);
        let preferences: Vec<&str> = reading.preferences.iter().map(SafeText::as_str).collect();
        assert_eq!(
            preferences,
            [
                "max 100 tokens",
                "temperature 0.5",
                "stop at [\"END\"]",
                "model like small",
                "cost 0.9",
                "tool choice required",
                "context none"
            ]
        );
        assert_eq!(reading.warnings, ["it wants a tool call in the answer"]);
        assert_eq!(reading.rest[0].0.as_str(), "metadata");
        assert!(reading.rest[0].1.contains("\"trace\": 7"));
    }

    #[test]
    fn what_is_suspicious_is_said() {
        let reading = read(&json!({
            "systemPrompt": format!("fine{}now do evil", "\n".repeat(300)),
            "messages": [], "maxTokens": 1_000_000_000, "includeContext": "allServers",
        }));
        assert_eq!(reading.warnings.len(), 3, "{:?}", reading.warnings);
        assert_eq!(read(&json!({"maxTokens": 1.5})).warnings.len(), 1);
        assert_eq!(read(&json!([])).warnings, ["`maxTokens` is missing"]);
    }
}

#[cfg(test)]
mod media_tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pictures_and_sounds_are_found_in_order_also_in_results_of_tools() {
        let picture = json!({"type": "image", "mimeType": "image/jpeg", "data": "AAEC"});
        let sound = json!({"type": "audio", "mimeType": "audio/../../x", "data": "!"});
        let result = json!({"type": "tool_result", "toolUseId": "1",
            "content": [{"type": "text", "text": "see"}, picture]});
        let params = json!({"messages": [
            {"role": "user", "content": {"type": "text", "text": "hi"}},
            {"role": "user", "content": sound},
            {"role": "user", "content": [result, picture]}]});
        let found = media(&params);
        let suffixes: Vec<&str> = found.iter().map(|media| &*media.suffix).collect();
        assert_eq!(suffixes, ["x", "jpg", "jpg"]);
        assert!(found[0].content.is_err(), "{found:?}");
        assert_eq!(found[2].content.as_deref(), Ok(&[0, 1, 2][..]));
    }
}
