//! Text selected with the mouse: a drag marks what is on the screen within one region, row by row,
//! and releasing the button copies it. What is copied is what was seen: safe text, secrets masked.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr as _;

use super::{App, Redraw};
use crate::tui::effect::Effect;
use crate::tui::ink::{count, ink};
use crate::tui::theme::Role;

/// What is marked: from where the button was pressed to where the mouse is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drag {
    region: Rect,
    from: Position,
    to: Position,
}

impl Drag {
    /// The marked cells of every row, from the top.
    fn rows(&self) -> impl Iterator<Item = (u16, std::ops::Range<u16>)> {
        let order = |at: Position| (at.y, at.x);
        let (first, last) = if order(self.from) <= order(self.to) {
            (self.from, self.to)
        } else {
            (self.to, self.from)
        };
        let region = self.region;
        (first.y..=last.y).map(move |y| {
            let start = if y == first.y { first.x } else { region.left() };
            let end = if y == last.y { last.x + 1 } else { region.right() };
            (y, start..end)
        })
    }

    /// What is marked, without the blanks at the ends of rows.
    fn text(&self, buf: &Buffer) -> String {
        let row = |(y, columns): (u16, std::ops::Range<u16>)| {
            let mut text = String::new();
            let mut x = columns.start;
            while x < columns.end {
                let symbol = buf.cell((x, y)).map_or(" ", |cell| cell.symbol());
                text.push_str(symbol);
                // The cell after a wide character is part of it.
                x += (symbol.width() as u16).max(1);
            }
            text.trim_end().to_owned()
        };
        let rows: Vec<String> = self.rows().map(row).collect();
        rows.join("\n").trim_end().to_owned()
    }
}

impl App {
    /// The mouse moved with the button held down.
    pub(super) fn drag_to(&mut self, at: Position) {
        if self.drag.is_none() {
            let Some(from) = self.pressed.filter(|from| *from != at) else { return };
            self.drag = self.drag_region(from).map(|region| Drag { region, from, to: from });
        }
        if let Some(drag) = &mut self.drag {
            let Rect { x, y, width, height } = drag.region;
            drag.to = Position::new(at.x.clamp(x, x + width - 1), at.y.clamp(y, y + height - 1));
            self.mark(Redraw::Now);
        }
    }

    /// The button was released: what is marked is copied.
    pub(super) fn drag_done(&mut self, effects: &mut Vec<Effect>) {
        self.pressed = None;
        let Some(drag) = self.drag.take() else { return };
        self.mark(Redraw::Now);
        let text = drag.text(&self.drawn());
        let lines = text.lines().count();
        if lines == 0 {
            return;
        }
        let said = match lines {
            1 => ink!("copied {}", count(text.chars().count(), "character")),
            _ => ink!("copied {} lines", lines),
        };
        self.toast(said, Role::Ok);
        effects.push(Effect::Copy(text));
    }

    /// Anything else was done: nothing is marked any more.
    pub(super) fn drag_over(&mut self) {
        self.pressed = None;
        if self.drag.take().is_some() {
            self.mark(Redraw::Now);
        }
    }

    /// Marks it on a frame.
    pub(super) fn render_drag(&self, buf: &mut Buffer) {
        let style = self.theme.style(Role::Match);
        for (y, columns) in self.drag.iter().flat_map(Drag::rows) {
            for x in columns {
                if let Some(cell) = buf.cell_mut((x, y)) {
                    cell.modifier.remove(Modifier::REVERSED | Modifier::DIM);
                    cell.set_style(style);
                }
            }
        }
    }

    /// The region a drag from here stays in: what lies between rules.
    fn drag_region(&self, from: Position) -> Option<Rect> {
        let whole = if let Some(overlay) = self.overlays.last() {
            overlay.area(self.size)
        } else if self.has_screen() {
            self.screen_region(from)?
        } else {
            self.layout()?.region_at(from)?
        };
        let region = whole.intersection(self.size);
        if !region.contains(from) {
            return None;
        }
        let frame = self.drawn();
        let is_rule = |x: &u16| {
            frame.cell((*x, from.y)).is_some_and(|cell| cell.symbol() == self.glyphs.vertical)
        };
        let left = (region.left()..from.x).rev().find(is_rule).map_or(region.left(), |x| x + 1);
        let right = (from.x..region.right()).find(is_rule).unwrap_or(region.right());
        (left < right).then_some(Rect { x: left, width: right - left, ..region })
    }

    /// The frame as it is on the screen now.
    fn drawn(&self) -> Buffer {
        let mut buf = Buffer::empty(self.size);
        self.render(self.size, &mut buf);
        buf
    }
}
