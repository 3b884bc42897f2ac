//! What a server did against the protocol, attributed and with the raw text (design, raw tap).

use serde::{Deserialize, Serialize};

use crate::base::Timestamp;
use crate::base::text::SafeText;

/// The kind of a protocol finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FindingKind {
    /// A line on stdout that is no JSON-RPC at all: a banner, a log line.
    Junk,
    /// JSON, or nearly, but no valid JSON-RPC message.
    Malformed,
    /// Longer, deeper or larger than the limits allow.
    TooLarge,
    /// An answer to an id that was never asked.
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
    /// A request after the session was closed: nobody can answer it any more.
    AskedAfterClose,
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
    /// The raw text, cut to 4 KiB, made safe; empty when there is none.
    pub raw: SafeText,
    /// The request it concerns (`tools/call echo`), when known.
    pub request: Option<SafeText>,
    /// How many this stands for, itself included: under a flood the repeats are only counted.
    #[serde(default = "one")]
    pub count: u64,
}

const fn one() -> u64 {
    1
}

impl Finding {
    /// Most bytes of raw text that are kept.
    pub const RAW: usize = 4 << 10;

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

    /// Whether requests of the server were refused: too many, or asked out of turn.
    pub fn refuses_request(&self) -> bool {
        let asks = |method: &str| {
            matches!(method, "sampling/createMessage" | "elicitation/create" | "roots/list")
        };
        matches!(self.kind, FindingKind::Flood | FindingKind::NotAllowed)
            && self.request.as_deref().is_some_and(asks)
    }
}
