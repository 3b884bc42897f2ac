//! What a newcomer sees: columns that stay in place whatever a server is called, keys that are named
//! only where they do something, sentences that are true where they stand.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyModifiers};
use mcpdeck::base::text::SafeText;
use mcpdeck::base::{ServerName, Timestamp};
use mcpdeck::deck::News;
use mcpdeck::error::{Error, ErrorCode};
use mcpdeck::host::{CallOutcome, HostView, ServerState};
use mcpdeck::protocol::{CallId, RequestKind};
use mcpdeck::tui::action::Action;
use mcpdeck::tui::app::{App, Setup};
use mcpdeck::tui::effect::Effect;
use mcpdeck::tui::message::Message;
use mcpdeck::tui::theme::ColorDepth;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use serde_json::json;

use super::{app, app_with, draw, press, session};

const NONE: KeyModifiers = KeyModifiers::NONE;

fn types(app: &mut App, text: &str) {
    text.chars().for_each(|c| _ = press(app, KeyCode::Char(c), NONE));
}

/// The last line of a screen.
fn keys_of(screen: &str) -> &str {
    screen.lines().last().unwrap_or_default()
}

fn shows(app: &mut App, view: HostView) {
    app.update(Message::News(News::View(Arc::new(view))));
}

/// A session whose ready server has twins with these names.
fn twins(names: impl IntoIterator<Item = String>) -> HostView {
    let mut view = session("typical");
    let first = view.servers.values().find(|one| one.state == ServerState::Ready);
    let first = (**first.expect("a ready server")).clone();
    view.servers.clear();
    for name in names {
        let mut twin = first.clone();
        twin.name = ServerName::new(&name);
        view.servers.insert(twin.name.clone(), Arc::new(twin));
    }
    view
}

/// A call of the first tool, answered.
fn answered(app: &mut App, (width, height): (u16, u16), result: serde_json::Value) {
    draw(app, width, height);
    types(app, "2");
    draw(app, width, height);
    press(app, KeyCode::Enter, NONE);
    types(app, "notes/today.md");
    draw(app, width, height);
    let effects = press(app, KeyCode::F(5), NONE);
    let token = effects.iter().find_map(|effect| match effect {
        Effect::Call(token, _) => Some(*token),
        _ => None,
    });
    let token = token.unwrap_or_else(|| panic!("{effects:?}"));
    let outcome = CallOutcome::new(CallId(1), "filesystem", "read_file", result);
    app.update(Message::CallEnded(token, Box::new(Ok(outcome))));
}

/// The columns where a word begins, row by row.
fn columns_of(app: &mut App, (width, height): (u16, u16), word: &str) -> Vec<u16> {
    draw(app, width, height);
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    app.render(area, &mut buffer);
    let begins = |x: u16, y: u16| {
        let mut at = x;
        word.chars().all(|c| {
            let is = at < width && buffer[(at, y)].symbol() == c.to_string();
            at += 1;
            is
        })
    };
    (0..height).filter_map(|y| (0..width).find(|x| begins(*x, y))).collect()
}

#[test]
fn no_name_of_a_server_moves_the_columns_of_the_table() {
    let long = "a-server-with-a-name-that-goes-on-and-on-and-on";
    let wide = "\u{65e5}\u{672c}\u{8a9e}";
    let mut app = app("empty");
    shows(&mut app, twins([long, wide, "plain"].map(str::to_owned)));
    for size in [(80, 40), (120, 60), (200, 60)] {
        let columns = columns_of(&mut app, size, "ready ");
        let same = |column: &u16| columns.iter().filter(|other| *other == column).count();
        assert!(columns.iter().any(|column| same(column) >= 3), "{size:?}: {columns:?}");
        let screen = draw(&mut app, size.0, size.1);
        assert!(screen.contains("errors"), "{screen}");
        let row = screen.lines().find(|line| line.contains("a-server")).expect("a row");
        assert!(row.contains("on-and-on"), "its end tells it from others: {row}");
    }
}

