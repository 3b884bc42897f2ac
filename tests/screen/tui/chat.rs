//! The chat as it reads at three sizes, and what the dashboard does around it.

use mcpdeck::tui::chat::port::{ChatCommand, ChatNews, Choose};
use serde_json::{Value, json};

use super::*;

fn happens(app: &mut App, event: Value) {
    app.update(Message::Chat(ChatNews::Event(event)));
}

fn opened() -> App {
    let mut app = app("typical");
    let with = SafeText::line("test-model");
    app.update(Message::Chat(ChatNews::Opened {
        with,
        events: Vec::new(),
        busy: false,
        suggestions: Vec::new(),
    }));
    press(&mut app, KeyCode::Char('C'), KeyModifiers::NONE);
    app
}

fn talked() -> App {
    let mut app = opened();
    happens(
        &mut app,
        json!({"type": "message", "text": "how warm is it in the **hall**?", "at": null}),
    );
    happens(
        &mut app,
        json!({"type": "text", "text": "# Two places\n\nLet me look at *both*:\n\n"}),
    );
    let calls = [
        ("1", "filesystem__read_file", json!({"path": "hall.txt"}), false, "21 degrees", 12),
        ("2", "memory__ask", json!({"about": "the hall"}), true, "no such\u{1b}[2J sensor", 340),
    ];
    for (id, name, arguments, is_error, text, took) in calls {
        happens(
            &mut app,
            json!({"type": "toolCall", "id": id, "name": name, "arguments": arguments}),
        );
        happens(
            &mut app,
            json!({
                "type": "toolResult", "id": id, "name": name, "isError": is_error, "text": text,
                "durationMs": took, "humanMs": 0,
            }),
        );
    }
    happens(
        &mut app,
        json!({"type": "text", "text": "It is **21** degrees:\n\n- hall: 21\n- cellar: "}),
    );
    happens(&mut app, json!({"type": "text", "text": "unknown\n\n```\n21 C\n```\n"}));
    let costs = json!([
        {"server": "filesystem", "tools": 11, "definitions": 1500, "guidance": 40, "calls": 1, "results": 7},
        {"server": "memory", "tools": 9, "definitions": 900, "guidance": 0, "calls": 1, "results": 9},
    ]);
    happens(
        &mut app,
        json!({
            "type": "done", "reason": "end", "rounds": 2, "toolCalls": 2, "costs": costs,
            "usage": {"input": 5120, "output": 64, "isEstimate": false},
        }),
    );
    app
}

/// What an action asks of the chat.
fn chat_command(effects: Vec<Effect>) -> Option<ChatCommand> {
    effects.into_iter().find_map(|effect| match effect {
        Effect::Chat(command) => Some(command),
        _ => None,
    })
}

#[test]
fn the_chat_reads_well_at_every_size() {
    for (name, made) in [("empty", opened as fn() -> App), ("talked", talked)] {
        let mut app = made();
        for (width, height) in [(80, 24), (120, 40), (200, 60)] {
            let screen = draw(&mut app, width, height);
            insta::assert_snapshot!(format!("chat_{name}_{width}x{height}"), screen);
        }
    }
}

#[test]
fn a_conversation_has_a_tab_to_go_back_to() {
    let mut app = opened();
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    let tabs = |app: &mut App| draw(app, 120, 40).lines().nth(1).unwrap_or_default().to_owned();
    assert!(!tabs(&mut app).contains("Chat"), "nothing was said yet");
    let mut app = talked();
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    assert!(tabs(&mut app).contains("C Chat"));
}

#[test]
fn the_chat_takes_the_place_of_a_text_that_is_open() {
    let mut app = opened();
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    press(&mut app, KeyCode::F(1), KeyModifiers::NONE);
    assert!(draw(&mut app, 120, 40).contains("keys: "));
    press(&mut app, KeyCode::Char('C'), KeyModifiers::NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("Write a message") && !screen.contains("keys: "), "{screen}");
}

#[test]
fn what_was_typed_is_sent_and_lists_lead_to_commands() {
    let mut app = talked();
    draw(&mut app, 120, 40);
    for c in "thanks q?".chars() {
        press(&mut app, KeyCode::Char(c), KeyModifiers::NONE);
    }
    press(&mut app, KeyCode::Enter, KeyModifiers::ALT);
    press(&mut app, KeyCode::Char('!'), KeyModifiers::NONE);
    let sent = press(&mut app, KeyCode::Enter, KeyModifiers::SHIFT);
    assert!(sent.is_empty(), "shift-enter begins a line: {sent:?}");
    press(&mut app, KeyCode::Char('?'), KeyModifiers::NONE);
    let said = chat_command(press(&mut app, KeyCode::Enter, KeyModifiers::NONE));
    assert_eq!(said, Some(ChatCommand::Say("thanks q?\n!\n?".to_owned(), None)));
    for (code, modifiers, wanted) in [
        (KeyCode::F(2), KeyModifiers::NONE, ChatCommand::List(Choose::Model)),
        (KeyCode::F(3), KeyModifiers::NONE, ChatCommand::List(Choose::Profile)),
        (KeyCode::F(4), KeyModifiers::NONE, ChatCommand::Prompt),
        (KeyCode::F(6), KeyModifiers::NONE, ChatCommand::Branch(None)),
        (KeyCode::Char('t'), KeyModifiers::CONTROL, ChatCommand::List(Choose::Conversation)),
    ] {
        assert_eq!(chat_command(press(&mut app, code, modifiers)), Some(wanted));
    }
    let other = ChatCommand::Model("other".to_owned());
    let choices = vec![(SafeText::line("other"), other.clone())];
    app.update(Message::Chat(ChatNews::Choices(Choose::Model, choices)));
    assert!(draw(&mut app, 120, 40).contains("models"));
    assert_eq!(chat_command(press(&mut app, KeyCode::Enter, KeyModifiers::NONE)), Some(other));
}

