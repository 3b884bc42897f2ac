//! What the dashboard wants done outside of itself. Effects run outside of `App` and come back as
//! messages.

use std::path::PathBuf;

use crate::base::LogLevel;
use crate::deck::SavedCall;
pub use crate::deck::{CallRequest, CallTarget, ClientOrder, Order, PolicyOrder, ServerCommand};
pub use crate::deck::{ConfigCommand, FileChange, KeepInput, Saving};
use crate::deck::{DriftPlace, HistoryRecord, Lock, LockedServer, ScriptedAnswer};
use crate::host::CacheKey;
use crate::mcp::{ApprovalId, ListKind};
use crate::tui::chat::port::ChatCommand;
use crate::tui::form::CheckJob;
use crate::tui::message::{CallToken, FormToken, ViewToken};
use crate::tui::model::Todo;
use crate::tui::pick::{Choice, LinePrompt};
use crate::tui::player::PlayCommand;
use crate::tui::prefs::Prefs;
use crate::tui::prelude::*;
use crate::tui::result::{PictureJob, ResultFile};
use crate::tui::user_command::FilledCommand;

/// Something to do: by the dashboard itself down to [`Effect::OpenResource`], the others outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Show a notice; `{action}` becomes the key of that action.
    Say(String),
    /// Leave the screen.
    Close,
    /// Let the person choose.
    Choose(Ink, Vec<Choice>),
    /// Ask the person for a line of text; what is proposed stands there already.
    AskLine(LinePrompt, String),
    /// Open something that waits for the person.
    Open(Todo),
    /// Open an entry of a server's list to call, get or read it.
    OpenEntry(ServerName, ListKind, Arc<str>),
    /// Show a resource of the server whose call screen is open.
    OpenResource(String),
    /// Have something done by the engine, here or where the service runs.
    Order(Order),
    /// Run a command of the person's keymap file.
    Run(Box<FilledCommand>),
    /// Make a call.
    Call(CallToken, CallRequest),
    /// Cancel a call; the server is notified.
    CancelCall(CallToken),
    /// Ask the registered model for a draft; the parameters as edited, when they were.
    Draft(ApprovalId, Option<Arc<Value>>),
    /// Keep an answer beside the configuration.
    KeepAnswer(Box<ScriptedAnswer>),
    /// Say something to the model, or stop it.
    Chat(ChatCommand),
    /// Read definitions to compare with; they come back.
    Baseline(Baseline),
    /// Change the lock file; it comes back as it is then.
    Lock(LockChange),
    /// Drop a cache entry, or all.
    CacheDrop(Option<CacheKey>),
    /// Fetch the content of a cache entry.
    CacheContent(CacheKey),
    /// Do something with the configuration and its files.
    Config(ConfigCommand),
    /// Put text on the clipboard (OSC 52).
    Copy(String),
    /// Write a file; a relative name goes to the working directory, an existing file is not
    /// overwritten: the name gets a number.
    Save {
        /// Name or path.
        name: PathBuf,
        /// Content.
        content: Vec<u8>,
    },
    /// Write a file the person named; `~` is the home directory, a relative path goes to the working
    /// directory.
    SaveAs {
        /// Path.
        path: PathBuf,
        /// Content.
        content: ResultFile,
        /// What happens to a file that is there.
        existing: Existing,
    },
    /// Check the value of a form; comes back with what was found.
    Check(FormToken, Box<CheckJob>),
    /// Work on a picture of a result; comes back with what came of it.
    Picture(ViewToken, Box<PictureJob>),
    /// Open text in `$EDITOR`.
    Edit {
        /// Comes back with the text.
        token: FormToken,
        /// The text.
        text: String,
        /// Suffix of the temporary file, for example `.json`.
        suffix: &'static str,
    },
    /// Open a file itself in `$EDITOR`, at a line.
    EditFile(PathBuf, u32),
    /// Read a file for a field of a form.
    ReadFile(FormToken, PathBuf),
    /// Add a call to the saved ones beside the configuration.
    SaveCall(String, Box<SavedCall>),
    /// Append to the history of calls.
    Record(HistoryRecord),
    /// Open a URL that the person has confirmed for this request.
    OpenUrl(ApprovalId, url::Url),
    /// Remember the preferences.
    SavePrefs(Box<Prefs>),
    /// Let the program's own log begin at this level.
    HostLogLevel(LogLevel),
    /// Ring the bell.
    Bell,
    /// Record to a file, or end the recording.
    ToggleRecording,
    /// Move in the recording that is shown.
    Play(PlayCommand),
    /// Draw everything again.
    Redraw,
    /// Go back to the shell until `fg`.
    Suspend,
    /// Stop the servers and leave.
    Quit,
    /// Stop waiting for anything and leave.
    QuitNow,
}

/// What happens to a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It is left alone; the person is asked.
    Keep,
    /// It is replaced: the person confirmed it.
    Replace,
}

/// Definitions to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The lock file beside the configuration.
    Lock,
    /// A recording.
    Recording(PathBuf),
}

/// A change of the lock file.
#[derive(Clone, Debug, PartialEq)]
pub enum LockChange {
    /// What is at a place of a server now is accepted.
    Accept(String, DriftPlace, Box<LockedServer>),
    /// All of this is; entries of other servers stay.
    All(Box<Lock>),
}
