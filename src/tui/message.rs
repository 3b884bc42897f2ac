//! What can happen to the dashboard: everything `App::update` reacts to.

use std::path::PathBuf;

use crossterm::event::Event;

use crate::chat::port::ChatNews;
use crate::effect::{Baseline, Effect, TrialReport};
use crate::form::CheckResult;
use crate::player::Played;
use crate::prelude::*;
use crate::result::{PictureDone, ResultFile};
use crate::suites::SuiteNews;
use config::error::Error;
use deck::{Answers, DeckEvent, Lock, News, SavedCalls, ScriptedAnswer};
use host::{CacheKey, CallOutcome, Drafted};
use protocol::{ApprovalId, CallId, Payload, Progress};
use reach::{FoundServers, FoundSource};
use terminal::graphics::TerminalReply;

/// Something that happened.
#[derive(Debug)]
pub enum Message {
    /// The current time.
    Now(Timestamp),
    /// The state of a recording at another time.
    Played(Box<Played>),
    /// Recording to this file has begun; with `None`, it has ended.
    Recording(Option<SafeText>),
    /// Key, mouse, paste, focus.
    Input(Event),
    /// The terminal has this size.
    Resize(u16, u16),
    /// The engine runs.
    EngineReady,
    /// The engine could not be built.
    EngineFailed(Error),
    /// Engine state changed.
    News(News),
    /// Definitions to compare with, or why they cannot be read.
    Baseline(Baseline, Result<Lock, SafeText>),
    /// Servers of other programs on this machine.
    Found(Box<FoundServers>),
    /// What was found for the user's words, or why nothing was.
    ServerFound(Result<FoundSource, SafeText>),
    /// What the check of a server has seen, unless it was only to be unpacked; or why there was none.
    ServerTried(Result<Option<Box<TrialReport>>, SafeText>),
    /// Something about suites of tests.
    Suites(SuiteNews),
    /// The content of a cache entry.
    CacheContent(CacheKey, Option<Payload>),
    /// What happened to the configuration.
    Deck(DeckEvent),
    /// A command was carried out, with a note for the user.
    Done(SafeText),
    /// A warning about something the user did not initiate.
    Warned(SafeText),
    /// A user command's name and output.
    Output(SafeText, SafeText),
    /// One of our commands failed.
    Failed(Error),
    /// A call got its id.
    CallBegan(CallToken, CallId),
    /// A call has ended.
    CallEnded(CallToken, Box<Result<CallOutcome, Error>>),
    /// A call has made progress.
    CallProgress(CallToken, Progress),
    /// The editor of a file was closed; what is read from files is read again.
    FileEdited,
    /// The editor was closed; the text, unless it was abandoned.
    Edited(FormToken, Result<String, SafeText>),
    /// Something happened in the chat.
    Chat(ChatNews),
    /// The name of the model that drafts answers, if one is registered.
    Drafter(Option<SafeText>),
    /// The registered model has drafted an answer, or could not.
    Drafted(ApprovalId, Result<Drafted, Error>),
    /// A browser was started for a request, or could not be.
    Opened(ApprovalId, Result<(), SafeText>),
    /// The answers stored next to the configuration.
    KeptAnswers(Answers),
    /// An answer that is kept until the dashboard ends, without a file.
    KeptAnswer(Box<ScriptedAnswer>),
    /// The calls saved next to the configuration.
    SavedCalls(SavedCalls),
    /// There is something of this name already; the effect that replaces it.
    NameTaken(SafeText, Box<Effect>),
    /// Something that the user asked for could not be done, and why.
    NotDone(SafeText),
    /// A file was read for a field.
    FileRead(FormToken, Result<Vec<u8>, SafeText>),
    /// A file to be written already exists.
    FileExists(PathBuf, ResultFile),
    /// A file that the user named could not be written, and why.
    NotWritten(PathBuf, ResultFile, SafeText),
    /// A form was checked.
    Checked(FormToken, Box<CheckResult>),
    /// A picture of a result was worked on.
    PictureDone(ViewToken, Box<PictureDone>),
    /// The terminal replied to a graphics query.
    Terminal(TerminalReply),
    /// Theme sources and keymap text of the user changed.
    UserFiles(UserFiles),
    /// The process was asked to shut down (SIGTERM, SIGHUP, SIGINT).
    Terminate,
    /// A background task panicked; the program continues.
    WorkerPanicked(SafeText),
}

impl From<News> for Message {
    fn from(news: News) -> Self {
        Self::News(news)
    }
}

/// User files that configure themes and keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserFiles {
    /// Themes: name and TOML.
    pub themes: Vec<(String, String)>,
    /// The keymap, when there is one, or why it cannot be read.
    pub keymap: Option<Result<String, String>>,
    /// Why theme files cannot be read.
    pub unread: Vec<String>,
}

/// Identifies a call of the dashboard before it has an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CallToken {
    /// The number of its screen.
    pub screen: usize,
    /// What it is for there.
    pub what: CallPurpose,
}

/// What a call of a screen is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallPurpose {
    /// The run of this number.
    Run(u64),
    /// Completions for a field, requested with this ticket.
    Completion(u64),
}

/// Identifies a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FormToken {
    /// That of the call screen of this number.
    Call(usize),
    /// That of the answer to this request.
    Answer(ApprovalId),
}

/// Identifies a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ViewToken {
    /// The number of its screen.
    pub screen: usize,
    /// Its run on that screen.
    pub run: u64,
}
