//! Sessions of the protocol up to 2025-11-25 (basic/transports, "Session Management"). Sent events
//! are buffered for a while, so that a client whose connection broke can resume after the last one
//! it received ("Resumability and Redelivery"); with replicas they are kept in the shared store, so
//! that any replica can resume. rmcp only shakes hands: after that, messages of the client go
//! directly to their handler and messages to the client directly to its streams. So a quick call
//! needs no task of its own, and an idle session has neither a connection of rmcp nor its queues.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::io::{Error, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::{FutureExt as _, Stream, StreamExt as _, stream};
use parking_lot::Mutex;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ClientResult, CustomResult, ErrorData,
    Extensions, GetExtensions as _, GetMeta as _, InitializeRequestParams, ProgressToken,
    RequestId, ServerJsonRpcMessage, ServerNotification, ServerRequest, ServerResult,
};
use rmcp::service::{OriginatingRequestId, RequestContext};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_server::session::{
    RestoreOutcome, ServerSseMessage, SessionId, SessionManager,
};
use rmcp::{Peer, RoleServer, ServerHandler};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::raw::{from_text, to_text};
use super::store::SharedStore;
use super::table::{OpenSession, SessionTable, SessionUse};
use super::ticks::SharedTicks;
use base::file::random_hex;

/// How progress is told.
pub(super) const PROGRESS: &str = "notifications/progress";

/// Polling interval for later events in the store.
const STORE_INTERVAL: Duration = Duration::from_millis(500);
/// How long events are kept in the store while their stream is open.
const OPEN_EVENT_LIFETIME: Duration = Duration::from_secs(600);
/// How long an answer, and the events before it, are kept for a client to fetch.
const ANSWER_LIFETIME: Duration = Duration::from_secs(60);
/// Largest event kept in the store, in bytes. A client that missed a larger one has to repeat its
/// call.
const MAX_EVENT_BYTES: usize = 4 << 20;

/// A session with no requests and no listening connections ends after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// Capacity of the message queue in each direction.
const MESSAGE_CAPACITY: usize = 16;
/// Events per stream that are buffered for a reconnecting client.
const EVENT_CAPACITY: usize = 16;
/// Buffer for answers to disconnected clients, over all sessions, in bytes. A client may fill as much
/// of it as it leaves free; answers that do not fit are dropped, and have to be called for again.
const MAX_UNCLAIMED_BYTES: usize = 64 << 20;
/// Minimum size accounted for such an answer, in bytes.
const MIN_ANSWER_BYTES: usize = 4 << 10;
/// Maximum number of standalone streams per session; the first open one receives the messages.
const MAX_LISTENERS: usize = 8;
/// An answer ready within one or two of these is sent together with the response head.
const HEAD_INTERVAL: Duration = Duration::from_millis(5);
/// Reconnection delay that clients are asked to use (SSE `retry`).
const RETRY_INTERVAL: Duration = Duration::from_secs(3);
/// How long a question waits for a client that has no connection; it may be about to open another.
const ABSENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest time for requests in flight to finish after their session has ended, and for answers to be
/// written after a pipe has.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// The server that a session is with.
pub(super) trait SessionServer: Send + Sync {
    /// Answers a request of the session's client.
    fn respond(
        self: Arc<Self>,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'static, Result<ServerResult, ErrorData>>;

    /// The client is ready (`notifications/initialized`).
    fn client_ready(&self, session: Weak<ClientSession>, extensions: &Extensions);
}

/// A session after its handshake.
struct RunningSession {
    /// What the client said of itself, with the protocol version that was agreed on.
    client: InitializeRequestParams,
    server: Arc<dyn SessionServer>,
}

/// The requests that a client has been sent and has not answered.
#[derive(Default)]
struct ClientQuestions {
    /// Number of requests so far.
    made: u32,
    waiting: HashMap<RequestId, oneshot::Sender<Result<ClientResult, ErrorData>>>,
}

/// One of them; it is forgotten when this is dropped.
struct ClientQuestion<'s> {
    session: &'s ClientSession,
    id: RequestId,
}

impl Drop for ClientQuestion<'_> {
    fn drop(&mut self) {
        self.session.asked.lock().waiting.remove(&self.id);
    }
}

type StreamReader = mpsc::Sender<ServerSseMessage>;
type StreamEvents = mpsc::Receiver<ServerSseMessage>;

/// Maximum number of open sessions, over all clients.
const MAX_SESSIONS: usize = 1_000;

/// All sessions open in this process.
pub(crate) struct ClientSessions {
    open: Mutex<SessionTable<Arc<ClientSession>>>,
    kept: Option<Arc<dyn SharedStore>>,
    unclaimed: Arc<UnclaimedAnswers>,
    /// How long quick answers are waited for.
    ticks: Arc<SharedTicks>,
}

/// One client session: the events sent to it, by stream.
pub(super) struct ClientSession {
    sent: Mutex<SentEvent>,
    kept: Option<Arc<dyn SharedStore>>,
    /// Takes the client's `initialize` to rmcp.
    first: Mutex<Option<oneshot::Sender<Box<ClientJsonRpcMessage>>>>,
    /// Set by the handshake.
    running: OnceLock<RunningSession>,
    /// Whether rmcp has reported the end of its part, the handshake.
    is_released: AtomicBool,
    /// What the client has been asked.
    asked: Mutex<ClientQuestions>,
    /// Requests in flight; `over` cancels them when the session ends.
    calls: TaskTracker,
    over: CancellationToken,
}

