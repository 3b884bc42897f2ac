//! The call screens of the dashboard: opened from the lists, kept while the person is elsewhere,
//! fed with what happens to their calls. Turns what they want into effects.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::base::logs::{LogRecord, LogSource};
use crate::deck::history::History;
use crate::deck::saved::{SavedCall, SavedCalls, SavedTarget};
use crate::error::Error;
use crate::host::call::CallView;
use crate::host::dev::{BuildEnd, DevView};
use crate::host::{CallOutcome, ServerState, ServerView};
use crate::mcp::capabilities::ListKind;
use crate::mcp::traffic::{Direction, TrafficRecord};
use crate::mcp::{CallId, Progress};
use crate::tui::app::screen::Open;
use crate::tui::app::{App, Redraw};
use crate::tui::call::export::Start;
use crate::tui::call::{CallScreen, Subject, SubjectKind};
use crate::tui::effect::{Effect, Existing};
use crate::tui::form::Checked;
use crate::tui::keymap::{Keymap, Scope};
use crate::tui::message::{CallPurpose, CallToken, FormToken, ViewToken};
use crate::tui::model::Model;
use crate::tui::overlay::{Confirm, Overlay};
use crate::tui::pane::PaneId;
use crate::tui::pick::{Choice, Pick};
use crate::tui::prelude::*;
use crate::tui::result::{Compared, Content, ResultView};

/// All call screens.
#[derive(Default)]
pub struct Calls {
    pub(super) screens: Vec<CallScreen>,
    /// Calls under way whose ids are known.
    pub(super) ids: HashMap<CallToken, CallId>,
    pub(super) history: History,
    pub(super) saved: SavedCalls,
    again: Again,
}

impl Calls {
    /// Screens over what is known of the past.
    pub fn new(history: History, saved: SavedCalls) -> Self {
        Self { history, saved, ..Self::default() }
    }

    /// The number of the screen of a subject, as it was left when it was open before.
    fn show(&mut self, subject: Subject, keymap: &Arc<Keymap>, now: Timestamp) -> usize {
        let key = subject.key();
        let found = self.screens.iter().position(|screen| screen.subject.key() == key);
        let index = found.unwrap_or_else(|| {
            let mut screen = CallScreen::new(subject.clone(), &self.history, now);
            screen.number = self.screens.len();
            self.screens.push(screen);
            self.screens.len() - 1
        });
        if found.is_some() {
            self.screens[index].redefine(subject);
        }
        self.screens[index].keymap = Arc::clone(keymap);
        index
    }
}

impl App {
    /// Does what a call screen wants.
    pub(super) fn wanted(&mut self, wanted: Vec<Effect>) {
        for effect in wanted {
            self.absorb_effect(effect);
        }
    }

    /// Keeps half-filled forms for another run of the program.
    pub(super) fn keep_drafts(&mut self) {
        for screen in &mut self.calls.screens {
            self.effects.extend(screen.draft());
        }
    }

    // What call screens want done elsewhere: checks and pictures of the open one; files that are to be
    // written; links that are followed; resources that changed on their server.

    /// Work for other threads: comparisons of every screen, one check and one picture at a time of
    /// the open one.
    pub(super) fn call_work(&mut self) {
        for (index, screen) in self.calls.screens.iter_mut().enumerate() {
            while let Some((run, job)) = screen.compare_job() {
                let token = ViewToken { screen: index as u64, run };
                self.effects.push(Effect::Compare(token, Box::new(job)));
            }
        }
        let Some(open) = self.open_call_number() else { return };
        let look = self.cx(self.overlays.is_empty()).look();
        let area = self.layout().map(|layout| layout.screen());
        let Some(screen) = self.calls.screens.get_mut(open) else { return };
        if let Some(job) = screen.pending_check() {
            self.effects.push(Effect::Check(FormToken(open as u64), Box::new(job)));
        }
        let Some(area) = area else { return };
        if screen.has_pictures() {
            screen.lay_out(area, &look);
            if let Some((run, job)) = screen.picture_job() {
                let token = ViewToken { screen: open as u64, run };
                self.effects.push(Effect::Picture(token, Box::new(job)));
            }
        }
    }

