//! Rate limit for a server's unsolicited output: a token bucket, and the figures for both streams.
//! Reading slower is the only way to hold back a flood: the pipe fills up and the system blocks the
//! server. Pure apart from the clock.

use std::time::Duration;

use tokio::time::Instant;

/// Sustained rate of unsolicited output, in bytes per second and stream: everything on stderr, and
/// everything but responses on stdout. At this rate a flood costs the host a few percent of one
/// processor, and the kernel about as much; a gigabyte takes twenty-six seconds.
const MAX_BYTES_PER_SECOND: f64 = (40 << 20) as f64;
/// Burst size in bytes: what may be read at once after a quiet period.
const MAX_BURST_BYTES: f64 = (16 << 20) as f64;
/// Shortest pause when an allowance is spent; shorter ones only cost wake-ups.
const MIN_PAUSE_INTERVAL: Duration = Duration::from_millis(2);
/// Longest pause.
const MAX_PAUSE_INTERVAL: Duration = Duration::from_secs(1);

/// A token bucket.
#[derive(Debug)]
pub struct Allowance {
    rate: f64,
    most: f64,
    left: f64,
    at: Instant,
}

impl Allowance {
    /// A bucket that refills at `rate` per second and holds at most `most`.
    pub fn new(rate: f64, most: f64) -> Self {
        Self { rate, most, left: most, at: Instant::now() }
    }

    /// The allowance for one byte stream.
    pub fn of_bytes() -> Self {
        Self::new(MAX_BYTES_PER_SECOND, MAX_BURST_BYTES)
    }

    /// Adds what has accrued since the last refill.
    pub fn refill(&mut self) {
        let now = Instant::now();
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.rate;
        self.left = (self.left + gained).min(self.most);
        self.at = now;
    }

    /// Spends `amount`, into debt if need be; returns how long to pause while in debt.
    pub fn spend(&mut self, amount: f64) -> Option<Duration> {
        self.left -= amount;
        if self.left < 0.0 {
            self.refill();
        }
        let debt = -self.left / self.rate;
        (debt > 0.0)
            .then(|| Duration::from_secs_f64(debt).clamp(MIN_PAUSE_INTERVAL, MAX_PAUSE_INTERVAL))
    }

    /// Takes one token if available; returns whether it did.
    pub fn take_one(&mut self) -> bool {
        let any = self.has_one();
        if any {
            self.left -= 1.0;
        }
        any
    }

    /// Whether [`Allowance::take_one`] would succeed.
    pub fn has_one(&self) -> bool {
        self.left >= 1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_free_and_then_the_rate_holds() {
        let mut allowance = Allowance::new(1000.0, 500.0);
        assert_eq!(allowance.spend(500.0), None);
        let began = Instant::now();
        for _ in 0..200 {
            if let Some(pause) = allowance.spend(50.0) {
                tokio::time::sleep(pause).await;
            }
        }
        let took = began.elapsed().as_secs_f64();
        assert!((9.5..10.5).contains(&took), "10,000 at 1,000 a second took {took} s");
        tokio::time::advance(Duration::from_secs(60)).await;
        allowance.refill();
        assert_eq!(allowance.spend(500.0), None, "no more than the burst is saved up");
        assert!(allowance.spend(1e9).is_some_and(|pause| pause == MAX_PAUSE_INTERVAL));
    }

    #[tokio::test(start_paused = true)]
    async fn pieces_are_given_out_one_by_one() {
        let mut lines = Allowance::new(1.0, 2.0);
        assert!(lines.take_one() && lines.take_one() && !lines.take_one());
        tokio::time::advance(Duration::from_secs(1)).await;
        lines.refill();
        assert!(lines.take_one() && !lines.has_one());
    }
}
