//! One request of a server being answered: what it says, the draft of the answer, and what the keys
//! do to it. No drawing, no I/O. Nothing is sent but by [`Action::Send`],
//! [`Action::Deny`] and [`Action::CancelRequest`], and nothing at all once the request is
//! withdrawn or an answer is on its way.

use crossterm::event::{KeyCode, KeyEvent};
use ratatui_textarea::TextArea;
use serde_json::json;

use crate::base::text::json::pretty;
use crate::host::approvals::PendingRequest;
use crate::mcp::{Answer, ApprovalId, RequestKind};
use crate::tui::approval::answering::draft::parsed;
use crate::tui::approval::draw::{self, Spot};
use crate::tui::approval::elicitation::{self, Asks, ElicitationReading};
use crate::tui::approval::sampling::{self, SamplingReading};
use crate::tui::effect::Effect;
use crate::tui::form::FormState;
use crate::tui::form::editor::{area, edit};
use crate::tui::form::seed::Defaults;
use crate::tui::keymap::{Keymap, Scope};
use crate::tui::message::FormToken;
use crate::tui::pane::{Cx, Gesture, Out};
use crate::tui::prelude::*;
use crate::tui::screen::{Help, Screen, close};
use crate::tui::widget::{Doc, KeyLine, TextInput};

mod answer;
mod draft;

pub use draft::{Composer, Draft, Offer, ToolForm, kept as kept_offers};

/// What the server says, taken apart.
pub enum Says {
    /// A sampling request.
    Sampling(SamplingReading),
    /// An elicitation.
    Elicitation(ElicitationReading),
    /// Anything else: its parameters.
    Other(Arc<Value>),
}

/// Where the keys go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// What the server says: keys scroll.
    Says,
    /// The answer: keys type.
    #[default]
    Answer,
    /// The name of the model that "answered".
    Model,
    /// The stop reason.
    Stop,
    /// The arguments of a tool call.
    Tool,
    /// The request, being edited.
    Request,
    /// The reason for saying no: keys type.
    Reason,
    /// The name under which the answer is kept.
    Name,
}

/// Rows of a page of what the server says.
const PAGE: isize = 10;

/// How far an answer has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It is being made.
    #[default]
    Open,
    /// It was given; the engine has not confirmed it yet.
    Sent,
    /// Nothing more can be sent, and why.
    Ended(SafeText),
}

/// A draft of the registered model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Drafting {
    /// None was asked for.
    #[default]
    No,
    /// It is thinking.
    Asked,
    /// What is in the draft is from this model, for the person to approve.
    By(SafeText),
}

/// A request being answered.
pub struct AnswerScreen {
    /// The request.
    pub request: Arc<PendingRequest>,
    /// Its parameters as the person edited them; what a model that drafts is given.
    pub params: Arc<Value>,
    /// What the server says.
    pub says: Says,
    /// The answer so far.
    pub draft: Draft,
    /// Where the keys go.
    pub part: Part,
    /// First visible row of what the server says.
    pub top: usize,
    /// The reason for saying no, as typed.
    pub reason: TextInput,
    /// The name under which the answer is to be kept, as typed.
    pub name: TextInput,
    /// The request as JSON while it is edited.
    pub editing: Option<Box<TextArea<'static>>>,
    /// Why the answer could not be sent, or what a second press would do.
    pub notice: Option<SafeText>,
    /// How far the answer has come.
    pub stage: Stage,
    /// Whether a model drafted.
    pub drafting: Drafting,
    /// What the server says as lines; built by [`AnswerScreen::lay_out`], because a prompt may have
    /// megabytes and a frame has milliseconds.
    pub doc: Doc,
    /// Characters of the request that a reader would not see as such.
    pub hidden: usize,
    /// The completion as it was when it began to be edited as JSON.
    kept: Value,
    armed: bool,
    /// What is done when the check that runs elsewhere finds nothing against it.
    when_checked: Option<Action>,
    /// No browser could be started: the person may have opened the page otherwise.
    opened_elsewhere: bool,
    laid_out: u16,
}

