//! From a server that does not start to one that does, by the key for why and Enter on a fix.

use crate::pty::{Launch, Size};

#[test]
fn the_fix_of_a_server_that_lacks_a_variable_is_applied_with_enter_and_it_comes_up() {
    let program = env!("CARGO_BIN_EXE_mcpdeck");
    let script = format!(
        "test -n \"$DECK_API_KEY\" || {{ echo 'Error: DECK_API_KEY is not set' >&2; exit 1; }}; exec '{program}' demo-server beacon"
    );
    let file =
        serde_json::json!({"mcpServers": {"keyed": {"command": "sh", "args": ["-c", script]}}});
    let launch = Launch::file(Size::WIDE, &format!("{file:#}")).env("DECK_API_KEY", "canary-4711");
    let mut deck = launch.start();
    deck.wait("1 down");
    deck.wait("DECK_API_KEY is not set");
    deck.keys("!");
    deck.wait("why: server \"keyed\"");
    deck.wait("what mends it");
    deck.wait("▸  add DECK_API_KEY to \"env\" of its entry");
    deck.keys("\r");
    deck.wait("✓ add DECK_API_KEY to \"env\" of its entry");
    deck.wait("the server is ready");
    deck.wait("nothing is wrong now");
    let text = std::fs::read_to_string(deck.home().join("mcp.json")).unwrap();
    let file: serde_json::Value = serde_json::from_str(&text).unwrap();
    let entry = &file["mcpServers"]["keyed"];
    assert_eq!(entry["env"]["DECK_API_KEY"], "${DECK_API_KEY}", "{text}");
    deck.keys("\x1b");
    deck.gone("what mends it");
    deck.wait("1 ready");
    assert!(!deck.raw().contains("canary-4711"), "the value is nobody's to see");
    deck.quit();
}

#[test]
fn a_page_that_says_why_leads_to_the_entry_and_back() {
    let file = r#"{"mcpServers": {"gone": {"command": "no-such-program-of-mcpdeck"}}}"#;
    let mut deck = Launch::file(Size::SMALL, file).start();
    deck.wait("1 down");
    deck.keys("!");
    deck.wait("why: server \"gone\"");
    deck.wait("what mends it");
    // The list of fixes goes round with the arrow keys; one of them opens the form of the entry.
    for _ in 0..8 {
        if deck.screen().contains("▸  edit its entry in a form") {
            break;
        }
        let place = deck.written();
        deck.keys("\x1b[B");
        deck.wait_raw(place, "\x1b[?2026l");
    }
    deck.wait("▸  edit its entry in a form");
    deck.keys("\r");
    deck.wait("command *");
    deck.wait("no-such-program-of-mcpdeck");
    deck.keys("\x1b");
    deck.gone("command *");
    deck.wait("gone");
    if !deck.screen().contains("q quit") {
        deck.keys("\x1b");
    }
    deck.wait("q quit");
    deck.quit();
}
