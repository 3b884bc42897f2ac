//! Circuit breaker (decision D4, requirement H2): pure, `now` is an argument.
//!
//! Closed until [`Breaker::THRESHOLD`] failures in a row; then open for [`Breaker::REJECT_FOR`];
//! then half-open, where one probe at a time is let through. A success closes it from any state.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::base::Timestamp;
use crate::base::text::SafeText;

/// State of a breaker as it is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum BreakerView {
    /// Calls go through.
    #[default]
    Closed,
    /// Calls are rejected until the next probe.
    Open {
        /// When one call will be let through.
        until: Timestamp,
        /// The failure that opened it.
        cause: SafeText,
    },
    /// One probe is let through.
    HalfOpen {
        /// The failure that opened it.
        cause: SafeText,
    },
}

impl BreakerView {
    /// Whether calls go through freely.
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

/// A breaker.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    failures: u32,
    open: Option<(Timestamp, SafeText)>,
    probing: bool,
}

/// Whether a call may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Go,
    /// It may, as the one probe of a half-open breaker; its result must be reported.
    Probe,
    /// It may not, until then, because of that.
    Reject {
        /// When one call will be let through.
        until: Timestamp,
        /// The failure that opened the breaker.
        cause: SafeText,
    },
}

impl Breaker {
    /// Failures in a row that open it.
    pub const THRESHOLD: u32 = 5;
    /// How long it rejects.
    pub const REJECT_FOR: Duration = Duration::from_secs(60);

    /// Asks to let a call through.
    pub fn admit(&mut self, now: Timestamp) -> Admission {
        match &self.open {
            None => Admission::Go,
            Some((until, _)) if now >= *until && !self.probing => {
                self.probing = true;
                Admission::Probe
            }
            Some((until, cause)) => Admission::Reject { until: *until, cause: cause.clone() },
        }
    }

    /// Reports success; gives whether the shown state changed.
    pub fn success(&mut self) -> bool {
        let was_open = self.open.is_some();
        *self = Self::default();
        was_open
    }

    /// Reports failure; gives whether the shown state changed.
    pub fn failure(&mut self, now: Timestamp, cause: &SafeText) -> bool {
        self.failures = self.failures.saturating_add(1);
        let opens = self.probing || (self.open.is_none() && self.failures >= Self::THRESHOLD);
        if opens {
            self.open = Some((now.plus(Self::REJECT_FOR), cause.clone()));
            self.probing = false;
        }
        opens
    }

    /// Reports that a probe ended without a verdict (it was cancelled): the next may probe.
    pub fn abandoned(&mut self) {
        self.probing = false;
    }

    /// What is shown.
    pub fn view(&self, now: Timestamp) -> BreakerView {
        match &self.open {
            None => BreakerView::Closed,
            Some((until, cause)) if now >= *until => BreakerView::HalfOpen { cause: cause.clone() },
            Some((until, cause)) => BreakerView::Open { until: *until, cause: cause.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp(seconds * 1_000_000)
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::default();
        for n in 1..=Breaker::THRESHOLD {
            assert_eq!(breaker.failure(at(0), &SafeText::line("boom")), n == Breaker::THRESHOLD);
        }
        breaker
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_a_success_between_forgives() {
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            breaker.failure(at(0), &SafeText::default());
        }
        assert!(!breaker.success());
        for _ in 0..4 {
            breaker.failure(at(0), &SafeText::default());
        }
        assert_eq!(breaker.admit(at(0)), Admission::Go);
        assert!(breaker.failure(at(0), &SafeText::default()));
        assert!(matches!(breaker.admit(at(59)), Admission::Reject { .. }));
    }

    #[test]
    fn after_the_wait_exactly_one_probe_goes_and_its_failure_opens_it_again() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(at(60)), Admission::Probe);
        assert!(matches!(breaker.admit(at(60)), Admission::Reject { .. }));
        assert!(breaker.failure(at(61), &SafeText::line("again")));
        assert!(matches!(breaker.admit(at(120)), Admission::Reject { .. }));
        assert_eq!(breaker.admit(at(121)), Admission::Probe);
    }

    #[test]
    fn a_probe_that_succeeds_closes_it_and_one_that_is_abandoned_frees_the_place() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(at(60)), Admission::Probe);
        breaker.abandoned();
        assert_eq!(breaker.admit(at(60)), Admission::Probe);
        assert!(breaker.success());
        assert_eq!(breaker.view(at(60)), BreakerView::Closed);
    }

    /// The breaker as the requirement words it, from the whole history.
    #[derive(Default)]
    struct Model {
        in_a_row: u32,
        opened: Option<u64>,
        probing: bool,
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_does_what_its_words_say_in_every_history(
            steps in prop::collection::vec((
                prop::sample::select(vec![0_u8, 0, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3, 4]),
                1_u64..90,
            ), 0..120)
        ) {
            let (mut breaker, mut model, mut now) = (Breaker::default(), Model::default(), 0);
            for (what, wait) in steps {
                let waited = |opened: u64| now >= opened + 60;
                match what {
                    0 => now += wait,
                    1 => {
                        let given = breaker.admit(at(now));
                        let probe = model.opened.is_some_and(waited) && !model.probing;
                        match model.opened {
                            None => prop_assert_eq!(given, Admission::Go),
                            Some(_) if probe => {
                                prop_assert_eq!(given, Admission::Probe);
                                model.probing = true;
                            }
                            Some(opened) => {
                                let Admission::Reject { until, .. } = given else {
                                    return Err(TestCaseError::fail("let through"));
                                };
                                prop_assert_eq!(until, at(opened + 60));
                            }
                        }
                    }
                    2 => {
                        prop_assert_eq!(breaker.success(), model.opened.is_some());
                        model = Model::default();
                    }
                    3 => {
                        model.in_a_row += 1;
                        let opens = model.probing || model.opened.is_none() && model.in_a_row >= 5;
                        prop_assert_eq!(breaker.failure(at(now), &SafeText::line("x")), opens);
                        if opens {
                            model.opened = Some(now);
                            model.probing = false;
                        }
                    }
                    _ => {
                        breaker.abandoned();
                        model.probing = false;
                    }
                }
                let shown = match (breaker.view(at(now)), model.opened) {
                    (BreakerView::Closed, None) => true,
                    (BreakerView::Open { until, .. }, Some(opened)) => {
                        until == at(opened + 60) && now < opened + 60
                    }
                    (BreakerView::HalfOpen { .. }, Some(opened)) => now >= opened + 60,
                    _ => false,
                };
                prop_assert!(shown, "{:?}", breaker.view(at(now)));
            }
        }
    }
}
