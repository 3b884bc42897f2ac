//! The task that owns one server: its process, its session and its state (invariant 3).
//!
//! Receives commands, session events and results of its own work; feeds the lifecycle machine and
//! executes its steps. Calls do not pass through the actor: callers use the published [`Slot`].

mod attempt;
mod lists;
mod opening;

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{BoxFuture, select_all};
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::command::Command;
use super::connect::{ExitReport, OpenError, Opened};
use super::lifecycle::{Lifecycle, LifecycleInput, LifecycleStep, Next, Phase, Surroundings};
use super::slot::{Live, Slot};
use crate::shared::HostShared;
use crate::{Fact, ServerState};
use attempt::Opening;
use base::{LogLevel, Redactor, SafeText, Timestamp};
use config::error::Error;
use config::{ServerConfig, TransportConfig};
use lists::Refreshes;
use mcp::Request;
use protocol::{Capabilities, FetchedList, ListKind, PendingRequest, SessionEvent};

/// A result the actor waited for.
enum Happened {
    Opened(Box<Result<Opening, OpenError>>),
    Exited,
    ExitDidNotFollow(SafeText),
    Ended(Option<ExitReport>),
    /// The remains of a server that died by itself have been cleaned up.
    Reaped(Option<ExitReport>, SafeText),
    DependenciesChanged,
    Timer,
    RefreshDue(ListKind),
    /// Time to check whether the session is idle.
    IdleLook,
    Listed(ListKind, Result<FetchedList, Error>),
    /// All lists, fetched on request, and the waiting caller.
    Refreshed(Vec<(ListKind, Result<FetchedList, Error>)>, oneshot::Sender<Result<(), Error>>),
    Nothing,
}

/// What a pending result belongs to; it is ignored when that has been replaced.
#[derive(Clone, Copy)]
enum Addressee {
    Server,
    Session,
    /// The latest timer or dependency watch.
    Timer,
}

/// State of the actor.
pub struct Actor<'a> {
    shared: Arc<HostShared>,
    slot: Arc<Slot>,
    config: Arc<ServerConfig>,
    machine: Lifecycle,
    /// Commands to the server; the channel outlives a restarted actor.
    commands: &'a mut mpsc::Receiver<Box<Command>>,
    /// The state requested by the commands so far.
    desired: &'a mut Next,
    /// Pending work besides commands and session events.
    work: FuturesUnordered<BoxFuture<'static, (Addressee, u64, Happened)>>,
    /// Events of the current session.
    events: Option<mpsc::Receiver<SessionEvent>>,
    current: Option<Opened>,
    /// Counts sessions.
    generation: u64,
    /// Counts timers and dependency watches; older ones are ignored.
    epoch: u64,
    opening: Option<CancellationToken>,
    /// When the current or last attempt got its permit to start.
    admitted: Arc<OnceLock<Instant>>,
    ready_since: Option<Instant>,
    /// Why the connection closed, when it did.
    closed: Option<SafeText>,
    /// Whether the session and the process are being ended.
    ending: bool,
    /// Ends the grace period of calls in flight.
    draining: Option<CancellationToken>,
    refreshes: Refreshes,
    /// Lists of the current or last session, filtered.
    capabilities: Arc<Capabilities>,
    /// Whether there are earlier lists to compare with.
    listed_before: bool,
    finished: bool,
}

impl<'a> Actor<'a> {
    /// An actor for a server that is not running. Continues from its published state.
    pub fn new(
        shared: &Arc<HostShared>,
        slot: &Arc<Slot>,
        commands: &'a mut mpsc::Receiver<Box<Command>>,
        desired: &'a mut Next,
    ) -> Self {
        let live = slot.live();
        let config = Arc::clone(&live.config);
        let phase = if config.disabled { Phase::Disabled } else { Phase::Stopped };
        Self {
            shared: Arc::clone(shared),
            slot: Arc::clone(slot),
            config,
            machine: Lifecycle::new(phase),
            commands,
            desired,
            work: FuturesUnordered::new(),
            events: None,
            current: None,
            generation: live.generation,
            epoch: 0,
            opening: None,
            admitted: Arc::default(),
            ready_since: None,
            closed: None,
            ending: false,
            draining: None,
            refreshes: Refreshes::default(),
            listed_before: live.generation > 0,
            capabilities: Arc::clone(&live.capabilities),
            finished: false,
        }
    }

