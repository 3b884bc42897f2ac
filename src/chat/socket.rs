//! The chat of `serve --chat`: a WebSocket at `/ws` with heartbeat, limits and validated input, and
//! the page at `/`. The embedding service authenticates tokens.

mod message;
mod sign_in;

use std::fmt::Write as _;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::future::OptionFuture;
use futures::{SinkExt as _, StreamExt as _};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error as SocketError, Message as Frame};
use tokio_util::sync::CancellationToken;

use crate::files::{UserInput, append_file};
use crate::llm::WithFiles;
use crate::media::ToolMedia;
use crate::prompt::SystemPrompt;
use crate::session::{ChatSession, ChatSessions, MessageRefusal, Replaced, SUMMARISED};
use base::text::SafeText;
use host::Principal;
pub use message::ws_schema;
use message::{AttachedFile, ClientMessage, MessageForm, PAYLOAD_PROTOCOL};
pub use sign_in::{LINK_PATH, SignIns};

/// Authenticates a token: returns its caller and a token that is cancelled when it ends; `None` if
/// it does not allow the chat.
pub type Authenticate = Arc<dyn Fn(&str) -> Option<ChatCaller> + Send + Sync>;

/// A caller, and what is cancelled when its token ends.
pub type ChatCaller = (Principal, CancellationToken);

/// Limits of connections.
#[derive(Clone, Copy, Debug)]
pub struct SocketLimits {
    /// Interval between pings; a connection that is silent for three intervals is closed.
    pub heartbeat: Duration,
    /// Timeout for receiving the token.
    pub token: Duration,
    /// Maximum number of concurrent connections.
    pub connections: usize,
    /// Maximum number of messages per connection and minute.
    pub per_minute: u32,
    /// Maximum number of pings and pongs per connection and minute: each ping is answered, also
    /// for a client that does not read.
    pub pings_per_minute: u32,
    /// Maximum size of a message, in bytes.
    pub bytes: usize,
}

impl Default for SocketLimits {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(15),
            token: Duration::from_secs(10),
            connections: 2_000,
            per_minute: 120,
            pings_per_minute: 600,
            bytes: 256 << 10,
        }
    }
}

/// Size of the read buffer, in bytes; small, because thousands of connections may be idle. It grows
/// with a message that is longer.
const READ_BUFFER_BYTES: usize = 1 << 10;

/// Maximum number of bytes that are read away from a connection that is closed.
const MAX_DRAINED_BYTES: usize = 32 << 20;
/// Longest time for which they are.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);

/// State shared by all connections.
struct ChatService {
    sessions: Arc<ChatSessions>,
    who: Authenticate,
    limits: SocketLimits,
    sign_ins: Arc<SignIns>,
    /// Limits the number of connections.
    places: Arc<Semaphore>,
}

/// The routes of the WebSocket, the page and its sign-in; `sign_ins` makes links to it.
pub fn routes(
    sessions: Arc<ChatSessions>,
    who: Authenticate,
    limits: SocketLimits,
    sign_ins: Arc<SignIns>,
) -> Router {
    let places = Arc::new(Semaphore::new(limits.connections));
    let service = Arc::new(ChatService { sessions, who, limits, sign_ins, places });
    Router::new()
        .route("/ws", get(upgrade))
        .route("/ws/signed-in", get(sign_in::is_signed_in))
        .route("/login", get(sign_in::by_link).post(sign_in::by_token))
        .route("/", get(page))
        .with_state(service)
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(header::AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

static PAGE: LazyLock<String> = LazyLock::new(|| deck::with_questions(include_str!("page.html")));

/// Serves the page; its CSP permits only the inline script and style, by hash.
async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, deck::page_policy(&PAGE, "img-src blob:; ")),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (headers, PAGE.as_str()).into_response()
}

