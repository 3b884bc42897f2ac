//! The life of one server as a pure machine: `(Lifecycle, Input) -> (Lifecycle, Steps)`.
//!
//! Owns every rule about when a server starts, is tried again, restarts and rests (requirements
//! L1 to L3 and L8, decision D1). It does nothing itself: the actor executes the steps and reports
//! what became of them. Time and randomness are arguments, so every path is a table in a test.

use std::time::Duration;

use crate::base::{SafeText, Timestamp};
use crate::config::{RestartConfig, RestartPolicy, RetryConfig};
use crate::host::backoff::{RestartBudget, restart_delay, retry_delay};
use crate::host::{Fact, ServerState};

/// The machine.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    phase: Phase,
    /// Attempts of the current start, from 1.
    attempt: u32,
    /// Whether the current start follows a death and lives off the restart budget.
    reviving: bool,
    budget: RestartBudget,
    /// Attempts to find a server again that is reached by an address, since it was lost.
    reconnects: Option<u32>,
}

impl Lifecycle {
    /// A server that rests, or is disabled, and waits for [`LifecycleInput::Start`].
    pub fn new(phase: Phase) -> Self {
        Self {
            phase,
            attempt: 0,
            reviving: false,
            budget: RestartBudget::default(),
            reconnects: None,
        }
    }

    /// Where it is.
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Attempts of the current or last start, from 1; 0 before the first.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether nothing more happens by itself, waiting for a dependency aside.
    pub const fn is_settled(&self) -> bool {
        matches!(
            self.phase,
            Phase::Ready
                | Phase::Wedged
                | Phase::Failed
                | Phase::Stopped
                | Phase::Sleeping
                | Phase::Disabled
                | Phase::Gone
        )
    }

    /// The one transition function.
    #[must_use]
    pub fn step(
        mut self,
        input: LifecycleInput,
        around: Surroundings<'_>,
    ) -> (Self, Vec<LifecycleStep>) {
        let steps = match input {
            LifecycleInput::Start => self.start(),
            LifecycleInput::Restart => self.restart(),
            LifecycleInput::Stop(next) => self.stop(next),
            LifecycleInput::Sleep => self.sleep(),
            LifecycleInput::Retire(next, reason) => self.retire(next, reason),
            LifecycleInput::Renew(reason) => self.renew(reason),
            LifecycleInput::Unblocked if self.phase == Phase::Waiting => self.open(),
            LifecycleInput::Blocked(reason) if self.phase == Phase::Waiting => {
                vec![announce(ServerState::Waiting, Some(reason))]
            }
            LifecycleInput::Opened => self.opened(),
            LifecycleInput::OpenFailed { reason, retryable } => {
                self.failed(reason, retryable, around)
            }
            LifecycleInput::Lost(lost) => self.lost(lost),
            LifecycleInput::Died(lost) => self.died(lost, around),
            LifecycleInput::Ended => self.ended(around),
            LifecycleInput::TimedOut(reason) if self.phase == Phase::Ready => {
                self.phase = Phase::Wedged;
                down(ServerState::Unavailable, reason, [])
            }
            LifecycleInput::Timer if self.phase == Phase::Backoff => {
                self.phase = Phase::Waiting;
                vec![LifecycleStep::CheckDependencies]
            }
            LifecycleInput::Unblocked
            | LifecycleInput::Blocked(_)
            | LifecycleInput::TimedOut(_)
            | LifecycleInput::Timer => Vec::new(),
        };
        (self, steps)
    }

