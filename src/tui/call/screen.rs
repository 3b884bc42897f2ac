//! The state of the call screen: form, calls, prompts for the user. Does no I/O.

use crossterm::event::KeyEvent;

use super::export::{Export, ExportOrigin, WrittenCall, page};
use super::follow::Updates;
use super::run::{CallRun, OK_WORD, RunState, TOOL_ERROR_WORD, WhyCall};
use super::subject::{CallSubject, METHODS, SubjectKind};
use crate::effect::{AppRequest, CallRequest, CallTarget, Effect, Existing, Order, ServerCommand};
use crate::form::draw::Styles;
use crate::form::{FormState, JsonView};
use crate::intent::Intent;
use crate::keymap::{KeyScope, Keymap};
use crate::message::{CallPurpose, CallToken, FormToken};
use crate::pane::catalog::file_name;
use crate::pane::{Availability, Cx, Gesture, Out, Ui, when};
use crate::panel::Panel;
use crate::pick::{CallPick, Choice, LinePrompt, Pick};
use crate::prelude::*;
use crate::result::ResultView;
use crate::screen::{Help, Screen, is_for_all};
use crate::suites::{NewStep, SuiteCommand};
use crate::widget::KeyLine;
use base::pointer;
use deck::{FormDraft, History, HistoryEntry, HistoryRecord, SavedCall, SavedTarget};
use host::{Validation, schema_limits};
use schema::Defaults;
use terminal::graphics::Placement;

/// The part of the call screen that has the keyboard focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CallFocus {
    #[default]
    Form,
    Result,
}

/// The call screen of one subject.
#[derive(Default)]
pub struct CallScreen {
    /// Its number among the call screens.
    pub number: usize,
    /// The subject of its calls.
    pub subject: CallSubject,
    pub form: FormState,
    /// The calls, oldest first.
    pub runs: Vec<CallRun>,
    /// Index of the one that is shown.
    pub shown: usize,
    /// The part that has the keyboard focus.
    pub focus: CallFocus,
    /// Completions suggested for the field under the cursor.
    pub suggestions: Vec<String>,
    /// Whether form and result are side by side.
    pub is_wide: bool,
    /// Whether the resource is subscribed to.
    pub subscribed: bool,
    /// When the definition changed while the form was open, and which parts; cleared by a call.
    pub(super) changed: Option<(Timestamp, String)>,
    /// Status of its server's sources, if they are watched.
    pub dev: Option<SafeText>,
    /// Timeout of the saved call in the form, in seconds; overrides the server's `timeout`.
    pub(super) seconds: Option<f64>,
    pub(super) asked: Option<(String, String)>,
    pub(super) completion: Option<(u64, Timestamp)>,
    pub(super) ticket: u64,
    last_record: u64,
    pub(super) drafted: Option<FormDraft>,
    /// When the draft is due to be saved.
    pub(super) draft_due: Option<Timestamp>,
    /// Updates of the shown resource.
    pub updates: Updates,
    /// Where the servers come from, for copied command lines.
    pub origin: ExportOrigin,
    /// What was shared last, of any call: it is offered first.
    pub shared: Option<CallPick>,
    /// JSON pointer of the field that a file is being read for, and the path as it was typed.
    pub(super) filling: Option<(String, String)>,
    /// Whether to make the call as soon as the check on another thread passes.
    pub(super) call_when_checked: bool,
    /// The key that was pressed last, and when.
    pub(super) pressed: Option<(crossterm::event::KeyEvent, Timestamp)>,
    pub(super) now: Timestamp,
}

/// Debounce time after a key before completions are requested from the server.
pub const DEBOUNCE_INTERVAL: Duration = Duration::from_millis(150);
/// Ended calls kept on the screen.
const MAX_ENDED_RUNS: usize = 20;

impl CallScreen {
    /// Creates the screen of `subject`, restoring a draft saved by an earlier run.
    pub fn new(subject: CallSubject, history: &History, now: Timestamp) -> Self {
        let mut form = FormState::of_document(subject.document(), Defaults::Required);
        form.keep_within(schema_limits(&subject.limits));
        let key = subject.key();
        let drafted = history.draft(&key).cloned();
        if let Some(draft) = &drafted {
            form.take_up(draft.clone());
        }
        if form.json() == JsonView::Closed {
            if subject.kind == SubjectKind::Request {
                form.select_place("/params");
                form.apply(Action::AsJson);
            }
            form.apply(Action::FirstField);
        }
        let mut screen = Self { subject, form, drafted, now, ..Self::default() };
        // The server may have completions for the first field before a key is typed.
        screen.typed();
        screen
    }

