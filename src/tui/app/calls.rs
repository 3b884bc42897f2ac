//! The call screens of the dashboard: kept after they are closed and updated with the progress of
//! their calls. `app/screens.rs` owns which of them is open.

use std::collections::HashMap;

use crate::call::{CallAsk, CallScreen, CallSubject, SubjectKind};
use crate::effect::Effect;
use crate::message::{CallPurpose, CallToken, FormToken, ViewToken};
use crate::model::{Model, Todo};
use crate::pane::{Out, Redraw};
use crate::pick::{CallPick, Choice, Pick};
use crate::prelude::*;
use crate::result::ResultView;
use base::logs::{LogRecord, LogSource};
use base::text::json::WrittenValue;
use config::error::{Error, ErrorCode};
use deck::{History, ResourceUpdates, SavedCall, SavedCalls, SavedTarget};
use host::{
    ApprovalRequest, BuildEnd, CallOutcome, CallView, DevView, HostView, ServerState, ServerView,
};
use protocol::{ApprovalId, CallId, ListKind};
use serde_json::json;
use terminal::look::Styles;

/// Time between frames while a call runs and nothing else happens.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum number of past calls that are listed.
const MAX_PAST_CALLS: usize = 500;
/// Characters of the arguments of a past call that are listed.
const MAX_PAST_CHARS: usize = 60;

/// All call screens.
#[derive(Default)]
pub struct Calls {
    pub(super) screens: Vec<CallScreen>,
    /// Running calls whose ids are known.
    pub(super) ids: HashMap<CallToken, CallId>,
    pub(super) history: History,
    pub(super) saved: SavedCalls,
    /// What was shared last.
    shared: Option<CallPick>,
    /// Builds and restarts seen so far, by server.
    seen: HashMap<ServerName, SeenServer>,
}

impl Calls {
    /// No screens yet, with the call history and the saved calls.
    pub fn new(history: History, saved: SavedCalls) -> Self {
        Self { history, saved, ..Self::default() }
    }

    /// The number of the screen of a subject; reuses the one that was open before.
    pub(super) fn show(&mut self, subject: CallSubject, now: Timestamp) -> usize {
        let key = subject.key();
        let found = self.screens.iter().position(|screen| screen.subject.key() == key);
        if let Some(index) = found {
            self.screens[index].redefine(subject);
            return index;
        }
        let mut screen = CallScreen::new(subject, &self.history, now);
        screen.number = self.screens.len();
        screen.shared.clone_from(&self.shared);
        self.screens.push(screen);
        self.screens.len() - 1
    }

    /// The number of the screen of an entry, if it was opened before.
    pub(super) fn screen_of(
        &self,
        server: &ServerName,
        list: ListKind,
        wire: &str,
    ) -> Option<usize> {
        let kind = match list {
            ListKind::Tools => SubjectKind::Tool,
            ListKind::Prompts => SubjectKind::Prompt,
            ListKind::Resources => SubjectKind::Resource,
            ListKind::ResourceTemplates => SubjectKind::Template,
        };
        let is_it = |subject: &CallSubject| {
            subject.kind == kind && subject.server == *server && &*subject.wire == wire
        };
        self.screens.iter().position(|screen| is_it(&screen.subject))
    }

    /// Saves half-filled forms for the next run.
    pub(super) fn keep_drafts(&mut self, out: &mut Out) {
        for screen in &mut self.screens {
            screen.draft(out);
        }
    }

    /// Queues work of the open screen for other threads: one check and one picture at a time.
    pub(super) fn work(
        &mut self,
        open: Option<usize>,
        look: &Styles,
        area: Option<Rect>,
        out: &mut Out,
    ) {
        let Some(open) = open else { return };
        let Some(screen) = self.screens.get_mut(open) else { return };
        if let Some(job) = screen.form.pending_check() {
            out.effect(Effect::Check(FormToken::Call(open), Box::new(job)));
        }
        let Some(area) = area.filter(|_| screen.has_pictures()) else { return };
        screen.lay_out(area, look);
        if let Some((run, job)) = screen.picture_job() {
            let token = ViewToken { screen: open, run };
            out.effect(Effect::Picture(token, Box::new(job)));
        }
    }

    /// The result view that a token refers to, if it still exists.
    pub(super) fn view_of(&mut self, token: ViewToken) -> Option<&mut ResultView> {
        self.screens.get_mut(token.screen)?.view_of(token.run)
    }

