//! What of the configuration waits for the person: commands to approve, a changed file to use.
//! Shows it when it comes, without taking keys that were meant for something else.

use std::sync::Arc;

use super::{App, Redraw};
use crate::base::ServerName;
use crate::config::Hold;
use crate::host::ReloadPlan;
use crate::tui::effect::{ConfigCommand, Effect};
use crate::tui::ink::{Ink, Piece, ink};
use crate::tui::model::{InputState, InputView, Model, Situation};
use crate::tui::overlay::{Choice, Confirm, Consent, InputDialog, Overlay, Palette, Pick};
use crate::tui::theme::Role;

impl App {
    /// The configuration stands differently now.
    pub(super) fn situation(&mut self, situation: Arc<Situation>, effects: &mut Vec<Effect>) {
        let before = std::mem::replace(&mut self.model.situation, situation);
        let now = Arc::clone(&self.model.situation);
        self.mark(Redraw::Now);
        let mut shown = false;
        self.overlays.retain_mut(|overlay| match overlay {
            Overlay::Consent(consent) => {
                shown = consent.follow(&now);
                shown
            }
            // The question was answered elsewhere, or is asked no more.
            Overlay::Input(dialog) => {
                let same = |view: &&InputView| view.input == dialog.view.input;
                let view = now.inputs.iter().find(same);
                view.is_some_and(|view| view.state == dialog.view.state)
            }
            Overlay::Confirm(confirm) => now.plan.is_some() || !is_plan(confirm),
            _ => true,
        });
        if before.asked().count() > now.asked().count()
            || before.wanted().count() > now.wanted().count()
            || (before.plan.is_some() && now.plan.is_none())
        {
            // What called for the person was dealt with.
            self.toast.take_if(|(_, toast)| toast.role == Role::Attention);
        }
        let fresh = now.asked().any(|a| !before.asked().any(|b| b.review == a.review));
        if fresh && !shown {
            self.attention(effects);
            if before.revision == 0 && self.is_idle() {
                // The first screen of the program: nobody types yet.
                return self.open_review();
            }
            let count = now.asked().count();
            let await_ = if count == 1 { "command awaits" } else { "commands await" };
            let mut text = ink!("{} {} your approval   ", count, await_);
            text.push(self.spelled("{review} shows it"));
            self.toast(text, Role::Attention);
        }
        self.ask_for_inputs(&before);
        if now.plan.is_some() && now.plan != before.plan {
            if self.is_idle() {
                self.open_plan();
            } else {
                let text = self.spelled("the configuration has changed   {plan} shows how");
                self.toast(text, Role::Attention);
            }
        }
    }

    /// Asks for what approved servers wait for: at once when nobody is disturbed.
    fn ask_for_inputs(&mut self, before: &Situation) {
        let was = |view: &InputView| before.wanted().any(|b| b.input == view.input);
        let fresh: Vec<String> = {
            let now = &self.model.situation;
            now.wanted().filter(|view| !was(view)).map(|view| view.input.id.clone()).collect()
        };
        // The rest of what was asked for together, one after the other.
        let answered = before.wanted().count() > self.model.situation.wanted().count();
        let next = fresh.first().cloned().or_else(|| {
            let rest = self.model.situation.wanted().next();
            rest.filter(|_| answered).map(|view| view.input.id.clone())
        });
        let Some(next) = next else { return };
        if self.is_idle() {
            self.open_input(&next);
        } else if !fresh.is_empty() {
            let text = self.spelled("the configuration asks for a value   {inputs} answers it");
            self.toast(text, Role::Attention);
        }
    }

    /// Asks for what is wanted first; with nothing wanted, shows what can be changed.
    pub(super) fn open_inputs(&mut self) {
        let wanted = self.model.situation.wanted().next().map(|view| view.input.id.clone());
        if let Some(id) = wanted {
            return self.open_input(&id);
        }
        let choices = self.model.situation.inputs.iter().map(|view| Choice {
            words: ink!("{}  {}", Ink::line(&view.input.id), Ink::line(&view.input.description)),
            hint: ink!("{}", state_word(view.state)),
            pick: Pick::Input(view.input.id.clone()),
            disabled: None,
        });
        let palette = Palette::new(ink!("inputs"), choices.collect());
        self.push_overlay(Overlay::Palette(palette));
    }

    /// Asks for one input.
    pub(super) fn open_input(&mut self, id: &str) {
        let situation = &self.model.situation;
        let view = situation.inputs.iter().find(|view| view.input.id == id).cloned();
        let Some(view) = view else { return };
        let dialog = InputDialog::new(view, situation.keyring);
        self.push_overlay(Overlay::Input(Box::new(dialog)));
    }