    /// The shown call.
    pub fn run(&self) -> Option<&CallRun> {
        self.runs.get(self.shown)
    }

    /// Why the shown call failed; `None` if it did not.
    pub fn why(&self) -> Option<WhyCall> {
        self.run()?.why(&self.subject.server, &self.subject.label)
    }

    /// The result view of the shown call.
    pub(super) fn view_mut(&mut self) -> Option<&mut ResultView> {
        self.runs.get_mut(self.shown)?.view_mut()
    }

    /// The key scopes in effect, innermost first.
    pub fn scopes(&self) -> Vec<KeyScope> {
        let inner = match self.focus {
            CallFocus::Form => self.form.scopes(),
            CallFocus::Result => &[KeyScope::Result],
        };
        [inner, &[KeyScope::Call]].concat()
    }

    /// Performs an action.
    pub fn apply(&mut self, action: Action, out: &mut Out) {
        match action {
            Action::Send => self.call(Validation::Enforce, out),
            Action::Force => self.call(Validation::Force, out),
            Action::CancelCall => self.cancel(out),
            Action::Again => self.again(out),
            Action::EditAgain => self.edit_again(),
            Action::Switch => self.switch(),
            Action::Editor => self.editor(out),
            Action::SaveForm | Action::CopyForm if self.form.has_drafts() => {
                self.refuse("done", out);
            }
            Action::AddStep if self.focus == CallFocus::Form && self.form.has_drafts() => {
                self.refuse("added", out);
            }
            Action::SaveForm if self.subject.kind == SubjectKind::Request => {
                out.refuse("a request has no name; {history} lists it");
            }
            Action::SaveForm => out.ask_line(LinePrompt::Name, ""),
            Action::AddStep => self.add_step(out),
            Action::CopyForm => self.offer_exports(out),
            Action::Copy if self.focus == CallFocus::Result => self.offer_exports(out),
            Action::FillFile => self.fill_file(out),
            Action::Suggest => self.suggest(out),
            Action::Older => self.shown = self.shown.saturating_sub(1),
            Action::Newer => self.shown = (self.shown + 1).min(self.runs.len().saturating_sub(1)),
            Action::Compare => self.compare(out),
            Action::Search => out.ask_line(LinePrompt::Search, ""),
            Action::Subscribe => self.subscribe(out),
            Action::OpenApp => self.open_app(out),
            Action::Back => self.back(out),
            action if self.focus == CallFocus::Result => {
                self.in_result(out, |view, out| view.apply(action, out));
            }
            Action::Json if self.form.json() == JsonView::Closed => {
                self.form.apply(action);
                if self.form.json() == JsonView::Open {
                    let text = "the JSON is too large to be edited here; {editor} edits one field";
                    return out.refuse(text);
                }
                self.typed();
            }
            Action::Open if self.form.is_on_submit() && !self.form.takes_text() => {
                self.call(Validation::Enforce, out);
            }
            action => {
                self.form.apply(action);
                self.typed();
            }
        }
    }

    /// Has the shown result do something; a file that it offers is written once it has a name.
    pub(super) fn in_result(&mut self, out: &mut Out, act: impl FnOnce(&mut ResultView, &mut Out)) {
        let Some(view) = self.view_mut() else { return };
        act(view, out);
        if let Some((name, content)) = view.take_file() {
            out.ask_file(name, content);
        }
    }

    /// Loads the arguments of a saved call into the form.
    pub fn take_up(&mut self, call: &SavedCall) {
        if !matches!(call.target, SavedTarget::Resource { .. }) {
            self.form.set_value(Some(call.arguments_value()));
        }
        self.seconds = call.timeout;
        self.focus = CallFocus::Form;
    }

    /// Loads the arguments of a past call into the form.
    pub fn take_past(&mut self, arguments: Value) {
        self.form.set_value(Some(arguments));
        self.seconds = None;
        self.focus = CallFocus::Form;
    }

    /// Makes a saved call that was loaded into the form.
    pub fn make(&mut self, call: &SavedCall, out: &mut Out) {
        self.call(if call.force { Validation::Force } else { Validation::Enforce }, out);
    }

