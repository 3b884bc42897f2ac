//! Dispatch of actions: to the topmost screen or the pane, then to the actions that work everywhere.

use std::path::PathBuf;

use serde_json::json;

use super::screens::OpenScreen;
use super::{App, AppFocus, answers, keys, playback};
use crate::action::{ActionPlace, AppAction, EditAction, ServerAction};
use crate::call::CallScreen;
use crate::chat::port::ChatCommand;
use crate::effect::{Baseline, ConfigCommand, Effect, FileChange, Order, ServerCommand};
use crate::entry::FormScreen;
use crate::intent::Intent;
use crate::keymap::{KeyScope, MENUS};
use crate::model::{EngineState, Model, Todo};
use crate::overlay::{
    AddServerDialog, Confirm, Consent, ImportDialog, InputDialog, NamePrompt, Named, Palette,
    WhyAbout, WhyDialog,
};
use crate::pane::config::{PLANNED, touched};
use crate::pane::logs::level_word;
use crate::pane::servers::{info_reader, reader};
use crate::pane::{Pane as _, PaneId, RedRow, Redraw, TABS};
use crate::pane::{compared, tokens};
use crate::pick::{ApprovalPick, Choice, FilterPick, Pick};
use crate::policy::PolicyScreen;
use crate::prefs::SavedFilter;
use crate::prelude::*;
use crate::suites::{SuiteCommand, SuiteOrder};
use crate::widget::KeepFilter;
use config::{ConfigChange, McpConfig, server_entries, server_templates};
use host::CallView;
use protocol::ListKind;
use reach::FoundServers;

/// Maximum number of servers listed when a changed file is confirmed; the Config pane lists all.
const MAX_NAMED_SERVERS: usize = 10;

impl App {
    pub(super) fn perform(&mut self, action: Action) {
        self.guide.follow(action);
        if keys::is_of_screen(self, action) {
            return self.act_on_screen(action);
        }
        if self.stale {
            // Keys that arrive faster than frames act on what the next frame would show.
            self.on_pane(|pane, ui, _| pane.sync(ui));
        }
        if self.may(action) && !self.perform_in_pane(action) {
            self.perform_anywhere(action);
        }
    }

    /// Whether an action can be used now; says why if not.
    pub(super) fn may(&mut self, action: Action) -> bool {
        let Err(reason) = keys::availability(self, action) else { return true };
        let mut text = ink!("{}: ", self.look.keymap.label(action));
        text.push(self.spelled(reason));
        self.toast(text, Role::Warning);
        false
    }

    /// Performs an action of the open screen.
    pub(super) fn act_on_screen(&mut self, action: Action) {
        self.guide.follow(action);
        if MENUS.iter().any(|(opens, _)| *opens == action) {
            return self.open_next_keys(action);
        }
        if !self.may(action) {
            return;
        }
        if self.screens.top().is_some_and(|screen| screen.decides(action)) && !self.was_read() {
            return;
        }
        let done = match self.screens.open() {
            Some(&OpenScreen::Answer(id)) => {
                self.screens.request_action(id, action, &self.model, &mut self.out)
            }
            Some(OpenScreen::Call(_)) => self.call_action(action),
            Some(OpenScreen::Chat | OpenScreen::Own(_)) | None => false,
        };
        if !done {
            self.on_screen(|screen, ui, out| screen.act(action, ui, out));
        }
    }

    /// Performs what the open call asks of the dashboard; returns whether the action is of this kind.
    fn call_action(&mut self, action: Action) -> bool {
        if action == Action::Why {
            self.explain();
        } else if action == Action::History {
            self.screens.choose_history(&self.model, &mut self.out);
        } else if action == Action::AddHistory {
            self.screens.add_history(&mut self.out);
        } else if action == Action::Saved {
            let choices = self.screens.calls.choices().collect();
            self.choose(ink!("saved calls"), choices);
        } else {
            return false;
        }
        true
    }

    fn perform_in_pane(&mut self, action: Action) -> bool {
        let pane = self.panes.get_mut(self.pane);
        if pane.is_typing() {
            if action == Action::Open {
                pane.end_typing(KeepFilter::Yes);
                return true;
            }
            if action == Action::Back {
                pane.end_typing(KeepFilter::No);
                self.remember_filter();
                return true;
            }
            if !matches!(action, Action::Up | Action::Down) {
                return false;
            }
        } else if self.focus == AppFocus::Servers && self.act_in_server_list(action) {
            return true;
        }
        let done = self.on_pane(|pane, ui, out| pane.act(action, ui, out)).unwrap_or(false);
        if done {
            self.remember_filter();
        }
        done
    }

