//! Handshakes of both eras, and their failures.

use std::time::Duration;

use mcpdeck::base::LogLevel;
use mcpdeck::error::ErrorCode;
use mcpdeck::mcp::{Attempt, Request, connect};
use mcpdeck::protocol::{Era, FindingKind, SessionEvent};
use serde_json::json;

use crate::wire::peer::{Rig, call, echo, pipe, rig, start, text};

#[tokio::test(start_paused = true)]
async fn a_legacy_handshake_gives_the_view_as_sent_and_offers_what_the_host_can() {
    let rig = rig();
    let (endpoint, mut peer) = pipe(1 << 20);
    let attempt = Attempt::Legacy(None);
    let (connected, request) =
        tokio::join!(connect(endpoint, &attempt, rig.context.clone()), peer.initialize());
    let view = connected.unwrap().view;
    assert_eq!((view.era, view.protocol_version.as_str()), (Era::Legacy, "2025-11-25"));
    assert_eq!(view.server_info["x-extra"], true);
    assert_eq!(request["params"]["protocolVersion"], "2025-11-25");
    let capabilities = &request["params"]["capabilities"];
    assert_eq!(capabilities["roots"], json!({"listChanged": true}));
    assert_eq!(capabilities["elicitation"], json!({"form": {}, "url": {}}));
    assert_eq!(capabilities["sampling"], json!({"tools": {}, "context": {}}));
    let (received, sent) = rig.context.bytes.totals();
    assert!(received > 100 && sent > 100);
}