    /// Handles updates of resources: those shown are read again or marked as stale; all of them if
    /// updates were missed.
    pub(super) fn resources_updated(
        &mut self,
        updates: &ResourceUpdates,
        now: Timestamp,
        out: &mut Out,
    ) {
        for screen in &mut self.screens {
            let mine = updates.resources.iter().filter(|one| one.server == screen.subject.server);
            let count = mine.map(|one| screen.updates_in(one)).sum();
            if count > 0 || updates.missed {
                screen.now_is(now);
                screen.resource_updated(count, out);
                out.mark(Redraw::Soon);
            }
        }
    }

    /// Advances the time: completions, elapsed time, and the debounced saving of drafts, which also
    /// happens for closed screens.
    pub(super) fn tick(&mut self, now: Timestamp, open: Option<usize>, out: &mut Out) {
        if open.is_some() && self.screens.iter().any(|screen| screen.in_flight() > 0) {
            out.mark(Redraw::Soon);
        }
        for (index, screen) in self.screens.iter_mut().enumerate() {
            if open == Some(index) || screen.wake().is_some_and(|at| now >= at) {
                screen.tick(now, out);
            }
        }
    }

    /// When [`Calls::tick`] has to be called next.
    pub(super) fn wake(&self, now: Timestamp, open: Option<usize>) -> Option<Timestamp> {
        let runs = open.and_then(|open| self.screens.get(open)).is_some_and(|s| s.in_flight() > 0);
        let running = runs.then(|| now.plus(FRAME_INTERVAL));
        self.screens.iter().filter_map(CallScreen::wake).chain(running).min()
    }

    /// Handles the end of a call.
    pub(super) fn ended(
        &mut self,
        token: CallToken,
        result: Result<CallOutcome, Error>,
        now: Timestamp,
        open: Option<usize>,
        out: &mut Out,
    ) {
        let Some(screen) = self.screens.get_mut(token.screen) else { return };
        screen.now_is(now);
        match (token.what, result) {
            (CallPurpose::Completion(ticket), Ok(outcome)) => {
                screen.suggested(ticket, &outcome.result);
            }
            // A failed completion must not interrupt typing.
            (CallPurpose::Completion(_), Err(_)) => {}
            (CallPurpose::Run(run), result) => {
                let failed = result.as_ref().err().map(|error| error.code);
                if open != Some(token.screen) && !screen.is_refresh(run) {
                    let label = &screen.subject.label;
                    match failed {
                        None => out.say(ink!("{} finished", label)),
                        Some(ErrorCode::Cancelled) => out.say(ink!("{} cancelled", label)),
                        Some(code) => {
                            out.toast(ink!("{} failed: {}", label, code.words()), Role::Error);
                        }
                    }
                }
                screen.ended(run, result, out);
            }
        }
    }

    /// Updates running calls from the engine's views.
    pub(super) fn follow(&mut self, views: &[CallView], model: &Model) {
        for (token, id) in &self.ids {
            let view = views.iter().find(|view| view.id == *id);
            let screen = self.screens.get_mut(token.screen);
            if let (Some(view), Some(screen), CallPurpose::Run(run)) = (view, screen, token.what) {
                let asks = requests_of_call(*id, &model.view).into_iter().map(|pending| {
                    let (what, says) = Todo::Request(pending.id).words(model);
                    let line = |ink: &Ink| SafeText::line(ink.as_str());
                    CallAsk { id: pending.id, what: line(&what), says: line(&says) }
                });
                let asks = if view.is_waiting { asks.collect() } else { Vec::new() };
                screen.follow(run, view, asks, model.now);
            }
        }
    }

    /// Adds log notifications to the calls that run on their server.
    pub(super) fn log(&mut self, records: &[Arc<LogRecord>], now: Timestamp) {
        for record in records.iter().filter(|r| r.source == LogSource::Notification) {
            let Some(server) = &record.server else { continue };
            for screen in self.screens.iter_mut().filter(|s| s.subject.server == *server) {
                screen.log(&record.text, now);
            }
        }
    }