async fn upgrade(State(service): State<Arc<ChatService>>, mut request: Request) -> Response {
    let headers = request.headers();
    let who = bearer(headers).and_then(|token| (service.who)(token));
    let is_given = headers.contains_key(header::AUTHORIZATION);
    if is_given && who.is_none() {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response();
    }
    let (cookie, who) = match sign_in::signed_in(&service, headers).filter(|_| !is_given) {
        Some((cookie, who)) => (Some(cookie), Some(who)),
        None => (None, who),
    };
    let (key, form) = match handshake(&request) {
        Ok(handshake) => handshake,
        Err(why) => {
            return (StatusCode::BAD_REQUEST, [(header::UPGRADE, "websocket")], why)
                .into_response();
        }
    };
    let from = match ResumePoint::from_query(request.uri().query().unwrap_or_default()) {
        Ok(from) => from,
        Err(why) => return (StatusCode::BAD_REQUEST, why).into_response(),
    };
    // Released with the connection, even if that ends before the upgrade.
    let Ok(place) = Arc::clone(&service.places).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many connections").into_response();
    };
    let bytes = Some(service.limits.bytes);
    let limits = WebSocketConfig::default().max_message_size(bytes).max_frame_size(bytes);
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(stream) = upgraded.await else { return };
        let (stream, limits) = (TokioIo::new(stream), limits.read_buffer_size(READ_BUFFER_BYTES));
        let socket = WebSocketStream::from_raw_socket(stream, Role::Server, Some(limits)).await;
        let is_fixed = form == MessageForm::Payload;
        let mut connection = Connection { service, socket, form, is_fixed, from, cookie };
        if let Err((code, reason)) = connection.run(who).await {
            connection.close(code, reason).await;
        }
        drop(place);
    });
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.extend([(header::SEC_WEBSOCKET_ACCEPT, key)]);
    if form == MessageForm::Payload {
        let protocol = HeaderValue::from_static(PAYLOAD_PROTOCOL);
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    response
}

/// Reads the opening handshake of a client (RFC 6455, section 4.2): the answer to its key, and the
/// form of messages that it asks for.
fn handshake(request: &Request) -> Result<(HeaderValue, MessageForm), &'static str> {
    let headers = request.headers();
    let lists = |name: HeaderName, word: &str| {
        let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        let mut words = values.flat_map(|value| value.split(',').map(str::trim));
        words.any(|one| one.eq_ignore_ascii_case(word))
    };
    if !lists(header::CONNECTION, "upgrade") || !lists(header::UPGRADE, "websocket") {
        return Err(
            "this is a WebSocket: `Connection: upgrade` and `Upgrade: websocket` are expected",
        );
    }
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Err("version 13 of the WebSocket protocol is expected");
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or("`Sec-WebSocket-Key` is missing")?;
    let key = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
    let key = key.map_err(|_| "`Sec-WebSocket-Key` cannot be used")?;
    let is_payload = lists(header::SEC_WEBSOCKET_PROTOCOL, PAYLOAD_PROTOCOL);
    Ok((key, if is_payload { MessageForm::Payload } else { MessageForm::Flat }))
}

/// Why a connection is closed: code (RFC 6455, section 7.4) and reason.
type End = (CloseCode, &'static str);

const TOO_LARGE: End = (CloseCode::Size, "the message is too large");
const NO_FRAME: End = (CloseCode::Protocol, "this is no WebSocket frame");
const GONE: End = (CloseCode::Away, "the client is gone");

/// Why a frame could not be read.
fn unreadable(error: &SocketError) -> End {
    match error {
        SocketError::Capacity(_) => TOO_LARGE,
        SocketError::Protocol(_) => NO_FRAME,
        SocketError::Utf8(_) => (CloseCode::Invalid, "text is not UTF-8"),
        _ => GONE,
    }
}

/// Where a client goes on that names its session in the address.
struct ResumePoint {
    session: String,
    /// The last event that it saw; without, those are sent that no connection was sent.
    last_seq: Option<u64>,
}

impl ResumePoint {
    /// Reads the query of the address.
    fn from_query(query: &str) -> Result<Option<Self>, &'static str> {
        let value = |key: &str| {
            let mut all = url::form_urlencoded::parse(query.as_bytes());
            all.find(|(name, _)| name == key).map(|(_, value)| value.into_owned())
        };
        let Some(session) = value("sessionId").filter(|id| !id.is_empty()) else { return Ok(None) };
        let last_seq = value("lastSeq").map(|number| number.parse::<u64>()).transpose();
        let last_seq = last_seq.map_err(|_| "lastSeq is the number of an event")?;
        Ok(Some(Self { session, last_seq }))
    }
}

