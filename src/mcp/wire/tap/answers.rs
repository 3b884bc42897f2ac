//! Answers: which request they belong to, and failing it at once when they are no good.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use rmcp::model::{CustomResult, ErrorCode as RpcCode, ErrorData, RequestId};
use rmcp::model::{ServerJsonRpcMessage, ServerResult};
use serde_json::Value;

use super::decode;
use super::inbound::Source;
use super::owner::{Owner, number};
use super::record::{Passed, id_text};
use super::{Delivery, Entry, Expects, Tap};
use crate::base::text::SafeText;
use crate::error::{Error, ErrorCode, RpcError};
use crate::mcp::session::SessionEvent;
use crate::mcp::traffic::MessageKind;
use crate::mcp::wire::json::{self, Budget, Flaw};
use crate::mcp::wire::message::{Inbound, Outcome, classify};
use crate::mcp::wire::shape::{self, Misfit};
use crate::mcp::{FindingKind, Payload};

impl Tap {
    pub(super) fn answer(
        &self,
        id: Option<RequestId>,
        outcome: Outcome,
        mut source: Source<'_>,
        out: &mut VecDeque<Delivery>,
    ) {
        let owner = match id {
            Some(id) => self.owner(&id, &mut source, out),
            None => self.owner_without_id(&outcome, &source),
        };
        let Owner::Pending(id, entry) = owner else { return };
        self.answered.fetch_add(source.raw.len() + 1, Ordering::Relaxed);
        if let Some(operation) = entry.exchange.as_ref().map(|e| &e.operation) {
            operation.flush_progress();
            if let Some(counter) = &operation.bytes {
                counter.received(source.raw.len() + 1);
            }
        }
        match outcome {
            Outcome::Result(result) => {
                let result = source.large.take().unwrap_or_else(|| result.into());
                match self.too_many(&entry, &result) {
                    None => self.result(id, &entry, result, &source, out),
                    Some(flaw) => {
                        let reason = flaw.to_string();
                        self.find(
                            FindingKind::TooLarge,
                            &reason,
                            source.raw,
                            Some(name_of(&entry)),
                        );
                        self.recorded(&entry, id, MessageKind::Junk, source.raw, Some(&reason));
                        let error = protocol(&format!("the answer cannot be read: {reason}"));
                        self.fail(id, &entry, error, out);
                    }
                }
            }
            Outcome::Error(error) => self.error(id, &entry, error, &source, out),
            Outcome::Broken(reason) => {
                let name = name_of(&entry);
                self.find(FindingKind::Malformed, &reason, source.raw, Some(name));
                self.recorded(&entry, id, MessageKind::Junk, source.raw, Some(&reason));
                self.fail(id, &entry, protocol(&format!("the answer is malformed: {reason}")), out);
            }
        }
    }

    /// An answer came as text, holds more values than a tree may, and a tree is made of it: lists,
    /// and what a server wants to know. Answers that are read in place cost no more than their bytes.
    fn too_many(&self, entry: &Entry, result: &Payload) -> Option<Flaw> {
        // The message around it is three values.
        let Budget { nodes, bytes, .. } = self.budget();
        let document = result.document()?;
        let flaw = if document.nodes().saturating_add(3) > nodes {
            Flaw::TooMany(nodes)
        } else if document.tree() > bytes {
            Flaw::TooBig(bytes)
        } else {
            return None;
        };
        let in_place = ["tools/call", "tasks/result", "prompts/get", "resources/read"];
        let asks = result.root().text("resultType").as_deref() == Some("input_required");
        (asks || !in_place.contains(&&*entry.method)).then_some(flaw)
    }

