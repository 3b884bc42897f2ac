//! `mcpdeck serve` end to end: the program itself, over HTTP and over a pipe.

mod absent;
mod admin;
mod card;
mod claims;
mod clients;
mod collectors;
mod collisions;
#[cfg(target_os = "linux")]
mod crowd;
#[cfg(target_os = "linux")]
mod disabled;
mod numbers;
mod odd;
mod persons;
mod sign_in;
mod skills;
mod tasks;
mod team;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use mcpdeck::gateway::{Bridge, ClientTokens, DEFAULT_SCOPES, ServeOptions};
use serde_json::{Value, json};

/// A server whose answers have fields that no typed client knows.
const VENDOR: &str = r#"{
  "serverInfo": {"name": "vendor", "version": "1"},
  "capabilities": {
    "tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true},
    "logging": {}, "completions": {}, "tasks": {"requests": {"tools": {"call": {}}}}
  },
  "resources": [{"uri": "vendor://a", "name": "a", "x-vendor": 1}],
  "resourceTemplates": [{"uriTemplate": "vendor://t/{id}", "name": "t"}],
  "reads": {"vendor://t/7": {"answer": {"contents": [{"uri": "vendor://t/7", "text": "seven", "x-vendor": 2}]}}},
  "on": {
    "completion/complete": {"answer": {"completion": {"values": ["7"]}, "x-vendor": 3}},
    "tasks/get": {"answer": {"taskId": "t-1", "status": "completed", "pollInterval": 50}},
    "tasks/result": {"answer": {"content": [], "x-vendor": 4}}
  },
  "tools": [
    {"name": "odd", "inputSchema": {"type": "object"}, "x-vendor": {"cost": 7}},
    {"name": "fail", "inputSchema": {"type": "object"}},
    {"name": "with.dots", "inputSchema": {"type": "object"}},
    {"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
    {"name": "trace", "inputSchema": {"type": "object"}},
    {"name": "tenant", "inputSchema": {"type": "object"}},
    {"name": "wait", "inputSchema": {"type": "object"}},
    {"name": "late", "inputSchema": {"type": "object"}},
    {"name": "touch", "inputSchema": {"type": "object"}}
  ],
  "calls": {
    "odd": {"answer": {"content": [{"type": "hologram", "beams": 3}], "x-vendor": [1, 2]}},
    "fail": {"answer": {"content": [{"type": "text", "text": "no"}], "isError": true}},
    "with.dots": {"text": "dotted"},
    "slow": {"answer": {"task": {"taskId": "t-1", "status": "working", "pollInterval": 50}}},
    "trace": {"text": "${params._meta.traceparent:-none}"},
    "tenant": {"text": "${params._meta.tenant:-none}"},
    "wait": [
      {"progress": {"steps": 1, "total": 9, "message": "begun"}},
      {"wait": "cancelled"},
      {"notify": {"method": "notifications/resources/updated", "params": {"uri": "vendor://a"}}}
    ],
    "late": [{"progress": {"steps": 1, "total": 1}}, {"delay": 200}, {"text": "at last"}],
    "touch": [
      {"notify": {"method": "notifications/message",
                  "params": {"level": "info", "data": {"for": "${arguments.who}"}, "x-vendor": 5}}},
      {"notify": {"method": "notifications/message", "params": {"level": "debug", "data": "no"}}},
      {"notify": {"method": "notifications/resources/updated", "params": {"uri": "vendor://b"}}},
      {"notify": {"method": "notifications/resources/updated", "params": {"uri": "vendor://a"}}},
      {"text": "touched"},
      {"delay": 20},
      {"notify": {"method": "notifications/message", "params": {"level": "error", "data": "all"}}}
    ]
  }
}"#;

/// Polling interval of a service: each poll is a connection, and too many of them delay the start
/// of its servers on a busy machine.
const POLL: Duration = Duration::from_millis(20);

/// A running service; ended with SIGTERM when dropped.
struct Service {
    child: Child,
    #[cfg_attr(windows, expect(dead_code, reason = "read where it is stopped by a signal"))]
    stdout: BufReader<ChildStdout>,
    url: String,
    token: String,
    folder: std::path::PathBuf,
    /// Folder that is deleted with it.
    kept: Option<tempfile::TempDir>,
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mcpdeck"))
}

fn configured(folder: &Path) -> std::path::PathBuf {
    std::fs::write(folder.join("vendor.jsonc"), VENDOR).unwrap();
    let greeter = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/servers/greeter.jsonc");
    let exe = env!("CARGO_BIN_EXE_mcpdeck");
    let config = json!({"servers": {
        "vendor": {"command": exe, "args": ["mock", folder.join("vendor.jsonc")], "startupTimeout": 45},
        "greeter": {"command": exe, "args": ["mock", greeter], "startupTimeout": 45},
        "absent": {"command": folder.join("no-such-program")},
    }});
    let file = folder.join("mcp.json");
    std::fs::write(&file, config.to_string()).unwrap();
    file
}

/// Sends one request on a new connection.
fn send(port: &str, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
    let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
        let _ = write!(text, "Host: 127.0.0.1:{port}\r\n");
    }
    for (name, value) in headers {
        let _ = write!(text, "{name}: {value}\r\n");
    }
    let _ = write!(text, "Content-Length: {}\r\n\r\n{body}", body.len());
    stream.write_all(text.as_bytes()).unwrap();
    Answer::read(BufReader::new(stream))
}

impl Service {
    fn start() -> Self {
        Self::under(&json!({}))
    }

    /// Starts a service with a policy.
    fn under(policy: &Value) -> Self {
        Self::with(policy, &[])
    }

    fn with(policy: &Value, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        configured(folder.path());
        Self::ready(folder, policy, args)
    }

    /// Serves a configuration of its own.
    fn serving(config: &Value, policy: &Value, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("mcp.json"), config.to_string()).unwrap();
        Self::ready(folder, policy, args)
    }

    fn ready(folder: tempfile::TempDir, policy: &Value, args: &[&str]) -> Self {
        std::fs::write(folder.path().join("mcpdeck.policy.json"), policy.to_string()).unwrap();
        let mut service = Self::launch(folder.path(), "127.0.0.1:0", args);
        service.kept = Some(folder);
        // Ready once every server has started or failed; the first list waits for that.
        while service.get("/readyz").status != 200 {
            service.get("/tools");
            std::thread::park_timeout(POLL);
        }
        service
    }

    /// Serves the configuration of a folder.
    fn launch(folder: &Path, listen: &str, args: &[&str]) -> Self {
        let mut child = program()
            .args(["serve", "--listen", listen])
            .args(args)
            .arg("-c")
            .arg(folder.join("mcp.json"))
            .arg("--token-file")
            .arg(folder.join("token"))
            .env("MCPDECK_STATE_DIR", folder.join("state"))
            // Not for addresses of this machine.
            .env("HTTP_PROXY", "http://127.0.0.1:9")
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(event["event"], "listening");
        let url = event["url"].as_str().unwrap().to_owned();
        assert_eq!(event["mcp"], format!("{url}/mcp"));
        let token = std::fs::read_to_string(event["tokenFile"].as_str().unwrap()).unwrap();
        let (token, folder) = (token.trim().to_owned(), folder.to_owned());
        Self { child, stdout, url, token, folder, kept: None }
    }

    fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        send(self.url.rsplit(':').next().unwrap(), method, path, headers, body)
    }

    fn auth(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn get(&self, path: &str) -> Answer {
        self.send("GET", path, &[("Authorization", &self.auth())], "")
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        let auth = self.auth();
        let headers = [("Authorization", auth.as_str()), ("Content-Type", "application/json")];
        self.send("POST", path, &headers, &body.to_string())
    }

    /// Posts one message to `/mcp`, with more headers, such as the session.
    fn mcp(&self, token: &str, more: &[(&str, &str)], message: &Value) -> Answer {
        let auth = format!("Bearer {token}");
        let mut headers = vec![
            ("Authorization", auth.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        headers.extend(more);
        self.send("POST", "/mcp", &headers, &message.to_string())
    }

    fn session(&self, token: &str) -> String {
        let answer = self.mcp(token, &[], &initialize());
        assert_eq!(answer.status, 200, "{answer:?}");
        let session = answer.header("mcp-session-id").unwrap().to_owned();
        let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.mcp(token, &[("Mcp-Session-Id", &session)], &done).status, 202);
        session
    }

    /// Opens a stream of messages: that of a session, or the answer to a request.
    fn stream(&self, token: &str, of: Result<&str, &Value>) -> Events {
        match of {
            Ok(session) => self.events(token, "GET", &[("Mcp-Session-Id", session)], ""),
            Err(request) => {
                let method = request["method"].as_str().unwrap();
                let mut headers =
                    vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method)];
                headers.extend(request["params"]["name"].as_str().map(|name| ("Mcp-Name", name)));
                self.events(token, "POST", &headers, &request.to_string())
            }
        }
    }

    /// Opens the event stream that answers a request to `/mcp`.
    fn events(&self, token: &str, method: &str, headers: &[(&str, &str)], body: &str) -> Events {
        let port = self.url.rsplit(':').next().unwrap();
        let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let mut text = format!(
            "{method} /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n\
             Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        );
        for (name, value) in headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        let _ = write!(text, "Content-Length: {}\r\n\r\n{body}", body.len());
        stream.write_all(text.as_bytes()).unwrap();
        let mut from = BufReader::new(stream);
        let mut status = String::new();
        from.read_line(&mut status).unwrap();
        assert!(status.contains(" 200 "), "{status}");
        Events { from, last: String::new() }
    }

    fn state(&self) -> std::path::PathBuf {
        self.folder.join("state")
    }

    fn verb(&self, args: &[&str]) -> String {
        let out = program()
            .args(args)
            .arg("-c")
            .arg(self.folder.join("mcp.json"))
            .env("MCPDECK_STATE_DIR", self.state())
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }

    fn token(&self, args: &[&str]) -> String {
        self.verb(&[&["token"], args].concat())
    }

    /// Creates a token for a profile.
    fn client(&self, profile: &str) -> Client<'_> {
        let token = self.token(&["new", "--profile", profile]);
        let list: Value = serde_json::from_str(&self.token(&["list", "--json"])).unwrap();
        let id = list["tokens"].as_array().unwrap().last().unwrap()["id"].as_str().unwrap();
        Client { service: self, origin: format!("gateway:{id}"), token }
    }

    #[cfg(unix)]
    fn end(mut self) -> std::process::ExitStatus {
        let pid = i32::try_from(self.child.id()).unwrap();
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let status = self.child.wait().unwrap();
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut self.stdout, &mut rest).unwrap();
        assert_eq!(rest, "", "stdout holds the one event");
        status
    }
}

