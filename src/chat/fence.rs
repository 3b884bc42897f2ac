//! Tool calls in the text of models without native tool calls: blocks fenced by ```` ```tool ````, as
//! models write them (indented, on one line, after words, as ```` ```json ````), reassembled across
//! chunks. What follows a call is the model's own invention, and is cut. Pure.

use serde_json::Value;

use crate::llm::{ToolCall, call_id};

/// Opens and closes a block.
const FENCE: &str = "```";
/// The words after a fence that open a call.
const TOOL_WORDS: [&str; 2] = ["tool", "tool_call"];
/// The words after a fence that may open a call: only if a call stands in the block.
const DATA_WORDS: [&str; 2] = ["json", ""];

/// Where in an answer the reader is.
#[derive(Debug, Default)]
enum FenceReading {
    /// Outside of blocks.
    #[default]
    Text,
    /// Inside a block that is text.
    Code,
    /// Inside a block that is a call, or may be one.
    Block {
        /// The fence and the words after it, as written.
        opening: String,
        /// Whether it must be a call.
        is_tool: bool,
    },
    /// Behind a call: only further calls are read.
    Called,
    /// Behind text that followed a call: nothing is read.
    Cut,
}

/// What a fence is, as far as it can be told.
enum FenceOpening {
    Unknown,
    /// The length of the words after it.
    Tool(usize),
    Data(usize),
    Closing,
    Other,
}

/// Separates text and calls in a stream of chunks.
#[derive(Debug, Default)]
pub struct Fence {
    reading: FenceReading,
    /// What has come and is not decided yet; inside a block its content.
    rest: String,
    /// Whether words stand before `rest` in its line.
    is_mid_line: bool,
    /// Completed calls; malformed ones have a `problem`.
    pub calls: Vec<ToolCall>,
}

impl Fence {
    /// Processes the next chunk; returns the text outside of blocks.
    pub fn push(&mut self, chunk: &str) -> String {
        self.rest.push_str(chunk);
        let mut text = String::new();
        while self.step(&mut text, false) {}
        text
    }

    /// Ends the answer; returns the remaining text. An unclosed block becomes a call with a
    /// `problem`.
    pub fn finish(&mut self) -> String {
        let mut text = String::new();
        while self.step(&mut text, true) {}
        let rest = std::mem::take(&mut self.rest);
        match std::mem::take(&mut self.reading) {
            FenceReading::Block { is_tool: true, .. } => {
                let raw = ToolCall { arguments: Value::String(rest), ..named(call_id(), "tool") };
                self.calls.push(raw.unfinished());
            }
            FenceReading::Block { opening, .. } if self.calls.is_empty() => {
                text.push_str(&opening);
                text.push_str(&rest);
            }
            FenceReading::Text | FenceReading::Code => text.push_str(&rest),
            FenceReading::Block { .. } | FenceReading::Called | FenceReading::Cut => {}
        }
        text
    }

    /// Decides the next part; false if more has to come.
    fn step(&mut self, text: &mut String, is_end: bool) -> bool {
        match &self.reading {
            FenceReading::Cut => {
                self.rest.clear();
                false
            }
            FenceReading::Block { .. } => self.step_block(text, is_end),
            FenceReading::Text | FenceReading::Code | FenceReading::Called => {
                self.step_text(text, is_end)
            }
        }
    }

    fn step_text(&mut self, text: &mut String, is_end: bool) -> bool {
        let is_called = matches!(self.reading, FenceReading::Called);
        let Some(at) = self.rest.find(FENCE) else {
            // The beginning of a fence may stand at the end.
            let held = self.rest.len() - self.rest.trim_end_matches('`').len();
            let plain = self.rest.len() - held.min(FENCE.len() - 1);
            self.emit(text, plain);
            return false;
        };
        self.emit(text, at);
        if matches!(self.reading, FenceReading::Cut) {
            return true;
        }
        let is_code = matches!(self.reading, FenceReading::Code);
        match opening(&self.rest[FENCE.len()..], is_end) {
            FenceOpening::Unknown => return false,
            FenceOpening::Tool(words) => self.open(words, true),
            FenceOpening::Data(words) if !is_code && !self.is_mid_line => self.open(words, false),
            _ if is_called => self.reading = FenceReading::Cut,
            FenceOpening::Data(0) | FenceOpening::Closing if is_code && !self.is_mid_line => {
                self.reading = FenceReading::Text;
                self.emit(text, FENCE.len());
            }
            FenceOpening::Data(_) | FenceOpening::Closing | FenceOpening::Other => {
                if !self.is_mid_line && !is_code {
                    self.reading = FenceReading::Code;
                }
                self.emit(text, FENCE.len());
            }
        }
        true
    }

