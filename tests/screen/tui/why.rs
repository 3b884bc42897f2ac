//! From something red to what mends it, and from a running call to its own request.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers};
use mcpdeck::base::text::SafeText;
use mcpdeck::error::{Error, ErrorCode};
use mcpdeck::host::{ApprovalRequest, Fact};
use mcpdeck::mcp::{ApprovalId, CallId, RequestKind};
use mcpdeck::tui::effect::{ConfigCommand, Effect, FileChange, Order, ServerCommand};
use mcpdeck::tui::message::{CallToken, Message};
use serde_json::json;

use crate::tui::driver::{ARRIVED, Driver};

const CALL: CallId = CallId(41);

/// A driver with the first tool of the catalogue called.
fn calling() -> (Driver, CallToken) {
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
fn the_cost_of_all_tools_is_summed_by_server_with_bars() {
    let mut driver = Driver::new();
    driver.keys("2$");
    let screen = super::draw(&mut driver.app, 120, 40);
    for part in ["tokens of every request", "longest description", " %", "█"] {
        assert!(screen.contains(part), "{part}: {screen}");
    }
}
