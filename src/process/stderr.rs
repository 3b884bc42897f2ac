//! A server's stderr: always read, split into lines, masked, sanitised, counted.
//!
//! Owns flood control. Reading never stops, so a server is never blocked permanently, but two
//! budgets protect the other servers: lines beyond [`MAX_LINES_PER_SECOND`] are counted instead of
//! kept, and bytes beyond their [`Allowance`] wait in the pipe. Dropped lines are reported in a log
//! record of their own, at most one a second. The last bytes are always kept raw, so that the tail
//! that explains a crash is exact even then.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, sleep, timeout};

use super::context::ProcessContext;
use base::allowance::Allowance;
use base::text::cut;
use base::{LogLevel, LogRecord, Redactor, SafeText};

/// Sustained rate of lines kept, per second and server.
const MAX_LINES_PER_SECOND: f64 = 2_000.0;
/// Burst of lines kept after a quiet period.
const MAX_BURST_LINES: f64 = 10_000.0;
/// An unterminated line is shown after this long: a prompt, a progress bar.
const PARTIAL_LINE_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest line of the tail in bytes.
const MAX_TAIL_LINE_BYTES: usize = 4 << 10;
/// Size of a read: small until the server turns out to write a lot, then large.
const CHUNK: (usize, usize) = (4 << 10, 64 << 10);

/// Totals of a server's stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StderrView {
    /// Bytes read.
    pub bytes: u64,
    /// Lines read.
    pub lines: u64,
    /// Lines that were counted but not kept.
    pub dropped: u64,
}

/// The reader's counters and its last bytes, shared with the process's owner.
#[derive(Clone)]
pub(super) struct StderrTap {
    state: Arc<Mutex<StderrState>>,
    redactor: Redactor,
    /// Raw bytes kept for the tail ([`config::WireLimits::stderr_bytes`]).
    kept: usize,
}

#[derive(Default)]
struct StderrState {
    view: StderrView,
    recent: Vec<u8>,
    /// Whether bytes before `recent` were discarded.
    cut: bool,
}

impl StderrTap {
    pub(super) fn new(redactor: Redactor, kept: usize) -> Self {
        Self { state: Arc::default(), redactor, kept }
    }

    pub(super) fn view(&self) -> StderrView {
        self.state.lock().view
    }

    pub(super) fn tail(&self, lines: usize) -> Vec<SafeText> {
        let (recent, cut) = {
            let state = self.state.lock();
            (state.recent.clone(), state.cut)
        };
        let start = recent.len().saturating_sub(self.kept);
        let mut bytes = &recent[start..];
        if start > 0 || cut {
            // The first line is truncated at its start, perhaps in the middle of a secret.
            let skip = memchr::memchr(b'\n', bytes)
                .map_or_else(|| self.redactor.longest().min(bytes.len()), |end| end + 1);
            bytes = &bytes[skip..];
        }
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        if bytes.is_empty() {
            return Vec::new();
        }
        let mut tail: Vec<SafeText> = bytes
            .rsplit(|b| *b == b'\n')
            .take(lines)
            .map(|line| safe(line, 0, MAX_TAIL_LINE_BYTES, &self.redactor))
            .collect();
        tail.reverse();
        tail
    }

    fn record(&self, chunk: &[u8], lines: u64, dropped: u64) {
        let mut state = self.state.lock();
        state.view.bytes += chunk.len() as u64;
        state.view.lines += lines;
        state.view.dropped += dropped;
        let keep = &chunk[chunk.len().saturating_sub(self.kept)..];
        if keep.len() < chunk.len() {
            state.recent.clear();
            state.cut = true;
        }
        if state.recent.len() + keep.len() > self.kept + self.kept / 4 {
            let old = state.recent.len().saturating_sub(self.kept);
            state.recent.drain(..old);
            state.cut = true;
        }
        state.recent.extend_from_slice(keep);
    }
}