impl AnswerScreen {
    /// The screen of a request, with an empty draft or the defaults of its form.
    pub fn new(request: Arc<PendingRequest>) -> Self {
        let params = Arc::clone(&request.params);
        let (says, draft) = read(&request.kind, &params);
        let hidden = hidden_characters(&params);
        let part = if matches!(draft, Draft::Consent) { Part::Says } else { Part::Answer };
        Self {
            request,
            params,
            says,
            draft,
            part,
            top: 0,
            reason: TextInput::default(),
            name: TextInput::default(),
            editing: None,
            notice: None,
            stage: Stage::Open,
            drafting: Drafting::No,
            doc: Doc::default(),
            hidden,
            kept: Value::Null,
            armed: false,
            when_checked: None,
            opened_elsewhere: false,
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

    fn sends(&self, result: Value) -> Effect {
        Effect::Answer(self.id(), Answer::Result(result))
    }

    /// Says something in the line of notices, and does nothing else.
    fn say(&mut self, text: &str) -> Option<Effect> {
        self.notice = Some(SafeText::line(text));
        None
    }

    /// The request's id.
    pub fn id(&self) -> ApprovalId {
        self.request.id
    }

    /// The request is no longer open; the draft stays to be copied.
    pub fn end(&mut self, reason: SafeText) {
        if !matches!(self.stage, Stage::Ended(_)) {
            self.stage = Stage::Ended(reason);
        }
        self.armed = false;
        if self.drafting == Drafting::Asked {
            self.drafting = Drafting::No;
        }
        // What is left is the draft, not the line that asks for something more.
        let asks = match self.part {
            Part::Reason => self.reason.text().is_empty(),
            Part::Name => true,
            _ => false,
        };
        if asks {
            self.back();
        }
    }

    /// Why nothing more can be sent.
    pub const fn ended(&self) -> Option<&SafeText> {
        match &self.stage {
            Stage::Ended(reason) => Some(reason),
            Stage::Open | Stage::Sent => None,
        }
    }

    /// Whether the request differs from what the server sent.
    pub fn is_edited(&self) -> bool {
        !Arc::ptr_eq(&self.params, &self.request.params)
    }

    /// The form that has the keys.
    pub fn open_form(&self) -> Option<&FormState> {
        self.draft.form().filter(|_| self.fills_form())
    }

    fn open_form_mut(&mut self) -> Option<&mut FormState> {
        if self.fills_form() { self.draft.form_mut() } else { None }
    }

    fn fills_form(&self) -> bool {
        let part = if matches!(self.draft, Draft::Form(_)) { Part::Answer } else { Part::Tool };
        self.stage == Stage::Open && self.part == part
    }

    /// Does what was asked.
    pub fn apply(&mut self, action: Action) -> Option<Effect> {
        if action != Action::Send {
            (self.armed, self.when_checked) = (false, None);
            self.notice = None;
        }
        if let Some(rows) = action.steps(PAGE) {
            self.scroll(rows);
            return None;
        }
        match action {
            Action::Switch => self.focus_next(),
            _ if self.stage == Stage::Sent => return self.say("your answer is on its way"),
            _ if self.stage != Stage::Open => {
                return self.say("nothing was sent: it is no longer open");
            }
            Action::Open if self.on_submit() => match self.part {
                Part::Tool => self.finish_tool(),
                // Enter goes through a form line by line; it must not decide at its end.
                _ => return self.say("{send} accepts and sends the form"),
            },
            Action::StopReason => self.next_stop_reason(),
            Action::RemoveTool => self.remove_tool(),
            Action::Json => self.toggle_raw(),
            Action::EditRequest => self.edit_request(),
            Action::Send => return self.send_or_finish(),
            Action::Deny => return self.deny(),
            Action::CancelRequest => return self.cancel(),
            action => match (self.open_form_mut(), action) {
                (Some(form), action) => _ = form.apply(action),
                (None, Action::NextField) => self.step_field(1),
                (None, Action::PreviousField) => self.step_field(-1),
                _ => {}
            },
        }
        None
    }

    /// Scrolls what the server says by rows; up is negative.
    pub fn scroll(&mut self, rows: isize) {
        let last = self.doc.len().saturating_sub(1);
        self.top = self.top.saturating_add_signed(rows).min(last);
    }

    fn on_submit(&self) -> bool {
        self.open_form().is_some_and(|form| form.is_on_submit() && !form.takes_text())
    }

    /// Sends the answer, or ends what is being typed for it.
    fn send_or_finish(&mut self) -> Option<Effect> {
        match self.part {
            Part::Reason => return self.deny(),
            Part::Name => return self.keep(),
            Part::Tool => self.finish_tool(),
            Part::Request => self.edit_request(),
            _ => return self.send(),
        }
        None
    }

    fn cancel(&mut self) -> Option<Effect> {
        if matches!(self.says, Says::Elicitation(_)) {
            return Some(self.sends(json!({"action": "cancel"})));
        }
        self.say("only an elicitation can be cancelled")
    }

    /// A browser was started for the page, or could not be.
    pub fn visited(&mut self, opened: Result<(), SafeText>) -> Option<Effect> {
        match opened {
            Ok(()) if self.stage == Stage::Open => Some(self.sends(json!({"action": "accept"}))),
            Ok(()) => None,
            Err(reason) => {
                self.opened_elsewhere = true;
                self.say(&format!(
                    "{reason}; {{copy-form}} copies the address, {{send}} again says you opened it yourself"
                ))
            }
        }
    }

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
            Part::Says | Part::Answer => return false,
            Part::Tool => {
                if let Draft::Text(composer) = &mut self.draft {
                    composer.tool = None;
                }
            }
            Part::Request => self.editing = None,
            Part::Reason | Part::Name | Part::Model | Part::Stop => {}
        }
        self.notice = None;
        let consents = matches!(self.draft, Draft::Consent);
        self.part = if consents { Part::Says } else { Part::Answer };
        true
    }

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
                let clicked = self.open_form_mut().is_some_and(|form| form.click(at, area));
                if clicked && again { self.apply(Action::Send) } else { None }
            }
        }
    }

    /// Whether plain keys are text.
    pub fn is_typing(&self) -> bool {
        self.stage == Stage::Open
            && match self.part {
                Part::Says => false,
                Part::Answer => !matches!(self.draft, Draft::Consent),
                _ => true,
            }
    }

    /// The draft as text, for copying and for an editor outside.
    pub fn text(&self) -> String {
        match (self.part, &self.editing, &self.draft) {
            (Part::Request, Some(editing), _) => editing.lines().join("\n"),
            (Part::Reason, ..) => self.reason.text().to_owned(),
            (.., Draft::Text(composer)) => composer.text.lines().join("\n"),
            (.., Draft::Raw(text)) => text.lines().join("\n"),
            (.., Draft::Form(form)) => pretty(&form.arguments()),
            (.., Draft::Consent) => self.address().unwrap_or_default(),
        }
    }

    /// Takes text over that was written in an editor outside or pasted as a whole.
    pub fn replace_text(&mut self, text: &str) {
        match self.stage {
            Stage::Open => {}
            // Nothing is sent any more, but what was written is not lost either.
            Stage::Ended(_) => _ = self.say("it ended meanwhile; your text is kept"),
            Stage::Sent => {
                self.say("your answer is on its way; it stays as it was");
                return;
            }
        }
        if self.part == Part::Reason {
            self.reason.set(&text.split_whitespace().collect::<Vec<_>>().join(" "));
        } else if let Some(typed) = self.area() {
            *typed = area(text);
        } else if let Draft::Form(form) = &mut self.draft {
            match parsed(text) {
                Ok(value) => form.set_value(Some(value)),
                Err(reason) => _ = self.say(&reason),
            }
        }
    }

    /// The text of several lines that is written.
    fn area(&mut self) -> Option<&mut TextArea<'static>> {
        match (self.part, &mut self.editing, &mut self.draft) {
            (Part::Request, Some(editing), _) => Some(editing),
            (_, _, Draft::Text(composer)) => Some(&mut composer.text),
            (_, _, Draft::Raw(text)) => Some(text),
            _ => None,
        }
    }

    fn line(&mut self) -> Option<&mut TextInput> {
        match (self.part, &mut self.draft) {
            (Part::Reason, _) => Some(&mut self.reason),
            (Part::Name, _) => Some(&mut self.name),
            (Part::Model, Draft::Text(composer)) => Some(&mut composer.model),
            (Part::Stop, Draft::Text(composer)) => Some(&mut composer.stop),
            _ => None,
        }
    }

    /// Time went on.
    pub fn now_is(&mut self, now: Timestamp) {
        if let Some(form) = self.open_form_mut() {
            form.now = now;
        }
    }

    /// Types a key into the form that is open, when it is text there; gives whether it was used. A
    /// chord that is bound is not for it.
    pub fn type_in_form(&mut self, key: KeyEvent, bound: bool) -> bool {
        let used = self.open_form_mut().is_some_and(|form| form.take_key(key, bound));
        if used {
            self.notice = None;
            self.armed = false;
            self.when_checked = None;
        }
        used
    }

    /// Types a key; gives what follows from it.
    pub fn type_key(&mut self, key: KeyEvent) -> Option<Effect> {
        if !self.is_typing() {
            return None;
        }
        self.notice = None;
        self.armed = false;
        if key.code == KeyCode::Enter && self.line().is_some() {
            match self.part {
                Part::Name => return self.keep(),
                // A reason is sent by the key that sends, not by Enter.
                Part::Reason => return self.say("{send} sends the refusal"),
                _ => self.step_field(1),
            }
        } else if let Some(line) = self.line() {
            line.key(key);
        } else if let Some(typed) = self.area() {
            edit(typed, key);
        }
        None
    }

    /// Takes pasted text.
    pub fn paste(&mut self, pasted: &str) {
        if !self.is_typing() {
            return;
        }
        self.armed = false;
        let printable = |c: &char| matches!(c, '\n' | '\t') || !c.is_control();
        let pasted: &str = &pasted.replace("\r\n", "\n").replace('\r', "\n");
        let pasted: &str = &pasted.chars().filter(printable).collect::<String>();
        if let Some(line) = self.line() {
            return line.insert(pasted);
        }
        if let Some(form) = self.open_form_mut() {
            return form.paste(pasted);
        }
        if let Some(whole) = self.whole_answer(pasted) {
            self.take_result(&whole);
            self.say("the whole answer was pasted; {json} shows it as JSON");
        } else if let Some(typed) = self.area() {
            typed.insert_str(pasted);
        }
    }

    /// The answer that pasted text is as a whole: a `CreateMessageResult` where nothing is written
    /// yet, or in place of the one that is edited as JSON.
    fn whole_answer(&self, pasted: &str) -> Option<Value> {
        let free = match &self.draft {
            _ if self.part == Part::Request => false,
            Draft::Text(composer) => composer.text.is_empty() && composer.tool_uses.is_empty(),
            Draft::Raw(_) => true,
            Draft::Form(_) | Draft::Consent => false,
        };
        if !free || !matches!(self.says, Says::Sampling(_)) || !pasted.trim_start().starts_with('{')
        {
            return None;
        }
        let value: Value = serde_json::from_str(pasted).ok()?;
        let is_result = ["role", "content", "model"].iter().all(|key| value.get(key).is_some());
        is_result.then_some(value)
    }

    /// The ending of a file that holds the draft: an editor highlights by it.
    pub fn suffix(&self) -> &'static str {
        match (self.part, &self.draft) {
            (Part::Reason, _) => ".md",
            (Part::Request, _) | (_, Draft::Raw(_) | Draft::Form(_)) => ".json",
            _ => ".md",
        }
    }
}

