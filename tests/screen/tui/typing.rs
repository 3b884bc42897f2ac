//! Keys that never betray: typing is never a command, what ends something asks once, what is
//! approved was there to be read.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyModifiers};
use mcpdeck::base::Timestamp;
use mcpdeck::base::text::SafeText;
use mcpdeck::config::ShownEntry;
use mcpdeck::deck::{DeckEvent, News};
use mcpdeck::host::{CallView, HostView};
use mcpdeck::protocol::{CallId, RequestKind};
use mcpdeck::tui::app::App;
use mcpdeck::tui::effect::{
    CallTarget, ConfigCommand, Effect, Existing, FileChange, Order, ServerCommand,
};
use mcpdeck::tui::message::Message;
use mcpdeck::tui::result::ResultFile;
use mcpdeck::tui::result::rows::SharedText;
use serde_json::json;

use super::{app, draw, press, situation};
use crate::tui::driver::Driver;

const NONE: KeyModifiers = KeyModifiers::NONE;
const CTRL: KeyModifiers = KeyModifiers::CONTROL;
const ALT: KeyModifiers = KeyModifiers::ALT;

fn types(app: &mut App, text: &str) -> Vec<Effect> {
    text.chars().flat_map(|c| press(app, KeyCode::Char(c), NONE)).collect()
}

fn wait(app: &mut App, millis: u64) {
    app.prepare();
    let now = app.model.now.plus(Duration::from_millis(millis));
    app.update(Message::Now(now));
}

fn ends_something(effect: &Effect) -> bool {
    match effect {
        Effect::Quit
        | Effect::QuitNow
        | Effect::CancelCall(_)
        | Effect::Order(
            Order::Answer(..)
            | Order::Deny(_)
            | Order::Server(_, ServerCommand::Stop | ServerCommand::Restart),
        )
        | Effect::CacheDrop(None) => true,
        Effect::Config(command) => matches!(
            command,
            ConfigCommand::Approve { .. }
                | ConfigCommand::Apply
                | ConfigCommand::Change(FileChange::Remove(_) | FileChange::Disable(_))
        ),
        _ => false,
    }
}

fn calls(effects: &[Effect]) -> usize {
    let is_call = |effect: &&Effect| matches!(effect, Effect::Call(_, r) if !matches!(r.target, CallTarget::Complete(_)));
    effects.iter().filter(is_call).count()
}

/// The recorded session, where every tool of the first server takes one of everything.
fn view() -> HostView {
    static VIEW: OnceLock<HostView> = OnceLock::new();
    VIEW.get_or_init(|| {
        let mut view = super::session("typical");
        let schema = Arc::new(json!({"type": "object", "required": ["text"], "properties": {
            "text": {"type": "string"}, "many": {"type": "string", "maxLength": 9000},
            "count": {"type": "integer"}, "part": {"type": "number"},
            "yes": {"type": "boolean"}, "one": {"enum": ["alpha", "beta"]},
            "some": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": true},
            "list": {"type": "array", "items": {"type": "string"}},
            "set": {"type": "array", "items": {"type": "string"}, "default": ["x", "y"]},
            "who": {"type": "object", "properties": {"name": {"type": "string"}}},
            "any": {"type": "object", "additionalProperties": {"type": "string"}},
            "both": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
            "kinds": {"type": ["string", "number", "array"]},
            "day": {"type": "string", "format": "date"}, "raw": {}, "fixed": {"const": 7},
            "nothing": {"type": "null"}}}));
        for server in view.servers.values_mut() {
            let server = Arc::make_mut(server);
            for tool in &mut Arc::make_mut(&mut server.capabilities).tools {
                Arc::make_mut(tool).input_schema = Arc::clone(&schema);
            }
        }
        view
    })
    .clone()
}

/// A dashboard where every server has a call in flight.
fn busy() -> App {
    let view = view();
    let mut app = super::app("empty");
    let call = |(n, server): (usize, &mcpdeck::base::ServerName)| CallView {
        id: CallId(900 + n as u64),
        server: server.clone(),
        method: "tools/call".into(),
        target: SafeText::line("tool"),
        started: Timestamp(1),
        waiting: Duration::ZERO,
        is_waiting: false,
        progress: None,
    };
    let calls = view.servers.keys().enumerate().map(call).collect();
    app.update(Message::News(News::View(Arc::new(view))));
    app.update(Message::News(News::Calls(calls)));
    draw(&mut app, 120, 40);
    app
}

