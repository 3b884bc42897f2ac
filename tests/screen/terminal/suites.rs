//! The suites of tests in a pseudo-terminal: the bench runs them, a failed step opens in its form, and
//! the call becomes a step of the file.

use crate::pty::{self, Launch, Size};

const SOURCE: &str = r#"{
  "serverInfo": { "name": "weather", "version": "1" },
  "tools": [{ "name": "forecast", "description": "Weather of tomorrow",
    "inputSchema": { "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] } }],
  "calls": { "forecast": { "text": "in ${arguments.city}: rain" } }
}"#;

const TESTS: &str = r#"{
  // what people ask first
  "suites": {
    "sky": { "steps": [
      { "tool": "weather.forecast", "arguments": { "city": "Oslo" }, "expect": { "text": "in Oslo" } },
      { "name": "sunny", "tool": "weather.forecast", "arguments": { "city": "Rome" }, "expect": { "text": "sun" } }
    ] }
  }
}"#;

#[test]
fn suites_run_in_their_pane_and_a_failed_step_opens_and_becomes_another_one() {
    let servers = pty::own_server("weather", &["mock", "weather.json"]);
    let launch = Launch::file(Size::WIDE, &format!("{{\"servers\": {{{servers}}}}}"));
    let mut deck = launch.write("weather.json", SOURCE).write("mcp.tests.json", TESTS).start();
    deck.wait("1 ready");
    deck.keys("2");
    deck.wait("forecast");
    deck.keys("v");
    deck.wait("1 suite, 2 steps");
    deck.keys("A");
    deck.wait("1 step failed");
    deck.wait("1 passed  1 failed");
    deck.keys("G");
    deck.wait("does          tool weather.forecast");
    deck.wait("Rome");
    deck.keys("\r");
    deck.wait("f5 call");
    deck.wait("Rome");
    deck.keys("\x1b[18~");
    deck.wait(
        "added weather.forecast {\"city\":\"Rome\"}, to the suite dashboard of mcp.tests.json",
    );
    let text = std::fs::read_to_string(deck.home().join("mcp.tests.json")).unwrap();
    assert!(text.contains("// what people ask first"), "{text}");
    assert!(text.contains("\"dashboard\""), "{text}");
    deck.leave_call();
    deck.wait("2 suites, 3 steps");
    // What has run is still known, and what is new was not run.
    deck.wait("1 passed  1 failed");
    deck.keys("c");
    deck.wait("2 calls");
    deck.quit();
}
