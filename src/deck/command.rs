//! The events of a deck ([`DeckEvent`]) and the commands it takes ([`ConfigCommand`]).

use std::sync::Arc;

use serde_json::Value;

use super::situation::{FileText, Situation};
use base::{SafeText, Secret, ServerName};
use config::error::Error;
use config::{ConfigChange, EntryAmendment, Imported, McpConfig, ShownEntry};
use host::HostView;

/// Called with every configuration before it is used, so that its secrets are kept out of the log.
pub type Masks = Arc<dyn Fn(&McpConfig) + Send + Sync>;

/// Called with what the servers of a configuration offer, soon after a change of it.
pub type Notebook = Arc<dyn Fn(&McpConfig, &HostView) + Send + Sync>;

/// What happened to the configuration.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum DeckEvent {
    /// This configuration is in use from now on; with the text of its files.
    Loaded(Arc<McpConfig>, Arc<[FileText]>),
    /// A change was applied: added and changed servers are starting.
    Reloaded(ConfigChange),
    /// The files cannot be used, with every problem; the previous configuration stays in use.
    Rejected(Error, Arc<[FileText]>),
    /// The files changed but are not in use yet: the change waits for [`ConfigCommand::Apply`].
    Waiting(Arc<[FileText]>),
    /// These servers are not started before [`ConfigCommand::Approve`].
    TrustNeeded(Vec<ServerName>),
    /// These inputs have to be answered ([`ConfigCommand::Answer`]) before servers that use them
    /// start.
    InputNeeded(Vec<String>),
    /// The state of the configuration, after each change of it.
    Situation(Arc<Situation>),
    /// An entry to edit ([`ConfigCommand::OpenEntry`]).
    Entry(Box<ShownEntry>),
    /// An edited entry was written, or the reason it was not ([`ConfigCommand::SaveEntry`]).
    Saved(Result<SafeText, SafeText>),
    /// A command was carried out, with a short message about it.
    Done(SafeText),
    /// A command failed.
    Failed(Error),
    /// What the operator must hear about a file with secrets or rights.
    Notice(SafeText),
    /// The reader was too slow: this many events were lost.
    Missed(u64),
}

/// A command about the configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigCommand {
    /// Use the changed files that are waiting (`"reload": "ask"`).
    Apply,
    /// Toggle, for this run only, whether changed files are shown before they are used or used at
    /// once.
    AskFirst,
    /// Approve servers as they were shown, each with the hash of its review
    /// ([`crate::Review::shown_hash`]). One that has changed since is not approved.
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
    /// Undo the last edit.
    Undo,
}

/// An entry to write.
#[derive(Clone, Debug, PartialEq)]
pub struct Saving {
    /// As it was shown; `None` for a new one.
    pub before: Option<ShownEntry>,
    /// As edited, its name under [`config::ENTRY_NAME`].
    pub edited: Value,
}

/// A server to add to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddedServer {
    /// Its name; none that is taken.
    pub name: ServerName,
    /// Its entry.
    pub entry: Value,
    /// Inputs that the entry declares and that the file does not have yet.
    pub inputs: Vec<Value>,
    /// Secrets that the entry refers to, for the store of the user.
    pub secrets: Vec<(String, Secret)>,
}

impl AddedServer {
    /// A server without inputs and secrets.
    pub const fn new(name: ServerName, entry: Value) -> Self {
        Self { name, entry, inputs: Vec::new(), secrets: Vec::new() }
    }
}

/// A change of a file that needs no form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileChange {
    /// Disables a server: listed but not started.
    Disable(ServerName),
    /// Enables a disabled server.
    Enable(ServerName),
    /// Copies a server under a free name.
    Duplicate(ServerName),
    /// Removes a server.
    Remove(ServerName),
    /// Adds a server as it was shown to the user, which counts as approved.
    Add(Box<AddedServer>),
    /// Adds servers of other programs; one whose name is taken stays as it is. A variable that they
    /// refer to and that is not set becomes an input.
    Import(Imported),
    /// Sets a key of a server's entry.
    Set {
        /// The server.
        server: ServerName,
        /// The path to the key within the entry.
        path: Vec<String>,
        /// Its value; `None` removes it.
        value: Option<Value>,
    },
    /// Changes what is written in a server's entry.
    Amend {
        /// The server.
        server: ServerName,
        /// The changes, one after the other.
        changes: Vec<EntryAmendment>,
        /// What they do, for the message about it; it completes the name of the server.
        words: String,
    },
    /// Passes an environment variable to a server: the one of this program if it is set, otherwise
    /// the user is asked for it as an input.
    PassVariable {
        /// The server.
        server: ServerName,
        /// The name of the variable.
        variable: String,
    },
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
