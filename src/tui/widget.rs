//! Small building blocks for panes. They draw into a buffer and own no application state.

use ratatui::layout::Margin;

use crate::context::Cx;
use crate::prelude::*;

pub mod browser;
pub mod doc;
pub mod key_line;
pub mod pen;
pub mod stream;
pub mod text_input;

pub use browser::{Browser, BrowserPart, BrowserRegions, ListState, Split, in_sight};
pub use doc::{Doc, DocView, changed};
pub use key_line::KeyLine;
pub use pen::{Pen, width};
pub use stream::{FilterMatch, StreamList};
pub use text_input::{KeepFilter, TextInput};

/// Draws the four sides of `area` with a title in the upper one; returns the region inside.
pub fn frame(
    cx: &Cx<'_>,
    title: &Ink,
    style: (Style, Style),
    area: Rect,
    buf: &mut Buffer,
) -> Rect {
    let area = area.intersection(buf.area);
    let inside = area.inner(Margin::new(1, 1));
    if area.width < 2 || area.height < 2 {
        return inside;
    }
    let (sides, words) = style;
    let [top_left, top_right, bottom_left, bottom_right] = cx.glyphs.corners;
    for (row, left, right) in
        [(0, top_left, top_right), (area.height - 1, bottom_left, bottom_right)]
    {
        let mut pen = Pen::new(buf, area);
        pen.at(0, row).rule(cx.glyphs.horizontal, sides);
        pen.column(0).clip(left, 1, sides).column(area.width - 1).clip(right, 1, sides);
    }
    for row in 1..area.height - 1 {
        let mut pen = Pen::new(buf, area);
        pen.at(0, row).clip(cx.glyphs.vertical, 1, sides);
        pen.column(area.width - 1).clip(cx.glyphs.vertical, 1, sides);
    }
    if !title.as_str().is_empty() && area.width > 6 {
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.column(2).put(" ", words).clip(title, area.width - 6, words).put(" ", words);
    }
    inside
}

/// Draws a vertical rule down `area`.
pub fn vertical_rule(cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    for row in 0..area.height {
        Pen::new(buf, area).at(0, row).clip(cx.glyphs.vertical, 1, cx.style(Role::Rule));
    }
}

/// Shown in a list whose filter matches no row.
pub const NO_MATCHES: &str = "No matches; {back} clears the filter";

/// Draws the text of a list without rows, wrapped; returns the number of lines.
pub fn empty_text(cx: &Cx<'_>, text: &Ink, area: Rect, buf: &mut Buffer) -> u16 {
    let inner = Rect {
        x: area.x + area.width.min(1),
        y: area.y + area.height.min(1),
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(1),
    };
    let mut doc = Doc::new(inner.width);
    doc.text(0, text, Role::Faint);
    doc.render(cx, 0, inner, buf);
    doc.len() as u16
}

/// Draws the line above a filtered list: the filter text, or `text` in its place, and what is at
/// the right. Returns the region where the filter is typed.
pub fn filter_line(
    cx: &Cx<'_>,
    filter: &TextInput,
    text: (Ink, Role),
    right: &[(Ink, Role)],
    (area, buf): (Rect, &mut Buffer),
) -> Rect {
    let total: u16 = right.iter().map(|(text, _)| width(text)).sum();
    let room = area.width.saturating_sub(total + 3);
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    pen.put("/ ", cx.style(Role::Accent)).clip(text.0, room, cx.style(text.1));
    pen.column(area.width.saturating_sub(total).max(2));
    for (text, role) in right {
        pen.put(text, cx.style(*role));
    }
    let typed = Rect { x: area.x + 2, width: room.min(area.width.saturating_sub(2)), ..area };
    if filter.editing {
        filter.render(typed, buf, cx.style(Role::Input));
    }
    typed
}

/// Draws a scroll bar on the right edge of `area` when not all rows fit.
pub fn scroll_bar(cx: &Cx<'_>, len: usize, top: usize, area: Rect, buf: &mut Buffer) {
    let height = usize::from(area.height);
    if len <= height || area.width < 4 || height < 2 {
        return;
    }
    let thumb = (height * height / len).max(1);
    let at = top * (height - thumb) / (len - height);
    let edge = Rect { x: area.right() - 1, width: 1, ..area };
    for row in at..(at + thumb).min(height) {
        Pen::new(buf, edge).at(0, row as u16).put(cx.glyphs.thumb, cx.style(Role::Rule));
    }
}
