//! Servers that write to stderr or stdout as fast as they can: the others keep answering, memory is
//! bounded, and dropped output is counted visibly.
//!
//! `benches/figures/flood.rs` measures the latencies; these tests do not depend on time.

use std::sync::Arc;

use crate::support::{Bench, bin, memory};
use mcpdeck::host::{HostView, ServerState};
use mcpdeck::protocol::FindingKind;
use mcpdeck::{Host, Startup};
use serde_json::{Value, json};

/// Size of each flood in bytes.
const BYTES: u64 = 100_000_000;
/// Memory limit: half of the 300 MB that row I5 of the fault catalogue allows.
const MEMORY: u64 = 150 << 20;

const QUIET: &str = r#"{
  "tools": [{"name": "echo", "description": "Echoes", "inputSchema": {"type": "object"}}],
  "calls": {"echo": {"text": "${arguments.text}"}}
}"#;

/// An entry that floods and then runs a normal server.
fn flooding(bench: &Bench, flood: &str) -> Value {
    let script = bench.write("quiet.json", QUIET);
    let shell = format!("{flood}; exec \"$0\" mock \"$1\"");
    json!({"command": "/bin/sh", "args": ["-c", shell, bin(), script]})
}

async fn start(bench: &Bench, servers: &Value) -> Host {
    let host = Host::builder().config_file(bench.servers(servers)).startup(Startup::Background);
    host.initialize().await.expect("a host")
}

fn is(view: &Arc<HostView>, server: &str, state: ServerState) -> bool {
    view.servers.get(server).is_some_and(|view| view.state == state)
}

/// Calls the quiet server until every flooding one is ready; returns the number of calls.
async fn call_until_ready(host: &Host, flooders: &[&str]) -> usize {
    let mut view = host.view();
    view.wait_for(|view| is(view, "quiet", ServerState::Ready)).await.expect("a host");
    let mut answered = 0;
    loop {
        let text = format!("call {answered}");
        let outcome = host.call_tool("quiet.echo", json!({"text": text})).await.expect("an answer");
        assert!(outcome.result.to_string().contains(&text), "{:?}", outcome.result);
        answered += 1;
        let now = view.borrow_and_update().clone();
        for name in flooders {
            let lost = is(&now, name, ServerState::Unavailable);
            assert!(!lost, "{name}: {:?}", now.servers[*name].reason);
        }
        if flooders.iter().all(|name| is(&now, name, ServerState::Ready)) {
            return answered;
        }
    }
}

/// Set for the process that is the host: the memory that is measured is its own.
const ROLE: &str = "MCPDECK_TEST_FLOODED";

#[test]
fn floods_on_stderr_and_stdout_harm_nobody_else() {
    let host = std::process::Command::new(std::env::current_exe().expect("this program"))
        .args(["flood::flooded_host", "--exact", "--nocapture", "--test-threads=1"])
        .env(ROLE, "1")
        .output()
        .expect("a host");
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(host.status.success(), "{}{}", said(&host.stdout), said(&host.stderr));
    assert!(said(&host.stdout).contains("1 passed"), "{}", said(&host.stdout));
}

/// Not a test by itself: the host that is flooded.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn flooded_host() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let bench = Bench::new();
    let lines = format!("yes 'a line of a flood' | head -c {BYTES}");
    let blob = format!("head -c {BYTES} /dev/zero");
    let mut servers = json!({
        "quiet": flooding(&bench, ":"),
        "stderr-lines": flooding(&bench, &format!("{lines} >&2")),
        "stderr-blob": flooding(&bench, &format!("{blob} >&2")),
        "stdout-lines": flooding(&bench, &lines),
        "stdout-blob": flooding(&bench, &format!("{blob}; echo")),
    });
    for entry in servers.as_object_mut().unwrap().values_mut() {
        entry["startupTimeout"] = 120.into();
    }
    let host = start(&bench, &servers).await;
    let flooders = ["stderr-lines", "stderr-blob", "stdout-lines", "stdout-blob"];
    let answered = call_until_ready(&host, &flooders).await;
    assert!(answered > 10, "{answered}");
    let peak = memory(std::process::id(), "VmHWM");
    assert!(peak < MEMORY, "{} MB", peak >> 20);

    let log = host.logs().tail(usize::MAX);
    let notice = |record: &&Arc<mcpdeck::base::logs::LogRecord>| {
        record.text.starts_with("stderr flood: ")
            && record.server.as_ref().is_some_and(|name| name.as_str() == "stderr-lines")
    };
    assert!(log.iter().any(|record| notice(&record)), "the log tells of dropped lines");
    let view = host.view().borrow().clone();
    for (name, kind) in
        [("stdout-lines", FindingKind::Junk), ("stdout-blob", FindingKind::TooLarge)]
    {
        let counts = &view.servers[name].finding_counts;
        assert!(counts.contains_key(&kind), "{name}: {counts:?}");
    }
    let report = host.shutdown().await;
    assert_eq!(report.exits.len(), 5, "{report:?}");
}
