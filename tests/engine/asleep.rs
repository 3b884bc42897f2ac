//! Servers that start on demand: asleep until called, compared with the lists shown before, and
//! asleep again when idle.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpdeck::ErrorCode;
use mcpdeck::config::{McpConfig, ServerConfig, TransportConfig};
use mcpdeck::host::{Definitions, Host, Memory, OutsideCode, OutsideError, ServerState, Startup};
use mcpdeck::protocol::ListKind;
use serde_json::{Value, json};

use crate::fake::{World, config, name, state, until};

/// State stored by the previous run.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Option<Definitions>>>);

impl Memory for Kept {
    fn recall(&self, _: &ServerConfig) -> Option<Definitions> {
        self.0.lock().unwrap().clone()
    }

    fn keep(&self, _: &ServerConfig, definitions: &Definitions) {
        *self.0.lock().unwrap() = Some(definitions.clone());
    }
}

const IDLE: Duration = Duration::from_secs(60);

fn on_demand(servers: &[(&str, &[&str])]) -> McpConfig {
    let mut servers = config(servers);
    let first = servers.servers.get_mut("a").unwrap();
    (first.on_demand, first.idle_stop) = (true, Some(IDLE));
    servers
}

async fn start(world: &World, kept: &Kept) -> Host {
    let host = world.host(on_demand(&[("a", &[])])).memory(kept.clone());
    host.startup(Startup::Available).initialize().await.expect("starts")
}

/// A host that knows the server from a previous run, in which it also fell asleep.
async fn asleep(world: &World) -> Host {
    let kept = Kept::default();
    let host = start(world, &kept).await;
    assert_eq!(world.server("a").opens(), 1, "what nothing is known of starts once");
    until(&host, |view| view.servers["a"].state == ServerState::Sleeping).await;
    host.shutdown().await;
    let host = start(world, &kept).await;
    assert_eq!((state(&host, "a"), world.server("a").opens()), (ServerState::Sleeping, 1));
    assert_eq!(host.get_tools()[0].1.tools.len(), 1, "its lists are those of the last session");
    host
}

#[tokio::test(start_paused = true)]
async fn the_first_calls_start_it_once_and_it_sleeps_again_when_nobody_uses_it() {
    let world = World::default();
    let host = asleep(&world).await;
    let calls = (0..20).map(|_| host.call_tool("a.echo", json!({"n": 1})));
    for outcome in futures::future::join_all(calls).await {
        assert_eq!(outcome.expect("answered").result["said"]["n"], 1);
    }
    assert_eq!(world.server("a").opens(), 2, "one start for all of them");
    until(&host, |view| view.servers["a"].state == ServerState::Sleeping).await;
    host.call_tool("a.echo", Value::Null).await.expect("woken again");
    assert_eq!(world.server("a").opens(), 3);
    assert_eq!(host.snapshot().servers["a"].restarts, 0, "that is no restart");
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_another_one_by_then_is_not_called_before_it_was_seen() {
    let world = World::default();
    let host = asleep(&world).await;
    let sent = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&sent);
    world.server("a").answers(move |_, _| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Ok(json!({})) }
    });
    let other = json!({"name": "echo", "description": "Sends it on", "inputSchema": {}});
    world.server("a").lists(ListKind::Tools, &[other]);
    let refused = host.call_tool("a.echo", json!({})).await.expect_err("it is another tool");
    assert_eq!(refused.code, ErrorCode::PolicyBlocked, "{refused}");
    let outside = OutsideError::from_error(&refused);
    assert_eq!(outside.code, OutsideCode::PermissionDenied);
    for words in ["definition of this tool changed", "nothing was sent", "list the tools again"] {
        assert!(outside.message.contains(words), "{outside}");
    }
    assert_eq!(sent.load(Ordering::SeqCst), 0, "nothing was sent");
    let changes = host.snapshot().servers["a"].changes.clone().expect("the change is marked");
    assert!(!changes.1.is_empty());
    host.call_tool("a.echo", json!({})).await.expect("called as it is now");
}

#[tokio::test(start_paused = true)]
async fn calls_subscriptions_and_servers_that_depend_on_it_keep_it_awake() {
    let world = World::default();
    let kept = Kept::default();
    start(&world, &kept).await.shutdown().await;
    let both = on_demand(&[("a", &[]), ("b", &["a"])]);
    let host = world.host(both).memory(kept).startup(Startup::Available);
    let host = host.initialize().await.expect("starts");
    until(&host, |view| view.servers["b"].state == ServerState::Ready).await;
    assert_eq!(state(&host, "a"), ServerState::Ready, "what needs it wakes it");
    tokio::time::sleep(IDLE * 3).await;
    assert_eq!(state(&host, "a"), ServerState::Ready, "it is needed");
    host.stop(&name("b")).await.expect("stops");
    host.subscribe_resource(&name("a"), "file:///x").await.expect("subscribed");
    tokio::time::sleep(IDLE * 3).await;
    assert_eq!(state(&host, "a"), ServerState::Ready, "it has a subscriber");
    world.server("a").answers(|_, _| async {
        tokio::time::sleep(IDLE * 5).await;
        Ok(json!({}))
    });
    let options = mcpdeck::host::CallOptions { timeout: Some(IDLE * 9), ..Default::default() };
    let call = host.call_tool_with("a.echo", json!({}), options);
    let a = name("a");
    let (_, outcome) = tokio::join!(host.unsubscribe_resource(&a, "file:///x"), call);
    outcome.expect("it ran to its end");
    until(&host, |view| view.servers["a"].state == ServerState::Sleeping).await;
}

