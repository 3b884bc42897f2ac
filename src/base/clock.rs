//! Wall-clock moments that follow tokio's clock, so that tests run on a paused one.
//!
//! That clock stands still while the machine sleeps. What it missed is added when it is noticed: a
//! log after a night must not tell yesterday's times, nor a cache take its answers for fresh. A wall
//! clock that is set meanwhile is not followed: ages stay true.

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
/// the machine slept meanwhile. Never goes backwards.
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
        self.wall.plus(ran).plus(SLEEP.so_far().saturating_sub(self.slept))
    }
}

/// Of this machine.
static SLEEP: Sleep = Sleep(AtomicU64::new(0));

/// How long the machine slept, in microseconds.
struct Sleep(AtomicU64);

impl Sleep {
    /// Two readings of two clocks are never of one moment; less than this is no sleep.
    const NOISE: Duration = Duration::from_secs(1);

    fn so_far(&self) -> Duration {
        self.note(slept())
    }

    fn note(&self, slept: Duration) -> Duration {
        let known = Duration::from_micros(self.0.load(Ordering::Relaxed));
        if slept < known + Self::NOISE {
            return known;
        }
        self.0.fetch_max(slept.as_micros() as u64, Ordering::Relaxed);
        slept
    }
}

/// What the clock that goes on in sleep is ahead of the one that does not. Neither can be set.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn slept() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let read = |id| Duration::try_from(clock_gettime(id)).unwrap_or_default();
    // In this order a thread that is held up in between sees less sleep, never more.
    let with = read(ClockId::Boottime);
    with.saturating_sub(read(ClockId::Monotonic))
}

/// What the clock that goes on in sleep is ahead of the one that does not. Neither can be set.
#[cfg(target_vendor = "apple")]
fn slept() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    use std::sync::OnceLock;
    use std::time::Instant;
    // The standard library has the clock that stands still, and counts from no known moment.
    static BEGAN: OnceLock<(Duration, Instant)> = OnceLock::new();
    let now = || Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
    let (with, without) = BEGAN.get_or_init(|| (now(), Instant::now()));
    now().saturating_sub(*with).saturating_sub(without.elapsed())
}

/// Elsewhere the clock of the program goes on in sleep.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
const fn slept() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_night_is_noticed_once_and_noise_is_not() {
        let sleep = Sleep(AtomicU64::new(0));
        assert_eq!(sleep.note(SECOND / 2), Duration::ZERO, "noise");
        let night = 8 * 3_600 * SECOND;
        assert_eq!(sleep.note(night), night);
        assert_eq!(sleep.note(night.saturating_sub(SECOND)), night, "held up in between");
        assert_eq!(sleep.note(2 * night), 2 * night);
        // The clocks it is measured with cannot be set: a machine that is awake sleeps no second.
        let before = slept();
        assert!(slept().abs_diff(before) < SECOND);
        // Nor has it slept longer than it runs, as a wall clock would have it.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        {
            let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
            assert!(before <= Duration::try_from(up).unwrap(), "{before:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn moments_follow_the_paused_clock_of_a_test() {
        let clock = Clock::system();
        let began = clock.now();
        tokio::time::advance(3_600 * SECOND).await;
        assert_eq!(clock.now().since(began), 3_600 * SECOND);
    }
}
