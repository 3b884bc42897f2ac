//! External updates of a call screen: progress, logs, results, changed definitions, finished
//! checks; and the draft of its form. No I/O.

use super::run::{CallAsk, CallEventKind, CallRun, Difference};
use super::screen::{CallFocus, CallScreen};
use super::subject::{CallSubject, SubjectKind};
use crate::effect::Effect;
use crate::form::CheckResult;
use crate::pane::Out;
use crate::prelude::*;
use crate::result::{PictureJob, ResultView};
use config::error::Error;
use deck::{HistoryRecord, UpdatedResource};
use host::{CallOutcome, CallView, Validation, schema_limits};
use protocol::Progress;

/// Debounce time after a key before the draft is saved.
pub const DRAFT_INTERVAL: Duration = Duration::from_millis(300);

impl CallScreen {
    /// Schedules saving the draft, as the form may have changed.
    pub(super) fn keep_soon(&mut self) {
        self.draft_due.get_or_insert(self.now.plus(DRAFT_INTERVAL));
    }

    /// Saves the form for the next run if it changed since it was last saved. Secrets are left
    /// out.
    pub fn draft(&mut self, out: &mut Out) {
        self.draft_due = None;
        let mut draft = self.form.draft();
        if draft.value.as_object().is_some_and(serde_json::Map::is_empty) {
            draft.value = Value::Null;
        }
        if self.drafted.as_ref().map_or(draft.is_empty(), |drafted| *drafted == draft) {
            return;
        }
        self.drafted = Some(draft.clone());
        out.effect(Effect::Record(HistoryRecord::Draft { target: self.subject.key(), draft }));
    }

    fn run_of(&mut self, number: u64) -> Option<&mut CallRun> {
        self.runs.iter_mut().find(|run| run.number == number)
    }

    /// Stores the progress of a call.
    pub fn progress(&mut self, run: u64, progress: Progress, now: Timestamp) {
        if let Some(run) = self.run_of(run) {
            run.take_progress(progress, now);
        }
    }

    /// Updates a running call from the engine's view; `asks` are the requests it waits with.
    pub fn follow(&mut self, run: u64, call: &CallView, asks: Vec<CallAsk>, now: Timestamp) {
        if let Some(run) = self.run_of(run) {
            run.follow(call, asks, now);
        }
    }

    /// Adds a log notification of the server to its running calls.
    pub fn log(&mut self, line: &SafeText, now: Timestamp) {
        for run in self.runs.iter_mut().filter(|run| run.is_running()) {
            run.add_event(CallEventKind::Log, line.clone(), now);
        }
    }

    /// Stores the result of a call.
    pub fn ended(&mut self, number: u64, result: Result<CallOutcome, Error>, out: &mut Out) {
        let (limits, now) = (self.subject.limits, self.now);
        let Some(run) = self.run_of(number) else { return };
        run.end(result, &limits, now);
        let recorded = run.outcome_word().zip(run.record);
        self.compare_again(number);
        self.refreshed(number, out);
        if let Some(((outcome, millis), id)) = recorded {
            out.effect(Effect::Record(HistoryRecord::Ended { id, outcome, millis }));
        }
    }

    /// Number of running calls.
    pub fn in_flight(&self) -> usize {
        self.runs.iter().filter(|run| run.is_running()).count()
    }

    /// Replaces a changed definition (`list_changed`): rebuilds the form over the same value, and
    /// marks the change.
    pub fn redefine(&mut self, subject: CallSubject) {
        let parts = self.subject.changed_parts(&subject);
        if !parts.is_empty() {
            self.changed = Some((self.now, parts.join(", ")));
        }
        if *subject.schema != *self.subject.schema || subject.numbers != self.subject.numbers {
            self.form.redefine(subject.document());
        }
        self.form.keep_within(schema_limits(&subject.limits));
        self.subject = subject;
    }

    /// Takes the result of a check. A call that waited for it is made, or its problems are shown, if
    /// the screen is still open.
    pub fn checked(&mut self, found: CheckResult, is_open: bool, out: &mut Out) {
        self.form.checked(found);
        if !self.form.is_checking() && std::mem::take(&mut self.call_when_checked) && is_open {
            self.call(Validation::Enforce, out);
        }
    }

    /// The URI of the resource that is shown or would be read.
    pub(super) fn uri(&self) -> Option<String> {
        match self.subject.kind {
            SubjectKind::Resource => Some(self.subject.wire.to_string()),
            SubjectKind::Template => self.subject.expanded(&self.run()?.arguments).ok(),
            _ => None,
        }
    }

