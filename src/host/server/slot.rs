//! The published state of a server: its session, its lists, its state.
//!
//! The actor is the only writer of [`Live`], with the exception documented at [`Slot::turn_away`].
//! Callers read a snapshot and run their call in their own task; no lock is held across an await.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound::Included;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use indexmap::IndexMap;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::account::Account;
use super::command::Command;
use super::connect::{Opened, ProcessHandle};
use super::lifecycle::LifecycleInput;
use super::mailbox::Mailbox;
use super::persons::Persons;
use super::turns::Turns;
use crate::approvals::Asker;
use crate::approvals::queue::CallInFlight;
use crate::breaker::{Breaker, BreakerView};
use crate::call::CallView;
use crate::metrics::{Ending, Metrics, ServerMetrics};
use crate::{Fact, ServerState};
use base::{LogLevel, Redactor, Ring, SafeText, ServerName, Timestamp};
use config::ServerConfig;
use config::error::{Error, ErrorCode};
use mcp::SessionHandle;
use process::ExitView;
use protocol::{
    ByteCount, CallId, Capabilities, PendingRequest, ServerTasks, SessionView, Tool, TrafficRecord,
};

/// The servers of a host by name, in file order.
pub type Slots = IndexMap<ServerName, Arc<Slot>>;

/// The published state of one server. Lives as long as the server is in the deck.
pub struct Slot {
    /// Its name.
    pub name: ServerName,
    /// Commands to its actor. Overflow policy: the sender gets a "busy" error.
    pub commands: Arc<Mailbox>,
    /// Made when it is first needed, as there are servers that never start.
    black_box: OnceLock<Ring<TrafficRecord>>,
    /// Masks its secrets: those of its entry, and its OAuth tokens.
    pub redactor: Redactor,
    /// Its account, for OAuth sign-in.
    pub account: Arc<Account>,
    /// Bytes of all its messages, across sessions.
    pub bytes: Arc<ByteCount>,
    /// Tasks that it runs or ran, across sessions.
    pub tasks: Arc<ServerTasks>,
    /// Whose call may be in flight.
    pub turns: Turns,
    /// Sessions of persons who use it as themselves.
    pub persons: Persons,
    /// Notified when the probe of a half-open breaker has ended.
    pub probed: Notify,
    desired: Mutex<Desired>,
    live: LiveCell,
    ledger: OnceLock<Box<Mutex<Ledger>>>,
    calls: Mutex<BTreeMap<CallId, Arc<InFlight>>>,
    /// Requests of callers being processed by the server.
    busy: TaskTracker,
    /// Time of the last use, in milliseconds since `made`.
    used: AtomicU64,
    made: Instant,
}

/// Guard of a request being processed by the server.
pub struct Busy<'a> {
    slot: &'a Slot,
    _token: TaskTrackerToken,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.slot.used.store(self.slot.now(), Relaxed);
    }
}

/// A snapshot of a server, for callers and dependents.
#[derive(Clone)]
pub struct Live {
    /// Its effective configuration.
    pub config: Arc<ServerConfig>,
    /// Its state.
    pub state: ServerState,
    /// Why.
    pub reason: Option<SafeText>,
    /// Time of the next attempt, when one is scheduled.
    pub retry_at: Option<Timestamp>,
    /// The same, on the clock of waits.
    pub next_attempt: Option<Instant>,
    /// Whether no transition is pending.
    pub settled: bool,
    /// Whether what is pending leads to a start: calls wait for its outcome.
    pub starts: bool,
    /// How it ended by itself, since it was last ready.
    pub ended: Option<ExitView>,
    /// The number of the last session that callers could use.
    pub opened: u64,
    /// Number of the session; reports about an older one are ignored.
    pub generation: u64,
    /// Its session, while callers may use it.
    pub session: Option<Arc<dyn SessionHandle>>,
    /// Its process while it lives, for inspection.
    pub process: Option<Arc<dyn ProcessHandle>>,
    /// Data of its current or last session.
    pub about: Option<Arc<SessionView>>,
    /// Its lists, without the tools hidden by the entry's filter; kept when the server dies.
    pub capabilities: Arc<Capabilities>,
    /// Tools hidden by the entry's filter.
    pub hidden: Arc<[Arc<str>]>,
}

