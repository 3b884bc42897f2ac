//! A clock that stops while this process is not scheduled, so that time limits measure the program
//! and not the load of the machine.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static MICROS: AtomicU64 = AtomicU64::new(0);
static STARTED: Once = Once::new();

/// Interval at which the clock advances, and the most it advances at once.
const TURN: Duration = Duration::from_millis(4);
const MOST: Duration = Duration::from_millis(12);

/// The current time, relative to an arbitrary start.
pub fn now() -> Duration {
    STARTED.call_once(|| {
        std::thread::spawn(|| {
            let mut last = Instant::now();
            loop {
                std::thread::park_timeout(TURN);
                let passed = last.elapsed().min(MOST);
                last = Instant::now();
                MICROS.fetch_add(passed.as_micros() as u64, Ordering::Relaxed);
            }
        });
    });
    Duration::from_micros(MICROS.load(Ordering::Relaxed))
}

/// Polls a condition; returns the time until it held, or `None` on timeout.
pub fn wait(at_most: Duration, mut holds: impl FnMut() -> bool) -> Option<Duration> {
    let begun = now();
    loop {
        let took = now().saturating_sub(begun);
        if holds() {
            return Some(took);
        }
        if took > at_most {
            return None;
        }
        std::thread::park_timeout(Duration::from_millis(2));
    }
}
