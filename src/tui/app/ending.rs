//! What ends something asks once, everywhere the same: leaving, restarting, stopping, switching off.
//! It asks when calls, requests or drafts are open, unless the person turned the question off.

use super::App;
use super::screen::Open;
use crate::base::ServerName;
use crate::tui::effect::Effect;
use crate::tui::ink::{Ink, count, ink};
use crate::tui::model::{EngineState, Model};
use crate::tui::overlay::{Confirm, Overlay};
use crate::tui::theme::Role;

impl App {
    /// Does what ends the work of servers (of all without any), after a yes when there is work.
    pub(super) fn end(
        &mut self,
        title: Ink,
        servers: &[ServerName],
        yes: Vec<Effect>,
        effects: &mut Vec<Effect>,
    ) {
        let lines = self.open_work(servers);
        if lines.is_empty() || self.setup.prefs.end_unasked {
            effects.extend(yes);
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
    pub(super) fn quit(&mut self, effects: &mut Vec<Effect>) {
        if matches!(self.model.engine, EngineState::Stopping(_)) {
            return self.leave(effects);
        }
        // Whatever is answered: what was typed is kept.
        self.keep_drafts(effects);
        self.remember(effects);
        self.end(ink!("stop the servers and quit?"), &[], vec![Effect::Quit], effects);
    }

    /// The same from everywhere; a second time in a row is a yes, a third one waits for nothing.
    pub(super) fn quit_now(&mut self, effects: &mut Vec<Effect>) {
        let asked = |overlay: &Overlay| matches!(overlay, Overlay::Confirm(confirm) if confirm.yes == [Effect::Quit]);
        if matches!(self.model.engine, EngineState::Stopping(_)) {
            effects.push(Effect::QuitNow);
        } else if self.overlays.last().is_some_and(asked) {
            self.leave(effects);
        } else {
            self.quit(effects);
        }
    }

    pub(super) fn leave(&mut self, effects: &mut Vec<Effect>) {
        self.keep_drafts(effects);
        self.remember(effects);
        effects.push(Effect::Quit);
    }

    /// Turns the question off, or on again.
    pub(super) fn switch_ask_end(&mut self, effects: &mut Vec<Effect>) {
        let unasked = !self.setup.prefs.end_unasked;
        self.setup.prefs.end_unasked = unasked;
        let how = if unasked { "without a question" } else { "after a question" };
        self.toast(ink!("quit, restart and stop end open work {}", how), Role::Ok);
        self.remember(effects);
    }

    /// The question before a server is restarted, stopped or switched off.
    pub(super) fn end_title(what: &'static str, name: &ServerName) -> Ink {
        ink!("{} {}?", what, Model::name(name))
    }
}
