//! Unsolicited data of a server: read at a limited rate, reported when it is a flood. Owns the
//! account of one connection; the reader does the waiting.

use std::time::Duration;

use base::allowance::Allowance;
use protocol::Tap;

/// The account of one connection.
#[derive(Debug)]
pub struct Unasked {
    allowance: Allowance,
    /// How long reading has been held back in total.
    held: Duration,
}

impl Default for Unasked {
    fn default() -> Self {
        Self { allowance: Allowance::of_bytes(), held: Duration::ZERO }
    }
}

impl Unasked {
    /// Reading held back for longer than this is reported: one large message is not a flood.
    const FLOOD_TIMEOUT: Duration = Duration::from_secs(1);

    /// Accounts for unsolicited bytes; returns how long to pause before reading more.
    pub fn spend(&mut self, bytes: usize, tap: &Tap) -> Option<Duration> {
        let pause = self.allowance.spend(bytes as f64)?;
        self.held += pause;
        if self.held >= Self::FLOOD_TIMEOUT {
            tap.floods();
        }
        Some(pause)
    }
}
