//! What makes a changed definition worth a look: a new address, words that instruct, hidden
//! characters, a hint that flipped, a schema that accepts more. Pure; the review of definitions and
//! the rules about the lock file mean the same by it.

use std::fmt;

use serde_json::{Map, Value};

use crate::base::text::SafeText;
use crate::base::text::inspect::{hidden, instructions, urls};
use crate::mcp::capabilities::FieldChange;

/// One reason to look at a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Risk {
    /// The new text holds characters that nobody sees, which the old one did not.
    HiddenCharacters,
    /// The new text instructs a model: what it does, and its words.
    Instruction(&'static str, SafeText),
    /// The new text names this address.
    NewUrl(SafeText),
    /// A hint of `annotations` says something else.
    HintFlipped,
    /// The input schema accepts more; how.
    SchemaLoosened(SafeText),
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HiddenCharacters => f.write_str("the new text hides characters"),
            Self::Instruction(why, words) => write!(f, "the new text {why}: “{words}”"),
            Self::NewUrl(url) => write!(f, "new address {url}"),
            Self::HintFlipped => f.write_str("a hint says something else"),
            Self::SchemaLoosened(how) => write!(f, "{how}"),
        }
    }
}

impl FieldChange {
    /// What makes it risky, every reason once.
    pub fn risks(&self) -> Vec<Risk> {
        let mut found = Vec::new();
        let (old, new) = (texts(self.before.as_ref()), texts(self.after.as_ref()));
        let (known, fresh) = (hidden(&old), hidden(&new));
        if !fresh.control.is_subset(&known.control)
            || !fresh.invisible.is_subset(&known.invisible)
            || fresh.buried && !known.buried
        {
            found.push(Risk::HiddenCharacters);
        }
        let known = instructions(&old);
        for (words, why) in instructions(&new) {
            if !known.iter().any(|(_, k)| *k == why) {
                found.push(Risk::Instruction(why, SafeText::cut(&words, 80)));
            }
        }
        let fresh = urls(&new);
        found.extend(fresh.difference(&urls(&old)).map(|u| Risk::NewUrl(SafeText::cut(u, 80))));
        if self.pointer.starts_with("/annotations/") && self.pointer.ends_with("Hint") {
            found.push(Risk::HintFlipped);
        } else if let Some(how) = self.loosened() {
            found.push(Risk::SchemaLoosened(SafeText::line(&how)));
        }
        found
    }

    /// How it makes an input schema accept more; `None` when it does not.
    fn loosened(&self) -> Option<String> {
        let within = self.pointer.strip_prefix("/inputSchema/")?;
        let mut parts = within.rsplit('/');
        let keyword = parts.next()?;
        // `properties/required` is a parameter that happens to be called so.
        if matches!(
            parts.next(),
            Some("properties" | "$defs" | "definitions" | "patternProperties")
        ) {
            return None;
        }
        if !NARROWING.contains(&keyword) {
            return None;
        }
        match (&self.before, &self.after) {
            (Some(Value::Bool(true)) | None, _) if keyword == "additionalProperties" => None,
            (Some(_), None) => Some(format!("`{keyword}` no longer applies")),
            (Some(old), Some(new)) => wider(keyword, old, new),
            (None, _) => None,
        }
    }
}

/// Every string in a value, joined; what a reader of the definition reads.
fn texts(value: Option<&Value>) -> String {
    fn collect(value: &Value, depth: usize, out: &mut String) {
        match value {
            Value::String(text) => {
                out.push_str(text);
                out.push('\n');
            }
            Value::Array(items) if depth < 128 => {
                for item in items {
                    collect(item, depth + 1, out);
                }
            }
            Value::Object(map) if depth < 128 => {
                for (key, value) in map {
                    out.push_str(key);
                    out.push('\n');
                    collect(value, depth + 1, out);
                }
            }
            _ => {}
        }
    }
    let mut out = String::new();
    if let Some(value) = value {
        collect(value, 0, &mut out);
    }
    out
}

/// Keywords whose presence narrows what a schema accepts.
const NARROWING: [&str; 22] = [
    "required",
    "enum",
    "const",
    "type",
    "pattern",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "additionalProperties",
    "propertyNames",
    "not",
    "allOf",
];

fn wider(keyword: &str, old: &Value, new: &Value) -> Option<String> {
    let list = |value: &Value| match value {
        Value::Array(items) => items.clone(),
        one => vec![one.clone()],
    };
    let missing = || list(old).into_iter().find(|item| !list(new).contains(item));
    let gained = || list(new).into_iter().find(|item| !list(old).contains(item));
    match keyword {
        "required" => missing()
            .map(|name| format!("{} is no longer required", SafeText::cut(&name.to_string(), 120))),
        "enum" | "type" => gained()
            .map(|item| format!("{} is accepted now", SafeText::cut(&item.to_string(), 120))),
        "minLength" | "minimum" | "exclusiveMinimum" | "minItems" | "minProperties" => {
            (new.as_f64()? < old.as_f64()?).then(|| "the lower limit fell".to_owned())
        }
        "maxLength" | "maximum" | "exclusiveMaximum" | "maxItems" | "maxProperties" => {
            (new.as_f64()? > old.as_f64()?).then(|| "the upper limit rose".to_owned())
        }
        "uniqueItems" => (new == &Value::Bool(false)).then(|| "items may repeat now".to_owned()),
        "additionalProperties" => {
            let free =
                |v: &Value| v == &Value::Bool(true) || v.as_object().is_some_and(Map::is_empty);
            let open = old == &Value::Bool(false) || free(new);
            open.then(|| "extra properties are accepted now".to_owned())
        }
        _ => None,
    }
}
