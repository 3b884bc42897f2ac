//! One request of a server being answered: what it says, the draft of the answer, and what the keys
//! do to it. No drawing, no I/O. Nothing is sent but by [`AnswerCommand::Send`] and
//! [`AnswerCommand::Deny`], and nothing at all once the request is withdrawn.

use std::sync::Arc;

use crossterm::event::KeyEvent;
use ratatui_textarea::{Input, TextArea};
use serde_json::{Value, json};

use crate::host::approvals::{PendingRequest, RequestKind};
use crate::host::{Answer, ApprovalId};
use crate::text::SafeText;
use crate::tui::approval::elicitation::{self, Asks, ElicitAction, ElicitationReading};
use crate::tui::approval::sampling::{self, SamplingDraft, SamplingReading};
use crate::tui::form::seed::Defaults;
use crate::tui::form::{FormCommand, FormState};
use crate::tui::widget::Doc;

/// JSON-RPC error code the specification shows for a person who says no to sampling.
const REJECTED: i64 = -1;

/// What the server says, taken apart.
pub enum Says {
    /// A sampling request.
    Sampling(SamplingReading),
    /// An elicitation.
    Elicitation(ElicitationReading),
    /// Anything else: its parameters.
    Other(Arc<Value>),
}

/// The answer being made.
pub enum Draft {
    /// Text of a sampling answer.
    Text(SamplingDraft, Box<TextArea<'static>>),
    /// A whole result as JSON.
    Raw(Box<TextArea<'static>>),
    /// The form of an elicitation.
    Form(Box<FormState>),
    /// A yes or no: a URL to open, a guarded call to let through.
    Consent,
}

/// Where the keys go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// What the server says: keys scroll.
    Says,
    /// The answer: keys type.
    #[default]
    Answer,
    /// The reason for saying no: keys type.
    Reason,
}

/// What a person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerCommand {
    /// Send the answer. A URL is opened only by the second one in a row.
    Send,
    /// Say no. Asks for the reason first where the wire can carry one.
    Deny,
    /// Go away without deciding, which the server is told (elicitation).
    Cancel,
    /// Edit the whole result as JSON, or stop doing so.
    Raw,
    /// The next stop reason.
    StopReason,
    /// The other part.
    Focus,
    /// Scroll what the server says by rows.
    Scroll(isize),
    /// A command of the form.
    Form(FormCommand),
}

/// What follows a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Nothing outside.
    Stay,
    /// This answer goes out.
    Send(Answer),
    /// This URL is opened and this answer goes out.
    Visit(url::Url, Answer),
}

/// A request being answered.
pub struct AnswerDesk {
    /// The request.
    pub request: Arc<PendingRequest>,
    /// What the server says.
    pub says: Says,
    /// The answer so far.
    pub draft: Draft,
    /// Where the keys go.
    pub part: Part,
    /// First visible row of what the server says.
    pub top: usize,
    /// The reason for saying no, as typed.
    pub reason: Box<TextArea<'static>>,
    /// Why the answer could not be sent, or what a second press would do.
    pub notice: Option<SafeText>,
    /// Why it can no longer be answered.
    pub ended: Option<SafeText>,
    /// What the server says as lines; built by [`AnswerDesk::lay_out`], because a prompt may have
    /// megabytes and a frame has milliseconds.
    pub doc: Doc,
    /// Characters of the request that a reader would not see as such.
    pub hidden: usize,
    /// The sampling draft that is kept while JSON is edited.
    kept: SamplingDraft,
    armed: bool,
    laid_out: u16,
}

impl AnswerDesk {
    /// A desk for a request, with an empty draft or the defaults of its form.
    pub fn new(request: Arc<PendingRequest>) -> Self {
        let params = &request.params;
        let (says, draft) = match request.kind {
            RequestKind::Sampling => {
                let draft = SamplingDraft::default();
                (
                    Says::Sampling(sampling::read(params)),
                    Draft::Text(draft, Box::new(TextArea::default())),
                )
            }
            RequestKind::Elicitation | RequestKind::UrlElicitation => {
                let reading = elicitation::read(params);
                let draft = match &reading.asks {
                    Asks::Url(_) => Draft::Consent,
                    Asks::Form(schema) if too_many_fields(schema) => {
                        Draft::Raw(Box::new(area("{\n  \n}")))
                    }
                    Asks::Form(schema) => {
                        let schema = Arc::new(schema.clone());
                        Draft::Form(Box::new(FormState::new(&schema, Defaults::All)))
                    }
                };
                (Says::Elicitation(reading), draft)
            }
            RequestKind::Guard => (Says::Other(Arc::clone(params)), Draft::Consent),
            RequestKind::Roots | RequestKind::Other(_) => {
                (Says::Other(Arc::clone(params)), Draft::Raw(Box::new(area("{}"))))
            }
        };
        let hidden = hidden_characters(&request.params);
        let part = if matches!(draft, Draft::Consent) { Part::Says } else { Part::Answer };
        Self {
            request,
            says,
            draft,
            part,
            top: 0,
            reason: Box::new(TextArea::default()),
            notice: None,
            ended: None,
            doc: Doc::default(),
            hidden,
            kept: SamplingDraft::default(),
            armed: false,
            laid_out: 0,
        }
    }

