//! Which parts of a configuration file must not be shown (requirement C9).
//!
//! Works on tokens, not on a tree, because the snippet of a file that does not parse must not
//! show a secret either. Where the nesting cannot be told any more, every later string is hidden.

use std::ops::Range;

use jsonc_parser::tokens::Token;
use jsonc_parser::{Scanner, ScannerOptions};

mod credential;
mod spots;
mod words;

pub(crate) use credential::{is_secret, looks_secret};
pub use words::{masked_address, masked_arguments};
pub(crate) use words::{secret_arguments, secret_of_address};

/// Objects whose values are secrets, whatever they are called.
const SECRET_OBJECTS: [&str; 5] = ["env", "headers", "http_headers", "requestInit", "oauth"];

/// Words that make a key, an option or a query parameter a secret.
const SECRET_WORDS: [&str; 12] = [
    "token",
    "secret",
    "password",
    "passwd",
    "apikey",
    "api_key",
    "api-key",
    "authorization",
    "credential",
    "private_key",
    "passphrase",
    "cookie",
];

/// Whether a key, an option or a parameter is called like something secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
        || matches!(name.trim_start_matches('-'), "key" | "auth" | "pat" | "bearer")
}

/// Byte ranges of `text` to hide, in order, not overlapping.
pub(crate) fn hidden_ranges(text: &str) -> Vec<Range<usize>> {
    let mut tracker = Tracker::default();
    let mut scanner = Scanner::new(text, &lenient());
    loop {
        match scanner.scan() {
            Ok(Some(token)) => {
                let range = scanner.token_start()..scanner.token_end();
                tracker.token(text, &token, range);
            }
            Ok(None) => break,
            Err(_) => {
                // Beyond a broken token nothing is known: hide the rest but its punctuation.
                let start = scanner.token_start().min(text.len());
                hide_rest(text, start, &mut tracker.hidden);
                break;
            }
        }
    }
    tracker.settle(text);
    merged(tracker.hidden)
}

fn merged(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut out: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match out.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

fn lenient() -> ScannerOptions {
    ScannerOptions {
        allow_single_quoted_strings: true,
        allow_hexadecimal_numbers: true,
        allow_unary_plus_numbers: true,
        allow_bare_decimal_point_numbers: true,
        allow_non_finite_numbers: true,
        allow_extended_string_escapes: true,
    }
}

/// Follows keys and brackets as far as they make sense.
#[derive(Default)]
struct Tracker {
    /// One per open bracket: its character and whether all inside is secret.
    stack: Vec<(char, bool)>,
    /// The last string or word, while it may still turn out to be a key.
    last: Option<(String, Range<usize>)>,
    /// The key whose value comes next.
    key: Option<String>,
    /// The last string of an array, when it is an option such as `--token`.
    option: bool,
    lost: bool,
    hidden: Vec<Range<usize>>,
}

impl Tracker {
    fn token(&mut self, text: &str, token: &Token<'_>, range: Range<usize>) {
        match token {
            Token::CommentLine(_) | Token::CommentBlock(_) => self.comment(text, range),
            Token::Colon => self.colon(text),
            Token::OpenBrace | Token::OpenBracket => self.open(text, token),
            Token::CloseBrace => self.close(text, '{'),
            Token::CloseBracket => self.close(text, '['),
            Token::Comma => {
                self.settle(text);
                self.key = None;
            }
            Token::String(value) => self.string(text, value, range),
            Token::Word(value) => self.string(text, value, range),
            Token::Number(_) | Token::Boolean(_) | Token::Null => {
                self.settle(text);
                if self.secret_here() {
                    self.hidden.push(range);
                }
                self.key = None;
            }
        }
    }

    fn colon(&mut self, text: &str) {
        self.key = self.last.take().map(|(name, range)| {
            // `"TOKEN=value": ""`, a line of an env file pasted as a key.
            if let Some(eq) = name.find('=') {
                let inside = inner(text, range);
                self.hidden.push((inside.start + eq + 1).min(inside.end)..inside.end);
            }
            name
        });
    }

    fn string(&mut self, text: &str, value: &str, range: Range<usize>) {
        let in_object = self.stack.last().is_some_and(|(open, _)| *open == '{');
        if in_object && self.key.is_none() && self.last.is_some() {
            // `"A" "value"`, the colon forgotten.
            self.key = self.last.take().map(|(name, _)| name);
        } else {
            self.settle(text);
        }
        self.last = Some((value.to_owned(), range));
    }

    /// A comment is often a line taken out of use: hide what stands in quotes after a colon.
    fn comment(&mut self, text: &str, range: Range<usize>) {
        let inside = text.get(range.clone()).unwrap_or_default();
        if self.in_secret() || self.lost || is_secret_name(inside) {
            hide_after_colons(text, range, &mut self.hidden);
        }
    }

    fn open(&mut self, text: &str, token: &Token<'_>) {
        // `"env" {`, the colon forgotten: the string before the brace is the key all the same.
        let key = self.key.take().or_else(|| self.last.take().map(|(name, _)| name));
        self.settle(text);
        let secret = self.in_secret() || key.as_deref().is_some_and(is_secret_object);
        self.stack.push((if *token == Token::OpenBrace { '{' } else { '[' }, secret));
        self.option = false;
    }

    fn close(&mut self, text: &str, expected: char) {
        self.settle(text);
        self.key = None;
        self.option = false;
        if self.stack.pop().is_none_or(|(open, _)| open != expected) {
            self.lost = true;
        }
    }

    fn in_secret(&self) -> bool {
        self.stack.last().is_some_and(|(_, secret)| *secret)
    }

    fn secret_here(&self) -> bool {
        self.lost
            || self.in_secret()
            || self.key.as_deref().is_some_and(|key| is_secret_name(key) || is_secret_object(key))
    }

    /// The last string was no key: hide it, or the part of it, that is secret.
    fn settle(&mut self, text: &str) {
        let Some((value, range)) = self.last.take() else { return };
        let in_array = self.stack.last().is_some_and(|(open, _)| *open == '[');
        let after_option = std::mem::replace(
            &mut self.option,
            in_array && value.starts_with('-') && !value.contains('=') && is_secret_name(&value),
        );
        // In an object a string without a key is a key that lost its colon; its own name is shown.
        let unkeyed = self.key.is_none() && !in_array && !self.lost;
        if after_option || (self.secret_here() && !unkeyed) {
            hide_but_references(text, inner(text, range), &mut self.hidden);
        } else {
            hide_parts(text, range, &mut self.hidden);
        }
        self.key = None;
    }
}

fn is_secret_object(key: &str) -> bool {
    SECRET_OBJECTS.contains(&key)
}

/// The range without its quotes.
fn inner(text: &str, range: Range<usize>) -> Range<usize> {
    let quoted = text.get(range.clone()).is_some_and(|s| s.starts_with(['"', '\'']));
    if quoted && range.len() >= 2 { range.start + 1..range.end - 1 } else { range }
}

/// Hides a secret, but for `${NAME}`: where a value comes from is no secret, and worth seeing.
fn hide_but_references(text: &str, range: Range<usize>, hidden: &mut Vec<Range<usize>>) {
    let value = text.get(range.clone()).unwrap_or_default();
    let mut from = 0;
    for (open, _) in value.match_indices("${") {
        let Some(len) = value.get(open..).and_then(|rest| rest.find('}')) else { break };
        let name = value.get(open + 2..open + len).unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '.');
        if open >= from && !name.contains(":-") && name.len() <= 64 && name.chars().all(plain) {
            hidden.push(range.start + from..range.start + open);
            from = open + len + 1;
        }
    }
    hidden.push(range.start + from..range.end);
}

