//! The first seconds: the servers come up, and the table of the servers is the waterfall of it.

use std::sync::Arc;

use mcpdeck::base::Timestamp;
use mcpdeck::deck::News;
use mcpdeck::host::{HostView, Record, ServerMetrics};
use mcpdeck::tui::app::{App, Setup};
use mcpdeck::tui::message::Message;
use serde_json::{Value, json};

use super::draw;

/// When the program was started.
const BEGAN: u64 = 1_790_000_000_000_000;

/// What happens to a server so many milliseconds after the program was started.
fn happens(view: &mut HostView, millis: u64, server: &str, mut fact: Value) {
    fact["seq"] = (view.seq + 1).into();
    fact["at"] = (BEGAN + millis * 1_000).into();
    fact["server"] = server.into();
    let record: Record = serde_json::from_value(fact).unwrap();
    view.apply(&record);
}

fn state(view: &mut HostView, millis: u64, server: &str, state: &str) {
    let fact = json!({"fact": "stateChanged", "state": state, "reason": null, "attempt": 1,
        "retryAt": null});
    happens(view, millis, server, fact);
}

/// A step that ended then, or began then if it took nothing yet.
fn step(view: &mut HostView, millis: u64, server: &str, step: &str, took: Option<u64>) {
    let status = if took.is_some() { "ok" } else { "running" };
    let took =
        took.map(|millis| json!({"secs": millis / 1_000, "nanos": millis % 1_000 * 1_000_000}));
    let fact = json!({"fact": "stepChanged", "step": step, "status": status, "took": took,
        "detail": null});
    happens(view, millis, server, fact);
}

/// Four servers that start at once; two are up, one has said nothing yet, one waits for its answer.
fn starting() -> HostView {
    let mut view = HostView::default();
    for server in ["files", "search", "tickets", "weather"] {
        let fact =
            json!({"fact": "serverAdded", "transport": "stdio", "target": "x", "dependencies": []});
        happens(&mut view, 0, server, fact);
        state(&mut view, 0, server, "starting");
        step(&mut view, 1, server, "resolve", Some(1));
    }
    for (server, spawned) in [("files", 12), ("search", 40), ("tickets", 300), ("weather", 20)] {
        step(&mut view, spawned, server, "spawn", Some(spawned - 1));
    }
    for (server, from, to) in [("files", 12, 90), ("search", 40, 1_400)] {
        step(&mut view, from, server, "firstByte", None);
        step(&mut view, to, server, "firstByte", Some(to - from));
        step(&mut view, to + 20, server, "handshake", Some(20));
        step(&mut view, to + 60, server, "tools", Some(40));
        state(&mut view, to + 60, server, "ready");
    }
    step(&mut view, 300, "tickets", "firstByte", None);
    step(&mut view, 500, "weather", "firstByte", Some(480));
    step(&mut view, 500, "weather", "handshake", None);
    view
}

fn shown(view: &HostView, millis: u64) -> App {
    let setup = Setup { themes: mcpdeck::THEMES, ..Setup::default() };
    let mut app = App::new(setup, Timestamp(BEGAN + millis * 1_000));
    app.update(Message::EngineReady);
    app.update(Message::News(News::View(Arc::new(view.clone()))));
    app
}

#[test]
fn a_start_is_a_waterfall_of_all_servers_until_the_last_one_is_up() {
    let mut view = starting();
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let mut app = shown(&view, 2_000);
        let screen = draw(&mut app, width, height);
        insta::assert_snapshot!(format!("start_{width}x{height}"), screen);
    }
    for server in ["tickets", "weather"] {
        step(&mut view, 2_400, server, "handshake", Some(1_000));
        step(&mut view, 2_440, server, "tools", Some(40));
        state(&mut view, 2_440, server, "ready");
    }
    let screen = draw(&mut shown(&view, 2_500), 120, 40);
    assert!(!screen.contains("up in"), "the numbers take its place: {screen}");
}

#[test]
fn a_restart_later_leaves_the_numbers_of_the_others() {
    let mut view = starting();
    for server in ["tickets", "weather"] {
        step(&mut view, 2_400, server, "tools", Some(40));
        state(&mut view, 2_400, server, "ready");
    }
    state(&mut view, 60_000, "weather", "starting");
    step(&mut view, 60_001, "weather", "resolve", Some(1));
    step(&mut view, 60_002, "weather", "spawn", None);
    let screen = draw(&mut shown(&view, 61_000), 120, 40);
    assert!(!screen.contains("up in"), "{screen}");
}

#[test]
fn a_server_that_is_called_while_others_start_shows_its_numbers() {
    let view = starting();
    let mut app = shown(&view, 2_000);
    let mut metrics = ServerMetrics::default();
    metrics.total.requests = 3;
    app.update(Message::News(News::Metrics(vec![("files".into(), metrics)])));
    let screen = draw(&mut app, 120, 40);
    let row = |name: &str| screen.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(!row("● files").contains("up in"), "{screen}");
    assert!(row("● search").contains("up in"), "{screen}");
}
