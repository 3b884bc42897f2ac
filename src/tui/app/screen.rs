//! The screen that is open over the panes: where its keys are bound, and what its actions do, by key
//! and from the palette alike.

use super::App;
use crate::tui::action::Action;
use crate::tui::approval::keys;
use crate::tui::effect::Effect;
use crate::tui::form::FormState;
use crate::tui::keymap::Scope;

impl App {
    /// Where the keys of the open screen are bound, innermost first; `None` when none is open.
    pub(super) fn screen_scopes(&self) -> Option<Vec<Scope>> {
        if let Some(scopes) = self.answer_scopes() {
            return Some(scopes);
        }
        if let Some(entry) = &self.entry {
            return Some([&[Scope::Entry], form_scopes(&entry.form)].concat());
        }
        self.open_screen().map(|screen| screen.scopes().to_vec())
    }

    /// Whether an action is one of the open screen.
    pub(super) fn is_of_screen(&self, action: Action) -> bool {
        let scopes = self.screen_scopes().unwrap_or_default();
        self.keymap.scopes_of(action).any(|scope| scopes.contains(&scope))
    }

    /// Does an action of the open screen; gives whether it is one.
    pub(super) fn act_on_screen(&mut self, action: Action, effects: &mut Vec<Effect>) -> bool {
        if !self.is_of_screen(action) {
            return false;
        }
        if self.is_answering() {
            self.answer_action(action, effects);
        } else if self.is_editing() {
            self.entry_action(action, effects);
        } else {
            self.call_action(action, effects);
        }
        true
    }

    fn answer_scopes(&self) -> Option<Vec<Scope>> {
        if self.answers.roots() {
            return Some(vec![Scope::Roots]);
        }
        let desk = self.answers.opened()?;
        let form = desk.open_form().map(form_scopes).unwrap_or_default();
        Some([keys::scopes(desk), form].concat())
    }
}

/// Where the keys of a form are bound.
pub(super) fn form_scopes(form: &FormState) -> &'static [Scope] {
    if form.takes_text() { &[Scope::Form] } else { &[Scope::FormLine, Scope::Form] }
}
