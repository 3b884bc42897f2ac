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

/// Parses JSON, and tells whether all its numbers can be kept as typed: one that would be rounded can
/// only if the schema holds it, as it is known then how it is written.
fn parsed(text: &str, known: &Spellings) -> Result<(WrittenValue, bool), String> {
    // What the schema spells otherwise was typed so on purpose.
    let parse = if known.is_empty() { WrittenValue::parse } else { WrittenValue::parse_all };
    let parsed = parse(text)?;
    let is_known = |(place, written): (&str, &str)| {
        let number = parsed.pointer(place).and_then(Value::as_number);
        number.and_then(|number| known.written(number)) == Some(written)
    };
    let is_kept = parsed.numbers.only_rounded().iter().all(is_known);
    Ok((parsed, is_kept))
}

/// Parses JSON; a number that could not be sent as typed is an error.
pub(super) fn typed_value(text: &str, known: &Spellings) -> Result<WrittenValue, String> {
    match parsed(text, known)? {
        (value, true) => Ok(value),
        (_, false) => exact(text).map(WrittenValue::from),
    }
}

/// Parses a JSON number; one that could not be sent as typed is an error.
pub(super) fn number(text: &str, known: &Spellings) -> Result<WrittenValue, String> {
    let is_beyond_range = || text.trim().parse().is_ok_and(f64::is_infinite);
    match parsed(text, known) {
        Ok((number, true)) if number.is_number() => Ok(number),
        Ok((number, false)) if number.is_number() && is_beyond_range() => {
            Err("too large to be sent as a number".to_owned())
        }
        Ok((number, false)) if number.is_number() => exact(text).map(WrittenValue::from),
        Ok(_) | Err(_) => Err("not a number; write it as 42, -1.5 or 3e8".to_owned()),
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
const MAX_JSON_BYTES: usize = 1_000_000;

/// The JSON text of a value, empty if it is unset; `None` if it is too large to be edited.
pub(super) fn editable(value: Option<&WrittenValue>) -> Option<String> {
    let Some(value) = value else { return Some(String::new()) };
    let (text, is_cut) = crate::result::content::pretty(value, MAX_JSON_BYTES);
    (!is_cut).then_some(text)
}

/// The JSON text of a value; a note if it is too large.
pub fn pretty(value: Option<&WrittenValue>) -> String {
    let size = Bytes(MAX_JSON_BYTES as u64);
    editable(value).unwrap_or_else(|| format!("more than {size}: too large to edit here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_cannot_be_sent_says_why_and_anything_else_that_it_is_none() {
        let refused = |text: &str| number(text, &Spellings::default()).expect_err(text);
        for text in ["1e999", " -1e400 "] {
            assert_eq!(refused(text), "too large to be sent as a number");
        }
        for text in ["12345678901234567890123", "1e-400"] {
            assert!(refused(text).contains("exactly"), "{}", refused(text));
        }
        for text in ["", "0x1", "\"exactly\"", "[1e999]", "[1e-400]", "exactly", "out of range"] {
            assert!(refused(text).starts_with("not a number"), "{text}: {}", refused(text));
        }
    }
}
