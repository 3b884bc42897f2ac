//! The cost of `mcpdeck serve`, with one echo server behind it over a pipe.
//!
//! `cargo bench --bench figures -- gateway` prints, in one run: the time of a small call through the
//! service against the same call over the pipe and through a bare hop (see `bare`), and its processor
//! time in the service; the memory of the idle service, with 990 idle sessions, and after 10,000 clients
//! opened one and left; and the latency that the service adds to a sleeping server's start. With
//! `MCP_PROXY=PROGRAM`, `mcp-proxy` is measured in the same turns. The goals stand beside the figures.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::place;
use crate::report::{Figure, Goal, at};
use crate::ways::{Raw, SERVER};
use serde_json::{Value, json};

pub mod bare;

/// Number of turns per way.
const TURNS: usize = 60;
/// Number of calls per turn.
const CALLS: usize = 100;
/// Number of rounds of calls at once.
const ROUNDS: usize = 9;
/// Number of sessions left open: slightly below the limit of the service.
const SESSIONS: usize = 990;
/// Number of clients that open a session and leave without closing it.
const LEAVING: usize = 10_000;
/// Number of starts of a sleeping server.
const STARTS: usize = 15;

/// Prints every figure.
pub fn measure(_words: &[String]) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let service = Service::mcpdeck(folder.path(), &json!({}));
        service.open().await;
        println!("idle: {:.1} MB", service.resident() / 1e6);
        calls(&service, folder.path()).await;
        sessions(&service).await;
        drop(service);
        let folder = tempfile::tempdir().unwrap();
        starts(folder.path()).await;
    });
}

