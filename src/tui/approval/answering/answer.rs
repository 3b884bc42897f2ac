//! Editing the draft and turning it into the answer: checks, confirmation before a page is opened,
//! the forms over the answer, and keeping answers.

use serde_json::json;

use super::offer::{Offer, stored_offers};
use super::{
    AnswerScreen, AnsweringStage, Drafting, Over, REACH, Says, TEXT, edited_as_json, read,
};
use crate::approval::sampling::{Media, media};
use crate::effect::{Effect, Existing};
use crate::form::{CheckJob, CheckResult, FormState, JsonView};
use crate::model::last_text;
use crate::pane::Out;
use crate::pane::catalog::file_name;
use crate::prelude::*;
use crate::widget::Doc;
use config::ApprovalRules;
use deck::{AnswerReply, Answers, AskedKind, ScriptedAnswer};
use deck::{Asks, ElicitationReading, accepted_form};
use protocol::{Answer, RequestKind, RpcCode};
use schema::{Defaults, SchemaVerdict, seed};

/// Largest request that can be edited on the screen, in bytes.
const MAX_EDITED_BYTES: usize = 256 << 10;

impl AnswerScreen {
    pub(super) fn send(&mut self, out: &mut Out) {
        if self.waits_for_check(Action::Send) {
            return;
        }
        let answer = match self.answer() {
            Ok(answer) => answer,
            Err(reason) => return self.say(&reason),
        };
        let doubt = match self.url() {
            Some(_) if self.opened_elsewhere => None,
            Some(url) if self.armed => {
                self.armed = false;
                return out.effect(Effect::OpenUrl(self.id(), url));
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
            None => self.reply(Answer::Result(answer), out),
        }
    }

    /// The first problem of a form that may still be sent, for example to test the server.
    fn doubt(&mut self) -> Option<String> {
        let form = self.answer.as_mut()?;
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

    /// The address that would be opened, for copying.
    pub(super) fn address(&self) -> Option<String> {
        self.url().map(Into::into)
    }

    /// The answer as it would be sent, or why it cannot be.
    fn answer(&mut self) -> Result<Value, String> {
        let refused = match &self.says {
            Says::Elicitation(ElicitationReading { asks: Asks::Url(url), .. }) => &*url.refusals,
            _ => &[],
        };
        match &mut self.answer {
            None if refused.is_empty() => Ok(json!({"action": "accept"})),
            None => Err(format!("not opened: {}", refused.join("; "))),
            Some(form) => {
                is_valid(form)?;
                let value = form.arguments();
                Ok(match &self.says {
                    Says::Elicitation(_) => accepted_form(value),
                    Says::Other if self.request.kind == RequestKind::Permission => {
                        json!({"action": "accept", REACH: value[REACH]})
                    }
                    _ => value,
                })
            }
        }
    }

    pub(super) fn deny(&mut self, out: &mut Out) {
        match self.over {
            _ if matches!(self.says, Says::Elicitation(_)) => {
                self.reply(Answer::Result(json!({"action": "decline"})), out);
            }
            Some((Over::Reason, _)) => self.finish(out),
            _ => {
                let form = one_line("reason", "reason (optional)");
                self.fill_in(Over::Reason, form, Some("{send} sends the refusal"));
            }
        }
    }

    /// Opens a form over the answer, unless one is open that is partly filled in.
    fn fill_in(&mut self, over: Over, form: FormState, notice: Option<&str>) {
        if self.over.as_ref().is_some_and(|(_, form)| form.is_touched()) {
            return self.say("{send} takes what is filled in here, {back} drops it");
        }
        self.over = Some((over, Box::new(form)));
        self.reads = false;
        self.notice = notice.map(SafeText::line);
    }

    /// Accepts the form over the answer.
    pub(super) fn finish(&mut self, out: &mut Out) {
        if self.waits_for_check(Action::Send) {
            return;
        }
        let Some((over, form)) = self.over.as_mut() else { return };
        if let Err(problems) = is_valid(form) {
            return self.say(&problems);
        }
        let value = form.arguments();
        let text = |key: &str| value[key].as_str().unwrap_or_default().trim().to_owned();
        match over.clone() {
            Over::Reason => {
                let reason = Some(text("reason")).filter(|reason| !reason.is_empty());
                let message = reason.unwrap_or_else(|| "the user declined".to_owned());
                let refusal = Answer::Refuse { code: RpcCode::USER_REJECTED, message };
                return self.reply(refusal, out);
            }
            Over::Name => return self.keep(text("name"), out),
            Over::Tool(name) => self.add_tool_call(&name, value),
            Over::Request => self.take_request(value),
        }
        self.over = None;
    }

    /// Asks for the name to keep the answer under.
    pub fn ask_for_name(&mut self) {
        self.armed = false;
        if self.waits_for_check(Action::SaveForm) {
            return;
        }
        match self.answer() {
            Ok(_) if self.answer.is_none() => self.say("there is nothing to keep"),
            Ok(_) => {
                let form = one_line("name", "keep this answer as");
                self.fill_in(Over::Name, form, Some("name it; {send} keeps it"));
            }
            Err(reason) => self.say(&reason),
        }
    }

    fn keep(&mut self, name: String, out: &mut Out) {
        if name.is_empty() {
            return self.say("it needs a name");
        }
        let answer = match self.answer() {
            Ok(answer) => answer,
            Err(reason) => return self.say(&reason),
        };
        (self.over, self.notice) = (None, None);
        let answer = Box::new(ScriptedAnswer {
            name: Some(name),
            server: Some(self.request.server.as_str().to_owned()),
            kind: AskedKind::from_request_kind(&self.request.kind),
            matches: None,
            times: None,
            reply: AnswerReply::Result(answer),
        });
        out.effect(Effect::KeepAnswer(answer, Existing::Keep));
    }

    /// Saves the images and audio of the request to files.
    pub(super) fn save_media(&mut self, out: &mut Out) {
        let found = media(&self.request.params);
        if found.is_empty() {
            self.say("it has no image or audio");
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

    /// A check to run on another thread; its result goes to [`AnswerScreen::checked`].
    pub fn pending_check(&mut self) -> Option<CheckJob> {
        if self.stage != AnsweringStage::Open {
            return None;
        }
        self.form_mut()?.pending_check()
    }

    /// Takes the result of a check. The action that waited for it is performed, or the problems are
    /// shown, if the screen is still open.
    pub fn checked(&mut self, found: CheckResult, is_open: bool, out: &mut Out) {
        let over = self.over.as_mut().map(|(_, form)| form);
        for form in [over, self.answer.as_mut()].into_iter().flatten() {
            form.checked(found.clone());
        }
        if self.form().is_some_and(FormState::is_checking) {
            return;
        }
        match self.when_checked.take().filter(|_| is_open) {
            None => {}
            Some(Action::SaveForm) => self.ask_for_name(),
            Some(action) => self.apply(action, out),
        }
    }

    /// Defers an action while the form is being checked; returns whether it was deferred.
    fn waits_for_check(&mut self, action: Action) -> bool {
        let checking = self.form().is_some_and(FormState::is_checking);
        self.when_checked = checking.then_some(action);
        if checking {
            let then = match self.over {
                Some((Over::Tool(_), _)) => "the call is added",
                None if action == Action::SaveForm => "it can be kept",
                None => "it is sent",
                Some(_) => "it is taken",
            };
            self.say(&format!("checking the form; {then} when the check passes"));
        }
        checking
    }

    /// Cancels an action that is deferred until its check is done.
    pub fn stop_waiting(&mut self) {
        if self.when_checked.take().is_some() {
            self.say("the form is still being checked; try again");
        }
    }

    // The draft: its tool calls and its sources.

    /// Whether the user wrote something that would be lost.
    pub fn has_draft(&self) -> bool {
        let over = self.over.as_ref().map(|(_, form)| form);
        over.into_iter().chain(&self.answer).any(|form| form.is_touched())
    }

    /// The tools that the request offers to the model.
    pub fn tools(&self) -> &[Value] {
        self.params.get("tools").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Opens the form for a call to one of the tools.
    pub fn begin_tool(&mut self, index: usize) {
        let Some(tool) = self.tools().get(index) else { return };
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        let schema = tool.get("inputSchema").cloned().unwrap_or_else(|| json!({"type": "object"}));
        self.fill_in(Over::Tool(name), FormState::new(&Arc::new(schema), Defaults::All), None);
    }

    /// Adds a tool call to the blocks of the completion.
    fn add_tool_call(&mut self, name: &str, input: Value) {
        let Some(form) = &mut self.answer else { return };
        let Value::Object(mut result) = form.arguments() else { return };
        let mut blocks = match result.remove("content") {
            Some(Value::Array(blocks)) => blocks,
            Some(text) if text["text"].as_str().is_some_and(|text| !text.is_empty()) => vec![text],
            _ => Vec::new(),
        };
        let at = format!("/content/{}", blocks.len());
        let number = 1 + blocks.iter().filter(|block| block["type"] == "tool_use").count();
        let id = format!("call_{number}");
        blocks.push(json!({"type": "tool_use", "id": id, "name": name, "input": input}));
        result.insert("content".to_owned(), blocks.into());
        result.insert("stopReason".to_owned(), "toolUse".into());
        form.set_value(Some(result.into()));
        form.select_place(&at);
    }

    /// Starts editing the request, or accepts the edits. They affect the display and the input of a
    /// drafting model; the server's request itself is unchanged.
    pub(super) fn edit_request(&mut self, out: &mut Out) {
        if matches!(self.over, Some((Over::Request, _))) {
            return self.finish(out);
        }
        if !matches!(self.says, Says::Sampling(_)) {
            return self.say("only a request for a completion can be edited");
        }
        if self.request.bytes > MAX_EDITED_BYTES {
            return self.say("the request is too large to be edited here");
        }
        self.fill_in(Over::Request, edited_as_json((*self.params).clone()), None);
    }

    fn take_request(&mut self, params: Value) {
        let same = params == *self.request.params;
        let theirs = Arc::clone(&self.request.params);
        self.params = if same { theirs } else { Arc::new(params) };
        self.says = read(&self.request.kind, &self.params);
        (self.doc, self.top) = (Doc::default(), 0);
    }

    /// Fills the draft with a result for the user to review: a kept answer, or a model's draft.
    pub fn take_result(&mut self, result: &Value) {
        let is_completion = matches!(self.says, Says::Sampling(_));
        let Some(form) = &mut self.answer else { return };
        let mut value = if is_completion { result } else { content(result) }.clone();
        // It may quote the server, so hidden characters must not be sent unseen.
        if let Some(Value::String(text)) = value.pointer_mut(TEXT).filter(|_| is_completion) {
            *text = SafeText::block(text).to_string();
        }
        form.set_value(Some(value));
        if form.json() == JsonView::Focused {
            form.enter_json();
        } else {
            form.select_place(if is_completion { TEXT } else { "" });
        }
        self.over.take_if(|(_, form)| !form.is_touched());
        (self.reads, self.notice) = (false, None);
    }

    /// Takes the draft of the registered model, or its failure.
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

    /// All answers the draft can start from.
    pub fn offers(&self, answers: &Answers, entry: Option<&ApprovalRules>) -> Vec<Offer> {
        let server = self.request.server.as_str();
        let mut offers = stored_offers(server, &self.request.kind, answers, entry);
        let built_in =
            |name: &str, result| Offer { name: name.to_owned(), origin: "built in", result };
        let completion = |text: &str, stop: &str| {
            json!({"role": "assistant", "model": "manual", "stopReason": stop,
                "content": {"type": "text", "text": text}})
        };
        match (&self.says, &self.answer) {
            (Says::Sampling(_), _) => {
                if let Some(text) = last_text(&self.params) {
                    let result = completion(text, "endTurn");
                    offers.push(built_in("the last message, repeated", result));
                }
                offers.push(built_in("OK", completion("OK", "endTurn")));
                let cut = completion("I was about to say", "maxTokens");
                offers.push(built_in("an answer cut off by the token limit", cut));
            }
            (Says::Elicitation(_), Some(form)) => {
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

/// A form with one field, of this name and title.
fn one_line(name: &str, title: &str) -> FormState {
    let schema = json!({"properties": {name: {"type": "string", "title": title}},
        "additionalProperties": false});
    FormState::new(&Arc::new(schema), Defaults::Required)
}

/// Checks that a form may be sent; on errors, moves the cursor to the gravest, where it is shown, so
/// that there is nothing to add. An unusable schema is no error, or the request could never be answered.
fn is_valid(form: &mut FormState) -> Result<(), String> {
    let unknown = matches!(form.verdict(), SchemaVerdict::Unknown(_));
    if form.blocking().saturating_sub(usize::from(unknown)) == 0 {
        return Ok(());
    }
    form.go_to_gravest();
    Err(String::new())
}

/// The content of an accepted form; a result without the `action` envelope is used as it is.
fn content(result: &Value) -> &Value {
    let framed = result.get("action").is_some_and(Value::is_string);
    result.get("content").filter(|_| framed).unwrap_or(result)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crossterm::event::KeyCode;
    use serde_json::{Map, Value, json};

    use super::super::tests::{effect, press};
    use super::*;
    use crate::effect::Order;
    use base::ServerName;
    use base::Timestamp;
    use host::ApprovalRequest;
    use protocol::{Answer, ApprovalId, RequestKind};

    /// A form with more sub-schemas than are compiled on the UI thread.
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
        AnswerScreen::new(Arc::new(ApprovalRequest {
            id: ApprovalId(1),
            server: ServerName::new("s"),
            kind: RequestKind::Elicitation,
            call: None,
            candidates: vec![],
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
            outcome = effect(|out| answering.checked(job.run(), true, out));
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
            answering.type_key(KeyCode::Char(c).into(), false);
        }
        check(&mut answering);
        assert_eq!(problems(&answering), 1, "too young");
        press(&mut answering, Action::StepUp);
        check(&mut answering);
        assert_eq!(problems(&answering), 0);
    }

    #[test]
    fn an_answer_waits_for_its_check_and_is_sent_only_when_nothing_speaks_against_it() {
        let mut answering = large();
        assert_eq!(press(&mut answering, Action::Send), None, "not checked yet");
        assert!(answering.notice.as_ref().is_some_and(|notice| notice.contains("checking")));
        assert_eq!(check(&mut answering), None, "the required field is missing");
        assert_eq!((answering.notice.clone(), problems(&answering)), (None, 1));
        for c in "20".chars() {
            answering.type_key(KeyCode::Char(c).into(), false);
        }
        check(&mut answering);
        answering.type_key(KeyCode::Char('0').into(), false);
        let job = answering.pending_check();
        assert_eq!(job.is_some(), answering.form().is_some_and(FormState::is_checking));
        let outcome = press(&mut answering, Action::Send);
        let outcome = match job {
            Some(job) => effect(|out| answering.checked(job.run(), true, out)),
            None => outcome,
        };
        let Some(Effect::Order(Order::Answer(_, Answer::Result(result)))) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(result["content"]["age"], 200);
    }

    #[test]
    fn an_answer_is_kept_only_when_it_was_checked_elsewhere() {
        let mut answering = large();
        answering.ask_for_name();
        assert!(answering.over.is_none(), "not checked yet");
        assert!(answering.notice.as_ref().is_some_and(|notice| notice.contains("can be kept")));
        check(&mut answering);
        assert_eq!((answering.notice.clone(), problems(&answering)), (None, 1));
        for c in "30".chars() {
            answering.type_key(KeyCode::Char(c).into(), false);
        }
        answering.ask_for_name();
        check(&mut answering);
        assert!(matches!(answering.over, Some((Over::Name, _))), "nothing speaks against it");
        answering.type_key(KeyCode::Char('n').into(), false);
        let Some(Effect::KeepAnswer(kept, _)) = press(&mut answering, Action::Send) else {
            panic!("kept");
        };
        let deck::AnswerReply::Result(result) = &kept.reply else { panic!("a result") };
        assert_eq!((kept.name.as_deref(), &result["content"]["age"]), (Some("n"), &json!(30)));
    }

    #[test]
    fn typing_on_takes_back_the_decision_to_send() {
        let mut answering = large();
        answering.type_key(KeyCode::Char('3').into(), false);
        assert_eq!(press(&mut answering, Action::Send), None);
        answering.type_key(KeyCode::Char('3').into(), false);
        assert_eq!(check(&mut answering), None);
        assert!(matches!(
            press(&mut answering, Action::Send),
            Some(Effect::Order(Order::Answer(..)))
        ));
    }
}
