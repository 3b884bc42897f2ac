//! Repairs of text that is nearly JSON: bytes that are no UTF-8, escapes that are no character.
//! Only used when the strict parser has refused a line, and always reported.

use std::borrow::Cow;

/// A repaired line and what was wrong with it; `None` when there is nothing this can repair.
pub fn repair(line: &[u8]) -> Option<(String, &'static str)> {
    let text = String::from_utf8_lossy(line);
    let utf8 = matches!(text, Cow::Owned(_));
    let surrogates = mend_surrogates(&text);
    match (utf8, surrogates) {
        (_, Some(text)) if utf8 => Some((text, "bytes that are no UTF-8 and lone surrogates")),
        (_, Some(text)) => Some((text, "a lone surrogate escape")),
        (true, None) => Some((text.into_owned(), "bytes that are no UTF-8")),
        (false, None) => None,
    }
}

/// Replaces escaped surrogates without a partner by U+FFFD; `None` when there is none.
fn mend_surrogates(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &bytes[at..]) {
        let slash = at + found;
        let Some(unit) = unit_at(bytes, slash) else {
            at = slash + 2;
            if at > bytes.len() {
                break;
            }
            continue;
        };
        at = slash + 6;
        match unit {
            0xD800..=0xDBFF if matches!(unit_at(bytes, at), Some(0xDC00..=0xDFFF)) => at += 6,
            0xD800..=0xDFFF => {
                let out = out.get_or_insert_default();
                out.push_str(&text[copied..slash]);
                out.push_str("\\ufffd");
                copied = at;
            }
            _ => {}
        }
    }
    out.map(|mut out| {
        out.push_str(&text[copied..]);
        out
    })
}

/// The code unit of a `\uXXXX` escape that begins at `at`.
fn unit_at(bytes: &[u8], at: usize) -> Option<u32> {
    let escape = bytes.get(at..at + 6)?;
    if &escape[..2] != b"\\u" {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(&escape[2..]).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_what_is_no_character_and_nothing_else() {
        let fix = |line: &[u8]| repair(line).map(|(text, _)| text);
        assert_eq!(fix(br#"{"a":"\ud83d\ude00"}"#), None, "a pair is a character");
        assert_eq!(fix(br#"{"a":"\\ud800"}"#), None, "an escaped backslash is no escape");
        assert_eq!(fix(br#"{"a":"x\ud800y\udc00"}"#).unwrap(), r#"{"a":"x\ufffdy\ufffd"}"#);
        assert_eq!(fix(b"{\"a\":\"\xff\"}").unwrap(), "{\"a\":\"\u{fffd}\"}");
        assert_eq!(fix(br#""\ud800\"#).unwrap(), r#""\ufffd\"#, "a cut escape is left alone");
    }
}
