//! What happens to calls and forms from outside: time, answers, progress, logs, changed
//! definitions, files.

use std::sync::Arc;

use super::{Answers, subject_of};
use crate::base::Timestamp;
use crate::base::logs::{LogRecord, LogSource};
use crate::base::text::SafeText;
use crate::error::Error;
use crate::host::CallOutcome;
use crate::host::call::CallView;
use crate::mcp::CallId;
use crate::mcp::Progress;
use crate::mcp::capabilities::ListKind;
use crate::tui::app::{App, Redraw};
use crate::tui::call::folder::Looked;
use crate::tui::call::{CallScreen, SubjectKind};
use crate::tui::effect::Effect;
use crate::tui::ink::{Ink, ink};
use crate::tui::message::{CallToken, EditToken};
use crate::tui::theme::Role;

/// Time between frames while a call runs and nothing else happens.
const TICK: std::time::Duration = std::time::Duration::from_millis(100);

impl App {
    /// Time went on: completions, elapsed time.
    pub(in crate::tui::app) fn call_tick(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
        let running = self.calls.screens.iter().any(|screen| screen.in_flight() > 0);
        if running && self.calls.open.is_some() {
            self.mark(Redraw::Soon);
        }
        // Forms that were left are kept too, a moment later than they were typed.
        for index in 0..self.calls.screens.len() {
            let screen = &mut self.calls.screens[index];
            if self.calls.open == Some(index) || screen.wake().is_some_and(|at| now >= at) {
                let intents = screen.tick(now);
                self.intents_of(index, intents, effects);
            }
        }
    }

    /// When the open screen wants to be told the time.
    pub(in crate::tui::app) fn call_wake(&self) -> Option<Timestamp> {
        let open = self.calls.open.and_then(|open| self.calls.screens.get(open));
        let runs = open.is_some_and(|screen| screen.in_flight() > 0);
        let running = runs.then(|| self.model.now.plus(TICK));
        self.calls.screens.iter().filter_map(CallScreen::wake).chain(running).min()
    }

    /// The engine gave a call its id.
    pub(in crate::tui::app) fn call_began(&mut self, token: CallToken, id: CallId) {
        if let Some(route) = self.calls.routes.get_mut(&token) {
            route.id = Some(id);
        }
    }

    /// A call has ended; gives whether it was one of these screens'.
    pub(in crate::tui::app) fn call_ended(
        &mut self,
        token: CallToken,
        result: Result<CallOutcome, Error>,
        effects: &mut Vec<Effect>,
    ) {
        let Some(route) = self.calls.routes.remove(&token) else { return };
        // The next snapshot of calls comes a moment later; to leave meanwhile needs no question.
        if let Some(id) = route.id {
            self.model.call_ended(id);
        }
        let Some(screen) = self.calls.screens.get_mut(route.screen) else { return };
        match (route.what, result) {
            (Answers::Completion(ticket), Ok(outcome)) => screen.suggested(ticket, &outcome.result),
            // A server that cannot complete is no reason to disturb typing.
            (Answers::Completion(_), Err(_)) => {}
            (Answers::Run(run), result) => {
                let label = screen.subject.label.clone();
                let refresh = screen.is_refresh(run);
                let elsewhere = self.calls.open != Some(route.screen);
                let failed = result.as_ref().err().map(|error| error.code);
                let intents = screen.ended(run, result);
                if elsewhere && !refresh {
                    match failed {
                        None => self.toast(ink!("{} finished", &label), Role::Ok),
                        Some(code) => self.toast(ink!("{} failed: {}", &label, code), Role::Error),
                    }
                }
                self.intents_of(route.screen, intents, effects);
            }
        }
        self.mark(Redraw::Now);
    }

    /// A call made progress.
    pub(in crate::tui::app) fn call_progress(&mut self, token: CallToken, progress: Progress) {
        let Some(route) = self.calls.routes.get_mut(&token) else { return };
        route.id = Some(progress.call);
        let (screen, what) = (route.screen, route.what);
        if let (Some(screen), Answers::Run(run)) = (self.calls.screens.get_mut(screen), what) {
            screen.progress(run, progress);
            self.mark(Redraw::Soon);
        }
    }

    /// What the engine knows of calls in flight.
    pub(in crate::tui::app) fn calls_followed(&mut self, views: &[CallView]) {
        for route in self.calls.routes.values() {
            let view = views.iter().find(|view| Some(view.id) == route.id);
            let screen = self.calls.screens.get_mut(route.screen);
            if let (Some(view), Some(screen), Answers::Run(run)) = (view, screen, route.what) {
                screen.follow(run, view, self.model.now);
            }
        }
    }

    /// Log notifications go to the calls that run on their server.
    pub(in crate::tui::app) fn calls_logged(&mut self, records: &[Arc<LogRecord>]) {
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
    pub(in crate::tui::app) fn calls_redefined(&mut self) {
        let view = Arc::clone(&self.model.view);
        for screen in &mut self.calls.screens {
            let subject = &screen.subject;
            let Some(server) = view.servers.get(&subject.server) else { continue };
            let list = match subject.kind {
                SubjectKind::Tool => ListKind::Tools,
                SubjectKind::Prompt => ListKind::Prompts,
                SubjectKind::Template => ListKind::ResourceTemplates,
                SubjectKind::Resource => continue,
            };
            let now = subject_of(server, list, &subject.wire);
            if let Some(now) = now.filter(|now| now != subject) {
                screen.redefine(now);
            }
        }
    }

    /// The editor was closed.
    pub(in crate::tui::app) fn call_edited(
        &mut self,
        token: EditToken,
        text: Result<String, SafeText>,
    ) {
        match (self.calls.screens.get_mut(token.0 as usize), text) {
            (Some(screen), Ok(text)) => screen.edited(&text),
            (_, Err(reason)) => self.toast(Ink::from(&reason), Role::Warning),
            (None, Ok(_)) => {}
        }
        self.mark(Redraw::Now);
    }

    /// A file was read for a field.
    pub(in crate::tui::app) fn call_file(
        &mut self,
        token: EditToken,
        bytes: Result<Vec<u8>, SafeText>,
        effects: &mut Vec<Effect>,
    ) {
        match (self.calls.screens.get_mut(token.0 as usize), bytes) {
            (Some(screen), Ok(bytes)) => {
                let intents = screen.file_read(&bytes);
                self.intents_of(token.0 as usize, intents, effects);
            }
            (_, Err(reason)) => self.toast(Ink::from(&reason), Role::Warning),
            (None, Ok(_)) => {}
        }
        self.mark(Redraw::Now);
    }

    /// A path was looked at for the file picker.
    pub(in crate::tui::app) fn call_looked(
        &mut self,
        token: EditToken,
        looked: Looked,
        effects: &mut Vec<Effect>,
    ) {
        if let Some(screen) = self.calls.screens.get_mut(token.0 as usize) {
            let intents = screen.looked(looked);
            self.intents_of(token.0 as usize, intents, effects);
        }
        self.mark(Redraw::Now);
    }
}
