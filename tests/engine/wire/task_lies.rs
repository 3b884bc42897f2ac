//! Servers that misreport their tasks: no task is left behind, and no call waits longer than its
//! timeout.

use mcpdeck::error::ErrorCode;
use mcpdeck::mcp::Attempt;
use mcpdeck::protocol::FindingKind;
use serde_json::json;
use tokio::time::Instant;

use crate::wire::peer::{Peer, call, rig, start, text};
use crate::wire::tasks::{
    a_while, about, done, error, going, played, research, result, task, times,
};

#[tokio::test(start_paused = true)]
async fn the_pace_a_server_asks_for_has_bounds() {
    for (asked, expected) in [
        (json!(0), 500),
        (json!(-5), 500),
        (json!("soon"), 500),
        (json!(null), 500),
        (json!(1), 50),
        (json!(0.001), 50),
        (json!(14_000), 14_000),
        // Half of the idle timeout of the call.
        (json!(86_400_000), 15_000),
        (json!(1e300), 15_000),
    ] {
        let rig = rig();
        let stages = vec![
            task("working", json!({"pollInterval": asked.clone()})),
            task("completed", json!({})),
        ];
        let (connected, heard) = played(&rig, going(stages, done)).await;
        start(&connected, research(), call(1).context).await.unwrap().unwrap();
        let at = times(&heard, "tasks/get");
        assert_eq!(at[1] - at[0], expected, "pollInterval {asked}");
    }
}

