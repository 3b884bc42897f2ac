//! The aggregated MCP server: one per client session (or per request, from 2026-07-28 on), over the
//! same upstream sessions for everybody.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities,
    ClientNotification, ClientRequest, CompleteRequestParams, CompleteResult, CustomRequest,
    CustomResult, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    Implementation, InputRequest, InputRequiredResult, InputResponses, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse,
    ReadResourceResult, Reference, ServerCapabilities, ServerConfig, ServerRequest, ServerResult,
    SubscriptionFilter, Tool,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler, Service};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bridge::{Ask, Parked, answer};
use super::catalog::Catalog;
use super::outside::Outside;
use super::raw::KEY;
use super::state::Gateway;
use super::tokens::{Client, Scope};
use crate::error::{Error, ErrorCode};
use crate::host::{CallOptions, CallOutcome, Host};
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
enum Operation {
    Tool { server: crate::base::ServerName, name: Arc<str>, arguments: Value },
    Prompt { server: crate::base::ServerName, name: Arc<str>, arguments: Value },
    Resource { server: Option<crate::base::ServerName>, uri: String },
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

    fn client(&self, context: &RequestContext<RoleServer>) -> Result<Client, ErrorData> {
        let parts = context.extensions.get::<axum::http::request::Parts>();
        let sent = parts.and_then(|parts| parts.extensions.get::<Client>()).cloned();
        let unknown = || ErrorData::invalid_request("nobody is known to have sent this", None);
        sent.or_else(|| self.client.clone()).ok_or_else(unknown)
    }

    fn allowed(
        &self,
        context: &RequestContext<RoleServer>,
        scope: Scope,
    ) -> Result<Client, ErrorData> {
        let client = self.client(context)?;
        if client.may(scope) {
            return Ok(client);
        }
        Err(Outside::scope(scope.as_str()).to_rpc())
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.gateway.catalogs.of(&self.gateway.host.snapshot())
    }

