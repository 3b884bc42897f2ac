//! The REST interface: list tools and servers, call a tool, restart a server. No route takes a
//! command, an environment or an address.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::catalog::ClientEntry;
use super::exposure::{ToolQuery, look_for};
use super::mcp::McpOperation;
use super::metrics::MetricsFormat;
use super::outside::Outside;
use super::questions::ProgramName;
use super::state::{Gateway, is_starting};
use super::tokens::Client;
use base::ServerName;
use base::text::json::WrittenValue;
use config::error::ErrorCode;
use deck::host_stats;
use host::{AccessScope, CallOptions, CallOutcome, OutsideCode, PolicyAction, RunId, TargetKind};
use protocol::{CallerMeta, vendor_meta};

/// Longest timeout a caller may request.
const MAX_CALL_TIMEOUT: Duration = Duration::from_secs(600);

pub(super) type RestAnswer = Result<Json<Value>, Outside>;

/// The body of a request.
pub(super) fn body<T>(body: Result<Json<T>, JsonRejection>) -> Result<T, Outside> {
    body.map(|Json(value)| value).map_err(|rejected| {
        Outside::new(OutsideCode::ProtocolError, rejected.status(), rejected.body_text())
    })
}

/// `GET /openapi.json`: the `OpenAPI` description of this interface.
pub(crate) async fn openapi() -> Response {
    let text = include_str!("openapi.json").replace("VERSION", env!("CARGO_PKG_VERSION"));
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

/// `GET /readyz`: whether calls can be served.
pub(crate) async fn ready(State(gateway): State<Arc<Gateway>>) -> Response {
    let view = gateway.host.snapshot();
    let reason = if gateway.is_away() {
        Some("the store that the replicas share cannot be reached")
    } else if view.stopping {
        Some("shutting down")
    } else {
        is_starting(&gateway.host, &view).then_some("servers are starting")
    };
    match reason {
        Some(reason) => {
            let body = Json(json!({"ready": false, "reason": reason}));
            (StatusCode::SERVICE_UNAVAILABLE, body).into_response()
        }
        None => Json(json!({"ready": true})).into_response(),
    }
}

/// `GET /tools`: every visible tool, by the name that `POST /tools/{name}/call` takes; with `query`,
/// `server` and `limit` the best matches.
pub(crate) async fn tools(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    RawQuery(query): RawQuery,
) -> Result<Json<WrittenValue>, Outside> {
    client.allows(AccessScope::ToolsList)?;
    let asked = tool_query(query.as_deref().unwrap_or_default())?;
    gateway.started().await;
    let view = gateway.host.snapshot();
    let catalog = gateway.catalog(&client, &view);
    let shown = |tool: &ClientEntry| {
        let is_there = view.servers.get(&tool.server).is_some_and(|it| it.state.is_callable());
        let (name, server, original) = (&tool.name, &tool.server, &tool.original);
        let about =
            json!({"name": name, "server": server, "tool": original, "available": is_there});
        defined(about, tool)
    };
    if let Some(asked) = asked {
        let found = look_for(&gateway, &client, &catalog, &asked).map_err(unprocessable)?;
        let mut out = WrittenValue::from(json!({"tools": [], "matches": found.count}));
        out.insert_written("tools", found.best.into_iter().map(shown).collect());
        return Ok(Json(out));
    }
    let tools = gateway.seen_by(&client, TargetKind::Tool, &catalog.tools);
    let tools: WrittenValue = tools.map(shown).collect();
    if tools.as_array().is_some_and(Vec::is_empty)
        && let Some(tool) = catalog.tools.first()
    {
        // An empty list because of missing grants is reported as an error.
        let what = (TargetKind::Tool, &*tool.original);
        let decided =
            gateway.host.check(&client.principal(), PolicyAction::List, &tool.server, what);
        let refused = decided.err().filter(|error| error.code == ErrorCode::PermissionDenied);
        if let Some(refused) = refused {
            return Err(Outside::about(&refused, TargetKind::Tool, &tool.name, &client));
        }
    }
    Ok(Json(list_of("tools", tools)))
}

/// An entry in a list: what is known about it, and its definition.
pub(super) fn defined(about: Value, entry: &ClientEntry) -> WrittenValue {
    let mut out = WrittenValue::from(about);
    out.insert_written("definition", entry.raw.clone());
    out
}

/// The body of a list.
pub(super) fn list_of(key: &str, entries: WrittenValue) -> WrittenValue {
    let mut out = WrittenValue::from(json!({}));
    out.insert_written(key, entries);
    out
}

pub(super) fn unprocessable(why: impl Into<String>) -> Outside {
    Outside::new(OutsideCode::ProtocolError, StatusCode::UNPROCESSABLE_ENTITY, why)
}

/// The search that the query of an address asks for, if any.
fn tool_query(query: &str) -> Result<Option<ToolQuery>, Outside> {
    let (mut asked, mut is_search) = (ToolQuery::default(), false);
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*key {
            "query" => (asked.query, is_search) = (value.into_owned(), true),
            "server" => asked.server = Some(value.into_owned()),
            "limit" => {
                let limit = value.parse().map_err(|_| unprocessable("`limit` is a number"))?;
                asked.limit = Some(limit);
            }
            other => {
                let other = base::SafeText::line(other);
                let why = format!("`{other}` is not one of: query, server, limit");
                return Err(unprocessable(why));
            }
        }
    }
    if !is_search && (asked.server.is_some() || asked.limit.is_some()) {
        return Err(unprocessable("`server` and `limit` go with a `query`"));
    }
    Ok(is_search.then_some(asked))
}

