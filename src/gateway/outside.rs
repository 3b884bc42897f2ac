//! Maps [`OutsideError`] to HTTP and MCP responses; its codes and messages come from the host.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use rmcp::model::{ErrorCode as RpcCode, ErrorData};
use serde_json::{Value, json};

use super::tokens::Client;
use base::text::json::WrittenValue;
use base::text::quoted;
use config::error::{Denial, Error, ErrorCode};
use host::{AccessScope, CallOutcome, OutsideCode, OutsideError, TargetKind};

/// Member of `_meta` of a tool's result that says in terms for programs why the gateway made it: the
/// code, how long to wait, and the server.
const REFUSAL_KEY: &str = "mcpdeck/error";

/// An error for a client of the gateway.
#[derive(Debug)]
pub(crate) struct Outside {
    error: Box<OutsideError>,
    status: StatusCode,
    server: Option<String>,
    /// The scope that the token lacks.
    scope: Option<AccessScope>,
}

impl Outside {
    /// An error of the gateway itself.
    pub fn new(code: OutsideCode, status: StatusCode, message: impl Into<String>) -> Self {
        let message = message.into();
        let error =
            OutsideError { code, message, retry_after_ms: None, violations: vec![], rpc: None };
        Self { error: Box::new(error), status, server: None, scope: None }
    }

    /// The shared store is unreachable, so decisions of other replicas are unknown here.
    pub fn store_away() -> Self {
        Self::away("the store that the replicas share cannot be reached")
    }

    /// Somebody has to be asked first who cannot be reached now.
    pub fn away(message: &str) -> Self {
        let (code, status) = (OutsideCode::ServerUnavailable, StatusCode::SERVICE_UNAVAILABLE);
        let mut out = Self::new(code, status, message);
        out.error.retry_after_ms = Some(1_000);
        out
    }

    /// Too many sessions are open.
    pub fn crowded() -> Self {
        let (code, status) = (OutsideCode::RateLimited, StatusCode::SERVICE_UNAVAILABLE);
        let message = "too many sessions are open; close one with DELETE";
        let mut out = Self::new(code, status, message);
        out.error.retry_after_ms = Some(60_000);
        out
    }

    /// Nothing with this name is visible to the caller.
    pub fn absent(name: &str) -> Self {
        let name = base::text::SafeText::line(name);
        let message = format!("there is no `{name}`");
        Self::new(OutsideCode::ToolNotFound, StatusCode::NOT_FOUND, message)
    }

    /// No server with this name is visible to the caller.
    pub fn no_server(name: &str) -> Self {
        let name = base::text::SafeText::line(name);
        let message = format!("there is no server `{name}`");
        Self::new(OutsideCode::ServerNotFound, StatusCode::NOT_FOUND, message)
    }

    /// Adds a similar name to the message of a not-found error.
    pub fn suggest(mut self, name: Option<&str>) -> Self {
        if let (OutsideCode::ToolNotFound, Some(name)) = (self.error.code, name) {
            self.error.message = format!("{}; did you mean `{name}`?", self.error.message);
        }
        self
    }

    /// The server has not listed anything yet, so whether the name exists is unknown.
    pub fn unlisted(name: &str, outage: &Error) -> Self {
        let name = base::text::SafeText::line(name);
        let why = outage.outage.as_deref().unwrap_or("has listed nothing");
        let mut out = Self::from(outage);
        out.error.message = format!("`{name}` is not known yet: its server {why}");
        out
    }

    /// The token does not carry a scope.
    pub fn scope(scope: AccessScope) -> Self {
        let message = format!("the token does not carry the scope `{scope}`");
        let refused = Self::new(OutsideCode::ScopeRequired, StatusCode::FORBIDDEN, message);
        Self { scope: Some(scope), ..refused }
    }

    /// An error about what the client calls `asked`, using that name. Hidden and nonexistent items
    /// yield the same error.
    pub fn about(error: &Error, kind: TargetKind, asked: &str, client: &Client) -> Self {
        let mut out = Self::from(error);
        let command = || {
            let what = match kind {
                TargetKind::Tool => "--tools SERVER.GLOB".to_owned(),
                TargetKind::Prompt => format!("--scope {}", AccessScope::PromptsGet),
                TargetKind::Resource => format!("--scope {}", AccessScope::ResourcesRead),
                TargetKind::Server => format!("--scope {}", AccessScope::ServerConnect),
            };
            let (origin, profile) = (client.origin().to_string(), quoted(&client.profile));
            let to = format!("--origin {} --profile {profile}", quoted(&origin));
            format!("`mcpdeck grants add {to} {what} --always`")
        };
        match error.denial {
            _ if out.error.code == OutsideCode::ToolNotFound => return Self::absent(asked),
            Some(Denial::Tool) => {
                let asked = base::text::SafeText::line(asked);
                out.error.message = format!("`{asked}` is not among the tools that were granted");
            }
            Some(Denial::NotGranted) => {
                out.error.message = format!(
                    "nothing was granted to this token; the operator grants with {}",
                    command()
                );
            }
            Some(Denial::Scope) => {
                out.error.message =
                    format!("{}; the operator grants it with {}", error.message, command());
            }
            _ => {}
        }
        out
    }

    /// The scope that the token lacks, if it is refused for that.
    pub const fn lacked_scope(&self) -> Option<AccessScope> {
        self.scope
    }

