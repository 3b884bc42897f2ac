//! Preferences of a project that are kept between runs: pane, filters, sizes, theme. Plain data and
//! its text form; reading and writing files is an effect.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    /// Theme.
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

impl Prefs {
    /// Parses them.
    ///
    /// # Errors
    /// Why they cannot be read.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(bytes).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preferences_survive_being_written_and_rubbish_is_forgotten() {
        let prefs = Prefs { pane: Some("logs".into()), toured: true, ..Prefs::default() };
        assert_eq!(Prefs::parse(serde_json::to_string(&prefs).unwrap().as_bytes()), Ok(prefs));
        assert!(Prefs::parse(b"{\"pane\": 3").is_err());
    }
}