struct SentEvent {
    /// Receives the answer to `initialize`.
    hello: Option<oneshot::Sender<ServerJsonRpcMessage>>,
    /// The first is the standalone stream; the others, oldest first, belong to one request each.
    streams: Vec<ClientStream>,
    /// Number of streams created so far.
    made: u64,
    /// Time of the client's last request.
    used: Instant,
    /// Id of the client; empty until it is known.
    owner: Arc<str>,
    unclaimed: Arc<UnclaimedAnswers>,
}

/// The bytes of answers that wait for clients that are not connected.
struct UnclaimedAnswers {
    max_bytes: usize,
    by_client: Mutex<HashMap<Arc<str>, usize>>,
}

/// The bytes that one such answer takes; given back when this is dropped.
struct UnclaimedBytes {
    of: Arc<UnclaimedAnswers>,
    client: Arc<str>,
    bytes: usize,
}

impl UnclaimedAnswers {
    fn new(max_bytes: usize) -> Arc<Self> {
        Arc::new(Self { max_bytes, by_client: Mutex::default() })
    }

    /// Takes room for an answer to a client, as long as that has no more than it leaves free.
    fn take(self: &Arc<Self>, client: &Arc<str>, bytes: usize) -> Option<UnclaimedBytes> {
        let mut by_client = self.by_client.lock();
        let all: usize = by_client.values().sum();
        let own = by_client.get(client).copied().unwrap_or_default();
        if own + bytes > self.max_bytes.saturating_sub(all + bytes) {
            return None;
        }
        *by_client.entry(Arc::clone(client)).or_default() += bytes;
        Some(UnclaimedBytes { of: Arc::clone(self), client: Arc::clone(client), bytes })
    }
}

impl Drop for UnclaimedBytes {
    fn drop(&mut self) {
        let mut by_client = self.of.by_client.lock();
        if let Some(own) = by_client.get_mut(&self.client) {
            *own -= self.bytes;
            if *own == 0 {
                by_client.remove(&self.client);
            }
        }
    }
}

/// A stream of events to a client.
struct ClientStream {
    number: u64,
    /// Key in the store.
    name: String,
    request: Option<RequestId>,
    progress: Option<ProgressToken>,
    /// Cancels its request.
    cancel: CancellationToken,
    /// Connections of the stream; events are sent on the first open one.
    readers: Vec<StreamReader>,
    /// The latest events, each with its number in the stream.
    kept: VecDeque<(u64, ServerSseMessage)>,
    /// Number of events so far.
    made: u64,
    /// Number of the last event sent on a connection.
    delivered: u64,
    /// When its request was cancelled, or answered without an open connection.
    over: Option<Instant>,
    /// The buffer space that answer occupies.
    room: Option<UnclaimedBytes>,
}

/// The connection over which rmcp shakes hands with a client. It ends after `initialize`.
pub(crate) struct SessionPipe {
    first: Option<oneshot::Receiver<Box<ClientJsonRpcMessage>>>,
    session: Arc<ClientSession>,
}

/// A server that is never asked anything.
struct NoServer;

impl ServerHandler for NoServer {}

/// Stands for the peer that rmcp wants in each request: sessions send their messages themselves, and
/// a peer of their own would take 16 kB each.
fn stand_in() -> Peer<RoleServer> {
    static STAND_IN: OnceLock<Peer<RoleServer>> = OnceLock::new();
    let ended = || {
        let pipe = (futures::sink::drain(), stream::empty());
        rmcp::service::serve_directly(NoServer, pipe, None).peer().clone()
    };
    STAND_IN.get_or_init(ended).clone()
}

/// An event as stored.
#[derive(Default, Serialize, Deserialize)]
struct KeptEvent<M> {
    message: Option<M>,
    /// Reconnection delay in milliseconds.
    retry: Option<u64>,
}

/// Whether the event answers a request, which ends its stream.
pub(super) fn is_answer(event: &ServerSseMessage) -> bool {
    let message = event.message.as_deref();
    matches!(message, Some(ServerJsonRpcMessage::Response(_) | ServerJsonRpcMessage::Error(_)))
}

/// The first event of a stream; its id lets the client resume from the start.
fn priming(id: String) -> ServerSseMessage {
    ServerSseMessage::priming(id, RETRY_INTERVAL)
}

fn events(mut of: StreamEvents) -> impl Stream<Item = ServerSseMessage> + Send + Sync + 'static {
    stream::poll_fn(move |cx| of.poll_recv(cx))
}

impl ClientStream {
    fn new(number: u64, name: String, cancel: CancellationToken) -> Self {
        Self {
            number,
            name,
            request: None,
            progress: None,
            cancel,
            readers: Vec::new(),
            kept: VecDeque::new(),
            made: 0,
            delivered: 0,
            over: None,
            room: None,
        }
    }

    /// The id of an event when there is no store to assign one.
    fn id(&self, event: u64) -> String {
        match self.number {
            0 => event.to_string(),
            number => format!("{event}/{number}"),
        }
    }

    fn is_read(&mut self) -> bool {
        self.readers.retain(|reader| !reader.is_closed());
        !self.readers.is_empty()
    }

