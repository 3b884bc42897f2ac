//! The cost of the chat, with a local model that answers at once:
//!
//! - the first token through `mcpdeck serve --chat` and directly from the model, alternating in each of
//!   five runs, over Chat Completions and over Ollama's own API: p50 and p99 of both and of what is
//!   added, the ratio of the medians, and the spread of the runs; once without tools and once with 60
//!   of them; the goals are less than 2 ms added at p50 and 4 at p99;
//! - the memory that a session with its connection takes in the service, after two heartbeats: of 100
//!   and of 1,000; the goal is less than 12 kB each;
//! - the dashboard while a model writes 500 tokens per second: latency from a key press to the
//!   screen; the goal is a p99 below 50 ms.
//!
//! `cargo bench --bench figures -- chat`; the words `token`, `sessions` and `screen`
//! select one of them, and `quick` shortens each.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::report::{Figure, Goal, at};

/// Numbers of sessions for the memory measurement.
const SESSIONS: [usize; 2] = [100, 1_000];
/// Number of turns in each run of the first-token measurement.
const TURNS: usize = 100;
/// Number of tools of the run with tools: what a person with some servers has.
const TOOLS: usize = 60;
/// Number of its runs.
const RUNS: usize = 5;
/// Time between two tokens on the screen.
const PACE: Duration = Duration::from_millis(2);
/// Number of key presses measured.
const KEYS: usize = 300;

/// Measures what the words name, or all.
pub fn measure(words: &[String]) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let quick = words.iter().any(|word| word == "quick");
    let wanted: Vec<_> = words.iter().filter(|word| *word != "quick").collect();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|word| *word == name);
    let less = if quick { 10 } else { 1 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    if wants("token") {
        for (route, tools) in [
            (Route::Completions, 0),
            (Route::Completions, TOOLS),
            (Route::Ollama, 0),
            (Route::Ollama, TOOLS),
        ] {
            runtime.block_on(first_token(route, tools, TURNS / less));
        }
    }
    if wants("sessions") {
        for count in SESSIONS {
            runtime.block_on(sessions(count / less, if quick { 1 } else { 2 }));
        }
    }
    if wants("screen") {
        screen::measure(KEYS / less);
    }
}

/// The API of the model.
#[derive(Clone, Copy)]
enum Route {
    /// `OpenAI`'s Chat Completions.
    Completions,
    /// Ollama's own.
    Ollama,
}

impl Route {
    /// The name of the provider.
    const fn provider(self) -> &'static str {
        match self {
            Self::Completions => "openai",
            Self::Ollama => "ollama",
        }
    }

    /// The path of a request below the address.
    const fn path(self) -> &'static str {
        match self {
            Self::Completions => "/v1/chat/completions",
            Self::Ollama => "/api/chat",
        }
    }
}

/// Starts a model server with both APIs that sends a token every `pace`; returns its URL.
fn model(pace: Duration, tokens: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream, pace, tokens));
        }
    });
    url
}

fn answer(mut stream: TcpStream, pace: Duration, tokens: usize) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    loop {
        let mut length = 0;
        let mut first = String::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).ok()? == 0 {
                return None;
            }
            let line = line.trim().to_lowercase();
            if first.is_empty() {
                first.clone_from(&line);
            }
            if let Some(value) = line.strip_prefix("content-length: ") {
                length = value.parse().ok()?;
            }
            if line.is_empty() {
                break;
            }
        }
        reader.read_exact(&mut vec![0; length]).ok()?;
        if !first.contains("/chat") {
            // What the model takes.
            let about = json!({"capabilities": ["completion", "tools"], "data": [],
                "model_info": {"llama.context_length": 131_072}});
            let about = about.to_string();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", about.len());
            stream.write_all((head + &about).as_bytes()).ok()?;
            continue;
        }
        let is_ollama = first.contains("/api/chat");
        let kind = if is_ollama { "application/x-ndjson" } else { "text/event-stream" };
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).ok()?;
        let mut due = Instant::now();
        for n in 0..tokens {
            let word = if n % 12 == 11 { "word\n\n" } else { "word " };
            let choice = json!({"index": 0, "delta": {"content": word}, "finish_reason": null});
            let message = json!({"role": "assistant", "content": word});
            let event = if is_ollama {
                format!("{}\n", json!({"message": message, "done": false}))
            } else {
                format!("data: {}\n\n", json!({"choices": [choice]}))
            };
            chunk(&mut stream, &event)?;
            due += pace;
            std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
        }
        let choice = json!({"index": 0, "delta": {}, "finish_reason": "stop"});
        let message = json!({"role": "assistant", "content": ""});
        let event = if is_ollama {
            let last = json!({"message": message, "done": true, "done_reason": "stop"});
            format!("{last}\n")
        } else {
            format!("data: {}\n\n", json!({"choices": [choice]}))
        };
        chunk(&mut stream, &event)?;
        stream.write_all(b"0\r\n\r\n").ok()?;
    }
}

