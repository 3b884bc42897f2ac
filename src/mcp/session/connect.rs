//! Opening a session: transport, handshake in either era, and errors that say what was received.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{Either, select};
use serde_json::{Map, Value};

#[cfg(feature = "http")]
use super::HttpEndpoint;
use super::live::{Core, LiveSession};
use super::{Attempt, ConnectError, Endpoint, SessionHandle, asked, delivery};
#[cfg(feature = "http")]
use crate::transport::http::Http;
#[cfg(feature = "http")]
use crate::transport::openapi::OpenApiTransport;
use crate::transport::pipe::PipeTransport;
#[cfg(feature = "http")]
use crate::transport::remote::{RemoteServer, Streams};
use crate::transport::{Outgoing, Transport};
#[cfg(feature = "http")]
use crate::transport::{sse, websocket};
use base::{Redactor, SafeText};
use config::error::{Error, ErrorCode};
use protocol::{
    Era, FindingKind, LEGACY_VERSION, MODERN_VERSION, Outbox, PROTOCOL_VERSIONS, PendingRequest,
    RpcCode, RpcRequest, SendError, SessionContext, SessionView, Tap, initialize_params,
    request_meta,
};

/// A session that is open.
#[derive(Clone)]
pub struct Connected {
    /// The handle for requests.
    pub session: Arc<dyn SessionHandle>,
    /// The result of the handshake.
    pub view: Arc<SessionView>,
}

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connected").field("view", &self.view).finish_non_exhaustive()
    }
}

/// Opens a session: connects, performs the handshake, returns the handle.
///
/// Has no deadline of its own: drop the future to give up, and nothing is left running;
/// [`SessionContext::seen`] says what had arrived by then. Dropping the last handle ends the
/// session.
///
/// # Errors
/// [`ErrorCode::ServerStartup`], with what was received and what was not.
pub async fn connect(
    endpoint: Endpoint,
    attempt: &Attempt,
    context: SessionContext,
) -> Result<Connected, ConnectError> {
    context.seen.open(context.clock.instant());
    let tap = Tap::new(context, asked::decide);
    let signs_in = endpoint.signs_in();
    let needs = if endpoint.has_credentials() { REFUSED_CREDENTIALS } else { NEEDS_HEADER };
    let transport: Arc<dyn Transport> = match endpoint {
        Endpoint::Pipe { read, write } => PipeTransport::open(&tap, read, write),
        #[cfg(feature = "http")]
        Endpoint::Sse(server) => streams(&tap, &server, false).await?,
        #[cfg(feature = "http")]
        Endpoint::WebSocket(server) => streams(&tap, &server, true).await?,
        #[cfg(feature = "http")]
        Endpoint::Http(server) => Http::open(&tap, &server).map_err(|e| unusable(&e, &tap))?,
        #[cfg(feature = "http")]
        Endpoint::OpenApi { api, server } => {
            OpenApiTransport::open(&tap, &api, &server).await.map_err(|e| unopened(&e, &tap))?
        }
        #[cfg(not(feature = "http"))]
        Endpoint::OpenApi { server, .. }
        | Endpoint::Sse(server)
        | Endpoint::WebSocket(server)
        | Endpoint::Http(server) => {
            let message = format!(
                "{} cannot be reached: this program was built without HTTP (the feature `http` of \
                 mcpdeck)",
                server.config.url.origin().ascii_serialization()
            );
            return Err(unusable(&SendError::Refused(message.into()), &tap));
        }
    };
    let outbox: Arc<dyn Outbox> = Arc::<dyn Transport>::clone(&transport);
    tap.send_through(&outbox);
    let opening = LiveSession::open(Arc::clone(&tap), transport);
    match shake_hands(&opening.core, attempt).await {
        Ok(view) => {
            let view = Arc::new(view);
            opening.core.opened(Arc::clone(&view));
            run(&opening);
            Ok(Connected { session: Arc::new(opening), view })
        }
        Err(mut error) => {
            error.error.server.get_or_insert_with(|| tap.context.server.clone());
            // With an account, the message says how to sign in.
            if error.unauthorized && !signs_in {
                error.error.help = Some(needs.to_owned());
            }
            delivery::flush(&tap);
            Err(error)
        }
    }
}

/// What helps where a server asks for authorisation and the entry names no account.
const NEEDS_HEADER: &str =
    "add an `Authorization` header to the entry's `headers`, or with -H beside an address";

/// What helps where a server refuses what the entry authorises itself with.
const REFUSED_CREDENTIALS: &str = "it refuses what the entry authorises itself with (its `Authorization` header, or the user in \
     its `url`): a token may have expired; get a new one";