    pub(super) fn call(&mut self, validation: Validation, out: &mut Out) {
        if self.form.has_drafts() {
            return self.refuse("sent", out);
        }
        if validation == Validation::Enforce && self.form.is_checking() {
            self.call_when_checked = true;
            return;
        }
        if validation == Validation::Enforce && self.form.blocking() > 0 {
            self.focus = CallFocus::Form;
            self.form.go_to_gravest();
            // What is wrong stands at the field, which has the focus now.
            return out.refuse("not sent; {force} calls anyway".to_owned());
        }
        self.send(self.form.arguments(), validation, out);
        self.form.mark_as_last_time();
    }

    /// Moves to the gravest problem and reports that the action was refused.
    fn refuse(&mut self, done: &str, out: &mut Out) {
        self.focus = CallFocus::Form;
        self.form.go_to_gravest();
        out.refuse(format!("Invalid value; not {done}"));
    }

    pub(super) fn send(&mut self, arguments: Value, validation: Validation, out: &mut Out) {
        let wire = match self.subject.kind {
            SubjectKind::Tool | SubjectKind::Prompt | SubjectKind::Request => arguments.clone(),
            _ => match self.subject.expanded(&arguments) {
                Ok(uri) => Value::String(uri),
                Err(reason) => return out.refuse(format!("URI template: {reason}")),
            },
        };
        if self.runs.len() >= MAX_ENDED_RUNS
            && let Some(old) = self.runs.iter().position(|run| !run.is_running())
        {
            self.runs.remove(old);
        }
        self.changed = None;
        let number = self.runs.last().map_or(1, |run| run.number + 1);
        let forced = validation == Validation::Force;
        // The id is the time, because call numbers are per screen and several processes may share
        // the history file.
        let id = self.now.0.max(self.last_record + 1);
        self.last_record = id;
        let mut run = CallRun::new(number, arguments.clone(), forced, self.now);
        run.record = Some(id);
        self.runs.push(run);
        self.shown = self.runs.len() - 1;
        self.focus = CallFocus::Result;
        let target = self.subject.key();
        let arguments = self.form.without_secrets(arguments);
        let record = HistoryRecord::Began { id, at: self.now.0, target, arguments };
        let timeout = self.seconds.and_then(|s| Duration::try_from_secs_f64(s).ok());
        out.effect(Effect::Record(record));
        out.effect(self.call_effect(number, wire, validation, timeout));
    }

    fn again(&mut self, out: &mut Out) {
        let Some(run) = self.run() else { return };
        let validation = if run.forced { Validation::Force } else { Validation::Enforce };
        self.send(run.arguments.clone(), validation, out);
    }

    fn edit_again(&mut self) {
        let Some(arguments) = self.run().map(|run| run.arguments.clone()) else { return };
        self.form.set_value(Some(arguments));
        self.form.confirm_all();
        self.form.apply(Action::FirstField);
        self.focus = CallFocus::Form;
    }

    /// The effect that makes a run's call. `arguments` is the URI as text for resources.
    pub(super) fn call_effect(
        &self,
        run: u64,
        arguments: Value,
        validation: Validation,
        timeout: Option<Duration>,
    ) -> Effect {
        let wire = self.subject.wire.to_string();
        let spelled = self.form.spelled(arguments.clone());
        let sent = match self.subject.kind {
            SubjectKind::Request => spelled.part("/params"),
            _ => spelled,
        };
        let written = (!sent.numbers.is_empty()).then(|| sent.to_string());
        let target = match self.subject.kind {
            SubjectKind::Tool => CallTarget::Tool(wire, arguments),
            SubjectKind::Prompt => CallTarget::Prompt(wire, arguments),
            SubjectKind::Template | SubjectKind::Resource => {
                CallTarget::Resource(arguments.as_str().unwrap_or_default().to_owned())
            }
            SubjectKind::Request => {
                let method = arguments["method"].as_str().unwrap_or_default().to_owned();
                CallTarget::Request(method, arguments.get("params").cloned())
            }
        };
        let server = self.subject.server.clone();
        // Manual calls always bypass the cache.
        let bypass_cache = true;
        let request = CallRequest { server, target, validation, bypass_cache, timeout, written };
        Effect::Call(self.token(CallPurpose::Run(run)), request)
    }

    /// The token of a call of this screen.
    pub const fn token(&self, what: CallPurpose) -> CallToken {
        CallToken { screen: self.number, what }
    }

    fn cancel(&mut self, out: &mut Out) {
        let Some(run) = self.runs.get_mut(self.shown) else { return };
        if let RunState::Running { cancelling } = &mut run.state {
            *cancelling = true;
            run.cancelled = true;
            let run = CallPurpose::Run(run.number);
            out.effect(Effect::CancelCall(self.token(run)));
        }
    }