/// One line as text: masked first, cut afterwards, so that no part of a secret is left at the cut.
/// `more` bytes of it were not kept.
fn safe(line: &[u8], more: usize, limit: usize, redactor: &Redactor) -> SafeText {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let text = String::from_utf8_lossy(line);
    let text = without_colors(&text);
    let end = match more {
        0 => text.len(),
        _ => redactor.cut_before(text.as_bytes(), text.len().saturating_sub(redactor.longest())),
    };
    let shown = redactor.redact(&text[..end]);
    if shown.len() <= limit && more == 0 {
        return SafeText::line(&shown);
    }
    let head = cut(&shown, limit);
    let left = shown.len() - head.len() + text.len() - end + more;
    SafeText::line(&format!("{head} … {left} bytes more"))
}

/// A text without the sequences that set colours and weight (ECMA-48, SGR): programs write them to
/// pipes too, and they say nothing.
fn without_colors(text: &str) -> Cow<'_, str> {
    if !text.contains("\u{1b}[") {
        return Cow::Borrowed(text);
    }
    let mut parts = text.split("\u{1b}[");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !(c.is_ascii_digit() || c == ';' || c == ':'));
        match end.filter(|end| part[*end..].starts_with('m')) {
            Some(end) => out.push_str(&part[end + 1..]),
            None => out.extend(["\u{1b}[", part]),
        }
    }
    Cow::Owned(out)
}

/// Reads stderr to its end.
pub(super) async fn pump(
    mut pipe: impl AsyncRead + Unpin,
    tap: StderrTap,
    context: ProcessContext,
) {
    let mut buffer = vec![0; CHUNK.0];
    let mut cutter = Cutter::new(&context);
    let mut bytes = Allowance::of_bytes();
    loop {
        let read = match cutter.wakes_after() {
            Some(span) => timeout(span, pipe.read(&mut buffer)).await,
            None => Ok(pipe.read(&mut buffer).await),
        };
        let read = match read {
            Ok(Ok(0) | Err(_)) => break,
            Ok(Ok(read)) => read,
            Err(_) => {
                cutter.idle();
                continue;
            }
        };
        let (lines, dropped) = cutter.feed(&buffer[..read]);
        tap.record(&buffer[..read], lines, dropped);
        if read == buffer.len() && read < CHUNK.1 {
            buffer.resize(CHUNK.1, 0);
        }
        if let Some(pause) = bytes.spend(read as f64) {
            sleep(pause).await;
        } else if read == CHUNK.1 {
            // A full chunk means that more is waiting; others get their turn first.
            tokio::task::yield_now().await;
        }
    }
    cutter.end();
}

/// Cuts chunks into lines and lines into log records.
struct Cutter<'a> {
    context: &'a ProcessContext,
    /// Most bytes held of a line: the limit plus the longest secret, which may begin there.
    hold: usize,
    line: Vec<u8>,
    /// Bytes of the line beyond that, which are only counted.
    more: usize,
    /// Whether the line waits for the rest of what may be a secret, however long that takes.
    waits: bool,
    /// Whether the line being read is dropped.
    skipping: bool,
    quota: Allowance,
    dropped: Dropped,
}

#[derive(Default)]
struct Dropped {
    lines: u64,
    bytes: u64,
    reported: Option<Instant>,
}

impl<'a> Cutter<'a> {
    fn new(context: &'a ProcessContext) -> Self {
        Self {
            context,
            hold: context.stderr_line_bytes + context.redactor.longest(),
            line: Vec::new(),
            more: 0,
            waits: false,
            skipping: false,
            quota: Allowance::new(MAX_LINES_PER_SECOND, MAX_BURST_LINES),
            dropped: Dropped::default(),
        }
    }

    /// How long a read may block before [`Cutter::idle`] has work.
    fn wakes_after(&self) -> Option<Duration> {
        let shows = !self.line.is_empty() && !self.waits;
        (shows || self.dropped.lines > 0).then_some(PARTIAL_LINE_TIMEOUT)
    }

