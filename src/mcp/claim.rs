//! Who came first for one request: the answer or the withdrawal. One of them wins, for good; what
//! is told and what goes over the wire follow from it.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::base::text::SafeText;

/// Decided once: answered or withdrawn, never both.
#[derive(Debug, Default)]
pub struct Claim {
    state: AtomicU8,
    reason: OnceLock<SafeText>,
}

const OPEN: u8 = 0;
const ANSWERED: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Claim {
    /// Takes it for an answer; gives whether it is, now or since before.
    pub fn answer(&self) -> bool {
        self.take(ANSWERED)
    }

    /// Takes it for a withdrawal; gives whether it is, now or since before. The first reason holds.
    pub fn withdraw(&self, reason: &str) -> bool {
        let withdrawn = self.take(WITHDRAWN);
        if withdrawn {
            self.reason.get_or_init(|| SafeText::line(reason));
        }
        withdrawn
    }

    /// Why it was withdrawn.
    pub fn reason(&self) -> SafeText {
        self.reason.get().cloned().unwrap_or_default()
    }

    /// Whether an answer has won.
    pub fn is_answered(&self) -> bool {
        self.state.load(Ordering::Acquire) == ANSWERED
    }

    fn take(&self, wanted: u8) -> bool {
        let state = &self.state;
        let taken = state.compare_exchange(OPEN, wanted, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok() || taken == Err(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_holds_and_the_other_is_too_late() {
        let claim = Claim::default();
        assert!(claim.answer() && claim.answer() && !claim.withdraw("late") && claim.is_answered());
        let claim = Claim::default();
        assert!(claim.withdraw("first") && claim.withdraw("second") && !claim.answer());
        assert_eq!((claim.is_answered(), claim.reason().as_str()), (false, "first"));
    }
}
