//! Whom the policy binds: for every caller and every way to call, what `policy why` says is what
//! happens, and the policy service is asked exactly where it says so.
#![cfg(all(unix, feature = "gateway", feature = "chat"))]

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use super::AT_MOST;
use crate::support::{Bench, Finished, wait_for};
use serde_json::{Value, json};

/// The tools: what the policy and its service say of each is in its name.
const TOOLS: [&str; 5] = ["reads", "writes", "denied", "asked", "blocked"];
/// A page that calls.
const PAGE: &str = "https://page.example";

/// A policy service that blocks everything called `blocked`, and remembers who called what.
#[derive(Clone)]
struct Guard {
    url: String,
    seen: Arc<Mutex<BTreeSet<(String, String)>>>,
}

impl Guard {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let guard = Self { url, seen: Arc::default() };
        let seen = Arc::clone(&guard.seen);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let seen = Arc::clone(&seen);
                std::thread::spawn(move || while answer(&stream, &seen).is_some() {});
            }
        });
        guard
    }

    fn take(&self) -> BTreeSet<(String, String)> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }
}

fn answer(stream: &TcpStream, seen: &Mutex<BTreeSet<(String, String)>>) -> Option<()> {
    let mut from = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while from.read_line(&mut line).ok()? > 2 {
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
        line.clear();
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    let question: Value = serde_json::from_slice(&body).ok()?;
    let target = ["tool", "resource", "prompt"].iter().find_map(|kind| question[kind].as_str())?;
    let origin = question["origin"].as_str()?;
    seen.lock().unwrap().insert((origin.to_owned(), target.to_owned()));
    let body = json!({"passed": !target.contains("blocked")}).to_string();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    (&mut &*stream).write_all(format!("{head}{body}").as_bytes()).ok()
}

/// A configuration with one server, its policy, and a service that runs over it.
struct Stage {
    bench: Bench,
    guard: Guard,
    service: Child,
    url: String,
    owner: String,
    client: String,
    client_id: String,
}

impl Drop for Stage {
    fn drop(&mut self) {
        crate::support::kill(self.service.id(), "TERM");
        let _ = self.service.wait();
    }
}

/// One caller: its origin and profile as `policy why` takes them, and how it calls a tool; `None`
/// where it was not called.
struct Row<'s> {
    name: &'static str,
    origin: String,
    profile: Option<&'static str>,
    call: TheCalls<'s>,
}

/// Calls tools; says of each whether the call was made.
type TheCalls<'s> = Box<dyn Fn(&[&str]) -> Vec<bool> + 's>;

fn script() -> Value {
    let tool = |name: &&str| {
        let reads = json!({"readOnlyHint": *name != "writes"});
        json!({"name": name, "inputSchema": {"type": "object"}, "annotations": reads})
    };
    let calls: serde_json::Map<String, Value> =
        TOOLS.iter().map(|name| ((*name).to_owned(), json!({"text": "made"}))).collect();
    let prompts: Vec<Value> = TOOLS.iter().map(|name| json!({"name": name})).collect();
    let block = json!({"type": "text", "text": "made"});
    let got = json!({"answer": {"messages": [{"role": "user", "content": block}]}});
    let gets: serde_json::Map<String, Value> =
        TOOLS.iter().map(|name| ((*name).to_owned(), got.clone())).collect();
    let uri = |name: &str| format!("r://{name}");
    let reads: serde_json::Map<String, Value> = TOOLS
        .iter()
        .map(|name| {
            let contents = json!([{"uri": uri(name), "text": "made"}]);
            (uri(name), json!({"answer": {"contents": contents}}))
        })
        .collect();
    let resources: Vec<Value> =
        TOOLS.iter().map(|name| json!({"uri": uri(name), "name": name})).collect();
    let tools: Vec<Value> = TOOLS.iter().map(tool).collect();
    json!({"tools": tools, "calls": calls, "prompts": prompts, "gets": gets,
        "resources": resources, "reads": reads})
}

