//! What clients of the MCP endpoint accept and how it refuses (basic/transports, "Streamable
//! HTTP"): they shall accept JSON and event streams, but many send `*/*`, nothing, or one of the
//! two. Each gets what it can read. Refusals are JSON-RPC errors.

use axum::body::{Body, Bytes, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt as _};
use memchr::memmem;
use protocol::RpcCode;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};

/// The form of answers that a client can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    Either,
    Json,
    Events,
}

/// Marks a request whose client reads no event stream: nothing but its answer can reach it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JsonOnly;

/// Largest refusal that is rewritten, in bytes.
const MAX_REFUSAL_BYTES: usize = 64 << 10;

/// Chooses the form of the answer, and asks for both forms in the name of the client; `None` when it
/// can read neither.
pub(crate) fn negotiate(request: &mut Request<Bytes>) -> Option<AnswerForm> {
    let form = match accepted(request.headers()) {
        Some(AnswerForm::Json) if request.method() == Method::GET => None,
        form => form,
    }?;
    let both = HeaderValue::from_static("application/json, text/event-stream");
    request.headers_mut().insert(header::ACCEPT, both);
    if form == AnswerForm::Json {
        request.extensions_mut().insert(JsonOnly);
    }
    Some(form)
}

impl AnswerForm {
    /// Puts an answer into this form.
    pub async fn shape(self, response: Response, is_post: bool) -> Response {
        match self {
            Self::Json if has_type(&response, "text/event-stream") => as_json(response).await,
            Self::Events if is_post && has_type(&response, "application/json") => {
                as_event(response)
            }
            Self::Either | Self::Json | Self::Events => response,
        }
    }
}

/// What `Accept` permits (RFC 9110, section 12.5.1); `None` for neither form.
fn accepted(headers: &HeaderMap) -> Option<AnswerForm> {
    let given = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let ranges: Vec<(&str, f32)> =
        given.flat_map(|list| list.split(',')).filter_map(range).collect();
    if ranges.is_empty() {
        return Some(AnswerForm::Either);
    }
    let is = |range: &str, wanted: &str| range.eq_ignore_ascii_case(wanted);
    // The most specific range decides.
    let takes = |kind: &str, any: &str| {
        let of = |wanted: &str| ranges.iter().find(|(range, _)| is(range, wanted));
        of(kind).or_else(|| of(any)).or_else(|| of("*/*")).is_some_and(|(_, q)| *q > 0.0)
    };
    match (takes("application/json", "application/*"), takes("text/event-stream", "text/*")) {
        (true, true) => Some(AnswerForm::Either),
        // A wildcard of one family is what clients send that accept whatever comes.
        (true, false) if ranges.iter().any(|(range, q)| is(range, "application/*") && *q > 0.0) => {
            Some(AnswerForm::Either)
        }
        (true, false) => Some(AnswerForm::Json),
        (false, true) => Some(AnswerForm::Events),
        (false, false) => None,
    }
}

/// A media range and its weight.
fn range(text: &str) -> Option<(&str, f32)> {
    let mut parts = text.split(';').map(str::trim);
    let range = parts.next().filter(|range| !range.is_empty())?;
    let weight = parts.find_map(|part| part.strip_prefix("q=")).and_then(|q| q.parse().ok());
    Some((range, weight.unwrap_or(1.0)))
}

fn has_type(response: &Response, wanted: &str) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with(wanted))
}

/// The answer at the end of an event stream, alone. What comes before it is dropped: progress and
/// log messages, which its client cannot read.
pub(crate) async fn as_json(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let Some(answer) = answer(body.into_data_stream()).await else {
        return (StatusCode::BAD_GATEWAY, "the call ended without an answer").into_response();
    };
    let json = HeaderValue::from_static("application/json");
    parts.headers.insert(header::CONTENT_TYPE, json);
    parts.headers.remove(header::CACHE_CONTROL);
    Response::from_parts(parts, Body::from(answer))
}

