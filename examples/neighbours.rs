//! Measures what faulty servers cost their neighbours: the latency of calls to four healthy servers
//! alone, and beside four that flood stdout and stderr, crash in a loop, and hang.
//!
//! `cargo run --profile dist --example neighbours -- [SECONDS]` (default 5 each). Needs the program
//! beside the example: `cargo build --profile dist` first. Exit code 1 when the p99 more than doubles.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use mcpdeck::base::ServerName;
use mcpdeck::config::{
    McpConfig, OnTimeout, RestartPolicy, ServerConfig, StdioConfig, TransportConfig,
};
use mcpdeck::host::{Host, Startup};
use serde_json::json;

const HEALTHY: usize = 4;
const ECHO: &str = r#"{"calls": {"echo": {"text": "${arguments.n}"}}}"#;
const FAULTY: [(&str, &str); 4] = [
    (
        "stderr",
        r#"{"calls": {}, "on": {"notifications/initialized": {"flood": {"to": "stderr", "line": "error: something happened, again, number ${i}", "perSecond": 100000}}}}"#,
    ),
    (
        "notes",
        r#"{"capabilities": {"tools": {}, "logging": {}}, "tools": [], "on": {"notifications/initialized": {"flood": {"json": {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "note ${i}"}}, "perSecond": 20000}}}}"#,
    ),
    ("crash", r#"{"on": {"notifications/initialized": [{"delay": 100}, {"exit": 1}]}}"#),
    ("hang", r#"{"calls": {"echo": []}, "on": {"stdinClosed": [], "SIGTERM": []}}"#),
];

fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(5);
    let Some(program) = program() else {
        say("the program mcpdeck is not beside this example: build it first");
        return ExitCode::FAILURE;
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let time = Duration::from_secs(seconds);
    let quiet = runtime.block_on(measure(&program, time, &[]));
    let noisy = runtime.block_on(measure(&program, time, &FAULTY));
    let (Some(quiet), Some(noisy)) = (quiet, noisy) else { return ExitCode::FAILURE };
    say(&format!("alone:            {quiet}"));
    say(&format!("with four faulty: {noisy}"));
    let ratio = noisy.p99.as_secs_f64() / quiet.p99.as_secs_f64();
    say(&format!("p99 with faulty neighbours is {ratio:.2} times the p99 alone"));
    if ratio <= 2.0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn program() -> Option<PathBuf> {
    let here = std::env::current_exe().ok()?;
    let program = here.parent()?.parent()?.join(format!("mcpdeck{}", std::env::consts::EXE_SUFFIX));
    program.exists().then_some(program)
}

struct Latencies {
    calls: usize,
    p50: Duration,
    p99: Duration,
    worst: Duration,
}

impl std::fmt::Display for Latencies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} calls, p50 {:?}, p99 {:?}, worst {:?}",
            self.calls, self.p50, self.p99, self.worst
        )
    }
}

async fn measure(program: &Path, time: Duration, faulty: &[(&str, &str)]) -> Option<Latencies> {
    let mut config = McpConfig::default();
    for number in 0..HEALTHY {
        add(&mut config, program, &format!("well{number}"), ECHO);
    }
    for (name, script) in faulty {
        add(&mut config, program, name, script);
    }
    let host = Host::builder().config(config).startup(Startup::Available).initialize().await;
    let host = host.map_err(|error| say(&error.to_string())).ok()?;
    let mut tasks = tokio::task::JoinSet::new();
    let until = Instant::now() + time;
    for number in 0..HEALTHY {
        tasks.spawn(caller(host.clone(), format!("well{number}.echo"), until));
    }
    if !faulty.is_empty() {
        // Calls that never come back wait beside the others.
        let host = host.clone();
        tokio::spawn(async move { host.call_tool("hang.echo", json!({})).await });
    }
    let mut times: Vec<Duration> = tasks.join_all().await.into_iter().flatten().collect();
    times.sort();
    host.shutdown().await;
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied();
    Some(Latencies { calls: times.len(), p50: at(0.5)?, p99: at(0.99)?, worst: *times.last()? })
}

fn add(config: &mut McpConfig, program: &Path, name: &str, script: &str) {
    let stdio = StdioConfig {
        command: program.to_string_lossy().into_owned(),
        args: vec!["mock".into(), "--script".into(), script.into()],
        env: [].into(),
        cwd: None,
        inherit_env: false,
        limits: mcpdeck::config::ProcessLimits::default(),
    };
    let name = ServerName::new(name);
    let mut server = ServerConfig::new(name.clone(), TransportConfig::Stdio(stdio));
    server.shutdown_timeout = Duration::from_secs(2);
    server.on_timeout = OnTimeout::Breaker;
    server.restart.policy = RestartPolicy::OnFailure;
    server.restart.max = 1_000_000;
    server.restart.backoff = Duration::from_millis(50);
    config.servers.insert(name, server);
}

/// Calls one server again and again, a thousand times a second at most.
async fn caller(host: Host, tool: String, until: Instant) -> Vec<Duration> {
    let mut times = Vec::new();
    while Instant::now() < until {
        let begun = Instant::now();
        if host.call_tool(&tool, json!({"n": 1})).await.is_ok() {
            times.push(begun.elapsed());
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    times
}