    fn start(&mut self) -> Vec<LifecycleStep> {
        match self.phase {
            Phase::Disabled | Phase::Failed | Phase::Stopped | Phase::Sleeping => self.begin(),
            Phase::Backoff => {
                let mut steps = vec![LifecycleStep::Disarm];
                steps.extend(self.begin());
                steps
            }
            // Its session cannot be trusted any more: a start means a fresh one.
            Phase::Wedged | Phase::Dying { .. } => self.restart(),
            Phase::Stopping { next: Next::Rest | Next::Sleep } => {
                self.phase = Phase::Stopping { next: Next::Start };
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    fn restart(&mut self) -> Vec<LifecycleStep> {
        match self.phase {
            Phase::Ready | Phase::Wedged => {
                self.phase = Phase::Stopping { next: Next::Start };
                down(ServerState::Shutdown, SafeText::line("restarting"), [LifecycleStep::End])
            }
            Phase::Starting => {
                self.phase = Phase::Stopping { next: Next::Start };
                vec![LifecycleStep::Abort]
            }
            // The process is being ended already; only what follows changes.
            Phase::Dying { .. } => {
                self.phase = Phase::Stopping { next: Next::Start };
                Vec::new()
            }
            Phase::Stopping { .. } => {
                self.start();
                vec![LifecycleStep::Hurry]
            }
            _ => self.start(),
        }
    }

    fn retire(&mut self, next: Next, reason: SafeText) -> Vec<LifecycleStep> {
        match self.phase {
            Phase::Ready => {
                self.phase = Phase::Stopping { next };
                down(ServerState::Shutdown, reason, [LifecycleStep::Drain])
            }
            // A stop that runs is not hurried by another change of the entry.
            Phase::Stopping { .. } => {
                self.follow_with(next);
                Vec::new()
            }
            _ if next == Next::Start => self.restart(),
            _ => self.stop(next),
        }
    }

    fn renew(&mut self, reason: SafeText) -> Vec<LifecycleStep> {
        match self.phase {
            Phase::Ready => self.retire(Next::Start, reason),
            Phase::Starting
            | Phase::Backoff
            | Phase::Wedged
            | Phase::Dying { .. }
            | Phase::Failed => self.restart(),
            // What is not wanted stays down; what is about to start takes what it finds then.
            _ => Vec::new(),
        }
    }

    /// A call that comes while it falls asleep wakes it: it is asleep from the beginning.
    fn sleep(&mut self) -> Vec<LifecycleStep> {
        let asleep = announce(ServerState::Sleeping, None);
        match self.phase {
            Phase::Ready => {
                self.phase = Phase::Stopping { next: Next::Sleep };
                let reason = SafeText::line("sleeping until it is called");
                vec![asleep, LifecycleStep::Unpublish(reason), LifecycleStep::Drain]
            }
            Phase::Stopped | Phase::Disabled => {
                self.phase = Phase::Sleeping;
                vec![asleep]
            }
            _ => Vec::new(),
        }
    }

    /// Something else follows the stop that runs; leaving the deck is for good.
    fn follow_with(&mut self, next: Next) {
        if let Phase::Stopping { next: before } = &mut self.phase
            && *before != Next::Leave
        {
            *before = next;
        }
    }

    fn stop(&mut self, next: Next) -> Vec<LifecycleStep> {
        let asked = SafeText::line("stopped on request");
        match self.phase {
            Phase::Ready | Phase::Wedged => {
                self.phase = Phase::Stopping { next };
                vec![
                    LifecycleStep::Unpublish(asked.clone()),
                    announce(ServerState::Shutdown, Some(SafeText::line("stopping"))),
                    LifecycleStep::End,
                ]
            }
            Phase::Starting => {
                self.phase = Phase::Stopping { next };
                vec![
                    announce(ServerState::Shutdown, Some(SafeText::line("stopping"))),
                    LifecycleStep::Abort,
                ]
            }
            Phase::Dying { .. } => {
                self.phase = Phase::Stopping { next };
                Vec::new()
            }
            Phase::Stopping { .. } => {
                self.follow_with(next);
                vec![LifecycleStep::Hurry]
            }
            Phase::Disabled => match next {
                Next::Rest | Next::Sleep | Next::Disable => Vec::new(),
                Next::Start => self.begin(),
                Next::Leave => self.leave(),
            },
            Phase::Waiting | Phase::Backoff | Phase::Failed | Phase::Stopped | Phase::Sleeping => {
                let mut steps = vec![LifecycleStep::Disarm];
                if self.phase != Phase::Stopped {
                    steps.extend(down(ServerState::Shutdown, asked, []));
                }
                self.phase = Phase::Stopped;
                match next {
                    Next::Rest | Next::Sleep => {}
                    Next::Start => steps.extend(self.begin()),
                    Next::Disable => steps.extend(self.disable()),
                    Next::Leave => steps.extend(self.leave()),
                }
                steps
            }
            Phase::Gone => Vec::new(),
        }
    }

    /// A start manually or by the host: everything is forgiven.
    fn begin(&mut self) -> Vec<LifecycleStep> {
        self.attempt = 0;
        self.reviving = false;
        self.reconnects = None;
        self.budget.reset();
        self.phase = Phase::Waiting;
        vec![LifecycleStep::CheckDependencies]
    }

    fn open(&mut self) -> Vec<LifecycleStep> {
        self.attempt = self.attempt.saturating_add(1);
        self.phase = Phase::Starting;
        vec![announce(ServerState::Starting, None), LifecycleStep::Open]
    }

    fn opened(&mut self) -> Vec<LifecycleStep> {
        if self.phase != Phase::Starting {
            return Vec::new();
        }
        self.phase = Phase::Ready;
        self.reconnects = None;
        vec![LifecycleStep::Publish, announce(ServerState::Ready, None)]
    }

    fn failed(
        &mut self,
        reason: SafeText,
        retryable: bool,
        around: Surroundings<'_>,
    ) -> Vec<LifecycleStep> {
        match self.phase {
            Phase::Starting => {}
            Phase::Stopping { .. } => return self.ended(around),
            _ => return Vec::new(),
        }
        if !retryable {
            return self.fail(reason);
        }
        if self.reconnects.is_some() {
            return self.reconnect(reason, around);
        }
        if self.reviving {
            return self.revive(reason, Duration::ZERO, around);
        }
        if self.attempt > around.retry.max_retries {
            return self.fail(reason);
        }
        self.back_off(reason, retry_delay(around.retry, self.attempt, around.random), around)
    }

    fn lost(&mut self, lost: Loss) -> Vec<LifecycleStep> {
        if !matches!(self.phase, Phase::Ready | Phase::Wedged) {
            return Vec::new();
        }
        let reason = lost.reason.clone();
        self.phase = Phase::Dying { lost };
        down(ServerState::Unavailable, reason, [LifecycleStep::End])
    }

    fn died(&mut self, lost: Loss, around: Surroundings<'_>) -> Vec<LifecycleStep> {
        match self.phase {
            Phase::Ready | Phase::Wedged | Phase::Dying { .. } => {}
            Phase::Stopping { .. } => return self.ended(around),
            _ => return Vec::new(),
        }
        let mut steps = vec![LifecycleStep::Record(Fact::Crashed { reason: lost.reason.clone() })];
        steps.extend(if around.reconnects {
            self.reconnect(lost.reason, around)
        } else if around.restart.policy == RestartPolicy::Never {
            self.fail(lost.reason)
        } else {
            self.reviving = true;
            self.revive(lost.reason, lost.lived, around)
        });
        steps
    }

    fn ended(&mut self, around: Surroundings<'_>) -> Vec<LifecycleStep> {
        match std::mem::replace(&mut self.phase, Phase::Gone) {
            Phase::Stopping { next } => {
                self.phase = Phase::Stopped;
                match next {
                    Next::Start => self.begin(),
                    Next::Disable => self.disable(),
                    Next::Sleep => self.sleep(),
                    Next::Rest | Next::Leave => {
                        let reason = SafeText::line("stopped on request");
                        let mut steps = vec![announce(ServerState::Shutdown, Some(reason))];
                        if next == Next::Leave {
                            steps.extend(self.leave());
                        }
                        steps
                    }
                }
            }
            Phase::Dying { lost } => {
                self.phase = Phase::Dying { lost: lost.clone() };
                self.died(lost, around)
            }
            other => {
                self.phase = other;
                Vec::new()
            }
        }
    }

    fn disable(&mut self) -> Vec<LifecycleStep> {
        self.phase = Phase::Disabled;
        vec![announce(ServerState::Disabled, None)]
    }

    fn leave(&mut self) -> Vec<LifecycleStep> {
        self.phase = Phase::Gone;
        vec![LifecycleStep::Finish]
    }

    fn revive(
        &mut self,
        reason: SafeText,
        lived: Duration,
        around: Surroundings<'_>,
    ) -> Vec<LifecycleStep> {
        let Some(number) = self.budget.next(around.restart, lived) else {
            let restarts = around.restart.max;
            let reason = format!("{reason}; given up after {restarts} restarts");
            let mut steps = vec![LifecycleStep::Record(Fact::GivenUp { restarts })];
            steps.extend(self.fail(SafeText::line(&reason)));
            return steps;
        };
        self.attempt = 0;
        let delay = restart_delay(around.restart, number, around.random);
        let max = around.restart.max;
        let mut steps = vec![LifecycleStep::Record(Fact::RestartPlanned { number, max, delay })];
        steps.extend(self.back_off(reason, delay, around));
        steps
    }

    /// Looks for a server behind an address again: that costs one connection and starts nothing, so
    /// it goes on until somebody stops it.
    fn reconnect(&mut self, reason: SafeText, around: Surroundings<'_>) -> Vec<LifecycleStep> {
        const FIRST: Duration = Duration::from_millis(500);
        const MOST: Duration = Duration::from_secs(15);
        let number = self.reconnects.unwrap_or_default();
        self.reconnects = Some(number.saturating_add(1));
        self.attempt = 0;
        let delay = (FIRST * (1 << number.min(8))).min(MOST);
        self.back_off(reason, delay, around)
    }

    fn back_off(
        &mut self,
        reason: SafeText,
        delay: Duration,
        around: Surroundings<'_>,
    ) -> Vec<LifecycleStep> {
        self.phase = Phase::Backoff;
        vec![
            LifecycleStep::Unpublish(reason.clone()),
            LifecycleStep::Announce {
                state: ServerState::Unavailable,
                reason: Some(reason),
                retry_at: Some(around.now.plus(delay)),
            },
            LifecycleStep::Arm(delay),
        ]
    }

    fn fail(&mut self, reason: SafeText) -> Vec<LifecycleStep> {
        self.phase = Phase::Failed;
        down(ServerState::Unavailable, reason, [])
    }
}

fn announce(state: ServerState, reason: Option<SafeText>) -> LifecycleStep {
    LifecycleStep::Announce { state, reason, retry_at: None }
}

/// Callers are turned away, and the state is announced, before what follows.
fn down(
    state: ServerState,
    reason: SafeText,
    then: impl IntoIterator<Item = LifecycleStep>,
) -> Vec<LifecycleStep> {
    let first = [LifecycleStep::Unpublish(reason.clone()), announce(state, Some(reason))];
    first.into_iter().chain(then).collect()
}

// The words of the machine: phases, inputs, steps. Owns no rule.

/// Where a server is. Finer than [`ServerState`], which is what people see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not to be started: its entry says so.
    Disabled,
    /// Wants to start; its dependencies are looked at.
    Waiting,
    /// A start attempt runs.
    Starting,
    /// The next attempt is planned.
    Backoff,
    /// In use.
    Ready,
    /// Its session is open, but a request timed out and calls are refused (decision D4).
    Wedged,
    /// The connection is gone; what is left of the process is being ended.
    Dying {
        /// Why, and after how long.
        lost: Loss,
    },
    /// Nothing runs, and nothing will by itself.
    Failed,
    /// Being stopped on purpose.
    Stopping {
        /// What follows.
        next: Next,
    },
    /// Stopped on purpose.
    Stopped,
    /// Stopped until somebody calls.
    Sleeping,
    /// Its actor is done.
    Gone,
}

/// The end of a session that nobody asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What was seen.
    pub reason: SafeText,
    /// How long it had been in use.
    pub lived: Duration,
}

/// What follows a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It rests, visible, until somebody starts it.
    Rest,
    /// It rests until somebody calls.
    Sleep,
    /// It starts again.
    Start,
    /// It is disabled now.
    Disable,
    /// Its actor ends: shutdown of the host, or the entry was removed.
    Leave,
}