/// A call in flight.
#[derive(Debug)]
pub struct InFlight {
    /// The immutable part of the view.
    pub view: CallView,
    /// Its clock, progress and byte counts; written by the session.
    pub pending: Arc<PendingRequest>,
    /// Reaches the user who is with its caller.
    pub asker: Option<Asker>,
}

/// Session settings requested by the host; they outlive a session.
#[derive(Default)]
struct Desired {
    /// Subscribed resources, with the number of subscribers.
    subscriptions: BTreeMap<Arc<str>, usize>,
    log_level: Option<LogLevel>,
}

/// The newest snapshot of a server. Nobody is told of changes before there are any: a server that is
/// disabled has none.
struct LiveCell {
    first: Arc<Live>,
    sender: OnceLock<watch::Sender<Arc<Live>>>,
}

impl LiveCell {
    fn sender(&self) -> &watch::Sender<Arc<Live>> {
        self.sender.get_or_init(|| watch::Sender::new(Arc::clone(&self.first)))
    }

    fn get(&self) -> Arc<Live> {
        match self.sender.get() {
            Some(sender) => Arc::clone(&sender.borrow()),
            None => Arc::clone(&self.first),
        }
    }
}

/// Counters and breakers of one server, behind one lock that is held only briefly.
#[derive(Default)]
pub struct Ledger {
    /// All requests.
    pub total: Metrics,
    /// Requests by target (`tools/call echo`).
    pub targets: BTreeMap<Arc<str>, Metrics>,
    /// Breakers with recorded failures: those of tools, and that of the server (`None`).
    pub breakers: BTreeMap<Option<Arc<str>>, Breaker>,
}

impl Slot {
    /// A server that has not started; its actor begins with the first command.
    pub fn new(config: Arc<ServerConfig>, commands: Mailbox) -> Self {
        let state = if config.disabled { ServerState::Disabled } else { ServerState::Waiting };
        let live = Live {
            state,
            reason: None,
            retry_at: None,
            next_attempt: None,
            settled: config.disabled,
            starts: !config.disabled,
            ended: None,
            opened: 0,
            generation: 0,
            session: None,
            process: None,
            about: None,
            capabilities: Capabilities::none(),
            hidden: Arc::from([]),
            config: Arc::clone(&config),
        };
        let commands = Arc::new(commands);
        let busy = TaskTracker::new();
        // `wait` requires a closed tracker; tokens can still be created.
        busy.close();
        Self {
            name: config.name.clone(),
            account: Arc::new(Account::new(Arc::downgrade(&commands))),
            commands,
            black_box: OnceLock::new(),
            redactor: Redactor::default(),
            bytes: Arc::default(),
            tasks: Arc::default(),
            turns: Turns::default(),
            persons: Persons::default(),
            probed: Notify::new(),
            desired: Mutex::default(),
            live: LiveCell { first: Arc::new(live), sender: OnceLock::new() },
            ledger: OnceLock::new(),
            calls: Mutex::default(),
            busy,
            used: AtomicU64::new(0),
            made: Instant::now(),
        }
    }

    fn now(&self) -> u64 {
        self.made.elapsed().as_millis() as u64
    }

    /// How long it has been idle; `None` while it is in use.
    pub fn idle_for(&self) -> Option<Duration> {
        let used = !self.busy.is_empty() || !self.calls().is_empty();
        let used = used || !self.desired.lock().subscriptions.is_empty();
        let since = self.now().saturating_sub(self.used.load(Relaxed));
        (!used).then(|| Duration::from_millis(since))
    }

