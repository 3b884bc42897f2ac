//! The mouse: from the topmost overlay through the open screen to panes, tabs and footer.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::{App, Focus, Redraw};
use crate::tui::effect::Effect;
use crate::tui::pane::{Gesture, Out, PaneId, Ui};
use crate::tui::player::PlayCommand;

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
                    where_ == at && self.wall.since(when) <= DOUBLE_CLICK
                });
                self.last_click = if double { None } else { Some((self.wall, at)) };
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
        if layout.rule.contains(at) && self.model.playback.is_some() {
            if let Some(share) = super::playback::share_at(at.x, layout.rule) {
                effects.push(Effect::Play(PlayCommand::To(share)));
            }
            return;
        }
        if self.screen_mouse(gesture, effects) {
            return;
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
        } else if layout.header.contains(at) && self.model.inbox().next().is_some() {
            self.show(PaneId::Inbox);
        } else if layout.header.contains(at) && self.model.rejected().next().is_some() {
            self.show(PaneId::Config);
        } else if layout.footer.contains(at)
            && let Some(action) = self.footer_at(at.x)
        {
            self.perform(action, effects);
        }
    }
}
