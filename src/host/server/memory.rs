//! Remembered definitions of servers that start on demand, for use while they do not run.

use serde::{Deserialize, Serialize};

use config::ServerConfig;
use protocol::{Capabilities, SessionView};

/// The definitions of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Definitions {
    /// Its session data, with name, version and capabilities.
    pub about: SessionView,
    /// Its lists.
    pub capabilities: Capabilities,
}

/// Stores the definitions of servers that start on demand.
pub trait Memory: Send + Sync + 'static {
    /// The last known definitions of the server of this entry; may block on a file.
    fn recall(&self, config: &ServerConfig) -> Option<Definitions>;

    /// Stores its definitions; may block on a file.
    fn keep(&self, config: &ServerConfig, definitions: &Definitions);
}
