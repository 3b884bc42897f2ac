//! What comes from outside: the engine, the clock, finished effects; and what waits for the person,
//! which is shown when it comes, without taking keys that were meant for something else.

use super::App;
use super::screens::Open;
use crate::base::LogLevel;
use crate::deck::DeckEvent;
use crate::deck::answers::Answers as KeptAnswers;
use crate::deck::policy::PolicyView;
use crate::error::Error;
use crate::host::HostView;
use crate::host::policy::Held;
use crate::mcp::ApprovalId;
use crate::tui::chat::port::ChatNews;
use crate::tui::effect::{ConfigCommand, Effect, Existing};
use crate::tui::entry::FormScreen;
use crate::tui::keymap::Scope;
use crate::tui::message::Message;
use crate::tui::model::{Activity, EngineState, Feed, InputView, Model, Situation, Todo, who_asks};
use crate::tui::overlay::{Overlay, Reader, reader_width};
use crate::tui::pane::{PaneId, Redraw};
use crate::tui::pick::{Choice, Pick};
use crate::tui::player::Played;
use crate::tui::prelude::*;
use crate::tui::widget::Doc;

/// Messages, and lines of logs, of a recording that are kept while time passes.
const KEPT: u64 = 20_000;

impl App {
    pub(super) fn incoming(&mut self, message: Message) {
        match message {
            Message::Now(now) => self.now(now),
            Message::Resize(width, height) => {
                self.size = Rect::new(0, 0, width, height);
                self.mark(Redraw::Now);
            }
            Message::EngineReady => self.engine(EngineState::Running),
            Message::EngineFailed(error) => self.engine_failed(&error),
            Message::View(view) => {
                self.view(view);
                self.screens.calls.redefine(&self.model.view);
                self.screens.calls.sources_followed(&self.model, &mut self.out);
            }
            Message::Traffic(batch, oldest) => {
                let now = self.model.now;
                self.screens.calls.resources_updated(&batch.items, now, &mut self.out);
                self.model.take_traffic(batch, oldest);
                self.mark(Redraw::Soon);
            }
            Message::Played(played) => self.played(*played),
            Message::Logs(batch, oldest) => {
                self.screens.calls.log(&batch.items);
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
                self.screens.calls.follow(&calls, self.model.now);
                if self.model.take_calls(calls) {
                    self.mark(Redraw::Soon);
                }
            }
            Message::Clients(clients, blocked) => {
                self.renew(|model| &mut model.clients, clients);
                self.renew(|model| &mut model.blocked, blocked);
            }
            Message::Policy(policy) => self.policy(policy),
            Message::Cache(cache) => self.renew(|model| &mut model.cache, cache),
            Message::Usage(usage) => {
                self.renew(|model| &mut model.usage, usage.into_iter().collect());
            }
            Message::Deck(event) => self.deck(event),
            message => self.replies(message),
        }
    }

