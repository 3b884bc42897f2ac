//! The mouse on the call screen: form, result, and what is asked over them.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::{Position, Rect};

use super::ask::Ask;
use super::command::{CallCommand, Clicks};
use super::draw::popup_area;
use super::run::Run;
use super::screen::{CallScreen, Focus, Intent};
use crate::tui::form::mouse::Clicked;
use crate::tui::result::ResultCommand;

impl CallScreen {
    /// A click at a place of the `area` the screen is drawn in.
    pub fn click(&mut self, at: Position, clicks: Clicks, area: Rect) -> Vec<Intent> {
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
            Clicked::Submit => self.command(CallCommand::Call),
            Clicked::Nothing => self.typed(),
        }
    }

    fn click_in_ask(&mut self, at: Position, area: Rect) -> Vec<Intent> {
        let key = |code: KeyCode| KeyEvent::from(code);
        let (outer, rows, top) = match &self.ask {
            Some(Ask::Pick(_, entries, selected)) => {
                let outer = popup_area(entries.len(), area);
                let top = selected.saturating_sub(usize::from(outer.height - 1).saturating_sub(1));
                (outer, entries.len(), top)
            }
            _ => return Vec::new(),
        };
        if !outer.contains(at) {
            return self.key_in_ask(key(KeyCode::Esc));
        }
        let Some(line) = usize::from(at.y).checked_sub(usize::from(outer.y) + 1) else {
            return Vec::new();
        };
        match &mut self.ask {
            Some(Ask::Pick(_, _, selected)) if top + line < rows => *selected = top + line,
            _ => return Vec::new(),
        }
        self.key_in_ask(key(KeyCode::Enter))
    }

    /// The wheel turned over a place by so many rows.
    pub fn wheel(&mut self, rows: isize, at: Position, area: Rect) -> Vec<Intent> {
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
        self.command(CallCommand::Result(ResultCommand::Scroll(rows)))
    }
}
