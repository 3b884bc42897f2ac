//! Small steps of the actor: what is told, published, waited for.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::select_all;
use tokio::sync::oneshot;

use crate::base::secret::Redactor;
use crate::base::text::SafeText;
use crate::base::{LogLevel, Timestamp};
use crate::config::{ServerConfig, TransportConfig};
use crate::host::server::actor::lists::offers;
use crate::host::server::actor::{Actor, Happened};
use crate::host::server::command::Command;
use crate::host::server::connect::Opened;
use crate::host::server::lifecycle::{Input, Phase};
use crate::host::server::slot::Live;
use crate::host::{Fact, ServerState};
use crate::mcp::PendingRequest;
use crate::mcp::capabilities::{Capabilities, ListKind};
use crate::mcp::session::Request;

/// The fact that a server is in the deck, with what it is.
pub fn introduction(config: &ServerConfig) -> Fact {
    Fact::ServerAdded {
        server: config.name.clone(),
        transport: config.transport.kind(),
        target: target(config),
        dependencies: config.dependencies.clone(),
        limits: config.content,
    }
}

/// Command line or URL to show, secrets masked.
fn target(config: &ServerConfig) -> SafeText {
    let text = match &config.transport {
        TransportConfig::Stdio(stdio) => {
            let words = std::iter::once(&stdio.command).chain(&stdio.args);
            words.map(String::as_str).collect::<Vec<_>>().join(" ")
        }
        TransportConfig::Http(http)
        | TransportConfig::Sse(http)
        | TransportConfig::WebSocket(http) => http.url.to_string(),
    };
    SafeText::line(&Redactor::new(config.secrets()).redact(&text))
}

impl Actor {
    pub(super) async fn announce(
        &mut self,
        state: ServerState,
        reason: Option<SafeText>,
        retry_at: Option<Timestamp>,
    ) {
        // Told before it is published: what others do because of it must come later in the facts.
        let server = self.slot.name.clone();
        let attempt = self.machine.attempt();
        let fact = Fact::StateChanged { server, state, reason: reason.clone(), attempt, retry_at };
        self.deck.facts.record(fact).await;
        if matches!(state, ServerState::Shutdown | ServerState::Disabled) {
            self.slot.account.withdraw();
        }
        self.slot.publish(|live| {
            live.state = state;
            live.reason = reason;
            live.retry_at = retry_at;
        });
    }

    pub(super) fn arm(&mut self, delay: Duration) {
        self.epoch += 1;
        let epoch = self.epoch;
        self.work.push(tokio::time::sleep(delay).map(move |()| Happened::Timer(epoch)).boxed());
    }

    /// Looks at the dependencies and keeps an eye on them while one is missing.
    pub(super) fn dependencies(&mut self) -> Input {
        // Every way to a start leads through here: what is held starts by none of them.
        if let Some(hold) = &self.config.hold {
            self.epoch += 1;
            let reason = SafeText::line(&hold.to_string());
            self.slot.publish(|live| live.settled = true);
            return Input::Blocked(reason);
        }
        if self.config.dependencies.is_empty() {
            return Input::Unblocked;
        }
        let slots = self.deck.slots();
        let mut watched = Vec::new();
        let mut missing: Option<(SafeText, bool)> = None;
        for name in &self.config.dependencies {
            let Some(slot) = slots.get(name) else {
                missing =
                    Some((SafeText::line(&format!("needs `{name}`, which is missing")), true));
                continue;
            };
            let mut watch = slot.watch();
            let live = Arc::clone(&watch.borrow_and_update());
            watched.push(watch);
            if live.session.is_none() || live.state != ServerState::Ready {
                // What sleeps is needed now.
                let start = || Command::Control(Input::Start, oneshot::channel().0);
                let wakes = live.is_asleep() && slot.commands.try_send(start()).is_ok();
                let hopeless = live.settled && !wakes;
                if missing.as_ref().is_none_or(|(_, before)| hopeless && !before) {
                    missing = Some((SafeText::line(&missing_reason(&live, hopeless)), hopeless));
                }
            }
        }
        let Some((reason, hopeless)) = missing else { return Input::Unblocked };
        self.epoch += 1;
        let epoch = self.epoch;
        if !watched.is_empty() {
            let changed = async move {
                let changes = watched.iter_mut().map(|watch| watch.changed().boxed());
                let _ = select_all(changes).await;
                Happened::DependenciesChanged(epoch)
            };
            self.work.push(changed.boxed());
        }
        self.slot.publish(|live| live.settled = hopeless);
        Input::Blocked(reason)
    }

    pub(super) async fn check_dependencies(&mut self) {
        let input = self.dependencies();
        let told = self.slot.live();
        let same = matches!(&input, Input::Blocked(reason)
            if told.reason.as_ref() == Some(reason) && told.state == ServerState::Waiting);
        if !same {
            self.give(input).await;
        }
    }

