//! The lifecycle of one server as a pure state machine: `(Lifecycle, Input) -> (Lifecycle, Steps)`.
//!
//! Owns all rules of when a server starts, retries, restarts and sleeps. Has no side
//! effects: the actor executes the steps and reports the results. Time and randomness are arguments,
//! so every path can be tested by a table.

use std::time::Duration;

use crate::backoff::{RestartBudget, restart_delay, retry_delay};
use crate::view::{RESTARTING, STOPPED, STOPPING};
use crate::{Fact, ServerState};
use base::{SafeText, Timestamp};
use config::{RestartConfig, RestartPolicy, RetryConfig};

/// Pause before an address is connected to again after a connection was lost; it doubles.
const FIRST_RETRY_INTERVAL: Duration = Duration::from_millis(500);
/// Longest such pause. A connection that held this long begins anew.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(15);

/// The state machine.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    phase: Phase,
    /// Attempts of the current start, from 1.
    attempt: u32,
    /// Whether the current start follows a crash and counts against the restart budget.
    reviving: bool,
    budget: RestartBudget,
    /// Attempts to reconnect to an address since a connection last held.
    reconnects: Option<u32>,
}

impl Lifecycle {
    /// A server that is stopped or disabled and waits for [`LifecycleInput::Start`].
    pub fn new(phase: Phase) -> Self {
        Self {
            phase,
            attempt: 0,
            reviving: false,
            budget: RestartBudget::default(),
            reconnects: None,
        }
    }

    /// The current phase.
    pub const fn phase(&self) -> &Phase {
        &self.phase
    }

    /// Attempts of the current or last start, from 1; 0 before the first.
    pub const fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Whether no transition is pending. Not used in [`Phase::Waiting`], where the actor decides.
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

    /// Whether the pending transition leads to a start, so that calls wait for its outcome. A
    /// reconnect to an address goes on for as long as it is down: calls wait for an attempt that
    /// runs, not for the next one.
    pub fn starts(&self, restart: &RestartConfig) -> bool {
        match self.phase {
            Phase::Waiting | Phase::Starting | Phase::Stopping { next: Next::Start } => true,
            Phase::Backoff => self.reconnects.is_none(),
            Phase::Dying { .. } => restart.policy != RestartPolicy::Never,
            Phase::Disabled
            | Phase::Ready
            | Phase::Wedged
            | Phase::Failed
            | Phase::Stopping { next: Next::Rest | Next::Sleep | Next::Disable | Next::Leave }
            | Phase::Stopped
            | Phase::Sleeping
            | Phase::Gone => false,
        }
    }

