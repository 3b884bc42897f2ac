//! Cutting text at exactly the right bytes. Pure.

use std::ops::Range;

use jsonc_parser::tokens::Token;
use jsonc_parser::{Scanner, ScannerOptions};
use serde_json::Value;

use crate::config::syntax::{NodeKind, SyntaxNode, comma_in};

/// A text with its tree.
#[derive(Clone, Debug)]
pub(super) struct SplicedText {
    pub(super) text: String,
    pub(super) root: SyntaxNode,
}

impl SyntaxNode {
    pub(super) const fn is_object(&self) -> bool {
        matches!(self.kind, NodeKind::Object(_))
    }

    pub(super) const fn is_list(&self) -> bool {
        matches!(self.kind, NodeKind::List(_))
    }
}

/// The children of an object or list, each from its first byte to the end of its value.
fn children(parent: &SyntaxNode) -> Vec<Range<usize>> {
    let members = parent.members().iter().map(|m| m.key_range.start..m.value.range.end);
    members.chain(parent.elements().iter().map(|e| e.range.clone())).collect()
}

/// Inserts a value behind the child `after`, or at the end; with a key in an object.
pub(super) fn insert(
    doc: &SplicedText,
    parent: &SyntaxNode,
    (key, value): (Option<&str>, &Value),
    after: Option<usize>,
) -> String {
    let key = key.map(|key| format!("{}: ", Value::from(key))).unwrap_or_default();
    let manner = manner(doc);
    let write = |indent: &str, flat| key.clone() + &value_text(value, indent, &manner, flat);
    let children = children(parent);
    let mut text = doc.text.clone();
    let Some(last) = children.len().checked_sub(1) else {
        // The first child; comments stay before it.
        let (open, close) = (parent.range.start + 1, parent.range.end - 1);
        let outer = indent_at(&text, parent.range.start);
        let indent = format!("{outer}{}", manner.unit);
        let written = write(&indent, false);
        let kept = text.get(open..close).unwrap_or_default().trim_end().len();
        let end = manner.newline;
        text.replace_range(open + kept..close, &format!("{end}{indent}{written}{end}{outer}"));
        return text;
    };
    let after = after.unwrap_or(last).min(last);
    let child = children[after].clone();
    let limit = children.get(after + 1).map_or(parent.range.end - 1, |next| next.start);
    let comma = comma_in(&text, child.end..limit);
    if is_flat(doc, parent) {
        let written = write("", true);
        // With a comma behind the child already, one more is needed behind the new one only when
        // something follows, or when the file likes it there.
        match comma {
            Some(at) => text.insert_str(at + 1, &format!(" {written},")),
            None => text.insert_str(child.end, &format!(", {written}")),
        }
        return text;
    }
    let indent = indent_at(&text, child.start);
    let written = write(&indent, false);
    let from = comma.map_or(child.end, |at| at + 1);
    let line_end = end_of_line(&text, from, limit);
    let tail = if comma.is_some() { "," } else { "" };
    text.insert_str(line_end, &format!("{}{indent}{written}{tail}", manner.newline));
    if comma.is_none() {
        text.insert(child.end, ',');
    }
    text
}

/// Replaces a value.
pub(super) fn replace_range(
    doc: &SplicedText,
    parent: &SyntaxNode,
    range: Range<usize>,
    value: &Value,
) -> String {
    let flat = is_flat(doc, parent) && !children(parent).is_empty();
    let written = value_text(value, &indent_at(&doc.text, range.start), &manner(doc), flat);
    let mut text = doc.text.clone();
    text.replace_range(range, &written);
    text
}

