//! From a line to messages: parse, repair, split, and what to do when nothing helps.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::RequestId;
use serde::Deserialize;
use serde_json::Value;

use super::record::method_name;
use super::{Entry, Tap};
use crate::base::text::cut;
use crate::base::{LogLevel, LogRecord, LogSource, SafeText};
use crate::error::{Error, ErrorCode};
use crate::mcp::capabilities::ListKind;
use crate::mcp::pending::PendingRequest;
use crate::mcp::session::SessionEvent;
use crate::mcp::traffic::{MessageKind, TrafficRecord};
use crate::mcp::wire::json::Flaw;
use crate::mcp::wire::message::{Inbound, Outcome, classify};
use crate::mcp::wire::{json, message};
use crate::mcp::{CallId, FindingKind, Notice, NoticeKind, Payload, payload};

/// What surrounds a message that is being taken in.
pub(super) struct Source<'a> {
    /// The text it came in.
    pub raw: &'a [u8],
    /// What had to be tolerated so far.
    pub notes: Vec<String>,
    /// The result in it, when that is too large to be read as a message, and why it is.
    pub large: Option<(Payload, Flaw)>,
    /// The request whose response it came in.
    pub stream: Option<i64>,
}

impl Tap {
    /// Messages that are read from one line. The specification has one; a server that forgets its
    /// line breaks writes a few.
    const PER_LINE: usize = 1024;

    /// Takes in one line, or one event of a stream, without its line break. `stream` is the request
    /// whose response it came in, where the transport knows it.
    pub fn line(&self, line: &[u8], stream: Option<i64>) {
        let line = trim(line);
        match line.first() {
            None => {}
            Some(_) if self.continues(line) => {}
            Some(b'{' | b'[') => self.text_line(line, Vec::new(), stream),
            Some(_) => match message::find_message(line) {
                Some(at) => {
                    let before = self.text(&line[..at], 80);
                    let note = format!("text in front of the message: `{before}`");
                    self.text_line(&line[at..], vec![note], stream);
                }
                None => self.stray(line),
            },
        }
    }

    /// A line longer than the limit, of which only both ends were kept.
    pub fn oversized(&self, head: &[u8], tail: &[u8], total: u64) {
        let limit = self.context.limits.line_bytes;
        let reason = format!("a line of {total} bytes, the limit is {limit} (`limits.lineBytes`)");
        if !matches!(trim(head).first(), Some(b'{' | b'[')) {
            self.find(FindingKind::TooLarge, &reason, head, None);
            self.junk(head, &reason);
            return;
        }
        let id = message::find_id(head).or_else(|| message::find_last_id(trim(tail)));
        self.broken(head, id, FindingKind::TooLarge, &reason);
    }

    /// The messages of a line, one after the other: their number is the server's choice, so neither
    /// the stack nor the time may depend on it.
    fn text_line(&self, line: &[u8], mut notes: Vec<String>, stream: Option<i64>) {
        if let Some((id, result)) = json::answer(line, self.budget()) {
            let source = Source { raw: line, notes, large: None, stream };
            self.answer(Some(RequestId::Number(id)), Outcome::Result(result), source);
            return self.context.seen.message();
        }
        let mut line = Cow::Borrowed(line);
        let mut at = 0;
        for _ in 0..Self::PER_LINE {
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
        let reason = format!("more than {} messages on one line", Self::PER_LINE);
        self.broken(rest, message::find_id(rest), FindingKind::Flood, &reason);
    }

    /// The value at `at` of a line. A line that can be repaired is replaced by what it was meant to
    /// be from there on.
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
        let Some((text, what)) = message::repair(&line[*at..]) else { return Err(flaw) };
        let parsed = json::parse(text.as_bytes(), self.budget())?;
        notes.push(format!("{what} (replaced by U+FFFD)"));
        (*line, *at) = (Cow::Owned(text.into_bytes()), 0);
        Ok(parsed)
    }

