//! `Deck`: one running configuration, without a screen. Loads it, starts its servers, follows its
//! files, and applies each change as a plan; what needs a person (trust, inputs) is an event and a
//! command. `task` is what does the work.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::policy::PolicyKeeper;
use super::situation::{FileText, Situation};
use super::task;
use super::trust::Gate;
use crate::base::{SafeText, Secret, ServerName};
use crate::config::edit::entry::ShownEntry;
use crate::config::{ConfigChange, Environment, McpConfig};
use crate::error::{Error, ErrorCode};
use crate::host::handle::ShutdownReport;
use crate::host::{Host, HostBuilder, HostView};

/// Events that may wait for a reader; the oldest are dropped and counted ([`DeckEvent::Missed`]).
const EVENTS: usize = 256;
/// Commands that may wait; more are refused.
const COMMANDS: usize = 16;

/// Is told of every configuration before it is used, so that its secrets are kept out of the log.
pub type Masks = Arc<dyn Fn(&McpConfig) + Send + Sync>;

/// Is told what the servers of a configuration offer, soon after that changed.
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

/// Where the servers come from.
pub(super) enum Source {
    /// Files, the last of them with the highest precedence.
    Files(Vec<PathBuf>),
    /// A ready configuration.
    Ready(Box<McpConfig>),
}

/// Builds a [`Deck`].
pub struct DeckBuilder {
    pub(super) source: Source,
    pub(super) environment: Option<Environment>,
    pub(super) gate: Gate,
    pub(super) host: HostBuilder,
    pub(super) masks: Option<Masks>,
    pub(super) notebook: Option<Notebook>,
    pub(super) keep_watching: bool,
    pub(super) alongside: Option<Alongside>,
    pub(super) keeps_policy: bool,
}

/// Work that is done as long as a deck is open.
type Alongside = Box<dyn FnOnce(Host, Option<PolicyKeeper>) -> BoxFuture<'static, ()> + Send>;

impl DeckBuilder {
    /// Uses these files, the last of them with the highest precedence, and follows them.
    #[must_use]
    pub fn files(mut self, files: Vec<PathBuf>) -> Self {
        self.source = Source::Files(files);
        self
    }

    /// Uses this configuration as it is: nothing is followed, nobody is asked for trust.
    #[must_use]
    pub fn config(mut self, config: McpConfig) -> Self {
        self.source = Source::Ready(Box::new(config));
        self
    }

    /// Reads variables, folders and answered inputs from here instead of this process.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Whose word counts before a command of the files runs; by default that of the program which
    /// opens them ([`Gate::Open`]).
    #[must_use]
    pub fn trust(mut self, gate: Gate) -> Self {
        self.gate = gate;
        self
    }

    /// The engine to use: who answers requests of servers, and what a server that does not start
    /// means. Its configuration is not used.
    #[must_use]
    pub fn host(mut self, host: HostBuilder) -> Self {
        self.host = host;
        self
    }

    /// Tells of every configuration before it is used.
    #[must_use]
    pub fn masks(mut self, masks: Masks) -> Self {
        self.masks = Some(masks);
        self
    }

    /// Tells what servers offer, at most once a second.
    #[must_use]
    pub fn notebook(mut self, notebook: Notebook) -> Self {
        self.notebook = Some(notebook);
        self
    }

    /// Opens files that cannot be used too: they are [`DeckEvent::Rejected`], and used when they
    /// can be.
    #[must_use]
    pub fn keep_watching(mut self) -> Self {
        self.keep_watching = true;
        self
    }

    /// Does this with the host, and with what decides where that is kept, once it runs, until the
    /// deck ends.
    #[must_use]
    pub fn alongside(
        mut self,
        work: impl FnOnce(Host, Option<PolicyKeeper>) -> BoxFuture<'static, ()> + Send + 'static,
    ) -> Self {
        self.alongside = Some(Box::new(work));
        self
    }

    /// Decides about callers that are not the person by the files of the policy, and keeps what was
    /// approved of the servers ([`Deck::policy`]).
    #[must_use]
    pub fn keep_policy(mut self) -> Self {
        self.keeps_policy = true;
        self
    }