#[test]
fn the_titles_of_the_table_stay_above_the_rows() {
    let mut app = app("empty");
    shows(&mut app, twins((0..40).map(|n| format!("server-{n:02}"))));
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        for _ in 0..40 {
            press(&mut app, KeyCode::Down, NONE);
            let screen = draw(&mut app, width, height);
            assert!(screen.contains("\u{2193}state"), "{screen}");
        }
        let screen = draw(&mut app, width, height);
        let selected = screen.lines().find(|line| line.contains("\u{25b8}"));
        assert!(selected.is_some_and(|line| line.contains("server-39")), "{screen}");
        for _ in 0..40 {
            press(&mut app, KeyCode::Up, NONE);
            let screen = draw(&mut app, width, height);
            assert!(screen.lines().any(|line| line.contains("\u{25b8}")), "{screen}");
        }
        let screen = draw(&mut app, width, height);
        let selected = screen.lines().find(|line| line.contains("\u{25b8}"));
        assert!(selected.is_some_and(|line| line.contains("server-00")), "{screen}");
    }
}

#[test]
fn one_long_name_leaves_the_signatures_of_all_tools() {
    let mut app = app("typical");
    let mut view = session("typical");
    let server = view.servers.get_mut("filesystem").expect("a server");
    let server = Arc::make_mut(server);
    let lists = Arc::make_mut(&mut server.capabilities);
    let mut tool = (*lists.tools[0]).clone();
    tool.label = SafeText::line(&"a_name_".repeat(12));
    tool.name = tool.label.as_str().into();
    lists.tools.push(Arc::new(tool));
    shows(&mut app, view);
    types(&mut app, "2");
    let screen = draw(&mut app, 80, 24);
    assert!(screen.contains("(path: string, content:"), "{screen}");
}

#[test]
fn a_description_that_is_cut_says_so_at_every_height() {
    for height in 18..48 {
        let mut app = app("typical");
        let mut view = session("typical");
        let server = Arc::make_mut(view.servers.get_mut("filesystem").expect("a server"));
        let lists = Arc::make_mut(&mut server.capabilities);
        for tool in &mut lists.tools {
            let words = (0..90).map(|n| format!("word{n:02}")).collect::<Vec<_>>().join(" ");
            Arc::make_mut(tool).description = Some(SafeText::block(&words));
        }
        shows(&mut app, view);
        types(&mut app, "2");
        draw(&mut app, 120, height);
        press(&mut app, KeyCode::Enter, NONE);
        let screen = draw(&mut app, 120, height);
        let panel = |line: &str| line.split('│').next_back().unwrap_or_default().trim().to_owned();
        let described: Vec<_> = screen.lines().map(panel).filter(|l| l.contains("word")).collect();
        let last = described.last();
        assert!(last.is_none_or(|line| line.ends_with('…')), "{height}: {screen}");
    }
}

#[test]
fn whether_a_request_went_well_is_seen_at_every_width() {
    let mut app = app("typical");
    types(&mut app, "4");
    for width in [60, 80, 100, 120, 140, 200] {
        let columns = columns_of(&mut app, (width, 24), "\u{2713} tools");
        assert_eq!(columns.len(), 6, "{width}: {}", draw(&mut app, width, 24));
        assert!(columns.iter().all(|column| *column == columns[0]), "{columns:?}");
    }
    // A wider screen, which has a detail too, says no less in the rows.
    for width in [80, 120, 140, 200] {
        let screen = draw(&mut app, width, 24);
        let row = screen.lines().find(|line| line.contains("4.0 ms")).expect("a row");
        assert!(row.contains("14:14:49.520") && row.contains("read_file #0"), "{screen}");
    }
}

