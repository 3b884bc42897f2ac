//! The tap: every message of one connection passes here once, in wire order, both ways.
//!
//! Owns the one table of open requests, in both directions. What comes in is understood, attributed,
//! recorded and given to whoever waits for it; what cannot be becomes a finding and, when it was
//! somebody's answer, fails that request at once. Reading must not await, whatever the transport.

mod answers;
mod inbound;
mod record;
mod requests;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::RequestId;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::json::Budget;
use super::message::Outcome;
use super::pump::Pump;
use crate::base::SafeText;
use crate::error::Error;
use crate::mcp::pending::{ById, PendingRequest};
use crate::mcp::session::message::RpcRequest;
use crate::mcp::session::{SessionContext, SessionEvent};
use crate::mcp::traffic::{Direction, MessageKind, TrafficRecord};
use crate::mcp::transport::{SendError, Transport};
use crate::mcp::{CallId, Claim, Finding, FindingKind, Payload};
pub use answers::Attended;
use answers::protocol;
use inbound::Source;
pub use record::method_name;
use record::{JunkWindow, id_text};
pub use requests::kind;

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
    tasks: Vec<answers::Running>,
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
        let mut state = self.state.lock();
        if state.flooded.is_some_and(|at| now - at < EVERY) {
            return;
        }
        state.flooded = Some(now);
        drop(state);
        let what = if self.context.seen.is_http() { "what it sends" } else { "its stdout" };
        let message = format!("writes more than was requested; {what} is read at a limited rate");
        self.find(FindingKind::Flood, &message, b"", None);
    }

    /// A version was agreed on.
    pub fn negotiated(&self, version: &str, modern: bool) {
        let mut state = self.state.lock();
        state.version = Some(version.into());
        state.modern = modern;
    }

    /// Nobody waits for the answer of this request any more. True when it was open: the server
    /// should be told.
    pub fn abandon(&self, id: i64, why: &'static str) -> bool {
        let mut state = self.state.lock();
        let Some(entry) = state.take(id) else { return false };
        state.remember(id, entry, why);
        true
    }

    /// Whether the request still waits for its answer.
    pub fn is_pending(&self, id: i64) -> bool {
        self.state.lock().pending.contains_key(&id)
    }

    /// Whether other requests of the host are open beside this one.
    pub fn is_busy(&self) -> bool {
        let state = self.state.lock();
        let mut calls = state.pending.values().filter(|entry| !entry.listens());
        calls.nth(1).is_some()
    }

    /// The call during which a message from the server probably comes: the one that is told by
    /// `stream`, or the only one that is open.
    fn during(&self, stream: Option<i64>) -> Option<Arc<PendingRequest>> {
        let state = self.state.lock();
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
        self.state.lock().calls().map(Arc::clone).collect()
    }

    /// The connection is over: what waits behind the last line is looked at, and nothing is open
    /// any more.
    pub fn ended(&self, reason: &str) {
        for open in self.state.lock().open.values() {
            open.claim.withdraw("its session ended");
        }
        let spread = std::mem::take(&mut self.state.lock().spread);
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
        let finding = self.finding(kind, message, raw, Some(entry.name()));
        entry.request.found(finding.clone());
        self.pump.push(SessionEvent::Finding(finding));
    }

    /// Reports a finding.
    fn find(&self, kind: FindingKind, message: &str, raw: &[u8], request: Option<SafeText>) {
        self.pump.push(SessionEvent::Finding(self.finding(kind, message, raw, request)));
    }

    fn finding(
        &self,
        kind: FindingKind,
        message: &str,
        raw: &[u8],
        request: Option<SafeText>,
    ) -> Finding {
        Finding {
            raw: SafeText::line(&self.text(raw, Finding::RAW)),
            request,
            ..Finding::new(kind, self.context.clock.now(), self.remark(message).as_str())
        }
    }

    // What the host sends: requests into the table before they are written, everything into the record.

    /// Takes a request into the table, before it is written: gives its id, which is its progress
    /// token too, and where its answer will be.
    pub fn admit(
        &self,
        rpc: &RpcRequest,
        request: &Arc<PendingRequest>,
    ) -> (i64, oneshot::Receiver<Answer>) {
        let (answer, answered) = oneshot::channel();
        let method = method_name(&rpc.method);
        let shakes = rpc.is_handshake();
        if shakes {
            self.context.seen.asked(&rpc.method);
        }
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        if !shakes {
            state.tokens.insert(id, Arc::clone(request));
        }
        let (target, request) = (rpc.target.clone(), Arc::clone(request));
        let sent = Instant::now();
        let entry = Entry { method, target, request, sent, answer };
        state.pending.insert(id, entry);
        (id, answered)
    }

    /// An admitted request is about to be written.
    pub fn asking(&self, id: i64, rpc: &RpcRequest, request: &PendingRequest, body: &[u8]) {
        self.context.bytes.sent(body.len() + 1);
        request.bytes.sent(body.len() + 1);
        self.record(TrafficRecord {
            method: Some(method_name(&rpc.method)),
            target: rpc.target.clone(),
            id: Some(record::id_text(&RequestId::Number(id))),
            call: request.call,
            queued: request.queued(),
            ..self.passed(Direction::Out, MessageKind::Request, body)
        });
    }

    /// Queues a notification for the server.
    pub fn notify(&self, method: &str, params: Value) {
        let body = self.notification(method, params);
        self.queue(body);
    }

    /// A notification as it is about to be written.
    pub fn notification(&self, method: &str, params: Value) -> Vec<u8> {
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        let body = message.to_string().into_bytes();
        self.context.bytes.sent(body.len() + 1);
        self.record(TrafficRecord {
            method: Some(method_name(method)),
            ..self.passed(Direction::Out, MessageKind::Notification, &body)
        });
        body
    }

    /// Answers a request of the server.
    fn reply(&self, id: &RequestId, answer: Result<Value, (i64, String)>) {
        let kind = if answer.is_ok() { MessageKind::Response } else { MessageKind::Error };
        let message = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
        };
        let body = message.to_string().into_bytes();
        self.context.bytes.sent(body.len() + 1);
        let mut passed = self.passed(Direction::Out, kind, &body);
        passed.id = Some(record::id_text(id));
        if let Some(open) = self.state.lock().open.remove(id) {
            passed.latency = Some(open.arrived.elapsed());
            passed.method = Some(open.method);
            passed.call = open.call;
        }
        self.record(passed);
        self.queue(body);
    }

    /// Hands over what nobody waits for. A server that asks and asks, and reads no answer, is cut
    /// off; a broken pipe is told to the next request.
    fn queue(&self, body: Vec<u8>) {
        let Some(transport) = self.transport.get().and_then(Weak::upgrade) else { return };
        if let Err(error @ SendError::Unread(_)) = transport.queue(body)
            && !self.over.is_cancelled()
        {
            let reason = error.to_string();
            self.find(FindingKind::Flood, &reason, b"", None);
            self.ended(&reason);
        }
    }

    // Which request an answer belongs to: the one it names, one that nobody waits for any more, or none.

    /// Whose answer names this id; what is nobody's is told here.
    fn owner(&self, id: &RequestId, source: &mut Source<'_>) -> Option<(i64, Entry)> {
        let mut state = self.state.lock();
        let wanted = number(id);
        if let Some(number) = wanted
            && let Some(entry) = state.take(number)
        {
            if matches!(id, RequestId::String(_)) {
                source.notes.push(format!("id {number} came back as a string"));
            }
            return Some((number, entry));
        }
        if let Some(at) = wanted.and_then(|n| state.abandoned.iter().position(|a| a.id == n)) {
            let late = state.abandoned.remove(at)?;
            drop(state);
            self.late(&late, source);
            return None;
        }
        let used = wanted.is_some_and(|n| (0..state.next_id).contains(&n));
        let only = state.only_pending().filter(|_| !used);
        // Before the handshake is over nothing else can come that is meant for it.
        let shaking = only.filter(|_| state.version.is_none());
        let failed = shaking.and_then(|n| state.take(n));
        let doubted = only.and_then(|n| Some(Arc::clone(&state.pending.get(&n)?.request)));
        drop(state);
        let id = id_text(id);
        let (kind, message) = if used {
            (FindingKind::DuplicateAnswer, format!("a second answer to request {id}"))
        } else {
            (FindingKind::UnknownId, format!("an answer to request {id}, which was never sent"))
        };
        self.nobodys((kind, MessageKind::Response), &message, source.raw, Some(id));
        if let Some(request) = doubted {
            request.doubt(format!("the answer names the wrong request: {message}"));
        }
        if let Some(entry) = failed {
            self.finish(entry, Err(protocol(&message)));
        }
        None
    }

    fn late(&self, late: &Abandoned, source: &Source<'_>) {
        if late.why != Self::OVERTAKEN {
            let message = format!("an answer after its request {}", late.why);
            let name = full_name(&late.method, late.target.as_ref());
            self.find(FindingKind::LateAnswer, &message, source.raw, Some(name));
        }
        let problem = format!("late: the request {}", late.why);
        self.record(TrafficRecord {
            method: Some(late.method.clone()),
            target: late.target.clone(),
            id: Some(SafeText::number(late.id)),
            call: late.call,
            latency: Some(late.sent.elapsed()),
            problem: Some(self.remark(&problem)),
            ..self.came(MessageKind::Response, source.raw)
        });
    }

    /// A message that belongs to no request, or is none: found and recorded.
    fn nobodys(
        &self,
        (kind, of): (FindingKind, MessageKind),
        message: &str,
        raw: &[u8],
        id: Option<SafeText>,
    ) {
        self.find(kind, message, raw, None);
        let problem = Some(self.remark(message));
        self.record(TrafficRecord { id, problem, ..self.came(of, raw) });
    }

    /// An answer that names no request. A server that could not read ours answers with such an error;
    /// a result is nobody's, and only doubted to be that of the one request that waits.
    fn owner_without_id(&self, outcome: &Outcome, source: &Source<'_>) -> Option<(i64, Entry)> {
        let is_error = matches!(outcome, Outcome::Error(_));
        let mut state = self.state.lock();
        let only = state.only_pending();
        if is_error && let Some(id) = only {
            return state.take(id).map(|entry| (id, entry));
        }
        let doubted = only.and_then(|id| Some(Arc::clone(&state.pending.get(&id)?.request)));
        drop(state);
        if let Some(request) = doubted {
            request.doubt("the answer names no request".to_owned());
        }
        let message = match outcome {
            Outcome::Error(error) => format!("an error without an id: {}", error.message),
            _ => "an answer without an id".to_owned(),
        };
        let of = if is_error { MessageKind::Error } else { MessageKind::Response };
        self.nobodys((FindingKind::UnknownId, of), &message, source.raw, None);
        None
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

/// The number that an id is, also where it came back as text.
fn number(id: &RequestId) -> Option<i64> {
    match id {
        RequestId::Number(number) => Some(*number),
        RequestId::String(text) => text.parse().ok(),
    }
}
