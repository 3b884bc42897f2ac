//! What a server says of the progress of a call.

use serde::{Deserialize, Serialize};

use crate::base::text::SafeText;
use crate::mcp::CallId;

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
