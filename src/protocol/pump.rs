//! Collects events of the wire for the session's owner, without ever blocking the wire.
//!
//! Overflow policy: waiting events are coalesced by kind (a list changed or it did not; repeats of
//! a finding are counted), so their number is bounded however slow the owner is and however noisy
//! the server. Only updates of more than 1024 resources at once are dropped, oldest first.

use std::collections::BTreeSet;
use std::sync::Arc;

use indexmap::IndexSet;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::capabilities::ListKind;
use crate::context::SessionEvent;
use crate::traffic::Finding;
use base::SafeText;

/// Events that wait to be delivered.
#[derive(Debug, Default)]
pub struct Pump {
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

    /// Completes when an event was added since the last time. One waits at a time.
    pub async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Takes what waits, in the order in which it is to be delivered.
    pub fn take(&self) -> Vec<SessionEvent> {
        self.waiting.lock().drain()
    }
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

    #[test]
    fn a_flood_is_bounded_and_the_counts_stay_right() {
        let pump = Pump::default();
        for n in 0..1_000_000_u32 {
            pump.push(SessionEvent::Finding(Finding::new(FindingKind::Junk, Timestamp(0), "x")));
            if n % 1000 == 0 {
                pump.push(SessionEvent::ListChanged(ListKind::Tools));
            }
        }
        pump.push(SessionEvent::Closed(SafeText::line("end")));
        let events = pump.take();
        let counts = events.iter().filter_map(|event| match event {
            SessionEvent::Finding(finding) => Some(finding.count),
            _ => None,
        });
        let (findings, count) = (counts.clone().count(), counts.sum::<u64>());
        assert_eq!((findings, count), (Pump::MAX_KIND_FINDINGS, 1_000_000));
        assert!(matches!(
            events[findings..],
            [SessionEvent::ListChanged(ListKind::Tools), SessionEvent::Closed(_)]
        ));
        assert!(pump.take().is_empty());
    }
}
