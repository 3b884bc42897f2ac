//! Prompts, resources, templates and completion over REST.

use std::sync::Arc;

use axum::extract::rejection::JsonRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::catalog::ClientEntry;
use super::claims::without_claims;
use super::mcp::McpOperation;
use super::outside::Outside;
use super::rest::{absent_path, body, defined, list_of, options};
use super::state::Gateway;
use super::tokens::Client;
use base::text::json::WrittenValue;
use host::{AccessScope, CallOptions, CallOutcome, PolicyAction, TargetKind, own_uri};

/// `GET /prompts`: every visible prompt, by the name that `POST /prompts/{name}/get` takes.
pub(crate) async fn prompts(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
) -> Result<Json<WrittenValue>, Outside> {
    client.allows(AccessScope::PromptsGet)?;
    gateway.started().await;
    let view = gateway.host.snapshot();
    let catalog = gateway.catalog(&client, &view);
    let prompts = gateway.seen_by(&client, TargetKind::Prompt, &catalog.prompts).map(|entry| {
        let (name, server, original) = (&entry.name, &entry.server, &entry.original);
        defined(json!({"name": name, "server": server, "prompt": original}), entry)
    });
    Ok(Json(list_of("prompts", prompts.collect())))
}

/// `GET /resources`: every visible resource, by the URI under which it is read.
pub(crate) async fn resources(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
) -> Result<Json<WrittenValue>, Outside> {
    by_uri(&gateway, &client, "resources", false).await
}

/// `GET /resources/templates`: every visible template of URIs.
pub(crate) async fn templates(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
) -> Result<Json<WrittenValue>, Outside> {
    by_uri(&gateway, &client, "templates", true).await
}

async fn by_uri(
    gateway: &Gateway,
    client: &Client,
    key: &str,
    is_template: bool,
) -> Result<Json<WrittenValue>, Outside> {
    client.allows(AccessScope::ResourcesRead)?;
    gateway.started().await;
    let catalog = gateway.catalog(client, &gateway.host.snapshot());
    let entries = if is_template { &catalog.templates } else { &catalog.resources };
    let mut known = std::collections::HashSet::new();
    let listed =
        gateway.seen_by(client, TargetKind::Resource, entries).map(|entry: &ClientEntry| {
            let is_first = known.insert(entry.name.as_str());
            let uri =
                if is_first { entry.name.clone() } else { own_uri(&entry.server, &entry.name) };
            defined(json!({"uri": uri, "server": entry.server}), entry)
        });
    Ok(Json(list_of(key, listed.collect())))
}

/// The body of `POST /prompts/{name}/get`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PromptBody {
    arguments: Option<Map<String, Value>>,
    /// Seconds.
    timeout: Option<f64>,
    /// For the server.
    #[serde(rename = "_meta")]
    meta: Option<WrittenValue>,
}

/// `POST /prompts/{name}/get`: gets a prompt.
pub(crate) async fn prompt(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    Path(path): Path<String>,
    request: Result<Json<PromptBody>, JsonRejection>,
) -> Result<Json<WrittenValue>, Outside> {
    client.allows(AccessScope::PromptsGet)?;
    let name = path.strip_suffix("/get").ok_or_else(|| absent_path("/prompts/NAME/get"))?;
    let request = body(request)?;
    let options = options(&client, request.timeout, request.meta)?;
    gateway.started().await;
    let what = (PolicyAction::Prompt, TargetKind::Prompt);
    let (server, original) = gateway.find(&client, what, name).await?;
    let arguments = json!(request.arguments.unwrap_or_default());
    let (kind, server, numbers) = (what.1, Some(server), None);
    let operation = McpOperation { kind, server, name: original, arguments, numbers };
    done(&gateway, &client, name, (operation, options)).await
}

/// The body of `POST /resources/read`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadBody {
    uri: String,
    /// Seconds.
    #[serde(default)]
    timeout: Option<f64>,
    /// For the server.
    #[serde(default, rename = "_meta")]
    meta: Option<WrittenValue>,
}

/// `POST /resources/read`: reads a resource that is listed, or that a template fits.
pub(crate) async fn read(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    request: Result<Json<ReadBody>, JsonRejection>,
) -> Result<Json<WrittenValue>, Outside> {
    client.allows(AccessScope::ResourcesRead)?;
    let ReadBody { uri, timeout, meta } = body(request)?;
    let options = options(&client, timeout, meta)?;
    gateway.started().await;
    let (server, name) = gateway.locate(&client, &uri).unzip();
    let name = name.unwrap_or_else(|| uri.as_str().into());
    let kind = TargetKind::Resource;
    let (arguments, numbers) = (Value::Null, None);
    let operation = McpOperation { kind, server, name, arguments, numbers };
    done(&gateway, &client, &uri, (operation, options)).await
}

/// The body of `POST /complete`: the parameters of `completion/complete`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompleteBody {
    r#ref: CompleteRef,
    argument: CompleteArgument,
    #[serde(default)]
    context: Option<Value>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
enum CompleteRef {
    #[serde(rename = "ref/prompt")]
    Prompt { name: String },
    #[serde(rename = "ref/resource")]
    Resource { uri: String },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompleteArgument {
    name: String,
    value: String,
}

/// `POST /complete`: completes an argument of a prompt or of a template.
pub(crate) async fn complete(
    State(gateway): State<Arc<Gateway>>,
    Extension(client): Extension<Client>,
    request: Result<Json<CompleteBody>, JsonRejection>,
) -> Result<Json<WrittenValue>, Outside> {
    let CompleteBody { r#ref, argument, context } = body(request)?;
    gateway.started().await;
    let (server, reference) = match r#ref {
        CompleteRef::Prompt { name } => {
            client.allows(AccessScope::PromptsGet)?;
            let what = (PolicyAction::Complete, TargetKind::Prompt);
            let (server, name) = gateway.find(&client, what, &name).await?;
            (server, json!({"type": "ref/prompt", "name": name}))
        }
        CompleteRef::Resource { uri } => {
            client.allows(AccessScope::ResourcesRead)?;
            let found = gateway.template(&client, &uri);
            let (server, original) = found.ok_or_else(|| Outside::absent(&uri))?;
            (server, json!({"type": "ref/resource", "uri": original}))
        }
    };
    let CompleteArgument { name, value } = argument;
    let mut params = json!({"ref": reference, "argument": {"name": name, "value": value}});
    if let Some(context) = context {
        params["context"] = context;
    }
    let outcome = gateway.host.complete(&server, params, client.options()).await;
    let outcome = outcome.map_err(|error| Outside::from(&error))?;
    Ok(Json(with_provenance(without_claims(outcome))))
}

async fn done(
    gateway: &Gateway,
    client: &Client,
    asked: &str,
    (operation, options): (McpOperation, CallOptions),
) -> Result<Json<WrittenValue>, Outside> {
    // When the caller disconnects, this future is dropped, which cancels the operation.
    let _hung_up = options.cancel.clone().drop_guard();
    let kind = operation.kind;
    let outcome = gateway.perform(client, operation, options).await;
    let outcome = outcome.map_err(|error| Outside::about(&error, kind, asked, client))?;
    Ok(Json(with_provenance(outcome)))
}

fn with_provenance(outcome: CallOutcome) -> WrittenValue {
    let provenance = json!(outcome.provenance());
    let mut out = outcome.result.into_written();
    out.insert("provenance", provenance);
    out
}
