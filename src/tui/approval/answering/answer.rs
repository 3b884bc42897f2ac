//! From the draft to the answer: checked, confirmed where it opens something, refused once nothing
//! may be sent any more.

use serde_json::{Value, json};

use super::{AnswerScreen, Draft, Part, Says, Stage};
use crate::base::text::SafeText;
use crate::deck::answers::{AskedKind, Reply, ScriptedAnswer};
use crate::error::Violation;
use crate::host::Verdict;
use crate::mcp::Answer;
use crate::tui::action::Action;
use crate::tui::approval::answering::draft::SamplingDraft;
use crate::tui::approval::elicitation::{Asks, ElicitAction, ElicitationReading};
use crate::tui::approval::sampling::{Media, media};
use crate::tui::effect::Effect;
use crate::tui::form::{CheckJob, Checked, FormState};
use crate::tui::pane::Out;
use crate::tui::pane::catalog::file_name;

/// JSON-RPC error code the specification shows for a person who says no to sampling.
const REJECTED: i64 = -1;

impl AnswerScreen {
    pub(super) fn send(&mut self) -> Option<Effect> {
        if self.waits_for_check(Awaits::Send) {
            return None;
        }
        match self.answer() {
            Ok(answer) => match self.url() {
                None if self.armed => {
                    self.armed = false;
                    Some(self.sends(answer))
                }
                None => match self.doubt() {
                    None => Some(self.sends(answer)),
                    Some(doubt) => {
                        self.armed = true;
                        let text = format!("{doubt}; {{send}} again to accept it anyway");
                        self.notice = Some(SafeText::line(&text));
                        None
                    }
                },
                Some(_) if self.opened_elsewhere => Some(self.sends(answer)),
                Some(url) if self.armed => {
                    self.armed = false;
                    Some(Effect::OpenUrl(self.id(), url))
                }
                Some(url) => {
                    self.armed = true;
                    let host = url.host_str().unwrap_or_default();
                    self.notice = Some(SafeText::line(&format!(
                        "{{send}} again to open {host} in the browser"
                    )));
                    None
                }
            },
            Err(reason) => {
                self.notice = Some(SafeText::line(&reason));
                None
            }
        }
    }

    /// What is probably wrong with a form that may still go out: a server can be tested with it.
    fn doubt(&mut self) -> Option<String> {
        let Draft::Form(form) = &mut self.draft else { return None };
        let problem = form.problems().first()?;
        let name = problem.pointer.trim_start_matches('/').to_owned();
        let text = problem.message.to_string();
        if problem.row.is_some() {
            form.apply(Action::NextProblem);
        }
        Some(if name.is_empty() { text } else { format!("{name}: {text}") })
    }

    fn url(&self) -> Option<url::Url> {
        match &self.says {
            Says::Elicitation(ElicitationReading { asks: Asks::Url(reading), .. }) => {
                reading.open.as_deref().and_then(|open| url::Url::parse(open).ok())
            }
            _ => None,
        }
    }

    /// The address as the server wrote it, to be copied.
    pub(super) fn address(&self) -> Option<String> {
        self.url().map(Into::into)
    }

    /// The answer as it would go out, or what is missing.
    pub(super) fn answer(&mut self) -> Result<Answer, String> {
        match (&mut self.draft, &self.says) {
            (Draft::Text(composer), _) => {
                let result = composer.draft().result();
                result.map(Answer::Result).map_err(|problems| problem_text(&problems))
            }
            (Draft::Raw(text), Says::Sampling(_)) => {
                let raw =
                    SamplingDraft { raw: Some(text.lines().join("\n")), ..Default::default() };
                raw.result().map(Answer::Result).map_err(|problems| problem_text(&problems))
            }
            (Draft::Raw(text), says) => {
                let value: Value = serde_json::from_str(&text.lines().join("\n"))
                    .map_err(|error| format!("not JSON: {error}"))?;
                if !value.is_object() {
                    return Err("not an object: it begins with { and ends with }".to_owned());
                }
                Ok(Answer::Result(match says {
                    Says::Elicitation(_) => ElicitAction::Accept.result(Some(value)),
                    _ => value,
                }))
            }
            (Draft::Form(form), _) if wrong(form) > 0 => {
                form.go_to_gravest();
                Err(match wrong(form) {
                    1 => "1 invalid field".to_owned(),
                    count => format!("{count} invalid fields"),
                })
            }
            (Draft::Form(form), _) => {
                Ok(Answer::Result(ElicitAction::Accept.result(Some(form.arguments()))))
            }
            (Draft::Consent, Says::Elicitation(reading)) => match &reading.asks {
                Asks::Url(url) if url.open.is_some() => {
                    Ok(Answer::Result(ElicitAction::Accept.result(None)))
                }
                Asks::Url(url) => Err(format!("not opened: {}", url.refusals.join("; "))),
                Asks::Form(_) => Err("nothing to send".to_owned()),
            },
            (Draft::Consent, _) => Ok(Answer::Result(json!({"action": "accept"}))),
        }
    }

