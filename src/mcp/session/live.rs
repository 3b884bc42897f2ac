//! An open session: requests with deadline, cancellation and progress over rmcp's peer.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use rmcp::RoleClient;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientJsonRpcMessage, ClientNotification,
    ClientRequest, CustomRequest, RequestId, RequestMetaObject, RootsListChangedNotification,
    ServerResult,
};
use rmcp::service::{Peer, PeerRequestOptions, RequestHandle, RunningService, ServiceError};
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::{FetchedList, Request, RequestContext, SessionHandle};
use crate::base::LogLevel;
use crate::error::{Error, ErrorCode};
use crate::mcp::Payload;
use crate::mcp::capabilities::ListKind;
use crate::mcp::client::Client;
use crate::mcp::session::listen::Subscriptions;
use crate::mcp::session::trip::{Params, Trip};
use crate::mcp::transport::http::describe;
use crate::mcp::transport::outbox::{Outbox, SendError};
use crate::mcp::wire::exchange::{Exchange, Operation, Patience};
use crate::mcp::wire::tap::{Tap, method_name};
use crate::mcp::{Era, SessionView};

/// The session as its owner holds it: when it is dropped, the session's own tasks end.
pub struct Live {
    pub(super) core: Arc<Core>,
    /// Held for its `Drop`.
    pub(super) _tasks: TaskGuards,
}

/// What requests need; lives as long as one of them.
pub struct Core {
    pub(super) tap: Arc<Tap>,
    pub(super) view: Arc<SessionView>,
    pub(super) peer: Peer<RoleClient>,
    pub(super) outbox: Option<Arc<Outbox>>,
    pub(super) subscriptions: Subscriptions,
    /// What `_meta` of every request holds (2026-07-28, SEP-2575); empty in the legacy era.
    pub(super) request_meta: Map<String, Value>,
    pub(super) log_level: parking_lot::Mutex<Option<LogLevel>>,
    pub(super) closing: OnceLock<Error>,
    pub(super) service: tokio::sync::Mutex<Option<RunningService<RoleClient, Client>>>,
}

/// Tasks that end when they are dropped.
#[derive(Default)]
pub struct TaskGuards(parking_lot::Mutex<Vec<tokio::task::AbortHandle>>);

impl TaskGuards {
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let handle = tokio::spawn(task).abort_handle();
        self.0.lock().push(handle);
    }
}

impl Drop for TaskGuards {
    fn drop(&mut self) {
        for task in self.0.get_mut() {
            task.abort();
        }
    }
}

/// How long a round trip may take.
#[derive(Clone)]
pub struct Limits {
    /// Without a sign of life.
    pub timeout: Duration,
    /// In all.
    pub max_total: Duration,
    /// Ends it at once.
    pub cancel: CancellationToken,
}

impl Limits {
    /// For the session's own requests; their callers have patience of their own.
    pub(super) fn own(timeout: Duration) -> Self {
        Self { timeout, max_total: timeout, cancel: CancellationToken::new() }
    }
}

/// Tells the server and the tap that nobody waits any more, unless the answer came.
struct Abandon<'a> {
    core: &'a Core,
    exchange: &'a Exchange,
    id: i64,
    why: &'static str,
    armed: bool,
}

impl Abandon<'_> {
    fn because(&mut self, error: &Error) {
        match error.code {
            ErrorCode::Timeout => self.why = "timed out",
            ErrorCode::Cancelled => self.why = "was cancelled",
            _ => {}
        }
    }
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        self.exchange.operation.give_up();
        if self.core.tap.abandon(self.id, self.exchange, self.why) {
            self.core.send_cancelled(self.id, self.why);
        }
    }
}

impl Core {
    pub(super) fn era(&self) -> Era {
        self.view.era
    }

    /// Sends one request and gives its raw result.
    pub(super) async fn round_trip(
        &self,
        trip: Trip,
        operation: &Arc<Operation>,
        limits: &Limits,
    ) -> Result<Payload, Error> {
        let exchange =
            Exchange::new(Arc::clone(operation), method_name(trip.method), trip.target.clone());
        let named = |error: Error| self.named(error, &exchange);
        self.ensure_open().map_err(named)?;
        if let Some(outbox) = &self.outbox {
            return self.over_pipe(outbox, trip, &exchange, limits).await.map_err(named);
        }
        let params = trip.params.map(Params::into_value);
        let mut request = CustomRequest::new(trip.method, params);
        request.extensions.insert(Arc::clone(&exchange));
        let request = ClientRequest::CustomRequest(request);
        let options = match self.level_meta() {
            Some(meta) => PeerRequestOptions::no_options().with_meta(meta),
            None => PeerRequestOptions::no_options(),
        };
        let sending = self.peer.send_cancellable_request(request, options);
        let handle = self.bounded(sending, &exchange, limits).await.map_err(named)?;
        let handle = handle.map_err(|error| named(self.failure(error)))?;
        self.response(handle, &exchange, limits).await.map_err(named)
    }

