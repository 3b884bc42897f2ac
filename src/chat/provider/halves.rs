//! Events whose JSON holds half a character: programs that cut text between the two code units that
//! UTF-16 has for an emoji write each half as an escape of its own, in two events (elizaOS/eliza#30904,
//! elie222/rakazo#416). Pure.

use serde_json::{Error, Value};

/// Half a character.
const ESCAPE_BYTES: usize = "\\ud83d".len();

/// Reads events one after the other, and joins characters that were cut between them.
#[derive(Debug, Default)]
pub(super) struct EventReader {
    /// The first half that the last event ended with, as it was escaped.
    first: Option<String>,
}

impl EventReader {
    /// Reads an event. A half whose other half does not come is U+FFFD.
    ///
    /// # Errors
    /// When it is no JSON.
    pub(super) fn read(&mut self, event: &[u8]) -> Result<Value, Error> {
        let error = match serde_json::from_slice(event) {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        let text = String::from_utf8_lossy(event);
        let whole = self.joined(&text);
        serde_json::from_str(&whole).map_err(|_| error)
    }

    /// The text of an event with characters instead of their halves.
    fn joined(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('\\') {
            let (before, escape) = rest.split_at(at);
            out.push_str(before);
            let length = match (half(escape), escape.get(ESCAPE_BYTES..).and_then(half)) {
                (Some(true), Some(false)) => ESCAPE_BYTES * 2,
                (None, _) => 2,
                (Some(_), _) => ESCAPE_BYTES,
            };
            let (escape, after) = escape.split_at_checked(length).unwrap_or((escape, ""));
            match half(escape) {
                Some(true) if length == ESCAPE_BYTES && after.starts_with('"') => {
                    self.first = Some(escape.to_owned());
                }
                Some(is_first) if length == ESCAPE_BYTES => {
                    let first = self.first.take().filter(|_| !is_first);
                    match first {
                        Some(first) => out.extend([&first, escape]),
                        None => out.push(char::REPLACEMENT_CHARACTER),
                    }
                }
                Some(_) | None => out.push_str(escape),
            }
            rest = after;
        }
        out.push_str(rest);
        out
    }
}

/// Whether an escape at the beginning of a text is half a character, and the first half of it.
fn half(text: &str) -> Option<bool> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    match u16::from_str_radix(digits, 16).ok()? {
        0xd800..=0xdbff => Some(true),
        0xdc00..=0xdfff => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_a_character_are_joined_within_an_event_and_across_two() {
        let read = |events: &[&str]| {
            let mut reader = EventReader::default();
            let texts = events.iter().map(|event| reader.read(event.as_bytes()).unwrap());
            texts.map(|value| value["t"].as_str().unwrap().to_owned()).collect::<String>()
        };
        assert_eq!(read(&[r#"{"t": "a \ud83d\ude00"}"#]), "a 😀");
        assert_eq!(
            read(&[r#"{"t": "a \ud83d"}"#, r#"{"t": "\ude00 b \\ud83d"}"#]),
            "a 😀 b \\ud83d"
        );
        assert_eq!(read(&[r#"{"t": "\ud83d"}"#, r#"{"t": ""}"#, r#"{"t": "\ude00"}"#]), "😀");
        assert_eq!(read(&[r#"{"t": "a \ude00 b"}"#]), "a \u{fffd} b");
        assert_eq!(read(&[r#"{"t": "a \ud83d b"}"#]), "a \u{fffd} b");
        assert_eq!(
            read(&[r#"{"t": "\ud83d"}"#, r#"{"t": "\ud83d\ude00\ude00"}"#]),
            "😀😀",
            "beside a whole one"
        );
    }

    #[test]
    fn what_is_no_json_is_an_error_and_bytes_that_are_no_text_are_replaced() {
        let mut reader = EventReader::default();
        for event in ["{", r#"{"t": "\"#, r#"{"t": "\ud8"#, r#"{"t": "\é"}"#] {
            assert!(reader.read(event.as_bytes()).is_err(), "{event}");
        }
        let value = reader.read(b"{\"t\": \"a\xf0\x9f\"}").unwrap();
        assert_eq!(value["t"], "a\u{fffd}");
    }
}