#[tokio::test(start_paused = true)]
async fn a_modern_handshake_puts_its_context_into_every_request() {
    let rig = rig();
    let (connected, mut peer) = rig.modern().await;
    assert_eq!((connected.view.era, connected.view.name.as_str()), (Era::Modern, "peer"));
    let pending = start(&connected, echo("a"), call(1).context);
    let request = peer.expect("tools/call").await;
    let meta = &request["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "mcpdeck");
    peer.reply(&request, text("x")).await;
    assert_eq!(*pending.await.unwrap().unwrap(), text("x"));
    let level = Request::SetLogLevel(LogLevel::Warning);
    connected.session.request(level, call(2).context).await.unwrap();
    let _pending = start(&connected, echo("a"), call(3).context);
    let request = peer.expect("tools/call").await;
    assert_eq!(request["params"]["_meta"]["io.modelcontextprotocol/logLevel"], "warning");
}

#[tokio::test(start_paused = true)]
async fn an_error_to_the_probe_is_followed_by_initialize_on_the_same_connection() {
    for code in [-32601, -32602, -32600] {
        let rig = rig();
        let (connected, _peer) = rig
            .try_connect(Attempt::Auto, |mut peer| async {
                let probe = peer.expect("server/discover").await;
                peer.fail(&probe, code, "what?").await;
                peer.initialize().await;
                peer
            })
            .await;
        assert_eq!(connected.unwrap().view.era, Era::Legacy);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_no_answer_to_the_probe_means_legacy_too() {
    for answer in [json!({}), json!(null), json!({"content": []})] {
        let mut rig = rig();
        let (connected, _peer) = rig
            .try_connect(Attempt::Auto, |mut peer| async {
                let probe = peer.expect("server/discover").await;
                peer.reply(&probe, answer).await;
                peer.initialize().await;
                peer
            })
            .await;
        assert_eq!(connected.unwrap().view.era, Era::Legacy);
        assert_eq!(rig.kinds().await, [FindingKind::WrongShape]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_reads_late_gets_initialize_and_its_late_answer_disturbs_nothing() {
    let mut rig = rig();
    let (connected, _peer) = rig
        .try_connect(Attempt::Auto, |mut peer| async {
            let probe = peer.expect("server/discover").await;
            tokio::time::sleep(Duration::from_secs(15)).await;
            peer.fail(&probe, -32601, "unknown").await;
            peer.initialize().await;
            peer
        })
        .await;
    assert_eq!(connected.unwrap().view.era, Era::Legacy);
    assert_eq!(rig.kinds().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_secret_in_what_a_server_says_of_itself_is_masked() {
    let secret = "s3cr3t-value";
    for modern in [false, true] {
        let rig = rig();
        let attempt = if modern { Attempt::Modern } else { Attempt::Legacy(None) };
        let (connected, _peer) = rig
            .try_connect(attempt, |mut peer| async {
                let method = if modern { "server/discover" } else { "initialize" };
                let request = peer.expect(method).await;
                let info =
                    json!({"name": format!("at {secret}"), "version": secret, "title": secret});
                let result = json!({
                    "protocolVersion": request["params"]["protocolVersion"],
                    "supportedVersions": ["2026-07-28"], "capabilities": {}, "serverInfo": info,
                    "instructions": format!("say {secret}\nthen go on"),
                });
                peer.reply(&request, result).await;
                peer
            })
            .await;
        let view = connected.unwrap().view;
        assert_eq!(view.instructions.as_deref(), Some("say ***\nthen go on"));
        assert_eq!(view.name.as_str(), "at ***");
        assert!(!format!("{view:?}").contains(secret), "{view:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_that_starts_slowly_keeps_its_era() {
    let mut rig = rig();
    let connecting = rig.try_connect(Attempt::Auto, |mut peer| async {
        tokio::time::sleep(Duration::from_secs(26)).await;
        peer.discover(json!({"tools": {}})).await;
        peer
    });
    let connecting = tokio::time::timeout(Duration::from_secs(60), connecting);
    let (connected, _peer) = connecting.await.expect("its answer counts");
    assert_eq!(connected.unwrap().view.era, Era::Modern);
    assert_eq!(rig.kinds().await, []);
    assert_eq!(unanswered(&rig), ["another question was answered first"]);
}

/// Why requests got no answer.
fn unanswered(rig: &Rig) -> Vec<String> {
    rig.traffic().iter().filter_map(|one| Some(one.unanswered()?.to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn no_question_was_answered_first_where_a_start_was_given_up() {
    // Silent from the beginning, and after an error as an answer to the probe.
    let rig = rig();
    let (endpoint, _peer) = pipe(1 << 20);
    let connecting = connect(endpoint, &Attempt::Auto, rig.context.clone());
    assert!(tokio::time::timeout(Duration::from_secs(60), connecting).await.is_err());
    assert_eq!(unanswered(&rig), ["the start was given up"; 2]);

    let rig = self::rig();
    let connecting = rig.try_connect(Attempt::Auto, |mut peer| async {
        let probe = peer.expect("server/discover").await;
        peer.fail(&probe, -32601, "unknown").await;
        peer
    });
    assert!(tokio::time::timeout(Duration::from_secs(60), connecting).await.is_err());
    assert_eq!(unanswered(&rig), ["the start was given up"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_dies_of_the_probe_says_what_was_seen() {
    let rig = rig();
    let (result, ()) = {
        let (endpoint, mut peer) = pipe(1 << 20);
        let server = async move {
            peer.expect("server/discover").await;
            peer.line("Traceback (most recent call last):").await;
            drop(peer);
        };
        tokio::join!(connect(endpoint, &Attempt::Auto, rig.context.clone()), server)
    };
    let error = result.unwrap_err();
    assert_eq!((error.error.code, error.retryable), (ErrorCode::ServerStartup, true));
    let message = &error.error.message;
    assert!(message.contains("closed its output"), "{message}");
    assert!(message.contains("1 line on stdout that is not JSON-RPC"), "{message}");
    assert!(message.contains("Traceback"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_timeout_leaves_words_and_nothing_else_behind() {
    let rig = rig();
    let (endpoint, mut peer) = pipe(1 << 20);
    let attempt = Attempt::Legacy(None);
    let connecting = connect(endpoint, &attempt, rig.context.clone());
    tokio::time::timeout(Duration::from_secs(30), connecting).await.unwrap_err();
    assert_eq!(
        rig.context.seen.describe(rig.context.clock.instant()),
        "no byte from the server in 30.0 s"
    );
    peer.expect("initialize").await;
    peer.closed().await;

    for (said, expected) in [
        ("HTTP/1.1 400 Bad Request\r\n\r\n", "stdout speaks HTTP, not JSON-RPC"),
        (
            "{\"jsonrpc\"",
            "10 bytes without an end of line, no JSON-RPC message, no answer to initialize",
        ),
        ("ready\n", "1 line on stdout that is not JSON-RPC (first: `ready`)"),
        ("{", "1 byte without an end of line, no JSON-RPC message"),
        ("{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n", ", 1 JSON-RPC message, no answer"),
    ] {
        let (endpoint, mut peer) = pipe(1 << 20);
        peer.raw(said).await;
        let connecting = connect(endpoint, &attempt, rig.context.clone());
        tokio::time::timeout(Duration::from_secs(5), connecting).await.unwrap_err();
        let seen = rig.context.seen.describe(rig.context.clock.instant());
        assert!(seen.contains(expected), "{seen}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_with_holes_is_taken_and_reported() {
    let mut rig = rig();
    let (connected, _peer) = rig
        .try_connect(Attempt::Legacy(None), |mut peer| async {
            let request = peer.expect("initialize").await;
            peer.reply(&request, json!({"protocolVersion": "2025-06-18"})).await;
            peer.expect("notifications/initialized").await;
            peer
        })
        .await;
    assert_eq!(connected.unwrap().view.protocol_version.as_str(), "2025-06-18");
    assert_eq!(rig.kinds().await, [FindingKind::WrongShape]);
}

#[tokio::test(start_paused = true)]
async fn versions_are_checked_against_the_pin_and_the_known_ones() {
    let cases = [
        (Some("2025-03-26"), "2025-03-26", Ok(())),
        (Some("2025-03-26"), "2024-11-05", Err("the entry pins 2025-03-26")),
        (None, "2024-11-05", Ok(())),
        (None, "2024-10-07", Err("unknown version `2024-10-07`")),
        (None, "2099-01-01", Err("unknown version `2099-01-01`")),
        (None, "latest", Err("unknown version `latest`")),
    ];
    for (pin, answered, expected) in cases {
        let mut rig = rig();
        let attempt = Attempt::Legacy(pin.map(str::to_owned));
        let (connected, _peer) = rig
            .try_connect(attempt, |mut peer| async {
                let request = peer.expect("initialize").await;
                assert_eq!(request["params"]["protocolVersion"], pin.unwrap_or("2025-11-25"));
                let info = json!({"name": "a", "version": "1"});
                let result =
                    json!({"protocolVersion": answered, "capabilities": {}, "serverInfo": info});
                peer.reply(&request, result).await;
                peer
            })
            .await;
        let expected: Result<(), &str> = expected;
        match (connected, expected) {
            (Ok(_), Ok(())) => assert_eq!(rig.kinds().await, []),
            (Err(error), Err(says)) => {
                assert!(error.error.message.contains(says), "{}", error.error);
                assert!(!error.retryable);
                assert_eq!(rig.kinds().await, [FindingKind::Version]);
            }
            (got, _) => panic!("{answered}: {got:?}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn handshake_answers_that_are_broken_fail_at_once() {
    for (answer, says) in [
        (r#"{"jsonrpc":"2.0","id":0,"result":{"capabilities":{}}}"#, "protocolVersion"),
        (r#"{"jsonrpc":"2.0","id":7,"result":{}}"#, "request 7"),
        (
            r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32000,"message":"no licence"}}"#,
            "no licence",
        ),
        (r#"{"jsonrpc":"2.0","id":0,"result":{"a":NaN}}"#, "not valid JSON"),
    ] {
        let rig = rig();
        let began = tokio::time::Instant::now();
        let (result, _peer) = rig
            .try_connect(Attempt::Legacy(None), |mut peer| async {
                peer.expect("initialize").await;
                peer.line(answer).await;
                peer
            })
            .await;
        let error = result.unwrap_err();
        assert!(error.error.message.contains(says), "{}", error.error);
        assert_eq!(
            error.error.server.as_ref().map(mcpdeck::base::ServerName::as_str),
            Some("peer")
        );
        assert_eq!(began.elapsed(), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_modern_server_is_listened_to_as_long_as_it_offers_something() {
    let mut rig = rig();
    let (endpoint, mut peer) = pipe(1 << 20);
    let offers = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true}});
    let (connected, _) = tokio::join!(
        connect(endpoint, &Attempt::Modern, rig.context.clone()),
        peer.discover(offers)
    );
    let connected = connected.unwrap();
    let listen = peer.expect("subscriptions/listen").await;
    assert_eq!(listen["params"]["notifications"], json!({"toolsListChanged": true}));
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})).await;

    let subscribe = Request::Subscribe { uri: "file:///a".into() };
    connected.session.request(subscribe, call(1).context).await.unwrap();
    let cancelled = peer.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], listen["id"]);
    let listen = peer.expect("subscriptions/listen").await;
    assert_eq!(listen["params"]["notifications"]["resourceSubscriptions"], json!(["file:///a"]));
    let updated = json!({"uri": "file:///a"});
    peer.send(
        json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": updated}),
    )
    .await;

    // The long request does not count: with one call open, junk is attributed to that call.
    let pending = start(&connected, echo("a"), call(2).context);
    peer.expect("tools/call").await;
    peer.line(r#"{"jsonrpc":"2.0","result":{"#).await;
    assert_eq!(pending.await.unwrap().unwrap_err().code, ErrorCode::Protocol);

    peer.reply(&listen, json!({})).await;
    peer.expect("subscriptions/listen").await;
    let mut events = Vec::new();
    while let Ok(event) = rig.events.try_recv() {
        events.push(event);
    }
    assert!(events.contains(&SessionEvent::ListChanged(mcpdeck::protocol::ListKind::Tools)));
    assert!(events.contains(&SessionEvent::ResourceUpdated("file:///a".into())));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_the_probe_is_asked_in_the_other_era_too_and_may_still_answer_it() {
    for modern in [false, true] {
        let rig = rig();
        let (connected, mut peer) = rig
            .try_connect(Attempt::Auto, |mut peer| async {
                let probe = peer.expect("server/discover").await;
                let request = peer.expect("initialize").await;
                let info = json!({"name": "late", "version": "1"});
                let version = request["params"]["protocolVersion"].clone();
                let (to, result) = if modern {
                    (&probe, json!({"supportedVersions": ["2026-07-28"], "capabilities": {}}))
                } else {
                    let result = json!({"protocolVersion": version, "capabilities": {},
                        "serverInfo": info});
                    (&request, result)
                };
                peer.reply(to, result).await;
                peer
            })
            .await;
        let era = if modern { Era::Modern } else { Era::Legacy };
        let connected = connected.unwrap();
        assert_eq!(connected.view.era, era);
        if !modern {
            peer.expect("notifications/initialized").await;
        }
        let pending = start(&connected, echo("a"), call(1).context);
        let request = peer.expect("tools/call").await;
        peer.reply(&request, text("x")).await;
        assert_eq!(*pending.await.unwrap().unwrap(), text("x"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_that_repeats_its_input_is_told_as_that() {
    for attempt in [Attempt::Auto, Attempt::Modern, Attempt::Legacy(None)] {
        for prefix in ["", "> ", "     1\t"] {
            let mut rig = rig();
            let (result, mut peer) = rig
                .try_connect(attempt.clone(), |mut peer| async {
                    let request = peer.recv().await;
                    peer.line(format!("{prefix}{request}")).await;
                    peer
                })
                .await;
            let error = result.unwrap_err();
            assert!(error.error.message.contains("our own messages back"), "{}", error.error);
            assert!(error.error.help.as_deref().unwrap().contains("`cat`"), "{}", error.error);
            assert!(!error.retryable);
            assert!(rig.kinds().await.contains(&FindingKind::NotAllowed));
            let rest = peer.rest().await;
            assert!(!rest.contains("error"), "an answer would come back too: {rest}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_prints_what_it_reads_is_used_and_its_prints_are_reported() {
    let mut rig = rig();
    let (connected, mut peer) = rig
        .try_connect(Attempt::Auto, |mut peer| async {
            let probe = peer.expect("server/discover").await;
            peer.send(probe.clone()).await;
            peer.fail(&probe, -32601, "Method not found").await;
            let request = peer.expect("initialize").await;
            peer.send(request.clone()).await;
            tokio::time::sleep(Duration::from_secs(3)).await;
            let info = json!({"name": "a", "version": "1"});
            let result =
                json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": info});
            peer.reply(&request, result).await;
            peer.expect("notifications/initialized").await;
            peer
        })
        .await;
    let connected = connected.unwrap();
    let pending = start(&connected, echo("a"), call(1).context);
    let request = peer.expect("tools/call").await;
    peer.send(request.clone()).await;
    peer.reply(&request, text("done")).await;
    assert_eq!(*pending.await.unwrap().unwrap(), text("done"));
    assert_eq!(rig.kinds().await, [FindingKind::NotAllowed]);
    let next = start(&connected, echo("b"), call(2).context);
    peer.expect("tools/call").await;
    drop(next);
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_refused_with_others_named_is_followed_by_the_newest_of_those() {
    let cases = [
        (json!(["2024-11-05", "2025-03-26"]), Ok("2025-03-26")),
        (json!(["2024-10-07"]), Err("the server speaks 2024-10-07")),
        (json!(["2025-11-25"]), Err("the server speaks 2025-11-25")),
        (json!([]), Err("Unsupported")),
        (json!("2024-11-05"), Err("Unsupported")),
    ];
    for (supported, expected) in cases {
        let rig = rig();
        let (connected, _peer) = rig
            .try_connect(Attempt::Legacy(None), |mut peer| async {
                let request = peer.expect("initialize").await;
                let data = json!({"supported": supported, "requested": "2025-11-25"});
                let message = "Unsupported protocol version";
                let error = json!({"code": -32602, "message": message, "data": data});
                peer.send(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).await;
                if let Ok(version) = expected {
                    let request = peer.expect("initialize").await;
                    assert_eq!(request["params"]["protocolVersion"], version);
                    let info = json!({"name": "a", "version": "1"});
                    let result = json!(
                        {"protocolVersion": version, "capabilities": {}, "serverInfo": info}
                    );
                    peer.reply(&request, result).await;
                    peer.expect("notifications/initialized").await;
                }
                peer
            })
            .await;
        match (connected, expected) {
            (Ok(connected), Ok(version)) => {
                assert_eq!(connected.view.protocol_version.as_str(), version);
            }
            (Err(error), Err(says)) => {
                assert!(error.error.message.contains(says), "{}", error.error);
                assert!(error.error.help.is_some(), "{}", error.error);
            }
            (got, _) => panic!("{supported}: {got:?}"),
        }
    }
}
