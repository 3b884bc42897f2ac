//! What happens to the calls of a screen, and to what they call, from outside: progress, logs,
//! endings, changed definitions, checks that ran elsewhere; and what is kept of a form. No I/O.

use std::sync::Arc;

use serde_json::Value;

use super::run::Run;
use super::screen::CallScreen;
use super::subject::Subject;
use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::deck::history::HistoryRecord;
use crate::error::Error;
use crate::host::call::CallView;
use crate::host::{CallOutcome, Validation};
use crate::mcp::Progress;
use crate::tui::effect::Effect;
use crate::tui::form::{CheckJob, Checked, FormState};

/// Time after a key before what was typed is kept, so that a burst of keys is one write.
pub const KEPT_AFTER: std::time::Duration = std::time::Duration::from_millis(300);

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
        if is_bare(&draft.value) {
            draft.value = Value::Null;
        }
        if self.drafted.as_ref().map_or(draft.is_empty(), |drafted| *drafted == draft) {
            return Vec::new();
        }
        self.drafted = Some(draft.clone());
        vec![Effect::Record(HistoryRecord::Draft { target: self.subject.key(), draft })]
    }

    /// A call made progress.
    pub fn progress(&mut self, run: u64, progress: Progress) {
        if let Some(run) = self.runs.iter_mut().find(|r| r.number == run) {
            run.progress = Some(progress);
        }
    }

    /// What the engine knows of a running call.
    pub fn follow(&mut self, run: u64, call: &CallView, now: Timestamp) {
        if let Some(run) = self.runs.iter_mut().find(|r| r.number == run) {
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
        let Some(run) = self.runs.iter_mut().find(|r| r.number == number) else {
            return Vec::new();
        };
        run.end(result, &self.subject.limits);
        let word = run.outcome_word();
        self.compare_again(number);
        let mut wanted = self.refreshed(number);
        if let (Some((outcome, millis)), Some(id)) = (word, self.records.remove(&number)) {
            if let Some(past) = self.past.iter_mut().find(|entry| entry.id == id) {
                past.outcome = Some((outcome.clone(), millis));
            }
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
    pub fn redefine(&mut self, subject: Subject) {
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

    /// A check that must run elsewhere; what it finds goes to [`CallScreen::checked`].
    pub fn pending_check(&mut self) -> Option<CheckJob> {
        self.form.pending_check()
    }

    /// Takes what a check found; a call that waited for it is made, or its problems are shown.
    pub fn checked(&mut self, found: Checked) -> Vec<Effect> {
        self.form.checked(found);
        if self.form.is_checking() || !std::mem::take(&mut self.call_when_checked) {
            return Vec::new();
        }
        self.call(Validation::Enforce)
    }

    /// The run that is shown, to change.
    pub(super) fn run_mut(&mut self) -> Option<&mut Run> {
        self.runs.get_mut(self.shown)
    }
}

fn is_bare(value: &Value) -> bool {
    value.as_object().is_some_and(serde_json::Map::is_empty)
}
