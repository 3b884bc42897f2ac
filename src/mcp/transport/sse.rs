//! HTTP+SSE of 2024-11-05: one event stream from the server, whose first event names the address
//! that messages are posted to. Exposed to the session as a pair of byte streams, one message per
//! line, so that everything above works as for a child's pipes.
//!
//! The stream is the session: when it ends, nothing can be resumed and the server is down.

use std::sync::Arc;

use bytes::Bytes;
use futures::SinkExt;
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream};
use url::Url;

use super::events::{SseEvent, SseEvents};
use super::remote::{Posts, RemoteServer, Streams, ended, innermost, streams};
use base::SafeText;
use protocol::{SendError, SendFailure, Tap};

/// Connects to the stream at `url` and waits for the address to post to.
///
/// # Errors
/// What the server answered instead.
pub(crate) async fn open(remote: RemoteServer, url: &Url) -> Result<Streams, SendError> {
    let request = remote.http.get(url.clone()).header(ACCEPT, "text/event-stream");
    let response = remote.send(request).await?;
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.unwrap_or_default().to_ascii_lowercase().starts_with("text/event-stream") {
        return Err(SendError::Refused(
            "the server answered without an event stream (SSE)".to_owned().into(),
        ));
    }
    let base = response.url().clone();
    let mut events = SseEvents::new(response, remote.tap.context.limits.line_bytes);
    let (streams, mut incoming, outgoing) = streams();
    let endpoint = loop {
        let event = events.next().await;
        let event = event.map_err(|error| {
            SendError::Broken(SendFailure::caused(
                innermost(&error),
                &error,
                &remote.tap.context.redactor,
            ))
        })?;
        let event = event.ok_or_else(|| {
            let text = "the stream ended before it named the address to post to";
            SendError::Refused(text.to_owned().into())
        })?;
        if event.kind == "endpoint" {
            break target(&base, &String::from_utf8_lossy(&event.data))?;
        }
        if let Some(line) = message(event, &remote.tap) {
            let _ = incoming.send(Ok(line)).await;
        }
    };
    let tap = Arc::clone(&remote.tap);
    let reading = async move {
        while let Some(event) = events.next().await.transpose() {
            let Some(line) = event.map(|event| message(event, &tap)).transpose() else { continue };
            let broken = line.is_err();
            if incoming.send(line).await.is_err() || broken {
                return;
            }
        }
    };
    tokio::spawn(async move {
        // The session ends when either side does: the event stream, or the host dropping its end.
        tokio::select! {
            () = reading => {}
            () = post(&remote, &endpoint, outgoing) => {}
            () = ended(&remote.tap) => {}
        }
    });
    Ok(streams)
}

/// The address to post to; one of another origin is refused, because it would get the headers.
fn target(base: &Url, named: &str) -> Result<Url, SendError> {
    let refuse = |text: String| SendError::Refused(SafeText::cut(&text, 400).to_string().into());
    let url = base.join(named.trim());
    let url = url.map_err(|error| refuse(format!("the POST address is invalid: {error}")))?;
    if url.origin() != base.origin() {
        let origin = url.origin().ascii_serialization();
        return Err(refuse(format!("the address to post to is of another origin, {origin}")));
    }
    Ok(url)
}

/// Posts what the session writes: notifications and answers in sequence, requests concurrently,
/// because some servers complete the POST only when they have answered the request.
async fn post(remote: &RemoteServer, endpoint: &Url, mut outgoing: BufReader<DuplexStream>) {
    let mut posts = Posts::default();
    loop {
        let mut line = Vec::new();
        if !matches!(outgoing.read_until(b'\n', &mut line).await, Ok(1..)) {
            break;
        }
        let message: Value = serde_json::from_slice(&line).unwrap_or_default();
        let id = message.get("method").and(message.get("id")).cloned();
        let (remote, endpoint) = (remote.clone(), endpoint.clone());
        let in_order = id.is_none() || message["method"] == "initialize";
        let tap = Arc::clone(&remote.tap);
        let posting = async move {
            let request = remote.http.post(endpoint).header(CONTENT_TYPE, "application/json");
            match (remote.send(request.body(line)).await, id) {
                (Ok(_), _) => {}
                (Err(failure), None) => tracing::warn!(%failure, "a message was not posted"),
                (Err(failure), Some(id)) => {
                    let _ = id.as_i64().map(|id| remote.tap.undelivered(id, &failure));
                }
            }
        };
        posts.add(tap, in_order, Box::pin(posting)).await;
    }
}

/// The message in an event, as a line; one over the limit is reported here.
fn message(mut event: SseEvent, tap: &Tap) -> Option<Bytes> {
    if !matches!(event.kind.as_str(), "" | "message") {
        return None;
    }
    if let Some(total) = event.over {
        tap.oversized(&event.data, b"", total);
        return None;
    }
    event.data.push(b'\n');
    Some(event.data.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_to_post_to_is_of_the_same_origin() {
        let base = Url::parse("https://a.example/sse").expect("an address");
        let given = |named| target(&base, named).map(String::from).ok();
        assert_eq!(given("/post?s=1").as_deref(), Some("https://a.example/post?s=1"));
        assert_eq!(given("https://a.example:443/p").as_deref(), Some("https://a.example/p"));
        for other in ["https://b.example/p", "http://a.example/p", "//b.example/p", "file:///x"] {
            assert_eq!(given(other), None, "{other}");
        }
    }
}
