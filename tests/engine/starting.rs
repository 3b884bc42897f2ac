//! Starting: in parallel, in the order of dependencies, with retries, in three modes.

use std::time::Duration;

use mcpdeck::host::{HostView, ServerState, StartStep};
use mcpdeck::protocol::{ListKind, SessionEvent};
use mcpdeck::{ErrorCode, Startup};
use serde_json::json;
use tokio::time::Instant;

use crate::fake::{World, config, name, state, until};

#[tokio::test(start_paused = true)]
async fn eight_servers_of_one_second_are_ready_after_one_second() {
    let world = World::default();
    let servers: Vec<String> = (0..8).map(|n| format!("s{n}")).collect();
    let entries: Vec<(&str, &[&str])> = servers.iter().map(|s| (s.as_str(), &[][..])).collect();
    let began = Instant::now();
    let host = world.host(config(&entries)).initialize().await.expect("all start");
    assert!(began.elapsed() < Duration::from_millis(1_100), "{:?}", began.elapsed());
    assert_eq!(host.get_tools().len(), 8);
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_chain_of_three_takes_three_seconds_and_is_stopped_from_its_end() {
    let world = World::default();
    let chain = config(&[("c", &["b"]), ("a", &[]), ("b", &["a"])]);
    let began = Instant::now();
    let host = world.host(chain).initialize().await.expect("all start");
    assert_eq!(began.elapsed().as_secs(), 3);
    host.shutdown().await;
    assert_eq!(*world.gone.lock().unwrap(), ["c", "b", "a"]);
    assert_eq!(state(&host, "a"), ServerState::Shutdown);
}

#[tokio::test(start_paused = true)]
async fn no_more_than_sixteen_servers_start_at_once() {
    let world = World::default();
    let servers: Vec<String> = (0..40).map(|n| format!("s{n}")).collect();
    let entries: Vec<(&str, &[&str])> = servers.iter().map(|s| (s.as_str(), &[][..])).collect();
    let began = Instant::now();
    let host = world.host(config(&entries)).initialize().await.expect("all start");
    assert_eq!(began.elapsed().as_secs(), 3);
    assert_eq!(host.get_tools().len(), 40);
}

#[tokio::test(start_paused = true)]
async fn what_a_server_waited_for_its_turn_to_start_is_not_the_time_to_its_first_output() {
    let world = World::default();
    let servers: Vec<String> = (0..40).map(|n| format!("s{n:02}")).collect();
    let entries: Vec<(&str, &[&str])> = servers.iter().map(|s| (s.as_str(), &[][..])).collect();
    let host = world.host(config(&entries)).initialize().await.expect("all start");
    world.server("s39").tell(SessionEvent::FirstByte).await;
    let first = |view: &HostView| {
        let steps = &view.servers["s39"].steps;
        steps.iter().find(|step| step.step == StartStep::FirstByte).and_then(|step| step.took)
    };
    until(&host, |view| first(view).is_some()).await;
    let took = host.view().borrow().clone();
    assert_eq!(first(&took).map(|took| took.as_secs()), Some(1), "it started two seconds late");
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_can_pass_is_tried_again_with_backoff() {
    let world = World::default();
    *world.server("a").failures.lock().unwrap() = vec![true, true];
    let host = world.host(config(&[("a", &[])])).initialize().await.expect("third time lucky");
    assert_eq!(world.server("a").opens(), 3);
    let view = host.view().borrow().clone();
    assert_eq!((view.servers["a"].attempt, view.servers["a"].restarts), (3, 0));
}

#[tokio::test(start_paused = true)]
async fn under_all_one_failure_stops_every_server_and_is_the_error() {
    let world = World::default();
    *world.server("bad").failures.lock().unwrap() = vec![false];
    *world.server("bad").start.lock().unwrap() = Duration::from_secs(5);
    let error = world
        .host(config(&[("good", &[]), ("bad", &[])]))
        .initialize()
        .await
        .err()
        .expect("one failed");
    assert_eq!(error.code, ErrorCode::ServerStartup);
    assert_eq!(error.server, Some(name("bad")));
    assert!(error.message.contains("it did not want to"), "{error}");
    assert_eq!(*world.gone.lock().unwrap(), ["good"]);
}

#[tokio::test(start_paused = true)]
async fn under_available_the_rest_runs_and_a_dependent_says_what_it_needs() {
    let world = World::default();
    *world.server("bad").failures.lock().unwrap() = vec![false];
    let servers = config(&[("good", &[]), ("bad", &[]), ("needy", &["bad"])]);
    let host = world.host(servers).startup(Startup::Available).initialize().await.expect("starts");
    assert_eq!(state(&host, "good"), ServerState::Ready);
    assert_eq!(state(&host, "bad"), ServerState::Unavailable);
    assert_eq!(state(&host, "needy"), ServerState::Waiting);
    let reason = host.view().borrow().servers["needy"].reason.clone().expect("it says why");
    assert!(reason.contains("needs `bad`") && reason.contains("it did not want to"), "{reason}");

    // The dependency is started manually; the server waiting for it then starts by itself.
    host.start(&name("bad")).await.expect("now it wants to");
    until(&host, |view| view.servers["needy"].state == ServerState::Ready).await;
}

#[tokio::test(start_paused = true)]
async fn in_the_background_initialize_returns_before_anything_is_up() {
    let world = World::default();
    let builder = world.host(config(&[("a", &[])])).startup(Startup::Background);
    let began = Instant::now();
    let host = builder.initialize().await.expect("returns");
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(state(&host, "a"), ServerState::Waiting);
    host.call_tool("a.echo", serde_json::Value::Null).await.expect("a call waits for it");
    assert_eq!(began.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_circle_of_dependencies_is_a_configuration_error_and_nothing_starts() {
    let world = World::default();
    let circle = config(&[("a", &["b"]), ("b", &["a"])]);
    let error = world.host(circle).initialize().await.err().expect("a circle");
    assert_eq!(error.code, ErrorCode::Configuration);
    assert_eq!(world.server("a").opens(), 0);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_future_of_a_start_stops_what_was_started() {
    let world = World::default();
    *world.server("slow").start.lock().unwrap() = Duration::from_secs(1_000);
    let servers = config(&[("quick", &[]), ("slow", &[])]);
    let starting = world.host(servers).initialize();
    assert!(tokio::time::timeout(Duration::from_secs(5), starting).await.is_err());
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(*world.gone.lock().unwrap(), ["quick"]);
}

#[tokio::test(start_paused = true)]
async fn a_disabled_server_is_shown_not_started_and_can_be_started_by_hand() {
    let world = World::default();
    let mut servers = config(&[("a", &[])]);
    servers.servers.get_mut("a").unwrap().disabled = true;
    let host = world.host(servers).initialize().await.expect("nothing to start");
    assert_eq!(state(&host, "a"), ServerState::Disabled);
    assert_eq!(world.server("a").opens(), 0);
    host.start(&name("a")).await.expect("by hand");
    assert_eq!(state(&host, "a"), ServerState::Ready);
}

#[tokio::test(start_paused = true)]
async fn the_start_of_all_has_a_budget_and_says_who_was_too_slow() {
    let world = World::default();
    *world.server("slow").start.lock().unwrap() = Duration::from_secs(1_000);
    let began = Instant::now();
    let servers = config(&[("quick", &[]), ("slow", &[]), ("after", &["slow"])]);
    let error = world.host(servers.clone()).initialize().await.err().expect("it takes too long");
    assert_eq!((error.code, began.elapsed().as_secs()), (ErrorCode::ServerStartup, 60));
    assert!(error.message.contains("`slow` is starting"), "{error}");
    assert!(error.message.contains("`after` is waiting"), "{error}");
    assert!(!error.message.contains("quick"), "{error}");
    assert_eq!(*world.gone.lock().unwrap(), ["quick"]);

    let began = Instant::now();
    let builder = world.host(servers).start_timeout(Duration::from_secs(7));
    assert!(builder.initialize().await.is_err());
    assert_eq!(began.elapsed().as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_two_servers_have_is_reported_once_at_the_start() {
    let world = World::default();
    let host = world.host(config(&[("a", &[]), ("b", &["a"])])).initialize().await.expect("starts");
    let logs: Vec<String> = host.logs().tail(50).iter().map(|log| log.text.to_string()).collect();
    let reported: Vec<&String> = logs.iter().filter(|text| text.contains("is a tool of")).collect();
    assert_eq!(reported, ["`echo` is a tool of `a` too: say `b.NAME` or `a.NAME`"], "{logs:?}");
}

#[tokio::test(start_paused = true)]
async fn resources_that_two_servers_list_are_reported_together() {
    let world = World::default();
    let listed: Vec<_> = ["b", "a"]
        .iter()
        .map(|uri| json!({"uri": format!("file:///{uri}"), "name": "r"}))
        .collect();
    for name in ["a", "b"] {
        let server = world.server(name);
        server.lists.lock().unwrap().insert(ListKind::Resources, listed.clone());
    }
    let host = world.host(config(&[("a", &[]), ("b", &["a"])])).initialize().await.expect("starts");
    let logs: Vec<String> = host.logs().tail(50).iter().map(|log| log.text.to_string()).collect();
    let reported: Vec<&String> = logs.iter().filter(|text| text.contains("resources of")).collect();
    let begin = "`file:///a`, `file:///b` are resources of `a` too: name the server";
    assert!(matches!(&reported[..], [text] if text.starts_with(begin)), "{logs:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_many_servers_have_is_reported_of_five_of_them_and_of_the_rest_at_once() {
    let world = World::default();
    let others = ["a", "b", "c", "d", "e", "f", "g"];
    let mut servers: Vec<(&str, &[&str])> = others.iter().map(|name| (*name, &[][..])).collect();
    servers.push(("last", &others));
    let host = world.host(config(&servers)).initialize().await.expect("starts");
    let logs = host.logs().tail(500);
    let reported = logs.iter().filter(|log| log.text.contains("`last.NAME`"));
    let reported: Vec<String> = reported.map(|log| log.text.to_string()).collect();
    assert_eq!(reported.len(), 6, "{reported:?}");
    assert_eq!(reported[0], "`echo` is a tool of `a` too: say `last.NAME` or `a.NAME`");
    let rest = "`echo` is a tool of 2 more servers too: say `last.NAME` or `SERVER.NAME`";
    assert_eq!(reported[5], rest);
}