fn chunk(stream: &mut TcpStream, event: &str) -> Option<()> {
    stream.write_all(format!("{:x}\r\n{event}\r\n", event.len()).as_bytes()).ok()
}

/// The service with a chat, in a temporary folder.
struct Service {
    program: Child,
    _stdout: BufReader<ChildStdout>,
    address: String,
    token: String,
    _folder: tempfile::TempDir,
}

impl Service {
    fn start(model: &str, route: Route, tools: usize) -> Self {
        let address = match route {
            Route::Completions => format!("{model}/v1"),
            Route::Ollama => model.to_owned(),
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mcp.json");
        let script = json!({"tools": (0..tools).map(tool).collect::<Vec<_>>()}).to_string();
        let server = json!({
            "command": crate::pty::program(), "args": ["mock", "--script", script],
        });
        std::fs::write(&file, json!({"servers": {"idle": server}}).to_string()).unwrap();
        let mut program = Command::new(crate::pty::program())
            .args(["serve", "--listen", "127.0.0.1:0", "--chat", "--provider", route.provider()])
            .args(["--base-url", &address, "--config"])
            .arg(&file)
            .env("HOME", folder.path())
            .env("XDG_STATE_HOME", folder.path())
            .env("XDG_CONFIG_HOME", folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(program.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        let token = std::fs::read_to_string(event["tokenFile"].as_str().unwrap()).unwrap();
        let address = event["url"].as_str().unwrap().trim_start_matches("http://").to_owned();
        let token = token.trim().to_owned();
        Self { program, _stdout: stdout, address, token, _folder: folder }
    }

    async fn connect(&self) -> Client {
        let stream = tokio::net::TcpStream::connect(&self.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let url = format!("ws://{}/ws", self.address);
        let small = WebSocketConfig::default().read_buffer_size(4 << 10);
        let opening = tokio_tungstenite::client_async_with_config(url, stream, Some(small));
        let mut client = Client(opening.await.unwrap().0);
        client.send(json!({"type": "auth", "token": self.token})).await;
        client.until("connection").await;
        client
    }

    /// Resident memory of the service in kilobytes; 0 where it is unavailable.
    fn resident(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.program.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
        line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).unwrap_or(0.0)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// A tool with a schema of the usual size, about 1 kB.
fn tool(number: usize) -> Value {
    let field = |n: usize| {
        let about = json!({"type": "string", "description": "what this parameter is there for"});
        (format!("parameter_{n}"), about)
    };
    let fields: serde_json::Map<String, Value> = (0..10).map(field).collect();
    json!({
        "name": format!("tool_{number}"),
        "description": "Does one thing, and says here in some words when to call it. ".repeat(3),
        "inputSchema": {"type": "object", "properties": fields, "required": ["parameter_0"]},
    })
}

struct Client(WebSocketStream<tokio::net::TcpStream>);

impl Client {
    async fn send(&mut self, message: Value) {
        self.0.send(Frame::Text(message.to_string().into())).await.unwrap();
    }

    /// Reads up to the first message of a type.
    async fn until(&mut self, kind: &str) {
        loop {
            let Frame::Text(text) = self.0.next().await.unwrap().unwrap() else { continue };
            let value: Value = serde_json::from_str(&text).unwrap();
            if value["type"] == kind {
                return;
            }
        }
    }
}

fn ms(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}

async fn first_token(route: Route, tools: usize, turns: usize) {
    let url = model(Duration::ZERO, 8);
    let service = Service::start(&url, route, tools);
    let http = reqwest::Client::new();
    // The model alone is sent as much as we send it.
    let offered = (0..tools).map(|n| json!({"type": "function", "function": tool(n)}));
    let offered: Vec<Value> = offered.collect();
    let body = json!({"model": "m", "stream": true, "tools": offered, "messages": [
        {"role": "system", "content": "word ".repeat(100)}, {"role": "user", "content": "hi"},
    ]});
    let (mut direct, mut through, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let (mut ratios, mut slowest) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        // A new connection for each run stays below the limit of messages in a minute.
        let mut client = service.connect().await;
        let begins = direct.len();
        // The first turns of all are a warm-up: connections are opened and code is paged in.
        let warm_up = if run == 0 { 10 } else { 1 };
        for turn in 0..turns + warm_up {
            let begun = Instant::now();
            let request = http.post(format!("{url}{}", route.path())).json(&body);
            let mut answer = request.send().await.unwrap();
            answer.chunk().await.unwrap().unwrap();
            let alone = ms(begun);
            while answer.chunk().await.unwrap().is_some() {}
            let begun = Instant::now();
            client.send(json!({"type": "message", "text": "hi"})).await;
            client.until("text").await;
            let with_us = ms(begun);
            client.until("done").await;
            if turn >= warm_up {
                direct.push(alone);
                through.push(with_us);
                added.push(with_us - alone);
            }
        }
        let (mut alone, mut with_us) = (direct[begins..].to_vec(), through[begins..].to_vec());
        ratios.push((at(&mut with_us, 0.5), at(&mut alone, 0.5)));
        slowest.push(at(&mut added[begins..].to_vec(), 0.99));
    }
    let name = format!("{}, {tools} tools", route.provider());
    println!("first token, {name}, {RUNS} runs of {turns} turns, p50 and p99 in ms");
    for (what, times) in [
        ("the model directly", &mut direct),
        ("through serve --chat", &mut through),
        ("added", &mut added),
    ] {
        println!("  {what:22} {:7.2} {:7.2}", at(times, 0.5), at(times, 0.99));
    }
    let mut ratio: Vec<f64> = ratios.iter().map(|(with_us, alone)| with_us / alone).collect();
    let mut more: Vec<f64> = ratios.iter().map(|(with_us, alone)| with_us - alone).collect();
    let what = format!("chat, first token, {name}");
    let goal = Goal::Open;
    Figure { what: &what, against: "the model alone", unit: "", goal }.state(&mut ratio);
    let what = format!("chat, added to the first token, {name}");
    let goal = Goal::AtMost(2.0);
    Figure { what: &what, against: "", unit: "ms", goal }.state(&mut more);
    let what = format!("chat, added to the first token, p99, {name}");
    let goal = Goal::AtMost(4.0);
    Figure { what: &what, against: "", unit: "ms", goal }.state(&mut slowest);
}

async fn sessions(count: usize, beats: u64) {
    let service = Service::start(&model(Duration::ZERO, 8), Route::Completions, 0);
    // The one-time cost of the first connection is not counted.
    let mut first = service.connect().await;
    first.send(json!({"type": "message", "text": "hi"})).await;
    first.until("done").await;
    let before = service.resident();
    let mut readers = Vec::new();
    for _ in 1..count {
        let mut client = service.connect().await;
        readers.push(tokio::spawn(async move {
            let mut pings = 0;
            while let Some(Ok(frame)) = client.0.next().await {
                pings += u64::from(frame.is_ping());
                if pings == beats + 1 {
                    return Some(client);
                }
            }
            None
        }));
    }
    let opened = service.resident();
    // The first ping is sent on connecting, the others every 15 s.
    let mut alive = Vec::new();
    for reader in readers {
        alive.extend(reader.await.unwrap());
    }
    let (each, then) =
        ((opened - before) / count as f64, (service.resident() - before) / count as f64);
    println!(
        "{} of {count} sessions there after {beats} heartbeats; memory of the service: {each:.1} kB \
         each when opened, {then:.1} kB then (without sessions {before} kB)",
        alive.len() + 1,
    );
    let what = format!("chat, each of {count} idle sessions");
    Figure { what: &what, against: "", unit: "kB", goal: Goal::AtMost(12.0) }.state(&mut [then]);
}

mod screen {
    use super::{Duration, Instant, PACE, at, json, model, ms};
    use crate::pty::{Launch, PATIENCE, Size, own_server};

    /// Letters that neither occur in the model's text nor end a terminal escape sequence.
    const SIGNS: [&str; 6] = ["Q", "W", "Y", "V", "U", "N"];

    /// Measures key press to screen, while idle and while a model writes.
    pub(super) fn measure(keys: usize) {
        let url = format!("{}/v1", model(PACE, 200_000));
        let chat = json!({"chat": {"provider": "openai", "baseUrl": url, "model": "fast"}});
        let file = format!("{{\"servers\": {{{}}}}}", own_server("one", &["demo-server", "atlas"]));
        let launch =
            Launch::file(Size::WIDE, &file).write("config/settings.json", &chat.to_string());
        let mut deck = launch.start();
        deck.wait("1 ready");
        deck.keys("C");
        deck.wait("Write a message");
        let key = |deck: &mut crate::pty::Deck, n: usize| {
            let sign = SIGNS[n % SIGNS.len()];
            let begun = Instant::now();
            let place = deck.written();
            deck.bytes(sign);
            while !deck.raw_since(place).contains(sign) {
                assert!(begun.elapsed() < PATIENCE, "never: {sign}\n{}", deck.screen());
                std::thread::park_timeout(Duration::from_micros(200));
            }
            let took = ms(begun);
            std::thread::park_timeout(Duration::from_millis(20));
            took
        };
        let mut idle: Vec<f64> = (0..keys).map(|n| key(&mut deck, n)).collect();
        deck.keys("\r");
        deck.wait("word");
        let (began, place) = (Instant::now(), deck.written());
        let mut busy: Vec<f64> = (0..keys).map(|n| key(&mut deck, n)).collect();
        let raw = deck.raw_since(place);
        let frames = raw.matches("\x1b[?2026l").count() as f64 / began.elapsed().as_secs_f64();
        println!("from a key to the screen of 120x40, {keys} keys, p50 and p99 in ms");
        println!(
            "  nothing is written      {:7.2} {:7.2}",
            at(&mut idle, 0.5),
            at(&mut idle, 0.99)
        );
        println!(
            "  500 tokens a second     {:7.2} {:7.2}",
            at(&mut busy, 0.5),
            at(&mut busy, 0.99)
        );
        println!("  {frames:.0} frames a second");
        deck.kill_and_keep();
    }
}
