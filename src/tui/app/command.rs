//! Actions: what each does. The topmost overlay is asked first, then the pane, then what holds
//! everywhere.

use std::path::PathBuf;

use serde_json::json;

use crate::config::edit::entry::ShownEntry;
use crate::config::import::templates;
use crate::config::print::servers;
use crate::tui::app::incoming::play;
use crate::tui::app::screen::Open;
use crate::tui::app::{App, Focus, Redraw};
use crate::tui::effect::{Baseline, Change, ConfigCommand, Effect, ServerCommand};
use crate::tui::entry::FormScreen;
use crate::tui::keymap::Scope;
use crate::tui::message::Message;
use crate::tui::model::{EngineState, Model};
use crate::tui::overlay::{Ask, Confirm, Named, Overlay, Palette, Subject, Verdict};
use crate::tui::pane::logs::level_word;
use crate::tui::pane::{Availability, Out, Pane as _, PaneId, when};
use crate::tui::pick::{Choice, FilterPick, Pick};
use crate::tui::policy::PolicyScreen;
use crate::tui::prefs::SavedFilter;
use crate::tui::prelude::*;
use crate::tui::theme::SHIPPED;
use crate::tui::widget::Keep;

impl App {
    pub(super) fn perform(&mut self, action: Action) {
        if self.stale && self.overlays.is_empty() {
            // Keys that come faster than frames act on what the next frame would show.
            self.on_pane(|pane, ui| pane.sync(ui));
        }
        if let Err(reason) = self.availability(action) {
            let mut text = ink!("{}: ", self.keymap.label(action));
            text.push(self.spelled(reason));
            return self.toast(text, Role::Warning);
        }
        let decides = match self.overlays.last() {
            Some(Overlay::Consent(consent)) => consent.decides(action),
            Some(Overlay::Input(_)) => matches!(action, Action::Open | Action::Forget),
            Some(Overlay::Confirm(_)) => action == Action::Confirm,
            Some(Overlay::SignIn(_)) => action == Action::OpenBrowser,
            _ => false,
        };
        if decides && !self.was_read() {
            return;
        }
        if let Some(mut overlay) = self.overlays.pop() {
            let mut out = Out::default();
            let verdict = overlay.act(action, self.size, &mut out);
            self.overlays.push(overlay);
            self.absorb(out);
            if verdict != Verdict::Pass {
                return self.settle(verdict);
            }
        } else if self.act_on_screen(action) || self.perform_in_pane(action) {
            return;
        }
        self.perform_anywhere(action);
    }

    fn perform_in_pane(&mut self, action: Action) -> bool {
        let pane = self.panes.get_mut(self.pane);
        if pane.typing().is_some() {
            match action {
                Action::Open => pane.end_typing(Keep::Yes),
                Action::Back => {
                    pane.end_typing(Keep::No);
                    self.remember_filter();
                }
                Action::Up | Action::Down => {}
                _ => return false,
            }
            if !matches!(action, Action::Up | Action::Down) {
                return true;
            }
        } else if self.focus == Focus::Servers && self.act_in_server_list(action) {
            return true;
        }
        let mut out = Out::default();
        let done = self.on_pane(|pane, ui| pane.act(action, ui, &mut out)).unwrap_or(false);
        self.absorb(out);
        if done {
            self.remember_filter();
        }
        done
    }

    fn act_in_server_list(&mut self, action: Action) -> bool {
        let delta = match action {
            Action::Up => -1,
            Action::Down => 1,
            Action::PageUp | Action::Top => isize::MIN / 2,
            Action::PageDown | Action::Bottom => isize::MAX / 2,
            Action::Open | Action::Right => {
                self.focus = Focus::Pane;
                return true;
            }
            Action::Mark => {
                self.mark_server();
                return true;
            }
            _ => return false,
        };
        self.model.scope = self.servers.step(delta);
        true
    }