/// What one press of "more time" adds.
const MORE_TIME: Duration = Duration::from_secs(600);
/// Largest draft that is handed to an editor outside, in bytes.
const EDITED: usize = 4 << 20;

const HELP: Help = (
    "keys: answering",
    &[
        (Scope::Answer, "answering"),
        (Scope::AnswerSampling, "a completion"),
        (Scope::AnswerElicitation, "an elicitation"),
        (Scope::AnswerReading, "while nothing is typed"),
        (Scope::Form, "in the form"),
        (Scope::FormLine, "on lines that take no text"),
    ],
);

/// Where its words and its draft are drawn: above the line of keys.
fn body(area: Rect) -> Rect {
    Rect { height: area.height.saturating_sub(1), ..area }
}

impl Screen for AnswerScreen {
    fn scopes(&self) -> Vec<Scope> {
        let Some(form) = self.open_form() else { return scopes(self).to_vec() };
        [&[Scope::Answer, Scope::AnswerElicitation], form.scopes()].concat()
    }

    fn help(&self) -> Help {
        HELP
    }

    fn takes_letters(&self) -> bool {
        self.is_typing()
    }

    fn key(&mut self, key: KeyEvent, bound: Option<Action>, cx: &Cx<'_>, out: &mut Out) -> bool {
        self.now_is(cx.model.now);
        if self.type_in_form(key, bound.is_some()) {
            return true;
        }
        if bound.is_none() {
            out.effects.extend(self.type_key(key));
        }
        bound.is_none()
    }

