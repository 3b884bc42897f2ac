//! The inbox: opens what waits for the person, and follows what of the configuration waits. Shows it
//! when it comes, without taking keys that were meant for something else.

use std::sync::Arc;

use super::{App, Redraw};
use crate::base::ServerName;
use crate::config::Hold;
use crate::host::ReloadPlan;
use crate::tui::effect::{ConfigCommand, Effect};
use crate::tui::ink::{Ink, count, ink};
use crate::tui::model::{InputState, InputView, Model, Situation, Todo};
use crate::tui::overlay::{Choice, Confirm, Consent, InputDialog, Overlay, Palette, Pick};
use crate::tui::theme::Role;

impl App {
    /// Opens something that waits.
    pub(super) fn open_todo(&mut self, todo: &Todo, effects: &mut Vec<Effect>) {
        match todo {
            Todo::Request(id) => self.open_answer(*id),
            Todo::Approval(server) => {
                let consent = Consent::new(&self.model.situation, Some(server), self.glyphs);
                self.push_overlay(Overlay::Consent(consent));
            }
            Todo::Input(id) => self.open_input(id),
            Todo::Plan => self.open_plan(),
            Todo::Held(_) => self.open_policy(effects),
        }
    }

    /// What waits first, but for requests whose answers are on their way.
    pub(super) fn first_todo(&self) -> Option<Todo> {
        let sent = |todo: &Todo| matches!(todo, Todo::Request(id) if self.answers.is_sent(*id));
        self.model.inbox().find(|todo| !sent(todo))
    }

    /// Opens what waits first.
    pub(super) fn open_first(&mut self, effects: &mut Vec<Effect>) {
        match self.first_todo() {
            Some(todo) => self.open_todo(&todo, effects),
            None => self.toast(ink!("Nothing waits for you"), Role::Ok),
        }
    }

    /// The configuration stands differently now.
    pub(super) fn situation(&mut self, situation: Arc<Situation>, effects: &mut Vec<Effect>) {
        let listed: Vec<Todo> = self.model.inbox_of_configuration().collect();
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
        // A command that is another now is asked for anew, and so is a file that changed again.
        let is_fresh = |todo: &Todo| match todo {
            Todo::Approval(server) => {
                !shown
                    && before.awaiting(server).map(|a| &a.review)
                        != now.awaiting(server).map(|a| &a.review)
            }
            Todo::Plan => now.plan != before.plan,
            todo => !listed.contains(todo),
        };
        let fresh: Vec<Todo> = self.model.inbox_of_configuration().filter(is_fresh).collect();
        let done = listed.iter().any(|todo| !self.model.inbox().any(|now| now == *todo));
        if done {
            self.toast.take_if(|(_, toast)| toast.role == Role::Attention);
        }
        // A command never takes the keys by itself, but on the first screen: nobody types yet.
        let opens = |todo: &&Todo| !matches!(todo, Todo::Approval(_)) || before.revision == 0;
        let next = fresh.iter().find(opens).cloned();
        let next = next.or_else(|| self.model.inbox_of_configuration().find(|_| done));
        match next.filter(|_| self.is_idle()) {
            Some(todo) => self.open_todo(&todo, effects),
            None => self.call_for(fresh.first()),
        }
        if !fresh.is_empty() {
            self.attention(effects);
        }
    }

    /// Says that something waits that was not there before.
    fn call_for(&mut self, fresh: Option<&Todo>) {
        let text = match fresh {
            None | Some(Todo::Request(_) | Todo::Held(_)) => return,
            Some(Todo::Approval(_)) => {
                let asked = self.model.situation.asked().count();
                let s = if asked == 1 { "s" } else { "" };
                ink!("{} await{} your approval", count(asked, "command"), s)
            }
            Some(Todo::Input(_)) => ink!("the configuration asks for a value"),
            Some(Todo::Plan) => ink!("the configuration has changed"),
        };
        let mut text = text;
        text.push("   ").push(self.spelled("{show-inbox} shows it"));
        self.toast(text, Role::Attention);
    }

    /// Shows the inputs of the configuration, answered or not.
    pub(super) fn open_inputs(&mut self) {
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
        let keyring = self.model.situation.keyring;
        let Some(view) = self.model.input(id).cloned() else { return };
        self.push_overlay(Overlay::Input(Box::new(InputDialog::new(view, keyring))));
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
    fn open_plan(&mut self) {
        let Some(plan) = &self.model.situation.plan else { return };
        let confirm = Confirm {
            title: ink!("apply the changed configuration?"),
            lines: plan_lines(plan),
            yes: vec![Effect::Config(ConfigCommand::Apply)],
            by_itself: true,
        };
        self.push_overlay(Overlay::Confirm(confirm));
    }

    /// What a server waits for that may not start before the person has done something.
    pub(super) fn hold(&self, name: &ServerName) -> Option<Todo> {
        match self.model.config.as_ref()?.servers.get(name)?.hold.as_ref()? {
            Hold::Approval => Some(Todo::Approval(name.clone())),
            Hold::Input(id) => Some(Todo::Input(id.clone())),
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
