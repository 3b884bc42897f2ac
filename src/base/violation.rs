//! A violation of a schema or of a rule about values.

use serde::{Deserialize, Serialize};

use crate::pointer;

/// One violation in a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Violation {
    /// JSON pointer of the offending value; empty for the root.
    pub pointer: String,
    /// What is wrong and what was expected.
    pub message: String,
    /// The violated keyword, for example `type` or `required`.
    pub keyword: String,
}

impl Violation {
    /// The pointer as displayed: `/` for the root.
    pub const fn place(&self) -> &str {
        pointer::place(self.pointer.as_str())
    }
}
