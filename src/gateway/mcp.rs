//! The aggregated MCP server: one per client session (or per request, from 2026-07-28 on); all of
//! them share the upstream sessions.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
#[expect(deprecated, reason = "clients up to 2025-11-25 send it")]
use rmcp::model::SetLevelRequestParams;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities,
    ClientNotification, ClientRequest, CompleteRequestParams, CompleteResult, CustomNotification,
    CustomRequest, CustomResult, DetailedTask, DiscoverResult, ErrorCode as RpcCode, ErrorData,
    Extensions, GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetSkillRequestParams,
    GetSkillResult, GetTaskParams, GetTaskResult, Implementation, InitializeRequestParams,
    InitializeResult, InputResponses, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListSkillsResult, ListToolsResult, PaginatedRequestParams, ProgressToken,
    ProtocolVersion, ReadResourceDirectoryRequestParams, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Reference, ServerCapabilities, ServerConfig,
    ServerNotification, ServerRequest, ServerResult, Skill, SubscribeRequestParams,
    SubscriptionFilter, Task, TaskPayload, TaskStatus, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{
    NotificationContext, OriginatingRequestId, RequestContext, SubscriptionContext,
};
use rmcp::{RoleServer, ServerHandler, Service};
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::accept::JsonOnly;
use super::bridge::{BridgedRequest, Parked};
use super::catalog::{ClientCatalog, ClientEntry};
use super::claims::without_claims;
use super::exposure::{OwnCall, SEARCH_INSTRUCTIONS, listed, listing, own_call, own_tools};
use super::follow::{Interest, Recipient, follow, log_level, logged_during, next_notice};
use super::found::ToolListing;
use super::misfit::misfit;
use super::outside::{Outside, settled};
use super::raw::{SentNumbers, Whole};
use super::sessions::{ClientSession, PROGRESS, SessionServer};
use super::skills::{self, SKILLS_EXTENSION};
use super::state::Gateway;
use super::store::ParkedCall;
use super::tasks::{LongCall, SYNC_WINDOW, can_answer, input_requests};
use super::tokens::Client;
use super::traces::TraceSpan;
use base::ServerName;
use base::text::json::{WrittenNumbers, WrittenValue};
use config::error::Error;
use host::{
    AccessScope, CallOptions, CallOutcome, OWN_APP_URIS, OWN_URIS, PolicyAction, RunId, ServerView,
    TargetKind, canonical_name, fit_template, own_uri, parse_traceparent,
};
use protocol::{
    APP_URIS, APPS_EXTENSION, Answer, CLIENT_NAME, CallerMeta, HOPS_KEY, Progress, RequestKind,
    app_of, is_for_models, vendor_meta,
};

/// Refuses a cursor: lists are sent whole, so none was given out (pagination, "Error Handling").
fn only_page(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|page| page.cursor) {
        Some(cursor) if !cursor.is_empty() => {
            let message = "`cursor` is none of this list, which has one page";
            Err(ErrorData::invalid_params(message, None))
        }
        _ => Ok(()),
    }
}

/// What a client is told about progress. Whole numbers stay whole: some clients read integers only.
fn progress_of(token: &ProgressToken, progress: &Progress) -> CustomNotification {
    const MAX_WHOLE: f64 = 9_007_199_254_740_992.0;
    let number = |number: f64| {
        let is_whole = number.fract() == 0.0 && number.abs() <= MAX_WHOLE;
        if is_whole { json!(number as i64) } else { json!(number) }
    };
    let mut params = json!({"progressToken": token, "progress": number(progress.progress)});
    if let Some(total) = progress.total {
        params["total"] = number(total);
    }
    if let Some(message) = &progress.message {
        params["message"] = json!(message);
    }
    CustomNotification::new(PROGRESS, Some(params))
}

/// Queue size for progress notifications of one call; further ones are dropped.
const PROGRESS_CAPACITY: usize = 16;
/// How long inputs are collected into one round before the client is asked for them.
const INPUT_ROUND_INTERVAL: Duration = Duration::from_millis(200);

