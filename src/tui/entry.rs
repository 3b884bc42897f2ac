//! The form of one server's entry: a new one from a template, or one of a file. Made from the JSON
//! Schema of the configuration; secrets stand there as `***` and stay what they are.

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::{Map, Value, json};

use crate::base::text::SafeText;
use crate::config::edit::entry::{NAME, ShownEntry, schema};
use crate::tui::action::Action;
use crate::tui::effect::{ConfigCommand, Effect, Saving};
use crate::tui::form::FormState;
use crate::tui::form::draw::{form, put};
use crate::tui::form::mouse::Clicked;
use crate::tui::keymap::{Keymap, Scope};
use crate::tui::message::Message;
use crate::tui::pane::{Cx, Gesture, Out};
use crate::tui::screen::{Help, Screen, close};
use crate::tui::widget::KeyLine;

/// An entry being edited.
pub struct EntryScreen {
    /// The form.
    form: FormState,
    before: Option<ShownEntry>,
    /// The value the form began with.
    began: Value,
    /// The file it goes to, as it is shown.
    file: SafeText,
    /// Why it was not written.
    problem: Option<SafeText>,
    /// It is being written.
    saving: bool,
    /// The person wanted to leave with changes unsaved, once.
    leaving: bool,
}

impl EntryScreen {
    /// A form for an entry of a file.
    pub fn edit(entry: ShownEntry) -> Self {
        let file = SafeText::line(&entry.file.display().to_string());
        let shown = entry.shown.clone();
        let name = entry.name.to_string();
        Self::over(&name, &shown, file, Some(entry))
    }

    /// A form for a new entry.
    pub fn add(template: &Value, file: &std::path::Path) -> Self {
        Self::over("", template, SafeText::line(&file.display().to_string()), None)
    }

    fn over(name: &str, entry: &Value, file: SafeText, before: Option<ShownEntry>) -> Self {
        let mut value = Map::new();
        value.insert(NAME.to_owned(), json!(name));
        value.extend(entry.as_object().cloned().unwrap_or_default());
        let began = Value::Object(value);
        let schema = std::sync::Arc::new(schema(entry));
        let mut form = FormState::with_value(&schema, Some(began.clone()));
        form.apply(Action::FirstField);
        Self { form, before, began, file, problem: None, saving: false, leaving: false }
    }

    /// Whether something would be lost by leaving.
    fn is_changed(&self) -> bool {
        self.form.arguments() != self.began || self.form.has_drafts()
    }

    fn save(&mut self, out: &mut Out) {
        if self.saving {
            return;
        }
        if self.form.has_drafts() {
            self.problem = Some(SafeText::line("a field has an invalid value"));
            return;
        }
        (self.saving, self.problem) = (true, None);
        let saving = Saving { before: self.before.clone(), edited: self.form.arguments() };
        out.effect(Effect::Config(ConfigCommand::SaveEntry(Box::new(saving))));
    }

    /// Where the form is drawn.
    fn body(&self, area: Rect) -> Rect {
        let problem = u16::from(self.problem.is_some());
        let height = area.height.saturating_sub(2 + problem);
        Rect { y: area.y + 1 + problem, height, ..area }
    }
}

impl Screen for EntryScreen {
    fn scopes(&self) -> Vec<Scope> {
        [&[Scope::Entry], self.form.scopes()].concat()
    }

    fn help(&self) -> Help {
        (
            "keys: editing a server",
            &[
                (Scope::Entry, "editing a server"),
                (Scope::Form, "in the form"),
                (Scope::FormLine, "on lines that take no text"),
            ],
        )
    }

    fn takes_letters(&self) -> bool {
        true
    }

    fn lets_through(&self, action: Action) -> bool {
        action == Action::Answer
    }

    fn key(&mut self, key: KeyEvent, bound: Option<Action>, cx: &Cx<'_>, _out: &mut Out) -> bool {
        self.form.now = cx.model.now;
        let text = self.form.take_key(key, bound.is_some());
        if text {
            (self.problem, self.leaving) = (None, false);
        }
        text
    }

    fn act(&mut self, action: Action, _cx: &Cx<'_>, out: &mut Out) {
        let leaving = std::mem::take(&mut self.leaving);
        match action {
            Action::SaveForm => self.save(out),
            Action::Open if self.form.is_on_submit() => self.save(out),
            Action::Back if self.is_changed() && !leaving => {
                self.leaving = true;
                let text = "not saved: {back} again discards the changes, {save-form} saves";
                out.effect(Effect::Say(text.to_owned()));
            }
            Action::Back => close(out),
            action => _ = self.form.apply(action),
        }
    }

    fn paste(&mut self, text: &str, _cx: &Cx<'_>, _out: &mut Out) {
        self.form.paste(text);
    }

    fn mouse(&mut self, gesture: Gesture, _cx: &Cx<'_>, area: Rect, out: &mut Out) {
        match gesture {
            Gesture::Scroll { delta, .. } => self.form.wheel(delta.signum()),
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                self.leaving = false;
                let body = self.body(area);
                if self.form.click(at, body) == Clicked::Submit {
                    self.save(out);
                }
            }
        }
    }

    fn hear(&mut self, message: &Message, out: &mut Out) -> bool {
        match message {
            Message::Saved(Ok(_)) if self.saving => close(out),
            Message::Saved(Err(reason)) if self.saving => {
                (self.saving, self.problem) = (false, Some(reason.clone()));
            }
            _ => return false,
        }
        true
    }

    fn unsaved(&self) -> Option<&'static str> {
        self.is_changed().then_some("The entry being edited is not saved.")
    }

    fn prepare(&mut self, _cx: &Cx<'_>, _area: Rect) {
        if let Some(job) = self.form.pending_check() {
            // Our own schema is small: its check is not worth a trip to another thread.
            self.form.checked(job.run());
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let look = &cx.look();
        let area = area.intersection(buf.area);
        if area.height < 4 || area.width < 20 {
            return;
        }
        let room = |x: u16| area.right().saturating_sub(x);
        let title = match &self.before {
            Some(before) => SafeText::line(&format!("edit {}", before.name)),
            None => SafeText::line("add a server"),
        };
        let x = put(buf, area.x + 1, area.y, room(area.x + 1), &title, look.accent);
        let x = put(buf, x + 3, area.y, room(x + 3), &self.file, look.muted);
        let note = "*** is hidden, and kept unless you type over it";
        put(buf, x + 3, area.y, room(x + 3), note, look.faint);
        if let Some(text) = &self.problem {
            let sign = look.sign("⚠ ", "! ");
            let x = put(buf, area.x + 1, area.y + 1, room(area.x + 1), sign, look.error);
            put(buf, x, area.y + 1, room(x), text, look.error);
        }
        form(&self.form, look, "save", self.body(area), buf);
    }

    fn key_line(&self, keymap: &Keymap) -> KeyLine {
        let mut keys = keymap.labels(&[Scope::Entry, Scope::Form]);
        keys.retain(|(.., action)| match action {
            Action::Editor => false,
            Action::NextProblem => self.form.blocking() > 0,
            _ => true,
        });
        KeyLine::new(
            keys.into_iter().map(|(key, word, _)| (key, word)).collect(),
            keymap.help_label(),
        )
    }
}
