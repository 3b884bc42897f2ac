//! What does not fit a row: it wraps, or a key shows all of it; and states in the words of people.

use std::sync::Arc;

use mcpdeck::base::text::SafeText;
use mcpdeck::config::{Diagnostic, Severity};
use mcpdeck::deck::{DeckEvent, FileText};
use mcpdeck::host::{Fact, ServerState};
use mcpdeck::process::ExitView;
use mcpdeck::protocol::RequestKind;
use mcpdeck::tui::message::Message;

use crate::tui::driver::Driver;

/// A configuration on one line, with a problem far to its right.
fn on_one_line() -> (String, u32) {
    let entry = |n: usize| {
        format!("\"server{n}\":{{\"command\":\"npx\",\"args\":[\"-y\",\"package-{n}\"]}}")
    };
    let entries: Vec<String> = (0..12).map(entry).collect();
    let line =
        format!("{{\"mcpServers\":{{{},\"last\":{{\"comand\":\"x\"}}}}}}", entries.join(","));
    let column = line.find("\"comand\"").expect("there") as u32 + 1;
    (line, column)
}

#[test]
fn a_file_on_one_line_wraps_and_a_problem_stands_below_its_own_row() {
    let (line, column) = on_one_line();
    for (width, height) in [(80, 40), (120, 40), (200, 60)] {
        let mut driver = Driver::new();
        let files = vec![FileText { path: "mcp.json".into(), lines: vec![SafeText::line(&line)] }];
        driver.app.update(Message::Deck(DeckEvent::Waiting(files.into())));
        let what = "`comand` is not a known key of a server".to_owned();
        let mut found = Diagnostic::new("config/unknown-key", Severity::Warning, what);
        (found.at.file, found.at.line, found.at.column) = ("mcp.json".into(), 1, column);
        driver.view.diagnostics = vec![found];
        driver.shown();
        driver.keys("7");
        let screen = crate::tui::draw(&mut driver.app, width, height);
        let rows: Vec<&str> = screen.lines().collect();
        for n in 0..12 {
            assert!(screen.contains(&format!("package-{n}\"")), "{n}: {screen}");
        }
        let below = rows.iter().position(|row| row.contains("^ warning")).expect("a problem");
        assert!(rows[below - 1].contains("comand"), "{screen}");
        assert!(rows[below + 1..].iter().all(|row| !row.contains("server0")), "{screen}");
    }
}

#[test]
fn a_server_that_was_stopped_is_called_so_and_until_its_process_ends_it_is_stopping() {
    let mut driver = Driver::new();
    let state = |reason: &str| Fact::StateChanged {
        state: ServerState::Shutdown,
        reason: Some(SafeText::line(reason)),
        attempt: 1,
        retry_at: None,
    };
    Arc::make_mut(driver.view.servers.get_mut("memory").expect("a server")).pid = Some(7);
    driver.fact("memory", state("stopping"));
    driver.shown();
    driver.keys("1");
    let row = |driver: &mut Driver| {
        let screen = crate::tui::draw(&mut driver.app, 120, 40);
        assert!(!screen.contains("shutdown"), "{screen}");
        let row = screen.lines().find(|row| row.contains("· memory")).expect("its row");
        (row.to_owned(), screen)
    };
    let (line, _) = row(&mut driver);
    assert!(line.contains("stopping") && !line.contains("stopped"), "{line}");
    let exit = ExitView { code: Some(0), expected: true, ..ExitView::default() };
    driver.fact("memory", Fact::Exited { exit, stderr_tail: Vec::new() });
    driver.fact("memory", state("stopped on request"));
    driver.shown();
    let (line, screen) = row(&mut driver);
    assert_eq!(line.matches("stopped").count(), 1, "{line}");
    assert!(line.contains("on request"), "{line}");
    assert!(screen.contains("1 stopped"), "{screen}");
}

#[test]
fn an_open_list_of_choices_has_a_frame_on_all_sides() {
    let schema = serde_json::json!({"type": "object", "required": ["drink"],
        "properties": {"drink": {"type": "string", "enum": ["tea", "coffee"]}}});
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let mut driver = Driver::new();
        let question = serde_json::json!({"message": "Which?", "requestedSchema": schema});
        driver.ask(RequestKind::Elicitation, question);
        driver.shown();
        driver.keys("\x07");
        crate::tui::draw(&mut driver.app, width, height);
        driver.keys("t");
        let screen = crate::tui::draw(&mut driver.app, width, height);
        let rows: Vec<Vec<char>> = screen.lines().map(|row| row.chars().collect()).collect();
        let is_head = |row: &Vec<char>| row.iter().collect::<String>().contains("╭─ / t ─");
        let top = rows.iter().position(is_head).unwrap_or_else(|| panic!("a frame: {screen}"));
        let corner = |sign| rows[top].iter().position(|c| *c == sign).expect("a corner");
        let (left, right) = (corner('╭'), corner('╮'));
        let at = |row: usize, column: usize| rows[row].get(column).copied().unwrap_or(' ');
        assert_eq!((at(top + 1, left), at(top + 1, right)), ('│', '│'), "{screen}");
        assert_eq!((at(top + 2, left), at(top + 2, right)), ('╰', '╯'), "{screen}");
        let entry: String = rows[top + 1][left + 1..right].iter().collect();
        assert_eq!(entry.trim(), "tea", "{screen}");
    }
}

#[test]
fn the_keys_of_a_list_are_named_as_the_protocol_does_and_only_where_they_do_something() {
    let mut driver = Driver::new();
    let foot = |driver: &mut Driver| {
        let screen = crate::tui::draw(&mut driver.app, 120, 40);
        (screen.lines().last().expect("a last line").to_owned(), screen)
    };
    for (keys, word) in [("2", "enter call"), ("3", "enter read"), ("3v", "enter get")] {
        driver.keys(keys);
        let (line, screen) = foot(&mut driver);
        assert!(line.contains(word), "{keys}: {screen}");
    }
    driver.keys("2");
    let (_, screen) = foot(&mut driver);
    assert!(screen.contains("tools of 2 servers"), "those that offer some: {screen}");
    // A form without lists has nothing to add to.
    driver.keys("\r");
    let (line, screen) = foot(&mut driver);
    assert!(line.contains("f5 call") && !line.contains("insert"), "{screen}");
}

#[test]
fn the_list_after_the_key_for_more_names_every_key_whole_and_says_what_does_nothing_here() {
    let schema = serde_json::json!({"type": "object",
        "properties": {"drink": {"type": "string"}}});
    let mut driver = Driver::new();
    let question = serde_json::json!({"message": "Which?", "requestedSchema": schema});
    driver.ask(RequestKind::Elicitation, question);
    driver.shown();
    driver.keys("\x07");
    crate::tui::draw(&mut driver.app, 120, 40);
    driver.keys("\u{e002}");
    let screen = crate::tui::draw(&mut driver.app, 120, 40);
    let row = |word: &str| {
        let found = screen.lines().find(|row| row.contains(word));
        found.unwrap_or_else(|| panic!("{word}: {screen}")).to_owned()
    };
    assert!(row("Move this item down").contains("│ down Move"), "{screen}");
    for word in ["Add an item", "Remove this item", "Duplicate this item"] {
        assert!(row(word).contains('('), "{word}: {screen}");
    }
    assert!(!row("Unset the value").contains('('), "{screen}");
}
