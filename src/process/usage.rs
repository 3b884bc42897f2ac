//! Memory and CPU of a server's family, on demand.
//!
//! On Linux one scan of `/proc` serves every server queried within half a second; likewise on
//! Windows, where jobs are queried. macOS reports nothing yet (it would need `libproc`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::census::ProcessTable;
#[cfg(unix)]
use super::census::read;
use super::family::Family;
#[cfg(windows)]
use super::windows::read;

/// What a server's processes use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Resident memory of all its processes in bytes. Pages shared between them count for each.
    pub memory: u64,
    /// CPU time since the previous reading, in percent of one core; zero for the first.
    pub cpu_percent: f32,
    /// How many processes it has.
    pub processes: u32,
}

/// Reads one family's usage.
pub(super) struct Meter {
    family: Arc<Family>,
    last: Mutex<Option<UsageReading>>,
}

#[derive(Clone, Copy)]
struct UsageReading {
    at: Instant,
    ticks: u64,
    usage: Usage,
}

/// How long a reading is reused.
const READING_LIFETIME: Duration = Duration::from_millis(500);

static TABLE: Mutex<Option<(Instant, Arc<ProcessTable>)>> = Mutex::new(None);

fn table(now: Instant) -> Arc<ProcessTable> {
    let mut cached = TABLE.lock();
    match &*cached {
        // A reading from the future belongs to another (test) clock.
        Some((at, table)) if *at <= now && now.duration_since(*at) < READING_LIFETIME => {
            Arc::clone(table)
        }
        _ => {
            let table = Arc::new(read());
            *cached = Some((now, Arc::clone(&table)));
            table
        }
    }
}

impl Meter {
    /// The processor time that the family's living processes have used, in user and system mode.
    pub(super) fn processor_time(&self) -> Option<Duration> {
        let rows = self.family.with_leader(&table(Instant::now()));
        let ticks: u64 = rows.iter().map(|row| row.cpu_ticks).sum();
        let (_, tick) = units();
        (!rows.is_empty()).then(|| Duration::from_secs_f64(ticks as f64 / tick as f64))
    }

    pub(super) fn new(family: Arc<Family>) -> Self {
        Self { family, last: Mutex::new(None) }
    }

    pub(super) fn read(&self) -> Option<Usage> {
        let now = Instant::now();
        let mut last = self.last.lock();
        if let Some(last) = *last
            && now.saturating_duration_since(last.at) < READING_LIFETIME
        {
            return Some(last.usage);
        }
        let table = table(now);
        let rows = self.family.with_leader(&table);
        if rows.is_empty() {
            return None;
        }
        let (page, tick) = units();
        let ticks = rows.iter().map(|row| row.cpu_ticks).sum();
        let cpu_percent = (*last).map_or(0.0, |last| {
            let seconds = now.saturating_duration_since(last.at).as_secs_f64();
            // An exited process takes its ticks with it; usage is never negative.
            let used = u64::saturating_sub(ticks, last.ticks) as f64 / tick as f64;
            (used / seconds.max(f64::EPSILON) * 100.0) as f32
        });
        let usage = Usage {
            memory: rows.iter().map(|row| row.pages).sum::<u64>() * page,
            cpu_percent,
            processes: rows.len() as u32,
        };
        *last = Some(UsageReading { at: now, ticks, usage });
        Some(usage)
    }
}

/// Bytes per page and ticks per second.
#[cfg(target_os = "linux")]
fn units() -> (u64, u64) {
    (rustix::param::page_size() as u64, rustix::param::clock_ticks_per_second())
}

/// Units of a job's counters: bytes, and 100 ns.
#[cfg(not(target_os = "linux"))]
fn units() -> (u64, u64) {
    (1, 10_000_000)
}
