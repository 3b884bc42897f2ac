//! Exit codes of the program.

use std::process::ExitCode;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Everything asked for was done.
    Ok,
    /// Findings, a tool error, or a failed call.
    Failed,
    /// The arguments or the configuration cannot be used.
    Usage,
    /// A server could not be started or reached.
    Unavailable,
    /// Interrupted by Ctrl-C, as shells count it.
    Interrupted,
}

/// What a command returns: its exit code, or that of a failure it has already reported.
pub type Done = Result<Exit, Exit>;

impl From<Done> for Exit {
    fn from(done: Done) -> Self {
        done.unwrap_or_else(|exit| exit)
    }
}

impl Exit {
    /// The number.
    pub const fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unavailable => 3,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl From<crate::check::Verdict> for Exit {
    fn from(verdict: crate::check::Verdict) -> Self {
        use crate::check::Verdict;
        match verdict {
            Verdict::Ok => Self::Ok,
            Verdict::Violated => Self::Failed,
            Verdict::Incomplete => Self::Unavailable,
            Verdict::Usage => Self::Usage,
        }
    }
}
