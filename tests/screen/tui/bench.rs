//! Catalogue, form and result side by side on a wide screen; which columns a catalogue drops on a
//! narrow one; and one row for each server.

use mcpdeck::tui::app::Redraw;

use super::*;

const NONE: KeyModifiers = KeyModifiers::NONE;

fn type_all(app: &mut App, keys: &str) {
    for key in keys.chars() {
        press(app, KeyCode::Char(key), NONE);
    }
}

fn tools(width: u16, height: u16) -> App {
    let mut app = app("typical");
    draw(&mut app, width, height);
    type_all(&mut app, "2");
    draw(&mut app, width, height);
    app
}

#[test]
fn from_140_columns_the_catalogue_stays_beside_form_and_result() {
    for (width, height) in [(140, 30), (160, 45), (200, 60)] {
        let mut app = tools(width, height);
        press(&mut app, KeyCode::Enter, NONE);
        let screen = draw(&mut app, width, height);
        let row = screen.lines().find(|line| line.contains("list_directory")).unwrap();
        assert!(row.contains("filesystem") && row.matches('│').count() >= 2, "{screen}");
        assert!(screen.contains("f5 sends; the result appears here"), "{screen}");
        type_all(&mut app, "mine");

        // Escape goes to the catalogue; the form stays, and another tool gets its own.
        press(&mut app, KeyCode::Esc, NONE);
        assert!(!app.has_screen());
        let screen = draw(&mut app, width, height);
        assert!(screen.contains("mine") && screen.contains("enter call"), "{screen}");
        type_all(&mut app, "j");
        let screen = draw(&mut app, width, height);
        assert!(!screen.contains("mine") && screen.contains("write_file"), "{screen}");
        type_all(&mut app, "k");
        let screen = draw(&mut app, width, height);
        assert!(screen.contains("mine"), "{screen}");
        // The next panel gets the focus, and the keys are those of the form again.
        press(&mut app, KeyCode::Tab, NONE);
        let screen = draw(&mut app, width, height);
        assert!(screen.lines().last().unwrap().contains("f5 call"), "{screen}");
        // Nothing runs, so nothing moves.
        assert_eq!(app.redraw(), Redraw::None);
        assert_eq!(app.wake().filter(|at| *at <= app.model.now), None);
    }
}

#[test]
fn a_click_on_the_catalogue_goes_back_to_it_and_one_on_the_form_to_the_form() {
    let mut app = tools(160, 45);
    press(&mut app, KeyCode::Enter, NONE);
    let screen = draw(&mut app, 160, 45);
    let click = |app: &mut App, screen: &str, text: &str| {
        let row = screen.lines().position(|line| line.contains(text)).unwrap();
        let line = screen.lines().nth(row).unwrap();
        let column = line[..line.find(text).unwrap()].chars().count();
        let kind = crossterm::event::MouseEventKind::Down(crossterm::event::MouseButton::Left);
        let (column, row) = (column as u16, row as u16);
        let event = crossterm::event::MouseEvent { kind, column, row, modifiers: NONE };
        app.update(Message::Input(Event::Mouse(event)));
        draw(app, 160, 45)
    };
    let screen = click(&mut app, &screen, "write_file");
    assert!(!app.has_screen() && screen.contains("▸  write_file"), "{screen}");
    type_all(&mut app, "k");
    let screen = draw(&mut app, 160, 45);
    let screen = click(&mut app, &screen, "path *");
    assert!(app.has_screen(), "{screen}");
    assert!(screen.lines().last().unwrap().contains("f5 call"), "{screen}");
}

#[test]
fn from_100_columns_the_catalogue_stays_beside_a_call_with_the_form_above_the_result() {
    for (width, height) in [(100, 30), (120, 40), (139, 40)] {
        let mut app = tools(width, height);
        let alone = draw(&mut app, width, height);
        press(&mut app, KeyCode::Enter, NONE);
        let screen = draw(&mut app, width, height);
        let row = screen.lines().find(|line| line.contains("list_directory")).unwrap();
        let list = row.split('│').next().unwrap().chars().count();
        assert!((30..=50).contains(&list), "{screen}");
        assert!(screen.contains("filesystem · read-only"), "the form is whole: {screen}");
        let path = screen.lines().position(|line| line.contains("path *")).unwrap();
        type_all(&mut app, "notes.md");
        press(&mut app, KeyCode::F(5), NONE);
        let screen = draw(&mut app, width, height);
        let result = screen.lines().position(|line| line.contains(" result ")).unwrap();
        assert!(result > path && screen.contains("list_directory"), "{screen}");
        // The list has its room and its detail again once the call is left.
        press(&mut app, KeyCode::Esc, NONE);
        press(&mut app, KeyCode::Esc, NONE);
        assert_eq!(draw(&mut app, width, height), alone);
        // Whoever hid the detail wants no second panel.
        type_all(&mut app, "|");
        press(&mut app, KeyCode::Enter, NONE);
        let screen = draw(&mut app, width, height);
        assert!(!screen.contains("list_directory"), "{screen}");
    }
    let mut app = tools(99, 30);
    press(&mut app, KeyCode::Enter, NONE);
    let screen = draw(&mut app, 99, 30);
    assert!(!screen.contains("list_directory"), "{screen}");
    // A wider terminal shows the same call beside the catalogue.
    for width in [100, 139, 140, 200] {
        let screen = draw(&mut app, width, 40);
        assert!(screen.contains("list_directory") && screen.contains("f5 call"), "{screen}");
    }
}

