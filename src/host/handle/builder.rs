//! The builder of a host: source of the configuration, handler of requests from servers, startup
//! mode.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::approvals::RequestHandler;
use crate::approvals::queue::{ApprovalQueue, CallInFlight, CallsInFlight};
use crate::dev::Crew;
use crate::handle::{Host, HostInner, Startup};
use crate::server::connect::Connector;
use crate::server::memory::Memory;
use crate::server::reach::ServerReach;
use crate::server::slot::{Live, Slot, Slots};
use crate::shared::HostShared;
use crate::supervisor::{COMMAND_CAPACITY, Supervisor};
use crate::{ServerState, projector};
use base::{Clock, LogRecord, Ring, ServerName};
use config::error::{Error, ErrorCode};
use config::{Diagnostic, Environment, McpConfig};
use mcp::Accounts;
use protocol::CallId;

/// Where the configuration comes from.
enum ConfigSource {
    Ready(Box<McpConfig>),
    File(PathBuf),
    Text(String),
}

/// Builds a [`Host`].
#[derive(Default)]
pub struct HostBuilder {
    config: Option<ConfigSource>,
    startup: Startup,
    start_timeout: Option<Duration>,
    handler: Option<Arc<dyn RequestHandler>>,
    person_answers: bool,
    connector: Option<Arc<dyn Connector>>,
    accounts: Option<Accounts>,
    poll_sources: Option<bool>,
    memory: Option<Arc<dyn Memory>>,
    hands_over: bool,
}

/// Default time limit for starting all servers, under [`Startup::All`].
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Records and bytes of logs kept.
const LOGS: (usize, usize) = (20_000, 16 << 20);

