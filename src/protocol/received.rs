//! Describes what a server has sent while a session is being opened. The session's owner decides how
//! long to wait, and takes its error message from here when it gives up.

use std::fmt::Write as _;
use std::time::Instant;

use parking_lot::Mutex;

use base::SafeText;
use base::human::count;

/// What arrived on a connection since it was opened; shared by the session and its owner.
#[derive(Debug, Default)]
pub struct ReceivedSoFar(Mutex<Arrivals>);

/// What arrived on a connection.
#[derive(Debug, Default)]
pub struct Arrivals {
    opened: Option<Instant>,
    first_byte: Option<Instant>,
    /// Protocol messages received.
    pub messages: u64,
    junk: u64,
    /// The first line that was not a protocol message.
    pub first_junk: Option<SafeText>,
    /// Bytes received that still lack a line end.
    pub unfinished: usize,
    asked: Option<String>,
    /// The status of the last HTTP response; over HTTP there is no stdout.
    pub http: Option<u16>,
}

impl ReceivedSoFar {
    /// Resets it: a connection is being opened.
    pub fn open(&self, now: Instant) {
        self.with(|s| *s = Arrivals { opened: Some(now), ..Arrivals::default() });
    }

    /// Records that a handshake request was sent.
    pub fn record_request(&self, method: &str) {
        self.with(|s| s.asked = Some(method.to_owned()));
    }

    /// Records that bytes arrived; returns true for the first.
    pub fn bytes(&self, now: Instant) -> bool {
        self.with(|s| s.first_byte.is_none() && s.first_byte.replace(now).is_none())
    }

    /// Records `count` lines that are not protocol messages.
    pub fn junk(&self, line: &SafeText, count: u64) {
        self.with(|s| {
            s.junk += count;
            s.first_junk.get_or_insert_with(|| line.clone());
        });
    }

    /// Whether the last response is typical of a server that accepts no POST at its address.
    pub fn refused_post(&self) -> bool {
        self.with(|s| s.messages == 0 && matches!(s.http, Some(400 | 404 | 405)))
    }

    /// What was received by `now` and what was not, as a clause: `no byte from the server in 30.0 s`.
    pub fn describe(&self, now: Instant) -> String {
        self.with(|s| s.describe(now))
    }

    /// Reads or updates the arrivals.
    pub fn with<T>(&self, act: impl FnOnce(&mut Arrivals) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl Arrivals {
    fn describe(&self, now: Instant) -> String {
        let since = self.opened.map(|at| (now - at).as_secs_f64()).unwrap_or_default();
        // A WebSocket begins with 101: what counts is what came over it.
        if self.http == Some(101) {
            return format!("no answer to {} in {since:.1} s", self.wanted());
        }
        if let Some(status) = self.http {
            return format!(
                "HTTP {status} came, but no answer to {} in {since:.1} s",
                self.wanted()
            );
        }
        let Some(first) = self.first_byte else {
            return format!("no byte from the server in {since:.1} s");
        };
        if self.speaks_http() {
            return "stdout speaks HTTP, not JSON-RPC".to_owned();
        }
        let after = self.opened.map(|at| (first - at).as_secs_f64()).unwrap_or_default();
        let mut out = format!("first byte after {after:.1} s");
        if self.junk > 0 {
            let are = if self.junk == 1 { "is" } else { "are" };
            let lines = count(self.junk, "line");
            let _ = write!(out, ", {lines} on stdout that {are} not JSON-RPC");
            if let Some(line) = &self.first_junk {
                let _ = write!(out, " (first: `{line}`)");
            }
        }
        if self.unfinished > 0 {
            let bytes = count(self.unfinished, "byte");
            let _ = write!(out, ", {bytes} without an end of line");
        }
        let messages = match self.messages {
            0 => "no JSON-RPC message".to_owned(),
            n => count(n, "JSON-RPC message").to_string(),
        };
        out + &format!(", {messages}, no answer to {} in {since:.1} s", self.wanted())
    }

    fn wanted(&self) -> &str {
        self.asked.as_deref().unwrap_or("the handshake")
    }

    fn speaks_http(&self) -> bool {
        self.messages == 0
            && self.first_junk.as_deref().is_some_and(|line| line.starts_with("HTTP/"))
    }
}
