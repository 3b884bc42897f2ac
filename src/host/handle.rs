//! `Host`: the public handle of the engine. Cheap to clone; dropping the last one stops the host.

mod builder;
mod policy;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::approvals::queue::Presence;
use super::approvals::{Drafted, Drafter, RequestHandler, RuleKind, SessionRule};
use super::cache::{CacheKey, CacheView};
use super::call::{CallOptions, CallOutcome, CallView};
use super::metrics::ServerMetrics;
use super::operation::Operation;
use super::operation::person::nobody;
use super::policy::{Admission, PolicyAction, ServiceChanges, TargetKind};
use super::router::{Route, Routes};
use super::server::command::Command;
use super::server::lifecycle::{LifecycleInput, Next};
use super::server::slot::Slot;
use super::shared::HostShared;
use super::supervisor::SupervisorCommand;
use super::{Fact, HostView, Record};
use base::{Clock, LogLevel, LogRecord, Ring, SafeText, Secret, ServerName, Timestamp};
pub use builder::HostBuilder;
use builder::{not_started, settled};
use config::error::{Error, ErrorCode};
use config::{ConfigChange, Diagnostic, McpConfig, RootConfig, ServerConfig};
use mcp::{AuthFailure, Authorization, Authorizer, Request};
use process::{ExitView, Usage};
use protocol::{
    Answer, ApprovalId, CallId, Capabilities, ListKind, Notice, PendingRequest, Prompt, ServerTask,
    SessionView, Tool, TrafficRecord,
};

/// Most pages of a list of skills that are read.
const MAX_SKILL_PAGES: usize = 64;

/// How a server that fails to start affects the others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Startup {
    /// All servers must become ready; otherwise all are stopped and the error is returned.
    #[default]
    All,
    /// Servers may fail; `initialize` returns when every server is ready or has failed.
    Available,
    /// `initialize` returns at once; servers start in the background (as in the dashboard).
    Background,
}

/// The engine: starts, supervises and calls every server of a configuration. See the example in the
/// crate documentation.
#[derive(Clone)]
pub struct Host {
    inner: Arc<HostInner>,
}

struct HostInner {
    shared: Arc<HostShared>,
    view: watch::Receiver<Arc<HostView>>,
    facts: Ring<Record>,
    orders: mpsc::Sender<SupervisorCommand>,
    /// Fires when the last handle is dropped.
    abandoned: CancellationToken,
    /// The report of the first shutdown, for later calls.
    report: Mutex<Option<ShutdownReport>>,
}

impl Drop for HostInner {
    fn drop(&mut self) {
        self.shared.hurry.cancel();
        self.abandoned.cancel();
    }
}

/// How a shutdown went.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct ShutdownReport {
    /// How each process ended.
    pub exits: Vec<(ServerName, ExitView)>,
    /// How long it took.
    pub took: Duration,
}

// Control: start, stop and restart servers, apply configurations, shut down.

/// A reload whose configuration is in use while removed servers may still be stopping. Dropping it
/// neither waits nor reverts anything.
#[derive(Debug)]
#[must_use = "`finished` waits for the servers that were taken out"]
pub struct Reloading {
    finished: CancellationToken,
}

impl Reloading {
    /// Waits until the removed servers are gone.
    pub async fn finished(self) {
        self.finished.cancelled().await;
    }
}

impl Host {
    /// Stops every server in dependency order and waits until all are gone. Later calls wait for
    /// the same shutdown.
    pub async fn shutdown(&self) -> ShutdownReport {
        let began = tokio::time::Instant::now();
        // A reload that waits for calls in flight must not delay the shutdown.
        self.inner.shared.hurry.cancel();
        let (done, wait) = oneshot::channel();
        if self.inner.orders.send(SupervisorCommand::Shutdown(done)).await.is_ok() {
            let _ = wait.await;
        }
        if let Some(audit) = self.inner.shared.policy.audit() {
            audit.flush().await;
        }
        let mut kept = self.inner.report.lock();
        let report = kept.get_or_insert_with(|| {
            let view = self.inner.view.borrow();
            let exits = view.servers.values().filter_map(|server| {
                let exit = server.exit.clone().filter(|exit| exit.expected)?;
                Some((server.name.clone(), exit))
            });
            ShutdownReport { exits: exits.collect(), took: began.elapsed() }
        });
        report.clone()
    }

    /// Skips the grace period of a running shutdown and kills at once (second Ctrl-C).
    pub fn force_shutdown(&self) {
        self.inner.shared.force.cancel();
    }

    /// Starts a server that is stopped, unavailable or disabled. Returns when it is ready.
    ///
    /// # Errors
    /// [`ErrorCode::ServerStartup`] with the reason when it does not become ready.
    pub async fn start(&self, server: &ServerName) -> Result<(), Error> {
        let slot = self.control(server, LifecycleInput::Start).await?;
        self.ready(&slot).await
    }

    /// Stops a server; it stays in the deck. Returns when its process is gone.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] for an unknown server, [`ErrorCode::RateLimited`] when its
    /// command queue is full.
    pub async fn stop(&self, server: &ServerName) -> Result<(), Error> {
        let slot = self.control(server, LifecycleInput::Stop(Next::Rest)).await?;
        settled(&slot).await;
        self.inner.shared.facts.flush().await;
        Ok(())
    }

