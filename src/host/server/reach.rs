//! The production connector: processes over pipes, and servers at URLs.
//!
//! Owns the order of attempts: a process has the whole `startupTimeout`, and its era
//! probe may wait as long as the handshake. Only a response, or an exit after the request, leads to
//! another attempt, with a new process: a server may stay in the era of the first request.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::Fact;
use crate::failure::{AddressAdvice, StartCause, StartFailure};
use crate::server::account::Account;
use crate::server::connect::{
    Connector, EXIT_TIMEOUT, ExitReport, OpenError, OpenRequest, Opened, ProcessHandle,
    RunningStep, StopPlan,
};
use crate::server::persons::CallerIdentity;
use crate::server::remedy::{self, FailureOutput};
use crate::view::StartStep;
use base::LogSource;
use base::human::Dur;
use config::error::{Error, ErrorCode};
use config::{HttpConfig, OAuthConfig, OpenApiConfig, StdioConfig, TransportConfig};
use mcp::{
    Accounts, Attempt, AuthFailure, ConnectError, Connected, Endpoint, HttpEndpoint, attempts,
    connect,
};
use process::{
    self, Container, Grace, Launch, ProcessContext, ServerProcess, SpawnError, Spawned, Usage,
};

/// Starts processes and connects to URLs.
#[derive(Clone, Debug, Default)]
pub struct ServerReach {
    /// Accounts for OAuth sign-in; `None` disables it.
    pub accounts: Option<Accounts>,
    /// Whether the user can be asked to sign in, through the approval queue.
    pub asks: bool,
    /// Whether processes that are slow to stop are left to the guardian.
    pub hands_over: bool,
}

/// How long a process may take to stop before it is left to the guardian.
const HANDOVER_TIMEOUT: Duration = Duration::from_millis(250);

/// Lines of stderr kept after the exit of a process.
const MAX_STDERR_LINES: usize = 120;
/// Exit codes of shells and loaders for "cannot execute" and "not found".
const NEVER_RETRIED: [i32; 2] = [126, 127];

impl Connector for ServerReach {
    fn is_crowded(&self, width: usize) -> BoxFuture<'static, bool> {
        // Half the width is one process per processor.
        Box::pin(async move { process::running().await >= width.div_ceil(2) })
    }

    fn open(&self, request: OpenRequest) -> BoxFuture<'static, Result<Opened, OpenError>> {
        let Self { accounts, asks, hands_over } = self.clone();
        Box::pin(async move {
            let (endpoint, http): (fn(HttpEndpoint) -> Endpoint, _) =
                match request.config.transport.clone() {
                    TransportConfig::Stdio(stdio) => {
                        return open_process(&request, &stdio, hands_over).await;
                    }
                    TransportConfig::Http(http) => (Endpoint::Http, http),
                    TransportConfig::Sse(http) => (Endpoint::Sse, http),
                    TransportConfig::WebSocket(http) => (Endpoint::WebSocket, http),
                    TransportConfig::OpenApi(api) => {
                        return open_api(request, *api, accounts.as_ref(), asks).await;
                    }
                };
            let server = signing_in(&request, accounts.as_ref(), http, asks).await?;
            let is_http = matches!(request.config.transport, TransportConfig::Http(_));
            match ConnectPlan::Url(endpoint, Box::new(server.clone())).open(&request).await {
                Err(failure) if is_http && request.context.seen.refused_post() => {
                    // Retry with HTTP+SSE, which a server that rejects POST there may speak
                    // (specification 2025-11-25, transports, backwards compatibility).
                    let older = Endpoint::Sse(server);
                    let connected = handshake(&request, older, &Attempt::Legacy(None)).await;
                    connected
                        .map(|connected| Opened { session: connected.session, process: None })
                        .map_err(|_| failure)
                }
                opened => opened,
            }
        })
    }
}

