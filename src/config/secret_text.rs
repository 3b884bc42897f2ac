//! Secrets in a text that anybody may have written: a message, a line of a log, a file. What looks
//! random is no secret here: digests, ids, cursors and images do.

use std::ops::Range;

use crate::mask::{
    MIN_TOKEN_BYTES, TOKEN_PREFIXES, is_reference, merged, named, options, paths, schemes, users,
};
use base::secret::MASK;

/// How the tokens of our own gateway begin.
const OWN_PREFIX: &str = "mcpdeck_";
/// How a token begins that is three parts in Base64; a cursor is one such part.
const PARTED_PREFIX: &str = "eyJ";
/// Shortest value behind `Bearer` or `Basic`, in bytes; shorter ones are words.
const MIN_SCHEME_VALUE_BYTES: usize = 8;
/// Longest part of a plain name, in letters: `management`.
const MAX_WORD_CHARS: usize = 14;
/// Longest plain number, in digits.
const MAX_NUMBER_CHARS: usize = 6;

/// The parts of a text that look like credentials, in order, not overlapping: issued tokens, private
/// keys, user and password of addresses, addresses of webhooks, what follows `Bearer`, and the values
/// of `NAME=` and `--NAME` with a secret-like name.
pub fn secret_ranges(text: &str) -> Vec<Range<usize>> {
    let is_odd = |spot: &Range<usize>| text.get(spot.clone()).is_some_and(|it| !is_wordy(it));
    let mut found = Vec::new();
    users(text, &mut found);
    // `git@`, the user of everybody.
    found.retain(|spot| text[spot.clone()].contains(':') || is_odd(spot));
    let mut named_values = Vec::new();
    named(text, &mut named_values);
    let is_assigned = |spot: &Range<usize>| text[..spot.start].ends_with('=');
    found.extend(named_values.into_iter().filter(|spot| is_assigned(spot) || is_odd(spot)));
    let mut option_values = Vec::new();
    options(text, &mut option_values);
    found.extend(option_values.into_iter().filter(is_odd));
    let mut scheme_values = Vec::new();
    schemes(text, &mut scheme_values);
    found.extend(scheme_values.into_iter().filter(|spot| spot.len() >= MIN_SCHEME_VALUE_BYTES));
    let mut steps = Vec::new();
    paths(text, false, &mut steps);
    found.extend(steps.into_iter().filter(is_odd));
    private_keys(text, &mut found);
    tokens(text, &mut found);
    found.retain(|spot| {
        text.get(spot.clone()).is_some_and(|value| value != MASK && !is_reference(value))
    });
    merged(found)
}

/// Finds issued tokens by how they begin.
fn tokens(text: &str, found: &mut Vec<Range<usize>>) {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_-.~+=".contains(c);
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(start) = bytes[from..].iter().position(u8::is_ascii_alphanumeric) {
        let start = from + start;
        let rest = &text[start..];
        let prefix = TOKEN_PREFIXES.iter().chain([&OWN_PREFIX]).find(|it| rest.starts_with(**it));
        // A token begins a word; behind a backslash a letter is a line break.
        let Some(prefix) = prefix else {
            let word = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            from = start + if start > 0 && bytes[start - 1] == b'\\' { 1 } else { word };
            continue;
        };
        let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let token = rest[..length].trim_end_matches(['.', '=']);
        let end = token.get(prefix.len()..).unwrap_or_default();
        let is_whole = *prefix != PARTED_PREFIX || end.matches('.').count() == 2;
        if token.len() >= MIN_TOKEN_BYTES && is_whole && !is_wordy(end) {
            found.push(start..start + token.len());
        }
        from = start + length;
    }
}

/// Finds private keys in PEM, each with what encloses it; one that is cut short to the end.
fn private_keys(text: &str, found: &mut Vec<Range<usize>>) {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    const DASHES: &str = "-----";
    let mut from = 0;
    while let Some(start) = text[from..].find(BEGIN) {
        let start = from + start;
        let label = start + BEGIN.len();
        from = label + text[label..].find(DASHES).map_or(0, |end| end + DASHES.len());
        if !text[label..from].contains("PRIVATE KEY") {
            continue;
        }
        let body = from;
        from = text.len();
        if let Some(end) = text[body..].find(END) {
            let label = body + end + END.len();
            let close = text[label..].find(DASHES);
            from = close.map_or(text.len(), |close| label + close + DASHES.len());
        }
        found.push(start..from);
    }
}

