//! A pair of byte streams: a child's stdin and stdout, or an in-memory pipe.
//!
//! Outgoing messages keep their order, are written together when several wait, and release a stuck
//! pipe at once when it is closed. Incoming lines are parsed by the tap; anything but answers is
//! read at a limited rate, so that a flood costs the other servers nothing.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::BufMut;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::unasked::Unasked;
use super::{Outgoing, Transport};
use protocol::{Outbox, SendError, Tap};

type PipeReader = Box<dyn AsyncRead + Send + Unpin>;
type PipeWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// The transport.
pub struct PipeTransport {
    out: Arc<PipeOutput>,
    _reading: AbortOnDropHandle<()>,
    _writing: AbortOnDropHandle<()>,
}

/// The outgoing half.
struct PipeOutput {
    /// Messages that may wait before new requests are held back.
    messages: usize,
    /// Bytes that may wait before new requests are held back.
    bytes: usize,
    queue: Mutex<Queue>,
    writer: tokio::sync::Mutex<Option<Writing>>,
    closed: CancellationToken,
    room: Notify,
    /// Wakes the task that writes messages no caller waits for.
    idle: Notify,
}

/// What is being written.
struct Writing {
    writer: PipeWriter,
    bytes: Vec<u8>,
    /// How much of `bytes` is written.
    done: usize,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    messages: usize,
    /// Of those, the ones no caller waits for: messages and bytes.
    unasked: (usize, usize),
    /// Bytes being written now.
    writing: usize,
    broken: Option<SendError>,
}

impl PipeTransport {
    /// A transport that reads `read` and writes `write`.
    pub fn open(tap: &Arc<Tap>, read: PipeReader, write: PipeWriter) -> Arc<Self> {
        let limits = &tap.context.limits;
        let out = Arc::new(PipeOutput {
            messages: limits.queue_messages,
            bytes: limits.queue_bytes,
            queue: Mutex::default(),
            writer: tokio::sync::Mutex::new(Some(Writing {
                writer: write,
                bytes: Vec::new(),
                done: 0,
            })),
            closed: CancellationToken::new(),
            room: Notify::new(),
            idle: Notify::new(),
        });
        let input = PipeInput {
            tap: Arc::clone(tap),
            lines: LineSplitter::new(read, limits.line_bytes),
            unasked: Unasked::default(),
            open: 0,
            last: PipeInput::MAX_LAST_BYTES,
        };
        Arc::new(Self {
            _reading: AbortOnDropHandle::new(tokio::spawn(input.run())),
            _writing: AbortOnDropHandle::new(tokio::spawn(Arc::clone(&out).run())),
            out,
        })
    }
}

impl Outbox for PipeTransport {
    fn queue(&self, message: Vec<u8>) -> Result<(), SendError> {
        self.out.push(message, false)?;
        self.out.idle.notify_one();
        Ok(())
    }
}

impl Transport for PipeTransport {
    fn send(self: Arc<Self>, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>> {
        let queued = self.out.push(message.body, true);
        let out = Arc::clone(&self.out);
        Box::pin(async move {
            queued?;
            out.flush().await
        })
    }

    fn is_ready(&self) -> bool {
        self.out.is_roomy()
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.out.has_room())
    }

    /// Writes what is queued, unless the server does not read it, and closes the write half, which
    /// asks a stdio server to exit.
    fn close(&self) -> BoxFuture<'_, ()> {
        const CLOSE_TIMEOUT: Duration = Duration::from_millis(100);
        Box::pin(async {
            let _ = tokio::time::timeout(CLOSE_TIMEOUT, self.out.write()).await;
            self.out.closed.cancel();
            if let Some(Writing { mut writer, .. }) = self.out.writer.lock().await.take() {
                let _ = tokio::time::timeout(CLOSE_TIMEOUT, writer.shutdown()).await;
            }
        })
    }
}

impl PipeOutput {
    /// Capacity in bytes above which a buffer grown for a long message is freed.
    const MAX_SPARE_BYTES: usize = 256 << 10;
    /// Multiple of the limits to which unread messages may pile up before the server is cut off.
    const MAX_UNREAD_MESSAGES: usize = 8;

