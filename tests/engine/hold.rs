//! Held servers: listed with the reason, and never started until they are released.

use mcpdeck::config::Hold;
use mcpdeck::host::{ServerState, Startup};

use crate::fake::{World, config, name, state, until};

#[tokio::test(start_paused = true)]
async fn a_held_server_says_why_and_starts_by_no_means_until_it_is_let_go() {
    let world = World::default();
    let servers: [(&str, &[&str]); 3] = [("held", &[]), ("free", &[]), ("after", &["held"])];
    let mut held = config(&servers);
    held.servers.get_mut("held").unwrap().hold = Some(Hold::Approval);
    let host = world
        .host(held.clone())
        .startup(Startup::Available)
        .initialize()
        .await
        .expect("the others start");
    assert_eq!(state(&host, "free"), ServerState::Ready);
    let view = host.view().borrow().clone();
    assert_eq!(view.servers["held"].state, ServerState::Waiting);
    assert_eq!(view.servers["held"].reason.as_deref(), Some("awaiting your approval"));
    assert_eq!(
        view.servers["after"].reason.as_deref(),
        Some("needs `held`, which is waiting: awaiting your approval")
    );
    for attempt in [host.start(&name("held")).await, host.restart(&name("held")).await] {
        assert!(attempt.unwrap_err().message.contains("awaiting your approval"));
    }
    host.stop(&name("held")).await.expect("stopping nothing is nothing wrong");
    assert!(host.start(&name("held")).await.is_err());
    let call = host.call_tool("held.echo", serde_json::json!({})).await;
    assert!(call.is_err(), "{call:?}");
    assert_eq!((world.server("held").opens(), world.server("after").opens()), (0, 0));

    host.reload(config(&servers)).await.expect("it is valid");
    for server in ["held", "after"] {
        until(&host, |view| view.servers[server].state == ServerState::Ready).await;
    }
    assert_eq!(world.server("free").opens(), 1, "nobody else was touched");

    held.servers.get_mut("held").unwrap().hold = Some(Hold::Input("key".into()));
    host.reload(held).await.expect("it is valid");
    until(&host, |view| view.servers["held"].reason.as_deref() == Some("waiting for input `key`"))
        .await;
    assert_eq!(world.server("held").stops.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_waiting_server_waits_for_may_change() {
    let world = World::default();
    let mut first = config(&[("slow", &[]), ("b", &["slow"])]);
    first.servers.get_mut("slow").unwrap().hold = Some(Hold::Approval);
    let host =
        world.host(first.clone()).startup(Startup::Available).initialize().await.expect("starts");
    assert_eq!(state(&host, "b"), ServerState::Waiting);
    first.servers.get_mut("b").unwrap().dependencies.clear();
    host.reload(first).await.expect("it is valid");
    until(&host, |view| view.servers["b"].state == ServerState::Ready).await;
}
