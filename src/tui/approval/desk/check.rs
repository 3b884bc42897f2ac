//! Live validation of the forms of an answer: what is too long for the screen's own thread is checked
//! elsewhere, as it is for calls. Does no I/O.

use super::{AnswerDesk, Draft, Stage};
use crate::base::text::SafeText;
use crate::tui::action::Action;
use crate::tui::effect::Effect;
use crate::tui::form::{CheckJob, Checked, FormState};

/// What waits until the form is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Awaits {
    /// The answer is to be sent.
    Send,
    /// A name is to be asked for, under which it is kept.
    Name,
    /// It is to be kept under the name that was typed.
    Keep,
    /// The call of a tool is to be taken into the answer.
    Tool,
}

impl AnswerDesk {
    /// A check that must run elsewhere; what it finds goes to [`AnswerDesk::checked`].
    pub fn pending_check(&mut self) -> Option<CheckJob> {
        if self.stage != Stage::Open {
            return None;
        }
        self.forms().find_map(FormState::pending_check)
    }

    /// Takes what a check found. What waited for it is done now, or its problems are shown.
    pub fn checked(&mut self, found: &Checked) -> Option<Effect> {
        for form in self.forms() {
            form.checked(found.clone());
        }
        if self.is_checking() || self.is_checking_tool() {
            return None;
        }
        match self.when_checked.take() {
            None => None,
            Some(Awaits::Tool) => {
                self.finish_tool();
                None
            }
            Some(Awaits::Send) => self.apply(Action::Send),
            Some(Awaits::Name) => {
                self.ask_for_name();
                None
            }
            Some(Awaits::Keep) => self.keep(),
        }
    }

    /// Lets a wish wait when the form is still being checked; gives whether it waits.
    pub(super) fn waits_for_check(&mut self, wish: Awaits) -> bool {
        let checking = match wish {
            Awaits::Tool => self.is_checking_tool(),
            _ => self.is_checking(),
        };
        self.when_checked = checking.then_some(wish);
        let words = match &self.when_checked {
            None => return false,
            Some(Awaits::Send) => {
                "checking the form; it is sent as soon as nothing speaks against it"
            }
            Some(Awaits::Tool) => {
                "checking the form; the call is taken as soon as nothing speaks against it"
            }
            Some(Awaits::Name | Awaits::Keep) => {
                "checking the form; it can be kept as soon as nothing speaks against it"
            }
        };
        self.notice = Some(SafeText::line(words));
        true
    }

    /// An answer that waits for its check is not sent after all.
    pub fn stop_waiting(&mut self) {
        if self.when_checked.take().is_some() {
            self.notice = Some(SafeText::line("the form is still being checked; try again"));
        }
    }

    fn is_checking(&self) -> bool {
        matches!(&self.draft, Draft::Form(form) if form.is_checking())
    }

    fn is_checking_tool(&self) -> bool {
        let Draft::Text(composer) = &self.draft else { return false };
        composer.tool.as_ref().is_some_and(|tool| tool.form.is_checking())
    }

