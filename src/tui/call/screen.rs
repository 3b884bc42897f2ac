//! The state of the call screen: form, calls, what is asked of the person. Does no I/O.

use crate::tui::action::Action;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use serde_json::Value;

use super::ask::{Ask, Line, Pick};
use super::export::{Export, Origin};
use super::mouse::Clicks;
use super::run::{Run, RunState};
use super::subject::{Subject, SubjectKind};
use super::template;
use super::updates::Updates;
use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::deck::drafts::Draft;
use crate::deck::history::{History, HistoryEntry, HistoryRecord};
use crate::deck::saved::{SavedCall, SavedCalls, SavedTarget};
use crate::host::Validation;
use crate::tui::effect::{CallRequest, CallTarget, Effect, ServerCommand};
use crate::tui::form::draw::Look;
use crate::tui::form::{Defaults, FormState, RowKind};
use crate::tui::graphics::Placement;
use crate::tui::keymap::{Keymap, Scope};
use crate::tui::message::{CallPurpose, CallToken};
use crate::tui::pane::{Cx, Gesture, Out};
use crate::tui::result::{Content, Purpose};
use crate::tui::screen::{Help, Screen};
use crate::tui::widget::{KeyLine, TextInput};

/// Where the keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// The form.
    Form,
    /// The result.
    Result,
}

/// The call screen of one subject.
pub struct CallScreen {
    /// Its number among the call screens.
    pub number: usize,
    /// What is called.
    pub subject: Subject,
    /// The form.
    pub form: FormState,
    /// The calls, oldest first.
    pub runs: Vec<Run>,
    /// Which of them is shown.
    pub shown: usize,
    /// Where the keys go.
    pub focus: Focus,
    /// The open question.
    pub ask: Option<Ask>,
    /// What the keys mean.
    pub keymap: Arc<Keymap>,
    /// What the server suggests for the field under the cursor.
    pub suggestions: Vec<String>,
    /// Whether updates of the resource are wanted.
    pub subscribed: bool,
    /// When its definition changed under what is typed, and in what; a call made since takes it away.
    pub(super) changed: Option<(Timestamp, String)>,
    /// What is said of the sources of its server, when they are watched.
    pub dev: Option<SafeText>,
    pub(super) past: Vec<HistoryEntry>,
    pub(super) saved: Vec<(String, SavedCall)>,
    /// Seconds that the saved call in the form gives a call instead of the server's `timeout`.
    pub(super) seconds: Option<f64>,
    pub(super) asked: Option<(String, String)>,
    pub(super) completion: Option<(u64, Timestamp)>,
    pub(super) ticket: u64,
    pub(super) records: BTreeMap<u64, u64>,
    last_record: u64,
    pub(super) drafted: Option<Draft>,
    /// When what was typed is to be kept.
    pub(super) draft_due: Option<Timestamp>,
    /// Changes of the resource that is looked at.
    pub updates: Updates,
    /// What is to be written, while its name is asked for.
    pub(super) saving: Option<Content>,
    /// Where a file was picked last.
    pub(super) picked_in: Option<PathBuf>,
    /// Where a copied command line finds the server.
    pub origin: Origin,
    /// JSON pointer of the field that a file is read for.
    pub(super) filling: Option<String>,
    /// The call is made as soon as the check that runs elsewhere finds nothing against it.
    pub(super) call_when_checked: bool,
    /// The key that was pressed last.
    pub(super) pressed: Option<(crossterm::event::KeyEvent, Timestamp)>,
    pub(super) now: Timestamp,
}

/// Quiet time after a key before the server is asked for completions.
pub const DEBOUNCE: Duration = Duration::from_millis(150);
/// Ended calls kept on the screen.
const RUNS: usize = 20;