    /// Something happened to the configuration.
    fn deck(&mut self, event: DeckEvent) {
        match event {
            DeckEvent::Loaded(config, files) => {
                self.model.config = Some(config);
                self.model.files = files;
                self.engine(EngineState::Running);
            }
            DeckEvent::Rejected(error, files) => {
                self.model.files = files;
                self.mark(Redraw::Now);
                if self.model.config.is_none() {
                    self.engine_failed(&error);
                }
            }
            DeckEvent::Waiting(files) => {
                self.model.files = files;
                self.mark(Redraw::Now);
            }
            DeckEvent::Situation(situation) => self.situation(situation),
            DeckEvent::Entry(entry) => {
                let (shown, file) = (entry.shown.clone(), entry.file.clone());
                let form = FormScreen::entry(&shown, &file, Some(*entry));
                self.push_screen(Open::Own(Box::new(form)));
            }
            DeckEvent::Saved(outcome) => self.entry_saved(outcome),
            DeckEvent::Done(text) => self.toast(Ink::from(&text), Role::Ok),
            DeckEvent::Failed(error) => self.failed(&error),
            // The view and the situation say it too.
            DeckEvent::Reloaded(_)
            | DeckEvent::TrustNeeded(_)
            | DeckEvent::InputNeeded(_)
            | DeckEvent::Missed(_) => {}
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
            Message::Chat(news) => self.chat_news(news),
            Message::FileExists(path, content) => {
                let lines = vec![
                    Ink::line(&path.display().to_string()),
                    ink!("Its present content is lost."),
                ];
                let yes = Effect::SaveAs { path, content, existing: Existing::Replace };
                self.confirm(ink!("replace the file?"), lines, vec![yes]);
            }
            Message::Terminal(reply) if self.look.graphics.answered(reply) => {
                self.mark(Redraw::Now);
            }
            Message::Output(name, text) => {
                let mut doc = Doc::new(reader_width(self.size));
                doc.text(0, &text, Role::Foreign);
                self.read(Ink::from(&name), doc);
            }
            Message::Done(text) => self.toast(Ink::from(&text), Role::Ok),
            Message::Warned(text) => self.toast(Ink::from(&text), Role::Warning),
            Message::Failed(error) => self.failed(&error),
            Message::UserFiles(user) => {
                self.look.user = user;
                self.adopt_user_files();
                self.mark(Redraw::Now);
            }
            Message::Terminate => self.leave(),
            Message::WorkerPanicked(what) => {
                let text = ink!("a worker failed, everything else continues: {}", &what);
                self.toast(text, Role::Error);
            }
            Message::Drafter(name) => {
                self.model.drafter = name;
                self.mark(Redraw::Now);
            }
            Message::KeptAnswers(answers) => self.use_kept_answers(answers),
            message => self.screens.take(message, &mut self.model, &mut self.out),
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
                let Some(chat) = &self.screens.chat else { return };
                let reader = chat.context(&text, &costs, limit, self.size);
                self.push_overlay(Overlay::Reader(reader));
            }
            ChatNews::Failed(text) => self.toast(Ink::from(&text), Role::Error),
            news => {
                self.screens.chat.get_or_insert_default().news(news);
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
        if self.toast.as_ref().is_some_and(|toast| now >= toast.shown.plus(Self::TOAST)) {
            self.toast = None;
            self.mark(Redraw::Soon);
        }
        self.screens.calls.tick(now, self.screens.open_call(), &mut self.out);
    }

    /// Definitions that nobody has decided about yet are told once.
    fn policy(&mut self, policy: PolicyView) {
        let open = |policy: &PolicyView| {
            policy.held.iter().filter(|tool| tool.held != Held::Refused).count()
        };
        let (before, now) = (open(&self.model.policy), open(&policy));
        self.renew(|model| &mut model.policy, Arc::new(policy));
        if now > before {
            let mut text = ink!("{} not as approved: ", count(now, "definition"));
            text.push(self.spelled("{policy} reviews"));
            self.toast(text, Role::Warning);
        }
    }

    /// Takes something of the model as it is now; the screen is drawn when it differs.
    fn renew<T: PartialEq>(&mut self, of: impl FnOnce(&mut Model) -> &mut T, now: T) {
        let before = of(&mut self.model);
        if *before != now {
            *before = now;
            self.mark(Redraw::Soon);
        }
    }

    fn engine_failed(&mut self, error: &Error) {
        self.model.refused.clone_from(&error.diagnostics);
        self.engine(EngineState::Failed(SafeText::line(&error.to_string())));
        self.pane = PaneId::Config;
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
                text.push(if self.screens.open_request().is_some() {
                    self.look.keymap.spelled(&[Scope::Answer], "{next-request} shows the next")
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
            self.drop_toast(Role::Attention);
        }
        if view.failures.len() > self.model.view.failures.len()
            && let Some((_, task, message)) = view.failures.last()
        {
            let text = ink!("{} failed, everything else continues: {}", task, message);
            self.toast(text, Role::Error);
        }
        self.overlays.retain(|overlay| match overlay {
            Overlay::SignIn(dialog) => view.pending.contains_key(&dialog.request.id),
            _ => true,
        });
        self.screens.follow_answers(&view, &mut self.model, &mut self.out);
        self.model.take_view(view);
        self.mark(Redraw::Soon);
    }

    /// Errors stand until they are dealt with; short ones fit the footer.
    fn failed(&mut self, error: &Error) {
        let text = SafeText::block(&error.to_string());
        if error.violations.is_empty() && text.len() < 70 {
            return self.toast(Ink::line(text.as_str()), Role::Error);
        }
        let mut doc = Doc::new(reader_width(self.size));
        doc.text(0, &text, Role::Error);
        self.read(ink!("{}", error.code), doc);
    }

    /// An entry was written, or why not: its form says so while it is open.
    fn entry_saved(&mut self, outcome: Result<SafeText, SafeText>) {
        let message = Message::Deck(DeckEvent::Saved(outcome.clone()));
        let heard = self.screens.hear(&message, &mut self.out);
        match outcome {
            Ok(words) => self.toast(Ink::from(&words), Role::Ok),
            Err(reason) if !heard => self.toast(Ink::from(&reason), Role::Error),
            Err(_) => {}
        }
    }

    /// Takes another moment of a recording.
    fn played(&mut self, played: Played) {
        self.model.engine = EngineState::Running;
        self.model.now = played.playback.at;
        self.model.playback = Some(played.playback);
        if let Some(operations) = played.operations {
            self.model.operations = operations;
        }
        if let Some(view) = played.view {
            self.incoming(Message::View(view));
        }
        if let Some(news) = played.news {
            if news.is_whole {
                (self.model.traffic, self.model.logs) = (Feed::default(), Feed::default());
                self.model.activity = Activity::default();
                for pane in PaneId::ALL {
                    self.panes.get_mut(pane).rewound();
                }
            }
            if let Some(view) = news.view {
                self.incoming(Message::View(view));
            }
            let oldest = |first: u64, next: u64| first.max(next.saturating_sub(KEPT));
            let frames = oldest(self.model.traffic.first(), news.frames.next);
            let logs = oldest(self.model.logs.first(), news.logs.next);
            self.incoming(Message::Traffic(news.frames, frames));
            self.incoming(Message::Logs(news.logs, logs));
            self.incoming(Message::Calls(played.calls));
            self.incoming(Message::Metrics(played.metrics));
        }
        // What was asked then can be answered no more.
        self.effects.retain(|effect| !matches!(effect, Effect::Bell));
        self.mark(Redraw::Soon);
    }

    /// Takes the kept answers of the configuration into use.
    pub fn use_kept_answers(&mut self, answers: KeptAnswers) {
        self.screens.answers.kept = answers;
        self.mark(Redraw::Now);
    }

    /// The engine is stopping.
    pub fn stopping(&mut self) {
        if !matches!(self.model.engine, EngineState::Stopping(_)) {
            self.model.engine = EngineState::Stopping(self.model.now);
        }
        self.overlays.clear();
        self.mark(Redraw::Now);
    }

    /// What waits first, but for requests whose answers are on their way.
    pub(super) fn first_todo(&self) -> Option<Todo> {
        let answers = &self.screens.answers;
        self.model.inbox().find(|todo| !matches!(todo, Todo::Request(id) if answers.is_sent(*id)))
    }

    /// An answer goes out.
    pub(super) fn answer_sent(&mut self, id: ApprovalId) {
        // The draft stays until the engine says what became of the answer: a withdrawal may be
        // quicker, and then it is wanted.
        self.screens.answer_sent(id, &self.model.view);
        let signs_in =
            |overlay: &Overlay| matches!(overlay, Overlay::SignIn(it) if it.request.id == id);
        self.overlays.retain(|overlay| !signs_in(overlay));
        let first = self.first_todo();
        if let Some(todo) = &first {
            self.open_todo(todo);
        }
        self.moment.unasked = self.screens.open_request();
        match (first, self.model.inbox().count().saturating_sub(1)) {
            (None, _) => self.toast(ink!("sent"), Role::Ok),
            (Some(_), others) => self.toast(ink!("sent; {} more waiting", others), Role::Ok),
        }
    }

    /// The configuration stands differently now.
    fn situation(&mut self, situation: Arc<Situation>) {
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
            self.drop_toast(Role::Attention);
        }
        // A command never takes the keys by itself, but on the first screen: nobody types yet.
        let opens = |todo: &&Todo| !matches!(todo, Todo::Approval(_)) || before.revision == 0;
        let next = fresh.iter().find(opens).cloned();
        let next = next.or_else(|| self.model.inbox_of_configuration().find(|_| done));
        // Whether no key could be meant for something that would be covered.
        let is_idle = self.overlays.is_empty()
            && !self.has_screen()
            && self.panes.get_mut(self.pane).typing().is_none();
        match next.filter(|_| is_idle) {
            Some(todo) => self.open_todo(&todo),
            None => self.call_for(fresh.first()),
        }
        if !fresh.is_empty() && !self.setup.prefs.mute_bell && now.revision > 1 {
            self.effects.push(Effect::Bell);
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
}
