//! Servers that start on demand: asleep until called, compared with the lists shown before, and
//! asleep again when idle.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mcpdeck::ErrorCode;
use mcpdeck::config::{McpConfig, ServerConfig};
use mcpdeck::host::{Definitions, Host, Memory, ServerState, Startup};
use mcpdeck::mcp::ListKind;
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
