//! The words of the machine: phases, inputs, steps. Owns no rule.

use std::time::Duration;

use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::config::{RestartConfig, RetryConfig};
use crate::host::ServerState;

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

impl Phase {
    /// Whether its session was in use, or its end is being seen to.
    pub const fn is_in_use(&self) -> bool {
        matches!(self, Self::Ready | Self::Wedged | Self::Dying { .. })
    }
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
pub enum Input {
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
    /// The session is closed and the process gone, as asked by [`Step::End`], [`Step::Drain`] or
    /// [`Step::Abort`].
    Ended,
    /// A request timed out and that makes the server unavailable (decision D4).
    TimedOut(SafeText),
    /// The time asked for by [`Step::Arm`] has passed.
    Timer,
}

/// What the actor has to do, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Look at the dependencies; report [`Input::Unblocked`] or [`Input::Blocked`].
    CheckDependencies,
    /// Make a start attempt; report [`Input::Opened`] or [`Input::OpenFailed`].
    Open,
    /// Give up the running attempt; report [`Input::Ended`].
    Abort,
    /// Let callers in.
    Publish,
    /// Turn callers away, with this reason.
    Unpublish(SafeText),
    /// Close the session and end the process; report [`Input::Ended`].
    End,
    /// The same once the calls in flight are done, or their grace is over.
    Drain,
    /// The grace of a running [`Step::Drain`] is over.
    Hurry,
    /// Report [`Input::Timer`] after this long; replaces an earlier one.
    Arm(Duration),
    /// Forget the timer.
    Disarm,
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
