//! State shared by all requests of a service, and the lookup of clients by token.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::bridge::{Bridge, Parking};
use super::catalog::{Catalogs, ClientCatalog, ClientEntry};
use super::found::FoundSessions;
use super::metrics::GatewayMetrics;
use super::outside::Outside;
use super::questions::Questions;
use super::sessions::{ClientSessions, SessionRoom};
use super::sign_in::{IssuedTokens, SIGNED_IN_PREFIX};
use super::skills::KnownSkills;
use super::store::{EXCHANGE_INTERVAL, SharedStore};
use super::tasks::ClientTasks;
use super::tokens::{Client, ClientTokens, OwnerToken};
use super::traces::Traces;
use base::text::nearest;
use base::{LogLevel, ServerName};
use config::Environment;
use deck::Clients;
use host::{
    Host, HostView, Origin, OverlayConfig, Pins, PolicyAction, ServerState, ServerView, TargetKind,
    split_first, split_name,
};
use protocol::Capabilities;

/// How long the first requests wait for starting servers, for clients that list only once. Less
/// than the 60 seconds after which the official SDKs time out.
const STARTING_TIMEOUT: Duration = Duration::from_secs(50);

/// How long they wait after that for what the servers offer to be recorded: a matter of milliseconds
/// unless the file of the reviews cannot be written.
const RECORDING_TIMEOUT: Duration = Duration::from_secs(2);

/// Housekeeping interval without a shared store.
const HOUSEKEEPING_INTERVAL: Duration = Duration::from_secs(1);
/// Housekeeping ticks between two renewals of the open sessions in the shared store.
const RENEWAL_TICKS: u32 = 240;

/// Why the token of a caller that signed in cannot be revoked here.
const ENDED_BY_ISSUER: &str = "its token is from its issuer: end it there, or keep the caller out \
                               with `mcpdeck grants add --deny`";

/// Whether any server has neither started nor failed yet. Servers that start on demand already have
/// lists and do not count; nor do servers held for the operator, possibly for hours.
pub(super) fn is_starting(host: &Host, view: &HostView) -> bool {
    view.servers.values().any(|server| {
        matches!(server.state, ServerState::Starting | ServerState::Waiting)
            && *server.capabilities == Capabilities::default()
            && !is_held(host, &server.name)
    })
}

/// Whether a server is held until the operator releases it.
fn is_held(host: &Host, name: &ServerName) -> bool {
    host.server_config(name).is_some_and(|config| config.hold.is_some())
}

/// Options of a service.
#[derive(Default)]
pub struct ServeOptions {
    /// The operator's own token.
    pub owner: OwnerToken,
    /// Client tokens, by hash.
    pub tokens: ClientTokens,
    /// Registry of connected clients, for monitoring.
    pub clients: Clients,
    /// The profile of the operator's token; a named one binds it.
    pub profile: Option<String>,
    /// `Host` values accepted besides loopback names with our port.
    pub allowed_hosts: Vec<String>,
    /// `Origin` values accepted; a request with any other is refused.
    pub allowed_origins: Vec<String>,
    /// Destination of traces.
    pub traces: Traces,
    /// The store shared with other replicas, if any.
    pub store: Option<Arc<dyn SharedStore>>,
    /// Where references of the policy are looked up.
    pub environment: Environment,
}

/// State shared by all requests.
pub(crate) struct Gateway {
    pub host: Host,
    pub options: ServeOptions,
    /// The client of the operator's own token.
    owner: Client,
    pub bridge: Bridge,
    pub parked: Parking,
    pub tasks: ClientTasks,
    pub catalogs: Catalogs,
    pub found: FoundSessions,
    pub questions: Questions,
    pub skills: KnownSkills,
    /// Ends streams, which never end on their own.
    pub streams: CancellationToken,
    /// Asks the service to end.
    pub shutdown: CancellationToken,
    pub metrics: GatewayMetrics,
    pub sessions: Arc<ClientSessions>,
    pub sign_in: IssuedTokens,
    /// Set once all servers have started, or the wait for them timed out.
    started: OnceCell<()>,
}

