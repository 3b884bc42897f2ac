//! The chat of `serve --chat`: a WebSocket at `/ws` with heartbeat, limits and validated input, and
//! the page at `/`. The embedding service authenticates tokens.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message as Frame, WebSocket, WebSocketUpgrade, close_code};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use futures::future::OptionFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::prompt::SystemPrompt;
use crate::session::{ChatSession, ChatSessions, ConsentAnswer, MessageRefusal};
use host::Principal;
use mcp::ApprovalId;

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

/// Size of the read buffer, in bytes; small, because thousands of connections may be idle.
const BUFFER: usize = 4 << 10;

/// State shared by all connections.
struct ChatService {
    sessions: Arc<ChatSessions>,
    who: Authenticate,
    limits: SocketLimits,
    /// Limits the number of connections.
    places: Arc<Semaphore>,
}

/// A message from a client.
#[derive(Debug, Deserialize)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    deny_unknown_fields
)]
enum ClientMessage {
    /// The token, unless it was sent as a header.
    Auth { token: String },
    /// A message of the user; replaces their message number `at`, if given.
    Message {
        text: String,
        #[serde(default)]
        at: Option<usize>,
    },
    /// Resume a session after event `lastSeq`.
    Resume { session: String, last_seq: u64 },
    /// Answer a question about a call.
    Answer { id: ApprovalId, answer: ConsentAnswer },
    /// Abort the turn.
    Abort,
    /// Cancel one call.
    AbortTool { id: String },
    /// Request the system prompt and its costs.
    Prompt,
    /// Request a pong.
    Ping,
}

/// The routes `/ws` and `/`.
pub fn routes(sessions: Arc<ChatSessions>, who: Authenticate, limits: SocketLimits) -> Router {
    let places = Arc::new(Semaphore::new(limits.connections));
    let service = Arc::new(ChatService { sessions, who, limits, places });
    Router::new().route("/ws", get(upgrade)).route("/", get(page)).with_state(service)
}

const PAGE: &str = include_str!("page.html");

/// Serves the page; its CSP permits only the inline script and style, by hash.
async fn page() -> Response {
    let hash = |tag: &str| {
        let part = PAGE
            .split_once(&format!("<{tag}>"))
            .and_then(|(_, rest)| rest.split_once(&format!("</{tag}>")).map(|(inner, _)| inner));
        base64::engine::general_purpose::STANDARD.encode(Sha256::digest(part.unwrap_or_default()))
    };
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash("script"),
        hash("style")
    );
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (headers, PAGE).into_response()
}

async fn upgrade(
    State(service): State<Arc<ChatService>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let given = headers.get(header::AUTHORIZATION);
    let token = given.and_then(|value| value.to_str().ok()?.split_once(' '));
    let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let who = token.and_then(|(_, token)| (service.who)(token.trim()));
    if given.is_some() && who.is_none() {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response();
    }
    // Released with the connection, even if that ends before the upgrade.
    let Ok(place) = Arc::clone(&service.places).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many connections").into_response();
    };
    let bytes = service.limits.bytes;
    let upgrade = upgrade.max_message_size(bytes).max_frame_size(bytes).read_buffer_size(BUFFER);
    upgrade.on_upgrade(move |socket| async move {
        let mut connection = Connection { service, socket };
        if let Err((code, reason)) = connection.run(who).await {
            let frame = CloseFrame { code, reason: reason.into() };
            connection.send_frame(Frame::Close(Some(frame))).await.ok();
        }
        drop(place);
    })
}

