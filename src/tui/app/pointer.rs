//! The mouse between two events: a click that may become two, a button that is held down, and the text
//! it marks. A drag marks what is on the screen within one region, row by row; what is copied is what
//! was seen: safe text, secrets masked.

use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr as _;

use crate::tui::prelude::*;

/// Two clicks on one cell within this time are a double click.
const DOUBLE_CLICK: Duration = Duration::from_millis(400);

/// What the mouse did before.
#[derive(Debug, Default)]
pub struct Pointer {
    clicked: Option<(Timestamp, Position)>,
    /// Where the button is held down.
    pub pressed: Option<Position>,
    /// What is marked.
    pub drag: Option<Drag>,
}

impl Pointer {
    /// The button was pressed; gives whether it is the second of two clicks.
    pub fn click(&mut self, at: Position, now: Timestamp) -> bool {
        let double = self
            .clicked
            .is_some_and(|(when, place)| place == at && now.since(when) <= DOUBLE_CLICK);
        self.clicked = (!double).then_some((now, at));
        double
    }

    /// Anything else was done: nothing is marked any more; gives whether something was.
    pub fn release(&mut self) -> bool {
        self.pressed = None;
        self.drag.take().is_some()
    }

    /// Marks what is dragged over on a frame.
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

/// What is marked: from where the button was pressed to where the mouse is.
#[derive(Clone, Copy, Debug)]
pub struct Drag {
    region: Rect,
    from: Position,
    to: Position,
}

impl Drag {
    /// Begins within a region.
    pub const fn new(region: Rect, from: Position) -> Self {
        Self { region, from, to: from }
    }

    /// The mouse moved.
    pub fn to(&mut self, at: Position) {
        let Rect { x, y, width, height } = self.region;
        self.to = Position::new(at.x.clamp(x, x + width - 1), at.y.clamp(y, y + height - 1));
    }

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