#[test]
fn a_key_is_named_only_where_it_does_something() {
    // Without servers there is nothing to mark, and nothing more to do with one.
    let mut empty = app("empty");
    let screen = draw(&mut empty, 200, 60);
    let keys = keys_of(&screen);
    assert!(!keys.contains("mark") && !keys.contains("more"), "{keys}");
    types(&mut empty, "2");
    let screen = draw(&mut empty, 200, 60);
    assert!(!keys_of(&screen).contains("sort"), "{screen}");
    types(&mut empty, "6");
    let screen = draw(&mut empty, 200, 60);
    assert!(!keys_of(&screen).contains("rows") && !screen.contains("says"), "{screen}");
    // A server that works raises no question; one that is down does.
    let mut healthy = app("empty");
    shows(&mut healthy, twins(["plain".to_owned()]));
    assert!(!keys_of(&draw(&mut healthy, 200, 60)).contains("! why"));
    let mut down = app("degraded");
    let screen = draw(&mut down, 200, 60);
    assert!(keys_of(&screen).contains("a inbox") && keys_of(&screen).contains("! why"), "{screen}");
    // The inbox does not lead to itself.
    types(&mut down, "6");
    assert!(!keys_of(&draw(&mut down, 200, 60)).contains("a inbox"));
    // The waterfall leads back to the messages.
    types(&mut down, "4v");
    let screen = draw(&mut down, 200, 60);
    assert!(keys_of(&screen).contains("v messages"), "{screen}");
}

#[test]
fn the_keys_of_a_page_over_the_panes_are_its_own() {
    let mut app = app("degraded");
    draw(&mut app, 120, 40);
    types(&mut app, "?");
    let keys = draw(&mut app, 120, 40);
    assert!(!keys_of(&keys).contains("restart") && !keys_of(&keys).contains("inbox"), "{keys}");
    // Who reads what keys there are restarts and stops nothing.
    for key in ["r", "s"] {
        types(&mut app, key);
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains("keys: Servers") && !screen.contains("restart server"), "{screen}");
    }
    press(&mut app, KeyCode::Esc, NONE);
    types(&mut app, "!");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("what happened"), "{screen}");
    let keys = keys_of(&screen);
    assert!(keys.contains("enter apply") && keys.contains("esc back"), "{keys}");
    assert!(!keys.contains("start/stop") && !keys.contains("inbox"), "{keys}");
}

#[test]
fn a_minus_is_written_as_the_sign_that_is_on_the_key() {
    let mut app = app("typical");
    types(&mut app, "5");
    let screen = draw(&mut app, 200, 60);
    let keys = keys_of(&screen);
    assert!(keys.contains("- more   + fewer") && !keys.contains("minus"), "{keys}");
    types(&mut app, "?");
    let help = draw(&mut app, 120, 60);
    assert!(!help.contains("minus"), "{help}");
    let unbound = "[logs]\nminus = \"none\"";
    let keymap = mcpdeck::tui::keymap::Keymap::with_user(unbound);
    assert!(keymap.is_ok(), "{:?}", keymap.err());
}

#[test]
fn a_first_step_is_shown_only_where_its_key_does_what_it_says() {
    let setup = Setup { tour: true, themes: mcpdeck::THEMES, ..Setup::default() };
    let mut app = App::new(setup, Timestamp(1));
    app.update(Message::EngineReady);
    shows(&mut app, session("typical"));
    draw(&mut app, 120, 40);
    types(&mut app, "2");
    assert!(draw(&mut app, 120, 40).contains("enter opens the form of the selected tool"));
    for elsewhere in ["3", "4", "5", "6", "7", "1"] {
        types(&mut app, elsewhere);
        let screen = draw(&mut app, 120, 40);
        assert!(!screen.contains("first steps"), "{screen}");
    }
    types(&mut app, "2");
    assert!(draw(&mut app, 120, 40).contains("2 of 6"));
    press(&mut app, KeyCode::Enter, NONE);
    types(&mut app, "x");
    press(&mut app, KeyCode::F(5), NONE);
    press(&mut app, KeyCode::Esc, NONE);
    press(&mut app, KeyCode::Esc, NONE);
    assert!(draw(&mut app, 120, 40).contains("5 of 6  : finds"), "over the panes a sign will do");
    press(&mut app, KeyCode::Enter, NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("5 of 6  ctrl-p finds"), "in a form a sign is text: {screen}");
}

