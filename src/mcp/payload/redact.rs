//! Secrets out of an answer, wherever it is kept.

use std::borrow::Cow;

use serde_json::Value;

use super::{Bounds, Document, Form, Payload, scan};
use crate::base::secret::Redactor;

impl Payload {
    /// The same with every known secret in its strings masked; `None` when it holds none.
    pub fn redacted(&self, masks: &Redactor) -> Option<Self> {
        let document = match &*self.0 {
            Form::Tree(value) => return masks.redact_json(value).map(Self::from),
            Form::Text { document, .. } => document,
        };
        let text = masked(document.as_str(), masks)?;
        let bounds = Bounds { depth: usize::MAX, nodes: usize::MAX };
        Some(match Document::new(&text, bounds) {
            Some(document) => Self::text(document),
            // Two keys that were secrets are one now: a tree keeps the last of them.
            None => super::node::parsed(&text).into(),
        })
    }
}

/// JSON text with every secret in its strings masked; `None` when there is none.
fn masked(text: &str, masks: &Redactor) -> Option<String> {
    if masks.is_empty() {
        return None;
    }
    // Without escapes a string stands in the text as it is, so one search tells of all of these.
    let plainly = matches!(masks.redact(text), Cow::Owned(_));
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'"', text.as_bytes().get(at..)?) {
        let start = at + found;
        at = scan::end(text.as_bytes(), start);
        let quoted = text.get(start..at)?;
        let escaped = memchr::memchr(b'\\', quoted.as_bytes()).is_some();
        if !plainly && !escaped {
            continue;
        }
        let string: Cow<'_, str> = if escaped {
            Cow::Owned(serde_json::from_str(quoted).unwrap_or_default())
        } else {
            Cow::Borrowed(quoted.trim_matches('"'))
        };
        if let Cow::Owned(new) = masks.redact(&string)
            && new != *string
        {
            out.push_str(&text[copied..start]);
            out.push_str(&Value::String(new).to_string());
            copied = at;
        }
    }
    (copied > 0).then(|| out + &text[copied..])
}