/// What happened to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifecycleInput {
    /// Somebody wants it running. Forgives earlier failures.
    Start,
    /// Somebody wants it stopped and started. Forgives earlier failures.
    Restart,
    /// Somebody wants it stopped.
    Stop(Next),
    /// Nobody uses it, and a call starts it again.
    Sleep,
    /// Its entry changed or is gone, for this reason: calls in flight may finish first.
    Retire(Next, SafeText),
    /// What it is made of changed, for this reason: a server that is wanted starts afresh, calls in
    /// flight may finish first; one that was stopped or disabled manually stays so.
    Renew(SafeText),
    /// All dependencies are ready.
    Unblocked,
    /// A dependency is not ready; why.
    Blocked(SafeText),
    /// The attempt succeeded: connected, lists fetched.
    Opened,
    /// The attempt failed and left nothing behind.
    OpenFailed {
        /// Why.
        reason: SafeText,
        /// Whether the failure can pass by itself.
        retryable: bool,
    },
    /// The connection ended while the process, if there is one, may still live.
    Lost(Loss),
    /// Connection and process are gone, unasked.
    Died(Loss),
    /// The session is closed and the process gone, as asked by [`LifecycleStep::End`], [`LifecycleStep::Drain`] or
    /// [`LifecycleStep::Abort`].
    Ended,
    /// A request timed out and that makes the server unavailable (decision D4).
    TimedOut(SafeText),
    /// The time asked for by [`LifecycleStep::Arm`] has passed.
    Timer,
}