impl Stage {
    fn new(applies_to_person: bool) -> Self {
        let bench = Bench::new();
        let entry = bench.mock("s", &script(), &json!({}));
        bench.servers(&json!({"s": entry}));
        let guard = Guard::start();
        let all = |name: &str| {
            json!([format!("s.{name}"), {"prompts": format!("s.{name}")},
                {"resources": format!("r://{name}")}])
        };
        let policy = json!({
            "appliesToPerson": applies_to_person, "limits": {"callsPerRun": 1000}, "deny": all("denied"), "ask": all("asked"),
            "hook": {"url": guard.url},
            "profiles": {"named": {"allow": [{"readOnly": true}]}},
        });
        bench.write("mcpdeck.policy.json", &policy.to_string());
        let saved: serde_json::Map<String, Value> = TOOLS
            .iter()
            .map(|name| ((*name).to_owned(), json!({"tool": format!("s.{name}")})))
            .collect();
        bench.write("mcp.calls.json", &json!({"calls": saved}).to_string());
        let mut command = bench.command(&["serve", "--listen", "127.0.0.1:0"]);
        let mut service = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(service.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let event: Value = serde_json::from_str(&line).unwrap();
        let owner = std::fs::read_to_string(event["tokenFile"].as_str().unwrap()).unwrap();
        let url = event["url"].as_str().unwrap().to_owned();
        let owner = owner.trim().to_owned();
        let (client, client_id) = (String::new(), String::new());
        let mut stage = Self { bench, guard, service, url, owner, client, client_id };
        let token = stage.run(&["token", "new"]).stdout;
        token.trim().clone_into(&mut stage.client);
        let tokens: Value =
            serde_json::from_str(&stage.run(&["token", "list", "--json"]).stdout).unwrap();
        let id = tokens["tokens"][0]["id"].as_str().unwrap();
        id.clone_into(&mut stage.client_id);
        let origin = format!("gateway:{}", stage.client_id);
        stage.run(&["grants", "add", "--origin", &origin, "--for", "1h"]);
        stage.run(&["grants", "add", "--origin", &format!("browser:{PAGE}"), "--for", "1h"]);
        // In force, and what the server offers is known to the files.
        wait_for("the grant", AT_MOST, || stage.rest(&stage.client, "reads").then_some(()));
        stage.guard.take();
        stage
    }

    fn run(&self, args: &[&str]) -> Finished {
        self.bench.run(args, AT_MOST)
    }

    fn made(&self, args: &[&str]) -> bool {
        let done = self.run(args);
        assert!(done.stdout.contains("made") || done.code != Some(0), "{args:?}: {done:#?}");
        done.code == Some(0)
    }

    fn request(&self, token: &str, what: &str, headers: &str, body: &str) -> String {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let request = format!(
            "{what} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n{headers}\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn rest(&self, token: &str, tool: &str) -> bool {
        self.request(token, &format!("POST /tools/{tool}/call"), "", "{}").contains("made")
    }

    fn mcp(&self, token: &str, path: &str, tool: &str) -> bool {
        let headers = "Accept: application/json, text/event-stream\r\n\
                       MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n";
        // One server alone needs no prefix.
        let headers = format!("{headers}Mcp-Name: {tool}\r\n");
        let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {}});
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": tool, "arguments": {}, "_meta": meta}});
        let answer = self.request(token, &format!("POST {path}"), &headers, &body.to_string());
        answer.contains("made")
    }