impl CallScreen {
    /// A screen for `subject`. A draft of an earlier run of the program is taken up again.
    pub fn new(subject: Subject, history: &History, saved: &SavedCalls, now: Timestamp) -> Self {
        let mut form = FormState::new(&subject.schema, Defaults::Required);
        form.keep_within(&subject.limits);
        let key = subject.key();
        let drafted = history.draft(&key).cloned();
        if let Some(draft) = &drafted {
            form.take_up(draft.clone());
        }
        // With nothing to fill in, the line that calls is where the person wants to be.
        let adds = |row: &crate::tui::form::Row| matches!(row.kind, RowKind::Add { .. });
        let nothing_to_fill = form.rows().iter().all(adds) && !wants_keys(form.document().raw());
        if form.json().is_none() {
            form.apply(if nothing_to_fill { Action::LastField } else { Action::FirstField });
        }
        let past = history.of(&key).to_vec();
        let canonical = format!("{}.{}", subject.server, subject.wire);
        let mine = |call: &SavedCall| match &call.target {
            SavedTarget::Tool { tool } => subject.kind == SubjectKind::Tool && *tool == canonical,
            SavedTarget::Prompt { prompt } => {
                subject.kind == SubjectKind::Prompt && *prompt == canonical
            }
            SavedTarget::Resource { resource, .. } => **resource == *subject.wire,
        };
        let saved =
            saved.calls.iter().filter(|(_, c)| mine(c)).map(|(n, c)| (n.clone(), c.clone()));
        let mut screen = Self {
            number: 0,
            past,
            saved: saved.collect(),
            seconds: None,
            subject,
            form,
            runs: Vec::new(),
            shown: 0,
            focus: Focus::Form,
            ask: None,
            keymap: Arc::new(Keymap::builtin()),
            suggestions: Vec::new(),
            subscribed: false,
            changed: None,
            dev: None,
            asked: None,
            completion: None,
            ticket: 0,
            records: BTreeMap::new(),
            last_record: 0,
            drafted,
            draft_due: None,
            updates: Updates::default(),
            saving: None,
            picked_in: None,
            origin: Origin::default(),
            filling: None,
            call_when_checked: false,
            pressed: None,
            now,
        };
        // The field under the cursor may be chosen of what the server knows, before a key is typed.
        screen.typed();
        screen
    }

    /// The call that is shown.
    pub fn run(&self) -> Option<&Run> {
        self.runs.get(self.shown)
    }