/// Whether a value consists of words and numbers, as names of things do and tokens do not.
pub fn is_wordy(value: &str) -> bool {
    let is_word = |part: &str| {
        let count = part.chars().count();
        let mut rest = part.chars().skip(1).filter(|c| c.is_alphabetic());
        let is_lower = rest.clone().all(char::is_lowercase);
        let is_upper = part.chars().all(char::is_uppercase) && rest.all(char::is_uppercase);
        let is_letters = part.chars().all(char::is_alphabetic) && (is_lower || is_upper);
        (is_letters && count <= MAX_WORD_CHARS)
            || (part.bytes().all(|byte| byte.is_ascii_digit()) && count <= MAX_NUMBER_CHARS)
    };
    value.split(|c: char| !c.is_alphanumeric()).all(|part| part.is_empty() || is_word(part))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mask::{is_secret, replaced};

    /// What follows the prefix of a token.
    const BODY: &str = "9aZ8bY7cX6dW5.eV4fU3gT2hS1.kR0";

    fn shown(text: &str) -> String {
        replaced(text, secret_ranges(text))
    }

    #[test]
    fn every_token_that_is_hidden_in_a_configuration_is_found_in_a_text() {
        for prefix in TOKEN_PREFIXES {
            let token = format!("{prefix}{BODY}");
            assert!(is_secret("NAME", &token), "{token}");
            for text in [
                token.clone(),
                format!("see {token}, please"),
                format!("<a href=\"https://h.example/x?a={token}&b=1\">"),
                format!("first\\n{token}\\nlast"),
                format!("{{\"a\": \"{token}\"}}"),
                format!("X-Api-Key: {token}\r\nAccept: */*"),
                format!("Authorization: Bearer {token}"),
                format!("--token {token} --verbose"),
            ] {
                let out = shown(&text);
                assert!(out.contains(MASK) && !out.contains(BODY), "{text}\n{out}");
            }
        }
    }

    #[test]
    fn what_gives_access_is_found_and_what_only_looks_like_it_stays() {
        for (text, out) in [
            (
                "postgres://me:geheim@db/x and ssh://git@h/x",
                "postgres://***@db/x and ssh://git@h/x",
            ),
            ("curl -H 'Authorization: Basic dXNlcjpwYXNz'", "curl -H 'Authorization: Basic ***'"),
            ("PASSWORD=swordfish LEVEL=info", "PASSWORD=*** LEVEL=info"),
            (
                "https://hooks.example.com/services/T0/B0",
                "https://hooks.example.com/services/***/***",
            ),
            (
                "a -----BEGIN RSA PRIVATE KEY-----\\nMIIE/x+\\n-----END RSA PRIVATE KEY----- b",
                "a *** b",
            ),
            ("a -----BEGIN PRIVATE KEY-----\nMIIEcut", "a ***\n"),
            ("mcpdeck_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef.", "***."),
        ] {
            assert_eq!(shown(text), out, "{text}");
            assert_eq!(shown(out), out, "masked once: {out}");
        }
        for text in [
            "sk-learn-pipelines, key-value-store, pat-a-cake and task-sk-1",
            "the token: it is asked for later; press any key: Enter",
            "basic auth, bearer of news",
            "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
            "eyJvZmZzZXQiOjEwMCwicGFnZSI6MTJ9",
            "d41d8cd98f00b204e9800998ecf8427e5b2c4d6e",
            "https://h.example/a/b?page=2#part",
            "https://h.example/commit/d41d8cd98f00b204e9800998ecf8427e5b2c4d6e",
            "https://h.example/tokens/reference and file:///a/tokenizer/models",
            "Bearer ${TOKEN} and \u{e4}\u{f6} ***",
        ] {
            assert_eq!(shown(text), text);
        }
    }
}