    fn act_in_server_list(&mut self, action: Action) -> bool {
        match action {
            Action::Open | Action::Right => self.focus = AppFocus::Pane,
            Action::Mark => self.mark_server(),
            action => {
                let Some(delta) = action.steps(isize::MAX / 2) else { return false };
                self.model.scope = self.servers.step(delta);
            }
        }
        true
    }

    /// Performs an action that neither the open screen nor the pane has performed.
    pub(super) fn perform_anywhere(&mut self, action: Action) {
        match action.place() {
            ActionPlace::Here | ActionPlace::Browse(_) => {}
            ActionPlace::Show => {
                if let Some(pane) = PaneId::ALL.into_iter().find(|pane| pane.action() == action) {
                    self.show(pane);
                }
            }
            ActionPlace::Server(command) => self.command_server(command),
            ActionPlace::Edit(edit) => self.edit(edit),
            ActionPlace::Play(play) => self.out.effect(Effect::Play(playback::play(play))),
            ActionPlace::App(action) => self.perform_in_app(action),
            ActionPlace::User => self.run_user_command(action),
        }
    }

    fn perform_in_app(&mut self, action: AppAction) {
        match action {
            AppAction::NextView => self.show(self.pane.next_view()),
            AppAction::NextPane => self.turn_pane(1),
            AppAction::PreviousPane => self.turn_pane(-1),
            AppAction::FocusNext | AppAction::FocusPrevious => self.turn_focus(),
            AppAction::NextServer => self.turn_scope(1),
            AppAction::PreviousServer => self.turn_scope(-1),
            AppAction::AllServers => {
                self.model.scope = None;
                self.model.marked.clear();
            }
            AppAction::ToggleServerList => {
                self.setup.prefs.server_list = Some(!self.has_server_list());
                self.remember();
            }
            AppAction::Back => self.focus = AppFocus::Pane,
            AppAction::Answer => match self.todo_in_view().or_else(|| self.first_todo()) {
                Some(todo) => self.open_todo(&todo),
                None => self.toast(ink!("Nothing waits for you"), Role::Ok),
            },
            AppAction::History => self.screens.choose_history(&self.model, &mut self.out),
            AppAction::AskReload => self.toggle_reload(),
            AppAction::Inputs => self.choose(ink!("inputs"), self.model.input_choices()),
            AppAction::Rules => {
                let choices = answers::kinds(self.target_server().as_ref(), &self.model);
                self.choose(ink!("requests of"), choices);
            }
            AppAction::Roots => match self.target_server() {
                Some(server) => self.open_roots(server),
                None => self.choose(ink!("roots of"), answers::roots(&self.model)),
            },
            AppAction::Policy => self.open_policy(),
            AppAction::Mark => self.mark_server(),
            AppAction::Request => {
                if let Some(server) = self.target_server() {
                    self.screens.send_request(&server, None, &self.model, &mut self.out);
                }
            }
            AppAction::Watched => self.open_watched(),
            AppAction::CopyEntry => {
                if let Some(server) = self.target_server() {
                    self.copy_entry(&server);
                }
            }
            AppAction::BlackBox => {
                if let Some(server) = self.target_server() {
                    self.open(reader(server));
                }
            }
            AppAction::ServerInfo => {
                if let Some(server) = self.target_server() {
                    self.open(info_reader(server));
                }
            }
            AppAction::EditKeys => self.open_next_keys(Action::EditKeys),
            AppAction::ServerKeys => self.open_next_keys(Action::ServerKeys),
            AppAction::ServerLogLevel => {
                crate::pane::logs::choose_level(&self.model, &mut self.out);
            }
            AppAction::Why => self.explain(),
            AppAction::Tokens => self.open(tokens::reader()),
            AppAction::CompareServers => {
                if let Some(server) = self.target_server() {
                    let choices = compared::choices(&self.model, &server);
                    self.choose(ink!("compare {} with", Model::quoted(&server)), choices);
                }
            }
            AppAction::SaveFilter => self.ask_filter_name(),
            AppAction::Filters => self.open_filters(),
            AppAction::Palette => {
                let choices = keys::palette(self);
                self.choose(ink!("commands"), choices);
            }
            AppAction::Help => self.open(keys::help(self)),
            AppAction::Theme => {
                let names = self.look.themes();
                let at = names.iter().position(|name| name == self.look.theme.name());
                self.use_theme(names[(at.unwrap_or(0) + 1) % names.len()].clone());
            }
            AppAction::Bell => self.turn_bell(),
            AppAction::AskEnd => self.turn_ask_end(),
            AppAction::Tour => self.guide.toggle(),
            AppAction::Record => self.effects.push(Effect::ToggleRecording),
            AppAction::Chat => self.push_screen(OpenScreen::Chat),
            AppAction::Redraw => self.effects.push(Effect::Redraw),
            AppAction::Suspend => self.effects.push(Effect::Suspend),
            AppAction::Quit => self.quit(),
            AppAction::QuitNow => self.quit_at_once(),
        }
    }