/// Opens an SSE or WebSocket connection, adapted to a pair of streams.
#[cfg(feature = "http")]
async fn streams(
    tap: &Arc<Tap>,
    server: &HttpEndpoint,
    socket: bool,
) -> Result<Arc<PipeTransport>, ConnectError> {
    let remote = RemoteServer::new(server, tap, false).map_err(|error| unusable(&error, tap))?;
    let remote = remote.for_session();
    let opened = if socket {
        websocket::open(remote, &server.config.url).await
    } else {
        sse::open(remote, &server.config.url).await
    };
    let Streams { read, write } = opened.map_err(|error| unopened(&error, tap))?;
    Ok(PipeTransport::open(tap, read, write))
}

/// The error for a connection that was not opened, which another attempt may change.
#[cfg(feature = "http")]
fn unopened(failure: &SendError, tap: &Tap) -> ConnectError {
    let unauthorized = tap.unauthorized.load(Ordering::Relaxed);
    ConnectError { retryable: !unauthorized, unauthorized, ..unusable(failure, tap) }
}

/// The error for a connection that cannot be opened as configured.
fn unusable(failure: &SendError, tap: &Tap) -> ConnectError {
    let mut error = Error::new(ErrorCode::ServerStartup, failure.to_string());
    error.causes = failure.causes().map(str::to_owned);
    failed(error.server(&tap.context.server))
}

/// A failure that another attempt cannot change.
fn failed(error: Error) -> ConnectError {
    ConnectError { error, retryable: false, unauthorized: false, closed: false }
}

/// How long a probe may go unanswered before `initialize` follows it on the same connection: the
/// server may be slow, or may ignore methods it does not know. Whichever succeeds first counts.
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an answer may follow the echo of a request: a server that prints what it reads answers
/// as well, a program that repeats its input never does.
const ECHO_TIMEOUT: Duration = Duration::from_secs(5);

async fn shake_hands(core: &Core, attempt: &Attempt) -> Result<SessionView, ConnectError> {
    let tap = &core.tap;
    let repeats = async {
        tap.echoed.cancelled().await;
        tokio::time::sleep(ECHO_TIMEOUT).await;
    };
    tokio::select! {
        done = agree(core, attempt) => done,
        () = repeats => {
            let message = "it sends our own messages back and answers none";
            let help = if tap.context.seen.with(|seen| seen.http.is_some()) {
                "what is there repeats what it is sent, and is no MCP server: correct `url`"
            } else {
                "the program repeats its input, as `cat` does, and is no MCP server: correct \
                 `command` and `args` of the entry"
            };
            Err(failed(Error::new(ErrorCode::ServerStartup, message).help(help)))
        }
    }
}

/// The handshake with a peer that answers.
async fn agree(core: &Core, attempt: &Attempt) -> Result<SessionView, ConnectError> {
    let explained = |error: Error| explain(error, core);
    match attempt {
        Attempt::Legacy(version) => {
            let offer = version.as_deref().unwrap_or(LEGACY_VERSION);
            initialize(core, offer, version.as_deref()).await
        }
        Attempt::Modern => discovered(core, discover(core).await.map_err(explained)?),
        Attempt::Auto => {
            let mut probe = Box::pin(discover(core));
            let probed = tokio::select! {
                probed = &mut probe => probed,
                () = tokio::time::sleep(PROBE_TIMEOUT) => {
                    let second = Box::pin(initialize(core, LEGACY_VERSION, None));
                    match select(probe, second).await {
                        Either::Left((Ok(result), _)) => return discovered(core, result),
                        Either::Left((Err(_), second)) => return second.await,
                        Either::Right((Ok(view), _)) => return Ok(view),
                        Either::Right((Err(_), probe)) => probe.await,
                    }
                }
            };
            match probed {
                Ok(result) => discovered(core, result),
                Err(error) if is_of_legacy(&error) => initialize(core, LEGACY_VERSION, None).await,
                Err(error) => Err(explained(error)),
            }
        }
    }
}

/// Whether the answer to the probe indicates a legacy server: any error or malformed answer, except
/// the errors of the modern era.
fn is_of_legacy(error: &Error) -> bool {
    let code = error.rpc.as_ref().and_then(|rpc| rpc.code);
    error.code == ErrorCode::Protocol && !code.is_some_and(RpcCode::is_modern)
}

