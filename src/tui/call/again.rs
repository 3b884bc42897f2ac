//! A call that is made again by itself, because its server restarted with changed sources, and how
//! its answer compares with the one before. Does no I/O.

use super::run::{Difference, Run};
use super::screen::{CallScreen, Focus};
use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::host::Validation;
use crate::tui::effect::Effect;
use crate::tui::result::{CompareJob, Compared, Purpose, ResultView, Stage};

impl CallScreen {
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
        let earlier = before.iter().rev().find_map(Run::result);
        let Some(view) = run.view_mut() else { return };
        run.difference = match earlier {
            None => Some(Difference::First),
            Some(earlier) => view.compare_with(earlier, Purpose::Tell),
        };
    }

    /// A comparison for another thread, with the number of its run.
    pub fn compare_job(&mut self) -> Option<(u64, CompareJob)> {
        self.runs.iter_mut().find_map(|run| Some((run.number, run.view_mut()?.compare_job()?)))
    }

    /// How far a comparison is.
    pub fn comparing(&mut self, number: u64, stage: Stage) {
        let run = self.runs.iter_mut().find(|run| run.number == number);
        if let Some(view) = run.and_then(Run::view_mut) {
            view.comparing_at(stage);
        }
    }

    /// Takes what a comparison found.
    pub fn compared(&mut self, number: u64, found: Compared) {
        let Some(run) = self.runs.iter_mut().find(|run| run.number == number) else { return };
        let difference = run.view_mut().and_then(|view| view.compared(found));
        if run.because.is_some() && difference.is_some() {
            run.difference = difference;
        }
    }

    /// Stops the comparison that is shown; gives whether there was one.
    pub(super) fn stop_comparing(&mut self) -> bool {
        self.focus == Focus::Result
            && self.run_mut().and_then(Run::view_mut).is_some_and(ResultView::stop_comparing)
    }
}
