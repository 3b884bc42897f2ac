//! Calls: routing, validation, deadlines, breakers, retries, cache, guard, records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use mcpdeck::config::{GuardMode, McpConfig, OnTimeout};
use mcpdeck::host::{AnswerSource, BreakerView, CallOptions, Host, ServerState, Validation};
use mcpdeck::mcp::Request;
use mcpdeck::protocol::{Answer, ListKind, PendingRequest, RequestKind, SessionEvent};
use mcpdeck::{Error, ErrorCode};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::fake::{World, config, name, state, tool, until};

async fn start(world: &World, change: impl FnOnce(&mut mcpdeck::config::ServerConfig)) -> Host {
    let mut servers: McpConfig = config(&[("a", &[])]);
    change(servers.servers.get_mut("a").unwrap());
    world.host(servers).initialize().await.expect("starts")
}

fn timing_out(
    _: Request,
    context: Arc<PendingRequest>,
) -> impl Future<Output = Result<Value, Error>> {
    context.bytes.sent(1);
    async { Err(Error::new(ErrorCode::Timeout, "no answer")) }
}

#[tokio::test(start_paused = true)]
async fn arguments_of_the_wrong_type_are_refused_with_every_violation_and_nothing_is_sent() {
    let world = World::default();
    let host = start(&world, |_| {}).await;
    let asked = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&asked);
    world.server("a").answers(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(json!({})) }
    });
    let wrong = json!({"n": "one", "text": 2, "more": true});
    let error = host.call_tool("a.echo", wrong.clone()).await.expect_err("three violations");
    assert_eq!(error.code, ErrorCode::Validation);
    assert_eq!(error.violations.len(), 3, "{error}");
    assert_eq!(error.request.as_deref(), Some("tools/call echo"));
    assert_eq!(asked.load(Ordering::SeqCst), 0);
    let options = CallOptions { validation: Validation::Force, ..CallOptions::default() };
    let outcome = host.call_tool_with("a.echo", wrong.clone(), options);
    assert!(outcome.await.expect("sent on purpose").forced);
    // Not even compared with the schema.
    let options = CallOptions { validation: Validation::Skip, ..CallOptions::default() };
    let outcome = host.call_tool_with("a.echo", wrong, options);
    assert!(!outcome.await.expect("sent as it is").forced);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
    assert_eq!(host.get_metrics()[0].1.total.errors[&ErrorCode::Validation], 1);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_makes_the_server_unavailable_at_once_until_it_is_restarted() {
    let world = World::default();
    let host = start(&world, |_| {}).await;
    world.server("a").answers(timing_out);
    let error = host.call_tool("a.echo", Value::Null).await.expect_err("it times out");
    assert_eq!(error.code, ErrorCode::Timeout);
    let next = host.call_tool("a.echo", Value::Null).await.expect_err("turned away");
    assert_eq!(next.code, ErrorCode::ServerUnavailable);
    assert!(next.message.contains("tools/call echo: no answer"), "{next}");
    assert!(host.get_tools().is_empty());
    until(&host, |view| view.servers["a"].state == ServerState::Unavailable).await;
    host.restart(&name("a")).await.expect("a fresh session");
    assert_eq!(state(&host, "a"), ServerState::Ready);
}

