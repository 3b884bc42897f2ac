//! The stop ladder and what follows every death: sweep, drain, reap, report.
//!
//! One [`Watchman`] task per process. It is the only one that signals or reaps, so a stop, a crash
//! and a second stop can never race (requirement L8).

use std::time::Duration;

use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::census::ProcessRow;
use super::context::{Grace, KILL};
use super::exit::ExitView;
use super::pipes::PipeGate;
use super::platform::{Leader, code_and_signal};
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
            StopRequest::Kill => StopRequest::Kill,
        };
    }

    pub(super) fn raise_to_kill(&mut self) {
        self.asked = StopRequest::Kill;
    }
}

/// Members that exit with their leader, or notice that it is gone, get this long before they count
/// as left behind.
const SETTLE: Duration = Duration::from_secs(1);
/// Time from SIGTERM to SIGKILL for processes left behind.
const LEFTOVER_GRACE: Duration = Duration::from_millis(300);
/// How long pipes are drained once every process is dead.
const DRAIN: Duration = Duration::from_millis(500);
/// Interval between two polls of the process table.
const LOOK: Duration = Duration::from_millis(15);

/// Watches one process until it exits.
pub(super) struct Watchman {
    pub(super) leader: Leader,
    pub(super) began: Instant,
    pub(super) order: watch::Receiver<StopOrder>,
    pub(super) stdin: PipeGate<ChildStdin>,
    pub(super) stdout: PipeGate<ChildStdout>,
    pub(super) stderr: JoinHandle<()>,
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
            Some(self.climb().await)
        } else {
            // The owner may have closed stdin before it sent an order, or without sending one.
            self.order.borrow().announced.then_some(Rung::Stdin)
        };
        let lived = self.began.elapsed();
        let (swept, escaped) = self.sweep(rung).await;
        self.stdin.close();
        if timeout(DRAIN, &mut self.stderr).await.is_err() {
            // An escaped process still holds it open.
            self.stderr.abort();
        }
        let status = if timeout(KILL, self.leader.dead()).await.is_ok() {
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
        let until = Instant::now() + DRAIN;
        while !self.stdout.is_closed() && Instant::now() < until {
            sleep(LOOK).await;
        }
        self.stdout.close();
    }

    /// Closes stdin, then SIGTERM, then SIGKILL, each after its grace; returns the last rung used.
    async fn climb(&mut self) -> Rung {
        // Records the members while their parents are still known.
        let mut members = self.leader.members().await;
        self.stdin.close();
        if self.dead_within(|grace| grace.stdin).await {
            return Rung::Stdin;
        }
        members.extend(self.leader.members().await);
        if !self.is_kill() {
            self.leader.terminate(&members);
            if self.dead_within(|grace| grace.term).await {
                return Rung::Term;
            }
            members.extend(self.leader.members().await);
        }
        self.leader.kill(&members);
        let _ = timeout(KILL, self.leader.dead()).await;
        Rung::Kill
    }

    fn is_kill(&self) -> bool {
        self.order.borrow().asked == StopRequest::Kill
    }

    /// Waits for death for as long as the current order allows; later orders may shorten that.
    async fn dead_within(&mut self, part: impl Fn(Grace) -> Duration) -> bool {
        let began = Instant::now();
        loop {
            let grace = match self.order.borrow_and_update().asked {
                StopRequest::Run => Grace::NONE,
                StopRequest::Stop(grace) => grace,
                StopRequest::Kill => return false,
            };
            tokio::select! {
                biased;
                dead = timeout_at(began + part(grace), self.leader.dead()) => return dead.is_ok(),
                changed = self.order.changed() => if changed.is_err() { return false },
            }
        }
    }

    /// Ends what outlived the leader; returns how many processes, and which could not be ended.
    async fn sweep(&mut self, rung: Option<Rung>) -> (u32, Vec<String>) {
        let patient = rung != Some(Rung::Kill) && !self.is_kill();
        let settle = if patient { SETTLE } else { Duration::ZERO };
        let mut left = self.gone_within(settle).await;
        let swept = left.len() as u32;
        if !left.is_empty() && patient {
            self.leader.terminate(&left);
            left = self.gone_within(LEFTOVER_GRACE).await;
        }
        // Without a process table nothing is listed, but the process group can still be killed.
        self.leader.kill(&left);
        if left.is_empty() {
            return (swept, Vec::new());
        }
        (swept, self.leader.exterminate().await)
    }

    /// Waits until two polls in a row find none; returns those left when the time is up.
    async fn gone_within(&self, span: Duration) -> Vec<ProcessRow> {
        let until = Instant::now() + span;
        let mut empty = 0;
        loop {
            let left = self.leader.members().await;
            empty = if left.is_empty() { empty + 1 } else { 0 };
            if empty == 2 || (!left.is_empty() && Instant::now() >= until) {
                return left;
            }
            sleep(LOOK).await;
        }
    }
}

async fn ordered(order: &mut watch::Receiver<StopOrder>) {
    // An error means that every handle is dropped, which sent a kill order before.
    let _ = order.wait_for(|order| order.asked != StopRequest::Run).await;
}
