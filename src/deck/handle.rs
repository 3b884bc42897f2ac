//! `Deck`: one running configuration, without a screen. Loads it, starts its servers, follows its
//! files, and applies each change as a plan; what needs the user (trust, inputs) is an event and a
//! command. `task` does the work.

use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use tokio::sync::{broadcast, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::command::{ConfigCommand, DeckEvent, Masks, Notebook};
use super::policy::PolicyKeeper;
use super::task;
use super::trust::TrustGate;
use config::error::{Error, ErrorCode};
use config::{Environment, McpConfig};
use host::{Host, HostBuilder, ShutdownReport};

/// Events that may wait for a reader; the oldest are dropped and counted ([`DeckEvent::Missed`]).
const EVENT_CAPACITY: usize = 256;
/// Commands that may wait; more are refused.
const COMMAND_CAPACITY: usize = 16;

/// Where the servers come from.
pub(super) enum DeckSource {
    /// Files, the last of them with the highest precedence.
    Files(Vec<PathBuf>),
    /// A ready configuration.
    Ready(Box<McpConfig>),
}

/// Builds a [`Deck`].
pub struct DeckBuilder {
    pub(super) source: DeckSource,
    pub(super) environment: Option<Environment>,
    pub(super) gate: TrustGate,
    pub(super) host: HostBuilder,
    /// Called with every configuration before it is used.
    pub masks: Option<Masks>,
    /// Called with what servers offer, at most once a second.
    pub notebook: Option<Notebook>,
    /// Also opens unusable files: they are reported as [`DeckEvent::Rejected`], and used once they
    /// are valid.
    pub keep_watching: bool,
    /// Files that do not exist count as files without servers until they are written.
    pub starts_empty: bool,
    /// Work to run with the host and the policy until the deck ends.
    pub alongside: Option<Alongside>,
    /// Whether callers other than the user may come: clients, pages, models. Otherwise grants and
    /// reviews are kept only where the policy applies to the user.
    pub serves_others: bool,
    /// The files whose policy is applied, where they are not those that are followed.
    pub(super) policy_files: Option<Vec<PathBuf>>,
}

/// Work that runs while a deck is open.
pub type Alongside = Box<dyn FnOnce(Host, PolicyKeeper) -> BoxFuture<'static, ()> + Send>;

impl DeckBuilder {
    /// Uses these files, the last of them with the highest precedence, and follows them.
    #[must_use]
    pub fn files(mut self, files: Vec<PathBuf>) -> Self {
        self.source = DeckSource::Files(files);
        self
    }

    /// Uses this configuration as is: no files are followed, and no approval is needed.
    #[must_use]
    pub fn config(mut self, config: McpConfig) -> Self {
        self.source = DeckSource::Ready(Box::new(config));
        self
    }

    /// Reads variables, folders and answered inputs from here instead of this process.
    #[must_use]
    pub fn environment(mut self, environment: Environment) -> Self {
        self.environment = Some(environment);
        self
    }

    /// What decides whether the commands of the files may run; by default they run without approval
    /// ([`TrustGate::Open`]).
    #[must_use]
    pub fn trust(mut self, gate: TrustGate) -> Self {
        self.gate = gate;
        self
    }

    /// Applies the policy of these files, where the configuration is a ready one.
    #[must_use]
    pub fn policy_of(mut self, files: Vec<PathBuf>) -> Self {
        self.policy_files = Some(files);
        self
    }

    /// The engine to use, with its handling of requests from servers and of servers that do not
    /// start. Its configuration is ignored.
    #[must_use]
    pub fn host(mut self, host: HostBuilder) -> Self {
        self.host = host;
        self
    }

    /// The files that are followed.
    pub fn followed(&self) -> &[PathBuf] {
        match &self.source {
            DeckSource::Files(files) => files,
            DeckSource::Ready(_) => &[],
        }
    }

    /// Loads the configuration and starts its servers. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] with every diagnostic, or [`ErrorCode::ServerStartup`] under
    /// [`host::Startup::All`].
    pub async fn open(mut self) -> Result<Deck, Error> {
        let (events, receiver) = broadcast::channel(EVENT_CAPACITY);
        let (commands, asked) = mpsc::channel(COMMAND_CAPACITY);
        let stop = CancellationToken::new();
        let guard = stop.clone().drop_guard();
        let (alongside, policy_files) = (self.alongside.take(), self.policy_files.take());
        let serves_others = self.serves_others;
        let work = task::DeckTask::open(self, events).await?;
        let host = work.host.clone();
        let files = policy_files.as_ref().unwrap_or(&work.files);
        let policy = if serves_others {
            PolicyKeeper::open(&host, files, &work.environment).await
        } else {
            PolicyKeeper::open_for_user(&host, files, &work.environment).await
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
/// # async fn example() -> Result<(), config::error::Error> {
/// let mut deck = mcpdeck_deck::Deck::open("mcp.json").await?;
/// let answer = deck.host().call_tool("time.now", serde_json::json!({})).await?;
/// while let Some(event) = deck.next().await {
///     if let mcpdeck_deck::DeckEvent::Reloaded(plan) = event {
///         println!("added {:?}, restarted {:?}", plan.added, plan.changed);
///     }
/// }
/// # Ok(()) }
/// ```
pub struct Deck {
    host: Host,
    policy: PolicyKeeper,
    commands: mpsc::Sender<ConfigCommand>,
    events: broadcast::Receiver<DeckEvent>,
    task: JoinHandle<ShutdownReport>,
    guard: tokio_util::sync::DropGuard,
}

impl Deck {
    /// Starts every server of a configuration file and follows the file; all servers must become
    /// ready. They run without approval, unless [`DeckBuilder::trust`] requires it.
    ///
    /// # Errors
    /// As [`DeckBuilder::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        Self::builder().files(vec![path.as_ref().to_path_buf()]).open().await
    }

    /// Starts building a deck.
    pub fn builder() -> DeckBuilder {
        DeckBuilder {
            source: DeckSource::Files(Vec::new()),
            environment: None,
            gate: TrustGate::Open,
            host: Host::builder(),
            masks: None,
            notebook: None,
            keep_watching: false,
            starts_empty: false,
            alongside: None,
            serves_others: false,
            policy_files: None,
        }
    }

    /// The engine: calls, lists and the view of every server. The same one through every reload.
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The policy of its files, which decides about every caller that it binds. Without a file
    /// nothing is stored, and nothing that servers offer has to be reviewed.
    pub const fn policy(&self) -> &PolicyKeeper {
        &self.policy
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

    /// Sends a command; its outcome is an event.
    ///
    /// # Errors
    /// [`ErrorCode::RateLimited`] while too many commands wait.
    pub fn ask(&self, command: ConfigCommand) -> Result<(), Error> {
        let busy = |_| Error::new(ErrorCode::RateLimited, "busy: try again in a moment");
        self.commands.try_send(command).map_err(busy)
    }

    /// Stops following the files, then stops every server; waits until they have ended.
    pub async fn shutdown(self) -> ShutdownReport {
        drop(self.guard);
        self.task.await.unwrap_or_default()
    }
}
