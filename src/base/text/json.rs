//! JSON that is safe to print: characters that serde leaves alone but that control a terminal or
//! mislead a reader (delete, C1, bidi, zero-width and tag characters) are written as `\u` escapes.
//!
//! The value is unchanged: a parser reads back exactly what was put in.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::{Match, Regex};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use super::inspect::is_hidden;
use crate::pointer::child_pointer;

/// JSON on one line.
pub fn compact<T: Serialize + ?Sized>(value: &T) -> String {
    printable(serde_json::to_string(value))
}

/// Indented by two blanks.
pub fn pretty<T: Serialize + ?Sized>(value: &T) -> String {
    printable(serde_json::to_string_pretty(value))
}

/// Such characters occur only inside strings, where an escape means the same.
fn printable(written: serde_json::Result<String>) -> String {
    // Fails only for a map with non-string keys, and no value of ours has one.
    debug_assert!(written.is_ok(), "not representable as JSON");
    let text = written.unwrap_or_default();
    if text.chars().any(unsafe_to_print) { escaped(&text, unsafe_to_print) } else { text }
}

/// Whether a character must not reach a terminal as it is.
const fn unsafe_to_print(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}') || is_hidden(c)
}

/// JSON text with the characters selected by `which` as `\uXXXX`.
pub(crate) fn escaped(text: &str, which: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if which(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
        } else {
            out.push(c);
        }
    }
    out
}

/// A value for display: text without quotes.
pub fn plain(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The size of a value as JSON text, without building the text.
pub fn weigh(value: &impl serde::Serialize) -> usize {
    struct Scale(usize);
    impl std::io::Write for Scale {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut scale = Scale(0);
    match serde_json::to_writer(&mut scale, value) {
        Ok(()) => scale.0,
        Err(_) => usize::MAX / 2,
    }
}

// Numbers as they are written: what a double or 64 bits cannot hold is refused, never rounded.

/// Parses JSON, rejecting numbers that would not be sent as written: integers beyond 64 bits, and
/// numbers with more digits than a double can hold.
///
/// # Errors
/// A message, with line and column if the text does not parse.
pub fn exact(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| words_of(&error))?;
    match lossy_number(text) {
        Some(token) if token.parse::<f64>().is_ok_and(|parsed| !parsed.is_normal()) => {
            Err(format!("{token} cannot be sent exactly; it is too small"))
        }
        Some(token) => Err(format!("{token} cannot be sent exactly; it has too many digits")),
        None => Ok(value),
    }
}

/// The first number in a JSON text that parsing would change.
fn lossy_number(text: &str) -> Option<&str> {
    number_tokens(text).map(|token| token.as_str()).find(|token| is_lossy(token))
}

fn is_lossy(token: &str) -> bool {
    let mantissa = token.split(['e', 'E']).next().unwrap_or_default();
    // Numbers so small that a double rounds them, down to zero.
    let rounded = token.parse::<f64>().is_ok_and(|parsed| !parsed.is_normal());
    if rounded && mantissa.bytes().any(|b| (b'1'..=b'9').contains(&b)) {
        return true;
    }
    let digits = mantissa.bytes().filter(u8::is_ascii_digit).count();
    if digits <= 15 {
        return false;
    }
    if token.bytes().all(|b| b.is_ascii_digit() || b == b'-') {
        return token.parse::<i64>().is_err() && token.parse::<u64>().is_err();
    }
    let significant = mantissa.trim_start_matches(['-', '0', '.']).trim_end_matches('0');
    significant.bytes().filter(u8::is_ascii_digit).count() > 17
}

// Numbers that go out as they are written, although a value cannot hold them.

/// A JSON value beside those of its numbers that parsing changes: `1e-400` is zero in the value.
#[derive(Clone, Debug, Default)]
pub struct WrittenValue {
    /// The value, its numbers rounded.
    pub value: Value,
    /// The numbers that differ from what is written.
    pub numbers: WrittenNumbers,
}

impl From<Value> for WrittenValue {
    fn from(value: Value) -> Self {
        Self { value, numbers: WrittenNumbers::default() }
    }
}

impl WrittenValue {
    /// Parses JSON.
    ///
    /// # Errors
    /// A message with line and column.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value = serde_json::from_str(&within_range(text)).map_err(|e| words_of(&e))?;
        let mut numbers = WrittenNumbers::default();
        if number_tokens(text).any(|token| is_changed(token.as_str())) {
            numbers.collect(text, "");
        }
        Ok(Self { value, numbers })
    }
}

/// Numbers as they are written, by the JSON pointers of their places.
#[derive(Clone, Debug, Default)]
pub struct WrittenNumbers(BTreeMap<String, Box<RawValue>>);

