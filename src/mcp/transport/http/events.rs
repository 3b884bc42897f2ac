//! Server-sent events (WHATWG HTML, section 9.2) with a cap, every one of them shown to the tap. What
//! nobody asked for is read at a limited rate.

use std::collections::VecDeque;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use rmcp::transport::streamable_http_client::SseError;
use sse_stream::Sse;
use tokio::io::AsyncRead;
use tokio_util::io::StreamReader;

use super::client::HttpClient;
use super::{Held, post};
use crate::mcp::transport::lines::{Line, Lines};
use crate::mcp::wire::tap::Delivery;

/// A server may ask for a pause before the stream is opened again, within reason.
const LONGEST_PAUSE_MS: u64 = 30_000;

type Source = Box<dyn AsyncRead + Send + Unpin>;

struct Events {
    client: HttpClient,
    lines: Lines<Source>,
    data: Vec<u8>,
    /// Bytes of an event that is over the limit.
    over: Option<u64>,
    meta: Sse,
    ready: VecDeque<Sse>,
    /// The request whose answer this stream is for.
    request: Option<i64>,
    ended: bool,
    /// Bytes read and not yet accounted for: they may belong to an answer.
    open: usize,
    /// Bytes of answers since the last account.
    answered: usize,
    /// Lines read since others had their turn.
    in_a_row: usize,
}

/// The events of a response, as stand-ins.
pub(super) fn stream(
    response: reqwest::Response,
    client: HttpClient,
    request: Option<i64>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let bytes = response.bytes_stream().map_err(std::io::Error::other).boxed();
    let limit = client.tap.context.limits.line_bytes;
    let events = Events {
        client,
        lines: Lines::new(Box::new(StreamReader::new(bytes)), limit),
        data: Vec::new(),
        over: None,
        meta: Sse::default(),
        ready: VecDeque::new(),
        request,
        ended: false,
        open: 0,
        answered: 0,
        in_a_row: 0,
    };
    futures::stream::unfold(events, |mut events| async move {
        let next = events.next().await?;
        Some((next, events))
    })
    .boxed()
}

/// A delivery as an event.
pub(super) fn event(held: &Held, delivery: Delivery) -> Sse {
    Sse { data: post::text(&held.stand_in(delivery)), ..Sse::default() }
}

impl Events {
    /// Lines read before the other servers have a turn. A body arrives in pieces of hundreds of
    /// kilobytes, and thousands of events in one go would be milliseconds of silence for them.
    const AT_ONCE: usize = 64;

    async fn next(&mut self) -> Option<Result<Sse, SseError>> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            if self.ended {
                return None;
            }
            while let Some(line) = self.lines.next_line() {
                self.line(line);
                self.in_a_row += 1;
                if self.in_a_row >= Self::AT_ONCE {
                    self.in_a_row = 0;
                    tokio::task::yield_now().await;
                }
                if !self.ready.is_empty() {
                    break;
                }
            }
            if !self.ready.is_empty() {
                continue;
            }
            if let Some(pause) = self.account() {
                tokio::time::sleep(pause).await;
            }
            match self.lines.fill().await {
                // An event without its empty line is incomplete and not dispatched.
                Ok(0) => self.ended = true,
                Ok(read) => {
                    self.open += read;
                    self.client.tap.arrived(read);
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(SseError::Body(Box::new(error))));
                }
            }
        }
    }

    /// Accounts for what was read, as far as it is known what it was; gives how long to wait.
    fn account(&mut self) -> Option<Duration> {
        let over = self.over.is_some() || self.lines.is_skipping();
        let unknown = if over { 0 } else { self.lines.unfinished() + self.data.len() };
        let known = self.open.saturating_sub(unknown);
        self.open -= known;
        self.client.spend(known.saturating_sub(std::mem::take(&mut self.answered)))
    }

    fn line(&mut self, line: Line) {
        let range = match line {
            Line::Whole(range) => range,
            Line::Oversized { head, total, .. } => {
                self.data = head.strip_prefix(b"data:").map(<[u8]>::to_vec).unwrap_or_default();
                self.over = Some(total);
                return;
            }
        };
        let line = self.lines.bytes(range);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match field {
            b"data" if self.over.is_some() => self.over = self.over.map(|n| n + value.len() as u64),
            b"data" => {
                if !self.data.is_empty() {
                    self.data.push(b' ');
                }
                self.data.extend_from_slice(value);
                if self.data.len() > self.client.tap.context.limits.line_bytes {
                    self.over = Some(self.data.len() as u64);
                    self.data.truncate(64 << 10);
                }
            }
            b"id" => self.meta.id = Some(text()),
            b"retry" => {
                self.meta.retry = text().parse().ok().map(|ms: u64| ms.min(LONGEST_PAUSE_MS));
            }
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        let meta = std::mem::take(&mut self.meta);
        let data = std::mem::take(&mut self.data);
        let mut out = VecDeque::new();
        match self.over.take() {
            Some(total) => {
                self.client.tap.oversized(&data, b"", total, &mut out);
                if let Some(id) = self.request {
                    let reason = format!("an event of {total} bytes is over the limit");
                    self.client.tap.unanswered(id, &reason, &mut out);
                }
            }
            None => self.answered += self.client.show(&data, &mut out),
        }
        for delivery in out {
            self.ready.push_back(event(&self.client.held, delivery));
        }
        // The id and the pause belong to what was dispatched, even if nothing is handed on.
        match self.ready.back_mut() {
            Some(last) => {
                last.id = meta.id;
                last.retry = meta.retry;
            }
            None if meta != Sse::default() => self.ready.push_back(meta),
            None => {}
        }
    }
}
