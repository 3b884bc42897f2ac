//! The events of a deck ([`DeckEvent`]) and the commands it takes ([`ConfigCommand`]).

use std::sync::Arc;

use serde_json::Value;

use super::situation::{FileText, Situation};
use crate::base::{SafeText, Secret, ServerName};
use crate::config::edit::entry::ShownEntry;
use crate::config::{ConfigChange, McpConfig};
use crate::error::Error;
use crate::host::HostView;

/// Called with every configuration before it is used, so that its secrets are kept out of the log.
pub type Masks = Arc<dyn Fn(&McpConfig) + Send + Sync>;

/// Called with what the servers of a configuration offer, soon after that changed.
pub type Notebook = Arc<dyn Fn(&McpConfig, &HostView) + Send + Sync>;

/// What happened to the configuration.
#[derive(Clone, Debug)]
pub enum DeckEvent {
    /// This configuration is used from now on; with the text of its files.
    Loaded(Arc<McpConfig>, Arc<[FileText]>),
    /// A change was applied: servers that were added and changed are on their way.
    Reloaded(ConfigChange),
    /// The files cannot be used, with every problem; what ran runs on.
    Rejected(Error, Arc<[FileText]>),
    /// The files changed and are not used yet: the change waits for [`ConfigCommand::Apply`].
    Waiting(Arc<[FileText]>),
    /// These servers are not started before [`ConfigCommand::Approve`].
    TrustNeeded(Vec<ServerName>),
    /// These inputs have to be answered ([`ConfigCommand::Answer`]) before servers that use them
    /// start.
    InputNeeded(Vec<String>),
    /// How the configuration stands, after each change of it.
    Situation(Arc<Situation>),
    /// An entry to edit ([`ConfigCommand::OpenEntry`]).
    Entry(Box<ShownEntry>),
    /// An edited entry was written, or why not ([`ConfigCommand::SaveEntry`]).
    Saved(Result<SafeText, SafeText>),
    /// A command was carried out; a word about it.
    Done(SafeText),
    /// A command could not be carried out.
    Failed(Error),
    /// The reader was slow: so many events are lost.
    Missed(u64),
}

/// Something to do with the configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigCommand {
    /// Use the changed files that wait (`"reload": "ask"`).
    Apply,
    /// From now on, and in this run only, changed files are shown before they are used, or used at
    /// once: the opposite of what was so.
    AskFirst,
    /// Let servers run from now on, as they were shown: each with the hash of its review
    /// ([`crate::deck::Review::shown_hash`]). One that is another by now is not approved.
    Approve(Vec<(ServerName, String)>),
    /// Use an answer to an input.
    Answer {
        /// Id of the input.
        id: String,
        /// The answer.
        value: Secret,
        /// Where it is kept.
        keep: KeepInput,
    },
    /// Forget the answer to an input.
    Forget(String),
    /// Show an entry for editing.
    OpenEntry(ServerName),
    /// Write an entry.
    SaveEntry(Box<Saving>),
    /// Change the file without a form.
    Change(FileChange),
    /// Take the last edit back.
    Undo,
}

/// An entry to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// As it was shown; `None` for a new one.
    pub before: Option<ShownEntry>,
    /// As it is wanted, its name under [`crate::config::edit::entry::NAME`].
    pub edited: Value,
}

/// A change of a file that needs no form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// Listed but not started any more.
    Disable(ServerName),
    /// Started again.
    Enable(ServerName),
    /// A copy under a free name.
    Duplicate(ServerName),
    /// Gone.
    Remove(ServerName),
}

/// Where an answer to an input is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeepInput {
    /// Until the program ends.
    #[default]
    Memory,
    /// In the keyring of the system.
    Keyring,
}
