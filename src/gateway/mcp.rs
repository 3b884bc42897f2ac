//! The aggregated MCP server: one per client session (or per request, from 2026-07-28 on), over the
//! same upstream sessions for everybody.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities,
    ClientNotification, ClientRequest, CompleteRequestParams, CompleteResult, CustomRequest,
    CustomResult, ErrorData, Extensions, GetPromptRequestParams, GetPromptResponse,
    GetPromptResult, Implementation, InputRequest, InputRequiredResult, InputResponses,
    ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Reference, ServerCapabilities, ServerConfig,
    ServerRequest, ServerResult, SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler, Service};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::bridge::{Ask, Parked, answer};
use super::catalog::{Catalog, Entry};
use super::outside::Outside;
use super::raw::KEY;
use super::state::Gateway;
use super::tokens::Client;
use crate::base::ServerName;
use crate::error::{Error, ErrorCode};
use crate::host::policy::{Action, InForce, Scope, TargetKind};
use crate::host::{CallOptions, CallOutcome, HostView};
use crate::mcp::{Answer, RequestKind};

/// Progress of one call that waits to be sent on; more is dropped.
const PROGRESS: usize = 16;

/// One client's view of all servers.
pub(crate) struct Face {
    gateway: Arc<Gateway>,
    /// Who is at the other end, where no token says it.
    client: Option<Client>,
}

/// What is called, and how.
pub(super) enum Operation {
    Tool { server: ServerName, name: Arc<str>, arguments: Value },
    Prompt { server: ServerName, name: Arc<str>, arguments: Value },
    Resource { server: Option<ServerName>, uri: String },
}

/// How an operation ended for a client.
enum Ended {
    Done(CallOutcome),
    NeedsInput(InputRequiredResult),
}

impl Face {
    pub fn new(gateway: Arc<Gateway>, client: Option<Client>) -> Self {
        Self { gateway, client }
    }

    fn client(&self, extensions: &Extensions) -> Result<Client, ErrorData> {
        let parts = extensions.get::<axum::http::request::Parts>();
        let sent = parts.and_then(|parts| parts.extensions.get::<Client>()).cloned();
        let unknown = || ErrorData::invalid_request("nobody is known to have sent this", None);
        sent.or_else(|| self.client.clone()).ok_or_else(unknown)
    }

    async fn allowed(
        &self,
        context: &RequestContext<RoleServer>,
        scope: Scope,
    ) -> Result<Client, ErrorData> {
        let client = self.known(context).await?;
        client.allows(scope).map_err(|outside| outside.to_rpc())?;
        Ok(client)
    }

    /// Whose a request is; what it says of itself is remembered.
    async fn known(&self, context: &RequestContext<RoleServer>) -> Result<Client, ErrorData> {
        let client = self.client(&context.extensions)?;
        self.gateway.started().await;
        if let (Some(info), Some(version)) = (context.client_info(), context.protocol_version()) {
            let name = format!("{} {}", info.name, info.version);
            self.gateway.clients.introduced(&client.principal(), &name, version.as_str());
        }
        Ok(client)
    }

    /// The first server with an entry of this URI that a client may see.
    fn lists(
        &self,
        client: &Client,
        uri: &str,
        of: fn(&Catalog) -> &[Entry],
    ) -> Option<ServerName> {
        let catalog = self.catalog();
        let mut seen = self.gateway.seen_by(client, TargetKind::Resource, of(&catalog));
        seen.find(|entry| entry.name == uri).map(|entry| entry.server.clone())
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.gateway.catalogs.of(&self.gateway.host.snapshot())
    }

