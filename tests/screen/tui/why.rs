//! From something red to what mends it, and from a running call to its own request.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers};
use mcpdeck::base::LogLevel;
use mcpdeck::base::logs::{LogRecord, LogSource};
use mcpdeck::base::ring::Batch;
use mcpdeck::base::text::SafeText;
use mcpdeck::config::{EntryAmendment, Environment, load_text};
use mcpdeck::deck::{DeckEvent, News, PolicyView, ProfileOffer};
use mcpdeck::error::{Error, ErrorCode};
use mcpdeck::host::{AddressAdvice, ApprovalRequest, CallOutcome, Fact, StartCause};
use mcpdeck::process::{LaunchAdvice, RenameReason};
use mcpdeck::protocol::{ApprovalId, CallId, Direction, MessageKind, RequestKind, TrafficRecord};
use mcpdeck::tui::effect::{ConfigCommand, Effect, FileChange, Order, ServerCommand};
use mcpdeck::tui::message::{CallToken, Message};
use serde_json::json;

use crate::tui::driver::{ARRIVED, Driver};

const CALL: CallId = CallId(41);

/// A driver with the first tool of the catalogue called.
pub fn calling() -> (Driver, CallToken) {
    let mut driver = Driver::new();
    driver.keys("2");
    super::draw(&mut driver.app, 120, 40);
    driver.keys("\r");
    let effects = super::press(&mut driver.app, KeyCode::F(8), KeyModifiers::NONE);
    let token = effects.iter().find_map(|effect| match effect {
        Effect::Call(token, _) => Some(*token),
        _ => None,
    });
    let token = token.unwrap_or_else(|| panic!("{effects:?}"));
    driver.app.update(Message::CallBegan(token, CALL));
    (driver, token)
}

fn request(id: u64, call: Option<CallId>, text: &str) -> ApprovalRequest {
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    ApprovalRequest {
        id: ApprovalId(id),
        server: "memory".into(),
        kind: RequestKind::Sampling,
        call,
        candidates: vec![],
        during: Some(SafeText::line("a call")),
        bytes: 10,
        params: Arc::new(json!({"maxTokens": 5, "messages": [message]})),
        arrived: ARRIVED,
        deadline: ARRIVED.plus(Duration::from_secs(3_600)),
        deferred: false,
        input: None,
    }
}

fn arrives(driver: &mut Driver, request: ApprovalRequest) {
    driver.fact("memory", Fact::RequestArrived { request: Arc::new(request) });
}

#[test]
fn from_a_running_call_its_own_request_opens_and_after_the_answer_the_call_is_back() {
    let (mut driver, _) = calling();
    arrives(&mut driver, request(1, None, "somebody else's"));
    arrives(&mut driver, request(2, Some(CALL), "the one of this call"));
    driver.shown();
    driver.keys("\x07");
    let screen = super::draw(&mut driver.app, 120, 40);
    assert!(screen.contains("the one of this call"), "{screen}");
    driver.keys("fine\x12");
    let sent = |id| {
        let is =
            |effect: &Effect| matches!(effect, Effect::Order(Order::Answer(to, _)) if to.0 == id);
        driver.wanted.iter().any(is)
    };
    assert!(sent(2) && !sent(1));
    let screen = super::draw(&mut driver.app, 120, 40);
    assert!(!screen.contains("somebody else's"), "the call goes on: {screen}");
    assert!(screen.contains("running"), "{screen}");
    driver.keys("\x07");
    let screen = super::draw(&mut driver.app, 120, 40);
    assert!(screen.contains("somebody else's"), "{screen}");
}

