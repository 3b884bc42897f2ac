//! How messages travel: the seam between the session and what carries its bytes.
//!
//! A session gives every message to a [`Transport`] and hears of everything that arrives through the
//! [tap](super::wire::tap), whatever the transport. HTTP+SSE and WebSocket are given to it as a pair of
//! streams, a [`pipe`]. To add another:
//! - make a type that holds an `Arc<Tap>` and implements [`Transport`];
//! - hand every message that arrives to [`Tap::line`](super::wire::tap::Tap::line) as text without a
//!   line break, in the order in which it came, and every byte to
//!   [`Tap::arrived`](super::wire::tap::Tap::arrived);
//! - account for what nobody asked for with `remote::Unasked`, and wait as long as it says;
//! - when the connection is over, say so with [`Tap::ended`](super::wire::tap::Tap::ended);
//! - open it in [`session::connect`](super::session::connect).
//!
//! Reading belongs in a task that the transport owns and that ends when it is dropped. Nothing here
//! knows requests, deadlines or eras; the session knows no socket.

use std::borrow::Cow;
use std::sync::Arc;

use futures::future::BoxFuture;

pub(crate) mod events;
pub mod http;
pub mod pipe;
pub(crate) mod remote;
pub(crate) mod sse;
pub(crate) mod websocket;

/// Carries messages to one server.
pub trait Transport: Send + Sync + 'static {
    /// Sends a request, or another message whose arrival matters. The message takes its place in the
    /// order at once; the future is done when it is with the server, or, where the answer comes in
    /// the response (HTTP), when that was read to its end. Dropping the future gives up waiting; what
    /// was begun is not left half written.
    fn send(self: Arc<Self>, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>>;

    /// Queues a message for which nobody waits: an answer or a notification. Bounded: a server that
    /// asks more than it reads gets [`SendError::Unread`] and is cut off.
    ///
    /// # Errors
    /// Why it will not be sent.
    fn queue(&self, message: Vec<u8>) -> Result<(), SendError>;

    /// Whether a new request need not wait for [`Transport::ready`].
    fn is_ready(&self) -> bool {
        true
    }

    /// Waits until little enough waits to be sent.
    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// A version was agreed on.
    fn negotiated(&self, _version: &str) {}

    /// Whether it is Streamable HTTP: headers repeat parts of a request (2026-07-28), giving up the
    /// response cancels it in the modern era, and a session that the server forgot can be renewed.
    fn is_http(&self) -> bool {
        false
    }

    /// Ends the connection in an orderly way. Does not wait for a server that does not read.
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
    /// Headers that go with it over HTTP.
    pub headers: Vec<(String, String)>,
}

/// What a server that wants a token is said to do.
const UNAUTHORIZED: &str = "the server asks for authorisation (HTTP 401)";

/// Why a message was not sent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SendError {
    /// The session was closed.
    #[error("the session is closed")]
    Closed,
    /// The connection is broken, or there is none.
    #[error("{0}")]
    Broken(String),
    /// The server reads less than it asks for.
    #[error("the server does not read the answers to what it asks: {0} messages wait for it")]
    Unread(usize),
    /// This message was refused; others may go through.
    #[error("{0}")]
    Refused(String),
    /// The server has forgotten the session; the message may be sent again in another one.
    #[error("the server has forgotten the session")]
    Expired,
    /// The server asks for authorisation, and there is none to give.
    #[error("{0}")]
    Unauthorized(String),
}
