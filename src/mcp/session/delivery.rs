//! Delivers the events of a connection to the owner of its session.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use protocol::{Pump, SessionEvent, Tap};

/// Pause after a delivery, so that a flood becomes a few counted findings per second.
const DELIVERY_INTERVAL: Duration = Duration::from_millis(100);

/// Delivers until the owner is gone.
pub async fn deliver(pump: Arc<Pump>, owner: mpsc::Sender<SessionEvent>) {
    loop {
        pump.arrived().await;
        let events = pump.take();
        let flood = events.iter().any(is_flood);
        for event in events {
            if owner.send(event).await.is_err() {
                return;
            }
        }
        if flood {
            tokio::time::sleep(DELIVERY_INTERVAL).await;
        }
    }
}

/// Delivers at once what the owner has room for, and drops the rest.
pub fn flush(tap: &Tap) {
    for event in tap.pump.take() {
        let _ = tap.context.events.try_send(event);
    }
}

fn is_flood(event: &SessionEvent) -> bool {
    use SessionEvent::{Finding, ListChanged, ResourceUpdated};
    matches!(event, Finding(_) | ResourceUpdated(_) | ListChanged(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{SafeText, Timestamp};
    use protocol::{Finding, FindingKind};

    #[tokio::test(start_paused = true)]
    async fn a_flood_reaches_a_slow_owner_as_few_counted_findings() {
        let (sender, mut receiver) = mpsc::channel(1);
        let pump = Arc::new(Pump::default());
        let task = tokio::spawn(deliver(Arc::clone(&pump), sender));
        let began = tokio::time::Instant::now();
        let (mut findings, mut count) = (0_u64, 0);
        for _ in 0..100 {
            for _ in 0..1000 {
                let found = Finding::new(FindingKind::Junk, Timestamp(0), "x");
                pump.push(SessionEvent::Finding(found));
            }
            tokio::time::advance(Duration::from_millis(10)).await;
            while let Ok(SessionEvent::Finding(finding)) = receiver.try_recv() {
                findings += 1;
                count += finding.count;
            }
        }
        pump.push(SessionEvent::Closed(SafeText::line("end")));
        while let Some(SessionEvent::Finding(finding)) = receiver.recv().await {
            findings += 1;
            count += finding.count;
        }
        task.abort();
        let deliveries = began.elapsed().as_millis() / DELIVERY_INTERVAL.as_millis() + 2;
        assert_eq!(count, 100_000);
        assert!(
            findings <= 4 * deliveries as u64,
            "{findings} findings in {deliveries} deliveries"
        );
    }
}