    /// Processes a chunk; returns how many lines ended in it and how many of these were dropped.
    fn feed(&mut self, chunk: &[u8]) -> (u64, u64) {
        self.quota.refill();
        let (mut lines, mut dropped) = (0, 0);
        let mut rest = chunk;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            if self.skipping || !self.quota.take_one() {
                // Beyond the quota, lines are only counted.
                let ends = if self.quota.has_one() {
                    (1, end)
                } else {
                    let last = memchr::memrchr(b'\n', rest).unwrap_or(end);
                    (memchr::memchr_iter(b'\n', rest).count() as u64, last)
                };
                self.drop_lines(ends.0, ends.1 + 1 + self.line.len() + self.more);
                lines += ends.0;
                dropped += ends.0;
                rest = &rest[ends.1 + 1..];
                continue;
            }
            self.hold(&rest[..end]);
            self.emit();
            lines += 1;
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            if self.skipping || !self.quota.has_one() {
                self.skipping = true;
                self.dropped.bytes += rest.len() as u64;
            } else {
                self.hold(rest);
            }
        }
        self.report_dropped();
        (lines, dropped)
    }

    fn hold(&mut self, part: &[u8]) {
        let room = self.hold.saturating_sub(self.line.len()).min(part.len());
        self.line.extend_from_slice(&part[..room]);
        self.more += part.len() - room;
        self.waits = false;
    }

    fn emit(&mut self) {
        let limit = self.context.stderr_line_bytes;
        let text = safe(&self.line, self.more, limit, &self.context.redactor);
        self.push(level(&self.line), text);
        self.line.clear();
        self.line.shrink_to(CHUNK.0);
        self.more = 0;
    }

    fn drop_lines(&mut self, lines: u64, bytes: usize) {
        self.dropped.lines += lines;
        self.dropped.bytes += bytes as u64;
        self.line.clear();
        self.more = 0;
        self.skipping = false;
    }

    /// Called after a quiet period: emits an unterminated line, but for the beginning of what may be
    /// a secret, and reports what was dropped.
    fn idle(&mut self) {
        let begun = self.begun();
        let rest = self.line.split_off(self.line.len() - begun);
        if !self.line.is_empty() {
            self.emit();
        }
        self.line = rest;
        self.waits = true;
        self.dropped.reported = None;
        self.report_dropped();
    }

    /// Bytes at the end of the line that may be the beginning of a secret.
    fn begun(&self) -> usize {
        let redactor = &self.context.redactor;
        if self.more > 0 {
            return 0;
        }
        if !self.line.contains(&b'\x1b') {
            return redactor.begun_at_end(&self.line);
        }
        // Colours within it: the whole line waits.
        let text = String::from_utf8_lossy(&self.line);
        let begins = redactor.begun_at_end(without_colors(&text).as_bytes()) > 0;
        if begins { self.line.len() } else { 0 }
    }

    /// Called at the end: emits what is left.
    fn end(&mut self) {
        if !self.line.is_empty() {
            self.emit();
        }
        self.dropped.reported = None;
        self.report_dropped();
    }

    fn report_dropped(&mut self) {
        const REPORT_INTERVAL: Duration = Duration::from_secs(1);
        let now = Instant::now();
        let due = self
            .dropped
            .reported
            .is_none_or(|at| now.saturating_duration_since(at) >= REPORT_INTERVAL);
        if self.dropped.lines == 0 || !due {
            return;
        }
        let Dropped { lines, bytes, .. } = std::mem::take(&mut self.dropped);
        self.dropped.reported = Some(now);
        self.push(
            LogLevel::Warning,
            SafeText::line(&format!(
                "stderr flood: {lines} lines ({:.1} MB) counted but not kept",
                bytes as f64 / 1e6
            )),
        );
    }

    fn push(&self, level: LogLevel, text: SafeText) {
        let record = LogRecord {
            at: self.context.clock.now(),
            server: Some(self.context.server.clone()),
            source: self.context.source,
            level,
            logger: None,
            text,
        };
        record.keep(&self.context.logs);
    }
}

/// Words that indicate a line's level, the worst first.
const WORDS: &[(LogLevel, &[&str])] = &[
    (LogLevel::Critical, &["fatal", "critical", "panic", "panicked"]),
    (LogLevel::Error, &["error", "err", "traceback", "exception", "uncaught", "unhandled"]),
    (LogLevel::Warning, &["warn", "warning", "deprecated", "deprecationwarning"]),
    (LogLevel::Notice, &["notice"]),
    (LogLevel::Info, &["info"]),
    (LogLevel::Debug, &["debug", "dbg"]),
    (LogLevel::Trace, &["trace"]),
];

