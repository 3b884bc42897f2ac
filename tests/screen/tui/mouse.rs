//! The mouse on everything that is drawn: what is clicked is what stands there.

use crossterm::event::{Event, KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use mcpdeck::base::logs::{LogRecord, LogSource};
use mcpdeck::base::ring::Batch;
use mcpdeck::base::text::SafeText;
use mcpdeck::base::{LogLevel, Timestamp};
use mcpdeck::deck::{DeckEvent, News};
use mcpdeck::protocol::RequestKind;
use mcpdeck::tui::app::{App, Setup};
use mcpdeck::tui::effect::{Effect, Order};
use mcpdeck::tui::message::Message;

use super::driver::Driver;
use super::{app, draw, press};

const NONE: KeyModifiers = KeyModifiers::NONE;

fn mouse(app: &mut App, kind: MouseEventKind, column: u16, row: u16) -> Vec<Effect> {
    app.update(Message::Input(Event::Mouse(MouseEvent { kind, column, row, modifiers: NONE })))
}

/// Clicks on the first cell of a text that is on the screen of 120 x 40.
fn click(app: &mut App, text: &str) -> Vec<Effect> {
    let screen = draw(app, 120, 40);
    let (column, row) = place(&screen, text);
    mouse(app, MouseEventKind::Down(MouseButton::Left), column, row)
}

fn place(screen: &str, text: &str) -> (u16, u16) {
    for (row, line) in screen.lines().enumerate() {
        if let Some(at) = line.find(text) {
            return (line[..at].chars().count() as u16, row as u16);
        }
    }
    panic!("not on the screen: {text}\n{screen}");
}

#[test]
fn tabs_servers_rows_and_the_footer_are_clicked() {
    let mut app = app("typical");
    press(&mut app, KeyCode::Char('\\'), NONE);
    click(&mut app, "2 Tools");
    click(&mut app, "● memory ");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("1 tool of 1 server"), "{screen}");
    click(&mut app, "All servers");
    click(&mut app, "? help");
    assert!(draw(&mut app, 120, 40).contains("keys: Tools"));
    click(&mut app, " mcp");
    assert!(!draw(&mut app, 120, 40).contains("keys: Tools"), "a click beside it closes it");
    for _ in 0..2 {
        click(&mut app, "write_file ");
    }
    let form = draw(&mut app, 120, 40);
    assert!(form.contains("write_file   filesystem · "), "a double click opens\n{form}");
}

#[test]
fn a_form_is_filled_and_called_by_mouse_and_a_question_answered() {
    let mut app = app("typical");
    press(&mut app, KeyCode::Char('2'), NONE);
    for _ in 0..2 {
        click(&mut app, "write_file ");
    }
    click(&mut app, "content *");
    press(&mut app, KeyCode::Char('z'), NONE);
    let form = draw(&mut app, 120, 40);
    let mut lines = form.lines();
    let line = lines.find(|line| line.contains("content *")).unwrap();
    assert!(line.contains('z') && line.contains("▎content"), "{form}");
    click(&mut app, "  Call");
    let form = draw(&mut app, 120, 40);
    assert!(
        form.contains("▎path"),
        "a click on the line calls, which leads to what is missing\n{form}"
    );
}

/// Opens the changed file, which waits last.
fn plan(app: &mut App) {
    for key in ['6', 'G'] {
        press(app, KeyCode::Char(key), NONE);
    }
    draw(app, 120, 40);
    press(app, KeyCode::Enter, NONE);
}

#[test]
fn yes_and_no_are_clicked_and_nothing_else_of_a_question_is_a_yes() {
    let mut app = app("typical");
    app.update(Message::Resize(120, 40));
    app.update(Message::Deck(DeckEvent::Situation(std::sync::Arc::new(super::situation()))));
    press(&mut app, KeyCode::Esc, NONE);
    plan(&mut app);
    let apply = |effects: &[Effect]| {
        let apply = Effect::Config(mcpdeck::tui::effect::ConfigCommand::Apply);
        effects.contains(&apply)
    };
    for words in ["apply the changed configuration?", "restart    files", "mcpdeck"] {
        assert!(!apply(&click(&mut app, words)), "{words}");
    }
    assert!(!apply(&click(&mut app, "n no")));
    assert!(!draw(&mut app, 120, 40).contains("apply the changed configuration?"));
    plan(&mut app);
    assert!(!apply(&click(&mut app, "y yes")), "there was no time to read it");
    let read = app.model.now.plus(std::time::Duration::from_millis(500));
    app.update(Message::Now(read));
    assert!(apply(&click(&mut app, "y yes")));
}

