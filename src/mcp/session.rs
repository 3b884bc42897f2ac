//! A session with one server: handshake, requests, notifications, over any transport.
//!
//! The contract between the wire (below) and the actor (above): the actor hands over an
//! [`Endpoint`] and a [`protocol::SessionContext`], gets a [`SessionHandle`] and reads
//! [`protocol::SessionEvent`]s.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::auth::Authorizer;
use base::LogLevel;
use config::error::Error;
use config::{HttpConfig, OpenApiConfig, ProtocolChoice};
use protocol::{Era, FetchedList, ListKind, Payload, PendingRequest, SessionView};

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
    Http(HttpEndpoint),
    /// HTTP+SSE of 2024-11-05.
    Sse(HttpEndpoint),
    /// WebSocket.
    WebSocket(HttpEndpoint),
    /// An HTTP API that an `OpenAPI` document describes, played as a server.
    OpenApi {
        /// Its document, and which of its operations are offered.
        api: Box<OpenApiConfig>,
        /// Where calls go.
        server: HttpEndpoint,
    },
}

/// A server at a URL, and the account that is used there.
#[derive(Clone)]
#[non_exhaustive]
pub struct HttpEndpoint {
    /// The address, with what the entry sends along.
    pub config: HttpConfig,
    /// Signs in where the server requires it; `None` when the entry signs in by its headers, or not
    /// at all.
    pub auth: Option<Arc<Authorizer>>,
}

impl HttpEndpoint {
    /// The server of `config`, with the account that signs in there.
    pub const fn new(config: HttpConfig, auth: Option<Arc<Authorizer>>) -> Self {
        Self { config, auth }
    }
}

impl From<HttpConfig> for HttpEndpoint {
    fn from(config: HttpConfig) -> Self {
        Self::new(config, None)
    }
}

impl Endpoint {
    /// Whether the entry authorises itself there, by headers or in the address.
    pub(crate) fn has_credentials(&self) -> bool {
        match self {
            Self::Pipe { .. } => false,
            Self::Http(http)
            | Self::Sse(http)
            | Self::WebSocket(http)
            | Self::OpenApi { server: http, .. } => {
                !http.config.headers.is_empty() || !http.config.url.username().is_empty()
            }
        }
    }

    /// Whether an account signs in there.
    pub(crate) const fn signs_in(&self) -> bool {
        match self {
            Self::Pipe { .. } => false,
            Self::Http(http)
            | Self::Sse(http)
            | Self::WebSocket(http)
            | Self::OpenApi { server: http, .. } => http.auth.is_some(),
        }
    }
}

pub use connect::{Connected, connect};

mod asked;
mod connect;
mod delivery;
mod list;
mod live;
mod mirrored;
mod request;
mod task;

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