impl Gateway {
    pub fn new(host: Host, bridge: Bridge, mut options: ServeOptions, port: u16) -> Arc<Self> {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        options.allowed_hosts.extend(names.map(|name| format!("{name}:{port}")));
        // Clients leave out the usual ports, and write origins in lower case.
        let usual = |host: &String| {
            Some(host.strip_suffix(":443").or(host.strip_suffix(":80"))?.to_owned())
        };
        let usual: Vec<String> = options.allowed_hosts.iter().filter_map(usual).collect();
        options.allowed_hosts.extend(usual);
        for origin in &mut options.allowed_origins {
            if let Some(web) = Url::parse(origin).ok().filter(|url| url.origin().is_tuple()) {
                *origin = web.origin().ascii_serialization();
            }
        }
        let tokens = options.tokens.clone();
        options.clients.revoke_with(move |id| {
            if id.starts_with(SIGNED_IN_PREFIX) {
                return Err(ENDED_BY_ISSUER.to_owned());
            }
            let found = tokens.revoke(id)?;
            found.then_some(()).ok_or_else(|| "it has no token that could be revoked".to_owned())
        });
        if let Some(store) = &options.store {
            host.share_limits(Arc::clone(store) as _);
        }
        Arc::new(Self {
            metrics: GatewayMetrics::new(host.clone()),
            host,
            bridge,
            parked: Parking::default(),
            tasks: ClientTasks::new(options.store.clone()),
            catalogs: Catalogs::default(),
            found: FoundSessions::default(),
            questions: Questions::default(),
            skills: KnownSkills::default(),
            streams: CancellationToken::new(),
            shutdown: CancellationToken::new(),
            sessions: Arc::new(ClientSessions::new(options.store.clone())),
            started: OnceCell::new(),
            sign_in: IssuedTokens::new(std::mem::take(&mut options.environment)),
            owner: Client::owner(options.profile.as_deref().map(Into::into)),
            options,
        })
    }

    /// Waits, once, until every server has started or failed and what it offers is recorded, as
    /// earlier lists would be incomplete. Servers that start later are announced by `list_changed`.
    pub async fn started(&self) {
        let waiting = || async {
            let mut view = self.host.view();
            let starts = |now: Arc<HostView>| !now.stopping && is_starting(&self.host, &now);
            let over =
                async { while starts(self.host.snapshot()) && view.changed().await.is_ok() {} };
            let _ = tokio::time::timeout(STARTING_TIMEOUT, over).await;
            let mut policy = self.host.follow_policy();
            let is_recorded = |pins: &Pins| {
                let servers = self.host.definitions();
                servers
                    .iter()
                    .all(|(server, about, ..)| pins.has_recorded(server.as_str(), about.command))
            };
            let recorded = policy.wait_for(|now| is_recorded(&now.policy.pins));
            let _ = tokio::time::timeout(RECORDING_TIMEOUT, recorded).await;
        };
        self.started.get_or_init(waiting).await;
    }

    /// Lowers the log level of the servers visible to a client; never raises it.
    pub async fn log_from(&self, client: &Client, level: LogLevel) {
        let (host, view, principal) = (&self.host, self.host.snapshot(), client.principal());
        let logs = |server: &&Arc<ServerView>| {
            let session = server.session.as_ref();
            session.is_none_or(|session| session.capabilities.get("logging").is_some())
                && host.visible(&principal, &server.name).is_some()
                && host.log_level(&server.name).is_none_or(|now| level < now)
        };
        let servers = view.servers.values().filter(logs);
        // A server that refuses does not affect the others.
        futures::future::join_all(servers.map(|s| host.set_log_level(&s.name, level))).await;
    }

