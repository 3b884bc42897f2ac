//! MCP over HTTP, from the head of a request to its answer (basic/transports, "Streamable HTTP"). In
//! an open session (up to 2025-11-25, "Sending Messages to the Server") an answer that is ready at once
//! is sent as one JSON document, without the event stream that rmcp uses for every answer. Everything
//! else is passed to rmcp's service.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures::{Stream, StreamExt as _};
use protocol::RpcCode;
use rmcp::model::{
    CallToolRequest, CallToolRequestMethod, CallToolRequestParams, ClientJsonRpcMessage,
    ClientRequest, GetExtensions as _, GetMeta as _, JsonRpcRequest, JsonRpcVersion2_0,
    ProtocolVersion, RequestId,
};
use rmcp::transport::streamable_http_server::StreamableHttpService;
use rmcp::transport::streamable_http_server::session::{ServerSseMessage, SessionId};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::accept::negotiate;
use super::batch::{batch, is_batch};
use super::mcp::Face;
use super::misfit::{flaw, id_of_request, misfit};
use super::raw::{SentNumbers, Whole, splice, to_text};
use super::sessions::{ClientSessions, is_answer};
use super::state::Gateway;
use super::tokens::Client;

/// Answers MCP over HTTP: in the form that its client accepts, message by message, each within its
/// session.
pub(crate) struct McpEndpoint {
    gateway: Arc<Gateway>,
    /// Ends streams of events.
    stop: CancellationToken,
    rmcp: StreamableHttpService<Face, ClientSessions>,
}

impl McpEndpoint {
    pub fn new(
        gateway: Arc<Gateway>,
        stop: CancellationToken,
        rmcp: StreamableHttpService<Face, ClientSessions>,
    ) -> Self {
        Self { gateway, stop, rmcp }
    }

    /// Answers one request.
    pub async fn answer(&self, mut request: Request<Bytes>) -> Response {
        let Some(form) = negotiate(&mut request) else {
            let message = "Not Acceptable: answers are application/json or text/event-stream";
            return (StatusCode::NOT_ACCEPTABLE, message).into_response();
        };
        let is_post = request.method() == Method::POST;
        let response = self.serve(request).await;
        form.shape(response, is_post).await
    }

    async fn serve(&self, request: Request<Bytes>) -> Response {
        if request.method() != Method::POST {
            return self.pass_on(request).await;
        }
        let (parts, mut body) = request.into_parts();
        if let Some(rest) = body.strip_prefix(b"\xef\xbb\xbf") {
            body = body.slice_ref(rest);
        }
        if is_batch(&body) {
            return batch(&parts, &body, |parts, body| self.post(parts, body)).await;
        }
        self.post(parts, body).await
    }

    /// Answers one message; by rmcp where it is no request of an open session.
    async fn post(&self, mut parts: Parts, mut body: Bytes) -> Response {
        match SentNumbers::read(&body) {
            Ok(None) => {}
            Ok(Some((readable, numbers))) => {
                body = readable.into();
                parts.headers.insert(header::CONTENT_LENGTH, body.len().into());
                parts.extensions.insert(numbers);
            }
            Err(why) => return (StatusCode::PAYLOAD_TOO_LARGE, why).into_response(),
        }
        let sessions = &self.gateway.sessions;
        let client = parts.extensions.get::<Client>().filter(|_| is_plain(&parts));
        let session: Option<SessionId> = client.and_then(|client| client.session.clone());
        let session = session.filter(|session| sessions.answers(session));
        let message = session.as_ref().and_then(|_| request_of(&body));
        let (Some(session), Some(mut message)) = (session, message) else {
            let kind = parts.headers.get(header::CONTENT_TYPE);
            let kind = kind.map_or(&b""[..], HeaderValue::as_bytes);
            let is_json = kind.to_ascii_lowercase().starts_with(b"application/json");
            return match refusal(&body, &parts.headers).filter(|_| is_json) {
                Some(refusal) => refusal,
                None => self.pass_on(Request::from_parts(parts, body)).await,
            };
        };
        message.request.extensions_mut().insert(parts);
        let message = ClientJsonRpcMessage::Request(message);
        let Ok((first, quick, later)) = sessions.begin(&session, message).await else {
            return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
        };
        if let Some(answer) = quick.as_ref().filter(|event| is_answer(event)) {
            let body = to_text(&answer.message).unwrap_or_default();
            let json = HeaderValue::from_static("application/json");
            return ([(header::CONTENT_TYPE, json)], body).into_response();
        }
        let stop = self.stop.clone().cancelled_owned();
        let first = futures::stream::iter([first].into_iter().chain(quick));
        stream(first.chain(later).take_until(stop))
    }