    pub(super) fn deny(&mut self) -> Option<Effect> {
        if matches!(self.says, Says::Elicitation(_)) {
            return Some(self.sends(Answer::Result(ElicitAction::Decline.result(None))));
        }
        if self.part != Part::Reason {
            self.part = Part::Reason;
            self.notice = Some(SafeText::line("{send} sends the refusal"));
            return None;
        }
        let message = match self.reason.text().trim() {
            "" => "the user declined".to_owned(),
            reason => reason.to_owned(),
        };
        Some(self.sends(Answer::Refuse { code: REJECTED, message }))
    }

    /// Asks for the name under which the answer is to be kept.
    pub fn ask_for_name(&mut self) {
        self.armed = false;
        if self.waits_for_check(Awaits::Name) {
            return;
        }
        match self.answer() {
            Ok(_) if matches!(self.draft, Draft::Consent) => {
                self.notice = Some(SafeText::line("there is nothing to keep"));
            }
            Ok(_) => {
                self.part = Part::Name;
                self.notice = Some(SafeText::line("name it; {send} or enter keeps it"));
            }
            Err(reason) => self.notice = Some(SafeText::line(&reason)),
        }
    }

    pub(super) fn keep(&mut self) -> Option<Effect> {
        let name = self.name.text().trim().to_owned();
        if name.is_empty() {
            self.notice = Some(SafeText::line("it needs a name"));
            return None;
        }
        if self.waits_for_check(Awaits::Keep) {
            return None;
        }
        match self.answer() {
            Ok(answer) => {
                self.part = Part::Answer;
                self.notice = None;
                Some(self.keeps(name, answer))
            }
            Err(reason) => {
                self.notice = Some(SafeText::line(&reason));
                None
            }
        }
    }

    /// The answer as it is kept under a name.
    fn keeps(&self, name: String, answer: Answer) -> Effect {
        let reply = match answer {
            Answer::Result(result) => Reply::Result(result),
            Answer::Refuse { message, .. } => Reply::Refuse(message),
        };
        Effect::KeepAnswer(Box::new(ScriptedAnswer {
            name: Some(name),
            server: Some(self.request.server.as_str().to_owned()),
            kind: AskedKind::of(&self.request.kind),
            matches: None,
            times: None,
            reply,
        }))
    }

    /// Writes the pictures and sounds of the request to files.
    pub(super) fn save_media(&mut self, out: &mut Out) {
        let found = media(&self.request.params);
        if found.is_empty() {
            self.notice = Some(SafeText::line("it has no image and no audio"));
        }
        let server = file_name(&SafeText::line(self.request.server.as_str()));
        for (at, Media { suffix, content }) in found.into_iter().enumerate() {
            match content {
                Ok(content) => {
                    let name = format!("{server}-{}-{}.{suffix}", self.id().0, at + 1);
                    out.effect(Effect::Save { name: name.into(), content });
                }
                Err(reason) => {
                    let notice = format!("number {} was not written: {reason}", at + 1);
                    self.notice = Some(SafeText::line(&notice));
                }
            }
        }
    }

    /// A check that must run elsewhere; what it finds goes to [`AnswerScreen::checked`].
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

