//! One line on stderr that says what a run waits for. Only on a terminal; gone when it is over.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::base::text::SafeText;
use crate::host::view::{StartStep, StepStatus};
use crate::host::{HostView, ServerState, ServerView};

/// A run that ends sooner shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);
/// Longest line, in characters.
const WIDTH: usize = 79;

/// The line.
pub struct Progress {
    on: bool,
    began: Instant,
    shown: String,
}

impl Progress {
    /// A line when stderr is a terminal that can overwrite it.
    pub fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let on = io::stderr().is_terminal() && !dumb;
        Self { on, began: Instant::now(), shown: String::new() }
    }

    /// Shows how the servers stand.
    pub fn show(&mut self, view: &HostView, stopping: bool) {
        let elapsed = self.began.elapsed();
        if !self.on || (elapsed < PATIENCE && !stopping) {
            return;
        }
        let line = if stopping { farewell(view) } else { describe(view, elapsed) };
        if line != self.shown {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K{line}");
            let _ = io::stderr().flush();
            self.shown = line;
        }
    }

    /// Takes the line away.
    pub fn clear(&mut self) {
        if self.on && !self.shown.is_empty() {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
            let _ = io::stderr().flush();
            self.shown.clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `12 s  3 ready, 2 done of 7; waiting for files (handshake)`
fn describe(view: &HostView, elapsed: Duration) -> String {
    let (mut ready, mut done, mut open) = (0, 0, Vec::new());
    for server in view.servers.values() {
        match server.state {
            ServerState::Ready => ready += 1,
            ServerState::Starting | ServerState::Waiting => open.push(waits(server)),
            ServerState::Shutdown if is_alive(server) => {
                open.push(format!("{} (stopping)", name(server)));
            }
            _ => done += 1,
        }
    }
    let mut line =
        format!("{} s  {ready} ready, {done} done of {}", elapsed.as_secs(), view.servers.len());
    if !open.is_empty() {
        let more = open.len().saturating_sub(3);
        open.truncate(3);
        line.push_str("; waiting for ");
        line.push_str(&open.join(", "));
        if more > 0 {
            let _ = write!(line, " and {more} more");
        }
    }
    line.chars().take(WIDTH).collect()
}

fn farewell(view: &HostView) -> String {
    let open = view.servers.values().filter(|server| is_alive(server)).count();
    let (servers, them) = if open == 1 { ("server", "it") } else { ("servers", "them") };
    format!("interrupted: stopping {open} {servers}; Ctrl-C again ends {them} at once")
}

fn is_alive(server: &ServerView) -> bool {
    server.pid.is_some()
}

fn name(server: &ServerView) -> String {
    SafeText::line(server.name.as_str()).chars().take(24).collect()
}

fn waits(server: &ServerView) -> String {
    let step = server.steps.iter().rev().find(|s| s.status == StepStatus::Running);
    let at = match step.map(|s| s.step) {
        None => return name(server),
        Some(StartStep::Resolve) => "looking for it",
        Some(StartStep::Spawn) => "connecting",
        Some(StartStep::FirstByte) => "first byte",
        Some(StartStep::Handshake) => "handshake",
        Some(StartStep::Authorize) => "authorisation",
        Some(_) => "lists",
    };
    format!("{} ({at})", name(server))
}
