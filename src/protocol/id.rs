//! Identifiers the engine hands out. Unique within one host, never reused.

use std::fmt;
use std::sync::Arc;

use base::text::SafePart;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}", self.0)
            }
        }

        impl SafePart for $name {}
    };
}

id!(
    /// One operation of a caller: a tool call, a prompt, a resource read, a completion. An
    /// operation may take several round trips on the wire.
    CallId
);
id!(
    /// One request of a server that waits for the user or a callback.
    ApprovalId
);

/// The id of a request on the wire, as its sender chose it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum RequestId {
    /// A whole number.
    Number(i64),
    /// A string.
    String(Arc<str>),
}
