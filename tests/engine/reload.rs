//! Reload: what did not change keeps its process, session, cache and calls.

use std::time::Duration;

use mcpdeck::host::capabilities::ListKind;
use mcpdeck::host::{CallOptions, Fact, Host, ServerState};
use mcpdeck::{ErrorCode, McpConfig};
use serde_json::{Value, json};

use crate::fake::{World, config, name, state, until};

async fn start(world: &World, servers: McpConfig) -> Host {
    world.host(servers).initialize().await.expect("starts")
}

fn reloaded(host: &Host) -> Fact {
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
    next.servers.get_mut("db").unwrap().request_timeout = Duration::from_secs(5);
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
    let Fact::Reloaded { added, removed, changed, kept } = reloaded(&host) else { panic!() };
    assert_eq!((added, removed, kept), (vec![name("new")], vec![name("old")], vec![name("other")]));
    assert_eq!(changed[0], (name("db"), vec!["timeout".to_owned()]));
    assert_eq!(changed[1].0, name("api"));
    assert!(!host.view().borrow().servers.contains_key("old"));
    assert_eq!(host.view().borrow().servers["db"].restarts, 1);
}

#[tokio::test(start_paused = true)]
async fn a_kept_server_keeps_its_calls_and_cache_through_a_reload() {
    let world = World::default();
    world.server("a").lists(ListKind::Resources, &[json!({"uri": "x://1"})]);
    let host = start(&world, config(&[("a", &[])])).await;
    host.get_resource("x://1", CallOptions::default()).await.expect("read");
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
    host.get_resource("x://1", CallOptions::default()).await.expect("read");
    host.reload(config(&[("b", &[])])).await.expect("valid");
    assert_eq!(*world.gone.lock().unwrap(), ["a"]);
    let error = host.call_tool("a.echo", Value::Null).await.expect_err("it is gone");
    assert_eq!(error.code, ErrorCode::ToolNotFound);
    assert!(host.cache().entries.is_empty());
    let error = host.start(&name("a")).await.expect_err("it is gone");
    assert_eq!(error.code, ErrorCode::Configuration);
}