    /// Stops and starts a server; resets its breakers and restart count. Returns when it is ready.
    ///
    /// # Errors
    /// As [`Host::start`].
    pub async fn restart(&self, server: &ServerName) -> Result<(), Error> {
        let slot = self.control(server, LifecycleInput::Restart).await?;
        self.inner.shared.close_breakers(&slot).await;
        self.ready(&slot).await
    }

    /// Asks the user to sign in at a server ([`protocol::RequestKind::SignIn`]), even after an
    /// earlier "not now". Returns at once; the server starts after the sign-in.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] for a server without OAuth sign-in.
    pub fn sign_in(&self, server: &ServerName) -> Result<(), Error> {
        let (slot, _) = self.account(server)?;
        slot.account.ask_again(server);
        Ok(())
    }

    /// Revokes and deletes the token of a server and restarts it without one. The user is not asked
    /// to sign in again until [`Host::sign_in`]. Returns why the token was not revoked, if that failed: it
    /// is deleted all the same.
    ///
    /// # Errors
    /// As [`Host::sign_in`]; [`ErrorCode::ServerUnavailable`] when the token cannot be deleted.
    pub async fn sign_out(&self, server: &ServerName) -> Result<Option<String>, Error> {
        let (slot, auth) = self.account(server)?;
        slot.account.decline();
        let failed = |failure: AuthFailure| {
            let why = format!("not signed out: {}", failure.reason());
            Error::new(ErrorCode::ServerUnavailable, why).server(server)
        };
        let done = auth.sign_out().await.map_err(failed)?;
        self.control(server, LifecycleInput::Restart).await?;
        Ok(done.revoked.err())
    }

    /// Refreshes the token of a server, without user interaction.
    ///
    /// # Errors
    /// As [`Host::sign_in`]; [`ErrorCode::ServerUnavailable`] when the refresh fails.
    pub async fn refresh_token(&self, server: &ServerName) -> Result<(), Error> {
        let (_, auth) = self.account(server)?;
        auth.refresh_now().await.map(drop).map_err(|failure| refused(&failure, server))
    }

    /// Discovers the authorization server of a server.
    ///
    /// # Errors
    /// As [`Host::sign_in`]; [`ErrorCode::ServerUnavailable`] when the metadata cannot be used.
    pub async fn authorization(&self, server: &ServerName) -> Result<Authorization, Error> {
        let (_, auth) = self.account(server)?;
        auth.authorization().await.map_err(|failure| refused(&failure, server))
    }

    fn account(&self, server: &ServerName) -> Result<(Arc<Slot>, Arc<Authorizer>), Error> {
        let slot = self.inner.shared.server(server)?;
        let auth = slot.account.authorizer().ok_or_else(|| {
            let message = format!("`{server}` needs no sign-in");
            Error::new(ErrorCode::Configuration, message)
                .server(server)
                .help("it has no address, or its entry authorises it")
        })?;
        Ok((slot, auth))
    }

    /// Closes a breaker manually: that of `tool`, or the server's own.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] for an unknown server.
    pub fn reset_breaker(&self, server: &ServerName, tool: Option<&str>) -> Result<(), Error> {
        let slot = self.inner.shared.server(server)?;
        if let Some(fact) = slot.close_breaker(tool, self.inner.shared.clock.now()) {
            self.inner.shared.facts.post(server, fact);
        }
        Ok(())
    }

    /// Clears the change marks in the lists of a server after the user has viewed them: for one
    /// item, or for all.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] for an unknown server.
    pub fn changes_seen(
        &self,
        server: &ServerName,
        item: Option<(ListKind, SafeText)>,
    ) -> Result<(), Error> {
        self.inner.shared.server(server)?;
        self.inner.shared.facts.post(server, Fact::ChangesSeen { item });
        Ok(())
    }

    /// Fetches the lists of a server again. Returns when they have arrived.
    ///
    /// # Errors
    /// [`ErrorCode::ServerUnavailable`], or the error of the first list that failed.
    pub async fn refresh(&self, server: &ServerName) -> Result<(), Error> {
        let slot = self.inner.shared.server(server)?;
        let (done, wait) = oneshot::channel();
        send(&slot, Command::Refresh(done))?;
        let result = wait.await.unwrap_or_else(|_| Err(slot.live().unavailable()));
        self.inner.shared.facts.flush().await;
        result
    }

    /// Registers the application's handler for requests from servers, replacing
    /// the previous one. Open requests stay with the handler that received them.
    pub fn register_callback(&self, handler: impl RequestHandler) {
        self.inner.shared.approvals.set_handler(Some(Arc::new(handler)));
    }

    /// Declares that the user answers pending requests, until the returned guard is dropped
    /// ([`crate::HostBuilder::person_answers`] declares it permanently).
    pub fn person_arrives(&self) -> Presence {
        self.inner.shared.approvals.person_arrives()
    }

    /// Answers a pending request from a server.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it was withdrawn meanwhile; nothing is sent.
    pub fn answer(&self, id: ApprovalId, answer: Answer) -> Result<(), Error> {
        self.inner.shared.approvals.answer(id, answer)
    }

