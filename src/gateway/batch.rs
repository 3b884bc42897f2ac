//! Several messages in one body (2025-03-26, basic, "Batching"; JSON-RPC 2.0, section 6). Each is
//! served as if it had come alone, with its numbers as they are written, and the answers go back
//! together. The revisions after that one have no batches.

use std::collections::HashSet;

use axum::body::{Bytes, to_bytes};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::future::join_all;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::accept::{as_json, as_rpc};
use protocol::RpcCode;
use rmcp::model::ErrorData;

/// Most messages of one batch.
pub(crate) const MAX_BATCH_MESSAGES: usize = 100;
/// The last revision that has batches.
const LAST_REVISION: &str = "2025-03-26";

/// One message of a batch.
pub(crate) struct BatchMessage {
    /// As its client wrote it.
    pub text: Box<RawValue>,
    /// The id of a request.
    pub id: Option<Value>,
}

/// What is looked at in a message before it is served.
#[derive(Deserialize)]
struct BatchedHead<'a> {
    id: Option<Value>,
    #[serde(borrow)]
    method: Option<std::borrow::Cow<'a, str>>,
    result: Option<IgnoredAny>,
    error: Option<IgnoredAny>,
}

/// Whether a text is that of a batch.
pub(crate) fn is_batch(text: &[u8]) -> bool {
    text.trim_ascii_start().first() == Some(&b'[')
}

/// Reads a batch.
///
/// # Errors
/// Why it is refused as a whole.
pub(crate) fn read(text: &[u8]) -> Result<Vec<BatchMessage>, ErrorData> {
    let texts: Vec<Box<RawValue>> = serde_json::from_slice(text)
        .map_err(|error| ErrorData::parse_error(format!("Parse error: {error}"), None))?;
    match texts.len() {
        0 => return Err(invalid("the batch is empty")),
        1..=MAX_BATCH_MESSAGES => {}
        count => {
            let limit = MAX_BATCH_MESSAGES;
            return Err(invalid(&format!("a batch of {count}, the limit is {limit}")));
        }
    }
    let mut ids = HashSet::new();
    let mut messages = Vec::new();
    for text in texts {
        let head = serde_json::from_str::<BatchedHead<'_>>(text.get()).ok();
        if head.as_ref().and_then(|head| head.method.as_deref()) == Some("initialize") {
            return Err(invalid("`initialize` comes alone"));
        }
        // What is no message at all is answered, too.
        let id = match head {
            Some(head) if head.result.is_some() || head.error.is_some() => None,
            Some(BatchedHead { id: None, method: Some(_), .. }) => None,
            Some(head) => Some(head.id.unwrap_or_default()),
            None => Some(Value::Null),
        };
        if let Some(id) = id.as_ref().filter(|id| !id.is_null())
            && !ids.insert(id.to_string())
        {
            return Err(invalid(&format!("two requests have the id {id}")));
        }
        messages.push(BatchMessage { text, id });
    }
    Ok(messages)
}

fn invalid(why: &str) -> ErrorData {
    ErrorData::invalid_request(format!("Invalid request: {why}"), None)
}

/// Whether a revision has batches.
///
/// # Errors
/// Why a batch is refused where it has none.
pub(crate) fn permitted_by(revision: &[u8]) -> Result<(), ErrorData> {
    let has_batches = revision <= LAST_REVISION.as_bytes();
    let why = || invalid(&format!("batches ended with revision {LAST_REVISION}"));
    has_batches.then_some(()).ok_or_else(why)
}

/// Answers a batch; `serve` answers one message of it.
pub(crate) async fn batch<F: Future<Output = Response>>(
    parts: &Parts,
    body: &[u8],
    serve: impl Fn(Parts, Bytes) -> F,
) -> Response {
    // Who names no revision speaks the last one that has batches.
    let named = parts.headers.get("mcp-protocol-version").map(HeaderValue::as_bytes);
    let messages = match named.map_or(Ok(()), permitted_by).and_then(|()| read(body)) {
        Ok(messages) => messages,
        Err(error) => {
            let answer = json!({"jsonrpc": "2.0", "id": null, "error": error}).to_string();
            let head = [(header::CONTENT_TYPE, "application/json")];
            return (StatusCode::BAD_REQUEST, head, answer).into_response();
        }
    };
    let served = messages.iter().map(|message| {
        let mut parts = parts.clone();
        let body = Bytes::from(message.text.get().to_owned());
        parts.headers.insert(header::CONTENT_LENGTH, body.len().into());
        serve(parts, body)
    });
    let responses = join_all(served).await;
    // A session that is over, or a token that is none, is so for all of them.
    let refused = responses.first().map(Response::status).filter(|it| is_refusal(*it));
    let mut responses = responses.into_iter();
    if let Some(status) = refused
        && responses.as_slice().iter().all(|response| response.status() == status)
        && let Some(first) = responses.next()
    {
        return first;
    }
    let answers = messages.iter().zip(responses).map(|(message, response)| async move {
        let id = message.id.as_ref()?;
        Some(answer(response, id).await)
    });
    let answers: Vec<Bytes> = join_all(answers).await.into_iter().flatten().collect();
    if answers.is_empty() {
        return StatusCode::ACCEPTED.into_response();
    }
    let body = [b"[", &answers.join(&b","[..])[..], b"]"].concat();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

fn is_refusal(status: StatusCode) -> bool {
    status.is_client_error() || status.is_server_error()
}

/// The answer to one request, without what came before it; a refusal as the answer to its id.
async fn answer(response: Response, id: &Value) -> Bytes {
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream"));
    let response = if is_stream { as_json(response).await } else { response };
    let is_refused = is_refusal(response.status());
    let body = to_bytes(as_rpc(response).await.into_body(), usize::MAX).await.unwrap_or_default();
    if !is_refused && !body.is_empty() {
        return body;
    }
    let refusal: Value = serde_json::from_slice(&body).unwrap_or_default();
    let error = match refusal.get("error") {
        Some(error) => error.clone(),
        None => json!({"code": RpcCode::SERVER_ERROR, "message": "there was no answer"}),
    };
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_read_whole_or_refused_with_the_reason() {
        let messages = read(
            br#"[{"id":1,"method":"a","params":{"n":1e400}},{"method":"b"},{"id":1,"result":{}},7,{"id":2.0,"method":"c"}]"#,
        )
        .expect("a batch");
        let ids: Vec<_> = messages.iter().map(|message| message.id.clone()).collect();
        assert_eq!(ids, [Some(json!(1)), None, None, Some(Value::Null), Some(json!(2.0))]);
        assert!(messages[0].text.get().contains("1e400"));
        let many = format!("[{}]", vec!["1"; MAX_BATCH_MESSAGES + 1].join(","));
        for (text, says) in [
            ("[]", "empty"),
            ("[{]", "Parse error"),
            (r#"[{"id":1,"method":"initialize"}]"#, "alone"),
            (r#"[{"id":"x","method":"a"},{"id":"x","method":"a"}]"#, "two requests"),
            (&many, "the limit is 100"),
        ] {
            let why = read(text.as_bytes()).err().expect(text);
            assert!(why.message.contains(says), "{text}: {why}");
        }
    }
}
