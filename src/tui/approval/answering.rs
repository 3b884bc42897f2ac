//! The screen of one request of a server: its content, the form of the answer, and key handling.
//! No drawing, no I/O. An answer is only sent by [`Action::Send`], [`Action::Deny`] and
//! [`Action::CancelRequest`], and never once the request is withdrawn or an answer was sent.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::json;

use crate::approval::draw::{self, ApprovalSpot};
use crate::approval::sampling::{self, SamplingReading};
use crate::effect::{Effect, Order};
use crate::form::{FormState, JsonView};
use crate::keymap::{KeyScope, Keymap};
use crate::message::FormToken;
use crate::model::Todo;
use crate::pane::{Availability, Cx, Gesture, Out, Ui, when};
use crate::panel::Panel;
use crate::prelude::*;
use crate::screen::{Help, Screen};
use crate::widget::{Doc, KeyLine};
use deck::{Asks, ElicitationReading, MAX_FORM_FIELDS, read_elicitation};
use host::ApprovalRequest;
use protocol::{Answer, ApprovalId, RequestKind};
use schema::Defaults;

mod answer;
mod offer;

pub use offer::{Offer, stored_offers as kept_offers};

/// The content of a request, parsed.
pub enum Says {
    /// A sampling request.
    Sampling(SamplingReading),
    Elicitation(ElicitationReading),
    /// Anything else, to be shown as JSON.
    Other,
}

/// The purpose of a form that is filled in on top of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Over {
    /// The request, edited as JSON.
    Request,
    /// The arguments of a call to this tool.
    Tool(String),
    /// The reason for a refusal.
    Reason,
    /// The name to keep the answer under.
    Name,
}

/// Rows to scroll the request by per page.
const PAGE_ROWS: isize = 10;

/// The stage of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum AnsweringStage {
    /// It is being edited.
    #[default]
    Open,
    /// It was sent; the engine has not confirmed it yet.
    Sent,
    /// The request ended for this reason; nothing can be sent any more.
    Ended(SafeText),
}

/// A draft by the registered model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Drafting {
    /// None was requested.
    #[default]
    No,
    /// It was requested and is not done yet.
    Asked,
    /// The draft was written by this model and needs the user's approval.
    By(SafeText),
}

/// A request being answered.
pub struct AnswerScreen {
    pub request: Arc<ApprovalRequest>,
    /// Its parameters as edited by the user; also the input for a drafting model.
    pub params: Arc<Value>,
    /// The parsed content of the request.
    pub says: Says,
    /// The draft of the answer; `None` if the request is only accepted or refused.
    pub answer: Option<Box<FormState>>,
    /// A form to fill in before going back to the answer.
    pub over: Option<(Over, Box<FormState>)>,
    /// Whether the keys scroll the request instead of filling in a form.
    pub reads: bool,
    /// First visible row of the request.
    pub top: usize,
    /// Why the answer could not be sent, or what a second key press would do.
    pub notice: Option<SafeText>,
    /// The stage of the answer.
    pub stage: AnsweringStage,
    /// The state of a draft by a model.
    pub drafting: Drafting,
    /// The request as lines. Built by [`AnswerScreen::lay_out`] rather than per frame, because a
    /// prompt may have megabytes.
    pub doc: Doc,
    /// Number of hidden characters in the request.
    pub hidden: usize,
    armed: bool,
    /// The action to perform when the check on another thread passes.
    when_checked: Option<Action>,
    /// No browser could be started, so the user may have opened the page by other means.
    opened_elsewhere: bool,
    laid_out: u16,
}

impl AnswerScreen {
    /// Creates the screen of a request, with an empty answer or the defaults of its form.
    pub fn new(request: Arc<ApprovalRequest>) -> Self {
        let params = Arc::clone(&request.params);
        let says = read(&request.kind, &params);
        let answer = form_of(&request.kind, &says, &params);
        let hidden = hidden_characters(&params);
        Self {
            request,
            params,
            says,
            reads: answer.is_none(),
            answer: answer.map(Box::new),
            over: None,
            top: 0,
            notice: None,
            stage: AnsweringStage::Open,
            drafting: Drafting::No,
            doc: Doc::default(),
            hidden,
            armed: false,
            when_checked: None,
            opened_elsewhere: false,
            laid_out: 0,
        }
    }

