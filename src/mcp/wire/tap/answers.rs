//! Answers: which request they belong to, and failing it at once when they are no good.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rmcp::model::RequestId;
use serde_json::Value;
use tokio::sync::Notify;

use super::inbound::Source;
use super::record::id_text;
use super::{Answer, Entry, State, Tap, number};
use crate::base::SafeText;
use crate::error::{Error, ErrorCode, RpcError};
use crate::mcp::pending::PendingRequest;
use crate::mcp::traffic::{MessageKind, TrafficRecord};
use crate::mcp::transport::SendError;
use crate::mcp::wire::json::Flaw;
use crate::mcp::wire::message::{Inbound, Misfit, Outcome, classify};
use crate::mcp::wire::{json, message};
use crate::mcp::{FindingKind, Payload};

impl Tap {
    pub(super) fn answer(&self, id: Option<RequestId>, outcome: Outcome, mut source: Source<'_>) {
        let owner = match id {
            Some(id) => self.owner(&id, &mut source),
            None => self.owner_without_id(&outcome, &source),
        };
        let Some((id, entry)) = owner else { return };
        self.answered.fetch_add(source.raw.len() + 1, Ordering::Relaxed);
        entry.request.flush_progress();
        entry.request.bytes.received(source.raw.len() + 1);
        let problem = self.note_in(&entry, &source);
        match outcome {
            Outcome::Result(result) => {
                let Some((result, flaw)) = source.large.take() else {
                    return self.result(id, entry, result.into(), &source, problem);
                };
                if let Some(flaw) = Self::too_large(&entry, &result, flaw) {
                    let found = (FindingKind::TooLarge, &*flaw.to_string());
                    return self.spoilt(id, entry, found, source.raw, "cannot be read");
                }
                self.result(id, entry, result, &source, problem);
            }
            Outcome::Error(error) => {
                self.recorded(&entry, id, MessageKind::Error, source.raw, problem.as_deref());
                self.finish(entry, Err(answered_with(error)));
            }
            Outcome::Broken(reason) => {
                let found = (FindingKind::Malformed, reason.as_str());
                self.spoilt(id, entry, found, source.raw, "is malformed");
            }
        }
    }

    /// Why an answer that is too large to be read as a message is of no use: the host itself reads
    /// lists, and what a server wants to know, while results are for whoever asked.
    fn too_large(entry: &Entry, result: &Payload, flaw: Flaw) -> Option<Flaw> {
        let handed_on = ["tools/call", "tasks/result", "prompts/get", "resources/read"];
        let asks = result["resultType"] == "input_required";
        (asks || !handed_on.contains(&&*entry.method)).then_some(flaw)
    }

    fn result(
        &self,
        id: i64,
        entry: Entry,
        result: Payload,
        source: &Source<'_>,
        mut problem: Option<String>,
    ) {
        self.name_task(&entry, &result);
        match message::check(&entry.method, &result) {
            None => {}
            Some(Misfit::Odd(reason)) => {
                self.find_in(&entry, FindingKind::WrongShape, &reason, source.raw);
                problem = Some(reason);
            }
            Some(Misfit::Useless(reason)) => {
                let finding = (FindingKind::WrongShape, reason.as_str());
                return self.spoilt(id, entry, finding, source.raw, "has the wrong shape");
            }
        }
        self.recorded(&entry, id, MessageKind::Response, source.raw, problem.as_deref());
        self.finish(entry, Ok(result));
    }

    /// An answer that is none: fails its request with the reason and the raw text beside it.
    fn spoilt(
        &self,
        id: i64,
        entry: Entry,
        (kind, reason): (FindingKind, &str),
        raw: &[u8],
        what: &str,
    ) {
        self.find_in(&entry, kind, reason, raw);
        let passed = match kind {
            FindingKind::WrongShape => MessageKind::Response,
            _ => MessageKind::Junk,
        };
        self.recorded(&entry, id, passed, raw, Some(reason));
        let mut error = protocol(&format!("the answer {what}: {reason}"));
        if !raw.is_empty() {
            error.raw = Some(SafeText::line(&self.text(raw, Error::RAW)));
        }
        self.finish(entry, Err(error));
    }

