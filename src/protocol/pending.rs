//! A request in flight: one value for the caller, from the first byte to the answer, however many
//! round trips it takes. Owns its deadline, clock, progress, byte counts and findings.
//!
//! The clock is stopped while the user is being waited for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use crate::id::CallId;
use crate::notice::Progress;
use crate::traffic::Finding;
use base::text::cut;
use base::text::json::WrittenNumbers;
use base::{Clock, SafeText, Timestamp};
use config::error::{Error, ErrorCode};

/// A request in flight. Made by the caller, shared by its round trips.
#[derive(Debug)]
pub struct PendingRequest {
    /// The operation; `None` for the session's own requests.
    pub call: Option<CallId>,
    /// Who makes it: its origin and session. Unset for the session's own requests.
    pub caller: OnceLock<Arc<str>>,
    /// The span of its caller (W3C `traceparent`), sent in `_meta`.
    pub trace: OnceLock<Arc<str>>,
    /// What its caller put into `_meta`.
    pub meta: OnceLock<Arc<CallerMeta>>,
    /// Numbers of its arguments that are sent as they were written.
    pub numbers: OnceLock<Arc<WrittenNumbers>>,
    /// How many decks it came through; sent in `_meta` to a server that is a deck.
    pub hops: OnceLock<u64>,
    /// Timeout, not counting time spent waiting for the user; progress restarts it.
    pub timeout: Duration,
    /// Longest total time, whatever the progress (not counting time spent waiting for the user).
    pub max_total: Duration,
    /// Cancels it.
    pub cancel: CancellationToken,
    /// Bytes of its requests and answers; written by the session.
    pub bytes: ByteCount,
    /// Wakes the waiting round trip: a hold began or ended, an answer is in doubt, or progress is held
    /// back.
    changed: Notify,
    /// Reads the time that `clock` measures.
    time: Clock,
    clock: Mutex<CallClock>,
    progress: Mutex<ProgressGate>,
    given_up: AtomicBool,
    /// When the caller made it.
    asked: Instant,
    /// Wakes tasks that wait for it to be given up.
    over: Notify,
    findings: Mutex<Vec<Finding>>,
}

/// What a caller put into `_meta` for the server (basic, `_meta`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallerMeta {
    /// Its members, but for those of the connection ([`crate::vendor_meta`]).
    pub members: Map<String, Value>,
    /// Its numbers that are sent as they were written.
    pub numbers: Arc<WrittenNumbers>,
}

#[derive(Debug)]
struct CallClock {
    /// When the attempt that runs now began.
    began: Instant,
    /// How many users or callbacks hold it now.
    holders: usize,
    held_since: Option<Instant>,
    held: Duration,
    /// Time held before this attempt.
    held_before: Duration,
    /// Active time at the last sign of life.
    mark: Duration,
    doubt: Option<(Instant, String)>,
}

impl CallClock {
    fn held(&self, now: Instant) -> Duration {
        let since = |since| now.saturating_duration_since(since);
        self.held + self.held_since.map(since).unwrap_or_default()
    }

    fn active(&self, now: Instant) -> Duration {
        let held = self.held(now).saturating_sub(self.held_before);
        now.saturating_duration_since(self.began).saturating_sub(held)
    }
}

impl PendingRequest {
    /// Longest progress message passed on, in bytes.
    pub const MAX_PROGRESS_BYTES: usize = 1 << 10;
    /// How long to wait for the right id after a wrong one, when only one request is open.
    const WRONG_ID_TIMEOUT: Duration = Duration::from_secs(1);
    /// Most findings kept per request; a server could cause any number.
    const MAX_FINDINGS: usize = 32;

    /// A request of a caller, measured by `time`. `progress` receives the progress the server reports; overflow policy:
    /// the newest is dropped when the channel is full.
    pub fn new(
        time: Clock,
        call: Option<CallId>,
        (timeout, max_total): (Duration, Duration),
        cancel: CancellationToken,
        progress: Option<mpsc::Sender<Progress>>,
    ) -> Arc<Self> {
        let now = time.instant();
        Arc::new(Self {
            call,
            caller: OnceLock::new(),
            trace: OnceLock::new(),
            meta: OnceLock::new(),
            numbers: OnceLock::new(),
            hops: OnceLock::new(),
            timeout,
            max_total,
            cancel,
            bytes: ByteCount::default(),
            changed: Notify::new(),
            time,
            clock: Mutex::new(CallClock {
                began: now,
                holders: 0,
                held_since: None,
                held: Duration::ZERO,
                held_before: Duration::ZERO,
                mark: Duration::ZERO,
                doubt: None,
            }),
            progress: Mutex::new(ProgressGate { caller: progress, ..ProgressGate::default() }),
            given_up: AtomicBool::new(false),
            asked: now,
            over: Notify::new(),
            findings: Mutex::default(),
        })
    }

