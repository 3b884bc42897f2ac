//! The fields of a form on the screen: one row each, what is being typed, and what is wrong with it.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use unicode_width::UnicodeWidthStr;

use super::draw::{Look, body, label_width, put, window};
use super::field::Field;
use super::hint::{ghost, shown};
use super::input::Editor;
use super::pointer;
use super::problem::Weight;
use super::row::{Row, RowKind};
use super::state::FormState;
use crate::base::human::count;
use crate::base::text::SafeText;

/// A field that is typed in is at least this wide where there is room.
const FIELD: u16 = 12;

/// What the fields are drawn with.
pub(super) struct Sheet<'a> {
    pub(super) state: &'a FormState,
    pub(super) look: &'a Look,
    /// Columns for what each field takes; 0 where there is no room.
    pub(super) hints: u16,
    pub(super) buf: &'a mut Buffer,
}

impl Sheet<'_> {
    /// Draws every field in view, the line that calls, and the one that helps.
    pub(super) fn fields(&mut self, submit: &str, area: Rect) {
        let (body, help) = body(area);
        let lines = window(self.state, body);
        let label_width = label_width(self.state, lines.first().map_or(0, |(row, _)| *row), body);
        for (row, line) in lines {
            match self.state.rows().get(row) {
                Some(found) => self.row(row, found, label_width, line),
                None => self.submit(submit, line),
            }
        }
        if let Some(help) = help {
            self.help(help);
        }
    }

    /// Whether the keys go to this row.
    fn is_here(&self, index: usize) -> bool {
        index == self.state.cursor() && !self.state.json().is_some_and(|json| json.focused)
    }

    fn row(&mut self, index: usize, row: &Row, label_width: u16, area: Rect) {
        let look = self.look;
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
        let hints = self.hints.min((area.right() - left) / 2);
        let value = Rect { x: left, width: area.right() - left - hints, ..area };
        let editor = self.state.editor.as_ref().filter(|_| here);
        let end = match editor {
            Some(editor) => self.editor(editor, row, value),
            None => self.value(row, value),
        };
        if let Some(problem) = self.state.problem_at(index) {
            let style = if problem.weight == Weight::Note { look.warning } else { look.error };
            let room = |x: u16| area.right().saturating_sub(x);
            let at = (end + 2).min(area.right().saturating_sub(24).max(left));
            let x = put(self.buf, at, area.y, room(at), look.sign("⚠ ", "! "), style);
            put(self.buf, x, area.y, room(x), &problem.message, style);
        } else if hints > 0 {
            self.takes(row, Rect { x: value.right() + 1, width: hints - 1, height: 1, ..area });
        }
    }

    /// Draws what is being typed at a row; gives the column after it.
    fn editor(&mut self, editor: &Editor, row: &Row, area: Rect) -> u16 {
        let wide = editor.area.lines().iter().map(|l| l.width()).max().unwrap_or(0) as u16;
        let width = if self.state.problem_at(self.state.cursor()).is_some() {
            // What is wrong stands behind the field, not in it.
            let most = area.width.saturating_sub(26);
            (wide + 2).max(FIELD.min(most)).min(most).max(8).min(area.width)
        } else {
            area.width
        };
        self.buf.set_style(Rect { width, ..area }, self.look.input);
        (&editor.area).render(Rect { width, ..area }, self.buf);
        if editor.area.is_empty() && width > 12 {
            let is_null = pointer::get(self.state.value(), &row.pointer)
                .is_some_and(serde_json::Value::is_null);
            let ghost = if is_null { "null".to_owned() } else { ghost(row, editor.edits) };
            // What follows on the line, such as a problem, must not be drawn over the hint.
            return put(self.buf, area.x + 1, area.y, width - 1, &ghost, self.look.faint);
        }
        area.x + (wide + 1).max(FIELD.min(width)).min(width)
    }

    /// Draws what stands at a row; gives the column after it.
    fn value(&mut self, row: &Row, area: Rect) -> u16 {
        let value = pointer::get(self.state.value(), &row.pointer);
        let (text, style) = shown(self.state, row, value, self.look);
        let limited: String = text.chars().take(usize::from(area.width) * 2 + 8).collect();
        put(self.buf, area.x, area.y, area.width, &SafeText::line(&limited), style)
    }

    /// The line that calls, and what speaks against it.
    fn submit(&mut self, submit: &str, area: Rect) {
        let (state, look) = (self.state, self.look);
        let here = state.is_on_submit() && !state.json().is_some_and(|json| json.focused);
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
            note(&count(blocking, "problem").to_string(), look.error);
        } else if state.rows().is_empty() {
            note("No arguments", look.muted);
        } else if state.is_checking() {
            note(look.sign("checking…", "checking..."), look.muted);
        }
    }

    /// What the row under the cursor wants.
    fn help(&mut self, area: Rect) {
        if let Some(row) = self.state.current() {
            self.takes(row, Rect { x: area.x + 1, width: area.width.saturating_sub(1), ..area });
        }
    }

    /// What a row takes, and what the server says of it.
    fn takes(&mut self, row: &Row, area: Rect) {
        let room = |x: u16| area.right().saturating_sub(x);
        let mut x = area.x;
        x = put(self.buf, x, area.y, room(x), &row.describe(), self.look.muted);
        if let Some(description) = row.field().and_then(Field::description) {
            let text: String = description.chars().take(400).collect();
            x = put(self.buf, x, area.y, room(x), "  ", self.look.muted);
            put(self.buf, x, area.y, room(x), &SafeText::line(&text), self.look.foreign);
        }
    }
}
