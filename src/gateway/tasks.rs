//! Tasks for clients (extension `io.modelcontextprotocol/tasks` of 2026-07-28): a call that takes
//! long becomes a task, whether or not its server knows tasks. The client polls it, answers what it
//! asks, and may go away and come back meanwhile. A task runs in one process; with replicas its state
//! is kept in the shared store, and what clients say to it at another replica is passed on.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rmcp::model::{ClientCapabilities, ErrorData, InputResponses};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::bridge::{BridgedRequest, Parked};
use super::outside::{Outside, settled};
use super::store::{SharedStore, SharedTask};
use super::tokens::Client;
use base::text::SafeText;
use base::text::json::{WrittenValue, weigh};
use base::{Clock, Timestamp};
use host::TargetKind;
use protocol::RequestKind;

/// How long a call may take before it becomes a task: most are quicker, and need one answer only.
pub(super) const SYNC_WINDOW: Duration = Duration::from_millis(600);
/// Most tasks of all clients, and of one; further calls are answered as if there were no tasks.
const MAX_TASKS: usize = 1_000;
const MAX_CLIENT_TASKS: usize = 100;
/// How long a task is kept from its start; one that still runs is kept until it ends.
const TASK_LIFETIME: Duration = Duration::from_secs(3_600);
/// Most memory that results of ended tasks may take, in bytes; the oldest of whoever takes most of it
/// go first.
const MAX_RESULT_BYTES: usize = 64 << 20;
/// Largest state of a task that is shared with other replicas, in bytes.
const MAX_SHARED_BYTES: usize = 16 << 20;
/// What clients are told to wait between two polls.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Responses that wait for a task to take them.
const RESPONSES_CAPACITY: usize = 8;

/// All tasks of the clients that run or ended here, by their id.
pub(crate) struct ClientTasks {
    tasks: Mutex<HashMap<String, Arc<ClientTask>>>,
    /// Where other replicas find them, and those of other replicas are.
    store: Option<Arc<dyn SharedStore>>,
}

/// What a client says to a task that another replica runs.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
enum TaskMessage {
    Responses(InputResponses),
    Cancel,
}

/// One call that runs as a task.
struct ClientTask {
    id: String,
    /// Id of the client that owns it; for others it does not exist.
    client: Arc<str>,
    created: Timestamp,
    state: Mutex<TaskState>,
    cancel: CancellationToken,
    responses: mpsc::Sender<Delivery>,
}

/// Responses of a client, and who waits for them to be taken.
struct Delivery {
    responses: InputResponses,
    taken: oneshot::Sender<()>,
}

/// What a client sees of a task.
struct TaskState {
    updated: Timestamp,
    message: Option<String>,
    stage: Stage,
}

enum Stage {
    /// It runs; what it asks its client, by key.
    Running(Map<String, Value>),
    Completed(WrittenValue, usize),
    Failed(ErrorData),
    Cancelled,
}

impl Stage {
    fn is_over(&self) -> bool {
        !matches!(self, Self::Running(_))
    }

