//! The inbox: whatever waits for the person is one list with one count and one key; what is answered
//! makes room for the next, and a key that was meant for the one before does not reach it.

use std::sync::Arc;

use crossterm::event::{Event, KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use mcpdeck::deck::{DeckEvent, News};
use mcpdeck::protocol::{Answer, ApprovalId, RequestKind};
use mcpdeck::tui::app::App;
use mcpdeck::tui::effect::{ConfigCommand, Effect, Order};
use mcpdeck::tui::message::Message;
use mcpdeck::tui::player::Played;
use serde_json::{Value, json};

use super::{draw, press, situation};
use crate::tui::driver::Driver;

const NONE: KeyModifiers = KeyModifiers::NONE;

fn question(text: &str) -> Value {
    json!({"maxTokens": 5, "messages": [
        {"role": "user", "content": {"type": "text", "text": text}}]})
}

fn sign_in() -> Value {
    json!({"mode": "url", "message": "github asks you to sign in",
        "issuer": "https://issuer.example", "scopes": ["repo", "user:email"],
        "url": "https://login.issuer.example/authorize?state=abc",
        "redirectUri": "http://127.0.0.1:4711/callback"})
}

/// Two requests of servers, a sign-in, commands to approve, an input and a changed file.
fn full() -> Driver {
    let mut driver = Driver::new();
    driver.ask(RequestKind::Sampling, question("Left or right?"));
    driver.ask(
        RequestKind::Elicitation,
        json!({"message": "Who are you?", "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string"}}}}),
    );
    driver.ask_as("github", RequestKind::SignIn, sign_in(), false);
    driver.shown();
    driver.app.update(Message::Deck(DeckEvent::Situation(Arc::new(situation()))));
    press(&mut driver.app, KeyCode::Esc, NONE);
    draw(&mut driver.app, 120, 40);
    driver
}

fn click(app: &mut App, x: u16, y: u16) {
    let kind = MouseEventKind::Down(MouseButton::Left);
    let event = MouseEvent { kind, column: x, row: y, modifiers: NONE };
    app.update(Message::Input(Event::Mouse(event)));
}

#[test]
fn everything_that_waits_is_one_list_with_one_count_and_each_row_says_what_it_wants() {
    let mut driver = full();
    let first = draw(&mut driver.app, 200, 60);
    let waiting = driver.app.model.inbox().count();
    let mark = format!(" {waiting} waiting");
    assert!(first.lines().next().unwrap().contains(&mark), "{first}");
    for key in ['a', '6'] {
        press(&mut driver.app, KeyCode::Char('4'), NONE);
        press(&mut driver.app, KeyCode::Char(key), NONE);
        let list = draw(&mut driver.app, 200, 60);
        assert!(list.contains(&format!(" {waiting} items waiting for you")), "{list}");
        for said in [
            "sampling     Left or right?",
            "elicitation  Who are you?",
            "sign in      https://issuer",
            "approval     changed: ",
            "input        token: what token is",
            "file changed ",
        ] {
            assert!(list.contains(said), "{said}\n{list}");
        }
    }
    press(&mut driver.app, KeyCode::Char('4'), NONE);
    draw(&mut driver.app, 200, 60);
    let column = first.lines().next().unwrap().chars().position(|c| c == '✋').unwrap();
    click(&mut driver.app, column as u16 + 2, 0);
    assert!(
        draw(&mut driver.app, 200, 60).contains("items waiting for you"),
        "the mark leads there"
    );
}

#[test]
fn after_one_is_answered_the_next_is_there_and_a_second_press_does_not_reach_it() {
    let mut driver = full();
    driver.keys("6\rleft");
    let sent = |driver: &Driver| {
        driver.wanted.iter().filter(|e| matches!(e, Effect::Order(Order::Answer(..)))).count()
    };
    driver.keys("\x12");
    assert_eq!(sent(&driver), 1);
    let next = draw(&mut driver.app, 120, 40);
    assert!(next.contains("Who are you?") && next.contains("more waiting"), "{next}");
    // Half a second later the same key again: it was meant for the first.
    driver.keys("\x12");
    assert_eq!(sent(&driver), 1, "{}", draw(&mut driver.app, 120, 40));
    driver.reads();
    driver.keys("\x12");
    assert_eq!(sent(&driver), 2);
    let next = draw(&mut driver.app, 120, 40);
    assert!(next.contains("github asks you to sign in"), "{next}");
}

