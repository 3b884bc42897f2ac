//! Carries the engine's news to the screen: waits for changes, reads rings by cursor, takes
//! snapshots, at most thirty times a second. Nothing is read while nothing changes.

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};

use crate::base::ring::{Ring, Weighed};
use crate::deck::clients::Clients;
use crate::deck::policy::PolicyKeeper;
use crate::host::{Host, HostView};
use crate::process::Usage;
use crate::tui::message::Message;
use crate::tui::prelude::*;

/// Pause between two rounds.
const ROUND: Duration = Duration::from_millis(33);
/// Pause between two snapshots of metrics and cache while messages pass.
const SNAPSHOT: Duration = Duration::from_millis(250);
/// Pause between two readings of the process table.
const USAGE: Duration = Duration::from_secs(5);
/// Pause between two looks at the clients of the service.
const CLIENTS: Duration = Duration::from_millis(500);
/// Most records of one ring in one round.
const BATCH: usize = 16_384;

/// Runs until the screen is gone. Overflow policy: it waits while `messages` is full; the rings
/// drop their oldest meanwhile and the screen learns how many it missed.
pub async fn run(
    host: Host,
    clients: Option<Clients>,
    policy: Option<PolicyKeeper>,
    messages: mpsc::Sender<Message>,
) {
    let mut policy_changed = host.follow_policy();
    policy_changed.mark_changed();
    let mut view = host.view();
    let (traffic, logs) = (host.traffic(), host.logs());
    let (mut traffic_changed, mut logs_changed) = (traffic.changed(), logs.changed());
    let (mut traffic_at, mut logs_at) = (0, 0);
    let mut snapshot_at = Some(Instant::now());
    let mut usage_at = Instant::now() + Duration::from_secs(1);
    let mut shown: Option<Arc<HostView>> = None;
    loop {
        if shown.is_some() {
            tokio::select! {
                changed = view.changed() => if changed.is_err() { return },
                _ = traffic_changed.changed() => {}
                _ = logs_changed.changed() => {}
                _ = policy_changed.changed(), if policy.is_some() => policy_changed.mark_changed(),
                () = sleep_until(snapshot_at.unwrap_or(usage_at)), if snapshot_at.is_some() => {}
                () = sleep_until(usage_at) => {}
                () = sleep(CLIENTS), if clients.is_some() => {}
            }
        }
        let now = Instant::now();
        let mut news = Vec::new();
        // First, because it takes a while: what is read after X.
        if now >= usage_at {
            usage_at = now + USAGE;
            let host = host.clone();
            // Reads the process table: not on the screen's thread.
            if let Ok(usage) = tokio::task::spawn_blocking(move || usage(&host)).await {
                news.push(Message::Usage(usage));
            }
        }
        let served = clients.as_ref().map(|clients| (clients.list(), host.blocked()));
        news.extend(served.map(|(clients, blocked)| Message::Clients(clients, blocked)));
        let decides = policy.clone().filter(|_| policy_changed.has_changed().unwrap_or_default());
        if let Some(policy) = decides {
            policy_changed.mark_unchanged();
            // Compares definitions: not on the screen's thread.
            let now = tokio::task::spawn_blocking(move || policy.view()).await;
            news.extend(now.map(Message::Policy));
        }
        let newest = view.borrow_and_update().clone();
        if shown.as_ref().is_none_or(|shown| !Arc::ptr_eq(shown, &newest)) {
            shown = Some(Arc::clone(&newest));
            news.push(Message::View(newest));
        }
        traffic_changed.mark_unchanged();
        logs_changed.mark_unchanged();
        if let Some((batch, oldest)) = pull(&traffic, &mut traffic_at) {
            if batch.next < traffic.span().end {
                traffic_changed.mark_changed();
            }
            news.push(Message::Traffic(batch, oldest));
            news.push(Message::Calls(host.calls()));
            snapshot_at = snapshot_at.or(Some(now + SNAPSHOT));
        }
        if let Some((batch, oldest)) = pull(&logs, &mut logs_at) {
            if batch.next < logs.span().end {
                logs_changed.mark_changed();
            }
            news.push(Message::Logs(batch, oldest));
        }
        if snapshot_at.is_some_and(|at| now >= at) {
            let calls = host.calls();
            // The end of a call need not leave a trace in the traffic: looked for until all ended.
            snapshot_at = (!calls.is_empty()).then(|| now + SNAPSHOT);
            news.push(Message::Metrics(host.get_metrics()));
            news.push(Message::Calls(calls));
            news.push(Message::Cache(host.cache()));
        }
        for message in news {
            if messages.send(message).await.is_err() {
                return;
            }
        }
        sleep(ROUND).await;
    }
}

fn pull<T: Weighed>(
    ring: &Ring<T>,
    cursor: &mut u64,
) -> Option<(crate::base::ring::Batch<T>, u64)> {
    let batch = ring.read(*cursor, BATCH);
    *cursor = batch.next;
    (!batch.items.is_empty()).then(|| (batch, ring.span().start))
}

fn usage(host: &Host) -> Vec<(ServerName, Usage)> {
    let names: Vec<ServerName> = host.view().borrow().servers.keys().cloned().collect();
    names
        .into_iter()
        .filter_map(|name| {
            let mut usage = host.usage(&name)?;
            // In steps that can be seen, so that a resting screen rests.
            usage.memory -= usage.memory % 1_000_000;
            usage.cpu_percent = usage.cpu_percent.round();
            Some((name, usage))
        })
        .collect()
}
