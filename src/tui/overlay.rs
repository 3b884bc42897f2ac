//! Dialogs over the panes and screens: texts, lists to pick from, questions. Each is a
//! [`crate::screen::Screen`] with a frame; here is what they share.

use ratatui::style::{Color, Modifier};
use ratatui::widgets::{Clear, Widget as _};
use unicode_width::UnicodeWidthStr as _;

use crate::keymap::KeyScope;
use crate::pane::Cx;
use crate::prelude::*;
use crate::screen::Screen;
use crate::widget::{Pen, frame};

mod add_server;
mod confirm;
mod consent;
mod import;
mod input;
mod next_keys;
mod palette;
mod reader;
mod sign_in;
mod why;
pub use add_server::AddServerDialog;
pub use confirm::Confirm;
pub use consent::Consent;
pub use import::ImportDialog;
pub use input::InputDialog;
pub use next_keys::{NextKey, NextKeys};
pub use palette::{NamePrompt, Named, Palette};
pub use reader::TextReader;
pub use sign_in::SignInDialog;
pub use why::{WhyAbout, WhyDialog};

/// The region of a dialog on a screen; `None` if it is no dialog.
pub fn frame_area(dialog: &dyn Screen, whole: Rect) -> Option<Rect> {
    let (_, width, height) = dialog.frame(whole)?;
    // A few remaining columns of the pane beside it would only be noise.
    let width = if width + 8 >= whole.width { whole.width } else { width };
    let height = height.min(whole.height);
    if dialog.is_at_foot() {
        // Above the messages and the keys.
        let (x, y) = (whole.right() - width, whole.bottom().saturating_sub(height + 2));
        return Some(Rect { x, y: y.max(whole.y), width, height });
    }
    Some(Rect {
        x: whole.x + (whole.width - width) / 2,
        y: whole.y + (whole.height - height) / 3,
        width,
        height,
    })
}

/// Width of a reader's text on a screen.
pub fn reader_width(whole: Rect) -> u16 {
    whole.width.saturating_sub(8).clamp(20, 104)
}

/// The region within a frame.
pub fn inner(frame: Rect) -> Rect {
    Rect {
        x: frame.x + 2.min(frame.width),
        y: frame.y + 2.min(frame.height),
        width: frame.width.saturating_sub(4),
        height: frame.height.saturating_sub(3),
    }
}

/// Draws the keys of a dialog at its foot, each with its label; `None` leaves one out.
fn keys(
    cx: &Cx<'_>,
    scope: KeyScope,
    pen: &mut Pen<'_>,
    word: impl Fn(Action) -> Option<&'static str>,
) {
    for row in cx.keymap.rows(&[scope]).into_iter().filter(|row| row.footer > 0) {
        if let Some(word) = word(row.action) {
            pen.put(Ink::line(&row.chords[0].to_string()), cx.style(Role::Key));
            pen.put(ink!(" {}   ", word), cx.style(Role::Muted));
        }
    }
}

/// Draws a dialog over what is there, which is dimmed: a frame with the title, on a ground of its
/// own.
pub fn render(dialog: &dyn Screen, cx: &Cx<'_>, whole: Rect, buf: &mut Buffer) {
    let Some((title, ..)) = dialog.frame(whole) else { return };
    let area = frame_area(dialog, whole).unwrap_or(whole).intersection(buf.area);
    cut_off(area, buf);
    Clear.render(area, buf);
    buf.set_style(area, cx.style(Role::Text));
    frame(cx, &title, (cx.style(Role::Accent), cx.style(Role::Accent)), area, buf);
    dialog.render(cx, inner(area), buf);
    let Some(raised) = cx.theme.raised() else { return };
    let ground = cx.style(Role::Text).bg;
    for at in area.positions() {
        let cell = &mut buf[at];
        if Some(cell.bg) == ground {
            cell.bg = raised;
        }
    }
}

/// Dims what is drawn so far, so that a dialog over it stands out.
pub fn dim(cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let mut faint = cx.style(Role::Text).patch(cx.style(Role::Faint));
    // Without colours, nothing else tells what lies behind.
    if matches!(faint.fg, None | Some(Color::Reset)) {
        faint = faint.add_modifier(Modifier::DIM);
    }
    for at in area.intersection(buf.area).positions() {
        let cell = &mut buf[at];
        cell.modifier = Modifier::empty();
        // A ground of its own, as a match has, would be the brightest thing on the screen.
        cell.bg = Color::Reset;
        cell.set_style(faint);
    }
}

/// Blanks the wide characters that would stick out from below a frame at its left side.
fn cut_off(area: Rect, buf: &mut Buffer) {
    let Some(x) = area.x.checked_sub(1) else { return };
    for y in area.top()..area.bottom() {
        if buf[(x, y)].symbol().width() > 1 {
            buf[(x, y)].set_symbol(" ");
        }
    }
}
