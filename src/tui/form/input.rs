//! What keys and pasted text do to a form: moving, typing, choosing. No drawing; which key means
//! which command is decided by the key table, [`FormState::type_key`] only types.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_textarea::{CursorMove, Input, TextArea};
use serde_json::Value;

use super::field::FieldKind;
use super::json::exact;
use super::pointer;
use super::row::RowKind;
use super::state::{Draft, FormState, text_of};
use crate::tui::keymap::Scope;

/// What an editor of a line edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edits {
    /// Text.
    Text,
    /// Text with several lines.
    Lines,
    /// A number.
    Number,
    /// JSON.
    Json,
    /// The name of a new key.
    NewKey,
    /// The name of the key itself.
    Rename,
}

/// The text being typed on one line.
pub struct Editor {
    /// The place.
    pub pointer: String,
    /// What it edits.
    pub edits: Edits,
    /// The text.
    pub area: TextArea<'static>,
}

/// Texts of at most this many lines are seen whole.
const PAGE: usize = 8;
/// Text longer than this is not edited in a line; the external editor is for that.
const INLINE: usize = 256 << 10;

impl FormState {
    /// Puts the cursor on a row, or on the line that calls when there is no such row.
    pub fn select(&mut self, row: usize) {
        self.leave();
        self.cursor = row.min(self.rows.len());
        self.popup = None;
        self.editor = None;
        self.focus();
    }

    /// Puts the cursor on a place.
    pub fn select_place(&mut self, at: &str) {
        let exact = |r: &super::Row| r.pointer == at && !matches!(r.kind, RowKind::Add { .. });
        if let Some(row) = self.rows.iter().position(exact) {
            // A container is entered at its first field, where typing can begin.
            let inner = self.rows[row..].iter().position(|r| {
                pointer::is_within(&r.pointer, at)
                    && !matches!(&r.kind, RowKind::Field { folded: Some(_), .. })
            });
            self.select(row + inner.unwrap_or(0));
        }
    }

    /// Opens the editor of the line under the cursor when it takes text.
    pub(super) fn focus(&mut self) {
        let Some(row) = self.rows.get(self.cursor) else {
            self.editor = None;
            return;
        };
        if self.editor.as_ref().is_some_and(|e| e.pointer == row.pointer) {
            return;
        }
        let value = pointer::get(self.value.as_ref(), &row.pointer);
        let (edits, text) = match &row.kind {
            RowKind::Add { keyed: true } => (Edits::NewKey, Some(String::new())),
            RowKind::Field { field, .. } => {
                let edits = match &field.kind {
                    FieldKind::Text { multiline: true, .. } => Edits::Lines,
                    FieldKind::Text { .. } => Edits::Text,
                    FieldKind::Number { .. } => Edits::Number,
                    FieldKind::Json(_) => Edits::Json,
                    _ => {
                        self.editor = None;
                        return;
                    }
                };
                (edits, text_of(&field.kind, value))
            }
            _ => (Edits::Text, None),
        };
        let draft = self.drafts.get(&row.pointer).map(|d| d.text.clone());
        let text = draft.or(text).filter(|text| text.len() <= INLINE);
        let secret = row.field().is_some_and(super::field::Field::is_secret);
        self.editor = text.map(|text| {
            let mut area = area(&text);
            if secret {
                area.set_mask_char('*');
            }
            Editor { pointer: row.pointer.clone(), edits, area }
        });
    }

    /// Puts the cursor of the line at a column, or at its end.
    pub(super) fn move_cursor_to(&mut self, column: usize) {
        if let Some(editor) = self.editor.as_mut().filter(|_| column > 0) {
            editor.area.move_cursor(CursorMove::Jump(0, u16::try_from(column).unwrap_or(u16::MAX)));
        }
    }

    /// Leaving a line ends what was only half an intention there.
    fn leave(&mut self) {
        let half = self.editor.take().filter(|e| matches!(e.edits, Edits::NewKey | Edits::Rename));
        if half.is_some() {
            self.collect();
        }
    }

    /// A key on a screen whose table may bind it: text first, but never a chord that is bound, nor a
    /// key that moves, unless an open list takes it. Gives whether it was text.
    pub fn take_key(&mut self, key: KeyEvent, bound: bool) -> bool {
        let moves =
            matches!(key.code, KeyCode::F(_) | KeyCode::Esc | KeyCode::Tab | KeyCode::BackTab);
        let chord = !key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        (self.popup_is_open() || !(moves || chord && bound)) && self.type_key(key)
    }

