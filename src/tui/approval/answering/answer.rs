//! From the draft to the answer: checked, confirmed where it opens something, refused once nothing
//! may be sent any more.

use serde_json::json;

use super::{AnswerScreen, Draft, Part, Says, Stage};
use crate::deck::answers::{AskedKind, Reply, ScriptedAnswer};
use crate::host::Verdict;
use crate::mcp::Answer;
use crate::tui::approval::answering::draft::{parsed, parsed_result};
use crate::tui::approval::elicitation::{Asks, ElicitationReading, accepted};
use crate::tui::approval::sampling::{Media, media};
use crate::tui::effect::Effect;
use crate::tui::form::{CheckJob, Checked, FormState};
use crate::tui::pane::Out;
use crate::tui::pane::catalog::file_name;
use crate::tui::prelude::*;

/// JSON-RPC error code the specification shows for a person who says no to sampling.
const REJECTED: i64 = -1;

impl AnswerScreen {
    pub(super) fn send(&mut self) -> Option<Effect> {
        if self.waits_for_check(Awaits::Send) {
            return None;
        }
        let answer = match self.answer() {
            Ok(answer) => answer,
            Err(reason) => return self.say(&reason),
        };
        let doubt = match self.url() {
            Some(_) if self.opened_elsewhere => None,
            Some(url) if self.armed => {
                self.armed = false;
                return Some(Effect::OpenUrl(self.id(), url));
            }
            Some(url) => {
                let host = url.host_str().unwrap_or_default();
                Some(format!("{{send}} again to open {host} in the browser"))
            }
            None if self.armed => None,
            None => {
                self.doubt().map(|doubt| format!("{doubt}; {{send}} again to accept it anyway"))
            }
        };
        self.armed = doubt.is_some();
        match doubt {
            Some(doubt) => self.say(&doubt),
            None => Some(self.sends(answer)),
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
    pub(super) fn answer(&mut self) -> Result<Value, String> {
        match (&mut self.draft, &self.says) {
            (Draft::Text(composer), _) => composer.result(),
            (Draft::Raw(text), Says::Sampling(_)) => parsed_result(&text.lines().join("\n")),
            (Draft::Raw(text), says) => {
                let value = parsed(&text.lines().join("\n"))?;
                if !value.is_object() {
                    return Err("not an object: it begins with { and ends with }".to_owned());
                }
                Ok(if matches!(says, Says::Elicitation(_)) { accepted(value) } else { value })
            }
            (Draft::Form(form), _) if wrong(form) > 0 => {
                form.go_to_gravest();
                Err(count(wrong(form), "invalid field").to_string())
            }
            (Draft::Form(form), _) => Ok(accepted(form.arguments())),
            (Draft::Consent, Says::Elicitation(reading)) => match &reading.asks {
                Asks::Url(url) if url.open.is_none() => {
                    Err(format!("not opened: {}", url.refusals.join("; ")))
                }
                Asks::Url(_) => Ok(json!({"action": "accept"})),
                Asks::Form(_) => Err("nothing to send".to_owned()),
            },
            (Draft::Consent, _) => Ok(json!({"action": "accept"})),
        }
    }

    pub(super) fn deny(&mut self) -> Option<Effect> {
        if matches!(self.says, Says::Elicitation(_)) {
            return Some(self.sends(json!({"action": "decline"})));
        }
        if self.part != Part::Reason {
            self.part = Part::Reason;
            return self.say("{send} sends the refusal");
        }
        let message = match self.reason.text().trim() {
            "" => "the user declined".to_owned(),
            reason => reason.to_owned(),
        };
        Some(Effect::Answer(self.id(), Answer::Refuse { code: REJECTED, message }))
    }

    /// Asks for the name under which the answer is to be kept.
    pub fn ask_for_name(&mut self) {
        self.armed = false;
        if self.waits_for_check(Awaits::Name) {
            return;
        }
        match self.answer() {
            Ok(_) if matches!(self.draft, Draft::Consent) => self.say("there is nothing to keep"),
            Ok(_) => {
                self.part = Part::Name;
                self.say("name it; {send} or enter keeps it")
            }
            Err(reason) => self.say(&reason),
        };
    }

    pub(super) fn keep(&mut self) -> Option<Effect> {
        let name = self.name.text().trim().to_owned();
        if name.is_empty() {
            return self.say("it needs a name");
        }
        if self.waits_for_check(Awaits::Keep) {
            return None;
        }
        let answer = match self.answer() {
            Ok(answer) => answer,
            Err(reason) => return self.say(&reason),
        };
        self.part = Part::Answer;
        self.notice = None;
        Some(Effect::KeepAnswer(Box::new(ScriptedAnswer {
            name: Some(name),
            server: Some(self.request.server.as_str().to_owned()),
            kind: AskedKind::of(&self.request.kind),
            matches: None,
            times: None,
            reply: Reply::Result(answer),
        })))
    }

    /// Writes the pictures and sounds of the request to files.
    pub(super) fn save_media(&mut self, out: &mut Out) {
        let found = media(&self.request.params);
        if found.is_empty() {
            self.say("it has no image and no audio");
        }
        let server = file_name(&SafeText::line(self.request.server.as_str()));
        for (at, Media { suffix, content }) in found.into_iter().enumerate() {
            match content {
                Ok(content) => {
                    let name = format!("{server}-{}-{}.{suffix}", self.id().0, at + 1);
                    out.effect(Effect::Save { name: name.into(), content });
                }
                Err(reason) => {
                    self.say(&format!("number {} was not written: {reason}", at + 1));
                }
            }
        }
    }

    /// A check that must run elsewhere; what it finds goes to [`AnswerScreen::checked`].
    pub fn pending_check(&mut self) -> Option<CheckJob> {
        if self.stage != Stage::Open {
            return None;
        }
        self.draft.form_mut()?.pending_check()
    }

    /// Takes what a check found. What waited for it is done now, or its problems are shown.
    pub fn checked(&mut self, found: &Checked) -> Option<Effect> {
        if let Some(form) = self.draft.form_mut() {
            form.checked(found.clone());
        }
        if self.draft.form().is_some_and(FormState::is_checking) {
            return None;
        }
        match self.when_checked.take()? {
            Awaits::Send => return self.apply(Action::Send),
            Awaits::Keep => return self.keep(),
            Awaits::Tool => self.finish_tool(),
            Awaits::Name => self.ask_for_name(),
        }
        None
    }

    /// Lets an action wait when the form is still being checked; gives whether it waits.
    pub(super) fn waits_for_check(&mut self, awaits: Awaits) -> bool {
        let (of_tool, words) = match awaits {
            Awaits::Send => (false, "checking the form; it is sent when the check passes"),
            Awaits::Tool => (true, "checking the form; the call is added when the check passes"),
            Awaits::Name | Awaits::Keep => {
                (false, "checking the form; it can be kept when the check passes")
            }
        };
        let meant = self.draft.form().filter(|_| of_tool == matches!(self.draft, Draft::Text(_)));
        let checking = meant.is_some_and(FormState::is_checking);
        self.when_checked = checking.then_some(awaits);
        if checking {
            self.say(words);
        }
        checking
    }

    /// An answer that waits for its check is not sent after all.
    pub fn stop_waiting(&mut self) {
        if self.when_checked.take().is_some() {
            self.say("the form is still being checked; try again");
        }
    }
}

/// Problems that keep a form from being accepted. A schema that cannot be used is not the person's
/// fault: nothing could ever be answered.
pub(super) fn wrong(form: &FormState) -> usize {
    let unknown = matches!(form.verdict(), Verdict::Unknown(_));
    form.blocking().saturating_sub(usize::from(unknown))
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
        assert_eq!(job.is_some(), answering.draft.form().is_some_and(FormState::is_checking));
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