    /// Opens the screen of a subject. What is copied there names the configuration, unless the
    /// program finds it by itself in this folder.
    pub(super) fn show_call(&mut self, subject: Subject) {
        let number = self.calls.show(subject, &self.keymap, self.model.now);
        self.push_screen(Open::Call(number));
        let files: Vec<PathBuf> = self.model.files.iter().map(|f| f.path.clone()).collect();
        let is_here = |path: &PathBuf| {
            *path == self.setup.folder.join("mcp.json") || path.as_os_str() == "mcp.json"
        };
        let found = matches!(files.as_slice(), [only] if is_here(only));
        let mut origin = self.setup.origin.clone();
        if let Start::Files(named) = &mut origin.start {
            *named = if found { Vec::new() } else { files };
        }
        if let Some(screen) = self.call_screen() {
            screen.origin = origin;
        }
    }

    pub(super) fn call_checked(&mut self, token: FormToken, found: Checked) {
        let index = token.0 as usize;
        let Some(screen) = self.calls.screens.get_mut(index) else { return };
        let wanted = screen.checked(found);
        self.mark(Redraw::Now);
        // A call that waited is only made from the screen the person still looks at.
        if self.open_call_number() == Some(index) {
            self.wanted(wanted);
        }
    }

    /// Hands a view of a result what was found out for it elsewhere.
    pub(super) fn of_view(&mut self, token: ViewToken, hand: impl FnOnce(&mut ResultView)) {
        let screen = self.calls.screens.get_mut(token.screen as usize);
        if let Some(view) = screen.and_then(|screen| screen.view_of(token.run)) {
            hand(view);
            self.mark(Redraw::Soon);
        }
    }

    pub(super) fn compared(&mut self, token: ViewToken, found: Compared) {
        if let Some(screen) = self.calls.screens.get_mut(token.screen as usize) {
            screen.compared(token.run, found);
            self.mark(Redraw::Now);
        }
    }

    pub(super) fn ask_to_replace(&mut self, path: PathBuf, content: Content) {
        let shown = path.display().to_string();
        let yes = vec![Effect::SaveAs { path, content, existing: Existing::Replace }];
        let title = ink!("replace the file?");
        let lines = vec![Ink::line(&shown), ink!("Its present content is lost.")];
        self.push_overlay(Overlay::Confirm(Confirm::new(title, lines, yes)));
    }

    /// Follows a link of a result: to the resources of its server, with that one read. Only the
    /// server is asked; nothing is fetched from anywhere else.
    pub(super) fn open_link(&mut self, server: &ServerName, uri: &str) {
        let view = self.model.server(server);
        let listed = view.and_then(|view| subject_of(view, ListKind::Resources, uri));
        let limits = view.map(|view| view.limits).unwrap_or_default();
        let subject = listed.unwrap_or_else(|| Subject { limits, ..Subject::uri(server, uri) });
        self.show(PaneId::Resources);
        self.panes.resources.go_to(server, uri);
        self.show_call(subject);
        self.read_if_new();
    }

    /// Resources changed on servers: those that are looked at are read again or marked.
    pub(super) fn resources_updated(&mut self, records: &[Arc<TrafficRecord>]) {
        if self.calls.screens.is_empty() {
            return;
        }
        for record in records {
            let is_update = record.direction == Direction::In
                && record.method.as_deref() == Some("notifications/resources/updated");
            let Some(uri) = is_update.then(|| updated_uri(&record.body)).flatten() else {
                continue;
            };
            for index in 0..self.calls.screens.len() {
                let screen = &mut self.calls.screens[index];
                if screen.subject.server == record.server {
                    screen.now_is(self.model.now);
                    let wanted = screen.resource_updated(&uri);
                    self.wanted(wanted);
                    self.mark(Redraw::Soon);
                }
            }
        }
    }

