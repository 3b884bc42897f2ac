//! Results exactly as the servers sent them, and arguments exactly as clients wrote them. The server
//! side of rmcp supports typed results only, which drop unknown parts (vendor fields, new kinds of
//! content). So a handler returns an empty typed result and stores the raw one separately; that
//! replaces it when the answer is sent.
//!
//! A JSON value of rmcp holds no number beyond 64 bits or a double. On the way in, such numbers are
//! read from the text of a request and kept beside it ([`SentNumbers`]). On the way out, they stand
//! in a value as marked strings, which become numbers when the message is written ([`unmarked`]).

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::response::Response;
use futures::TryStreamExt as _;
use memchr::memmem;
use parking_lot::Mutex;
use rmcp::model::Extensions;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use base::text::json::{WrittenNumbers, WrittenValue, within_range};
use protocol::repair;

/// A message of a client in which what is no character (bytes that are not UTF-8, half of a pair of
/// surrogates) is U+FFFD, as it is read from servers; `None` where every character is one.
pub(crate) fn mended(message: &[u8]) -> Option<String> {
    let escapes = || memmem::find_iter(message, br"\u");
    let may_be_half = |at: usize| matches!(message.get(at + 2), Some(b'd' | b'D'));
    if !escapes().any(may_be_half) && std::str::from_utf8(message).is_ok() {
        return None;
    }
    let (text, what) = repair(message)?;
    tracing::debug!(target: "mcpdeck::gateway", "a message of a client had {what}");
    Some(text)
}

/// The raw result of one request, once its handler has stored it. Passed along in the extensions of
/// the message or of its HTTP request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Whole(Arc<Mutex<Option<WrittenValue>>>);

impl Whole {
    /// Stores the result of the request that has these extensions.
    pub fn leave(extensions: &Extensions, result: impl Into<WrittenValue>) {
        let over_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        if let Some(whole) = extensions.get::<Self>().or_else(over_http) {
            *whole.0.lock() = Some(result.into());
        }
    }

    /// Changes the result stored for these extensions, if there is one.
    pub fn change(extensions: &Extensions, change: impl FnOnce(&mut Value)) {
        let over_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        let place = extensions.get::<Self>().or_else(over_http);
        if let Some(whole) = place
            && let Some(whole) = whole.0.lock().as_mut()
        {
            change(&mut whole.value);
        }
    }

    /// Takes the stored result, if there is one, with marked numbers.
    pub fn take(&self) -> Option<Value> {
        self.0.lock().take().map(marked)
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
        let whole = self.0.lock().take()?;
        serde_json::to_writer(&mut out, &whole).ok()?;
        out.extend_from_slice(sent.get(end..)?);
        Some(out.into())
    }
}

/// Replaces the placeholder result in an HTTP response with the raw one.
pub(crate) fn splice(response: Response, whole: Whole) -> Response {
    response.map(|body| {
        let parts = body.into_data_stream();
        Body::from_stream(parts.map_ok(move |part| {
            let part = whole.restore(&part).unwrap_or(part);
            match unmarked(&part) {
                Cow::Borrowed(_) => part,
                Cow::Owned(text) => text.into(),
            }
        }))
    })
}

/// The numbers of a request's parameters that a JSON value cannot hold. Passed along like
/// [`Whole`].
#[derive(Clone, Debug)]
pub(crate) struct SentNumbers(Arc<WrittenNumbers>);

impl SentNumbers {
    /// Reads a message of a client. Returns its text in a form that any parser reads, with those
    /// numbers rounded, beside what they were; `None` if it has none.
    ///
    /// # Errors
    /// That there are too many of them.
    pub fn read(message: &[u8]) -> Result<Option<(String, Self)>, String> {
        let Ok(text) = std::str::from_utf8(message) else { return Ok(None) };
        let numbers = WrittenNumbers::changed_in(text)?.below("/params");
        let readable = within_range(text);
        if numbers.is_empty() && matches!(readable, Cow::Borrowed(_)) {
            return Ok(None);
        }
        Ok(Some((readable.into_owned(), Self(Arc::new(numbers)))))
    }

    /// Those of the request that has these extensions, of one of its parameters: `/arguments`,
    /// `/_meta`.
    pub fn sent(extensions: &Extensions, parameter: &str) -> Option<Arc<WrittenNumbers>> {
        let over_http = || extensions.get::<Parts>()?.extensions.get::<Self>();
        let sent = extensions.get::<Self>().or_else(over_http)?;
        Some(sent.0.below(parameter)).filter(|numbers| !numbers.is_empty()).map(Arc::new)
    }
}