    fn open(&mut self, words: usize, is_tool: bool) {
        let content = self.rest.split_off(FENCE.len() + words);
        let opening = std::mem::replace(&mut self.rest, content);
        self.reading = FenceReading::Block { opening, is_tool };
    }

    fn step_block(&mut self, text: &mut String, is_end: bool) -> bool {
        let FenceReading::Block { opening, is_tool } = &self.reading else { return false };
        let (opening, is_tool) = (opening.clone(), *is_tool);
        let body = self.rest.trim_start();
        if !is_tool && !body.is_empty() && !body.starts_with('{') {
            return self.as_code(text, &opening);
        }
        let Some((end, after)) = closing(&self.rest, is_end) else { return false };
        let rest = self.rest.split_off(after);
        let mut block = std::mem::replace(&mut self.rest, rest);
        if !is_tool && !is_call(&block[..end]) {
            self.rest.insert_str(0, &block);
            return self.as_code(text, &opening);
        }
        block.truncate(end);
        self.calls.push(call(&block));
        self.reading = FenceReading::Called;
        true
    }

    /// Gives a block that is no call back as text.
    fn as_code(&mut self, text: &mut String, opening: &str) -> bool {
        if !self.calls.is_empty() {
            self.reading = FenceReading::Cut;
            return true;
        }
        text.push_str(opening);
        self.reading = FenceReading::Code;
        self.is_mid_line = true;
        true
    }

    /// Gives the first bytes out as text, or cuts them behind a call.
    fn emit(&mut self, text: &mut String, length: usize) {
        let rest = self.rest.split_off(length);
        let plain = std::mem::replace(&mut self.rest, rest);
        match plain.rfind('\n') {
            Some(at) => self.is_mid_line = !plain[at..].trim().is_empty(),
            None => self.is_mid_line |= !plain.trim().is_empty(),
        }
        if self.calls.is_empty() {
            text.push_str(&plain);
        } else if !plain.trim().is_empty() {
            self.reading = FenceReading::Cut;
        }
    }
}

/// What a fence opens, by the text after it.
fn opening(after: &str, is_end: bool) -> FenceOpening {
    let end = after.find(['\n', '{']);
    let words = after[..end.unwrap_or(after.len())].trim();
    let length = end.unwrap_or(after.len());
    if end.is_none() && !is_end {
        let may_be = TOOL_WORDS.iter().chain(&DATA_WORDS).any(|known| known.starts_with(words));
        return if may_be { FenceOpening::Unknown } else { FenceOpening::Other };
    }
    if TOOL_WORDS.contains(&words) {
        FenceOpening::Tool(length)
    } else if end.is_none() && words.is_empty() {
        FenceOpening::Closing
    } else if DATA_WORDS.contains(&words) && end.is_some() {
        FenceOpening::Data(length)
    } else {
        FenceOpening::Other
    }
}

/// The end of a block's content and of its closing fence: a fence at the beginning of a line, or one
/// behind complete JSON (fences also stand in texts that are arguments).
fn closing(block: &str, is_end: bool) -> Option<(usize, usize)> {
    block.match_indices(FENCE).find_map(|(at, _)| {
        let line = block[..at].rfind('\n').map_or(0, |line| line + 1);
        let is_first = line > 0 && block[line..at].trim().is_empty();
        let after = at + FENCE.len();
        // Three of four ticks do not close.
        let is_whole = is_end || block.len() > after || !is_first || block.ends_with(FENCE);
        let is_json = || serde_json::from_str::<Value>(&block[..at]).is_ok();
        (is_whole && (is_first || is_json())).then_some((at, after))
    })
}

/// Whether a block that is only marked as data is a call: a name, arguments, and nothing else.
fn is_call(block: &str) -> bool {
    let Ok(Value::Object(object)) = serde_json::from_str(block) else { return false };
    let has_name = NAMES.iter().any(|key| object.get(*key).is_some_and(Value::is_string));
    let known = |key: &String| key == ARGUMENTS || NAMES.contains(&key.as_str());
    has_name && object.contains_key(ARGUMENTS) && object.keys().all(known)
}

/// The keys of a tool's name.
const NAMES: [&str; 2] = ["name", "tool"];
const ARGUMENTS: &str = "arguments";

fn named(id: String, name: &str) -> ToolCall {
    ToolCall { id, name: name.to_owned(), ..ToolCall::default() }
}

/// Parses the call in a block: `{"name": "...", "arguments": {...}}`, or `tool` for `name`.
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
    let name = NAMES.iter().find_map(|key| Some(object.get(*key)?.as_str()?.to_owned()));
    let Some(name) = name else { return wrong("`name` is missing".to_owned()) };
    match object.remove(ARGUMENTS) {
        Some(arguments @ Value::Object(_)) => ToolCall { arguments, ..named(call_id(), &name) },
        None => ToolCall::new(call_id(), name, ""),
        Some(_) => wrong("`arguments` is not an object".to_owned()),
    }
}

