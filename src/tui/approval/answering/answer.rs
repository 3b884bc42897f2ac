//! What is done to the draft, and from it to the answer: checked, confirmed where it opens something,
//! refused once nothing may be sent any more.

use serde_json::json;

use super::draft::{STOP_REASONS, kept, parsed, parsed_result, wrong};
use super::{AnswerScreen, Composer, Draft, Drafting, Offer, Part, Says, Stage, ToolForm, read};
use crate::base::text::json::pretty;
use crate::config::ApprovalRules;
use crate::deck::answers::{Answers, AskedKind, Reply, ScriptedAnswer};
use crate::mcp::Answer;
use crate::tui::approval::elicitation::{Asks, ElicitationReading, accepted};
use crate::tui::approval::sampling::{Media, media};
use crate::tui::effect::Effect;
use crate::tui::form::editor::area;
use crate::tui::form::seed::{Defaults, seed};
use crate::tui::form::{CheckJob, Checked, FormState};
use crate::tui::model::last_text;
use crate::tui::pane::Out;
use crate::tui::pane::catalog::file_name;
use crate::tui::prelude::*;
use crate::tui::widget::Doc;

/// Largest request that is edited on the screen, in bytes.
const EDITED: usize = 256 << 10;
/// JSON-RPC error code the specification shows for a person who says no to sampling.
const REJECTED: i64 = -1;

