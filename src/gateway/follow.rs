//! Notifications to clients: changed lists, updates of subscribed resources, and log messages of
//! servers.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
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
use tokio::sync::broadcast;

use super::claims::take_claims;
use super::exposure::listing;
use super::found::ToolListing;
use super::outside::Outside;
use super::sessions::ClientSession;
use super::state::Gateway;
use super::tokens::Client;
use base::{LogLevel, ServerName};
use host::{CallOptions, Host, HostView, TargetKind};
use protocol::{CallId, Notice, NoticeKind};

/// Maximum number of resource subscriptions per session.
const MAX_SUBSCRIPTIONS: usize = 1_000;

/// The notifications that a client requested, and the state of the lists it has.
#[derive(Default)]
pub(super) struct Interest {
    /// Minimum level of log messages; `None` until the client sets one: none are sent.
    level: Mutex<Option<LogLevel>>,
    subscriptions: Mutex<HashMap<String, UpstreamSubscription>>,
    /// Its lists, as of its last fetch or the last notification to it.
    known: Mutex<ListHashes>,
}

/// A subscription at a server; dropping it unsubscribes.
struct UpstreamSubscription {
    host: Host,
    server: ServerName,
    uri: String,
}

impl Drop for UpstreamSubscription {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let (host, server) = (self.host.clone(), self.server.clone());
        let uri = std::mem::take(&mut self.uri);
        runtime.spawn(async move { host.unsubscribe_resource(&server, &uri).await });
    }
}

impl Interest {
    /// Minimum level of log messages, if the client has set one.
    pub fn level(&self) -> Option<LogLevel> {
        *self.level.lock()
    }

    /// Sets the minimum level of log messages.
    pub fn logged_from(&self, level: LogLevel) {
        *self.level.lock() = Some(level);
    }

    /// Records that the client has fetched a list in the state of this view.
    pub fn lists(&self, gateway: &Gateway, client: &Client, view: &HostView, of: TargetKind) {
        let at = match of {
            TargetKind::Prompt => 1,
            TargetKind::Resource => 2,
            _ => 0,
        };
        self.known.lock()[at] = visible_of(gateway, client, view, Some(of))[at];
    }

    /// Subscribes the client to a resource, if it may read it.
    pub async fn subscribe(
        &self,
        gateway: &Gateway,
        client: &Client,
        uri: &str,
    ) -> Result<(), ErrorData> {
        if self.subscriptions.lock().len() >= MAX_SUBSCRIPTIONS {
            let message = format!("more than {MAX_SUBSCRIPTIONS} subscriptions");
            return Err(ErrorData::invalid_request(message, None));
        }
        let refused = |error| Outside::about(&error, TargetKind::Resource, uri, client);
        let host = gateway.host.clone();
        let (server, original) = gateway.locate(client, uri).unzip();
        let original = original.as_deref().unwrap_or(uri);
        let options = CallOptions { server, ..client.options() };
        let server = host.find_resource(original, &options).map_err(refused)?;
        host.subscribe_resource(&server, original).await.map_err(refused)?;
        let subscription = UpstreamSubscription { host, server, uri: original.to_owned() };
        self.subscriptions.lock().insert(uri.to_owned(), subscription);
        Ok(())
    }

    pub fn unsubscribe(&self, uri: &str) {
        let ended = self.subscriptions.lock().remove(uri);
        drop(ended);
    }

    /// Converts a server's notice to the notification for this client, if any.
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
                let is_meant = |(_, at): &(&String, &UpstreamSubscription)| {
                    at.server == notice.server && at.uri == **uri
                };
                let (name, _) = subscriptions.iter().find(is_meant)?;
                // Access may have been revoked since the subscription.
                let what = (TargetKind::Resource, &**uri);
                let is_visible = gateway.host.is_visible(&principal, &notice.server, what);
                let param = ResourceUpdatedNotificationParam::new(name.as_str());
                is_visible.then(|| ResourceUpdatedNotification::new(param).into())
            }
            NoticeKind::Logged { .. } => {
                let logged = logged_during(notice, None, self.level())?;
                gateway.host.visible(&principal, &notice.server)?;
                Some(logged)
            }
            _ => None,
        }
    }
}

/// The log message in a notice, if it belongs to `during` and its level is at least `from`.
pub(super) fn logged_during(
    notice: &Notice,
    during: Option<CallId>,
    from: Option<LogLevel>,
) -> Option<ServerNotification> {
    let NoticeKind::Logged { level, params, call } = &notice.kind else { return None };
    let mut params = (*call == during && *level >= from?).then(|| params.clone())?;
    take_claims(&mut params);
    Some(CustomNotification::new("notifications/message", Some(params)).into())
}

/// Converts rmcp's log level; both types serialize to the names in the specification.
pub(super) fn log_level(level: impl Serialize) -> LogLevel {
    serde_json::from_value(json!(level)).unwrap_or(LogLevel::Info)
}

/// Where notifications go.
pub(super) enum Recipient {
    /// Its session over HTTP (up to 2025-11-25), unless it has ended.
    Session(Weak<ClientSession>),
    /// The other end of the pipe (up to 2025-11-25).
    Pipe(Peer<RoleServer>),
    /// Its `subscriptions/listen` (from 2026-07-28); it rejects what was not requested.
    Listener(SubscriptionSink),
}

