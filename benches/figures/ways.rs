//! The three ways to call, and the echo server they call, which is also this program.

use std::io::{BufRead, Write};
use std::process::Stdio;

use mcpdeck::base::secret::Secret;
use mcpdeck::config::{McpConfig, ServerConfig, StdioConfig, TransportConfig};
use mcpdeck::{Host, Startup};
use rmcp::model::CallToolRequestParams;
use rmcp::service::{RunningService, ServiceExt};
use rmcp::{ClientHandler, RoleClient};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::place::Place;

/// Environment variable that makes this program the echo server.
pub const SERVER: &str = "MCPDECK_BENCH_SERVER";
/// Environment variable with the placement of the echo server.
pub const PLACE: &str = "MCPDECK_BENCH_PLACE";
/// Size of the big result in bytes.
pub const BIG: usize = 1 << 20;

/// Answers every line as fast as possible, without a parser.
pub fn echo_server() {
    Place::take_as_server(&std::env::var(PLACE).unwrap_or_default());
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

/// Starts the echo server: the process and its pipes.
pub fn spawn(place: Place) -> (Child, ChildStdin, ChildStdout) {
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap())
        .env(SERVER, "bench-1")
        .env(PLACE, place.word())
        .env(crate::place::ALL, crate::place::all())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    (child, stdin, stdout)
}

/// (a) Lines over the pipe, parsed once.
pub struct Raw {
    _child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: u64,
}

impl Raw {
    pub fn start(place: Place) -> Self {
        let (child, stdin, stdout) = spawn(place);
        Self { _child: child, stdin, stdout: BufReader::new(stdout), id: 0 }
    }

    /// Returns the length of the answer's text, as all ways do.
    pub async fn call(&mut self, arguments: &Value) -> usize {
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
pub struct Rmcp {
    _child: Child,
    service: RunningService<RoleClient, Nothing>,
}

impl Rmcp {
    pub async fn start(place: Place) -> Self {
        let (child, stdin, stdout) = spawn(place);
        Self { _child: child, service: Nothing.serve((stdout, stdin)).await.unwrap() }
    }

    pub async fn call(&self, arguments: &Value) -> usize {
        let arguments = arguments.as_object().unwrap().clone();
        let params = CallToolRequestParams::new("echo").with_arguments(arguments);
        let result = self.service.peer().call_tool(params).await.unwrap();
        result.content[0].as_text().unwrap().text.len()
    }
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

/// (c) The whole host.
pub struct Deck(pub Host);

impl Deck {
    pub async fn start(servers: usize, place: Place) -> Self {
        let env =
            [(SERVER, "bench-1"), (PLACE, place.word()), (crate::place::ALL, &crate::place::all())];
        let stdio = StdioConfig {
            command: std::env::current_exe().unwrap().to_string_lossy().into_owned(),
            args: Vec::new(),
            env: env.map(|(name, value)| (name.to_owned(), Secret::new(value))).into(),
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
        let host = Host::builder().config(config).startup(Startup::All).initialize();
        Self(host.await.unwrap())
    }

    pub async fn call(&self, server: usize, arguments: &Value) -> usize {
        let outcome = self.0.call_tool(NAMES[server], arguments.clone()).await.unwrap();
        outcome.result["content"][0]["text"].as_str().unwrap().len()
    }
}
