//! Progress on its way to the caller: what a server claims is clamped, and thinned out to a rate that
//! a caller can follow. Knows nothing of requests and tokens.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::exchange::{Operation, cut};
use crate::base::text::SafeText;
use crate::mcp::CallId;
use crate::mcp::Progress;
use crate::mcp::session::ProgressSink;

/// Clamps and thins out progress. Overflow policy: between two that are passed on at least
/// [`Gate::PERIOD`] lies; of those between, the newest is kept and goes out when that is over, or
/// with the answer.
#[derive(Debug)]
pub(super) struct Gate {
    sink: Arc<dyn ProgressSink>,
    pub(super) highest: f64,
    pub(super) total: Option<f64>,
    passed: Option<Instant>,
    pub(super) kept: Option<Progress>,
    /// Whether what is kept goes out by itself soon.
    pub(super) armed: bool,
}

impl Gate {
    pub(super) const PERIOD: Duration = Duration::from_millis(10);

    pub(super) fn new(sink: Arc<dyn ProgressSink>) -> Self {
        Self { sink, highest: 0.0, total: None, passed: None, kept: None, armed: false }
    }

    pub(super) fn take(
        &mut self,
        call: CallId,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
    ) {
        let finite = |value: f64| value.is_finite().then(|| value.clamp(0.0, 1e15));
        self.highest = finite(progress).map_or(self.highest, |value| value.max(self.highest));
        self.total = total.and_then(finite).filter(|total| *total > 0.0);
        let progress = Progress {
            call,
            progress: self.highest,
            total: self.total,
            message: message.map(|text| SafeText::line(cut(text, Operation::MESSAGE))),
        };
        let now = Instant::now();
        if self.passed.is_some_and(|at| now - at < Self::PERIOD) {
            self.kept = Some(progress);
            return;
        }
        self.passed = Some(now);
        self.kept = None;
        self.sink.take(progress);
    }

    pub(super) fn flush(&mut self) {
        self.armed = false;
        if let Some(progress) = self.kept.take() {
            self.passed = Some(Instant::now());
            self.sink.take(progress);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tokio::sync::mpsc;

    #[tokio::test(start_paused = true)]
    async fn progress_is_clamped_and_thinned_out_and_the_last_is_not_lost() {
        let (sender, mut receiver) = mpsc::channel(8);
        let mut gate = Gate::new(Arc::new(sender));
        for value in [5.0, 3.0, f64::INFINITY, f64::NAN, 1e308] {
            gate.take(CallId(1), value, Some(-1.0), Some("x\u{1b}[2J"));
        }
        gate.flush();
        let first = receiver.try_recv().unwrap();
        assert_eq!((first.progress, first.total), (5.0, None));
        assert!(!first.message.unwrap().contains('\u{1b}'));
        assert!(receiver.try_recv().unwrap().progress > 0.9e15);
        assert!(receiver.try_recv().is_err());
    }
}