#[test]
fn a_description_that_goes_on_says_so() {
    let mut app = app("typical");
    let mut view = session("typical");
    let server = Arc::make_mut(view.servers.get_mut("filesystem").expect("a server"));
    let lists = Arc::make_mut(&mut server.capabilities);
    let mut tool = (*lists.tools[0]).clone();
    tool.description = Some(SafeText::line(&"Reads all of it, word by word. ".repeat(9)));
    lists.tools[0] = Arc::new(tool);
    shows(&mut app, view);
    types(&mut app, "2");
    draw(&mut app, 80, 24);
    press(&mut app, KeyCode::Enter, NONE);
    let screen = draw(&mut app, 80, 24);
    let line = screen.lines().find(|line| line.contains("word by word")).expect("a description");
    assert!(line.ends_with('\u{2026}'), "{line}");
}

#[test]
fn the_views_of_a_tab_are_told_from_tabs_and_their_keys() {
    let mut app = app("typical");
    for (keys, tab) in [("3", "3 Resources 1 \u{b7} Prompts 1"), ("1v", "1 Servers \u{b7} Metrics")]
    {
        types(&mut app, keys);
        let screen = draw(&mut app, 120, 40);
        assert!(screen.lines().nth(1).is_some_and(|line| line.contains(tab)), "{screen}");
    }
}

#[test]
fn a_list_that_stays_empty_says_why() {
    let mut app = app("empty");
    let mut view = twins(["one".to_owned(), "two".to_owned()]);
    for server in view.servers.values_mut() {
        let server = Arc::make_mut(server);
        server.state = ServerState::Unavailable;
        server.capabilities = Arc::default();
    }
    shows(&mut app, view);
    types(&mut app, "2");
    let screen = draw(&mut app, 80, 24);
    assert!(screen.contains("no server is up; 1 says why"), "{screen}");
    types(&mut app, "5");
    let screen = draw(&mut app, 80, 24);
    assert!(screen.contains("come here") && !screen.contains('\u{2026}'), "{screen}");
}

#[test]
fn examples_of_the_chat_have_no_numbers_that_look_like_keys() {
    use mcpdeck::tui::chat::port::ChatNews;
    let mut app = app("typical");
    let suggestions = vec![SafeText::line("What is there?"), SafeText::line("And then?")];
    app.update(Message::Chat(ChatNews::Opened {
        with: SafeText::line("test-model"),
        events: Vec::new(),
        busy: false,
        suggestions,
    }));
    types(&mut app, "C");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("\u{2022} And then?"), "{screen}");
    let keys = keys_of(&screen);
    assert!(keys.contains("tab example") && !keys.contains("stop"), "{keys}");
    assert!(!keys.contains("say again"), "{keys}");
    let said = json!({"type": "message", "text": "hello", "at": null});
    app.update(Message::Chat(ChatNews::Event(said)));
    let screen = draw(&mut app, 120, 40);
    assert!(keys_of(&screen).contains("say again"), "{screen}");
}

#[test]
fn without_colours_a_key_is_told_from_its_word() {
    let setup = Setup { depth: ColorDepth::None, themes: mcpdeck::THEMES, ..Setup::default() };
    let mut app = app_with("typical", setup);
    draw(&mut app, 120, 40);
    let area = Rect::new(0, 0, 120, 40);
    let mut buffer = Buffer::empty(area);
    app.render(area, &mut buffer);
    let is_bold = |x: u16| buffer[(x, 39)].modifier.contains(Modifier::BOLD);
    let line: String = (0..120).map(|x| buffer[(x, 39)].symbol()).collect();
    let at = line.find("enter open").expect("a key") as u16;
    assert!(is_bold(at) && is_bold(at + 4) && !is_bold(at + 6), "{line}");
}

#[test]
fn in_ascii_every_sign_of_ours_is_one() {
    let setup = Setup { ascii: true, themes: mcpdeck::THEMES, ..Setup::default() };
    let mut app = app_with("degraded", setup);
    for keys in ["1", "2", "3", "3v", "4", "4v", "4v5", "6", "7", "7v", "7vv", "1v", "1v:"] {
        types(&mut app, keys);
        for (width, height) in [(80, 24), (120, 40), (200, 60)] {
            let screen = draw(&mut app, width, height);
            let ours = screen.replace('\u{241b}', "");
            assert!(ours.is_ascii(), "{keys}: {screen}");
        }
        press(&mut app, KeyCode::Esc, NONE);
    }
    types(&mut app, "2");
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Enter, NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("whole number - at least 1") && screen.is_ascii(), "{screen}");
}

