//! Results exactly as the servers sent them. The server side of rmcp supports typed results only,
//! which drop unknown parts (vendor fields, new kinds of content). So a handler returns an empty
//! typed result and stores the raw one separately; that replaces it when the answer is sent.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::response::Response;
use futures::TryStreamExt as _;
use memchr::memmem;
use parking_lot::Mutex;
use rmcp::model::Extensions;
use serde_json::Value;

/// The raw result of one request, once its handler has stored it. Passed along in the extensions of
/// the message or of its HTTP request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whole(Arc<Mutex<Option<Value>>>);

impl Whole {
    /// Stores the result of the request that has these extensions.
    pub fn leave(extensions: &Extensions, result: Value) {
        let over_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        if let Some(whole) = extensions.get::<Self>().or_else(over_http) {
            *whole.0.lock() = Some(result);
        }
    }

    /// Changes the result stored for these extensions, if there is one.
    pub fn change(extensions: &Extensions, change: impl FnOnce(&mut Value)) {
        let over_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        if let Some(whole) = extensions.get::<Self>().or_else(over_http) {
            whole.0.lock().as_mut().map(change);
        }
    }

    /// Takes the stored result, if there is one.
    pub fn take(&self) -> Option<Value> {
        self.0.lock().take()
    }

    /// Inserts the raw result into an answer, or an event that holds one; `None` for anything else.
    fn restore(&self, sent: &Bytes) -> Option<Bytes> {
        let (key, head) = (br#","result":"#, br#"{"jsonrpc":"2.0","id":"#);
        let begin = memmem::find(sent, key)?;
        let before = sent.get(..begin)?;
        let id = before.strip_prefix(b"data: ").unwrap_or(before).strip_prefix(head)?;
        // Server text in a notification may contain the key, but the prefix would not match.
        serde_json::from_slice::<Value>(id).ok()?;
        let begin = begin + key.len();
        // A message is one line; its last brace closes the message.
        let line = memchr::memchr(b'\n', sent.get(begin..)?).map_or(sent.len(), |end| begin + end);
        let end = memchr::memrchr(b'}', sent.get(..line)?)?;
        let mut out = sent.get(..begin)?.to_vec();
        serde_json::to_writer(&mut out, &self.take()?).ok()?;
        out.extend_from_slice(sent.get(end..)?);
        Some(out.into())
    }
}

/// Replaces the placeholder result in an HTTP response with the raw one.
pub(crate) fn splice(response: Response, whole: Whole) -> Response {
    response.map(|body| {
        let parts = body.into_data_stream();
        Body::from_stream(parts.map_ok(move |part| whole.restore(&part).unwrap_or(part)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Whole {
        let result = serde_json::json!({"content": [{"type": "new"}], "vendor": {"a": 1}});
        Whole(Arc::new(Mutex::new(Some(result))))
    }

    #[test]
    fn a_result_leaves_as_it_came_in_a_body_and_in_an_event() {
        let sent = r#"{"jsonrpc":"2.0","id":"a,\"b","result":{"content":[],"_meta":{"a":{}}}}"#;
        let out = r#"{"jsonrpc":"2.0","id":"a,\"b","result":{"content":[{"type":"new"}],"vendor":{"a":1}}}"#;
        let restored = whole().restore(&Bytes::from(sent));
        assert_eq!(restored.as_deref(), Some(out.as_bytes()));
        let event = Bytes::from(format!("data: {sent}\nid: 1/2\n\n"));
        let restored = whole().restore(&event);
        assert_eq!(restored.as_deref(), Some(format!("data: {out}\nid: 1/2\n\n").as_bytes()));
    }

    #[test]
    fn only_the_answer_is_given_the_result() {
        let answer = r#"{"jsonrpc":"2.0","id":3,"result":{}}"#;
        for other in [
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{answer}}}"#),
            r#"{"jsonrpc":"2.0","id":3,"method":"ping","params":{"a":1,"result":2}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":3,"error":{"code":1,"message":"no"}}"#.to_owned(),
        ] {
            assert_eq!(whole().restore(&Bytes::from(other)), None);
        }
        let whole = whole();
        assert!(whole.restore(&Bytes::from(answer)).is_some());
        assert_eq!(whole.restore(&Bytes::from(answer)), None, "it is there once");
    }
}
