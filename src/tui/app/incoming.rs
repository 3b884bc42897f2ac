//! Incoming messages from the engine, the clock, finished effects and the terminal. Items that wait
//! for the user are shown as they arrive, without taking keys that were meant for something else.

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};

use super::pointer::Drag;
use super::screens::OpenScreen;
use super::{App, AppFocus, chrome, keys, playback};
use crate::chat::port::ChatNews;
use crate::effect::{Effect, Existing};
use crate::entry::FormScreen;
use crate::keymap::KeyScope;
use crate::layout::Layout;
use crate::message::Message;
use crate::model::{Activity, EngineState, Feed, Model, Situation, Todo, Watched, who_asks};
use crate::overlay::{NamePrompt, Named, TextReader, frame_area, reader_width};
use crate::pane::{Gesture, PaneId, Redraw};
use crate::pick::{Choice, Pick};
use crate::player::{PlayCommand, Played};
use crate::prelude::*;
use crate::screen::Screen;
use crate::suites::{SuiteCommand, SuiteNews, SuiteState};
use crate::widget::Doc;
use config::error::Error;
use deck::{Answers, DeckEvent, News, PolicyView};
use host::{ApprovalRequest, HeldReason, HostView};
use protocol::ApprovalId;
use terminal::chord::Chord;
use terminal::graphics::TerminalReply;
use terminal::text_input::edits_with_alt;

