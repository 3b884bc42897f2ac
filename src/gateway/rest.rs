//! The REST interface: list tools and servers, call a tool, restart a server. No route takes a
//! command, an environment or an address.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::outside::Outside;
use super::state::Gateway;
use super::tokens::{Client, Scope};
use crate::base::ServerName;
use crate::host::call::AnswerSource;
use crate::host::{CallOptions, CallOutcome, ServerState};

/// Longest time a caller may ask for.
const LONGEST: Duration = Duration::from_secs(600);

type Answer = Result<Json<Value>, Outside>;

fn allowed(client: &Client, scope: Scope) -> Result<(), Outside> {
    if client.may(scope) { Ok(()) } else { Err(Outside::scope(scope.as_str())) }
}

fn body<T>(body: Result<Json<T>, JsonRejection>) -> Result<T, Outside> {
    body.map(|Json(value)| value).map_err(|rejected| {
        Outside::new("ERR_PROTOCOL_ERROR", rejected.status(), rejected.body_text())
    })
}

/// `GET /readyz`: whether calls can be served, and the state of every server.
pub(crate) async fn ready(State(gateway): State<Arc<Gateway>>) -> Response {
    let view = gateway.host.snapshot();
    let states = view.servers.values().map(|s| (s.name.as_str().to_owned(), json!(s.state)));
    let states: serde_json::Map<String, Value> = states.collect();
    let is_ready = !view.stopping
        && view
            .servers
            .values()
            .all(|s| !matches!(s.state, ServerState::Starting | ServerState::Waiting));
    let status = if is_ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(json!({"ready": is_ready, "servers": states}))).into_response()
}

/// `GET /tools`: every tool, under the name `POST /tools/{name}/call` takes.
pub(crate) async fn tools(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
) -> Answer {
    allowed(&client, Scope::ToolsList)?;
    let view = gateway.host.snapshot();
    let catalog = gateway.catalogs.of(&view);
    let tools = catalog.tools.iter().map(|tool| {
        let state = view.servers.get(&tool.server).map(|server| server.state);
        json!({
            "name": tool.name,
            "server": tool.server,
            "tool": tool.original,
            "available": state == Some(ServerState::Ready),
            "definition": tool.raw,
        })
    });
    Ok(Json(json!({"tools": tools.collect::<Vec<_>>()})))
}

/// `GET /servers`: every server with its state.
pub(crate) async fn servers(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
) -> Answer {
    allowed(&client, Scope::ServerConnect)?;
    let view = gateway.host.snapshot();
    let servers = view.servers.values().map(|server| {
        let session = server.session.as_ref();
        json!({
            "name": server.name,
            "state": server.state,
            "transport": server.transport,
            "protocolVersion": session.map(|session| session.protocol_version.as_str()),
            "tools": server.capabilities.tools.len(),
            "prompts": server.capabilities.prompts.len(),
            "resources": server.capabilities.resources.len(),
            "restarts": server.restarts,
        })
    });
    Ok(Json(json!({"servers": servers.collect::<Vec<_>>()})))
}

/// The body of `POST /servers/restart`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Restart {
    server: String,
}

/// `POST /servers/restart`: restarts one server; answers when it is ready again.
pub(crate) async fn restart(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    request: Result<Json<Restart>, JsonRejection>,
) -> Answer {
    allowed(&client, Scope::ServersRestart)?;
    let server = ServerName::new(&body(request)?.server);
    if !gateway.host.snapshot().servers.contains_key(&server) {
        let message = "there is no such server";
        return Err(Outside::new("ERR_SERVER_UNAVAILABLE", StatusCode::NOT_FOUND, message));
    }
    gateway.host.restart(&server).await?;
    Ok(Json(json!({"server": server, "state": "ready"})))
}

/// The body of `POST /tools/{name}/call`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Call {
    #[serde(default)]
    arguments: Option<serde_json::Map<String, Value>>,
    /// Seconds.
    #[serde(default)]
    timeout: Option<f64>,
}

/// `POST /tools/{name}/call`: calls a tool by the name of the list, or as `server.tool`.
pub(crate) async fn call(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    Path(name): Path<String>,
    request: Result<Json<Call>, JsonRejection>,
) -> Answer {
    allowed(&client, Scope::ToolsCall)?;
    let request = body(request)?;
    let timeout = request.timeout.map(Duration::try_from_secs_f64).transpose().map_err(|_| {
        let message = "`timeout` is a number of seconds, zero or more";
        Outside::new("ERR_PROTOCOL_ERROR", StatusCode::UNPROCESSABLE_ENTITY, message)
    })?;
    let catalog = gateway.catalogs.of(&gateway.host.snapshot());
    let dotted = || {
        catalog.tools.iter().find(|tool| {
            let rest = name.strip_prefix(tool.server.as_str());
            rest.and_then(|rest| rest.strip_prefix('.')) == Some(&*tool.original)
        })
    };
    let tool = catalog.tool(&name).or_else(dotted).ok_or_else(|| Outside::no_tool(&name))?;
    // A caller that hangs up drops this future, and with it the call.
    let cancel = CancellationToken::new();
    let _hung_up = cancel.clone().drop_guard();
    let options = CallOptions {
        timeout: timeout.map(|timeout| timeout.min(LONGEST)),
        origin: client.origin(),
        cancel,
        ..CallOptions::default()
    };
    let arguments = Value::Object(request.arguments.unwrap_or_default());
    let server = tool.server.clone();
    let called = gateway.call_tool(&gateway.host, server, &tool.original, arguments, options);
    let outcome = called.await?;
    Ok(Json(answered(outcome, &tool.original, &client)))
}

fn answered(outcome: CallOutcome, tool: &str, client: &Client) -> Value {
    let source = match outcome.source {
        AnswerSource::Server => "server",
        AnswerSource::Cache(_) => "cache",
        AnswerSource::Stale(_) => "stale",
    };
    let provenance = json!({
        "server": outcome.server,
        "tool": tool,
        "call": outcome.call,
        "client": &*client.id,
        "profile": &*client.profile,
        "durationMs": outcome.duration.as_secs_f64() * 1_000.0,
        "humanMs": outcome.waiting.as_secs_f64() * 1_000.0,
        "source": source,
    });
    let is_error = outcome.is_error;
    let mut out = outcome.result.into_value();
    if let Some(object) = out.as_object_mut() {
        object.entry("content").or_insert_with(|| json!([]));
        object.insert("isError".to_owned(), json!(is_error));
        object.insert("provenance".to_owned(), provenance);
    }
    out
}

/// `GET /metrics`, for Prometheus.
pub(crate) async fn metrics(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
) -> Result<Response, Outside> {
    allowed(&client, Scope::ServerConnect)?;
    let failed = |_| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Outside::new("ERR_INTERNAL", status, "the metrics could not be written")
    };
    let text = gateway.metrics.text().map_err(failed)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}