    /// Runs until the server is removed.
    pub async fn run(mut self) {
        self.shared.approvals.configure(&self.config);
        if !self.config.disabled && *self.desired == Next::Start {
            self.begin().await;
        }
        while !self.finished {
            let events = async {
                match &mut self.events {
                    Some(events) => events.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(*command).await,
                    // All handles were dropped: stop the server.
                    None => self.give(LifecycleInput::Stop(Next::Leave)).await,
                },
                event = events => match event {
                    Some(event) => self.on_session_event(event).await,
                    None => self.events = None,
                },
                Some(happened) = self.work.next(), if !self.work.is_empty() => {
                    self.happened(happened).await;
                }
            }
        }
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Control(input, done) => {
                *self.desired = match &input {
                    LifecycleInput::Stop(next) | LifecycleInput::Retire(next, _) => *next,
                    _ => Next::Start,
                };
                self.give(input).await;
                let _ = done.send(());
            }
            Command::Reconfigure(config, reason, done) => {
                self.reconfigure(config, reason).await;
                let _ = done.send(());
            }
            Command::Moved(config, done) => {
                self.follow(config).await;
                let _ = done.send(());
            }
            Command::TimedOut(generation, reason) if generation == self.generation => {
                self.give(LifecycleInput::TimedOut(reason)).await;
            }
            Command::Unreachable(generation, reason) if generation == self.generation => {
                self.closed(reason).await;
            }
            Command::ListChanged(kind) if self.current.is_some() => self.list_changed(kind),
            Command::TimedOut(..) | Command::Unreachable(..) | Command::ListChanged(_) => {}
            Command::Refresh(done) => self.refresh_all(done),
        }
    }

    async fn reconfigure(&mut self, config: Arc<ServerConfig>, reason: SafeText) {
        self.config = Arc::clone(&config);
        self.shared.approvals.configure(&config);
        self.record(introduction(&config)).await;
        self.slot.publish(|live| live.config = Arc::clone(&config));
        *self.desired = if config.disabled { Next::Disable } else { Next::Start };
        let running = *self.machine.phase() != Phase::Disabled;
        match (config.disabled, running) {
            (true, _) => self.give(LifecycleInput::Retire(Next::Disable, reason)).await,
            // Its dependencies may have changed.
            (false, true) if *self.machine.phase() == Phase::Waiting => {
                let input = self.dependencies();
                self.give(input).await;
            }
            (false, true) if *self.machine.phase() != Phase::Sleeping => {
                self.give(LifecycleInput::Retire(Next::Start, reason)).await;
            }
            (false, _) => {
                // The known lists may belong to a different server.
                self.listed_before &= !self.config.on_demand;
                self.begin().await;
            }
        }
    }

    async fn on_session_event(&mut self, event: SessionEvent) {
        match event {
            SessionEvent::FirstByte => self.first_byte().await,
            SessionEvent::Finding(finding) => {
                self.record(Fact::Found { finding }).await;
            }
            SessionEvent::ListChanged(kind) => self.list_changed(kind),
            SessionEvent::ResourceUpdated(uri) => self.resource_updated(&uri),
            SessionEvent::Renewed => self.renewed(),
            SessionEvent::Closed(reason) => self.closed(reason).await,
        }
    }

    /// Runs `work` without blocking the actor.
    fn wait_for(&self, about: Addressee, work: impl Future<Output = Happened> + Send + 'static) {
        let number = self.number(about);
        self.work.push(work.map(move |happened| (about, number, happened)).boxed());
    }

    fn number(&self, about: Addressee) -> u64 {
        match about {
            Addressee::Server => 0,
            Addressee::Session => self.generation,
            Addressee::Timer => self.epoch,
        }
    }

    async fn happened(&mut self, (about, number, happened): (Addressee, u64, Happened)) {
        if number != self.number(about) {
            return;
        }
        match happened {
            Happened::Opened(outcome) => self.opened(*outcome).await,
            Happened::Exited => self.exited(),
            Happened::ExitDidNotFollow(reason) => {
                let lost = self.loss(reason);
                self.give(LifecycleInput::Lost(lost)).await;
            }
            Happened::Ended(report) => self.ended(report).await,
            Happened::Reaped(report, reason) => self.reaped(report, reason).await,
            Happened::DependenciesChanged => self.check_dependencies().await,
            Happened::Timer => self.give(LifecycleInput::Timer).await,
            Happened::RefreshDue(kind) => self.fetch(kind),
            Happened::Listed(kind, result) => self.listed(kind, result).await,
            Happened::Refreshed(lists, done) => self.refreshed(lists, done).await,
            Happened::IdleLook => self.idle_look().await,
            Happened::Nothing => {}
        }
    }

    async fn record(&mut self, fact: Fact) {
        self.shared.facts.record(&self.slot.name, fact).await;
    }

    /// Feeds the machine and executes its steps, including the inputs that these produce.
    async fn give(&mut self, input: LifecycleInput) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let around = Surroundings {
                now: self.shared.clock.now(),
                random: fastrand::f64(),
                retry: &self.config.retry,
                restart: &self.config.restart,
                reconnects: self.config.transport.is_address(),
            };
            let (machine, steps) = self.machine.clone().step(input, around);
            self.machine = machine;
            // Before the steps: a caller that sees the server down must see that it starts, too.
            if self.machine.starts(&self.config.restart) {
                self.show_pending();
            }
            for step in steps {
                if let Some(input) = self.execute(step).await {
                    next = Some(input);
                }
            }
            self.show_pending();
        }
    }

    /// Publishes whether a transition is pending, and whether it leads to a start.
    fn show_pending(&self) {
        let (starts, live) = (self.machine.starts(&self.config.restart), self.slot.live());
        // While it waits for a dependency, that decides.
        let is_waiting = *self.machine.phase() == Phase::Waiting;
        let settled = if is_waiting { live.settled } else { self.machine.is_settled() };
        if (live.settled, live.starts) != (settled, starts) {
            self.slot.publish(|live| (live.settled, live.starts) = (settled, starts));
        }
    }

    /// Executes one step; returns the input that follows immediately, if any.
    async fn execute(&mut self, step: LifecycleStep) -> Option<LifecycleInput> {
        match step {
            LifecycleStep::CheckDependencies => return Some(self.dependencies()),
            LifecycleStep::Open => self.open(),
            LifecycleStep::Abort => {
                if let Some(opening) = &self.opening {
                    opening.cancel();
                }
            }
            LifecycleStep::Publish => self.publish().await,
            LifecycleStep::Unpublish(reason) => self.unpublish(&reason),
            LifecycleStep::End => self.end(),
            LifecycleStep::Drain => self.drain(),
            LifecycleStep::Hurry => {
                if let Some(draining) = &self.draining {
                    draining.cancel();
                }
            }
            LifecycleStep::Arm(delay) => self.arm(delay),
            LifecycleStep::Disarm => self.epoch += 1,
            LifecycleStep::Record(fact) => self.record(fact).await,
            LifecycleStep::Announce { state, reason, retry_at } => {
                self.announce(state, reason, retry_at).await;
            }
            LifecycleStep::Finish => self.finished = true,
        }
        None
    }

    async fn announce(
        &mut self,
        state: ServerState,
        reason: Option<SafeText>,
        retry_at: Option<Timestamp>,
    ) {
        // Recorded before it is published, so that reactions of others come later in the facts.
        let (why, attempt) = (reason.clone(), self.machine.attempt());
        self.record(Fact::StateChanged { state, reason: why, attempt, retry_at }).await;
        if matches!(state, ServerState::Shutdown | ServerState::Disabled) {
            self.slot.account.withdraw();
        }
        let now = self.shared.clock.now();
        let next_attempt = retry_at.map(|at| Instant::now() + at.since(now));
        self.slot.publish(|live| {
            live.state = state;
            live.reason = reason;
            live.retry_at = retry_at;
            live.next_attempt = next_attempt;
        });
    }

    fn arm(&mut self, delay: Duration) {
        self.epoch += 1;
        self.wait_for(Addressee::Timer, tokio::time::sleep(delay).map(|()| Happened::Timer));
    }

    /// Checks the dependencies and watches them while one is missing.
    fn dependencies(&mut self) -> LifecycleInput {
        // Every start passes through here, so a held server never starts.
        if let Some(hold) = &self.config.hold {
            self.epoch += 1;
            let reason = SafeText::line(&hold.to_string());
            self.slot.publish(|live| live.settled = true);
            return LifecycleInput::Blocked(reason);
        }
        if self.config.dependencies.is_empty() {
            return LifecycleInput::Unblocked;
        }
        let slots = self.shared.slots();
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
                // Wake a sleeping dependency.
                let start = || Command::Control(LifecycleInput::Start, oneshot::channel().0);
                let wakes = live.is_asleep() && slot.commands.try_send(start()).is_ok();
                let hopeless = live.settled && !wakes;
                if missing.as_ref().is_none_or(|(_, before)| hopeless && !before) {
                    missing = Some((SafeText::line(&missing_reason(&live, hopeless)), hopeless));
                }
            }
        }
        let Some((reason, hopeless)) = missing else { return LifecycleInput::Unblocked };
        self.epoch += 1;
        if !watched.is_empty() {
            self.wait_for(Addressee::Timer, async move {
                let changes = watched.iter_mut().map(|watch| watch.changed().boxed());
                let _ = select_all(changes).await;
                Happened::DependenciesChanged
            });
        }
        self.slot.publish(|live| live.settled = hopeless);
        LifecycleInput::Blocked(reason)
    }

    async fn check_dependencies(&mut self) {
        let input = self.dependencies();
        let live = self.slot.live();
        let same = matches!(&input, LifecycleInput::Blocked(reason)
            if live.reason.as_ref() == Some(reason) && live.state == ServerState::Waiting);
        if !same {
            self.give(input).await;
        }
    }

    async fn publish(&mut self) {
        let Some(opened) = self.current.clone() else { return };
        if self.config.transport.is_address() {
            // Earlier failures may stem from a different server at this address.
            self.shared.close_breakers(&self.slot).await;
        }
        self.ready_since = Some(tokio::time::Instant::now());
        // First: whoever waits for the session looks for its tools at once.
        self.shared.reroute();
        self.slot.open_for_callers(&opened);
        if self.generation == 1 {
            self.warn_of_shared_names();
        }
        self.subscribe_again(&opened);
        self.remember();
        self.watch_idleness();
    }

    /// Warns of tools that other servers have too: their bare names are ambiguous; and of resources.
    fn warn_of_shared_names(&self) {
        let own = &self.slot.name;
        let names = |all: &Capabilities, take: &mut dyn FnMut(&Arc<str>)| {
            all.tools.iter().for_each(|tool| take(&tool.name));
        };
        self.warn_of_shared("sharedNames", "tool", names, |other| {
            format!("say `{own}.NAME` or `{other}.NAME`")
        });
        let uris = |all: &Capabilities, take: &mut dyn FnMut(&Arc<str>)| {
            all.resources.iter().chain(&all.templates).for_each(|one| take(&one.uri));
        };
        self.warn_of_shared("sharedUris", "resource", uris, |_| {
            "name the server that should read it; clients of the gateway get that of the first \
             server in the file, and the others as `mcpdeck://SERVER/URI`"
                .to_owned()
        });
    }

    /// Warns of the names of `noun`s that other servers have too, server by server, and of the rest of
    /// many at once. `names` hands on the names in some lists; `advice` is given the name of the other
    /// server, or a word for it.
    fn warn_of_shared(
        &self,
        action: &str,
        noun: &str,
        names: impl Fn(&Capabilities, &mut dyn FnMut(&Arc<str>)),
        advice: impl Fn(&str) -> String,
    ) {
        const MAX_NAMED_ITEMS: usize = 5;
        const MAX_NAMED_SERVERS: usize = 5;
        let mut own = HashSet::new();
        names(&self.capabilities, &mut |name| {
            own.insert(Arc::clone(name));
        });
        if own.is_empty() {
            return;
        }
        let warn = |shared: &BTreeSet<Arc<str>>, others: &str, other: &str| {
            let named = shared.iter().take(MAX_NAMED_ITEMS).map(|name| format!("`{name}`"));
            let mut named: Vec<String> = named.collect();
            if let more @ 1.. = shared.len() - named.len() {
                named.push(format!("{more} more"));
            }
            let (named, advice) = (named.join(", "), advice(other));
            let are =
                if shared.len() == 1 { format!("is a {noun}") } else { format!("are {noun}s") };
            let text = format!("{named} {are} of {others} too: {advice}");
            tracing::warn!(target: "mcpdeck::fact", server = %self.slot.name, action, "{text}");
            self.log(LogLevel::Warning, &text);
        };
        let (mut others, mut rest) = (0, BTreeSet::new());
        for slot in self.shared.slots().values().filter(|slot| slot.name != self.slot.name) {
            let mut shared = BTreeSet::new();
            names(&slot.live().capabilities, &mut |name| {
                if own.contains(name) {
                    shared.insert(Arc::clone(name));
                }
            });
            if shared.is_empty() {
                continue;
            }
            others += 1;
            if others <= MAX_NAMED_SERVERS {
                warn(&shared, &format!("`{}`", slot.name), slot.name.as_str());
            } else {
                rest.extend(shared);
            }
        }
        if let more @ 1.. = others.saturating_sub(MAX_NAMED_SERVERS) {
            let servers = if more == 1 { "server" } else { "servers" };
            warn(&rest, &format!("{more} more {servers}"), "SERVER");
        }
    }

    /// Renews the subscriptions, which outlive a session.
    fn subscribe_again(&self, opened: &Opened) {
        for uri in self.slot.subscriptions() {
            self.ask(opened, Request::Subscribe { uri });
        }
    }

    /// Sends a request and discards the result.
    fn ask(&self, opened: &Opened, request: Request) {
        let own = PendingRequest::internal(self.shared.clock, self.config.request_timeout);
        let asked = opened.session.request(request, own);
        self.wait_for(Addressee::Server, asked.map(|_| Happened::Nothing));
    }

    /// Handles a session that the server lost and replaced: restores log level and subscriptions,
    /// and fetches the lists again.
    fn renewed(&mut self) {
        let Some(opened) = self.current.clone() else { return };
        self.log_info("the server lost the session; a new one was opened in its place");
        let offered = opened.session.view();
        for kind in ListKind::ALL {
            if offered.offers(kind) {
                self.list_changed(kind);
            }
        }
        let level = self.slot.log_level().or(self.config.log_level);
        if let Some(level) = level.filter(|_| offered.capabilities.get("logging").is_some()) {
            self.ask(&opened, Request::SetLogLevel(level));
        }
        self.subscribe_again(&opened);
    }

    /// Applies settings that need no restart
    /// ([`FOLLOWED_SETTINGS`](config::FOLLOWED_SETTINGS)). Most are read where they are
    /// needed; those that affect the server or a list are applied here.
    async fn follow(&mut self, config: Arc<ServerConfig>) {
        let before = std::mem::replace(&mut self.config, Arc::clone(&config));
        self.shared.approvals.configure(&config);
        self.slot.publish(|live| live.config = Arc::clone(&config));
        let filtered = before.tools != config.tools;
        if filtered && self.listed_before {
            // Tools no longer allowed are removed at once; newly allowed ones arrive with the list.
            self.take_lists(Capabilities::clone(&self.capabilities)).await;
            self.shared.reroute();
        }
        if *self.machine.phase() == Phase::Sleeping && !config.on_demand {
            return self.give(LifecycleInput::Start).await;
        }
        let Some(opened) = self.current.clone() else { return };
        if (before.on_demand, before.idle_stop) != (config.on_demand, config.idle_stop) {
            self.remember();
            self.watch_idleness();
        }
        let offered = opened.session.view();
        if filtered && offered.offers(ListKind::Tools) {
            self.list_changed(ListKind::Tools);
        }
        if before.roots != config.roots {
            let sent = opened.session.roots_changed();
            self.wait_for(Addressee::Server, sent.map(|()| Happened::Nothing));
        }
        let level = config.log_level.filter(|_| before.log_level != config.log_level);
        let asked =
            self.slot.log_level().is_none() && offered.capabilities.get("logging").is_some();
        if let Some(level) = level.filter(|_| asked) {
            self.ask(&opened, Request::SetLogLevel(level));
        }
    }

    fn unpublish(&self, reason: &SafeText) {
        self.slot.publish(|live| {
            live.session = None;
            live.reason = Some(reason.clone());
        });
    }
}

