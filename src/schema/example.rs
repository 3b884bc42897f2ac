//! Examples of texts that a schema accepts, for people who do not read regular expressions. Pure.

use regex::Regex;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Longest pattern for which an example is made, in bytes.
const MAX_PATTERN_BYTES: usize = 1000;
/// Longest example, in characters.
const MAX_EXAMPLE_CHARS: usize = 60;

/// A text that matches `pattern` and has `least` to `most` characters; `None` if the pattern is not
/// understood or no text of that length was found. Every example was tried on the pattern.
pub fn example_of_pattern(pattern: &str, least: usize, most: usize) -> Option<String> {
    if pattern.len() > MAX_PATTERN_BYTES {
        return None;
    }
    let hir = regex_syntax::parse(pattern).ok()?;
    let whole = Regex::new(pattern).ok()?;
    // Each try repeats more: none of what is optional, one of each, and so many more as it takes.
    (0..=MAX_EXAMPLE_CHARS).find_map(|more| {
        let mut text = String::new();
        let mut writer = ExampleWriter { more: more as u32, letters: 0, digits: 0 };
        writer.write(&hir, &mut text)?;
        let length = text.chars().count();
        let fits = (least.max(1)..=most).contains(&length) && whole.is_match(&text);
        fits.then_some(text)
    })
}

/// An example of a text of this `format`.
pub fn example_of_format(format: &str) -> Option<&'static str> {
    Some(match format {
        "date" => "2026-11-26",
        "time" => "09:30:00Z",
        "date-time" => "2026-11-26T09:30:00Z",
        "duration" => "PT1H30M",
        "email" | "idn-email" => "ada@example.org",
        "hostname" | "idn-hostname" => "example.org",
        "ipv4" => "192.0.2.1",
        "ipv6" => "2001:db8::1",
        "uri" | "iri" | "url" => "https://example.org/a",
        "uri-reference" | "iri-reference" => "/a/b?c=d",
        "uuid" => "123e4567-e89b-12d3-a456-426614174000",
        "json-pointer" => "/a/0/b",
        "regex" => "^[a-z]+$",
        _ => return None,
    })
}

struct ExampleWriter {
    /// How often what may be repeated is repeated beyond the least.
    more: u32,
    letters: u32,
    digits: u32,
}

impl ExampleWriter {
    fn write(&mut self, hir: &Hir, out: &mut String) -> Option<()> {
        if out.len() > 4 * MAX_EXAMPLE_CHARS {
            return None;
        }
        match hir.kind() {
            HirKind::Empty | HirKind::Look(_) => {}
            HirKind::Literal(literal) => out.push_str(std::str::from_utf8(&literal.0).ok()?),
            HirKind::Class(Class::Unicode(class)) => {
                let has = |c: char| class.iter().any(|r| r.start() <= c && c <= r.end());
                let first = || {
                    class
                        .iter()
                        .map(regex_syntax::hir::ClassUnicodeRange::start)
                        .find(|c| !c.is_control())
                };
                out.push(self.readable(has).or_else(first)?);
            }
            HirKind::Class(Class::Bytes(class)) => {
                let has =
                    |c: char| class.iter().any(|r| r.start() <= c as u8 && c as u8 <= r.end());
                out.push(self.readable(has)?);
            }
            HirKind::Repetition(repeated) => {
                let most = repeated.max.unwrap_or(u32::MAX);
                for _ in 0..repeated.min.saturating_add(self.more).min(most) {
                    self.write(&repeated.sub, out)?;
                }
            }
            HirKind::Capture(group) => self.write(&group.sub, out)?,
            HirKind::Concat(parts) => {
                for part in parts {
                    self.write(part, out)?;
                }
            }
            HirKind::Alternation(ways) => self.write(ways.first()?, out)?,
        }
        Some(())
    }

    /// A letter or digit of the class: the next one of `abc` or `123`, so that the length shows.
    fn readable(&mut self, has: impl Fn(char) -> bool) -> Option<char> {
        let next = |of: &str, count: u32| {
            let all: Vec<char> = of.chars().filter(|c| has(*c)).collect();
            all.get(count as usize % all.len().max(1)).copied()
        };
        for letters in ["abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"] {
            if let Some(letter) = next(letters, self.letters) {
                self.letters += 1;
                return Some(letter);
            }
        }
        if let Some(digit) = next("1234567890", self.digits) {
            self.digits += 1;
            return Some(digit);
        }
        "_-./ :,+@#".chars().find(|c| has(*c))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(pattern: &str) -> Option<String> {
        example_of_pattern(pattern, 0, usize::MAX)
    }

    #[test]
    fn an_example_is_as_short_as_the_pattern_allows_and_readable() {
        for (pattern, text) in [
            ("^[A-Z]{3}$", "ABC"),
            ("^[A-Z]{2}-\\d{4}$", "AB-1234"),
            ("^(GET|POST)$", "GET"),
            ("^v?\\d+\\.\\d+$", "1.2"),
            ("^[a-z]+@[a-z]+$", "a@b"),
            ("^\\s*$", " "),
        ] {
            assert_eq!(example(pattern).as_deref(), Some(text), "{pattern}");
        }
    }

    #[test]
    fn it_has_the_length_that_is_asked_for() {
        assert_eq!(example_of_pattern("^[a-z]*$", 5, 8).as_deref(), Some("abcde"));
        assert_eq!(example_of_pattern("^[a-z]{4}$", 0, 3), None);
    }

    #[test]
    fn without_an_example_nothing_is_claimed() {
        for pattern in ["(?=x)y", "(", "^a\\bb$", "[^\\x00-\\x{10ffff}]", &"a".repeat(2000)] {
            assert_eq!(example(pattern), None, "{pattern}");
        }
    }
}