/// The messages of an event stream, in order.
struct Events {
    from: BufReader<std::net::TcpStream>,
    /// Id of the last event; empty before the first.
    last: String,
}

impl Events {
    /// Reads one line, and records the id of an event.
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.from.read_line(&mut line).unwrap() > 0, "the stream goes on");
        if let Some(id) = line.strip_prefix("id:") {
            id.trim().clone_into(&mut self.last);
        }
        line
    }

    fn next(&mut self) -> Value {
        loop {
            if let Some(text) = self.line().strip_prefix("data: {") {
                return serde_json::from_str(&format!("{{{text}")).unwrap();
            }
        }
    }

    /// Disconnects after the next event with an id; returns the id.
    fn leave(mut self) -> String {
        self.last.clear();
        while self.last.is_empty() {
            self.line();
        }
        self.last
    }
}

/// A client with a token that is not the operator's.
struct Client<'a> {
    service: &'a Service,
    origin: String,
    token: String,
}

impl Client<'_> {
    fn send(&self, method: &str, path: &str, body: &Value) -> Answer {
        let auth = format!("Bearer {}", self.token);
        let headers = [("Authorization", auth.as_str()), ("Content-Type", "application/json")];
        self.service.send(method, path, &headers, &body.to_string())
    }

    /// The tools of `GET /tools`, or the code of the error.
    fn tools(&self) -> Result<Vec<String>, String> {
        let answer = self.send("GET", "/tools", &json!({})).json();
        let Some(tools) = answer["tools"].as_array() else {
            return Err(answer["error"]["code"].as_str().unwrap().to_owned());
        };
        Ok(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect())
    }

    /// Status, code and message of a refused call, without the requested name.
    fn refusal(&self, tool: &str) -> (u16, String, String) {
        let answer = self.send("POST", &format!("/tools/{tool}/call"), &json!({}));
        let error = answer.json()["error"].clone();
        let text = |key: &str| error[key].as_str().unwrap().replace(tool, "NAME");
        (answer.status, text("code"), text("message"))
    }

    fn grant(&self, args: &[&str]) -> String {
        let to = ["grants", "add", "--json", "--origin", &self.origin, "--profile", "reader"];
        let grant: Value = serde_json::from_str(&self.service.verb(&[&to, args].concat())).unwrap();
        grant["id"].to_string()
    }

    /// Waits until the tools are these: the service polls the policy files.
    fn until(&self, tools: &Result<Vec<String>, String>) {
        while self.tools() != *tools {
            std::thread::park_timeout(POLL);
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[derive(Debug)]
struct Answer {
    status: u16,
    headers: Vec<(String, String)>,
    body: String,
}

impl Answer {
    fn read(mut from: impl BufRead) -> Self {
        let mut line = String::new();
        from.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            line.clear();
            from.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut body = Vec::new();
        if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
            loop {
                line.clear();
                from.read_line(&mut line).unwrap();
                let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
                let mut chunk = vec![0; size + 2];
                from.read_exact(&mut chunk).unwrap();
                if size == 0 {
                    break;
                }
                body.extend_from_slice(&chunk[..size]);
            }
        } else {
            from.read_to_end(&mut body).unwrap();
        }
        Self { status, headers, body: String::from_utf8(body).unwrap() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The JSON-RPC message of a body or of its last event.
    fn message(&self) -> Value {
        let mut events = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        let text = events.rfind(|text| text.starts_with('{')).unwrap_or(&self.body);
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }})
}

fn request(id: u32, method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

#[test]
fn a_script_lists_and_calls_tools_with_the_token_of_the_file() {
    let service = Service::start();
    assert_eq!(service.send("GET", "/healthz", &[], "").status, 200);
    let tools = service.get("/tools").json();
    let names: Vec<&str> = tools["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"greeter__greet") && names.contains(&"vendor__odd"), "{names:?}");
    for name in &names {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        assert!(name.len() <= 64 && name.chars().all(fits), "{name}");
    }
    let called = service.post("/tools/greeter__greet/call", &json!({"arguments": {"name": "Ada"}}));
    assert_eq!(called.status, 200, "{called:?}");
    let called = called.json();
    assert_eq!(called["content"][0]["text"], "Hello Ada!");
    assert_eq!(called["isError"], false);
    assert_eq!(called["provenance"]["server"], "greeter");
    let failed = service.post("/tools/vendor__fail/call", &json!({})).json();
    assert_eq!(failed["isError"], true);
    let dotted = service.post("/tools/vendor.with.dots/call", &json!({"arguments": {}})).json();
    assert_eq!(dotted["content"][0]["text"], "dotted");
    let servers = service.get("/servers").json();
    let states = servers["servers"].as_array().unwrap().iter();
    let ready = states.filter(|server| server["state"] == "ready").count();
    assert_eq!(ready, 2, "{servers}");
    let metrics = service.get("/metrics").body;
    let failures = r#"tool_failure_total{server="vendor",tool="fail",code="toolError"} 1"#;
    assert!(metrics.contains(failures) && metrics.contains("active_tools 2"), "{metrics}");
    assert!(metrics.contains(r#"mcp_server_ready{server="greeter"} 1"#), "{metrics}");
}

#[test]
fn what_is_wrong_is_reported_by_code_and_says_nothing_of_this_machine() {
    let service = Service::start();
    let cases = [
        ("/tools/nobody__has/call", json!({}), 404, "ERR_TOOL_NOT_FOUND"),
        ("/tools/greeter__greet/call", json!({"arguments": {}}), 422, "ERR_PROTOCOL_ERROR"),
        ("/servers/restart", json!({"server": "unknown"}), 404, "ERR_SERVER_NOT_FOUND"),
        ("/servers/restart", json!({"server": "absent"}), 503, "ERR_SERVER_UNAVAILABLE"),
        ("/servers/restart", json!({"server": "a", "command": "sh"}), 422, "ERR_PROTOCOL_ERROR"),
        ("/tools/greeter__greet/call", json!({"timeout": -1}), 422, "ERR_PROTOCOL_ERROR"),
    ];
    let folder = service.folder.to_str().unwrap().to_owned();
    for (path, body, status, code) in cases {
        let answer = service.post(path, &body);
        assert_eq!(answer.status, status, "{path} {answer:?}");
        assert_eq!(answer.json()["error"]["code"], code, "{path} {answer:?}");
        assert!(!answer.body.contains(&folder), "{answer:?}");
    }
}

#[test]
fn nobody_passes_without_the_token_or_from_another_site() {
    let service = Service::start();
    let auth = service.auth();
    let port = service.url.rsplit(':').next().unwrap().to_owned();
    let routes = ["/tools", "/servers", "/metrics", "/readyz", "/openapi.json", "/mcp", "/mcp/p/x"];
    for route in routes {
        assert_eq!(service.send("GET", route, &[], "").status, 401, "{route}");
        let in_address = format!("{route}?token={}&access_token={}", service.token, service.token);
        assert_eq!(service.send("GET", &in_address, &[], "").status, 401, "{route}");
        for host in ["evil.example", "localhost.evil", "127.0.0.1@evil", "127.0.0.1", "[::1]:1"] {
            let answer =
                service.send("GET", route, &[("Host", host), ("Authorization", &auth)], "");
            assert_eq!(answer.status, 403, "{route} {host}");
        }
        for origin in ["null", "https://evil.example", "http://127.0.0.1:1"] {
            let answer =
                service.send("GET", route, &[("Origin", origin), ("Authorization", &auth)], "");
            assert_eq!(answer.status, 403, "{route} {origin}");
        }
        let twice = format!("127.0.0.1:{port}");
        let headers =
            [("Host", twice.as_str()), ("Host", "evil"), ("Authorization", auth.as_str())];
        assert!(service.send("GET", route, &headers, "").status >= 400, "{route}");
    }
    let plain = [
        ("Authorization", auth.as_str()),
        ("Content-Type", "text/plain"),
        ("Accept", "application/json, text/event-stream"),
    ];
    for route in ["/tools/greeter__greet/call", "/servers/restart", "/mcp"] {
        assert_eq!(service.send("POST", route, &plain, "{}").status, 415, "{route}");
    }
}

#[test]
fn pages_of_an_allowed_origin_call_and_read_the_answers() {
    let allow = ["--allow-origin", "https://App.example:443", "--allow-host", "gate.example:443"];
    let service = Service::with(&json!({}), &allow);
    let (auth, origin) = (service.auth(), ("Origin", "https://app.example"));
    let allows = |answer: &Answer| {
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin.1), "{answer:?}");
        assert_eq!(answer.header("vary"), Some("origin"));
    };
    // What a browser asks first has no token.
    let first = [
        origin,
        ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "authorization,content-type"),
    ];
    for path in ["/tools/greeter__greet/call", "/mcp"] {
        let may = service.send("OPTIONS", path, &first, "");
        assert_eq!(may.status, 204, "{may:?}");
        allows(&may);
        let named = may.header("access-control-allow-headers");
        assert_eq!(named, Some("authorization,content-type"));
        assert_eq!(may.header("access-control-allow-methods"), Some("GET, POST, DELETE"));
    }
    allows(&service.send("GET", "/tools", &[origin, ("Authorization", &auth)], ""));
    let hello = initialize();
    let answer = service.mcp(&service.token, &[origin], &hello);
    assert_eq!(answer.status, 200, "{answer:?}");
    allows(&answer);
    let exposed = answer.header("access-control-expose-headers").unwrap();
    assert!(exposed.contains("mcp-session-id"), "{exposed}");
    let there = [origin, ("Authorization", &auth), ("Host", "gate.example")];
    allows(&service.send("GET", "/tools", &there, ""));
    // Its own refusals can be read too; other origins learn nothing.
    let refused = service.send("GET", "/tools", &[origin], "");
    assert_eq!(refused.status, 401);
    allows(&refused);
    let other = [("Origin", "https://evil.example"), first[1]];
    let other = service.send("OPTIONS", "/tools", &other, "");
    assert_eq!((other.status, other.header("access-control-allow-origin")), (403, None));
}

#[test]
fn a_policy_service_on_this_machine_is_not_asked_through_a_proxy() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut asked = Vec::new();
            while !asked.ends_with(b"}") {
                let mut piece = [0; 512];
                let size = std::io::Read::read(&mut stream, &mut piece).unwrap();
                assert!(size > 0, "the question is whole");
                asked.extend_from_slice(&piece[..size]);
            }
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 15\r\n\r\n";
            let _ = stream.write_all(format!("{head}{{\"passed\":true}}").as_bytes());
        }
    });
    let policy = json!({"hook": {"url": url}, "profiles": {"ci": {"allow": ["*"]}}});
    let service = Service::under(&policy);
    let arguments = json!({"arguments": {"name": "Bo"}});
    let called = service.client("ci").send("POST", "/tools/greeter__greet/call", &arguments);
    assert_eq!(called.status, 200, "{called:?}");
}