/// What the actor has to do, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum LifecycleStep {
    /// Look at the dependencies; report [`LifecycleInput::Unblocked`] or [`LifecycleInput::Blocked`].
    CheckDependencies,
    /// Make a start attempt; report [`LifecycleInput::Opened`] or [`LifecycleInput::OpenFailed`].
    Open,
    /// Give up the running attempt; report [`LifecycleInput::Ended`].
    Abort,
    /// Let callers in.
    Publish,
    /// Turn callers away, with this reason.
    Unpublish(SafeText),
    /// Close the session and end the process; report [`LifecycleInput::Ended`].
    End,
    /// The same once the calls in flight are done, or their grace is over.
    Drain,
    /// The grace of a running [`LifecycleStep::Drain`] is over.
    Hurry,
    /// Report [`LifecycleInput::Timer`] after this long; replaces an earlier one.
    Arm(Duration),
    /// Forget the timer.
    Disarm,
    /// Record that it crashed, will be restarted, or was restarted too often (decision D1).
    Record(Fact),
    /// Say what it is now.
    Announce {
        /// State to show.
        state: ServerState,
        /// Why.
        reason: Option<SafeText>,
        /// When the next attempt comes.
        retry_at: Option<Timestamp>,
    },
    /// The actor ends.
    Finish,
}

/// What decides besides state and input.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Now.
    pub now: Timestamp,
    /// A random number in `0.0..1.0` for jitter.
    pub random: f64,
    /// Retries of a start (L3).
    pub retry: &'a RetryConfig,
    /// Restarts after a death (D1).
    pub restart: &'a RestartConfig,
    /// Whether it is reached by an address: then nothing has to be started to find it again.
    pub reconnects: bool,
}

#[cfg(test)]
mod tests;
