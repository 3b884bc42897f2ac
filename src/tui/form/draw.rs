//! Drawing of a form; only visible rows are drawn. Reads the state, changes nothing.

use std::collections::HashMap;

use ratatui::widgets::{Clear, Widget};
use unicode_width::UnicodeWidthStr;

use crate::form::check::Weight;
use crate::form::editor::{Edits, JsonView, LineEditor, Popup, pretty};
use crate::form::row::{Field, FieldKind, FormRow, RowKind, TYPES_SLOT};
use crate::form::state::FormState;
use crate::prelude::*;
use crate::widget::doc::wrap;
use crate::widget::text_input::draw_area;
use crate::widget::{Pen, json_line};
use base::pointer;
use schema::Types;

pub use terminal::look::Styles;

/// Writes `text` at a position, cut to `cells`; returns the column after it.
pub fn put(buf: &mut Buffer, x: u16, y: u16, cells: u16, text: &str, style: Style) -> u16 {
    x + Pen::new(buf, Rect::new(x, y, cells, 1)).cut(text, cells, style).position()
}

/// Most rows of a line editor.
const MAX_EDITOR_ROWS: usize = 8;
/// Least rows of the text box of a field that is shown first.
const MIN_TEXT_BOX_ROWS: usize = 3;

/// Draws the form in `area`: fields, JSON, the submit line, and an open list.
pub fn form(state: &FormState, look: &Styles, submit: &str, area: Rect, buf: &mut Buffer) {
    let area = area.intersection(buf.area);
    if area.width < 4 || area.height == 0 {
        return;
    }
    let (fields, side) = split(state, area);
    if let Some(fields) = fields {
        Sheet { state, look, buf }.fields(submit, fields);
    }
    if let Some(side) = side {
        draw_json(state, look, fields.is_some(), side, buf);
    }
    if let Some(popup) = &state.popup {
        draw_popup(state, popup, look, popup_area(state, popup, area), buf);
    }
}

/// Width, in columns, from which the JSON is always shown beside the fields.
const MIN_WIDE_COLUMNS: u16 = 130;
/// Rows from which fields and JSON have room for both, one below the other.
const MIN_STACKED_ROWS: u16 = 6;
/// Columns beside the labels from which the hint of each field is shown beside its value.
const MIN_HINT_COLUMNS: u16 = 40;
/// Fewest columns for the values of fields beside their hints.
const MIN_VALUE_COLUMNS: u16 = 16;
/// Most rows for the hint of the field that has the focus.
const MAX_HINT_ROWS: usize = 5;

/// The regions of fields and JSON: side by side if there is room, otherwise the focused one.
fn split(state: &FormState, area: Rect) -> (Option<Rect>, Option<Rect>) {
    let wide = area.width >= MIN_WIDE_COLUMNS && !state.rows().is_empty();
    if wide || state.json() != JsonView::Closed && area.width >= 76 {
        let right = (area.width * 2 / 5).clamp(30, 80);
        let left = Rect { width: area.width - right, ..area };
        return (Some(left), Some(Rect { x: left.right(), width: right, ..area }));
    }
    match state.json() {
        JsonView::Focused => (None, Some(area)),
        // What cannot be read stays in sight, below the fields.
        JsonView::Open if state.broken_json().is_some() && area.height >= MIN_STACKED_ROWS => {
            let height = (area.height / 3).max(3);
            let fields = Rect { height: area.height - height, ..area };
            (Some(fields), Some(Rect { y: fields.bottom(), height, ..area }))
        }
        JsonView::Open | JsonView::Closed => (Some(area), None),
    }
}

/// The visible rows and their regions; the one after the last row is the submit line.
pub(super) fn window(state: &FormState, body: Rect) -> Vec<(usize, Rect)> {
    let height_of = |row: usize| {
        let hint = hint_lines(state, row, body).len() as u16;
        (editor_height(state, row) + hint).min(body.height.max(1))
    };
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

/// The part of a form at a position of its `area`.
pub(super) fn hit(state: &FormState, area: Rect, at: Position) -> Option<FormSpot> {
    if let Some(popup) = &state.popup {
        let outer = popup_area(state, popup, area);
        let line = usize::from(at.y.saturating_sub(outer.y + 1));
        let framed = at.y == outer.y
            || at.y + 1 == outer.bottom()
            || at.x == outer.x
            || at.x + 1 == outer.right();
        return Some(match outer.contains(at) {
            false => FormSpot::Outside,
            true if framed => FormSpot::Frame,
            true => FormSpot::Entry(popup_top(popup, outer) + line),
        });
    }
    let (fields, side) = split(state, area);
    if side.is_some_and(|side| side.contains(at)) {
        return Some(FormSpot::Json);
    }
    let lines = window(state, fields?);
    lines.into_iter().find(|(_, line)| line.contains(at)).map(|(row, _)| FormSpot::Row(row))
}

/// A part of a form under the mouse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormSpot {
    /// A row; the one after the last is the submit line.
    Row(usize),
    /// An entry of the open list.
    Entry(usize),
    /// The rules above and below the open list.
    Frame,
    /// Outside the open list.
    Outside,
    /// The whole value as JSON.
    Json,
}

