//! The corpus of schemas: every hard keyword by hand, and every tool of the real servers. For each
//! a form is built, filled by keys, compared with the expected JSON, turned into JSON and back, and
//! drawn on a small screen.

use std::path::Path;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use mcpdeck::base::ServerName;
use mcpdeck::base::Timestamp;
use mcpdeck::base::text::SafeText;
use mcpdeck::deck::History;
use mcpdeck::tui::action::Action;
use mcpdeck::tui::call::{CallScreen, CallSubject, SubjectKind};
use mcpdeck::tui::form::{FormState, JsonView, RowKind};
use mcpdeck::tui::keymap::Keymap;
use mcpdeck::tui::look::Styles;
use mcpdeck::tui::pane::Out;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::Value;

fn folder(name: &str) -> Vec<(String, Value)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/schemas").join(name);
    let mut all: Vec<(String, Value)> = std::fs::read_dir(path)
        .expect("the corpus is there")
        .map(|entry| {
            let path = entry.expect("readable").path();
            let text = std::fs::read_to_string(&path).expect("readable");
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, serde_json::from_str(&text).expect("JSON"))
        })
        .collect();
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

fn screen(schema: &Value) -> CallScreen {
    let subject = CallSubject {
        server: ServerName::new("corpus"),
        kind: SubjectKind::Tool,
        wire: "tool".into(),
        label: SafeText::line("tool"),
        title: None,
        description: None,
        manner: "",
        schema: Arc::new(schema.clone()),
        numbers: mcpdeck::base::text::json::WrittenNumbers::default(),
        bytes: 0,
        has_app: false,
        limits: mcpdeck::config::ContentLimits::default(),
        target: SafeText::line("corpus"),
    };
    CallScreen::new(subject, &History::default(), Timestamp(0))
}

fn press(screen: &mut CallScreen, script: &str) {
    let keymap = Keymap::builtin();
    let mut rest = script;
    while let Some(c) = rest.chars().next() {
        let (key, used) = match (c, rest[c.len_utf8()..].split_once('>')) {
            ('<', Some((name, _))) => (named(name), name.len() + 2),
            _ => (KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE), c.len_utf8()),
        };
        screen.key(key, &keymap, Timestamp(1), &mut Out::default());
        rest = &rest[used..];
    }
}

fn named(name: &str) -> KeyEvent {
    let (modifiers, bare) = match name.split_once('-') {
        Some(("ctrl", bare)) => (KeyModifiers::CONTROL, bare),
        Some(("alt", bare)) => (KeyModifiers::ALT, bare),
        _ => (KeyModifiers::NONE, name),
    };
    let code = match bare {
        "enter" => KeyCode::Enter,
        "tab" => KeyCode::Tab,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "space" => KeyCode::Char(' '),
        "backspace" => KeyCode::Backspace,
        "f4" => KeyCode::F(4),
        other => KeyCode::Char(other.chars().next().expect("a key")),
    };
    KeyEvent::new(code, modifiers)
}

fn draw_small(screen: &mut CallScreen) {
    let (area, keymap) = (Rect::new(0, 0, 60, 20), Keymap::builtin());
    for row in 0..=screen.form.rows().len().min(60) {
        screen.form.select(row);
        screen.lay_out(area, &Styles::default());
        let mut buf = Buffer::empty(area);
        screen.draw(&keymap, &Styles::default(), Timestamp(2), area, &mut buf);
    }
}

/// Form to JSON to form is the identity: what JSON shows, set again, is the same value.
fn round_trip(name: &str, form: &mut FormState) {
    let before = form.arguments();
    while form.json() != JsonView::Focused {
        form.apply(Action::Json);
    }
    let (text, _) = form.field_for_editor().expect("the whole");
    form.replace_text(&text);
    form.leave_json();
    assert_eq!(form.arguments(), before, "{name}: form -> JSON -> form");
}

#[test]
fn every_hand_written_schema_is_filled_by_keys_as_expected() {
    let corpus = folder("hand");
    assert!(corpus.len() >= 60, "{} cases", corpus.len());
    let mut wrong = Vec::new();
    for (name, case) in &corpus {
        let mut screen = screen(&case["schema"]);
        press(&mut screen, case["keys"].as_str().expect("keys"));
        let got = screen.form.arguments();
        if got != case["expected"] {
            wrong.push(format!("{name}: {got} instead of {}", case["expected"]));
            continue;
        }
        let fits = screen.form.blocking() == 0;
        if fits != case["fits"].as_bool().unwrap_or(true) {
            wrong.push(format!("{name}: problems {:?}", screen.form.problems()));
        }
        let degraded: Vec<&str> = screen.form.degraded().into_iter().map(|(at, _)| at).collect();
        let expected: Vec<&str> =
            case["degraded"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        if degraded != expected {
            wrong.push(format!("{name}: degraded {degraded:?} instead of {expected:?}"));
        }
        draw_small(&mut screen);
        round_trip(name, &mut screen.form);
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), corpus.len(), wrong.join("\n"));
}

#[test]
fn a_form_shows_the_fields_that_lists_and_help_name() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/schemas/tools.json");
    let text = std::fs::read_to_string(path).expect("readable");
    let tools: Vec<Value> = serde_json::from_str(&text).expect("JSON");
    let mut wrong = Vec::new();
    for tool in &tools {
        let screen = screen(&tool["inputSchema"]);
        let fields =
            screen.form.rows().iter().filter(|row| matches!(row.kind, RowKind::Field { .. }));
        let got: Vec<String> = fields
            .map(|row| format!("{}{}", row.pointer, if row.required { " *" } else { "" }))
            .collect();
        if got != tool["form"].as_array().expect("a list").as_slice() {
            wrong.push(format!("{}: {got:?} instead of {}", tool["name"], tool["form"]));
        }
        if let Some(problem) = screen.form.schema_problem() {
            wrong.push(format!("{}: {problem}", tool["name"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_tool_of_the_real_servers_degrades_and_each_can_be_drawn() {
    let mut tools = 0;
    for (server, list) in folder("real") {
        for tool in list.as_array().expect("tools") {
            let name = format!("{server}.{}", tool["name"].as_str().expect("a name"));
            let mut screen = screen(&tool["inputSchema"]);
            assert!(screen.form.degraded().is_empty(), "{name}: {:?}", screen.form.degraded());
            assert!(screen.form.schema_problem().is_none(), "{name}");
            // Everything that can be unfolded or added, a few levels deep.
            for _ in 0..3 {
                for row in 0..screen.form.rows().len() {
                    if screen.form.folded(row) == Some(true) {
                        screen.form.fold(row, false);
                    }
                }
            }
            for row in (0..screen.form.rows().len()).rev() {
                screen.form.select(row);
                screen.form.apply(Action::AddItem);
            }
            assert!(screen.form.degraded().is_empty(), "{name}: {:?}", screen.form.degraded());
            draw_small(&mut screen);
            round_trip(&name, &mut screen.form);
            tools += 1;
        }
    }
    assert!(tools >= 60, "{tools} tools");
}

#[test]
fn the_output_schemas_of_the_real_servers_compile() {
    for (server, list) in folder("real") {
        for tool in list.as_array().expect("tools") {
            if let Some(schema) = tool.get("outputSchema") {
                let compiled = mcpdeck::schema::Validator::compile(schema);
                assert!(compiled.is_ok(), "{server}.{}: {compiled:?}", tool["name"]);
            }
        }
    }
}
