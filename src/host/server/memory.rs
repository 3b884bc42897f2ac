//! What is known of servers that start on demand while nothing of them runs.

use serde::{Deserialize, Serialize};

use crate::config::ServerConfig;
use crate::mcp::{Capabilities, SessionView};

/// What a server offered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definitions {
    /// What it said of itself.
    pub about: SessionView,
    /// Its lists.
    pub capabilities: Capabilities,
}

/// Keeps what servers offered while nothing of them runs.
pub trait Memory: Send + Sync + 'static {
    /// What a server of this entry offered last; may read a file.
    fn recall(&self, config: &ServerConfig) -> Option<Definitions>;

    /// Keeps what it offers; may write a file.
    fn keep(&self, config: &ServerConfig, definitions: &Definitions);
}
