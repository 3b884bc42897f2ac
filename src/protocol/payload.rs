//! What a server answered: a JSON value; for a very large answer, its beginning as a value beside
//! the whole text. Pure; must not know the protocol.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::json::{self, ParseBudget};
use super::message::tokens;
use base::Redactor;
use base::text::json::{ExactJson, WrittenNumbers, WrittenValue};

/// A JSON value that came from a server. Cheap to clone; all clones share it.
///
/// It dereferences to a [`Value`]. When the answer needs more memory than a message may take
/// (`limits.nodes`), that value is only its beginning: [`Payload::cut`] says where it ends, and
/// [`Payload::whole`], serializing and displaying give all of it. Numbers that a value cannot hold
/// (integers beyond 64 bits, more digits than a double has) are rounded in the value; serializing,
/// displaying and [`Payload::into_written`] give them as the server wrote them.
#[derive(Clone, Default, Deserialize)]
#[serde(from = "WrittenValue")]
pub struct Payload(Arc<RawAnswer>);

#[derive(Default)]
struct RawAnswer {
    value: Value,
    /// Its numbers that the value cannot hold.
    numbers: WrittenNumbers,
    large: Option<Large>,
}

struct Large {
    text: Box<RawValue>,
    cut: Cut,
}

/// Where the beginning of a large value ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// JSON pointers (RFC 6901) of the arrays and objects with missing children, innermost first.
    pub places: Vec<String>,
    /// The one with the most missing children.
    pub most: String,
    /// Children of that one that are included.
    pub taken: usize,
    /// Children it has in all.
    pub of: usize,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.most.is_empty() { "the result" } else { &self.most };
        write!(f, "the first {} of {} elements of {place}", self.taken, self.of)
    }
}

impl Cut {
    /// The part of it within the structured content, with pointers relative to that.
    pub fn of_structured(&self) -> Option<Self> {
        let below = |place: &String| Some(place.strip_prefix("/structuredContent")?.to_owned());
        let places: Vec<String> = self.places.iter().filter_map(below).collect();
        let most = below(&self.most).or_else(|| places.last().cloned())?;
        Some(Self { places, most, ..*self })
    }
}

impl Payload {
    /// The beginning of `text`, as a value of at most `most` nodes. `None` when the text is not
    /// valid JSON, or nested deeper than `depth` levels.
    pub fn large(text: &RawValue, depth: usize, most: usize) -> Option<Self> {
        let (value, cut) = json::beginning(text.get(), depth, most)?;
        let large = cut.map(|cut| Large { text: text.to_owned(), cut });
        Some(Self(Arc::new(RawAnswer { value, large, ..RawAnswer::default() })))
    }

    /// The result of a message, with the numbers as they are written in the text of the message.
    ///
    /// # Errors
    /// That there are too many such numbers.
    pub(super) fn exact(value: Value, message: &[u8]) -> Result<Self, String> {
        let Ok(MessageResult { result }) = serde_json::from_slice(message) else {
            return Ok(value.into());
        };
        let numbers = numbers_of(result.get())?;
        Ok(Self(Arc::new(RawAnswer { value, numbers, large: None })))
    }

    /// Where the value ends, when it is only the beginning of the answer.
    pub fn cut(&self) -> Option<&Cut> {
        self.0.large.as_ref().map(|large| &large.cut)
    }

    /// The whole text, when the value is only the beginning of the answer.
    pub fn whole(&self) -> Option<&str> {
        self.0.large.as_ref().map(|large| large.text.get())
    }

    /// The numbers of the value that are written otherwise than it spells them.
    pub fn numbers(&self) -> &WrittenNumbers {
        &self.0.numbers
    }