    /// Starts it when it sleeps, and waits for a start that is under way, whoever asked for it: all
    /// callers share it. Returns when it is ready or has failed.
    ///
    /// # Errors
    /// [`ErrorCode::ServerUnavailable`] when that takes longer than until `deadline`, or cannot
    /// happen before.
    pub async fn wake(&self, deadline: Instant) -> Result<(), Error> {
        let start = async {
            if self.live().is_asleep() {
                self.command(|done| Command::Control(LifecycleInput::Start, done)).await;
            }
            let mut watch = self.watch();
            let _ = watch.wait_for(|live| !live.is_coming() || live.starts_after(deadline)).await;
        };
        let is_over = tokio::time::timeout_at(deadline, start).await.is_ok();
        let live = self.live();
        if is_over && !(live.is_coming() && live.starts_after(deadline)) {
            return Ok(());
        }
        Err(live.unavailable())
    }

    /// Sends a command and waits until it is processed. Returns `false` without an actor.
    pub async fn command(&self, command: impl FnOnce(oneshot::Sender<()>) -> Command) -> bool {
        let (done, taken) = oneshot::channel();
        let is_sent = self.commands.send(command(done)).await;
        if is_sent {
            let _ = taken.await;
        }
        is_sent
    }

    /// Marks a request of a caller as being processed by the server, until the guard is dropped.
    pub fn enter(&self) -> Busy<'_> {
        Busy { slot: self, _token: self.busy.token() }
    }

    /// Waits until the server processes no request of a caller.
    pub async fn idle(&self) {
        self.busy.wait().await;
    }

    /// Number of messages in the black box.
    pub const MAX_BLACK_BOX_MESSAGES: usize = 200;

    /// The most recent traffic of this server, kept across restarts.
    pub fn black_box(&self) -> &Ring<TrafficRecord> {
        self.black_box.get_or_init(|| Ring::new(Self::MAX_BLACK_BOX_MESSAGES, 1 << 20))
    }

    /// The current snapshot.
    pub fn live(&self) -> Arc<Live> {
        self.live.get()
    }

    /// Every later snapshot.
    pub fn watch(&self) -> watch::Receiver<Arc<Live>> {
        self.live.sender().subscribe()
    }

    /// Publishes a changed snapshot. Called by the actor only.
    pub fn publish(&self, change: impl FnOnce(&mut Live)) {
        self.live.sender().send_modify(|live| change(Arc::make_mut(live)));
    }

    /// Publishes a new session. Called by the actor only.
    pub fn open_for_callers(&self, opened: &Opened) {
        let about = Some(opened.session.view());
        self.used.store(self.now(), Relaxed);
        self.publish(|live| {
            live.session = Some(Arc::clone(&opened.session));
            live.about = about;
            live.ended = None;
            live.opened = live.generation;
        });
    }

    /// Rejects further calls before the actor learns the reason, so that none slips through between
    /// a timeout and its consequence. Callers must notify the actor afterwards, which alone decides
    /// what follows. Returns whether it took effect; a no-op when the session was replaced.
    pub fn turn_away(&self, generation: u64, reason: &SafeText) -> bool {
        self.live.sender().send_if_modified(|live| {
            let current = live.generation == generation && live.session.is_some();
            if current {
                let live = Arc::make_mut(live);
                live.session = None;
                live.state = ServerState::Unavailable;
                live.reason = Some(reason.clone());
            }
            current
        })
    }

    /// Counters and breakers. Callers must not hold the guard across an await.
    pub fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.get_or_init(Box::default).lock()
    }

    /// Calls in flight. Callers must not hold the guard across an await.
    pub fn calls(&self) -> MutexGuard<'_, BTreeMap<CallId, Arc<InFlight>>> {
        self.calls.lock()
    }

    /// Resources the host is subscribed to.
    pub fn subscriptions(&self) -> Vec<Arc<str>> {
        self.desired.lock().subscriptions.keys().cloned().collect()
    }

    /// Adds (`1`) or removes (`-1`) a subscriber of a resource; returns the new number.
    pub fn subscribed(&self, uri: &str, more: isize) -> usize {
        let mut desired = self.desired.lock();
        let count = desired.subscriptions.entry(uri.into()).or_default();
        *count = count.saturating_add_signed(more);
        let now = *count;
        desired.subscriptions.retain(|_, count| *count > 0);
        now
    }

    /// The log level chosen by the user.
    pub fn log_level(&self) -> Option<LogLevel> {
        self.desired.lock().log_level
    }

    /// Sets the log level chosen by the user.
    pub fn set_log_level(&self, level: LogLevel) {
        self.desired.lock().log_level = Some(level);
    }

    /// Closes every breaker, its own and those of its tools; returns the facts to record.
    pub fn close_breakers(&self, now: Timestamp) -> Vec<Fact> {
        let tools: Vec<_> = self.ledger().breakers.keys().cloned().collect();
        tools.iter().filter_map(|tool| self.close_breaker(tool.as_deref(), now)).collect()
    }

    /// Closes its own breaker or that of a tool; returns the fact to record, unless it was closed.
    pub fn close_breaker(&self, tool: Option<&str>, now: Timestamp) -> Option<Fact> {
        let before = self.ledger().breakers.remove(&tool.map(Arc::from))?;
        let (tool, breaker) = (tool.map(SafeText::line), BreakerView::Closed);
        (before.view(now) != breaker).then_some(Fact::BreakerChanged { tool, breaker })
    }

    /// Looks up a call in flight.
    pub fn call_in_flight(&self, call: CallId) -> Option<CallInFlight> {
        let calls = self.calls();
        let call = calls.get(&call)?;
        let caller = call.pending.caller.get().map_or("", |caller| caller);
        let caller = SafeText::line(caller);
        Some(CallInFlight { target: call.view.target.clone(), caller, asker: call.asker.clone() })
    }

    /// A snapshot of the metrics.
    pub fn metrics(&self) -> ServerMetrics {
        let mut metrics = ServerMetrics::default();
        if let Some(ledger) = self.ledger.get() {
            let ledger = ledger.lock();
            let targets = ledger.targets.iter().map(|(key, m)| (key.to_string(), m.view()));
            metrics = ServerMetrics { total: ledger.total.view(), by_target: targets.collect() };
        }
        let total = &mut metrics.total;
        (total.bytes_in, total.bytes_out) = self.bytes.totals();
        total.last_heard = self.bytes.last_heard();
        metrics
    }
}

