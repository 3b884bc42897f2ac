//! What the tap of a session needs from its owner, and what it reports: the contract between the
//! protocol (here) and the owner of a session (above).

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::capabilities::ListKind;
use crate::id::CallId;
use crate::notice::{Answer, InputPlace, Notice, RequestKind};
use crate::pending::{ByteCount, Claim};
use crate::received::ReceivedSoFar;
use crate::tasks::ServerTasks;
use crate::traffic::{Finding, TrafficRecord};
use base::{Clock, LogLevel, LogRecord, Redactor, Ring, SafeText, ServerName};
use config::{OutsideCalls, WireLimits};

/// What a session needs from its owner.
#[derive(Clone)]
pub struct SessionContext {
    /// The server.
    pub server: ServerName,
    /// Limits on what it may send.
    pub limits: WireLimits,
    /// Log level to request from the server, when configured.
    pub log_level: Option<LogLevel>,
    /// The clock.
    pub clock: Clock,
    /// Masks secrets in everything that is kept.
    pub redactor: Redactor,
    /// All servers' traffic.
    pub traffic: Ring<TrafficRecord>,
    /// This server's newest traffic, kept through restarts (the black box).
    pub black_box: Ring<TrafficRecord>,
    /// All servers' logs.
    pub logs: Ring<LogRecord>,
    /// Notifications of the server. Overflow policy: slow readers miss the oldest.
    pub notices: broadcast::Sender<Notice>,
    /// What the owner must know. Overflow policy: events that the channel cannot take are coalesced
    /// by kind, and repeated findings are counted, so that memory is bounded and answers never wait
    /// behind events.
    pub events: mpsc::Sender<SessionEvent>,
    /// Answers the server's requests.
    pub approvals: Arc<dyn Responder>,
    /// Counts every byte of every message, both ways; written by the session.
    pub bytes: Arc<ByteCount>,
    /// The tasks of the server; written by the session.
    pub tasks: Arc<ServerTasks>,
    /// What arrived so far; written by the session. [`ReceivedSoFar::describe`] describes it for an
    /// owner that gives up on opening the session.
    pub seen: Arc<ReceivedSoFar>,
}

/// What a session reports to its owner.
#[derive(Clone, Debug, PartialEq)]
pub enum SessionEvent {
    /// The first byte arrived.
    FirstByte,
    /// A protocol violation.
    Finding(Finding),
    /// A list changed.
    ListChanged(ListKind),
    /// A subscribed resource changed.
    ResourceUpdated(Arc<str>),
    /// The server had lost the session (it was restarted), and a new one was opened in its place:
    /// subscriptions and the log level must be sent again, and its lists may differ.
    Renewed,
    /// The connection ended by itself (end of file, transport error).
    Closed(SafeText),
}

/// Answers requests of servers; implemented by the approval queue of the host.
pub trait Responder: Send + Sync + 'static {
    /// Answers one request. Drop the future to withdraw the request.
    ///
    /// `deferred` is set for `input_required` results (2026-07-28), where nothing is open on the
    /// wire while the user decides.
    fn ask(&self, request: ServerRequest) -> BoxFuture<'static, Answer>;

    /// What happens to sampling and elicitation requests of a server without a call in progress.
    /// Called for every such request, so it must not block.
    fn outside_calls(&self, server: &ServerName) -> OutsideCalls;
}

/// A request of a server as the session hands it to the approval queue.
#[derive(Clone, Debug)]
pub struct ServerRequest {
    /// The server that asks.
    pub server: ServerName,
    /// The kind of request.
    pub kind: RequestKind,
    /// The call during which it was made, if known; one of them, when all calls in flight are those
    /// of one caller.
    pub call: Option<CallId>,
    /// All calls in flight, when the protocol does not say during which one it was made.
    pub candidates: Vec<CallId>,
    /// `params` as sent.
    pub params: Arc<Value>,
    /// Size of the parameters in bytes.
    pub bytes: usize,
    /// Whether it came as `input_required`.
    pub deferred: bool,
    /// If so, which input of its result it is.
    pub input: Option<InputPlace>,
    /// Fires when the server cancels the request or the session ends; `claim` has the reason.
    pub withdrawn: CancellationToken,
    /// Whether it was answered or withdrawn first.
    pub claim: Arc<Claim>,
}

impl ServerRequest {
    /// Whether it may belong to any of several callers.
    pub fn is_of_several(&self) -> bool {
        self.call.is_none() && !self.candidates.is_empty()
    }
}