#[tokio::test(start_paused = true)]
async fn news_of_a_task_make_it_be_asked_after_sooner_and_a_flood_of_them_not_faster_than_ever() {
    let rig = rig();
    let slow = json!({"pollInterval": 10_000});
    let stages =
        vec![task("working", slow.clone()), task("working", slow), task("completed", json!({}))];
    let mut play = going(stages, done);
    let (connected, heard) = played(&rig, move |message, before| {
        let mut answer = play(message, before);
        if message["method"] == "tasks/get" && before < 2 {
            let params = task("completed", json!({}));
            let news = json!({
                "jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params,
            });
            answer.extend(std::iter::repeat_n(news, 1_000));
        }
        answer
    })
    .await;
    start(&connected, research(), call(1).context).await.unwrap().unwrap();
    let at = times(&heard, "tasks/get");
    assert_eq!([at[1] - at[0], at[2] - at[1]], [50, 50]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_never_ends_ends_with_the_timeout_of_the_call() {
    let mut rig = rig();
    let stages = vec![task("working", json!({"pollInterval": 7_000}))];
    let (connected, heard) = played(&rig, going(stages, done)).await;
    let began = Instant::now();
    let error = start(&connected, research(), call(1).context).await.unwrap().unwrap_err();
    assert_eq!(error.code, ErrorCode::Timeout);
    assert!(error.message.contains("600.0 s in all"), "{error}");
    assert!((600..603).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    a_while().await;
    assert_eq!(about(&heard, "tasks/cancel"), ["t-1"]);
    assert_eq!(rig.kinds().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_about_its_task_times_out_as_any_call() {
    for (silent, seconds) in [("tasks/get", 30), ("tasks/result", 31)] {
        let rig = rig();
        let mut play = going(vec![task("completed", json!({}))], done);
        let (connected, heard) = played(&rig, move |message, before| {
            if message["method"] == silent { Vec::new() } else { play(message, before) }
        })
        .await;
        let began = Instant::now();
        let error = start(&connected, research(), call(1).context).await.unwrap().unwrap_err();
        assert_eq!(error.code, ErrorCode::Timeout, "{silent}");
        assert_eq!(began.elapsed().as_secs(), seconds, "{silent}: thirty after its last word");
        a_while().await;
        let expected = usize::from(silent == "tasks/get");
        assert_eq!(about(&heard, "tasks/cancel").len(), expected, "{silent}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_its_server_forgot_fails_its_call_at_once() {
    for (at, words) in
        [(0, "does not know its task any more: "), (61, "whose `ttl` of 60 s is over")]
    {
        let rig = rig();
        let mut play = going(vec![task("working", json!({}))], done);
        let (connected, heard) = played(&rig, move |message, before| {
            if message["method"] == "tasks/get" && before >= at {
                return error(message, -32602, "Task not found");
            }
            play(message, before)
        })
        .await;
        let failure = start(&connected, research(), call(1).context).await.unwrap().unwrap_err();
        assert_eq!(failure.code, ErrorCode::Protocol);
        assert!(failure.message.contains(words), "{failure}");
        assert!(failure.message.contains("Task not found"), "{failure}");
        a_while().await;
        assert!(about(&heard, "tasks/cancel").is_empty(), "what is not known cannot be cancelled");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_task_fails_the_call_with_the_reason_or_is_asked_for_its_result() {
    // No id.
    let rig = rig();
    let (connected, _) =
        played(&rig, |message, _| result(message, json!({"task": {"status": "working"}}))).await;
    let error = start(&connected, research(), call(1).context).await.unwrap().unwrap_err();
    assert_eq!(error.message, "the task that was begun has no `taskId`");
    // Answers at once.
    let rig = crate::wire::peer::rig();
    let (connected, heard) = played(&rig, |message, _| done(message)).await;
    let answer = start(&connected, research(), call(1).context).await.unwrap().unwrap();
    assert_eq!((*answer).clone(), text("six legs"));
    assert_eq!(heard.lock().unwrap().len(), 1);
    // A task without a status, ever.
    for answer in [json!({}), json!({"taskId": "t-1", "status": 5})] {
        let rig = crate::wire::peer::rig();
        let (connected, heard) = played(&rig, going(vec![answer], done)).await;
        let error = start(&connected, research(), call(1).context).await.unwrap().unwrap_err();
        assert_eq!(error.code, ErrorCode::Protocol);
        assert!(error.message.contains("no `status`"), "{error}");
        a_while().await;
        assert_eq!(about(&heard, "tasks/cancel"), ["t-1"]);
    }
    // An unknown status: the result may still exist.
    let rig = crate::wire::peer::rig();
    let (connected, _) = played(&rig, going(vec![task("dreaming\u{202e}", json!({}))], done)).await;
    let answer = start(&connected, research(), call(1).context).await.unwrap().unwrap();
    assert_eq!((*answer).clone(), text("six legs"));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_none_is_reported_and_one_that_is_refused_fails_the_call() {
    let mut rig = rig();
    let over = vec![task("completed", json!({}))];
    let (connected, _) = played(&rig, going(over.clone(), |to| result(to, json!({})))).await;
    let answer = start(&connected, research(), call(1).context).await.unwrap().unwrap();
    assert_eq!((*answer).clone(), json!({}));
    assert_eq!(rig.kinds().await, [FindingKind::WrongShape]);
    let rig = crate::wire::peer::rig();
    let (connected, _) = played(&rig, going(over, |to| error(to, -32603, "gone"))).await;
    let error = start(&connected, research(), call(1).context).await.unwrap().unwrap_err();
    assert_eq!(error.message, "the server answered with error -32603: gone");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_is_the_end_of_its_task() {
    let rig = rig();
    let offers = json!({"tasks": {"requests": {"tools": {"call": {}}}}});
    let shaking = async |mut peer: Peer| {
        peer.initialize_with(offers).await;
        peer
    };
    let (connected, mut peer) = rig.try_connect(Attempt::Legacy(None), shaking).await;
    let pending = start(&connected.unwrap(), research(), call(1).context);
    let asked = peer.expect("tools/call").await;
    peer.reply(&asked, json!({"task": task("working", json!({}))})).await;
    drop(peer);
    let error = pending.await.unwrap().unwrap_err();
    assert_eq!(error.code, ErrorCode::ServerUnavailable);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_has_no_tasks_is_not_asked_for_one() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let pending = start(&connected, research(), call(1).context);
    let asked = peer.expect("tools/call").await;
    assert_eq!(asked["params"].get("task"), None);
    peer.reply(&asked, text("at once")).await;
    assert_eq!(*pending.await.unwrap().unwrap(), text("at once"));
    assert_eq!(rig.kinds().await, [FindingKind::WrongShape], "its tool says that it needs one");
    // 2026-07-28 has no tasks of this kind.
    let rig = crate::wire::peer::rig();
    let (connected, mut peer) = rig.modern().await;
    let pending = start(&connected, research(), call(1).context);
    let asked = peer.expect("tools/call").await;
    assert_eq!(asked["params"].get("task"), None);
    let mut answer = text("at once");
    answer["resultType"] = json!("complete");
    peer.reply(&asked, answer.clone()).await;
    assert_eq!(*pending.await.unwrap().unwrap(), answer);
}
