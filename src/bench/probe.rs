//! One copy of a server that is fuzzed: calls, how they end, restarts.

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::scratch::ScratchFolder;
use crate::stage::{BenchSource, BenchStage, options};
use base::{Redactor, Secret, ServerName};
use check::run::CheckSignals;
use check::subject::brief;
use config::error::{Error, ErrorCode};
use config::{GuardMode, GuardPolicy, TransportConfig};
use host::{CallOptions, CallOutcome, Host, HostView, ServerState, Validation};
use protocol::{Direction, FindingKind};

/// How a call ended.
#[derive(Clone, Debug, PartialEq)]
pub enum CallEnd {
    /// With a result.
    Done(Box<CallOutcome>),
    /// The tool reported a failure.
    ToolError {
        /// Its text, secrets masked.
        text: String,
        /// Its text as it was sent, to be looked at and never shown.
        sent: Secret,
        /// Where `structuredContent` breaks `outputSchema`, as the host says.
        outcome: Box<CallOutcome>,
    },
    /// With a JSON-RPC error.
    RpcError {
        /// Its code.
        code: i64,
        /// Its message and data.
        text: String,
    },
    /// The server is gone.
    Crash(String),
    /// There was no answer in time.
    Hang,
    /// There was no answer in time, but progress until then.
    Slow,
    /// The answer breaks the protocol.
    Protocol(String),
    /// The call was not sent, for this reason.
    Blocked(String),
}

impl CallEnd {
    /// Whether the server answered, in time and by the protocol.
    pub const fn is_orderly(&self) -> bool {
        match self {
            Self::Done(_) | Self::ToolError { .. } | Self::RpcError { .. } => true,
            Self::Crash(_) | Self::Hang | Self::Slow | Self::Protocol(_) | Self::Blocked(_) => {
                false
            }
        }
    }

    /// The outcome of a call whose tool did what it was asked; `None` for any other end.
    pub fn into_outcome(self) -> Option<CallOutcome> {
        match self {
            Self::Done(outcome) => Some(*outcome),
            Self::ToolError { .. }
            | Self::RpcError { .. }
            | Self::Crash(_)
            | Self::Hang
            | Self::Slow
            | Self::Protocol(_)
            | Self::Blocked(_) => None,
        }
    }
}

/// How many times the timeout of a call one that reports progress may take.
const MAX_PROGRESS_TIMEOUTS: u32 = 2;
/// How long the exit of a process takes to be seen.
const EXIT_TIMEOUT: Duration = Duration::from_millis(800);
/// How long a breach of the protocol takes to be seen.
const VIOLATION_TIMEOUT: Duration = Duration::from_millis(300);
/// How long a copy may take to stop by itself, and after a signal.
const COPY_STOP_TIMEOUT: Duration = Duration::from_millis(300);
/// How long a restart may take beyond the server's own time.
const RESTART_TIMEOUT: Duration = Duration::from_secs(60);

/// Most calls that are under way at once.
pub const MAX_PENDING_CALLS: usize = 16;
/// Most calls of a group for each that may be under way at once.
pub const MAX_GROUP_ROUNDS: usize = 8;
/// The calls that are under way at once may take this part of the time of one call: a slow server is
/// no hung one.
const MIN_ANSWERS_A_TIMEOUT: u32 = 4;

/// A call among others is given up after this part of the time of one alone, and not before this many
/// times what a call takes.
const MAX_CROWD_HASTE: u32 = 3;
const MIN_CROWD_PACES: u32 = 100;

/// A running copy of a server.
pub struct ServerProbe {
    stage: BenchStage,
    server: ServerName,
    /// What is masked in all that it answers.
    masks: Redactor,
    timeout: Duration,
    /// The folder of the copy, for temporary files.
    _folder: tempfile::TempDir,
    /// What it works in instead of its own folder.
    scratch: Option<ScratchFolder>,
    /// How many calls were made.
    pub calls: u64,
    /// Time spent in calls.
    pub spent: Duration,
    /// How long the last calls took each; none yet at first.
    pace: Option<Duration>,
    /// How it ended, when it was gone although its last call was answered.
    loss: Option<String>,
    /// Whether a call saw it end.
    has_crashed: bool,
}

