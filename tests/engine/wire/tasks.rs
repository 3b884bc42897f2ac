//! Tool calls that run as tasks (MCP 2025-11-25): polled to their end at the interval the server
//! requests, with requests to the user in between, and cancelled from both sides.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use mcpdeck::error::ErrorCode;
use mcpdeck::mcp::{Attempt, Connected, Request};
use mcpdeck::protocol::{Answer, CallId, FindingKind, RequestKind, ServerRequest};
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt;
use tokio::time::Instant;

use crate::wire::peer::{Peer, Rig, call, call_within, rig, rig_with, start, text};

/// What the host sent, and when.
pub type Heard = Arc<Mutex<Vec<(Duration, Value)>>>;

pub fn research() -> Request {
    Request::RunTask { name: "research".into(), arguments: Arc::new(json!({"topic": "ants"})) }
}

pub fn task(status: &str, more: Value) -> Value {
    let mut task = json!({
        "taskId": "t-1", "status": status, "createdAt": "2025-11-25T10:30:00Z",
        "lastUpdatedAt": "2025-11-25T10:40:00Z", "ttl": 60_000, "pollInterval": 1_000,
    });
    for (key, value) in more.as_object().into_iter().flatten() {
        task[key] = value.clone();
    }
    task
}

pub fn result(to: &Value, result: Value) -> Vec<Value> {
    vec![json!({"jsonrpc": "2.0", "id": to["id"], "result": result})]
}

pub fn error(to: &Value, code: i64, message: &str) -> Vec<Value> {
    let error = json!({"code": code, "message": message});
    vec![json!({"jsonrpc": "2.0", "id": to["id"], "error": error})]
}

