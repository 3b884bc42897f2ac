//! Opening a session: transport, handshake in either era, and errors that say what was received.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{Either, select};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::live::{Core, LiveSession};
use super::message::{RpcRequest, set_level};
use super::{Attempt, ConnectError, Endpoint, SessionContext, SessionHandle};
use crate::pending::PendingRequest;
#[cfg(feature = "http")]
use crate::transport::http::Http;
use crate::transport::pipe::PipeTransport;
#[cfg(feature = "http")]
use crate::transport::remote::{RemoteServer, Streams};
use crate::transport::{Outgoing, SendError, Transport};
#[cfg(feature = "http")]
use crate::transport::{sse, websocket};
use crate::wire::tap::Tap;
use crate::{Era, FindingKind, SessionView, era};
use base::human::count;
use base::{Redactor, SafeText};
#[cfg(feature = "http")]
use config::HttpConfig;
use config::error::{Error, ErrorCode};

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
    context.seen.open();
    let tap = Tap::new(context);
    let transport: Arc<dyn Transport> = match endpoint {
        Endpoint::Pipe { read, write } => PipeTransport::open(&tap, read, write),
        #[cfg(feature = "http")]
        Endpoint::Sse(config) => streams(&tap, &config, false).await?,
        #[cfg(feature = "http")]
        Endpoint::WebSocket(config) => streams(&tap, &config, true).await?,
        #[cfg(feature = "http")]
        Endpoint::Http(config) => Http::open(&tap, &config).map_err(|e| unusable(&e, &tap))?,
        #[cfg(not(feature = "http"))]
        Endpoint::Sse(config) | Endpoint::WebSocket(config) | Endpoint::Http(config) => {
            let message = format!(
                "{} cannot be reached: this program was built without HTTP (the feature `http` of \
                 mcpdeck)",
                config.url.origin().ascii_serialization()
            );
            return Err(unusable(&SendError::Refused(message.into()), &tap));
        }
    };
    tap.send_through(&transport);
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
            tap.pump.flush();
            Err(error)
        }
    }
}

