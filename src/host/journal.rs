//! The journal: the newest facts, and those who subscribe to the next ones.
//!
//! Written by the projector alone; read by anybody. Never slows the projector down.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;

use crate::host::Record;

/// Newest facts and subscribers.
#[derive(Default)]
pub struct Journal {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    records: VecDeque<(usize, Arc<Record>)>,
    bytes: usize,
    subscribers: Vec<mpsc::Sender<Arc<Record>>>,
}

impl Journal {
    /// Most facts kept.
    pub const KEPT: usize = 10_000;
    /// Most bytes of facts kept, roughly: lists and requests of servers can be large, and a noisy
    /// server must not fill the host's memory with them.
    pub const BYTES: usize = 32 << 20;
    /// Facts that may wait for one subscriber; one that reads more slowly is dropped.
    pub const WAITING: usize = 4_096;

    /// Keeps a fact and hands it to every subscriber.
    pub fn push(&self, record: Arc<Record>) {
        let weight = record.fact.weight();
        let mut inner = self.lock();
        inner.subscribers.retain(|subscriber| subscriber.try_send(Arc::clone(&record)).is_ok());
        inner.bytes += weight;
        inner.records.push_back((weight, record));
        while inner.records.len() > Self::KEPT
            || (inner.bytes > Self::BYTES && inner.records.len() > 1)
        {
            let Some((weight, _)) = inner.records.pop_front() else { break };
            inner.bytes -= weight;
        }
    }

    /// Facts from now on; the channel closes when its reader falls behind.
    pub fn subscribe(&self) -> mpsc::Receiver<Arc<Record>> {
        let (sender, receiver) = mpsc::channel(Self::WAITING);
        self.lock().subscribers.push(sender);
        receiver
    }

    /// The facts that are kept, oldest first.
    pub fn records(&self) -> Vec<Arc<Record>> {
        self.lock().records.iter().map(|(_, record)| Arc::clone(record)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::host::Fact;

    fn record(seq: u64) -> Arc<Record> {
        Arc::new(Record { seq, at: Timestamp(seq), fact: Fact::ShutdownBegan })
    }

    #[test]
    fn the_newest_facts_are_kept_and_the_oldest_go() {
        let journal = Journal::default();
        for seq in 1..=Journal::KEPT as u64 + 3 {
            journal.push(record(seq));
        }
        let records = journal.records();
        assert_eq!((records.len(), records[0].seq), (Journal::KEPT, 4));
    }

    #[test]
    fn large_facts_push_out_more_old_ones_than_small_facts_do() {
        let journal = Journal::default();
        let text = "x".repeat(1 << 20);
        for seq in 1..=100 {
            let task = crate::base::text::SafeText::line("t");
            let fact = Fact::TaskFailed { task, message: crate::base::text::SafeText::line(&text) };
            journal.push(Arc::new(Record { seq, at: Timestamp(seq), fact }));
        }
        let kept = journal.records();
        assert!(kept.len() < 40, "{} facts of 1 MiB are kept", kept.len());
        assert_eq!(kept.last().map(|record| record.seq), Some(100));
    }

    #[test]
    fn a_subscriber_that_does_not_read_is_dropped_and_the_others_go_on() {
        let journal = Journal::default();
        let mut lazy = journal.subscribe();
        for seq in 1..=Journal::WAITING as u64 {
            journal.push(record(seq));
        }
        let mut eager = journal.subscribe();
        journal.push(record(0));
        assert_eq!(eager.try_recv().map(|r| r.seq), Ok(0));
        let mut read = 0;
        while lazy.try_recv().is_ok() {
            read += 1;
        }
        assert_eq!(read, Journal::WAITING);
        assert_eq!(lazy.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }
}
