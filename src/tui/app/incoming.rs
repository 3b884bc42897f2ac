//! What comes from outside: the engine, the clock, finished effects.

use crate::base::LogLevel;
use crate::config::{ConfigChange, Hold};
use crate::deck::policy::PolicyView;
use crate::error::Error;
use crate::host::HostView;
use crate::host::policy::Held;
use crate::tui::app::{App, Redraw};
use crate::tui::chat::port::ChatNews;
use crate::tui::effect::{ConfigCommand, Effect};
use crate::tui::keymap::Scope;
use crate::tui::message::Message;
use crate::tui::model::{
    EngineState, Feed, InputState, InputView, Model, Situation, Todo, who_asks,
};
use crate::tui::overlay::{Confirm, Consent, InputDialog, Overlay, Reader, reader_width};
use crate::tui::pane::config::{PLANNED, touched};
use crate::tui::pane::{Cx, PaneId, Toast};
use crate::tui::pick::{Choice, Pick};
use crate::tui::player::{PlayCommand, Played};
use crate::tui::prelude::*;
use crate::tui::widget::{Doc, Pen};

impl App {
    pub(super) fn incoming(&mut self, message: Message) {
        match message {
            Message::Now(now) => {
                self.now(now);
                self.call_tick(now);
            }
            Message::Resize(width, height) => {
                self.size = Rect::new(0, 0, width, height);
                self.mark(Redraw::Now);
            }
            Message::EngineReady => self.engine(EngineState::Running),
            Message::EngineFailed(error) => {
                self.model.refused.clone_from(&error.diagnostics);
                self.engine(EngineState::Failed(SafeText::line(&error.to_string())));
                self.pane = PaneId::Config;
            }
            Message::View(view) => {
                self.view(view);
                self.calls_redefined();
                self.sources_followed();
            }
            Message::Traffic(batch, oldest) => {
                self.resources_updated(&batch.items);
                for record in &batch.items {
                    self.model.activity.count(&record.server, record.at);
                }
                if self.model.playback.is_none() {
                    let operations = Arc::make_mut(&mut self.model.operations);
                    for record in &batch.items {
                        operations.frame(record);
                    }
                }
                for record in &batch.items {
                    self.model.watched.take(record);
                }
                self.model.traffic.take(batch, oldest);
                self.mark(Redraw::Soon);
            }
            Message::Played(played) => super::incoming::played(self, *played),
            Message::Logs(batch, oldest) => {
                self.calls_logged(&batch.items);
                let errors = batch.items.iter().filter(|line| line.level >= LogLevel::Error);
                let unseen = self.pane != PaneId::Logs;
                self.model.unseen_errors += if unseen { errors.count() } else { 0 };
                self.model.logs.take(batch, oldest);
                self.mark(Redraw::Soon);
            }
            Message::Metrics(metrics) => {
                self.renew(|model| &mut model.metrics, metrics.into_iter().collect());
            }
            Message::Calls(calls) => {
                self.calls_followed(&calls);
                if self.model.take_calls(calls) {
                    self.mark(Redraw::Soon);
                }
            }
            Message::Clients(clients, blocked) => {
                (self.model.clients, self.model.blocked) = (clients, blocked);
                self.mark(Redraw::Soon);
            }
            Message::Policy(policy) => self.policy(policy),
            Message::Cache(cache) => self.renew(|model| &mut model.cache, cache),
            Message::Usage(usage) => {
                self.renew(|model| &mut model.usage, usage.into_iter().collect());
            }
            Message::Config(config, files) => {
                self.model.config = config;
                self.model.files = files;
                self.mark(Redraw::Now);
            }
            Message::Files(files) => {
                self.model.files = files;
                self.mark(Redraw::Now);
            }
            message => self.replies(message),
        }
    }

