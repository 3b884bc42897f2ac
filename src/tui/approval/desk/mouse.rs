//! The mouse pressed on a request being answered: the keys go there. It accepts only by a second
//! press on the line that does.

use crate::tui::action::Action;
use ratatui::layout::Position;

use super::{AnswerDesk, Part, Stage};
use crate::tui::approval::draw::Spot;
use crate::tui::effect::Effect;
use crate::tui::form::mouse::Clicked;

impl AnswerDesk {
    /// The mouse was pressed there.
    pub fn click(&mut self, spot: Spot, at: Position) -> Option<Effect> {
        match spot {
            Spot::Says if self.part == Part::Says => None,
            Spot::Says => self.apply(Action::Switch),
            _ if self.stage != Stage::Open => None,
            Spot::Part(part) => {
                self.part = part;
                None
            }
            Spot::Form(area) => {
                if self.part == Part::Says {
                    self.part = Part::Answer;
                }
                let again = self.on_submit();
                let clicked = self.open_form_mut().map(|form| form.click(at, area));
                match clicked {
                    Some(Clicked::Submit) if again => self.apply(Action::Send),
                    _ => None,
                }
            }
        }
    }
}
