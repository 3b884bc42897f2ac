//! State shared by all parts of one host: clock, facts, telemetry, servers, cache, approval queue.
//!
//! Held by the handle, the supervisor and every actor. Owns no task; independent of front ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::server::memory::Memory;
use crate::approvals::queue::ApprovalQueue;
use crate::cache::Cache;
use crate::policy::CheckPoint;
use crate::projector::Facts;
use crate::router::{Routes, find_server};
use crate::server::connect::Connector;
use crate::server::slot::{Slot, Slots};
use crate::validators::Validators;
use base::clock::rest_after;
use base::{Clock, LogRecord, Ring, ServerName};
use config::ServerConfig;
use config::error::Error;
use protocol::{CallId, Era, Notice, TrafficRecord};

/// Shared state of a host.
pub struct HostShared {
    /// The time source.
    pub clock: Clock,
    /// The sink for facts.
    pub facts: Facts,
    /// All traffic.
    pub traffic: Ring<TrafficRecord>,
    /// All logs.
    pub logs: Ring<LogRecord>,
    /// Notifications from servers.
    pub notices: broadcast::Sender<Notice>,
    /// Cached prompts and resources.
    pub cache: Cache,
    /// Requests from servers.
    pub approvals: Arc<ApprovalQueue>,
    /// Policy decisions.
    pub policy: CheckPoint,
    /// Compiled schemas.
    pub validators: Validators,
    /// Opens servers.
    pub connector: Arc<dyn Connector>,
    /// Remembered definitions of servers that start on demand.
    pub memory: Option<Arc<dyn Memory>>,
    /// Limits concurrent starts.
    pub starting: StartGate,
    /// Skips every grace period: the second Ctrl-C.
    pub force: CancellationToken,
    /// Ends the grace period of calls in flight: the host is stopping.
    pub hurry: CancellationToken,
    slots: RwLock<Arc<Slots>>,
    routes: RwLock<BuiltRoutes>,
    rerouting: Mutex<()>,
    eras: Mutex<HashMap<String, Era>>,
    calls: AtomicU64,
}

/// The routes as they were built last.
#[derive(Default)]
struct BuiltRoutes {
    /// How often servers and lists changed.
    changes: u64,
    /// `None` from a change until they are asked for.
    last: Option<Arc<Routes>>,
}

impl HostShared {
    /// Messages and bytes of traffic kept.
    const TRAFFIC: (usize, usize) = (20_000, 32 << 20);

    /// Capacity of the notice channel; a receiver that lags misses the oldest notices.
    const NOTICE_CAPACITY: usize = 1_024;

    /// The state of a new host, without servers.
    pub fn new(
        facts: Facts,
        logs: Ring<LogRecord>,
        approvals: Arc<ApprovalQueue>,
        connector: Arc<dyn Connector>,
        memory: Option<Arc<dyn Memory>>,
    ) -> Self {
        let force = CancellationToken::new();
        Self {
            hurry: force.child_token(),
            force,
            clock: facts.clock(),
            policy: CheckPoint::new(facts.clock()),
            facts,
            traffic: Ring::new(Self::TRAFFIC.0, Self::TRAFFIC.1),
            logs,
            notices: broadcast::Sender::new(Self::NOTICE_CAPACITY),
            cache: Cache::default(),
            approvals,
            validators: Validators::default(),
            connector,
            memory,
            starting: StartGate::default(),
            slots: RwLock::default(),
            routes: RwLock::default(),
            rerouting: Mutex::default(),
            eras: Mutex::default(),
            calls: AtomicU64::new(1),
        }
    }

    /// The servers.
    pub fn slots(&self) -> Arc<Slots> {
        Arc::clone(&self.slots.read())
    }

    /// A server by name.
    ///
    /// # Errors
    /// As [`find_server`].
    pub fn server(&self, name: &ServerName) -> Result<Arc<Slot>, Error> {
        find_server(&self.slots(), name).cloned()
    }

    /// Replaces the servers. Called by the supervisor only.
    pub fn set_slots(&self, slots: Slots) {
        *self.slots.write() = Arc::new(slots);
        self.reroute();
    }

    /// The current routes of names and URIs. Built where they are asked for: thousands of lists may
    /// change before.
    pub fn routes(&self) -> Arc<Routes> {
        if let Some(routes) = &self.routes.read().last {
            return Arc::clone(routes);
        }
        let _builder = self.rerouting.lock();
        let changes = {
            let built = self.routes.read();
            // Another caller may have built them meanwhile.
            if let Some(routes) = &built.last {
                return Arc::clone(routes);
            }
            built.changes
        };
        let routes = Arc::new(Routes::build(&self.slots()));
        let mut built = self.routes.write();
        if built.changes == changes {
            built.last = Some(Arc::clone(&routes));
        }
        routes
    }

    /// Has the routes built again, after the lists of a server changed.
    pub fn reroute(&self) {
        let mut built = self.routes.write();
        built.changes += 1;
        built.last = None;
    }

    /// The era that worked with this configuration before.
    pub fn era(&self, config: &ServerConfig) -> Option<Era> {
        self.eras.lock().get(&era_key(config)).copied()
    }

