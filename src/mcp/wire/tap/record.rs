//! Records of what passed, for the rings: redacted, cut, with latency and call.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::RequestId;
use tokio::time::Instant;

use super::Tap;
use crate::base::SafeText;
use crate::mcp::traffic::{Direction, MessageKind, TrafficRecord};
use crate::mcp::wire::cut;
use crate::mcp::{CallId, FindingKind};

/// A message that passed.
pub(super) struct Passed<'a> {
    pub direction: Direction,
    pub kind: MessageKind,
    pub method: Option<SafeText>,
    pub target: Option<SafeText>,
    pub id: Option<SafeText>,
    pub call: Option<CallId>,
    pub latency: Option<Duration>,
    pub queued: Option<Duration>,
    pub bytes: usize,
    pub body: &'a [u8],
    pub problem: Option<SafeText>,
}

impl<'a> Passed<'a> {
    pub(super) const fn new(direction: Direction, kind: MessageKind, body: &'a [u8]) -> Self {
        Self {
            direction,
            kind,
            method: None,
            target: None,
            id: None,
            call: None,
            latency: None,
            queued: None,
            bytes: body.len(),
            body,
            problem: None,
        }
    }

    /// A message of the server.
    pub(super) const fn came(kind: MessageKind, body: &'a [u8]) -> Self {
        Self::new(Direction::In, kind, body)
    }
}

/// Lines that are no messages are kept at a bounded rate; the rest of each second is counted.
#[derive(Debug, Default)]
pub(super) struct JunkWindow {
    began: Option<Instant>,
    kept: u32,
    skipped: u64,
    skipped_bytes: usize,
}

impl JunkWindow {
    /// Junk lines that are kept per second.
    const KEPT: u32 = 64;
    const PERIOD: Duration = Duration::from_secs(1);
}

impl Tap {
    pub(super) fn record(&self, passed: Passed<'_>) {
        let most = TrafficRecord::BODY.max(self.context.traffic.whole());
        let body = self.text(passed.body, most);
        let record = Arc::new(TrafficRecord {
            at: self.context.clock.now(),
            server: self.context.server.clone(),
            direction: passed.direction,
            kind: passed.kind,
            method: passed.method,
            target: passed.target,
            id: passed.id,
            call: passed.call,
            bytes: passed.bytes,
            latency: passed.latency,
            queued: passed.queued,
            cut: passed.bytes > most,
            body: body.into(),
            problem: passed.problem.map(|problem| self.remark(&problem)),
        });
        self.context.black_box.push(Arc::clone(&record));
        self.context.traffic.push(record);
    }

    /// Words of ours about a message, in which words of the server may be quoted, at any length.
    pub(super) fn remark(&self, text: &str) -> SafeText {
        const LONGEST: usize = 1 << 10;
        let text = self.text(text.as_bytes(), LONGEST + 1);
        if text.len() <= LONGEST {
            return SafeText::line(&text);
        }
        SafeText::line(&format!("{}…", cut(&text, LONGEST)))
    }