    /// Asks the socket of the service.
    fn socket(&self, message: &Value) -> Value {
        let folder = self.bench.path().join(".state/mcpdeck/services");
        let path = folder.join(format!("{}.sock", self.service.id()));
        let stream = UnixStream::connect(path).unwrap();
        writeln!(&stream, "{message}").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn at_dashboard(&self, tool: &str) -> bool {
        let id = &self.socket(&json!({"type": "callId"}))["id"];
        let request = json!({"server": "s", "target": {"tool": [tool, {}]},
            "validation": "enforce", "bypassCache": true, "timeout": null});
        let call = json!({"type": "call", "id": id, "request": request});
        self.socket(&call).to_string().contains("made")
    }

    fn by_page(&self, tool: &str) -> bool {
        let call = json!({"type": "host_call_tool", "request_id": 1, "origin": PAGE,
            "tool": format!("s.{tool}"), "arguments": {}});
        self.socket(&call).to_string().contains("made")
    }

    fn over_stdio(&self, args: &[&str], tools: &[&str]) -> Vec<bool> {
        let args = [&["serve", "--stdio"], args].concat();
        let mut child = self
            .bench
            .command(&args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut ask = |message: Value| {
            writeln!(stdin, "{message}").unwrap();
            let mut line = String::new();
            loop {
                line.clear();
                assert!(stdout.read_line(&mut line).unwrap() > 0, "it closed its output");
                let answer: Value = serde_json::from_str(&line).unwrap();
                if answer["id"] == message["id"] {
                    return answer.to_string();
                }
            }
        };
        let client = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"}});
        ask(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": client}));
        // The first list waits for the servers.
        ask(json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}));
        let call = |(at, tool): (usize, &&str)| {
            let params = json!({"name": tool, "arguments": {}});
            let call =
                json!({"jsonrpc": "2.0", "id": at + 2, "method": "tools/call", "params": params});
            ask(call).contains("made")
        };
        let made = tools.iter().enumerate().map(call).collect();
        drop(stdin);
        child.wait().unwrap();
        made
    }

    /// The calls of one turn of a chat.
    fn by_model(&self, args: &[&str], tools: &[&str]) -> Vec<bool> {
        let lines: Vec<String> = tools.iter().map(|tool| format!("call s__{tool} {{}}")).collect();
        let prompt = lines.join("\n");
        let chat = ["chat", "--provider", "embedded", "--json", "-p", &prompt];
        let done = self.run(&[&chat, args].concat());
        let events = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let results: Vec<Value> = events.filter(|event| event["type"] == "toolResult").collect();
        let made = |tool: &&str| {
            let of_tool = |result: &&Value| result["name"] == format!("s__{tool}");
            let result =
                results.iter().find(of_tool).unwrap_or_else(|| panic!("{tool}: {done:#?}"));
            result["isError"] == false
        };
        tools.iter().map(made).collect()
    }

    fn checked(&self, tools: &[&str]) -> Vec<bool> {
        let report = self.run(&["--check", "--calls", "--format", "json"]).stdout;
        assert!(report.contains("verdict"), "{report}");
        tools.iter().map(|tool| !report.contains(&format!("@{tool}: the call failed"))).collect()
    }

    fn rows(&self) -> Vec<Row<'_>> {
        fn each<'s>(call: impl Fn(&str) -> bool + 's) -> TheCalls<'s> {
            Box::new(move |tools| tools.iter().map(|tool| call(tool)).collect())
        }
        let client = format!("gateway:{}", self.client_id);
        let page = format!("browser:{PAGE}");
        let (owner, named) = ("gateway:owner", Some("named"));
        let full = |tool: &str| format!("s.{tool}");
        let load = move |tool: &str| self.run(&["load", &full(tool), "-n", "1"]).code == Some(0);
        let rows: Vec<(&'static str, &str, Option<&'static str>, TheCalls<'_>)> = vec![
            ("dashboard", "dashboard", None, each(|tool| self.at_dashboard(tool))),
            ("call", "cli", None, each(move |tool| self.made(&["call", &full(tool)]))),
            ("load", "cli", None, each(load)),
            ("check", "check", None, Box::new(|tools| self.checked(tools))),
            ("owner, REST", owner, None, each(|tool| self.rest(&self.owner, tool))),
            ("owner, MCP", owner, None, each(|tool| self.mcp(&self.owner, "/mcp", tool))),
            ("path", owner, named, each(|tool| self.mcp(&self.owner, "/mcp/p/named", tool))),
            ("stdio", owner, None, Box::new(|tools| self.over_stdio(&[], tools))),
            (
                "stdio, profile",
                owner,
                named,
                Box::new(|tools| self.over_stdio(&["--profile", "named"], tools)),
            ),
            ("client, REST", &client, None, each(|tool| self.rest(&self.client, tool))),
            ("client, MCP", &client, None, each(|tool| self.mcp(&self.client, "/mcp", tool))),
            ("page", &page, None, each(|tool| self.by_page(tool))),
            ("chat", "chat:cli", None, Box::new(|tools| self.by_model(&[], tools))),
            (
                "chat, profile",
                "chat:cli",
                named,
                Box::new(|tools| self.by_model(&["--profile", "named"], tools)),
            ),
        ];
        let row = |(name, origin, profile, call): (_, &str, _, _)| Row {
            name,
            origin: origin.to_owned(),
            profile,
            call,
        };
        rows.into_iter().map(row).collect()
    }

    /// What `policy why` says: whether it is permitted without a question, whether it is denied, and
    /// whether the service is asked.
    fn why(&self, (origin, profile): (&str, Option<&str>), more: &[&str], target: &str) -> Why {
        let profile: Vec<&str> = profile.into_iter().flat_map(|name| ["--profile", name]).collect();
        let args = [&["policy", "why", origin, target, "--json"], more, &profile].concat();
        let done = self.run(&args);
        let said: Value =
            serde_json::from_str(&done.stdout).unwrap_or_else(|_| panic!("{done:#?}"));
        let effect = said["effect"].as_str().unwrap().to_owned();
        Why { effect, asks_service: said["policyService"] == true }
    }
}

