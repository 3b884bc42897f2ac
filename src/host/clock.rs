//! Wall-clock moments that follow tokio's clock, so that tests run on a paused one.

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

/// Reads the time: the wall clock at creation plus what tokio's clock says has passed since.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Timestamp,
    start: Instant,
}

impl Clock {
    /// A clock set by the system's.
    pub fn system() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { wall: Timestamp(wall.as_micros() as u64), start: Instant::now() }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// The moment of `instant`.
    pub fn at(&self, instant: Instant) -> Timestamp {
        self.wall.plus(instant.saturating_duration_since(self.start))
    }
}
