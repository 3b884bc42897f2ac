//! Drawing of a form: only visible rows are built. Reads the state, changes nothing.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Clear, Widget};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::input::Edits;
use super::popup::{Chooses, Popup};
use super::sheet::Sheet;
use super::state::FormState;
use crate::base::text::SafeText;

/// Styles and signs of a form; made from the theme.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Look {
    /// Ordinary text.
    pub text: Style,
    /// Labels of less weight, units.
    pub muted: Style,
    /// Hints and what is not set.
    pub faint: Style,
    /// Names of fields.
    pub label: Style,
    /// The one accent.
    pub accent: Style,
    /// A key in the last line.
    pub key: Style,
    /// The row where the keys go.
    pub selection: Style,
    /// Where text is typed.
    pub input: Style,
    /// Wants a look.
    pub warning: Style,
    /// Failed.
    pub error: Style,
    /// Works.
    pub ok: Style,
    /// Words of a server.
    pub foreign: Style,
    /// Rules.
    pub rule: Style,
    /// JSON: names of members.
    pub json_key: Style,
    /// JSON: strings.
    pub json_string: Style,
    /// JSON: numbers.
    pub json_number: Style,
    /// JSON: `true`, `false`, `null`.
    pub json_literal: Style,
    /// Found by a search.
    pub matched: Style,
    /// Added by a change.
    pub added: Style,
    /// Removed by a change.
    pub removed: Style,
    /// Only ASCII signs.
    pub ascii: bool,
    /// How pictures are drawn.
    pub graphics: crate::tui::graphics::Graphics,
}

impl Look {
    /// One of two signs.
    pub const fn sign(&self, unicode: &'static str, ascii: &'static str) -> &'static str {
        if self.ascii { ascii } else { unicode }
    }

    /// A look that works on any terminal, without a theme.
    pub fn plain() -> Self {
        let bold = Style::new().add_modifier(Modifier::BOLD);
        Self {
            accent: bold,
            selection: Style::new().add_modifier(Modifier::REVERSED),
            input: Style::new().add_modifier(Modifier::UNDERLINED),
            faint: Style::new().add_modifier(Modifier::DIM),
            ..Self::default()
        }
    }
}

/// Writes `text` on one row of `area`, cut to `cells`; gives the column after it.
pub fn put(buf: &mut Buffer, x: u16, y: u16, cells: u16, text: &str, style: Style) -> u16 {
    if cells == 0 || y >= buf.area.bottom() || x >= buf.area.right() {
        return x;
    }
    let cells = cells.min(buf.area.right() - x);
    let mut used = 0;
    let mut end = text.len();
    for (at, grapheme) in text.grapheme_indices(true) {
        let width = grapheme.width() as u16;
        if used + width > cells {
            end = at;
            break;
        }
        used += width;
    }
    if end == text.len() {
        return buf.set_stringn(x, y, text, usize::from(cells), style).0;
    }
    // Make room for the sign that says that text was cut.
    let mut keep = end;
    while used >= cells && keep > 0 {
        let Some((at, grapheme)) = text[..keep].grapheme_indices(true).next_back() else { break };
        used -= (grapheme.width() as u16).min(used);
        keep = at;
    }
    let (x, y) = buf.set_stringn(x, y, &text[..keep], usize::from(cells), style);
    buf.set_stringn(x, y, "…", 1, style).0
}

const MAX_EDITOR: u16 = 8;
/// Draws the form in `area`: fields, the line that calls, and an open list to choose from.
pub fn form(state: &FormState, look: &Look, submit: &str, area: Rect, buf: &mut Buffer) {
    let area = area.intersection(buf.area);
    if area.width < 4 || area.height == 0 {
        return;
    }
    let (fields, side) = split(state, area);
    if let Some(fields) = fields {
        Sheet { state, look, hints: hints(area, fields), buf }.fields(submit, fields);
    }
    if let Some(side) = side {
        draw_json(state, look, fields.is_some(), side, buf);
    }
    if let Some(popup) = &state.popup {
        draw_popup(popup, look, popup_area(state, popup, area), buf);
    }
}

/// Width from which the JSON stands beside the fields without being asked for, and what each field
/// takes beside it.
const WIDE: u16 = 100;

