//! An operation in flight: its row in the table, its clock, its place in the metrics.
//!
//! Dropping it unfinished, because the caller dropped the call, counts it as cancelled.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::base::Clock;
use crate::base::text::SafeText;
use crate::error::ErrorCode;
use crate::host::call::CallView;
use crate::host::metrics::Ending;
use crate::host::operation::Operation;
use crate::host::server::slot::{InFlight, Slot};
use crate::mcp::CallId;
use crate::mcp::Progress;
use crate::mcp::session::{HeldTime, ProgressSink, Waiting};

/// See the module.
pub(super) struct Flight {
    slot: Arc<Slot>,
    id: CallId,
    /// Which of the server's sessions it began on.
    session: u64,
    key: Arc<str>,
    began: Instant,
    row: Arc<InFlight>,
    pub(super) waiting: HeldTime,
    ended: bool,
}

impl Flight {
    pub(super) fn begin(operation: &Operation) -> Self {
        let waiting = HeldTime::default();
        let started = operation.deck.clock.now();
        let slot = Arc::clone(&operation.slot);
        let row = Arc::new(InFlight {
            view: CallView {
                id: operation.id,
                server: slot.name.clone(),
                method: operation.method.to_owned(),
                target: SafeText::line(&operation.target),
                started,
                waiting: Duration::ZERO,
                is_waiting: false,
                progress: None,
            },
            waiting: waiting.clone(),
            progress: Mutex::new(None),
            caller: operation.options.progress.clone(),
        });
        slot.calls().insert(operation.id, Arc::clone(&row));
        let key = slot.ledger().begin(operation.method, &operation.target, started);
        let session = slot.live().generation;
        Self {
            slot,
            id: operation.id,
            session,
            key,
            began: Instant::now(),
            row,
            waiting,
            ended: false,
        }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Time a person has held the call.
    pub(super) fn waited(&self, clock: &Clock) -> Duration {
        waited(self.waiting.so_far(), clock)
    }

    /// A person is asked about it before it is sent; until the guard is dropped its clock stands
    /// still.
    pub(super) fn hold(&self, clock: &Clock) -> Holding<'_> {
        self.waiting.begin(clock.now());
        Holding { flight: self, began: Instant::now() }
    }

    /// What takes its progress in.
    pub(super) fn sink(&self) -> Arc<dyn ProgressSink> {
        Arc::clone(&self.row) as Arc<dyn ProgressSink>
    }

    pub(super) fn transferred(&self, received: u64, sent: u64) {
        let mut ledger = self.slot.ledger();
        if let Some(metrics) = ledger.targets.get_mut(&self.key) {
            metrics.transferred(received, sent);
        }
    }

    pub(super) fn end(mut self, ending: Ending) {
        self.finish(ending);
    }

    fn finish(&mut self, ending: Ending) {
        self.ended = true;
        self.slot.calls().remove(&self.id);
        let elapsed = self.began.elapsed();
        let took = elapsed.saturating_sub(self.waiting.so_far().total);
        self.slot.ledger().end(&self.key, ending, took);
        let (code, server) = (ending.as_str(), self.slot.name.as_str());
        tracing::info!(
            target: "mcpdeck::call", server, request_id = self.id.0, session_id = self.session,
            action = &*self.key, outcome = code, duration_ms = took.as_secs_f64() * 1e3,
        );
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.ended {
            self.finish(Ending::Failed(ErrorCode::Cancelled));
        }
    }
}

fn waited(waiting: Waiting, clock: &Clock) -> Duration {
    let running = waiting.since.map(|since| clock.now().since(since)).unwrap_or_default();
    waiting.total + running
}

/// Time that a person takes.
pub(super) struct Holding<'a> {
    flight: &'a Flight,
    began: Instant,
}

impl Drop for Holding<'_> {
    fn drop(&mut self) {
        self.flight.waiting.end(self.began.elapsed());
    }
}

/// Overflow policy of the caller's channel: the newest is dropped when it is full.
impl ProgressSink for InFlight {
    fn take(&self, progress: Progress) {
        if let Some(caller) = &self.caller {
            let _ = caller.try_send(progress.clone());
        }
        *self.progress.lock() = Some(progress);
    }
}

impl InFlight {
    /// The call as a table shows it now.
    pub fn show(&self, clock: &Clock) -> CallView {
        let waiting = self.waiting.so_far();
        CallView {
            waiting: waited(waiting, clock),
            is_waiting: waiting.since.is_some(),
            progress: self.progress.lock().clone(),
            ..self.view.clone()
        }
    }
}