/// Calls that arrive one after another while the server starts, which takes a second.
async fn one_by_one(host: &Host, calls: u64, timeout: Option<Duration>) -> Vec<Option<ErrorCode>> {
    let call = async |n: u64| {
        tokio::time::sleep(Duration::from_millis(90 * n)).await;
        let options = mcpdeck::host::CallOptions { timeout, ..Default::default() };
        let outcome = host.call_tool_with("a.echo", json!({"n": n}), options).await;
        outcome.err().map(|error| error.code)
    };
    futures::future::join_all((0..calls).map(call)).await
}

#[tokio::test(start_paused = true)]
async fn callers_that_come_while_it_is_being_woken_share_that_start() {
    let world = World::default();
    let host = asleep(&world).await;
    assert_eq!(one_by_one(&host, 10, None).await, [None; 10]);
    assert_eq!(world.server("a").opens(), 2, "one start for all of them");
}

#[tokio::test(start_paused = true)]
async fn callers_wait_for_a_first_start_a_restart_and_a_reload_alike() {
    let world = World::default();
    let host = world.host(config(&[("a", &[])])).startup(Startup::Background);
    let host = host.initialize().await.expect("begins");
    assert_eq!(one_by_one(&host, 10, None).await, [None; 10], "nothing was listed before");
    assert_eq!(host.call_tool("echo", Value::Null).await.expect("bare").server, name("a"));

    let a = name("a");
    *world.server("a").stop.lock().unwrap() = Duration::from_secs(2);
    let (restarted, served) = tokio::join!(host.restart(&a), one_by_one(&host, 10, None));
    restarted.expect("restarts");
    assert_eq!(served, [None; 10]);

    let mut changed = config(&[("a", &[])]);
    changed.servers.get_mut("a").unwrap().request_timeout = Duration::from_secs(9);
    let TransportConfig::Stdio(stdio) = &mut changed.servers.get_mut("a").unwrap().transport else {
        panic!("stdio")
    };
    stdio.args.push("other".to_owned());
    let (reloaded, served) = tokio::join!(host.reload(changed), one_by_one(&host, 10, None));
    reloaded.expect("reloads");
    assert_eq!((served, world.server("a").opens()), (vec![None; 10], 3));
}

#[tokio::test(start_paused = true)]
async fn a_caller_waits_for_a_start_no_longer_than_its_own_deadline_and_is_told_when_to_come_again()
{
    let world = World::default();
    *world.server("a").start.lock().unwrap() = Duration::from_secs(20);
    let host = world.host(config(&[("a", &[])])).startup(Startup::Background);
    let host = host.initialize().await.expect("begins");
    let began = tokio::time::Instant::now();
    let timeout = Some(Duration::from_secs(3));
    let options = mcpdeck::host::CallOptions { timeout, ..Default::default() };
    let late = host.call_tool_with("a.echo", json!({}), options).await.expect_err("too early");
    assert_eq!((late.code, began.elapsed().as_secs()), (ErrorCode::ServerUnavailable, 3));
    assert_eq!(late.outage.as_deref(), Some("is starting"));
    assert!(late.retry_after.is_some());
    host.call_tool("a.echo", json!({})).await.expect("who has the time is served");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_down_refuses_at_once_and_says_so() {
    let world = World::default();
    let host = world.host(config(&[("a", &[])])).initialize().await.expect("starts");
    world.server("a").die(3);
    until(&host, |view| view.servers["a"].state == ServerState::Unavailable).await;
    let began = tokio::time::Instant::now();
    let error = host.call_tool("a.echo", json!({})).await.expect_err("it is dead");
    assert_eq!((error.code, began.elapsed()), (ErrorCode::ServerUnavailable, Duration::ZERO));
    let outage = error.outage.as_deref().unwrap_or_default();
    assert!(outage.starts_with("ended by itself (exit code 3) and is not restarted"), "{outage}");
    assert_eq!(error.retry_after, None);
}

#[tokio::test(start_paused = true)]
async fn callers_wait_for_the_restart_of_a_server_that_crashed_if_there_will_be_one() {
    let world = World::default();
    let mut restarts = config(&[("a", &[])]);
    let entry = restarts.servers.get_mut("a").unwrap();
    entry.restart.policy = mcpdeck::config::RestartPolicy::OnFailure;
    entry.restart.backoff = Duration::from_secs(10);
    let host = world.host(restarts).initialize().await.expect("starts");
    world.server("a").die(3);
    until(&host, |view| view.servers["a"].state == ServerState::Unavailable).await;
    let hasty = one_by_one(&host, 1, Some(Duration::from_secs(2))).await;
    assert_eq!(hasty, [Some(ErrorCode::ServerUnavailable)], "it will not be up by then");
    assert_eq!(one_by_one(&host, 10, None).await, [None; 10]);
    assert_eq!(world.server("a").opens(), 2);
}
