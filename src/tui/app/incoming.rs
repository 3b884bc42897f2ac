//! What comes from outside: the engine, the clock, finished effects.

use std::sync::Arc;

use ratatui::layout::Rect;

use super::{App, Redraw};
use crate::base::LogLevel;
use crate::base::text::SafeText;
use crate::deck::policy::PolicyView;
use crate::error::Error;
use crate::host::HostView;
use crate::host::policy::Held;
use crate::tui::chat::port::ChatNews;
use crate::tui::effect::Effect;
use crate::tui::ink::{Ink, count, ink};
use crate::tui::keymap::Scope;
use crate::tui::message::Message;
use crate::tui::model::{EngineState, who_asks};
use crate::tui::overlay::{Choice, Overlay, Palette, Pick, Reader};
use crate::tui::pane::Toast;
use crate::tui::theme::Role;
use crate::tui::widget::Doc;

impl App {
    pub(super) fn incoming(&mut self, message: Message, effects: &mut Vec<Effect>) {
        match message {
            Message::Now(now) => {
                self.now(now);
                self.call_tick(now, effects);
            }
            Message::Resize(width, height) => {
                self.size = Rect::new(0, 0, width, height);
                self.mark(Redraw::Now);
            }
            Message::EngineReady => self.engine(EngineState::Running),
            Message::EngineFailed(error) => {
                self.model.refused.clone_from(&error.diagnostics);
                self.engine(EngineState::Failed(SafeText::line(&error.to_string())));
                self.pane = crate::tui::pane::PaneId::Config;
            }
            Message::View(view) => {
                self.view(view, effects);
                self.calls_redefined();
                self.sources_followed(effects);
            }
            Message::Traffic(batch, oldest) => {
                self.resources_updated(&batch.items, effects);
                for record in &batch.items {
                    self.model.activity.count(&record.server, record.at);
                }
                if self.model.playback.is_none() {
                    let operations = Arc::make_mut(&mut self.model.operations);
                    for record in &batch.items {
                        operations.frame(record);
                    }
                }
                self.model.traffic.take(batch, oldest);
                self.mark(Redraw::Soon);
            }
            Message::Played(played) => super::playback::played(self, *played, effects),
            Message::Logs(batch, oldest) => {
                self.calls_logged(&batch.items);
                let errors = batch.items.iter().filter(|line| line.level >= LogLevel::Error);
                let unseen = self.pane != crate::tui::pane::PaneId::Logs;
                self.model.unseen_errors += if unseen { errors.count() } else { 0 };
                self.model.logs.take(batch, oldest);
                self.mark(Redraw::Soon);
            }
            Message::Metrics(metrics) => {
                let metrics = metrics.into_iter().collect();
                if self.model.metrics != metrics {
                    self.model.metrics = metrics;
                    self.mark(Redraw::Soon);
                }
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
            Message::Cache(cache) => {
                if self.model.cache != cache {
                    self.model.cache = cache;
                    self.mark(Redraw::Soon);
                }
            }
            Message::Usage(usage) => {
                let usage = usage.into_iter().collect();
                if self.model.usage != usage {
                    self.model.usage = usage;
                    self.mark(Redraw::Soon);
                }
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
            message => self.replies(message, effects),
        }
    }

    fn replies(&mut self, message: Message, effects: &mut Vec<Effect>) {
        match message {
            Message::CacheContent(key, content) => {
                let mut doc = Doc::new(crate::tui::overlay::reader_width(self.size));
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
            Message::CallBegan(token, id) => self.call_began(token, id),
            Message::CallEnded(token, result) => self.call_ended(token, *result, effects),
            Message::CallProgress(token, progress) => self.call_progress(token, progress),
            Message::Edited(token, text) => match token.answers() {
                Some(id) => self.answer_edited(id, &text),
                None => self.call_edited(token, text),
            },
            message @ (Message::Drafter(_)
            | Message::Drafted(..)
            | Message::Opened(..)
            | Message::KeptAnswers(_)) => self.answer_message(message, effects),
            message @ Message::Baseline(..) => _ = self.screen_hears(&message, effects),
            Message::FileRead(token, bytes) => self.call_file(token, bytes, effects),
            Message::Chat(news) => self.chat_news(news),
            Message::Entry(entry) => self.open_entry(*entry),
            Message::Saved(outcome) => self.entry_saved(outcome, effects),
            Message::Situation(situation) => self.situation(situation, effects),
            Message::FileExists(path, content) => self.ask_to_replace(path, content),
            Message::Checked(token, found) => match token.answers() {
                Some(id) => self.answer_checked(id, &found, effects),
                None => self.call_checked(token, *found, effects),
            },
            Message::PictureDone(token, done) => self.picture_done(token, *done),
            Message::Comparing(token, stage) => self.comparing(token, stage),
            Message::Compared(token, found) => self.compared(token, *found),
            Message::Terminal(reply) if self.setup.graphics.answered(reply) => {
                self.mark(Redraw::Now);
            }
            Message::Done(text) => self.toast(Ink::from(&text), Role::Ok),
            Message::Warned(text) => self.toast(Ink::from(&text), Role::Warning),
            Message::Failed(error) => self.failed(&error),
            Message::UserFiles(user) => {
                self.setup.user = user;
                self.adopt_user_files();
                self.mark(Redraw::Now);
            }
            Message::Terminate => self.leave(effects),
            Message::EngineStopped => self.mark(Redraw::Now),
            Message::WorkerPanicked(what) => {
                self.toast(ink!("a worker failed, the rest goes on: {}", &what), Role::Error);
            }
            _ => {}
        }
    }

    fn chat_news(&mut self, news: ChatNews) {
        match news {
            ChatNews::Choices(what, choices) => {
                let choices = choices.into_iter().map(|(words, command)| Choice {
                    words: Ink::from(&words),
                    hint: Ink::default(),
                    pick: Pick::Chat(command),
                    disabled: None,
                });
                let palette = Palette::new(ink!("{}", what.title()), choices.collect());
                self.push_overlay(Overlay::Palette(palette));
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

    fn now(&mut self, now: crate::base::Timestamp) {
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

    fn engine(&mut self, state: EngineState) {
        self.model.engine = state;
        self.mark(Redraw::Now);
    }

    fn view(&mut self, view: Arc<HostView>, effects: &mut Vec<Effect>) {
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
                effects.push(Effect::Bell);
            }
        } else if view.pending.is_empty() && !self.model.view.pending.is_empty() {
            // Nothing waits any more: no key answers it.
            self.toast.take_if(|(_, toast)| toast.role == Role::Attention);
        }
        if view.failures.len() > self.model.view.failures.len()
            && let Some((_, task, message)) = view.failures.last()
        {
            self.toast(ink!("{} failed, the rest goes on: {}", task, message), Role::Error);
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
        let mut doc = Doc::new(crate::tui::overlay::reader_width(self.size));
        doc.text(0, &text, Role::Error);
        let title = ink!("{}", error.code);
        self.push_overlay(Overlay::Reader(Reader::new(title, doc)));
    }

    pub(super) fn push_overlay(&mut self, overlay: Overlay) {
        self.overlays.push(overlay);
        self.mark(Redraw::Now);
    }
}
