//! The cost of a small call over Streamable HTTP: through (a) only an HTTP client, (b) plain rmcp
//! over the same kind of client, (c) `Host::call_tool` with all features; all in one run on a
//! current-thread runtime, over keep-alive connections, against one server in its own process.
//!
//! `cargo bench --bench figures -- http`; the goal is c/b at most 1.1 at p50. The ways alternate in short
//! blocks; the result is the median of the ratios of the blocks.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use mcpdeck::config::{HttpConfig, McpConfig, ServerConfig, TransportConfig};
use mcpdeck::{Host, Startup};
use rmcp::ServiceExt;
use rmcp::model::CallToolRequestParams;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use serde_json::{Value, json};

use crate::report::{Figure, Goal, at};

/// Environment variable that makes this program the server.
pub const SERVER: &str = "MCPDECK_BENCH_HTTP_SERVER";
/// Number of blocks per way.
const BLOCKS: usize = 100;
/// Number of calls per block.
const CALLS: usize = 50;

/// Measures the three ways.
pub fn measure(_words: &[String]) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (child, url) = start();
    runtime.block_on(bench(&url));
    drop(child);
}

/// The server process; killed on drop.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start() -> (Server, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .env(SERVER, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut port = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
    (Server(child), format!("http://127.0.0.1:{}/mcp", port.trim()))
}

fn client() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().build().unwrap()
}

async fn bench(url: &str) {
    let raw = client();
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let transport = StreamableHttpClientTransport::with_client(client(), config);
    let service = ().serve(transport).await.unwrap();
    let http = TransportConfig::Http(HttpConfig::new(url.parse().unwrap()));
    let mut config = McpConfig::default();
    config.servers.insert("web".into(), ServerConfig::new("web".into(), http));
    let host = Host::builder().config(config).startup(Startup::All).initialize().await.unwrap();

    let arguments = json!({"text": "hello"});
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut ratios = [Vec::new(), Vec::new()];
    for block in 0..=BLOCKS {
        let mut middle = [0.0; 3];
        for turn in 0..3 {
            let way = (block + turn) % 3;
            let mut took = Vec::with_capacity(CALLS);
            for id in 0..CALLS {
                let began = Instant::now();
                let length = match way {
                    0 => by_client(&raw, url, id, &arguments).await,
                    1 => {
                        let arguments = arguments.as_object().unwrap().clone();
                        let call = CallToolRequestParams::new("echo").with_arguments(arguments);
                        let result = service.peer().call_tool(call).await.unwrap();
                        result.content[0].as_text().unwrap().text.len()
                    }
                    _ => text(&host.call_tool("web.echo", arguments.clone()).await.unwrap().result),
                };
                took.push(began.elapsed().as_secs_f64() * 1e6);
                assert_eq!(length, 5);
            }
            middle[way] = at(&mut took, 0.5);
            // The first block warms up.
            if block > 0 {
                times[way].extend(took);
            }
        }
        if block > 0 {
            ratios[0].push(middle[2] / middle[1]);
            ratios[1].push(middle[2] / middle[0]);
        }
    }
    for (name, times) in ["(a) client", "(b) rmcp", "(c) host"].into_iter().zip(&mut times) {
        println!("{name:<11} p50 {:>7.1} us   p99 {:>7.1} us", at(times, 0.5), at(times, 0.99));
    }
    let [mut rmcp, mut raw] = ratios;
    let goal = Goal::AtMost(1.1);
    Figure { what: "small call over HTTP", against: "rmcp", unit: "", goal }.state(&mut rmcp);
    let goal = Goal::Open;
    Figure { what: "small call over HTTP", against: "a client alone", unit: "", goal }
        .state(&mut raw);
    host.shutdown().await;
}

async fn by_client(client: &reqwest::Client, url: &str, id: usize, arguments: &Value) -> usize {
    let params = json!({"name": "echo", "arguments": arguments});
    let body = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
    let request = client.post(url).header("accept", "application/json, text/event-stream");
    let answer: Value = request.json(&body).send().await.unwrap().json().await.unwrap();
    text(&answer["result"])
}

fn text(result: &Value) -> usize {
    result["content"][0]["text"].as_str().unwrap().len()
}

/// Answers requests as fast as possible, without a parser; one thread per connection.
pub fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    for stream in listener.incoming() {
        std::thread::spawn(move || converse(&stream.unwrap()));
    }
}

fn converse(mut stream: &TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut length, mut is_post) = (String::new(), 0, false);
        while reader.read_line(&mut line).ok()? > 0 && line != "\r\n" {
            is_post |= line.starts_with("POST ");
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            line.clear();
        }
        if line.is_empty() {
            return None;
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let answer = if is_post { answer(std::str::from_utf8(&body).ok()?) } else { None };
        let response = match answer {
            Some(answer) => format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{answer}",
                answer.len()
            ),
            None if is_post => "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_owned(),
            None => "HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n".to_owned(),
        };
        stream.write_all(response.as_bytes()).ok()?;
    }
}

/// The answer to a message; `None` for a notification.
fn answer(message: &str) -> Option<String> {
    let id = field(message, "\"id\":")?;
    let outcome = match field(message, "\"method\":\"")? {
        "initialize" => {
            r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"echo","version":"1"}}"#
        }
        "tools/list" => {
            r#""result":{"tools":[{"name":"echo","inputSchema":{"type":"object","properties":{"text":{"type":"string"}}}}]}"#
        }
        "tools/call" => r#""result":{"content":[{"type":"text","text":"hello"}],"isError":false}"#,
        _ => r#""error":{"code":-32601,"message":"unknown"}"#,
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},{outcome}}}"#))
}

/// The text between `key` and the next quote, comma or brace.
fn field<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = &line[line.find(key)? + key.len()..];
    rest.find(['"', ',', '}']).map(|end| &rest[..end])
}