    fn keep(&mut self, event: ServerSseMessage) {
        if self.kept.len() == EVENT_CAPACITY {
            self.kept.pop_front();
        }
        self.kept.push_back((self.made, event));
    }
}

impl SentEvent {
    fn new(name: String, unclaimed: Arc<UnclaimedAnswers>) -> Self {
        let streams = vec![ClientStream::new(0, name, CancellationToken::new())];
        let (used, owner) = (Instant::now(), "".into());
        Self { hello: None, streams, made: 0, used, owner, unclaimed }
    }

    /// Index of the stream that a message belongs to.
    fn stream_of(&self, message: &ServerJsonRpcMessage) -> usize {
        let of = |request: &RequestId| {
            self.streams.iter().rposition(|stream| stream.request.as_ref() == Some(request))
        };
        let found = match message {
            ServerJsonRpcMessage::Response(answer) => of(&answer.id),
            ServerJsonRpcMessage::Error(error) => error.id.as_ref().and_then(of),
            ServerJsonRpcMessage::Request(request) => {
                let during = request.request.extensions().get::<OriginatingRequestId>();
                during.and_then(|during| of(&during.0))
            }
            ServerJsonRpcMessage::Notification(sent) => match &sent.notification {
                ServerNotification::ProgressNotification(progress) => {
                    let token = Some(&progress.params.progress_token);
                    self.streams.iter().rposition(|stream| stream.progress.as_ref() == token)
                }
                ServerNotification::CustomNotification(sent) if sent.method == PROGRESS => {
                    let token = sent.params.as_ref().and_then(|params| params.get("progressToken"));
                    let token = token.and_then(|token| serde_json::from_value(token.clone()).ok());
                    self.streams
                        .iter()
                        .rposition(|stream| token.is_some() && stream.progress == token)
                }
                ServerNotification::CancelledNotification(cancelled) => {
                    cancelled.params.request_id.as_ref().and_then(of)
                }
                _ => None,
            },
        };
        found.unwrap_or_default()
    }

    /// Sends an event to the client; returns it if the queue of the connection is full.
    fn push(&mut self, mut event: ServerSseMessage) -> Option<(StreamReader, ServerSseMessage)> {
        let at = self.stream_of(event.message.as_deref()?);
        let stream = &mut self.streams[at];
        stream.made += 1;
        let id = stream.id(stream.made);
        event.event_id.get_or_insert(id);
        let is_last = at > 0 && is_answer(&event);
        if stream.is_read() {
            stream.delivered = stream.made;
            let reader = stream.readers[0].clone();
            if is_last {
                self.streams.remove(at);
            } else {
                stream.keep(event.clone());
            }
            return match reader.try_send(event) {
                Err(mpsc::error::TrySendError::Full(event)) => Some((reader, event)),
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => None,
            };
        }
        if is_last {
            let size = serde_json::to_vec(&event.message)
                .map_or(0, |text| text.len())
                .max(MIN_ANSWER_BYTES);
            stream.room = self.unclaimed.take(&self.owner, size);
            if stream.room.is_none() {
                self.streams.remove(at);
                return None;
            }
            stream.over = Some(Instant::now());
        }
        stream.keep(event);
        None
    }

    /// Opens a stream for a request; returns its number and events. `cancel` ends the request.
    fn begin(
        &mut self,
        message: &ClientJsonRpcMessage,
        (name, cancel): (String, CancellationToken),
    ) -> (u64, StreamEvents) {
        self.streams
            .retain(|stream| stream.over.is_none_or(|over| over.elapsed() < ANSWER_LIFETIME));
        self.made += 1;
        let (reader, events) = mpsc::channel(MESSAGE_CAPACITY);
        let mut stream = ClientStream::new(self.made, name, cancel);
        if let ClientJsonRpcMessage::Request(request) = message {
            stream.request = Some(request.id.clone());
            stream.progress = request.request.get_meta().get_progress_token();
        }
        stream.readers.push(reader);
        self.streams.push(stream);
        (self.made, events)
    }

    /// Resumes a stream on a new connection, after the given event or else with the events never
    /// sent. Returns `None` when the stream is no longer kept.
    fn go_on(&mut self, number: u64, after: Option<u64>) -> Option<StreamEvents> {
        let stream = self.streams.iter_mut().find(|stream| stream.number == number)?;
        let (reader, events) = mpsc::channel(MESSAGE_CAPACITY.max(EVENT_CAPACITY));
        // A connection that resumes after an event replaces the one on which that was sent. Further
        // standalone connections are queued: the first open one receives the messages.
        if number == 0 && after.is_none_or(|after| after == 0) && stream.is_read() {
            if stream.readers.len() >= MAX_LISTENERS {
                stream.readers.remove(1);
            }
            stream.readers.push(reader);
            return Some(events);
        }
        let after = after.unwrap_or(stream.delivered);
        for (_, event) in stream.kept.iter().filter(|(at, _)| *at > after) {
            let _ = reader.try_send(event.clone());
        }
        stream.delivered = stream.made;
        stream.readers.clear();
        if stream.over.is_none() {
            stream.readers.push(reader);
        }
        Some(events)
    }

    /// Cancels a request, which gets no answer.
    fn cancel(&mut self, request: &RequestId) {
        let of = |stream: &&mut ClientStream| stream.request.as_ref() == Some(request);
        if let Some(stream) = self.streams.iter_mut().rfind(of) {
            stream.over = Some(Instant::now());
            stream.readers.clear();
            stream.cancel.cancel();
        }
    }

