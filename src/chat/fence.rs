//! Tool calls in the text of models without native tool calls: blocks fenced by ```` ```tool ````,
//! reassembled across chunks. Pure.

use serde_json::Value;

use crate::llm::{ToolCall, call_id};

/// First line of a block.
const OPEN: &str = "```tool";
/// Last line of a block.
const CLOSE: &str = "```";

/// Separates text and calls in a stream of chunks.
#[derive(Debug, Default)]
pub struct Fence {
    /// The current line so far, while it may still open a block or is inside one.
    line: String,
    /// Whether the current line is text.
    is_text: bool,
    /// Content of the current block so far.
    block: Option<String>,
    /// Completed calls; malformed ones have a `problem`.
    pub calls: Vec<ToolCall>,
}

impl Fence {
    /// Processes the next chunk; returns the text outside of blocks.
    pub fn push(&mut self, chunk: &str) -> String {
        let mut text = String::new();
        for part in chunk.split_inclusive('\n') {
            self.line.push_str(part);
            let is_whole = part.ends_with('\n');
            if self.block.is_some() || (is_whole && !self.is_text && self.opens()) {
                if is_whole {
                    self.end_line();
                }
            } else if self.is_text || is_whole || !self.may_open() {
                text.push_str(&std::mem::take(&mut self.line));
                self.is_text = !is_whole;
            }
        }
        text
    }

    /// Ends the answer; returns the remaining text. An unclosed block becomes a call with a
    /// `problem`.
    pub fn finish(&mut self) -> String {
        if self.block.is_some() || self.opens() {
            self.end_line();
        }
        if let Some(block) = self.block.take() {
            let raw = ToolCall { arguments: Value::String(block), ..named(call_id(), "tool") };
            self.calls.push(raw.unfinished());
        }
        std::mem::take(&mut self.line)
    }

    /// Whether the current line opens a block.
    fn opens(&self) -> bool {
        self.line.trim_end() == OPEN
    }

    /// Whether the current line may still open a block.
    fn may_open(&self) -> bool {
        OPEN.starts_with(&self.line) || self.opens()
    }

    /// Adds a complete line to the block, or opens or closes the block with it.
    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        match self.block.take() {
            Some(block) if line.trim() == CLOSE => self.calls.push(call(&block)),
            Some(block) => self.block = Some(block + &line),
            None => self.block = Some(String::new()),
        }
    }
}

fn named(id: String, name: &str) -> ToolCall {
    ToolCall { id, name: name.to_owned(), ..ToolCall::default() }
}

/// Parses the call in a block: `{"name": "...", "arguments": {...}}`.
fn call(block: &str) -> ToolCall {
    let wrong = |why: String| ToolCall {
        arguments: Value::String(block.to_owned()),
        problem: Some(format!("the block is malformed: {why}")),
        ..named(call_id(), "tool")
    };
    let mut object = match serde_json::from_str(block) {
        Ok(Value::Object(object)) => object,
        Ok(_) => return wrong("a JSON object is expected".to_owned()),
        Err(error) => return wrong(error.to_string()),
    };
    let Some(Value::String(name)) = object.remove("name") else {
        return wrong("`name` is missing".to_owned());
    };
    match object.remove("arguments") {
        Some(arguments @ Value::Object(_)) => ToolCall { arguments, ..named(call_id(), &name) },
        None => ToolCall::new(call_id(), name, ""),
        Some(_) => wrong("`arguments` is not an object".to_owned()),
    }
}

/// Formats a call as a block, for the model's history.
pub fn written(call: &ToolCall) -> String {
    match &call.arguments {
        Value::String(raw) => format!("{OPEN}\n{}\n{CLOSE}\n", raw.trim_end()),
        arguments => {
            let object = serde_json::json!({"name": call.name, "arguments": arguments});
            format!("{OPEN}\n{object}\n{CLOSE}\n")
        }
    }
}

/// Instructions for a model that calls tools by fenced blocks.
pub const RULES: &str = "To call a tool, write a block of its own lines:\n```tool\n{\"name\": \
\"TOOL\", \"arguments\": {}}\n```\nOne block is one call. Then stop: the result comes in the next \
message. Never write a result yourself.";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANSWER: &str = "Let me see.\n```tool\n{\"name\": \"a__b\", \"arguments\": {\"x\": 1}}\n```\nand\n``` text\n```toolbox\n";

    fn read(chunks: &[&str]) -> (String, Vec<ToolCall>) {
        let mut fence = Fence::default();
        let mut text: String = chunks.iter().map(|chunk| fence.push(chunk)).collect();
        text += &fence.finish();
        (text, fence.calls)
    }

    #[test]
    fn malformed_and_unfinished_blocks_are_calls_with_a_problem() {
        for (text, why) in [
            ("```tool\n{\"name\": }\n```\n", "malformed"),
            ("```tool\n[]\n```", "an object"),
            ("```tool\n{\"arguments\": {}}\n```", "`name` is missing"),
            ("```tool\n{\"name\": \"a\", \"arguments\": 3}\n```", "not an object"),
            ("```tool\n{\"name\": \"a\"}\n", "cut off"),
            ("```tool", "cut off"),
        ] {
            let (_, calls) = read(&[text]);
            let why_not = calls[0].problem.clone().unwrap_or_default();
            let expected = if why == "an object" { "a JSON object" } else { why };
            assert!(why_not.contains(expected), "{text}: {why_not}");
        }
    }

    proptest! {
        #[test]
        fn a_block_is_the_same_wherever_the_chunks_are_split(cuts in prop::collection::vec(0..ANSWER.len(), 0..40)) {
            let mut cuts = cuts;
            cuts.push(0);
            cuts.sort_unstable();
            let mut chunks: Vec<&str> = cuts.windows(2).map(|w| &ANSWER[w[0]..w[1]]).collect();
            chunks.push(&ANSWER[cuts[cuts.len() - 1]..]);
            let (text, calls) = read(&chunks);
            prop_assert_eq!(text, "Let me see.\nand\n``` text\n```toolbox\n");
            prop_assert_eq!(calls.len(), 1);
            prop_assert_eq!(&calls[0].name, "a__b");
            prop_assert_eq!(&calls[0].arguments, &serde_json::json!({"x": 1}));
            prop_assert_eq!(&calls[0].problem, &None);
        }
    }
}
