//! Cache of prompts and resources (requirement X1), and stale answers for dead servers (R7).
//!
//! Owns what was answered, for how long it counts and in which order it goes. Never asks a server;
//! time is an argument.

use std::collections::{HashMap, VecDeque};
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
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    servers: IndexMap<ServerName, Store>,
    /// Counts invalidations.
    version: u64,
    /// Counts uses, to order entries of all servers by their last one.
    tick: u64,
    hits: u64,
    misses: u64,
    evictions: u64,
    invalidated: VecDeque<(Timestamp, CacheKey, SafeText)>,
}

/// An answer that was kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The result as sent.
    pub result: Payload,
    /// How old it is.
    pub age: Duration,
    /// Whether its time to live has not passed.
    pub fresh: bool,
}

/// What is to be kept.
pub struct Keep {
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
    pub fn fresh(&self, key: &CacheKey, now: Timestamp) -> Option<Kept> {
        let mut inner = self.inner.lock();
        let found = inner.touch(key, now, |kept| kept.fresh);
        inner.hits += u64::from(found.is_some());
        inner.misses += u64::from(found.is_none());
        found
    }

    /// An answer of any age, for when the server cannot be asked (R7).
    pub fn any(&self, key: &CacheKey, now: Timestamp) -> Option<Kept> {
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
    pub fn keep(&self, config: &CacheConfig, keep: Keep, now: Timestamp) {
        if !config.enabled {
            return;
        }
        let ttl = server_ttl(&keep.result).unwrap_or(config.ttl);
        let weight = crate::base::text::json::weigh(&keep.result);
        let mut inner = self.inner.lock();
        if inner.version != keep.version {
            return;
        }
        inner.tick += 1;
        let Keep { key, label, result, .. } = keep;
        let bytes = size_of::<Entry>() + key.params.len() + weight;
        let view = CacheEntryView { key, label, stored: now, ttl, hits: 0, bytes };
        let entry = Entry { view, result, used: inner.tick };
        let store = inner.servers.entry(entry.view.key.server.clone()).or_default();
        let evicted = store.insert(entry, config);
        inner.evictions += evicted;
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
        let mut gone = Vec::new();
        for store in inner.servers.values_mut() {
            gone.extend(store.drain_if(&doomed));
        }
        for key in gone {
            if inner.invalidated.len() == Self::INVALIDATIONS {
                inner.invalidated.pop_front();
            }
            inner.invalidated.push_back((now, key, reason.clone()));
        }
    }

    /// The content of an entry, whatever its age; no hit.
    pub fn content(&self, key: &CacheKey) -> Option<Payload> {
        let inner = self.inner.lock();
        Some(inner.servers.get(&key.server)?.entries.get(key)?.result.clone())
    }

    /// What is shown.
    pub fn view(&self) -> CacheView {
        let inner = self.inner.lock();
        let mut entries: Vec<&Entry> =
            inner.servers.values().flat_map(|store| store.entries.values()).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
        CacheView {
            entries: entries.into_iter().map(|entry| entry.view.clone()).collect(),
            hits: inner.hits,
            misses: inner.misses,
            evictions: inner.evictions,
            invalidated: inner.invalidated.iter().cloned().collect(),
        }
    }
}

impl Inner {
    fn touch(
        &mut self,
        key: &CacheKey,
        now: Timestamp,
        wanted: impl Fn(&Kept) -> bool,
    ) -> Option<Kept> {
        let store = self.servers.get_mut(&key.server)?;
        let entry = store.entries.get_mut(key)?;
        let age = now.since(entry.view.stored);
        let kept = Kept { result: entry.result.clone(), age, fresh: age < entry.view.ttl };
        if !wanted(&kept) {
            return None;
        }
        self.tick += 1;
        entry.used = self.tick;
        entry.view.hits += 1;
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

// The entries of one server: least recently used goes first, by count and by bytes.

/// One answer.
struct Entry {
    view: CacheEntryView,
    result: Payload,
    /// Tick of the last use.
    used: u64,
}

/// The answers of one server.
#[derive(Default)]
struct Store {
    entries: HashMap<CacheKey, Entry>,
    bytes: usize,
}

impl Store {
    /// Puts an entry in and gives how many others had to go for it.
    fn insert(&mut self, entry: Entry, config: &CacheConfig) -> u64 {
        self.remove(&entry.view.key);
        let size = entry.view.bytes;
        if config.max_entries == 0 || size as u64 > config.max_bytes {
            return 0;
        }
        self.bytes += size;
        self.entries.insert(entry.view.key.clone(), entry);
        let mut evicted = 0;
        while self.entries.len() as u64 > config.max_entries || self.bytes as u64 > config.max_bytes
        {
            let oldest = self.entries.values().min_by_key(|entry| entry.used);
            let Some(oldest) = oldest.map(|entry| entry.view.key.clone()) else { break };
            self.remove(&oldest);
            evicted += 1;
        }
        evicted
    }

    /// Takes the entries out for which `doomed` holds, least recently used first.
    fn drain_if(&mut self, doomed: impl Fn(&CacheKey) -> bool) -> Vec<CacheKey> {
        let gone = self.entries.extract_if(|key, _| doomed(key)).map(|(_, entry)| entry);
        let mut gone: Vec<Entry> = gone.collect();
        gone.sort_by_key(|entry| entry.used);
        self.bytes -= gone.iter().map(|entry| entry.view.bytes).sum::<usize>();
        gone.into_iter().map(|entry| entry.view.key).collect()
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.view.bytes;
        }
    }
}

#[cfg(test)]
mod tests;
