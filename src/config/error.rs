//! The error type of the engine: a stable code, the server, the request, the cause
//! and the next step for the user.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use strum::IntoStaticStr;

use crate::Diagnostic;
pub use base::Violation;
use base::{SafeText, ServerName};

/// Stable code of an error; the spelling is part of every machine-readable output.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    IntoStaticStr,
)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The configuration cannot be used.
    Configuration,
    /// A server did not start.
    ServerStartup,
    /// A server is not ready.
    ServerUnavailable,
    /// No such tool, prompt or resource.
    ToolNotFound,
    /// The name matches more than one target.
    Ambiguous,
    /// Arguments do not fit the schema.
    Validation,
    /// No response before the deadline.
    Timeout,
    /// Cancelled by the caller.
    Cancelled,
    /// The server sent a JSON-RPC error or an invalid response.
    Protocol,
    /// The circuit breaker rejects calls.
    CircuitOpen,
    /// Not permitted.
    PermissionDenied,
    /// Too many calls; includes a full queue.
    RateLimited,
    /// The run's budget is spent.
    BudgetExceeded,
    /// A policy blocks the call.
    PolicyBlocked,
    /// An internal error of the host.
    #[default]
    Internal,
}

impl ErrorCode {
    /// Whether it says nothing about the server: the call was cancelled, or refused before anything
    /// was sent.
    pub const fn is_of_caller(self) -> bool {
        matches!(
            self,
            Self::Cancelled
                | Self::Validation
                | Self::PermissionDenied
                | Self::BudgetExceeded
                | Self::PolicyBlocked
        )
    }

    /// The stable spelling, for machines.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// What happened, in words for a person.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Configuration => "configuration error",
            Self::ServerStartup => "server did not start",
            Self::ServerUnavailable => "server unavailable",
            Self::ToolNotFound => "not found",
            Self::Ambiguous => "ambiguous name",
            Self::Validation => "refused before sending",
            Self::Timeout => "timed out",
            Self::Cancelled => "cancelled",
            Self::Protocol => "protocol error",
            Self::CircuitOpen => "rejected by the breaker",
            Self::PermissionDenied | Self::PolicyBlocked => "not permitted",
            Self::RateLimited => "too many calls",
            Self::BudgetExceeded => "budget spent",
            Self::Internal => "internal error",
        }
    }

    /// The default help text of this code, for errors without a more specific one.
    const fn advice(self) -> &'static str {
        match self {
            Self::Configuration => "`mcpdeck config` shows every problem at its line",
            Self::ServerStartup => "`mcpdeck --check -v` shows every step of its start",
            Self::ServerUnavailable => "`mcpdeck --check -v` shows what it did; then restart it",
            Self::ToolNotFound => "`mcpdeck list` shows what there is",
            Self::Ambiguous => "write server.name",
            Self::Validation => "correct the arguments, or force the call to test the server",
            Self::Timeout => "raise `timeout` in its entry if it needs longer",
            Self::Cancelled => "call again if still needed",
            Self::Protocol => "this is the server's fault: see its messages in the traffic",
            Self::CircuitOpen => "wait for the next probe, or reset the breaker",
            Self::PermissionDenied | Self::PolicyBlocked => {
                "change the policy in its entry if this is wanted"
            }
            Self::RateLimited => "call again later, or less often",
            Self::BudgetExceeded => "raise the budget of the run",
            Self::Internal => "this is a bug in mcpdeck: see its log",
        }
    }
}

impl base::text::SafePart for ErrorCode {}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error of the engine. Clone-able and serialisable, because front ends keep and show it.
///
/// Boxed to keep `Result` small; the fields of [`ErrorBody`] are accessible through `Deref`.
/// `Display` writes the server, the message, the candidates or violations, and the help text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Error(Box<ErrorBody>);

/// The fields of an [`Error`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ErrorBody {
    /// Stable code.
    pub code: ErrorCode,
    /// The server it concerns.
    pub server: Option<ServerName>,
    /// The request it concerns, for example `tools/call echo`.
    pub request: Option<String>,
    /// What happened, safe to print, secrets masked.
    pub message: String,
    /// What to do next.
    pub help: Option<String>,
    /// Suggested names ([`ErrorCode::Ambiguous`], [`ErrorCode::ToolNotFound`]).
    pub candidates: Vec<String>,
    /// All violations ([`ErrorCode::Validation`]).
    pub violations: Vec<Violation>,
    /// All problems of the configuration ([`ErrorCode::Configuration`]).
    pub diagnostics: Vec<Diagnostic>,
    /// The server's own JSON-RPC error: code and data as sent.
    pub rpc: Option<RpcError>,
    /// How long to wait before a retry ([`ErrorCode::RateLimited`], [`ErrorCode::CircuitOpen`],
    /// [`ErrorCode::ServerUnavailable`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// Why the server is down, in words that reveal nothing of this machine; they complete
    /// "the server ..." ([`ErrorCode::ServerUnavailable`]). Or which limit of the caller is reached
    /// ([`ErrorCode::RateLimited`]), or which limit the server's answer exceeds
    /// ([`ErrorCode::Protocol`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<String>,
    /// What was not granted ([`ErrorCode::PermissionDenied`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<Denial>,
    /// The invalid data the server sent, if any: its first [`Error::MAX_RAW_BYTES`] bytes, secrets masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<SafeText>,
    /// Whether anything of the request was sent to the server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub sent: bool,
    /// The messages of all its causes, the outermost first, for the log. Callers get the innermost
    /// one, in `message`.
    #[serde(skip)]
    pub causes: Option<String>,
    /// Whether the server responded, if only with an error: it is reachable.
    #[serde(skip)]
    pub answered: bool,
    /// Whether the user has to sign in first; no indication of the server's health.
    #[serde(skip)]
    pub unauthorized: bool,
}