    fn attention(&self, effects: &mut Vec<Effect>) {
        if !self.setup.prefs.mute_bell && self.model.situation.revision > 1 {
            effects.push(Effect::Bell);
        }
    }

    /// Whether no key could be meant for something that would be covered.
    fn is_idle(&mut self) -> bool {
        self.overlays.is_empty()
            && !self.has_screen()
            && self.panes.get_mut(self.pane).typing().is_none()
    }

    /// Shows what awaits approval.
    pub(super) fn open_review(&mut self) {
        let consent = Consent::new(&self.model.situation, self.glyphs);
        self.push_overlay(Overlay::Consent(consent));
    }

    /// Turns round whether changed files are shown before they are applied.
    pub(super) fn ask_first(&mut self, effects: &mut Vec<Effect>) {
        effects.push(Effect::Config(ConfigCommand::AskFirst));
        if self.model.situation.asks {
            self.toast(ink!("changed files are applied at once"), Role::Ok);
        } else {
            self.toast(ink!("changed files are shown before they are applied"), Role::Ok);
        }
    }

    /// Shows what a changed file would do, and asks whether to use it.
    pub(super) fn open_plan(&mut self) {
        let Some(plan) = &self.model.situation.plan else { return };
        let confirm = Confirm {
            title: ink!("apply the changed configuration?"),
            lines: plan_lines(plan),
            yes: vec![Effect::Config(ConfigCommand::Apply)],
            by_itself: true,
        };
        self.push_overlay(Overlay::Confirm(confirm));
    }

    /// Whether a server may not start before the person has done something.
    pub(super) fn is_held(&self, name: &ServerName) -> bool {
        self.hold(name).is_some()
    }

    fn hold(&self, name: &ServerName) -> Option<&Hold> {
        self.model.config.as_ref()?.servers.get(name)?.hold.as_ref()
    }

    /// Shows what a held server waits for.
    pub(super) fn open_hold(&mut self, name: &ServerName) {
        match self.hold(name) {
            Some(Hold::Approval) => self.open_review(),
            Some(Hold::Input(id)) => {
                let id = id.clone();
                self.open_input(&id);
            }
            None => {}
        }
    }

    /// What the header says of it.
    pub(super) fn situation_marks(&self, right: &mut Vec<(Ink, Role)>) {
        if let Some(problem) = &self.user_problem {
            // File and line; the help has the whole sentence.
            let at = problem.as_str().find(": ").unwrap_or(problem.as_str().len());
            let place = Piece::of(problem, 0, at);
            right.push((ink!("{} {}", self.glyphs.warning, place), Role::Warning));
        }
        let count = self.model.situation.asked().count();
        if count > 0 {
            right.push((ink!("{} {} to approve", self.glyphs.hand, count), Role::Attention));
        }
        let inputs = self.model.situation.wanted().count();
        if inputs > 0 {
            let s = if inputs == 1 { "" } else { "s" };
            right.push((ink!("{} {} input{}", self.glyphs.hand, inputs, s), Role::Attention));
        }
        if self.model.situation.plan.is_some() {
            right.push((ink!("changed file waits"), Role::Attention));
        }
    }
}

const fn state_word(state: InputState) -> &'static str {
    match state {
        InputState::Open => "no answer",
        InputState::Answered => "answered",
        InputState::Kept => "keyring",
        InputState::Variable => "variable",
    }
}

fn is_plan(confirm: &Confirm) -> bool {
    confirm.yes == [Effect::Config(ConfigCommand::Apply)]
}

/// Most servers named in the question; the Config pane has all of them.
const NAMED: usize = 10;

fn plan_lines(plan: &ReloadPlan) -> Vec<Ink> {
    let mut lines = Vec::new();
    for name in &plan.added {
        lines.push(ink!("+ start    {}", Model::name(name)));
    }
    for name in &plan.removed {
        lines.push(ink!("- stop     {}", Model::name(name)));
    }
    for (name, fields) in &plan.changed {
        let fields = Ink::line(&fields.join(", "));
        lines.push(ink!("~ restart  {}   because of {}", Model::name(name), fields));
    }
    for (name, fields) in &plan.followed {
        let fields = Ink::line(&fields.join(", "));
        lines.push(ink!("~ keep     {}   with another {}", Model::name(name), fields));
    }
    let more = lines.len().saturating_sub(NAMED);
    lines.truncate(NAMED);
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
