//! What a call costs: through a raw pipe, through rmcp alone, and through the host with validation,
//! metrics, breakers, cache, guard and the tap on. One small answer, one of 1 MB, and many at once.
//!
//! ```text
//! cargo bench --bench calls            # everything, on a current-thread runtime
//! ```
//! The server is this same program, started with `serve`.

#![expect(clippy::print_stdout, reason = "a bench prints its figures")]
#![expect(clippy::unwrap_used, reason = "a bench that cannot go on has failed")]

use std::io::{BufRead, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use mcpdeck::config::{
    GuardMode, McpConfig, ServerConfig, ServerName, StdioConfig, TransportConfig,
};
use mcpdeck::{Host, Startup};
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};

const SMALL: usize = 100;
const LARGE: usize = 1 << 20;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let idle = deck(10).await;
        println!("resident memory with ten idle servers: {:.1} MB\n", resident() / 1e6);
        idle.shutdown().await;
        println!(
            "{:<34} {:>12} {:>12} {:>12}",
            "sequential, p50 (p99) in µs", "raw", "rmcp", "host"
        );
        for (name, size, rounds) in [("100 B", SMALL, 5_000), ("1 MB", LARGE, 150)] {
            let raw = raw(size, rounds).await;
            let alone = rmcp_alone(size, rounds).await;
            let host = host(size, rounds).await;
            let cell = |figures: &Figures| format!("{:.1} ({:.0})", figures.p50, figures.p99);
            println!(
                "{name:<34} {:>12} {:>12} {:>12}   host/rmcp {:.2}",
                cell(&raw),
                cell(&alone),
                cell(&host),
                host.p50 / alone.p50
            );
        }
        println!("\nat once over ten servers, calls per second");
        for many in [50, 1_000] {
            let (host, alone) = (at_once(many).await, rmcp_at_once(many).await);
            println!("{many:>6} in flight: rmcp {alone:.0}, host {host:.0}");
        }
        println!("\nresident memory after all that: {:.1} MB", resident() / 1e6);
    });
}

struct Figures {
    p50: f64,
    p99: f64,
}

fn figures(mut samples: Vec<Duration>) -> Figures {
    samples.drain(..samples.len() / 10);
    samples.sort();
    let at =
        |share: f64| samples[((samples.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e6;
    Figures { p50: at(0.5), p99: at(0.99) }
}

fn start() -> (tokio::process::Child, ChildStdin, ChildStdout) {
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .arg("serve")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, stdin, stdout)
}

async fn raw(size: usize, rounds: usize) -> Figures {
    let (_child, mut stdin, stdout) = start();
    let mut stdout = BufReader::new(stdout);
    let mut line = Vec::new();
    let mut samples = Vec::with_capacity(rounds);
    for id in 0..rounds {
        let began = Instant::now();
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": "echo", "arguments": {"size": size}}});
        stdin.write_all(format!("{call}\n").as_bytes()).await.unwrap();
        line.clear();
        stdout.read_until(b'\n', &mut line).await.unwrap();
        let answer: Value = serde_json::from_slice(&line).unwrap();
        assert_eq!(answer["id"], id);
        samples.push(began.elapsed());
    }
    figures(samples)
}

async fn rmcp_alone(size: usize, rounds: usize) -> Figures {
    let (_child, stdin, stdout) = start();
    let client = ().serve((stdout, stdin)).await.unwrap();
    let mut samples = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let began = Instant::now();
        let arguments = json!({"size": size}).as_object().cloned().unwrap();
        let call = CallToolRequestParams::new("echo").with_arguments(arguments);
        client.call_tool(call).await.unwrap();
        samples.push(began.elapsed());
    }
    figures(samples)
}

async fn host(size: usize, rounds: usize) -> Figures {
    let host = deck(1).await;
    let mut samples = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let began = Instant::now();
        host.call_tool("s0.echo", json!({"size": size})).await.unwrap();
        samples.push(began.elapsed());
    }
    host.shutdown().await;
    figures(samples)
}

async fn at_once(many: usize) -> f64 {
    let host = deck(10).await;
    let total = many.max(5_000);
    let began = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    let mut next = 0;
    let mut done = 0;
    while done < total {
        while next < total && calls.len() < many {
            let host = host.clone();
            let tool = format!("s{}.echo", next % 10);
            calls.spawn(async move { host.call_tool(&tool, json!({"size": SMALL})).await });
            next += 1;
        }
        calls.join_next().await.unwrap().unwrap().unwrap();
        done += 1;
    }
    let rate = total as f64 / began.elapsed().as_secs_f64();
    host.shutdown().await;
    rate
}

async fn rmcp_at_once(many: usize) -> f64 {
    let mut children = Vec::new();
    let mut clients = Vec::new();
    for _ in 0..10 {
        let (child, stdin, stdout) = start();
        children.push(child);
        clients.push(().serve((stdout, stdin)).await.unwrap());
    }
    let total = many.max(5_000);
    let began = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    let mut next = 0;
    for _ in 0..total {
        while next < total && calls.len() < many {
            let peer = clients[next % 10].peer().clone();
            calls.spawn(async move {
                let arguments = json!({"size": SMALL}).as_object().cloned().unwrap();
                peer.call_tool(CallToolRequestParams::new("echo").with_arguments(arguments)).await
            });
            next += 1;
        }
        calls.join_next().await.unwrap().unwrap().unwrap();
    }
    total as f64 / began.elapsed().as_secs_f64()
}

async fn deck(servers: usize) -> Host {
    let mut config = McpConfig::default();
    for n in 0..servers {
        let stdio = StdioConfig {
            command: std::env::current_exe().unwrap().to_string_lossy().into_owned(),
            args: vec!["serve".into()],
            env: indexmap::IndexMap::default(),
            cwd: None,
            inherit_env: false,
            limits: mcpdeck::config::ProcessLimits::default(),
        };
        let name = ServerName::new(&format!("s{n}"));
        let mut entry = ServerConfig::new(name.clone(), TransportConfig::Stdio(stdio));
        entry.guard.default = GuardMode::Warn;
        config.servers.insert(name, entry);
    }
    Host::builder().config(config).startup(Startup::All).initialize().await.unwrap()
}

fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0
}

/// The server: one tool that answers with as many characters as it is asked for.
fn serve() {
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        let Some(id) = message.get("id") else { continue };
        let answer = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({"jsonrpc": "2.0", "id": id, "result": {
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "bench", "version": "1"}}}),
            "tools/list" => json!({"jsonrpc": "2.0", "id": id, "result": {"tools": [{
                "name": "echo", "description": "Answers with text.",
                "inputSchema": {"type": "object", "required": ["size"],
                    "properties": {"size": {"type": "integer", "minimum": 0}}}}]}}),
            "tools/call" => {
                let size = message["params"]["arguments"]["size"].as_u64().unwrap_or_default();
                let text = "x".repeat(size as usize);
                json!({"jsonrpc": "2.0", "id": id, "result": {
                    "content": [{"type": "text", "text": text}], "isError": false}})
            }
            _ => json!({"jsonrpc": "2.0", "id": id,
                "error": {"code": -32601, "message": "Method not found"}}),
        };
        if writeln!(out, "{answer}").and_then(|()| out.flush()).is_err() {
            return;
        }
    }
}