#[test]
fn a_reason_in_the_palette_has_the_room_that_is_there() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    types(&mut app, ":show all servers");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("all servers are shown"), "{screen}");
}

#[test]
fn the_page_of_a_call_tells_what_happened_once_and_what_to_do() {
    let (mut driver, token) = super::why::calling();
    let server = driver.view.servers.get_mut("filesystem").expect("a server");
    Arc::make_mut(server).state = ServerState::Unavailable;
    driver.shown();
    let error = Error::new(ErrorCode::ServerUnavailable, "it is gone").server(&"filesystem".into());
    driver.app.update(Message::CallEnded(token, Box::new(Err(error))));
    draw(&mut driver.app, 120, 60);
    driver.keys("\u{e009}");
    let screen = draw(&mut driver.app, 120, 60);
    assert_eq!(screen.matches("what happened").count(), 1, "{screen}");
    assert!(screen.contains("what to do") && screen.contains("its server"), "{screen}");
}

#[test]
fn a_line_on_stdout_is_explained_on_the_page_of_its_server_too() {
    let mut app = app("degraded");
    draw(&mut app, 120, 40);
    types(&mut app, "!");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("make it write to stderr"), "{screen}");
}

fn asked() -> super::driver::Driver {
    let mut driver = super::driver::Driver::new();
    let message = json!({"role": "user", "content": {"type": "text",
        "text": "Which of the two ways is the right one?"}});
    driver.ask(RequestKind::Sampling, json!({"maxTokens": 5, "messages": [message]}));
    driver.shown();
    driver
}

#[test]
fn the_inbox_leaves_its_room_to_what_is_asked() {
    let mut driver = asked();
    driver.keys("6");
    for width in [88, 100, 120] {
        let screen = draw(&mut driver.app, width, 30);
        let row = screen.lines().find(|line| line.contains("\u{25b8}memory")).expect("a row");
        let list = row.split('\u{2502}').next().unwrap_or_default();
        assert!(list.contains("sampling Which of the two"), "{screen}");
    }
}

#[test]
fn the_box_for_an_answer_has_the_room_that_is_there() {
    let mut driver = asked();
    driver.keys("\x07");
    for width in [80, 100, 140] {
        let screen = draw(&mut driver.app, width, 40);
        let line = screen.lines().find(|line| line.contains("your text")).expect("a box");
        let at = |part: &str| line.split(part).next().map_or(0, |before| before.chars().count());
        let box_width = at("\u{26a0}") - at("your text");
        assert!(box_width > 40, "{width}: {line}");
    }
}

#[test]
fn a_problem_covers_no_half_of_a_value() {
    let mut app = app("typical");
    let mut view = session("typical");
    let server = Arc::make_mut(view.servers.get_mut("filesystem").expect("a server"));
    let lists = Arc::make_mut(&mut server.capabilities);
    let mut tool = (*lists.tools[0]).clone();
    let name = "a_list_with_a_long_name";
    tool.input_schema = Arc::new(json!({"type": "object", "required": [name, "other"],
        "properties": {"other": {"type": "string"},
            name: {"type": "array", "uniqueItems": true, "items": {"enum": ["a", "b"]}}}}));
    lists.tools[0] = Arc::new(tool);
    shows(&mut app, view);
    types(&mut app, "2");
    draw(&mut app, 140, 40);
    press(&mut app, KeyCode::Enter, NONE);
    for width in (60..=200).step_by(4) {
        let screen = draw(&mut app, width, 40);
        for line in screen.lines().filter(|line| line.contains("\u{26a0} required")) {
            let before = line.split("\u{26a0}").next().unwrap_or_default();
            let value = before.trim_end();
            assert!(value.ends_with('*') || value.ends_with("not set"), "{width}: {screen}");
        }
    }
}

