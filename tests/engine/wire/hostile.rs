//! Lines that attack the host that reads them: many messages on one line, megabytes of text where a
//! word is expected, secrets in recorded places.

use std::sync::Arc;

use mcpdeck::protocol::{Direction, MessageKind, SessionEvent, Tap};
use serde_json::json;

use crate::wire::peer::{Rig, call, echo, rig, start};

/// A tap without a session, and the rig that records it.
fn tap() -> (Arc<Tap>, Rig) {
    let rig = rig();
    (Tap::new(rig.context.clone(), |_, _| {}), rig)
}

/// The number of requests parsed from a line.
fn messages(line: &[u8]) -> usize {
    let (tap, rig) = tap();
    tap.line(line, None);
    requests_received(&rig)
}

/// The number of requests received.
fn requests_received(rig: &Rig) -> usize {
    rig.traffic()
        .iter()
        .filter(|r| r.direction == Direction::In && r.kind == MessageKind::Request)
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_line_of_a_million_objects_is_read_without_a_stack_and_only_once() {
    let ping = r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#;
    let empty = "{}".repeat(1_000_000);
    assert_eq!(messages(format!("{empty}{ping}").as_bytes()), 0, "too many for one line");
    assert_eq!(messages(format!("{{}}{{}}{ping}").as_bytes()), 1);
    let two = format!("{ping}{}", ping.replace("\"a\"", "\"b\""));
    assert_eq!(messages(two.as_bytes()), 2);
}

#[tokio::test(start_paused = true)]
async fn a_word_of_any_length_is_not_kept_many_times() {
    let (tap, rig) = tap();
    let long = "x".repeat(256 << 10);
    for n in 0..10 {
        for message in [
            json!({"jsonrpc": long, "id": n, "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": format!("{n}{long}"), "method": "ping"}),
            json!({"jsonrpc": "2.0", "id": [n], "method": long}),
            json!({"jsonrpc": "2.0", "error": {"code": 1, "message": long}}),
            json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                "params": {"uri": format!("file:///{n}{long}")}}),
        ] {
            tap.line(message.to_string().as_bytes(), None);
        }
        let twice = format!("{{\"{long}\":1,\"{long}\":2,\"id\":{n},\"method\":\"a\"}}");
        tap.line(twice.as_bytes(), None);
    }
    let problems = rig.traffic();
    let problems = problems.iter().filter_map(|record| record.problem.as_ref());
    let kept: usize = problems.map(|problem| problem.len()).sum();
    assert!(kept < 256 << 10, "{kept} bytes of remarks");
    let traffic = rig.traffic();
    let ids: usize = traffic.iter().filter_map(|r| r.id.as_ref()).map(|id| id.len()).sum();
    assert!(ids < 256 << 10, "{ids} bytes of ids");
    let events = tap.pump.take();
    let held = events.iter().map(|event| match event {
        SessionEvent::Finding(finding) => finding.message.len(),
        SessionEvent::ResourceUpdated(uri) => uri.len(),
        _ => 0,
    });
    let held: usize = held.sum();
    assert!(held < 256 << 10, "{held} bytes of findings and names");
}

#[tokio::test(start_paused = true)]
async fn a_secret_in_front_of_a_message_or_across_the_cut_is_masked_where_it_is_kept() {
    let (tap, rig) = tap();
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let across = format!("{}s3cr3t-value {ping}", "x".repeat(74));
    for line in [format!("KEY=s3cr3t-value {ping}"), across] {
        tap.line(line.as_bytes(), None);
    }
    let twice = r#"{"s3cr3t-value":1,"s3cr3t-value":2,"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    tap.line(twice.as_bytes(), None);
    for record in rig.traffic() {
        let shown = format!("{record:?}");
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }
    for event in tap.pump.take() {
        let shown = format!("{event:?}");
        assert!(!shown.contains("s3cr3t"), "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_in_progress_and_in_the_data_of_an_error_are_masked() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let mut of = call(1);
    let pending = start(&connected, echo("a"), of.context);
    let request = peer.expect("tools/call").await;
    let token = request["params"]["_meta"]["progressToken"].clone();
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": token, "progress": 1, "message": "with s3cr3t-value"}}))
        .await;
    let data = json!({"env": ["s3cr3t-value"], "deep": {"s3cr3t-value": 1}});
    let error = json!({"code": -1, "message": "m", "data": data});
    peer.send(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
    let error = pending.await.unwrap().unwrap_err();
    let data = error.rpc.as_ref().unwrap().data.as_ref().unwrap();
    assert!(!data.to_string().contains("s3cr3t"), "{data}");
    let step = of.progress.recv().await.unwrap();
    assert_eq!(step.message.as_deref(), Some("with ***"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_whose_text_has_line_breaks_in_it_is_cut_where_it_ends() {
    let (tap, rig) = tap();
    let spread = "{\"jsonrpc\":\"2.0\",\n\"id\":1,\n\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"}\nrest";
    tap.line(spread.as_bytes(), None);
    assert_eq!(requests_received(&rig), 2);
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_person_is_bounded_in_bytes_too() {
    let rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let pending = start(&connected, echo("a"), call(1).context);
    peer.expect("tools/call").await;
    let prompt = "x".repeat(3 << 20);
    for id in ["first", "second"] {
        let params = json!({"maxTokens": 1, "messages": [
            {"role": "user", "content": {"type": "text", "text": prompt}}]});
        let method = "sampling/createMessage";
        peer.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }
    let refused = peer.recv().await;
    assert_eq!(refused["id"], "second", "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("limits.lineBytes"));
    drop(pending);
}

#[tokio::test(start_paused = true)]
async fn junk_is_called_by_the_way_it_came() {
    let (tap, rig) = tap();
    tap.line(b"oops", None);
    rig.context.seen.with(|seen| seen.http = Some(200));
    tap.line(b"oops", None);
    let told: Vec<String> =
        rig.traffic().iter().filter_map(|r| r.problem.as_ref().map(ToString::to_string)).collect();
    assert_eq!(
        told,
        [
            "a line on stdout that is not JSON-RPC: `oops`",
            "what came over HTTP is not JSON-RPC: `oops`"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_header_of_language_servers_is_named_for_what_it_is() {
    let (tap, rig) = tap();
    tap.line(b"Content-Length: 71", None);
    let told = rig.traffic()[0].problem.clone().expect("a problem");
    assert!(told.contains("language servers"), "{told}");
}
