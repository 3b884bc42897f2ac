//! Input to a form: moving, typing, choosing, pasting, the mouse. No drawing. The keymap maps keys
//! to actions; [`FormState::type_key`] only types.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Modifier;
use ratatui_textarea::CursorMove;

use crate::form::check::HalfTyped;
use crate::form::draw::{FormSpot, hit};
use crate::form::editor::{
    Edits, JsonView, LineEditor, Popup, area, edit, editable, insert, length, number, rewrite,
    text_of, typed_value,
};
use crate::form::row::{Field, FieldKind, FormRow, RowKind};
use crate::form::state::FormState;
use crate::keymap::KeyScope;
use crate::prelude::*;
use base::pointer;
use base::text::json::{WrittenValue, weigh};
use terminal::text_input::breaks_line;

/// Texts of at most this many lines are shown without paging.
const MAX_UNPAGED_LINES: usize = 8;
/// Longest text edited in a line, in bytes; longer text needs the external editor.
const MAX_INLINE_BYTES: usize = 256 << 10;

impl FormState {
    /// Puts the cursor on a row, or on the submit line if there is no such row.
    pub fn select(&mut self, row: usize) {
        self.leave();
        self.leave_json();
        self.cursor = row.min(self.rows.len());
        self.popup = None;
        self.editor = None;
        self.focus();
    }

    /// Puts the cursor on the row of a place, given by JSON pointer.
    pub fn select_place(&mut self, at: &str) {
        let exact =
            |r: &FormRow| r.pointer == at && !matches!(r.kind, RowKind::AddItem | RowKind::AddKey);
        if let Some(row) = self.rows.iter().position(exact) {
            // In a container, the cursor goes to the first field, where typing can start.
            let inner = self.rows[row..].iter().position(|r| {
                pointer::is_within(&r.pointer, at)
                    && !matches!(&r.kind, RowKind::Field { folded: Some(_), .. })
            });
            self.select(row + inner.unwrap_or(0));
        }
    }

    /// Opens the editor of what has the focus: the JSON, or the line under the cursor if it takes
    /// text.
    pub(super) fn focus(&mut self) {
        if self.json == JsonView::Focused {
            let broken = self.broken_json().map(|broken| broken.text.clone());
            if let Some(text) = broken.or_else(|| editable(self.written().as_ref())) {
                let area = area(&text);
                self.editor = Some(LineEditor { pointer: String::new(), edits: Edits::Json, area });
                return;
            }
            // Too large to be edited, so it is only shown.
            (self.json, self.editor) = (JsonView::Open, None);
        }
        let row = self.rows.get(self.cursor);
        let place = row.map(|row| &row.pointer);
        if place.is_none() || place != self.editor.as_ref().map(|editor| &editor.pointer) {
            self.editor = row.and_then(|row| self.editor_of(row));
        }
    }

    fn editor_of(&self, row: &FormRow) -> Option<LineEditor> {
        let (edits, text) = match &row.kind {
            RowKind::AddKey => (Edits::NewKey, Some(String::new())),
            RowKind::Field { field, .. } => (
                Edits::from_kind(&field.kind)?,
                text_of(&field.kind, self.part(&row.pointer).as_ref()),
            ),
            _ => return None,
        };
        let draft = self.drafts.get(&row.pointer).map(|draft| draft.text.clone());
        let mut area = area(&draft.or(text).filter(|text| text.len() <= MAX_INLINE_BYTES)?);
        if row.field().is_some_and(Field::is_secret) {
            area.set_mask_char('*');
        }
        if area.lines().len() == 1 && self.is_from_last_time(&row.pointer) {
            area.set_selection_style(Style::new().add_modifier(Modifier::REVERSED));
            area.select_all();
        }
        Some(LineEditor { pointer: row.pointer.clone(), edits, area })
    }

    /// Moves the cursor of the line editor to a column.
    pub(super) fn move_cursor_to(&mut self, column: usize) {
        if let Some(editor) = &mut self.editor {
            editor.area.move_cursor(CursorMove::Jump(0, u16::try_from(column).unwrap_or(u16::MAX)));
        }
    }

    /// Closes the line editor; an unfinished new key or rename is discarded.
    fn leave(&mut self) {
        let half = self.editor.take().filter(|e| matches!(e.edits, Edits::NewKey | Edits::Rename));
        if half.is_some() {
            self.collect();
        }
    }

