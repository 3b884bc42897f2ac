//! Searching a value for the next key or scalar that holds some text: by walking a tree, by looking
//! through the bytes of a text. Pure.

use std::fmt::Write as _;

use regex::Regex;

use super::tree::Path;
use crate::mcp::payload::{Document, Kind, Node};

/// Longer strings are not looked into; the content view searches those.
const LOOKED_INTO: usize = 1 << 20;

/// The path of the first match after `start` in the order of rows; from the top again when there is
/// none.
pub(super) fn next(value: Node<'_>, needle: &str, start: &[usize]) -> Option<Path> {
    let lower = needle.to_lowercase();
    if lower.is_empty() {
        return None;
    }
    if let Node::Text(document, at) = value
        && let Some(pattern) = pattern(needle)
    {
        return in_text(document, at, &pattern, &lower, start);
    }
    let mut path = Vec::new();
    let found = walk(value, &lower, start, true, &mut path) || {
        path.clear();
        walk(value, &lower, &[], false, &mut path)
    };
    found.then_some(path)
}

/// What the needle looks like inside JSON text: characters may be escaped there.
fn pattern(needle: &str) -> Option<Regex> {
    let mut pattern = String::new();
    for character in needle.chars() {
        let plain = regex::escape(character.encode_utf8(&mut [0; 4]));
        if character.is_ascii_alphanumeric() || matches!(character, ' ' | '-' | '_' | '.' | ':') {
            pattern.push_str(&plain);
            continue;
        }
        let written = serde_json::Value::from(character.to_string()).to_string();
        let short = regex::escape(&written[1..written.len() - 1]);
        let mut units = String::new();
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(units, "\\\\u{unit:04x}");
        }
        let slash = if character == '/' { "|\\\\/" } else { "" };
        // A quotation mark or a backslash never stands for itself.
        let alone = if matches!(character, '"' | '\\') { "" } else { &format!("{plain}|") };
        let _ = write!(pattern, "(?:{alone}{short}|{units}{slash})");
    }
    regex::RegexBuilder::new(&pattern).case_insensitive(true).size_limit(1 << 20).build().ok()
}

fn in_text(
    document: &Document,
    root: usize,
    pattern: &Regex,
    lower: &str,
    start: &[usize],
) -> Option<Path> {
    let text = document.as_str();
    let region = document.region(root);
    let behind = document.behind(root, start);
    let hits = |from: usize, to: usize| {
        pattern
            .find_iter(text.get(from..to).unwrap_or_default())
            .map(move |hit| from + hit.start())
            .filter_map(|at| document.path(root, at))
            .find(|path| !path.is_empty() && holds_at(document, root, path, lower))
    };
    hits(behind, region.end).or_else(|| hits(region.start, region.end))
}

fn holds_at(document: &Document, root: usize, path: &[usize], lower: &str) -> bool {
    let mut here = Node::Text(document, root);
    let mut name = None;
    for index in path {
        let Some((key, value)) = here.nth(*index) else { return false };
        (name, here) = (key, value);
    }
    holds(name.as_deref(), here, lower)
}

/// Depth-first search for the first match after `start`.
fn walk(value: Node<'_>, needle: &str, start: &[usize], after: bool, path: &mut Path) -> bool {
    let (first, rest) = match start.split_first() {
        Some((first, rest)) => (*first, Some(rest)),
        None => (0, None),
    };
    for (index, (name, v)) in (first..).zip(value.members(first)) {
        path.push(index);
        let on_start = rest.is_some() && index == first;
        let is_start = on_start && rest.is_some_and(<[usize]>::is_empty) && after;
        let inside = on_start && rest.is_some_and(|rest| !rest.is_empty());
        if !is_start && !inside && holds(name.as_deref(), v, needle) {
            return true;
        }
        let below = if inside { rest.unwrap_or_default() } else { &[] };
        if walk(v, needle, below, after, path) {
            return true;
        }
        path.pop();
    }
    false
}

fn holds(name: Option<&str>, value: Node<'_>, needle: &str) -> bool {
    let contains = |text: &str| text.len() < LOOKED_INTO && text.to_lowercase().contains(needle);
    name.is_some_and(contains)
        || match value.kind() {
            Kind::String => value.as_str().is_some_and(|text| contains(&text)),
            Kind::Array | Kind::Object => false,
            _ => contains(&value.to_value().to_string()),
        }
}
