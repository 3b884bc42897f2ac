//! Tasks that a server runs for calls (MCP 2025-11-25, tasks), as it reports them. Learnt from every
//! message, in wire order: nothing is missed.

use std::sync::Arc;

use indexmap::IndexMap;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use base::{SafeText, Timestamp};

/// A task of a server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerTask {
    /// `taskId`, as the server spells it; goes on the wire, never on the screen.
    pub id: Arc<str>,
    /// The tool that was called.
    pub tool: SafeText,
    /// `status` as it was reported last.
    pub status: SafeText,
    /// When it was begun.
    pub began: Timestamp,
}

impl ServerTask {
    /// A task that `tool` has begun, as the server describes it; `None` if it gives no usable id.
    pub fn from_result(task: &Value, tool: SafeText, began: Timestamp) -> Option<Self> {
        let id = task.get("taskId")?.as_str()?;
        let is_usable = !id.is_empty() && id.len() <= ServerTasks::MAX_ID_BYTES;
        is_usable.then(|| Self { id: id.into(), tool, status: status(task), began })
    }
}

/// The tasks of one server, across its sessions, the oldest first.
#[derive(Debug, Default)]
pub struct ServerTasks(Mutex<IndexMap<Arc<str>, ServerTask>>);

impl ServerTasks {
    /// Most tasks that are remembered; beyond that the oldest are dropped.
    pub const MAX_TASKS: usize = 1_000;
    /// Longest id of a task that is remembered, in bytes.
    pub const MAX_ID_BYTES: usize = 1 << 10;

    /// Adds a task.
    pub fn add(&self, task: ServerTask) {
        let mut tasks = self.0.lock();
        tasks.insert(Arc::clone(&task.id), task);
        if tasks.len() > Self::MAX_TASKS {
            tasks.shift_remove_index(0);
        }
    }

    /// Takes a report on a task: `tasks/get`, `tasks/cancel`, `notifications/tasks/status`. One on an
    /// unknown task has no effect.
    pub fn report(&self, report: &Value) {
        let Some(id) = report.get("taskId").and_then(Value::as_str) else { return };
        if let Some(task) = self.0.lock().get_mut(id)
            && report.get("status").is_some_and(Value::is_string)
        {
            task.status = status(report);
        }
    }

    /// All of them.
    pub fn list(&self) -> Vec<ServerTask> {
        self.0.lock().values().cloned().collect()
    }
}

fn status(task: &Value) -> SafeText {
    SafeText::cut(task.get("status").and_then(Value::as_str).unwrap_or_default(), 64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn begun(id: &str) -> Option<ServerTask> {
        let task = json!({"taskId": id, "status": "working"});
        ServerTask::from_result(&task, SafeText::line("index"), Timestamp(0))
    }

    #[test]
    fn the_status_reported_last_counts_and_the_oldest_tasks_are_dropped() {
        let tasks = ServerTasks::default();
        assert!(begun("").is_none() && begun(&"x".repeat(2_000)).is_none());
        for n in 0..=ServerTasks::MAX_TASKS {
            tasks.add(begun(&n.to_string()).expect("a task"));
        }
        tasks.report(&json!({"taskId": "1", "status": "completed"}));
        tasks.report(&json!({"taskId": "2"}));
        tasks.report(&json!({"taskId": "unknown", "status": "completed"}));
        let list = tasks.list();
        let shown: Vec<_> =
            list.iter().take(2).map(|task| (&*task.id, task.status.as_str())).collect();
        assert_eq!(shown, [("1", "completed"), ("2", "working")]);
        assert_eq!(list.len(), ServerTasks::MAX_TASKS);
    }
}
