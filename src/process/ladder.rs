//! The stop ladder and what follows every death: sweep, drain, reap, report.
//!
//! One [`Watchman`] task per process. It is the only one that signals or reaps, so a stop, a crash
//! and a second stop can never race.

use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::census::ProcessRow;
use super::context::{Grace, KILL_TIMEOUT};
use super::exit::ExitView;
use super::pipes::PipeGate;
use super::platform::{Leader, OutputEnd, code_and_signal};
use base::SafeText;

/// What the owner has requested so far. Only ever escalates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StopOrder {
    asked: StopRequest,
    /// Whether the exit was announced beforehand; from then on it is not a crash.
    announced: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum StopRequest {
    #[default]
    Run,
    Stop(Grace),
    /// Stop, and leave the rest to the guardian: the host exits.
    HandOver(Grace),
    Kill,
}

impl StopOrder {
    pub(super) fn raise_to_expect(&mut self) {
        self.announced = true;
    }

    pub(super) fn raise_to_stop(&mut self, grace: Grace) {
        self.asked = match self.asked {
            StopRequest::Run => StopRequest::Stop(grace),
            StopRequest::Stop(old) => StopRequest::Stop(old.at_most(grace)),
            StopRequest::HandOver(old) => StopRequest::HandOver(old.at_most(grace)),
            StopRequest::Kill => StopRequest::Kill,
        };
    }

    pub(super) fn raise_to_hand_over(&mut self, grace: Grace) {
        self.raise_to_stop(grace);
        if let StopRequest::Stop(grace) = self.asked {
            self.asked = StopRequest::HandOver(grace);
        }
    }

    pub(super) fn raise_to_kill(&mut self) {
        self.asked = StopRequest::Kill;
    }
}

/// Members that exit with their leader, or notice that it is gone, get this long before they count
/// as left behind.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(1);
/// Time from SIGTERM to SIGKILL for processes left behind.
const LEFTOVER_TIMEOUT: Duration = Duration::from_millis(300);
/// How long pipes are drained once every process is dead.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval between two polls of the process table.
const POLL_INTERVAL: Duration = Duration::from_millis(15);

/// Watches one process until it exits.
pub(super) struct Watchman {
    pub(super) leader: Leader,
    pub(super) began: Instant,
    pub(super) order: watch::Receiver<StopOrder>,
    pub(super) stdin: PipeGate<ChildStdin>,
    pub(super) stdout: PipeGate<ChildStdout>,
    pub(super) stderr: JoinHandle<()>,
    /// The host's ends of stdout and stderr once more, to be read on after the host.
    pub(super) outputs: Vec<OutputEnd>,
}

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waited {
    Dead,
    /// The time was over.
    InVain,
    /// The guardian waits on.
    HandedOver,
}

/// The last rung that was needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
enum Rung {
    Stdin,
    Term,
    Kill,
}

impl Watchman {
    pub(super) async fn run(mut self, done: watch::Sender<Option<ExitView>>) {
        let alive = tokio::select! {
            // A process that is already dead was not stopped by us.
            biased;
            () = self.leader.dead() => false,
            () = ordered(&mut self.order) => true,
        };
        let rung = if alive {
            let Some(rung) = self.climb().await else { return self.leave(&done).await };
            Some(rung)
        } else {
            // The owner may have closed stdin before it sent an order, or without sending one.
            self.order.borrow().announced.then_some(Rung::Stdin)
        };
        let lived = self.began.elapsed();
        let (swept, escaped) = self.sweep(rung).await;
        self.stdin.close();
        if timeout(DRAIN_TIMEOUT, &mut self.stderr).await.is_err() {
            // An escaped process still holds it open.
            self.stderr.abort();
        }
        let status = if timeout(KILL_TIMEOUT, self.leader.dead()).await.is_ok() {
            self.leader.reap().await
        } else {
            self.leader.abandon();
            None
        };
        let (code, signal) = status.map_or((None, None), code_and_signal);
        done.send_replace(Some(ExitView {
            code,
            signal,
            expected: rung.is_some(),
            ladder: rung.map(|rung| SafeText::line(rung.into())),
            swept,
            escaped: escaped.iter().map(|name| SafeText::line(name)).collect(),
            lived,
        }));
        self.end_stdout().await;
    }

    /// The session normally reads stdout to its end; this closes it when an escaped process holds
    /// the pipe open.
    async fn end_stdout(&self) {
        let until = Instant::now() + DRAIN_TIMEOUT;
        while !self.stdout.is_closed() && Instant::now() < until {
            sleep(POLL_INTERVAL).await;
        }
        self.stdout.close();
    }

