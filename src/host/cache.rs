//! Cache of prompts and resources (requirement X1): the view of it that front ends inspect.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::ServerName;
use crate::host::Timestamp;
use crate::text::SafeText;

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
