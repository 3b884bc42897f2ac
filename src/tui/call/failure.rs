//! A call that has no result: what is said of it, and what to do about it, in as many rows as that
//! takes. Reads, changes nothing.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::run::Run;
use crate::base::text::SafeText;
use crate::error::Error;
use crate::tui::form::draw::{Look, put};
use crate::tui::widget::doc::wrap;

/// Most of what a server says in its error that is shown, in characters.
const DATA: usize = 20_000;

/// Draws it; a last line says what does not fit.
pub(super) fn draw(look: &Look, run: &Run, error: &Error, area: Rect, buf: &mut Buffer) {
    let room = area.width.max(8);
    let texts = said(look, run, error);
    let mut rows = texts.iter().flat_map(|(text, style)| {
        text.lines().flat_map(move |line| wrap(line, room)).map(move |row| (row, *style))
    });
    for y in area.y..area.bottom() {
        let Some((row, style)) = rows.next() else { return };
        let last = y + 1 == area.bottom();
        if last && rows.next().is_some() {
            put(
                buf,
                area.x + 1,
                y,
                room,
                "… the rest is among the messages in Traffic",
                look.faint,
            );
            return;
        }
        put(buf, area.x, y, area.width, row, style);
    }
}

/// What is said: the reason, every violation, what the server added to its error, and what to do.
fn said(look: &Look, run: &Run, error: &Error) -> Vec<(SafeText, Style)> {
    let mut out = vec![(SafeText::block(&error.message), look.text)];
    if let Some(next) = run.ending().map(|ending| ending.next).filter(|next| !next.is_empty()) {
        let text = format!("{} {next}", look.sign("↳", ">"));
        out.push((SafeText::line(&text), look.muted));
    }
    for violation in &error.violations {
        let text = format!("  {}  {}", violation.pointer, violation.message);
        out.push((SafeText::line(&text), look.text));
    }
    if let Some(rpc) = &error.rpc {
        if !error.message.contains(&rpc.message) {
            let code = rpc.code.map_or_else(|| "no code".to_owned(), |code| code.to_string());
            let text = format!("JSON-RPC error {code}: {}", rpc.message);
            out.push((SafeText::line(&text), look.foreign));
        }
        if let Some(data) = &rpc.data {
            let text = serde_json::to_string_pretty(data).unwrap_or_default();
            let text: String = text.chars().take(DATA).collect();
            out.push((SafeText::block(&text), look.foreign));
        }
    }
    out
}
