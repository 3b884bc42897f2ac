//! Lines of the logs pane on the screen: wrapped or scrolled, with what was searched for marked.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{LogsPane, level_role, level_word};
use crate::base::logs::{LogRecord, LogSource};
use crate::tui::filter::find;
use crate::tui::ink::{Ink, Piece, ink};
use crate::tui::keymap::Scope;
use crate::tui::model::Model;
use crate::tui::pane::Cx;
use crate::tui::theme::Role;
use crate::tui::widget::{Pen, width};

impl LogsPane {
    pub(super) fn rows_that_fit(&self, cx: &Cx<'_>, list: Rect) -> Vec<u64> {
        let mut rows: Vec<u64> = self.stream.window(usize::from(list.height)).collect();
        if !self.wrap {
            return rows;
        }
        // Keep the selected row inside when the rows above it wrap.
        let selected = self.stream.selected();
        let room =
            list.width.saturating_sub(Self::lead(cx, list.width.saturating_sub(1)) + 2).max(8);
        let tall = |seq: &u64| {
            cx.model
                .logs
                .get(*seq)
                .map_or(1, |r| crate::tui::widget::doc::wrap(&r.text, room).take(50).count())
        };
        loop {
            let upto = rows.iter().position(|seq| Some(*seq) == selected).map_or(0, |at| at + 1);
            let used: usize = rows[..upto].iter().map(tall).sum();
            if used <= usize::from(list.height) || upto <= 1 {
                return rows;
            }
            rows.remove(0);
        }
    }

    /// Why no line is shown.
    pub(super) fn nothing(&self, model: &Model) -> Ink {
        if model.logs.is_empty() {
            ink!(
                "No log lines yet; stderr and log messages of servers and of mcpdeck are shown here"
            )
        } else {
            ink!("No log lines of level {} or above", level_word(self.level))
        }
    }

    /// Cells before the text.
    fn lead(cx: &Cx<'_>, room: u16) -> u16 {
        let time = if room < 70 { 8 } else { 12 };
        let server = if cx.model.scope.is_none() { 13 } else { 0 };
        1 + time + 1 + 6 + server
    }

    pub(super) fn render_record(
        &self,
        cx: &Cx<'_>,
        seq: u64,
        record: &LogRecord,
        needle: &str,
        area: Rect,
        buf: &mut Buffer,
    ) -> u16 {
        let selected = self.stream.selected() == Some(seq);
        let lead = Self::lead(cx, area.width);
        let room = area.width.saturating_sub(lead + 1);
        let own = record.source == LogSource::Host;
        let text_role = if own { Role::Text } else { Role::Foreign };
        let mut height = 0;
        let lines: Vec<&str> = if self.wrap {
            crate::tui::widget::doc::wrap(&record.text, room.max(8)).take(50).collect()
        } else {
            vec![&record.text]
        };
        for (n, part) in lines.iter().enumerate() {
            if height >= area.height {
                break;
            }
            let line = Rect { y: area.y + height, height: 1, ..area };
            let mut pen = Pen::new(buf, line).ellipsis(cx.glyphs.ellipsis);
            if n == 0 {
                pen.put(if selected { cx.glyphs.cursor } else { " " }, cx.style(Role::Accent));
                let cells = if area.width < 70 { 8 } else { 12 };
                let time = Model::time_in(record.at, cells);
                pen.left(time, cells, cx.style(Role::Faint)).skip(1);
                pen.left(level_word(record.level), 5, cx.style(level_role(record.level))).skip(1);
                if cx.model.scope.is_none() {
                    let who = record.server.as_ref().map_or_else(|| ink!("host"), Model::name);
                    pen.middle(who, 12, cx.style(Role::Muted)).skip(1);
                }
            }
            pen.column(lead);
            if n == 0 && record.source == LogSource::Build {
                pen.put("build ", cx.style(Role::Faint));
            }
            let offset = part.as_ptr() as usize - record.text.as_ptr() as usize;
            let from = offset + if self.wrap { 0 } else { skip(part, self.shift) };
            draw_text(
                cx,
                Piece::of(&record.text, from, offset + part.len()),
                needle,
                text_role,
                &mut pen,
            );
            if selected {
                pen.row_style(cx.selection(true));
            }
            height += 1;
        }
        height.max(1)
    }

    pub(super) fn render_head(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let feed = &cx.model.logs;
        let mut state = ink!("{} lines  {}+  ", self.stream.len(), level_word(self.level));
        if feed.dropped() > 0 {
            state.push(ink!("{} dropped  ", feed.dropped()));
        }
        if self.shift > 0 {
            state.push(ink!("+{} cells  ", self.shift));
        }
        state.push(self.stream.state(cx, feed.end(), Scope::Logs));
        let role = if self.stream.follow { Role::Muted } else { Role::Warning };
        let room = area.width.saturating_sub(width(&state) + 3);
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.put("/ ", cx.style(Role::Accent));
        let (text, text_role): (Ink, Role) = if self.input.text().is_empty() {
            (ink!("search"), Role::Faint)
        } else {
            (Ink::line(self.input.text()), Role::Text)
        };
        pen.clip(text, room, cx.style(text_role));
        pen.column(area.width.saturating_sub(width(&state)).max(2)).put(state, cx.style(role));
        if self.input.editing {
            let input =
                Rect { x: area.x + 2, width: room.min(area.width.saturating_sub(2)), ..area };
            self.input.render(input, buf, cx.style(Role::Input));
        }
    }
}

fn skip(text: &str, cells: u16) -> usize {
    if cells == 0 { 0 } else { crate::tui::widget::pen::fit(text, cells) }
}

fn draw_text(cx: &Cx<'_>, text: Piece<'_>, needle: &str, role: Role, pen: &mut Pen<'_>) {
    let mut at = 0;
    while !needle.is_empty() && pen.room() > 0 {
        let Some(found) = text.as_str().get(at..).and_then(|rest| find(rest, needle)) else {
            break;
        };
        pen.put(text.part(at, at + found), cx.style(role));
        pen.put(text.part(at + found, at + found + needle.len()), cx.style(Role::Match));
        at += found + needle.len();
    }
    pen.put(text.part(at, usize::MAX), cx.style(role));
}