#[derive(Debug)]
struct Why {
    effect: String,
    asks_service: bool,
}

impl Why {
    /// Whether the call is made where nobody can be asked.
    fn is_made(&self, target: &str) -> bool {
        self.effect == "allow" && !(self.asks_service && target.contains("blocked"))
    }
}

fn agree(applies_to_person: bool) {
    let stage = Stage::new(applies_to_person);
    for row in stage.rows() {
        let made = (row.call)(&TOOLS);
        let seen = stage.guard.take();
        for (tool, made) in TOOLS.iter().zip(made) {
            let target = format!("s.{tool}");
            let why = stage.why((&row.origin, row.profile), &[], &target);
            let place =
                format!("{} {tool}, appliesToPerson {applies_to_person}: {why:?}", row.name);
            assert_eq!(made, why.is_made(tool), "{place}");
            let is_asked = why.asks_service && why.effect != "deny";
            let was_asked = seen.contains(&(row.origin.clone(), target));
            assert_eq!(was_asked, is_asked, "the service: {place}");
        }
    }
    for (verb, flag) in [("prompt", "--prompt"), ("read", "--read")] {
        for tool in TOOLS {
            let target = if verb == "read" { format!("r://{tool}") } else { format!("s.{tool}") };
            let made = stage.made(&[verb, &target]);
            let why = stage.why(("cli", None), &[flag], &target);
            assert_eq!(made, why.is_made(tool), "{verb} {tool}: {why:?}");
            let was_asked = stage.guard.take().contains(&("cli".to_owned(), target));
            assert_eq!(was_asked, why.asks_service && why.effect != "deny", "{verb} {tool}");
        }
    }
}

#[test]
fn what_policy_why_says_of_a_caller_is_what_happens() {
    agree(false);
}

#[test]
fn what_policy_why_says_is_what_happens_where_the_policy_applies_to_the_user_too() {
    agree(true);
}

