//! Actions: what each does. The topmost overlay is asked first, then the pane, then what holds
//! everywhere.

use super::screen::Open;
use super::{App, Focus, Redraw};
use crate::base::ServerName;
use crate::host::ServerState;
use crate::tui::action::Action;
use crate::tui::effect::{Baseline, Effect, ServerCommand};
use crate::tui::ink::{Ink, count, ink};
use crate::tui::model::{EngineState, Model};
use crate::tui::overlay::{Overlay, Palette, Pick, Subject, Verdict};
use crate::tui::pane::logs::level_word;
use crate::tui::pane::{Availability, Out, PaneId, Ui};
use crate::tui::policy::PolicyScreen;
use crate::tui::theme::{Role, SHIPPED};
use crate::tui::widget::Keep;

impl App {
    pub(super) fn perform(&mut self, action: Action, effects: &mut Vec<Effect>) {
        if self.stale && self.overlays.is_empty() {
            // Keys that come faster than frames act on what the next frame would show.
            self.sync_pane();
        }
        if let Availability::Disabled(reason) = self.availability(action) {
            let mut text = ink!("{}: ", action.label());
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
            self.absorb(out, effects);
            if verdict != Verdict::Pass {
                return self.settle(verdict, effects);
            }
        } else if self.act_on_screen(action, effects) || self.perform_in_pane(action, effects) {
            return;
        }
        self.perform_anywhere(action, effects);
    }

    fn sync_pane(&mut self) {
        let Some(layout) = self.layout() else { return };
        let ui =
            Ui { model: &self.model, area: layout.main, glyphs: self.glyphs, keymap: &self.keymap };
        self.panes.get_mut(self.pane).sync(ui);
    }

    fn perform_in_pane(&mut self, action: Action, effects: &mut Vec<Effect>) -> bool {
        let Some(layout) = self.layout() else { return false };
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
        let ui =
            Ui { model: &self.model, area: layout.main, glyphs: self.glyphs, keymap: &self.keymap };
        let done = self.panes.get_mut(self.pane).act(action, ui, &mut out);
        self.absorb(out, effects);
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

    fn perform_anywhere(&mut self, action: Action, effects: &mut Vec<Effect>) {
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
                self.remember(effects);
            }
            Action::Back => self.back(),
            Action::Answer => self.open_first(effects),
            Action::History => self.choose_history(),
            Action::AskReload => self.ask_first(effects),
            Action::Inputs => self.open_inputs(),
            Action::Rules => self.choose_rules(),
            Action::Roots => self.choose_roots(),
            Action::Policy => self.open_policy(effects),
            Action::AddServer
            | Action::EditServer
            | Action::EditFile
            | Action::DuplicateServer
            | Action::ToggleServer
            | Action::RemoveServer
            | Action::CopyEntry
            | Action::UndoEdit => self.edit_action(action, effects),
            Action::Mark => self.mark_server(),
            Action::Restart
            | Action::StartStop
            | Action::Refresh
            | Action::SignIn
            | Action::RefreshToken
            | Action::SignOut
            | Action::ResetBreaker => {
                self.command_server(action, effects);
            }
            Action::Rerun => self.switch_rerun(),
            Action::BlackBox | Action::ServerInfo => {
                if let Some(server) = self.target_server() {
                    self.open_reader_of(match action {
                        Action::ServerInfo => Subject::Info(server),
                        _ => Subject::BlackBox(server),
                    });
                }
            }
            Action::SaveFilter | Action::Filters | Action::UndoFilter => {
                self.filter_action(action, effects);
            }
            Action::Palette => self.open_palette(),
            Action::Help => self.open_help(),
            Action::Theme => self.next_theme(effects),
            Action::Bell => {
                self.setup.prefs.mute_bell = !self.setup.prefs.mute_bell;
                let word = if self.setup.prefs.mute_bell { "muted" } else { "on" };
                self.toast(ink!("bell: {}", word), Role::Ok);
                self.remember(effects);
            }
            Action::AskEnd => self.switch_ask_end(effects),
            Action::Tour => self.open_tour(0),
            Action::Record => effects.push(Effect::ToggleRecording),
            Action::Pause
            | Action::Faster
            | Action::Slower
            | Action::Later
            | Action::Earlier
            | Action::NextError
            | Action::PreviousError => super::playback::act(action, effects),
            Action::Chat => self.push_screen(Open::Chat),
            Action::Redraw => effects.push(Effect::Redraw),
            Action::Suspend => effects.push(Effect::Suspend),
            Action::Quit => self.quit(effects),
            Action::QuitNow => self.quit_now(effects),
            _ => {}
        }
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
        let chosen = match (self.pane, self.focus) {
            (PaneId::Servers, Focus::Pane) => self.panes.servers.selected(&self.model),
            (PaneId::Tools, Focus::Pane) => self.panes.tools.server(),
            (PaneId::Resources, Focus::Pane) => self.panes.resources.server(),
            (PaneId::Prompts, Focus::Pane) => self.panes.prompts.server(),
            (PaneId::Inbox, Focus::Pane) => self.panes.inbox.server(&self.model),
            _ => None,
        };
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
    fn command_marked(&mut self, action: Action, effects: &mut Vec<Effect>) {
        let servers: Vec<ServerName> = self.model.marked.iter().cloned().collect();
        let is_up = |name: &ServerName| {
            use ServerState as S;
            let state = self.model.server(name).map(|server| server.state);
            matches!(state, Some(S::Ready | S::Starting | S::Waiting))
        };
        let (command, word) = match action {
            Action::Restart => (ServerCommand::Restart, "restart"),
            _ if servers.iter().any(is_up) => (ServerCommand::Stop, "stop"),
            _ => (ServerCommand::Start, "start"),
        };
        let title = ink!("{} {}?", word, count(servers.len(), "marked server"));
        let each = servers.iter().map(|name| Effect::Server(name.clone(), command.clone()));
        self.end(title, &servers, each.collect(), effects);
    }

