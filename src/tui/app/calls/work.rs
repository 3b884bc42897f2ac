//! What call screens want done elsewhere: checks and pictures of the open one; files that are to be
//! written; links that are followed; resources that changed on their server.

use std::path::PathBuf;
use std::sync::Arc;

use crate::base::ServerName;
use crate::mcp::capabilities::ListKind;
use crate::mcp::traffic::{Direction, TrafficRecord};
use crate::tui::app::screen::Open;
use crate::tui::app::{App, Redraw};
use crate::tui::call::Subject;
use crate::tui::call::export::Start;
use crate::tui::effect::{Effect, Existing};
use crate::tui::form::Checked;
use crate::tui::ink::{Ink, ink};
use crate::tui::message::{FormToken, ViewToken};
use crate::tui::overlay::{Confirm, Overlay};
use crate::tui::pane::PaneId;
use crate::tui::result::{Compared, Content, PictureDone, Stage};

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
        let Some(open) = self.open_call_number() else { return };
        let look = self.cx(self.overlays.is_empty()).look();
        let area = self.layout().map(|layout| layout.screen());
        let Some(screen) = self.calls.screens.get_mut(open) else { return };
        if let Some(job) = screen.pending_check() {
            effects.push(Effect::Check(FormToken(open as u64), Box::new(job)));
        }
        let Some(area) = area else { return };
        if screen.has_pictures() {
            screen.lay_out(area, &look);
            if let Some((run, job)) = screen.picture_job() {
                let token = ViewToken { screen: open as u64, run };
                effects.push(Effect::Picture(token, Box::new(job)));
            }
        }
    }

    /// Opens the screen of a subject. What is copied there names the configuration, unless the
    /// program finds it by itself in this folder.
    pub(in crate::tui::app) fn show_call(&mut self, subject: Subject) {
        let number = self.calls.show(subject, &self.keymap, self.model.now);
        self.push_screen(Open::Call(number));
        let files: Vec<PathBuf> = self.model.files.iter().map(|f| f.path.clone()).collect();
        let is_here = |path: &PathBuf| {
            *path == self.setup.folder.join("mcp.json") || path.as_os_str() == "mcp.json"
        };
        let found = matches!(files.as_slice(), [only] if is_here(only));
        let mut origin = self.setup.origin.clone();
        if let Start::Files(named) = &mut origin.start {
            *named = if found { Vec::new() } else { files };
        }
        if let Some(screen) = self.call_screen() {
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
        let wanted = screen.checked(found);
        self.mark(Redraw::Now);
        // A call that waited is only made from the screen the person still looks at.
        if self.open_call_number() == Some(index) {
            self.wanted(wanted, effects);
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
    pub(in crate::tui::app) fn open_link(
        &mut self,
        server: &ServerName,
        uri: &str,
        effects: &mut Vec<Effect>,
    ) {
        let view = self.model.server(server);
        let listed = view.and_then(|view| super::subject_of(view, ListKind::Resources, uri));
        let limits = view.map(|view| view.limits).unwrap_or_default();
        let subject = listed.unwrap_or_else(|| Subject { limits, ..Subject::uri(server, uri) });
        self.show(PaneId::Resources);
        self.panes.resources.go_to(server, uri);
        self.show_call(subject);
        let Some(screen) = self.call_screen() else { return };
        let wanted = screen.read_if_new();
        self.wanted(wanted, effects);
    }

    /// Resources changed on servers: those that are looked at are read again or marked.
    pub(in crate::tui::app) fn resources_updated(
        &mut self,
        records: &[Arc<TrafficRecord>],
        effects: &mut Vec<Effect>,
    ) {
        if self.calls.screens.is_empty() {
            return;
        }
        for record in records {
            let is_update = record.direction == Direction::In
                && record.method.as_deref() == Some("notifications/resources/updated");
            let Some(uri) = is_update.then(|| updated_uri(&record.body)).flatten() else {
                continue;
            };
            for index in 0..self.calls.screens.len() {
                let screen = &mut self.calls.screens[index];
                if screen.subject.server == record.server {
                    screen.now_is(self.model.now);
                    let wanted = screen.resource_updated(&uri);
                    self.wanted(wanted, effects);
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