const PRINTABLE: std::ops::RangeInclusive<char> = ' '..='~';

/// Presses every printable key, each in the same place that `reach` leads to.
fn walk(name: &str, reach: impl Fn(&mut App)) {
    for c in PRINTABLE {
        let mut app = busy();
        reach(&mut app);
        wait(&mut app, 600);
        let effects = press(&mut app, KeyCode::Char(c), NONE);
        let ended: Vec<_> = effects.iter().filter(|effect| ends_something(effect)).collect();
        assert!(ended.is_empty(), "{name}: `{c}` does {ended:?}");
    }
}

#[test]
fn a_path_that_cannot_be_written_is_asked_for_again_with_what_was_typed() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    let content = ResultFile::Value(SharedText::from_text("{}".to_owned()));
    let why = SafeText::line("not written: Permission denied (os error 13)");
    app.update(Message::NotWritten("~/no/a.json".into(), content.clone(), why));
    let screen = draw(&mut app, 120, 40);
    for said in ["write to the file", "~/no/a.json", "Permission denied"] {
        assert!(screen.contains(said), "{said}\n{screen}");
    }
    press(&mut app, KeyCode::Char('l'), KeyModifiers::NONE);
    let effects = press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    let path = "~/no/a.jsonl".into();
    assert_eq!(effects, [Effect::SaveAs { path, content, existing: Existing::Keep }]);
    let screen = draw(&mut app, 120, 40);
    assert!(!screen.contains("write to the file"), "{screen}");
}

#[test]
fn no_printable_key_ends_anything_on_any_screen_without_a_question() {
    for (key, pane) in super::PANES {
        walk(pane, |app| _ = types(app, key));
        walk(&format!("{pane}: servers"), |app| {
            types(app, key);
            press(app, KeyCode::BackTab, NONE);
        });
        walk(&format!("{pane}: filter"), |app| _ = types(app, &format!("{key}/k")));
    }
    for (name, keys) in [
        ("palette", ":re"),
        ("help", "?"),
        ("help, narrowed", "?/c"),
        ("diagnostics", "1jb"),
        ("info", "1jI"),
        ("rules", "1R"),
        ("log level", "6:log level"),
        ("save a filter", "5/server:memory"),
        ("templates", "1+"),
        ("sorted", "2o"),
    ] {
        walk(name, |app| _ = types(app, keys));
    }
    walk("result", |app| {
        types(app, "2");
        draw(app, 120, 40);
        press(app, KeyCode::Enter, NONE);
        press(app, KeyCode::F(8), NONE);
    });
    walk("roots", |app| _ = types(app, "1 f"));
}

#[test]
fn no_printable_key_sends_or_leaves_an_answer() {
    let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
    let sampling = json!({"maxTokens": 5, "messages": [message], "tools": [
        {"name": "add", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}]});
    let form = json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {
        "name": {"type": "string"}, "n": {"type": "integer"}, "yes": {"type": "boolean"},
        "one": {"type": "string", "enum": ["a", "b"]}}}});
    let page = json!({"mode": "url", "message": "sign in", "url": "https://example.com/x"});
    let kinds = [
        (RequestKind::Sampling, sampling),
        (RequestKind::Elicitation, form),
        (RequestKind::UrlElicitation, page),
        (RequestKind::Guard, json!({"tool": "run", "violations": []})),
    ];
    for (kind, params) in kinds {
        for (place, reach) in
            [("answer", ""), ("request", "\u{e006}"), ("reason", "\x18"), ("JSON", "\u{e004}")]
        {
            let mut driver = Driver::new();
            driver.ask(kind.clone(), params.clone());
            driver.shown();
            driver.keys("\x07");
            driver.reads();
            // An elicitation is declined by this key: there is no reason to type.
            if place != "reason" || matches!(kind, RequestKind::Sampling | RequestKind::Guard) {
                driver.keys(reach);
            }
            driver.reads();
            for c in PRINTABLE {
                let effects = press(&mut driver.app, KeyCode::Char(c), NONE);
                let ended: Vec<_> = effects.iter().filter(|e| ends_something(e)).collect();
                assert!(ended.is_empty(), "{kind:?}, {place}: `{c}` does {ended:?}");
                assert!(driver.app.has_screen(), "{kind:?}, {place}: `{c}` leaves the answer");
            }
        }
    }
}

