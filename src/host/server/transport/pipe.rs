//! rmcp's transport over a pair of byte streams: a child's stdin and stdout, or an in-memory pipe.
//!
//! Replaces rmcp's own: lines are understood once, by the tap, and results stay raw values.

use std::collections::VecDeque;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncRead;

use super::lines::{Line, Lines};
use super::outbox::{Outbox, SendError};
use crate::host::server::wire::tap::{Delivery, Tap};

/// The transport.
pub struct Pipe {
    tap: Arc<Tap>,
    lines: Lines<Box<dyn AsyncRead + Send + Unpin>>,
    outbox: Arc<Outbox>,
    ready: VecDeque<Delivery>,
    ended: bool,
}

impl Pipe {
    /// A transport that reads `read` and writes through `outbox`.
    pub fn new(
        tap: Arc<Tap>,
        read: Box<dyn AsyncRead + Send + Unpin>,
        outbox: Arc<Outbox>,
    ) -> Self {
        let lines = Lines::new(read, tap.context.limits.line_bytes);
        Self { tap, lines, outbox, ready: VecDeque::new(), ended: false }
    }

    /// Hands complete lines to the tap until one of them gives something to deliver.
    fn digest(&mut self) {
        while self.ready.is_empty() {
            let Some(line) = self.lines.next_line() else { return };
            self.take(line);
        }
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Whole(range) => self.tap.line(self.lines.bytes(range), &mut self.ready),
            Line::Oversized { head, tail, total } => {
                self.tap.oversized(&head, &tail, total, &mut self.ready);
            }
        }
    }

    fn end(&mut self, reason: &str) {
        if let Some(line) = self.lines.rest() {
            self.take(line);
        }
        self.ended = true;
        if self.ready.is_empty() {
            self.tap.ended(reason);
        }
    }
}

impl Transport<RoleClient> for Pipe {
    type Error = SendError;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), SendError>> + Send + 'static {
        let queued = self.outbox.push(&self.tap, &item);
        let id = match &item {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let outbox = Arc::clone(&self.outbox);
        let tap = Arc::clone(&self.tap);
        async move {
            let sent = match queued {
                Ok(()) => outbox.flush().await,
                Err(error) => Err(error),
            };
            if let Err(error) = &sent {
                if let Some(RequestId::Number(id)) = id {
                    tap.unsent(id);
                }
                if matches!(error, SendError::Broken(_)) {
                    tap.deaf(&error.to_string());
                }
            }
            sent
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        const CLOSED: &str = "the server closed its output";
        loop {
            if let Some(delivery) = self.ready.pop_front() {
                return Some(delivery.message);
            }
            if self.ended {
                self.tap.ended(CLOSED);
                return None;
            }
            self.digest();
            if !self.ready.is_empty() {
                continue;
            }
            self.tap.context.seen.unfinished(self.lines.unfinished());
            match self.lines.fill().await {
                Ok(0) => self.end(CLOSED),
                Ok(read) => self.tap.arrived(read),
                Err(error) => self.end(&format!("the server's output cannot be read: {error}")),
            }
        }
    }

    async fn close(&mut self) -> Result<(), SendError> {
        self.outbox.shut().await;
        Ok(())
    }
}
