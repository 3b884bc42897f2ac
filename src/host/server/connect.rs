//! The interface between the actor and the transport of a server.
//!
//! The actor handles no processes or sockets. A [`Connector`] opens a server and returns a session,
//! and a process where there is one. Tests and embedded servers provide their own connector.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Fact;
use crate::failure::StartFailure;
use crate::projector::Facts;
use crate::server::account::Account;
use crate::server::persons::CallerIdentity;
use crate::view::{StartStep, StepStatus};
use base::{SafeText, ServerName};
use config::ServerConfig;
use config::error::Error;
use mcp::SessionHandle;
use process::{ExitView, Grace, Usage};
use protocol::{Era, SessionContext};

/// Opens servers. One connector serves all servers of a host.
pub trait Connector: Send + Sync + 'static {
    /// Opens one server: finds the executable, starts the process or connects, runs the handshake.
    ///
    /// The future must complete soon after `request.cancel` fires, and must clean up after itself
    /// when it fails.
    fn open(&self, request: OpenRequest) -> BoxFuture<'static, Result<Opened, OpenError>>;

    /// Whether the processors are busy with starting servers, so that no more than `_width` should
    /// start at once.
    fn is_crowded(&self, _width: usize) -> BoxFuture<'static, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// The server to open, and its context.
#[derive(Clone)]
#[non_exhaustive]
pub struct OpenRequest {
    /// The server.
    pub config: Arc<ServerConfig>,
    /// The context of the session.
    pub context: SessionContext,
    /// The era that worked with this configuration before.
    pub remembered: Option<Era>,
    /// Deadline of the attempt.
    pub deadline: Instant,
    /// Cancels the attempt.
    pub cancel: CancellationToken,
    /// Skips the grace period when a process has to be stopped.
    pub force: CancellationToken,
    /// Records the steps of the start.
    pub steps: Steps,
    /// Its account, for OAuth sign-in.
    pub account: Arc<Account>,
    /// Whose session it is, where every caller has one of their own.
    pub caller: Option<CallerIdentity>,
}

/// An open server.
#[derive(Clone)]
pub struct Opened {
    /// Its session.
    pub session: Arc<dyn SessionHandle>,
    /// Its process; `None` when it is reached by URL or lives in this program.
    pub process: Option<Arc<dyn ProcessHandle>>,
}

/// How long a process may take to exit after its connection closed before it is stopped: most
/// crashes cause both, and the exit status is the better reason. Writing a core file on a busy
/// machine takes most of a second.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a session may take to close before its process is stopped anyway.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// How long a server has from the end of its stdin that asks something meanwhile: the question may
/// have crossed the end on its way, and then the server exits by itself.
const CROSSING_TIMEOUT: Duration = Duration::from_millis(100);

impl Opened {
    /// Closes the session, whose calls in flight fail with `reason`, and stops the process.
    ///
    /// A server that asks something after its stdin was closed can only wait for an answer that
    /// never comes: the rest of its time on closed stdin is skipped.
    pub async fn end(self, reason: Error, plan: StopPlan) -> Option<ExitReport> {
        if let Some(process) = &self.process {
            process.expect_exit();
        }
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.session.close(reason)).await;
        let process = self.process?;
        let mut stopping = process.stop(plan.clone());
        tokio::select! {
            biased;
            report = &mut stopping => return Some(report),
            () = self.session.asked_too_late() => {}
        }
        let stdin = plan.grace.stdin.min(CROSSING_TIMEOUT);
        let hastened = StopPlan { grace: Grace { stdin, ..plan.grace }, ..plan };
        Some(process.stop(hastened).await)
    }
}

/// A failed attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenError {
    /// The error, with what was and was not received.
    pub error: Error,
    /// Whether a retry may succeed.
    pub retryable: bool,
    /// How the process ended, when there was one.
    pub exit: Option<ExitReport>,
    /// Why, as data.
    pub failure: StartFailure,
}

impl OpenError {
    /// A permanent failure without a process.
    pub fn lasting(error: Error) -> Self {
        Self { error, retryable: false, exit: None, failure: StartFailure::default() }
    }
}

/// The process of a server. Dropping the last handle kills it.
pub trait ProcessHandle: Send + Sync + 'static {
    /// Its id; on Unix also the id of its session and process group.
    fn pid(&self) -> u32;
    /// Completes when the main process has exited, for any reason.
    fn exited(&self) -> BoxFuture<'static, ()>;
    /// Declares that its session is about to be closed on purpose: a following exit is not a crash,
    /// even before [`ProcessHandle::stop`].
    fn expect_exit(&self) {}
    /// Stops the process tree in stages. If the main process has already exited,
    /// cleans up the rest and reports.
    fn stop(&self, plan: StopPlan) -> BoxFuture<'static, ExitReport>;
    /// Its current resource usage; `None` where the platform does not report it.
    fn usage(&self) -> Option<Usage>;
    /// Whether it is suspended by a signal (SIGSTOP, SIGTSTP).
    fn is_suspended(&self) -> bool {
        false
    }
}

/// How to stop a process.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StopPlan {
    /// Time limit of each stage (`shutdownTimeout`, `stop`).
    pub grace: Grace,
    /// Skips the rest of the grace period.
    pub force: CancellationToken,
}

impl StopPlan {
    /// The plan of the entry: its stage limits (`stop`), or else its budget, split.
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

/// Records the steps of one start as facts, each with its duration.
#[derive(Clone)]
pub struct Steps {
    /// The server.
    pub server: ServerName,
    /// The sink for facts.
    pub facts: Facts,
    /// Whether nothing is recorded: the server has started, and this is one more session.
    pub is_quiet: bool,
}

/// A running step.
#[derive(Clone, Copy)]
pub struct RunningStep {
    step: StartStep,
    began: Instant,
}

impl Steps {
    /// Those of a server.
    pub fn new(server: &ServerName, facts: &Facts) -> Self {
        Self { server: server.clone(), facts: facts.clone(), is_quiet: false }
    }

    /// Records the beginning of a step.
    pub async fn begin(&self, step: StartStep) -> RunningStep {
        self.record(step, StepStatus::Running, None, None).await;
        RunningStep { step, began: Instant::now() }
    }

    /// Records the success of a step; `detail` is its result.
    pub async fn done(&self, running: RunningStep, detail: &str) {
        self.passed(running.step, running.began.elapsed(), Some(detail)).await;
    }

    /// Records the failure of a step, with its cause.
    pub async fn failed(&self, running: RunningStep, cause: &str) {
        let took = running.began.elapsed();
        self.record(running.step, StepStatus::Failed, Some(took), Some(cause)).await;
    }

    /// Records a completed step with a known duration.
    pub async fn passed(&self, step: StartStep, took: Duration, detail: Option<&str>) {
        self.record(step, StepStatus::Ok, Some(took), detail).await;
    }

    /// Records the exit of a process.
    pub async fn exited(&self, ExitReport { exit, stderr_tail }: ExitReport) {
        self.facts.record(&self.server, Fact::Exited { exit, stderr_tail }).await;
    }

    async fn record(
        &self,
        step: StartStep,
        status: StepStatus,
        took: Option<Duration>,
        detail: Option<&str>,
    ) {
        if self.is_quiet {
            return;
        }
        let detail = detail.map(SafeText::line);
        self.facts.record(&self.server, Fact::StepChanged { step, status, took, detail }).await;
    }
}
