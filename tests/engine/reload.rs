//! Reload: unchanged servers keep their process, session, cache and calls.

use std::sync::atomic::Ordering;
use std::time::Duration;

use mcpdeck::config::{ConfigChange, GuardMode, RootConfig};
use mcpdeck::host::{Fact, Host, ServerState};
use mcpdeck::protocol::ListKind;
use mcpdeck::{ErrorCode, McpConfig, Startup};
use serde_json::{Value, json};

use crate::fake::{World, config, name, state, until};

async fn start(world: &World, servers: McpConfig) -> Host {
    world.host(servers).initialize().await.expect("starts")
}

fn reloaded(host: &Host) -> ConfigChange {
    let view = host.view().borrow().clone();
    view.reload.clone().expect("there was a reload").1
}

#[tokio::test(start_paused = true)]
async fn exactly_the_changed_server_and_its_dependents_restart() {
    let world = World::default();
    let servers: [(&str, &[&str]); 4] =
        [("db", &[]), ("api", &["db"]), ("other", &[]), ("old", &[])];
    let host = start(&world, config(&servers)).await;
    let mut next = config(&[("new", &[]), ("other", &[]), ("api", &["db"]), ("db", &[])]);
    next.servers.get_mut("db").unwrap().wire.depth = 64;
    next.servers.get_mut("other").unwrap().at.line = 17;
    host.reload(next).await.expect("it is valid");
    for server in ["db", "api", "new"] {
        until(&host, |view| {
            view.servers.get(server).is_some_and(|s| s.state == ServerState::Ready)
        })
        .await;
    }
    while host.server_config(&name("other")).unwrap().at.line != 17 {
        tokio::task::yield_now().await;
    }
    let opens = |server: &str| world.server(server).opens();
    assert_eq!(
        (opens("db"), opens("api"), opens("other"), opens("old"), opens("new")),
        (2, 2, 1, 1, 1)
    );
    let ConfigChange { added, removed, changed, kept, .. } = reloaded(&host);
    assert_eq!((added, removed, kept), (vec![name("new")], vec![name("old")], vec![name("other")]));
    assert_eq!(changed[0], (name("db"), vec!["limits".to_owned()]));
    assert_eq!(changed[1].0, name("api"));
    assert!(!host.view().borrow().servers.contains_key("old"));
    assert_eq!(host.view().borrow().servers["db"].restarts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_kept_server_keeps_its_calls_and_cache_through_a_reload() {
    let world = World::default();
    world.server("a").lists(ListKind::Resources, &[json!({"uri": "x://1"})]);
    let host = start(&world, config(&[("a", &[])])).await;
    host.get_resource("x://1").await.expect("read");
    world.server("a").answers(|_, _| async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        Ok(json!({"content": []}))
    });
    let calling = tokio::spawn({
        let host = host.clone();
        async move { host.call_tool("a.echo", Value::Null).await }
    });
    tokio::task::yield_now().await;
    host.reload(config(&[("b", &[]), ("a", &[])])).await.expect("valid");
    calling.await.unwrap().expect("the call went on");
    assert_eq!(host.cache().entries.len(), 1);
}

/// A server whose calls take this long, and a call to it in progress.
async fn slow_call(
    seconds: u64,
) -> (World, Host, tokio::task::JoinHandle<Result<mcpdeck::host::CallOutcome, mcpdeck::Error>>) {
    let world = World::default();
    let host = start(&world, config(&[("a", &[]), ("b", &[])])).await;
    let (arrived, arrives) = tokio::sync::watch::channel(0);
    world.server("a").answers(move |_, context| {
        context.bytes.sent(10);
        arrived.send_modify(|calls| *calls += 1);
        async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(json!({"content": [], "said": "the old one"}))
        }
    });
    let calling = tokio::spawn({
        let host = host.clone();
        async move { host.call_tool("a.echo", Value::Null).await }
    });
    arrives.clone().wait_for(|calls| *calls == 1).await.expect("it arrives");
    (world, host, calling)
}

fn changed(server: &str) -> McpConfig {
    let mut next = config(&[("a", &[]), ("b", &[])]);
    next.servers.get_mut(server).unwrap().wire.depth = 64;
    next
}