fn editor_height(state: &FormState, row: usize) -> u16 {
    let is_edited = row == state.cursor() && state.json() != JsonView::Focused;
    let edited = state.editor.as_ref().filter(|_| is_edited);
    let least = match state.rows().get(row) {
        Some(row) if state.is_text_box(row) => MIN_TEXT_BOX_ROWS,
        _ => 1,
    };
    edited.map_or(1, |editor| match editor.edits {
        Edits::Lines | Edits::Json => {
            editor.area.lines().len().clamp(least, MAX_EDITOR_ROWS) as u16
        }
        _ => 1,
    })
}

pub(super) fn label_width(state: &FormState, top: usize, body: Rect) -> u16 {
    let shown = state.rows().iter().skip(top).take(usize::from(body.height) + 1);
    let widest = shown.map(|row| row.depth * 2 + row.label.width().min(60) as u16 + 6).max();
    widest.unwrap_or(10).clamp(10, (body.width * 2 / 5).max(10))
}

fn draw_json(state: &FormState, look: &Styles, ruled: bool, area: Rect, buf: &mut Buffer) {
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
    let (json, secrets) = (state.json(), state.document.has_secrets());
    let (text, style) = match state.broken_json() {
        Some(broken) => (format!("{}{}", look.sign("⚠ ", "! "), broken.message), look.error),
        None if json == JsonView::Focused => {
            ("JSON · same value, edit either".to_owned(), look.accent)
        }
        None if json == JsonView::Closed && secrets => {
            ("JSON, without secrets".to_owned(), look.muted)
        }
        None => ("JSON".to_owned(), look.muted),
    };
    put(buf, area.x, area.y, area.width, &SafeText::line(&text), style);
    let body = Rect { y: area.y + 1, height: area.height - 1, ..area };
    if let Some(editor) = state.editor.as_ref().filter(|_| json == JsonView::Focused) {
        return draw_area(&editor.area, body, buf);
    }
    let shown = match json {
        JsonView::Closed => pretty(Some(&state.spelled(state.without_secrets(state.arguments())))),
        JsonView::Open | JsonView::Focused => state.json_text(),
    };
    for (i, line) in shown.lines().take(usize::from(body.height)).enumerate() {
        let cut = SafeText::cut(line, usize::from(body.width) + 8);
        let mut pen = Pen::new(buf, Rect { y: body.y + i as u16, height: 1, ..body });
        for (part, role) in json_line(&cut) {
            pen.write(part, look.json(role));
        }
    }
}

/// The region of the open list: below its field, or above it if there is not enough room.
fn popup_area(state: &FormState, popup: &Popup, area: Rect) -> Rect {
    let widest = popup.entries.iter().take(500).map(|e| e.width()).max().unwrap_or(10);
    let width = ((widest + 8).clamp(34, 62) as u16).min(area.width);
    let fields = split(state, area).0.unwrap_or(area);
    let lines = window(state, fields);
    let top = lines.first().map_or(0, |(row, _)| *row);
    let line =
        lines.iter().find(|(row, _)| *row == state.cursor()).map_or(fields, |(_, line)| *line);
    // Its entries begin where the value does.
    let x = line.x + label_width(state, top, fields).saturating_sub(1);
    let (above, below) = (line.y - area.y, area.bottom().saturating_sub(line.y + 1));
    let wanted = (popup.narrowed().len() + 2).clamp(3, 14) as u16;
    let height = wanted.min(above.max(below).max(3)).min(area.height);
    let y = if height <= below { line.y + 1 } else { line.y.saturating_sub(height).max(area.y) };
    Rect { x: x.min(area.right() - width), y, width, height }
}

