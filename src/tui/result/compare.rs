//! Comparing two results: at once when both are small, otherwise as a job for another thread that
//! tells how far it is and can be stopped. Does no I/O.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::diff::{self, Comparison, Limits};
use super::view::{ResultView, Tab};
use crate::mcp::Payload;
use crate::tui::call::run::Difference;

/// Results of which this much is all are compared at once: that takes a few milliseconds.
const AT_ONCE: Limits = Limits { bytes: 32 << 10, lines: 2_000, time: Duration::from_millis(20) };
/// What a job compares.
const ELSEWHERE: Limits = Limits { bytes: 16 << 20, lines: 300_000, time: Duration::from_secs(3) };

/// What a comparison is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A person wants to see it.
    Show,
    /// It is shown when there is a difference.
    Tell,
}

/// How far a comparison is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The results are written as lines.
    Reading,
    /// The lines are matched.
    Matching,
}

/// A comparison that is under way elsewhere.
pub(super) struct Comparing {
    earlier: Payload,
    purpose: Purpose,
    handed: bool,
    stage: Stage,
    stopped: Arc<AtomicBool>,
}

impl Drop for Comparing {
    /// Whoever works on it need not go on.
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// A comparison for another thread.
#[derive(Clone, Debug)]
pub struct CompareJob {
    earlier: Payload,
    later: Payload,
    stopped: Arc<AtomicBool>,
}

impl PartialEq for CompareJob {
    /// The same comparison, not an equal one.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.stopped, &other.stopped)
    }
}

/// What a [`CompareJob`] found.
#[derive(Clone, Debug)]
pub struct Compared {
    stopped: Arc<AtomicBool>,
    comparison: Comparison,
}

impl CompareJob {
    /// Compares; `tell` learns how far it is. `None` when it was stopped. Blocks for a few seconds
    /// at most.
    pub fn run(self, tell: impl Fn(Stage)) -> Option<Compared> {
        let is_stopped = || self.stopped.load(Ordering::Relaxed);
        let comparison = if self.earlier == self.later {
            Comparison::default()
        } else {
            tell(Stage::Reading);
            let old = diff::readable(&self.earlier, ELSEWHERE);
            if is_stopped() {
                return None;
            }
            let new = diff::readable(&self.later, ELSEWHERE);
            if is_stopped() {
                return None;
            }
            tell(Stage::Matching);
            diff::compare(&old, &new, ELSEWHERE)
        };
        (!is_stopped()).then_some(Compared { stopped: self.stopped, comparison })
    }
}

impl ResultView {
    /// Compares with an earlier result of the same tool. Gives the difference when it is known at
    /// once; otherwise [`ResultView::compare_job`] has work for another thread.
    pub fn compare_with(&mut self, earlier: &Payload, purpose: Purpose) -> Option<Difference> {
        self.comparing = None;
        let small = |payload: &Payload| {
            let readable = diff::readable(payload, AT_ONCE);
            (!readable.cut).then_some(readable)
        };
        if let (Some(old), Some(new)) = (small(earlier), small(&self.result)) {
            return Some(self.found(diff::compare(&old, &new, AT_ONCE), purpose));
        }
        self.comparing = Some(Comparing {
            earlier: earlier.clone(),
            purpose,
            handed: false,
            stage: Stage::Reading,
            stopped: Arc::default(),
        });
        if purpose == Purpose::Show {
            self.comparison = None;
            self.contrast = None;
            self.show(Tab::Compare);
        }
        None
    }

    /// A comparison for another thread; what it finds goes to [`ResultView::compared`].
    pub fn compare_job(&mut self) -> Option<CompareJob> {
        let comparing = self.comparing.as_mut().filter(|comparing| !comparing.handed)?;
        comparing.handed = true;
        Some(CompareJob {
            earlier: comparing.earlier.clone(),
            later: self.result.clone(),
            stopped: Arc::clone(&comparing.stopped),
        })
    }

    /// How far the job is.
    pub const fn comparing_at(&mut self, stage: Stage) {
        if let Some(comparing) = &mut self.comparing {
            comparing.stage = stage;
        }
    }

