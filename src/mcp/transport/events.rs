//! Server-sent events (WHATWG HTML, section 9.2) of a response, each of bounded length.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use tokio::io::AsyncRead;
use tokio_util::io::StreamReader;

use super::coding::decoded;
use super::pipe::{LineSplitter, PipeLine};

/// Longest pause a server may request before the stream is reopened.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(30);

/// The pauses before a stream is reopened: those that the server asks for (`retry`), but not less
/// than a floor, which grows while the stream brings nothing. Each request costs the host as much as
/// the server, and a server that closes each stream at once would decide how many there are.
#[derive(Debug)]
pub(crate) struct ReopenPauses {
    /// The pause where the server asks for none.
    own: Duration,
    floor: Duration,
    /// How far the floor grows.
    highest: Duration,
}

impl ReopenPauses {
    const FIRST_INTERVAL: Duration = Duration::from_secs(1);
    const LEAST_INTERVAL: Duration = Duration::from_millis(20);
    /// Floor after a stream that brought something and was closed at once.
    const BRIEF_INTERVAL: Duration = Duration::from_millis(250);
    /// A stream that lasted this long may be reopened at once.
    const LASTING_TIMEOUT: Duration = Duration::from_secs(1);

    /// Pauses whose floor grows up to `highest`.
    pub(crate) const fn new(highest: Duration) -> Self {
        Self { own: Self::FIRST_INTERVAL, floor: Self::LEAST_INTERVAL, highest }
    }

    /// The least pause after a stream that lasted this long; `brought`: a message came on it.
    pub(crate) fn after(&mut self, lasted: Duration, brought: bool) -> Duration {
        self.own = Self::FIRST_INTERVAL;
        if lasted >= Self::LASTING_TIMEOUT {
            self.floor = Self::LEAST_INTERVAL;
            return self.floor;
        }
        if brought {
            return std::mem::replace(&mut self.floor, Self::BRIEF_INTERVAL)
                .max(Self::BRIEF_INTERVAL);
        }
        let next = (self.floor * 2).min(self.highest);
        std::mem::replace(&mut self.floor, next)
    }

    /// The pause after an attempt that failed.
    pub(crate) fn after_failure(&mut self) -> Duration {
        let pause = self.own;
        self.own = (self.own * 2).min(MAX_RETRY_INTERVAL);
        pause
    }

    /// The pause where the server asks for none.
    pub(crate) const fn fallback(&self) -> Duration {
        self.own
    }
}

/// One event.
#[derive(Debug, Default)]
pub struct SseEvent {
    /// Its type; empty when it has none.
    pub kind: String,
    /// Its data on one line; for an event over the limit, its beginning.
    pub data: Vec<u8>,
    /// Length of the data of an event over the limit.
    pub over: Option<u64>,
    /// JSON beside the fields that the standard knows: on a line of its own, or in a field `error`,
    /// then as a member of that name. Some providers of models report so that a stream failed.
    pub stray: Option<Vec<u8>>,
    pub(crate) id: Option<String>,
    /// The pause the server asks for.
    pub(crate) retry: Option<Duration>,
}

/// The events of one response.
pub struct SseEvents {
    lines: LineSplitter<Box<dyn AsyncRead + Send + Unpin>>,
    limit: usize,
    event: SseEvent,
    began: bool,
    /// Whether the body is JSON rather than events, and its text.
    is_bare: bool,
    bare: Vec<u8>,
}

impl SseEvents {
    /// Events with data of at most `limit` bytes.
    pub fn new(response: reqwest::Response, limit: usize) -> Self {
        let mut returned = false;
        let bytes = decoded(response).map_ok(move |chunk| line_feeds(chunk, &mut returned)).boxed();
        Self::from_text(Box::new(StreamReader::new(bytes)), limit)
    }