    /// A list as it leaves: what the client may see, as the servers defined it.
    async fn list(
        &self,
        context: &RequestContext<RoleServer>,
        (key, scope, kind): (&str, Scope, TargetKind),
        of: fn(&Catalog) -> &[Entry],
    ) -> Result<rmcp::model::MetaObject, ErrorData> {
        let client = self.known(context).await?;
        let catalog = self.catalog();
        // A list never fails: what the token is not for is not there.
        let entries = if client.may(scope) { of(&catalog) } else { &[] };
        let mut known = HashSet::new();
        let entries = self.gateway.seen_by(&client, kind, entries);
        // Of one URI on two servers the first that the client may see.
        let entries = entries.filter(|entry| known.insert(entry.name.as_str()));
        let entries: Vec<&Value> = entries.map(|entry| &entry.raw).collect();
        let mut list = json!({ key: entries });
        if is_modern(context) {
            list["resultType"] = json!("complete");
            list["ttlMs"] = json!(0);
            list["cacheScope"] = json!("private");
        }
        self.gateway.raws.keep(list.to_string())
    }

    /// A result as it leaves: as the server sent it, in the shape of the client's era.
    fn result(
        &self,
        context: &RequestContext<RoleServer>,
        outcome: CallOutcome,
        is_cacheable: bool,
    ) -> Result<rmcp::model::MetaObject, ErrorData> {
        let mut value = outcome.result.into_value();
        if let Some(object) = value.as_object_mut() {
            if is_modern(context) {
                object.insert("resultType".to_owned(), json!("complete"));
                if is_cacheable {
                    object.entry("ttlMs").or_insert_with(|| json!(0));
                    // What one client was answered is nobody else's.
                    object.insert("cacheScope".to_owned(), json!("private"));
                }
            } else {
                object.shift_remove("resultType");
            }
        }
        self.gateway.raws.keep(value.to_string())
    }

    /// Runs an operation, or goes on with one that waited for input.
    async fn run(
        &self,
        context: &RequestContext<RoleServer>,
        client: &Client,
        (target, operation): (String, Operation),
        (state, responses): (Option<String>, Option<InputResponses>),
    ) -> Result<Ended, ErrorData> {
        let (progress, mut progressed) = mpsc::channel(PROGRESS);
        let mut call = match state {
            None => self.begin(client, target, operation, progress),
            Some(state) => {
                let call = self.gateway.parked.fetch(&state, &client.id, &target);
                let gone = "requestState fits no call that waits: call again without it";
                let mut call = call.ok_or_else(|| ErrorData::invalid_params(gone, None))?;
                for (key, result) in responses.unwrap_or_default() {
                    if let Some(reply) = call.waiting.remove(&key) {
                        let _ = reply.send(Some(answer(result)));
                    }
                }
                if !call.waiting.is_empty() {
                    return self.park(call, HashMap::new());
                }
                call
            }
        };
        let token = context.meta.get_progress_token();
        let mut asked = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(progress) = progressed.recv() => {
                    if let Some(token) = &token {
                        let mut param =
                            ProgressNotificationParam::new(token.clone(), progress.progress);
                        param.total = progress.total;
                        param.message = progress.message.map(|message| message.to_string());
                        let _ = context.peer.notify_progress(param).await;
                    }
                }
                outcome = &mut call.outcome => {
                    let lost = |_| Error::new(ErrorCode::Internal, "the call was lost");
                    let outcome = outcome.unwrap_or_else(|error| Err(lost(error)));
                    return match outcome {
                        Ok(outcome) => Ok(Ended::Done(outcome)),
                        Err(error) => Err(Outside::about(&error, &call.target, client).to_rpc()),
                    };
                }
                Some(ask) = call.line.asks.recv() => {
                    if !can_answer(context.client_capabilities().as_ref(), &ask.request.kind) {
                        let _ = ask.reply.send(None);
                    } else if is_modern(context) {
                        return self.park_for(call, ask);
                    } else {
                        asked.push(forward(context, ask));
                    }
                }
                Some(()) = asked.next(), if !asked.is_empty() => {}
                () = context.ct.cancelled() => {
                    call.cancel.cancel();
                    return Err(ErrorData::internal_error("cancelled", None));
                }
            }
        }
    }

    fn begin(
        &self,
        client: &Client,
        target: String,
        operation: Operation,
        progress: mpsc::Sender<crate::mcp::Progress>,
    ) -> Parked {
        let id = self.gateway.host.next_call_id();
        let options = CallOptions { id: Some(id), progress: Some(progress), ..client.options() };
        let cancel = options.cancel.clone();
        let line = self.gateway.bridge.open(id);
        let (gateway, caller) = (Arc::clone(&self.gateway), client.clone());
        let outcome =
            tokio::spawn(async move { gateway.perform(&caller, operation, options).await });
        let client = Arc::clone(&client.id);
        Parked { client, target, line, outcome, cancel, waiting: HashMap::new() }
    }

    /// Puts a call aside until its client has fetched what the server asks for.
    fn park_for(&self, mut call: Parked, first: Ask) -> Result<Ended, ErrorData> {
        let mut requests = HashMap::new();
        let mut next = Some(first);
        while let Some(ask) = next {
            let method = ask.request.kind.method().to_owned();
            let request = json!({"method": method, "params": &*ask.request.params});
            match serde_json::from_value::<InputRequest>(request) {
                Ok(request) => {
                    let key = format!("input-{}", ask.request.id);
                    requests.insert(key.clone(), request);
                    call.waiting.insert(key, ask.reply);
                }
                // A request that the client's era cannot express is refused here.
                Err(_) => _ = ask.reply.send(None),
            }
            next = call.line.asks.try_recv().ok();
        }
        self.park(call, requests)
    }

    fn park(
        &self,
        call: Parked,
        requests: HashMap<String, InputRequest>,
    ) -> Result<Ended, ErrorData> {
        let requests = (!requests.is_empty()).then(|| requests.into_iter().collect());
        let state = self.gateway.parked.park(call);
        let full = || ErrorData::internal_error("too many calls wait for input", None);
        let state = state.ok_or_else(full)?;
        let result = InputRequiredResult::new(requests, Some(state));
        Ok(Ended::NeedsInput(result))
    }
}