    fn perform_anywhere(&mut self, action: Action) {
        if let Some(pane) = PaneId::ALL.into_iter().find(|pane| pane.action() == action) {
            self.overlays.clear();
            return self.show(pane);
        }
        match action {
            Action::NextPane => self.turn_pane(1),
            Action::PreviousPane => self.turn_pane(-1),
            Action::FocusNext | Action::FocusPrevious => self.turn_focus(),
            Action::NextServer => self.turn_scope(1),
            Action::PreviousServer => self.turn_scope(-1),
            Action::AllServers => {
                self.model.scope = None;
                self.model.marked.clear();
            }
            Action::ToggleServerList => {
                let shown = self.layout().is_some_and(|layout| layout.servers.is_some());
                self.setup.prefs.server_list = Some(!shown);
                self.remember();
            }
            Action::Back => self.back(),
            Action::Answer => self.open_first(),
            Action::History => self.choose_history(),
            Action::AskReload => self.ask_first(),
            Action::Inputs => self.open_inputs(),
            Action::Rules => self.choose_rules(),
            Action::Roots => self.choose_roots(),
            Action::Policy => self.open_policy(),
            Action::Mark => self.mark_server(),
            Action::Restart
            | Action::StartStop
            | Action::Refresh
            | Action::Ping
            | Action::SignIn
            | Action::RefreshToken
            | Action::SignOut
            | Action::ResetBreaker => {
                self.command_server(action);
            }
            Action::Request => {
                if let Some(server) = self.target_server() {
                    self.overlays.clear();
                    self.send_request(&server, None);
                }
            }
            Action::Watched => self.open_watched(),
            Action::User(_) => self.run_user_command(action),
            Action::Rerun => self.switch_rerun(),
            Action::BlackBox | Action::ServerInfo => {
                if let Some(server) = self.target_server() {
                    self.open_reader_of(match action {
                        Action::ServerInfo => Subject::Info(server),
                        _ => Subject::BlackBox(server),
                    });
                }
            }
            Action::SaveFilter => self.ask_filter_name(),
            Action::Filters => self.open_filters(),
            Action::UndoFilter => {
                self.undo_filters();
                self.remember();
            }
            Action::Palette => {
                let choices = self.palette_choices();
                self.choose(ink!("commands"), choices);
            }
            Action::Help => self.open_help(),
            Action::Theme => self.next_theme(),
            Action::Bell => {
                self.setup.prefs.mute_bell = !self.setup.prefs.mute_bell;
                let word = if self.setup.prefs.mute_bell { "muted" } else { "on" };
                self.toast(ink!("bell: {}", word), Role::Ok);
                self.remember();
            }
            Action::AskEnd => self.switch_ask_end(),
            Action::Tour => self.open_tour(0),
            Action::Record => self.effects.push(Effect::ToggleRecording),
            Action::Chat => {
                self.overlays.clear();
                self.push_screen(Open::Chat);
            }
            Action::Redraw => self.effects.push(Effect::Redraw),
            Action::Suspend => self.effects.push(Effect::Suspend),
            Action::Quit => self.quit(),
            Action::QuitNow => self.quit_at_once(),
            _ => self.edit_action(action),
        }
    }

    /// Runs a command of the person's keymap file, after a question where the file wants one.
    fn run_user_command(&mut self, action: Action) {
        let Some(run) = self.user_command(action) else { return };
        let (name, line) = (Ink::line(&run.command.name), Ink::line(&run.command.run));
        if !run.command.confirm {
            return self.effects.push(Effect::Run(Box::new(run)));
        }
        let values = run.values.iter().flatten().map(|value| Ink::line(value));
        let lines = std::iter::once(line).chain(values).collect();
        let yes = vec![Effect::Run(Box::new(run))];
        self.push_overlay(Overlay::Confirm(Confirm::new(ink!("run {}?", name), lines, yes)));
    }

    fn back(&mut self) {
        if self.overlays.is_empty() {
            self.focus = Focus::Pane;
        } else {
            self.close_overlay();
        }
    }