    /// Breaks the request into lines for a region of this width, if either changed.
    pub fn lay_out(&mut self, width: u16) {
        if self.doc.is_empty() || self.laid_out != width {
            self.laid_out = width;
            self.doc = super::draw::says(self, width);
        }
    }

    fn reply(&self, answer: Answer, out: &mut Out) {
        out.effect(Effect::Order(Order::Answer(self.id(), answer)));
    }

    /// Shows a notice; none if there is nothing to add to what the form shows.
    fn say(&mut self, text: &str) {
        self.notice = Some(SafeText::line(text)).filter(|text| !text.is_empty());
    }

    /// Cancels what a second key press or the end of a check would do.
    fn disarm(&mut self) {
        (self.notice, self.armed, self.when_checked) = (None, false, None);
    }

    /// The request's id.
    pub fn id(&self) -> ApprovalId {
        self.request.id
    }

    /// Marks the request as no longer open; the draft is kept for copying.
    pub fn end(&mut self, reason: SafeText) {
        if !matches!(self.stage, AnsweringStage::Ended(_)) {
            self.stage = AnsweringStage::Ended(reason);
        }
        self.armed = false;
        if self.drafting == Drafting::Asked {
            self.drafting = Drafting::No;
        }
        // Keeps the draft, but not a form without any input.
        self.over.take_if(|(over, form)| *over == Over::Name || !form.is_touched());
    }

    /// Why nothing can be sent any more, if the request has ended.
    pub const fn ended(&self) -> Option<&SafeText> {
        match &self.stage {
            AnsweringStage::Ended(reason) => Some(reason),
            AnsweringStage::Open | AnsweringStage::Sent => None,
        }
    }

    /// Whether the request differs from what the server sent.
    pub fn is_edited(&self) -> bool {
        !Arc::ptr_eq(&self.params, &self.request.params)
    }

    /// The form that is shown: the one over the answer, or the answer.
    pub fn form(&self) -> Option<&FormState> {
        self.over.as_ref().map(|(_, form)| form).or(self.answer.as_ref()).map(|form| &**form)
    }

    fn form_mut(&mut self) -> Option<&mut FormState> {
        let over = self.over.as_mut().map(|(_, form)| form);
        over.or(self.answer.as_mut()).map(|form| &mut **form)
    }

    /// The form that has the focus, if any.
    pub fn open_form(&self) -> Option<&FormState> {
        self.form().filter(|_| self.stage == AnsweringStage::Open && !self.reads)
    }

    fn open_form_mut(&mut self) -> Option<&mut FormState> {
        if self.open_form().is_some() { self.form_mut() } else { None }
    }

    /// Performs an action.
    pub fn apply(&mut self, action: Action, out: &mut Out) {
        if action != Action::Send {
            self.disarm();
        }
        if let Some(rows) = action.steps(PAGE_ROWS) {
            return self.scroll(rows);
        }
        match action {
            Action::Switch if self.ended().is_some() => {
                // Both forms can still be viewed and copied.
                if let (Some((_, over)), Some(answer)) = (&mut self.over, &mut self.answer) {
                    std::mem::swap(over, answer);
                }
            }
            Action::Switch => self.reads = self.form().is_none() || !self.reads,
            _ if self.stage == AnsweringStage::Sent => self.say("your answer is on its way"),
            _ if self.stage != AnsweringStage::Open => {
                self.say("nothing was sent: it is no longer open");
            }
            Action::Open if self.at_end() => match self.over {
                Some((Over::Tool(_) | Over::Name, _)) => self.finish(out),
                // Enter walks through a form line by line; it must not send at its end.
                _ => self.say(&format!("press {{send}} to {}", verbs(self).0)),
            },
            Action::EditRequest => self.edit_request(out),
            Action::Send if self.over.is_some() => self.finish(out),
            Action::Send => self.send(out),
            Action::Deny => self.deny(out),
            Action::CancelRequest => self.cancel(out),
            action => _ = self.open_form_mut().is_some_and(|form| form.apply(action)),
        }
    }

    /// Scrolls the request by rows; negative is up.
    pub fn scroll(&mut self, rows: isize) {
        let last = self.doc.len().saturating_sub(1);
        self.top = self.top.saturating_add_signed(rows).min(last);
    }