/// What was not granted to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Denial {
    /// No access to the target at all.
    NotGranted,
    /// The policy has no profile of the name that the caller acts under.
    NoProfile,
    /// A required scope is missing.
    Scope,
    /// The tool is not permitted.
    Tool,
    /// Consent is needed, and nobody could be asked for it.
    Unasked,
    /// The arguments are larger than a limit permits.
    Size,
    /// The definition of the tool is not the one that the caller saw.
    Changed,
    /// The arguments are suspicious, and nobody approved them.
    Suspicious,
}

/// A JSON-RPC error object as the server sent it (JSON-RPC 2.0, section 5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RpcError {
    /// Its `code`; `None` when it was not an integer.
    pub code: Option<i64>,
    /// Its `message`, sanitized.
    pub message: String,
    /// Its `data`.
    pub data: Option<Value>,
}

impl Error {
    /// An error with a code and a message.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self(Box::new(ErrorBody { code, message: message.into(), ..ErrorBody::default() }))
    }

    /// Maximum length of the raw text kept, in bytes.
    pub const MAX_RAW_BYTES: usize = 4 << 10;

    /// Sets the server.
    #[must_use]
    pub fn server(mut self, server: &ServerName) -> Self {
        self.server = Some(server.clone());
        self
    }

    /// Sets the request.
    #[must_use]
    pub fn request(mut self, request: impl Into<String>) -> Self {
        self.request = Some(request.into());
        self
    }

    /// Sets the help text.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the suggested names.
    #[must_use]
    pub fn candidates(mut self, names: impl IntoIterator<Item = impl ToString>) -> Self {
        self.candidates = names.into_iter().map(|name| name.to_string()).collect();
        self
    }

    /// Sets the schema violations.
    #[must_use]
    pub fn violations(mut self, violations: Vec<Violation>) -> Self {
        self.violations = violations;
        self
    }

    /// Sets a default help text, by HTTP status or error code, when there is none.
    #[must_use]
    pub fn advised(mut self) -> Self {
        if self.help.is_none() {
            let status = self.message.split_once("HTTP ").and_then(|(_, rest)| rest.get(..3));
            let status = status.and_then(|digits| digits.parse().ok()).and_then(http_advice);
            self.help = Some(status.unwrap_or(self.code.advice()).to_owned());
        }
        self
    }
}

/// The help text for a response with this HTTP status (RFC 9110, section 15).
const fn http_advice(status: u16) -> Option<&'static str> {
    Some(match status {
        300..=399 => "write the address it redirects to into `url`",
        401 => "the server wants credentials: give its entry an `Authorization` header",
        403 => "the credentials are known but lack a permission: ask for one that has it",
        404 | 405 | 406 | 415 => "correct the path in `url`: this is not an MCP endpoint",
        429 => "call again later, or less often",
        500..=599 => "the server failed: see its own log; call again later",
        _ => return None,
    })
}

impl std::ops::Deref for Error {
    type Target = ErrorBody;
    fn deref(&self) -> &ErrorBody {
        &self.0
    }
}

impl std::ops::DerefMut for Error {
    fn deref_mut(&mut self) -> &mut ErrorBody {
        &mut self.0
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(server) = &self.server {
            write!(f, "{server}: ")?;
        }
        f.write_str(&self.message)?;
        if !self.candidates.is_empty() {
            write!(f, " (candidates: {})", self.candidates.join(", "))?;
        }
        for violation in &self.violations {
            write!(f, "\n  {}: {}", violation.place(), violation.message)?;
        }
        if let Some(help) = &self.help {
            // On its own line after violations, where it would read as part of the last one.
            let glue = if self.violations.is_empty() { "; " } else { "\n" };
            write!(f, "{glue}{help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_step_fits_the_http_status() {
        for (message, part) in [
            ("the server answered HTTP 401 Unauthorized", "`Authorization`"),
            ("the server answered HTTP 403 Forbidden: no", "permission"),
            ("HTTP 301 to /x would send it without its message", "redirects"),
            ("the server answered HTTP 500 Internal Server Error", "its own log"),
            ("the connection was closed", "`mcpdeck --check -v`"),
        ] {
            let error = Error::new(ErrorCode::ServerUnavailable, message).advised();
            assert!(error.help.as_ref().is_some_and(|help| help.contains(part)), "{error}");
        }
    }
}