    /// The value at a JSON pointer, which serializes with its numbers as the server wrote them.
    pub fn part(&self, pointer: &str) -> Option<ExactJson<'_>> {
        let value = self.0.value.pointer(pointer)?;
        Some(self.0.numbers.within_part(value, pointer.to_owned()))
    }

    /// Whether both share the same answer, not only equal content. Constant time.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The complete value; for a large answer this costs many times its text.
    pub fn into_value(self) -> Value {
        if let Some(text) = self.whole() {
            let all =
                ParseBudget { depth: ParseBudget::MAX_DEPTH, nodes: usize::MAX, bytes: usize::MAX };
            return json::parse(text.as_bytes(), all)
                .map(|parsed| parsed.value)
                .unwrap_or_default();
        }
        Arc::try_unwrap(self.0).map_or_else(|shared| shared.value.clone(), |own| own.value)
    }

    /// The complete value, with its numbers as the server wrote them; for a large answer this costs
    /// many times its text.
    pub fn into_written(self) -> WrittenValue {
        let numbers = match self.whole() {
            // More of them than can be kept: the value alone.
            Some(text) => numbers_of(text).unwrap_or_default(),
            None => self.0.numbers.clone(),
        };
        WrittenValue { value: self.into_value(), numbers }
    }

    /// The same with every known secret in its strings and numbers masked; `None` when it holds none.
    pub fn redacted(&self, masks: &Redactor) -> Option<Self> {
        let Some(large) = &self.0.large else {
            let value = masks.redact_written(&self.0.value, &self.0.numbers)?;
            let numbers = self.0.numbers.clone();
            return Some(Self(Arc::new(RawAnswer { value, numbers, large: None })));
        };
        let text = masked(large.text.get(), masks)?;
        let text = RawValue::from_string(text).unwrap_or_default();
        let value = masks.redact_json(&self.0.value).unwrap_or_else(|| self.0.value.clone());
        Some(Self(Arc::new(RawAnswer {
            value,
            numbers: WrittenNumbers::default(),
            large: Some(Large { text, cut: large.cut.clone() }),
        })))
    }
}

/// The numbers of an answer that a value cannot hold, and in one of a usual size those that it spells
/// otherwise.
///
/// # Errors
/// That there are too many.
fn numbers_of(text: &str) -> Result<WrittenNumbers, String> {
    /// Larger answers are tables, whose numbers are many.
    const MAX_SPELLED_BYTES: usize = 1 << 20;
    if text.len() <= MAX_SPELLED_BYTES {
        return WrittenNumbers::changed_in(text).or_else(|_| WrittenNumbers::rounded_in(text));
    }
    WrittenNumbers::rounded_in(text)
}

/// JSON text with every secret in its strings and numbers masked; `None` when there is none.
fn masked(text: &str, masks: &Redactor) -> Option<String> {
    if masks.is_empty() {
        return None;
    }
    let (mut out, mut copied, mut seen) = (String::new(), 0, 0);
    for token in tokens(text.as_bytes()).chain(std::iter::once(text.len()..text.len())) {
        // The numbers in front of it.
        if let Cow::Owned(new) = masks.redact_json_text(&text[seen..token.start]) {
            out.push_str(&text[copied..seen]);
            out.push_str(&new);
            copied = token.start;
        }
        seen = token.end;
        let string: String = serde_json::from_str(&text[token.clone()]).unwrap_or_default();
        if let Cow::Owned(new) = masks.redact(&string)
            && new != string
        {
            out.push_str(&text[copied..token.start]);
            out.push_str(&Value::String(new).to_string());
            copied = token.end;
        }
    }
    (copied > 0).then(|| out + &text[copied..])
}

impl Deref for Payload {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.value
    }
}

impl AsRef<Value> for Payload {
    fn as_ref(&self) -> &Value {
        self
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Self(Arc::new(RawAnswer { value, ..RawAnswer::default() }))
    }
}

impl From<WrittenValue> for Payload {
    fn from(written: WrittenValue) -> Self {
        let WrittenValue { value, numbers } = written;
        Self(Arc::new(RawAnswer { value, numbers, large: None }))
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || (self.whole() == other.whole() && **self == **other)
    }
}

