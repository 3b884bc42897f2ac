//! The tap: every message of one connection passes here once, in wire order, both ways.
//!
//! Owns the one table of open requests, in both directions. What comes in is understood, attributed,
//! recorded and given to whoever waits for it; what cannot be becomes a finding and, when it was
//! somebody's answer, fails that request at once. Reading must not await, whatever the transport.

mod answers;
mod inbound;
mod notices;
mod outgoing;
mod owner;
mod record;
mod requests;
mod tasks;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::RequestId;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::text::SafeText;
use crate::error::Error;
use crate::mcp::CallId;
use crate::mcp::Claim;
use crate::mcp::pending::PendingRequest;
use crate::mcp::session::{SessionContext, SessionEvent};
use crate::mcp::transport::Transport;
use crate::mcp::wire::ids::ById;
use crate::mcp::wire::json::Budget;
use crate::mcp::wire::pump::Pump;
use crate::mcp::{Finding, FindingKind, Payload};

use record::JunkWindow;
pub use record::method_name;
pub use requests::kind;
pub use tasks::Attended;

/// The tap of one connection.
pub struct Tap {
    /// What the session was given.
    pub context: SessionContext,
    /// The way to the owner.
    pub pump: Arc<Pump>,
    /// Fires when the connection is over; nothing comes and nothing can be sent any more.
    pub over: CancellationToken,
    /// Whether the server asked for authorisation (HTTP 401).
    pub unauthorized: AtomicBool,
    me: Weak<Self>,
    transport: OnceLock<Weak<dyn Transport>>,
    ending: OnceLock<String>,
    /// Bytes of answers since the transport asked last.
    answered: AtomicUsize,
    state: Mutex<State>,
}

/// What a round trip gives.
pub type Answer = Result<Payload, Error>;

#[derive(Default)]
struct State {
    /// Open requests of the host, by id.
    pending: ById<Entry>,
    /// Requests by progress token.
    tokens: ById<Arc<PendingRequest>>,
    /// Calls that run as tasks, which are in flight between their requests too.
    tasks: Vec<tasks::Running>,
    /// Requests nobody waits for any more, oldest first.
    abandoned: VecDeque<Abandoned>,
    /// Ids from here on were never used; tokens are the same numbers.
    next_id: i64,
    /// Open requests of the server.
    open: HashMap<RequestId, Open>,
    /// Negotiated version.
    version: Option<Arc<str>>,
    modern: bool,
    /// Lines of a message that is printed over several lines.
    spread: inbound::Spread,
    junk: JunkWindow,
    /// When a flood was last told of.
    flooded: Option<Instant>,
}

/// One round trip: a request of the host that waits for its answer.
struct Entry {
    method: SafeText,
    target: Option<SafeText>,
    request: Arc<PendingRequest>,
    token: bool,
    sent: Instant,
    /// Where its answer goes.
    answer: oneshot::Sender<Answer>,
}

impl Entry {
    /// Whether it is answered only when its subscription ends.
    fn listens(&self) -> bool {
        self.method.as_str() == "subscriptions/listen"
    }

    fn is_probe(&self) -> bool {
        self.method.as_str() == "server/discover"
    }

    /// `tools/call echo`
    fn name(&self) -> SafeText {
        full_name(&self.method, self.target.as_ref())
    }
}

struct Abandoned {
    id: i64,
    method: SafeText,
    target: Option<SafeText>,
    call: Option<CallId>,
    sent: Instant,
    why: &'static str,
}

struct Open {
    method: SafeText,
    /// Of its message: what is open is kept whole.
    bytes: usize,
    call: Option<CallId>,
    arrived: Instant,
    claim: Arc<Claim>,
    /// Fires when the server takes it back.
    withdrawn: CancellationToken,
}

impl Tap {
    /// Why nobody waits for an answer any more when another one came first.
    pub const OVERTAKEN: &str = "was overtaken";
    /// Abandoned requests that are remembered, to tell a late answer from a second one.
    const ABANDONED: usize = 1024;

    /// A tap for a connection that is being opened.
    pub fn new(context: SessionContext) -> Arc<Self> {
        let pump = Pump::new(context.events.clone());
        Arc::new_cyclic(|me| Self {
            context,
            pump,
            over: CancellationToken::new(),
            unauthorized: AtomicBool::new(false),
            me: Weak::clone(me),
            transport: OnceLock::new(),
            ending: OnceLock::new(),
            answered: AtomicUsize::new(0),
            state: Mutex::default(),
        })
    }

    /// What messages of the host go through.
    pub fn send_through(&self, transport: &Arc<dyn Transport>) {
        let _ = self.transport.set(Arc::downgrade(transport));
    }

    /// Limits of one message.
    pub fn budget(&self) -> Budget {
        let limits = &self.context.limits;
        let bytes = limits.line_bytes.saturating_mul(Budget::PER_BYTE);
        Budget { depth: limits.depth, nodes: limits.nodes, bytes }
    }

    /// Bytes arrived, whatever they are.
    pub fn arrived(&self, bytes: usize) {
        self.context.bytes.received(bytes);
        if self.context.seen.bytes(bytes) {
            self.pump.push(SessionEvent::FirstByte);
        }
    }

    /// Bytes of answers to requests of the host since this was asked last.
    pub fn take_answered(&self) -> usize {
        self.answered.swap(0, Ordering::Relaxed)
    }

    /// The server writes so much that nobody asked for that it is read more slowly. Told once a
    /// minute.
    pub fn floods(&self) {
        const EVERY: Duration = Duration::from_secs(60);
        let now = Instant::now();
        let mut state = self.state();
        if state.flooded.is_some_and(|at| now - at < EVERY) {
            return;
        }
        state.flooded = Some(now);
        drop(state);
        let what = if self.context.seen.is_http() { "what it sends" } else { "its stdout" };
        let message =
            format!("writes more than anybody asked for; {what} is read at a limited rate");
        self.find(FindingKind::Flood, &message, b"", None);
    }