/// No numbers.
pub static NO_NUMBERS: WrittenNumbers = WrittenNumbers(BTreeMap::new());

impl WrittenNumbers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces those at a place and below it with those of the value that is put there.
    pub fn put(&mut self, pointer: &str, numbers: Self) {
        self.0.retain(|place, _| {
            place
                .strip_prefix(pointer)
                .is_none_or(|rest| !(rest.is_empty() || rest.starts_with('/')))
        });
        self.0.extend(numbers.0.into_iter().map(|(place, raw)| (format!("{pointer}{place}"), raw)));
    }

    /// Something that serializes as `value` with these numbers in their places.
    pub const fn within<'a>(&'a self, value: &'a Value) -> ExactJson<'a> {
        ExactJson { part: JsonPart::Any(value), numbers: self, pointer: String::new() }
    }

    /// As [`WrittenNumbers::within`], for the members of an object.
    pub const fn within_members<'a>(&'a self, members: &'a Map<String, Value>) -> ExactJson<'a> {
        ExactJson { part: JsonPart::Members(members), numbers: self, pointer: String::new() }
    }

    fn collect(&mut self, text: &str, pointer: &str) {
        match text.trim_start().as_bytes().first() {
            Some(b'{') => {
                let members: HashMap<String, &RawValue> =
                    serde_json::from_str(text).unwrap_or_default();
                for (key, value) in members {
                    self.collect(value.get(), &child_pointer(pointer, &key));
                }
            }
            Some(b'[') => {
                let elements: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
                for (index, value) in elements.into_iter().enumerate() {
                    self.collect(value.get(), &format!("{pointer}/{index}"));
                }
            }
            Some(b'-' | b'0'..=b'9') if is_changed(text.trim()) => {
                if let Ok(raw) = RawValue::from_string(text.trim().to_owned()) {
                    self.0.insert(pointer.to_owned(), raw);
                }
            }
            _ => {}
        }
    }
}

/// A value that serializes with numbers as they are written.
#[derive(Clone, Debug)]
pub struct ExactJson<'a> {
    part: JsonPart<'a>,
    numbers: &'a WrittenNumbers,
    pointer: String,
}

#[derive(Clone, Copy, Debug)]
enum JsonPart<'a> {
    Any(&'a Value),
    Members(&'a Map<String, Value>),
}

impl Serialize for ExactJson<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let child = |value, pointer| ExactJson {
            part: JsonPart::Any(value),
            numbers: self.numbers,
            pointer,
        };
        match self.part {
            JsonPart::Any(value) if self.numbers.is_empty() => value.serialize(to),
            JsonPart::Members(members) if self.numbers.is_empty() => members.serialize(to),
            JsonPart::Any(Value::Object(members)) | JsonPart::Members(members) => to.collect_map(
                members
                    .iter()
                    .map(|(key, value)| (key, child(value, child_pointer(&self.pointer, key)))),
            ),
            JsonPart::Any(Value::Array(elements)) => to.collect_seq(
                elements
                    .iter()
                    .enumerate()
                    .map(|(index, value)| child(value, format!("{}/{index}", self.pointer))),
            ),
            JsonPart::Any(Value::Number(number)) => match self.numbers.0.get(&self.pointer) {
                // Not one that was put in its place since.
                Some(raw) if rounded(raw.get()).as_ref() == Some(number) => raw.serialize(to),
                _ => number.serialize(to),
            },
            JsonPart::Any(other) => other.serialize(to),
        }
    }
}

/// What parsing makes of a number as it is written.
fn rounded(token: &str) -> Option<Number> {
    serde_json::from_str(&within_range(token)).ok()
}

/// A text whose numbers beyond the range of a double are replaced by the largest one.
fn within_range(text: &str) -> Cow<'_, str> {
    let is_beyond = |token: &Match<'_>| token.as_str().parse::<f64>().is_ok_and(f64::is_infinite);
    let (mut out, mut copied) = (String::new(), 0);
    for token in number_tokens(text).filter(is_beyond) {
        out.push_str(&text[copied..token.start()]);
        let sign = if token.as_str().starts_with('-') { "-" } else { "" };
        let _ = write!(out, "{sign}{:e}", f64::MAX);
        copied = token.end();
    }
    if copied == 0 {
        return text.into();
    }
    out.push_str(&text[copied..]);
    out.into()
}

/// Whether a number is written out differently from how it was written.
fn is_changed(token: &str) -> bool {
    serde_json::from_str::<Number>(token).map_or(true, |number| number.to_string() != token)
}

