//! What servers ask during a client's call (sampling, elicitation) goes to that client when it can
//! answer; otherwise to the operator.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use rmcp::model::InputResponses;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, ErrorCode};
use crate::host::{ApprovalRequest, CallOutcome, RequestHandler};
use crate::mcp::{Answer, CallId, RequestKind};

/// Most calls that wait for the input of a modern client.
const PARKED: usize = 1_000;
/// How long such a call waits for its client to come back.
const PATIENCE: Duration = Duration::from_secs(600);

/// One request of a server, on its way to the client whose call caused it.
#[derive(Debug)]
pub(crate) struct BridgedRequest {
    pub request: Arc<ApprovalRequest>,
    /// Where the answer goes; `None` says that this client cannot answer.
    pub reply: oneshot::Sender<Option<Answer>>,
}

/// Brings requests of servers to the client whose call caused them. The handler a host is built
/// with, so that it is there before the first request.
#[derive(Clone, Debug, Default)]
pub struct Bridge {
    calls: Arc<Mutex<HashMap<CallId, mpsc::Sender<BridgedRequest>>>>,
}

/// A call whose requests come here while this lives.
#[derive(Debug)]
pub(crate) struct BridgeLine {
    bridge: Bridge,
    pub call: CallId,
    pub asks: mpsc::Receiver<BridgedRequest>,
}

impl Drop for BridgeLine {
    fn drop(&mut self) {
        self.bridge.calls.lock().remove(&self.call);
    }
}

impl Bridge {
    /// From now on what servers ask during this call is received here.
    pub(crate) fn open(&self, call: CallId) -> BridgeLine {
        let (sender, asks) = mpsc::channel(8);
        self.calls.lock().insert(call, sender);
        BridgeLine { bridge: self.clone(), call, asks }
    }
}

impl RequestHandler for Bridge {
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        withdrawn: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let asked = match request.kind {
            RequestKind::Sampling | RequestKind::Elicitation | RequestKind::UrlElicitation => true,
            // An input of one call. As a request of its own it is about the session, which is shared:
            // the operator's roots are those of all clients.
            RequestKind::Roots => request.deferred,
            _ => false,
        };
        let line =
            request.call.filter(|_| asked).and_then(|call| self.calls.lock().get(&call).cloned());
        Box::pin(async move {
            let line = line?;
            let (reply, answered) = oneshot::channel();
            line.send(BridgedRequest { request, reply }).await.ok()?;
            tokio::select! {
                answer = answered => answer.ok().flatten(),
                () = withdrawn.cancelled() => None,
            }
        })
    }
}

/// A call in flight for a client that cannot be asked while its request is open (2026-07-28): it
/// goes on while the client fetches the input.
pub(crate) struct Parked {
    /// Whose it is.
    pub client: Arc<str>,
    /// What the client called; its next request must call the same.
    pub target: String,
    pub line: BridgeLine,
    pub outcome: BoxFuture<'static, Result<CallOutcome, Error>>,
    pub is_detached: bool,
    pub cancel: CancellationToken,
    /// What it waits for, by the key in `inputRequests`.
    pub waiting: BTreeMap<String, BridgedRequest>,
    /// What it has waited for.
    pub asked: u32,
    /// What its client has answered, for a replica that has to begin it anew.
    pub given: InputResponses,
}

impl Parked {
    /// From now on it goes on while nobody waits for its outcome.
    pub fn detach(&mut self) {
        if std::mem::replace(&mut self.is_detached, true) {
            return;
        }
        let lost = |_| Error::new(ErrorCode::Internal, "the call was lost");
        let outcome = std::mem::replace(&mut self.outcome, Box::pin(std::future::pending()));
        let outcome = tokio::spawn(outcome);
        self.outcome = Box::pin(async move { outcome.await.unwrap_or_else(|e| Err(lost(e))) });
    }

    /// Waits for the client's response to what a server asks, unless a fitting one is `given`.
    pub fn wait_for(&mut self, ask: BridgedRequest, given: &mut InputResponses) {
        self.asked += 1;
        let key = match &ask.request.input {
            Some(place) => place.key.to_string(),
            // The same wherever the call is made.
            None => format!("input-{}", self.asked),
        };
        self.waiting.insert(key.clone(), ask);
        if let Some(response) = given.remove(&key) {
            self.respond(&key, response);
        }
    }

    /// Hands over a client's response. One that does not have the shape of what was asked for is left
    /// out, so that it is asked for again.
    pub fn respond(&mut self, key: &str, response: Value) {
        let fits = |ask: &BridgedRequest| match ask.request.kind {
            RequestKind::Sampling => response.get("content").is_some(),
            RequestKind::Roots => response["roots"].is_array(),
            _ => response["action"].is_string(),
        };
        if self.waiting.get(key).is_some_and(fits)
            && let Some(ask) = self.waiting.remove(key)
        {
            self.given.insert(key.to_owned(), response.clone());
            let _ = ask.reply.send(Some(Answer::Result(response)));
        }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        // Nothing, when it has ended; one that is gone on with was taken out of here before.
        self.cancel.cancel();
    }
}

/// Calls that wait for their client, by the state it holds.
#[derive(Default)]
pub(crate) struct Parking {
    parked: Mutex<HashMap<String, (Instant, Parked)>>,
}

impl Parking {
    /// Puts a call aside; gives the `requestState` that fetches it, or nothing when too many wait.
    pub fn park(&self, call: Parked) -> Option<String> {
        let state = crate::base::file::random_hex::<32>().ok()?;
        let mut parked = self.parked.lock();
        parked.retain(|_, (since, _)| since.elapsed() < PATIENCE);
        if parked.len() >= PARKED {
            return None;
        }
        parked.insert(state.clone(), (Instant::now(), call));
        Some(state)
    }

    /// The states of all calls that wait.
    pub fn states(&self) -> Vec<String> {
        self.parked.lock().keys().cloned().collect()
    }

    /// Ends a call that nobody will fetch.
    pub fn forget(&self, state: &str) {
        self.parked.lock().remove(state);
    }

    /// Takes a call back for the client it belongs to.
    pub fn fetch(&self, state: &str, client: &str, target: &str) -> Option<Parked> {
        let mut parked = self.parked.lock();
        let (since, call) = parked.get(state)?;
        if &*call.client != client || call.target != target || since.elapsed() >= PATIENCE {
            return None;
        }
        parked.remove(state).map(|(_, call)| call)
    }
}
