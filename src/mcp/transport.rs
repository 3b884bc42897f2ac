//! How messages travel: the seam between the session and what carries its bytes.
//!
//! A session passes every message to a [`Transport`] and receives everything that arrives through
//! the [`Tap`](protocol::Tap), whatever the transport. HTTP+SSE and WebSocket are adapted to a
//! pair of streams, a [`pipe`]. To add another:
//! - define a type that holds an `Arc<Tap>` and implements [`Transport`] and [`Outbox`];
//! - pass every message that arrives to [`Tap::line`](protocol::Tap::line) as text without
//!   a line break, in order of arrival, and the number of bytes read to
//!   [`Tap::arrived`](protocol::Tap::arrived);
//! - account for unsolicited bytes with [`unasked::Unasked`], and pause as long as it says;
//! - when the connection ends, report it with [`Tap::ended`](protocol::Tap::ended);
//! - open it in [`session::connect`](super::session::connect).
//!
//! Reading belongs in a task that the transport owns and that ends when it is dropped. Nothing here
//! knows of requests, deadlines or eras; the session knows nothing of sockets.

use std::borrow::Cow;
use std::sync::Arc;

use futures::future::BoxFuture;

use protocol::{Outbox, SendError};

#[cfg(feature = "http")]
pub(crate) mod coding;
#[cfg(feature = "http")]
mod cookies;
#[cfg(feature = "http")]
pub(crate) mod events;
#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "http")]
pub(crate) mod moved;
#[cfg(feature = "http")]
pub(crate) mod openapi;
pub mod pipe;
#[cfg(feature = "http")]
pub(crate) mod proxy;
#[cfg(feature = "http")]
mod refusal;
#[cfg(feature = "http")]
pub mod remote;
#[cfg(feature = "http")]
pub(crate) mod sse;
pub mod unasked;
#[cfg(feature = "http")]
pub(crate) mod websocket;

/// Carries messages to one server.
pub trait Transport: Outbox {
    /// Sends a request, or another message whose delivery matters. The message takes its place in
    /// the order at once; the future completes when it is delivered to the server, or, where the
    /// answer comes in the response (HTTP), when that was read to its end. Dropping the future
    /// stops waiting; a message is never left half written.
    fn send(self: Arc<Self>, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>>;

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