/// Opens an HTTP API. It knows nothing of MCP, so that there is one era and one attempt, and signing
/// in is for the entry to ask for.
async fn open_api(
    request: OpenRequest,
    api: OpenApiConfig,
    accounts: Option<&Accounts>,
    asks: bool,
) -> Result<Opened, OpenError> {
    let signs_in = *api.http.oauth != OAuthConfig::default();
    let accounts = accounts.filter(|_| signs_in);
    let server = signing_in(&request, accounts, api.http.clone(), asks).await?;
    let tries = attempts(&request.config.protocol, None);
    let attempt = tries.first().cloned().unwrap_or(Attempt::Auto);
    match handshake(&request, Endpoint::OpenApi { api: Box::new(api), server }, &attempt).await {
        Ok(connected) => Ok(Opened { session: connected.session, process: None }),
        Err(FailedHandshake { connect: ConnectError { error, retryable, .. }, is_late }) => {
            let cause = if is_late { StartCause::TimedOut } else { StartCause::Other };
            Err(OpenError { error, retryable, exit: None, failure: cause.into() })
        }
    }
}

async fn open_process(
    request: &OpenRequest,
    stdio: &StdioConfig,
    hands_over: bool,
) -> Result<Opened, OpenError> {
    let step = request.steps.begin(StartStep::Resolve).await;
    let launch = match process::resolve(stdio) {
        Ok(launch) => launch,
        Err(problem) => return Err(not_started(request, step, problem).await),
    };
    request.steps.done(step, &launch.program.display().to_string()).await;
    ConnectPlan::Process { launch, hands_over }.open(request).await
}

/// How attempts reach a server.
enum ConnectPlan {
    Process { launch: Launch, hands_over: bool },
    Url(fn(HttpEndpoint) -> Endpoint, Box<HttpEndpoint>),
}

impl ConnectPlan {
    /// Makes attempts until one succeeds or no further one can.
    async fn open(self, request: &OpenRequest) -> Result<Opened, OpenError> {
        let tries = attempts(&request.config.protocol, request.remembered);
        let none = Error::new(ErrorCode::Internal, "no protocol was left to try");
        let mut outcome = OpenError::lasting(none);
        for (at, attempt) in tries.iter().enumerate() {
            let last = at + 1 == tries.len();
            let failure = match self.attempt(request, attempt).await {
                Ok(opened) => return Ok(opened),
                Err(failure) => failure,
            };
            // Stopping the failed process may have used up the time; another one would time out
            // immediately.
            let time = request.deadline > Instant::now();
            let another = failure.another_era && time && !request.cancel.is_cancelled();
            if another
                && !last
                && let Some(report) = failure.error.exit.clone()
            {
                request.steps.exited(report).await;
            }
            outcome = failure.error;
            if !another {
                break;
            }
        }
        Err(outcome)
    }

    async fn attempt(
        &self,
        request: &OpenRequest,
        attempt: &Attempt,
    ) -> Result<Opened, TryFailure> {
        let endpoint = match self {
            Self::Process { launch, hands_over } => {
                return try_process(request, launch.clone(), *hands_over, attempt).await;
            }
            Self::Url(endpoint, http) => endpoint((**http).clone()),
        };
        match handshake(request, endpoint, attempt).await {
            Ok(connected) => Ok(Opened { session: connected.session, process: None }),
            Err(FailedHandshake { connect, is_late }) => {
                let advice = address_advice(request, &connect);
                let ConnectError { mut error, retryable, unauthorized, .. } = connect;
                if let Some(advice) = advice
                    && (advice != AddressAdvice::Unreachable || error.help.is_none())
                {
                    error = error.help(advice.words());
                }
                let cause = match advice {
                    _ if is_late => StartCause::TimedOut,
                    Some(advice) => StartCause::Address(advice),
                    None => StartCause::Other,
                };
                let error = OpenError { error, retryable, exit: None, failure: cause.into() };
                Err(TryFailure { error, another_era: !unauthorized })
            }
        }
    }
}

/// What helps where a connection to an address failed, if that is known.
fn address_advice(request: &OpenRequest, failure: &ConnectError) -> Option<AddressAdvice> {
    let (status, messages) = request.context.seen.with(|seen| (seen.http, seen.messages));
    let known = remedy::of_address(&failure.error.message, status.filter(|_| messages == 0));
    // What another attempt cannot change failed before anything was sent.
    let is_silent = status.is_none() && failure.retryable && !failure.unauthorized;
    known.or(is_silent.then_some(AddressAdvice::Unreachable))
}

