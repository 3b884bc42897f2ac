//! The tap: every message of one connection passes here once, in wire order, both ways.
//!
//! Owns the one table of open requests, in both directions. Incoming messages are parsed,
//! attributed, recorded and delivered to their request; what cannot be parsed becomes a finding
//! and, if it was an answer, fails its request at once. Reading must not await.

mod answers;
mod inbound;
mod record;
mod requests;
mod table;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::context::{SessionContext, SessionEvent};
use crate::id::RequestId;
use crate::json::ParseBudget;
use crate::message::Spread;
use crate::notice::Answer;
use crate::pending::PendingRequest;
use crate::pump::Pump;
use crate::request::RpcRequest;
use crate::rpc_code::RpcCode;
use crate::sending::{Outbox, SendError};
use crate::traffic::{Direction, FindingKind, MessageKind, TrafficRecord};
pub use answers::Attended;
use base::SafeText;
pub use inbound::UndecidedRequest;
pub use record::method_name;
use record::{JunkWindow, ReceivedText, id_text};
pub use table::RoundTripResult;
use table::{PendingTable, RoundTrip, ServerRequestEntry};

/// The tap of one connection.
pub struct Tap {
    /// The context of the session.
    pub context: SessionContext,
    /// Delivers events to the owner.
    pub pump: Arc<Pump>,
    /// Fires when the connection has ended: nothing arrives and nothing can be sent any more.
    pub over: CancellationToken,
    /// Fires when the server asks something after the end of the connection: it waits for an answer
    /// that can no longer come.
    pub asked_too_late: CancellationToken,
    /// Fires when a request of the host comes back as it was sent: the peer repeats what it reads.
    pub echoed: CancellationToken,
    /// Whether the host has closed the session, rather than the server or an error.
    closed: AtomicBool,
    /// Whether the server required authorisation (HTTP 401).
    pub unauthorized: AtomicBool,
    me: Weak<Self>,
    /// Has a request of the server decided.
    decide: fn(Arc<Self>, UndecidedRequest),
    outbox: OnceLock<Weak<dyn Outbox>>,
    ending: OnceLock<String>,
    /// Bytes of answers since the last [`Tap::take_answered`].
    answered: AtomicUsize,
    table: Mutex<PendingTable>,
    /// Lines of a message that is printed over several lines.
    spread: Mutex<Spread>,
    junk: Mutex<JunkWindow>,
    /// When a flood was last reported.
    flooded: Mutex<Option<Instant>>,
}

impl Tap {
    /// Why a request is abandoned when another answer came first.
    pub const OVERTAKEN: &str = "was overtaken";

