//! A full-screen form for a server's entry, built from the configuration's JSON Schema (secrets
//! appear as `***` and are kept), or for the roots shared with a server.

use std::path::{Path, PathBuf};

use crossterm::event::KeyEvent;
use serde_json::json;

use crate::approval::roots;
use crate::effect::{ConfigCommand, Effect, Order, Saving, ServerCommand};
use crate::form::FormState;
use crate::form::draw::{form, put};
use crate::keymap::{KeyScope, Keymap};
use crate::message::Message;
use crate::pane::{Availability, Cx, Gesture, Out, Ui};
use crate::prelude::*;
use crate::screen::{Help, Screen, is_for_all};
use crate::widget::KeyLine;
use config::{ENTRY_NAME, RootConfig, ShownEntry, entry_schema};
use deck::DeckEvent;

/// What is edited.
enum EditTopic {
    /// An entry, with its original state unless it is new.
    Entry(Option<ShownEntry>),
    /// The roots of a server, with the home directory that `~` stands for.
    Roots(ServerName, Option<PathBuf>),
}

/// The settings of an entry that are shown also when they are unset.
const MAIN_SETTINGS: [&str; 6] = [ENTRY_NAME, "command", "args", "env", "url", "headers"];

/// Something being edited in a form.
pub struct FormScreen {
    form: FormState,
    about: EditTopic,
    /// The initial value of the form.
    began: Value,
    /// Title, and where it is written, as shown.
    title: SafeText,
    place: SafeText,
    /// Why saving failed.
    problem: Option<SafeText>,
    /// Whether a save is in progress.
    saving: bool,
    /// Whether the user already tried to leave with unsaved changes.
    leaving: bool,
}

impl FormScreen {
    /// A form for the roots shared with a server.
    pub fn roots(server: ServerName, shared: &[RootConfig], home: Option<PathBuf>) -> Self {
        let title = SafeText::line(&format!("roots shared with {server}"));
        let place = SafeText::line("folders it may look at");
        let began = roots::value(shared);
        let mut screen = Self::from_schema(
            roots::schema(),
            began,
            EditTopic::Roots(server, home),
            (title, place),
        );
        screen.form.select_place("/roots/0");
        screen
    }

    /// A form for an entry of a file: a new one, or the existing one given as `before`.
    pub fn entry(entry: &Value, file: &Path, before: Option<ShownEntry>) -> Self {
        let name = before.as_ref().map_or("", |before| before.name.as_str());
        let mut value = entry.as_object().cloned().unwrap_or_default();
        value.shift_remove(ENTRY_NAME);
        value.shift_insert(0, ENTRY_NAME.to_owned(), json!(name));
        let title = match &before {
            Some(before) => SafeText::line(&format!("edit server \"{}\"", before.name)),
            None => SafeText::line("add a server"),
        };
        let note = "*** is hidden, and kept unless you type over it";
        let place = SafeText::line(&format!("{}   {note}", file.display()));
        let about = EditTopic::Entry(before);
        let mut screen =
            Self::from_schema(entry_schema(entry), Value::Object(value), about, (title, place));
        screen.form.show_main(&MAIN_SETTINGS);
        screen.form.apply(Action::FirstField);
        screen
    }

    fn from_schema(
        schema: Value,
        began: Value,
        about: EditTopic,
        said: (SafeText, SafeText),
    ) -> Self {
        let mut form = FormState::with_value(&Arc::new(schema), Some(began.clone()));
        form.apply(Action::FirstField);
        let (title, place) = said;
        Self { form, about, began, title, place, problem: None, saving: false, leaving: false }
    }

    /// Whether leaving would discard changes.
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
        self.problem = None;
        match &self.about {
            EditTopic::Entry(before) => {
                self.saving = true;
                let saving = Saving { before: before.clone(), edited: self.form.arguments() };
                out.effect(Effect::Config(ConfigCommand::SaveEntry(Box::new(saving))));
            }
            EditTopic::Roots(server, home) => {
                match roots::read(&self.form.arguments(), home.as_deref()) {
                    Ok(roots) => {
                        let name = Ink::line(server.as_str());
                        out.say(ink!("{} shared with {}", count(roots.len(), "root"), name));
                        let command = ServerCommand::Roots(roots);
                        out.effect(Effect::Order(Order::Server(server.clone(), command)));
                        out.close();
                    }
                    Err((line, reason)) => {
                        self.form.select_place(&format!("/roots/{line}"));
                        self.problem = Some(SafeText::line(&reason));
                    }
                }
            }
        }
    }

    /// Where the form is drawn.
    fn body(&self, area: Rect) -> Rect {
        let problem = u16::from(self.problem.is_some());
        let height = area.height.saturating_sub(2 + problem);
        Rect { y: area.y + 1 + problem, height, ..area }
    }
}

