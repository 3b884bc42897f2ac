//! Preferences of a project that are kept between runs: pane, filters, sizes, theme. Plain data and
//! its text form; reading and writing files is an effect.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use base::LogLevel;

/// Preferences of one project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Prefs {
    /// Pane shown last, by its name.
    pub pane: Option<String>,
    /// Server everything was narrowed to.
    pub scope: Option<String>,
    pub theme: Option<String>,
    /// Filter text by pane.
    pub filters: BTreeMap<String, String>,
    /// Saved traffic filters, newest last.
    pub saved_filters: Vec<SavedFilter>,
    /// Whether the server list is shown; `None` decides by width.
    pub server_list: Option<bool>,
    /// Whether the detail is shown beside the list.
    pub detail: Option<bool>,
    /// Least severe log level shown.
    pub log_level: Option<LogLevel>,
    /// Whether log lines are wrapped.
    pub wrap_logs: bool,
    /// Whether the bell is muted.
    pub mute_bell: bool,
    /// Whether open work is ended without asking.
    pub end_unasked: bool,
    /// Whether the tour was taken or skipped.
    pub toured: bool,
}

/// A traffic filter under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedFilter {
    /// The user's name for it; unique among saved filters.
    pub name: String,
    /// The filter as it is typed.
    pub text: String,
}

/// A value in which `ours` wins where it differs from `known`; objects, and lists of what has a
/// name, are merged entry by entry.
fn merged(ours: Value, known: &Value, theirs: Value) -> Value {
    if ours == *known {
        return theirs;
    }
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            Value::Object(merged_entries(ours, known, theirs))
        }
        (Value::Array(ours), Value::Array(theirs)) => match (by_name(&ours), by_name(&theirs)) {
            (Some(ours), Some(theirs)) => {
                let known = by_name(known.as_array().map_or(&[][..], Vec::as_slice));
                let known = Value::Object(known.unwrap_or_default());
                merged_entries(ours, &known, theirs).into_iter().map(|(_, value)| value).collect()
            }
            _ => Value::Array(ours),
        },
        (ours, _) => ours,
    }
}

fn merged_entries(
    mut ours: Map<String, Value>,
    known: &Value,
    theirs: Map<String, Value>,
) -> Map<String, Value> {
    let mut out = Map::new();
    for (key, theirs) in theirs {
        let own = ours.shift_remove(&key).unwrap_or_default();
        out.insert(key.clone(), merged(own, &known[&key], theirs));
    }
    for (key, own) in ours {
        let value = merged(own, &known[&key], Value::Null);
        out.insert(key, value);
    }
    out.retain(|_, value| !value.is_null());
    out
}

/// The entries of a list by their `name`, if each has one.
fn by_name(list: &[Value]) -> Option<Map<String, Value>> {
    list.iter()
        .map(|entry| Some((entry.get("name")?.as_str()?.to_owned(), entry.clone())))
        .collect()
}

impl Prefs {
    /// Parses them.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }

    /// The preferences `theirs` with every change from `known` to `self`: of two dashboards each
    /// keeps what the other one changed.
    ///
    /// # Errors
    /// None for preferences of this version.
    pub fn merged(&self, known: &Self, theirs: &Self) -> serde_json::Result<Self> {
        let value = |prefs: &Self| serde_json::to_value(prefs);
        serde_json::from_value(merged(value(self)?, &value(known)?, value(theirs)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_two_dashboards_keeps_what_the_other_changed() {
        let filter = |name: &str| SavedFilter { name: name.to_owned(), text: "x".to_owned() };
        let known = Prefs {
            filters: [("logs".to_owned(), "old".to_owned())].into(),
            saved_filters: vec![filter("both"), filter("gone")],
            ..Prefs::default()
        };
        let theirs = Prefs {
            theme: Some("dark".to_owned()),
            filters: [("logs".to_owned(), "old".to_owned()), ("tools".to_owned(), "a".to_owned())]
                .into(),
            saved_filters: vec![filter("both"), filter("gone"), filter("filA")],
            ..Prefs::default()
        };
        let ours = Prefs {
            pane: Some("logs".to_owned()),
            wrap_logs: true,
            saved_filters: vec![filter("both"), filter("filB")],
            ..Prefs::default()
        };
        let merged = ours.merged(&known, &theirs).unwrap();
        let names: Vec<_> = merged.saved_filters.iter().map(|saved| saved.name.as_str()).collect();
        assert_eq!(names, ["both", "filA", "filB"]);
        assert_eq!((merged.theme, merged.pane), (theirs.theme, ours.pane));
        assert!(merged.wrap_logs);
        assert_eq!(
            merged.filters,
            [("tools".to_owned(), "a".to_owned())].into(),
            "one was cleared"
        );
    }

    #[test]
    fn preferences_survive_being_written_and_rubbish_is_forgotten() {
        let prefs = Prefs { pane: Some("logs".into()), toured: true, ..Prefs::default() };
        assert_eq!(Prefs::parse(serde_json::to_string(&prefs).unwrap().as_bytes()), Ok(prefs));
        assert!(Prefs::parse(b"{\"pane\": 3").is_err());
    }
}