/// Methods that have parameters.
const KNOWN_METHODS: [&str; 15] = [
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

/// Those of them that 2026-07-28 removed.
const REMOVED_METHODS: [&str; 4] =
    ["initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

/// Maximum number of decks that a definition or a call may pass through.
const MAX_HOPS: u64 = 4;
/// Maximum size of a call's answers inside its `requestState`, in bytes.
const MAX_ANSWERS_BYTES: usize = 32 << 10;

/// Longest time a client may cache a result, in milliseconds: its permissions can change.
const MAX_TTL_MILLIS: u64 = 3_600_000;

/// One client's view of all servers.
#[derive(Clone)]
pub(crate) struct Face {
    gateway: Arc<Gateway>,
    /// The client of a transport without tokens (stdio).
    client: Option<Client>,
    interest: Arc<Interest>,
    /// The task that notifies the client; aborted with the last clone.
    following: Arc<OnceLock<AbortOnDropHandle<()>>>,
}

/// The tool, prompt or resource (by URI) to call, with its arguments.
pub(super) struct McpOperation {
    pub kind: TargetKind,
    pub server: Option<ServerName>,
    pub name: Arc<str>,
    pub arguments: Value,
    /// Numbers of the arguments that the value cannot hold.
    pub numbers: Option<Arc<WrittenNumbers>>,
}

impl Face {
    pub fn new(gateway: Arc<Gateway>, client: Option<Client>) -> Self {
        Self { gateway, client, interest: Arc::default(), following: Arc::default() }
    }

    /// Answers a request with the server's unmodified result.
    async fn answer(
        &self,
        request: ClientRequest,
        mut context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let whole = Whole::default();
        context.extensions.insert(whole.clone());
        let result = Service::handle_request(self, request, context).await?;
        Ok(whole.take().map_or(result, |whole| CustomResult(whole).into()))
    }

    /// Starts notifying the client of changes (protocol up to 2025-11-25).
    fn follow(&self, extensions: &Extensions, to: Recipient) {
        let Ok(client) = self.client(extensions) else { return };
        let (gateway, interest) = (Arc::clone(&self.gateway), Arc::clone(&self.interest));
        let following = follow(gateway, client, interest, to);
        self.following.get_or_init(|| AbortOnDropHandle::new(tokio::spawn(following)));
    }

    fn client(&self, extensions: &Extensions) -> Result<Client, ErrorData> {
        let parts = extensions.get::<axum::http::request::Parts>();
        let sent = parts.and_then(|parts| parts.extensions.get::<Client>()).cloned();
        let unknown = || ErrorData::invalid_request("the sender is unknown", None);
        sent.or_else(|| self.client.clone()).ok_or_else(unknown)
    }

    async fn allowed(
        &self,
        context: &RequestContext<RoleServer>,
        scope: AccessScope,
    ) -> Result<Client, ErrorData> {
        let client = self.known(context).await?;
        client.allows(scope)?;
        Ok(client)
    }

    /// Identifies the client of a request, and records the name and version it reports.
    async fn known(&self, context: &RequestContext<RoleServer>) -> Result<Client, ErrorData> {
        let client = self.client(&context.extensions)?;
        let info = client_info(context);
        // Decks do not wait, to avoid a deadlock between two; `list_changed` notifies them later.
        if !info.as_deref().is_some_and(is_deck) {
            self.gateway.started().await;
        }
        if let (Some(info), Some(version)) = (info, protocol_version(context)) {
            let name = format!("{} {}", info.name, info.version);
            self.gateway.options.clients.introduced(&client.principal(), &name, version.as_str());
        }
        Ok(client)
    }

    /// What the client of a request is told about the use of the service: how to search.
    fn instructions(
        &self,
        context: &RequestContext<RoleServer>,
    ) -> Result<Option<String>, ErrorData> {
        let client = self.client(&context.extensions)?;
        let catalog = self.gateway.catalog(&client, &self.gateway.host.snapshot());
        let is_search = listing(&self.gateway, &client, &catalog).is_search();
        Ok(is_search.then(|| SEARCH_INSTRUCTIONS.to_owned()))
    }

    fn catalog(&self) -> Arc<ClientCatalog> {
        let view = self.gateway.host.snapshot();
        match &self.client {
            Some(client) => self.gateway.catalog(client, &view),
            None => self.gateway.catalogs.for_view(&view, None),
        }
    }

    /// Answers with a list of what the client may see, as defined by the servers.
    async fn list<T: Default>(
        &self,
        context: &RequestContext<RoleServer>,
        (key, scope, kind): (&str, AccessScope, TargetKind),
        of: fn(&ClientCatalog) -> &[ClientEntry],
    ) -> Result<T, ErrorData> {
        let client = self.known(context).await?;
        let view = self.gateway.host.snapshot();
        let catalog = self.gateway.catalog(&client, &view);
        if !is_modern(context) {
            self.interest.lists(&self.gateway, &client, &view, kind);
        }
        // Listing never fails: without the scope the list is empty.
        let entries = if client.may(scope) { of(&catalog) } else { &[] };
        let shown = match kind {
            TargetKind::Tool if client.may(scope) => listing(&self.gateway, &client, &catalog),
            _ => ToolListing::Whole,
        };
        let mut known = HashSet::new();
        let entries = self.gateway.seen_by(&client, kind, entries);
        let entries = entries.filter(|it| shown.holds(&it.server, &it.original));
        // Without the extension, a tool for the pages of its server is of no use.
        let has_apps = kind != TargetKind::Tool || shows_apps(context);
        let entries = entries.filter(|it| has_apps || is_for_models(&it.raw));
        // If several servers list a URI, it is that of the first visible one; the others are listed
        // under a URI of their own.
        let entries = entries.map(|entry| {
            if kind != TargetKind::Resource || known.insert(entry.name.as_str()) {
                return (listed(&shown, entry), entry.hops);
            }
            let mut raw = entry.raw.clone();
            for key in ["uri", "uriTemplate"] {
                if let Some(uri) = raw.value.get_mut(key) {
                    *uri = own_uri(&entry.server, &entry.name).into();
                }
            }
            (raw, entry.hops)
        });
        let own = own_tools(&shown).into_iter().map(|own| (WrittenValue::from(own), 0));
        let entries = own.chain(entries);
        let entries: WrittenValue = if client_info(context).as_deref().is_some_and(is_deck) {
            // Limits hops: entries of decks that list each other would otherwise multiply.
            let near = entries.filter_map(|(mut raw, hops)| {
                if hops >= MAX_HOPS {
                    return None;
                }
                let meta = raw.value.as_object_mut()?.entry("_meta").or_insert_with(|| json!({}));
                meta.as_object_mut()?.insert(HOPS_KEY.to_owned(), json!(hops + 1));
                Some(raw)
            });
            near.collect()
        } else {
            entries.map(|(raw, _)| raw).collect()
        };
        let mut list = WrittenValue::from(json!({}));
        list.insert_written(key, entries);
        if is_modern(context) {
            list.insert("resultType", json!("complete"));
            list.insert("ttlMs", json!(0));
            list.insert("cacheScope", json!("private"));
        }
        Whole::leave(&context.extensions, list);
        Ok(T::default())
    }

    /// Runs an operation, or resumes one that waited for input. Answers with its result or with the
    /// input that the server requests.
    async fn run(
        &self,
        context: &RequestContext<RoleServer>,
        client: &Client,
        (target, operation): (String, McpOperation),
        (state, given): (Option<String>, Option<InputResponses>),
    ) -> Result<(), ErrorData> {
        let is_cacheable = operation.kind == TargetKind::Resource;
        let kind = operation.kind;
        let is_tool = kind == TargetKind::Tool;
        let (progress, mut progressed) = mpsc::channel(PROGRESS_CAPACITY);
        let level = match context.meta.log_level() {
            Some(level) if is_modern(context) => {
                let level = log_level(level);
                self.gateway.log_from(client, level).await;
                Some(level)
            }
            _ => self.interest.level(),
        };
        let mut notices = level.map(|_| self.gateway.host.notices());
        let mut given = given.unwrap_or_default();
        let resumed = self.resume(client, &target, state, &mut given).await?;
        let mut call = match resumed {
            None => self.begin(context, client, (target, operation), progress)?,
            Some(call) if !call.waiting.is_empty() => return self.park(context, call),
            Some(call) => call,
        };
        let token = context.meta.get_progress_token();
        if token.is_some() || notices.is_some() {
            // A client that reads notifications slowly must not stall the call.
            call.detach();
        }
        // Made with the first question: most calls ask nothing.
        let mut forwarded: Option<FuturesUnordered<_>> = None;
        let long = tokio::time::sleep(SYNC_WINDOW);
        tokio::pin!(long);
        let mut may_become_task = is_tool && declares_tasks(context);
        loop {
            tokio::select! {
                biased;
                Some(progress) = progressed.recv() => {
                    if let Some(token) = &token {
                        let sent = progress_of(token, &progress);
                        send_notification(context, sent.into()).await;
                    }
                }
                Some(notice) = async { next_notice(notices.as_mut()?).await } => {
                    if let Some(logged) = logged_during(&notice, Some(call.line.call), level) {
                        send_notification(context, logged).await;
                    }
                }
                outcome = &mut call.outcome => {
                    let result = settled(outcome, kind, &call.target, client)?;
                    reply(context, result, is_cacheable);
                    return Ok(());
                }
                Some(ask) = call.line.asks.recv() => {
                    if !is_modern(context) {
                        let ask = answerable(context, ask).map(|ask| forward(context, ask));
                        forwarded.get_or_insert_default().extend(ask);
                        continue;
                    }
                    call.detach();
                    let of = ask.request.input.as_ref().map_or(1, |place| place.of);
                    let mut next = Some(ask);
                    // The other inputs of this round; those decided by a rule never arrive.
                    let round = async {
                        for _ in 0..of {
                            let ask = match next.take() {
                                Some(ask) => Some(ask),
                                None => call.line.asks.recv().await,
                            };
                            if let Some(ask) = ask.and_then(|ask| answerable(context, ask)) {
                                call.wait_for(ask, &mut given);
                            }
                        }
                    };
                    let _ = tokio::time::timeout(INPUT_ROUND_INTERVAL, round).await;
                    if !call.waiting.is_empty() {
                        return self.park(context, call);
                    }
                }
                Some(()) = async { forwarded.as_mut()?.next().await } => {}
                () = &mut long, if may_become_task => {
                    call.detach();
                    let capabilities = client_capabilities(context).unwrap_or_default();
                    let (client, progress) = (client.clone(), progressed);
                    let long = LongCall { call, client, progress, capabilities };
                    match self.gateway.tasks.begin(self.gateway.host.clock(), long).await {
                        Ok(created) => {
                            Whole::leave(&context.extensions, created);
                            return Ok(());
                        }
                        Err(long) => (call, progressed) = (long.call, long.progress),
                    }
                    may_become_task = false;
                }
                () = context.ct.cancelled() => {
                    call.cancel.cancel();
                    call.detach();
                    return Err(ErrorData::internal_error("cancelled", None));
                }
            }
        }
    }

    /// The call that waits for these responses, with those that fit handed to it; `None` where it has
    /// to be begun.
    async fn resume(
        &self,
        client: &Client,
        target: &str,
        state: Option<String>,
        given: &mut InputResponses,
    ) -> Result<Option<Parked>, ErrorData> {
        let Some(state) = state else { return Ok(None) };
        let mut call = self.gateway.fetch(client, target, &state, given).await?;
        if let Some(call) = &mut call {
            for (key, response) in std::mem::take(given) {
                call.respond(&key, response);
            }
        }
        Ok(call)
    }

    /// Tells the caller of a tool that the call is refused; the operator, where it is for want of a
    /// scope.
    fn refuse_call(
        &self,
        context: &RequestContext<RoleServer>,
        client: &Client,
        called: &str,
        outside: Outside,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(scope) = outside.lacked_scope() {
            let (principal, action) = (client.principal(), PolicyAction::Call);
            self.gateway.host.refuse_scope(&principal, scope, action, called);
        }
        reply(context, outside.into_tool_result()?, false);
        Ok(CallToolResult::default().into())
    }

    fn begin(
        &self,
        context: &RequestContext<RoleServer>,
        client: &Client,
        (target, operation): (String, McpOperation),
        progress: mpsc::Sender<protocol::Progress>,
    ) -> Result<Parked, ErrorData> {
        let hops = context.meta.get(HOPS_KEY).and_then(Value::as_u64).unwrap_or(0);
        if hops >= MAX_HOPS {
            let message = format!("the call came through {hops} decks, which call each other");
            return Err(ErrorData::invalid_request(message, None));
        }
        let trace = context.meta.get("traceparent").and_then(Value::as_str);
        let trace = trace.and_then(parse_traceparent);
        let run = context.meta.get("runId").map(RunId::deserialize).transpose();
        let run = run.map_err(|why| ErrorData::invalid_params(format!("`runId`: {why}"), None))?;
        let run = run.map(RunId::into_name);
        let id = self.gateway.host.next_call_id();
        let (progress, hops, meta) = (Some(progress), Some(hops), meta_of(context));
        let own = client.options();
        let options = CallOptions { id: Some(id), progress, trace, hops, run, meta, ..own };
        let cancel = options.cancel.clone();
        let line = self.gateway.bridge.open(id);
        let (gateway, caller) = (Arc::clone(&self.gateway), client.clone());
        let outcome = Box::pin(async move { gateway.perform(&caller, operation, options).await });
        let (client, waiting) = (Arc::clone(&client.id), BTreeMap::new());
        let given = InputResponses::new();
        let is_detached = false;
        Ok(Parked { client, target, line, outcome, is_detached, cancel, waiting, asked: 0, given })
    }

    /// Parks a call until the client provides input; answers with the input requests.
    fn park(&self, context: &RequestContext<RoleServer>, call: Parked) -> Result<(), ErrorData> {
        let requests = input_requests(&call);
        let good_for = about(&call.client, &call.target);
        let mut given = call.given.clone();
        let state = self.gateway.parked.park(call);
        let full = || ErrorData::internal_error("too many calls wait for input", None);
        let mut state = state.ok_or_else(full)?;
        if let Some(store) = &self.gateway.options.store {
            if json!(given).to_string().len() > MAX_ANSWERS_BYTES {
                given.clear();
            }
            state = store.seal(&ParkedCall { call: state, given }, &good_for).ok_or_else(full)?;
        }
        let result = json!({
            "resultType": "input_required", "inputRequests": requests, "requestState": state,
        });
        Whole::leave(&context.extensions, result);
        Ok(())
    }
}

/// Replaces the URI of a server's resource in its contents by that under which it was read.
fn rename(result: &mut Value, original: &str, uri: &str) {
    for content in result["contents"].as_array_mut().into_iter().flatten() {
        if content["uri"] == *original {
            content["uri"] = uri.into();
        }
    }
}

/// The context that a `requestState` is bound to.
fn about(client: &str, target: &str) -> String {
    format!("{client}\n{target}")
}

impl Face {
    /// The client of a request about one of its tasks.
    async fn task_owner(&self, context: &RequestContext<RoleServer>) -> Result<Client, ErrorData> {
        self.allowed(context, AccessScope::ToolsCall).await
    }
}

/// Whether the client shows the pages of tools (MCP Apps).
fn shows_apps(context: &RequestContext<RoleServer>) -> bool {
    let extensions = client_capabilities(context).and_then(|all| all.extensions);
    extensions.is_some_and(|all| all.contains_key(APPS_EXTENSION))
}

/// Whether the client can follow a task (2026-07-28).
fn declares_tasks(context: &RequestContext<RoleServer>) -> bool {
    is_modern(context)
        && client_capabilities(context).is_some_and(|capabilities| capabilities.supports_tasks())
}

impl Gateway {
    /// The server of a URI, and the URI there: the server under whose name it is written, the first
    /// one visible that lists it, or the one whose template fits best. What is listed, read and
    /// subscribed to is so the same.
    pub(super) fn locate(&self, client: &Client, uri: &str) -> Option<(ServerName, Arc<str>)> {
        let catalog = self.catalog(client, &self.host.snapshot());
        let kind = TargetKind::Resource;
        let listed = self.seen_by(client, kind, &catalog.resources).find(|it| it.name == uri);
        if let Some(entry) = listed {
            return Some((entry.server.clone(), Arc::clone(&entry.original)));
        }
        if let Some(found) = self.named_in(client, uri) {
            return Some(found);
        }
        // Nor need servers list the files of their skills.
        let (view, principal) = (self.host.snapshot(), client.principal());
        let seen =
            |server: &&Arc<ServerView>| self.host.is_visible(&principal, &server.name, (kind, uri));
        if let Some(server) = self.skills.server_with(view.servers.values().filter(seen), uri) {
            return Some((server.name.clone(), uri.into()));
        }
        // Servers need not list the pages of their tools.
        let mut tools = self.seen_by(client, TargetKind::Tool, &catalog.tools);
        if let Some(entry) = tools.find(|entry| app_of(&entry.raw) == Some(uri)) {
            return Some((entry.server.clone(), uri.into()));
        }
        let fits = self
            .seen_by(client, kind, &catalog.templates)
            .filter_map(|entry| Some((fit_template(&entry.original, uri)?, entry)));
        // The first of those that fit equally well.
        let best = fits.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, entry)| (entry.server.clone(), uri.into()))
    }

    /// The servers that may have a skill or a folder of this URI, each with the URI there: the one
    /// that is known to have it, or all that `may`.
    fn skill_servers(
        &self,
        client: &Client,
        uri: &str,
        may: impl Fn(&ServerView) -> bool,
    ) -> Vec<(Arc<ServerView>, Arc<str>)> {
        let view = self.host.snapshot();
        if let Some((name, original)) = self.locate(client, uri) {
            let server = view.servers.get(&name).filter(|server| may(server));
            return server.map(|server| (Arc::clone(server), original)).into_iter().collect();
        }
        let (original, principal) = (Arc::<str>::from(uri), client.principal());
        let seen = |server: &&Arc<ServerView>| {
            let what = (TargetKind::Resource, uri);
            may(server) && self.host.is_visible(&principal, &server.name, what)
        };
        let servers = view.servers.values().filter(seen);
        servers.map(|server| (Arc::clone(server), Arc::clone(&original))).collect()
    }

    /// The server of a URI template, and the template there.
    pub(super) fn template(&self, client: &Client, uri: &str) -> Option<(ServerName, Arc<str>)> {
        let catalog = self.catalog(client, &self.host.snapshot());
        let mut seen = self.seen_by(client, TargetKind::Resource, &catalog.templates);
        let listed = seen.find(|entry| entry.name == uri);
        let listed = listed.map(|entry| (entry.server.clone(), Arc::clone(&entry.original)));
        listed.or_else(|| self.named_in(client, uri))
    }

    /// The visible server that a URI names ([`own_uri`]), and the URI there.
    fn named_in(&self, client: &Client, uri: &str) -> Option<(ServerName, Arc<str>)> {
        let is_app = uri.starts_with(OWN_APP_URIS);
        if !is_app && !uri.starts_with(OWN_URIS) {
            return None;
        }
        let start = if is_app { APP_URIS } else { "" };
        let (view, principal) = (self.host.snapshot(), client.principal());
        view.servers.keys().find_map(|server| {
            let own = format!("{start}{}", uri.strip_prefix(&own_uri(server, start))?);
            let is_visible = self.host.is_visible(&principal, server, (TargetKind::Resource, &own));
            is_visible.then(|| (server.clone(), own.into()))
        })
    }

    /// Takes the parked call of a `requestState`. Returns `None` when it is parked at another
    /// replica: it is then restarted here with all answers given so far.
    ///
    /// # Errors
    /// When no call waits for this client and target, or it was already resumed.
    async fn fetch(
        &self,
        client: &Client,
        target: &str,
        state: &str,
        given: &mut InputResponses,
    ) -> Result<Option<Parked>, ErrorData> {
        let gone = "requestState matches no waiting call: call again without it";
        let gone = || ErrorData::invalid_params(gone, None);
        let Some(store) = &self.options.store else {
            return self.parked.fetch(state, &client.id, target).map(Some).ok_or_else(gone);
        };
        let sealed = store.open(state, &about(&client.id, target)).ok_or_else(gone)?;
        if !store.take(&sealed.call).await {
            return Err(gone());
        }
        let call = self.parked.fetch(&sealed.call, &client.id, target);
        if call.is_none() {
            // The replica that holds it ends it at its next exchange and frees its slot.
            tokio::time::sleep(super::store::EXCHANGE_INTERVAL).await;
            let now = std::mem::take(given);
            *given = sealed.given.into_iter().chain(now).collect();
        }
        Ok(call)
    }

    /// Performs and counts an operation, once the client is not paused.
    pub(super) async fn perform(
        &self,
        client: &Client,
        operation: McpOperation,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let (principal, label, cancel) =
            (client.principal(), operation.label(), options.cancel.clone());
        let performed = Box::pin(async {
            let (host, clock) = (&self.host, self.host.clock());
            let traces = &self.options.traces;
            let whose = (operation.server.as_ref().map(ServerName::as_str), &principal.origin);
            let parent = options.trace.as_deref();
            let span = traces.begin(operation.traced(), whose, parent, clock.now());
            let trace = span.as_ref().map(TraceSpan::context).or_else(|| options.trace.clone());
            let McpOperation { kind, server, name, arguments, numbers } = operation;
            let tool_of = server.as_ref().filter(|_| kind == TargetKind::Tool);
            let counted = tool_of.map(|server| self.metrics.begin(client, server, &name));
            let options = CallOptions { server, trace, numbers, ..options };
            let outcome = match kind {
                TargetKind::Tool => host.call_tool_with(&name, arguments, options).await,
                TargetKind::Prompt => host.get_prompt_with(&name, arguments, options).await,
                _ => host.get_resource_with(&name, options).await,
            };
            if let Some(counted) = counted {
                counted.end(&outcome);
            }
            if let Some(span) = span {
                span.end(&outcome, clock.now());
            }
            outcome
        });
        let outcome = self.options.clients.call(&principal, &label, &cancel, performed).await;
        outcome.map(without_claims)
    }
}

