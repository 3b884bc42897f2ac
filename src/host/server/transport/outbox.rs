//! What goes out on a pipe: messages in the order in which they were given, written together when
//! several wait. Never blocks the reader, and lets go of a stuck pipe at once when it is shut.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rmcp::model::ClientJsonRpcMessage;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::host::server::wire::tap::Tap;

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
    /// The message has no JSON form.
    #[error("the message cannot be serialised: {0}")]
    Unserialisable(Arc<serde_json::Error>),
}

/// The outgoing half of a pipe.
pub struct Outbox {
    queue: Mutex<Queue>,
    writer: tokio::sync::Mutex<Option<Writer>>,
    shut: CancellationToken,
    room: Notify,
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
    /// Messages that may wait before new requests are held back.
    const MESSAGES: usize = 256;
    /// Bytes that may wait before new requests are held back.
    const BYTES: usize = 1 << 20;
    /// A buffer grown for a long message is not kept.
    const SPARE: usize = 256 << 10;

    /// An outbox before `writer`.
    pub fn new(writer: Writer) -> Arc<Self> {
        Arc::new(Self {
            queue: Mutex::default(),
            writer: tokio::sync::Mutex::new(Some(writer)),
            shut: CancellationToken::new(),
            room: Notify::new(),
        })
    }

    /// Queues a message and shows it to the tap, before any byte of it can be written.
    pub fn push(&self, tap: &Tap, message: &ClientJsonRpcMessage) -> Result<(), SendError> {
        let mut queue = self.queue();
        if let Some(broken) = &queue.broken {
            return Err(broken.clone());
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

    /// Writes what is queued; returns when everything queued before the call is written.
    pub async fn flush(&self) -> Result<(), SendError> {
        tokio::select! {
            biased;
            () = self.shut.cancelled() => Err(SendError::Closed),
            result = self.write() => result,
        }
    }

    async fn write(&self) -> Result<(), SendError> {
        let mut slot = self.writer.lock().await;
        let writer = slot.as_mut().ok_or(SendError::Closed)?;
        let bytes = {
            let mut queue = self.queue();
            if let Some(broken) = &queue.broken {
                return Err(broken.clone());
            }
            queue.messages = 0;
            queue.writing = queue.bytes.len();
            std::mem::take(&mut queue.bytes)
        };
        if bytes.is_empty() {
            return Ok(());
        }
        let written = async {
            writer.write_all(&bytes).await?;
            writer.flush().await
        };
        let result = written.await.map_err(|error| SendError::Broken(Arc::new(error)));
        let mut queue = self.queue();
        queue.writing = 0;
        if let Err(error) = &result {
            queue.broken = Some(error.clone());
        }
        if queue.bytes.is_empty() && bytes.capacity() <= Self::SPARE {
            let mut bytes = bytes;
            bytes.clear();
            queue.bytes = bytes;
        }
        drop(queue);
        self.room.notify_waiters();
        result
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
        queue.messages < Self::MESSAGES && queue.bytes.len() + queue.writing < Self::BYTES
    }

    /// Whether answers to the server pile up unread.
    pub fn is_hopeless(&self) -> bool {
        let queue = self.queue();
        queue.bytes.len() + queue.writing > 8 * Self::BYTES
    }

    /// Closes the write half, which asks a stdio server to exit. Does not wait for what is queued.
    pub async fn shut(&self) {
        self.shut.cancel();
        if let Some(mut writer) = self.writer.lock().await.take() {
            let patience = std::time::Duration::from_millis(100);
            let _ = tokio::time::timeout(patience, writer.shutdown()).await;
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
