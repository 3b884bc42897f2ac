//! The everyday loop in a pseudo-terminal: the source of a server is edited, it is built and
//! restarted, the last call is made again, and the difference is on the screen.

use crate::pty::{self, Launch, Size};

/// The source of a server: a script that the program itself plays.
fn source(sky: &str) -> String {
    format!(
        r#"{{
  "serverInfo": {{ "name": "weather", "version": "1" }},
  "tools": [{{ "name": "forecast", "description": "Weather of tomorrow",
    "inputSchema": {{ "type": "object", "properties": {{ "city": {{ "type": "string" }} }}, "required": ["city"] }} }}],
  "calls": {{ "forecast": {{ "text": "in ${{arguments.city}}\nthe sky: {sky}\nno wind" }} }}
}}"#
    )
}

/// A deck whose server `weather` is made of `src/weather.json`; `calm` is not.
fn launch(dev: &str) -> Launch {
    let program = env!("CARGO_BIN_EXE_mcpdeck");
    let config = format!(
        r#"{{ "servers": {{
  "weather": {{ "command": {program:?}, "args": ["mock", "src/weather.json"], "dev": {dev} }},
  "calm": {{ "command": {program:?}, "args": ["demo-server", "beacon"] }}
}} }}"#
    );
    Launch::file(Size::WIDE, &config).write("src/weather.json", &source("rain"))
}

/// Fills the form of the one tool of `weather` and calls it.
fn call(deck: &mut pty::Deck) {
    deck.wait("2 ready");
    // The card of the first row.
    deck.keys("g");
    deck.wait("1 file watched");
    deck.keys("2");
    deck.wait("4 tools of 2 servers");
    deck.wait("city *");
    deck.keys("\r");
    deck.wait("f5 call");
    deck.keys("Oslo");
    deck.wait("Oslo");
    deck.keys("\x1b[15~");
    deck.wait("the sky: rain");
}

#[test]
fn an_edited_source_restarts_its_server_calls_again_and_shows_the_difference() {
    let mut deck = launch(r#"{ "watch": ["src/*.json"], "rerun": true }"#).start();
    deck.wait("2 ready");
    let calm = deck.pid_of("calm");
    call(&mut deck);
    let file = deck.home().join("src/weather.json");
    std::fs::write(&file, source("sunshine")).unwrap();
    deck.wait("called again: src/weather.json changed");
    deck.wait("the result differs in");
    deck.wait("- the sky: rain");
    deck.wait("+ the sky: sunshine");
    deck.wait("city *    Oslo");
    deck.wait("2 of 2");
    std::fs::write(&file, source("sunshine") + "\n").unwrap();
    deck.wait("the same result as");
    deck.wait("3 of 3");
    deck.keys("1");
    deck.card_of("weather");
    deck.wait("2 restarts");
    assert_eq!(deck.pid_of("calm"), calm, "the other server is left alone");
    deck.quit();
}

#[test]
fn a_failed_build_is_reported_and_the_server_runs_on_until_one_succeeds() {
    let build =
        r#"["/bin/sh", "-c", "grep -q good src/weather.json || { echo no good at all; exit 3; }"]"#;
    let dev = format!(r#"{{ "watch": ["src"], "build": {build}, "rerun": true }}"#);
    let mut deck = launch(&dev).start();
    call(&mut deck);
    let file = deck.home().join("src/weather.json");
    std::fs::write(&file, source("bad")).unwrap();
    deck.wait("build failed: exit code 3; the previous build of weather keeps running");
    deck.wait("build failed, the previous build keeps running");
    deck.wait("the sky: rain");
    std::fs::write(&file, source("good")).unwrap();
    deck.wait("+ the sky: good");
    deck.wait("build ");
    std::fs::write(&file, source("bad again")).unwrap();
    deck.wait("build failed: exit code 3");
    deck.keys("1");
    deck.card_of("weather");
    deck.wait("src/weather.json changed");
    deck.wait("no good at all");
    deck.wait("1 restart");
    deck.keys("5");
    deck.wait("build no good at all");
    deck.quit();
}

/// Two servers of the program itself; `second` takes part when it is written.
fn two(second: bool) -> String {
    let first = pty::own_server("first", &["demo-server", "beacon"]);
    let second = second.then(|| pty::own_server("second", &["demo-server", "beacon"]));
    let servers: Vec<String> = std::iter::once(first).chain(second).collect();
    format!("{{ \"servers\": {{ {} }} }}", servers.join(", "))
}

#[test]
fn a_key_has_changed_files_shown_before_they_are_used() {
    let mut deck = Launch::file(Size::WIDE, &two(false)).start();
    deck.wait("1 ready");
    let (file, first) = (deck.home().join("mcp.json"), deck.pid_of("first"));
    deck.keys("7");
    deck.wait("ask first");
    deck.keys("A");
    deck.wait("changed files are shown before they are applied");
    std::fs::write(&file, two(true)).unwrap();
    deck.wait("apply the changed configuration?");
    deck.wait("second");
    // No leaves everything as it was, and the plan can be looked at again.
    deck.keys("n");
    deck.gone("apply the changed configuration?");
    deck.wait("1 ready");
    deck.keys("\x07");
    deck.wait("apply the changed configuration?");
    deck.decide("y");
    deck.wait("2 ready");
    // Turned round, the next change is used at once.
    deck.keys("A");
    deck.wait("changed files are applied at once");
    std::fs::write(&file, two(false)).unwrap();
    deck.wait("1 ready");
    deck.keys("1");
    deck.wait("· pid ");
    assert_eq!(deck.pid_of("first"), first, "what did not change runs on");
    deck.quit();
}
