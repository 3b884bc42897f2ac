//! A sampling request as a person reads it, and the answer a person writes
//! (MCP 2025-11-25, client features, sampling). Pure: values in, values out.

use serde_json::{Map, Value, json};

use crate::host::Violation;
use crate::text::SafeText;

/// A `sampling/createMessage` request, taken apart for reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SamplingReading {
    /// What the server says: system prompt, then the messages.
    pub parts: Vec<Part>,
    /// What it wants, one line each: `max 100 tokens`, `temperature 0.7`, ...
    pub wishes: Vec<SafeText>,
    /// Tools it offers to the model: name and description.
    pub tools: Vec<(SafeText, SafeText)>,
    /// What a person should notice.
    pub warnings: Vec<String>,
    /// Rough size of the prompt in tokens: a quarter of its characters, an estimate.
    pub prompt_tokens: usize,
}

/// One piece of what the server says.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// `system`, `user` or `assistant`, or what the server wrote there.
    pub role: SafeText,
    /// Its content.
    pub content: PartContent,
}

/// Content of a [`Part`].
#[derive(Clone, Debug, PartialEq)]
pub enum PartContent {
    /// Text, made safe, line breaks kept.
    Text(SafeText),
    /// An image or audio: kind, MIME type, size in bytes after decoding.
    Media {
        /// `image` or `audio`.
        kind: SafeText,
        /// MIME type as the server says it.
        mime: SafeText,
        /// Decoded size in bytes, from the length of the base64 text.
        bytes: usize,
    },
    /// A tool call of an earlier turn, or its result, as JSON.
    Tool {
        /// `uses NAME` or `result of ID`.
        title: SafeText,
        /// Pretty JSON.
        body: SafeText,
    },
    /// Something the specification does not know, as JSON.
    Odd(SafeText),
}

/// Longest `maxTokens` that is believed.
const MANY_TOKENS: u64 = 200_000;
/// Blank lines in a row after which a reader may think the text has ended.
const BLANK_RUN: usize = 12;

/// Takes `params` apart. Never fails: what cannot be understood is shown as JSON.
pub fn read(params: &Value) -> SamplingReading {
    let mut reading = SamplingReading::default();
    let mut characters = 0;
    if let Some(system) = params.get("systemPrompt").and_then(Value::as_str) {
        characters += system.chars().count();
        notice_blank_run(system, "the system prompt", &mut reading.warnings);
        reading.parts.push(Part {
            role: SafeText::line("system"),
            content: PartContent::Text(SafeText::block(system)),
        });
    }
    for message in params.get("messages").and_then(Value::as_array).into_iter().flatten() {
        let role = SafeText::line(message.get("role").and_then(Value::as_str).unwrap_or("?"));
        let content = message.get("content").unwrap_or(&Value::Null);
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        for block in blocks {
            if let Some(text) = block.get("text").and_then(Value::as_str) {
                characters += text.chars().count();
                notice_blank_run(text, "a message", &mut reading.warnings);
            }
            reading.parts.push(Part { role: role.clone(), content: read_block(block) });
        }
    }
    reading.prompt_tokens = characters.div_ceil(4);
    read_wishes(params, &mut reading);
    for tool in params.get("tools").and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| SafeText::line(tool.get(key).and_then(Value::as_str).unwrap_or(""));
        reading.tools.push((text("name"), text("description")));
    }
    reading
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

fn read_block(block: &Value) -> PartContent {
    let field = |key: &str| block.get(key).and_then(Value::as_str);
    match field("type") {
        Some("text") if field("text").is_some() => {
            PartContent::Text(SafeText::block(field("text").unwrap_or_default()))
        }
        Some(kind @ ("image" | "audio")) => PartContent::Media {
            kind: SafeText::line(kind),
            mime: SafeText::line(field("mimeType").unwrap_or("no type")),
            bytes: field("data").map_or(0, |data| data.len() / 4 * 3),
        },
        Some("tool_use") => PartContent::Tool {
            title: SafeText::line(&format!("uses {}", field("name").unwrap_or("?"))),
            body: pretty(block.get("input").unwrap_or(&Value::Null)),
        },
        Some("tool_result") => PartContent::Tool {
            title: SafeText::line(&format!("result of {}", field("toolUseId").unwrap_or("?"))),
            body: pretty(block.get("content").unwrap_or(&Value::Null)),
        },
        _ => PartContent::Odd(pretty(block)),
    }
}

