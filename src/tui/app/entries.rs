//! Adding, editing, copying, switching and removing servers from the dashboard. The files are
//! written by the engine thread; this holds the form and asks before anything is lost.

use std::path::PathBuf;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{App, Redraw};
use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::config::edit::entry::ShownEntry;
use crate::config::import::templates;
use crate::tui::action::Action;
use crate::tui::app::screen::form_scopes;
use crate::tui::effect::{Change, ConfigCommand, Effect};
use crate::tui::entry::EntryScreen;
use crate::tui::ink::{Ink, ink};
use crate::tui::keymap::Scope;
use crate::tui::model::Model;
use crate::tui::overlay::{Choice, Confirm, Overlay, Palette, Pick, Reader, reader_width};
use crate::tui::pane::Availability;
use crate::tui::theme::Role;
use crate::tui::widget::Doc;

impl App {
    /// Whether the form of an entry is open.
    pub fn is_editing(&self) -> bool {
        self.entry.is_some()
    }

    /// Whether the files can be edited from here.
    pub(super) fn can_edit(&self) -> Availability {
        let any = !self.model.view.files.is_empty() || !self.model.files.is_empty();
        Availability::when(
            any,
            "the servers are the demo's or from the command line, not from a file",
        )
    }

    /// Whether there is a server to edit.
    pub(super) fn can_edit_server(&self) -> Availability {
        match self.can_edit() {
            Availability::Ready => {
                Availability::when(self.target_server().is_some(), "select a server first")
            }
            no @ Availability::Disabled(_) => no,
        }
    }

    /// Does an action on the files.
    pub(super) fn edit_action(&mut self, action: Action, effects: &mut Vec<Effect>) {
        let config = |command| Effect::Config(command);
        let name = self.target_server();
        match (action, name) {
            (Action::AddServer, _) => self.open_templates(),
            (Action::EditFile, name) => {
                if let Some((file, line)) = self.place_of(name.as_ref()) {
                    effects.push(Effect::EditFile(file, line));
                }
            }
            (Action::UndoEdit, _) => effects.push(config(ConfigCommand::Undo)),
            (Action::EditServer, Some(name)) => {
                effects.push(config(ConfigCommand::OpenEntry(name)));
            }
            (Action::DuplicateServer, Some(name)) => {
                effects.push(config(ConfigCommand::Change(Change::Duplicate(name))));
            }
            (Action::ToggleServer, Some(name)) => {
                let known = self.model.config.as_ref().and_then(|c| c.servers.get(&name));
                let off = known.is_some_and(|server| server.disabled);
                if off {
                    effects.push(config(ConfigCommand::Change(Change::Enable(name))));
                } else {
                    let title = Self::end_title("switch off", &name);
                    let yes = vec![config(ConfigCommand::Change(Change::Disable(name.clone())))];
                    self.end(title, Some(&name), yes, effects);
                }
            }
            (Action::RemoveServer, Some(name)) => self.ask_to_remove(name),
            _ => {}
        }
    }

    fn ask_to_remove(&mut self, name: ServerName) {
        let file = self.place_of(Some(&name)).map(|(file, _)| file).unwrap_or_default();
        let file = Ink::line(&file.display().to_string());
        let title = ink!("remove {}?", Model::name(&name));
        let lines = vec![
            ink!("Its entry is taken out of {}", file),
            self.spelled("and the server is stopped. {undo-edit} brings it back."),
        ];
        let yes = vec![Effect::Config(ConfigCommand::Change(Change::Remove(name)))];
        let confirm = Confirm::new(title, lines, yes);
        self.push_overlay(Overlay::Confirm(confirm));
    }

    /// File and line of an entry; of the file that wins without one.
    fn place_of(&self, name: Option<&ServerName>) -> Option<(PathBuf, u32)> {
        let config = self.model.config.as_ref();
        let server = name.and_then(|name| config?.servers.get(name));
        if let Some(server) = server.filter(|s| !s.at.file.as_os_str().is_empty()) {
            return Some((server.at.file.clone(), server.at.line));
        }
        // A file with an error opens there.
        if let Some(wrong) = self.model.rejected().next() {
            return Some((wrong.at.file.clone(), wrong.at.line));
        }
        self.model.files.last().map(|file| (file.path.clone(), 1))
    }

    fn open_templates(&mut self) {
        let choices = templates().into_iter().enumerate().map(|(n, (title, entry))| Choice {
            words: ink!("{}", title),
            hint: Ink::line(entry["command"].as_str().unwrap_or("url")),
            pick: Pick::Template(n),
            disabled: None,
        });
        let palette = Palette::new(ink!("add a server"), choices.collect());
        self.push_overlay(Overlay::Palette(palette));
    }

    /// Opens the form of a new server.
    pub(super) fn open_template(&mut self, number: usize) {
        let Some((_, template)) = templates().into_iter().nth(number) else { return };
        let file = self.model.files.last().map(|file| file.path.clone()).unwrap_or_default();
        self.entry = Some(EntryScreen::add(&template, &file));
        self.mark(Redraw::Now);
    }