/// `GET /servers`: every server visible to the client, with its state.
pub(crate) async fn servers(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
) -> RestAnswer {
    let view = gateway.host.snapshot();
    let principal = client.principal();
    let servers = view.servers.values().filter_map(|server| {
        let seen = gateway.host.visible(&principal, &server.name)?;
        let session = server.session.as_ref();
        let outage = gateway.host.outage(&server.name);
        let retry = outage.as_ref().and_then(|outage| outage.retry_after);
        Some(json!({
            "name": server.name,
            "state": server.state,
            "reason": outage.as_ref().and_then(|outage| outage.outage.as_deref()),
            "retryAfterMs": retry.map(|wait| wait.as_millis() as u64),
            "transport": server.transport,
            "protocolVersion": session.map(|session| session.protocol_version.as_str()),
            "tools": seen.tools.len(),
            "prompts": seen.prompts.len(),
            "resources": seen.resources.len(),
            "restarts": server.restarts,
        }))
    });
    Ok(Json(json!({"servers": servers.collect::<Vec<_>>()})))
}

/// The body of `POST /servers/restart`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Restart {
    server: String,
}

/// `POST /servers/restart`: restarts one server; responds once it is ready.
pub(crate) async fn restart(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    request: Result<Json<Restart>, JsonRejection>,
) -> RestAnswer {
    client.allows(AccessScope::ServerConnect)?;
    let server = ServerName::new(&body(request)?.server);
    let outside = |error: &config::error::Error| {
        let outside = Outside::about(error, TargetKind::Server, server.as_str(), &client);
        let is_absent = matches!(error.code, ErrorCode::ToolNotFound | ErrorCode::Configuration);
        if is_absent { Outside::no_server(server.as_str()) } else { outside }
    };
    let what = (TargetKind::Server, "");
    gateway
        .host
        .check(&client.principal(), PolicyAction::Connect, &server, what)
        .map_err(|e| outside(&e))?;
    gateway.host.restart(&server).await.map_err(|error| outside(&error))?;
    Ok(Json(json!({"server": server, "state": "ready"})))
}

/// The body of `POST /tools/{name}/call`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CallBody {
    /// As text: its numbers go out as they were written.
    #[serde(default)]
    arguments: Option<Box<RawValue>>,
    /// Seconds.
    #[serde(default)]
    timeout: Option<f64>,
    /// For the server.
    #[serde(default, rename = "_meta")]
    meta: Option<WrittenValue>,
    /// The run that the call belongs to.
    #[serde(default, rename = "runId")]
    run: Option<RunId>,
    /// Whether the caller answers what the server asks meanwhile (`GET /requests`): true, or the
    /// name under which it does.
    #[serde(default)]
    interactive: Value,
}