    /// Whether the cursor is on the submit line, or on the only line of a form.
    fn at_end(&self) -> bool {
        let one_line = matches!(self.over, Some((Over::Reason | Over::Name, _)));
        one_line || self.open_form().is_some_and(|form| form.is_on_submit() && !form.takes_text())
    }

    fn cancel(&mut self, out: &mut Out) {
        if matches!(self.says, Says::Elicitation(_)) {
            return self.reply(Answer::Result(json!({"action": "cancel"})), out);
        }
        self.say("only an elicitation can be cancelled");
    }

    /// Handles the result of opening the page in a browser.
    pub fn visited(&mut self, opened: Result<(), SafeText>, out: &mut Out) {
        match opened {
            Ok(()) if self.stage == AnsweringStage::Open => {
                self.reply(Answer::Result(json!({"action": "accept"})), out);
            }
            Ok(()) => {}
            Err(reason) => {
                self.opened_elsewhere = true;
                self.say(&format!(
                    "{reason}; {{copy-form}} copies the address, {{send}} again says you opened it yourself"
                ));
            }
        }
    }

    /// Closes the innermost popup or form; returns `false` if the screen itself should be closed.
    pub fn back(&mut self) -> bool {
        let edits_request = matches!(self.over, Some((Over::Request, _)));
        if let Some(form) = self.open_form_mut() {
            if form.popup_is_open() {
                return form.type_key(KeyCode::Esc.into());
            }
            if !edits_request && form.leave_json() {
                return true;
            }
        }
        if self.ended().is_some() {
            return false;
        }
        let closed = self.over.take().is_some();
        if closed {
            self.notice = None;
        }
        closed
    }

    /// Handles a mouse click.
    pub fn click(&mut self, spot: ApprovalSpot, at: Position, out: &mut Out) {
        match spot {
            ApprovalSpot::Says if self.reads => {}
            ApprovalSpot::Says => self.apply(Action::Switch, out),
            ApprovalSpot::Form(_) if self.stage != AnsweringStage::Open => {}
            ApprovalSpot::Form(area) => {
                self.reads = false;
                let again = self.open_form().is_some_and(FormState::is_on_submit);
                let clicked = self.open_form_mut().is_some_and(|form| form.click(at, area));
                if clicked && again {
                    self.apply(Action::Send, out);
                }
            }
        }
    }

    /// Whether plain characters are taken as text.
    pub fn is_typing(&self) -> bool {
        self.open_form().is_some()
    }

    /// The draft for copying: its text if the answer is a text, otherwise its JSON; both where JSON
    /// was typed that cannot be read, as it is nowhere else.
    pub fn text(&self) -> String {
        let Some(form) = self.form() else { return self.address().unwrap_or_default() };
        let place = match (&self.over, &self.says) {
            (Some((Over::Reason, _)), _) => "/reason",
            (None, Says::Sampling(_)) => TEXT,
            _ => "",
        };
        let text = form.value().and_then(|value| value.pointer(place)?.as_str());
        let text = text.filter(|_| form.json() != JsonView::Focused);
        match text {
            Some(text) if form.has_broken_json() => format!("{text}\n\n{}", form.json_text()),
            Some(text) => text.to_owned(),
            None => form.json_text(),
        }
    }

    /// Replaces the text of the form with that of an external editor.
    pub fn replace_text(&mut self, text: &str) {
        match self.stage {
            AnsweringStage::Open => {}
            // Nothing can be sent any more, but the text must not be lost.
            AnsweringStage::Ended(_) => self.say("it ended meanwhile; your text is kept"),
            AnsweringStage::Sent => {
                return self.say("your answer is on its way; it stays as it was");
            }
        }
        if let Some(form) = self.form_mut() {
            form.replace_text(text);
        }
    }

    /// Types a key into the open form if it is text there; returns whether it was consumed. Bound
    /// chords are not.
    pub fn type_key(&mut self, mut key: KeyEvent, bound: bool) -> bool {
        // In the text of a completion, Enter inserts a line break.
        if key.code == KeyCode::Enter && self.writes_text() {
            key.modifiers |= KeyModifiers::SHIFT;
        }
        let used = self.open_form_mut().is_some_and(|form| form.take_key(key, bound));
        if used {
            self.disarm();
        }
        used
    }

