//! Keys, paste, completion and the external editor on the call screen.

use crate::tui::action::Action;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use super::ask::Ask;
use super::screen::{CallScreen, DEBOUNCE, Focus, Intent};
use crate::base::Timestamp;
use crate::tui::form::pointer;

/// The same key within this time of the last one is held down: keyboards wait up to 660 ms before
/// they repeat.
const HELD: std::time::Duration = std::time::Duration::from_millis(700);

impl CallScreen {
    /// Time went on.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Intent> {
        self.now = now;
        let due = self.completion.filter(|(_, at)| now >= *at);
        let mut intents = due.map(|(ticket, _)| self.ask_completion(ticket)).unwrap_or_default();
        if self.draft_due.is_some_and(|at| now >= at) {
            intents.extend(self.draft());
        }
        intents
    }

    /// When [`CallScreen::tick`] is wanted next, besides for running calls.
    pub fn wake(&self) -> Option<Timestamp> {
        [self.completion.map(|(_, at)| at), self.draft_due].into_iter().flatten().min()
    }

    /// A key was pressed.
    pub fn key(&mut self, key: KeyEvent, now: Timestamp) -> Vec<Intent> {
        self.now = now;
        self.form.now = now;
        self.call_when_checked = false;
        self.keep_soon();
        let before = self.pressed.replace((key, now));
        let held = before.is_some_and(|(last, at)| last == key && now.since(at) < HELD);
        if self.ask.is_some() {
            return self.key_in_ask(key);
        }
        let scopes = self.scopes();
        if self.focus == Focus::Form {
            // What is typed is text first, but never a chord or a function key.
            let is_text =
                !matches!(key.code, KeyCode::F(_) | KeyCode::Esc | KeyCode::Tab | KeyCode::BackTab);
            let command = self.keymap.pressed(scopes, key);
            let chord = !key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
            if is_text && !(chord && command.is_some()) && self.form.type_key(key) {
                return self.typed();
            }
            if self.form.popup_is_open() && self.form.type_key(key) {
                return self.typed();
            }
        }
        let command = self.keymap.pressed(scopes, key);
        let calls = matches!(command, Some(Action::Send | Action::Force | Action::Again));
        if held && calls {
            // A key that is held down repeats; a call is made once.
            return Vec::new();
        }
        command.map(|action| self.apply(action)).unwrap_or_default()
    }

    /// Text was pasted.
    pub fn paste(&mut self, text: &str, now: Timestamp) -> Vec<Intent> {
        self.now = now;
        match &mut self.ask {
            Some(Ask::Line(_, line)) => {
                line.extend(text.chars().filter(|c| !c.is_control()));
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
    pub(super) fn typed(&mut self) -> Vec<Intent> {
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

    fn ask_completion(&mut self, ticket: u64) -> Vec<Intent> {
        self.completion = None;
        let Some((name, text)) = self.field_text() else { return Vec::new() };
        let params = self.subject.completion(&name, &text, &self.form.arguments());
        self.asked = Some((name, text));
        params.map(|params| Intent::Complete { params, ticket }).into_iter().collect()
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

    pub(super) fn editor(&self) -> Vec<Intent> {
        if self.form.json().is_some_and(|json| json.focused) {
            // As it is typed: it may be no value yet.
            let text = self.form.json().map(|json| json.area.lines().join("\n"));
            return vec![Intent::Edit(text.unwrap_or_default(), ".json")];
        }
        match self.form.field_for_editor() {
            Some((text, suffix)) => vec![Intent::Edit(text, suffix)],
            None => vec![Intent::Say("nothing to edit on this line".to_owned())],
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
    pub fn file_read(&mut self, bytes: &[u8]) -> Vec<Intent> {
        let meant = self.filling.take();
        if meant.as_deref() != self.here() {
            let text = "the cursor left the field while the file was read; nothing was filled";
            return vec![Intent::Say(text.to_owned())];
        }
        let encoded = self.form.wants_base64();
        self.keep_soon();
        match (encoded, std::str::from_utf8(bytes)) {
            (false, Ok(text)) => self.form.replace_text(text),
            (false, Err(_)) => {
                let text = "the file is no text, and the field does not ask for base64".to_owned();
                return vec![Intent::Say(text)];
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
