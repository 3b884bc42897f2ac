//! One answer to "can this be used now?", asked by dispatch, footer, help and palette alike; and
//! what those show. Also takes the user's files and preferences into use.

use super::incoming::play;
use super::screen::key_line;
use super::{App, Redraw};
use crate::host::{ServerState, ServerView};
use crate::tui::chord::Chord;
use crate::tui::keymap::{Keymap, Row, Scope};
use crate::tui::model::{EngineState, Model};
use crate::tui::overlay::{Overlay, Reader, Subject, reader_width};
use crate::tui::pane::catalog::CatalogPane;
use crate::tui::pane::{Availability, PaneId, Ui, servers, when};
use crate::tui::pick::{Choice, FilterPick, Pick};
use crate::tui::prelude::*;
use crate::tui::theme::Theme;
use crate::tui::user_command::{PLACES, Run};
use crate::tui::widget::Doc;

/// The mouse, for the help.
const MOUSE: &[(&str, &str)] = &[
    ("click", "Select a row; press a key of the last line"),
    ("second click", "Open it"),
    ("wheel", "Scroll what is under the pointer"),
    ("drag", "Select text; it is copied when the button is released"),
    ("shift-drag", "The terminal's own selection, in most terminals"),
];

/// Why a command of the person cannot run, by what it takes.
const MISSING: [&str; 3] = [
    "select a server first",
    "select a tool in Tools first",
    "select a resource in Resources first",
];

impl App {
    /// Whether this can be done to a server.
    fn can_command(&self, action: Action, server: Option<&ServerView>) -> Availability {
        match (action, server) {
            _ if self.model.playback.is_some() => Err("this is a recording: nothing runs"),
            (_, None) => Err("select a server first"),
            (Action::Refresh | Action::Ping, Some(server)) => {
                when(server.state == ServerState::Ready, "the server is not ready")
            }
            (Action::ResetBreaker, Some(server)) => when(
                !server.breaker.is_closed() || !server.tool_breakers.is_empty(),
                "no breaker is open",
            ),
            (Action::SignIn, Some(server)) => when(
                server.account.is_some() || !server.auth_steps.is_empty(),
                "the server does not ask for it",
            ),
            (_, Some(server)) => when(server.account.is_some(), "nobody is signed in there"),
        }
    }

    /// Whether an action can be used now, and why not.
    pub fn availability(&self, action: Action) -> Availability {
        let target = || self.target_server().and_then(|name| self.model.server(&name).cloned());
        let running = matches!(self.model.engine, EngineState::Running);
        let on_top = !self.overlays.is_empty() || self.panes.get(self.pane).is_typing();
        match action {
            Action::Filter if matches!(self.overlays.last(), Some(Overlay::Reader(r)) if r.subject != Subject::Help) => {
                Err("there is no list to filter here")
            }
            // These are for what lies over the pane, or for the line being typed.
            Action::Open | Action::Copy | Action::CopyAll | Action::Save | Action::Fold
                if on_top =>
            {
                Ok(())
            }
            Action::Restart
            | Action::StartStop
            | Action::Refresh
            | Action::Ping
            | Action::Request
            | Action::Call
            | Action::Record
            | Action::ResetBreaker
            | Action::Rules
            | Action::Roots
            | Action::Answer
            | Action::DenyAll
                if self.model.playback.is_some() =>
            {
                Err("this is a recording: nothing runs")
            }
            Action::User(_) => self.can_run(action),
            Action::Request => when(target().is_some(), "select a server first"),
            action if play(action).is_some() => {
                when(self.model.playback.is_some(), "this is for recordings: mcpdeck open FILE")
            }
            Action::Record if !running => Err("the engine is not running"),
            Action::Restart | Action::StartStop | Action::Refresh | Action::Ping if !running => {
                Err("the engine is not running")
            }
            Action::Restart | Action::StartStop | Action::BlackBox | Action::ServerInfo => {
                let any = target().is_some() || !self.model.marked.is_empty();
                when(any, "select a server first")
            }
            Action::Refresh
            | Action::Ping
            | Action::ResetBreaker
            | Action::SignIn
            | Action::RefreshToken
            | Action::SignOut => self.can_command(action, target().as_deref()),
            Action::AskReload => {
                when(!self.model.situation.sources.is_empty(), "there is no file that could change")
            }
            Action::Chat => when(
                self.chat.is_some(),
                "there is no model: set the key of one, see `mcpdeck help chat`",
            ),
            Action::AddServer | Action::EditFile => self.can_edit(),
            Action::EditServer
            | Action::DuplicateServer
            | Action::ToggleServer
            | Action::RemoveServer => self.can_edit_server(),
            Action::CopyEntry => when(target().is_some(), "select a server first"),
            Action::UndoEdit => when(self.model.situation.undo, "there is nothing to undo"),
            Action::Inputs => {
                when(!self.model.situation.inputs.is_empty(), "the configuration declares no input")
            }
            Action::Rerun => when(
                self.rerun_target().is_some(),
                "no source of this server is watched (`dev.watch`)",
            ),
            Action::AllServers => when(
                self.model.scope.is_some() || !self.model.marked.is_empty(),
                "all servers are shown",
            ),
            // What lies over the pane takes the keys, whatever the pane could do with them.
            _ if !self.overlays.is_empty() => Ok(()),
            action => self.panes.get(self.pane).availability(action, &self.model).unwrap_or(Ok(())),
        }
    }