    /// The client of a bearer token; `None` if the token is unknown or expired.
    pub fn client(&self, bearer: &str) -> Option<Client> {
        if self.options.owner.is(bearer) {
            return Some(self.operator());
        }
        let now = self.host.clock().now();
        let mut client = self.options.tokens.client(bearer, now)?;
        client.cut = self.options.clients.seen(&client.principal(), now);
        Some(client)
    }

    /// The client of the operator's own token.
    pub fn operator(&self) -> Client {
        let now = self.host.clock().now();
        let mut client = self.owner.clone();
        client.cut = self.options.clients.seen(&client.principal(), now);
        client
    }

    /// Ends, now and then, what nobody uses any more, and exchanges changes with other replicas.
    pub async fn housekeeping(&self) {
        let look =
            if self.options.store.is_some() { EXCHANGE_INTERVAL } else { HOUSEKEEPING_INTERVAL };
        let mut tick = tokio::time::interval(look);
        tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for look in 0_u32.. {
            tick.tick().await;
            self.exchange(look.is_multiple_of(RENEWAL_TICKS)).await;
            self.tasks.exchange().await;
            self.cut_the_revoked();
            self.sessions.end_idle();
            self.parked.end_overdue();
            self.tasks.end_overdue(self.host.clock().now());
            self.found.end_idle();
        }
    }

    /// Cuts the clients whose tokens were revoked or have expired.
    fn cut_the_revoked(&self) {
        let now = self.host.clock().now();
        let tokens = self.options.tokens.list().unwrap_or_default();
        for client in self.options.clients.list() {
            if let Origin::Gateway(id) = &client.principal.origin
                && !client.principal.is_person()
                && !id.starts_with(SIGNED_IN_PREFIX)
                && !tokens.iter().any(|token| *token.id == **id && !token.is_over(now))
            {
                self.options.clients.cut(&client.principal.origin.to_string());
            }
        }
    }

    /// The catalog as a client sees it, with what its profile changes.
    pub fn catalog(&self, client: &Client, view: &HostView) -> Arc<ClientCatalog> {
        let (principal, policy) = (client.principal(), self.host.in_force());
        let is_shaped = policy.profile(&principal).is_some_and(|it| !it.overlays.is_empty());
        self.catalogs.for_view(view, is_shaped.then_some((&principal, policy)))
    }

    /// What the profile of a client changes of tools, if anything.
    pub fn overlays(&self, client: &Client) -> Option<Vec<OverlayConfig>> {
        let policy = self.host.in_force();
        let profile = policy.profile(&client.principal())?;
        (!profile.overlays.is_empty()).then(|| profile.overlays.clone())
    }