    /// Gives a request that was taken out of the table its answer. Whoever gave up meanwhile has
    /// told the tap.
    pub(super) fn finish(&self, entry: Entry, answer: Answer) {
        let answer = answer.map_err(|mut error| {
            error.server = Some(self.context.server.clone());
            error.request = Some(entry.name().to_string());
            let redactor = &self.context.redactor;
            error.message = redactor.redact(&error.message).into_owned();
            if let Some(rpc) = &mut error.rpc {
                rpc.message = redactor.redact(&rpc.message).into_owned();
                if let Some(masked) = rpc.data.as_ref().and_then(|data| redactor.redact_json(data))
                {
                    rpc.data = Some(masked);
                }
            }
            error
        });
        let _ = entry.answer.send(answer);
    }

    /// The place where the answer of a request had to be holds none (HTTP): fails it, if it still
    /// waits.
    pub fn unanswered(&self, id: i64, reason: &str) {
        let Some(entry) = self.state.lock().take(id) else { return };
        self.recorded(&entry, id, MessageKind::Error, b"", Some(reason));
        if !entry.is_probe() {
            self.find_in(&entry, FindingKind::Malformed, reason, b"");
        }
        self.finish(entry, Err(protocol(reason)));
    }

    /// A request was refused before it was read as a message (an HTTP error status): an error object
    /// in the body is its answer, and needs no id (2025-11-25, transports, Streamable HTTP). False
    /// when there is none.
    pub fn refused(&self, id: i64, body: &[u8]) -> bool {
        let Ok(parsed) = json::parse(body.trim_ascii(), self.budget()) else { return false };
        let Inbound::Answer { outcome: Outcome::Error(error), .. } = classify(parsed.value).inbound
        else {
            return false;
        };
        let Some(entry) = self.state.lock().take(id) else { return false };
        self.recorded(&entry, id, MessageKind::Error, body, None);
        self.finish(entry, Err(answered_with(error)));
        true
    }

    /// A request that could not be sent has no answer to come.
    pub fn unsent(&self, id: i64, reason: &str) {
        let Some(entry) = self.state.lock().take(id) else { return };
        self.recorded(&entry, id, MessageKind::Error, b"", Some(reason));
    }

    /// The same where the answer comes another way than the refusal (HTTP+SSE): fails the request,
    /// if it still waits.
    pub fn undelivered(&self, id: i64, failure: &SendError) {
        let Some(entry) = self.state.lock().take(id) else { return };
        let reason = format!("not delivered: {failure}");
        self.recorded(&entry, id, MessageKind::Error, b"", Some(&reason));
        let mut error = Error::new(ErrorCode::ServerUnavailable, reason);
        error.answered = !matches!(failure, SendError::Broken(_));
        self.finish(entry, Err(error));
    }

    /// A message that cannot be used, by its text: fails the request it answers, if that can be
    /// told.
    pub(super) fn broken(
        &self,
        raw: &[u8],
        id: Option<RequestId>,
        kind: FindingKind,
        reason: &str,
    ) {
        let has = |key: &str| memchr::memmem::find(raw, key.as_bytes()).is_some();
        let asks = has("\"method\"") && !has("\"result\"") && !has("\"error\"");
        let owner = if asks { None } else { self.take_broken(id.as_ref()) };
        if let Some((id, entry)) = owner {
            return self.spoilt(id, entry, (kind, reason), raw, "cannot be read");
        }
        self.nobodys((kind, MessageKind::Junk), reason, raw, id.as_ref().map(id_text));
    }

    fn take_broken(&self, id: Option<&RequestId>) -> Option<(i64, Entry)> {
        let mut state = self.state.lock();
        let id = match id {
            Some(id) => number(id)?,
            None => state.only_pending()?,
        };
        let entry = state.take(id)?;
        Some((id, entry))
    }

    fn recorded(
        &self,
        entry: &Entry,
        id: i64,
        kind: MessageKind,
        raw: &[u8],
        problem: Option<&str>,
    ) {
        self.record(TrafficRecord {
            method: Some(entry.method.clone()),
            target: entry.target.clone(),
            id: Some(id_text(&RequestId::Number(id))),
            call: entry.request.call,
            latency: Some(entry.sent.elapsed()),
            problem: problem.map(|problem| self.remark(problem)),
            ..self.came(kind, raw)
        });
    }

