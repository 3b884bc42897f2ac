//! What call screens want done elsewhere: checks and pictures of the open one; files that are to be
//! written; links that are followed; resources that changed on their server.

use std::path::PathBuf;
use std::sync::Arc;

use super::call_area;
use crate::base::ServerName;
use crate::mcp::capabilities::ListKind;
use crate::mcp::traffic::{Direction, TrafficRecord};
use crate::tui::app::{App, Redraw};
use crate::tui::call::Subject;
use crate::tui::call::export::Start;
use crate::tui::effect::{Effect, Existing};
use crate::tui::form::Checked;
use crate::tui::form::draw::Look;
use crate::tui::graphics::Placement;
use crate::tui::ink::{Ink, ink};
use crate::tui::layout::Layout;
use crate::tui::message::{FormToken, ViewToken};
use crate::tui::overlay::{Confirm, Overlay};
use crate::tui::pane::PaneId;
use crate::tui::result::{Compared, Content, PictureDone, Stage};
use ratatui::layout::Rect;

impl App {
    /// Work for other threads: comparisons of every screen, one check and one picture at a time of
    /// the open one.
    pub(in crate::tui::app) fn call_work(&mut self, effects: &mut Vec<Effect>) {
        for (index, screen) in self.calls.screens.iter_mut().enumerate() {
            while let Some((run, job)) = screen.compare_job() {
                let token = ViewToken { screen: index as u64, run };
                effects.push(Effect::Compare(token, Box::new(job)));
            }
        }
        let Some(open) = self.calls.open else { return };
        let look = self.call_look();
        let area = self.layout().map(|layout| call_area(&layout));
        let Some(screen) = self.calls.screens.get_mut(open) else { return };
        if let Some(job) = screen.pending_check() {
            effects.push(Effect::Check(FormToken(open as u64), Box::new(job)));
        }
        let Some(area) = area else { return };
        if screen.has_pictures() {
            screen.prepare(area, &look);
            if let Some((run, job)) = screen.picture_job() {
                let token = ViewToken { screen: open as u64, run };
                effects.push(Effect::Picture(token, Box::new(job)));
            }
        }
    }

    /// The look of the open call screen: what is laid over it must not be covered by pixels.
    pub(super) fn uncovered_look(&self) -> Look {
        let mut look = self.call_look();
        if !self.overlays.is_empty() {
            look.graphics = look.graphics.as_blocks();
        }
        look
    }

    /// The pictures that stand in pixels on the screen [`App::render`] draws into `area`.
    pub fn placements(&self, area: Rect) -> Vec<Placement> {
        let open = self.calls.open.and_then(|open| self.calls.screens.get(open));
        let layout = Layout::compute(area, self.setup.prefs.server_list);
        match (open, layout) {
            (Some(screen), Some(layout)) if !self.is_answering() && !self.is_editing() => {
                screen.placements(&self.uncovered_look(), call_area(&layout))
            }
            _ => Vec::new(),
        }
    }

    /// Opens the screen of a subject. What is copied there names the configuration, unless the
    /// program finds it by itself in this folder.
    pub(in crate::tui::app) fn show_call(&mut self, subject: Subject) {
        self.calls.show(subject, &self.keymap, self.model.now);
        let files: Vec<PathBuf> = self.model.files.iter().map(|f| f.path.clone()).collect();
        let is_here = |path: &PathBuf| {
            *path == self.setup.folder.join("mcp.json") || path.as_os_str() == "mcp.json"
        };
        let found = matches!(files.as_slice(), [only] if is_here(only));
        let mut origin = self.setup.origin.clone();
        if let Start::Files(named) = &mut origin.start {
            *named = if found { Vec::new() } else { files };
        }
        if let Some(screen) = self.calls.screen() {
            screen.origin = origin;
        }
    }

    pub(in crate::tui::app) fn call_checked(
        &mut self,
        token: FormToken,
        found: Checked,
        effects: &mut Vec<Effect>,
    ) {
        let index = token.0 as usize;
        let Some(screen) = self.calls.screens.get_mut(index) else { return };
        let intents = screen.checked(found);
        self.mark(Redraw::Now);
        // A call that waited is only made from the screen the person still looks at.
        if self.calls.open == Some(index) {
            self.intents(intents, effects);
        }
    }

    pub(in crate::tui::app) fn picture_done(&mut self, token: ViewToken, done: PictureDone) {
        if let Some(screen) = self.calls.screens.get_mut(token.screen as usize) {
            screen.picture_done(token.run, done);
            self.mark(Redraw::Soon);
        }
    }

    pub(in crate::tui::app) fn comparing(&mut self, token: ViewToken, stage: Stage) {
        if let Some(screen) = self.calls.screens.get_mut(token.screen as usize) {
            screen.comparing(token.run, stage);
            self.mark(Redraw::Soon);
        }
    }

    pub(in crate::tui::app) fn compared(&mut self, token: ViewToken, found: Compared) {
        if let Some(screen) = self.calls.screens.get_mut(token.screen as usize) {
            screen.compared(token.run, found);
            self.mark(Redraw::Now);
        }
    }

    pub(in crate::tui::app) fn ask_to_replace(&mut self, path: PathBuf, content: Content) {
        let shown = path.display().to_string();
        let yes = vec![Effect::SaveAs { path, content, existing: Existing::Replace }];
        let title = ink!("replace the file?");
        let lines = vec![Ink::line(&shown), ink!("Its present content is lost.")];
        self.push_overlay(Overlay::Confirm(Confirm::new(title, lines, yes)));
    }

    /// Follows a link of a result: to the resources of its server, with that one read. Only the
    /// server is asked; nothing is fetched from anywhere else.
    pub(super) fn open_link(&mut self, server: &ServerName, uri: &str, effects: &mut Vec<Effect>) {
        let view = self.model.server(server);
        let listed = view.and_then(|view| super::subject_of(view, ListKind::Resources, uri));
        let limits = view.map(|view| view.limits).unwrap_or_default();
        let subject = listed.unwrap_or_else(|| Subject { limits, ..Subject::uri(server, uri) });
        self.show(PaneId::Resources);
        self.panes.resources.go_to(server, uri);
        self.show_call(subject);
        let Some(screen) = self.calls.screen() else { return };
        let intents = screen.read_if_new();
        self.intents(intents, effects);
    }

    /// Servers told that resources changed: those that are looked at are read again or marked.
    pub(in crate::tui::app) fn resources_updated(
        &mut self,
        records: &[Arc<TrafficRecord>],
        effects: &mut Vec<Effect>,
    ) {
        if self.calls.screens.is_empty() {
            return;
        }
        for record in records {
            let told = record.direction == Direction::In
                && record.method.as_deref() == Some("notifications/resources/updated");
            let Some(uri) = told.then(|| updated_uri(&record.body)).flatten() else { continue };
            for index in 0..self.calls.screens.len() {
                let screen = &mut self.calls.screens[index];
                if screen.subject.server == record.server {
                    screen.now_is(self.model.now);
                    let intents = screen.resource_updated(&uri);
                    self.intents_of(index, intents, effects);
                    self.mark(Redraw::Soon);
                }
            }
        }
    }
}

/// The URI of `notifications/resources/updated` (MCP, server features, resources).
fn updated_uri(body: &str) -> Option<String> {
    let message: serde_json::Value = serde_json::from_str(body).ok()?;
    message.pointer("/params/uri")?.as_str().map(str::to_owned)
}