    /// Remembers the era that worked.
    pub fn remember_era(&self, config: &ServerConfig, era: Era) {
        self.eras.lock().insert(era_key(config), era);
    }

    /// Closes every breaker of a server.
    pub async fn close_breakers(&self, slot: &Slot) {
        self.facts.record_all(&slot.name, slot.close_breakers(self.clock.now())).await;
    }

    /// Reserves a call id.
    pub fn next_call_id(&self) -> CallId {
        CallId(self.calls.fetch_add(1, Ordering::Relaxed))
    }
}

/// Entries with the same transport share their negotiated era. Secrets print as `***`, so the key
/// contains none.
fn era_key(config: &ServerConfig) -> String {
    format!("{:?}", config.transport)
}

/// Limits how many servers start at once: twice the number of processors (at least 4), and up to 16
/// while the starting servers leave the processors idle (they download or wait). Too many
/// concurrent starts slow each other down and delay responses to probes.
pub struct StartGate {
    width: usize,
    sure: Arc<Semaphore>,
    /// Extra permits, granted only while the processors are idle.
    idle: Arc<Semaphore>,
    /// Held by the one who looks whether they are.
    look: tokio::sync::Mutex<LoadLook>,
}

/// The last look at the load of the processors.
struct LoadLook {
    /// Extra permits that it allows, while it is new.
    places: usize,
    /// When there may be another look.
    next: Instant,
}

/// Sized for the processors of this machine.
impl Default for StartGate {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let width = (2 * processors).clamp(4, Self::MAX_CONCURRENT_STARTS);
        let idle = Semaphore::new(Self::MAX_CONCURRENT_STARTS - width);
        let (sure, idle) = (Arc::new(Semaphore::new(width)), Arc::new(idle));
        let look = tokio::sync::Mutex::new(LoadLook { places: 0, next: Instant::now() });
        Self { width, sure, idle, look }
    }
}

impl StartGate {
    /// Maximum number of concurrent starts.
    const MAX_CONCURRENT_STARTS: usize = 16;
    /// How often the processor load is checked, at most.
    const LOAD_INTERVAL: Duration = Duration::from_millis(50);

    /// Waits for a permit; dropping it releases the place.
    pub async fn enter(&self, connector: &dyn Connector) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            place = Arc::clone(&self.sure).acquire_owned() => place.ok(),
            place = self.enter_while_idle(connector) => Some(place),
        }
    }

    /// Waits for an extra permit. Of all who wait, one at a time looks at the load, for all.
    async fn enter_while_idle(&self, connector: &dyn Connector) -> OwnedSemaphorePermit {
        let earliest = Instant::now() + Self::LOAD_INTERVAL;
        let mut look = self.look.lock().await;
        tokio::time::sleep_until(earliest).await;
        loop {
            let began = Instant::now();
            if began >= look.next {
                let free = self.idle.available_permits();
                let is_idle = free > 0 && !connector.is_crowded(self.width).await;
                look.places = if is_idle { free } else { 0 };
                let rest = rest_after(began.elapsed()).max(Self::LOAD_INTERVAL);
                look.next = Instant::now() + rest;
            }
            if look.places > 0 {
                look.places -= 1;
                if let Ok(place) = Arc::clone(&self.idle).try_acquire_owned() {
                    return place;
                }
                look.places = 0;
            }
            tokio::time::sleep_until(look.next).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::future::{BoxFuture, join_all};

    use super::*;
    use crate::server::connect::{OpenError, OpenRequest, Opened};

    /// Counts the looks at the load.
    struct Load {
        is_crowded: bool,
        looks: Arc<AtomicUsize>,
    }

    impl Connector for Load {
        fn open(&self, _: OpenRequest) -> BoxFuture<'static, Result<Opened, OpenError>> {
            Box::pin(std::future::pending())
        }

        fn is_crowded(&self, _: usize) -> BoxFuture<'static, bool> {
            self.looks.fetch_add(1, Ordering::Relaxed);
            Box::pin(std::future::ready(self.is_crowded))
        }
    }

    /// Has a hundred ask for a place, for a second. Returns how often the load was looked at.
    async fn looks(is_crowded: bool) -> usize {
        let (gate, looks) = (StartGate::default(), Arc::default());
        let load = Load { is_crowded, looks: Arc::clone(&looks) };
        let waiting = join_all((0..100).map(async |_| {
            let _place = gate.enter(&load).await;
            std::future::pending::<()>().await;
        }));
        let _ = tokio::time::timeout(Duration::from_secs(1), waiting).await;
        // The places are free again.
        let all = gate.sure.available_permits() + gate.idle.available_permits();
        assert_eq!(all, StartGate::MAX_CONCURRENT_STARTS);
        looks.load(Ordering::Relaxed)
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_all_who_wait_looks_at_the_load_for_all() {
        let looks_of_all = looks(true).await;
        assert!((10..=20).contains(&looks_of_all), "{looks_of_all} looks in a second");
        assert_eq!(looks(false).await, 1, "one filled every place");
    }
}
