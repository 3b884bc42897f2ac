//! What goes out on a pipe: messages in the order in which they were given, written together when
//! several wait. Never blocks the reader, and lets go of a stuck pipe at once when it is shut.

use std::io;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::ClientJsonRpcMessage;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::config::WireLimits;
use crate::mcp::session::trip::{Params, Written};
use crate::mcp::wire::exchange::Exchange;
use crate::mcp::wire::tap::Tap;

type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// Why a message was not written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SendError {
    /// The session was closed.
    #[error("the session is closed")]
    Closed,
    /// The pipe is broken.
    #[error("the server's stdin cannot be written: {0}")]
    Broken(Arc<io::Error>),
    /// The server reads less than it asks for.
    #[error("the server does not read the answers to what it asks: {0} messages wait for it")]
    Unread(usize),
    /// The message has no JSON form.
    #[error("the message cannot be serialised: {0}")]
    Unserialisable(Arc<serde_json::Error>),
}

/// A request as JSON-RPC has it.
#[derive(Serialize)]
struct Asking<'a> {
    jsonrpc: &'static str,
    id: i64,
    method: &'a str,
    params: Written<'a>,
}

/// The outgoing half of a pipe.
pub struct Outbox {
    /// Messages that may wait before new requests are held back.
    messages: usize,
    /// Bytes that may wait before new requests are held back.
    bytes: usize,
    queue: Mutex<Queue>,
    writer: tokio::sync::Mutex<Option<Writing>>,
    shut: CancellationToken,
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
    /// Being written now.
    writing: usize,
    broken: Option<SendError>,
}

impl Outbox {
    /// A buffer grown for a long message is not kept.
    const SPARE: usize = 256 << 10;

    /// An outbox before `writer`, with the queue that `limits` allow.
    pub fn new(writer: Writer, limits: &WireLimits) -> Arc<Self> {
        Arc::new(Self {
            messages: limits.queue_messages,
            bytes: limits.queue_bytes,
            queue: Mutex::default(),
            writer: tokio::sync::Mutex::new(Some(Writing { writer, bytes: Vec::new(), done: 0 })),
            shut: CancellationToken::new(),
            room: Notify::new(),
            idle: Notify::new(),
        })
    }

    /// Queues a message and shows it to the tap, before any byte of it can be written.
    pub fn push(&self, tap: &Tap, message: &ClientJsonRpcMessage) -> Result<(), SendError> {
        let mut queue = self.queue();
        if let Some(broken) = &queue.broken {
            return Err(broken.clone());
        }
        if self.is_full(&queue) {
            let unread = SendError::Unread(queue.messages);
            queue.broken = Some(unread.clone());
            queue.bytes = Vec::new();
            return Err(unread);
        }
        let start = queue.bytes.len();
        if let Err(error) = serde_json::to_writer(&mut queue.bytes, message) {
            queue.bytes.truncate(start);
            return Err(SendError::Unserialisable(Arc::new(error)));
        }
        tap.sending(message, &queue.bytes[start..]);
        queue.bytes.push(b'\n');
        queue.messages += 1;
        Ok(())
    }

    /// Queues a request of the session and gives its id. Requests do not go through rmcp's service
    /// loop on a pipe: they keep their order, and a server that reads nothing holds up nobody.
    pub fn ask(
        &self,
        tap: &Tap,
        exchange: &Arc<Exchange>,
        params: Option<&Params>,
        meta: &Map<String, Value>,
    ) -> Result<i64, SendError> {
        let mut queue = self.queue();
        if let Some(broken) = &queue.broken {
            return Err(broken.clone());
        }
        let (id, token) = tap.admit(exchange);
        let start = queue.bytes.len();
        let params = Written { params, meta, token };
        let request = Asking { jsonrpc: "2.0", id, method: &exchange.method, params };
        if let Err(error) = serde_json::to_writer(&mut queue.bytes, &request) {
            queue.bytes.truncate(start);
            tap.unsent(id);
            return Err(SendError::Unserialisable(Arc::new(error)));
        }
        tap.asking(id, exchange, &queue.bytes[start..]);
        queue.bytes.push(b'\n');
        queue.messages += 1;
        Ok(id)
    }

    /// Writes answers and notifications, for which nobody waits, until the pipe breaks or is shut. One
    /// task for all of them: with one for each, a server that asks faster than it reads could have
    /// any number of them wait.
    pub async fn run(self: Arc<Self>) {
        loop {
            self.idle.notified().await;
            if self.flush().await.is_err() {
                return;
            }
        }
    }

    /// Has what is queued written by [`Outbox::run`].
    pub fn flush_later(&self) {
        self.idle.notify_one();
    }

    /// Writes what is queued; returns when everything queued before the call is written.
    pub async fn flush(&self) -> Result<(), SendError> {
        if self.shut.is_cancelled() {
            return Err(SendError::Closed);
        }
        // Writing first: it is nearly always done at the first poll.
        tokio::select! {
            biased;
            result = self.write() => result,
            () = self.shut.cancelled() => Err(SendError::Closed),
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
                queue.messages = 0;
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
                0 => Err(io::ErrorKind::WriteZero.into()),
                count => Ok(count),
            });
            match written {
                Ok(count) => *done += count,
                Err(error) => {
                    let error = SendError::Broken(Arc::new(error));
                    self.queue().broken = Some(error.clone());
                    self.room.notify_waiters();
                    return Err(error);
                }
            }
            if *done == bytes.len() {
                let flushed = writer.flush().await;
                flushed.map_err(|error| SendError::Broken(Arc::new(error)))?;
            }
        }
    }

    /// Waits until little enough waits to be written.
    pub async fn has_room(&self) {
        loop {
            let notified = self.room.notified();
            if self.shut.is_cancelled() || self.is_roomy() {
                return;
            }
            tokio::select! {
                () = notified => {}
                () = self.shut.cancelled() => {}
            }
        }
    }

    /// Whether a new request need not be held back.
    pub fn is_roomy(&self) -> bool {
        let queue = self.queue();
        queue.messages < self.messages && queue.bytes.len() + queue.writing < self.bytes
    }

    /// Whether answers pile up unread. New requests are held back long before, so that what waits
    /// are answers; what is being written does not count, as one long message may take its time.
    fn is_full(&self, queue: &Queue) -> bool {
        queue.messages > 8 * self.messages || queue.bytes.len() > 8 * self.bytes
    }

    /// Closes the write half, which asks a stdio server to exit. Does not wait for what is queued.
    pub async fn shut(&self) {
        self.shut.cancel();
        if let Some(Writing { mut writer, .. }) = self.writer.lock().await.take() {
            let patience = std::time::Duration::from_millis(100);
            let _ = tokio::time::timeout(patience, writer.shutdown()).await;
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}