    fn from_text(text: Box<dyn AsyncRead + Send + Unpin>, limit: usize) -> Self {
        Self {
            lines: LineSplitter::new(text, limit),
            limit,
            event: SseEvent::default(),
            began: false,
            is_bare: false,
            bare: Vec::new(),
        }
    }

    /// The next event; `None` at the end. One without its terminating empty line is dropped.
    pub(crate) async fn next(&mut self) -> io::Result<Option<SseEvent>> {
        loop {
            if let Some(event) = self.next_complete() {
                return Ok(Some(event));
            }
            if self.fill().await? == 0 {
                return Ok(None);
            }
        }
    }

    /// Reads more; 0 at the end of the stream.
    pub async fn fill(&mut self) -> io::Result<usize> {
        self.lines.fill().await
    }

    /// Bytes of an event that is not complete yet and may still be within the limit.
    pub(crate) fn unfinished(&self) -> usize {
        let over = self.event.over.is_some() || self.lines.is_skipping();
        if over { 0 } else { self.lines.unfinished() + self.event.data.len() }
    }

    /// The next event that is already complete.
    pub fn next_complete(&mut self) -> Option<SseEvent> {
        while let Some(line) = self.lines.next_line() {
            if let Some(event) = self.take(line) {
                return Some(event);
            }
        }
        None
    }

    /// What is left at the end of the stream, and what is odd about it: an event without the empty
    /// line that ends it, or JSON that is not in an event at all.
    pub fn last(&mut self) -> Option<(SseEvent, &'static str)> {
        if self.lines.unfinished() > 0
            && let Some(line) = self.lines.rest()
            && let Some(event) = self.take(line)
        {
            return Some((event, "the last event lacks its empty line"));
        }
        let event = std::mem::take(&mut self.event);
        if !event.data.is_empty() || event.stray.is_some() {
            return Some((event, "the last event lacks its empty line"));
        }
        let data = std::mem::take(&mut self.bare);
        let event = SseEvent { data, ..SseEvent::default() };
        (!event.data.is_empty()).then_some((event, "an answer is JSON, not an event stream"))
    }