    /// A round trip over a pipe: written here, answered by the tap.
    async fn over_pipe(
        &self,
        outbox: &Outbox,
        trip: Trip,
        exchange: &Arc<Exchange>,
        limits: &Limits,
    ) -> Result<Payload, Error> {
        if !outbox.is_roomy() {
            self.bounded(outbox.has_room(), exchange, limits).await?;
        }
        let mut meta = Cow::Borrowed(&self.request_meta);
        if let Some(level) = self.level_meta() {
            meta.to_mut().extend(level.0.0);
        }
        let answer = exchange.wait_directly();
        let asked = outbox.ask(&self.tap, exchange, trip.params.as_ref(), &meta);
        let id = asked.map_err(|error| self.unsent(&error))?;
        let mut abandon = Abandon { core: self, exchange, id, why: "was given up", armed: true };
        // With many calls at once the others queue theirs first, and one write takes them all: each
        // write wakes the server, which costs more than everything else here. A call that is alone
        // does not wait.
        if self.tap.is_busy() {
            tokio::task::yield_now().await;
        }
        let work = async {
            match outbox.flush().await {
                Ok(()) => Ok(answer.await),
                Err(error) => Err(error),
            }
        };
        match self.bounded(work, exchange, limits).await {
            Ok(Ok(answer)) => {
                abandon.armed = false;
                answer.unwrap_or_else(|_| Err(self.gone()))
            }
            Ok(Err(error)) => {
                abandon.armed = false;
                self.tap.unsent(id);
                Err(self.unsent(&error))
            }
            Err(error) => {
                abandon.because(&error);
                Err(error)
            }
        }
    }

    fn unsent(&self, error: &SendError) -> Error {
        if matches!(error, SendError::Broken(_)) {
            self.tap.deaf(&error.to_string());
        }
        match error {
            SendError::Closed => self.gone(),
            other => Error::new(ErrorCode::ServerUnavailable, other.to_string()),
        }
    }

    async fn response(
        &self,
        mut handle: RequestHandle<RoleClient>,
        exchange: &Arc<Exchange>,
        limits: &Limits,
    ) -> Result<Payload, Error> {
        let RequestId::Number(id) = handle.id else {
            return Err(Error::new(ErrorCode::Internal, "request ids are numbers"));
        };
        let mut abandon = Abandon { core: self, exchange, id, why: "was given up", armed: true };
        let answer = match self.bounded(&mut handle.rx, exchange, limits).await {
            Ok(answer) => answer,
            Err(error) => {
                abandon.because(&error);
                return Err(error);
            }
        };
        abandon.armed = false;
        match answer {
            Ok(Ok(ServerResult::CustomResult(result))) => {
                Ok(exchange.kept().unwrap_or_else(|| result.0.into()))
            }
            Ok(Ok(other)) => serde_json::to_value(other)
                .map(Payload::from)
                .map_err(|error| Error::new(ErrorCode::Internal, error.to_string())),
            Ok(Err(error)) => Err(exchange.failure().unwrap_or_else(|| self.failure(error))),
            Err(_) => Err(exchange.failure().unwrap_or_else(|| self.gone())),
        }
    }

