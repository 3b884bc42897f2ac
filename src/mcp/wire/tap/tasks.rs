//! Calls that run as tasks (MCP 2025-11-25, tasks): they are in flight between their requests too.
//!
//! Owns which of them there are, so that what the server asks and tells meanwhile finds its call:
//! the progress token of the first request stays good, and requests and news name the task.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Notify;

use super::{Entry, State, Tap};
use crate::mcp::pending::PendingRequest;

/// The key of `_meta` that names the task a message belongs to.
const RELATED: &str = "io.modelcontextprotocol/related-task";

/// A call that runs as a task, as the tap knows it.
pub(super) struct Running {
    /// `taskId`, once the server has told it.
    id: Option<String>,
    request: Arc<PendingRequest>,
    news: Arc<Notify>,
}

/// Keeps a call in flight until it is dropped.
pub struct Attended {
    tap: Arc<Tap>,
    request: Arc<PendingRequest>,
    news: Arc<Notify>,
}

impl Tap {
    /// A call that is going to run as a task.
    pub fn attend(self: &Arc<Self>, request: &Arc<PendingRequest>) -> Attended {
        let news = Arc::new(Notify::new());
        let running = Running { id: None, request: Arc::clone(request), news: Arc::clone(&news) };
        self.state().tasks.push(running);
        Attended { tap: Arc::clone(self), request: Arc::clone(request), news }
    }

    /// The answer of the first request names the task. Noted in wire order: what the server asks for
    /// it may be on the next line.
    pub(super) fn name_task(&self, entry: &Entry, result: &Value) {
        if !begins(entry) {
            return;
        }
        let mut state = self.state();
        let mine = |task: &&mut Running| Arc::ptr_eq(&task.request, &entry.request);
        if let Some(task) = state.tasks.iter_mut().find(mine) {
            task.id = result["task"]["taskId"].as_str().map(str::to_owned);
        }
    }

    /// The call whose task a message names.
    pub(super) fn of_task(&self, params: Option<&Value>) -> Option<Arc<PendingRequest>> {
        let id = params?.get("_meta")?.get(RELATED)?.get("taskId")?.as_str()?;
        let state = self.state();
        let task = state.tasks.iter().find(|task| task.id.as_deref() == Some(id))?;
        Some(Arc::clone(&task.request))
    }

    /// `notifications/tasks/status`: the task is asked after sooner. What the server says here it
    /// need not say at all, so it counts for nothing more.
    pub(super) fn task_news(&self, params: &Value) {
        let Some(id) = params.get("taskId").and_then(Value::as_str) else { return };
        let state = self.state();
        for task in state.tasks.iter().filter(|task| task.id.as_deref() == Some(id)) {
            task.news.notify_one();
        }
    }
}

impl State {
    /// Takes an open request out of the table; its progress goes on when its task does.
    pub(super) fn take(&mut self, id: i64) -> Option<Entry> {
        let entry = self.pending.remove(&id)?;
        if entry.token && !self.goes_on(&entry) {
            self.tokens.remove(&id);
        }
        Some(entry)
    }

    /// Whether a request is the first of a task: its being answered is not the end of its progress.
    fn goes_on(&self, entry: &Entry) -> bool {
        begins(entry) && self.tasks.iter().any(|task| Arc::ptr_eq(&task.request, &entry.request))
    }

    /// The calls that run as tasks.
    pub(super) fn in_tasks(&self) -> impl Iterator<Item = &Arc<PendingRequest>> {
        self.tasks.iter().map(|task| &task.request)
    }
}

impl Attended {
    /// The server tells something of the task by itself.
    pub async fn news(&self) {
        self.news.notified().await;
    }
}

fn begins(entry: &Entry) -> bool {
    entry.method.as_str() == "tools/call"
}

impl Drop for Attended {
    fn drop(&mut self) {
        let mut state = self.tap.state();
        state.tasks.retain(|task| !Arc::ptr_eq(&task.request, &self.request));
        state.tokens.retain(|_, request| !Arc::ptr_eq(request, &self.request));
    }
}
