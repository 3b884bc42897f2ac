//! Sessions of the protocol up to 2025-11-25 among replicas. What is sent to their clients is kept in
//! the store too, so that a client that comes back goes on after the last event it got, whichever
//! replica it meets (basic/transports, "Resumability and Redelivery").

use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt as _};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_server::session::local::{
    LocalSessionManager, LocalSessionManagerError,
};
use rmcp::transport::streamable_http_server::session::{
    EventId, EventStore, EventStoreError, EventStream, RestoreOutcome, ServerSseMessage, SessionId,
    SessionManager,
};
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::raw::Raws;
use super::store::Shared;

/// From one look for later events to the next.
const LOOK: Duration = Duration::from_millis(500);
/// How long events wait for their client while others may follow.
const OPEN: Duration = Duration::from_secs(600);
/// How long an answer waits for its client, and what was sent before it.
const ANSWERED: Duration = Duration::from_secs(60);
/// Largest event that is kept, in bytes; the call of a larger one is made again by its client.
const LARGEST: usize = 4 << 20;

/// An event as it is kept.
#[derive(Default, Serialize, Deserialize)]
struct Kept {
    message: Option<ServerJsonRpcMessage>,
    /// The result that stands in place of the message's own, and its placeholder.
    raw: Option<(String, String)>,
    /// When to come back, in milliseconds.
    retry: Option<u64>,
}

/// The events of all sessions.
#[derive(Clone)]
struct Events {
    store: Arc<dyn Shared>,
    raws: Arc<Raws>,
}

/// Sessions here. Only they are resumed: a newer client's call ends with its connection.
#[derive(Default)]
pub(crate) struct Sessions {
    local: LocalSessionManager,
    is_shared: bool,
}

impl Sessions {
    pub fn new(store: Option<Arc<dyn Shared>>, raws: &Arc<Raws>) -> Self {
        let Some(store) = store else { return Self::default() };
        let events = Arc::new(Events { store, raws: Arc::clone(raws) });
        Self { local: LocalSessionManager::default().with_event_store(events), is_shared: true }
    }
}

impl std::ops::Deref for Sessions {
    type Target = LocalSessionManager;

    fn deref(&self) -> &LocalSessionManager {
        &self.local
    }
}

impl Events {
    fn kept(&self, event: &ServerSseMessage) -> Option<String> {
        let message = event.message.as_deref();
        let raw = message.and_then(|message| self.raws.of(&serde_json::to_vec(message).ok()?));
        let kept = Kept {
            message: message.cloned(),
            raw: raw.map(|(token, text)| (token, text.to_string())),
            retry: event.retry.map(|retry| retry.as_millis() as u64),
        };
        serde_json::to_string(&kept).ok()
    }

    fn sent(&self, id: String, kept: &str) -> ServerSseMessage {
        let kept: Kept = serde_json::from_str(kept).unwrap_or_default();
        if let Some((token, text)) = kept.raw {
            self.raws.put(token, text);
        }
        let mut event = ServerSseMessage::default();
        event.event_id = Some(id);
        event.message = kept.message.map(Arc::new);
        event.retry = kept.retry.map(Duration::from_millis);
        event
    }
}

/// Whether a request is answered with it, which ends its stream.
fn is_answer(event: &ServerSseMessage) -> bool {
    let message = event.message.as_deref();
    matches!(message, Some(ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)))
}

#[async_trait::async_trait]
impl EventStore for Events {
    /// Never fails: an event that cannot be kept is sent all the same.
    async fn store_event(
        &self,
        stream: &str,
        event: &ServerSseMessage,
    ) -> Result<EventId, EventStoreError> {
        let kept = self.kept(event).filter(|kept| kept.len() <= LARGEST).unwrap_or_default();
        let keep = if is_answer(event) { ANSWERED } else { OPEN };
        Ok(self.store.append(stream, kept, keep).await.unwrap_or_else(|error| {
            tracing::warn!(target: "mcpdeck::gateway", "an event is not shared: {error}");
            format!("{stream}/0-0")
        }))
    }

    /// Goes on until the answer is there, which is the end of the stream of a request, or nothing is
    /// kept of the stream any more.
    async fn replay_events_after(&self, last: &str) -> Result<EventStream, EventStoreError> {
        let (me, mut last) = (self.clone(), last.to_owned());
        let (sender, mut events) = mpsc::channel(16);
        tokio::spawn(async move {
            while let Ok(Some(found)) = me.store.events_after(&last).await {
                for (id, kept) in found {
                    last.clone_from(&id);
                    let event = me.sent(id, &kept);
                    // One that was too large to keep may have been the answer.
                    let is_last = kept.is_empty() || is_answer(&event);
                    if sender.send(event).await.is_err() || is_last {
                        return;
                    }
                }
                tokio::select! {
                    () = sender.closed() => return,
                    () = tokio::time::sleep(LOOK) => {}
                }
            }
        });
        Ok(Box::pin(futures::stream::poll_fn(move |cx| events.poll_recv(cx))))
    }
}

impl SessionManager for Sessions {
    type Error = LocalSessionManagerError;
    type Transport = <LocalSessionManager as SessionManager>::Transport;

    async fn create_session(&self) -> Result<(SessionId, Self::Transport), Self::Error> {
        self.local.create_session().await
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Self::Error> {
        self.local.initialize_session(id, message).await
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Self::Error> {
        self.local.has_session(id).await
    }

    async fn close_session(&self, id: &SessionId) -> Result<(), Self::Error> {
        self.local.close_session(id).await
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.create_stream(id, message).await
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Self::Error> {
        self.local.accept_message(id, message).await
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        self.local.create_standalone_stream(id).await
    }

    async fn resume(
        &self,
        id: &SessionId,
        last: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Self::Error> {
        // The first id of a stream on which nothing was sent yet is none of the store.
        if self.is_shared && !last.contains('/') {
            return Ok(self.local.create_standalone_stream(id).await?.left_stream());
        }
        Ok(self.local.resume(id, last).await?.right_stream())
    }

    async fn restore_session(
        &self,
        id: SessionId,
    ) -> Result<RestoreOutcome<Self::Transport>, Self::Error> {
        self.local.restore_session(id).await
    }
}
