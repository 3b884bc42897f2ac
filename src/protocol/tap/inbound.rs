//! From a line to messages: parse, repair, split, and report what cannot be used.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::Tap;
use super::record::{JunkWindow, ReceivedText, id_text, method_name};
use super::requests::{RequestDecision, is_of_sessions, judge};
use super::table::{RoundTrip, ServerRequestEntry};
use crate::capabilities::ListKind;
use crate::context::{ServerRequest, SessionEvent};
use crate::id::{CallId, RequestId};
use crate::json::{self, Flaw};
use crate::message::{self, Inbound, Outcome, classify, request_id};
use crate::notice::{Notice, NoticeKind, RequestKind};
use crate::payload::{self, Payload};
use crate::pending::{Claim, PendingRequest};
use crate::rpc_code::RpcCode;
use crate::traffic::{Direction, Finding, FindingKind, MessageKind, TrafficRecord};
use base::text::cut;
use base::text::json::within_range;
use base::{LogLevel, LogRecord, LogSource, SafeText};
use config::error::{Error, ErrorCode};

/// Context of an incoming message.
pub(super) struct InboundContext<'a> {
    /// The text it came in.
    pub raw: &'a [u8],
    /// What had to be tolerated so far.
    pub notes: Vec<String>,
    /// Its result, when that is too large to be read as a message, and why it is.
    pub large: Option<(Payload, Flaw)>,
    /// Whether parsing may have rounded numbers of it.
    pub has_doubles: bool,
    /// The request whose response it came in.
    pub stream: Option<i64>,
}

/// A request of the server that somebody has to decide on.
#[derive(Debug)]
pub struct UndecidedRequest {
    /// Its id on the wire.
    pub id: RequestId,
    /// What is asked; its `withdrawn` fires when the server takes it back.
    pub asked: ServerRequest,
    /// The calls of which one caused it. If that call is unknown, these are all in flight: none may
    /// time out while the user considers what may be its question.
    pub causes: Vec<Arc<PendingRequest>>,
}

impl Tap {
    /// Most messages read from one line. The specification allows one; a server that forgets its
    /// line breaks writes several.
    const MAX_LINE_MESSAGES: usize = 1024;

    /// Processes one line, or one event of a stream, without its line break. `stream` is the
    /// request whose response it came in, where the transport knows it.
    pub fn line(&self, line: &[u8], stream: Option<i64>) {
        let line = trim(line);
        match line.first() {
            None => {}
            Some(_) if self.continues(line) => {}
            Some(b'{' | b'[') => self.text_line(line, Vec::new(), stream),
            Some(_) => match message::find_message(line) {
                Some(at) => {
                    let before = self.context.text(&line[..at], 80);
                    let note = format!("text in front of the message: `{before}`");
                    self.text_line(&line[at..], vec![note], stream);
                }
                None => self.stray(line),
            },
        }
    }

    /// Processes a line longer than the limit, of which only both ends were kept.
    pub fn oversized(&self, head: &[u8], tail: &[u8], total: u64) {
        let limit = self.context.limits.line_bytes;
        let reason = format!("a line of {total} bytes, the limit is {limit} (`limits.lineBytes`)");
        let id = message::find_id(head).or_else(|| message::find_last_id(trim(tail)));
        let head = self.context.beginning(head, total);
        if !matches!(trim(head.text).first(), Some(b'{' | b'[')) {
            self.find(FindingKind::TooLarge, &reason, head.text, None);
            self.junk(head, &reason);
            return;
        }
        self.broken(head, id, FindingKind::TooLarge, &reason);
    }

    /// Processes the messages of a line one after the other: their number is up to the server, so
    /// neither the stack nor the time may depend on it.
    fn text_line(&self, line: &[u8], mut notes: Vec<String>, stream: Option<i64>) {
        if let Some((id, result, has_doubles)) = json::answer(line, self.budget()) {
            let source = InboundContext { raw: line, notes, large: None, has_doubles, stream };
            self.answer(Some(RequestId::Number(id)), Outcome::Result(result), source);
            return self.understood();
        }
        let mut line = Cow::Borrowed(line);
        let mut at = 0;
        for _ in 0..Self::MAX_LINE_MESSAGES {
            let parsed = match self.readable(&mut line, &mut at, &mut notes) {
                Ok(parsed) => parsed,
                Err(flaw) => return self.over_budget(&line[at..], flaw, notes, stream),
            };
            let rest = self.parsed(&line[at..], parsed, notes, stream);
            if rest.first() != Some(&b'{') {
                return;
            }
            at = line.len() - rest.len();
            notes = vec!["several messages on one line".to_owned()];
        }
        let rest = &line[at..];
        let reason = format!("more than {} messages on one line", Self::MAX_LINE_MESSAGES);
        self.broken(rest.into(), message::find_id(rest), FindingKind::Flood, &reason);
    }