    fn replies(&mut self, message: Message) {
        match message {
            Message::CacheContent(key, content) => {
                let mut doc = Doc::new(reader_width(self.size));
                match &content {
                    Some(value) => _ = doc.json(0, value),
                    None => _ = doc.text(0, &"the entry is gone", Role::Muted),
                }
                let title = ink!("{} {}", Ink::line(&key.method), Ink::line(&key.params));
                let mut reader = Reader::new(title, doc);
                reader.raw = content.and_then(|v| serde_json::to_string_pretty(&*v).ok());
                self.push_overlay(Overlay::Reader(reader));
            }
            Message::Recording(file) => {
                self.model.recording = file;
                self.mark(Redraw::Now);
            }
            Message::CallBegan(token, id) => _ = self.calls.ids.insert(token, id),
            Message::CallEnded(token, result) => self.call_ended(token, *result),
            Message::CallProgress(token, progress) => self.call_progress(token, progress),
            Message::Edited(token, text) => self.edited(token, text),
            message @ Message::Baseline(..) => _ = self.screen_hears(&message),
            Message::FileRead(token, bytes) => self.call_file(token, bytes),
            Message::Chat(news) => self.chat_news(news),
            Message::Entry(entry) => self.open_entry(*entry),
            Message::Saved(outcome) => self.entry_saved(outcome),
            Message::Situation(situation) => self.situation(situation),
            Message::FileExists(path, content) => self.ask_to_replace(path, content),
            Message::Checked(token, found) => match token.answers() {
                Some(id) => self.answer_checked(id, &found),
                None => self.call_checked(token, *found),
            },
            Message::PictureDone(token, done) => {
                self.of_view(token, |view| view.picture_done(*done));
            }
            Message::Comparing(token, stage) => {
                self.of_view(token, |view| view.comparing_at(stage));
            }
            Message::Compared(token, found) => self.compared(token, *found),
            Message::Terminal(reply) if self.setup.graphics.answered(reply) => {
                self.mark(Redraw::Now);
            }
            Message::Output(name, text) => {
                let mut doc = Doc::new(reader_width(self.size));
                doc.text(0, &text, Role::Foreign);
                self.push_overlay(Overlay::Reader(Reader::new(Ink::from(&name), doc)));
            }
            Message::Done(text) => self.toast(Ink::from(&text), Role::Ok),
            Message::Warned(text) => self.toast(Ink::from(&text), Role::Warning),
            Message::Failed(error) => self.failed(&error),
            Message::UserFiles(user) => {
                self.setup.user = user;
                self.adopt_user_files();
                self.mark(Redraw::Now);
            }
            Message::Terminate => self.leave(),
            Message::WorkerPanicked(what) => {
                self.toast(
                    ink!("a worker failed, everything else continues: {}", &what),
                    Role::Error,
                );
            }
            message => self.answer_message(message),
        }
    }

    fn chat_news(&mut self, news: ChatNews) {
        match news {
            ChatNews::Choices(what, choices) => {
                let choices = choices.into_iter().map(|(words, command)| {
                    Choice::new(Ink::from(&words), Ink::default(), Pick::Chat(command))
                });
                self.choose(ink!("{}", what.name()), choices.collect());
            }
            ChatNews::Prompt(text, costs, limit) => {
                let Some(chat) = &self.chat else { return };
                let reader = chat.context(&text, &costs, limit, self.size);
                self.push_overlay(Overlay::Reader(reader));
            }
            ChatNews::Failed(text) => self.toast(Ink::from(&text), Role::Error),
            news => {
                self.chat.get_or_insert_default().news(news);
                self.mark(Redraw::Soon);
            }
        }
    }

    fn now(&mut self, now: Timestamp) {
        self.wall = now;
        if self.model.playback.is_none() {
            self.model.now = now;
        }
        if self.wake().is_some_and(|wake| now >= wake) {
            self.mark(Redraw::Soon);
        }
        if self.toast.as_ref().is_some_and(|(shown, _)| now >= shown.plus(Self::TOAST)) {
            self.toast = None;
            self.mark(Redraw::Soon);
        }
    }