impl ServerProbe {
    /// Starts a copy: with a folder for temporary files of its own, with a copy of the folder that it
    /// works in, if one is given, and without the guard, the breaker and restarts of the configuration.
    ///
    /// # Errors
    /// Why it did not start.
    pub async fn start(
        source: &BenchSource,
        server: &ServerName,
        (timeout, working): (Duration, Option<PathBuf>),
    ) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut source = source.narrowed(std::slice::from_ref(server));
        let scratch = working.map(|from| ScratchFolder::new(&from, folder.path())).transpose()?;
        if let (Some(scratch), Some(entry)) = (&scratch, source.config.servers.get_mut(server)) {
            let beside = entry.at.file.parent().filter(|it| !it.as_os_str().is_empty());
            let beside = beside.unwrap_or(Path::new("."));
            let beside = std::path::absolute(beside).map_err(|error| error.to_string())?;
            let TransportConfig::Stdio(stdio) = &mut entry.transport else {
                return Err("`fuzz.folders`: the server is no process of this machine".to_owned());
            };
            scratch.enter(stdio, &beside)?;
            scratch.copy()?;
        }
        for entry in source.config.servers.values_mut() {
            entry.guard = GuardPolicy { default: GuardMode::Off, ..GuardPolicy::default() }.into();
            entry.breaker.threshold = u32::MAX;
            // Progress extends the time of a call: not for ever.
            entry.wire.max_call = timeout * MAX_PROGRESS_TIMEOUTS;
            // A copy has nothing to lose.
            entry.stop.stdin = Some(COPY_STOP_TIMEOUT);
            entry.stop.term = Some(COPY_STOP_TIMEOUT);
            if let TransportConfig::Stdio(stdio) = &mut entry.transport {
                for name in ["TMPDIR", "TEMP", "TMP"] {
                    let path = folder.path().to_string_lossy().into_owned();
                    stdio.env.entry(name.to_owned()).or_insert_with(|| path.into());
                }
            }
        }
        let opened = Box::pin(BenchStage::open(source)).await;
        let stage = opened.map_err(|error| error.message.clone())?;
        if let Some((name, reason)) = stage.failed().into_iter().next() {
            stage.close(&CheckSignals::default()).await;
            return Err(format!("`{}` is not ready: {reason}", brief(name.as_str(), 60)));
        }
        Ok(Self {
            masks: stage.masks(server),
            stage,
            server: server.clone(),
            timeout,
            _folder: folder,
            scratch,
            calls: 0,
            spent: Duration::ZERO,
            pace: None,
            loss: None,
            has_crashed: false,
        })
    }

    /// The engine.
    pub const fn host(&self) -> &Host {
        self.stage.host()
    }

    /// Stops the copy.
    pub async fn close(self, signals: &CheckSignals) {
        self.stage.close(signals).await;
    }

    /// Restarts the copy.
    ///
    /// # Errors
    /// Why it is not ready again.
    pub async fn restart(&self) -> Result<(), String> {
        let server = &self.server;
        let restarted = match &self.scratch {
            None => self.host().restart(server).await,
            Some(scratch) => {
                let stopped = self.host().stop(server).await;
                stopped.map_err(|error| error.message.clone())?;
                let scratch = scratch.clone();
                let copied = tokio::task::spawn_blocking(move || scratch.copy()).await;
                copied.map_err(|error| error.to_string())??;
                self.host().start(server).await
            }
        };
        restarted.map_err(|error| format!("the server does not start again: {}", error.message))?;
        let mut view = self.host().view();
        let ready = view.wait_for(|view| {
            view.servers.get(server).is_some_and(|server| server.state == ServerState::Ready)
        });
        match tokio::time::timeout(RESTART_TIMEOUT, ready).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err("the server does not start again".to_owned()),
        }
    }

    fn is_ready(&self) -> bool {
        let view = self.host().snapshot();
        view.servers.get(&self.server).is_some_and(|server| server.state == ServerState::Ready)
    }

    /// Calls a tool, whatever its schema says of the arguments. A server that is gone is started
    /// again first.
    pub async fn call(&mut self, tool: &str, arguments: &Value) -> CallEnd {
        self.call_within(tool, arguments, self.timeout).await
    }

    /// As [`ServerProbe::call`], with another time limit.
    pub async fn call_within(
        &mut self,
        tool: &str,
        arguments: &Value,
        timeout: Duration,
    ) -> CallEnd {
        let mut ends = self.calls_within(&[ProbeCall { tool, arguments }], timeout).await;
        ends.pop().unwrap_or_else(|| CallEnd::Blocked("it was not called".to_owned()))
    }

    /// How many calls may be under way at once: one until the server is known, and as many as a slow
    /// one answers well within the time of one call.
    fn pending_calls(&self) -> usize {
        let Some(pace) = self.pace else { return 1 };
        let share = (self.timeout / MIN_ANSWERS_A_TIMEOUT).as_nanos();
        let many = share / pace.as_nanos().max(1);
        usize::try_from(many).unwrap_or(usize::MAX).clamp(1, MAX_PENDING_CALLS)
    }

    /// How many calls make a group for [`ServerProbe::call_all`].
    pub fn group_size(&self) -> usize {
        match self.pending_calls() {
            1 => 1,
            many => many * MAX_GROUP_ROUNDS,
        }
    }

    /// How the copy ended since this was asked last, when that was after an answer and before the next
    /// call.
    pub const fn take_loss(&mut self) -> Option<String> {
        self.loss.take()
    }

    /// How long the last calls took each, where there were any.
    pub const fn pace(&self) -> Option<Duration> {
        self.pace
    }

    /// Sends several calls without waiting for each answer before the next; gives their ends in the
    /// same order. After one that was not answered as the protocol says no further ones are sent, and
    /// their ends are missing. A server that is gone is started again first.
    pub async fn call_all(&mut self, all: &[ProbeCall<'_>]) -> Vec<CallEnd> {
        self.calls_within(all, self.crowd_timeout()).await
    }

    /// How long a call among others may take: less than one alone where all are answered quickly,
    /// because one that is late is repeated alone.
    fn crowd_timeout(&self) -> Duration {
        let Some(pace) = self.pace else { return self.timeout };
        (self.timeout / MAX_CROWD_HASTE).max(pace * MIN_CROWD_PACES).min(self.timeout)
    }

    async fn calls_within(&mut self, all: &[ProbeCall<'_>], timeout: Duration) -> Vec<CallEnd> {
        if self.is_ready() {
            self.has_crashed = false;
        } else if !std::mem::take(&mut self.has_crashed) {
            self.loss = self.exit().await;
        }
        if !self.is_ready()
            && let Err(why) = self.restart().await
        {
            return all.iter().map(|_| CallEnd::Blocked(why.clone())).collect();
        }
        let mut options = options(Some(timeout), Validation::Skip);
        options.server = Some(self.server.clone());
        let most = self.pending_calls().min(all.len());
        let began = Instant::now();
        let group = CallGroup {
            host: self.host(),
            server: &self.server,
            options,
            open: Mutex::new(all.iter()),
            made: Mutex::new(Vec::with_capacity(all.len())),
            is_over: AtomicBool::new(false),
        };
        // Whoever has an answer makes the next call itself.
        let mut callers: FuturesUnordered<_> = (0..most).map(|_| group.caller()).collect();
        while callers.next().await.is_some() {}
        drop(callers);
        let mut made = group.made.into_inner();
        made.sort_by_key(|one| one.number);
        let took = began.elapsed();
        self.calls += made.len() as u64;
        self.spent += took;
        self.pace = u32::try_from(made.len()).ok().and_then(|many| took.checked_div(many));
        let mut ends = Vec::with_capacity(made.len());
        for GroupEnd { end, has_progress, .. } in made {
            ends.push(match end {
                Err(error) if error.code == ErrorCode::Timeout && has_progress => CallEnd::Slow,
                Err(error) => self.of_error(&error).await,
                Ok(outcome) => of_outcome(outcome, &self.masks),
            });
        }
        self.has_crashed |= ends.iter().any(|end| matches!(end, CallEnd::Crash(_)));
        ends
    }

    async fn of_error(&self, error: &Error) -> CallEnd {
        if let Some(rpc) = &error.rpc {
            let data = rpc.data.as_ref().map(|data| format!(" {data}")).unwrap_or_default();
            let code = rpc.code.unwrap_or_default();
            return CallEnd::RpcError { code, text: format!("{}{data}", error.message) };
        }
        match error.code {
            ErrorCode::Timeout => CallEnd::Hang,
            ErrorCode::PermissionDenied
            | ErrorCode::PolicyBlocked
            | ErrorCode::RateLimited
            | ErrorCode::BudgetExceeded
            | ErrorCode::Cancelled
            | ErrorCode::Validation
            | ErrorCode::ToolNotFound
            | ErrorCode::Ambiguous
            | ErrorCode::Configuration => CallEnd::Blocked(error.message.clone()),
            // What the server did: its start, its answers, its end.
            _ => match self.exit().await {
                Some(how) => CallEnd::Crash(how),
                None => CallEnd::Protocol(brief(&error.message, 300)),
            },
        }
    }

    /// How the process ended, when it did.
    async fn exit(&self) -> Option<String> {
        let server = &self.server;
        let is_gone = |view: &std::sync::Arc<HostView>| {
            view.servers.get(server).is_none_or(|server| server.state != ServerState::Ready)
        };
        let mut view = self.host().view();
        tokio::time::timeout(EXIT_TIMEOUT, view.wait_for(is_gone)).await.ok()?.ok()?;
        // The lines of its end come with the exit.
        let has_exit = |view: &std::sync::Arc<HostView>| {
            view.servers.get(server).is_none_or(|server| server.exit.is_some())
        };
        let _ = tokio::time::timeout(EXIT_TIMEOUT, view.wait_for(has_exit)).await;
        let view = self.host().snapshot();
        let server = view.servers.get(server)?;
        Some(brief(&server.reason_in_full("it is gone"), 300))
    }

    /// Whether the server answers at all.
    pub async fn answers(&mut self) -> bool {
        let options = options(Some(self.timeout), Validation::Skip);
        self.host().request(&self.server, "ping", None, options).await.is_ok()
    }

    /// How often the server broke the protocol so far: lines that are no messages, answers nobody
    /// asked for.
    pub fn violations(&self) -> u64 {
        violations_in(&self.host().snapshot(), &self.server)
    }

    /// Whether there are soon more of them than `before`.
    pub async fn violates(&self, before: u64) -> bool {
        let mut view = self.host().view();
        let more = view.wait_for(|view| violations_in(view, &self.server) > before);
        tokio::time::timeout(VIOLATION_TIMEOUT, more).await.is_ok_and(|seen| seen.is_ok())
    }

    /// Where the messages of the server end now.
    pub fn mark(&self) -> u64 {
        self.host().traffic().span().end
    }

    /// What is odd about the first message of the server since a mark that is: known as soon as the
    /// message was read, before it is counted.
    pub fn problem_since(&self, mark: u64) -> Option<String> {
        let batch = self.host().traffic().read(mark, usize::MAX);
        let mut own = batch
            .items
            .iter()
            .filter(|record| record.server == self.server && record.direction == Direction::In);
        // Late is no breach.
        own.find_map(|record| {
            let problem = record.problem.as_ref()?.as_str();
            (!problem.starts_with("late:")).then(|| brief(problem, 300))
        })
    }

    /// Memory of the server's processes, in bytes.
    pub fn memory(&self) -> Option<u64> {
        self.host().usage(&self.server).map(|usage| usage.memory)
    }
}

/// A call to make.
#[derive(Clone, Copy)]
pub struct ProbeCall<'a> {
    /// The tool, by its own name.
    pub tool: &'a str,
    /// Its arguments.
    pub arguments: &'a Value,
}

