//! JSON that is safe to print: characters that serde leaves alone but that control a terminal or
//! mislead a reader (delete, C1, bidi, zero-width and tag characters) are written as `\u` escapes.
//!
//! The value is unchanged: a parser reads back exactly what was put in.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::ops::{Bound, Deref};
use std::sync::LazyLock;

use regex::{Match, Regex};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
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
    if has_short_integers_only(text) {
        return None;
    }
    number_tokens(text).map(|token| token.as_str()).find(|token| is_lossy(token))
}

fn is_lossy(token: &str) -> bool {
    let mantissa = token.split(['e', 'E']).next().unwrap_or_default();
    // Numbers so small that a double rounds them, down to zero, and those beyond its range.
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
///
/// It dereferences to the value, and serializes with its numbers as they were written. Serialize it
/// as text: `json!` and `to_value` make a value again, which cannot hold them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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

impl Deref for WrittenValue {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.value
    }
}

impl fmt::Display for WrittenValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl PartialEq<Value> for WrittenValue {
    fn eq(&self, other: &Value) -> bool {
        self.value == *other
    }
}

impl<'de> Deserialize<'de> for WrittenValue {
    /// From JSON text, or from a value, whose numbers are as they are; not within what serde reads
    /// twice (tagged enums, flattened fields).
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(from)?;
        Self::parse(text.get()).map_err(serde::de::Error::custom)
    }
}

impl WrittenValue {
    /// Parses JSON.
    ///
    /// # Errors
    /// A message with line and column, or that there are too many numbers of that kind.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value = serde_json::from_str(&within_range(text)).map_err(|e| words_of(&e))?;
        Ok(Self { value, numbers: WrittenNumbers::changed_in(text)? })
    }

    /// As [`WrittenValue::parse`], with every number as it is written, also where the value spells it so.
    ///
    /// # Errors
    /// As [`WrittenValue::parse`].
    pub fn parse_all(text: &str) -> Result<Self, String> {
        let numbers = WrittenNumbers::collect(text, |_| true)?;
        Ok(Self { numbers, ..Self::parse(text)? })
    }

    /// Puts a member into an object, in place of one of that name and its numbers; does nothing for
    /// any other value.
    pub fn insert(&mut self, key: &str, value: Value) {
        if let Some(members) = self.value.as_object_mut() {
            members.insert(key.to_owned(), value);
            self.numbers.put(&child_pointer("", key), WrittenNumbers::default());
        }
    }

    /// As [`WrittenValue::insert`], for a value that has numbers of its own.
    pub fn insert_written(&mut self, key: &str, member: Self) {
        let Self { value, numbers } = member;
        if self.value.is_object() {
            self.insert(key, value);
            self.numbers.put(&child_pointer("", key), numbers);
        }
    }

    /// The value at a JSON pointer, with its numbers; null if there is none.
    #[must_use]
    pub fn part(&self, pointer: &str) -> Self {
        let value = self.value.pointer(pointer).cloned().unwrap_or_default();
        Self { value, numbers: self.numbers.below(pointer) }
    }
}

impl FromIterator<WrittenValue> for WrittenValue {
    /// An array.
    fn from_iter<I: IntoIterator<Item = Self>>(elements: I) -> Self {
        let mut numbers = WrittenNumbers::default();
        let elements = elements.into_iter().enumerate().map(|(index, element)| {
            numbers.put(&format!("/{index}"), element.numbers);
            element.value
        });
        Self { value: elements.collect(), numbers }
    }
}

impl Serialize for WrittenValue {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.numbers.within(&self.value).serialize(to)
    }
}

/// Numbers as they are written, by the JSON pointers of their places.
#[derive(Clone, Debug, Default)]
pub struct WrittenNumbers(BTreeMap<String, Box<RawValue>>);

/// Where a token stands: in an array, by its index, or in an object, by its key once that was read.
enum TokenPlace<'t> {
    Element(usize),
    Member(Option<&'t str>),
}

/// No numbers.
pub static NO_NUMBERS: WrittenNumbers = WrittenNumbers(BTreeMap::new());