    /// Definitions that nobody has decided about yet are told once.
    fn policy(&mut self, policy: PolicyView) {
        let open = |policy: &PolicyView| {
            policy.held.iter().filter(|tool| tool.held != Held::Refused).count()
        };
        let (before, now) = (open(&self.model.policy), open(&policy));
        self.model.policy = Arc::new(policy);
        if now > before {
            let mut text = ink!("{} not as approved: ", count(now, "definition"));
            text.push(self.spelled("{policy} reviews"));
            self.toast(text, Role::Warning);
        }
        self.mark(Redraw::Soon);
    }

    /// Takes something of the model as it is now; the screen is drawn when it differs.
    fn renew<T: PartialEq>(&mut self, of: impl FnOnce(&mut Model) -> &mut T, now: T) {
        let before = of(&mut self.model);
        if *before != now {
            *before = now;
            self.mark(Redraw::Soon);
        }
    }

    fn engine(&mut self, state: EngineState) {
        self.model.engine = state;
        self.mark(Redraw::Now);
    }

    fn view(&mut self, view: Arc<HostView>) {
        if Arc::ptr_eq(&view, &self.model.view) {
            return;
        }
        let fresh = view.pending.keys().any(|id| !self.model.view.pending.contains_key(id));
        if fresh {
            if let Some(request) = view.pending.values().next_back() {
                let (who, asks) = who_asks(request);
                let mut text = ink!("{} {}   ", who, asks);
                // The screen that is open has the keys.
                text.push(if self.open_request().is_some() {
                    self.keymap.spelled(&[Scope::Answer], "{next-request} shows the next")
                } else {
                    self.spelled("{answer} to answer")
                });
                self.toast(text, Role::Attention);
            }
            if !self.setup.prefs.mute_bell {
                self.effects.push(Effect::Bell);
            }
        } else if view.pending.is_empty() && !self.model.view.pending.is_empty() {
            // Nothing waits any more: no key answers it.
            self.toast.take_if(|(_, toast)| toast.role == Role::Attention);
        }
        if view.failures.len() > self.model.view.failures.len()
            && let Some((_, task, message)) = view.failures.last()
        {
            self.toast(
                ink!("{} failed, everything else continues: {}", task, message),
                Role::Error,
            );
        }
        if let Some(scope) = &self.model.scope {
            // A scope remembered from the last run waits for its server; one that was here and
            // left gives the screen back to all.
            let was_here = self.model.view.servers.contains_key(scope);
            if was_here && !view.servers.contains_key(scope) {
                self.model.scope = None;
            }
        }
        self.answers_followed(&view);
        for (name, server) in &view.servers {
            let before = self.model.view.servers.get(name);
            if server.exit.is_some() && before.is_some_and(|before| before.exit != server.exit) {
                Arc::make_mut(&mut self.model.operations).lost(name, view.at);
            }
        }
        self.model.view = view;
        self.mark(Redraw::Soon);
    }

    pub(super) fn toast(&mut self, text: Ink, role: Role) {
        self.toast = Some((self.wall, Toast { text, role }));
        self.mark(Redraw::Now);
    }

    /// Errors stand until they are dealt with; short ones fit the footer.
    fn failed(&mut self, error: &Error) {
        let text = SafeText::block(&error.to_string());
        if error.violations.is_empty() && text.len() < 70 {
            return self.toast(Ink::line(text.as_str()), Role::Error);
        }
        let mut doc = Doc::new(reader_width(self.size));
        doc.text(0, &text, Role::Error);
        let title = ink!("{}", error.code);
        self.push_overlay(Overlay::Reader(Reader::new(title, doc)));
    }

    pub(super) fn push_overlay(&mut self, overlay: Overlay) {
        self.overlays.push(overlay);
        self.mark(Redraw::Now);
    }

    // The inbox: opens what waits for the person, and follows what of the configuration waits. Shows it
    // when it comes, without taking keys that were meant for something else.