impl McpOperation {
    /// Its method, and its target under the attribute of the OpenTelemetry conventions. Resource
    /// URIs are left out: their cardinality is unbounded.
    fn traced(&self) -> (&'static str, Option<(&'static str, &str)>) {
        match self.kind {
            TargetKind::Tool => ("tools/call", Some(("gen_ai.tool.name", &self.name))),
            TargetKind::Prompt => ("prompts/get", Some(("gen_ai.prompt.name", &self.name))),
            _ => ("resources/read", None),
        }
    }

    fn label(&self) -> String {
        let server = self.server.as_ref().filter(|_| self.kind != TargetKind::Resource);
        server.map_or_else(|| self.name.to_string(), |server| canonical_name(server, &self.name))
    }
}

/// Whether the request's protocol has no server-to-client requests (from 2026-07-28).
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    protocol_version(context)
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// The session of a request over HTTP (up to 2025-11-25).
fn session_of(context: &RequestContext<RoleServer>) -> Option<&Arc<ClientSession>> {
    context.extensions.get::<Arc<ClientSession>>()
}

/// What the client said of itself when its session began.
fn introduced(context: &RequestContext<RoleServer>) -> Option<&InitializeRequestParams> {
    session_of(context)?.client()
}

fn client_info(context: &RequestContext<RoleServer>) -> Option<Cow<'_, Implementation>> {
    let introduced = || introduced(context).map(|client| Cow::Borrowed(&client.client_info));
    context.client_info().map(Cow::Owned).or_else(introduced)
}