    /// Extends the deadline of a pending request, to at most a day in all; returns the new one.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it is no longer open.
    pub fn extend_request(&self, id: ApprovalId, more: Duration) -> Result<Timestamp, Error> {
        self.inner.shared.approvals.extend(id, more)
    }

    /// Registers the drafter of answers for the user to approve, replacing the previous one.
    pub fn set_drafter(&self, drafter: Arc<dyn Drafter>) {
        self.inner.shared.approvals.set_drafter(drafter);
    }

    /// The name of the drafter, if one is registered.
    pub fn drafter_name(&self) -> Option<SafeText> {
        self.inner.shared.approvals.drafter_name()
    }

    /// Asks the drafter for an answer to a pending request, for display. `params` are the edited
    /// parameters, `None` for those the server sent. Does not answer the request.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] without a drafter, [`ErrorCode::Cancelled`] when the request is
    /// no longer open, [`ErrorCode::Internal`] with the drafter's message.
    pub async fn draft(
        &self,
        id: ApprovalId,
        params: Option<Arc<Value>>,
    ) -> Result<Drafted, Error> {
        self.inner.shared.approvals.draft(id, params).await
    }

    /// Sets a session rule for new requests of one kind; it takes precedence over the entry's rule,
    /// the callback and the user. `None` removes it. Open requests keep waiting.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] for an unknown server.
    pub fn set_approval_rule(
        &self,
        server: &ServerName,
        kind: RuleKind,
        rule: Option<SessionRule>,
    ) -> Result<(), Error> {
        self.inner.shared.server(server)?;
        self.inner.shared.approvals.set_rule(server, kind, rule);
        Ok(())
    }

    /// Applies another configuration: unchanged servers keep process and session. Returns when
    /// removed servers are gone and changed ones are restarting; calls in flight on either get five
    /// seconds (the entry's `shutdownTimeout` when that is shorter) to finish.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] when it is invalid; the current one stays in use.
    pub async fn reload(&self, config: McpConfig) -> Result<(), Error> {
        self.begin_reload(config).await?.finished().await;
        Ok(())
    }

    /// Like [`Host::reload`], but does not wait for removed servers, which may take their
    /// `shutdownTimeout`: returns when the configuration is in use, and another may be applied.
    ///
    /// # Errors
    /// As [`Host::reload`].
    pub async fn begin_reload(&self, config: McpConfig) -> Result<Reloading, Error> {
        self.edit_config(move |now| *now = config).await
    }

    async fn edit_config(
        &self,
        edit: impl FnOnce(&mut McpConfig) + Send + 'static,
    ) -> Result<Reloading, Error> {
        let finished = self.order(|done| SupervisorCommand::Reload(Box::new(edit), done)).await?;
        Ok(Reloading { finished })
    }

    async fn order<T>(
        &self,
        order: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> SupervisorCommand,
    ) -> Result<T, Error> {
        let stopping = || Error::new(ErrorCode::ServerUnavailable, "the host is stopping");
        let (done, wait) = oneshot::channel();
        self.inner.orders.send(order(done)).await.map_err(|_| stopping())?;
        wait.await.unwrap_or_else(|_| Err(stopping()))
    }

    /// Returns what [`Host::reload`] would do with a configuration, without applying it.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] when it is invalid.
    pub async fn plan_reload(&self, config: McpConfig) -> Result<ConfigChange, Error> {
        self.order(|done| SupervisorCommand::Plan(Box::new(config), done)).await
    }

    /// Reports the problems of a rejected configuration; the current one stays in use.
    pub fn reject_config(&self, diagnostics: Vec<Diagnostic>) {
        self.inner.shared.facts.post(None, Fact::ConfigRejected { diagnostics });
    }

    async fn control(
        &self,
        server: &ServerName,
        input: LifecycleInput,
    ) -> Result<Arc<Slot>, Error> {
        let slot = self.inner.shared.server(server)?;
        let (done, taken) = oneshot::channel();
        send(&slot, Command::Control(input, done))?;
        let _ = taken.await;
        Ok(slot)
    }

    async fn ready(&self, slot: &Slot) -> Result<(), Error> {
        settled(slot).await;
        self.inner.shared.facts.flush().await;
        let live = slot.live();
        if live.session.is_some() { Ok(()) } else { Err(not_started(slot, &live)) }
    }

    // Inspection: the view, facts, telemetry, metrics, the cache. Nothing here waits.

    /// All callable servers, including sleeping ones, with their capabilities. The view has the servers that are down, with the reason and their last known lists.
    pub fn get_tools(&self) -> Vec<(ServerName, Arc<Capabilities>)> {
        let slots = self.inner.shared.slots();
        let live = slots.iter().map(|(name, slot)| (name, slot.live()));
        live.filter(|(_, live)| live.is_callable())
            .map(|(name, live)| (name.clone(), Arc::clone(&live.capabilities)))
            .collect()
    }

    /// Metrics of every server.
    pub fn get_metrics(&self) -> Vec<(ServerName, ServerMetrics)> {
        let slots = self.inner.shared.slots();
        slots.iter().map(|(name, slot)| (name.clone(), slot.metrics())).collect()
    }

