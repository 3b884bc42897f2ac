//! Notifications of the server, acted on in wire order: progress before its result, logs as they
//! came, changes of lists and resources, cancellations.

use std::sync::Arc;

use rmcp::model::RequestId;
use serde_json::Value;

use super::Tap;
use super::inbound::Source;
use super::record::{Passed, method_name};
use crate::base::LogLevel;
use crate::base::logs::{LogRecord, LogSource};
use crate::base::text::SafeText;
use crate::error::{Error, ErrorCode};
use crate::mcp::CallId;
use crate::mcp::FindingKind;
use crate::mcp::capabilities::ListKind;
use crate::mcp::pending::PendingRequest;
use crate::mcp::session::SessionEvent;
use crate::mcp::traffic::MessageKind;
use crate::mcp::wire::cut;
use crate::mcp::{Notice, NoticeKind};

impl Tap {
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
        self.record(Passed {
            method: Some(method_name(method)),
            call,
            problem: problem.as_deref().map(SafeText::line),
            ..Passed::came(MessageKind::Notification, source.raw)
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
        let state = self.state();
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
            self.unusable(METHOD, "`progress` is no number", source);
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
        let level = match params.get("level").and_then(Value::as_str).unwrap_or_default() {
            "debug" => LogLevel::Debug,
            "notice" => LogLevel::Notice,
            "warning" | "warn" => LogLevel::Warning,
            "error" => LogLevel::Error,
            "critical" => LogLevel::Critical,
            "alert" => LogLevel::Alert,
            "emergency" => LogLevel::Emergency,
            _ => LogLevel::Info,
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
        let id = match params.get("requestId") {
            Some(Value::Number(number)) => number.as_i64().map(RequestId::Number),
            Some(Value::String(text)) => Some(RequestId::String(text.as_str().into())),
            _ => None,
        };
        let Some(id) = id else { return self.unusable(METHOD, "it names no `requestId`", source) };
        let reason = params.get("reason").and_then(Value::as_str).map(|text| cut(text, 1 << 10));
        let mut state = self.state();
        if let Some(open) = state.open.get(&id) {
            // Its answer is on the way: too late, and no harm (2025-11-25, cancellation).
            let why = reason.map_or_else(
                || "the server took it back".to_owned(),
                |reason| format!("the server took it back: {reason}"),
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
