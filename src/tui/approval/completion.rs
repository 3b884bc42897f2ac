//! The answer to a sampling request as a person writes it (MCP 2025-11-25, client features,
//! sampling, `CreateMessageResult`). Pure: values in, values out.

use serde_json::{Map, Value, json};

use crate::error::Violation;

/// Stop reasons of the specification, in the order in which a key steps through them.
pub const STOP_REASONS: &[&str] = &["endTurn", "stopSequence", "maxTokens", "toolUse"];

/// The answer a person is writing.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingDraft {
    /// Text of the assistant's message.
    pub text: String,
    /// Name of the "model"; `manual` unless changed.
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
            model: "manual".to_owned(),
            stop_reason: STOP_REASONS[0].to_owned(),
            tool_uses: Vec::new(),
            raw: None,
        }
    }
}

impl SamplingDraft {
    /// The draft that says the same as a result, when one can: text and tool calls, nothing else.
    pub fn of(result: &Value) -> Option<Self> {
        let text_of = |key: &str| result.get(key).and_then(Value::as_str).map(str::to_owned);
        let content = result.get("content")?;
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        let mut draft = Self { text: String::new(), ..Self::default() };
        draft.model = text_of("model").unwrap_or(draft.model);
        draft.stop_reason = text_of("stopReason").unwrap_or(draft.stop_reason);
        for block in blocks {
            let field = |key: &str| block.get(key).and_then(Value::as_str);
            match field("type")? {
                "text" if draft.text.is_empty() => field("text")?.clone_into(&mut draft.text),
                "tool_use" => {
                    let input = block.get("input").cloned().unwrap_or_else(|| json!({}));
                    draft.tool_uses.push((field("name")?.to_owned(), input));
                }
                _ => return None,
            }
        }
        let role = result.get("role").and_then(Value::as_str);
        (role == Some("assistant")).then_some(draft)
    }

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
            self.raw = Some(crate::base::text::json::pretty(&self.compose()));
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
    fn a_draft_becomes_the_result_of_the_specification() {
        let mut draft = SamplingDraft { text: "Hi!".into(), ..SamplingDraft::default() };
        assert_eq!(
            draft.result(),
            Ok(json!({"role": "assistant", "content": {"type": "text", "text": "Hi!"},
                "model": "manual", "stopReason": "endTurn"}))
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

    #[test]
    fn a_result_becomes_the_draft_that_says_the_same_or_none() {
        let mut draft =
            SamplingDraft { text: "Hi".into(), model: "m".into(), ..Default::default() };
        draft.tool_uses.push(("add".into(), json!({"a": 1})));
        draft.stop_reason = "toolUse".into();
        let result = draft.result().expect("complete");
        assert_eq!(SamplingDraft::of(&result), Some(draft));
        let image = json!({"role": "assistant", "model": "m",
            "content": {"type": "image", "data": "", "mimeType": "image/png"}});
        assert_eq!(SamplingDraft::of(&image), None);
    }
}
