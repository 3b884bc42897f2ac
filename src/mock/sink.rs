//! Where a reaction's output goes: the standard streams, or one HTTP exchange.

use std::rc::Rc;

use crate::mock::action::{Respond, Stream};
use crate::mock::http::Exchange;
use crate::mock::stdio::Pipes;

/// Where a reaction's output goes.
#[derive(Clone)]
pub(crate) enum Sink {
    Stdio(Rc<Pipes>),
    Http(Rc<Exchange>),
}

impl Sink {
    /// Sends the answer to the request at hand.
    pub(crate) async fn answer(&self, text: String) {
        match self {
            Self::Stdio(pipes) => pipes.line(text).await,
            Self::Http(exchange) => exchange.answer(text).await,
        }
    }

    /// Sends any other message.
    pub(crate) async fn message(&self, text: String) {
        match self {
            Self::Stdio(pipes) => pipes.line(text).await,
            Self::Http(exchange) => exchange.message(&text).await,
        }
    }

    /// Writes bytes as they are, in pieces of `chunk` bytes with `pause` milliseconds between.
    pub(crate) async fn bytes(&self, to: Stream, bytes: &[u8], chunk: usize, pause: u64) {
        match (self, to) {
            (Self::Stdio(pipes), to) => pipes.bytes(to, bytes, chunk, pause).await,
            (Self::Http(_), Stream::Stderr) => {
                use std::io::Write;
                let _ = std::io::stderr().write_all(bytes);
            }
            (Self::Http(exchange), _) => exchange.bytes(bytes, chunk, pause).await,
        }
    }

    /// The reaction is over; `expected` says whether the host waits for an answer.
    pub(crate) async fn finish(&self, expected: bool) {
        if let Self::Http(exchange) = self {
            exchange.finish(expected);
        }
    }

    /// HTTP: this answer, as a whole. Over stdio nothing happens.
    pub(crate) fn respond(&self, respond: &Respond, body: String) {
        if let Self::Http(exchange) = self {
            exchange.respond(respond, body);
        }
    }

    /// HTTP: a header of the answer to come.
    pub(crate) fn header(&self, name: &str, value: &str) {
        if let Self::Http(exchange) = self {
            exchange.header(name, value);
        }
    }

    /// HTTP: raw text in the event stream.
    pub(crate) async fn event_text(&self, text: &str) {
        if let Self::Http(exchange) = self {
            exchange.event_text(text).await;
        }
    }

    /// HTTP: ends the event stream.
    pub(crate) fn end(&self) {
        if let Self::Http(exchange) = self {
            exchange.end();
        }
    }

    /// HTTP: a header of the request at hand.
    pub(crate) fn asked_header(&self, name: &str) -> Option<serde_json::Value> {
        match self {
            Self::Stdio(_) => None,
            Self::Http(exchange) => exchange.asked_header(name),
        }
    }

    /// HTTP: cuts the connection.
    pub(crate) fn disconnect(&self) {
        if let Self::Http(exchange) = self {
            exchange.disconnect();
        }
    }

    /// Closes a standard stream.
    pub(crate) async fn close(&self, stream: Stream) {
        if let Self::Stdio(pipes) = self {
            pipes.close(stream).await;
        }
    }
}
