//! The call screens of the dashboard: opened from the lists, kept while the person is elsewhere,
//! fed with what happens to their calls. Turns what they want into effects.

use std::collections::HashMap;
use std::sync::Arc;

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{App, Redraw};
use crate::base::Timestamp;
use crate::deck::history::History;
use crate::deck::saved::SavedCalls;
use crate::host::ServerView;
use crate::mcp::CallId;
use crate::mcp::capabilities::ListKind;
use crate::tui::action::Action;
use crate::tui::call::screen::Subscription;
use crate::tui::call::{CallScreen, Intent, Subject, SubjectKind};
use crate::tui::effect::{CallRequest, CallTarget, Effect, Existing, ServerCommand};
use crate::tui::form::draw::Look;
use crate::tui::glyph::Glyphs;
use crate::tui::graphics::Graphics;
use crate::tui::ink::{Ink, count, ink};
use crate::tui::keymap::{Keymap, Scope};
use crate::tui::message::{CallToken, EditToken};
use crate::tui::overlay::{Overlay, Reader, reader_width};
use crate::tui::theme::{Role, Theme};
use crate::tui::widget::Doc;

mod again;
mod feed;
mod mouse;
mod offers;
mod work;

/// All call screens.
#[derive(Default)]
pub struct Calls {
    screens: Vec<CallScreen>,
    open: Option<usize>,
    routes: HashMap<CallToken, Route>,
    history: History,
    saved: SavedCalls,
    next_token: u64,
    again: again::Again,
}

/// Where the answer to a call goes.
struct Route {
    screen: usize,
    what: Answers,
    id: Option<CallId>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Answers {
    Run(u64),
    Completion(u64),
}

impl Calls {
    /// Screens over what is known of the past.
    pub fn new(history: History, saved: SavedCalls) -> Self {
        Self { history, saved, ..Self::default() }
    }

    pub(super) fn screen(&mut self) -> Option<&mut CallScreen> {
        self.screens.get_mut(self.open?)
    }

    fn token(&mut self, screen: usize, what: Answers) -> CallToken {
        self.next_token += 1;
        let token = CallToken(self.next_token);
        self.routes.insert(token, Route { screen, what, id: None });
        token
    }

    /// Shows the screen of a subject, as it was left when it was open before.
    fn show(&mut self, subject: Subject, keymap: &Arc<Keymap>, now: Timestamp) {
        let key = subject.key();
        let found = self.screens.iter().position(|screen| screen.subject.key() == key);
        let index = found.unwrap_or_else(|| {
            self.screens.push(CallScreen::new(subject.clone(), &self.history, &self.saved, now));
            self.screens.len() - 1
        });
        if found.is_some() {
            self.screens[index].redefine(subject);
        }
        self.screens[index].keymap = Arc::clone(keymap);
        self.open = Some(index);
    }

    /// Other keys are in use.
    pub(super) fn use_keymap(&mut self, keymap: &Arc<Keymap>) {
        for screen in &mut self.screens {
            screen.keymap = Arc::clone(keymap);
        }
    }
}

impl App {
    /// Whether a call screen is open.
    pub fn is_calling(&self) -> bool {
        self.calls.open.is_some()
    }

    /// Leaves the call screen, keeping it; another pane is wanted.
    pub(super) fn leave_call(&mut self) {
        self.calls.open = None;
    }

    /// A key while a call screen is open; gives whether it was taken.
    pub(super) fn call_key(&mut self, key: KeyEvent, effects: &mut Vec<Effect>) -> bool {
        if !self.overlays.is_empty() || self.calls.open.is_none() {
            return false;
        }
        let now = self.model.now;
        let chord = crate::tui::chord::Chord::pressed(key);
        let global = self.keymap.action(&[Scope::Global], chord);
        let Some(screen) = self.calls.screen() else { return false };
        // A plain character belongs to whatever takes letters, whatever it is bound to elsewhere.
        let letter = chord.typed().is_some() && screen.takes_letters();
        let known = self.keymap.pressed(screen.scopes(), key).is_some();
        if matches!(
            global,
            Some(Action::QuitNow | Action::Suspend | Action::Redraw | Action::Rerun)
        ) {
            return false;
        }
        let picking = matches!(screen.ask, Some(crate::tui::call::ask::Ask::File(_)));
        if picking && global == Some(Action::Help) && chord.typed().is_none() {
            self.open_call_help();
            return true;
        }
        if screen.ask.is_none() && !letter {
            if global == Some(Action::Help) {
                self.open_call_help();
                return true;
            }
            let palette = global == Some(Action::Palette);
            if palette || (!known && global.is_some_and(is_of_a_call_screen)) {
                return false;
            }
        }
        let intents = screen.key(key, now);
        self.mark(Redraw::Now);
        self.intents(intents, effects);
        true
    }

