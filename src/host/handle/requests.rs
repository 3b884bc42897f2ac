//! Requests to servers (requirement R1): who is meant, and off it goes.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::base::{LogLevel, ServerName};
use crate::config::RootConfig;
use crate::error::{Error, ErrorCode};
use crate::host::call::{CallOptions, CallOutcome};
use crate::host::handle::Host;
use crate::host::operation::Operation;
use crate::host::policy::{Action, Admission, TargetKind};
use crate::host::router::Route;
use crate::host::server::slot::{Slot, Wanted};
use crate::mcp::CallId;
use crate::mcp::PendingRequest;
use crate::mcp::SessionView;
use crate::mcp::capabilities::{Prompt, Tool};
use crate::mcp::session::Request;

impl Host {
    /// Calls a tool with the server's defaults.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn call_tool(&self, name: &str, arguments: Value) -> Result<CallOutcome, Error> {
        self.call_tool_with(name, arguments, CallOptions::default()).await
    }

    /// Calls a tool. `name` is `{server}.{tool}`, or the tool alone when one server has it; `null`
    /// arguments are an empty object. A tool that says it failed is an outcome, not an error.
    ///
    /// # Errors
    /// [`crate::ErrorCode::ToolNotFound`], `Ambiguous`, `Validation`, `PolicyBlocked` and
    /// `ServerUnavailable` before anything is sent; `Timeout`, `Cancelled`, `Protocol`,
    /// `CircuitOpen` and `ServerUnavailable` after.
    pub async fn call_tool_with(
        &self,
        name: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let (route, admission) = self.named("tools/call", name, &options)?;
        let (slot, name) = route;
        let arguments = Arc::new(arguments);
        let request = Request::CallTool { name: Arc::clone(&name), arguments };
        self.operate((slot, name), "tools/call", request, (options, admission)).await
    }

    /// Gets a prompt with the server's defaults.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn get_prompt(&self, name: &str, arguments: Value) -> Result<CallOutcome, Error> {
        self.get_prompt_with(name, arguments, CallOptions::default()).await
    }

    /// Gets a prompt; `name` as for tools, arguments an object of strings.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn get_prompt_with(
        &self,
        name: &str,
        arguments: Value,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let (route, admission) = self.named("prompts/get", name, &options)?;
        let (slot, name) = route;
        let arguments = match arguments {
            Value::Null => Value::Object(Map::new()),
            other => other,
        };
        let arguments = Arc::new(arguments);
        let request = Request::GetPrompt { name: Arc::clone(&name), arguments };
        self.operate((slot, name), "prompts/get", request, (options, admission)).await
    }

    /// Reads a resource from the server that lists it, or whose template fits it, with the server's
    /// defaults.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn get_resource(&self, uri: &str) -> Result<CallOutcome, Error> {
        self.get_resource_with(uri, CallOptions::default()).await
    }

    /// Reads a resource from the server that lists it, or whose template fits it (R2); from
    /// [`CallOptions::server`] when one is named there.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`]; `Ambiguous` with the servers when several offer it.
    pub async fn get_resource_with(
        &self,
        uri: &str,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let (slot, admission) = self.located(uri, &options)?;
        let uri: Arc<str> = uri.into();
        let request = Request::ReadResource { uri: Arc::clone(&uri) };
        self.operate((slot, uri), "resources/read", request, (options, admission)).await
    }

    /// Asks for completions; `params` as in `completion/complete`.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`]; `Protocol`, and nothing is sent, when the server does not offer
    /// completions.
    pub async fn complete(
        &self,
        server: &ServerName,
        params: Value,
        options: CallOptions,
    ) -> Result<CallOutcome, Error> {
        let slot = self.inner.deck.routes().server(server).cloned();
        let reference = |key: &str| params.pointer(&format!("/ref/{key}")).and_then(Value::as_str);
        let what = match reference("uri") {
            Some(uri) => (TargetKind::Resource, uri),
            None => (TargetKind::Prompt, reference("name").unwrap_or_default()),
        };
        let point = &self.inner.deck.policy;
        let found = point.direct(options.principal(), Action::Complete, what, slot);
        let (slot, admission) = routed("completion/complete", server.as_str(), found)?;
        if slot.live().session.as_ref().is_some_and(|session| !completes(&session.view())) {
            let message = "the server does not offer completions";
            return Err(Error::new(ErrorCode::Protocol, message).server(server));
        }
        let request = Request::Complete { params };
        self.operate((slot, "".into()), "completion/complete", request, (options, admission)).await
    }

    /// The server from which a caller reads a resource; nothing is sent.
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
        let route = self.inner.deck.routes().resource(uri, options.server.as_ref());
        let what = (TargetKind::Resource, uri);
        let point = &self.inner.deck.policy;
        let found = point.direct(options.principal(), Action::Read, what, route);
        routed("resources/read", uri, found)
    }

    /// Sends any request, `ping` among them, and gives its result: to try what a server does. `params`
    /// are sent as they are; what `tools/call`, `prompts/get` and `resources/read` ask for on the way
    /// (`input_required`) is answered as in a call.
    ///
    /// # Errors
    /// `Validation` for `params` that are no object; `PermissionDenied` to everybody but the person;
    /// the others as [`Host::call_tool_with`].
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
        if !options.principal().is_person() {
            return fail(ErrorCode::PermissionDenied, "only the person may send any request");
        }
        let slot = self.inner.deck.routes().server(server).cloned();
        let slot = routed("request", server.as_str(), slot)?;
        let request = Request::Raw { method: Arc::clone(&method), params };
        self.operate((slot, method), "request", request, (options, None)).await
    }

    /// Subscribes to a resource; updates come as [`Host::notices`] and invalidate the cache. The
    /// subscription is renewed when the server is restarted, and ends at the server when everybody
    /// who subscribed has ended it.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn subscribe_resource(&self, server: &ServerName, uri: &str) -> Result<(), Error> {
        let slot = Arc::clone(self.inner.deck.routes().server(server)?);
        if !slot.subscriptions().iter().any(|known| **known == *uri) {
            self.ask(server, Request::Subscribe { uri: uri.into() }).await?;
        }
        slot.subscribed(uri, Wanted::Yes);
        Ok(())
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn unsubscribe_resource(&self, server: &ServerName, uri: &str) -> Result<(), Error> {
        if self.inner.deck.routes().server(server)?.subscribed(uri, Wanted::No) > 0 {
            return Ok(());
        }
        self.ask(server, Request::Unsubscribe { uri: uri.into() }).await
    }

    /// Asks a server for another log level; it holds for later sessions too.
    ///
    /// # Errors
    /// As [`Host::call_tool_with`].
    pub async fn set_log_level(&self, server: &ServerName, level: LogLevel) -> Result<(), Error> {
        let slot = Arc::clone(self.inner.deck.routes().server(server)?);
        slot.set_log_level(level);
        if slot.live().is_asleep() {
            return Ok(());
        }
        self.ask(server, Request::SetLogLevel(level)).await
    }

    /// Shares other roots with a server and tells it.
    ///
    /// # Errors
    /// [`crate::ErrorCode::Configuration`] for an unknown server.
    pub fn set_roots(&self, server: &ServerName, roots: Vec<RootConfig>) -> Result<(), Error> {
        let slot = Arc::clone(self.inner.deck.routes().server(server)?);
        self.inner.deck.approvals.set_roots(server, roots);
        if let Some(session) = &slot.live().session {
            tokio::spawn(session.roots_changed());
        }
        Ok(())
    }

    /// The tool that `name` means and its server; nothing is sent.
    ///
    /// # Errors
    /// [`crate::ErrorCode::ToolNotFound`], `Ambiguous`, `PermissionDenied` or `ServerUnavailable`.
    pub fn find_tool(&self, name: &str) -> Result<(ServerName, Arc<Tool>), Error> {
        let route = self.inner.deck.routes().tool(name, None);
        let (slot, name) = routed("tools/call", name, route)?;
        let live = slot.live();
        let tool = live.tool(&name).cloned().ok_or_else(|| live.unavailable())?;
        live.callable().map(|()| (slot.name.clone(), tool))
    }

    /// The prompt that `name` means and its server; nothing is sent.
    ///
    /// # Errors
    /// As [`Host::find_tool`].
    pub fn find_prompt(&self, name: &str) -> Result<(ServerName, Arc<Prompt>), Error> {
        let route = self.inner.deck.routes().prompt(name, None);
        let (slot, name) = routed("prompts/get", name, route)?;
        let live = slot.live();
        let prompt = live.capabilities.prompts.iter().find(|prompt| prompt.name == name);
        let prompt = prompt.cloned().ok_or_else(|| live.unavailable())?;
        live.callable().map(|()| (slot.name.clone(), prompt))
    }

    /// Reserves an id for a call that is about to be made.
    pub fn next_call_id(&self) -> CallId {
        self.inner.deck.next_call_id()
    }

    /// The tool or prompt that a caller means.
    fn named(
        &self,
        method: &str,
        name: &str,
        options: &CallOptions,
    ) -> Result<(Route, Option<Admission>), Error> {
        let what = match method {
            "tools/call" => (Action::Call, TargetKind::Tool),
            _ => (Action::Prompt, TargetKind::Prompt),
        };
        let deck = &self.inner.deck;
        routed(method, name, deck.policy.named(&deck.routes(), options, what, name))
    }

    async fn operate(
        &self,
        (slot, target): Route,
        method: &'static str,
        request: Request,
        (options, admission): (CallOptions, Option<Admission>),
    ) -> Result<CallOutcome, Error> {
        let deck = Arc::clone(&self.inner.deck);
        let mut options = options;
        if !options.origin.is_person() {
            let own = options.timeout.unwrap_or(slot.live().config.request_timeout);
            let profile = options.principal().profile;
            let limits = deck.policy.in_force().config.limits_of(&profile);
            options.timeout = Some(own.min(limits.call_timeout));
        }
        let id = options.id.unwrap_or_else(|| deck.next_call_id());
        Operation { deck, slot, request, method, target, options, id, admission }.run().await
    }

    /// A request whose result says nothing.
    async fn ask(&self, server: &ServerName, request: Request) -> Result<(), Error> {
        let deck = &self.inner.deck;
        let slot = Arc::clone(deck.routes().server(server)?);
        slot.wake().await;
        let live = slot.live();
        let own = PendingRequest::own(live.config.request_timeout);
        live.session()?.request(request, own).await.map(|_| ()).map_err(Error::advised)
    }
}

/// A name that leads nowhere is a rejected request: named in the error, and a record of the log
/// (requirement O2).
fn routed<T>(method: &str, asked: &str, route: Result<T, Error>) -> Result<T, Error> {
    route.map_err(|error| {
        let (server, status) = (error.server.as_ref().map(ServerName::as_str), error.code.as_str());
        tracing::warn!(
            target: "mcpdeck::call", server, action = method, status, "{asked:?}: {}", error.message
        );
        error.request(format!("{method} {asked}"))
    })
}

/// Whether completions were negotiated (MCP, utilities, completion). The first version had no word
/// for it.
fn completes(session: &SessionView) -> bool {
    let declared = session.capabilities.get("completions").is_some_and(|value| !value.is_null());
    declared || session.protocol_version.as_str() == "2024-11-05"
}