/// Why a connection is closed: code (RFC 6455, section 7.4) and reason.
type End = (u16, &'static str);

/// An oversized message or an invalid frame.
const UNREADABLE: End = (close_code::POLICY, "the message is too large, or no frame");
const GONE: End = (close_code::AWAY, "the client is gone");

struct Connection {
    service: Arc<ChatService>,
    socket: WebSocket,
}

impl Connection {
    async fn run(&mut self, caller: Option<ChatCaller>) -> Result<(), End> {
        let (who, cut) = match caller {
            Some(caller) => caller,
            None => self.token().await?,
        };
        let ended = Err((close_code::POLICY, "the token has ended"));
        cut.run_until_cancelled(self.serve(who, &cut)).await.unwrap_or(ended)
    }

    /// Serves a client with its token.
    async fn serve(&mut self, who: Principal, cut: &CancellationToken) -> Result<(), End> {
        let full = (close_code::AGAIN, "too many sessions");
        let session = self.service.sessions.open(who.clone()).ok_or(full)?;
        let mut here = ConnectedSession::new(&self.service.sessions, session);
        self.connected(&here.session, false).await?;
        let mut seen = 0;
        let mut newest = here.session.newest();
        let limits = self.service.limits;
        let mut beat = tokio::time::interval(limits.heartbeat);
        let mut last_received = Instant::now();
        let (mut minute, mut count, mut pings) = (Instant::now(), 0, 0);
        // Servers may be slow to describe their tools.
        let mut prompt = OptionFuture::from(None);
        loop {
            tokio::select! {
                frame = self.socket.recv() => {
                    last_received = Instant::now();
                    if minute.elapsed() >= Duration::from_secs(60) {
                        (minute, count, pings) = (Instant::now(), 0, 0);
                    }
                    let text = match frame {
                        Some(Ok(Frame::Text(text))) => text,
                        Some(Ok(Frame::Ping(_) | Frame::Pong(_))) => {
                            pings += 1;
                            if pings > limits.pings_per_minute {
                                return Err((close_code::POLICY, "too many pings in a minute"));
                            }
                            continue;
                        }
                        Some(Ok(Frame::Binary(_))) => {
                            return Err((close_code::UNSUPPORTED, "text is expected"));
                        }
                        Some(Err(_)) => return Err(UNREADABLE),
                        Some(Ok(Frame::Close(_))) | None => return Ok(()),
                    };
                    count += 1;
                    if count > limits.per_minute {
                        return Err((close_code::POLICY, "too many messages in a minute"));
                    }
                    let message: ClientMessage = match serde_json::from_str(&text) {
                        Ok(message) => message,
                        Err(error) => {
                            self.error("invalid", &error.to_string()).await?;
                            continue;
                        }
                    };
                    if let ClientMessage::Prompt = message {
                        let agent = here.session.agent();
                        let composed = async move { agent.system_prompt().await };
                        prompt = Some(Box::pin(composed)).into();
                    } else if let ClientMessage::Resume { session, last_seq } = message {
                        let found = self.service.sessions.find(&session, &who).await;
                        let Some(found) = found else {
                            self.error("noSession", "there is no such session").await?;
                            continue;
                        };
                        here = ConnectedSession::new(&self.service.sessions, found);
                        newest = here.session.newest();
                        seen = last_seq;
                        self.connected(&here.session, true).await?;
                        self.catch_up(&here.session, &mut seen).await?;
                    } else {
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
                        return Err((close_code::POLICY, "no answer to pings"));
                    }
                    self.send_frame(Frame::Ping(bytes::Bytes::new())).await?;
                }
            }
        }
    }

    /// Waits for the token as the first message.
    async fn token(&mut self) -> Result<ChatCaller, End> {
        let refused = (close_code::POLICY, "the first message is the token");
        let first = tokio::time::timeout(self.service.limits.token, self.socket.recv()).await;
        let Ok(Some(Ok(Frame::Text(text)))) = first else { return Err(refused) };
        match serde_json::from_str(&text) {
            Ok(ClientMessage::Auth { token }) => {
                (self.service.who)(&token).ok_or((close_code::POLICY, "the token is not known"))
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
            ClientMessage::Message { text, .. } if text.trim().is_empty() => {
                ("invalid", "the message is empty")
            }
            ClientMessage::Message { text, at } => {
                match session.begin(&text.clone(), text, at, cut.child_token()) {
                    Ok(()) => return Ok(()),
                    Err(MessageRefusal::Busy) => ("busy", "a turn is under way: abort it first"),
                    Err(MessageRefusal::NoSuchMessage) => ("invalid", "there is no such message"),
                }
            }
            ClientMessage::Answer { id, answer } if session.answer(id, answer) => return Ok(()),
            ClientMessage::Answer { .. } => ("idle", "no such question is open, or not for you"),
            ClientMessage::Abort if session.abort() => return Ok(()),
            ClientMessage::Abort => ("idle", "no turn is under way"),
            ClientMessage::AbortTool { id } if session.agent().cancel_call(&id) => return Ok(()),
            ClientMessage::AbortTool { .. } => ("idle", "no such call is under way"),
            ClientMessage::Ping => return self.send(&json!({"type": "pong"})).await,
            ClientMessage::Auth { .. } | ClientMessage::Resume { .. } | ClientMessage::Prompt => {
                ("invalid", "the connection has its token already")
            }
        };
        self.error(code, why).await
    }

    async fn connected(&mut self, session: &ChatSession, resumed: bool) -> Result<(), End> {
        let message = json!({
            "type": "connection",
            "status": "connected",
            "sessionId": session.id,
            "epoch": session.epoch,
            "model": session.agent().model().name(),
            "resumed": resumed,
        });
        self.send(&message).await
    }

    /// Sends the events after `seen`.
    async fn catch_up(&mut self, session: &ChatSession, seen: &mut u64) -> Result<(), End> {
        let (snapshot, events) = session.since(*seen);
        if let Some(snapshot) = snapshot {
            *seen = snapshot["seq"].as_u64().unwrap_or(*seen).max(*seen);
            self.send(&json!({"type": "truncated", "snapshot": snapshot})).await?;
        }
        for (number, event) in events {
            self.send_frame(Frame::Text((&*event).into())).await?;
            *seen = number;
        }
        Ok(())
    }

    async fn error(&mut self, code: &str, message: &str) -> Result<(), End> {
        self.send(&json!({"type": "error", "code": code, "message": message})).await
    }

    async fn send(&mut self, message: &Value) -> Result<(), End> {
        self.send_frame(Frame::Text(message.to_string().into())).await
    }

    /// Sends a frame; a client that does not read in time is disconnected, but may resume.
    async fn send_frame(&mut self, frame: Frame) -> Result<(), End> {
        let patience = self.service.limits.heartbeat * 3;
        match tokio::time::timeout(patience, self.socket.send(frame)).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(GONE),
        }
    }
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
