//! What the replicas of a service share, and what a store of it must be able to do. The service
//! knows this trait alone.

#[cfg(feature = "cluster")]
mod merge;
#[cfg(feature = "cluster")]
mod valkey;

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::InputResponses;
use rmcp::transport::streamable_http_server::session::SessionStore;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::deck::ChatStore;
use crate::host::SharedLimits;

#[cfg(feature = "cluster")]
pub use valkey::Valkey;

/// From one exchange with the store to the next.
pub(super) const EXCHANGE: Duration = Duration::from_millis(250);

/// A call that waits for its client, as its `requestState` describes it to any replica.
#[derive(Debug, Serialize, Deserialize)]
pub struct ParkedCall {
    /// Names it at the replica where it waits.
    pub call: String,
    /// What its client has answered so far.
    pub given: InputResponses,
}

/// Events with their ids, oldest first; nothing when nothing is kept of their stream any more.
pub type KeptEvents = Option<Vec<(String, String)>>;

/// What the replicas of a service share: legacy sessions with what was sent to their clients, limits,
/// conversations with a model, the keys of `requestState`, and the files of tokens, grants and
/// reviewed definitions.
#[async_trait::async_trait]
pub trait SharedStore: SessionStore + SharedLimits + ChatStore {
    /// Why it cannot be used now, for the operator; nothing that decides is to be believed then.
    fn away(&self) -> watch::Receiver<Option<Arc<str>>>;

    /// The id of the token that a session belongs to.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn owner(&self, session: &str) -> Result<Option<String>, String>;

    /// Remembers whose a session is.
    async fn own(&self, session: &str, client: &str);

    /// Keeps what was sent to a client, and what was sent on the same stream before, for so long;
    /// gives the id after which it may want what follows.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn append(&self, stream: &str, event: String, keep: Duration) -> Result<String, String>;

    /// What was sent on the same stream after an event.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn events_after(&self, id: &str) -> Result<KeptEvents, String>;

    /// A call as a `requestState` that is good for this context alone.
    fn seal(&self, waiting: &ParkedCall, context: &str) -> Option<String>;

    /// What a `requestState` holds, when a replica sealed it for this context.
    fn open(&self, state: &str, context: &str) -> Option<ParkedCall>;

    /// Takes a call that waits, to go on with it; false when somebody has done so before.
    async fn take(&self, call: &str) -> bool;

    /// Takes over what has changed, and keeps these sessions and all calls under way alive. Gives
    /// those of the calls that wait here which another replica has taken.
    async fn exchange(&self, sessions: Vec<String>, waiting: Vec<String>) -> Vec<String>;
}
