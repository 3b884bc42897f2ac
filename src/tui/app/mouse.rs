//! The mouse: from the topmost overlay through the open screen to panes, tabs and footer.

use crossterm::event::{KeyEvent, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::{App, Focus, Redraw};
use crate::tui::call::mouse::Clicks;
use crate::tui::effect::Effect;
use crate::tui::entry::EntryScreen;
use crate::tui::form::mouse::Clicked;
use crate::tui::pane::{Gesture, Out, PaneId, Ui};
use crate::tui::widget::KeyLine;

/// Two clicks on one cell within this time are a double click.
const DOUBLE_CLICK: std::time::Duration = std::time::Duration::from_millis(400);
/// Rows per notch of the wheel.
const WHEEL: isize = 3;

impl App {
    pub(super) fn mouse(&mut self, mouse: MouseEvent, effects: &mut Vec<Effect>) {
        let at = Position::new(mouse.column, mouse.row);
        let gesture = match mouse.kind {
            MouseEventKind::ScrollUp => Gesture::Scroll { at, delta: -WHEEL },
            MouseEventKind::ScrollDown => Gesture::Scroll { at, delta: WHEEL },
            MouseEventKind::Drag(MouseButton::Left) => return self.drag_to(at),
            MouseEventKind::Up(MouseButton::Left) => return self.drag_done(effects),
            MouseEventKind::Down(MouseButton::Left) => {
                let double = self.last_click.is_some_and(|(when, where_)| {
                    where_ == at && self.model.now.since(when) <= DOUBLE_CLICK
                });
                self.last_click = if double { None } else { Some((self.model.now, at)) };
                if double { Gesture::DoubleClick(at) } else { Gesture::Click(at) }
            }
            _ => return,
        };
        self.mark(Redraw::Now);
        self.drag_over();
        if !matches!(gesture, Gesture::Scroll { .. }) {
            self.pressed = Some(at);
        }
        if let Some(overlay) = self.overlays.last_mut() {
            let verdict = overlay.mouse(gesture, self.size);
            return self.settle(verdict, effects);
        }
        let Some(layout) = self.layout() else { return };
        let screen = super::calls::call_area(&layout);
        if let Some((keys, area)) = self.screen_keys()
            && area.contains(at)
        {
            if let Some(chord) = keys.at(area, at.x).filter(|_| gesture == Gesture::Click(at)) {
                self.key(KeyEvent::new(chord.code, chord.modifiers), effects);
            }
            return;
        }
        if screen.contains(at) && self.is_answering() {
            return match gesture {
                Gesture::Scroll { delta, .. } => self.answer_wheel(delta),
                Gesture::Click(at) | Gesture::DoubleClick(at) => self.answer_click(at, effects),
            };
        }
        if screen.contains(at) && self.is_editing() {
            return self.entry_mouse(gesture, screen, effects);
        }
        if screen.contains(at) && self.is_calling() {
            return match gesture {
                Gesture::Scroll { at, delta } => self.call_wheel(delta, at, effects),
                Gesture::Click(at) => self.call_click(at, Clicks::One, effects),
                Gesture::DoubleClick(at) => self.call_click(at, Clicks::Two, effects),
            };
        }
        if layout.main.contains(at) {
            self.focus = Focus::Pane;
            let mut out = Out::default();
            let ui = Ui {
                model: &self.model,
                area: layout.main,
                glyphs: self.glyphs,
                keymap: &self.keymap,
            };
            self.panes.get_mut(self.pane).mouse(gesture, ui, &mut out);
            self.absorb(out, effects);
        } else if let Some(servers) = layout.servers.filter(|area| area.contains(at)) {
            self.focus = Focus::Servers;
            let line = at.y - servers.y;
            if let Gesture::Scroll { delta, .. } = gesture {
                self.model.scope = self.servers.step(delta.signum());
            } else if self.servers.is_left_out(&self.model, line) {
                // Why stands there, at the line of the file.
                self.show(PaneId::Config);
            } else if let Some(row) = self.servers.row_at(line) {
                self.model.scope.clone_from(row);
            }
        } else if layout.tabs.contains(at) {
            if let Gesture::Scroll { delta, .. } = gesture {
                self.turn_pane(delta.signum());
            } else if let Some(pane) = self.tab_at(at.x) {
                self.show(pane);
            }
        } else if layout.header.contains(at) && !self.model.view.pending.is_empty() {
            self.show(PaneId::Approvals);
        } else if layout.footer.contains(at)
            && let Some(action) = self.footer_at(at.x)
        {
            self.perform(action, effects);
        }
    }

    /// The line of keys at the foot of the screen that is open, and where it is drawn; nothing
    /// while something else is laid over it.
    fn screen_keys(&self) -> Option<(KeyLine, Rect)> {
        let area = super::calls::call_area(&self.layout()?);
        if self.toast.is_some() {
            return None;
        }
        if self.is_answering() {
            return Some((self.answer_keys(), Self::answer_footer(area)));
        }
        if self.is_editing() {
            return Some((EntryScreen::key_line(&self.keymap), EntryScreen::key_area(area)));
        }
        let screen = self.open_screen().filter(|screen| !screen.asks())?;
        Some((screen.key_line(), screen.key_area(area)))
    }

    /// The region of the open screen under the mouse.
    pub(super) fn screen_region(&self, at: Position) -> Option<Rect> {
        let area = super::calls::call_area(&self.layout()?);
        if self.is_answering() || self.is_editing() {
            return Some(area);
        }
        Some(self.open_screen()?.region_at(area, at))
    }

    /// The mouse over the form.
    fn entry_mouse(&mut self, gesture: Gesture, area: Rect, effects: &mut Vec<Effect>) {
        let Some(screen) = &mut self.entry else { return };
        let body = screen.body(area);
        match gesture {
            Gesture::Scroll { delta, .. } => screen.form.wheel(delta.signum()),
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                screen.leaving = false;
                if screen.form.click(at, body) == Clicked::Submit {
                    self.save_entry(effects);
                }
            }
        }
    }
}