#[tokio::test(start_paused = true)]
async fn with_on_timeout_breaker_the_fifth_timeout_opens_it_and_a_success_closes_it() {
    let world = World::default();
    let host = start(&world, |config| config.on_timeout = OnTimeout::Breaker).await;
    world.server("a").answers(timing_out);
    for _ in 0..5 {
        let error = host.call_tool("a.echo", Value::Null).await.expect_err("it times out");
        assert_eq!(error.code, ErrorCode::Timeout);
    }
    assert_eq!(state(&host, "a"), ServerState::Ready);
    let error = host.call_tool("a.echo", Value::Null).await.expect_err("it is open");
    assert_eq!(error.code, ErrorCode::CircuitOpen);
    assert!(error.message.contains("half-open in 60 s"), "{error}");
    assert_eq!(error.retry_after.map(|wait| wait.as_secs()), Some(60));
    until(&host, |view| view.servers["a"].tool_breakers.len() == 1).await;

    tokio::time::sleep(Duration::from_secs(60)).await;
    world.server("a").answers(|_, _| async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        Ok(json!({}))
    });
    // The probe decides for those that come with it.
    let calls = (0..8).map(|_| host.call_tool("a.echo", Value::Null));
    for outcome in futures::future::join_all(calls).await {
        outcome.expect("the probe goes through, and the others after it");
    }
    until(&host, |view| view.servers["a"].tool_breakers.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_less_than_the_entry_allows_takes_the_server_from_nobody() {
    for on_timeout in [OnTimeout::Unavailable, OnTimeout::Breaker] {
        let world = World::default();
        let host = start(&world, |config| config.on_timeout = on_timeout).await;
        world.server("a").answers(timing_out);
        for seconds in 0..10 {
            let timeout = Some(Duration::from_secs(seconds));
            let options = CallOptions { timeout, ..CallOptions::default() };
            let error = host.call_tool_with("a.echo", Value::Null, options).await;
            assert_eq!(error.expect_err("it times out").code, ErrorCode::Timeout);
        }
        assert_eq!(state(&host, "a"), ServerState::Ready);
        world.server("a").answers(|_, _| async { Ok(json!({})) });
        host.call_tool("a.echo", Value::Null).await.expect("it is there for the others");
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_a_process_that_a_signal_stopped_says_so() {
    let world = World::default();
    let host = start(&world, |_| {}).await;
    let server = world.server("a");
    server.answers(timing_out);
    server.suspended.store(true, Ordering::SeqCst);
    let error = host.call_tool("a.echo", Value::Null).await.expect_err("it times out");
    assert!(error.message.ends_with("its process is stopped by a signal"), "{error}");
    assert_eq!(error.help.as_deref(), Some("`kill -CONT 4711` lets it go on"));
}

#[tokio::test(start_paused = true)]
async fn one_failing_tool_leaves_the_server_to_the_others_and_two_do_not() {
    let world = World::default();
    let hints = json!({});
    world.server("a").lists(ListKind::Tools, &["one", "two"].map(|n| tool(n, hints.clone())));
    let host = start(&world, |config| {
        config.on_timeout = OnTimeout::Breaker;
        config.breaker.threshold = 3;
        config.breaker.cooldown = Duration::from_secs(7);
    })
    .await;
    world.server("a").answers(timing_out);
    for _ in 0..3 {
        host.call_tool("a.one", Value::Null).await.expect_err("it times out");
    }
    let open = host.call_tool("a.one", Value::Null).await.expect_err("its breaker is open");
    assert_eq!(open.code, ErrorCode::CircuitOpen);
    let other = host.call_tool("a.two", Value::Null).await.expect_err("it is asked all the same");
    assert_eq!(other.code, ErrorCode::Timeout);
    until(&host, |view| matches!(view.servers["a"].breaker, BreakerView::Open { .. })).await;
    let open = host.call_tool("a.two", Value::Null).await.expect_err("two tools: the server");
    assert_eq!(open.code, ErrorCode::CircuitOpen);
    tokio::time::sleep(Duration::from_secs(7)).await;
    world.server("a").answers(|_, _| async { Ok(json!({})) });
    host.call_tool("a.two", Value::Null).await.expect("the probe goes through");
    until(&host, |view| view.servers["a"].breaker.is_closed()).await;
}

#[tokio::test(start_paused = true)]
async fn what_a_tool_answers_counts_only_where_the_entry_says_so() {
    for (errors, opens) in [(false, false), (true, true)] {
        let world = World::default();
        let host = start(&world, |config| config.breaker.tool_errors = errors).await;
        world.server("a").answers(|_, _| async { Ok(json!({"content": [], "isError": true})) });
        for _ in 0..5 {
            host.call_tool("a.echo", Value::Null).await.expect("the tool says it failed");
        }
        assert_eq!(host.call_tool("a.echo", Value::Null).await.is_err(), opens);
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_is_closed_by_hand() {
    let world = World::default();
    let host = start(&world, |config| config.on_timeout = OnTimeout::Breaker).await;
    world.server("a").answers(timing_out);
    for _ in 0..5 {
        host.call_tool("a.echo", Value::Null).await.expect_err("it times out");
    }
    world.server("a").answers(|_, _| async { Ok(json!({})) });
    host.reset_breaker(&name("a"), None).expect("it exists");
    host.reset_breaker(&name("a"), Some("echo")).expect("it exists");
    host.call_tool("a.echo", Value::Null).await.expect("goes through");
    until(&host, |view| view.servers["a"].breaker.is_closed()).await;
}

#[tokio::test(start_paused = true)]
async fn errors_a_server_answers_with_do_not_open_its_breaker() {
    let world = World::default();
    let host = start(&world, |config| config.breaker.errors = false).await;
    world.server("a").answers(|_, _| async {
        let mut error = Error::new(ErrorCode::Protocol, "no such thing");
        error.rpc = Some(mcpdeck::error::RpcError {
            code: Some(-32_602),
            message: "no such thing".into(),
            data: None,
        });
        Err(error)
    });
    for _ in 0..20 {
        let error = host.call_tool("a.echo", Value::Null).await.expect_err("an error object");
        assert_eq!(error.code, ErrorCode::Protocol);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_dies_with_its_server_says_how_the_server_died() {
    let world = World::default();
    let host = start(&world, |_| {}).await;
    world.server("a").answers(|_, context| async move {
        context.bytes.sent(1);
        std::future::pending().await
    });
    let calling = tokio::spawn({
        let host = host.clone();
        async move { host.call_tool("a.echo", Value::Null).await }
    });
    while host.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    world.server("a").die(7);
    let error = calling.await.unwrap().expect_err("its server died");
    assert_eq!(error.code, ErrorCode::ServerUnavailable);
    assert!(
        error.message.contains("exit code 7") && error.message.contains("last words"),
        "{error}"
    );
    assert!(host.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_connection_is_seen_to_close_first_waits_for_the_exit() {
    let world = World::default();
    let host = start(&world, |_| {}).await;
    let server = world.server("a");
    let dying = Arc::clone(&server);
    server.answers(move |_, context| {
        context.bytes.sent(1);
        dying.die(7);
        async { Err(Error::new(ErrorCode::ServerUnavailable, "the connection closed")) }
    });
    let error = host.call_tool("a.echo", Value::Null).await.expect_err("its server died");
    assert_eq!(error.code, ErrorCode::ServerUnavailable);
    let parts = ["the connection closed", "exit code 7", "last words"];
    assert!(parts.iter().all(|words| error.message.contains(words)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_calls_run_at_once_and_a_slow_server_holds_nobody_up() {
    let world = World::default();
    let servers: Vec<String> = (0..10).map(|n| format!("s{n}")).collect();
    let entries: Vec<(&str, &[&str])> = servers.iter().map(|s| (s.as_str(), &[][..])).collect();
    let host = world.host(config(&entries)).initialize().await.expect("starts");
    for server in &servers {
        world.server(server).answers(|_, _| async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            Ok(json!({"content": []}))
        });
    }
    world.server("s0").answers(|_, _| async {
        tokio::time::sleep(Duration::from_secs(20)).await;
        Ok(json!({"content": []}))
    });
    let began = tokio::time::Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..1_000 {
        let host = host.clone();
        calls.spawn(async move {
            let tool = format!("s{}.echo", n % 10);
            host.call_tool(&tool, json!({"n": n})).await.map(|_| n % 10)
        });
    }
    let mut quick = 0;
    while let Some(done) = calls.join_next().await {
        if done.unwrap().expect("answered") != 0 {
            quick += 1;
            assert_eq!(began.elapsed().as_secs(), 1);
        }
    }
    assert_eq!((quick, began.elapsed().as_secs()), (900, 20));
    assert!(host.calls().is_empty());
    let total: u64 = host.get_metrics().iter().map(|(_, m)| m.total.successes).sum();
    assert_eq!(total, 1_000);
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_is_in_the_table_with_its_progress_and_a_dropped_one_is_not() {
    let world = World::default();
    let host = start(&world, |_| {}).await;
    world.server("a").answers(|_, context| async move {
        context.progressed(0.5, None, None);
        std::future::pending().await
    });
    let (sender, mut steps) = mpsc::channel(4);
    let id = host.next_call_id();
    let options = CallOptions { progress: Some(sender), id: Some(id), ..CallOptions::default() };
    let calling = tokio::spawn({
        let host = host.clone();
        async move { host.call_tool_with("a.echo", Value::Null, options).await }
    });
    assert_eq!(steps.recv().await.map(|step| step.call), Some(id));
    let calls = host.calls();
    assert_eq!((calls.len(), calls[0].id, &*calls[0].target), (1, id, "echo"));
    assert!(calls[0].progress.is_some());
    calling.abort();
    assert!(calling.await.is_err());
    assert!(host.calls().is_empty());
    let metrics = &host.get_metrics()[0].1;
    assert_eq!((metrics.total.in_flight, metrics.total.errors[&ErrorCode::Cancelled]), (0, 1));
    assert_eq!(metrics.by_target["tools/call echo"].requests, 1);
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_ends_at_once_and_says_nothing_against_the_server() {
    let world = World::default();
    let host = start(&world, |_| {}).await;
    world.server("a").answers(|_, _| std::future::pending());
    let cancel = CancellationToken::new();
    let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let (result, ()) = tokio::join!(host.call_tool_with("a.echo", Value::Null, options), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!(result.expect_err("cancelled").code, ErrorCode::Cancelled);
    assert_eq!(state(&host, "a"), ServerState::Ready);
}

#[tokio::test(start_paused = true)]
async fn resources_are_answered_from_the_cache_until_the_server_says_they_changed() {
    let world = World::default();
    world.server("a").lists(ListKind::Resources, &[json!({"uri": "x://1", "name": "one"})]);
    let host = start(&world, |_| {}).await;
    let read = || host.get_resource("x://1");
    assert_eq!(read().await.expect("read").source, AnswerSource::Server);
    assert!(matches!(read().await.expect("kept").source, AnswerSource::Cache(_)));
    world.server("a").tell(SessionEvent::ResourceUpdated("x://1".into())).await;
    while host.cache().invalidated.is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(read().await.expect("read").source, AnswerSource::Server);

    // The server is down: the cached answer is served with its age, even if it is still fresh.
    host.stop(&name("a")).await.expect("stops");
    assert!(matches!(read().await.expect("kept").source, AnswerSource::Stale(_)));
    tokio::time::sleep(Duration::from_secs(1_000)).await;
    let stale = read().await.expect("kept");
    let AnswerSource::Stale(age) = stale.source else { panic!("{:?}", stale.source) };
    assert_eq!(age.as_secs(), 1_000);
    let options = CallOptions { bypass_cache: true, ..CallOptions::default() };
    let error = host.get_resource_with("x://1", options).await.expect_err("no cache wanted");
    assert_eq!(error.code, ErrorCode::ServerUnavailable);
}

#[tokio::test(start_paused = true)]
async fn stale_answers_can_be_switched_off() {
    let world = World::default();
    world.server("a").lists(ListKind::Resources, &[json!({"uri": "x://1", "name": "one"})]);
    let host = start(&world, |config| {
        config.cache.stale_if_unavailable = false;
    })
    .await;
    host.get_resource("x://1").await.expect("read");
    host.stop(&name("a")).await.expect("stops");
    assert!(host.get_resource("x://1").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn resources_are_routed_by_list_then_template_then_by_name() {
    let world = World::default();
    for (server, uri, template) in [
        ("a", "x://both", "x://a/{id}"),
        ("b", "x://both", "x://{+any}"),
        ("c", "c://1", "c://{i}"),
    ] {
        world.server(server).lists(ListKind::Resources, &[json!({"uri": uri})]);
        world
            .server(server)
            .lists(ListKind::ResourceTemplates, &[json!({"uriTemplate": template})]);
    }
    let servers = config(&[("a", &[]), ("b", &[]), ("c", &[])]);
    let host = world.host(servers).initialize().await.expect("starts");
    let read = |uri: &'static str, server: Option<&'static str>| {
        let options = CallOptions { server: server.map(name), ..CallOptions::default() };
        let host = host.clone();
        async move {
            host.get_resource_with(uri, options).await.map(|outcome| outcome.server.to_string())
        }
    };
    assert_eq!(read("c://1", None).await.as_deref(), Ok("c"));
    assert_eq!(read("c://2", None).await.as_deref(), Ok("c"));
    assert_eq!(read("x://a/7", None).await.as_deref(), Ok("a"), "the closer template wins");
    let both = read("x://both", None).await.expect_err("two list it");
    assert_eq!(
        (both.code, &both.candidates[..]),
        (ErrorCode::Ambiguous, &["a".into(), "b".into()][..])
    );
    assert_eq!(read("x://both", Some("b")).await.as_deref(), Ok("b"));
    let none = read("nowhere://1", None).await.expect_err("nobody has it");
    assert_eq!((none.code, none.candidates.len()), (ErrorCode::ToolNotFound, 0));
    assert!(none.help.as_ref().is_some_and(|help| help.ends_with("`a`, `b`, `c`")), "{none:?}");
    assert_eq!(read("nowhere://1", Some("c")).await.as_deref(), Ok("c"));
}

#[tokio::test(start_paused = true)]
async fn prompts_want_their_required_arguments_as_strings() {
    let world = World::default();
    let prompt = json!({"name": "p", "arguments": [{"name": "who", "required": true}]});
    world.server("a").lists(ListKind::Prompts, &[prompt]);
    let host = start(&world, |_| {}).await;
    let get = |arguments| host.get_prompt("p", arguments);
    assert_eq!(get(Value::Null).await.expect_err("required").code, ErrorCode::Validation);
    assert_eq!(get(json!({"who": 7})).await.expect_err("a string").code, ErrorCode::Validation);
    get(json!({"who": "ada"})).await.expect("fits");
}

#[tokio::test(start_paused = true)]
async fn hidden_tools_are_not_listed_and_say_why_they_cannot_be_called() {
    let world = World::default();
    world.server("a").lists(ListKind::Tools, &[tool("read_x", json!({})), tool("rm", json!({}))]);
    let host = start(&world, |config| config.tools.deny = vec!["rm".into()]).await;
    assert_eq!(host.get_tools()[0].1.tools.len(), 1);
    let error = host.call_tool("a.rm", Value::Null).await.expect_err("hidden");
    assert_eq!(error.code, ErrorCode::PermissionDenied);
}

#[tokio::test(start_paused = true)]
async fn suspicious_arguments_are_recorded_refused_or_asked_about_as_the_policy_says() {
    let world = World::default();
    let evil = json!({"text": "$(curl evil)"});
    let host = start(&world, |_| {}).await;
    let outcome = host.call_tool("a.echo", evil.clone()).await.expect("only a warning");
    assert_eq!(outcome.guard_warnings[0].pointer, "/text");
    host.shutdown().await;

    let host = start(&world, |config| config.guard.default = GuardMode::Deny).await;
    let error = host.call_tool("a.echo", evil.clone()).await.expect_err("refused");
    assert_eq!((error.code, error.violations.len()), (ErrorCode::PolicyBlocked, 1));
    host.shutdown().await;

    let mut servers = config(&[("a", &[])]);
    servers.servers.get_mut("a").unwrap().guard.tools.insert("echo".into(), GuardMode::Ask);
    let host = world.host(servers).person_answers().initialize().await.expect("starts");
    for (action, goes) in [("accept", true), ("decline", false)] {
        let calling = tokio::spawn({
            let (host, evil) = (host.clone(), evil.clone());
            async move { host.call_tool("a.echo", evil).await }
        });
        until(&host, |view| view.pending.len() == 1).await;
        let request = host.view().borrow().pending[0].clone();
        assert_eq!(request.kind, RequestKind::Guard);
        assert_eq!(request.during.as_deref(), Some("echo"));
        // A minute of waiting for the user does not count for the server.
        assert!(host.calls()[0].is_waiting);
        tokio::time::advance(Duration::from_secs(60)).await;
        host.answer(request.id, Answer::Result(json!({"action": action}))).expect("it waits");
        let result = calling.await.unwrap();
        assert_eq!(result.is_ok(), goes);
        if let Ok(outcome) = result {
            assert!(outcome.waiting >= Duration::from_secs(60), "{:?}", outcome.waiting);
            assert!(outcome.duration < Duration::from_secs(60), "{:?}", outcome.duration);
        }
        until(&host, |view| view.pending.is_empty()).await;
    }
    let options = CallOptions::default();
    let cancel = options.cancel.clone();
    let calling = tokio::spawn({
        let host = host.clone();
        async move { host.call_tool_with("a.echo", evil, options).await }
    });
    until(&host, |view| view.pending.len() == 1).await;
    cancel.cancel();
    let error = calling.await.unwrap().expect_err("nobody wants it any more");
    assert_eq!(error.code, ErrorCode::Cancelled);
    until(&host, |view| view.pending.is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn structured_content_is_checked_against_the_output_schema() {
    let world = World::default();
    let mut typed = tool("typed", json!({}));
    typed["outputSchema"] = json!({"type": "object", "required": ["n"]});
    world.server("a").lists(ListKind::Tools, &[typed]);
    let host = start(&world, |_| {}).await;
    let violations = async |result: Value| {
        world.server("a").answers(move |_, _| {
            let result = result.clone();
            async { Ok(result) }
        });
        host.call_tool("a.typed", Value::Null).await.expect("answered").output_violations.len()
    };
    assert_eq!(violations(json!({"structuredContent": {"n": 1}})).await, 0);
    assert_eq!(violations(json!({"structuredContent": {}})).await, 1);
    assert_eq!(violations(json!({"content": []})).await, 1);
    assert_eq!(violations(json!({"isError": true})).await, 0);
}