/// The body of `POST /runs`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RunBody {
    /// Its name; a new one without.
    #[serde(rename = "runId")]
    run: Option<RunId>,
    /// The calls it may make, within the limit of the profile.
    calls: Option<u32>,
}

/// `POST /runs`: begins a run, or continues it.
pub(crate) async fn begin_run(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    request: Result<Json<RunBody>, JsonRejection>,
) -> RestAnswer {
    client.allows(AccessScope::ToolsCall)?;
    let RunBody { run, calls } = body(request)?;
    let failed = |error: std::io::Error| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Outside::new(OutsideCode::Internal, status, error.to_string())
    };
    let run = run.map_or_else(RunId::random, Ok).map_err(failed)?;
    let begun = gateway.host.begin_run(&client.principal(), run.as_str(), calls);
    let budget = begun.map_err(|error| Outside::from(&error))?;
    Ok(Json(run.with(&client.principal(), budget)))
}

/// `GET /runs/{run}`: what is left of a run.
pub(crate) async fn run(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    Path(run): Path<String>,
) -> RestAnswer {
    client.allows(AccessScope::ToolsCall)?;
    let (run, principal) = (run_id(&run)?, client.principal());
    Ok(Json(run.with(&principal, gateway.host.run_budget(&principal, run.as_str()))))
}

/// `DELETE /runs/{run}`: ends a run; answers with its final budget.
pub(crate) async fn end_run(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    Path(run): Path<String>,
) -> RestAnswer {
    client.allows(AccessScope::ToolsCall)?;
    let (run, principal) = (run_id(&run)?, client.principal());
    let budget = gateway.host.end_run(&principal, run.as_str());
    Ok(Json(run.with(&principal, budget)))
}

fn run_id(run: &str) -> Result<RunId, Outside> {
    RunId::parse(run).map_err(|why| {
        Outside::new(OutsideCode::ProtocolError, StatusCode::UNPROCESSABLE_ENTITY, why)
    })
}

/// `POST /tools/{name}/call`: calls a tool by its listed name, any qualified name, or its bare name
/// when only one server has it. A name may hold slashes.
pub(crate) async fn call(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    Path(path): Path<String>,
    headers: HeaderMap,
    request: Result<Json<CallBody>, JsonRejection>,
) -> Result<Json<WrittenValue>, Outside> {
    client.allows(AccessScope::ToolsCall)?;
    let name = path.strip_suffix("/call").ok_or_else(|| absent_path("/tools/NAME/call"))?;
    let request = body(request)?;
    let answers = answering(&request.interactive)?;
    let WrittenValue { value: arguments, numbers } = written(request.arguments.as_deref())?;
    let options = options(&client, request.timeout, request.meta)?;
    gateway.started().await;
    let what = (PolicyAction::Call, TargetKind::Tool);
    let (server, tool) = gateway.find(&client, what, name).await?;
    let trace = headers.get("traceparent").and_then(|value| value.to_str().ok());
    let trace = trace.and_then(host::parse_traceparent);
    let run = request.run.map(RunId::into_name);
    let id = gateway.host.next_call_id();
    let numbers = (!numbers.is_empty()).then(|| Arc::new(numbers));
    let options = CallOptions { id: Some(id), run, trace, ..options };
    // When the caller disconnects, this future is dropped, which cancels the call.
    let _hung_up = options.cancel.clone().drop_guard();
    let (kind, server) = (TargetKind::Tool, Some(server));
    let operation = McpOperation { kind, server, name: tool, arguments, numbers };
    let outcome = if let Some(program) = answers {
        let mut line = gateway.bridge.open(id);
        let mut questions = gateway.questions.begin(program);
        let outcome = gateway.perform(&client, operation, options);
        tokio::pin!(outcome);
        loop {
            tokio::select! {
                outcome = &mut outcome => break outcome,
                Some(ask) = line.asks.recv() => questions.wait_for(&client, ask),
            }
        }
    } else {
        gateway.perform(&client, operation, options).await
    };
    let outcome = outcome.map_err(|error| Outside::about(&error, kind, name, &client))?;
    Ok(Json(answered(outcome)))
}