struct Connection {
    service: Arc<ChatService>,
    socket: WebSocketStream<TokioIo<Upgraded>>,
    /// The form in which the client writes.
    form: MessageForm,
    /// Whether the client asked for that form.
    is_fixed: bool,
    from: Option<ResumePoint>,
    /// The cookie it was opened with.
    cookie: Option<String>,
}

impl Connection {
    async fn run(&mut self, caller: Option<ChatCaller>) -> Result<(), End> {
        let (who, cut) = match caller {
            Some(caller) => caller,
            None => self.token().await?,
        };
        let ended = Err((CloseCode::Policy, "the token has ended"));
        cut.run_until_cancelled(self.serve(who, &cut)).await.unwrap_or(ended)
    }

    /// Serves a client with its token.
    async fn serve(&mut self, who: Principal, cut: &CancellationToken) -> Result<(), End> {
        let full = (CloseCode::Again, "too many sessions");
        let from = self.from.take();
        let found = match &from {
            Some(from) => self.service.sessions.find(&from.session, &who).await,
            None => None,
        };
        let is_found = found.is_some();
        let session = found.or_else(|| self.service.sessions.open(who.clone())).ok_or(full)?;
        let mut here = ConnectedSession::new(&self.service.sessions, session);
        let last_seq = from.as_ref().and_then(|from| from.last_seq);
        let mut seen = last_seq.filter(|_| is_found).unwrap_or_else(|| here.session.delivered());
        let how = match (&from, is_found) {
            (None, _) => ConnectedHow::New,
            (Some(_), true) => ConnectedHow::Resumed,
            (Some(_), false) => ConnectedHow::Lost,
        };
        self.connected(&here.session, how).await?;
        self.catch_up(&here.session, &mut seen).await?;
        let mut newest = here.session.newest();
        let limits = self.service.limits;
        let mut beat = tokio::time::interval(limits.heartbeat);
        let mut last_received = Instant::now();
        let (mut minute, mut count, mut pings) = (Instant::now(), 0, 0);
        // Servers may be slow to describe their tools.
        let mut prompt = OptionFuture::from(None);
        loop {
            tokio::select! {
                frame = self.socket.next() => {
                    last_received = Instant::now();
                    if minute.elapsed() >= Duration::from_secs(60) {
                        (minute, count, pings) = (Instant::now(), 0, 0);
                    }
                    let text = match frame {
                        Some(Ok(Frame::Text(text))) => text,
                        Some(Ok(Frame::Ping(_) | Frame::Pong(_) | Frame::Frame(_))) => {
                            pings += 1;
                            if pings > limits.pings_per_minute {
                                return Err((CloseCode::Policy, "too many pings in a minute"));
                            }
                            continue;
                        }
                        Some(Ok(Frame::Binary(_))) => {
                            return Err((CloseCode::Unsupported, "text is expected"));
                        }
                        Some(Err(error)) => return Err(unreadable(&error)),
                        Some(Ok(Frame::Close(_))) | None => return Ok(()),
                    };
                    count += 1;
                    if count > limits.per_minute {
                        return Err((CloseCode::Policy, "too many messages in a minute"));
                    }
                    let message = match self.read(&text) {
                        Ok(message) => message,
                        Err(why) => {
                            self.error("invalid", &why).await?;
                            continue;
                        }
                    };
                    if let ClientMessage::Prompt = message {
                        let agent = here.session.agent();
                        let composed = async move { agent.system_prompt().await };
                        prompt = Some(Box::pin(composed)).into();
                    } else if let Some((other, how, from)) =
                        self.manage(&here.session, &message, &who).await?
                    {
                        here = ConnectedSession::new(&self.service.sessions, other);
                        newest = here.session.newest();
                        seen = from;
                        self.connected(&here.session, how).await?;
                        self.catch_up(&here.session, &mut seen).await?;
                    } else if !message.is_about_sessions() {
                        self.handle(&here.session, message, cut).await?;
                    }
                }
                Some(SystemPrompt { text, costs }) = &mut prompt => {
                    prompt = None.into();
                    self.send(&json!({"type": "prompt", "text": text, "costs": costs})).await?;
                }
                _ = newest.changed() => self.catch_up(&here.session, &mut seen).await?,
                _ = beat.tick() => {
                    if last_received.elapsed() > limits.heartbeat * 3 {
                        return Err((CloseCode::Policy, "no answer to pings"));
                    }
                    self.send_frame(Frame::Ping(bytes::Bytes::new())).await?;
                }
            }
        }
    }

