//! Guard against unread decisions: the user can approve or answer only what was shown unchanged and
//! on top of the screen for half a second. An earlier key only shows a warning. And against keys that
//! were meant for a line of text which closed by itself: they act nowhere else.

use crate::prelude::*;
use protocol::ApprovalId;

/// How long a decision must have been shown.
const SHOWN_INTERVAL: Duration = Duration::from_millis(500);

/// The decision that was drawn last, and since when it has been shown unchanged.
#[derive(Debug, Default)]
pub struct DrawnDecision {
    shown: Option<(String, Timestamp)>,
    /// The request that opened automatically after another one was answered. It must be shown twice
    /// as long, so that a repeated press of the send key does not answer it.
    pub unasked: Option<ApprovalId>,
}

impl DrawnDecision {
    /// Records the decision shown by the current frame.
    pub fn record(&mut self, decision: Option<String>, now: Timestamp) {
        self.shown = decision.map(|decision| match &self.shown {
            Some((before, since)) if *before == decision => (decision, *since),
            _ => (decision, now),
        });
    }

    /// Restarts the time to read, after the terminal was out of focus.
    pub fn forget(&mut self) {
        self.shown = None;
    }

    /// Whether this decision was shown long enough; `open` is the request being answered.
    pub fn was_read(&self, decision: &str, open: Option<ApprovalId>, now: Timestamp) -> bool {
        let unasked = self.unasked.is_some() && self.unasked == open;
        let wanted = if unasked { 2 * SHOWN_INTERVAL } else { SHOWN_INTERVAL };
        let shown = self.shown.as_ref().filter(|(shown, _)| shown == decision);
        shown.is_some_and(|(_, since)| now.since(*since) >= wanted)
    }
}

/// How long nothing must have been typed for keys to act again.
const PAUSE_INTERVAL: Duration = Duration::from_secs(1);

/// Keys that are typed on after the line they were meant for is gone.
#[derive(Debug, Default)]
pub struct StrayKeys {
    /// When the line closed, or the last of them came.
    last: Option<Timestamp>,
}

impl StrayKeys {
    /// A line has closed by itself.
    pub const fn begin(&mut self, now: Timestamp) {
        self.last = Some(now);
    }

    /// Whether a key that is pressed now is one of them.
    pub fn takes(&mut self, now: Timestamp) -> bool {
        self.last = self.last.filter(|last| now.since(*last) < PAUSE_INTERVAL).map(|_| now);
        self.last.is_some()
    }
}