impl Recipient {
    /// Apart from the task that waits for what to send: most of them never send anything.
    fn notify(&self, notification: impl Into<ServerNotification>) -> BoxFuture<'_, ()> {
        let notification = notification.into();
        match self {
            Self::Session(session) => {
                let session = session.upgrade();
                async move {
                    if let Some(session) = session {
                        session.notify(notification).await;
                    }
                }
                .boxed()
            }
            Self::Pipe(peer) => peer.send_notification(notification).map(drop).boxed(),
            Self::Listener(sink) => sink.send(notification).map(drop).boxed(),
        }
    }
}

/// Notifies a client of changes until the host shuts down.
pub(super) async fn follow(
    gateway: Arc<Gateway>,
    client: Client,
    interest: Arc<Interest>,
    to: Recipient,
) {
    let mut notices = gateway.host.notices();
    let lists = follow_lists(&gateway, &client, &interest, &to);
    let notices = async {
        while let Some(notice) = next_notice(&mut notices).await {
            if let Some(message) = interest.notification(&gateway, &client, &notice) {
                to.notify(message).await;
            }
        }
    };
    tokio::join!(lists, notices);
}

/// The next notice, without those that came too fast; `None` once the host has shut down.
pub(super) async fn next_notice(notices: &mut broadcast::Receiver<Notice>) -> Option<Notice> {
    loop {
        match notices.recv().await {
            Err(broadcast::error::RecvError::Lagged(_)) => {}
            notice => return notice.ok(),
        }
    }
}

/// Hashes of the tools, the prompts and the resources, each over the addresses of their shared
/// definitions.
pub(super) type ListHashes = [u64; 3];

/// Debounce before clients are notified: a starting server fills several lists at once.
const DEBOUNCE_INTERVAL: Duration = Duration::from_millis(100);

/// Notifies a client when its lists change, in what servers offer or in what the policy lets it
/// see. Returns when the host shuts down.
async fn follow_lists(
    gateway: &Gateway,
    client: &Client,
    interest: &Interest,
    to: &Recipient,
) -> Option<()> {
    let (mut view, mut policy) = (gateway.host.view(), gateway.host.follow_policy());
    let session = gateway.found.of_client(client);
    let mut found = session.follow();
    let now = Arc::clone(&view.borrow());
    let first = visible_lists(gateway, client, &now);
    {
        let mut known = interest.known.lock();
        *known = [0, 1, 2].map(|at| if known[at] == 0 { first[at] } else { known[at] });
    }
    // The last state compared: what servers offered, and what the client knew of it.
    let mut compared = (offered(&now), first);
    loop {
        let mut decided_anew = false;
        tokio::select! {
            changed = view.changed() => changed.ok()?,
            changed = policy.changed() => {
                changed.ok()?;
                decided_anew = true;
            }
            changed = found.changed() => {
                changed.ok()?;
                decided_anew = true;
            }
        }
        tokio::time::sleep(DEBOUNCE_INTERVAL).await;
        let now = Arc::clone(&view.borrow_and_update());
        let (all, known) = (offered(&now), *interest.known.lock());
        if compared == (all, known) && !decided_anew {
            continue;
        }
        let now = visible_lists(gateway, client, &now);
        *interest.known.lock() = now;
        compared = (all, now);
        if known[0] != now[0] {
            to.notify(ToolListChangedNotification::default()).await;
        }
        if known[1] != now[1] {
            to.notify(PromptListChangedNotification::default()).await;
        }
        if known[2] != now[2] {
            to.notify(ResourceListChangedNotification::default()).await;
        }
    }
}

/// Hashes of the lists as a client sees them.
pub(super) fn visible_lists(gateway: &Gateway, client: &Client, view: &HostView) -> ListHashes {
    visible_of(gateway, client, view, None)
}

/// The lists of a client; of one kind alone, if one is given.
fn visible_of(
    gateway: &Gateway,
    client: &Client,
    view: &HostView,
    of: Option<TargetKind>,
) -> ListHashes {
    let is_of = |kind: TargetKind| of.is_none_or(|of| of == kind);
    let principal = client.principal();
    let listed = if is_of(TargetKind::Tool) {
        listing(gateway, client, &gateway.catalog(client, view))
    } else {
        ToolListing::Whole
    };
    let shows = |server: &ServerName, what: (TargetKind, &str)| {
        is_of(what.0)
            && gateway.host.is_visible(&principal, server, what)
            && (what.0 != TargetKind::Tool || listed.holds(server, what.1))
    };
    let overlays = gateway.overlays(client).map(|overlays| json!(overlays).to_string());
    lists(view, (listed.is_search(), overlays), shows)
}

/// The lists of all servers, whoever may see them.
fn offered(view: &HostView) -> ListHashes {
    lists(view, (), |_, _| true)
}

fn lists(
    view: &HostView,
    tools: impl Hash,
    shows: impl Fn(&ServerName, (TargetKind, &str)) -> bool,
) -> ListHashes {
    let mut out = [(); 3].map(|()| DefaultHasher::new());
    tools.hash(&mut out[0]);
    for server in view.servers.values() {
        let all = &server.capabilities;
        let mut add = |at: usize, kind, name: &str, place: usize| {
            if shows(&server.name, (kind, name)) {
                place.hash(&mut out[at]);
            }
        };
        let state = usize::from(server.state.is_callable());
        for tool in &all.tools {
            // The listed description depends on whether the tool can be called.
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
