//! Results as the servers sent them. The server side of rmcp carries typed results only, which drop
//! what they do not know (vendor fields, new kinds of content); so a handler gives a placeholder and
//! the text travels beside it, to be put in its place where the message leaves.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::response::Response;
use futures::TryStreamExt as _;
use parking_lot::Mutex;
use rmcp::ErrorData;
use rmcp::model::MetaObject;
use serde_json::Value;

/// The key of a placeholder's `_meta`.
const KEY: &str = "mcpdeck/raw";
/// Most bytes of results that wait to leave. What is older than that was abandoned by its client.
const BYTES: usize = 64 << 20;

/// Results that wait to leave, by their placeholder.
#[derive(Debug, Default)]
pub(crate) struct Raws {
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    texts: VecDeque<(String, Arc<str>)>,
    bytes: usize,
}

impl Raws {
    /// Keeps a result; gives the `_meta` of its placeholder.
    ///
    /// # Errors
    /// When the system has no random numbers.
    pub fn keep(&self, text: String) -> Result<MetaObject, ErrorData> {
        let failed = |error: std::io::Error| ErrorData::internal_error(error.to_string(), None);
        let token = crate::base::file::random_hex::<16>().map_err(failed)?;
        let mut meta = serde_json::Map::new();
        meta.insert(KEY.to_owned(), Value::String(token.clone()));
        self.put(token, text);
        Ok(MetaObject(meta))
    }

    /// Keeps a result that has a placeholder already.
    pub fn put(&self, token: String, text: String) {
        let mut kept = self.kept.lock();
        kept.bytes += text.len();
        kept.texts.push_back((token, text.into()));
        while kept.bytes > BYTES
            && kept.texts.len() > 1
            && let Some((_, text)) = kept.texts.pop_front()
        {
            kept.bytes -= text.len();
        }
    }

    /// The placeholder in a message, and its result.
    pub fn of(&self, message: &[u8]) -> Option<(String, Arc<str>)> {
        let key = format!("\"{KEY}\":\"");
        let at = memchr::memmem::find(message, key.as_bytes())? + key.len();
        let token = std::str::from_utf8(message.get(at..at + 32)?).ok()?;
        Some((token.to_owned(), self.find(token)?))
    }

    /// The result of a placeholder; it stays, because a stream may be resumed.
    pub fn find(&self, token: &str) -> Option<Arc<str>> {
        let kept = self.kept.lock();
        kept.texts.iter().rev().find(|(known, _)| known == token).map(|(_, text)| Arc::clone(text))
    }

    /// A message, or an event that holds one, with its result in place.
    pub fn restore(&self, bytes: &Bytes) -> Option<Bytes> {
        let (_, result) = self.of(bytes)?;
        let field = b"\"result\":";
        let begin = memchr::memmem::find(bytes, field)? + field.len();
        // One message stands on one line; after its last brace only the end of the event follows.
        let line =
            memchr::memchr(b'\n', bytes.get(begin..)?).map_or(bytes.len(), |end| begin + end);
        let end = memchr::memrchr(b'}', bytes.get(..line)?)?;
        let mut out = Vec::with_capacity(bytes.len() + result.len());
        out.extend_from_slice(bytes.get(..begin)?);
        out.extend_from_slice(result.as_bytes());
        out.extend_from_slice(bytes.get(end..)?);
        Some(out.into())
    }
}

/// Puts results in place of their placeholders on the way out over HTTP.
pub(crate) fn splice(response: Response, raws: Arc<Raws>) -> Response {
    response.map(|body| {
        let parts = body.into_data_stream();
        Body::from_stream(parts.map_ok(move |part| raws.restore(&part).unwrap_or(part)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(meta: &MetaObject) -> String {
        let meta = serde_json::to_string(meta).unwrap_or_default();
        format!(r#"{{"jsonrpc":"2.0","id":3,"result":{{"content":[],"_meta":{meta}}}}}"#)
    }

    #[test]
    fn a_result_leaves_as_it_came_in_a_body_and_in_an_event() -> Result<(), ErrorData> {
        let raws = Raws::default();
        let meta = raws.keep(r#"{"content":[{"type":"new"}],"vendor":{"a":1}}"#.to_owned())?;
        let whole =
            r#"{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"new"}],"vendor":{"a":1}}}"#;
        let body = Bytes::from(message(&meta));
        assert_eq!(raws.restore(&body).as_deref(), Some(whole.as_bytes()));
        let event = Bytes::from(format!("data: {}\nid: 1/2\n\n", message(&meta)));
        let restored = raws.restore(&event);
        assert_eq!(restored.as_deref(), Some(format!("data: {whole}\nid: 1/2\n\n").as_bytes()));
        Ok(())
    }

    #[test]
    fn a_placeholder_of_somebody_else_stays_what_it_is() {
        let forged = Bytes::from_static(
            br#"{"result":{"_meta":{"mcpdeck/raw":"00000000000000000000000000000000"}}}"#,
        );
        assert_eq!(Raws::default().restore(&forged), None);
    }
}
