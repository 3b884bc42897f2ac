//! `Host`: the public handle of the engine. Cheap to clone; dropping the last one stops the servers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::{mpsc, watch};

use crate::config::{LogLevel, McpConfig, RootConfig, ServerName};
use crate::host::approvals::{Answer, RequestHandler};
use crate::host::cache::{CacheKey, CacheView};
use crate::host::call::{CallOptions, CallOutcome, CallView};
use crate::host::capabilities::Capabilities;
use crate::host::logs::LogRecord;
use crate::host::metrics::ServerMetrics;
use crate::host::ring::Ring;
use crate::host::traffic::TrafficRecord;
use crate::host::view::ExitView;
use crate::host::{ApprovalId, CallId, Error, ErrorCode, HostView, Record};

/// What a server that does not start means for the others (decision D2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Startup {
    /// All must become ready; otherwise every server is stopped and the error returned.
    #[default]
    All,
    /// Those that start are used; `initialize` returns when every server is ready or has failed.
    Available,
    /// Return at once; servers come up meanwhile (what a dashboard wants).
    Background,
}

/// Builds a [`Host`].
#[derive(Default)]
pub struct HostBuilder {
    config: Option<Result<McpConfig, PathBuf>>,
    startup: Startup,
    handler: Option<Arc<dyn RequestHandler>>,
    person: bool,
}

/// The engine.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

struct Inner;

/// How a shutdown went.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ShutdownReport {
    /// How each process ended.
    pub exits: Vec<(ServerName, ExitView)>,
    /// How long it took.
    pub took: Duration,
}

impl HostBuilder {
    /// Reads the configuration from this file.
    #[must_use]
    pub fn config_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.config = Some(Err(path.into()));
        self
    }

    /// Uses this configuration.
    #[must_use]
    pub fn config(mut self, config: McpConfig) -> Self {
        self.config = Some(Ok(config));
        self
    }

    /// Decides what a server that does not start means.
    #[must_use]
    pub fn startup(mut self, startup: Startup) -> Self {
        self.startup = startup;
        self
    }

    /// Registers the application's answer to requests of servers (requirement S1).
    #[must_use]
    pub fn handler(mut self, handler: impl RequestHandler) -> Self {
        self.handler = Some(Arc::new(handler));
        self
    }

    /// Requests of servers wait in [`HostView::pending`] until [`Host::answer`] (the dashboard).
    #[must_use]
    pub fn person_answers(mut self) -> Self {
        self.person = true;
        self
    }

    /// Starts the servers.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] with every diagnostic, or [`ErrorCode::ServerStartup`] under
    /// [`Startup::All`].
    pub async fn initialize(self) -> Result<Host, Error> {
        let _ = (self.config, self.startup, self.handler, self.person);
        Err(unbuilt())
    }
}

fn unbuilt() -> Error {
    Error::new(ErrorCode::Internal, "not built yet")
}

impl Host {
    /// Starts building a host.
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Starts every server of a configuration file; all must become ready.
    pub async fn initialize(path: impl Into<PathBuf>) -> Result<Self, Error> {
        Self::builder().config_file(path).initialize().await
    }

    /// Stops every server in dependency order and waits until nothing is left.
    pub async fn shutdown(&self) -> ShutdownReport {
        let _ = &self.inner;
        ShutdownReport::default()
    }

    /// Skips the grace of a running shutdown: kills at once (second Ctrl-C).
    pub fn force_shutdown(&self) {}

    /// Calls a tool with the server's defaults.
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Result<CallOutcome, Error> {
        self.call_tool_with(name, arguments, CallOptions::default()).await
    }

    /// Calls a tool.
    pub async fn call_tool_with(
        &self,
        name: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let _ = (name, arguments, options);
        Err(unbuilt())
    }