    fn command_server(&mut self, action: Action, effects: &mut Vec<Effect>) {
        let all = !self.model.marked.is_empty() && self.model.scope.is_none();
        if all && matches!(action, Action::Restart | Action::StartStop) {
            return self.command_marked(action, effects);
        }
        let Some(name) = self.target_server() else { return };
        let hold = self.hold(&name);
        if let Some(todo) = hold.filter(|_| matches!(action, Action::Restart | Action::StartStop)) {
            return self.open_todo(&todo, effects);
        }
        let state = self.model.server(&name).map(|server| server.state);
        let (command, word) = match (action, state) {
            (Action::Restart, _) => (ServerCommand::Restart, "restarting"),
            (Action::Refresh, _) => (ServerCommand::Refresh, "fetching the lists of"),
            (Action::SignIn, _) => (ServerCommand::SignIn, "asks you to sign in:"),
            (Action::RefreshToken, _) => (ServerCommand::RefreshToken, "fetching a token for"),
            (Action::SignOut, _) => (ServerCommand::SignOut, "signing out of"),
            (Action::ResetBreaker, _) => {
                let tool =
                    (self.pane == PaneId::Tools).then(|| self.panes.tools.wire_name()).flatten();
                (ServerCommand::ResetBreaker(tool), "closing the breaker of")
            }
            (_, Some(ServerState::Ready | ServerState::Starting | ServerState::Waiting)) => {
                (ServerCommand::Stop, "stopping")
            }
            _ => (ServerCommand::Start, "starting"),
        };
        let title = match command {
            ServerCommand::Restart => Self::end_title("restart", &name),
            ServerCommand::Stop => Self::end_title("stop", &name),
            ServerCommand::SignOut => Self::end_title("sign out of", &name),
            _ => {
                self.toast(ink!("{} {}", word, Model::name(&name)), Role::Ok);
                return effects.push(Effect::Server(name, command));
            }
        };
        let before = self.overlays.len();
        let yes = vec![Effect::Server(name.clone(), command)];
        self.end(title, std::slice::from_ref(&name), yes, effects);
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
        self.setup.prefs.pane = Some(pane.title().to_lowercase());
        self.mark(Redraw::Now);
    }

    pub(super) fn turn_pane(&mut self, delta: isize) {
        let count = PaneId::ALL.len() as isize;
        let next = (self.pane as isize + delta).rem_euclid(count);
        self.show(PaneId::ALL[next.unsigned_abs()]);
    }

