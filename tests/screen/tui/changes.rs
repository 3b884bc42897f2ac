//! What changed in the lists of a server is marked until the person has looked at it.

use std::sync::Arc;

use crossterm::event::KeyCode;
use mcpdeck::base::text::SafeText;
use mcpdeck::deck::News;
use mcpdeck::host::Record;
use mcpdeck::protocol::{Capabilities, ListChanges, ListKind};
use mcpdeck::tui::app::App;
use mcpdeck::tui::effect::{Effect, Order, ServerCommand};
use mcpdeck::tui::message::{Message, UserFiles};
use serde_json::{Value, json};

use super::keys::{NONE, types};
use super::{app, draw, press};

/// Something happens to the server of the files.
fn happens(app: &mut App, mut fact: Value) {
    let mut view = (*app.model.view).clone();
    fact["seq"] = (view.seq + 1).into();
    fact["at"] = app.model.now.0.into();
    fact["server"] = "filesystem".into();
    let record: Record = serde_json::from_value(fact).unwrap();
    view.apply(&record);
    app.update(Message::News(News::View(Arc::new(view))));
}

/// It lists its tools with other definitions.
fn lists(app: &mut App, edit: impl FnOnce(&mut Vec<Value>)) {
    let before = Arc::clone(&app.model.view.servers["filesystem"].capabilities);
    let mut after = serde_json::to_value(&*before).unwrap();
    edit(after["tools"].as_array_mut().unwrap());
    let after: Capabilities = serde_json::from_value(after).unwrap();
    let changes = ListChanges::between(&before, &after);
    happens(app, json!({"fact": "listed", "capabilities": after, "changes": changes}));
}

fn says(tools: &mut [Value], tool: usize, about: &str) {
    tools[tool]["description"] = about.into();
    tools[tool]["raw"]["description"] = about.into();
}

/// The changed entries that these effects say were looked at.
fn seen(effects: &[Effect]) -> Vec<&str> {
    let items = effects.iter().filter_map(|effect| match effect {
        Effect::Order(Order::Server(_, ServerCommand::ChangesSeen(items))) => Some(items),
        _ => None,
    });
    items.flatten().map(|(_, name)| name.as_str()).collect()
}

#[test]
fn a_changed_tool_is_marked_until_its_difference_was_read() {
    let mut app = app("typical");
    lists(&mut app, |tools| {
        says(tools, 0, "Reads a file, and tells.");
        says(tools, 1, "Writes, and tells.");
    });
    types(&mut app, "2");
    let screen = draw(&mut app, 80, 24);
    assert!(screen.contains("~ read_file") && screen.contains("~ write_file"), "{screen}");
    // Going over it is not reading it, and the form alone does not show what changed.
    types(&mut app, "/read_file");
    let mut effects = press(&mut app, KeyCode::Enter, NONE);
    effects.extend(press(&mut app, KeyCode::Enter, NONE));
    effects.extend(press(&mut app, KeyCode::Esc, NONE));
    assert!(seen(&effects).is_empty(), "{effects:?}");
    let effects = press(&mut app, KeyCode::Right, NONE);
    let screen = draw(&mut app, 80, 24);
    assert!(screen.contains("/description") && seen(&effects).is_empty(), "{screen}");
    let effects = press(&mut app, KeyCode::Esc, NONE);
    assert_eq!(seen(&effects), ["read_file"]);
    let item = (ListKind::Tools, SafeText::line("read_file"));
    happens(&mut app, json!({"fact": "changesSeen", "item": item}));
    press(&mut app, KeyCode::Esc, NONE);
    let screen = draw(&mut app, 80, 24);
    assert!(!screen.contains("~ read_file") && screen.contains("~ write_file"), "{screen}");
    // Where the difference stands beside the list, opening the tool is enough.
    types(&mut app, "/write_file");
    press(&mut app, KeyCode::Enter, NONE);
    assert!(draw(&mut app, 160, 40).contains("/description"));
    assert_eq!(seen(&press(&mut app, KeyCode::Enter, NONE)), ["write_file"]);
}

#[test]
fn what_vanished_is_reported_until_the_diagnostics_were_read() {
    let mut app = app("typical");
    lists(&mut app, |tools| _ = tools.remove(0));
    draw(&mut app, 120, 40);
    types(&mut app, "1");
    press(&mut app, KeyCode::Home, NONE);
    while app.model.scope.as_ref().is_none_or(|scope| scope.as_str() != "filesystem") {
        types(&mut app, "]");
    }
    types(&mut app, "b");
    press(&mut app, KeyCode::End, NONE);
    let screen = draw(&mut app, 120, 200);
    assert!(screen.contains("- tools read_file"), "{screen}");
    assert_eq!(seen(&press(&mut app, KeyCode::Esc, NONE)), ["read_file"]);
}

#[test]
fn an_open_form_says_that_the_definition_changed_and_keeps_what_was_typed() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    types(&mut app, "2/read_file");
    press(&mut app, KeyCode::Enter, NONE);
    press(&mut app, KeyCode::Enter, NONE);
    types(&mut app, "/srv/kept.txt");
    lists(&mut app, |tools| {
        says(tools, 0, "Reads a file, and tells.");
        let schema = json!({"type": "object", "required": ["path"], "properties": {
            "path": {"type": "string"}, "secret": {"type": "string"}}});
        tools[0]["input_schema"] = schema.clone();
        tools[0]["raw"]["inputSchema"] = schema;
    });
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("its definition changed at"), "{screen}");
    assert!(screen.contains(": parameters,") && screen.contains("typed is kept"), "{screen}");
    assert!(screen.contains("/srv/kept.txt") && screen.contains("secret"), "{screen}");
    press(&mut app, KeyCode::F(5), NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(!screen.contains("its definition changed at"), "{screen}");
}

#[test]
fn definitions_that_change_to_and_fro_are_one_state_on_the_screen() {
    let mut app = app("typical");
    for round in 0..8 {
        lists(&mut app, |tools| says(tools, 0, if round % 2 == 0 { "A" } else { "B" }));
    }
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("definitions unstable since"), "{screen}");
}

#[test]
fn a_keymap_that_cannot_be_read_is_named_and_the_keys_stay() {
    let mut app = app("typical");
    let problem = "/home/x/keymap.toml: it is not valid UTF-8; save it as UTF-8";
    let keymap = |keymap| UserFiles { keymap: Some(keymap), ..UserFiles::default() };
    app.update(Message::UserFiles(keymap(Ok("[global]\nf7 = \"show-logs\"".to_owned()))));
    app.update(Message::UserFiles(keymap(Err(problem.to_owned()))));
    let screen = draw(&mut app, 160, 40);
    assert!(screen.contains(problem), "{screen}");
    press(&mut app, KeyCode::F(7), NONE);
    assert!(draw(&mut app, 160, 40).contains("/ search"), "the key still works");
}