/// Requests the modern era; returns the raw result.
async fn discover(core: &Core) -> Result<Value, Error> {
    let meta = request_meta();
    let ask = || core.shake(RpcRequest::new("server/discover", None, None), &meta);
    let result = match ask().await {
        // It rejected a version that it claims to support: ask once more (versioning, negotiation).
        Err(error) if supported(&error).contains(&MODERN_VERSION) => ask().await?,
        result => result?,
    };
    let versions = result.get("supportedVersions").and_then(Value::as_array);
    if !versions.is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_string)) {
        let message = "the answer to `server/discover` names no `supportedVersions`";
        core.tap.report(FindingKind::WrongShape, message, "", Some("server/discover"));
        return Err(Error::new(ErrorCode::Protocol, message));
    }
    Ok(result)
}

/// Checks and records the result of `server/discover`.
fn discovered(core: &Core, result: Value) -> Result<SessionView, ConnectError> {
    let versions = result.get("supportedVersions").and_then(Value::as_array).into_iter().flatten();
    let versions: Vec<&str> = versions.filter_map(Value::as_str).collect();
    if !versions.contains(&MODERN_VERSION) {
        return Err(no_common(&versions));
    }
    note_gaps(core, &result, "server/discover");
    core.agreed(MODERN_VERSION, Era::Modern);
    Ok(view_of(&result, MODERN_VERSION, Era::Modern, &core.tap.context.redactor))
}

async fn initialize(
    core: &Core,
    offer: &str,
    pinned: Option<&str>,
) -> Result<SessionView, ConnectError> {
    let mut result = core.initialize(offer).await;
    // It refuses the version, and names others (2025-11-25, lifecycle, error handling).
    if pinned.is_none()
        && let Err(error) = &result
        && let Some(other) = common(&supported(error)).filter(|other| *other != offer)
    {
        result = core.initialize(other).await;
    }
    let result = result.map_err(|error| explain(error, core))?;
    let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let shown = format!("`{}`", SafeText::cut(version, 64));
    if pinned.is_some_and(|pinned| pinned != version) {
        let pinned = pinned.unwrap_or_default();
        let message = format!("the server answered with version {shown}, the entry pins {pinned}");
        return Err(version_error(&message, "change or drop `protocol` in the entry", &core.tap));
    }
    // A version that the client does not support ends the connection (lifecycle, negotiation).
    if !PROTOCOL_VERSIONS.contains(&version) {
        let message = format!("the server answered with the unknown version {shown}");
        return Err(version_error(&message, &other_version(), &core.tap));
    }
    if version == MODERN_VERSION {
        let message = "the server answered `initialize` with 2026-07-28, which has no `initialize`";
        core.tap.report(FindingKind::Version, message, "", None);
    }
    core.agreed(version, Era::Legacy);
    core.initialized().await.map_err(|error| explain(error, core))?;
    Ok(view_of(&result, version, Era::Legacy, &core.tap.context.redactor))
}

/// Reports what a handshake result lacks. It is rarely needed, so the session goes on without.
fn note_gaps(core: &Core, result: &Value, method: &str) {
    let named = |info: &Value| info.get("name").is_some_and(Value::is_string);
    let mut gaps = Vec::new();
    if !result.get("capabilities").is_some_and(Value::is_object) {
        gaps.push("`capabilities`");
    }
    if method == "initialize" && !result.get("serverInfo").is_some_and(named) {
        gaps.push("`serverInfo`");
    }
    if !gaps.is_empty() {
        let message = format!("the answer to `{method}` has no usable {}", gaps.join(" and "));
        core.tap.report(FindingKind::WrongShape, &message, "", Some(method));
    }
}

impl Core {
    /// One round trip of a handshake.
    async fn shake(&self, rpc: RpcRequest, meta: &Map<String, Value>) -> Result<Value, Error> {
        let own = PendingRequest::internal(self.tap.context.clock, Duration::MAX);
        Ok(self.round_trip_with(&rpc, &own, meta).await?.into_value())
    }

    /// Sends `initialize`; returns the raw result, which at least names a version.
    pub(super) async fn initialize(&self, offer: &str) -> Result<Value, Error> {
        let rpc = RpcRequest::new("initialize", None, Some(initialize_params(offer)));
        let result = self.shake(rpc, &Map::new()).await?;
        if !result.get("protocolVersion").is_some_and(Value::is_string) {
            let message = "the answer to `initialize` names no `protocolVersion`";
            self.tap.report(FindingKind::WrongShape, message, "", Some("initialize"));
            return Err(Error::new(ErrorCode::Protocol, message));
        }
        note_gaps(self, &result, "initialize");
        Ok(result)
    }