    /// Handles a key on a screen whose keymap may bind it: text comes first, but bound chords and
    /// movement keys only go to an open list. Returns whether it was consumed.
    pub fn take_key(&mut self, key: KeyEvent, bound: bool) -> bool {
        let moves =
            matches!(key.code, KeyCode::F(_) | KeyCode::Esc | KeyCode::Tab | KeyCode::BackTab);
        let chord = !key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        (self.popup_is_open() || !(moves || chord && bound)) && self.type_key(key)
    }

    /// The key scopes in effect, innermost first.
    pub fn scopes(&self) -> &'static [KeyScope] {
        if self.takes_text() { &[KeyScope::Form] } else { &[KeyScope::FormLine, KeyScope::Form] }
    }

    /// Types one key into the open list or the line; returns whether it was consumed.
    pub fn type_key(&mut self, key: KeyEvent) -> bool {
        if self.popup.is_some() {
            return self.type_popup(key);
        }
        if self.editor.is_none() {
            return self.type_without_editor(key);
        }
        self.type_line(key)
    }

    fn type_without_editor(&mut self, key: KeyEvent) -> bool {
        let plain = !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        if let KeyCode::Char(c) = key.code
            && plain
            && c != ' '
            && self.begin_typing(c)
        {
            return self.editor.is_none() || self.type_line(key);
        }
        let Some(row) = self.current() else { return false };
        let Some(field) = row.field() else { return false };
        let is_bool = matches!(field.kind, FieldKind::Bool);
        let is_choice = matches!(field.kind, FieldKind::Choice(_) | FieldKind::MultiChoice(_));
        let at = row.pointer.clone();
        match key.code {
            KeyCode::Char('t' | 'y' | '1') if plain && is_bool => self.set(&at, Value::Bool(true)),
            KeyCode::Char('f' | 'n' | '0') if plain && is_bool => self.set(&at, Value::Bool(false)),
            KeyCode::Backspace if is_bool || is_choice => {
                self.unset(&at);
                true
            }
            KeyCode::Char(c) if plain && is_choice && c != ' ' => {
                self.open_popup(c.to_string());
                true
            }
            _ => false,
        }
    }

    /// Starts the value of the row with a character typed while no line is open: a new item of a
    /// list, the first field of an object, text in place of another value. Returns whether the row
    /// consumes it; a character without meaning is swallowed, never a command.
    fn begin_typing(&mut self, c: char) -> bool {
        let Some(row) = self.current() else { return false };
        let at = row.pointer.clone();
        match &row.kind {
            RowKind::Choice { .. } => self.open_popup(c.to_string()),
            RowKind::AddItem => _ = self.add_item(&at),
            RowKind::Field { field, .. } => match &field.kind {
                FieldKind::Array { open: true } => _ = self.add_item(&at),
                FieldKind::Object { .. } => self.enter_object(&at),
                FieldKind::Bool | FieldKind::Choice(_) | FieldKind::MultiChoice(_) => return false,
                kind => {
                    if let Some(edits) = Edits::from_kind(kind) {
                        self.begin_anew(at, edits);
                    }
                }
            },
            _ => {}
        }
        true
    }

    /// Moves to the first row inside an object, or to the name of a new key if it has none.
    fn enter_object(&mut self, at: &str) {
        self.decide(at).folded = Some(false);
        self.refresh();
        let inside = |row: &FormRow| row.pointer != at && pointer::is_within(&row.pointer, at);
        let named = |row: &FormRow| row.pointer == at && matches!(row.kind, RowKind::AddKey);
        let first = self.rows.iter().position(inside);
        if let Some(row) = first.or_else(|| self.rows.iter().position(named)) {
            self.select(row);
        }
    }

    /// Opens an empty line in place of a value of another type; undo restores it. A value too long
    /// for a line is not replaced by a single key.
    fn begin_anew(&mut self, at: String, edits: Edits) {
        if weigh(&self.at(&at)) <= MAX_INLINE_BYTES {
            self.editor = Some(LineEditor { pointer: at, edits, area: area("") });
        }
    }

    fn type_line(&mut self, key: KeyEvent) -> bool {
        let whole = self.json == JsonView::Focused;
        let Some(editor) = &mut self.editor else { return false };
        let many = matches!(editor.edits, Edits::Lines | Edits::Json);
        let lines = editor.area.lines();
        let row = editor.area.cursor().0;
        let newline = breaks_line(key)
            || key.code == KeyCode::Enter
                && (whole
                    || editor.edits == Edits::Json
                        && serde_json::from_str::<Value>(&lines.join("\n")).is_err()
                        && !lines.concat().trim().is_empty());
        match key.code {
            _ if many && newline => editor.area.insert_newline(),
            KeyCode::Enter | KeyCode::Tab | KeyCode::BackTab | KeyCode::Esc => return false,
            // Paging applies only to long texts; elsewhere these keys leave the line.
            KeyCode::PageUp | KeyCode::PageDown if !whole && lines.len() <= MAX_UNPAGED_LINES => {
                return false;
            }
            KeyCode::Up if !whole && row == 0 => return false,
            KeyCode::Down if !whole && row + 1 >= lines.len() => return false,
            KeyCode::Backspace if !whole && editor.area.is_empty() => {
                let at = editor.pointer.clone();
                if !matches!(editor.edits, Edits::NewKey | Edits::Rename) {
                    self.unset(&at);
                }
                return true;
            }
            _ => {
                let before = lines.to_vec();
                let moved = editor.area.cursor();
                let selected = editor.area.is_selecting();
                edit(&mut editor.area, key);
                if selected && !editor.area.is_selecting() {
                    let at = editor.pointer.clone();
                    self.confirm(&at);
                    if self.editor.as_ref().is_some_and(|editor| editor.area.lines() == before) {
                        return true;
                    }
                    self.typed();
                    return true;
                }
                if editor.area.lines() == before {
                    return whole || editor.area.cursor() != moved;
                }
            }
        }
        self.typed();
        true
    }

    /// Applies the content of the line editor.
    fn typed(&mut self) {
        let Some(editor) = &self.editor else { return };
        let (at, edits) = (editor.pointer.clone(), editor.edits);
        let text = editor.area.lines().join("\n");
        if self.json == JsonView::Focused {
            return self.take_json(text);
        }
        self.take_typed(&at, edits, text);
    }

    /// Applies text that was typed at a place.
    pub(super) fn take_typed(&mut self, at: &str, edits: Edits, text: String) {
        if !matches!(edits, Edits::NewKey | Edits::Rename) {
            self.remember_typing(at);
        }
        match edits {
            Edits::Text | Edits::Lines => self.take_value(at, Value::String(text).into()),
            Edits::Number | Edits::Json if text.trim().is_empty() => self.take_nothing(at),
            Edits::Number => match self.number_at(at, text.trim()) {
                Ok(number) => self.take_value(at, number),
                Err(message) => self.take_draft(at, text, message),
            },
            Edits::Json => match typed_value(&text, self.document.spellings()) {
                Ok(value) => self.take_value(at, value),
                Err(message) => self.take_draft(at, text, message),
            },
            Edits::NewKey | Edits::Rename => {}
        }
    }

    /// Parses a number typed at a place. An integer must be written as one, because it is sent as
    /// it is written; one of the schema is as its author writes it.
    fn number_at(&self, at: &str, text: &str) -> Result<WrittenValue, String> {
        let spellings = self.document.spellings();
        let number = number(text, spellings)?;
        let of_schema = number.as_number().and_then(|number| spellings.written(number));
        match self.field_at(at) {
            Some(_) if of_schema == Some(text) => Ok(number),
            Some(field) if field.merged.integer && number.is_f64() => {
                Err("an integer: write it without `-0`, a decimal point or an exponent".to_owned())
            }
            _ => Ok(number),
        }
    }

    fn take_value(&mut self, at: &str, written: WrittenValue) {
        let WrittenValue { value, numbers } = written;
        self.numbers.put(at, numbers);
        self.drafts.remove(at);
        self.begin_above(at);
        if self.at(at) != Some(&value) && !pointer::set(&mut self.value, at, value) {
            let message = "cannot be set: a parent has another type".to_owned();
            self.drafts.insert(at.to_owned(), HalfTyped { message, ..HalfTyped::default() });
        }
        self.changed();
    }

    fn take_nothing(&mut self, at: &str) {
        self.drafts.remove(at);
        if self.is_item(at) {
            // Lists cannot have gaps: an item without a value cannot be sent.
            let message = "an item needs a value; remove it or type one".to_owned();
            self.drafts.insert(at.to_owned(), HalfTyped { message, ..HalfTyped::default() });
        } else {
            pointer::remove(&mut self.value, at);
        }
        self.changed();
    }

    fn take_draft(&mut self, at: &str, text: String, message: String) {
        self.drafts.insert(at.to_owned(), HalfTyped { text, message });
        self.collect();
    }

    /// Handles pasted text: a whole JSON object fills the form, anything else is typed.
    pub fn paste(&mut self, text: &str) {
        let written = typed_value(text.trim(), self.document.spellings()).ok();
        let object = written.filter(|written| written.is_object());
        let known = |value: &Value| {
            let root = &self.document.root;
            value.as_object().is_some_and(|map| {
                root.part("properties").is_none()
                    || map.keys().any(|key| root.property(key).is_some())
            })
        };
        let into_json = self.editor.as_ref().is_some_and(|e| e.edits == Edits::Json);
        match object.filter(|o| !into_json && known(o)) {
            Some(WrittenValue { value, numbers }) => {
                self.set_value(Some(value));
                self.numbers = numbers;
                self.focus();
            }
            None => self.insert(text),
        }
    }

    /// Inserts pasted text at the cursor, or into the filter of the list of choices.
    pub fn insert(&mut self, text: &str) {
        // A single trailing line end is dropped; Windows line ends within a text are kept.
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if self.editor.is_none() && self.popup.is_none() {
            let plain = text.chars().next().filter(|c| *c != ' ');
            self.open_popup(String::new());
            _ = self.popup.is_none() && plain.is_some_and(|c| self.begin_typing(c));
        }
        if let Some(popup) = &mut self.popup {
            popup.filter += text.lines().next().unwrap_or_default();
            popup.selected = 0;
            return;
        }
        let last = self.editor.as_ref().map(|editor| editor.pointer.clone());
        let last = last.filter(|at| self.is_from_last_time(at));
        let Some(editor) = &mut self.editor else { return };
        if let Some(at) = last
            && editor.area.is_selecting()
        {
            rewrite(&mut editor.area, "");
            self.confirm(&at);
        }
        let Some(editor) = &mut self.editor else { return };
        match editor.edits {
            Edits::Number | Edits::NewKey | Edits::Rename => {
                editor.area.insert_str(text.replace(['\r', '\n'], " ").trim());
            }
            Edits::Json => _ = editor.area.insert_str(text),
            Edits::Text | Edits::Lines if text.len() + length(&editor.area) > MAX_INLINE_BYTES => {
                // Too long for a line: set as the value, to be edited in the external editor.
                let (at, text) = (editor.pointer.clone(), editor.area.lines().join("\n") + text);
                self.editor = None;
                self.set(&at, Value::String(text));
                return;
            }
            Edits::Text | Edits::Lines => insert(&mut editor.area, text),
        }
        self.typed();
    }

    /// Whether a list to choose from is open.
    pub const fn popup_is_open(&self) -> bool {
        self.popup.is_some()
    }

    /// The text of the line under the cursor for an external editor, and the suffix of its file.
    /// Includes text too long for the line, and containers as JSON.
    pub fn field_for_editor(&self) -> Option<(String, &'static str)> {
        if let Some(editor) = &self.editor {
            let suffix = if editor.edits == Edits::Json { ".json" } else { ".txt" };
            return Some((editor.area.lines().join("\n"), suffix));
        }
        let row = self.current()?;
        let field = row.field()?;
        Some(match self.part(&row.pointer) {
            Some(WrittenValue { value: Value::String(text), .. }) => (text, ".txt"),
            Some(value) => (serde_json::to_string_pretty(&value).ok()?, ".json"),
            None if matches!(field.kind, FieldKind::Text { .. }) => (String::new(), ".txt"),
            None => (String::new(), ".json"),
        })
    }

    /// Whether the field under the cursor holds base64 (`contentEncoding`, or `format: byte`).
    pub fn wants_base64(&self) -> bool {
        let field = self.current().and_then(FormRow::field);
        field.is_some_and(|field| {
            field.merged.nodes.iter().any(|node| {
                node.text("contentEncoding") == Some("base64")
                    || matches!(node.text("format"), Some("byte" | "base64" | "binary"))
            })
        })
    }

    /// Replaces the text of the line under the cursor: from `$EDITOR`, a file, a completion.
    pub fn replace_text(&mut self, text: &str) {
        if let Some(editor) = &mut self.editor {
            rewrite(&mut editor.area, text);
            return self.typed();
        }
        let Some(row) = self.current() else { return };
        let Some(field) = row.field() else { return };
        let (at, is_text) = (row.pointer.clone(), matches!(field.kind, FieldKind::Text { .. }));
        match typed_value(text, self.document.spellings()) {
            _ if is_text => _ = self.set(&at, Value::String(text.to_owned())),
            Ok(WrittenValue { value, numbers }) => {
                self.numbers.put(&at, numbers);
                self.set(&at, value);
            }
            // Text of an editor must not be lost for a typing error.
            Err(_) => {
                self.decide(&at).as_json = true;
                self.refresh();
                self.take_typed(&at, Edits::Json, text.to_owned());
            }
        }
        self.focus();
    }

    /// Opens the list of choices of the row under the cursor, narrowed by a filter.
    pub(super) fn open_popup(&mut self, filter: String) {
        let Some(row) = self.current() else { return };
        let (entries, selected) = match (&row.kind, row.options()) {
            (RowKind::Choice { titles, active, .. }, _) => (titles.clone(), *active),
            (RowKind::Field { field, .. }, Some((options, _))) => {
                let entry = |(option, name): (&Value, Option<&str>)| {
                    let raw = field.spellings.plain(option);
                    match name {
                        Some(name) if name != raw => SafeText::line(&format!("{name}  ({raw})")),
                        _ => SafeText::line(&raw),
                    }
                };
                let value = self.at(&row.pointer);
                let here = options.iter().position(|option| value == Some(option));
                (field.named(options).map(entry).collect(), here.unwrap_or(0))
            }
            _ => return,
        };
        let selected = if filter.is_empty() { selected } else { 0 };
        self.popup = Some(Popup { entries, filter, selected });
    }

    /// Whether this entry of the open list is marked; `None` if only one can be chosen.
    pub(super) fn marked(&self, entry: usize) -> Option<bool> {
        let row = self.current()?;
        let (options, _) = row.options().filter(|(_, many)| *many)?;
        let chosen = self.at(&row.pointer).and_then(Value::as_array);
        Some(chosen.is_some_and(|chosen| options.get(entry).is_some_and(|o| chosen.contains(o))))
    }

    pub(super) fn type_popup(&mut self, key: KeyEvent) -> bool {
        let many = self.chooses_many();
        let Some(popup) = &mut self.popup else { return false };
        let narrowed = popup.narrowed();
        let last = narrowed.len().saturating_sub(1);
        match key.code {
            KeyCode::Up | KeyCode::BackTab => popup.selected = popup.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Tab => popup.selected = (popup.selected + 1).min(last),
            KeyCode::PageUp => popup.selected = popup.selected.saturating_sub(8),
            KeyCode::PageDown => popup.selected = (popup.selected + 8).min(last),
            KeyCode::Home => popup.selected = 0,
            KeyCode::End => popup.selected = last,
            KeyCode::Esc => self.popup = None,
            KeyCode::Backspace => {
                popup.filter.pop();
                popup.selected = 0;
            }
            KeyCode::Char(' ') if many => self.take_entry(),
            KeyCode::Char(c)
                if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) =>
            {
                popup.filter.push(c);
                popup.selected = 0;
            }
            KeyCode::Enter if many => self.popup = None,
            KeyCode::Enter => {
                self.take_entry();
                self.popup = None;
            }
            _ => return false,
        }
        true
    }

    /// Whether several entries of the open list can be marked.
    pub(super) fn chooses_many(&self) -> bool {
        self.current().and_then(FormRow::options).is_some_and(|(_, many)| many)
    }

    /// Chooses the selected entry of the open list, or toggles its mark if several can be chosen.
    fn take_entry(&mut self) {
        let Some(popup) = &self.popup else { return };
        let Some(chosen) = popup.narrowed().get(popup.selected).copied() else { return };
        let Some(row) = self.current() else { return };
        let at = row.pointer.clone();
        let Some((options, many)) = row.options() else { return self.choose(self.cursor, chosen) };
        let Some(mut value) = options.get(chosen).cloned() else { return };
        if many {
            let mut items = self.at(&at).and_then(Value::as_array).cloned().unwrap_or_default();
            match items.iter().position(|item| *item == value) {
                Some(_) => items.retain(|item| *item != value),
                None => items.push(value),
            }
            value = Value::Array(items);
        }
        self.set(&at, value);
    }

    /// Handles a click at a position of the `area` the form is drawn in. It selects a row; another
    /// one on the same row acts like Enter. Returns whether it was on the submit line.
    pub fn click(&mut self, at: Position, area: Rect) -> bool {
        match hit(self, area, at) {
            Some(FormSpot::Entry(entry)) => self.click_entry(entry),
            Some(FormSpot::Outside) => self.popup = None,
            Some(FormSpot::Json) => self.enter_json(),
            Some(FormSpot::Row(row)) => {
                self.leave_json();
                let again = self.cursor() == row;
                if row == self.rows().len() {
                    self.select(row);
                    return true;
                }
                if !again {
                    self.select(row);
                } else if !self.takes_text() {
                    self.apply(Action::Open);
                }
            }
            Some(FormSpot::Frame) | None => {}
        }
        false
    }

    fn click_entry(&mut self, entry: usize) {
        let Some(popup) = &mut self.popup else { return };
        if entry >= popup.narrowed().len() {
            return;
        }
        popup.selected = entry;
        let code = if self.chooses_many() { KeyCode::Char(' ') } else { KeyCode::Enter };
        self.type_popup(KeyEvent::from(code));
    }

    /// Moves the cursor by a number of rows of the wheel.
    pub fn wheel(&mut self, rows: isize) {
        for _ in 0..rows.unsigned_abs() {
            if self.popup_is_open() || self.json == JsonView::Focused {
                let code = if rows < 0 { KeyCode::Up } else { KeyCode::Down };
                self.type_key(KeyEvent::from(code));
            } else {
                self.apply(if rows < 0 { Action::PreviousField } else { Action::NextField });
            }
        }
    }
}