#[test]
fn in_a_form_a_printable_key_on_any_row_is_text_or_nothing() {
    let tool = |app: &mut App| {
        types(app, "2");
        draw(app, 80, 30);
        press(app, KeyCode::Enter, NONE);
    };
    let request = |app: &mut App| _ = types(app, "1j j");
    let open = |form: &dyn Fn(&mut App), row: usize| {
        let mut app = busy();
        form(&mut app);
        press(&mut app, KeyCode::PageUp, NONE);
        for _ in 0..row {
            press(&mut app, KeyCode::Down, NONE);
        }
        app
    };
    let rows = (0..24).map(|row| (&tool as &dyn Fn(&mut App), row));
    for (form, row) in rows.chain((0..3).map(|row| (&request as &dyn Fn(&mut App), row))) {
        let title = draw(&mut open(form, row), 80, 30).lines().nth(3).map(str::to_owned);
        for c in PRINTABLE {
            let mut app = open(form, row);
            let effects = press(&mut app, KeyCode::Char(c), NONE);
            let quiet = |e: &Effect| {
                matches!(e, Effect::Record(_) | Effect::Check(..))
                    || matches!(e, Effect::Call(_, r) if matches!(r.target, CallTarget::Complete(_)))
            };
            assert!(effects.iter().all(quiet), "row {row}: `{c}` does {effects:?}");
            let screen = draw(&mut app, 80, 30);
            assert!(app.has_screen(), "row {row}: `{c}` leaves the form\n{screen}");
            let here = screen.lines().nth(3).map(str::to_owned);
            assert_eq!(here, title, "row {row}: `{c}` goes elsewhere\n{screen}");
        }
    }
}

/// Presses every printable key, each in a place of its own: nothing is done outside, and the place is
/// not left.
fn only_text(name: &str, open: impl Fn() -> App, here: &str) {
    assert!(draw(&mut open(), 80, 30).contains(here), "{name}: {}", draw(&mut open(), 120, 60));
    for c in PRINTABLE {
        let mut app = open();
        wait(&mut app, 600);
        let effects = press(&mut app, KeyCode::Char(c), NONE);
        let quiet = |effect: &Effect| matches!(effect, Effect::Check(..));
        assert!(effects.iter().all(quiet), "{name}: `{c}` does {effects:?}");
        let screen = draw(&mut app, 80, 30);
        assert!(screen.contains(here), "{name}: `{c}` leaves it\n{screen}");
    }
}

#[test]
fn in_the_form_of_an_entry_in_roots_and_in_an_input_a_printable_key_is_text_or_nothing() {
    for row in 0..12 {
        let entry = || {
            let mut app = busy();
            let shown = json!({"command": "npx", "args": ["-y"], "env": {"A": "***"},
                "disabled": false, "timeout": 5});
            let entry = ShownEntry { file: "mcp.json".into(), name: "files".into(), shown };
            app.update(Message::Deck(DeckEvent::Entry(Box::new(entry))));
            for _ in 0..row {
                press(&mut app, KeyCode::Down, NONE);
            }
            app
        };
        only_text(&format!("entry, row {row}"), entry, "edit server \"files\"");
    }
    for keys in ["", "\t"] {
        let roots = || {
            let mut app = busy();
            types(&mut app, "1j f");
            press(&mut app, KeyCode::Insert, NONE);
            if !keys.is_empty() {
                press(&mut app, KeyCode::Tab, NONE);
            }
            app
        };
        only_text("roots", roots, "roots shared with");
    }
    let asked = |keys: &[KeyCode]| {
        let mut app = busy();
        app.update(Message::Deck(DeckEvent::Situation(Arc::new(situation()))));
        for key in keys {
            press(&mut app, *key, NONE);
        }
        app
    };
    let inbox = |row: usize| {
        let mut keys = vec![KeyCode::Esc, KeyCode::Char('6'), KeyCode::Char('G')];
        keys.extend(std::iter::repeat_n(KeyCode::Char('k'), row));
        keys.push(KeyCode::Enter);
        move || asked(&keys)
    };
    only_text("input", inbox(1), "input token");
    let change = "7iregion".chars().map(KeyCode::Char);
    let keys: Vec<KeyCode> =
        [KeyCode::Esc].into_iter().chain(change).chain([KeyCode::Enter]).collect();
    only_text("choice of an input", || asked(&keys), "input region");
}