impl Gateway {
    /// Does an operation for a client once it may go, and counts it.
    pub(super) async fn perform(
        &self,
        client: &Client,
        operation: Operation,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let principal = client.principal();
        tokio::select! {
            () = self.clients.resumed(&principal) => {}
            () = options.cancel.cancelled() => {
                return Err(Error::new(ErrorCode::Cancelled, "cancelled while it was held back"));
            }
        }
        let (host, server) = (&self.host, operation.server().cloned());
        let active = self.clients.begin(&principal, &operation.label());
        let options = CallOptions { server, ..options };
        let outcome = match operation {
            Operation::Tool { server, name, arguments } => {
                let counted = self.metrics.begin(client, &server, &name);
                let outcome = host.call_tool_with(&name, arguments, options).await;
                counted.end(&outcome);
                outcome
            }
            Operation::Prompt { name, arguments, .. } => {
                host.get_prompt_with(&name, arguments, options).await
            }
            Operation::Resource { uri, .. } => host.get_resource_with(&uri, options).await,
        };
        active.end(&outcome);
        outcome
    }
}

impl Operation {
    fn server(&self) -> Option<&ServerName> {
        match self {
            Self::Tool { server, .. } | Self::Prompt { server, .. } => Some(server),
            Self::Resource { server, .. } => server.as_ref(),
        }
    }

    fn label(&self) -> String {
        match self {
            Self::Tool { server, name, .. } | Self::Prompt { server, name, .. } => {
                format!("{server}.{name}")
            }
            Self::Resource { uri, .. } => uri.clone(),
        }
    }
}

/// Whether the protocol of a request knows no requests from the server (2026-07-28).
fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    context
        .protocol_version()
        .is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

fn can_answer(capabilities: Option<&ClientCapabilities>, kind: &RequestKind) -> bool {
    let Some(capabilities) = capabilities else { return false };
    match kind {
        RequestKind::Sampling => capabilities.sampling.is_some(),
        RequestKind::Elicitation => capabilities.elicitation.is_some(),
        RequestKind::UrlElicitation => {
            capabilities.elicitation.as_ref().is_some_and(|modes| modes.url.is_some())
        }
        // An agent gives itself no permission.
        RequestKind::Roots
        | RequestKind::Guard
        | RequestKind::Permission
        | RequestKind::SignIn
        | RequestKind::Other(_) => false,
    }
}

