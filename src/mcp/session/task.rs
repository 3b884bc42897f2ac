//! A tool call that runs as a task (MCP 2025-11-25, tasks): started, polled until it ends, and its
//! result fetched. One operation for the caller, with one clock.
//!
//! A task whose result is not fetched is cancelled, however its call ended. The states a server
//! reports are trusted only as far as necessary: the result decides.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::live::Core;
use base::SafeText;
use base::text::cut;
use config::error::{Error, ErrorCode};
use protocol::{Attended, FindingKind, Payload, PendingRequest, RpcCode, RpcRequest};

/// Poll interval when the server names none, and the range it may name. A call with a short timeout
/// polls at half of that.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(60);
/// Shortest poll interval while the user holds the call: only the task's own end matters then.
const HELD_POLL_INTERVAL: Duration = Duration::from_secs(10);
/// How long to wait for a last poll, or for the server to answer a cancellation.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(1);
/// How long the caller waits for a cancellation to be delivered.
const DELIVERY_TIMEOUT: Duration = Duration::from_millis(250);

/// The stage of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskStage {
    Working,
    /// It needs input, which the server requests once the result is requested.
    Waits,
    Completed,
    Failed,
    Cancelled,
}

/// The state of a task as the server reports it.
#[derive(Debug)]
struct TaskStatus {
    stage: TaskStage,
    message: Option<String>,
    pause: Duration,
    ttl: Option<Duration>,
}

impl TaskStatus {
    /// A started task whose status is not given.
    const UNKNOWN_STATUS: Self =
        Self { stage: TaskStage::Working, message: None, pause: POLL_INTERVAL, ttl: None };

    /// Parses a task; `None` when it has no status.
    fn read(task: &Value, core: &Core) -> Option<Self> {
        let millis = |key: &str| {
            let value = task.get(key)?.as_f64()?;
            let millis = Some(value).filter(|value| value.is_finite() && *value > 0.0)?;
            Some(Duration::from_secs_f64(millis.min(1e12) / 1e3))
        };
        let stage = match task["status"].as_str()? {
            "working" | "submitted" => TaskStage::Working,
            "completed" => TaskStage::Completed,
            "failed" => TaskStage::Failed,
            "cancelled" => TaskStage::Cancelled,
            // `input_required`; for a status that is not in the specification, the result decides.
            _ => TaskStage::Waits,
        };
        let message = task["statusMessage"].as_str();
        let message = message.map(|text| SafeText::line(cut(text, 1 << 10)));
        let redactor = &core.tap.context.redactor;
        Some(Self {
            stage,
            message: message.map(|text| redactor.redact(&text).into_owned()),
            pause: millis("pollInterval")
                .map_or(POLL_INTERVAL, |pause| pause.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL)),
            ttl: millis("ttl"),
        })
    }

    const fn is_over(&self) -> bool {
        matches!(self.stage, TaskStage::Completed | TaskStage::Failed | TaskStage::Cancelled)
    }

    /// The server's message, as the end of a sentence.
    fn words(&self) -> String {
        self.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default()
    }
}

/// Reports that a task-only tool is called without a task: its server does not declare tasks, or
/// speaks a version without them.
pub(super) fn mention_tasks(core: &Core, name: &str) {
    let name = SafeText::line(cut(name, 256));
    let message = format!(
        "`{name}` says that it only runs as a task (`taskSupport`), but the server does not offer \
         that (`tasks.requests.tools.call`); called without one"
    );
    core.tap.report(FindingKind::WrongShape, &message, "", Some("tools/call"));
}

/// A started task.
pub(super) struct RunningTask {
    unwanted: Unwanted,
    attended: Attended,
    began: Instant,
}

