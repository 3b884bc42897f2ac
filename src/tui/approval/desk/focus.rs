//! Where the keys go: from part to part, and back out of what was opened last. Sends nothing.

use super::{AnswerDesk, Draft, Part};

impl AnswerDesk {
    /// The other part.
    pub(super) fn focus_next(&mut self) {
        // Of one that is over, everything that was written can be reached and copied.
        let reason = self.ended().is_some() && !self.reason.text().is_empty();
        self.part = match (self.part, &self.draft) {
            (Part::Says, Draft::Text(_) | Draft::Raw(_) | Draft::Form(_)) => Part::Answer,
            (Part::Says | Part::Answer, _) if reason => Part::Reason,
            _ => Part::Says,
        };
    }

    /// The next field of a completion, or the one before.
    pub(super) fn step_field(&mut self, delta: isize) {
        const FIELDS: [Part; 3] = [Part::Answer, Part::Model, Part::Stop];
        if !matches!(self.draft, Draft::Text(_)) {
            return self.focus_next();
        }
        let at = FIELDS.iter().position(|part| *part == self.part).unwrap_or(0) as isize;
        self.part = FIELDS[(at + delta).rem_euclid(3).unsigned_abs()];
    }

    /// Closes the innermost thing; `false` when the screen itself is to be left.
    pub fn back(&mut self) -> bool {
        if let Some(form) = self.open_form_mut() {
            if form.popup_is_open() {
                return form.type_key(crossterm::event::KeyCode::Esc.into());
            }
            if form.leave_json() {
                return true;
            }
        }
        match self.part {
            Part::Reason if self.ended().is_some() && !self.reason.text().is_empty() => {
                return false;
            }
            Part::Reason | Part::Name | Part::Model | Part::Stop => self.part = Part::Answer,
            Part::Tool => {
                if let Draft::Text(composer) = &mut self.draft {
                    composer.tool = None;
                }
                self.part = Part::Answer;
            }
            Part::Request => {
                self.editing = None;
                self.part = Part::Answer;
            }
            Part::Says | Part::Answer => return false,
        }
        self.notice = None;
        if matches!(self.draft, Draft::Consent) {
            self.part = Part::Says;
        }
        true
    }
}
