//! Small building blocks for panes. They draw into a buffer and own no application state; most are
//! those of the crate `terminal`.

use crate::context::Cx;
use crate::prelude::*;

pub mod changed;
pub mod stream;
mod words;

pub use changed::changed;
pub use stream::{FilterMatch, StreamList};
pub use terminal::browser::{Browser, BrowserPart, BrowserRegions, Split};
pub use terminal::doc::{Doc, DocView, empty_text};
pub use terminal::json_line::json_line;
pub use terminal::key_line::KeyLine;
pub use terminal::list::{ListState, in_sight};
pub use terminal::parts::{filter_line, frame, scroll_bar, vertical_rule};
pub use terminal::pen::{Pen, width};
pub use terminal::text_input::{KeepFilter, TextInput};
pub use terminal::{browser, doc, key_line, pen, text_input};
pub use words::{WordBudget, differing_words};

/// Shown in a list whose filter matches no row.
pub const NO_MATCHES: &str = "No matches; {back} clears the filter";

/// Draws why a browser lists no row: `nothing` if `total` is zero, otherwise that the filter hides
/// them. Returns the number of lines used.
pub fn render_empty<I: Clone + PartialEq>(
    browser: &Browser<I>,
    cx: &Cx<'_>,
    (nothing, total): (&Ink, usize),
    area: Rect,
    buf: &mut Buffer,
) -> u16 {
    let list = browser.regions(area).list;
    if !browser.rows.is_empty() || list.is_empty() {
        return 0;
    }
    let hidden = cx.spelled(&[], NO_MATCHES);
    empty_text(cx, if total > 0 { &hidden } else { nothing }, list, buf)
}
