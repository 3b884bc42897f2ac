//! `mcpdeck serve`: one process runs each server once and exposes all of them to agents, editors
//! and scripts, over REST and as one aggregated MCP server.
//!
//! Owns the HTTP interface, the tokens and the names clients see. Independent of the terminal: it
//! uses the engine only through [`Host`].

#![cfg_attr(not(test), warn(clippy::expect_used))]
#![allow(
    missing_docs,
    reason = "its readers are its authors: a doc stands where it says more than the name"
)]

mod accept;
mod admin;
mod batch;
mod bridge;
mod card;
mod catalog;
mod claims;
mod endpoint;
mod erased;
mod events;
mod exposure;
mod follow;
mod found;
mod guard;
mod helpers;
mod mcp;
mod metrics;
mod misfit;
mod offers;
mod outside;
mod paths;
mod pipe;
mod questions;
mod raw;
mod replies;
mod rest;
mod search;
mod sessions;
mod sign_in;
mod skills;
mod state;
mod store;
mod table;
mod tasks;
mod ticks;
mod tokens;
mod traces;
mod vocabulary;

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::routing::any;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use endpoint::McpEndpoint;
use erased::{erased, get, post};
use guard::MAX_BODY_BYTES;
use helpers::ThreadChooser;
use host::Host;
use state::Gateway;

pub use admin::{ADMIN_LINK_PATH, AdminSignIns, admin_routes};
pub use bridge::Bridge;
pub use state::ServeOptions;
pub use store::SharedStore;
#[cfg(feature = "cluster")]
pub use store::Valkey;
pub use tokens::{Client, ClientTokens, DEFAULT_SCOPES, OwnerToken, TokenRecord};
pub use traces::Traces;

/// Longest time that open streams and calls may take to finish after the first stop signal.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Where MCP is served, for the profile of the token or another; [`paths::trim`] takes a last slash.
const MCP_PATHS: [&str; 2] = ["/mcp", "/mcp/p/{profile}"];

/// Maximum number of concurrent connections.
const MAX_CONNECTIONS: usize = 8_192;

/// The gateway, bound to its listener.
pub struct GatewayService {
    listener: TcpListener,
    gateway: Arc<Gateway>,
    stop: CancellationToken,
    /// Additional routes, which check tokens themselves.
    beside: Option<Router>,
}

fn router(gateway: &Arc<Gateway>, stop: &CancellationToken, beside: Option<Router>) -> Router {
    let mut config = StreamableHttpServerConfig::default()
        // The guard checks `Host` for every route; it knows the port.
        .disable_allowed_hosts()
        .with_cancellation_token(stop.child_token())
        .with_max_request_body_bytes(MAX_BODY_BYTES);
    config.session_store = gateway.options.store.clone().map(|store| store as _);
    let face = Arc::clone(gateway);
    let service = StreamableHttpService::new(
        move || Ok(mcp::Face::new(Arc::clone(&face), None)),
        Arc::clone(&gateway.sessions),
        config,
    );
    // One handler, not layers: each of those clones and boxes all that is below it, for every request.
    let endpoint = McpEndpoint::new(Arc::clone(gateway), stop.child_token(), service);
    let (endpoint, guarded) = (Arc::new(endpoint), Arc::clone(gateway));
    let answer = any(move |request: Request| {
        let (endpoint, gateway) = (Arc::clone(&endpoint), Arc::clone(&guarded));
        let answer = async move |request| endpoint.answer(request).await;
        guard::guard(gateway, request, answer)
    });
    let mcp = MCP_PATHS.iter().fold(Router::new(), |mcp, path| mcp.route(path, answer.clone()));
    let site = axum::middleware::from_fn_with_state(Arc::clone(gateway), guard::site);
    let beside = beside.unwrap_or_default().layer(site);
    Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(rest::ready))
        .route(sign_in::METADATA_PATH, get(sign_in::metadata))
        .route("/.well-known/oauth-protected-resource/{*path}", get(sign_in::metadata))
        .route(card::CARD_PATH, get(card::card))
        .route(card::CATALOG_PATH, get(card::catalog))
        .route("/openapi.json", get(rest::openapi))
        .route("/tools", get(rest::tools))
        .route("/tools/{*path}", post(rest::call))
        .route("/prompts", get(offers::prompts))
        .route("/prompts/{*path}", post(offers::prompt))
        .route("/resources", get(offers::resources))
        .route("/resources/templates", get(offers::templates))
        .route("/resources/read", post(offers::read))
        .route("/complete", post(offers::complete))
        .route("/requests", get(replies::list))
        .route("/requests/{id}", post(replies::answer))
        .route("/events", get(events::events))
        .route("/shutdown", post(rest::shutdown))
        .route("/runs", post(rest::begin_run))
        .route("/runs/{run}", get(rest::run).delete(erased(rest::end_run)))
        .route("/servers", get(rest::servers))
        .route("/servers/restart", post(rest::restart))
        .route("/metrics", get(rest::metrics))
        .layer(axum::extract::DefaultBodyLimit::max(MAX_BODY_BYTES))
        .layer(axum::middleware::from_fn_with_state(Arc::clone(gateway), guard::guard_layer))
        .merge(mcp)
        .with_state(Arc::clone(gateway))
        .merge(beside)
}

