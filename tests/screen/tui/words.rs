//! Words on the screen: the same ones for the same thing in every place, and whole where they are
//! looked for.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyModifiers};
use mcpdeck::base::logs::{LogRecord, LogSource};
use mcpdeck::base::ring::Batch;
use mcpdeck::base::text::SafeText;
use mcpdeck::base::{LogLevel, Timestamp};
use mcpdeck::deck::News;
use mcpdeck::protocol::RequestKind;
use mcpdeck::tui::app::App;
use mcpdeck::tui::effect::Effect;
use mcpdeck::tui::message::{CallToken, Message};
use mcpdeck::{Error, ErrorCode};
use serde_json::{Value, json};

use super::driver::Driver;
use super::keys::types;
use super::{draw, press};

const NONE: KeyModifiers = KeyModifiers::NONE;
const CONTROL: KeyModifiers = KeyModifiers::CONTROL;

/// The catalogue with one tool: its name and its annotations.
fn tool(name: &str, annotations: &Value) -> App {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {"note": text, "steps": text}});
    let tool = json!({"name": name, "inputSchema": schema, "annotations": annotations});
    let mut app = super::find::over(&json!([{"server": "everything", "tools": [tool],
        "prompts": [], "resources": []}]));
    types(&mut app, "2");
    draw(&mut app, 120, 40);
    app
}

fn call(app: &mut App) -> CallToken {
    let effects = press(app, KeyCode::F(5), NONE);
    let token = effects.iter().find_map(|effect| match effect {
        Effect::Call(token, _) => Some(*token),
        _ => None,
    });
    token.unwrap_or_else(|| panic!("{effects:?}"))
}

#[test]
fn annotations_have_the_same_words_in_the_list_the_detail_and_the_form() {
    for (annotations, manner, all) in [
        (
            json!({"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false}),
            "read-only",
            "annotations: read-only, idempotent, not open-world",
        ),
        (
            json!({"readOnlyHint": false, "destructiveHint": true, "openWorldHint": true}),
            "destructive",
            "annotations: destructive, open-world",
        ),
        (
            json!({"destructiveHint": false, "idempotentHint": false}),
            "additive",
            "annotations: additive, not idempotent",
        ),
        (json!({"readOnlyHint": false}), "not read-only", "annotations: not read-only"),
    ] {
        let mut app = tool("move", &annotations);
        let screen = draw(&mut app, 200, 40);
        let row = screen.lines().find(|line| line.contains("▸")).expect("a row");
        let (row, _) = row.split_once('│').expect("a detail at the right");
        assert!(row.contains(manner), "{row}");
        assert!(screen.contains(all), "{all}: {screen}");
        press(&mut app, KeyCode::Enter, NONE);
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains(&format!("everything · {manner}")), "{screen}");
    }
}

#[test]
fn a_past_call_keeps_its_name_and_tells_how_it_ended_in_words() {
    let name = "trigger-long-running-operation";
    let mut app = tool(name, &json!({}));
    press(&mut app, KeyCode::Enter, NONE);
    draw(&mut app, 80, 24);
    types(&mut app, "words that go on and on and on and on and on and on");
    let token = call(&mut app);
    press(&mut app, KeyCode::Char('t'), CONTROL);
    let screen = draw(&mut app, 80, 24);
    let row = |screen: &str| {
        screen
            .lines()
            .find(|line| line.contains("▸ev"))
            .unwrap_or_else(|| panic!("{screen}"))
            .to_owned()
    };
    let shown = row(&screen);
    assert!(shown.contains(&format!("▸everything.{name} {{")), "{shown}");
    assert!(shown.contains("… ") && shown.contains("running, just now"), "{shown}");
    press(&mut app, KeyCode::Esc, NONE);
    press(&mut app, KeyCode::Char('x'), CONTROL);
    app.update(Message::Now(Timestamp(1_790_000_091_600_000)));
    let error = Error::new(ErrorCode::Cancelled, "cancelled").server(&"everything".into());
    app.update(Message::CallEnded(token, Box::new(Err(error))));
    press(&mut app, KeyCode::Char('t'), CONTROL);
    let screen = draw(&mut app, 120, 40);
    let shown = row(&screen);
    assert!(shown.contains(&format!("▸everything.{name} {{")), "{shown}");
    assert!(shown.contains("cancelled 1.6 s, just now"), "{shown}");
}

#[test]
fn the_keys_below_a_question_are_those_of_the_question() {
    let mut driver = Driver::new();
    let message = json!({"role": "user", "content": {"type": "text", "text": "Hello?"}});
    driver.ask(RequestKind::Sampling, json!({"maxTokens": 5, "messages": [message]}));
    driver.shown();
    let last = |app: &mut App| {
        let screen = draw(app, 120, 40);
        assert!(screen.contains("stop the servers and quit?"), "{screen}");
        screen.lines().last().expect("a line").trim().to_owned()
    };
    // Over an answer.
    driver.keys("\x07\x03");
    assert_eq!(last(&mut driver.app), "y yes   n no");
    driver.keys("n");
    // Over a form.
    driver.keys("\x1b");
    driver.keys("2");
    draw(&mut driver.app, 120, 40);
    driver.keys("\r");
    draw(&mut driver.app, 120, 40);
    driver.keys("\x03");
    assert_eq!(last(&mut driver.app), "y yes   n no");
}

#[test]
fn one_failure_is_counted_once_however_many_lines_tell_of_it() {
    let mut driver = Driver::new();
    let begin = driver.app.model.logs.end();
    let mut items = Vec::new();
    for attempt in 0..3 {
        for state in ["crashed", "unavailable"] {
            items.push(Arc::new(LogRecord {
                at: super::driver::ARRIVED.plus(Duration::from_secs(attempt)),
                server: Some("memory".into()),
                source: LogSource::Host,
                level: LogLevel::Error,
                logger: None,
                text: SafeText::line(&format!("{state}: exit code 1 after {attempt}.2 s: no key")),
            }));
        }
    }
    let next = begin + items.len() as u64;
    driver.app.update(Message::News(News::Logs(Batch { items, first: begin, next, missed: 0 }, 0)));
    let screen = draw(&mut driver.app, 120, 40);
    assert!(screen.contains("5 Logs ⚠1"), "{screen}");
}

#[test]
fn the_keys_of_a_server_stand_below_a_text_about_that_server_alone() {
    for (keys, restarts) in [("1b", true), ("2$", false)] {
        let mut driver = Driver::new();
        for key in keys.chars() {
            driver.keys(&key.to_string());
            draw(&mut driver.app, 120, 40);
        }
        let screen = draw(&mut driver.app, 120, 40);
        let last = screen.lines().last().expect("a line");
        assert!(last.contains("esc back"), "{screen}");
        assert_eq!(last.contains("restart"), restarts, "{keys}: {last}");
    }
}
