//! Traffic: every message of every server in both directions, as records.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::CallId;
use base::{SafeText, ServerName, Timestamp, Weighed};

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
    /// Not a JSON-RPC message.
    Junk,
}

/// One message, or one line that is not a message.
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
    /// For a caller's request: how long it was queued before it was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<Duration>,
    /// The text as it passed, secrets masked, cut to [`TrafficRecord::MAX_BODY_BYTES`] bytes. Not sanitised:
    /// it is parsed again for display, and drawn through [`SafeText`] only.
    pub body: Box<str>,
    /// Whether the body was cut.
    pub cut: bool,
    /// What is wrong with it, when something is.
    pub problem: Option<SafeText>,
    /// Whether it was used in spite of its problem.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tolerated: bool,
}

impl TrafficRecord {
    /// How the problem begins of what stands for the answer to a request that gets none.
    pub const NO_ANSWER: &str = "no answer: ";
    /// Why a question of the handshake gets no answer when none is wanted any more.
    pub const OVERTAKEN: &str = "another question was answered first";

    /// Most bytes of a body that are kept.
    pub const MAX_BODY_BYTES: usize = 64 << 10;

    /// Why a request gets no answer, if this stands for one: nothing passed, and its kind is
    /// [`MessageKind::Error`].
    pub fn unanswered(&self) -> Option<&str> {
        let is_absent = self.kind == MessageKind::Error && self.bytes == 0;
        self.problem.as_ref().filter(|_| is_absent)?.strip_prefix(Self::NO_ANSWER)
    }
}

impl Weighed for TrafficRecord {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.body.len() + self.problem.as_ref().map_or(0, |p| p.len())
    }
}

// Protocol violations of a server, attributed and with the raw text (design, raw tap).

/// The kind of a protocol finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A line on stdout that is not JSON-RPC at all: a banner, a log line.
    Junk,
    /// JSON, or nearly, but not a valid JSON-RPC message.
    Malformed,
    /// Longer, deeper or larger than the limits allow.
    TooLarge,
    /// An answer to an id that was never used.
    UnknownId,
    /// A second answer to the same id.
    DuplicateAnswer,
    /// An answer after its call timed out or was cancelled.
    LateAnswer,
    /// An answer whose result has the wrong shape.
    WrongShape,
    /// A list entry that does not decode.
    BadEntry,
    /// A list that was cut short.
    PartialList,
    /// A request or notification the negotiated version does not allow.
    NotAllowed,
    /// A version the host does not know, or not the pinned one.
    Version,
    /// More requests than the host will hold.
    Flood,
    /// A process that outlived the stop of its server.
    Leftover,
    /// A request after the session was closed: it can no longer be answered.
    AskedAfterClose,
    /// Something that a strict client may refuse; nothing was lost by it.
    Tolerated,
    /// A name or URI that leads to an item of another server too.
    Collision,
}

/// One finding. Repeats of a kind are counted, the first raw texts kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What kind.
    pub kind: FindingKind,
    /// When it was seen first.
    pub at: Timestamp,
    /// What is wrong, in one sentence.
    pub message: SafeText,
    /// The raw text, cut to 4 KiB, sanitised; empty when there is none.
    pub raw: SafeText,
    /// The request it concerns (`tools/call echo`), when known.
    pub request: Option<SafeText>,
    /// How many occurrences it stands for, including itself: in a flood, repeats are only counted.
    #[serde(default = "one")]
    pub count: u64,
}

const fn one() -> u64 {
    1
}

impl Finding {
    /// Most bytes of raw text that are kept.
    pub const MAX_RAW_BYTES: usize = 4 << 10;

    /// A single finding without raw text.
    pub fn new(kind: FindingKind, at: Timestamp, message: impl AsRef<str>) -> Self {
        Self {
            kind,
            at,
            message: SafeText::line(message.as_ref()),
            raw: SafeText::default(),
            request: None,
            count: 1,
        }
    }

    /// Whether requests of the server were refused: too many, or not allowed.
    pub fn refuses_request(&self) -> bool {
        let asks = |method: &str| {
            matches!(method, "sampling/createMessage" | "elicitation/create" | "roots/list")
        };
        matches!(self.kind, FindingKind::Flood | FindingKind::NotAllowed)
            && self.request.as_deref().is_some_and(asks)
    }
}
