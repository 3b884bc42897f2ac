//! Text from outside, made safe once where it enters (invariant 8).
//!
//! Owns the sanitiser. Nothing that comes out of it can move the cursor, colour, ring, link, title,
//! paste or hide; what was there is shown by a visible marker instead of vanishing.

pub mod json;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Text that is safe to draw: no control, bidi, tag or zero-width characters are left in it.
///
/// Made by [`SafeText::line`] (one line; line breaks become `⏎`) or [`SafeText::block`] (keeps
/// `\n`, expands tabs). Sanitising is idempotent. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SafeText(Arc<str>);

impl SafeText {
    /// Sanitises `raw` to a single line.
    pub fn line(raw: &str) -> Self {
        Self(sanitise(raw, false).into())
    }

    /// Sanitises `raw`, keeping its line breaks.
    pub fn block(raw: &str) -> Self {
        Self(sanitise(raw, true).into())
    }

    /// The safe text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn sanitise(raw: &str, keep_lines: bool) -> String {
    let mut out = String::with_capacity(raw.len());
    for c in raw.chars() {
        match c {
            '\n' if keep_lines => out.push('\n'),
            '\n' => out.push('⏎'),
            '\t' => out.push_str("    "),
            '\u{0}'..='\u{1f}' => out.push(char::from_u32(0x2400 + c as u32).unwrap_or('␦')),
            '\u{7f}' => out.push('␡'),
            c if c.is_control() => out.push('␦'),
            c => out.push(c),
        }
    }
    out
}

impl Default for SafeText {
    fn default() -> Self {
        Self("".into())
    }
}

impl std::ops::Deref for SafeText {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for SafeText {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SafeText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SafeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|s| Self::block(&s))
    }
}
