//! An HTTP API behind an `OpenAPI` document, played as an MCP server: its operations are tools, and a
//! call of one is an HTTP request.
//!
//! The session above speaks MCP as with any server, so that policy, recordings and limits hold as
//! they do there. Messages go nowhere: they are answered here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use http::StatusCode;
use http::header::{ACCEPT, CONTENT_TYPE};
use openapi::{ApiDocument, ApiFilter, ApiOperation, ApiRequest, EntryParts, tool_result};
use serde_json::{Map, Value, json};
use url::Url;

use super::remote::{RemoteServer, read_body};
use super::{Outgoing, Transport};
use crate::session::HttpEndpoint;
use config::{
    FileFormat, HttpConfig, MAX_OPENAPI_BYTES, OpenApiConfig, OpenApiSource, SourceText,
    read_document,
};
use protocol::{
    FindingKind, LEGACY_VERSION, MODERN_VERSION, Outbox, PROTOCOL_VERSIONS, RpcCode, SendError, Tap,
};

/// Tools in one page of the list.
const MAX_PAGE_TOOLS: usize = 100;
/// Bytes in one page of the list, unless one tool alone is larger.
const MAX_PAGE_BYTES: usize = 1 << 20;
/// Operations named in the finding about those that are left out.
const MAX_NAMED_OPERATIONS: usize = 5;

/// The transport.
pub(crate) struct OpenApiTransport {
    remote: RemoteServer,
    tap: Arc<Tap>,
    info: Value,
    instructions: Option<String>,
    /// `tools` of each page.
    pages: Vec<Value>,
    operations: HashMap<Arc<str>, ApiOperation>,
    is_modern: AtomicBool,
    /// Whether an account signs in there.
    signs_in: bool,
}

/// An error of JSON-RPC.
struct Refusal {
    code: i64,
    message: String,
}

impl OpenApiTransport {
    /// Reads the document and its operations.
    ///
    /// # Errors
    /// When the document cannot be read or used, or a header of the entry cannot be sent.
    pub(crate) async fn open(
        tap: &Arc<Tap>,
        config: &OpenApiConfig,
        server: &HttpEndpoint,
    ) -> Result<Arc<Self>, SendError> {
        let remote = RemoteServer::new(server, tap, true)?;
        let (bytes, name) = match &config.document {
            OpenApiSource::File { path, .. } => {
                let file = path.clone();
                let read = move || base::file::read(&file, MAX_OPENAPI_BYTES);
                let read = tokio::task::spawn_blocking(read).await.map_err(std::io::Error::other);
                let bytes = read.and_then(|bytes| bytes);
                (
                    bytes.map_err(|error| {
                        refused(&format!("the document cannot be read: {error}"))
                    })?,
                    path.clone(),
                )
            }
            OpenApiSource::Address(url) => {
                (fetch(&remote, config, url, tap).await?, url.path().into())
            }
        };
        let config = config.clone();
        let built = tokio::task::spawn_blocking(move || build(&bytes, &name, &config)).await;
        let built = built.map_err(|error| refused(&error.to_string()))?;
        let Built { document, operations } = built.map_err(|text| refused(&text))?;
        let (title, version) = document.title();
        report_left_out(&operations.left_out, tap);
        let pages = pages(operations.offered.iter().map(ApiOperation::tool));
        let named = operations.offered.into_iter().map(|one| (Arc::clone(one.name()), one));
        Ok(Arc::new(Self {
            remote,
            tap: Arc::clone(tap),
            info: json!({ "name": title, "version": version }),
            instructions: document.instructions(),
            pages,
            operations: named.collect(),
            is_modern: AtomicBool::new(false),
            signs_in: server.auth.is_some(),
        }))
    }