    /// Parses the value at `at` of a line. If it has to be repaired, the line is replaced by the
    /// repaired text from there on.
    fn readable(
        &self,
        line: &mut Cow<'_, [u8]>,
        at: &mut usize,
        notes: &mut Vec<String>,
    ) -> Result<json::Parsed, Flaw> {
        let flaw = match json::parse(&line[*at..], self.budget()) {
            Err(flaw @ (Flaw::Syntax(_) | Flaw::Incomplete)) => flaw,
            settled => return settled,
        };
        if let Some(parsed) = self.beyond_range(&line[*at..]) {
            return Ok(parsed);
        }
        let Some((text, what)) = message::repair(&line[*at..]) else { return Err(flaw) };
        let parsed = json::parse(text.as_bytes(), self.budget())?;
        notes.push(format!("{what} (replaced by U+FFFD)"));
        (*line, *at) = (Cow::Owned(text.into_bytes()), 0);
        Ok(parsed)
    }

    /// Parses a text that is a message with numbers beyond the range of a double, such as `1e400`,
    /// which are the largest ones in the value.
    fn beyond_range(&self, text: &[u8]) -> Option<json::Parsed> {
        let Cow::Owned(readable) = within_range(std::str::from_utf8(text).ok()?) else {
            return None;
        };
        let parsed = json::parse(readable.as_bytes(), self.budget()).ok()?;
        let is_all = parsed.used == readable.len();
        is_all.then(|| json::Parsed { used: text.len(), ..parsed })
    }

