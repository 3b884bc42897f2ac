//! What callers outside are told: one table from our errors to the codes of requirements section
//! 11, without a path, a command line or a value of the configuration (decision D7).

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Denial, Error, ErrorCode, RpcError, Violation};

/// Stable code of an error towards the outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OutsideCode {
    /// Nothing was granted, or a policy service said no.
    #[serde(rename = "ERR_PERMISSION_DENIED")]
    PermissionDenied,
    /// A scope was not granted.
    #[serde(rename = "ERR_SCOPE_REQUIRED")]
    ScopeRequired,
    /// The server is not ready.
    #[serde(rename = "ERR_SERVER_UNAVAILABLE")]
    ServerUnavailable,
    /// There is no such tool, prompt, resource or server for this caller.
    #[serde(rename = "ERR_TOOL_NOT_FOUND")]
    ToolNotFound,
    /// The tool is not among those that were granted.
    #[serde(rename = "ERR_TOOL_NOT_ALLOWED")]
    ToolNotAllowed,
    /// No answer in time.
    #[serde(rename = "ERR_TOOL_TIMEOUT")]
    ToolTimeout,
    /// The server answered with an error, or the call was cancelled.
    #[serde(rename = "ERR_TOOL_FAILED")]
    ToolFailed,
    /// The arguments do not fit, or the answer was none.
    #[serde(rename = "ERR_PROTOCOL_ERROR")]
    ProtocolError,
    /// A fault of the host.
    #[serde(rename = "ERR_INTERNAL")]
    Internal,
    /// Too many calls.
    #[serde(rename = "ERR_RATE_LIMITED")]
    RateLimited,
    /// The run's budget is spent.
    #[serde(rename = "ERR_BUDGET_EXCEEDED")]
    BudgetExceeded,
}

impl OutsideCode {
    /// The code of an error.
    pub const fn of(error: ErrorCode, denial: Option<Denial>, answered: bool) -> Self {
        match error {
            ErrorCode::PermissionDenied => match denial {
                Some(Denial::Scope) => Self::ScopeRequired,
                Some(Denial::Tool) => Self::ToolNotAllowed,
                Some(Denial::NotGranted) | None => Self::PermissionDenied,
            },
            ErrorCode::PolicyBlocked => Self::PermissionDenied,
            ErrorCode::ServerStartup | ErrorCode::ServerUnavailable | ErrorCode::CircuitOpen => {
                Self::ServerUnavailable
            }
            ErrorCode::ToolNotFound | ErrorCode::Ambiguous => Self::ToolNotFound,
            ErrorCode::Timeout => Self::ToolTimeout,
            ErrorCode::Cancelled => Self::ToolFailed,
            ErrorCode::Protocol if answered => Self::ToolFailed,
            ErrorCode::Protocol | ErrorCode::Validation => Self::ProtocolError,
            ErrorCode::RateLimited => Self::RateLimited,
            ErrorCode::BudgetExceeded => Self::BudgetExceeded,
            ErrorCode::Configuration | ErrorCode::Internal => Self::Internal,
        }
    }

    /// The spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PermissionDenied => "ERR_PERMISSION_DENIED",
            Self::ScopeRequired => "ERR_SCOPE_REQUIRED",
            Self::ServerUnavailable => "ERR_SERVER_UNAVAILABLE",
            Self::ToolNotFound => "ERR_TOOL_NOT_FOUND",
            Self::ToolNotAllowed => "ERR_TOOL_NOT_ALLOWED",
            Self::ToolTimeout => "ERR_TOOL_TIMEOUT",
            Self::ToolFailed => "ERR_TOOL_FAILED",
            Self::ProtocolError => "ERR_PROTOCOL_ERROR",
            Self::Internal => "ERR_INTERNAL",
            Self::RateLimited => "ERR_RATE_LIMITED",
            Self::BudgetExceeded => "ERR_BUDGET_EXCEEDED",
        }
    }
}

impl fmt::Display for OutsideCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error as callers outside get it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutsideError {
    /// Its code.
    pub code: OutsideCode,
    /// What happened.
    pub message: String,
    /// When it is worth asking again, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Where arguments do not fit the tool's schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// The server's own JSON-RPC error, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc: Option<RpcError>,
}

impl OutsideError {
    /// What a caller outside is told of an error. Our own words about a server may hold its command
    /// line, a path or a line of its log: they stay here.
    pub fn of(error: &Error) -> Self {
        let code = OutsideCode::of(error.code, error.denial, error.rpc.is_some());
        let message = match (error.code, code) {
            // Made from what the caller sent and from the tool's schema alone.
            (ErrorCode::PermissionDenied | ErrorCode::ToolNotFound, _) => error.message.clone(),
            (ErrorCode::Validation, _) => {
                let places = error.violations.iter().map(|violation| {
                    let at = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
                    format!("; {at}: {}", violation.message)
                });
                format!("{}{}", error.message, places.collect::<String>())
            }
            (ErrorCode::PolicyBlocked, _) => "Compliance Blocked".to_owned(),
            (ErrorCode::Ambiguous, _) => "the name fits several: write server.name".to_owned(),
            (ErrorCode::Cancelled, _) => "the call was cancelled".to_owned(),
            (ErrorCode::CircuitOpen, _) => "the server failed too often in a row".to_owned(),
            (_, OutsideCode::ServerUnavailable) => "the server is not available".to_owned(),
            (_, OutsideCode::ToolTimeout) => "no answer in time".to_owned(),
            (_, OutsideCode::ToolFailed) => {
                error.rpc.as_ref().map_or_else(|| "it failed".to_owned(), |rpc| rpc.message.clone())
            }
            (_, OutsideCode::ProtocolError) => "the server's answer breaks the protocol".to_owned(),
            (_, OutsideCode::RateLimited) => "too many calls".to_owned(),
            (_, OutsideCode::BudgetExceeded) => "the budget of the run is spent".to_owned(),
            _ => "the host could not do it".to_owned(),
        };
        let retry = error.retry_after.map(|after| Duration::as_millis(&after) as u64);
        Self {
            code,
            message,
            retry_after_ms: retry,
            violations: error.violations.clone(),
            rpc: error.rpc.clone(),
        }
    }
}

impl fmt::Display for OutsideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}