    /// Breaks what the server says into lines for a region of this width, when it changed.
    pub fn lay_out(&mut self, width: u16) {
        if self.doc.is_empty() || self.laid_out != width {
            self.laid_out = width;
            self.doc = super::draw::says(self, width);
        }
    }

    /// The request's id.
    pub fn id(&self) -> ApprovalId {
        self.request.id
    }

    /// The request is no longer open; the draft stays to be copied.
    pub fn end(&mut self, reason: SafeText) {
        self.ended.get_or_insert(reason);
        self.armed = false;
    }

    /// Whether plain keys are text.
    pub fn is_typing(&self) -> bool {
        self.ended.is_none()
            && match self.part {
                Part::Says => false,
                Part::Answer => !matches!(self.draft, Draft::Consent),
                Part::Reason => true,
            }
    }

    /// Whether a person has written something that would be lost.
    pub fn has_draft(&self) -> bool {
        match &self.draft {
            Draft::Text(draft, text) => {
                !text.is_empty() || !draft.tool_uses.is_empty() || !self.reason.is_empty()
            }
            Draft::Raw(_) => true,
            Draft::Form(form) => form.value().is_some(),
            Draft::Consent => false,
        }
    }

    /// The draft as text, for copying and for an editor outside.
    pub fn text(&self) -> String {
        match &self.draft {
            Draft::Text(_, text) | Draft::Raw(text) => text.lines().join("\n"),
            Draft::Form(form) => {
                serde_json::to_string_pretty(&form.arguments()).unwrap_or_default()
            }
            Draft::Consent => String::new(),
        }
    }

    /// Takes text over that was written in an editor outside or pasted as a whole.
    pub fn replace_text(&mut self, text: &str) {
        match &mut self.draft {
            Draft::Text(_, kept) | Draft::Raw(kept) => **kept = area(text),
            Draft::Form(form) => match serde_json::from_str(text) {
                Ok(value) => form.set_value(Some(value)),
                Err(error) => self.notice = Some(SafeText::line(&format!("not JSON: {error}"))),
            },
            Draft::Consent => {}
        }
    }

    /// Types a key; gives whether it was used.
    pub fn type_key(&mut self, key: KeyEvent) -> bool {
        if !self.is_typing() {
            return false;
        }
        self.notice = None;
        self.armed = false;
        match (self.part, &mut self.draft) {
            (Part::Reason, _) => self.reason.input(Input::from(key)),
            (_, Draft::Text(_, text) | Draft::Raw(text)) => {
                text.input(Input::from(key));
                true
            }
            (_, Draft::Form(form)) => form.type_key(key),
            (_, Draft::Consent) => false,
        }
    }

    /// Takes pasted text.
    pub fn paste(&mut self, pasted: &str) {
        match (self.part, &mut self.draft) {
            (Part::Reason, _) => {
                self.reason.insert_str(pasted.replace('\n', " "));
            }
            (Part::Answer, Draft::Text(_, text) | Draft::Raw(text)) => {
                text.insert_str(pasted);
            }
            (Part::Answer, Draft::Form(form)) => form.paste(pasted),
            (Part::Says, _) | (_, Draft::Consent) => {}
        }
    }

    /// Does what was asked.
    pub fn apply(&mut self, command: AnswerCommand) -> Outcome {
        if command != AnswerCommand::Send {
            self.armed = false;
            self.notice = None;
        }
        match command {
            AnswerCommand::Focus => self.focus_next(),
            AnswerCommand::Scroll(rows) => {
                let last = self.doc.len().saturating_sub(1);
                self.top = self.top.saturating_add_signed(rows).min(last);
            }
            AnswerCommand::Form(command) => {
                if let Draft::Form(form) = &mut self.draft {
                    form.apply(command);
                }
            }
            AnswerCommand::StopReason => {
                if let Draft::Text(draft, _) = &mut self.draft {
                    draft.next_stop_reason();
                }
            }
            AnswerCommand::Raw => self.toggle_raw(),
            AnswerCommand::Send | AnswerCommand::Deny | AnswerCommand::Cancel
                if self.ended.is_some() =>
            {
                self.notice = Some(SafeText::line("nothing was sent: it is no longer open"));
            }
            AnswerCommand::Send if self.part == Part::Reason => return self.deny(),
            AnswerCommand::Send => return self.send(),
            AnswerCommand::Deny => return self.deny(),
            AnswerCommand::Cancel => {
                if matches!(self.says, Says::Elicitation(_)) {
                    return Outcome::Send(Answer::Result(ElicitAction::Cancel.result(None)));
                }
                self.notice = Some(SafeText::line("only an elicitation can be cancelled"));
            }
        }
        Outcome::Stay
    }

