//! A server played line by line over an in-memory pipe, and the session that talks to it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use mcpdeck::base::Clock;
use mcpdeck::base::logs::LogRecord;
use mcpdeck::base::ring::Ring;
use mcpdeck::base::secret::{Redactor, Secret};
use mcpdeck::base::{LogLevel, ServerName};
use mcpdeck::config::{HttpConfig, OutsideCalls, WireLimits};
use mcpdeck::error::Error;
use mcpdeck::mcp::{Attempt, ConnectError, Connected, Endpoint, Request, connect};
use mcpdeck::protocol::{
    Answer, ByteCount, CallId, Finding, FindingKind, Payload, PendingRequest, Progress,
    ReceivedSoFar, Responder, ServerRequest, SessionContext, SessionEvent, TrafficRecord,
};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// The server's end.
pub struct Peer {
    pub reader: BufReader<ReadHalf<DuplexStream>>,
    pub writer: WriteHalf<DuplexStream>,
}

impl Peer {
    /// The next message of the host.
    pub async fn recv(&mut self) -> Value {
        let mut line = String::new();
        self.reader.read_line(&mut line).await.unwrap();
        assert!(!line.is_empty(), "the host closed the pipe");
        serde_json::from_str(&line).unwrap()
    }

    /// The next message, if one comes within a (paused) minute.
    pub async fn maybe_recv(&mut self) -> Option<Value> {
        tokio::time::timeout(Duration::from_secs(60), self.recv()).await.ok()
    }

    /// What the host sends until it closes its end.
    pub async fn rest(&mut self) -> String {
        let mut rest = String::new();
        while self.reader.read_line(&mut rest).await.unwrap() > 0 {}
        rest
    }

    /// Waits until the host closes its end.
    pub async fn closed(&mut self) {
        let mut line = String::new();
        while self.reader.read_line(&mut line).await.unwrap() > 0 {}
    }

    /// Returns the next request with this method, skipping others.
    pub async fn expect(&mut self, method: &str) -> Value {
        let message = self.recv().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    pub async fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        self.writer.write_all(bytes.as_ref()).await.unwrap();
    }

    pub async fn line(&mut self, line: impl AsRef<str>) {
        self.raw(format!("{}\n", line.as_ref())).await;
    }

    pub async fn send(&mut self, message: Value) {
        self.line(message.to_string()).await;
    }

    pub async fn reply(&mut self, to: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": to["id"], "result": result})).await;
    }

    pub async fn fail(&mut self, to: &Value, code: i64, message: &str) {
        let error = json!({"code": code, "message": message});
        self.send(json!({"jsonrpc": "2.0", "id": to["id"], "error": error})).await;
    }

    /// Performs the handshake of a legacy server.
    pub async fn initialize(&mut self) -> Value {
        self.initialize_with(json!({"tools": {"listChanged": true}, "logging": {}})).await
    }

    pub async fn initialize_with(&mut self, capabilities: Value) -> Value {
        let request = self.expect("initialize").await;
        let version = request["params"]["protocolVersion"].clone();
        let info = json!({"name": "peer", "version": "1.0", "x-extra": true});
        let result =
            json!({"protocolVersion": version, "capabilities": capabilities, "serverInfo": info});
        self.reply(&request, result).await;
        self.expect("notifications/initialized").await;
        request
    }

    /// Performs the handshake of a modern server.
    pub async fn discover(&mut self, capabilities: Value) -> Value {
        let request = self.expect("server/discover").await;
        let result = json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": capabilities, "ttlMs": 0, "cacheScope": "private",
            "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "peer", "version": "2.0"}},
        });
        self.reply(&request, result).await;
        request
    }
}

type Script = Box<dyn Fn(ServerRequest) -> BoxFuture<'static, Answer> + Send + Sync>;

/// A test approval queue; without a script requests are never answered.
pub struct TestDesk {
    pub asked: mpsc::Sender<ServerRequest>,
    pub script: Option<Script>,
    pub outside_calls: OutsideCalls,
}

impl Responder for TestDesk {
    fn ask(&self, request: ServerRequest) -> BoxFuture<'static, Answer> {
        let _ = self.asked.try_send(request.clone());
        match &self.script {
            Some(script) => script(request),
            None => Box::pin(std::future::pending()),
        }
    }

    fn outside_calls(&self, _: &ServerName) -> OutsideCalls {
        self.outside_calls
    }
}

/// Everything around a session.
pub struct Rig {
    pub context: SessionContext,
    pub events: mpsc::Receiver<SessionEvent>,
    pub asked: mpsc::Receiver<ServerRequest>,
}

pub fn rig() -> Rig {
    rig_with(|_| {}, None)
}

/// A rig whose server may send requests to the user outside of calls.
pub fn rig_outside_calls() -> Rig {
    rig_of(|_| {}, None, OutsideCalls::Allow)
}

pub fn rig_with(adjust: impl FnOnce(&mut WireLimits), script: Option<Script>) -> Rig {
    rig_of(adjust, script, OutsideCalls::Deny)
}

