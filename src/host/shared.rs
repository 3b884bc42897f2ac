//! State shared by all parts of one host: clock, facts, telemetry, servers, cache, approval queue.
//!
//! Held by the handle, the supervisor and every actor. Owns no task; independent of front ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tokio_util::sync::CancellationToken;

use super::server::memory::Memory;
use crate::approvals::queue::ApprovalQueue;
use crate::cache::Cache;
use crate::policy::CheckPoint;
use crate::projector::Facts;
use crate::router::Routes;
use crate::server::connect::Connector;
use crate::server::slot::{Slot, Slots};
use crate::validators::Validators;
use base::{Clock, LogRecord, Ring};
use config::ServerConfig;
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
    routes: RwLock<Arc<Routes>>,
    rerouting: Mutex<()>,
    eras: Mutex<HashMap<String, Era>>,
    calls: AtomicU64,
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

    /// Replaces the servers and rebuilds the routes. Called by the supervisor only.
    pub fn set_slots(&self, slots: Slots) {
        *self.slots.write() = Arc::new(slots);
        self.reroute();
    }

    /// The current routes of names and URIs.
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read())
    }

    /// Rebuilds the routes, after the lists of a server changed.
    pub fn reroute(&self) {
        // One builder at a time, so that a stale build never overwrites a newer one; readers keep
        // using the old routes meanwhile.
        let _builder = self.rerouting.lock();
        let routes = Arc::new(Routes::build(&self.slots()));
        *self.routes.write() = routes;
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
}

/// Sized for the processors of this machine.
impl Default for StartGate {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let width = (2 * processors).clamp(4, Self::MAX_CONCURRENT_STARTS);
        let idle = Semaphore::new(Self::MAX_CONCURRENT_STARTS - width);
        Self { width, sure: Arc::new(Semaphore::new(width)), idle: Arc::new(idle) }
    }
}

impl StartGate {
    /// Maximum number of concurrent starts.
    const MAX_CONCURRENT_STARTS: usize = 16;
    /// How often the processor load is checked.
    const LOAD_INTERVAL: Duration = Duration::from_millis(50);

    /// Waits for a permit; dropping it releases the place.
    pub async fn enter(&self, connector: &dyn Connector) -> Option<OwnedSemaphorePermit> {
        let sure = Arc::clone(&self.sure).acquire_owned();
        tokio::pin!(sure);
        loop {
            tokio::select! {
                biased;
                place = &mut sure => return place.ok(),
                () = tokio::time::sleep(Self::LOAD_INTERVAL) => {}
            }
            if self.idle.available_permits() > 0
                && !connector.is_crowded(self.width).await
                && let Ok(place) = Arc::clone(&self.idle).try_acquire_owned()
            {
                return Some(place);
            }
        }
    }
}