// Helpers of the actor.

/// The fact that introduces a server.
pub fn introduction(config: &ServerConfig) -> Fact {
    Fact::ServerAdded {
        transport: config.transport.kind(),
        target: target(config),
        dependencies: config.dependencies.clone(),
        limits: *config.content,
    }
}

/// Command line or URL to display, secrets masked.
fn target(config: &ServerConfig) -> SafeText {
    let text = match &config.transport {
        TransportConfig::Stdio(stdio) => {
            let words = std::iter::once(&stdio.command).chain(&stdio.args);
            words.map(String::as_str).collect::<Vec<_>>().join(" ")
        }
        TransportConfig::Http(http)
        | TransportConfig::Sse(http)
        | TransportConfig::WebSocket(http) => http.url.to_string(),
        TransportConfig::OpenApi(api) if api.finds_base => api.document.text(),
        TransportConfig::OpenApi(api) => format!("{} at {}", api.document.text(), api.http.url),
    };
    SafeText::line(&Redactor::new(config.secrets()).redact(&text))
}

fn missing_reason(live: &Live, hopeless: bool) -> String {
    let name = &live.config.name;
    if hopeless {
        format!("needs `{name}`, which is {}", live.state.because(live.reason.as_ref()))
    } else {
        format!("waits for `{name}`")
    }
}
