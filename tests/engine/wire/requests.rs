//! Requests: deadline, cancellation, progress, lists, records.

use std::sync::Arc;
use std::time::Duration;

use mcpdeck::error::{Error, ErrorCode};
use mcpdeck::mcp::{Attempt, Request, connect};
use mcpdeck::protocol::{CallId, Direction, FindingKind, ListKind, MessageKind, SessionEvent};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::wire::peer::{Peer, call, echo, pipe, rig, rig_with, start, text};

async fn progress(peer: &mut Peer, to: &Value, value: Value) {
    let token = &to["params"]["_meta"]["progressToken"];
    let params = json!({"progressToken": token, "progress": value, "message": "step"});
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_timeout_reports_the_server_and_a_late_answer_is_recorded_as_late() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let began = Instant::now();
    let pending = start(&connected, echo("a"), call(1).context);
    let request = peer.expect("tools/call").await;
    let error = pending.await.unwrap().unwrap_err();
    assert_eq!((error.code, began.elapsed()), (ErrorCode::Timeout, Duration::from_secs(30)));
    assert_eq!(error.request.as_deref(), Some("tools/call echo"));
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
    peer.reply(&request, text("late")).await;
    assert_eq!(rig.kinds().await, [FindingKind::LateAnswer]);
    let late = rig.traffic().into_iter().rfind(|r| r.direction == Direction::In).unwrap();
    assert_eq!((late.call, late.target.as_deref()), (Some(CallId(1)), Some("echo")));
    assert!(late.latency.unwrap() >= Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn progress_extends_the_deadline_arrives_in_order_and_before_the_result() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let mut one = call(1);
    let pending = start(&connected, echo("a"), one.context);
    let request = peer.expect("tools/call").await;
    for step in 1..=4 {
        tokio::time::sleep(Duration::from_secs(25)).await;
        progress(&mut peer, &request, json!(step)).await;
    }
    peer.reply(&request, text("done")).await;
    assert_eq!(*pending.await.unwrap().unwrap(), text("done"));
    let mut steps = Vec::new();
    while let Ok(step) = one.progress.try_recv() {
        steps.push(step.progress as u32);
    }
    assert_eq!(steps, [1, 2, 3, 4]);
}

#[tokio::test(start_paused = true)]
async fn wild_progress_is_clamped_and_a_wrong_token_reported() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let mut one = call(1);
    let pending = start(&connected, echo("a"), one.context);
    let request = peer.expect("tools/call").await;
    for n in 0..10_000 {
        progress(&mut peer, &request, json!(n % 7)).await;
    }
    progress(&mut peer, &request, json!(1e308)).await;
    let params = json!({"progressToken": "nobody", "progress": 1});
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
        .await;
    peer.reply(&request, text("done")).await;
    pending.await.unwrap().unwrap();
    let mut steps = Vec::new();
    while let Ok(step) = one.progress.try_recv() {
        steps.push(step.progress);
    }
    assert!(steps.len() < 100, "{}", steps.len());
    assert!(steps.is_sorted() && steps.last().unwrap().is_finite());
    assert_eq!(rig.kinds().await, [FindingKind::UnknownId]);
}

#[tokio::test(start_paused = true)]
async fn cancelling_is_immediate_even_when_the_server_reads_nothing() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let one = call(1);
    let pending = start(&connected, echo(&"x".repeat(80 << 20)), one.context);
    tokio::task::yield_now().await;
    let two = call(2);
    let behind = start(&connected, echo("b"), two.context);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    one.cancel.cancel();
    assert_eq!(pending.await.unwrap().unwrap_err().code, ErrorCode::Cancelled);
    assert_eq!(began.elapsed(), Duration::ZERO);
    let error = behind.await.unwrap().unwrap_err();
    assert_eq!(error.code, ErrorCode::Timeout, "a call behind a full pipe ends in time too");
    connected.session.close(Error::new(ErrorCode::ServerUnavailable, "stopping")).await;
    assert!(began.elapsed() < Duration::from_secs(40));
    let _ = &mut peer;
}

