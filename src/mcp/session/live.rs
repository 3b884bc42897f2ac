//! An open session: requests with deadline, cancellation and progress, whatever the transport.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::delivery::{deliver, flush};
use super::list::fetch;
use super::mirrored::Mirrored;
use super::{Request, SessionHandle};
use crate::transport::pipe::CLOSED;
use crate::transport::{Outgoing, Transport};
use base::LogLevel;
use base::text::json::NO_NUMBERS;
use config::error::{Error, ErrorCode};
use protocol::{
    CLIENT_NAME, Era, FetchedList, HOPS_KEY, ListKind, MODERN_VERSION, Payload, PendingRequest,
    RpcCode, RpcRequest, SendError, SessionEvent, SessionView, Tap, TrafficRecord, level_name,
    request_meta,
};

/// The session as held by its owner: once it is dropped, the session ends with the last request in
/// flight.
pub struct LiveSession {
    pub(super) core: Arc<Core>,
    tasks: Mutex<JoinSet<()>>,
}

/// Shared state of requests; lives as long as any of them.
pub struct Core {
    pub(super) tap: Arc<Tap>,
    pub(super) transport: Arc<dyn Transport>,
    view: OnceLock<Arc<SessionView>>,
    /// Resources that the host has subscribed to (2026-07-28).
    uris: Mutex<BTreeSet<String>>,
    /// Fires when they change.
    changed: Notify,
    /// What `_meta` of every request holds (2026-07-28, SEP-2575); empty in the legacy era.
    request_meta: OnceLock<Map<String, Value>>,
    /// Arguments that are also sent as headers, by tool.
    pub(super) mirrored: Mutex<Mirrored>,
    /// The requested log level.
    pub(super) log_level: Mutex<Option<LogLevel>>,
    closing: OnceLock<Error>,
    /// How many requests were answered.
    answered: AtomicU64,
    /// How often the session was renewed because the server had lost it.
    renewed: tokio::sync::Mutex<u64>,
}

impl LiveSession {
    pub(super) fn open(tap: Arc<Tap>, transport: Arc<dyn Transport>) -> Self {
        let delivery = deliver(Arc::clone(&tap.pump), tap.context.events.clone());
        let log_level = Mutex::new(tap.context.log_level);
        let core = Core {
            tap,
            transport,
            view: OnceLock::new(),
            uris: Mutex::default(),
            changed: Notify::new(),
            request_meta: OnceLock::new(),
            mirrored: Mutex::default(),
            log_level,
            closing: OnceLock::new(),
            answered: AtomicU64::new(0),
            renewed: tokio::sync::Mutex::default(),
        };
        let live = Self { core: Arc::new(core), tasks: Mutex::default() };
        live.spawn(delivery);
        live
    }

    /// Runs a task until the session is dropped.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().spawn(task);
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        self.tap.end("the session ended");
        // The task that delivers events ends with the session; its owner still reads them.
        flush(&self.tap);
    }
}

/// Notifies the server and the tap that a request is abandoned, unless it was answered.
struct Abandon<'a> {
    core: &'a Core,
    request: &'a PendingRequest,
    id: i64,
    why: &'static str,
    /// How many others had been answered when it was sent.
    answered: u64,
    /// What ended the wait, unless the request was simply dropped.
    error: Option<Error>,
    armed: bool,
}

impl Abandon<'_> {
    /// Why the request gets no answer.
    fn reason(&self, shaking: bool) -> String {
        let gone = |why: &str| {
            let why = why.strip_prefix(CLOSED).unwrap_or(why).trim_start_matches(": ");
            match why {
                "" | "the session ended" => "the server went away".to_owned(),
                why => format!("the server went away: {why}"),
            }
        };
        let closing = || self.core.closing.get().map(|error| error.message.as_str());
        match self.error.as_ref().map(|error| error.code) {
            Some(ErrorCode::Timeout) => "timed out".to_owned(),
            Some(ErrorCode::Cancelled) if closing().is_none() => "cancelled".to_owned(),
            _ if closing().is_some() || self.core.tap.over.is_cancelled() => {
                gone(closing().unwrap_or_else(|| self.core.tap.ending()))
            }
            None if shaking && self.core.answered.load(Ordering::Relaxed) > self.answered => {
                TrafficRecord::OVERTAKEN.to_owned()
            }
            None if shaking => "the start was given up".to_owned(),
            _ => self.error.as_ref().map_or("given up", |error| error.message.as_str()).to_owned(),
        }
    }
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let Core { tap, transport, .. } = self.core;
        let shaking = self.core.view.get().is_none();
        self.request.give_up();
        let why = if shaking { Tap::OVERTAKEN } else { self.why };
        // What is over hears nothing any more.
        let needs_no_notice = self.core.era() == Era::Modern && transport.is_http()
            || shaking
            || tap.over.is_cancelled() && !tap.is_closed();
        if tap.abandon(self.id, why, &self.reason(shaking)) && !needs_no_notice {
            let reason = format!("the request {why}");
            let params = json!({"requestId": self.id, "reason": reason});
            tap.notify("notifications/cancelled", params);
        }
    }
}