    /// A tap for a connection that is being opened. `decide` has a request of the server decided, and
    /// must not wait for the decision, which goes to [`Tap::answer_open`]. At most `limits.approvals`
    /// of them are open at once, and none outlives the session.
    pub fn new(context: SessionContext, decide: fn(Arc<Self>, UndecidedRequest)) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            context,
            pump: Arc::default(),
            over: CancellationToken::new(),
            asked_too_late: CancellationToken::new(),
            echoed: CancellationToken::new(),
            closed: AtomicBool::new(false),
            unauthorized: AtomicBool::new(false),
            me: Weak::clone(me),
            decide,
            outbox: OnceLock::new(),
            ending: OnceLock::new(),
            answered: AtomicUsize::new(0),
            table: Mutex::default(),
            spread: Mutex::default(),
            junk: Mutex::default(),
            flooded: Mutex::default(),
        })
    }

    /// Sets where its own messages are left: answers and notifications.
    pub fn send_through(&self, outbox: &Arc<dyn Outbox>) {
        let _ = self.outbox.set(Arc::downgrade(outbox));
    }

    /// Limits of one message.
    pub fn budget(&self) -> ParseBudget {
        let limits = &self.context.limits;
        let bytes = limits.line_bytes.saturating_mul(ParseBudget::MAX_BYTES_PER_BYTE);
        ParseBudget { depth: limits.depth, nodes: limits.nodes, bytes }
    }

    /// Counts arrived bytes, of whatever kind.
    pub fn arrived(&self, bytes: usize) {
        self.context.bytes.received(bytes);
        self.context.bytes.heard(self.context.clock.now());
        if self.context.seen.bytes(self.context.clock.instant()) {
            self.pump.push(SessionEvent::FirstByte);
        }
    }

    /// Bytes of answers to requests of the host since the last call.
    pub fn take_answered(&self) -> usize {
        self.answered.swap(0, Ordering::Relaxed)
    }

    /// Reports, at most once a minute, that the server sends so much unsolicited data that it is
    /// read more slowly.
    pub fn floods(&self) {
        const FLOOD_REPORT_INTERVAL: Duration = Duration::from_secs(60);
        let now = self.context.clock.instant();
        let mut flooded = self.flooded.lock();
        if flooded.is_some_and(|at| now - at < FLOOD_REPORT_INTERVAL) {
            return;
        }
        *flooded = Some(now);
        drop(flooded);
        let what = if self.is_http() { "what it sends" } else { "its stdout" };
        let message = format!("writes more than was requested; {what} is read at a limited rate");
        self.find(FindingKind::Flood, &message, b"", None);
    }

    /// Records the agreed version.
    pub fn negotiated(&self, version: &str, modern: bool) {
        let mut table = self.table.lock();
        table.version = Some(version.into());
        table.modern = modern;
    }

    /// Abandons a request whose answer is no longer wanted, or cannot come any more for a reason.
    /// Returns true when it was open: then the server should be notified.
    pub fn abandon(&self, id: i64, why: &'static str, reason: &str) -> bool {
        let mut table = self.table.lock();
        let Some(entry) = table.take(id) else { return false };
        self.gets_none(&entry, id, reason);
        table.remember(id, entry, why);
        true
    }

    /// Whether the request still waits for its answer.
    pub fn is_pending(&self, id: i64) -> bool {
        self.table.lock().pending.contains_key(&id)
    }

    /// Whether several requests of the host are open.
    pub fn is_busy(&self) -> bool {
        self.table.lock().is_busy()
    }

    /// All calls in flight: any of them may be the cause of a server's request.
    fn in_flight(&self) -> Vec<Arc<PendingRequest>> {
        self.table.lock().calls().map(Arc::clone).collect()
    }

    /// Ends the connection: withdraws the open requests of the server and reports an incomplete
    /// last message.
    pub fn ended(&self, reason: &str) {
        for open in self.table.lock().open.values() {
            open.claim.withdraw("its session ended");
        }
        let spread = std::mem::take(&mut *self.spread.lock());
        if !spread.text.is_empty() {
            let message = "the output ended inside a message";
            self.find(FindingKind::Malformed, message, &spread.text, None);
        }
        self.roll_junk();
        if self.end(reason) {
            self.pump.push(SessionEvent::Closed(SafeText::line(reason)));
        }
    }

    /// Ends the connection because the host closes the session. What the server has asked is
    /// refused, and what it says until it is gone is still looked at.
    pub fn close(&self, reason: &str) {
        self.refuse_open();
        self.closed.store(true, Ordering::Relaxed);
        self.end(reason);
    }

    /// Whether the host has closed the session.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Reports to the owner that nothing can be sent to the server any more, although it may still
    /// answer open requests.
    pub fn unreachable(&self, reason: &str) {
        if !self.over.is_cancelled() && self.ending.set(reason.to_owned()).is_ok() {
            self.pump.push(SessionEvent::Closed(SafeText::line(reason)));
        }
    }

    /// Marks the connection as ended for this reason. Returns false when it already was.
    pub fn end(&self, reason: &str) -> bool {
        let first = self.ending.set(reason.to_owned()).is_ok();
        self.over.cancel();
        first
    }

    /// Why the connection ended.
    pub fn ending(&self) -> &str {
        self.ending.get().map_or("the session ended", String::as_str)
    }

    /// Reports what the session found in an answer.
    pub fn report(&self, kind: FindingKind, message: &str, raw: &str, request: Option<&str>) {
        self.find(kind, message, raw.as_bytes(), request.map(method_name));
    }

    /// Reports a finding about the answer of a request, also to its caller.
    fn find_in(&self, entry: &RoundTrip, kind: FindingKind, message: &str, raw: &[u8]) {
        let finding = self.context.finding(kind, message, raw, Some(entry.name()));
        entry.request.found(finding.clone());
        self.pump.push(SessionEvent::Finding(finding));
    }

    /// Reports a finding.
    fn find(&self, kind: FindingKind, message: &str, raw: &[u8], request: Option<SafeText>) {
        self.pump.push(SessionEvent::Finding(self.context.finding(kind, message, raw, request)));
    }

    // Outgoing messages: requests enter the table before they are written, everything is recorded.

    /// Enters a request into the table before it is written: returns its id, which is also its
    /// progress token, and the receiver of its answer.
    pub fn admit(
        &self,
        rpc: &RpcRequest,
        request: &Arc<PendingRequest>,
    ) -> (i64, oneshot::Receiver<RoundTripResult>) {
        let (answer, answered) = oneshot::channel();
        let method = method_name(&rpc.method);
        let shakes = rpc.is_handshake();
        if shakes {
            self.context.seen.record_request(&rpc.method);
        }
        let mut table = self.table.lock();
        let id = table.next_id;
        table.next_id += 1;
        if !shakes {
            table.tokens.insert(id, Arc::clone(request));
        }
        let (target, request) = (rpc.target.clone(), Arc::clone(request));
        let sent = self.context.clock.instant();
        let entry = RoundTrip { method, target, request, sent, answer };
        table.pending.insert(id, entry);
        (id, answered)
    }

    /// Records an admitted request that is about to be written.
    pub fn asking(&self, id: i64, rpc: &RpcRequest, request: &PendingRequest, body: &[u8]) {
        self.context.bytes.sent(body.len() + 1);
        request.bytes.sent(body.len() + 1);
        self.context.keep(TrafficRecord {
            method: Some(method_name(&rpc.method)),
            target: rpc.target.clone(),
            id: Some(SafeText::number(id)),
            call: request.call,
            queued: request.queued(),
            ..self.context.passed(Direction::Out, MessageKind::Request, body)
        });
    }

    /// Queues a notification for the server.
    pub fn notify(&self, method: &str, params: Value) {
        let body = self.notification(method, params);
        self.queue(body);
    }

    /// Builds and records a notification that is about to be written.
    pub fn notification(&self, method: &str, params: Value) -> Vec<u8> {
        let mut message = json!({"jsonrpc": "2.0", "method": method});
        if !params.is_null() {
            message["params"] = params;
        }
        let body = message.to_string().into_bytes();
        self.context.bytes.sent(body.len() + 1);
        self.context.keep(TrafficRecord {
            method: Some(method_name(method)),
            ..self.context.passed(Direction::Out, MessageKind::Notification, &body)
        });
        body
    }

    /// Answers a request that nobody has to decide on.
    fn reply(&self, id: &RequestId, answer: Result<Value, (i64, String)>) {
        self.respond(id, None, answer);
    }

    /// Answers an open request, unless it was answered or withdrawn meanwhile.
    pub fn answer_open(&self, id: &RequestId, answer: Answer) {
        let answer = match answer {
            Answer::Result(result) => Ok(result),
            Answer::Refuse { code, message } => Err((code, message)),
        };
        let open = self.table.lock().open.remove(id);
        if open.is_some() {
            self.respond(id, open, answer);
        }
    }

    /// Refuses what the server has asked and nobody has answered yet, because the session is being
    /// closed: a server that is left without an answer may wait for it instead of exiting.
    fn refuse_open(&self) {
        const CLOSING: &str = "the client is closing the session";
        let open: Vec<_> = self.table.lock().open.drain().collect();
        for (id, open) in open {
            open.claim.withdraw("its session ended");
            open.withdrawn.cancel();
            self.respond(&id, Some(open), Err((RpcCode::SERVER_ERROR, CLOSING.to_owned())));
        }
    }

    fn respond(
        &self,
        id: &RequestId,
        open: Option<ServerRequestEntry>,
        answer: Result<Value, (i64, String)>,
    ) {
        let kind = if answer.is_ok() { MessageKind::Response } else { MessageKind::Error };
        let message = match answer {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
            }
        };
        let body = message.to_string().into_bytes();
        self.context.bytes.sent(body.len() + 1);
        let mut passed = self.context.passed(Direction::Out, kind, &body);
        passed.id = Some(id_text(id));
        if let Some(open) = open {
            passed.latency = Some(self.context.clock.elapsed(open.arrived));
            passed.method = Some(open.method);
            passed.call = open.call;
        }
        self.context.keep(passed);
        self.queue(body);
    }

    /// Queues a message that no caller waits for. A server that keeps requesting without reading
    /// the answers is cut off; a broken pipe is reported by the next request.
    fn queue(&self, body: Vec<u8>) {
        let Some(outbox) = self.outbox.get().and_then(Weak::upgrade) else { return };
        if let Err(error @ SendError::Unread(_)) = outbox.queue(body)
            && !self.over.is_cancelled()
        {
            let reason = error.to_string();
            self.find(FindingKind::Flood, &reason, b"", None);
            self.ended(&reason);
        }
    }

    /// Reports and records a message that belongs to no request, or is not a message.
    fn unattributed(
        &self,
        (kind, of): (FindingKind, MessageKind),
        message: &str,
        raw: ReceivedText<'_>,
        id: Option<SafeText>,
    ) {
        self.find(kind, message, raw.text, None);
        let problem = Some(self.context.remark(message));
        self.context.keep(TrafficRecord { id, problem, ..self.context.came(of, raw) });
    }
}