#[test]
fn the_keys_at_the_foot_of_a_call_screen_are_clicked_and_only_those_that_mean_something_stand_there()
 {
    let mut app = app("typical");
    press(&mut app, KeyCode::Char('2'), NONE);
    for _ in 0..2 {
        click(&mut app, "write_file ");
    }
    let screen = draw(&mut app, 120, 40);
    for useless in ["cancel", "f6"] {
        assert!(!screen.contains(useless), "{useless}: No calls yet\n{screen}");
    }
    click(&mut app, "f1 help");
    assert!(draw(&mut app, 120, 40).contains("keys: calling"));
    press(&mut app, KeyCode::Esc, NONE);
    click(&mut app, "f5 call");
    let form = draw(&mut app, 120, 40);
    assert!(form.contains("⚠ required"), "{form}");
    let later = app.model.now.plus(std::time::Duration::from_secs(5));
    app.update(Message::Now(later));
    click(&mut app, "esc back");
    assert!(
        draw(&mut app, 120, 40).contains(" tools of "),
        "a click on the way back is the way back"
    );
}

/// Runs the checks that were asked for.
fn checked(app: &mut App, effects: &[Effect]) -> Vec<Effect> {
    let mut more = Vec::new();
    for effect in effects {
        if let Effect::Check(token, job) = effect {
            let found = Box::new(job.clone().run());
            more.extend(app.update(Message::Checked(*token, found)));
        }
    }
    more
}

fn elicitation(message: &str) -> Driver {
    let schema = serde_json::json!({"type": "object", "required": ["seat"], "properties": {
        "seat": {"type": "string", "title": "Seat"}, "meal": {"type": "string", "title": "Meal"}}});
    let mut driver = Driver::new();
    draw(&mut driver.app, 120, 40);
    let params = serde_json::json!({"message": message, "requestedSchema": schema});
    driver.ask(RequestKind::Elicitation, params);
    driver.shown();
    driver.keys("\x07");
    driver
}

#[test]
fn an_answer_is_given_by_mouse_and_never_by_a_single_stray_click() {
    let mut driver = elicitation("Where do you sit?");
    let sends =
        |effects: &[Effect]| effects.iter().any(|e| matches!(e, Effect::Order(Order::Answer(..))));
    assert!(!sends(&click(&mut driver.app, "Meal")));
    driver.keys("x");
    let screen = draw(&mut driver.app, 120, 40);
    assert!(screen.lines().any(|line| line.contains("Meal") && line.contains('x')), "{screen}");
    click(&mut driver.app, "Seat");
    driver.keys("12a");
    assert!(!sends(&click(&mut driver.app, "Where do you sit?")), "from the server is read");
    assert!(!sends(&click(&mut driver.app, "accept (f5)")), "one click chooses the line");
    driver.reads();
    let mut effects = click(&mut driver.app, "accept (f5)");
    effects.extend(checked(&mut driver.app, &effects));
    assert!(
        sends(&effects),
        "a second one means it: {effects:?}\n{}",
        draw(&mut driver.app, 120, 40)
    );
}

#[test]
fn the_keys_at_the_foot_of_the_answering_screen_are_clicked() {
    let mut driver = elicitation("Where do you sit?");
    driver.reads();
    let effects = click(&mut driver.app, "decline");
    assert!(matches!(effects.as_slice(), [Effect::Order(Order::Answer(..))]), "{effects:?}");
}

#[test]
fn text_is_selected_by_a_drag_within_its_region_and_copied_when_the_button_is_released() {
    let mut app = app("typical");
    press(&mut app, KeyCode::Char('2'), NONE);
    let screen = draw(&mut app, 120, 40);
    let (column, row) = place(&screen, "write_file ");
    mouse(&mut app, MouseEventKind::Down(MouseButton::Left), column, row);
    // Far over the rule beside the list, and a line down.
    mouse(&mut app, MouseEventKind::Drag(MouseButton::Left), 119, row);
    let effects = mouse(&mut app, MouseEventKind::Up(MouseButton::Left), 119, row);
    let copied = effects.iter().find_map(|effect| match effect {
        Effect::Copy(text) => Some(text.clone()),
        _ => None,
    });
    let copied = copied.expect("it is copied");
    assert!(copied.starts_with("write_file ") && !copied.contains('│'), "{copied:?}");
    assert_eq!(copied.lines().count(), 1, "{copied:?}");
    assert!(draw(&mut app, 120, 40).contains("copied "), "it is said");
    let nothing = mouse(&mut app, MouseEventKind::Up(MouseButton::Left), 5, 5);
    assert!(nothing.is_empty(), "a click alone copies nothing: {nothing:?}");
}