#[cfg(test)]
mod mouse_tests {
    use std::sync::Arc;

    use ratatui::buffer::Buffer;
    use serde_json::json;

    use super::super::draw::{Styles, form};
    use super::*;
    use schema::Defaults;

    const AREA: Rect = Rect { x: 3, y: 2, width: 60, height: 14 };

    /// The position of a text on the drawn form.
    fn place(state: &FormState, text: &str) -> Position {
        let mut buf = Buffer::empty(Rect::new(0, 0, 80, 24));
        form(state, &Styles::default(), "Call", AREA, &mut buf);
        for y in 0..24 {
            let line: String = (0..80).map(|x| buf[(x, y)].symbol()).collect();
            if let Some(at) = line.find(text) {
                return Position::new(line[..at].chars().count() as u16, y);
            }
        }
        panic!("{text} is not shown");
    }

    fn click(state: &mut FormState, text: &str) -> bool {
        let at = place(state, text);
        state.click(at, AREA)
    }

    #[test]
    fn what_is_clicked_is_what_is_drawn_there() {
        let schema = json!({"type": "object", "required": ["name", "kind", "on"], "properties": {
            "name": {"type": "string"}, "kind": {"enum": ["apple", "pear", "plum"]},
            "on": {"type": "boolean"},
            "many": {"type": "array", "uniqueItems": true, "items": {"enum": ["x1", "x2"]}}}});
        let mut state = FormState::new(&Arc::new(schema), Defaults::Required);
        assert!(!click(&mut state, "name"));
        assert!(state.takes_text());
        click(&mut state, "kind");
        assert!(!state.popup_is_open(), "the first click selects");
        click(&mut state, "kind");
        assert!(state.popup_is_open());
        click(&mut state, "pear");
        assert_eq!(state.arguments()["kind"], "pear");
        click(&mut state, "many");
        click(&mut state, "many");
        click(&mut state, "x1");
        click(&mut state, "✓ x1");
        click(&mut state, "x2");
        state.click(Position::new(AREA.x, AREA.y), AREA);
        assert!(!state.popup_is_open(), "a click beside the list closes it");
        assert_eq!(state.arguments()["many"], json!(["x2"]));
        assert!(click(&mut state, "Call"));
        state.wheel(-3);
        assert!(!state.is_on_submit());
    }

    #[test]
    fn a_click_between_fields_and_json_moves_the_keys_and_loses_nothing() {
        let wide = Rect { width: 100, ..AREA };
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let mut state = FormState::new(&Arc::new(schema), Defaults::Required);
        state.apply(Action::Json);
        assert!(state.json() == JsonView::Focused);
        state.click(Position::new(wide.x + 2, wide.y), wide);
        assert!(state.json() == JsonView::Open);
        state.click(Position::new(wide.right() - 4, wide.y + 3), wide);
        assert!(state.json() == JsonView::Focused);
    }
}