    /// Shows the keys that can follow one that waits for another.
    fn open_next_keys(&mut self, opens: Action) {
        if let Some(keys) = keys::next_keys(self, opens) {
            self.open(keys);
        }
    }

    fn turn_bell(&mut self) {
        let prefs = &mut self.setup.prefs;
        prefs.mute_bell = !prefs.mute_bell;
        let now = ink!("bell: {}", if prefs.mute_bell { "muted" } else { "on" });
        self.toast(now, Role::Ok);
        self.remember();
    }

    fn turn_ask_end(&mut self) {
        let prefs = &mut self.setup.prefs;
        prefs.end_unasked = !prefs.end_unasked;
        let how = if prefs.end_unasked { "without asking" } else { "after asking" };
        self.toast(ink!("quit, restart and stop end open work {}", how), Role::Ok);
        self.remember();
    }

    /// Runs a command from the user's keymap file, after confirmation if the file requires it.
    fn run_user_command(&mut self, action: Action) {
        let Some(run) = keys::user_command(self, action) else { return };
        let (name, line) = (Ink::line(&run.command.name), Ink::line(&run.command.run));
        if !run.command.confirm {
            return self.effects.push(Effect::Run(Box::new(run)));
        }
        let values = run.values.iter().flatten().map(|value| Ink::line(value));
        let lines = std::iter::once(line).chain(values).collect();
        self.confirm(ink!("run {}?", name), lines, vec![Effect::Run(Box::new(run)).into()]);
    }

    /// Toggles the mark of a server.
    fn mark_server(&mut self) {
        let Some(name) = self.target_server() else { return };
        if !self.model.marked.remove(&name) {
            self.model.marked.insert(name);
        }
    }

    /// Runs a command on the selected server. With all servers in scope, start, stop and restart
    /// apply to the marked ones.
    fn command_server(&mut self, action: ServerAction) {
        let all = !self.model.marked.is_empty() && self.model.scope.is_none();
        let servers: Vec<ServerName> =
            if all && matches!(action, ServerAction::Restart | ServerAction::StartStop) {
                self.model.marked.iter().cloned().collect()
            } else {
                self.target_server().into_iter().collect()
            };
        if !servers.is_empty() {
            self.command(action, &servers);
        }
    }

    fn command(&mut self, action: ServerAction, servers: &[ServerName]) {
        let name = match servers {
            [name] => Model::quoted(name),
            _ => ink!("{}", count(servers.len(), "marked server")),
        };
        if let ([name], ServerAction::Restart | ServerAction::StartStop) = (servers, action)
            && let Some(todo) = self.model.hold(name)
        {
            return self.open_todo(&todo);
        }
        let is_up =
            |name: &ServerName| self.model.server(name).is_some_and(|server| server.state.is_up());
        let (command, word, asks) = match action {
            ServerAction::Restart => (ServerCommand::Restart, "restarting", Some("restart")),
            ServerAction::Refresh => (ServerCommand::Refresh, "fetching the lists of", None),
            ServerAction::Ping => (ServerCommand::Ping, "pinging", None),
            ServerAction::SignIn => (ServerCommand::SignIn, "asks you to sign in:", None),
            ServerAction::RefreshToken => {
                (ServerCommand::RefreshToken, "fetching a token for", None)
            }
            ServerAction::SignOut => {
                (ServerCommand::SignOut, "signing out of", Some("sign out of"))
            }
            ServerAction::ResetBreaker => {
                let tool =
                    (self.pane == PaneId::Tools).then(|| self.panes.tools.wire_name()).flatten();
                (ServerCommand::ResetBreaker(tool), "closing the breaker of", None)
            }
            ServerAction::StartStop if servers.iter().any(is_up) => {
                (ServerCommand::Stop, "stopping", Some("stop"))
            }
            ServerAction::StartStop => (ServerCommand::Start, "starting", None),
        };
        let each =
            servers.iter().map(|name| Effect::Order(Order::Server(name.clone(), command.clone())));
        let each = each.collect();
        let done = if let Some(what) = asks {
            self.end(ink!("{} {}?", what, &name), servers, each)
        } else {
            self.effects.extend(each);
            true
        };
        if done {
            self.toast(ink!("{} {}", word, name), Role::Ok);
        }
    }

