//! One POST: what goes out, and what may come back instead of an answer.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use futures::StreamExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestId, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{StreamableHttpError, StreamableHttpPostResponse};
use sse_stream::Sse;

use super::client::{BOTH, Failed, HttpClient, HttpFailure, SESSION};
use super::events;
use crate::mcp::wire::tap::Delivery;

/// A body, as far as the limit lets it be read.
enum Body {
    Whole(Vec<u8>),
    TooLong { head: Vec<u8>, total: u64 },
}

/// What was posted, for whoever reads the answer.
struct Asked<'a> {
    message: &'a ClientJsonRpcMessage,
    id: Option<i64>,
    /// Whether it named a session.
    in_session: bool,
}

impl HttpClient {
    pub(super) async fn post(
        &self,
        uri: &str,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let body = serde_json::to_vec(&message)
            .map_err(|error| HttpFailure::plain(format!("not serialisable: {error}")))?;
        let id = request_id(&message);
        self.register_again(&message, id, &body);
        let request = self
            .http
            .post(uri)
            .header(ACCEPT, BOTH)
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let response = self.run(request, headers, session.as_deref()).await?;
        let status = response.status();
        if session.is_some() && status == StatusCode::NOT_FOUND {
            return Err(StreamableHttpError::SessionExpired);
        }
        let in_session = session.is_some();
        let new_session =
            response.headers().get(SESSION).and_then(|v| v.to_str().ok()).map(str::to_owned);
        if status.is_success() && new_session.is_some() {
            self.held.session_began();
        }
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let kind = kind.unwrap_or_default().to_ascii_lowercase();
        if status.is_success() && kind.starts_with("text/event-stream") {
            let stream = events::stream(response, self.clone(), id);
            return Ok(StreamableHttpPostResponse::Sse(stream, new_session));
        }
        let asked = Asked { message: &message, id, in_session };
        self.body(response, asked, &kind, new_session).await
    }

    async fn body(
        &self,
        mut response: reqwest::Response,
        Asked { message, id, in_session }: Asked<'_>,
        kind: &str,
        session: Option<String>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let status = response.status();
        let body = self.read(&mut response).await?;
        let mut out = VecDeque::new();
        let text = match &body {
            Body::Whole(bytes) => bytes.as_slice(),
            Body::TooLong { head, .. } => head.as_slice(),
        };
        let shown = String::from_utf8_lossy(&text[..text.len().min(400)]).into_owned();
        if !status.is_success() {
            if in_session && status == StatusCode::BAD_REQUEST && names_session(&shown) {
                return Err(StreamableHttpError::SessionExpired);
            }
            // Whatever id it names: this is the place where the answer had to be.
            if let Some(id) = id
                && self.tap.refused(id, text, &mut out)
            {
                return Ok(self.respond(out, session));
            }
            if let Some(legacy) = probe_refused(message, status, &shown, session.as_ref()) {
                return Ok(self.no_probe(legacy));
            }
            return Err(self.refused(&response, &shown, true));
        }
        if !kind.starts_with("application/json") {
            if text.trim_ascii().is_empty() && id.is_none() {
                return Ok(StreamableHttpPostResponse::Accepted);
            }
            let kind = if kind.is_empty() { "no content type" } else { kind };
            let text = format!("the server answered with {kind}, not JSON: {}", first_line(&shown));
            return Err(
                HttpFailure::plain(crate::base::text::SafeText::line(&text).to_string()).into()
            );
        }
        match &body {
            Body::Whole(bytes) => {
                let one_line: Vec<u8> = bytes
                    .iter()
                    .map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { *b })
                    .collect();
                self.show(&one_line, &mut out);
            }
            Body::TooLong { head, total } => self.tap.oversized(head, b"", *total, &mut out),
        }
        if let Some(id) = id {
            self.tap.unanswered(id, "the HTTP response holds no answer", &mut out);
        }
        Ok(self.respond(out, session))
    }

    fn respond(
        &self,
        mut out: VecDeque<Delivery>,
        session: Option<String>,
    ) -> StreamableHttpPostResponse {
        if out.len() == 1
            && let Some(delivery) = out.pop_front()
        {
            return StreamableHttpPostResponse::Json(self.held.stand_in(delivery), session);
        }
        if out.is_empty() {
            return StreamableHttpPostResponse::Accepted;
        }
        let events: Vec<_> =
            out.into_iter().map(|delivery| Ok(events::event(&self.held, delivery))).collect();
        StreamableHttpPostResponse::Sse(
            futures::stream::iter::<Vec<Result<Sse, _>>>(events).boxed(),
            session,
        )
    }

    /// A refused probe is what a legacy server answers: `initialize` follows.
    fn no_probe(&self, (id, text): (i64, String)) -> StreamableHttpPostResponse {
        let mut out = VecDeque::new();
        self.tap.unanswered(id, &text, &mut out);
        self.respond(out, None)
    }

    async fn read(&self, response: &mut reqwest::Response) -> Result<Body, Failed> {
        let limit = self.tap.context.limits.line_bytes;
        let mut bytes = Vec::new();
        let mut total = 0_u64;
        loop {
            let chunk = response.chunk().await;
            let chunk = chunk
                .map_err(|error| HttpFailure::plain(format!("the answer broke off: {error}")))?;
            let Some(chunk) = chunk else { break };
            self.tap.arrived(chunk.len());
            total += chunk.len() as u64;
            if bytes.len() <= limit {
                bytes.extend_from_slice(&chunk);
            }
            // Nobody reads a body to its end that is far over the limit.
            if total > 4 * limit as u64 {
                break;
            }
        }
        if total > limit as u64 {
            bytes.truncate(64 << 10);
            return Ok(Body::TooLong { head: bytes, total });
        }
        Ok(Body::Whole(bytes))
    }

    /// When a session expired the worker repeats `initialize` by itself; the tap must know of it.
    fn register_again(&self, message: &ClientJsonRpcMessage, id: Option<i64>, body: &[u8]) {
        if let ClientJsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::InitializeRequest(_))
            && id.is_some_and(|id| !self.tap.is_pending(id))
        {
            self.tap.sending(message, body);
        }
    }
}

/// Whether a refusal is about the id of the session. The specification wants 404 for one that is
/// forgotten; the examples that most servers were made from answer 400 with these words.
fn names_session(body: &str) -> bool {
    body.to_ascii_lowercase().contains("session id")
}

fn first_line(text: &str) -> &str {
    text.trim_start().lines().next().unwrap_or_default()
}

fn request_id(message: &ClientJsonRpcMessage) -> Option<i64> {
    match message {
        ClientJsonRpcMessage::Request(request) => match request.id {
            RequestId::Number(id) => Some(id),
            RequestId::String(_) => None,
        },
        _ => None,
    }
}

/// The id of a `server/discover` that was refused outright, and why.
fn probe_refused(
    message: &ClientJsonRpcMessage,
    status: StatusCode,
    body: &str,
    session: Option<&String>,
) -> Option<(i64, String)> {
    let ClientJsonRpcMessage::Request(request) = message else { return None };
    let probe = matches!(request.request, ClientRequest::DiscoverRequest(_));
    let refused = status.is_client_error() && status != StatusCode::FORBIDDEN;
    let id = request_id(message)?;
    let text = format!("`server/discover` was refused with HTTP {status}: {}", first_line(body));
    (probe && refused && session.is_none()).then_some((id, text))
}

/// A message as the text of an event.
pub(super) fn text(message: &ServerJsonRpcMessage) -> Option<String> {
    serde_json::to_string(message).ok()
}
