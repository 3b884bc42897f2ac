//! One operation on the wire: its clock, its progress, its round trips. Written by the tap while it
//! reads, read by the request that waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::base::Clock;
use crate::base::text::SafeText;
use crate::error::Error;
use crate::mcp::CallId;
use crate::mcp::Payload;
use crate::mcp::session::{self, ByteCount, ProgressSink, RequestContext};
use crate::mcp::wire::progress::Gate;

/// An operation, shared by all its round trips.
#[derive(Debug)]
pub struct Operation {
    /// Whose it is; `None` for the session's own requests.
    pub call: Option<CallId>,
    /// Where its bytes are counted.
    pub bytes: Option<Arc<ByteCount>>,
    /// Wakes the request that waits: a person began or ceased to hold it, or an answer is doubted.
    pub changed: Notify,
    clock: Clock,
    started: Instant,
    state: Mutex<State>,
    waiting: Option<session::HeldTime>,
    progress: Option<Mutex<Gate>>,
    given_up: AtomicBool,
    /// Wakes those who wait for that.
    over: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Persons or callbacks that hold it now.
    holders: usize,
    held_since: Option<Instant>,
    held: Duration,
    /// Active time at the last sign of life.
    mark: Duration,
}

/// How much patience is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// The clock stands still.
    Held,
    /// It runs out after this long.
    Left(Duration),
    /// It ran out: no sign of life for the timeout.
    Silent,
    /// It ran out: the longest time in all.
    Exhausted,
}

impl Operation {
    /// Longest message of a step that is passed on, in bytes.
    pub const MESSAGE: usize = 1 << 10;

    /// A caller's operation.
    pub fn of(context: &RequestContext, clock: Clock) -> Arc<Self> {
        let gate = |sink: &Arc<dyn ProgressSink>| Mutex::new(Gate::new(Arc::clone(sink)));
        Arc::new(Self {
            call: Some(context.call),
            bytes: Some(Arc::clone(&context.bytes)),
            waiting: Some(context.waiting.clone()),
            progress: context.progress.as_ref().map(gate),
            ..Self::new(clock)
        })
    }

    /// One of the session itself.
    pub fn own(clock: Clock) -> Arc<Self> {
        Arc::new(Self::new(clock))
    }

    fn new(clock: Clock) -> Self {
        Self {
            call: None,
            bytes: None,
            changed: Notify::new(),
            clock,
            started: Instant::now(),
            state: Mutex::default(),
            waiting: None,
            progress: None,
            given_up: AtomicBool::new(false),
            over: Notify::new(),
        }
    }