    /// Calls in flight, oldest first.
    pub fn calls(&self) -> Vec<CallView> {
        let shared = &self.inner.shared;
        let slots = shared.slots();
        let rows: Vec<_> = slots
            .values()
            .flat_map(|slot| slot.calls().values().cloned().collect::<Vec<_>>())
            .collect();
        let mut calls: Vec<CallView> = rows.iter().map(|row| row.show()).collect();
        calls.sort_by_key(|call| call.id);
        calls
    }

    /// The effective configuration of a server.
    pub fn server_config(&self, server: &ServerName) -> Option<Arc<ServerConfig>> {
        Some(Arc::clone(&self.inner.shared.slots().get(server)?.live().config))
    }

    /// Memory and CPU time of a server's processes; `None` without a process, or where the platform
    /// does not report it. Reads the process table: call at most about once a second, and not on
    /// the UI thread.
    pub fn usage(&self, server: &ServerName) -> Option<Usage> {
        self.inner.shared.slots().get(server)?.live().process.as_ref()?.usage()
    }

    /// The masked values of a server: the secrets of its entry and its OAuth tokens.
    pub fn secrets(&self, server: &ServerName) -> Vec<Secret> {
        let Some(slot) = self.inner.shared.slots().get(server).cloned() else { return Vec::new() };
        slot.redactor.learn(slot.live().config.secrets());
        slot.redactor.values()
    }

    /// The roots currently shared with a server.
    pub fn roots(&self, server: &ServerName) -> Vec<RootConfig> {
        self.inner.shared.approvals.roots(server)
    }

    /// The resources the host is subscribed to.
    pub fn subscriptions(&self, server: &ServerName) -> Vec<Arc<str>> {
        let slots = self.inner.shared.slots();
        slots.get(server).map(|slot| slot.subscriptions()).unwrap_or_default()
    }

    /// The tasks that servers run or ran for calls (MCP 2025-11-25, tasks), by server, the oldest
    /// first. Each server's newest 1,000.
    pub fn tasks(&self) -> BTreeMap<ServerName, Vec<ServerTask>> {
        let slots = self.inner.shared.slots();
        let all = slots.iter().map(|(name, slot)| (name.clone(), slot.tasks.list()));
        all.filter(|(_, tasks)| !tasks.is_empty()).collect()
    }

    /// The cache.
    pub fn cache(&self) -> CacheView {
        self.inner.shared.cache.view()
    }

    /// The content of a cache entry.
    pub fn cache_content(&self, key: &CacheKey) -> Option<protocol::Payload> {
        self.inner.shared.cache.content(key)
    }

    /// Drops one cache entry, or all.
    pub fn cache_drop(&self, key: Option<&CacheKey>) {
        let reason = SafeText::line("dropped on request");
        let shared = &self.inner.shared;
        shared
            .cache
            .invalidate(&reason, shared.clock.now(), |entry| key.is_none_or(|key| key == entry));
    }

    /// The current view: servers with state, reason and lists, pending requests, and problems of
    /// the configuration.
    pub fn snapshot(&self) -> Arc<HostView> {
        Arc::clone(&self.inner.view.borrow())
    }

    /// The current view, and every later one.
    pub fn view(&self) -> watch::Receiver<Arc<HostView>> {
        self.inner.view.clone()
    }

    /// The most recent facts, at most 10,000 and about 32 MiB, and every later one. A reader that
    /// falls further behind learns how many it missed; it never causes backpressure.
    pub fn facts(&self) -> Ring<Record> {
        self.inner.facts.clone()
    }

    /// All traffic.
    pub fn traffic(&self) -> Ring<TrafficRecord> {
        self.inner.shared.traffic.clone()
    }

    /// The most recent traffic of one server, kept across restarts.
    pub fn black_box(&self, server: &ServerName) -> Option<Ring<TrafficRecord>> {
        Some(self.inner.shared.slots().get(server)?.black_box().clone())
    }

    /// All logs.
    pub fn logs(&self) -> Ring<LogRecord> {
        self.inner.shared.logs.clone()
    }

