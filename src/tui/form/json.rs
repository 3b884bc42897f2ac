//! The whole value as JSON text beside the form: the same value, edited either way.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_textarea::TextArea;
use serde_json::Value;

use super::input::{area, edit};
use super::state::FormState;

/// An editor of the whole value.
pub struct JsonEditor {
    /// The text.
    pub area: TextArea<'static>,
    /// Whether keys go here instead of to the fields.
    pub focused: bool,
    problem: Option<String>,
    /// Text that was no value and was taken back.
    taken_back: Option<String>,
}

/// Text longer than this is shown but not edited here.
const EDITABLE: usize = 1 << 20;

impl JsonEditor {
    fn new(value: Option<&Value>) -> Self {
        Self { area: area(&pretty(value)), focused: true, problem: None, taken_back: None }
    }

    /// Why the text is no value now.
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Shows the value after the form changed it; what is being typed here is left alone.
    pub(super) fn follow(&mut self, value: Option<&Value>) {
        // Text that is no value yet is not lost because a field changed.
        if !self.focused && self.problem.is_none() {
            self.area = area(&pretty(value));
            self.problem = None;
        }
    }
}

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

/// The first number of `text` that parsing changes.
fn lossy_number(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let start = at;
                while at < bytes.len()
                    && matches!(bytes[at], b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E')
                {
                    at += 1;
                }
                let token = &text[start..at];
                if is_lossy(token) {
                    return Some(token);
                }
            }
            _ => at += 1,
        }
    }
    None
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

impl FormState {
    /// Opens the JSON, gives it the keys, or gives them back to the fields and closes it.
    pub(super) fn toggle_json(&mut self) {
        match &mut self.json {
            None => self.enter_json(),
            Some(json) if json.focused => {
                json.focused = false;
                self.focus();
            }
            // Text that is no value yet stays until it is one.
            Some(json) if json.problem.is_some() => self.enter_json(),
            Some(_) => self.json = None,
        }
    }

    /// Gives the keys to the JSON, which is opened when it is not.
    pub(super) fn enter_json(&mut self) {
        (self.editor, self.popup) = (None, None);
        let value = self.value.as_ref();
        self.json.get_or_insert_with(|| JsonEditor::new(value)).focused = true;
    }

    /// Whether the JSON is open.
    pub const fn json(&self) -> Option<&JsonEditor> {
        self.json.as_ref()
    }

    /// Takes JSON text back that is no value, or brings it back; gives whether it did either.
    pub(super) fn undo_json(&mut self) -> bool {
        let Some(json) = &mut self.json else { return false };
        if json.problem.take().is_some() {
            json.taken_back = Some(json.area.lines().join("\n"));
            json.area = area(&pretty(self.value.as_ref()));
            return true;
        }
        match json.taken_back.take() {
            Some(text) => {
                self.replace_json(&text);
                true
            }
            None => false,
        }
    }

    /// Goes back from the JSON to the fields; text that is no value yet stays there.
    pub fn leave_json(&mut self) -> bool {
        let Some(json) = self.json.as_mut().filter(|json| json.focused) else { return false };
        json.focused = false;
        json.follow(self.value.as_ref());
        self.focus();
        true
    }

    pub(super) fn type_json(&mut self, key: KeyEvent) -> bool {
        let Some(json) = &mut self.json else { return false };
        let command = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        match key.code {
            KeyCode::Esc | KeyCode::BackTab => return false,
            KeyCode::Tab => {
                json.area.insert_str("  ");
            }
            KeyCode::Char('p') if command => return false,
            _ => {
                let before = json.area.lines().to_vec();
                edit(&mut json.area, key);
                if json.area.lines() == before {
                    return true;
                }
            }
        }
        self.json_typed();
        true
    }

    /// Replaces the JSON text: from `$EDITOR`.
    pub fn replace_json(&mut self, text: &str) {
        if let Some(json) = &mut self.json {
            json.area = area(text.trim_end());
            self.json_typed();
        }
    }

    pub(super) fn json_typed(&mut self) {
        let Some(json) = &mut self.json else { return };
        let text = json.area.lines().join("\n");
        let parsed = if text.trim().is_empty() { Ok(None) } else { exact(&text).map(Some) };
        match parsed {
            Ok(value) => {
                json.problem = None;
                self.take_json(value);
            }
            Err(message) => json.problem = Some(message),
        }
    }
}