impl Core {
    pub(super) fn opened(&self, view: Arc<SessionView>) {
        if view.era == Era::Modern {
            let _ = self.request_meta.set(request_meta());
        }
        let _ = self.view.set(view);
    }

    pub(super) fn view(&self) -> Arc<SessionView> {
        self.view.get().cloned().unwrap_or_else(|| unreachable!("requests follow the handshake"))
    }

    pub(super) fn era(&self) -> Era {
        self.view.get().map_or(Era::Legacy, |view| view.era)
    }

    /// Sends one request and returns its raw result.
    pub(super) async fn round_trip(
        &self,
        rpc: RpcRequest,
        request: &Arc<PendingRequest>,
    ) -> Result<Payload, Error> {
        let level = self.log_level.lock().filter(|_| self.era() == Era::Modern);
        let (known, trace) = (self.request_meta.get(), request.trace.get());
        let is_deck = || self.view.get().is_some_and(|view| view.name.as_str() == CLIENT_NAME);
        let hops = request.hops.get().filter(|_| is_deck());
        let vendor = request.meta.get();
        if level.is_none() && trace.is_none() && hops.is_none() && vendor.is_none() {
            let none = Map::new();
            return self.round_trip_with(&rpc, request, known.unwrap_or(&none)).await;
        }
        let mut meta = known.cloned().unwrap_or_default();
        for (key, value) in vendor.into_iter().flat_map(|vendor| vendor.members.iter()) {
            meta.entry(key).or_insert_with(|| value.clone());
        }
        if let Some(level) = level {
            let key = "io.modelcontextprotocol/logLevel";
            meta.insert(key.to_owned(), level_name(level));
        }
        if let Some(trace) = trace {
            meta.insert("traceparent".to_owned(), (&**trace).into());
        }
        if let Some(hops) = hops {
            meta.insert(HOPS_KEY.to_owned(), (hops + 1).into());
        }
        self.round_trip_with(&rpc, request, &meta).await
    }

    /// Like [`Core::round_trip`], with the given `_meta`.
    pub(super) async fn round_trip_with(
        &self,
        rpc: &RpcRequest,
        request: &Arc<PendingRequest>,
        meta: &Map<String, Value>,
    ) -> Result<Payload, Error> {
        self.exchange(rpc, request, meta).await.map_err(|mut error| {
            error.server.get_or_insert_with(|| self.tap.context.server.clone());
            error.request.get_or_insert_with(|| rpc.name());
            error
        })
    }

