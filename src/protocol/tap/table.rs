//! The table of open requests, in both directions: to which call an answer, progress or a server's
//! request belongs. Knows no transport; the tap guards it with its lock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio_util::sync::CancellationToken;

use crate::id::{CallId, RequestId};
use crate::payload::Payload;
use crate::pending::{Claim, PendingRequest};
use base::SafeText;
use config::error::Error;

/// The key of `_meta` that names the task a message belongs to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// The request that is answered when its subscription ends.
pub(super) const LISTEN: &str = "subscriptions/listen";

/// The result of a round trip.
pub type RoundTripResult = Result<Payload, Error>;

#[derive(Default)]
pub(super) struct PendingTable {
    /// Open requests of the host, by id.
    pub(super) pending: BTreeMap<i64, RoundTrip>,
    /// Requests by progress token.
    pub(super) tokens: BTreeMap<i64, Arc<PendingRequest>>,
    /// Calls that run as tasks, which stay in flight between their requests.
    pub(super) tasks: Vec<TaskCall>,
    /// Abandoned requests, oldest first.
    pub(super) abandoned: VecDeque<Abandoned>,
    /// The next unused id; progress tokens are the same numbers.
    pub(super) next_id: i64,
    /// Open requests of the server.
    pub(super) open: HashMap<RequestId, ServerRequestEntry>,
    /// Negotiated version.
    pub(super) version: Option<Arc<str>>,
    pub(super) modern: bool,
}

/// One round trip: a request of the host that waits for its answer.
pub(super) struct RoundTrip {
    pub(super) method: SafeText,
    pub(super) target: Option<SafeText>,
    pub(super) request: Arc<PendingRequest>,
    pub(super) sent: Instant,
    /// Where its answer goes.
    pub(super) answer: oneshot::Sender<RoundTripResult>,
}

impl RoundTrip {
    /// Whether it is answered only when its subscription ends.
    fn listens(&self) -> bool {
        self.method.as_str() == LISTEN
    }

    pub(super) fn is_probe(&self) -> bool {
        self.method.as_str() == "server/discover"
    }

    /// Whether it may be the first request of a task.
    fn begins(&self) -> bool {
        self.method.as_str() == "tools/call"
    }

    /// `tools/call echo`
    pub(super) fn name(&self) -> SafeText {
        full_name(&self.method, self.target.as_ref())
    }
}

/// A request whose answer is no longer wanted.
pub(super) struct Abandoned {
    pub(super) id: i64,
    pub(super) method: SafeText,
    pub(super) target: Option<SafeText>,
    pub(super) call: Option<CallId>,
    pub(super) sent: Instant,
    pub(super) why: &'static str,
}

/// An open request of the server.
pub(super) struct ServerRequestEntry {
    pub(super) method: SafeText,
    /// Size of its message: open requests are kept whole.
    pub(super) bytes: usize,
    pub(super) call: Option<CallId>,
    pub(super) arrived: Instant,
    pub(super) claim: Arc<Claim>,
    /// Fires when the server withdraws it.
    pub(super) withdrawn: CancellationToken,
}

/// A call that runs as a task (MCP 2025-11-25, tasks): it stays in flight between its requests. The
/// progress token of the first remains valid, and the server's requests and reports name the task.
pub(super) struct TaskCall {
    /// `taskId`, once it is known.
    pub(super) id: Option<String>,
    pub(super) request: Arc<PendingRequest>,
    pub(super) news: Arc<Notify>,
}

impl PendingTable {
    /// Abandoned requests that are remembered, to distinguish late answers from duplicates.
    const MAX_ABANDONED_REQUESTS: usize = 1024;

    /// Whether a request is one that the host has sent, and that no server sends: `ping` goes both ways.
    pub(super) fn has_sent(&self, id: &RequestId, method: &str) -> bool {
        let RequestId::Number(id) = id else { return false };
        let sent = self.pending.get(id);
        method != "ping" && sent.is_some_and(|sent| sent.method.as_str() == method)
    }

    /// Takes an open request out; its progress token stays valid if its task continues.
    pub(super) fn take(&mut self, id: i64) -> Option<RoundTrip> {
        let entry = self.pending.remove(&id)?;
        let same = |task: &TaskCall| Arc::ptr_eq(&task.request, &entry.request);
        if !(entry.begins() && self.tasks.iter().any(same)) {
            self.tokens.remove(&id);
        }
        Some(entry)
    }

