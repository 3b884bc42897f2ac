//! A bounded ring of shared records, lossy and counted: the telemetry plane (invariant 6).
//!
//! Reading a window is linear in its length, wherever it starts: records are addressed by sequence
//! number. A push takes a short lock; what it evicts is dropped outside of it.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

/// What a ring stores.
pub trait Weighed {
    /// Rough size in bytes, for the byte budget. Must not change while the record is in a ring.
    fn bytes(&self) -> usize;
}

/// A bounded ring. Overflow policy: the oldest are dropped; readers learn how many they missed from
/// the gap in the sequence numbers. Cheap to clone; all clones are the same ring.
pub struct Ring<T> {
    inner: Arc<Mutex<RingInner<T>>>,
    changed: watch::Sender<u64>,
    whole: Arc<AtomicUsize>,
}

impl<T> Clone for Ring<T> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            changed: self.changed.clone(),
            whole: Arc::clone(&self.whole),
        }
    }
}

struct RingInner<T> {
    items: VecDeque<Arc<T>>,
    /// Sequence number of `items[0]`.
    first: u64,
    bytes: usize,
    max_items: usize,
    max_bytes: usize,
}

/// The result of a read: the records from the cursor on.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
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

impl<T> RingInner<T> {
    fn next(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    fn is_over(&self) -> bool {
        // The newest record is kept even if it alone exceeds the budget.
        self.items.len() > self.max_items || (self.bytes > self.max_bytes && self.items.len() > 1)
    }
}

impl<T: Weighed> Ring<T> {
    /// A ring of at most `max_items` records (at least one) and `max_bytes` bytes.
    pub fn new(max_items: usize, max_bytes: usize) -> Self {
        let inner = RingInner {
            items: VecDeque::new(),
            first: 0,
            bytes: 0,
            max_items: max_items.max(1),
            max_bytes,
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            changed: watch::channel(0).0,
            whole: Arc::default(),
        }
    }

    /// Makes writers truncate records only at this size, in bytes, if it exceeds their own limit,
    /// because a reader needs them whole. 0 turns this off.
    pub fn keep_whole(&self, bytes: usize) {
        self.whole.store(bytes, Ordering::Relaxed);
    }

    /// The size set by [`Ring::keep_whole`].
    pub fn whole(&self) -> usize {
        self.whole.load(Ordering::Relaxed)
    }

    /// Appends a record; returns its sequence number.
    pub fn push(&self, item: Arc<T>) -> u64 {
        let mut evicted = None;
        let mut more = Vec::new();
        let next = {
            let mut inner = self.inner.lock();
            inner.bytes += item.bytes();
            inner.items.push_back(item);
            while inner.is_over()
                && let Some(old) = inner.items.pop_front()
            {
                inner.bytes -= old.bytes();
                inner.first += 1;
                // Usually exactly one is evicted, which needs no allocation.
                if let Some(old) = evicted.replace(old) {
                    more.push(old);
                }
            }
            let next = inner.next();
            // Under the lock, so that the announced end never goes backwards. Skipped without
            // receivers: it would cost more than all the rest.
            if self.changed.receiver_count() > 0 {
                self.changed.send_replace(next);
            }
            next
        };
        drop((evicted, more));
        next - 1
    }

    /// Up to `max` records from `cursor` on.
    pub fn read(&self, cursor: u64, max: usize) -> Batch<T> {
        let inner = self.inner.lock();
        let first = cursor.clamp(inner.first, inner.next());
        let start = (first - inner.first) as usize;
        let end = start.saturating_add(max).min(inner.items.len());
        Batch {
            items: inner.items.range(start..end).cloned().collect(),
            first,
            next: first + (end - start) as u64,
            missed: inner.first.saturating_sub(cursor),
        }
    }

    /// The newest `n` records, oldest first.
    pub fn tail(&self, n: usize) -> Vec<Arc<T>> {
        let inner = self.inner.lock();
        let start = inner.items.len().saturating_sub(n);
        inner.items.range(start..).cloned().collect()
    }

    /// Sequence numbers of the records held now. The start is also how many were dropped so far.
    pub fn span(&self) -> Range<u64> {
        let inner = self.inner.lock();
        inner.first..inner.next()
    }

    /// Bytes held now, as summed from [`Weighed::bytes`].
    pub fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }

