//! Cache of prompts and resources, and stale answers for dead servers.
//!
//! Owns the cached results, their time to live and the eviction order. Never sends requests; time
//! is an argument.

use std::collections::VecDeque;
use std::time::Duration;

use indexmap::IndexMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use base::{SafeText, ServerName, Timestamp};
use config::CacheConfig;
use protocol::Payload;

/// Key of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CacheKey {
    /// The server.
    pub server: ServerName,
    /// The method.
    pub method: String,
    /// Parameters, canonical JSON.
    pub params: String,
}

/// One entry, for display.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheEntryView {
    /// Its key.
    pub key: CacheKey,
    /// URI or prompt name to display.
    pub label: SafeText,
    /// When it was stored.
    pub stored: Timestamp,
    /// Its time to live.
    pub ttl: Duration,
    /// Number of hits.
    pub hits: u64,
    /// Its size in bytes.
    pub bytes: usize,
}

/// The whole cache, for display.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheView {
    /// Entries, most recently used first.
    pub entries: Vec<CacheEntryView>,
    /// Requests answered from the cache.
    pub hits: u64,
    /// Requests without a fresh entry.
    pub misses: u64,
    /// Entries evicted because of a size limit.
    pub evictions: u64,
    /// The most recent invalidations with their reason, newest last, at most 100.
    pub invalidated: Vec<(Timestamp, CacheKey, SafeText)>,
}

/// The cache of one host. Limits apply per server, as configured in its entry.
#[derive(Default)]
pub struct Cache {
    inner: Mutex<CacheInner>,
}

#[derive(Default)]
struct CacheInner {
    /// Most recently used last.
    entries: IndexMap<CacheKey, CacheEntry>,
    /// Counts invalidations.
    version: u64,
    hits: u64,
    misses: u64,
    evictions: u64,
    invalidated: VecDeque<(Timestamp, CacheKey, SafeText)>,
}

/// A cached result.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedAnswer {
    /// The result as sent.
    pub result: Payload,
    /// How old it is.
    pub age: Duration,
    /// Whether its time to live has not expired.
    pub fresh: bool,
}

/// A result to store.
pub struct CachePut {
    /// Its key.
    pub key: CacheKey,
    /// URI or prompt name to display.
    pub label: SafeText,
    /// The result as sent.
    pub result: Payload,
    /// [`Cache::version`] from before the request was sent.
    pub version: u64,
}

impl Cache {
    /// Number of invalidations remembered.
    const MAX_INVALIDATIONS: usize = 100;
    /// Longest time to live a server can request.
    const MAX_ENTRY_LIFETIME: Duration = Duration::from_secs(24 * 3600);

    /// A fresh result; counts a hit or a miss.
    pub fn fresh(&self, key: &CacheKey, now: Timestamp) -> Option<CachedAnswer> {
        let mut inner = self.inner.lock();
        let found = inner.touch(key, now, |kept| kept.fresh);
        inner.hits += u64::from(found.is_some());
        inner.misses += u64::from(found.is_none());
        found
    }

    /// A result of any age, for when the server is unavailable; counts a hit.
    pub fn any(&self, key: &CacheKey, now: Timestamp) -> Option<CachedAnswer> {
        let mut inner = self.inner.lock();
        let found = inner.touch(key, now, |_| true);
        inner.hits += u64::from(found.is_some());
        found
    }

    /// The invalidation count. Callers read it before sending a request and pass it to
    /// [`Cache::keep`], so that a result invalidated while in flight is not stored.
    pub fn version(&self) -> u64 {
        self.inner.lock().version
    }