    /// Future notifications from servers: updated resources and log messages. Overflow policy: a
    /// receiver that lags misses the oldest.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.inner.shared.notices.subscribe()
    }

    /// The log level requested from a server; `None` when none was requested.
    pub fn log_level(&self, server: &ServerName) -> Option<LogLevel> {
        let slot = Arc::clone(self.inner.shared.slots().get(server)?);
        slot.log_level().or(slot.live().config.log_level)
    }

    /// The host's clock, the reference of every [`base::Timestamp`].
    pub fn clock(&self) -> Clock {
        self.inner.shared.clock
    }

    // Requests to servers.

    /// Calls a tool with the server's defaults.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Result<CallOutcome, Error> {
        self.call_tool_with(name, arguments, CallOptions::default()).await
    }

    /// Calls a tool. `name` is `{server}.{tool}`, or just the tool when only one server has it;
    /// `null` arguments mean an empty object. A tool error is an outcome, not an error.
    ///
    /// # Errors
    /// [`config::error::ErrorCode::ToolNotFound`], `Ambiguous`, `Validation`, `PolicyBlocked` and
    /// `ServerUnavailable` before anything is sent; `Timeout`, `Cancelled`, `Protocol`,
    /// `CircuitOpen` and `ServerUnavailable` after.
    pub async fn call_tool_with(
        &self,
        name: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let start = self.start_deadline(&options);
        let (route, admission) = self.named("tools/call", name, &options, &start).await?;
        let name = Arc::clone(&route.1);
        let overlay = admission.as_ref().and_then(|admission| {
            let in_force = self.inner.shared.policy.in_force();
            in_force.overlay(&admission.principal, route.0.name.as_str(), &name)
        });
        let arguments = match &overlay {
            Some(overlay) => overlay.arguments(arguments)?,
            None => arguments,
        };
        let request = Request::CallTool { name, arguments: Arc::new(arguments) };
        let operated = self.operate(route, "tools/call", request, (options, admission, start));
        let mut outcome = operated.await?;
        if let Some(overlay) = overlay.filter(|overlay| overlay.max_result_bytes.is_some()) {
            let mut result = outcome.result.clone().into_value();
            if overlay.cut(&mut result) {
                outcome.result = result.into();
            }
        }
        Ok(outcome)
    }

    /// Gets a prompt with the server's defaults.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn get_prompt(&self, name: &str, arguments: Value) -> Result<CallOutcome, Error> {
        self.get_prompt_with(name, arguments, CallOptions::default()).await
    }

    /// Gets a prompt; `name` as for tools, `arguments` an object of strings.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn get_prompt_with(
        &self,
        name: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let start = self.start_deadline(&options);
        let (route, admission) = self.named("prompts/get", name, &options, &start).await?;
        let arguments = if arguments.is_null() { Value::Object(Map::new()) } else { arguments };
        let (name, arguments) = (Arc::clone(&route.1), Arc::new(arguments));
        let request = Request::GetPrompt { name, arguments };
        self.operate(route, "prompts/get", request, (options, admission, start)).await
    }

    /// Reads a resource from the server that lists it or has a matching template, with the server's
    /// defaults.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn get_resource(&self, uri: &str) -> Result<CallOutcome, Error> {
        self.get_resource_with(uri, CallOptions::default()).await
    }

    /// Reads a resource from [`CallOptions::server`] when set, otherwise from the server that lists
    /// it or has a matching template.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`]; `Ambiguous` with the servers when several offer it.
    pub async fn get_resource_with(
        &self,
        uri: &str,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let start = self.start_deadline(&options);
        let find = |_: &Routes| self.located(uri, &options);
        let (slot, admission) = self.resolved(None, &options, &start, find).await?;
        let uri: Arc<str> = uri.into();
        let request = Request::ReadResource { uri: Arc::clone(&uri) };
        self.operate((slot, uri), "resources/read", request, (options, admission, start)).await
    }

    /// Requests completions; `params` as in `completion/complete`.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`]; `Protocol`, before anything is sent, when the server does not
    /// offer completions.
    pub async fn complete(
        &self,
        server: &ServerName,
        params: Value,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let slot = self.inner.shared.server(server);
        let reference = |key: &str| params.pointer(&format!("/ref/{key}")).and_then(Value::as_str);
        let what = match reference("uri") {
            Some(uri) => (TargetKind::Resource, uri),
            None => (TargetKind::Prompt, reference("name").unwrap_or_default()),
        };
        let point = &self.inner.shared.policy;
        let found = point.direct(options.principal(), PolicyAction::Complete, what, slot);
        let (slot, admission) = routed("completion/complete", server.as_str(), found)?;
        if slot.live().session.as_ref().is_some_and(|session| !completes(&session.view())) {
            let message = "the server does not offer completions";
            return Err(Error::new(ErrorCode::Protocol, message).server(server));
        }
        let request = Request::Complete { params };
        let start = self.start_deadline(&options);
        let how = (options, admission, start);
        self.operate((slot, "".into()), "completion/complete", request, how).await
    }

    /// All skills of a server, as it lists them (extension `io.modelcontextprotocol/skills`, "Listing
    /// Skills"), and how long that list may be used; zero where the server does not say. The host's
    /// own request: who may see which is up to the caller ([`Host::is_visible`], by URI).
    ///
    /// # Errors
    /// As [`Host::call_tool_with`]; `Protocol` for a list that is none, or never ends.
    pub async fn list_skills(&self, server: &ServerName) -> Result<(Vec<Value>, Duration), Error> {
        let method: Arc<str> = "skills/list".into();
        let odd = |why: &str| {
            Err(Error::new(ErrorCode::Protocol, why).server(server).request(method.to_string()))
        };
        let (mut skills, mut params, mut age) = (Vec::new(), None, Duration::MAX);
        for _ in 0..MAX_SKILL_PAGES {
            let request = Request::Raw { method: Arc::clone(&method), params: params.take() };
            let mut page = self.ask(server, request).await?.into_value();
            let millis = page.get("ttlMs").and_then(Value::as_u64).unwrap_or_default();
            age = age.min(Duration::from_millis(millis));
            let Some(Value::Array(entries)) = page.get_mut("skills").map(Value::take) else {
                return odd("`skills` is not an array");
            };
            skills.extend(entries);
            match page.get_mut("nextCursor").map(Value::take) {
                Some(cursor) if !cursor.is_null() => params = Some(json!({"cursor": cursor})),
                _ => return Ok((skills, age)),
            }
        }
        odd("the list of skills has too many pages")
    }

    /// The entry of a skill, by the URI of its `SKILL.md` ("Getting a Skill"); decided by the policy
    /// like reading it.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn get_skill(
        &self,
        server: &ServerName,
        uri: &str,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        self.about_resource(server, ("skills/get", uri), json!({"uri": uri}), options).await
    }

    /// The files and folders in a folder ("Reading Directories"); decided by the policy like reading
    /// it. `cursor` is that of the page before.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn read_directory(
        &self,
        server: &ServerName,
        (uri, cursor): (&str, Option<&str>),
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let mut params = json!({"uri": uri});
        if let Some(cursor) = cursor {
            params["cursor"] = cursor.into();
        }
        self.about_resource(server, ("resources/directory/read", uri), params, options).await
    }

    async fn about_resource(
        &self,
        server: &ServerName,
        (method, uri): (&'static str, &str),
        params: Value,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let slot = self.inner.shared.server(server);
        let (point, what) = (&self.inner.shared.policy, (TargetKind::Resource, uri));
        let found = point.direct(options.principal(), PolicyAction::Read, what, slot);
        let (slot, admission) = routed(method, uri, found)?;
        let request = Request::Raw { method: method.into(), params: Some(params) };
        let start = self.start_deadline(&options);
        self.operate((slot, uri.into()), method, request, (options, admission, start)).await
    }

    /// The server a resource would be read from; sends nothing.
    ///
    /// # Errors
    /// As [`Host::get_resource_with`].
    pub fn find_resource(&self, uri: &str, options: &CallOptions) -> Result<ServerName, Error> {
        Ok(self.located(uri, options)?.0.name.clone())
    }

    fn located(
        &self,
        uri: &str,
        options: &CallOptions,
    ) -> Result<(Arc<Slot>, Option<Admission>), Error> {
        let route = self.inner.shared.routes().resource(uri, options.server.as_ref());
        let what = (TargetKind::Resource, uri);
        let point = &self.inner.shared.policy;
        let found = point.direct(options.principal(), PolicyAction::Read, what, route);
        routed("resources/read", uri, found)
    }

    /// Sends any request, including `ping`, and returns its result, for testing a server. `params`
    /// are sent unchanged; input that `tools/call`, `prompts/get` and `resources/read` require
    /// (`input_required`) is provided as in a call.
    ///
    /// # Errors
    /// `Validation` when `params` is not an object; `PermissionDenied` for any caller but the user,
    /// and for the user too where the policy applies to them;
    /// others as [`Host::call_tool_with`].
    pub async fn request(
        &self,
        server: &ServerName,
        method: &str,
        params: Option<Value>,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let method: Arc<str> = method.into();
        let fail = |code, message| {
            Err(Error::new(code, message).server(server).request(format!("request {method}")))
        };
        if params.as_ref().is_some_and(|params| !params.is_object()) {
            return fail(ErrorCode::Validation, "`params` have to be a JSON object");
        }
        let principal = options.principal();
        if !principal.is_person() {
            return fail(ErrorCode::PermissionDenied, "only the user may send raw requests");
        }
        if &*method != "ping" && !self.inner.shared.policy.is_free(&principal) {
            let message = "the policy applies to you, and a raw request would pass it by: call, \
                           read and prompt are decided by it";
            return fail(ErrorCode::PermissionDenied, message);
        }
        let slot = self.inner.shared.server(server);
        let slot = routed("request", server.as_str(), slot)?;
        let request = Request::Raw { method: Arc::clone(&method), params };
        let start = self.start_deadline(&options);
        self.operate((slot, method), "request", request, (options, None, start)).await
    }

    /// Subscribes to a resource; updates arrive as [`Host::notices`] and invalidate the cache. The
    /// subscription survives restarts of the server, and is reference-counted: the server is
    /// unsubscribed when the last subscriber unsubscribes.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn subscribe_resource(&self, server: &ServerName, uri: &str) -> Result<(), Error> {
        let slot = self.inner.shared.server(server)?;
        if slot.live().config.exchange().is_some_and(|exchange| !exchange.others) {
            // The session that would hear of changes is nobody's.
            return Err(nobody().server(server));
        }
        if !slot.subscriptions().iter().any(|known| **known == *uri) {
            self.ask(server, Request::Subscribe { uri: uri.into() }).await?;
        }
        slot.subscribed(uri, 1);
        Ok(())
    }

    /// Ends the sessions that callers have with this token, which is good no longer
    /// ([`CallerIdentity::key_of`](crate::CallerIdentity::key_of)).
    pub fn end_sessions_of(&self, key: &[u8; 32]) {
        self.inner.shared.slots().values().for_each(|slot| slot.persons.end(key));
    }

    /// How many sessions callers have of their own, at each server that they use as themselves.
    pub fn person_sessions(&self) -> Vec<(ServerName, usize)> {
        let slots = self.inner.shared.slots();
        let theirs = slots.values().filter(|slot| slot.live().config.exchange().is_some());
        theirs.map(|slot| (slot.name.clone(), slot.persons.count())).collect()
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn unsubscribe_resource(&self, server: &ServerName, uri: &str) -> Result<(), Error> {
        if self.inner.shared.server(server)?.subscribed(uri, -1) > 0 {
            return Ok(());
        }
        self.ask(server, Request::Unsubscribe { uri: uri.into() }).await.map(drop)
    }

    /// Sets the log level of a server, also for later sessions.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn set_log_level(&self, server: &ServerName, level: LogLevel) -> Result<(), Error> {
        let slot = self.inner.shared.server(server)?;
        slot.set_log_level(level);
        if slot.live().is_asleep() {
            return Ok(());
        }
        self.ask(server, Request::SetLogLevel(level)).await.map(drop)
    }

    /// Replaces the roots shared with a server and notifies it.
    ///
    /// # Errors
    /// [`config::error::ErrorCode::Configuration`] for an unknown server.
    pub fn set_roots(&self, server: &ServerName, roots: Vec<RootConfig>) -> Result<(), Error> {
        let slot = self.inner.shared.server(server)?;
        self.inner.shared.approvals.set_roots(server, roots);
        if let Some(session) = &slot.live().session {
            tokio::spawn(session.roots_changed());
        }
        Ok(())
    }

    /// Resolves `name` to a tool and its server; sends nothing.
    ///
    /// # Errors
    /// [`config::error::ErrorCode::ToolNotFound`], `Ambiguous`, `PermissionDenied` or `ServerUnavailable`.
    pub fn find_tool(&self, name: &str) -> Result<(ServerName, Arc<Tool>), Error> {
        let route = self.inner.shared.routes().named(name, None, TargetKind::Tool);
        let (slot, name) = routed("tools/call", name, route)?;
        let live = slot.live();
        let tool = live.tool(&name).cloned().ok_or_else(|| live.unavailable())?;
        live.callable().map(|()| (slot.name.clone(), tool))
    }

    /// Resolves `name` to a prompt and its server; sends nothing.
    ///
    /// # Errors
    /// As [`Host::find_tool`].
    pub fn find_prompt(&self, name: &str) -> Result<(ServerName, Arc<Prompt>), Error> {
        let route = self.inner.shared.routes().named(name, None, TargetKind::Prompt);
        let (slot, name) = routed("prompts/get", name, route)?;
        let live = slot.live();
        let prompt = live.capabilities.prompts.iter().find(|prompt| prompt.name == name);
        let prompt = prompt.cloned().ok_or_else(|| live.unavailable())?;
        live.callable().map(|()| (slot.name.clone(), prompt))
    }

    /// Reserves an id for a later call ([`CallOptions::id`]).
    pub fn next_call_id(&self) -> CallId {
        self.inner.shared.next_call_id()
    }

    /// Resolves the name of a tool or prompt for a caller.
    async fn named(
        &self,
        method: &str,
        name: &str,
        options: &CallOptions,
        start: &StartDeadline,
    ) -> Result<(Route, Option<Admission>), Error> {
        let what = match method {
            "tools/call" => (PolicyAction::Call, TargetKind::Tool),
            _ => (PolicyAction::Prompt, TargetKind::Prompt),
        };
        let policy = &self.inner.shared.policy;
        let find = |routes: &Routes| policy.named(routes, options, what, name);
        routed(method, name, self.resolved(Some(name), options, start, find).await)
    }

    /// Boxed: whoever awaits it, in any crate, would otherwise have the whole of an operation in a future
    /// of their own, for the compiler to prove things of again and again.
    fn operate(
        &self,
        (slot, target): Route,
        method: &'static str,
        request: Request,
        (options, admission, start): (CallOptions, Option<Admission>, StartDeadline),
    ) -> BoxFuture<'static, Result<CallOutcome, Error>> {
        let shared = Arc::clone(&self.inner.shared);
        let mut options = options;
        if let Some(limit) = self.call_limit(&options) {
            let own = options.timeout.unwrap_or(slot.live().config.request_timeout);
            options.timeout = Some(own.min(limit));
        }
        let id = options.id.unwrap_or_else(|| shared.next_call_id());
        let longest = self.longest(&options);
        let mut operation = Operation {
            shared,
            slot,
            request,
            method,
            target,
            options,
            id,
            admission,
            deadline: start.deadline,
            is_bound: start.is_bound,
            longest,
            changes: ServiceChanges::default(),
        };
        Box::pin(async move { operation.run().await })
    }

    /// Waits for a server that is being started, for as long as a call with these options would.
    /// Its lists are in the view afterwards.
    pub async fn wait_until_started(
        &self,
        server: &ServerName,
        options: &CallOptions,
    ) -> Result<(), Error> {
        let slot = self.inner.shared.server(server)?;
        let options = CallOptions { server: Some(server.clone()), ..options.clone() };
        slot.wake(self.start_deadline(&options).deadline).await?;
        self.inner.shared.facts.flush().await;
        Ok(())
    }

    /// Why a server cannot be called, and when to try again; `None` while it can be.
    pub fn outage(&self, server: &ServerName) -> Option<Error> {
        let live = self.inner.shared.slots().get(server)?.live();
        live.session.is_none().then(|| live.unavailable())
    }

    /// The longest time that a call of a caller other than the user may take.
    fn call_limit(&self, options: &CallOptions) -> Option<Duration> {
        let in_force = self.inner.shared.policy.in_force();
        let principal = (!options.origin.is_person()).then(|| options.principal())?;
        let limit = in_force.config.limits_for(&principal, None).call_timeout;
        (limit < Duration::MAX).then_some(limit)
    }

    /// The longest time that such a call may take whatever its progress, where one is set.
    fn longest(&self, options: &CallOptions) -> Option<Duration> {
        let limit = self.call_limit(options)?;
        let policy = self.inner.shared.policy.in_force();
        policy.config.sets_call_timeout(&options.principal().profile).then_some(limit)
    }

    /// How long a caller waits for a server that is being started: until its own deadline if it has
    /// one, otherwise for one start.
    fn start_deadline(&self, options: &CallOptions) -> StartDeadline {
        /// Without a server to ask: the defaults of `timeout` and `startupTimeout`.
        const START_TIMEOUT: Duration = Duration::from_secs(30);
        let own = [options.timeout, self.call_limit(options)].into_iter().flatten().min();
        let slots = self.inner.shared.slots();
        let config = options.server.as_ref().and_then(|name| slots.get(name));
        let usual = config.map_or(START_TIMEOUT, |slot| {
            let config = &slot.live().config;
            config.request_timeout.max(config.startup_timeout)
        });
        let now = tokio::time::Instant::now();
        // A timeout beyond all clocks is none.
        let deadline = now.checked_add(own.unwrap_or(usual)).unwrap_or(now + usual);
        StartDeadline { deadline, is_bound: own.is_some() }
    }

    /// Resolves something in the routes; when it cannot be found while servers that may have it are
    /// being started, waits for these and tries again.
    async fn resolved<T>(
        &self,
        asked: Option<&str>,
        options: &CallOptions,
        start: &StartDeadline,
        find: impl Fn(&Routes) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let shared = &self.inner.shared;
        loop {
            let routes = shared.routes();
            let error = match find(&routes) {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            let coming = match error.code {
                ErrorCode::ToolNotFound | ErrorCode::ServerUnavailable => {
                    routes.coming(asked, options.server.as_ref())
                }
                _ => Vec::new(),
            };
            if coming.is_empty() {
                return Err(error);
            }
            let starts = coming.iter().map(|slot| slot.wake(start.deadline).boxed());
            let one = futures::future::select_all(starts);
            let (ended, ..) = options
                .cancel
                .run_until_cancelled(one)
                .await
                .ok_or_else(|| Error::new(ErrorCode::Cancelled, "cancelled by the caller"))?;
            if let Err(late) = ended {
                let is_its_own = error.code == ErrorCode::ServerUnavailable;
                return Err(if is_its_own { late } else { error });
            }
        }
    }

    /// Sends a request of the host.
    async fn ask(&self, server: &ServerName, request: Request) -> Result<protocol::Payload, Error> {
        let shared = &self.inner.shared;
        let slot = shared.server(server)?;
        let options = CallOptions { server: Some(server.clone()), ..CallOptions::default() };
        slot.wake(self.start_deadline(&options).deadline).await?;
        let live = slot.live();
        let own = PendingRequest::internal(shared.clock, live.config.request_timeout);
        live.session()?.request(request, own).await.map_err(Error::advised)
    }
}

