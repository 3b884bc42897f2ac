//! Log records of the host and of its servers, as the dashboard shows them.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use tracing::Level;

use crate::ring::{Ring, Weighed};
use crate::text::SafeText;
use crate::{ServerName, Timestamp};

/// Where a log line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
#[non_exhaustive]
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
    /// The server it belongs to; `None` for the host itself.
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

impl LogRecord {
    /// Puts the line into `logs` and into the program's log file.
    pub fn keep(self, logs: &Ring<Self>) {
        let server = self.server.as_ref().map(ServerName::as_str);
        let logger = self.logger.as_ref().map(SafeText::as_str);
        let action: &str = self.source.into();
        macro_rules! log {
            ($level:ident) => {
                tracing::event!(
                    target: "mcpdeck::server", Level::$level, server, action, logger, "{}", self.text
                )
            };
        }
        match self.level {
            LogLevel::Trace | LogLevel::Debug => log!(DEBUG),
            LogLevel::Info | LogLevel::Notice => log!(INFO),
            LogLevel::Warning => log!(WARN),
            _ => log!(ERROR),
        }
        logs.push(Arc::new(self));
    }
}

impl Weighed for LogRecord {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.text.len()
    }
}

/// Log levels of the specification (RFC 5424 names).
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
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