/// Where fields and JSON go: side by side where there is room, else the one that has the keys.
fn split(state: &FormState, area: Rect) -> (Option<Rect>, Option<Rect>) {
    let json = state.json();
    let wide = area.width >= WIDE && !state.rows().is_empty();
    if wide || json.is_some() && area.width >= 76 {
        let right = (area.width * 2 / 5).clamp(30, 80);
        let left = Rect { width: area.width - right, ..area };
        return (Some(left), Some(Rect { x: left.right(), width: right, ..area }));
    }
    match json {
        Some(json) if json.focused => (None, Some(area)),
        _ => (Some(area), None),
    }
}

/// Columns for what each field takes, at the right of its value.
fn hints(area: Rect, fields: Rect) -> u16 {
    if area.width >= WIDE { fields.width / 3 } else { 0 }
}

/// Where the fields are, and the line below them that says what is wanted, where there is room.
pub(super) fn body(area: Rect) -> (Rect, Option<Rect>) {
    if area.height < 6 {
        return (area, None);
    }
    let body = Rect { height: area.height - 1, ..area };
    (body, Some(Rect { y: body.bottom(), height: 1, ..area }))
}

/// The rows that are visible and where they stand; the one after the last row is the line that
/// calls.
pub(super) fn window(state: &FormState, body: Rect) -> Vec<(usize, Rect)> {
    let height_of = |row: usize| editor_height(state, row).min(body.height.max(1));
    let cursor = state.cursor();
    let above = (body.height.saturating_sub(height_of(cursor))) / 2;
    let total = state.rows().len() + 1;
    let all: usize = total - 1 + usize::from(height_of(cursor));
    let top = if all <= usize::from(body.height) {
        0
    } else {
        let most =
            total.saturating_sub(usize::from(body.height)) + usize::from(height_of(cursor)) - 1;
        cursor.saturating_sub(usize::from(above)).min(most)
    };
    let mut lines = Vec::new();
    let mut y = body.y;
    for row in top..total {
        if y >= body.bottom() {
            break;
        }
        let height = height_of(row).min(body.bottom() - y);
        lines.push((row, Rect { y, height, ..body }));
        y += height;
    }
    lines
}

/// What of a form is at a place of its `area`.
pub(super) fn hit(state: &FormState, area: Rect, at: Position) -> Option<Spot> {
    if let Some(popup) = &state.popup {
        let outer = popup_area(state, popup, area);
        let line = usize::from(at.y.saturating_sub(outer.y + 1));
        let framed = at.y == outer.y || at.y + 1 == outer.bottom();
        return Some(match outer.contains(at) {
            false => Spot::Outside,
            true if framed => Spot::Frame,
            true => Spot::Entry(popup_top(popup, outer) + line),
        });
    }
    let (fields, side) = split(state, area);
    if side.is_some_and(|side| side.contains(at)) {
        return Some(Spot::Json);
    }
    let lines = window(state, body(fields?).0);
    lines.into_iter().find(|(_, line)| line.contains(at)).map(|(row, _)| Spot::Row(row))
}

/// Something of a form under the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// A row; the one after the last is the line that calls.
    Row(usize),
    /// A line of the open list.
    Entry(usize),
    /// The rules around the open list.
    Frame,
    /// Beside the open list.
    Outside,
    /// The whole value as JSON.
    Json,
}

fn editor_height(state: &FormState, row: usize) -> u16 {
    let edited = state.editor.as_ref().filter(|_| row == state.cursor());
    edited.map_or(1, |editor| match editor.edits {
        Edits::Lines | Edits::Json => (editor.area.lines().len() as u16).clamp(1, MAX_EDITOR),
        _ => 1,
    })
}

pub(super) fn label_width(state: &FormState, top: usize, body: Rect) -> u16 {
    let shown = state.rows().iter().skip(top).take(usize::from(body.height) + 1);
    let widest = shown.map(|row| row.depth * 2 + row.label.width().min(60) as u16 + 6).max();
    widest.unwrap_or(10).clamp(10, (body.width * 2 / 5).max(10))
}