/// Asks the client what a server asks during its call. Must be polled by the task that handles the
/// call: rmcp sends it on the stream of that call then.
async fn forward(context: &RequestContext<RoleServer>, ask: Ask) {
    let method = ask.request.kind.method().to_owned();
    let request = CustomRequest::new(method, Some((*ask.request.params).clone()));
    let result = context.peer.send_request(ServerRequest::CustomRequest(request)).await;
    let reply = match result {
        Ok(result) => serde_json::to_value(result).ok().map(answer),
        Err(rmcp::service::ServiceError::McpError(error)) => Some(Answer::Refuse {
            code: i64::from(error.code.0),
            message: crate::base::text::SafeText::line(&error.message).to_string(),
        }),
        Err(_) => None,
    };
    let _ = ask.reply.send(reply);
}

impl ServerHandler for Face {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_completions()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("mcpdeck", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let what = ("tools", Scope::ToolsList, TargetKind::Tool);
        let meta = self.list(&context, what, |catalog| &catalog.tools).await?;
        Ok(ListToolsResult { meta: Some(meta), ..ListToolsResult::default() })
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let what = ("prompts", Scope::PromptsGet, TargetKind::Prompt);
        let meta = self.list(&context, what, |catalog| &catalog.prompts).await?;
        Ok(ListPromptsResult { meta: Some(meta), ..ListPromptsResult::default() })
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let what = ("resources", Scope::ResourcesRead, TargetKind::Resource);
        let meta = self.list(&context, what, |catalog| &catalog.resources).await?;
        Ok(ListResourcesResult { meta: Some(meta), ..ListResourcesResult::default() })
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let what = ("resourceTemplates", Scope::ResourcesRead, TargetKind::Resource);
        let meta = self.list(&context, what, |catalog| &catalog.templates).await?;
        Ok(ListResourceTemplatesResult {
            meta: Some(meta),
            ..ListResourceTemplatesResult::default()
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let client = self.allowed(&context, Scope::ToolsCall).await?;
        let what = (Action::Call, TargetKind::Tool);
        let found = self.gateway.find(&client, what, &request.name);
        let (server, name) = found.map_err(|outside| outside.to_rpc())?;
        let arguments = Value::Object(request.arguments.unwrap_or_default());
        let operation = Operation::Tool { server, name, arguments };
        let target = request.name.into_owned();
        let resumed = (request.request_state, request.input_responses);
        match self.run(&context, &client, (target, operation), resumed).await? {
            Ended::NeedsInput(input) => Ok(CallToolResponse::InputRequired(input)),
            Ended::Done(outcome) => {
                let meta = self.result(&context, outcome, false)?;
                let mut result = CallToolResult::success(Vec::new());
                result.meta = Some(meta);
                Ok(CallToolResponse::Complete(result))
            }
        }
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let client = self.allowed(&context, Scope::PromptsGet).await?;
        let what = (Action::Prompt, TargetKind::Prompt);
        let found = self.gateway.find(&client, what, &request.name);
        let (server, name) = found.map_err(|outside| outside.to_rpc())?;
        let arguments = serde_json::to_value(request.arguments.unwrap_or_default());
        let arguments = arguments.unwrap_or_default();
        let operation = Operation::Prompt { server, name, arguments };
        let resumed = (request.request_state, request.input_responses);
        match self.run(&context, &client, (request.name, operation), resumed).await? {
            Ended::NeedsInput(input) => Ok(GetPromptResponse::InputRequired(input)),
            Ended::Done(outcome) => {
                let meta = self.result(&context, outcome, false)?;
                let mut result = GetPromptResult::default();
                result.meta = Some(meta);
                Ok(GetPromptResponse::Complete(result))
            }
        }
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let client = self.allowed(&context, Scope::ResourcesRead).await?;
        let server = self.lists(&client, &request.uri, |catalog| &catalog.resources);
        let operation = Operation::Resource { server, uri: request.uri.clone() };
        let resumed = (request.request_state, request.input_responses);
        match self.run(&context, &client, (request.uri, operation), resumed).await? {
            Ended::NeedsInput(input) => Ok(ReadResourceResponse::InputRequired(input)),
            Ended::Done(outcome) => {
                let meta = self.result(&context, outcome, true)?;
                let mut result = ReadResourceResult::new(Vec::new());
                result.meta = Some(meta);
                Ok(ReadResourceResponse::Complete(result))
            }
        }
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let client = self.known(&context).await?;
        let unknown = || ErrorData::invalid_params("there is no such prompt or template", None);
        let mut params = serde_json::to_value(&request).unwrap_or_default();
        let server = match &request.r#ref {
            Reference::Prompt(prompt) => {
                client.allows(Scope::PromptsGet).map_err(|outside| outside.to_rpc())?;
                let what = (Action::Complete, TargetKind::Prompt);
                let found = self.gateway.find(&client, what, &prompt.name);
                let (server, name) = found.map_err(|outside| outside.to_rpc())?;
                params["ref"]["name"] = json!(name);
                server
            }
            Reference::Resource(resource) => {
                client.allows(Scope::ResourcesRead).map_err(|outside| outside.to_rpc())?;
                let server = self.lists(&client, &resource.uri, |catalog| &catalog.templates);
                server.ok_or_else(unknown)?
            }
            _ => return Err(unknown()),
        };
        if let Some(params) = params.as_object_mut() {
            params.shift_remove("_meta");
        }
        let outcome = self.gateway.host.complete(&server, params, client.options()).await;
        let outcome = outcome.map_err(|error| Outside::from(&error).to_rpc())?;
        let meta = self.result(&context, outcome, false)?;
        let mut result = CompleteResult::default();
        result.meta = Some(meta);
        Ok(result)
    }

    /// The schema that mirrored parameters in headers are checked against (2026-07-28).
    fn get_tool(&self, name: &str) -> Option<Tool> {
        serde_json::from_value(self.catalog().tool(name)?.raw.clone()).ok()
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        accepted.resource_subscriptions = None;
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let sink = context.sink().clone();
        let client = self.client(&context.request_context().extensions)?;
        let mut changes = Changes::new(Arc::clone(&self.gateway), client);
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = changes.next() => {
                    let Some([tools, prompts, resources]) = changed else { return Ok(()) };
                    // What was not asked for is refused by the sink.
                    if tools { let _ = sink.notify_tool_list_changed().await; }
                    if prompts { let _ = sink.notify_prompt_list_changed().await; }
                    if resources { let _ = sink.notify_resource_list_changed().await; }
                }
            }
        }
    }

    /// From now on the client hears of changed lists (protocol up to 2025-11-25).
    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        let Ok(client) = self.client(&context.extensions) else { return };
        let mut changes = Changes::new(Arc::clone(&self.gateway), client);
        tokio::spawn(async move {
            let peer = context.peer;
            while let Some([tools, prompts, resources]) = changes.next().await {
                if peer.is_transport_closed() {
                    return;
                }
                if tools {
                    let _ = peer.notify_tool_list_changed().await;
                }
                if prompts {
                    let _ = peer.notify_prompt_list_changed().await;
                }
                if resources {
                    let _ = peer.notify_resource_list_changed().await;
                }
            }
        });
    }
}