    /// Nobody waits for its result any more: cancelled, out of time, its caller gone.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.over.notify_waiters();
    }

    /// Ends when nobody waits for its result any more; never when the result came.
    pub async fn given_up(&self) {
        // Listens before it looks, so that nothing falls in between.
        let over = self.over.notified();
        if !self.given_up.load(Ordering::Acquire) {
            over.await;
        }
    }

    /// Patience left of `timeout` since the last sign of life and of `max_total` since the start,
    /// the time a person held it not counted.
    pub fn patience(&self, timeout: Duration, max_total: Duration) -> Patience {
        let state = self.state();
        if state.holders > 0 {
            return Patience::Held;
        }
        let active = self.active(&state);
        let silent = active.saturating_sub(state.mark);
        if active >= max_total {
            return Patience::Exhausted;
        }
        if silent >= timeout {
            return Patience::Silent;
        }
        Patience::Left(timeout.saturating_sub(silent).min(max_total.saturating_sub(active)))
    }

    /// Whether a person or callback holds it now.
    pub fn is_held(&self) -> bool {
        self.state().holders > 0
    }

    /// Time the server has had so far.
    pub fn spent(&self) -> Duration {
        self.active(&self.state())
    }

    /// A person or callback holds it until the guard is dropped.
    pub fn hold(self: &Arc<Self>) -> Held {
        let mut state = self.state();
        state.holders += 1;
        if state.holders == 1 {
            state.held_since = Some(Instant::now());
            if let Some(waiting) = &self.waiting {
                waiting.begin(self.clock.now());
            }
        }
        drop(state);
        self.changed.notify_one();
        Held(Arc::clone(self))
    }

    fn release(&self) {
        let mut state = self.state();
        state.holders = state.holders.saturating_sub(1);
        if state.holders == 0
            && let Some(since) = state.held_since.take()
        {
            let span = since.elapsed();
            state.held += span;
            if let Some(waiting) = &self.waiting {
                waiting.end(span);
            }
        }
        drop(state);
        self.changed.notify_one();
    }

    /// A sign of life: patience begins anew.
    pub fn alive(&self) {
        let mut state = self.state();
        state.mark = self.active(&state);
    }

    /// Progress arrived: a sign of life, passed on at a bounded rate. What was held back goes out
    /// a moment later: the last step of a burst may be the last there is for long.
    pub fn progressed(self: &Arc<Self>, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.alive();
        if let (Some(gate), Some(call)) = (&self.progress, self.call) {
            let mut gate = gate.lock();
            gate.take(call, progress, total, message);
            if gate.kept.is_some() && !gate.armed {
                gate.armed = true;
                let this = Arc::clone(self);
                tokio::spawn(async move {
                    tokio::time::sleep(Gate::PERIOD).await;
                    this.flush_progress();
                });
            }
        }
    }

    /// A sign of life that is no step: what is being done, as the server words it.
    pub fn doing(self: &Arc<Self>, message: Option<&str>) {
        let at = self.progress.as_ref().map(|gate| {
            let gate = gate.lock();
            (gate.highest, gate.total)
        });
        let (progress, total) = at.unwrap_or_default();
        self.progressed(progress, total, message);
    }

    /// The answer is here: what the rate limit held back goes out before it.
    pub fn flush_progress(&self) {
        if let Some(gate) = &self.progress {
            gate.lock().flush();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn active(&self, state: &State) -> Duration {
        let holding = state.held_since.map(|since| since.elapsed()).unwrap_or_default();
        self.started.elapsed().saturating_sub(state.held + holding)
    }
}

/// Keeps the clock of an operation still.
#[derive(Debug)]
pub struct Held(Arc<Operation>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// The longest prefix of at most `max` bytes that ends between characters.
pub fn cut(text: &str, max: usize) -> &str {
    if text.len() <= max {
        return text;
    }
    let mut end = max;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// One round trip of an operation.
#[derive(Debug)]
pub struct Exchange {
    /// The operation.
    pub operation: Arc<Operation>,
    /// Method.
    pub method: SafeText,
    /// Tool, prompt or URI.
    pub target: Option<SafeText>,
    failure: Mutex<Option<Error>>,
    doubt: Mutex<Option<(Instant, String)>>,
    given_up: AtomicBool,
    /// Who waits, when the answer goes to them directly.
    waiting: Mutex<Option<oneshot::Sender<Answer>>>,
    /// A large answer, which does not go through rmcp's types.
    held: Mutex<Option<Payload>>,
}

/// What a round trip gives.
pub type Answer = Result<Payload, Error>;

impl Exchange {
    /// How long a wrong id may be followed by the right one, when only one call is open.
    const GRACE: Duration = Duration::from_secs(1);

    /// A round trip that is about to begin.
    pub fn new(operation: Arc<Operation>, method: SafeText, target: Option<SafeText>) -> Arc<Self> {
        Arc::new(Self {
            operation,
            method,
            target,
            failure: Mutex::default(),
            doubt: Mutex::default(),
            given_up: AtomicBool::new(false),
            waiting: Mutex::default(),
            held: Mutex::default(),
        })
    }

    /// Asks for the answer to be given here, without rmcp's service loop in between.
    pub fn wait_directly(&self) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        *self.waiting.lock() = Some(sender);
        receiver
    }

    /// The one who waits directly, once.
    pub fn waiting(&self) -> Option<oneshot::Sender<Answer>> {
        self.waiting.lock().take()
    }

    /// Keeps an answer; the one that wakes whoever waits is only a stand-in.
    pub fn keep(&self, answer: Payload) {
        *self.held.lock() = Some(answer);
    }

    /// The answer that was kept.
    pub fn kept(&self) -> Option<Payload> {
        self.held.lock().take()
    }

    /// `tools/call echo`
    pub fn name(&self) -> String {
        match &self.target {
            Some(target) => format!("{} {target}", self.method),
            None => self.method.to_string(),
        }
    }

    /// Nobody waits for it any more, although it may not have been sent yet.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    /// Whether somebody gave it up before it was sent.
    pub fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Relaxed)
    }

    /// Says why it fails; the answer that wakes it is only a stand-in.
    pub fn fail(&self, error: Error) {
        *self.failure.lock() = Some(error);
    }

    /// Why it failed.
    pub fn failure(&self) -> Option<Error> {
        self.failure.lock().take()
    }

    /// An answer came that is probably meant for it but names another id.
    pub fn doubt(&self, reason: String) {
        let mut doubt = self.doubt.lock();
        doubt.get_or_insert_with(|| (Instant::now() + Self::GRACE, reason));
        drop(doubt);
        self.operation.changed.notify_one();
    }

    /// When the doubt becomes a failure.
    pub fn doubted_until(&self) -> Option<Instant> {
        self.doubt.lock().as_ref().map(|(at, _)| *at)
    }

    /// The reason of a doubt whose time is over.
    pub fn confirmed_doubt(&self) -> Option<String> {
        let doubt = self.doubt.lock();
        doubt.as_ref().filter(|(at, _)| *at <= Instant::now()).map(|(_, reason)| reason.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use tokio::sync::mpsc;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn the_clock_stands_still_while_somebody_holds_the_call() {
        let operation = Operation::own(Clock::system());
        let patience = || operation.patience(10 * SECOND, 60 * SECOND);
        tokio::time::advance(4 * SECOND).await;
        assert_eq!(patience(), Patience::Left(6 * SECOND));
        let first = operation.hold();
        let second = operation.hold();
        tokio::time::advance(100 * SECOND).await;
        assert_eq!(patience(), Patience::Held);
        drop(first);
        assert_eq!(patience(), Patience::Held);
        drop(second);
        assert_eq!(patience(), Patience::Left(6 * SECOND));
        tokio::time::advance(6 * SECOND).await;
        assert_eq!(patience(), Patience::Silent);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_extends_the_deadline_up_to_the_longest_time() {
        let operation = Operation::own(Clock::system());
        for _ in 0..6 {
            tokio::time::advance(9 * SECOND).await;
            operation.progressed(1.0, None, None);
        }
        assert_eq!(operation.patience(10 * SECOND, 60 * SECOND), Patience::Left(6 * SECOND));
        tokio::time::advance(6 * SECOND).await;
        assert_eq!(operation.patience(10 * SECOND, 60 * SECOND), Patience::Exhausted);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_step_of_a_burst_is_told_though_nothing_follows() {
        let (sender, mut receiver) = mpsc::channel(16);
        let operation = Arc::new(Operation {
            call: Some(CallId(1)),
            progress: Some(Mutex::new(Gate::new(Arc::new(sender)))),
            ..Operation::new(Clock::system())
        });
        for step in [1.0, 2.0, 3.0] {
            operation.progressed(step, Some(4.0), None);
        }
        assert_eq!(receiver.recv().await.map(|p| p.progress), Some(1.0));
        assert_eq!(receiver.recv().await.map(|p| p.progress), Some(3.0));
    }
}
