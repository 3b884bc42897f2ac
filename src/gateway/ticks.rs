//! Short waits of many at once, with one timer for all of them. A timer for each request would nearly
//! always be the next one to end, and setting such a one wakes the runtime's poll of its sockets: one
//! more turn through the kernel for every call.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A clock that ticks while somebody waits.
#[derive(Debug)]
pub(crate) struct SharedTicks {
    interval: Duration,
    tick: Notify,
    state: Mutex<TickState>,
}

#[derive(Debug, Default)]
struct TickState {
    waiting: usize,
    is_ticking: bool,
}

/// One who waits.
struct TickWaiter<'a>(&'a SharedTicks);

impl Drop for TickWaiter<'_> {
    fn drop(&mut self) {
        self.0.state.lock().waiting -= 1;
    }
}

impl SharedTicks {
    pub fn new(interval: Duration) -> Arc<Self> {
        Arc::new(Self { interval, tick: Notify::new(), state: Mutex::default() })
    }

    /// Completes after one to two intervals.
    pub async fn pass(self: &Arc<Self>) {
        let _waiting = self.enter();
        self.tick.notified().await;
        self.tick.notified().await;
    }

    fn enter(self: &Arc<Self>) -> TickWaiter<'_> {
        let mut state = self.state.lock();
        state.waiting += 1;
        if !std::mem::replace(&mut state.is_ticking, true) {
            tokio::spawn(Arc::clone(self).run());
        }
        drop(state);
        TickWaiter(self)
    }

    async fn run(self: Arc<Self>) {
        loop {
            tokio::time::sleep(self.interval).await;
            self.tick.notify_waiters();
            let mut state = self.state.lock();
            if state.waiting == 0 {
                state.is_ticking = false;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    const INTERVAL: Duration = Duration::from_millis(5);

    #[tokio::test(start_paused = true)]
    async fn everybody_waits_for_one_to_two_intervals_whenever_they_come() {
        let ticks = SharedTicks::new(INTERVAL);
        let waits = (0..40).map(|n| {
            let ticks = Arc::clone(&ticks);
            async move {
                tokio::time::sleep(Duration::from_micros(700 * n)).await;
                let began = Instant::now();
                ticks.pass().await;
                began.elapsed()
            }
        });
        for took in futures::future::join_all(waits).await {
            // The timers of the runtime have a resolution of a millisecond.
            let most = 2 * INTERVAL + Duration::from_millis(2);
            assert!((INTERVAL..=most).contains(&took), "{took:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_stops_when_nobody_waits_and_starts_again() {
        let ticks = SharedTicks::new(INTERVAL);
        for _ in 0..3 {
            assert!(tokio::time::timeout(INTERVAL / 5, ticks.pass()).await.is_err());
            assert_eq!(ticks.state.lock().waiting, 0);
            tokio::time::sleep(2 * INTERVAL).await;
            assert!(!ticks.state.lock().is_ticking, "nobody waits");
            ticks.pass().await;
        }
    }
}
