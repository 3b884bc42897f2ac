//! Delivers events from the wire to the session's owner, without ever blocking the wire.
//!
//! Overflow policy: waiting events are coalesced by kind (a list changed or it did not; repeats of
//! a finding are counted), so their number is bounded however slow the owner is and however noisy
//! the server. Only updates of more than 1024 resources at once are dropped, oldest first.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexSet;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::capabilities::ListKind;
use crate::context::SessionEvent;
use crate::traffic::Finding;
use base::SafeText;

/// Collects events and delivers them.
#[derive(Debug)]
pub struct Pump {
    events: mpsc::Sender<SessionEvent>,
    waiting: Mutex<WaitingMessage>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct WaitingMessage {
    first_byte: bool,
    findings: Vec<Finding>,
    lists: BTreeSet<ListKind>,
    resources: IndexSet<Arc<str>>,
    renewed: bool,
    closed: Option<SafeText>,
}

impl Pump {
    /// Findings of one kind that wait separately; more are counted into the last.
    const MAX_KIND_FINDINGS: usize = 4;
    /// Most resource updates that wait; beyond that, the oldest are dropped.
    const RESOURCE_CAPACITY: usize = 1024;
    /// Pause after a delivery, so that a flood becomes a few counted findings per second.
    const DELIVERY_INTERVAL: Duration = Duration::from_millis(100);

    /// A pump into `events`.
    pub fn new(events: mpsc::Sender<SessionEvent>) -> Arc<Self> {
        Arc::new(Self { events, waiting: Mutex::default(), arrived: Notify::new() })
    }

    /// Adds an event.
    pub fn push(&self, event: SessionEvent) {
        let mut waiting = self.waiting.lock();
        match event {
            SessionEvent::FirstByte => waiting.first_byte = true,
            SessionEvent::Finding(finding) => waiting.add_finding(finding),
            SessionEvent::ListChanged(kind) => {
                waiting.lists.insert(kind);
            }
            SessionEvent::ResourceUpdated(uri) => {
                let is_new = !waiting.resources.contains(&uri);
                if is_new && waiting.resources.len() == Self::RESOURCE_CAPACITY {
                    waiting.resources.shift_remove_index(0);
                }
                waiting.resources.insert(uri);
            }
            SessionEvent::Renewed => waiting.renewed = true,
            SessionEvent::Closed(reason) => {
                waiting.closed.get_or_insert(reason);
            }
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Delivers until the owner is gone.
    pub async fn run(self: Arc<Self>) {
        loop {
            self.arrived.notified().await;
            let events = self.waiting.lock().drain();
            let flood = events.iter().any(is_flood);
            for event in events {
                if self.events.send(event).await.is_err() {
                    return;
                }
            }
            if flood {
                tokio::time::sleep(Self::DELIVERY_INTERVAL).await;
            }
        }
    }

    /// Delivers at once what the owner has room for, and drops the rest.
    pub fn flush(&self) {
        for event in self.waiting.lock().drain() {
            let _ = self.events.try_send(event);
        }
    }
}

fn is_flood(event: &SessionEvent) -> bool {
    use SessionEvent::{Finding, ListChanged, ResourceUpdated};
    matches!(event, Finding(_) | ResourceUpdated(_) | ListChanged(_))
}

impl WaitingMessage {
    fn add_finding(&mut self, finding: Finding) {
        let mut same = self.findings.iter_mut().filter(|other| other.kind == finding.kind);
        match same.nth(Pump::MAX_KIND_FINDINGS - 1) {
            Some(last) => last.count += finding.count,
            None => self.findings.push(finding),
        }
    }

    fn drain(&mut self) -> Vec<SessionEvent> {
        let all = std::mem::take(self);
        let mut out = Vec::new();
        out.extend(all.first_byte.then_some(SessionEvent::FirstByte));
        out.extend(all.findings.into_iter().map(SessionEvent::Finding));
        out.extend(all.renewed.then_some(SessionEvent::Renewed));
        out.extend(all.lists.into_iter().map(SessionEvent::ListChanged));
        out.extend(all.resources.into_iter().map(SessionEvent::ResourceUpdated));
        out.extend(all.closed.map(SessionEvent::Closed));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::FindingKind;
    use base::Timestamp;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_bounded_and_the_counts_stay_right() {
        let (sender, mut receiver) = mpsc::channel(1);
        let pump = Pump::new(sender);
        for n in 0..1_000_000_u32 {
            pump.push(SessionEvent::Finding(Finding::new(FindingKind::Junk, Timestamp(0), "x")));
            if n % 1000 == 0 {
                pump.push(SessionEvent::ListChanged(ListKind::Tools));
            }
        }
        pump.push(SessionEvent::Closed(SafeText::line("end")));
        let task = tokio::spawn(Arc::clone(&pump).run());
        let (mut findings, mut lists, mut count) = (0, 0, 0);
        loop {
            match receiver.recv().await.unwrap() {
                SessionEvent::Finding(finding) => {
                    findings += 1;
                    count += finding.count;
                }
                SessionEvent::ListChanged(_) => lists += 1,
                SessionEvent::Closed(_) => break,
                _ => {}
            }
        }
        task.abort();
        assert_eq!((findings, lists, count), (Pump::MAX_KIND_FINDINGS, 1, 1_000_000));
    }
}