impl fmt::Debug for Payload {
    /// Keeps a large one from being printed into a log by accident.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.whole() {
            None => self.0.value.fmt(f),
            Some(text) => write!(f, "JSON of {} bytes", text.len()),
        }
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.whole() {
            None if self.0.numbers.is_empty() => self.0.value.fmt(f),
            None => f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?),
            Some(text) => f.write_str(text),
        }
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.large {
            None => self.0.numbers.within(&self.0.value).serialize(serializer),
            Some(large) => large.text.serialize(serializer),
        }
    }
}

// Large answers: too large for a message in memory, but read piece by piece by a user or a program.
// Their text is kept whole (bounded by `limits.lineBytes`) beside its beginning as a value.

/// Most values in the beginning.
const MAX_SHOWN_VALUES: usize = 100_000;

/// A plain answer; anything unusual is reported as for any other message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    id: i64,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// The result of an answer, whatever else is in it.
#[derive(Deserialize)]
struct MessageResult<'a> {
    #[serde(borrow)]
    result: &'a RawValue,
}

/// The id and the result of a line that is a plain answer.
pub(super) fn answer(line: &[u8], budget: ParseBudget) -> Option<(i64, Payload)> {
    let Envelope { jsonrpc, id, result } = serde_json::from_slice(line).ok()?;
    let plain = jsonrpc == "2.0" && result.get().starts_with('{');
    // The message around the result counts as a level.
    let depth = budget.depth.min(ParseBudget::MAX_DEPTH).checked_sub(1)?;
    let payload =
        Payload::large(result, depth, MAX_SHOWN_VALUES.min(budget.nodes)).filter(|_| plain)?;
    Some((id, payload))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use base::secret::Secret;

    #[test]
    fn a_secret_is_masked_in_the_beginning_and_in_the_text() {
        let items: Vec<Value> = (0..9).map(|i| json!({"k\"": format!("pass\nword{i}")})).collect();
        let text = serde_json::value::to_raw_value(&json!({"content": items})).expect("JSON");
        let payload = Payload::large(&text, 9, 6).expect("valid");
        let cut = payload.cut().expect("too many");
        assert_eq!((cut.most.as_str(), cut.of), ("/content", 9));
        assert_eq!(payload.clone().into_value(), json!({"content": items}));
        let masks = Redactor::new([Secret::from("pass\nword0"), Secret::from("pass\nword8")]);
        let masked = payload.redacted(&masks).expect("holds some");
        let (beginning, whole) = (masked.as_ref().to_string(), masked.to_string());
        assert!(!beginning.contains("word0") && beginning.contains("word1"), "{beginning}");
        assert!(!whole.contains("word0") && !whole.contains("word8"), "{whole}");
        assert!(serde_json::from_str::<Value>(&whole).is_ok() && whole.contains("word7"));
        assert!(payload.redacted(&Redactor::default()).is_none());
    }
    #[test]
    fn a_secret_that_is_a_number_is_masked_however_it_is_written() {
        let masks = Redactor::new([
            Secret::from("8492749201"),
            Secret::from("123456789012345678901234567890"),
            Secret::from("77.50000"),
        ]);
        let text = r#"{"a": 8492749201, "b":[-18492749201,1],"c":8492749201.0,
            "d":123456789012345678901234567890,"e":77.50000,"f":"8492749201","8492749201":77.5}"#;
        let want = json!({"a": "***", "b": ["***", 1], "c": "***", "d": "***", "e": "***",
            "f": "***", "***": 77.5});
        let written = Payload::from(WrittenValue::parse(text).expect("JSON"));
        let raw = RawValue::from_string(text.to_owned()).expect("JSON");
        let large = Payload::large(&raw, 9, 2).expect("valid");
        assert!(large.cut().is_some());
        for payload in [written, large] {
            let masked = payload.redacted(&masks).expect("holds some").to_string();
            let value = serde_json::from_str::<Value>(&masked).expect("still JSON");
            assert_eq!(value, want, "{masked}");
        }
    }
}
