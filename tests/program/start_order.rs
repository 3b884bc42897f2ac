//! The order in which real processes are started: side by side where nothing forbids it, one after
//! the other where a dependency does. Told by facts, not by clocks; the times are printed.

use std::io::Write;
use std::time::{Duration, Instant};

use crate::support::Bench;
use mcpdeck::host::{Fact, Host, ServerState};
use serde_json::{Value, json};

/// A server that needs a second before it reads the handshake.
fn slow() -> Value {
    json!({"on": {"start": {"delay": 1000}}, "tools": []})
}

/// Starts all; gives the states that servers went through, in order, and how long it took.
async fn started(bench: &Bench, servers: &Value) -> (Vec<(String, ServerState)>, Duration) {
    let config = bench.servers(servers);
    let begun = Instant::now();
    let host = Host::initialize(&config).await.unwrap_or_else(|error| panic!("{error}"));
    let took = begun.elapsed();
    let facts = host.facts().tail(usize::MAX);
    let states = facts.iter().filter_map(|record| match (&record.server, &record.fact) {
        (Some(server), Fact::StateChanged { state, .. }) => Some((server.to_string(), *state)),
        _ => None,
    });
    let states = states.collect();
    host.shutdown().await;
    bench.expect_nothing_left(Duration::ZERO);
    (states, took)
}

fn tell(what: &str, took: Duration) {
    let _ = writeln!(std::io::stdout(), "{what}: {:.2} s", took.as_secs_f64());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_slow_servers_start_side_by_side() {
    let bench = Bench::new();
    let mut servers = json!({});
    for number in 1..=8 {
        let name = format!("s{number}");
        servers[&name] = bench.mock(&name, &slow(), &json!({}));
    }
    let (states, took) = started(&bench, &servers).await;
    tell("eight servers of one second each", took);
    let begun = |(_, state): &&(String, ServerState)| *state == ServerState::Starting;
    let first_ready = states.iter().position(|(_, state)| *state == ServerState::Ready);
    let before = states[..first_ready.expect("all are ready")].iter().filter(begun).count();
    assert_eq!(before, 8, "all had begun before the first was ready: {states:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chain_of_three_starts_one_after_the_other() {
    let bench = Bench::new();
    let servers = json!({
        "third": bench.mock("third", &slow(), &json!({"dependencies": ["second"]})),
        "second": bench.mock("second", &slow(), &json!({"dependencies": ["first"]})),
        "first": bench.mock("first", &slow(), &json!({})),
    });
    let (states, took) = started(&bench, &servers).await;
    tell("a chain of three servers of one second each", took);
    let order: Vec<String> = states
        .iter()
        .filter(|(_, state)| matches!(state, ServerState::Starting | ServerState::Ready))
        .map(|(server, state)| format!("{server} {}", state.as_str()))
        .collect();
    let expected = [
        "first starting",
        "first ready",
        "second starting",
        "second ready",
        "third starting",
        "third ready",
    ];
    assert_eq!(order, expected);
}

/// Starts one server that is a shell script; gives how often it was tried and how often spawned.
#[cfg(target_os = "linux")]
async fn tried(bench: &Bench, script: &str) -> (usize, usize, Option<String>) {
    let script = format!("{script}\n");
    let retry = json!({"initial": 0.01});
    let servers = json!({"a": {"command": "/bin/sh", "args": ["-c", script], "retry": retry}});
    let builder = Host::builder().config_file(bench.servers(&servers));
    let host = builder.startup(mcpdeck::Startup::Available).initialize().await.expect("a host");
    let facts = host.facts().tail(usize::MAX);
    let count = |wanted: fn(&Fact) -> bool| facts.iter().filter(|r| wanted(&r.fact)).count();
    let starting = |fact: &Fact| matches!(fact, Fact::StateChanged { state, .. } if *state == ServerState::Starting);
    let counted = (count(starting), count(|fact| matches!(fact, Fact::Spawned { .. })));
    let reason = host.view().borrow().servers["a"].reason.as_ref().map(ToString::to_string);
    host.shutdown().await;
    (counted.0, counted.1, reason)
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_dies_unheard_is_spawned_once_and_one_that_dies_of_the_probe_twice() {
    let bench = Bench::new();
    let (tries, spawned, reason) = tried(&bench, "echo 'no key' >&2; exit 3").await;
    assert_eq!(spawned, tries, "no setting can be the cause");
    let reason = reason.expect("a reason");
    assert_eq!(reason.matches("no key").count(), 1, "{reason}");
    let (tries, spawned, reason) = tried(&bench, "read line; echo 'what?' >&2; exit 3").await;
    assert_eq!(spawned, 2 * tries, "{reason:?}");
}
