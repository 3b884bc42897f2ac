//! Cache of prompts and resources (requirement X1), and stale answers for dead servers (R7).
//!
//! Owns what was answered, for how long it counts and in which order it goes. Never asks a server;
//! time is an argument.

use std::collections::VecDeque;
use std::time::Duration;

use indexmap::IndexMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::base::{SafeText, ServerName, Timestamp};
use crate::config::CacheConfig;
use crate::mcp::Payload;

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

/// One entry as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CacheEntryView {
    /// Its key.
    pub key: CacheKey,
    /// URI or prompt name to draw.
    pub label: SafeText,
    /// When it was stored.
    pub stored: Timestamp,
    /// Its time to live.
    pub ttl: Duration,
    /// Times it answered.
    pub hits: u64,
    /// Its size in bytes.
    pub bytes: usize,
}

/// The whole cache as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CacheView {
    /// Entries, most recently used first.
    pub entries: Vec<CacheEntryView>,
    /// Answers from the cache.
    pub hits: u64,
    /// Questions it could not answer.
    pub misses: u64,
    /// Entries dropped for room.
    pub evictions: u64,
    /// Newest invalidations with their reason, newest last, at most 100.
    pub invalidated: Vec<(Timestamp, CacheKey, SafeText)>,
}

/// The cache of one host. Limits hold per server, as each entry configures them.
#[derive(Default)]
pub struct Cache {
    inner: Mutex<CacheInner>,
}

#[derive(Default)]
struct CacheInner {
    /// The most recently used last.
    entries: IndexMap<CacheKey, CacheEntry>,
    /// Counts invalidations.
    version: u64,
    hits: u64,
    misses: u64,
    evictions: u64,
    invalidated: VecDeque<(Timestamp, CacheKey, SafeText)>,
}

/// An answer that was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedAnswer {
    /// The result as sent.
    pub result: Payload,
    /// How old it is.
    pub age: Duration,
    /// Whether its time to live has not passed.
    pub fresh: bool,
}

/// What is to be kept.
pub struct CachePut {
    /// Its key.
    pub key: CacheKey,
    /// URI or prompt name to draw.
    pub label: SafeText,
    /// The result as sent.
    pub result: Payload,
    /// [`Cache::version`] before the question was sent.
    pub version: u64,
}

impl Cache {
    /// Invalidations remembered.
    const INVALIDATIONS: usize = 100;
    /// Longest time to live a server can ask for.
    const MAX_TTL: Duration = Duration::from_secs(24 * 3600);

    /// A fresh answer, counted as a hit or a miss.
    pub fn fresh(&self, key: &CacheKey, now: Timestamp) -> Option<CachedAnswer> {
        let mut inner = self.inner.lock();
        let found = inner.touch(key, now, |kept| kept.fresh);
        inner.hits += u64::from(found.is_some());
        inner.misses += u64::from(found.is_none());
        found
    }

    /// An answer of any age, for when the server cannot be asked (R7).
    pub fn any(&self, key: &CacheKey, now: Timestamp) -> Option<CachedAnswer> {
        let mut inner = self.inner.lock();
        let found = inner.touch(key, now, |_| true);
        inner.hits += u64::from(found.is_some());
        found
    }

    /// Counts invalidations. Read before a question is sent and given to [`Cache::keep`], so that an
    /// answer that was invalidated on its way is not kept.
    pub fn version(&self) -> u64 {
        self.inner.lock().version
    }

    /// Keeps an answer within the limits of its server. An answer larger than the whole cache is
    /// not kept.
    pub fn keep(&self, config: &CacheConfig, keep: CachePut, now: Timestamp) {
        if !config.enabled {
            return;
        }
        let ttl = server_ttl(&keep.result).unwrap_or(config.ttl);
        let weight = crate::base::text::json::weigh(&keep.result);
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

    /// Drops the entries for which `doomed` holds, and remembers why.
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
            if inner.invalidated.len() == Self::INVALIDATIONS {
                inner.invalidated.pop_front();
            }
            inner.invalidated.push_back((now, key, reason.clone()));
        }
    }

    /// The content of an entry, whatever its age; no hit.
    pub fn content(&self, key: &CacheKey) -> Option<Payload> {
        let inner = self.inner.lock();
        Some(inner.entries.get(key)?.result.clone())
    }

    /// What is shown.
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

/// The parameters of a `resources/read` as they stand in a key.
pub fn resource_params(uri: &str) -> String {
    serde_json::json!({ "uri": uri }).to_string()
}

/// What the server says about how long its answer counts (`ttlMs`, 2026-07-28), kept within sense.
/// `cacheScope` is about who may share it; this host shares nothing between people.
fn server_ttl(result: &Payload) -> Option<Duration> {
    let hint = result.get("ttlMs")?;
    let millis = hint.as_u64().or_else(|| {
        // Negative and fractional numbers are numbers too; anything else is no hint.
        hint.as_f64().map(|number| number.max(0.0) as u64)
    })?;
    Some(Duration::from_millis(millis).min(Cache::MAX_TTL))
}

/// One answer.
struct CacheEntry {
    view: CacheEntryView,
    result: Payload,
}

#[cfg(test)]
mod tests;