/// The first entry that is visible.
fn popup_top(popup: &Popup, outer: Rect) -> usize {
    popup.selected.saturating_sub(usize::from(outer.height).saturating_sub(3))
}

/// Draws the open list in a frame of its own, with its title above.
fn draw_popup(state: &FormState, popup: &Popup, look: &Styles, outer: Rect, buf: &mut Buffer) {
    let narrowed = popup.narrowed();
    let Rect { x, y, width, height } = outer;
    let many = state.chooses_many();
    let title = if many { "space marks, enter closes" } else { "enter chooses" };
    let head =
        if popup.filter.is_empty() { title.to_owned() } else { format!("/ {}", popup.filter) };
    Clear.render(outer, buf);
    buf.set_style(outer, look.text);
    let rule = look.sign("─", "-").repeat(usize::from(width.saturating_sub(2)));
    let (upper, lower) = (look.sign("╭", "+").to_owned(), look.sign("╰", "+").to_owned());
    let upper = upper + &rule + look.sign("╮", "+");
    let lower = lower + &rule + look.sign("╯", "+");
    put(buf, x, y, width, &upper, look.accent);
    put(buf, x, outer.bottom() - 1, width, &lower, look.accent);
    for y in y + 1..outer.bottom() - 1 {
        for x in [x, outer.right() - 1] {
            put(buf, x, y, 1, look.sign("│", "|"), look.accent);
        }
    }
    let head = format!(" {} ", SafeText::line(&head));
    put(buf, x + 2, y, width.saturating_sub(4), &head, look.accent);
    let rows = usize::from(height).saturating_sub(2);
    let top = popup_top(popup, outer);
    for (line, index) in narrowed.iter().skip(top).take(rows).enumerate() {
        let row =
            Rect { x: x + 1, y: y + 1 + line as u16, width: width.saturating_sub(2), height: 1 };
        let selected = top + line == popup.selected;
        let style = if selected { look.selection } else { look.text };
        buf.set_style(row, style);
        let mark = match state.marked(*index) {
            Some(true) => look.sign("✓ ", "[x] "),
            Some(false) => look.sign("  ", "[ ] "),
            None => "",
        };
        let after = put(buf, row.x + 1, row.y, row.width.saturating_sub(2), mark, style);
        if let Some(entry) = popup.entries.get(*index) {
            put(buf, after, row.y, row.right().saturating_sub(after + 1), entry, style);
        }
    }
    if narrowed.is_empty() {
        put(buf, x + 2, y + 1, width.saturating_sub(4), "No matches", look.faint);
    }
}

// The fields of a form: one row each, with the line editor and problems.

/// Minimum width of the line editor if there is room, in columns.
const MIN_FIELD_COLUMNS: u16 = 12;

/// Columns of the labels and of the values of fields; their hints have the rest.
#[derive(Clone, Copy, Debug)]
struct FieldColumns {
    labels: u16,
    values: u16,
}

/// Draws the fields of a form.
pub(super) struct Sheet<'a> {
    pub(super) state: &'a FormState,
    pub(super) look: &'a Styles,
    pub(super) buf: &'a mut Buffer,
}