    /// Text was pasted while a call screen is open; gives whether it was taken.
    pub(super) fn call_paste(&mut self, text: &str, effects: &mut Vec<Effect>) -> bool {
        if !self.overlays.is_empty() {
            return false;
        }
        let now = self.model.now;
        let Some(screen) = self.calls.screen() else { return false };
        let intents = screen.paste(text, now);
        self.mark(Redraw::Now);
        self.intents(intents, effects);
        true
    }

    /// Does an action of the open screen.
    pub(super) fn call_action(&mut self, action: Action, effects: &mut Vec<Effect>) {
        let now = self.model.now;
        let Some(screen) = self.calls.screen() else { return };
        screen.now_is(now);
        let intents = screen.apply(action);
        self.mark(Redraw::Now);
        self.intents(intents, effects);
    }

    fn intents(&mut self, intents: Vec<Intent>, effects: &mut Vec<Effect>) {
        if let Some(open) = self.calls.open {
            self.intents_of(open, intents, effects);
        }
    }

    fn intents_of(&mut self, open: usize, intents: Vec<Intent>, effects: &mut Vec<Effect>) {
        for intent in intents {
            self.intent(open, intent, effects);
        }
    }

    fn intent(&mut self, open: usize, intent: Intent, effects: &mut Vec<Effect>) {
        let Some(subject) = self.calls.screens.get(open).map(|s| s.subject.clone()) else { return };
        match intent {
            Intent::Call { run, arguments, validation, timeout } => {
                let token = self.calls.token(open, Answers::Run(run));
                let wire = subject.wire.to_string();
                let target = match subject.kind {
                    SubjectKind::Tool => CallTarget::Tool(wire, arguments),
                    SubjectKind::Prompt => CallTarget::Prompt(wire, arguments),
                    SubjectKind::Template | SubjectKind::Resource => {
                        CallTarget::Resource(arguments.as_str().unwrap_or_default().to_owned())
                    }
                };
                let server = subject.server;
                // What a person asks for by hand is asked of the server.
                let request =
                    CallRequest { server, target, validation, bypass_cache: true, timeout };
                effects.push(Effect::Call(token, request));
            }
            Intent::Cancel(run) => {
                let routes = self.calls.routes.iter();
                let found =
                    { routes }.find(|(_, r)| r.screen == open && r.what == Answers::Run(run));
                effects.extend(found.map(|(token, _)| Effect::CancelCall(*token)));
            }
            Intent::Complete { params, ticket } => {
                let token = self.calls.token(open, Answers::Completion(ticket));
                let request = CallRequest {
                    server: subject.server,
                    target: CallTarget::Complete(params),
                    validation: crate::host::Validation::Enforce,
                    bypass_cache: false,
                    timeout: Some(std::time::Duration::from_secs(5)),
                };
                effects.push(Effect::Call(token, request));
            }
            Intent::Copy(text) => {
                self.toast(ink!("copied {}", count(text.chars().count(), "character")), Role::Ok);
                effects.push(Effect::Copy(text));
            }
            Intent::Save(path, content) => {
                let path = path.into();
                effects.push(Effect::SaveAs { path, content, existing: Existing::Keep });
            }
            Intent::Edit(text, suffix) => {
                effects.push(Effect::Edit { token: EditToken(open as u64), text, suffix });
            }
            Intent::ReadFile(path) => {
                effects.push(Effect::ReadFile(EditToken(open as u64), path));
            }
            Intent::Look(path) => effects.push(Effect::Look(EditToken(open as u64), path)),
            Intent::OpenResource(uri) => self.open_link(&subject.server, &uri, effects),
            Intent::Subscribe(uri, what) => {
                let command = match what {
                    Subscription::Begin => ServerCommand::Subscribe(uri),
                    Subscription::End => ServerCommand::Unsubscribe(uri),
                };
                effects.push(Effect::Server(subject.server, command));
            }
            Intent::SaveCall(name, call) => {
                self.calls.saved.set(name.clone(), (*call).clone());
                effects.push(Effect::SaveCall(name, call));
            }
            Intent::Record(record) => {
                self.calls.history.apply(&record);
                effects.push(Effect::Record(record));
            }
            Intent::Say(text) => self.toast(Ink::line(&text), Role::Warning),
            Intent::Close => self.leave_call(),
        }
    }