/// Hides the secret parts of a string that is otherwise shown.
fn hide_parts(text: &str, range: Range<usize>, hidden: &mut Vec<Range<usize>>) {
    let whole = inner(text, range);
    let Some(value) = text.get(whole.clone()) else { return };
    let spots = spots::secret_spots(value).into_iter();
    hidden.extend(spots.map(|spot| whole.start + spot.start..whole.start + spot.end));
}

/// Hides the quoted texts that follow a colon or an equals sign.
fn hide_after_colons(text: &str, range: Range<usize>, hidden: &mut Vec<Range<usize>>) {
    let Some(part) = text.get(range.clone()) else { return };
    let mut line_start = range.start;
    for line in part.split_inclusive('\n') {
        if let Some(i) = line.find([':', '=']) {
            let from = line_start + i + 1;
            let to = line_start + line.trim_end().len();
            if from < to {
                hidden.push(from..to);
            }
        }
        line_start += line.len();
    }
}

/// Hides everything from `start` on that is neither white space nor punctuation of JSON.
fn hide_rest(text: &str, start: usize, hidden: &mut Vec<Range<usize>>) {
    let mut run: Option<usize> = None;
    let rest = text.get(start..).unwrap_or_default();
    for (i, c) in rest.char_indices() {
        let plain = c == '\n' || matches!(c, '{' | '}' | '[' | ']' | ',' | '"');
        match (plain, run) {
            (true, Some(from)) => {
                hidden.push(from..start + i);
                run = None;
            }
            (false, None) if !c.is_whitespace() => run = Some(start + i),
            _ => {}
        }
    }
    if let Some(from) = run {
        hidden.push(from..text.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(text: &str) -> String {
        let mut out = text.to_owned();
        for range in hidden_ranges(text).into_iter().rev() {
            out.replace_range(range, "*");
        }
        out
    }

    #[test]
    fn values_of_env_and_headers_are_hidden_and_their_names_are_not() {
        assert_eq!(
            masked(r#"{"env":{"A":"s1","B":7},"headers":{"X-Y":"s2"},"command":"npx"}"#),
            r#"{"env":{"A":"*","B":*},"headers":{"X-Y":"*"},"command":"npx"}"#
        );
    }

    #[test]
    fn secrets_in_arguments_and_addresses_are_hidden() {
        assert_eq!(
            masked(
                r#"{"args":["--token","s1","--api-key=s2","-v"],"url":"https://u:p@h/x?token=s3&a=b"}"#
            ),
            r#"{"args":["--token","*","--api-key=*","-v"],"url":"https://*@h/x?token=*&a=b"}"#
        );
    }

    #[test]
    fn a_broken_file_hides_its_secrets_too() {
        for text in [
            r#"{"env" {"A":"hunter2"}}"#,
            r#"{"env":{"A" "hunter2"}}"#,
            r#"{"env":{"A":"hunter2" "B":"hunter2"}}"#,
            r#"{"env":{"A":"hunter2}"#,
            r#"{"a":1}}{"x":"hunter2"}"#,
            r#"{"env":{"A":hunter2}}"#,
            "{\"env\":{// \"OLD\":\"hunter2\"\n}}",
            r#"{"env":{"A":'hunter2'}}"#,
        ] {
            assert!(!masked(text).contains("hunter2"), "{text} -> {}", masked(text));
        }
    }
}