    /// Time went on: completions, elapsed time.
    pub(super) fn call_tick(&mut self, now: Timestamp) {
        let running = self.calls.screens.iter().any(|screen| screen.in_flight() > 0);
        let open = self.open_call_number();
        if running && open.is_some() {
            self.mark(Redraw::Soon);
        }
        // Forms that were left are kept too, a moment later than they were typed.
        for index in 0..self.calls.screens.len() {
            let screen = &mut self.calls.screens[index];
            if open == Some(index) || screen.wake().is_some_and(|at| now >= at) {
                let wanted = screen.tick(now);
                self.wanted(wanted);
            }
        }
    }

    /// When the open screen needs to know the time.
    pub(super) fn call_wake(&self) -> Option<Timestamp> {
        let open = self.open_call_number().and_then(|open| self.calls.screens.get(open));
        let runs = open.is_some_and(|screen| screen.in_flight() > 0);
        let running = runs.then(|| self.model.now.plus(TICK));
        self.calls.screens.iter().filter_map(CallScreen::wake).chain(running).min()
    }

    /// A call has ended; gives whether it was one of these screens'.
    pub(super) fn call_ended(&mut self, token: CallToken, result: Result<CallOutcome, Error>) {
        if let Some(id) = self.calls.ids.remove(&token) {
            self.model.call_ended(id);
        }
        let open = self.open_call_number();
        let Some(screen) = self.calls.screens.get_mut(token.screen) else { return };
        match (token.what, result) {
            (CallPurpose::Completion(ticket), Ok(outcome)) => {
                screen.suggested(ticket, &outcome.result);
            }
            // A server that cannot complete is no reason to disturb typing.
            (CallPurpose::Completion(_), Err(_)) => {}
            (CallPurpose::Run(run), result) => {
                let label = screen.subject.label.clone();
                let refresh = screen.is_refresh(run);
                let elsewhere = open != Some(token.screen);
                let failed = result.as_ref().err().map(|error| error.code);
                let wanted = screen.ended(run, result);
                if elsewhere && !refresh {
                    match failed {
                        None => self.toast(ink!("{} finished", &label), Role::Ok),
                        Some(code) => self.toast(ink!("{} failed: {}", &label, code), Role::Error),
                    }
                }
                self.wanted(wanted);
            }
        }
        self.mark(Redraw::Now);
    }

    /// A call made progress.
    pub(super) fn call_progress(&mut self, token: CallToken, progress: Progress) {
        self.calls.ids.insert(token, progress.call);
        let screen = self.calls.screens.get_mut(token.screen);
        if let (Some(screen), CallPurpose::Run(run)) = (screen, token.what) {
            screen.progress(run, progress);
            self.mark(Redraw::Soon);
        }
    }

    /// What the engine knows of calls in flight.
    pub(super) fn calls_followed(&mut self, views: &[CallView]) {
        for (token, id) in &self.calls.ids {
            let view = views.iter().find(|view| view.id == *id);
            let screen = self.calls.screens.get_mut(token.screen);
            if let (Some(view), Some(screen), CallPurpose::Run(run)) = (view, screen, token.what) {
                screen.follow(run, view, self.model.now);
            }
        }
    }

    /// Log notifications go to the calls that run on their server.
    pub(super) fn calls_logged(&mut self, records: &[Arc<LogRecord>]) {
        for record in records.iter().filter(|r| r.source == LogSource::Notification) {
            let Some(server) = &record.server else { continue };
            for screen in &mut self.calls.screens {
                if screen.subject.server == *server && screen.in_flight() > 0 {
                    screen.log(&record.text);
                }
            }
        }
    }

    /// Definitions may have changed: forms follow, values stay.
    pub(super) fn calls_redefined(&mut self) {
        let view = Arc::clone(&self.model.view);
        for screen in &mut self.calls.screens {
            let subject = &screen.subject;
            let Some(server) = view.servers.get(&subject.server) else { continue };
            let list = match subject.kind {
                SubjectKind::Tool => ListKind::Tools,
                SubjectKind::Prompt => ListKind::Prompts,
                SubjectKind::Template => ListKind::ResourceTemplates,
                SubjectKind::Resource | SubjectKind::Request => continue,
            };
            let now = subject_of(server, list, &subject.wire);
            if let Some(now) = now.filter(|now| now != subject) {
                screen.redefine(now);
            }
        }
    }

