//! Server-sent events (WHATWG HTML, section 9.2) with a cap, every one of them shown to the tap. What
//! nobody asked for is read at a limited rate.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use tokio::io::AsyncRead;
use tokio_util::io::StreamReader;

use super::Http;
use crate::mcp::transport::pipe::{Line, Lines};

/// A server may ask for a pause before the stream is opened again, within reason.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Where a stream was when it ended.
#[derive(Debug, Default)]
pub(super) struct Mark {
    /// The last event that had an id.
    pub(super) id: Option<String>,
    /// The pause the server asks for.
    pub(super) retry: Option<Duration>,
}

/// The events of one response.
pub(super) struct Events<'a> {
    http: &'a Http,
    lines: Lines<Box<dyn AsyncRead + Send + Unpin>>,
    mark: &'a mut Mark,
    /// The request whose answer this stream is for.
    request: Option<i64>,
    data: Vec<u8>,
    id: Option<String>,
    /// Bytes of an event that is over the limit.
    over: Option<u64>,
    /// Bytes read and not yet accounted for: they may belong to an answer.
    open: usize,
    /// Bytes of answers since the last account.
    answered: usize,
    began: bool,
}

impl<'a> Events<'a> {
    /// Lines read before the other servers have a turn. A body arrives in pieces of hundreds of
    /// kilobytes, and thousands of events in one go would be milliseconds of silence for them.
    const AT_ONCE: usize = 64;

    pub(super) fn new(
        http: &'a Http,
        response: reqwest::Response,
        request: Option<i64>,
        mark: &'a mut Mark,
    ) -> Self {
        let mut returned = false;
        let bytes = response.bytes_stream().map_err(std::io::Error::other);
        let bytes = bytes.map_ok(move |chunk| line_feeds(chunk, &mut returned)).boxed();
        Self {
            lines: Lines::new(
                Box::new(StreamReader::new(bytes)),
                http.tap.context.limits.line_bytes,
            ),
            http,
            mark,
            request,
            data: Vec::new(),
            id: None,
            over: None,
            open: 0,
            answered: 0,
            began: false,
        }
    }

    /// Reads to the end, or until the request has its answer.
    pub(super) async fn read(mut self) {
        let mut in_a_row = 0;
        loop {
            while let Some(line) = self.lines.next_line() {
                self.line(line);
                in_a_row += 1;
                if in_a_row == Self::AT_ONCE {
                    in_a_row = 0;
                    tokio::task::yield_now().await;
                }
            }
            if self.request.is_some_and(|id| !self.http.tap.is_pending(id)) {
                return;
            }
            if let Some(pause) = self.account() {
                tokio::time::sleep(pause).await;
            }
            match self.lines.fill().await {
                // An event without its empty line is incomplete and not dispatched.
                Ok(0) | Err(_) => return,
                Ok(read) => {
                    self.open += read;
                    self.http.tap.arrived(read);
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
        self.http.spend(known.saturating_sub(std::mem::take(&mut self.answered)))
    }

    fn line(&mut self, line: Line) {
        let range = match line {
            Line::Whole(range) => range,
            Line::Oversized(long) => {
                self.data =
                    long.head.strip_prefix(b"data:").map(<[u8]>::to_vec).unwrap_or_default();
                self.over = Some(long.total);
                return;
            }
        };
        let mut line = self.lines.bytes(range);
        if !std::mem::replace(&mut self.began, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
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
                if self.data.len() > self.http.tap.context.limits.line_bytes {
                    self.over = Some(self.data.len() as u64);
                    self.data.truncate(64 << 10);
                }
            }
            b"id" => self.id = Some(text()),
            b"retry" => {
                let pause = text().parse().ok().map(Duration::from_millis);
                self.mark.retry = pause.map(|pause| pause.min(LONGEST_PAUSE));
            }
            _ => {}
        }
    }

    fn dispatch(&mut self) {
        if let Some(id) = self.id.take() {
            self.mark.id = Some(id);
        }
        let data = std::mem::take(&mut self.data);
        match self.over.take() {
            Some(total) => {
                self.http.tap.oversized(&data, b"", total);
                if let Some(id) = self.request {
                    let reason = format!("an event of {total} bytes is over the limit");
                    self.http.tap.unanswered(id, &reason);
                }
            }
            None => self.answered += self.http.show(&data, self.request),
        }
    }
}

/// The same with every line end as a line feed: a carriage return, with or without one behind it, is
/// a line end too. `returned` says whether the chunk before ended with one.
pub(in crate::mcp::transport) fn line_feeds(chunk: Bytes, returned: &mut bool) -> Bytes {
    if !*returned && memchr::memchr(b'\r', &chunk).is_none() {
        return chunk;
    }
    let mut out = Vec::with_capacity(chunk.len());
    for byte in chunk {
        let after = std::mem::replace(returned, byte == b'\r');
        match byte {
            b'\r' => out.push(b'\n'),
            b'\n' if after => {}
            byte => out.push(byte),
        }
    }
    out.into()
}