#[test]
fn the_same_answer_goes_to_all_others_of_its_kind_that_wait_and_to_no_more() {
    let mut driver = Driver::new();
    driver.ask(RequestKind::Sampling, question("Left?"));
    driver.ask(RequestKind::Sampling, question("Right?"));
    driver.ask(RequestKind::Sampling, question("Straight on?"));
    driver.ask_as("github", RequestKind::Sampling, question("Somebody else's?"), false);
    driver.shown();
    draw(&mut driver.app, 120, 40);
    driver.keys("6\rfine");
    driver.reads();
    driver.keys("\u{1b}s");
    let choices = draw(&mut driver.app, 120, 40);
    assert!(choices.contains("give the same answer to 2 others that wait"), "{choices}");
    driver.reads();
    driver.keys("\r");
    let others = driver.wanted.iter().find_map(|effect| match effect {
        Effect::Order(Order::AnswerAll(all)) => Some(all.clone()),
        _ => None,
    });
    let others = others.unwrap_or_else(|| panic!("{:?}", driver.wanted));
    let own = driver.wanted.iter().find_map(|effect| match effect {
        Effect::Order(Order::Answer(id, answer)) => Some((*id, answer.clone())),
        _ => None,
    });
    let (id, answer) = own.unwrap_or_else(|| panic!("{:?}", driver.wanted));
    let mut ids: Vec<ApprovalId> = others.iter().map(|(id, _)| *id).collect();
    ids.push(id);
    ids.sort_by_key(|id| id.0);
    assert_eq!(ids, [101, 102, 103].map(ApprovalId), "those of the same server and kind");
    assert!(others.iter().all(|(_, other)| *other == answer));
    let Answer::Result(result) = &answer else { panic!("{answer:?}") };
    assert!(result.to_string().contains("fine"), "{result}");
    let next = draw(&mut driver.app, 120, 40);
    assert!(next.contains("github asks for sampling"), "the sent ones are passed over: {next}");
}

#[test]
fn signing_in_shows_who_asks_for_what_and_the_whole_address_and_opens_nothing_unasked() {
    let open = || {
        let mut driver = Driver::new();
        let kind = RequestKind::SignIn;
        driver.ask_as("github", kind, sign_in(), false);
        driver.shown();
        driver.keys("\x07");
        let shown = draw(&mut driver.app, 120, 40);
        for said in [
            "github asks you to sign in",
            "https://issuer.example",
            "repo, user:email",
            "login.issuer.example",
            "https://login.issuer.example/authorize?state=abc",
            "not now",
        ] {
            assert!(shown.contains(said), "{said}\n{shown}");
        }
        driver.reads();
        driver
    };
    let answer = |effects: &[Effect]| {
        effects.iter().find_map(|effect| match effect {
            Effect::Order(Order::Answer(id, Answer::Result(result))) => Some((*id, result.clone())),
            _ => None,
        })
    };
    let mut driver = open();
    assert!(
        driver.wanted.iter().all(|effect| matches!(effect, Effect::Bell)),
        "{:?}",
        driver.wanted
    );
    let effects = press(&mut driver.app, KeyCode::Enter, NONE);
    let opened = |effect: &Effect| matches!(effect, Effect::OpenUrl(ApprovalId(101), url) if url.host_str() == Some("login.issuer.example"));
    assert!(effects.iter().any(opened) && answer(&effects).is_none(), "{effects:?}");

    let mut driver = open();
    press(&mut driver.app, KeyCode::F(2), NONE);
    assert!(
        draw(&mut driver.app, 120, 60).contains("█▀▀▀▀▀█")
            || draw(&mut driver.app, 120, 60).contains("▄▄▄▄▄")
    );
    let effects = press(&mut driver.app, KeyCode::Char('y'), KeyModifiers::CONTROL);
    assert!(effects.iter().any(|e| matches!(e, Effect::Copy(url) if url.ends_with("state=abc"))));
    driver.keys("http://127.0.0.1:4711/callback?code=1");
    let effects = press(&mut driver.app, KeyCode::Enter, NONE);
    let pasted = json!({"action": "accept", "content": {"address": "http://127.0.0.1:4711/callback?code=1"}});
    assert_eq!(answer(&effects), Some((ApprovalId(101), pasted)));
    assert!(!draw(&mut driver.app, 120, 40).contains("not now"), "it is answered");

    let mut driver = open();
    press(&mut driver.app, KeyCode::Esc, NONE);
    assert!(draw(&mut driver.app, 120, 40).lines().next().unwrap().contains("1 waiting"));
    driver.keys("\x07");
    driver.reads();
    let effects = press(&mut driver.app, KeyCode::Char('x'), KeyModifiers::CONTROL);
    assert_eq!(answer(&effects), Some((ApprovalId(101), json!({"action": "decline"}))));
}

