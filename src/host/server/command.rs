//! Commands to the task that owns a server.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::lifecycle::LifecycleInput;
use base::SafeText;
use config::ServerConfig;
use config::error::Error;
use protocol::ListKind;

/// Commands to an actor. Boxed in its channel, which is made for every server that is enabled.
#[derive(Debug)]
pub enum Command {
    /// Start, stop or restart; answered when the lifecycle machine has processed it.
    Control(LifecycleInput, oneshot::Sender<()>),
    /// A changed configuration, with the reason to display; restarts, starts or stops the server
    /// accordingly.
    Reconfigure(Arc<ServerConfig>, SafeText, oneshot::Sender<()>),
    /// A configuration whose position in the file or whose settings changed without need for a
    /// restart; answered when it is in use.
    Moved(Arc<ServerConfig>, oneshot::Sender<()>),
    /// A request timed out on the session of this generation.
    TimedOut(u64, SafeText),
    /// A request could not reach the address of the session of this generation.
    Unreachable(u64, SafeText),
    /// A session that is not the server's own was told that a list changed.
    ListChanged(ListKind),
    /// Fetch the lists again; answered when they have arrived.
    Refresh(oneshot::Sender<Result<(), Error>>),
}

/// Capacity of an actor's command channel.
pub const COMMAND_CAPACITY: usize = 32;