    /// Processes the message at the start of a text; returns what follows it.
    fn parsed<'l>(
        &self,
        line: &'l [u8],
        parsed: json::Parsed,
        mut notes: Vec<String>,
        stream: Option<i64>,
    ) -> &'l [u8] {
        if let Some(key) = parsed.repeated {
            notes.push(format!("the key `{key}` appears twice in one object; the last one counts"));
        }
        let (message, rest) = line.split_at(parsed.used);
        let rest = trim(rest);
        if !rest.is_empty() && rest[0] != b'{' {
            notes.push("text after the message".to_owned());
        }
        let has_doubles = parsed.has_doubles;
        let source = InboundContext { raw: message, notes, large: None, has_doubles, stream };
        match parsed.value {
            Value::Array(items) => self.batch(items, &source),
            value => self.value(value, source),
        }
        rest
    }

    /// A JSON-RPC batch: part of the protocol only in 2025-03-26, but accepted everywhere.
    fn batch(&self, items: Vec<Value>, source: &InboundContext<'_>) {
        let InboundContext { raw, has_doubles, stream, .. } = *source;
        let allowed = self.table.lock().version.as_deref() == Some("2025-03-26");
        if !items.iter().any(Value::is_object) {
            return self.junk(raw.into(), "a JSON array that is not a batch of messages");
        }
        if !allowed {
            let message =
                format!("a batch of {} messages, which this version forbids", items.len());
            self.find(FindingKind::NotAllowed, &message, raw, None);
        }
        let texts: Vec<&RawValue> = serde_json::from_slice(raw).unwrap_or_default();
        for (item, text) in items.into_iter().zip(texts) {
            let (raw, notes, large) = (text.get().as_bytes(), source.notes.clone(), None);
            self.value(item, InboundContext { raw, notes, large, has_doubles, stream });
        }
    }

    fn value(&self, value: Value, mut source: InboundContext<'_>) {
        match classify(value, &mut source.notes) {
            Inbound::Junk => return self.junk(source.raw.into(), "JSON that is not JSON-RPC"),
            Inbound::Answer { id, outcome } => self.answer(id, outcome, source),
            Inbound::Malformed { id, reason } => {
                self.broken(source.raw.into(), id, FindingKind::Malformed, &reason);
            }
            Inbound::Request { id, method, params } => {
                self.request(id, &method, params, &source);
            }
            Inbound::Notification { method, params } => {
                self.take_notification(&method, params, source);
            }
        }
        self.understood();
    }

    /// Handles a message that cannot be read; an answer that is merely too large keeps its text.
    fn over_budget(&self, line: &[u8], flaw: Flaw, notes: Vec<String>, stream: Option<i64>) {
        let large = match flaw {
            Flaw::TooMany(_) | Flaw::TooBig(_) => payload::answer(line, self.budget()),
            Flaw::Syntax(_) | Flaw::Incomplete | Flaw::TooDeep(_) => None,
        };
        let Some((id, payload)) = large else { return self.flawed(line, &flaw) };
        let (large, has_doubles) = (Some((payload, flaw)), false);
        let source = InboundContext { raw: line, notes, large, has_doubles, stream };
        self.answer(Some(RequestId::Number(id)), Outcome::Result(Value::Null), source);
        self.understood();
    }

    fn flawed(&self, line: &[u8], flaw: &Flaw) {
        if matches!(flaw, Flaw::Incomplete) && (line == b"{" || line == b"[") {
            return self.spread.lock().add(line);
        }
        let protocol = ["\"jsonrpc\"", "\"result\"", "\"error\"", "\"method\""];
        if !protocol.iter().any(|key| memchr::memmem::find(line, key.as_bytes()).is_some()) {
            return self.stray(line);
        }
        let kind = match flaw {
            Flaw::TooDeep(_) | Flaw::TooMany(_) | Flaw::TooBig(_) => FindingKind::TooLarge,
            Flaw::Syntax(_) | Flaw::Incomplete => FindingKind::Malformed,
        };
        self.broken(line.into(), message::find_id(line), kind, &flaw.to_string());
    }

    /// Collects a message printed over several lines. Returns true when the line was part of one.
    fn continues(&self, line: &[u8]) -> bool {
        let mut kept = self.spread.lock();
        if kept.text.is_empty() {
            return false;
        }
        let mut spread = std::mem::take(&mut *kept);
        drop(kept);
        // A complete message on its own means that what was collected is not one.
        let whole = line.starts_with(b"{")
            && memchr::memmem::find(line, b"\"jsonrpc\"").is_some()
            && json::parse(line, self.budget()).is_ok();
        if whole || spread.text.len() + line.len() > self.context.limits.line_bytes {
            self.stray(&spread.text);
            return false;
        }
        spread.add(line);
        if spread.depth > 0 {
            *self.spread.lock() = spread;
            return true;
        }
        match json::parse(&spread.text, self.budget()) {
            Ok(parsed) => {
                let note = "one message over several lines".to_owned();
                let rest = self.parsed(&spread.text, parsed, vec![note], None);
                if rest.first() == Some(&b'{') {
                    self.text_line(rest, vec!["several messages on one line".to_owned()], None);
                }
            }
            Err(flaw) => self.flawed(&spread.text, &flaw),
        }
        true
    }

    /// Reports what had to be tolerated in a message.
    pub(super) fn note_all(
        &self,
        source: &InboundContext<'_>,
        request: &SafeText,
    ) -> Option<String> {
        let text = (!source.notes.is_empty()).then(|| source.notes.join("; "))?;
        self.find(FindingKind::Malformed, &text, source.raw, Some(request.clone()));
        Some(text)
    }

    /// Like [`Tap::note_all`], for an answer.
    pub(super) fn note_in(&self, entry: &RoundTrip, source: &InboundContext<'_>) -> Option<String> {
        let text = (!source.notes.is_empty()).then(|| source.notes.join("; "))?;
        self.find_in(entry, FindingKind::Malformed, &text, source.raw);
        Some(text)
    }

    /// Counts a protocol message that was processed.
    fn understood(&self) {
        self.context.seen.with(|seen| seen.messages += 1);
    }

    pub(super) fn is_http(&self) -> bool {
        self.context.seen.with(|seen| seen.http.is_some())
    }

    /// Handles text that is not a message, described by the way it came.
    pub(super) fn stray(&self, text: &[u8]) {
        let finding = if self.is_http() {
            "what came over HTTP is not JSON-RPC"
        } else if text.starts_with(b"Content-Length:") {
            "a header of language servers (`Content-Length`); MCP has one message per line"
        } else {
            "a line on stdout that is not JSON-RPC"
        };
        self.junk(text.into(), finding);
    }

    /// Handles a line that is not a message.
    pub(super) fn junk(&self, line: ReceivedText<'_>, problem: &str) {
        let now = self.context.clock.instant();
        let began = self.junk.lock().began;
        if began.is_none_or(|began| now - began >= JunkWindow::JUNK_WINDOW) {
            self.roll_junk();
        }
        let mut junk = self.junk.lock();
        if junk.kept >= JunkWindow::MAX_JUNK_LINES {
            junk.skipped += 1;
            junk.skipped_bytes += line.total;
            return;
        }
        junk.kept += 1;
        drop(junk);
        let text = SafeText::line(&self.context.text(line.text, 256));
        self.context.seen.junk(&text, 1);
        let problem = format!("{problem}: `{}`", cut(text.trim(), 120));
        self.unattributed((FindingKind::Junk, MessageKind::Junk), &problem, line, None);
    }

    /// Reports the lines skipped in the last second, and starts another.
    pub(super) fn roll_junk(&self) {
        let fresh =
            JunkWindow { began: Some(self.context.clock.instant()), ..JunkWindow::default() };
        let last = std::mem::replace(&mut *self.junk.lock(), fresh);
        if last.skipped == 0 {
            return;
        }
        let message = format!("{} more lines that are not JSON-RPC, not kept", last.skipped);
        self.context.seen.junk(&SafeText::default(), last.skipped);
        let finding = self.context.finding(FindingKind::Junk, &message, b"", None);
        self.pump.push(SessionEvent::Finding(Finding { count: last.skipped, ..finding }));
        self.context.keep(TrafficRecord {
            bytes: last.skipped_bytes,
            problem: Some(self.context.remark(&message)),
            ..self.context.came(MessageKind::Junk, ReceivedText::default())
        });
    }

    /// Handles a request of the server: passed to the approval queue, or refused at no cost.
    pub(super) fn request(
        &self,
        id: RequestId,
        method: &str,
        params: Option<Value>,
        source: &InboundContext<'_>,
    ) {
        let name = method_name(method);
        let mut problem = self.note_all(source, &name);
        let mut tolerated = problem.is_some();
        let (causes, verdict) = {
            let table = self.table.lock();
            let causes = table.causes(params.as_ref(), source.stream);
            let asked = (&id, method, source.raw.len());
            (causes, judge(&table, &self.context, &self.over, asked))
        };
        match &verdict {
            RequestDecision::Refuse(kind, _, message) | RequestDecision::Drop(kind, message) => {
                self.find(*kind, message, source.raw, Some(name.clone()));
                (problem, tolerated) = (Some(message.clone()), false);
            }
            RequestDecision::Echo(message) => {
                self.find(FindingKind::NotAllowed, message, source.raw, Some(name.clone()));
                (problem, tolerated) = (Some(message.clone()), false);
            }
            RequestDecision::Pass => {}
        }
        let call = causes.call();
        self.context.keep(TrafficRecord {
            method: Some(name.clone()),
            id: Some(id_text(&id)),
            call,
            tolerated,
            problem: problem.map(|problem| self.context.remark(&problem)),
            ..self.context.came(MessageKind::Request, source.raw.into())
        });
        match verdict {
            RequestDecision::Drop(kind, _) => {
                if kind == FindingKind::AskedAfterClose {
                    self.asked_too_late.cancel();
                }
                return;
            }
            RequestDecision::Echo(_) => return self.echoed.cancel(),
            RequestDecision::Refuse(_, code, message) => {
                return self.reply(&id, Err((code, message)));
            }
            RequestDecision::Pass if method == "ping" => return self.reply(&id, Ok(json!({}))),
            RequestDecision::Pass if is_of_sessions(method) => {
                return self.reply(&id, Err((RpcCode::METHOD_NOT_FOUND, method.to_owned())));
            }
            RequestDecision::Pass => {}
        }
        let (claim, withdrawn) = (Arc::new(Claim::default()), CancellationToken::new());
        let open = ServerRequestEntry {
            method: name,
            bytes: source.raw.len(),
            call,
            arrived: self.context.clock.instant(),
            claim: Arc::clone(&claim),
            withdrawn: withdrawn.clone(),
        };
        self.table.lock().open.insert(id.clone(), open);
        let params = params.unwrap_or(Value::Null);
        let asked = ServerRequest {
            server: self.context.server.clone(),
            kind: RequestKind::from_method(method, &params),
            call,
            candidates: causes.candidates(),
            params: Arc::new(params),
            bytes: source.raw.len(),
            deferred: false,
            input: None,
            withdrawn,
            claim,
        };
        if let Some(tap) = self.me.upgrade() {
            (self.decide)(tap, UndecidedRequest { id, asked, causes: causes.calls });
        }
    }

    // Notifications of the server, processed in wire order: progress before its result, logs,
    // changes of lists and resources, cancellations.

    /// Longest URI of an update, in bytes: many may wait to be delivered.
    const MAX_URI_BYTES: usize = 16 << 10;
    /// Longest log message that is passed on, in bytes: many may wait.
    const MAX_LOG_BYTES: usize = 64 << 10;

    pub(super) fn take_notification(
        &self,
        method: &str,
        params: Option<Value>,
        source: InboundContext<'_>,
    ) {
        let params = params.unwrap_or_default();
        let problem = self.note_all(&source, &method_name(method));
        let mut call = None;
        match method {
            "notifications/progress" => call = self.progress(&params, &source),
            "notifications/message" => self.log(params, &source),
            "notifications/tools/list_changed" => self.changed(&[ListKind::Tools]),
            "notifications/prompts/list_changed" => self.changed(&[ListKind::Prompts]),
            "notifications/resources/list_changed" => {
                self.changed(&[ListKind::Resources, ListKind::ResourceTemplates]);
            }
            "notifications/resources/updated" => match params.get("uri").and_then(Value::as_str) {
                Some(uri) if uri.len() > Self::MAX_URI_BYTES => {
                    let reason = format!("its `uri` has {} bytes", uri.len());
                    self.unusable(method, &reason, &source);
                }
                Some(uri) => self.pump.push(SessionEvent::ResourceUpdated(uri.into())),
                None => self.unusable(method, "it names no `uri`", &source),
            },
            "notifications/tasks/status" => {
                self.context.tasks.report(&params);
                self.table.lock().task_news(&params);
            }
            "notifications/cancelled" => self.cancelled(&params, &source),
            _ => {}
        }
        self.context.keep(TrafficRecord {
            method: Some(method_name(method)),
            call,
            tolerated: problem.is_some(),
            problem: problem.map(|problem| self.context.remark(&problem)),
            ..self.context.came(MessageKind::Notification, source.raw.into())
        });
    }

    fn changed(&self, lists: &[ListKind]) {
        for list in lists {
            self.pump.push(SessionEvent::ListChanged(*list));
        }
    }

    fn unusable(&self, method: &str, reason: &str, source: &InboundContext<'_>) {
        let message = format!("`{method}` cannot be used: {reason}");
        self.find(FindingKind::Malformed, &message, source.raw, Some(method_name(method)));
    }

    fn progress(&self, params: &Value, source: &InboundContext<'_>) -> Option<CallId> {
        const METHOD: &str = "notifications/progress";
        let token = params.get("progressToken");
        let number = match token {
            Some(Value::Number(number)) => number.as_i64(),
            Some(Value::String(text)) => text.parse().ok(),
            _ => None,
        };
        let table = self.table.lock();
        let request = number.and_then(|token| table.tokens.get(&token)).map(Arc::clone);
        let used = number.is_some_and(|token| (0..table.next_id).contains(&token));
        let given_up = number.is_some_and(|token| table.has_given_up(token));
        drop(table);
        // What a server reports before it has read the cancellation is nobody's mistake.
        if request.is_none() && (given_up || self.over.is_cancelled()) {
            return None;
        }
        let Some(request) = request else {
            let (kind, message) = match token {
                Some(_) if used => {
                    (FindingKind::LateAnswer, "progress of a request that is over".to_owned())
                }
                Some(token) => {
                    let token = token.to_string();
                    let token = SafeText::line(cut(&token, 64));
                    (FindingKind::UnknownId, format!("progress with the unknown token {token}"))
                }
                None => (FindingKind::Malformed, "progress without a token".to_owned()),
            };
            self.find(kind, &message, source.raw, Some(method_name(METHOD)));
            return None;
        };
        let Some(progress) = params.get("progress").and_then(Value::as_f64) else {
            self.unusable(METHOD, "`progress` is not a number", source);
            return request.call;
        };
        let total = params.get("total").and_then(Value::as_f64);
        let message = params.get("message").and_then(Value::as_str);
        let message = message
            .map(|text| self.context.text(text.as_bytes(), PendingRequest::MAX_PROGRESS_BYTES));
        request.progressed(progress, total, message.as_deref());
        request.call
    }

    fn log(&self, params: Value, source: &InboundContext<'_>) {
        const MAX_TEXT_BYTES: usize = 16 << 10;
        let level = match params.get("level") {
            Some(Value::String(text)) if text == "warn" => LogLevel::Warning,
            Some(level) => LogLevel::deserialize(level).unwrap_or(LogLevel::Info),
            None => LogLevel::Info,
        };
        let text = match params.get("data") {
            Some(Value::String(text)) => text.clone(),
            Some(data) => data.to_string(),
            None => String::new(),
        };
        let logger = params.get("logger").and_then(Value::as_str);
        let record = LogRecord {
            at: self.context.clock.now(),
            server: Some(self.context.server.clone()),
            source: LogSource::Notification,
            level,
            logger: logger.map(|name| SafeText::line(&self.context.text(name.as_bytes(), 256))),
            text: SafeText::block(&self.context.text(text.as_bytes(), MAX_TEXT_BYTES)),
        };
        record.keep(&self.context.logs);
        let during = self.table.lock().during(source.stream);
        let notices = &self.context.notices;
        let fits = source.raw.len() <= Self::MAX_LOG_BYTES && notices.receiver_count() > 0;
        if fits && (during.is_some() || self.in_flight().is_empty()) {
            let params = self.context.redactor.redact_json(&params).unwrap_or(params);
            let call = during.and_then(|request| request.call);
            let server = self.context.server.clone();
            let _ =
                notices.send(Notice { server, kind: NoticeKind::Logged { level, params, call } });
        }
    }

    /// Legacy: the server no longer wants our answer. Modern: it ends one of our requests.
    fn cancelled(&self, params: &Value, source: &InboundContext<'_>) {
        const METHOD: &str = "notifications/cancelled";
        let id = params.get("requestId").and_then(|id| request_id(id, &mut Vec::new()));
        let Some(id) = id else { return self.unusable(METHOD, "it names no `requestId`", source) };
        let reason = params.get("reason").and_then(Value::as_str).map(|text| cut(text, 1 << 10));
        let mut table = self.table.lock();
        if let Some(open) = table.open.get(&id) {
            // Already answered: the cancellation is late and harmless (2025-11-25, cancellation).
            let why = reason.map_or_else(
                || "the server withdrew it".to_owned(),
                |reason| format!("the server withdrew it: {reason}"),
            );
            if !open.claim.withdraw(&self.context.redactor.redact(&why)) {
                return;
            }
            if let Some(open) = table.open.remove(&id) {
                open.withdrawn.cancel();
                let problem = format!("{}{why}", TrafficRecord::NO_ANSWER);
                self.context.keep(TrafficRecord {
                    method: Some(open.method),
                    id: Some(id_text(&id)),
                    call: open.call,
                    latency: Some(self.context.clock.elapsed(open.arrived)),
                    problem: Some(self.context.remark(&problem)),
                    ..self.context.passed(Direction::Out, MessageKind::Error, b"")
                });
            }
            return;
        }
        let entry = match &id {
            RequestId::Number(number) if table.modern => table.take(*number),
            RequestId::Number(_) | RequestId::String(_) => None,
        };
        drop(table);
        if let Some(entry) = entry {
            let reason = SafeText::line(reason.unwrap_or("no reason given"));
            let message = format!("the server cancelled the request: {reason}");
            self.finish(entry, Err(Error::new(ErrorCode::Protocol, message)));
        }
    }
}

fn trim(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    line.trim_ascii()
}
