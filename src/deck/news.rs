//! News of a running configuration for a dashboard, local or over the socket of a service: waits
//! for changes, reads rings by cursor and takes snapshots, at most thirty times a second. When
//! idle, only the process table and the clients are polled.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};

use super::clients::ClientView;
use super::order::Operated;
use super::policy::PolicyView;
use base::{Batch, LogRecord, Ring, ServerName, Weighed};
use host::{Blocked, CacheView, CallView, Host, HostView, ServerMetrics};
use process::Usage;
use protocol::{Notice, NoticeKind, ServerTask, TrafficRecord};

/// Pause between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_millis(33);
/// Pause between two snapshots of metrics and cache while messages pass.
const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(250);
/// Pause between two readings of the process table.
const USAGE_INTERVAL: Duration = Duration::from_secs(5);
/// Pause between two reads of the clients of the service.
const CLIENTS_INTERVAL: Duration = Duration::from_millis(500);
/// Most records in one piece of news.
const MAX_BATCH_RECORDS: usize = 2_048;
/// Most batches of one ring in one round.
const MAX_ROUND_BATCHES: usize = 8;

/// Most updated resources in one piece of news; if there are more, any may have changed.
const MAX_UPDATED_RESOURCES: usize = 1_000;

/// Resources that changed, as their servers reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUpdates {
    /// The resources.
    pub resources: Vec<UpdatedResource>,
    /// Reports were missed: any resource may have changed.
    pub missed: bool,
}

/// A resource that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdatedResource {
    /// The server that reported it.
    pub server: ServerName,
    /// The resource, or a part of a subscribed one.
    pub uri: Arc<str>,
    /// How often it was reported.
    pub count: u64,
}

/// Something that changed.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum News {
    /// A newer view.
    View(Arc<HostView>),
    /// New traffic; the second is the oldest record that is still held.
    Traffic(Batch<TrafficRecord>, u64),
    /// New log lines; the second is the oldest record that is still held.
    Logs(Batch<LogRecord>, u64),
    /// Metrics of every server.
    Metrics(Vec<(ServerName, ServerMetrics)>),
    /// Calls in flight.
    Calls(Vec<CallView>),
    /// Clients of the service, and recent denials.
    Clients(Vec<ClientView>, Vec<Blocked>),
    /// The policy in effect.
    Policy(PolicyView),
    /// The cache.
    Cache(CacheView),
    /// Memory and CPU usage.
    Usage(Vec<(ServerName, Usage)>),
    /// Resources that changed.
    Updated(ResourceUpdates),
    /// The resources the host is subscribed to, by server.
    Subscriptions(BTreeMap<ServerName, Vec<Arc<str>>>),
    /// The tasks of the servers, the oldest first.
    Tasks(BTreeMap<ServerName, Vec<ServerTask>>),
}

/// Sends the current state, then changes, until the receiver is dropped or the engine has ended.
/// Overflow policy: waits while `to` is full; the rings drop their oldest records, and a batch
/// counts the missed ones.
pub async fn follow_news<T: From<News>>(of: Operated, to: mpsc::Sender<T>) {
    let updates = UpdateCollector::default();
    let notices = of.host.notices();
    // Apart from the rounds: they pause, and wait for a slow reader.
    tokio::select! {
        () = updates.collect(notices) => {}
        () = rounds(of, &updates, to) => {}
    }
}

/// Updates of resources between two rounds: taken from the notices, which are meant for acting on,
/// and never from the traffic, which drops what is old.
#[derive(Default)]
struct UpdateCollector {
    waiting: Mutex<WaitingUpdates>,
    arrived: Notify,
}

#[derive(Default)]
struct WaitingUpdates {
    counts: BTreeMap<(ServerName, Arc<str>), u64>,
    missed: bool,
}

impl UpdateCollector {
    /// Collects until the host has ended, and then waits for ever.
    async fn collect(&self, mut notices: broadcast::Receiver<Notice>) {
        loop {
            match notices.recv().await {
                Ok(Notice { server, kind: NoticeKind::Updated { uri } }) => self.add(server, uri),
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => {
                    self.waiting.lock().missed = true;
                    self.arrived.notify_one();
                }
                Err(RecvError::Closed) => std::future::pending().await,
            }
        }
    }