    async fn pass_on(&self, mut request: Request<Bytes>) -> Response {
        let whole = Whole::default();
        request.extensions_mut().insert(whole.clone());
        splice(self.rmcp.handle(request.map(Body::from)).await.map(Body::new), whole)
    }
}

/// The answer to a body that is no message: what it lacks, with its id where it has one.
fn refusal(body: &[u8], headers: &HeaderMap) -> Option<Response> {
    let error = match serde_json::from_slice::<ClientJsonRpcMessage>(body) {
        // The later revision has no `initialize`.
        Ok(message) if is_legacy(headers) => return misfit_of_first(message),
        Ok(_) => return None,
        Err(error) => error,
    };
    let sent = serde_json::from_slice::<Value>(body).map_err(|error| error.to_string());
    let id = match &sent {
        Ok(sent) => sent.get("id").cloned(),
        Err(_) => id_of_request(body, b"").map(|id| json!(id)),
    };
    let id = id.filter(|id| serde_json::from_value::<RequestId>(id.clone()).is_ok());
    let (code, message) = match &sent {
        Err(why) => (RpcCode::PARSE_ERROR, format!("Parse error: {why}")),
        Ok(sent) => {
            let why = flaw(sent).map_or_else(|| error.to_string(), str::to_owned);
            (RpcCode::INVALID_REQUEST, format!("Invalid request: {why}"))
        }
    };
    let error = json!({"code": code, "message": message});
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
    let head = [(header::CONTENT_TYPE, "application/json")];
    Some((StatusCode::BAD_REQUEST, head, answer).into_response())
}

/// The answer to an `initialize` whose parameters are not those that it has: without them, no session
/// begins in which to say so.
fn misfit_of_first(message: ClientJsonRpcMessage) -> Option<Response> {
    let ClientJsonRpcMessage::Request(JsonRpcRequest { id, request, .. }) = message else {
        return None;
    };
    let ClientRequest::CustomRequest(request) = request else { return None };
    if request.method != "initialize" {
        return None;
    }
    let message = misfit(&request.method, request.params.as_ref());
    let error = json!({"code": RpcCode::INVALID_PARAMS, "message": message});
    let answer = json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
    let head = [(header::CONTENT_TYPE, "application/json")];
    Some((StatusCode::BAD_REQUEST, head, answer).into_response())
}

/// Whether a request is of a revision up to 2025-11-25, as far as its headers say.
fn is_legacy(headers: &HeaderMap) -> bool {
    let version = headers.get("mcp-protocol-version").map(HeaderValue::as_bytes);
    let mut legacy = ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25).iter();
    version.is_none_or(|version| legacy.any(|known| known.as_str().as_bytes() == version))
}

/// Whether a request uses nothing that only rmcp handles.
fn is_plain(parts: &Parts) -> bool {
    let headers = &parts.headers;
    parts.method == Method::POST
        && is(headers, header::CONTENT_TYPE, &["application/json"])
        && is(headers, header::ACCEPT, &["application/json", "text/event-stream"])
        && is_legacy(headers)
}

