//! Answers: attributes them to requests, and fails a request at once if its answer is unusable.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::Value;
use tokio::sync::Notify;

use super::Tap;
use super::inbound::InboundContext;
use super::record::{ReceivedText, id_text};
use super::table::{Abandoned, LISTEN, RoundTrip, RoundTripResult, TaskCall, full_name};
use crate::id::RequestId;
use crate::json::{self, Flaw};
use crate::message::{self, Inbound, Misfit, Outcome, classify};
use crate::payload::Payload;
use crate::pending::PendingRequest;
use crate::rpc_code::RpcCode;
use crate::sending::SendError;
use crate::tasks::ServerTask;
use crate::traffic::{FindingKind, MessageKind, TrafficRecord};
use base::SafeText;
use config::error::{Error, ErrorCode, RpcError};

impl Tap {
    pub(super) fn answer(
        &self,
        id: Option<RequestId>,
        outcome: Outcome,
        mut source: InboundContext<'_>,
    ) {
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
                    let exact = if source.has_doubles {
                        Payload::exact(result, source.raw)
                    } else {
                        Ok(result.into())
                    };
                    return match exact {
                        Ok(result) => self.result(id, entry, result, &source, problem),
                        Err(why) => {
                            let found = (FindingKind::TooLarge, &*why);
                            self.spoilt(id, entry, found, source.raw.into(), "cannot be read");
                        }
                    };
                };
                if let Some(flaw) = Self::too_large(&entry, &result, flaw) {
                    let found = (FindingKind::TooLarge, &*flaw.to_string());
                    return self.spoilt(id, entry, found, source.raw.into(), "cannot be read");
                }
                self.result(id, entry, result, &source, problem);
            }
            Outcome::Error(error) => {
                let (raw, problem) = (source.raw.into(), problem.as_deref());
                self.context.keep(self.record(&entry, id, MessageKind::Error, raw, problem));
                let error = answered_with(&entry.method, error);
                self.finish(entry, Err(error));
            }
            Outcome::Broken(reason) => {
                let found = (FindingKind::Malformed, reason.as_str());
                self.spoilt(id, entry, found, source.raw.into(), "is malformed");
            }
        }
    }

    /// Why an answer too large to be read as a message is unusable: the host itself reads lists and
    /// requests for input, while other results go to the caller as they are.
    fn too_large(entry: &RoundTrip, result: &Payload, flaw: Flaw) -> Option<Flaw> {
        let handed_on = ["tools/call", "tasks/result", "prompts/get", "resources/read"];
        let asks = result["resultType"] == "input_required";
        (asks || !handed_on.contains(&&*entry.method)).then_some(flaw)
    }

    fn result(
        &self,
        id: i64,
        entry: RoundTrip,
        result: Payload,
        source: &InboundContext<'_>,
        mut problem: Option<String>,
    ) {
        self.table.lock().name_task(&entry, &result);
        self.learn_task(&entry, &result);
        match message::check(&entry.method, &result) {
            None => {}
            Some(Misfit::Odd(reason)) => {
                self.find_in(&entry, FindingKind::WrongShape, &reason, source.raw);
                problem = Some(reason);
            }
            Some(Misfit::Useless(reason)) => {
                let finding = (FindingKind::WrongShape, reason.as_str());
                return self.spoilt(id, entry, finding, source.raw.into(), "has the wrong shape");
            }
        }
        let raw = source.raw.into();
        let record = self.record(&entry, id, MessageKind::Response, raw, problem.as_deref());
        self.context.keep(TrafficRecord { tolerated: problem.is_some(), ..record });
        self.finish(entry, Ok(result));
    }

    /// Fails a request whose answer is unusable, with the reason and the raw text.
    fn spoilt(
        &self,
        id: i64,
        entry: RoundTrip,
        (kind, reason): (FindingKind, &str),
        raw: ReceivedText<'_>,
        what: &str,
    ) {
        self.find_in(&entry, kind, reason, raw.text);
        let is_message = kind == FindingKind::WrongShape;
        let passed = if is_message { MessageKind::Response } else { MessageKind::Junk };
        self.context.keep(self.record(&entry, id, passed, raw, Some(reason)));
        let mut error = protocol(&format!("the answer {what}: {reason}"));
        if kind == FindingKind::TooLarge {
            error.outage = Some(format!("sent an answer that is too large: {reason}"));
            error = error.help("ask for less, or raise the limit in the `limits` of its entry");
        }
        if !raw.text.is_empty() {
            error.raw = Some(SafeText::line(&self.context.text(raw.text, Error::MAX_RAW_BYTES)));
        }
        self.finish(entry, Err(error));
    }

    /// Delivers the answer of a request that was taken out of the table; a no-op if the caller has
    /// given up meanwhile.
    pub(super) fn finish(&self, entry: RoundTrip, answer: RoundTripResult) {
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

    /// Fails a request that still waits although the place for its answer held none (HTTP).
    pub fn unanswered(&self, id: i64, reason: &str) {
        let Some(entry) = self.table.lock().take(id) else { return };
        self.turned_away(&entry, id, reason);
        if !entry.is_probe() {
            self.find_in(&entry, FindingKind::Malformed, reason, b"");
        }
        self.finish(entry, Err(protocol(reason)));
    }

    /// Handles a request that was refused before it was read as a message (an HTTP error status):
    /// an error object in the body is its answer, and needs no id (2025-11-25, transports,
    /// Streamable HTTP). Returns false when there is none.
    pub fn refused(&self, id: i64, body: &[u8]) -> bool {
        let Ok(parsed) = json::parse(body.trim_ascii(), self.budget()) else { return false };
        let inbound = classify(parsed.value, &mut Vec::new());
        let Inbound::Answer { outcome: Outcome::Error(error), .. } = inbound else { return false };
        let Some(entry) = self.table.lock().take(id) else { return false };
        self.context.keep(self.record(&entry, id, MessageKind::Error, body.into(), None));
        let error = answered_with(&entry.method, error);
        self.finish(entry, Err(error));
        true
    }

    /// Learns of a task from the answer that began it, or that reports on it.
    fn learn_task(&self, entry: &RoundTrip, result: &Value) {
        let tasks = &self.context.tasks;
        match entry.method.as_str() {
            "tools/call" => {
                let tool = entry.target.clone().unwrap_or_default();
                let at = self.context.clock.now();
                let begun = result.get("task");
                if let Some(task) = begun.and_then(|task| ServerTask::from_result(task, tool, at)) {
                    tasks.add(task);
                }
            }
            "tasks/get" | "tasks/cancel" => tasks.report(result),
            _ => {}
        }
    }

    /// Drops a request that could not be sent, so that no answer is expected.
    pub fn unsent(&self, id: i64, reason: &str) {
        let Some(entry) = self.table.lock().take(id) else { return };
        self.turned_away(&entry, id, reason);
    }

    /// Like [`Tap::unsent`], where answers arrive on another path than the refusal (HTTP+SSE):
    /// fails the request, if it still waits.
    pub fn undelivered(&self, id: i64, failure: &SendError) {
        let Some(entry) = self.table.lock().take(id) else { return };
        let reason = format!("not delivered: {failure}");
        self.gets_none(&entry, id, &reason);
        let mut error = Error::new(ErrorCode::ServerUnavailable, reason);
        error.answered = !matches!(failure, SendError::Broken(_));
        error.causes = failure.causes().map(str::to_owned);
        self.finish(entry, Err(error));
    }

    /// Handles an unusable message by its text: fails the request it answers, if that can be found.
    pub(super) fn broken(
        &self,
        raw: ReceivedText<'_>,
        id: Option<RequestId>,
        kind: FindingKind,
        reason: &str,
    ) {
        let has = |key: &str| memchr::memmem::find(raw.text, key.as_bytes()).is_some();
        let asks = has("\"method\"") && !has("\"result\"") && !has("\"error\"");
        let owner = if asks { None } else { self.take_broken(id.as_ref()) };
        if let Some((id, entry)) = owner {
            return self.spoilt(id, entry, (kind, reason), raw, "cannot be read");
        }
        self.unattributed((kind, MessageKind::Junk), reason, raw, id.as_ref().map(id_text));
    }

    fn take_broken(&self, id: Option<&RequestId>) -> Option<(i64, RoundTrip)> {
        let mut table = self.table.lock();
        let id = match id {
            Some(id) => number(id)?,
            None => table.only_pending()?,
        };
        let entry = table.take(id)?;
        Some((id, entry))
    }

    fn record(
        &self,
        entry: &RoundTrip,
        id: i64,
        kind: MessageKind,
        raw: ReceivedText<'_>,
        problem: Option<&str>,
    ) -> TrafficRecord {
        TrafficRecord {
            method: Some(entry.method.clone()),
            target: entry.target.clone(),
            id: Some(SafeText::number(id)),
            call: entry.request.call,
            latency: Some(self.context.clock.elapsed(entry.sent)),
            problem: problem.map(|problem| self.context.remark(problem)),
            ..self.context.came(kind, raw)
        }
    }

    /// Records an error in place of the answer, of which nothing came.
    fn keep_in_place(&self, entry: &RoundTrip, id: i64, problem: &str) {
        let nothing = ReceivedText::default();
        self.context.keep(self.record(entry, id, MessageKind::Error, nothing, Some(problem)));
    }

    /// Records that a request gets no answer, where its answer would stand.
    pub(super) fn gets_none(&self, entry: &RoundTrip, id: i64, reason: &str) {
        self.keep_in_place(entry, id, &format!("{}{reason}", TrafficRecord::NO_ANSWER));
    }

    /// Records that a request was not taken. A server of an earlier version takes no first question,
    /// and the session goes on: that stands for an answer.
    fn turned_away(&self, entry: &RoundTrip, id: i64, reason: &str) {
        if entry.is_probe() {
            return self.keep_in_place(entry, id, reason);
        }
        self.gets_none(entry, id, reason);
    }

    /// Registers a call that is going to run as a task.
    pub fn attend(self: &Arc<Self>, request: &Arc<PendingRequest>) -> Attended {
        let news = Arc::new(Notify::new());
        let running = TaskCall { id: None, request: Arc::clone(request), news: Arc::clone(&news) };
        self.table.lock().tasks.push(running);
        Attended { tap: Arc::clone(self), request: Arc::clone(request), news }
    }

    // Which request an answer belongs to: the one it names, an abandoned one, or none.

    /// The request with this id; an answer to none is reported here.
    fn owner(&self, id: &RequestId, source: &mut InboundContext<'_>) -> Option<(i64, RoundTrip)> {
        let mut table = self.table.lock();
        let wanted = number(id);
        if let Some(number) = wanted
            && let Some(entry) = table.take(number)
        {
            if matches!(id, RequestId::String(_)) {
                source.notes.push(format!("id {number} came back as a string"));
            }
            return Some((number, entry));
        }
        if let Some(at) = wanted.and_then(|n| table.abandoned.iter().position(|a| a.id == n)) {
            let late = table.abandoned.remove(at)?;
            drop(table);
            self.late(&late, source);
            return None;
        }
        let used = wanted.is_some_and(|n| (0..table.next_id).contains(&n));
        let only = table.only_pending().filter(|_| !used);
        // Before the handshake is complete, nothing else can be meant for it.
        let shaking = only.filter(|_| table.version.is_none());
        let failed = shaking.and_then(|n| table.take(n));
        let doubted = only.and_then(|n| Some(Arc::clone(&table.pending.get(&n)?.request)));
        drop(table);
        let id = id_text(id);
        let (kind, message) = if used {
            (FindingKind::DuplicateAnswer, format!("a second answer to request {id}"))
        } else {
            (FindingKind::UnknownId, format!("an answer to request {id}, which was never sent"))
        };
        self.unattributed((kind, MessageKind::Response), &message, source.raw.into(), Some(id));
        if let Some(request) = doubted {
            request.doubt(format!("the answer names the wrong request: {message}"));
        }
        if let Some(entry) = failed {
            self.finish(entry, Err(protocol(&message)));
        }
        None
    }

    fn late(&self, late: &Abandoned, source: &InboundContext<'_>) {
        // The end of a session or of a subscription is answered too.
        let ordinary = self.over.is_cancelled() || late.method.as_str() == LISTEN;
        if late.why != Self::OVERTAKEN && !ordinary {
            let message = format!("an answer after its request {}", late.why);
            let name = full_name(&late.method, late.target.as_ref());
            self.find(FindingKind::LateAnswer, &message, source.raw, Some(name));
        }
        let problem = format!("late: the request {}", late.why);
        self.context.keep(TrafficRecord {
            method: Some(late.method.clone()),
            target: late.target.clone(),
            id: Some(SafeText::number(late.id)),
            call: late.call,
            latency: Some(self.context.clock.elapsed(late.sent)),
            problem: Some(self.context.remark(&problem)),
            ..self.context.came(MessageKind::Response, source.raw.into())
        });
    }

    /// Attributes an answer without an id. A server that could not read our message answers with
    /// such an error; a result is not attributed, but casts doubt on the only pending request.
    fn owner_without_id(
        &self,
        outcome: &Outcome,
        source: &InboundContext<'_>,
    ) -> Option<(i64, RoundTrip)> {
        let is_error = matches!(outcome, Outcome::Error(_));
        let mut table = self.table.lock();
        let only = table.only_pending();
        if is_error && let Some(id) = only {
            return table.take(id).map(|entry| (id, entry));
        }
        let doubted = only.and_then(|id| Some(Arc::clone(&table.pending.get(&id)?.request)));
        drop(table);
        if let Some(request) = doubted {
            request.doubt("the answer names no request".to_owned());
        }
        let message = match outcome {
            Outcome::Error(error) => format!("an error without an id: {}", error.message),
            Outcome::Result(_) | Outcome::Broken(_) => "an answer without an id".to_owned(),
        };
        let of = if is_error { MessageKind::Error } else { MessageKind::Response };
        self.unattributed((FindingKind::UnknownId, of), &message, source.raw.into(), None);
        None
    }
}