fn pretty(value: &Value) -> SafeText {
    SafeText::block(&serde_json::to_string_pretty(value).unwrap_or_default())
}

fn read_wishes(params: &Value, reading: &mut SamplingReading) {
    let mut wish = |text: String| reading.wishes.push(SafeText::line(&text));
    match params.get("maxTokens").map(|v| (v, v.as_u64())) {
        Some((_, Some(max))) => {
            wish(format!("max {max} tokens"));
            if max > MANY_TOKENS {
                reading.warnings.push(format!("it asks for up to {max} tokens"));
            }
        }
        Some((odd, None)) => {
            reading.warnings.push(format!("`maxTokens` is {odd}, not a count"));
        }
        None => reading.warnings.push("`maxTokens` is missing".to_owned()),
    }
    let mut wish = |text: String| reading.wishes.push(SafeText::line(&text));
    if let Some(temperature) = params.get("temperature").and_then(Value::as_f64) {
        wish(format!("temperature {temperature}"));
    }
    let stops = params.get("stopSequences").and_then(Value::as_array);
    if let Some(stops) = stops.filter(|s| !s.is_empty()) {
        wish(format!("stop at {}", Value::Array(stops.clone())));
    }
    let preferences = params.get("modelPreferences");
    let hints = preferences.and_then(|p| p.get("hints")).and_then(Value::as_array);
    for hint in hints.into_iter().flatten() {
        wish(format!("model like {}", hint.get("name").and_then(Value::as_str).unwrap_or("?")));
    }
    for (key, word) in
        [("costPriority", "cost"), ("speedPriority", "speed"), ("intelligencePriority", "wits")]
    {
        let weight = preferences.and_then(|p| p.get(key)).and_then(Value::as_f64);
        if let Some(weight) = weight {
            wish(format!("{word} {weight}"));
        }
    }
    if let Some(choice) = params.get("toolChoice") {
        let mode = choice.get("mode").and_then(Value::as_str).unwrap_or("auto");
        wish(format!("tool choice {mode}"));
    }
    let context = params.get("includeContext").and_then(Value::as_str).unwrap_or("none");
    wish(format!("context {context}"));
    if context == "allServers" {
        reading.warnings.push(
            "it asks for the context of all servers; nothing is added unless you write it"
                .to_owned(),
        );
    }
    if let Some(metadata) = params.get("metadata").filter(|m| !m.is_null()) {
        reading.wishes.push(SafeText::line(&format!("metadata {metadata}")));
    }
}

/// Stop reasons of the specification, in the order in which a key steps through them.
pub const STOP_REASONS: &[&str] = &["endTurn", "stopSequence", "maxTokens", "toolUse"];

/// The answer a person is writing.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingDraft {
    /// Text of the assistant's message.
    pub text: String,
    /// Name of the "model"; `by hand` unless changed.
    pub model: String,
    /// Stop reason, one of [`STOP_REASONS`] or the person's own.
    pub stop_reason: String,
    /// Tool calls to answer with: name and input.
    pub tool_uses: Vec<(String, Value)>,
    /// The whole result as JSON text, when the person edits that instead.
    pub raw: Option<String>,
}

impl Default for SamplingDraft {
    fn default() -> Self {
        Self {
            text: String::new(),
            model: "by hand".to_owned(),
            stop_reason: STOP_REASONS[0].to_owned(),
            tool_uses: Vec::new(),
            raw: None,
        }
    }
}

impl SamplingDraft {
    /// The `CreateMessageResult` this draft stands for.
    ///
    /// # Errors
    /// Every reason why the draft is no such result, with the pointer into the raw JSON.
    pub fn result(&self) -> Result<Value, Vec<Violation>> {
        match &self.raw {
            Some(raw) => parse_raw(raw),
            None if self.text.is_empty() && self.tool_uses.is_empty() => {
                Err(vec![violation("/content", "write an answer first", "required")])
            }
            None => Ok(self.compose()),
        }
    }

    /// Changes to editing the result as JSON, starting from what is written so far.
    pub fn edit_raw(&mut self) {
        if self.raw.is_none() {
            self.raw = serde_json::to_string_pretty(&self.compose()).ok();
        }
    }