/// Follows the lists that a client sees: what servers offer, and what the policy shows of it.
struct Changes {
    gateway: Arc<Gateway>,
    client: Client,
    view: watch::Receiver<Arc<HostView>>,
    policy: watch::Receiver<Arc<InForce>>,
    offered: Lists,
    seen: Lists,
}

/// Tools, prompts and resources by what identifies them: definitions are shared, so their places
/// tell them apart.
type Lists = [Vec<usize>; 3];

/// Lists settle before clients are told: a server that starts fills several at once.
const SETTLE: Duration = Duration::from_millis(100);

impl Changes {
    fn new(gateway: Arc<Gateway>, client: Client) -> Self {
        let (view, policy) = (gateway.host.view(), gateway.host.follow_policy());
        let now = Arc::clone(&view.borrow());
        let mut changes = Self {
            gateway,
            client,
            view,
            policy,
            offered: lists(&now, |_, _| true),
            seen: Lists::default(),
        };
        changes.seen = changes.visible(&now);
        changes
    }

    /// Which of tools, prompts and resources have changed; `None` when the host is gone.
    async fn next(&mut self) -> Option<[bool; 3]> {
        loop {
            let mut decided_anew = false;
            tokio::select! {
                changed = self.view.changed() => changed.ok()?,
                changed = self.policy.changed() => {
                    changed.ok()?;
                    decided_anew = true;
                }
            }
            tokio::time::sleep(SETTLE).await;
            let view = Arc::clone(&self.view.borrow_and_update());
            let offered = lists(&view, |_, _| true);
            if offered == self.offered && !decided_anew {
                continue;
            }
            self.offered = offered;
            let now = self.visible(&view);
            if now != self.seen {
                let changed = [0, 1, 2].map(|at| now[at] != self.seen[at]);
                self.seen = now;
                return Some(changed);
            }
        }
    }