async fn not_started(request: &OpenRequest, step: RunningStep, problem: SpawnError) -> OpenError {
    request.steps.failed(step, &problem.error.message).await;
    let SpawnError { error, retryable, advice, .. } = problem;
    let failure = StartCause::Launch(advice).into();
    OpenError { error: error.server(&request.config.name), retryable, exit: None, failure }
}

/// A failed attempt, and whether the other era is worth trying.
struct TryFailure {
    error: OpenError,
    another_era: bool,
}

/// The process of a server, and the container it runs.
struct RunningProcess {
    process: ServerProcess,
    container: Option<Container>,
    hands_over: bool,
}

async fn try_process(
    request: &OpenRequest,
    mut launch: Launch,
    hands_over: bool,
    attempt: &Attempt,
) -> Result<Opened, TryFailure> {
    let step = request.steps.begin(StartStep::Spawn).await;
    let session = &request.context;
    let container = Container::prepare(&mut launch);
    // The guardian knows of no containers.
    let hands_over = hands_over && container.is_none();
    let context = ProcessContext {
        server: session.server.clone(),
        clock: session.clock,
        redactor: session.redactor.clone(),
        logs: session.logs.clone(),
        source: LogSource::Stderr,
        stderr_line_bytes: session.limits.stderr_line_bytes,
        stderr_bytes: session.limits.stderr_bytes,
        outlives_host: hands_over,
    };
    if let Some(container) = &container {
        container.end_left().await;
    }
    let Spawned { stdin, stdout, process } = match process::spawn(launch, context).await {
        Ok(spawned) => spawned,
        Err(problem) => {
            let error = not_started(request, step, problem).await;
            return Err(TryFailure { error, another_era: false });
        }
    };
    request.steps.facts.record(&session.server, Fact::Spawned { pid: process.pid() }).await;
    request.steps.done(step, &format!("pid {}", process.pid())).await;
    let process = RunningProcess { process, container, hands_over };
    let endpoint = Endpoint::Pipe { read: Box::new(stdout), write: Box::new(stdin) };
    let failure = match handshake(request, endpoint, attempt).await {
        Ok(connected) => {
            let process: Arc<dyn ProcessHandle> = Arc::new(process);
            return Ok(Opened { session: connected.session, process: Some(process) });
        }
        Err(failure) => failure,
    };
    Err(end_failed(request, process, failure).await)
}

/// Maximum grace period of a process that never responded.
const MUTE_GRACE: Grace =
    Grace { stdin: Duration::from_millis(400), term: Duration::from_millis(600) };