#[test]
fn a_drag_is_given_up_by_a_key_and_copies_several_rows_as_lines() {
    let mut app = app("overflow");
    press(&mut app, KeyCode::Char('2'), NONE);
    let screen = draw(&mut app, 120, 40);
    let (column, row) = place(&screen, "name      ");
    let row = row + 1;
    let down = MouseEventKind::Down(MouseButton::Left);
    let drag = MouseEventKind::Drag(MouseButton::Left);
    let up = MouseEventKind::Up(MouseButton::Left);
    mouse(&mut app, down, column, row);
    mouse(&mut app, drag, column + 3, row + 2);
    press(&mut app, KeyCode::Char('j'), NONE);
    assert!(mouse(&mut app, up, column, row + 2).is_empty());
    mouse(&mut app, down, column, row + 1);
    mouse(&mut app, drag, column + 9, row + 3);
    let effects = mouse(&mut app, up, column + 9, row + 3);
    let [Effect::Copy(text)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(!text.contains('│'), "{text}");
}

#[test]
fn the_wheel_moves_what_it_turns_over() {
    let mut app = app("overflow");
    press(&mut app, KeyCode::Char('2'), NONE);
    draw(&mut app, 120, 40);
    mouse(&mut app, MouseEventKind::ScrollDown, 40, 20);
    let list = draw(&mut app, 120, 40);
    mouse(&mut app, MouseEventKind::ScrollDown, 110, 20);
    let detail = draw(&mut app, 120, 40);
    let left = |screen: &str| {
        screen.lines().map(|line| line.chars().take(60).collect::<String>()).collect::<Vec<_>>()
    };
    assert_eq!(left(&list), left(&detail), "over the detail the list stands still");
    press(&mut app, KeyCode::Char(':'), NONE);
    let before = draw(&mut app, 120, 40);
    mouse(&mut app, MouseEventKind::ScrollDown, 60, 15);
    assert_ne!(draw(&mut app, 120, 40), before, "the palette scrolls");
}

#[test]
fn the_wheel_over_an_answer_moves_in_its_list_and_over_the_request_scrolls_that() {
    let mut driver = Driver::new();
    draw(&mut driver.app, 120, 40);
    let options: Vec<String> = (0..30).map(|n| format!("seat {n};")).collect();
    let field = serde_json::json!({"type": "string", "title": "Seat", "enum": options});
    let message = "Where do you sit?\n".repeat(60);
    let schema = serde_json::json!({"type": "object", "properties": {"seat": field}});
    let params = serde_json::json!({"message": message, "requestedSchema": schema});
    driver.ask(RequestKind::Elicitation, params);
    driver.shown();
    driver.keys("\x07");
    draw(&mut driver.app, 120, 40);
    driver.keys("\r");
    assert!(draw(&mut driver.app, 120, 40).contains("seat 0;"));
    let (_, request) = place(&draw(&mut driver.app, 120, 40), "Where do you sit?");
    let (column, row) = place(&draw(&mut driver.app, 120, 40), "seat 0;");
    for _ in 0..10 {
        mouse(&mut driver.app, MouseEventKind::ScrollDown, column, row);
    }
    driver.keys("\r");
    let chosen = draw(&mut driver.app, 120, 40);
    assert!(chosen.contains("seat 30;") || chosen.contains("seat 29;"), "{chosen}");
    mouse(&mut driver.app, MouseEventKind::ScrollDown, column, request);
    assert_ne!(draw(&mut driver.app, 120, 40), chosen, "the request scrolls");
}

/// The logs pane over these lines.
fn logs(lines: &[&str]) -> App {
    let mut app = App::new(
        Setup { themes: mcpdeck::THEMES, ..Setup::default() },
        Timestamp(1_790_000_000_000_000),
    );
    let line = |text: &&str| {
        std::sync::Arc::new(LogRecord {
            at: Timestamp(1_790_000_000_000_000),
            server: None,
            source: LogSource::Host,
            level: LogLevel::Info,
            logger: None,
            text: SafeText::line(text),
        })
    };
    let items: Vec<_> = lines.iter().map(line).collect();
    let next = items.len() as u64;
    app.update(Message::EngineReady);
    app.update(Message::News(News::Logs(Batch { items, first: 0, next, missed: 0 }, 0)));
    press(&mut app, KeyCode::Char('5'), NONE);
    app
}

#[test]
fn a_second_click_opens_the_line_of_a_log_also_where_lines_wrap() {
    let long = "word ".repeat(60);
    for wraps in [false, true] {
        let mut app = logs(&[&long, "the second line", "the third line"]);
        if wraps {
            press(&mut app, KeyCode::Char('W'), NONE);
        }
        click(&mut app, "the second line");
        let screen = draw(&mut app, 120, 40);
        let selected = screen.lines().find(|line| line.contains('▸')).unwrap();
        assert!(selected.contains("the second line"), "{screen}");
        click(&mut app, "the second line");
        let opened = draw(&mut app, 120, 40);
        assert!(opened.contains("log line"), "{opened}");
    }
}

#[test]
fn a_click_on_a_title_of_the_metrics_sorts_and_a_second_one_turns_it_round() {
    let mut app = app("typical");
    press(&mut app, KeyCode::Char('1'), NONE);
    press(&mut app, KeyCode::Char('v'), NONE);
    let metrics = |requests, tool_errors| {
        let mut metrics = mcpdeck::host::ServerMetrics::default();
        metrics.total.requests = requests;
        metrics.total.tool_errors = tool_errors;
        metrics
    };
    let figures = [("filesystem".into(), metrics(1, 1)), ("memory".into(), metrics(2, 0))];
    app.update(Message::News(News::Metrics(figures.into())));
    // The first cell of a title that fills its column belongs to that column.
    for (title, filesystem_first) in
        [("calls ", false), ("calls", true), ("name", true), ("name", false), ("errors", true)]
    {
        click(&mut app, title);
        let screen = draw(&mut app, 120, 40);
        let rows = screen.lines().skip(4).filter_map(|line| line.split('│').next());
        let first =
            rows.into_iter().find(|row| row.contains("filesystem") || row.contains("memory"));
        assert_eq!(first.unwrap().contains("filesystem"), filesystem_first, "{title}\n{screen}");
    }
}

#[test]
fn a_file_that_changes_again_while_its_change_is_asked_about_is_asked_about_anew() {
    let mut app = app("typical");
    app.update(Message::Resize(120, 40));
    let deck = |situation| Message::Deck(DeckEvent::Situation(std::sync::Arc::new(situation)));
    app.update(deck(super::situation()));
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    plan(&mut app);
    draw(&mut app, 120, 40);
    app.update(Message::Now(app.model.now.plus(std::time::Duration::from_secs(1))));
    let mut again = super::situation();
    again.revision = 2;
    again.plan.as_mut().unwrap().removed.push("billing".into());
    app.update(deck(again));
    let effects = press(&mut app, KeyCode::Char('y'), KeyModifiers::NONE);
    let apply = Effect::Config(mcpdeck::tui::effect::ConfigCommand::Apply);
    assert!(!effects.contains(&apply), "what was not shown was applied");
    let shown = draw(&mut app, 120, 40);
    assert!(shown.contains("billing"), "{shown}");
}

/// The names of the rows below the titles, from the top.
fn listed(app: &mut App, titles: &str, names: &[&str]) -> Vec<String> {
    let screen = draw(app, 120, 40);
    let below = screen.lines().skip_while(|line| !line.contains(titles)).skip(1);
    let rows = below.filter_map(|line| {
        let list = line.split('│').next().unwrap_or_default();
        let first = list.split_whitespace().find(|word| names.contains(word))?;
        Some(first.to_owned())
    });
    rows.take(names.len()).collect()
}

#[test]
fn a_click_on_the_title_of_a_column_sorts_by_it_and_another_one_the_other_way_round() {
    let mut app = app("typical");
    let names: Vec<String> =
        app.model.view.servers.keys().map(|name| name.as_str().to_owned()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut wanted = names.clone();
    wanted.sort_unstable();
    press(&mut app, KeyCode::Char('1'), NONE);
    click(&mut app, "name ");
    assert_eq!(listed(&mut app, "last 24 s", &names), wanted);
    click(&mut app, "name ");
    wanted.reverse();
    assert_eq!(listed(&mut app, "last 24 s", &names), wanted);
    click(&mut app, "tools  ");
    assert!(draw(&mut app, 120, 40).contains("↓tools"));

    press(&mut app, KeyCode::Char('2'), NONE);
    let screen = draw(&mut app, 120, 40);
    let tools = app.model.view.servers.values().flat_map(|server| server.capabilities.tools.iter());
    let tools: Vec<String> = tools.map(|tool| tool.name.to_string()).collect();
    let tools: Vec<&str> = tools.iter().map(String::as_str).collect();
    let mut wanted = tools.clone();
    wanted.sort_unstable();
    let (column, row) = place(&screen, "name  ");
    for reversed in [false, true] {
        mouse(&mut app, MouseEventKind::Down(MouseButton::Left), column, row);
        let mut wanted = wanted.clone();
        if reversed {
            wanted.reverse();
        }
        assert_eq!(listed(&mut app, "server", &tools), wanted);
    }
    click(&mut app, "server   ");
    assert!(draw(&mut app, 120, 40).contains("↑server"), "{}", draw(&mut app, 120, 40));
}