    pub(super) fn show(&mut self, pane: PaneId) {
        self.screens.leave();
        self.pane = pane;
        if pane == PaneId::Logs {
            self.model.unseen_errors.clear();
        }
        if pane == PaneId::Tests {
            self.ask_bench(SuiteCommand::Read);
        }
        self.focus = AppFocus::Pane;
        self.setup.prefs.pane = Some(pane.name().to_lowercase());
        self.mark(Redraw::Now);
    }

    /// Has the bench do something with the servers of the configuration in use. Commands that await
    /// approval are not among them.
    pub(super) fn ask_bench(&mut self, command: SuiteCommand) {
        let is_asked = command != SuiteCommand::Read;
        let Some(config) = &self.model.config else {
            if is_asked {
                self.toast(ink!("suites run where the configuration is"), Role::Warning);
            }
            return;
        };
        // From now on: a second run would take the place of the one that can be stopped.
        self.model.suites.running |= matches!(command, SuiteCommand::Run(_));
        let mut config = McpConfig::clone(config);
        let situation = &self.model.situation;
        config.servers.retain(|name, _| situation.awaiting(name).is_none());
        let config = Arc::new(config);
        self.effects.push(Effect::Suites(Box::new(SuiteOrder { config, command })));
    }

    pub(super) fn turn_pane(&mut self, delta: isize) {
        let count = TABS.len() as isize;
        let next = (self.pane.tab() as isize + delta).rem_euclid(count);
        self.show(TABS[next.unsigned_abs()].1[0]);
    }

    fn has_server_list(&self) -> bool {
        self.layout().is_some_and(|layout| layout.servers.is_some())
    }

    /// Goes from the form of a call or an answer back to the list beside it; what was typed is kept.
    pub(super) fn leave_bench(&mut self) {
        if self.screens.is_answer() {
            self.screens.pop();
        } else if self.screens.is_call() {
            let (screens, out) = (&mut self.screens, &mut self.out);
            if let Some(screen) = screens.call_screen() {
                screen.draft(out);
            }
            self.screens.pop();
        }
        self.focus = AppFocus::Pane;
    }

    fn turn_focus(&mut self) {
        if let Some(call) = self.call_beside().filter(|_| self.focus == AppFocus::Pane) {
            return self.push_screen(OpenScreen::Call(call));
        }
        if self.focus == AppFocus::Servers {
            self.focus = AppFocus::Pane;
        } else if self.on_pane(|pane, ui, _| pane.focus_next(ui)) == Some(false)
            && self.has_server_list()
        {
            self.focus = AppFocus::Servers;
        }
    }

    fn turn_scope(&mut self, delta: isize) {
        // Index 0 stands for all servers.
        let servers = &self.model.view.servers;
        let at = self.model.scope.as_ref().and_then(|scope| servers.get_index_of(scope));
        let at = at.map_or(0, |at| at as isize + 1) + delta;
        let next = at.rem_euclid(servers.len() as isize + 1).unsigned_abs();
        let next = next.checked_sub(1).and_then(|next| servers.get_index(next));
        self.model.scope = next.map(|(name, _)| name.clone());
    }