    async fn exchange(
        &self,
        rpc: &RpcRequest,
        request: &Arc<PendingRequest>,
        meta: &Map<String, Value>,
    ) -> Result<Payload, Error> {
        if self.tap.over.is_cancelled() || self.closing.get().is_some() {
            return Err(self.gone());
        }
        if !self.transport.is_ready() {
            self.bounded(self.transport.ready(), request).await?;
        }
        let (id, answer) = self.tap.admit(rpc, request);
        let why = "was given up";
        let answered = self.answered.load(Ordering::Relaxed);
        let mut abandon =
            Abandon { core: self, request, id, why, answered, error: None, armed: true };
        let numbers = request.numbers.get().map_or(&NO_NUMBERS, |numbers| &**numbers);
        let of_meta = request.meta.get().map_or(&NO_NUMBERS, |meta| &*meta.numbers);
        let body = rpc.body(id, meta, [numbers, of_meta]).map_err(|error| {
            let message = format!("the message cannot be serialised: {error}");
            Error::new(ErrorCode::Internal, message)
        })?;
        self.tap.asking(id, rpc, request, &body);
        let headers = self.headers(rpc);
        let message = Outgoing { id: Some(id), method: rpc.method.clone(), body, headers };
        let delivered = pin!(self.delivered(message, answer));
        match self.bounded(delivered, request).await {
            Ok(answer) => {
                abandon.armed = false;
                self.answered.fetch_add(1, Ordering::Relaxed);
                answer
            }
            Err(error) => {
                abandon.why = match error.code {
                    ErrorCode::Timeout => "timed out",
                    ErrorCode::Cancelled => "was cancelled",
                    _ => why,
                };
                abandon.error = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Sends a request and waits for its answer.
    async fn delivered(
        &self,
        message: Outgoing,
        mut answer: tokio::sync::oneshot::Receiver<Result<Payload, Error>>,
    ) -> Result<Payload, Error> {
        let (id, method) = (message.id, message.method.clone());
        // If the session may have to be renewed, the message is kept to be resent.
        let renewable =
            self.transport.is_http() && self.view.get().is_some() && method != "initialize";
        let again = renewable.then(|| (message.body.clone(), message.headers.clone()));
        let renewed = if again.is_some() { *self.renewed.lock().await } else { 0 };
        let mut sending = Arc::clone(&self.transport).send(message);
        // With many concurrent calls, the others queue theirs first and one write sends them all:
        // each write wakes the server, which costs more than everything else here. A lone call does
        // not wait.
        if self.tap.is_busy() {
            tokio::task::yield_now().await;
        }
        let sent = tokio::select! {
            biased;
            sent = &mut sending => sent,
            answer = &mut answer => {
                // The rest of the response is drained briefly to make its connection reusable.
                if self.transport.is_http() {
                    tokio::spawn(tokio::time::timeout(Duration::from_millis(50), sending));
                }
                return answer.unwrap_or_else(|_| Err(self.gone()));
            }
        };
        let sent = match (sent, again) {
            (Err(SendError::Expired), Some((body, headers))) => {
                self.renew(renewed).await?;
                let message = Outgoing { id, method, body, headers };
                Arc::clone(&self.transport).send(message).await
            }
            (sent, _) => sent,
        };
        if let Err(error) = sent {
            // An answer received before the connection broke counts.
            if let Ok(answer) = answer.try_recv() {
                return answer;
            }
            if let Some(id) = id {
                self.tap.unsent(id, &error.to_string());
            }
            return Err(self.unsent(&error));
        }
        answer.await.unwrap_or_else(|_| Err(self.gone()))
    }

    /// Opens a new session in place of one that the server has lost, unless another request has
    /// done so since `before`.
    async fn renew(&self, before: u64) -> Result<(), Error> {
        let mut renewed = self.renewed.lock().await;
        if *renewed != before {
            return Ok(());
        }
        let view = self.view();
        Box::pin(self.initialize(&view.protocol_version)).await?;
        self.agreed(&view.protocol_version, view.era);
        self.initialized().await?;
        *renewed += 1;
        self.tap.pump.push(SessionEvent::Renewed);
        Ok(())
    }

    /// The error for a message that was not sent.
    pub(super) fn unsent(&self, error: &SendError) -> Error {
        let help = "check the log of the server, or of the proxy in front of it";
        let failed = |text: String| {
            let mut failed = Error::new(ErrorCode::ServerUnavailable, text);
            failed.causes = error.causes().map(str::to_owned);
            failed
        };
        match error {
            SendError::Closed | SendError::Unread(_) => self.gone(),
            // The server is unreachable: it may answer open requests, but the owner must know.
            SendError::Broken(failure) => {
                if self.view.get().is_some() {
                    self.tap.unreachable(&failure.text);
                }
                failed(failure.text.clone())
            }
            other if self.view.get().is_some() => {
                let is_unauthorized = matches!(other, SendError::Unauthorized(_));
                let mut error = failed(other.to_string());
                error.answered = true;
                error.unauthorized = is_unauthorized;
                // What has to be done is to sign in, which the message says.
                if is_unauthorized { error } else { error.help(help) }
            }
            other => failed(other.to_string()),
        }
    }

    /// Runs `work` until it completes, is cancelled, times out, or the session ends.
    pub(super) async fn bounded<T>(
        &self,
        mut work: impl Future<Output = T> + Unpin,
        request: &PendingRequest,
    ) -> Result<T, Error> {
        loop {
            let next = request.next_step()?;
            tokio::select! {
                biased;
                value = &mut work => return Ok(value),
                () = request.cancel.cancelled() => {
                    return Err(Error::new(ErrorCode::Cancelled, "cancelled by the caller"));
                }
                () = self.tap.over.cancelled() => return Err(self.gone()),
                () = request.changed() => {}
                () = sleep_until(next.map_or_else(Instant::now, Instant::from_std)), if next.is_some() => {}
            }
        }
    }

    /// Headers of a request (2026-07-28, Streamable HTTP).
    fn headers(&self, rpc: &RpcRequest) -> Vec<(String, String)> {
        let probes = rpc.method == "server/discover";
        if !self.transport.is_http() || !(probes || self.era() == Era::Modern) {
            return Vec::new();
        }
        let mirrored = self.mirrored.lock();
        let mut headers = mirrored.headers(rpc);
        if probes {
            headers.push(("mcp-protocol-version".to_owned(), MODERN_VERSION.to_owned()));
        }
        headers
    }

    /// The error for requests after the session has ended.
    pub(super) fn gone(&self) -> Error {
        self.closing.get().cloned().unwrap_or_else(|| {
            Error::new(ErrorCode::ServerUnavailable, self.tap.ending().to_owned())
        })
    }

    pub(super) fn subscribe(&self, uri: &str) -> Result<Value, Error> {
        let mut uris = self.uris.lock();
        if uris.len() == MAX_SUBSCRIPTIONS {
            let error = Error::new(
                ErrorCode::RateLimited,
                format!("more than {MAX_SUBSCRIPTIONS} subscriptions"),
            );
            return Err(error.server(&self.tap.context.server));
        }
        if uris.insert(uri.to_owned()) {
            self.changed.notify_one();
        }
        Ok(json!({}))
    }

    pub(super) fn unsubscribe(&self, uri: &str) -> Value {
        if self.uris.lock().remove(uri) {
            self.changed.notify_one();
        }
        json!({})
    }

    /// Keeps the subscription open as long as the session lives. Returns if the server has none.
    pub(super) async fn keep_listening(self: Arc<Self>) {
        let mut pause = Duration::from_secs(1);
        loop {
            let Some(filter) = self.filter() else {
                self.changed.notified().await;
                continue;
            };
            let params = json!({"notifications": filter});
            let rpc = RpcRequest::new("subscriptions/listen", None, Some(params));
            let own = PendingRequest::internal(self.tap.context.clock, Duration::MAX);
            let began = Instant::now();
            let ended = tokio::select! {
                ended = self.round_trip(rpc, &own) => ended,
                () = self.changed.notified() => continue,
            };
            // The session ended, or the method is unsupported: no change will ever be reported.
            let over = self.tap.over.is_cancelled() || self.closing.get().is_some();
            let code = ended.err().and_then(|error| error.rpc.as_ref()?.code);
            if over || matches!(code, Some(RpcCode::METHOD_NOT_FOUND | RpcCode::INVALID_PARAMS)) {
                return;
            }
            pause = if began.elapsed() > STABLE_INTERVAL { Duration::from_secs(1) } else { pause };
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_RETRY_INTERVAL),
                () = self.changed.notified() => {}
            }
            // Changes in between were not reported.
            let view = self.view();
            for kind in ListKind::ALL.into_iter().filter(|kind| view.offers(*kind)) {
                self.tap.pump.push(SessionEvent::ListChanged(kind));
            }
        }
    }

    /// The filter for what the server offers and the host wants; `None` when empty.
    fn filter(&self) -> Option<Value> {
        let view = self.view();
        let capabilities = &view.capabilities;
        let offers = |list: &str, what: &str| {
            capabilities.get(list).and_then(|c| c.get(what)) == Some(&Value::Bool(true))
        };
        let mut filter = Map::new();
        for (list, key) in [
            ("tools", "toolsListChanged"),
            ("prompts", "promptsListChanged"),
            ("resources", "resourcesListChanged"),
        ] {
            if offers(list, "listChanged") {
                filter.insert(key.to_owned(), true.into());
            }
        }
        let uris = self.uris.lock();
        if !uris.is_empty() {
            filter.insert("resourceSubscriptions".to_owned(), json!(*uris));
        }
        (!filter.is_empty()).then_some(Value::Object(filter))
    }
}

impl SessionHandle for LiveSession {
    fn view(&self) -> Arc<SessionView> {
        self.core.view()
    }