    /// Changes whenever a record is appended; the value is the end of the ring.
    pub fn changed(&self) -> watch::Receiver<u64> {
        let inner = self.inner.lock();
        self.changed.send_replace(inner.next());
        self.changed.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Item(u64, usize);

    impl Weighed for Item {
        fn bytes(&self) -> usize {
            self.1
        }
    }

    fn numbers(items: &[Arc<Item>]) -> Vec<u64> {
        items.iter().map(|item| item.0).collect()
    }

    #[test]
    fn a_reader_learns_how_many_it_missed() {
        let ring = Ring::new(3, 1000);
        for n in 0..5 {
            assert_eq!(ring.push(Arc::new(Item(n, 1))), n);
        }
        let batch = ring.read(0, 10);
        assert_eq!(
            (numbers(&batch.items), batch.first, batch.next, batch.missed),
            (vec![2, 3, 4], 2, 5, 2)
        );
        assert_eq!(ring.read(batch.next, 10).items.len(), 0);
        assert_eq!(ring.span(), 2..5);
    }

    #[test]
    fn a_cursor_beyond_the_end_waits_there() {
        let ring = Ring::new(3, 1000);
        ring.push(Arc::new(Item(0, 1)));
        let batch = ring.read(99, 10);
        assert_eq!((batch.items.len(), batch.first, batch.next, batch.missed), (0, 1, 1, 0));
    }

    #[test]
    fn a_record_over_the_byte_budget_is_held_alone() {
        let ring = Ring::new(10, 100);
        ring.push(Arc::new(Item(0, 60)));
        ring.push(Arc::new(Item(1, 500)));
        assert_eq!(numbers(&ring.tail(10)), [1]);
        ring.push(Arc::new(Item(2, 1)));
        assert_eq!((numbers(&ring.tail(10)), ring.bytes()), (vec![2], 1));
    }

    #[test]
    fn readers_beside_writers_see_every_record_in_order_or_counted() {
        const WRITERS: u64 = 4;
        const EACH: u64 = 20_000;
        let ring = Ring::new(512, usize::MAX);
        std::thread::scope(|scope| {
            for _ in 0..WRITERS {
                scope.spawn(|| {
                    for n in 0..EACH {
                        ring.push(Arc::new(Item(n, 8)));
                    }
                });
            }
            scope.spawn(|| {
                let (mut cursor, mut seen, mut missed) = (0, 0, 0);
                while cursor < WRITERS * EACH {
                    let batch = ring.read(cursor, 100);
                    assert_eq!(batch.first, cursor + batch.missed);
                    assert_eq!(batch.next, batch.first + batch.items.len() as u64);
                    missed += batch.missed;
                    seen += batch.items.len() as u64;
                    cursor = batch.next;
                }
                assert_eq!(seen + missed, WRITERS * EACH);
            });
        });
        assert_eq!(*ring.changed().borrow(), WRITERS * EACH);
        assert_eq!(ring.bytes(), 512 * 8);
    }

    proptest! {
        #[test]
        fn it_is_the_end_of_the_list_of_all_records(
            sizes in prop::collection::vec(0_usize..50, 0..60),
            max_items in 1_usize..20,
            max_bytes in 0_usize..200,
            cursor in 0_u64..80,
            window in 0_usize..30,
        ) {
            let ring = Ring::new(max_items, max_bytes);
            let mut model: VecDeque<Item> = VecDeque::new();
            for (n, size) in sizes.iter().enumerate() {
                let item = Item(n as u64, *size);
                ring.push(Arc::new(item.clone()));
                model.push_back(item);
                while model.len() > max_items
                    || (model.len() > 1 && model.iter().map(|i| i.1).sum::<usize>() > max_bytes)
                {
                    model.pop_front();
                }
            }
            let held: Vec<u64> = model.iter().map(|item| item.0).collect();
            prop_assert_eq!(numbers(&ring.tail(usize::MAX)), held.clone());
            let batch = ring.read(cursor, window);
            let expected: Vec<u64> =
                held.iter().copied().filter(|n| *n >= cursor).take(window).collect();
            prop_assert_eq!(numbers(&batch.items), expected);
            prop_assert_eq!(batch.missed, held.first().copied().unwrap_or(0).saturating_sub(cursor));
        }
    }
}
