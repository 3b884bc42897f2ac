//! Serves a mock server over the standard streams of this process, or over Streamable HTTP on
//! loopback.

use std::io;
use std::rc::Rc;

use http::{Method, Request, Response};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::http::{Body, HttpExchange, Hub};
use super::os;
use super::play::play;
use super::receive::{event, receive};
use super::script::{Respond, StandardStream};
use super::stage::{Cue, MockStage, ReactionContext, Sink};
use super::stdio::{StandardStreams, stdin};

/// Longest body accepted from the host, in bytes.
const MAX_BODY_BYTES: usize = 64 << 20;

/// Plays `on.SIGTERM` and `on.SIGINT` on these signals, if the script has them.
fn handle_signals(stage: &Rc<MockStage>, sink: &Sink) {
    for name in ["SIGTERM", "SIGINT"] {
        if stage.script.on.contains_key(name) {
            let (stage, sink) = (Rc::clone(stage), sink.clone());
            os::on_signal(name, move || {
                let (stage, sink) = (Rc::clone(&stage), sink.clone());
                async move {
                    event(&stage, name, &sink).await;
                }
            });
        }
    }
}

/// The exit code, once the script or the host has ended the play.
async fn until_over(stage: &MockStage, served: impl Future<Output = ()>) -> i32 {
    let mut exit = stage.exit.subscribe();
    tokio::select! {
        code = exit.wait_for(Option::is_some) => code.ok().and_then(|code| *code).unwrap_or(0),
        () = served => 0,
    }
}

/// Plays on the standard streams until the script or the host ends it; returns the exit code.
pub(crate) async fn stdio(stage: Rc<MockStage>) -> i32 {
    let pipes = Rc::new(StandardStreams::open());
    let sink = Sink::Stdio(Rc::clone(&pipes));
    handle_signals(&stage, &sink);
    let code = until_over(&stage, read(&stage, &pipes, &sink)).await;
    pipes.finish().await;
    code
}

async fn read(stage: &Rc<MockStage>, pipes: &StandardStreams, sink: &Sink) {
    event(stage, "start", sink).await;
    let mut may_read = stage.reading.subscribe();
    let mut stopped = stage.reading.subscribe();
    let mut lines = BufReader::with_capacity(64 << 10, stdin());
    let mut line = Vec::new();
    loop {
        let _ = may_read.wait_for(|reading| *reading).await;
        line.clear();
        let got = tokio::select! {
            biased;
            () = pipes.close_stdin.cancelled() => {
                drop(lines);
                let _ = os::close(StandardStream::Stdin);
                pipes.stdin_closed.cancel();
                return std::future::pending().await;
            }
            got = lines.read_until(b'\n', &mut line) => got,
            // A partially read line is discarded.
            _ = stopped.wait_for(|reading| !*reading) => std::future::pending().await,
        };
        match got {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                let text = line.trim_ascii();
                if !text.is_empty() {
                    receive(stage, text, sink);
                }
            }
        }
    }
    stage.stdin_closed.cancel();
    // Immediate reactions to the last lines run first, as in a server that reads and answers
    // sequentially.
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
    if event(stage, "stdinClosed", sink).await {
        std::future::pending::<()>().await;
    }
}

/// Plays over HTTP until the script ends it; returns the exit code.
pub(crate) async fn http(stage: Rc<MockStage>, listener: TcpListener) -> i32 {
    let hub = Rc::new(Hub::default());
    // The sink of messages that belong to no request.
    let sink = Sink::Http(Rc::new(HttpExchange::new(Rc::clone(&hub))));
    handle_signals(&stage, &sink);
    let accepting = async {
        event(&stage, "start", &sink).await;
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
    until_over(&stage, accepting).await
}

async fn handle(
    stage: Rc<MockStage>,
    hub: Rc<Hub>,
    request: Request<Incoming>,
) -> Result<Response<Body>, io::Error> {
    let (parts, body) = request.into_parts();
    let body = http_body_util::Limited::new(body, MAX_BODY_BYTES).collect().await;
    let body = body.map_err(|error| io::Error::other(error.to_string()))?.to_bytes();
    let message = serde_json::from_slice::<Value>(&body).unwrap_or_default();
    let (head, answer) = oneshot::channel();
    let mut exchange = HttpExchange::new(hub);
    exchange.style_stream = stage.script.http.stream;
    exchange.expects = parts.method == Method::GET
        || (message["method"].is_string() && message.get("id").is_some());
    exchange.asked = parts.headers;
    exchange.head.replace(Some(head));
    let exchange = Rc::new(exchange);
    let path = parts.uri.path().to_owned();
    tokio::task::spawn_local(async move {
        route(&stage, &exchange, &parts.method, &path, (message, &body)).await;
    });
    answer.await.map_err(|_| io::ErrorKind::ConnectionAborted.into())
}

/// A reaction to the path comes first, then one to the HTTP method, then the protocol.
async fn route(
    stage: &Rc<MockStage>,
    exchange: &Rc<HttpExchange>,
    method: &Method,
    path: &str,
    (message, body): (Value, &[u8]),
) {
    let sink = Sink::Http(Rc::clone(exchange));
    for what in [path, method.as_str()] {
        if let Some(reaction) = stage.reaction(&Cue::On(what.to_owned())) {
            let cx = ReactionContext::new(stage, &sink, Some(message.clone()));
            play(&cx, reaction.actions()).await;
            if exchange.is_answered() {
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
        Method::POST => receive(stage, body, &sink),
        Method::GET => {
            exchange.listen().await;
            exchange.finish(true);
        }
        Method::DELETE => exchange.respond(&plain(204), String::new()),
        _ => exchange.respond(&plain(405), String::new()),
    }
}
