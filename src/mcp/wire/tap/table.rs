//! The table of open requests, in both directions: to which call an answer, progress or a question of
//! the server belongs. Knows no transport; the tap holds it behind its lock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use rmcp::model::RequestId;
use serde_json::Value;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::SafeText;
use crate::error::Error;
use crate::mcp::pending::PendingRequest;
use crate::mcp::{CallId, Claim, Payload};

/// The key of `_meta` that names the task a message belongs to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// What a round trip gives.
pub type RoundTripResult = Result<Payload, Error>;

#[derive(Default)]
pub(super) struct PendingTable {
    /// Open requests of the host, by id.
    pub(super) pending: BTreeMap<i64, RoundTrip>,
    /// Requests by progress token.
    pub(super) tokens: BTreeMap<i64, Arc<PendingRequest>>,
    /// Calls that run as tasks, which are in flight between their requests too.
    pub(super) tasks: Vec<TaskCall>,
    /// Requests nobody waits for any more, oldest first.
    pub(super) abandoned: VecDeque<Abandoned>,
    /// Ids from here on were never used; tokens are the same numbers.
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
        self.method.as_str() == "subscriptions/listen"
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

/// A request whose answer nobody waits for any more.
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
    /// Of its message: what is open is kept whole.
    pub(super) bytes: usize,
    pub(super) call: Option<CallId>,
    pub(super) arrived: Instant,
    pub(super) claim: Arc<Claim>,
    /// Fires when the server takes it back.
    pub(super) withdrawn: CancellationToken,
}

/// A call that runs as a task (MCP 2025-11-25, tasks): it is in flight between its requests too. The
/// progress token of the first stays good, and what the server asks and reports names the task.
pub(super) struct TaskCall {
    /// `taskId`, once it is known.
    pub(super) id: Option<String>,
    pub(super) request: Arc<PendingRequest>,
    pub(super) news: Arc<Notify>,
}

impl PendingTable {
    /// Abandoned requests that are remembered, to tell a late answer from a second one.
    const ABANDONED: usize = 1024;

    /// Takes an open request out; its progress goes on when its task does.
    pub(super) fn take(&mut self, id: i64) -> Option<RoundTrip> {
        let entry = self.pending.remove(&id)?;
        let same = |task: &TaskCall| Arc::ptr_eq(&task.request, &entry.request);
        if !(entry.begins() && self.tasks.iter().any(same)) {
            self.tokens.remove(&id);
        }
        Some(entry)
    }

    /// The requests of callers; one with several round trips more than once.
    pub(super) fn calls(&self) -> impl Iterator<Item = &Arc<PendingRequest>> {
        let asked = self.pending.values().map(|entry| &entry.request);
        let in_tasks = self.tasks.iter().map(|task| &task.request);
        asked.chain(in_tasks).filter(|request| request.call.is_some())
    }

    /// The call during which a message from the server probably comes: the one that is told by
    /// `stream`, or the only one that is open.
    pub(super) fn during(&self, stream: Option<i64>) -> Option<Arc<PendingRequest>> {
        if let Some(id) = stream {
            let request = &self.pending.get(&id)?.request;
            return request.call.map(|_| Arc::clone(request));
        }
        let mut calls = self.calls();
        let only = calls.next()?;
        calls.all(|other| Arc::ptr_eq(other, only)).then(|| Arc::clone(only))
    }

    /// Requests that are answered before their subscription ends.
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

    /// Nobody waits for the answer of a request any more.
    pub(super) fn remember(&mut self, id: i64, entry: RoundTrip, why: &'static str) {
        if self.abandoned.len() == Self::ABANDONED {
            self.abandoned.pop_front();
        }
        let call = entry.request.call;
        let RoundTrip { method, target, sent, .. } = entry;
        self.abandoned.push_back(Abandoned { id, method, target, call, sent, why });
    }

    /// The answer of the first request names the task. Noted in wire order: what the server asks for
    /// it may be on the next line.
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

    /// `notifications/tasks/status`: the task is asked after sooner. What the server says here it
    /// need not say at all, so it counts for nothing more.
    pub(super) fn task_news(&self, params: &Value) {
        let id = params.get("taskId").and_then(Value::as_str);
        id.into_iter().flat_map(|id| self.tasks_of(id)).for_each(|task| task.news.notify_one());
    }

    fn tasks_of<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a TaskCall> {
        self.tasks.iter().filter(move |task| task.id.as_deref() == Some(id))
    }
}

/// `tools/call echo`
pub(super) fn full_name(method: &SafeText, target: Option<&SafeText>) -> SafeText {
    target.map_or_else(|| method.clone(), |target| SafeText::line(&format!("{method} {target}")))
}
