//! Fitting a prompt into a model's context: token estimates, and shortening of messages. Pure.

use crate::llm::{ChatMessage, ModelPrompt, ModelReply};
use crate::media::ToolMedia;
use crate::sizes::schema_bytes;
use crate::whole::{MIN_SHORTENED_BYTES, READ_RESULT};
use base::text::cut;

/// Share of the context that a prompt may use, in percent; the rest is for the answer.
const MAX_PROMPT_PERCENT: u64 = 80;
/// Bytes of the note that says what was cut, and how it is read.
const CUT_NOTE_BYTES: usize = 220;
const LEFT_OUT: &str = " bytes left out to fit the context";

/// Estimates the tokens of a text: about four bytes of English or JSON per token.
pub const fn of_text(text: &str) -> u64 {
    of_bytes(text.len())
}

/// Estimates the tokens of a text of this size.
pub const fn of_bytes(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(4)
}

/// Estimates the tokens of an answer.
pub fn of_reply(reply: &ModelReply) -> u64 {
    let calls = reply.calls.iter().map(|call| of_text(&call.arguments.to_string()) + 10);
    of_text(&reply.text) + calls.sum::<u64>()
}

fn of_message(message: &ChatMessage) -> u64 {
    4 + match message {
        ChatMessage::User { text, media, .. } | ChatMessage::Tool { text, media, .. } => {
            of_text(text) + media.iter().map(ToolMedia::tokens).sum::<u64>()
        }
        ChatMessage::Assistant(reply) => {
            // Some blocks only keep the places of the text and the calls.
            let is_own =
                |block: &&serde_json::Value| block["type"] != "text" && block["type"] != "tool_use";
            let carried = reply.carried.iter().filter(is_own);
            let carried = carried.map(|block| of_text(&block.to_string()));
            of_reply(reply) + carried.sum::<u64>()
        }
    }
}

/// Estimates the tokens of messages.
pub fn of_messages(messages: &[ChatMessage]) -> u64 {
    messages.iter().map(of_message).sum()
}

/// Estimates the tokens of a whole prompt.
pub fn of_prompt(prompt: &ModelPrompt) -> u64 {
    let tools = prompt.tools.iter().map(|tool| {
        of_text(&tool.name) + of_text(&tool.description) + of_bytes(schema_bytes(&tool.schema)) + 8
    });
    of_text(&prompt.system) + of_messages(&prompt.messages) + tools.sum::<u64>()
}

/// Outcome of fitting a prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptFit {
    /// It fits, with this number of results shortened.
    Fits(usize),
    /// Messages before this index have to be replaced by a summary.
    Summarise(usize),
    /// It cannot be made to fit.
    Cannot,
}

/// Makes the messages fit next to `fixed` tokens of system prompt and tools. The oldest results that
/// the model has read are shortened first, then all that it has not read, the longest first, so that
/// they share the room. No message is removed. `is_whole` tells the calls whose whole results can be
/// read.
pub fn fit(
    messages: &mut [ChatMessage],
    fixed: u64,
    limit: u64,
    is_whole: impl Fn(&str) -> bool,
) -> PromptFit {
    let room = limit.saturating_mul(MAX_PROMPT_PERCENT) / 100;
    let Some(room) = room.checked_sub(fixed) else { return PromptFit::Cannot };
    let is_reply = |message: &ChatMessage| matches!(message, ChatMessage::Assistant(_));
    let unread = messages.iter().rposition(is_reply).unwrap_or(0);
    let mut shortened = 0;
    for at in 0..unread {
        let over = of_messages(messages).saturating_sub(room);
        if over == 0 {
            return PromptFit::Fits(shortened);
        }
        // Pictures that the model has seen go first.
        if let Some(media) = messages[at].media_mut()
            && !media.is_empty()
        {
            media.clear();
            shortened += 1;
        }
        let over = of_messages(messages).saturating_sub(room);
        if let ChatMessage::Tool { id, text, .. } = &mut messages[at]
            && over > 0
            && text.len() > MIN_SHORTENED_BYTES
        {
            // With room for the note of what was cut.
            let keep = text.len().saturating_sub(over as usize * 4 + CUT_NOTE_BYTES);
            let keep = keep.max(MIN_SHORTENED_BYTES - CUT_NOTE_BYTES);
            shorten_result(text, keep, Some(id.as_str()).filter(|id| is_whole(id)));
            shortened += 1;
        }
    }
    let over = of_messages(messages).saturating_sub(room);
    if over == 0 {
        return PromptFit::Fits(shortened);
    }
    let sizes = messages[unread..].iter().filter_map(|message| match message {
        ChatMessage::Tool { text, .. } => Some(text.len()),
        _ => None,
    });
    let most = shared(sizes.collect(), over as usize * 4);
    for message in &mut messages[unread..] {
        if let ChatMessage::Tool { id, text, .. } = message
            && text.len() > most.max(MIN_SHORTENED_BYTES)
        {
            let keep = most.max(MIN_SHORTENED_BYTES) - CUT_NOTE_BYTES;
            shorten_result(text, keep, Some(id.as_str()).filter(|id| is_whole(id)));
            shortened += 1;
        }
    }
    if of_messages(messages) <= room {
        return PromptFit::Fits(shortened);
    }
    // The user's last message and everything after it must stay.
    match messages.iter().rposition(|message| matches!(message, ChatMessage::User { .. })) {
        Some(last) if last > 0 && of_messages(&messages[last..]) + 500 <= room => {
            PromptFit::Summarise(last)
        }
        _ => PromptFit::Cannot,
    }
}