    /// Its status as the specification names it.
    fn status(&self) -> &'static str {
        match self {
            Self::Running(asked) if asked.is_empty() => "working",
            Self::Running(_) => "input_required",
            Self::Completed(..) => "completed",
            Self::Failed(_) => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl ClientTask {
    /// Hands it responses; returns once it has taken them, or is over.
    async fn deliver(&self, responses: InputResponses) {
        let (taken, wait) = oneshot::channel();
        if self.responses.send(Delivery { responses, taken }).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// Its fields, without what belongs to its status.
    fn head(&self, state: &TaskState) -> Value {
        let mut head = json!({
            "taskId": self.id,
            "status": state.stage.status(),
            "createdAt": self.created.to_rfc3339(),
            "lastUpdatedAt": state.updated.to_rfc3339(),
            "ttlMs": TASK_LIFETIME.as_millis() as u64,
            "pollIntervalMs": POLL_INTERVAL.as_millis() as u64,
        });
        if let Some(message) = &state.message {
            head["statusMessage"] = json!(message);
        }
        head
    }

    /// The result of the call that created it.
    fn created_result(&self) -> Value {
        let mut result = self.head(&self.state.lock());
        result["resultType"] = json!("task");
        result
    }

    /// The result of `tasks/get`.
    fn detailed(&self) -> WrittenValue {
        let state = self.state.lock();
        let mut result = WrittenValue::from(self.head(&state));
        result.insert("resultType", json!("complete"));
        match &state.stage {
            Stage::Running(asked) if asked.is_empty() => {}
            Stage::Running(asked) => result.insert("inputRequests", json!(asked)),
            Stage::Completed(WrittenValue { value, numbers }, _) => {
                result.insert("result", value.clone());
                result.numbers.put("/result", numbers.clone());
            }
            Stage::Failed(error) => result.insert("error", json!(error)),
            Stage::Cancelled => {}
        }
        result
    }

    /// Changes the state of a task that is not over: an end is final. Other replicas know of it
    /// afterwards.
    async fn change(
        &self,
        (clock, store): (&Clock, Option<&Arc<dyn SharedStore>>),
        change: impl FnOnce(&mut TaskState) + Send,
    ) {
        {
            let mut state = self.state.lock();
            if state.stage.is_over() {
                return;
            }
            change(&mut state);
            state.updated = clock.now();
        }
        self.share(store).await;
    }

    /// Keeps the state in the store of the replicas, if there is one.
    async fn share(&self, store: Option<&Arc<dyn SharedStore>>) {
        let Some(store) = store else { return };
        let is_over = self.state.lock().stage.is_over();
        let text = |state: &WrittenValue| serde_json::to_string(state).unwrap_or_default();
        let mut state = text(&self.detailed());
        if state.len() > MAX_SHARED_BYTES {
            state = text(&self.lost("its result is too large to be shared by replicas"));
        }
        let task = SharedTask { client: self.client.to_string(), state, is_over };
        if let Err(error) = store.keep_task(&self.id, &task, TASK_LIFETIME).await {
            tracing::warn!(target: "mcpdeck::gateway", "task not shared: {error}");
        }
    }

    /// The result of `tasks/get` for a task whose outcome is lost.
    fn lost(&self, why: &'static str) -> WrittenValue {
        failed(self.head(&self.state.lock()).into(), why)
    }
}

/// The state of a task, as one that failed for this reason.
fn failed(mut state: WrittenValue, why: &'static str) -> WrittenValue {
    if let Some(members) = state.value.as_object_mut() {
        members.retain(|key, _| !matches!(key.as_str(), "result" | "inputRequests"));
    }
    state.insert("resultType", json!("complete"));
    state.insert("status", json!("failed"));
    state.insert("error", json!(ErrorData::internal_error(why, None)));
    state
}

impl ClientTasks {
    pub fn new(store: Option<Arc<dyn SharedStore>>) -> Self {
        Self { tasks: Mutex::default(), store }
    }

    /// The task of this id, if it is one of this client's and runs or ended here.
    fn find(&self, client: &Client, id: &str) -> Option<Arc<ClientTask>> {
        self.tasks.lock().get(id).filter(|task| task.client == client.id).cloned()
    }

    /// The state of a client's task that another replica runs or has run.
    ///
    /// # Errors
    /// When the client has no such task, or the store cannot be reached.
    async fn elsewhere(
        &self,
        client: &Client,
        id: &str,
    ) -> Result<(WrittenValue, Arc<dyn SharedStore>), ErrorData> {
        let absent = || ErrorData::invalid_params("there is no such task", None);
        let store = self.store.as_ref().ok_or_else(absent)?;
        let found = store.task(id).await.map_err(|_| Outside::store_away())?;
        let (task, runs) =
            found.filter(|(task, _)| *task.client == *client.id).ok_or_else(absent)?;
        let state = WrittenValue::parse(&task.state);
        let mut state = state.map_err(|why| ErrorData::internal_error(why, None))?;
        if !task.is_over && !runs {
            state = failed(state, "the replica that ran it has ended");
        }
        Ok((state, Arc::clone(store)))
    }

    /// The state of a task, as `tasks/get` answers it.
    ///
    /// # Errors
    /// When the client has no such task, or the store cannot be reached.
    pub async fn get(&self, client: &Client, id: &str) -> Result<WrittenValue, ErrorData> {
        match self.find(client, id) {
            Some(task) => Ok(task.detailed()),
            None => Ok(self.elsewhere(client, id).await?.0),
        }
    }

    /// Hands a client's responses to a task (`tasks/update`); those that it did not ask for are
    /// ignored. Returns once the task has taken them.
    ///
    /// # Errors
    /// As [`ClientTasks::get`].
    pub async fn update(
        &self,
        client: &Client,
        id: &str,
        responses: InputResponses,
    ) -> Result<(), ErrorData> {
        match self.find(client, id) {
            Some(task) => task.deliver(responses).await,
            None => self.tell(client, id, &TaskMessage::Responses(responses)).await?,
        }
        Ok(())
    }

    /// Cancels a task (`tasks/cancel`); one that is over stays as it is.
    ///
    /// # Errors
    /// As [`ClientTasks::get`].
    pub async fn cancel(&self, client: &Client, id: &str) -> Result<(), ErrorData> {
        match self.find(client, id) {
            Some(task) => task.cancel.cancel(),
            None => self.tell(client, id, &TaskMessage::Cancel).await?,
        }
        Ok(())
    }

    /// Passes a message on to the replica that runs a task, if one does.
    async fn tell(
        &self,
        client: &Client,
        id: &str,
        message: &TaskMessage,
    ) -> Result<(), ErrorData> {
        let (state, store) = self.elsewhere(client, id).await?;
        let runs = matches!(state.value["status"].as_str(), Some("working" | "input_required"));
        if runs {
            let message = json!(message).to_string();
            store.tell_task(id, message).await.map_err(|_| Outside::store_away())?;
        }
        Ok(())
    }

    /// Takes what clients have said at other replicas to tasks that run here.
    pub async fn exchange(&self) {
        let Some(store) = &self.store else { return };
        let running: Vec<String> = {
            let tasks = self.tasks.lock();
            let runs = tasks.values().filter(|task| !task.state.lock().stage.is_over());
            runs.map(|task| task.id.clone()).collect()
        };
        for (id, message) in store.exchange_tasks(running).await {
            let task = self.tasks.lock().get(&id).cloned();
            match (task, serde_json::from_str(&message)) {
                (Some(task), Ok(TaskMessage::Cancel)) => task.cancel.cancel(),
                (Some(task), Ok(TaskMessage::Responses(responses))) => {
                    tokio::spawn(async move { task.deliver(responses).await });
                }
                _ => {}
            }
        }
    }

    /// Forgets tasks that ended and whose time is over, and the oldest results beyond the limit.
    pub fn end_overdue(&self, now: Timestamp) {
        let mut tasks = self.tasks.lock();
        tasks.retain(|_, task| {
            !task.state.lock().stage.is_over() || now.since(task.created) < TASK_LIFETIME
        });
        let mut ended: Vec<EndedTask> = tasks
            .values()
            .filter_map(|task| {
                let state = task.state.lock();
                let Stage::Completed(_, bytes) = &state.stage else { return None };
                let client = Arc::clone(&task.client);
                Some(EndedTask { client, at: state.updated, bytes: *bytes, id: task.id.clone() })
            })
            .collect();
        ended.sort_by_key(|task| task.at);
        for id in surplus(ended, MAX_RESULT_BYTES) {
            tasks.remove(&id);
        }
    }

    /// Adds a task, unless there are too many.
    fn insert(&self, task: &Arc<ClientTask>) -> bool {
        let mut tasks = self.tasks.lock();
        let of_client = tasks.values().filter(|other| other.client == task.client).count();
        if tasks.len() >= MAX_TASKS || of_client >= MAX_CLIENT_TASKS {
            return false;
        }
        tasks.insert(task.id.clone(), Arc::clone(task));
        true
    }
}

/// A task that ended with a result.
struct EndedTask {
    client: Arc<str>,
    at: Timestamp,
    bytes: usize,
    id: String,
}

/// The tasks that have to go until the others take no more than so many bytes: of `ended`, oldest
/// first, those of the client that takes most.
fn surplus(mut ended: Vec<EndedTask>, max_bytes: usize) -> Vec<String> {
    let mut by_client: HashMap<Arc<str>, usize> = HashMap::new();
    for task in &ended {
        *by_client.entry(Arc::clone(&task.client)).or_default() += task.bytes;
    }
    let mut gone = Vec::new();
    while by_client.values().sum::<usize>() > max_bytes
        && let Some((most, bytes)) = by_client.iter_mut().max_by_key(|(_, bytes)| **bytes)
        && let Some(oldest) = ended.iter().position(|task| task.client == *most)
    {
        let task = ended.remove(oldest);
        *bytes -= task.bytes;
        gone.push(task.id);
    }
    gone
}

/// A call that is to go on as a task.
pub(super) struct LongCall {
    pub call: Parked,
    pub client: Client,
    pub progress: mpsc::Receiver<protocol::Progress>,
    /// What its client can answer.
    pub capabilities: ClientCapabilities,
}

impl ClientTasks {
    /// Lets a call go on as a task. Returns the result that says so, or the call where there are
    /// too many tasks.
    ///
    /// # Errors
    /// The call, which is then answered as without tasks.
    pub async fn begin(&self, clock: Clock, long: LongCall) -> Result<Value, Box<LongCall>> {
        let Ok(id) = base::file::random_hex::<16>() else { return Err(Box::new(long)) };
        let now = clock.now();
        let (responses, delivered) = mpsc::channel(RESPONSES_CAPACITY);
        let stage = Stage::Running(Map::new());
        let task = Arc::new(ClientTask {
            id,
            client: Arc::clone(&long.call.client),
            created: now,
            state: Mutex::new(TaskState { updated: now, message: None, stage }),
            cancel: CancellationToken::new(),
            responses,
        });
        if !self.insert(&task) {
            return Err(Box::new(long));
        }
        let created = task.created_result();
        task.share(self.store.as_ref()).await;
        tokio::spawn(drive((clock, self.store.clone()), task, long, delivered));
        Ok(created)
    }
}

/// Runs a task until it ends.
async fn drive(
    (clock, store): (Clock, Option<Arc<dyn SharedStore>>),
    task: Arc<ClientTask>,
    long: LongCall,
    mut delivered: mpsc::Receiver<Delivery>,
) {
    let LongCall { mut call, client, mut progress, capabilities } = long;
    let at = (&clock, store.as_ref());
    loop {
        tokio::select! {
            biased;
            () = task.cancel.cancelled() => {
                call.cancel.cancel();
                task.change(at, |state| state.stage = Stage::Cancelled).await;
                return;
            }
            Some(report) = progress.recv() => {
                let message = report.message.map(|text| SafeText::line(&text).to_string());
                let counted = match report.total {
                    Some(total) => format!("{} of {total}", report.progress),
                    None => report.progress.to_string(),
                };
                task.change(at, |state| state.message = message.or(Some(counted))).await;
            }
            outcome = &mut call.outcome => {
                let stage = match settled(outcome, TargetKind::Tool, &call.target, &client) {
                    Ok(result) => {
                        let bytes = weigh(&result);
                        Stage::Completed(result, bytes)
                    }
                    Err(error) => Stage::Failed(error),
                };
                task.change(at, |state| state.stage = stage).await;
                return;
            }
            Some(ask) = call.line.asks.recv() => {
                if let Some(ask) = answerable(&capabilities, ask) {
                    call.wait_for(ask, &mut InputResponses::new());
                    let asked = input_requests(&call);
                    task.change(at, |state| state.stage = Stage::Running(asked)).await;
                }
            }
            Some(delivery) = delivered.recv() => {
                for (key, response) in delivery.responses {
                    call.respond(&key, response);
                }
                let asked = input_requests(&call);
                task.change(at, |state| state.stage = Stage::Running(asked)).await;
                let _ = delivery.taken.send(());
            }
        }
    }
}

/// What a call asks its client, by key.
pub(super) fn input_requests(call: &Parked) -> Map<String, Value> {
    let request =
        |ask: &BridgedRequest| json!({"method": ask.request.kind.method(), "params": ask.params()});
    call.waiting.iter().map(|(key, ask)| (key.clone(), request(ask))).collect()
}

/// Whether a client with these capabilities can answer a request of a server.
pub(super) fn can_answer(capabilities: &ClientCapabilities, kind: &RequestKind) -> bool {
    match kind {
        RequestKind::Sampling => capabilities.sampling.is_some(),
        RequestKind::Elicitation => capabilities.elicitation.is_some(),
        RequestKind::UrlElicitation => {
            capabilities.elicitation.as_ref().is_some_and(|modes| modes.url.is_some())
        }
        RequestKind::Roots => capabilities.roots.is_some(),
        // Agents must not grant themselves permissions.
        RequestKind::Guard
        | RequestKind::Permission
        | RequestKind::SignIn
        | RequestKind::Other(_) => false,
    }
}

/// Returns the request if the client can answer it; otherwise declines, and the operator gets it.
fn answerable(capabilities: &ClientCapabilities, ask: BridgedRequest) -> Option<BridgedRequest> {
    if can_answer(capabilities, &ask.request.kind) {
        return Some(ask);
    }
    let _ = ask.reply.send(None);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_a_client_with_many_go_before_those_of_another() {
        let ended = |client: &str, at: u64, bytes: usize| EndedTask {
            client: client.into(),
            at: Timestamp(at),
            bytes,
            id: format!("{client}{at}"),
        };
        let all = || vec![ended("few", 1, 100), ended("many", 2, 400), ended("many", 3, 300)];
        assert_eq!(surplus(all(), 800), [""; 0]);
        assert_eq!(surplus(all(), 799), ["many2"]);
        assert_eq!(surplus(all(), 100), ["many2", "many3"]);
        assert_eq!(surplus(all(), 99), ["many2", "many3", "few1"]);
    }
}