#[test]
fn the_context_shows_the_prompt_and_what_each_server_costs() {
    let mut app = talked();
    let costs = json!([{"server": "filesystem", "tools": 11, "definitions": 1500, "guidance": 40}]);
    let text = SafeText::block("You are the assistant.\nRules for tools:");
    app.update(Message::Chat(ChatNews::Prompt(text, costs, 100_000)));
    let screen = draw(&mut app, 80, 24);
    for part in ["100000 tokens", "filesystem", "1500", "1.5 %", "Rules for tools:"] {
        assert!(screen.contains(part), "{part}\n{screen}");
    }
}

#[test]
fn quitting_while_the_model_answers_says_what_is_lost() {
    let mut app = opened();
    happens(&mut app, json!({"type": "message", "text": "how warm is it?", "at": null}));
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    press(&mut app, KeyCode::Char('q'), KeyModifiers::NONE);
    let asked = draw(&mut app, 80, 24);
    assert!(asked.contains("The answer of the model is not complete."), "{asked}");
}

#[test]
fn a_call_opens_as_a_tree_that_folds_is_searched_and_closes() {
    let mut app = opened();
    let arguments = json!({"where": {"place": "hall", "floor": 2}});
    happens(
        &mut app,
        json!({"type": "toolCall", "id": "1", "name": "house__measure", "arguments": arguments}),
    );
    let text =
        json!({"rooms": [{"name": "hall", "degrees": 21}, {"name": "cellar", "degrees": 9}]});
    happens(
        &mut app,
        json!({
            "type": "toolResult", "id": "1", "name": "house__measure", "isError": false,
            "text": text.to_string(), "durationMs": 12, "humanMs": 0,
        }),
    );
    draw(&mut app, 80, 24);
    press(&mut app, KeyCode::Tab, KeyModifiers::NONE);
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    for (width, height) in [(80, 24), (200, 60)] {
        let screen = draw(&mut app, width, height);
        for part in ["house__measure", "answered after 12 ms", "rooms", "cellar", "structured"] {
            assert!(screen.contains(part), "{part} in {screen}");
        }
    }
    // The cursor stands at the root, which folds.
    press(&mut app, KeyCode::Left, KeyModifiers::NONE);
    assert!(!draw(&mut app, 80, 24).contains("rooms"));
    press(&mut app, KeyCode::Right, KeyModifiers::NONE);
    assert!(draw(&mut app, 80, 24).contains("rooms"));
    press(&mut app, KeyCode::Char('/'), KeyModifiers::NONE);
    for c in "cell".chars() {
        press(&mut app, KeyCode::Char(c), KeyModifiers::NONE);
    }
    assert!(draw(&mut app, 80, 24).contains("search: cell"));
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    assert!(!draw(&mut app, 80, 24).contains("search: "));
    // The whole, with the arguments.
    press(&mut app, KeyCode::Tab, KeyModifiers::NONE);
    assert!(draw(&mut app, 80, 24).contains("arguments"));
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    assert!(
        draw(&mut app, 80, 24).contains("Write a message")
            || draw(&mut app, 80, 24).contains("test-model")
    );
}

#[test]
fn a_conversation_is_renamed_and_searched_by_a_typed_line() {
    let mut app = talked();
    let renamed = ChatCommand::Rename(Some("trip".to_owned()));
    let found = ChatCommand::Find(Some("trip".to_owned()));
    for (asks, wanted) in [(ChatCommand::Rename(None), renamed), (ChatCommand::Find(None), found)] {
        let choices = vec![(SafeText::line("do it"), asks)];
        app.update(Message::Chat(ChatNews::Choices(Choose::Conversation, choices)));
        draw(&mut app, 80, 24);
        assert_eq!(chat_command(press(&mut app, KeyCode::Enter, KeyModifiers::NONE)), None);
        assert!(draw(&mut app, 80, 24).contains("the conversation"));
        for c in "trip".chars() {
            press(&mut app, KeyCode::Char(c), KeyModifiers::NONE);
        }
        assert_eq!(chat_command(press(&mut app, KeyCode::Enter, KeyModifiers::NONE)), Some(wanted));
    }
}
