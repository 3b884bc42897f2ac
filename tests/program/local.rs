//! The local socket of a running service: the browser bridge, and an attached dashboard.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::pty::{Launch, Size};
use serde_json::{Value, json};

/// Numbers that a double or 64 bits cannot hold.
const ODD: &str = r#"{"n":[1e3,1e-400,1e400,123456789012345678901234567890]}"#;

/// Such as the scripted server can read itself.
const SENT: &str = r#"{"n":[1e3,1e-400,123456789012345678901234567890]}"#;

/// A service with one scripted server, and its state in `home`.
struct Service {
    child: Child,
    url: String,
    token: String,
    state: PathBuf,
}

impl Service {
    fn start(home: &Path, policy: &Value) -> Self {
        let greeting = json!({
            "tools": [{"name": "greet", "inputSchema": {"type": "object"}},
                {"name": "long", "inputSchema": {"type": "object"}}],
            "calls": {"greet": {"text": "hello"}, "long": {"text": "x".repeat(2 << 20)}},
        });
        Self::playing(home, &greeting, policy)
    }

    fn playing(home: &Path, greeting: &Value, policy: &Value) -> Self {
        let script = home.join("greeter.mock.json");
        std::fs::write(&script, greeting.to_string()).unwrap();
        let entry = json!({"command": crate::support::bin(), "args": ["mock", script]});
        let servers = json!({"servers": {"greeter": entry}});
        std::fs::write(home.join("mcp.json"), servers.to_string()).unwrap();
        std::fs::write(home.join("mcpdeck.policy.json"), policy.to_string()).unwrap();
        let state = home.join("state");
        let mut child = Command::new(crate::support::bin())
            .args(["serve", "--listen", "127.0.0.1:0", "-c"])
            .arg(home.join("mcp.json"))
            .arg("--record")
            .arg(home.join("calls.jsonl"))
            .env("MCPDECK_STATE_DIR", &state)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        let token = std::fs::read_to_string(event["tokenFile"].as_str().unwrap()).unwrap();
        let url = event["url"].as_str().unwrap().to_owned();
        Self { child, url, token: token.trim().to_owned(), state }
    }

    /// Calls a tool over REST; returns the whole answer.
    fn call(url: &str, token: &str, tool: &str) -> String {
        Self::request(url, token, &format!("POST /tools/{tool}/call"), "{}")
    }

    fn send(&self, what: &str, body: &str) -> String {
        Self::request(&self.url, &self.token, what, body)
    }

    fn request(url: &str, token: &str, what: &str, body: &str) -> String {
        let address = url.strip_prefix("http://").unwrap();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request = format!(
            "{what} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        crate::support::kill(self.child.id(), "TERM");
        let _ = self.child.wait();
    }
}

/// The bridge, as a browser starts it.
struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
}

impl Bridge {
    fn start(program: &Path, state: &Path, caller: &str) -> Self {
        let mut child = Command::new(program)
            .arg(caller)
            .env("MCPDECK_STATE_DIR", state)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        Self { child, stdin, stdout }
    }

    fn say(&mut self, message: &Value) {
        self.write(&message.to_string());
    }

    fn write(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(&(text.len() as u32).to_ne_bytes()).unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
    }

    fn hear(&mut self) -> Value {
        serde_json::from_str(&self.read()).unwrap()
    }