    /// Whether the cursor is in the text of a completion.
    fn writes_text(&self) -> bool {
        let form = self.answer.as_ref().filter(|_| matches!(self.says, Says::Sampling(_)));
        let row = form.filter(|_| self.over.is_none()).and_then(|form| form.current());
        row.is_some_and(|row| row.pointer.ends_with("/text"))
    }

    /// Handles pasted text.
    pub fn paste(&mut self, pasted: &str) {
        if !self.is_typing() {
            return;
        }
        self.armed = false;
        let printable = |c: &char| matches!(c, '\n' | '\t') || !c.is_control();
        let pasted: &str = &pasted.replace("\r\n", "\n").replace('\r', "\n");
        let pasted: &str = &pasted.chars().filter(printable).collect::<String>();
        if let Some(whole) = self.whole_answer(pasted) {
            self.take_result(&whole);
            return self.say("the whole answer was pasted; {json} shows it as JSON");
        }
        let is_text = self.writes_text();
        match self.open_form_mut() {
            Some(form) if is_text => form.insert(pasted),
            Some(form) => form.paste(pasted),
            None => {}
        }
    }

    /// Pasted text as a whole completion, if it is one and no text has been written yet.
    fn whole_answer(&self, pasted: &str) -> Option<Value> {
        let answer = self.answer.as_ref().filter(|_| matches!(self.says, Says::Sampling(_)))?;
        let text = answer.value().and_then(|value| value.pointer(TEXT)?.as_str());
        if self.over.is_some() || !text.unwrap_or_default().is_empty() {
            return None;
        }
        let value: Value = serde_json::from_str(pasted).ok()?;
        let is_result = ["role", "content", "model"].iter().all(|key| value.get(key).is_some());
        is_result.then_some(value)
    }
}

/// JSON pointer of the text of a completion with a single text block.
const TEXT: &str = "/content/text";

/// Time added by one press of "more time".
const EXTENSION_INTERVAL: Duration = Duration::from_secs(600);
/// Largest draft passed to an external editor, in bytes.
const MAX_DRAFT_BYTES: usize = 4 << 20;

const HELP: Help = (
    "keys: answering",
    &[
        (KeyScope::Answer, "answering"),
        (KeyScope::AnswerSampling, "a completion"),
        (KeyScope::AnswerElicitation, "an elicitation"),
        (KeyScope::AnswerReading, "while nothing is typed"),
        (KeyScope::AnswerKeys, "after the key for more"),
        (KeyScope::Form, "in the form"),
        (KeyScope::FormLine, "on lines that take no text"),
        (KeyScope::FormKeys, "after the key for more, in the form"),
    ],
);

/// The region of the request and the draft, above the line of keys.
fn body(area: Rect) -> Rect {
    Rect { height: area.height.saturating_sub(1), ..area }
}

impl Screen for AnswerScreen {
    fn panels(&self, area: Rect) -> Vec<Panel> {
        vec![Panel::new(area, ink!("request"), true)]
    }

    fn scopes(&self) -> Vec<KeyScope> {
        [scopes(self), self.open_form().map_or(&[], FormState::scopes)].concat()
    }

    fn help(&self) -> Option<Help> {
        Some(HELP)
    }

    fn takes_letters(&self) -> bool {
        self.is_typing()
    }

    fn availability(&self, action: Action) -> Availability {
        let reading = match &self.says {
            Says::Sampling(reading) => Some(reading),
            Says::Elicitation(_) | Says::Other => None,
        };
        let completes = when(reading.is_some(), "the request is not for a completion");
        match action {
            _ if self.stage != AnsweringStage::Open => Ok(()),
            Action::CancelRequest => {
                let is_elicitation = matches!(self.says, Says::Elicitation(_));
                when(is_elicitation, "only an elicitation can be cancelled")
            }
            Action::AddHistory => Err("an answer is no call"),
            Action::EditRequest => completes,
            Action::UseTool => {
                completes.and(when(!self.tools().is_empty(), "the request offers no tools"))
            }
            Action::SaveMedia => {
                let has_media = reading.is_some_and(|reading| reading.has_media);
                completes.and(when(has_media, "the request has no images and no audio"))
            }
            action => self.open_form().map_or(Ok(()), |form| form.availability(action)),
        }
    }

