//! What a connecting server has let be seen so far, in words. Owns no policy: the owner of the
//! session decides when its patience ends and asks here what to say.

use std::fmt::Write as _;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::base::text::SafeText;

/// What arrived on a connection since it was opened; shared by the session and its owner.
#[derive(Debug, Default)]
pub struct Seen(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    opened: Option<Instant>,
    first_byte: Option<Instant>,
    bytes: u64,
    messages: u64,
    junk: u64,
    first_junk: Option<SafeText>,
    unfinished: u64,
    asked: Option<(String, Instant)>,
    http: Option<u16>,
}

impl Seen {
    /// A connection is being opened: forgets the one before.
    pub fn open(&self) {
        self.with(|s| *s = State { opened: Some(Instant::now()), ..State::default() });
    }

    /// A request of the handshake went out.
    pub fn asked(&self, method: &str) {
        self.with(|s| s.asked = Some((method.to_owned(), Instant::now())));
    }

    /// Bytes arrived; true for the first.
    pub fn bytes(&self, count: usize) -> bool {
        self.with(|s| {
            s.bytes += count as u64;
            s.first_byte.is_none() && s.first_byte.replace(Instant::now()).is_none()
        })
    }

    /// A protocol message arrived.
    pub fn message(&self) {
        self.with(|s| s.messages += 1);
    }

    /// A line arrived that is no protocol message.
    pub fn junk(&self, line: &SafeText, count: u64) {
        self.with(|s| {
            s.junk += count;
            s.first_junk.get_or_insert_with(|| line.clone());
        });
    }

    /// Bytes without an end of line are waiting.
    pub fn unfinished(&self, bytes: usize) {
        self.with(|s| s.unfinished = bytes as u64);
    }

    /// An HTTP response began.
    pub fn status(&self, status: u16) {
        self.with(|s| s.http = Some(status));
    }

    /// Whether the last answer was one of a server that takes no POST at its address.
    pub fn refused_post(&self) -> bool {
        self.with(|s| s.messages == 0 && matches!(s.http, Some(400 | 404 | 405)))
    }

    /// Whether it speaks HTTP: then nothing comes on a stdout.
    pub fn is_http(&self) -> bool {
        self.with(|s| s.http.is_some())
    }

    /// Whether no protocol message has arrived.
    pub fn is_mute(&self) -> bool {
        self.with(|s| s.messages == 0)
    }

    /// What was seen and what was not, as the end of a sentence: `no byte on stdout in 30.0 s`.
    pub fn describe(&self) -> String {
        self.with(|s| s.describe())
    }

    /// The first line on stdout that was no protocol message.
    pub fn first_junk(&self) -> Option<SafeText> {
        self.with(|s| s.first_junk.clone())
    }

    fn with<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl State {
    fn describe(&self) -> String {
        let since = self.opened.map(|at| at.elapsed().as_secs_f64()).unwrap_or_default();
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
            let lines = if self.junk == 1 { "line" } else { "lines" };
            let are = if self.junk == 1 { "is" } else { "are" };
            let _ = write!(out, ", {} {lines} on stdout that {are} not JSON-RPC", self.junk);
            if let Some(line) = &self.first_junk {
                let _ = write!(out, " (first: `{line}`)");
            }
        }
        if self.unfinished > 0 {
            let _ = write!(out, ", {} bytes without an end of line", self.unfinished);
        }
        let messages = match self.messages {
            0 => "no JSON-RPC message".to_owned(),
            n => format!("{n} JSON-RPC messages"),
        };
        out + &format!(", {messages}, no answer to {} in {since:.1} s", self.wanted())
    }

    fn wanted(&self) -> &str {
        self.asked.as_ref().map_or("the handshake", |(method, _)| method)
    }

    fn speaks_http(&self) -> bool {
        self.messages == 0
            && self.first_junk.as_deref().is_some_and(|line| line.starts_with("HTTP/"))
    }
}