    /// Runs `work` until it is done, cancelled, out of patience, or the session is over.
    pub(super) async fn bounded<T>(
        &self,
        work: impl Future<Output = T>,
        exchange: &Arc<Exchange>,
        limits: &Limits,
    ) -> Result<T, Error> {
        let mut work = std::pin::pin!(work);
        let operation = &exchange.operation;
        loop {
            let patience = operation.patience(limits.timeout, limits.max_total);
            let doubt = exchange.doubted_until();
            let deadline = async {
                let left = match patience {
                    Patience::Held => None,
                    Patience::Left(left) => tokio::time::Instant::now().checked_add(left),
                    Patience::Silent | Patience::Exhausted => return,
                };
                match (left, doubt) {
                    (Some(a), Some(b)) => tokio::time::sleep_until(a.min(b)).await,
                    (Some(at), None) | (None, Some(at)) => tokio::time::sleep_until(at).await,
                    (None, None) => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                value = &mut work => return Ok(value),
                () = limits.cancel.cancelled() => {
                    return Err(Error::new(ErrorCode::Cancelled, "cancelled by the caller"));
                }
                () = self.tap.over.cancelled() => return Err(self.gone()),
                () = operation.changed.notified() => {}
                () = deadline => {}
            }
            if let Some(reason) = exchange.confirmed_doubt() {
                return Err(Error::new(ErrorCode::Protocol, reason));
            }
            match operation.patience(limits.timeout, limits.max_total) {
                Patience::Silent => {
                    return Err(timed_out(limits.timeout, "without a sign of life"));
                }
                Patience::Exhausted => return Err(timed_out(limits.max_total, "in all")),
                Patience::Held | Patience::Left(_) => {}
            }
        }
    }

    /// The log level goes with every modern request.
    fn level_meta(&self) -> Option<RequestMetaObject> {
        const LEVEL: &str = "io.modelcontextprotocol/logLevel";
        let level = if self.era() == Era::Legacy { None } else { *self.level() }?;
        let mut meta = RequestMetaObject::new();
        meta.0.0.insert(LEVEL.to_owned(), super::request::level_name(level).into());
        Some(meta)
    }

    /// Sends `notifications/cancelled`. Only queues it: a server that reads nothing must not hold
    /// up the caller who gave up on it.
    fn send_cancelled(&self, id: i64, why: &str) {
        let reason = format!("the request {why}");
        let param = CancelledNotificationParam::new(Some(RequestId::Number(id)), Some(reason));
        self.notify(ClientNotification::CancelledNotification(CancelledNotification::new(param)));
    }

    pub(super) fn notify(&self, notification: ClientNotification) {
        if let Some(outbox) = &self.outbox {
            let message = ClientJsonRpcMessage::notification(notification);
            // A broken pipe is told to the next request; here nobody waits for it.
            if outbox.push(&self.tap, &message).is_ok() {
                outbox.flush_later();
            }
            return;
        }
        // The first poll queues it; its completion is of no interest.
        let _ = self.peer.send_notification(notification).now_or_never();
    }

    fn ensure_open(&self) -> Result<(), Error> {
        if self.tap.over.is_cancelled() || self.closing.get().is_some() {
            return Err(self.gone());
        }
        Ok(())
    }

    /// Why nothing can be sent any more.
    pub(super) fn gone(&self) -> Error {
        self.closing.get().cloned().unwrap_or_else(|| {
            Error::new(ErrorCode::ServerUnavailable, self.tap.ending().to_owned())
        })
    }

    fn failure(&self, error: ServiceError) -> Error {
        match error {
            ServiceError::TransportClosed => self.gone(),
            ServiceError::TransportSend(error) => {
                if let Some(SendError::Closed) = error.error.downcast_ref::<SendError>() {
                    return self.gone();
                }
                Error::new(ErrorCode::ServerUnavailable, describe(error.error.as_ref()))
            }
            ServiceError::McpError(error) => Error::new(
                ErrorCode::Protocol,
                format!("the server answered with error {}: {}", error.code.0, error.message),
            ),
            other => Error::new(ErrorCode::Internal, other.to_string()),
        }
    }

    fn named(&self, mut error: Error, exchange: &Exchange) -> Error {
        error.server.get_or_insert_with(|| self.tap.context.server.clone());
        error.request.get_or_insert_with(|| exchange.name());
        error
    }
}

fn timed_out(after: Duration, how: &str) -> Error {
    Error::new(ErrorCode::Timeout, format!("no answer within {:.1} s {how}", after.as_secs_f64()))
        .help("raise `timeout` if the server needs longer; progress notifications extend it")
}

impl SessionHandle for Live {
    fn view(&self) -> Arc<SessionView> {
        Arc::clone(&self.core.view)
    }

    fn request(
        &self,
        request: Request,
        context: RequestContext,
    ) -> BoxFuture<'static, Result<Payload, Error>> {
        let core = Arc::clone(&self.core);
        Box::pin(async move { core.perform(request, context).await })
    }

    fn list(&self, kind: ListKind) -> BoxFuture<'static, Result<FetchedList, Error>> {
        let core = Arc::clone(&self.core);
        Box::pin(async move { core.fetch(kind).await })
    }

    fn roots_changed(&self) -> BoxFuture<'static, ()> {
        if self.core.era() == Era::Legacy {
            let changed = RootsListChangedNotification::default();
            self.core.notify(ClientNotification::RootsListChangedNotification(changed));
        }
        Box::pin(std::future::ready(()))
    }

    fn close(&self, reason: Error) -> BoxFuture<'static, ()> {
        const PATIENCE: Duration = Duration::from_secs(1);
        let core = Arc::clone(&self.core);
        Box::pin(async move {
            let message = reason.message.clone();
            let _ = core.closing.set(reason);
            core.tap.end(&message);
            if let Some(outbox) = &core.outbox {
                outbox.shut().await;
            }
            if let Some(mut service) = core.service.lock().await.take() {
                let _ = service.close_with_timeout(PATIENCE).await;
            }
        })
    }
}