fn rig_of(
    adjust: impl FnOnce(&mut WireLimits),
    script: Option<Script>,
    outside_calls: OutsideCalls,
) -> Rig {
    let mut limits = WireLimits::default();
    adjust(&mut limits);
    let (events_in, events) = mpsc::channel(256);
    let (asked_in, asked) = mpsc::channel(256);
    let context = SessionContext {
        server: "peer".into(),
        limits,
        log_level: None::<LogLevel>,
        clock: Clock::system(),
        redactor: Redactor::new([Secret::new("s3cr3t-value")]),
        traffic: Ring::<TrafficRecord>::new(10_000, 64 << 20),
        black_box: Ring::new(1000, 16 << 20),
        logs: Ring::<LogRecord>::new(10_000, 64 << 20),
        notices: tokio::sync::broadcast::Sender::new(16),
        events: events_in,
        approvals: Arc::new(TestDesk { asked: asked_in, script, outside_calls }),
        bytes: Arc::new(ByteCount::default()),
        tasks: Arc::default(),
        seen: Arc::new(ReceivedSoFar::default()),
    };
    Rig { context, events, asked }
}

/// Counts the writes of the host.
pub struct Counting<W>(pub W, pub Arc<AtomicUsize>);

impl<W: AsyncWrite + Unpin> AsyncWrite for Counting<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// A pipe of `size` bytes each way.
pub fn pipe(size: usize) -> (Endpoint, Peer) {
    let (host, server) = tokio::io::duplex(size);
    let (read, write) = tokio::io::split(host);
    let endpoint = Endpoint::Pipe { read: Box::new(read), write: Box::new(write) };
    let (read, writer) = tokio::io::split(server);
    (endpoint, Peer { reader: BufReader::new(read), writer })
}

impl Rig {
    /// A legacy session with its server.
    pub async fn legacy(&self) -> (Connected, Peer) {
        let (endpoint, mut peer) = pipe(64 << 20);
        let attempt = Attempt::Legacy(None);
        let connecting = connect(endpoint, &attempt, self.context.clone());
        let (connected, _) = tokio::join!(connecting, peer.initialize());
        (connected.unwrap(), peer)
    }

    /// A modern session with its server, which offers nothing to subscribe to.
    pub async fn modern(&self) -> (Connected, Peer) {
        let (endpoint, mut peer) = pipe(64 << 20);
        let connecting = connect(endpoint, &Attempt::Modern, self.context.clone());
        let (connected, _) = tokio::join!(connecting, peer.discover(json!({"tools": {}})));
        (connected.unwrap(), peer)
    }

    /// Tries to connect to a server that does `script`.
    pub async fn try_connect<F: Future<Output = Peer>>(
        &self,
        attempt: Attempt,
        script: impl FnOnce(Peer) -> F,
    ) -> (Result<Connected, ConnectError>, Peer) {
        let (endpoint, peer) = pipe(64 << 20);
        tokio::join!(connect(endpoint, &attempt, self.context.clone()), script(peer))
    }

    /// The findings so far, by kind.
    pub async fn findings(&mut self) -> Vec<Finding> {
        // Lets the pump task run; the clock is paused, so this takes no time.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let mut out = Vec::new();
        while let Ok(event) = self.events.try_recv() {
            if let SessionEvent::Finding(finding) = event {
                out.push(finding);
            }
        }
        out
    }

    pub async fn kinds(&mut self) -> Vec<FindingKind> {
        let mut kinds: Vec<_> = self.findings().await.iter().map(|f| f.kind).collect();
        kinds.dedup();
        kinds
    }

    pub fn traffic(&self) -> Vec<Arc<TrafficRecord>> {
        self.context.traffic.read(0, usize::MAX).items
    }
}

/// A request, with the handles a test needs.
pub struct Call {
    pub context: Arc<PendingRequest>,
    pub cancel: CancellationToken,
    pub progress: mpsc::Receiver<Progress>,
    /// The same request, for tests that moved `context` out.
    pub seen: Arc<PendingRequest>,
}

pub fn call(id: u64) -> Call {
    call_within(id, Duration::from_secs(30))
}

pub fn call_within(id: u64, timeout: Duration) -> Call {
    let cancel = CancellationToken::new();
    let (progress_in, progress) = mpsc::channel(1000);
    let limits = (timeout, Duration::from_secs(600));
    let context = PendingRequest::new(
        Clock::system(),
        Some(CallId(id)),
        limits,
        cancel.clone(),
        Some(progress_in),
    );
    Call { seen: Arc::clone(&context), context, cancel, progress }
}

pub fn echo(text: &str) -> Request {
    Request::CallTool { name: "echo".into(), arguments: Arc::new(json!({"text": text})) }
}

pub fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// A request in the background.
pub fn start(
    connected: &Connected,
    request: Request,
    context: Arc<PendingRequest>,
) -> oneshot::Receiver<Result<Payload, Error>> {
    let (sender, receiver) = oneshot::channel();
    let future = connected.session.request(request, context);
    tokio::spawn(async move {
        let _ = sender.send(future.await);
    });
    receiver
}

pub fn http(url: &str) -> Endpoint {
    Endpoint::Http(HttpConfig::new(url.parse().unwrap()).into())
}
