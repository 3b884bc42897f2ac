//! Two replicas of `mcpdeck serve --store` as seen by clients, with a real store and a real load
//! balancer, `redis-server` and `haproxy`. Skipped when these are not on PATH, unless
//! `MCPDECK_REQUIRE_STORE` is set.
//!
//! `MCPDECK_CLUSTER_CLIENTS` and `MCPDECK_CLUSTER_SECONDS` make the load larger and longer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::port::free;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures::{SinkExt as _, StreamExt as _};
use mcpdeck::Host;
use mcpdeck::base::{Clock, ServerName};
use mcpdeck::config::Environment;
use mcpdeck::deck::{ChatStore as _, KeptChat, PolicyKeeper};
use mcpdeck::gateway::{ClientTokens, DEFAULT_SCOPES, SharedStore as _, Valkey};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_tungstenite::tungstenite::Message as Frame;

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/deploy");
const PASSWORD: &str = "correct-horse-battery-staple-42";
/// Polling interval.
const LOOK: Duration = Duration::from_millis(20);
/// Timeout for a message of a chat.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval between calls, over all clients together.
const PACE: Duration = Duration::from_millis(15);
/// Limits of the greedy caller: calls per minute, and concurrent calls.
const GREEDY: (f64, usize) = (60.0, 3);

/// Calls of the profile `team` per minute.
const TEAM_CALLS: u32 = 10;
/// Calls of the profile `daily` per day.
const DAILY_CALLS: u32 = 200;

/// Whether the store and the load balancer are installed.
fn is_equipped() -> bool {
    let runs = |program| Command::new(program).arg("-v").output().is_ok();
    let equipped = runs("redis-server") && runs("haproxy");
    assert!(
        equipped || std::env::var_os("MCPDECK_REQUIRE_STORE").is_none(),
        "redis-server and haproxy must be on PATH"
    );
    equipped
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Calls of one caller: in flight, maximum concurrent, and start times.
type Reached = (usize, usize, Vec<Instant>);

/// An HTTP server that both replicas use, which counts its calls.
#[derive(Default)]
struct Upstream {
    /// By caller.
    callers: Mutex<HashMap<String, Reached>>,
    held: watch::Sender<bool>,
    /// The description of its tools.
    words: Mutex<String>,
}

async fn upstream(State(up): State<Arc<Upstream>>, Json(message): Json<Value>) -> Response {
    let params = &message["params"];
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
            "serverInfo": {"name": "counter", "version": "1"},
        }),
        "tools/list" => {
            let words = up.words.lock().clone();
            let tool = |name| json!({"name": name, "description": words, "inputSchema": {"type": "object"}});
            json!({"tools": [tool("count"), tool("hold")]})
        }
        "tools/call" => {
            let who = params["arguments"]["who"].as_str().unwrap_or_default().to_owned();
            {
                let mut callers = up.callers.lock();
                let (now, most, all) = callers.entry(who.clone()).or_default();
                *now += 1;
                *most = (*most).max(*now);
                all.push(Instant::now());
            }
            let mut held = up.held.subscribe();
            if params["name"] == "hold" {
                held.wait_for(|held| !held).await.unwrap();
            } else {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            up.callers.lock().get_mut(&who).unwrap().0 -= 1;
            json!({"content": [{"type": "text", "text": "counted"}], "vendor": {"who": who}})
        }
        _ if message["id"].is_null() => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            return Json(json!({"jsonrpc": "2.0", "id": message["id"], "error": error}))
                .into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result})).into_response()
}