    pub(super) async fn publish(&mut self) {
        let Some(opened) = self.current.clone() else { return };
        if self.config.transport.is_address() {
            // What failed while nobody was at the address says nothing of who is there now.
            self.deck.facts.record_all(self.slot.close_breakers(self.deck.clock.now())).await;
        }
        self.ready_since = Some(tokio::time::Instant::now());
        self.slot.open_for_callers(&opened);
        self.deck.reroute();
        if self.generation == 1 {
            self.warn_of_shared_names();
        }
        self.subscribe_again(&opened);
        self.remember();
        self.watch_idleness();
    }

    /// Which of its tools other servers have too: the bare name of such a one leads nowhere.
    fn warn_of_shared_names(&self) {
        const MOST: usize = 5;
        let own: HashSet<&str> = self.capabilities.tools.iter().map(|tool| &*tool.name).collect();
        for (other, slot) in self.deck.slots().iter().filter(|(name, _)| **name != self.slot.name) {
            let theirs = slot.live();
            let names = theirs.capabilities.tools.iter().map(|tool| &*tool.name);
            let shared: Vec<&str> = names.filter(|name| own.contains(name)).collect();
            if shared.is_empty() {
                continue;
            }
            let more = match shared.len() {
                0..=MOST => String::new(),
                many => format!(" and {} more", many - MOST),
            };
            let first: Vec<String> =
                shared.iter().take(MOST).map(|name| format!("`{name}`")).collect();
            let (names, own) = (first.join(", "), &self.slot.name);
            let text = format!(
                "{names}{more} is a tool of `{other}` too: say `{own}.NAME` or `{other}.NAME`"
            );
            tracing::warn!(target: "mcpdeck::fact", server = %own, action = "sharedNames", "{text}");
            self.log(LogLevel::Warning, &text);
        }
    }

    /// Subscriptions are the host's state, not the session's: they outlive it.
    fn subscribe_again(&self, opened: &Opened) {
        for uri in self.slot.subscriptions() {
            self.ask(opened, Request::Subscribe { uri });
        }
    }

    /// Asks for something whose answer says nothing.
    fn ask(&self, opened: &Opened, request: Request) {
        let own = PendingRequest::own(self.config.request_timeout);
        let asked = opened.session.request(request, own);
        self.work.push(asked.map(|_| Happened::Nothing).boxed());
    }

    /// The server forgot its session and has another one: it is told again what it was told, and
    /// asked again what it has.
    pub(super) fn renewed(&mut self) {
        let Some(opened) = self.current.clone() else { return };
        self.note("the server had forgotten the session; another one was opened in its place");
        let offered = opened.session.view();
        for kind in ListKind::ALL {
            if offers(&offered.capabilities, kind) {
                self.list_changed(kind);
            }
        }
        let level = self.slot.log_level().or(self.config.log_level);
        if let Some(level) = level.filter(|_| offered.capabilities.get("logging").is_some()) {
            self.ask(&opened, Request::SetLogLevel(level));
        }
        self.subscribe_again(&opened);
    }

    /// Takes other settings into use while the server runs on
    /// ([`FOLLOWED`](crate::config::change::FOLLOWED)). Most are read where they are needed; what
    /// the server or a list has to do with is told here.
    pub(super) async fn follow(&mut self, config: Arc<ServerConfig>) {
        let before = std::mem::replace(&mut self.config, Arc::clone(&config));
        self.deck.approvals.configure(&config);
        self.slot.publish(|live| live.config = Arc::clone(&config));
        let filtered = before.tools != config.tools;
        if filtered && self.listed_before {
            // What is not allowed any more goes at once, what is allowed now comes with the list.
            self.take_lists(Capabilities::clone(&self.capabilities)).await;
            self.deck.reroute();
        }
        if *self.machine.phase() == Phase::Sleeping && !config.on_demand {
            return self.give(Input::Start).await;
        }
        let Some(opened) = self.current.clone() else { return };
        if (before.on_demand, before.idle_stop) != (config.on_demand, config.idle_stop) {
            self.remember();
            self.watch_idleness();
        }
        let offered = opened.session.view();
        if filtered && offers(&offered.capabilities, ListKind::Tools) {
            self.list_changed(ListKind::Tools);
        }
        if before.roots != config.roots {
            let told = opened.session.roots_changed();
            self.work.push(told.map(|()| Happened::Nothing).boxed());
        }
        let level = config.log_level.filter(|_| before.log_level != config.log_level);
        let asked =
            self.slot.log_level().is_none() && offered.capabilities.get("logging").is_some();
        if let Some(level) = level.filter(|_| asked) {
            self.ask(&opened, Request::SetLogLevel(level));
        }
    }

    pub(super) fn unpublish(&self, reason: &SafeText) {
        self.slot.publish(|live| {
            live.session = None;
            live.reason = Some(reason.clone());
        });
    }
}

fn missing_reason(live: &Live, hopeless: bool) -> String {
    let name = &live.config.name;
    match (&live.reason, hopeless) {
        (Some(reason), true) => {
            format!("needs `{name}`, which is {}: {reason}", live.state.as_str())
        }
        (None, true) => format!("needs `{name}`, which is {}", live.state.as_str()),
        (_, false) => format!("waits for `{name}`"),
    }
}