    /// Opens something that waits.
    pub(super) fn open_todo(&mut self, todo: &Todo) {
        match todo {
            Todo::Request(id) => self.open_answer(*id),
            Todo::Approval(server) => {
                let consent = Consent::new(&self.model.situation, Some(server), self.glyphs);
                self.push_overlay(Overlay::Consent(consent));
            }
            Todo::Input(id) => self.open_input(id),
            Todo::Plan => self.open_plan(),
            Todo::Held(_) => self.open_policy(),
        }
    }

    /// What waits first, but for requests whose answers are on their way.
    pub(super) fn first_todo(&self) -> Option<Todo> {
        let sent = |todo: &Todo| matches!(todo, Todo::Request(id) if self.answers.is_sent(*id));
        self.model.inbox().find(|todo| !sent(todo))
    }

    /// Opens what waits first.
    pub(super) fn open_first(&mut self) {
        match self.first_todo() {
            Some(todo) => self.open_todo(&todo),
            None => self.toast(ink!("Nothing waits for you"), Role::Ok),
        }
    }

    /// The configuration stands differently now.
    pub(super) fn situation(&mut self, situation: Arc<Situation>) {
        let listed: Vec<Todo> = self.model.inbox_of_configuration().collect();
        let before = std::mem::replace(&mut self.model.situation, situation);
        let now = Arc::clone(&self.model.situation);
        self.mark(Redraw::Now);
        let mut shown = false;
        self.overlays.retain_mut(|overlay| match overlay {
            Overlay::Consent(consent) => {
                shown = consent.follow(&now);
                shown
            }
            // The question was answered elsewhere, or is asked no more.
            Overlay::Input(dialog) => {
                let same = |view: &&InputView| view.input == dialog.view.input;
                let view = now.inputs.iter().find(same);
                view.is_some_and(|view| view.state == dialog.view.state)
            }
            Overlay::Confirm(confirm) => {
                now.plan.is_some() || confirm.yes != [Effect::Config(ConfigCommand::Apply)]
            }
            _ => true,
        });
        // A command that is another now is asked for anew, and so is a file that changed again.
        let is_fresh = |todo: &Todo| match todo {
            Todo::Approval(server) => {
                !shown
                    && before.awaiting(server).map(|a| &a.review)
                        != now.awaiting(server).map(|a| &a.review)
            }
            Todo::Plan => now.plan != before.plan,
            todo => !listed.contains(todo),
        };
        let fresh: Vec<Todo> = self.model.inbox_of_configuration().filter(is_fresh).collect();
        let done = listed.iter().any(|todo| !self.model.inbox().any(|now| now == *todo));
        if done {
            self.toast.take_if(|(_, toast)| toast.role == Role::Attention);
        }
        // A command never takes the keys by itself, but on the first screen: nobody types yet.
        let opens = |todo: &&Todo| !matches!(todo, Todo::Approval(_)) || before.revision == 0;
        let next = fresh.iter().find(opens).cloned();
        let next = next.or_else(|| self.model.inbox_of_configuration().find(|_| done));
        match next.filter(|_| self.is_idle()) {
            Some(todo) => self.open_todo(&todo),
            None => self.call_for(fresh.first()),
        }
        if !fresh.is_empty() {
            self.attention();
        }
    }

    /// Says that something waits that was not there before.
    fn call_for(&mut self, fresh: Option<&Todo>) {
        let mut text = match fresh {
            None | Some(Todo::Request(_) | Todo::Held(_)) => return,
            Some(Todo::Approval(_)) => {
                let asked = self.model.situation.asked().count();
                let s = if asked == 1 { "s" } else { "" };
                ink!("{} await{} your approval", count(asked, "command"), s)
            }
            Some(Todo::Input(_)) => ink!("the configuration asks for a value"),
            Some(Todo::Plan) => ink!("the configuration has changed"),
        };
        text.push("   ").push(self.spelled("{show-inbox} shows it"));
        self.toast(text, Role::Attention);
    }

    /// Shows the inputs of the configuration, answered or not.
    pub(super) fn open_inputs(&mut self) {
        let choices = self.model.situation.inputs.iter().map(|view| {
            Choice::new(
                ink!("{}  {}", Ink::line(&view.input.id), Ink::line(&view.input.description)),
                ink!("{}", state_word(view.state)),
                Pick::Input(view.input.id.clone()),
            )
        });
        self.choose(ink!("inputs"), choices.collect());
    }

