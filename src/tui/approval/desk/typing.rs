//! Keys, paste and the editor outside: text goes where the keys are, and nowhere once the request
//! has ended.

use crossterm::event::{KeyCode, KeyEvent};
use serde_json::Value;

use super::draft::{area, pretty};
use super::{AnswerDesk, Draft, Part, Says, Stage};
use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::tui::effect::Effect;
use crate::tui::form::input::edit;
use crate::tui::widget::TextInput;

impl AnswerDesk {
    /// Whether plain keys are text.
    pub fn is_typing(&self) -> bool {
        self.stage == Stage::Open
            && match self.part {
                Part::Says => false,
                Part::Answer => !matches!(self.draft, Draft::Consent),
                _ => true,
            }
    }

    /// The draft as text, for copying and for an editor outside.
    pub fn text(&self) -> String {
        if let (Part::Request, Some(editing)) = (self.part, &self.editing) {
            return editing.lines().join("\n");
        }
        if self.part == Part::Reason {
            return self.reason.text().to_owned();
        }
        match &self.draft {
            Draft::Text(composer) => composer.text.lines().join("\n"),
            Draft::Raw(text) => text.lines().join("\n"),
            Draft::Form(form) => pretty(&form.arguments()),
            Draft::Consent => self.address().unwrap_or_default(),
        }
    }

    /// Takes text over that was written in an editor outside or pasted as a whole.
    pub fn replace_text(&mut self, text: &str) {
        match self.stage {
            Stage::Open => {}
            // Nothing is sent any more, but what was written is not lost either.
            Stage::Ended(_) => {
                self.notice = Some(SafeText::line("it ended meanwhile; your text is kept"));
            }
            Stage::Sent => {
                self.notice = Some(SafeText::line("your answer is on its way; it stays as it was"));
                return;
            }
        }
        if let (Part::Request, Some(editing)) = (self.part, &mut self.editing) {
            **editing = area(text);
            return;
        }
        if self.part == Part::Reason {
            self.reason.set(&text.split_whitespace().collect::<Vec<_>>().join(" "));
            return;
        }
        match &mut self.draft {
            Draft::Text(composer) => composer.text = area(text),
            Draft::Raw(kept) => **kept = area(text),
            Draft::Form(form) => match serde_json::from_str(text) {
                Ok(value) => form.set_value(Some(value)),
                Err(error) => self.notice = Some(SafeText::line(&format!("not JSON: {error}"))),
            },
            Draft::Consent => {}
        }
    }

    /// The line that is being typed, when it is one.
    fn line(&mut self) -> Option<&mut TextInput> {
        match (self.part, &mut self.draft) {
            (Part::Reason, _) => Some(&mut self.reason),
            (Part::Name, _) => Some(&mut self.name),
            (Part::Model, Draft::Text(composer)) => Some(&mut composer.model),
            (Part::Stop, Draft::Text(composer)) => Some(&mut composer.stop),
            _ => None,
        }
    }

    /// Time went on.
    pub fn now_is(&mut self, now: Timestamp) {
        if let Some(form) = self.open_form_mut() {
            form.now = now;
        }
    }

    /// Types a key into the form that is open, when it is text there; gives whether it was used. A
    /// chord that is bound is not for it.
    pub fn type_in_form(&mut self, key: KeyEvent, bound: bool) -> bool {
        let used = self.open_form_mut().is_some_and(|form| form.take_key(key, bound));
        if used {
            self.notice = None;
            self.armed = false;
            self.when_checked = None;
        }
        used
    }

    /// Types a key; gives what follows from it.
    pub fn type_key(&mut self, key: KeyEvent) -> Option<Effect> {
        if !self.is_typing() {
            return None;
        }
        self.notice = None;
        self.armed = false;
        if key.code == KeyCode::Enter && self.line().is_some() {
            match self.part {
                Part::Name => return self.keep(),
                // A reason is sent by the key that sends, not by Enter.
                Part::Reason => {
                    self.notice = Some(SafeText::line("{send} sends the refusal"));
                }
                _ => self.step_field(1),
            }
            return None;
        }
        if let Some(line) = self.line() {
            line.key(key);
            return None;
        }
        if let (Part::Request, Some(editing)) = (self.part, &mut self.editing) {
            edit(editing, key);
            return None;
        }
        match &mut self.draft {
            Draft::Text(composer) => _ = edit(&mut composer.text, key),
            Draft::Raw(text) => _ = edit(text, key),
            Draft::Form(_) | Draft::Consent => {}
        }
        None
    }

    /// Takes pasted text.
    pub fn paste(&mut self, pasted: &str) {
        if !self.is_typing() {
            return;
        }
        self.armed = false;
        let printable = |c: &char| matches!(c, '\n' | '\t') || !c.is_control();
        let pasted: &str = &pasted.replace("\r\n", "\n").replace('\r', "\n");
        let pasted: &str = &pasted.chars().filter(printable).collect::<String>();
        if let Some(line) = self.line() {
            return line.insert(pasted);
        }
        if let (Part::Request, Some(editing)) = (self.part, &mut self.editing) {
            editing.insert_str(pasted);
            return;
        }
        if let Some(form) = self.open_form_mut() {
            return form.paste(pasted);
        }
        if let Some(whole) = self.whole_answer(pasted) {
            self.take_result(&whole);
            self.notice =
                Some(SafeText::line("the whole answer was pasted; {json} shows it as JSON"));
            return;
        }
        match &mut self.draft {
            Draft::Text(composer) => _ = composer.text.insert_str(pasted),
            Draft::Raw(text) => _ = text.insert_str(pasted),
            Draft::Form(_) | Draft::Consent => {}
        }
    }

    /// The answer that pasted text is as a whole: a `CreateMessageResult` where nothing is written
    /// yet, or in place of the one that is edited as JSON.
    fn whole_answer(&self, pasted: &str) -> Option<Value> {
        let free = match &self.draft {
            Draft::Text(composer) => composer.text.is_empty() && composer.tool_uses.is_empty(),
            Draft::Raw(_) => true,
            Draft::Form(_) | Draft::Consent => false,
        };
        if !free || !matches!(self.says, Says::Sampling(_)) || !pasted.trim_start().starts_with('{')
        {
            return None;
        }
        let value: Value = serde_json::from_str(pasted).ok()?;
        let is_result = ["role", "content", "model"].iter().all(|key| value.get(key).is_some());
        is_result.then_some(value)
    }

    /// The ending of a file that holds the draft: an editor highlights by it.
    pub fn suffix(&self) -> &'static str {
        match (self.part, &self.draft) {
            (Part::Reason, _) => ".md",
            (Part::Request, _) | (_, Draft::Raw(_) | Draft::Form(_)) => ".json",
            _ => ".md",
        }
    }
}