    /// What happened.
    pub fn message(&self) -> &str {
        &self.error.message
    }

    /// What the caller of a tool is told: a result, so that a model reads why it was refused and when
    /// to try again (2025-11-25, tools, error handling: "tool execution errors"). An
    /// unknown tool, an error that the server itself sent, and a fault of this program are errors of
    /// the protocol.
    ///
    /// # Errors
    /// The error of the protocol.
    pub fn into_tool_result(self) -> Result<Value, ErrorData> {
        let is_for_models = match self.error.code {
            OutsideCode::PermissionDenied
            | OutsideCode::ScopeRequired
            | OutsideCode::ServerUnavailable
            | OutsideCode::CircuitOpen
            | OutsideCode::ToolNotAllowed
            | OutsideCode::ToolTimeout
            | OutsideCode::RateLimited
            | OutsideCode::BudgetExceeded => true,
            OutsideCode::ToolFailed => self.error.rpc.is_none(),
            OutsideCode::ProtocolError => self.status == StatusCode::UNPROCESSABLE_ENTITY,
            _ => false,
        };
        if !is_for_models {
            return Err(self.into());
        }
        let about = self.data();
        let text = self.error.message;
        Ok(json!({
            "content": [{"type": "text", "text": text}],
            "isError": true,
            "_meta": {REFUSAL_KEY: about},
        }))
    }

    /// What programs make something of: everything but the message.
    fn data(&self) -> Value {
        let mut data = self.to_json()["error"].take();
        if let Some(data) = data.as_object_mut() {
            data.shift_remove("message");
        }
        data
    }

    /// The body of a REST response.
    fn to_json(&self) -> Value {
        let mut error = json!(self.error);
        if let Some(server) = &self.server {
            error["server"] = json!(server);
        }
        json!({"error": error})
    }
}

impl From<Outside> for rmcp::ErrorData {
    /// The error for an MCP client. A JSON-RPC error of the server is passed through unchanged.
    fn from(outside: Outside) -> Self {
        if let Some(rpc) = &outside.error.rpc {
            let code = rpc.code.and_then(|code| i32::try_from(code).ok());
            let code = code.map_or(RpcCode::INTERNAL_ERROR, RpcCode);
            return Self::new(code, rpc.message.clone(), rpc.data.clone());
        }
        let code = match outside.error.code {
            OutsideCode::ToolNotFound | OutsideCode::ToolNotAllowed => RpcCode::INVALID_PARAMS,
            OutsideCode::ProtocolError if outside.status == StatusCode::UNPROCESSABLE_ENTITY => {
                RpcCode::INVALID_PARAMS
            }
            _ => RpcCode::INTERNAL_ERROR,
        };
        let data = outside.data();
        Self::new(code, outside.error.message, Some(data))
    }
}

impl From<&Error> for Outside {
    fn from(error: &Error) -> Self {
        use StatusCode as S;
        let outside = OutsideError::from_error(error);
        let status = match (error.code, outside.code) {
            (ErrorCode::Ambiguous | ErrorCode::Cancelled, _) => S::CONFLICT,
            (ErrorCode::Validation, _) => S::UNPROCESSABLE_ENTITY,
            (_, OutsideCode::ToolNotFound | OutsideCode::ServerNotFound) => S::NOT_FOUND,
            (_, OutsideCode::ToolTimeout) => S::GATEWAY_TIMEOUT,
            (_, OutsideCode::ProtocolError | OutsideCode::ToolFailed) => S::BAD_GATEWAY,
            (_, OutsideCode::ServerUnavailable | OutsideCode::CircuitOpen) => {
                S::SERVICE_UNAVAILABLE
            }
            (_, OutsideCode::RateLimited | OutsideCode::BudgetExceeded) => S::TOO_MANY_REQUESTS,
            (_, OutsideCode::Internal) => S::INTERNAL_SERVER_ERROR,
            _ => S::FORBIDDEN,
        };
        let server = error.server.as_ref().map(|server| server.as_str().to_owned());
        Self { error: Box::new(outside), status, server, scope: None }
    }
}

/// The result of an operation for an MCP client that called `target`; that of a tool also where the
/// call was refused (see [`Outside::into_tool_result`]).
///
/// # Errors
/// What the client is told instead of a result.
pub(crate) fn settled(
    outcome: Result<CallOutcome, Error>,
    kind: TargetKind,
    target: &str,
    client: &Client,
) -> Result<WrittenValue, ErrorData> {
    match outcome {
        Ok(outcome) => Ok(outcome.result.into_written()),
        Err(error) => {
            let outside = Outside::about(&error, kind, target, client);
            match kind {
                TargetKind::Tool => outside.into_tool_result().map(Into::into),
                _ => Err(outside.into()),
            }
        }
    }
}

/// Beside a refusal: the scope that the token lacks.
#[derive(Clone, Copy)]
pub(crate) struct LackedScope(pub AccessScope);

impl IntoResponse for Outside {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.to_json())).into_response();
        if let Some(wait) = self.error.retry_after_ms {
            let seconds = HeaderValue::from(wait.div_ceil(1_000));
            response.headers_mut().insert(header::RETRY_AFTER, seconds);
        }
        if let Some(scope) = self.scope {
            response.extensions_mut().insert(LackedScope(scope));
        }
        response
    }
}