impl PartialEq for WrittenNumbers {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for WrittenNumbers {}

impl WrittenNumbers {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Replaces those at a place and below it with those of the value that is put there.
    pub fn put(&mut self, pointer: &str, numbers: Self) {
        let is_other = |place: &str| {
            let rest = place.strip_prefix(pointer);
            rest.is_none_or(|rest| !(rest.is_empty() || rest.starts_with('/')))
        };
        if self.beginning_with(pointer).next().is_some() {
            self.0.retain(|place, _| is_other(place));
        }
        self.0.extend(numbers.0.into_iter().map(|(place, raw)| (format!("{pointer}{place}"), raw)));
    }

    /// Something that serializes as `value` with these numbers in their places.
    pub const fn within<'a>(&'a self, value: &'a Value) -> ExactJson<'a> {
        self.within_part(value, String::new())
    }

    /// As [`WrittenNumbers::within`], for a part of the value, at this JSON pointer of it.
    pub const fn within_part<'a>(&'a self, part: &'a Value, pointer: String) -> ExactJson<'a> {
        ExactJson { part: JsonPart::Any(part), numbers: self, pointer }
    }

    /// As [`WrittenNumbers::within`], for the members of an object.
    pub const fn within_members<'a>(&'a self, members: &'a Map<String, Value>) -> ExactJson<'a> {
        ExactJson { part: JsonPart::Members(members), numbers: self, pointer: String::new() }
    }

    /// The numbers that are at a place or below it, by their pointers from there.
    #[must_use]
    pub fn below(&self, pointer: &str) -> Self {
        let inner = |place: &str| {
            let rest = place.strip_prefix(pointer)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| rest.to_owned())
        };
        let numbers = self.beginning_with(pointer);
        Self(numbers.filter_map(|(place, raw)| Some((inner(place)?, raw.clone()))).collect())
    }

    /// Those whose places begin with a text.
    fn beginning_with(&self, begin: &str) -> impl Iterator<Item = (&String, &Box<RawValue>)> {
        let later = (Bound::Included(begin), Bound::Unbounded);
        self.0.range::<str, _>(later).take_while(move |(place, _)| place.starts_with(begin))
    }

    /// The number at a place as it is written, if `number` is what parsing made of it.
    pub fn written(&self, pointer: &str, number: &Number) -> Option<&str> {
        let raw = self.0.get(pointer)?.get();
        // Not one that was put in its place since.
        (rounded(raw).as_ref() == Some(number)).then_some(raw)
    }

    /// Those that parsing rounds, without those that it only spells otherwise.
    #[must_use]
    pub fn only_rounded(&self) -> Self {
        let rounded = self.0.iter().filter(|(_, raw)| is_lossy(raw.get()));
        Self(rounded.map(|(place, raw)| (place.clone(), raw.clone())).collect())
    }