    /// Whether a connection or request is open.
    fn is_in_use(&mut self) -> bool {
        let mut waits = self.streams.iter_mut();
        waits.any(|stream| stream.is_read() || (stream.number > 0 && stream.over.is_none()))
    }
}

impl ClientSession {
    /// Ends the handshake: from now on `server` answers.
    pub fn run(&self, client: InitializeRequestParams, server: Arc<dyn SessionServer>) {
        let _ = self.running.set(RunningSession { client, server });
    }

    /// What the client said of itself, with the protocol version that was agreed on.
    pub fn client(&self) -> Option<&InitializeRequestParams> {
        self.running.get().map(|running| &running.client)
    }

    /// Sends a notification to the client.
    pub async fn notify(&self, notification: ServerNotification) {
        self.send(ServerJsonRpcMessage::notification(notification)).await;
    }

    /// Sends a request to the client and returns its answer.
    ///
    /// # Errors
    /// The client's error; `None` when the session has ended.
    pub async fn request(&self, request: ServerRequest) -> Result<ClientResult, Option<ErrorData>> {
        let (reply, answer) = oneshot::channel();
        let id = {
            let mut asked = self.asked.lock();
            asked.made += 1;
            let id = RequestId::Number(asked.made.into());
            asked.waiting.insert(id.clone(), reply);
            id
        };
        let open = ClientQuestion { session: self, id };
        let answered = async {
            self.send(ServerJsonRpcMessage::request(request, open.id.clone())).await;
            answer.await
        };
        match self.over.run_until_cancelled(answered).await {
            Some(Ok(answer)) => answer.map_err(Some),
            Some(Err(_)) | None => Err(None),
        }
    }

    /// Starts answering a request.
    fn respond(
        self: &Arc<Self>,
        message: ClientJsonRpcMessage,
        cancel: CancellationToken,
    ) -> Result<RunningRequest, Error> {
        let (ClientJsonRpcMessage::Request(request), Some(running)) = (message, self.running.get())
        else {
            return Err(Error::new(ErrorKind::InvalidInput, "no request of an open session"));
        };
        let (id, mut request) = (request.id, request.request);
        let mut context = RequestContext::new(id.clone(), stand_in());
        context.ct = cancel.clone();
        context.extensions = std::mem::take(request.extensions_mut());
        context.meta = context.extensions.remove().unwrap_or_default();
        context.extensions.insert(Arc::clone(self));
        let (answer, session) =
            (Arc::clone(&running.server).respond(request, context), Arc::clone(self));
        let answered = self.calls.track_future(async move {
            let message = match answer.await {
                Ok(result) => ServerJsonRpcMessage::response(result, id),
                Err(error) => ServerJsonRpcMessage::error(error, Some(id)),
            };
            // Cancelled requests get no answer.
            if !cancel.is_cancelled() {
                session.send(message).await;
            }
        });
        Ok(RunningRequest(Some(answered.boxed())))
    }

    /// Takes what a client sends that is no request.
    fn accept(self: &Arc<Self>, message: ClientJsonRpcMessage) {
        let (id, answer) = match message {
            ClientJsonRpcMessage::Response(response) => (response.id, Ok(response.result)),
            ClientJsonRpcMessage::Error(error) => {
                let Some(id) = error.id else { return };
                (id, Err(error.error))
            }
            ClientJsonRpcMessage::Notification(sent) => {
                return match &sent.notification {
                    ClientNotification::InitializedNotification(ready) => {
                        if let Some(running) = self.running.get() {
                            running.server.client_ready(Arc::downgrade(self), &ready.extensions);
                        }
                    }
                    ClientNotification::CancelledNotification(cancelled) => {
                        if let Some(request) = &cancelled.params.request_id {
                            self.sent.lock().cancel(request);
                        }
                    }
                    // Nothing depends on the others.
                    _ => {}
                };
            }
            ClientJsonRpcMessage::Request(_) => return,
        };
        let waiting = self.asked.lock().waiting.remove(&id);
        if let Some(waiting) = waiting {
            let _ = waiting.send(answer);
        }
    }