    /// Carries out what a message asks of sessions; returns the session to go on with, if it is
    /// another one, how it came, and the last event that the client saw of it.
    async fn manage(
        &mut self,
        here: &ChatSession,
        message: &ClientMessage,
        who: &Principal,
    ) -> Result<Option<OtherSession>, End> {
        let sessions = Arc::clone(&self.service.sessions);
        let full = (CloseCode::Again, "too many sessions");
        let new = || sessions.open(who.clone()).ok_or(full);
        match message {
            ClientMessage::Resume { session, last_seq } => {
                let found = sessions.find(session, who).await;
                if let Some(found) = found {
                    return Ok(Some((found, ConnectedHow::Resumed, *last_seq)));
                }
                self.error("noSession", "there is no such session").await?;
            }
            ClientMessage::New => return Ok(Some((new()?, ConnectedHow::New, 0))),
            ClientMessage::Branch { at } => match sessions.branch(here, *at).await {
                Ok(copy) => return Ok(Some((copy, ConnectedHow::Resumed, 0))),
                Err(None) => return Err(full),
                Err(Some(_)) => self.error("invalid", SUMMARISED).await?,
            },
            ClientMessage::Sessions { query } => self.list(who, query).await?,
            ClientMessage::Rename { session, title } => {
                if !sessions.rename(session, who, title).await {
                    self.error("invalid", "there is no such session").await?;
                }
                self.list(who, "").await?;
            }
            ClientMessage::Delete { session } => {
                if !sessions.delete(session, who).await {
                    self.error("invalid", "there is no such session").await?;
                }
                if *session == here.id {
                    return Ok(Some((new()?, ConnectedHow::New, 0)));
                }
                self.list(who, "").await?;
            }
            ClientMessage::SignOut => {
                if let Some(cookie) = &self.cookie {
                    self.service.sign_ins.end(cookie);
                }
                return Err((CloseCode::Normal, "signed out"));
            }
            ClientMessage::Auth { .. }
            | ClientMessage::Message { .. }
            | ClientMessage::Answer { .. }
            | ClientMessage::Reply { .. }
            | ClientMessage::Abort
            | ClientMessage::AbortTool { .. }
            | ClientMessage::Picture { .. }
            | ClientMessage::Prompt
            | ClientMessage::Ping => {}
        }
        Ok(None)
    }

    /// Sends the sessions that hold these words.
    async fn list(&mut self, who: &Principal, words: &str) -> Result<(), End> {
        let found = self.service.sessions.list(who, words).await.into_iter();
        let found: Vec<Value> =
            found.map(|(id, title)| json!({"id": id, "title": title})).collect();
        self.send(&json!({"type": "sessions", "sessions": found})).await
    }

    /// Reads a message, and keeps the form in which it is written.
    fn read(&mut self, text: &str) -> Result<ClientMessage, String> {
        let (form, message) = message::parse(text);
        if !self.is_fixed {
            self.form = form.unwrap_or(self.form);
        }
        message
    }

    /// Waits for the token as the first message.
    async fn token(&mut self) -> Result<ChatCaller, End> {
        let refused = (CloseCode::Policy, "the first message is the token");
        let first = tokio::time::timeout(self.service.limits.token, self.socket.next()).await;
        let Ok(Some(Ok(Frame::Text(text)))) = first else { return Err(refused) };
        match self.read(&text) {
            Ok(ClientMessage::Auth { token }) => {
                (self.service.who)(&token).ok_or((CloseCode::Policy, "the token is not known"))
            }
            _ => Err(refused),
        }
    }