#[tokio::test(start_paused = true)]
async fn a_call_in_flight_on_a_changed_server_finishes_within_the_grace() {
    let (world, host, calling) = slow_call(3).await;
    host.reload(changed("a")).await.expect("valid");
    assert_eq!(state(&host, "a"), ServerState::Shutdown);
    let reason = host.view().borrow().servers["a"].reason.clone().expect("a reason");
    assert_eq!(reason.as_str(), "restarting: `limits` changed");
    let outcome = calling.await.unwrap().expect("it finished");
    assert_eq!(outcome.result["said"], "the old one");
    until(&host, |view| view.servers["a"].state == ServerState::Ready).await;
    assert_eq!((world.server("a").opens(), world.server("b").opens()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_finish_in_time_is_named_as_cancelled() {
    let (_world, host, calling) = slow_call(3600).await;
    host.reload(changed("a")).await.expect("valid");
    let error = calling.await.unwrap().expect_err("it did not finish");
    assert_eq!(error.code, ErrorCode::Cancelled);
    assert!(error.message.contains("`limits` changed"), "{error}");
    until(&host, |view| view.servers["a"].state == ServerState::Ready).await;
    let named = host.facts().tail(usize::MAX).iter().any(|record| {
        matches!(&record.fact, Fact::CallsCancelled { calls, .. }
            if calls.iter().map(mcpdeck::base::text::SafeText::as_str).eq(["tools/call echo"]))
    });
    assert!(named, "the record names the call");
}

#[tokio::test(start_paused = true)]
async fn a_removed_server_is_drained_too_and_a_shutdown_does_not_wait_for_that() {
    let (_world, host, calling) = slow_call(2).await;
    host.reload(config(&[("b", &[])])).await.expect("valid");
    calling.await.unwrap().expect("it finished");
    let (_world, host, calling) = slow_call(3600).await;
    let began = tokio::time::Instant::now();
    let reloading = tokio::spawn({
        let host = host.clone();
        async move { host.reload(config(&[("b", &[])])).await }
    });
    until(&host, |view| view.servers["a"].state == ServerState::Shutdown).await;
    host.shutdown().await;
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    reloading.await.unwrap().expect("done");
    calling.await.unwrap().expect_err("cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_plan_names_what_a_reload_would_do_and_changes_nothing() {
    let world = World::default();
    let servers: [(&str, &[&str]); 4] =
        [("db", &[]), ("api", &["db"]), ("other", &[]), ("old", &[])];
    let host = start(&world, config(&servers)).await;
    let mut next = config(&[("new", &[]), ("other", &[]), ("api", &["db"]), ("db", &[])]);
    next.servers.get_mut("db").unwrap().wire.depth = 64;
    let plan = host.plan_reload(next.clone()).await.expect("valid");
    assert_eq!((plan.added, plan.removed), (vec![name("new")], vec![name("old")]));
    assert_eq!(plan.kept, [name("other")]);
    let changed: Vec<_> = plan.changed.iter().map(|(n, f)| (n.as_str(), f.join(" "))).collect();
    assert_eq!(changed, [("db", "limits".to_owned()), ("api", "dependency `db`".to_owned())]);
    assert_eq!(world.server("db").opens(), 1);
    next.servers.get_mut("api").unwrap().dependencies = vec![name("ghost")];
    let error = host.plan_reload(next).await.expect_err("no such server");
    assert_eq!(error.code, ErrorCode::Configuration);
}

#[tokio::test(start_paused = true)]
async fn a_server_under_another_name_starts_when_the_old_one_is_gone() {
    let world = World::default();
    *world.server("a").stop.lock().unwrap() = Duration::from_secs(2);
    let host = start(&world, config(&[("a", &[])])).await;
    let mut renamed = config(&[("k", &[]), ("free", &[])]);
    renamed.servers.get_mut("k").unwrap().transport =
        config(&[("a", &[])]).servers["a"].transport.clone();
    host.reload(renamed).await.expect("valid");
    let at = |what: &str, server: &str| {
        let found = host
            .facts()
            .tail(usize::MAX)
            .into_iter()
            .find(|record| record.fact.name() == what && record.server == Some(name(server)));
        found.map(|record| record.seq).expect("it happened")
    };
    assert!(at("serverRemoved", "a") < at("serverAdded", "k"));
    assert!(at("serverAdded", "free") < at("serverRemoved", "a"), "nobody else waits");
}

/// A host whose server `a` takes half a minute to stop, and the reload that removes it.
async fn stubborn(world: &World) -> (Host, tokio::task::JoinHandle<()>) {
    *world.server("a").stop.lock().unwrap() = Duration::from_secs(30);
    let host = start(world, config(&[("a", &[]), ("b", &[])])).await;
    let reloading = tokio::spawn({
        let host = host.clone();
        async move { host.reload(config(&[("b", &[])])).await.expect("valid") }
    });
    until(&host, |view| view.servers["a"].state == ServerState::Shutdown).await;
    (host, reloading)
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_want_to_end_holds_up_no_later_change() {
    let world = World::default();
    let (host, reloading) = stubborn(&world).await;
    let began = tokio::time::Instant::now();
    let mut next = config(&[("b", &[]), ("c", &[])]);
    next.servers.get_mut("b").unwrap().wire.depth = 64;
    host.reload(next).await.expect("valid");
    for server in ["b", "c"] {
        until(&host, |view| {
            view.servers.get(server).is_some_and(|s| s.state == ServerState::Ready)
        })
        .await;
    }
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(host.view().borrow().servers.contains_key("a"), "it is seen until it is gone");
    assert!(!reloading.is_finished(), "who took it out may wait for its end");
    reloading.await.unwrap();
    assert!(!host.view().borrow().servers.contains_key("a"));
    assert_eq!((world.server("b").opens(), world.server("c").opens()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_before_it_is_gone_starts_when_it_is() {
    let world = World::default();
    let (host, reloading) = stubborn(&world).await;
    // Added, removed and added again: a server that is only queued starts at most once.
    for servers in [&["a", "b"][..], &["b"], &["b", "a"]] {
        let all: Vec<(&str, &[&str])> = servers.iter().map(|name| (*name, &[][..])).collect();
        let _ = host.begin_reload(config(&all)).await.expect("valid");
    }
    assert_eq!((world.server("a").opens(), world.gone.lock().unwrap().len()), (1, 0));
    reloading.await.unwrap();
    until(&host, |view| view.servers.get("a").is_some_and(|a| a.state == ServerState::Ready)).await;
    assert_eq!((world.server("a").opens(), world.server("b").opens()), (2, 1));
    let names: Vec<String> = host.view().borrow().servers.keys().map(ToString::to_string).collect();
    assert_eq!(names, ["b", "a"]);
    host.call_tool("a.echo", Value::Null).await.expect("it answers");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_those_that_leave_and_starts_nobody_who_waited() {
    let world = World::default();
    let (host, reloading) = stubborn(&world).await;
    let back = tokio::spawn({
        let host = host.clone();
        async move { host.reload(config(&[("a", &[]), ("b", &["a"])])).await }
    });
    until(&host, |view| view.servers["b"].state == ServerState::Waiting).await;
    host.shutdown().await;
    assert_eq!(world.server("a").opens(), 1);
    assert_eq!(*world.gone.lock().unwrap(), ["b", "a"]);
    reloading.await.unwrap();
    back.await.unwrap().expect("it was in use");
}

#[tokio::test(start_paused = true)]
async fn a_server_ends_after_those_that_need_it_although_they_were_taken_out_before() {
    let world = World::default();
    *world.server("api").stop.lock().unwrap() = Duration::from_secs(20);
    let host = start(&world, config(&[("db", &[]), ("api", &["db"])])).await;
    let first = host.begin_reload(config(&[("db", &[])])).await.expect("valid");
    host.reload(config(&[])).await.expect("valid");
    assert_eq!(*world.gone.lock().unwrap(), ["api", "db"]);
    first.finished().await;
}

#[tokio::test(start_paused = true)]
async fn a_configuration_that_cannot_be_used_changes_nothing() {
    let world = World::default();
    let host = start(&world, config(&[("a", &[])])).await;
    let error = host.reload(config(&[("b", &["ghost"])])).await.expect_err("no such server");
    assert_eq!(error.code, ErrorCode::Configuration);
    assert_eq!(state(&host, "a"), ServerState::Ready);
    host.reject_config(error.diagnostics.clone());
    host.call_tool("a.echo", Value::Null).await.expect("goes on");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_disabled_stops_and_one_that_is_enabled_starts() {
    let world = World::default();
    let mut with_disabled = config(&[("a", &[]), ("b", &[])]);
    with_disabled.servers.get_mut("b").unwrap().disabled = true;
    let host = start(&world, with_disabled).await;
    let mut swapped = config(&[("a", &[]), ("b", &[])]);
    swapped.servers.get_mut("a").unwrap().disabled = true;
    host.reload(swapped).await.expect("valid");
    until(&host, |view| view.servers["b"].state == ServerState::Ready).await;
    until(&host, |view| view.servers["a"].state == ServerState::Disabled).await;
    assert_eq!(*world.gone.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_removed_server_is_gone_with_its_tools_and_cached_answers() {
    let world = World::default();
    world.server("a").lists(ListKind::Resources, &[json!({"uri": "x://1"})]);
    let host = start(&world, config(&[("a", &[]), ("b", &[])])).await;
    host.get_resource("x://1").await.expect("read");
    host.reload(config(&[("b", &[])])).await.expect("valid");
    assert_eq!(*world.gone.lock().unwrap(), ["a"]);
    let error = host.call_tool("a.echo", Value::Null).await.expect_err("it is gone");
    assert_eq!((error.code, error.sent), (ErrorCode::ToolNotFound, false));
    assert!(host.cache().entries.is_empty());
    let error = host.start(&name("a")).await.expect_err("it is gone");
    assert_eq!(error.code, ErrorCode::Configuration);
}

#[tokio::test(start_paused = true)]
async fn settings_that_need_no_other_process_hold_at_once_and_the_server_runs_on() {
    let world = World::default();
    let tools =
        ["echo", "other"].map(|tool| json!({"name": tool, "inputSchema": {"type": "object"}}));
    world.server("a").lists(ListKind::Tools, &tools);
    let host = start(&world, config(&[("a", &[])])).await;
    let mut next = config(&[("a", &[])]);
    let a = next.servers.get_mut("a").unwrap();
    a.request_timeout = Duration::from_secs(2);
    a.tools.deny = vec!["other".into()];
    a.roots = vec![RootConfig { uri: "file:///x".into(), name: None }];
    a.retry.max_retries = 9;
    host.reload(next.clone()).await.expect("valid");
    let ConfigChange { changed, kept, followed, .. } = reloaded(&host);
    assert_eq!((changed, kept), (vec![], vec![name("a")]));
    assert_eq!(followed[0].1, ["timeout", "retry", "roots", "tools"]);
    let error = host.call_tool("a.other", Value::Null).await.expect_err("not shown any more");
    assert_eq!(error.code, ErrorCode::PermissionDenied);
    world.server("a").answers(|_, context| async move {
        Ok(json!({"content": [], "seconds": context.timeout.as_secs()}))
    });
    let outcome = host.call_tool("a.echo", Value::Null).await.expect("it is called");
    assert_eq!(outcome.result["seconds"], 2);
    assert_eq!(world.server("a").roots_changes.load(Ordering::SeqCst), 1);
    assert_eq!(world.server("a").opens(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_is_allowed_again_comes_back_with_the_list() {
    let world = World::default();
    let mut denied = config(&[("a", &[])]);
    denied.servers.get_mut("a").unwrap().tools.deny = vec!["echo".into()];
    let host = start(&world, denied).await;
    host.call_tool("a.echo", Value::Null).await.expect_err("it is denied");
    host.reload(config(&[("a", &[])])).await.expect("valid");
    until(&host, |view| !view.servers["a"].capabilities.tools.is_empty()).await;
    host.call_tool("a.echo", Value::Null).await.expect("it is allowed");
    assert_eq!(world.server("a").opens(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_could_not_start_is_tried_again_with_more_time() {
    let world = World::default();
    world.server("a").failures.lock().unwrap().push(false);
    let first = config(&[("a", &[])]);
    let host = world.host(first.clone()).startup(Startup::Available);
    let host = host.initialize().await.expect("the deck is there");
    assert_eq!(state(&host, "a"), ServerState::Unavailable);
    let mut next = first;
    next.servers.get_mut("a").unwrap().guard.default = GuardMode::Off;
    host.reload(next.clone()).await.expect("valid");
    assert_eq!(state(&host, "a"), ServerState::Unavailable, "that has nothing to do with it");
    next.servers.get_mut("a").unwrap().startup_timeout = Duration::from_secs(60);
    host.reload(next).await.expect("valid");
    until(&host, |view| view.servers["a"].state == ServerState::Ready).await;
    assert_eq!(world.server("a").opens(), 2);
}