    fn key(&mut self, key: KeyEvent, bound: Option<Action>, ui: Ui<'_>, _out: &mut Out) -> bool {
        if let Some(form) = self.open_form_mut() {
            form.now = ui.model.now;
        }
        self.type_key(key, bound.is_some()) || bound.is_none()
    }

    fn act(&mut self, action: Action, _ui: Ui<'_>, out: &mut Out) {
        match action {
            Action::SaveForm => self.ask_for_name(),
            Action::MoreTime if self.stage == AnsweringStage::Open => {
                out.effect(Effect::Order(Order::MoreTime(self.id(), EXTENSION_INTERVAL)));
            }
            Action::MoreTime => {}
            Action::Editor => {
                let field = self.open_form().and_then(FormState::field_for_editor);
                if let Some((text, suffix)) =
                    field.filter(|(text, _)| text.len() <= MAX_DRAFT_BYTES)
                {
                    let token = FormToken::Answer(self.id());
                    out.effect(Effect::Edit { token, text, suffix });
                }
            }
            Action::CopyForm => out.copy(self.text()),
            Action::SaveMedia => self.save_media(out),
            Action::Back if self.back() => {}
            Action::Back => {
                self.disarm();
                out.close();
            }
            action => self.apply(action, out),
        }
    }

    fn paste(&mut self, text: &str, _ui: Ui<'_>, _out: &mut Out) {
        Self::paste(self, text);
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        match gesture {
            Gesture::Scroll { at, delta } => {
                let spot = draw::spot(self, &ui, body(ui.area), at);
                let over = matches!(spot, Some(ApprovalSpot::Form(_)));
                match self.open_form_mut().filter(|_| over) {
                    Some(form) => form.wheel(delta),
                    None => self.scroll(delta),
                }
            }
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                let spot = draw::spot(self, &ui, body(ui.area), at);
                if let Some(spot) = spot {
                    self.click(spot, at, out);
                }
            }
        }
    }

    fn shows(&self, todo: &Todo) -> bool {
        *todo == Todo::Request(self.id())
    }

    /// The id is enough: the parameters of a request never change.
    fn decision(&self) -> Option<String> {
        Some(self.id().0.to_string())
    }

    fn prepare(&mut self, ui: Ui<'_>) {
        self.lay_out(ui.area.width.saturating_sub(3));
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        draw::render(self, cx, body(area), buf);
    }

    fn key_line(&self, keymap: &Keymap) -> KeyLine {
        KeyLine::new(footer(keymap, self), keymap.help_label())
    }
}

/// Parses the content of a request.
fn read(kind: &RequestKind, params: &Value) -> Says {
    match kind {
        RequestKind::Sampling => Says::Sampling(sampling::read(params)),
        RequestKind::Elicitation | RequestKind::UrlElicitation | RequestKind::SignIn => {
            Says::Elicitation(read_elicitation(params))
        }
        _ => Says::Other,
    }
}

/// The form of its answer; `None` if the request is only accepted or refused.
fn form_of(kind: &RequestKind, says: &Says, params: &Value) -> Option<FormState> {
    match (kind, says) {
        (_, Says::Sampling(_)) => {
            let mut form = FormState::with_value(
                &Arc::new(sampling::result_schema()),
                Some(sampling::empty_result()),
            );
            form.show_first(TEXT, SafeText::line("your text"));
            Some(form)
        }
        (_, Says::Elicitation(ElicitationReading { asks: Asks::Form(asked), .. })) => {
            let mut form = FormState::new(&asked.schema, Defaults::All);
            if asked.fields > MAX_FORM_FIELDS {
                form.enter_json();
            }
            Some(form)
        }
        (RequestKind::Permission, _) => reach_form(params),
        (RequestKind::Roots | RequestKind::Other(_), _) => Some(edited_as_json(json!({}))),
        _ => None,
    }
}

/// The form for how far a consent reaches; `None` if only one call can be consented to.
fn reach_form(params: &Value) -> Option<FormState> {
    let answers = params["answers"].as_array().filter(|answers| answers.len() > 1)?;
    let title = "for how long";
    let field = json!({"type": "string", "enum": answers, "default": "once", "title": title});
    let schema = json!({"type": "object", "properties": {REACH: field}, "required": [REACH]});
    Some(FormState::new(&Arc::new(schema), Defaults::All))
}

