//! What a process needs from its owner, and how much time it is given to exit.

use std::time::Duration;

use base::{Clock, LogRecord, LogSource, Redactor, Ring, ServerName};

/// What a process needs from its owner.
#[derive(Clone)]
pub struct ProcessContext {
    /// The server.
    pub server: ServerName,
    /// The clock.
    pub clock: Clock,
    /// Masks secrets in stderr.
    pub redactor: Redactor,
    /// Where stderr lines go.
    pub logs: Ring<LogRecord>,
    /// The source they are logged under.
    pub source: LogSource,
    /// Longest stderr line kept, in bytes; the rest of a longer one is dropped and counted.
    pub stderr_line_bytes: usize,
    /// Bytes of stderr kept for [`stderr_tail`](crate::ServerProcess::stderr_tail).
    pub stderr_bytes: usize,
    /// Whether the host may exit while the process is still stopping
    /// ([`hand_over`](crate::ServerProcess::hand_over)). It then has no parent-death signal,
    /// as long as there is a guardian.
    pub outlives_host: bool,
}

/// How long each step of a graceful stop may take before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grace {
    /// From closing its stdin to SIGTERM.
    pub stdin: Duration,
    /// From SIGTERM to SIGKILL.
    pub term: Duration,
}

impl Grace {
    /// No grace: SIGKILL at once.
    pub const NONE: Self = Self { stdin: Duration::ZERO, term: Duration::ZERO };

    /// Splits a budget (`shutdownTimeout`): a third on closed stdin, at most three
    /// seconds; all the rest after SIGTERM.
    pub fn within(budget: Duration) -> Self {
        let stdin = (budget / 3).min(Duration::from_secs(3));
        Self { stdin, term: budget.saturating_sub(stdin) }
    }

    /// The shorter of the two for each step.
    #[must_use]
    pub fn at_most(self, other: Self) -> Self {
        Self { stdin: self.stdin.min(other.stdin), term: self.term.min(other.term) }
    }
}

/// How long SIGKILL may take before a process is given up on (uninterruptible in the kernel).
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(2);