/// Whether the caller of a tool answers what the server asks, and under which name if it has one.
fn answering(interactive: &Value) -> Result<Option<ProgramName>, Outside> {
    match interactive {
        Value::Null | Value::Bool(false) => Ok(None),
        Value::Bool(true) => Ok(Some(ProgramName::default())),
        Value::String(name) => ProgramName::parse(name).map(Some).map_err(unprocessable),
        Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            Err(unprocessable("`interactive` is true, false or the name of your program"))
        }
    }
}

/// The arguments of a call: an object, empty when there are none.
fn written(arguments: Option<&RawValue>) -> Result<WrittenValue, Outside> {
    let parsed = arguments.map(|raw| WrittenValue::parse(raw.get())).transpose();
    match parsed.map_err(|why| unprocessable(format!("`arguments`: {why}")))? {
        Some(written) if written.value.is_object() => Ok(written),
        Some(written) if !written.value.is_null() => {
            Err(unprocessable("`arguments` must be an object"))
        }
        _ => Ok(json!({}).into()),
    }
}

fn answered(outcome: CallOutcome) -> WrittenValue {
    let provenance = json!(outcome.provenance());
    let is_error = outcome.is_error;
    let mut out = outcome.result.into_written();
    if out.value.get("content").is_none() {
        out.insert("content", json!([]));
    }
    out.insert("isError", json!(is_error));
    out.insert("provenance", provenance);
    out
}

/// The answer to a path that names no operation.
pub(super) fn absent_path(form: &str) -> Outside {
    Outside::new(OutsideCode::ToolNotFound, StatusCode::NOT_FOUND, format!("write {form}"))
}

/// The options of an operation over REST.
pub(super) fn options(
    client: &Client,
    timeout: Option<f64>,
    meta: Option<WrittenValue>,
) -> Result<CallOptions, Outside> {
    let timeout = timeout.map(Duration::try_from_secs_f64).transpose();
    let timeout = timeout
        .map_err(|_| unprocessable("`timeout` is a number of seconds, zero or more"))?
        .map(|timeout| timeout.min(MAX_CALL_TIMEOUT));
    let meta = match meta {
        Some(WrittenValue { value: Value::Object(members), numbers }) => {
            let (members, numbers) = (vendor_meta(members), Arc::new(numbers));
            Some(Arc::new(CallerMeta { members, numbers }))
        }
        Some(other) if !other.is_null() => {
            return Err(unprocessable("`_meta` must be an object"));
        }
        _ => None,
    };
    Ok(CallOptions { timeout, meta, ..client.options() })
}

/// `POST /shutdown`: ends the service, once open requests have ended. For your own token alone.
pub(crate) async fn shutdown(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
) -> RestAnswer {
    if !client.is_owner {
        let message = "only the operator's own token may end the service";
        return Err(Outside::new(OutsideCode::PermissionDenied, StatusCode::FORBIDDEN, message));
    }
    gateway.shutdown.cancel();
    Ok(Json(json!({"stopping": true})))
}

/// `GET /metrics`: for Prometheus, or as JSON where `Accept` says so.
pub(crate) async fn metrics(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    headers: HeaderMap,
) -> Result<Response, Outside> {
    client.allows(AccessScope::ServerConnect)?;
    let failed = |_| {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Outside::new(OutsideCode::Internal, status, "the metrics could not be written")
    };
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let accept = accept.unwrap_or_default();
    if accept.split(',').any(|kind| kind.trim().starts_with("application/json")) {
        return Ok(Json(host_stats(&gateway.host, &gateway.options.clients)).into_response());
    }
    let format = MetricsFormat::from_accept(accept);
    let text = gateway.metrics.text(format).map_err(failed)?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], text).into_response())
}