#[tokio::test(start_paused = true)]
async fn dropping_a_request_cancels_it() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let future = connected.session.request(echo("a"), call(1).context);
    let mut future = Box::pin(future);
    let request = tokio::select! {
        _ = &mut future => panic!("nobody answered"),
        request = peer.expect("tools/call") => request,
    };
    drop(future);
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], request["id"]);
}

#[tokio::test(start_paused = true)]
async fn closing_fails_what_is_open_with_the_reason_and_closes_the_pipe() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let pending = start(&connected, echo("a"), call(1).context);
    peer.expect("tools/call").await;
    connected.session.close(Error::new(ErrorCode::ServerUnavailable, "being restarted")).await;
    let error = pending.await.unwrap().unwrap_err();
    assert_eq!(
        (error.code, error.message.as_str()),
        (ErrorCode::ServerUnavailable, "being restarted")
    );
    peer.closed().await;
    let error = connected.session.request(echo("b"), call(2).context).await.unwrap_err();
    assert_eq!(error.message, "being restarted");
    tokio::time::sleep(Duration::from_secs(1)).await;
    while let Ok(event) = rig.events.try_recv() {
        assert!(!matches!(event, SessionEvent::Closed(_)), "the owner closed it itself");
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_server_has_asked_is_answered_before_the_pipe_is_closed() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    for id in 1..=3 {
        peer.send(json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"})).await;
        rig.asked.recv().await.unwrap();
    }
    connected.session.close(Error::new(ErrorCode::ServerUnavailable, "enough")).await;
    let mut answered: Vec<i64> = Vec::new();
    for _ in 1..=3 {
        let answer = peer.recv().await;
        assert!(answer["error"]["message"].as_str().unwrap().contains("closing"), "{answer}");
        answered.extend(answer["id"].as_i64());
    }
    answered.sort_unstable();
    assert_eq!(answered, [1, 2, 3]);
    peer.closed().await;
}

#[tokio::test(start_paused = true)]
async fn a_question_after_the_end_is_known_behind_whatever_was_said_before_it() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    connected.session.close(Error::new(ErrorCode::ServerUnavailable, "enough")).await;
    peer.closed().await;
    let late = connected.session.asked_too_late();
    for text in ["going", "going", "gone"] {
        let params = json!({"level": "info", "data": text});
        let said = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
        peer.send(said).await;
    }
    assert!(
        tokio::time::timeout(Duration::from_secs(60), late).await.is_err(),
        "nothing was asked"
    );
    peer.send(json!({"jsonrpc": "2.0", "id": 1, "method": "roots/list"})).await;
    connected.session.asked_too_late().await;
    assert_eq!(rig.kinds().await, [FindingKind::AskedAfterClose]);
}

#[tokio::test(start_paused = true)]
async fn what_crosses_a_cancellation_or_the_end_is_no_finding() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let given_up = call(1);
    let pending = start(&connected, echo("a"), given_up.context);
    let first = peer.expect("tools/call").await;
    given_up.cancel.cancel();
    pending.await.unwrap().unwrap_err();
    let token = &first["params"]["_meta"]["progressToken"];
    let params = json!({"progressToken": token, "progress": 0.5});
    let progress = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
    peer.send(progress.clone()).await;
    peer.expect("notifications/cancelled").await;
    let open = start(&connected, echo("b"), call(2).context);
    let second = peer.expect("tools/call").await;
    connected.session.close(Error::new(ErrorCode::ServerUnavailable, "enough")).await;
    open.await.unwrap().unwrap_err();
    peer.reply(&second, text("too late")).await;
    peer.send(progress).await;
    assert_eq!(rig.kinds().await, []);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_session_closes_the_pipe() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    drop(connected);
    peer.closed().await;
}

