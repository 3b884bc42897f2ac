//! Looking: the view, the journal, telemetry, metrics, the cache. Nothing here waits.

use std::sync::Arc;

use tokio::sync::{broadcast, mpsc, watch};

use crate::base::Clock;
use crate::base::logs::LogRecord;
use crate::base::ring::Ring;
use crate::base::secret::Secret;
use crate::base::text::SafeText;
use crate::base::{LogLevel, ServerName};
use crate::config::{RootConfig, ServerConfig};
use crate::host::cache::{CacheKey, CacheView};
use crate::host::call::CallView;
use crate::host::handle::Host;
use crate::host::metrics::ServerMetrics;
use crate::host::{HostView, Record};
use crate::mcp::Notice;
use crate::mcp::capabilities::Capabilities;
use crate::mcp::traffic::TrafficRecord;
use crate::process::Usage;

impl Host {
    /// All servers that can be called, those that sleep included, with all their capabilities (requirements K2, H1). Servers
    /// that are down stand in the view, with their last known lists and the reason.
    pub fn get_tools(&self) -> Vec<(ServerName, Arc<Capabilities>)> {
        let slots = self.inner.deck.slots();
        let live = slots.iter().map(|(name, slot)| (name, slot.live()));
        live.filter(|(_, live)| live.is_callable())
            .map(|(name, live)| (name.clone(), Arc::clone(&live.capabilities)))
            .collect()
    }

    /// Metrics of every server.
    pub fn get_metrics(&self) -> Vec<(ServerName, ServerMetrics)> {
        let slots = self.inner.deck.slots();
        slots.iter().map(|(name, slot)| (name.clone(), slot.metrics())).collect()
    }

    /// Calls in flight, oldest first.
    pub fn calls(&self) -> Vec<CallView> {
        let deck = &self.inner.deck;
        let slots = deck.slots();
        let rows: Vec<_> = slots
            .values()
            .flat_map(|slot| slot.calls().values().cloned().collect::<Vec<_>>())
            .collect();
        let mut calls: Vec<CallView> = rows.iter().map(|row| row.show()).collect();
        calls.sort_by_key(|call| call.id);
        calls
    }

    /// The effective configuration of a server.
    pub fn server_config(&self, server: &ServerName) -> Option<Arc<ServerConfig>> {
        Some(Arc::clone(&self.inner.deck.slots().get(server)?.live().config))
    }

    /// Memory and processor time of a server's processes; `None` when it has none, or where the
    /// platform does not tell. Reads the process table: ask about once a second, off the screen's
    /// thread.
    pub fn usage(&self, server: &ServerName) -> Option<Usage> {
        self.inner.deck.slots().get(server)?.live().process.as_ref()?.usage()
    }

    /// What is masked of a server: the secrets of its entry, and the tokens it was signed in with.
    pub fn secrets(&self, server: &ServerName) -> Vec<Secret> {
        let Some(slot) = self.inner.deck.slots().get(server).cloned() else { return Vec::new() };
        slot.redactor.learn(slot.live().config.secrets());
        slot.redactor.values()
    }

    /// The roots shared with a server now.
    pub fn roots(&self, server: &ServerName) -> Vec<RootConfig> {
        self.inner.deck.approvals.roots(server)
    }

    /// The resources the host is subscribed to.
    pub fn subscriptions(&self, server: &ServerName) -> Vec<Arc<str>> {
        let slots = self.inner.deck.slots();
        slots.get(server).map(|slot| slot.subscriptions()).unwrap_or_default()
    }

    /// The cache.
    pub fn cache(&self) -> CacheView {
        self.inner.deck.cache.view()
    }

    /// The content of a cache entry.
    pub fn cache_content(&self, key: &CacheKey) -> Option<crate::mcp::Payload> {
        self.inner.deck.cache.content(key)
    }

    /// Drops one cache entry, or all.
    pub fn cache_drop(&self, key: Option<&CacheKey>) {
        let reason = SafeText::line("dropped on request");
        let deck = &self.inner.deck;
        deck.cache
            .invalidate(&reason, deck.clock.now(), |entry| key.is_none_or(|key| key == entry));
    }

    /// The view now: every server with its state and why, its lists, what waits for an answer, the
    /// problems of the configuration.
    pub fn snapshot(&self) -> Arc<HostView> {
        Arc::clone(&self.inner.view.borrow())
    }

    /// The view now, and every later one.
    pub fn view(&self) -> watch::Receiver<Arc<HostView>> {
        self.inner.view.clone()
    }

    /// Facts from now on. Overflow policy: a subscriber that does not read slows nobody; it is
    /// dropped when 4,096 facts wait, and its channel closes.
    pub fn subscribe(&self) -> mpsc::Receiver<Arc<Record>> {
        self.inner.journal.subscribe()
    }

    /// The newest facts, oldest first, at most 10,000.
    pub fn journal(&self) -> Vec<Arc<Record>> {
        self.inner.journal.records()
    }

    /// All traffic.
    pub fn traffic(&self) -> Ring<TrafficRecord> {
        self.inner.deck.traffic.clone()
    }

    /// One server's newest traffic, kept through restarts.
    pub fn black_box(&self, server: &ServerName) -> Option<Ring<TrafficRecord>> {
        Some(self.inner.deck.slots().get(server)?.black_box.clone())
    }

    /// All logs.
    pub fn logs(&self) -> Ring<LogRecord> {
        self.inner.deck.logs.clone()
    }

    /// What servers tell from now on without being asked: updated resources, and what they log. Overflow
    /// policy: who reads too slowly misses the oldest.
    pub fn notices(&self) -> broadcast::Receiver<Notice> {
        self.inner.deck.notices.subscribe()
    }

    /// The level that a server is asked to log at; `None` when it was never asked.
    pub fn log_level(&self, server: &ServerName) -> Option<LogLevel> {
        let slot = Arc::clone(self.inner.deck.slots().get(server)?);
        slot.log_level().or(slot.live().config.log_level)
    }

    /// The host's time, in which every [`crate::base::Timestamp`] is given.
    pub fn clock(&self) -> Clock {
        self.inner.deck.clock
    }
}
