//! What a server answered: the JSON value, and of an answer that is too large for one its beginning
//! as a value beside the whole text. Pure; must not know the protocol.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::json::{self, ParseBudget};
use super::wire::message::tokens;
use crate::base::Redactor;

/// A JSON value that came from a server. Cheap to clone; all clones share it.
///
/// It reads as a [`Value`]. When the answer holds more than a message may take in memory
/// (`limits.nodes`), that value is its beginning: [`Payload::cut`] says where it ends, and
/// [`Payload::whole`], serializing and displaying give all of it.
#[derive(Clone, Default, Deserialize)]
#[serde(from = "Value")]
pub struct Payload(Arc<RawAnswer>);

#[derive(Default)]
struct RawAnswer {
    value: Value,
    large: Option<Large>,
}

struct Large {
    text: Box<RawValue>,
    cut: Cut,
}

/// Where the beginning of a large value ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// JSON pointers (RFC 6901) of the lists and objects of which children are missing, innermost
    /// first.
    pub places: Vec<String>,
    /// The one of which most are missing.
    pub most: String,
    /// Children of that one that are there.
    pub taken: usize,
    /// Children it has.
    pub of: usize,
}

impl fmt::Display for Cut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.most.is_empty() { "the result" } else { &self.most };
        write!(f, "the first {} of {} elements of {place}", self.taken, self.of)
    }
}

impl Cut {
    /// What of it lies in the structured content, by pointers from there.
    pub fn of_structured(&self) -> Option<Self> {
        let below = |place: &String| Some(place.strip_prefix("/structuredContent")?.to_owned());
        let places: Vec<String> = self.places.iter().filter_map(below).collect();
        let most = below(&self.most).or_else(|| places.last().cloned())?;
        Some(Self { places, most, ..*self })
    }
}

impl Payload {
    /// The beginning of `text` as a value of at most `most` values. `None` when the text is not one
    /// JSON value, or nested deeper than `depth` levels.
    pub fn large(text: &RawValue, depth: usize, most: usize) -> Option<Self> {
        let (value, cut) = json::beginning(text.get(), depth, most)?;
        let large = cut.map(|cut| Large { text: text.to_owned(), cut });
        Some(Self(Arc::new(RawAnswer { value, large })))
    }

    /// Where the value ends, when it is only the beginning of the answer.
    pub fn cut(&self) -> Option<&Cut> {
        self.0.large.as_ref().map(|large| &large.cut)
    }

    /// The whole text of an answer of which the value is only the beginning.
    pub fn whole(&self) -> Option<&str> {
        self.0.large.as_ref().map(|large| large.text.get())
    }

    /// Whether both are the same answer, not only equal ones. Costs nothing.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// As a value of its own, whole: of a large answer that costs many times its text.
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

    /// The same with every known secret in its strings masked; `None` when it holds none.
    pub fn redacted(&self, masks: &Redactor) -> Option<Self> {
        let Some(large) = &self.0.large else {
            return masks.redact_json(&self.0.value).map(Self::from);
        };
        let text = masked(large.text.get(), masks)?;
        let text = RawValue::from_string(text).unwrap_or_default();
        let value = masks.redact_json(&self.0.value).unwrap_or_else(|| self.0.value.clone());
        Some(Self(Arc::new(RawAnswer {
            value,
            large: Some(Large { text, cut: large.cut.clone() }),
        })))
    }
}

/// JSON text with every secret in its strings masked; `None` when there is none.
fn masked(text: &str, masks: &Redactor) -> Option<String> {
    if masks.is_empty() {
        return None;
    }
    let (mut out, mut copied) = (String::new(), 0);
    for token in tokens(text.as_bytes()) {
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
        Self(Arc::new(RawAnswer { value, large: None }))
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || (self.whole() == other.whole() && **self == **other)
    }
}

impl fmt::Debug for Payload {
    /// A large one is not printed into a log by accident.
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
            None => self.0.value.fmt(f),
            Some(text) => f.write_str(text),
        }
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0.large {
            None => self.0.value.serialize(serializer),
            Some(large) => large.text.serialize(serializer),
        }
    }
}

// Large answers: more in memory than a message may take, but read by a person or a program piece by
// piece. Their text is kept whole (`limits.lineBytes` bounds it) beside its beginning as a value.

/// Values that the beginning has.
const SHOWN: usize = 100_000;

/// An answer and nothing else; anything odd about it is reported as for any other message.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    jsonrpc: &'a str,
    id: i64,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// The id and the result of a line that is a plain answer.
pub(super) fn answer(line: &[u8], budget: ParseBudget) -> Option<(i64, Payload)> {
    let Envelope { jsonrpc, id, result } = serde_json::from_slice(line).ok()?;
    let plain = jsonrpc == "2.0" && result.get().starts_with('{');
    // The message around the result is a level.
    let depth = budget.depth.min(ParseBudget::MAX_DEPTH).checked_sub(1)?;
    let payload = Payload::large(result, depth, SHOWN.min(budget.nodes)).filter(|_| plain)?;
    Some((id, payload))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::base::secret::Secret;

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
}