    /// The files that are followed.
    pub fn followed(&self) -> &[PathBuf] {
        match &self.source {
            Source::Files(files) => files,
            Source::Ready(_) => &[],
        }
    }

    /// Loads the configuration and starts its servers. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] with every diagnostic, or [`ErrorCode::ServerStartup`] under
    /// [`crate::Startup::All`].
    pub async fn open(mut self) -> Result<Deck, Error> {
        let (events, receiver) = broadcast::channel(EVENTS);
        let (commands, asked) = mpsc::channel(COMMANDS);
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        let (alongside, keeps_policy) = (self.alongside.take(), self.keeps_policy);
        let work = task::Work::open(self, events).await?;
        let host = work.host.clone();
        let policy = if keeps_policy {
            Some(PolicyKeeper::open(&host, &work.files, &work.environment).await)
        } else {
            None
        };
        if let Some(alongside) = alongside {
            tokio::spawn(
                stop.clone().run_until_cancelled_owned(alongside(host.clone(), policy.clone())),
            );
        }
        let task = tokio::spawn(work.run(asked, stop));
        Ok(Deck { host, policy, commands, events: receiver, task, guard })
    }
}

/// One running configuration. Dropping it stops its servers, once the handles to its host are gone
/// too; [`Deck::shutdown`] also waits for that.
///
/// ```no_run
/// # async fn example() -> Result<(), mcpdeck::Error> {
/// let mut deck = mcpdeck::Deck::open("mcp.json").await?;
/// let answer = deck.host().call_tool("time.now", serde_json::json!({})).await?;
/// while let Some(event) = deck.next().await {
///     if let mcpdeck::DeckEvent::Reloaded(plan) = event {
///         println!("added {:?}, restarted {:?}", plan.added, plan.changed);
///     }
/// }
/// # Ok(()) }
/// ```
pub struct Deck {
    host: Host,
    policy: Option<PolicyKeeper>,
    commands: mpsc::Sender<ConfigCommand>,
    events: broadcast::Receiver<DeckEvent>,
    task: JoinHandle<ShutdownReport>,
    guard: tokio_util::sync::DropGuard,
}

impl Deck {
    /// Starts every server of a configuration file and follows the file; all servers must become
    /// ready. What the file names runs: [`DeckBuilder::trust`] asks before.
    ///
    /// # Errors
    /// As [`DeckBuilder::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().files(vec![path.as_ref().to_path_buf()]).open().await
    }

    /// Starts building a deck.
    pub fn builder() -> DeckBuilder {
        DeckBuilder {
            source: Source::Files(Vec::new()),
            environment: None,
            gate: Gate::Open,
            host: Host::builder(),
            masks: None,
            notebook: None,
            keep_watching: false,
            alongside: None,
            keeps_policy: false,
        }
    }

    /// The engine: calls, lists and the view of every server. The same one through every reload.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// What decides about callers that are not the person ([`DeckBuilder::keep_policy`]).
    pub const fn policy(&self) -> Option<&PolicyKeeper> {
        self.policy.as_ref()
    }

    /// The next event; `None` after the end. Cancel-safe. Overflow policy: the oldest events are
    /// dropped and counted.
    pub async fn next(&mut self) -> Option<DeckEvent> {
        match self.events.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(DeckEvent::Missed(count)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    /// Asks for something; what comes of it is an event.
    ///
    /// # Errors
    /// [`ErrorCode::RateLimited`] while too many commands wait.
    pub fn ask(&self, command: ConfigCommand) -> Result<(), Error> {
        let busy = |_| Error::new(ErrorCode::RateLimited, "busy: try again in a moment");
        self.commands.try_send(command).map_err(busy)
    }

    /// Stops following the files, then every server; waits for that.
    pub async fn shutdown(self) -> ShutdownReport {
        drop(self.guard);
        self.task.await.unwrap_or_default()
    }
}

// What a person or a program wants of the configuration and its files.

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