    /// Steps to the next stop reason of the specification.
    pub fn next_stop_reason(&mut self) {
        let at = STOP_REASONS.iter().position(|r| *r == self.stop_reason);
        let next = at.map_or(0, |at| (at + 1) % STOP_REASONS.len());
        STOP_REASONS[next].clone_into(&mut self.stop_reason);
    }

    fn compose(&self) -> Value {
        let text = json!({"type": "text", "text": self.text});
        let mut blocks: Vec<Value> = Vec::new();
        if !self.text.is_empty() || self.tool_uses.is_empty() {
            blocks.push(text);
        }
        for (number, (name, input)) in self.tool_uses.iter().enumerate() {
            let id = format!("call_{}", number + 1);
            blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
        }
        // A single block goes out bare: every version of the specification reads that.
        let content = if blocks.len() == 1 && self.tool_uses.is_empty() {
            blocks.remove(0)
        } else {
            Value::Array(blocks)
        };
        let mut result = Map::new();
        result.insert("role".into(), "assistant".into());
        result.insert("content".into(), content);
        result.insert("model".into(), self.model.clone().into());
        result.insert("stopReason".into(), self.stop_reason.clone().into());
        Value::Object(result)
    }
}

fn parse_raw(raw: &str) -> Result<Value, Vec<Violation>> {
    let value: Value = serde_json::from_str(raw)
        .map_err(|error| vec![violation("", &format!("not JSON: {error}"), "json")])?;
    let mut problems = Vec::new();
    let Some(object) = value.as_object() else {
        return Err(vec![violation("", "expected an object", "type")]);
    };
    if !object.get("role").is_some_and(Value::is_string) {
        problems.push(violation("/role", "expected \"assistant\" or \"user\"", "required"));
    }
    if !object.get("model").is_some_and(Value::is_string) {
        problems.push(violation("/model", "expected the name of a model", "required"));
    }
    if !object.get("content").is_some_and(|c| c.is_object() || c.is_array()) {
        problems.push(violation("/content", "expected a content block or a list", "required"));
    }
    if problems.is_empty() { Ok(value) } else { Err(problems) }
}

fn violation(pointer: &str, message: &str, keyword: &str) -> Violation {
    Violation {
        pointer: pointer.to_owned(),
        message: message.to_owned(),
        keyword: keyword.to_owned(),
    }
}

#[cfg(test)]
mod tests {
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
            "tools": [{"name": "add", "description": "adds"}], "toolChoice": {"mode": "required"},
        }));
        assert_eq!(reading.parts.len(), 6);
        assert!(matches!(&reading.parts[1].content, PartContent::Text(t) if !t.contains('\u{1b}')));
        assert!(matches!(reading.parts[2].content, PartContent::Media { bytes: 3, .. }));
        assert!(matches!(reading.parts[4].content, PartContent::Odd(_)));
        let wishes: Vec<&str> = reading.wishes.iter().map(SafeText::as_str).collect();
        assert_eq!(
            wishes,
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
        assert!(reading.warnings.is_empty(), "{:?}", reading.warnings);
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

    #[test]
    fn a_draft_becomes_the_result_of_the_specification() {
        let mut draft = SamplingDraft { text: "Hi!".into(), ..SamplingDraft::default() };
        assert_eq!(
            draft.result(),
            Ok(json!({"role": "assistant", "content": {"type": "text", "text": "Hi!"},
                "model": "by hand", "stopReason": "endTurn"}))
        );
        draft.tool_uses.push(("add".into(), json!({"a": 1})));
        let result = draft.result().expect("complete");
        assert_eq!(result["content"][1]["name"], "add");
    }

    #[test]
    fn an_empty_or_broken_draft_names_every_problem() {
        assert!(SamplingDraft::default().result().is_err());
        let raw = |text: &str| SamplingDraft { raw: Some(text.into()), ..SamplingDraft::default() };
        assert_eq!(raw("{}").result().expect_err("nothing in it").len(), 3);
        assert_eq!(raw("{").result().expect_err("broken")[0].keyword, "json");
        assert_eq!(raw("[]").result().expect_err("a list")[0].keyword, "type");
    }

    #[test]
    fn editing_as_json_starts_from_what_was_written() {
        let mut draft = SamplingDraft { text: "Hi!".into(), ..SamplingDraft::default() };
        let before = draft.result();
        draft.edit_raw();
        assert_eq!(draft.result(), before);
        draft.next_stop_reason();
        assert_eq!(draft.stop_reason, "stopSequence");
    }
}
