//! A pair of byte streams: a child's stdin and stdout, or an in-memory pipe.
//!
//! What goes out keeps its order, is written together when several messages wait, and lets go of a
//! stuck pipe at once when it is closed. What comes in is understood by the tap; a flood of anything
//! but answers is read at a limited rate, so that it costs the other servers nothing.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::lines::{Line, Lines};
use super::unasked::Unasked;
use super::{Outgoing, SendError, Transport};
use crate::config::WireLimits;
use crate::mcp::wire::tap::Tap;

type Reader = Box<dyn AsyncRead + Send + Unpin>;
type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// The transport.
pub struct Pipe {
    out: Arc<Out>,
    _reading: AbortOnDropHandle<()>,
    _writing: AbortOnDropHandle<()>,
}

/// The outgoing half.
struct Out {
    /// Messages that may wait before new requests are held back.
    messages: usize,
    /// Bytes that may wait before new requests are held back.
    bytes: usize,
    queue: Mutex<Queue>,
    writer: tokio::sync::Mutex<Option<Writing>>,
    closed: CancellationToken,
    room: Notify,
    /// Wakes the task that writes what nobody waits for.
    idle: Notify,
}

/// What is being written.
struct Writing {
    writer: Writer,
    bytes: Vec<u8>,
    /// How much of `bytes` is written.
    done: usize,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    messages: usize,
    /// Of those, what nobody waits for: messages and bytes.
    unasked: (usize, usize),
    /// Being written now.
    writing: usize,
    broken: Option<SendError>,
}

impl Pipe {
    /// A transport that reads `read` and writes `write`.
    pub fn open(tap: &Arc<Tap>, read: Reader, write: Writer) -> Arc<Self> {
        let limits = &tap.context.limits;
        let out = Out::new(write, limits);
        let input = Input {
            tap: Arc::clone(tap),
            lines: Lines::new(read, limits.line_bytes),
            unasked: Unasked::default(),
            open: 0,
        };
        Arc::new(Self {
            _reading: AbortOnDropHandle::new(tokio::spawn(input.run())),
            _writing: AbortOnDropHandle::new(tokio::spawn(Arc::clone(&out).run())),
            out,
        })
    }
}

impl Transport for Pipe {
    fn send(self: Arc<Self>, message: Outgoing) -> BoxFuture<'static, Result<(), SendError>> {
        let queued = self.out.push(message.body, true);
        let out = Arc::clone(&self.out);
        Box::pin(async move {
            queued?;
            out.flush().await
        })
    }

    fn queue(&self, message: Vec<u8>) -> Result<(), SendError> {
        self.out.push(message, false)?;
        self.out.idle.notify_one();
        Ok(())
    }

    fn is_ready(&self) -> bool {
        self.out.is_roomy()
    }

    fn ready(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.out.has_room())
    }

    /// Closes the write half, which asks a stdio server to exit. Does not wait for what is queued.
    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.out.closed.cancel();
            if let Some(Writing { mut writer, .. }) = self.out.writer.lock().await.take() {
                let patience = Duration::from_millis(100);
                let _ = tokio::time::timeout(patience, writer.shutdown()).await;
            }
        })
    }
}

impl Out {
    /// A buffer grown for a long message is not kept.
    const SPARE: usize = 256 << 10;
    /// How many times over what nobody waits for may pile up before the server is cut off.
    const UNREAD: usize = 8;

    fn new(writer: Writer, limits: &WireLimits) -> Arc<Self> {
        Arc::new(Self {
            messages: limits.queue_messages,
            bytes: limits.queue_bytes,
            queue: Mutex::default(),
            writer: tokio::sync::Mutex::new(Some(Writing { writer, bytes: Vec::new(), done: 0 })),
            closed: CancellationToken::new(),
            room: Notify::new(),
            idle: Notify::new(),
        })
    }

