//! A resource that is looked at while it changes, and the pictures of a result: what the screen does
//! when its server says that the resource was updated. Makes no call itself.

use ratatui::layout::Rect;
use serde_json::Value;

use super::run::Run;
use super::screen::{CallScreen, Focus};
use super::subject::SubjectKind;
use super::template;
use crate::base::Timestamp;
use crate::host::Validation;
use crate::tui::effect::Effect;
use crate::tui::form::draw::Look;
use crate::tui::graphics::Placement;
use crate::tui::result::{PictureDone, PictureJob};

/// What is known of changes of the resource that is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Updates {
    /// How often the server said so.
    pub count: u64,
    /// When it said so last.
    pub at: Option<Timestamp>,
    /// What is shown is older than that.
    pub stale: bool,
    again: bool,
}

impl CallScreen {
    /// The URI that is looked at, or would be.
    pub(super) fn uri(&self) -> Option<String> {
        match self.subject.kind {
            SubjectKind::Resource => Some(self.subject.wire.to_string()),
            SubjectKind::Template => {
                let arguments = &self.run()?.arguments;
                template::expand(&self.subject.wire, arguments).ok()
            }
            SubjectKind::Tool | SubjectKind::Prompt => None,
        }
    }

    /// Time went on, without anything to do.
    pub const fn now_is(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Reads a resource that was not read yet: a link to it was followed.
    pub fn read_if_new(&mut self) -> Vec<Effect> {
        if self.runs.is_empty() && self.subject.kind == SubjectKind::Resource {
            return self.send(self.form.arguments(), Validation::Enforce);
        }
        self.focus = if self.runs.is_empty() { Focus::Form } else { Focus::Result };
        Vec::new()
    }

    /// The server says that a resource changed. The one that is looked at is read again while it
    /// is subscribed to, and marked otherwise. What changed may be a part of what was subscribed
    /// to (MCP, server features, resources).
    pub fn resource_updated(&mut self, uri: &str) -> Vec<Effect> {
        let Some(mine) = self.uri() else { return Vec::new() };
        let within = |rest: &str| rest.is_empty() || rest.starts_with(['/', '#', '?']);
        if !uri.strip_prefix(&*mine).is_some_and(within) {
            return Vec::new();
        }
        self.updates.count += 1;
        self.updates.at = Some(self.now);
        self.updates.stale = true;
        if self.subscribed { self.refresh() } else { Vec::new() }
    }

    /// Reads again what is shown, without taking its place until the answer is there. One at a
    /// time: changes meanwhile are one more reading.
    fn refresh(&mut self) -> Vec<Effect> {
        if self.runs.iter().any(Run::is_running) {
            self.updates.again = true;
            return Vec::new();
        }
        let Some(shown) = self.runs.get(self.shown) else { return Vec::new() };
        let arguments = shown.arguments.clone();
        let Some(uri) = self.uri() else { return Vec::new() };
        let number = self.runs.last().map_or(1, |run| run.number + 1);
        let mut run = Run::new(number, arguments, false, self.now);
        run.refresh = true;
        self.runs.push(run);
        self.updates.again = false;
        vec![self.call_effect(number, Value::String(uri), Validation::Enforce, None)]
    }

    /// Whether nobody asked for this call.
    pub fn is_refresh(&self, number: u64) -> bool {
        self.runs.iter().any(|run| run.number == number && run.refresh)
    }

    /// A call has ended: a reading again takes the place of the one before, which stays to be
    /// compared with; older ones nobody asked for are dropped.
    pub(super) fn refreshed(&mut self, number: u64) -> Vec<Effect> {
        let Some(at) = self.runs.iter().position(|run| run.number == number) else {
            return Vec::new();
        };
        if self.runs[at].view().is_some() {
            self.updates.stale = false;
        }
        if self.runs[at].refresh {
            if self.shown + 1 == at {
                let (before, after) = self.runs.split_at_mut(at);
                let earlier = before.last().and_then(Run::view);
                if let (Some(view), Some(earlier)) = (after[0].view_mut(), earlier) {
                    view.stand_as(earlier);
                }
                self.shown = at;
            }
            if at >= 2 && self.runs[at - 1].refresh {
                self.runs.remove(at - 1);
                if self.shown >= at {
                    self.shown -= 1;
                }
            }
        }
        if self.updates.again && self.subscribed {
            return self.refresh();
        }
        Vec::new()
    }

    /// Whether the result that is shown has pictures.
    pub fn has_pictures(&self) -> bool {
        self.run().and_then(Run::view).is_some_and(|view| {
            let is_picture = |block: &crate::tui::result::Block| {
                matches!(block.kind, crate::tui::result::content::BlockKind::Picture(..))
            };
            view.blocks().iter().any(is_picture)
        })
    }

    /// Work on a picture that can be seen, and the number of its run.
    pub fn picture_job(&mut self) -> Option<(u64, PictureJob)> {
        let run = self.run_mut()?;
        let number = run.number;
        Some((number, run.view_mut()?.picture_job()?))
    }

    /// Takes what came of such work.
    pub fn picture_done(&mut self, run: u64, done: PictureDone) {
        let run = self.runs.iter_mut().find(|r| r.number == run);
        if let Some(view) = run.and_then(Run::view_mut) {
            view.picture_done(done);
        }
    }

    /// The pictures that stand in pixels where the screen is drawn in `area`.
    pub(super) fn pixels(&self, look: &Look, area: Rect) -> Vec<Placement> {
        let look = self.uncovered(look);
        let Some(result) = self.regions(area).result else { return Vec::new() };
        let view = self.run().and_then(Run::view);
        view.map_or_else(Vec::new, |view| view.placements(&look, result))
    }
}
