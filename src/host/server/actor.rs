//! The task that owns one server: its process, its session and its state (invariant 3).
//!
//! Listens to commands, to its session and to the work it started; feeds the lifecycle machine and
//! executes its steps. Callers never pass through here: they use what [`Slot`] publishes.

mod attempt;
mod lists;
mod opening;

use std::collections::HashSet;
use std::sync::Arc;
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
use crate::base::{LogLevel, Redactor, SafeText, Timestamp};
use crate::config::{ServerConfig, TransportConfig};
use crate::error::Error;
use crate::host::shared::HostShared;
use crate::host::{Fact, ServerState};
use crate::mcp::{Capabilities, FetchedList, ListKind, PendingRequest, Request, SessionEvent};
use attempt::Opening;
use lists::Refreshes;

/// Events of a session that may wait for their owner; then the session waits.
const EVENTS: usize = 256;
/// How long a process may take to exit after its connection closed before it is helped to: most
/// deaths are seen as both, and the exit status is the better reason. A process that leaves a core
/// file on a busy machine takes most of a second.
pub(super) const EXIT_FOLLOWS: Duration = Duration::from_secs(1);

/// Something the actor waited for.
enum Happened {
    Opened(Box<Result<Opening, OpenError>>),
    Exited,
    ExitDidNotFollow(SafeText),
    Ended(Option<ExitReport>),
    /// Everything that was left of a server that died by itself is gone.
    Reaped(Option<ExitReport>, SafeText),
    DependenciesChanged,
    Timer,
    RefreshDue(ListKind),
    /// It may be time for the session to end.
    IdleLook,
    Listed(ListKind, Result<FetchedList, Error>),
    /// All lists, fetched by hand, and the caller that waits for them.
    Refreshed(Vec<(ListKind, Result<FetchedList, Error>)>, oneshot::Sender<Result<(), Error>>),
    Nothing,
}

/// What something that is waited for is about: when that is another by then, it is ignored.
#[derive(Clone, Copy)]
enum Addressee {
    Server,
    Session,
    /// The timer, or the watch of the dependencies, that was set last.
    Timer,
}

/// The task's state.
pub struct Actor<'a> {
    deck: Arc<HostShared>,
    slot: Arc<Slot>,
    config: Arc<ServerConfig>,
    machine: Lifecycle,
    /// The commands to the server, received by one actor after the other.
    commands: &'a mut mpsc::Receiver<Command>,
    /// What the commands so far amount to.
    desired: &'a mut Next,
    /// What is being waited for besides commands and session events.
    work: FuturesUnordered<BoxFuture<'static, (Addressee, u64, Happened)>>,
    /// Events of the current session.
    events: Option<mpsc::Receiver<SessionEvent>>,
    current: Option<Opened>,
    /// Counts sessions.
    generation: u64,
    /// Counts timers and dependency watches; older ones are ignored.
    epoch: u64,
    opening: Option<CancellationToken>,
    attempt_began: Option<Instant>,
    ready_since: Option<Instant>,
    /// Why the connection closed, when it did.
    closed: Option<SafeText>,
    /// Whether the end of the process is being waited for.
    ending: bool,
    /// Ends the grace of calls in flight.
    draining: Option<CancellationToken>,
    refreshes: Refreshes,
    /// Lists of this or the last session, filtered.
    capabilities: Arc<Capabilities>,
    /// Whether there were lists before, to compare with.
    listed_before: bool,
    finished: bool,
}