    /// The server a command is for: the selected one of the pane, or the scope.
    pub(super) fn target_server(&self) -> Option<ServerName> {
        let in_pane = self.focus == Focus::Pane;
        let chosen = in_pane.then(|| self.panes.get(self.pane).server(&self.model)).flatten();
        let chosen = chosen.or_else(|| self.model.scope.clone());
        let mut servers = self.model.view.servers.keys();
        // With one server there is no question which is meant.
        chosen.or_else(|| servers.next().filter(|_| self.model.view.servers.len() == 1).cloned())
    }

    /// Marks a server, or takes the mark off.
    fn mark_server(&mut self) {
        let Some(name) = self.target_server() else { return };
        if !self.model.marked.remove(&name) {
            self.model.marked.insert(name);
        }
    }

    /// Restarts, starts or stops what is marked together, after one question.
    fn command_marked(&mut self, action: Action) {
        let servers: Vec<ServerName> = self.model.marked.iter().cloned().collect();
        let is_up =
            |name: &ServerName| self.model.server(name).is_some_and(|server| server.state.is_up());
        let (command, word) = match action {
            Action::Restart => (ServerCommand::Restart, "restart"),
            _ if servers.iter().any(is_up) => (ServerCommand::Stop, "stop"),
            _ => (ServerCommand::Start, "start"),
        };
        let title = ink!("{} {}?", word, count(servers.len(), "marked server"));
        let each = servers.iter().map(|name| Effect::Server(name.clone(), command.clone()));
        self.end(title, &servers, each.collect());
    }

    fn command_server(&mut self, action: Action) {
        let all = !self.model.marked.is_empty() && self.model.scope.is_none();
        if all && matches!(action, Action::Restart | Action::StartStop) {
            return self.command_marked(action);
        }
        if let Some(name) = self.target_server() {
            self.command_one(action, name);
        }
    }

    fn command_one(&mut self, action: Action, name: ServerName) {
        let hold = self.hold(&name);
        if let Some(todo) = hold.filter(|_| matches!(action, Action::Restart | Action::StartStop)) {
            return self.open_todo(&todo);
        }
        let state = self.model.server(&name).map(|server| server.state);
        let (command, word) = match (action, state) {
            (Action::Restart, _) => (ServerCommand::Restart, "restarting"),
            (Action::Refresh, _) => (ServerCommand::Refresh, "fetching the lists of"),
            (Action::Ping, _) => (ServerCommand::Ping, "pinging"),
            (Action::SignIn, _) => (ServerCommand::SignIn, "asks you to sign in:"),
            (Action::RefreshToken, _) => (ServerCommand::RefreshToken, "fetching a token for"),
            (Action::SignOut, _) => (ServerCommand::SignOut, "signing out of"),
            (Action::ResetBreaker, _) => {
                let tool =
                    (self.pane == PaneId::Tools).then(|| self.panes.tools.wire_name()).flatten();
                (ServerCommand::ResetBreaker(tool), "closing the breaker of")
            }
            (_, Some(state)) if state.is_up() => (ServerCommand::Stop, "stopping"),
            _ => (ServerCommand::Start, "starting"),
        };
        let title = match command {
            ServerCommand::Restart => Self::end_title("restart", &name),
            ServerCommand::Stop => Self::end_title("stop", &name),
            ServerCommand::SignOut => Self::end_title("sign out of", &name),
            _ => {
                self.toast(ink!("{} {}", word, Model::name(&name)), Role::Ok);
                return self.effects.push(Effect::Server(name, command));
            }
        };
        let before = self.overlays.len();
        let yes = vec![Effect::Server(name.clone(), command)];
        self.end(title, std::slice::from_ref(&name), yes);
        if self.overlays.len() == before {
            self.toast(ink!("{} {}", word, Model::name(&name)), Role::Ok);
        }
    }

    pub(super) fn show(&mut self, pane: PaneId) {
        self.leave_screens();
        self.pane = pane;
        if pane == PaneId::Logs {
            self.model.unseen_errors = 0;
        }
        self.focus = Focus::Pane;
        self.setup.prefs.pane = Some(pane.name().to_lowercase());
        self.mark(Redraw::Now);
    }

