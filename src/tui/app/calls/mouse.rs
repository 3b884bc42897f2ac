//! The mouse on an open call screen.

use ratatui::layout::Position;

use super::call_area;
use crate::tui::app::App;
use crate::tui::call::CallScreen;
use crate::tui::call::mouse::Clicks;
use crate::tui::effect::Effect;

impl App {
    /// The call screen that is open.
    pub(in crate::tui::app) fn open_screen(&self) -> Option<&CallScreen> {
        self.calls.open.and_then(|open| self.calls.screens.get(open))
    }

    /// The wheel turned over the open call screen.
    pub(in crate::tui::app) fn call_wheel(
        &mut self,
        rows: isize,
        at: Position,
        effects: &mut Vec<Effect>,
    ) {
        let Some(area) = self.layout().map(|layout| call_area(&layout)) else { return };
        let Some(screen) = self.calls.screen() else { return };
        let intents = screen.wheel(rows, at, area);
        self.intents(intents, effects);
    }

    /// The mouse was pressed on the open call screen.
    pub(in crate::tui::app) fn call_click(
        &mut self,
        at: Position,
        clicks: Clicks,
        effects: &mut Vec<Effect>,
    ) {
        let Some(area) = self.layout().map(|layout| call_area(&layout)) else { return };
        let Some(screen) = self.calls.screen() else { return };
        let intents = screen.click(at, clicks, area);
        self.intents(intents, effects);
    }
}
