//! One line on stderr that says what a run waits for. Only on a terminal; gone when it is over.

use std::io::{self, IsTerminal, Write};

use crate::host::view::StepStatus;
use crate::host::{HostView, ServerState};

/// The line.
pub struct Progress {
    on: bool,
    shown: String,
}

impl Progress {
    /// A line when stderr is a terminal that can overwrite it.
    pub fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        Self { on: io::stderr().is_terminal() && !dumb, shown: String::new() }
    }

    /// Shows how the servers stand.
    pub fn show(&mut self, view: &HostView) {
        if !self.on {
            return;
        }
        let line = describe(view);
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

fn describe(view: &HostView) -> String {
    let count = |state| view.servers.values().filter(|s| s.state == state).count();
    let over = count(ServerState::Shutdown) + count(ServerState::Unavailable);
    let waiting: Vec<String> = view
        .servers
        .values()
        .filter(|s| matches!(s.state, ServerState::Starting | ServerState::Waiting))
        .map(|server| {
            let step = server.steps.iter().rev().find(|s| s.status == StepStatus::Running);
            let name: String =
                server.name.as_str().chars().filter(|c| !c.is_control()).take(24).collect();
            match step {
                Some(step) => format!("{name} ({:?})", step.step).to_lowercase(),
                None => name,
            }
        })
        .take(3)
        .collect();
    let mut line =
        format!("{} ready, {over} done of {}", count(ServerState::Ready), view.servers.len());
    if !waiting.is_empty() {
        line.push_str("; waiting for ");
        line.push_str(&waiting.join(", "));
    }
    line.chars().take(78).collect()
}