    /// The editor of a call or an answer was closed.
    pub(super) fn edited(&mut self, token: FormToken, text: Result<String, SafeText>) {
        match (text, token.answers()) {
            (Ok(text), Some(id)) => {
                if let Some(answering) = self.answers.screens.get_mut(&id) {
                    answering.replace_text(text.trim_end_matches('\n'));
                }
            }
            (Ok(text), None) => {
                if let Some(screen) = self.calls.screens.get_mut(token.0 as usize) {
                    screen.edited(&text);
                }
            }
            (Err(reason), _) => self.toast(Ink::from(&reason), Role::Warning),
        }
        self.mark(Redraw::Now);
    }

    /// A file was read for a field.
    pub(super) fn call_file(&mut self, token: FormToken, bytes: Result<Vec<u8>, SafeText>) {
        match (self.calls.screens.get_mut(token.0 as usize), bytes) {
            (Some(screen), Ok(bytes)) => {
                let wanted = screen.file_read(&bytes);
                self.wanted(wanted);
            }
            (_, Err(reason)) => self.toast(Ink::from(&reason), Role::Warning),
            (None, Ok(_)) => {}
        }
        self.mark(Redraw::Now);
    }

    /// Opens the call screen of an entry of a server.
    pub(super) fn open_call(&mut self, server: &ServerName, list: ListKind, wire: &str) {
        let Some(view) = self.model.server(server) else { return };
        let Some(subject) = subject_of(view, list, wire) else { return };
        self.show_call(subject);
        self.read_if_new();
    }

    fn read_if_new(&mut self) {
        let wanted = self.call_screen().map(CallScreen::read_if_new).unwrap_or_default();
        self.wanted(wanted);
    }

    /// Opens the form of a JSON-RPC request to a server; with one given, sends that.
    pub(super) fn send_request(&mut self, server: &ServerName, request: Option<Value>) {
        let Some(subject) = self.model.server(server).map(|view| request_of(view)) else { return };
        self.show_call(subject);
        let Some((screen, request)) = self.call_screen().zip(request) else { return };
        screen.take_past(request);
        let wanted = screen.apply(Action::Send);
        self.wanted(wanted);
    }

    /// Opens a saved call, filled in; gives it, when there is one and a server offers what it calls.
    pub(super) fn open_saved_call(&mut self, name: &str) -> Option<SavedCall> {
        let call = self.calls.saved.get(name).ok()?.clone();
        let found = self.model.view.servers.iter().find_map(|(server, view)| {
            let subject = |list, wire: &str| subject_of(view, list, wire);
            match &call.target {
                SavedTarget::Tool { tool } => {
                    subject(ListKind::Tools, tool.strip_prefix(server.as_str())?.get(1..)?)
                }
                SavedTarget::Prompt { prompt } => {
                    subject(ListKind::Prompts, prompt.strip_prefix(server.as_str())?.get(1..)?)
                }
                SavedTarget::Resource { resource, server: wanted } => wanted
                    .as_deref()
                    .is_none_or(|wanted| wanted == server.as_str())
                    .then(|| Subject { limits: view.limits, ..Subject::uri(server, resource) }),
            }
        });
        let Some(subject) = found else {
            let words = ink!("no server offers what {} calls", Ink::line(name));
            self.toast(words, Role::Warning);
            return None;
        };
        self.show_call(subject);
        if let Some(screen) = self.call_screen() {
            screen.take_up(&call);
        }
        Some(call)
    }

