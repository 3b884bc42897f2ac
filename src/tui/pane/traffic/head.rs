//! The line above the messages: filter, counts, and whether the list follows.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::TrafficPane;
use crate::tui::ink::{Ink, ink};
use crate::tui::keymap::Scope;
use crate::tui::pane::Cx;
use crate::tui::theme::Role;
use crate::tui::widget::{Pen, width};

impl TrafficPane {
    pub(super) fn render_head(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let feed = &cx.model.traffic;
        let mut state = Ink::default();
        if self.groups.on {
            state.push("by operation  ");
        }
        if !self.marked.is_empty() {
            state.push(ink!("{} marked  ", self.marked.len()));
        }
        if feed.dropped() > 0 {
            state.push(ink!("{} dropped  ", feed.dropped()));
        }
        state.push(self.stream.state(cx, feed.end(), Scope::Traffic));
        let count = ink!("{} of {}  ", self.stream.len(), feed.len());
        let role = if self.stream.follow { Role::Muted } else { Role::Warning };
        let room = area.width.saturating_sub(width(&state) + width(&count) + 3);
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.put("/ ", cx.style(Role::Accent));
        let text: Ink = if self.input.text().is_empty() && !self.input.editing {
            ink!("server: tool: method: kind: status: duration:> size:> or text")
        } else {
            Ink::line(self.input.text())
        };
        let text_role = match (&self.problem, self.input.text().is_empty()) {
            (Some(_), _) => Role::Error,
            (None, true) => Role::Faint,
            (None, false) => Role::Text,
        };
        pen.clip(text, room, cx.style(text_role));
        let total = width(&state) + width(&count);
        pen.column(area.width.saturating_sub(total).max(2));
        pen.put(count, cx.style(Role::Muted)).put(state, cx.style(role));
        if self.input.editing {
            let input =
                Rect { x: area.x + 2, width: room.min(area.width.saturating_sub(2)), ..area };
            self.input.render(input, buf, cx.style(Role::Input));
        }
    }
}