    fn act(&mut self, action: Action, _cx: &Cx<'_>, out: &mut Out) {
        match action {
            Action::SaveForm => self.ask_for_name(),
            Action::MoreTime if self.stage == Stage::Open => {
                out.effect(Effect::MoreTime(self.id(), MORE_TIME));
            }
            Action::MoreTime => {}
            Action::Editor => {
                let (token, text) = (FormToken::Answer(self.id()), self.text());
                let suffix = self.suffix();
                if text.len() <= EDITED {
                    out.effect(Effect::Edit { token, text, suffix });
                }
            }
            Action::CopyForm => out.copy(self.text()),
            Action::SaveMedia => self.save_media(out),
            Action::Back if self.back() => {}
            Action::Back => close(out),
            action => out.effects.extend(self.apply(action)),
        }
    }

    fn paste(&mut self, text: &str, _cx: &Cx<'_>, _out: &mut Out) {
        Self::paste(self, text);
    }

    fn mouse(&mut self, gesture: Gesture, cx: &Cx<'_>, area: Rect, out: &mut Out) {
        match gesture {
            Gesture::Scroll { delta, .. } => self.scroll(delta),
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                let spot = draw::spot(self, cx, body(area), at);
                out.effects.extend(spot.and_then(|spot| self.click(spot, at)));
            }
        }
    }

    fn prepare(&mut self, _cx: &Cx<'_>, area: Rect) {
        self.lay_out(area.width.saturating_sub(3));
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        draw::render(self, cx, body(area), buf);
    }

    fn key_line(&self, keymap: &Keymap) -> KeyLine {
        KeyLine::new(footer(keymap, self), keymap.help_label())
    }
}