    /// The calls of the past, to be taken into their forms; those of the open call screen first.
    pub(super) fn choose_history(&mut self) {
        let open = self.call_screen().map(|screen| screen.subject.key());
        let mut all = self.calls.history.all();
        all.sort_by_key(|(target, _)| open.as_deref() != Some(*target));
        let choices = all.into_iter().take(PAST).map(|(target, entry)| {
            let at = Timestamp(entry.at);
            let how = match &entry.outcome {
                Some((word, millis)) => {
                    ink!("{} {}", Ink::line(word), Dur(Duration::from_millis(*millis)))
                }
                None => ink!("outcome unknown"),
            };
            let arguments = Ink::line(&cut(&entry.arguments.to_string()));
            Choice::new(
                ink!("{} {}", Ink::line(target), arguments),
                ink!("{}, {}", how, self.model.when(at)),
                Pick::Past(target.to_owned(), entry.id),
            )
        });
        let choices: Vec<Choice> = choices.collect();
        if choices.is_empty() {
            return self.toast(ink!("No calls yet"), Role::Ok);
        }
        self.choose(ink!("call history"), choices);
    }

    /// Takes the arguments of a call of the past into its form.
    pub(super) fn open_past(&mut self, target: &str, id: u64) {
        let entry = self.calls.history.of(target).iter().find(|entry| entry.id == id).cloned();
        let mut views = self.model.view.servers.iter();
        let subject = views.find_map(|(server, view)| named(server, view, target));
        let (Some(entry), Some(subject)) = (entry, subject) else {
            let words = ink!("no server offers {} now", Ink::line(target));
            return self.toast(words, Role::Warning);
        };
        self.show_call(subject);
        if let Some(screen) = self.call_screen() {
            screen.take_past(entry.arguments);
        }
    }

    /// Makes a saved call, as if it had been opened and sent.
    pub(super) fn make_saved_call(&mut self, name: &str) {
        let Some(call) = self.open_saved_call(name) else { return };
        let Some(screen) = self.call_screen() else { return };
        let wanted = screen.make(&call);
        self.wanted(wanted);
    }

    /// The saved calls, to be made or opened.
    pub(super) fn call_choices(&self) -> impl Iterator<Item = Choice> {
        self.calls.saved.calls.keys().flat_map(|name| {
            let choice = |words, pick| Choice::new(words, ink!("saved call"), pick);
            let shown = Ink::line(name);
            [
                choice(ink!("Make the saved call {}", &shown), Pick::MakeCall(name.clone())),
                choice(ink!("Open the saved call {}", &shown), Pick::SavedCall(name.clone())),
            ]
        })
    }