impl HostBuilder {
    /// Reads the configuration from this file.
    #[must_use]
    pub fn config_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.config = Some(ConfigSource::File(path.into()));
        self
    }

    /// Reads the configuration from the text of an `mcp.json`, as if in the current folder.
    #[must_use]
    pub fn config_text(mut self, text: impl Into<String>) -> Self {
        self.config = Some(ConfigSource::Text(text.into()));
        self
    }

    /// Uses this configuration, built in code ([`config::ServerConfig::stdio`],
    /// [`config::ServerConfig::http`]) or already loaded.
    #[must_use]
    pub fn config(mut self, config: McpConfig) -> Self {
        self.config = Some(ConfigSource::Ready(Box::new(config)));
        self
    }

    /// Sets how a server that fails to start affects the others.
    #[must_use]
    pub fn startup(mut self, startup: Startup) -> Self {
        self.startup = startup;
        self
    }

    /// Sets the total time limit of [`Startup::All`] (`startTimeout`, default 60 s).
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = Some(timeout);
        self
    }

    /// Registers the application's handler for requests from servers.
    #[must_use]
    pub fn handler(mut self, handler: impl RequestHandler) -> Self {
        self.handler = Some(Arc::new(handler));
        self
    }

    /// Keeps requests from servers in [`crate::HostView::pending`] until [`Host::answer`] (as
    /// in the dashboard). A registered handler takes precedence.
    #[must_use]
    pub fn person_answers(mut self) -> Self {
        self.person_answers = true;
        self
    }

    /// Replaces processes and HTTP as the way to reach servers: for tests, and for servers in this
    /// program.
    #[must_use]
    pub fn connector(mut self, connector: impl Connector) -> Self {
        self.connector = Some(Arc::new(connector));
        self
    }

    /// Signs in with OAuth where servers require it. Without this, such servers fail to start.
    #[must_use]
    pub fn accounts(mut self, accounts: impl Into<Option<Accounts>>) -> Self {
        self.accounts = accounts.into();
        self
    }

    /// Enables `dev` of the entries: builds and restarts a server when its sources change. Without
    /// this, `dev` has no effect. `poll_only` polls even where file system events are available.
    #[must_use]
    pub fn follow_sources(mut self, poll_only: bool) -> Self {
        self.poll_sources = Some(poll_only);
        self
    }

    /// Remembers what servers offer, so that those with `"start": "onDemand"` need not start before
    /// the first call. Without this, they start once. Not used under [`Startup::All`].
    #[must_use]
    pub fn memory(mut self, memory: impl Memory) -> Self {
        self.memory = Some(Arc::new(memory));
        self
    }

    /// Does not wait for servers that are slow to stop: a small process, the guardian, finishes the
    /// stop of each after this program has exited, with the same time for every step. For programs
    /// that have done their work and are about to exit. Without a guardian (Windows), and for
    /// containers, the stop is waited for.
    #[must_use]
    pub fn hands_over(mut self) -> Self {
        self.hands_over = true;
        self
    }

    /// The startup mode.
    pub const fn startup_mode(&self) -> Startup {
        self.startup
    }

    /// Starts the servers.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] with every diagnostic, or [`ErrorCode::ServerStartup`] under
    /// [`Startup::All`].
    pub async fn initialize(self) -> Result<Host, Error> {
        let startup = self.startup;
        let budget = self.start_timeout.unwrap_or(START_TIMEOUT);
        let config = match self.config {
            Some(ConfigSource::Ready(config)) => *config,
            Some(source) => load(source, startup).await?,
            None => {
                let help = "name a file with `config_file`, or give a `config_text` or a `config`";
                return Err(
                    Error::new(ErrorCode::Configuration, "there is no configuration").help(help)
                );
            }
        };
        let (accounts, asks, hands_over) = (self.accounts, self.person_answers, self.hands_over);
        let reach = || Arc::new(ServerReach { accounts, asks, hands_over });
        let connector = self.connector.unwrap_or_else(|| reach());
        let logs: Ring<LogRecord> = Ring::new(LOGS.0, LOGS.1);
        let projection = projector::start(Clock::system(), logs.clone());
        let facts = projection.facts.clone();
        let approvals = Arc::new(ApprovalQueue::new(facts.clone(), self.handler, asks));
        let memory = self.memory.filter(|_| startup != Startup::All);
        let shared = HostShared::new(facts, logs, Arc::clone(&approvals), connector, memory);
        let shared = Arc::new(shared);
        approvals.attach(AskingCalls(Arc::downgrade(&shared)));
        let mut supervisor =
            Supervisor::new(Arc::clone(&shared), config, Crew::new(self.poll_sources))?;
        let (orders, ordered) = mpsc::channel(COMMAND_CAPACITY);
        let abandoned = CancellationToken::new();
        // From here on, dropping the handle (or this future) stops the servers.
        let host = Host {
            inner: Arc::new(HostInner {
                shared,
                view: projection.view,
                facts: projection.kept,
                orders,
                abandoned: abandoned.clone(),
                report: Mutex::default(),
            }),
        };
        supervisor.begin().await;
        tokio::spawn(supervisor.run(ordered, abandoned));
        host.wait_for_start(startup, budget).await
    }
}

/// The calls in flight, for the approval queue.
struct AskingCalls(Weak<HostShared>);

impl AskingCalls {
    fn slot(&self, server: &ServerName) -> Option<Arc<Slot>> {
        self.0.upgrade()?.slots().get(server).cloned()
    }
}

impl CallsInFlight for AskingCalls {
    fn find(&self, server: &ServerName, call: CallId) -> Option<CallInFlight> {
        self.slot(server)?.call_in_flight(call)
    }

    fn record_question(&self, server: &ServerName, calls: &[CallId]) {
        if let Some(slot) = self.slot(server) {
            slot.turns.record_question(calls);
        }
    }
}

impl Host {
    /// Starts building a host.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Starts every server of a configuration file; all must become ready.
    ///
    /// # Errors
    /// As [`HostBuilder::initialize`].
    pub async fn initialize(path: impl Into<PathBuf>) -> Result<Self, Error> {
        Self::builder().config_file(path).initialize().await
    }

