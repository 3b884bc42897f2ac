//! The task that owns one server: its process, its session and its state (invariant 3).
//!
//! Listens to commands, to its session and to the work it started; feeds the lifecycle machine and
//! executes its steps. Callers never pass through here: they use what [`Slot`] publishes.

mod ending;
mod lists;
mod opening;
pub mod steps;

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::text::SafeText;
use crate::config::ServerConfig;
use crate::error::Error;
use crate::host::Fact;
use crate::host::server::actor::lists::Refreshes;
use crate::host::server::actor::opening::Opening;
use crate::host::server::actor::steps::introduction;
use crate::host::server::command::Command;
use crate::host::server::connect::{ExitReport, OpenError, Opened};
use crate::host::server::keeper::{Commands, Desired};
use crate::host::server::lifecycle::{Input, Lifecycle, Next, Phase, Step, Surroundings};
use crate::host::server::slot::Slot;
use crate::host::shared::Shared;
use crate::mcp::capabilities::{Capabilities, ListKind};
use crate::mcp::session::{FetchedList, SessionEvent};

/// Events of a session that may wait for their owner; then the session waits.
const EVENTS: usize = 256;
/// How long a process may take to exit after its connection closed before it is helped to: most
/// deaths are seen as both, and the exit status is the better reason. A process that leaves a core
/// file on a busy machine takes most of a second.
pub(super) const EXIT_FOLLOWS: Duration = Duration::from_secs(1);

/// Something the actor waited for.
enum Happened {
    Opened(Box<Result<Opening, OpenError>>),
    Exited(u64),
    ExitDidNotFollow(u64, SafeText),
    Ended(Option<ExitReport>),
    /// Everything that was left of a server that died by itself is gone.
    Reaped(Option<ExitReport>, SafeText),
    DependenciesChanged(u64),
    Timer(u64),
    RefreshDue(u64, ListKind),
    /// It may be time for the session of this number to end.
    IdleLook(u64),
    Listed(u64, ListKind, Result<FetchedList, Error>),
    Nothing,
}