    /// Whatever the servers offer, to be filled in and called.
    pub(super) fn offer_choices(&self) -> impl Iterator<Item = Choice> {
        self.model.servers().flat_map(|server| {
            let all = &server.capabilities;
            let disabled = (!server.state.is_callable()).then(|| ink!("{}", server.state.as_str()));
            let name = Model::name(&server.name);
            let choice = move |verb: &'static str, label: &SafeText, list, wire: &_| Choice {
                words: ink!("{} {}.{}", verb, &name, label),
                hint: ink!("{}", kind(list)),
                pick: Pick::Offer(server.name.clone(), list, Arc::clone(wire)),
                disabled: disabled.clone(),
            };
            let tools = all.tools.iter().map(|t| ("Call", &t.label, ListKind::Tools, &t.name));
            let prompts = all.prompts.iter().map(|p| ("Get", &p.label, ListKind::Prompts, &p.name));
            let resources =
                all.resources.iter().map(|r| ("Read", &r.label, ListKind::Resources, &r.uri));
            let templates = all.templates.iter();
            let templates =
                templates.map(|t| ("Read", &t.label, ListKind::ResourceTemplates, &t.uri_template));
            let offers = tools.chain(prompts).chain(resources).chain(templates);
            offers.map(move |(verb, label, list, wire)| choice(verb, label, list, wire))
        })
    }

    /// The server of the open call screen.
    pub(super) fn open_server(&self) -> Option<ServerName> {
        let screen = self.calls.screens.get(self.open_call_number()?)?;
        Some(screen.subject.server.clone())
    }

    /// The server whose repeating can be switched now.
    pub(super) fn rerun_target(&self) -> Option<ServerName> {
        let server = self.open_server().or_else(|| self.target_server())?;
        self.model.server(&server)?.dev.as_ref().map(|_| server)
    }

    /// Switches whether the last call is made again after a restart by changed sources.
    pub(super) fn switch_rerun(&mut self) {
        let Some(server) = self.rerun_target() else { return };
        let repeats = !self.repeats(&server);
        let name = Model::name(&server);
        let said = if repeats {
            ink!("the last call to {} is repeated when sources change", name)
        } else {
            ink!("calls to {} are not repeated", name)
        };
        self.calls.again.repeats.insert(server, repeats);
        self.toast(said, Role::Ok);
    }

    /// Whether calls to a server are made again.
    fn repeats(&self, server: &ServerName) -> bool {
        let wanted = || self.model.entry(server)?.dev.as_ref().map(|dev| dev.rerun);
        let choice = self.calls.again.repeats.get(server).copied();
        choice.or_else(wanted).unwrap_or_default()
    }

    /// What the call screen says of a server's sources.
    pub(super) fn dev_words(&self, server: &ServerName) -> Option<SafeText> {
        let view = self.model.server(server)?;
        let dev = view.dev.as_ref()?;
        let repeats = if self.repeats(server) {
            "repeated when sources change"
        } else {
            "{rerun} repeats the call when sources change"
        };
        let repeats = self.keymap.spelled(&[Scope::Global], repeats);
        let now = match dev.build.as_ref().map(|build| &build.end) {
            Some(None) => "building".to_owned(),
            Some(Some((BuildEnd::Failed(_) | BuildEnd::Refused(_), _))) => {
                "build failed, the previous build keeps running".to_owned()
            }
            _ if view.state != ServerState::Ready => view.state.as_str().to_owned(),
            _ => return Some(SafeText::line(repeats.as_str())),
        };
        Some(SafeText::line(&format!("{now} · {}", repeats.as_str())))
    }

    /// Tells builds and restarts of the newest view, and makes calls again.
    pub(super) fn sources_followed(&mut self) {
        let view = Arc::clone(&self.model.view);
        self.calls.again.seen.retain(|server, _| view.servers.contains_key(server));
        for server in view.servers.values() {
            let Some(dev) = &server.dev else { continue };
            self.build_followed(server, dev);
            let seen = self.calls.again.seen.entry(server.name.clone()).or_default();
            if dev.taken > seen.taken {
                seen.restarting = Some(changed(dev));
            }
            seen.taken = dev.taken;
            match server.state {
                ServerState::Ready => {
                    if let Some(because) = seen.restarting.take() {
                        self.came_back(server, because);
                    }
                }
                ServerState::Unavailable
                    if server.retry_at.is_none() && seen.restarting.take().is_some() =>
                {
                    let name = Model::name(&server.name);
                    let text = ink!("{} does not start with the changed sources", name);
                    self.toast(text, Role::Error);
                }
                _ => {}
            }
        }
    }

    fn build_followed(&mut self, server: &ServerView, dev: &DevView) {
        let Some(build) = &dev.build else { return };
        let how = match &build.end {
            Some((BuildEnd::Failed(exit), _)) => exit.describe(),
            Some((BuildEnd::Refused(_), _)) => "it could not be started".to_owned(),
            _ => return,
        };
        // Views skip what passes quickly: two builds may be seen without a running one between.
        let seen = self.calls.again.seen.entry(server.name.clone()).or_default();
        if seen.reported.replace(build.began) == Some(build.began) {
            return;
        }
        let name = Model::name(&server.name);
        let text =
            ink!("build failed: {}; the previous build of {} keeps running", Ink::line(&how), name);
        self.toast(text, Role::Error);
    }

    fn came_back(&mut self, server: &ServerView, because: SafeText) {
        let text = ink!("{} restarted: {}", Model::name(&server.name), &because);
        self.toast(text, Role::Ok);
        if !self.repeats(&server.name) {
            return;
        }
        let screens = self.calls.screens.iter().enumerate();
        let last = screens
            .filter(|(_, screen)| screen.subject.server == server.name)
            .filter_map(|(at, screen)| Some((screen.runs.last()?.began, at)))
            .max();
        let Some((_, at)) = last else { return };
        let now = self.model.now;
        let Some(screen) = self.calls.screens.get_mut(at) else { return };
        let wanted = screen.made_again(because, now);
        self.wanted(wanted);
    }
}

