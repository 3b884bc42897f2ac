//! Tool calls in the text of models without native tool calls: blocks fenced by ```` ```tool ````, as
//! models write them (indented, on one line, after words, as ```` ```json ````), reassembled across
//! chunks. What follows a call is the model's own invention, and is cut. Pure.

use serde_json::Value;

use crate::llm::{ToolCall, call_id};
use base::text::cut;

/// Opens and closes a block.
const FENCE: &str = "```";
/// The words after a fence that open a call.
const TOOL_WORDS: [&str; 2] = ["tool", "tool_call"];
/// The words after a fence that may open a call: only if a call stands in the block.
const DATA_WORDS: [&str; 2] = ["json", ""];

/// Most bytes behind a fence in which the words after it are looked for.
const MAX_OPENING_BYTES: usize = 256;

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
        /// How far it was judged.
        scan: BlockScan,
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
    /// What has come and is not decided yet, behind `decided`; inside a block its content.
    rest: String,
    /// How many bytes of `rest` are decided; they go when the chunk ends.
    decided: usize,
    /// Whether words stand before the undecided part in its line.
    is_mid_line: bool,
    /// Completed calls; malformed ones have a `problem`.
    pub calls: Vec<ToolCall>,
}

impl Fence {
    /// Processes the next chunk; returns the text outside of blocks.
    pub fn push(&mut self, chunk: &str) -> String {
        self.rest.push_str(chunk);
        self.read(false)
    }

