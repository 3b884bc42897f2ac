//! Mouse state between events: double clicks, a held button, and the text selected by a drag. A
//! drag selects text on the screen within one region, row by row. What is copied is what was
//! displayed: sanitized text with secrets masked.

use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr as _;

use crate::prelude::*;

/// Two clicks on one cell within this time are a double click.
const DOUBLE_CLICK_INTERVAL: Duration = Duration::from_millis(400);

/// Mouse state kept between events.
#[derive(Debug, Default)]
pub struct Pointer {
    clicked: Option<(Timestamp, Position)>,
    /// Where the button is held down.
    pub pressed: Option<Position>,
    /// The current selection.
    pub drag: Option<Drag>,
}

impl Pointer {
    /// Records a press of the button; returns whether it completes a double click.
    pub fn click(&mut self, at: Position, now: Timestamp) -> bool {
        let double = self
            .clicked
            .is_some_and(|(when, place)| place == at && now.since(when) <= DOUBLE_CLICK_INTERVAL);
        self.clicked = (!double).then_some((now, at));
        double
    }

    /// Clears the selection and the held button; returns whether anything was selected.
    pub fn release(&mut self) -> bool {
        self.pressed = None;
        self.drag.take().is_some()
    }

    /// Highlights the selection in a frame.
    pub fn render(&self, style: Style, buf: &mut Buffer) {
        for (y, columns) in self.drag.iter().flat_map(Drag::rows) {
            for x in columns {
                if let Some(cell) = buf.cell_mut((x, y)) {
                    cell.modifier.remove(Modifier::REVERSED | Modifier::DIM);
                    cell.set_style(style);
                }
            }
        }
    }
}

/// A selection, from where the button was pressed to where the mouse is.
#[derive(Clone, Copy, Debug)]
pub struct Drag {
    region: Rect,
    from: Position,
    to: Position,
}

impl Drag {
    /// Starts a selection within a region.
    pub const fn new(region: Rect, from: Position) -> Self {
        Self { region, from, to: from }
    }

    /// Extends the selection to a position, clamped to the region.
    pub fn to(&mut self, at: Position) {
        let Rect { x, y, width, height } = self.region;
        self.to = Position::new(at.x.clamp(x, x + width - 1), at.y.clamp(y, y + height - 1));
    }

    /// The selected columns of each row, from the top.
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

    /// The selected text, without trailing blanks.
    pub fn text(&self, buf: &Buffer) -> String {
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