/// The apparent level of a line: the first word near its start that names a level, or a compound
/// that ends in `Error`; `info` otherwise.
pub(super) fn level(line: &[u8]) -> LogLevel {
    /// Level words come early: after a time, a logger name, a bracket.
    const MAX_LEVEL_BYTES: usize = 96;
    let head = &line[..line.len().min(MAX_LEVEL_BYTES)];
    for word in head.split(|b| !b.is_ascii_alphabetic()).filter(|w| w.len() >= 3) {
        for (level, names) in WORDS {
            if names.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes())) {
                return *level;
            }
        }
        // `TypeError`, `ModuleNotFoundError`: a class name, not prose such as "terror".
        if word.len() > 5 && word.ends_with(b"Error") {
            return LogLevel::Error;
        }
    }
    LogLevel::Info
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_go_and_everything_else_stays_visible() {
        for (line, shown) in [
            ("\u{1b}[31mHTTP error:\u{1b}[39m failed", "HTTP error: failed"),
            ("\u{1b}[1;38;5;9ma\u{1b}[m\u{1b}[0mb", "ab"),
            ("\u{1b}[2J\u{1b}]0;t\u{7}x", "␛[2J␛]0;t␇x"),
            ("\u{1b}[31", "␛[31"),
        ] {
            let redactor = Redactor::default();
            assert_eq!(safe(line.as_bytes(), 0, 100, &redactor).as_str(), shown);
        }
        // A secret in colours is one as well.
        let redactor = Redactor::new([base::Secret::new("hunter2hunter2")]);
        let shown = safe(b"is \x1b[1mhunter2\x1b[0mhunter2", 0, 100, &redactor);
        assert!(!shown.contains("hunter2"), "{shown}");
    }
    fn context(secret: &str, line_bytes: usize) -> ProcessContext {
        ProcessContext {
            server: "s".into(),
            clock: base::Clock::system(),
            redactor: Redactor::new([base::Secret::new(secret)]),
            logs: base::Ring::new(100, 1 << 20),
            source: base::LogSource::Stderr,
            stderr_line_bytes: line_bytes,
            stderr_bytes: 1 << 10,
            outlives_host: false,
        }
    }

    fn shown(context: &ProcessContext) -> Vec<String> {
        let logs = context.logs.read(0, usize::MAX).items;
        logs.iter().map(|record| record.text.to_string()).collect()
    }

    #[test]
    fn a_secret_that_comes_in_two_parts_is_shown_in_none() {
        for (first, second, lines) in [
            ("A:hun", "ter2hunter2 B\n", &["A:", "*** B"][..]),
            ("A:h", "unter2hunter2\n", &["A:", "***"][..]),
            ("A \x1b[1mhunter2\x1b[0mhun", "ter2 B\n", &["A *** B"][..]),
            ("Continue?", "yes\n", &["Continue?", "yes"][..]),
            ("wait:hun", "gry\n", &["wait:", "hungry"][..]),
        ] {
            let context = context("hunter2hunter2", 1 << 10);
            let mut cutter = Cutter::new(&context);
            cutter.feed(first.as_bytes());
            assert!(cutter.wakes_after().is_some());
            cutter.idle();
            assert!(cutter.wakes_after().is_none(), "nothing is left to show: {first}");
            cutter.feed(second.as_bytes());
            assert_eq!(shown(&context), lines);
        }
        let context = context("hunter2hunter2", 1 << 10);
        let mut cutter = Cutter::new(&context);
        cutter.feed(b"it is:hun");
        cutter.idle();
        cutter.end();
        assert_eq!(shown(&context), ["it is:", "hun"], "nothing is lost at the end");
    }

    #[test]
    fn a_line_that_is_cut_ends_with_no_part_of_a_secret() {
        // Each one before shortens what is shown.
        for before in 0..40 {
            let context = context("QvX7mT2pLw9Rk4Zd8Hs3", 100);
            let mut cutter = Cutter::new(&context);
            let secrets = "QvX7mT2pLw9Rk4Zd8Hs3".repeat(before / 10);
            let pad = "e".repeat(60 + before);
            cutter
                .feed(format!("{secrets}{pad}QvX7mT2pLw9Rk4Zd8Hs3{}\n", "f".repeat(99)).as_bytes());
            let shown = shown(&context).concat();
            assert!(!shown.contains("Qv") && shown.contains("bytes more"), "{before}: {shown}");
        }
    }
}