    /// Ends the session: requests in flight may finish within [`DRAIN_TIMEOUT`].
    fn end(self: Arc<Self>) {
        self.calls.close();
        if self.calls.is_empty() {
            return self.over.cancel();
        }
        tokio::spawn(async move {
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, self.calls.wait()).await;
            self.over.cancel();
        });
    }

    /// Wraps a message in an event; `None` for the answer to `initialize`, sent to its waiter.
    fn event(&self, message: ServerJsonRpcMessage) -> Option<ServerSseMessage> {
        match self.sent.lock().hello.take() {
            Some(hello) => _ = hello.send(message),
            None => return Some(ServerSseMessage::from_message(message)),
        }
        None
    }

    /// Completes when no connection of the client has been open for [`ABSENCE_TIMEOUT`]: what it is
    /// asked, nobody answers any more. Never completes where another replica may have its connection.
    pub async fn abandoned(&self) {
        if self.kept.is_some() {
            return std::future::pending().await;
        }
        let mut looks = tokio::time::interval(ABSENCE_TIMEOUT / 10);
        let mut present = Instant::now();
        loop {
            looks.tick().await;
            let mut sent = self.sent.lock();
            if sent.streams.iter_mut().any(ClientStream::is_read) {
                present = Instant::now();
            } else if present.max(sent.used).elapsed() >= ABSENCE_TIMEOUT {
                return;
            }
        }
    }

    /// Stores a message and sends it, waiting for space in the queue of the connection.
    async fn send(&self, message: ServerJsonRpcMessage) {
        let Some(event) = self.event(message) else { return };
        if let Some((reader, event)) = self.keep_and_push(event).await {
            let _ = reader.send(event).await;
        }
    }

    /// Stores an event, then pushes it to the client.
    async fn keep_and_push(
        &self,
        mut event: ServerSseMessage,
    ) -> Option<(StreamReader, ServerSseMessage)> {
        if let Some(kept) = &self.kept {
            let name = {
                let sent = self.sent.lock();
                let at = sent.stream_of(event.message.as_deref()?);
                sent.streams[at].name.clone()
            };
            event.event_id = Some(append(&**kept, &name, &event).await);
        }
        self.sent.lock().push(event)
    }
}