#[test]
fn a_given_token_allows_what_it_says_until_it_is_taken_back() {
    let service = Service::under(&json!({"profiles": {"ci": {"allow": ["*"]}}}));
    let listing = service.token(&["new", "--profile", "ci", "--scope", "mcp:tools.list"]);
    let auth = format!("Bearer {listing}");
    let headers = [("Authorization", auth.as_str()), ("Content-Type", "application/json")];
    assert_eq!(service.send("GET", "/tools", &headers, "").status, 200);
    let refused = service.send("POST", "/tools/greeter__greet/call", &headers, "{}");
    assert_eq!(
        (refused.status, refused.json()["error"]["code"].as_str()),
        (403, Some("ERR_SCOPE_REQUIRED"))
    );
    assert_eq!(service.send("POST", "/servers/restart", &headers, r#"{"server":"x"}"#).status, 403);
    assert_eq!(service.send("GET", "/mcp/p/other", &headers, "").status, 403, "another profile");
    let kept = std::fs::read_to_string(service.state().join("gateway/tokens.json")).unwrap();
    assert!(!kept.contains(&listing), "only a hash is kept");
    let list: Value = serde_json::from_str(&service.token(&["list", "--json"])).unwrap();
    service.token(&["revoke", list["tokens"][0]["id"].as_str().unwrap()]);
    assert_eq!(service.send("GET", "/tools", &headers, "").status, 401);
}

#[expect(clippy::unnecessary_wraps, reason = "compared with what a client heard")]
fn names(of: &[&str]) -> Result<Vec<String>, String> {
    Ok(of.iter().map(|name| (*name).to_owned()).collect())
}

#[test]
fn a_token_sees_and_calls_what_it_was_granted_and_nothing_else() {
    let service = Service::start();
    let reader = service.client("reader");
    let nothing = Err("ERR_PERMISSION_DENIED".to_owned());
    assert_eq!(reader.tools(), nothing);
    for tool in ["greeter__greet", "greeter.greet", "nobody__has"] {
        let (status, code, words) = reader.refusal(tool);
        assert_eq!((status, code.as_str()), (403, "ERR_PERMISSION_DENIED"), "{words}");
        let how = format!("grants add --origin {} --profile reader", reader.origin);
        assert!(words.contains(&how), "{words}");
    }
    assert_eq!(reader.send("GET", "/servers", &json!({})).json(), json!({"servers": []}));

    let once = reader.grant(&["--for", "10m", "--tools", "greeter.*"]);
    let seen = service.get("/tools").json();
    let all = seen["tools"].as_array().unwrap().iter();
    let all: Vec<_> = all.map(|tool| tool["name"].as_str().unwrap()).collect();
    let own: Vec<_> = all.into_iter().filter(|name| name.starts_with("greeter")).collect();
    reader.until(&names(&own));
    let body = json!({"arguments": {"name": "Ada"}});
    let called = reader.send("POST", "/tools/greeter__greet/call", &body).json();
    assert_eq!(called["content"][0]["text"], "Hello Ada!", "{called}");
    let provenance = &called["provenance"];
    assert_eq!(provenance["origin"], reader.origin.as_str());
    assert_eq!(provenance["profile"], "reader");
    assert_eq!(provenance["rule"], format!("grant {once} (ALLOW_ONCE)"));
    let (hidden, unknown) = (reader.refusal("vendor__odd"), reader.refusal("vendor__none"));
    assert_eq!(hidden, unknown);
    assert_eq!((hidden.0, hidden.1.as_str()), (403, "ERR_TOOL_NOT_ALLOWED"));
    let restart = reader.send("POST", "/servers/restart", &json!({"server": "greeter"}));
    assert_eq!(
        (restart.status, restart.json()["error"]["code"].as_str()),
        (403, Some("ERR_SCOPE_REQUIRED"))
    );

    // Same for an MCP client.
    let session = service.session(&reader.token);
    let session = [("Mcp-Session-Id", session.as_str())];
    let listed = request(1, "tools/list", &json!({}));
    let listed = service.mcp(&reader.token, &session, &listed).message();
    let listed = listed["result"]["tools"].as_array().unwrap().iter();
    let listed: Vec<_> = listed.map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(listed, own);
    let call =
        |id, name| request(id, "tools/call", &json!({"name": name, "arguments": {"name": "Bo"}}));
    let called = service.mcp(&reader.token, &session, &call(2, "greeter__greet")).message();
    assert_eq!(called["result"]["content"][0]["text"], "Hello Bo!", "{called}");
    let refused = service.mcp(&reader.token, &session, &call(3, "vendor__odd")).message();
    assert_eq!(refused["result"]["_meta"]["mcpdeck/error"]["code"], "ERR_TOOL_NOT_ALLOWED");

    // A denial overrides the grant; revoking it restores the grant.
    let deny = reader.grant(&["--deny"]);
    reader.until(&Ok(Vec::new()));
    let (denied, unknown) = (reader.refusal("greeter__greet"), reader.refusal("greeter__none"));
    assert_eq!(denied, unknown);
    assert_eq!((denied.0, denied.1.as_str()), (404, "ERR_TOOL_NOT_FOUND"));
    service.verb(&["grants", "revoke", &deny]);
    reader.until(&names(&own));
    service.verb(&["grants", "revoke", &once]);
    reader.until(&nothing);
}

#[test]
fn a_grant_of_tools_opens_no_resource_and_no_prompt() {
    let service = Service::start();
    let reader = service.client("reader");
    let read = || reader.send("POST", "/resources/read", &json!({"uri": "vendor://a"}));
    let refused = read();
    let how = "--profile reader --scope mcp:resources.read --always`";
    assert!(refused.json()["error"]["message"].as_str().unwrap().contains(how), "{refused:?}");
    let granted = reader.grant(&["--for", "10m", "--tools", "vendor.*"]);
    reader.until(&Ok(vendor_tools(&service)));
    let refused = read();
    assert_eq!(refused.status, 403, "{refused:?}");
    let error = &refused.json()["error"];
    assert_eq!(error["code"], "ERR_SCOPE_REQUIRED");
    assert!(error["message"].as_str().unwrap().contains(how), "{error}");
    let listed = service.verb(&["grants", "list"]);
    assert!(listed.contains("mcp:tools.list mcp:tools.call"), "{granted}: {listed}");
    reader.grant(&["--for", "10m", "--scope", "mcp:resources.read"]);
    while read().status != 200 {
        std::thread::park_timeout(POLL);
    }
}

/// The tools of the server `vendor`.
fn vendor_tools(service: &Service) -> Vec<String> {
    let seen = service.get("/tools").json();
    let all = seen["tools"].as_array().unwrap().iter();
    let all = all.map(|tool| tool["name"].as_str().unwrap().to_owned());
    all.filter(|name| name.starts_with("vendor")).collect()
}

#[test]
fn a_profile_of_any_name_has_a_path() {
    let name = "Ünsere Leute";
    let policy = json!({"profiles": {name: {"allow": ["greeter.*"]}}});
    let service = Service::under(&policy);
    let client = service.client(name);
    let auth = format!("Bearer {}", client.token);
    let headers = [
        ("Authorization", auth.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    let open = |path: &str| service.send("POST", path, &headers, &initialize().to_string()).status;
    assert_eq!(open("/mcp/p/%C3%9Cnsere%20Leute"), 200);
    assert_eq!(open("/mcp/p/%C3%9Cnsere"), 403);
}

#[test]
fn what_is_no_character_is_replaced_over_mcp_and_rest() {
    let service = Service::start();
    let auth = service.auth();
    let headers = [("Authorization", auth.as_str()), ("Content-Type", "application/json")];
    let body = r#"{"arguments": {"name": "cut \ud83d"}}"#;
    let called = service.send("POST", "/tools/greeter__greet/call", &headers, body);
    assert_eq!(called.json()["content"][0]["text"], "Hello cut \u{fffd}!", "{called:?}");
    let session = service.session(&service.token);
    let session = [
        headers[0],
        headers[1],
        ("Accept", "application/json, text/event-stream"),
        ("Mcp-Session-Id", session.as_str()),
    ];
    let call = |id: u32, name: &str| {
        let params = format!(r#"{{"name":"greeter__greet","arguments":{{"name":{name}}}}}"#);
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{params}}}"#);
        service.send("POST", "/mcp", &session, &body).message()
    };
    let called = call(1, r#""cut \ud83d""#);
    assert_eq!(called["result"]["content"][0]["text"], "Hello cut \u{fffd}!", "{called}");
    let deep = call(2, &format!("{}{}", "[".repeat(200), "]".repeat(200)));
    assert_eq!((&deep["id"], &deep["error"]["code"]), (&json!(2), &json!(-32700)), "{deep}");
}

#[test]
fn a_tool_has_one_name_in_every_spelling_in_rules_grants_and_paths() {
    for spelled in ["greeter.greet", "greeter/greet", "greeter:gr*", "greeter__greet"] {
        let service = Service::under(&json!({"profiles": {"listed": {"allow": [spelled]}}}));
        let listed = service.client("listed");
        for path in [
            "greeter__greet",
            "greeter.greet",
            "greeter%2Fgreet",
            "greeter/greet",
            "greeter:greet",
            "greet",
        ] {
            let body = json!({"arguments": {"name": "Ada"}, "runId": path});
            let called = listed.send("POST", &format!("/tools/{path}/call"), &body).json();
            assert_eq!(called["content"][0]["text"], "Hello Ada!", "{spelled} {path}: {called}");
        }
        let reader = service.client("reader");
        reader.grant(&["--for", "10m", "--tools", spelled]);
        reader.until(&names(&["greeter__greet"]));
    }
}

#[test]
fn the_calls_of_a_run_are_counted_over_rest_and_mcp() {
    let limits = json!({"callsPerRun": 3});
    let service =
        Service::under(&json!({"profiles": {"reader": {"allow": ["*"], "limits": limits}}}));
    let reader = service.client("reader");
    let call = |body: Value| reader.send("POST", "/tools/vendor__odd/call", &body);
    let status = |run: &str| call(json!({"runId": run})).status;
    let begun = reader.send("POST", "/runs", &json!({"runId": "r", "calls": 2})).json();
    assert_eq!(begun, json!({"runId": "r", "calls": 2, "spent": 0, "left": 2}));
    assert_eq!([status("r"), status("r"), status("r")], [200, 200, 429]);
    let left = reader.send("GET", "/runs/r", &json!({})).json();
    assert_eq!(left, json!({"runId": "r", "calls": 2, "spent": 2, "left": 0}));
    let ended = reader.send("DELETE", "/runs/r", &json!({})).json();
    assert_eq!(ended["spent"], 2, "{ended}");
    assert_eq!(status("r"), 200, "a new run");
    let most = reader.send("POST", "/runs", &json!({"calls": 50})).json();
    assert_eq!(most["calls"], 3, "no more than the profile allows: {most}");
    assert!(most["runId"].as_str().is_some_and(|run| run.len() >= 16), "{most}");
    assert_eq!(call(json!({"runId": "x".repeat(200)})).status, 422);

    // Without a name the caller has one run until it is idle.
    for _ in 0..3 {
        assert_eq!(call(json!({})).status, 200);
    }
    let refused = call(json!({}));
    assert!(refused.header("retry-after").is_some_and(|wait| wait.parse::<u32>().unwrap() <= 300));
    let refused = refused.json();
    assert_eq!(refused["error"]["code"], "ERR_BUDGET_EXCEEDED", "{refused}");

    let sessions = [(); 2].map(|()| service.session(&reader.token));
    let call = |session: &str, meta: &Value| {
        let params = json!({"name": "vendor__odd", "arguments": {}, "_meta": meta});
        let call = request(1, "tools/call", &params);
        let answer = service.mcp(&reader.token, &[("Mcp-Session-Id", session)], &call).message();
        answer["result"]["_meta"]["mcpdeck/error"]["code"].as_str().map(str::to_owned)
    };
    let exceeded = Some("ERR_BUDGET_EXCEEDED".to_owned());
    for session in &sessions {
        for _ in 0..3 {
            assert_eq!(call(session, &json!({})), None);
        }
        assert_eq!(call(session, &json!({})), exceeded);
    }
    for _ in 0..3 {
        assert_eq!(call(&sessions[0], &json!({"runId": "m"})), None);
    }
    assert_eq!(
        call(&sessions[1], &json!({"runId": "m"})),
        exceeded,
        "of the token, not the session"
    );
}

#[test]
fn what_a_rule_hides_is_not_there_and_what_it_asks_is_refused_when_nobody_can_be_asked() {
    let service = Service::under(&json!({
        "deny": ["vendor.odd", {"prompts": "*"}, {"resources": "**"}],
        "ask": ["vendor.fail"],
        "profiles": {"reader": {"allow": ["*"]}},
    }));
    let reader = service.client("reader");
    let tools = reader.tools().unwrap();
    assert!(tools.iter().any(|name| name == "vendor__fail"), "{tools:?}");
    assert!(!tools.iter().any(|name| name == "vendor__odd"), "{tools:?}");
    let (hidden, unknown) = (reader.refusal("vendor__odd"), reader.refusal("vendor__none"));
    assert_eq!(hidden, unknown);
    assert_eq!((hidden.0, hidden.1.as_str()), (404, "ERR_TOOL_NOT_FOUND"));
    let (status, code, words) = reader.refusal("vendor__fail");
    assert_eq!((status, code.as_str()), (403, "ERR_PERMISSION_DENIED"));
    assert!(words.contains("mcpdeck --serve"), "{words}");
    // The operator is not asked about the operator's own calls.
    let own = service.post("/tools/vendor__fail/call", &json!({})).json();
    assert_eq!(own["isError"], true, "{own}");
    let session = service.session(&reader.token);
    let session = [("Mcp-Session-Id", session.as_str())];
    for list in ["prompts", "resources"] {
        let listed = request(1, &format!("{list}/list"), &json!({}));
        let listed = service.mcp(&reader.token, &session, &listed).message();
        assert_eq!(listed["result"][list], json!([]), "{listed}");
    }
}

#[test]
fn what_one_session_of_a_token_has_read_is_held_against_no_other_session() {
    let service = Service::under(&json!({
        "trifecta": {"private": ["vendor.odd"], "untrusted": ["vendor.odd"], "outbound": ["vendor.fail"]},
        "profiles": {"reader": {"allow": ["*"]}},
    }));
    let reader = service.client("reader");
    reader.tools().unwrap();
    let call = |session: &str, tool: &str| {
        let call = request(1, "tools/call", &json!({"name": tool, "arguments": {}}));
        service.mcp(&reader.token, &[("Mcp-Session-Id", session)], &call).message()
    };
    let [reads, sends] = [(); 2].map(|()| service.session(&reader.token));
    call(&reads, "vendor__odd");
    let raised = call(&reads, "vendor__fail").to_string();
    assert!(raised.contains("ERR_PERMISSION_DENIED"), "{raised}");
    let other = call(&sends, "vendor__fail");
    assert_eq!(other["result"]["isError"], true, "the server itself answers: {other}");
}

#[test]
fn an_mcp_client_gets_definitions_and_results_as_the_server_sent_them() {
    let service = Service::start();
    let token = service.token.clone();
    let session = service.session(&token);
    let session = [("Mcp-Session-Id", session.as_str())];
    let listed = service.mcp(&token, &session, &request(1, "tools/list", &json!({}))).message();
    let tools = listed["result"]["tools"].as_array().unwrap().clone();
    let odd = tools.iter().find(|tool| tool["name"] == "vendor__odd").unwrap();
    assert_eq!(odd["x-vendor"], json!({"cost": 7}));
    let params = json!({"name": "vendor__odd", "arguments": {}});
    let called = service.mcp(&token, &session, &request(2, "tools/call", &params)).message();
    let whole = json!({"content": [{"type": "hologram", "beams": 3}], "x-vendor": [1, 2]});
    assert_eq!((&called["id"], &called["result"]), (&json!(2), &whole));
    let params = json!({"name": "vendor__nothing"});
    let unknown = service.mcp(&token, &session, &request(3, "tools/call", &params)).message();
    assert_eq!(unknown["error"]["code"], -32_602);
    assert_eq!(unknown["error"]["data"]["code"], "ERR_TOOL_NOT_FOUND");
}

#[test]
fn a_client_of_the_newest_protocol_needs_no_session() {
    let service = Service::start();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "greeter__greet"),
    ];
    let params = json!({"name": "greeter__greet", "arguments": {"name": "Bo"}, "_meta": meta});
    let token = service.token.clone();
    let called = service.mcp(&token, &headers, &request(1, "tools/call", &params));
    let result = called.message()["result"].clone();
    assert_eq!(result["content"][0]["text"], "Hello Bo!", "{called:?}");
    assert_eq!(result["resultType"], "complete");
    // Load balancers read the header, but the body is executed, so they must agree.
    let lying = [headers[0], headers[1], ("Mcp-Name", "vendor__odd")];
    let refused = service.mcp(&token, &lying, &request(2, "tools/call", &params));
    assert_eq!(refused.message()["error"]["code"], -32_020, "{refused:?}");
}

#[test]
fn clients_are_served_in_the_form_they_accept_and_refused_in_json_rpc() {
    let service = Service::start();
    let auth = service.auth();
    let list = request(1, "tools/list", &modern(json!({}), &json!({}))).to_string();
    let ask = |path: &str, accept: Option<&str>| {
        let mut headers = vec![
            ("Authorization", auth.as_str()),
            ("Content-Type", "application/json"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/list"),
        ];
        headers.extend(accept.map(|accept| ("Accept", accept)));
        service.send("POST", path, &headers, &list)
    };
    for path in ["/mcp", "/mcp/", "/mcp/p/x", "/mcp/p/x/"] {
        for accept in [None, Some("*/*"), Some("application/*"), Some("application/json")] {
            let answer = ask(path, accept);
            assert_eq!(answer.status, 200, "{path} {accept:?} {answer:?}");
            if accept == Some("application/json") {
                assert_eq!(answer.header("content-type"), Some("application/json"));
                assert!(answer.json()["result"]["tools"].is_array(), "{answer:?}");
            }
        }
    }
    let events = ask("/mcp", Some("text/event-stream"));
    assert_eq!(events.header("content-type"), Some("text/event-stream"), "{events:?}");
    assert!(events.message()["result"]["tools"].is_array(), "{events:?}");
    let refused = ask("/mcp", Some("text/html"));
    assert_eq!((refused.status, &refused.json()["jsonrpc"]), (406, &json!("2.0")));
    let nobody = service.send("POST", "/mcp/", &[], "{}");
    assert_eq!((nobody.status, &nobody.json()["jsonrpc"]), (401, &json!("2.0")));
    assert_eq!(nobody.json()["error"]["data"]["code"], "ERR_PERMISSION_DENIED");
}

#[test]
fn what_a_client_puts_into_meta_reaches_the_server() {
    let service = Service::start();
    let token = service.token.clone();
    let session = service.session(&token);
    let session = [("Mcp-Session-Id", session.as_str())];
    let params = json!({"name": "vendor__tenant", "_meta": {"tenant": "t1", "progressToken": 5}});
    let called = service.mcp(&token, &session, &request(2, "tools/call", &params)).message();
    assert_eq!(called["result"]["content"][0]["text"], "t1", "{called}");
    let body = json!({"_meta": {"tenant": "t2"}});
    let called = service.post("/tools/vendor__tenant/call", &body).json();
    assert_eq!(called["content"][0]["text"], "t2", "{called}");
}

#[test]
fn arguments_that_do_not_fit_are_a_tool_error_that_a_model_can_read() {
    let service = Service::start();
    let token = service.token.clone();
    let session = service.session(&token);
    let session = [("Mcp-Session-Id", session.as_str())];
    let params = json!({"name": "greeter__greet", "arguments": {}});
    let called = service.mcp(&token, &session, &request(2, "tools/call", &params)).message();
    assert_eq!(called["result"]["isError"], true, "{called}");
    let text = called["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("name"), "{text}");
    let listed = service.mcp(&token, &session, &request(3, "tools/list", &json!({}))).message();
    let tools = listed["result"]["tools"].as_array().unwrap();
    let slow = tools.iter().find(|tool| tool["name"] == "vendor__slow").unwrap();
    assert!(slow["execution"].get("taskSupport").is_none(), "it is run for the client: {slow}");
}

#[test]
fn metrics_have_every_series_from_the_first_scrape_in_the_format_asked_for() {
    let service = Service::start();
    let auth = service.auth();
    let ask = |accept: &str| {
        service.send("GET", "/metrics", &[("Authorization", &auth), ("Accept", accept)], "")
    };
    let open = ask("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.3");
    let failures = r#"tool_failure_total{server="vendor",tool="fail",code="toolError"} 0"#;
    assert!(open.body.contains(failures) && open.body.ends_with("# EOF\n"), "{}", open.body);
    assert!(open.body.contains("# TYPE mcp_server_restarts counter"), "{}", open.body);
    assert!(open.body.contains("tool_calls_in_flight 0"), "{}", open.body);
    let text = ask("text/plain");
    assert!(text.header("content-type").unwrap().starts_with("text/plain; version=0.0.4"));
    assert!(text.body.contains("# TYPE tool_failure_total counter\n"), "{}", text.body);
    assert!(!text.body.contains("# EOF") && !text.body.contains("# UNIT"), "{}", text.body);
}

#[test]
fn one_uri_at_two_servers_is_listed_read_and_subscribed_to_at_the_same_one() {
    let folder = tempfile::tempdir().unwrap();
    let exe = env!("CARGO_BIN_EXE_mcpdeck");
    let mut servers = json!({});
    for name in ["alpha", "beta"] {
        let file = folder.path().join(format!("{name}.jsonc"));
        let read = |uri: &str| json!({"answer": {"contents": [{"uri": uri, "text": name}]}});
        let script = json!({
            "capabilities": {"resources": {"subscribe": true}},
            "resources": [{"uri": "info://same", "name": "same"}],
            "resourceTemplates": [{"uriTemplate": "note://{id}", "name": "note"}],
            "reads": {"info://same": read("info://same"), "note://7": read("note://7")},
        });
        std::fs::write(&file, script.to_string()).unwrap();
        servers[name] = json!({"command": exe, "args": ["mock", file], "startupTimeout": 45});
    }
    let config = json!({"servers": servers}).to_string();
    std::fs::write(folder.path().join("mcp.json"), config).unwrap();
    let service = Service::launch(folder.path(), "127.0.0.1:0", &[]);
    let token = service.token.clone();
    let session = service.session(&token);
    let session = [("Mcp-Session-Id", session.as_str())];
    let ask = |method: &str, params: Value| {
        service.mcp(&token, &session, &request(2, method, &params)).message()
    };
    let listed = ask("resources/list", json!({}))["result"]["resources"].clone();
    let uris: Vec<&str> =
        listed.as_array().unwrap().iter().map(|one| one["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["info://same", "mcpdeck://beta/info://same"]);
    let listed = ask("resources/templates/list", json!({}))["result"]["resourceTemplates"].clone();
    assert_eq!(listed[1]["uriTemplate"], "mcpdeck://beta/note://{id}", "{listed}");
    for (uri, server) in [
        ("info://same", "alpha"),
        ("mcpdeck://beta/info://same", "beta"),
        ("note://7", "alpha"),
        ("mcpdeck://beta/note://7", "beta"),
    ] {
        let read = ask("resources/read", json!({"uri": uri}))["result"]["contents"][0].clone();
        assert_eq!((&read["uri"], &read["text"]), (&json!(uri), &json!(server)), "{uri}");
        if uri.contains("same") {
            let subscribed = ask("resources/subscribe", json!({"uri": uri}));
            assert!(subscribed["result"].is_object(), "{uri} {subscribed}");
        }
    }
}

/// The parameters of a request from 2026-07-28 on.
fn modern(mut params: Value, more: &Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params["_meta"].as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    params
}

#[test]
fn updates_and_logs_reach_those_who_asked_for_them_and_nobody_else() {
    let service = Service::start();
    let token = service.token.clone();
    let [reader, other] = [(); 2].map(|()| service.session(&token));
    let ask = |session: &str, id, method: &str, params| {
        service.mcp(&token, &[("Mcp-Session-Id", session)], &request(id, method, &params)).message()
    };
    let subscribed = ask(&reader, 1, "resources/subscribe", json!({"uri": "vendor://a"}));
    assert_eq!(subscribed["result"], json!({}), "{subscribed}");
    let unknown = ask(&reader, 2, "resources/subscribe", json!({"uri": "nobody://has"}));
    assert_eq!(unknown["error"]["data"]["code"], "ERR_TOOL_NOT_FOUND", "{unknown}");
    for session in [&reader, &other] {
        assert_eq!(
            ask(session, 3, "logging/setLevel", json!({"level": "info"}))["result"],
            json!({})
        );
    }
    let [mut heard, mut rest] = [&reader, &other].map(|s| service.stream(&token, Ok(s)));
    let listen = json!({"notifications": {"resourceSubscriptions": ["vendor://a"]}});
    let listen = request(9, "subscriptions/listen", &modern(listen, &json!({})));
    let mut listener = service.stream(&token, Err(&listen));
    assert_eq!(listener.next()["method"], "notifications/subscriptions/acknowledged");
    let touch = json!({"name": "vendor__touch", "arguments": {"who": "other"}});
    ask(&other, 4, "tools/call", touch.clone());
    // Log messages of a call go to its caller, unmodified; those outside of calls go to all clients
    // that enabled logs. The order of the two is unspecified. This client has no subscriptions.
    let whole = json!({"level": "info", "data": {"for": "other"}, "x-vendor": 5});
    let logged = [rest.next(), rest.next()];
    assert!(logged.iter().all(|heard| heard["method"] == "notifications/message"), "{logged:?}");
    assert!(logged.iter().any(|heard| heard["params"] == whole), "{logged:?}");
    assert!(logged.iter().any(|heard| heard["params"]["data"] == "all"), "{logged:?}");
    let both = [heard.next(), heard.next()];
    let updated = both.iter().find(|heard| heard["method"] == "notifications/resources/updated");
    assert_eq!(updated.unwrap()["params"]["uri"], "vendor://a", "{both:?}");
    assert!(both.iter().any(|heard| heard["params"]["data"] == "all"), "{both:?}");
    let updated = listener.next();
    assert_eq!(updated["params"]["uri"], "vendor://a", "{updated}");
    // An unsubscribed session gets no updates; the other subscriber still does.
    ask(&reader, 5, "resources/unsubscribe", json!({"uri": "vendor://a"}));
    ask(&other, 6, "tools/call", touch.clone());
    assert_eq!(heard.next()["params"]["data"], "all");
    assert_eq!(listener.next()["params"]["uri"], "vendor://a");
    // In the modern protocol the level is part of the call, and log messages of the answer.
    let level = json!({"io.modelcontextprotocol/logLevel": "debug"});
    let call = request(7, "tools/call", &modern(touch.clone(), &level));
    let mut answer = service.stream(&token, Err(&call));
    assert_eq!(answer.next()["params"], whole);
    assert_eq!(answer.next()["params"]["data"], "no");
    assert_eq!(answer.next()["result"]["content"][0]["text"], "touched");
    let call = request(8, "tools/call", &modern(touch, &json!({})));
    let first = service.stream(&token, Err(&call)).next();
    assert_eq!(first["result"]["content"][0]["text"], "touched", "no level, no messages");
}

#[test]
fn templates_completion_tasks_progress_and_cancellation_pass_through() {
    let service = Service::start();
    let token = service.token.clone();
    let session = service.session(&token);
    let headers = [("Mcp-Session-Id", session.as_str())];
    let ask = |id, method: &str, params| {
        service.mcp(&token, &headers, &request(id, method, &params)).message()["result"].clone()
    };
    assert_eq!(ask(1, "resources/list", json!({}))["resources"][0]["x-vendor"], 1);
    let templates = ask(2, "resources/templates/list", json!({}));
    assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "vendor://t/{id}");
    let read = ask(3, "resources/read", json!({"uri": "vendor://t/7"}));
    assert_eq!(read["contents"][0]["x-vendor"], 2, "{read}");
    let argument = json!({"name": "id", "value": ""});
    let reference = json!({"type": "ref/resource", "uri": "vendor://t/{id}"});
    let completed = ask(4, "completion/complete", json!({"ref": reference, "argument": argument}));
    assert_eq!(completed, json!({"completion": {"values": ["7"]}, "x-vendor": 3}));
    let task = ask(5, "tools/call", json!({"name": "vendor__slow", "arguments": {}}));
    assert_eq!(task, json!({"content": [], "x-vendor": 4}), "it ran as a task at its server");
    // Progress has the client's token; a cancelled call also ends at the server.
    let subscribed = ask(6, "resources/subscribe", json!({"uri": "vendor://a"}));
    assert_eq!(subscribed, json!({}));
    let mut heard = service.stream(&token, Ok(&session));
    let call = modern(json!({"name": "vendor__wait"}), &json!({"progressToken": "mine"}));
    let mut waiting = service.stream(&token, Err(&request(7, "tools/call", &call)));
    let progress = waiting.next();
    assert_eq!(progress["params"]["progressToken"], "mine", "{progress}");
    assert_eq!(
        (&progress["params"]["total"], &progress["params"]["message"]),
        (&json!(9), &json!("begun")),
        "whole numbers stay whole"
    );
    drop(waiting);
    assert_eq!(heard.next()["method"], "notifications/resources/updated", "said once cancelled");
}

#[test]
fn a_call_is_a_span_between_its_caller_and_its_server_and_holds_no_arguments() {
    let collector = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", collector.local_addr().unwrap());
    let service = Service::with(&json!({}), &["--otlp", &address]);
    let token = service.token.clone();
    let [trace, span] = ["4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"];
    let context = json!({"traceparent": format!("00-{trace}-{span}-01")});
    let params = json!({"name": "vendor__trace", "arguments": {"canary": "not for others"}});
    let call = request(1, "tools/call", &modern(params, &context));
    let answer = service.stream(&token, Err(&call)).next();
    let heard = answer["result"]["content"][0]["text"].as_str().unwrap().to_owned();
    let (mut stream, _) = collector.accept().unwrap();
    let mut body = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut length = 0;
    while body != "\r\n" {
        body.clear();
        reader.read_line(&mut body).unwrap();
        let size = body.to_ascii_lowercase();
        length =
            size.strip_prefix("content-length: ").map_or(length, |n| n.trim().parse().unwrap());
    }
    let mut body = vec![0; length];
    std::io::Read::read_exact(&mut reader, &mut body).unwrap();
    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    let body = String::from_utf8(body).unwrap();
    assert!(!body.contains("not for others"), "{body}");
    let body: Value = serde_json::from_str(&body).unwrap();
    let sent = &body["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(sent["name"], "tools/call trace");
    assert_eq!((&sent["traceId"], &sent["parentSpanId"]), (&json!(trace), &json!(span)));
    let all = sent["attributes"].as_array().unwrap();
    for (key, value) in [("server", "vendor"), ("client", "gateway:owner"), ("outcome", "ok")] {
        let attribute = json!({"key": format!("mcpdeck.{key}"), "value": {"stringValue": value}});
        assert!(all.contains(&attribute), "{all:?}");
    }
    assert_eq!(heard, format!("00-{trace}-{}-01", sent["spanId"].as_str().unwrap()));
    // A trace that its caller does not sample is passed on as it is.
    let context = json!({"traceparent": format!("00-{trace}-{span}-00")});
    let call = request(2, "tools/call", &modern(json!({"name": "vendor__trace"}), &context));
    let answer = service.stream(&token, Err(&call)).next();
    assert_eq!(answer["result"]["content"][0]["text"], context["traceparent"]);
    // Without a collector the caller's context is passed on, if it is valid.
    let plain = Service::start();
    for (given, heard) in [(context["traceparent"].clone(), None), (json!("00-x"), Some("none"))] {
        let context = json!({"traceparent": given});
        let call = request(1, "tools/call", &modern(json!({"name": "vendor__trace"}), &context));
        let answer = plain.stream(&plain.token, Err(&call)).next();
        let heard = heard.unwrap_or_else(|| given.as_str().unwrap());
        assert_eq!(answer["result"]["content"][0]["text"], heard);
    }
}

#[test]
fn a_client_whose_connection_broke_gets_what_it_missed_and_nothing_twice() {
    let service = Service::start();
    let token = service.token.clone();
    let session = service.session(&token);
    let mine = ("Mcp-Session-Id", session.as_str());
    let back = |last: &str| service.events(&token, "GET", &[mine, ("Last-Event-ID", last)], "");
    let call = |id: u32| {
        let params = json!({"name": "vendor__late", "_meta": {"progressToken": id}});
        let call = request(id, "tools/call", &params).to_string();
        service.events(&token, "POST", &[mine], &call)
    };
    // Disconnects and reconnects before the answer.
    let mut answer = back(&call(1).leave());
    assert_eq!(answer.next()["params"]["progressToken"], 1);
    let answered = answer.next();
    assert_eq!(answered["id"], 1, "{answered}");
    assert_eq!(answered["result"]["content"][0]["text"], "at last");
    // Reconnects after the answer and resumes after the progress it has received.
    let mut begun = call(2);
    begun.line();
    assert_eq!(begun.next()["params"]["progressToken"], 2);
    let last = begun.leave();
    let done = "tool_duration_seconds_count{";
    let calls = || {
        let text = service.get("/metrics").body;
        let all = text.lines().filter(|line| line.starts_with(done) && line.contains("late"));
        all.filter_map(|line| line.rsplit(' ').next()?.parse::<u32>().ok()).sum::<u32>()
    };
    while calls() < 2 {
        std::thread::park_timeout(POLL);
    }
    let answered = back(&last).next();
    assert_eq!((&answered["id"], answered["result"].is_object()), (&json!(2), true), "{answered}");
    // Messages outside of requests wait for a stream, and are sent on only one.
    let ask = |id, method: &str, params| {
        service.mcp(&token, &[mine], &request(id, method, &params)).message()["result"].clone()
    };
    assert_eq!(ask(3, "resources/subscribe", json!({"uri": "vendor://a"})), json!({}));
    let mut stream = service.stream(&token, Ok(&session));
    let touch = json!({"name": "vendor__touch", "arguments": {"who": "me"}});
    ask(4, "tools/call", touch.clone());
    assert_eq!(stream.next()["params"]["uri"], "vendor://a");
    let first = stream.leave();
    ask(5, "tools/call", touch.clone());
    let mut stream = back(&first);
    assert_eq!(stream.next()["params"]["uri"], "vendor://a", "the second");
    drop(stream);
    let mut stream = service.stream(&token, Ok(&session));
    ask(6, "logging/setLevel", json!({"level": "error"}));
    ask(7, "tools/call", touch);
    let two = [stream.next(), stream.next()];
    assert!(two.iter().any(|sent| sent["params"]["uri"] == "vendor://a"), "{two:?}");
    assert!(
        two.iter().any(|sent| sent["params"]["data"] == "all"),
        "not the second again: {two:?}"
    );
}

#[test]
fn an_answer_that_is_there_at_once_is_one_document_and_any_other_a_stream() {
    let service = Service::start();
    let session = service.session(&service.token);
    let call = |tool: &str| {
        let call = request(1, "tools/call", &json!({"name": tool}));
        service.mcp(&service.token, &[("Mcp-Session-Id", &session)], &call)
    };
    let kind = |answer: &Answer| answer.header("content-type").unwrap().to_owned();
    // On a busy machine it may take several calls until one is quick enough.
    let document = loop {
        let answer = call("vendor__odd");
        if kind(&answer) == "application/json" {
            break answer;
        }
    };
    assert_eq!(document.header("content-length"), Some(&*document.body.len().to_string()));
    let result = json!({"content": [{"type": "hologram", "beams": 3}], "x-vendor": [1, 2]});
    assert_eq!(document.json(), json!({"jsonrpc": "2.0", "id": 1, "result": result}));
    let stream = call("vendor__late");
    assert_eq!((kind(&stream), stream.status), ("text/event-stream".to_owned(), 200));
    assert!(stream.body.contains("\nretry: 3000\n"), "{stream:?}");
    assert_eq!(stream.message()["result"]["content"][0]["text"], "at last");
    // The modern protocol has no sessions, and an unknown version is refused.
    let newer = ("MCP-Protocol-Version", "2026-07-28");
    let mine = ("Mcp-Session-Id", session.as_str());
    let odd = request(2, "tools/call", &json!({"name": "vendor__odd"}));
    assert_eq!(service.mcp(&service.token, &[mine, newer], &odd).status, 400);
    let unknown = ("MCP-Protocol-Version", "1999-01-01");
    assert_eq!(service.mcp(&service.token, &[mine, unknown], &odd).status, 400);
    let ping = service.mcp(&service.token, &[mine], &request(3, "ping", &json!({})));
    assert_eq!(ping.message(), json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
}

#[test]
fn a_session_opens_nothing_for_another_token() {
    let service = Service::start();
    let token = service.token.clone();
    let session = service.session(&token);
    let other = service.token(&["new"]);
    let list = request(1, "tools/list", &json!({}));
    let headers = [("Mcp-Session-Id", session.as_str())];
    assert_eq!(service.mcp(&other, &headers, &list).status, 404);
    assert_eq!(service.mcp(&token, &headers, &list).status, 200);
    let auth = service.auth();
    let ended = [headers[0], ("Authorization", auth.as_str())];
    assert_eq!(service.send("DELETE", "/mcp", &ended, "").status, 204);
    assert_eq!(service.mcp(&token, &headers, &list).status, 404);
}

#[cfg(unix)]
#[test]
fn the_token_file_is_private_and_sigterm_ends_the_service_with_0() {
    use std::os::unix::fs::PermissionsExt;
    let service = Service::start();
    let meta = std::fs::metadata(service.folder.join("token")).unwrap();
    assert_eq!(meta.permissions().mode() & 0o777, 0o600);
    assert_eq!(service.end().code(), Some(0));
}

/// A client over a pipe.
struct Pipe {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Pipe {
    fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let stdin = child.stdin.take();
        Self { child, stdin, stdout }
    }

    fn tell(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.tell(message);
        loop {
            let answer = self.next();
            if answer["id"] == message["id"] {
                return answer;
            }
        }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.stdout.read_line(&mut line).unwrap() > 0, "it closed its output");
        serde_json::from_str(&line).unwrap()
    }
}

#[test]
fn an_editor_starts_it_over_stdio_and_it_ends_with_its_stdin() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = program();
    command.args(["serve", "--stdio", "-c"]).arg(configured(folder.path()));
    let mut pipe = Pipe::start(command.env("MCPDECK_STATE_DIR", folder.path().join("state")));
    let hello = pipe.ask(&initialize());
    assert_eq!(hello["result"]["serverInfo"]["name"], "mcpdeck");
    pipe.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    // The first list includes all servers, although they are still starting.
    let mut id = 1;
    let listed = pipe.ask(&request(id, "tools/list", &json!({})));
    let tools = listed["result"]["tools"].as_array().unwrap();
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    assert_eq!(named("vendor__odd")["x-vendor"]["cost"], 7);
    assert!(tools.iter().any(|tool| tool["name"].as_str().unwrap().starts_with("greeter")));
    // When the configuration changes, the client is notified and gets the new list.
    let config = folder.path().join("mcp.json");
    let mut edited: Value = serde_json::from_slice(&std::fs::read(&config).unwrap()).unwrap();
    edited["servers"].as_object_mut().unwrap().remove("greeter");
    std::fs::write(&config, edited.to_string()).unwrap();
    loop {
        id += 1;
        while pipe.next()["method"] != "notifications/tools/list_changed" {}
        let listed = pipe.ask(&request(id, "tools/list", &json!({})));
        let tools = listed["result"]["tools"].as_array().unwrap();
        if !tools.iter().any(|tool| tool["name"].as_str().unwrap().starts_with("greeter")) {
            break;
        }
    }
    let params = json!({"name": "vendor__odd"});
    let called = pipe.ask(&request(100_000, "tools/call", &params));
    assert_eq!(called["result"]["x-vendor"], json!([1, 2]), "{called}");
    // Only updates of its subscriptions are sent over the pipe.
    let uri = json!({"uri": "vendor://a"});
    let subscribed = pipe.ask(&request(100_001, "resources/subscribe", &uri));
    assert!(subscribed["result"].is_object(), "{subscribed}");
    let touch = request(100_002, "tools/call", &json!({"name": "vendor__touch"}));
    writeln!(pipe.stdin.as_mut().unwrap(), "{touch}").unwrap();
    let heard = loop {
        let message = pipe.next();
        if message["method"] == "notifications/resources/updated" {
            break message;
        }
    };
    assert_eq!(heard["params"]["uri"], "vendor://a");
    drop(pipe.stdin.take());
    assert_eq!(pipe.child.wait().unwrap().code(), Some(0));
}

/// The operator's view of a running service.
struct Window {
    world: crate::fake::World,
    clients: mcpdeck::deck::Clients,
    port: String,
    token: String,
    _folder: tempfile::TempDir,
    _stop: tokio_util::sync::DropGuard,
}

impl Window {
    async fn open() -> Self {
        Self::over(crate::fake::config(&[("a", &[])])).await
    }

    async fn over(config: mcpdeck::config::McpConfig) -> Self {
        use mcpdeck::host::{Policy, PolicyConfig, Rules};
        let world = crate::fake::World::default();
        let bridge = Bridge::default();
        let host = world.host(config).handler(bridge.clone());
        let host = host.startup(mcpdeck::host::Startup::Available).initialize().await.unwrap();
        let config = json!({"profiles": {"reader": {"allow": ["*"]}}});
        let config: PolicyConfig = serde_json::from_value(config).unwrap();
        let rules = Rules::compile(&config).unwrap().into();
        host.set_policy(config, Policy { rules, ..Policy::default() });
        let folder = tempfile::tempdir().unwrap();
        let tokens = ClientTokens::from_state_dir(folder.path());
        let scopes = DEFAULT_SCOPES.to_vec();
        let (token, _) = tokens.create("reader", scopes, None, host.clock().now()).unwrap();
        let clients = mcpdeck::deck::Clients::default();
        let options = ServeOptions { tokens, clients: clients.clone(), ..ServeOptions::default() };
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port().to_string();
        let service =
            mcpdeck::gateway::GatewayService::on(listener, host, bridge, options).unwrap();
        let stop = tokio_util::sync::CancellationToken::new();
        tokio::spawn(service.run(stop.clone()));
        let (token, stop) = (token.expose().to_owned(), stop.drop_guard());
        Self { world, clients, port, token, _folder: folder, _stop: stop }
    }

    fn ask(&self, method: &'static str, path: &'static str) -> tokio::task::JoinHandle<Answer> {
        let (port, auth) = (self.port.clone(), format!("Bearer {}", self.token));
        tokio::task::spawn_blocking(move || {
            let headers = [("Authorization", &*auth), ("Content-Type", "application/json")];
            send(&port, method, path, &headers, "{}")
        })
    }

    async fn until(&self, look: impl Fn(&mcpdeck::deck::ClientView) -> bool) {
        while !self.clients.list().first().is_some_and(&look) {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_never_finishes_the_head_of_a_request_is_closed() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let window = Window::open().await;
    for sent in ["", "GET /healthz HTTP/1.1\r\nHost: 127"] {
        let address = format!("127.0.0.1:{}", window.port);
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        // The paused clock only advances when all tasks are idle.
        let mut answer = Vec::new();
        let closed = stream.read_to_end(&mut answer);
        tokio::time::timeout(Duration::from_secs(40), closed).await.expect("closed").unwrap();
    }
    assert_eq!(window.ask("GET", "/healthz").await.unwrap().status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_arrives_slowly_is_cut_even_with_a_token() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let window = Window::open().await;
    for path in ["/mcp", "/tools/a__echo/call"] {
        let address = format!("127.0.0.1:{}", window.port);
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
            window.port, window.token,
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let closed = stream.read_to_end(&mut answer);
        tokio::time::timeout(Duration::from_secs(40), closed).await.expect("closed").unwrap();
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with("HTTP/1.1 408"), "{path} {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_client_never_brings_the_input_ends_after_ten_minutes() {
    use mcpdeck::protocol::{RequestKind, ServerRequest};
    let window = Window::open().await;
    let server = window.world.server("a");
    let asking = std::sync::Arc::clone(&server);
    server.answers(move |_, call| {
        let asked = asking.context().approvals.ask(ServerRequest {
            server: crate::fake::name("a"),
            kind: RequestKind::Elicitation,
            call: call.call,
            candidates: vec![],
            params: json!({"message": "who?", "requestedSchema": {"type": "object"}}).into(),
            bytes: 15,
            deferred: false,
            input: None,
            withdrawn: tokio_util::sync::CancellationToken::default(),
            claim: std::sync::Arc::default(),
        });
        async move {
            asked.await;
            Ok(json!({"content": []}))
        }
    });
    let (port, auth) = (window.port.clone(), format!("Bearer {}", window.token));
    let asked = tokio::task::spawn_blocking(move || {
        let headers = [
            ("Authorization", auth.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "echo"),
        ];
        let can = json!({"io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}});
        let params = modern(json!({"name": "echo", "arguments": {}}), &can);
        send(&port, "POST", "/mcp", &headers, &request(1, "tools/call", &params).to_string())
    });
    let asked = asked.await.unwrap().message();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    let active = || window.clients.list()[0].active.len();
    tokio::time::sleep(Duration::from_secs(590)).await;
    assert_eq!(active(), 1);
    tokio::time::sleep(Duration::from_secs(15)).await;
    assert_eq!(active(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_waits_for_the_person_is_waited_for_by_no_client() {
    let mut config = crate::fake::config(&[("a", &[]), ("b", &[])]);
    let held = config.servers.values_mut().find(|server| server.name.as_str() == "b").unwrap();
    held.hold = Some(mcpdeck::config::Hold::Approval);
    let window = Window::over(config).await;
    let ready = window.ask("GET", "/readyz").await.unwrap();
    assert_eq!(ready.status, 200, "{ready:?}");
    let call = window.ask("POST", "/tools/b__echo/call").await.unwrap();
    assert_eq!(
        (call.status, call.json()["error"]["code"].as_str()),
        (503, Some("ERR_SERVER_UNAVAILABLE"))
    );
    let message = "`b__echo` is not known yet: its server waits for the operator";
    assert_eq!(call.json()["error"]["message"], message);
    let call = window.ask("POST", "/tools/a__eco/call").await.unwrap();
    let message = "there is no `a__eco`; did you mean `a__echo`?";
    assert_eq!((call.status, call.json()["error"]["message"].as_str()), (404, Some(message)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_sees_a_client_and_pauses_cuts_and_revokes_it() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    let window = Window::open().await;
    assert_eq!(window.ask("GET", "/tools").await.unwrap().status, 200);
    let client = window.clients.list().remove(0);
    let origin = client.principal.origin.to_string();
    assert_eq!((&*client.principal.profile, client.calls), ("reader", 0));
    let reached = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reached);
    window.world.server("a").answers(move |_, context| {
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            context.cancel.cancelled().await;
            Err(mcpdeck::Error::new(mcpdeck::ErrorCode::Cancelled, "cancelled"))
        }
    });

    assert!(window.clients.pause(&origin));
    let held = window.ask("POST", "/tools/echo/call");
    window.until(|now| now.seen > client.seen).await;
    // Requests other than calls are still served.
    assert_eq!(window.ask("GET", "/servers").await.unwrap().status, 200);
    assert_eq!(reached.load(Ordering::SeqCst), 0);
    assert!(window.clients.list()[0].is_paused && !held.is_finished());
    assert!(!window.clients.pause(&origin));
    window.until(|now| now.active.iter().any(|call| call.as_str() == "a.echo")).await;

    window.clients.cut(&origin);
    let cut = held.await.unwrap();
    assert_eq!(cut.json()["error"]["code"], "ERR_TOOL_FAILED", "{cut:?}");
    let now = window.clients.list().remove(0);
    assert_eq!((now.calls, now.failed, now.active.len()), (1, 1, 0));
    window.world.server("a").answers(|_, _| async { Ok(json!({"content": []})) });
    assert_eq!(window.ask("POST", "/tools/echo/call").await.unwrap().status, 200, "it came again");

    window.clients.pause(&origin);
    window.clients.revoke(&origin).unwrap();
    let now = window.clients.list().remove(0);
    assert!(now.is_revoked && !now.is_paused, "{now:?}");
    assert_eq!(window.ask("GET", "/tools").await.unwrap().status, 401);
    assert!(window.clients.revoke(&origin).is_err(), "there is no token any more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_events_ends_when_its_token_does() {
    let window = Window::open().await;
    let (port, auth) = (window.port.clone(), format!("Bearer {}", window.token));
    let (opened, is_open) = tokio::sync::oneshot::channel();
    let stream = tokio::task::spawn_blocking(move || {
        let headers = [
            ("Authorization", &*auth),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let hello = send(&port, "POST", "/mcp", &headers, &initialize().to_string());
        let session = hello.header("mcp-session-id").unwrap();
        let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let text = format!(
            "GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: {auth}\r\n\
             Accept: text/event-stream\r\nMcp-Session-Id: {session}\r\n\r\n"
        );
        stream.write_all(text.as_bytes()).unwrap();
        let mut stream = BufReader::new(stream);
        let mut status = String::new();
        stream.read_line(&mut status).unwrap();
        opened.send(status).unwrap();
        // Chunks, up to the empty one.
        let mut line = String::new();
        while line.trim_end() != "0" {
            line.clear();
            assert!(stream.read_line(&mut line).unwrap() > 0, "it ends as it should");
        }
    });
    assert!(is_open.await.unwrap().contains(" 200 "));
    let origin = window.clients.list()[0].principal.origin.to_string();
    window.clients.revoke(&origin).unwrap();
    stream.await.unwrap();
}

#[test]
fn decks_that_serve_each_other_list_and_call_in_no_circle() {
    let folder = tempfile::tempdir().unwrap();
    let token = "deck-".repeat(8);
    let addresses = [0; 2].map(|_| format!("127.0.0.1:{}", crate::port::free()));
    let decks = [0, 1].map(|number| {
        let own = folder.path().join(number.to_string());
        std::fs::create_dir(&own).unwrap();
        configured(&own);
        let config = json!({"servers": {
            "own": {"command": env!("CARGO_BIN_EXE_mcpdeck"), "args": ["mock", own.join("vendor.jsonc")]},
            "other": {
                "url": format!("http://{}/mcp", addresses[1 - number]),
                "headers": {"Authorization": format!("Bearer {token}")},
            },
        }});
        std::fs::write(own.join("mcp.json"), config.to_string()).unwrap();
        std::fs::write(own.join("token"), &token).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(
            own.join("token"),
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )
        .unwrap();
        Service::launch(&own, &addresses[number], &[])
    });
    let longest = |deck: &Service| {
        let tools = deck.get("/tools").json();
        let names =
            tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        names.map(|name| name.matches("other__").count()).max().unwrap()
    };
    // Each refetches the other's lists, which include its own lists as fetched before.
    let mut depth = 0;
    for deck in [&decks[0], &decks[1]].into_iter().cycle().take(10) {
        let read = deck.post("/servers/restart", &json!({"server": "other"}));
        assert_eq!(read.status, 200, "{read:?}");
        depth = depth.max(longest(deck));
    }
    assert_eq!(depth, 4, "what came through four decks goes no further");
    let call = |hops: u64| {
        let params = json!({"name": "other__own__odd"});
        let call = request(1, "tools/call", &modern(params, &json!({"mcpdeck/hops": hops})));
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "other__own__odd"),
        ];
        decks[0].mcp(&token, &headers, &call).message()
    };
    assert_eq!(call(0)["result"]["x-vendor"], json!([1, 2]));
    // The second deck refuses it, because the first one increments the count.
    for hops in [3, 4] {
        let refused = call(hops);
        let words = refused["error"]["message"].as_str().unwrap_or_default();
        assert!(words.contains("came through 4 decks"), "{refused}");
    }
}

/// Two decks that list each other would otherwise wait for each other.
#[test]
fn a_deck_is_given_the_lists_as_they_are_while_servers_start() {
    let folder = tempfile::tempdir().unwrap();
    // A server that never answers.
    let server = json!({"command": "sleep", "args": ["600"], "startupTimeout": 600});
    std::fs::write(
        folder.path().join("mcp.json"),
        json!({"servers": {"mute": server}}).to_string(),
    )
    .unwrap();
    let service = Service::launch(folder.path(), "127.0.0.1:0", &[]);
    let mut hello = initialize();
    hello["params"]["clientInfo"]["name"] = json!("mcpdeck");
    let hello = service.mcp(&service.token, &[], &hello);
    let session = [("Mcp-Session-Id", hello.header("mcp-session-id").unwrap())];
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(service.mcp(&service.token, &session, &done).status, 202);
    let list = request(1, "tools/list", &json!({}));
    let asked = std::time::Instant::now();
    let list = service.mcp(&service.token, &session, &list).message();
    assert_eq!(list["result"]["tools"], json!([]));
    assert!(asked.elapsed() < Duration::from_secs(40), "others wait for 50 seconds");
    assert_eq!(service.get("/readyz").json()["reason"], "servers are starting");
}

/// The files in `fixtures/deploy` match the program.
#[test]
fn the_shipped_deployment_files_fit_the_program() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/deploy"));
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let service = Service::start();
    service.post("/tools/vendor__fail/call", &json!({}));
    let metrics = service.get("/metrics").body;
    let dashboard: Value = serde_json::from_str(&read("grafana/mcpdeck.json")).unwrap();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            let known = words.filter(|word| word.len() > 8 && word.contains('_'));
            for name in known.filter(|word| !word.starts_with("histogram_quantile")) {
                assert!(metrics.contains(name), "{name} is no metric of the service");
            }
        }
    }
    // The commands in the unit, the container and the compose file are valid.
    let unit = read("mcpdeck.service");
    let unit = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).unwrap();
    let unit: Vec<String> = unit.split(' ').skip(1).map(str::to_owned).collect();
    let container = read("Containerfile");
    // A cluster that wants no root believes numbers alone.
    let user = container.lines().find_map(|line| line.strip_prefix("USER ")).unwrap();
    assert!(user.split(':').all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)), "{user}");
    let container = container.lines().find_map(|line| line.strip_prefix("CMD ")).unwrap();
    let container: Vec<String> = serde_json::from_str(container).unwrap();
    let compose = read("compose.yml");
    let compose = compose.split_once("command:").unwrap().1.split_once("volumes:").unwrap().0;
    let compose = compose.lines().filter_map(|line| line.trim().strip_prefix("- "));
    let compose: Vec<String> = compose.map(str::to_owned).collect();
    #[cfg(feature = "cluster")]
    {
        let cluster = read("cluster.yml");
        let cluster = cluster.split_once("command:").unwrap().1.split_once("build:").unwrap().0;
        let cluster = cluster.lines().filter_map(|line| line.trim().strip_prefix("- "));
        let out = program().args(cluster).arg("--help").output().unwrap();
        assert!(out.status.success(), "{out:?}");
    }
    for command in [unit, container, compose] {
        let out = program().args(&command).arg("--help").output().unwrap();
        assert!(out.status.success(), "{command:?}: {out:?}");
    }
    let config = folder.join("mcp.json");
    let out = program().args(["grants", "list", "-c"]).arg(&config).output().unwrap();
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn numbers_of_rest_callers_go_out_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("calls.jsonl");
    let service = Service::with(&json!({}), &["--record", recording.to_str().unwrap()]);
    let auth = service.auth();
    let headers = [("Authorization", auth.as_str()), ("Content-Type", "application/json")];
    let call = |body: &str| service.send("POST", "/tools/vendor__odd/call", &headers, body);
    let written = r#"{"n":1e-400,"i":123456789012345678901234567890,"l":[1E3,{"d":0.10}]}"#;
    assert_eq!(call(&format!(r#"{{"arguments": {written}}}"#)).status, 200);
    let sent = || {
        let text = std::fs::read_to_string(&recording).ok()?;
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut bodies = lines.filter_map(|line| Some(line["body"].as_str()?.to_owned()));
        bodies.find(|body| body.contains("tools/call"))
    };
    let sent = crate::support::wait_for("the call in the recording", Duration::from_secs(30), sent);
    assert!(sent.contains(&format!(r#""arguments":{written}"#)), "{sent}");
    for (body, status) in [
        (r#"{"arguments": null}"#, 200),
        ("{}", 200),
        (r#"{"arguments": [1]}"#, 422),
        (r#"{"arguments": "x"}"#, 422),
        (r#"{"arguments": {"n": NaN}}"#, 400),
    ] {
        assert_eq!(call(body).status, status, "{body}");
    }
}

#[test]
fn the_profile_suggested_for_a_recording_permits_what_it_holds_and_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let file = configured(folder.path());
    let run = |args: &[&str]| {
        let state = folder.path().join("state");
        let mut run = program();
        let out = run.args(args).arg("-c").arg(&file).env("MCPDECK_STATE_DIR", state).output();
        let out = out.unwrap();
        (out.status.code(), String::from_utf8(out.stdout).unwrap())
    };
    let recording = folder.path().join("calls.jsonl");
    let recording = recording.to_str().unwrap();
    run(&["call", "vendor.odd", "--record", recording]);
    let (_, suggested) = run(&["policy", "suggest", recording, "--profile", "ci"]);
    let suggested: Value = serde_json::from_str(&suggested).unwrap();
    let policy = json!({"profiles": {"ci": {"allow": ["vendor.odd"]}}});
    assert_eq!(suggested["policy"], policy);
    let before = run(&["policy", "test", recording, "--profile", "ci"]);
    assert_eq!(before, (Some(1), before.1.clone()), "nothing is permitted yet");
    assert!(before.1.ends_with("blocks 1 of 1, asks about 0\n"), "{}", before.1);
    std::fs::write(folder.path().join("mcpdeck.policy.json"), policy.to_string()).unwrap();
    let after = run(&["policy", "why", "gateway:x", "vendor.fail", "--profile", "ci", "--json"]);
    assert!(after.1.contains("notListed"), "{after:?}");
}