#[test]
fn a_model_is_not_the_user_and_asks_about_what_is_not_read_only() {
    let bench = Bench::new();
    bench.servers(&json!({"s": bench.mock("s", &script(), &json!({}))}));
    let chat = |more: &[&str]| {
        let prompt = "call s__writes {}\ncall s__denied {}\ncall s__asked {}";
        let args = ["chat", "--provider", "embedded", "--json", "-p", prompt];
        let done = bench.run(&[&args, more].concat(), AT_MOST);
        let events = done.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let results = events.filter(|event| event["type"] == "toolResult");
        let made = |event: Value| {
            let made = event["isError"] == false;
            (event["name"].as_str().unwrap().replace("s__", ""), made, event["text"].clone())
        };
        (results.map(made).collect::<Vec<_>>(), done)
    };
    let made = |more: &[&str]| -> Vec<String> {
        let made = chat(more).0.into_iter().filter(|(_, made, _)| *made);
        let mut made: Vec<String> = made.map(|(name, ..)| name).collect();
        made.sort();
        made
    };
    // Without a terminal nobody can be asked, and the model is told so.
    let (results, done) = chat(&[]);
    let told = results.iter().find(|(name, ..)| name == "writes").unwrap();
    assert!(!told.1 && told.2.as_str().unwrap().contains("nobody could be asked"), "{done:#?}");
    assert_eq!(made(&[]), ["asked", "denied"], "they are annotated as read-only");
    assert_eq!(made(&["--allow", "s.w*"]), ["asked", "denied", "writes"]);
    for spelled in ["s.writes", "s/writes", "s:writes", "s__writes", "s/w*", "s:*", "s__w*"] {
        let (results, done) = chat(&["--allow", spelled]);
        assert!(results.iter().all(|(_, made, _)| *made), "{spelled}: {done:#?}");
        assert!(!done.stderr.contains("matches"), "{spelled}: {done:#?}");
    }
    // What permits nothing is told.
    for other in ["t.writes", "s/x*", "writes"] {
        let (results, done) = chat(&["--allow", other]);
        assert!(results.iter().any(|(_, made, _)| !made), "{other}: {done:#?}");
        assert!(done.stderr.contains(other) && done.stderr.contains("warning"), "{done:#?}");
    }
    assert_eq!(made(&["--allow-reads"]), ["asked", "denied"]);
    assert_eq!(made(&["--allow-all"]), ["asked", "denied", "writes"]);
    // What the policy denies or asks about stays so, whatever is allowed on the command line.
    let rules = json!({"deny": ["s.denied"], "ask": ["s.asked"]});
    bench.write("mcpdeck.policy.json", &rules.to_string());
    assert_eq!(made(&["--allow-all"]), ["writes"]);
    assert_eq!(made(&["--allow", "*"]), ["writes"]);
    assert_eq!(made(&[]), [""; 0]);
}

