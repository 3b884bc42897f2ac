//! The frame around panes and screens: popups with four sides, the line of messages, the line of
//! keys.

use ratatui::style::Modifier;

use super::*;

const SIZES: [(u16, u16); 5] = [(60, 20), (60, 19), (80, 24), (120, 40), (200, 60)];

fn type_all(app: &mut App, keys: &str) {
    for key in keys.chars() {
        press(app, KeyCode::Char(key), KeyModifiers::NONE);
    }
}

/// The row of a text, and the column it begins in.
fn find(screen: &str, text: &str) -> Option<(usize, usize)> {
    let row = screen.lines().position(|line| line.contains(text))?;
    let line = screen.lines().nth(row)?;
    Some((row, line[..line.find(text)?].chars().count()))
}

#[test]
fn a_popup_has_four_sides_and_nothing_shows_through() {
    for ascii in [false, true] {
        for (width, height) in SIZES {
            for keys in [":", "?", "b"] {
                let setup = Setup { ascii, ..Setup::default() };
                let mut app = App::new(setup, Timestamp(1_790_000_000_000_000 + 90_000_000));
                app.update(Message::EngineReady);
                app.update(Message::News(News::View(Arc::new(session("typical")))));
                draw(&mut app, width, height);
                type_all(&mut app, keys);
                let screen = draw(&mut app, width, height);
                let rows: Vec<Vec<char>> =
                    screen.lines().map(|line| line.chars().collect()).collect();
                let [left, right, side] =
                    if ascii { ['+', '+', '|'] } else { ['╭', '╮', '│'] };
                let corner = if ascii { "+- " } else { "╭─ " };
                let corner: Vec<char> = corner.chars().collect();
                // In ASCII, rules with a title that meet look like a corner.
                let begins = |row: &Vec<char>, x: &usize| {
                    row[*x..].starts_with(&corner)
                        && !x.checked_sub(1).is_some_and(|left| "-=".contains(row[left]))
                };
                let found = rows
                    .iter()
                    .enumerate()
                    .find_map(|(y, row)| Some((y, (0..row.len()).find(|x| begins(row, x))?)));
                let (top, from) = found.unwrap_or_else(|| panic!("{screen}"));
                let to = rows[top].iter().rposition(|c| *c == right).unwrap();
                assert_eq!(rows[top][from], left, "{screen}");
                let bottom =
                    (top + 1..rows.len()).find(|row| rows[*row].get(from) != Some(&side)).unwrap();
                assert!(bottom > top + 4, "{screen}");
                for row in &rows[top + 1..bottom] {
                    assert_eq!(row.get(to), Some(&side), "{screen}");
                }
                // The last line still names keys.
                assert!(screen.lines().last().unwrap().contains("esc"), "{screen}");
            }
        }
    }
}

#[test]
fn what_lies_below_a_popup_is_dimmed_and_wide_characters_do_not_stick_out() {
    let mut app = app("typical");
    type_all(&mut app, "6:");
    draw(&mut app, 120, 40);
    let area = Rect::new(0, 0, 120, 40);
    let mut buffer = Buffer::empty(area);
    app.render(area, &mut buffer);
    let corner = area.positions().find(|at| buffer[*at].symbol() == "╭").unwrap();
    for at in area.positions().filter(|at| at.y < corner.y) {
        let plain = Modifier::BOLD | Modifier::UNDERLINED | Modifier::REVERSED;
        assert!(!buffer[at].modifier.intersects(plain), "{at:?}");
    }
    // A popup may begin at the second cell of a wide character.
    for width in 76..96 {
        let mut app = self::app("degraded");
        draw(&mut app, width, 24);
        type_all(&mut app, "6:");
        let screen = draw(&mut app, width, 24);
        assert!(!screen.contains("✋│"), "{screen}");
    }
}

#[test]
fn a_message_has_a_line_of_its_own_and_never_takes_the_place_of_the_keys() {
    for (width, height) in SIZES {
        let mut app = app("typical");
        draw(&mut app, width, height);
        type_all(&mut app, "2y");
        let screen = draw(&mut app, width, height);
        let (row, _) = find(&screen, "copied ").unwrap_or_else(|| panic!("{screen}"));
        let keys = usize::from(height) - 1;
        assert_eq!(row, if height < 20 { 2 } else { keys - 1 }, "{screen}");
        assert!(screen.lines().last().unwrap().contains("enter call"), "{screen}");

        // On a screen over the panes, the same.
        press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
        draw(&mut app, width, height);
        press(&mut app, KeyCode::F(5), KeyModifiers::NONE);
        let screen = draw(&mut app, width, height);
        let (row, _) = find(&screen, "calls anyway").unwrap_or_else(|| panic!("{screen}"));
        assert_eq!(row, if height < 20 { 2 } else { keys - 1 }, "{screen}");
        assert!(screen.lines().last().unwrap().contains("f5 call"), "{screen}");

        // The next key takes its reason away, and it goes.
        type_all(&mut app, "x");
        let screen = draw(&mut app, width, height);
        assert!(find(&screen, "calls anyway").is_none(), "{screen}");
    }
}

#[test]
fn a_message_of_a_popup_that_covers_the_line_is_on_its_lower_side() {
    let mut app = app("typical");
    draw(&mut app, 80, 19);
    type_all(&mut app, "?y");
    let screen = draw(&mut app, 80, 19);
    let (row, _) = find(&screen, "copied ").unwrap_or_else(|| panic!("{screen}"));
    assert!(screen.lines().nth(row).unwrap().contains('╰'), "{screen}");
}

#[test]
fn a_question_over_a_form_offers_its_own_keys_and_they_can_be_clicked() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    type_all(&mut app, "2");
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Char('p'), KeyModifiers::CONTROL);
    let screen = draw(&mut app, 120, 40);
    let keys = screen.lines().last().unwrap();
    assert!(keys.contains("esc back") && !keys.contains("f5"), "{screen}");
    let (row, column) = find(&screen, "esc back").unwrap();
    let event = crossterm::event::MouseEvent {
        kind: crossterm::event::MouseEventKind::Down(crossterm::event::MouseButton::Left),
        column: column as u16,
        row: row as u16,
        modifiers: KeyModifiers::NONE,
    };
    app.update(Message::Input(Event::Mouse(event)));
    let screen = draw(&mut app, 120, 40);
    assert!(screen.lines().last().unwrap().contains("f5 call"), "{screen}");
}
