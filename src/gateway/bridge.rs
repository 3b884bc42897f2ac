//! Routes requests that servers make during a client's call (sampling, elicitation) to that client
//! if it can answer them, and otherwise to the operator.

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

use super::claims::take_claims;
use config::error::{Error, ErrorCode};
use host::{ApprovalRequest, CallOutcome, RequestHandler};
use protocol::{Answer, CallId, RequestKind};

/// Maximum number of calls parked for input from clients (2026-07-28).
const MAX_PARKED_CALLS: usize = 1_000;
/// How long a parked call waits for its client's input.
const INPUT_TIMEOUT: Duration = Duration::from_secs(600);

/// One request of a server, on its way to the client whose call caused it.
#[derive(Debug)]
pub(crate) struct BridgedRequest {
    pub request: Arc<ApprovalRequest>,
    /// Receives the answer; `None` if this client cannot answer.
    pub reply: oneshot::Sender<Option<Answer>>,
}

/// Forwards requests of servers to the client whose call caused them. Hosts are built with it as
/// their handler, so that it exists before the first request.
#[derive(Clone, Debug, Default)]
pub struct Bridge {
    calls: Arc<Mutex<HashMap<CallId, mpsc::Sender<BridgedRequest>>>>,
}

/// Receives the requests that servers make during one call; unregisters on drop.
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
    /// Starts receiving the requests that servers make during this call.
    pub(crate) fn open(&self, call: CallId) -> BridgeLine {
        let (sender, asks) = mpsc::channel(8);
        self.calls.lock().insert(call, sender);
        BridgeLine { bridge: self.clone(), call, asks }
    }

    /// The calls, all of one client, on whose streams a request can reach it; that of its own call
    /// first.
    fn lines(&self, request: &ApprovalRequest) -> Vec<mpsc::Sender<BridgedRequest>> {
        let Some(own) = request.call else { return Vec::new() };
        let others = request.candidates.iter().rev().filter(|call| **call != own);
        let calls = self.calls.lock();
        let lines = std::iter::once(&own).chain(others);
        lines.filter_map(|call| calls.get(call).cloned()).collect()
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
            // Only as an input of a call: otherwise it concerns the shared session, where the
            // operator's roots apply to all clients.
            RequestKind::Roots => request.deferred,
            _ => false,
        };
        let lines = if asked { self.lines(&request) } else { Vec::new() };
        Box::pin(async move {
            for line in lines {
                let (reply, answered) = oneshot::channel();
                if line.send(BridgedRequest { request: Arc::clone(&request), reply }).await.is_err()
                {
                    continue;
                }
                tokio::select! {
                    // Without an answer, that call ended: the question was that of another call.
                    answer = answered => if let Ok(answer) = answer { return answer },
                    () = withdrawn.cancelled() => return None,
                }
            }
            None
        })
    }
}

impl BridgedRequest {
    /// Its parameters, without what only this program may claim.
    pub fn params(&self) -> Value {
        let mut params = (*self.request.params).clone();
        take_claims(&mut params);
        params
    }
}

/// A call in flight for a client that cannot receive requests (2026-07-28): it stays in flight
/// while the client gathers the input.
pub(crate) struct Parked {
    /// Id of the client that owns it.
    pub client: Arc<str>,
    /// What the client called; its next request must call the same.
    pub target: String,
    pub line: BridgeLine,
    pub outcome: BoxFuture<'static, Result<CallOutcome, Error>>,
    pub is_detached: bool,
    pub cancel: CancellationToken,
    /// Pending requests, by their key in `inputRequests`.
    pub waiting: BTreeMap<String, BridgedRequest>,
    /// Number of inputs requested so far.
    pub asked: u32,
    /// Answers given so far, for a replica that has to restart the call.
    pub given: InputResponses,
}

impl Parked {
    /// Moves the call to a task of its own, so that it proceeds without being polled.
    pub fn detach(&mut self) {
        if std::mem::replace(&mut self.is_detached, true) {
            return;
        }
        let lost = |_| Error::new(ErrorCode::Internal, "the call was lost");
        let outcome = std::mem::replace(&mut self.outcome, Box::pin(std::future::pending()));
        let outcome = tokio::spawn(outcome);
        self.outcome = Box::pin(async move { outcome.await.unwrap_or_else(|e| Err(lost(e))) });
    }

    /// Adds a request that the client has to answer, unless `given` has a valid response.
    pub fn wait_for(&mut self, ask: BridgedRequest, given: &mut InputResponses) {
        self.asked += 1;
        let key = match &ask.request.input {
            Some(place) => place.key.to_string(),
            // Deterministic, so that keys match when another replica repeats the call.
            None => format!("input-{}", self.asked),
        };
        self.waiting.insert(key.clone(), ask);
        if let Some(response) = given.remove(&key) {
            self.respond(&key, response);
        }
    }

    /// Passes a client's response to the server. A response of the wrong shape is ignored, so that
    /// it is requested again.
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
        // No-op if the call has ended.
        self.cancel.cancel();
    }
}

/// Calls that wait for input, by the `requestState` of their client.
#[derive(Default)]
pub(crate) struct Parking {
    parked: Mutex<HashMap<String, (Instant, Parked)>>,
}

impl Parking {
    /// Parks a call; returns the `requestState` that fetches it, or `None` if too many are parked.
    pub fn park(&self, call: Parked) -> Option<String> {
        let state = base::file::random_hex::<32>().ok()?;
        let mut parked = self.parked.lock();
        if parked.len() >= MAX_PARKED_CALLS {
            return None;
        }
        parked.insert(state.clone(), (Instant::now(), call));
        Some(state)
    }

    /// Ends the calls whose clients have not come back in time.
    pub fn end_overdue(&self) {
        self.parked.lock().retain(|_, (since, _)| since.elapsed() < INPUT_TIMEOUT);
    }

    /// The `requestState` of each parked call.
    pub fn states(&self) -> Vec<String> {
        self.parked.lock().keys().cloned().collect()
    }

    /// Ends a parked call.
    pub fn forget(&self, state: &str) {
        self.parked.lock().remove(state);
    }

    /// Removes and returns a parked call, if client and target match.
    pub fn fetch(&self, state: &str, client: &str, target: &str) -> Option<Parked> {
        let mut parked = self.parked.lock();
        let (_, call) = parked.get(state)?;
        if &*call.client != client || call.target != target {
            return None;
        }
        parked.remove(state).map(|(_, call)| call)
    }
}
