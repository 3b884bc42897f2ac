//! Log records of the host and of its servers (requirements L6, O1), as the dashboard shows them.

use serde::{Deserialize, Serialize};

use crate::base::ring::Weighed;
use crate::base::text::SafeText;
use crate::base::{ServerName, Timestamp};

/// Where a log line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogSource {
    /// The host itself.
    Host,
    /// The server's stderr.
    Stderr,
    /// Output of the server's build command (`dev.build`).
    Build,
    /// A `notifications/message` of the server.
    Notification,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogRecord {
    /// When it was read.
    pub at: Timestamp,
    /// Whose it is; `None` for the host itself.
    pub server: Option<ServerName>,
    /// Where it came from.
    pub source: LogSource,
    /// Level; stderr lines without a recognisable level are `info`.
    pub level: LogLevel,
    /// Logger name, target or nothing.
    pub logger: Option<SafeText>,
    /// The text, secrets masked.
    pub text: SafeText,
}

impl Weighed for LogRecord {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}

/// Log levels of the specification (RFC 5424 names).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Finest; not in RFC 5424, used for the host's own trace records.
    Trace,
    /// `debug`
    Debug,
    /// `info`
    Info,
    /// `notice`
    Notice,
    /// `warning`
    Warning,
    /// `error`
    Error,
    /// `critical`
    Critical,
    /// `alert`
    Alert,
    /// `emergency`
    Emergency,
}