fn draw_json(state: &FormState, look: &Look, ruled: bool, area: Rect, buf: &mut Buffer) {
    let mut area = area;
    if ruled {
        for y in area.y..area.bottom() {
            put(buf, area.x, y, 1, look.sign("│", "|"), look.rule);
        }
        area = Rect { x: area.x + 2, width: area.width.saturating_sub(2), ..area };
    }
    if area.width < 4 || area.height < 2 {
        return;
    }
    let json = state.json();
    let secrets = state.document().has_secrets();
    let (text, style) = match json {
        Some(json) if json.problem().is_some() => {
            let problem = json.problem().unwrap_or_default();
            (format!("{}{problem}", look.sign("⚠ ", "! ")), look.error)
        }
        Some(json) if json.focused => ("JSON · same value, edit either".to_owned(), look.accent),
        None if secrets => ("JSON, without secrets".to_owned(), look.muted),
        _ => ("JSON".to_owned(), look.muted),
    };
    put(buf, area.x, area.y, area.width, &SafeText::line(&text), style);
    let body = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let shown = match json {
        Some(json) if json.focused => return (&json.area).render(body, buf),
        Some(json) => json.area.lines().to_vec(),
        None => {
            let value = state.without_secrets(state.arguments());
            super::json::pretty(Some(&value)).lines().map(str::to_owned).collect()
        }
    };
    for (i, line) in shown.iter().take(usize::from(body.height)).enumerate() {
        let cut: String = line.chars().take(usize::from(body.width) + 8).collect();
        put(buf, body.x, body.y + i as u16, body.width, &SafeText::line(&cut), look.text);
    }
}

/// Where a list to choose from stands: at its field, below it or above where there is more room.
fn popup_area(state: &FormState, popup: &Popup, area: Rect) -> Rect {
    let widest = popup.entries.iter().take(500).map(|e| e.width()).max().unwrap_or(10) as u16;
    let width = (widest + 8).clamp(32, 60).min(area.width);
    let fields = body(split(state, area).0.unwrap_or(area)).0;
    let lines = window(state, fields);
    let top = lines.first().map_or(0, |(row, _)| *row);
    let line = lines.iter().find(|(row, _)| *row == popup.row).map_or(fields, |(_, line)| *line);
    let x = line.x + label_width(state, top, fields) + 1;
    let (above, below) = (line.y - area.y, area.bottom().saturating_sub(line.y + 1));
    let wanted = (popup.narrowed().len() as u16 + 2).clamp(3, 14);
    let height = wanted.min(above.max(below).max(3)).min(area.height);
    let y = if height <= below { line.y + 1 } else { line.y.saturating_sub(height).max(area.y) };
    Rect { x: x.min(area.right() - width), y, width, height }
}

/// The first entry that is visible.
fn popup_top(popup: &Popup, outer: Rect) -> usize {
    popup.selected.saturating_sub(usize::from(outer.height).saturating_sub(3))
}

/// What is laid over a screen: a rule with its title above, a rule below, and nothing shines
/// through.
pub fn popup_frame(look: &Look, title: &str, outer: Rect, buf: &mut Buffer) {
    Clear.render(outer, buf);
    buf.set_style(outer, look.text);
    let rule = look.sign("─", "-").repeat(usize::from(outer.width));
    put(buf, outer.x, outer.y, outer.width, &rule, look.rule);
    put(buf, outer.x, outer.bottom() - 1, outer.width, &rule, look.rule);
    let room = outer.width.saturating_sub(4);
    put(buf, outer.x + 2, outer.y, room, &format!(" {title} "), look.accent);
}

fn draw_popup(popup: &Popup, look: &Look, outer: Rect, buf: &mut Buffer) {
    let narrowed = popup.narrowed();
    let Rect { x, y, width, height } = outer;
    let title = match popup.chooses {
        Chooses::Many(_) => "space marks, enter closes",
        _ => "enter chooses",
    };
    let head =
        if popup.filter.is_empty() { title.to_owned() } else { format!("/ {}", popup.filter) };
    popup_frame(look, &SafeText::line(&head), outer, buf);
    let rows = usize::from(height).saturating_sub(2);
    let top = popup_top(popup, outer);
    for (line, index) in narrowed.iter().skip(top).take(rows).enumerate() {
        let y = y + 1 + line as u16;
        let selected = top + line == popup.selected;
        let style = if selected { look.selection } else { look.text };
        let mark = match popup.chooses {
            Chooses::Many(_) if popup.marked.contains(index) => look.sign("✓ ", "[x] "),
            Chooses::Many(_) => look.sign("  ", "[ ] "),
            _ => "",
        };
        let after = put(buf, x + 1, y, width.saturating_sub(2), mark, style);
        if let Some(entry) = popup.entries.get(*index) {
            put(buf, after, y, (x + width).saturating_sub(after + 1), entry, style);
        }
    }
    if narrowed.is_empty() {
        put(buf, x + 1, y + 1, width - 2, "No matches", look.faint);
    }
}
