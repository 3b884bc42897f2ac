//! Percent-encoding (RFC 3986, section 2).

use percent_encoding::{percent_decode_str, percent_encode_byte};

/// Decodes `%XX`; invalid sequences are kept as they are, and what is not UTF-8 afterwards is
/// replaced.
pub fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Encodes everything but unreserved characters.
pub fn encoded(text: &str) -> String {
    encoded_but(text, "")
}

/// Encodes everything but unreserved characters (section 2.3) and the ASCII characters of `kept`.
pub fn encoded_but(text: &str, kept: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-._~".contains(c) || c.is_ascii() && kept.contains(c) {
            out.push(c);
        } else {
            out.push_str(percent_encode_byte(byte));
        }
    }
    out
}

/// As [`encoded_but`], for a text in which `%XX` is encoded already.
pub fn completed(text: &str, kept: &str) -> String {
    let mut parts = text.split('%');
    let mut out = encoded_but(parts.next().unwrap_or_default(), kept);
    for part in parts {
        let digits = part.bytes().take(2).filter(u8::is_ascii_hexdigit).count();
        out += if digits == 2 { "%" } else { "%25" };
        out += &encoded_but(part, kept);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_two_hexadecimal_digits_are_decoded() {
        for (text, expected) in [
            ("a%20b%C3%A9", "a bé"),
            ("%+A%-1% 1%0x", "%+A%-1% 1%0x"),
            ("%", "%"),
            ("%4", "%4"),
            ("%é1", "%é1"),
            ("%ff", "\u{fffd}"),
        ] {
            assert_eq!(decoded(text), expected, "{text}");
        }
    }

    #[test]
    fn unreserved_and_kept_characters_stay_and_what_is_encoded_is_so_once() {
        assert_eq!(encoded("a-._~ /é%41"), "a-._~%20%2F%C3%A9%2541");
        assert_eq!(encoded_but("a/b?c", "/"), "a/b%3Fc");
        assert_eq!(completed("a/%41 %é%4g%", "/"), "a/%41%20%25%C3%A9%254g%25");
    }
}
