//! Who came first for one request: the answer or the withdrawal. One of them wins, for good; what
//! is told and what goes over the wire follow from it.

use std::sync::atomic::{AtomicU8, Ordering};

/// Decided once: answered or withdrawn, never both.
#[derive(Debug, Default)]
pub struct Claim(AtomicU8);

const OPEN: u8 = 0;
const ANSWERED: u8 = 1;
const WITHDRAWN: u8 = 2;

impl Claim {
    /// Takes it for an answer; gives whether it is, now or since before.
    pub fn answer(&self) -> bool {
        self.take(ANSWERED)
    }

    /// Takes it for a withdrawal; gives whether it is, now or since before.
    pub fn withdraw(&self) -> bool {
        self.take(WITHDRAWN)
    }

    /// Whether an answer has won.
    pub fn is_answered(&self) -> bool {
        self.0.load(Ordering::Acquire) == ANSWERED
    }

    fn take(&self, wanted: u8) -> bool {
        let taken = self.0.compare_exchange(OPEN, wanted, Ordering::AcqRel, Ordering::Acquire);
        taken.is_ok() || taken == Err(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_word_holds_and_the_other_is_too_late() {
        let claim = Claim::default();
        assert!(claim.answer() && claim.answer() && !claim.withdraw() && claim.is_answered());
        let claim = Claim::default();
        assert!(claim.withdraw() && !claim.answer() && !claim.is_answered());
    }
}