    fn turn_focus(&mut self) {
        let Some(layout) = self.layout() else { return };
        if self.focus == Focus::Servers {
            self.focus = Focus::Pane;
            return;
        }
        let ui =
            Ui { model: &self.model, area: layout.main, glyphs: self.glyphs, keymap: &self.keymap };
        let inside = self.panes.get_mut(self.pane).focus_next(ui);
        if !inside && layout.servers.is_some() {
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

    pub(super) fn pick(&mut self, pick: Pick, effects: &mut Vec<Effect>) {
        if let Pick::TourPage(delta) = pick {
            return self.turn_tour(delta, effects);
        }
        self.close_overlay();
        match pick {
            Pick::Action(action) => {
                if !self.is_of_screen(action)
                    && let Some(pane) = self.elsewhere(action)
                {
                    self.show(pane);
                }
                self.perform(action, effects);
            }
            Pick::Filter(pick) => self.filter_pick(pick, effects),
            Pick::Server(server) => self.model.scope = Some(server),
            Pick::SavedCall(name) => _ = self.open_saved_call(&name),
            Pick::MakeCall(name) => self.make_saved_call(&name, effects),
            Pick::Offer(server, list, wire) => self.open_call(&server, list, &wire),
            Pick::Past(target, id) => self.open_past(&target, id),
            Pick::Call(pick) => {
                let wanted = self.call_screen().map(|screen| screen.picked(pick));
                for effect in wanted.into_iter().flatten() {
                    self.absorb_effect(effect, effects);
                }
            }
            Pick::Theme(name) => self.use_theme(&name, effects),
            Pick::LogLevel(Some(server), level) => {
                effects.push(Effect::Server(server, ServerCommand::LogLevel(level)));
            }
            Pick::LogLevel(None, level) => {
                self.toast(ink!("mcpdeck logs {} and above", level_word(level)), Role::Ok);
                effects.push(Effect::HostLogLevel(level));
            }
            Pick::Template(number) => self.open_template(number),
            Pick::Input(id) => self.open_input(&id),
            Pick::Approval(pick) => self.approval_pick(pick, effects),
            Pick::Chat(command) => effects.push(Effect::Chat(command)),
            Pick::Client(order, origin) => effects.push(Effect::Client(order, origin)),
            Pick::TourPage(_) => {}
        }
    }

    /// Opens the policy. Of a recording nothing was approved here: it is compared with the lock file.
    pub(super) fn open_policy(&mut self, effects: &mut Vec<Effect>) {
        let mut screen = PolicyScreen::default();
        if self.model.playback.is_some() {
            screen = PolicyScreen::against(Baseline::Lock);
            effects.push(Effect::Baseline(Baseline::Lock));
        }
        self.overlays.clear();
        self.toast = None;
        self.push_screen(Open::Own(Box::new(screen)));
    }

    fn open_palette(&mut self) {
        let choices = self.palette_choices();
        self.push_overlay(Overlay::Palette(Palette::new(ink!("commands"), choices)));
    }

    fn next_theme(&mut self, effects: &mut Vec<Effect>) {
        let names = self.theme_names();
        let at = names.iter().position(|name| name == self.theme.name()).unwrap_or(0);
        let next = names[(at + 1) % names.len()].clone();
        self.use_theme(&next, effects);
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

    fn use_theme(&mut self, name: &str, effects: &mut Vec<Effect>) {
        self.setup.theme = None;
        self.setup.prefs.theme = Some(name.to_owned());
        self.adopt_user_files();
        self.toast(ink!("theme: {}", Ink::line(name)), Role::Ok);
        self.remember(effects);
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
        let key = self.pane.title().to_lowercase();
        let text = self.panes.get(self.pane).filter().map_or("", |filter| filter.text());
        if text.is_empty() {
            self.setup.prefs.filters.remove(&key);
        } else if self.setup.prefs.filters.get(&key).is_none_or(|old| old != text) {
            self.setup.prefs.filters.insert(key, text.to_owned());
        }
    }

    pub(super) fn remember(&mut self, effects: &mut Vec<Effect>) {
        self.setup.prefs.scope = self.model.scope.as_ref().map(|name| name.as_str().to_owned());
        let prefs = &mut self.setup.prefs;
        self.panes.logs.write_prefs(prefs);
        self.panes.traffic.write_prefs(prefs);
        effects.push(Effect::SavePrefs(Box::new(prefs.clone())));
    }
}