/// Stops the process of a failed handshake and adds its exit to the error.
async fn end_failed(
    request: &OpenRequest,
    process: RunningProcess,
    FailedHandshake { connect: failure, is_late: late }: FailedHandshake,
) -> TryFailure {
    let closed = failure.closed && !request.cancel.is_cancelled();
    if closed {
        // How it ended is known once its family is gone too, which may take longer.
        let _ = tokio::time::timeout(EXIT_TIMEOUT, process.process.wait()).await;
    }
    // One whose input has ended may leave while it is watched: that is no exit of its own.
    process.expect_exit();
    let work =
        if late { LateWork::watch(request, &process.process).await } else { LateWork::default() };
    // A process that sent no message has nothing to finish, so a short grace period suffices.
    let mute = request.context.seen.with(|seen| seen.messages == 0);
    let mut plan = StopPlan::new(&request.config, &request.force);
    if mute {
        plan.grace = plan.grace.at_most(MUTE_GRACE);
    }
    let report = ProcessHandle::stop(&process, plan).await;
    let ExitReport { exit, stderr_tail } = &report;
    let by_itself = closed && !exit.expected;
    let junk = request.context.seen.with(|seen| seen.first_junk.clone());
    let words = FailureOutput {
        exit: by_itself.then_some(exit),
        stderr: stderr_tail,
        junk: junk.as_deref(),
        was_ready: false,
    };
    let mut error = failure.error;
    if let Some(used) = work.used {
        let used = if used.is_zero() { "no".to_owned() } else { format!("{} of", Dur(used)) };
        error.message = format!("{}; it used {used} processor time", error.message);
    }
    if let Some(help) = remedy::remedy(words) {
        error = error.help(help);
    } else if late {
        error = error.help(remedy::late_start(work.goes_on, stderr_tail.is_empty()));
    }
    let mut lasting = !failure.retryable;
    // A process that exits before it has read the request does not fail because of the era. This
    // includes a closed pipe whose exit is not known yet, as on a busy machine.
    let never_answered = failure.closed && process.process.ignored_stdin();
    let another_era = !failure.unauthorized && !never_answered;
    let mut quotes_stderr = false;
    if by_itself {
        // Programs that explain themselves on stdout do so in its first line.
        let said =
            remedy::error_text(stderr_tail).or_else(|| junk.map(|line| line.trim().to_owned()));
        let said = said.map(|text| format!(": {text}")).unwrap_or_default();
        error.message = format!("{} before it was ready{said}", exit.describe());
        lasting = exit.code.is_some_and(|code| NEVER_RETRIED.contains(&code));
    } else if let Some(line) =
        remedy::reported_error(stderr_tail).or_else(|| remedy::prompt(stderr_tail))
    {
        // It was waited for in vain; what it complained of meanwhile is the likely reason.
        error.message = format!("{}; on stderr: {}", error.message, line.trim());
        quotes_stderr = true;
    }
    let cause = match (by_itself, late) {
        (true, _) => StartCause::Exited,
        (false, true) => StartCause::TimedOut,
        (false, false) => StartCause::Other,
    };
    let failure = StartFailure { cause, quotes_stderr };
    TryFailure {
        error: OpenError { error, retryable: !lasting, exit: Some(report), failure },
        another_era: another_era && !(by_itself && lasting),
    }
}

/// What a process had done when its time to start was over.
#[derive(Default)]
struct LateWork {
    /// The processor time that it used, where the platform reports it.
    used: Option<Duration>,
    /// Whether it went on working.
    goes_on: bool,
}

/// How long a process that is late is watched for whether it works or waits.
const WORK_WINDOW: Duration = Duration::from_millis(600);
/// The processor time within [`WORK_WINDOW`] from which on it works: a timer that tries something
/// again uses less, and a process that shares its processor with thirty others more.
const WORKING_INTERVAL: Duration = Duration::from_millis(20);

impl LateWork {
    async fn watch(request: &OpenRequest, process: &ServerProcess) -> Self {
        let Some(used) = process.processor_time() else { return Self::default() };
        tokio::select! {
            () = tokio::time::sleep(WORK_WINDOW) => {}
            () = request.cancel.cancelled() => {}
            () = request.force.cancelled() => {}
        }
        let then = process.processor_time().unwrap_or_default();
        Self { used: Some(used), goes_on: then.saturating_sub(used) >= WORKING_INTERVAL }
    }
}

/// The server at a URL, with the account that signs in there.
async fn signing_in(
    request: &OpenRequest,
    accounts: Option<&Accounts>,
    http: HttpConfig,
    asks: bool,
) -> Result<HttpEndpoint, OpenError> {
    if let Some(caller) = &request.caller {
        return as_person(request, accounts, http, caller).await;
    }
    let Some(accounts) = accounts else { return Ok(http.into()) };
    let auth = request.account.open(accounts, request, &http, asks).map_err(|failure| {
        // Nothing was signed in to yet: a file or a variable cannot be used.
        let error = Error::new(ErrorCode::ServerStartup, failure.reason());
        OpenError::lasting(error.server(&request.config.name))
    })?;
    Ok(HttpEndpoint::new(http, auth))
}

/// The server at a URL as a person uses it: with their token, and nothing that the entry authorises
/// itself with.
async fn as_person(
    request: &OpenRequest,
    accounts: Option<&Accounts>,
    mut http: HttpConfig,
    caller: &CallerIdentity,
) -> Result<HttpEndpoint, OpenError> {
    http.headers.retain(|name, _| !name.eq_ignore_ascii_case("authorization"));
    let _ = (http.url.set_username(""), http.url.set_password(None));
    let none = || AuthFailure::Refused("nobody signs in here".to_owned());
    let opened = async {
        let accounts = accounts.ok_or_else(none)?;
        Account::open_person(accounts, request, &http, caller).await
    };
    let auth = opened.await.map_err(|failure| {
        let is_passing = matches!(failure, AuthFailure::Failed(_) | AuthFailure::Unavailable(_));
        let mut error = Error::new(ErrorCode::ServerUnavailable, failure.reason());
        error.unauthorized = !is_passing;
        OpenError::lasting(error.server(&request.config.name))
    })?;
    Ok(HttpEndpoint::new(http, Some(auth)))
}

