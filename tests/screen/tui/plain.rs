//! What stands on the screen is said in words, and whole: no code, no half of a word, no column that
//! moves while a list is read.

use std::sync::Arc;

use mcpdeck::error::{Error, ErrorCode};
use mcpdeck::protocol::{Direction, MessageKind};
use mcpdeck::tui::message::CallToken;

use super::driver::Driver;
use super::*;

fn types(app: &mut App, keys: &str) {
    keys.chars().for_each(|key| _ = press(app, KeyCode::Char(key), KeyModifiers::NONE));
}

fn message(id: u32, method: &str, problem: Option<&str>) -> Arc<TrafficRecord> {
    let kind = if problem.is_some() { MessageKind::Error } else { MessageKind::Request };
    Arc::new(TrafficRecord {
        at: Timestamp(1_790_000_000_000_000),
        server: "filesystem".into(),
        direction: if problem.is_some() { Direction::In } else { Direction::Out },
        kind,
        method: Some(SafeText::line(method)),
        target: (method == "tools/call").then(|| SafeText::line("write")),
        id: Some(SafeText::line(&id.to_string())),
        call: None,
        bytes: if problem.is_some() { 0 } else { 100 },
        latency: None,
        queued: None,
        body: "{}".into(),
        cut: false,
        problem: problem.map(|why| SafeText::line(&format!("no answer: {why}"))),
    })
}

#[test]
fn what_is_wrong_with_a_message_is_told_in_words_or_by_a_sign_and_never_in_letters() {
    let mut app = app("empty");
    let gone = Some("the server went away: exit code 3");
    let items = vec![
        message(1, "tools/call", None),
        message(2, "resources/templates/list", None),
        message(3, "subscriptions/listen", None),
        message(1, "tools/call", gone),
        message(2, "resources/templates/list", gone),
        message(3, "subscriptions/listen", gone),
    ];
    app.update(Message::News(News::Traffic(Batch { items, first: 0, next: 6, missed: 0 }, 0)));
    types(&mut app, "4g");
    for width in [60, 70, 80, 90, 100, 110, 120, 140, 160, 200, 240] {
        let screen = draw(&mut app, width, 30);
        let rows = |what: &str| {
            let found = screen.lines().find(|line| line.contains(what));
            found.unwrap_or_else(|| panic!("{width}: {screen}")).to_owned()
        };
        for what in ["tools/call", "resources/te"] {
            let row = rows(what);
            let (_, told) = row.split_once('⚠').unwrap_or_else(|| panic!("{width}: {screen}"));
            let told = told.split("  ").next().unwrap_or_default().trim();
            let told = told.trim_end_matches('…');
            assert!(told.is_empty() || told.len() >= "no answer: the".len(), "{width}: {screen}");
        }
        // It ended as it should.
        assert!(!rows("subscriptions").contains('⚠'), "{width}: {screen}");
        // The line above the messages has no half of a word either.
        let head = screen.lines().find(|line| line.contains(" of 6 messages")).unwrap();
        assert!(!head.contains('…'), "{width}: {screen}");
    }
}

/// A call that is still running when another pane is looked at.
fn left() -> (Driver, CallToken) {
    let (mut driver, token) = super::why::calling();
    driver.keys("\x1b");
    driver.keys("\x1b");
    draw(&mut driver.app, 100, 30);
    (driver, token)
}

#[test]
fn an_error_is_named_in_words_wherever_it_is_seen() {
    use ErrorCode::*;
    for (code, words) in [
        (ServerUnavailable, "server unavailable"),
        (ServerStartup, "server did not start"),
        (CircuitOpen, "rejected by the breaker"),
        (BudgetExceeded, "budget spent"),
        (RateLimited, "too many calls"),
        (ToolNotFound, "not found"),
        (Ambiguous, "ambiguous name"),
        (Configuration, "configuration error"),
        (Timeout, "timed out"),
        (Cancelled, "cancelled"),
        (Internal, "internal error"),
    ] {
        let (mut driver, token) = left();
        let error = Error::new(code, "no such luck").server(&"filesystem".into());
        driver.app.update(Message::CallEnded(token, Box::new(Err(error))));
        for width in [80, 120] {
            let screen = draw(&mut driver.app, width, 30);
            assert!(screen.contains(words), "{code}: {screen}");
            assert!(!screen.contains(code.as_str()), "{code}: {screen}");
        }
    }
}

#[test]
fn scrolling_and_filtering_move_no_column_of_a_list() {
    let mut app = app("overflow");
    types(&mut app, "2");
    for (width, height) in [(80, 24), (100, 30), (120, 35), (160, 45)] {
        let titles = |screen: &str| {
            let line = screen.lines().find(|line| line.contains(" name "));
            let line = line.unwrap_or_else(|| panic!("{screen}"));
            line.split('│').next().unwrap_or_default().to_owned()
        };
        press(&mut app, KeyCode::Home, KeyModifiers::NONE);
        let before = titles(&draw(&mut app, width, height));
        for key in [KeyCode::PageDown, KeyCode::PageDown, KeyCode::End] {
            press(&mut app, key, KeyModifiers::NONE);
            assert_eq!(titles(&draw(&mut app, width, height)), before);
        }
    }
}
