//! A host with seven servers is killed with SIGKILL: none of their processes is left.
//!
//! The host is this test binary, run again with [`ROLE`] in its environment. `tests/process` tests
//! the same below the engine; this is the whole host.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Bench, bin};
use mcpdeck::host::ServerState;
use mcpdeck::{Host, Startup};
use serde_json::json;

const ROLE: &str = "MCPDECK_TEST_HOST";

/// Not a test: the host to be killed.
#[test]
fn host_that_is_killed() {
    let Some(file) = std::env::var_os(ROLE) else { return };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let host = Host::builder().config_file(file).startup(Startup::Available);
        let host = host.initialize().await.unwrap();
        let view = host.view();
        let ready =
            view.borrow().servers.values().filter(|s| s.state == ServerState::Ready).count();
        writeln!(std::io::stdout(), "\nready {ready}").unwrap();
        std::future::pending::<()>().await;
    });
}

/// Processes of a host's servers: everything they start inherits the mark of the host.
fn servers_of(host: u32) -> Vec<String> {
    let mark = format!("MCPDECK_SERVER={host}.");
    let pids = std::fs::read_dir("/proc").expect("a host").flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| {
        let env = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        env.split(|b| *b == 0).find(|entry| entry.starts_with(mark.as_bytes()))?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        Some(format!("{pid} {}", String::from_utf8_lossy(&line).replace('\0', " ")))
    })
    .collect()
}

/// Starts the host, waits until its servers are ready, kills it, waits until nothing is left.
fn kill(file: &Path) {
    let mut host = Command::new(std::env::current_exe().expect("a host"))
        .args(["kill_host::host_that_is_killed", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, file)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a host");
    let ready = BufReader::new(host.stdout.take().expect("a host"))
        .lines()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("ready ").map(str::to_owned));
    let before = servers_of(host.id());
    host.kill().expect("a host");
    host.wait().expect("a host");
    let killed = Instant::now();
    assert_eq!(ready.as_deref(), Some("7"));
    assert!(before.len() >= 7, "{before:#?}");
    let gone = || servers_of(host.id()).is_empty().then_some(());
    crate::support::wait_for("the end of every server", Duration::from_secs(60), gone);
    let after = killed.elapsed();
    writeln!(std::io::stderr(), "{} processes gone {after:?} after the host", before.len())
        .expect("a host");
}

#[test]
fn nothing_of_seven_servers_outlives_a_killed_host() {
    let bench = Bench::new();
    let polite = bench.mock("polite", &json!({}), &json!({}));
    let ignores = json!({"on": {"stdinClosed": [], "SIGTERM": []}});
    let ignores = bench.mock("ignores", &ignores, &json!({}));
    let script = polite["args"][1].clone();
    let wrapped = |shell: &str| json!({"command": "/bin/sh", "args": ["-c", shell, bin(), script]});
    // Like npx: a runner that waits for a shell that waits for the server.
    let runner = wrapped("sh -c '\"$0\" mock \"$1\"; true' \"$0\" \"$1\"; true");
    let stubborn = wrapped(
        "trap '' TERM HUP; sh -c '\"$0\" mock \"$1\"; sleep 1000' \"$0\" \"$1\"; sleep 1000",
    );
    let daemon =
        wrapped("(setsid sleep 1000 </dev/null >/dev/null 2>&1 &); exec \"$0\" mock \"$1\"");
    let servers = json!({
        "one": polite, "two": polite, "three": polite, "ignores": ignores,
        "runner": runner, "stubborn": stubborn, "daemon": daemon,
    });
    kill(&bench.servers(&servers));
}

#[test]
fn nothing_of_seven_published_servers_outlives_a_killed_host() {
    let bench = Bench::new();
    let Some(mut entries) = crate::support::published(bench.path()) else { return };
    // One of them already runs through npx; this is the second.
    let thinking = &mut entries["sequential-thinking"];
    let script = thinking["args"][0].as_str().unwrap();
    let folder = script.split("/node_modules/").next().unwrap();
    thinking["args"] =
        json!(["--offline", "--no-install", "--prefix", folder, "mcp-server-sequential-thinking"]);
    thinking["command"] = json!("npx");
    kill(&bench.servers(&entries));
}
