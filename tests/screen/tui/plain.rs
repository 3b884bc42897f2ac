//! What stands on the screen is said in words, and whole: no code, no half of a word, no column that
//! moves while a list is read.

use std::sync::Arc;

use mcpdeck::error::{Error, ErrorCode};
use mcpdeck::host::{Decider, Settlement};
use mcpdeck::protocol::{Direction, MessageKind, RequestKind};
use mcpdeck::tui::message::CallToken;
use ratatui::style::Modifier;
use serde_json::json;

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
        tolerated: false,
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
fn where_there_is_no_file_nothing_is_edited_and_it_says_where_one_would_come_from() {
    let mut app = app("typical");
    let mut view = session("typical");
    view.files = Vec::default();
    app.update(Message::News(News::View(Arc::new(view))));
    for (width, height) in [(80, 24), (120, 40)] {
        types(&mut app, "7");
        let screen = draw(&mut app, width, height);
        let text = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            text.contains("there is nothing to edit; `mcpdeck -c FILE` opens a file"),
            "{screen}"
        );
        types(&mut app, "e");
        let screen = draw(&mut app, width, height);
        assert!(screen.contains("in no file: `mcpdeck -c FILE` opens one"), "{screen}");
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

#[test]
fn requests_that_ended_alike_share_a_row() {
    let mut driver = Driver::new();
    for _ in 0..4 {
        driver.ask(RequestKind::Roots, json!({}));
        let id = *driver.view.pending.keys().next().unwrap();
        let reason = SafeText::line("the call that asked ended");
        driver.settle(id, Settlement::Withdrawn { reason });
    }
    driver.shown();
    driver.keys("6l");
    let screen = draw(&mut driver.app, 160, 45);
    assert_eq!(screen.matches("the call that asked ended").count(), 1, "{screen}");
    assert!(screen.contains("4 times") && screen.contains("the last after 12.0 s"), "{screen}");
}

#[test]
fn what_became_of_a_request_is_told_in_the_past_and_by_whom() {
    let endings = [
        ("result", "answered by you, after 12.0 s"),
        ("accept", "accepted by you, after 12.0 s"),
        ("decline", "declined by you, after 12.0 s"),
        ("cancel", "cancelled by you, after 12.0 s"),
        ("refused: not now", "refused by you: not now, after 12.0 s"),
    ];
    for (how, words) in endings {
        let mut driver = Driver::new();
        driver.ask(RequestKind::Roots, json!({}));
        let id = *driver.view.pending.keys().next().unwrap();
        driver.settle(id, Settlement::Answered { by: Decider::Person, how: how.into() });
        driver.shown();
        driver.keys("6l");
        let screen = draw(&mut driver.app, 160, 45);
        assert!(screen.contains(words), "{how}: {screen}");
    }
}

#[test]
fn a_command_that_is_spelled_out_is_found_although_it_cannot_be_used() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    // What can be used comes first among those that match as well.
    types(&mut app, ":show all servers");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("all servers are shown"), "{screen}");
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    draw(&mut app, 120, 40);
    types(&mut app, ":server");
    let screen = draw(&mut app, 120, 40);
    let rows: Vec<&str> =
        screen.lines().filter(|line| line.to_lowercase().contains("server")).collect();
    let first = rows.iter().find(|line| line.contains('▸')).unwrap_or_else(|| panic!("{screen}"));
    assert!(!first.contains("no file"), "{screen}");
}

#[test]
fn the_help_is_laid_out_anew_when_the_terminal_is_resized() {
    let mut app = app("typical");
    draw(&mut app, 80, 24);
    types(&mut app, "?");
    draw(&mut app, 80, 24);
    let wide = draw(&mut app, 160, 45);
    let narrow = draw(&mut app, 60, 45);
    for (screen, width) in [(&wide, 160), (&narrow, 60)] {
        let longest = screen.lines().map(|line| line.chars().count()).max().unwrap_or(0);
        assert!(longest <= width, "{screen}");
        assert!(!screen.contains('…'), "{screen}");
    }
    // What needed two rows in the narrow one has one in the wide one.
    assert_ne!(wide.lines().nth(10), narrow.lines().nth(10));
}

#[test]
fn nothing_behind_a_dialog_has_a_ground_of_its_own() {
    let mut app = app("typical");
    types(&mut app, "2");
    draw(&mut app, 100, 30);
    types(&mut app, "/re");
    let area = Rect::new(0, 0, 100, 30);
    let grounds = |app: &mut App| {
        draw(app, 100, 30);
        let mut buffer = Buffer::empty(area);
        app.render(area, &mut buffer);
        let above = area.height - 3;
        let cells = area.positions().filter(|at| at.y < above).map(|at| buffer[at].bg);
        cells.collect::<std::collections::HashSet<_>>()
    };
    assert!(grounds(&mut app).len() > 1, "what is found stands out");
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    press(&mut app, KeyCode::Char('c'), KeyModifiers::CONTROL);
    press(&mut app, KeyCode::F(1), KeyModifiers::NONE);
    let screen = draw(&mut app, 100, 30);
    assert_eq!(grounds(&mut app).len(), 1, "{screen}");
}

#[test]
fn what_lies_behind_a_dialog_is_dimmed_without_colours_too() {
    let depth = mcpdeck::tui::theme::ColorDepth::None;
    let mut app = app_with("typical", Setup { themes: mcpdeck::THEMES, depth, ..Setup::default() });
    types(&mut app, "2");
    draw(&mut app, 100, 30);
    types(&mut app, ":");
    let screen = draw(&mut app, 100, 30);
    let area = Rect::new(0, 0, 100, 30);
    let mut buffer = Buffer::empty(area);
    app.render(area, &mut buffer);
    assert!(buffer[(1, 0)].modifier.contains(Modifier::DIM), "{screen}");
}
