//! Wall-clock time that follows tokio's clock, so that tests can run on a paused one.
//!
//! That clock stops while the machine sleeps. The time slept is added once detected: a log must not
//! show yesterday's times after a night, nor a cache treat its entries as fresh. Adjustments of the
//! system clock are not followed, so ages stay correct.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// Least rest after a piece of work, as a multiple of the time it took.
const MIN_REST_MULTIPLE: u32 = 12;

/// How long to rest after work that took so long, where it is done again as long as there is news: at
/// most a thirteenth of a processor goes into it, however much there is to look at.
pub fn rest_after(took: Duration) -> Duration {
    took.saturating_mul(MIN_REST_MULTIPLE)
}

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

    /// Reads a date of HTTP in any of its three forms (RFC 9110, section 5.6.7), or in that of cookies,
    /// which has hyphens (RFC 6265, section 5.1.1).
    pub fn from_http_date(text: &str) -> Option<Self> {
        let text = text.trim();
        let time = if let Some((_, date)) = text.split_once(',') {
            let date = date.replacen('-', " ", 2);
            jiff::fmt::rfc2822::parse(date.trim()).ok()?.timestamp()
        } else {
            let date = jiff::civil::DateTime::strptime("%a %b %e %H:%M:%S %Y", text).ok()?;
            date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp()
        };
        Some(Self(u64::try_from(time.as_microsecond()).unwrap_or_default()))
    }
}

/// Longest pause that is read: more is this.
const MAX_PAUSE_INTERVAL: Duration = Duration::from_secs(366 * 24 * 3_600);

/// The pause that a `Retry-After` asks for at `now`: a number of seconds, or a date (RFC 9110, section
/// 10.2.3). `None` for what asks for none: a number below zero, or a date that has passed.
pub fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    match text.trim().parse::<f64>() {
        Ok(seconds) if seconds >= 0.0 && seconds.is_finite() => Some(
            Duration::try_from_secs_f64(seconds)
                .map_or(MAX_PAUSE_INTERVAL, |asked| asked.min(MAX_PAUSE_INTERVAL)),
        ),
        Ok(_) => None,
        Err(_) => Timestamp::from_http_date(text).filter(|at| *at > now).map(|at| at.since(now)),
    }
}

/// Reads the time: the wall clock at creation, plus the time elapsed on tokio's clock, plus what
/// the machine slept meanwhile. Never goes backwards.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Timestamp,
    start: Instant,
    /// Total sleep of the machine at creation.
    slept: Duration,
}

impl Clock {
    /// A clock initialised from the system clock.
    pub fn system() -> Self {
        let slept = SLEEP.so_far();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall: Timestamp(wall.as_micros() as u64), start: Instant::now(), slept }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        let ran = Instant::now().saturating_duration_since(self.start);
        self.wall.plus(ran).plus(SLEEP.so_far().saturating_sub(self.slept))
    }

    /// The moment on the clock that waits are measured by. It stands still in tests with a paused
    /// clock, where `std::time::Instant::elapsed` does not: use [`Clock::elapsed`].
    pub fn instant(&self) -> std::time::Instant {
        Instant::now().into_std()
    }

    /// Time passed since a moment given by [`Clock::instant`].
    pub fn elapsed(&self, since: std::time::Instant) -> Duration {
        self.instant().saturating_duration_since(since)
    }
}

/// Total sleep of this machine.
static SLEEP: Sleep = Sleep(AtomicU64::new(0));

/// How long the machine slept, in microseconds.
struct Sleep(AtomicU64);

impl Sleep {
    /// The two clocks cannot be read at the same moment; smaller differences are not sleep.
    const MIN_SLEEP_INTERVAL: Duration = Duration::from_secs(1);

    fn so_far(&self) -> Duration {
        self.record(slept())
    }

    fn record(&self, slept: Duration) -> Duration {
        let known = Duration::from_micros(self.0.load(Ordering::Relaxed));
        if slept < known + Self::MIN_SLEEP_INTERVAL {
            return known;
        }
        self.0.fetch_max(slept.as_micros() as u64, Ordering::Relaxed);
        slept
    }
}

/// How far the clock that counts sleep is ahead of the one that does not. Neither can be set.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn slept() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    let read = |id| Duration::try_from(clock_gettime(id)).unwrap_or_default();
    // In this order, a thread preempted in between sees less sleep, never more.
    let with = read(ClockId::Boottime);
    with.saturating_sub(read(ClockId::Monotonic))
}

/// How far the clock that counts sleep is ahead of the one that does not. Neither can be set.
#[cfg(target_vendor = "apple")]
fn slept() -> Duration {
    use rustix::time::{ClockId, clock_gettime};
    use std::sync::OnceLock;
    use std::time::Instant;
    // `std::time::Instant` stops during sleep here, and its epoch is unspecified.
    static BEGAN: OnceLock<(Duration, Instant)> = OnceLock::new();
    let now = || Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default();
    let (with, without) = BEGAN.get_or_init(|| (now(), Instant::now()));
    now().saturating_sub(*with).saturating_sub(without.elapsed())
}

/// Elsewhere the program's clock keeps running during sleep.
#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
const fn slept() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn dates_of_http_are_read_in_every_form_and_pauses_as_numbers_or_dates() {
        let at = Timestamp(784_111_777_000_000);
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun, 06-Nov-1994 08:49:37 GMT",
        ] {
            assert_eq!(Timestamp::from_http_date(text), Some(at), "{text}");
        }
        assert_eq!(Timestamp::from_http_date("soon"), None);
        let before = Timestamp(at.0 - 5_000_000);
        for (text, seconds) in [
            ("5", Some(5)),
            (" 5 ", Some(5)),
            ("0", Some(0)),
            ("-1", None),
            ("-0.5", None),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(5)),
            ("Sun, 06 Nov 1994 08:49:00 GMT", None),
            ("soon", None),
            ("99999999999999999999999", Some(MAX_PAUSE_INTERVAL.as_secs())),
            ("1e300", Some(MAX_PAUSE_INTERVAL.as_secs())),
            ("inf", None),
            ("NaN", None),
        ] {
            assert_eq!(retry_after(text, before), seconds.map(Duration::from_secs), "{text}");
        }
    }

    #[test]
    fn a_night_is_noticed_once_and_noise_is_not() {
        let sleep = Sleep(AtomicU64::new(0));
        assert_eq!(sleep.record(SECOND / 2), Duration::ZERO, "noise");
        let night = 8 * 3_600 * SECOND;
        assert_eq!(sleep.record(night), night);
        assert_eq!(sleep.record(night.saturating_sub(SECOND)), night, "held up in between");
        assert_eq!(sleep.record(2 * night), 2 * night);
        // These clocks cannot be set, so no sleep appears while the machine is awake.
        let before = slept();
        assert!(slept().abs_diff(before) < SECOND);
        // Nor can it have slept longer than its uptime, as a wall clock might suggest.
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