    fn switch(&mut self) {
        self.focus = match self.focus {
            CallFocus::Form if !self.runs.is_empty() => CallFocus::Result,
            _ => CallFocus::Form,
        };
    }

    fn compare(&mut self, out: &mut Out) {
        let before = &self.runs[..self.shown.min(self.runs.len())];
        let Some(earlier) = before.iter().rev().find_map(|run| run.result().cloned()) else {
            return out.refuse("there is no earlier answer to compare with");
        };
        if let Some(view) = self.view_mut() {
            view.compare_with(&earlier, true);
        }
    }

    fn subscribe(&mut self, out: &mut Out) {
        let Some(uri) = self.uri() else {
            return out.refuse("only a resource can be subscribed to");
        };
        self.subscribed = !self.subscribed;
        let command =
            if self.subscribed { ServerCommand::Subscribe } else { ServerCommand::Unsubscribe };
        out.effect(Effect::Order(Order::Server(self.subject.server.clone(), command(uri))));
    }

    fn back(&mut self, out: &mut Out) {
        if self.form.leave_json() {
            return;
        }
        if self.focus == CallFocus::Result {
            self.focus = CallFocus::Form;
            return;
        }
        self.draft(out);
        out.close();
    }

    /// Advances the time: requests completions and saves the draft when they are due.
    pub fn tick(&mut self, now: Timestamp, out: &mut Out) {
        self.now = now;
        if let Some((ticket, _)) = self.completion.filter(|(_, at)| now >= *at) {
            self.ask_completion(ticket, out);
        }
        if self.draft_due.is_some_and(|at| now >= at) {
            self.draft(out);
        }
    }

    /// When [`CallScreen::tick`] has to be called next, apart from running calls.
    pub fn wake(&self) -> Option<Timestamp> {
        [self.completion.map(|(_, at)| at), self.draft_due].into_iter().flatten().min()
    }

    /// Handles a key that the keymap binds to `bound`; returns whether it was consumed.
    pub(super) fn type_key(
        &mut self,
        key: KeyEvent,
        bound: Option<Action>,
        now: Timestamp,
    ) -> bool {
        self.now = now;
        self.form.now = now;
        self.call_when_checked = false;
        self.keep_soon();
        let before = self.pressed.replace((key, now));
        let held =
            before.is_some_and(|(last, at)| last == key && now.since(at) < HELD_KEY_INTERVAL);
        if self.focus == CallFocus::Form && self.form.take_key(key, bound.is_some()) {
            self.typed();
            return true;
        }
        // A key held down repeats, but the call must be made only once.
        let calls = matches!(bound, Some(Action::Send | Action::Force | Action::Again));
        held && calls
    }

    /// Handles a key by a keymap, as the dashboard does.
    pub fn key(&mut self, key: KeyEvent, keymap: &Keymap, now: Timestamp, out: &mut Out) {
        let bound = keymap.pressed(&self.scopes(), key);
        if !self.type_key(key, bound, now)
            && let Some(action) = bound
        {
            self.apply(action, out);
        }
    }

    /// Handles pasted text.
    pub fn paste(&mut self, text: &str, now: Timestamp) {
        self.now = now;
        self.focus = CallFocus::Form;
        self.keep_soon();
        self.form.paste(text);
        self.typed();
    }

    /// Schedules completions after a change of the form.
    pub(super) fn typed(&mut self) {
        self.suggestions.clear();
        if self.subject.kind == SubjectKind::Request
            && let Some((_, typed)) = self.field_text().filter(|(name, _)| name == "method")
        {
            let all = METHODS.split(' ');
            let known = all.filter(|method| method.starts_with(&typed) && *method != typed);
            self.suggestions = known.map(str::to_owned).collect();
        }
        if self.subject.completes()
            && self.field_text().is_some()
            && self.field_text() != self.asked
        {
            self.ticket += 1;
            self.completion = Some((self.ticket, self.now.plus(DEBOUNCE_INTERVAL)));
        }
    }

    /// Name and text of the field under the cursor.
    fn field_text(&self) -> Option<(String, String)> {
        let row = self.form.current()?;
        let (parent, name) = pointer::split(&row.pointer)?;
        let value = self.form.value().and_then(|value| value.pointer(&row.pointer));
        let text = value.and_then(Value::as_str).unwrap_or_default();
        (parent.is_empty() && row.field().is_some()).then(|| (name, text.to_owned()))
    }

