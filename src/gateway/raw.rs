//! Results as the servers sent them. The server side of rmcp carries typed results only, which drop
//! what they do not know (vendor fields, new kinds of content). So a handler answers with an empty
//! typed result and leaves the whole one beside it, which takes its place when the answer is sent.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::response::Response;
use futures::TryStreamExt as _;
use memchr::memmem;
use parking_lot::Mutex;
use rmcp::model::Extensions;
use serde_json::Value;

/// The whole result of one request, as soon as its handler has left it. Travels with the request,
/// among the extensions of the message or of the HTTP request that brought it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whole(Arc<Mutex<Option<Value>>>);

impl Whole {
    /// Leaves the result of the request with these extensions.
    pub fn leave(extensions: &Extensions, result: Value) {
        let over_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        if let Some(whole) = extensions.get::<Self>().or_else(over_http) {
            *whole.0.lock() = Some(result);
        }
    }

    /// The result, unless none was left.
    pub fn take(&self) -> Option<Value> {
        self.0.lock().take()
    }

    /// An answer, or an event that holds one, with the whole result in it; `None` for everything
    /// else.
    fn restore(&self, sent: &Bytes) -> Option<Bytes> {
        let (key, head) = (br#","result":"#, br#"{"jsonrpc":"2.0","id":"#);
        let begin = memmem::find(sent, key)?;
        let before = sent.get(..begin)?;
        let id = before.strip_prefix(b"data: ").unwrap_or(before).strip_prefix(head)?;
        // Text of a server may look like an answer within a notification, but not up to here.
        serde_json::from_slice::<Value>(id).ok()?;
        let begin = begin + key.len();
        // One message stands on one line; after its last brace only the end of the event follows.
        let line = memchr::memchr(b'\n', sent.get(begin..)?).map_or(sent.len(), |end| begin + end);
        let end = memchr::memrchr(b'}', sent.get(..line)?)?;
        let mut out = sent.get(..begin)?.to_vec();
        serde_json::to_writer(&mut out, &self.take()?).ok()?;
        out.extend_from_slice(sent.get(end..)?);
        Some(out.into())
    }
}

/// Puts the whole result in its place in a response over HTTP.
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
