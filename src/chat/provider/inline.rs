//! Reasoning that stands within the text of an answer, as `<think>…</think>` before it: so write models
//! whose server does not part the two (`DeepSeek` R1 and its likes behind llama.cpp, vLLM without a
//! reasoning parser, Groq `reasoning_format: raw`). Pure.

const OPENING: &str = "<think>";
const CLOSING: &str = "</think>";

/// Parts the reasoning at the start of an answer from its text, while it comes.
#[derive(Debug, Default)]
pub(super) struct InlineReasoning {
    stage: ThinkStage,
    /// What has come and may be a part of a tag.
    open: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ThinkStage {
    /// Nothing but space has come, or a part of the opening tag.
    #[default]
    Before,
    Within,
    /// Nothing but space has come behind the closing tag.
    Behind,
    After,
}

impl InlineReasoning {
    /// The reasoning and the text of the next piece.
    pub(super) fn push(&mut self, piece: &str) -> (String, String) {
        if self.stage == ThinkStage::After {
            return (String::new(), piece.to_owned());
        }
        if self.stage == ThinkStage::Behind {
            let text = piece.trim_start();
            if !text.is_empty() {
                self.stage = ThinkStage::After;
            }
            return (String::new(), text.to_owned());
        }
        self.open.push_str(piece);
        let mut reasoning = String::new();
        if self.stage == ThinkStage::Before {
            let begun = self.open.trim_start();
            if let Some(rest) = begun.strip_prefix(OPENING) {
                self.open = rest.to_owned();
                self.stage = ThinkStage::Within;
            } else if OPENING.starts_with(begun) {
                return (reasoning, String::new());
            } else {
                self.stage = ThinkStage::After;
                return (reasoning, std::mem::take(&mut self.open));
            }
        }
        if let Some((within, after)) = self.open.split_once(CLOSING) {
            let text = after.trim_start().to_owned();
            reasoning.push_str(within);
            self.open.clear();
            self.stage = if text.is_empty() { ThinkStage::Behind } else { ThinkStage::After };
            return (reasoning, text);
        }
        // What may be the beginning of the closing tag stays.
        let kept = (1..CLOSING.len()).rev().find(|len| self.open.ends_with(&CLOSING[..*len]));
        let rest = self.open.split_off(self.open.len() - kept.unwrap_or_default());
        reasoning.push_str(&std::mem::replace(&mut self.open, rest));
        (reasoning, String::new())
    }

    /// What is left at the end of the answer.
    pub(super) fn finish(&mut self) -> (String, String) {
        let rest = std::mem::take(&mut self.open);
        if self.stage == ThinkStage::Within { (rest, String::new()) } else { (String::new(), rest) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parted(pieces: &[&str]) -> (String, String) {
        let mut inline = InlineReasoning::default();
        let all = pieces.iter().map(|piece| inline.push(piece)).collect::<Vec<_>>();
        let all = all.into_iter().chain([inline.finish()]);
        all.fold((String::new(), String::new()), |(a, b), (c, d)| (a + &c, b + &d))
    }

    #[test]
    fn reasoning_at_the_start_is_parted_from_the_text_however_it_is_cut() {
        let written = "\n<think>\nSo <b> </thin it is.\n</think>\n\nÄnswer <think>x</think>";
        let expected = ("\nSo <b> </thin it is.\n", "Änswer <think>x</think>");
        let letters: Vec<String> = written.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        for pieces in [&[written][..], &letters, &[&written[..5], &written[5..30], &written[30..]]]
        {
            let (reasoning, text) = parted(pieces);
            assert_eq!((reasoning.as_str(), text.as_str()), expected);
        }
        for (written, reasoning, text) in [
            ("Answer", "", "Answer"),
            ("<thin", "", "<thin"),
            ("<thinking>", "", "<thinking>"),
            ("a <think>b</think>", "", "a <think>b</think>"),
            ("<think>never closed", "never closed", ""),
            ("<think></think>Hi", "", "Hi"),
            ("", "", ""),
            (" \n", "", " \n"),
        ] {
            assert_eq!(parted(&[written]), (reasoning.to_owned(), text.to_owned()), "{written}");
        }
    }
}
