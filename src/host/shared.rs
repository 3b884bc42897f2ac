//! What all parts of one host share: time, facts, telemetry, the servers, the cache, the approval queue.
//!
//! Held by the handle, the supervisor and every actor. Owns no task; knows no front end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};
use tokio_util::sync::CancellationToken;

use super::server::memory::Memory;
use crate::base::{Clock, LogRecord, Ring};
use crate::config::ServerConfig;
use crate::host::approvals::queue::ApprovalQueue;
use crate::host::cache::Cache;
use crate::host::policy::CheckPoint;
use crate::host::projector::Facts;
use crate::host::router::Routes;
use crate::host::server::connect::Connector;
use crate::host::server::slot::{Slot, Slots};
use crate::host::validate::Validators;
use crate::mcp::{CallId, Era, Notice, TrafficRecord};

/// Shared state of a host.
pub struct HostShared {
    /// Time.
    pub clock: Clock,
    /// Where facts go.
    pub facts: Facts,
    /// All traffic.
    pub traffic: Ring<TrafficRecord>,
    /// All logs.
    pub logs: Ring<LogRecord>,
    /// What servers tell without being asked.
    pub notices: broadcast::Sender<Notice>,
    /// Prompts and resources that were fetched.
    pub cache: Cache,
    /// Requests of servers.
    pub approvals: Arc<ApprovalQueue>,
    /// Who may do what.
    pub policy: CheckPoint,
    /// Compiled schemas.
    pub validators: Validators,
    /// How servers are reached.
    pub connector: Arc<dyn Connector>,
    /// What servers offered, for those that start on demand.
    pub memory: Option<Arc<dyn Memory>>,
    /// Places for servers that start at once.
    pub starting: StartGate,
    /// Skips every grace: the second Ctrl-C.
    pub force: CancellationToken,
    /// Ends the grace of calls in flight: the host stops.
    pub hurry: CancellationToken,
    slots: RwLock<Arc<Slots>>,
    routes: RwLock<Arc<Routes>>,
    rerouting: Mutex<()>,
    eras: Mutex<HashMap<String, Era>>,
    calls: AtomicU64,
}

impl HostShared {
    /// Messages and bytes of traffic that are kept.
    const TRAFFIC: (usize, usize) = (20_000, 32 << 20);

    /// Notices that wait for a reader; of more, it misses the oldest.
    const NOTICES: usize = 1_024;

    /// Nothing but what every host has: no servers yet.
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
            notices: broadcast::Sender::new(Self::NOTICES),
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

    /// Puts other servers in place. For the supervisor.
    pub fn set_slots(&self, slots: Slots) {
        *self.slots.write() = Arc::new(slots);
        self.reroute();
    }

    /// Where names and URIs lead.
    pub fn routes(&self) -> Arc<Routes> {
        Arc::clone(&self.routes.read())
    }

    /// Builds the routes anew, after the lists of a server changed.
    pub fn reroute(&self) {
        // One builder at a time, so that of two changes at once the later one is not overwritten;
        // callers go on with the old routes meanwhile.
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

    /// Reserves an id.
    pub fn next_call_id(&self) -> CallId {
        CallId(self.calls.fetch_add(1, Ordering::Relaxed))
    }
}

/// Two entries that reach the same server the same way share what was learned of it. Secrets print
/// as `***`, so none gets into the key.
fn era_key(config: &ServerConfig) -> String {
    format!("{:?}", config.transport)
}

// How many servers start at once: twice as many as the machine has processors, and more while those
// that start leave the processors idle (they download, or wait). What all start at once is slower
// for everybody, and answers to probes come late.

/// Places for servers that start.
pub struct StartGate {
    width: usize,
    sure: Arc<Semaphore>,
    /// Those that are given only while the processors are idle.
    idle: Arc<Semaphore>,
}

/// As wide as the machine.
impl Default for StartGate {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let width = (2 * processors).clamp(4, Self::MOST);
        let idle = Semaphore::new(Self::MOST - width);
        Self { width, sure: Arc::new(Semaphore::new(width)), idle: Arc::new(idle) }
    }
}

impl StartGate {
    /// Most servers that start at the same time.
    const MOST: usize = 16;
    /// How often it is looked whether the processors are idle.
    const LOOK: Duration = Duration::from_millis(50);

    /// Waits for a place; it is free again when the permit is dropped.
    pub async fn enter(&self, connector: &dyn Connector) -> Option<OwnedSemaphorePermit> {
        let sure = Arc::clone(&self.sure).acquire_owned();
        tokio::pin!(sure);
        loop {
            tokio::select! {
                biased;
                place = &mut sure => return place.ok(),
                () = tokio::time::sleep(Self::LOOK) => {}
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