    fn ask_completion(&mut self, ticket: u64, out: &mut Out) {
        self.completion = None;
        let Some((name, text)) = self.field_text() else { return };
        let params = self.subject.completion(&name, &text, &self.form.arguments());
        self.asked = Some((name, text));
        let Some(params) = params else { return };
        let request = CallRequest {
            server: self.subject.server.clone(),
            target: CallTarget::Complete(params),
            validation: Validation::Enforce,
            bypass_cache: false,
            timeout: Some(Duration::from_secs(5)),
            written: None,
        };
        out.effect(Effect::Call(self.token(CallPurpose::Completion(ticket)), request));
    }

    /// Takes the completions returned by the server; outdated ones are ignored.
    pub fn suggested(&mut self, ticket: u64, result: &Value) {
        if ticket != self.ticket || self.field_text() != self.asked {
            return;
        }
        let values = result.pointer("/completion/values").and_then(Value::as_array);
        let texts = values.into_iter().flatten().filter_map(Value::as_str);
        self.suggestions = texts.take(100).map(str::to_owned).collect();
    }

    pub(super) const fn form_token(&self) -> FormToken {
        FormToken::Call(self.number)
    }

    pub(super) fn editor(&self, out: &mut Out) {
        match self.form.field_for_editor() {
            Some((text, suffix)) => {
                out.effect(Effect::Edit { token: self.form_token(), text, suffix });
            }
            None => out.refuse("nothing to edit on this line"),
        }
    }

    /// Takes the text of a closed external editor.
    pub fn edited(&mut self, text: &str) {
        self.keep_soon();
        // Editors append a final line break that is not part of the text.
        self.form.replace_text(text.strip_suffix('\n').unwrap_or(text));
    }

    /// A file for a field could not be read: another one is asked for.
    pub fn file_unread(&mut self, why: SafeText, out: &mut Out) {
        match self.filling.take() {
            Some((field, path)) if self.here() == Some(&*field) => {
                out.intend(Intent::AskLineAgain(LinePrompt::File, path, why));
            }
            _ => out.warn(Ink::from(&why)),
        }
    }

    /// Fills a field with a file that was read: as text, or as base64 if the schema says so.
    pub fn file_read(&mut self, bytes: &[u8], out: &mut Out) {
        let meant = self.filling.take().map(|(field, _)| field);
        if meant.as_deref() != self.here() {
            let text = "the cursor left the field while the file was read; nothing was filled";
            return out.refuse(text);
        }
        let encoded = self.form.wants_base64();
        self.keep_soon();
        match (encoded, std::str::from_utf8(bytes)) {
            (false, Ok(text)) => self.form.replace_text(text),
            (false, Err(_)) => {
                return out.refuse("the file is not text, and the field does not ask for base64");
            }
            (true, _) => {
                use base64::Engine as _;
                let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                self.form.replace_text(&text);
            }
        }
        self.typed();
    }

    /// Whether an action would have an effect now.
    fn means(&self, action: Action) -> bool {
        let answered = || self.run().is_some_and(|run| run.view().is_some());
        match action {
            Action::CancelCall => self.run().is_some_and(CallRun::is_running),
            Action::Why => self.run().and_then(CallRun::ending).is_some_and(|ending| !ending.good),
            Action::Switch => !self.runs.is_empty(),
            Action::Compare => self.runs.len() > 1 && answered(),
            Action::Search | Action::NextTab | Action::Save => answered(),
            Action::Copy => self.run().is_some_and(|run| !run.is_running()),
            Action::Open => self.enters().is_some(),
            Action::OpenApp => self.subject.has_app && answered(),
            Action::NextProblem => self.form.blocking() > 0,
            Action::Json | Action::Editor | Action::FormKeys => {
                self.subject.has_arguments(&self.form.document)
            }
            Action::AddItem => self.form.takes_items(),
            _ => true,
        }
    }

