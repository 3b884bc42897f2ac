//! Secrets as a type, and the redactor that keeps their values out of text.
//!
//! Owns the rule "names are shown, values are not" (requirement C9). Must not log anything.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use aho_corasick::packed::Searcher;
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use parking_lot::RwLock;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

mod spelling;

/// What a secret prints as, everywhere.
pub const MASK: &str = "***";

/// A value that must not be shown: an environment value, a header, an answered input, a token.
///
/// `Debug`, `Display` and `Serialize` all give [`MASK`]; only [`Secret::expose`] gives the value.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a value.
    pub fn new(value: impl Into<Arc<str>>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that must hand it to a process or a header.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Secret {
    fn from(value: &str) -> Self {
        Self::new(value)
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self::new(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

/// Replaces known secret values in text by [`MASK`], in every spelling they are likely to appear in.
///
/// Looked for: the value; as JSON writes it (also inside a string of a string); percent-encoded;
/// base64 in both alphabets and at any alignment, so also inside `Basic` credentials; the token of
/// `Bearer TOKEN`; the password inside a URL or a `Basic` value; each line of a value of several.
///
/// Cheap to clone; what one clone [learns](Self::learn), all know. Values shorter than
/// [`Redactor::MIN_LEN`] bytes are not searched for: masking every `1` or `true` would destroy the
/// text without protecting anything.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Arc<Search>>>);

#[derive(Default)]
struct Search {
    values: Vec<Secret>,
    all: Option<AhoCorasick>,
    /// Says quickly that there is nothing, which is so for nearly every text. There is none for very
    /// many values.
    glance: Option<Searcher>,
    longest: usize,
}

impl Search {
    fn new(values: Vec<Secret>) -> Self {
        let mut patterns = spelling::Patterns::default();
        for value in &values {
            patterns.add(value.expose());
        }
        let patterns = patterns.into_sorted();
        let longest = patterns.iter().map(String::len).max().unwrap_or(0);
        if patterns.is_empty() {
            return Self { values, ..Self::default() };
        }
        // Building fails only beyond 2^31 states, gigabytes of secrets.
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let all = AhoCorasick::builder().kind(kind).build(&patterns).ok();
        // For a few dozen spellings this looks at many bytes at once.
        let glance = Searcher::new(&patterns).filter(|glance| glance.minimum_len() > 0);
        Self { values, all, glance, longest }
    }
}

impl Redactor {
    /// Shortest value, in bytes, that is searched for.
    pub const MIN_LEN: usize = 6;
    /// Most values that are known; beyond them the oldest are forgotten.
    const MOST: usize = 4096;

    /// A redactor for `values`.
    pub fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let out = Self::default();
        out.learn(values);
        out
    }

    /// Looks for these values too from now on.
    pub fn learn(&self, values: impl IntoIterator<Item = Secret>) {
        let mut now = self.0.write();
        let mut all = now.values.clone();
        for value in values {
            if !all.contains(&value) {
                all.push(value);
            }
        }
        if all.len() > now.values.len() {
            all.drain(..all.len().saturating_sub(Self::MOST));
            *now = Arc::new(Search::new(all));
        }
    }

    /// The values it looks for.
    pub fn values(&self) -> Vec<Secret> {
        self.0.read().values.clone()
    }

    /// Whether there is nothing to mask.
    pub fn is_empty(&self) -> bool {
        self.0.read().all.is_none()
    }

    /// Length in bytes of the longest spelling: text must not be cut closer than this to a place
    /// where one may begin, before it is redacted.
    pub fn longest(&self) -> usize {
        self.0.read().longest
    }

    /// `value` with every known value in its texts and keys masked; `None` when nothing was found.
    pub fn redact_json(&self, value: &Value) -> Option<Value> {
        let text = |text: &str| match self.redact(text) {
            Cow::Owned(masked) if masked != text => Some(masked),
            _ => None,
        };
        match value {
            Value::String(string) => text(string).map(Value::String),
            Value::Array(items) => {
                let masked: Vec<_> = items.iter().map(|item| self.redact_json(item)).collect();
                masked.iter().any(Option::is_some).then(|| {
                    let pairs = masked.into_iter().zip(items);
                    pairs.map(|(new, old)| new.unwrap_or_else(|| old.clone())).collect()
                })
            }
            Value::Object(map) => {
                let masked: Vec<_> =
                    map.iter().map(|(key, item)| (text(key), self.redact_json(item))).collect();
                masked.iter().any(|(key, item)| key.is_some() || item.is_some()).then(|| {
                    let pairs = masked.into_iter().zip(map).map(|((key, item), old)| {
                        let key = key.unwrap_or_else(|| old.0.clone());
                        (key, item.unwrap_or_else(|| old.1.clone()))
                    });
                    Value::Object(pairs.collect())
                })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    /// `text` with every known value masked; borrowed when nothing was found.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let known = Arc::clone(&self.0.read());
        let Some(search) = &known.all else { return Cow::Borrowed(text) };
        if known.glance.as_ref().is_some_and(|glance| glance.find(text).is_none()) {
            return Cow::Borrowed(text);
        }
        let mut out = String::new();
        let mut copied = 0;
        // Overlapping matches come ordered by their end. Joined, they leave no rest of a value that
        // overlaps another.
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for found in search.find_overlapping_iter(text) {
            let mut span = (found.start(), found.end());
            while let Some(last) = spans.last().copied().filter(|last| last.1 > span.0) {
                span.0 = span.0.min(last.0);
                spans.pop();
            }
            spans.push(span);
        }
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        for (start, end) in spans {
            out.push_str(&text[copied..start]);
            out.push_str(MASK);
            copied = end;
        }
        out.push_str(&text[copied..]);
        Cow::Owned(out)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let spellings = self.0.read().all.as_ref().map_or(0, AhoCorasick::patterns_len);
        f.debug_struct("Redactor").field("spellings", &spellings).finish_non_exhaustive()
    }
}