    /// An entry came to be edited.
    pub(super) fn open_entry(&mut self, entry: ShownEntry) {
        self.entry = Some(EntryScreen::edit(entry));
        self.mark(Redraw::Now);
    }

    /// The form was written, or why not.
    pub(super) fn entry_saved(&mut self, outcome: Result<SafeText, SafeText>) {
        match (outcome, &mut self.entry) {
            (Ok(words), _) => {
                self.entry = None;
                self.toast(Ink::from(&words), Role::Ok);
            }
            (Err(reason), Some(screen)) => {
                screen.saving = false;
                screen.problem = Some(reason);
                self.mark(Redraw::Now);
            }
            (Err(reason), None) => self.toast(Ink::from(&reason), Role::Error),
        }
    }

    /// A key while the form is open; gives whether it was taken.
    pub(super) fn entry_key(&mut self, key: KeyEvent, effects: &mut Vec<Effect>) -> bool {
        if !self.overlays.is_empty() || self.is_answering() {
            return false;
        }
        let chord = crate::tui::chord::Chord::pressed(key);
        let global = self.keymap.action(&[Scope::Global], chord);
        let Some(screen) = &mut self.entry else { return false };
        if matches!(global, Some(Action::QuitNow | Action::Suspend | Action::Redraw)) {
            return false;
        }
        let form = &mut screen.form;
        let letter = chord.typed().is_some();
        form.now = self.model.now;
        if global == Some(Action::Help) && !letter {
            self.open_entry_help();
            return true;
        }
        if global == Some(Action::Palette) && !letter {
            return false;
        }
        let scopes = [&[Scope::Entry], form_scopes(form)].concat();
        let command = self.keymap.pressed(&scopes, key);
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        let text =
            !matches!(key.code, KeyCode::F(_) | KeyCode::Esc | KeyCode::Tab | KeyCode::BackTab)
                && (plain || command.is_none());
        self.redraw = Redraw::Now;
        self.stale = true;
        if (text || form.popup_is_open()) && form.type_key(key) {
            (screen.problem, screen.leaving) = (None, false);
        } else if let Some(action) = command {
            self.entry_action(action, effects);
        }
        true
    }

    /// Does an action of the form.
    pub(super) fn entry_action(&mut self, action: Action, effects: &mut Vec<Effect>) {
        let Some(screen) = &mut self.entry else { return };
        let leaving = std::mem::take(&mut screen.leaving);
        match action {
            Action::SaveForm => self.save_entry(effects),
            Action::Open if screen.form.is_on_submit() => self.save_entry(effects),
            Action::Back => {
                if screen.is_changed() && !leaving {
                    screen.leaving = true;
                    let text = "not saved: {back} again discards the changes, {save-form} saves";
                    let text = self.keymap.spelled(&[Scope::Entry], text);
                    self.toast(text, Role::Warning);
                } else {
                    self.entry = None;
                }
            }
            action => _ = screen.form.apply(action),
        }
    }

    fn open_entry_help(&mut self) {
        let mut doc = Doc::new(reader_width(self.size));
        for (scope, heading) in [
            (Scope::Entry, "editing a server"),
            (Scope::Form, "in the form"),
            (Scope::FormLine, "on lines that take no text"),
        ] {
            doc.heading(heading);
            super::calls::key_lines(&self.keymap, scope, &mut doc);
        }
        self.push_overlay(Overlay::Reader(Reader::new(ink!("keys: editing a server"), doc)));
    }

    pub(super) fn save_entry(&mut self, effects: &mut Vec<Effect>) {
        let Some(screen) = &mut self.entry else { return };
        if screen.saving {
            return;
        }
        match screen.saving() {
            Ok(saving) => {
                screen.saving = true;
                screen.problem = None;
                effects.push(Effect::Config(ConfigCommand::SaveEntry(Box::new(saving))));
            }
            Err(reason) => screen.problem = Some(SafeText::line(reason)),
        }
    }

    /// Takes pasted text; gives whether it was taken.
    pub(super) fn entry_paste(&mut self, text: &str) -> bool {
        if !self.overlays.is_empty() || self.is_answering() {
            return false;
        }
        let Some(screen) = &mut self.entry else { return false };
        screen.form.paste(text);
        self.mark(Redraw::Now);
        true
    }

    /// Brings the form up to date before a frame.
    pub(super) fn prepare_entry(&mut self) {
        if let Some(screen) = &mut self.entry
            && let Some(job) = screen.form.pending_check()
        {
            // Our own schema is small: its check is not worth a trip to another thread.
            screen.form.checked(job.run());
        }
    }

    /// Draws the form; gives whether it is open.
    pub(super) fn render_entry(&self, area: Rect, buf: &mut Buffer) -> bool {
        let Some(screen) = &self.entry else { return false };
        screen.render(&super::calls::look(&self.theme, self.glyphs), &self.keymap, area, buf);
        true
    }
}