    pub(super) fn turn_pane(&mut self, delta: isize) {
        let count = PaneId::ALL.len() as isize;
        let next = (self.pane as isize + delta).rem_euclid(count);
        self.show(PaneId::ALL[next.unsigned_abs()]);
    }

    fn turn_focus(&mut self) {
        let has_list = self.layout().is_some_and(|layout| layout.servers.is_some());
        if self.focus == Focus::Servers {
            self.focus = Focus::Pane;
        } else if self.on_pane(|pane, ui| pane.focus_next(ui)) == Some(false) && has_list {
            self.focus = Focus::Servers;
        }
    }

    fn turn_scope(&mut self, delta: isize) {
        let names: Vec<Option<ServerName>> = std::iter::once(None)
            .chain(self.model.view.servers.keys().cloned().map(Some))
            .collect();
        let at = names.iter().position(|name| *name == self.model.scope).unwrap_or(0) as isize;
        let next = (at + delta).rem_euclid(names.len() as isize).unsigned_abs();
        self.model.scope.clone_from(&names[next]);
    }

    pub(super) fn close_overlay(&mut self) {
        self.overlays.pop();
        self.mark(Redraw::Now);
    }

    pub(super) fn pick(&mut self, pick: Pick) {
        if let Pick::TourPage(delta) = pick {
            return self.turn_tour(delta);
        }
        self.close_overlay();
        match pick {
            Pick::Action(action) => {
                if !self.is_of_screen(action)
                    && let Some(pane) = self.elsewhere(action)
                {
                    self.show(pane);
                }
                self.perform(action);
            }
            Pick::Filter(pick) => self.filter_pick(pick),
            Pick::Server(server) => self.model.scope = Some(server),
            Pick::OnServer(Action::BlackBox, server) => {
                self.open_reader_of(Subject::BlackBox(server));
            }
            Pick::OnServer(action, server) => self.command_one(action, server),
            Pick::SavedCall(name) => _ = self.open_saved_call(&name),
            Pick::MakeCall(name) => self.make_saved_call(&name),
            Pick::Offer(server, list, wire) => self.open_call(&server, list, &wire),
            Pick::Past(target, id) => self.open_past(&target, id),
            Pick::Resource(server, uri) => self.open_link(&server, &uri),
            Pick::Unsubscribe(server, uri) => {
                self.effects.push(Effect::Server(server, ServerCommand::Unsubscribe(uri)));
            }
            Pick::Request(server, request) => self.send_request(&server, Some(*request)),
            Pick::Among(title, choices) => self.choose(title, choices),
            Pick::Call(pick) => {
                let wanted = self.call_screen().map(|screen| screen.picked(pick));
                self.wanted(wanted.unwrap_or_default());
            }
            Pick::Theme(name) => self.use_theme(&name),
            Pick::LogLevel(Some(server), level) => {
                self.effects.push(Effect::Server(server, ServerCommand::LogLevel(level)));
            }
            Pick::LogLevel(None, level) => {
                self.toast(ink!("mcpdeck logs {} and above", level_word(level)), Role::Ok);
                self.effects.push(Effect::HostLogLevel(level));
            }
            Pick::Template(number) => self.open_template(number),
            Pick::Input(id) => self.open_input(&id),
            Pick::Approval(pick) => self.approval_pick(pick),
            Pick::Chat(command) => self.effects.push(Effect::Chat(command)),
            Pick::Client(order, origin) => self.effects.push(Effect::Client(order, origin)),
            Pick::TourPage(_) => {}
        }
    }

    /// Opens the policy. Of a recording nothing was approved here: it is compared with the lock file.
    pub(super) fn open_policy(&mut self) {
        let mut screen = PolicyScreen::default();
        if self.model.playback.is_some() {
            screen = PolicyScreen::against(Baseline::Lock);
            self.effects.push(Effect::Baseline(Baseline::Lock));
        }
        self.overlays.clear();
        self.toast = None;
        self.push_screen(Open::Own(Box::new(screen)));
    }

