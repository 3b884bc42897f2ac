//! Development (`dev` of an entry): when sources of a server change, it is built and restarted.
//!
//! One task per server that has `dev.watch`, beside its actor and never in it: a build takes long,
//! and the server runs on meanwhile. A task ends with its build, so nothing outlives the host.
//! Owns what people see of it ([`DevView`]); the restart itself is the actor's.

mod build;
mod echo;
pub mod sources;
mod task;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::base::Timestamp;
use crate::base::human::Dur;
use crate::base::text::SafeText;
use crate::base::{LogLevel, ServerName};
use crate::config::{ServerConfig, changed_settings};
use crate::host::Fact;
use crate::host::dev::sources::SourceOptions;
use crate::host::dev::task::Follower;
use crate::host::server::slot::Slot;
use crate::host::shared::Shared;
use crate::process::ExitView;

/// How a build ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BuildEnd {
    /// It succeeded; the server restarts.
    Done,
    /// It failed; the server runs on as it was.
    Failed(ExitView),
    /// It could not be started; the server runs on as it was.
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
        if let Fact::SourcesLeft { .. } = fact {
            *view = None;
        }
        let is_ours = matches!(
            fact,
            Fact::SourcesWatched { .. }
                | Fact::SourcesChanged { .. }
                | Fact::BuildBegan { .. }
                | Fact::BuildEnded { .. }
                | Fact::SourcesTaken { .. }
                | Fact::SourcesNoted { .. }
        );
        if is_ours {
            Arc::make_mut(view.get_or_insert_default()).fold(at, fact);
        }
    }

    fn fold(&mut self, at: Timestamp, fact: &Fact) {
        match fact {
            Fact::SourcesWatched { files, note, .. } => {
                self.files = *files;
                self.watch_note.clone_from(note);
            }
            Fact::SourcesChanged { files, more, .. } => {
                self.changed_at = Some(at);
                self.changed.clone_from(files);
                self.changed_more = *more;
                self.build = None;
                self.note = None;
                self.is_taken = false;
            }
            Fact::BuildBegan { .. } => {
                self.build = Some(BuildView { began: at, end: None, tail: Vec::new() });
            }
            Fact::BuildEnded { end, took, tail, .. } => {
                let build =
                    self.build.get_or_insert(BuildView { began: at, end: None, tail: Vec::new() });
                build.end = Some((end.clone(), *took));
                build.tail.clone_from(tail);
            }
            Fact::SourcesTaken { .. } => {
                self.taken += 1;
                self.is_taken = true;
            }
            Fact::SourcesNoted { note, .. } => self.note = Some(note.clone()),
            _ => {}
        }
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
            Some(note) => (LogLevel::Warning, format!("watching {files} source files: {note}")),
            None => (LogLevel::Debug, format!("watching {files} source files")),
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
                        "build failed after {took}: {}; the server runs on as it was",
                        exit.describe()
                    ),
                ),
                BuildEnd::Refused(reason) => (
                    LogLevel::Error,
                    format!(
                        "the build could not be started: {reason}; the server runs on as it was"
                    ),
                ),
            }
        }
        Fact::SourcesNoted { note, .. } => (LogLevel::Warning, note.to_string()),
        _ => return None,
    })
}

/// The tasks that follow sources. Stops them when it is dropped.
#[derive(Default)]
pub struct Crew {
    /// `None` when nobody asked to act on `dev`.
    options: Option<SourceOptions>,
    members: HashMap<ServerName, Member>,
    tasks: JoinSet<()>,
}

/// One server that is followed.
struct Member {
    slot: Arc<Slot>,
    config: Arc<ServerConfig>,
    /// Ends its task when it is dropped.
    _stop: DropGuard,
}

impl Crew {
    /// A crew that follows sources this way, or not at all.
    pub fn new(options: Option<SourceOptions>) -> Self {
        Self { options, ..Self::default() }
    }

    /// Follows the sources of the servers there are now, as far as they are `there`. A task whose
    /// server did not change goes on; one whose server did ends, and its build with it.
    pub fn follow(&mut self, deck: &Arc<Shared>, there: impl Fn(&ServerName) -> bool) {
        let Some(options) = self.options else { return };
        while self.tasks.try_join_next().is_some() {}
        let slots = deck.slots();
        let stays = |name: &ServerName, member: &mut Member| {
            slots.get(name).is_some_and(|slot| {
                let now = &slot.live().config;
                Arc::ptr_eq(slot, &member.slot)
                    && changed_settings(&member.config, now).is_empty()
                    && member.config.at.file == now.at.file
            })
        };
        let gone = self.members.extract_if(|name, member| !stays(name, member));
        for (name, member) in gone {
            drop(member);
            if slots.contains_key(&name) && there(&name) {
                deck.facts.post(Fact::SourcesLeft { server: name });
            }
        }
        for (name, slot) in slots.iter() {
            let config = Arc::clone(&slot.live().config);
            let wanted = config.dev.as_ref().is_some_and(|dev| !dev.watch.is_empty());
            // What may not run may not be built either.
            let possible = config.hold.is_none() && there(name);
            if !wanted || !possible || self.members.contains_key(name) {
                continue;
            }
            let stop = CancellationToken::new();
            let follower = Follower::new(deck, slot, options, stop.clone());
            self.tasks.spawn(follower.run());
            let member = Member { slot: Arc::clone(slot), config, _stop: stop.drop_guard() };
            self.members.insert(name.clone(), member);
        }
    }

    /// Ends every task, and every build, and waits for that.
    pub async fn stop(&mut self) {
        self.members.clear();
        while self.tasks.join_next().await.is_some() {}
    }
}