    /// Takes a line; returns the event that it ends.
    fn take(&mut self, line: PipeLine) -> Option<SseEvent> {
        let event = &mut self.event;
        let range = match line {
            PipeLine::Whole(range) => range,
            PipeLine::Oversized(long) => {
                event.data =
                    long.head.strip_prefix(b"data:").map(<[u8]>::to_vec).unwrap_or_default();
                event.over = Some(long.total);
                return None;
            }
        };
        let mut line = self.lines.bytes(range);
        if !std::mem::replace(&mut self.began, true) {
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            self.is_bare = line.trim_ascii_start().starts_with(b"{");
        }
        if self.is_bare {
            // No field begins so.
            let room = self.limit.saturating_sub(self.bare.len());
            self.bare.extend_from_slice(&line[..line.len().min(room)]);
            return None;
        }
        if line.is_empty() {
            return Some(std::mem::take(event));
        }
        let (field, value) = match memchr::memchr(b':', line) {
            Some(at) => (&line[..at], &line[at + 1..]),
            None => (line, &b""[..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match (field, &mut event.over) {
            (b"data", Some(over)) => *over += value.len() as u64,
            (b"data", over) => {
                if !event.data.is_empty() {
                    event.data.push(b' ');
                }
                event.data.extend_from_slice(value);
                if event.data.len() > self.limit {
                    *over = Some(event.data.len() as u64);
                    event.data.truncate(64 << 10);
                }
            }
            (b"event", _) => event.kind = text(),
            (b"id", _) if value.contains(&0) => {}
            (b"id", _) => event.id = Some(text()),
            (b"retry", _) => {
                let pause = text().parse().ok().map(Duration::from_millis);
                event.retry = pause.map(|pause| pause.min(MAX_RETRY_INTERVAL));
            }
            (b"error", _) if value.starts_with(b"{") && value.len() <= self.limit => {
                event.stray = Some([b"{\"error\":", value, b"}"].concat());
            }
            _ if line.starts_with(b"{") && line.len() <= self.limit => {
                event.stray = Some(line.to_vec());
            }
            _ => {}
        }
        None
    }
}

/// The lines of one response, each of bounded length: a stream of JSON values, one a line.
pub struct ResponseLines {
    lines: LineSplitter<Box<dyn AsyncRead + Send + Unpin>>,
    is_ended: bool,
}

impl ResponseLines {
    /// Lines of at most `limit` bytes.
    pub fn new(response: reqwest::Response, limit: usize) -> Self {
        let text: Box<dyn AsyncRead + Send + Unpin> =
            Box::new(StreamReader::new(decoded(response).boxed()));
        Self { lines: LineSplitter::new(text, limit), is_ended: false }
    }

    /// Reads more; 0 at the end of the stream, where a line without its line end counts as one.
    ///
    /// # Errors
    /// When the connection fails.
    pub async fn fill(&mut self) -> io::Result<usize> {
        let read = self.lines.fill().await;
        self.is_ended |= matches!(read, Ok(0));
        read
    }

    /// The next line that is already there; `Err` with the length of one over the limit.
    pub fn next_complete(&mut self) -> Option<Result<Vec<u8>, u64>> {
        let line = match self.lines.next_line() {
            None if self.is_ended && self.lines.unfinished() > 0 => self.lines.rest(),
            line => line,
        };
        Some(match line? {
            PipeLine::Whole(range) => Ok(self.lines.bytes(range).to_vec()),
            PipeLine::Oversized(long) => Err(long.total),
        })
    }
}

/// The chunk with every line end as a line feed: a carriage return, with or without one behind it,
/// is a line end too. `returned` says whether the previous chunk ended with one.
fn line_feeds(chunk: Bytes, returned: &mut bool) -> Bytes {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_brings_nothing_is_reopened_ever_more_slowly() {
        let (moment, while_) = (Duration::from_millis(1), Duration::from_secs(60));
        let mut pauses = ReopenPauses::new(Duration::from_secs(5));
        let total: Duration = (0..20).map(|_| pauses.after(moment, false)).sum();
        assert!(total > Duration::from_secs(60), "{total:?}");
        assert_eq!(pauses.after(moment, true), Duration::from_secs(5));
        // With something on each stream it is a few times a second.
        assert!(pauses.after(moment, true) >= Duration::from_millis(250));
        assert_eq!(pauses.after(while_, false), Duration::from_millis(20));
        let failures: Vec<u64> = (0..7).map(|_| pauses.after_failure().as_secs()).collect();
        assert_eq!(failures, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[tokio::test]
    async fn events_are_the_same_however_they_are_cut() {
        let text = "\u{feff}event: endpoint\r\ndata: /post?x=1\r\n\r\nevent: message\rdata: {\"a\":\r\
                    data: 1}\r\revent: ping\ndata: {}\n\ndata:{\"b\":2}\r\n\r\n: hi\nid: 7\n\n";
        for size in 1..text.len() {
            let mut returned = false;
            let pieces = text.as_bytes().chunks(size).map(|piece| piece.to_vec().into());
            let pieces: Vec<_> =
                pieces.map(|piece| Ok::<_, io::Error>(line_feeds(piece, &mut returned))).collect();
            let reader = StreamReader::new(futures::stream::iter(pieces));
            let (mut events, mut found) = (SseEvents::from_text(Box::new(reader), 100), Vec::new());
            while let Some(event) = events.next().await.expect("read") {
                let data = String::from_utf8(event.data).expect("text").replace(' ', "");
                found.push(format!("{} {data} {}", event.kind, event.id.unwrap_or_default()));
            }
            let expected =
                ["endpoint /post?x=1 ", "message {\"a\":1} ", "ping {} ", " {\"b\":2} ", "  7"];
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }
}
