//! How a server is reached: the seam between the actor and everything below it.
//!
//! The actor knows no process and no socket. It asks a [`Connector`] to open a server and gets a
//! session, and a process when there is one. Tests and embedded servers bring their own.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::{SafeText, ServerName};
use crate::config::ServerConfig;
use crate::error::Error;
use crate::host::Fact;
use crate::host::projector::Facts;
use crate::host::server::account::Account;
use crate::host::view::{StartStep, StepStatus};
use crate::mcp::{Era, SessionContext, SessionHandle};
use crate::process::{ExitView, Grace, Usage};

/// Opens servers. One value serves every server of a host.
pub trait Connector: Send + Sync + 'static {
    /// Opens one server: finds the executable, starts the process or connects, shakes hands.
    ///
    /// The future must end soon after `request.cancel` fires, and must leave nothing behind when
    /// it fails.
    fn open(&self, request: OpenRequest) -> BoxFuture<'static, Result<Opened, OpenError>>;

    /// Whether servers that start keep the processors busy, so that no more than that many of them
    /// should start at once.
    fn is_crowded(&self, _width: usize) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// What is to be opened, and how.
#[derive(Clone)]
pub struct OpenRequest {
    /// The server.
    pub config: Arc<ServerConfig>,
    /// What the session needs from its owner.
    pub context: SessionContext,
    /// The era that worked with this configuration before.
    pub remembered: Option<Era>,
    /// When the attempt must be over.
    pub deadline: Instant,
    /// Fires when the attempt is no longer wanted.
    pub cancel: CancellationToken,
    /// Skips the grace when something has to be ended.
    pub force: CancellationToken,
    /// Where the steps of the start are told.
    pub steps: Steps,
    /// Its account, where somebody signs in.
    pub account: Arc<Account>,
}

/// An open server.
#[derive(Clone)]
pub struct Opened {
    /// Its session.
    pub session: Arc<dyn SessionHandle>,
    /// Its process; `None` when it is reached by URL or lives in this program.
    pub process: Option<Arc<dyn ProcessHandle>>,
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenError {
    /// What happened, with what was seen and what was not.
    pub error: Error,
    /// Whether it can pass by itself.
    pub retryable: bool,
    /// How the process ended, when there was one.
    pub exit: Option<ExitReport>,
}

impl OpenError {
    /// A failure that will not pass by itself and had no process.
    pub fn lasting(error: Error) -> Self {
        Self { error, retryable: false, exit: None }
    }
}

/// The process of a server, as far as its actor sees it. Dropping the last handle kills it.
pub trait ProcessHandle: Send + Sync + 'static {
    /// Its id, which is also that of its session and group on Unix.
    fn pid(&self) -> u32;
    /// Ends when the leader has exited, whether asked or not.
    fn exited(&self) -> BoxFuture<'static, ()>;
    /// Says that its session is about to be closed on purpose: an exit that follows is no crash, even
    /// when it comes before [`ProcessHandle::stop`].
    fn expect_exit(&self) {}
    /// Ends it and everything it started, by the ladder (requirement L5). On one that has exited
    /// already it sweeps what is left and reports.
    fn stop(&self, plan: StopPlan) -> BoxFuture<'static, ExitReport>;
    /// What it uses now; `None` where the platform does not tell.
    fn usage(&self) -> Option<Usage>;
    /// Whether a signal stopped it and none has let it go on since (SIGSTOP, SIGTSTP).
    fn is_suspended(&self) -> bool {
        false
    }
}

/// How a process is to be ended.
#[derive(Clone, Debug)]
pub struct StopPlan {
    /// Time on each rung of the ladder (`shutdownTimeout`, `stop`).
    pub grace: Grace,
    /// Skips what is left of the grace.
    pub force: CancellationToken,
}

impl StopPlan {
    /// As the entry says: its rungs, or its budget split as decision D10 has it.
    pub fn new(config: &ServerConfig, force: &CancellationToken) -> Self {
        let split = Grace::within(config.shutdown_timeout);
        let grace = Grace {
            stdin: config.stop.stdin.unwrap_or(split.stdin),
            term: config.stop.term.unwrap_or(split.term),
        };
        Self { grace, force: force.clone() }
    }
}

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExitReport {
    /// How.
    pub exit: ExitView,
    /// The last lines of stderr.
    pub stderr_tail: Vec<SafeText>,
}

/// Tells the steps of one start as facts, each with the time it took.
#[derive(Clone)]
pub struct Steps {
    /// The server.
    pub server: ServerName,
    /// Where facts go.
    pub facts: Facts,
}

/// A step that runs.
pub struct RunningStep {
    step: StartStep,
    began: Instant,
}

impl Steps {
    /// A step begins.
    pub async fn begin(&self, step: StartStep) -> RunningStep {
        self.tell(step, StepStatus::Running, None, None).await;
        RunningStep { step, began: Instant::now() }
    }

    /// A step ended well; `detail` is what was found.
    pub async fn done(&self, running: RunningStep, detail: &str) {
        self.passed(running.step, running.began.elapsed(), Some(detail)).await;
    }

    /// A step failed; `cause` says why.
    pub async fn failed(&self, running: RunningStep, cause: &str) {
        let took = running.began.elapsed();
        self.tell(running.step, StepStatus::Failed, Some(took), Some(cause)).await;
    }

    /// A step that took this long, seen from outside.
    pub async fn passed(&self, step: StartStep, took: Duration, detail: Option<&str>) {
        self.tell(step, StepStatus::Ok, Some(took), detail).await;
    }

    /// A process ended during the start: one era did not work, or the attempt failed.
    pub async fn exited(&self, ExitReport { exit, stderr_tail }: ExitReport) {
        self.facts.record(&self.server, Fact::Exited { exit, stderr_tail }).await;
    }

    async fn tell(
        &self,
        step: StartStep,
        status: StepStatus,
        took: Option<Duration>,
        detail: Option<&str>,
    ) {
        let detail = detail.map(SafeText::line);
        self.facts.record(&self.server, Fact::StepChanged { step, status, took, detail }).await;
    }
}
