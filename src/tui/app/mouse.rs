//! The mouse: from the topmost overlay through the open screen to panes, tabs and footer.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

use super::{App, Focus, Redraw};
use crate::tui::call::command::Clicks;
use crate::tui::effect::Effect;
use crate::tui::form::mouse::Clicked;
use crate::tui::pane::{Gesture, Out, PaneId, Ui};

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
        if let Some(overlay) = self.overlays.last_mut() {
            let verdict = overlay.mouse(gesture, self.size);
            return self.settle(verdict, effects);
        }
        let Some(layout) = self.layout() else { return };
        let screen = super::calls::call_area(&layout);
        if screen.contains(at) && self.is_answering() {
            if let Gesture::Scroll { delta, .. } = gesture {
                self.answer_wheel(delta);
            }
            return;
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
            match gesture {
                Gesture::Scroll { delta, .. } => {
                    self.model.scope = self.servers.step(delta.signum());
                }
                _ => {
                    if let Some(row) = self.servers.row_at(at.y - servers.y) {
                        self.model.scope.clone_from(row);
                    }
                }
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