/// A session whose server sends what `play` returns for every message of the host; `play` also gets
/// the number of earlier messages with that method.
pub async fn played(
    rig: &Rig,
    mut play: impl FnMut(&Value, usize) -> Vec<Value> + Send + 'static,
) -> (Connected, Heard) {
    let offers = json!({"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}});
    let shaking = async |mut peer: Peer| {
        peer.initialize_with(offers).await;
        peer
    };
    let (connected, mut peer) = rig.try_connect(Attempt::Legacy(None), shaking).await;
    let heard = Heard::default();
    let told = Arc::clone(&heard);
    tokio::spawn(async move {
        let began = Instant::now();
        let mut line = String::new();
        while peer.reader.read_line(&mut line).await.unwrap_or(0) > 0 {
            let message: Value = serde_json::from_str(&line).unwrap();
            line.clear();
            let before = methods(&told, &message["method"]);
            told.lock().unwrap().push((began.elapsed(), message.clone()));
            for answer in play(&message, before) {
                peer.send(answer).await;
            }
        }
    });
    (connected.unwrap(), heard)
}

fn methods(heard: &Heard, method: &Value) -> usize {
    heard.lock().unwrap().iter().filter(|(_, message)| message["method"] == *method).count()
}

/// When the host sent messages of a method, in milliseconds.
pub fn times(heard: &Heard, method: &str) -> Vec<u128> {
    let heard = heard.lock().unwrap();
    let of = heard.iter().filter(|(_, message)| message["method"] == method);
    of.map(|(at, _)| at.as_millis()).collect()
}

pub fn about(heard: &Heard, method: &str) -> Vec<Value> {
    let heard = heard.lock().unwrap();
    let of = heard.iter().filter(|(_, message)| message["method"] == method);
    of.map(|(_, message)| message["params"]["taskId"].clone()).collect()
}

/// Lets time pass, so that messages in transit arrive.
pub async fn a_while() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// A server whose task advances through `stages` with every poll, staying at the last.
pub fn going(
    stages: Vec<Value>,
    at_the_end: impl Fn(&Value) -> Vec<Value> + Send + 'static,
) -> impl FnMut(&Value, usize) -> Vec<Value> + Send + 'static {
    move |message, before| match message["method"].as_str() {
        Some("tools/call") => result(message, json!({"task": task("working", json!({}))})),
        Some("tasks/get") => result(message, stages[before.min(stages.len() - 1)].clone()),
        Some("tasks/result") => at_the_end(message),
        Some("tasks/cancel") => result(message, task("cancelled", json!({}))),
        _ => Vec::new(),
    }
}

pub fn done(message: &Value) -> Vec<Value> {
    result(message, text("six legs"))
}

#[tokio::test(start_paused = true)]
async fn a_task_is_asked_after_at_its_own_pace_and_its_result_is_the_calls() {
    let mut rig = rig();
    let stages = vec![
        task("working", json!({"statusMessage": "reading\u{1b}[2J", "pollInterval": 3_000})),
        task("working", json!({"statusMessage": "writing", "pollInterval": 200})),
        task("completed", json!({})),
    ];
    let (connected, heard) = played(&rig, going(stages, done)).await;
    let mut one = call(7);
    let pending = start(&connected, research(), one.context);
    assert_eq!(*pending.await.unwrap().unwrap(), text("six legs"));
    let first = heard.lock().unwrap()[0].1.clone();
    assert_eq!(first["method"], "tools/call");
    assert_eq!(
        (&first["params"]["name"], &first["params"]["arguments"], &first["params"]["task"]),
        (&json!("research"), &json!({"topic": "ants"}), &json!({}))
    );
    assert_eq!(times(&heard, "tasks/get"), [1_000, 4_000, 4_200]);
    assert_eq!(times(&heard, "tasks/result"), [4_200]);
    assert_eq!(about(&heard, "tasks/result"), ["t-1"]);
    let tasks = rig.context.tasks.list();
    assert_eq!((&*tasks[0].id, tasks[0].tool.as_str()), ("t-1", "research"));
    assert_eq!((tasks.len(), tasks[0].status.as_str()), (1, "completed"));
    let mut messages = Vec::new();
    while let Ok(progress) = one.progress.try_recv() {
        messages.extend(progress.message.map(|text| text.to_string()));
    }
    assert_eq!(messages.len(), 2, "{messages:?}");
    assert!(messages[0].contains("reading") && !messages[0].contains('\u{1b}'));
    assert_eq!(messages[1], "writing");
    a_while().await;
    assert!(about(&heard, "tasks/cancel").is_empty());
    assert_eq!(rig.kinds().await, []);
}

#[tokio::test(start_paused = true)]
async fn progress_of_the_call_is_reported_as_long_as_its_task_lives() {
    let mut rig = rig();
    let token = Arc::new(Mutex::new(Value::Null));
    let (connected, _heard) = played(&rig, {
        let token = Arc::clone(&token);
        let mut stages =
            going(vec![task("working", json!({})), task("completed", json!({}))], done);
        move |message, before| {
            let progress = |step: u64| {
                let params = json!({
                    "progressToken": *token.lock().unwrap(), "progress": step, "total": 4,
                });
                json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
            };
            let mut answer = stages(message, before);
            match message["method"].as_str() {
                Some("tools/call") => {
                    *token.lock().unwrap() = message["params"]["_meta"]["progressToken"].clone();
                    answer.push(progress(1));
                }
                Some("tasks/get") => answer.insert(0, progress(2 + before as u64)),
                _ => {}
            }
            answer
        }
    })
    .await;
    let mut one = call(7);
    start(&connected, research(), one.context).await.unwrap().unwrap();
    let mut last = None;
    while let Ok(progress) = one.progress.try_recv() {
        last = Some((progress.progress, progress.total));
    }
    assert_eq!(last, Some((3.0, Some(4.0))));
    assert_eq!(rig.kinds().await, [], "none of it came too late");
}

/// A task that needs input: requests it when its result is requested or, if `unasked`, before.
fn asking(unasked: bool) -> impl FnMut(&Value, usize) -> Vec<Value> + Send + 'static {
    let question = json!({
        "jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create",
        "params": {"message": "which ants?", "requestedSchema": {"type": "object"},
                   "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-1"}}},
    });
    let mut owed: Option<Value> = None;
    let mut answered = false;
    move |message, before| match message["method"].as_str() {
        Some("tools/call") if message["params"]["name"] == "research" => {
            let mut answer = result(message, json!({"task": task("working", json!({}))}));
            answer.extend(unasked.then(|| question.clone()));
            answer
        }
        Some("tasks/get") => {
            let status = match (answered, &owed) {
                (true, None) => "completed",
                (true, Some(_)) if before > 36 => "completed",
                (true, Some(_)) => "working",
                (false, _) => "input_required",
            };
            let mut out = result(message, task(status, json!({})));
            if status == "completed"
                && let Some(owed) = owed.take()
            {
                out.extend(done(&owed));
            }
            out
        }
        Some("tasks/result") if answered => done(message),
        Some("tasks/result") => {
            owed = Some(message.clone());
            if unasked { Vec::new() } else { vec![question.clone()] }
        }
        None if message["id"] == "q-1" => {
            assert_eq!(message["result"]["content"]["species"], "Lasius", "{message}");
            answered = true;
            Vec::new()
        }
        _ => Vec::new(),
    }
}