    /// A command of the person with what is selected now; `None` when it is none.
    pub(super) fn user_command(&self, action: Action) -> Option<Run> {
        let command = self.keymap.command(action)?.clone();
        let server = self.target_server().map(|server| server.to_string());
        let of = |pane, list: &CatalogPane| (self.pane == pane).then(|| list.wire_name()).flatten();
        let tool = of(PaneId::Tools, &self.panes.tools);
        let uri = of(PaneId::Resources, &self.panes.resources);
        Some(Run { command, values: [server, tool, uri] })
    }

    fn can_run(&self, action: Action) -> Availability {
        let Some(Run { command, values }) = self.user_command(action) else {
            return Err("the keymap file has no such command");
        };
        for (((place, _), value), missing) in PLACES.iter().zip(&values).zip(MISSING) {
            match value {
                _ if !command.takes(place) => {}
                None => return Err(missing),
                Some(value) if value.starts_with('-') => {
                    return Err("the name begins with `-`: programs take it for an option");
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Keys of the footer, most wanted first: chord, label, action.
    pub(super) fn footer_keys(&self) -> Vec<(String, Ink, Action)> {
        let scopes = self.scopes();
        let mut rows = self.rows_here(&scopes);
        rows.retain(|row| row.footer > 0 && self.availability(row.action).is_ok());
        if self.model.inbox().next().is_none() {
            rows.retain(|r| r.action != Action::ShowInbox);
        }
        if matches!(self.overlays.last(), Some(Overlay::Confirm(_))) {
            rows.retain(|row| row.scope == Scope::Confirm);
        }
        if matches!(
            self.overlays.last(),
            Some(Overlay::Consent(_) | Overlay::Input(_) | Overlay::Ask(_) | Overlay::SignIn(_))
        ) {
            // It shows its own keys.
            rows.retain(|r| matches!(r.action, Action::Palette | Action::Help | Action::Quit));
        }
        if matches!(self.overlays.last(), Some(Overlay::Reader(_))) {
            rows.retain(|r| r.action != Action::Open);
        }
        rows.sort_by_key(|row| row.footer);
        rows.into_iter()
            .map(|row| {
                let label = match row.action {
                    // The line being typed is the filter of a list.
                    Action::Open if self.overlays.is_empty() && self.is_typing() => ink!("keep"),
                    Action::Back if self.overlays.is_empty() && self.is_typing() => ink!("clear"),
                    action => self.keymap.label(action),
                };
                (self.spell(row.chords[0]), label, row.action)
            })
            .collect()
    }

    /// The keys that work now: while a line is typed, those that type a character do nothing else,
    /// but for the line's own.
    fn rows_here(&self, scopes: &[Scope]) -> Vec<Row> {
        let mut rows = self.keymap.rows(scopes);
        if self.is_typing() {
            rows.retain_mut(|row| {
                let own = scopes.first() == Some(&row.scope);
                row.chords.retain(|chord| own || chord.typed().is_none());
                !row.chords.is_empty()
            });
        }
        rows
    }

    /// A chord as this terminal can show it.
    fn spell(&self, chord: Chord) -> String {
        if self.setup.ascii { chord.to_string() } else { chord.short() }
    }

    fn hint(&self, scopes: &[Scope], action: Action) -> String {
        let rows = self.keymap.rows(scopes);
        let row = rows.iter().find(|row| row.action == action);
        row.map_or_else(String::new, |row| self.spell(row.chords[0]))
    }

    pub(super) fn palette_choices(&mut self) -> Vec<Choice> {
        let scopes = self.scopes();
        let screen = self.screen_scopes().unwrap_or_default();
        let mut choices: Vec<Choice> = Vec::new();
        for row in self.keymap.rows(&screen) {
            if row.action != Action::Open
                && !choices.iter().any(|c| c.pick == Pick::Action(row.action))
            {
                let hint = Ink::line(&self.spell(row.chords[0]));
                let words = ink!("{}", row.action.help());
                let pick = Pick::Action(row.action);
                choices.push(Choice::new(words, hint, pick));
            }
        }
        choices.extend(
            Action::ALL
                .iter()
                .filter(|action| {
                    !matches!(action, Action::Palette | Action::Confirm | Action::Open)
                })
                .copied()
                .chain((0..self.keymap.commands.len()).map(|n| Action::User(n as u8)))
                .filter(|action| self.is_of_panes(*action) && !self.is_of_screen(*action))
                .map(|action| self.action_choice(action, &scopes)),
        );
        let runs = matches!(self.model.engine, EngineState::Running);
        for (name, server) in &self.model.view.servers {
            let mut choice = |words: &'static str, pick| {
                let words = ink!("{} {}", words, Model::name(name));
                choices.push(Choice::new(words, ink!("server"), pick));
            };
            choice("Show only", Pick::Server(name.clone()));
            choice("Diagnostics of", Pick::OnServer(Action::BlackBox, name.clone()));
            if self.model.playback.is_none() && runs {
                let start_or_stop = if server.state.is_up() { "Stop" } else { "Start" };
                choice("Restart", Pick::OnServer(Action::Restart, name.clone()));
                choice(start_or_stop, Pick::OnServer(Action::StartStop, name.clone()));
                if server.state == ServerState::Ready {
                    choice("Ping", Pick::OnServer(Action::Ping, name.clone()));
                }
            }
        }
        choices.extend(self.call_choices());
        choices.extend(self.panes.traffic.saved.all().iter().map(|saved| {
            Choice::new(
                ink!("Use the traffic filter {}", Ink::line(&saved.name)),
                ink!("filter"),
                Pick::Filter(FilterPick::Use(saved.name.clone())),
            )
        }));
        choices.extend(self.theme_names().into_iter().map(|name| {
            Choice::new(
                ink!("Use the theme {}", Ink::line(&name)),
                ink!("theme"),
                Pick::Theme(name),
            )
        }));
        choices.extend(self.offer_choices());
        choices
    }

    /// A row of the palette. What is bound in another pane only is done there.
    fn action_choice(&self, action: Action, scopes: &[Scope]) -> Choice {
        let pick = Pick::Action(action);
        let words = self.keymap.help(action);
        if let Some(pane) = self.elsewhere(action) {
            let hint = ink!("in {}", pane.name());
            return Choice::new(words, hint, pick);
        }
        let disabled = self.availability(action).err().map(|reason| self.spelled(reason));
        Choice { words, hint: Ink::line(&self.hint(scopes, action)), pick, disabled }
    }

    /// Whether an action means something outside of what is laid over the panes.
    fn is_of_panes(&self, action: Action) -> bool {
        let mut scopes = self.keymap.scopes_of(action).peekable();
        let unbound = scopes.peek().is_none();
        unbound || scopes.any(|s| s.pane().is_some() || matches!(s, Scope::Global | Scope::List))
    }

    /// The pane an action belongs to, when it is bound neither here nor everywhere.
    pub(super) fn elsewhere(&self, action: Action) -> Option<PaneId> {
        let here = self.panes.get(self.pane).scopes();
        let everywhere =
            |scope: &Scope| here.contains(scope) || matches!(scope, Scope::Global | Scope::List);
        if self.keymap.scopes_of(action).any(|scope| everywhere(&scope)) {
            return None;
        }
        self.keymap.scopes_of(action).find_map(Scope::pane)
    }

    /// A text of ours with the keys that work in the pane shown.
    pub(super) fn spelled(&self, text: &'static str) -> Ink {
        let pane = || self.panes.get(self.pane).scopes().to_vec();
        let mut scopes = self.screen_scopes().unwrap_or_else(pane);
        scopes.push(Scope::Global);
        self.keymap.spelled(&scopes, text)
    }

    pub(super) fn open_help(&mut self) {
        let scopes = self.scopes();
        let mut doc = Doc::new(reader_width(self.size));
        if let Some(problem) = &self.user_problem {
            doc.text(0, problem, Role::Error);
        }
        let mut last = None;
        for row in self.rows_here(&scopes) {
            if last != Some(row.scope) {
                doc.heading(row.scope.name());
                last = Some(row.scope);
            }
            let keys: Vec<String> = row.chords.iter().map(|chord| self.spell(*chord)).collect();
            let mut help = self.keymap.help(row.action);
            let mut role = Role::Text;
            if let Err(reason) = self.availability(row.action) {
                help.push(ink!("  ({})", self.spelled(reason)));
                role = Role::Faint;
            }
            key_line(&Ink::line(&keys.join("  ")), &help, role, &mut doc);
        }
        doc.heading("mouse");
        for (what, does) in MOUSE {
            key_line(&ink!("{}", *what), &ink!("{}", *does), Role::Text, &mut doc);
        }
        let title = ink!("keys: {}", self.pane.name());
        let reader = Reader { subject: Subject::Help, ..Reader::new(title, doc) };
        self.push_overlay(Overlay::Reader(reader));
    }

    /// Opens the diagnostics or the info of a server.
    pub(super) fn open_reader_of(&mut self, subject: Subject) {
        // One is enough: esc leads out of it at once.
        self.overlays.retain(|overlay| match overlay {
            Overlay::Reader(reader) => {
                !matches!(reader.subject, Subject::BlackBox(_) | Subject::Info(_))
            }
            _ => true,
        });
        self.push_overlay(Overlay::Reader(Reader::of(subject)));
    }

    pub(super) fn open_tour(&mut self, page: usize) {
        self.push_overlay(Overlay::Reader(Reader::of(Subject::Tour(page))));
    }

    pub(super) fn turn_tour(&mut self, delta: isize) {
        let Some(Overlay::Reader(reader)) = self.overlays.last_mut() else { return };
        let Subject::Tour(page) = &mut reader.subject else { return };
        let next = page.saturating_add_signed(delta);
        reader.top = 0;
        if next >= servers::tour::PAGES.len() {
            self.close_overlay();
            self.remember();
        } else {
            *page = next;
        }
        self.mark(Redraw::Now);
    }

    /// Builds texts again whose subject may have changed.
    pub(super) fn refresh_readers(&mut self) {
        let width = reader_width(self.size);
        let area = Rect { width, ..self.size };
        let ui = Ui { model: &self.model, area, glyphs: self.glyphs, keymap: &self.keymap };
        for overlay in &mut self.overlays {
            if let Overlay::Palette(palette) = overlay
                && palette.is_watched
            {
                palette.renew(self.model.watched_choices());
            }
            let Overlay::Reader(reader) = overlay else { continue };
            reader.doc = match &reader.subject {
                Subject::BlackBox(name) => servers::black_box(ui, name),
                Subject::Info(name) => servers::info(ui, name),
                Subject::Tour(page) => servers::tour::page(*page, ui),
                Subject::Fixed | Subject::Help => continue,
            };
        }
    }

    pub(super) fn adopt_user_files(&mut self) {
        let mut warning = None;
        let user = &self.setup.user;
        let keymap = user.keymap.clone().map(|text| Keymap::with_user(&text?));
        match keymap {
            Some(Ok(keymap)) => self.keymap = Arc::new(keymap),
            Some(Err(error)) => warning = Some(format!("{error}; the keys stay as they are")),
            None => self.keymap = Arc::new(Keymap::builtin()),
        }
        for screen in &mut self.calls.screens {
            screen.keymap = Arc::clone(&self.keymap);
        }
        let wanted = self.setup.theme.as_ref().or(self.setup.prefs.theme.as_ref());
        let name = wanted.map_or("default", String::as_str).to_owned();
        match Theme::load(&name, &self.setup.user.themes) {
            Ok(theme) => self.theme = theme.adapted(self.setup.depth),
            Err(error) => warning = Some(format!("{error}; the colours stay as they are")),
        }
        let warning = self.setup.user.unread.first().cloned().or(warning);
        self.user_problem = warning.map(|warning| Ink::line(&warning));
        if let Some(problem) = self.user_problem.clone() {
            self.toast(problem, Role::Warning);
        }
    }

    pub(super) fn adopt_prefs(&mut self) {
        let prefs = &self.setup.prefs;
        if let Some(pane) = prefs.pane.as_deref().and_then(PaneId::by_title) {
            self.pane = pane;
        }
        self.model.scope = prefs.scope.as_deref().map(ServerName::new);
        for id in PaneId::ALL {
            let text = prefs.filters.get(&id.name().to_lowercase());
            if let (Some(text), Some(filter)) = (text, self.panes.get_mut(id).filter_mut()) {
                filter.set(text);
            }
        }
        self.panes.logs.read_prefs(prefs);
        self.panes.traffic.read_prefs(prefs);
    }
}
