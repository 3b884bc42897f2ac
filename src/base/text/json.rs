//! JSON that is safe to print: characters that serde leaves alone but that control a terminal or
//! mislead a reader (delete, C1, bidi, zero-width and tag characters) are written as `\u` escapes.
//!
//! The value is unchanged: a parser reads back exactly what was put in.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde::Serialize;
use serde_json::Value;

use super::inspect::is_hidden;

/// JSON on one line.
pub fn compact<T: Serialize + ?Sized>(value: &T) -> String {
    printable(serde_json::to_string(value))
}

/// Indented by two blanks.
pub fn pretty<T: Serialize + ?Sized>(value: &T) -> String {
    printable(serde_json::to_string_pretty(value))
}

/// Such characters occur only inside strings, where an escape means the same.
fn printable(written: serde_json::Result<String>) -> String {
    // Fails only for a map with non-string keys, and no value of ours has one.
    debug_assert!(written.is_ok(), "not representable as JSON");
    let text = written.unwrap_or_default();
    if text.chars().any(unsafe_to_print) { escaped(&text, unsafe_to_print) } else { text }
}

/// Whether a character must not reach a terminal as it is.
const fn unsafe_to_print(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}') || is_hidden(c)
}

/// JSON text with the characters selected by `which` as `\uXXXX`.
pub(crate) fn escaped(text: &str, which: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if which(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// A value for display: text without quotes.
pub fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The size of a value as JSON text, without building the text.
pub fn weigh(value: &impl serde::Serialize) -> usize {
    struct Scale(usize);
    impl std::io::Write for Scale {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut scale = Scale(0);
    match serde_json::to_writer(&mut scale, value) {
        Ok(()) => scale.0,
        Err(_) => usize::MAX / 2,
    }
}

// Numbers as they are written: what a double or 64 bits cannot hold is refused, never rounded.

/// Parses JSON, rejecting numbers that would not be sent as written: integers beyond 64 bits, and
/// numbers with more digits than a double can hold.
///
/// # Errors
/// A message, with line and column if the text does not parse.
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

/// The first number in a JSON text that parsing would change.
fn lossy_number(text: &str) -> Option<&str> {
    static TOKENS: LazyLock<Option<regex::Regex>> =
        LazyLock::new(|| regex::Regex::new(r#""(?:\\.|[^"\\])*"|[-0-9][-+.eE0-9]*"#).ok());
    let tokens = TOKENS.iter().flat_map(|token| token.find_iter(text)).map(|found| found.as_str());
    tokens.filter(|token| !token.starts_with('"')).find(|token| is_lossy(token))
}

fn is_lossy(token: &str) -> bool {
    let mantissa = token.split(['e', 'E']).next().unwrap_or_default();
    // Numbers so small that a double rounds them, down to zero.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_reads_back_the_same() {
        let nasty = "a\u{9b}31m\u{1b}]52;\u{7}b\u{202e}c\u{e0041}d\u{200b}\u{7f}é€😀";
        let text = compact(&serde_json::json!({ nasty: [nasty] }));
        assert!(text.contains("é€😀"), "{text}");
        assert!(!text.chars().any(|c| c.is_control() || unsafe_to_print(c)), "{text:?}");
        let back: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(back[nasty][0], nasty);
    }

    #[test]
    fn pretty_output_is_indented_as_usual() {
        let value = serde_json::json!({"a": [1, {}], "b": []});
        assert_eq!(pretty(&value), serde_json::to_string_pretty(&value).expect("plain"));
    }
}
