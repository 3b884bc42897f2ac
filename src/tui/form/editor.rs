//! Text input in a form: a line, the filter of an open list, the whole value as JSON.

use ratatui_textarea::TextArea;
use serde_json::Value;

use crate::find;
use crate::form::row::FieldKind;
use crate::prelude::*;
pub use crate::widget::text_input::{edit, text_area as area};
use base::text::json::{WrittenValue, exact};
use schema::Spellings;

/// What a line editor edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edits {
    Text,
    /// Multi-line text.
    Lines,
    Number,
    Json,
    /// The name of a new key.
    NewKey,
    /// The name of an existing key.
    Rename,
}

impl Edits {
    /// What a line editor edits in a field of this kind; `None` if it has no line editor.
    pub(super) const fn from_kind(kind: &FieldKind) -> Option<Self> {
        match kind {
            FieldKind::Text { multiline: true, .. } => Some(Self::Lines),
            FieldKind::Text { .. } => Some(Self::Text),
            FieldKind::Number => Some(Self::Number),
            FieldKind::Json(_) => Some(Self::Json),
            _ => None,
        }
    }
}

/// The editor of the line under the cursor, or of the JSON.
pub struct LineEditor {
    /// JSON pointer of the place; empty for the whole value.
    pub pointer: String,
    pub edits: Edits,
    /// The text.
    pub area: TextArea<'static>,
}

/// Inserts text at the cursor unchanged, Windows line ends included.
pub(super) fn insert(editor: &mut TextArea<'static>, text: &str) {
    if !text.contains('\r') {
        editor.insert_str(text);
        return;
    }
    let cursor = editor.cursor();
    let (row, column) = (cursor.0, cursor.1);
    let mut lines = editor.lines().to_vec();
    if let Some(line) = lines.get_mut(row) {
        let at = line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
        line.insert_str(at, text);
    }
    rewrite(editor, &lines.join("\n"));
}

/// Replaces the text of an editor; a masked one stays masked.
pub(super) fn rewrite(editor: &mut TextArea<'static>, text: &str) {
    let mask = editor.mask_char();
    *editor = area(text);
    if let Some(mask) = mask {
        editor.set_mask_char(mask);
    }
}

pub(super) fn length(area: &TextArea<'static>) -> usize {
    area.lines().iter().map(|line| line.len() + 1).sum()
}

/// Parses JSON. A number that could not be kept as typed is an error, unless the schema holds it: then
/// it is known how it is written.
pub(super) fn typed_value(text: &str, known: &Spellings) -> Result<WrittenValue, String> {
    // What the schema spells otherwise was typed so on purpose.
    let parse = if known.is_empty() { WrittenValue::parse } else { WrittenValue::parse_all };
    let parsed = parse(text)?;
    let is_known = |(place, written): (&str, &str)| {
        let number = parsed.pointer(place).and_then(Value::as_number);
        number.and_then(|number| known.written(number)) == Some(written)
    };
    if parsed.numbers.only_rounded().iter().all(is_known) {
        return Ok(parsed);
    }
    exact(text).map(WrittenValue::from)
}

/// Parses a JSON number; one that could not be sent as typed is an error.
pub(super) fn number(text: &str, known: &Spellings) -> Result<WrittenValue, String> {
    match typed_value(text, known) {
        Ok(number) if number.is_number() => Ok(number),
        Err(message) if message.contains("exactly") => Err(message),
        Err(message) if message.contains("out of range") => {
            Err("too large to be sent as a number".to_owned())
        }
        _ => Err("not a number; write it as 42, -1.5 or 3e8".to_owned()),
    }
}

// Lists to choose from: values, variants, types; narrowed by a typed filter. No drawing.

/// A list to choose from for the row under the cursor, narrowed by a typed filter.
pub struct Popup {
    /// Every entry.
    pub entries: Vec<SafeText>,
    /// The typed filter.
    pub filter: String,
    /// Index into the narrowed entries.
    pub selected: usize,
}

impl Popup {
    /// Indices of the entries that match the filter, best match first.
    pub fn narrowed(&self) -> Vec<usize> {
        find::rank(&self.filter, &self.entries, |entry| entry.as_str().into())
    }
}

/// The initial text for editing a field; `None` if it is not edited as text.
pub(super) fn text_of(kind: &FieldKind, written: Option<&WrittenValue>) -> Option<String> {
    let value = written.map(|written| &written.value);
    Some(match (kind, value) {
        // Null is shown as a placeholder, so that typing replaces it.
        (
            FieldKind::Text { .. } | FieldKind::Number | FieldKind::Json(_),
            None | Some(Value::Null),
        ) => String::new(),
        (FieldKind::Text { .. }, Some(Value::String(text))) => text.clone(),
        (FieldKind::Number, Some(Value::Number(_))) => serde_json::to_string(&written?).ok()?,
        (FieldKind::Json(_), Some(_)) => serde_json::to_string_pretty(&written?).ok()?,
        _ => return None,
    })
}

/// How the whole value is shown as JSON beside the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonView {
    /// Shown only if there is room.
    #[default]
    Closed,
    /// Always shown.
    Open,
    /// Shown, and has the focus instead of the fields.
    Focused,
}

/// Longest JSON text that can be edited here, in bytes.
const MAX_JSON_BYTES: usize = 1 << 20;

/// The JSON text of a value, empty if it is unset; `None` if it is too large to be edited.
pub(super) fn editable(value: Option<&WrittenValue>) -> Option<String> {
    let Some(value) = value else { return Some(String::new()) };
    let (text, is_cut) = crate::result::content::pretty(value, MAX_JSON_BYTES);
    (!is_cut).then_some(text)
}

/// The JSON text of a value; a note if it is too large.
pub fn pretty(value: Option<&WrittenValue>) -> String {
    editable(value).unwrap_or_else(|| "more than 1 MiB: too large to edit here".to_owned())
}