    /// Updates the forms of changed definitions; entered values are kept.
    pub(super) fn redefine(&mut self, view: &HostView) {
        for screen in &mut self.screens {
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

    /// A saved call, with its subject if a server offers it.
    pub(super) fn saved(
        &self,
        name: &str,
        view: &HostView,
    ) -> Option<(SavedCall, Option<CallSubject>)> {
        let call = self.saved.get(name).ok()?.clone();
        let found = subject_of_call(&call, view);
        Some((call, found))
    }

    /// Past calls to load into their forms; those of subject `first` come first.
    pub(super) fn past(&self, first: Option<&str>, model: &Model) -> Vec<Choice> {
        let mut all = self.history.all();
        all.sort_by_key(|(target, _)| first != Some(*target));
        let choices = all.into_iter().take(MAX_PAST_CALLS).map(|(target, entry)| {
            let how = match &entry.outcome {
                Some((word, millis)) => {
                    ink!("{} {}", Ink::line(word), Dur(Duration::from_millis(*millis)))
                }
                None if self.is_running(entry.id) => ink!("running"),
                None => ink!("outcome unknown"),
            };
            // The name is what is looked for, so the arguments are cut before it is.
            let arguments = SafeText::cut(&entry.arguments.to_string(), MAX_PAST_CHARS);
            Choice::new(
                ink!("{} {}", Ink::line(target), &arguments),
                ink!("{}, {}", how, model.when(Timestamp(entry.at))),
                Pick::Past(target.to_owned(), entry.id),
            )
        });
        choices.collect()
    }

    /// Remembers what was shared, to offer it first.
    pub(super) fn remember_share(&mut self, pick: &CallPick) {
        use CallPick::{Entry, Export, Page, Value, Whole};
        if matches!(pick, Export(_) | Entry | Page | Value | Whole) {
            self.shared = Some(pick.clone());
            for screen in &mut self.screens {
                screen.shared.clone_from(&self.shared);
            }
        }
    }

    /// Whether the call with this record in the history is running.
    fn is_running(&self, record: u64) -> bool {
        let mut runs = self.screens.iter().flat_map(|screen| &screen.runs);
        runs.any(|run| run.record == Some(record) && run.is_running())
    }

    /// The request that the shown call of a screen waits for: one sent during it, or else one that
    /// may have been.
    pub(super) fn waits_for(&self, screen: usize, view: &HostView) -> Option<ApprovalId> {
        Some(requests_of_call(self.running(screen)?, view).first()?.id)
    }

    /// The id of the running call that a screen shows.
    pub(super) fn running(&self, screen: usize) -> Option<CallId> {
        let screen = self.screens.get(screen)?;
        let run = screen.run().filter(|run| run.is_running())?;
        self.ids.get(&screen.token(CallPurpose::Run(run.number))).copied()
    }

    /// Choices to make or open each saved call.
    pub(super) fn choices(&self) -> impl Iterator<Item = Choice> {
        self.saved.calls.keys().flat_map(|name| {
            let choice = |words, pick| Choice::new(words, ink!("saved call"), pick);
            let shown = Ink::line(name);
            [
                choice(ink!("Make the saved call {}", &shown), Pick::MakeCall(name.clone())),
                choice(ink!("Open the saved call {}", &shown), Pick::SavedCall(name.clone())),
            ]
        })
    }

    /// Reports failed builds and restarts in the newest view, and repeats calls after a restart.
    pub(super) fn sources_followed(&mut self, model: &Model, out: &mut Out) {
        let servers = &model.view.servers;
        self.seen.retain(|server, _| servers.contains_key(server));
        for server in servers.values() {
            let Some(dev) = &server.dev else { continue };
            let name = Model::name(&server.name);
            let seen = self.seen.entry(server.name.clone()).or_default();
            if let Some(how) = seen.failed_build(dev) {
                let text =
                    ink!("build failed: {}; the previous build of {} keeps running", how, &name);
                out.toast(text, Role::Error);
            }
            if dev.taken > seen.taken {
                seen.restarting = Some(changed(dev));
            }
            seen.taken = dev.taken;
            if server.state == ServerState::Ready
                && let Some(because) = seen.restarting.take()
            {
                out.say(ink!("{} restarted: {}", name, &because));
                self.make_again(&server.name, because, model, out);
            }
        }
    }

    /// Repeats the last call to a server if its entry sets `dev.rerun`.
    fn make_again(&mut self, server: &ServerName, because: SafeText, model: &Model, out: &mut Out) {
        if !repeats(server, model) {
            return;
        }
        let screens = self.screens.iter_mut().filter(|screen| screen.subject.server == *server);
        let last = screens.max_by_key(|screen| screen.runs.last().map(|run| run.began));
        if let Some(screen) = last {
            screen.made_again(because, model.now, out);
        }
    }
}

/// The open requests that were sent during a call, or else the first that may have been.
fn requests_of_call(call: CallId, view: &HostView) -> Vec<&ApprovalRequest> {
    let pending = || view.pending.values().map(|request| &**request);
    let sent: Vec<_> = pending().filter(|request| request.call == Some(call)).collect();
    if sent.is_empty() {
        pending().find(|request| request.candidates.contains(&call)).into_iter().collect()
    } else {
        sent
    }
}

/// What a request on the wire calls, with its arguments; a method that has no form of its own is a
/// request as such.
pub(super) fn called(
    view: &ServerView,
    request: &WrittenValue,
) -> Option<(CallSubject, WrittenValue)> {
    let params = request.part("/params");
    let text = |key: &str| params.get(key).and_then(Value::as_str);
    let arguments = || match params.get("arguments") {
        Some(_) => params.part("/arguments"),
        None => json!({}).into(),
    };
    let method = request.get("method").and_then(Value::as_str)?;
    let offered = match method {
        "tools/call" => subject_of(view, ListKind::Tools, text("name")?),
        "prompts/get" => subject_of(view, ListKind::Prompts, text("name")?),
        "resources/read" => Some(resource_of(view, text("uri")?)),
        _ => None,
    };
    let plain = || {
        let mut plain = WrittenValue::from(json!({"method": method}));
        plain.insert_written("params", params.clone());
        (request_of(view), plain)
    };
    Some(offered.map_or_else(plain, |subject| (subject, arguments())))
}

/// The subject with this name or URI in one of a server's lists.
pub(super) fn subject_of(view: &ServerView, list: ListKind, wire: &str) -> Option<CallSubject> {
    let (server, capabilities) = (&view.name, &view.capabilities);
    let subject = match list {
        ListKind::Tools => {
            let tool = capabilities.tools.iter().find(|t| &*t.name == wire)?;
            CallSubject::tool(server, tool)
        }
        ListKind::Prompts => {
            let prompt = capabilities.prompts.iter().find(|p| &*p.name == wire)?;
            CallSubject::prompt(server, prompt)
        }
        ListKind::Resources => {
            let resource = capabilities.resources.iter().find(|r| &*r.uri == wire)?;
            CallSubject::resource(server, resource)
        }
        ListKind::ResourceTemplates => {
            let template = capabilities.templates.iter().find(|t| &*t.uri == wire)?;
            CallSubject::template(server, template)
        }
    };
    Some(CallSubject { limits: view.limits, target: view.target.clone(), ..subject })
}

/// The subject of a server that a target in the history names ([`CallSubject::key`]).
pub(super) fn named(server: &ServerName, view: &ServerView, target: &str) -> Option<CallSubject> {
    if target.strip_prefix("request:") == Some(server.as_str()) {
        return Some(request_of(view));
    }
    let of = |list, wire: &str| subject_of(view, list, wire);
    if let Some(uri) = target.strip_prefix("uri:") {
        let uri = uri.strip_prefix(server.as_str())?.strip_prefix(':')?;
        let known = of(ListKind::Resources, uri).or_else(|| of(ListKind::ResourceTemplates, uri));
        return Some(known.unwrap_or_else(|| resource_of(view, uri)));
    }
    let (list, name) = match target.strip_prefix("prompt:") {
        Some(name) => (ListKind::Prompts, name),
        None => (ListKind::Tools, target),
    };
    of(list, name.strip_prefix(server.as_str())?.strip_prefix('.')?)
}

/// What a saved call calls, if a server offers it.
pub(super) fn subject_of_call(call: &SavedCall, view: &HostView) -> Option<CallSubject> {
    view.servers.iter().find_map(|(server, view)| {
        let target = match &call.target {
            SavedTarget::Tool { tool } => tool.clone(),
            SavedTarget::Prompt { prompt } => format!("prompt:{prompt}"),
            SavedTarget::Resource { resource, server: of } => {
                format!("uri:{}:{resource}", of.as_deref().unwrap_or(server.as_str()))
            }
        };
        named(server, view, &target)
    })
}

/// A resource that is not listed.
pub(super) fn resource_of(view: &ServerView, uri: &str) -> CallSubject {
    CallSubject { limits: view.limits, ..CallSubject::uri(&view.name, uri) }
}

/// An arbitrary request to a server.
pub(super) fn request_of(view: &ServerView) -> CallSubject {
    CallSubject {
        limits: view.limits,
        target: view.target.clone(),
        ..CallSubject::request(&view.name)
    }
}

/// Choices for everything the servers offer, to be filled in and called.
pub(super) fn offers(model: &Model) -> impl Iterator<Item = Choice> {
    model.servers().flat_map(|server| {
        let all = &server.capabilities;
        let disabled = (!server.state.is_callable()).then(|| ink!("{}", server_word(server)));
        let name = Model::name(&server.name);
        let choice = move |verb: &'static str, label: &SafeText, list: ListKind, wire: &_| Choice {
            words: ink!("{} {}.{}", verb, &name, label),
            hint: ink!("{}", list.noun()),
            pick: Pick::Offer(server.name.clone(), list, Arc::clone(wire)),
            disabled: disabled.clone(),
        };
        let tools = all.tools.iter().map(|t| ("Call", &t.label, ListKind::Tools, &t.name));
        let prompts = all.prompts.iter().map(|p| ("Get", &p.label, ListKind::Prompts, &p.name));
        let resources =
            all.resources.iter().map(|r| ("Read", &r.label, ListKind::Resources, &r.uri));
        let templates = all.templates.iter();
        let templates = templates.map(|t| ("Read", &t.label, ListKind::ResourceTemplates, &t.uri));
        let offers = tools.chain(prompts).chain(resources).chain(templates);
        offers.map(move |(verb, label, list, wire)| choice(verb, label, list, wire))
    })
}

// Development mode: when a server restarts because its sources changed, the last call to it is
// repeated if its entry sets `dev.rerun`.

/// Whether the last call to a server is repeated after a restart.
fn repeats(server: &ServerName, model: &Model) -> bool {
    let dev = model.entry(server).and_then(|entry| entry.dev.as_ref());
    dev.is_some_and(|dev| dev.rerun)
}

/// The status of a server's build and sources, as the call screen shows it.
pub(super) fn dev_words(server: &ServerName, model: &Model) -> Option<SafeText> {
    let view = model.server(server)?;
    let now = match view.dev.as_ref()?.build.as_ref().map(|build| &build.end) {
        Some(None) => "building",
        Some(Some((BuildEnd::Failed(_) | BuildEnd::Refused(_), _))) => {
            "build failed, the previous build keeps running"
        }
        Some(Some((BuildEnd::Done | BuildEnd::Superseded, _))) | None => {
            if view.state == ServerState::Ready { "" } else { state_word(view.state) }
        }
    };
    let then = if repeats(server, model) { "repeated when sources change" } else { "" };
    let words: Vec<&str> = [now, then].into_iter().filter(|words| !words.is_empty()).collect();
    (!words.is_empty()).then(|| SafeText::line(&words.join(" · ")))
}

/// Builds and restarts of a server that were seen so far.
#[derive(Default)]
struct SeenServer {
    taken: u64,
    /// What changed, while a restart is in progress.
    restarting: Option<SafeText>,
    /// When the last reported failed build began.
    reported: Option<Timestamp>,
}

impl SeenServer {
    /// How a build failed, if that was not reported yet. Views may skip short states: two failed
    /// builds can be seen without a running one in between.
    fn failed_build(&mut self, dev: &DevView) -> Option<Ink> {
        let build = dev.build.as_ref()?;
        let (end, _) = build.end.as_ref()?;
        let how = match end {
            BuildEnd::Failed(exit) => exit.describe(),
            BuildEnd::Refused(_) => "it could not be started".to_owned(),
            BuildEnd::Done | BuildEnd::Superseded => return None,
        };
        let known = self.reported.replace(build.began) == Some(build.began);
        (!known).then(|| Ink::line(&how))
    }
}

/// What changed, and how long the build took.
fn changed(dev: &DevView) -> SafeText {
    let build = dev.build.as_ref().and_then(|build| build.end.as_ref());
    let build = match build {
        Some((BuildEnd::Done, took)) => format!(" · build {}", Dur(*took)),
        Some((BuildEnd::Failed(_) | BuildEnd::Refused(_) | BuildEnd::Superseded, _)) | None => {
            String::new()
        }
    };
    SafeText::line(&format!("{} changed{build}", dev.changed_words()))
}
