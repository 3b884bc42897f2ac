//! Small parts of lists and texts. They draw into a buffer and own no state.

use ratatui::layout::Margin;

use crate::look::Look;
use crate::pen::{Pen, width};
use crate::prelude::*;
use crate::text_input::TextInput;

/// Draws a vertical rule down `area`.
pub fn vertical_rule(look: &Look<'_>, area: Rect, buf: &mut Buffer) {
    for row in 0..area.height {
        Pen::new(buf, area).at(0, row).clip(look.glyphs.vertical, 1, look.style(Role::Rule));
    }
}

/// Draws the four sides of `area` with a title in the upper one; returns the region inside.
pub fn frame(
    look: &Look<'_>,
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
    let [top_left, top_right, bottom_left, bottom_right] = look.glyphs.corners;
    for (row, left, right) in
        [(0, top_left, top_right), (area.height - 1, bottom_left, bottom_right)]
    {
        let mut pen = Pen::new(buf, area);
        pen.at(0, row).rule(look.glyphs.horizontal, sides);
        pen.column(0).clip(left, 1, sides).column(area.width - 1).clip(right, 1, sides);
    }
    for row in 1..area.height - 1 {
        let mut pen = Pen::new(buf, area);
        pen.at(0, row).clip(look.glyphs.vertical, 1, sides);
        pen.column(area.width - 1).clip(look.glyphs.vertical, 1, sides);
    }
    if !title.as_str().is_empty() && area.width > 6 {
        let mut pen = Pen::new(buf, area).ellipsis(look.glyphs.ellipsis);
        pen.column(2).put(" ", words).clip(title, area.width - 6, words).put(" ", words);
    }
    inside
}

/// Draws the line above a filtered list: the filter text, or `text` in its place, and what is at
/// the right. Returns the region where the filter is typed.
pub fn filter_line(
    look: &Look<'_>,
    filter: &TextInput,
    text: (Ink, Role),
    right: &[(Ink, Role)],
    (area, buf): (Rect, &mut Buffer),
) -> Rect {
    let total: u16 = right.iter().map(|(text, _)| width(text)).sum();
    let room = area.width.saturating_sub(total + 3);
    let mut pen = Pen::new(buf, area).ellipsis(look.glyphs.ellipsis);
    let (mut words, role) = text;
    if role == Role::Faint && width(&words) > room {
        words = leading_words(&words, room);
    }
    pen.put("/ ", look.style(Role::Accent)).clip(words, room, look.style(role));
    pen.column(area.width.saturating_sub(total).max(2));
    for (text, role) in right {
        pen.put(text, look.style(*role));
    }
    let typed = Rect { x: area.x + 2, width: room.min(area.width.saturating_sub(2)), ..area };
    if filter.editing {
        filter.render(typed, buf, look.style(Role::Input));
    }
    typed
}

/// The first words of a hint, as many as fit whole.
fn leading_words(hint: &Ink, room: u16) -> Ink {
    let text = hint.as_str();
    let ends = text.match_indices(' ').map(|(end, _)| &text[..end]);
    let fits = ends.map(Ink::line).take_while(|words| width(words) <= room).last();
    let fits = fits.unwrap_or_default();
    Ink::line(fits.as_str().strip_suffix(" or").unwrap_or(fits.as_str()))
}

/// Draws a scroll bar on the right edge of `area` when not all rows fit.
pub fn scroll_bar(look: &Look<'_>, len: usize, top: usize, area: Rect, buf: &mut Buffer) {
    let height = usize::from(area.height);
    if len <= height || area.width < 4 || height < 2 {
        return;
    }
    let thumb = (height * height / len).max(1);
    let at = top * (height - thumb) / (len - height);
    let edge = Rect { x: area.right() - 1, width: 1, ..area };
    for row in at..(at + thumb).min(height) {
        Pen::new(buf, edge).at(0, row as u16).put(look.glyphs.thumb, look.style(Role::Rule));
    }
}