/// What a request says, and the draft its answer starts from.
fn read(kind: &RequestKind, params: &Arc<Value>) -> (Says, Draft) {
    match kind {
        RequestKind::Sampling => {
            (Says::Sampling(sampling::read(params)), Draft::Text(Box::default()))
        }
        RequestKind::Elicitation | RequestKind::UrlElicitation | RequestKind::SignIn => {
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
        RequestKind::Guard | RequestKind::Permission => {
            (Says::Other(Arc::clone(params)), Draft::Consent)
        }
        RequestKind::Roots | RequestKind::Other(_) => {
            (Says::Other(Arc::clone(params)), Draft::Raw(Box::new(area("{}"))))
        }
    }
}

/// Longest text that is searched for hidden characters, in bytes.
const SEARCHED: usize = 64 << 10;

fn hidden_characters(value: &Value) -> usize {
    match value {
        Value::String(text) if text.len() <= SEARCHED => {
            crate::base::text::inspect(text).iter().map(|hidden| hidden.count).sum()
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

// Where the keys of the answering screen are looked up, and the words its last line shows.

/// Where the keys of a request being answered are bound, innermost first.
pub fn scopes(answering: &AnswerScreen) -> &'static [Scope] {
    let all: &[Scope] = match &answering.says {
        Says::Sampling(_) => &[Scope::AnswerReading, Scope::AnswerSampling, Scope::Answer],
        Says::Elicitation(_) => &[Scope::AnswerReading, Scope::AnswerElicitation, Scope::Answer],
        Says::Other(_) => &[Scope::AnswerReading, Scope::Answer],
    };
    // The first holds only while no text is typed.
    if answering.is_typing() { &all[1..] } else { all }
}

/// Keys and words for the footer: what decides comes first, in the words of the specification where
/// it has them.
pub fn footer(keymap: &Keymap, answering: &AnswerScreen) -> Vec<(String, &'static str)> {
    let (kind, send, deny) = match (&answering.says, &answering.draft) {
        (Says::Sampling(_), _) => (Scope::AnswerSampling, "send", "deny"),
        (Says::Elicitation(_), Draft::Consent) => (Scope::AnswerElicitation, "open it", "decline"),
        (Says::Elicitation(_), _) => (Scope::AnswerElicitation, "accept", "decline"),
        (Says::Other(_), Draft::Consent) => (Scope::AnswerReading, "allow", "refuse"),
        (Says::Other(_), _) => (Scope::AnswerReading, "send", "deny"),
    };
    // What is typed for the answer is ended by the same key.
    let send = match answering.part {
        Part::Tool => "add it",
        Part::Name => "keep it",
        Part::Reason => deny,
        Part::Request => "take it",
        Part::Says | Part::Answer | Part::Model | Part::Stop => send,
    };
    let refused = matches!(&answering.says, Says::Elicitation(ElicitationReading { asks: Asks::Url(url), .. }) if url.open.is_none());
    let media = matches!(&answering.says, Says::Sampling(reading) if reading.has_media);
    let rank = |action: Action| match action {
        Action::Send => 0,
        Action::Deny => 1,
        // What cannot be seen otherwise, and what decides too.
        Action::SaveMedia | Action::CancelRequest => 2,
        _ => 3,
    };
    let mut labels = keymap.labels(&[Scope::Answer, kind]);
    labels.retain(|(.., action)| match action {
        Action::CopyForm | Action::NextRequest | Action::Back => true,
        _ if answering.ended().is_some() => false,
        Action::Send => !refused,
        Action::Deny => answering.part != Part::Reason,
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
