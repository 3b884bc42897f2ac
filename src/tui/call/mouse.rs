//! The mouse on the call screen: form, result, and what is asked over them.

use crate::tui::action::Action;
use crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::{Position, Rect};

use super::ask::Ask;
use super::draw::popup_area;
use super::run::Run;
use super::screen::{CallScreen, Focus};
use crate::tui::effect::Effect;
use crate::tui::form::mouse::Clicked;
use crate::tui::keymap::Scope;
use crate::tui::widget::KeyLine;

/// How often the mouse was pressed at one place, shortly after one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clicks {
    /// Once.
    One,
    /// Twice.
    Two,
}

impl CallScreen {
    /// The line of keys at its foot: those that mean something now.
    pub(super) fn keys(&self) -> KeyLine {
        let mut keys = self.keymap.labels(self.scopes());
        if self.focus == Focus::Form {
            // What the screen is for comes first there.
            keys = self.keymap.labels(&[Scope::Call, Scope::FormLine, Scope::Form]);
        } else if let Some(back) = keys.iter().position(|(.., action)| *action == Action::Back) {
            keys[..=back].rotate_right(1);
        }
        let keys = keys.into_iter().filter(|(.., action)| self.means(*action));
        let worded = |(key, word, action)| match action {
            Action::Switch if self.focus == Focus::Result => (key, "form"),
            _ => (key, word),
        };
        KeyLine::new(keys.map(worded).collect(), self.keymap.help_label())
    }

    /// Whether a command would do something now.
    fn means(&self, action: Action) -> bool {
        let answered = || self.run().is_some_and(|run| run.view().is_some());
        match action {
            Action::CancelCall => self.run().is_some_and(Run::is_running),
            Action::Switch => !self.runs.is_empty(),
            Action::Compare => self.runs.len() > 1 && answered(),
            Action::Search | Action::NextTab | Action::Copy | Action::Save => answered(),
            Action::History => !self.past.is_empty(),
            Action::NextProblem => self.form.blocking() > 0,
            _ => true,
        }
    }

    /// A click at a place of the `area` the screen is drawn in.
    pub fn click(&mut self, at: Position, clicks: Clicks, area: Rect) -> Vec<Effect> {
        if matches!(self.ask, Some(Ask::File(_))) {
            return self.click_in_picker(at, clicks, area);
        }
        if self.ask.is_some() {
            return self.click_in_ask(at, area);
        }
        let regions = self.regions(area);
        if let Some(result) = regions.result.filter(|result| result.contains(at)) {
            self.focus = Focus::Result;
            let view = self.runs.get_mut(self.shown).and_then(Run::view_mut);
            let wants = view.and_then(|view| view.click(at, result));
            return self.want(wants);
        }
        // What lies over the form may reach below it.
        if !regions.form.contains(at) && !self.form.popup_is_open() {
            return Vec::new();
        }
        self.focus = Focus::Form;
        match self.form.click(at, regions.form) {
            Clicked::Submit => self.apply(Action::Send),
            Clicked::Nothing => self.typed(),
        }
    }

    fn click_in_ask(&mut self, at: Position, area: Rect) -> Vec<Effect> {
        let key = |code: KeyCode| KeyEvent::from(code);
        let (outer, rows, top) = match &self.ask {
            Some(Ask::Pick(_, entries, selected)) => {
                let outer = popup_area(entries.len(), area);
                let top = selected.saturating_sub(usize::from(outer.height).saturating_sub(3));
                (outer, entries.len(), top)
            }
            _ => return Vec::new(),
        };
        if !outer.contains(at) {
            return self.key_in_ask(key(KeyCode::Esc));
        }
        if at.y == outer.y || at.y + 1 == outer.bottom() {
            return Vec::new();
        }
        let line = usize::from(at.y - outer.y - 1);
        match &mut self.ask {
            Some(Ask::Pick(_, _, selected)) if top + line < rows => *selected = top + line,
            _ => return Vec::new(),
        }
        self.key_in_ask(key(KeyCode::Enter))
    }

    /// The wheel turned over a place by so many rows.
    pub fn wheel(&mut self, rows: isize, at: Position, area: Rect) -> Vec<Effect> {
        match &mut self.ask {
            Some(Ask::File(picker)) => {
                picker.step(rows);
                return Vec::new();
            }
            Some(Ask::Pick(_, entries, selected)) => {
                let last = entries.len().saturating_sub(1);
                *selected = selected.saturating_add_signed(rows).min(last);
                return Vec::new();
            }
            Some(_) => return Vec::new(),
            None => {}
        }
        let regions = self.regions(area);
        if self.form.popup_is_open() || regions.form.contains(at) {
            self.form.wheel(rows);
            return Vec::new();
        }
        if let Some(view) = self.runs.get_mut(self.shown).and_then(Run::view_mut) {
            view.move_by(rows);
        }
        Vec::new()
    }
}