/// Opens an SSE or WebSocket connection, adapted to a pair of streams.
#[cfg(feature = "http")]
async fn streams(
    tap: &Arc<Tap>,
    config: &HttpConfig,
    socket: bool,
) -> Result<Arc<PipeTransport>, ConnectError> {
    let remote = RemoteServer::new(config, tap, false).map_err(|error| unusable(&error, tap))?;
    let opened = if socket {
        websocket::open(remote, &config.url).await
    } else {
        sse::open(remote, &config.url).await
    };
    let Streams { read, write } = opened.map_err(|error| {
        let unauthorized = tap.unauthorized.load(Ordering::Relaxed);
        ConnectError { retryable: !unauthorized, unauthorized, ..unusable(&error, tap) }
    })?;
    Ok(PipeTransport::open(tap, read, write))
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

async fn shake_hands(core: &Core, attempt: &Attempt) -> Result<SessionView, ConnectError> {
    let explained = |error: Error| explain(error, core);
    match attempt {
        Attempt::Legacy(version) => {
            let offer = version.as_deref().unwrap_or(era::LEGACY);
            initialize(core, offer, version.as_deref()).await
        }
        Attempt::Modern => discovered(core, discover(core).await.map_err(explained)?),
        Attempt::Auto => {
            let mut probe = Box::pin(discover(core));
            let probed = tokio::select! {
                probed = &mut probe => probed,
                () = tokio::time::sleep(PROBE_TIMEOUT) => {
                    let second = Box::pin(initialize(core, era::LEGACY, None));
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
                Err(error) if is_of_legacy(&error) => initialize(core, era::LEGACY, None).await,
                Err(error) => Err(explained(error)),
            }
        }
    }
}

/// Whether the answer to the probe indicates a legacy server: any error or malformed answer, except
/// the errors of the modern era (-32020 headers, -32021 capabilities, -32022 version).
fn is_of_legacy(error: &Error) -> bool {
    let code = error.rpc.as_ref().and_then(|rpc| rpc.code);
    error.code == ErrorCode::Protocol && !matches!(code, Some(-32022..=-32020))
}

/// Requests the modern era; returns the raw result.
async fn discover(core: &Core) -> Result<Value, Error> {
    let meta = era::request_meta();
    let ask = || core.shake(RpcRequest::new("server/discover", None, None), &meta);
    let result = match ask().await {
        // It rejected a version that it claims to support: ask once more (versioning, negotiation).
        Err(error) if supported(&error).contains(&era::MODERN) => ask().await?,
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
    if !versions.contains(&era::MODERN) {
        return Err(no_common(&versions));
    }
    note_gaps(core, &result, "server/discover");
    core.agreed(era::MODERN, Era::Modern);
    Ok(view_of(&result, era::MODERN, Era::Modern, &core.tap.context.redactor))
}

async fn initialize(
    core: &Core,
    offer: &str,
    pinned: Option<&str>,
) -> Result<SessionView, ConnectError> {
    let result = core.initialize(offer).await.map_err(|error| explain(error, core))?;
    let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
    let shown = format!("`{}`", SafeText::cut(version, 64));
    if pinned.is_some_and(|pinned| pinned != version) {
        let pinned = pinned.unwrap_or_default();
        let message = format!("the server answered with version {shown}, the entry pins {pinned}");
        return Err(version_error(&message, "change or drop `protocol` in the entry", &core.tap));
    }
    // A version that the client does not support ends the connection (lifecycle, negotiation).
    if !era::VERSIONS.contains(&version) {
        let message = format!("the server answered with the unknown version {shown}");
        return Err(version_error(&message, "the host cannot speak it", &core.tap));
    }
    if version == era::MODERN {
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
        let own = PendingRequest::internal(Duration::MAX);
        Ok(self.round_trip_with(&rpc, &own, meta).await?.into_value())
    }

    /// Sends `initialize`; returns the raw result, which at least names a version.
    pub(super) async fn initialize(&self, offer: &str) -> Result<Value, Error> {
        let rpc = RpcRequest::new("initialize", None, Some(era::initialize(offer)));
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
    ConnectError { retryable: true, ..failed(Error::new(ErrorCode::ServerStartup, message)) }
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
            let own = PendingRequest::internal(Duration::from_secs(30));
            if let Err(error) = core.round_trip(set_level(level), &own).await {
                tracing::warn!(server = %core.tap.context.server, %error, "log level not set");
            }
        });
    }
}

/// `UnsupportedProtocolVersionError`.
const UNSUPPORTED_VERSION_CODE: i64 = -32022;

/// The versions a server supports, from its error when it rejects the requested one.
fn supported(error: &Error) -> Vec<&str> {
    let rpc = error.rpc.as_ref().filter(|rpc| rpc.code == Some(UNSUPPORTED_VERSION_CODE));
    let named = rpc.and_then(|rpc| rpc.data.as_ref()).and_then(|data| data.get("supported"));
    named.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Explains what went wrong, including what was received.
fn explain(mut error: Error, core: &Core) -> ConnectError {
    let tap = &core.tap;
    let closed = error.code == ErrorCode::ServerUnavailable;
    let unauthorized = tap.unauthorized.load(Ordering::Relaxed);
    if error.rpc.as_ref().is_some_and(|rpc| rpc.code == Some(UNSUPPORTED_VERSION_CODE)) {
        return no_common(&supported(&error));
    }
    if !closed {
        error.message = format!("the handshake failed: {}", error.message);
    } else if !core.transport.is_http() {
        error.message = format!("{}: {}", error.message, tap.context.seen.describe());
    }
    error.code = ErrorCode::ServerStartup;
    // With an account, the message says how to sign in.
    if unauthorized && tap.context.auth.is_none() {
        error.help = Some(
            "add an `Authorization` header to the entry's `headers`, or with -H beside an address"
                .to_owned(),
        );
    }
    // Retrying does not sign in.
    ConnectError { error, retryable: !unauthorized, unauthorized, closed }
}

// Describes what a server has sent while a session is being opened. The session's owner decides how
// long to wait, and takes its error message from here when it gives up.

/// What arrived on a connection since it was opened; shared by the session and its owner.
#[derive(Debug, Default)]
pub struct ReceivedSoFar(Mutex<Arrivals>);

/// What arrived on a connection.
#[derive(Debug, Default)]
pub struct Arrivals {
    opened: Option<Instant>,
    first_byte: Option<Instant>,
    /// Protocol messages received.
    pub messages: u64,
    junk: u64,
    /// The first line that was not a protocol message.
    pub first_junk: Option<SafeText>,
    /// Bytes received that still lack a line end.
    pub unfinished: usize,
    asked: Option<String>,
    /// The status of the last HTTP response; over HTTP there is no stdout.
    pub http: Option<u16>,
}

impl ReceivedSoFar {
    /// Resets it: a connection is being opened.
    pub fn open(&self) {
        self.with(|s| *s = Arrivals { opened: Some(Instant::now()), ..Arrivals::default() });
    }

    /// Records that a handshake request was sent.
    pub fn record_request(&self, method: &str) {
        self.with(|s| s.asked = Some(method.to_owned()));
    }

    /// Records that bytes arrived; returns true for the first.
    pub fn bytes(&self) -> bool {
        self.with(|s| s.first_byte.is_none() && s.first_byte.replace(Instant::now()).is_none())
    }

    /// Records `count` lines that are not protocol messages.
    pub fn junk(&self, line: &SafeText, count: u64) {
        self.with(|s| {
            s.junk += count;
            s.first_junk.get_or_insert_with(|| line.clone());
        });
    }

    /// Whether the last response is typical of a server that accepts no POST at its address.
    pub fn refused_post(&self) -> bool {
        self.with(|s| s.messages == 0 && matches!(s.http, Some(400 | 404 | 405)))
    }

    /// What was received and what was not, as a clause: `no byte from the server in 30.0 s`.
    pub fn describe(&self) -> String {
        self.with(|s| s.describe())
    }

    /// Reads or updates the arrivals.
    pub fn with<T>(&self, act: impl FnOnce(&mut Arrivals) -> T) -> T {
        act(&mut self.0.lock())
    }
}

impl Arrivals {
    fn describe(&self) -> String {
        let since = self.opened.map(|at| at.elapsed().as_secs_f64()).unwrap_or_default();
        if let Some(status) = self.http {
            return format!(
                "HTTP {status} came, but no answer to {} in {since:.1} s",
                self.wanted()
            );
        }
        let Some(first) = self.first_byte else {
            return format!("no byte from the server in {since:.1} s");
        };
        if self.speaks_http() {
            return "stdout speaks HTTP, not JSON-RPC".to_owned();
        }
        let after = self.opened.map(|at| (first - at).as_secs_f64()).unwrap_or_default();
        let mut out = format!("first byte after {after:.1} s");
        if self.junk > 0 {
            let are = if self.junk == 1 { "is" } else { "are" };
            let lines = count(self.junk, "line");
            let _ = write!(out, ", {lines} on stdout that {are} not JSON-RPC");
            if let Some(line) = &self.first_junk {
                let _ = write!(out, " (first: `{line}`)");
            }
        }
        if self.unfinished > 0 {
            let bytes = count(self.unfinished, "byte");
            let _ = write!(out, ", {bytes} without an end of line");
        }
        let messages = match self.messages {
            0 => "no JSON-RPC message".to_owned(),
            n => count(n, "JSON-RPC message").to_string(),
        };
        out + &format!(", {messages}, no answer to {} in {since:.1} s", self.wanted())
    }

    fn wanted(&self) -> &str {
        self.asked.as_deref().unwrap_or("the handshake")
    }

    fn speaks_http(&self) -> bool {
        self.messages == 0
            && self.first_junk.as_deref().is_some_and(|line| line.starts_with("HTTP/"))
    }
}