    /// Ends the answer; returns the remaining text. An unclosed block becomes a call with a
    /// `problem`.
    pub fn finish(&mut self) -> String {
        let mut text = self.read(true);
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

    /// Decides what can be decided; returns the text in it.
    fn read(&mut self, is_end: bool) -> String {
        let mut text = String::new();
        while self.step(&mut text, is_end) {}
        self.rest.drain(..std::mem::take(&mut self.decided));
        text
    }

    /// What is not decided yet.
    fn open_text(&self) -> &str {
        &self.rest[self.decided..]
    }

    /// Decides the next part; false if more has to come.
    fn step(&mut self, text: &mut String, is_end: bool) -> bool {
        match &self.reading {
            FenceReading::Cut => {
                self.decided = self.rest.len();
                false
            }
            FenceReading::Block { .. } => self.step_block(text),
            FenceReading::Text | FenceReading::Code | FenceReading::Called => {
                self.step_text(text, is_end)
            }
        }
    }

    fn step_text(&mut self, text: &mut String, is_end: bool) -> bool {
        let is_called = matches!(self.reading, FenceReading::Called);
        let open = self.open_text();
        let Some(at) = open.find(FENCE) else {
            // The beginning of a fence may stand at the end.
            let held = open.len() - open.trim_end_matches('`').len();
            let plain = open.len() - held.min(FENCE.len() - 1);
            self.emit(text, plain);
            return false;
        };
        self.emit(text, at);
        if matches!(self.reading, FenceReading::Cut) {
            return true;
        }
        let is_code = matches!(self.reading, FenceReading::Code);
        match opening(&self.open_text()[FENCE.len()..], is_end) {
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
        let length = FENCE.len() + words;
        let opening = self.open_text()[..length].to_owned();
        self.decided += length;
        self.reading = FenceReading::Block { opening, is_tool, scan: BlockScan::default() };
    }

    fn step_block(&mut self, text: &mut String) -> bool {
        let open = &self.rest[self.decided..];
        let FenceReading::Block { opening, is_tool, scan } = &mut self.reading else {
            return false;
        };
        let is_tool = *is_tool;
        let found = scan.closing(open);
        let may_be_call = is_tool || scan.first.is_none_or(|first| first == '{');
        let closing = match found {
            _ if !may_be_call => None,
            Some(end) if !is_tool && !is_call(&open[..end]) => None,
            Some(end) => Some(end),
            None => return false,
        };
        if let Some(end) = closing {
            self.calls.push(call(&open[..end]));
            self.decided += end + FENCE.len();
            self.reading = FenceReading::Called;
        } else {
            let opening = std::mem::take(opening);
            self.as_code(text, &opening);
        }
        true
    }

    /// Gives a block that is no call back as text.
    fn as_code(&mut self, text: &mut String, opening: &str) {
        if !self.calls.is_empty() {
            self.reading = FenceReading::Cut;
            return;
        }
        text.push_str(opening);
        self.reading = FenceReading::Code;
        self.is_mid_line = true;
    }

    /// Gives the first bytes out as text, or cuts them behind a call.
    fn emit(&mut self, text: &mut String, length: usize) {
        let plain = &self.rest[self.decided..self.decided + length];
        match plain.rfind('\n') {
            Some(at) => self.is_mid_line = !plain[at..].trim().is_empty(),
            None => self.is_mid_line |= !plain.trim().is_empty(),
        }
        if self.calls.is_empty() {
            text.push_str(plain);
        } else if !plain.trim().is_empty() {
            self.reading = FenceReading::Cut;
        }
        self.decided += length;
    }
}

/// What a fence opens, by the text after it.
fn opening(after: &str, is_end: bool) -> FenceOpening {
    let line = cut(after, MAX_OPENING_BYTES);
    let end = line.find(['\n', '{']);
    if end.is_none() && line.len() < after.len() {
        return FenceOpening::Other;
    }
    let length = end.unwrap_or(line.len());
    let words = line[..length].trim();
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

/// Looks for the end of a block whose content comes in parts, each byte of which is looked at once.
///
/// A block ends at a fence at the beginning of a line, or at one behind complete JSON (fences also
/// stand in texts that are arguments). The first fence outside of a JSON text decides the latter:
/// what follows it is no JSON any more.
#[derive(Debug, Default)]
struct BlockScan {
    /// Up to where the content was looked at.
    at: usize,
    /// The first character that is no blank.
    first: Option<char>,
    /// Whether nothing but blanks stands in the line so far, which is not the first.
    is_line_start: bool,
    text: JsonText,
    /// Whether it is no JSON.
    is_broken: bool,
}

/// Where in a JSON text the content ends so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum JsonText {
    #[default]
    Outside,
    Inside,
    /// Inside, behind a backslash.
    Escaped,
}

impl JsonText {
    const fn after(self, next: char) -> Self {
        match (self, next) {
            (Self::Outside, '"') | (Self::Escaped, _) => Self::Inside,
            (Self::Inside, '"') => Self::Outside,
            (Self::Inside, '\\') => Self::Escaped,
            (kept, _) => kept,
        }
    }
}

impl BlockScan {
    /// The end of the content, where its closing fence begins; `block` begins as it did before.
    fn closing(&mut self, block: &str) -> Option<usize> {
        while let Some(next) = block[self.at..].chars().next() {
            if self.first.is_none() && !next.is_whitespace() {
                self.first = Some(next);
            }
            if next == '`' {
                let rest = &block[self.at..];
                if rest.starts_with(FENCE) {
                    if self.closes(&block[..self.at]) {
                        return Some(self.at);
                    }
                    self.at += FENCE.len();
                } else if FENCE.starts_with(rest) {
                    // More of it may come.
                    return None;
                } else {
                    self.at += next.len_utf8();
                }
                self.is_line_start = false;
                self.text = self.text.after('`');
                continue;
            }
            self.is_line_start = next == '\n' || self.is_line_start && next.is_whitespace();
            self.text = self.text.after(next);
            self.at += next.len_utf8();
        }
        None
    }

    /// Whether a fence behind this content closes the block.
    fn closes(&mut self, content: &str) -> bool {
        if self.is_line_start {
            return true;
        }
        if self.text != JsonText::Outside || self.is_broken {
            return false;
        }
        self.is_broken = serde_json::from_str::<Value>(content).is_err();
        !self.is_broken
    }
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

    /// What blocks are made of.
    const PARTS: &[&str] = &[
        "```", "`", "\n", " ", "{", "}", "\"", "\\", "\"a\": ", "1", "[", "]", ",", "x", "\u{e4}",
        "\u{a0}",
    ];

    /// The end of a block as it is defined, by a look at all that stands before each fence.
    fn first_closing(block: &str) -> Option<usize> {
        block.match_indices(FENCE).map(|(at, _)| at).find(|at| {
            let before = &block[..*at];
            let is_first = before.rfind('\n').is_some_and(|line| before[line..].trim().is_empty());
            is_first || serde_json::from_str::<Value>(before).is_ok()
        })
    }

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

    #[test]
    fn a_large_answer_full_of_fences_is_read_in_one_pass() {
        const MAX_FENCES: usize = 20_000;
        let page = "```rust\\nlet x = \\\"y\\\";\\n```\\n".repeat(MAX_FENCES);
        let object = format!("{{\"name\": \"write\", \"arguments\": {{\"text\": \"{page}\"}}}}");
        let answer = format!("```tool\n{object}```\n");
        let parts: Vec<&str> =
            answer.as_bytes().chunks(7).map(|b| str::from_utf8(b).unwrap()).collect();
        for chunks in [&parts[..], &[&*answer]] {
            let (text, calls) = read(chunks);
            assert_eq!((text.as_str(), calls.len()), ("", 1));
            assert_eq!(calls[0].problem, None);
            let written =
                calls[0].arguments["text"].as_str().map_or(0, |text| text.matches("```").count());
            assert_eq!(written, 2 * MAX_FENCES);
        }
        // Fences that close nothing: in text, in a block that is no JSON, and without a line.
        for answer in [
            "a ``` b ".repeat(MAX_FENCES),
            "``` ".repeat(MAX_FENCES),
            format!("```py\n{}", "x ``` ".repeat(MAX_FENCES)),
            format!("```json\n{{{}", "} ``` ".repeat(MAX_FENCES)),
            format!(
                "```json\n{{\"a\": [{}1]}} x{}",
                "1,".repeat(MAX_FENCES),
                " ```".repeat(MAX_FENCES)
            ),
            format!("```json\n{}", " ".repeat(10 * MAX_FENCES)),
            format!("```{}", " ".repeat(10 * MAX_FENCES)),
        ] {
            let parts: Vec<&str> =
                answer.as_bytes().chunks(7).map(|b| str::from_utf8(b).unwrap()).collect();
            for chunks in [&parts[..], &[&*answer]] {
                let (text, calls) = read(chunks);
                assert!(text == answer && calls.is_empty(), "{}", &answer[..20]);
            }
        }
    }

    proptest! {
        #[test]
        fn a_block_ends_where_it_did_when_all_of_it_was_looked_at(
            parts in prop::collection::vec(prop::sample::select(PARTS), 0..24),
        ) {
            let block = parts.concat();
            let (mut scan, mut found) = (BlockScan::default(), None);
            for end in (0..=block.len()).filter(|end| block.is_char_boundary(*end)) {
                found = found.or_else(|| scan.closing(&block[..end]));
            }
            prop_assert_eq!(found, first_closing(&block));
        }

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