impl GatewayService {
    /// Serves on a listener. `bridge` is the callback the host was built with: it forwards requests
    /// that servers make during a client's call to that client.
    ///
    /// # Errors
    /// When the listener cannot be used.
    pub fn on(
        listener: std::net::TcpListener,
        host: Host,
        bridge: Bridge,
        options: ServeOptions,
    ) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let port = listener.local_addr()?.port();
        let gateway = Gateway::new(host, bridge, options, port);
        let streams = gateway.streams.clone();
        Ok(Self { listener, gateway, stop: streams, beside: None })
    }

    /// Adds routes. `Host` and `Origin` are checked for them, tokens are not: the routes must check
    /// those with [`GatewayService::clients`].
    pub fn serve_beside(&mut self, routes: Router) {
        self.beside = Some(self.beside.take().unwrap_or_default().merge(routes));
    }

    /// Returns what is cancelled when open streams end: with the service.
    pub fn streams(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Returns a function that maps a bearer token to its client.
    pub fn clients(&self) -> impl Fn(&str) -> Option<Client> + Send + Sync + use<> {
        let gateway = Arc::clone(&self.gateway);
        move |token| gateway.client(token)
    }

    /// Returns a function that gives the client that the operator's own token gives.
    pub fn operator(&self) -> impl Fn() -> Client + Send + Sync + use<> {
        let gateway = Arc::clone(&self.gateway);
        move || gateway.operator()
    }

    /// Serves until `stop` is cancelled, then waits up to ten seconds for open requests.
    pub async fn run(self, stop: CancellationToken) {
        let router = router(&self.gateway, &self.stop, self.beside);
        let ending = {
            let (stop, streams) = (stop.clone(), self.stop.clone());
            let gateway = Arc::clone(&self.gateway);
            async move {
                stop.cancelled().await;
                // Event streams never end on their own; calls in flight may finish.
                streams.cancel();
                gateway.sessions.end_all();
            }
        };
        let serving = serve(self.listener, router, &stop);
        let overdue = async {
            stop.cancelled().await;
            tokio::time::sleep(DRAIN_TIMEOUT).await;
        };
        tokio::select! {
            () = async { tokio::join!(serving, ending); } => {}
            () = overdue => {}
            () = self.gateway.housekeeping() => {}
            // The owner of the token ends the service; open requests are waited for as above.
            () = async { self.gateway.shutdown.cancelled().await; stop.cancel(); std::future::pending().await } => {}
        }
    }
}

/// Serves connections until `stop` is cancelled, then waits for requests in flight. A connection
/// that does not send a complete request head within 30 seconds is closed.
async fn serve(mut listener: TcpListener, router: Router, stop: &CancellationToken) {
    let (connections, mut threads) = (TaskTracker::new(), ThreadChooser::new());
    let places = Arc::new(Semaphore::new(most_connections()));
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new());
    let accepted = async |listener: &mut TcpListener| {
        let place = Arc::clone(&places).acquire_owned().await;
        (place, Listener::accept(listener).await)
    };
    while let Some((place, (stream, _))) = stop.run_until_cancelled(accepted(&mut listener)).await {
        // Disables Nagle's algorithm: small messages are sent without waiting for an ACK.
        _ = stream.set_nodelay(true);
        let Ok(stream) = stream.into_std() else { continue };
        let router = TowerToHyperService::new(router.clone());
        let thread = threads.next().await;
        let runtime = thread.runtime.clone();
        let service = service_fn(move |mut request| {
            paths::trim(&mut request);
            let (method, busy) = (request.method().clone(), thread.answering());
            let answering = router.call(request);
            async move {
                let response = answering.await.map(|it| paths::explained(it, &method));
                drop(busy);
                response
            }
        });
        let (stop, http) = (stop.clone(), http.clone());
        let serving = async move {
            let Ok(stream) = TcpStream::from_std(stream) else { return };
            let connection = http.serve_connection(TokioIo::new(stream), service).with_upgrades();
            let mut connection = pin!(connection);
            if stop.run_until_cancelled(connection.as_mut()).await.is_none() {
                connection.as_mut().graceful_shutdown();
                _ = connection.await;
            }
            drop(place);
        };
        connections.spawn_on(serving, &runtime);
    }
    connections.close();
    connections.wait().await;
}

/// Connection limit: half of the process's file descriptors, so that servers can still be started
/// when a client holds idle connections open.
fn most_connections() -> usize {
    #[cfg(unix)]
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    #[cfg(not(unix))]
    let files: Option<u64> = None;
    files.map_or(MAX_CONNECTIONS, |files| MAX_CONNECTIONS.min(files as usize / 2)).max(1)
}

/// Serves one MCP client over stdin and stdout until it closes them or `stop` is cancelled.
///
/// # Errors
/// Why the client's handshake failed.
pub async fn serve_stdio(
    host: Host,
    bridge: Bridge,
    (profile, traces): (Option<String>, Traces),
    stop: CancellationToken,
) -> Result<(), String> {
    let options = ServeOptions { profile, traces, ..ServeOptions::default() };
    let gateway = Gateway::new(host, bridge, options, 0);
    let client = Client::owner(gateway.options.profile.as_deref().map(Into::into));
    let face = mcp::OverPipe(mcp::Face::new(Arc::clone(&gateway), Some(client)));
    let pipe = pipe::MessagePipe::standard();
    let serving = rmcp::service::serve_server(face, pipe);
    let running = tokio::select! {
        running = serving => match running {
            Ok(running) => running,
            // A client that disconnects before the handshake is not an error.
            Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        },
        () = stop.cancelled() => return Ok(()),
    };
    let end = running.cancellation_token();
    tokio::select! {
        _ = running.waiting() => {}
        () = gateway.housekeeping() => {}
        () = stop.cancelled() => end.cancel(),
    }
    Ok(())
}

/// Default path of the operator's token file.
pub fn token_file(state: &std::path::Path) -> PathBuf {
    state.join("gateway").join("token")
}