fn client_capabilities(context: &RequestContext<RoleServer>) -> Option<ClientCapabilities> {
    let introduced = || introduced(context).map(|client| client.capabilities.clone());
    context.client_capabilities().or_else(introduced)
}

fn protocol_version(context: &RequestContext<RoleServer>) -> Option<ProtocolVersion> {
    let agreed = || introduced(context).map(|client| client.protocol_version.clone());
    context.protocol_version().or_else(agreed)
}

/// Sends a notification on the stream of a request.
async fn send_notification(context: &RequestContext<RoleServer>, notification: ServerNotification) {
    match session_of(context) {
        Some(session) => session.notify(notification).await,
        None => _ = context.peer.send_notification(notification).await,
    }
}

/// Sends a request on the stream of another one; returns the answer, unless the client has gone.
async fn send_request(
    context: &RequestContext<RoleServer>,
    request: ServerRequest,
) -> Option<Answer> {
    let answer = match session_of(context) {
        Some(session) => session.request(request).await,
        None => match context.peer.send_request(request).await {
            Ok(result) => Ok(result),
            Err(rmcp::service::ServiceError::McpError(error)) => Err(Some(error)),
            Err(_) => Err(None),
        },
    };
    match answer {
        Ok(result) => serde_json::to_value(result).ok().map(Answer::Result),
        Err(error) => error.map(|error| Answer::Refuse {
            code: i64::from(error.code.0),
            message: base::text::SafeText::line(&error.message).to_string(),
        }),
    }
}