impl AnswerScreen {
    pub(super) fn send(&mut self) -> Option<Effect> {
        if self.waits_for_check(Action::Send) {
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
        if self.waits_for_check(Action::SaveForm) {
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
        if self.waits_for_check(Action::Send) {
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
    pub fn checked(&mut self, found: Checked) -> Option<Effect> {
        if let Some(form) = self.draft.form_mut() {
            form.checked(found);
        }
        if self.draft.form().is_some_and(FormState::is_checking) {
            return None;
        }
        match self.when_checked.take()? {
            Action::SaveForm => self.ask_for_name(),
            action => return self.apply(action),
        }
        None
    }

    /// Lets an action wait when the form is still being checked; gives whether it waits.
    fn waits_for_check(&mut self, action: Action) -> bool {
        let of_tool = self.part == Part::Tool;
        let form = self.draft.form().filter(|_| of_tool == matches!(self.draft, Draft::Text(_)));
        let checking = form.is_some_and(FormState::is_checking);
        self.when_checked = checking.then_some(action);
        if checking {
            let then = match self.part {
                Part::Tool => "the call is added",
                Part::Name => "it is kept",
                _ if action == Action::SaveForm => "it can be kept",
                _ => "it is sent",
            };
            self.say(&format!("checking the form; {then} when the check passes"));
        }
        checking
    }

    /// An answer that waits for its check is not sent after all.
    pub fn stop_waiting(&mut self) {
        if self.when_checked.take().is_some() {
            self.say("the form is still being checked; try again");
        }
    }

    // The draft: its tool calls, its JSON, what it is filled from.

    /// Whether the person wrote something that would be lost.
    pub fn is_written(&self) -> bool {
        match &self.draft {
            Draft::Form(form) => form.is_touched(),
            _ => self.has_draft(),
        }
    }

    /// Whether there is anything to keep for copying.
    pub fn has_draft(&self) -> bool {
        let written = match &self.draft {
            Draft::Text(composer) => {
                let Composer { text, tool_uses, tool, .. } = &**composer;
                let is_blank = text.lines().iter().all(|line| line.trim().is_empty());
                !is_blank || !tool_uses.is_empty() || tool.is_some()
            }
            Draft::Raw(text) => text.lines().concat().chars().any(char::is_alphanumeric),
            Draft::Form(form) => form.value().is_some() || form.has_drafts(),
            Draft::Consent => false,
        };
        written || !self.reason.text().is_empty()
    }

    /// Tools that the request offers to the model.
    pub fn tools(&self) -> &[Value] {
        self.params.get("tools").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Begins a call of one of these.
    pub fn begin_tool(&mut self, index: usize) {
        let Some(tool) = self.tools().get(index) else { return };
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let schema = tool.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object"}));
        let Draft::Text(composer) = &mut self.draft else { return };
        let form = FormState::new(&Arc::new(schema), Defaults::All);
        composer.tool = Some(ToolForm { name, form });
        self.part = Part::Tool;
        self.notice = None;
    }

    /// Takes the tool call that was filled in into the answer.
    pub(super) fn finish_tool(&mut self) {
        if self.waits_for_check(Action::Send) {
            return;
        }
        let Draft::Text(composer) = &mut self.draft else { return };
        let Some(tool) = &mut composer.tool else { return };
        let count = wrong(&tool.form);
        if count > 0 {
            tool.form.go_to_gravest();
            self.say(&format!("{count} invalid fields"));
            return;
        }
        composer.tool_uses.push((tool.name.clone(), tool.form.arguments()));
        composer.tool = None;
        composer.stop.set("toolUse");
        self.part = Part::Answer;
    }

    pub(super) fn remove_tool(&mut self) {
        let Draft::Text(composer) = &mut self.draft else { return };
        let removed = composer.tool_uses.pop();
        if composer.tool_uses.is_empty() && composer.stop.text() == "toolUse" {
            composer.stop.set(STOP_REASONS[0]);
        }
        match removed {
            Some((name, _)) => self.say(&format!("the call of {name} was removed")),
            None => self.say("there is no tool call in the answer"),
        };
    }

    pub(super) fn next_stop_reason(&mut self) {
        let Draft::Text(composer) = &mut self.draft else { return };
        let at = STOP_REASONS.iter().position(|reason| *reason == composer.stop.text().trim());
        composer.stop.set(STOP_REASONS[at.map_or(0, |at| (at + 1) % STOP_REASONS.len())]);
    }

    pub(super) fn toggle_raw(&mut self) {
        self.draft = match std::mem::replace(&mut self.draft, Draft::Consent) {
            Draft::Text(composer) => {
                self.kept = composer.compose();
                Draft::Raw(Box::new(area(&pretty(&self.kept))))
            }
            Draft::Raw(_) if matches!(self.says, Says::Sampling(_)) => {
                Draft::Text(Box::new(Composer::of(&self.kept).unwrap_or_default()))
            }
            Draft::Form(mut form) => {
                form.apply(Action::Json);
                Draft::Form(form)
            }
            other => other,
        };
        if !matches!(self.draft, Draft::Consent) {
            self.part = Part::Answer;
        }
    }

    /// Begins to edit the request, or takes the edits: what is read here, and what a model that
    /// drafts is given. The server's request itself stays as it is.
    pub(super) fn edit_request(&mut self) {
        let Some(editing) = &self.editing else {
            if !matches!(self.says, Says::Sampling(_)) {
                self.say("only a request for a completion can be edited");
            } else if self.request.bytes > EDITED {
                self.say("the request is too large to be edited here");
            } else {
                self.editing = Some(Box::new(area(&pretty(&*self.params))));
                self.part = Part::Request;
            }
            return;
        };
        match parsed(&editing.lines().join("\n")) {
            Err(reason) => _ = self.say(&reason),
            Ok(params) => {
                let same = params == *self.request.params;
                let theirs = Arc::clone(&self.request.params);
                self.params = if same { theirs } else { Arc::new(params) };
                self.says = read(&self.request.kind, &self.params).0;
                (self.doc, self.top) = (Doc::default(), 0);
                self.editing = None;
                self.part = Part::Answer;
            }
        }
    }

    /// Puts a result into the draft, for the person to read and change: a kept answer, or what a
    /// model drafted.
    pub fn take_result(&mut self, result: &Value) {
        match (&mut self.draft, &self.says) {
            (Draft::Text(_) | Draft::Raw(_), Says::Sampling(_)) => {
                self.draft = match Composer::of(result) {
                    Some(mut composer) => {
                        // It may say what a server said: nothing goes out unseen.
                        composer.text = area(&SafeText::block(&composer.text.lines().join("\n")));
                        Draft::Text(Box::new(composer))
                    }
                    None => Draft::Raw(Box::new(area(&pretty(result)))),
                };
            }
            (Draft::Form(form), _) => form.set_value(Some(content(result).clone())),
            (Draft::Raw(text), _) => **text = area(&pretty(content(result))),
            (Draft::Text(_) | Draft::Consent, _) => return,
        }
        self.part = Part::Answer;
        self.notice = None;
    }

    /// The registered model has drafted, or could not.
    pub fn drafted(&mut self, drafted: Result<(SafeText, Value), SafeText>) {
        if self.drafting != Drafting::Asked {
            return;
        }
        match drafted {
            Ok((by, result)) => {
                self.take_result(&result);
                self.drafting = Drafting::By(by);
            }
            Err(reason) => {
                self.drafting = Drafting::No;
                self.notice = Some(reason);
            }
        }
    }

    /// Everything that can be taken into the draft.
    pub fn offers(&self, answers: &Answers, entry: Option<&ApprovalRules>) -> Vec<Offer> {
        let server = self.request.server.as_str();
        let mut offers = kept(server, &self.request.kind, answers, entry);
        let built_in =
            |name: &str, result| Offer { name: name.to_owned(), origin: "built in", result };
        let completion = |text: &str, stop: &str| {
            json!({"role": "assistant", "model": "manual", "stopReason": stop,
                "content": {"type": "text", "text": text}})
        };
        match (&self.says, &self.draft) {
            (Says::Sampling(_), _) => {
                if let Some(text) = last_text(&self.params) {
                    let result = completion(text, "endTurn");
                    offers.push(built_in("the last message, repeated", result));
                }
                offers.push(built_in("OK", completion("OK", "endTurn")));
                let cut = completion("I was about to say", "maxTokens");
                offers.push(built_in("an answer cut off by the token limit", cut));
            }
            (Says::Elicitation(_), Draft::Form(form)) => {
                let conj = [form.document.root.clone()];
                if let Some(content) = seed(&form.document, &conj, Defaults::All) {
                    let result = json!({"action": "accept", "content": content});
                    offers.push(built_in("the defaults of the form", result));
                }
            }
            _ => {}
        }
        offers
    }
}

/// The content of an accepted form, or a draft of it without that frame.
fn content(result: &Value) -> &Value {
    let framed = result.get("action").is_some_and(Value::is_string);
    result.get("content").filter(|_| framed).unwrap_or(result)
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
            outcome = answering.checked(job.run());
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
            Some(job) => answering.checked(job.run()),
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
    fn typing_on_takes_back_the_decision_to_send() {
        let mut answering = large();
        answering.type_in_form(KeyCode::Char('3').into(), false);
        assert_eq!(answering.apply(Action::Send), None);
        answering.type_in_form(KeyCode::Char('3').into(), false);
        assert_eq!(check(&mut answering), None);
        assert!(matches!(answering.apply(Action::Send), Some(Effect::Answer(..))));
    }
}