impl Ledger {
    /// Maximum number of targets counted separately; further ones are counted under the method.
    const MAX_TARGETS: usize = 10_000;

    /// Counts a request that starts; returns the key under which it is counted.
    pub fn begin(&mut self, method: &str, target: &str, now: Timestamp) -> Arc<str> {
        self.total.begin(now);
        let many = self.targets.len() >= Self::MAX_TARGETS;
        // Resources are counted by method: the number of URIs is unbounded.
        let by_method = target.is_empty() || many || method == "resources/read";
        let key: Cow<'_, str> =
            if by_method { method.into() } else { [method, " ", target].concat().into() };
        let mut known = self.targets.range_mut::<str, _>((Included(&*key), Included(&*key)));
        if let Some((key, metrics)) = known.next() {
            metrics.begin(now);
            return Arc::clone(key);
        }
        let key: Arc<str> = key.into();
        self.targets.entry(Arc::clone(&key)).or_default().begin(now);
        key
    }

    /// Counts a request that ended.
    pub fn end(&mut self, key: &str, ending: Ending, took: Duration, at: Timestamp) {
        self.total.end(ending, took, at);
        if let Some(metrics) = self.targets.get_mut(key) {
            metrics.end(ending, took, at);
        }
    }
}

impl Live {
    /// The session to call.
    ///
    /// # Errors
    /// [`ErrorCode::ServerUnavailable`] with the state, the reason and help.
    pub fn session(&self) -> Result<&Arc<dyn SessionHandle>, Error> {
        self.session.as_ref().ok_or_else(|| self.unavailable())
    }

    /// Whether it sleeps; a call starts it.
    pub fn is_asleep(&self) -> bool {
        self.session.is_none() && self.state == ServerState::Sleeping
    }

    /// Whether it accepts calls: it is ready, or a call starts it.
    pub fn is_callable(&self) -> bool {
        self.session.is_some() || self.is_asleep()
    }

    /// Whether a start of it is under way; a call waits for its outcome.
    pub fn is_coming(&self) -> bool {
        self.session.is_none() && self.starts && !self.settled
    }