    /// A request of the session itself, or of the host.
    pub fn internal(time: Clock, timeout: Duration) -> Arc<Self> {
        Self::new(time, None, (timeout, timeout), CancellationToken::new(), None)
    }

    /// How long ago a caller made it; `None` for one of the session itself.
    pub fn queued(&self) -> Option<Duration> {
        self.call.map(|_| self.time.elapsed(self.asked))
    }

    /// Restarts its time when it is sent or resent.
    pub fn begin(&self) {
        let now = self.time.instant();
        let mut clock = self.clock.lock();
        clock.began = now;
        clock.held_before = clock.held(now);
        clock.mark = Duration::ZERO;
        clock.doubt = None;
        self.given_up.store(false, Ordering::Release);
    }

    /// When it times out next, by silence or in total; not while it is held, unless an answer is in
    /// doubt.
    fn deadline(&self) -> Result<Option<Instant>, Error> {
        let now = self.time.instant();
        let clock = self.clock.lock();
        let doubted = clock.doubt.as_ref().map(|(until, _)| *until);
        if let Some((until, reason)) = &clock.doubt
            && *until <= now
        {
            return Err(Error::new(ErrorCode::Protocol, reason.clone()));
        }
        if clock.holders > 0 {
            return Ok(doubted);
        }
        let active = clock.active(now);
        let silent = active.saturating_sub(clock.mark);
        let timed_out = |after: Duration, how: &str, help: &str| {
            let seconds = after.as_secs_f64();
            let message = if seconds < 1.0 {
                format!("no answer within {} ms {how}", after.as_millis())
            } else {
                format!("no answer within {seconds:.1} s {how}")
            };
            Err(Error::new(ErrorCode::Timeout, message).help(help))
        };
        if active >= self.max_total && self.max_total == self.timeout && !clock.mark.is_zero() {
            return timed_out(
                self.max_total,
                "in all",
                "raise the time limit if the server needs longer; progress does not extend it",
            );
        }
        if active >= self.max_total && self.max_total != self.timeout {
            return timed_out(
                self.max_total,
                "in all, the limit of a call (`limits.maxCall`)",
                "raise `limits.maxCall` in its entry if calls take longer; progress does not \
                 extend it",
            );
        }
        if silent >= self.timeout {
            return timed_out(
                self.timeout,
                "without any message from the server",
                "raise `timeout` if the server needs longer; progress notifications extend it",
            );
        }
        let left = self.timeout.saturating_sub(silent).min(self.max_total.saturating_sub(active));
        let until = now.checked_add(left);
        Ok([until, doubted].into_iter().flatten().min())
    }

    /// Sends progress whose time has come. Returns when to look again, or [`PendingRequest::changed`]
    /// earlier: when it times out or more progress is due.
    ///
    /// # Errors
    /// When it has timed out, or an answer named another request and the right one did not follow.
    pub fn next_step(&self) -> Result<Option<Instant>, Error> {
        let deadline = self.deadline()?;
        let mut gate = self.progress.lock();
        if gate.due().is_some_and(|due| due <= self.time.instant()) {
            gate.flush(self.time.instant());
        }
        Ok([deadline, gate.due()].into_iter().flatten().min())
    }

    /// Completes when a hold began or ended, an answer came into doubt, or progress is held back:
    /// [`PendingRequest::next_step`] differs then. One waits at a time.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Whether the user or a callback holds it now.
    pub fn is_held(&self) -> bool {
        self.clock.lock().holders > 0
    }

    /// Time the user or a callback has held it so far.
    pub fn waited(&self) -> Duration {
        self.clock.lock().held(self.time.instant())
    }

    /// Stops the clock, for the user or a callback, until the guard is dropped.
    pub fn hold(self: &Arc<Self>) -> HeldClock {
        let mut clock = self.clock.lock();
        clock.holders += 1;
        if clock.holders == 1 {
            clock.held_since = Some(self.time.instant());
        }
        drop(clock);
        self.changed.notify_one();
        HeldClock(Arc::clone(self))
    }

    /// A sign of life: restarts `timeout`.
    pub fn alive(&self) {
        let mut clock = self.clock.lock();
        clock.mark = clock.active(self.time.instant());
    }

    /// Records an answer that is probably meant for it but names another request.
    pub(crate) fn doubt(&self, reason: String) {
        self.clock
            .lock()
            .doubt
            .get_or_insert_with(|| (self.time.instant() + Self::WRONG_ID_TIMEOUT, reason));
        self.changed.notify_one();
    }