    fn result(
        &self,
        id: i64,
        entry: &Entry,
        result: Payload,
        source: &Source<'_>,
        out: &mut VecDeque<Delivery>,
    ) {
        self.name_task(entry, result.root());
        let mut problem = self.note_all(source, || name_of(entry));
        let misfit = shape::check(&entry.method, result.root());
        if let Some(Misfit::Odd(reason) | Misfit::Useless(reason)) = &misfit {
            self.find(FindingKind::WrongShape, reason, source.raw, Some(name_of(entry)));
            problem = Some(reason.clone());
        }
        self.recorded(entry, id, MessageKind::Response, source.raw, problem.as_deref());
        if let Some(Misfit::Useless(reason)) = misfit {
            let message = format!("the answer has the wrong shape: {reason}");
            return self.fail(id, entry, protocol(&message), out);
        }
        let decoded = match entry.expects {
            Expects::Initialize => decode::initialize(&result),
            Expects::Discover => decode::discover(&result),
            _ => Ok((ServerResult::CustomResult(CustomResult(Value::Null)), None)),
        };
        let (typed, odd) = match decoded {
            Ok(decoded) => decoded,
            Err(reason) => {
                self.find(FindingKind::WrongShape, &reason, source.raw, Some(name_of(entry)));
                return self.fail(id, entry, protocol(&reason), out);
            }
        };
        if let Some(odd) = odd {
            self.find(FindingKind::WrongShape, &odd, source.raw, Some(name_of(entry)));
        }
        let result = if matches!(entry.expects, Expects::Initialize | Expects::Discover) {
            let mut state = self.state();
            state.handshake.result = Some(result.into_value());
            let again = state.version.is_some();
            drop(state);
            if again {
                self.pump.push(SessionEvent::Renewed);
            }
            typed
        } else {
            if let Some(waiting) = entry.exchange.as_ref().and_then(|e| e.waiting()) {
                let _ = waiting.send(Ok(result));
                return;
            }
            match &entry.exchange {
                Some(exchange) if result.is_text() => {
                    exchange.keep(result);
                    ServerResult::CustomResult(CustomResult(Value::Null))
                }
                _ => ServerResult::CustomResult(CustomResult(result.into_value())),
            }
        };
        let message = ServerJsonRpcMessage::response(result, RequestId::Number(id));
        out.push_back(Delivery { message, expects: entry.expects });
    }

    fn error(
        &self,
        id: i64,
        entry: &Entry,
        error: RpcError,
        source: &Source<'_>,
        out: &mut VecDeque<Delivery>,
    ) {
        let problem = self.note_all(source, || name_of(entry));
        self.recorded(entry, id, MessageKind::Error, source.raw, problem.as_deref());
        self.fail(id, entry, answered_with(error), out);
    }

    /// Fails an open request that was taken out of the table.
    pub(super) fn fail(
        &self,
        id: i64,
        entry: &Entry,
        mut error: Error,
        out: &mut VecDeque<Delivery>,
    ) {
        error.server = Some(self.context.server.clone());
        error.request = Some(name_of(entry).to_string());
        let redactor = &self.context.redactor;
        let redacted = redactor.redact(&error.message).into_owned();
        error.message = redacted;
        if let Some(rpc) = &mut error.rpc {
            let redacted = redactor.redact(&rpc.message).into_owned();
            rpc.message = redacted;
            if let Some(masked) = rpc.data.as_ref().and_then(|data| redactor.redact_json(data)) {
                rpc.data = Some(masked);
            }
        }
        let (code, data) = match &error.rpc {
            Some(rpc) => (
                rpc.code
                    .and_then(|code| i32::try_from(code).ok())
                    .unwrap_or(RpcCode::INTERNAL_ERROR.0),
                rpc.data.clone(),
            ),
            // What cannot be understood as an answer to the probe is what a legacy server says.
            None if entry.expects == Expects::Discover => (RpcCode::METHOD_NOT_FOUND.0, None),
            None => (RpcCode::INTERNAL_ERROR.0, None),
        };
        let stand_in = ErrorData::new(RpcCode(code), error.message.clone(), data);
        match &entry.exchange {
            Some(exchange) => match exchange.waiting() {
                Some(waiting) => {
                    // Whoever gave up meanwhile has told the tap.
                    let _ = waiting.send(Err(error));
                    return;
                }
                None => exchange.fail(error),
            },
            None => self.state().handshake.failure = Some(error),
        }
        let message = ServerJsonRpcMessage::error(stand_in, Some(RequestId::Number(id)));
        out.push_back(Delivery { message, expects: entry.expects });
    }

