//! The displayed state of a server whose sources are watched. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use base::{SafeText, Timestamp};
use process::ExitView;

/// How a build ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BuildEnd {
    /// It succeeded; the server restarts.
    Done,
    /// It failed; the previous build keeps running.
    Failed(ExitView),
    /// It could not be started; the previous build keeps running.
    Refused(SafeText),
    /// It was stopped by a newer change or by the shutdown of the host.
    Superseded,
}

/// The last build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildView {
    /// When it began.
    pub began: Timestamp,
    /// How it ended and how long it took; `None` while it runs.
    pub end: Option<(BuildEnd, Duration)>,
    /// The last lines of its output, when it failed.
    pub tail: Vec<SafeText>,
}

/// The displayed state of a server whose sources are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DevView {
    /// Number of source files.
    pub files: u64,
    /// A note about the watch: it polls, nothing matches, ...
    pub watch_note: Option<SafeText>,
    /// When sources changed last.
    pub changed_at: Option<Timestamp>,
    /// The first files of that change, relative to the server's working directory.
    pub changed: Vec<SafeText>,
    /// Number of further changed files.
    pub changed_more: u64,
    /// The build that followed.
    pub build: Option<BuildView>,
    /// Why the change did not lead to a restart.
    pub note: Option<SafeText>,
    /// Number of restarts because of changed sources.
    pub taken: u64,
    /// Whether the last change led to a restart.
    pub is_taken: bool,
}

impl DevView {
    /// Maximum number of files named per change.
    pub const MAX_NAMED_FILES: usize = 8;

    /// The change in short: `src/a.py`, `src/a.py and 3 more`.
    pub fn changed_words(&self) -> SafeText {
        let first = self.changed.first().map_or("sources", SafeText::as_str);
        match self.changed_more + self.changed.len().saturating_sub(1) as u64 {
            0 => SafeText::line(first),
            more => SafeText::line(&format!("{first} and {more} more")),
        }
    }

    /// The approximate size of its text in bytes.
    pub(crate) fn weight(&self) -> usize {
        let tail = self.build.iter().flat_map(|build| &build.tail);
        self.changed.iter().chain(tail).map(|line| line.len()).sum()
    }
}