impl Sheet<'_> {
    /// Draws the visible fields and the submit line.
    pub(super) fn fields(&mut self, submit: &str, body: Rect) {
        let lines = window(self.state, body);
        let labels = label_width(self.state, lines.first().map_or(0, |(row, _)| *row), body);
        let room = body.width.saturating_sub(labels + 1);
        let values = lines.iter().map(|(row, _)| self.value_columns(*row)).max().unwrap_or(0);
        let values = (values + 2).max(MIN_VALUE_COLUMNS).min(room / 2);
        let columns = FieldColumns { labels, values };
        for (row, line) in lines {
            match self.state.rows().get(row) {
                Some(found) => {
                    let height = editor_height(self.state, row).min(line.height);
                    self.row(row, found, columns, Rect { height, ..line });
                    let below = Rect { y: line.y + height, height: line.height - height, ..line };
                    self.hint(row, body, below);
                }
                None => self.submit(submit, line),
            }
        }
    }

    /// Draws the hint of the row that has the focus, below its value.
    fn hint(&mut self, row: usize, body: Rect, area: Rect) {
        let indent = hint_indent(self.state, row);
        for (y, (text, tone)) in (area.y..area.bottom()).zip(hint_lines(self.state, row, body)) {
            put(self.buf, area.x, y, 1, self.look.sign("▎", "|"), self.look.accent);
            let x = area.x + indent;
            put(self.buf, x, y, area.right().saturating_sub(x), &text, tone.style(self.look));
        }
    }

    /// Columns for the value of a row without the focus, and its problem.
    fn value_columns(&self, index: usize) -> u16 {
        let Some(row) = self.state.rows().get(index).filter(|_| !self.is_here(index)) else {
            return 0;
        };
        let text = SafeText::cut(&self.text(row, true).0, 400);
        let problem = self.state.problem_at(index).map_or(0, |problem| problem.message.width() + 4);
        let last = row.field().is_some() && self.state.is_from_last_time(&row.pointer);
        let mark = if last { self.last_time().width() } else { 0 };
        (text.width() + mark + problem).try_into().unwrap_or(u16::MAX)
    }

    /// Whether this row has the focus.
    fn is_here(&self, index: usize) -> bool {
        index == self.state.cursor() && self.state.json() != JsonView::Focused
    }

    fn row(&mut self, index: usize, row: &FormRow, columns: FieldColumns, area: Rect) {
        let (look, label_width) = (self.look, columns.labels);
        let here = self.is_here(index);
        if here {
            put(self.buf, area.x, area.y, 1, look.sign("▎", "|"), look.accent);
        }
        let indent = area.x + 1 + (row.depth * 2).min(area.width / 3);
        let sign = match &row.kind {
            RowKind::Field { folded: Some(true), .. } => look.sign("▸ ", "> "),
            RowKind::Field { folded: Some(false), .. } => look.sign("▾ ", "v "),
            _ => "",
        };
        let room = |x: u16| (area.x + label_width).saturating_sub(x);
        let style = if here { look.accent } else { look.label };
        let mut x = put(self.buf, indent, area.y, room(indent), sign, look.muted);
        x = put(self.buf, x, area.y, room(x), &row.label, style);
        if row.required && !row.removable && !row.label.is_empty() {
            put(self.buf, x, area.y, 2, " *", look.muted);
        }
        let left = area.x + label_width + 1;
        if left >= area.right() {
            return;
        }
        let room = area.right() - left;
        let takes = matches!(row.kind, RowKind::Field { .. } | RowKind::Choice { .. });
        let hinted = room >= MIN_HINT_COLUMNS && takes && !here;
        let hints = if hinted { room - columns.values } else { 0 };
        let value = Rect { x: left, width: area.right() - left - hints, ..area };
        let editor = self.state.editor.as_ref().filter(|_| here);
        let end = match editor {
            Some(editor) => self.editor(editor, row, value),
            None => self.value(row, value, hints > 0),
        };
        let mut is_covered = false;
        if let Some(problem) = self.state.problem_at(index) {
            let style = if problem.weight == Weight::Note { look.warning } else { look.error };
            let wide = (2 + problem.message.width()).min(24) as u16;
            let at = (end + 2).min(area.right().saturating_sub(wide).max(left));
            if editor.is_none() && at <= end {
                // Half a word says nothing: the value is cut where the problem begins, or left out.
                let blank = " ".repeat(usize::from(at - left));
                put(self.buf, left, area.y, at - left, &blank, look.text);
                if self.state.at(&row.pointer).is_some() {
                    self.value(row, Rect { width: (at - left).saturating_sub(1), ..value }, false);
                }
            }
            let mut pen = Pen::new(self.buf, Rect { height: 1, ..area });
            pen.column(at - area.x).write(look.sign("⚠ ", "! "), style);
            pen.write(&problem.message, style);
            is_covered = usize::from(at) + 2 + problem.message.width() > value.right().into();
        }
        if hints > 0 && !is_covered {
            self.takes(row, Rect { x: value.right() + 1, width: hints - 1, height: 1, ..area });
        }
    }

    /// Draws the line editor of a row; returns the column after it.
    fn editor(&mut self, editor: &LineEditor, row: &FormRow, area: Rect) -> u16 {
        let widest = editor.area.lines().iter().map(|l| l.width()).max().unwrap_or(0);
        let wide = widest.min(area.width.into()) as u16;
        let is_box = self.state.is_text_box(row);
        let width = if let Some(problem) = self.state.problem_at(self.state.cursor())
            && is_box
        {
            // A text box is as wide as there is room, with the problem after it.
            let note = (problem.message.width() + 5).min(26) as u16;
            area.width.saturating_sub(note).max(8).min(area.width)
        } else if self.state.problem_at(self.state.cursor()).is_some() {
            // The problem is shown after the field, not in it.
            let most = area.width.saturating_sub(26);
            (wide + 2).max(MIN_FIELD_COLUMNS.min(most)).min(most).max(8).min(area.width)
        } else {
            area.width
        };
        self.buf.set_style(Rect { width, ..area }, self.look.input);
        draw_area(&editor.area, Rect { width, ..area }, self.buf);
        if is_box {
            return area.x + width;
        }
        let is_free = self.state.problem_at(self.state.cursor()).is_none();
        if editor.area.is_empty() && is_free && width > 12 {
            let is_null = self.state.at(&row.pointer).is_some_and(Value::is_null);
            let ghost = if is_null { "null".to_owned() } else { ghost(row, editor.edits) };
            // A problem that follows on the line must not be drawn over the placeholder.
            return put(self.buf, area.x + 1, area.y, width - 1, &ghost, self.look.faint);
        }
        area.x + (wide + 1).max(MIN_FIELD_COLUMNS.min(width)).min(width)
    }

    /// The mark of a value that was left from last time.
    const fn last_time(&self) -> &'static str {
        self.look.sign("  ↺ last time", "  (last time)")
    }

    /// The value of a row in words, beside its hint or alone.
    fn text(&self, row: &FormRow, hinted: bool) -> (String, Style) {
        shown(self.state, row, self.state.at(&row.pointer), hinted, self.look)
    }

    /// Draws the value of a row; returns the column after it.
    fn value(&mut self, row: &FormRow, area: Rect, hinted: bool) -> u16 {
        let (text, style) = self.text(row, hinted);
        let limited = SafeText::cut(&text, usize::from(area.width) * 2 + 8);
        let last = row.field().is_some() && self.state.is_from_last_time(&row.pointer);
        let mark = self.last_time();
        let room = if last { area.width.saturating_sub(mark.width() as u16) } else { area.width };
        let room = if room < 8 { area.width } else { room };
        let end = put(self.buf, area.x, area.y, room, &limited, style);
        if !last || room == area.width {
            return end;
        }
        put(self.buf, end, area.y, area.right().saturating_sub(end), mark, self.look.muted)
    }

    /// Draws the submit line, and why the form cannot be sent yet.
    fn submit(&mut self, submit: &str, area: Rect) {
        let (state, look) = (self.state, self.look);
        let here = self.is_here(state.rows().len());
        let style = if here { look.selection } else { look.accent };
        let x = put(self.buf, area.x + 1, area.y, area.width - 1, &format!(" {submit} "), style);
        let blocking = state.blocking();
        let mut note = |text: &str, style| {
            put(self.buf, x + 2, area.y, area.right().saturating_sub(x + 2), text, style)
        };
        if let Some(problem) = state.schema_problem() {
            let text = format!("cannot be checked: {}", problem.message);
            note(&SafeText::line(&text), look.warning);
        } else if blocking > 0 {
            let sign = look.sign("⚠ ", "! ");
            note(&format!("{sign}{}", count(blocking, "problem")), look.error);
        } else if state.rows().is_empty() {
            note("No arguments", look.muted);
        } else if state.is_checking() {
            note(look.sign("checking…", "checking..."), look.muted);
        }
    }

    /// Draws the hint of a row and its description.
    fn takes(&mut self, row: &FormRow, area: Rect) {
        let mut pen = Pen::new(self.buf, area);
        pen.write(&SafeText::line(&describe(row, true)), self.look.muted);
        if let Some(description) = row.field().and_then(Field::description) {
            let text = SafeText::cut(description, 400);
            pen.write("  ", self.look.muted).write(&text, self.look.foreign);
        }
    }
}