    /// Its result is no longer wanted: cancelled, timed out, or the caller is gone.
    pub fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
        self.over.notify_waiters();
    }

    /// Completes when its result is no longer wanted; never if the result arrives first.
    pub async fn given_up(&self) {
        // Registers before checking, so that no notification is missed.
        let over = self.over.notified();
        if !self.given_up.load(Ordering::Acquire) {
            over.await;
        }
    }

    /// Progress arrived: a sign of life, passed on at a bounded rate. What is held back is sent by
    /// [`PendingRequest::next_step`]: the last of a burst may be the last one for a long time.
    pub fn progressed(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        self.alive();
        let Some(call) = self.call else { return };
        let message = message.map(|text| SafeText::line(cut(text, Self::MAX_PROGRESS_BYTES)));
        let mut gate = self.progress.lock();
        let was_due = gate.due().is_some();
        gate.take(Progress { call, progress, total, message }, self.time.instant());
        let is_due = gate.due().is_some();
        drop(gate);
        if is_due && !was_due {
            self.changed.notify_one();
        }
    }

    /// A sign of life without progress: what is being done, in the server's words.
    pub fn doing(&self, message: Option<&str>) {
        let (progress, total) = {
            let gate = self.progress.lock();
            (gate.highest, gate.total)
        };
        self.progressed(progress, total, message);
    }

    /// Sends the progress held back by the rate limit, before the answer is delivered.
    pub(crate) fn flush_progress(&self) {
        self.progress.lock().flush(self.time.instant());
    }

    /// The last progress that was passed on.
    pub fn progress(&self) -> Option<Progress> {
        self.progress.lock().last.clone()
    }

    /// Records an oddity of its answer.
    pub(crate) fn found(&self, finding: Finding) {
        let mut findings = self.findings.lock();
        if findings.len() < Self::MAX_FINDINGS {
            findings.push(finding);
        }
    }

    /// Takes the findings recorded so far.
    pub fn take_findings(&self) -> Vec<Finding> {
        std::mem::take(&mut self.findings.lock())
    }
}

/// Stops the clock of a request until dropped.
#[derive(Debug)]
pub struct HeldClock(Arc<PendingRequest>);

impl Drop for HeldClock {
    fn drop(&mut self) {
        let mut clock = self.0.clock.lock();
        clock.holders = clock.holders.saturating_sub(1);
        if clock.holders == 0 {
            clock.held = clock.held(self.0.time.instant());
            clock.held_since = None;
        }
        drop(clock);
        self.0.changed.notify_one();
    }
}

/// Bytes transferred, counted by the session and read by metrics.
#[derive(Debug, Default)]
pub struct ByteCount {
    received: AtomicU64,
    sent: AtomicU64,
    /// When something arrived last; none before the first.
    heard: Mutex<Option<Timestamp>>,
}

impl ByteCount {
    /// Records that the server has sent something.
    pub fn heard(&self, at: Timestamp) {
        *self.heard.lock() = Some(at);
    }

    /// When the server sent something last.
    pub fn last_heard(&self) -> Option<Timestamp> {
        *self.heard.lock()
    }

    /// Counts bytes of a message from the server.
    pub fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts bytes of a message to the server. For a request this is called before the first byte
    /// is written, so that zero means: the server cannot have seen it.
    pub fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes received and sent so far.
    pub fn totals(&self) -> (u64, u64) {
        (self.received.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed))
    }
}

/// Clamps the progress a server reports, and throttles it to a rate that a caller can follow.
/// Overflow policy: updates are at least [`ProgressGate::PROGRESS_INTERVAL`] apart; of those in between, the
/// newest is kept and sent when the period ends, or with the answer.
#[derive(Debug, Default)]
struct ProgressGate {
    caller: Option<mpsc::Sender<Progress>>,
    last: Option<Progress>,
    highest: f64,
    total: Option<f64>,
    passed: Option<Instant>,
    kept: Option<Progress>,
}

impl ProgressGate {
    const PROGRESS_INTERVAL: Duration = Duration::from_millis(10);

    fn take(&mut self, reported: Progress, now: Instant) {
        let finite = |value: f64| value.is_finite().then(|| value.clamp(0.0, 1e15));
        self.highest =
            finite(reported.progress).map_or(self.highest, |value| value.max(self.highest));
        self.total = reported.total.and_then(finite).filter(|total| *total > 0.0);
        self.kept = Some(Progress { progress: self.highest, total: self.total, ..reported });
        if self.due().is_none_or(|due| due <= now) {
            self.pass(now);
        }
    }

    /// When what is kept is to be sent; `None` when nothing is, or nothing was sent before.
    fn due(&self) -> Option<Instant> {
        self.kept.as_ref().and(self.passed).map(|at| at + Self::PROGRESS_INTERVAL)
    }

    fn flush(&mut self, now: Instant) {
        if self.kept.is_some() {
            self.pass(now);
        }
    }

