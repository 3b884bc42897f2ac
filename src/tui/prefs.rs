//! What is remembered of a project between runs: pane, filters, sizes, theme. Plain data and its
//! text; reading and writing files is an effect.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::LogLevel;

/// Preferences of one project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Prefs {
    /// Pane shown last, by its name.
    pub pane: Option<String>,
    /// Server everything was narrowed to.
    pub scope: Option<String>,
    /// Theme.
    pub theme: Option<String>,
    /// Filter text by pane.
    pub filters: BTreeMap<String, String>,
    /// Saved traffic filters, newest last.
    pub saved_filters: Vec<SavedFilter>,
    /// Whether the server list is shown; `None` leaves it to the width.
    pub server_list: Option<bool>,
    /// Whether the detail is shown beside the list.
    pub detail: Option<bool>,
    /// Least severe log level shown.
    pub log_level: Option<LogLevel>,
    /// Whether log lines are wrapped.
    pub wrap_logs: bool,
    /// Whether the bell is muted.
    pub mute_bell: bool,
    /// Whether open work is ended without a question.
    pub end_unasked: bool,
    /// Whether the tour was taken or skipped.
    pub toured: bool,
}

/// A traffic filter under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Remembered")]
pub struct SavedFilter {
    /// What the person calls it; no other saved filter is called so.
    pub name: String,
    /// The filter as it is typed.
    pub text: String,
}

/// How saved filters stand in files: earlier ones had no name but their text.
#[derive(Deserialize)]
#[serde(untagged)]
enum Remembered {
    Named { name: String, text: String },
    Unnamed(String),
}

impl From<Remembered> for SavedFilter {
    fn from(remembered: Remembered) -> Self {
        match remembered {
            Remembered::Named { name, text } => Self { name, text },
            Remembered::Unnamed(text) => Self { name: text.clone(), text },
        }
    }
}

/// What both sides made of a value: objects by key, lists by element, of anything else ours.
fn merge(before: &Value, ours: Value, theirs: Value) -> Value {
    match (ours, theirs) {
        (ours, theirs) if ours == *before => theirs,
        (Value::Object(ours), Value::Object(mut theirs)) => {
            for (key, old) in before.as_object().into_iter().flatten() {
                if !ours.contains_key(key) && theirs.get(key) == Some(old) {
                    theirs.remove(key);
                }
            }
            for (key, value) in ours {
                let old = before.get(&key).unwrap_or(&Value::Null);
                let other = theirs.remove(&key).unwrap_or(Value::Null);
                theirs.insert(key, if other.is_null() { value } else { merge(old, value, other) });
            }
            Value::Object(theirs)
        }
        (Value::Array(ours), Value::Array(mut theirs)) => {
            let old = before.as_array().map(Vec::as_slice).unwrap_or_default();
            theirs.retain(|item| ours.contains(item) || !old.contains(item));
            let new: Vec<_> = ours.into_iter().filter(|item| !theirs.contains(item)).collect();
            theirs.extend(new.into_iter().filter(|item| !old.contains(item)));
            Value::Array(theirs)
        }
        (ours, _) => ours,
    }
}

impl Prefs {
    /// Reads them.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// These, which were `before` once, with what others changed of that meanwhile.
    #[must_use]
    pub fn merged(&self, before: &Self, theirs: &Self) -> Self {
        let value = |prefs: &Self| serde_json::to_value(prefs).unwrap_or_default();
        let merged = merge(&value(before), value(self), value(theirs));
        serde_json::from_value(merged).unwrap_or_else(|_| self.clone())
    }

    /// As text.
    pub fn to_text(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_survive_being_written_and_rubbish_is_forgotten() {
        let prefs = Prefs { pane: Some("logs".into()), toured: true, ..Prefs::default() };
        assert_eq!(Prefs::parse(prefs.to_text().as_bytes()), Ok(prefs));
        assert!(Prefs::parse(b"{\"pane\": 3").is_err());
    }

    #[test]
    fn saved_filters_that_had_no_name_are_called_by_their_text() {
        let text = r#"{"savedFilters": ["kind:error", {"name": "slow", "text": "duration:>1s"}]}"#;
        let prefs = Prefs::parse(text.as_bytes()).unwrap();
        let named = |name: &str, text: &str| SavedFilter { name: name.into(), text: text.into() };
        assert_eq!(
            prefs.saved_filters,
            [named("kind:error", "kind:error"), named("slow", "duration:>1s")]
        );
        assert_eq!(Prefs::parse(prefs.to_text().as_bytes()), Ok(prefs));
    }
}
