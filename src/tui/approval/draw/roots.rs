//! Drawing the roots of a server while they are edited.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};

use crate::tui::approval::roots::RootsEditor;
use crate::tui::ink::{Ink, ink};
use crate::tui::model::Model;
use crate::tui::pane::Cx;
use crate::tui::theme::Role;
use crate::tui::widget::{Pen, TextInput};

/// Draws the whole screen.
pub fn render(editor: &RootsEditor, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let area = area.intersection(buf.area);
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    pen.put(" roots shared with ", cx.style(Role::Muted));
    pen.put(Model::name(&editor.server), cx.style(Role::Heading));
    let row = |n: u16| Rect { y: area.y + n, height: u16::from(n < area.height), ..area };
    Pen::new(buf, row(1)).rule(cx.glyphs.horizontal, cx.style(Role::Rule));
    let says = "folders it may look at; the server is told of changes";
    Pen::new(buf, row(2))
        .ellipsis(cx.glyphs.ellipsis)
        .put(ink!(" {}", says), cx.style(Role::Muted));
    let place = (area.width * 3 / 5).max(20).min(area.width);
    let mut pen = Pen::new(buf, row(4));
    pen.put("   folder or file:// URI", cx.style(Role::Faint)).column(place + 2);
    pen.put("name", cx.style(Role::Faint));
    let visible = usize::from(area.height.saturating_sub(7)).max(1);
    let top = editor.at.saturating_sub(visible - 1);
    for (n, line) in editor.lines.iter().enumerate().skip(top).take(visible) {
        let at = row(5 + (n - top) as u16);
        let here = n == editor.at;
        let sign = if here { cx.glyphs.cursor } else { " " };
        Pen::new(buf, at).put(ink!(" {}", sign), cx.style(Role::Accent));
        let left = Rect { x: at.x + 3, width: place.saturating_sub(4), ..at };
        let right = Rect { x: at.x + place + 2, width: area.width.saturating_sub(place + 3), ..at };
        input(&line.place, here && !editor.in_name, cx, left, buf);
        input(&line.name, here && editor.in_name, cx, right, buf);
    }
    if let Some(notice) = &editor.notice {
        let at = row(6 + (editor.lines.len().min(visible)) as u16);
        let mut pen = Pen::new(buf, at).ellipsis(cx.glyphs.ellipsis);
        pen.put(ink!("   {}", notice), cx.style(Role::Error));
    }
}

/// The line under the mouse, and whether it is its name.
pub fn roots_spot(editor: &RootsEditor, area: Rect, at: Position) -> Option<(usize, bool)> {
    let row = usize::from(at.y.checked_sub(area.y + 5)?);
    let visible = usize::from(area.height.saturating_sub(7)).max(1);
    let top = editor.at.saturating_sub(visible - 1);
    let line = top + row;
    (row < visible && line < editor.lines.len()).then(|| (line, at.x >= area.x + name_column(area)))
}

/// The column of the names.
fn name_column(area: Rect) -> u16 {
    (area.width * 3 / 5).max(20).min(area.width) + 2
}

fn input(line: &TextInput, here: bool, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let area = area.intersection(buf.area);
    if area.is_empty() {
        return;
    }
    if here {
        line.render(area, buf, cx.style(Role::Input));
    } else {
        let text = Ink::line(line.text());
        Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis).put(text, cx.style(Role::Text));
    }
}
