//! A mock server over Streamable HTTP, on loopback: one exchange per request, and the standalone
//! stream of `GET`.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Duration;

use super::script::Respond;
use super::stage::Sink;
use crate::mock::play::{Cx, play};
use crate::mock::stage::{Cue, Stage};

type Body = UnsyncBoxBody<Bytes, io::Error>;
type Piece = Result<Frame<Bytes>, io::Error>;

/// Pieces of a body that wait for the connection; a full queue holds the reaction up.
const QUEUE: usize = 64;
/// Messages kept until the host opens its stream; more are dropped, oldest first.
const BACKLOG: usize = 256;
/// Longest body taken from the host.
const BODY_LIMIT: usize = 64 << 20;

/// What all exchanges share.
#[derive(Default)]
struct Hub {
    streams: RefCell<Vec<mpsc::Sender<Piece>>>,
    backlog: RefCell<Vec<String>>,
    /// Exchanges without an answer: kept, so that the host goes on waiting.
    parked: RefCell<Vec<Rc<Exchange>>>,
}

impl Hub {
    /// Sends a message on the standalone streams, or keeps it for the first.
    async fn message(&self, text: &str) {
        let streams = self.streams.borrow().clone();
        let mut reached = false;
        for stream in streams {
            reached |= stream.send(Ok(data(event(text)))).await.is_ok();
        }
        self.streams.borrow_mut().retain(|stream| !stream.is_closed());
        if !reached {
            let mut backlog = self.backlog.borrow_mut();
            if backlog.len() == BACKLOG {
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
pub(crate) struct Exchange {
    hub: Rc<Hub>,
    style_stream: bool,
    /// Whether the host waits for an answer to this very request.
    expects: bool,
    /// Headers of the request.
    asked: http::HeaderMap,
    headers: RefCell<Vec<(String, String)>>,
    head: RefCell<Option<oneshot::Sender<Response<Body>>>>,
    stream: RefCell<Option<mpsc::Sender<Piece>>>,
    finished: Cell<bool>,
}

impl Exchange {
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

    /// Text in the event stream, which begins with it if it has not begun.
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

    /// Ends an event stream, or an answer written in pieces, without more.
    pub(crate) fn end(&self) {
        self.stream.borrow_mut().take();
    }

    pub(crate) fn disconnect(&self) {
        self.head.borrow_mut().take();
        if let Some(stream) = self.stream.borrow_mut().take() {
            let _ = stream.try_send(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        self.finished.set(true);
    }

    pub(crate) fn finish(self: &Rc<Self>, expected: bool) {
        if !expected && self.head.borrow().is_some() {
            self.reply(StatusCode::ACCEPTED, full(String::new()));
        } else if expected && self.open() && !self.finished.get() {
            self.hub.parked.borrow_mut().push(Rc::clone(self));
        }
    }

    /// Begins an answer that comes in pieces.
    fn begin(&self) {
        if self.head.borrow().is_none() {
            return;
        }
        let (sender, mut receiver) = mpsc::channel::<Piece>(QUEUE);
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

/// Plays over HTTP until the script ends it; gives the exit code.
pub(crate) async fn serve(stage: Rc<Stage>, listener: TcpListener) -> i32 {
    let hub = Rc::new(Hub::default());
    let main = Exchange { finished: Cell::new(true), hub: Rc::clone(&hub), ..Exchange::default() };
    let sink = Sink::Http(Rc::new(main));
    stage.main.replace(Some(sink.clone()));
    crate::mock::os::handle_signals(&stage);
    let mut exit = stage.exit.subscribe();
    let accepting = async {
        stage.event("start", &sink).await;
        loop {
            let Ok((socket, _)) = listener.accept().await else { continue };
            let _ = socket.set_nodelay(true);
            let (stage, hub) = (Rc::clone(&stage), Rc::clone(&hub));
            tokio::task::spawn_local(async move {
                let service = hyper::service::service_fn(move |request| {
                    handle(Rc::clone(&stage), Rc::clone(&hub), request)
                });
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(socket), service)
                    .await;
            });
        }
    };
    tokio::select! {
        code = exit.wait_for(Option::is_some) => code.ok().and_then(|code| *code).unwrap_or(0),
        () = accepting => 0,
    }
}

async fn handle(
    stage: Rc<Stage>,
    hub: Rc<Hub>,
    request: Request<Incoming>,
) -> Result<Response<Body>, io::Error> {
    let (parts, body) = request.into_parts();
    let body = http_body_util::Limited::new(body, BODY_LIMIT).collect().await;
    let body = body.map_err(|error| io::Error::other(error.to_string()))?.to_bytes();
    let message = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    let (head, answer) = oneshot::channel();
    let exchange = Rc::new(Exchange {
        hub,
        style_stream: stage.script.http.stream,
        expects: parts.method == Method::GET
            || (message["method"].is_string() && message.get("id").is_some()),
        asked: parts.headers,
        head: RefCell::new(Some(head)),
        ..Exchange::default()
    });
    let path = parts.uri.path().to_owned();
    tokio::task::spawn_local(async move {
        route(&stage, &exchange, &parts.method, &path, (message, &body)).await;
    });
    answer.await.map_err(|_| io::ErrorKind::ConnectionAborted.into())
}

/// The script's word on the path comes first, then on the HTTP method, then the protocol.
async fn route(
    stage: &Rc<Stage>,
    exchange: &Rc<Exchange>,
    method: &Method,
    path: &str,
    (message, body): (Value, &[u8]),
) {
    let sink = Sink::Http(Rc::clone(exchange));
    for what in [path, method.as_str()] {
        if let Some(reaction) = stage.reaction(&Cue::On(what.to_owned())) {
            let cx = Cx::new(stage, &sink, Some(message.clone()));
            play(&cx, reaction.actions()).await;
            if exchange.head.borrow().is_none() {
                exchange.finish(true);
                return;
            }
        }
    }
    let plain = |status| Respond { status, ..Respond::default() };
    if path.starts_with("/.well-known") {
        return exchange.respond(&plain(404), String::new());
    }
    let session = &stage.script.http.session;
    let sent = exchange.asked_header("mcp-session-id");
    let begins = matches!(message["method"].as_str(), Some("initialize" | "server/discover"));
    if !session.is_empty() && !begins && sent.as_ref().is_none_or(|sent| sent != session) {
        let status = if sent.is_some() { 404 } else { 400 };
        return exchange.respond(&plain(status), String::new());
    }
    match *method {
        Method::POST => stage.receive(body, &sink),
        Method::GET => {
            exchange.event_text(": open\n\n").await;
            let stream = exchange.stream.borrow().clone();
            if let Some(stream) = stream {
                let backlog = std::mem::take(&mut *exchange.hub.backlog.borrow_mut());
                for text in backlog {
                    let _ = stream.send(Ok(data(event(&text)))).await;
                }
                exchange.hub.streams.borrow_mut().push(stream);
            }
            exchange.finish(true);
        }
        Method::DELETE => exchange.respond(&plain(204), String::new()),
        _ => exchange.respond(&plain(405), String::new()),
    }
}
