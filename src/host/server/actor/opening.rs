//! Start and stop of a server: its start attempts, its sleep, the end of its session.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attempt::{OpenAttempt, Opening};
use super::lists::Refreshes;
use super::{Actor, Addressee, Happened};
use crate::Fact;
use crate::server::connect::{
    EXIT_TIMEOUT, ExitReport, OpenError, OpenRequest, Opened, Steps, StopPlan,
};
use crate::server::context::{EVENT_CAPACITY, session_context};
use crate::server::lifecycle::{LifecycleInput, Loss, Phase};
use crate::server::memory::Definitions;
use crate::server::remedy::{FailureOutput, error_text, remedy};
use crate::server::slot::Slot;
use crate::shared::HostShared;
use crate::view::StartStep;
use base::SafeText;
use config::RestartPolicy;
use config::error::{Error, ErrorCode};
use process::ExitView;

impl Actor<'_> {
    /// Starts the server, or puts it to sleep if it starts on demand and its lists are known.
    pub(super) async fn begin(&mut self) {
        let sleeps = self.config.on_demand && self.config.hold.is_none();
        if !sleeps || !(self.listed_before || self.recall().await) {
            return self.give(LifecycleInput::Start).await;
        }
        if *self.machine.phase() == Phase::Sleeping {
            return;
        }
        self.give(LifecycleInput::Sleep).await;
        self.shared.reroute();
    }

    async fn recall(&mut self) -> bool {
        let (memory, config) = (self.shared.memory.clone(), Arc::clone(&self.config));
        let Some(memory) = memory else { return false };
        let known = tokio::task::spawn_blocking(move || memory.recall(&config)).await;
        let Ok(Some(known)) = known else { return false };
        self.slot.publish(|live| live.about = Some(Arc::new(known.about)));
        self.take_lists(known.capabilities).await;
        self.shared.reroute();
        true
    }

    /// Stores the current definitions of an on-demand server.
    pub(super) fn remember(&self) {
        let live = self.slot.live();
        let (Some(memory), Some(about)) = (self.shared.memory.clone(), live.about.clone()) else {
            return;
        };
        if !self.config.on_demand || !self.capabilities.partial.is_empty() {
            return;
        }
        let (config, capabilities) = (Arc::clone(&self.config), Arc::clone(&self.capabilities));
        tokio::task::spawn_blocking(move || {
            let (about, capabilities) = ((*about).clone(), (*capabilities).clone());
            memory.keep(&config, &Definitions { about, capabilities });
        });
    }

    pub(super) fn open(&mut self) {
        self.generation += 1;
        self.closed = None;
        self.refreshes = Refreshes::default();
        let generation = self.generation;
        self.slot.publish(|live| live.generation = generation);
        let (events, receiver) = mpsc::channel(EVENT_CAPACITY);
        self.events = Some(receiver);
        let cancel = CancellationToken::new();
        self.opening = Some(cancel.clone());
        self.admitted = Arc::default();
        let request = OpenRequest {
            config: Arc::clone(&self.config),
            context: session_context((&self.shared, &self.slot), &self.config, events),
            remembered: self.shared.era(&self.config),
            deadline: Instant::now() + self.config.startup_timeout,
            cancel,
            force: self.shared.force.clone(),
            steps: self.steps(),
            account: Arc::clone(&self.slot.account),
            caller: None,
        };
        let admitted = Arc::clone(&self.admitted);
        let attempt = OpenAttempt { shared: Arc::clone(&self.shared), request, admitted };
        let attempt = attempt.run().map(|done| Happened::Opened(Box::new(done)));
        self.wait_for(Addressee::Server, attempt);
    }

    pub(super) async fn first_byte(&mut self) {
        let Some(began) = self.admitted.get() else { return };
        self.steps().passed(StartStep::FirstByte, began.elapsed(), None).await;
    }

    fn steps(&self) -> Steps {
        Steps::new(&self.slot.name, &self.shared.facts)
    }

    pub(super) async fn opened(&mut self, outcome: Result<Opening, OpenError>) {
        self.opening = None;
        match outcome {
            Ok(opening) if *self.machine.phase() == Phase::Starting => {
                let Opening { opened, capabilities } = opening;
                if let Some(process) = opened.process.clone() {
                    let exited = process.exited().map(|()| Happened::Exited);
                    self.wait_for(Addressee::Session, exited);
                }
                self.current = Some(opened.clone());
                self.slot.publish(|live| live.process.clone_from(&opened.process));
                self.take_lists(capabilities).await;
                self.give(LifecycleInput::Opened).await;
                // It may have closed since its last response.
                if let Some(reason) = self.closed.take() {
                    self.closed(reason).await;
                }
            }
            Ok(opening) => {
                // The start succeeded after it was aborted.
                self.current = Some(opening.opened);
                self.end();
            }
            Err(failure) => {
                self.events = None;
                let reason = SafeText::line(&failure.error.message);
                let retryable = failure.retryable;
                if let Some(report) = failure.exit {
                    self.steps().exited(report).await;
                }
                self.record(Fact::StartFailed { failure: failure.failure }).await;
                self.advise(failure.error.help.as_deref()).await;
                self.give(LifecycleInput::OpenFailed { reason, retryable }).await;
            }
        }
    }

    /// Starts the idle check of an on-demand server.
    pub(super) fn watch_idleness(&self) {
        if let (true, Some(limit)) = (self.config.on_demand, self.config.idle_stop) {
            self.look_again(limit);
        }
    }

    fn look_again(&self, after: Duration) {
        let look = tokio::time::sleep(after).map(|()| Happened::IdleLook);
        self.wait_for(Addressee::Session, look);
    }

    pub(super) async fn idle_look(&mut self) {
        let (true, Some(limit)) = (self.config.on_demand, self.config.idle_stop) else { return };
        if *self.machine.phase() != Phase::Ready {
            return;
        }
        let name = &self.slot.name;
        let needed = self.shared.slots().values().any(|slot| {
            let live = slot.live();
            let up = live.session.is_some() || !live.settled;
            up && live.config.dependencies.contains(name)
        });
        let asks = self.shared.approvals.is_asking(name);
        match self.slot.idle_for().filter(|_| !needed && !asks) {
            Some(idle) if idle >= limit => {
                self.remember();
                self.give(LifecycleInput::Sleep).await;
            }
            Some(idle) => self.look_again(limit.saturating_sub(idle)),
            None => self.look_again(limit),
        }
    }

    /// Closes the session and stops the process, on request.
    pub(super) fn end(&mut self) {
        if !self.ending {
            self.end_session(Happened::Ended);
        }
    }

    fn end_session(&mut self, then: impl FnOnce(Option<ExitReport>) -> Happened + Send + 'static) {
        self.ending = true;
        let ending = end(self.current.take(), self.last_request(), self.plan());
        self.wait_for(Addressee::Server, ending.map(then));
    }

    /// Like [`Self::end`], after the calls in flight have finished. New calls are already rejected;
    /// those that exceed the grace period are cancelled and logged.
    pub(super) fn drain(&mut self) {
        if self.ending {
            return;
        }
        let Some(opened) = self.current.take() else { return self.end() };
        self.ending = true;
        let hurry = self.shared.hurry.child_token();
        self.draining = Some(hurry.clone());
        let (shared, slot, plan) = (Arc::clone(&self.shared), Arc::clone(&self.slot), self.plan());
        let (last_request, grace) =
            (self.last_request(), CALL_DRAIN_TIMEOUT.min(self.config.shutdown_timeout));
        self.wait_for(Addressee::Server, async move {
            let last_request = drained(&shared, &slot, grace, &hurry).await.unwrap_or(last_request);
            Happened::Ended(end(Some(opened), last_request, plan).await)
        });
    }

    pub(super) async fn ended(&mut self, report: Option<ExitReport>) {
        self.ending = false;
        self.draining = None;
        self.forget_session();
        self.record_exit(report).await;
        self.give(LifecycleInput::Ended).await;
    }

    /// Handles a closed connection. Usually the process exits within milliseconds with a better
    /// reason; calls are rejected meanwhile.
    pub(super) async fn closed(&mut self, reason: SafeText) {
        if self.opening.is_some() {
            self.closed = Some(reason);
            return;
        }
        let in_use = matches!(self.machine.phase(), Phase::Ready | Phase::Wedged);
        if self.ending || !in_use {
            return;
        }
        self.turn_away(&reason);
        if self.current.as_ref().is_some_and(|opened| opened.process.is_some()) {
            let wait = tokio::time::sleep(EXIT_TIMEOUT);
            self.wait_for(Addressee::Session, wait.map(|()| Happened::ExitDidNotFollow(reason)));
        } else {
            self.reap(reason);
        }
    }

    /// Handles the exit of a process: cleans up and determines how it ended.
    pub(super) fn exited(&mut self) {
        // A requested exit is reported by the pending end of the session.
        let in_use = matches!(self.machine.phase(), Phase::Ready | Phase::Wedged);
        if in_use && !self.ending {
            let reason = SafeText::line("the process exited");
            self.turn_away(&reason);
            self.reap(reason);
        }
    }

    /// Rejects calls until the machine has decided whether the server restarts.
    fn turn_away(&self, reason: &SafeText) {
        let revives = self.config.restart.policy != RestartPolicy::Never
            && !self.config.transport.is_address();
        // In one step: waiters must not see the session gone while `settled` is still set.
        self.slot.publish(|live| {
            live.session = None;
            live.reason = Some(reason.clone());
            live.settled = false;
            live.starts = revives;
        });
    }

    fn reap(&mut self, reason: SafeText) {
        self.end_session(move |report| Happened::Reaped(report, reason));
    }

    pub(super) async fn reaped(&mut self, report: Option<ExitReport>, reason: SafeText) {
        self.ending = false;
        let reason = match &report {
            Some(report) => SafeText::line(&why(&report.exit, &report.stderr_tail)),
            None => reason,
        };
        if let Some(report) = report.as_ref().filter(|report| !report.exit.expected) {
            self.slot.publish(|live| live.ended = Some(report.exit.clone()));
        }
        // Publish the reason before the process is removed: failed calls wait for it.
        self.unpublish(&reason);
        self.forget_session();
        self.record_exit(report).await;
        let lost = self.loss(reason);
        self.give(LifecycleInput::Died(lost)).await;
    }

    pub(super) fn loss(&self, reason: SafeText) -> Loss {
        let lived = self.ready_since.map(|since| since.elapsed()).unwrap_or_default();
        Loss { reason, lived }
    }

    fn forget_session(&mut self) {
        self.events = None;
        self.current = None;
        self.slot.persons.end_all();
        self.slot.publish(|live| live.process = None);
    }

    /// Records advice for the state change or exit that is recorded next.
    pub(super) async fn advise(&mut self, help: Option<&str>) {
        if let Some(help) = help {
            let help = SafeText::line(help);
            self.record(Fact::Advised { help }).await;
        }
    }

    async fn record_exit(&mut self, report: Option<ExitReport>) {
        if let Some(report) = report {
            let ExitReport { exit, stderr_tail: stderr } = &report;
            let words = FailureOutput { exit: Some(exit), stderr, junk: None, was_ready: true };
            let help = if exit.expected { None } else { remedy(words) };
            self.advise(help.as_deref()).await;
            self.steps().exited(report).await;
        }
    }

    fn plan(&self) -> StopPlan {
        StopPlan::new(&self.config, &self.shared.force)
    }

    /// The error for calls in flight.
    fn last_request(&self) -> Error {
        let live = self.slot.live();
        let reason = live.reason.as_ref().map_or("the session ended", |reason| reason.as_str());
        Error::new(ErrorCode::ServerUnavailable, reason).server(&self.slot.name)
    }
}