    fn add(&self, server: ServerName, uri: Arc<str>) {
        let mut waiting = self.waiting.lock();
        let is_full = waiting.counts.len() >= MAX_UPDATED_RESOURCES;
        let key = (server, uri);
        if is_full && !waiting.counts.contains_key(&key) {
            waiting.missed = true;
        } else {
            *waiting.counts.entry(key).or_default() += 1;
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// What was collected since the last call, if anything was.
    fn take(&self) -> Option<ResourceUpdates> {
        let WaitingUpdates { counts, missed } = std::mem::take(&mut *self.waiting.lock());
        let updated = |((server, uri), count)| UpdatedResource { server, uri, count };
        let resources: Vec<_> = counts.into_iter().map(updated).collect();
        (missed || !resources.is_empty()).then_some(ResourceUpdates { resources, missed })
    }
}

/// What the host is subscribed to.
fn subscriptions(host: &Host) -> BTreeMap<ServerName, Vec<Arc<str>>> {
    let view = host.snapshot();
    let servers = view.servers.keys().map(|name| (name.clone(), host.subscriptions(name)));
    servers.filter(|(_, uris)| !uris.is_empty()).collect()
}

async fn rounds<T: From<News>>(of: Operated, updates: &UpdateCollector, to: mpsc::Sender<T>) {
    let Operated { host, clients, policy } = of;
    let (mut view, mut decided) = (host.view(), host.follow_policy());
    view.mark_changed();
    decided.mark_changed();
    let (traffic, logs) = (host.traffic(), host.logs());
    let (mut traffic_changed, mut logs_changed) = (traffic.changed(), logs.changed());
    let (mut traffic_at, mut logs_at) = (0, 0);
    let mut snapshot_at = Some(Instant::now());
    let mut usage_at = Instant::now() + Duration::from_secs(1);
    let (mut subscribed, mut tasks) = (BTreeMap::new(), BTreeMap::new());
    loop {
        tokio::select! {
            () = to.closed() => return,
            changed = view.changed() => match changed {
                Ok(()) => view.mark_changed(),
                Err(_) => return,
            },
            _ = traffic_changed.changed() => {}
            _ = logs_changed.changed() => {}
            () = updates.arrived.notified() => {}
            _ = decided.changed(), if policy.is_some() => decided.mark_changed(),
            () = sleep_until(snapshot_at.unwrap_or(usage_at)), if snapshot_at.is_some() => {}
            () = sleep_until(usage_at) => {}
            () = sleep(CLIENTS_INTERVAL), if clients.is_some() => {}
        }
        let now = Instant::now();
        let mut news = Vec::new();
        // First, because it is slow: what is read after it is newer.
        if now >= usage_at {
            usage_at = now + USAGE_INTERVAL;
            if !host.policy().rules.quotas().is_empty() {
                decided.mark_changed();
            }
            let host = host.clone();
            // Reads the process table: keep it off the runtime's threads.
            let usage = tokio::task::spawn_blocking(move || usage(&host)).await;
            news.extend(usage.map(News::Usage));
        }
        let served = clients.as_ref().map(|clients| (clients.list(), host.blocked()));
        news.extend(served.map(|(clients, blocked)| News::Clients(clients, blocked)));
        if let Some(policy) = &policy
            && decided.has_changed().unwrap_or_default()
        {
            decided.mark_unchanged();
            let policy = policy.clone();
            // Compares definitions: also too slow for the runtime's threads.
            let policy = tokio::task::spawn_blocking(move || policy.view()).await;
            news.extend(policy.map(News::Policy));
        }
        if view.has_changed().unwrap_or_default() {
            news.push(News::View(view.borrow_and_update().clone()));
        }
        let now_subscribed = subscriptions(&host);
        if now_subscribed != subscribed {
            subscribed.clone_from(&now_subscribed);
            news.push(News::Subscriptions(now_subscribed));
        }
        let now_tasks = host.tasks();
        if now_tasks != tasks {
            tasks.clone_from(&now_tasks);
            news.push(News::Tasks(now_tasks));
        }
        news.extend(updates.take().map(News::Updated));
        traffic_changed.mark_unchanged();
        logs_changed.mark_unchanged();
        let before = news.len();
        news.extend(
            pull(&traffic, &mut traffic_at).map(|(new, oldest)| News::Traffic(new, oldest)),
        );
        if news.len() > before {
            news.push(News::Calls(host.calls()));
            snapshot_at = snapshot_at.or(Some(now + SNAPSHOT_INTERVAL));
        }
        news.extend(pull(&logs, &mut logs_at).map(|(new, oldest)| News::Logs(new, oldest)));
        if traffic_at < traffic.span().end {
            traffic_changed.mark_changed();
        }
        if logs_at < logs.span().end {
            logs_changed.mark_changed();
        }
        if snapshot_at.is_some_and(|at| now >= at) {
            let calls = host.calls();
            // A call may end without traffic: poll until all have ended.
            snapshot_at = (!calls.is_empty()).then(|| now + SNAPSHOT_INTERVAL);
            news.push(News::Metrics(host.get_metrics()));
            news.push(News::Calls(calls));
            news.push(News::Cache(host.cache()));
        }
        for one in news {
            if to.send(one.into()).await.is_err() {
                return;
            }
        }
        sleep(ROUND_INTERVAL).await;
    }
}

/// The batches of a ring from a cursor on, each with the oldest record still held.
fn pull<T: Weighed>(ring: &Ring<T>, from: &mut u64) -> impl Iterator<Item = (Batch<T>, u64)> {
    let batches = std::iter::from_fn(move || {
        let batch = ring.read(*from, MAX_BATCH_RECORDS);
        *from = batch.next;
        (!batch.items.is_empty()).then(|| (batch, ring.span().start))
    });
    batches.take(MAX_ROUND_BATCHES)
}

fn usage(host: &Host) -> Vec<(ServerName, Usage)> {
    let view = host.snapshot();
    let usage = view.servers.keys().filter_map(|name| {
        let mut usage = host.usage(name)?;
        // Rounded to visible steps, so that an idle screen is not redrawn.
        usage.memory -= usage.memory % 1_000_000;
        usage.cpu_percent = usage.cpu_percent.round();
        Some((name.clone(), usage))
    });
    usage.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn updated(uri: &str) -> Notice {
        Notice { server: "s".into(), kind: NoticeKind::Updated { uri: uri.into() } }
    }

    #[tokio::test]
    async fn updates_are_counted_by_resource_and_a_lag_makes_all_stale() {
        let (sender, receiver) = broadcast::channel(4);
        let updates = UpdateCollector::default();
        let collected = async {
            updates.arrived.notified().await;
            updates.take()
        };
        for uri in ["a:1", "a:2", "a:1"] {
            sender.send(updated(uri)).unwrap();
        }
        let first = tokio::select! {
            biased;
            () = updates.collect(receiver) => None,
            first = collected => first,
        };
        let first = first.unwrap();
        let counts: Vec<_> = first.resources.iter().map(|one| (&*one.uri, one.count)).collect();
        assert_eq!((counts, first.missed), (vec![("a:1", 2), ("a:2", 1)], false));
        assert_eq!(updates.take(), None);

        let slow = sender.subscribe();
        for _ in 0..5 {
            sender.send(updated("a:3")).unwrap();
        }
        let collected = async {
            updates.arrived.notified().await;
            updates.take()
        };
        let late = tokio::select! {
            biased;
            () = updates.collect(slow) => None,
            late = collected => late,
        };
        assert!(late.unwrap().missed);
    }

    #[test]
    fn of_very_many_resources_any_may_have_changed() {
        let updates = UpdateCollector::default();
        for n in 0..=MAX_UPDATED_RESOURCES {
            updates.add("s".into(), n.to_string().into());
        }
        let all = updates.take().unwrap();
        assert_eq!((all.resources.len(), all.missed), (MAX_UPDATED_RESOURCES, true));
    }
}