/// The task's state.
pub struct Actor {
    deck: Arc<Shared>,
    slot: Arc<Slot>,
    config: Arc<ServerConfig>,
    machine: Lifecycle,
    commands: Commands,
    /// What the commands so far amount to.
    desired: Arc<Desired>,
    /// What is being waited for besides commands and session events.
    work: FuturesUnordered<BoxFuture<'static, Happened>>,
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

impl Actor {
    /// An actor for a server that rests. Goes on from what is published of it.
    pub fn new(
        deck: Arc<Shared>,
        slot: Arc<Slot>,
        commands: Commands,
        desired: Arc<Desired>,
    ) -> Self {
        let live = slot.live();
        let config = Arc::clone(&live.config);
        let phase = if config.disabled { Phase::Disabled } else { Phase::Stopped };
        Self {
            deck,
            slot,
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

    /// Runs until the server has left the deck.
    pub async fn run(mut self) {
        self.deck.approvals.configure(&self.config);
        if !self.config.disabled && self.desired.is_run() {
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
                    None => self.give(Input::Stop(Next::Leave)).await,
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
                match &input {
                    Input::Stop(next) | Input::Retire(next, _) => self.desire(*next),
                    _ => self.desired.run(),
                }
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
                self.give(Input::TimedOut(reason)).await;
            }
            Command::Unreachable(generation, reason) if generation == self.generation => {
                self.closed(reason).await;
            }
            Command::TimedOut(..) | Command::Unreachable(..) => {}
            Command::SignedIn => self.give(Input::Start).await,
            Command::Refresh(done) => self.refresh_all(done),
        }
    }

    fn desire(&self, next: Next) {
        match next {
            Next::Start => self.desired.run(),
            Next::Rest | Next::Sleep | Next::Disable => self.desired.rest(),
            Next::Leave => self.desired.leave(),
        }
    }

    async fn reconfigure(&mut self, config: Arc<ServerConfig>, reason: SafeText) {
        self.config = Arc::clone(&config);
        self.deck.approvals.configure(&config);
        self.deck.facts.record(introduction(&config)).await;
        self.slot.publish(|live| live.config = Arc::clone(&config));
        self.desire(if config.disabled { Next::Disable } else { Next::Start });
        let running = *self.machine.phase() != Phase::Disabled;
        match (config.disabled, running) {
            (true, _) => self.give(Input::Retire(Next::Disable, reason)).await,
            // What it waited for may be another thing now, or nothing.
            (false, true) if *self.machine.phase() == Phase::Waiting => {
                let input = self.dependencies();
                self.give(input).await;
            }
            (false, true) if *self.machine.phase() != Phase::Sleeping => {
                self.give(Input::Retire(Next::Start, reason)).await;
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
                let server = self.slot.name.clone();
                self.deck.facts.record(Fact::Found { server, finding }).await;
            }
            SessionEvent::ListChanged(kind) => self.list_changed(kind),
            SessionEvent::ResourceUpdated(uri) => self.resource_updated(&uri),
            SessionEvent::Renewed => self.renewed(),
            SessionEvent::Closed(reason) => self.closed(reason).await,
        }
    }

    async fn happened(&mut self, happened: Happened) {
        match happened {
            Happened::Opened(outcome) => self.opened(*outcome).await,
            Happened::Exited(generation) if generation == self.generation => self.exited(),
            Happened::ExitDidNotFollow(generation, reason) if generation == self.generation => {
                let lost = self.loss(reason);
                self.give(Input::Lost(lost)).await;
            }
            Happened::Ended(report) => self.ended(report).await,
            Happened::Reaped(report, reason) => self.reaped(report, reason).await,
            Happened::DependenciesChanged(epoch) if epoch == self.epoch => {
                self.check_dependencies().await;
            }
            Happened::Timer(epoch) if epoch == self.epoch => self.give(Input::Timer).await,
            Happened::RefreshDue(generation, kind) if generation == self.generation => {
                self.fetch(kind);
            }
            Happened::Listed(generation, kind, result) if generation == self.generation => {
                self.listed(kind, result).await;
            }
            Happened::IdleLook(generation) if generation == self.generation => {
                self.idle_look().await;
            }
            Happened::IdleLook(_)
            | Happened::Exited(_)
            | Happened::ExitDidNotFollow(..)
            | Happened::DependenciesChanged(_)
            | Happened::Timer(_)
            | Happened::RefreshDue(..)
            | Happened::Listed(..)
            | Happened::Nothing => {}
        }
    }

    /// Feeds the machine and executes what it says, and what that leads to.
    async fn give(&mut self, input: Input) {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let around = Surroundings {
                now: self.deck.clock.now(),
                random: fastrand::f64(),
                retry: &self.config.retry,
                restart: &self.config.restart,
                reconnects: self.config.transport.is_address(),
            };
            let before = self.machine.phase().clone();
            let died = match &input {
                Input::Died(lost) if before.is_in_use() => Some(lost.reason.clone()),
                _ => None,
            };
            let (machine, steps) = self.machine.clone().step(input, around);
            self.machine = machine;
            self.tell_death(died, &before, &steps).await;
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

    /// A crash, the restart that follows and the end of restarts are facts of their own (D1).
    async fn tell_death(&mut self, died: Option<SafeText>, before: &Phase, steps: &[Step]) {
        let server = self.slot.name.clone();
        let max = self.config.restart.max;
        let changed = self.machine.phase() != before;
        let number = self.machine.restarts().filter(|_| changed);
        let delay = steps.iter().find_map(|step| match step {
            Step::Arm(delay) => Some(*delay),
            _ => None,
        });
        let follows = match (self.machine.phase(), number, delay) {
            (Phase::Backoff, Some(number), Some(delay)) => {
                Some(Fact::RestartPlanned { server: server.clone(), number, max, delay })
            }
            (Phase::Failed, Some(restarts), _) => {
                Some(Fact::GivenUp { server: server.clone(), restarts })
            }
            _ => None,
        };
        let crashed = died.map(|reason| Fact::Crashed { server, reason });
        for fact in crashed.into_iter().chain(follows) {
            self.deck.facts.record(fact).await;
        }
    }

    /// Executes one step; gives the input that follows at once, if any.
    async fn execute(&mut self, step: Step) -> Option<Input> {
        match step {
            Step::CheckDependencies => return Some(self.dependencies()),
            Step::Open => self.open(),
            Step::Abort => {
                if let Some(opening) = &self.opening {
                    opening.cancel();
                }
            }
            Step::Publish => self.publish().await,
            Step::Unpublish(reason) => self.unpublish(&reason),
            Step::End => self.end(),
            Step::Drain => self.drain(),
            Step::Hurry => {
                if let Some(draining) = &self.draining {
                    draining.cancel();
                }
            }
            Step::Arm(delay) => self.arm(delay),
            Step::Disarm => self.epoch += 1,
            Step::Announce { state, reason, retry_at } => {
                self.announce(state, reason, retry_at).await;
            }
            Step::Finish => self.finished = true,
        }
        None
    }
}