    /// A call that is going to run as a task.
    pub fn attend(self: &Arc<Self>, request: &Arc<PendingRequest>) -> Attended {
        let news = Arc::new(Notify::new());
        let running = Running { id: None, request: Arc::clone(request), news: Arc::clone(&news) };
        self.state.lock().tasks.push(running);
        Attended { tap: Arc::clone(self), request: Arc::clone(request), news }
    }

    /// The answer of the first request names the task. Noted in wire order: what the server asks for
    /// it may be on the next line.
    pub(super) fn name_task(&self, entry: &Entry, result: &Value) {
        if !begins(entry) {
            return;
        }
        let mut state = self.state.lock();
        let mine = |task: &&mut Running| Arc::ptr_eq(&task.request, &entry.request);
        if let Some(task) = state.tasks.iter_mut().find(mine) {
            task.id = result["task"]["taskId"].as_str().map(str::to_owned);
        }
    }

    /// The call whose task a message names.
    pub(super) fn of_task(&self, params: Option<&Value>) -> Option<Arc<PendingRequest>> {
        let id = params?.get("_meta")?.get(RELATED)?.get("taskId")?.as_str()?;
        let state = self.state.lock();
        let task = state.tasks.iter().find(|task| task.id.as_deref() == Some(id))?;
        Some(Arc::clone(&task.request))
    }

    /// `notifications/tasks/status`: the task is asked after sooner. What the server says here it
    /// need not say at all, so it counts for nothing more.
    pub(super) fn task_news(&self, params: &Value) {
        let Some(id) = params.get("taskId").and_then(Value::as_str) else { return };
        let state = self.state.lock();
        for task in state.tasks.iter().filter(|task| task.id.as_deref() == Some(id)) {
            task.news.notify_one();
        }
    }
}

/// The error of a request that the server answered with an error object.
fn answered_with(rpc: RpcError) -> Error {
    let code = rpc.code.map_or_else(|| "without a code".to_owned(), |code| code.to_string());
    let mut error = Error::new(
        ErrorCode::Protocol,
        format!("the server answered with error {code}: {}", rpc.message),
    );
    let next = rpc.advice();
    error.rpc = Some(rpc);
    error.help(next)
}

pub(super) fn protocol(message: &str) -> Error {
    Error::new(ErrorCode::Protocol, message)
        .help("the message log holds the raw text; the server's author can fix it")
}

// Calls that run as tasks (MCP 2025-11-25, tasks): they are in flight between their requests too.
//
// Owns which of them there are, so that what the server asks and tells meanwhile finds its call:
// the progress token of the first request stays good, and requests and news name the task.

/// The key of `_meta` that names the task a message belongs to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A call that runs as a task, as the tap knows it.
pub(super) struct Running {
    /// `taskId`, once the server has told it.
    id: Option<String>,
    request: Arc<PendingRequest>,
    news: Arc<Notify>,
}

/// Keeps a call in flight until it is dropped.
pub struct Attended {
    tap: Arc<Tap>,
    request: Arc<PendingRequest>,
    news: Arc<Notify>,
}

impl State {
    /// Takes an open request out of the table; its progress goes on when its task does.
    pub(super) fn take(&mut self, id: i64) -> Option<Entry> {
        let entry = self.pending.remove(&id)?;
        if !self.goes_on(&entry) {
            self.tokens.remove(&id);
        }
        Some(entry)
    }

    /// Whether a request is the first of a task: its being answered is not the end of its progress.
    fn goes_on(&self, entry: &Entry) -> bool {
        begins(entry) && self.tasks.iter().any(|task| Arc::ptr_eq(&task.request, &entry.request))
    }

    /// The calls that run as tasks.
    pub(super) fn in_tasks(&self) -> impl Iterator<Item = &Arc<PendingRequest>> {
        self.tasks.iter().map(|task| &task.request)
    }
}

impl Attended {
    /// The server tells something of the task by itself.
    pub async fn news(&self) {
        self.news.notified().await;
    }
}

fn begins(entry: &Entry) -> bool {
    entry.method.as_str() == "tools/call"
}

impl Drop for Attended {
    fn drop(&mut self) {
        let mut state = self.tap.state.lock();
        state.tasks.retain(|task| !Arc::ptr_eq(&task.request, &self.request));
        state.tokens.retain(|_, request| !Arc::ptr_eq(request, &self.request));
    }
}
