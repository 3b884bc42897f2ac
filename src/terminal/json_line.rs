//! Colours for lines of JSON text, also with comments and also half-typed: no parser, only what a
//! line shows. Pure.

use crate::theme::Role;

/// The parts of a line of JSON with their roles; together they are the line.
pub fn json_line(line: &str) -> Vec<(&str, Role)> {
    let mut parts = Vec::new();
    let mut rest = line;
    while let Some(first) = rest.chars().next() {
        let (length, role) = match first {
            '"' => {
                let end = string_end(rest);
                let is_key = rest[end..].trim_start().starts_with(':');
                (end, if is_key { Role::JsonKey } else { Role::JsonString })
            }
            '/' if rest.starts_with("//") || rest.starts_with("/*") => {
                let end = rest.strip_prefix("/*").and_then(|inside| inside.find("*/"));
                (end.map_or(rest.len(), |at| at + 4), Role::Faint)
            }
            '-' | '0'..='9' => (word_end(rest), Role::JsonNumber),
            c if c.is_alphabetic() => (word_end(rest), Role::JsonLiteral),
            c if c.is_whitespace() => (until(rest, |c| !c.is_whitespace()), Role::Text),
            _ => {
                let starts = |c: char| {
                    c == '"' || c == '-' || c == '/' || c.is_alphanumeric() || c.is_whitespace()
                };
                let end = rest[first.len_utf8()..].find(starts);
                (end.map_or(rest.len(), |at| at + first.len_utf8()), Role::Muted)
            }
        };
        let (part, after) = rest.split_at(length.max(first.len_utf8()));
        parts.push((part, role));
        rest = after;
    }
    parts
}

fn until(text: &str, stops: impl Fn(char) -> bool) -> usize {
    text.find(stops).unwrap_or(text.len())
}

fn word_end(text: &str) -> usize {
    until(text, |c| !c.is_alphanumeric() && !"+-._".contains(c))
}

/// The byte after the string that `text` begins with; its end if it is not closed.
pub fn string_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_strings_numbers_words_and_comments_are_told_apart() {
        let roles = |line| {
            let parts = json_line(line).into_iter().filter(|(part, _)| !part.trim().is_empty());
            parts.map(|(part, role)| (part.trim().to_owned(), role)).collect::<Vec<_>>()
        };
        let all = [
            ("\"a\\\"b\"", Role::JsonKey),
            (":", Role::Muted),
            ("[", Role::Muted),
            ("\"x: y\"", Role::JsonString),
            (",", Role::Muted),
            ("-1.5e3", Role::JsonNumber),
            (",", Role::Muted),
            ("true", Role::JsonLiteral),
            ("],", Role::Muted),
            ("// \"c\": 1", Role::Faint),
        ];
        let all: Vec<_> = all.map(|(part, role)| (part.to_owned(), role)).into();
        assert_eq!(roles("  \"a\\\"b\": [ \"x: y\", -1.5e3, true ], // \"c\": 1"), all);
    }

    proptest! {
        #[test]
        fn no_line_loses_anything(line in "[\"\\\\/*{}:,0-9a-zé日 ]{0,40}") {
            let joined: String = json_line(&line).into_iter().map(|(part, _)| part).collect();
            prop_assert_eq!(joined, line);
        }
    }
}