    /// Lists subscriptions and tasks; the list is kept up to date.
    fn open_watched(&mut self) {
        let mut palette =
            Palette::new(ink!("subscriptions and tasks"), self.model.watched_choices());
        palette.is_watched = true;
        self.overlays.clear();
        self.push_overlay(Overlay::Palette(palette));
    }

    fn next_theme(&mut self) {
        let names = self.theme_names();
        let at = names.iter().position(|name| name == self.theme.name()).unwrap_or(0);
        let next = names[(at + 1) % names.len()].clone();
        self.use_theme(&next);
    }

    pub(super) fn theme_names(&self) -> Vec<String> {
        let mut names: Vec<String> = SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect();
        for (name, _) in &self.setup.user.themes {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        names
    }

    fn use_theme(&mut self, name: &str) {
        self.setup.theme = None;
        self.setup.prefs.theme = Some(name.to_owned());
        self.adopt_user_files();
        self.toast(ink!("theme: {}", Ink::line(name)), Role::Ok);
        self.remember();
    }

    /// The engine is stopping.
    pub fn stopping(&mut self) {
        if !matches!(self.model.engine, EngineState::Stopping(_)) {
            self.model.engine = EngineState::Stopping(self.model.now);
        }
        self.overlays.clear();
        self.mark(Redraw::Now);
    }

    pub(super) fn remember_filter(&mut self) {
        let key = self.pane.name().to_lowercase();
        let text = self.panes.get(self.pane).filter().map_or("", |filter| filter.text());
        if text.is_empty() {
            self.setup.prefs.filters.remove(&key);
        } else if self.setup.prefs.filters.get(&key).is_none_or(|old| old != text) {
            self.setup.prefs.filters.insert(key, text.to_owned());
        }
    }

    pub(super) fn remember(&mut self) {
        self.setup.prefs.scope = self.model.scope.as_ref().map(|name| name.as_str().to_owned());
        let prefs = &mut self.setup.prefs;
        self.panes.logs.write_prefs(prefs);
        self.panes.traffic.write_prefs(prefs);
        self.effects.push(Effect::SavePrefs(Box::new(prefs.clone())));
    }

    // What ends something asks once, everywhere the same: leaving, restarting, stopping, switching off.
    // It asks when calls, requests or drafts are open, unless the person turned the question off.

    /// Does what ends the work of servers (of all without any), after a yes when there is work.
    pub(super) fn end(&mut self, title: Ink, servers: &[ServerName], yes: Vec<Effect>) {
        let lines = self.open_work(servers);
        if lines.is_empty() || self.setup.prefs.end_unasked {
            self.effects.extend(yes);
        } else {
            self.push_overlay(Overlay::Confirm(Confirm::new(title, lines, yes)));
        }
    }

    /// What would be lost: calls in flight, requests that wait, answers half written.
    fn open_work(&self, servers: &[ServerName]) -> Vec<Ink> {
        let of = |name: &ServerName| servers.is_empty() || servers.contains(name);
        let calls = self.model.calls.iter().filter(|call| of(&call.server)).count();
        let pending = self.model.view.pending.values().filter(|r| of(&r.server)).count();
        let drafts = self.answers.drafts(of);
        let mut lines = Vec::new();
        for (n, noun, end) in [
            (calls, "running call", "will be cancelled"),
            (pending, "waiting request", "will be refused"),
            (drafts, "unsent answer", "will be lost"),
        ] {
            if n > 0 {
                lines.push(ink!("{} {}.", count(n, noun), end));
            }
        }
        let unsaved = self.stack.iter().filter_map(|open| match open {
            Open::Own(screen) => screen.unsaved(),
            _ => None,
        });
        lines.extend(unsaved.filter(|_| servers.is_empty()).map(|what| ink!("{}", what)));
        lines
    }

    /// Stops the servers and leaves.
    pub(super) fn quit(&mut self) {
        if matches!(self.model.engine, EngineState::Stopping(_)) {
            return self.leave();
        }
        // Whatever is answered: what was typed is kept.
        self.keep_drafts();
        self.remember();
        self.end(ink!("stop the servers and quit?"), &[], vec![Effect::Quit]);
    }

    /// The same from everywhere; a second time in a row is a yes, a third one waits for nothing.
    pub(super) fn quit_at_once(&mut self) {
        let asked = |overlay: &Overlay| matches!(overlay, Overlay::Confirm(confirm) if confirm.yes == [Effect::Quit]);
        if matches!(self.model.engine, EngineState::Stopping(_)) {
            self.effects.push(Effect::QuitNow);
        } else if self.overlays.last().is_some_and(asked) {
            self.leave();
        } else {
            self.quit();
        }
    }

    pub(super) fn leave(&mut self) {
        self.keep_drafts();
        self.remember();
        self.effects.push(Effect::Quit);
    }

    /// Turns the question off, or on again.
    pub(super) fn switch_ask_end(&mut self) {
        let unasked = !self.setup.prefs.end_unasked;
        self.setup.prefs.end_unasked = unasked;
        let how = if unasked { "without a question" } else { "after a question" };
        self.toast(ink!("quit, restart and stop end open work {}", how), Role::Ok);
        self.remember();
    }

    /// The question before a server is restarted, stopped or switched off.
    pub(super) fn end_title(what: &'static str, name: &ServerName) -> Ink {
        ink!("{} {}?", what, Model::name(name))
    }

    // Adding, editing, copying, switching and removing servers from the dashboard. The files are
    // written by the engine thread; this holds the form and asks before anything is lost.

    /// Whether the files can be edited from here.
    pub(super) fn can_edit(&self) -> Availability {
        let any = !self.model.view.files.is_empty() || !self.model.files.is_empty();
        when(any, "the servers are the demo's or from the command line, not from a file")
    }

    /// Whether there is a server to edit.
    pub(super) fn can_edit_server(&self) -> Availability {
        self.can_edit()?;
        when(self.target_server().is_some(), "select a server first")
    }

    /// Does an action on the files, or on the recording that is shown.
    fn edit_action(&mut self, action: Action) {
        let config = |command| Effect::Config(command);
        match (action, self.target_server()) {
            (Action::AddServer, _) => self.open_templates(),
            (Action::EditFile, name) => {
                if let Some((file, line)) = self.place_of(name.as_ref()) {
                    self.effects.push(Effect::EditFile(file, line));
                }
            }
            (Action::UndoEdit, _) => self.effects.push(config(ConfigCommand::Undo)),
            (Action::EditServer, Some(name)) => {
                self.effects.push(config(ConfigCommand::OpenEntry(name)));
            }
            (Action::DuplicateServer, Some(name)) => {
                self.effects.push(config(ConfigCommand::Change(Change::Duplicate(name))));
            }
            (Action::ToggleServer, Some(name)) => {
                let off = self.model.entry(&name).is_some_and(|entry| entry.disabled);
                if off {
                    self.effects.push(config(ConfigCommand::Change(Change::Enable(name))));
                } else {
                    let title = Self::end_title("switch off", &name);
                    let yes = vec![config(ConfigCommand::Change(Change::Disable(name.clone())))];
                    self.end(title, &[name], yes);
                }
            }
            (Action::CopyEntry, Some(name)) => self.copy_entry(&name),
            (Action::RemoveServer, Some(name)) => self.ask_to_remove(name),
            _ => self.effects.extend(play(action).map(Effect::Play)),
        }
    }

    /// Copies the entry of a server as a configuration of its own, secrets masked.
    fn copy_entry(&mut self, name: &ServerName) {
        let entry = json!({ "servers": servers(self.model.entry(name).into_iter()) });
        let text = serde_json::to_string_pretty(&entry).unwrap_or_default();
        self.absorb_effect(Effect::Copy(text));
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
        let server = name.and_then(|name| self.model.entry(name));
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
        let choices = templates().into_iter().enumerate().map(|(n, (title, entry))| {
            Choice::new(
                ink!("{}", title),
                Ink::line(entry["command"].as_str().unwrap_or("url")),
                Pick::Template(n),
            )
        });
        self.choose(ink!("add a server"), choices.collect());
    }

    /// Opens the form of a new server.
    fn open_template(&mut self, number: usize) {
        let Some((_, template)) = templates().into_iter().nth(number) else { return };
        let file = self.model.files.last().map(|file| file.path.clone()).unwrap_or_default();
        self.push_screen(Open::Own(Box::new(FormScreen::add(&template, &file))));
    }

    /// An entry came to be edited.
    pub(super) fn open_entry(&mut self, entry: ShownEntry) {
        self.push_screen(Open::Own(Box::new(FormScreen::edit(entry))));
    }

    /// An entry was written, or why not: its form says so while it is open.
    pub(super) fn entry_saved(&mut self, outcome: Result<SafeText, SafeText>) {
        let message = Message::Saved(outcome.clone());
        let heard = self.screen_hears(&message);
        match outcome {
            Ok(words) => self.toast(Ink::from(&words), Role::Ok),
            Err(reason) if !heard => self.toast(Ink::from(&reason), Role::Error),
            Err(_) => self.mark(Redraw::Now),
        }
    }

    // Saved filters of the traffic: asked for a name, listed, used, renamed, removed, taken back.

    fn ask_filter_name(&mut self) {
        let traffic = &self.panes.traffic;
        let text = traffic.filter().map_or("", |filter| filter.text()).trim().to_owned();
        let name = traffic.saved.of_text(&text).map(|saved| saved.name.clone());
        let ask = Ask::new(
            Named::Filter(text),
            name.as_deref().unwrap_or_default(),
            traffic.saved.names(),
        );
        self.push_overlay(Overlay::Ask(ask));
    }

    /// Lists the saved filters.
    pub(super) fn open_filters(&mut self) {
        let choices = self.panes.traffic.saved.all().iter().rev().map(|saved| {
            Choice::new(
                Ink::line(&saved.name),
                Ink::line(&saved.text),
                Pick::Filter(FilterPick::Use(saved.name.clone())),
            )
        });
        let mut palette = Palette::new(ink!("saved filters"), choices.collect());
        palette.scopes = &[Scope::SavedFilters, Scope::Text];
        self.push_overlay(Overlay::Palette(palette));
    }

    /// Does what was chosen.
    pub(super) fn filter_pick(&mut self, pick: FilterPick) {
        let saved = &mut self.panes.traffic.saved;
        match pick {
            FilterPick::Use(name) => {
                let Some(text) = saved.named(&name).map(|filter| filter.text.clone()) else {
                    return;
                };
                self.show(PaneId::Traffic);
                if let Some(filter) = self.panes.traffic.filter_mut() {
                    filter.set(&text);
                }
                return self.remember_filter();
            }
            FilterPick::AskRename(name) => {
                let names = saved.names();
                let ask = Ask::new(Named::Rename(name.clone()), &name, names);
                return self.push_overlay(Overlay::Ask(ask));
            }
            FilterPick::Save { name, text } => {
                let shown = Ink::line(&name);
                let replaced = saved.save(SavedFilter { name, text });
                let mut said = ink!("{} {}", if replaced { "replaced" } else { "saved" }, shown);
                said.push(self.spelled("   {filters} lists the saved filters"));
                self.toast(said, Role::Ok);
            }
            FilterPick::Rename { from, to } => {
                saved.rename(&from, &to);
                self.open_filters();
            }
            FilterPick::Remove(name) => {
                if saved.remove(&name) {
                    let mut said = ink!("removed {}", Ink::line(&name));
                    said.push(self.spelled("   {undo-filter} brings it back"));
                    self.toast(said, Role::Ok);
                }
                self.open_filters();
            }
            FilterPick::Undo => {
                self.undo_filters();
                self.open_filters();
            }
        }
        self.remember();
    }

    fn undo_filters(&mut self) {
        if self.panes.traffic.saved.undo() {
            self.toast(ink!("undone"), Role::Ok);
        } else {
            self.toast(ink!("the saved filters were not changed"), Role::Warning);
        }
    }
}
