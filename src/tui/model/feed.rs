//! A mirror of a telemetry ring: the same records, shared, dropped when the ring drops them.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::base::ring::Batch;

/// Records by sequence number. Bounded by the ring it mirrors.
#[derive(Debug)]
pub struct Feed<T> {
    items: VecDeque<Arc<T>>,
    first: u64,
    missed: u64,
    evicted: u64,
}

impl<T> Default for Feed<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), first: 0, missed: 0, evicted: 0 }
    }
}

impl<T> Feed<T> {
    /// Takes what was read; `oldest` is the first record the ring still holds.
    pub fn take(&mut self, batch: Batch<T>, oldest: u64) {
        if batch.missed > 0 {
            // Records were dropped before they were read: what is here is older than the gap.
            self.missed += batch.missed;
            self.evicted += self.items.len() as u64;
            self.items.clear();
        }
        if self.items.is_empty() {
            self.first = batch.first;
        }
        self.items.extend(batch.items);
        while self.first < oldest && self.items.pop_front().is_some() {
            self.first += 1;
            self.evicted += 1;
        }
    }

    /// Sequence number of the oldest record.
    pub const fn first(&self) -> u64 {
        self.first
    }

    /// Sequence number after the newest record.
    pub fn end(&self) -> u64 {
        self.first + self.items.len() as u64
    }

    /// How many records there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Records that were dropped before the screen saw them.
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Records that are gone for room, seen or not.
    pub const fn dropped(&self) -> u64 {
        self.missed + self.evicted
    }

    /// The record of a sequence number, when it is still there.
    pub fn get(&self, seq: u64) -> Option<&Arc<T>> {
        self.items.get(usize::try_from(seq.checked_sub(self.first)?).ok()?)
    }

    /// Records from a sequence number on, with theirs.
    pub fn from(&self, seq: u64) -> impl Iterator<Item = (u64, &Arc<T>)> {
        let start = seq.max(self.first);
        let skip = usize::try_from(start - self.first).unwrap_or(usize::MAX).min(self.items.len());
        self.items.range(skip..).enumerate().map(move |(n, item)| (start + n as u64, item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ring::{Ring, Weighed};

    struct Line;
    impl Weighed for Line {
        fn bytes(&self) -> usize {
            1
        }
    }

    #[test]
    fn it_holds_what_the_ring_holds_and_counts_what_it_never_saw() {
        let ring = Ring::new(10, 1_000);
        let mut feed = Feed::default();
        let pull = |feed: &mut Feed<Line>| {
            let batch = ring.read(feed.end(), 100);
            feed.take(batch, ring.read(0, 0).first);
        };
        for _ in 0..6 {
            ring.push(Arc::new(Line));
        }
        pull(&mut feed);
        for _ in 0..6 {
            ring.push(Arc::new(Line));
        }
        pull(&mut feed);
        assert_eq!((feed.first(), feed.end(), feed.missed(), feed.dropped()), (2, 12, 0, 2));
        for _ in 0..25 {
            ring.push(Arc::new(Line));
        }
        pull(&mut feed);
        assert_eq!((feed.first(), feed.end(), feed.missed()), (27, 37, 15));
        assert!(feed.get(26).is_none() && feed.get(36).is_some());
        assert_eq!(
            feed.from(0).map(|(seq, _)| seq).collect::<Vec<_>>(),
            (27..37).collect::<Vec<_>>()
        );
    }
}