    /// Asks for one input.
    pub(super) fn open_input(&mut self, id: &str) {
        let keyring = self.model.situation.keyring;
        let Some(view) = self.model.input(id).cloned() else { return };
        self.push_overlay(Overlay::Input(Box::new(InputDialog::new(view, keyring))));
    }

    fn attention(&mut self) {
        if !self.setup.prefs.mute_bell && self.model.situation.revision > 1 {
            self.effects.push(Effect::Bell);
        }
    }

    /// Whether no key could be meant for something that would be covered.
    fn is_idle(&mut self) -> bool {
        self.overlays.is_empty()
            && !self.has_screen()
            && self.panes.get_mut(self.pane).typing().is_none()
    }

    /// Turns round whether changed files are shown before they are applied.
    pub(super) fn ask_first(&mut self) {
        self.effects.push(Effect::Config(ConfigCommand::AskFirst));
        if self.model.situation.asks {
            self.toast(ink!("changed files are applied at once"), Role::Ok);
        } else {
            self.toast(ink!("changed files are shown before they are applied"), Role::Ok);
        }
    }

    /// Shows what a changed file would do, and asks whether to use it.
    fn open_plan(&mut self) {
        let Some(plan) = &self.model.situation.plan else { return };
        let confirm = Confirm {
            title: ink!("apply the changed configuration?"),
            lines: plan_lines(plan),
            yes: vec![Effect::Config(ConfigCommand::Apply)],
            by_itself: true,
        };
        self.push_overlay(Overlay::Confirm(confirm));
    }

    /// What a server waits for that may not start before the person has done something.
    pub(super) fn hold(&self, name: &ServerName) -> Option<Todo> {
        match self.model.entry(name)?.hold.as_ref()? {
            Hold::Approval => Some(Todo::Approval(name.clone())),
            Hold::Input(id) => Some(Todo::Input(id.clone())),
        }
    }
}

const fn state_word(state: InputState) -> &'static str {
    match state {
        InputState::Open => "no answer",
        InputState::Answered => "answered",
        InputState::Kept => "keyring",
        InputState::Variable => "variable",
    }
}

/// Most servers named in the question; the Config pane has all of them.
const NAMED: usize = 10;

fn plan_lines(plan: &ConfigChange) -> Vec<Ink> {
    let touched = touched(plan, PLANNED).into_iter();
    let mut lines: Vec<Ink> = touched.map(|(line, _, why)| ink!("{}{}", line, why)).collect();
    let more = lines.len().saturating_sub(NAMED);
    lines.truncate(NAMED);
    if more > 0 {
        lines.push(ink!("  and {} more: the Config pane has all of them", more));
    }
    if lines.is_empty() {
        lines.push(ink!("no server changes"));
    }
    let kept = plan.kept.len() - plan.followed.len();
    if kept > 0 {
        lines.push(ink!("  {} keep running as they are", kept));
    }
    lines
}

// A recording that is shown: takes its moments, and draws where it stands under the tabs.

/// Cells before the slider.
const BEFORE: u16 = 46;
/// Messages, and lines of logs, that are kept while time passes.
const KEPT: u64 = 20_000;

/// Takes another moment of it.
pub(super) fn played(app: &mut App, played: Played) {
    app.model.engine = EngineState::Running;
    app.model.now = played.playback.at;
    app.model.playback = Some(played.playback);
    if let Some(operations) = played.operations {
        app.model.operations = operations;
    }
    if let Some(view) = played.view {
        app.incoming(Message::View(view));
    }
    if let Some(news) = played.news {
        if news.is_whole {
            (app.model.traffic, app.model.logs) = (Feed::default(), Feed::default());
            app.model.activity = crate::tui::model::Activity::default();
            for pane in PaneId::ALL {
                app.panes.get_mut(pane).rewound();
            }
        }
        if let Some(view) = news.view {
            app.incoming(Message::View(view));
        }
        let oldest = |first: u64, next: u64| first.max(next.saturating_sub(KEPT));
        let frames = oldest(app.model.traffic.first(), news.frames.next);
        let logs = oldest(app.model.logs.first(), news.logs.next);
        app.incoming(Message::Traffic(news.frames, frames));
        app.incoming(Message::Logs(news.logs, logs));
        app.incoming(Message::Calls(played.calls));
        app.incoming(Message::Metrics(played.metrics));
    }
    // What was asked then can be answered no more.
    app.effects.retain(|effect| !matches!(effect, Effect::Bell));
    app.mark(Redraw::Soon);
}