    /// The place where the answer of a request had to be holds none (HTTP): fails it, if it still
    /// waits.
    pub fn unanswered(&self, id: i64, reason: &str, out: &mut VecDeque<Delivery>) {
        let Some(entry) = self.state().take(id) else { return };
        self.recorded(&entry, id, MessageKind::Error, b"", Some(reason));
        if entry.expects != Expects::Discover {
            self.find(FindingKind::Malformed, reason, b"", Some(name_of(&entry)));
        }
        self.fail(id, &entry, protocol(reason), out);
    }

    /// A request was refused before it was read as a message (an HTTP error status): an error object
    /// in the body is its answer, and needs no id (2025-11-25, transports, Streamable HTTP). False
    /// when there is none.
    pub fn refused(&self, id: i64, body: &[u8], out: &mut VecDeque<Delivery>) -> bool {
        let Ok(parsed) = json::parse(body.trim_ascii(), self.budget()) else { return false };
        let Inbound::Answer { outcome: Outcome::Error(error), .. } = classify(parsed.value).inbound
        else {
            return false;
        };
        let Some(entry) = self.state().take(id) else { return false };
        let source = Source { raw: body, notes: Vec::new(), large: None };
        self.error(id, &entry, error, &source, out);
        true
    }

    /// A request that could not be sent has no answer to come.
    pub fn unsent(&self, id: i64) {
        self.state().take(id);
    }

    /// The transport itself gave a request up.
    pub fn failed_below(&self, id: i64, reason: &str) {
        let Some(entry) = self.state().take(id) else { return };
        self.recorded(&entry, id, MessageKind::Error, b"", Some(reason));
        let mut error =
            Error::new(ErrorCode::ServerUnavailable, SafeText::line(reason).to_string())
                .help("look at the log of the server, or of what stands in front of it");
        error.request = Some(name_of(&entry).to_string());
        if let Some(exchange) = &entry.exchange {
            exchange.fail(error);
        }
    }

    /// A message that cannot be used, by its text: fails the request it answers, if that can be
    /// told.
    pub(super) fn broken(
        &self,
        raw: &[u8],
        id: Option<RequestId>,
        kind: FindingKind,
        reason: &str,
        out: &mut VecDeque<Delivery>,
    ) {
        let has = |key: &str| memchr::memmem::find(raw, key.as_bytes()).is_some();
        let asks = has("\"method\"") && !has("\"result\"") && !has("\"error\"");
        let owner = if asks { None } else { self.take_broken(id.as_ref()) };
        let request = owner.as_ref().map(|(_, entry)| name_of(entry));
        self.find(kind, reason, raw, request);
        match owner {
            Some((id, entry)) => {
                self.recorded(&entry, id, MessageKind::Junk, raw, Some(reason));
                let error = protocol(&format!("the answer cannot be read: {reason}"));
                self.fail(id, &entry, error, out);
            }
            None => self.record(Passed {
                id: id.as_ref().map(id_text),
                problem: Some(SafeText::line(reason)),
                ..Passed::came(MessageKind::Junk, raw)
            }),
        }
    }

    fn take_broken(&self, id: Option<&RequestId>) -> Option<(i64, Entry)> {
        let mut state = self.state();
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
        self.record(Passed {
            method: Some(entry.method.clone()),
            target: entry.exchange.as_ref().and_then(|e| e.target.clone()),
            id: Some(id_text(&RequestId::Number(id))),
            call: entry.exchange.as_ref().and_then(|e| e.operation.call),
            latency: Some(entry.sent.elapsed()),
            problem: problem.map(SafeText::line),
            ..Passed::came(kind, raw)
        });
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

fn name_of(entry: &Entry) -> SafeText {
    match &entry.exchange {
        Some(exchange) => full_name(&exchange.method, exchange.target.as_ref()),
        None => entry.method.clone(),
    }
}

pub(super) fn full_name(method: &SafeText, target: Option<&SafeText>) -> SafeText {
    target.map_or_else(|| method.clone(), |target| SafeText::line(&format!("{method} {target}")))
}