/// Calls that several callers make, each one after the other.
struct CallGroup<'a> {
    host: &'a Host,
    server: &'a ServerName,
    options: CallOptions,
    open: Mutex<std::slice::Iter<'a, ProbeCall<'a>>>,
    made: Mutex<Vec<GroupEnd>>,
    /// Whether one was not answered as the protocol says.
    is_over: AtomicBool,
}

/// How one of them ended.
struct GroupEnd {
    /// Its place among the calls, counted from the end.
    number: Reverse<usize>,
    end: Result<CallOutcome, Error>,
    /// Whether the server reported progress.
    has_progress: bool,
}

impl CallGroup<'_> {
    fn next(&self) -> Option<(usize, ProbeCall<'_>)> {
        let mut open = self.open.lock();
        let left = open.len();
        open.next().filter(|_| !self.is_over.load(Ordering::Relaxed)).map(|call| (left, *call))
    }

    async fn caller(&self) {
        while let Some((left, call)) = self.next() {
            let (sender, mut steps) = mpsc::channel(1);
            let options = CallOptions { progress: Some(sender), ..self.options.clone() };
            let name = host::canonical_name(self.server, call.tool);
            let end = self.host.call_tool_with(&name, call.arguments.clone(), options).await;
            if end.as_ref().is_err_and(|error| error.rpc.is_none()) {
                self.is_over.store(true, Ordering::Relaxed);
            }
            let has_progress = end.is_err() && steps.try_recv().is_ok();
            self.made.lock().push(GroupEnd { number: Reverse(left), end, has_progress });
        }
    }
}