    /// The text of `raw`, secrets masked, cut to `max` bytes.
    pub(super) fn text<'a>(&self, raw: &'a [u8], max: usize) -> Cow<'a, str> {
        let redactor = &self.context.redactor;
        // A secret that lies across the cut must not leave its first half behind.
        let margin = redactor.longest().max(4);
        let text = lossy(raw, max + margin);
        let text = match text {
            Cow::Borrowed(text) => redactor.redact(text),
            Cow::Owned(text) => Cow::Owned(redactor.redact(&text).into_owned()),
        };
        match text {
            Cow::Borrowed(text) => Cow::Borrowed(cut(text, max)),
            Cow::Owned(mut text) => {
                text.truncate(cut(&text, max).len());
                Cow::Owned(text)
            }
        }
    }

    /// Text that is no message, called by the way it came.
    pub(super) fn stray(&self, text: &[u8]) {
        let finding = if self.context.seen.is_http() {
            "what came over HTTP is not JSON-RPC"
        } else if text.starts_with(b"Content-Length:") {
            "a header as of language servers (`Content-Length`); MCP has one message on each line"
        } else {
            "a line on stdout that is not JSON-RPC"
        };
        self.junk(text, finding);
    }

    /// A line that is no message.
    pub(super) fn junk(&self, line: &[u8], problem: &str) {
        let now = Instant::now();
        let mut state = self.state();
        let junk = &mut state.junk;
        let fresh = junk.began.is_none_or(|began| now - began >= JunkWindow::PERIOD);
        if !fresh && junk.kept >= JunkWindow::KEPT {
            junk.skipped += 1;
            junk.skipped_bytes += line.len();
            return;
        }
        drop(state);
        if fresh {
            self.roll_junk();
        }
        self.state().junk.kept += 1;
        let text = SafeText::line(&self.text(line, 256));
        self.context.seen.junk(&text, 1);
        self.find(FindingKind::Junk, problem, line, None);
        let problem = Some(SafeText::line(problem));
        self.record(Passed { problem, ..Passed::came(MessageKind::Junk, line) });
    }

    /// Accounts for the lines the last second skipped, and begins another.
    pub(super) fn roll_junk(&self) {
        let last = std::mem::take(&mut self.state().junk);
        self.state().junk.began = Some(Instant::now());
        if last.skipped == 0 {
            return;
        }
        let message = format!("{} more lines that are not JSON-RPC, not kept", last.skipped);
        self.context.seen.junk(&SafeText::default(), last.skipped);
        self.find_many(FindingKind::Junk, &message, b"", None, last.skipped);
        self.record(Passed {
            bytes: last.skipped_bytes,
            problem: Some(SafeText::line(&message)),
            ..Passed::came(MessageKind::Junk, b"")
        });
    }
}

/// The beginning of `raw`, at most `max` bytes of it, as `String::from_utf8_lossy` gives it. That
/// one looks at every byte; these are nearly always good, and the strict check is much faster.
fn lossy(raw: &[u8], max: usize) -> Cow<'_, str> {
    let head = &raw[..raw.len().min(max)];
    match std::str::from_utf8(head) {
        Ok(text) => Cow::Borrowed(text),
        // Only the cut goes through a character.
        Err(error) if error.error_len().is_none() && head.len() < raw.len() => {
            String::from_utf8_lossy(&head[..error.valid_up_to()])
        }
        Err(_) => String::from_utf8_lossy(head),
    }
}

/// A method as text; those of the specification without an allocation.
pub fn method_name(method: &str) -> SafeText {
    // The more frequent ones stand first.
    const KNOWN: [&str; 32] = [
        "tools/call",
        "notifications/progress",
        "notifications/message",
        "resources/read",
        "initialize",
        "server/discover",
        "ping",
        "tools/list",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/subscribe",
        "resources/unsubscribe",
        "subscriptions/listen",
        "completion/complete",
        "logging/setLevel",
        "sampling/createMessage",
        "elicitation/create",
        "roots/list",
        "notifications/initialized",
        "notifications/cancelled",
        "notifications/tools/list_changed",
        "notifications/prompts/list_changed",
        "notifications/resources/list_changed",
        "notifications/resources/updated",
        "notifications/roots/list_changed",
        "notifications/subscriptions/acknowledged",
        "tasks/get",
        "tasks/result",
        "tasks/cancel",
        "notifications/tasks/status",
    ];
    static NAMES: OnceLock<[SafeText; 32]> = OnceLock::new();
    let Some(at) = KNOWN.iter().position(|known| *known == method) else {
        return SafeText::line(cut(method, 256));
    };
    NAMES.get_or_init(|| KNOWN.map(SafeText::line))[at].clone()
}

/// An id as text.
pub(super) fn id_text(id: &RequestId) -> SafeText {
    match id {
        RequestId::Number(number) => SafeText::number(*number),
        RequestId::String(text) => SafeText::line(cut(text, 256)),
    }
}
