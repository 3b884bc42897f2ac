//! Keys, paste, completion and the external editor on the call screen.

use crate::tui::action::Action;
use crossterm::event::KeyEvent;
use serde_json::Value;

use super::ask::Ask;
use super::screen::{CallScreen, DEBOUNCE, Focus};
use crate::base::Timestamp;
use crate::host::Validation;
use crate::tui::effect::{CallRequest, CallTarget, Effect};
use crate::tui::form::pointer;
use crate::tui::message::{CallPurpose, FormToken};

/// The same key within this time of the last one is held down: keyboards wait up to 660 ms before
/// they repeat.
const HELD: std::time::Duration = std::time::Duration::from_millis(700);

impl CallScreen {
    /// Time went on.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        let due = self.completion.filter(|(_, at)| now >= *at);
        let mut wanted = due.map(|(ticket, _)| self.ask_completion(ticket)).unwrap_or_default();
        if self.draft_due.is_some_and(|at| now >= at) {
            wanted.extend(self.draft());
        }
        wanted
    }

    /// When [`CallScreen::tick`] is wanted next, besides for running calls.
    pub fn wake(&self) -> Option<Timestamp> {
        [self.completion.map(|(_, at)| at), self.draft_due].into_iter().flatten().min()
    }

    /// A key was pressed that the table binds to `bound`; `None` when it is not text.
    pub(super) fn type_key(
        &mut self,
        key: KeyEvent,
        bound: Option<Action>,
        now: Timestamp,
    ) -> Option<Vec<Effect>> {
        self.now = now;
        self.form.now = now;
        self.call_when_checked = false;
        self.keep_soon();
        let before = self.pressed.replace((key, now));
        let held = before.is_some_and(|(last, at)| last == key && now.since(at) < HELD);
        if self.ask.is_some() {
            return Some(self.key_in_ask(key));
        }
        if self.focus == Focus::Form && self.form.take_key(key, bound.is_some()) {
            return Some(self.typed());
        }
        // A key that is held down repeats; a call is made once.
        let calls = matches!(bound, Some(Action::Send | Action::Force | Action::Again));
        (held && calls).then(Vec::new)
    }

    /// Presses a key by the key table in use, as the dashboard does.
    pub fn key(&mut self, key: KeyEvent, now: Timestamp) -> Vec<Effect> {
        let bound = self.keymap.pressed(self.scopes(), key);
        let typed = self.type_key(key, bound, now);
        typed.unwrap_or_else(|| bound.map(|action| self.apply(action)).unwrap_or_default())
    }

    /// Text was pasted.
    pub fn paste(&mut self, text: &str, now: Timestamp) -> Vec<Effect> {
        self.now = now;
        match &mut self.ask {
            Some(Ask::Line(_, line)) => {
                line.insert(text);
                Vec::new()
            }
            Some(Ask::File(_)) => {
                self.paste_in_picker(text);
                Vec::new()
            }
            Some(_) => Vec::new(),
            None => {
                self.focus = Focus::Form;
                self.keep_soon();
                self.form.paste(text);
                self.typed()
            }
        }
    }

    /// Something in the form changed: completions are due, later.
    pub(super) fn typed(&mut self) -> Vec<Effect> {
        self.suggestions.clear();
        if self.subject.completes()
            && self.field_text().is_some()
            && self.field_text() != self.asked
        {
            self.ticket += 1;
            self.completion = Some((self.ticket, self.now.plus(DEBOUNCE)));
        }
        Vec::new()
    }

    /// Name and text of the field under the cursor.
    fn field_text(&self) -> Option<(String, String)> {
        let row = self.form.current()?;
        let (parent, name) = pointer::split(&row.pointer)?;
        let value = pointer::get(self.form.value(), &row.pointer);
        let text = value.and_then(Value::as_str).unwrap_or_default();
        (parent.is_empty() && row.field().is_some()).then(|| (name, text.to_owned()))
    }

    fn ask_completion(&mut self, ticket: u64) -> Vec<Effect> {
        self.completion = None;
        let Some((name, text)) = self.field_text() else { return Vec::new() };
        let params = self.subject.completion(&name, &text, &self.form.arguments());
        self.asked = Some((name, text));
        let request = |params| CallRequest {
            server: self.subject.server.clone(),
            target: CallTarget::Complete(params),
            validation: Validation::Enforce,
            bypass_cache: false,
            timeout: Some(std::time::Duration::from_secs(5)),
        };
        let token = self.token(CallPurpose::Completion(ticket));
        params.map(|params| Effect::Call(token, request(params))).into_iter().collect()
    }

    /// The server's suggestions came back; old ones are ignored.
    pub fn suggested(&mut self, ticket: u64, result: &Value) {
        if ticket != self.ticket || self.field_text() != self.asked {
            return;
        }
        let values = result.pointer("/completion/values").and_then(Value::as_array);
        let texts = values.into_iter().flatten().filter_map(Value::as_str);
        self.suggestions = texts.take(100).map(str::to_owned).collect();
    }

    pub(super) const fn form_token(&self) -> FormToken {
        FormToken(self.number as u64)
    }

    pub(super) fn editor(&self) -> Vec<Effect> {
        if self.form.json().is_some_and(|json| json.focused) {
            // As it is typed: it may be no value yet.
            let text = self.form.json().map(|json| json.area.lines().join("\n"));
            let (token, text) = (self.form_token(), text.unwrap_or_default());
            return vec![Effect::Edit { token, text, suffix: ".json" }];
        }
        match self.form.field_for_editor() {
            Some((text, suffix)) => vec![Effect::Edit { token: self.form_token(), text, suffix }],
            None => vec![Effect::Say("nothing to edit on this line".to_owned())],
        }
    }

    /// The editor was closed with this text.
    pub fn edited(&mut self, text: &str) {
        self.keep_soon();
        if self.form.json().is_some_and(|json| json.focused) {
            self.form.replace_json(text);
        } else {
            // Editors end a file with a line break that nobody typed.
            self.form.replace_text(text.strip_suffix('\n').unwrap_or(text));
        }
    }

    /// A file was read for the field under the cursor: as text, or base64 where the schema says so.
    pub fn file_read(&mut self, bytes: &[u8]) -> Vec<Effect> {
        let meant = self.filling.take();
        if meant.as_deref() != self.here() {
            let text = "the cursor left the field while the file was read; nothing was filled";
            return vec![Effect::Say(text.to_owned())];
        }
        let encoded = self.form.wants_base64();
        self.keep_soon();
        match (encoded, std::str::from_utf8(bytes)) {
            (false, Ok(text)) => self.form.replace_text(text),
            (false, Err(_)) => {
                let text = "the file is no text, and the field does not ask for base64".to_owned();
                return vec![Effect::Say(text)];
            }
            (true, _) => {
                use base64::Engine as _;
                let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                self.form.replace_text(&text);
            }
        }
        self.typed()
    }
}
