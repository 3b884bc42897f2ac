//! Which thread serves a connection. The engine's own threads are the quickest for one client: nothing
//! is handed from thread to thread. With many clients they are what everybody waits for, so further
//! connections go to helpers, up to a thread for each core of the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio_util::sync::{CancellationToken, DropGuard};

/// How long a helper goes on after its service, for what still ends: notifications, answers to calls
/// that the end of the servers ends.
const LEFTOVERS_TIMEOUT: Duration = Duration::from_secs(10);

/// A thread that serves connections.
struct Helper {
    runtime: Handle,
    busy: Arc<AtomicUsize>,
}

impl Helper {
    /// # Errors
    /// When the system gives no thread, or no files for its event loop.
    async fn start(name: String, over: CancellationToken) -> std::io::Result<Self> {
        let (ready, started) = oneshot::channel();
        // Made on its thread, where it is dropped too: that waits, and is no work for a task.
        let run = move || match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                _ = ready.send(Ok(runtime.handle().clone()));
                runtime.block_on(async {
                    over.cancelled().await;
                    tokio::time::sleep(LEFTOVERS_TIMEOUT).await;
                });
            }
            Err(error) => _ = ready.send(Err(error)),
        };
        std::thread::Builder::new().name(name).spawn(run)?;
        let runtime = started.await.map_err(std::io::Error::other)??;
        Ok(Self { runtime, busy: Arc::default() })
    }

    fn place(&self) -> ConnectionThread {
        ConnectionThread::new(self.runtime.clone(), &self.busy)
    }
}

/// Chooses the thread of each connection that a service accepts. Helpers are started as they are
/// needed, and end with it.
pub(crate) struct ThreadChooser {
    engine: Handle,
    busy: Arc<AtomicUsize>,
    /// Threads that the engine has.
    workers: usize,
    helpers: Vec<Helper>,
    /// Most helpers that are started.
    max_helpers: usize,
    over: DropGuard,
}

impl ThreadChooser {
    /// For the engine of the current runtime.
    ///
    /// # Panics
    /// Outside a runtime.
    pub fn new() -> Self {
        let engine = Handle::current();
        let workers = engine.metrics().num_workers();
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let max_helpers = cores.saturating_sub(workers);
        let (helpers, over) = (Vec::new(), CancellationToken::new().drop_guard());
        Self { engine, busy: Arc::default(), workers, helpers, max_helpers, over }
    }

    /// The place of the next connection. It counts as busy until its first request is answered.
    pub async fn next(&mut self) -> ConnectionThread {
        let busy = self.busy.load(Ordering::Relaxed);
        let load = |helper: &Helper| helper.busy.load(Ordering::Relaxed);
        let loads: Vec<usize> = self.helpers.iter().map(load).collect();
        match choose((busy, self.workers), &loads, self.max_helpers) {
            ChosenThread::Engine => {}
            ChosenThread::Helper(n) => return self.helpers[n].place(),
            ChosenThread::NewHelper => {
                let name = format!("clients-{}", self.helpers.len() + 1);
                let over = self.over.token().clone();
                // A system that gives no thread has the engine's.
                if let Ok(helper) = Helper::start(name, over).await {
                    let place = helper.place();
                    self.helpers.push(helper);
                    return place;
                }
            }
        }
        ConnectionThread::new(self.engine.clone(), &self.busy)
    }
}

#[derive(Debug, PartialEq, Eq)]
enum ChosenThread {
    Engine,
    Helper(usize),
    NewHelper,
}

/// The least busy thread: `busy` connections at the `workers` of the engine, and those at each
/// helper; of those alike a helper, because the engine has the servers too.
fn choose((busy, workers): (usize, usize), helpers: &[usize], max_helpers: usize) -> ChosenThread {
    let least = helpers.iter().enumerate().min_by_key(|(_, load)| **load);
    let can_start = helpers.len() < max_helpers;
    match least {
        _ if busy < workers => ChosenThread::Engine,
        Some((_, load)) if *load > 0 && can_start => ChosenThread::NewHelper,
        Some((_, load)) if busy < load * workers => ChosenThread::Engine,
        Some((n, _)) => ChosenThread::Helper(n),
        None if can_start => ChosenThread::NewHelper,
        None => ChosenThread::Engine,
    }
}

/// Where a connection is served.
pub(crate) struct ConnectionThread {
    pub runtime: Handle,
    busy: Arc<AtomicUsize>,
    /// From the start until the first request.
    first: Mutex<Option<BusyConnection>>,
}

impl ConnectionThread {
    fn new(runtime: Handle, busy: &Arc<AtomicUsize>) -> Self {
        let first = Mutex::new(Some(BusyConnection::count(busy)));
        Self { runtime, busy: Arc::clone(busy), first }
    }

    /// Counts the connection as busy while a request of it is being answered.
    pub fn answering(&self) -> BusyConnection {
        self.first.lock().take().unwrap_or_else(|| BusyConnection::count(&self.busy))
    }
}

/// One of the busy connections of a thread, until it is dropped.
pub(crate) struct BusyConnection(Arc<AtomicUsize>);

impl BusyConnection {
    fn count(busy: &Arc<AtomicUsize>) -> Self {
        busy.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(busy))
    }
}

impl Drop for BusyConnection {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engine_serves_one_client_and_helpers_what_comes_beside() {
        use ChosenThread::{Engine, Helper, NewHelper};
        for (engine, helpers, max, chosen) in [
            ((0, 1), &[][..], 1, Engine),
            ((9, 1), &[], 0, Engine),
            ((1, 1), &[], 1, NewHelper),
            ((1, 1), &[0], 1, Helper(0)),
            ((1, 1), &[1], 1, Helper(0)),
            ((1, 1), &[2], 1, Engine),
            ((0, 1), &[5], 1, Engine),
            // Several workers take several each.
            ((3, 4), &[], 4, Engine),
            ((4, 4), &[], 4, NewHelper),
            ((4, 4), &[1], 4, NewHelper),
            ((4, 4), &[1, 0], 4, Helper(1)),
            ((4, 4), &[1, 1, 1, 1], 4, Helper(0)),
            ((4, 4), &[2, 2, 2, 2], 4, Engine),
        ] {
            assert_eq!(choose(engine, helpers, max), chosen, "{engine:?} {helpers:?} {max}");
        }
    }

    #[tokio::test]
    async fn a_connection_is_busy_until_its_first_answer_and_then_with_each_request() {
        let mut placement = ThreadChooser { max_helpers: 0, ..ThreadChooser::new() };
        let count = Arc::clone(&placement.busy);
        let busy = || count.load(Ordering::Relaxed);
        let place = placement.next().await;
        assert_eq!(busy(), 1);
        let answering = place.answering();
        assert_eq!(busy(), 1);
        drop(answering);
        assert_eq!(busy(), 0);
        let both = [place.answering(), place.answering()];
        assert_eq!(busy(), 2);
        drop(both);
        drop(placement.next().await);
        assert_eq!(busy(), 0, "a connection that sent nothing is gone");
    }
}
