//! The call screens of the dashboard: opened from the lists, kept while the person is elsewhere,
//! fed with what happens to their calls. Turns what they want into effects.

use std::collections::HashMap;
use std::sync::Arc;

use super::App;
use crate::base::Timestamp;
use crate::deck::history::History;
use crate::deck::saved::SavedCalls;
use crate::host::ServerView;
use crate::mcp::CallId;
use crate::mcp::capabilities::ListKind;
use crate::tui::call::{CallScreen, Subject};
use crate::tui::effect::Effect;
use crate::tui::keymap::Keymap;
use crate::tui::message::CallToken;

mod again;
mod feed;
mod offers;
mod work;

/// All call screens.
#[derive(Default)]
pub struct Calls {
    pub(super) screens: Vec<CallScreen>,
    /// Calls under way whose ids are known.
    ids: HashMap<CallToken, CallId>,
    pub(super) history: History,
    pub(super) saved: SavedCalls,
    again: again::Again,
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

    /// Other keys are in use.
    pub(super) fn use_keymap(&mut self, keymap: &Arc<Keymap>) {
        for screen in &mut self.screens {
            screen.keymap = Arc::clone(keymap);
        }
    }
}

impl App {
    /// Does what a call screen wants.
    fn wanted(&mut self, wanted: Vec<Effect>, effects: &mut Vec<Effect>) {
        for effect in wanted {
            self.absorb_effect(effect, effects);
        }
    }

    /// Keeps half-filled forms for another run of the program.
    pub(super) fn keep_drafts(&mut self, effects: &mut Vec<Effect>) {
        for screen in &mut self.calls.screens {
            effects.extend(screen.draft());
        }
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
