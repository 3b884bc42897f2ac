//! Inserts, replaces and removes JSON values in a text at exact byte ranges. Pure.

use std::ops::Range;

use jsonc_parser::tokens::Token;
use jsonc_parser::{Scanner, ScannerOptions};
use serde_json::Value;

use crate::syntax::{NodeKind, SyntaxNode, comma_in};

/// A text with its syntax tree.
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

/// Inserts a value after the child `after`, or at the end; in an object, with a key.
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
        // An existing comma separates the new value, which gets one of its own: something follows
        // it, or the file uses trailing commas.
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

/// Removes a child with its comma and trailing comment on the same line; comments above stay.
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
        // Remove the whole line with the line break before it.
        start = line_start.saturating_sub(
            if text.get(..line_start).is_some_and(|t| t.ends_with("\r\n")) { 2 } else { 1 },
        );
    } else {
        end = comma.map_or(child.end, |at| at + 1);
        if index > 0 {
            // Remove the space before it; what follows keeps its own.
            let before = text.get(..start).unwrap_or_default();
            start = before.trim_end_matches([' ', '\t']).len();
            // If the bracket closes on this line, remove the line break too, unless a line comment
            // would swallow the bracket.
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
        // The previous child is now the last one; drop the comma after it.
        if let Some(at) = comma_in(&doc.text, children[index - 1].end..child.start) {
            text.replace_range(at..=at, "");
        }
    }
    text
}

/// Whether an object or list is written on one line.
fn is_flat(doc: &SplicedText, parent: &SyntaxNode) -> bool {
    doc.text.get(parent.range.clone()).is_some_and(|t| !t.contains('\n'))
}

/// The end of the last comment that starts on the line of `from`, or `from` itself; the line break
/// is not included.
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

/// How the lines of a text end.
pub(super) fn newline_of(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Line ending and indentation unit of the file; two spaces when it has no indentation.
fn manner(doc: &SplicedText) -> FileStyle {
    let newline = newline_of(&doc.text);
    let unit = doc
        .root
        .members()
        .iter()
        .map(|m| indent_at(&doc.text, m.key_range.start))
        .find(|indent| !indent.is_empty())
        .unwrap_or_else(|| "  ".to_owned());
    FileStyle { newline, unit }
}

/// Longest list that is written on one line, in characters.
const MAX_LINE_CHARS: usize = 90;

/// Line ending and indentation unit of a file.
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
    let short = open == '[' && line.chars().count() <= MAX_LINE_CHARS && !line.contains('\n');
    if flat || short {
        let gap = if open == '{' { " " } else { "" };
        return format!("{open}{gap}{line}{gap}{close}");
    }
    let newline = manner.newline;
    let body = parts.join(&format!(",{newline}{inner}"));
    format!("{open}{newline}{inner}{body}{newline}{indent}{close}")
}