/// The field for how far a consent reaches.
const REACH: &str = "for";

/// A form for an object that is edited as JSON.
fn edited_as_json(value: Value) -> FormState {
    let mut form = FormState::with_value(&Arc::new(json!({"type": "object"})), Some(value));
    form.enter_json();
    form
}

/// Longest text searched for hidden characters, in bytes.
const MAX_SEARCHED_BYTES: usize = 64 << 10;

fn hidden_characters(value: &Value) -> usize {
    match value {
        Value::String(text) if text.len() <= MAX_SEARCHED_BYTES => {
            base::text::inspect(text).iter().map(|hidden| hidden.count).sum()
        }
        Value::Array(items) => items.iter().map(hidden_characters).sum(),
        Value::Object(map) => map.values().map(hidden_characters).sum(),
        _ => 0,
    }
}

// The key scopes of the answer screen, and the labels of its last line.

/// The key scopes of a request being answered, innermost first.
pub fn scopes(answering: &AnswerScreen) -> &'static [KeyScope] {
    let all: &[KeyScope] = match &answering.says {
        Says::Sampling(_) => &[KeyScope::AnswerReading, KeyScope::AnswerSampling, KeyScope::Answer],
        Says::Elicitation(_) => {
            &[KeyScope::AnswerReading, KeyScope::AnswerElicitation, KeyScope::Answer]
        }
        Says::Other => &[KeyScope::AnswerReading, KeyScope::Answer],
    };
    // The first applies only while no text is typed.
    if answering.is_typing() { &all[1..] } else { all }
}

/// Labels of the send and deny keys in the current state, as the specification words them.
pub(super) fn verbs(answering: &AnswerScreen) -> (&'static str, &'static str) {
    let (send, deny) = match (&answering.says, &answering.answer) {
        (Says::Other, Some(_)) if answering.request.kind == RequestKind::Permission => {
            ("allow", "refuse")
        }
        (Says::Sampling(_), _) | (Says::Other, Some(_)) => ("send", "deny"),
        (Says::Elicitation(_), None) => ("open it", "decline"),
        (Says::Elicitation(_), Some(_)) => ("accept", "decline"),
        (Says::Other, None) => ("allow", "refuse"),
    };
    // The send key also finishes a form over the answer.
    let send = match &answering.over {
        Some((Over::Tool(_), _)) => "add it",
        Some((Over::Name, _)) => "keep it",
        Some((Over::Reason, _)) => deny,
        Some((Over::Request, _)) => "take it",
        None => send,
    };
    (send, deny)
}

/// Keys and labels for the footer; keys that decide come first.
pub fn footer(keymap: &Keymap, answering: &AnswerScreen) -> Vec<(String, &'static str)> {
    let kind = match &answering.says {
        Says::Sampling(_) => KeyScope::AnswerSampling,
        Says::Elicitation(_) => KeyScope::AnswerElicitation,
        Says::Other => KeyScope::AnswerReading,
    };
    let (send, deny) = verbs(answering);
    let refused = matches!(&answering.says, Says::Elicitation(ElicitationReading { asks: Asks::Url(url), .. }) if url.open.is_none());
    let media = matches!(&answering.says, Says::Sampling(reading) if reading.has_media);
    let rank = |action: Action| match action {
        Action::Send => 0,
        Action::Deny => 1,
        // Media cannot be shown here, and cancelling also decides.
        Action::SaveMedia | Action::CancelRequest => 2,
        _ => 3,
    };
    let mut labels = keymap.labels(&[KeyScope::Answer, kind]);
    labels.retain(|(.., action)| match action {
        Action::CopyForm | Action::NextRequest | Action::Back => true,
        _ if answering.ended().is_some() => false,
        Action::Send => !refused,
        Action::Deny => !matches!(answering.over, Some((Over::Reason, _))),
        Action::SaveMedia => media,
        _ => true,
    });
    labels.sort_by_key(|(.., action)| rank(*action));
    let worded = labels.into_iter().map(|(key, word, action)| match action {
        Action::Send => (key, send),
        Action::Deny => (key, deny),
        _ => (key, word),
    });
    worded.collect()
}

#[cfg(test)]
mod tests;