    fn push(&self, message: Vec<u8>, waited_for: bool) -> Result<(), SendError> {
        let mut queue = self.queue.lock();
        if let Some(broken) = &queue.broken {
            return Err(broken.clone());
        }
        let (messages, bytes) = queue.unasked;
        if !waited_for {
            // Bytes being written do not count: one long message may take its time.
            if messages > Self::MAX_UNREAD_MESSAGES * self.messages
                || bytes > Self::MAX_UNREAD_MESSAGES * self.bytes
            {
                let unread = SendError::Unread(messages);
                queue.broken = Some(unread.clone());
                queue.bytes = Vec::new();
                self.closed.cancel();
                self.idle.notify_one();
                return Err(unread);
            }
            queue.unasked = (messages + 1, bytes + message.len());
        }
        if queue.bytes.is_empty() {
            queue.bytes = message;
        } else {
            queue.bytes.extend_from_slice(&message);
        }
        queue.bytes.push(b'\n');
        queue.messages += 1;
        Ok(())
    }

    /// Writes answers and notifications, which no caller waits for, until the pipe breaks or is
    /// closed. One task for all of them: with one for each, a server that requests faster than it
    /// reads could make any number of them wait.
    async fn run(self: Arc<Self>) {
        loop {
            self.idle.notified().await;
            if self.flush().await.is_err() {
                self.writer.lock().await.take();
                return;
            }
        }
    }

    /// Writes what is queued; returns when everything queued before the call is written.
    async fn flush(&self) -> Result<(), SendError> {
        if self.closed.is_cancelled() {
            return Err(SendError::Closed);
        }
        // Writing first: it nearly always completes on the first poll.
        tokio::select! {
            biased;
            result = self.write() => result,
            () = self.closed.cancelled() => Err(SendError::Closed),
        }
    }

    async fn write(&self) -> Result<(), SendError> {
        let mut slot = self.writer.lock().await;
        let Writing { writer, bytes, done } = slot.as_mut().ok_or(SendError::Closed)?;
        loop {
            if *done == bytes.len() {
                let mut queue = self.queue.lock();
                if let Some(broken) = &queue.broken {
                    return Err(broken.clone());
                }
                (queue.messages, queue.unasked) = (0, (0, 0));
                queue.writing = queue.bytes.len();
                *done = 0;
                bytes.clear();
                if bytes.capacity() > Self::MAX_SPARE_BYTES {
                    *bytes = Vec::new();
                }
                std::mem::swap(bytes, &mut queue.bytes);
                if bytes.is_empty() {
                    drop(queue);
                    self.room.notify_waiters();
                    return Ok(());
                }
            }
            // Progress is recorded after every write: the caller may be cancelled in the middle of
            // a message, and the next one continues where it stopped.
            let written = writer.write(&bytes[*done..]).await;
            let written = written.and_then(|count| match count {
                0 => Err(std::io::ErrorKind::WriteZero.into()),
                count => Ok(count),
            });
            let broken = |error| {
                let text = format!("the server's stdin cannot be written: {error}");
                SendError::Broken(text.into())
            };
            match written {
                Ok(count) => *done += count,
                Err(error) => {
                    let error = broken(error);
                    self.queue.lock().broken = Some(error.clone());
                    self.room.notify_waiters();
                    return Err(error);
                }
            }
            if *done == bytes.len() {
                writer.flush().await.map_err(broken)?;
            }
        }
    }

    async fn has_room(&self) {
        loop {
            let notified = self.room.notified();
            if self.closed.is_cancelled() || self.is_roomy() {
                return;
            }
            tokio::select! {
                () = notified => {}
                () = self.closed.cancelled() => {}
            }
        }
    }

    fn is_roomy(&self) -> bool {
        let queue = self.queue.lock();
        let broken = queue.broken.is_some();
        broken || queue.messages < self.messages && queue.bytes.len() + queue.writing < self.bytes
    }
}

/// The incoming half.
struct PipeInput {
    tap: Arc<Tap>,
    lines: LineSplitter<PipeReader>,
    unasked: Unasked,
    /// Bytes read and not yet accounted for: they may belong to an answer.
    open: usize,
    /// Bytes that may still be read once the session is over.
    last: usize,
}

