//! Looking for a typed text, whatever its case. Pure.

/// Whether `text` contains `part`, ignoring case; ASCII letters of `part` are in lower case.
pub fn contains(text: &str, part: &str) -> bool {
    find(text, part).is_some()
}

/// Byte offset of `part` in `text`, ignoring case; ASCII letters of `part` are in lower case. What
/// is found has the length of `part`.
pub fn find(text: &str, part: &str) -> Option<usize> {
    if !part.is_ascii() {
        let lower = |c: char| {
            let mut lower = c.to_lowercase();
            lower.next().filter(|lower| lower.len_utf8() == c.len_utf8()).unwrap_or(c)
        };
        let begins = |text: &str| {
            let mut text = text.chars().map(lower);
            part.chars().map(lower).all(|c| text.next() == Some(c))
        };
        return text.char_indices().map(|(at, _)| at).find(|at| begins(&text[*at..]));
    }
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let Some(first) = part.first() else { return Some(0) };
    let last = text.len().checked_sub(part.len())?;
    memchr::memchr2_iter(*first, first.to_ascii_uppercase(), &text[..=last])
        .find(|at| text[*at..*at + part.len()].eq_ignore_ascii_case(part))
}