    fn request(
        &self,
        request: Request,
        pending: Arc<PendingRequest>,
    ) -> BoxFuture<'static, Result<Payload, Error>> {
        let core = Arc::clone(&self.core);
        Box::pin(async move { core.perform(request, &pending).await })
    }

    fn list(&self, kind: ListKind) -> BoxFuture<'static, Result<FetchedList, Error>> {
        let core = Arc::clone(&self.core);
        Box::pin(async move { fetch(&core, kind).await })
    }

    fn roots_changed(&self) -> BoxFuture<'static, ()> {
        if self.core.era() == Era::Legacy {
            self.core.tap.notify("notifications/roots/list_changed", Value::Null);
        }
        Box::pin(std::future::ready(()))
    }

    fn close(&self, reason: Error) -> BoxFuture<'static, ()> {
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            let message = reason.message.clone();
            let _ = core.closing.set(reason);
            core.tap.close(&message);
            core.transport.close().await;
        })
    }

    fn asked_too_late(&self) -> BoxFuture<'static, ()> {
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            core.tap.asked_too_late.cancelled().await;
            // The owner learns why before the server is gone.
            flush(&core.tap);
        })
    }
}

// The modern subscription (2026-07-28, `subscriptions/listen`): one long-running request that names
// what the host subscribes to, reopened when that changes or the server ends it.

/// Most resource subscriptions per server.
const MAX_SUBSCRIPTIONS: usize = 1024;
/// Longest pause between two attempts.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// A subscription that lasted this long resets the pause.
const STABLE_INTERVAL: Duration = Duration::from_secs(10);