/// Rows per notch of the wheel.
const WHEEL_ROWS: isize = 3;

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
            Message::News(news) => self.news(news),
            Message::Played(played) => self.played(*played),
            Message::Deck(event) => self.deck(event),
            message => self.replies(message),
        }
    }

    fn news(&mut self, news: News) {
        match news {
            News::View(view) => {
                self.view(view);
                self.screens.calls.redefine(&self.model.view);
                self.screens.calls.sources_followed(&self.model, &mut self.out);
            }
            News::Traffic(batch, oldest) => {
                self.model.take_traffic(batch, oldest);
                self.mark(Redraw::Soon);
            }
            News::Logs(batch, oldest) => {
                self.screens.calls.log(&batch.items, self.model.now);
                if self.pane != PaneId::Logs {
                    self.model.count_errors(&batch.items);
                }
                self.model.logs.take(batch, oldest);
                self.mark(Redraw::Soon);
            }
            News::Metrics(metrics) => {
                self.renew(|model| &mut model.metrics, metrics.into_iter().collect());
            }
            News::Calls(calls) => {
                self.screens.calls.follow(&calls, &self.model);
                if self.model.take_calls(calls) {
                    self.mark(Redraw::Soon);
                }
            }
            News::Clients(clients, blocked) => {
                self.renew(|model| &mut model.clients, clients);
                self.renew(|model| &mut model.blocked, blocked);
            }
            News::Policy(policy) => self.policy(policy),
            News::Cache(cache) => self.renew(|model| &mut model.cache, cache),
            News::Updated(updates) => {
                let now = self.model.now;
                self.screens.calls.resources_updated(&updates, now, &mut self.out);
                self.model.watched.update(&updates, now);
                self.mark(Redraw::Soon);
            }
            News::Subscriptions(all) => {
                self.model.watched.set_subscriptions(&all, self.model.now);
                self.mark(Redraw::Soon);
            }
            News::Tasks(all) => {
                self.model.watched.set_tasks(all);
                self.mark(Redraw::Soon);
            }
            News::Usage(usage) => {
                self.renew(|model| &mut model.usage, usage.into_iter().collect());
            }
        }
    }

    /// Handles an event of the configuration.
    fn deck(&mut self, event: DeckEvent) {
        match event {
            DeckEvent::Loaded(config, files) => {
                self.model.config = Some(config);
                self.model.files = files;
                self.engine(EngineState::Running);
                if self.pane == PaneId::Tests {
                    self.ask_bench(SuiteCommand::Read);
                }
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
                self.open(FormScreen::entry(&shown, &file, Some(*entry)));
            }
            DeckEvent::Saved(outcome) => self.entry_saved(outcome),
            DeckEvent::Done(text) => self.toast(Ink::from(&text), Role::Ok),
            DeckEvent::Failed(error) => self.failed(&error),
            DeckEvent::Notice(text) => self.toast(Ink::from(&text), Role::Warning),
            // The view and the situation report the others too.
            _ => {}
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
                let mut reader = TextReader::new(title, doc);
                reader.raw = content.and_then(|v| serde_json::to_string_pretty(&*v).ok());
                self.open(reader);
            }
            Message::Suites(news) => self.suites(news),
            Message::Found(found) => self.offer_import(*found),
            // Without the dialog that waits for them, nobody does.
            message @ (Message::ServerFound(_) | Message::ServerTried(_)) => {
                self.screens.receive(&message, &mut self.out);
            }
            Message::Recording(file) => {
                self.model.recording = file;
                self.mark(Redraw::Now);
            }
            Message::Chat(news) => self.chat_news(news),
            Message::FileExists(path, content) => {
                let lines =
                    vec![Ink::line(&path.display().to_string()), ink!("Its content will be lost.")];
                let yes = Effect::SaveAs { path, content, existing: Existing::Replace };
                self.confirm(ink!("replace the file?"), lines, vec![yes.into()]);
            }
            Message::NotWritten(path, content, why) => {
                let typed = path.display().to_string();
                self.open(NamePrompt::again(Named::File(content), &typed, why));
            }
            Message::Terminal(TerminalReply::Background(background)) => {
                if self.look.stands_on(background) {
                    self.adopt_user_files();
                    self.mark(Redraw::Now);
                }
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
            Message::KeptAnswer(answer) => self.screens.answers.kept.set(*answer),
            Message::SavedCalls(calls) => self.screens.calls.saved = calls,
            Message::NameTaken(name, replacing) => {
                let lines = vec![Ink::line(&name), ink!("What it holds now will be lost.")];
                self.confirm(ink!("replace it?"), lines, vec![(*replacing).into()]);
            }
            Message::FileEdited if self.pane == PaneId::Tests => {
                self.ask_bench(SuiteCommand::Read);
            }
            Message::FileEdited => {}
            Message::NotDone(text) => self.show_failure(ink!("not done"), &text),
            message => {
                let visible = self.visible_call();
                self.screens.take(message, visible, &mut self.model, &mut self.out);
            }
        }
    }

    fn suites(&mut self, news: SuiteNews) {
        match news {
            SuiteNews::Done(text) => {
                self.toast(Ink::from(&text), Role::Ok);
                self.ask_bench(SuiteCommand::Read);
            }
            SuiteNews::Failed(text) => self.toast(Ink::from(&text), Role::Warning),
            SuiteNews::RunFailed(text) => {
                self.toast(Ink::from(&text), Role::Warning);
                self.model.suites.take(SuiteNews::RunFailed(text));
            }
            news => {
                let has_ended = matches!(news, SuiteNews::Ended(_));
                self.model.suites.take(news);
                let failed = self.model.suites.many(SuiteState::Failed);
                if has_ended && failed > 0 {
                    self.toast(ink!("{} failed", count(failed, "step")), Role::Error);
                } else if has_ended {
                    self.toast(ink!("the suites have ended"), Role::Ok);
                }
                self.mark(Redraw::Soon);
            }
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
                self.open(reader);
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
        self.expire_toast(false);
        self.screens.calls.tick(now, self.visible_call(), &mut self.out);
    }

    /// Stores the policy, and warns when more definitions are undecided than before.
    fn policy(&mut self, policy: PolicyView) {
        let open = |policy: &PolicyView| {
            policy.held.iter().filter(|tool| tool.held != HeldReason::Refused).count()
        };
        let (before, now) = (open(&self.model.policy), open(&policy));
        self.renew(|model| &mut model.policy, Arc::new(policy));
        if now > before {
            let mut text = ink!("{} not as approved: ", count(now, "definition"));
            text.push(self.spelled("{policy} reviews"));
            self.toast(text, Role::Warning);
        }
    }

    /// Replaces a part of the model, and redraws if it differs.
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
        let fresh = view.pending.keys().filter(|id| !self.model.view.pending.contains_key(*id));
        let fresh = fresh.count();
        // Requests in a recording cannot be answered.
        if fresh > 0 && self.model.playback.is_none() {
            if let Some(request) = view.pending.values().next_back() {
                let (who, asks) = who_asks(request);
                let mut text = ink!("{} {}", who, asks);
                if fresh > 1 {
                    text.push(ink!("; {} more", fresh - 1));
                }
                text.push("   ");
                // An open answer screen takes the keys, so name its own binding.
                text.push(if self.screens.open_request().is_some() {
                    self.look.keymap.spelled(&[KeyScope::Answer], "{next-request} shows the next")
                } else {
                    self.spelled("{answer} to answer")
                });
                self.toast(text, Role::Attention);
            }
            if !self.setup.prefs.mute_bell {
                self.effects.push(Effect::Bell);
            }
        } else if view.pending.is_empty() && !self.model.view.pending.is_empty() {
            // Nothing is waiting any more, so the key in the toast would do nothing.
            self.drop_toast(Role::Attention);
        }
        if view.failures.len() > self.model.view.failures.len()
            && let Some((_, task, message)) = view.failures.last()
        {
            let text = ink!("{} failed, everything else continues: {}", task, message);
            self.toast(text, Role::Error);
        }
        self.screens.follow_answers(&view, &mut self.model, &mut self.out);
        self.model.take_view(view);
        self.screens_follow();
        self.mark(Redraw::Soon);
    }

    /// Shows a short error as a toast, any other in a reader that stays until it is closed.
    fn failed(&mut self, error: &Error) {
        self.show_failure(ink!("{}", error.code.words()), &SafeText::block(&error.to_string()));
    }

    fn show_failure(&mut self, title: Ink, text: &SafeText) {
        /// Longest text of a toast, in bytes.
        const MAX_TOAST_BYTES: usize = 69;
        if text.len() <= MAX_TOAST_BYTES && !text.contains('\n') {
            return self.toast(Ink::from(text), Role::Error);
        }
        let mut doc = Doc::new(reader_width(self.size));
        doc.text(0, text, Role::Error);
        self.read(title, doc);
    }

    /// Handles the result of saving an entry; a failure is left to its form while that is open.
    fn entry_saved(&mut self, outcome: Result<SafeText, SafeText>) {
        let message = Message::Deck(DeckEvent::Saved(outcome.clone()));
        let handled = self.screens.receive(&message, &mut self.out);
        match outcome {
            Ok(words) => self.toast(Ink::from(&words), Role::Ok),
            Err(reason) if !handled => self.toast(Ink::from(&reason), Role::Error),
            Err(_) => {}
        }
    }

    /// Shows another moment of a recording.
    fn played(&mut self, played: Played) {
        self.model.engine = EngineState::Running;
        self.model.now = played.playback.at;
        let before = self.model.playback.replace(played.playback);
        let losses = self.model.playback.as_ref().and_then(|now| now.losses.clone());
        if before.is_none_or(|before| before.losses.is_none())
            && let Some(lost) = losses
        {
            self.toast(Ink::from(&lost), Role::Warning);
        }
        if let Some(operations) = played.operations {
            self.model.operations = operations;
        }
        if played.is_whole {
            (self.model.traffic, self.model.logs) = (Feed::default(), Feed::default());
            self.model.activity = Activity::default();
            self.model.watched = Watched::default();
            for pane in PaneId::ALL {
                self.panes.get_mut(pane).rewound();
            }
        }
        for news in played.news {
            self.news(news);
        }
        self.mark(Redraw::Soon);
    }

    /// Replaces the kept answers with those of the configuration.
    pub fn use_kept_answers(&mut self, answers: Answers) {
        self.screens.answers.kept = answers;
        self.mark(Redraw::Now);
    }

    /// Handles that the engine is stopping: closes all dialogs.
    pub fn stopping(&mut self) {
        if !matches!(self.model.engine, EngineState::Stopping(_)) {
            self.model.engine = EngineState::Stopping(self.model.now);
        }
        self.screens.close_dialogs();
        self.mark(Redraw::Now);
    }

    /// The first item of the inbox, without requests whose answers are already sent.
    pub(super) fn first_todo(&self) -> Option<Todo> {
        let answers = &self.screens.answers;
        self.model.inbox().find(|todo| !matches!(todo, Todo::Request(id) if answers.is_sent(*id)))
    }

    /// What to open after an answer: the next request of the same call; nothing if that call is
    /// shown and goes on; else the first item of the inbox.
    fn todo_after(&self, answered: Option<&ApprovalRequest>) -> Option<Todo> {
        let call = answered.and_then(|request| request.call);
        let answers = &self.screens.answers;
        let mut pending = self.model.view.pending.values();
        let same = pending
            .find(|other| call.is_some() && other.call == call && !answers.is_sent(other.id));
        if let Some(same) = same {
            return Some(Todo::Request(same.id));
        }
        let shown = self.visible_call().and_then(|open| self.screens.calls.running(open));
        if call.is_some() && shown == call { None } else { self.first_todo() }
    }

    /// Handles that an answer was sent: closes its screen and opens the next item.
    pub(super) fn answer_sent(&mut self, id: ApprovalId) {
        let request = self.model.view.pending.get(&id).cloned();
        // The draft is kept until the engine confirms the answer: if the request is withdrawn
        // first, the user can still copy it.
        self.screens.answer_sent(id, &self.model.view);
        if let Some(todo) = self.todo_after(request.as_deref()) {
            self.open_todo(&todo);
        }
        self.moment.unasked = self.screens.open_request();
        let answers = &self.screens.answers;
        let waits = |todo: &Todo| match todo {
            Todo::Request(other) => *other != id && !answers.is_sent(*other),
            Todo::Approval(_) | Todo::Input(_) | Todo::Plan | Todo::Held(_) => true,
        };
        match (self.first_todo(), self.model.inbox().filter(waits).count()) {
            (None, _) => self.toast(ink!("sent"), Role::Ok),
            (Some(_), others) => self.toast(ink!("sent; {} more waiting", others), Role::Ok),
        }
    }

    /// Closes the screens that have no reason any more. Whoever was typing into one learns of it, and
    /// what is typed on acts nowhere else.
    fn screens_follow(&mut self) {
        if self.screens.follow(&self.model) {
            self.stray_keys.begin(self.wall);
            let text = ink!("closed: it was answered elsewhere, or asks for something else now");
            self.toast(text, Role::Warning);
        }
    }

    /// Handles a change of the configuration's state.
    fn situation(&mut self, situation: Arc<Situation>) {
        let listed: Vec<Todo> = self.model.inbox_of_configuration().collect();
        let before = std::mem::replace(&mut self.model.situation, situation);
        let now = Arc::clone(&self.model.situation);
        self.mark(Redraw::Now);
        self.screens_follow();
        // A command that changed needs a new approval, as does a file that changed again.
        let is_fresh = |todo: &Todo| match todo {
            Todo::Approval(server) => {
                !self.screens.has_open(todo)
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
        // An approval opens by itself only at startup, when the user cannot be typing yet.
        // Or when the user has just added the servers.
        let at_once = before.revision == 0 || self.expects_approval;
        let opens = |todo: &&Todo| !matches!(todo, Todo::Approval(_)) || at_once;
        let next = fresh.iter().find(opens).cloned();
        let next = next.or_else(|| self.model.inbox_of_configuration().find(|_| done));
        // Whether a dialog that opens now cannot intercept keys meant for something else.
        let is_idle =
            self.screens.open().is_none() && self.panes.get_mut(self.pane).typing().is_none();
        if !fresh.is_empty() {
            self.expects_approval = false;
        }
        match next.filter(|_| is_idle) {
            Some(todo) => self.open_todo(&todo),
            None => self.call_for(fresh.first()),
        }
        if !fresh.is_empty() && !self.setup.prefs.mute_bell && now.revision > 1 {
            self.effects.push(Effect::Bell);
        }
    }

    /// Shows a toast for a new item of the inbox.
    fn call_for(&mut self, fresh: Option<&Todo>) {
        let mut text = match fresh {
            None | Some(Todo::Request(_) | Todo::Held(_)) => return,
            Some(Todo::Approval(_)) => {
                let asked = self.model.situation.needing_approval().count();
                let s = if asked == 1 { "s" } else { "" };
                ink!("{} await{} your approval", count(asked, "command"), s)
            }
            Some(Todo::Input(_)) => ink!("the configuration asks for a value"),
            Some(Todo::Plan) => ink!("the configuration has changed"),
        };
        text.push("   ").push(self.spelled("{show-inbox} shows it"));
        self.toast(text, Role::Attention);
    }

    // Terminal input: keys, mouse and pasted text go to the topmost screen or the pane, and then to
    // the global bindings.

    pub(super) fn input(&mut self, event: Event) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.expire_toast(true);
                self.drag_over();
                self.drop_reply();
                self.key(key);
            }
            Event::Mouse(mouse) => {
                self.mouse(mouse);
                // Afterwards: a click on an error must not press a key that it covers. A pointer
                // that only moves is no sign that somebody read it.
                self.expire_toast(mouse.kind != MouseEventKind::Moved);
            }
            Event::Paste(text) => self.paste(&text),
            Event::Resize(width, height) => self.incoming(Message::Resize(width, height)),
            Event::FocusGained => {
                self.moment.forget();
                self.mark(Redraw::Now);
            }
            _ => {}
        }
    }

    fn key(&mut self, key: KeyEvent) {
        if self.stale {
            self.sync();
        }
        let chord = Chord::pressed(key);
        let is_text = chord.typed().is_some() || matches!(key.code, KeyCode::Enter | KeyCode::Tab);
        if is_text && self.stray_keys.takes(self.wall) {
            return;
        }
        let typing = self.is_typing();
        let keymap = &self.look.keymap;
        let mut scopes = self.scopes();
        let global = scopes.pop().and_then(|scope| keymap.action(&[scope], chord));
        // Plain characters are text where it is typed, unless they are bound there.
        let global = global.filter(|_| !typing || chord.typed().is_none());
        let own = match self.screens.top() {
            Some(_) => keymap.pressed(&scopes, key),
            None => keymap.action(&scopes, chord),
        };
        let action = own.or(global);
        let is_chord = !typing || matches!(key.code, KeyCode::Char(c) if !edits_with_alt(c));
        if key.modifiers.contains(KeyModifiers::ALT) && is_chord && action.is_none() {
            // Escape followed quickly by a key looks like an alt chord; one that means nothing here is
            // two keys.
            self.key(KeyCode::Esc.into());
            let modifiers = key.modifiers - KeyModifiers::ALT;
            return self.key(KeyEvent { modifiers, ..key });
        }
        if let Some(screen) = self.screens.top() {
            let through = global.filter(|action| own.is_none() && screen.lets_through(*action));
            if let Some(action) = through {
                self.mark(Redraw::Now);
                self.guide.follow(action);
                if self.may(action) {
                    self.perform_anywhere(action);
                }
            } else if !self.on_screen(|screen, ui, out| screen.key(key, own, ui, out))
                && let Some(action) = action
            {
                self.act_on_screen(action);
            }
            return;
        }
        let acts = |action| {
            matches!(action, Action::Open | Action::Back | Action::Up | Action::Down)
                || matches!(action, Action::QuitNow | Action::Palette)
        };
        if typing && !action.is_some_and(acts) && self.type_key(key) {
            return self.mark(Redraw::Now);
        }
        if let Some(action) = action {
            self.mark(Redraw::Now);
            self.perform(action);
        }
    }

    /// Types a key into the filter of the pane.
    fn type_key(&mut self, key: KeyEvent) -> bool {
        let taken = self.panes.get_mut(self.pane).typing().is_some_and(|input| input.key(key));
        if taken {
            self.remember_filter();
        }
        taken
    }

    fn paste(&mut self, text: &str) {
        if self.stray_keys.takes(self.wall) {
            return;
        }
        let is_opened = !self.is_typing() && self.open_line(text);
        let text = if is_opened { &text[1..] } else { text };
        if self.screens.top().is_some() {
            return self.on_screen(|screen, ui, out| screen.paste(text, ui, out));
        }
        let Some(input) = self.panes.get_mut(self.pane).typing() else {
            return self.toast(ink!("nothing here takes text"), Role::Warning);
        };
        input.insert(text);
        self.remember_filter();
        self.mark(Redraw::Now);
    }

    /// Opens the line that text which arrives at once is for, when its first character is the key of
    /// one: a filter, a search or the palette. Of what no person typed, nothing more acts as a key.
    fn open_line(&mut self, text: &str) -> bool {
        let first = text.chars().next().filter(char::is_ascii_punctuation);
        let Some(first) = first.filter(|_| text.len() > 1) else { return false };
        let key = KeyEvent::from(KeyCode::Char(first));
        let (keymap, scopes) = (&self.look.keymap, self.scopes());
        let action = match self.screens.top() {
            Some(_) => keymap.pressed(&scopes, key),
            None => keymap.action(&scopes, Chord::pressed(key)),
        };
        let opens = [Action::Filter, Action::Search, Action::Palette];
        if !action.is_some_and(|action| opens.contains(&action)) {
            return false;
        }
        self.key(key);
        self.is_typing()
    }

    fn mouse(&mut self, mouse: MouseEvent) {
        let at = Position::new(mouse.column, mouse.row);
        let gesture = match mouse.kind {
            MouseEventKind::ScrollUp => Gesture::Scroll { at, delta: -WHEEL_ROWS },
            MouseEventKind::ScrollDown => Gesture::Scroll { at, delta: WHEEL_ROWS },
            MouseEventKind::Drag(MouseButton::Left) => return self.drag_to(at),
            MouseEventKind::Up(MouseButton::Left) => return self.drag_done(),
            MouseEventKind::Down(MouseButton::Left) => {
                let double = self.pointer.click(at, self.wall);
                if double { Gesture::DoubleClick(at) } else { Gesture::Click(at) }
            }
            _ => return,
        };
        self.mark(Redraw::Now);
        self.drag_over();
        if !matches!(gesture, Gesture::Scroll { .. }) {
            self.pointer.pressed = Some(at);
        }
        let frame = self.screens.top().and_then(|top| frame_area(top, self.size));
        let on_keys = self.layout().is_some_and(|layout| layout.footer.contains(at));
        if let Some(frame) = frame.filter(|frame| !on_keys || frame.contains(at)) {
            return self.on_screen(|dialog, ui, out| {
                if frame.contains(at) {
                    dialog.mouse(gesture, ui, out);
                } else if matches!(gesture, Gesture::Click(_)) && dialog.is_passing() {
                    dialog.act(Action::Back, ui, out);
                }
            });
        }
        let Some(layout) = self.layout() else { return };
        if layout.message().contains(at) && self.model.playback.is_some() {
            let share = playback::share_at(at.x, layout.message());
            return self.effects.extend(share.map(|to| Effect::Play(PlayCommand::To(to))));
        }
        let filling = self.filling_area(&layout);
        if self.screens.top().is_some() {
            if on_keys || filling.contains(at) {
                return self.screen_mouse(gesture, &layout);
            }
            if layout.main.contains(at) {
                // The list beside a call or an answer: a click goes back to it.
                if !matches!(gesture, Gesture::Scroll { .. }) {
                    self.leave_bench();
                }
                self.on_pane(|pane, ui, out| pane.mouse(gesture, ui, out));
                return;
            }
        } else if filling.contains(at)
            && let Some(call) = self.call_beside()
        {
            self.push_screen(OpenScreen::Call(call));
            return self.screen_mouse(gesture, &layout);
        }
        if layout.main.contains(at) {
            self.focus = AppFocus::Pane;
            self.on_pane(|pane, ui, out| pane.mouse(gesture, ui, out));
        } else if let Some(servers) = layout.servers.filter(|area| area.contains(at)) {
            self.focus = AppFocus::Servers;
            if let Gesture::Scroll { delta, .. } = gesture {
                self.model.scope = self.servers.step(delta.signum());
            } else if let Some(row) = self.servers.row_at(at.y - servers.y) {
                self.model.scope.clone_from(row);
            }
        } else if layout.tabs.contains(at) {
            let cx = self.look.cx(&self.model, true);
            if let Gesture::Scroll { delta, .. } = gesture {
                self.turn_pane(delta.signum());
            } else {
                let line = self.tab_line();
                let action = chrome::tab_at(&cx, &line, layout.tabs, at.x);
                if let Some(action) = action.filter(|action| line.open != Some(*action)) {
                    self.perform_anywhere(action);
                }
            }
        } else if layout.header.contains(at) && self.model.inbox().next().is_some() {
            self.show(PaneId::Inbox);
        } else if layout.header.contains(at) && self.model.rejected().next().is_some() {
            self.show(PaneId::Config);
        } else if on_keys
            && matches!(gesture, Gesture::Click(_) | Gesture::DoubleClick(_))
            && let Some(action) = chrome::footer_at(keys::footer(self), layout.footer, at.x)
        {
            self.perform(action);
        }
    }

    /// Handles the mouse on an open screen, or on the line of keys below it.
    fn screen_mouse(&mut self, gesture: Gesture, layout: &Layout) {
        let at = gesture.position();
        if !layout.footer.contains(at) {
            return self.on_screen(|screen, ui, out| screen.mouse(gesture, ui, out));
        }
        let Some(screen) = self.screens.top().filter(|_| gesture == Gesture::Click(at)) else {
            return;
        };
        if self.is_covered() {
            let action = chrome::footer_at(keys::footer(self), layout.footer, at.x);
            if let Some(action) = action.filter(|action| self.may(*action)) {
                if keys::is_of_screen(self, action) {
                    self.act_on_screen(action);
                } else {
                    self.perform_anywhere(action);
                }
            }
        } else if let Some(chord) = screen.key_line(&self.look.keymap).at(layout.footer, at.x) {
            self.key(KeyEvent::new(chord.code, chord.modifiers));
        }
    }

    /// Extends the selection while the button is held down.
    fn drag_to(&mut self, at: Position) {
        if self.pointer.drag.is_none() {
            let Some(from) = self.pointer.pressed.filter(|from| *from != at) else { return };
            self.pointer.drag = self.drag_region(from).map(|region| Drag::new(region, from));
        }
        if let Some(drag) = &mut self.pointer.drag {
            drag.to(at);
            self.mark(Redraw::Now);
        }
    }

    /// Copies the selection when the button is released.
    fn drag_done(&mut self) {
        let drag = self.pointer.drag.take();
        self.pointer.pressed = None;
        let Some(drag) = drag else { return };
        self.mark(Redraw::Now);
        let text = drag.text(&self.drawn());
        let said = match text.lines().count() {
            0 => return,
            1 => ink!("copied {}", count(text.chars().count(), "character")),
            lines => ink!("copied {} lines", lines),
        };
        self.toast(said, Role::Ok);
        self.effects.push(Effect::Copy(text));
    }

    /// Clears the selection.
    fn drag_over(&mut self) {
        if self.pointer.release() {
            self.mark(Redraw::Now);
        }
    }

    /// The region a drag from here is limited to: the part between two vertical rules.
    fn drag_region(&self, from: Position) -> Option<Rect> {
        let whole = if let Some(screen) = self.screens.top() {
            let area = frame_area(screen, self.size).unwrap_or_else(|| self.screen_area());
            screen.region_at(area, from)
        } else {
            self.layout()?.region_at(from)?
        };
        let region = whole.intersection(self.size);
        if !region.contains(from) {
            return None;
        }
        let frame = self.drawn();
        let is_rule = |x: &u16| {
            frame.cell((*x, from.y)).is_some_and(|cell| cell.symbol() == self.look.glyphs.vertical)
        };
        let left = (region.left()..from.x).rev().find(is_rule).map_or(region.left(), |x| x + 1);
        let right = (from.x..region.right()).find(is_rule).unwrap_or(region.right());
        (left < right).then_some(Rect { x: left, width: right - left, ..region })
    }

    /// The decision on top of the screen; `None` if there is none. A dialog that the
    /// user opened over a request does not reset its time to read.
    pub(super) fn decision(&self) -> Option<String> {
        let shown = [self.screens.top(), self.screens.filling()];
        shown.into_iter().flatten().find_map(Screen::decision)
    }

    /// Whether the current decision was shown long enough; warns if not.
    pub(super) fn was_read(&mut self) -> bool {
        let Some(decision) = self.decision() else { return true };
        let open = self.screens.open_request();
        let read = self.moment.was_read(&decision, open, self.model.now);
        if read {
            self.drop_toast(Role::Warning);
        } else {
            let text = ink!("too soon: it has only just appeared; read it first");
            self.toast(text, Role::Warning);
        }
        read
    }
}