/// Whether a header occurs exactly once and lists all these media types, in any order.
fn is(headers: &HeaderMap, name: header::HeaderName, types: &[&str]) -> bool {
    let mut values = headers.get_all(name).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let value = value.to_str().unwrap_or_default();
    types.iter().all(|kind| value.split(',').any(|given| given.trim() == *kind))
}

/// A `tools/call` with its members side by side. rmcp's type nests them, so that serde copies the
/// message twice before it reads it.
#[derive(Deserialize)]
struct CallMessage {
    jsonrpc: JsonRpcVersion2_0,
    id: RequestId,
    method: CallToolRequestMethod,
    params: CallToolRequestParams,
}

impl From<CallMessage> for JsonRpcRequest<ClientRequest> {
    fn from(CallMessage { jsonrpc, id, method, mut params }: CallMessage) -> Self {
        let meta = params.meta.take();
        let mut request = CallToolRequest::new(params);
        request.method = method;
        if let Some(meta) = meta {
            request.extensions.insert(meta);
        }
        Self { jsonrpc, id, request: ClientRequest::CallToolRequest(request) }
    }
}

/// Parses a request within a session; `None` for handshakes and for requests with a newer protocol
/// version.
fn request_of(body: &[u8]) -> Option<JsonRpcRequest<ClientRequest>> {
    // Calls first: a body is tried as each kind of request, one after the other.
    let message: JsonRpcRequest<ClientRequest> = match serde_json::from_slice::<CallMessage>(body) {
        Ok(call) => call.into(),
        Err(_) => serde_json::from_slice(body).ok()?,
    };
    let request = &message.request;
    let is_first =
        matches!(request, ClientRequest::InitializeRequest(_) | ClientRequest::DiscoverRequest(_));
    let is_plain = !is_first && request.get_meta().protocol_version().is_none();
    is_plain.then_some(message)
}

fn stream(events: impl Stream<Item = ServerSseMessage> + Send + 'static) -> Response {
    let events = events.map(|sent| {
        let message = sent.message.and_then(|message| to_text(&*message).ok());
        let event = Event::default().data(message.unwrap_or_default());
        let event = sent.event_id.into_iter().fold(event, Event::id);
        Ok::<_, Infallible>(sent.retry.into_iter().fold(event, Event::retry))
    });
    let head = [(header::CACHE_CONTROL, "no-cache"), (BUFFERED, "no")];
    (head, Sse::new(events).keep_alive(KeepAlive::default())).into_response()
}

/// Disables response buffering in nginx.
const BUFFERED: header::HeaderName = header::HeaderName::from_static("x-accel-buffering");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_rmcp_reads_it() {
        for (body, is_read) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#, true),
            (
                r#"{"method":"tools/call","params":{"arguments":{"n":[1,2.5,null],"t":{"a":"é"}},
                "_meta":{"progressToken":7,"x/y":{"z":1}},"name":"a","task":{}},"id":"i","jsonrpc":"2.0"}"#,
                true,
            ),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":null,
                "arguments":null,"requestState":"s","inputResponses":{"k":{}}},"more":1}"#,
                true,
            ),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":1}}"#, false),
            (r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"a"}}"#, false),
            (r#"{"jsonrpc":"1.0","id":1,"method":"tools/call","params":{"name":"a"}}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"a"}}"#, false),
            (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#, false),
        ] {
            let ours: Option<CallMessage> = serde_json::from_str(body).ok();
            let ours: Option<JsonRpcRequest<ClientRequest>> = ours.map(Into::into);
            let theirs: Option<JsonRpcRequest<CallToolRequest>> = serde_json::from_str(body).ok();
            assert_eq!(json!(ours), json!(theirs), "{body}");
            assert_eq!(ours.is_some(), is_read, "{body}");
            let meta = ours.map(|it| it.request.get_meta().clone());
            let theirs = theirs.map(|it| ClientRequest::CallToolRequest(it.request));
            assert_eq!(meta, theirs.map(|it| it.get_meta().clone()), "{body}");
        }
    }
}