    fn visible(&self, view: &HostView) -> Lists {
        let principal = self.client.principal();
        lists(view, |server, what| self.gateway.host.is_visible(&principal, server, what))
    }
}

fn lists(view: &HostView, shows: impl Fn(&ServerName, (TargetKind, &str)) -> bool) -> Lists {
    let mut out = Lists::default();
    for server in view.servers.values() {
        let all = &server.capabilities;
        let mut add = |at: usize, kind, name: &str, place: usize| {
            if shows(&server.name, (kind, name)) {
                out[at].push(place);
            }
        };
        let state = usize::from(server.state == crate::host::ServerState::Ready);
        for tool in &all.tools {
            // Whether it can be called stands in its description.
            add(0, TargetKind::Tool, &tool.name, Arc::as_ptr(tool).addr() | state);
        }
        for prompt in &all.prompts {
            add(1, TargetKind::Prompt, &prompt.name, Arc::as_ptr(prompt).addr());
        }
        for resource in &all.resources {
            add(2, TargetKind::Resource, &resource.uri, Arc::as_ptr(resource).addr());
        }
        for template in &all.templates {
            let place = Arc::as_ptr(template).addr();
            add(2, TargetKind::Resource, &template.uri_template, place);
        }
    }
    out
}

/// The MCP server over a pipe, where results can be sent as they are.
pub(crate) struct OverPipe(pub Face);

impl Service<RoleServer> for OverPipe {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, ErrorData> {
        let result = Service::handle_request(&self.0, request, context).await?;
        let meta = match &result {
            ServerResult::CallToolResult(result) => result.meta.as_ref(),
            ServerResult::GetPromptResult(result) => result.meta.as_ref(),
            ServerResult::ReadResourceResult(result) => result.meta.as_ref(),
            ServerResult::CompleteResult(result) => result.meta.as_ref(),
            ServerResult::ListToolsResult(result) => result.meta.as_ref(),
            ServerResult::ListPromptsResult(result) => result.meta.as_ref(),
            ServerResult::ListResourcesResult(result) => result.meta.as_ref(),
            ServerResult::ListResourceTemplatesResult(result) => result.meta.as_ref(),
            _ => None,
        };
        let token = meta.and_then(|meta| meta.0.get(KEY)).and_then(Value::as_str);
        let text = token.and_then(|token| self.0.gateway.raws.find(token));
        match text.and_then(|text| serde_json::from_str(&text).ok()) {
            Some(value) => Ok(ServerResult::CustomResult(CustomResult(value))),
            None => Ok(result),
        }
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