/// The size to which texts of these sizes have to be cut, so that at least `over` bytes go.
fn shared(mut sizes: Vec<usize>, over: usize) -> usize {
    sizes.sort_unstable();
    let room = sizes.iter().sum::<usize>().saturating_sub(over);
    let (mut left, mut count) = (room, sizes.len());
    for size in sizes {
        if size * count > left {
            return left / count;
        }
        left -= size;
        count -= 1;
    }
    usize::MAX
}

/// Keeps the beginning and end of a text, and states how many bytes were left out and what to do.
pub fn shorten(text: &mut String, keep: usize) {
    shorten_result(text, keep, None);
}

/// The same for the result of a call, which can be read on when it is kept.
pub(crate) fn shorten_result(text: &mut String, keep: usize, call: Option<&str>) {
    if text.len() <= keep {
        return;
    }
    let head = cut(text, keep * 3 / 4);
    let tail = (text.len() - keep / 4..=text.len()).find(|at| text.is_char_boundary(*at));
    let tail = tail.unwrap_or(text.len());
    // Including those left out before.
    let middle = &text[head.len()..tail];
    let counts = middle.split("\n[").filter_map(|part| Some(part.split_once(LEFT_OUT)?.0));
    let before: usize = counts.filter_map(|count| count.parse::<usize>().ok()).sum();
    let left_out = (tail - head.len()).saturating_add(before);
    // What is left of the beginning is always that of the whole text, behind its mark.
    let from = head.len()
        - head.find(">\n").filter(|_| head.starts_with("<result-")).map_or(0, |at| at + 2);
    let more =
        call.map(|id| format!(", or call {READ_RESULT} {{\"id\": \"{id}\", \"from\": {from}}}"));
    let more = more.unwrap_or_default();
    *text =
        format!("{head}\n[{left_out}{LEFT_OUT}: ask for less at once{more}]\n{}", &text[tail..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> ChatMessage {
        ChatMessage::user(text)
    }

    fn result(size: usize) -> ChatMessage {
        let (id, name) = ("1".to_owned(), "t".to_owned());
        let (text, media) = ("x".repeat(size), Vec::new());
        ChatMessage::Tool { id, name, text, is_error: false, media, given: 0 }
    }

    fn size(message: &ChatMessage) -> usize {
        let ChatMessage::Tool { text, .. } = message else { return 0 };
        text.len()
    }

    #[test]
    fn the_oldest_results_are_shortened_first_and_no_message_is_dropped() {
        let read = || ChatMessage::Assistant(ModelReply::default());
        let mut messages =
            vec![user("a"), result(2_000), result(40_000), result(1_000), read(), result(9_000)];
        assert_eq!(fit(&mut messages, 100, 5_000, |_| false), PromptFit::Fits(2));
        let sizes: Vec<usize> = messages.iter().map(size).collect();
        assert!(
            sizes[1] <= MIN_SHORTENED_BYTES && sizes[2] < 6_000 && sizes[3] == 1_000,
            "{sizes:?}"
        );
        assert_eq!(sizes[5], 9_000, "what was not read yet stays whole");
        assert!(of_messages(&messages) + 100 <= 4_000);

        // Five results of 150 kB, one after the other.
        let mut messages = vec![user("go")];
        for round in 0..5 {
            messages.extend([read(), result(150_000)]);
            assert!(matches!(fit(&mut messages, 1_000, 100_000, |_| false), PromptFit::Fits(_)));
            let last = size(messages.last().unwrap());
            assert_eq!(last, 150_000, "round {round}");
        }
        // Those of one answer share what there is.
        let mut messages = vec![user("go"), read(), result(150_000), result(90_000), result(500)];
        assert_eq!(fit(&mut messages, 0, 10_000, |_| false), PromptFit::Fits(2));
        let sizes: Vec<usize> = messages[2..].iter().map(size).collect();
        assert!(sizes[0].abs_diff(sizes[1]) < 10 && sizes[0] > 15_000, "{sizes:?}");
        assert_eq!(sizes[2], 500);
    }

    #[test]
    fn a_text_that_is_shortened_again_says_all_that_is_left_out() {
        let mut text = "x".repeat(10_000);
        shorten(&mut text, 4_000);
        shorten(&mut text, 1_000);
        let (_, after) = text.split_once("\n[").unwrap();
        let left_out: usize = after.split_once(LEFT_OUT).unwrap().0.parse().unwrap();
        assert!((9_000..9_100).contains(&left_out), "{text}");
    }

    #[test]
    fn what_no_shortening_helps_is_summarised_or_refused() {
        let long = "word ".repeat(4_000);
        let mut messages = vec![user(&long), user("and now?")];
        assert_eq!(fit(&mut messages, 100, 3_000, |_| false), PromptFit::Summarise(1));
        assert_eq!(fit(&mut [user(&long)], 100, 3_000, |_| false), PromptFit::Cannot);
        assert_eq!(fit(&mut [user("a")], 5_000, 3_000, |_| false), PromptFit::Cannot);
        assert_eq!(fit(&mut [user("a")], 100, 3_000, |_| false), PromptFit::Fits(0));
        assert_eq!(fit(&mut [user("a")], 100, u64::MAX / 2, |_| false), PromptFit::Fits(0));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let mut text = "é".repeat(1_000);
        shorten(&mut text, 101);
        assert!(text.contains("bytes left out") && text.len() < 180, "{text}");
    }
}