/// What a marked string begins with: unknown outside of this process, so that no server can write
/// one.
static NUMBER_MARK: LazyLock<String> =
    LazyLock::new(|| base::file::random_hex::<16>().map(|id| format!("{id}:")).unwrap_or_default());

/// A value in which the numbers that it cannot hold are marked strings.
fn marked(written: WrittenValue) -> Value {
    let WrittenValue { mut value, numbers } = written;
    // Without a mark, numbers stay rounded rather than be mistaken for others.
    if !NUMBER_MARK.is_empty() {
        for (pointer, number) in numbers.iter() {
            if let Some(place) = value.pointer_mut(pointer).filter(|place| place.is_number()) {
                *place = format!("{}{number}", *NUMBER_MARK).into();
            }
        }
    }
    value
}

/// Parses a message that was written by [`to_text`], with marked numbers.
pub(crate) fn from_text(text: &str) -> Option<Value> {
    WrittenValue::parse(text).ok().map(marked)
}

/// A message as JSON, with its numbers as they were written.
pub(crate) fn to_text(message: &impl Serialize) -> serde_json::Result<String> {
    let text = serde_json::to_string(message)?;
    Ok(match unmarked(text.as_bytes()) {
        Cow::Borrowed(_) => text,
        Cow::Owned(unmarked) => String::from_utf8(unmarked).unwrap_or(text),
    })
}

/// JSON text in which marked strings are the numbers that they stand for.
fn unmarked(text: &[u8]) -> Cow<'_, [u8]> {
    let mark = NUMBER_MARK.as_bytes();
    let (mut out, mut copied) = (Vec::new(), 0);
    if !mark.is_empty() {
        for at in memmem::find_iter(text, mark) {
            let begin = at + mark.len();
            let Some(length) = memchr::memchr(b'"', &text[begin..]) else { continue };
            let number = &text[begin..begin + length];
            let is_number = serde_json::from_slice::<&RawValue>(number).is_ok();
            if is_number && at > copied && text[at - 1] == b'"' {
                out.extend_from_slice(&text[copied..at - 1]);
                out.extend_from_slice(number);
                copied = begin + length + 1;
            }
        }
    }
    if copied == 0 {
        return text.into();
    }
    out.extend_from_slice(&text[copied..]);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> Whole {
        let result = serde_json::json!({"content": [{"type": "new"}], "vendor": {"a": 1}});
        Whole(Arc::new(Mutex::new(Some(result.into()))))
    }

    #[test]
    fn numbers_leave_as_they_came_by_every_way() {
        let text = r#"{"a":[123456789012345678901234567890,1e400,-1.5],"b":"1e400"}"#;
        let whole = Whole(Arc::new(Mutex::new(WrittenValue::parse(text).ok())));
        let sent = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
        let out = whole.restore(&sent).expect("an answer");
        assert_eq!(out, format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#).as_bytes());
        let value = marked(WrittenValue::parse(text).expect("JSON"));
        assert_ne!(value.to_string(), text);
        assert_eq!(to_text(&value).expect("text"), text);
        assert_eq!(to_text(&from_text(text).expect("JSON")).expect("text"), text);
        let forged = serde_json::json!({"a": "0123:5", "b": format!("x{}7", *NUMBER_MARK)});
        assert_eq!(to_text(&forged).expect("text"), forged.to_string());
    }

    #[test]
    fn arguments_are_read_as_they_were_written() {
        let read = |text: &str| SentNumbers::read(text.as_bytes()).expect("few numbers");
        assert!(read(r#"{"id":1,"params":{"arguments":{"a":1.5}}}"#).is_none());
        let (text, numbers) = read(r#"{"params":{"arguments":{"a":[1e400]}}}"#).expect("one");
        assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        assert_eq!(numbers.0.iter().collect::<Vec<_>>(), [("/arguments/a/0", "1e400")]);
    }

    #[test]
    fn what_is_no_character_is_replaced_and_nothing_else_is_touched() {
        for sound in [r#"{"a":"\ud83d\ude00 \\ud83d é \u00e9"}"#, "{}"] {
            assert_eq!(mended(sound.as_bytes()), None, "{sound}");
        }
        for (sent, read) in [
            (&br#""cut \ud83d""#[..], r#""cut \ufffd""#),
            (br#""\uDE00\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (b"\"caf\xe9\"", "\"caf\u{fffd}\""),
        ] {
            assert_eq!(mended(sent).as_deref(), Some(read));
        }
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