    /// The entries that a client may see.
    pub fn seen_by<'e>(
        &self,
        client: &Client,
        kind: TargetKind,
        entries: &'e [ClientEntry],
    ) -> impl Iterator<Item = &'e ClientEntry> {
        let principal = client.principal();
        entries.iter().filter(move |entry| {
            self.host.is_visible(&principal, &entry.server, (kind, &entry.original))
        })
    }

    /// Resolves a client's name for a tool or prompt to its server and original name.
    ///
    /// # Errors
    /// When it does not exist, is hidden (same error), or may not be used.
    pub async fn find(
        &self,
        client: &Client,
        what: (PolicyAction, TargetKind),
        name: &str,
    ) -> Result<(ServerName, Arc<str>), Outside> {
        match self.look_up(client, what, name) {
            Err((Some(server), _)) => {
                // It is being started and has listed nothing yet: whoever asks for it waits.
                let started = self.host.wait_until_started(&server, &client.options()).await;
                let found = self.look_up(client, what, name).map_err(|(_, outside)| outside);
                match (found, started) {
                    (Err(_), Err(late)) => Err(Outside::unlisted(name, &late)),
                    (found, _) => found,
                }
            }
            found => found.map_err(|(_, outside)| outside),
        }
    }

    /// As [`Gateway::find`]; an error names the server whose lists are not known yet, if it is the
    /// reason.
    pub(super) fn look_up(
        &self,
        client: &Client,
        (action, kind): (PolicyAction, TargetKind),
        name: &str,
    ) -> Result<(ServerName, Arc<str>), (Option<ServerName>, Outside)> {
        let view = self.host.snapshot();
        let catalog = self.catalog(client, &view);
        let principal = client.principal();
        let is_seen = |entry: &ClientEntry| {
            self.host.is_visible(&principal, &entry.server, (kind, &entry.original))
        };
        let entry = catalog.named(kind, name, is_seen);
        let (server, original) = match entry {
            Some(entry) => (entry.server.clone(), Arc::clone(&entry.original)),
            None => meant(view.servers.keys(), name),
        };
        let found = match self.host.check(&principal, action, &server, (kind, &original)) {
            Err(error) => Err((None, Outside::about(&error, kind, name, client))),
            Ok(_) if entry.is_some() => Ok((server, Arc::clone(&original))),
            Ok(_) => Err(self.missing(view.servers.get(&server), name)),
        };
        found.map_err(|(server, outside)| {
            let all = if kind == TargetKind::Tool { &catalog.tools } else { &catalog.prompts };
            let seen: Vec<_> = self.seen_by(client, kind, all).collect();
            let near = nearest(&original, seen.iter().map(|entry| &*entry.original), 0.85);
            let near = seen.iter().find(|entry| Some(&*entry.original) == near);
            (server, outside.suggest(near.map(|entry| &*entry.name)))
        })
    }

    /// The error for an unknown name: its server may have listed nothing yet.
    fn missing(
        &self,
        server: Option<&Arc<ServerView>>,
        name: &str,
    ) -> (Option<ServerName>, Outside) {
        let server = server.filter(|server| *server.capabilities == Capabilities::default());
        let outage = server.and_then(|server| self.host.outage(&server.name));
        match (server, outage) {
            (Some(server), Some(outage)) => {
                (Some(server.name.clone()), Outside::unlisted(name, &outage))
            }
            _ => (None, Outside::absent(name)),
        }
    }

    /// Whether a session belongs to a client, including sessions opened by other replicas, with the
    /// room to take over one of those.
    ///
    /// # Errors
    /// When the store cannot be reached, or too many sessions are open to take that one over.
    pub async fn owns(
        &self,
        client: &str,
        session: &str,
    ) -> Result<(bool, Option<SessionRoom>), Outside> {
        if let Some(owner) = self.sessions.owner(session) {
            return Ok((*owner == *client, None));
        }
        let Some(store) = &self.options.store else { return Ok((false, None)) };
        let owner = store.owner(session).await.map_err(|_| Outside::store_away())?;
        if owner.as_deref() != Some(client) {
            return Ok((false, None));
        }
        let room = self.sessions.make_room(client).ok_or_else(Outside::crowded)?;
        Ok((true, Some(room)))
    }

    /// Whether there is a shared store that cannot be used now.
    pub fn is_away(&self) -> bool {
        self.options.store.as_ref().is_some_and(|store| store.away().borrow().is_some())
    }

    /// Exchanges changes with the other replicas; with `keep`, also renews the sessions that are
    /// open here.
    async fn exchange(&self, keep: bool) {
        let Some(store) = &self.options.store else { return };
        let open = if keep { self.sessions.ids() } else { Vec::new() };
        for call in store.exchange(open, self.parked.states()).await {
            self.parked.forget(&call);
        }
    }
}

/// Guesses the server, and the name at it, from a name that no entry has.
fn meant<'s>(servers: impl Iterator<Item = &'s ServerName>, name: &str) -> (ServerName, Arc<str>) {
    match split_name(name, servers.map(ServerName::as_str)).or_else(|| split_first(name)) {
        Some((server, rest)) => (ServerName::new(server), rest.into()),
        None => (ServerName::new(""), name.into()),
    }
}