    /// Where keys are looked up, innermost first.
    pub fn scopes(&self) -> &'static [Scope] {
        match self.focus {
            _ if matches!(self.ask, Some(Ask::File(_))) => &[Scope::Picker],
            Focus::Form if self.form.takes_text() => &[Scope::Form, Scope::Call],
            Focus::Form => &[Scope::FormLine, Scope::Form, Scope::Call],
            Focus::Result => &[Scope::Result, Scope::Call],
        }
    }

    /// Does what was asked.
    pub fn apply(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::Send => return self.call(Validation::Enforce),
            Action::Force => return self.call(Validation::Force),
            Action::CancelCall => return self.cancel(),
            Action::Again => return self.again(),
            Action::EditAgain => self.edit_again(),
            Action::Switch => self.switch(),
            Action::Editor => return self.editor(),
            Action::History => self.open_history(),
            Action::Saved => self.open_saved(),
            Action::SaveForm | Action::CopyForm if self.form.has_drafts() => {
                return self.refuse("done");
            }
            Action::SaveForm => self.ask = Some(Ask::Line(Line::Name, TextInput::default())),
            Action::CopyForm => {
                let ways = Export::ALL.map(|way| SafeText::line(way.label())).to_vec();
                self.ask = Some(Ask::Pick(Pick::Export, ways, 0));
            }
            Action::FillFile => return self.open_picker(),
            Action::Suggest => return self.suggest(),
            Action::Older => self.shown = self.shown.saturating_sub(1),
            Action::Newer => self.shown = (self.shown + 1).min(self.runs.len().saturating_sub(1)),
            Action::Compare => return self.compare(),
            Action::Search => self.ask = Some(Ask::Line(Line::Search, TextInput::default())),
            Action::Subscribe => return self.subscribe(),
            Action::Back => return self.back(),
            action if self.focus == Focus::Result => {
                let run = self.runs.get_mut(self.shown);
                let wants = run.and_then(Run::view_mut).and_then(|view| view.apply(action));
                return self.want(wants);
            }
            Action::Open if self.form.is_on_submit() && !self.form.takes_text() => {
                return self.call(Validation::Enforce);
            }
            action => {
                self.form.apply(action);
                return self.typed();
            }
        }
        Vec::new()
    }

    /// Takes the arguments of a saved call into the form.
    pub fn take_up(&mut self, call: &SavedCall) {
        if !matches!(call.target, SavedTarget::Resource { .. }) {
            self.form.set_value(Some(call.arguments_value()));
        }
        self.seconds = call.timeout;
        self.focus = Focus::Form;
    }

    /// Makes a saved call that was taken into the form.
    pub fn make(&mut self, call: &SavedCall) -> Vec<Effect> {
        self.call(if call.force { Validation::Force } else { Validation::Enforce })
    }

    pub(super) fn call(&mut self, validation: Validation) -> Vec<Effect> {
        if self.form.has_drafts() {
            return self.refuse("sent");
        }
        if validation == Validation::Enforce && self.form.is_checking() {
            self.call_when_checked = true;
            return Vec::new();
        }
        if validation == Validation::Enforce && self.form.blocking() > 0 {
            self.ask = Some(Ask::Problems);
            return Vec::new();
        }
        self.send(self.form.arguments(), validation)
    }

    /// Goes to what is no value yet, instead of doing something with what would be left of it.
    fn refuse(&mut self, done: &str) -> Vec<Effect> {
        self.focus = Focus::Form;
        self.form.go_to_gravest();
        vec![Effect::Say(format!("Invalid value; not {done}"))]
    }

    pub(super) fn send(&mut self, arguments: Value, validation: Validation) -> Vec<Effect> {
        let wire = match self.subject.kind {
            SubjectKind::Tool | SubjectKind::Prompt => arguments.clone(),
            SubjectKind::Template => match template::expand(&self.subject.wire, &arguments) {
                Ok(uri) => Value::String(uri),
                Err(reason) => return vec![Effect::Say(format!("no URI template: {reason}"))],
            },
            SubjectKind::Resource => Value::String(self.subject.wire.to_string()),
        };
        if self.runs.len() >= RUNS
            && let Some(old) = self.runs.iter().position(|run| !run.is_running())
        {
            self.runs.remove(old);
        }
        self.changed = None;
        let number = self.runs.last().map_or(1, |run| run.number + 1);
        let forced = validation == Validation::Force;
        self.runs.push(Run::new(number, arguments.clone(), forced, self.now));
        self.shown = self.runs.len() - 1;
        self.focus = Focus::Result;
        // Screens count on their own, and several programs may share the file: the time tells
        // their calls apart.
        let id = self.now.0.max(self.last_record + 1);
        self.last_record = id;
        self.records.insert(number, id);
        let arguments_kept = arguments.clone();
        let entry = HistoryEntry { id, at: self.now.0, arguments: arguments_kept, outcome: None };
        self.past.insert(0, entry);
        let target = self.subject.key();
        let arguments = self.form.without_secrets(arguments);
        let record = HistoryRecord::Began { id, at: self.now.0, target, arguments };
        let timeout = self.seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
        vec![Effect::Record(record), self.call_effect(number, wire, validation, timeout)]
    }

    fn again(&mut self) -> Vec<Effect> {
        let Some(run) = self.run() else { return Vec::new() };
        let validation = if run.forced { Validation::Force } else { Validation::Enforce };
        self.send(run.arguments.clone(), validation)
    }

    fn edit_again(&mut self) {
        let Some(arguments) = self.run().map(|run| run.arguments.clone()) else { return };
        self.form.set_value(Some(arguments));
        self.form.apply(Action::FirstField);
        self.focus = Focus::Form;
    }

    /// The call of a run: arguments of a tool or prompt, the URI of a resource as text.
    pub(super) fn call_effect(
        &self,
        run: u64,
        arguments: Value,
        validation: Validation,
        timeout: Option<Duration>,
    ) -> Effect {
        let wire = self.subject.wire.to_string();
        let target = match self.subject.kind {
            SubjectKind::Tool => CallTarget::Tool(wire, arguments),
            SubjectKind::Prompt => CallTarget::Prompt(wire, arguments),
            SubjectKind::Template | SubjectKind::Resource => {
                CallTarget::Resource(arguments.as_str().unwrap_or_default().to_owned())
            }
        };
        let server = self.subject.server.clone();
        // What a person asks for by hand is asked of the server.
        let request = CallRequest { server, target, validation, bypass_cache: true, timeout };
        Effect::Call(self.token(CallPurpose::Run(run)), request)
    }

    pub(super) const fn token(&self, what: CallPurpose) -> CallToken {
        CallToken { screen: self.number, what }
    }

    /// What the viewer wants; a file gets a name first.
    pub(super) fn want(&mut self, wanted: Option<Effect>) -> Vec<Effect> {
        match wanted {
            Some(Effect::SaveAs { path, content, .. }) => {
                self.saving = Some(content);
                self.ask =
                    Some(Ask::Line(Line::SaveAs, TextInput::new(&path.display().to_string())));
                Vec::new()
            }
            wanted => wanted.into_iter().collect(),
        }
    }

    fn cancel(&mut self) -> Vec<Effect> {
        let Some(run) = self.runs.get_mut(self.shown) else { return Vec::new() };
        match &mut run.state {
            RunState::Running { cancelling } => {
                *cancelling = true;
                let run = CallPurpose::Run(run.number);
                vec![Effect::CancelCall(self.token(run))]
            }
            _ => Vec::new(),
        }
    }

    fn switch(&mut self) {
        self.focus = match self.focus {
            Focus::Form if !self.runs.is_empty() => Focus::Result,
            _ => Focus::Form,
        };
    }

    fn compare(&mut self) -> Vec<Effect> {
        let before = &self.runs[..self.shown.min(self.runs.len())];
        let Some(earlier) = before.iter().rev().find_map(|run| run.result().cloned()) else {
            return vec![Effect::Say("there is no earlier answer to compare with".to_owned())];
        };
        if let Some(view) = self.runs.get_mut(self.shown).and_then(Run::view_mut) {
            view.compare_with(&earlier, Purpose::Show);
        }
        Vec::new()
    }

    fn subscribe(&mut self) -> Vec<Effect> {
        let Some(uri) = self.uri() else {
            return vec![Effect::Say("only a resource can be subscribed to".to_owned())];
        };
        self.subscribed = !self.subscribed;
        let command = if self.subscribed {
            ServerCommand::Subscribe(uri)
        } else {
            ServerCommand::Unsubscribe(uri)
        };
        vec![Effect::Server(self.subject.server.clone(), command)]
    }

    fn back(&mut self) -> Vec<Effect> {
        if self.form.leave_json() || self.stop_comparing() {
            return Vec::new();
        }
        if self.focus == Focus::Result {
            self.focus = Focus::Form;
            return Vec::new();
        }
        let mut wanted = self.draft();
        wanted.push(Effect::Close);
        wanted
    }
}

