//! The mouse in a form: a click selects, a second one on the same line does what Enter does there;
//! the line that calls calls.

use crate::tui::action::Action;
use crossterm::event::{KeyCode, KeyEvent};
use ratatui::layout::{Position, Rect};

use super::draw::{Spot, hit};
use super::popup::Chooses;
use super::state::FormState;

/// What a click on a form means outside of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clicked {
    /// Nothing.
    Nothing,
    /// The line that calls, or saves, was clicked.
    Submit,
}

impl FormState {
    /// A click at a place of the `area` the form is drawn in.
    pub fn click(&mut self, at: Position, area: Rect) -> Clicked {
        match hit(self, area, at) {
            Some(Spot::Entry(entry)) => self.click_entry(entry),
            Some(Spot::Outside) => self.popup = None,
            Some(Spot::Json) => self.enter_json(),
            Some(Spot::Row(row)) => {
                if self.json().is_some_and(|json| json.focused) {
                    self.toggle_json();
                    if self.json().is_some_and(|json| json.focused) {
                        // It is no JSON: what was typed there is not thrown away by a click.
                        return Clicked::Nothing;
                    }
                }
                let again = self.cursor() == row;
                if row == self.rows().len() {
                    self.select(row);
                    return Clicked::Submit;
                }
                if !again {
                    self.select(row);
                } else if !self.takes_text() {
                    self.apply(Action::Open);
                }
            }
            Some(Spot::Frame) | None => {}
        }
        Clicked::Nothing
    }

    fn click_entry(&mut self, entry: usize) {
        let Some(popup) = &mut self.popup else { return };
        if entry >= popup.narrowed().len() {
            return;
        }
        popup.selected = entry;
        let many = matches!(popup.chooses, Chooses::Many(_));
        let code = if many { KeyCode::Char(' ') } else { KeyCode::Enter };
        self.type_popup(KeyEvent::from(code));
    }

    /// The wheel turned by so many rows: the cursor goes along.
    pub fn wheel(&mut self, rows: isize) {
        for _ in 0..rows.unsigned_abs() {
            if self.popup_is_open() {
                let code = if rows < 0 { KeyCode::Up } else { KeyCode::Down };
                self.type_popup(KeyEvent::from(code));
            } else {
                self.apply(if rows < 0 { Action::PreviousField } else { Action::NextField });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ratatui::buffer::Buffer;
    use serde_json::json;

    use super::super::draw::{Look, form};
    use super::super::seed::Defaults;
    use super::*;

    const AREA: Rect = Rect { x: 3, y: 2, width: 60, height: 14 };

    /// The place of a text on the drawn form.
    fn place(state: &FormState, text: &str) -> Position {
        let mut buf = Buffer::empty(Rect::new(0, 0, 80, 24));
        form(state, &Look::default(), "Call", AREA, &mut buf);
        for y in 0..24 {
            let line: String = (0..80).map(|x| buf[(x, y)].symbol()).collect();
            if let Some(at) = line.find(text) {
                return Position::new(line[..at].chars().count() as u16, y);
            }
        }
        panic!("{text} is not shown");
    }

    fn click(state: &mut FormState, text: &str) -> Clicked {
        let at = place(state, text);
        state.click(at, AREA)
    }

    #[test]
    fn what_is_clicked_is_what_is_drawn_there() {
        let schema = json!({"type": "object", "required": ["name", "kind", "on"], "properties": {
            "name": {"type": "string"}, "kind": {"enum": ["apple", "pear", "plum"]},
            "on": {"type": "boolean"},
            "many": {"type": "array", "uniqueItems": true, "items": {"enum": ["x1", "x2"]}}}});
        let mut state = FormState::new(&Arc::new(schema), Defaults::Required);
        assert_eq!(click(&mut state, "name"), Clicked::Nothing);
        assert!(state.takes_text());
        click(&mut state, "kind");
        assert!(!state.popup_is_open(), "the first click selects");
        click(&mut state, "kind");
        assert!(state.popup_is_open());
        click(&mut state, "pear");
        assert_eq!(state.arguments()["kind"], "pear");
        click(&mut state, "many");
        click(&mut state, "many");
        click(&mut state, "x1");
        click(&mut state, "✓ x1");
        click(&mut state, "x2");
        state.click(Position::new(AREA.x, AREA.y), AREA);
        assert!(!state.popup_is_open(), "a click beside the list closes it");
        assert_eq!(state.arguments()["many"], json!(["x2"]));
        assert_eq!(click(&mut state, "Call"), Clicked::Submit);
        state.wheel(-3);
        assert!(!state.is_on_submit());
    }

    #[test]
    fn a_click_between_fields_and_json_moves_the_keys_and_loses_nothing() {
        let wide = Rect { width: 100, ..AREA };
        let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
        let mut state = FormState::new(&Arc::new(schema), Defaults::Required);
        state.apply(Action::Json);
        assert!(state.json().is_some_and(|json| json.focused));
        state.click(Position::new(wide.x + 2, wide.y), wide);
        assert!(state.json().is_some_and(|json| !json.focused));
        state.click(Position::new(wide.right() - 4, wide.y + 3), wide);
        assert!(state.json().is_some_and(|json| json.focused));
    }
}