    /// Where its keys are bound.
    pub fn scopes(&self) -> &'static [Scope] {
        if self.takes_text() { &[Scope::Form] } else { &[Scope::FormLine, Scope::Form] }
    }

    /// Types one key into whatever takes text; gives whether it was used.
    pub fn type_key(&mut self, key: KeyEvent) -> bool {
        if self.json.as_ref().is_some_and(|json| json.focused) {
            return self.type_json(key);
        }
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
        let Some(field) = self.current().and_then(super::Row::field) else { return false };
        let (is_bool, is_choice) = (
            matches!(field.kind, FieldKind::Bool),
            matches!(field.kind, FieldKind::Choice(_) | FieldKind::MultiChoice(_)),
        );
        let at = self.current().map(|row| row.pointer.clone()).unwrap_or_default();
        match key.code {
            KeyCode::Char('t' | 'y' | '1') if plain && is_bool => self.set(&at, Value::Bool(true)),
            KeyCode::Char('f' | 'n' | '0') if plain && is_bool => self.set(&at, Value::Bool(false)),
            KeyCode::Backspace if is_bool || is_choice => {
                self.unset(&at);
                true
            }
            KeyCode::Char(c) if plain && is_choice && c != ' ' => {
                self.open_popup(c.to_string());
                if let Some(popup) = &mut self.popup {
                    popup.selected = 0;
                }
                true
            }
            _ => false,
        }
    }

    /// A character typed where no line is open starts the value of the row: the first item of a
    /// list, the first field of an object, text in place of another value. Gives whether the row
    /// takes it; where it means nothing it is swallowed, never a command.
    fn begin_typing(&mut self, c: char) -> bool {
        let Some(row) = self.current() else { return false };
        let at = row.pointer.clone();
        match &row.kind {
            RowKind::Variant { .. } | RowKind::Types { .. } => self.open_popup(c.to_string()),
            RowKind::Add { keyed: false } => _ = self.add_item(&at),
            RowKind::Field { field, .. } => match &field.kind {
                FieldKind::Array { open: true } => _ = self.add_item(&at),
                FieldKind::Object { .. } => self.enter_object(&at),
                FieldKind::Text { .. } => self.begin_anew(at, Edits::Text),
                FieldKind::Number { .. } => self.begin_anew(at, Edits::Number),
                FieldKind::Json(_) => self.begin_anew(at, Edits::Json),
                FieldKind::Bool | FieldKind::Choice(_) | FieldKind::MultiChoice(_) => return false,
                _ => {}
            },
            _ => {}
        }
        true
    }

    /// Goes to the first line inside of an object that takes text; to the name of a new key when it
    /// has no fields.
    fn enter_object(&mut self, at: &str) {
        self.decisions.folds.insert(at.to_owned(), false);
        self.refresh();
        let inside = |row: &super::Row| row.pointer != at && pointer::is_within(&row.pointer, at);
        let named = |row: &super::Row| {
            row.pointer == at && matches!(row.kind, RowKind::Add { keyed: true })
        };
        let first = self.rows.iter().position(inside);
        if let Some(row) = first.or_else(|| self.rows.iter().position(named)) {
            self.select(row);
        }
    }

    /// An empty line in place of a value of another type; undo brings that back. What is too long
    /// for a line is not replaced by a single key.
    fn begin_anew(&mut self, at: String, edits: Edits) {
        let value = pointer::get(self.value.as_ref(), &at);
        if value.and_then(Value::as_str).is_none_or(|text| text.len() <= INLINE) {
            self.editor = Some(Editor { pointer: at, edits, area: area("") });
        }
    }

    fn type_line(&mut self, key: KeyEvent) -> bool {
        let Some(editor) = &mut self.editor else { return false };
        let many = matches!(editor.edits, Edits::Lines | Edits::Json);
        let lines = editor.area.lines();
        let row = editor.area.cursor().0;
        let newline = key.code == KeyCode::Enter
            && (key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT)
                || editor.edits == Edits::Json
                    && serde_json::from_str::<Value>(&lines.join("\n")).is_err()
                    && !lines.concat().trim().is_empty());
        match key.code {
            KeyCode::Enter if many && newline => editor.area.insert_newline(),
            KeyCode::Enter | KeyCode::Tab | KeyCode::BackTab | KeyCode::Esc => return false,
            // Pages are turned in long texts alone; elsewhere these keys leave the line.
            KeyCode::PageUp | KeyCode::PageDown if lines.len() <= PAGE => return false,
            KeyCode::Up if row == 0 => return false,
            KeyCode::Down if row + 1 >= lines.len() => return false,
            KeyCode::Backspace if editor.area.is_empty() => {
                let at = editor.pointer.clone();
                if editor.edits != Edits::NewKey {
                    self.unset(&at);
                }
                return true;
            }
            _ => {
                let before = lines.to_vec();
                let moved = editor.area.cursor();
                edit(&mut editor.area, key);
                if editor.area.lines() == before {
                    return editor.area.cursor() != moved;
                }
            }
        }
        self.typed();
        true
    }

    /// Takes over what the line's editor holds now.
    fn typed(&mut self) {
        let Some(editor) = &self.editor else { return };
        let (at, edits) = (editor.pointer.clone(), editor.edits);
        let text = editor.area.lines().join("\n");
        self.take_typed(&at, edits, text);
    }

    /// Takes over text that was typed for a place.
    pub(super) fn take_typed(&mut self, at: &str, edits: Edits, text: String) {
        if !matches!(edits, Edits::NewKey | Edits::Rename) {
            self.remember_typing(at);
        }
        match edits {
            Edits::Text | Edits::Lines => self.take_value(at, Value::String(text)),
            Edits::Number | Edits::Json if text.trim().is_empty() => self.take_nothing(at),
            Edits::Number => match self.number_at(at, text.trim()) {
                Ok(number) => self.take_value(at, number),
                Err(message) => self.take_draft(at, text, message),
            },
            Edits::Json => match exact(&text) {
                Ok(value) => self.take_value(at, value),
                Err(message) => self.take_draft(at, text, message),
            },
            Edits::NewKey | Edits::Rename => {}
        }
    }

    /// The number of a place as it is typed; for an integer only what is written as one, because
    /// it is sent as it is written.
    fn number_at(&self, at: &str, text: &str) -> Result<Value, String> {
        let number = number(text)?;
        let kind = self.rows.iter().filter(|row| row.pointer == at).find_map(super::Row::field);
        let integer =
            kind.is_some_and(|f| matches!(f.kind, FieldKind::Number { integer: true, .. }));
        if integer && number.is_f64() {
            return Err("an integer: write it without sign of zero, point or exponent".to_owned());
        }
        Ok(number)
    }

    fn take_value(&mut self, at: &str, value: Value) {
        self.drafts.remove(at);
        // The editor of the line survives: it is what is being typed in.
        let editor = self.editor.take();
        self.begin_above(at);
        if pointer::get(self.value.as_ref(), at) != Some(&value)
            && !pointer::set(&mut self.value, at, value)
        {
            let message = "cannot be set: a value above it is of another kind".to_owned();
            self.drafts.insert(at.to_owned(), Draft { text: String::new(), message });
        }
        self.changed();
        self.editor = editor;
    }

    fn take_nothing(&mut self, at: &str) {
        let editor = self.editor.take();
        self.drafts.remove(at);
        let is_item = pointer::split(at)
            .and_then(|(parent, _)| pointer::get(self.value.as_ref(), parent))
            .is_some_and(Value::is_array);
        if is_item {
            // A list has no gaps: an item without a value cannot be sent.
            let message = "an item needs a value; remove it or type one".to_owned();
            self.drafts.insert(at.to_owned(), Draft { text: String::new(), message });
        } else {
            pointer::remove(&mut self.value, at);
        }
        self.changed();
        self.editor = editor;
    }

    fn take_draft(&mut self, at: &str, text: String, message: String) {
        self.drafts.insert(at.to_owned(), Draft { text, message });
        self.collect();
    }

    /// Takes pasted text: a whole JSON object fills the form, anything else is typed.
    pub fn paste(&mut self, text: &str) {
        let object = exact(text.trim()).ok().filter(Value::is_object);
        let known = |value: &Value| {
            let root = &self.document.root;
            value.as_object().is_some_and(|map| {
                map.keys().any(|key| root.properties.contains_key(key))
                    || root.properties.is_empty()
            })
        };
        let into_json = self.editor.as_ref().is_some_and(|e| e.edits == Edits::Json);
        if let Some(json) = self.json.as_mut().filter(|json| json.focused) {
            json.area.insert_str(text);
            return self.json_typed();
        }
        // Windows line ends are kept in texts and mean nothing in JSON.
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if let Some(object) = object.filter(|o| !into_json && known(o)) {
            self.set_value(Some(object));
            self.focus();
            return;
        }
        if self.editor.is_none() {
            let plain = text.chars().next().filter(|c| *c != ' ');
            _ = plain.is_some_and(|c| self.begin_typing(c));
        }
        let Some(editor) = &mut self.editor else { return };
        match editor.edits {
            Edits::Number | Edits::NewKey | Edits::Rename => {
                editor.area.insert_str(text.replace(['\r', '\n'], " ").trim());
            }
            Edits::Json => _ = editor.area.insert_str(text),
            Edits::Text | Edits::Lines if text.len() + length(&editor.area) > INLINE => {
                // Too long for a line: it is the value, and is edited in the editor outside.
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

    /// The text of the line under the cursor for an editor outside, and the suffix of its file.
    /// Works for text too long for the line, and for containers as JSON.
    pub fn field_for_editor(&self) -> Option<(String, &'static str)> {
        let row = self.current()?;
        if let Some(editor) = &self.editor {
            let suffix = if editor.edits == Edits::Json { ".json" } else { ".txt" };
            return Some((editor.area.lines().join("\n"), suffix));
        }
        match (row.field()?, pointer::get(self.value.as_ref(), &row.pointer)) {
            (_, Some(Value::String(text))) => Some((text.clone(), ".txt")),
            (_, Some(value)) => Some((serde_json::to_string_pretty(value).ok()?, ".json")),
            (field, None) => {
                let text = matches!(field.kind, FieldKind::Text { .. });
                Some((String::new(), if text { ".txt" } else { ".json" }))
            }
        }
    }

    /// Whether the field under the cursor holds base64 (`contentEncoding`, or `format: byte`).
    pub fn wants_base64(&self) -> bool {
        let field = self.current().and_then(super::Row::field);
        field.is_some_and(|field| {
            field.merged.nodes.iter().any(|node| {
                node.encoding.as_deref() == Some("base64")
                    || matches!(node.format.as_deref(), Some("byte" | "base64" | "binary"))
            })
        })
    }

    /// Replaces the text of the line under the cursor: from `$EDITOR`, a file, a completion.
    pub fn replace_text(&mut self, text: &str) {
        if let Some(editor) = &mut self.editor {
            let mask = editor.area.mask_char();
            editor.area = area(text);
            if let Some(mask) = mask {
                editor.area.set_mask_char(mask);
            }
            return self.typed();
        }
        let Some((at, is_text)) = self.current().and_then(|row| {
            let text = matches!(row.field()?.kind, FieldKind::Text { .. });
            Some((row.pointer.clone(), text))
        }) else {
            return;
        };
        if is_text {
            self.set(&at, Value::String(text.to_owned()));
        } else if let Ok(value) = exact(text) {
            self.set(&at, value);
        }
        self.focus();
    }
}

/// Edits as line editors do: what the text area takes, with `ctrl-u` to the start of the line.
pub(in crate::tui) fn edit(area: &mut TextArea<'static>, key: KeyEvent) -> bool {
    match key.code {
        KeyCode::Char('u') if key.modifiers == KeyModifiers::CONTROL => area.delete_line_by_head(),
        _ => area.input(Input::from(key)),
    }
}

/// Puts text at the cursor as it is, Windows line ends included.
fn insert(editor: &mut TextArea<'static>, text: &str) {
    if !text.contains('\r') {
        editor.insert_str(text);
        return;
    }
    let cursor = editor.cursor();
    let (row, column) = (cursor.0, cursor.1);
    let mut whole = String::new();
    for (n, line) in editor.lines().iter().enumerate() {
        let at = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
        let (before, after) = if n == row { line.split_at(at) } else { (line.as_str(), "") };
        whole.extend([
            if n > 0 { "\n" } else { "" },
            before,
            if n == row { text } else { "" },
            after,
        ]);
    }
    let mask = editor.mask_char();
    *editor = area(&whole);
    if let Some(mask) = mask {
        editor.set_mask_char(mask);
    }
}

fn length(area: &TextArea<'static>) -> usize {
    area.lines().iter().map(|line| line.len() + 1).sum()
}

/// A text area over `text` with the cursor at its end.
pub fn area(text: &str) -> TextArea<'static> {
    let mut area = TextArea::new(text.split('\n').map(str::to_owned).collect());
    area.set_cursor_line_style(ratatui::style::Style::default());
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

/// Reads a number exactly as JSON writes them; what could not be sent as typed is refused.
fn number(text: &str) -> Result<Value, String> {
    match exact(text) {
        Ok(value @ Value::Number(_)) => Ok(value),
        Err(message) if message.contains("exactly") => Err(message),
        Err(message) if message.contains("out of range") => {
            Err("too large to be sent as a number".to_owned())
        }
        _ => Err("not a number; write it as 42, -1.5 or 3e8".to_owned()),
    }
}
