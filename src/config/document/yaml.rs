//! YAML: read into values with positions, and changed entry by entry. Only the first document of a
//! file counts.

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Value};

use super::place::{EntryPlace, is_named, syntax_problem};
use crate::Diagnostic;
use crate::edit::EditError;
use crate::source::SourceText;
use crate::syntax::{MAX_DEPTH, MAX_WORDS, NodeKind, SyntaxMember, SyntaxNode};

/// Reads a file as JSON values.
pub(super) fn read(source: &SourceText) -> Result<Value, Box<Diagnostic>> {
    let root = parse_yaml(source)?;
    Ok(root.map_or(Value::Null, |root| root.to_json()))
}

/// The first document; `None` when there is none.
fn parse_yaml(source: &SourceText) -> Result<Option<SyntaxNode>, Box<Diagnostic>> {
    let mut reading = YamlReading {
        offsets: source.text().char_indices().map(|(at, _)| at).collect(),
        source,
        parser: Parser::new_from_str(source.text()),
        anchors: HashMap::new(),
        words: 0,
    };
    loop {
        let (event, _) = reading.next()?;
        match event {
            Event::StreamEnd => return Ok(None),
            Event::DocumentStart(_) => {
                let (event, span) = reading.next()?;
                return reading.node(event, span, 0).map(Some);
            }
            _ => {}
        }
    }
}

struct YamlReading<'s> {
    source: &'s SourceText,
    /// The byte offset of every character.
    offsets: Vec<usize>,
    parser: Parser<'s, StrInput<'s>>,
    anchors: HashMap<usize, SyntaxNode>,
    words: usize,
}

impl<'s> YamlReading<'s> {
    fn next(&mut self) -> Result<(Event<'s>, Span), Box<Diagnostic>> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => {
                let mut offset = self.offset(error.marker().index());
                let text = self.source.text();
                // A scalar that a tab ends is told by its beginning.
                if error.info().contains("tab")
                    && let Some(tab) = text.get(offset..).and_then(|rest| rest.find('\t'))
                {
                    offset += tab;
                }
                let mut problem = syntax_problem(self.source, offset, error.info());
                let line = text[..offset].rsplit('\n').next().unwrap_or_default();
                let has_tab = line.contains('\t') || text[offset..].starts_with('\t');
                if has_tab && problem.help.is_none() {
                    problem.help("YAML takes no tab here: write blanks in its place");
                }
                Err(Box::new(problem))
            }
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn offset(&self, character: usize) -> usize {
        self.offsets.get(character).copied().unwrap_or(self.source.text().len())
    }

    fn range(&self, span: Span) -> Range<usize> {
        let start = self.offset(span.start.index());
        start..self.offset(span.end.index()).max(start)
    }

    fn refuse<T>(&self, span: Span, message: &str) -> Result<T, Box<Diagnostic>> {
        Err(Box::new(syntax_problem(self.source, self.range(span).start, message)))
    }

    fn count(&mut self, more: usize, span: Span) -> Result<(), Box<Diagnostic>> {
        self.words += more;
        if self.words > MAX_WORDS {
            return self.refuse(span, &format!("more than {MAX_WORDS} keys and values"));
        }
        Ok(())
    }

    fn node(
        &mut self,
        event: Event<'s>,
        span: Span,
        depth: usize,
    ) -> Result<SyntaxNode, Box<Diagnostic>> {
        if depth > MAX_DEPTH {
            return self.refuse(span, &format!("nested deeper than {MAX_DEPTH} levels"));
        }
        self.count(1, span)?;
        let mut range = self.range(span);
        let (kind, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (scalar(&text, style, tag.as_deref()), anchor)
            }
            Event::Alias(id) => {
                let Some(node) = self.anchors.get(&id).cloned() else {
                    return self.refuse(span, "this alias has no anchor");
                };
                self.count(size(&node), span)?;
                return Ok(SyntaxNode { range, ..node });
            }
            Event::SequenceStart(anchor, _) => {
                let mut elements = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if matches!(event, Event::SequenceEnd) {
                        range = self.ended(range, span, elements.last());
                        break;
                    }
                    elements.push(self.node(event, span, depth + 1)?);
                }
                (NodeKind::List(elements), anchor)
            }
            Event::MappingStart(anchor, _) => {
                let mut members: Vec<SyntaxMember> = Vec::new();
                loop {
                    let (event, span) = self.next()?;
                    if matches!(event, Event::MappingEnd) {
                        range = self.ended(range, span, members.last().map(|m| &m.value));
                        if let Some(last) = members.last() {
                            range.end = range.end.max(last.key_range.end);
                        }
                        break;
                    }
                    let key = self.node(event, span, depth + 1)?;
                    let name = match key.kind {
                        NodeKind::Text(text) | NodeKind::Number(text) => text,
                        NodeKind::Bool(on) => on.to_string(),
                        NodeKind::Null => "null".to_owned(),
                        NodeKind::List(_) | NodeKind::Object(_) => {
                            return self.refuse(span, "a key is text here");
                        }
                    };
                    let (event, span) = self.next()?;
                    let value = self.node(event, span, depth + 1)?;
                    members.push(SyntaxMember { key: name, key_range: key.range, value });
                }
                (NodeKind::Object(members), anchor)
            }
            _ => return self.refuse(span, "a value is expected here"),
        };
        let node = SyntaxNode { range, kind };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    /// The range of an object or list: one in brackets ends with its bracket, another with its last
    /// child.
    fn ended(&self, range: Range<usize>, span: Span, last: Option<&SyntaxNode>) -> Range<usize> {
        let is_flow = self.source.text()[range.start..].starts_with(['{', '[']);
        let end = match last {
            Some(last) if !is_flow => last.range.end,
            _ => self.range(span).end,
        };
        range.start..end.max(range.start)
    }
}