impl Transport<RoleServer> for SessionPipe {
    type Error = Infallible;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        let session = Arc::clone(&self.session);
        async move {
            session.send(message).await;
            Ok(())
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        let message = self.first.as_mut()?.await;
        self.first = None;
        message.ok().map(|message| *message)
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

/// Room for one more session, until that is opened or its request has ended: clients that come at the
/// same time take none from each other.
pub struct SessionRoom {
    sessions: Arc<ClientSessions>,
    is_left: AtomicBool,
}

tokio::task_local! {
    /// The room of the request that is answered here.
    static ROOM: Option<SessionRoom>;
}

impl SessionRoom {
    /// Answers a request, which may fill the room that was made for it.
    pub async fn fill<T>(room: Option<Self>, answering: impl Future<Output = T>) -> T {
        ROOM.scope(room, answering).await
    }

    /// Whether the request that is answered here has room left, which it has no longer.
    fn take() -> bool {
        let left = |room: &Self| room.is_left.swap(false, Ordering::Relaxed);
        ROOM.try_with(|room| room.as_ref().is_some_and(left)).unwrap_or(false)
    }
}

impl Drop for SessionRoom {
    fn drop(&mut self) {
        if *self.is_left.get_mut() {
            self.sessions.open.lock().release();
        }
    }
}

/// Ends sessions that are no longer in the table, whose lock the end must not wait for.
fn end_each(ended: impl IntoIterator<Item = OpenSession<Arc<ClientSession>>>) {
    for ended in ended {
        ended.session.end();
    }
}

impl ClientSessions {
    pub fn new(kept: Option<Arc<dyn SharedStore>>) -> Self {
        let unclaimed = UnclaimedAnswers::new(MAX_UNCLAIMED_BYTES);
        Self { open: Mutex::default(), kept, unclaimed, ticks: SharedTicks::new(HEAD_INTERVAL) }
    }

    pub fn ids(&self) -> Vec<String> {
        self.open.lock().ids().map(ToString::to_string).collect()
    }

    /// The owner of a session that is open in this process.
    pub fn owner(&self, id: &str) -> Option<Arc<str>> {
        self.open.lock().get(id)?.owner.clone()
    }

    /// Sets the owner of a session that is open here, unless it has one.
    pub fn set_owner(&self, id: &str, client: &Arc<str>) {
        let mut open = self.open.lock();
        if let Some(unowned) = open.get(id).filter(|open| open.owner.is_none()) {
            unowned.session.sent.lock().owner = Arc::clone(client);
            open.set_owner(id, client);
        }
    }

    /// Room for another session of a client, for the request that may open it. When all is taken,
    /// one session is ended for it ([`SessionTable::remove_oldest`]), so that a client with many
    /// keeps nobody out.
    pub fn make_room(self: &Arc<Self>, client: &str) -> Option<SessionRoom> {
        let mut open = self.open.lock();
        let mut ended = None;
        if open.taken() >= MAX_SESSIONS {
            ended = Some(open.remove_oldest(client, |session| {
                let mut sent = session.sent.lock();
                SessionUse { since: sent.used, is_in_use: sent.is_in_use() }
            })?);
        }
        open.reserve();
        drop(open);
        end_each(ended);
        Some(SessionRoom { sessions: Arc::clone(self), is_left: AtomicBool::new(true) })
    }

    pub fn end_idle(&self) {
        self.end_where(|session| {
            let mut sent = session.sent.lock();
            sent.used.elapsed() > IDLE_TIMEOUT && !sent.is_in_use()
        });
    }

    pub fn end_all(&self) {
        self.end_where(|_| true);
    }

    fn end_where(&self, is_over: impl Fn(&ClientSession) -> bool) {
        let ended = self.open.lock().remove_where(|session| is_over(session));
        end_each(ended);
    }

    fn open(&self, id: SessionId) -> Result<SessionPipe, Error> {
        let (sender, first) = oneshot::channel();
        let sent = SentEvent::new(format!("{id}:common"), Arc::clone(&self.unclaimed));
        let session = Arc::new(ClientSession {
            sent: Mutex::new(sent),
            kept: self.kept.clone(),
            first: Mutex::new(Some(sender)),
            running: OnceLock::new(),
            is_released: AtomicBool::new(false),
            asked: Mutex::default(),
            calls: TaskTracker::new(),
            over: CancellationToken::new(),
        });
        let mut open = self.open.lock();
        if SessionRoom::take() {
            open.release();
        } else if open.taken() >= MAX_SESSIONS {
            return Err(Error::new(ErrorKind::QuotaExceeded, "too many sessions are open"));
        }
        open.insert(id, Arc::clone(&session));
        Ok(SessionPipe { first: Some(first), session })
    }

    /// Whether requests of the session can be answered here and need no shared store.
    pub fn answers(&self, id: &str) -> bool {
        let open = self.open.lock();
        self.kept.is_none() && open.get(id).is_some_and(|open| open.session.client().is_some())
    }

    /// Begins the event stream of a request. Returns the first event, the second one if that is ready
    /// within one or two `HEAD_INTERVAL`s, and a stream of the others.
    ///
    /// # Errors
    /// When the session has ended.
    pub async fn begin(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<
        (
            ServerSseMessage,
            Option<ServerSseMessage>,
            impl Stream<Item = ServerSseMessage> + Send + Sync + use<>,
        ),
        Error,
    > {
        let open = self.find(id)?;
        let stream_name = if self.kept.is_some() { random_hex::<16>()? } else { String::new() };
        let cancel = open.session.over.child_token();
        let named = (stream_name.clone(), cancel.clone());
        let (number, mut sent) = open.session.sent.lock().begin(&message, named);
        let first = match &self.kept {
            Some(kept) => append(&**kept, &stream_name, &priming(String::new())).await,
            None => format!("0/{number}"),
        };
        let mut asked = open.session.respond(message, cancel)?;
        // Polled here so that a quick answer needs no task of its own.
        let quick = async {
            tokio::select! {
                biased;
                event = sent.recv() => event,
                () = asked.answered() => sent.try_recv().ok(),
            }
        };
        let quick = tokio::select! {
            biased;
            event = quick => event,
            () = self.ticks.pass() => None,
        };
        drop(asked);
        Ok((priming(first), quick, events(sent)))
    }

    fn find(&self, id: &SessionId) -> Result<OpenSession<Arc<ClientSession>>, Error> {
        let open = self.open.lock().get(id).cloned();
        let open = open.ok_or_else(|| Error::new(ErrorKind::NotFound, "the session is over"))?;
        open.session.sent.lock().used = Instant::now();
        Ok(open)
    }
}

/// A request being answered; if dropped before completion, it continues as a task.
struct RunningRequest(Option<BoxFuture<'static, ()>>);

impl RunningRequest {
    async fn answered(&mut self) {
        if let Some(answered) = &mut self.0 {
            answered.await;
        }
        self.0 = None;
    }
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        if let Some(answered) = self.0.take() {
            tokio::spawn(answered);
        }
    }
}

impl SessionManager for ClientSessions {
    type Error = Error;
    type Transport = SessionPipe;

    async fn create_session(&self) -> Result<(SessionId, SessionPipe), Error> {
        let id = SessionId::from(random_hex::<16>()?);
        Ok((Arc::clone(&id), self.open(id)?))
    }

    async fn initialize_session(
        &self,
        id: &SessionId,
        mut message: ClientJsonRpcMessage,
    ) -> Result<ServerJsonRpcMessage, Error> {
        let open = self.find(id)?;
        message.insert_extension(Arc::clone(&open.session));
        let (hello, answer) = oneshot::channel();
        open.session.sent.lock().hello = Some(hello);
        let unanswered = || Error::new(ErrorKind::BrokenPipe, "it was not answered");
        let first = open.session.first.lock().take().ok_or_else(unanswered)?;
        first.send(Box::new(message)).map_err(|_| unanswered())?;
        answer.await.map_err(|_| unanswered())
    }

    async fn has_session(&self, id: &SessionId) -> Result<bool, Error> {
        Ok(self.open.lock().get(id).is_some())
    }

    /// rmcp calls it when its own connection is over, which ends only a handshake that failed; after
    /// that, when the client deletes the session.
    async fn close_session(&self, id: &SessionId) -> Result<(), Error> {
        let mut open = self.open.lock();
        let is_handshake = |session: &ClientSession| {
            session.running.get().is_some() && !session.is_released.swap(true, Ordering::Relaxed)
        };
        if open.get(id).is_none_or(|open| is_handshake(&open.session)) {
            return Ok(());
        }
        let ended = open.remove(id);
        drop(open);
        end_each(ended);
        Ok(())
    }

    async fn create_stream(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let (first, quick, later) = self.begin(id, message).await?;
        Ok(stream::iter([first].into_iter().chain(quick)).chain(later))
    }

    async fn accept_message(
        &self,
        id: &SessionId,
        message: ClientJsonRpcMessage,
    ) -> Result<(), Error> {
        self.find(id)?.session.accept(message);
        Ok(())
    }

    async fn create_standalone_stream(
        &self,
        id: &SessionId,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let sent = self.find(id)?.session.sent.lock().go_on(0, None);
        sent.map(events).ok_or_else(|| ErrorKind::NotFound.into())
    }

    async fn resume(
        &self,
        id: &SessionId,
        last: String,
    ) -> Result<impl Stream<Item = ServerSseMessage> + Send + Sync + 'static, Error> {
        let open = self.find(id)?;
        let (event, stream) = last.split_once('/').unwrap_or((&last, "0"));
        if let (Some(kept), true) = (&self.kept, last.contains('/')) {
            return Ok(events(follow(Arc::clone(kept), last)));
        }
        let unknown = |_| Error::new(ErrorKind::InvalidInput, "no event has this id");
        let (event, stream) = (event.parse().map_err(unknown)?, stream.parse().map_err(unknown)?);
        // With a store the events of this stream have other ids, so this one matches none of them.
        let after = self.kept.is_none().then_some(event);
        let sent = open.session.sent.lock().go_on(stream, after);
        let gone = || Error::new(ErrorKind::NotFound, "its stream has expired");
        Ok(events(sent.ok_or_else(gone)?))
    }

    async fn restore_session(&self, id: SessionId) -> Result<RestoreOutcome<SessionPipe>, Error> {
        if self.has_session(&id).await? {
            return Ok(RestoreOutcome::AlreadyPresent);
        }
        self.open(id).map(RestoreOutcome::Restored)
    }
}

/// Stores an event and returns its id. If storing fails, the event is still sent.
async fn append(store: &dyn SharedStore, stream: &str, event: &ServerSseMessage) -> String {
    let retry = event.retry.map(|retry| retry.as_millis() as u64);
    let kept = to_text(&KeptEvent { message: event.message.as_deref(), retry });
    let kept = kept.ok().filter(|kept| kept.len() <= MAX_EVENT_BYTES).unwrap_or_default();
    let keep = if is_answer(event) { ANSWER_LIFETIME } else { OPEN_EVENT_LIFETIME };
    store.append(stream, kept, keep).await.unwrap_or_else(|error| {
        tracing::warn!(target: "mcpdeck::gateway", "event not shared: {error}");
        format!("{stream}/0-0")
    })
}

/// Streams the events after `last` from the store, until the answer, which ends the stream of a
/// request, or until the stream has expired.
fn follow(store: Arc<dyn SharedStore>, mut last: String) -> StreamEvents {
    let (sender, events) = mpsc::channel(MESSAGE_CAPACITY);
    tokio::spawn(async move {
        while let Ok(Some(found)) = store.events_after(&last).await {
            for (id, kept) in found {
                last.clone_from(&id);
                let event = sent_before(id, &kept);
                // An event too large to store may have been the answer.
                let is_last = kept.is_empty() || is_answer(&event);
                if sender.send(event).await.is_err() || is_last {
                    return;
                }
            }
            tokio::select! {
                () = sender.closed() => return,
                () = tokio::time::sleep(STORE_INTERVAL) => {}
            }
        }
    });
    events
}

/// Restores an event from the store.
fn sent_before(id: String, kept: &str) -> ServerSseMessage {
    let kept = from_text(kept).and_then(|kept| serde_json::from_value(kept).ok());
    let kept: KeptEvent<Value> = kept.unwrap_or_default();
    let mut event = ServerSseMessage::default();
    event.event_id = Some(id);
    event.message = kept.message.and_then(message_of).map(Arc::new);
    event.retry = kept.retry.map(Duration::from_millis);
    event
}

/// Parses a message, keeping a result exactly as the server sent it.
fn message_of(mut message: Value) -> Option<ServerJsonRpcMessage> {
    let Some(result) = message.get_mut("result").map(Value::take) else {
        return serde_json::from_value(message).ok();
    };
    let id = serde_json::from_value(message["id"].take()).ok()?;
    Some(ServerJsonRpcMessage::response(CustomResult(result).into(), id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    async fn open(sessions: &Arc<ClientSessions>, client: &str, id: &SessionId) {
        let room = sessions.make_room(client);
        assert!(room.is_some(), "{client} {id}");
        let opened = SessionRoom::fill(room, async { sessions.open(Arc::clone(id)) }).await;
        opened.expect("there is room");
    }

    #[tokio::test]
    async fn clients_that_come_at_the_same_time_take_no_room_from_each_other() {
        let sessions = Arc::new(ClientSessions::new(None));
        let ids: Vec<SessionId> = (0..MAX_SESSIONS).map(|n| format!("{n:04}").into()).collect();
        for id in &ids {
            open(&sessions, "a", id).await;
            sessions.set_owner(id, &Arc::from("a"));
        }
        // Both have been let in before the first of them opens its session.
        let rooms = [sessions.make_room("a"), sessions.make_room("a")];
        for (n, room) in rooms.into_iter().enumerate() {
            assert!(room.is_some());
            let id: SessionId = format!("next-{n}").into();
            SessionRoom::fill(room, async { sessions.open(id) }).await.expect("there is room");
        }
        assert_eq!(sessions.ids().len(), MAX_SESSIONS);
        // A request that opens none gives its room back.
        drop(sessions.make_room("a"));
        assert_eq!(sessions.open.lock().taken(), MAX_SESSIONS - 1);
    }

    #[tokio::test]
    async fn a_client_that_leaves_its_sessions_behind_keeps_no_other_out() {
        let sessions = Arc::new(ClientSessions::new(None));
        let ids: Vec<SessionId> = (0..MAX_SESSIONS).map(|n| format!("{n:04}").into()).collect();
        for (n, id) in ids.iter().enumerate() {
            open(&sessions, "b", id).await;
            sessions.set_owner(id, &Arc::from(if n < 10 { "a" } else { "b" }));
        }
        // The oldest of `b` listens.
        let stream = sessions.find(&ids[10]).expect("open").session.sent.lock().go_on(0, None);
        let room = sessions.make_room("a");
        let ended: Vec<_> = ids.iter().filter(|id| sessions.owner(id).is_none()).collect();
        assert_eq!(ended, [&ids[11]]);
        let opened = SessionRoom::fill(room, async { sessions.open(Arc::clone(&ids[11])) }).await;
        opened.expect("there is room");
        sessions.set_owner(&ids[11], &Arc::from("a"));
        assert!(
            sessions.make_room("b").is_some(),
            "its own sessions, which nobody uses, are no obstacle"
        );
        assert!(sessions.owner(&ids[12]).is_none() && sessions.owner(&ids[0]).is_some());
        drop(stream);
    }

    /// Answers nothing.
    struct Silent;

    impl SessionServer for Silent {
        fn respond(
            self: Arc<Self>,
            _: ClientRequest,
            _: RequestContext<RoleServer>,
        ) -> BoxFuture<'static, Result<ServerResult, ErrorData>> {
            std::future::pending().boxed()
        }

        fn client_ready(&self, _: Weak<ClientSession>, _: &Extensions) {}
    }

    /// Opens a session whose handshake is over, also for rmcp.
    async fn running(sessions: &ClientSessions, id: &SessionId) -> Arc<ClientSession> {
        let session = sessions.open(Arc::clone(id)).expect("there is room").session;
        session.run(InitializeRequestParams::default(), Arc::new(Silent));
        sessions.close_session(id).await.expect("released");
        session
    }

    #[tokio::test]
    async fn a_session_outlives_its_handshake_and_ends_when_it_is_deleted() {
        let sessions = ClientSessions::new(None);
        let (kept, failed) = (SessionId::from("kept"), SessionId::from("failed"));
        let session = running(&sessions, &kept).await;
        sessions.open(Arc::clone(&failed)).expect("there is room");
        sessions.close_session(&failed).await.expect("closed");
        assert_eq!(sessions.ids(), ["kept"], "a handshake that failed leaves nothing");
        assert!(!session.over.is_cancelled());
        sessions.close_session(&kept).await.expect("deleted");
        assert!(sessions.ids().is_empty() && session.over.is_cancelled());
    }

    #[tokio::test]
    async fn a_question_is_answered_by_the_session_that_was_asked() {
        let sessions = ClientSessions::new(None);
        let ids = ["a", "b"].map(SessionId::from);
        let asked = running(&sessions, &ids[0]).await;
        running(&sessions, &ids[1]).await;
        let question = json!({"method": "ping"});
        let question = serde_json::from_value(question).expect("a request");
        let waiting = tokio::spawn({
            let asked = Arc::clone(&asked);
            async move { asked.request(question).await }
        });
        while asked.asked.lock().waiting.is_empty() {
            tokio::task::yield_now().await;
        }
        let answer = |from: &str| {
            let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"from": from}});
            serde_json::from_value(answer).expect("an answer")
        };
        sessions.accept_message(&ids[1], answer("b")).await.expect("taken");
        assert_eq!(asked.asked.lock().waiting.len(), 1, "nobody answers for another");
        sessions.accept_message(&ids[0], answer("a")).await.expect("taken");
        let answer = waiting.await.expect("no panic").expect("answered");
        assert_eq!(json!(answer)["from"], "a");
        // A session that ends leaves nobody waiting.
        let question = serde_json::from_value(json!({"method": "ping"})).expect("a request");
        let waiting = tokio::spawn({
            let asked = Arc::clone(&asked);
            async move { asked.request(question).await }
        });
        sessions.close_session(&ids[0]).await.expect("deleted");
        assert!(waiting.await.expect("no panic").is_err());
    }