/// A running gateway process; terminated on drop.
struct Service {
    child: Child,
    url: String,
    token: String,
    tool: &'static str,
    client: reqwest::Client,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

impl Service {
    fn mcpdeck(folder: &Path, entry: &Value) -> Self {
        let mut server = json!({"command": std::env::current_exe().unwrap(), "env": {SERVER: "1"}});
        server.as_object_mut().unwrap().extend(entry.as_object().unwrap().clone());
        let most = 4_000_000;
        let policy = json!({"limits":
            {"callsPerRun": most, "callsAtOnce": 64, "callsPerMinute": most}});
        let config = json!({"servers": {"echo": server}, "policy": policy});
        let file = folder.join("mcp.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut child = Command::new(crate::pty::program())
            .args(["serve", "--listen", "127.0.0.1:0", "-c"])
            .arg(file)
            .arg("--token-file")
            .arg(folder.join("token"))
            .env("MCPDECK_STATE_DIR", folder.join("state"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        let token = std::fs::read_to_string(event["tokenFile"].as_str().unwrap()).unwrap();
        let url = event["url"].as_str().unwrap().to_owned();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { child, url, token: token.trim().to_owned(), tool: "echo", client }
    }

    /// Starts the least that a hop can be, at `/` and without a token.
    fn bare() -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env(bare::HOP, "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = url.trim().to_owned();
        Self { child, url, token: String::new(), tool: "echo", client }
    }

    /// Starts the peer to compare with, at `/` and without a token.
    async fn peer(program: &str, folder: &Path) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let exe = std::env::current_exe().unwrap();
        let config = format!(
            "[proxy]\nname = \"peer\"\nseparator = \"__\"\n[proxy.listen]\nhost = \"127.0.0.1\"\n\
             port = {port}\n[[backends]]\nname = \"echo\"\ntransport = \"stdio\"\ncommand = \"{}\"\n\
             [backends.env]\n{SERVER} = \"1\"\n[observability]\nlog_level = \"error\"\n",
            exe.display()
        );
        let file = folder.join("proxy.toml");
        std::fs::write(&file, config).unwrap();
        let child = Command::new(program).arg("--config").arg(file).spawn().unwrap();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let url = format!("http://127.0.0.1:{port}");
        let service = Self { child, url, token: String::new(), tool: "echo__echo", client };
        while service.client.get(&service.url).send().await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        service
    }

    fn path(&self) -> String {
        let path = if self.token.is_empty() { "/" } else { "/mcp" };
        format!("{}{path}", self.url)
    }

    /// Posts one message; returns the session id of the response, if any, and the answer.
    async fn post(&self, session: Option<&str>, message: &Value) -> (Option<String>, String) {
        let mut request = self
            .client
            .post(self.path())
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2025-11-25")
            .bearer_auth(&self.token);
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        let answer = request.json(message).send().await.unwrap();
        let session = answer.headers().get("mcp-session-id");
        let session = session.map(|session| session.to_str().unwrap().to_owned());
        (session, answer.text().await.unwrap())
    }

    /// Opens a session; `None` when the service refuses.
    async fn open(&self) -> Option<String> {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"}}});
        let session = self.post(None, &hello).await.0?;
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        self.post(Some(&session), &done).await;
        Some(session)
    }

    async fn call(&self, session: &str, id: usize) {
        let params = json!({"name": self.tool, "arguments": {"text": "hello"}});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let (_, answer) = self.post(Some(session), &call).await;
        assert!(answer.contains("\"hello\""), "{answer}");
    }

    /// Resident memory in bytes.
    fn resident(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        let pages: f64 = text.split(' ').nth(1).unwrap().parse().unwrap();
        pages * rustix::param::page_size() as f64
    }

    /// CPU time in seconds.
    fn processor(&self) -> f64 {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = text.rsplit(") ").next().unwrap().split(' ').collect();
        let ticks: f64 = fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum();
        ticks / rustix::param::clock_ticks_per_second() as f64
    }
}

/// Measures single calls in turns, then 32 concurrent calls.
async fn calls(service: &Service, folder: &Path) {
    let mut pipe = Raw::start(place::Place::Spread);
    let arguments = json!({"text": "hello"});
    let peer = match std::env::var("MCP_PROXY") {
        Ok(program) => Some(Service::peer(&program, folder).await),
        Err(_) => None,
    };
    let bare = Service::bare();
    let mut ways = vec![
        ("mcpdeck", service, service.open().await.unwrap()),
        ("a bare hop", &bare, String::new()),
    ];
    if let Some(peer) = &peer {
        ways.push(("mcp-proxy", peer, peer.open().await.unwrap()));
    }
    let mut times = vec![Vec::new(); ways.len() + 1];
    let mut middles = vec![Vec::new(); ways.len() + 1];
    for turn in 0..=TURNS {
        for step in 0..=ways.len() {
            let way = (turn + step) % (ways.len() + 1);
            let mut took = Vec::with_capacity(CALLS);
            for id in 0..CALLS {
                let began = Instant::now();
                match ways.get(way) {
                    Some((_, service, session)) => service.call(session, id + 1).await,
                    None => drop(pipe.call(&arguments).await),
                }
                took.push(began.elapsed().as_secs_f64() * 1e6);
            }
            // The first turn warms up.
            if turn > 0 {
                middles[way].push(at(&mut took, 0.5));
                times[way].extend(took);
            }
        }
    }
    let names = ways.iter().map(|(name, ..)| *name).chain(["the pipe"]);
    for (name, times) in names.zip(&mut times) {
        println!("{name:<10} p50 {:>6.0} us  p99 {:>6.0} us", at(times, 0.5), at(times, 0.99));
    }
    let (floor, others) = middles.split_last().unwrap();
    let ours = &others[0];
    let what = "gateway, added p50 of one client";
    for ((against, ..), theirs) in ways.iter().zip(others).skip(1) {
        let added = ours.iter().zip(theirs).zip(floor);
        let mut added: Vec<f64> = added.map(|((a, b), c)| (a - c) / (b - c)).collect();
        let goal = if *against == "mcp-proxy" { Goal::AtMost(0.8) } else { Goal::Open };
        Figure { what, against, unit: "", goal }.state(&mut added);
    }
    let mut hop: Vec<f64> = ours.iter().zip(floor).map(|(a, b)| a - b).collect();
    Figure { what, against: "", unit: "us", goal: Goal::Open }.state(&mut hop);
    for (callers, least) in [(1, 3_200.0), (32, 12_000.0)] {
        together(&ways, callers, least).await;
    }
}

/// Calls a second of `callers` at once, by turns, beside client and server.
async fn together(ways: &[(&str, &Service, String)], callers: usize, least: f64) {
    let mut rates = vec![Vec::new(); ways.len()];
    let mut own = rates.clone();
    let calls = if callers == 1 { CALLS * 10 } else { CALLS * 2 };
    for turn in 0..=ROUNDS {
        for step in 0..ways.len() {
            let way = (turn + step) % ways.len();
            let (_, service, session) = &ways[way];
            let (began, spent) = (Instant::now(), service.processor());
            let all = (0..callers).map(|caller| async move {
                for id in 0..calls {
                    service.call(session, caller * calls + id + 1).await;
                }
            });
            futures::future::join_all(all).await;
            // The first round warms up.
            if turn > 0 {
                let count = (callers * calls) as f64;
                rates[way].push(count / began.elapsed().as_secs_f64());
                own[way].push(count / (service.processor() - spent).max(0.01));
            }
        }
    }
    let what = format!("gateway, calls a second, clients: {callers}");
    for (n, (name, ..)) in ways.iter().enumerate().skip(1) {
        let mut ratios: Vec<f64> =
            rates[0].iter().zip(&rates[n]).map(|(ours, theirs)| ours / theirs).collect();
        Figure { what: &what, against: name, unit: "", goal: Goal::Open }.state(&mut ratios);
    }
    Figure { what: &what, against: "", unit: "", goal: Goal::AtLeast(least) }.state(&mut rates[0]);
    let what = format!("gateway, calls a second of its processor time, clients: {callers}");
    Figure { what: &what, against: "", unit: "", goal: Goal::Open }.state(&mut own[0]);
}

async fn sessions(service: &Service) {
    let before = service.resident();
    for _ in 0..SESSIONS {
        service.open().await.unwrap();
    }
    let each = (service.resident() - before) / SESSIONS as f64;
    let what = format!("gateway, each of {SESSIONS} idle sessions");
    Figure { what: &what, against: "", unit: "kB", goal: Goal::AtMost(20.0) }
        .state(&mut [each / 1e3]);
    let mut refused = 0;
    let mut half = 0.0;
    for n in 0..LEAVING {
        if n == LEAVING / 2 {
            half = service.resident();
        }
        refused += usize::from(service.open().await.is_none());
    }
    println!(
        "{LEAVING} clients that leave: {:.1} MB after half of them, {:.1} MB after all; {refused} refused",
        half / 1e6,
        service.resident() / 1e6,
    );
}

/// Compares the first call to a sleeping server with its direct start and first answer.
async fn starts(folder: &Path) {
    let service = Service::mcpdeck(folder, &json!({"start": "onDemand", "idleStop": 0.2}));
    let ask = async |path: &str, body: Option<Value>| {
        let url = format!("{}{path}", service.url);
        let request = match &body {
            Some(body) => service.client.post(url).json(body),
            None => service.client.get(url),
        };
        let answer = request.bearer_auth(&service.token).send().await.unwrap();
        answer.text().await.unwrap()
    };
    let mut late = Vec::new();
    for _ in 0..STARTS {
        let (began, mut pipe) = (Instant::now(), Raw::start(place::Place::Spread));
        pipe.call(&json!({"text": "hello"})).await;
        let alone = began.elapsed();
        drop(pipe);
        while !ask("/servers", None).await.contains("\"sleeping\"") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // Lets the cleanup of leftover processes finish, which a call would have to wait for.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let began = Instant::now();
        let answer = ask("/tools/echo/call", Some(json!({"arguments": {"text": "hello"}}))).await;
        assert!(answer.contains("\"hello\""), "{answer}");
        late.push((began.elapsed().as_secs_f64() - alone.as_secs_f64()) * 1e3);
    }
    let what = "gateway, first answer of a sleeping server, later than alone";
    Figure { what, against: "", unit: "ms", goal: Goal::AtMost(20.0) }.state(&mut late);
}
