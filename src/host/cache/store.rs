//! The entries of one server: least recently used goes first, by count and by bytes.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::config::CacheConfig;
use crate::host::cache::{CacheEntryView, CacheKey, Kept};
use crate::mcp::Payload;

/// One answer.
pub(super) struct Entry {
    pub(super) label: SafeText,
    pub(super) result: Payload,
    pub(super) stored: Timestamp,
    pub(super) ttl: Duration,
    pub(super) hits: u64,
    pub(super) bytes: usize,
    /// Tick of the last use.
    pub(super) used: u64,
}

/// The answers of one server.
#[derive(Default)]
pub(super) struct Store {
    entries: HashMap<CacheKey, Entry>,
    /// Keys by their last use, oldest first.
    order: BTreeMap<u64, CacheKey>,
    bytes: usize,
}

impl Entry {
    pub(super) fn kept(&self, now: Timestamp) -> Kept {
        let age = now.since(self.stored);
        Kept { result: self.result.clone(), age, fresh: age < self.ttl }
    }

    pub(super) fn view(&self, key: &CacheKey) -> CacheEntryView {
        CacheEntryView {
            key: key.clone(),
            label: self.label.clone(),
            stored: self.stored,
            ttl: self.ttl,
            hits: self.hits,
            bytes: self.bytes,
        }
    }
}

impl Store {
    pub(super) fn get(&self, key: &CacheKey) -> Option<&Entry> {
        self.entries.get(key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&CacheKey, &Entry)> {
        self.entries.iter()
    }

    /// Notes a use.
    pub(super) fn touch(&mut self, key: &CacheKey, tick: u64) {
        if let Some(entry) = self.entries.get_mut(key) {
            self.order.remove(&entry.used);
            entry.used = tick;
            entry.hits += 1;
            self.order.insert(tick, key.clone());
        }
    }

    /// Puts an entry in and gives how many others had to go for it.
    pub(super) fn insert(&mut self, key: CacheKey, entry: Entry, config: &CacheConfig) -> u64 {
        self.remove(&key);
        if config.max_entries == 0 || entry.bytes as u64 > config.max_bytes {
            return 0;
        }
        self.bytes += entry.bytes;
        self.order.insert(entry.used, key.clone());
        self.entries.insert(key, entry);
        let mut evicted = 0;
        while self.entries.len() as u64 > config.max_entries || self.bytes as u64 > config.max_bytes
        {
            let Some((_, oldest)) = self.order.pop_first() else { break };
            self.forget(&oldest);
            evicted += 1;
        }
        evicted
    }

    /// Takes the entries out for which `doomed` holds.
    pub(super) fn drain_if(&mut self, doomed: impl Fn(&CacheKey) -> bool) -> Vec<CacheKey> {
        let gone: Vec<CacheKey> = self.order.values().filter(|key| doomed(key)).cloned().collect();
        for key in &gone {
            self.remove(key);
        }
        gone
    }

    fn remove(&mut self, key: &CacheKey) {
        if let Some(entry) = self.entries.get(key) {
            let used = entry.used;
            self.order.remove(&used);
            self.forget(key);
        }
    }

    fn forget(&mut self, key: &CacheKey) {
        if let Some(entry) = self.entries.remove(key) {
            self.bytes -= entry.bytes;
        }
    }

    #[cfg(test)]
    pub(super) fn totals(&self) -> (usize, usize, usize) {
        (self.entries.len(), self.order.len(), self.bytes)
    }
}
