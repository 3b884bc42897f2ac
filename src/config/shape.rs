//! The shape of a configuration as data: one table drives the structural check, the suggestions
//! and the JSON Schema, so that the three cannot disagree.

use std::collections::HashMap;
use std::ops::Range;

use crate::Severity;
use crate::diagnostics::{Problems, closest};
use crate::syntax::{NodeKind, SyntaxMember, SyntaxNode};
use base::pointer::child_pointer;

/// What a value may be.
#[derive(Debug)]
pub(crate) enum Shape {
    /// A string; expanded.
    Text,
    /// A glob, expanded.
    Glob,
    /// A folder or its `file://` URI, expanded to a URI.
    Folder,
    /// A string, number, boolean or null: an environment value.
    Scalar,
    /// One of these words, with what each means.
    Word(&'static [(&'static str, &'static str)]),
    /// A protocol version date, or one of these words.
    Version(&'static [(&'static str, &'static str)]),
    /// `true` or `false`.
    Flag,
    /// A duration above zero in seconds, at most a week.
    Seconds,
    /// The same in milliseconds.
    Millis,
    /// A number within inclusive limits.
    Number { min: f64, max: f64 },
    /// A whole number within inclusive limits.
    Integer { min: u64, max: u64 },
    /// A whole number of bytes, or text such as `512MiB`.
    Bytes,
    /// A list of one shape.
    List(&'static Shape),
    /// An object with free keys.
    Map(&'static Shape),
    /// An object with known keys.
    Object(&'static ObjectShape),
    /// Checked separately from the enclosing value.
    Apart(&'static Shape),
    /// One of several, distinguished by their JSON type.
    Either(&'static [Shape]),
    /// Any JSON value.
    Any,
}

/// An object with known keys.
#[derive(Debug)]
pub(crate) struct ObjectShape {
    /// Its name in the schema.
    pub(crate) name: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [KnownKey],
    pub(crate) required: &'static [&'static str],
    /// Known but unused keys of other hosts, separated by spaces, with their origin.
    pub(crate) foreign: &'static [(&'static str, &'static str)],
}

impl ObjectShape {
    pub(crate) const fn new(name: &'static str, doc: &'static str) -> Self {
        Self { name, doc, keys: &[], required: &[], foreign: &[] }
    }

    pub(crate) const fn keys(mut self, keys: &'static [KnownKey]) -> Self {
        self.keys = keys;
        self
    }

    pub(crate) const fn required(mut self, keys: &'static [&'static str]) -> Self {
        self.required = keys;
        self
    }

    pub(crate) const fn foreign(mut self, keys: &'static [(&'static str, &'static str)]) -> Self {
        self.foreign = keys;
        self
    }
}

/// A known key.
#[derive(Debug)]
pub(crate) struct KnownKey {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) doc: &'static str,
    /// Its default as JSON text.
    pub(crate) default: Option<&'static str>,
    /// The key it is another spelling of.
    pub(crate) alias_of: Option<&'static str>,
}

pub const fn key(name: &'static str, shape: Shape, doc: &'static str) -> KnownKey {
    KnownKey { name, shape, doc, default: None, alias_of: None }
}

impl KnownKey {
    pub(crate) const fn default(mut self, json: &'static str) -> Self {
        self.default = Some(json);
        self
    }

    pub(crate) const fn alias(mut self, of: &'static str) -> Self {
        self.alias_of = Some(of);
        self
    }
}

/// Longest duration accepted, in seconds: a week.
pub(crate) const MAX_DURATION_SECONDS: f64 = 604_800.0;

impl Shape {
    /// The expected type with its article, for messages.
    pub(crate) fn expected(&self) -> String {
        match self {
            Self::Text
            | Self::Glob
            | Self::Folder
            | Self::Word(_)
            | Self::Version(_)
            | Self::Scalar => "a string".into(),
            Self::Flag => "true or false".into(),
            Self::Seconds => "a number of seconds".into(),
            Self::Millis => "a number of milliseconds".into(),
            Self::Number { .. } => "a number".into(),
            Self::Integer { .. } => "a whole number".into(),
            Self::Bytes => "a number of bytes, or text such as \"512MiB\"".into(),
            Self::List(of) => match of {
                Self::Text | Self::Glob => "a list of strings".into(),
                _ => "a list".into(),
            },
            Self::Map(_) | Self::Object(_) => "an object".into(),
            Self::Either(shapes) => {
                let mut words: Vec<String> = shapes.iter().map(Self::expected).collect();
                words.dedup();
                words.join(" or ")
            }
            Self::Apart(of) => of.expected(),
            Self::Any => "any value".into(),
        }
    }

    /// Whether a value has the JSON type of this shape, whatever its content.
    pub(crate) fn takes(&self, node: &SyntaxNode) -> bool {
        let kind = &node.kind;
        match self {
            Self::Any => true,
            Self::Text | Self::Glob | Self::Folder | Self::Word(_) | Self::Version(_) => {
                matches!(kind, NodeKind::Text(_))
            }
            Self::Bytes => matches!(kind, NodeKind::Text(_) | NodeKind::Number(_)),
            Self::Scalar => !matches!(kind, NodeKind::List(_) | NodeKind::Object(_)),
            Self::Flag => matches!(kind, NodeKind::Bool(_)),
            Self::Seconds | Self::Millis | Self::Number { .. } | Self::Integer { .. } => {
                matches!(kind, NodeKind::Number(_))
            }
            Self::List(_) => matches!(kind, NodeKind::List(_)),
            Self::Map(_) | Self::Object(_) => matches!(kind, NodeKind::Object(_)),
            Self::Either(shapes) => shapes.iter().any(|shape| shape.takes(node)),
            Self::Apart(of) => of.takes(node),
        }
    }
}

/// Checks a value against a shape and reports everything that does not fit.
pub(crate) fn check(shape: &Shape, node: &SyntaxNode, pointer: &str, out: &mut Problems<'_>) {
    if !shape.takes(node) {
        wrong_type(shape, node, pointer, out);
        return;
    }
    match (shape, &node.kind) {
        (Shape::Either(shapes), _) => {
            if let Some(shape) = shapes.iter().find(|s| s.takes(node)) {
                check(shape, node, pointer, out);
            }
        }
        (Shape::Word(words), NodeKind::Text(text)) if !is_word(words, text) => {
            not_a_word(shape, node, pointer, out);
        }
        (Shape::Version(words), NodeKind::Text(text))
            if !is_date(text) && !is_word(words, text) =>
        {
            not_a_word(shape, node, pointer, out);
        }
        (_, NodeKind::Number(written)) => check_number(shape, written, node, pointer, out),
        (Shape::Bytes, NodeKind::Text(text)) if parse_bytes(text).is_none() => {
            out.error("config/value", &node.range, pointer, "this is not a size")
                .help("write bytes as a number, or text such as \"512MiB\" or \"2GB\"");
        }
        (Shape::List(of), NodeKind::List(elements)) => {
            for (i, element) in elements.iter().enumerate() {
                check(of, element, &format!("{pointer}/{i}"), out);
            }
        }
        (Shape::Map(of), NodeKind::Object(members)) => {
            repeated(members, pointer, out);
            for m in members {
                check(of, &m.value, &child_pointer(pointer, &m.key), out);
            }
        }
        (Shape::Object(object), NodeKind::Object(members)) => {
            check_object(object, node, members, pointer, out);
        }
        _ => {}
    }
}

fn check_object(
    object: &ObjectShape,
    node: &SyntaxNode,
    members: &[SyntaxMember],
    pointer: &str,
    out: &mut Problems<'_>,
) {
    repeated(members, pointer, out);
    for m in members {
        let at = child_pointer(pointer, &m.key);
        if let Some(key) = object.keys.iter().find(|k| k.name == m.key) {
            check(&key.shape, &m.value, &at, out);
            if let Some(main) = key.alias_of
                && let Some(other) = members.iter().find(|o| o.key == main)
            {
                let message = format!("`{}` and `{}` are the same setting", main, key.name);
                let line = out.source.position(other.key_range.start).line;
                out.error("config/conflict", &m.key_range, &at, message)
                    .help(format!("keep one of them; the other is in line {line}"));
            }
        } else {
            unknown_key(object, m, &at, out);
        }
    }
    for required in object.required {
        if !members.iter().any(|m| m.key == *required) {
            let brace = node.range.start..node.range.start + 1;
            let message = format!("`{required}` is missing");
            out.error("config/missing-key", &brace, pointer, message);
        }
    }
}

/// Common synonyms of keys, too different in spelling for the similarity search.
const SYNONYMS: [(&str, &str); 10] = [
    ("cmd", "command"),
    ("exec", "command"),
    ("program", "command"),
    ("arguments", "args"),
    ("environment", "env"),
    ("dir", "cwd"),
    ("workingDirectory", "cwd"),
    ("uri", "url"),
    ("endpoint", "url"),
    ("requires", "dependencies"),
];

/// The key that a synonym or misspelling probably means.
pub(crate) fn meant(object: &ObjectShape, key: &str) -> Option<&'static str> {
    let known = |name: &str| object.keys.iter().any(|k| k.name == name);
    let synonym =
        SYNONYMS.iter().find(|(word, ours)| word.eq_ignore_ascii_case(key) && known(ours));
    let synonym = synonym.map(|(_, ours)| *ours);
    synonym.or_else(|| closest(key, object.keys.iter().map(|k| k.name)))
}

fn unknown_key(object: &ObjectShape, member: &SyntaxMember, pointer: &str, out: &mut Problems<'_>) {
    let key = member.key.as_str();
    if key.starts_with('_') || key.starts_with('$') || key.starts_with("//") {
        return;
    }
    let foreign = |(names, _): &&(&str, _)| names.split(' ').any(|name| name == key);
    if let Some((_, whose)) = object.foreign.iter().find(foreign) {
        let message = format!("`{key}` is not used: {whose}");
        let rule = ("config/foreign-key", Severity::Note);
        out.report(rule, &member.key_range, pointer, message);
        return;
    }
    let message = format!("`{key}` is not a known key of {}", object.doc);
    let meant = meant(object, key);
    let problem = out.warn("config/unknown-key", &member.key_range, pointer, message);
    if let Some(meant) = meant {
        problem.help(format!("did you mean `{meant}`?"));
    }
}

/// Reports duplicate keys in one object: legal JSON, but never intended.
fn repeated(members: &[SyntaxMember], pointer: &str, out: &mut Problems<'_>) {
    let mut firsts: HashMap<&str, &SyntaxMember> = HashMap::with_capacity(members.len());
    for m in members {
        if let Some(first) = firsts.get(m.key.as_str()) {
            let line = out.source.position(first.key_range.start).line;
            let message = format!("`{}` is given twice; the last one counts", m.key);
            out.warn(
                "config/duplicate-key",
                &m.key_range,
                &child_pointer(pointer, &m.key),
                message,
            )
            .help(format!("remove one of them; the first is in line {line}"));
        } else {
            firsts.insert(&m.key, m);
        }
    }
}

fn wrong_type(shape: &Shape, node: &SyntaxNode, pointer: &str, out: &mut Problems<'_>) {
    let expected = shape.expected();
    let name = pointer.rsplit('/').next().unwrap_or_default().replace("~1", "/").replace("~0", "~");
    let what = match name.parse::<usize>() {
        Ok(index) => format!("element {} of the list", index + 1),
        Err(_) if name.is_empty() => "the configuration".to_owned(),
        Err(_) => format!("`{name}`"),
    };
    let help = conversion(shape, node);
    let message = format!("{what} must be {expected}, not {}", node.type_name());
    let problem = out.error("config/type", &first_line(node), pointer, message);
    if let Some(help) = help {
        problem.help(help);
    }
}

/// The range to mark: of an object or list only its opening bracket.
fn first_line(node: &SyntaxNode) -> Range<usize> {
    match node.kind {
        NodeKind::List(_) | NodeKind::Object(_) => node.range.start..node.range.start + 1,
        _ => node.range.clone(),
    }
}

/// How to write the value correctly, when that is known.
fn conversion(shape: &Shape, node: &SyntaxNode) -> Option<String> {
    let numeric = matches!(
        shape,
        Shape::Seconds | Shape::Millis | Shape::Number { .. } | Shape::Integer { .. }
    );
    match (shape, &node.kind) {
        (_, NodeKind::Text(t)) if numeric && t.trim().parse::<f64>().is_ok() => {
            Some("write it without quotes".to_owned())
        }
        (Shape::Seconds, NodeKind::Text(_)) => Some("write the seconds as a number".to_owned()),
        (Shape::Object(object), NodeKind::List(_)) if object.name == "file" => Some(
            "write { \"servers\": { \"NAME\": { ... } } }, or the list as the value of `servers`"
                .to_owned(),
        ),
        (Shape::Object(object), NodeKind::Text(_) | NodeKind::List(_))
            if object.keys.iter().any(|k| k.name == "command") =>
        {
            Some(
                "write { \"command\": \"...\", \"args\": [\"...\"] } or { \"url\": \"...\" }"
                    .to_owned(),
            )
        }
        (Shape::Flag, NodeKind::Text(t)) if matches!(t.as_str(), "true" | "false") => {
            Some("write it without quotes".to_owned())
        }
        // The value itself is not repeated: it may be a secret.
        (Shape::Text | Shape::Glob, NodeKind::Number(_) | NodeKind::Bool(_)) => {
            Some("put it in quotes".to_owned())
        }
        (Shape::Text, NodeKind::List(_)) if node.elements().iter().all(|e| e.text().is_some()) => {
            Some("a program and its arguments are written as `command` and `args`".to_owned())
        }
        (Shape::List(_), NodeKind::Text(_)) => {
            Some("put it in square brackets, one element per argument".to_owned())
        }
        (Shape::Map(_), NodeKind::List(_)) => {
            Some("write it as { \"NAME\": \"value\" }".to_owned())
        }
        _ => None,
    }
}

fn is_word(words: &[(&str, &str)], text: &str) -> bool {
    words.iter().any(|(word, _)| *word == text)
}

fn not_a_word(shape: &Shape, node: &SyntaxNode, pointer: &str, out: &mut Problems<'_>) {
    let (Shape::Word(words) | Shape::Version(words)) = shape else { return };
    let shape_takes_date = matches!(shape, Shape::Version(_));
    let text = node.text().unwrap_or_default();
    let name = pointer.rsplit('/').next().unwrap_or_default();
    let shown: String = text.chars().take(40).collect();
    let message = format!("`{name}` cannot be `{}`", base::text::SafeText::line(&shown));
    let all: Vec<String> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
    let help = match closest(text, words.iter().map(|(word, _)| *word)) {
        Some(meant) => format!("did you mean `{meant}`? It may be {}", all.join(", ")),
        None if shape_takes_date => {
            format!("it may be {}, or a date such as `2025-11-25`", all.join(", "))
        }
        None => format!("it may be {}", all.join(", ")),
    };
    out.error("config/value", &node.range, pointer, message).help(help);
}

fn check_number(
    shape: &Shape,
    written: &str,
    node: &SyntaxNode,
    pointer: &str,
    out: &mut Problems<'_>,
) {
    let Ok(value) = written.parse::<f64>() else { return };
    let wrong = match shape {
        Shape::Seconds if value <= 0.0 => Some("must be more than 0 seconds".to_owned()),
        Shape::Seconds if value > MAX_DURATION_SECONDS => Some("must be at most a week".to_owned()),
        Shape::Millis if value <= 0.0 => Some("must be more than 0 milliseconds".to_owned()),
        Shape::Millis if value > MAX_DURATION_SECONDS * 1e3 => {
            Some("must be at most a week".to_owned())
        }
        Shape::Number { min, max } if value < *min || value > *max => {
            Some(format!("must be from {min} to {max}"))
        }
        Shape::Integer { min, max } if value < *min as f64 || value > *max as f64 => {
            Some(format!("must be from {min} to {max}"))
        }
        Shape::Integer { .. } | Shape::Bytes if value.fract() != 0.0 => {
            Some("must be a whole number".to_owned())
        }
        Shape::Bytes if value < 1.0 || value > MAX_BYTES as f64 => {
            Some("must be at least one byte and below 2^53".to_owned())
        }
        _ => None,
    };
    let name = pointer.rsplit('/').next().unwrap_or_default();
    if wrong.is_none() && matches!(shape, Shape::Seconds) && value >= MIN_SUSPECT_SECONDS {
        let message = format!("`{name}` is {value} seconds: were milliseconds meant?");
        out.warn("config/seconds", &node.range, pointer, message)
            .help(format!("it is in seconds; milliseconds are `{name}Ms`"));
    }
    if let Some(wrong) = wrong {
        let problem = out.error("config/range", &node.range, pointer, format!("`{name}` {wrong}"));
        if matches!(shape, Shape::Seconds) && value > MAX_DURATION_SECONDS {
            problem.help(format!("it is in seconds; milliseconds are `{name}Ms`"));
        }
    }
}

/// Durations from here on, in seconds, were probably meant in milliseconds.
const MIN_SUSPECT_SECONDS: f64 = 10_000.0;

/// Largest size in bytes: the largest integer that a JSON number holds exactly.
pub(crate) const MAX_BYTES: u64 = (1 << 53) - 1;

/// A size in bytes from text such as `512MiB`, `2 GB` or `65536`.
pub(crate) fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor).filter(|n| (1..=MAX_BYTES).contains(n))
}

/// The pattern of [`Shape::Bytes`] text in the schema.
pub(crate) const BYTES_PATTERN: &str = r"^\s*0*[1-9][0-9]{0,14}\s*([bB]|[kKmMgG]([iI]?[bB])?)?\s*$";

fn is_date(text: &str) -> bool {
    text.split('-').map(str::len).eq([4, 2, 2])
        && text.chars().all(|c| c == '-' || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::parse_bytes;

    #[test]
    fn sizes_are_read_with_every_unit_and_within_their_bounds() {
        for (text, bytes) in [
            ("65536", 65_536),
            ("1 b", 1),
            ("2k", 2 << 10),
            ("2 KiB", 2 << 10),
            ("3m", 3 << 20),
            ("3MiB", 3 << 20),
            ("1g", 1 << 30),
            ("1GiB", 1 << 30),
            ("2kb", 2_000),
            ("2MB", 2_000_000),
            ("2GB", 2_000_000_000),
        ] {
            assert_eq!(parse_bytes(text), Some(bytes), "{text}");
        }
        for text in ["", "0", "-1", "1.5k", "1 tb", "9007199254740992", "99999999999999999999g"] {
            assert_eq!(parse_bytes(text), None, "{text}");
        }
    }
}
