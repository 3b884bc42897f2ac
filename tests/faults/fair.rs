//! Time as it was granted: a clock that stands still while the machine does not let us run, so that
//! a limit on time judges the program and not the machine.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

static MICROS: AtomicU64 = AtomicU64::new(0);
static STARTED: Once = Once::new();

/// How often the clock is advanced, and the most it advances at once.
const TURN: Duration = Duration::from_millis(4);
const MOST: Duration = Duration::from_millis(12);

/// The time now, from an arbitrary beginning.
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

/// Waits until something holds, at most so long; gives how long it took.
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
