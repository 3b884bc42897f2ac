//! What a call costs: one small call and one 1 MB result through (a) a raw pipe, (b) rmcp alone
//! with its own transport, (c) [`Host::call_tool`] with everything on, all in one run on a
//! current-thread runtime against the same echo server, printed as times and ratios.
//!
//! `cargo bench --bench call`; the goals are c/b at most 1.2 for a small call, at most 1.0 for
//! 1 MB, and c under 0.1 ms for a small call. The ways take turns in rounds, and the median of the
//! rounds counts, so that a noisy machine disturbs all of them alike. Then 50 and 1,000 calls at once
//! over ten servers, and what the host's memory is with ten idle ones. `-- host` repeats small calls
//! of (c) alone for a while, and `-- rmcp` those of (b), for a profiler.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot go on should say where")]

use std::io::{BufRead, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use indexmap::IndexMap;
use mcpdeck::config::{McpConfig, ServerConfig, StdioConfig, TransportConfig};
use mcpdeck::secret::Secret;
use mcpdeck::{Host, Startup};
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RunningService, ServiceExt};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// Set in the environment of the echo server, which is this program again.
const SERVER: &str = "MCPDECK_BENCH_SERVER";
const ROUNDS: usize = 9;
const BIG: usize = 1 << 20;

fn main() {
    if std::env::var_os(SERVER).is_some() {
        return echo_server();
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(bench());
}

/// Answers every line as fast as it can, without a parser.
fn echo_server() {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let big = "x".repeat(BIG);
    let mut line = String::new();
    while input.read_line(&mut line).is_ok_and(|read| read > 0) {
        let answer = match (field(&line, "\"id\":"), field(&line, "\"method\":\"")) {
            (Some(id), Some("initialize")) => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"1"}}}}}}"#
            ),
            (Some(id), Some("tools/list")) => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{{"name":"echo","inputSchema":{{"type":"object","properties":{{"text":{{"type":"string"}},"big":{{"type":"boolean"}}}},"required":["text"]}}}}]}}}}"#
            ),
            (Some(id), Some("tools/call")) => {
                let text = if line.contains("\"big\":true") { &big } else { "hello" };
                format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{text}"}}],"isError":false}}}}"#
                )
            }
            (Some(id), Some(_)) => format!(
                r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"unknown"}}}}"#
            ),
            _ => String::new(),
        };
        if !answer.is_empty() {
            output.write_all(answer.as_bytes()).unwrap();
            output.write_all(b"\n").unwrap();
            output.flush().unwrap();
        }
        line.clear();
    }
}

/// The text between `key` and the next quote, comma or brace.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let from = line.find(key)? + key.len();
    let rest = &line[from..];
    rest.find(['"', ',', '}']).map(|end| &rest[..end])
}

fn spawn() -> (Child, ChildStdin, ChildStdout) {
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .env(SERVER, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, stdin, stdout)
}

/// (a) Lines over the pipe, parsed once.
struct Raw {
    _child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: u64,
}

impl Raw {
    async fn call(&mut self, arguments: &Value) -> usize {
        self.id += 1;
        let params = json!({"name": "echo", "arguments": arguments});
        let call =
            json!({"jsonrpc": "2.0", "id": self.id, "method": "tools/call", "params": params});
        let mut line = serde_json::to_vec(&call).unwrap();
        line.push(b'\n');
        self.stdin.write_all(&line).await.unwrap();
        let mut answer = Vec::new();
        self.stdout.read_until(b'\n', &mut answer).await.unwrap();
        let value: Value = serde_json::from_slice(&answer).unwrap();
        value["result"]["content"][0]["text"].as_str().unwrap().len()
    }
}

struct Nothing;

impl ClientHandler for Nothing {}

/// (b) rmcp with its own transport.
async fn rmcp_call(service: &RunningService<RoleClient, Nothing>, arguments: &Value) -> usize {
    let arguments = arguments.as_object().unwrap().clone();
    let params = CallToolRequestParams::new("echo").with_arguments(arguments);
    let result = service.peer().call_tool(params).await.unwrap();
    result.content[0].as_text().unwrap().text.len()
}

/// (c) The whole host.
async fn host_call(host: &Host, server: usize, arguments: &Value) -> usize {
    let outcome = host.call_tool(NAMES[server], arguments.clone()).await.unwrap();
    outcome.result["content"][0]["text"].as_str().unwrap().len()
}

const NAMES: [&str; 10] = [
    "echo0.echo",
    "echo1.echo",
    "echo2.echo",
    "echo3.echo",
    "echo4.echo",
    "echo5.echo",
    "echo6.echo",
    "echo7.echo",
    "echo8.echo",
    "echo9.echo",
];