// The end of a session and its process, requested or not, and the reported reason.

/// How long calls in flight may take to finish before the server is stopped; the entry's
/// `shutdownTimeout` when that is shorter.
const CALL_DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Waits for the calls in flight; returns the error for those that did not finish in time.
async fn drained(
    shared: &HostShared,
    slot: &Slot,
    grace: Duration,
    hurry: &CancellationToken,
) -> Option<Error> {
    tokio::select! {
        biased;
        () = slot.idle() => return None,
        () = hurry.cancelled() => {}
        () = tokio::time::sleep(grace) => {}
    }
    let calls: Vec<SafeText> = slot
        .calls()
        .values()
        .map(|call| SafeText::line(&format!("{} {}", call.view.method, call.view.target)))
        .collect();
    let reason = slot.live().reason.clone().unwrap_or_default();
    let message = format!("cancelled: the server is {reason}; the call had not finished by then");
    shared.facts.record(&slot.name, Fact::CallsCancelled { calls, reason }).await;
    Some(Error::new(ErrorCode::Cancelled, message).server(&slot.name))
}

async fn end(opened: Option<Opened>, last_request: Error, plan: StopPlan) -> Option<ExitReport> {
    opened?.end(last_request, plan).await
}

/// The displayed reason: how it ended, after how long, and the error line from stderr.
pub(super) fn why(exit: &ExitView, stderr_tail: &[SafeText]) -> String {
    match error_text(stderr_tail) {
        Some(text) => format!("{}: {text}", exit.describe_life()),
        None => exit.describe_life(),
    }
}
