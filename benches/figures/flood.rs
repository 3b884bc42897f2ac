//! The effect of output floods on other servers: calls two quiet servers while others write as fast
//! as they can, over pipes and over HTTP, and prints the latencies side by side.
//!
//! `cargo bench --bench figures -- flood [BYTES]`, by default 1 GB from each flood. The
//! host runs on one thread, as in the dashboard and in `check`; the word `threads` uses a thread pool;
//! `http` skips the pipes.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcpdeck::config::{
    HttpConfig, McpConfig, ProcessLimits, ServerConfig, StdioConfig, TransportConfig,
};
use mcpdeck::host::{HostView, ServerState};
use mcpdeck::protocol::FindingKind;
use mcpdeck::{Host, Startup};
use serde_json::json;
use tokio::task::JoinHandle;

pub mod web;

/// Minimum duration of a phase, which otherwise ends with its floods.
const SHORTEST: Duration = Duration::from_secs(5);

/// Longest time that a phase waits for its floods to end.
const PATIENCE: Duration = Duration::from_secs(60);

const SCRIPT: &str = r#"{
  "serverInfo": {"name": "quiet", "version": "1"},
  "tools": [{"name": "echo", "description": "Echoes", "inputSchema": {"type": "object"}}],
  "calls": {"echo": {"text": "${arguments.text}"}}
}"#;

fn server(name: &str, before: &str, script: &Path) -> ServerConfig {
    let command = format!("{before} exec \"$0\" mock \"$1\"");
    let stdio = StdioConfig {
        command: "/bin/sh".into(),
        args: vec!["-c".into(), command, crate::pty::program(), script.display().to_string()],
        env: indexmap::IndexMap::new(),
        cwd: None,
        inherit_env: false,
        limits: ProcessLimits::default(),
    };
    let mut config = ServerConfig::new(name.into(), TransportConfig::Stdio(stdio));
    config.startup_timeout = PATIENCE * 2;
    config
}

/// One phase: the floods next to the quiet servers, and the latencies of their calls.
struct Phase {
    what: &'static str,
    calls: usize,
    p50: Duration,
    p99: Duration,
    worst: Duration,
    host_cpu: f64,
    took: Duration,
}

/// The source of a flood.
enum Flood {
    /// The output of a command that runs before the server.
    Pipe(String),
    /// The answer of a tool of the server at this address.
    Web(&'static str, String),
}

async fn phase(what: &'static str, floods: &[Flood], script: &Path) -> Phase {
    let mut config = McpConfig::default();
    for name in ["one", "two"] {
        config.servers.insert(name.into(), server(name, "", script));
    }
    let names = ["a", "b", "c", "d"];
    let mut ends = Vec::new();
    let mut tools = Vec::new();
    for (name, flood) in names.iter().zip(floods) {
        let flood = match flood {
            Flood::Pipe(flood) => flood,
            Flood::Web(tool, url) => {
                let url = url.parse().expect("an address");
                let http = HttpConfig::new(url);
                let mut server = ServerConfig::new("web".into(), TransportConfig::Http(http));
                server.request_timeout = PATIENCE * 2;
                config.servers.insert("web".into(), server);
                tools.push(*tool);
                continue;
            }
        };
        let end = script.with_file_name(format!("{name} of {what}"));
        // Before the server, not in parallel: an async server makes the shared pipe non-blocking,
        // and the flood would end at the first full pipe.
        let before = format!("{flood}; : > '{}';", end.display());
        config.servers.insert((*name).into(), server(name, &before, script));
        ends.push(end);
    }
    let host = Host::builder()
        .config(config)
        .startup(Startup::Background)
        .initialize()
        .await
        .expect("a host");
    // A server that floods its stdout only becomes ready after the flood, so do not wait for it.
    let ready = |view: &Arc<HostView>| {
        let up = |name| view.servers.get(name).is_some_and(|s| s.state == ServerState::Ready);
        up("one") && up("two") && (tools.is_empty() || up("web"))
    };
    host.view().wait_for(ready).await.expect("two quiet servers");
    let (began, cpu) = (Instant::now(), cpu_seconds());
    let host = Arc::new(host);
    let answers: Vec<_> =
        tools.iter().map(|tool| tokio::spawn(ask(Arc::clone(&host), tool))).collect();
    let over =
        || ends.iter().all(|end| end.exists()) && answers.iter().all(JoinHandle::is_finished);
    let mut times = Vec::new();
    while began.elapsed() < SHORTEST || (began.elapsed() < PATIENCE && !over()) {
        for tool in ["one.echo", "two.echo"] {
            let at = Instant::now();
            host.call_tool(tool, json!({"text": "hello"})).await.expect("an answer");
            times.push(at.elapsed());
        }
    }
    let (took, host_cpu) = (began.elapsed(), cpu_seconds() - cpu);
    report_dropped(&host, what);
    host.shutdown().await;
    times.sort_unstable();
    let at = |share: f64| times[(times.len() as f64 * share) as usize];
    Phase {
        what,
        calls: times.len(),
        p50: at(0.5),
        p99: at(0.99),
        worst: times[times.len() - 1],
        host_cpu,
        took,
    }
}

/// Requests a flood and prints how it ended.
async fn ask(host: Arc<Host>, tool: &'static str) {
    let began = Instant::now();
    let ended = match host.call_tool(tool, json!({})).await {
        Ok(_) => "was answered".to_owned(),
        Err(error) => format!("failed: {}", error.message),
    };
    println!("  {tool} {ended} after {:.1} s", began.elapsed().as_secs_f64());
}

fn report_dropped(host: &Host, what: &str) {
    let reported = host.logs().tail(usize::MAX);
    let reported: Vec<_> = reported.iter().filter(|record| record.text.contains("flood")).collect();
    if let Some(last) = reported.last() {
        println!("  {what}: {} notices in the log, the last: {}", reported.len(), last.text);
    }
    for (name, server) in &host.view().borrow().servers {
        if server.state != ServerState::Ready {
            println!("  {what}: {name} is {}: {:?}", server.state.as_str(), server.reason);
        }
        for (kind, count) in &server.finding_counts {
            println!("  {what}: {name} has {count} findings of kind {kind:?}");
        }
        for finding in server.findings.iter().filter(|f| f.kind != FindingKind::Junk) {
            println!("  {what}: {name}: {}", finding.message);
        }
    }
}

fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0.0))
        .collect();
    (fields.get(11).unwrap_or(&0.0) + fields.get(12).unwrap_or(&0.0)) / 100.0
}