    /// Closes stdin, then SIGTERM, then SIGKILL, each after its grace; returns the last rung used,
    /// or nothing when the guardian climbs on.
    async fn climb(&mut self) -> Option<Rung> {
        // Records the members while their parents are still known.
        let mut members = self.leader.members().await;
        self.stdin.close();
        match self.wait(Rung::Stdin).await {
            Waited::Dead => return Some(Rung::Stdin),
            Waited::HandedOver => return None,
            Waited::InVain => {}
        }
        members.extend(self.leader.members().await);
        if !self.is_kill() {
            self.leader.terminate(&members);
            match self.wait(Rung::Term).await {
                Waited::Dead => return Some(Rung::Term),
                Waited::HandedOver => return None,
                Waited::InVain => {}
            }
            members.extend(self.leader.members().await);
        }
        self.leader.kill(&members);
        let _ = timeout(KILL_TIMEOUT, self.leader.dead()).await;
        Some(Rung::Kill)
    }

    /// Reports a process that the guardian is ending: the host has nothing to do with it any more.
    async fn leave(mut self, done: &watch::Sender<Option<ExitView>>) {
        self.stdout.close();
        self.stderr.abort();
        let _ = (&mut self.stderr).await;
        self.leader.read_on(std::mem::take(&mut self.outputs)).await;
        done.send_replace(Some(ExitView {
            expected: true,
            ladder: Some(SafeText::line(ExitView::GUARDIAN)),
            lived: self.began.elapsed(),
            ..ExitView::default()
        }));
    }

    fn is_kill(&self) -> bool {
        self.order.borrow().asked == StopRequest::Kill
    }

    /// Waits for death on a rung for as long as the current order allows; later orders may shorten
    /// that.
    async fn wait(&mut self, rung: Rung) -> Waited {
        let began = Instant::now();
        let part = |grace: Grace| if rung == Rung::Stdin { grace.stdin } else { grace.term };
        loop {
            let asked = self.order.borrow_and_update().asked;
            let grace = match asked {
                StopRequest::Run => Grace::NONE,
                StopRequest::Stop(grace) | StopRequest::HandOver(grace) => grace,
                StopRequest::Kill => return Waited::InVain,
            };
            let left = part(grace).saturating_sub(began.elapsed());
            // Where there is no guardian, the host climbs on.
            if matches!(asked, StopRequest::HandOver(_)) {
                let (term, kill) = match rung {
                    Rung::Stdin => (Some(left), left + grace.term),
                    Rung::Term | Rung::Kill => (None, left),
                };
                if self.leader.hand_over(term, kill).await {
                    return Waited::HandedOver;
                }
            }
            tokio::select! {
                biased;
                dead = timeout_at(began + part(grace), self.leader.dead()) => {
                    return if dead.is_ok() { Waited::Dead } else { Waited::InVain };
                }
                changed = self.order.changed() => if changed.is_err() { return Waited::InVain },
            }
        }
    }

    /// Ends what outlived the leader; returns how many processes, and which could not be ended.
    async fn sweep(&mut self, rung: Option<Rung>) -> (u32, Vec<String>) {
        let patient = rung != Some(Rung::Kill) && !self.is_kill();
        let settle = if patient { SETTLE_TIMEOUT } else { Duration::ZERO };
        let mut left = self.gone_within(settle).await;
        let swept = left.len() as u32;
        if !left.is_empty() && patient {
            self.leader.terminate(&left);
            left = self.gone_within(LEFTOVER_TIMEOUT).await;
        }
        // Without a process table nothing is listed, but the process group can still be killed.
        self.leader.kill(&left);
        if left.is_empty() {
            return (swept, Vec::new());
        }
        (swept, self.leader.exterminate().await)
    }

    /// Waits until two polls in a row find none; returns those left when the time is up. The second
    /// follows at once: it is for what was forked while the first one read the table.
    async fn gone_within(&self, span: Duration) -> Vec<ProcessRow> {
        let until = Instant::now() + span;
        let mut empty = 0;
        loop {
            let left = self.leader.members().await;
            if left.is_empty() {
                empty += 1;
                if empty == 2 {
                    return left;
                }
                continue;
            }
            empty = 0;
            if Instant::now() >= until {
                return left;
            }
            sleep(POLL_INTERVAL).await;
        }
    }
}

async fn ordered(order: &mut watch::Receiver<StopOrder>) {
    // An error means that every handle is dropped, which sent a kill order before.
    let _ = order.wait_for(|order| order.asked != StopRequest::Run).await;
}
