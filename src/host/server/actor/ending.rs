//! The end of a session and its process, asked for or not, and the reason that is told.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio_util::sync::CancellationToken;

use crate::base::human::Dur;
use crate::base::text::SafeText;
use crate::error::{Error, ErrorCode};
use crate::host::Fact;
use crate::host::server::actor::{Actor, EXIT_FOLLOWS, Happened};
use crate::host::server::connect::{ExitReport, Opened, StopPlan};
use crate::host::server::lifecycle::{Input, Loss, Phase};
use crate::host::server::remedy::{Words, remedy, telling};
use crate::host::server::slot::Slot;
use crate::host::shared::Shared;
use crate::process::ExitView;

/// How long a session may take to say goodbye before its process is ended anyway.
const GOODBYE: Duration = Duration::from_secs(1);
/// How long calls in flight may take to finish before a server that changed is ended; the entry's
/// `shutdownTimeout` when that is shorter.
const GRACE: Duration = Duration::from_secs(5);

impl Actor {
    /// Looks from time to time whether anybody uses it still.
    pub(super) fn watch_idleness(&self) {
        if let (true, Some(limit)) = (self.config.on_demand, self.config.idle_stop) {
            self.look_again(limit);
        }
    }

    fn look_again(&self, after: Duration) {
        let generation = self.generation;
        let look = tokio::time::sleep(after).map(move |()| Happened::IdleLook(generation));
        self.work.push(look.boxed());
    }

    pub(super) async fn idle_look(&mut self) {
        let (true, Some(limit)) = (self.config.on_demand, self.config.idle_stop) else { return };
        if *self.machine.phase() != Phase::Ready {
            return;
        }
        let name = &self.slot.name;
        let needed = self.deck.slots().values().any(|slot| {
            let live = slot.live();
            let up = live.session.is_some() || !live.settled;
            up && live.config.dependencies.contains(name)
        });
        let asks = self.deck.approvals.is_asking(name);
        match self.slot.idle_for().filter(|_| !needed && !asks) {
            Some(idle) if idle >= limit => {
                self.remember();
                self.give(Input::Sleep).await;
            }
            Some(idle) => self.look_again(limit.saturating_sub(idle)),
            None => self.look_again(limit),
        }
    }

    /// Closes the session and ends the process, as asked.
    pub(super) fn end(&mut self) {
        if self.ending {
            return;
        }
        self.ending = true;
        let Some(opened) = self.current.take() else {
            self.work.push(std::future::ready(Happened::Ended(None)).boxed());
            return;
        };
        let ending = end(opened, self.farewell(), self.plan());
        self.work.push(ending.map(Happened::Ended).boxed());
    }

    /// The same once the calls in flight are done. Callers are turned away already; those that do
    /// not finish within the grace are told that they were cancelled, and so is the log.
    pub(super) fn drain(&mut self) {
        if self.ending {
            return;
        }
        let Some(opened) = self.current.take() else { return self.end() };
        self.ending = true;
        let hurry = self.deck.hurry.child_token();
        self.draining = Some(hurry.clone());
        let (deck, slot, plan) = (Arc::clone(&self.deck), Arc::clone(&self.slot), self.plan());
        let (farewell, grace) = (self.farewell(), GRACE.min(self.config.shutdown_timeout));
        let ending = async move {
            let farewell = drained(&deck, &slot, grace, &hurry).await.unwrap_or(farewell);
            Happened::Ended(end(opened, farewell, plan).await)
        };
        self.work.push(ending.boxed());
    }

    pub(super) async fn ended(&mut self, report: Option<ExitReport>) {
        self.ending = false;
        self.draining = None;
        self.forget_session();
        self.tell_exit(report).await;
        self.give(Input::Ended).await;
    }