    /// The result of a request.
    async fn answer(
        &self,
        method: &str,
        params: &Value,
    ) -> Result<Result<Value, Refusal>, SendError> {
        let is_modern = self.is_modern.load(Ordering::Relaxed) || method == "server/discover";
        let refuse = |code: i64, message: String| Ok(Err(Refusal { code, message }));
        let mut result = match method {
            "server/discover" => json!({ "supportedVersions": [MODERN_VERSION] }),
            "initialize" => {
                let asked = params.get("protocolVersion").and_then(Value::as_str);
                let is_known = |version: &&str| {
                    PROTOCOL_VERSIONS.contains(version) && *version != MODERN_VERSION
                };
                json!({ "protocolVersion": asked.filter(is_known).unwrap_or(LEGACY_VERSION) })
            }
            "ping" => json!({}),
            "tools/list" => {
                let cursor = params.get("cursor").map(|cursor| cursor.as_str().map(str::parse));
                let page = match cursor {
                    None => 0,
                    Some(Some(Ok(page))) => page,
                    Some(_) => usize::MAX,
                };
                let Some(tools) = self.pages.get(page) else {
                    return refuse(RpcCode::INVALID_PARAMS, "there is no such page".to_owned());
                };
                let mut list = json!({ "tools": tools });
                if is_modern {
                    list["ttlMs"] = 0.into();
                    list["cacheScope"] = "public".into();
                }
                if page + 1 < self.pages.len() {
                    list["nextCursor"] = (page + 1).to_string().into();
                }
                list
            }
            "tools/call" => {
                let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
                let Some(operation) = self.operations.get(name) else {
                    return refuse(RpcCode::INVALID_PARAMS, format!("unknown tool: {name}"));
                };
                self.call(operation, params.get("arguments")).await?
            }
            other => {
                return refuse(RpcCode::METHOD_NOT_FOUND, format!("an HTTP API has no `{other}`"));
            }
        };
        if matches!(method, "server/discover" | "initialize") {
            result["capabilities"] = json!({ "tools": {} });
            result["serverInfo"] = self.info.clone();
            result["_meta"] = json!({ "io.modelcontextprotocol/serverInfo": self.info });
            if let Some(text) = &self.instructions {
                result["instructions"] = text.as_str().into();
            }
        }
        if is_modern {
            result["resultType"] = "complete".into();
        }
        Ok(Ok(result))
    }

    /// Calls an operation. What the API answers is a result, whatever its status.
    async fn call(
        &self,
        operation: &ApiOperation,
        arguments: Option<&Value>,
    ) -> Result<Value, SendError> {
        let none = Map::new();
        let arguments = arguments.and_then(Value::as_object).unwrap_or(&none);
        let ApiRequest { method, url, headers, body, .. } = match operation.request(arguments) {
            Ok(request) => request,
            Err(problem) => return Ok(error_result(&problem.to_string())),
        };
        let accept = "application/json, text/*;q=0.9, */*;q=0.8";
        let request = self.remote.http.request(method, url.clone());
        let mut request = request.header(ACCEPT, accept).headers(headers);
        if let Some((kind, bytes)) = body {
            request = request.header(CONTENT_TYPE, kind).body(bytes);
        }
        let response = match self.remote.run(request).await {
            Ok(response) => response,
            // The document may be at hand while its API is not: the session goes on.
            Err(SendError::Broken(failure)) => return Err(SendError::Refused(failure)),
            Err(SendError::Unauthorized(_)) if !self.signs_in => {
                let status = StatusCode::UNAUTHORIZED;
                return Ok(error_result(&format!(
                    "HTTP {status}: the API asks for authorisation; its key or token belongs into \
                     `headers` of the entry, or into the query of its `url`"
                )));
            }
            Err(error) => return Err(error),
        };
        let (status, headers) = (response.status(), response.headers().clone());
        let limit = self.tap.context.limits.line_bytes;
        let (body, over) = read_body(response, limit, &self.tap).await?;
        if over.is_some() {
            return Ok(error_result(&too_large(limit)));
        }
        Ok(tool_result(status, &headers, &body, &url))
    }
}

impl Outbox for OpenApiTransport {
    /// Nobody reads notifications, and nothing asks for answers.
    fn queue(&self, _message: Vec<u8>) -> Result<(), SendError> {
        Ok(())
    }
}

