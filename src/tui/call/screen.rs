//! The state of the call screen: form, calls, what is asked of the person. Does no I/O.

use crate::tui::action::Action;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::ask::{Ask, Line, Pick};
use super::export::{Export, Origin};
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
use crate::tui::form::{Defaults, FormState, RowKind};
use crate::tui::keymap::{Keymap, Scope};
use crate::tui::result::view::Wants;
use crate::tui::result::{Content, Purpose};

/// What the screen wants done outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    /// Make a call; the number comes back with what happens to it.
    Call {
        /// Number of the run.
        run: u64,
        /// Arguments of a tool or prompt; the URI of a resource as text.
        arguments: Value,
        /// Whether they must fit.
        validation: Validation,
        /// Time it is given instead of the server's.
        timeout: Option<Duration>,
    },
    /// Cancel a call.
    Cancel(u64),
    /// Ask for completions; the answer goes to [`CallScreen::suggested`].
    Complete {
        /// Parameters of `completion/complete`.
        params: Value,
        /// Comes back with the answer.
        ticket: u64,
    },
    /// Put text on the clipboard.
    Copy(String),
    /// Write a file; one that is there is only replaced after a yes.
    Save(String, Content),
    /// Open text in `$EDITOR`; comes back to [`CallScreen::edited`].
    Edit(String, &'static str),
    /// Read a file for the field; comes back to [`CallScreen::file_read`].
    ReadFile(PathBuf),
    /// Look at a path for the picker; comes back to [`CallScreen::looked`].
    Look(PathBuf),
    /// Show a resource of the same server.
    OpenResource(String),
    /// Subscribe to a resource (true) or end it.
    Subscribe(String, Subscription),
    /// Add a call to the saved ones.
    SaveCall(String, Box<SavedCall>),
    /// Append to the history.
    Record(HistoryRecord),
    /// Tell something.
    Say(String),
    /// Leave the screen; it is kept as it is.
    Close,
}

/// Begin or end of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscription {
    /// Begin.
    Begin,
    /// End.
    End,
}

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

    /// Whether typed letters are text now.
    pub fn is_typing(&self) -> bool {
        matches!(self.ask, Some(Ask::Line(..) | Ask::File(_)))
            || (self.ask.is_none() && self.focus == Focus::Form && self.form.takes_text())
    }

    /// Whether plain characters are no commands: everywhere in the form.
    pub fn takes_letters(&self) -> bool {
        self.is_typing() || (self.ask.is_none() && self.focus == Focus::Form)
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
    pub fn apply(&mut self, action: Action) -> Vec<Intent> {
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
            Action::SaveForm => self.ask = Some(Ask::Line(Line::Name, String::new())),
            Action::CopyForm => {
                let ways = Export::ALL.map(|way| SafeText::line(way.label())).to_vec();
                self.ask = Some(Ask::Pick(Pick::Export, ways, 0));
            }
            Action::FillFile => return self.open_picker(),
            Action::Suggest => return self.suggest(),
            Action::Older => self.shown = self.shown.saturating_sub(1),
            Action::Newer => self.shown = (self.shown + 1).min(self.runs.len().saturating_sub(1)),
            Action::Compare => return self.compare(),
            Action::Search => self.ask = Some(Ask::Line(Line::Search, String::new())),
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
    pub fn make(&mut self, call: &SavedCall) -> Vec<Intent> {
        self.call(if call.force { Validation::Force } else { Validation::Enforce })
    }

    pub(super) fn call(&mut self, validation: Validation) -> Vec<Intent> {
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
    fn refuse(&mut self, done: &str) -> Vec<Intent> {
        self.focus = Focus::Form;
        self.form.apply(Action::NextProblem);
        vec![Intent::Say(format!("Invalid value; not {done}"))]
    }

    pub(super) fn send(&mut self, arguments: Value, validation: Validation) -> Vec<Intent> {
        let wire = match self.subject.kind {
            SubjectKind::Tool | SubjectKind::Prompt => arguments.clone(),
            SubjectKind::Template => match template::expand(&self.subject.wire, &arguments) {
                Ok(uri) => Value::String(uri),
                Err(reason) => return vec![Intent::Say(format!("no URI template: {reason}"))],
            },
            SubjectKind::Resource => Value::String(self.subject.wire.to_string()),
        };
        if self.runs.len() >= RUNS
            && let Some(old) = self.runs.iter().position(|run| !run.is_running())
        {
            self.runs.remove(old);
        }
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
        let call = Intent::Call { run: number, arguments: wire, validation, timeout };
        vec![Intent::Record(record), call]
    }

    fn again(&mut self) -> Vec<Intent> {
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

    /// What the viewer wants, as an intent of the screen.
    pub(super) fn want(&mut self, wants: Option<Wants>) -> Vec<Intent> {
        let intent = match wants {
            None => return Vec::new(),
            Some(Wants::Save(name, content)) => {
                self.saving = Some(content);
                self.ask = Some(Ask::Line(Line::SaveAs, name));
                return Vec::new();
            }
            Some(Wants::Copy(text)) => Intent::Copy(text),
            Some(Wants::OpenResource(uri)) => Intent::OpenResource(uri),
            Some(Wants::Say(text)) => Intent::Say(text),
        };
        vec![intent]
    }

    fn cancel(&mut self) -> Vec<Intent> {
        let Some(run) = self.runs.get_mut(self.shown) else { return Vec::new() };
        match &mut run.state {
            RunState::Running { cancelling } => {
                *cancelling = true;
                vec![Intent::Cancel(run.number)]
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

    fn compare(&mut self) -> Vec<Intent> {
        let before = &self.runs[..self.shown.min(self.runs.len())];
        let Some(earlier) = before.iter().rev().find_map(|run| run.result().cloned()) else {
            return vec![Intent::Say("there is no earlier answer to compare with".to_owned())];
        };
        if let Some(view) = self.runs.get_mut(self.shown).and_then(Run::view_mut) {
            view.compare_with(&earlier, Purpose::Show);
        }
        Vec::new()
    }

    fn subscribe(&mut self) -> Vec<Intent> {
        let Some(uri) = self.uri() else {
            return vec![Intent::Say("only a resource can be subscribed to".to_owned())];
        };
        self.subscribed = !self.subscribed;
        let what = if self.subscribed { Subscription::Begin } else { Subscription::End };
        vec![Intent::Subscribe(uri, what)]
    }

    fn back(&mut self) -> Vec<Intent> {
        if self.form.leave_json() || self.stop_comparing() {
            return Vec::new();
        }
        if self.focus == Focus::Result {
            self.focus = Focus::Form;
            return Vec::new();
        }
        let mut intents = self.draft();
        intents.push(Intent::Close);
        intents
    }
}

/// Whether a schema without named fields is about keys of the person's own: it says something of
/// them, instead of merely leaving the object open.
fn wants_keys(schema: &serde_json::Value) -> bool {
    ["patternProperties", "propertyNames", "minProperties"].iter().any(|k| schema.get(k).is_some())
        || schema.get("additionalProperties").is_some_and(serde_json::Value::is_object)
}
