//! Streamable HTTP (2025-03-26 and later): one POST per message, whose response carries its answer;
//! the standalone stream of a legacy session; interrupted streams are resumed.
//!
//! Uses reqwest with rustls and ring.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use http::header::{ACCEPT, CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, StatusCode};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_util::task::AbortOnDropHandle;

use super::coding::Coding;
use super::events::{ReopenPauses, SseEvent, SseEvents};
use super::refusal::{is_rpc, reason_in, status_words, title_of};
use super::remote::{Posts, RemoteServer, read_body};
use super::unasked::Unasked;
use super::{Outgoing, Transport};
use crate::session::HttpEndpoint;
use base::SafeText;
use base::address::is_loopback;
use base::text::cut;
use protocol::{FindingKind, Outbox, SendError, Tap};

const BOTH: &str = "application/json, text/event-stream";
const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const LAST_EVENT: &str = "last-event-id";
/// The beginning of a notification, as the tap writes it.
const NOTIFICATION: &[u8] = b"{\"jsonrpc\":\"2.0\",\"method\":";

/// The transport.
pub struct Http {
    remote: RemoteServer,
    url: url::Url,
    tap: Arc<Tap>,
    /// Unsolicited bytes of all streams of the session together.
    unasked: Mutex<Unasked>,
    state: Mutex<HttpState>,
    /// Streams that the server has opened in answer to a notification.
    opened: Mutex<JoinSet<()>>,
    me: Weak<Self>,
    /// Consecutive answers that took [`Http::ACK_INTERVAL`] after their head.
    delayed: AtomicU32,
    /// Messages that no caller waits for, and markers that report when all are sent.
    queue: mpsc::Sender<Queued>,
    _posting: AbortOnDropHandle<()>,
}

enum Queued {
    Message(Vec<u8>),
    Done(tokio::sync::oneshot::Sender<()>),
}

#[derive(Default)]
struct HttpState {
    session: Option<String>,
    version: Option<String>,
    stream: Option<AbortOnDropHandle<()>>,
}

/// Position of a stream when it ended.
#[derive(Default)]
struct StreamMark {
    /// The last event that had an id.
    id: Option<String>,
    /// The pause the server asked for.
    retry: Option<Duration>,
}

impl Http {
    /// Answers and notifications that may wait to be posted.
    const POST_CAPACITY: usize = 2048;
    /// How far the pauses grow between the parts of an answer that bring nothing.
    const MAX_ANSWER_INTERVAL: Duration = Duration::from_secs(1);
    /// The same for the standalone stream.
    const MAX_STREAM_INTERVAL: Duration = Duration::from_secs(5);
    /// How long the body of an acknowledgement is waited for: nothing depends on it.
    const BODY_TIMEOUT: Duration = Duration::from_secs(1);
    /// Most streams in answer to notifications that are read at once.
    const MAX_OPENED_STREAMS: usize = 16;
    /// A local server without `TCP_NODELAY` that sends an answer in two pieces waits for the ACK of
    /// the first, which the host's system delays by 40 ms on a reused connection, but not on a new
    /// one. After this many consecutive answers that took this long, a connection serves one
    /// message; if the time was spent elsewhere, the cost of that is negligible.
    const ACK_INTERVAL: Duration = Duration::from_millis(35);
    const MIN_LATE_ANSWERS: u32 = 3;
    /// Failed attempts to resume an interrupted stream before giving up.
    const MAX_RESUME_ATTEMPTS: u32 = 5;
    /// Events processed before other servers get a turn. A body arrives in chunks of hundreds of
    /// kilobytes, and thousands of events at once would block them for milliseconds.
    const MAX_TURN_EVENTS: usize = 64;

