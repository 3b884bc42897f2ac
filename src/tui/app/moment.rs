//! The moment to read: what a person approves or answers is what was on the screen, the same and on
//! top of everything, for half a second. A key that comes sooner does nothing and says so.

use crate::mcp::ApprovalId;
use crate::tui::prelude::*;

/// How long it has to stand there.
const MOMENT: Duration = Duration::from_millis(500);

/// What was drawn last that somebody may decide on, and since when it stands there unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct DrawnDecision {
    shown: Option<(u64, Timestamp)>,
    /// The request that came up by itself after another one was answered: a second press of the key
    /// that sent must not reach it.
    pub unasked: Option<ApprovalId>,
}

impl DrawnDecision {
    /// Notes what the frame that is drawn now shows, by its hash.
    pub fn note(&mut self, decision: Option<u64>, now: Timestamp) {
        self.shown = decision.map(|hash| match self.shown {
            Some((before, since)) if before == hash => (hash, since),
            _ => (hash, now),
        });
    }

    /// The terminal was left: what is read begins anew.
    pub fn forget(&mut self) {
        self.shown = None;
    }

    /// Whether what would be decided now was there to be read; `open` is the request that is answered.
    pub fn was_read(&self, decision: u64, open: Option<ApprovalId>, now: Timestamp) -> bool {
        let unasked = self.unasked.is_some() && self.unasked == open;
        let wanted = if unasked { 2 * MOMENT } else { MOMENT };
        self.shown.is_some_and(|(shown, since)| shown == decision && now.since(since) >= wanted)
    }
}