/// Whether a server does not know what it was asked for.
fn is_unknown(error: &Error) -> bool {
    use protocol::RpcCode as Rpc;
    let code = error.rpc.as_ref().and_then(|rpc| rpc.code);
    let unknown = [Rpc::METHOD_NOT_FOUND, Rpc::INVALID_PARAMS, Rpc::RESOURCE_NOT_FOUND];
    code.is_some_and(|code| unknown.contains(&code))
}

/// The answer to a request for a skill or directory that no server has, or why one that may have it
/// could not be asked.
fn no_such(what: &str, uri: &str, failed: Option<&Error>, client: &Client) -> ErrorData {
    match failed {
        Some(error) => Outside::about(error, TargetKind::Resource, uri, client).into(),
        None => {
            ErrorData::invalid_params(format!("there is no such {what}"), Some(json!({"uri": uri})))
        }
    }
}

/// What a client put into `_meta` of its request for the server.
fn meta_of(context: &RequestContext<RoleServer>) -> Option<Arc<CallerMeta>> {
    if context.meta.is_empty() {
        return None;
    }
    let members = vendor_meta(json!(context.meta).as_object()?.clone());
    let numbers = SentNumbers::sent(&context.extensions, "/_meta");
    Some(Arc::new(CallerMeta { members, numbers: numbers.unwrap_or_default() }))
}

