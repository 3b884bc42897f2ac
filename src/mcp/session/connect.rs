//! Opening a session: transport, handshake through rmcp, and errors that say what was seen.

use std::sync::{Arc, OnceLock};

use rmcp::RoleClient;
use rmcp::model::ProtocolVersion;
use rmcp::service::{
    ClientCacheConfig, ClientInitializeError, ClientLifecycleMode, ClientServiceExt, RunningService,
};
use rmcp::transport::Transport;
use serde_json::{Map, Value};

use super::listen::Subscriptions;
use super::live::{Core, Limits, Live, TaskGuards};
use super::request::set_level;
use super::{Attempt, ConnectError, Endpoint, SessionContext, SessionHandle};
use crate::base::text::SafeText;
use crate::error::{Error, ErrorCode};
use crate::mcp::FindingKind;
use crate::mcp::client::Client;
use crate::mcp::transport::http::{Http, describe};
use crate::mcp::transport::outbox::{Outbox, SendError};
use crate::mcp::transport::pipe::Pipe;
use crate::mcp::wire::exchange::Operation;
use crate::mcp::wire::tap::{Handshake, Tap};
use crate::mcp::{Era, SessionView};

/// A session that is open.
#[derive(Clone)]
pub struct Connected {
    /// What requests are made through.
    pub session: Arc<dyn SessionHandle>,
    /// What the handshake gave.
    pub view: Arc<SessionView>,
}

impl std::fmt::Debug for Connected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connected").field("view", &self.view).finish_non_exhaustive()
    }
}

/// Opens a session: connects, shakes hands, gives the handle.
///
/// Has no deadline of its own: drop the future when patience ends, and nothing is left running;
/// [`SessionContext::seen`] says what had arrived by then. Dropping the last handle ends the
/// session.
///
/// # Errors
/// [`ErrorCode::ServerStartup`] with what was seen and what was not.
pub async fn connect(
    endpoint: Endpoint,
    attempt: &Attempt,
    context: SessionContext,
) -> Result<Connected, ConnectError> {
    context.seen.open();
    let tap = Tap::new(context);
    let tasks = TaskGuards::default();
    tasks.spawn(Arc::clone(&tap.pump).run());
    let opened = match endpoint {
        Endpoint::Pipe { read, write } => {
            let outbox = Outbox::new(write, &tap.context.limits);
            tasks.spawn(Arc::clone(&outbox).run());
            let pipe = Pipe::new(Arc::clone(&tap), read, Arc::clone(&outbox));
            shake_hands(pipe, attempt, &tap).await.map(|service| (service, Some(outbox)))
        }
        Endpoint::Http(config) => match Http::new(&tap, &config) {
            Ok((http, held)) => {
                let shaken = shake_hands(http, attempt, &tap).await;
                held.ready().await;
                shaken.map(|service| (service, None)).map_err(|error| ConnectError {
                    unauthorized: error.unauthorized || held.is_unauthorized(),
                    ..error
                })
            }
            Err(failure) => Err(ConnectError {
                error: Error::new(ErrorCode::ServerStartup, failure.to_string()),
                retryable: false,
                unauthorized: false,
                closed: false,
            }),
        },
    };
    let opened = opened.and_then(|(service, outbox)| {
        let view = agree(&service, attempt, &tap)?;
        Ok((service, outbox, Arc::new(view)))
    });
    match opened {
        Ok((service, outbox, view)) => Ok(run(service, outbox, view, tap, tasks).await),
        Err(mut error) => {
            error.error.server.get_or_insert_with(|| tap.context.server.clone());
            tap.pump.flush();
            Err(error)
        }
    }
}

type Service = RunningService<RoleClient, Client>;

