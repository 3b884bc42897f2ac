//! What people see of a server whose sources are watched. Pure.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::human::{Dur, count};
use crate::base::{LogLevel, SafeText, Timestamp};
use crate::host::Fact;
use crate::process::ExitView;

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
    /// A newer change, or the end of the host, ended it.
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

/// What a person sees of a server whose sources are watched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DevView {
    /// Source files there are.
    pub files: u64,
    /// What should be known of the watch: it looks by the clock, nothing matches, ...
    pub watch_note: Option<SafeText>,
    /// When sources changed last.
    pub changed_at: Option<Timestamp>,
    /// The first of the files that changed then, seen from the server's working directory.
    pub changed: Vec<SafeText>,
    /// How many more.
    pub changed_more: u64,
    /// The build that followed.
    pub build: Option<BuildView>,
    /// Why the change was not acted upon, or not at once.
    pub note: Option<SafeText>,
    /// Restarts because of changed sources.
    pub taken: u64,
    /// Whether the last change led to a restart.
    pub is_taken: bool,
}

impl DevView {
    /// Most files named of one change.
    pub const NAMED: usize = 8;

    /// Folds a fact into what is known of a server's sources.
    pub(in crate::host) fn apply(view: &mut Option<Arc<Self>>, at: Timestamp, fact: &Fact) {
        let mut dev = view.as_deref().cloned().unwrap_or_default();
        match fact {
            Fact::SourcesWatched { files, note, .. } => {
                dev.files = *files;
                dev.watch_note.clone_from(note);
            }
            Fact::SourcesChanged { files, more, .. } => {
                dev.changed_at = Some(at);
                dev.changed.clone_from(files);
                dev.changed_more = *more;
                dev.build = None;
                dev.note = None;
                dev.is_taken = false;
            }
            Fact::BuildBegan { .. } => {
                dev.build = Some(BuildView { began: at, end: None, tail: Vec::new() });
            }
            Fact::BuildEnded { end, took, tail, .. } => {
                let build =
                    dev.build.get_or_insert(BuildView { began: at, end: None, tail: Vec::new() });
                build.end = Some((end.clone(), *took));
                build.tail.clone_from(tail);
            }
            Fact::SourcesTaken { .. } => {
                dev.taken += 1;
                dev.is_taken = true;
            }
            Fact::SourcesNoted { note, .. } => dev.note = Some(note.clone()),
            Fact::SourcesLeft { .. } => return *view = None,
            _ => return,
        }
        *view = Some(Arc::new(dev));
    }

    /// What changed, in a few words: `src/a.py`, `src/a.py and 3 more`.
    pub fn changed_words(&self) -> SafeText {
        SafeText::line(&words(&self.changed, self.changed_more))
    }
}

fn words(files: &[SafeText], more: u64) -> String {
    let more = more + (files.len() as u64).saturating_sub(1);
    let first = files.first().map_or("sources", |file| file.as_str());
    if more == 0 { first.to_owned() } else { format!("{first} and {more} more") }
}

/// What the log says of a fact about sources.
pub(in crate::host) fn describe(fact: &Fact) -> Option<(LogLevel, String)> {
    Some(match fact {
        Fact::SourcesWatched { files, note, .. } => match note {
            Some(note) => {
                (LogLevel::Warning, format!("watching {}: {note}", count(*files, "source file")))
            }
            None => (LogLevel::Debug, format!("watching {}", count(*files, "source file"))),
        },
        Fact::SourcesChanged { files, more, .. } => {
            (LogLevel::Info, format!("sources changed: {}", words(files, *more)))
        }
        Fact::BuildBegan { .. } => (LogLevel::Info, "build began".to_owned()),
        Fact::BuildEnded { end, took, .. } => {
            let took = Dur(*took);
            match end {
                BuildEnd::Done => (LogLevel::Info, format!("build done in {took}")),
                BuildEnd::Superseded => (LogLevel::Info, format!("build given up after {took}")),
                BuildEnd::Failed(exit) => (
                    LogLevel::Error,
                    format!(
                        "build failed after {took}: {}; the previous build keeps running",
                        exit.describe()
                    ),
                ),
                BuildEnd::Refused(reason) => (
                    LogLevel::Error,
                    format!(
                        "the build could not be started: {reason}; the previous build keeps running"
                    ),
                ),
            }
        }
        Fact::SourcesNoted { note, .. } => (LogLevel::Warning, note.to_string()),
        _ => return None,
    })
}