    /// A list as it leaves: the definitions as the servers sent them.
    fn list(
        &self,
        context: &RequestContext<RoleServer>,
        key: &str,
        entries: impl Iterator<Item = Value>,
    ) -> Result<rmcp::model::MetaObject, ErrorData> {
        let mut list = json!({ key: entries.collect::<Vec<_>>() });
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
                        Err(error) => Err(Outside::from(error).to_rpc()),
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
        let host = self.gateway.host.clone();
        let id = host.next_call_id();
        let cancel = CancellationToken::new();
        let options = CallOptions {
            id: Some(id),
            cancel: cancel.clone(),
            progress: Some(progress),
            origin: client.origin(),
            ..CallOptions::default()
        };
        let line = self.gateway.bridge.open(id);
        let gateway = Arc::clone(&self.gateway);
        let outcome = tokio::spawn(async move { gateway.perform(&host, operation, options).await });
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
    /// Does an operation for a client, and counts it.
    async fn perform(
        &self,
        host: &Host,
        operation: Operation,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        match operation {
            Operation::Tool { server, name, arguments } => {
                self.call_tool(host, server, &name, arguments, options).await
            }
            Operation::Prompt { server, name, arguments } => {
                let options = CallOptions { server: Some(server), ..options };
                host.get_prompt_with(&name, arguments, options).await
            }
            Operation::Resource { server, uri } => {
                host.get_resource_with(&uri, CallOptions { server, ..options }).await
            }
        }
    }

    /// Calls a tool of one server, and counts it.
    pub(super) async fn call_tool(
        &self,
        host: &Host,
        server: crate::base::ServerName,
        name: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let counted = self.metrics.begin(&server, name);
        let options = CallOptions { server: Some(server), ..options };
        let outcome = host.call_tool_with(name, arguments, options).await;
        counted.end(&outcome);
        outcome
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
        RequestKind::Roots | RequestKind::Guard | RequestKind::Other(_) => false,
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
        self.allowed(&context, Scope::ToolsList)?;
        let catalog = self.catalog();
        let entries = catalog.tools.iter().map(|tool| tool.raw.clone());
        let meta = self.list(&context, "tools", entries)?;
        Ok(ListToolsResult { meta: Some(meta), ..ListToolsResult::default() })
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        self.allowed(&context, Scope::PromptsGet)?;
        let catalog = self.catalog();
        let entries = catalog.prompts.iter().map(|prompt| prompt.raw.clone());
        let meta = self.list(&context, "prompts", entries)?;
        Ok(ListPromptsResult { meta: Some(meta), ..ListPromptsResult::default() })
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.allowed(&context, Scope::ResourcesRead)?;
        let catalog = self.catalog();
        let entries = catalog.resources.iter().map(|(_, _, raw)| raw.clone());
        let meta = self.list(&context, "resources", entries)?;
        Ok(ListResourcesResult { meta: Some(meta), ..ListResourcesResult::default() })
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.allowed(&context, Scope::ResourcesRead)?;
        let catalog = self.catalog();
        let entries = catalog.templates.iter().map(|(_, _, raw)| raw.clone());
        let meta = self.list(&context, "resourceTemplates", entries)?;
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
        let client = self.allowed(&context, Scope::ToolsCall)?;
        let catalog = self.catalog();
        let unknown = || Outside::no_tool(&request.name).to_rpc();
        let tool = catalog.tool(&request.name).ok_or_else(unknown)?;
        let operation = Operation::Tool {
            server: tool.server.clone(),
            name: Arc::clone(&tool.original),
            arguments: Value::Object(request.arguments.unwrap_or_default()),
        };
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
        let client = self.allowed(&context, Scope::PromptsGet)?;
        let catalog = self.catalog();
        let unknown = || ErrorData::invalid_params("there is no such prompt", None);
        let prompt = catalog.prompt(&request.name).ok_or_else(unknown)?;
        let arguments = serde_json::to_value(request.arguments.unwrap_or_default());
        let operation = Operation::Prompt {
            server: prompt.server.clone(),
            name: Arc::clone(&prompt.original),
            arguments: arguments.unwrap_or_default(),
        };
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
        let client = self.allowed(&context, Scope::ResourcesRead)?;
        let server = self.catalog().resource(&request.uri).cloned();
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
        let client = self.client(&context)?;
        let catalog = self.catalog();
        let unknown = || ErrorData::invalid_params("there is no such prompt or template", None);
        let mut params = serde_json::to_value(&request).unwrap_or_default();
        let server = match &request.r#ref {
            Reference::Prompt(prompt) => {
                let entry = catalog.prompt(&prompt.name).ok_or_else(unknown)?;
                params["ref"]["name"] = json!(entry.original);
                entry.server.clone()
            }
            Reference::Resource(resource) => {
                catalog.template(&resource.uri).cloned().ok_or_else(unknown)?
            }
            _ => return Err(unknown()),
        };
        if let Some(params) = params.as_object_mut() {
            params.shift_remove("_meta");
        }
        let origin = client.origin();
        let options = CallOptions { origin, ..CallOptions::default() };
        let outcome = self.gateway.host.complete(&server, params, options).await;
        let outcome = outcome.map_err(|error| Outside::from(error).to_rpc())?;
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
        let mut changes = Changes::new(&self.gateway.host);
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
        let mut changes = Changes::new(&self.gateway.host);
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

/// Follows the lists of all servers.
struct Changes {
    view: tokio::sync::watch::Receiver<Arc<crate::host::HostView>>,
    seen: [Vec<usize>; 3],
}

/// Lists settle before clients are told: a server that starts fills several at once.
const SETTLE: Duration = Duration::from_millis(100);

impl Changes {
    fn new(host: &Host) -> Self {
        let view = host.view();
        let seen = Self::lists(&view.borrow());
        Self { view, seen }
    }

    /// Which of tools, prompts and resources have changed; `None` when the host is gone.
    async fn next(&mut self) -> Option<[bool; 3]> {
        loop {
            self.view.changed().await.ok()?;
            tokio::time::sleep(SETTLE).await;
            let now = Self::lists(&self.view.borrow_and_update());
            if now != self.seen {
                let changed = [0, 1, 2].map(|at| now[at] != self.seen[at]);
                self.seen = now;
                return Some(changed);
            }
        }
    }

    /// What identifies the lists: the definitions are shared, so their places tell them apart.
    fn lists(view: &crate::host::HostView) -> [Vec<usize>; 3] {
        let mut out = [Vec::new(), Vec::new(), Vec::new()];
        for server in view.servers.values() {
            let lists = &server.capabilities;
            let state = usize::from(server.state == crate::host::ServerState::Ready);
            out[0].push(state);
            out[0].extend(lists.tools.iter().map(|tool| Arc::as_ptr(tool).addr()));
            out[1].extend(lists.prompts.iter().map(|prompt| Arc::as_ptr(prompt).addr()));
            out[2].extend(lists.resources.iter().map(|resource| Arc::as_ptr(resource).addr()));
            out[2].extend(lists.templates.iter().map(|template| Arc::as_ptr(template).addr()));
        }
        out
    }
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
