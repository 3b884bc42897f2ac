//! What a client is told without asking: changed lists, updated resources it subscribed to, and what
//! servers log.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{
    CustomNotification, ErrorData, PromptListChangedNotification, ResourceListChangedNotification,
    ResourceUpdatedNotification, ResourceUpdatedNotificationParam, ServerNotification,
    ToolListChangedNotification,
};
use rmcp::service::SubscriptionSink;
use rmcp::{Peer, RoleServer};
use serde::Serialize;
use serde_json::json;
use tokio::sync::{broadcast, watch};

use super::outside::Outside;
use super::state::Gateway;
use super::tokens::Client;
use crate::base::{LogLevel, ServerName};
use crate::host::policy::{InForce, TargetKind};
use crate::host::{Host, HostView};
use crate::mcp::{CallId, Notice, NoticeKind};

/// Most resources that one session is subscribed to.
const SUBSCRIBED: usize = 1_000;

/// What a client wants to hear of besides changed lists.
#[derive(Default)]
pub(super) struct Session {
    /// The lowest level of log messages; none are wanted before it was set.
    level: Mutex<Option<LogLevel>>,
    subscriptions: Mutex<HashMap<String, Subscription>>,
    /// What it has listed since its lists were looked at last.
    listed: Mutex<[Option<u64>; 3]>,
}

/// A subscription at a server, which ends when this is dropped.
struct Subscription {
    host: Host,
    server: ServerName,
    uri: String,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (host, server) = (self.host.clone(), self.server.clone());
        let uri = std::mem::take(&mut self.uri);
        runtime.spawn(async move { host.unsubscribe_resource(&server, &uri).await });
    }
}

impl Session {
    /// The lowest level of log messages that is wanted.
    pub fn level(&self) -> Option<LogLevel> {
        *self.level.lock()
    }

    /// Log messages are wanted from this level on.
    pub fn logged_from(&self, level: LogLevel) {
        *self.level.lock() = Some(level);
    }

    /// The client is given a list as it is in a view.
    pub fn lists(&self, gateway: &Gateway, client: &Client, view: &HostView, of: TargetKind) {
        let at = match of {
            TargetKind::Prompt => 1,
            TargetKind::Resource => 2,
            _ => 0,
        };
        let listed = visible(gateway, client, view)[at];
        self.listed.lock()[at] = Some(listed);
    }

    /// The client wants to hear of a resource that it may read.
    pub async fn subscribe(
        &self,
        gateway: &Gateway,
        client: &Client,
        uri: &str,
    ) -> Result<(), ErrorData> {
        if self.subscriptions.lock().len() >= SUBSCRIBED {
            let message = format!("more than {SUBSCRIBED} subscriptions");
            return Err(ErrorData::invalid_request(message, None));
        }
        let refused = |error| Outside::about(&error, uri, client);
        let host = gateway.host.clone();
        let server = host.find_resource(uri, &client.options()).map_err(refused)?;
        host.subscribe_resource(&server, uri).await.map_err(refused)?;
        let uri = uri.to_owned();
        let subscription = Subscription { host, server, uri: uri.clone() };
        self.subscriptions.lock().insert(uri, subscription);
        Ok(())
    }

    pub fn unsubscribe(&self, uri: &str) {
        let ended = self.subscriptions.lock().remove(uri);
        drop(ended);
    }

    /// What the client is told because of a notice, when it is told anything.
    fn notification(
        &self,
        gateway: &Gateway,
        client: &Client,
        notice: &Notice,
    ) -> Option<ServerNotification> {
        let principal = client.principal();
        match &notice.kind {
            NoticeKind::Updated { uri } => {
                let subscriptions = self.subscriptions.lock();
                let server = &subscriptions.get(&**uri)?.server;
                // It may have lost the right since.
                let what = (TargetKind::Resource, &**uri);
                let is_told =
                    *server == notice.server && gateway.host.is_visible(&principal, server, what);
                let param = ResourceUpdatedNotificationParam::new(&**uri);
                is_told.then(|| ResourceUpdatedNotification::new(param).into())
            }
            NoticeKind::Logged { .. } => {
                let logged = logged_during(notice, None, self.level())?;
                gateway.host.visible(&principal, &notice.server)?;
                Some(logged)
            }
        }
    }
}

/// A notice as the log message of a call, or of no call, when it is one of at least this level.
pub(super) fn logged_during(
    notice: &Notice,
    during: Option<CallId>,
    from: Option<LogLevel>,
) -> Option<ServerNotification> {
    let NoticeKind::Logged { level, params, call } = &notice.kind else { return None };
    let params = (*call == during && *level >= from?).then(|| params.clone());
    Some(CustomNotification::new("notifications/message", Some(params?)).into())
}

/// A level as the engine has it; both spell it as the specification does.
pub(super) fn log_level(level: impl Serialize) -> LogLevel {
    serde_json::from_value(json!(level)).unwrap_or(LogLevel::Info)
}

