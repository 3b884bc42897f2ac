//! Notifications, progress and requests of a server, as passed on to the host's own clients.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::CallId;
use base::{LogLevel, SafeText, ServerName};

/// A notification of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// The server.
    pub server: ServerName,
    /// What it sent.
    pub kind: NoticeKind,
}

/// What a server sent.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NoticeKind {
    /// `notifications/resources/updated`
    Updated {
        /// The resource.
        uri: Arc<str>,
    },
    /// `notifications/message`. Dropped when several calls are in flight and it cannot be
    /// attributed to one of them: it may be meant for one caller alone.
    Logged {
        /// Its level.
        level: LogLevel,
        /// `params` as sent, secrets masked.
        params: Value,
        /// The call during which it arrived; `None` when none was in flight.
        call: Option<CallId>,
    },
}

// Progress of a call, as reported by the server.

/// One progress notification (MCP, basic, utilities, progress), clamped to finite numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The call.
    pub call: CallId,
    /// Progress so far; never decreases.
    pub progress: f64,
    /// Total, when known.
    pub total: Option<f64>,
    /// What is being done.
    pub message: Option<SafeText>,
}

// Requests of a server to its client: what they are for, and how they are answered.

/// What a server asks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestKind {
    /// `sampling/createMessage`
    Sampling,
    /// `elicitation/create`, form mode
    Elicitation,
    /// `elicitation/create`, URL mode
    UrlElicitation,
    /// `roots/list`
    Roots,
    /// From the host itself: may this call with suspicious arguments be sent?
    /// `params` holds `tool`, `arguments` and `violations`; the answer is `{"action": "accept"}`
    /// or anything else, which refuses.
    Guard,
    /// From the host itself: may a caller other than the user do this? `params` holds `tool`,
    /// `method`, `arguments`, `caller` and `why`; answered like [`RequestKind::Guard`].
    Permission,
    /// From the host itself: the user has to sign in at the server. `params` holds `message`,
    /// `issuer`, `scopes`, `url` and `redirectUri`. Resolves by itself when the browser reaches
    /// `redirectUri`; otherwise `{"action": "accept", "content": {"address": ADDRESS}}` passes the
    /// address the browser ended at, and any other answer means "not now".
    SignIn,
    /// Any other method.
    Other(String),
}

impl RequestKind {
    /// Whether the host itself asks, not the server.
    pub const fn is_own(&self) -> bool {
        matches!(self, Self::Guard | Self::Permission | Self::SignIn)
    }

    /// The kind of a request of a server, by its method and `params`.
    pub fn from_method(method: &str, params: &Value) -> Self {
        match method {
            "sampling/createMessage" => Self::Sampling,
            "elicitation/create" => {
                let mode = params.get("mode").and_then(Value::as_str);
                if mode == Some("url") { Self::UrlElicitation } else { Self::Elicitation }
            }
            "roots/list" => Self::Roots,
            other => Self::Other(other.to_owned()),
        }
    }

    /// Its method in the specification; for the host's own kinds, one below `mcpdeck/`.
    pub fn method(&self) -> &str {
        match self {
            Self::Sampling => "sampling/createMessage",
            Self::Elicitation | Self::UrlElicitation => "elicitation/create",
            Self::Roots => "roots/list",
            Self::Guard => "mcpdeck/guard",
            Self::Permission => "mcpdeck/permission",
            Self::SignIn => "mcpdeck/signIn",
            Self::Other(method) => method,
        }
    }
}

/// The place of a request among the inputs of one `input_required` result (2026-07-28, SEP-2322).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputPlace {
    /// Its key in `inputRequests`.
    pub key: Arc<str>,
    /// How many there are.
    pub of: usize,
}

impl InputPlace {
    /// The input `key` among `of`.
    pub fn new(key: &str, of: usize) -> Self {
        Self { key: key.into(), of }
    }
}

/// How a request is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The `result` to send: a `CreateMessageResult`, an `ElicitResult` (action `accept`,
    /// `decline` or `cancel`), a `ListRootsResult`.
    Result(Value),
    /// Refused, with the reason that is sent to the server.
    Refuse {
        /// JSON-RPC error code, such as [`RpcCode::USER_REJECTED`](crate::RpcCode::USER_REJECTED).
        code: i64,
        /// The reason.
        message: String,
    },
}