impl RunningTask {
    /// Calls a tool that only runs as a task. An immediate result is accepted as it is.
    pub(super) async fn call(
        core: &Arc<Core>,
        name: Arc<str>,
        arguments: Arc<Value>,
        pending: &Arc<PendingRequest>,
    ) -> Result<Payload, Error> {
        let attended = core.tap.attend(pending);
        let mut rpc = RpcRequest::named("tools/call", Arc::clone(&name), arguments);
        if let Some(params) = &mut rpc.params {
            params.insert("task", json!({}));
        }
        let begun = core.round_trip(rpc, pending).await?;
        let Some(task) = begun.get("task").filter(|task| task.is_object()) else {
            return Ok(begun);
        };
        let Some(id) = task["taskId"].as_str().map(Arc::<str>::from) else {
            let error = Error::new(ErrorCode::Protocol, "the task that was begun has no `taskId`");
            return Err(error
                .server(&core.tap.context.server)
                .request(format!("tools/call {name}")));
        };
        let status = TaskStatus::read(task, core).unwrap_or(TaskStatus::UNKNOWN_STATUS);
        let task = Self {
            unwanted: Unwanted {
                core: Arc::clone(core),
                name,
                id,
                pending: Arc::clone(pending),
                armed: AtomicBool::new(true),
            },
            attended,
            began: Instant::now(),
        };
        let done = task.until_over(status).await;
        match &done {
            Ok(_) => task.unwanted.disarm(),
            Err(_) => task.unwanted.say().await,
        }
        done
    }

    /// Polls it until it ends or waits for input, and fetches its result.
    async fn until_over(&self, mut status: TaskStatus) -> Result<Payload, Error> {
        loop {
            self.report_status(&status);
            match status.stage {
                TaskStage::Working => status = self.ask_after(&status).await?,
                TaskStage::Waits => return Box::pin(self.with_questions(status)).await,
                TaskStage::Completed | TaskStage::Failed | TaskStage::Cancelled => break,
            }
        }
        self.unwanted.disarm();
        if status.stage == TaskStage::Cancelled {
            return Err(Self::cancelled(&status));
        }
        Self::concluded(&status, self.result().await)
    }

    /// Waits for the result while the task continues: the input it needs is requested meanwhile,
    /// and a report that it is still running is a sign of life.
    async fn with_questions(&self, status: TaskStatus) -> Result<Payload, Error> {
        let enough = CancellationToken::new();
        let mut result = std::pin::pin!(self.result());
        let mut news = std::pin::pin!(self.watch(status, &enough));
        tokio::select! {
            biased;
            result = &mut result => {
                // Lets the poll in flight finish: its answer would otherwise be reported as late.
                enough.cancel();
                let _ = tokio::time::timeout(CANCEL_TIMEOUT, news).await;
                result
            }
            over = &mut news => {
                if over.is_some() {
                    self.unwanted.disarm();
                }
                match over {
                    Some(status) if status.stage == TaskStage::Cancelled => Err(Self::cancelled(&status)),
                    Some(status) => Self::concluded(&status, result.await),
                    None => result.await,
                }
            }
        }
    }

    /// Polls it until it ends (`Some`), a poll fails, or `enough` is cancelled (`None`).
    async fn watch(
        &self,
        mut status: TaskStatus,
        enough: &CancellationToken,
    ) -> Option<TaskStatus> {
        loop {
            tokio::select! {
                biased;
                () = enough.cancelled() => return None,
                () = self.pause(&status) => {}
            }
            status = self.now(&status).await.ok()?;
            self.report_status(&status);
            if status.is_over() {
                return Some(status);
            }
        }
    }

    /// Its status, after the pause the server asked for.
    async fn ask_after(&self, status: &TaskStatus) -> Result<TaskStatus, Error> {
        let core = &self.unwanted.core;
        let pause = pin!(self.pause(status));
        let paused = core.bounded(pause, &self.unwanted.pending).await;
        paused.map_err(|error| {
            let asked = self.unwanted.about("tasks/get");
            error.server(&core.tap.context.server).request(asked.name())
        })?;
        self.now(status).await
    }

    async fn pause(&self, status: &TaskStatus) {
        let mut pause = status.pause.min(self.unwanted.pending.timeout / 2).max(MIN_POLL_INTERVAL);
        if self.unwanted.pending.is_held() {
            pause = pause.max(HELD_POLL_INTERVAL);
        }
        tokio::time::sleep(MIN_POLL_INTERVAL).await;
        tokio::select! {
            () = tokio::time::sleep(pause.saturating_sub(MIN_POLL_INTERVAL)) => {}
            () = self.attended.news() => {}
        }
    }