    /// Completes the handshake of the legacy era.
    pub(super) async fn initialized(&self) -> Result<(), Error> {
        let method = "notifications/initialized";
        let body = self.tap.notification(method, Value::Null);
        let message = Outgoing { method: method.into(), body, ..Outgoing::default() };
        match Arc::clone(&self.transport).send(message).await {
            Ok(()) => Ok(()),
            // The server is there, and its next answer shows whether it minds.
            Err(error @ (SendError::Refused(_) | SendError::Expired)) => {
                let message = format!("`{method}` was refused: {error}");
                self.tap.report(FindingKind::Tolerated, &message, "", Some(method));
                Ok(())
            }
            Err(error) => Err(self.unsent(&error)),
        }
    }

    /// Records the agreed version.
    pub(super) fn agreed(&self, version: &str, era: Era) {
        self.tap.negotiated(version, era == Era::Modern);
        self.transport.negotiated(version);
    }
}

fn no_common(versions: &[&str]) -> ConnectError {
    let versions = SafeText::line(&versions.join(", "));
    // Not a finding: an attempt in the other era may well succeed; if none does, the start fails
    // with this message.
    let message = format!("no common protocol version: the server speaks {versions}");
    let error = Error::new(ErrorCode::ServerStartup, message).help(other_version());
    ConnectError { retryable: true, ..failed(error) }
}

/// What helps where both sides speak no version in common.
fn other_version() -> String {
    format!(
        "mcpdeck speaks {}: take a version of the server that speaks one of them, or a newer mcpdeck",
        PROTOCOL_VERSIONS.join(", ")
    )
}

/// The newest version of those that begins with `initialize` and that the host speaks.
fn common(versions: &[&str]) -> Option<&'static str> {
    let mut known = PROTOCOL_VERSIONS.into_iter().rev();
    known.find(|version| *version != MODERN_VERSION && versions.contains(version))
}

fn version_error(message: &str, help: &str, tap: &Tap) -> ConnectError {
    tap.report(FindingKind::Version, message, "", None);
    failed(Error::new(ErrorCode::ServerStartup, message).help(help))
}

fn view_of(result: &Value, version: &str, era: Era, masks: &Redactor) -> SessionView {
    const META: &str = "io.modelcontextprotocol/serverInfo";
    let info = result
        .get("serverInfo")
        .or_else(|| result.get("_meta").and_then(|meta| meta.get(META)))
        .cloned()
        .unwrap_or_default();
    let info = masks.redact_json(&info).unwrap_or(info);
    let instructions = result.get("instructions").and_then(Value::as_str);
    let instructions = instructions.map(|text| masks.redact(text));
    SessionView {
        capabilities: Arc::new(result.get("capabilities").cloned().unwrap_or_default()),
        ..SessionView::new(era, version, info, instructions.as_deref())
    }
}

/// Starts the background work of a session.
fn run(live: &LiveSession) {
    let core = &live.core;
    if core.era() == Era::Modern {
        live.spawn(Arc::clone(core).keep_listening());
    } else if let Some(level) = core.tap.context.log_level
        && core.view().capabilities.get("logging").is_some()
    {
        let core = Arc::clone(core);
        live.spawn(async move {
            let own = PendingRequest::internal(core.tap.context.clock, Duration::from_secs(30));
            if let Err(error) = core.round_trip(RpcRequest::set_level(level), &own).await {
                tracing::warn!(server = %core.tap.context.server, %error, "log level not set");
            }
        });
    }
}

/// The versions a server supports, from its error when it rejects the requested one.
fn supported(error: &Error) -> Vec<&str> {
    let is_refusal = |code| matches!(code, RpcCode::UNSUPPORTED_VERSION | RpcCode::INVALID_PARAMS);
    let rpc = error.rpc.as_ref().filter(|rpc| rpc.code.is_some_and(is_refusal));
    let named = rpc.and_then(|rpc| rpc.data.as_ref()).and_then(|data| data.get("supported"));
    named.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Explains what went wrong, including what was received.
fn explain(mut error: Error, core: &Core) -> ConnectError {
    let tap = &core.tap;
    let closed = error.code == ErrorCode::ServerUnavailable;
    let unauthorized = tap.unauthorized.load(Ordering::Relaxed);
    let is_refused =
        error.rpc.as_ref().is_some_and(|rpc| rpc.code == Some(RpcCode::UNSUPPORTED_VERSION));
    if is_refused || !supported(&error).is_empty() {
        return no_common(&supported(&error));
    }
    if !closed {
        error.message = format!("the handshake failed: {}", error.message);
    } else if !core.transport.is_http() {
        error.message = format!(
            "{}: {}",
            error.message,
            tap.context.seen.describe(tap.context.clock.instant())
        );
    }
    error.code = ErrorCode::ServerStartup;
    // Retrying does not sign in.
    ConnectError { error, retryable: !unauthorized, unauthorized, closed }
}