    /// The numbers, each with the JSON pointer of its place.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(pointer, raw)| (pointer.as_str(), raw.get()))
    }

    /// The numbers of a valid JSON text whose value parsing changes: integers beyond 64 bits, and
    /// more digits than a double holds.
    ///
    /// # Errors
    /// That there are more than can be kept beside the value.
    pub fn rounded_in(text: &str) -> Result<Self, String> {
        Self::collect(text, is_lossy)
    }

    /// The numbers of a valid JSON text that are written out differently once they are parsed.
    ///
    /// # Errors
    /// That there are more than can be kept beside the value.
    pub fn changed_in(text: &str) -> Result<Self, String> {
        Self::collect(text, is_changed)
    }

    /// Most memory that they may take, in bytes.
    const MAX_NUMBERS_BYTES: usize = 16 << 20;

    fn collect(text: &str, is_wanted: fn(&str) -> bool) -> Result<Self, String> {
        const ENTRY_BYTES: usize = size_of::<(String, Box<RawValue>)>();
        let (mut found, mut room) = (BTreeMap::new(), Self::MAX_NUMBERS_BYTES);
        if has_short_integers_only(text)
            || !number_tokens(text).any(|token| is_wanted(token.as_str()))
        {
            return Ok(Self(found));
        }
        let mut open = Vec::new();
        for token in tokens(text) {
            let token = token.as_str();
            match (token.as_bytes().first(), open.last_mut()) {
                (Some(b'{'), _) => open.push(TokenPlace::Member(None)),
                (Some(b'['), _) => open.push(TokenPlace::Element(0)),
                (Some(b'}' | b']'), _) => _ = open.pop(),
                (Some(b','), Some(TokenPlace::Element(index))) => *index += 1,
                (Some(b','), Some(TokenPlace::Member(key))) => *key = None,
                (Some(b'"'), Some(TokenPlace::Member(key @ None))) => *key = Some(token),
                (Some(b'-' | b'0'..=b'9'), _) if is_wanted(token) => {
                    let pointer = open.iter().fold(String::new(), |above, place| match place {
                        TokenPlace::Element(index) => format!("{above}/{index}"),
                        TokenPlace::Member(key) => {
                            let key = key.and_then(|key| serde_json::from_str::<String>(key).ok());
                            child_pointer(&above, &key.unwrap_or_default())
                        }
                    });
                    room = room
                        .checked_sub(pointer.len() + token.len() + ENTRY_BYTES)
                        .ok_or("it has too many numbers that are not what a double holds")?;
                    if let Ok(raw) = RawValue::from_string(token.to_owned()) {
                        found.insert(pointer, raw);
                    }
                }
                _ => {}
            }
        }
        Ok(Self(found))
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
            JsonPart::Any(Value::Number(number)) => {
                match self.numbers.written(&self.pointer, number) {
                    Some(_) => self.numbers.0.get(&self.pointer).serialize(to),
                    None => number.serialize(to),
                }
            }
            JsonPart::Any(other) => other.serialize(to),
        }
    }
}

/// What parsing makes of a number as it is written.
fn rounded(token: &str) -> Option<Number> {
    serde_json::from_str(&within_range(token)).ok()
}

/// A text whose numbers beyond the range of a double are replaced by the largest one.
pub fn within_range(text: &str) -> Cow<'_, str> {
    if has_short_integers_only(text) {
        return text.into();
    }
    let is_beyond = |token: &Match<'_>| {
        let token = token.as_str();
        token.parse::<f64>().is_ok_and(f64::is_infinite)
            && serde_json::from_str::<&RawValue>(token).is_ok()
    };
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