    /// Takes in the message at the start of a text; gives what follows it.
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
        match parsed.value {
            Value::Array(items) => self.batch(message, items, &notes, stream),
            value => self.value(value, Source { raw: message, notes, large: None, stream }),
        }
        rest
    }

    /// A JSON-RPC batch: part of the protocol in 2025-03-26 alone, understood everywhere.
    fn batch(&self, raw: &[u8], items: Vec<Value>, notes: &[String], stream: Option<i64>) {
        let allowed = self.state.lock().version.as_deref() == Some("2025-03-26");
        if !items.iter().any(Value::is_object) {
            return self.junk(raw, "a JSON array that is not a batch of messages");
        }
        if !allowed {
            let message =
                format!("a batch of {} messages, which this version forbids", items.len());
            self.find(FindingKind::NotAllowed, &message, raw, None);
        }
        for item in items {
            let raw = serde_json::to_vec(&item).unwrap_or_default();
            self.value(item, Source { raw: &raw, notes: notes.to_vec(), large: None, stream });
        }
    }

    fn value(&self, value: Value, mut source: Source<'_>) {
        let classified = classify(value);
        source.notes.extend(classified.notes);
        match classified.inbound {
            Inbound::Junk => return self.junk(source.raw, "JSON that is not JSON-RPC"),
            Inbound::Answer { id, outcome } => self.answer(id, outcome, source),
            Inbound::Malformed { id, reason } => {
                self.broken(source.raw, id, FindingKind::Malformed, &reason);
            }
            Inbound::Request { id, method, params } => {
                self.request(id, &method, params, &source);
            }
            Inbound::Notification { method, params } => {
                self.take_notification(&method, params, source);
            }
        }
        self.context.seen.message();
    }

    /// A message that cannot be read; an answer that is only too large keeps its text.
    fn over_budget(&self, line: &[u8], flaw: Flaw, notes: Vec<String>, stream: Option<i64>) {
        let large = match flaw {
            Flaw::TooMany(_) | Flaw::TooBig(_) => payload::answer(line, self.budget()),
            _ => None,
        };
        let Some((id, payload)) = large else { return self.flawed(line, &flaw) };
        let source = Source { raw: line, notes, large: Some((payload, flaw)), stream };
        self.answer(Some(RequestId::Number(id)), Outcome::Result(Value::Null), source);
        self.context.seen.message();
    }

    fn flawed(&self, line: &[u8], flaw: &Flaw) {
        if matches!(flaw, Flaw::Incomplete) && (line == b"{" || line == b"[") {
            let mut spread = Spread::default();
            spread.add(line);
            self.state.lock().spread = spread;
            return;
        }
        let protocol = ["\"jsonrpc\"", "\"result\"", "\"error\"", "\"method\""];
        if !protocol.iter().any(|key| memchr::memmem::find(line, key.as_bytes()).is_some()) {
            return self.stray(line);
        }
        let kind = match flaw {
            Flaw::TooDeep(_) | Flaw::TooMany(_) | Flaw::TooBig(_) => FindingKind::TooLarge,
            Flaw::Syntax(_) | Flaw::Incomplete => FindingKind::Malformed,
        };
        self.broken(line, message::find_id(line), kind, &flaw.to_string());
    }

    /// Collects a message that is printed over several lines. True when the line was part of one.
    fn continues(&self, line: &[u8]) -> bool {
        let mut state = self.state.lock();
        if state.spread.text.is_empty() {
            return false;
        }
        let mut spread = std::mem::take(&mut state.spread);
        drop(state);
        // A whole message of its own means that what was collected is none.
        let whole = line.starts_with(b"{")
            && memchr::memmem::find(line, b"\"jsonrpc\"").is_some()
            && json::parse(line, self.budget()).is_ok();
        if whole || spread.text.len() + line.len() > self.context.limits.line_bytes {
            self.stray(&spread.text);
            return false;
        }
        spread.add(line);
        if spread.depth > 0 {
            self.state.lock().spread = spread;
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
    pub(super) fn note_all(&self, source: &Source<'_>, request: &SafeText) -> Option<String> {
        let text = (!source.notes.is_empty()).then(|| source.notes.join("; "))?;
        self.find(FindingKind::Malformed, &text, source.raw, Some(request.clone()));
        Some(text)
    }

    /// The same of an answer.
    pub(super) fn note_in(&self, entry: &Entry, source: &Source<'_>) -> Option<String> {
        let text = (!source.notes.is_empty()).then(|| source.notes.join("; "))?;
        self.find_in(entry, FindingKind::Malformed, &text, source.raw);
        Some(text)
    }

    // Notifications of the server, acted on in wire order: progress before its result, logs as they
    // came, changes of lists and resources, cancellations.

    /// Longest URI of an update, in bytes: many may wait to be told.
    const URI: usize = 16 << 10;
    /// Longest log message that is passed on, in bytes: many may wait.
    const LOGGED: usize = 64 << 10;

    pub(super) fn take_notification(
        &self,
        method: &str,
        params: Option<Value>,
        source: Source<'_>,
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
                Some(uri) if uri.len() > Self::URI => {
                    let reason = format!("its `uri` has {} bytes", uri.len());
                    self.unusable(method, &reason, &source);
                }
                Some(uri) => self.pump.push(SessionEvent::ResourceUpdated(uri.into())),
                None => self.unusable(method, "it names no `uri`", &source),
            },
            "notifications/tasks/status" => self.task_news(&params),
            "notifications/cancelled" => self.cancelled(&params, &source),
            _ => {}
        }
        self.record(TrafficRecord {
            method: Some(method_name(method)),
            call,
            problem: problem.map(|problem| self.remark(&problem)),
            ..self.came(MessageKind::Notification, source.raw)
        });
    }

    fn changed(&self, lists: &[ListKind]) {
        for list in lists {
            self.pump.push(SessionEvent::ListChanged(*list));
        }
    }

    fn unusable(&self, method: &str, reason: &str, source: &Source<'_>) {
        let message = format!("`{method}` cannot be used: {reason}");
        self.find(FindingKind::Malformed, &message, source.raw, Some(method_name(method)));
    }

    fn progress(&self, params: &Value, source: &Source<'_>) -> Option<CallId> {
        const METHOD: &str = "notifications/progress";
        let token = params.get("progressToken");
        let number = match token {
            Some(Value::Number(number)) => number.as_i64(),
            Some(Value::String(text)) => text.parse().ok(),
            _ => None,
        };
        let state = self.state.lock();
        let request = number.and_then(|token| state.tokens.get(&token)).map(Arc::clone);
        let used = number.is_some_and(|token| (0..state.next_id).contains(&token));
        drop(state);
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
        let message = message.map(|text| self.text(text.as_bytes(), PendingRequest::MESSAGE));
        request.progressed(progress, total, message.as_deref());
        request.call
    }

    fn log(&self, params: Value, source: &Source<'_>) {
        const TEXT: usize = 16 << 10;
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
            logger: logger.map(|name| SafeText::line(&self.text(name.as_bytes(), 256))),
            text: SafeText::block(&self.text(text.as_bytes(), TEXT)),
        };
        record.keep(&self.context.logs);
        let during = self.during(source.stream);
        let notices = &self.context.notices;
        let fits = source.raw.len() <= Self::LOGGED && notices.receiver_count() > 0;
        if fits && (during.is_some() || self.in_flight().is_empty()) {
            let params = self.context.redactor.redact_json(&params).unwrap_or(params);
            let call = during.and_then(|request| request.call);
            let server = self.context.server.clone();
            let _ =
                notices.send(Notice { server, kind: NoticeKind::Logged { level, params, call } });
        }
    }

    /// Legacy: the server no longer wants an answer of ours. Modern: it ends one of our requests.
    fn cancelled(&self, params: &Value, source: &Source<'_>) {
        const METHOD: &str = "notifications/cancelled";
        let id = params.get("requestId").and_then(|id| RequestId::deserialize(id).ok());
        let Some(id) = id else { return self.unusable(METHOD, "it names no `requestId`", source) };
        let reason = params.get("reason").and_then(Value::as_str).map(|text| cut(text, 1 << 10));
        let mut state = self.state.lock();
        if let Some(open) = state.open.get(&id) {
            // Its answer is on the way: too late, and no harm (2025-11-25, cancellation).
            let why = reason.map_or_else(
                || "the server withdrew it".to_owned(),
                |reason| format!("the server withdrew it: {reason}"),
            );
            if !open.claim.withdraw(&self.context.redactor.redact(&why)) {
                return;
            }
            if let Some(open) = state.open.remove(&id) {
                open.withdrawn.cancel();
            }
            return;
        }
        let modern = state.modern;
        let entry = match &id {
            RequestId::Number(number) if modern => state.take(*number),
            _ => None,
        };
        drop(state);
        if let Some(entry) = entry {
            let reason = SafeText::line(reason.unwrap_or("no reason given"));
            let message = format!("the server cancelled the request: {reason}");
            self.finish(entry, Err(Error::new(ErrorCode::Protocol, message)));
        }
    }
}

/// A message that is printed over several lines, as far as it came.
#[derive(Debug, Default)]
pub(super) struct Spread {
    pub(super) text: Vec<u8>,
    depth: i64,
}

impl Spread {
    /// Appends a line. Strings cannot run over a line break, so each line is followed by itself.
    fn add(&mut self, line: &[u8]) {
        let mut string = false;
        let mut escaped = false;
        for byte in line {
            match byte {
                _ if escaped => escaped = false,
                b'\\' if string => escaped = true,
                b'"' => string = !string,
                b'{' | b'[' if !string => self.depth += 1,
                b'}' | b']' if !string => self.depth -= 1,
                _ => {}
            }
        }
        self.text.extend_from_slice(line);
        self.text.push(b' ');
    }
}

fn trim(line: &[u8]) -> &[u8] {
    let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
    line.trim_ascii()
}
