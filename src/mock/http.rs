//! Streamable HTTP of a mock server: one exchange per request, and the standalone stream of `GET`.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use http::{Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Duration;

use super::script::Respond;

pub(crate) type Body = UnsyncBoxBody<Bytes, io::Error>;
type BodyPiece = Result<Frame<Bytes>, io::Error>;

/// Pieces of a body queued for the connection; a full queue blocks the reaction (backpressure).
const BODY_CAPACITY: usize = 64;
/// Messages kept until the host opens its stream; more are dropped, oldest first.
const BACKLOG_CAPACITY: usize = 256;

/// What all exchanges share.
#[derive(Default)]
pub(crate) struct Hub {
    streams: RefCell<Vec<mpsc::Sender<BodyPiece>>>,
    backlog: RefCell<Vec<String>>,
    /// Exchanges without an answer: kept open, so that the host keeps waiting.
    parked: RefCell<Vec<Rc<HttpExchange>>>,
}

impl Hub {
    /// Sends a message on the standalone streams, or queues it until there is one.
    async fn message(&self, text: &str) {
        let streams = self.streams.borrow().clone();
        let mut reached = false;
        for stream in streams {
            reached |= stream.send(Ok(data(event(text)))).await.is_ok();
        }
        self.streams.borrow_mut().retain(|stream| !stream.is_closed());
        if !reached {
            let mut backlog = self.backlog.borrow_mut();
            if backlog.len() == BACKLOG_CAPACITY {
                backlog.remove(0);
            }
            backlog.push(text.to_owned());
        }
    }
}

fn event(text: &str) -> String {
    format!("event: message\ndata: {text}\n\n")
}

fn data(text: String) -> Frame<Bytes> {
    Frame::data(Bytes::from(text))
}

/// One HTTP request and the answer to it.
#[derive(Default)]
pub(crate) struct HttpExchange {
    hub: Rc<Hub>,
    pub(crate) style_stream: bool,
    /// Whether the host waits for an answer to this request.
    pub(crate) expects: bool,
    /// Headers of the request.
    pub(crate) asked: http::HeaderMap,
    headers: RefCell<Vec<(String, String)>>,
    pub(crate) head: RefCell<Option<oneshot::Sender<Response<Body>>>>,
    stream: RefCell<Option<mpsc::Sender<BodyPiece>>>,
}

impl HttpExchange {
    pub(crate) fn new(hub: Rc<Hub>) -> Self {
        Self { hub, ..Self::default() }
    }

    /// Whether the answer has begun, or was refused.
    pub(crate) fn is_answered(&self) -> bool {
        self.head.borrow().is_none()
    }

    fn open(&self) -> bool {
        self.head.borrow().is_some() || self.stream.borrow().is_some()
    }

    /// A header of the request.
    pub(crate) fn asked_header(&self, name: &str) -> Option<Value> {
        let value = self.asked.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned().into())
    }

    pub(crate) fn header(&self, name: &str, value: &str) {
        self.headers.borrow_mut().push((name.to_owned(), value.to_owned()));
    }

    pub(crate) async fn answer(&self, text: String) {
        if !self.open() {
            return self.hub.message(&text).await;
        }
        if self.head.borrow().is_some() && !self.style_stream {
            self.header("content-type", "application/json");
            self.reply(StatusCode::OK, full(text));
            return;
        }
        self.event_text(&event(&text)).await;
        self.stream.borrow_mut().take();
    }

    pub(crate) async fn message(&self, text: &str) {
        if self.expects && self.open() {
            self.event_text(&event(text)).await;
        } else {
            self.hub.message(text).await;
        }
    }

    /// Writes text to the event stream, after starting it if needed.
    pub(crate) async fn event_text(&self, text: &str) {
        if self.head.borrow().is_some() {
            self.header("content-type", "text/event-stream");
            self.header("cache-control", "no-cache");
            self.begin();
        }
        let stream = self.stream.borrow().clone();
        if let Some(stream) = stream {
            let _ = stream.send(Ok(data(text.to_owned()))).await;
        }
    }

    /// Starts the standalone stream with the messages queued for it.
    pub(crate) async fn listen(&self) {
        self.event_text(": open\n\n").await;
        let stream = self.stream.borrow().clone();
        if let Some(stream) = stream {
            let backlog = std::mem::take(&mut *self.hub.backlog.borrow_mut());
            for text in backlog {
                let _ = stream.send(Ok(data(event(&text)))).await;
            }
            self.hub.streams.borrow_mut().push(stream);
        }
    }

    pub(crate) async fn bytes(&self, bytes: &[u8], chunk: usize, pause: u64) {
        self.begin();
        let stream = self.stream.borrow().clone();
        let Some(stream) = stream else { return };
        let chunk = if chunk == 0 { bytes.len().max(1) } else { chunk };
        for (index, piece) in bytes.chunks(chunk).enumerate() {
            if index > 0 && pause > 0 {
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            if stream.send(Ok(Frame::data(Bytes::copy_from_slice(piece)))).await.is_err() {
                return;
            }
        }
    }

    pub(crate) fn respond(&self, respond: &Respond, body: String) {
        for (name, value) in &respond.headers {
            self.header(name, value);
        }
        self.reply(StatusCode::from_u16(respond.status).unwrap_or(StatusCode::OK), full(body));
    }

    /// Ends an event stream, or an answer written in pieces.
    pub(crate) fn end(&self) {
        self.stream.borrow_mut().take();
    }

    pub(crate) fn disconnect(&self) {
        self.head.borrow_mut().take();
        if let Some(stream) = self.stream.borrow_mut().take() {
            let _ = stream.try_send(Err(io::ErrorKind::ConnectionAborted.into()));
        }
    }

    pub(crate) fn finish(self: &Rc<Self>, expected: bool) {
        if !expected && self.head.borrow().is_some() {
            self.reply(StatusCode::ACCEPTED, full(String::new()));
        } else if expected && self.open() {
            self.hub.parked.borrow_mut().push(Rc::clone(self));
        }
    }

    /// Starts an answer that is written in pieces.
    fn begin(&self) {
        if self.head.borrow().is_none() {
            return;
        }
        let (sender, mut receiver) = mpsc::channel::<BodyPiece>(BODY_CAPACITY);
        self.stream.replace(Some(sender));
        let pieces = futures::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        self.reply(StatusCode::OK, StreamBody::new(pieces).boxed_unsync());
    }

    fn reply(&self, status: StatusCode, body: Body) {
        let Some(head) = self.head.borrow_mut().take() else { return };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        for (name, value) in self.headers.borrow_mut().drain(..) {
            let name = header::HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, header::HeaderValue::from_bytes(value.as_bytes()))
            {
                response.headers_mut().append(name, value);
            }
        }
        let _ = head.send(response);
    }
}

fn full(text: String) -> Body {
    Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {}).boxed_unsync()
}