    fn read(&mut self) -> String {
        let mut length = [0; 4];
        self.stdout.read_exact(&mut length).unwrap();
        let length = u32::from_ne_bytes(length) as usize;
        assert!(length <= 1 << 20, "a browser takes no longer one: {length}");
        let mut text = vec![0; length];
        self.stdout.read_exact(&mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn ask(&mut self, message: &Value) -> Value {
        self.say(message);
        self.hear()
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ = self.child.wait();
    }
}

const EXTENSION: &str = "deck@example.org";
const PAGE: &str = "https://example.org";

/// The program that the manifest of an installed bridge names.
fn installed(home: &Path) -> PathBuf {
    let done = Command::new(crate::support::bin())
        .args(["native-host", "install", "--browser", "firefox", "--extension", EXTENSION])
        .env("HOME", home)
        .env("MCPDECK_STATE_DIR", home.join("state"))
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let manifest = std::fs::read(String::from_utf8(done.stdout).unwrap().trim()).unwrap();
    let manifest: Value = serde_json::from_slice(&manifest).unwrap();
    assert_eq!(manifest["allowed_extensions"], json!([EXTENSION]));
    PathBuf::from(manifest["path"].as_str().unwrap())
}

#[test]
fn an_extension_grants_checks_lists_calls_and_takes_back() {
    let home = tempfile::tempdir().unwrap();
    let program = installed(home.path());
    let state = home.path().join("state");
    let stats = json!({"type": "host_get_stats", "request_id": 1});
    let unserved = Bridge::start(&program, &state, EXTENSION).ask(&stats);
    assert_eq!(unserved["error"]["code"], "ERR_SERVER_UNAVAILABLE", "{unserved}");
    let service = Service::start(home.path(), &json!({}));
    let socket =
        std::fs::read_dir(service.state.join("services")).unwrap().next().unwrap().unwrap();
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let mut bridge = Bridge::start(&program, &state, EXTENSION);
    crate::support::wait_for("the server", crate::pty::PATIENCE, || {
        let stats = bridge.ask(&stats);
        (stats["servers"][0]["state"] == "ready").then_some(())
    });
    let of_page = |kind: &str, more: Value| {
        let mut message = json!({"type": kind, "request_id": kind, "origin": PAGE});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        message
    };
    let call = of_page("host_call_tool", json!({"tool": "greeter.greet", "tab_id": 7}));
    let refused = bridge.ask(&call);
    assert_eq!(refused["error"]["code"], "ERR_PERMISSION_DENIED", "{refused}");
    assert_eq!(refused["request_id"], "host_call_tool");
    let mut grant = json!({"scope": "mcp:tools.call", "grant_type": "ALLOW_ONCE", "tab_id": 7,
        "allowed_tools": ["greeter.*"], "expires_in": -5});
    let refused = bridge.ask(&of_page("host_grant_permission", grant.clone()));
    assert_eq!(refused["error"]["code"], "ERR_PROTOCOL_ERROR", "not granted without an end");
    grant["expires_in"] = 600.into();
    grant["allowed_tools"] = json!(["greeter/*", "greter:greet"]);
    let granted = bridge.ask(&of_page("host_grant_permission", grant));
    assert_eq!(granted["type"], "host_grant_permission_result", "{granted}");
    let warnings = granted["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 1, "{granted}");
    assert!(warnings[0].as_str().unwrap().contains("did you mean `greeter.greet`"), "{granted}");
    let check = |tab| {
        let of = json!({"scope": "mcp:tools.call", "tool": "greeter.greet", "tab_id": tab});
        of_page("host_check_permission", of)
    };
    assert_eq!(bridge.ask(&check(7))["granted"], true);
    assert_eq!(bridge.ask(&check(8))["granted"], false, "another tab");
    let listed = bridge.ask(&of_page("host_list_tools", json!({"tab_id": 7})));
    assert_eq!(listed["tools"][0]["name"], "greeter.greet", "{listed}");
    let called = bridge.ask(&call);
    assert_eq!(called["result"]["content"][0]["text"], "hello", "{called}");
    assert_eq!(called["provenance"]["origin"], format!("browser:{PAGE}"));
    for tool in ["greeter/greet", "greeter:greet", "greeter__greet", "greet"] {
        let run = json!({"tool": tool, "tab_id": 7, "run_id": tool});
        let called = bridge.ask(&of_page("host_call_tool", run));
        assert_eq!(called["result"]["content"][0]["text"], "hello", "{tool}: {called}");
        let check = json!({"scope": "mcp:tools.call", "tool": tool, "tab_id": 7});
        assert_eq!(bridge.ask(&of_page("host_check_permission", check))["granted"], true, "{tool}");
    }
    let begun = bridge.ask(&of_page("host_begin_run", json!({"run_id": "r", "calls": 1})));
    assert_eq!((&begun["left"], &begun["type"]), (&json!(1), &json!("host_begin_run_result")));
    let in_run = of_page("host_call_tool", json!({"tool": "greet", "tab_id": 7, "run_id": "r"}));
    assert_eq!(bridge.ask(&in_run)["result"]["content"][0]["text"], "hello");
    assert_eq!(bridge.ask(&in_run)["error"]["code"], "ERR_BUDGET_EXCEEDED");
    let left = bridge.ask(&of_page("host_get_run", json!({"run_id": "r"})));
    assert_eq!((&left["spent"], &left["left"]), (&json!(1), &json!(0)), "{left}");
    assert_eq!(bridge.ask(&of_page("host_end_run", json!({"run_id": "r"})))["spent"], 1);
    assert_eq!(bridge.ask(&in_run)["result"]["content"][0]["text"], "hello", "a new run");
    let grants = bridge.ask(&of_page("host_get_permissions", json!({})));
    assert_eq!(grants["grants"].as_array().unwrap().len(), 1, "{grants}");
    // Messages over the browser's limit are split into parts.
    bridge.say(&of_page("host_call_tool", json!({"tool": "greeter.long", "tab_id": 7})));
    let first = bridge.hear();
    let mut whole = first["text"].as_str().unwrap().to_owned();
    for _ in 1..first["count"].as_u64().unwrap() {
        whole.push_str(bridge.hear()["text"].as_str().unwrap());
    }
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["result"]["content"][0]["text"].as_str().unwrap().len(), 2 << 20);
    let ended = bridge.ask(&json!({"type": "host_expire_tab_grants", "tab_id": 7}));
    assert_eq!(ended["expired"], 1, "{ended}");
    assert_eq!(bridge.ask(&call)["error"]["code"], "ERR_PERMISSION_DENIED");
    let always = json!({"scope": "mcp:tools.list", "grant_type": "ALLOW_ALWAYS"});
    bridge.ask(&of_page("host_grant_permission", always));
    let revoked = bridge.ask(&of_page("host_revoke_permission", json!({})));
    assert_eq!(revoked["revoked"], 1, "{revoked}");
    // Extensions must not send the orders of an attached dashboard.
    let order = bridge.ask(&json!({"type": "order", "order": {"stop": "greeter"}}));
    assert_eq!(order["error"]["code"], "ERR_PROTOCOL_ERROR", "{order}");
}

#[test]
fn numbers_of_an_extension_go_both_ways_as_they_were_written() {
    let home = tempfile::tempdir().unwrap();
    let program = installed(home.path());
    let allow = json!({"profiles": {"default": {"allow": ["greeter.*"]}}});
    let counting = json!({
        "tools": [{"name": "odd", "inputSchema": {"type": "object", "default": {"$raw": ODD}}}],
        "calls": {"odd": {"answer": {"content": [], "structuredContent": {"$raw": ODD}}}},
    });
    let service = Service::playing(home.path(), &counting, &allow);
    let mut bridge = Bridge::start(&program, &service.state, EXTENSION);
    for scope in ["mcp:tools.list", "mcp:tools.call"] {
        let grant = json!({"type": "host_grant_permission", "origin": PAGE, "scope": scope,
            "grant_type": "ALLOW_ALWAYS", "allowed_tools": ["greeter.*"]});
        let granted = bridge.ask(&grant);
        assert_eq!(granted["type"], "host_grant_permission_result", "{granted}");
    }
    let id = "123456789012345678901234567890";
    let mut asked = |kind: &str, more: &str| {
        bridge.write(&format!(
            r#"{{"type":"{kind}","request_id":{id},"origin":"{PAGE}","tool":"greeter.odd"{more}}}"#
        ));
        bridge.read()
    };
    let called = crate::support::wait_for("the server", crate::pty::PATIENCE, || {
        let called = asked("host_call_tool", &format!(r#","arguments":{SENT}"#));
        called.contains("host_call_tool_result").then_some(called)
    });
    assert!(called.contains(&format!(r#""structuredContent":{ODD}"#)), "{called}");
    crate::support::wait_for("the call as it was written", crate::pty::PATIENCE, || {
        let recorded = std::fs::read_to_string(home.path().join("calls.jsonl")).ok()?;
        let lines = recorded.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut bodies = lines.filter_map(|line| Some(line["body"].as_str()?.to_owned()));
        bodies.any(|body| body.contains(&format!(r#""arguments":{SENT}"#))).then_some(())
    });
    assert!(called.contains(&format!(r#""request_id":{id}"#)), "{called}");
    let listed = asked("host_list_tools", "");
    assert!(listed.contains(&format!(r#""default":{ODD}"#)), "{listed}");
    let refused = asked("host_no_such", "");
    assert!(refused.contains(&format!(r#""request_id":{id}"#)), "{refused}");
}

#[test]
fn an_attached_dashboard_shows_definitions_with_such_numbers() {
    let launch = Launch::new(Size::WIDE, &["attach"]);
    let odd = json!({"type": "object", "properties": {"n": {"maximum": {"$raw": "1e400"}}}});
    let counting = json!({"tools": [{"name": "odd", "inputSchema": odd}]});
    let _service = Service::playing(launch.home(), &counting, &json!({}));
    let mut deck = launch.start();
    deck.wait("1 ready");
    deck.keys("2");
    deck.wait("maximum");
}

#[test]
fn an_extension_that_was_not_let_in_is_turned_away() {
    let home = tempfile::tempdir().unwrap();
    let program = installed(home.path());
    let _service = Service::start(home.path(), &json!({}));
    let mut other = Bridge::start(&program, &home.path().join("state"), "other@example.org");
    let status = other.child.wait().unwrap();
    assert_eq!(status.code(), Some(2));
}

#[test]
fn an_attached_dashboard_watches_restarts_answers_and_revokes_and_the_service_goes_on() {
    let launch = Launch::new(Size::WIDE, &["attach"]);
    let ask = json!({"profiles": {"default": {"allow": ["greeter.*"], "ask": ["greeter.greet"]}}});
    let service = Service::start(launch.home(), &ask);
    let made = Command::new(crate::support::bin())
        .args(["token", "new"])
        .env("MCPDECK_STATE_DIR", &service.state)
        .output()
        .unwrap();
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    let mut deck = launch.start();
    deck.wait("1 ready");
    let (url, asking) = (service.url.clone(), token.clone());
    let call = std::thread::spawn(move || Service::call(&url, &asking, "greet"));
    deck.wait("1 waiting");
    deck.keys("\x07");
    deck.wait("gateway:");
    deck.decide("\x1b[15~");
    let answer = call.join().unwrap();
    assert!(answer.contains("hello"), "{answer}");
    // The answered request closes once the service reports it.
    deck.wait_until("the panes", crate::pty::at_panes);
    deck.keys("1");
    deck.wait("greeter        ● ready");
    deck.keys("r");
    crate::support::wait_for("the restart", crate::pty::PATIENCE, || {
        // It asks first while the call that has just been answered is still counted as running.
        if deck.screen().contains("restart server \"greeter\"?") {
            deck.keys("y");
        }
        let metrics = service.send("GET /servers", "");
        metrics.contains("\"restarts\":1").then_some(())
    });
    deck.wait("1 ready");
    deck.wait("MB");
    // One call from the attached dashboard, and one that is cancelled at the service.
    deck.keys("2");
    deck.wait("2 tools of 1 server");
    deck.keys("/long\r\r");
    deck.wait("f5 call");
    deck.keys("\x1b[15~");
    deck.wait("xxxx");
    deck.keys("\x1b");
    deck.wait("f6 result");
    deck.keys("\x1b");
    deck.wait_until("the panes", crate::pty::at_panes);
    deck.keys(":ping greeter\r");
    deck.wait("greeter answers after");
    deck.keys("\x05");
    deck.wait("an attached dashboard cannot do that");
    deck.keys("\x1b");
    deck.quit();
    assert!(service.send("POST /tools/long/call", "{}").contains("xxx"), "it goes on");
    // The request that Enter on a client sends, over the same socket.
    let tokens = Command::new(crate::support::bin())
        .args(["token", "list", "--json"])
        .env("MCPDECK_STATE_DIR", &service.state)
        .output()
        .unwrap();
    let tokens: Value = serde_json::from_slice(&tokens.stdout).unwrap();
    let client = format!("gateway:{}", tokens["tokens"][0]["id"].as_str().unwrap());
    let socket = service.state.join("services").join(format!("{}.sock", service.child.id()));
    let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
    stream
        .write_all(
            format!("{}\n", json!({"type": "order", "order": {"client": ["revoke", client]}}))
                .as_bytes(),
        )
        .unwrap();
    let mut reply = String::new();
    BufReader::new(stream).read_line(&mut reply).unwrap();
    assert!(reply.contains("its token was revoked"), "{reply}");
    assert!(Service::call(&service.url, &token, "long").starts_with("HTTP/1.1 401"));
}