    /// What Enter does in the shown result, where that is more than to fold.
    fn enters(&self) -> Option<&'static str> {
        let view = self.run().filter(|_| self.focus == CallFocus::Result)?.view()?;
        view.enters()
    }

    /// Handles a click at a position of the `area` the screen is drawn in.
    pub fn click(&mut self, at: Position, area: Rect, out: &mut Out) {
        let regions = self.regions(area);
        if let Some(result) = regions.result.filter(|result| result.contains(at)) {
            self.focus = CallFocus::Result;
            return self.in_result(out, |view, out| view.click(at, result, out));
        }
        // An open list may extend below the form.
        if !regions.form.contains(at) && !self.form.popup_is_open() {
            return;
        }
        self.focus = CallFocus::Form;
        if self.form.click(at, regions.form) {
            self.apply(Action::Send, out);
        } else {
            self.typed();
        }
    }

    /// Scrolls the part at a position by a number of rows.
    pub fn wheel(&mut self, rows: isize, at: Position, area: Rect) {
        let regions = self.regions(area);
        if self.form.popup_is_open() || regions.form.contains(at) {
            return self.form.wheel(rows);
        }
        if let Some(view) = self.view_mut() {
            view.move_by(rows);
        }
    }

    pub(super) fn offer_exports(&self, out: &mut Out) {
        let ways = Export::ALL.into_iter().filter(|way| way.fits(&self.subject));
        let ways = ways.map(|way| choice(ink!("{}", way.name()), "", CallPick::Export(way)));
        let mut all = Vec::new();
        if self.shares_result() && self.run().is_some_and(|run| run.view().is_some()) {
            all.push(choice(ink!("the value under the cursor"), "", CallPick::Value));
            all.push(choice(ink!("the whole result"), "", CallPick::Whole));
        }
        all.extend(ways);
        all.push(choice(ink!("mcp.json entry of its server"), "", CallPick::Entry));
        if self.shares_result() {
            all.push(choice(
                ink!("HTML page with the result"),
                "written to a file",
                CallPick::Page,
            ));
        }
        if let Some(last) = &self.shared {
            all.sort_by_key(|choice| choice.pick != Pick::Call(last.clone()));
        }
        out.choose(ink!("copy as"), all);
    }

    /// Shows the result in the app of the tool.
    fn open_app(&self, out: &mut Out) {
        if !self.subject.has_app {
            return out.refuse("its server offers no app for this");
        }
        let Some(CallRun { arguments, state: RunState::Answered { outcome, .. }, .. }) = self.run()
        else {
            return out.refuse("an app shows a result; there is none yet");
        };
        out.effect(Effect::OpenApp(Box::new(AppRequest {
            server: self.subject.server.clone(),
            tool: Arc::clone(&self.subject.wire),
            arguments: arguments.clone(),
            result: (*outcome.result).clone(),
        })));
    }

    /// Whether the result is shared rather than the form.
    fn shares_result(&self) -> bool {
        self.focus == CallFocus::Result && self.run().is_some_and(|run| !run.is_running())
    }

    pub(super) fn suggest(&mut self, out: &mut Out) {
        if self.suggestions.len() < 2 {
            if let Some(text) = self.suggestions.pop() {
                self.form.replace_text(&text);
            }
            return;
        }
        let all = self.suggestions.iter();
        let choices = all
            .map(|text| choice(Ink::line(text), "suggested", CallPick::Suggestion(text.clone())));
        out.choose(ink!("suggestions"), choices.collect());
    }

    /// Asks for the file that fills the field under the cursor.
    pub(super) fn fill_file(&mut self, out: &mut Out) {
        if self.form.current().and_then(crate::form::FormRow::field).is_none() {
            return out.refuse("no field to fill on this line");
        }
        out.ask_line(LinePrompt::File, "");
    }

    /// JSON pointer of the line under the cursor.
    pub(super) fn here(&self) -> Option<&str> {
        self.form.current().map(|row| row.pointer.as_str())
    }

    /// Applies a choice from a list, or a line that was typed.
    pub fn picked(&mut self, pick: CallPick, out: &mut Out) {
        match pick {
            CallPick::Entry => {
                let server = self.subject.server.clone();
                out.intend(Intent::Pick(Pick::CopyEntry(server)));
            }
            CallPick::Page => {
                let name = file_name(&SafeText::line(&self.subject.canonical()));
                out.save(&format!("{name}.html"), self.page());
            }
            CallPick::Export(way) => out.copy(self.exported(way)),
            CallPick::Value => self.in_result(out, |view, out| view.apply(Action::Copy, out)),
            CallPick::Whole => self.in_result(out, |view, out| view.apply(Action::CopyAll, out)),
            CallPick::Suggestion(text) => {
                self.form.replace_text(&text);
                self.suggestions.clear();
            }
            CallPick::Line(LinePrompt::Search, text) => {
                self.in_result(out, |view, out| view.search(&text, out));
            }
            CallPick::Line(LinePrompt::File, path) => {
                self.filling = self.here().map(|here| (here.to_owned(), path.clone()));
                out.effect(Effect::ReadFile(self.form_token(), path.into()));
            }
            CallPick::Line(LinePrompt::Name, name) => {
                let call = Box::new(self.to_saved(self.form.arguments()));
                out.effect(Effect::SaveCall(name, call, Existing::Keep));
            }
        }
    }

    fn exported(&self, way: Export) -> String {
        let run = self.run().filter(|_| self.shares_result());
        let arguments = run.map_or_else(|| self.form.arguments(), |run| run.arguments.clone());
        let blocked = self.form.blocking() > 0 && self.form.schema_problem().is_none();
        let forced = run.map_or(blocked, |run| run.forced);
        way.text(&WrittenCall {
            subject: &self.subject,
            uri: &self.subject.expanded(&arguments).unwrap_or_default(),
            arguments: &self.form.spelled(arguments.clone()),
            validation: if forced { Validation::Force } else { Validation::Enforce },
            origin: &self.origin,
        })
    }

    /// The shown call and its result as a page, without secrets.
    fn page(&self) -> String {
        let Some(run) = self.run() else { return String::new() };
        let arguments = self.form.without_secrets(run.arguments.clone());
        let written = WrittenCall {
            subject: &self.subject,
            uri: &self.subject.expanded(&arguments).unwrap_or_default(),
            arguments: &self.form.spelled(arguments.clone()),
            validation: if run.forced { Validation::Force } else { Validation::Enforce },
            origin: &self.origin,
        };
        page(&written, &run.shared())
    }

    /// Adds the call as a step of a suite: the shown one, with its outcome, else that of the form.
    fn add_step(&self, out: &mut Out) {
        if self.subject.kind == SubjectKind::Request {
            return out.refuse("a request is no step: a step is a tool, prompt or resource");
        }
        let run = self.run().filter(|_| self.focus == CallFocus::Result);
        let step = match run {
            Some(run) => {
                let call = self.to_saved(run.arguments.clone());
                let is_error =
                    matches!(&run.state, RunState::Answered { outcome, .. } if outcome.is_error);
                let call = SavedCall { force: run.forced, ..call };
                NewStep { call, is_error, missing: Vec::new() }
            }
            None => NewStep {
                call: self.to_saved(self.form.arguments()),
                is_error: false,
                missing: self.form.missing().map(SafeText::line).collect(),
            },
        };
        out.intend(Intent::Suites(SuiteCommand::Add(vec![step])));
    }

    /// A past call of this subject as a step; `None` if it did not end with an answer.
    pub fn past_step(&self, past: &HistoryEntry) -> Option<NewStep> {
        let (word, _) = past.outcome.as_ref()?;
        let is_error = word == TOOL_ERROR_WORD;
        if self.subject.kind == SubjectKind::Request || !(is_error || word == OK_WORD) {
            return None;
        }
        let call = self.to_saved(past.arguments.clone());
        Some(NewStep { call, is_error, missing: Vec::new() })
    }

    /// The call with these arguments in the form it is saved in, without secrets.
    fn to_saved(&self, arguments: Value) -> SavedCall {
        let canonical = self.subject.canonical();
        let arguments = self.form.without_secrets(arguments);
        let mut call = SavedCall::tool(canonical.clone(), &arguments);
        match self.subject.kind {
            SubjectKind::Tool | SubjectKind::Request => {}
            SubjectKind::Prompt => call.target = SavedTarget::Prompt { prompt: canonical },
            SubjectKind::Template | SubjectKind::Resource => {
                call.arguments.clear();
                call.target = SavedTarget::Resource {
                    resource: self.subject.expanded(&arguments).unwrap_or_default(),
                    server: Some(self.subject.server.to_string()),
                };
            }
        }
        call.timeout = self.seconds;
        call
    }
}

