//! The tap: every message of one connection passes here once, in wire order, both ways.
//!
//! Owns the table of open requests in both directions. What comes in is understood, attributed,
//! recorded and handed on; what cannot be handed on becomes a finding and, when it was somebody's
//! answer, fails that request at once. Must not await and must not know the transport.

mod answers;
mod decode;
mod inbound;
mod notices;
mod outgoing;
mod owner;
mod record;
mod requests;
mod tasks;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use rmcp::model::{RequestId, ServerJsonRpcMessage};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::text::SafeText;
use crate::error::Error;
use crate::mcp::CallId;
use crate::mcp::Claim;
use crate::mcp::session::{SessionContext, SessionEvent};
use crate::mcp::wire::exchange::{Exchange, Operation};
use crate::mcp::wire::ids::ById;
use crate::mcp::wire::json::Budget;
use crate::mcp::wire::pump::Pump;
use crate::mcp::{Finding, FindingKind};

use record::JunkWindow;
pub use record::method_name;
pub use requests::{Asked, Refusal};
pub use tasks::Attended;

/// The tap of one connection.
pub struct Tap {
    /// What the session was given.
    pub context: SessionContext,
    /// The way to the owner.
    pub pump: Arc<Pump>,
    /// Fires when the connection is over; nothing comes and nothing can be sent any more.
    pub over: CancellationToken,
    ending: OnceLock<String>,
    /// Bytes of answers since the transport asked last.
    answered: AtomicUsize,
    state: Mutex<State>,
}

/// Something for rmcp's service loop.
#[derive(Debug)]
pub struct Delivery {
    /// The message; results as raw values except in the handshake.
    pub message: ServerJsonRpcMessage,
    /// For an answer: what its request was.
    pub expects: Expects,
}

/// What a request of the host is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expects {
    /// A raw result.
    Raw,
    /// An `InitializeResult`.
    Initialize,
    /// A `DiscoverResult`.
    Discover,
    /// A page of tools, which the HTTP transport has to understand for its headers.
    Tools,
    /// Nothing, as long as the subscription lives.
    Listen,
}

#[derive(Default)]
struct State {
    /// Open requests of the host, by id.
    pending: ById<Entry>,
    /// Operations by progress token.
    tokens: ById<Arc<Operation>>,
    /// Calls that run as tasks, which are in flight between their requests too.
    tasks: Vec<tasks::Running>,
    /// Requests nobody waits for any more, oldest first.
    abandoned: VecDeque<Abandoned>,
    /// Ids from here on were never used.
    next_id: i64,
    next_token: i64,
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
    handshake: Handshake,
}

/// What the handshake left behind.
#[derive(Debug, Default)]
pub struct Handshake {
    /// The result as sent.
    pub result: Option<Value>,
    /// Why it failed, when the tap knows.
    pub failure: Option<Error>,
    /// `server/discover` was answered after its time.
    pub late_discover: bool,
}

struct Entry {
    method: SafeText,
    exchange: Option<Arc<Exchange>>,
    token: Option<i64>,
    sent: Instant,
    expects: Expects,
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
}

impl Tap {
    /// Abandoned requests that are remembered, to tell a late answer from a second one.
    const ABANDONED: usize = 1024;

    /// A tap for a connection that is being opened.
    pub fn new(context: SessionContext) -> Arc<Self> {
        let pump = Pump::new(context.events.clone());
        Arc::new(Self {
            context,
            pump,
            over: CancellationToken::new(),
            ending: OnceLock::new(),
            answered: AtomicUsize::new(0),
            state: Mutex::default(),
        })
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

    /// What the handshake left behind.
    pub fn take_handshake(&self) -> Handshake {
        std::mem::take(&mut self.state().handshake)
    }

    /// Nobody waits for the answer of this request any more. True when the server should be told:
    /// the request is open, or still on its way out.
    pub fn abandon(&self, id: i64, exchange: &Exchange, why: &'static str) -> bool {
        let mut state = self.state();
        if let Some(entry) = state.take(id) {
            state.remember(id, entry, why);
            return true;
        }
        exchange.give_up();
        id >= state.next_id
    }

    /// Whether the request still waits for its answer.
    pub fn is_pending(&self, id: i64) -> bool {
        self.state().pending.contains_key(&id)
    }

    /// Whether other requests of the host are open beside this one.
    pub fn is_busy(&self) -> bool {
        let state = self.state();
        let mut calls = state.pending.values().filter(|entry| entry.expects != Expects::Listen);
        calls.nth(1).is_some()
    }

    /// The operation during which a message from the server probably comes: the one that is told
    /// by `stream`, or the only one that is open.
    pub fn during(&self, stream: Option<&RequestId>) -> Option<Arc<Operation>> {
        let state = self.state();
        if let Some(RequestId::Number(id)) = stream {
            let exchange = state.pending.get(id)?.exchange.as_ref()?;
            return exchange.operation.call.map(|_| Arc::clone(&exchange.operation));
        }
        let mut calls = state.calls();
        let only = calls.next()?;
        calls.all(|other| Arc::ptr_eq(other, only)).then(|| Arc::clone(only))
    }

    /// Every call in flight: any of them may be the one during which the server asks.
    pub fn in_flight(&self) -> Vec<Arc<Operation>> {
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
    pub fn deaf(&self, reason: &str) {
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
        let finding = Finding {
            raw: SafeText::line(&self.text(raw, Finding::RAW)),
            request,
            count,
            ..Finding::new(kind, self.context.clock.now(), self.remark(message).as_str())
        };
        self.pump.push(SessionEvent::Finding(finding));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    /// The operations of callers; one with several requests open more than once.
    fn calls(&self) -> impl Iterator<Item = &Arc<Operation>> {
        let asked = self.pending.values().filter_map(|entry| entry.exchange.as_ref());
        let asked = asked.map(|exchange| &exchange.operation);
        asked.chain(self.in_tasks()).filter(|operation| operation.call.is_some())
    }

    /// The only request an unattributed answer can be meant for.
    fn only_pending(&self) -> Option<i64> {
        let mut ids = self.pending.iter().filter(|(_, e)| e.expects != Expects::Listen);
        let only = *ids.next()?.0;
        ids.next().is_none().then_some(only)
    }

    fn remember(&mut self, id: i64, entry: Entry, why: &'static str) {
        if self.abandoned.len() == Tap::ABANDONED {
            self.abandoned.pop_front();
        }
        self.abandoned.push_back(Abandoned {
            id,
            method: entry.method,
            target: entry.exchange.as_ref().and_then(|e| e.target.clone()),
            call: entry.exchange.as_ref().and_then(|e| e.operation.call),
            sent: entry.sent,
            why,
        });
    }

    /// `initialize` follows an unanswered `server/discover`: its answer, if it ever comes, must
    /// not be taken for that of the handshake.
    fn abandon_probes(&mut self) {
        let probes: Vec<i64> = self
            .pending
            .iter()
            .filter(|(_, entry)| entry.expects == Expects::Discover)
            .map(|(id, _)| *id)
            .collect();
        for id in probes {
            if let Some(entry) = self.pending.remove(&id) {
                self.remember(id, entry, "probe");
            }
        }
    }
}