/// A stdio server that requests input during its call, in the legacy and the modern protocol.
const ASKS: &str = r#"{
  "tools": [{"name": "ask", "inputSchema": {"type": "object"}}, {"name": "late", "inputSchema": {"type": "object"}}],
  "calls": {"late": [
    {"delay": 1500},
    {"ask": {"method": "elicitation/create", "as": "it", "params": {
      "message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}}},
    {"text": "late ${saved.it.result.content.name}"}
  ], "ask": [
    {"ask": {"method": "elicitation/create", "as": "first", "params": {
      "message": "Who?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}}},
    {"ask": {"method": "elicitation/create", "as": "second", "params": {
      "message": "And?", "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}}}}},
    {"text": "${saved.first.result.content.name} and ${saved.second.result.content.name}"}
  ]}
}"#;

struct Replica {
    port: u16,
    folder: PathBuf,
    command: Vec<String>,
    running: Mutex<Option<Running>>,
}

impl Replica {
    fn start(&self) {
        let log = self.folder.join("stderr");
        let log = std::fs::File::options().create(true).append(true).open(log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_mcpdeck"))
            .args(&self.command)
            .env("MCPDECK_STATE_DIR", self.state())
            .env("STORE_PASSWORD", PASSWORD)
            .arg("--log-file")
            .arg(self.folder.join("log"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        *self.running.lock() = Some(Running(child.unwrap()));
    }

    /// Kills the replica with SIGKILL.
    fn kill(&self) {
        *self.running.lock() = None;
    }

    fn state(&self) -> PathBuf {
        self.folder.join("state")
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Runs a command of the program on the machine of this replica.
    fn verb(&self, args: &[&str]) -> String {
        let mut verb = Command::new(env!("CARGO_BIN_EXE_mcpdeck"));
        verb.args(args).env("MCPDECK_STATE_DIR", self.state());
        if args[0] == "grants" {
            verb.arg("-c").arg(self.folder.parent().unwrap().join("mcp.json"));
        }
        let out = verb.output().unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }
}

struct World {
    folder: tempfile::TempDir,
    http: reqwest::Client,
    owner: String,
    store_port: u16,
    store: Mutex<Option<Running>>,
    replicas: [Replica; 2],
    up: Arc<Upstream>,
    balancer: (String, Running),
}

/// An answer: status, headers, and the JSON of its body or last event.
struct Answer {
    status: u16,
    headers: reqwest::header::HeaderMap,
    body: Value,
}

impl World {
    async fn open() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::tempdir().unwrap();
        let up = Arc::<Upstream>::default();
        let routes = axum::Router::new().route("/mcp", axum::routing::post(upstream));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = axum::serve(listener, routes.with_state(Arc::clone(&up)));
        tokio::spawn(async move { serving.await });
        std::fs::write(folder.path().join("asks.json"), ASKS).unwrap();
        let exe = env!("CARGO_BIN_EXE_mcpdeck");
        let modern = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/servers/modern.jsonc");
        let config = json!({
            "servers": {
                "up": {"url": format!("http://{address}/mcp")},
                "old": {"command": exe, "args": ["mock", folder.path().join("asks.json")]},
                "new": {"command": exe, "args": ["mock", modern]},
            },
            "policy": {"limits": {"callsPerRun": 1_000_000}, "quotas": [
                {"name": "team", "profiles": "team", "per": ["profile"], "callsPerMinute": TEAM_CALLS},
                {"name": "daily", "profiles": "daily", "per": ["profile"], "callsPerDay": DAILY_CALLS},
            ], "profiles": {
                "team": {"allow": ["*"], "limits": {"callsPerMinute": 6000}},
                "daily": {"allow": ["*"], "limits": {"callsPerMinute": 6000}},
                "worker": {"allow": ["*"], "limits": {"callsPerMinute": 6000, "callsAtOnce": 4, "callsPerRun": 1_000_000}},
                "greedy": {"allow": ["*"], "limits": {"callsPerMinute": GREEDY.0 as u32, "callsAtOnce": GREEDY.1, "callsPerRun": 1_000_000}},
            }},
        });
        std::fs::write(folder.path().join("mcp.json"), config.to_string()).unwrap();
        let owner = "owner-".repeat(8);
        std::fs::write(folder.path().join("token"), &owner).unwrap();
        let private = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        std::fs::set_permissions(folder.path().join("token"), private).unwrap();
        let (store_port, front) = (free(), format!("127.0.0.1:{}", free()));
        let replica = |name: &str| {
            let (port, own) = (free(), folder.path().join(name));
            std::fs::create_dir(&own).unwrap();
            let file = |name: &str| folder.path().join(name).display().to_string();
            let store = format!("redis://:${{env:STORE_PASSWORD}}@127.0.0.1:{store_port}/1");
            let command = [
                "serve",
                "--listen",
                &format!("127.0.0.1:{port}"),
                "--allow-host",
                &front,
                "--store",
                &store,
                "-c",
                &file("mcp.json"),
                "--token-file",
                &file("token"),
                "--chat",
                "--provider",
                "embedded",
            ];
            let command = command.map(str::to_owned).to_vec();
            Replica { port, folder: own, command, running: Mutex::default() }
        };
        let replicas = [replica("a"), replica("b")];
        let balance = |more: &[&str]| {
            let [a, b] = &replicas;
            let mut haproxy = Command::new("haproxy");
            haproxy.arg("-f").arg(Path::new(DEPLOY).join("haproxy.cfg")).args(more);
            haproxy.env("MCPDECK_BIND", &front).env("MCPDECK_HOST", &front);
            haproxy.env("MCPDECK_A", a.url().replace("http://", ""));
            haproxy.env("MCPDECK_B", b.url().replace("http://", ""));
            haproxy.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("haproxy on PATH")
        };
        assert!(balance(&["-c", "-q"]).wait().unwrap().success(), "the shipped haproxy.cfg");
        let balancer = (format!("http://{front}"), Running(balance(&["-db"])));
        let http = reqwest::Client::new();
        let (store, owner) = (Mutex::default(), owner.trim().to_owned());
        let world = Self { folder, http, owner, store_port, store, replicas, up, balancer };
        world.start_store();
        for replica in &world.replicas {
            replica.start();
        }
        for replica in 0..2 {
            world.ready(replica).await;
        }
        world
    }

    fn start_store(&self) {
        let child = Command::new("redis-server")
            .arg(Path::new(DEPLOY).join("valkey.conf"))
            .args(["--bind", "127.0.0.1", "--port", &self.store_port.to_string()])
            .args(["--requirepass", PASSWORD, "--dir"])
            .arg(self.folder.path())
            .stdout(Stdio::null())
            .spawn();
        *self.store.lock() = Some(Running(child.expect("redis-server on PATH")));
    }

    /// Stops the store as a service manager would.
    fn stop_store(&self) {
        let mut store = self.store.lock().take().unwrap();
        let pid = rustix::process::Pid::from_child(&store.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        store.0.wait().unwrap();
    }

    async fn ready(&self, replica: usize) {
        self.until(replica, |answer| answer.status == 200).await;
    }

    /// Waits until the readiness of a replica is as expected.
    async fn until(&self, replica: usize, is: impl Fn(&Answer) -> bool) {
        let url = format!("{}/readyz", self.replicas[replica].url());
        loop {
            match self.get(&url, &self.owner).await {
                Some(answer) if is(&answer) => return,
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }

    async fn get(&self, url: &str, token: &str) -> Option<Answer> {
        answer(self.http.get(url).bearer_auth(token)).await
    }

    /// Calls a tool over REST at a replica.
    async fn call(&self, replica: usize, token: &str, tool: &str, arguments: &Value) -> Answer {
        let url = format!("{}/tools/{tool}/call", self.replicas[replica].url());
        let body = json!({"arguments": arguments}).to_string();
        answer(
            self.http
                .post(url)
                .bearer_auth(token)
                .header("content-type", "application/json")
                .body(body),
        )
        .await
        .unwrap()
    }

    /// Creates a token of a profile at one replica, and waits until the other knows it.
    async fn token(&self, replica: usize, profile: &str) -> String {
        let tokens = ClientTokens::from_state_dir(&self.replicas[replica].state());
        let scopes = DEFAULT_SCOPES.to_vec();
        let (token, _) = tokens.create(profile, scopes, None, Clock::system().now()).unwrap();
        self.heard(token.expose(), 200).await;
        token.expose().to_owned()
    }

    /// Waits until both replicas answer this token with this status.
    async fn heard(&self, token: &str, status: u16) {
        for replica in &self.replicas {
            let url = format!("{}/servers", replica.url());
            while self.get(&url, token).await.is_none_or(|answer| answer.status != status) {
                tokio::time::sleep(LOOK).await;
            }
        }
    }

    /// Posts a message to `/mcp` of a replica or of the load balancer.
    async fn mcp(
        &self,
        url: &str,
        token: &str,
        session: Option<&str>,
        message: &Value,
    ) -> Option<Answer> {
        let mut request = self
            .http
            .post(format!("{url}/mcp"))
            .bearer_auth(token)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .body(message.to_string());
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        if message["params"]["_meta"].is_object() {
            request = request
                .header("mcp-protocol-version", "2026-07-28")
                .header("mcp-method", message["method"].as_str().unwrap())
                .header("mcp-name", message["params"]["name"].as_str().unwrap_or_default());
        }
        answer(request).await
    }

    /// Opens a session of the legacy protocol; `None` on failure.
    async fn session(&self, url: &str, token: &str) -> Option<String> {
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        }});
        let hello = self.mcp(url, token, None, &hello).await?;
        let session = hello.headers.get("mcp-session-id")?.to_str().unwrap().to_owned();
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        let done = self.mcp(url, token, Some(&session), &done).await?;
        (done.status == 202).then_some(session)
    }

    /// The logs of the replicas; checks that they do not contain the password of the store.
    fn logs(&self) -> String {
        let files = self
            .replicas
            .iter()
            .flat_map(|replica| ["stderr", "log"].map(|name| replica.folder.join(name)));
        let logs = files.map(|file| std::fs::read_to_string(file).unwrap()).collect::<String>();
        assert!(!logs.contains(PASSWORD), "{logs}");
        logs
    }
}

/// Sends a request; `None` without a complete answer.
async fn answer(request: reqwest::RequestBuilder) -> Option<Answer> {
    let response = request.send().await.ok()?;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let text = response.text().await.ok()?;
    let event =
        text.lines().filter_map(|line| line.strip_prefix("data: ")).rfind(|l| l.starts_with('{'));
    let body = serde_json::from_str(event.unwrap_or(&text)).unwrap_or_default();
    Some(Answer { status, headers, body })
}

/// A tool call in the legacy protocol, or in the modern one with the parameters in `more`.
fn call(name: &str, arguments: &Value, more: Option<&Value>) -> Value {
    let mut params = json!({"name": name, "arguments": arguments});
    if let Some(more) = more {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    }
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

#[tokio::test(flavor = "multi_thread")]
async fn replicas_share_tokens_grants_sessions_and_limits() {
    if !is_equipped() {
        return;
    }
    let world = World::open().await;
    let [a, b] = &world.replicas;
    // Grants and tokens created or revoked at one replica take effect at the other.
    let plain = a.verb(&["token", "new", "--profile", "plain"]);
    world.heard(&plain, 200).await;
    let tokens: Value = serde_json::from_str(&b.verb(&["token", "list", "--json"])).unwrap();
    let id = tokens["tokens"][0]["id"].as_str().unwrap().to_owned();
    assert_ne!(world.call(0, &plain, "up__count", &json!({})).await.status, 200);
    let origin = format!("gateway:{id}");
    let grant = ["grants", "add", "--json", "--origin", &origin, "--profile", "plain", "--always"];
    let grant: Value = serde_json::from_str(&b.verb(&grant)).unwrap();
    while world.call(0, &plain, "up__count", &json!({})).await.status != 200 {
        tokio::time::sleep(LOOK).await;
    }
    a.verb(&["grants", "revoke", &grant["id"].to_string()]);
    while world.call(1, &plain, "up__count", &json!({})).await.status == 200 {
        tokio::time::sleep(LOOK).await;
    }
    let began = Instant::now();
    b.verb(&["token", "revoke", &id]);
    world.heard(&plain, 401).await;
    eprintln!(
        "a revocation was heard, the program that revokes included, in {:?}",
        began.elapsed()
    );

    // A session continues at the other replica, but only for its owner.
    let (mine, other) = (world.token(0, "worker").await, world.token(1, "worker").await);
    let session = world.session(&a.url(), &mine).await.unwrap();
    let counted = call("up__count", &json!({"who": "session"}), None);
    let moved = world.mcp(&b.url(), &mine, Some(&session), &counted).await.unwrap();
    assert_eq!(moved.body["result"]["content"][0]["text"], "counted", "{}", moved.body);
    let stolen = world.mcp(&b.url(), &other, Some(&session), &counted).await.unwrap();
    assert_eq!(stolen.status, 404);

    // Calls in flight at one replica count at the other.
    let greedy = world.token(1, "greedy").await;
    world.up.held.send_replace(true);
    let who = json!({"who": "held"});
    let holds = [0, 1, 0].map(|replica| world.call(replica, &greedy, "up__hold", &who));
    let refused = async {
        while world.up.callers.lock().get("held").is_none_or(|(now, ..)| *now < GREEDY.1) {
            tokio::time::sleep(LOOK).await;
        }
        let refused = world.call(1, &greedy, "up__count", &who).await;
        world.up.held.send_replace(false);
        refused
    };
    let (held, refused) = tokio::join!(futures::future::join_all(holds), refused);
    assert!(held.iter().all(|held| held.status == 200));
    assert_eq!((refused.status, &refused.body["error"]["code"]), (429, &json!("ERR_RATE_LIMITED")));
    // So do the calls per minute.
    let mut replicas = [0, 1].into_iter().cycle();
    let refused = loop {
        let who = json!({"who": "minute"});
        let answer = world.call(replicas.next().unwrap(), &greedy, "up__count", &who).await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!((refused.status, &refused.body["error"]["code"]), (429, &json!("ERR_RATE_LIMITED")));
    assert!(refused.headers.contains_key("retry-after"));
    let passed = world.up.callers.lock()["minute"].2.clone();
    let minutes = passed[0].elapsed().as_secs_f64() / 60.0;
    assert!(passed.len() as f64 <= GREEDY.0 * (1.0 + minutes) + 1.0, "{} calls", passed.len());
    world.logs();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_quota_of_a_profile_is_one_for_both_replicas() {
    if !is_equipped() {
        return;
    }
    let world = World::open().await;
    let team = [world.token(0, "team").await, world.token(1, "team").await];
    let mut turns = [0, 1].into_iter().cycle();
    let refused = loop {
        let at = turns.next().unwrap();
        let answer = world.call(at, &team[at], "up__count", &json!({"who": "team"})).await;
        if answer.status != 200 {
            break answer;
        }
    };
    assert_eq!((refused.status, &refused.body["error"]["code"]), (429, &json!("ERR_RATE_LIMITED")));
    assert!(refused.headers.contains_key("retry-after"), "{}", refused.body);
    let passed = world.up.callers.lock()["team"].2.clone();
    let minutes = passed[0].elapsed().as_secs_f64() / 60.0;
    let most = f64::from(TEAM_CALLS).mul_add(1.0 + minutes, 1.0);
    assert!(passed.len() as f64 <= most, "{} calls of {most}", passed.len());

    // All but one of the day are used at one replica; the other hears of it.
    let daily = [world.token(0, "daily").await, world.token(1, "daily").await];
    let who = json!({"who": "daily"});
    for _ in 1..DAILY_CALLS {
        let answer = world.call(0, &daily[0], "up__count", &who).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    let mut own = 0;
    let refused = loop {
        let answer = world.call(1, &daily[1], "up__count", &who).await;
        if answer.status != 200 {
            break answer;
        }
        own += 1;
        assert!(own < DAILY_CALLS, "it counts for itself alone");
        tokio::time::sleep(LOOK).await;
    };
    assert_eq!(refused.body["error"]["code"], "ERR_BUDGET_EXCEEDED", "{}", refused.body);
    assert!(refused.headers.contains_key("retry-after"), "{}", refused.body);
    while world.call(0, &daily[0], "up__count", &who).await.status == 200 {
        tokio::time::sleep(LOOK).await;
    }
    world.logs();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_input_goes_on_at_any_replica() {
    if !is_equipped() {
        return;
    }
    let world = World::open().await;
    let [a, b] = world.replicas.each_ref().map(Replica::url);
    let token = world.token(0, "worker").await;
    let ask = async |url: &str, tool: &str, more: &Value| {
        world.mcp(url, &token, None, &call(tool, &json!({}), Some(more))).await.unwrap().body
    };
    let given = |asked: &Value, content: &Value| {
        let key = asked["result"]["inputRequests"]
            .as_object()
            .unwrap_or_else(|| panic!("{asked}"))
            .keys()
            .next()
            .unwrap()
            .clone();
        let state = &asked["result"]["requestState"];
        json!({"requestState": state, "inputResponses": {key: {"action": "accept", "content": content}}})
    };
    let asked = ask(&a, "new__order", &json!({})).await;
    let three = given(&asked, &json!({"pieces": 3}));
    let done = ask(&b, "new__order", &three).await;
    assert_eq!(done["result"]["content"][0]["text"], "Ordered 3.", "{done}");
    // A `requestState` is valid once, and only for its call.
    let again = ask(&a, "new__order", &three).await;
    assert_eq!(again["error"]["code"], -32602, "{again}");
    let asked = ask(&b, "new__order", &json!({})).await;
    let other = ask(&a, "old__ask", &given(&asked, &json!({"pieces": 3}))).await;
    assert_eq!(other["error"]["code"], -32602, "{other}");
    // For a legacy server that asks twice, all answers are carried along.
    let first = ask(&a, "old__ask", &json!({})).await;
    let second = ask(&b, "old__ask", &given(&first, &json!({"name": "Ada"}))).await;
    let done = ask(&a, "old__ask", &given(&second, &json!({"name": "Bo"}))).await;
    assert_eq!(done["result"]["content"][0]["text"], "Ada and Bo", "{done}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_client_missed_is_sent_to_it_by_any_replica() {
    if !is_equipped() {
        return;
    }
    let world = World::open().await;
    let [a, b] = world.replicas.each_ref().map(Replica::url);
    let token = world.token(0, "worker").await;
    let session = world.session(&a, &token).await.unwrap();
    let request = |request: reqwest::RequestBuilder| {
        let request = request.bearer_auth(&token).header("mcp-session-id", &session);
        request.header("accept", "application/json, text/event-stream")
    };
    world.up.held.send_replace(true);
    let held = call("up__hold", &json!({"who": "left"}), None).to_string();
    let held = request(world.http.post(format!("{a}/mcp")).body(held));
    let mut held = held.header("content-type", "application/json").send().await.unwrap();
    // The client only receives the id of the first event.
    let mut read = String::new();
    while !read.contains("\n\n") {
        read.push_str(std::str::from_utf8(&held.chunk().await.unwrap().unwrap()).unwrap());
    }
    let last = read.lines().find_map(|line| line.strip_prefix("id: ")).unwrap().to_owned();
    while !world.up.callers.lock().contains_key("left") {
        tokio::time::sleep(LOOK).await;
    }
    drop(held);
    let back = |url: &str, last: &str| {
        let back = request(world.http.get(format!("{url}/mcp"))).header("last-event-id", last);
        tokio::spawn(answer(back))
    };
    // It reconnects before the answer, and once more after it.
    let early = back(&b, &last);
    world.up.held.send_replace(false);
    for missed in [early, back(&a, &last)] {
        let missed = missed.await.unwrap().unwrap().body;
        assert_eq!(missed["result"]["content"][0]["text"], "counted", "{missed}");
        assert_eq!(missed["result"]["vendor"]["who"], "left", "as its server sent it: {missed}");
    }
    // Also after the replica is killed.
    world.replicas[0].kill();
    let missed = back(&b, &last).await.unwrap().unwrap().body;
    assert_eq!(missed["result"]["content"][0]["text"], "counted", "{missed}");
    let nothing = back(&b, "11111111-1111-1111-1111-111111111111/1-0").await.unwrap().unwrap();
    assert_eq!((nothing.status, nothing.body), (200, Value::Null), "an event of nobody");
}

/// A chat over its WebSocket.
struct Chat(tokio_tungstenite::WebSocketStream<tokio::net::TcpStream>);

impl Chat {
    async fn open(replica: &Replica, token: &str) -> Self {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", replica.port)).await.unwrap();
        let url = format!("ws://127.0.0.1:{}/ws", replica.port);
        let (socket, _) = tokio_tungstenite::client_async(url, stream).await.unwrap();
        let mut chat = Self(socket);
        chat.send(json!({"type": "auth", "token": token})).await;
        chat
    }

    async fn send(&mut self, message: Value) {
        self.0.send(Frame::Text(message.to_string().into())).await.unwrap();
    }

    /// Returns the next message of a type.
    async fn until(&mut self, kind: &str) -> Value {
        loop {
            let frame = tokio::time::timeout(PATIENCE, self.0.next()).await;
            let frame = frame.unwrap_or_else(|_| panic!("no {kind} in {PATIENCE:?}"));
            let Frame::Text(text) = frame.unwrap().unwrap() else { continue };
            let value: Value = serde_json::from_str(&text).unwrap();
            if value["type"] == kind {
                return value;
            }
        }
    }

    /// Runs one turn; returns the number of its last event.
    async fn ask(&mut self, text: &str) -> Value {
        self.send(json!({"type": "message", "text": text})).await;
        self.until("done").await["seq"].clone()
    }

    /// Resumes a session after an event.
    async fn resume(&mut self, session: &Value, last: &Value) {
        self.until("connection").await;
        self.send(json!({"type": "resume", "session": session, "lastSeq": last})).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_goes_on_at_any_replica() {
    if !is_equipped() {
        return;
    }
    let world = World::open().await;
    let (mine, other) = (world.token(0, "worker").await, world.token(1, "worker").await);
    let [a, b] = &world.replicas;
    let mut first = Chat::open(a, &mine).await;
    let session = first.until("connection").await["sessionId"].clone();
    let seen = first.ask("call up__count {\"who\": \"chat\"}").await;
    drop(first);
    // The other replica has the conversation, and nothing was missed.
    let mut second = Chat::open(b, &mine).await;
    second.resume(&session, &seen).await;
    assert_eq!(second.until("connection").await["resumed"], true);
    let later = second.ask("hello").await;
    assert!(later.as_u64() > seen.as_u64(), "{later} after {seen}");
    drop(second);
    // The first replica has an older version and loads the newer one.
    let mut back = Chat::open(a, &mine).await;
    back.resume(&session, &seen).await;
    let snapshot = back.until("truncated").await["snapshot"].clone();
    assert_eq!(snapshot["seq"], later);
    let said = snapshot["messages"].to_string();
    assert!(said.contains("up__count") && said.contains("hello"), "{said}");
    let mut stranger = Chat::open(b, &other).await;
    stranger.resume(&session, &seen).await;
    assert_eq!(stranger.until("error").await["code"], "noSession", "it is another's");
}

#[tokio::test(flavor = "multi_thread")]
async fn pictures_of_a_conversation_are_there_at_every_replica_for_its_owner() {
    if !is_equipped() {
        return;
    }
    let world = World::open().await;
    let file = world.folder.path().join("mcp.json");
    let mut env = Environment::of_process();
    env.state_dir = Some(world.folder.path().join("c"));
    env.vars.insert("STORE_PASSWORD".into(), PASSWORD.into());
    let host = Host::builder().config_text(r#"{"mcpServers": {}}"#).initialize().await.unwrap();
    let keeper = PolicyKeeper::open(&host, &[file], &env).await;
    let address = format!("redis://:${{env:STORE_PASSWORD}}@127.0.0.1:{}/2", world.store_port);
    let tokens = ClientTokens::from_state_dir(&world.folder.path().join("c"));
    let open = || Valkey::new(&address, &env, tokens.path().unwrap(), keeper.clone()).unwrap();
    let [c, d] = [open(), open()];
    let (id, pictures) = ("11", "[[\"call\",[]]]");
    let (owner, talk) = ("me".to_owned(), "{}".to_owned());
    let chat = KeptChat { id: id.into(), owner, title: String::new(), seq: 1, talk };
    c.save(chat).await.unwrap();
    c.save_pictures(id, "me", pictures.to_owned()).await.unwrap();
    assert_eq!(d.load_pictures(id, "me").await.unwrap().as_deref(), Some(pictures));
    assert_eq!(d.load_pictures(id, "another").await.unwrap(), None);
    assert!(!d.remove(id, "another").await.unwrap() && d.remove(id, "me").await.unwrap());
    assert_eq!(c.load_pictures(id, "me").await.unwrap(), None, "they go with it");
    host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_is_reviewed_at_one_replica_is_reviewed_at_all() {
    if !is_equipped() {
        return;
    }
    let world = World::open().await;
    let file = world.folder.path().join("mcp.json");
    let mut replicas = Vec::new();
    for name in ["c", "d"] {
        let state = world.folder.path().join(name);
        let mut env = Environment::of_process();
        env.state_dir = Some(state.clone());
        env.vars.insert("STORE_PASSWORD".into(), PASSWORD.into());
        let config = std::fs::read_to_string(&file).unwrap();
        let host = Host::builder().config_text(config).initialize().await.unwrap();
        let keeper = PolicyKeeper::open(&host, std::slice::from_ref(&file), &env).await;
        let address = format!("redis://:${{env:STORE_PASSWORD}}@127.0.0.1:{}/2", world.store_port);
        let tokens = ClientTokens::from_state_dir(&state);
        let store = Valkey::new(&address, &env, tokens.path().unwrap(), keeper.clone()).unwrap();
        replicas.push((host, keeper, store));
    }
    let up = ServerName::from("up");
    *world.up.words.lock() = "Counts, and tells somebody.".to_owned();
    for (host, keeper, _) in &replicas {
        host.restart(&up).await.unwrap();
        while keeper.held().len() < 2 {
            keeper.look_again().await;
        }
    }
    let [c, d] = &replicas[..] else { unreachable!() };
    for tool in c.1.held() {
        c.1.accept(&up, tool.tool.as_deref(), tool.digest).unwrap();
    }
    assert_eq!((c.1.held().len(), d.1.held().len()), (0, 2));
    for (_, _, store) in [c, d] {
        store.exchange(Vec::new(), Vec::new()).await;
    }
    assert!(d.1.held().is_empty(), "{:?}", d.1.held());
    for (host, ..) in &replicas {
        host.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_store_is_away_nothing_is_decided_and_what_is_under_way_ends_well() {
    if !is_equipped() {
        return;
    }
    let world = World::open().await;
    let ended = world.token(1, "worker").await;
    let token = world.token(0, "worker").await;
    let session = world.session(&world.replicas[0].url(), &token).await.unwrap();
    world.up.held.send_replace(true);
    let (url, http) = (world.replicas[0].url(), world.http.clone());
    let held = http.post(format!("{url}/tools/up__hold/call")).bearer_auth(&token);
    let held =
        held.header("content-type", "application/json").body(r#"{"arguments":{"who":"held"}}"#);
    let held = tokio::spawn(answer(held));
    while !world.up.callers.lock().contains_key("held") {
        tokio::time::sleep(LOOK).await;
    }
    world.stop_store();
    for replica in 0..2 {
        let away = |answer: &Answer| {
            let reason = answer.body["reason"].as_str().unwrap_or_default();
            answer.status == 503 && reason.contains("store")
        };
        world.until(replica, away).await;
        let refused = world.call(replica, &token, "up__count", &json!({"who": "away"})).await;
        let code = &refused.body["error"]["code"];
        assert_eq!((refused.status, code), (503, &json!("ERR_SERVER_UNAVAILABLE")));
        assert!(refused.headers.contains_key("retry-after"));
    }
    world.up.held.send_replace(false);
    assert_eq!(held.await.unwrap().unwrap().status, 200);
    // Revoked while the store was down: the token was never usable in between.
    world.replicas[1].verb(&["token", "revoke", &id_of(&ended)]);
    world.start_store();
    for replica in 0..2 {
        world.ready(replica).await;
    }
    world.heard(&ended, 401).await;
    assert!(!world.up.callers.lock().contains_key("away"));
    // Sessions are preserved.
    let url = world.replicas[1].url();
    let counted = call("up__count", &json!({"who": "session"}), None);
    let moved = world.mcp(&url, &token, Some(&session), &counted).await.unwrap();
    assert_eq!(moved.body["result"]["content"][0]["text"], "counted", "{}", moved.body);
    let logs = world.logs();
    assert!(logs.contains("requests are refused until it is back"), "{logs}");
    // A password in the arguments is refused, since all local users can read it.
    let open = format!("redis://:{PASSWORD}@127.0.0.1:{}/1", world.store_port);
    let mut refused = Command::new(env!("CARGO_BIN_EXE_mcpdeck"));
    refused.args(["serve", "--listen", "127.0.0.1:0", "--store", &open, "-c"]);
    refused.arg(world.folder.path().join("mcp.json")).env("MCPDECK_STATE_DIR", world.folder.path());
    let refused = refused.output().unwrap();
    let words = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && words.contains("${secret:"), "{words}");
    assert!(!words.contains(PASSWORD), "{words}");
}

/// The id of a token.
fn id_of(token: &str) -> String {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(token.as_bytes());
    format!("{:08x}", u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]))
}

/// The outcomes of the calls of a load.
#[derive(Default)]
struct Load {
    over: AtomicBool,
    done: AtomicUsize,
    again: AtomicUsize,
    lost: Mutex<Vec<String>>,
}

/// Calls continuously: over REST, in a session, or in the modern protocol. Failed calls are
/// retried, as a client would.
async fn client(
    world: Arc<World>,
    load: Arc<Load>,
    (number, token): (usize, String),
    pace: Duration,
) {
    let front = world.balancer.0.clone();
    let who = json!({"who": format!("client {number}")});
    let mut session = None;
    while !load.over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        let why = loop {
            if number % 3 == 1 && session.is_none() {
                session = world.session(&front, &token).await;
            }
            let answer = match number % 3 {
                0 => {
                    let url = format!("{front}/tools/up__count/call");
                    let body = json!({"arguments": who}).to_string();
                    let request = world.http.post(url).bearer_auth(&token).body(body);
                    answer(request.header("content-type", "application/json")).await
                }
                1 if session.is_none() => None,
                kind => {
                    let more = (kind == 2).then(|| json!({}));
                    let message = call("up__count", &who, more.as_ref());
                    world.mcp(&front, &token, session.as_deref(), &message).await
                }
            };
            let why = match &answer {
                Some(Answer { status: 200, body, .. }) if body.to_string().contains("counted") => {
                    break None;
                }
                // A failure of the connection, the balancer or the store: the client retries.
                None | Some(Answer { status: 502..=504, .. }) => "away".to_owned(),
                Some(Answer { body, .. })
                    if body.to_string().contains("ERR_SERVER_UNAVAILABLE") =>
                {
                    "away".to_owned()
                }
                Some(Answer { status: 200, body, .. }) if body.is_null() => "cut off".to_owned(),
                Some(Answer { status, body, .. }) => {
                    break Some(format!("{number}: {status} {body}"));
                }
            };
            if begun.elapsed() > Duration::from_secs(60) {
                break Some(format!("{number}: {why} for a minute"));
            }
            load.again.fetch_add(1, Ordering::Relaxed);
            let again = answer.and_then(|answer| answer.headers.get("retry-after").cloned());
            tokio::time::sleep(Duration::from_millis(if again.is_some() { 1_000 } else { 200 }))
                .await;
        };
        match why {
            None => _ = load.done.fetch_add(1, Ordering::Relaxed),
            Some(why) => load.lost.lock().push(why),
        }
        tokio::time::sleep(pace).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_call_is_lost_and_no_limit_exceeded_when_a_replica_and_the_store_end_under_load() {
    if !is_equipped() {
        return;
    }
    let set =
        |name: &str, default: u64| std::env::var(name).map_or(default, |n| n.parse().unwrap());
    let clients = set("MCPDECK_CLUSTER_CLIENTS", 24) as usize;
    let part = Duration::from_secs(set("MCPDECK_CLUSTER_SECONDS", 8)) / 4;
    let world = World::open().await;
    let tokens = ClientTokens::from_state_dir(&world.replicas[0].state());
    let made = (0..clients).map(|_| {
        let scopes = DEFAULT_SCOPES.to_vec();
        tokens.create("worker", scopes, None, Clock::system().now()).unwrap().0.expose().to_owned()
    });
    let made: Vec<String> = made.collect();
    let greedy = world.token(0, "greedy").await;
    let (load, world) = (Arc::<Load>::default(), Arc::new(world));
    let mut tasks: Vec<_> = made
        .into_iter()
        .enumerate()
        .map(|(number, token)| {
            tokio::spawn(client(
                Arc::clone(&world),
                Arc::clone(&load),
                (number, token),
                PACE * clients as u32,
            ))
        })
        .collect();
    for _ in 0..2 * GREEDY.1 {
        let (world, load, token) = (Arc::clone(&world), Arc::clone(&load), greedy.clone());
        tasks.push(tokio::spawn(async move {
            while !load.over.load(Ordering::Relaxed) {
                let url = format!("{}/tools/up__count/call", world.balancer.0);
                let body = r#"{"arguments":{"who":"greedy"}}"#;
                let request = world.http.post(url).bearer_auth(&token).body(body);
                let _ = answer(request.header("content-type", "application/json")).await;
                tokio::time::sleep(LOOK).await;
            }
        }));
    }
    let calm = |what: &str| {
        eprintln!(
            "{what}: {} calls, {} tries again",
            load.done.load(Ordering::Relaxed),
            load.again.load(Ordering::Relaxed)
        );
    };
    tokio::time::sleep(part).await;
    calm("before");
    world.replicas[0].kill();
    tokio::time::sleep(part / 4).await;
    world.replicas[0].start();
    world.ready(0).await;
    tokio::time::sleep(part).await;
    calm("a replica was killed and started again");
    world.stop_store();
    for replica in 0..2 {
        world.until(replica, |answer| answer.status == 503).await;
    }
    world.start_store();
    for replica in 0..2 {
        world.ready(replica).await;
    }
    tokio::time::sleep(part).await;
    // However slow the machine is, the greedy caller uses up its burst before the load ends.
    let passed = || world.up.callers.lock().get("greedy").map_or(0, |(_, _, passed)| passed.len());
    let burst = async {
        while (passed() as f64) < GREEDY.0 {
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), burst).await.expect("the greedy caller's burst");
    load.over.store(true, Ordering::Relaxed);
    futures::future::join_all(tasks).await;
    calm("the store was stopped and started again");
    let lost = load.lost.lock();
    assert!(lost.is_empty(), "{} calls are lost: {lost:#?}", lost.len());
    assert!(load.done.load(Ordering::Relaxed) > clients);
    let callers = world.up.callers.lock();
    let (_, most, passed) = &callers["greedy"];
    let minutes = (*passed.last().unwrap() - passed[0]).as_secs_f64() / 60.0;
    let permitted = GREEDY.0 * (1.0 + minutes) + 1.0;
    eprintln!("greedy: {} calls of {permitted:.0}, {most} at once of {}", passed.len(), GREEDY.1);
    let seconds: Vec<u64> =
        passed.iter().map(|at| at.duration_since(passed[0]).as_secs()).collect();
    assert!(passed.len() as f64 <= permitted && *most <= GREEDY.1, "{seconds:?}");
    // More than the burst passed, so the rate limit is what held it back.
    assert!(passed.len() as f64 >= GREEDY.0);
}

impl World {
    /// Sends a request of a client that follows tasks to a replica; returns its result or error.
    async fn task(&self, replica: usize, token: &str, method: &str, mut params: Value) -> Value {
        let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default();
        let name = name.to_owned();
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}},
            },
        });
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self
            .http
            .post(format!("{}/mcp", self.replicas[replica].url()))
            .bearer_auth(token)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .header("mcp-name", name)
            .body(message.to_string());
        let mut body = answer(request).await.expect("an answer").body;
        match body.get_mut("result").map(Value::take) {
            Some(result) => result,
            None => body["error"].take(),
        }
    }

    /// The state of a task at a replica once it has this status.
    async fn until_task(&self, replica: usize, token: &str, id: &Value, status: &str) -> Value {
        loop {
            let state = self.task(replica, token, "tasks/get", json!({"taskId": id})).await;
            if state["status"] == status {
                return state;
            }
            let is_open = matches!(state["status"].as_str(), Some("working" | "input_required"));
            assert!(is_open, "{state}");
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_one_replica_is_followed_answered_and_cancelled_at_the_other() {
    if !is_equipped() {
        return;
    }
    let world = World::open().await;
    let token = world.token(0, "worker").await;
    let begin = async |tool: &str| {
        let params = json!({"name": tool, "arguments": {"who": "a"}});
        let created = world.task(0, &token, "tools/call", params).await;
        assert_eq!(created["resultType"], "task", "{created}");
        created["taskId"].clone()
    };
    let id = begin("old__late").await;
    let asked = world.until_task(1, &token, &id, "input_required").await;
    let (key, question) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(question["method"], "elicitation/create", "{asked}");
    let responses = json!({key: {"action": "accept", "content": {"name": "Bo"}}});
    let params = json!({"taskId": id, "inputResponses": responses});
    let ack = world.task(1, &token, "tasks/update", params).await;
    assert_eq!(ack, json!({"resultType": "complete"}));
    for replica in [1, 0] {
        let done = world.until_task(replica, &token, &id, "completed").await;
        assert_eq!(done["result"]["content"][0]["text"], "late Bo", "{replica}: {done}");
    }
    // For another token there is no such task, here or there.
    let other = world.token(1, "worker").await;
    for replica in [0, 1] {
        for method in ["tasks/get", "tasks/cancel"] {
            let refused = world.task(replica, &other, method, json!({"taskId": id})).await;
            assert_eq!(refused["code"], -32_602, "{replica} {method}: {refused}");
        }
    }

    world.up.held.send_replace(true);
    let id = begin("up__hold").await;
    let ack = world.task(1, &token, "tasks/cancel", json!({"taskId": id})).await;
    assert_eq!(ack, json!({"resultType": "complete"}));
    world.until_task(0, &token, &id, "cancelled").await;
    world.until_task(1, &token, &id, "cancelled").await;

    // What a replica takes with it is told.
    let id = begin("up__hold").await;
    assert_eq!(world.until_task(1, &token, &id, "working").await["taskId"], id);
    world.replicas[0].kill();
    let lost = world.until_task(1, &token, &id, "failed").await;
    assert_eq!(lost["error"]["message"], "the replica that ran it has ended", "{lost}");
    world.up.held.send_replace(false);
    world.logs();
}