    /// Keeps half-filled forms for another run of the program.
    pub(super) fn keep_drafts(&mut self, effects: &mut Vec<Effect>) {
        for screen in &mut self.calls.screens {
            for intent in screen.draft() {
                if let Intent::Record(record) = intent {
                    effects.push(Effect::Record(record));
                }
            }
        }
    }

    /// Brings the open screen up to date before a frame.
    pub(super) fn prepare_call(&mut self) {
        let look = self.call_look();
        let Some(area) = self.layout().map(|layout| call_area(&layout)) else { return };
        let dev = self.open_server().and_then(|server| self.dev_words(&server));
        if let Some(screen) = self.calls.screen() {
            screen.dev = dev;
            screen.prepare(area, &look);
        }
    }

    pub(super) fn call_look(&self) -> Look {
        Look { graphics: self.setup.graphics.graphics(), ..look(&self.theme, self.glyphs) }
    }

    /// Draws the open call screen; gives whether there is one.
    pub(super) fn render_call(&self, area: Rect, buf: &mut Buffer) -> bool {
        let Some(screen) = self.calls.open.and_then(|open| self.calls.screens.get(open)) else {
            return false;
        };
        let look = self.uncovered_look();
        screen.render(&look, self.model.now, area, buf);
        true
    }

    fn open_call_help(&mut self) {
        let mut doc = Doc::new(reader_width(self.size));
        for (scope, heading) in [
            (Scope::Call, "calling"),
            (Scope::Form, "in the form"),
            (Scope::FormLine, "on lines that take no text"),
            (Scope::Result, "in the result"),
            (Scope::Picker, "while a file is picked"),
        ] {
            doc.heading(heading);
            key_lines(&self.keymap, scope, &mut doc);
        }
        self.push_overlay(Overlay::Reader(Reader::new(ink!("keys: calling"), doc)));
    }
}

/// Keys and sentences of a scope.
pub(super) fn key_lines(keymap: &Keymap, scope: Scope, doc: &mut Doc) {
    /// Columns of the keys.
    const KEYS: usize = 19;
    for (chords, help) in keymap.sentences(scope) {
        let chords = Ink::line(&chords);
        // A scroll bar may take the last column.
        let room = doc.width().saturating_sub(KEYS as u16 + 1).max(10);
        let mut rows = crate::tui::widget::doc::wrap(help, room);
        let first = rows.next().unwrap_or_default();
        doc.line(vec![(ink!("  {:<16} ", chords), Role::Key), (ink!("{}", first), Role::Text)]);
        for row in rows {
            doc.line(vec![(ink!("{:1$}", "", KEYS), Role::Key), (ink!("{}", row), Role::Text)]);
        }
    }
}

/// Whether a key that holds everywhere holds on a call screen too. What is done to servers does
/// not: the server that is meant is not the one that is looked at, and a slip of the finger in a
/// form must not stop it.
const fn is_of_a_call_screen(action: Action) -> bool {
    use Action as A;
    matches!(
        action,
        A::ShowServers
            | A::ShowTools
            | A::ShowResources
            | A::ShowPrompts
            | A::ShowTraffic
            | A::ShowLogs
            | A::ShowMetrics
            | A::ShowCache
            | A::ShowApprovals
            | A::ShowConfig
            | A::NextPane
            | A::PreviousPane
            | A::Approvals
            | A::Answer
            | A::Theme
            | A::Bell
            | A::Quit
    )
}

/// Where a call screen is drawn: everything between tabs and the end of the screen.
pub(super) fn call_area(layout: &crate::tui::layout::Layout) -> Rect {
    let top = layout.rule.bottom();
    Rect { y: top, height: layout.whole.bottom().saturating_sub(top), ..layout.whole }
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
    Some(Subject { limits: view.limits, ..subject })
}

/// Styles of form and result, from the theme.
pub fn look(theme: &Theme, glyphs: &Glyphs) -> Look {
    let style = |role| theme.style(role);
    Look {
        text: style(Role::Text),
        muted: style(Role::Muted),
        faint: style(Role::Faint),
        label: style(Role::Heading),
        accent: style(Role::Accent),
        key: style(Role::Key),
        selection: style(Role::Selection),
        input: style(Role::Input),
        warning: style(Role::Warning),
        error: style(Role::Error),
        ok: style(Role::Ok),
        foreign: style(Role::Foreign),
        rule: style(Role::Rule),
        json_key: style(Role::JsonKey),
        json_string: style(Role::JsonString),
        json_number: style(Role::JsonNumber),
        json_literal: style(Role::JsonLiteral),
        matched: style(Role::Match),
        added: style(Role::Added),
        removed: style(Role::Removed),
        ascii: glyphs.ellipsis == "~",
        graphics: Graphics::default(),
    }
}
