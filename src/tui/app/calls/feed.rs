//! What happens to calls and forms from outside: time, answers, progress, logs, changed
//! definitions, files.

use std::sync::Arc;

use super::subject_of;
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
use crate::tui::call::{CallScreen, SubjectKind};
use crate::tui::effect::Effect;
use crate::tui::ink::{Ink, ink};
use crate::tui::message::{CallPurpose, CallToken, FormToken};
use crate::tui::theme::Role;

/// Time between frames while a call runs and nothing else happens.
const TICK: std::time::Duration = std::time::Duration::from_millis(100);

impl App {
    /// Time went on: completions, elapsed time.
    pub(in crate::tui::app) fn call_tick(&mut self, now: Timestamp, effects: &mut Vec<Effect>) {
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
                self.wanted(wanted, effects);
            }
        }
    }

    /// When the open screen needs to know the time.
    pub(in crate::tui::app) fn call_wake(&self) -> Option<Timestamp> {
        let open = self.open_call_number().and_then(|open| self.calls.screens.get(open));
        let runs = open.is_some_and(|screen| screen.in_flight() > 0);
        let running = runs.then(|| self.model.now.plus(TICK));
        self.calls.screens.iter().filter_map(CallScreen::wake).chain(running).min()
    }

    /// The engine gave a call its id.
    pub(in crate::tui::app) fn call_began(&mut self, token: CallToken, id: CallId) {
        self.calls.ids.insert(token, id);
    }

    /// A call has ended; gives whether it was one of these screens'.
    pub(in crate::tui::app) fn call_ended(
        &mut self,
        token: CallToken,
        result: Result<CallOutcome, Error>,
        effects: &mut Vec<Effect>,
    ) {
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
                self.wanted(wanted, effects);
            }
        }
        self.mark(Redraw::Now);
    }

    /// A call made progress.
    pub(in crate::tui::app) fn call_progress(&mut self, token: CallToken, progress: Progress) {
        self.calls.ids.insert(token, progress.call);
        let screen = self.calls.screens.get_mut(token.screen);
        if let (Some(screen), CallPurpose::Run(run)) = (screen, token.what) {
            screen.progress(run, progress);
            self.mark(Redraw::Soon);
        }
    }

    /// What the engine knows of calls in flight.
    pub(in crate::tui::app) fn calls_followed(&mut self, views: &[CallView]) {
        for (token, id) in &self.calls.ids {
            let view = views.iter().find(|view| view.id == *id);
            let screen = self.calls.screens.get_mut(token.screen);
            if let (Some(view), Some(screen), CallPurpose::Run(run)) = (view, screen, token.what) {
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
        token: FormToken,
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
        token: FormToken,
        bytes: Result<Vec<u8>, SafeText>,
        effects: &mut Vec<Effect>,
    ) {
        match (self.calls.screens.get_mut(token.0 as usize), bytes) {
            (Some(screen), Ok(bytes)) => {
                let wanted = screen.file_read(&bytes);
                self.wanted(wanted, effects);
            }
            (_, Err(reason)) => self.toast(Ink::from(&reason), Role::Warning),
            (None, Ok(_)) => {}
        }
        self.mark(Redraw::Now);
    }
}
