//! A call that is made again by itself, because its server restarted with changed sources, and how
//! its answer compares with the one before. Does no I/O.

use super::run::{Difference, Run};
use super::screen::{CallScreen, Intent};
use crate::host::{Timestamp, Validation};
use crate::text::SafeText;

impl CallScreen {
    /// Makes the last call once more. The keys stay where they are, and so does what is shown
    /// unless it was the last call.
    pub fn made_again(&mut self, because: SafeText, now: Timestamp) -> Vec<Intent> {
        let Some(last) = self.runs.last() else { return Vec::new() };
        let validation = if last.forced { Validation::Force } else { Validation::Enforce };
        let (arguments, focus) = (last.arguments.clone(), self.focus);
        let shown = self.run().map(|run| run.number).filter(|shown| *shown != last.number);
        self.now = now;
        let intents = self.send(arguments, validation);
        self.focus = focus;
        if let Some(at) = self.runs.iter().position(|run| Some(run.number) == shown) {
            self.shown = at;
        }
        if let Some(run) = self.runs.last_mut() {
            run.because = Some(because);
        }
        intents
    }

    /// Compares an answer that came by itself with the one before, and shows the difference.
    pub(super) fn compare_again(&mut self, number: u64) {
        let Some(at) = self.runs.iter().position(|run| run.number == number) else { return };
        let (before, rest) = self.runs.split_at_mut(at);
        let Some(run) = rest.first_mut().filter(|run| run.because.is_some()) else { return };
        let earlier = before.iter().rev().find_map(Run::result);
        let Some(view) = run.view_mut() else { return };
        run.difference = Some(match earlier {
            None => Difference::First,
            Some(earlier) => view.differs_from(earlier),
        });
    }
}