    /// The requests of callers; one with several round trips appears several times.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Arc<PendingRequest>> {
        let asked = self.pending.values().map(|entry| &entry.request);
        let in_tasks = self.tasks.iter().map(|task| &task.request);
        asked.chain(in_tasks).filter(|request| request.call.is_some())
    }

    /// The call during which a message from the server probably arrived: the one named by `stream`,
    /// or the only open one.
    pub(super) fn during(&self, stream: Option<i64>) -> Option<Arc<PendingRequest>> {
        if let Some(id) = stream {
            let request = &self.pending.get(&id)?.request;
            return request.call.map(|_| Arc::clone(request));
        }
        let mut calls = self.calls();
        let only = calls.next()?;
        calls.all(|other| Arc::ptr_eq(other, only)).then(|| Arc::clone(only))
    }

    /// The calls of which one caused a request of the server: the one that its task or stream names,
    /// or all that are in flight.
    pub(super) fn causes(&self, params: Option<&Value>, stream: Option<i64>) -> Causes {
        let named = params.and_then(|params| self.of_task(params));
        if named.is_some() || stream.is_some() {
            let named = named.or_else(|| self.during(stream));
            return Causes { is_named: true, calls: named.into_iter().collect() };
        }
        let mut calls: Vec<Arc<PendingRequest>> = Vec::new();
        for call in self.calls() {
            if !calls.iter().any(|other| Arc::ptr_eq(other, call)) {
                calls.push(Arc::clone(call));
            }
        }
        Causes { is_named: false, calls }
    }

    /// Requests other than subscriptions, which are answered only when they end.
    fn answerable(&self) -> impl Iterator<Item = (&i64, &RoundTrip)> {
        self.pending.iter().filter(|(_, entry)| !entry.listens())
    }

    /// Whether several requests are open.
    pub(super) fn is_busy(&self) -> bool {
        self.answerable().nth(1).is_some()
    }

    /// The only request an unattributed answer can be meant for.
    pub(super) fn only_pending(&self) -> Option<i64> {
        let mut open = self.answerable();
        let only = *open.next()?.0;
        open.next().is_none().then_some(only)
    }

    /// Whether the host has given up this request, and its answer has not come since.
    pub(super) fn has_given_up(&self, id: i64) -> bool {
        self.abandoned.iter().any(|abandoned| abandoned.id == id)
    }

    /// Remembers an abandoned request.
    pub(super) fn remember(&mut self, id: i64, entry: RoundTrip, why: &'static str) {
        if self.abandoned.len() == Self::MAX_ABANDONED_REQUESTS {
            self.abandoned.pop_front();
        }
        let call = entry.request.call;
        let RoundTrip { method, target, sent, .. } = entry;
        self.abandoned.push_back(Abandoned { id, method, target, call, sent, why });
    }

    /// Records the task named by the answer of its first request. Done in wire order: a request of
    /// the server for it may be on the next line.
    pub(super) fn name_task(&mut self, entry: &RoundTrip, result: &Value) {
        let mine = |task: &&mut TaskCall| Arc::ptr_eq(&task.request, &entry.request);
        if entry.begins()
            && let Some(task) = self.tasks.iter_mut().find(mine)
        {
            task.id = result["task"]["taskId"].as_str().map(str::to_owned);
        }
    }

    /// The call whose task a message names.
    pub(super) fn of_task(&self, params: &Value) -> Option<Arc<PendingRequest>> {
        let id = params.get("_meta")?.get(RELATED)?.get("taskId")?.as_str()?;
        self.tasks_of(id).next().map(|task| Arc::clone(&task.request))
    }

    /// `notifications/tasks/status`: the task is polled sooner. Such notifications are optional, so
    /// they have no other effect.
    pub(super) fn task_news(&self, params: &Value) {
        let id = params.get("taskId").and_then(Value::as_str);
        id.into_iter().flat_map(|id| self.tasks_of(id)).for_each(|task| task.news.notify_one());
    }

    fn tasks_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a TaskCall> {
        self.tasks.iter().filter(move |task| task.id.as_deref() == Some(id))
    }
}

/// The calls of which one caused a request of the server.
pub(super) struct Causes {
    /// Whether the server named it.
    is_named: bool,
    pub(super) calls: Vec<Arc<PendingRequest>>,
}

impl Causes {
    /// The call that the request belongs to: the newest, when all are those of one caller; none,
    /// when they are not.
    pub(super) fn call(&self) -> Option<CallId> {
        let newest = self.calls.last()?;
        let is_same = |call: &Arc<PendingRequest>| call.caller.get() == newest.caller.get();
        newest.call.filter(|_| self.calls.iter().all(is_same))
    }

    /// All calls it may belong to, when the server named none.
    pub(super) fn candidates(&self) -> Vec<CallId> {
        let calls = self.calls.iter().filter(|_| !self.is_named);
        calls.filter_map(|request| request.call).collect()
    }
}

/// `tools/call echo`
pub(super) fn full_name(method: &SafeText, target: Option<&SafeText>) -> SafeText {
    target.map_or_else(|| method.clone(), |target| SafeText::line(&format!("{method} {target}")))
}