    fn pass(&mut self, now: Instant) {
        self.passed = Some(now);
        self.last = self.kept.take();
        if let (Some(caller), Some(progress)) = (&self.caller, &self.last) {
            let _ = caller.try_send(progress.clone());
        }
    }
}

// Which came first for one request: the answer or the withdrawal. Exactly one wins; what is
// reported and what is sent follows from it.

/// Decided once: answered or withdrawn, never both. Holds the reason of a withdrawal.
#[derive(Debug, Default)]
pub struct Claim(OnceLock<Option<SafeText>>);

impl Claim {
    /// Claims it for an answer; returns whether it is answered, now or already.
    pub fn answer(&self) -> bool {
        self.0.get_or_init(|| None).is_none()
    }

    /// Claims it for a withdrawal; returns whether it is withdrawn. The first reason is kept.
    pub fn withdraw(&self, reason: &str) -> bool {
        self.0.get_or_init(|| Some(SafeText::line(reason))).is_some()
    }

    /// Why it was withdrawn.
    pub fn reason(&self) -> SafeText {
        self.0.get().cloned().flatten().unwrap_or_default()
    }

    /// Whether an answer has won.
    pub fn is_answered(&self) -> bool {
        self.0.get() == Some(&None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn request(progress: Option<mpsc::Sender<Progress>>) -> Arc<PendingRequest> {
        let (call, cancel) = (Some(CallId(1)), CancellationToken::new());
        PendingRequest::new(Clock::system(), call, (10 * SECOND, 60 * SECOND), cancel, progress)
    }

    fn left(request: &PendingRequest) -> Duration {
        let deadline = request.deadline().expect("some is left").expect("it ends");
        deadline - request.time.instant()
    }

    fn ended(request: &PendingRequest) -> String {
        request.deadline().expect_err("no time is left").message.clone()
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_stands_still_while_somebody_holds_the_call() {
        let request = request(None);
        tokio::time::advance(4 * SECOND).await;
        assert_eq!(left(&request), 6 * SECOND);
        let (first, second) = (request.hold(), request.hold());
        tokio::time::advance(100 * SECOND).await;
        assert_eq!((request.deadline(), request.waited()), (Ok(None), 100 * SECOND));
        drop(first);
        assert_eq!(request.deadline(), Ok(None));
        drop(second);
        assert_eq!(left(&request), 6 * SECOND);
        tokio::time::advance(6 * SECOND).await;
        assert!(ended(&request).starts_with("no answer within 10.0 s without"));
        request.begin();
        assert_eq!((left(&request), request.waited()), (10 * SECOND, 100 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_extends_the_deadline_up_to_the_longest_time() {
        let request = request(None);
        for _ in 0..6 {
            tokio::time::advance(9 * SECOND).await;
            request.progressed(1.0, None, None);
        }
        assert_eq!(left(&request), 6 * SECOND);
        tokio::time::advance(6 * SECOND).await;
        assert!(ended(&request).starts_with("no answer within 60.0 s in all"));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_clamped_and_thinned_out_and_the_last_is_not_lost() {
        let (sender, mut receiver) = mpsc::channel(8);
        let request = request(Some(sender));
        for value in [5.0, 3.0, f64::INFINITY, f64::NAN, 1e308] {
            request.progressed(value, Some(-1.0), Some("x\u{1b}[2J"));
        }
        let first = receiver.try_recv().unwrap();
        assert_eq!((first.progress, first.total), (5.0, None));
        assert!(!first.message.unwrap().contains('\u{1b}'));
        // What is held back is sent although nothing follows, and the waiting round trip is told.
        request.changed().await;
        let due = request.next_step().unwrap().unwrap();
        assert_eq!(due - request.time.instant(), ProgressGate::PROGRESS_INTERVAL);
        assert!(receiver.try_recv().is_err());
        tokio::time::advance(ProgressGate::PROGRESS_INTERVAL).await;
        let next = request.next_step().unwrap().unwrap();
        let left = next - request.time.instant();
        assert_eq!(left + ProgressGate::PROGRESS_INTERVAL, 10 * SECOND);
        assert!(receiver.try_recv().unwrap().progress > 0.9e15);
        assert!(receiver.try_recv().is_err() && request.progress().unwrap().progress > 0.9e15);
    }
}

#[cfg(test)]
mod claim_tests {
    use super::*;

    #[test]
    fn the_first_word_holds_and_the_other_is_too_late() {
        let claim = Claim::default();
        assert!(claim.answer() && claim.answer() && !claim.withdraw("late") && claim.is_answered());
        let claim = Claim::default();
        assert!(claim.withdraw("first") && claim.withdraw("second") && !claim.answer());
        assert_eq!((claim.is_answered(), claim.reason().as_str()), (false, "first"));
    }
}