/// Why a session over a pipe ends when nothing more can come.
pub const CLOSED: &str = "the server closed its output";

impl PipeInput {
    /// Lines processed before other tasks get a turn.
    const MAX_TURN_LINES: usize = 64;
    /// Bytes of a server that are looked at after its session is over, for a question that nobody
    /// can answer any more.
    const MAX_LAST_BYTES: usize = 1 << 20;

    async fn run(mut self) {
        loop {
            let mut in_a_row = 0;
            while let Some(line) = self.lines.next_line() {
                self.take(line);
                in_a_row += 1;
                if in_a_row == Self::MAX_TURN_LINES {
                    in_a_row = 0;
                    tokio::task::yield_now().await;
                }
            }
            if self.tap.over.is_cancelled() {
                if self.last == 0 || !self.tap.is_closed() {
                    return;
                }
            } else if let Some(pause) = self.account() {
                tokio::time::sleep(pause).await;
            }
            let unfinished = self.lines.unfinished();
            self.tap.context.seen.with(|seen| seen.unfinished = unfinished);
            match self.lines.fill().await {
                Ok(0) => return self.end(CLOSED),
                Ok(read) => {
                    self.open += read;
                    if self.tap.over.is_cancelled() {
                        self.last = self.last.saturating_sub(read);
                    }
                    self.tap.arrived(read);
                }
                // The connection says why it ended.
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {
                    return self.end(&error.to_string());
                }
                Err(error) => {
                    return self.end(&format!("the server's output cannot be read: {error}"));
                }
            }
        }
    }

    /// Accounts for the bytes read whose nature is known; returns how long to pause.
    fn account(&mut self) -> Option<Duration> {
        let unknown = if self.lines.is_skipping() { 0 } else { self.lines.unfinished() };
        let known = self.open.saturating_sub(unknown);
        self.open -= known;
        let unasked = known.saturating_sub(self.tap.take_answered());
        self.unasked.spend(unasked, &self.tap)
    }

    fn take(&self, line: PipeLine) {
        match line {
            PipeLine::Whole(range) => self.tap.line(self.lines.bytes(range), None),
            PipeLine::Oversized(long) => self.tap.oversized(&long.head, &long.tail, long.total),
        }
    }

    fn end(&mut self, reason: &str) {
        if let Some(line) = self.lines.rest() {
            self.take(line);
        }
        self.tap.ended(reason);
    }
}

// Splitting a byte stream into lines with a hard limit: a longer line is skipped in bounded memory.

/// The next item of the stream.
#[derive(Debug, PartialEq, Eq)]
pub enum PipeLine {
    /// A whole line, without its break, as a range of [`LineSplitter::bytes`].
    Whole(Range<usize>),
    /// A line over the limit: its beginning and end.
    Oversized(Oversized),
}

/// Splits a stream into lines.
pub struct LineSplitter<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Start of the bytes not handed out yet.
    start: usize,
    /// Everything before this was already searched for a line break.
    searched: usize,
    limit: usize,
    skipping: Option<Oversized>,
    step: usize,
    small: u32,
}

/// What is kept of a line over the limit.
#[derive(Debug, PartialEq, Eq)]
pub struct Oversized {
    /// Its beginning.
    pub head: Vec<u8>,
    /// Its end.
    pub tail: Vec<u8>,
    /// Its length in bytes.
    pub total: u64,
}

impl Oversized {
    const MAX_HEAD_BYTES: usize = 64 << 10;
    const MAX_TAIL_BYTES: usize = 512;

    fn new(bytes: &[u8]) -> Self {
        let head = bytes[..bytes.len().min(Self::MAX_HEAD_BYTES)].to_vec();
        let mut new = Self { head, tail: Vec::new(), total: 0 };
        new.add(bytes);
        new
    }

    fn add(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        self.tail.extend_from_slice(&bytes[bytes.len().saturating_sub(Self::MAX_TAIL_BYTES)..]);
        self.tail.drain(..self.tail.len().saturating_sub(Self::MAX_TAIL_BYTES));
    }
}

