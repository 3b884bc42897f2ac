//! A session with one server: handshake, requests, notifications, over any transport.
//!
//! The contract between the wire (below) and the actor (above): the actor hands over an
//! [`Endpoint`] and a [`SessionContext`], gets a [`SessionHandle`] and reads [`SessionEvent`]s.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{broadcast, mpsc};
use tokio_util::sync::CancellationToken;

use crate::auth::Authorizer;
use crate::capabilities::{ListKind, RejectedEntry};
use crate::pending::{ByteCount, PendingRequest};
use crate::traffic::TrafficRecord;
use crate::{
    Answer, CallId, Claim, Era, Finding, InputPlace, Notice, Payload, RequestKind, SessionView,
};
use base::{Clock, LogLevel, LogRecord, Redactor, Ring, SafeText, ServerName};
use config::error::Error;
use config::{HttpConfig, OutsideCalls, ProtocolChoice, WireLimits};

/// Where the bytes come from and go to.
#[non_exhaustive]
pub enum Endpoint {
    /// stdin and stdout of a child, or an in-memory pipe in tests.
    Pipe {
        /// The server's output.
        read: Box<dyn AsyncRead + Send + Unpin>,
        /// The server's input.
        write: Box<dyn AsyncWrite + Send + Unpin>,
    },
    /// Streamable HTTP.
    Http(HttpConfig),
    /// HTTP+SSE of 2024-11-05.
    Sse(HttpConfig),
    /// WebSocket.
    WebSocket(HttpConfig),
}

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
    /// Signs in where the server requires it.
    pub auth: Option<Arc<Authorizer>>,
    /// Counts every byte of every message, both ways; written by the session.
    pub bytes: Arc<ByteCount>,
    /// What arrived so far; written by the session. [`ReceivedSoFar::describe`] describes it for an
    /// owner that gives up on [`connect`].
    pub seen: Arc<ReceivedSoFar>,
}

pub use connect::{Arrivals, Connected, ReceivedSoFar, connect};

mod connect;
mod list;
mod live;
pub mod message;
mod request;
mod task;

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

/// Which era to try; the owner decides the order and remembers what worked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// `initialize` with this version (`None`: the newest that has it).
    Legacy(Option<String>),
    /// `server/discover`.
    Modern,
    /// `server/discover`; a JSON-RPC error to it means a legacy server and is followed by
    /// `initialize` on the same connection.
    Auto,
}

/// Attempts to make for a configured choice, in order. After a failed attempt that is not about
/// authorisation the endpoint must be reopened: servers may lock to an era. The second attempt is
/// for servers that crash on an unknown method, or that misreported their era before.
pub fn attempts(choice: &ProtocolChoice, remembered: Option<Era>) -> Vec<Attempt> {
    match (choice, remembered) {
        (ProtocolChoice::Legacy, _) => vec![Attempt::Legacy(None)],
        (ProtocolChoice::Modern, _) => vec![Attempt::Modern],
        (ProtocolChoice::Version(v), _) if v.as_str() >= "2026-07-28" => vec![Attempt::Modern],
        (ProtocolChoice::Version(v), _) => vec![Attempt::Legacy(Some(v.clone()))],
        (ProtocolChoice::Auto, Some(Era::Legacy)) => vec![Attempt::Legacy(None), Attempt::Auto],
        (ProtocolChoice::Auto, _) => vec![Attempt::Auto, Attempt::Legacy(None)],
    }
}

/// Why a handshake failed.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectError {
    /// What happened, including what had arrived.
    pub error: Error,
    /// Whether another attempt (same or other era) can help.
    pub retryable: bool,
    /// Whether the server requires authorisation (HTTP 401).
    pub unauthorized: bool,
    /// Whether the server closed the connection, rather than the host giving up: only then is its
    /// exit the cause.
    pub closed: bool,
}

/// A request of the host to the server.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// `tools/call`
    CallTool {
        /// Tool as the server spells it.
        name: Arc<str>,
        /// Its arguments.
        arguments: Arc<Value>,
    },
    /// `tools/call` of a tool that only runs as a task (MCP 2025-11-25, tasks)
    RunTask {
        /// Tool as the server spells it.
        name: Arc<str>,
        /// Its arguments.
        arguments: Arc<Value>,
    },
    /// `prompts/get`
    GetPrompt {
        /// Prompt as the server spells it.
        name: Arc<str>,
        /// Its arguments: an object of strings.
        arguments: Arc<Value>,
    },
    /// `resources/read`
    ReadResource {
        /// URI.
        uri: Arc<str>,
    },
    /// `completion/complete`
    Complete {
        /// `params` as the specification has them.
        params: Value,
    },
    /// `resources/subscribe` (or its modern counterpart)
    Subscribe {
        /// URI.
        uri: Arc<str>,
    },
    /// `resources/unsubscribe` (or its modern counterpart)
    Unsubscribe {
        /// URI.
        uri: Arc<str>,
    },
    /// `logging/setLevel` (or its modern counterpart)
    SetLogLevel(LogLevel),
    /// Any request, as it is
    Raw {
        /// Its method.
        method: Arc<str>,
        /// `params`, an object.
        params: Option<Value>,
    },
}

/// A fetched list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FetchedList {
    /// Entries as sent, pages joined.
    pub entries: Vec<Arc<Value>>,
    /// Entries that are not objects, or that could not be called.
    pub rejected: Vec<RejectedEntry>,
    /// Why it is incomplete, when it is.
    pub partial: Option<SafeText>,
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

/// A connected session. Cheap to clone; all clones speak to the same server.
pub trait SessionHandle: Send + Sync + 'static {
    /// What was negotiated.
    fn view(&self) -> Arc<SessionView>;
    /// Sends a request and returns the raw result. Handles progress, cancellation, the deadline,
    /// `input_required` rounds, and stopping the clock while waiting for the user.
    fn request(
        &self,
        request: Request,
        pending: Arc<PendingRequest>,
    ) -> BoxFuture<'static, Result<Payload, Error>>;
    /// Fetches a whole list, within the page and entry limits.
    fn list(&self, kind: ListKind) -> BoxFuture<'static, Result<FetchedList, Error>>;
    /// Notifies the server that the roots changed.
    fn roots_changed(&self) -> BoxFuture<'static, ()>;
    /// Ends the session: no new requests; running ones fail with `reason`. What the server has asked
    /// is answered. Closes the write half, which is what asks a stdio server to exit.
    fn close(&self, reason: Error) -> BoxFuture<'static, ()>;
    /// Completes when the server asks something after the session was closed: it waits for an
    /// answer that can no longer come.
    fn asked_too_late(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}