/// How many keys and values a node holds.
fn size(node: &SyntaxNode) -> usize {
    let members = node.members().iter().map(|member| 1 + size(&member.value));
    1 + members.chain(node.elements().iter().map(size)).sum::<usize>()
}

/// A scalar by the core schema of YAML 1.2.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> NodeKind {
    let is_text = tag.is_some_and(|tag| tag.suffix == "str");
    if style != ScalarStyle::Plain || is_text {
        return NodeKind::Text(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => NodeKind::Null,
        "true" | "True" | "TRUE" => NodeKind::Bool(true),
        "false" | "False" | "FALSE" => NodeKind::Bool(false),
        _ => number(text).map_or_else(|| NodeKind::Text(text.to_owned()), NodeKind::Number),
    }
}

/// A number as JSON writes it.
fn number(text: &str) -> Option<String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let based = |prefix: &str, radix| u64::from_str_radix(text.strip_prefix(prefix)?, radix).ok();
    if let Some(whole) = based("0x", 16).or_else(|| based("0o", 8)) {
        return Some(whole.to_string());
    }
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    if let Ok(whole) = text.trim_start_matches('+').parse::<i64>() {
        return Some(whole.to_string());
    }
    let value: f64 = text.trim_start_matches('+').parse().ok()?;
    serde_json::Number::from_f64(value).map(|number| number.to_string())
}

// Changes.

/// The text with an entry, which replaces one that is there.
pub(super) fn put(text: &str, place: &EntryPlace, value: &Value) -> Result<String, EditError> {
    let text = match tree(text)?.as_ref().and_then(|root| found(root, place)) {
        Some(_) => take(text, place)?,
        None => text.to_owned(),
    };
    let newline = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let root = tree(&text)?;
    // The deepest object on the way that is there and not empty.
    let mut rest: &[String] = &place.path;
    let mut at = root.as_ref().filter(|root| !is_empty(root));
    let mut replaced: Option<(&SyntaxNode, usize)> = None;
    while let (Some(node), Some((key, deeper))) = (at, rest.split_first()) {
        if !matches!(node.kind, NodeKind::Object(_)) {
            return Err(EditError::Refused(format!("what holds `{key}` is not a mapping")));
        }
        let Some(index) = node.members().iter().rposition(|member| member.key == *key) else {
            break;
        };
        let inner = &node.members()[index].value;
        if is_empty(inner) {
            replaced = Some((node, index));
            break;
        }
        (at, rest) = (Some(inner), deeper);
    }
    let Some(node) = at else {
        // Comments alone, or nothing at all.
        let mut out = text.clone();
        if !out.is_empty() && !out.ends_with('\n') {
            out.push_str(newline);
        }
        out.push_str(&block(&nested(&place.path, place, value), 0, newline));
        out.push_str(newline);
        return Ok(out);
    };
    if let Some((node, index)) = replaced {
        let member = &node.members()[index];
        let inner = nested(rest.get(1..).unwrap_or_default(), place, value);
        let mut out = text.clone();
        if is_flow(&text, node) {
            out.replace_range(member.value.range.clone(), &flow(&inner));
            return Ok(out);
        }
        let indent = column(&text, member.key_range.start);
        let end = member_end(&text, member);
        let comment = end_of_line(&text, end);
        let child = format!("{newline}{}", block(&inner, indent + 2, newline));
        out.insert_str(comment, &child);
        // What said that it is empty goes.
        if matches!(member.value.kind, NodeKind::Object(_) | NodeKind::List(_))
            || !member.value.range.is_empty()
        {
            let from = text[..member.value.range.start].trim_end_matches(' ').len();
            out.replace_range(from..member.value.range.end, "");
        }
        return Ok(out);
    }
    // An element of a list, or a member with all that is missing around it.
    match (&node.kind, rest.split_first()) {
        (NodeKind::List(_), None) if place.is_listed => {
            Ok(add_element(&text, node, value, newline))
        }
        (NodeKind::Object(_), None) if !place.is_listed => {
            Ok(add_member(&text, node, (&place.name, value), newline))
        }
        (NodeKind::Object(_), Some((key, deeper))) => {
            let inner = nested(deeper, place, value);
            Ok(add_member(&text, node, (key, &inner), newline))
        }
        _ => Err(EditError::Refused(format!(
            "`{}` is not a {}",
            place.path.join("."),
            if place.is_listed { "list" } else { "mapping" }
        ))),
    }
}

