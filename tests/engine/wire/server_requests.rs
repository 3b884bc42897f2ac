//! Requests of servers: passed unchanged to the approval queue, while the clock of the call is
//! stopped; withdrawn when the server cancels them; the rounds of `input_required`.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mcpdeck::error::ErrorCode;
use mcpdeck::mcp::Request;
use mcpdeck::protocol::{Answer, CallId, FindingKind, ListKind, RequestKind};
use serde_json::{Value, json};

use crate::wire::peer::{Rig, call, echo, rig, rig_outside_calls, rig_with, start, text};

/// An approval queue that answers each request after `seconds` with the result of `answer`.
fn answering(seconds: u64, answer: impl Fn(&Value) -> Answer + Send + Sync + 'static) -> Rig {
    let answer = Arc::new(answer);
    let script = Box::new(move |request: mcpdeck::protocol::ServerRequest| {
        let answer = Arc::clone(&answer);
        async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            answer(&request.params)
        }
        .boxed()
    });
    rig_with(|_| {}, Some(script))
}

fn ask(id: Value, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[tokio::test(start_paused = true)]
async fn a_person_may_take_minutes_and_the_clock_of_the_call_stands_still() {
    let mut rig = answering(300, |params| Answer::Result(json!({"seen": params["weird"]})));
    let (connected, mut peer) = rig.legacy().await;
    let one = call(5);
    let pending = start(&connected, echo("a"), one.context);
    let request = peer.expect("tools/call").await;
    // rmcp's types do not have these parameters; the approval queue still receives them.
    peer.send(ask(json!("s-1"), "sampling/createMessage", json!({"weird": [1, {"a": null}]})))
        .await;
    let answer = peer.recv().await;
    assert_eq!(
        answer,
        json!({"jsonrpc": "2.0", "id": "s-1", "result": {"seen": [1, {"a": null}]}})
    );
    peer.reply(&request, text("thanks")).await;
    assert_eq!(*pending.await.unwrap().unwrap(), text("thanks"));
    let asked = rig.asked.recv().await.unwrap();
    assert_eq!(
        (asked.kind, asked.call, asked.deferred),
        (RequestKind::Sampling, Some(CallId(5)), false)
    );
    assert_eq!((one.seen.waited(), one.seen.is_held()), (Duration::from_secs(300), false));
}

#[tokio::test(start_paused = true)]
async fn kinds_are_distinguished_and_a_refusal_keeps_its_code() {
    let mut rig = answering(0, |_| Answer::Refuse { code: -1, message: "no".into() });
    let (connected, mut peer) = rig.legacy().await;
    let _one = start(&connected, echo("a"), call(1).context);
    peer.expect("tools/call").await;
    for (method, params, kind) in [
        ("elicitation/create", json!({"mode": "form"}), RequestKind::Elicitation),
        ("elicitation/create", json!({"mode": "url"}), RequestKind::UrlElicitation),
        ("roots/list", json!({}), RequestKind::Roots),
        ("vendor/thing", json!({"x": 1}), RequestKind::Other("vendor/thing".into())),
        ("tools/call", json!({}), RequestKind::Other("tools/call".into())),
        ("resources/read", json!({}), RequestKind::Other("resources/read".into())),
        ("prompts/list", json!({}), RequestKind::Other("prompts/list".into())),
        ("completion/complete", json!({}), RequestKind::Other("completion/complete".into())),
        ("logging/setLevel", json!({}), RequestKind::Other("logging/setLevel".into())),
    ] {
        peer.send(ask(json!(100), method, params)).await;
        let answer = peer.recv().await;
        assert_eq!(answer["error"], json!({"code": -1, "message": "no"}));
        assert_eq!(rig.asked.recv().await.unwrap().kind, kind);
    }
    for method in ["initialize", "server/discover", "subscriptions/listen"] {
        peer.send(ask(json!(102), method, json!({}))).await;
        assert_eq!(peer.recv().await["error"]["code"], -32601);
        assert!(rig.asked.try_recv().is_err(), "nobody is asked what only a session can answer");
    }
    peer.send(ask(json!(101), "ping", json!({}))).await;
    assert_eq!(peer.recv().await, json!({"jsonrpc": "2.0", "id": 101, "result": {}}));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_is_withdrawn_and_nothing_is_sent_for_it() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let _one = start(&connected, echo("a"), call(1).context);
    peer.expect("tools/call").await;
    peer.send(ask(json!(9), "elicitation/create", json!({}))).await;
    let asked = rig.asked.recv().await.unwrap();
    assert!(!asked.withdrawn.is_cancelled());
    let params = json!({"requestId": 9, "reason": "gave up"});
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
    asked.withdrawn.cancelled().await;
    let next = peer.recv().await;
    assert_eq!(next["method"], "notifications/cancelled", "only the call's own timeout: {next}");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_server_withdraws_at_once() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let pending = start(&connected, echo("a"), call(1).context);
    peer.expect("tools/call").await;
    peer.send(ask(json!(9), "sampling/createMessage", json!({}))).await;
    let asked = rig.asked.recv().await.unwrap();
    let began = tokio::time::Instant::now();
    drop(peer);
    asked.withdrawn.cancelled().await;
    assert_eq!(pending.await.unwrap().unwrap_err().code, ErrorCode::ServerUnavailable);
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn unasked_and_too_many_requests_are_refused_and_counted() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    for n in 0..500 {
        peer.send(ask(json!(n), "sampling/createMessage", json!({}))).await;
    }
    for _ in 0..500 {
        assert_eq!(peer.recv().await["error"]["code"], -32600);
    }
    let found = rig.findings().await;
    assert!(found.iter().all(|f| f.kind == FindingKind::NotAllowed));
    assert_eq!(found.iter().map(|f| f.count).sum::<u64>(), 500);

    let _one = start(&connected, echo("a"), call(1).context);
    peer.expect("tools/call").await;
    for n in 0..40 {
        peer.send(ask(json!(1000 + n), "elicitation/create", json!({}))).await;
    }
    for _ in 0..8 {
        assert_eq!(peer.recv().await["error"]["code"], -32000);
    }
    let counted: u64 = rig.findings().await.iter().map(|f| f.count).sum();
    assert_eq!(counted, 8);
    let mut asked = 0;
    while rig.asked.try_recv().is_ok() {
        asked += 1;
    }
    assert_eq!(asked, 32);
}

#[tokio::test(start_paused = true)]
async fn the_hosts_own_requests_are_no_reason_to_ask_a_person() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let listing = connected.session.list(ListKind::Tools);
    let listing = tokio::spawn(listing);
    let request = peer.expect("tools/list").await;
    for n in 0..500 {
        peer.send(ask(json!(n), "sampling/createMessage", json!({"includeContext": "allServers"})))
            .await;
    }
    for _ in 0..500 {
        assert_eq!(peer.recv().await["error"]["code"], -32600);
    }
    assert!(rig.asked.try_recv().is_err(), "none comes before a person");
    let found = rig.findings().await;
    assert_eq!(found.iter().map(|f| f.count).sum::<u64>(), 500);
    // Roots requests are allowed: servers send them during startup, and they are cheap.
    peer.send(ask(json!("roots"), "roots/list", json!({}))).await;
    assert_eq!(rig.asked.recv().await.unwrap().kind, RequestKind::Roots);
    peer.reply(&request, json!({"tools": []})).await;
    listing.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn with_leave_a_legacy_server_asks_outside_calls_and_still_only_so_much() {
    let mut rig = rig_outside_calls();
    let (connected, mut peer) = rig.legacy().await;
    peer.send(ask(json!("early"), "elicitation/create", json!({"message": "a file changed"})))
        .await;
    let asked = rig.asked.recv().await.unwrap();
    assert_eq!((&asked.kind, asked.call), (&RequestKind::Elicitation, None));
    // A later call does not own the request, so its end does not withdraw it.
    let one = call(7);
    let pending = start(&connected, echo("a"), one.context);
    let request = peer.expect("tools/call").await;
    peer.reply(&request, text("done")).await;
    pending.await.unwrap().unwrap();
    assert!(!asked.withdrawn.is_cancelled());
    assert_eq!(one.seen.waited(), Duration::ZERO, "its clock ran on");
    // The number of open requests is limited as within a call.
    for n in 0..39 {
        peer.send(ask(json!(n), "sampling/createMessage", json!({}))).await;
    }
    for _ in 0..8 {
        assert_eq!(peer.recv().await["error"]["code"], -32000);
    }
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
        "params": {"requestId": "early"}}))
        .await;
    asked.withdrawn.cancelled().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_of_the_newest_version_has_no_leave_to_ask_by_itself() {
    let mut rig = rig_outside_calls();
    let (_connected, mut peer) = rig.modern().await;
    peer.send(ask(json!(1), "elicitation/create", json!({}))).await;
    assert_eq!(peer.recv().await["error"]["code"], -32601);
    assert!(rig.asked.try_recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_given_up_takes_its_questions_with_it() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let (one, two) = (call(1), call(2));
    let _one = start(&connected, echo("a"), one.context);
    peer.expect("tools/call").await;
    peer.send(ask(json!("of one"), "elicitation/create", json!({}))).await;
    let of_one = rig.asked.recv().await.unwrap();
    let _two = start(&connected, echo("b"), two.context);
    peer.expect("tools/call").await;
    peer.send(ask(json!("of either"), "elicitation/create", json!({}))).await;
    let of_either = rig.asked.recv().await.unwrap();
    one.cancel.cancel();
    of_one.withdrawn.cancelled().await;
    assert_eq!(peer.recv().await["method"], "notifications/cancelled");
    assert!(!of_either.withdrawn.is_cancelled(), "the other call may be the one that asks");
    two.cancel.cancel();
    of_either.withdrawn.cancelled().await;
}

#[tokio::test(start_paused = true)]
async fn with_two_calls_open_a_request_belongs_to_their_caller_if_it_is_one() {
    for (callers, of) in [(["a", "a"], Some(CallId(2))), (["a", "b"], None)] {
        let mut rig = rig();
        let (connected, mut peer) = rig.legacy().await;
        let (one, two) = (call(1), call(2));
        one.seen.caller.set(callers[0].into()).unwrap();
        two.seen.caller.set(callers[1].into()).unwrap();
        let _one = start(&connected, echo("a"), one.context);
        let _two = start(&connected, echo("b"), two.context);
        peer.expect("tools/call").await;
        peer.expect("tools/call").await;
        peer.send(ask(json!(9), "elicitation/create", json!({}))).await;
        let asked = rig.asked.recv().await.unwrap();
        assert_eq!((asked.call, asked.is_of_several()), (of, of.is_none()));
        assert_eq!(asked.candidates, [CallId(1), CallId(2)]);
        assert!(one.seen.is_held() && two.seen.is_held(), "no clock runs meanwhile");
    }
}

#[tokio::test(start_paused = true)]
async fn input_is_asked_for_in_rounds_and_the_state_comes_back_byte_for_byte() {
    let mut rig = answering(3600, |params| {
        Answer::Result(json!({"action": "accept", "content": params["message"]}))
    });
    let (connected, mut peer) = rig.modern().await;
    let one = call(4);
    let pending = start(&connected, echo("a"), one.context);
    let first = peer.expect("tools/call").await;
    let state = "opaque \u{0} \"state\" \u{1F600}\n";
    peer.reply(
        &first,
        json!({
            "resultType": "input_required", "requestState": state,
            "inputRequests": {
                "b": {"method": "elicitation/create", "params": {"message": "who?"}},
                "a": {"method": "sampling/createMessage", "params": {"message": "what?"}},
            },
        }),
    )
    .await;
    let second = peer.expect("tools/call").await;
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second["params"]["arguments"], json!({"text": "a"}));
    assert_eq!(second["params"]["requestState"], state);
    assert_eq!(second["params"]["inputResponses"]["b"]["content"], "who?");
    assert_eq!(second["params"]["inputResponses"]["a"]["content"], "what?");
    peer.reply(&second, text("done")).await;
    assert_eq!(*pending.await.unwrap().unwrap(), text("done"));
    let asked = rig.asked.recv().await.unwrap();
    assert_eq!((asked.deferred, asked.call), (true, Some(CallId(4))));
    assert_eq!(one.seen.waited(), Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn rounds_and_inputs_have_limits() {
    let mut rig = answering(0, |_| Answer::Refuse { code: -1, message: "no".into() });
    let (connected, mut peer) = rig.modern().await;
    let pending = start(&connected, Request::ReadResource { uri: "a:b".into() }, call(1).context);
    for round in 0..6 {
        let request = peer.expect("resources/read").await;
        if round > 0 {
            let declined = json!({"k": {"action": "decline"}});
            assert_eq!(request["params"]["inputResponses"], declined);
        }
        let requests = json!({"k": {"method": "elicitation/create", "params": {}}});
        peer.reply(&request, json!({"resultType": "input_required", "inputRequests": requests}))
            .await;
    }
    let error = pending.await.unwrap().unwrap_err();
    assert!(error.message.contains("more than 5 times"), "{error}");
    let asked = std::iter::from_fn(|| rig.asked.try_recv().ok()).count();
    assert_eq!(asked, 5, "nobody is asked for what could not be sent any more");

    let many: serde_json::Map<_, _> =
        (0..9).map(|n| (n.to_string(), json!({"method": "roots/list"}))).collect();
    for (requests, says) in [
        (json!(many), "9 inputs at once"),
        (json!([]), "is not an object"),
        (json!({"k": {"method": "evil/thing"}}), "unknown input `evil/thing`"),
        (json!({"k": {"method": "sampling/createMessage"}}), "was refused"),
        (json!({}), "neither inputs nor a state"),
    ] {
        let pending = start(&connected, echo("a"), call(2).context);
        let request = peer.expect("tools/call").await;
        peer.reply(&request, json!({"resultType": "input_required", "inputRequests": requests}))
            .await;
        let error = pending.await.unwrap().unwrap_err();
        assert!(error.message.contains(says), "{error}");
        assert_eq!(error.request.as_deref(), Some("tools/call echo"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_may_have_limits_of_its_own_on_rounds_and_inputs() {
    let rig = rig_with(|limits| (limits.input_rounds, limits.inputs_per_round) = (1, 2), None);
    let (connected, mut peer) = rig.modern().await;
    let pending = start(&connected, echo("a"), call(1).context);
    for _ in 0..2 {
        let request = peer.expect("tools/call").await;
        let again = json!({"resultType": "input_required", "requestState": "s"});
        peer.reply(&request, again).await;
    }
    let error = pending.await.unwrap().unwrap_err();
    assert!(error.message.contains("more than 1 time (`limits.inputRounds`)"), "{error}");
    assert!(error.help.as_deref().is_some_and(|help| help.contains("raise `limits.inputRounds`")));

    let pending = start(&connected, echo("a"), call(2).context);
    let request = peer.expect("tools/call").await;
    let one = json!({"method": "roots/list"});
    let requests = json!({"a": one, "b": one, "c": one});
    peer.reply(&request, json!({"resultType": "input_required", "inputRequests": requests})).await;
    let error = pending.await.unwrap().unwrap_err();
    assert!(error.message.contains("the limit is 2 (`limits.inputsPerRound`)"), "{error}");
    assert!(
        error.help.as_deref().is_some_and(|help| help.contains("raise `limits.inputsPerRound`"))
    );
}

#[tokio::test(start_paused = true)]
async fn cancelling_during_input_withdraws_the_question() {
    let mut rig = rig();
    let (connected, mut peer) = rig.modern().await;
    let one = call(1);
    let pending = start(&connected, echo("a"), one.context);
    let request = peer.expect("tools/call").await;
    let requests = json!({"k": {"method": "elicitation/create", "params": {}}});
    peer.reply(&request, json!({"resultType": "input_required", "inputRequests": requests})).await;
    let asked = rig.asked.recv().await.unwrap();
    assert!(one.seen.is_held());
    one.cancel.cancel();
    assert_eq!(pending.await.unwrap().unwrap_err().code, ErrorCode::Cancelled);
    asked.withdrawn.cancelled().await;
    assert!(peer.maybe_recv().await.is_none(), "nothing is open, so nothing is cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_may_not_ask_by_itself() {
    let mut rig = rig();
    let (connected, mut peer) = rig.modern().await;
    let _one = start(&connected, echo("a"), call(1).context);
    peer.expect("tools/call").await;
    peer.send(ask(json!(9), "sampling/createMessage", json!({}))).await;
    assert_eq!(peer.recv().await["error"]["code"], -32601);
    assert_eq!(rig.kinds().await, [FindingKind::NotAllowed]);
    assert!(rig.asked.try_recv().is_err());
}