    pub(super) fn pick(&mut self, pick: Pick) {
        let (screens, model, out) = (&mut self.screens, &self.model, &mut self.out);
        match pick {
            Pick::Action(action) => {
                if !keys::is_of_screen(self, action)
                    && let Some(pane) = keys::elsewhere(self, action)
                {
                    self.show(pane);
                }
                self.perform(action);
            }
            Pick::Filter(pick) => self.filter_pick(pick),
            Pick::Server(server) => self.model.scope = Some(server),
            Pick::Diagnostics(server) => self.open(reader(server)),
            Pick::Why(server) => self.open(WhyDialog::new(WhyAbout::Server(server))),
            Pick::CopyEntry(server) => self.copy_entry(&server),
            Pick::OnServer(action, server) => self.command(action, &[server]),
            Pick::SavedCall(name) => screens.open_saved(&name, false, model, out),
            Pick::MakeCall(name) => screens.open_saved(&name, true, model, out),
            Pick::Offer(server, list, wire) => {
                screens.open_entry(&server, list, &wire, model, out);
            }
            Pick::Past(target, id) => screens.open_past(&target, id, model, out),
            Pick::Resource(server, uri) => self.open_link(&server, &uri),
            Pick::Request(server, request) => {
                screens.send_request(&server, Some(*request), model, out);
            }
            Pick::Among(title, choices) => self.choose(title, choices),
            Pick::ShareMessages(message) => {
                let choices = screens.share_choices(*message, model);
                self.choose(ink!("copy as"), choices);
            }
            Pick::CopyText(text) => out.copy(text),
            Pick::Call(pick) => {
                screens.calls.remember_share(&pick);
                if let Some(screen) = screens.call_screen() {
                    screen.picked(pick, out);
                }
            }
            Pick::Recording(file) => {
                self.effects.push(Effect::Baseline(Baseline::Recording(file.into())));
            }
            Pick::Compared(one, Some(other)) => self.open(compared::reader(one, other)),
            Pick::Compared(server, None) => {
                self.model.scope = Some(server);
                self.open_policy_against(Baseline::Lock);
            }
            Pick::Theme(name) => self.use_theme(name),
            Pick::LogLevel(level) => {
                self.toast(ink!("mcpdeck logs {} and above", level_word(level)), Role::Ok);
                self.effects.push(Effect::HostLogLevel(level));
            }
            Pick::Template(number) => self.open_template(number),
            Pick::Input(id) => self.open_input(&id),
            Pick::Approval(ApprovalPick::Roots(server)) => self.open_roots(server),
            Pick::Approval(ApprovalPick::SendNext(_) | ApprovalPick::SendOthers)
                if !self.was_read() => {}
            Pick::Approval(pick) => self.screens.approval_pick(pick, &self.model, &mut self.out),
            Pick::Chat(ChatCommand::Rename(None)) => {
                self.open(NamePrompt::new(Named::Conversation, "", Vec::new()));
            }
            Pick::Chat(ChatCommand::Find(None)) => {
                self.open(NamePrompt::new(Named::Conversations, "", Vec::new()));
            }
            Pick::Chat(command) => self.effects.push(Effect::Chat(command)),
            Pick::Order(order) => self.effects.push(Effect::Order(order)),
        }
    }

    /// Opens the policy. A recording has no approvals to compare with, so the lock file is used.
    pub(super) fn open_policy(&mut self) {
        if self.model.playback.is_some() {
            return self.open_policy_against(Baseline::Lock);
        }
        self.toast = None;
        self.open(PolicyScreen::default());
    }

    /// Opens the policy with what differs from these definitions.
    fn open_policy_against(&mut self, baseline: Baseline) {
        self.effects.push(Effect::Baseline(baseline.clone()));
        self.toast = None;
        self.open(PolicyScreen::against(baseline));
    }

    /// Toggles whether changed files are shown before they are applied.
    fn toggle_reload(&mut self) {
        self.effects.push(Effect::Config(ConfigCommand::AskFirst));
        let how = if self.model.situation.asks {
            "applied at once"
        } else {
            "shown before they are applied"
        };
        self.toast(ink!("changed files are {}", how), Role::Ok);
    }

    /// Says why the shown call failed, or what is wrong with the selected server.
    fn explain(&mut self) {
        let shown = self.visible_call();
        let screens = &self.screens.calls.screens;
        let call = shown.and_then(|shown| screens.get(shown)).and_then(CallScreen::why);
        let server = || self.screens.open_server().or_else(|| self.target_server());
        let call = call.map(|call| WhyAbout::Call(Box::new(call)));
        let row = || self.red_row().map(|row| WhyAbout::Row(Box::new(row)));
        let about = call.or_else(row).or_else(|| server().map(WhyAbout::Server));
        match about {
            Some(about) => self.open(WhyDialog::new(about)),
            None => self.toast(ink!("nothing is wrong here"), Role::Ok),
        }
    }

    /// What is wrong about the selected row of the pane.
    pub(super) fn red_row(&self) -> Option<RedRow> {
        let is_pane = self.focus == AppFocus::Pane && self.screens.top().is_none();
        is_pane.then(|| self.panes.get(self.pane).red_row(&self.model)).flatten()
    }

    /// Opens a live list of subscriptions and tasks.
    fn open_watched(&mut self) {
        let mut palette =
            Palette::new(ink!("subscriptions and tasks"), self.model.watched_choices());
        palette.is_watched = true;
        self.open(palette);
    }