    /// The form of the answer, and that of a tool call in it.
    fn forms(&mut self) -> impl Iterator<Item = &mut FormState> {
        let (form, tool) = match &mut self.draft {
            Draft::Form(form) => (Some(&mut **form), None),
            Draft::Text(composer) => (None, composer.tool.as_mut().map(|tool| &mut tool.form)),
            _ => (None, None),
        };
        form.into_iter().chain(tool)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crossterm::event::KeyCode;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::base::ServerName;
    use crate::base::Timestamp;
    use crate::host::approvals::PendingRequest;
    use crate::mcp::RequestKind;
    use crate::mcp::{Answer, ApprovalId};
    use crate::tui::approval::desk::Part;

    /// A form of more sub-schemas than are compiled on the screen's thread.
    fn large() -> AnswerDesk {
        let mut fields: Map<String, Value> = (0..60)
            .map(|i| {
                let options: Vec<Value> = (0..3)
                    .map(|n| json!({"const": n.to_string(), "title": format!("option {n}")}))
                    .collect();
                (format!("f{i}"), json!({"type": "string", "oneOf": options}))
            })
            .collect();
        fields.shift_insert(0, "age".to_owned(), json!({"type": "integer", "minimum": 18}));
        let schema = json!({"type": "object", "properties": fields, "required": ["age"]});
        let params = json!({"message": "who are you", "requestedSchema": schema});
        AnswerDesk::new(Arc::new(PendingRequest {
            id: ApprovalId(1),
            server: ServerName::new("s"),
            kind: RequestKind::Elicitation,
            call: None,
            during: None,
            bytes: 0,
            params: Arc::new(params),
            arrived: Timestamp(0),
            deadline: Timestamp(60_000_000),
            deferred: false,
        }))
    }

    fn problems(desk: &AnswerDesk) -> usize {
        desk.open_form().map_or(0, FormState::blocking)
    }

    fn check(desk: &mut AnswerDesk) -> Option<Effect> {
        let mut outcome = None;
        while let Some(job) = desk.pending_check() {
            outcome = desk.checked(&job.run());
        }
        outcome
    }

    #[test]
    fn a_large_form_is_checked_while_it_is_typed() {
        let mut desk = large();
        assert_eq!(problems(&desk), 0, "nothing is known yet");
        check(&mut desk);
        assert_eq!(problems(&desk), 1, "the required field is missing");
        for c in "17".chars() {
            desk.type_in_form(KeyCode::Char(c).into(), false);
        }
        check(&mut desk);
        assert_eq!(problems(&desk), 1, "too young");
        desk.apply(Action::StepUp);
        check(&mut desk);
        assert_eq!(problems(&desk), 0);
    }

    #[test]
    fn an_answer_waits_for_its_check_and_is_sent_only_when_nothing_speaks_against_it() {
        let mut desk = large();
        assert_eq!(desk.apply(Action::Send), None, "not checked yet");
        assert!(desk.notice.as_ref().is_some_and(|notice| notice.contains("checking")));
        assert_eq!(check(&mut desk), None, "the required field is missing");
        assert!(desk.notice.as_ref().is_some_and(|notice| notice.contains("1 invalid field")));
        for c in "20".chars() {
            desk.type_in_form(KeyCode::Char(c).into(), false);
        }
        check(&mut desk);
        desk.type_in_form(KeyCode::Char('0').into(), false);
        let job = desk.pending_check();
        assert_eq!(job.is_some(), desk.is_checking());
        let outcome = desk.apply(Action::Send);
        let outcome = match job {
            Some(job) => desk.checked(&job.run()),
            None => outcome,
        };
        let Some(Effect::Answer(_, Answer::Result(result))) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(result["content"]["age"], 200);
    }

    #[test]
    fn an_answer_is_kept_only_when_it_was_checked_elsewhere() {
        let mut desk = large();
        desk.ask_for_name();
        assert_ne!(desk.part, Part::Name, "not checked yet");
        assert!(desk.notice.as_ref().is_some_and(|notice| notice.contains("can be kept")));
        check(&mut desk);
        assert!(desk.notice.as_ref().is_some_and(|notice| notice.contains("1 invalid field")));
        for c in "30".chars() {
            desk.type_in_form(KeyCode::Char(c).into(), false);
        }
        desk.ask_for_name();
        check(&mut desk);
        assert_eq!(desk.part, Part::Name, "nothing speaks against it");
        desk.type_key(KeyCode::Char('n').into());
        let Some(Effect::KeepAnswer(kept)) = desk.type_key(KeyCode::Enter.into()) else {
            panic!("kept");
        };
        let crate::deck::answers::Reply::Result(result) = &kept.reply else { panic!("a result") };
        assert_eq!((kept.name.as_deref(), &result["content"]["age"]), (Some("n"), &json!(30)));
    }

    #[test]
    fn typing_on_takes_the_wish_to_send_back() {
        let mut desk = large();
        desk.type_in_form(KeyCode::Char('3').into(), false);
        assert_eq!(desk.apply(Action::Send), None);
        desk.type_in_form(KeyCode::Char('3').into(), false);
        assert_eq!(check(&mut desk), None);
        assert!(matches!(desk.apply(Action::Send), Some(Effect::Answer(..))));
    }
}
