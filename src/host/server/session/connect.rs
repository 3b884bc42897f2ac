//! Opening a session: transport, handshake, and errors that say what was seen.

use std::sync::Arc;

use crate::host::server::session::{
    Attempt, ConnectError, Endpoint, SessionContext, SessionHandle,
};
use crate::host::view::SessionView;
use crate::host::{Error, ErrorCode};

/// A session that is open.
#[derive(Clone)]
pub struct Connected {
    /// What requests are made through.
    pub session: Arc<dyn SessionHandle>,
    /// What the handshake gave.
    pub view: Arc<SessionView>,
}

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connected").field("view", &self.view).finish_non_exhaustive()
    }
}

/// Opens a session: connects, shakes hands, gives the handle.
///
/// Has no deadline of its own: drop the future when patience ends, and nothing is left running;
/// [`SessionContext::seen`] says what had arrived by then.
///
/// # Errors
/// [`ErrorCode::ServerStartup`] with what was seen and what was not.
pub async fn connect(
    endpoint: Endpoint,
    attempt: &Attempt,
    context: SessionContext,
) -> Result<Connected, ConnectError> {
    let _ = (endpoint, attempt);
    context.seen.open();
    Err(ConnectError {
        error: Error::new(ErrorCode::ServerStartup, "not built yet").server(&context.server),
        retryable: false,
        unauthorized: false,
    })
}