/// What makes a message an answer; its numbers may be any.
#[derive(Deserialize)]
struct AnswerMembers {
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

async fn answer(stream: impl Stream<Item = Result<Bytes, axum::Error>>) -> Option<Vec<u8>> {
    let mut stream = std::pin::pin!(stream);
    let mut text = Vec::new();
    while let Some(Ok(part)) = stream.next().await {
        text.extend_from_slice(&part);
        while let Some(end) = memmem::find(&text, b"\n\n") {
            let event: Vec<u8> = text.drain(..end + 2).collect();
            let lines = event.split(|byte| *byte == b'\n');
            let data = lines.filter_map(|line| line.strip_prefix(b"data:"));
            let data = data.collect::<Vec<_>>().concat();
            let is_answer = serde_json::from_slice::<AnswerMembers>(&data)
                .is_ok_and(|message| message.result.is_some() || message.error.is_some());
            if is_answer {
                return Some(data.trim_ascii().to_vec());
            }
        }
    }
    None
}

/// A JSON answer as the only event of a stream.
fn as_event(response: Response) -> Response {
    let mut response = response.map(|body| {
        let (head, tail) = (Bytes::from_static(b"data: "), Bytes::from_static(b"\n\n"));
        let around = |part| futures::stream::once(async { Ok::<_, axum::Error>(part) });
        Body::from_stream(around(head).chain(body.into_data_stream()).chain(around(tail)))
    });
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

/// Makes a refusal a JSON-RPC error without an id, whoever refused: code and wait are in its data.
pub(crate) async fn as_rpc(response: Response) -> Response {
    let status = response.status();
    if !(status.is_client_error() || status.is_server_error()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let body = to_bytes(body, MAX_REFUSAL_BYTES).await.unwrap_or_default();
    let sent: Option<Value> = serde_json::from_slice(&body).ok();
    if sent.as_ref().is_some_and(|sent| sent.get("jsonrpc").is_some()) {
        return Response::from_parts(parts, Body::from(body));
    }
    let mut data = sent.map(|mut sent| sent["error"].take()).unwrap_or_default();
    let message = match data.as_object_mut().and_then(|data| data.shift_remove("message")) {
        Some(Value::String(message)) => message,
        _ => String::from_utf8_lossy(&body).trim().to_owned(),
    };
    let reason = || status.canonical_reason().unwrap_or("refused").to_owned();
    let message = Some(message).filter(|message| !message.is_empty()).unwrap_or_else(reason);
    let code = match status {
        StatusCode::NOT_FOUND => RpcCode::SESSION_NOT_FOUND,
        _ if status.is_client_error() => RpcCode::INVALID_REQUEST,
        _ => RpcCode::SERVER_ERROR,
    };
    let mut error = json!({"code": code, "message": message});
    if data.is_object() {
        error["data"] = data;
    }
    let rpc = json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string();
    parts.headers.remove(header::CONTENT_LENGTH);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Response::from_parts(parts, Body::from(rpc))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(accept: &[&str]) -> Option<AnswerForm> {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(header::ACCEPT, value.parse().expect("a value"));
        }
        accepted(&headers)
    }

    #[test]
    fn a_client_gets_what_it_accepts() {
        use AnswerForm::{Either, Events, Json};
        for (accept, wanted) in [
            (&[][..], Some(Either)),
            (&[""], Some(Either)),
            (&["*/*"], Some(Either)),
            (&["application/*"], Some(Either)),
            (&["Application/JSON, text/event-stream"], Some(Either)),
            (&["text/event-stream", "application/json;q=0.1"], Some(Either)),
            (&["application/json"], Some(Json)),
            (&["application/json;charset=utf-8, text/html"], Some(Json)),
            (&["*/*, text/event-stream;q=0"], Some(Json)),
            (&["text/event-stream"], Some(Events)),
            (&["text/*"], Some(Events)),
            (&["text/html"], None),
            (&["*/*;q=0"], None),
        ] {
            assert_eq!(form(accept), wanted, "{accept:?}");
        }
    }

    #[tokio::test]
    async fn the_answer_is_found_behind_what_came_first_however_it_was_cut() {
        let events = ": \n\ndata: {\"method\":\"notifications/progress\"}\nid: 1\n\n\
                      data: {\"id\":1,\"result\":{\"a\":\"\\n\\n\",\"b\":1e400}}\nid: 2\n\n";
        let parts: Vec<Result<Bytes, axum::Error>> =
            events.as_bytes().chunks(7).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
        let found = answer(futures::stream::iter(parts)).await.expect("an answer");
        assert_eq!(found, br#"{"id":1,"result":{"a":"\n\n","b":1e400}}"#);
        assert_eq!(answer(futures::stream::empty()).await, None);
    }
}