/// How a call ended that was answered, secrets masked.
fn of_outcome(mut outcome: CallOutcome, masks: &Redactor) -> CallEnd {
    let odd = outcome.findings.iter().find(|finding| is_violation(finding.kind));
    if let Some(finding) = odd {
        return CallEnd::Protocol(brief(&masks.redact(finding.message.as_str()), 300));
    }
    let sent = outcome.is_error.then(|| Secret::new(outcome.text()));
    if let Some(masked) = outcome.result.redacted(masks) {
        outcome.result = masked;
    }
    for violation in &mut outcome.output_violations {
        violation.message = masks.redact(&violation.message).into_owned();
    }
    if let Some(sent) = sent {
        return CallEnd::ToolError { text: outcome.text(), sent, outcome: Box::new(outcome) };
    }
    CallEnd::Done(Box::new(outcome))
}

fn violations_in(view: &HostView, server: &ServerName) -> u64 {
    let Some(server) = view.servers.get(server) else { return 0 };
    let counts = server.finding_counts.iter();
    counts.filter(|(kind, _)| is_violation(**kind)).map(|(_, many)| many).sum()
}

/// Whether a finding breaks the protocol: not what is merely tolerated, late or cut by a limit.
const fn is_violation(kind: FindingKind) -> bool {
    match kind {
        FindingKind::Junk
        | FindingKind::Malformed
        | FindingKind::UnknownId
        | FindingKind::DuplicateAnswer
        | FindingKind::WrongShape
        | FindingKind::NotAllowed => true,
        FindingKind::TooLarge
        | FindingKind::LateAnswer
        | FindingKind::BadEntry
        | FindingKind::PartialList
        | FindingKind::Version
        | FindingKind::Flood
        | FindingKind::Leftover
        | FindingKind::AskedAfterClose
        | FindingKind::Tolerated
        | FindingKind::Collision => false,
    }
}
