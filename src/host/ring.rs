//! A bounded ring of shared records, lossy and counted: the telemetry plane (invariant 6).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// What a ring stores.
pub trait Weighed {
    /// Rough size in bytes, for the byte budget.
    fn bytes(&self) -> usize;
}

/// A bounded ring. Overflow policy: the oldest are dropped; readers learn how many they missed from
/// the gap in the sequence numbers.
#[derive(Clone)]
pub struct Ring<T> {
    inner: Arc<Mutex<Inner<T>>>,
    changed: watch::Sender<u64>,
}

struct Inner<T> {
    items: VecDeque<Arc<T>>,
    /// Sequence number of `items[0]`.
    first: u64,
    bytes: usize,
    max_items: usize,
    max_bytes: usize,
}

/// What a reader gets: the records from its cursor on.
#[derive(Clone, Debug)]
pub struct Batch<T> {
    /// The records, oldest first.
    pub items: Vec<Arc<T>>,
    /// Sequence number of the first of them.
    pub first: u64,
    /// Cursor for the next read.
    pub next: u64,
    /// Records between the cursor and the first that were dropped before they were read.
    pub missed: u64,
}

impl<T: Weighed> Ring<T> {
    /// A ring of at most `max_items` records and `max_bytes` bytes.
    pub fn new(max_items: usize, max_bytes: usize) -> Self {
        Self {
            inner: Arc::new(Mutex::new(Inner {
                items: VecDeque::new(),
                first: 0,
                bytes: 0,
                max_items,
                max_bytes,
            })),
            changed: watch::channel(0).0,
        }
    }

    /// Appends a record; gives its sequence number.
    pub fn push(&self, item: Arc<T>) -> u64 {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.bytes += item.bytes();
        inner.items.push_back(item);
        while inner.items.len() > inner.max_items
            || (inner.bytes > inner.max_bytes && inner.items.len() > 1)
        {
            if let Some(old) = inner.items.pop_front() {
                inner.bytes -= old.bytes();
                inner.first += 1;
            }
        }
        let next = inner.first + inner.items.len() as u64;
        drop(inner);
        self.changed.send_replace(next);
        next - 1
    }

    /// Up to `max` records from `cursor` on.
    pub fn read(&self, cursor: u64, max: usize) -> Batch<T> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let first = cursor.max(inner.first);
        let skip = (first - inner.first) as usize;
        let items: Vec<_> = inner.items.iter().skip(skip).take(max).cloned().collect();
        Batch {
            next: first + items.len() as u64,
            first,
            missed: first.saturating_sub(cursor),
            items,
        }
    }

    /// The newest `n` records, oldest first.
    pub fn tail(&self, n: usize) -> Vec<Arc<T>> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.items.iter().skip(inner.items.len().saturating_sub(n)).cloned().collect()
    }

    /// Changes whenever a record is appended; the value is the end of the ring.
    pub fn changed(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}
