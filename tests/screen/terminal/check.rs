//! The check on a terminal: what is shown while it runs, and how Ctrl-C ends it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::pty::{Deck, Launch, Size};
use crate::support::Bench;

/// A server that answers everything but the first request.
fn slow() -> Value {
    json!({"on": {"initialize": {"delay": 600_000}, "server/discover": {"delay": 600_000}}})
}

fn good() -> Value {
    json!({"tools": [{"name": "look_up", "description": "Looks something up.",
        "inputSchema": {"type": "object"}}]})
}

/// The check over a bench, on a terminal.
fn check(bench: &Bench, more: &[&str]) -> Launch {
    let config = bench.path().join("mcp.json");
    let config = config.to_str().unwrap();
    Launch::new(Size::WIDE, &[&["--check", "--config", config], more].concat())
}

fn report(bench: &Bench) -> Value {
    serde_json::from_slice(&std::fs::read(bench.path().join("r.json")).unwrap()).unwrap()
}

#[test]
fn a_run_that_takes_long_shows_what_it_waits_for_and_ctrl_c_ends_it_with_what_is_known() {
    let bench = Bench::playing(&[("good", good()), ("slow", slow())]);
    let mut deck = check(&bench, &["--timeout", "10m"]).start();
    deck.wait("done of 2; waiting for slow (");
    deck.ctrl_c();
    assert_eq!(deck.exit_code(), 130);
    deck.wait("interrupted; every server was stopped");
    deck.wait("the check was interrupted while it was starting (");
    deck.wait("incomplete: 1 error");
    assert!(deck.screen().lines().any(|l| l.starts_with("good") && l.contains(" ok ")));
    assert!(!deck.screen().contains("waiting for"), "the line is taken away\n{}", deck.screen());
    deck.assert_restored();
    bench.expect_nothing_left(Duration::ZERO);
}

#[test]
fn the_second_ctrl_c_ends_at_once_what_does_not_want_to_end() {
    let mut stubborn = good();
    stubborn["on"] = json!({"stdinClosed": []});
    // The run is held by the slow one, the stop by the one that does not leave.
    let bench = Bench::new();
    let stay = json!({"shutdownTimeout": 60});
    bench.servers(&json!({
        "stubborn": bench.mock("stubborn", &stubborn, &stay),
        "slow": bench.mock("slow", &slow(), &json!({"dependencies": ["stubborn"]})),
    }));
    let output = format!("json={}", bench.path().join("r.json").display());
    let mut deck = check(&bench, &["--timeout", "10m", "--format", &output]).start();
    deck.wait("waiting for slow (");
    deck.ctrl_c();
    deck.wait("Ctrl-C again ends");
    deck.ctrl_c();
    assert_eq!(deck.exit_code(), 130);
    let report = report(&bench);
    assert_eq!(report["exitCode"], 130);
    // Left to itself the ladder would have sent SIGTERM first, and that would have sufficed.
    assert_eq!(report["servers"][0]["exit"]["signal"], 9, "{report:#}");
    deck.assert_restored();
    bench.expect_nothing_left(Duration::ZERO);
}

#[test]
fn colour_is_for_terminals_that_want_it() {
    let bench = Bench::playing(&[("good", good())]);
    let raw = |launch: Launch| {
        let mut deck: Deck = launch.start();
        assert_eq!(deck.exit_code(), 0);
        deck.wait("nothing to report in 1 server");
        deck.raw()
    };
    assert!(raw(check(&bench, &[])).contains("\u{1b}[32mok\u{1b}[0m"));
    for plain in [
        check(&bench, &[]).env("NO_COLOR", "1"),
        check(&bench, &[]).env("TERM", "dumb"),
        check(&bench, &["--color", "never"]),
    ] {
        let raw = raw(plain);
        assert!(!raw.contains('\u{1b}'), "{raw:?}");
    }
}
