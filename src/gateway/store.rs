//! The state that replicas of a service share, and the trait of the store that holds it. The
//! service depends only on this trait.

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

use deck::ChatStore;
use host::SharedLimits;

#[cfg(feature = "cluster")]
pub use valkey::Valkey;

/// Interval between exchanges with the store.
pub(super) const EXCHANGE_INTERVAL: Duration = Duration::from_millis(250);

/// A parked call, as encoded in its `requestState` for any replica.
#[derive(Debug, Serialize, Deserialize)]
pub struct ParkedCall {
    /// Its id at the replica where it is parked.
    pub call: String,
    /// The client's answers so far.
    pub given: InputResponses,
}

/// A task of a client, as the replicas share it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SharedTask {
    /// Id of the client that owns it.
    pub client: String,
    /// Its state as `tasks/get` answers it, as JSON text.
    pub state: String,
    /// Whether it is over: no replica runs it any more.
    pub is_over: bool,
}

/// Events with their ids, oldest first; `None` when their stream has expired.
pub type KeptEvents = Option<Vec<(String, String)>>;

/// A store shared by the replicas of a service: legacy sessions with their sent events, limits,
/// model conversations, the keys of `requestState`, and the files of tokens, grants and reviewed
/// definitions.
#[async_trait::async_trait]
pub trait SharedStore: SessionStore + SharedLimits + ChatStore {
    /// Why it cannot be used now, for the operator. Decisions must not rely on its data then.
    fn away(&self) -> watch::Receiver<Option<Arc<str>>>;

    /// The id of the token that a session belongs to.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn owner(&self, session: &str) -> Result<Option<String>, String>;

    /// Records the owner of a session.
    async fn set_owner(&self, session: &str, client: &str);

    /// Appends an event to a client's stream and keeps the whole stream for `keep`; returns the id
    /// from which the client can resume.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn append(&self, stream: &str, event: String, keep: Duration) -> Result<String, String>;

    /// The events of the same stream after the given one.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn events_after(&self, id: &str) -> Result<KeptEvents, String>;

    /// Encodes a call as a `requestState` that is valid only in this context.
    fn seal(&self, waiting: &ParkedCall, context: &str) -> Option<String>;

    /// Decodes a `requestState`, if a replica sealed it for this context.
    fn open(&self, state: &str, context: &str) -> Option<ParkedCall>;

    /// Claims a parked call in order to resume it; false if it was already claimed.
    async fn take(&self, call: &str) -> bool;

    /// Keeps the state of a task for so long. One that is not over is taken to be run by this replica,
    /// for as long as [`SharedStore::exchange_tasks`] names it now and then.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn keep_task(&self, id: &str, task: &SharedTask, keep: Duration) -> Result<(), String>;

    /// A task, and whether a replica still runs it; `None` when there is none of this id.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn task(&self, id: &str) -> Result<Option<(SharedTask, bool)>, String>;

    /// Leaves a message for the replica that runs a task; returns once that has taken it, or after a
    /// while.
    ///
    /// # Errors
    /// When the store cannot be reached.
    async fn tell_task(&self, id: &str, message: String) -> Result<(), String>;

    /// Says that these tasks run here; returns the messages that were left for them, each with its
    /// task.
    async fn exchange_tasks(&self, running: Vec<String>) -> Vec<(String, String)>;

    /// Exchanges changes, and renews these sessions and the leases of calls in flight. Returns the
    /// parked calls in `waiting` that have been claimed.
    async fn exchange(&self, sessions: Vec<String>, waiting: Vec<String>) -> Vec<String>;
}