impl<R: AsyncRead + Unpin> LineSplitter<R> {
    /// Bytes by which the buffer grows at first; doubled while reads fill it.
    const READ_STEP_BYTES: usize = 8 << 10;
    /// Most bytes by which the buffer grows.
    const MAX_STEP_BYTES: usize = 256 << 10;
    /// Most bytes of one read. While a large pipe is being drained its writer is blocked; reading
    /// in parts lets both work at the same time.
    const MAX_READ_BYTES: usize = 64 << 10;
    /// A buffer grown for a long line is freed after this many reads that did not need it.
    const MAX_SMALL_READS: u32 = 32;

    /// Lines of at most `limit` bytes.
    pub const fn new(reader: R, limit: usize) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            start: 0,
            searched: 0,
            limit,
            skipping: None,
            step: Self::READ_STEP_BYTES,
            small: 0,
        }
    }

    /// The bytes of a [`PipeLine::Whole`] range; valid until [`LineSplitter::fill`].
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }

    /// Bytes that wait for their line break.
    pub const fn unfinished(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Whether the line being read is over the limit, so that its bytes are discarded.
    pub const fn is_skipping(&self) -> bool {
        self.skipping.is_some()
    }

    /// The next line that is already complete.
    pub fn next_line(&mut self) -> Option<PipeLine> {
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        if let Some(skipping) = &mut self.skipping {
            let end = found.map_or(self.buffer.len(), |at| self.searched + at);
            skipping.add(&self.buffer[self.start..end]);
            self.start = end + usize::from(found.is_some());
            self.searched = self.start;
            found?;
            return self.skipping.take().map(PipeLine::Oversized);
        }
        let Some(at) = found else {
            self.searched = self.buffer.len();
            if self.unfinished() > self.limit {
                self.skipping = Some(Oversized::new(&self.buffer[self.start..]));
                self.start = self.buffer.len();
            }
            return None;
        };
        let line = self.start..self.searched + at;
        self.start = line.end + 1;
        self.searched = self.start;
        if line.len() > self.limit {
            return Some(PipeLine::Oversized(Oversized::new(&self.buffer[line])));
        }
        Some(PipeLine::Whole(line))
    }

    /// Reads more; 0 at the end of the stream. Cancel-safe.
    pub async fn fill(&mut self) -> io::Result<usize> {
        self.make_room();
        let read =
            self.reader.read_buf(&mut (&mut self.buffer).limit(Self::MAX_READ_BYTES)).await?;
        self.step =
            if read >= self.step { (self.step * 2).min(Self::MAX_STEP_BYTES) } else { self.step };
        Ok(read)
    }

    /// The unterminated line at the end of the stream.
    pub fn rest(&mut self) -> Option<PipeLine> {
        self.buffer.push(b'\n');
        self.next_line()
    }

    fn make_room(&mut self) {
        if self.start > 0 {
            self.buffer.copy_within(self.start.., 0);
            self.buffer.truncate(self.buffer.len() - self.start);
            self.searched -= self.start;
            self.start = 0;
        }
        self.small = if self.buffer.len() < Self::READ_STEP_BYTES { self.small + 1 } else { 0 };
        if self.small > Self::MAX_SMALL_READS && self.buffer.capacity() > Self::MAX_STEP_BYTES {
            self.buffer.shrink_to(Self::READ_STEP_BYTES);
            self.step = Self::READ_STEP_BYTES;
            self.small = 0;
        }
        if self.buffer.capacity() - self.buffer.len() < self.step {
            self.buffer.reserve(self.step);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(text: &[u8], limit: usize) -> Vec<String> {
        let mut lines = LineSplitter::new(text, limit);
        let mut out = Vec::new();
        loop {
            let mut next = lines.next_line();
            let ended = next.is_none() && lines.fill().await.unwrap() == 0;
            if ended {
                next = lines.rest();
            }
            match next {
                Some(PipeLine::Whole(range)) => {
                    out.push(String::from_utf8_lossy(lines.bytes(range)).into_owned());
                }
                Some(PipeLine::Oversized(Oversized { head, tail, total })) => {
                    let (head, tail) = (head.len(), String::from_utf8_lossy(&tail).into_owned());
                    out.push(format!(
                        "{total} bytes, {head} of head, ..{}",
                        &tail[tail.len() - 3..]
                    ));
                }
                None => {}
            }
            if ended {
                return out;
            }
        }
    }

    #[tokio::test]
    async fn splits_lines_and_gives_the_unfinished_one_at_the_end() {
        assert_eq!(all(b"a\n\nbc\r\nd", 10).await, ["a", "", "bc\r", "d"]);
        assert_eq!(all(b"a\n", 10).await, ["a", ""]);
    }

    #[tokio::test]
    async fn skips_a_line_over_the_limit_and_goes_on_behind_it() {
        let mut text = vec![b'x'; 20 << 20];
        text.extend_from_slice(b"yz}\nnext\n");
        let got = all(&text, 1 << 20).await;
        assert_eq!(got[0], format!("{} bytes, {} of head, ..yz}}", (20 << 20) + 3, 64 << 10));
        assert_eq!(got[1], "next");
        assert_eq!(all(b"0123456789\nok", 5).await[1], "ok");
    }

    #[tokio::test]
    async fn a_line_without_end_costs_no_more_than_its_limit() {
        let mut lines = LineSplitter::new(tokio::io::repeat(b'x'), 1 << 20);
        for _ in 0..1000 {
            lines.fill().await.unwrap();
            assert_eq!(lines.next_line(), None);
            assert!(lines.buffer.capacity() <= 4 << 20, "{}", lines.buffer.capacity());
        }
    }

    use std::collections::VecDeque;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use proptest::prelude::*;
    use tokio::io::ReadBuf;

    /// Yields a stream in pieces, returning `Pending` before each.
    struct Pieces {
        left: VecDeque<Vec<u8>>,
        hesitates: bool,
    }

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            into: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            self.hesitates = !self.hesitates;
            if self.hesitates {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if let Some(mut piece) = self.left.pop_front() {
                let rest = piece.split_off(piece.len().min(into.remaining()));
                into.put_slice(&piece);
                if !rest.is_empty() {
                    self.left.push_front(rest);
                }
            }
            Poll::Ready(Ok(()))
        }
    }

    /// The expected lines of a text: whole, or their length.
    fn by_hand(text: &[u8], limit: usize) -> Vec<Result<Vec<u8>, u64>> {
        let lines = text.split(|byte| *byte == b'\n');
        lines.map(|l| if l.len() > limit { Err(l.len() as u64) } else { Ok(l.to_vec()) }).collect()
    }

    fn shown<R: AsyncRead + Unpin>(
        lines: &LineSplitter<R>,
        line: PipeLine,
    ) -> Result<Vec<u8>, u64> {
        match line {
            PipeLine::Whole(range) => Ok(lines.bytes(range).to_vec()),
            PipeLine::Oversized(Oversized { head, tail, total }) => {
                assert!(head.len() as u64 <= total && tail.len() as u64 <= total);
                Err(total)
            }
        }
    }

    proptest! {
        #[test]
        fn lines_are_the_same_in_whatever_pieces_they_come_and_whoever_stops_waiting(
            pieces in prop::collection::vec(prop::collection::vec(
                prop_oneof![3 => any::<u8>(), 1 => Just(b'\n')], 1..40), 0..30),
            limit in 0_usize..60,
        ) {
            let text = pieces.concat();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let got = runtime.block_on(async {
                let pieces = Pieces { left: pieces.into(), hesitates: false };
                let (mut lines, mut got) = (LineSplitter::new(pieces, limit), Vec::new());
                loop {
                    if let Some(line) = lines.next_line() {
                        got.push(shown(&lines, line));
                        continue;
                    }
                    // Cancels at once; the next iteration waits again.
                    let read = tokio::select! {
                        biased;
                        read = lines.fill() => Some(read.unwrap()),
                        () = std::future::ready(()) => None,
                    };
                    if read == Some(0) {
                        let rest = lines.rest();
                        got.extend(rest.map(|line| shown(&lines, line)));
                        return got;
                    }
                }
            });
            prop_assert_eq!(got, by_hand(&text, limit));
        }
    }
}
