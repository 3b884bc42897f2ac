//! Results that are longer than what the model was sent of them: kept for the turns that follow, and
//! read on by a tool of the chat's own. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::llm::ToolSpec;
use base::text::cut;

/// The tool's name. No server has one like it: what stands before `__` would have to be its name.
pub(crate) const READ_RESULT: &str = "mcpdeck__read_result";

/// Most of the results of a conversation that are kept, in bytes.
const MAX_WHOLE_BYTES: usize = 2 << 20;
/// Results of up to this size are not shortened, and not kept.
pub(crate) const MIN_SHORTENED_BYTES: usize = 600;
/// What one reading gives, in bytes, unless less is asked for.
const MAX_PART_BYTES: usize = 20_000;

/// The whole text of the latest results.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WholeResults {
    /// By the id of the call, oldest first.
    results: VecDeque<(String, Arc<str>)>,
    bytes: usize,
    /// Whether the model was sent less of one, and can read on.
    is_offered: bool,
}

impl WholeResults {
    /// Keeps the result of a call; the oldest make room.
    pub(crate) fn add(&mut self, call: &str, text: &str) {
        if text.len() <= MIN_SHORTENED_BYTES {
            return;
        }
        let text = cut(text, MAX_WHOLE_BYTES);
        self.bytes += text.len();
        self.results.push_back((call.to_owned(), text.into()));
        while self.bytes > MAX_WHOLE_BYTES {
            let Some((_, old)) = self.results.pop_front() else { break };
            self.bytes -= old.len();
        }
    }

    /// Whether the whole result of a call is here.
    pub(crate) fn has(&self, call: &str) -> bool {
        self.results.iter().any(|(id, _)| id == call)
    }

    /// Offers the tool from now on: a result was shortened.
    pub(crate) fn offer(&mut self) {
        self.is_offered |= !self.results.is_empty();
    }

    /// Whether the tool is offered.
    pub(crate) const fn is_offered(&self) -> bool {
        self.is_offered
    }

    /// The tool, if it is offered.
    pub(crate) fn tool(&self) -> Option<ToolSpec> {
        let schema = || {
            json!({
                "type": "object",
                "properties": {
                    "id": {"type": "string", "description": "Which result, as its note says."},
                    "from": {"type": "integer", "minimum": 0, "description": "The first byte."},
                    "bytes": {"type": "integer", "minimum": 1, "description":
                        format!("How many, {MAX_PART_BYTES} at most.")},
                },
                "required": ["id", "from"],
            })
        };
        self.is_offered.then(|| ToolSpec {
            name: READ_RESULT.to_owned(),
            description: "Reads on in a result that was shortened, without calling its tool again."
                .to_owned(),
            schema: Arc::new(schema()),
        })
    }

    /// A part of a result.
    ///
    /// # Errors
    /// Says what is wrong with the arguments.
    pub(crate) fn part(&self, arguments: &Value) -> Result<String, String> {
        let id = arguments["id"].as_str().unwrap_or_default();
        let number = |key: &str| arguments[key].as_u64().and_then(|n| usize::try_from(n).ok());
        let Some((_, text)) = self.results.iter().find(|(known, _)| known == id) else {
            let known: Vec<&str> = self.results.iter().map(|(id, _)| id.as_str()).collect();
            return Err(format!(
                "the result `{id}` is not there any more; kept are: {}",
                known.join(", ")
            ));
        };
        let from = number("from").unwrap_or_default();
        if from >= text.len() {
            return Err(format!("the result has {} bytes: `from` is behind its end", text.len()));
        }
        let from = (from..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let most = number("bytes").unwrap_or(MAX_PART_BYTES).clamp(1, MAX_PART_BYTES);
        let part = cut(&text[from..], most);
        let end = from + part.len();
        let rest = match text.len() - end {
            0 => "this is its end".to_owned(),
            rest => format!("{rest} bytes follow, from {end}"),
        };
        Ok(format!("[bytes {from} to {end} of {}; {rest}]\n{part}", text.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_read_on_between_characters_until_their_end() {
        let mut whole = WholeResults::default();
        whole.add("short", "x");
        assert!(!whole.has("short") && whole.tool().is_none());
        let text = "é".repeat(15_000);
        whole.add("c1", &text);
        whole.offer();
        assert!(whole.has("c1") && whole.tool().is_some());
        let (mut from, mut all) = (0, String::new());
        while from < text.len() {
            let part = whole.part(&json!({"id": "c1", "from": from})).expect("a part");
            let (head, part) = part.split_once('\n').expect("a head");
            assert!(head.starts_with(&format!("[bytes {from} to ")), "{head}");
            all.push_str(part);
            from += part.len();
            assert_eq!(head.ends_with("this is its end]"), from == text.len(), "{head}");
        }
        assert_eq!(all, text);
        // In the middle of a character, and no more than is asked for.
        let part = whole.part(&json!({"id": "c1", "from": 1, "bytes": 4})).expect("a part");
        assert!(part.starts_with("[bytes 2 to 6 of 30000") && part.ends_with("éé"), "{part}");
        for (arguments, why) in [
            (json!({"id": "c2", "from": 0}), "not there any more; kept are: c1"),
            (json!({}), "not there any more"),
            (json!({"id": "c1", "from": 30_000}), "behind its end"),
        ] {
            assert!(whole.part(&arguments).expect_err("wrong").contains(why));
        }
    }

    #[test]
    fn the_oldest_results_make_room() {
        let mut whole = WholeResults::default();
        for call in ["a", "b", "c"] {
            whole.add(call, &"x".repeat(MAX_WHOLE_BYTES / 2));
        }
        assert_eq!((whole.has("a"), whole.has("b"), whole.has("c")), (false, true, true));
        whole.add("d", &"x".repeat(MAX_WHOLE_BYTES * 2));
        assert!(whole.has("d") && whole.bytes <= MAX_WHOLE_BYTES);
    }
}