/// The number of an id, also if it came back as text.
fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::String(text) => text.parse().ok(),
    }
}

/// The error of a request of `method` that the server answered with an error object.
fn answered_with(method: &str, rpc: RpcError) -> Error {
    let code = rpc.code.map_or_else(|| "without a code".to_owned(), |code| code.to_string());
    let said = match rpc.message.trim() {
        "" => ", and does not say why".to_owned(),
        said => format!(": {said}"),
    };
    let text = format!("the server answered with error {code}{said}");
    let mut error = Error::new(ErrorCode::Protocol, text);
    let next = RpcCode::advice(method, rpc.code);
    error.rpc = Some(rpc);
    error.help(next)
}

pub(super) fn protocol(message: &str) -> Error {
    Error::new(ErrorCode::Protocol, message)
        .help("the message log holds the raw text; the server's author can fix it")
}

/// Keeps the call of a task in flight until dropped.
pub struct Attended {
    tap: Arc<Tap>,
    request: Arc<PendingRequest>,
    news: Arc<Notify>,
}

impl Attended {
    /// Waits until the server reports on the task unprompted.
    pub async fn news(&self) {
        self.news.notified().await;
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        let mut table = self.tap.table.lock();
        table.tasks.retain(|task| !Arc::ptr_eq(&task.request, &self.request));
        table.tokens.retain(|_, request| !Arc::ptr_eq(request, &self.request));
    }
}