    fn use_theme(&mut self, name: String) {
        self.setup.theme = None;
        let said = ink!("theme: {}", Ink::line(&name));
        self.setup.prefs.theme = Some(name);
        self.adopt_user_files();
        self.toast(said, Role::Ok);
        self.remember();
    }

    pub(super) fn remember_filter(&mut self) {
        let key = self.pane.name().to_lowercase();
        match self.panes.get(self.pane).filter().map_or("", |filter| filter.text()) {
            "" => self.setup.prefs.filters.remove(&key),
            text => self.setup.prefs.filters.insert(key, text.to_owned()),
        };
    }

    pub(super) fn remember(&mut self) {
        self.setup.prefs.scope = self.model.scope.as_ref().map(|name| name.as_str().to_owned());
        self.panes.logs.write_prefs(&mut self.setup.prefs);
        self.effects.push(Effect::SavePrefs(Box::new(self.setup.prefs.clone())));
    }

    // Confirmation shared by all actions that end work: quit, restart, stop, disable, sign out.
    // Asked when calls, requests or drafts are open, unless the user turned it off.

    /// Carries out `yes`, which ends the work of these servers (of all if empty); asks first if
    /// there is open work. Returns whether it was carried out right away.
    fn end(&mut self, title: Ink, servers: &[ServerName], yes: Vec<Effect>) -> bool {
        let lines = self.open_work(servers);
        let done = lines.is_empty() || self.setup.prefs.end_unasked;
        if done {
            self.effects.extend(yes);
        } else {
            self.confirm(title, lines, yes.into_iter().map(Intent::from).collect());
        }
        done
    }

    /// What would be lost: running calls, waiting requests, unsent answers, other unsaved content.
    fn open_work(&self, servers: &[ServerName]) -> Vec<Ink> {
        if self.model.playback.is_some() {
            return Vec::new();
        }
        let of = |name: &ServerName| servers.is_empty() || servers.contains(name);
        // Leaving a service ends only the calls made here.
        let leaves = self.setup.attached && servers.is_empty();
        let own = |call: &CallView| self.screens.calls.ids.values().any(|id| *id == call.id);
        // Suggestions for a field and pings are asked for by the way: nobody loses them.
        let passing = |call: &CallView| matches!(&*call.method, "completion/complete" | "ping");
        let ends = |call: &&CallView| of(&call.server) && (!leaves || own(call)) && !passing(call);
        let calls = self.model.calls.iter().filter(ends).count();
        let pending = self.model.view.pending.values().filter(|r| of(&r.server) && !leaves);
        let pending = pending.count();
        let drafts = self.screens.answers.drafts(of);
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
        let unsaved = self.screens.unsaved().filter(|_| servers.is_empty());
        lines.extend(unsaved.map(|what| ink!("{}", what)));
        lines
    }

    /// Stops the servers and quits; asks first if there is open work.
    pub(super) fn quit(&mut self) {
        if matches!(self.model.engine, EngineState::Stopping(_)) {
            return self.leave();
        }
        // Drafts are saved whatever the user answers.
        self.keep_drafts();
        let title = if self.setup.attached {
            ink!("leave the service?")
        } else {
            ink!("stop the servers and quit?")
        };
        self.end(title, &[], vec![Effect::Quit]);
    }

    /// Quits from anywhere; a second press in a row confirms, a third does not wait for servers.
    pub(super) fn quit_at_once(&mut self) {
        if matches!(self.model.engine, EngineState::Stopping(_)) {
            self.effects.push(Effect::QuitNow);
        } else {
            self.quit();
        }
    }

    pub(super) fn leave(&mut self) {
        self.keep_drafts();
        self.effects.push(Effect::Quit);
    }

    /// Saves half-filled forms and preferences for the next run.
    fn keep_drafts(&mut self) {
        self.screens.calls.keep_drafts(&mut self.out);
        self.absorb();
        self.remember();
    }

    // Adding, editing, copying, toggling and removing servers. The engine thread writes the files;
    // this holds the form and asks before anything is lost.