/// A handshake that failed.
struct FailedHandshake {
    connect: ConnectError,
    /// Whether its time was over.
    is_late: bool,
}

/// One handshake within the remaining time.
async fn handshake(
    request: &OpenRequest,
    endpoint: Endpoint,
    attempt: &Attempt,
) -> Result<Connected, FailedHandshake> {
    let step = request.steps.begin(StartStep::Handshake).await;
    let mut is_late = false;
    let result = tokio::select! {
        result = connect(endpoint, attempt, request.context.clone()) => result,
        () = tokio::time::sleep_until(request.deadline) => {
            is_late = true;
            Err(too_late(request, attempt))
        }
        () = request.cancel.cancelled() => {
            Err(given_up(Error::new(ErrorCode::Cancelled, "the start was given up")))
        }
    };
    match &result {
        Ok(connected) => {
            let view = &connected.view;
            let detail = format!("{} {} {}", view.name, view.version, view.protocol_version);
            request.steps.done(step, &detail).await;
        }
        Err(failure) => {
            request.steps.failed(step, &failure.error.message).await;
            if failure.unauthorized {
                let step = request.steps.begin(StartStep::Authorize).await;
                request.steps.failed(step, &failure.error.message).await;
            }
        }
    }
    result.map_err(|connect| FailedHandshake { connect, is_late })
}

fn too_late(request: &OpenRequest, attempt: &Attempt) -> ConnectError {
    let asked = match attempt {
        Attempt::Auto | Attempt::Modern => "server/discover",
        Attempt::Legacy(_) => "initialize",
    };
    let limit = request.config.startup_timeout.as_secs_f64();
    let message = format!(
        "no answer to `{asked}` within the startup timeout of {limit} s: {}",
        request.context.seen.describe(request.context.clock.instant())
    );
    let error = Error::new(ErrorCode::ServerStartup, message).server(&request.config.name).help(
        if request.config.transport.is_address() {
            "raise `startupTimeout` if it is only slow; is it suspended, or does something in \
             between swallow the connection?"
        } else {
            remedy::late_start(false, false)
        },
    );
    given_up(error)
}

/// The error for an attempt ended by the host, not by the server.
fn given_up(error: Error) -> ConnectError {
    ConnectError { error, retryable: false, unauthorized: false, closed: false }
}

impl ProcessHandle for RunningProcess {
    fn pid(&self) -> u32 {
        self.process.pid()
    }

    fn exited(&self) -> BoxFuture<'static, ()> {
        let mut exit = self.process.exit();
        Box::pin(async move {
            let _ = exit.wait_for(Option::is_some).await;
        })
    }

    fn expect_exit(&self) {
        self.process.expect_exit();
    }

    fn stop(&self, plan: StopPlan) -> BoxFuture<'static, ExitReport> {
        let (process, container) = (self.process.clone(), self.container.clone());
        let hands_over = self.hands_over;
        Box::pin(async move {
            let stopped = process.stop(plan.grace);
            let exit = tokio::select! {
                exit = stopped => exit,
                () = tokio::time::sleep(HANDOVER_TIMEOUT), if hands_over => {
                    process.hand_over(plan.grace).await
                }
                () = plan.force.cancelled() => {
                    process.kill();
                    process.wait().await
                }
            };
            if let Some(container) = container {
                container.end().await;
            }
            ExitReport { exit, stderr_tail: process.stderr_tail(MAX_STDERR_LINES) }
        })
    }

    fn usage(&self) -> Option<Usage> {
        self.process.usage()
    }

    fn is_suspended(&self) -> bool {
        process::is_suspended(self.process.pid())
    }
}