#[test]
fn few_letters_mean_something_in_a_result_and_one_shows_the_others() {
    let mut app = app("typical");
    answered(&mut app, (80, 24), json!({"content": [{"type": "text", "text": "some words"}]}));
    let screen = draw(&mut app, 80, 24);
    assert!(keys_of(&screen).contains("space more"), "{screen}");
    types(&mut app, " ");
    for (width, height) in [(60, 20), (80, 24), (120, 40), (200, 60)] {
        let screen = draw(&mut app, width, height);
        for (key, help) in [("w", "Wrap long lines"), ("e", "Copy the arguments of this call")] {
            let row = screen.lines().find(|line| line.contains(help));
            let row = row.unwrap_or_else(|| panic!("{screen}"));
            assert!(row.split_whitespace().any(|word| word == key), "{row}");
        }
    }
    // What has no effect says why, and does nothing.
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("(not a tree)"), "{screen}");
    types(&mut app, "p");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("copy path: not a tree"), "{screen}");
    // The others are done where they were asked for.
    types(&mut app, " e");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("path *") && keys_of(&screen).starts_with(" f5 call"), "{screen}");
    // The palette and the help know them too.
    press(&mut app, KeyCode::F(6), NONE);
    draw(&mut app, 120, 40);
    types(&mut app, ":JSON pointer");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("space p"), "{screen}");
    press(&mut app, KeyCode::Esc, NONE);
    draw(&mut app, 120, 40);
    types(&mut app, "?");
    press(&mut app, KeyCode::End, NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("Wrap long lines, or not"), "{screen}");
}

#[test]
fn no_place_has_more_than_a_dozen_letters_of_its_own() {
    use mcpdeck::tui::keymap::{BINDINGS, KeyScope};
    // Those that move, and those that are listed once the key before them is pressed.
    let moves = |action: Action| action.steps(9).is_some();
    let listed = [KeyScope::EditKeys, KeyScope::ServerKeys, KeyScope::ResultKeys];
    for scope in KeyScope::ALL.into_iter().filter(|scope| !listed.contains(scope)) {
        let own = BINDINGS.iter().filter(|row| row.scopes.contains(&scope) && !moves(row.action));
        let letters = own.flat_map(|row| row.keys.split(' '));
        let letters =
            letters.filter(|key| key.len() == 1 && key.as_bytes()[0].is_ascii_alphabetic());
        let letters: Vec<&str> = letters.collect();
        let most = if scope == KeyScope::Result { 8 } else { 12 };
        assert!(letters.len() <= most, "{scope:?}: {letters:?}");
    }
}

#[test]
fn only_what_waits_for_the_user_is_said_to_wait() {
    let mut app = app("degraded");
    let screen = draw(&mut app, 120, 40);
    let header = screen.lines().next().unwrap();
    assert_eq!(header.matches("waiting").count(), 1, "{header}");
    assert!(header.contains("1 blocked"), "{header}");
    assert!(screen.contains("blocked 1m") && !screen.contains("unavailable"), "{screen}");
}

#[test]
fn titles_and_keys_on_a_line_have_their_own_colour() {
    let setup = || Setup { themes: mcpdeck::THEMES, ..Setup::default() };
    let mut app = app_with("typical", setup());
    types(&mut app, "2");
    let screen = draw(&mut app, 120, 40);
    let area = Rect::new(0, 0, 120, 40);
    let mut buffer = Buffer::empty(area);
    app.render(area, &mut buffer);
    let line = screen.lines().nth(2).unwrap();
    let column = line[..line.find("detail").unwrap()].chars().count() as u16;
    let (title, rule) = (&buffer[(column, 2)], &buffer[(column + 10, 2)]);
    assert_ne!(title.fg, rule.fg, "a title is no part of its line");
    let line = screen.lines().nth(1).unwrap();
    let column = line[..line.find("4 Traffic").unwrap()].chars().count() as u16;
    let key = &buffer[(column, 1)];
    assert!(!key.modifier.contains(Modifier::DIM), "a key is as bright as in the last line");
}
