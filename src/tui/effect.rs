//! Side effects the dashboard requests. They run outside `App`; results come back as messages.

use std::path::PathBuf;

use crate::chat::port::ChatCommand;
use crate::form::CheckJob;
use crate::message::{CallToken, FormToken, ViewToken};
use crate::player::PlayCommand;
use crate::prefs::Prefs;
use crate::prelude::*;
use crate::result::{PictureJob, ResultFile};
use crate::suites::SuiteOrder;
use crate::user_command::FilledCommand;
use base::{LogLevel, Secret};
use config::Severity;
use deck::SavedCall;
pub use deck::{CallRequest, CallTarget, ClientOrder, Order, PolicyOrder, ServerCommand};
pub use deck::{ConfigCommand, FileChange, KeepInput, Saving};
use deck::{DriftPlace, HistoryRecord, Lock, LockedServer, ScriptedAnswer};
use host::CacheKey;
use protocol::ApprovalId;
use reach::AvailableServer;

/// A side effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Have the engine perform an order, here or in the attached service.
    Order(Order),
    /// Run a command of the user's keymap file.
    Run(Box<FilledCommand>),
    /// Make a call.
    Call(CallToken, CallRequest),
    /// Show a result in the app of its tool.
    OpenApp(Box<AppRequest>),
    /// Cancel a call; the server is notified.
    CancelCall(CallToken),
    /// Ask the registered model for a draft, with the parameters if they were edited.
    Draft(ApprovalId, Option<Arc<Value>>),
    /// Store an answer next to the configuration.
    KeepAnswer(Box<ScriptedAnswer>, Existing),
    /// Send a message to the model, or stop it.
    Chat(ChatCommand),
    /// Read definitions to compare with; they come back as a message.
    Baseline(Baseline),
    /// Look for servers of other programs on this machine; they come back as a message.
    FindServers,
    /// Look for a server by the user's words, to be added to this file; it comes back as a message.
    FindServer(String, PathBuf),
    /// Start a server that is in no file yet, for a check; what was seen comes back as a message.
    TryServer(Box<TrialRequest>),
    /// Change the lock file; its new content comes back as a message.
    Lock(LockChange),
    /// Have the bench do something with suites of tests; it answers with messages.
    Suites(Box<SuiteOrder>),
    /// Drop a cache entry, or all.
    CacheDrop(Option<CacheKey>),
    /// Fetch the content of a cache entry.
    CacheContent(CacheKey),
    /// Do something with the configuration and its files.
    Config(ConfigCommand),
    /// Put text on the clipboard (OSC 52).
    Copy(String),
    /// Write a file. A relative name is resolved against the working directory; an existing file is
    /// not overwritten: the name gets a number.
    Save {
        /// Name or path.
        name: PathBuf,
        content: Vec<u8>,
    },
    /// Write a file named by the user; `~` is the home directory, a relative path is resolved
    /// against the working directory.
    SaveAs {
        path: PathBuf,
        content: ResultFile,
        /// What to do if the file exists.
        existing: Existing,
    },
    /// Validate the value of a form; the findings come back as a message.
    Check(FormToken, Box<CheckJob>),
    /// Process a picture of a result; the outcome comes back as a message.
    Picture(ViewToken, Box<PictureJob>),
    /// Open text in `$EDITOR`.
    Edit {
        /// Identifies the form when the text comes back.
        token: FormToken,
        text: String,
        /// Suffix of the temporary file, for example `.json`.
        suffix: &'static str,
    },
    /// Open a file in place in `$EDITOR`, at a line.
    EditFile(PathBuf, u32),
    /// Read a file for a field of a form.
    ReadFile(FormToken, PathBuf),
    /// Add a call to the saved calls next to the configuration.
    SaveCall(String, Box<SavedCall>, Existing),
    /// Append to the history of calls.
    Record(HistoryRecord),
    /// Open a URL that the user has confirmed for this request.
    OpenUrl(ApprovalId, url::Url),
    /// Remember the preferences.
    SavePrefs(Box<Prefs>),
    /// Set the minimum level of the program's own log.
    HostLogLevel(LogLevel),
    /// Ring the bell.
    Bell,
    /// Record to a file, or end the recording.
    ToggleRecording,
    /// Control playback of the recording.
    Play(PlayCommand),
    /// Draw everything again.
    Redraw,
    /// Go back to the shell until `fg`.
    Suspend,
    /// Stop the servers and leave.
    Quit,
    /// Quit without waiting for anything.
    QuitNow,
}

/// A result to show in the app of its tool.
#[derive(Clone, Debug, PartialEq)]
pub struct AppRequest {
    /// The server.
    pub server: ServerName,
    /// The tool, by its name there.
    pub tool: Arc<str>,
    /// What was sent.
    pub arguments: Value,
    /// What came back.
    pub result: Value,
}

/// A server to start for a check, before it is in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialRequest {
    /// What was found; a bundle is unpacked.
    pub server: Arc<AvailableServer>,
    /// The file it would be added to.
    pub file: PathBuf,
    /// Its name there.
    pub name: ServerName,
    /// Its entry there, and the inputs that the entry declares.
    pub entry: Value,
    pub declared: Vec<Value>,
    /// Answers to these inputs.
    pub answers: Vec<(String, Secret)>,
    /// Whether it is started; otherwise only unpacked.
    pub checks: bool,
}

/// What the check of a server has seen.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialReport {
    /// Whether the server could be started and looked at.
    pub is_whole: bool,
    /// What it offers, or how far its start came.
    pub words: SafeText,
    /// What is wrong with it, the worst first.
    pub findings: Vec<TrialFinding>,
    /// Its last lines on stderr, when it did not start.
    pub last_lines: Vec<SafeText>,
}

/// Something wrong that a check has found.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialFinding {
    pub severity: Severity,
    pub text: SafeText,
    /// What to do about it; may be empty.
    pub help: SafeText,
}

/// What to do with a file, or an entry of a file, that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Leave it alone and ask the user.
    Keep,
    /// Replace it; the user confirmed.
    Replace,
}

/// Definitions to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// The lock file beside the configuration.
    Lock,
    Recording(PathBuf),
}

/// A change of the lock file.
#[derive(Clone, Debug, PartialEq)]
pub enum LockChange {
    /// Accept the current definition at this place of a server.
    Accept(String, DriftPlace, Box<LockedServer>),
    /// Accept all of these definitions; entries of other servers are kept.
    All(Box<Lock>),
}