impl<'a> Actor<'a> {
    /// An actor for a server that rests. Goes on from what is published of it.
    pub fn new(
        deck: &Arc<HostShared>,
        slot: &Arc<Slot>,
        commands: &'a mut mpsc::Receiver<Command>,
        desired: &'a mut Next,
    ) -> Self {
        let live = slot.live();
        let config = Arc::clone(&live.config);
        let phase = if config.disabled { Phase::Disabled } else { Phase::Stopped };
        Self {
            deck: Arc::clone(deck),
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
            attempt_began: None,
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

    /// Runs until the server was removed.
    pub async fn run(mut self) {
        self.deck.approvals.configure(&self.config);
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
                    Some(command) => self.obey(command).await,
                    // Every handle is gone: so must the server be.
                    None => self.give(LifecycleInput::Stop(Next::Leave)).await,
                },
                event = events => match event {
                    Some(event) => self.heard(event).await,
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
            Command::TimedOut(..) | Command::Unreachable(..) => {}
            Command::Refresh(done) => self.refresh_all(done),
        }
    }

    async fn reconfigure(&mut self, config: Arc<ServerConfig>, reason: SafeText) {
        self.config = Arc::clone(&config);
        self.deck.approvals.configure(&config);
        self.record(introduction(&config)).await;
        self.slot.publish(|live| live.config = Arc::clone(&config));
        *self.desired = if config.disabled { Next::Disable } else { Next::Start };
        let running = *self.machine.phase() != Phase::Disabled;
        match (config.disabled, running) {
            (true, _) => self.give(LifecycleInput::Retire(Next::Disable, reason)).await,
            // What it waited for may be another thing now, or nothing.
            (false, true) if *self.machine.phase() == Phase::Waiting => {
                let input = self.dependencies();
                self.give(input).await;
            }
            (false, true) if *self.machine.phase() != Phase::Sleeping => {
                self.give(LifecycleInput::Retire(Next::Start, reason)).await;
            }
            (false, _) => {
                // What is known of it may be of another process.
                self.listed_before &= !self.config.on_demand;
                self.begin().await;
            }
        }
    }

    async fn heard(&mut self, event: SessionEvent) {
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

    /// Goes on listening while `work` is done.
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
        self.deck.facts.record(&self.slot.name, fact).await;
    }

    /// Feeds the machine and executes what it says, and what that leads to.
    async fn give(&mut self, input: LifecycleInput) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let around = Surroundings {
                now: self.deck.clock.now(),
                random: fastrand::f64(),
                retry: &self.config.retry,
                restart: &self.config.restart,
                reconnects: self.config.transport.is_address(),
            };
            let (machine, steps) = self.machine.clone().step(input, around);
            self.machine = machine;
            for step in steps {
                if let Some(input) = self.execute(step).await {
                    next = Some(input);
                }
            }
            let settled = self.machine.is_settled();
            if *self.machine.phase() != Phase::Waiting && self.slot.live().settled != settled {
                self.slot.publish(|live| live.settled = settled);
            }
        }
    }

    /// Executes one step; gives the input that follows at once, if any.
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
        // Told before it is published: what others do because of it must come later in the facts.
        let (why, attempt) = (reason.clone(), self.machine.attempt());
        self.record(Fact::StateChanged { state, reason: why, attempt, retry_at }).await;
        if matches!(state, ServerState::Shutdown | ServerState::Disabled) {
            self.slot.account.withdraw();
        }
        self.slot.publish(|live| {
            live.state = state;
            live.reason = reason;
            live.retry_at = retry_at;
        });
    }

    fn arm(&mut self, delay: Duration) {
        self.epoch += 1;
        self.wait_for(Addressee::Timer, tokio::time::sleep(delay).map(|()| Happened::Timer));
    }

    /// Looks at the dependencies and keeps an eye on them while one is missing.
    fn dependencies(&mut self) -> LifecycleInput {
        // Every way to a start leads through here: what is held starts by none of them.
        if let Some(hold) = &self.config.hold {
            self.epoch += 1;
            let reason = SafeText::line(&hold.to_string());
            self.slot.publish(|live| live.settled = true);
            return LifecycleInput::Blocked(reason);
        }
        if self.config.dependencies.is_empty() {
            return LifecycleInput::Unblocked;
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
            // What failed while nobody was at the address says nothing of who is there now.
            self.deck.close_breakers(&self.slot).await;
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
            let shared = names.filter(|name| own.contains(name)).map(|name| format!("`{name}`"));
            let mut shared: Vec<String> = shared.collect();
            if shared.is_empty() {
                continue;
            }
            let more = shared.len().saturating_sub(MOST);
            shared.truncate(MOST);
            if more > 0 {
                shared.push(format!("{more} more"));
            }
            let (names, own) = (shared.join(", "), &self.slot.name);
            let text =
                format!("{names} is a tool of `{other}` too: say `{own}.NAME` or `{other}.NAME`");
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
        self.wait_for(Addressee::Server, asked.map(|_| Happened::Nothing));
    }

    /// The server forgot its session and has another one: it is told again what it was told, and
    /// asked again what it has.
    fn renewed(&mut self) {
        let Some(opened) = self.current.clone() else { return };
        self.note("the server had forgotten the session; another one was opened in its place");
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

    /// Takes other settings into use while the server runs on
    /// ([`FOLLOWED`](crate::config::change::FOLLOWED)). Most are read where they are needed; what
    /// the server or a list has to do with is told here.
    async fn follow(&mut self, config: Arc<ServerConfig>) {
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

// Small steps of the actor: what is recorded, published, waited for.

/// The fact that a server is in the deck, with what it is.
pub fn introduction(config: &ServerConfig) -> Fact {
    Fact::ServerAdded {
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