fn memory(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) / 1024
}

/// Measures floods of the kinds and the size that the words say.
pub fn measure(words: &[String]) {
    let bytes = words.iter().find_map(|word| word.parse::<u64>().ok());
    let bytes = bytes.unwrap_or(1_000_000_000);
    let dir = tempfile::tempdir().expect("a folder");
    let script = dir.path().join("quiet.json");
    std::fs::write(&script, SCRIPT).expect("a script");
    let lines =
        |to: &str| format!("yes 'a line of forty bytes, as logs have them' | head -c {bytes} {to}");
    let blob = |to: &str| format!("head -c {bytes} /dev/zero {to}");
    let mut builder = if words.iter().any(|word| word == "threads") {
        tokio::runtime::Builder::new_multi_thread()
    } else {
        tokio::runtime::Builder::new_current_thread()
    };
    let runtime = builder.enable_all().build().expect("a runtime");
    let web = web::start(bytes).expect("a server over HTTP");
    let http = |tool| Flood::Web(tool, web.1.clone());
    let pipes = || [lines(">&2"), blob(">&2"), lines(""), blob("")].map(Flood::Pipe);
    let mut phases = vec![("quiet", vec![])];
    if !words.iter().any(|word| word == "http") {
        let names =
            ["stderr, lines", "stderr, no line end", "stdout, lines", "stdout, no line end"];
        phases.extend(names.into_iter().zip(pipes().map(|flood| vec![flood])));
        phases.push(("all four", pipes().into()));
    }
    phases.push(("http, events", vec![http(web::EVENTS)]));
    phases.push(("http, one body", vec![http(web::BODY)]));
    phases.push(("http, both", vec![http(web::EVENTS), http(web::BODY)]));
    phases.push(("quiet again", vec![]));
    println!(
        "floods of {:.1} GB, calls to two quiet servers one after the other",
        bytes as f64 / 1e9
    );
    let mut base: Option<Phase> = None;
    for (what, floods) in phases {
        let phase = runtime.block_on(phase(what, &floods, &script));
        let ratio = |now: Duration, then: Option<Duration>| {
            then.map_or(1.0, |then| now.as_secs_f64() / then.as_secs_f64())
        };
        println!(
            "{:20} {:7} calls  p50 {:>10.1?} (x{:.2})  p99 {:>10.1?} (x{:.2})  worst {:>9.1?}  host cpu {:3.0} %  rss {} MB (peak {})",
            phase.what,
            phase.calls,
            phase.p50,
            ratio(phase.p50, base.as_ref().map(|base| base.p50)),
            phase.p99,
            ratio(phase.p99, base.as_ref().map(|base| base.p99)),
            phase.worst,
            phase.host_cpu / phase.took.as_secs_f64() * 100.0,
            memory("VmRSS"),
            memory("VmHWM"),
        );
        base.get_or_insert(phase);
    }
}