    /// Gets a prompt.
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let _ = (name, arguments, options);
        Err(unbuilt())
    }

    /// Reads a resource (routing: requirement R2).
    pub async fn get_resource(
        &self,
        uri: &str,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let _ = (uri, options);
        Err(unbuilt())
    }

    /// Asks for completions; `params` as in `completion/complete`.
    pub async fn complete(
        &self,
        server: &ServerName,
        params: Value,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let _ = (server, params, options);
        Err(unbuilt())
    }

    /// Subscribes to a resource; updates arrive as log records and invalidate the cache.
    pub async fn subscribe_resource(&self, server: &ServerName, uri: &str) -> Result<(), Error> {
        let _ = (server, uri);
        Err(unbuilt())
    }

    /// Ends a subscription.
    pub async fn unsubscribe_resource(&self, server: &ServerName, uri: &str) -> Result<(), Error> {
        let _ = (server, uri);
        Err(unbuilt())
    }

    /// All servers with all their capabilities (requirement K2).
    pub fn get_tools(&self) -> Vec<(ServerName, Arc<Capabilities>)> {
        Vec::new()
    }

    /// Metrics of every server.
    pub fn get_metrics(&self) -> Vec<(ServerName, ServerMetrics)> {
        Vec::new()
    }

    /// Reserves an id for a call that is about to be made.
    pub fn next_call_id(&self) -> CallId {
        CallId(0)
    }

    /// Calls in flight, oldest first.
    pub fn calls(&self) -> Vec<CallView> {
        Vec::new()
    }

    /// The cache.
    pub fn cache(&self) -> CacheView {
        CacheView::default()
    }

    /// The content of a cache entry.
    pub fn cache_content(&self, key: &CacheKey) -> Option<Arc<Value>> {
        let _ = key;
        None
    }

    /// Drops one cache entry, or all.
    pub fn cache_drop(&self, key: Option<&CacheKey>) {
        let _ = key;
    }

    /// Starts a server that is stopped, unavailable or disabled.
    pub async fn start(&self, server: &ServerName) -> Result<(), Error> {
        let _ = server;
        Err(unbuilt())
    }

    /// Stops a server; it stays in the deck.
    pub async fn stop(&self, server: &ServerName) -> Result<(), Error> {
        let _ = server;
        Err(unbuilt())
    }

    /// Stops and starts a server; forgives its breaker and restart count.
    pub async fn restart(&self, server: &ServerName) -> Result<(), Error> {
        let _ = server;
        Err(unbuilt())
    }

    /// Closes a breaker by hand: the server's, or a tool's.
    pub fn reset_breaker(&self, server: &ServerName, tool: Option<&str>) -> Result<(), Error> {
        let _ = (server, tool);
        Err(unbuilt())
    }

    /// Fetches the lists of a server again.
    pub async fn refresh(&self, server: &ServerName) -> Result<(), Error> {
        let _ = server;
        Err(unbuilt())
    }

    /// Asks a server for another log level.
    pub async fn set_log_level(&self, server: &ServerName, level: LogLevel) -> Result<(), Error> {
        let _ = (server, level);
        Err(unbuilt())
    }

    /// Shares other roots with a server and tells it.
    pub fn set_roots(&self, server: &ServerName, roots: Vec<RootConfig>) -> Result<(), Error> {
        let _ = (server, roots);
        Err(unbuilt())
    }

    /// Answers a pending request of a server.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it was withdrawn meanwhile: nothing was sent.
    pub fn answer(&self, id: ApprovalId, answer: Answer) -> Result<(), Error> {
        let _ = (id, answer);
        Err(unbuilt())
    }

    /// Applies another configuration: unchanged servers keep process and session (C8).
    pub async fn reload(&self, config: McpConfig) -> Result<(), Error> {
        let _ = config;
        Err(unbuilt())
    }

    /// Shows the problems of a configuration that cannot be used.
    pub fn reject_config(&self, diagnostics: Vec<crate::config::Diagnostic>) {
        let _ = diagnostics;
    }

    /// The view now, and every later one.
    pub fn view(&self) -> watch::Receiver<Arc<HostView>> {
        watch::channel(Arc::default()).1
    }

    /// Facts from now on. Overflow policy: a subscriber that does not read slows nobody; it is
    /// dropped when 4,096 facts wait, and its channel closes.
    pub fn subscribe(&self) -> mpsc::Receiver<Arc<Record>> {
        mpsc::channel(1).1
    }

    /// The newest facts, oldest first, at most 10,000.
    pub fn journal(&self) -> Vec<Arc<Record>> {
        Vec::new()
    }

    /// All traffic.
    pub fn traffic(&self) -> Ring<TrafficRecord> {
        Ring::new(1, 1)
    }

    /// One server's newest traffic, kept through restarts.
    pub fn black_box(&self, server: &ServerName) -> Option<Ring<TrafficRecord>> {
        let _ = server;
        None
    }

    /// All logs.
    pub fn logs(&self) -> Ring<LogRecord> {
        Ring::new(1, 1)
    }
}
