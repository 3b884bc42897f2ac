//! When nothing more will happen to a server that is being started. Pure.

use crate::base::ServerName;
use crate::host::{HostView, ServerState};

/// Whether a server is ready, has failed for good, or waits for one that has.
///
/// `needs` gives the servers another depends on; they are free of circles (the configuration is
/// refused otherwise).
pub fn is_settled<'a>(
    view: &HostView,
    name: &ServerName,
    needs: &dyn Fn(&ServerName) -> Vec<&'a ServerName>,
) -> bool {
    let Some(server) = view.servers.get(name) else { return true };
    match server.state {
        ServerState::Starting => false,
        ServerState::Waiting => needs(name).into_iter().any(|other| {
            let is_ready = view.servers.get(other).is_some_and(|server| server.state.is_callable());
            !is_ready && is_settled(view, other, needs)
        }),
        ServerState::Unavailable => server.retry_at.is_none(),
        ServerState::Ready
        | ServerState::Disabled
        | ServerState::Shutdown
        | ServerState::Sleeping => true,
    }
}