/// The text without an entry.
pub(super) fn take(text: &str, place: &EntryPlace) -> Result<String, EditError> {
    let root = tree(text)?;
    let missing = || EditError::Refused(format!("there is no `{}`", place.name));
    let root = root.as_ref().ok_or_else(missing)?;
    let (node, index, around) = found(root, place).ok_or_else(missing)?;
    let count = node.members().len() + node.elements().len();
    let mut out = text.to_owned();
    if is_flow(text, node) {
        let children: Vec<Range<usize>> = node
            .members()
            .iter()
            .map(|member| member.key_range.start..member_end(text, member))
            .chain(node.elements().iter().map(|element| element.range.clone()))
            .collect();
        let own = children[index].clone();
        let range = match (children.get(index + 1), index.checked_sub(1)) {
            (Some(next), _) => own.start..next.start,
            (None, Some(before)) => children[before].end..own.end,
            (None, None) => own,
        };
        out.replace_range(range, "");
        return Ok(out);
    }
    if let (1, Some(around)) = (count, around) {
        // The last one leaves an empty object: nothing there would mean null.
        let empty = if node.members().is_empty() { " []" } else { " {}" };
        let colon = text[around.end..].find(':').map_or(around.end, |at| around.end + at + 1);
        let last = end_of_node(text, node);
        out.replace_range(colon..last, empty);
        return Ok(out);
    }
    let (start, end) = match node.members().get(index) {
        Some(member) => (member.key_range.start, member_end(text, member)),
        None => (node.elements()[index].range.start, end_of_node(text, &node.elements()[index])),
    };
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1);
    let lead = text[line..start].trim();
    let is_own_line = if node.members().is_empty() { lead == "-" } else { lead.is_empty() };
    if !is_own_line {
        return Err(EditError::Refused("the entry shares its line with another".to_owned()));
    }
    let mut end = end_of_line(text, end);
    if text[end..].starts_with("\r\n") {
        end += 2;
    } else if text[end..].starts_with('\n') {
        end += 1;
    }
    out.replace_range(line..end, "");
    Ok(out)
}

fn tree(text: &str) -> Result<Option<SyntaxNode>, EditError> {
    parse_yaml(&SourceText::new("", text)).map_err(|problem| EditError::Syntax(vec![*problem]))
}

/// The object or list that holds an entry, the entry's index in it, and the key of the holder.
fn found<'n>(
    root: &'n SyntaxNode,
    place: &EntryPlace,
) -> Option<(&'n SyntaxNode, usize, Option<Range<usize>>)> {
    let (mut node, mut key) = (root, None);
    for name in &place.path {
        let member = node.members().iter().rev().find(|member| member.key == *name)?;
        (node, key) = (&member.value, Some(member.key_range.clone()));
    }
    let index = match &node.kind {
        NodeKind::List(elements) => {
            elements.iter().position(|element| is_named(&element.to_json(), &place.name))?
        }
        _ => node.members().iter().rposition(|member| member.key == place.name)?,
    };
    Some((node, index, key))
}

fn is_empty(node: &SyntaxNode) -> bool {
    match &node.kind {
        NodeKind::Null => true,
        NodeKind::List(elements) => elements.is_empty(),
        NodeKind::Object(members) => members.is_empty(),
        _ => false,
    }
}

fn is_flow(text: &str, node: &SyntaxNode) -> bool {
    text[node.range.start..].starts_with(['{', '['])
}