    /// A version was agreed on.
    pub fn negotiated(&self, version: &str, modern: bool) {
        let mut state = self.state();
        state.version = Some(version.into());
        state.modern = modern;
    }

    /// Nobody waits for the answer of this request any more. True when it was open: the server
    /// should be told.
    pub fn abandon(&self, id: i64, why: &'static str) -> bool {
        let mut state = self.state();
        let Some(entry) = state.take(id) else { return false };
        state.remember(id, entry, why);
        true
    }

    /// Whether the request still waits for its answer.
    pub fn is_pending(&self, id: i64) -> bool {
        self.state().pending.contains_key(&id)
    }

    /// Whether other requests of the host are open beside this one.
    pub fn is_busy(&self) -> bool {
        let state = self.state();
        let mut calls = state.pending.values().filter(|entry| !entry.listens());
        calls.nth(1).is_some()
    }

    /// The call during which a message from the server probably comes: the one that is told by
    /// `stream`, or the only one that is open.
    fn during(&self, stream: Option<i64>) -> Option<Arc<PendingRequest>> {
        let state = self.state();
        if let Some(id) = stream {
            let request = &state.pending.get(&id)?.request;
            return request.call.map(|_| Arc::clone(request));
        }
        let mut calls = state.calls();
        let only = calls.next()?;
        calls.all(|other| Arc::ptr_eq(other, only)).then(|| Arc::clone(only))
    }

    /// Every call in flight: any of them may be the one during which the server asks.
    fn in_flight(&self) -> Vec<Arc<PendingRequest>> {
        self.state().calls().map(Arc::clone).collect()
    }

    /// The connection is over: what waits behind the last line is looked at, and nothing is open
    /// any more.
    pub fn ended(&self, reason: &str) {
        for open in self.state().open.values() {
            open.claim.withdraw("its session ended");
        }
        let spread = std::mem::take(&mut self.state().spread);
        if !spread.text.is_empty() {
            let message = "the output ended inside a message";
            self.find(FindingKind::Malformed, message, &spread.text, None);
        }
        self.roll_junk();
        if self.end(reason) {
            self.pump.push(SessionEvent::Closed(SafeText::line(reason)));
        }
    }

    /// The server can be told nothing any more, although it may still speak: what is open may be
    /// answered, but the owner must know.
    pub fn unreachable(&self, reason: &str) {
        if !self.over.is_cancelled() && self.ending.set(reason.to_owned()).is_ok() {
            self.pump.push(SessionEvent::Closed(SafeText::line(reason)));
        }
    }

    /// The connection is over for this reason. False when it already was.
    pub fn end(&self, reason: &str) -> bool {
        let first = self.ending.set(reason.to_owned()).is_ok();
        self.over.cancel();
        first
    }

    /// Why the connection is over.
    pub fn ending(&self) -> &str {
        self.ending.get().map_or("the session ended", String::as_str)
    }

    /// Reports what the session found in an answer.
    pub fn report(&self, kind: FindingKind, message: &str, raw: &str, request: Option<&str>) {
        self.find(kind, message, raw.as_bytes(), request.map(method_name));
    }

    /// Reports what was found in the answer of a request, to whoever asked too.
    fn find_in(&self, entry: &Entry, kind: FindingKind, message: &str, raw: &[u8]) {
        let finding = self.finding(kind, message, raw, Some(entry.name()), 1);
        entry.request.found(finding.clone());
        self.pump.push(SessionEvent::Finding(finding));
    }

    /// Reports a finding.
    fn find(&self, kind: FindingKind, message: &str, raw: &[u8], request: Option<SafeText>) {
        self.find_many(kind, message, raw, request, 1);
    }

    fn find_many(
        &self,
        kind: FindingKind,
        message: &str,
        raw: &[u8],
        request: Option<SafeText>,
        count: u64,
    ) {
        let finding = self.finding(kind, message, raw, request, count);
        self.pump.push(SessionEvent::Finding(finding));
    }

    fn finding(
        &self,
        kind: FindingKind,
        message: &str,
        raw: &[u8],
        request: Option<SafeText>,
        count: u64,
    ) -> Finding {
        Finding {
            raw: SafeText::line(&self.text(raw, Finding::RAW)),
            request,
            count,
            ..Finding::new(kind, self.context.clock.now(), self.remark(message).as_str())
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// The requests of callers; one with several round trips more than once.
    fn calls(&self) -> impl Iterator<Item = &Arc<PendingRequest>> {
        let asked = self.pending.values().map(|entry| &entry.request);
        asked.chain(self.in_tasks()).filter(|request| request.call.is_some())
    }

    /// The only request an unattributed answer can be meant for.
    fn only_pending(&self) -> Option<i64> {
        let mut ids = self.pending.iter().filter(|(_, entry)| !entry.listens());
        let only = *ids.next()?.0;
        ids.next().is_none().then_some(only)
    }

    fn remember(&mut self, id: i64, entry: Entry, why: &'static str) {
        if self.abandoned.len() == Tap::ABANDONED {
            self.abandoned.pop_front();
        }
        let call = entry.request.call;
        let Entry { method, target, sent, .. } = entry;
        self.abandoned.push_back(Abandoned { id, method, target, call, sent, why });
    }
}

fn full_name(method: &SafeText, target: Option<&SafeText>) -> SafeText {
    target.map_or_else(|| method.clone(), |target| SafeText::line(&format!("{method} {target}")))
}
