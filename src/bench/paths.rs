//! `JSONPath`s (RFC 9535) of a file of tests, and what is wrong with one that is none. Pure.

use regex::Regex;
use serde_json_path::JsonPath;

use base::text::{cut, nearest};
use check::expect::no_pattern;

/// The functions of RFC 9535, section 2.4.
const FUNCTIONS: [&str; 5] = ["length", "count", "match", "search", "value"];

/// Reads a path.
///
/// # Errors
/// What is wrong with it, where, and what to write instead where that is known.
pub fn read_path(path: &str) -> Result<JsonPath, String> {
    JsonPath::parse(path).map_err(|error| {
        let begin = "not a JSONPath (RFC 9535)";
        if let Some(why) = mistake(path) {
            return format!("{begin}: {why}");
        }
        let before = error.position().saturating_sub(1);
        let rest: String = path.chars().skip(before).collect();
        let rest = rest.trim();
        // The parser says no more than that where none of several ways leads on.
        let why = match error.message() {
            "parser error" => "it is not understood",
            other => other,
        };
        match rest {
            "" => format!("{begin}: {why} at its end"),
            rest => format!("{begin}: {why} at `{}`, character {}", cut(rest, 40), before + 1),
        }
    })
}

/// What a snapshot leaves out.
pub enum ValueMask {
    /// The values at a path.
    Path(JsonPath),
    /// What a pattern matches in any text: `/.../`.
    Text(Regex),
}

/// Reads a mask: a path, or a regular expression between slashes.
///
/// # Errors
/// What is wrong with it.
pub fn read_mask(mask: &str) -> Result<ValueMask, String> {
    let Some(rest) = mask.strip_prefix('/') else { return read_path(mask).map(ValueMask::Path) };
    let pattern = rest.strip_suffix('/').filter(|pattern| !pattern.is_empty());
    let pattern = pattern.ok_or("a pattern stands between two slashes: `/[0-9]+/`")?;
    Regex::new(pattern).map(ValueMask::Text).map_err(|error| no_pattern(&error))
}

/// A common mistake that the parser does not name.
fn mistake(path: &str) -> Option<String> {
    if !path.starts_with('$') {
        return Some(format!("it begins with `$`, the whole value: `$.{}`", cut(path, 40)));
    }
    let plain = without_texts(path);
    if let Some(name) = called(&plain).find(|name| !FUNCTIONS.contains(name)) {
        let near = nearest(name, FUNCTIONS.iter(), 0.6);
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        return Some(format!(
            "there is no function `{}`, only {}{near}",
            cut(name, 40),
            FUNCTIONS.join(", ")
        ));
    }
    if plain.contains("=~") {
        return Some(
            "`=~` is not of it: write `search(@.key, 'pattern')`, or `match(...)`".to_owned(),
        );
    }
    if plain.contains("[(") {
        return Some("an index cannot be computed; the last item is `[-1]`".to_owned());
    }
    if let Some(at) =
        plain.find("[?(@").filter(|_| plain.contains(" and ") || plain.contains(" or "))
    {
        let rest = cut(plain.get(at..).unwrap_or_default(), 40).to_owned();
        return Some(format!("`and` and `or` are written `&&` and `||`: `{rest}`"));
    }
    // One `=` alone.
    let bytes = plain.as_bytes();
    let is_alone = |at: usize| {
        let before = at.checked_sub(1).and_then(|at| bytes.get(at));
        bytes[at] == b'='
            && !matches!(before, Some(b'=' | b'!' | b'<' | b'>'))
            && bytes.get(at + 1) != Some(&b'=')
    };
    (0..bytes.len()).any(is_alone).then(|| "values are compared with `==`".to_owned())
}

/// A path whose quoted texts are blank.
fn without_texts(path: &str) -> String {
    let mut open = None;
    let mut is_escaped = false;
    let blank = |c: char| {
        let was_escaped = std::mem::take(&mut is_escaped);
        if let Some(quote) = open {
            if c == quote && !was_escaped {
                open = None;
            }
            is_escaped = c == '\\' && !was_escaped;
            return ' ';
        }
        open = matches!(c, '\'' | '"').then_some(c);
        if open.is_some() { ' ' } else { c }
    };
    path.chars().map(blank).collect()
}

/// The names that are followed by `(`.
fn called(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('(').filter_map(|(at, _)| {
        let before = path.get(..at)?;
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let name = before.rsplit(|c: char| !is_part(c)).next()?;
        name.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_a_path_or_a_pattern_between_slashes() {
        assert!(matches!(read_mask("$.a"), Ok(ValueMask::Path(_))));
        assert!(matches!(read_mask("/[0-9]+/"), Ok(ValueMask::Text(_))));
        for (mask, words) in [
            ("/a", "between two slashes"),
            ("//", "between"),
            ("/(/", "unclosed"),
            ("a", "begins with `$`"),
        ] {
            let why = read_mask(mask).err().expect(mask);
            assert!(why.contains(words), "{mask}: {why}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_path_is_said() {
        for (path, words) in [
            ("$[?size(@.a) > 1]", "there is no function `size`, only length, count"),
            ("$[?lenght(@.a) > 1]", "did you mean `length`?"),
            ("$[?@.a > 1 && starts_with(@.b, 'x(')]", "no function `starts_with`"),
            ("a.b", "it begins with `$`, the whole value: `$.a.b`"),
            ("$[?@.a =~ /x/]", "`=~` is not of it: write `search("),
            ("$.a[(@.length-1)]", "the last item is `[-1]`"),
            ("$[?(@.a == 1 and @.b == 2)]", "are written `&&` and `||`"),
            ("$[?@.a = 1]", "compared with `==`"),
            ("$.a[", "it is not understood at `a[`, character 3"),
            ("$.a b", "character "),
        ] {
            let why = read_path(path).expect_err(path);
            assert!(why.starts_with("not a JSONPath (RFC 9535): "), "{why}");
            assert!(why.contains(words), "{path}: {why}");
            assert!(!why.contains("parser error"), "{path}: {why}");
        }
        for path in
            ["$", "$.a[?length(@.b) > 1]", "$['a(b)'][?@.x == 'size(']", "$..[?count(@.*) >= 2]"]
        {
            assert!(read_path(path).is_ok(), "{path}");
        }
    }
}
