//! HTTP+SSE of 2024-11-05: one stream of events from the server, whose first names the address that
//! messages are posted to. Given to the session as a pair of byte streams, a message on each line,
//! so that everything above is the same as for a child's pipes.
//!
//! The stream is the session: when it ends nothing can be resumed, and the server is down.

use std::io;

use futures::{SinkExt, StreamExt, TryStreamExt};
use http::header::{ACCEPT, CONTENT_TYPE};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream};
use tokio::task::JoinSet;
use url::Url;

use super::http::line_feeds;
use super::remote::{Remote, Streams, streams};
use crate::base::SafeText;
use crate::mcp::transport::SendError;

/// Longest name of an event, and longest address to post to.
const NAME: usize = 8 << 10;
/// Requests that are posted at once.
const POSTS: usize = 256;

/// Connects to the stream at `url` and waits for the address to post to.
///
/// # Errors
/// What the server answered instead.
pub(crate) async fn open(remote: Remote, url: &Url) -> Result<Streams, SendError> {
    let request = remote.http.get(url.clone()).header(ACCEPT, "text/event-stream");
    let response = remote.send(request).await?;
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.unwrap_or_default().to_ascii_lowercase().starts_with("text/event-stream") {
        return Err(SendError::Refused(
            "the server answered with no stream of events (SSE)".to_owned(),
        ));
    }
    let base = response.url().clone();
    let mut returned = false;
    let mut body = response.bytes_stream().map_ok(move |piece| line_feeds(piece, &mut returned));
    let (streams, mut incoming, outgoing) = streams();
    let mut events = Events::default();
    let endpoint = loop {
        let piece = body.next().await.ok_or_else(|| {
            SendError::Refused("the stream ended before it named the address to post to".to_owned())
        })?;
        let piece = piece.map_err(|error| remote.broken(&error))?;
        let mut lines = Vec::new();
        events.feed(&piece, &mut lines);
        if !lines.is_empty() {
            let _ = incoming.send(Ok(lines.into())).await;
        }
        if let Some(named) = events.endpoint.take() {
            break target(&base, &named)?;
        }
    };
    let reading = async move {
        while let Some(piece) = body.next().await {
            let mut lines = Vec::new();
            let piece = piece.map(|piece| events.feed(&piece, &mut lines));
            let piece = piece.map(|()| lines.into()).map_err(io::Error::other);
            let broken = piece.is_err();
            if incoming.send(piece).await.is_err() || broken {
                return;
            }
        }
    };
    tokio::spawn(async move {
        // Whichever ends first ends the session: the stream, or the host that lets go.
        tokio::select! {
            () = reading => {}
            () = post(&remote, &endpoint, outgoing) => {}
        }
    });
    Ok(streams)
}

/// The address to post to; never one of another origin, which would get the headers.
fn target(base: &Url, named: &str) -> Result<Url, SendError> {
    let refuse = |text: String| SendError::Refused(SafeText::cut(&text, 400).to_string());
    let url = base.join(named.trim());
    let url = url.map_err(|error| refuse(format!("the address to post to is none: {error}")))?;
    if url.origin() != base.origin() {
        let origin = url.origin().ascii_serialization();
        return Err(refuse(format!("the address to post to is of another origin, {origin}")));
    }
    Ok(url)
}

/// Posts what the session writes. Notifications and answers one after the other; requests at once,
/// because some servers end the POST only when they have answered the request.
async fn post(remote: &Remote, endpoint: &Url, mut outgoing: BufReader<DuplexStream>) {
    let mut posts = JoinSet::new();
    loop {
        let mut line = Vec::new();
        if !matches!(outgoing.read_until(b'\n', &mut line).await, Ok(1..)) {
            break;
        }
        let message: Value = serde_json::from_slice(&line).unwrap_or_default();
        let id = message.get("method").and(message.get("id")).cloned();
        let (remote, endpoint) = (remote.clone(), endpoint.clone());
        let waits = id.is_none() || message["method"] == "initialize";
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
        if waits {
            posting.await;
        } else {
            while posts.len() >= POSTS {
                posts.join_next().await;
            }
            posts.spawn(posting);
        }
        while posts.try_join_next().is_some() {}
    }
}

/// Understands a stream of events (WHATWG HTML, section 9.2) piece by piece. The data of a message
/// goes on as it comes, on one line for each event; only names and the endpoint are kept.
#[derive(Default)]
struct Events {
    /// The line so far, when it is not the data of a message.
    line: Vec<u8>,
    /// The line is the data of a message.
    passes: bool,
    /// The event has had data that went on.
    passed: bool,
    kind: Vec<u8>,
    data: Vec<u8>,
    endpoint: Option<String>,
}

impl Events {
    fn feed(&mut self, mut piece: &[u8], out: &mut Vec<u8>) {
        while let Some(end) = memchr::memchr(b'\n', piece) {
            self.part(&piece[..end], out);
            self.end_of_line(out);
            piece = &piece[end + 1..];
        }
        self.part(piece, out);
    }

    fn part(&mut self, part: &[u8], out: &mut Vec<u8>) {
        if self.passes {
            out.extend_from_slice(part);
            return;
        }
        let message = self.kind.is_empty() || self.kind == b"message";
        let known = self.line.len();
        self.line.extend_from_slice(part);
        if message && self.line.starts_with(b"data:") {
            self.passes = true;
            if self.passed {
                out.push(b' ');
            }
            out.extend_from_slice(&self.line[b"data:".len()..]);
            self.line.clear();
        } else {
            self.line.truncate(NAME.max(known));
        }
    }

    fn end_of_line(&mut self, out: &mut Vec<u8>) {
        if self.passes {
            (self.passes, self.passed) = (false, true);
            return;
        }
        let line = std::mem::take(&mut self.line);
        // A byte-order mark may stand before the first.
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&line);
        if line.is_empty() {
            if std::mem::take(&mut self.passed) {
                out.push(b'\n');
            }
            if std::mem::take(&mut self.kind) == b"endpoint" {
                self.endpoint = Some(String::from_utf8_lossy(&self.data).into_owned());
            }
            self.data.clear();
            return;
        }
        let value = |field: &[u8]| {
            let value = line.strip_prefix(field)?.strip_prefix(b":")?;
            Some(value.strip_prefix(b" ").unwrap_or(value).to_vec())
        };
        if let Some(kind) = value(b"event") {
            self.kind = kind;
        } else if let Some(data) = value(b"data") {
            self.data = data;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_become_lines_however_they_are_cut() {
        let text = "\u{feff}event: endpoint\r\ndata: /post?x=1\r\n\r\nevent: message\rdata: {\"a\":\r\
                    data: 1}\r\revent: ping\ndata: {}\n\ndata:{\"b\":2}\r\n\r\n: hi\nid: 7\n\n";
        for size in 1..text.len() {
            let (mut events, mut out, mut returned) = (Events::default(), Vec::new(), false);
            for piece in text.as_bytes().chunks(size) {
                events.feed(&line_feeds(piece.to_vec().into(), &mut returned), &mut out);
            }
            let lines = String::from_utf8(out).expect("text").replace(' ', "");
            assert_eq!(lines, "{\"a\":1}\n{\"b\":2}\n", "in pieces of {size}");
            assert_eq!(events.endpoint.as_deref(), Some("/post?x=1"));
        }
    }

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