    /// `tasks/get`
    async fn now(&self, before: &TaskStatus) -> Result<TaskStatus, Error> {
        let core = &self.unwanted.core;
        let asked = self.unwanted.about("tasks/get");
        let answer = core.round_trip(asked, &self.unwanted.pending).await;
        let answer = answer.map_err(|error| self.forgotten(error, before))?;
        let Some(status) = TaskStatus::read(&answer, core) else {
            let message = "the answer to `tasks/get` has no `status`";
            return Err(Error::new(ErrorCode::Protocol, message));
        };
        Ok(status)
    }

    /// `tasks/result`; answered when the task ends.
    async fn result(&self) -> Result<Payload, Error> {
        let asked = self.unwanted.about("tasks/result");
        self.unwanted.core.round_trip(asked, &self.unwanted.pending).await
    }

    fn report_status(&self, status: &TaskStatus) {
        self.unwanted.pending.doing(status.message.as_deref());
    }

    /// The result of an ended task; for a failed one, adds its status message to the error.
    fn concluded(status: &TaskStatus, result: Result<Payload, Error>) -> Result<Payload, Error> {
        result.map_err(|mut error| {
            if status.stage == TaskStage::Failed && error.code == ErrorCode::Protocol {
                error.message = format!("the task failed{}; {}", status.words(), error.message);
            }
            error
        })
    }

    fn cancelled(status: &TaskStatus) -> Error {
        let message = format!("the server cancelled the task{}", status.words());
        Error::new(ErrorCode::Protocol, message)
            .help("another client or the server ended it: call again if it is still needed")
    }

    /// A server that refuses to report on a task has usually forgotten it.
    fn forgotten(&self, mut error: Error, before: &TaskStatus) -> Error {
        if error.rpc.as_ref().and_then(|rpc| rpc.code) != Some(RpcCode::INVALID_PARAMS) {
            return error;
        }
        self.unwanted.disarm();
        let why = match before.ttl {
            Some(ttl) if self.began.elapsed() >= ttl => {
                format!(", whose `ttl` of {} s is over", ttl.as_secs_f64())
            }
            _ => String::new(),
        };
        error.message =
            format!("the server does not know its task any more{why}: {}", error.message);
        error
    }
}

/// Cancels the task when its call ends without a result, including when the caller is gone.
struct Unwanted {
    core: Arc<Core>,
    name: Arc<str>,
    id: Arc<str>,
    pending: Arc<PendingRequest>,
    armed: AtomicBool,
}

impl Unwanted {
    fn about(&self, method: &'static str) -> RpcRequest {
        RpcRequest::new(method, Some(&self.name), Some(json!({"taskId": &*self.id})))
    }

    /// The task has ended, or its server does not know it: there is nothing to cancel.
    fn disarm(&self) {
        self.armed.store(false, Ordering::Relaxed);
    }

    /// Cancels it, and waits briefly until the server has been notified: otherwise a host that
    /// exits next would lose the message.
    async fn say(&self) {
        if let Some(said) = self.cancel() {
            let _ = tokio::time::timeout(DELIVERY_TIMEOUT, said).await;
        }
    }

    /// Sends `tasks/cancel` at most once and ignores the answer; `None` when not needed.
    fn cancel(&self) -> Option<tokio::task::JoinHandle<()>> {
        self.pending.give_up();
        if !self.armed.swap(false, Ordering::Relaxed) || self.core.tap.over.is_cancelled() {
            return None;
        }
        let (core, cancel_request) = (Arc::clone(&self.core), self.about("tasks/cancel"));
        let runtime = tokio::runtime::Handle::try_current().ok()?;
        Some(runtime.spawn(async move {
            let own = PendingRequest::internal(core.tap.context.clock, CANCEL_TIMEOUT);
            let _ = core.round_trip(cancel_request, &own).await;
        }))
    }
}

impl Drop for Unwanted {
    fn drop(&mut self) {
        if self.armed.load(Ordering::Relaxed) {
            self.cancel();
        }
    }
}