    /// Sets the current time without acting on it.
    pub const fn now_is(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Reads a resource or gets a prompt that has no arguments and was not read yet; otherwise
    /// focuses the result.
    pub fn read_if_new(&mut self, out: &mut Out) {
        let reads = matches!(self.subject.kind, SubjectKind::Resource | SubjectKind::Prompt);
        if !reads || self.subject.has_arguments(&self.form.document) {
            return;
        }
        if self.runs.is_empty() {
            return self.send(self.form.arguments(), Validation::Enforce, out);
        }
        self.focus = CallFocus::Result;
    }

    /// Handles this many updates of the shown resource; none if some may have been missed. It is read
    /// again when subscribed, otherwise marked as stale.
    pub fn resource_updated(&mut self, count: u64, out: &mut Out) {
        if self.uri().is_none() {
            return;
        }
        self.updates.count += count;
        self.updates.at = Some(self.now);
        self.updates.stale = true;
        if self.subscribed {
            self.refresh(out);
        }
    }

    /// How many of the updates of a resource of its server are those of the shown one. An update
    /// may name a sub-resource (MCP, server features, resources).
    pub fn updates_in(&self, updated: &UpdatedResource) -> u64 {
        let Some(mine) = self.uri() else { return 0 };
        let within = |rest: &str| rest.is_empty() || rest.starts_with(['/', '#', '?']);
        if updated.uri.strip_prefix(&*mine).is_some_and(within) { updated.count } else { 0 }
    }

    /// Reads the shown resource again; the old result stays until the new one arrives. Runs one
    /// read at a time: updates in the meantime are coalesced into one more.
    fn refresh(&mut self, out: &mut Out) {
        if self.runs.iter().any(CallRun::is_running) {
            self.updates.again = true;
            return;
        }
        let Some(shown) = self.runs.get(self.shown) else { return };
        let arguments = shown.arguments.clone();
        let Some(uri) = self.uri() else { return };
        let number = self.runs.last().map_or(1, |run| run.number + 1);
        let mut run = CallRun::new(number, arguments, false, self.now);
        run.refresh = true;
        self.runs.push(run);
        self.updates.again = false;
        out.effect(self.call_effect(number, Value::String(uri), Validation::Enforce, None));
    }

    /// Whether this call is an automatic refresh.
    pub fn is_refresh(&self, number: u64) -> bool {
        self.runs.iter().any(|run| run.number == number && run.refresh)
    }

    /// Handles the end of a call: a refresh replaces the result before it, which is kept for
    /// comparison; older refreshes are dropped.
    pub(super) fn refreshed(&mut self, number: u64, out: &mut Out) {
        let Some(at) = self.runs.iter().position(|run| run.number == number) else { return };
        if self.runs[at].view().is_some() {
            self.updates.stale = false;
        }
        if self.runs[at].refresh {
            if self.shown + 1 == at {
                let (before, after) = self.runs.split_at_mut(at);
                let earlier = before.last().and_then(CallRun::view);
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
            self.refresh(out);
        }
    }

    /// Whether the shown result has pictures.
    pub fn has_pictures(&self) -> bool {
        self.run().and_then(CallRun::view).is_some_and(|view| {
            let is_picture = |block: &crate::result::Block| {
                matches!(block.kind, crate::result::content::BlockKind::Picture(..))
            };
            view.blocks.iter().any(is_picture)
        })
    }

    /// The pending job for a visible picture, with the number of its run.
    pub fn picture_job(&mut self) -> Option<(u64, PictureJob)> {
        let run = self.runs.get_mut(self.shown)?;
        let number = run.number;
        Some((number, run.view_mut()?.picture_job()?))
    }

    /// The view of a run, by its number.
    pub fn view_of(&mut self, run: u64) -> Option<&mut ResultView> {
        self.run_of(run)?.view_mut()
    }

    /// Repeats the last call. The focus is unchanged, and so is the shown result unless it was
    /// that of the last call.
    pub fn made_again(&mut self, because: SafeText, now: Timestamp, out: &mut Out) {
        let Some(last) = self.runs.last() else { return };
        let validation = if last.forced { Validation::Force } else { Validation::Enforce };
        let (arguments, focus) = (last.arguments.clone(), self.focus);
        let shown = self.run().map(|run| run.number).filter(|shown| *shown != last.number);
        self.now = now;
        self.send(arguments, validation, out);
        self.focus = focus;
        if let Some(at) = self.runs.iter().position(|run| Some(run.number) == shown) {
            self.shown = at;
        }
        if let Some(run) = self.runs.last_mut() {
            run.because = Some(because);
        }
    }

    /// Compares the result of a repeated call with the one before, and shows the difference.
    pub(super) fn compare_again(&mut self, number: u64) {
        let Some(at) = self.runs.iter().position(|run| run.number == number) else { return };
        let (before, rest) = self.runs.split_at_mut(at);
        let Some(run) = rest.first_mut().filter(|run| run.because.is_some()) else { return };
        let earlier = before.iter().rev().find_map(CallRun::result);
        let Some(view) = run.view_mut() else { return };
        run.difference = Some(match earlier {
            None => Difference::First,
            Some(earlier) => view.compare_with(earlier, false),
        });
    }
}

/// Updates of the shown resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Updates {
    /// Number of update notifications.
    pub count: u64,
    /// Time of the last one.
    pub at: Option<Timestamp>,
    /// Whether the shown result is older than that.
    pub stale: bool,
    again: bool,
}