impl Transport for OpenApiTransport {
    fn send(self: Arc<Self>, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>> {
        Box::pin(async move {
            // Nobody reads notifications.
            let Some(id) = message.id else { return Ok(()) };
            let request: Value = serde_json::from_slice(&message.body).unwrap_or_default();
            let answer = self.answer(&message.method, &request["params"]).await?;
            let mut text = to_text(id, &answer);
            let limit = self.tap.context.limits.line_bytes;
            if text.len() > limit && message.method == "tools/call" {
                let mut result = error_result(&too_large(limit));
                if self.is_modern.load(Ordering::Relaxed) {
                    result["resultType"] = "complete".into();
                }
                text = to_text(id, &Ok(result));
            }
            if message.method != "tools/call" {
                self.tap.arrived(text.len());
            }
            self.tap.line(text.as_bytes(), Some(id));
            Ok(())
        })
    }

    fn negotiated(&self, version: &str) {
        self.is_modern.store(version == MODERN_VERSION, Ordering::Relaxed);
    }

    /// As with HTTP, a call is given up by dropping its request.
    fn is_http(&self) -> bool {
        true
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

fn refused(text: &str) -> SendError {
    SendError::Refused(text.to_owned().into())
}

fn to_text(id: i64, answer: &Result<Value, Refusal>) -> String {
    let message = match answer {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(Refusal { code, message }) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
        }
    };
    message.to_string()
}

fn error_result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}

fn too_large(limit: usize) -> String {
    format!("the API answered with more than {limit} bytes (`limits.lineBytes`)")
}

/// Fetches the document. The headers and the token of the entry are for its API, and sent only
/// where that is.
async fn fetch(
    remote: &RemoteServer,
    config: &OpenApiConfig,
    url: &Url,
    tap: &Arc<Tap>,
) -> Result<Vec<u8>, SendError> {
    let is_here = url.origin() == config.http.url.origin();
    let plain = HttpConfig { tls: config.http.tls.clone(), ..HttpConfig::new(url.clone()) };
    let other = if is_here { None } else { Some(RemoteServer::new(&plain.into(), tap, true)?) };
    let remote = other.as_ref().unwrap_or(remote);
    let accept = "application/vnd.oai.openapi+json, application/json, application/yaml, */*;q=0.8";
    let response = remote.send(remote.http.get(url.clone()).header(ACCEPT, accept)).await?;
    let limit = MAX_OPENAPI_BYTES as usize;
    match read_body(response, limit, tap).await? {
        (bytes, None) => Ok(bytes),
        (_, Some(_)) => Err(refused(&format!("the document is larger than {limit} bytes"))),
    }
}

/// A document and its operations.
struct Built {
    document: ApiDocument,
    operations: openapi::ApiOperations,
}

/// Reads a document, JSON or YAML.
fn build(bytes: &[u8], name: &std::path::Path, config: &OpenApiConfig) -> Result<Built, String> {
    let about =
        |what: &dyn std::fmt::Display| format!("the OpenAPI document cannot be used: {what}");
    let text = std::str::from_utf8(bytes).map_err(|_| about(&"it is not UTF-8"))?;
    let root = match serde_json::from_str(text) {
        Ok(root) => root,
        Err(error) if text.trim_start().starts_with('{') => return Err(about(&error)),
        Err(_) => {
            let source = SourceText::new(name, text);
            read_document(FileFormat::Yaml, &source).map_err(|problems| {
                let first = problems.first().map(|one| format!("{}: {}", one.at, one.message));
                about(&first.unwrap_or_default())
            })?
        }
    };
    let document = ApiDocument::new(root).map_err(|error| about(&error))?;
    let base = match &config.document {
        OpenApiSource::Address(url) if config.finds_base => {
            let mut base = document.base(url).map_err(|error| about(&error))?;
            base.set_fragment(None);
            base
        }
        OpenApiSource::Address(_) | OpenApiSource::File { .. } => config.http.url.clone(),
    };
    let filter = ApiFilter::new(&config.tags, &config.operations).map_err(|error| about(&error))?;
    let entry = EntryParts {
        headers: config.http.headers.keys().map(|name| name.to_ascii_lowercase()).collect(),
        query: base.query_pairs().map(|(name, _)| name.into_owned()).collect(),
    };
    let operations = document.operations(&base, &filter, &entry);
    Ok(Built { document, operations })
}

fn report_left_out(left_out: &[(String, String)], tap: &Tap) {
    if left_out.is_empty() {
        return;
    }
    let named = left_out.iter().take(MAX_NAMED_OPERATIONS);
    let named: Vec<String> = named.map(|(label, why)| format!("{label}: {why}")).collect();
    let more = left_out.len().saturating_sub(MAX_NAMED_OPERATIONS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let message = format!("operations that are not offered: {}{more}", named.join("; "));
    tap.report(FindingKind::Tolerated, &message, "", None);
}

/// The list in pages of a bounded size; at least one.
fn pages<'t>(tools: impl Iterator<Item = &'t Value>) -> Vec<Value> {
    let (mut out, mut page, mut bytes) = (Vec::new(), Vec::new(), 0);
    for tool in tools {
        let size = tool.to_string().len();
        if page.len() == MAX_PAGE_TOOLS || !page.is_empty() && bytes + size > MAX_PAGE_BYTES {
            out.push(Value::Array(std::mem::take(&mut page)));
            bytes = 0;
        }
        bytes += size;
        page.push(tool.clone());
    }
    out.push(Value::Array(page));
    out
}