/// An entry within objects of these keys.
fn nested(path: &[String], place: &EntryPlace, value: &Value) -> Value {
    let leaf = if place.is_listed {
        Value::Array(vec![value.clone()])
    } else {
        Value::Object(Map::from_iter([(place.name.clone(), value.clone())]))
    };
    path.iter().rev().fold(leaf, |inner, key| Value::Object(Map::from_iter([(key.clone(), inner)])))
}

/// Where a value ends, without the white space after it.
fn end_of_node(text: &str, node: &SyntaxNode) -> usize {
    let written = &text[node.range.clone()];
    node.range.start + written.trim_end().len()
}

fn member_end(text: &str, member: &SyntaxMember) -> usize {
    if matches!(member.value.kind, NodeKind::Null) && member.value.range.is_empty() {
        let colon = text[member.key_range.end..].find(':');
        return member.key_range.end + colon.map_or(0, |at| at + 1);
    }
    end_of_node(text, &member.value).max(member.key_range.end)
}

/// The end of the line of an offset, its line break not included.
fn end_of_line(text: &str, from: usize) -> usize {
    let rest = &text[from..];
    let line = rest.split('\n').next().unwrap_or_default();
    from + line.trim_end_matches('\r').len()
}

/// The number of characters before an offset in its line.
fn column(text: &str, offset: usize) -> usize {
    let line = text[..offset].rfind('\n').map_or(0, |at| at + 1);
    text[line..offset].chars().count()
}

fn add_member(
    text: &str,
    node: &SyntaxNode,
    (key, value): (&str, &Value),
    newline: &str,
) -> String {
    let mut out = text.to_owned();
    if is_flow(text, node) {
        let end = node.members().last().map_or(node.range.start + 1, |m| member_end(text, m));
        let comma = if node.members().is_empty() { "" } else { ", " };
        out.insert_str(end, &format!("{comma}{}: {}", text_scalar(key), flow(value)));
        return out;
    }
    let Some(first) = node.members().first() else { return out };
    let indent = column(text, first.key_range.start);
    let last = node.members().last().map_or(node.range.end, |last| member_end(text, last));
    let whole = Value::Object(Map::from_iter([(key.to_owned(), value.clone())]));
    let at = end_of_line(text, last);
    out.insert_str(at, &format!("{newline}{}", block(&whole, indent, newline)));
    out
}

fn add_element(text: &str, node: &SyntaxNode, value: &Value, newline: &str) -> String {
    let mut out = text.to_owned();
    let Some((first, last)) = node.elements().first().zip(node.elements().last()) else {
        return out;
    };
    if is_flow(text, node) {
        out.insert_str(last.range.end, &format!(", {}", flow(value)));
        return out;
    }
    let line = text[..first.range.start].rfind('\n').map_or(0, |at| at + 1);
    let dash = text[line..first.range.start].rfind('-').unwrap_or(0);
    let indent = column(text, line + dash);
    let at = end_of_line(text, end_of_node(text, last));
    let whole = Value::Array(vec![value.clone()]);
    out.insert_str(at, &format!("{newline}{}", block(&whole, indent, newline)));
    out
}

/// A value as lines with this indentation, without a line break at the end.
fn block(value: &Value, indent: usize, newline: &str) -> String {
    let pad = " ".repeat(indent);
    let lines: Vec<String> = match value {
        Value::Object(map) if !map.is_empty() => map
            .iter()
            .map(|(key, value)| {
                let key = text_scalar(key);
                if is_block(value) {
                    format!("{pad}{key}:{newline}{}", block(value, indent + 2, newline))
                } else {
                    format!("{pad}{key}: {}", flow(value))
                }
            })
            .collect(),
        Value::Array(list) if !list.is_empty() => list
            .iter()
            .map(|value| {
                if is_block(value) {
                    let inner = block(value, indent + 2, newline);
                    format!("{pad}- {}", inner.trim_start())
                } else {
                    format!("{pad}- {}", flow(value))
                }
            })
            .collect(),
        scalar => vec![format!("{pad}{}", flow(scalar))],
    };
    lines.join(newline)
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(list) => !list.is_empty(),
        _ => false,
    }
}

/// A value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let pairs =
                map.iter().map(|(key, value)| format!("{}: {}", text_scalar(key), flow(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
        }
        Value::Array(list) => {
            format!("[{}]", list.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => text_scalar(text),
        scalar => scalar.to_string(),
    }
}

/// Text without quotes where every reader of YAML takes it for text, else in double quotes, as in
/// JSON.
fn text_scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '.' | '-');
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(plain)
        && !words.contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { Value::from(text).to_string() }
}
