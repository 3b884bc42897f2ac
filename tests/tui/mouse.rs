//! The mouse on everything that is drawn: what is clicked is what stands there.

use crossterm::event::{Event, KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use mcpdeck::host::Timestamp;
use mcpdeck::tui::app::{App, Setup};
use mcpdeck::tui::effect::Effect;
use mcpdeck::tui::message::Message;

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
    click(&mut app, "2 Tools");
    click(&mut app, "● memory ");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("1 tools of 1 server"), "{screen}");
    click(&mut app, "All servers");
    click(&mut app, "? help");
    assert!(draw(&mut app, 120, 40).contains("keys: Tools"));
    click(&mut app, " mcp");
    assert!(!draw(&mut app, 120, 40).contains("keys: Tools"), "a click beside it closes it");
    for _ in 0..2 {
        click(&mut app, "write_file ");
    }
    let form = draw(&mut app, 120, 40);
    assert!(form.contains("\n write_file   filesystem"), "a double click opens\n{form}");
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
    assert!(line.contains('z') && line.starts_with('▎'), "{form}");
    click(&mut app, "  Call");
    assert!(draw(&mut app, 120, 40).contains("the form has"), "a click on the line calls");
}

#[test]
fn yes_and_no_are_clicked_and_nothing_else_of_a_question_is_a_yes() {
    let mut app = app("typical");
    app.update(Message::Resize(120, 40));
    app.update(Message::Situation(std::sync::Arc::new(super::situation())));
    press(&mut app, KeyCode::Esc, NONE);
    press(&mut app, KeyCode::Char('P'), NONE);
    let apply = |effects: &[Effect]| {
        let apply = Effect::Config(mcpdeck::tui::effect::ConfigCommand::Apply);
        effects.contains(&apply)
    };
    for words in ["use it?", "restart  files", "mcpdeck"] {
        assert!(!apply(&click(&mut app, words)), "{words}");
    }
    assert!(!apply(&click(&mut app, "n no")));
    assert!(!draw(&mut app, 120, 40).contains("use it?"));
    press(&mut app, KeyCode::Char('P'), NONE);
    assert!(apply(&click(&mut app, "y yes")));
}

#[test]
fn the_tour_goes_on_by_a_click() {
    let mut app = App::new(Setup { tour: true, ..Setup::default() }, Timestamp(1));
    click(&mut app, "deck of your MCP servers");
    assert!(draw(&mut app, 120, 40).contains("2 of 4"));
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
