//! Values that a schema refuses, changed step by step until it accepts them. Pure.

use std::collections::HashSet;

use regex_syntax::ParserBuilder;
use serde_json::{Value, json};

use config::error::Violation;
use schema::{SchemaVerdict, Validator};

/// Most changes of one value.
const MAX_REPAIR_ROUNDS: usize = 24;
/// Most values that are looked at for one.
const MAX_REPAIR_TRIES: usize = 400;
/// Most texts that are made for a pattern that looks around.
const MAX_PATTERN_ROUNDS: usize = 96;
/// Most texts that are kept of those.
const MAX_PATTERN_TEXTS: usize = 6;

/// Texts of common forms, for patterns that no text can be made from.
const COMMON_TEXTS: [&str; 16] = [
    "a",
    "A",
    "1",
    "b",
    "abc",
    "ABC",
    "123",
    "A1",
    "a-b",
    "a_b",
    "Abc123",
    "Abcdef12",
    "Abcdef1!",
    "1.0.0",
    "a@example.com",
    "https://example.com/a",
];

/// A value that a validator accepts, near one that it refuses; `remedies` gives the values that may
/// mend one violation, best first. `None` when none was found.
pub fn repaired(
    value: Value,
    validator: &Validator,
    remedies: impl Fn(&Value, &Violation) -> Vec<Value>,
) -> Option<Value> {
    let wrong_in = |value: &Value| match validator.check(value) {
        SchemaVerdict::Valid => Some(Vec::new()),
        SchemaVerdict::Invalid(wrong) => Some(wrong),
        SchemaVerdict::Unknown(_) => None,
    };
    let mut seen: HashSet<String> = HashSet::new();
    let mut wrong = wrong_in(&value)?;
    let (mut best, mut tries) = (value, 0);
    for _ in 0..MAX_REPAIR_ROUNDS {
        let Some(first) = wrong.first() else { return Some(best) };
        let mut next: Option<(Value, Vec<Violation>)> = None;
        for candidate in remedies(&best, first) {
            if !seen.insert(candidate.to_string()) {
                continue;
            }
            tries += 1;
            if tries > MAX_REPAIR_TRIES {
                return None;
            }
            let left = wrong_in(&candidate)?;
            if left.is_empty() {
                return Some(candidate);
            }
            // What is still wrong must be something else, or less.
            let is_same =
                |it: &Violation| it.pointer == first.pointer && it.keyword == first.keyword;
            let is_better = next.as_ref().is_none_or(|(_, other)| left.len() < other.len());
            if is_better && (left.len() < wrong.len() || !left.iter().any(is_same)) {
                next = Some((candidate, left));
            }
        }
        (best, wrong) = next?;
    }
    None
}

/// Texts that match a pattern with parts that look around, which no text can be made from directly.
pub fn texts_of_pattern(pattern: &str, made: impl Fn(&str, u64) -> Option<String>) -> Vec<String> {
    let Ok(validator) = Validator::compile(&json!({"type": "string", "pattern": pattern})) else {
        return Vec::new();
    };
    let plain = without_lookaround(pattern);
    let is_plain = ParserBuilder::new().utf8(false).build().parse(&plain).is_ok();
    let rounds = if is_plain { MAX_PATTERN_ROUNDS as u64 } else { 0 };
    let drawn = (0..rounds).filter_map(|round| made(&plain, round));
    let common = COMMON_TEXTS.iter().map(|text| (*text).to_owned());
    let mut out: Vec<String> = Vec::new();
    for text in drawn.chain(common) {
        if out.len() == MAX_PATTERN_TEXTS {
            break;
        }
        if !out.contains(&text) && validator.check(&json!(text)).is_valid() {
            out.push(text);
        }
    }
    out
}

/// A pattern without the groups that look ahead or behind.
fn without_lookaround(pattern: &str) -> String {
    let (mut out, mut rest) = (String::new(), pattern);
    while let Some(first) = rest.chars().next() {
        let looks = ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|open| rest.starts_with(open));
        let end = if looks { group_end(rest) } else { None };
        if let Some(end) = end {
            rest = &rest[end..];
            continue;
        }
        // An escaped character belongs to its backslash.
        let many = if first == '\\' { 2 } else { 1 };
        let end = rest.char_indices().nth(many).map_or(rest.len(), |(at, _)| at);
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out
}

/// Where the group ends that a text begins with.
fn group_end(text: &str) -> Option<usize> {
    let (mut depth, mut in_class, mut is_escaped) = (0_usize, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_look_around_are_left_out_of_a_pattern() {
        for (given, plain) in [
            ("^(?=.*[A-Z])(?=.*\\d).{8,}$", "^.{8,}$"),
            ("^(?!foo|b(ar))[a-z]+$", "^[a-z]+$"),
            ("(?<=x)a(?<![)]b)c", "ac"),
            ("\\(?=a", "\\(?=a"),
            ("(?=never closed", "(?=never closed"),
        ] {
            assert_eq!(without_lookaround(given), plain);
        }
    }
}