// The hint of the row that has the focus: what it holds from last time, what is hidden in it, what
// it takes, and its description.

/// How a line of a hint is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HintTone {
    Last,
    Warning,
    Takes,
    Description,
}

impl HintTone {
    const fn style(self, look: &Styles) -> Style {
        match self {
            Self::Warning => look.warning,
            Self::Last | Self::Takes => look.muted,
            Self::Description => look.foreign,
        }
    }
}

/// Columns left of the hint of a row.
fn hint_indent(state: &FormState, row: usize) -> u16 {
    let depth = state.rows().get(row).map_or(0, |row| row.depth.min(12));
    3 + depth * 2
}

/// The hint of a row if it has the focus and there is room, in lines that fit.
fn hint_lines(state: &FormState, row: usize, body: Rect) -> Vec<(SafeText, HintTone)> {
    let room = body.width.saturating_sub(hint_indent(state, row) + 1);
    let focused = row == state.cursor() && state.json() != JsonView::Focused;
    let Some(found) = state.current().filter(|_| focused && room >= 12 && body.height >= 6) else {
        return Vec::new();
    };
    let mut texts = Vec::new();
    if found.field().is_some() && state.is_from_last_time(&found.pointer) {
        let text = match &state.editor {
            Some(editor) if editor.area.is_selecting() => {
                "from last time: typing replaces it, a cursor key keeps it"
            }
            _ => "from last time",
        };
        texts.push((SafeText::line(text), HintTone::Last));
    }
    if let Some(hidden) = hidden_names(state, found) {
        texts.push((SafeText::line(&format!("hidden in it: {hidden}")), HintTone::Warning));
    }
    // An empty line shows the example itself, unless a problem takes its room.
    let is_empty = state.editor.as_ref().is_some_and(|editor| editor.area.is_empty());
    let shows_it = is_empty && state.problem_at(row).is_none();
    let takes = SafeText::line(&describe(found, !shows_it));
    let description = found.field().and_then(Field::description);
    let description = description.map(|text| SafeText::cut_block(text, 1200));
    match description {
        Some(text) if !text.contains('\n') && takes.width() + text.width() + 3 <= room.into() => {
            texts.push((SafeText::line(&format!("{takes} · {text}")), HintTone::Takes));
        }
        description => {
            texts.push((takes, HintTone::Takes));
            texts.extend(description.map(|text| (text, HintTone::Description)));
        }
    }
    let most = MAX_HINT_ROWS.min(usize::from(body.height / 2)).max(1);
    let mut lines: Vec<(SafeText, HintTone)> = Vec::new();
    for (text, tone) in &texts {
        let wrapped = text.lines().filter(|line| !line.trim().is_empty());
        for line in wrapped.flat_map(|line| wrap(line, room)) {
            if lines.len() == most {
                if let Some((last, _)) = lines.last_mut() {
                    let upto = crate::widget::pen::fit(last, room - 1);
                    *last = SafeText::line(&format!("{}…", &last[..upto]));
                }
                return lines;
            }
            lines.push((SafeText::line(line), *tone));
        }
    }
    lines
}