/// A number, as it is written, in the one form that all spellings of its value share: `1e3` and
/// `1000.0` are both `1e3`.
pub fn exact_form(token: &str) -> String {
    let (mantissa, exponent) = token.split_once(['e', 'E']).unwrap_or((token, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_end_matches('0');
    let (shift, zeros) = (fraction.len() as i64, (digits.len() - significant.len()) as i64);
    let significant = significant.trim_start_matches('0');
    let exponent = exponent.parse::<i64>().ok().and_then(|it| it.checked_add(zeros - shift));
    match exponent {
        _ if significant.is_empty() => "0".to_owned(),
        Some(exponent) => format!("{sign}{significant}e{exponent}"),
        // Nobody writes the value of such an exponent in another way.
        None => token.to_owned(),
    }
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

/// The strings, numbers and punctuation of a JSON text.
fn tokens(text: &str) -> impl Iterator<Item = Match<'_>> {
    static TOKENS: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r#""(?:\\.|[^"\\])*"|[-0-9][-+.eE0-9]*|[{}\[\],]"#).ok());
    TOKENS.iter().flat_map(move |token| token.find_iter(text))
}

/// Whether every number of a JSON text is an integer of at most 15 digits without a leading zero,
/// which parsing keeps as it is written. Most texts are so, and it is seen without their tokens; what
/// looks like another number within a string counts as one, unless the string begins with it.
fn has_short_integers_only(text: &str) -> bool {
    const MAX_INTEGER_DIGITS: usize = 15;
    let text = text.as_bytes();
    let mut at = 0;
    while let Some(digit) = text[at..].iter().position(u8::is_ascii_digit) {
        let begin = at + digit;
        let before = begin.checked_sub(1).map(|before| text[before]);
        // Behind a quotation mark is no number but a string, such as the version of JSON-RPC.
        if before == Some(b'"') {
            let is_of_number = |byte: &&u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E');
            at = begin + text[begin..].iter().take_while(is_of_number).count();
            continue;
        }
        let digits = text[begin..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let is_integer =
            before != Some(b'.') && !matches!(text.get(begin + digits), Some(b'.' | b'e' | b'E'));
        let has_leading_zero = text[begin] == b'0' && (digits > 1 || before == Some(b'-'));
        if !is_integer || has_leading_zero || digits > MAX_INTEGER_DIGITS {
            return false;
        }
        at = begin + digits;
    }
    true
}

/// The numbers of a JSON text.
fn number_tokens(text: &str) -> impl Iterator<Item = Match<'_>> {
    tokens(text)
        .filter(|token| token.as_str().starts_with(|c: char| c == '-' || c.is_ascii_digit()))
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
    fn what_is_seen_without_tokens_is_what_their_numbers_say() {
        let texts = [
            "",
            "0",
            "[-1,7]",
            "{\"a\":999999999999999}",
            "[0, 10, -20]",
            "\"no number\"",
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"at\":[\"1e400\",\"12.5 s\"]}",
            "{\"jsonrpc\":\"2.0\",\"id\":1.0}",
            "\"no 1.5\"",
            "[1000000000000000]",
            "1e3",
            "1E400",
            "-0",
            "1.50",
            "[1.0]",
            "1e-400",
            "0.1",
            "-0.0",
            "18446744073709551616",
            "{\"at\":\"2026-11-05\",\"n\":3}",
            "[123456789012345678]",
        ];
        for text in texts {
            if has_short_integers_only(text) {
                let odd = |token: Match<'_>| is_lossy(token.as_str()) || is_changed(token.as_str());
                assert!(!number_tokens(text).any(odd), "{text}");
            }
        }
        let plain: Vec<_> =
            texts.into_iter().filter(|text| has_short_integers_only(text)).collect();
        assert_eq!(plain, texts[..7]);
    }

    #[test]
    fn every_spelling_of_a_number_has_one_exact_form() {
        for spellings in [
            &["1e3", "1000", "1000.0", "0.1E+4", "10e2"][..],
            &["-123456789012345678901234567890", "-1.2345678901234567890123456789e29"],
            &["0", "-0", "0.000", "0e999999999999999999999"],
            &["1e400", "10e399"],
            &["1e-400", "0.001e-397"],
        ] {
            let forms: std::collections::BTreeSet<_> =
                spellings.iter().map(|it| exact_form(it)).collect();
            assert_eq!(forms.len(), 1, "{forms:?}");
        }
        assert_ne!(exact_form("1e400"), exact_form("1e401"));
        assert_ne!(exact_form("1"), exact_form("-1"));
        assert_ne!(exact_form("1e99999999999999999999"), exact_form("1e99999999999999999998"));
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
    fn numbers_are_found_in_their_places() {
        let text = r#"{ "a":[1, {"b,]}":1e999, "c":[[],[2, -1e-400]]}], "d~/":"1e999", "e":"#;
        let text = format!("{text}123456789012345678901234567890}}");
        let numbers = WrittenNumbers::rounded_in(&text).unwrap();
        let found: Vec<_> = numbers.iter().collect();
        let wanted = [
            ("/a/1/b,]}", "1e999"),
            ("/a/1/c/1/1", "-1e-400"),
            ("/e", "123456789012345678901234567890"),
        ];
        assert_eq!(found, wanted);
        let below: Vec<_> = numbers.below("/a/1").0.into_keys().collect();
        assert_eq!(below, ["/b,]}", "/c/1/1"]);
        assert!(
            WrittenNumbers::rounded_in("[1e3, 1.50, -0, 18446744073709551615]").unwrap().is_empty()
        );
        let deep =
            format!("{}{}1e999{}", "[".repeat(400), "1e999,".repeat(40_000), "]".repeat(400));
        assert!(WrittenNumbers::rounded_in(&deep).is_err());
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