    /// The transition function.
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
            // Its session is no longer reliable: a start opens a new one.
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
                down(ServerState::Shutdown, SafeText::line(RESTARTING), [LifecycleStep::End])
            }
            Phase::Starting => {
                self.phase = Phase::Stopping { next: Next::Start };
                vec![LifecycleStep::Abort]
            }
            // The process is already being stopped; only the next action changes.
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
            // A further change of the entry does not cut a running stop short.
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
            // A stopped server stays down; one about to start uses the changed files anyway.
            _ => Vec::new(),
        }
    }

    /// Announced at once, before the session has ended, so that a call in between wakes it.
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

    /// Changes what follows a running stop; [`Next::Leave`] is final.
    fn follow_with(&mut self, next: Next) {
        if let Phase::Stopping { next: before } = &mut self.phase
            && *before != Next::Leave
        {
            *before = next;
        }
    }

    fn stop(&mut self, next: Next) -> Vec<LifecycleStep> {
        let asked = SafeText::line(STOPPED);
        match self.phase {
            Phase::Ready | Phase::Wedged => {
                self.phase = Phase::Stopping { next };
                vec![
                    LifecycleStep::Unpublish(asked.clone()),
                    announce(ServerState::Shutdown, Some(SafeText::line(STOPPING))),
                    LifecycleStep::End,
                ]
            }
            Phase::Starting => {
                self.phase = Phase::Stopping { next };
                vec![
                    announce(ServerState::Shutdown, Some(SafeText::line(STOPPING))),
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

    /// Starts on request of the user or the host; resets all counters.
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
        if lost.lived >= MAX_RETRY_INTERVAL {
            self.reconnects = None;
        }
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
                        let reason = SafeText::line(STOPPED);
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

    /// Schedules a reconnect to an address. It costs one connection and starts nothing, so retries
    /// go on until the server is stopped, ever more slowly until a connection holds: one that is
    /// accepted and lost again at once is no success.
    fn reconnect(&mut self, reason: SafeText, around: Surroundings<'_>) -> Vec<LifecycleStep> {
        let number = self.reconnects.unwrap_or_default();
        self.reconnects = Some(number.saturating_add(1));
        self.attempt = 0;
        let delay = (FIRST_RETRY_INTERVAL * (1 << number.min(8))).min(MAX_RETRY_INTERVAL);
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

/// Rejects calls and announces the state, then runs the given steps.
fn down(
    state: ServerState,
    reason: SafeText,
    then: impl IntoIterator<Item = LifecycleStep>,
) -> Vec<LifecycleStep> {
    let first = [LifecycleStep::Unpublish(reason.clone()), announce(state, Some(reason))];
    first.into_iter().chain(then).collect()
}

// The types of the machine: phases, inputs, steps.

/// The phase of a server. Finer than [`ServerState`], which is displayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Disabled by its entry.
    Disabled,
    /// About to start; its dependencies are being checked.
    Waiting,
    /// A start attempt is running.
    Starting,
    /// The next attempt is scheduled.
    Backoff,
    /// In use.
    Ready,
    /// Its session is open, but a request timed out and calls are rejected.
    Wedged,
    /// The connection is lost; the process is being stopped.
    Dying {
        /// The reason and the uptime.
        lost: Loss,
    },
    /// Failed permanently; needs a start on request.
    Failed,
    /// Being stopped on purpose.
    Stopping {
        /// What to do afterwards.
        next: Next,
    },
    /// Stopped on purpose.
    Stopped,
    /// Stopped until the next call.
    Sleeping,
    /// Its actor has ended.
    Gone,
}

/// The unexpected end of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The observed reason.
    pub reason: SafeText,
    /// How long the session was in use.
    pub lived: Duration,
}

/// What to do after a stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Stay stopped until it is started on request.
    Rest,
    /// Sleep until the next call.
    Sleep,
    /// Start again.
    Start,
    /// Become disabled.
    Disable,
    /// End the actor: the host shuts down, or the entry was removed.
    Leave,
}

/// An event or a request for the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifecycleInput {
    /// Start it on request. Resets the failure counts.
    Start,
    /// Stop and start it on request. Resets the failure counts.
    Restart,
    /// Stop it on request.
    Stop(Next),
    /// Put it to sleep, because it is idle; a call starts it again.
    Sleep,
    /// Its entry changed or was removed, with the reason; calls in flight may finish first.
    Retire(Next, SafeText),
    /// Its sources changed, with the reason: restart it, after calls in flight have finished; a
    /// server that was stopped or disabled stays down.
    Renew(SafeText),
    /// All dependencies are ready.
    Unblocked,
    /// A dependency is not ready, with the reason.
    Blocked(SafeText),
    /// The attempt succeeded: connected, lists fetched.
    Opened,
    /// The attempt failed and has been cleaned up.
    OpenFailed {
        /// Why.
        reason: SafeText,
        /// Whether a retry may succeed.
        retryable: bool,
    },
    /// The connection was lost; the process, if there is one, may still be alive.
    Lost(Loss),
    /// Connection and process ended unexpectedly.
    Died(Loss),
    /// Session and process have ended after [`LifecycleStep::End`], [`LifecycleStep::Drain`] or
    /// [`LifecycleStep::Abort`].
    Ended,
    /// A request timed out and that makes the server unavailable.
    TimedOut(SafeText),
    /// The timer set by [`LifecycleStep::Arm`] has fired.
    Timer,
}

/// An action for the actor; actions are executed in order.
#[derive(Clone, Debug, PartialEq)]
pub enum LifecycleStep {
    /// Check the dependencies; report [`LifecycleInput::Unblocked`] or [`LifecycleInput::Blocked`].
    CheckDependencies,
    /// Make a start attempt; report [`LifecycleInput::Opened`] or [`LifecycleInput::OpenFailed`].
    Open,
    /// Abort the running attempt; report [`LifecycleInput::Ended`].
    Abort,
    /// Publish the session to callers.
    Publish,
    /// Reject calls, with this reason.
    Unpublish(SafeText),
    /// Close the session and stop the process; report [`LifecycleInput::Ended`].
    End,
    /// Like [`LifecycleStep::End`], after the calls in flight or their grace period have ended.
    Drain,
    /// End the grace period of a running [`LifecycleStep::Drain`].
    Hurry,
    /// Report [`LifecycleInput::Timer`] after this delay; replaces an earlier timer.
    Arm(Duration),
    /// Cancel the timer.
    Disarm,
    /// Record a crash, a scheduled restart, or that restarts are exhausted.
    Record(Fact),
    /// Announce a state.
    Announce {
        /// State to display.
        state: ServerState,
        /// Why.
        reason: Option<SafeText>,
        /// Time of the next attempt.
        retry_at: Option<Timestamp>,
    },
    /// End the actor.
    Finish,
}

/// Further arguments of a transition.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// The current time.
    pub now: Timestamp,
    /// A random number in `0.0..1.0` for jitter.
    pub random: f64,
    /// Retries of a start.
    pub retry: &'a RetryConfig,
    /// Restarts after a crash.
    pub restart: &'a RestartConfig,
    /// Whether it has an address, so that it can be reconnected to without starting anything.
    pub reconnects: bool,
}

#[cfg(test)]
mod tests;