/// The names of the characters in the text of a row that nobody would see.
fn hidden_names(state: &FormState, row: &FormRow) -> Option<String> {
    if row.field().is_some_and(Field::is_secret) {
        return None;
    }
    let typed = state.drafts.get(&row.pointer).map(|draft| draft.text.as_str());
    let text = typed.or_else(|| state.at(&row.pointer).and_then(Value::as_str))?;
    let mut names: Vec<String> = Vec::new();
    for hidden in base::text::inspect(base::text::cut(text, 64 << 10)) {
        if !names.contains(&hidden.name) {
            names.push(hidden.name);
        }
    }
    let more = names.len().saturating_sub(6);
    names.truncate(6);
    if more > 0 {
        names.push(format!("{more} more"));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

// The texts of a row: its value, hint and placeholder. Pure.

/// The placeholder of an empty line editor.
pub(super) fn ghost(row: &FormRow, edits: Edits) -> String {
    match edits {
        Edits::NewKey => "name of a new entry".to_owned(),
        _ => row.field().map(placeholder).unwrap_or_default(),
    }
}

fn placeholder(field: &Field) -> String {
    match (field.default(), field.example()) {
        (Some(default), _) => cut(&format!("default {}", field.spellings.plain(default))),
        (None, Some(example)) => cut(&format!("e.g. {example}")),
        _ => String::new(),
    }
}

fn cut(text: &str) -> String {
    SafeText::cut(text, 80).as_str().to_owned()
}

/// The value of a row in words; `hinted` where its hint is beside it.
fn shown(
    state: &FormState,
    row: &FormRow,
    value: Option<&Value>,
    hinted: bool,
    look: &Styles,
) -> (String, Style) {
    match &row.kind {
        RowKind::Choice { titles, active, .. } => {
            let title = titles.get(*active).map_or("", SafeText::as_str);
            (format!("{title} {}", look.sign("▾", "v")), look.accent)
        }
        kind @ (RowKind::AddItem | RowKind::AddKey) => {
            let what = if matches!(kind, RowKind::AddKey) { "entry" } else { "item" };
            // Nested lists would end with identical lines otherwise.
            let place = pointer::split(&row.pointer).map(|(_, name)| cut(&name));
            let place = place.filter(|name| name.parse::<usize>().is_err());
            let to = place.map_or_else(String::new, |name| format!(" to {name}"));
            (format!("+ add {what}{to}"), look.muted)
        }
        RowKind::More { hidden } => (format!("… {hidden} more, as JSON"), look.muted),
        RowKind::Rest { summary } => (format!("{}{summary}", look.sign("▸ ", "> ")), look.muted),
        RowKind::Field { field, .. } => {
            let has_text = value.is_some_and(|v| !v.is_null() && *v != "");
            match state.drafts.get(&row.pointer) {
                // A fixed number, so that the length is not revealed.
                _ if field.is_secret() && has_text => {
                    (look.sign("••••••••", "********").to_owned(), look.muted)
                }
                Some(draft) => (draft.text.clone(), look.error),
                None => match value {
                    None => (unset(field, hinted), look.faint),
                    Some(value) => field_text(field, value, state.written_at(&row.pointer), look),
                },
            }
        }
    }
}

/// The name that the schema gives to a value of a choice, or the value itself.
fn named(field: &Field, options: &[Value], value: &Value) -> String {
    let name = field.named(options).find(|(option, _)| *option == value).and_then(|(_, name)| name);
    name.map_or_else(|| field.spellings.plain(value), str::to_owned)
}

/// The names of the chosen values, as many as a row may show.
fn all_named(field: &Field, options: &[Value], items: &[Value]) -> String {
    const MAX_NAMED_ITEMS: usize = 200;
    let names: HashMap<&Value, Option<&str>> = field.named(options).collect();
    let name = |item: &Value| {
        let known = names.get(item).copied().flatten();
        known.map_or_else(|| field.spellings.plain(item), str::to_owned)
    };
    let mut named: Vec<String> = items.iter().take(MAX_NAMED_ITEMS).map(name).collect();
    if items.len() > MAX_NAMED_ITEMS {
        named.push("…".to_owned());
    }
    named.join(", ")
}

/// A field without a value. Its example is a part of its hint.
fn unset(field: &Field, hinted: bool) -> String {
    let is_said = hinted && field.default().is_none();
    let hint = if is_said { String::new() } else { placeholder(field) };
    if hint.is_empty() { "not set".to_owned() } else { format!("not set · {hint}") }
}

/// `written` is the value of a number as it was typed.
fn field_text(
    field: &Field,
    value: &Value,
    written: Option<&str>,
    look: &Styles,
) -> (String, Style) {
    match (&field.kind, value) {
        (_, Value::Null) => ("null".to_owned(), look.json_literal),
        (FieldKind::Choice(options), value) => (named(field, options, value), look.text),
        (FieldKind::MultiChoice(options), Value::Array(items)) if !items.is_empty() => {
            (all_named(field, options, items), look.text)
        }
        (_, Value::String(text)) if text.is_empty() => ("empty text".to_owned(), look.muted),
        (_, Value::Array(items)) if items.is_empty() => ("empty list".to_owned(), look.muted),
        (_, Value::Array(items)) => (count(items.len(), "item").to_string(), look.muted),
        (FieldKind::Object { .. }, Value::Object(map)) if map.is_empty() => {
            ("empty object".to_owned(), look.muted)
        }
        (FieldKind::Object { .. }, Value::Object(map)) => {
            (count(map.len(), "entry").to_string(), look.muted)
        }
        (FieldKind::Bool, Value::Bool(on)) => {
            let sign = if *on { look.sign("✓ ", "[x] ") } else { look.sign("✗ ", "[ ] ") };
            (format!("{sign}{on}"), look.text)
        }
        (_, Value::String(text)) => (text.clone(), look.text),
        (_, other) => {
            let spelled = || field.spellings.plain(other);
            (written.map_or_else(spelled, str::to_owned), look.text)
        }
    }
}

/// What a field accepts, in words: type, limits, format, and the example or else the pattern.
pub fn hint(field: &Field, example: Option<String>) -> String {
    let mut parts: Vec<String> = Vec::new();
    match &field.kind {
        FieldKind::Text { format: Some(format), .. } => parts.push(cut(format)),
        FieldKind::Text { .. } => parts.push("text".to_owned()),
        FieldKind::Number => {
            parts.push(if field.merged.integer { "whole number" } else { "number" }.to_owned());
            let bound = |word: &str, strict: &str, bound: Option<(f64, bool)>| {
                bound.map(|(n, exclusive)| format!("{} {n}", if exclusive { strict } else { word }))
            };
            parts.extend(bound("at least", "more than", field.merged.minimum()));
            parts.extend(bound("at most", "less than", field.merged.maximum()));
            if let Some(step) = field.merged.nodes.iter().find_map(|n| n.multiple_of()) {
                parts.push(format!("multiple of {step}"));
            }
        }
        FieldKind::Bool => parts.push("yes/no".to_owned()),
        FieldKind::Choice(options) => parts.push(choices("one of", field, options)),
        FieldKind::MultiChoice(options) => parts.push(choices("any of", field, options)),
        FieldKind::Const(value) => {
            parts.push(cut(&format!("always {}", field.spellings.plain(value))));
        }
        FieldKind::Object { .. } => parts.push("object".to_owned()),
        FieldKind::Array { .. } => parts.push("list".to_owned()),
        FieldKind::Json(None) => parts.push("any JSON".to_owned()),
        FieldKind::Json(Some(reason)) => parts.push(format!("JSON: {reason}")),
    }
    parts.extend(ranges(field));
    let pattern = field.merged.first(|n| n.text("pattern"));
    match (example, pattern) {
        (Some(example), _) => parts.push(cut(&format!("e.g. {example}"))),
        (None, Some(pattern)) if field.example().is_none() => {
            parts.push(cut(&format!("matches {pattern}")));
        }
        _ => {}
    }
    if field.nullable && field.merged.types != Types::NULL {
        parts.push("or null".to_owned());
    }
    if field.is_secret() {
        parts.push("secret: never written to disk".to_owned());
    }
    for (keyword, note) in
        [("readOnly", "read-only"), ("deprecated", "deprecated"), ("nullable", "nullable")]
    {
        if field.merged.nodes.iter().any(|node| node.flag(keyword)) {
            parts.push(note.to_owned());
        }
    }
    parts.join(" · ")
}

/// Lists a few choices by name, otherwise their number.
fn choices(of: &str, field: &Field, options: &[Value]) -> String {
    let mut all = String::new();
    for (option, name) in field.named(options) {
        all += if all.is_empty() { "" } else { ", " };
        all += &name.map_or_else(|| field.spellings.plain(option), str::to_owned);
        if all.len() > 60 {
            return format!("{of} {}", options.len());
        }
    }
    cut(&format!("{of} {all}"))
}

fn ranges(field: &Field) -> Vec<String> {
    let nodes = &field.merged.nodes;
    let range = |low: Option<u64>, high: Option<u64>, what: &'static str| match (low, high) {
        (None, None) => None,
        (Some(low), None) => Some(format!("at least {}", count(low, what))),
        (None, Some(high)) => Some(format!("at most {}", count(high, what))),
        (Some(low), Some(high)) if low == high => Some(format!("exactly {}", count(high, what))),
        (Some(low), Some(high)) => Some(format!("{low} to {}", count(high, what))),
    };
    let tightest = |least: &str, most: &str, what: &'static str| {
        let low = nodes.iter().filter_map(|node| node.count(least)).max();
        range(low, nodes.iter().filter_map(|node| node.count(most)).min(), what)
    };
    let length = tightest("minLength", "maxLength", "character");
    length.into_iter().chain(tightest("minItems", "maxItems", "item")).collect()
}

/// The hint of a row, in words.
fn describe(row: &FormRow, exemplify: bool) -> String {
    match &row.kind {
        RowKind::Choice { slot: TYPES_SLOT, titles, .. } => {
            titles.iter().map(SafeText::as_str).collect::<Vec<_>>().join(" or ")
        }
        RowKind::Choice { titles, .. } => format!("one of {} alternatives", titles.len()),
        RowKind::Field { field, .. } => hint(field, field.example().filter(|_| exemplify)),
        RowKind::AddKey => "adds an entry: type its name".to_owned(),
        RowKind::AddItem => "adds an item".to_owned(),
        RowKind::Rest { .. } => "the other fields: enter opens it".to_owned(),
        RowKind::More { hidden } => format!("{hidden} more; edit them as JSON"),
    }
}
