//! The client as rmcp sees it: what it is, what it can do, and how requests of the server reach the
//! desk. Parameters stay as they were sent; nothing here decodes them.

use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ErrorCode, ErrorData,
    Implementation, ProtocolVersion, RequestMetaObject,
};
use rmcp::service::{InboundStreamOrigin, RequestContext};
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use crate::mcp::session::DeskRequest;
use crate::mcp::wire::exchange::Operation;
use crate::mcp::wire::tap::{Asked, Refusal, Tap};
use crate::mcp::{Answer, RequestKind};

/// rmcp's view of the host.
pub struct Client {
    tap: Arc<Tap>,
    config: ClientConfig,
}

impl Client {
    /// A client that offers `version` in `initialize`.
    pub fn new(tap: Arc<Tap>, version: ProtocolVersion) -> Self {
        let info = Implementation::new("mcpdeck", env!("CARGO_PKG_VERSION")).with_title("mcpdeck");
        let config = ClientConfig::new(capabilities(&version), info).with_protocol_version(version);
        Self { tap, config }
    }

    /// What `_meta` of every request holds in the modern era (2026-07-28, SEP-2575).
    pub fn request_meta(&self, version: &str) -> Map<String, Value> {
        let version = serde_json::from_value(version.into()).unwrap_or(ProtocolVersion::LATEST);
        let (info, offers) = (self.config.client_info.clone(), self.config.capabilities.clone());
        RequestMetaObject::with_client_context(version, info, offers).0.0
    }
}

/// What the host can do for a server, as far as `version` knows it.
fn capabilities(version: &ProtocolVersion) -> ClientCapabilities {
    let newest = *version >= ProtocolVersion::V_2025_11_25;
    let all = json!({
        "roots": {"listChanged": true},
        "sampling": if newest { json!({"tools": {}, "context": {}}) } else { json!({}) },
        "elicitation": if newest { json!({"form": {}, "url": {}}) } else { json!({}) },
    });
    serde_json::from_value(all).unwrap_or_default()
}

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        self.config.clone()
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        if let Some(refusal) = context.extensions.get::<Refusal>() {
            return Err(ErrorData::new(ErrorCode(refusal.code), refusal.message.clone(), None));
        }
        if is_for_servers(&request.method) {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let Some(asked) = context.extensions.get::<Asked>().cloned() else {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        };
        match self.decided(&request.method, asked, &context).await {
            Some(answer) => into_result(answer).map(CustomResult),
            // Nothing is sent for it any more: rmcp drops the answer of a cancelled request.
            None => Err(ErrorData::new(ErrorCode(-32800), "cancelled", None)),
        }
    }
}

impl Client {
    /// What the desk says to a request; `None` when the server has taken it back or its session has
    /// ended. The clocks of the calls that wait for it stand still meanwhile.
    async fn decided(
        &self,
        method: &str,
        asked: Asked,
        context: &RequestContext<RoleClient>,
    ) -> Option<Answer> {
        let during = match context.extensions.get::<InboundStreamOrigin>() {
            Some(InboundStreamOrigin::OutboundRequest(id)) => self.tap.during(Some(id)),
            _ => asked.during,
        };
        let withdrawn = CancellationToken::new();
        let on_drop = withdrawn.clone().drop_guard();
        let answer = self.tap.context.desk.ask(DeskRequest {
            server: self.tap.context.server.clone(),
            kind: kind(method, &asked.params),
            call: during.as_ref().and_then(|operation| operation.call),
            params: asked.params,
            bytes: asked.bytes,
            deferred: false,
            withdrawn: withdrawn.clone(),
            claim: Arc::clone(&asked.claim),
        });
        // Where it cannot be told which call asks, the clocks of all stand still: none may run out
        // while a person thinks about what may be its question.
        let waiting = during.map_or_else(|| self.tap.in_flight(), |during| vec![during]);
        let _held: Vec<_> = waiting.iter().map(Operation::hold).collect();
        let answer = async {
            tokio::pin!(answer);
            tokio::select! {
                biased;
                answer = &mut answer => answer,
                // The desk takes it back from the person and says what the server is told.
                () = all_given_up(&waiting) => {
                    withdrawn.cancel();
                    answer.await
                }
            }
        };
        let answer = tokio::select! {
            biased;
            () = context.ct.cancelled() => return None,
            () = self.tap.over.cancelled() => {
                asked.claim.withdraw("its session ended");
                return None;
            }
            answer = answer => answer,
        };
        on_drop.disarm();
        Some(answer)
    }
}

/// Ends when nobody waits for any of these calls any more: what a server asked during them has no
/// purpose left.
async fn all_given_up(calls: &[Arc<Operation>]) {
    if calls.is_empty() {
        return std::future::pending().await;
    }
    for call in calls {
        call.given_up().await;
    }
}

/// Whether a method is one that clients ask of servers: nothing that a person could answer.
fn is_for_servers(method: &str) -> bool {
    let families = [
        "initialize",
        "server",
        "tools",
        "prompts",
        "resources",
        "completion",
        "logging",
        "subscriptions",
    ];
    families.contains(&method.split('/').next().unwrap_or_default())
}

/// What a request of the server is about.
pub fn kind(method: &str, params: &Value) -> RequestKind {
    match method {
        "sampling/createMessage" => RequestKind::Sampling,
        "elicitation/create" => {
            let mode = params.get("mode").and_then(Value::as_str);
            if mode == Some("url") { RequestKind::UrlElicitation } else { RequestKind::Elicitation }
        }
        "roots/list" => RequestKind::Roots,
        other => RequestKind::Other(other.to_owned()),
    }
}

/// The answer as JSON-RPC has it.
fn into_result(answer: Answer) -> Result<Value, ErrorData> {
    match answer {
        Answer::Result(value) => Ok(value),
        Answer::Refuse { code, message } => {
            let code = i32::try_from(code).unwrap_or(ErrorCode::INTERNAL_ERROR.0);
            Err(ErrorData::new(ErrorCode(code), message, None))
        }
    }
}