    /// Stores a result within the limits of its server. A result larger than the whole cache is
    /// discarded.
    pub fn keep(&self, config: &CacheConfig, keep: CachePut, now: Timestamp) {
        if !config.enabled {
            return;
        }
        let ttl = server_ttl(&keep.result).unwrap_or(config.ttl);
        let weight = base::text::json::weigh(&keep.result);
        let mut inner = self.inner.lock();
        if inner.version != keep.version {
            return;
        }
        let CachePut { key, label, result, .. } = keep;
        inner.entries.shift_remove(&key);
        let bytes = size_of::<CacheEntry>() + key.params.len() + weight;
        if config.max_entries == 0 || bytes as u64 > config.max_bytes {
            return;
        }
        let server = key.server.clone();
        let view = CacheEntryView { key: key.clone(), label, stored: now, ttl, hits: 0, bytes };
        inner.entries.insert(key, CacheEntry { view, result });
        loop {
            let own = inner.entries.values().filter(|entry| entry.view.key.server == server);
            let (count, bytes) = own.fold((0, 0), |(n, sum), e| (n + 1, sum + e.view.bytes as u64));
            if count <= config.max_entries && bytes <= config.max_bytes {
                return;
            }
            let oldest = inner.entries.keys().position(|key| key.server == server);
            inner.entries.shift_remove_index(oldest.unwrap_or_default());
            inner.evictions += 1;
        }
    }

    /// Drops the entries for which `doomed` holds, and records the reason.
    pub fn invalidate(
        &self,
        reason: &SafeText,
        now: Timestamp,
        doomed: impl Fn(&CacheKey) -> bool,
    ) {
        let mut inner = self.inner.lock();
        inner.version += 1;
        let gone: Vec<_> = inner.entries.extract_if(.., |key, _| doomed(key)).collect();
        for (key, _) in gone {
            if inner.invalidated.len() == Self::MAX_INVALIDATIONS {
                inner.invalidated.pop_front();
            }
            inner.invalidated.push_back((now, key, reason.clone()));
        }
    }

    /// The content of an entry of any age; does not count as a hit.
    pub fn content(&self, key: &CacheKey) -> Option<Payload> {
        let inner = self.inner.lock();
        Some(inner.entries.get(key)?.result.clone())
    }

    /// A snapshot for display.
    pub fn view(&self) -> CacheView {
        let inner = self.inner.lock();
        CacheView {
            entries: inner.entries.values().rev().map(|entry| entry.view.clone()).collect(),
            hits: inner.hits,
            misses: inner.misses,
            evictions: inner.evictions,
            invalidated: inner.invalidated.iter().cloned().collect(),
        }
    }
}

impl CacheInner {
    fn touch(
        &mut self,
        key: &CacheKey,
        now: Timestamp,
        wanted: impl Fn(&CachedAnswer) -> bool,
    ) -> Option<CachedAnswer> {
        let (at, _, entry) = self.entries.get_full_mut(key)?;
        let age = now.since(entry.view.stored);
        let kept = CachedAnswer { result: entry.result.clone(), age, fresh: age < entry.view.ttl };
        if !wanted(&kept) {
            return None;
        }
        entry.view.hits += 1;
        self.entries.move_index(at, self.entries.len() - 1);
        Some(kept)
    }
}

/// The parameters of a `resources/read`, as used in [`CacheKey::params`].
pub fn resource_params(uri: &str) -> String {
    serde_json::json!({ "uri": uri }).to_string()
}

/// The time to live requested by the server (`ttlMs`, 2026-07-28), capped. `cacheScope` limits
/// sharing between users and is ignored: a host has one user.
fn server_ttl(result: &Payload) -> Option<Duration> {
    let hint = result.get("ttlMs")?;
    let millis = hint.as_u64().or_else(|| {
        // Negative and fractional numbers are accepted; anything else is ignored.
        hint.as_f64().map(|number| number.max(0.0) as u64)
    })?;
    Some(Duration::from_millis(millis).min(Cache::MAX_ENTRY_LIFETIME))
}

/// One stored result.
struct CacheEntry {
    view: CacheEntryView,
    result: Payload,
}

#[cfg(test)]
mod tests;