impl Screen for FormScreen {
    fn scopes(&self) -> Vec<KeyScope> {
        [&[KeyScope::Entry], self.form.scopes()].concat()
    }

    fn help(&self) -> Option<Help> {
        Some((
            "keys: editing",
            &[
                (KeyScope::Entry, "editing"),
                (KeyScope::Form, "in the form"),
                (KeyScope::FormLine, "on lines that take no text"),
                (KeyScope::FormKeys, "after the key for more"),
            ],
        ))
    }

    fn lets_through(&self, action: Action) -> bool {
        is_for_all(action) || action == Action::Answer
    }

    fn availability(&self, action: Action) -> Availability {
        match action {
            Action::AddHistory => Err("this is no call"),
            action => self.form.availability(action),
        }
    }

    fn key(&mut self, key: KeyEvent, bound: Option<Action>, ui: Ui<'_>, _out: &mut Out) -> bool {
        self.form.now = ui.model.now;
        let text = self.form.take_key(key, bound.is_some());
        if text {
            (self.problem, self.leaving) = (None, false);
        }
        text
    }

    fn act(&mut self, action: Action, _ui: Ui<'_>, out: &mut Out) {
        let leaving = std::mem::take(&mut self.leaving);
        match action {
            Action::SaveForm => self.save(out),
            Action::Open if self.form.is_on_submit() => self.save(out),
            Action::Back if self.is_changed() && !leaving => {
                self.leaving = true;
                let text = "not saved: {back} again discards the changes, {save-form} saves";
                out.refuse(text);
            }
            Action::Back => out.close(),
            action => _ = self.form.apply(action),
        }
    }

    fn paste(&mut self, text: &str, _ui: Ui<'_>, _out: &mut Out) {
        self.form.paste(text);
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        match gesture {
            Gesture::Scroll { delta, .. } => self.form.wheel(delta.signum()),
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                self.leaving = false;
                let body = self.body(ui.area);
                if self.form.click(at, body) {
                    self.save(out);
                }
            }
        }
    }

    fn receive(&mut self, message: &Message, out: &mut Out) -> bool {
        match message {
            Message::Deck(DeckEvent::Saved(Ok(_))) if self.saving => out.close(),
            Message::Deck(DeckEvent::Saved(Err(reason))) if self.saving => {
                (self.saving, self.problem) = (false, Some(reason.clone()));
            }
            _ => return false,
        }
        true
    }

    fn unsaved(&self) -> Option<&'static str> {
        let what = match self.about {
            EditTopic::Entry(_) => "The entry being edited is not saved.",
            EditTopic::Roots(..) => "The roots being edited are not shared.",
        };
        self.is_changed().then_some(what)
    }

    fn prepare(&mut self, _ui: Ui<'_>) {
        if let Some(job) = self.form.pending_check() {
            // Our own schema is small enough to check inline.
            self.form.checked(job.run());
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let look = &cx.styles();
        let area = area.intersection(buf.area);
        if area.height < 4 || area.width < 20 {
            return;
        }
        let room = |x: u16| area.right().saturating_sub(x);
        let x = put(buf, area.x + 1, area.y, room(area.x + 1), &self.title, look.accent);
        put(buf, x + 3, area.y, room(x + 3), &self.place, look.muted);
        if let Some(text) = &self.problem {
            let sign = look.sign("⚠ ", "! ");
            let x = put(buf, area.x + 1, area.y + 1, room(area.x + 1), sign, look.error);
            put(buf, x, area.y + 1, room(x), text, look.error);
        }
        let verb = if matches!(self.about, EditTopic::Entry(_)) { "save" } else { "share" };
        form(&self.form, look, verb, self.body(area), buf);
    }

    fn key_line(&self, keymap: &Keymap) -> KeyLine {
        let mut keys = keymap.labels(&[KeyScope::Entry, KeyScope::Form]);
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