const HELP: Help = (
    "keys: calling",
    &[
        (Scope::Call, "calling"),
        (Scope::Form, "in the form"),
        (Scope::FormLine, "on lines that take no text"),
        (Scope::Result, "in the result"),
        (Scope::Picker, "while a file is picked"),
    ],
);

impl Screen for CallScreen {
    fn scopes(&self) -> Vec<Scope> {
        Self::scopes(self).to_vec()
    }

    fn help(&self) -> Help {
        HELP
    }

    fn takes_letters(&self) -> bool {
        self.ask.is_some() || self.focus == Focus::Form
    }

    fn asks(&self) -> bool {
        self.ask.is_some()
    }

    /// What is done to servers does not hold: the server that is meant is not the one that is looked
    /// at, and a slip of the finger in a form must not stop it.
    fn lets_through(&self, action: Action) -> bool {
        use Action as A;
        crate::tui::pane::PaneId::ALL.into_iter().any(|pane| pane.action() == action)
            || matches!(
                action,
                A::NextPane
                    | A::PreviousPane
                    | A::Approvals
                    | A::Answer
                    | A::Rerun
                    | A::Theme
                    | A::Bell
                    | A::Quit
            )
    }

    fn key(&mut self, key: KeyEvent, bound: Option<Action>, cx: &Cx<'_>, out: &mut Out) -> bool {
        let typed = self.type_key(key, bound, cx.model.now);
        let text = typed.is_some();
        out.effects.extend(typed.into_iter().flatten());
        text
    }

    fn act(&mut self, action: Action, cx: &Cx<'_>, out: &mut Out) {
        self.now = cx.model.now;
        out.effects.extend(self.apply(action));
    }

    fn paste(&mut self, text: &str, cx: &Cx<'_>, out: &mut Out) {
        out.effects.extend(Self::paste(self, text, cx.model.now));
    }

    fn mouse(&mut self, gesture: Gesture, _cx: &Cx<'_>, area: Rect, out: &mut Out) {
        out.effects.extend(match gesture {
            Gesture::Scroll { at, delta } => self.wheel(delta, at, area),
            Gesture::Click(at) => self.click(at, Clicks::One, area),
            Gesture::DoubleClick(at) => self.click(at, Clicks::Two, area),
        });
    }

    fn prepare(&mut self, cx: &Cx<'_>, area: Rect) {
        self.lay_out(area, &cx.look());
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        self.draw(&cx.look(), cx.model.now, area, buf);
    }

    fn placements(&self, look: &Look, area: Rect) -> Vec<Placement> {
        self.pixels(look, area)
    }

    fn key_line(&self, _keymap: &Keymap) -> KeyLine {
        self.keys()
    }

    fn key_area(&self, area: Rect) -> Rect {
        self.regions(area).footer
    }

    fn region_at(&self, area: Rect, at: Position) -> Rect {
        let regions = self.regions(area);
        let parts = [Some(regions.form), regions.result];
        parts.into_iter().flatten().find(|part| part.contains(at)).unwrap_or(area)
    }
}

/// Whether a schema without named fields is about keys of the person's own: it says something of
/// them, instead of merely leaving the object open.
fn wants_keys(schema: &serde_json::Value) -> bool {
    ["patternProperties", "propertyNames", "minProperties"].iter().any(|k| schema.get(k).is_some())
        || schema.get("additionalProperties").is_some_and(serde_json::Value::is_object)
}
