//! Control: stop, start, restart, deaths, and the end of the host.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use mcpdeck::base::text::SafeText;
use mcpdeck::config::{RestartConfig, RestartPolicy};
use mcpdeck::host::{Fact, Host, ServerState};
use mcpdeck::protocol::{ListKind, SessionEvent};
use mcpdeck::{Error, ErrorCode, Startup};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::fake::{World, config, name, state, until};

async fn one(world: &World) -> Host {
    world.host(config(&[("a", &[])])).initialize().await.expect("starts")
}

fn reviving() -> mcpdeck::McpConfig {
    let mut servers = config(&[("a", &[])]);
    let restart = &mut servers.servers.get_mut("a").unwrap().restart;
    *restart = RestartConfig { policy: RestartPolicy::OnFailure, ..RestartConfig::default() };
    servers
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_stays_in_the_deck_and_starts_again() {
    let world = World::default();
    let host = one(&world).await;
    host.stop(&name("a")).await.expect("stops");
    assert_eq!(state(&host, "a"), ServerState::Shutdown);
    let error = host.call_tool("a.echo", Value::Null).await.expect_err("it is stopped");
    assert_eq!(error.code, ErrorCode::ServerUnavailable);
    assert!(error.message.contains("stopped on request"), "{error}");
    host.start(&name("a")).await.expect("starts");
    host.call_tool("a.echo", Value::Null).await.expect("answers");
}

#[tokio::test(start_paused = true)]
async fn a_stop_during_a_start_gives_it_up() {
    let world = World::default();
    let host = one(&world).await;
    *world.server("a").start.lock().unwrap() = Duration::from_secs(100);
    let restarting = tokio::spawn({
        let host = host.clone();
        async move { host.restart(&name("a")).await }
    });
    until(&host, |view| view.servers["a"].state == ServerState::Starting).await;
    let began = Instant::now();
    host.stop(&name("a")).await.expect("stops");
    assert!(began.elapsed() < Duration::from_secs(1));
    assert!(restarting.await.unwrap().is_err());
    assert_eq!(state(&host, "a"), ServerState::Shutdown);
}

#[tokio::test(start_paused = true)]
async fn many_orders_at_once_never_leave_two_processes() {
    let world = World::default();
    let host = one(&world).await;
    let mut orders = tokio::task::JoinSet::new();
    for n in 0..24 {
        let host = host.clone();
        orders.spawn(async move {
            let _ = match n % 3 {
                0 => host.restart(&name("a")).await,
                1 => host.stop(&name("a")).await,
                _ => host.start(&name("a")).await,
            };
        });
    }
    while orders.join_next().await.is_some() {}
    host.shutdown().await;
    let server = world.server("a");
    let gone = world.gone.lock().unwrap().len();
    assert_eq!(server.stops.load(Ordering::SeqCst) as usize, gone);
    assert!(server.opens() as usize >= gone && gone >= 1);
}

#[tokio::test(start_paused = true)]
async fn a_death_is_reported_with_its_exit_and_last_words_and_is_final_by_default() {
    let world = World::default();
    let host = one(&world).await;
    world.server("a").die(3);
    until(&host, |view| view.servers["a"].state == ServerState::Unavailable).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let view = host.view().borrow().clone();
    let a = &view.servers["a"];
    let reason = a.reason.as_ref().unwrap();
    assert!(reason.contains("exit code 3") && reason.contains("last words"), "{reason}");
    assert_eq!(a.exit.as_ref().unwrap().code, Some(3));
    assert_eq!(world.server("a").opens(), 1);
    assert!(host.get_tools().is_empty(), "it left the active list");
    assert_eq!(a.capabilities.tools.len(), 1, "its tools are known still");
}

#[tokio::test(start_paused = true)]
async fn with_a_restart_policy_a_dead_server_comes_back() {
    let world = World::default();
    let host = world.host(reviving()).initialize().await.expect("starts");
    world.server("a").die(1);
    until(&host, |view| view.servers["a"].restarts == 1).await;
    host.call_tool("a.echo", Value::Null).await.expect("answers again");
    let exits = host
        .facts()
        .tail(usize::MAX)
        .iter()
        .filter(|r| matches!(r.fact, Fact::Exited { .. }))
        .count();
    assert_eq!(exits, 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_stopped_on_purpose_and_started_later_did_not_restart() {
    let world = World::default();
    let host = world.host(config(&[("a", &[])])).initialize().await.expect("starts");
    let a = name("a");
    host.stop(&a).await.expect("stops");
    until(&host, |view| view.servers["a"].rests).await;
    host.start(&a).await.expect("starts");
    until(&host, |view| view.servers["a"].state == ServerState::Ready).await;
    assert_eq!(host.view().borrow().servers["a"].restarts, 0, "nobody restarted it");
    host.restart(&a).await.expect("restarts");
    until(&host, |view| view.servers["a"].restarts == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_loop_is_given_up_and_a_restart_by_hand_forgives() {
    let world = World::default();
    let host = world.host(reviving()).initialize().await.expect("starts");
    for _ in 0..3 {
        let starts = host.view().borrow().servers["a"].starts;
        world.server("a").die(1);
        until(&host, |view| view.servers["a"].starts == starts + 1).await;
    }
    world.server("a").die(1);
    until(&host, |view| {
        view.servers["a"].reason.as_ref().is_some_and(|reason| reason.contains("given up"))
    })
    .await;
    host.restart(&name("a")).await.expect("by hand");
    assert_eq!(state(&host, "a"), ServerState::Ready);
    for _ in 0..3 {
        let starts = host.view().borrow().servers["a"].starts;
        world.server("a").die(1);
        until(&host, |view| view.servers["a"].starts == starts + 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_of_a_session_that_was_replaced_meanwhile_turns_nobody_away() {
    let world = World::default();
    let host = one(&world).await;
    let server = world.server("a");
    server.detached.store(true, Ordering::SeqCst);
    let asked = Arc::new(Notify::new());
    let came = Arc::clone(&asked);
    server.answers(move |_, context| {
        context.bytes.sent(1);
        came.notify_one();
        async {
            tokio::time::sleep(Duration::from_secs(100)).await;
            Err(Error::new(ErrorCode::Timeout, "no answer"))
        }
    });
    let calling = tokio::spawn({
        let host = host.clone();
        async move { host.call_tool("a.echo", Value::Null).await }
    });
    asked.notified().await;
    host.restart(&name("a")).await.expect("by hand");
    assert!(!calling.is_finished(), "it belongs to the session before");
    server.answers(|_, _| async { Ok(json!({"content": []})) });
    let error = calling.await.unwrap().expect_err("it timed out");
    assert_eq!(error.code, ErrorCode::Timeout);
    host.call_tool("a.echo", Value::Null).await.expect("the new session answers");
    assert_eq!(state(&host, "a"), ServerState::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_its_connection_but_lives_is_ended() {
    let world = World::default();
    let host = one(&world).await;
    *world.server("a").stop.lock().unwrap() = Duration::from_secs(6);
    world.server("a").tell(SessionEvent::Closed(SafeText::line("stdout closed"))).await;
    let refused = loop {
        if let Err(error) = host.call_tool("a.echo", Value::Null).await {
            break error;
        }
    };
    assert!(!refused.message.contains("is ready"), "{refused}");
    until(&host, |view| view.servers["a"].state == ServerState::Unavailable).await;
    until(&host, |view| view.servers["a"].exit.is_some()).await;
    assert_eq!(*world.gone.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_stops_the_servers() {
    let world = World::default();
    let host = one(&world).await;
    let other = host.clone();
    drop(host);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(world.gone.lock().unwrap().is_empty());
    drop(other);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*world.gone.lock().unwrap(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_reports_every_exit_can_be_asked_for_twice_and_be_forced() {
    let world = World::default();
    let host = world.host(config(&[("a", &[]), ("b", &["a"])])).initialize().await.expect("starts");
    *world.server("b").stop.lock().unwrap() = Duration::from_secs(1_000);
    let began = Instant::now();
    let (first, second, ()) = tokio::join!(host.shutdown(), host.shutdown(), async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        host.force_shutdown();
    });
    assert_eq!(began.elapsed().as_secs(), 2);
    assert_eq!(first.exits.len(), 2);
    assert_eq!(second.exits, first.exits);
    assert_eq!(host.shutdown().await.exits, first.exits);
    assert!(host.view().borrow().stopping);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_list_changes_cost_one_fetch_a_second_and_the_difference_is_reported() {
    let world = World::default();
    let host = one(&world).await;
    let server = world.server("a");
    let before = server.fetches.load(Ordering::SeqCst);
    let new = json!({"name": "new", "description": "x", "inputSchema": {}});
    server.lists(ListKind::Tools, &[new]);
    for _ in 0..100 {
        server.tell(SessionEvent::ListChanged(ListKind::Tools)).await;
    }
    until(&host, |view| view.servers["a"].changes.is_some()).await;
    let changes = host.view().borrow().servers["a"].changes.clone().unwrap().1;
    assert_eq!(changes.added, [(ListKind::Tools, SafeText::line("new"))]);
    assert_eq!(changes.removed, [(ListKind::Tools, SafeText::line("echo"))]);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(server.fetches.load(Ordering::SeqCst) - before <= 2);
    host.call_tool("new", Value::Null).await.expect("the new tool is routed");
    let gone = host.call_tool("echo", Value::Null).await.expect_err("the old one is not");
    assert_eq!(gone.code, ErrorCode::ToolNotFound);
}

#[tokio::test(start_paused = true)]
async fn a_refresh_by_hand_returns_with_the_new_lists() {
    let world = World::default();
    let host = one(&world).await;
    world.server("a").lists(ListKind::Prompts, &[json!({"name": "p"})]);
    host.refresh(&name("a")).await.expect("fetched");
    assert_eq!(host.get_tools()[0].1.prompts.len(), 1);
    assert_eq!(host.view().borrow().servers["a"].capabilities.prompts.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_task_of_one_server_is_reported_and_harms_no_other() {
    let world = World::default();
    let host = world.host(config(&[("a", &[]), ("b", &[])])).initialize().await.expect("starts");
    // The fake panics when stopped: its lock was poisoned by a panicking thread.
    let server = world.server("a");
    let poisoner = std::thread::spawn(move || {
        let _guard = server.stop.lock().unwrap();
        panic!("poisoned on purpose");
    });
    assert!(poisoner.join().is_err());
    let _ = tokio::time::timeout(Duration::from_secs(5), host.restart(&name("a"))).await;
    until(&host, |view| !view.failures.is_empty()).await;
    host.call_tool("b.echo", Value::Null).await.expect("the other answers");
    // The task is restarted, and with it the server, which answers as before.
    until(&host, |view| view.servers["a"].state == ServerState::Ready).await;
    assert_eq!(world.server("a").opens(), 2);
    host.call_tool("a.echo", Value::Null).await.expect("it answers again");
    // It panics again when stopped, which does not prevent the shutdown.
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_panics_every_time_is_given_up_with_the_reason() {
    let world = World::default();
    let server = world.server("a");
    let poisoner = std::thread::spawn(move || {
        let _guard = server.start.lock().unwrap();
        panic!("poisoned on purpose");
    });
    assert!(poisoner.join().is_err());
    let builder = world.host(config(&[("a", &[]), ("b", &[])]));
    let host = builder.startup(Startup::Available).initialize().await.expect("b starts");
    let view = host.view().borrow().clone();
    assert_eq!(view.failures.len(), 4, "three more times: {:?}", view.failures);
    assert_eq!(state(&host, "a"), ServerState::Unavailable);
    let error = host.restart(&name("a")).await.expect_err("nobody is there");
    assert!(!error.message.is_empty());
    let reason = view.servers["a"].reason.as_ref().expect("a reason");
    assert!(reason.contains("restart mcpdeck"), "{reason}");
    host.call_tool("b.echo", Value::Null).await.expect("the other answers");
    host.shutdown().await;
}