/// An approval queue where the user takes five minutes.
fn slow_person() -> Rig {
    let script = Box::new(|_: ServerRequest| {
        async {
            tokio::time::sleep(Duration::from_secs(300)).await;
            Answer::Result(json!({"action": "accept", "content": {"species": "Lasius"}}))
        }
        .boxed()
    });
    rig_with(|_| {}, Some(script))
}

#[tokio::test(start_paused = true)]
async fn a_person_answers_what_a_task_asks_and_the_clock_of_the_call_stands_still() {
    for unasked in [false, true] {
        let mut rig = slow_person();
        let (connected, heard) = played(&rig, asking(unasked)).await;
        // Another call is in flight: only the task id attributes the question.
        let other = call(8);
        let _other = start(&connected, crate::wire::peer::echo("a"), other.context);
        let one = call(7);
        let began = Instant::now();
        let pending = start(&connected, research(), one.context);
        assert_eq!(*pending.await.unwrap().unwrap(), text("six legs"), "unasked: {unasked}");
        let asked = rig.asked.recv().await.unwrap();
        assert_eq!((asked.kind, asked.call), (RequestKind::Elicitation, Some(CallId(7))));
        let waited = (one.seen.waited(), one.seen.is_held());
        assert_eq!(waited, (Duration::from_secs(300), false));
        assert!(began.elapsed() < Duration::from_secs(360), "{:?}", began.elapsed());
        let polls = times(&heard, "tasks/get");
        let while_held = polls.iter().filter(|at| **at > 2_000 && **at < 300_000).count();
        assert!((20..=40).contains(&while_held), "asked after {while_held} times meanwhile");
        assert!(about(&heard, "tasks/cancel").is_empty());
        let kinds = rig.kinds().await;
        assert!(!kinds.contains(&FindingKind::NotAllowed), "{kinds:?}");
        assert!(!kinds.contains(&FindingKind::LateAnswer), "{kinds:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_the_answer_a_task_may_work_longer_than_a_call_may_be_silent() {
    // After the question the task works another minute, with `tasks/result` open.
    let rig = slow_person();
    let mut stages = asking(false);
    let mut polls = 0;
    let (connected, _) = played(&rig, move |message, _| {
        if message["method"] == "tasks/get" {
            polls += 1;
        }
        stages(message, if polls < 90 { 0 } else { 99 })
    })
    .await;
    let one = call_within(7, Duration::from_secs(10));
    let pending = start(&connected, research(), one.context);
    assert_eq!(*pending.await.unwrap().unwrap(), text("six legs"));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_failed_says_why() {
    let failed = vec![task("failed", json!({"statusMessage": "out of ants"}))];
    // With a tool error, with a protocol error.
    let mut rig = rig();
    let tool_error = json!({"content": [{"type": "text", "text": "no"}], "isError": true});
    let answer = tool_error.clone();
    let (connected, heard) =
        played(&rig, going(failed.clone(), move |to| result(to, answer.clone()))).await;
    let pending = start(&connected, research(), call(1).context);
    assert_eq!(*pending.await.unwrap().unwrap(), tool_error);
    assert_eq!(rig.kinds().await, []);
    let rig = crate::wire::peer::rig();
    let refusing = going(failed, |to| error(to, -32603, "it broke"));
    let (connected, more) = played(&rig, refusing).await;
    let failure = start(&connected, research(), call(1).context).await.unwrap().unwrap_err();
    assert_eq!(failure.code, ErrorCode::Protocol);
    assert!(failure.message.contains("the task failed: out of ants"), "{failure}");
    assert!(failure.message.contains("it broke"), "{failure}");
    assert_eq!(failure.rpc.as_ref().unwrap().code, Some(-32603));
    a_while().await;
    for heard in [heard, more] {
        assert!(about(&heard, "tasks/cancel").is_empty(), "a task that is over is not cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_call_cancels_its_task() {
    // Between polls, during a poll, and while its result is awaited.
    for (stage, at) in [("working", 500), ("working", 1_000), ("input_required", 2_500)] {
        let rig = rig();
        let silent = at == 1_000;
        let mut play = going(vec![task(stage, json!({}))], |_| Vec::new());
        let (connected, heard) = played(&rig, move |message, before| {
            if silent && message["method"] == "tasks/get" {
                return Vec::new();
            }
            play(message, before)
        })
        .await;
        let one = call(7);
        let pending = start(&connected, research(), one.context);
        tokio::time::sleep(Duration::from_millis(at)).await;
        let asked = Instant::now();
        one.cancel.cancel();
        let error = pending.await.unwrap().unwrap_err();
        assert_eq!(error.code, ErrorCode::Cancelled);
        assert!(asked.elapsed() < Duration::from_millis(300));
        a_while().await;
        assert_eq!(about(&heard, "tasks/cancel"), ["t-1"], "{stage} at {at}");
        let open = usize::from(silent) + usize::from(stage == "input_required");
        assert_eq!(times(&heard, "notifications/cancelled").len(), open, "{stage} at {at}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_is_gone_leaves_no_task_behind_and_no_question_open() {
    let mut rig = rig();
    let (connected, heard) = played(&rig, asking(false)).await;
    let one = call(7);
    let calling = connected.session.request(research(), one.context);
    let asked = tokio::select! {
        _ = calling => unreachable!("nobody answers"),
        asked = rig.asked.recv() => asked.unwrap(),
    };
    a_while().await;
    assert_eq!(about(&heard, "tasks/cancel"), ["t-1"]);
    assert!(asked.withdrawn.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn cancelling_does_not_wait_for_a_server_that_is_deaf() {
    let rig = rig();
    let mut play = going(vec![task("working", json!({}))], done);
    let (connected, _) = played(&rig, move |message, before| {
        if message["method"] == "tasks/cancel" { Vec::new() } else { play(message, before) }
    })
    .await;
    let one = call(7);
    let pending = start(&connected, research(), one.context);
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let asked = Instant::now();
    one.cancel.cancel();
    pending.await.unwrap().unwrap_err();
    assert!(asked.elapsed() <= Duration::from_millis(250));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_its_server_cancelled_is_reported_as_the_servers_doing() {
    // During a poll, and while waiting for a result that never arrives.
    for first in ["working", "input_required"] {
        let rig = rig();
        let over = task("cancelled", json!({"statusMessage": "by an administrator"}));
        let play = going(vec![task(first, json!({})), over], |_| Vec::new());
        let (connected, heard) = played(&rig, play).await;
        let error = start(&connected, research(), call(1).context).await.unwrap().unwrap_err();
        assert_eq!(error.code, ErrorCode::Protocol);
        assert_eq!(error.message, "the server cancelled the task: by an administrator");
        a_while().await;
        assert!(about(&heard, "tasks/cancel").is_empty());
    }
}