async fn shake_hands<T>(
    transport: T,
    attempt: &Attempt,
    tap: &Arc<Tap>,
) -> Result<Service, ConnectError>
where
    T: Transport<RoleClient> + Send + 'static,
{
    const LEGACY: ProtocolVersion = ProtocolVersion::LATEST_WITH_INITIALIZE;
    let modern = vec![ProtocolVersion::V_2026_07_28];
    let (offer, mode) = match attempt {
        Attempt::Legacy(version) => {
            let version = version.as_deref().map_or(LEGACY, version_named);
            (version, ClientLifecycleMode::Initialize)
        }
        Attempt::Modern => (LEGACY, ClientLifecycleMode::Discover { preferred_versions: modern }),
        Attempt::Auto => (
            LEGACY,
            ClientLifecycleMode::Auto { preferred_versions: modern, legacy_version: Some(LEGACY) },
        ),
    };
    let client = Client::new(Arc::clone(tap), offer);
    client
        .serve_with_lifecycle(transport, mode)
        .await
        .map_err(|error| explain(error, tap.take_handshake(), tap))
}

fn version_named(version: &str) -> ProtocolVersion {
    serde_json::from_value(Value::String(version.to_owned()))
        .unwrap_or(ProtocolVersion::LATEST_WITH_INITIALIZE)
}

/// What was negotiated, checked against what was wanted.
fn agree(service: &Service, attempt: &Attempt, tap: &Tap) -> Result<SessionView, ConnectError> {
    let result = tap.take_handshake().result.unwrap_or_default();
    let version = service
        .peer_info()
        .map(|info| info.protocol_version.as_str().to_owned())
        .unwrap_or_default();
    let modern = result.get("supportedVersions").is_some();
    let shown = format!("`{}`", SafeText::cut(&version, 64));
    if let Attempt::Legacy(Some(pinned)) = attempt
        && *pinned != version
    {
        let message = format!("the server answered with version {shown}, the entry pins {pinned}");
        return Err(version_error(&message, "change or drop `protocol` in the entry", tap));
    }
    if !ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version) {
        let oldest_unknown = is_date(&version) && version.as_str() < "2026-07-28";
        let message = format!("the server answered with the unknown version {shown}");
        if !oldest_unknown {
            return Err(version_error(&message, "the host cannot speak it", tap));
        }
        tap.report(FindingKind::Version, &message, "", None);
    }
    if !modern && version == "2026-07-28" {
        let message = "the server answered `initialize` with 2026-07-28, which has no `initialize`";
        tap.report(FindingKind::Version, message, "", None);
    }
    tap.negotiated(&version, modern);
    Ok(view_of(&result, &version, if modern { Era::Modern } else { Era::Legacy }))
}

fn is_date(version: &str) -> bool {
    let bytes = version.as_bytes();
    bytes.len() == 10
        && bytes.iter().enumerate().all(|(at, b)| match at {
            4 | 7 => *b == b'-',
            _ => b.is_ascii_digit(),
        })
}

fn version_error(message: &str, help: &str, tap: &Tap) -> ConnectError {
    tap.report(FindingKind::Version, message, "", None);
    ConnectError {
        error: Error::new(ErrorCode::ServerStartup, message).help(help),
        retryable: false,
        unauthorized: false,
        closed: false,
    }
}

fn view_of(result: &Value, version: &str, era: Era) -> SessionView {
    const META: &str = "io.modelcontextprotocol/serverInfo";
    let info = result
        .get("serverInfo")
        .or_else(|| result.get("_meta").and_then(|meta| meta.get(META)))
        .cloned()
        .unwrap_or_default();
    let text = |key: &str| info.get(key).and_then(Value::as_str).map(SafeText::line);
    let instructions = result.get("instructions").and_then(Value::as_str);
    SessionView {
        era,
        protocol_version: SafeText::line(version),
        name: text("name").unwrap_or_default(),
        version: text("version").unwrap_or_default(),
        title: text("title"),
        instructions: instructions.map(SafeText::block),
        capabilities: Arc::new(result.get("capabilities").cloned().unwrap_or_default()),
        server_info: Arc::new(info),
    }
}

