//! Secrets as a type, and the redactor that keeps their values out of text.
//!
//! Owns the rule "names are shown, values are not" (requirement C9). Must not log anything.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

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

/// Replaces known secret values in text by [`MASK`].
///
/// Cheap to clone. Values shorter than [`Redactor::MIN_LEN`] bytes are not searched for: masking
/// every `1` or `true` would destroy the text without protecting anything.
#[derive(Clone, Debug, Default)]
pub struct Redactor {
    values: Arc<[Secret]>,
}

impl Redactor {
    /// Shortest value, in bytes, that is searched for.
    pub const MIN_LEN: usize = 6;

    /// A redactor for `values`, longest first so that a value inside another cannot leave a rest.
    pub fn new(values: impl IntoIterator<Item = Secret>) -> Self {
        let mut values: Vec<Secret> =
            values.into_iter().filter(|v| v.expose().len() >= Self::MIN_LEN).collect();
        values.sort_by_key(|v| std::cmp::Reverse(v.expose().len()));
        values.dedup();
        Self { values: values.into() }
    }

    /// Whether there is anything to mask.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Length in bytes of the longest value: text must not be cut closer than this to a place where
    /// one may begin, before it is redacted.
    pub fn longest(&self) -> usize {
        self.values.first().map_or(0, |value| value.expose().len())
    }

    /// `text` with every known value masked; borrowed when nothing was found.
    pub fn redact<'a>(&self, text: &'a str) -> std::borrow::Cow<'a, str> {
        let mut out = std::borrow::Cow::Borrowed(text);
        for value in self.values.iter() {
            if out.contains(value.expose()) {
                out = std::borrow::Cow::Owned(out.replace(value.expose(), MASK));
            }
        }
        out
    }
}