/// Whether a client is another deck.
fn is_deck(client: &Implementation) -> bool {
    client.name == CLIENT_NAME
}

/// Answers with the server's result, adapted to the client's protocol version.
fn reply(
    context: &RequestContext<RoleServer>,
    result: impl Into<WrittenValue>,
    is_cacheable: bool,
) {
    let mut result = result.into();
    if is_modern(context) {
        result.insert("resultType", json!("complete"));
        if is_cacheable {
            let ttl = result.value.get("ttlMs").and_then(Value::as_u64).unwrap_or(0);
            result.insert("ttlMs", json!(ttl.min(MAX_TTL_MILLIS)));
            // The result was authorized for this client only.
            result.insert("cacheScope", json!("private"));
        }
    } else if let Some(members) = result.value.as_object_mut() {
        members.shift_remove("resultType");
    }
    Whole::leave(&context.extensions, result);
}

/// Returns the request if the client can answer it; otherwise declines, and the operator gets it.
fn answerable(context: &RequestContext<RoleServer>, ask: BridgedRequest) -> Option<BridgedRequest> {
    let capabilities = client_capabilities(context).unwrap_or_default();
    let parts = context.extensions.get::<axum::http::request::Parts>();
    let reads_events = parts.is_none_or(|parts| parts.extensions.get::<JsonOnly>().is_none());
    // A client that reads nothing but the answer cannot be asked (up to 2025-11-25).
    let can_read = reads_events || is_modern(context);
    if can_read && can_answer(&capabilities, &ask.request.kind) {
        return Some(ask);
    }
    let _ = ask.reply.send(None);
    None
}

/// The answer to a question whose client has gone; never one in the name of a person.
fn unanswered(kind: &RequestKind) -> Answer {
    match kind {
        // Dismissed without a choice (client features, elicitation, response actions).
        RequestKind::Elicitation | RequestKind::UrlElicitation => {
            Answer::Result(json!({"action": "cancel"}))
        }
        _ => {
            let message = "nobody answered: the client that was asked has disconnected".to_owned();
            Answer::Refuse { code: protocol::RpcCode::SERVER_ERROR, message }
        }
    }
}

/// Forwards a server's request to the client, on the stream of the call that caused it.
async fn forward(context: &RequestContext<RoleServer>, ask: BridgedRequest) {
    let method = ask.request.kind.method().to_owned();
    let mut sent = CustomRequest::new(method, Some(ask.params()));
    sent.extensions.insert(OriginatingRequestId(context.id.clone()));
    let absent = async {
        match session_of(context) {
            Some(session) => session.abandoned().await,
            None => std::future::pending().await,
        }
    };
    let reply = tokio::select! {
        biased;
        reply = send_request(context, ServerRequest::CustomRequest(sent)) => reply,
        () = absent => Some(unanswered(&ask.request.kind)),
    };
    let _ = ask.reply.send(reply);
}

impl SessionServer for Face {
    fn respond(
        self: Arc<Self>,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> BoxFuture<'static, Result<ServerResult, ErrorData>> {
        async move { self.answer(request, context).await }.boxed()
    }

    fn client_ready(&self, session: Weak<ClientSession>, extensions: &Extensions) {
        self.follow(extensions, Recipient::Session(session));
    }
}