    #[test]
    fn answers_that_nobody_claims_take_so_much_room_and_no_more() {
        let room = UnclaimedAnswers::new(6 * MIN_ANSWER_BYTES);
        let session = |owner: &str| {
            let sent = SentEvent::new(String::new(), Arc::clone(&room));
            SentEvent { owner: owner.into(), ..sent }
        };
        let (mut many, mut other) = (session("many"), session("other"));
        let answer = |sent: &mut SentEvent, id: u32| {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
            let request = serde_json::from_value(request).expect("a request");
            let (number, connection) =
                sent.begin(&request, (String::new(), CancellationToken::new()));
            drop(connection);
            let answer = message_of(json!({"id": id, "result": {"text": "x".repeat(5_000)}}));
            assert!(sent.push(ServerSseMessage::from_message(answer.expect("one"))).is_none());
            let claimed = sent.go_on(number, None);
            claimed.and_then(|mut events| events.try_recv().ok()).is_some()
        };
        let taken = || room.by_client.lock().values().sum::<usize>();
        assert!(answer(&mut many, 1) && answer(&mut many, 2));
        assert!(!answer(&mut many, 3), "it would leave less than it has");
        assert!(answer(&mut other, 1), "another client finds room");
        assert!(!answer(&mut other, 2) && taken() <= 6 * MIN_ANSWER_BYTES);
        drop(many);
        assert!(answer(&mut other, 3));
        drop(other);
        assert_eq!(taken(), 0);
    }
}