/// The same key pressed again within this time counts as held down: keyboards wait up to 660 ms
/// before they repeat.
const HELD_KEY_INTERVAL: Duration = Duration::from_millis(700);

fn choice(words: Ink, hint: &'static str, pick: CallPick) -> Choice {
    Choice::new(words, ink!("{}", hint), Pick::Call(pick))
}

const HELP: Help = (
    "keys: calling",
    &[
        (KeyScope::Call, "calling"),
        (KeyScope::Form, "in the form"),
        (KeyScope::FormLine, "on lines that take no text"),
        (KeyScope::FormKeys, "after the key for more, in the form"),
        (KeyScope::Result, "in the result"),
        (KeyScope::ResultKeys, "after the key for more, in the result"),
    ],
);

impl Screen for CallScreen {
    fn scopes(&self) -> Vec<KeyScope> {
        Self::scopes(self)
    }

    fn help(&self) -> Option<Help> {
        Some(HELP)
    }

    fn takes_letters(&self) -> bool {
        self.focus == CallFocus::Form
    }

    /// Excludes server actions: the selected server may not be the one on the screen, and a typo in
    /// a form must not stop it.
    fn lets_through(&self, action: Action) -> bool {
        use Action as A;
        is_for_all(action)
            || crate::pane::PaneId::ALL.into_iter().any(|pane| pane.action() == action)
            || matches!(
                action,
                A::NextPane | A::PreviousPane | A::Answer | A::Why | A::Theme | A::Bell | A::Quit
            )
    }