#[tokio::test(start_paused = true)]
async fn logs_arrive_in_the_order_in_which_they_were_sent() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let pending = start(&connected, echo("a"), call(1).context);
    let request = peer.expect("tools/call").await;
    for n in 0..500 {
        let params =
            json!({"level": "warning", "logger": "a", "data": format!("line {n} s3cr3t-value")});
        peer.send(json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params}))
            .await;
    }
    peer.reply(&request, text("done")).await;
    pending.await.unwrap().unwrap();
    let lines: Vec<String> =
        rig.context.logs.read(0, 1000).items.iter().map(|r| r.text.to_string()).collect();
    let expected: Vec<String> = (0..500).map(|n| format!("line {n} ***")).collect();
    assert_eq!(lines, expected);
}

#[tokio::test(start_paused = true)]
async fn every_message_is_recorded_with_call_and_latency_and_without_secrets() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let one = call(7);
    let counter = Arc::clone(&one.seen);
    let pending = start(&connected, echo("s3cr3t-value"), one.context);
    let request = peer.expect("tools/call").await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    peer.reply(&request, text(&format!("s3cr3t-value {}", "x".repeat(100_000)))).await;
    pending.await.unwrap().unwrap();
    let records = rig.traffic();
    let [sent, came] = &records[records.len() - 2..] else { panic!("two records") };
    assert_eq!((sent.direction, sent.kind), (Direction::Out, MessageKind::Request));
    assert_eq!((came.direction, came.kind), (Direction::In, MessageKind::Response));
    assert_eq!(came.latency, Some(Duration::from_millis(250)));
    for record in [sent, came] {
        assert_eq!(record.method.as_deref(), Some("tools/call"));
        assert_eq!((record.target.as_deref(), record.call), (Some("echo"), Some(CallId(7))));
        assert!(!record.body.contains("s3cr3t"), "{}", &record.body[..200]);
        assert!(record.body.contains("***"));
    }
    assert!(came.cut && came.body.len() <= 64 << 10 && came.bytes > 100_000);
    let (received, sent) = counter.bytes.totals();
    assert!(received > 100_000 && sent > 50 && sent < 500, "{received} {sent}");
    assert_eq!(rig.context.black_box.tail(10).last(), records.last());
}

/// How a request ends that gets no answer.
enum Unanswered {
    ServerGoes,
    TimesOut,
    IsCancelled,
    IsDropped,
    HostCloses,
}