    /// A transport to a server.
    ///
    /// # Errors
    /// When a header is invalid, or TLS cannot be set up.
    pub fn open(tap: &Arc<Tap>, server: &HttpEndpoint) -> Result<Arc<Self>, SendError> {
        let remote = RemoteServer::new(server, tap, true)?.for_session();
        let (queue, queued) = mpsc::channel(Self::POST_CAPACITY);
        Ok(Arc::new_cyclic(|me: &Weak<Self>| Self {
            remote,
            url: server.config.url.clone(),
            tap: Arc::clone(tap),
            unasked: Mutex::default(),
            state: Mutex::default(),
            opened: Mutex::default(),
            me: Weak::clone(me),
            delayed: AtomicU32::new(if is_loopback(&server.config.url) { 0 } else { u32::MAX }),
            queue,
            _posting: AbortOnDropHandle::new(tokio::spawn(Self::post_queued(me.clone(), queued))),
        }))
    }

    /// Posts queued messages in their order.
    async fn post_queued(me: Weak<Self>, mut queued: mpsc::Receiver<Queued>) {
        let mut posts = Posts::default();
        while let Some(next) = queued.recv().await {
            let body = match next {
                Queued::Message(body) => body,
                Queued::Done(done) => {
                    posts.finished().await;
                    let _ = done.send(());
                    continue;
                }
            };
            let Some(http) = me.upgrade() else { return };
            let (tap, message) = (Arc::clone(&http.tap), Outgoing { body, ..Outgoing::default() });
            let is_notification = message.body.starts_with(NOTIFICATION);
            let posting = async move {
                if let Err(error) = http.post(message).await {
                    tracing::debug!(server = %http.tap.context.server, %error, "not delivered");
                    if is_notification && matches!(error, SendError::Refused(_)) {
                        http.tolerate(&format!("a notification was refused: {error}"), "");
                    }
                }
            };
            posts.add(tap, true, Box::pin(posting)).await;
        }
    }

