//! Traffic: every message of every server in both directions (requirement O3), as records.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::ServerName;
use crate::base::Timestamp;
use crate::base::ring::Weighed;
use crate::base::text::SafeText;
use crate::mcp::CallId;

/// Which way a message went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the host to the server.
    Out,
    /// From the server to the host.
    In,
}

/// What a message is (JSON-RPC 2.0, section 4 and 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageKind {
    /// Has a method and an id.
    Request,
    /// Has a method and no id.
    Notification,
    /// Has a result.
    Response,
    /// Has an error.
    Error,
    /// Is no JSON-RPC message.
    Junk,
}

/// One message, or one line that is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficRecord {
    /// When it passed the tap.
    pub at: Timestamp,
    /// The server.
    pub server: ServerName,
    /// Which way.
    pub direction: Direction,
    /// What it is.
    pub kind: MessageKind,
    /// Method; for a response that of its request.
    pub method: Option<SafeText>,
    /// Tool, prompt or URI named by the request.
    pub target: Option<SafeText>,
    /// JSON-RPC id, as text.
    pub id: Option<SafeText>,
    /// The operation it belongs to, when known.
    pub call: Option<CallId>,
    /// Size on the wire in bytes.
    pub bytes: usize,
    /// For a response: time since its request.
    pub latency: Option<Duration>,
    /// For a request of a caller: time from when it was asked for until it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<Duration>,
    /// The text as it passed, secrets masked, cut to [`TrafficRecord::BODY`] bytes. Not made safe:
    /// it is parsed again for display, and drawn through [`SafeText`] only.
    pub body: Box<str>,
    /// Whether the body was cut.
    pub cut: bool,
    /// What is wrong with it, when something is.
    pub problem: Option<SafeText>,
}

impl TrafficRecord {
    /// Most bytes of a body that are kept.
    pub const BODY: usize = 64 << 10;
}

impl Weighed for TrafficRecord {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.body.len() + self.problem.as_ref().map_or(0, |p| p.len())
    }
}