    /// Whether the next attempt of its start is scheduled for a moment after `deadline`.
    fn starts_after(&self, deadline: Instant) -> bool {
        self.next_attempt.is_some_and(|at| at > deadline)
    }

    /// The time until the next attempt, when one is scheduled.
    fn until_attempt(&self) -> Option<Duration> {
        self.next_attempt.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// # Errors
    /// As [`Live::session`], unless a call would start the server.
    pub fn callable(&self) -> Result<(), Error> {
        if self.is_callable() { Ok(()) } else { Err(self.unavailable()) }
    }

    /// The error for a server that cannot be called.
    pub fn unavailable(&self) -> Error {
        let help = match self.state {
            ServerState::Sleeping => "call it: a call starts it",
            ServerState::Disabled => "enable it in its entry, or start it",
            ServerState::Starting | ServerState::Waiting => "wait until it is ready",
            ServerState::Unavailable if self.retry_at.is_some() => "it will be tried again",
            ServerState::Unavailable | ServerState::Shutdown | ServerState::Ready => "restart it",
        };
        let state = match (self.state, &self.reason) {
            // Its session has ended, its process is being stopped.
            (ServerState::Ready, Some(reason)) => format!("going down: {reason}"),
            (ServerState::Ready, None) => "going down".to_owned(),
            (state, reason) => state.because(reason.as_ref()),
        };
        let message = format!("the server is {state}");
        let error = Error::new(ErrorCode::ServerUnavailable, message);
        self.explain(error.server(&self.config.name).help(help))
    }

    /// Adds why the server is down, and when to try again, to an error about it.
    pub fn explain(&self, mut error: Error) -> Error {
        error.outage = self.outage();
        error.retry_after = self.retry_after();
        error
    }

    /// When a call may succeed again, as far as that is known.
    fn retry_after(&self) -> Option<Duration> {
        /// For a start whose end nobody knows.
        const STARTING_RETRY_INTERVAL: Duration = Duration::from_secs(1);
        let is_coming = self.is_coming() || self.is_asleep();
        self.until_attempt().or(is_coming.then_some(STARTING_RETRY_INTERVAL))
    }

    /// Why it cannot be called, in words that reveal nothing of this machine: they
    /// complete "the server ...". `None` while it can be.
    pub fn outage(&self) -> Option<String> {
        if self.session.is_some() {
            return None;
        }
        let is_lost = self.opened == self.generation && self.generation > 0;
        let why = match self.state {
            ServerState::Disabled => "is switched off".to_owned(),
            ServerState::Sleeping => "is asleep: a call starts it".to_owned(),
            ServerState::Starting => "is starting".to_owned(),
            ServerState::Waiting if self.config.hold.is_some() => {
                "waits for the operator".to_owned()
            }
            ServerState::Waiting if self.config.dependencies.is_empty() => "is starting".to_owned(),
            ServerState::Waiting => "waits for a server that it needs".to_owned(),
            ServerState::Ready => "is going down".to_owned(),
            ServerState::Shutdown if self.is_coming() => "is restarting".to_owned(),
            ServerState::Shutdown => "was stopped by the operator".to_owned(),
            ServerState::Unavailable => {
                let cause = match &self.ended {
                    Some(exit) => format!("ended by itself ({})", exit.describe()),
                    None if is_lost => "no longer answers".to_owned(),
                    None => "could not be started".to_owned(),
                };
                match self.until_attempt() {
                    Some(wait) => {
                        format!("{cause}; it is tried again in {:.0} s", wait.as_secs_f64().ceil())
                    }
                    None if self.is_coming() => format!("{cause}; it is being restarted"),
                    None if !self.settled => cause,
                    None => format!(
                        "{cause} and is not restarted by itself: the operator restarts it, or sets \
                         `restart` in its entry"
                    ),
                }
            }
        };
        Some(why)
    }

    /// A tool by its name on the server.
    pub fn tool(&self, name: &str) -> Option<&Arc<Tool>> {
        self.capabilities.tools.iter().find(|tool| &*tool.name == name)
    }
}
