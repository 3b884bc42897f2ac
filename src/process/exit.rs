//! How a process ended, in numbers and in words.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use base::SafeText;
use base::human::Dur;

/// How a process ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExitView {
    /// Exit code.
    pub code: Option<i32>,
    /// Signal number.
    pub signal: Option<i32>,
    /// Whether the host asked for it.
    pub expected: bool,
    /// How far the stop had to go, when the host asked: `stdin`, `term`, `kill`; or `guardian`,
    /// which ends it after the host.
    pub ladder: Option<SafeText>,
    /// Processes that outlived the leader and were swept.
    pub swept: u32,
    /// Processes that could not be ended, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escaped: Vec<SafeText>,
    /// How long it ran.
    pub lived: Duration,
}

impl ExitView {
    /// The `ladder` of a process that was still stopping when the host left it to the guardian.
    pub const GUARDIAN: &str = "guardian";

    /// `exit code 1`, `killed by SIGSEGV`, ...
    pub fn describe(&self) -> String {
        match (self.code, self.signal) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("killed by {}", signal_name(signal)),
            (None, None) if self.ladder.as_deref() == Some(Self::GUARDIAN) => {
                "still stopping, left to the guardian".to_owned()
            }
            (None, None) => "exit status unknown".to_owned(),
        }
    }

    /// The same, and how long it had run: `exit code 1 after 3 s`.
    pub fn describe_life(&self) -> String {
        format!("{} after {}", self.describe(), Dur(self.lived))
    }
}

fn signal_name(signal: i32) -> String {
    match signal {
        1 => "SIGHUP".into(),
        2 => "SIGINT".into(),
        4 => "SIGILL".into(),
        6 => "SIGABRT".into(),
        7 => "SIGBUS".into(),
        8 => "SIGFPE".into(),
        9 => "SIGKILL".into(),
        11 => "SIGSEGV".into(),
        13 => "SIGPIPE".into(),
        15 => "SIGTERM".into(),
        24 => "SIGXCPU".into(),
        other => format!("signal {other}"),
    }
}
