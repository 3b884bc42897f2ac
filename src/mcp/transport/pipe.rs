//! rmcp's transport over a pair of byte streams: a child's stdin and stdout, or an in-memory pipe.
//!
//! Replaces rmcp's own: lines are understood once, by the tap, and results stay raw values. A flood
//! of anything but answers is read at a limited rate, so that it costs the other servers nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::AsyncRead;
use tokio::time::Instant;

use super::lines::{Line, Lines};
use super::outbox::{Outbox, SendError};
use super::unasked::Unasked;
use crate::mcp::wire::tap::{Delivery, Tap};

/// The transport.
pub struct Pipe {
    tap: Arc<Tap>,
    lines: Lines<Box<dyn AsyncRead + Send + Unpin>>,
    outbox: Arc<Outbox>,
    ready: VecDeque<Delivery>,
    ended: bool,
    /// What may still be read that nobody asked for.
    unasked: Unasked,
    /// Bytes read and not yet accounted for: they may belong to an answer.
    open: usize,
    /// When reading goes on.
    paused: Option<Instant>,
}

impl Pipe {
    /// Lines without a delivery that are looked at before other tasks get their turn.
    const AT_ONCE: usize = 64;

    /// A transport that reads `read` and writes through `outbox`.
    pub fn new(
        tap: Arc<Tap>,
        read: Box<dyn AsyncRead + Send + Unpin>,
        outbox: Arc<Outbox>,
    ) -> Self {
        let lines = Lines::new(read, tap.context.limits.line_bytes);
        Self {
            tap,
            lines,
            outbox,
            ready: VecDeque::new(),
            ended: false,
            unasked: Unasked::default(),
            open: 0,
            paused: None,
        }
    }

    /// Hands complete lines to the tap until one of them gives something to deliver. False when
    /// there may be more.
    fn digest(&mut self) -> bool {
        for _ in 0..Self::AT_ONCE {
            let Some(line) = self.lines.next_line() else { return true };
            self.take(line);
            if !self.ready.is_empty() {
                return true;
            }
        }
        false
    }

    /// Accounts for what was read, as far as it is known what it was.
    fn account(&mut self) {
        let unknown = if self.lines.is_skipping() { 0 } else { self.lines.unfinished() };
        let known = self.open.saturating_sub(unknown);
        self.open -= known;
        let unasked = known.saturating_sub(self.tap.take_answered());
        let pause = self.unasked.spend(unasked, &self.tap);
        self.paused = pause.map(|pause| Instant::now() + pause);
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
        let request = matches!(item, ClientJsonRpcMessage::Request(_));
        let queued = self.outbox.push(&self.tap, &item);
        if let Err(error @ SendError::Unread(_)) = &queued {
            self.ended = true;
            self.tap.unread(&error.to_string());
        }
        let id = match &item {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let outbox = Arc::clone(&self.outbox);
        let tap = Arc::clone(&self.tap);
        async move {
            let sent = match queued {
                Ok(()) if request => outbox.flush().await,
                Ok(()) => {
                    outbox.flush_later();
                    Ok(())
                }
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
            if !self.digest() {
                tokio::task::yield_now().await;
                continue;
            }
            if !self.ready.is_empty() {
                continue;
            }
            self.account();
            // Kept over the pause: whoever waits here may be called away meanwhile.
            if let Some(until) = self.paused {
                tokio::time::sleep_until(until).await;
                self.paused = None;
            }
            self.tap.context.seen.unfinished(self.lines.unfinished());
            match self.lines.fill().await {
                Ok(0) => self.end(CLOSED),
                Ok(read) => {
                    self.open += read;
                    self.tap.arrived(read);
                }
                Err(error) => self.end(&format!("the server's output cannot be read: {error}")),
            }
        }
    }

    async fn close(&mut self) -> Result<(), SendError> {
        self.outbox.shut().await;
        Ok(())
    }
}