    fn availability(&self, action: Action) -> Availability {
        let in_result = self.focus == CallFocus::Result;
        match (action, self.run()) {
            (Action::Subscribe, _) => when(self.uri().is_some(), "not a resource"),
            (Action::EditAgain, Some(_)) => {
                when(self.subject.has_arguments(&self.form.document), "no arguments")
            }
            (_, Some(run)) if in_result => {
                run.view().map_or(Ok(()), |view| view.availability(action))
            }
            _ if !in_result => self.form.availability(action),
            _ => Ok(()),
        }
    }

    fn key(&mut self, key: KeyEvent, bound: Option<Action>, ui: Ui<'_>, _out: &mut Out) -> bool {
        self.type_key(key, bound, ui.model.now)
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) {
        self.now = ui.model.now;
        self.apply(action, out);
    }

    fn paste(&mut self, text: &str, ui: Ui<'_>, _out: &mut Out) {
        Self::paste(self, text, ui.model.now);
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        match gesture {
            Gesture::Scroll { at, delta } => self.wheel(delta, at, ui.area),
            Gesture::Click(at) | Gesture::DoubleClick(at) => self.click(at, ui.area, out),
        }
    }

    fn prepare(&mut self, ui: Ui<'_>) {
        self.lay_out(ui.area, &ui.styles());
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        self.draw(cx.keymap, &cx.styles(), cx.model.now, area, buf);
    }

    fn panels(&self, area: Rect) -> Vec<Panel> {
        let regions = self.regions(area);
        let in_form = self.focus == CallFocus::Form;
        let mut title = ink!("result");
        if self.runs.len() > 1 {
            title.push(ink!(" {} of {}", self.shown + 1, self.runs.len()));
        }
        let left = regions.divider.map_or(area.right(), |divider| divider.x);
        let form = Rect { width: left.saturating_sub(area.x), ..area };
        let result = regions.result.map(|result| Rect {
            x: regions.divider.map_or(area.x, |divider| divider.right() + 1),
            y: regions
                .status
                .map_or(area.y, |status| status.y + u16::from(regions.divider.is_none())),
            width: regions.status.map_or(result.width, |status| status.width),
            ..result
        });
        let mut out = vec![Panel::new(form, ink!("call"), in_form)];
        out.extend(result.map(|area| Panel::new(area, title, !in_form)));
        out
    }

    fn placements(&self, look: &Styles, area: Rect) -> Vec<Placement> {
        let look = self.uncovered(look);
        let Some(result) = self.regions(area).result else { return Vec::new() };
        let view = self.run().and_then(CallRun::view);
        view.map_or_else(Vec::new, |view| view.placements(&look, result))
    }

    /// The line of keys at the bottom: those that have an effect now.
    fn key_line(&self, keymap: &Keymap) -> KeyLine {
        let mut keys = keymap.labels(&self.scopes());
        if self.focus == CallFocus::Form {
            // In the form, the keys of calling come first.
            keys = keymap.labels(&[KeyScope::Call, KeyScope::FormLine, KeyScope::Form]);
        } else if let Some(back) = keys.iter().position(|(.., action)| *action == Action::Back) {
            keys[..=back].rotate_right(1);
        }
        let keys = keys.into_iter().filter(|(.., action)| self.means(*action));
        let worded = |(key, word, action)| match action {
            Action::Switch if self.focus == CallFocus::Result => (key, "form"),
            Action::Open => (key, self.enters().unwrap_or(word)),
            _ => (key, word),
        };
        KeyLine::new(keys.map(worded).collect(), keymap.help_label())
    }

    fn region_at(&self, area: Rect, at: Position) -> Rect {
        let regions = self.regions(area);
        let parts = [Some(regions.form), regions.result];
        parts.into_iter().flatten().find(|part| part.contains(at)).unwrap_or(area)
    }
}
