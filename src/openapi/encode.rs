//! Percent-encoding (RFC 3986, section 2).

use std::fmt::Write as _;

/// Whether a character needs no encoding anywhere (section 2.3).
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// Encodes everything but unreserved characters.
pub(crate) fn encoded(text: &str) -> String {
    encoded_but(text, b"")
}

/// Encodes everything but unreserved characters and these.
pub(crate) fn encoded_but(text: &str, more: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_unreserved(byte) || more.contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Decodes `%XX`; what is not UTF-8 afterwards is replaced.
pub(crate) fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes.get(at + 1..at + 3).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        if let (b'%', Some(byte)) = (bytes[at], byte) {
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether a text is, or holds between slashes, a segment that leads out of its place in a path.
pub(crate) fn leaves_path(text: &str) -> bool {
    text.split(['/', '\\']).any(|part| part == "." || part == "..")
}

/// A literal part of a path, with what needs it encoded.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let is_escape = c == '%'
            && rest.get(1..3).is_some_and(|two| two.bytes().all(|b| b.is_ascii_hexdigit()));
        if is_escape || "/:@!$&'()*+,;=".contains(c) {
            out.push(c);
        } else {
            out.push_str(&encoded(c.encode_utf8(&mut [0; 4])));
        }
        rest = &rest[c.len_utf8()..];
    }
    out
}