    /// Takes what a job found, unless it was stopped or another began meanwhile.
    pub fn compared(&mut self, found: Compared) -> Option<Difference> {
        let comparing =
            self.comparing.take_if(|mine| Arc::ptr_eq(&mine.stopped, &found.stopped))?;
        Some(self.found(found.comparison, comparing.purpose))
    }

    /// Stops a comparison a person waits for; gives whether there was one.
    pub fn stop_comparing(&mut self) -> bool {
        let waited = self.comparing.take_if(|comparing| comparing.purpose == Purpose::Show);
        if waited.is_some() && self.tab == Tab::Compare {
            let (first, _) = self.tabs()[0];
            self.show(first);
        }
        waited.is_some()
    }

    /// What a person who waits for a comparison reads.
    pub(super) fn comparing_words(&self) -> Option<&'static str> {
        Some(match self.comparing.as_ref()?.stage {
            Stage::Reading => "comparing: reading both results · esc stops it",
            Stage::Matching => "comparing: matching their lines · esc stops it",
        })
    }

    fn found(&mut self, comparison: Comparison, purpose: Purpose) -> Difference {
        let places = comparison.places();
        let partial = comparison.left_out.is_some();
        if purpose == Purpose::Show || places > 0 {
            self.take_comparison(comparison);
            self.show(Tab::Compare);
        }
        match places {
            0 if partial => Difference::Unknown,
            0 => Difference::Same,
            places => Difference::Places(places),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn long(last: &str) -> Payload {
        let line = "a line that is the same in both\n".repeat(2_000);
        json!({"content": [{"type": "text", "text": format!("{line}{last}\n")}]}).into()
    }

    #[test]
    fn a_large_comparison_runs_elsewhere_and_a_small_one_at_once() {
        let mut view = ResultView::new(json!({"content": [], "a": 1}).into(), Vec::new());
        let small = json!({"content": [], "a": 2}).into();
        assert_eq!(view.compare_with(&small, Purpose::Tell), Some(Difference::Places(1)));
        assert!(view.compare_job().is_none());
        let mut view = ResultView::new(long("two"), Vec::new());
        assert_eq!(view.compare_with(&long("one"), Purpose::Show), None);
        assert!(view.comparing_words().is_some_and(|words| words.contains("esc")));
        let job = view.compare_job().expect("work");
        assert!(view.compare_job().is_none(), "one at a time");
        let stages = std::cell::RefCell::new(Vec::new());
        let found = job.run(|stage| stages.borrow_mut().push(stage)).expect("not stopped");
        assert_eq!(*stages.borrow(), [Stage::Reading, Stage::Matching]);
        assert_eq!(view.compared(found), Some(Difference::Places(1)));
        assert_eq!((view.tab(), view.comparing_words()), (Tab::Compare, None));
    }

    #[test]
    fn a_comparison_that_was_stopped_or_replaced_shows_nothing() {
        let mut view = ResultView::new(long("two"), Vec::new());
        view.compare_with(&long("one"), Purpose::Show);
        let stopped = view.compare_job().expect("work");
        let late = stopped.clone().run(|_| {}).expect("done before it was stopped");
        assert!(view.stop_comparing() && !view.stop_comparing());
        assert_eq!(view.tab(), Tab::Content);
        assert!(stopped.run(|_| {}).is_none());
        assert_eq!(view.compared(late.clone()), None);
        view.compare_with(&long("three"), Purpose::Show);
        assert_eq!(view.compared(late), None, "it belongs to the one before");
        assert!(view.compare_job().is_some());
    }

    #[test]
    fn results_without_end_are_compared_in_part_and_that_is_said() {
        let large = |end: char| -> Payload {
            let text = format!("{}{end}", "z\n".repeat(301_000));
            json!({"content": [{"type": "text", "text": text}]}).into()
        };
        let mut view = ResultView::new(large('b'), Vec::new());
        view.compare_with(&large('a'), Purpose::Show);
        let found = view.compare_job().expect("work").run(|_| {}).expect("not stopped");
        assert_eq!(view.compared(found), Some(Difference::Unknown));
        let comparison = view.comparison.as_ref().expect("shown");
        assert!(comparison.left_out.as_ref().is_some_and(|words| words.contains("300000 lines")));
    }
}
