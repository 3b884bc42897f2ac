//! What is rarely offered, in the dashboard, against the server of `fixtures/features`: the column
//! `dashboard` of the table there.

use std::path::Path;

use super::approvals::stage::{ANSWER, CALL, SEND};
use crate::pty::{Deck, Launch, Size};

const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

fn launch() -> Launch {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/features/server.py");
    let text = format!(
        "{{\"servers\": {{\"features\": {{\"command\": \"python3\", \"args\": [{:?}]}}}}}}",
        server.display().to_string()
    );
    Launch::file(Size::WIDE, &text).env("TRACEPARENT", TRACE)
}

fn started() -> Deck {
    let deck = launch().start();
    deck.wait("1 ready");
    deck
}

/// Opens a tool, and makes its call.
fn call(deck: &mut Deck, tool: &str) {
    deck.keys("2");
    deck.wait("4 tools");
    deck.keys("/");
    deck.keys(tool);
    deck.wait("1 of 4");
    deck.keys("\r\r");
    deck.wait("f5 call");
    deck.keys(CALL);
}

#[test]
fn sampling_with_tools_and_a_visit_are_answered() {
    let mut deck = started();
    call(&mut deck, "sample");
    deck.wait("1 waiting");
    deck.keys(ANSWER);
    deck.wait("weather?");
    deck.wait("tool weather");
    deck.keys("sunny");
    deck.wait("sunny");
    deck.decide(SEND);
    deck.wait("\"text\": \"sunny\"");
    let mut deck = started();
    call(&mut deck, "visit");
    deck.wait("1 waiting");
    deck.keys(ANSWER);
    deck.wait("example.org");
    deck.decide("\x18");
    deck.wait("\"action\": \"decline\"");
}

#[test]
fn links_the_trace_and_icons_are_shown() {
    let mut deck = started();
    call(&mut deck, "meta");
    deck.wait(TRACE);
    let mut deck = started();
    call(&mut deck, "link");
    deck.wait("skill://demo/SKILL.md");
    let mut deck = started();
    deck.keys("3");
    deck.wait("data:image/png;base64,iVBORw0KGgo=");
}

#[cfg(feature = "chat")]
#[test]
fn the_calls_of_the_chat_belong_to_the_trace_of_the_dashboard() {
    let mut deck =
        launch().write("config/settings.json", r#"{"chat": {"provider": "embedded"}}"#).start();
    deck.wait("1 ready");
    deck.keys("C");
    deck.wait("embedded");
    deck.keys("call meta {}");
    deck.wait("call meta {}");
    deck.keys("\r");
    deck.wait(TRACE);
}

#[test]
fn skills_are_read_as_resources_and_by_their_own_methods() {
    let mut deck = started();
    deck.keys("3");
    deck.wait("1 resource of 1 server");
    deck.keys("\r");
    // What stands before its text is no paragraph.
    deck.wait("   name: demo");
    deck.wait("   description: Shows");
    let mut deck = started();
    deck.keys(":");
    deck.keys("request");
    deck.wait("\u{25b8}Send any JSON-RPC request");
    deck.keys("\r");
    deck.wait("method");
    deck.keys("skills/list");
    deck.wait("skills/list");
    deck.keys(CALL);
    deck.wait("sha256:");
}

#[test]
fn a_completion_knows_the_other_arguments() {
    let mut deck = started();
    deck.keys("3v");
    deck.wait("visit");
    deck.keys("\r");
    deck.wait("country");
    deck.keys("NO\r");
    deck.keys("O");
    deck.wait("{\"arguments\": {\"country\": \"NO\"");
}