#[test]
fn on_the_consent_screen_only_its_own_keys_approve() {
    for c in PRINTABLE {
        let mut app = busy();
        app.update(Message::Resize(120, 60));
        app.update(Message::Deck(DeckEvent::Situation(Arc::new(situation()))));
        draw(&mut app, 120, 60);
        wait(&mut app, 600);
        let effects = press(&mut app, KeyCode::Char(c), NONE);
        let approves = approvals(&effects) > 0;
        assert!(!approves || matches!(c, 'y' | ' '), "`{c}` does {effects:?}");
        assert!(approves || !effects.iter().any(ends_something), "`{c}` does {effects:?}");
    }
}

#[test]
fn readline_keys_edit_the_text_of_a_field() {
    let mut app = busy();
    types(&mut app, "2");
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Enter, NONE);
    types(&mut app, "one two three");
    for (key, modifiers, text) in [
        ('w', CTRL, "one two "),
        ('a', CTRL, "one two "),
        ('x', NONE, "xone two "),
        ('e', CTRL, "xone two "),
        ('y', NONE, "xone two y"),
        ('b', KeyModifiers::ALT, "xone two y"),
        ('z', NONE, "xone two zy"),
        ('u', CTRL, "y"),
    ] {
        press(&mut app, KeyCode::Char(key), modifiers);
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains(text.trim_end()), "{key}: {text}\n{screen}");
    }
}

#[test]
fn restart_stop_and_quit_ask_once_when_work_is_open_and_a_setting_turns_it_off() {
    for (key, done) in [("r", "restart"), ("s", "stop"), ("q", "quit?")] {
        let mut app = busy();
        types(&mut app, "2");
        draw(&mut app, 120, 40);
        assert!(!types(&mut app, key).iter().any(ends_something));
        let asked = draw(&mut app, 120, 40);
        assert!(asked.contains(done) && asked.contains("will be cancelled"), "{asked}");
        assert!(types(&mut app, "y").iter().any(ends_something), "{key}");

        let mut app = busy();
        types(&mut app, "2:ask before quit");
        press(&mut app, KeyCode::Enter, NONE);
        draw(&mut app, 120, 40);
        assert!(types(&mut app, key).iter().any(ends_something), "{key}: the question is off");
    }
}

#[test]
fn ctrl_c_works_in_every_dialog_and_a_second_one_is_a_yes() {
    for keys in ["", "q", ":", "?", "1X", "5/x", "2s", "6:log level"] {
        let mut app = busy();
        types(&mut app, keys);
        draw(&mut app, 120, 40);
        let mut effects = press(&mut app, KeyCode::Char('c'), CTRL);
        effects.extend(press(&mut app, KeyCode::Char('c'), CTRL));
        assert!(effects.contains(&Effect::Quit), "{keys}: {}", draw(&mut app, 120, 40));
    }
}

fn approvals(effects: &[Effect]) -> usize {
    let approves = |e: &&Effect| matches!(e, Effect::Config(ConfigCommand::Approve { .. }));
    effects.iter().filter(approves).count()
}

#[test]
fn a_command_is_approved_when_it_was_there_to_be_read_and_a_change_begins_anew() {
    let mut app = super::app("typical");
    app.update(Message::Resize(120, 60));
    app.update(Message::Deck(DeckEvent::Situation(Arc::new(situation()))));
    // Not drawn yet, then not long enough.
    assert_eq!(approvals(&types(&mut app, "y")), 0);
    wait(&mut app, 300);
    assert_eq!(approvals(&types(&mut app, "y")), 0);
    assert!(draw(&mut app, 120, 60).contains("too soon"));
    wait(&mut app, 300);
    // The file is saved again as the key arrives: what was not shown is not approved.
    let mut other = situation();
    other.revision = 2;
    other.awaiting[0].review.shown.push(("args[9]".into(), "\"evil\"".into()));
    app.update(Message::Deck(DeckEvent::Situation(Arc::new(other))));
    assert_eq!(approvals(&types(&mut app, "y")), 0);
    wait(&mut app, 400);
    assert_eq!(approvals(&types(&mut app, "y")), 0);
    wait(&mut app, 200);
    // The terminal was elsewhere meanwhile.
    app.update(Message::Input(Event::FocusGained));
    assert_eq!(approvals(&types(&mut app, "y")), 0);
    wait(&mut app, 600);
    assert_eq!(approvals(&types(&mut app, "y")), 1);
}