    async fn post(&self, message: Outgoing) -> Result<(), SendError> {
        let Outgoing { id, method, body, headers } = message;
        let starts = method == "initialize";
        let mut request = self
            .remote
            .http
            .post(self.url.clone())
            .header(ACCEPT, BOTH)
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if starts {
            *self.state.lock() = HttpState::default();
        }
        let delayed = self.delayed.load(Ordering::Relaxed);
        if (Self::MIN_LATE_ANSWERS..u32::MAX).contains(&delayed) {
            request = request.header(CONNECTION, "close");
        }
        let (request, session) = self.in_session(request);
        let response = if is_repeatable(&method) {
            self.remote.run_again(request).await?
        } else {
            self.remote.run(request).await?
        };
        let head = Instant::now();
        let status = response.status();
        if session && status == StatusCode::NOT_FOUND {
            return Err(SendError::Expired);
        }
        let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok());
        if starts && status.is_success() {
            self.state.lock().session = header(SESSION).map(str::to_owned);
        }
        let kind = header(CONTENT_TYPE.as_str()).unwrap_or_default().to_ascii_lowercase();
        if id.is_none() && status.is_success() {
            self.acknowledged(response, &kind, &method).await;
            return Ok(());
        }
        let coding = Coding::from_headers(response.headers());
        if let Some(coding) = coding.map_err(|text| SendError::Refused(text.into()))?.name() {
            self.tolerate(
                &format!("answers are compressed ({coding}), which was not asked for"),
                "",
            );
        }
        if status.is_success() && kind.starts_with("text/event-stream") {
            let followed = self.follow(response, id).await;
            if !(promises_nothing(status) && self.has_stream()) {
                followed?;
            }
        } else {
            self.body(response, id, &kind, session, &method).await?;
        }
        if delayed < Self::MIN_LATE_ANSWERS {
            let delayed = if head.elapsed() < Self::ACK_INTERVAL { 0 } else { delayed + 1 };
            self.delayed.store(delayed, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether the standalone stream is open: an answer may come on it.
    fn has_stream(&self) -> bool {
        self.state.lock().stream.as_ref().is_some_and(|stream| !stream.is_finished())
    }

    /// Reads the stream of an answer, and resumes it when it is interrupted (2025-11-25,
    /// Streamable HTTP, resumability).
    async fn follow(&self, response: reqwest::Response, id: Option<i64>) -> Result<(), SendError> {
        let mut mark = StreamMark::default();
        let mut pauses = ReopenPauses::new(Self::MAX_ANSWER_INTERVAL);
        let mut least = self.read_events(response, id, &mut mark, &mut pauses).await;
        let Some(id) = id else { return Ok(()) };
        let mut failed = 0;
        while self.tap.is_pending(id) {
            let Some(last) = mark.id.clone() else { return Err(closed_early()) };
            let asked = mark.retry.take().unwrap_or(pauses.fallback());
            tokio::time::sleep(asked.max(least)).await;
            match self.get(Some(&last)).await {
                Ok(Some(response)) => {
                    failed = 0;
                    least = self.read_events(response, Some(id), &mut mark, &mut pauses).await;
                }
                Ok(None) => return Err(closed_early()),
                Err(error @ SendError::Broken(_)) if failed < Self::MAX_RESUME_ATTEMPTS => {
                    tracing::debug!(server = %self.tap.context.server, %error, "not resumed");
                    failed += 1;
                    least = pauses.after_failure();
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The standalone stream of a legacy session: reopened whenever it ends.
    async fn listen(me: Weak<Self>, settled: watch::Sender<bool>) {
        let mut pauses = ReopenPauses::new(Self::MAX_STREAM_INTERVAL);
        let mut mark = StreamMark::default();
        loop {
            let Some(http) = me.upgrade() else { return };
            let response = http.get(mark.id.clone().as_deref()).await;
            settled.send_replace(true);
            let least = match response {
                Ok(Some(response)) => {
                    http.read_events(response, None, &mut mark, &mut pauses).await
                }
                // The server has none, or the next request will show what is wrong.
                Ok(None) | Err(SendError::Refused(_) | SendError::Unauthorized(_)) => return,
                Err(_) => pauses.after_failure(),
            };
            drop(http);
            let asked = mark.retry.take().unwrap_or(pauses.fallback());
            tokio::time::sleep(asked.max(least)).await;
        }
    }

    /// Opens the standalone stream and waits briefly until it is open: anything a legacy server
    /// sends on it before is lost, and a call that depends on it hangs.
    async fn open_stream(self: &Arc<Self>) {
        const OPEN_TIMEOUT: Duration = Duration::from_millis(300);
        if self.state.lock().session.is_none() {
            return;
        }
        let (settled, mut opened) = watch::channel(false);
        let (me, over) = (Arc::downgrade(self), self.tap.over.clone());
        let task = tokio::spawn(async move {
            tokio::select! {
                () = over.cancelled() => {}
                () = Self::listen(me, settled) => {}
            }
        });
        self.state.lock().stream = Some(AbortOnDropHandle::new(task));
        let _ = tokio::time::timeout(OPEN_TIMEOUT, opened.wait_for(|settled| *settled)).await;
    }

    /// Opens an event stream; `None` when the server offers none.
    async fn get(&self, last: Option<&str>) -> Result<Option<reqwest::Response>, SendError> {
        let mut request =
            self.remote.http.get(self.url.clone()).header(ACCEPT, "text/event-stream");
        if let Some(last) = last {
            request = request.header(LAST_EVENT, last.as_bytes());
        }
        let response = self.remote.run(self.in_session(request).0).await?;
        let status = response.status();
        if status == StatusCode::METHOD_NOT_ALLOWED {
            return Ok(None);
        }
        if !status.is_success() {
            let error = self.refusal(status, response.headers(), "", false).into();
            let passing = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            return Err(if passing { SendError::Broken(error) } else { SendError::Refused(error) });
        }
        Ok(Some(response))
    }

    /// Reads a stream as [`Http::read_all_events`]; returns the least pause before it is reopened.
    async fn read_events(
        &self,
        response: reqwest::Response,
        id: Option<i64>,
        mark: &mut StreamMark,
        pauses: &mut ReopenPauses,
    ) -> Duration {
        let messages = || self.tap.context.seen.with(|seen| seen.messages);
        let (began, before) = (Instant::now(), messages());
        self.read_all_events(response, id, mark).await;
        pauses.after(began.elapsed(), messages() > before)
    }

    /// Reads the events of a stream to its end, or until the request has its answer.
    async fn read_all_events(
        &self,
        response: reqwest::Response,
        id: Option<i64>,
        mark: &mut StreamMark,
    ) {
        let mut events = SseEvents::new(response, self.tap.context.limits.line_bytes);
        // Bytes read but not yet accounted for, which may belong to an answer; and those that do.
        let (mut open, mut answered) = (0_usize, 0);
        let mut in_a_row = 0;
        loop {
            while let Some(event) = events.next_complete() {
                answered += self.take_event(event, id, mark);
                in_a_row += 1;
                if in_a_row == Self::MAX_TURN_EVENTS {
                    in_a_row = 0;
                    tokio::task::yield_now().await;
                }
            }
            if id.is_some_and(|id| !self.tap.is_pending(id)) {
                return;
            }
            let known = open.saturating_sub(events.unfinished());
            open -= known;
            if let Some(pause) = self.spend(known.saturating_sub(std::mem::take(&mut answered))) {
                tokio::time::sleep(pause).await;
            }
            match events.fill().await {
                Ok(0) => return self.take_last(&mut events, id, mark),
                Err(_) => return,
                Ok(read) => {
                    open += read;
                    self.tap.arrived(read);
                }
            }
        }
    }

    /// Processes what is left at the end of a stream: an answer that is whole is one, although the
    /// empty line that ends an event, or the fields of one, are missing.
    fn take_last(&self, events: &mut SseEvents, id: Option<i64>, mark: &mut StreamMark) {
        let is_whole = |data: &[u8]| {
            serde_json::from_slice::<serde_json::Value>(data)
                .is_ok_and(|value| value.get("jsonrpc").is_some())
        };
        let last = events.last().filter(|(event, _)| event.over.is_none() && is_whole(&event.data));
        if let Some((event, oddity)) = last {
            self.tolerate(oddity, "");
            self.take_event(event, id, mark);
        }
    }

    /// Processes an event; returns how many bytes of it were an answer.
    fn take_event(&self, event: SseEvent, request: Option<i64>, mark: &mut StreamMark) -> usize {
        if let Some(id) = event.id {
            // An empty one takes the earlier one back; one that no header can hold names nothing.
            let usable = !id.is_empty() && HeaderValue::from_bytes(id.as_bytes()).is_ok();
            mark.id = usable.then_some(id);
        }
        mark.retry = event.retry.or(mark.retry);
        let Some(total) = event.over else { return self.show(&event.data, request) };
        self.tap.oversized(&event.data, b"", total);
        if let Some(id) = request {
            self.tap.unanswered(id, &format!("an event of {total} bytes is over the limit"));
        }
        0
    }

    /// Passes a message to the tap; returns how many bytes of it were an answer.
    fn show(&self, text: &[u8], stream: Option<i64>) -> usize {
        // The tap's count is per connection, so streams take turns.
        let _turn = self.unasked.lock();
        self.tap.line(text, stream);
        self.tap.take_answered()
    }

    /// Accounts for unsolicited bytes; returns how long to pause before reading more.
    fn spend(&self, unasked: usize) -> Option<Duration> {
        // Solicited data does not wait for what another stream has used up.
        if unasked == 0 { None } else { self.unasked.lock().spend(unasked, &self.tap) }
    }

    fn in_session(&self, mut request: reqwest::RequestBuilder) -> (reqwest::RequestBuilder, bool) {
        let state = self.state.lock();
        if let Some(version) = &state.version {
            request = request.header(VERSION, version);
        }
        if let Some(session) = &state.session {
            request = request.header(SESSION, session);
        }
        (request, state.session.is_some())
    }

    /// Handles the acknowledgement of a message that has no answer. It has no body (2025-11-25,
    /// Streamable HTTP); whatever it brings all the same, the message was delivered.
    async fn acknowledged(&self, response: reqwest::Response, kind: &str, method: &str) {
        let status = response.status();
        if kind.starts_with("text/event-stream") {
            let Some(http) = self.me.upgrade() else { return };
            let mut opened = self.opened.lock();
            while opened.try_join_next().is_some() {}
            if opened.len() < Self::MAX_OPENED_STREAMS {
                opened.spawn(async move {
                    let mut mark = StreamMark::default();
                    tokio::select! {
                        () = http.read_all_events(response, None, &mut mark) => {}
                        () = http.tap.over.cancelled() => {}
                    }
                });
            }
            return;
        }
        let read = tokio::time::timeout(Self::BODY_TIMEOUT, self.read(response)).await;
        // A body that cannot be read to its end changes nothing.
        let Ok(Ok((text, None))) = read else { return };
        let text = text.trim_ascii();
        if matches!(text, b"" | b"null" | b"{}") {
            return;
        }
        let is_message = |text: &[u8]| memchr::memmem::find(text, b"\"method\"").is_some();
        if kind.starts_with("application/json") && is_message(text) {
            self.show(text, None);
            return;
        }
        let method = if method.is_empty() { "a message without an answer" } else { method };
        let kind = if kind.is_empty() { "no content type" } else { kind };
        let message = format!("`{method}` was answered with HTTP {} and {kind}", status.as_u16());
        self.tolerate(&message, &String::from_utf8_lossy(&text[..text.len().min(400)]));
    }

    /// Reports what was read although a strict client would refuse it.
    fn tolerate(&self, what: &str, raw: &str) {
        self.tap.report(FindingKind::Tolerated, what, raw, None);
    }

    /// Handles a response that is not a stream.
    async fn body(
        &self,
        response: reqwest::Response,
        id: Option<i64>,
        kind: &str,
        session: bool,
        method: &str,
    ) -> Result<(), SendError> {
        let status = response.status();
        let headers = response.headers().clone();
        let (mut text, over) = self.read(response).await?;
        if let Some(id) = id.filter(|_| promises_nothing(status)) {
            if text.trim_ascii().is_empty() {
                if !self.has_stream() {
                    let status = status.as_u16();
                    self.tap.unanswered(id, &format!("HTTP {status} came, without an answer"));
                }
                return Ok(());
            }
            self.tolerate(&format!("answers come with HTTP {}", status.as_u16()), "");
        }
        let shown = String::from_utf8_lossy(&text[..text.len().min(400)]).into_owned();
        if !status.is_success() {
            // The specification requires 404 for an unknown session; the sample code that most
            // servers are based on answers 400 with these words.
            let forgets = shown.to_ascii_lowercase().contains("session id");
            if session && status == StatusCode::BAD_REQUEST && forgets {
                return Err(SendError::Expired);
            }
            // Whatever id it names, this response answers this request.
            if let Some(id) = id {
                if is_rpc(&text) && self.tap.refused(id, &text) {
                    return Ok(());
                }
                // A refused probe is typical of a legacy server.
                if method == "server/discover"
                    && status.is_client_error()
                    && status != StatusCode::FORBIDDEN
                {
                    let reason = format!("refused with HTTP {status}: {}", first_line(&shown));
                    self.tap.unanswered(id, &reason);
                    return Ok(());
                }
            }
            return Err(SendError::Refused(self.refusal(status, &headers, &shown, true).into()));
        }
        if !kind.starts_with("application/json") {
            let kind = if kind.is_empty() { "no content type" } else { kind };
            // A message is one whatever it is called; a page or plain words are none.
            let parsed = serde_json::from_slice::<serde_json::Value>(&text).unwrap_or_default();
            if over.is_some() || parsed.get("jsonrpc").is_none() {
                let text = if let Some(title) = title_of(&shown) {
                    format!(
                        "the server answered with a web page, not JSON (\"{title}\"): is `url` that \
                         of its MCP endpoint (often /mcp)?"
                    )
                } else {
                    let first = first_line(&shown);
                    format!("the server answered with {kind}, not JSON: {first}")
                };
                return Err(SendError::Refused(SafeText::line(&text).to_string().into()));
            }
            self.tolerate(&format!("answers come with {kind}, not application/json"), "");
        }
        if let Some(what) = not_utf8(&text) {
            let text = format!("the answer is {what}, not JSON in UTF-8 (RFC 8259, section 8.1)");
            return Err(SendError::Refused(text.into()));
        }
        if let Some(total) = over {
            self.tap.oversized(&text, b"", total);
        } else {
            for byte in text.iter_mut().filter(|byte| matches!(byte, b'\n' | b'\r')) {
                *byte = b' ';
            }
            self.show(&text, id);
        }
        if let Some(id) = id {
            self.tap.unanswered(id, "the HTTP response holds no answer");
        }
        Ok(())
    }

    /// Reads a body; for one over the limit, its beginning and its minimum length.
    async fn read(&self, response: reqwest::Response) -> Result<(Vec<u8>, Option<u64>), SendError> {
        read_body(response, self.tap.context.limits.line_bytes, &self.tap).await
    }

    /// Describes an error status.
    fn refusal(&self, status: StatusCode, headers: &HeaderMap, body: &str, posted: bool) -> String {
        let mut text = format!("the server answered HTTP {}", status_words(status));
        if let Some(after) = headers.get(RETRY_AFTER).and_then(|v| v.to_str().ok()) {
            text += " (retry after ";
            text += cut(after, 64);
            text += ")";
        }
        if posted && matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
            text += "; the path of the endpoint may be another (often /mcp), or the server speaks \
                     HTTP+SSE of 2024-11-05 at another one (often /sse)";
        }
        let said = reason_in(body);
        let body = cut(said.trim(), 200);
        if !body.is_empty() {
            text += ": ";
            text += body;
        }
        SafeText::line(&self.tap.context.redactor.redact(&text)).to_string()
    }
}

impl Outbox for Http {
    fn queue(&self, message: Vec<u8>) -> Result<(), SendError> {
        let queued = self.queue.try_send(Queued::Message(message));
        queued.map_err(|_| SendError::Unread(Self::POST_CAPACITY))
    }
}

impl Transport for Http {
    fn send(self: Arc<Self>, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>> {
        Box::pin(async move {
            let initialized = message.method == "notifications/initialized";
            let posted = self.post(message).await;
            // A server that refuses the notification may have the stream all the same.
            let refused = matches!(posted, Err(SendError::Refused(_) | SendError::Expired));
            if initialized && (posted.is_ok() || refused) {
                self.open_stream().await;
            }
            posted
        })
    }

    fn negotiated(&self, version: &str) {
        self.state.lock().version = Some(version.to_owned());
    }

    fn is_http(&self) -> bool {
        true
    }

    /// Posts what is queued and ends the session; waits at most a second for the server.
    fn close(&self) -> BoxFuture<'_, ()> {
        const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
        Box::pin(async {
            let shutdown = async {
                let (done, all) = tokio::sync::oneshot::channel();
                if self.queue.send(Queued::Done(done)).await.is_ok() {
                    let _ = all.await;
                }
                if self.state.lock().session.is_some() {
                    let request = self.remote.http.delete(self.url.clone());
                    let _ = self.remote.run(self.in_session(request).0).await;
                }
            };
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, shutdown).await;
            self.state.lock().stream = None;
        })
    }
}

/// Whether a status says that no answer comes with it.
fn promises_nothing(status: StatusCode) -> bool {
    [StatusCode::ACCEPTED, StatusCode::NO_CONTENT, StatusCode::RESET_CONTENT].contains(&status)
}

/// Whether a message may arrive twice: all but calls, which may change something.
fn is_repeatable(method: &str) -> bool {
    matches!(method, "initialize" | "server/discover" | "ping" | "prompts/get" | "resources/read")
        || method.ends_with("/list")
        || method.starts_with("notifications/")
}

fn closed_early() -> SendError {
    let text = "the stream of the answer was closed before its final response";
    SendError::Refused(text.to_owned().into())
}

// Helpers for unusable response bodies.

/// Describes a body that cannot be JSON in UTF-8, judging by its first bytes.
const fn not_utf8(body: &[u8]) -> Option<&'static str> {
    match body {
        [0x1f, 0x8b, ..] => Some("compressed with gzip"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'{', 0, ..] | [0, b'{', ..] => Some("UTF-16"),
        _ => None,
    }
}

fn first_line(text: &str) -> &str {
    text.trim_start().lines().next().unwrap_or_default()
}