#[test]
fn a_failed_call_says_why_and_the_fix_is_applied_with_enter() {
    let (mut driver, token) = calling();
    let error = Error::new(ErrorCode::Timeout, "no answer within 30 s").server(&"memory".into());
    driver.app.update(Message::CallEnded(token, Box::new(Err(error))));
    let screen = super::draw(&mut driver.app, 120, 40);
    assert!(screen.contains("f9 why"), "{screen}");
    driver.wanted.extend(super::press(&mut driver.app, KeyCode::F(9), KeyModifiers::NONE));
    let screen = super::draw(&mut driver.app, 120, 40);
    for part in ["what happened", "no answer within 30 s", "what mends it", "make the call again"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
}

#[test]
fn a_server_that_lacks_a_variable_gets_it_with_one_key() {
    let mut driver = Driver::new();
    let stderr = vec![SafeText::line("Error: GITHUB_TOKEN is not set")];
    let server = Arc::make_mut(driver.view.servers.get_mut("github").expect("a server"));
    server.stderr_tail = stderr;
    server.pid = None;
    server.state = mcpdeck::host::ServerState::Unavailable;
    driver.shown();
    driver.app.model.scope = Some("github".into());
    driver.keys("1!");
    let screen = super::draw(&mut driver.app, 120, 40);
    for part in ["why: server \"github\"", "GITHUB_TOKEN is not set", "add GITHUB_TOKEN to \"env\""]
    {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let fixes = ["add GITHUB_TOKEN", "start it again"];
    let at = fixes.map(|fix| screen.find(fix).expect("a fix"));
    assert!(at[0] < at[1], "the likeliest first: {screen}");
    driver.keys("\r");
    let passes = Effect::Config(ConfigCommand::Change(FileChange::PassVariable {
        server: "github".into(),
        variable: "GITHUB_TOKEN".to_owned(),
    }));
    assert!(driver.wanted.contains(&passes), "{:?}", driver.wanted);
    let screen = super::draw(&mut driver.app, 120, 40);
    assert!(
        screen.contains("the server is"),
        "the page stays to show what becomes of it: {screen}"
    );
    driver.keys("j\r");
    let restart = Effect::Order(Order::Server("github".into(), ServerCommand::Restart));
    assert!(driver.wanted.contains(&restart), "{:?}", driver.wanted);
}

#[test]
fn a_program_whose_packages_are_missing_gets_them_with_one_key_and_is_started_again() {
    let mut driver = Driver::new();
    let text =
        json!({"servers": {"github": {"command": "node", "args": ["my server/dist/main.js"]}}});
    let env = Environment { cwd: "/srv".into(), ..Environment::default() };
    let loaded = load_text(Path::new("/srv/mcp.json"), &text.to_string(), &env).expect("usable");
    let loaded = DeckEvent::Loaded(Arc::new(loaded.config), Arc::from([]));
    driver.app.update(Message::Deck(loaded));
    let server = Arc::make_mut(driver.view.servers.get_mut("github").expect("a server"));
    server.stderr_tail = vec![SafeText::line("Error: Cannot find module 'zod'")];
    server.pid = None;
    server.state = mcpdeck::host::ServerState::Unavailable;
    driver.shown();
    driver.app.model.scope = Some("github".into());
    driver.keys("1!");
    let screen = super::draw(&mut driver.app, 120, 40);
    assert!(screen.contains("run `npm install` in /srv/my server/dist"), "{screen}");
    driver.keys("\r");
    let run = driver.wanted.iter().find_map(|effect| match effect {
        Effect::Run(run) => Some(&run.command),
        _ => None,
    });
    let run = run.unwrap_or_else(|| panic!("{:?}", driver.wanted));
    assert_eq!(run.run, "cd '/srv/my server/dist' && npm install");
    assert!(run.terminal, "it is seen while it runs");
    let restart = Effect::Order(Order::Server("github".into(), ServerCommand::Restart));
    let at = |wanted: &dyn Fn(&Effect) -> bool| driver.wanted.iter().position(wanted);
    let (ran, restarted) = (at(&|e| matches!(e, Effect::Run(_))), at(&|e| *e == restart));
    assert!(ran < restarted, "{:?}", driver.wanted);
}

/// A driver whose server github is launched like this, is down and said this.
fn down(entry: &serde_json::Value, stderr: &[&str], reason: &str, cause: StartCause) -> Driver {
    let mut driver = Driver::new();
    let text = json!({"servers": {"github": entry}, "inputs": [
        {"id": "token", "type": "promptString", "description": "a token"}]});
    let mut env = Environment { cwd: "/srv".into(), ..Environment::default() };
    env.inputs.insert("token".to_owned(), "t".into());
    let loaded = load_text(Path::new("/srv/mcp.json"), &text.to_string(), &env).expect("usable");
    let loaded = DeckEvent::Loaded(Arc::new(loaded.config), Arc::from([]));
    driver.app.update(Message::Deck(loaded));
    let server = Arc::make_mut(driver.view.servers.get_mut("github").expect("a server"));
    server.stderr_tail = stderr.iter().map(|line| SafeText::line(line)).collect();
    server.pid = None;
    server.reason = Some(SafeText::line(reason));
    server.failure = Some(cause.into());
    server.state = mcpdeck::host::ServerState::Unavailable;
    driver.shown();
    driver.app.model.scope = Some("github".into());
    driver.keys("1!");
    driver
}

#[test]
fn what_is_wrong_in_an_entry_is_changed_there_with_one_key() {
    let npx = json!({"command": "npx", "args": ["some-server"]});
    let asks = "npm error npx canceled due to missing packages and no YES option: [\"x\"]";
    let typo = json!({"command": "nodde"});
    let moved = json!({"url": "http://127.0.0.1:1/"});
    let gone = "the handshake failed: the server answered HTTP 404 Not Found";
    let elsewhere = StartCause::Address(AddressAdvice::OtherPath);
    let similar = LaunchAdvice::Rename { name: "node".to_owned(), reason: RenameReason::Similar };
    let similar = StartCause::Launch(Some(similar));
    let exited = StartCause::Exited;
    let changes = |path: &str, kind: &str| {
        vec![
            EntryAmendment::Address {
                is_end: true,
                removed: "/".to_owned(),
                inserted: path.to_owned(),
            },
            EntryAmendment::Set { path: vec!["type".to_owned()], value: Some(kind.into()) },
        ]
    };
    let yes = EntryAmendment::Arguments { at: 0, removed: vec![], inserted: vec!["-y".to_owned()] };
    let node = EntryAmendment::Set { path: vec!["command".to_owned()], value: Some("node".into()) };
    for (entry, stderr, reason, cause, keys, words, expected) in [
        (&npx, &[asks][..], "exit code 1", exited, "\r", "put \"-y\" first in \"args\"", vec![yes]),
        (
            &typo,
            &[],
            "command not found: nodde",
            similar,
            "\r",
            "write \"node\" as its \"command\"",
            vec![node],
        ),
        (
            &moved,
            &[],
            gone,
            elsewhere.clone(),
            "\r",
            "try the path /mcp (Streamable HTTP)",
            changes("/mcp", "http"),
        ),
        (
            &moved,
            &[],
            gone,
            elsewhere,
            "j\r",
            "try the path /sse (HTTP+SSE)",
            changes("/sse", "sse"),
        ),
    ] {
        let mut driver = down(entry, stderr, reason, cause);
        let screen = super::draw(&mut driver.app, 120, 40);
        assert!(screen.contains(words), "{words}: {screen}");
        driver.keys(keys);
        let made = driver.wanted.iter().find_map(|effect| match effect {
            Effect::Config(ConfigCommand::Change(FileChange::Amend {
                server, changes, ..
            })) => Some((server.as_str() == "github").then(|| changes.clone())),
            _ => None,
        });
        assert_eq!(made, Some(Some(expected)), "{words}");
        let screen = super::draw(&mut driver.app, 120, 40);
        assert!(screen.contains("the server is"), "{screen}");
    }
}

#[test]
fn what_only_shows_something_is_shown_and_starts_nothing() {
    let entry = json!({"command": "node", "args": ["s.js"]});
    let mut driver = down(
        &entry,
        &["Error: listen EADDRINUSE: address already in use 127.0.0.1:3000"],
        "exit code 1",
        StartCause::Exited,
    );
    let screen = super::draw(&mut driver.app, 120, 40);
    assert!(screen.contains("see which process has port 3000"), "{screen}");
    driver.keys("\r");
    let is_shown = |effect: &Effect| matches!(effect, Effect::Run(run) if !run.command.terminal);
    assert!(driver.wanted.iter().any(is_shown), "{:?}", driver.wanted);
    let starts = |effect: &Effect| matches!(effect, Effect::Order(_));
    assert!(!driver.wanted.iter().any(starts), "{:?}", driver.wanted);
}

#[test]
fn a_tool_that_fails_for_want_of_something_says_what_and_its_arguments_come_first() {
    let (mut driver, token) = calling();
    let result = json!({"isError": true, "content": [
        {"type": "text", "text": "Request failed with status code 401: Bad credentials"}]});
    let mut outcome = CallOutcome::new(CALL, "memory", "create_entities", result);
    outcome.is_error = true;
    driver.app.update(Message::CallEnded(token, Box::new(Ok(outcome))));
    driver.wanted.extend(super::press(&mut driver.app, KeyCode::F(9), KeyModifiers::NONE));
    let screen = super::draw(&mut driver.app, 120, 40);
    for part in ["Bad credentials", "likely cause", "refuses its credentials", "edit its arguments"]
    {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    let at =
        ["edit its arguments", "make the call again"].map(|fix| screen.find(fix).expect("a fix"));
    assert!(at[0] < at[1], "the same arguments fail in the same way: {screen}");
}

#[test]
fn the_cost_of_all_tools_is_summed_by_server_with_bars() {
    let mut driver = Driver::new();
    driver.keys("2$");
    let screen = super::draw(&mut driver.app, 120, 40);
    for part in ["tokens of every request", "longest description", " %", "▆"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
}

#[test]
fn what_a_profile_saves_stands_below_the_sum() {
    let mut driver = Driver::new();
    let offer = ProfileOffer { profile: "readers".to_owned(), tools: 1, bytes: 60 };
    let policy = PolicyView { offers: vec![offer], ..PolicyView::default() };
    driver.app.update(Message::News(News::Policy(policy)));
    driver.keys("2$");
    for (width, height) in [(80, 24), (120, 40)] {
        let screen = super::draw(&mut driver.app, width, height);
        for part in ["what a profile saves", "readers", "15", "% saved  1 of 4 tools"] {
            assert!(screen.contains(part), "{part}: {screen}");
        }
    }
}

/// Adds a log line of a server to what the screen has.
fn logs(driver: &mut Driver, text: &str) {
    let line = |n: u64, text: &str| {
        Arc::new(LogRecord {
            at: ARRIVED.plus(Duration::from_secs(n)),
            server: Some("memory".into()),
            source: LogSource::Stderr,
            level: LogLevel::Error,
            logger: None,
            text: SafeText::line(text),
        })
    };
    let next = driver.app.model.logs.end();
    let items = vec![line(1, "reading the settings"), line(2, text), line(3, "giving up")];
    let batch = Batch { items, first: next, next: next + 3, missed: 0 };
    driver.app.update(Message::News(News::Logs(batch, 0)));
}

#[test]
fn a_log_line_says_what_it_may_mean_and_what_is_around_it_and_is_mended() {
    let mut driver = Driver::new();
    logs(&mut driver, "Error: MEMORY_API_KEY is not set");
    driver.keys("5");
    super::draw(&mut driver.app, 120, 40);
    driver.keys("k!");
    let screen = super::draw(&mut driver.app, 120, 40);
    for part in [
        "why: log line of server \"memory\"",
        "MEMORY_API_KEY is not set",
        "likely cause",
        "lines around it",
        "reading the settings",
        "giving up",
        "add MEMORY_API_KEY to \"env\" of its entry",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    driver.keys("\r");
    let passes = Effect::Config(ConfigCommand::Change(FileChange::PassVariable {
        server: "memory".into(),
        variable: "MEMORY_API_KEY".to_owned(),
    }));
    assert!(driver.wanted.contains(&passes), "{:?}", driver.wanted);
}

/// Adds messages of a server: a request, its error, and a line that is no message.
fn messages(driver: &mut Driver) {
    let record = |n: u64, kind, direction, body: &str, problem: Option<&str>| {
        Arc::new(TrafficRecord {
            at: ARRIVED.plus(Duration::from_secs(n)),
            server: "memory".into(),
            direction,
            kind,
            method: problem.is_none().then(|| SafeText::line("tools/call")),
            target: None,
            id: problem.is_none().then(|| SafeText::line("977")),
            call: None,
            bytes: body.len(),
            latency: None,
            queued: None,
            body: body.into(),
            cut: false,
            problem: problem.map(SafeText::line),
            tolerated: false,
        })
    };
    let (request, error, junk) = (MessageKind::Request, MessageKind::Error, MessageKind::Junk);
    let answer =
        "{\"jsonrpc\":\"2.0\",\"id\":977,\"error\":{\"code\":-1,\"message\":\"<b>no</b>\"}}";
    let items = vec![
        record(1, request, Direction::Out, "{\"jsonrpc\":\"2.0\",\"id\":977}", None),
        record(2, error, Direction::In, answer, None),
        record(
            3,
            junk,
            Direction::In,
            "hello there",
            Some("a line on stdout that is not JSON-RPC"),
        ),
    ];
    let next = driver.app.model.traffic.end();
    let batch = Batch { items, first: next, next: next + 3, missed: 0 };
    driver.app.update(Message::News(News::Traffic(batch, 0)));
}

#[test]
fn a_message_that_is_none_shows_its_text_and_leads_to_what_mends_it() {
    let mut driver = Driver::new();
    messages(&mut driver);
    driver.keys("4");
    super::draw(&mut driver.app, 120, 40);
    driver.keys("G!");
    let screen = super::draw(&mut driver.app, 120, 40);
    for part in [
        "why: message of server \"memory\"",
        "a line on stdout that is not JSON-RPC",
        "hello there",
        "messages around it",
        "restart it",
    ] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
}

#[test]
fn a_message_is_copied_as_it_is_or_as_the_call_in_several_languages() {
    let mut driver = Driver::new();
    messages(&mut driver);
    driver.keys("4");
    super::draw(&mut driver.app, 120, 40);
    driver.keys("Gk");
    super::draw(&mut driver.app, 120, 40);
    driver.keys("y");
    let screen = super::draw(&mut driver.app, 120, 40);
    for part in ["copy as", "the message", "HTML page with", "JSON lines with"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
    driver.keys("html\r");
    let is_page = |effect: &Effect| matches!(effect, Effect::Save { name, .. } if name.ends_with("mcpdeck-traffic.html"));
    assert!(driver.wanted.iter().any(is_page), "{:?}", driver.wanted);

    let body = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call",
        "params": {"name": "create_entities", "arguments": {"entities": [{"name": "Ada"}]}}});
    let record = Arc::new(TrafficRecord {
        at: ARRIVED.plus(Duration::from_secs(9)),
        server: "memory".into(),
        direction: Direction::Out,
        kind: MessageKind::Request,
        method: Some(SafeText::line("tools/call")),
        target: Some(SafeText::line("create_entities")),
        id: Some(SafeText::line("5")),
        call: None,
        bytes: body.to_string().len(),
        latency: None,
        queued: None,
        body: body.to_string().into(),
        cut: false,
        problem: None,
        tolerated: false,
    });
    let next = driver.app.model.traffic.end();
    let batch = Batch { items: vec![record], first: next, next: next + 1, missed: 0 };
    driver.app.update(Message::News(News::Traffic(batch, 0)));
    super::draw(&mut driver.app, 120, 40);
    driver.keys("G");
    super::draw(&mut driver.app, 120, 40);
    driver.keys("ycommand line\r");
    let copied = driver.wanted.iter().rev().find_map(|effect| match effect {
        Effect::Copy(text) => Some(text.clone()),
        _ => None,
    });
    let copied = copied.unwrap_or_else(|| panic!("{:?}", driver.wanted));
    assert!(copied.contains("call memory.create_entities") && copied.contains("Ada"), "{copied}");
}

#[test]
fn marked_messages_are_handed_on_as_one_page_on_which_nothing_runs() {
    let mut driver = Driver::new();
    messages(&mut driver);
    driver.keys("4");
    super::draw(&mut driver.app, 120, 40);
    driver.keys("Gk");
    super::draw(&mut driver.app, 120, 40);
    driver.keys("m:write the marked\r");
    let page = driver.wanted.iter().find_map(|effect| match effect {
        Effect::Save { name, content } if name.ends_with("mcpdeck-traffic.html") => {
            Some(String::from_utf8(content.clone()).expect("text"))
        }
        _ => None,
    });
    let page = page.unwrap_or_else(|| panic!("{:?}", driver.wanted));
    assert!(page.contains("2 messages of memory"), "{page}");
    assert!(page.contains("&lt;b&gt;no&lt;/b&gt;") && !page.contains("<b>no"), "{page}");
    assert!(!page.contains("hello there") && !page.contains("<script"), "{page}");
}