#[test]
fn an_input_that_is_answered_makes_room_for_what_waits_next() {
    let mut driver = Driver::new();
    let mut now = situation();
    now.awaiting.clear();
    now.revision = 2;
    driver.app.update(Message::Deck(DeckEvent::Situation(Arc::new(now.clone()))));
    let asked = draw(&mut driver.app, 120, 40);
    assert!(asked.contains("input token"), "{asked}");
    driver.reads();
    driver.keys("secret");
    let effects = press(&mut driver.app, KeyCode::Enter, NONE);
    assert!(effects.iter().any(|e| matches!(e, Effect::Config(ConfigCommand::Answer { .. }))));
    now.inputs[0].servers.clear();
    now.revision = 3;
    driver.app.update(Message::Deck(DeckEvent::Situation(Arc::new(now))));
    let next = draw(&mut driver.app, 120, 40);
    assert!(next.contains("apply the changed configuration?"), "{next}");
}

#[test]
fn what_waits_stands_in_the_header_however_little_room_there_is() {
    let mut driver = Driver::new();
    driver.ask(RequestKind::Sampling, question("Left or right?"));
    driver.shown();
    for width in [40, 50, 60, 80, 120] {
        let screen = draw(&mut driver.app, width, 20);
        assert!(screen.lines().next().unwrap().contains(" 1 waiting"), "{width}\n{screen}");
    }
}

#[test]
fn an_answer_opens_over_a_text_that_is_read_and_takes_the_keys() {
    let mut driver = Driver::new();
    driver.ask(RequestKind::Sampling, question("Left or right?"));
    driver.shown();
    driver.keys("?\x07");
    let screen = crate::tui::draw(&mut driver.app, 120, 40);
    assert!(screen.contains("Left or right?") && !screen.contains("keys: "), "{screen}");
}

#[test]
fn the_palette_opens_over_an_answer_while_the_filter_below_is_typed() {
    let mut driver = Driver::new();
    driver.ask(RequestKind::Sampling, question("Left or right?"));
    driver.shown();
    driver.keys("4/ab\x07\u{e006}:");
    let screen = crate::tui::draw(&mut driver.app, 120, 40);
    assert!(screen.contains(" commands "), "{screen}");
}

#[test]
fn what_a_terminal_is_too_small_to_show_is_not_approved() {
    let mut driver = full();
    driver.app.update(Message::Resize(120, 40));
    for key in "6jjj\r".chars() {
        driver.keys(&key.to_string());
    }
    driver.app.update(Message::Resize(39, 40));
    for _ in 0..5 {
        driver.keys("y");
    }
    let approves = |effect: &Effect| matches!(effect, Effect::Config(ConfigCommand::Approve(_)));
    assert!(!driver.wanted.iter().any(approves), "{:?}", driver.wanted);
    driver.app.update(Message::Resize(120, 40));
    let screen = draw(&mut driver.app, 120, 40);
    assert!(screen.contains("would run"), "{screen}");
    driver.keys("yyy");
    assert!(driver.wanted.iter().any(approves), "{screen}");
}

#[test]
fn nobody_is_called_to_answer_a_request_in_a_recording() {
    let mut driver = Driver::new();
    driver.ask(RequestKind::Sampling, question("Left or right?"));
    let news = vec![News::View(Arc::new(driver.view.clone()))];
    let played = Played { news, ..Played::default() };
    let effects = driver.app.update(Message::Played(Box::new(played)));
    assert!(!effects.contains(&Effect::Bell));
    let screen = draw(&mut driver.app, 120, 40);
    assert!(screen.contains("1 waiting") && !screen.contains("to answer"), "{screen}");
}
