//! What may be asked of the task that owns a server.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::lifecycle::LifecycleInput;
use crate::base::SafeText;
use crate::config::ServerConfig;
use crate::error::Error;

/// What may be asked of an actor.
#[derive(Debug)]
pub enum Command {
    /// Start, stop or restart; answered when the machine has taken it.
    Control(LifecycleInput, oneshot::Sender<()>),
    /// Another configuration, and what to say of it; restarts, starts or stops the server
    /// accordingly.
    Reconfigure(Arc<ServerConfig>, SafeText, oneshot::Sender<()>),
    /// The same configuration at another place of its file, or with other settings that need no
    /// restart; answered when it is in place.
    Moved(Arc<ServerConfig>, oneshot::Sender<()>),
    /// A request timed out on the session of this generation.
    TimedOut(u64, SafeText),
    /// A request found nobody at the address of the session of this generation.
    Unreachable(u64, SafeText),
    /// Fetch the lists again; answered when they are there.
    Refresh(oneshot::Sender<Result<(), Error>>),
}

/// Commands that may wait for one actor.
pub const COMMANDS: usize = 32;
