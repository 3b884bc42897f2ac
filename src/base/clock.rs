//! Wall-clock moments that follow tokio's clock, so that tests run on a paused one.
//!
//! That clock stands still while the machine sleeps. What it missed is added when it is noticed: a
//! log after a night must not tell yesterday's times, nor a cache take its answers for fresh.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// A moment: microseconds since 1970-01-01 UTC.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.0.saturating_sub(earlier.0))
    }

    /// The moment `span` after this one.
    #[must_use]
    pub const fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span.as_micros() as u64))
    }

    /// RFC 3339 in UTC with milliseconds.
    pub fn to_rfc3339(self) -> String {
        jiff::Timestamp::from_microsecond(self.0.cast_signed())
            .map(|t| format!("{t:.3}"))
            .unwrap_or_default()
    }
}

/// Reads the time: the wall clock at creation, what tokio's clock says has passed since, and what
/// the machine slept meanwhile. Never goes backwards: a wall clock that is set back is not followed.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Timestamp,
    start: Instant,
    /// What the machine had slept by then.
    slept: Duration,
}

impl Clock {
    /// A clock set by the system's.
    pub fn system() -> Self {
        let slept = SLEEP.so_far();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall: Timestamp(wall.as_micros() as u64), start: Instant::now(), slept }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        let ran = Instant::now().saturating_duration_since(self.start);
        self.wall.plus(ran).plus(SLEEP.as_of(ran).saturating_sub(self.slept))
    }
}

/// Of this machine, since the first clock was made.
static SLEEP: Sleep = Sleep::new();

/// How long the machine slept: what passed on the wall and not on the monotonic clock.
struct Sleep {
    began: OnceLock<(Running, SystemTime)>,
    /// In microseconds.
    known: AtomicU64,
    /// When it was last looked for, in microseconds of the clock of whoever asked.
    looked: AtomicU64,
}

/// tokio's clock may be a paused one; the machine's own sleep is what is measured.
type Running = std::time::Instant;

impl Sleep {
    /// Two readings of two clocks are never of one moment, and a wall clock that is a little off is
    /// set right now and then; less than this is no sleep.
    const NOISE: Duration = Duration::from_secs(2);
    /// Every message asks for the time; two more clocks are read for this only so often.
    const EVERY: Duration = Duration::from_millis(50);

    const fn new() -> Self {
        Self { began: OnceLock::new(), known: AtomicU64::new(0), looked: AtomicU64::new(0) }
    }

    /// As of `ran`, which any clock may tell that does not run backwards.
    fn as_of(&self, ran: Duration) -> Duration {
        let ran = ran.as_micros() as u64;
        let looked = self.looked.load(Ordering::Relaxed);
        if looked.abs_diff(ran) < Self::EVERY.as_micros() as u64 {
            return Duration::from_micros(self.known.load(Ordering::Relaxed));
        }
        self.looked.store(ran, Ordering::Relaxed);
        self.so_far()
    }

    fn so_far(&self) -> Duration {
        let (running, wall) = self.began.get_or_init(|| (Running::now(), SystemTime::now()));
        // In this order a thread that is held up in between sees less sleep, never more.
        let wall = wall.elapsed().unwrap_or_default();
        self.note(wall, running.elapsed())
    }

    fn note(&self, wall: Duration, running: Duration) -> Duration {
        let slept = wall.saturating_sub(running);
        let known = Duration::from_micros(self.known.load(Ordering::Relaxed));
        if slept < known + Self::NOISE {
            return known;
        }
        self.known.fetch_max(slept.as_micros() as u64, Ordering::Relaxed);
        slept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_night_is_noticed_once_and_neither_noise_nor_a_clock_set_back_is() {
        let sleep = Sleep::new();
        assert_eq!(sleep.note(100 * SECOND, 100 * SECOND), Duration::ZERO);
        assert_eq!(sleep.note(101 * SECOND, 100 * SECOND), Duration::ZERO, "noise");
        let night = 8 * 3_600 * SECOND;
        assert_eq!(sleep.note(night + 110 * SECOND, 110 * SECOND), night);
        assert_eq!(sleep.note(night + 111 * SECOND, 112 * SECOND), night, "held up in between");
        assert_eq!(sleep.note(10 * SECOND, 120 * SECOND), night, "set back");
        assert_eq!(sleep.note(2 * night + 130 * SECOND, 130 * SECOND), 2 * night);
    }

    #[tokio::test(start_paused = true)]
    async fn moments_follow_the_paused_clock_of_a_test() {
        let clock = Clock::system();
        let began = clock.now();
        tokio::time::advance(3_600 * SECOND).await;
        assert_eq!(clock.now().since(began), 3_600 * SECOND);
    }
}