/// Where a client is told.
pub(super) enum Recipient {
    /// Its session (up to 2025-11-25).
    Session(Peer<RoleServer>),
    /// Its `subscriptions/listen` (from 2026-07-28), which refuses what was not asked for.
    Listener(SubscriptionSink),
}

impl Recipient {
    async fn tell(&self, notification: impl Into<ServerNotification>) {
        match self {
            Self::Session(peer) => _ = peer.send_notification(notification.into()).await,
            Self::Listener(sink) => _ = sink.send(notification.into()).await,
        }
    }
}

/// Tells a client what changes until the host is gone.
pub(super) async fn follow(
    gateway: Arc<Gateway>,
    client: Client,
    session: Arc<Session>,
    to: Recipient,
) {
    let mut notices = gateway.host.notices();
    let mut changes = Changes::new(Arc::clone(&gateway), client.clone(), Arc::clone(&session));
    let lists = async {
        while let Some([tools, prompts, resources]) = changes.next().await {
            if tools {
                to.tell(ToolListChangedNotification::default()).await;
            }
            if prompts {
                to.tell(PromptListChangedNotification::default()).await;
            }
            if resources {
                to.tell(ResourceListChangedNotification::default()).await;
            }
        }
    };
    let notices = async {
        loop {
            match notices.recv().await {
                Ok(notice) => {
                    if let Some(message) = session.notification(&gateway, &client, &notice) {
                        to.tell(message).await;
                    }
                }
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    };
    tokio::join!(lists, notices);
}

/// Follows the lists that a client sees: what servers offer, and what the policy shows of it.
struct Changes {
    gateway: Arc<Gateway>,
    client: Client,
    session: Arc<Session>,
    view: watch::Receiver<Arc<HostView>>,
    policy: watch::Receiver<Arc<InForce>>,
    offered: Lists,
    seen: Lists,
}

/// A hash of all tools, one of prompts and one of resources, each of the addresses of their
/// definitions, which are shared.
type Lists = [u64; 3];

/// Lists settle before clients are told: a server that starts fills several at once.
const SETTLE: Duration = Duration::from_millis(100);

impl Changes {
    fn new(gateway: Arc<Gateway>, client: Client, session: Arc<Session>) -> Self {
        let (view, policy) = (gateway.host.view(), gateway.host.follow_policy());
        let now = Arc::clone(&view.borrow());
        let (offered, seen) = (lists(&now, |_, _| true), visible(&gateway, &client, &now));
        Self { gateway, client, session, view, policy, offered, seen }
    }

    /// Which of tools, prompts and resources have changed; `None` when the host is gone.
    async fn next(&mut self) -> Option<[bool; 3]> {
        loop {
            let mut decided_anew = false;
            tokio::select! {
                changed = self.view.changed() => changed.ok()?,
                changed = self.policy.changed() => {
                    changed.ok()?;
                    decided_anew = true;
                }
            }
            tokio::time::sleep(SETTLE).await;
            let view = Arc::clone(&self.view.borrow_and_update());
            let offered = lists(&view, |_, _| true);
            // It may have listed what came and went meanwhile.
            let listed = std::mem::take(&mut *self.session.listed.lock());
            if offered == self.offered && !decided_anew && listed == [None; 3] {
                continue;
            }
            self.offered = offered;
            let now = visible(&self.gateway, &self.client, &view);
            let changed = [0, 1, 2].map(|at| {
                now[at] != self.seen[at] || listed[at].is_some_and(|listed| listed != now[at])
            });
            self.seen = now;
            if changed.contains(&true) {
                return Some(changed);
            }
        }
    }
}

fn visible(gateway: &Gateway, client: &Client, view: &HostView) -> Lists {
    let principal = client.principal();
    lists(view, |server, what| gateway.host.is_visible(&principal, server, what))
}

fn lists(view: &HostView, shows: impl Fn(&ServerName, (TargetKind, &str)) -> bool) -> Lists {
    let mut out = [(); 3].map(|()| DefaultHasher::new());
    for server in view.servers.values() {
        let all = &server.capabilities;
        let mut add = |at: usize, kind, name: &str, place: usize| {
            if shows(&server.name, (kind, name)) {
                place.hash(&mut out[at]);
            }
        };
        let state = usize::from(server.state.is_callable());
        for tool in &all.tools {
            // Whether it can be called stands in its description.
            add(0, TargetKind::Tool, &tool.name, Arc::as_ptr(tool).addr() | state);
        }
        for prompt in &all.prompts {
            add(1, TargetKind::Prompt, &prompt.name, Arc::as_ptr(prompt).addr());
        }
        for resource in all.resources.iter().chain(&all.templates) {
            add(2, TargetKind::Resource, &resource.uri, Arc::as_ptr(resource).addr());
        }
    }
    out.map(|places| places.finish())
}
