//! What can still be learnt from a line that is no message: the id it answers, a message inside it.

use rmcp::model::RequestId;

/// The top-level `id` of a JSON object that does not parse, as far as its text can be followed.
///
/// Walks strings and brackets; everything else is skipped. Gives the first `id` key on the first
/// level whose value is an integer or a string.
pub fn find_id(text: &[u8]) -> Option<RequestId> {
    let mut depth = 0_usize;
    let mut at = text.iter().position(|b| *b == b'{')?;
    while at < text.len() {
        match text[at] {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let end = string_end(text, at)?;
                if depth == 1
                    && &text[at..end] == b"\"id\""
                    && let Some(id) = value_after(&text[end..])
                {
                    return Some(id.0);
                }
                at = end;
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// The `id` at the end of a line of which only the end is known: `..., "id": 7}`.
pub fn find_last_id(tail: &[u8]) -> Option<RequestId> {
    let at = memchr::memmem::rfind(tail, b"\"id\"")?;
    let (id, used) = value_after(&tail[at + 4..])?;
    let rest: Vec<u8> =
        tail[at + 4 + used..].iter().copied().filter(|b| !b.is_ascii_whitespace()).collect();
    let last = rest == b"}" || rest == b",\"jsonrpc\":\"2.0\"}";
    last.then_some(id)
}

/// Where a message may begin inside a line that is something else, best guess first.
pub fn find_message(line: &[u8]) -> Option<usize> {
    let marker = memchr::memmem::find(line, b"\"jsonrpc\"")?;
    let before = line[..marker].iter().rposition(|b| !b.is_ascii_whitespace())?;
    if line[before] == b'{' {
        return Some(before);
    }
    memchr::memchr(b'{', &line[..marker])
}

fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

/// The id after a key, and how many bytes it took: `: 7`, `: "a"`.
fn value_after(text: &[u8]) -> Option<(RequestId, usize)> {
    let skip =
        |from: usize| text[from..].iter().position(|b| !b.is_ascii_whitespace()).map(|n| from + n);
    let colon = skip(0)?;
    if text[colon] != b':' {
        return None;
    }
    let start = skip(colon + 1)?;
    if text[start] == b'"' {
        let end = string_end(text, start)?;
        let id: String = serde_json::from_slice(&text[start..end]).ok()?;
        return Some((RequestId::String(id.into()), end));
    }
    let len = text[start..].iter().position(|b| !b.is_ascii_digit() && *b != b'-')?;
    if matches!(text[start + len], b'.' | b'e' | b'E') {
        return None;
    }
    let id = std::str::from_utf8(&text[start..start + len]).ok()?.parse().ok()?;
    Some((RequestId::Number(id), start + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_id_of_a_broken_message_and_not_one_inside_it() {
        let found = |text: &str| find_id(text.as_bytes());
        assert_eq!(
            found(r#"{"jsonrpc":"2.0","id":7,"result":{"a":NaN}}"#),
            Some(RequestId::Number(7))
        );
        assert_eq!(found(r#"{"id" : "x","result":["#), Some(RequestId::String("x".into())));
        assert_eq!(
            found(r#"{"result":{"id":1,"t":"\"id\":2"},"id":3}"#),
            Some(RequestId::Number(3))
        );
        assert_eq!(found(r#"{"result":{"id":1"#), None);
        assert_eq!(found(r#"{"id":12"#), None, "a cut number may be another number");
        assert_eq!(found(r#"{"id":1e400,"result":{}}"#), None, "nor is it what it begins with");
        assert_eq!(find_last_id(br#"xx"}]},"id":9 }"#), Some(RequestId::Number(9)));
        assert_eq!(find_last_id(br#"xx","id":9,"more":{"#), None);
    }

    #[test]
    fn finds_a_message_behind_log_text() {
        let line = br#"INFO {x} ready{"jsonrpc":"2.0","id":1,"result":{}}"#;
        assert_eq!(find_message(line), Some(14));
        assert_eq!(find_message(br#"log: {"id":1,"jsonrpc":"2.0"}"#), Some(5));
        assert_eq!(find_message(b"plain"), None);
    }
}