fn subject_of(view: &ServerView, list: ListKind, wire: &str) -> Option<Subject> {
    let (server, capabilities) = (&view.name, &view.capabilities);
    let subject = match list {
        ListKind::Tools => {
            let tool = capabilities.tools.iter().find(|t| &*t.name == wire)?;
            Subject::tool(server, tool)
        }
        ListKind::Prompts => {
            let prompt = capabilities.prompts.iter().find(|p| &*p.name == wire)?;
            Subject::prompt(server, prompt)
        }
        ListKind::Resources => {
            let resource = capabilities.resources.iter().find(|r| &*r.uri == wire)?;
            Subject::resource(server, resource)
        }
        ListKind::ResourceTemplates => {
            let template = capabilities.templates.iter().find(|t| &*t.uri_template == wire)?;
            Subject::template(server, template)
        }
    };
    Some(Subject { limits: view.limits, target: view.target.clone(), ..subject })
}

/// The URI of `notifications/resources/updated` (MCP, server features, resources).
fn updated_uri(body: &str) -> Option<String> {
    let message: Value = serde_json::from_str(body).ok()?;
    message.pointer("/params/uri")?.as_str().map(str::to_owned)
}

// What happens to calls and forms from outside: time, answers, progress, logs, changed
// definitions, files.

/// Time between frames while a call runs and nothing else happens.
const TICK: Duration = Duration::from_millis(100);

// What can be called by its name: saved calls, and whatever the servers offer. Opens their screens.

/// Most calls of the past that are listed.
const PAST: usize = 500;

/// What of a server a target of the history names ([`Subject::key`]).
fn named(server: &ServerName, view: &ServerView, target: &str) -> Option<Subject> {
    if target.strip_prefix("request:") == Some(server.as_str()) {
        return Some(request_of(view));
    }
    let of = |list, wire: &str| subject_of(view, list, wire);
    if let Some(uri) = target.strip_prefix("uri:") {
        let uri = uri.strip_prefix(server.as_str())?.strip_prefix(':')?;
        let known = of(ListKind::Resources, uri).or_else(|| of(ListKind::ResourceTemplates, uri));
        return known
            .or_else(|| Some(Subject { limits: view.limits, ..Subject::uri(server, uri) }));
    }
    let (list, name) = match target.strip_prefix("prompt:") {
        Some(name) => (ListKind::Prompts, name),
        None => (ListKind::Tools, target),
    };
    of(list, name.strip_prefix(server.as_str())?.strip_prefix('.')?)
}

/// Any request to a server.
fn request_of(view: &ServerView) -> Subject {
    Subject { limits: view.limits, target: view.target.clone(), ..Subject::request(&view.name) }
}

/// The beginning of arguments, for a row.
fn cut(text: &str) -> String {
    text.chars().take(300).collect()
}

const fn kind(list: ListKind) -> &'static str {
    match list {
        ListKind::Tools => "tool",
        ListKind::Prompts => "prompt",
        ListKind::Resources => "resource",
        ListKind::ResourceTemplates => "template",
    }
}

// The everyday loop: a server restarts because its sources changed, and the last call to it is made
// again. Says what happened; whether calls are repeated is the entry's (`dev.rerun`) or the
// person's word.

/// What is known of restarts, and of what the person wants repeated.
#[derive(Default)]
struct Again {
    /// What the person switched, by server.
    repeats: HashMap<ServerName, bool>,
    seen: HashMap<ServerName, Seen>,
}

/// What was seen of a server.
#[derive(Default)]
struct Seen {
    taken: u64,
    /// A restart that is under way, with what changed.
    restarting: Option<SafeText>,
    /// When the failed build began that was reported last.
    reported: Option<Timestamp>,
}

/// What changed, and how long the build took.
fn changed(dev: &DevView) -> SafeText {
    let build = dev.build.as_ref().and_then(|build| build.end.as_ref());
    let build = match build {
        Some((BuildEnd::Done, took)) => format!(" · build {}", Dur(*took)),
        _ => String::new(),
    };
    SafeText::line(&format!("{} changed{build}", dev.changed_words()))
}