#[test]
fn a_click_on_the_list_beside_a_call_goes_back_to_it() {
    let mut app = tools(120, 40);
    press(&mut app, KeyCode::Enter, NONE);
    let screen = draw(&mut app, 120, 40);
    let row = screen.lines().position(|line| line.contains("write_file")).unwrap();
    let kind = crossterm::event::MouseEventKind::Down(crossterm::event::MouseButton::Left);
    let event = crossterm::event::MouseEvent { kind, column: 6, row: row as u16, modifiers: NONE };
    app.update(Message::Input(Event::Mouse(event)));
    let screen = draw(&mut app, 120, 40);
    assert!(!app.has_screen() && screen.contains("▸  write_file"), "{screen}");
}

#[test]
fn what_a_filter_leaves_does_not_move_the_columns() {
    for (width, height) in [(120, 40), (200, 60)] {
        let mut app = tools(width, height);
        let place = |screen: &str| {
            let titles = screen.lines().find(|line| line.contains(" tokens")).unwrap().to_owned();
            titles.find("tokens").map(|at| titles[..at].chars().count())
        };
        let before = place(&draw(&mut app, width, height));
        type_all(&mut app, "/create");
        let screen = draw(&mut app, width, height);
        assert!(!screen.contains("list_directory"), "{screen}");
        assert_eq!(place(&screen), before, "{screen}");
    }
}

#[test]
fn many_servers_get_the_room_that_a_detail_can_spare() {
    for (width, height, least) in [(80, 24, 7), (120, 40, 22)] {
        let mut app = app("overflow");
        let screen = draw(&mut app, width, height);
        let detail = screen.lines().position(|line| line.contains(" detail ")).unwrap();
        let rows = detail - 4;
        assert!(rows >= least && usize::from(height) - detail >= 10, "{screen}");
    }
}

#[test]
fn a_wider_catalogue_never_loses_a_column_that_a_narrower_one_has() {
    let mut before = 0;
    for width in [40, 60, 80, 100, 120, 139] {
        let mut app = tools(width, 24);
        let screen = draw(&mut app, width, 24);
        let titles = screen.lines().nth(4).unwrap();
        let columns = ["name", "server", "hint", "tokens"];
        let shown = columns.iter().filter(|title| titles.contains(**title)).count();
        let list = titles.split('│').next().unwrap();
        assert!(list.contains("name") && (width < 60 || list.contains("server")), "{screen}");
        let signature = screen.contains("(path: string, head?: i");
        assert!(signature || width < 60, "{screen}");
        // From 100 columns, a detail is beside the list; from 120, it costs the list nothing.
        assert!(shown >= before || width == 100, "{width}: {screen}");
        before = shown;
    }
    assert_eq!(before, 4);
}

#[test]
fn servers_have_one_row_each_and_those_that_failed_come_first() {
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let mut app = app("degraded");
        let screen = draw(&mut app, width, height);
        let rows: Vec<&str> = screen.lines().skip(4).take(5).collect();
        let signs: Vec<char> = rows.iter().filter_map(|row| row.chars().nth(3)).collect();
        assert_eq!(signs, ['✗', '✗', '○', '◐', '·'], "{screen}");
        assert!(rows[1].contains("GITHUB_TOKEN is not"), "{screen}");
        // The card of the selected one is the detail.
        assert!(screen.contains("stderr  Segmentation fault"), "{screen}");
        type_all(&mut app, "j");
        let screen = draw(&mut app, width, height);
        assert!(!screen.contains("Segmentation fault"), "{screen}");
        // Sorted otherwise and back.
        type_all(&mut app, "o");
        let screen = draw(&mut app, width, height);
        assert!(screen.contains("sorted by name"), "{screen}");
        press(&mut app, KeyCode::Esc, NONE);
        let screen = draw(&mut app, width, height);
        let first = screen.lines().nth(4).unwrap();
        assert_eq!(first.chars().nth(3), Some('✗'), "{screen}");
    }
}

#[test]
fn the_overview_of_sixty_servers_scrolls_with_the_selection() {
    let mut app = app("overflow");
    for (width, height) in [(80, 24), (120, 40), (200, 60), (60, 20), (40, 10)] {
        draw(&mut app, width, height);
        press(&mut app, KeyCode::End, NONE);
        let screen = draw(&mut app, width, height);
        let row = screen.lines().find(|line| line.starts_with(" ▸")).unwrap_or_default();
        assert!(row.contains("59"), "{screen}");
        press(&mut app, KeyCode::Home, NONE);
        let screen = draw(&mut app, width, height);
        assert!(screen.contains("↓sta"), "{screen}");
    }
}
