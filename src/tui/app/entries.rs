//! Adding, editing, copying, switching and removing servers from the dashboard. The files are
//! written by the engine thread; this holds the form and asks before anything is lost.

use std::path::PathBuf;

use serde_json::json;

use super::screen::Open;
use super::{App, Redraw};
use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::config::edit::entry::ShownEntry;
use crate::config::import::templates;
use crate::config::print::servers;
use crate::tui::action::Action;
use crate::tui::effect::{Change, ConfigCommand, Effect};
use crate::tui::entry::FormScreen;
use crate::tui::ink::{Ink, ink};
use crate::tui::message::Message;
use crate::tui::model::Model;
use crate::tui::overlay::{Choice, Confirm, Overlay, Palette, Pick};
use crate::tui::pane::Availability;
use crate::tui::theme::Role;

impl App {
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
                    self.end(title, &[name], yes, effects);
                }
            }
            (Action::CopyEntry, Some(name)) => self.copy_entry(&name, effects),
            (Action::RemoveServer, Some(name)) => self.ask_to_remove(name),
            _ => {}
        }
    }

    /// Copies the entry of a server as a configuration of its own, secrets masked.
    fn copy_entry(&mut self, name: &ServerName, effects: &mut Vec<Effect>) {
        let config = self.model.config.as_ref().and_then(|config| config.servers.get(name));
        let entry = json!({ "servers": servers(config.into_iter()) });
        let text = serde_json::to_string_pretty(&entry).unwrap_or_default();
        self.absorb_effect(Effect::Copy(text), effects);
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
        self.push_screen(Open::Own(Box::new(FormScreen::add(&template, &file))));
    }

    /// An entry came to be edited.
    pub(super) fn open_entry(&mut self, entry: ShownEntry) {
        self.push_screen(Open::Own(Box::new(FormScreen::edit(entry))));
    }

    /// An entry was written, or why not: its form says so while it is open.
    pub(super) fn entry_saved(
        &mut self,
        outcome: Result<SafeText, SafeText>,
        effects: &mut Vec<Effect>,
    ) {
        let message = Message::Saved(outcome.clone());
        let heard = self.screen_hears(&message, effects);
        match outcome {
            Ok(words) => self.toast(Ink::from(&words), Role::Ok),
            Err(reason) if !heard => self.toast(Ink::from(&reason), Role::Error),
            Err(_) => self.mark(Redraw::Now),
        }
    }
}