    fn push(&self, message: Vec<u8>, waited_for: bool) -> Result<(), SendError> {
        let mut queue = self.queue();
        if let Some(broken) = &queue.broken {
            return Err(broken.clone());
        }
        let (messages, bytes) = queue.unasked;
        if !waited_for {
            // What is being written does not count: one long message may take its time.
            if messages > Self::UNREAD * self.messages || bytes > Self::UNREAD * self.bytes {
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

    /// Writes answers and notifications, for which nobody waits, until the pipe breaks or is closed.
    /// One task for all of them: with one for each, a server that asks faster than it reads could
    /// have any number of them wait.
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
        // Writing first: it is nearly always done at the first poll.
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
                let mut queue = self.queue();
                if let Some(broken) = &queue.broken {
                    return Err(broken.clone());
                }
                (queue.messages, queue.unasked) = (0, (0, 0));
                queue.writing = queue.bytes.len();
                *done = 0;
                bytes.clear();
                if bytes.capacity() > Self::SPARE {
                    *bytes = Vec::new();
                }
                std::mem::swap(bytes, &mut queue.bytes);
                if bytes.is_empty() {
                    drop(queue);
                    self.room.notify_waiters();
                    return Ok(());
                }
            }
            // What is written is known at every moment: whoever waits here may give up in the
            // middle of a message, and the next one goes on where it stopped.
            let written = writer.write(&bytes[*done..]).await;
            let written = written.and_then(|count| match count {
                0 => Err(std::io::ErrorKind::WriteZero.into()),
                count => Ok(count),
            });
            let broken =
                |error| SendError::Broken(format!("the server's stdin cannot be written: {error}"));
            match written {
                Ok(count) => *done += count,
                Err(error) => {
                    let error = broken(error);
                    self.queue().broken = Some(error.clone());
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
        let queue = self.queue();
        let broken = queue.broken.is_some();
        broken || queue.messages < self.messages && queue.bytes.len() + queue.writing < self.bytes
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

/// The incoming half.
struct Input {
    tap: Arc<Tap>,
    lines: Lines<Reader>,
    unasked: Unasked,
    /// Bytes read and not yet accounted for: they may belong to an answer.
    open: usize,
}

impl Input {
    /// Lines that are looked at before other tasks get their turn.
    const AT_ONCE: usize = 64;

    async fn run(mut self) {
        const CLOSED: &str = "the server closed its output";
        loop {
            let mut in_a_row = 0;
            while let Some(line) = self.lines.next_line() {
                self.take(line);
                in_a_row += 1;
                if in_a_row == Self::AT_ONCE {
                    in_a_row = 0;
                    tokio::task::yield_now().await;
                }
            }
            if self.tap.over.is_cancelled() {
                return;
            }
            if let Some(pause) = self.account() {
                tokio::time::sleep(pause).await;
            }
            self.tap.context.seen.unfinished(self.lines.unfinished());
            match self.lines.fill().await {
                Ok(0) => return self.end(CLOSED),
                Ok(read) => {
                    self.open += read;
                    self.tap.arrived(read);
                }
                Err(error) => {
                    return self.end(&format!("the server's output cannot be read: {error}"));
                }
            }
        }
    }

    /// Accounts for what was read, as far as it is known what it was; gives how long to wait.
    fn account(&mut self) -> Option<Duration> {
        let unknown = if self.lines.is_skipping() { 0 } else { self.lines.unfinished() };
        let known = self.open.saturating_sub(unknown);
        self.open -= known;
        let unasked = known.saturating_sub(self.tap.take_answered());
        self.unasked.spend(unasked, &self.tap)
    }

    fn take(&self, line: Line) {
        match line {
            Line::Whole(range) => self.tap.line(self.lines.bytes(range), None),
            Line::Oversized { head, tail, total } => self.tap.oversized(&head, &tail, total),
        }
    }

    fn end(&mut self, reason: &str) {
        if let Some(line) = self.lines.rest() {
            self.take(line);
        }
        self.tap.ended(reason);
    }
}