    async fn handle(
        &mut self,
        session: &Arc<ChatSession>,
        message: ClientMessage,
        cut: &CancellationToken,
    ) -> Result<(), End> {
        let (code, why) = match message {
            ClientMessage::Message { text, at, files, keep_files }
                if text.trim().is_empty() && files.is_empty() && !(keep_files && at.is_some()) =>
            {
                ("invalid", "the message is empty")
            }
            ClientMessage::Message { text, at, files, keep_files: keeps_files } => {
                let Some(input) = with_attached(&text, files) else {
                    let why = "a file has `text`, or `data` and `mimeType`";
                    return self.error("invalid", why).await;
                };
                let replaced = Replaced { at, keeps_files };
                match session.begin_with(text, input, replaced, cut.child_token()) {
                    Ok(()) => return Ok(()),
                    Err(MessageRefusal::NoFiles) => {
                        ("noFiles", "the pictures of that message are gone: attach them again")
                    }
                    Err(MessageRefusal::Busy) => ("busy", "a turn is under way: abort it first"),
                    Err(MessageRefusal::NoSuchMessage) => ("invalid", "there is no such message"),
                    Err(MessageRefusal::Summarised) => ("invalid", SUMMARISED),
                    Err(MessageRefusal::Deleted) => ("noSession", "the session was deleted"),
                }
            }
            ClientMessage::Answer { id, answer } if session.answer(id, answer) => return Ok(()),
            ClientMessage::Answer { .. } => ("idle", "no such question is open, or not for you"),
            ClientMessage::Reply { id, answer } => match session.reply(id, &answer) {
                Ok(()) => return Ok(()),
                Err(why) => return self.error("invalid", &why).await,
            },
            ClientMessage::Abort if session.abort() => return Ok(()),
            ClientMessage::Abort => ("idle", "no turn is under way"),
            ClientMessage::AbortTool { id } if session.agent().cancel_call(&id) => return Ok(()),
            ClientMessage::AbortTool { .. } => ("idle", "no such call is under way"),
            ClientMessage::Picture { call, at } => {
                let mut message = json!({"type": "picture", "call": call, "at": at});
                if let Some((mime, data)) = session.picture(&call, at) {
                    message["mimeType"] = json!(mime);
                    message["data"] = json!(data);
                }
                return self.send(&message).await;
            }
            ClientMessage::Ping => return self.send(&json!({"type": "pong"})).await,
            ClientMessage::Auth { .. } => ("invalid", "the connection has its token already"),
            ClientMessage::Resume { .. }
            | ClientMessage::Prompt
            | ClientMessage::Sessions { .. }
            | ClientMessage::New
            | ClientMessage::Rename { .. }
            | ClientMessage::Delete { .. }
            | ClientMessage::Branch { .. }
            | ClientMessage::SignOut => return Ok(()),
        };
        self.error(code, why).await
    }

    async fn connected(&mut self, session: &ChatSession, how: ConnectedHow) -> Result<(), End> {
        let resumed = how == ConnectedHow::Resumed;
        let words = match how {
            ConnectedHow::New => "a new session",
            ConnectedHow::Resumed => "the session goes on",
            ConnectedHow::Lost => "there is no such session: this is a new one",
        };
        let mut message = json!({
            "type": "connection",
            "status": "connected",
            "sessionId": session.id,
            "epoch": session.epoch,
            "model": session.agent().model().name(),
            "resumed": resumed,
            "message": words,
        });
        // For a client that reads the other form and has not written yet.
        message["payload"] =
            json!({"state": "connected", "message": words, "sessionId": session.id});
        self.send(&message).await
    }