async fn run(
    service: Service,
    outbox: Option<Arc<Outbox>>,
    view: Arc<SessionView>,
    tap: Arc<Tap>,
    tasks: TaskGuards,
) -> Connected {
    let peer = service.peer().clone();
    // The host has a cache of its own, which can be looked into and never hides a dead server.
    peer.set_response_cache_config(ClientCacheConfig::disabled()).await;
    let request_meta = match view.era {
        Era::Legacy => Map::new(),
        Era::Modern => service.service().request_meta(&view.protocol_version),
    };
    let core = Arc::new(Core {
        request_meta,
        log_level: parking_lot::Mutex::new(tap.context.log_level),
        view: Arc::clone(&view),
        peer,
        outbox,
        subscriptions: Subscriptions::default(),
        closing: OnceLock::new(),
        service: tokio::sync::Mutex::new(Some(service)),
        tap,
    });
    if core.era() == Era::Modern {
        tasks.spawn(Arc::clone(&core).keep_listening());
    } else if let Some(level) = core.tap.context.log_level
        && core.view.capabilities.get("logging").is_some()
    {
        let core = Arc::clone(&core);
        tasks.spawn(async move {
            let operation = Operation::own(core.tap.context.clock);
            let limits = Limits::own(std::time::Duration::from_secs(30));
            if let Err(error) = core.round_trip(set_level(level), &operation, &limits).await {
                tracing::warn!(server = %core.tap.context.server, %error, "log level not set");
            }
        });
    }
    Connected { session: Arc::new(Live { core, _tasks: tasks }), view }
}

/// Says what went wrong, with what was seen.
fn explain(error: ClientInitializeError, handshake: Handshake, tap: &Tap) -> ConnectError {
    let seen = tap.context.seen.describe();
    // The answer to the probe only said that the server is of the older era.
    let error = match error {
        ClientInitializeError::LegacyFallbackFailed { fallback, .. } => *fallback,
        other => other,
    };
    let unauthorized = error.is_authorization_required();
    let closed = matches!(
        error,
        ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. }
    );
    let mut out = match (error, handshake.failure) {
        (ClientInitializeError::NoCompatibleProtocolVersion { server_supported, .. }, _) => {
            let versions: Vec<&str> =
                server_supported.iter().map(ProtocolVersion::as_str).collect();
            let versions = SafeText::line(&versions.join(", "));
            // No finding: another attempt in the other era may well succeed, and if none does,
            // this is what the start failed of.
            let message = format!("no common protocol version: the server speaks {versions}");
            Error::new(ErrorCode::ServerStartup, message)
        }
        (ClientInitializeError::ConnectionClosed(_), _) => {
            Error::new(ErrorCode::ServerStartup, format!("{}: {seen}", tap.ending()))
        }
        (ClientInitializeError::TransportError { error, context }, _) => {
            let cause = describe(error.error.as_ref());
            if error.error.is::<SendError>() {
                Error::new(ErrorCode::ServerStartup, format!("{context}: {cause}; {seen}"))
            } else {
                Error::new(ErrorCode::ServerStartup, cause)
            }
        }
        (_, Some(failure)) => {
            let mut error = failure;
            error.code = ErrorCode::ServerStartup;
            error.message = format!("the handshake failed: {}", error.message);
            error
        }
        (error, None) => {
            let text = SafeText::line(&error.to_string());
            Error::new(ErrorCode::ServerStartup, format!("the handshake failed: {text}; {seen}"))
        }
    };
    if unauthorized {
        out.help = Some(
            "add an `Authorization` header to the entry's `headers`, or with -H beside an address"
                .to_owned(),
        );
    }
    if handshake.late_discover {
        out.message += "; it answered `server/discover` only after `initialize` had been sent";
    }
    ConnectError { error: out, retryable: true, unauthorized, closed }
}