// What takes long or seldom happens is boxed: each call takes the room of the largest of these
// futures.
#[expect(deprecated, reason = "clients up to 2025-11-25 subscribe and log so")]
impl ServerHandler for Face {
    fn get_info(&self) -> ServerConfig {
        let mut capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging()
            .build();
        let tasks = ServerCapabilities::builder().enable_tasks().build();
        capabilities.extensions = tasks.extensions;
        let view = self.gateway.host.snapshot();
        let mut tools = view.servers.values().flat_map(|server| &server.capabilities.tools);
        if tools.any(|tool| tool.app().is_some()) {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(APPS_EXTENSION.to_owned(), serde_json::Map::new());
        }
        if let Some(settings) = skills::settings(&view) {
            let extensions = capabilities.extensions.get_or_insert_default();
            extensions.insert(SKILLS_EXTENSION.to_owned(), settings);
        }
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("mcpdeck", env!("CARGO_PKG_VERSION")))
    }

    /// What this server is and can do, without a session (protocol from 2026-07-28).
    async fn discover(
        &self,
        context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, ErrorData> {
        let versions = ServerHandler::supported_protocol_versions(self).into_owned();
        let mut result = DiscoverResult::from_server_info(versions, ServerHandler::get_info(self));
        result.instructions = self.instructions(&context)?;
        Ok(result)
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(page)?;
        let what = ("tools", AccessScope::ToolsList, TargetKind::Tool);
        self.list(&context, what, |catalog| &catalog.tools).await
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(page)?;
        let what = ("prompts", AccessScope::PromptsGet, TargetKind::Prompt);
        self.list(&context, what, |catalog| &catalog.prompts).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        only_page(page)?;
        let what = ("resources", AccessScope::ResourcesRead, TargetKind::Resource);
        self.list(&context, what, |catalog| &catalog.resources).await
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(page)?;
        let what = ("resourceTemplates", AccessScope::ResourcesRead, TargetKind::Resource);
        self.list(&context, what, |catalog| &catalog.templates).await
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = self.known(&context).await?;
        let (mut called, mut arguments) = (request.name.into_owned(), request.arguments);
        let own = arguments.get_or_insert_default();
        let mut numbers = SentNumbers::sent(&context.extensions, "/arguments");
        if let Some(own) = own_call(&self.gateway, &client, &called, own) {
            match own {
                Err(outside) => return self.refuse_call(&context, &client, &called, outside),
                Ok(OwnCall::Answer(result)) => {
                    reply(&context, result, false);
                    return Ok(CallToolResult::default().into());
                }
                Ok(OwnCall::Forward { name, arguments: inner }) => {
                    (called, arguments) = (name, Some(inner));
                    numbers = numbers.map(|all| Arc::new(all.below("/arguments")));
                }
            }
        }
        if let Err(outside) = client.allows(AccessScope::ToolsCall) {
            return self.refuse_call(&context, &client, &called, outside);
        }
        let what = (PolicyAction::Call, TargetKind::Tool);
        let (server, name) = match self.gateway.find(&client, what, &called).await {
            Ok(found) => found,
            Err(outside) => return self.refuse_call(&context, &client, &called, outside),
        };
        let arguments = Value::Object(arguments.unwrap_or_default());
        let (kind, server) = (what.1, Some(server));
        let operation = McpOperation { kind, server, name, arguments, numbers };
        let called = (called, operation);
        let resumed = (request.request_state, request.input_responses);
        Box::pin(self.run(&context, &client, called, resumed)).await?;
        Ok(CallToolResult::default().into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let client = self.task_owner(&context).await?;
        let state = self.gateway.tasks.get(&client, &request.task_id).await?;
        Whole::leave(&context.extensions, state);
        let placeholder = Task::new(request.task_id, TaskStatus::Working, "", "");
        Ok(GetTaskResult::new(DetailedTask::new(placeholder, TaskPayload::Working)))
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.task_owner(&context).await?;
        self.gateway.tasks.update(&client, &request.task_id, request.input_responses).await
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.task_owner(&context).await?;
        self.gateway.tasks.cancel(&client, &request.task_id).await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let client = self.allowed(&context, AccessScope::PromptsGet).await?;
        let what = (PolicyAction::Prompt, TargetKind::Prompt);
        let (server, name) = self.gateway.find(&client, what, &request.name).await?;
        let arguments = json!(request.arguments.unwrap_or_default());
        let (kind, server, numbers) = (what.1, Some(server), None);
        let operation = McpOperation { kind, server, name, arguments, numbers };
        let called = (request.name, operation);
        let resumed = (request.request_state, request.input_responses);
        Box::pin(self.run(&context, &client, called, resumed)).await?;
        Ok(GetPromptResult::default().into())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let client = self.allowed(&context, AccessScope::ResourcesRead).await?;
        let uri = request.uri;
        let (server, name) = self.gateway.locate(&client, &uri).unzip();
        let (kind, name) = (TargetKind::Resource, name.unwrap_or_else(|| uri.as_str().into()));
        let original = Arc::clone(&name);
        let (arguments, numbers) = (Value::Null, None);
        let called = (uri.clone(), McpOperation { kind, server, name, arguments, numbers });
        let resumed = (request.request_state, request.input_responses);
        Box::pin(self.run(&context, &client, called, resumed)).await.map_err(|mut error| {
            // The URI that was not found (2026-07-28, resources, error handling).
            if error.code == RpcCode::INVALID_PARAMS
                && let Some(Value::Object(data)) = &mut error.data
            {
                data.entry("uri").or_insert_with(|| json!(uri));
            }
            error
        })?;
        if *original != *uri {
            Whole::change(&context.extensions, |result| rename(result, &original, &uri));
        }
        Ok(ReadResourceResult::new(Vec::new()).into())
    }

    /// The skills of all servers (SEP-2640, "Listing Skills").
    async fn list_skills(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        only_page(page)?;
        let client = self.known(&context).await?;
        let (gateway, view, principal) =
            (&self.gateway, self.gateway.host.snapshot(), client.principal());
        let mut skills = Vec::new();
        if client.may(AccessScope::ResourcesRead) {
            let servers = view.servers.values().filter(|server| skills::declared(server).is_some());
            let listed = servers.map(async |server| {
                (&server.name, gateway.skills.listed(&gateway.host, server).await)
            });
            for (server, entries) in Box::pin(futures::future::join_all(listed)).await {
                for entry in entries.iter() {
                    let Some(uri) = entry["uri"].as_str() else { continue };
                    let what = (TargetKind::Resource, uri);
                    if !gateway.host.is_visible(&principal, server, what) {
                        continue;
                    }
                    let mut entry = entry.clone();
                    if gateway.locate(&client, uri).is_none_or(|(first, _)| first != *server) {
                        skills::with_own_uris(server, &mut entry);
                    }
                    skills.push(entry);
                }
            }
        }
        reply(&context, json!({"skills": skills}), true);
        Ok(ListSkillsResult::default())
    }

    /// The entry of a skill (SEP-2640, "Getting a Skill").
    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let client = self.allowed(&context, AccessScope::ResourcesRead).await?;
        let (gateway, uri) = (&self.gateway, request.uri);
        let mut failed = None;
        let has_skills = |server: &ServerView| skills::declared(server).is_some();
        for (server, original) in gateway.skill_servers(&client, &uri, has_skills) {
            let options = CallOptions { meta: meta_of(&context), ..client.options() };
            let mut result =
                match Box::pin(gateway.host.get_skill(&server.name, &original, options)).await {
                    Ok(outcome) => without_claims(outcome).result.into_value(),
                    Err(error) => {
                        failed = failed.or(Some(error).filter(|error| !is_unknown(error)));
                        continue;
                    }
                };
            if result["skill"]["uri"] != *original {
                continue;
            }
            gateway.skills.found(&server, &original);
            if *original != *uri {
                skills::with_own_uris(&server.name, &mut result["skill"]);
            }
            let skill = Skill::deserialize(&result["skill"]).map_err(|why| {
                let server = &server.name;
                ErrorData::internal_error(format!("the skill of {server} is none: {why}"), None)
            })?;
            reply(&context, result, true);
            return Ok(GetSkillResult::new(skill));
        }
        Err(no_such("skill", &uri, failed.as_ref(), &client))
    }

    /// What is in a folder of a skill (SEP-2640, "Reading Directories").
    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let client = self.allowed(&context, AccessScope::ResourcesRead).await?;
        let (gateway, uri) = (&self.gateway, request.uri);
        let mut failed = None;
        for (server, original) in gateway.skill_servers(&client, &uri, skills::reads_directories) {
            let options = CallOptions { meta: meta_of(&context), ..client.options() };
            let what = (&*original, request.cursor.as_deref());
            match Box::pin(gateway.host.read_directory(&server.name, what, options)).await {
                Ok(outcome) => {
                    let mut result = without_claims(outcome).result.into_value();
                    if *original != *uri {
                        skills::with_own_uris(&server.name, &mut result);
                    }
                    reply(&context, result, true);
                    return Ok(ListResourcesResult::default());
                }
                Err(error) => failed = failed.or(Some(error).filter(|error| !is_unknown(error))),
            }
        }
        Err(no_such("directory", &uri, failed.as_ref(), &client))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let client = self.known(&context).await?;
        let unknown = || ErrorData::invalid_params("there is no such prompt or template", None);
        let mut params = json!(request);
        let server = match &request.r#ref {
            Reference::Prompt(prompt) => {
                client.allows(AccessScope::PromptsGet)?;
                let what = (PolicyAction::Complete, TargetKind::Prompt);
                let (server, name) = self.gateway.find(&client, what, &prompt.name).await?;
                params["ref"]["name"] = json!(name);
                server
            }
            Reference::Resource(resource) => {
                client.allows(AccessScope::ResourcesRead)?;
                let found = self.gateway.template(&client, &resource.uri);
                let (server, original) = found.ok_or_else(unknown)?;
                params["ref"]["uri"] = json!(original);
                server
            }
            _ => return Err(unknown()),
        };
        if let Some(params) = params.as_object_mut() {
            params.shift_remove("_meta");
        }
        let options = CallOptions { meta: meta_of(&context), ..client.options() };
        let outcome = Box::pin(self.gateway.host.complete(&server, params, options)).await;
        let outcome = outcome.map_err(|error| Outside::from(&error))?;
        reply(&context, without_claims(outcome).result.into_written(), false);
        Ok(CompleteResult::default())
    }

    /// The schema that mirrored parameters in headers are checked against (2026-07-28).
    fn get_tool(&self, name: &str) -> Option<Tool> {
        let catalog = self.catalog();
        let entry = catalog.named(TargetKind::Tool, name, |_| true)?;
        serde_json::from_value(entry.raw.value.clone()).ok()
    }

    /// A method that is known comes here when its parameters are not of their form.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        let is_gone = is_modern(&context) && REMOVED_METHODS.contains(&method.as_str());
        if KNOWN_METHODS.contains(&method.as_str()) && !is_gone {
            let message = misfit(&method, request.params.as_ref());
            return Err(ErrorData::invalid_params(message, None));
        }
        Err(ErrorData::new(RpcCode::METHOD_NOT_FOUND, method, None))
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.known(&context).await?;
        let level = log_level(request.level);
        self.interest.logged_from(level);
        self.gateway.log_from(&client, level).await;
        Ok(())
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = self.allowed(&context, AccessScope::ResourcesRead).await?;
        Box::pin(self.interest.subscribe(&self.gateway, &client, &request.uri)).await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.interest.unsubscribe(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let client = self.client(&context.request_context().extensions)?;
        let interest = Arc::<Interest>::default();
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            // Unreadable and nonexistent resources cause no notifications.
            let _ = Box::pin(interest.subscribe(&self.gateway, &client, uri)).await;
        }
        let sink = Recipient::Listener(context.sink().clone());
        tokio::select! {
            () = context.cancelled() => {}
            () = Box::pin(follow(Arc::clone(&self.gateway), client, interest, sink)) => {}
        }
        Ok(())
    }

    /// Begins a session and installs its request handler (protocol up to 2025-11-25).
    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        result.instructions = self.instructions(&context)?;
        if let Some(session) = session_of(&context) {
            let mut client = request;
            client.protocol_version = result.protocol_version.clone();
            session.run(client, Arc::new(self.clone()));
        }
        Ok(result)
    }

    /// The client of the pipe is ready (protocol up to 2025-11-25).
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.follow(&context.extensions, Recipient::Pipe(context.peer));
    }
}

/// The MCP server over a pipe.
pub(crate) struct OverPipe(pub Face);

impl Service<RoleServer> for OverPipe {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        self.0.answer(request, context).await
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Service::handle_notification(&self.0, notification, context).await
    }

    fn get_info(&self) -> ServerConfig {
        Service::get_info(&self.0)
    }
}
