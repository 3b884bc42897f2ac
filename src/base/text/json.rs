//! JSON that is safe to print: characters that serde leaves alone but that control a terminal or
//! mislead a reader (delete, C1, bidi, zero-width and tag characters) are written as `\u` escapes.
//!
//! The value is unchanged: a parser reads back exactly what was put in.

use std::fmt::Write as _;

use serde::Serialize;

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
