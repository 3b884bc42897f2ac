//! Circuit breaker: pure, `now` is an argument.
//!
//! Closed until `threshold` failures in a row within `window`; then open for `cooldown`; then
//! half-open, where one probe at a time is admitted. A success closes it from any state.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use base::{SafeText, Timestamp};
use config::BreakerConfig;

/// State of a breaker, for display.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum BreakerView {
    /// Calls go through.
    #[default]
    Closed,
    /// Calls are rejected until the next probe.
    Open {
        /// When the next probe will be admitted.
        until: Timestamp,
        /// The failure that opened it.
        cause: SafeText,
    },
    /// One probe at a time is admitted.
    HalfOpen {
        /// The failure that opened it.
        cause: SafeText,
    },
}

impl BreakerView {
    /// Whether the breaker is closed.
    pub const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

/// A breaker.
#[derive(Clone, Debug, Default)]
pub struct Breaker {
    /// Failures since the last success, newest last: when, and of which tool. At most `threshold`
    /// entries.
    failures: VecDeque<(Timestamp, FailureSource)>,
    open: Option<(Timestamp, SafeText)>,
    probing: bool,
}

/// The tool a failure is attributed to; `None` when it concerns the whole server.
pub type FailureSource = Option<Arc<str>>;

impl Breaker {
    /// Admits or rejects a call; returns whether it is the probe of a half-open breaker, whose
    /// result callers must report.
    ///
    /// # Errors
    /// When the next probe will be admitted, and the failure that opened the breaker.
    pub fn admit(&mut self, now: Timestamp) -> Result<bool, (Timestamp, SafeText)> {
        match &self.open {
            None => Ok(false),
            Some((until, _)) if now >= *until && !self.probing => {
                self.probing = true;
                Ok(true)
            }
            Some(rejected) => Err(rejected.clone()),
        }
    }

    /// Reports a success; returns whether the displayed state changed.
    pub fn success(&mut self) -> bool {
        let was_open = self.open.is_some();
        *self = Self::default();
        was_open
    }

    /// Reports a failure; returns whether the displayed state changed. Failures of a single tool
    /// do not open the breaker of its server.
    pub fn failure(
        &mut self,
        config: &BreakerConfig,
        now: Timestamp,
        (source, cause): (FailureSource, &SafeText),
    ) -> bool {
        let threshold = config.threshold.max(1) as usize;
        self.failures.push_back((now, source));
        self.failures.retain(|(at, _)| now.since(*at) < config.window);
        while self.failures.len() > threshold {
            self.failures.pop_front();
        }
        let first = self.failures.front().and_then(|(_, source)| source.as_ref());
        let of_many =
            first.is_none() || self.failures.iter().any(|(_, source)| source.as_ref() != first);
        let opens =
            self.probing || (self.open.is_none() && self.failures.len() >= threshold && of_many);
        if opens {
            self.open = Some((now.plus(config.cooldown), cause.clone()));
            self.probing = false;
        }
        opens
    }

    /// Reports that a probe ended without a result (it was cancelled): the next call may probe.
    pub fn abandoned(&mut self) {
        self.probing = false;
    }

    /// The state for display.
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

    fn fails(breaker: &mut Breaker, now: Timestamp, tool: Option<&str>) -> bool {
        let cause = SafeText::line("boom");
        breaker.failure(&BreakerConfig::default(), now, (tool.map(Into::into), &cause))
    }

    #[test]
    fn the_failures_of_one_tool_are_not_those_of_its_server_and_old_ones_do_not_count() {
        let mut server = Breaker::default();
        for _ in 0..20 {
            assert!(!fails(&mut server, at(0), Some("one")));
        }
        assert!(fails(&mut server, at(1), Some("two")));
        let mut tool = Breaker::default();
        for n in 0..20 {
            assert!(!fails(&mut tool, at(15 * n), None), "four within a minute");
        }
        assert!(fails(&mut tool, at(15 * 19), None));
    }

    /// A reference model of the requirement, computed from the whole history.
    #[derive(Default)]
    struct Model {
        failures: Vec<u64>,
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
                            None => prop_assert_eq!(given, Ok(false)),
                            Some(_) if probe => {
                                prop_assert_eq!(given, Ok(true));
                                model.probing = true;
                            }
                            Some(opened) => {
                                let Err((until, _)) = given else {
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
                        model.failures.push(now);
                        let recent = model.failures.iter().filter(|at| now - **at < 60).count();
                        let opens = model.probing || model.opened.is_none() && recent >= 5;
                        prop_assert_eq!(fails(&mut breaker, at(now), None), opens);
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
