//! What a person or a program wants of the configuration and its files.

use serde_json::Value;

use crate::base::ServerName;
use crate::base::secret::Secret;
use crate::config::edit::entry::ShownEntry;

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
        keep: Keep,
    },
    /// Forget the answer to an input.
    Forget(String),
    /// Show an entry for editing.
    OpenEntry(ServerName),
    /// Write an entry.
    SaveEntry(Box<Saving>),
    /// Change the file without a form.
    Change(Change),
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
pub enum Change {
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
pub enum Keep {
    /// Until the program ends.
    #[default]
    Memory,
    /// In the keyring of the system.
    Keyring,
}