    /// Performs an action on the configuration files.
    fn edit(&mut self, action: EditAction) {
        let change = |change| Effect::Config(ConfigCommand::Change(change));
        let target = self.target_server();
        let effect = match action {
            EditAction::AddServer => return self.open_add_server(),
            EditAction::Import => Some(Effect::FindServers),
            EditAction::EditFile => {
                let place = self.model.place_of(target.as_ref());
                place.map(|(file, line)| Effect::EditFile(file, line))
            }
            EditAction::UndoEdit => Some(Effect::Config(ConfigCommand::Undo)),
            EditAction::EditServer => {
                target.map(|name| Effect::Config(ConfigCommand::OpenEntry(name)))
            }
            EditAction::DuplicateServer => target.map(|name| change(FileChange::Duplicate(name))),
            EditAction::ToggleServer => target.and_then(|name| self.toggle_server(name)),
            EditAction::RemoveServer => {
                if let Some(name) = target {
                    self.ask_to_remove(name);
                }
                None
            }
        };
        self.out.intents.extend(effect.map(Intent::from));
    }

    /// Switches a server on; asks before it switches one off whose work would end.
    fn toggle_server(&mut self, name: ServerName) -> Option<Effect> {
        let change = |change| Effect::Config(ConfigCommand::Change(change));
        if self.model.entry(&name).is_some_and(|entry| entry.disabled) {
            return Some(change(FileChange::Enable(name)));
        }
        let title = ink!("switch off {}?", Model::quoted(&name));
        let yes = vec![change(FileChange::Disable(name.clone()))];
        self.end(title, &[name], yes);
        None
    }

    /// Copies a complete configuration with this entry only, secrets masked.
    fn copy_entry(&mut self, name: &ServerName) {
        let entry = json!({ "servers": server_entries(self.model.entry(name).into_iter()) });
        self.out.copy(serde_json::to_string_pretty(&entry).unwrap_or_default());
    }

    fn ask_to_remove(&mut self, name: ServerName) {
        let file = self.model.place_of(Some(&name)).map(|(file, _)| file).unwrap_or_default();
        let file = Ink::line(&file.display().to_string());
        let title = ink!("remove {}?", Model::quoted(&name));
        let lines = vec![
            ink!("Its entry is taken out of {}", file),
            self.spelled("and the server is stopped. {undo-edit} brings it back."),
        ];
        let yes = vec![Effect::Config(ConfigCommand::Change(FileChange::Remove(name))).into()];
        self.confirm(title, lines, yes);
    }

    fn open_add_server(&mut self) {
        let file = self.own_file().unwrap_or_default();
        let taken = self.model.view.servers.keys().cloned();
        let left_out = self.model.left_out().into_iter().map(|(name, _)| name.clone());
        let taken = taken.chain(left_out).collect();
        self.open(AddServerDialog::new(file, taken));
    }

    /// Opens the form of a new server.
    fn open_template(&mut self, number: usize) {
        let Some((_, template)) = server_templates().into_iter().nth(number) else { return };
        let file = self.own_file().unwrap_or_default();
        self.open(FormScreen::entry(&template, &file, None));
    }

    /// The file that servers are added to.
    pub(super) fn own_file(&self) -> Option<PathBuf> {
        let read = self.model.files.last().map(|file| file.path.clone());
        read.or_else(|| self.setup.own_file.clone())
    }

    /// Offers servers of other programs that are not in the configuration.
    pub(super) fn offer_import(&mut self, mut found: FoundServers) {
        let Some(file) = self.own_file() else { return };
        found.servers.retain(|one| self.model.entry(&one.name).is_none());
        if found.is_empty() {
            let text = "no other program on this machine has a server that is not here";
            return self.toast(ink!("{}", text), Role::Ok);
        }
        let shown = match self.setup.home.as_ref().and_then(|home| file.strip_prefix(home).ok()) {
            Some(rest) => format!("~/{}", rest.display()),
            None => file.display().to_string(),
        };
        self.open(ImportDialog::new(found, &shown));
    }

    // Saved traffic filters: naming, listing, applying, removing.

    fn ask_filter_name(&mut self) {
        let filter = self.panes.traffic.filter();
        let text = filter.map_or("", |filter| filter.text()).trim().to_owned();
        let saved = self.setup.prefs.saved_filters.iter();
        let same = saved.clone().rev().find(|saved| saved.text == text);
        let name = same.map_or_else(String::new, |saved| saved.name.clone());
        let taken = saved.map(|saved| saved.name.clone()).collect();
        self.open(NamePrompt::new(Named::Filter(text), &name, taken));
    }

    /// Lists the saved filters.
    pub(super) fn open_filters(&mut self) {
        let choices = self.setup.prefs.saved_filters.iter().rev().map(|saved| {
            Choice::new(
                Ink::line(&saved.name),
                Ink::line(&saved.text),
                Pick::Filter(FilterPick::Use(saved.name.clone())),
            )
        });
        let mut palette = Palette::new(ink!("saved filters"), choices.collect());
        palette.scopes = &[KeyScope::SavedFilters, KeyScope::Text];
        self.open(palette);
    }

