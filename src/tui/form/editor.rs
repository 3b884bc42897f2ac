//! What is being typed in a form: a line, a choice from an open list, the whole value as JSON text;
//! and text read as numbers and JSON that are sent as they are written.

use std::sync::LazyLock;

use ratatui_textarea::TextArea;
use serde_json::Value;

use crate::tui::find;
use crate::tui::form::row::FieldKind;
use crate::tui::prelude::*;
pub use crate::tui::widget::text_input::{edit, text_area as area};

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

impl Edits {
    /// What is edited as text in a field of this kind.
    pub(super) const fn of(kind: &FieldKind) -> Option<Self> {
        match kind {
            FieldKind::Text { multiline: true, .. } => Some(Self::Lines),
            FieldKind::Text { .. } => Some(Self::Text),
            FieldKind::Number => Some(Self::Number),
            FieldKind::Json(_) => Some(Self::Json),
            _ => None,
        }
    }
}

/// The text being typed on one line.
pub struct LineEditor {
    /// The place.
    pub pointer: String,
    /// What it edits.
    pub edits: Edits,
    /// The text.
    pub area: TextArea<'static>,
}

/// Puts text at the cursor as it is, Windows line ends included.
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

/// Puts other text into an editor; what is masked stays so.
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

/// Reads a number exactly as JSON writes them; what could not be sent as typed is refused.
pub(super) fn number(text: &str) -> Result<Value, String> {
    match exact(text) {
        Ok(value @ Value::Number(_)) => Ok(value),
        Err(message) if message.contains("exactly") => Err(message),
        Err(message) if message.contains("out of range") => {
            Err("too large to be sent as a number".to_owned())
        }
        _ => Err("not a number; write it as 42, -1.5 or 3e8".to_owned()),
    }
}

// Lists to choose from: values, variants, types; narrowed by what is typed. No drawing.

/// A list to choose from, narrowed by what is typed.
pub struct Popup {
    /// The row it belongs to.
    pub row: usize,
    /// Every entry.
    pub entries: Vec<SafeText>,
    /// What is typed to narrow them.
    pub filter: String,
    /// Index into the narrowed entries.
    pub selected: usize,
}

impl Popup {
    /// Indices of the entries that fit the filter, the best first.
    pub fn narrowed(&self) -> Vec<usize> {
        find::rank(&self.filter, &self.entries, |entry| entry.as_str().into())
    }
}

/// The text with which a field is edited: `None` when it is not edited as text.
pub(super) fn text_of(kind: &FieldKind, value: Option<&Value>) -> Option<String> {
    Some(match (kind, value) {
        // Null is shown as a hint, so that typing replaces it.
        (
            FieldKind::Text { .. } | FieldKind::Number | FieldKind::Json(_),
            None | Some(Value::Null),
        ) => String::new(),
        (FieldKind::Text { .. }, Some(Value::String(text))) => text.clone(),
        (FieldKind::Number, Some(Value::Number(n))) => n.to_string(),
        (FieldKind::Json(_), Some(value)) => serde_json::to_string_pretty(value).ok()?,
        _ => return None,
    })
}

/// How the whole value is shown as JSON beside the fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JsonView {
    /// Only where there is room for it.
    #[default]
    Closed,
    /// Always.
    Open,
    /// It has the keys instead of the fields.
    Focused,
}

/// Text longer than this is shown but not edited here.
const EDITABLE: usize = 1 << 20;

/// The text of a value; nothing when it is unset.
pub fn pretty(value: Option<&Value>) -> String {
    let text = value.and_then(|value| serde_json::to_string_pretty(value).ok()).unwrap_or_default();
    if text.len() > EDITABLE {
        return format!("\"{} bytes: too large to edit here\"", text.len());
    }
    text
}

/// Parses JSON, refusing what would not be sent as it is written: a whole number beyond 64 bits,
/// a number with more digits than a double holds.
///
/// # Errors
/// A sentence with line and column.
pub fn exact(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| {
        let message = error.to_string();
        let bare = message.split(" at line").next().unwrap_or_default();
        format!("line {}, column {}: {bare}", error.line(), error.column())
    })?;
    match lossy_number(text) {
        Some(token) => Err(format!("{token} cannot be sent exactly; it has too many digits")),
        None => Ok(value),
    }
}

/// The first number of a JSON text that parsing changes.
fn lossy_number(text: &str) -> Option<&str> {
    static TOKENS: LazyLock<Option<regex::Regex>> =
        LazyLock::new(|| regex::Regex::new(r#""(?:\\.|[^"\\])*"|[-0-9][-+.eE0-9]*"#).ok());
    let tokens = TOKENS.iter().flat_map(|token| token.find_iter(text)).map(|found| found.as_str());
    tokens.filter(|token| !token.starts_with('"')).find(|token| is_lossy(token))
}

fn is_lossy(token: &str) -> bool {
    let mantissa = token.split(['e', 'E']).next().unwrap_or_default();
    // What is so small that a double rounds it, to nothing in the end.
    let rounded = token.parse::<f64>().is_ok_and(|parsed| !parsed.is_normal());
    if rounded && mantissa.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        return true;
    }
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    if digits <= 15 {
        return false;
    }
    if token.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        return token.parse::<i64>().is_err() && token.parse::<u64>().is_err();
    }
    let significant = mantissa.trim_start_matches(['-', '0', '.']).trim_end_matches('0');
    significant.bytes().filter(u8::is_ascii_digit).count() > 17
}