/// How models begin a call in the form of their own training, which whatever serves them did not read
/// (Hermes and Qwen; Mistral; Llama; `DeepSeek`; Kimi; gpt-oss).
const OWN_FORMS: [&str; 9] = [
    "<tool_call>",
    "<function=",
    "<function_call",
    "[TOOL_CALLS]",
    "[TOOL_CALL]",
    "<|python_tag|>",
    "<|tool_call",
    "<\u{ff5c}tool\u{2581}call",
    "<|channel|>commentary to=",
];

/// Whether an answer is a call of a tool that stands in its text, in another form than that of blocks:
/// nobody read it, and nothing came of it.
pub(crate) fn is_unread_call(text: &str, is_tool: impl Fn(&str) -> bool) -> bool {
    let is_in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let names = |rest: &str| rest.split(|c| !is_in_name(c)).any(&is_tool);
    if let Some(at) = OWN_FORMS.iter().filter_map(|form| text.find(form)).min() {
        return names(&text[at..]);
    }
    // The call alone, as small models write it.
    let whole = text.trim().trim_start_matches(FENCE).trim_start_matches("json");
    let whole = whole.trim_end_matches(FENCE).trim();
    let Ok(value) = serde_json::from_str::<Value>(whole) else { return false };
    let call = value.get(0).unwrap_or(&value);
    let has = |key: &str| call.get(key).is_some_and(Value::is_object);
    let name = NAMES.iter().find_map(|key| call.get(*key)?.as_str());
    (has(ARGUMENTS) || has("parameters")) && name.is_some_and(is_tool)
}

/// Formats a call as a block, for the model's history.
pub fn written(call: &ToolCall) -> String {
    match &call.arguments {
        Value::String(raw) => format!("{FENCE}tool\n{}\n{FENCE}\n", raw.trim_end()),
        arguments => {
            let object = serde_json::json!({"name": call.name, "arguments": arguments});
            format!("{FENCE}tool\n{object}\n{FENCE}\n")
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

    const ANSWER: &str = "Let me see.\n``` text\n{\"a\": 1}\n```\n```tool\n{\"name\": \"a__b\", \"arguments\": {\"x\": 1}}\n```\nResult: 7\n```toolbox\n";

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

    #[test]
    fn calls_are_read_as_models_write_them() {
        let object = r#"{"tool": "a__b", "arguments": {"x": "1 ``` 2"}}"#;
        for (answer, said) in [
            (format!("```tool\n{object}\n```"), ""),
            (format!("Well.\n  ```tool\n  {object}\n  ```\n"), "Well.\n  "),
            (format!("``` tool\r\n{object}\r\n```\r\n"), ""),
            (format!("```tool {object}```"), ""),
            (format!("```tool\n{object}```\nI wait."), ""),
            (format!("I call ```tool\n{object}\n```"), "I call "),
            (format!("```json\n{object}\n```\n"), ""),
            (format!("```\n{object}\n```\n"), ""),
            (format!("Ok:\n```tool\n{object}\n```\nResult: 42\n```tool\n{object}\n```"), "Ok:\n"),
            (format!("```py\nx = 1\n```\n```tool\n{object}\n```"), "```py\nx = 1\n```\n"),
        ] {
            let (text, calls) = read(&[&answer]);
            assert_eq!((text.as_str(), calls.len()), (said, 1), "{answer}");
            assert_eq!((calls[0].name.as_str(), &calls[0].problem), ("a__b", &None), "{answer}");
            let bytes: Vec<String> = answer.chars().map(String::from).collect();
            let bytes: Vec<&str> = bytes.iter().map(String::as_str).collect();
            assert_eq!(read(&bytes).0, said, "{answer}");
        }
        let two = format!("```tool\n{object}\n```\n\n```tool\n{object}\n```\n");
        assert_eq!(read(&[&two]).1.len(), 2);
        for answer in [
            "```json\n{\"name\": \"a\", \"age\": 3}\n```\nis a person",
            "```json\n[1, 2]\n```\n",
            "Use ```x``` here.",
            "``",
            "```",
            "```toolbox\n{}\n```",
            "```json\n{\"tool\": \"a\", \"arguments\": {}}",
            "a ``` b\n```rust\nlet x;\n```\nc",
        ] {
            let (text, calls) = read(&[answer]);
            assert_eq!((text.as_str(), calls.len()), (answer, 0));
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
            prop_assert_eq!(text, "Let me see.\n``` text\n{\"a\": 1}\n```\n");
            prop_assert_eq!(calls.len(), 1);
            prop_assert_eq!(&calls[0].name, "a__b");
            prop_assert_eq!(&calls[0].arguments, &serde_json::json!({"x": 1}));
            prop_assert_eq!(&calls[0].problem, &None);
        }
    }
}
