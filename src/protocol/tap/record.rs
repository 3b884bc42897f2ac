//! Records of messages, for the rings: redacted, cut, with latency and call.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crate::context::SessionContext;
use crate::id::RequestId;
use crate::traffic::{Direction, Finding, FindingKind, MessageKind, TrafficRecord};
use base::SafeText;
use base::text::cut;

/// Lines that are not messages are kept at a bounded rate; the rest of each second is counted.
#[derive(Debug, Default)]
pub(super) struct JunkWindow {
    pub(super) began: Option<Instant>,
    pub(super) kept: u32,
    pub(super) skipped: u64,
    pub(super) skipped_bytes: usize,
}

impl JunkWindow {
    /// Junk lines that are kept per second.
    pub(super) const MAX_JUNK_LINES: u32 = 64;
    pub(super) const JUNK_WINDOW: Duration = Duration::from_secs(1);
}

impl SessionContext {
    /// Puts a record into the rings.
    pub fn keep(&self, record: TrafficRecord) {
        let record = Arc::new(record);
        self.black_box.push(Arc::clone(&record));
        self.traffic.push(record);
    }

    /// A record of a message, with nothing known about it yet.
    pub fn passed(&self, direction: Direction, kind: MessageKind, body: &[u8]) -> TrafficRecord {
        let most = TrafficRecord::MAX_BODY_BYTES.max(self.traffic.whole());
        TrafficRecord {
            at: self.clock.now(),
            server: self.server.clone(),
            direction,
            kind,
            method: None,
            target: None,
            id: None,
            call: None,
            bytes: body.len(),
            latency: None,
            queued: None,
            cut: body.len() > most,
            body: self.text(body, most).into(),
            problem: None,
            tolerated: false,
        }
    }

    /// A record of a message from the server.
    pub(super) fn came(&self, kind: MessageKind, body: ReceivedText<'_>) -> TrafficRecord {
        let passed = self.passed(Direction::In, kind, body.text);
        TrafficRecord { bytes: body.total, cut: passed.cut || body.is_cut(), ..passed }
    }

    /// The beginning of a text of `total` bytes, without a part of a secret at its end.
    pub(super) fn beginning<'a>(&self, text: &'a [u8], total: u64) -> ReceivedText<'a> {
        let total = usize::try_from(total).unwrap_or(usize::MAX);
        if text.len() >= total {
            return text.into();
        }
        let end = text.len().saturating_sub(self.redactor.longest());
        ReceivedText { text: &text[..self.redactor.cut_before(text, end)], total }
    }

    /// A remark about a message, which may quote text of the server of any length.
    pub(super) fn remark(&self, text: &str) -> SafeText {
        const MAX_TEXT_BYTES: usize = 1 << 10;
        let text = self.redactor.redact(text);
        if text.len() <= MAX_TEXT_BYTES {
            return SafeText::line(&text);
        }
        SafeText::line(&format!("{}…", cut(&text, MAX_TEXT_BYTES)))
    }

    /// The text of `raw`, secrets masked, cut to `max` bytes.
    pub(super) fn text<'a>(&self, raw: &'a [u8], max: usize) -> Cow<'a, str> {
        let redactor = &self.redactor;
        // A secret across the cut must not leave its first half behind.
        let raw = if raw.len() > max { &raw[..redactor.cut_before(raw, max)] } else { raw };
        let text = match lossy(raw) {
            Cow::Borrowed(text) => self.masked(text),
            Cow::Owned(text) => Cow::Owned(self.masked(&text).into_owned()),
        };
        match text {
            Cow::Borrowed(text) => Cow::Borrowed(cut(text, max)),
            Cow::Owned(mut text) => {
                text.truncate(cut(&text, max).len());
                Cow::Owned(text)
            }
        }
    }

    fn masked<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if text.trim_start().starts_with(['{', '[']) {
            return self.redactor.redact_json_text(text);
        }
        self.redactor.redact(text)
    }

    /// A finding: something wrong, or against the protocol.
    pub(super) fn finding(
        &self,
        kind: FindingKind,
        message: &str,
        raw: &[u8],
        request: Option<SafeText>,
    ) -> Finding {
        Finding {
            raw: SafeText::line(&self.text(raw, Finding::MAX_RAW_BYTES)),
            request,
            ..Finding::new(kind, self.clock.now(), self.remark(message))
        }
    }
}

/// As `String::from_utf8_lossy`. The input is nearly always valid, for which the strict check is
/// much faster.
fn lossy(raw: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(raw).map_or_else(|_| String::from_utf8_lossy(raw), Cow::Borrowed)
}

/// A text of the server, of a long one perhaps only the beginning.
#[derive(Clone, Copy, Default)]
pub(super) struct ReceivedText<'a> {
    pub(super) text: &'a [u8],
    /// Bytes of it all.
    pub(super) total: usize,
}

impl ReceivedText<'_> {
    const fn is_cut(&self) -> bool {
        self.text.len() < self.total
    }
}

impl<'a> From<&'a [u8]> for ReceivedText<'a> {
    fn from(text: &'a [u8]) -> Self {
        Self { text, total: text.len() }
    }
}

/// A method as text; those of the specification without an allocation.
pub fn method_name(method: &str) -> SafeText {
    // Most frequent first.
    const KNOWN: &str = "tools/call notifications/progress notifications/message resources/read \
        initialize server/discover ping tools/list prompts/get prompts/list resources/list \
        resources/templates/list resources/subscribe resources/unsubscribe subscriptions/listen \
        completion/complete logging/setLevel sampling/createMessage elicitation/create roots/list \
        notifications/initialized notifications/cancelled notifications/tools/list_changed \
        notifications/prompts/list_changed notifications/resources/list_changed \
        notifications/resources/updated notifications/roots/list_changed \
        notifications/subscriptions/acknowledged tasks/get tasks/result tasks/cancel \
        notifications/tasks/status";
    static NAMES: LazyLock<Vec<SafeText>> =
        LazyLock::new(|| KNOWN.split(' ').map(SafeText::line).collect());
    let known = NAMES.iter().find(|known| known.as_str() == method);
    known.cloned().unwrap_or_else(|| SafeText::line(cut(method, 256)))
}

/// An id as text.
pub(super) fn id_text(id: &RequestId) -> SafeText {
    match id {
        RequestId::Number(number) => SafeText::number(*number),
        RequestId::String(text) => SafeText::line(cut(text, 256)),
    }
}