/// How long a caller waits for a server that is being started.
struct StartDeadline {
    deadline: tokio::time::Instant,
    /// Whether it is the end of the caller's whole time.
    is_bound: bool,
}

fn refused(failure: &AuthFailure, server: &ServerName) -> Error {
    Error::new(ErrorCode::ServerUnavailable, failure.to_string()).server(server)
}

fn send(slot: &Slot, command: Command) -> Result<(), Error> {
    use tokio::sync::mpsc::error::TrySendError;
    slot.commands.try_send(command).map_err(|error| match error {
        TrySendError::Full(_) => {
            Error::new(ErrorCode::RateLimited, "busy: too many commands wait for this server")
                .server(&slot.name)
        }
        TrySendError::Closed(_) => {
            Error::new(ErrorCode::ServerUnavailable, "the server was removed").server(&slot.name)
        }
    })
}

/// Logs a name that cannot be resolved as a rejected request and adds the request
/// to the error.
fn routed<T>(method: &str, asked: &str, route: Result<T, Error>) -> Result<T, Error> {
    route.map_err(|error| {
        let (server, status) = (error.server.as_ref().map(ServerName::as_str), error.code.as_str());
        tracing::warn!(
            target: "mcpdeck::call", server, action = method, status, "{asked:?}: {}", error.message
        );
        error.request(format!("{method} {asked}"))
    })
}

/// Whether completions were negotiated (MCP, utilities, completion). Version 2024-11-05 has no
/// capability for them.
fn completes(session: &SessionView) -> bool {
    let declared = session.capabilities.get("completions").is_some_and(|value| !value.is_null());
    declared || session.protocol_version.as_str() == "2024-11-05"
}