    async fn wait_for_start(self, startup: Startup, budget: Duration) -> Result<Self, Error> {
        let slots = self.inner.shared.slots();
        match startup {
            Startup::Background => return Ok(self),
            Startup::Available => {
                futures::future::join_all(slots.values().map(|slot| settled(slot))).await;
            }
            Startup::All => {
                let all = slots.values().map(|slot| async move {
                    settled(slot).await;
                    ready_or_disabled(slot)
                });
                let all = tokio::time::timeout(budget, futures::future::try_join_all(all)).await;
                let all = all.unwrap_or_else(|_| Err(too_slow(&slots, budget)));
                if let Err(error) = all {
                    self.shutdown().await;
                    return Err(error);
                }
            }
        }
        self.inner.shared.facts.flush().await;
        Ok(self)
    }
}

/// Loads the configuration. Under [`Startup::All`] one invalid entry rejects it; otherwise the
/// valid entries are used, and the view has the problems of the others.
async fn load(source: ConfigSource, startup: Startup) -> Result<McpConfig, Error> {
    let loading = move || {
        let env = Environment::of_process();
        let loaded = match source {
            ConfigSource::Ready(config) => return Ok(*config),
            ConfigSource::File(path) => config::load(&[path], &env)?,
            ConfigSource::Text(text) => config::load_text("mcp.json".as_ref(), &text, &env)?,
        };
        if startup == Startup::All {
            return loaded.complete();
        }
        let mut config = loaded.config;
        config.warnings = loaded.diagnostics;
        config.warnings.extend(loaded.needs.into_iter().map(|need| need.problem));
        Ok(config)
    };
    let loaded = tokio::task::spawn_blocking(loading).await;
    let loaded = loaded.map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))?;
    loaded.map_err(refused)
}

fn refused(diagnostics: Vec<Diagnostic>) -> Error {
    let errors: Vec<&Diagnostic> = diagnostics.iter().filter(|d| d.is_error()).collect();
    let first = errors.first().map(|d| format!("{}: {}", d.at, d.message)).unwrap_or_default();
    let message = match errors.len() {
        0 | 1 => format!("the configuration cannot be used: {first}"),
        many => format!("the configuration cannot be used: {first}; and {} more", many - 1),
    };
    let mut error = Error::new(ErrorCode::Configuration, message);
    error.diagnostics = diagnostics;
    error
}

/// Waits until a server has no transition pending ([`Live::settled`]).
pub(super) async fn settled(slot: &Slot) {
    let _ = slot.watch().wait_for(|live| live.settled).await;
}

/// The error for a start that timed out; names the servers that are not settled.
fn too_slow(slots: &Slots, budget: Duration) -> Error {
    let missing = slots.values().map(|slot| (slot, slot.live()));
    let missing = missing.filter(|(_, live)| !live.settled);
    let missing: Vec<String> =
        missing.map(|(slot, live)| format!("`{}` is {}", slot.name, live.state.as_str())).collect();
    let seconds = budget.as_secs_f64();
    let message = format!("not all servers started within {seconds} s: {}", missing.join(", "));
    Error::new(ErrorCode::ServerStartup, message)
        .help("give the start of all more time, or use those that are available")
}

fn ready_or_disabled(slot: &Slot) -> Result<(), Error> {
    let live = slot.live();
    if live.session.is_some() || live.state == ServerState::Disabled {
        return Ok(());
    }
    let help = "see its stderr and its traffic; `--check` shows every step";
    Err(not_started(slot, &live).help(help))
}

pub(super) fn not_started(slot: &Slot, live: &Live) -> Error {
    let message = match &live.reason {
        Some(reason) => format!("did not start: {reason}"),
        None => format!("did not start: it is {}", live.state.as_str()),
    };
    Error::new(ErrorCode::ServerStartup, message).server(&slot.name)
}

#[cfg(all(test, not(feature = "http")))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_over_http_is_refused_by_a_build_without_it() {
        let text = r#"{"servers": {"far": {"url": "http://127.0.0.1:9/mcp"}}}"#.to_owned();
        let host = Host::builder().config_text(text).startup(Startup::All).initialize().await;
        let Err(error) = host else { panic!("it cannot be reached") };
        assert_eq!(error.code, ErrorCode::ServerStartup);
        assert!(error.to_string().contains("built without HTTP (the feature `http`"), "{error}");
    }
}