/// Whether a number, as it is written, is an integer: `1.0` and `1e3` are some too (JSON Schema
/// 2020-12, section 4.2.3).
pub fn is_whole(token: &str) -> bool {
    let (mantissa, exponent) = token.split_once(['e', 'E']).unwrap_or((token, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{}{fraction}", whole.trim_start_matches('-'));
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) || digits.is_empty() {
        return false;
    }
    let significant = digits.trim_end_matches('0');
    if significant.is_empty() {
        return true;
    }
    let decimals = fraction.len() as i64 - (digits.len() - significant.len()) as i64;
    exponent.parse::<i64>().map_or(!exponent.starts_with('-'), |exponent| decimals <= exponent)
}

fn words_of(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let bare = message.split(" at line").next().unwrap_or_default();
    format!("line {}, column {}: {bare}", error.line(), error.column())
}

/// The numbers of a JSON text.
fn number_tokens(text: &str) -> impl Iterator<Item = Match<'_>> {
    static TOKENS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#""(?:\\.|[^"\\])*"|[-0-9][-+.eE0-9]*"#).ok());
    let tokens = TOKENS.iter().flat_map(move |token| token.find_iter(text));
    tokens.filter(|token| !token.as_str().starts_with('"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_escaped_and_reads_back_the_same() {
        let nasty = "a\u{9b}31m\u{1b}]52;\u{7}b\u{202e}c\u{e0041}d\u{200b}\u{7f}é€😀";
        let text = compact(&serde_json::json!({ nasty: [nasty] }));
        assert!(text.contains("é€😀"), "{text}");
        assert!(!text.chars().any(|c| c.is_control() || unsafe_to_print(c)), "{text:?}");
        let back: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
        assert_eq!(back[nasty][0], nasty);
    }

    #[test]
    fn pretty_output_is_indented_as_usual() {
        let value = serde_json::json!({"a": [1, {}], "b": []});
        assert_eq!(pretty(&value), serde_json::to_string_pretty(&value).expect("plain"));
    }

    #[test]
    fn a_number_that_would_be_changed_is_refused_with_the_reason() {
        for (text, why) in [
            ("1e-400", "it is too small"),
            ("{\"a\": [-4.9e-324]}", "it is too small"),
            ("123456789012345678901234567890", "too many digits"),
            ("0.1234567890123456789", "too many digits"),
            ("1e999", "out of range"),
        ] {
            let refused = exact(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
        for text in ["0", "0.0", "0e-400", "1.5", "18446744073709551615", "2.2250738585072014e-308"]
        {
            assert!(exact(text).is_ok(), "{text}");
        }
    }

    #[test]
    fn numbers_are_written_as_they_were_written() {
        for text in [
            r#"{"a":1e-400,"b":[1E3,{"c/d":123456789012345678901234567890,"~":-0}],"e":1e999}"#,
            r#"{"a":"1e-400","b":1.50,"c":-1.7e+4000,"d":18446744073709551616}"#,
            "0.10",
            "[1,2.5,1e3]",
        ] {
            let written = WrittenValue::parse(text).unwrap();
            let out = serde_json::to_string(&written.numbers.within(&written.value)).unwrap();
            assert_eq!(out, text);
        }
        assert!(WrittenValue::parse(r#"{"a":1,"b":2.5}"#).unwrap().numbers.is_empty());
        // A value that was replaced is not what was written.
        let written = WrittenValue::parse(r#"{"a":1e-400}"#).unwrap();
        let fixed = serde_json::json!({"a": 5});
        let out = serde_json::to_string(&written.numbers.within(&fixed)).unwrap();
        assert_eq!(out, r#"{"a":5}"#);
        assert_eq!(
            WrittenValue::parse("{\n 1e3: 2}").unwrap_err(),
            "line 2, column 2: key must be a string"
        );
        let last = WrittenValue::parse(r#"{"a":1e9,"a":1e3}"#).unwrap();
        let out = serde_json::to_string(&last.numbers.within(&last.value)).unwrap();
        assert_eq!(out, r#"{"a":1e3}"#);
    }

    #[test]
    fn what_replaces_a_value_replaces_its_numbers() {
        let mut all = WrittenValue::parse(r#"{"a":{"b":1e3},"ab":1e4}"#).unwrap();
        all.value["a"] = serde_json::json!({"b": 5});
        all.numbers.put("/a", WrittenNumbers::default());
        let out = serde_json::to_string(&all.numbers.within(&all.value)).unwrap();
        assert_eq!(out, r#"{"a":{"b":5},"ab":1e4}"#);
    }

    #[test]
    fn a_number_is_whole_as_it_is_written() {
        for token in ["1", "-0", "1.0", "1e3", "1.5e1", "100e-2", "0e-9", "123456789012345678901"] {
            assert!(is_whole(token), "{token}");
        }
        for token in ["1.5", "1e-400", "15e-1", "1.25e1", "", "x", "-"] {
            assert!(!is_whole(token), "{token}");
        }
    }
}
