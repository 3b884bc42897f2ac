//! How messages travel: the seam between the session and what carries its bytes.
//!
//! A session passes every message to a [`Transport`] and receives everything that arrives through
//! the [tap](super::wire::tap), whatever the transport. HTTP+SSE and WebSocket are adapted to a
//! pair of streams, a [`pipe`]. To add another:
//! - define a type that holds an `Arc<Tap>` and implements [`Transport`];
//! - pass every message that arrives to [`Tap::line`](super::wire::tap::Tap::line) as text without
//!   a line break, in order of arrival, and the number of bytes read to
//!   [`Tap::arrived`](super::wire::tap::Tap::arrived);
//! - account for unsolicited bytes with [`unasked::Unasked`], and pause as long as it says;
//! - when the connection ends, report it with [`Tap::ended`](super::wire::tap::Tap::ended);
//! - open it in [`session::connect`](super::session::connect).
//!
//! Reading belongs in a task that the transport owns and that ends when it is dropped. Nothing here
//! knows of requests, deadlines or eras; the session knows nothing of sockets.

use std::borrow::Cow;
use std::sync::Arc;

#[cfg(feature = "http")]
use base::SafeText;
use futures::future::BoxFuture;

#[cfg(feature = "http")]
use crate::wire::tap::Tap;

#[cfg(feature = "http")]
pub(crate) mod coding;
#[cfg(feature = "http")]
pub(crate) mod events;
#[cfg(feature = "http")]
pub mod http;
pub mod pipe;
#[cfg(feature = "http")]
pub mod remote;
#[cfg(feature = "http")]
pub(crate) mod sse;
pub mod unasked;
#[cfg(feature = "http")]
pub(crate) mod websocket;

/// Carries messages to one server.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request, or another message whose delivery matters. The message takes its place in
    /// the order at once; the future completes when it is delivered to the server, or, where the
    /// answer comes in the response (HTTP), when that was read to its end. Dropping the future
    /// stops waiting; a message is never left half written.
    fn send(self: Arc<Self>, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>>;

    /// Queues a message without waiting for delivery: an answer or a notification. Bounded: a
    /// server that requests more than it reads gets [`SendError::Unread`] and is cut off.
    ///
    /// # Errors
    /// Why it will not be sent.
    fn queue(&self, message: Vec<u8>) -> Result<(), SendError>;

    /// Whether a new request need not wait for [`Transport::ready`].
    fn is_ready(&self) -> bool {
        true
    }

    /// Waits until the outgoing queue has room.
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Called when a version is agreed.
    fn negotiated(&self, _version: &str) {}

    /// Whether it is Streamable HTTP: headers repeat parts of a request (2026-07-28), dropping the
    /// response cancels it in the modern era, and a session that the server lost can be renewed.
    fn is_http(&self) -> bool {
        false
    }

    /// Ends the connection gracefully. Does not wait for a server that does not read.
    fn close(&self) -> BoxFuture<'_, ()>;
}

/// A message on its way out.
#[derive(Debug, Default)]
pub struct Outgoing {
    /// The id of a request.
    pub id: Option<i64>,
    /// Its method.
    pub method: Cow<'static, str>,
    /// The text, without a line break.
    pub body: Vec<u8>,
    /// Headers sent with it over HTTP.
    pub headers: Vec<(String, String)>,
}

/// Why a message was not sent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SendError {
    /// The session was closed.
    #[error("the session is closed")]
    Closed,
    /// The connection is broken, or there is none.
    #[error("{0}")]
    Broken(SendFailure),
    /// The server requests more than it reads.
    #[error("the server does not read the answers to its requests: {0} are waiting")]
    Unread(usize),
    /// This message was refused; others may go through.
    #[error("{0}")]
    Refused(SendFailure),
    /// The server has forgotten the session; the message may be sent again in another one.
    #[error("the server has forgotten the session")]
    Expired,
    /// The server asks for authorisation, and there is none to give.
    #[error("{0}")]
    Unauthorized(String),
}

/// What failed while a message was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendFailure {
    /// It in words.
    pub text: String,
    /// The messages of all its causes for the log, the outermost first.
    pub causes: Option<String>,
}

impl From<String> for SendFailure {
    fn from(text: String) -> Self {
        Self { text, causes: None }
    }
}

#[cfg(feature = "http")]
impl SendFailure {
    /// A failure with the causes of an error, secrets of the server masked.
    fn caused(text: String, error: &dyn std::error::Error, tap: &Tap) -> Self {
        let causes = std::iter::successors(Some(error), |error| error.source());
        let causes = causes.map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let causes = SafeText::line(&tap.context.redactor.redact(&causes));
        Self { text, causes: Some(causes.to_string()) }
    }
}

impl std::fmt::Display for SendFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl SendError {
    /// The messages of all its causes, if there are any.
    pub fn causes(&self) -> Option<&str> {
        match self {
            Self::Broken(failure) | Self::Refused(failure) => failure.causes.as_deref(),
            Self::Closed | Self::Unread(_) | Self::Expired | Self::Unauthorized(_) => None,
        }
    }
}