#[tokio::test(start_paused = true)]
async fn a_request_that_gets_no_answer_says_why_where_its_answer_would_stand() {
    for (ending, why) in [
        (Unanswered::ServerGoes, "the server went away"),
        (Unanswered::TimesOut, "timed out"),
        (Unanswered::IsCancelled, "cancelled"),
        (Unanswered::IsDropped, "given up"),
        (Unanswered::HostCloses, "the server went away: stopped on request"),
    ] {
        let rig = rig();
        let (connected, mut peer) = rig.legacy().await;
        let one = call(1);
        let future = connected.session.request(echo("a"), one.context);
        let pending = tokio::spawn(future);
        peer.expect("tools/call").await;
        match ending {
            Unanswered::ServerGoes => drop(peer),
            Unanswered::TimesOut => {}
            Unanswered::IsCancelled => one.cancel.cancel(),
            Unanswered::IsDropped => pending.abort(),
            Unanswered::HostCloses => {
                let reason = Error::new(ErrorCode::ServerUnavailable, "stopped on request");
                connected.session.close(reason).await;
            }
        }
        assert!(!matches!(pending.await, Ok(Ok(_))));
        let records = rig.traffic();
        let found: Vec<_> = records.iter().filter_map(|record| record.unanswered()).collect();
        assert!(matches!(found[..], [reason] if reason.starts_with(why)), "{why}: {found:?}");
        let ended = records.iter().find(|record| record.unanswered().is_some()).unwrap();
        assert_eq!((ended.direction, ended.call), (Direction::In, Some(CallId(1))));
        assert_eq!(ended.target.as_deref(), Some("echo"));
        let asked = records.iter().find(|record| {
            record.kind == MessageKind::Request && record.method.as_deref() == Some("tools/call")
        });
        assert_eq!(ended.id, asked.unwrap().id);
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_the_server_takes_back_gets_no_answer() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let one = call(1);
    let pending = start(&connected, echo("a"), one.context);
    let request = peer.expect("tools/call").await;
    peer.send(json!({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage",
        "params": {"messages": [], "maxTokens": 1}}))
        .await;
    let params = json!({"requestId": "q", "reason": "too late"});
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
    peer.reply(&request, text("done")).await;
    pending.await.unwrap().unwrap();
    let records = rig.traffic();
    let ended = records.iter().find(|record| record.unanswered().is_some()).unwrap();
    assert_eq!(ended.unanswered(), Some("the server withdrew it: too late"));
    assert_eq!(
        (ended.direction, ended.method.as_deref()),
        (Direction::Out, Some("sampling/createMessage"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_counts_as_sent_before_the_server_has_the_whole_of_it() {
    let rig = rig();
    let (endpoint, mut peer) = pipe(1 << 10);
    let connecting = connect(endpoint, &Attempt::Legacy(None), rig.context.clone());
    let (connected, _) = tokio::join!(connecting, peer.initialize());
    let connected = connected.unwrap();
    let one = call(1);
    let counter = Arc::clone(&one.seen);
    let pending = start(&connected, echo(&"x".repeat(1 << 20)), one.context);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(counter.bytes.totals().1 > 1 << 20, "a part of it may be with the server");
    drop(peer);
    assert!(pending.await.unwrap().is_err());
    assert!(counter.bytes.totals().1 > 0, "it must not look as if it had never left");
}

#[tokio::test(start_paused = true)]
async fn lists_follow_empty_cursors_and_end_at_one_that_repeats() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let listing = connected.session.list(ListKind::Tools);
    let server = async {
        let mut cursors = Vec::new();
        for (tools, next) in [
            (json!([{"name": "a"}, 7]), json!("")),
            (json!([{"name": "b"}]), json!("x")),
            (json!([{"name": "c"}]), json!("x")),
        ] {
            let request = peer.expect("tools/list").await;
            cursors.push(request["params"]["cursor"].clone());
            peer.reply(&request, json!({"tools": tools, "nextCursor": next})).await;
        }
        cursors
    };
    let (list, cursors) = tokio::join!(listing, server);
    let list = list.unwrap();
    assert_eq!(cursors, [json!(null), json!(""), json!("x")]);
    assert_eq!(list.entries.len(), 3);
    assert_eq!((list.rejected.len(), list.rejected[0].index), (1, 1));
    assert!(list.partial.unwrap().to_string().contains("came again"));
    assert_eq!(rig.kinds().await, [FindingKind::BadEntry, FindingKind::PartialList]);
}

#[tokio::test(start_paused = true)]
async fn lists_that_fail_later_or_never_end_are_partial() {
    let rig = rig_with(
        |limits| {
            limits.list_pages = 5;
            limits.list_entries = 8;
            limits.line_bytes = 4 << 10;
        },
        None,
    );
    let (connected, mut peer) = rig.legacy().await;
    for (per_page, about, fail_at, entries, says) in [
        (1, 0, 3, 2, "page 3 failed"),
        (1, 0, 99, 5, "more than 5 pages"),
        (3, 0, 99, 8, "more than 8 entries"),
        (1, 3_900, 99, 5, "more than 16 kB"),
    ] {
        let listing = connected.session.list(ListKind::Prompts);
        tokio::pin!(listing);
        let mut page = 0;
        let list = loop {
            tokio::select! {
                biased;
                list = &mut listing => break list.unwrap(),
                request = peer.expect("prompts/list") => {
                    page += 1;
                    if page == fail_at {
                        peer.fail(&request, -32603, "boom").await;
                    } else {
                        let prompt = json!({"name": "p", "description": "x".repeat(about)});
                        let prompts = vec![prompt; per_page];
                        peer.reply(&request, json!({"prompts": prompts, "nextCursor": page.to_string()})).await;
                    }
                }
            }
        };
        assert_eq!(list.entries.len(), entries);
        let partial = list.partial.unwrap().to_string();
        assert!(partial.contains(says), "{partial}");
    }
    let listing = connected.session.list(ListKind::Tools);
    let server = async {
        let request = peer.expect("tools/list").await;
        peer.reply(&request, json!({"tools": {}})).await;
    };
    let (list, ()) = tokio::join!(listing, server);
    assert!(list.unwrap_err().message.contains("is not an array"));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_calls_at_once_all_get_their_own_answer() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let pending: Vec<_> =
        (0..1000).map(|n| start(&connected, echo(&n.to_string()), call(n).context)).collect();
    for _ in 0..1000 {
        let request = peer.expect("tools/call").await;
        let said = request["params"]["arguments"]["text"].as_str().unwrap().to_owned();
        peer.reply(&request, text(&said)).await;
    }
    for (n, answer) in pending.into_iter().enumerate() {
        assert_eq!(*answer.await.unwrap().unwrap(), text(&n.to_string()));
    }
}

#[tokio::test(start_paused = true)]
async fn every_request_goes_out_as_the_specification_spells_it() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let cases = [
        (
            Request::GetPrompt { name: "p".into(), arguments: Arc::new(json!({"a": "1"})) },
            "prompts/get",
            json!({"name": "p", "arguments": {"a": "1"}}),
        ),
        (Request::ReadResource { uri: "a:b".into() }, "resources/read", json!({"uri": "a:b"})),
        (Request::Complete { params: json!({"ref": 1}) }, "completion/complete", json!({"ref": 1})),
        (Request::Subscribe { uri: "a:b".into() }, "resources/subscribe", json!({"uri": "a:b"})),
        (
            Request::Unsubscribe { uri: "a:b".into() },
            "resources/unsubscribe",
            json!({"uri": "a:b"}),
        ),
        (
            Request::SetLogLevel(mcpdeck::base::LogLevel::Trace),
            "logging/setLevel",
            json!({"level": "debug"}),
        ),
    ];
    for (request, method, params) in cases {
        let pending = start(&connected, request, call(1).context);
        let mut sent = peer.expect(method).await;
        sent["params"].as_object_mut().unwrap().shift_remove("_meta");
        assert_eq!(sent["params"], params);
        peer.reply(&sent, json!({"messages": [], "contents": []})).await;
        pending.await.unwrap().unwrap();
    }
    connected.session.roots_changed().await;
    peer.expect("notifications/roots/list_changed").await;
}

#[tokio::test(start_paused = true)]
async fn a_call_given_up_in_the_middle_of_its_message_leaves_the_stream_whole() {
    let rig = rig();
    let (endpoint, mut peer) = pipe(4096);
    let attempt = Attempt::Legacy(None);
    let connecting = connect(endpoint, &attempt, rig.context.clone());
    let (connected, _) = tokio::join!(connecting, peer.initialize());
    let connected = connected.unwrap();
    let one = call(1);
    let given_up = start(&connected, echo(&"x".repeat(100_000)), one.context);
    tokio::time::sleep(Duration::from_secs(1)).await;
    one.cancel.cancel();
    assert_eq!(given_up.await.unwrap().unwrap_err().code, ErrorCode::Cancelled);
    let next = start(&connected, echo("next"), call(2).context);
    let first = peer.expect("tools/call").await;
    assert_eq!(first["params"]["arguments"]["text"].as_str().unwrap().len(), 100_000);
    assert_eq!(peer.expect("notifications/cancelled").await["params"]["requestId"], first["id"]);
    let second = peer.expect("tools/call").await;
    peer.reply(&second, text("fine")).await;
    assert_eq!(*next.await.unwrap().unwrap(), text("fine"));
}