    /// Lets an action wait when the form is still being checked; gives whether it waits.
    pub(super) fn waits_for_check(&mut self, awaits: Awaits) -> bool {
        let checking = match awaits {
            Awaits::Tool => self.is_checking_tool(),
            _ => self.is_checking(),
        };
        self.when_checked = checking.then_some(awaits);
        let words = match &self.when_checked {
            None => return false,
            Some(Awaits::Send) => "checking the form; it is sent when the check passes",
            Some(Awaits::Tool) => "checking the form; the call is added when the check passes",
            Some(Awaits::Name | Awaits::Keep) => {
                "checking the form; it can be kept when the check passes"
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

/// Problems that keep a form from being accepted. A schema that cannot be used is not the person's
/// fault: nothing could ever be answered.
pub(super) fn wrong(form: &FormState) -> usize {
    let unknown = matches!(form.verdict(), Verdict::Unknown(_));
    form.blocking().saturating_sub(usize::from(unknown))
}

fn problem_text(problems: &[Violation]) -> String {
    let one = |problem: &Violation| match problem.pointer.as_str() {
        "" => problem.message.clone(),
        pointer => format!("{pointer}: {}", problem.message),
    };
    problems.iter().map(one).collect::<Vec<_>>().join("; ")
}

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
    use crate::tui::approval::answering::Part;

    /// A form of more sub-schemas than are compiled on the screen's thread.
    fn large() -> AnswerScreen {
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
        AnswerScreen::new(Arc::new(PendingRequest {
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
            input: None,
        }))
    }

    fn problems(answering: &AnswerScreen) -> usize {
        answering.open_form().map_or(0, FormState::blocking)
    }

    fn check(answering: &mut AnswerScreen) -> Option<Effect> {
        let mut outcome = None;
        while let Some(job) = answering.pending_check() {
            outcome = answering.checked(&job.run());
        }
        outcome
    }

    #[test]
    fn a_large_form_is_checked_while_it_is_typed() {
        let mut answering = large();
        assert_eq!(problems(&answering), 0, "nothing is known yet");
        check(&mut answering);
        assert_eq!(problems(&answering), 1, "the required field is missing");
        for c in "17".chars() {
            answering.type_in_form(KeyCode::Char(c).into(), false);
        }
        check(&mut answering);
        assert_eq!(problems(&answering), 1, "too young");
        answering.apply(Action::StepUp);
        check(&mut answering);
        assert_eq!(problems(&answering), 0);
    }

    #[test]
    fn an_answer_waits_for_its_check_and_is_sent_only_when_nothing_speaks_against_it() {
        let mut answering = large();
        assert_eq!(answering.apply(Action::Send), None, "not checked yet");
        assert!(answering.notice.as_ref().is_some_and(|notice| notice.contains("checking")));
        assert_eq!(check(&mut answering), None, "the required field is missing");
        assert!(answering.notice.as_ref().is_some_and(|notice| notice.contains("1 invalid field")));
        for c in "20".chars() {
            answering.type_in_form(KeyCode::Char(c).into(), false);
        }
        check(&mut answering);
        answering.type_in_form(KeyCode::Char('0').into(), false);
        let job = answering.pending_check();
        assert_eq!(job.is_some(), answering.is_checking());
        let outcome = answering.apply(Action::Send);
        let outcome = match job {
            Some(job) => answering.checked(&job.run()),
            None => outcome,
        };
        let Some(Effect::Answer(_, Answer::Result(result))) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(result["content"]["age"], 200);
    }

    #[test]
    fn an_answer_is_kept_only_when_it_was_checked_elsewhere() {
        let mut answering = large();
        answering.ask_for_name();
        assert_ne!(answering.part, Part::Name, "not checked yet");
        assert!(answering.notice.as_ref().is_some_and(|notice| notice.contains("can be kept")));
        check(&mut answering);
        assert!(answering.notice.as_ref().is_some_and(|notice| notice.contains("1 invalid field")));
        for c in "30".chars() {
            answering.type_in_form(KeyCode::Char(c).into(), false);
        }
        answering.ask_for_name();
        check(&mut answering);
        assert_eq!(answering.part, Part::Name, "nothing speaks against it");
        answering.type_key(KeyCode::Char('n').into());
        let Some(Effect::KeepAnswer(kept)) = answering.type_key(KeyCode::Enter.into()) else {
            panic!("kept");
        };
        let crate::deck::answers::Reply::Result(result) = &kept.reply else { panic!("a result") };
        assert_eq!((kept.name.as_deref(), &result["content"]["age"]), (Some("n"), &json!(30)));
    }

    #[test]
    fn typing_on_takes_the_wish_to_send_back() {
        let mut answering = large();
        answering.type_in_form(KeyCode::Char('3').into(), false);
        assert_eq!(answering.apply(Action::Send), None);
        answering.type_in_form(KeyCode::Char('3').into(), false);
        assert_eq!(check(&mut answering), None);
        assert!(matches!(answering.apply(Action::Send), Some(Effect::Answer(..))));
    }
}
