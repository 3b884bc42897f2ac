//! What happens to the calls of a screen, and to what they call, from outside: progress, logs,
//! endings, changed definitions, checks that ran elsewhere; and what is kept of a form. No I/O.

use super::run::{CallRun, Difference};
use super::screen::{CallFocus, CallScreen};
use super::subject::{CallSubject, SubjectKind};
use crate::deck::HistoryRecord;
use crate::error::Error;
use crate::host::{CallOutcome, CallView, Validation};
use crate::mcp::Progress;
use crate::tui::effect::Effect;
use crate::tui::form::{CheckResult, FormState};
use crate::tui::prelude::*;
use crate::tui::result::{PictureJob, ResultView};

/// Time after a key before what was typed is kept, so that a burst of keys is one write.
pub const KEPT_AFTER: Duration = Duration::from_millis(300);

impl CallScreen {
    /// The form may have changed: it is kept soon.
    pub(super) fn keep_soon(&mut self) {
        self.draft_due.get_or_insert(self.now.plus(KEPT_AFTER));
    }

    /// Keeps the form for another run of the program, when it changed since it was kept last.
    /// Secrets are left out.
    pub fn draft(&mut self) -> Vec<Effect> {
        self.draft_due = None;
        let mut draft = self.form.draft();
        if draft.value.as_object().is_some_and(serde_json::Map::is_empty) {
            draft.value = Value::Null;
        }
        if self.drafted.as_ref().map_or(draft.is_empty(), |drafted| *drafted == draft) {
            return Vec::new();
        }
        self.drafted = Some(draft.clone());
        vec![Effect::Record(HistoryRecord::Draft { target: self.subject.key(), draft })]
    }

    fn run_of(&mut self, number: u64) -> Option<&mut CallRun> {
        self.runs.iter_mut().find(|run| run.number == number)
    }

    /// A call made progress.
    pub fn progress(&mut self, run: u64, progress: Progress) {
        if let Some(run) = self.run_of(run) {
            run.progress = Some(progress);
        }
    }

    /// What the engine knows of a running call.
    pub fn follow(&mut self, run: u64, call: &CallView, now: Timestamp) {
        if let Some(run) = self.run_of(run) {
            run.follow(call, now);
        }
    }

    /// A log notification of the server while calls run.
    pub fn log(&mut self, line: &SafeText) {
        for run in self.runs.iter_mut().filter(|run| run.is_running()) {
            run.log(line.clone());
        }
    }

    /// A call has ended.
    pub fn ended(&mut self, number: u64, result: Result<CallOutcome, Error>) -> Vec<Effect> {
        let limits = self.subject.limits;
        let Some(run) = self.run_of(number) else { return Vec::new() };
        run.end(result, &limits);
        let recorded = run.outcome_word().zip(run.record);
        self.compare_again(number);
        let mut wanted = self.refreshed(number);
        if let Some(((outcome, millis), id)) = recorded {
            wanted.push(Effect::Record(HistoryRecord::Ended { id, outcome, millis }));
        }
        wanted
    }

    /// How many calls are under way.
    pub fn in_flight(&self) -> usize {
        self.runs.iter().filter(|run| run.is_running()).count()
    }

    /// The definition changed (`list_changed`): the form is made anew over the same value, and says
    /// so.
    pub fn redefine(&mut self, subject: CallSubject) {
        let parts = self.subject.changed_parts(&subject);
        if !parts.is_empty() {
            self.changed = Some((self.now, parts.join(", ")));
        }
        if *subject.schema != *self.subject.schema {
            let typed = self.form.half_typed();
            let value = self.form.value().cloned();
            self.form = FormState::with_value(&Arc::clone(&subject.schema), value);
            self.form.type_again(typed);
        }
        self.form.keep_within(&subject.limits);
        self.subject = subject;
    }

    /// Takes what a check found; a call that waited for it is made, or its problems are shown.
    pub fn checked(&mut self, found: CheckResult) -> Vec<Effect> {
        self.form.checked(found);
        if self.form.is_checking() || !std::mem::take(&mut self.call_when_checked) {
            return Vec::new();
        }
        self.call(Validation::Enforce)
    }

    /// The URI that is looked at, or would be.
    pub(super) fn uri(&self) -> Option<String> {
        match self.subject.kind {
            SubjectKind::Resource => Some(self.subject.wire.to_string()),
            SubjectKind::Template => self.subject.expanded(&self.run()?.arguments).ok(),
            _ => None,
        }
    }

    /// Time went on, without anything to do.
    pub const fn now_is(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Reads a resource, or gets a prompt, that was not read yet and has nothing to fill in; one that
    /// was read shows its result.
    pub fn read_if_new(&mut self) -> Vec<Effect> {
        let reads = matches!(self.subject.kind, SubjectKind::Resource | SubjectKind::Prompt);
        if !reads || self.subject.has_arguments() {
            return Vec::new();
        }
        if self.runs.is_empty() {
            return self.send(self.form.arguments(), Validation::Enforce);
        }
        self.focus = CallFocus::Result;
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
        if self.runs.iter().any(CallRun::is_running) {
            self.updates.again = true;
            return Vec::new();
        }
        let Some(shown) = self.runs.get(self.shown) else { return Vec::new() };
        let arguments = shown.arguments.clone();
        let Some(uri) = self.uri() else { return Vec::new() };
        let number = self.runs.last().map_or(1, |run| run.number + 1);
        let mut run = CallRun::new(number, arguments, false, self.now);
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
            return self.refresh();
        }
        Vec::new()
    }

    /// Whether the result that is shown has pictures.
    pub fn has_pictures(&self) -> bool {
        self.run().and_then(CallRun::view).is_some_and(|view| {
            let is_picture = |block: &crate::tui::result::Block| {
                matches!(block.kind, crate::tui::result::content::BlockKind::Picture(..))
            };
            view.blocks.iter().any(is_picture)
        })
    }

    /// Work on a picture that can be seen, and the number of its run.
    pub fn picture_job(&mut self) -> Option<(u64, PictureJob)> {
        let run = self.runs.get_mut(self.shown)?;
        let number = run.number;
        Some((number, run.view_mut()?.picture_job()?))
    }

    /// The view of a run, by its number.
    pub fn view_of(&mut self, run: u64) -> Option<&mut ResultView> {
        self.run_of(run)?.view_mut()
    }

    /// Makes the last call once more. The keys stay where they are, and so does what is shown
    /// unless it was the last call.
    pub fn made_again(&mut self, because: SafeText, now: Timestamp) -> Vec<Effect> {
        let Some(last) = self.runs.last() else { return Vec::new() };
        let validation = if last.forced { Validation::Force } else { Validation::Enforce };
        let (arguments, focus) = (last.arguments.clone(), self.focus);
        let shown = self.run().map(|run| run.number).filter(|shown| *shown != last.number);
        self.now = now;
        let wanted = self.send(arguments, validation);
        self.focus = focus;
        if let Some(at) = self.runs.iter().position(|run| Some(run.number) == shown) {
            self.shown = at;
        }
        if let Some(run) = self.runs.last_mut() {
            run.because = Some(because);
        }
        wanted
    }

    /// Compares an answer that came by itself with the one before, and shows the difference.
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
