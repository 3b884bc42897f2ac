//! Which requests are sent to a server a second time, and which never.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mcpdeck::config::{RestartConfig, RestartPolicy, RetryConfig};
use mcpdeck::host::CallOptions;
use mcpdeck::mcp::Request;
use mcpdeck::protocol::{ListKind, PendingRequest};
use mcpdeck::{Error, ErrorCode};
use serde_json::{Value, json};

use crate::fake::{World, config, tool, until};

/// How often a call of a tool with these hints is sent, to a server that stays up and fails every
/// request with `code` after `bytes` of it were written. Two retries are allowed.
async fn times_sent(hints: &Value, code: ErrorCode, bytes: usize) -> u32 {
    times_sent_with(CallOptions::default(), hints, (code, bytes)).await
}

async fn times_sent_with(
    options: CallOptions,
    hints: &Value,
    (code, bytes): (ErrorCode, usize),
) -> u32 {
    let world = World::default();
    let server = world.server("a");
    server.lists(ListKind::Tools, &[tool("run", hints.clone())]);
    let mut servers = config(&[("a", &[])]);
    servers.servers.get_mut("a").unwrap().retry.max_retries = 2;
    let host = world.host(servers).initialize().await.expect("starts");
    let times = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&times);
    server.answers(move |_, context| {
        counted.fetch_add(1, Ordering::SeqCst);
        context.bytes.sent(bytes);
        async move { Err(Error::new(code, "it broke")) }
    });
    let error = host.call_tool_with("a.run", Value::Null, options).await.expect_err("it broke");
    assert_eq!(error.code, code, "{error}");
    times.load(Ordering::SeqCst)
}

#[tokio::test(start_paused = true)]
async fn what_a_server_may_have_seen_is_sent_again_only_if_it_may_run_twice() {
    let once = [
        json!({}),
        json!({"readOnlyHint": false, "idempotentHint": false}),
        json!({"readOnlyHint": "true", "idempotentHint": 1}),
        json!({"destructiveHint": false, "openWorldHint": false}),
    ];
    let often = [json!({"readOnlyHint": true}), json!({"idempotentHint": true})];
    for code in [ErrorCode::ServerUnavailable, ErrorCode::RateLimited, ErrorCode::Timeout] {
        for hints in &once {
            assert_eq!(times_sent(hints, code, 1).await, 1, "{code:?} {hints}");
        }
        for hints in &often {
            assert_eq!(times_sent(hints, code, 1).await, 3, "{code:?} {hints}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_never_left_is_tried_as_often_as_the_entry_says_and_no_more() {
    for code in [ErrorCode::ServerUnavailable, ErrorCode::RateLimited, ErrorCode::Cancelled] {
        assert_eq!(times_sent(&json!({}), code, 0).await, 3, "{code:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn answers_and_calls_cut_short_are_final_whatever_the_tool() {
    let harmless = json!({"readOnlyHint": true, "idempotentHint": true});
    for code in [ErrorCode::Protocol, ErrorCode::Cancelled] {
        assert_eq!(times_sent(&harmless, code, 1).await, 1, "{code:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_can_say_how_often_instead_of_the_entry() {
    let harmless = json!({"readOnlyHint": true});
    for (max_retries, sent) in [(0, 1), (4, 5)] {
        let retry = Some(RetryConfig { max_retries, ..RetryConfig::default() });
        let options = CallOptions { retry, ..CallOptions::default() };
        let failure = (ErrorCode::Timeout, 1);
        assert_eq!(times_sent_with(options, &harmless, failure).await, sent);
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_may_run_twice_is_sent_again_after_the_server_came_back() {
    for (hints, wanted) in [(json!({"readOnlyHint": true}), 2), (json!({}), 1)] {
        let world = World::default();
        let server = world.server("a");
        server.lists(ListKind::Tools, &[tool("run", hints)]);
        let mut servers = config(&[("a", &[])]);
        let a = servers.servers.get_mut("a").unwrap();
        a.restart = RestartConfig { policy: RestartPolicy::OnFailure, ..a.restart.clone() };
        a.retry.initial = Duration::from_secs(20);
        let host = world.host(servers).initialize().await.expect("starts");
        let times = Arc::new(AtomicU32::new(0));
        server.answers({
            let (server, times) = (Arc::clone(&server), Arc::clone(&times));
            move |_: Request, context: Arc<PendingRequest>| {
                context.bytes.sent(1);
                let dies = times.fetch_add(1, Ordering::SeqCst) == 0;
                if dies {
                    server.die(1);
                }
                async move {
                    if dies {
                        std::future::pending::<()>().await;
                    }
                    Ok(json!({"content": []}))
                }
            }
        });
        let result = host.call_tool("a.run", Value::Null).await;
        until(&host, |view| view.servers["a"].restarts == 1).await;
        assert_eq!(times.load(Ordering::SeqCst), wanted);
        match result {
            Ok(_) => assert_eq!(wanted, 2),
            Err(error) => assert_eq!((wanted, error.code), (1, ErrorCode::ServerUnavailable)),
        }
    }
}