    /// Closes the connection, and tells why.
    async fn close(&mut self, code: CloseCode, reason: &'static str) {
        if self.form == MessageForm::Payload {
            let payload = json!({"state": "disconnected", "message": reason});
            let message = json!({"type": "connection", "payload": payload}).to_string();
            _ = self.send_frame(Frame::Text(message.into())).await;
        }
        let frame = CloseFrame { code, reason: reason.into() };
        _ = self.send_frame(Frame::Close(Some(frame))).await;
        // A socket that is closed with unread data is reset, and the client may never see why.
        let stream = self.socket.get_mut();
        let drained = async {
            _ = stream.shutdown().await;
            let mut bytes = [0; 4 << 10];
            let mut left = MAX_DRAINED_BYTES;
            while let Ok(count @ 1..) = stream.read(&mut bytes).await {
                let Some(rest) = left.checked_sub(count) else { return };
                left = rest;
            }
        };
        _ = tokio::time::timeout(DRAIN_TIMEOUT, drained).await;
    }

    /// Sends the events after `seen`.
    async fn catch_up(&mut self, session: &ChatSession, seen: &mut u64) -> Result<(), End> {
        let (snapshot, events) = session.since(*seen);
        if let Some(snapshot) = snapshot {
            *seen = snapshot["seq"].as_u64().unwrap_or(*seen).max(*seen);
            self.send(&json!({"type": "truncated", "snapshot": snapshot})).await?;
        }
        for (number, event) in events {
            match self.form {
                MessageForm::Flat => self.send_frame(Frame::Text((&*event).into())).await?,
                MessageForm::Payload => {
                    self.send(&serde_json::from_str(&event).unwrap_or_default()).await?;
                }
            }
            *seen = number;
            session.deliver(number);
        }
        Ok(())
    }

    async fn error(&mut self, code: &str, message: &str) -> Result<(), End> {
        self.send(&json!({"type": "error", "code": code, "message": message})).await
    }

    /// Sends a message in the form of the client.
    async fn send(&mut self, message: &Value) -> Result<(), End> {
        let text = match self.form {
            MessageForm::Flat => message.to_string(),
            MessageForm::Payload => match message::in_payload(message.clone()) {
                Some(message) => message.to_string(),
                None => return Ok(()),
            },
        };
        self.send_frame(Frame::Text(text.into())).await
    }

    /// Sends a frame; a client that does not read in time is disconnected, but may resume.
    async fn send_frame(&mut self, frame: Frame) -> Result<(), End> {
        let timeout = self.service.limits.heartbeat * 3;
        match tokio::time::timeout(timeout, self.socket.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(GONE),
        }
    }
}

/// A message with its files; `None` when one of them is neither text nor a picture.
fn with_attached(text: &str, files: Vec<AttachedFile>) -> Option<UserInput> {
    let mut input = UserInput::from(text.trim_start().to_owned());
    if files.is_empty() {
        return Some(input);
    }
    let mut attached = WithFiles { written: input.text.clone(), ..WithFiles::default() };
    for AttachedFile { name, text, data, mime_type } in files {
        let name = SafeText::cut(&name, 200).to_string();
        match (text, data, mime_type) {
            (Some(text), None, None) => append_file(&mut input.text, &name, &text),
            (None, Some(data), Some(mime)) => {
                let _ = write!(input.text, "\n[{name}]");
                attached.pictures += 1;
                input.media.push(ToolMedia { mime, data: data.into() });
            }
            _ => return None,
        }
        attached.names.push(name);
    }
    let start = input.text.len() - input.text.trim_start().len();
    input.text.drain(..start);
    input.attached = Some(Box::new(attached));
    Some(input)
}

/// Another session for a connection, how it came, and the last event that the client saw of it.
type OtherSession = (Arc<ChatSession>, ConnectedHow, u64);

/// How a connection got its session.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnectedHow {
    New,
    /// It goes on.
    Resumed,
    /// It is new, as the one that was named is not known.
    Lost,
}

/// A session attached to a connection; detached on drop.
struct ConnectedSession {
    sessions: Arc<ChatSessions>,
    session: Arc<ChatSession>,
}

impl ConnectedSession {
    fn new(sessions: &Arc<ChatSessions>, session: Arc<ChatSession>) -> Self {
        session.attach();
        session.answers(true);
        Self { sessions: Arc::clone(sessions), session }
    }
}

impl Drop for ConnectedSession {
    fn drop(&mut self) {
        self.session.answers(false);
        self.session.detach();
        self.sessions.close_unused(&self.session);
    }
}