    fn focus_next(&mut self) {
        self.part = match (self.part, &self.draft) {
            (Part::Says, Draft::Text(..) | Draft::Raw(_) | Draft::Form(_)) => Part::Answer,
            _ => Part::Says,
        };
    }

    fn toggle_raw(&mut self) {
        self.draft = match std::mem::replace(&mut self.draft, Draft::Consent) {
            Draft::Text(mut draft, text) => {
                draft.text = text.lines().join("\n");
                self.kept = draft.clone();
                draft.edit_raw();
                Draft::Raw(Box::new(area(draft.raw.as_deref().unwrap_or_default())))
            }
            Draft::Raw(_) if matches!(self.says, Says::Sampling(_)) => {
                let draft = self.kept.clone();
                let text = Box::new(area(&draft.text));
                Draft::Text(draft, text)
            }
            Draft::Form(mut form) => {
                form.apply(FormCommand::Json);
                Draft::Form(form)
            }
            other => other,
        };
    }

    fn send(&mut self) -> Outcome {
        match self.answer() {
            Ok(answer) => match self.url() {
                None => Outcome::Send(answer),
                Some(url) if self.armed => Outcome::Visit(url, answer),
                Some(url) => {
                    self.armed = true;
                    let host = url.host_str().unwrap_or_default();
                    self.notice =
                        Some(SafeText::line(&format!("again to open {host} in the browser")));
                    Outcome::Stay
                }
            },
            Err(reason) => {
                self.notice = Some(SafeText::line(&reason));
                Outcome::Stay
            }
        }
    }

    fn url(&self) -> Option<url::Url> {
        match &self.says {
            Says::Elicitation(ElicitationReading { asks: Asks::Url(reading), .. }) => {
                reading.open.as_deref().and_then(|open| url::Url::parse(open).ok())
            }
            _ => None,
        }
    }

    /// The answer as it would go out, or what is missing.
    fn answer(&mut self) -> Result<Answer, String> {
        match (&mut self.draft, &self.says) {
            (Draft::Text(draft, text), _) => {
                draft.text = text.lines().join("\n");
                draft.result().map(Answer::Result).map_err(|problems| told(&problems))
            }
            (Draft::Raw(text), Says::Sampling(_)) => {
                let raw =
                    SamplingDraft { raw: Some(text.lines().join("\n")), ..Default::default() };
                raw.result().map(Answer::Result).map_err(|problems| told(&problems))
            }
            (Draft::Raw(text), says) => {
                let value: Value = serde_json::from_str(&text.lines().join("\n"))
                    .map_err(|error| format!("not JSON: {error}"))?;
                Ok(Answer::Result(match says {
                    Says::Elicitation(_) => ElicitAction::Accept.result(Some(value)),
                    _ => value,
                }))
            }
            (Draft::Form(form), _) if form.blocking() > 0 => {
                form.apply(FormCommand::NextProblem);
                Err(format!("{} fields are not right yet", form.blocking()))
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

    fn deny(&mut self) -> Outcome {
        if matches!(self.says, Says::Elicitation(_)) {
            return Outcome::Send(Answer::Result(ElicitAction::Decline.result(None)));
        }
        if self.part != Part::Reason {
            self.part = Part::Reason;
            self.notice = Some(SafeText::line("say why, or send an empty reason"));
            return Outcome::Stay;
        }
        let reason = self.reason.lines().join(" ");
        let message = match reason.trim() {
            "" => "the user declined".to_owned(),
            reason => reason.to_owned(),
        };
        Outcome::Send(Answer::Refuse { code: REJECTED, message })
    }
}

/// Longest text that is searched for hidden characters, in bytes.
const SEARCHED: usize = 64 << 10;

fn hidden_characters(value: &Value) -> usize {
    match value {
        Value::String(text) if text.len() <= SEARCHED => {
            crate::text::inspect(text).iter().map(|hidden| hidden.count).sum()
        }
        Value::Array(items) => items.iter().map(hidden_characters).sum(),
        Value::Object(map) => map.values().map(hidden_characters).sum(),
        _ => 0,
    }
}

fn too_many_fields(schema: &Value) -> bool {
    let fields = schema.get("properties").and_then(Value::as_object);
    fields.is_some_and(|fields| fields.len() > elicitation::MOST_FIELDS)
}

fn area(text: &str) -> TextArea<'static> {
    TextArea::new(text.split('\n').map(str::to_owned).collect())
}

fn told(problems: &[crate::host::Violation]) -> String {
    let one = |problem: &crate::host::Violation| match problem.pointer.as_str() {
        "" => problem.message.clone(),
        pointer => format!("{pointer}: {}", problem.message),
    };
    problems.iter().map(one).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests;
