//! `mcpdeck serve`: one process runs every server once; agents, editors and scripts reach all of
//! them through it, over REST and as one aggregated MCP server (requirements, section 12).
//!
//! Owns the HTTP face, the tokens and the names clients see. Must not know a terminal: it uses the
//! engine through [`Host`] alone.

mod bridge;
mod catalog;
mod guard;
mod mcp;
mod metrics;
mod openapi;
mod outside;
mod raw;
mod rest;
mod tokens;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::routing::{get, post};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::host::Host;

pub use bridge::Bridge;
pub use tokens::{Client, OwnerToken, Scope, TokenError, TokenRecord, TokenStore};

/// Largest request body, in bytes.
const BODY: usize = 4 << 20;
/// Most legacy sessions at once, over all clients.
const SESSIONS: usize = 1_000;
/// How long open streams and calls may take to end after the first signal.
const DRAIN: Duration = Duration::from_secs(10);

/// What a service is started with.
#[derive(Debug)]
pub struct Options {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The operator's own token.
    pub owner: OwnerToken,
    /// Tokens of others, by hash.
    pub tokens: TokenStore,
    /// The profile of the operator's token.
    pub profile: String,
    /// `Host` values accepted besides loopback names with our port.
    pub allowed_hosts: Vec<String>,
    /// `Origin` values accepted; a request with any other is refused.
    pub allowed_origins: Vec<String>,
}

/// A service that listens.
pub struct Service {
    listener: TcpListener,
    gateway: Arc<Gateway>,
    stop: CancellationToken,
}

/// What all requests share.
pub(crate) struct Gateway {
    host: Host,
    owner: OwnerToken,
    tokens: TokenStore,
    profile: Arc<str>,
    allowed_hosts: Vec<String>,
    allowed_origins: Vec<String>,
    bridge: Bridge,
    parked: bridge::Parking,
    catalogs: catalog::Catalogs,
    metrics: metrics::Metrics,
    raws: raw::Raws,
    sessions: Arc<LocalSessionManager>,
    /// Whose a legacy session is: an id alone opens nothing.
    owners: Mutex<HashMap<String, Arc<str>>>,
}

impl Gateway {
    fn new(host: Host, bridge: Bridge, options: Options, port: u16) -> Arc<Self> {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        let mut allowed_hosts: Vec<String> =
            names.iter().map(|name| format!("{name}:{port}")).collect();
        allowed_hosts.extend(options.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()));
        Arc::new(Self {
            metrics: metrics::Metrics::new(host.clone()),
            host,
            owner: options.owner,
            tokens: options.tokens,
            profile: options.profile.into(),
            allowed_hosts,
            allowed_origins: options.allowed_origins,
            bridge,
            parked: bridge::Parking::default(),
            catalogs: catalog::Catalogs::default(),
            raws: raw::Raws::default(),
            sessions: Arc::default(),
            owners: Mutex::default(),
        })
    }

    /// Whose a bearer token is; `None` for none of ours, and for one that has expired.
    fn client(&self, bearer: &str) -> Option<Client> {
        if self.owner.is(bearer) {
            return Some(Client::owner(Arc::clone(&self.profile)));
        }
        self.tokens.client(bearer, self.host.clock().now())
    }

    fn owners(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<str>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn router(self: &Arc<Self>, stop: &CancellationToken) -> Router {
        let config = StreamableHttpServerConfig::default()
            // Checked for every route by the guard, which knows the port.
            .disable_allowed_hosts()
            .with_cancellation_token(stop.child_token())
            .with_max_request_body_bytes(BODY);
        let face = Arc::clone(self);
        let service = StreamableHttpService::new(
            move || Ok(mcp::Face::new(Arc::clone(&face), None)),
            Arc::clone(&self.sessions),
            config,
        );
        let mcp = Router::new()
            .route_service("/mcp", service.clone())
            .route_service("/mcp/p/{profile}", service)
            .layer(axum::middleware::from_fn_with_state(Arc::clone(self), raw::splice));
        Router::new()
            .route("/healthz", get(|| async { "ok\n" }))
            .route("/readyz", get(rest::ready))
            .route("/openapi.json", get(openapi::document))
            .route("/tools", get(rest::tools))
            .route("/tools/{name}/call", post(rest::call))
            .route("/servers", get(rest::servers))
            .route("/servers/restart", post(rest::restart))
            .route("/metrics", get(metrics::scrape))
            .layer(axum::extract::DefaultBodyLimit::max(BODY))
            .merge(mcp)
            .layer(axum::middleware::from_fn_with_state(Arc::clone(self), guard::guard))
            .with_state(Arc::clone(self))
    }
}

impl Service {
    /// Binds the address. `bridge` is the callback the host was built with: what servers ask during
    /// a client's call goes to that client through it.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub async fn bind(host: Host, bridge: Bridge, options: Options) -> std::io::Result<Self> {
        let listener = TcpListener::bind(options.listen).await?;
        let port = listener.local_addr()?.port();
        let gateway = Gateway::new(host, bridge, options, port);
        Ok(Self { listener, gateway, stop: CancellationToken::new() })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is cancelled; then lets open requests end for up to ten seconds.
    ///
    /// # Errors
    /// When the listener fails.
    pub async fn run(self, stop: CancellationToken) -> std::io::Result<()> {
        let router = self.gateway.router(&self.stop);
        let ending = {
            let (stop, streams) = (stop.clone(), self.stop.clone());
            async move {
                stop.cancelled().await;
                // Streams never end by themselves; calls in flight may finish.
                streams.cancel();
            }
        };
        let serving = axum::serve(self.listener, router).with_graceful_shutdown(ending);
        let overdue = async {
            stop.cancelled().await;
            tokio::time::sleep(DRAIN).await;
        };
        tokio::select! {
            served = async { serving.await } => served,
            () = overdue => Ok(()),
        }
    }
}

/// Serves one MCP client over stdin and stdout until it closes them or `stop` is cancelled.
///
/// # Errors
/// Why the client's handshake failed.
pub async fn serve_stdio(
    host: Host,
    bridge: Bridge,
    profile: String,
    stop: CancellationToken,
) -> Result<(), String> {
    let options = Options {
        listen: SocketAddr::from(([127, 0, 0, 1], 0)),
        owner: OwnerToken::none(),
        tokens: TokenStore::none(),
        profile,
        allowed_hosts: Vec::new(),
        allowed_origins: Vec::new(),
    };
    let gateway = Gateway::new(host, bridge, options, 0);
    let client = Client::owner(Arc::clone(&gateway.profile));
    let face = raw::OverPipe(mcp::Face::new(gateway, Some(client)));
    let serving = rmcp::service::serve_server(face, rmcp::transport::stdio());
    let running = tokio::select! {
        running = serving => match running {
            Ok(running) => running,
            // A client that leaves before its handshake is no failure of ours.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        },
        () = stop.cancelled() => return Ok(()),
    };
    let end = running.cancellation_token();
    tokio::select! {
        _ = running.waiting() => {}
        () = stop.cancelled() => end.cancel(),
    }
    Ok(())
}

/// Where the operator's token is kept when no file is named.
pub fn token_file(state: &std::path::Path) -> PathBuf {
    state.join("gateway").join("token")
}
