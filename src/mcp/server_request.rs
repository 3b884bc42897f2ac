//! Requests of a server to its client: what they are for, and how they are answered.

use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    /// Asked by the host itself: may this call with suspicious arguments go out (requirement R9)?
    /// `params` holds `tool`, `arguments` and `violations`; the answer is `{"action": "accept"}`
    /// or anything else, which refuses.
    Guard,
    /// Asked by the host itself: may a caller that is not the person do this? `params` holds `tool`,
    /// `method`, `arguments`, `caller` and `why`; answered like [`RequestKind::Guard`].
    Permission,
    /// Any other method.
    Other(String),
}

impl RequestKind {
    /// The method of the specification.
    pub fn method(&self) -> &str {
        match self {
            Self::Sampling => "sampling/createMessage",
            Self::Elicitation | Self::UrlElicitation => "elicitation/create",
            Self::Roots => "roots/list",
            Self::Guard => "mcpdeck/guard",
            Self::Permission => "mcpdeck/permission",
            Self::Other(method) => method,
        }
    }
}

/// How a request is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Answer {
    /// The `result` to send: a `CreateMessageResult`, an `ElicitResult` (action `accept`,
    /// `decline` or `cancel`), a `ListRootsResult`.
    Result(Value),
    /// Refused, with the reason the server is told.
    Refuse {
        /// JSON-RPC error code; -1 is what the specification shows for a user's refusal.
        code: i64,
        /// The reason.
        message: String,
    },
}