#[test]
fn every_verb_tells_that_the_policy_is_broken_and_is_closed_where_it_binds() {
    let bench = Bench::new();
    bench.servers(&json!({"s": bench.mock("s", &script(), &json!({}))}));
    bench.write("mcp.calls.json", &json!({"calls": {"reads": {"tool": "s.reads"}}}).to_string());
    let verbs: [&[&str]; 6] = [
        &["call", "s.reads"],
        &["load", "s.reads", "-n", "1"],
        &["read", "r://reads"],
        &["prompt", "s.reads"],
        &["--check", "--calls"],
        &["chat", "--provider", "embedded", "--json", "-p", "call s__reads {}"],
    ];
    for (text, binds) in
        [(r#"{"denny": []}"#, false), (r#"{"appliesToPerson": true, "deny": ["#, true)]
    {
        bench.write("mcpdeck.policy.json", text);
        for verb in verbs {
            let done = bench.run(verb, AT_MOST);
            assert!(done.stderr.contains("mcpdeck.policy.json"), "{verb:?} {text}: {done:#?}");
            let is_made = match verb[0] {
                "chat" => done.stdout.contains(r#""isError":false"#),
                "--check" => !done.stdout.contains("@reads: the call failed"),
                _ => done.code == Some(0),
            };
            assert_eq!(is_made, !binds && verb[0] != "chat", "{verb:?} {text}: {done:#?}");
        }
    }
}

#[test]
fn policy_why_warns_of_what_is_not_there_and_says_what_may_be_meant() {
    let bench = Bench::new();
    bench.servers(&json!({
        "s": bench.mock("s", &script(), &json!({})),
        "never": {"command": "no-such-program"},
    }));
    let rules = json!({"profiles": {"team": {"allow": ["*"]}}});
    bench.write("mcpdeck.policy.json", &rules.to_string());
    bench.run(
        &["grants", "add", "--origin", "gateway:a", "--profile", "guests", "--for", "1h"],
        AT_MOST,
    );
    let why = |call: &str, profile: &str| {
        let args = ["policy", "why", "gateway:a", call, "--profile", profile];
        bench.run(&args, AT_MOST).stderr
    };
    // Before it was seen, a server may have anything.
    assert_eq!(why("s.write", "team"), "");
    bench.run(&["list"], AT_MOST);
    for known in ["s.writes", "writes", "s/writes", "never.anything"] {
        assert_eq!(why(known, "team"), "", "{known}");
    }
    for unseen in ["s.write", "write", "t.writes", "s:write"] {
        let told = why(unseen, "team");
        assert!(told.contains(&format!("no server had `{unseen}`")), "{told}");
        assert!(told.contains("did you mean `s.writes`?"), "{told}");
    }
    assert!(why("s.zzz", "team").contains("no server had `s.zzz`"));
    for (profile, words) in [
        ("teem", "names the profile `teem`; did you mean `team`?"),
        ("zzz", "names the profile `zzz`; there are: default, guests, team"),
    ] {
        let told = why("s.writes", profile);
        assert!(told.contains(words), "{told}");
    }
    for known in ["team", "guests", "default"] {
        assert_eq!(why("s.writes", known), "", "{known}");
    }
}

#[test]
fn a_grant_that_cannot_do_what_it_seems_to_is_refused_and_one_that_is_stored_is_reported() {
    let bench = Bench::new();
    bench.servers(&json!({"s": bench.mock("s", &script(), &json!({}))}));
    let run = |args: &[&str]| bench.run(args, AT_MOST);
    for how in ["--deny", "--always"] {
        let mixed = ["--tools", "s.*", "--scope", "mcp:resources.read", how];
        let refused = run(&[&["grants", "add", "--origin", "gateway:a"], &mixed[..]].concat());
        assert_ne!(refused.code, Some(0), "{refused:?}");
        for words in ["does not limit mcp:resources.read", "add a grant for it without tools"] {
            assert!(refused.stderr.contains(words), "{refused:?}");
        }
    }
    let pattern = run(&["grants", "add", "--origin", "gateway:user/*", "--deny"]);
    assert!(pattern.code != Some(0) && pattern.stderr.contains("write a whole id"), "{pattern:?}");
    assert!(run(&["grants", "list"]).stdout.contains("nothing is granted"));

    // As earlier versions stored them.
    let denied = ["grants", "add", "--origin", "gateway:user/a", "--deny", "--tools", "s.writes"];
    assert_eq!(run(&denied).code, Some(0));
    let folder = std::fs::read_dir(bench.path().join(".state/mcpdeck/policy")).unwrap();
    let mut files = folder.map(|file| file.unwrap().path());
    let store = files.find(|file| file.to_string_lossy().ends_with(".grants.json")).unwrap();
    let mut kept: Value = serde_json::from_slice(&std::fs::read(&store).unwrap()).unwrap();
    kept["grants"][0]["origin"] = json!("gateway:user/*");
    kept["grants"][0]["scopes"] = json!(["mcp:resources.read"]);
    std::fs::write(&store, kept.to_string()).unwrap();
    for verb in [&["grants", "list"][..], &["policy", "why", "gateway:user/a", "s.reads"]] {
        let told = run(verb).stderr;
        for words in ["`gateway:user/*` denies nothing", "does not limit mcp:resources.read"] {
            assert!(told.contains(words), "{verb:?}: {told}");
        }
    }
}
