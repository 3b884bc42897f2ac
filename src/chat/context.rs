//! Fitting a prompt into a model's context: token estimates, and shortening of messages. Pure.

use crate::llm::{ChatMessage, ModelPrompt, ModelReply};
use base::text::cut;

/// Share of the context that a prompt may use, in percent; the rest is for the answer.
const FULL: u64 = 80;
/// Results of up to this size are not shortened, in bytes.
const SHORTEST: usize = 600;

/// Estimates the tokens of a text: about four bytes of English or JSON per token.
pub const fn of_text(text: &str) -> u64 {
    (text.len() as u64).div_ceil(4)
}

/// Estimates the tokens of an answer.
pub fn of_reply(reply: &ModelReply) -> u64 {
    let calls = reply.calls.iter().map(|call| of_text(&call.arguments.to_string()) + 10);
    of_text(&reply.text) + calls.sum::<u64>()
}

fn of_message(message: &ChatMessage) -> u64 {
    4 + match message {
        ChatMessage::User { text } | ChatMessage::Tool { text, .. } => of_text(text),
        ChatMessage::Assistant(reply) => {
            let carried = reply.carried.iter().map(|block| of_text(&block.to_string()));
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
        of_text(&tool.name) + of_text(&tool.description) + of_text(&tool.schema.to_string()) + 8
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

/// Makes the messages fit next to `fixed` tokens of system prompt and tools, shortening the longest
/// results first. No message is removed.
pub fn fit(messages: &mut [ChatMessage], fixed: u64, limit: u64) -> PromptFit {
    let room = limit.saturating_mul(FULL) / 100;
    let Some(room) = room.checked_sub(fixed) else { return PromptFit::Cannot };
    let mut shortened = 0;
    loop {
        let over = of_messages(messages).saturating_sub(room);
        if over == 0 {
            return PromptFit::Fits(shortened);
        }
        let longest = messages.iter_mut().filter_map(|message| match message {
            ChatMessage::Tool { text, .. } if text.len() > SHORTEST => Some(text),
            _ => None,
        });
        let Some(text) = longest.max_by_key(|text| text.len()) else { break };
        let keep = text.len().saturating_sub(over as usize * 4 + 80).max(SHORTEST / 2);
        shorten(text, keep.min(text.len() / 2));
        shortened += 1;
    }
    // The user's last message and everything after it must stay.
    match messages.iter().rposition(|message| matches!(message, ChatMessage::User { .. })) {
        Some(last) if last > 0 && of_messages(&messages[last..]) + 500 <= room => {
            PromptFit::Summarise(last)
        }
        _ => PromptFit::Cannot,
    }
}

/// Keeps the beginning and end of a text and states how many bytes were left out.
pub fn shorten(text: &mut String, keep: usize) {
    if text.len() <= keep {
        return;
    }
    let head = cut(text, keep * 3 / 4);
    let tail = (text.len() - keep / 4..=text.len()).find(|at| text.is_char_boundary(*at));
    let tail = tail.unwrap_or(text.len());
    let left_out = tail - head.len();
    *text = format!("{head}\n[{left_out} bytes left out]\n{}", &text[tail..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(text: &str) -> ChatMessage {
        ChatMessage::User { text: text.to_owned() }
    }

    fn result(size: usize) -> ChatMessage {
        let (id, name) = ("1".to_owned(), "t".to_owned());
        ChatMessage::Tool { id, name, text: "x".repeat(size), is_error: false }
    }

    fn size(message: &ChatMessage) -> usize {
        let ChatMessage::Tool { text, .. } = message else { return 0 };
        text.len()
    }

    #[test]
    fn the_longest_results_are_shortened_first_and_no_message_is_dropped() {
        let mut messages = vec![user("a"), result(2_000), result(40_000), result(1_000), user("b")];
        assert_eq!(fit(&mut messages, 100, 5_000), PromptFit::Fits(1));
        let sizes: Vec<usize> = messages.iter().map(size).collect();
        assert!(sizes[2] < 20_000 && sizes[1] == 2_000 && sizes[3] == 1_000, "{sizes:?}");
        assert!(of_messages(&messages) + 100 <= 4_000);
    }

    #[test]
    fn what_no_shortening_helps_is_summarised_or_refused() {
        let long = "word ".repeat(4_000);
        let mut messages = vec![user(&long), user("and now?")];
        assert_eq!(fit(&mut messages, 100, 3_000), PromptFit::Summarise(1));
        assert_eq!(fit(&mut [user(&long)], 100, 3_000), PromptFit::Cannot);
        assert_eq!(fit(&mut [user("a")], 5_000, 3_000), PromptFit::Cannot);
        assert_eq!(fit(&mut [user("a")], 100, 3_000), PromptFit::Fits(0));
        assert_eq!(fit(&mut [user("a")], 100, u64::MAX / 2), PromptFit::Fits(0));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let mut text = "é".repeat(1_000);
        shorten(&mut text, 101);
        assert!(text.contains("bytes left out]") && text.len() < 140, "{text}");
    }
}