    /// The connection closed. Most often the process exits within milliseconds, and its exit says
    /// more; callers are turned away meanwhile.
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
            let generation = self.generation;
            let wait = async move {
                tokio::time::sleep(EXIT_FOLLOWS).await;
                Happened::ExitDidNotFollow(generation, reason)
            };
            self.work.push(wait.boxed());
        } else {
            self.reap(reason);
        }
    }

    /// The process exited by itself: sweep what it left and learn how it ended.
    pub(super) fn exited(&mut self) {
        // An exit that was asked for is told after the end that asked for it.
        let in_use = matches!(self.machine.phase(), Phase::Ready | Phase::Wedged);
        if in_use && !self.ending {
            let reason = SafeText::line("the process exited");
            self.turn_away(&reason);
            self.reap(reason);
        }
    }

    /// Callers are turned away; whether the server comes back is not decided yet.
    fn turn_away(&self, reason: &SafeText) {
        // In one step: whoever waits for the verdict must never see the two apart.
        self.slot.publish(|live| {
            live.session = None;
            live.reason = Some(reason.clone());
            live.settled = false;
        });
    }

    fn reap(&mut self, reason: SafeText) {
        self.ending = true;
        let Some(opened) = self.current.take() else {
            self.work.push(std::future::ready(Happened::Reaped(None, reason)).boxed());
            return;
        };
        let ending = end(opened, self.farewell(), self.plan());
        self.work.push(ending.map(move |report| Happened::Reaped(report, reason)).boxed());
    }

    pub(super) async fn reaped(&mut self, report: Option<ExitReport>, reason: SafeText) {
        self.ending = false;
        let reason = match &report {
            Some(report) => SafeText::line(&why(&report.exit, &report.stderr_tail)),
            None => reason,
        };
        // Before the process is forgotten: that is what failed calls wait for to learn the reason.
        self.unpublish(&reason);
        self.forget_session();
        self.tell_exit(report).await;
        let lost = self.loss(reason);
        self.give(Input::Died(lost)).await;
    }

    pub(super) fn loss(&self, reason: SafeText) -> Loss {
        let lived = self.ready_since.map(|since| since.elapsed()).unwrap_or_default();
        Loss { reason, lived }
    }

    fn forget_session(&mut self) {
        self.events = None;
        self.current = None;
        self.slot.publish(|live| live.process = None);
    }

    /// Tells what to do about the end that is told next.
    pub(super) async fn advise(&mut self, help: Option<&str>) {
        if let Some(help) = help {
            let (server, help) = (self.slot.name.clone(), SafeText::line(help));
            self.deck.facts.record(Fact::Advised { server, help }).await;
        }
    }

    async fn tell_exit(&mut self, report: Option<ExitReport>) {
        if let Some(ExitReport { exit, stderr_tail }) = report {
            let words =
                Words { exit: Some(&exit), stderr: &stderr_tail, junk: None, was_ready: true };
            let help = if exit.expected { None } else { remedy(words) };
            self.advise(help.as_deref()).await;
            let server = self.slot.name.clone();
            self.deck.facts.record(Fact::Exited { server, exit, stderr_tail }).await;
        }
    }

    fn plan(&self) -> StopPlan {
        StopPlan::new(&self.config, &self.deck.force)
    }

    /// What calls in flight are told.
    fn farewell(&self) -> Error {
        let live = self.slot.live();
        let reason = live.reason.as_ref().map_or("the session ended", |reason| reason.as_str());
        Error::new(ErrorCode::ServerUnavailable, reason).server(&self.slot.name)
    }
}

/// Waits for the calls in flight; gives what those are told that did not finish in time.
async fn drained(
    deck: &Shared,
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
    let server = slot.name.clone();
    deck.facts.record(Fact::CallsCancelled { server, calls, reason }).await;
    Some(Error::new(ErrorCode::Cancelled, message).server(&slot.name))
}

async fn end(opened: Opened, farewell: Error, plan: StopPlan) -> Option<ExitReport> {
    if let Some(process) = &opened.process {
        process.expect_exit();
    }
    let _ = tokio::time::timeout(GOODBYE, opened.session.close(farewell)).await;
    match opened.process {
        Some(process) => Some(process.stop(plan).await),
        None => None,
    }
}

/// The reason a person reads: how it ended, after how long, and its last words.
pub(super) fn why(exit: &ExitView, stderr_tail: &[SafeText]) -> String {
    let after = Dur(exit.lived);
    match telling(stderr_tail) {
        Some(line) => format!("{} after {after}: {}", exit.describe(), line.trim()),
        None => format!("{} after {after}", exit.describe()),
    }
}