    /// Applies, saves or removes a saved filter.
    pub(super) fn filter_pick(&mut self, pick: FilterPick) {
        let saved = &mut self.setup.prefs.saved_filters;
        match pick {
            FilterPick::Use(name) => {
                let Some(found) = saved.iter().find(|saved| saved.name == name) else { return };
                let text = found.text.clone();
                self.show(PaneId::Traffic);
                if let Some(filter) = self.panes.traffic.filter_mut() {
                    filter.set(&text);
                }
                return self.remember_filter();
            }
            FilterPick::Save { name, text } => {
                let before = saved.len();
                saved.retain(|other| other.name != name);
                let word = if saved.len() < before { "replaced" } else { "saved" };
                let mut said = ink!("{} {}", word, Ink::line(&name));
                saved.push(SavedFilter { name, text });
                said.push(self.spelled("   {filters} lists the saved filters"));
                self.toast(said, Role::Ok);
            }
            FilterPick::Remove(name) => {
                let Some(at) = saved.iter().position(|saved| saved.name == name) else { return };
                // The toast shows the text so that the filter can be typed again.
                let text = Ink::line(&saved.remove(at).text);
                self.toast(ink!("removed {}: {}", Ink::line(&name), text), Role::Ok);
                self.open_filters();
            }
        }
        self.remember();
    }

    // Screens opened over the panes.

    /// Follows a resource link in a result: shows the resources of its server and reads this one.
    /// Only the server is asked; nothing is fetched from elsewhere.
    pub(super) fn open_link(&mut self, server: &ServerName, uri: &str) {
        self.show(PaneId::Resources);
        self.panes.resources.go_to(server, uri);
        self.screens.open_entry(server, ListKind::Resources, uri, &self.model, &mut self.out);
    }

    /// The request that the shown call or conversation waits for, if one does.
    fn todo_in_view(&self) -> Option<Todo> {
        let view = &self.model.view;
        let id = match self.screens.open() {
            Some(OpenScreen::Chat) => self.screens.chat.as_ref()?.own_request(view)?,
            Some(OpenScreen::Call(_) | OpenScreen::Answer(_) | OpenScreen::Own(_)) | None => {
                self.screens.calls.waits_for(self.visible_call()?, view)?
            }
        };
        (!self.screens.answers.is_sent(id)).then_some(Todo::Request(id))
    }

    /// Opens an item of the inbox.
    pub(super) fn open_todo(&mut self, todo: &Todo) {
        match todo {
            Todo::Request(id) => self.screens.open_answer(*id, &self.model, &mut self.out),
            Todo::Approval(server) => {
                let consent = Consent::new(&self.model.situation, Some(server), self.look.glyphs);
                self.open(consent);
            }
            Todo::Input(id) => self.open_input(id),
            Todo::Plan => self.open_plan(),
            Todo::Held(_) => self.open_policy(),
        }
    }

    /// Opens the dialog for one input.
    fn open_input(&mut self, id: &str) {
        let keyring = self.model.situation.keyring;
        let Some(view) = self.model.input(id).cloned() else { return };
        self.open(InputDialog::new(view, keyring));
    }

    fn open_roots(&mut self, server: ServerName) {
        let Some(view) = self.model.server(&server) else { return };
        let editor = FormScreen::roots(server, &view.roots, self.setup.home.clone());
        self.open(editor);
    }

    /// Shows what a changed file would do, and asks whether to apply it.
    fn open_plan(&mut self) {
        let Some(plan) = self.model.situation.plan.clone() else { return };
        let lines = plan_lines(&plan);
        self.open(Confirm::plan(plan, lines));
    }
}

fn plan_lines(plan: &ConfigChange) -> Vec<Ink> {
    let touched = touched(plan, PLANNED).into_iter();
    let mut lines: Vec<Ink> = touched.map(|(line, _, why)| ink!("{}{}", line, why)).collect();
    let more = lines.len().saturating_sub(MAX_NAMED_SERVERS);
    lines.truncate(MAX_NAMED_SERVERS);
    if more > 0 {
        lines.push(ink!("  and {} more: the Config pane has all of them", more));
    }
    if lines.is_empty() {
        lines.push(ink!("no server changes"));
    }
    let kept = plan.kept.len() - plan.followed.len();
    if kept > 0 {
        lines.push(ink!("  {} keep running as they are", kept));
    }
    lines
}