#[test]
fn an_answer_goes_out_when_its_request_was_there_to_be_read() {
    let sampling = json!({"maxTokens": 9, "messages": []});
    let mut driver = Driver::new();
    driver.ask(RequestKind::Sampling, sampling.clone());
    driver.ask(RequestKind::Sampling, sampling);
    driver.shown();
    let send = |driver: &mut Driver| {
        press(&mut driver.app, KeyCode::F(5), NONE)
            .iter()
            .any(|e| matches!(e, Effect::Order(Order::Answer(..))))
    };
    driver.keys("\u{7}gold");
    assert!(!send(&mut driver));
    driver.reads();
    // Another one comes up: it was not read.
    driver.keys("\u{e}blue");
    assert!(!send(&mut driver));
    driver.app.prepare();
    assert!(!send(&mut driver));
    driver.reads();
    assert!(send(&mut driver));
}

#[test]
fn what_is_pasted_is_text_or_nothing() {
    for keys in ["", "1", "2", "5", "9", "q"] {
        let mut app = busy();
        types(&mut app, keys);
        draw(&mut app, 120, 40);
        wait(&mut app, 600);
        let before = app.has_screen();
        let effects = app.update(Message::Input(Event::Paste("yes\nquit\n\u{13}please".into())));
        assert!(!effects.iter().any(ends_something), "{keys}: {effects:?}");
        assert_eq!(app.has_screen(), before);
        assert!(draw(&mut app, 120, 40).contains("nothing here takes text"));
    }
}

#[test]
fn what_comes_at_once_behind_the_key_of_a_filter_or_of_the_palette_goes_there_and_acts_no_more() {
    for (text, shown) in
        [("/weather", "/ weather"), ("/weather\n", "/ weather"), (":quit\n", "quit")]
    {
        let mut app = busy();
        types(&mut app, "2");
        draw(&mut app, 120, 40);
        let effects = app.update(Message::Input(Event::Paste(text.into())));
        assert!(!effects.iter().any(ends_something), "{text:?}: {effects:?}");
        let screen = draw(&mut app, 120, 40);
        assert!(!screen.contains("nothing here takes text"), "{text:?}: {screen}");
        assert!(screen.contains(shown), "{text:?}: {screen}");
    }
    // In a page of help it filters that.
    let mut app = busy();
    types(&mut app, "2");
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Enter, NONE);
    press(&mut app, KeyCode::F(1), NONE);
    let _ = app.update(Message::Input(Event::Paste("/needle\nquit".into())));
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("needle"), "{screen}");
    // What is no text of a line, or has none behind it, is nothing.
    for text in ["/", ":", "//", "!rm -rf"] {
        let mut app = busy();
        types(&mut app, "2");
        draw(&mut app, 120, 40);
        let effects = app.update(Message::Input(Event::Paste(text.into())));
        assert!(!effects.iter().any(ends_something), "{text:?}: {effects:?}");
    }
}

#[test]
fn a_key_that_is_held_down_makes_one_call() {
    let mut app = busy();
    types(&mut app, "2");
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Enter, NONE);
    let mut made = 0;
    for _ in 0..40 {
        made += calls(&press(&mut app, KeyCode::F(8), NONE));
        wait(&mut app, 33);
    }
    assert_eq!(made, 1);
    wait(&mut app, 800);
    assert_eq!(calls(&press(&mut app, KeyCode::F(8), NONE)), 1, "let go and pressed again");
}

#[test]
fn escape_and_a_key_that_arrive_together_are_two_keys_where_text_is_typed_too() {
    let opened = || {
        let mut app = super::app("typical");
        draw(&mut app, 120, 40);
        types(&mut app, "2");
        draw(&mut app, 120, 40);
        press(&mut app, KeyCode::Enter, NONE);
        types(&mut app, "one two");
        app
    };
    let mut app = opened();
    press(&mut app, KeyCode::Char('1'), ALT);
    let screen = draw(&mut app, 120, 40);
    assert!(!app.has_screen() && screen.contains("\u{2193}state"), "{screen}");
    // What edits text, or is bound, is a chord.
    let mut app = opened();
    press(&mut app, KeyCode::Char('b'), ALT);
    types(&mut app, "X");
    press(&mut app, KeyCode::Char('j'), ALT);
    let screen = draw(&mut app, 120, 40);
    assert!(app.has_screen() && screen.contains("one Xtwo"), "{screen}");
    // The same in a filter.
    let mut app = opened();
    press(&mut app, KeyCode::Esc, NONE);
    types(&mut app, "/write");
    press(&mut app, KeyCode::Char('5'), ALT);
    assert!(draw(&mut app, 120, 40).contains("/ search"));
}