/// Removes a child with its comma and the comment behind it on its line; comments above stay.
pub(super) fn remove_at(doc: &SplicedText, parent: &SyntaxNode, index: usize) -> String {
    let mut text = doc.text.clone();
    let children = children(parent);
    let Some(child) = children.get(index).cloned() else { return text };
    let limit = children.get(index + 1).map_or(parent.range.end - 1, |next| next.start);
    let comma = comma_in(&text, child.end..limit);
    let mut end = end_of_line(&text, comma.map_or(child.end, |at| at + 1), limit);
    let mut start = child.start;
    let line_start = text.get(..start).and_then(|t| t.rfind('\n')).map_or(0, |i| i + 1);
    let alone_before = text.get(line_start..start).is_some_and(|t| t.trim().is_empty());
    let rest = text.get(end..).unwrap_or_default();
    let alone_after = rest.starts_with('\n') || rest.starts_with("\r\n");
    if alone_before && alone_after {
        // The whole line goes, with the line break before it.
        start = line_start.saturating_sub(
            if text.get(..line_start).is_some_and(|t| t.ends_with("\r\n")) { 2 } else { 1 },
        );
    } else {
        end = comma.map_or(child.end, |at| at + 1);
        if index > 0 {
            // The space before it goes with it; what follows keeps the space before itself.
            let before = text.get(..start).unwrap_or_default();
            start = before.trim_end_matches([' ', '\t']).len();
            // Where the bracket closes on this line, the line break goes too, unless a comment
            // would take the bracket in.
            let previous = children.get(index - 1).map_or(0, |previous| previous.end);
            let gap = comma_in(&text, previous..child.start).map_or(child.start, |at| at + 1);
            let blank = text.get(gap..child.start).is_some_and(|t| t.trim().is_empty());
            if alone_before && index + 1 == children.len() && blank {
                start = gap;
            }
        } else if index + 1 < children.len() {
            let rest = text.get(end..limit.max(end)).unwrap_or_default();
            end += rest.len() - rest.trim_start_matches([' ', '\t']).len();
        }
    }
    text.replace_range(start..end, "");
    if index + 1 == children.len() && comma.is_none() && index > 0 {
        // The one before is the last now, and had a comma for this one.
        if let Some(at) = comma_in(&doc.text, children[index - 1].end..child.start) {
            text.replace_range(at..=at, "");
        }
    }
    text
}

/// Whether an object or list stands in one line.
fn is_flat(doc: &SplicedText, parent: &SyntaxNode) -> bool {
    doc.text.get(parent.range.clone()).is_some_and(|t| !t.contains('\n'))
}

/// The end of what belongs to the line of `from`: white space and comments that start on it, but
/// not the line break.
fn end_of_line(text: &str, from: usize, limit: usize) -> usize {
    let part = text.get(from..limit.max(from)).unwrap_or_default();
    let mut scanner = Scanner::new(part, &ScannerOptions::default());
    let mut end = 0;
    while let Ok(Some(token)) = scanner.scan() {
        let between = part.get(end..scanner.token_start()).unwrap_or_default();
        if between.contains('\n')
            || !matches!(token, Token::CommentLine(_) | Token::CommentBlock(_))
        {
            break;
        }
        end = scanner.token_end();
    }
    // A line comment may be scanned with the carriage return that ends its line.
    from + part.get(..end).unwrap_or_default().trim_end_matches(['\r', '\n']).len()
}

/// The white space a line starts with.
fn indent_at(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or_default();
    let line = before.get(before.rfind('\n').map_or(0, |i| i + 1)..).unwrap_or_default();
    line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect()
}

/// Line ends and indentation as the file has them; two spaces when it shows none.
fn manner(doc: &SplicedText) -> FileStyle {
    let newline = if doc.text.contains("\r\n") { "\r\n" } else { "\n" };
    let unit = doc
        .root
        .members()
        .iter()
        .map(|m| indent_at(&doc.text, m.key_range.start))
        .find(|indent| !indent.is_empty())
        .unwrap_or_else(|| "  ".to_owned());
    FileStyle { newline, unit }
}

/// Longest list that is written in one line, in characters.
const LINE: usize = 90;

/// The manner of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileStyle {
    newline: &'static str,
    unit: String,
}

/// A value as text; lines after the first start with `indent`. `flat` writes one line.
fn value_text(value: &Value, indent: &str, manner: &FileStyle, flat: bool) -> String {
    let inner = format!("{indent}{}", manner.unit);
    let (open, close, parts): (char, char, Vec<String>) = match value {
        Value::Object(map) => {
            let part = |(key, item): (&String, &Value)| {
                let key = Value::String(key.clone());
                format!("{key}: {}", value_text(item, &inner, manner, flat))
            };
            ('{', '}', map.iter().map(part).collect())
        }
        Value::Array(list) => {
            let part = |item: &Value| value_text(item, &inner, manner, flat);
            ('[', ']', list.iter().map(part).collect())
        }
        scalar => return scalar.to_string(),
    };
    if parts.is_empty() {
        return format!("{open}{close}");
    }
    let line = parts.join(", ");
    let short = open == '[' && line.chars().count() <= LINE && !line.contains('\n');
    if flat || short {
        let gap = if open == '{' { " " } else { "" };
        return format!("{open}{gap}{line}{gap}{close}");
    }
    let newline = manner.newline;
    let body = parts.join(&format!(",{newline}{inner}"));
    format!("{open}{newline}{inner}{body}{newline}{indent}{close}")
}
