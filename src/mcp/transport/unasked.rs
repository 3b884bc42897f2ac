//! What a server sends that nobody asked for: read at a limited rate, told when it becomes a flood.
//! Owns the account of one connection; whoever reads does the waiting.

use std::time::Duration;

use crate::base::allowance::Allowance;
use crate::mcp::wire::tap::Tap;

/// The account of one connection.
#[derive(Debug)]
pub struct Unasked {
    allowance: Allowance,
    /// How long reading has been held back in all.
    held: Duration,
}

impl Default for Unasked {
    fn default() -> Self {
        Self { allowance: Allowance::of_bytes(), held: Duration::ZERO }
    }
}

impl Unasked {
    /// What is held back for longer than this is told: one message too large is no flood.
    const FLOOD: Duration = Duration::from_secs(1);

    /// So many bytes came that nobody asked for; gives how long to wait before more is read.
    pub fn spend(&mut self, bytes: usize, tap: &Tap) -> Option<Duration> {
        let pause = self.allowance.spend(bytes as f64)?;
        self.held += pause;
        if self.held >= Self::FLOOD {
            tap.floods();
        }
        Some(pause)
    }
}
