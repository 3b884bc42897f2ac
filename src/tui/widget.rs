//! Small parts panes are drawn with. They draw into a buffer and own no application state.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::tui::pane::Cx;
use crate::tui::theme::Role;

pub mod browser;
pub mod doc;
pub mod list;
pub mod pen;
pub mod stream;
pub mod text_input;

pub use browser::{Browser, Part, Regions};
pub use doc::Doc;
pub use list::ListState;
pub use pen::{Pen, width};
pub use stream::Stream;
pub use text_input::TextInput;

/// Draws a vertical rule down `area`.
pub fn vertical_rule(cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    for row in 0..area.height {
        Pen::new(buf, area).at(0, row).clip(cx.glyphs.vertical, 1, cx.style(Role::Rule));
    }
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
