//! The row of a call in flight, and its place in the metrics.
//!
//! Dropping it unfinished, because the caller dropped the call, counts it as cancelled.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::Level;

use crate::base::text::SafeText;
use crate::error::{Error, ErrorCode};
use crate::host::call::{CallOutcome, CallView};
use crate::host::metrics::Ending;
use crate::host::operation::Operation;
use crate::host::server::slot::{InFlight, Slot};
use crate::mcp::PendingRequest;
use crate::mcp::session::Request;

/// See the module.
pub(super) struct Flight {
    slot: Arc<Slot>,
    row: Arc<InFlight>,
    /// Which of the server's sessions it began on.
    session: u64,
    key: Arc<str>,
    began: Instant,
    ended: bool,
}

impl Flight {
    pub(super) fn begin(operation: &Operation) -> Self {
        let Operation { options, slot, id, .. } = operation;
        let started = operation.deck.clock.now();
        let live = slot.live();
        let timeout = options.timeout.unwrap_or(live.config.request_timeout);
        let limits = (timeout, live.config.wire.max_call.max(timeout));
        let (cancel, progress) = (options.cancel.clone(), options.progress.clone());
        let row = Arc::new(InFlight {
            view: CallView {
                id: *id,
                server: slot.name.clone(),
                method: operation.method.to_owned(),
                target: SafeText::line(&operation.target),
                started,
                waiting: Duration::ZERO,
                is_waiting: false,
                progress: None,
            },
            pending: PendingRequest::new(Some(*id), limits, cancel, progress),
        });
        if let Some(trace) = &options.trace {
            let _ = row.pending.trace.set(Arc::clone(trace));
        }
        slot.calls().insert(*id, Arc::clone(&row));
        let key = slot.ledger().begin(operation.method, &operation.target, started);
        let (slot, session) = (Arc::clone(slot), live.generation);
        Self { slot, row, session, key, began: Instant::now(), ended: false }
    }

    /// The request, as the session sees it.
    pub(super) fn pending(&self) -> &Arc<PendingRequest> {
        &self.row.pending
    }

    /// Time so far, without the time that a person has held it.
    pub(super) fn took(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.row.pending.waited())
    }

    /// Counts the end of an operation and puts it into the log.
    pub(super) fn end(mut self, operation: &Operation, outcome: &Result<CallOutcome, Error>) {
        let ending = match outcome {
            Ok(outcome) if outcome.is_error => Ending::ToolError,
            Ok(_) => Ending::Success,
            Err(error) => Ending::Failed(error.code),
        };
        let (mut arguments, mut result) = (None, None);
        // Written out only where somebody wants to read it (`--log-payloads`).
        if tracing::enabled!(target: "mcpdeck::payload", Level::ERROR) {
            arguments = match &operation.request {
                Request::CallTool { arguments, .. } | Request::GetPrompt { arguments, .. } => {
                    Some(arguments.to_string())
                }
                _ => None,
            };
            result = outcome.as_ref().ok().and_then(|o| serde_json::to_string(&o.result).ok());
        }
        let error = outcome.as_ref().err();
        self.finish(ending, error, (arguments.as_deref(), result.as_deref()));
    }

    fn finish(
        &mut self,
        ending: Ending,
        error: Option<&Error>,
        (arguments, result): (Option<&str>, Option<&str>),
    ) {
        self.ended = true;
        let id = self.row.view.id;
        self.slot.calls().remove(&id);
        let took = self.took();
        let (received, sent) = self.row.pending.bytes.totals();
        let mut ledger = self.slot.ledger();
        ledger.end(&self.key, ending, took, self.row.view.started.plus(took));
        if let Some(metrics) = ledger.targets.get_mut(&self.key) {
            metrics.transferred(received, sent);
        }
        drop(ledger);
        let (status, server) = (ending.as_str(), self.slot.name.as_str());
        let text = error.map_or("", |error| error.message.as_str());
        let rpc_code = error.and_then(|error| error.rpc.as_ref()?.code);
        macro_rules! log {
            ($level:ident) => {
                tracing::event!(
                    target: "mcpdeck::call", Level::$level, server, request_id = id.0,
                    session_id = self.session, action = &*self.key, status, rpc_code,
                    duration_ms = took.as_secs_f64() * 1e3, arguments, result, "{text}"
                )
            };
        }
        match ending {
            Ending::Success | Ending::Failed(ErrorCode::Cancelled) => log!(INFO),
            _ => log!(WARN),
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.ended {
            self.finish(Ending::Failed(ErrorCode::Cancelled), None, (None, None));
        }
    }
}

impl InFlight {
    /// The call as a table shows it now.
    pub fn show(&self) -> CallView {
        CallView {
            waiting: self.pending.waited(),
            is_waiting: self.pending.is_held(),
            progress: self.pending.progress(),
            ..self.view.clone()
        }
    }
}