async fn start_host(servers: usize) -> Host {
    let stdio = StdioConfig {
        command: std::env::current_exe().unwrap().to_string_lossy().into_owned(),
        args: Vec::new(),
        env: IndexMap::from([(SERVER.to_owned(), Secret::new("bench-1"))]),
        cwd: None,
        inherit_env: false,
        limits: mcpdeck::config::ProcessLimits::default(),
    };
    let mut config = McpConfig::default();
    for n in 0..servers {
        let transport = TransportConfig::Stdio(stdio.clone());
        let server = ServerConfig::new(format!("echo{n}").as_str().into(), transport);
        config.servers.insert(server.name.clone(), server);
    }
    Host::builder().config(config).startup(Startup::All).initialize().await.unwrap()
}

/// Times `$calls` calls one after the other; gives the median of one.
macro_rules! time {
    ($calls:expr, $length:expr, $call:expr) => {{
        let mut times = Vec::with_capacity($calls);
        for _ in 0..$calls {
            let began = Instant::now();
            let length = $call.await;
            times.push(began.elapsed());
            assert_eq!(length, $length);
        }
        times.sort();
        times[times.len() / 2]
    }};
}

/// Resident memory of this process in MB; 0 where the system does not tell.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0 / 1e6
}

async fn bench() {
    let idle = start_host(10).await;
    println!("host with ten idle servers: {:.1} MB resident", resident());
    idle.shutdown().await;
    let (child, stdin, stdout) = spawn();
    let mut raw = Raw { _child: child, stdin, stdout: BufReader::new(stdout), id: 0 };
    let (_child, stdin, stdout) = spawn();
    let service = Nothing.serve((stdout, stdin)).await.unwrap();
    let host = start_host(1).await;
    let small = json!({"text": "hello", "big": false});
    if let Some(alone) = std::env::args().find(|arg| arg == "host" || arg == "rmcp") {
        let took = if alone == "host" {
            time!(100_000, 5, host_call(&host, 0, &small))
        } else {
            time!(100_000, 5, rmcp_call(&service, &small))
        };
        println!("{alone} alone: {took:?}");
        return;
    }
    println!("median of {ROUNDS} rounds      (a) raw     (b) rmcp   (c) host     c/b    c/a");
    for (name, big, calls) in [("small call", false, 2000), ("1 MB result", true, 60)] {
        let arguments = json!({"text": "hello", "big": big});
        let length = if big { BIG } else { 5 };
        let mut medians: [Vec<Duration>; 3] = Default::default();
        for round in 0..=ROUNDS {
            let took = [
                time!(calls, length, raw.call(&arguments)),
                time!(calls, length, rmcp_call(&service, &arguments)),
                time!(calls, length, host_call(&host, 0, &arguments)),
            ];
            // The first round warms up.
            if round > 0 {
                for (all, took) in medians.iter_mut().zip(took) {
                    all.push(took);
                }
            }
        }
        let [a, b, c] = medians.map(|mut all| {
            all.sort();
            all[all.len() / 2].as_secs_f64() * 1e6
        });
        println!("{name:<14} {a:>9.1} us {b:>9.1} us {c:>9.1} us   {:>5.2}  {:>5.2}", c / b, c / a);
    }
    host.shutdown().await;
    throughput().await;
}

/// Many small calls at once over ten servers.
async fn throughput() {
    const CALLS: usize = 5000;
    const SERVERS: usize = 10;
    let arguments = json!({"text": "hello", "big": false});
    let mut services = Vec::new();
    let mut children = Vec::new();
    for _ in 0..SERVERS {
        let (child, stdin, stdout) = spawn();
        children.push(child);
        services.push(Nothing.serve((stdout, stdin)).await.unwrap());
    }
    let host = start_host(SERVERS).await;
    for at_once in [50, 1000] {
        let mut rates = [0.0; 2];
        for _ in 0..3 {
            let began = Instant::now();
            many(at_once, CALLS, |n| rmcp_call(&services[n % SERVERS], &arguments)).await;
            rates[0] = f64::max(rates[0], CALLS as f64 / began.elapsed().as_secs_f64());
            let began = Instant::now();
            many(at_once, CALLS, |n| host_call(&host, n % SERVERS, &arguments)).await;
            rates[1] = f64::max(rates[1], CALLS as f64 / began.elapsed().as_secs_f64());
        }
        println!(
            "{at_once} at once over {SERVERS} servers: rmcp {:.0} calls/s, host {:.0} calls/s ({:.2})",
            rates[0],
            rates[1],
            rates[1] / rates[0]
        );
    }
}

async fn many<F: Future<Output = usize>>(at_once: usize, calls: usize, call: impl Fn(usize) -> F) {
    use futures::StreamExt;
    let answered = futures::stream::iter((0..calls).map(call))
        .buffer_unordered(at_once)
        .fold(0, |sum, length| async move { sum + length })
        .await;
    assert_eq!(answered, calls * 5);
}