/// What an action asks of the player of a recording.
pub(super) const fn play(action: Action) -> Option<PlayCommand> {
    Some(match action {
        Action::Pause => PlayCommand::Pause,
        Action::Faster => PlayCommand::Speed(true),
        Action::Slower => PlayCommand::Speed(false),
        Action::Later => PlayCommand::Step(true),
        Action::Earlier => PlayCommand::Step(false),
        Action::NextError => PlayCommand::Error(true),
        Action::PreviousError => PlayCommand::Error(false),
        _ => return None,
    })
}

/// The rule under the tabs of a recording: the moment, how fast, and a slider.
pub(super) fn render(cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let Some(playback) = &cx.model.playback else { return };
    Pen::new(buf, area).rule(" ", cx.style(Role::Text));
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    let sign = if playback.is_playing { cx.glyphs.arrow } else { cx.glyphs.frozen };
    pen.put(" ", cx.style(Role::Rule)).put(sign, cx.style(Role::Accent)).skip(1);
    if let Some(read) = playback.read {
        let percent = (read * 100.0) as u64;
        pen.put(ink!("reading the recording: {} %", percent), cx.style(Role::Busy));
        return;
    }
    let (span, passed) = (playback.end.since(playback.began), playback.at.since(playback.began));
    let speed = if playback.speed >= 1.0 {
        ink!("{}x", playback.speed as u64)
    } else {
        ink!("1/{}x", (1.0 / playback.speed) as u64)
    };
    let text =
        ink!("{}  +{} of {}  {} ", Model::time_of_day(playback.at), Dur(passed), Dur(span), speed);
    pen.clip(text, BEFORE.saturating_sub(4), cx.style(Role::Text));
    let cells = area.width.saturating_sub(BEFORE + 1);
    if cells < 4 {
        return;
    }
    let share = passed.as_secs_f64() / span.as_secs_f64().max(1e-6);
    let knob = (share.clamp(0.0, 1.0) * f64::from(cells - 1)).round() as u16;
    for cell in 0..cells {
        let (sign, role) = match cell.cmp(&knob) {
            std::cmp::Ordering::Less => (cx.glyphs.spans[1], Role::Accent),
            std::cmp::Ordering::Equal => (cx.glyphs.ready, Role::Accent),
            std::cmp::Ordering::Greater => (cx.glyphs.horizontal, Role::Rule),
        };
        pen.column(BEFORE + cell).clip(sign, 1, cx.style(role));
    }
}

/// What the header says of a recording, or of one that is made.
pub(super) fn marks(cx: &Cx<'_>, right: &mut Vec<(Ink, Role)>) {
    if let Some(playback) = &cx.model.playback {
        let word = if playback.is_scrubbed { "a scrubbed recording" } else { "a recording" };
        right.push((ink!("{}", word), Role::Attention));
    }
    if cx.model.recording.is_some() {
        right.push((ink!("{} recording", cx.glyphs.ready), Role::Error));
    }
}

/// The share of the recording that a click on the slider means.
pub(super) fn share_at(x: u16, area: Rect) -> Option<f64> {
    let cells = area.width.saturating_sub(BEFORE + 1);
    let cell = x.checked_sub(area.x + BEFORE).filter(|cell| *cell < cells)?;
    Some(f64::from(cell) / f64::from(cells.saturating_sub(1).max(1)))
}
