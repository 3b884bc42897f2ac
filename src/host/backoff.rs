//! Backoff: how long to wait before the next attempt. Pure; randomness is an argument.

use std::time::Duration;

use config::{RestartConfig, RetryConfig};

/// Delay before retry number `attempt` (from 1) of a start or a request:
/// exponential, capped, jittered between half and all of it. `random` is in `0.0..1.0`.
pub fn retry_delay(config: &RetryConfig, attempt: u32, random: f64) -> Duration {
    let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
    let full = config.initial.as_secs_f64() * config.factor.powi(exponent);
    // Zero times infinity is NaN; an initial delay of zero means no delay.
    let full = if full.is_nan() { 0.0 } else { full };
    let capped = full.min(config.max_delay.as_secs_f64()).max(0.0);
    Duration::from_secs_f64(capped * (0.5 + 0.5 * random.clamp(0.0, 1.0)))
}

/// Delay before automatic restart number `attempt` (from 1) after a crash:
/// `backoff` times the attempt, jittered by up to a fifth either way, at most 60 s.
pub fn restart_delay(config: &RestartConfig, attempt: u32, random: f64) -> Duration {
    let full = config.backoff.as_secs_f64() * f64::from(attempt.max(1));
    let jittered = full.min(60.0) * (0.8 + 0.4 * random.clamp(0.0, 1.0));
    Duration::from_secs_f64(jittered.min(60.0))
}

/// Counts crashes to decide when to give up: after `max` restarts in a row without a stable minute.
#[derive(Clone, Debug, Default)]
pub struct RestartBudget {
    used: u32,
}

impl RestartBudget {
    /// How long a server has to stay up for its restart count to be reset.
    pub const STABLE_INTERVAL: Duration = Duration::from_secs(60);

    /// Records a crash after `lived`; returns the number of the restart, or `None` to give up.
    pub fn next(&mut self, config: &RestartConfig, lived: Duration) -> Option<u32> {
        if lived >= Self::STABLE_INTERVAL {
            self.used = 0;
        }
        if self.used >= config.max {
            return None;
        }
        self.used += 1;
        Some(self.used)
    }

    /// Resets the count, for a restart on request.
    pub fn reset(&mut self) {
        self.used = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delays_double_up_to_the_cap() {
        let config = RetryConfig::default();
        let full: Vec<u64> = (1..=7).map(|n| retry_delay(&config, n, 1.0).as_secs()).collect();
        assert_eq!(full, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(retry_delay(&config, 3, 0.0), Duration::from_secs(2));
    }

    #[test]
    fn a_huge_attempt_number_neither_overflows_nor_panics() {
        assert_eq!(retry_delay(&RetryConfig::default(), u32::MAX, 1.0), Duration::from_secs(30));
        let slow = RestartConfig { backoff: Duration::from_secs(9), ..RestartConfig::default() };
        assert_eq!(restart_delay(&slow, u32::MAX, 0.5), Duration::from_secs(60));
    }

    #[test]
    fn restart_budget_runs_out_and_recovers_after_a_stable_minute() {
        let config = RestartConfig { max: 2, ..RestartConfig::default() };
        let mut budget = RestartBudget::default();
        assert_eq!(budget.next(&config, Duration::ZERO), Some(1));
        assert_eq!(budget.next(&config, Duration::ZERO), Some(2));
        assert_eq!(budget.next(&config, Duration::ZERO), None);
        assert_eq!(budget.next(&config, RestartBudget::STABLE_INTERVAL), Some(1));
    }

    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_retry_waits_longer_each_time_and_stays_between_half_and_the_whole_of_its_step(
            initial in 0_u64..100_000, max in 0_u64..100_000, factor in 1.0..100.0_f64,
            attempt in prop_oneof![1_u32..40, any::<u32>()], random in 0.0..1.0_f64,
        ) {
            let (initial, max_delay) = (Duration::from_millis(initial), Duration::from_millis(max));
            let config = RetryConfig { initial, factor, max_delay, ..RetryConfig::default() };
            let delay = retry_delay(&config, attempt, random);
            let whole = retry_delay(&config, attempt, 1.0);
            prop_assert!(whole <= max_delay);
            prop_assert!(attempt < 2 || initial > Duration::ZERO || whole == Duration::ZERO);
            prop_assert!(delay <= whole && delay * 2 + Duration::from_nanos(2) >= whole);
            prop_assert!(retry_delay(&config, attempt.saturating_add(1), random) >= delay);
            if attempt <= 1 {
                prop_assert_eq!(whole, initial.min(max_delay));
            }
        }

        #[test]
        fn a_restart_never_waits_longer_than_a_minute(
            backoff in 0_u64..1_000_000, attempt: u32, random in 0.0..1.0_f64,
        ) {
            let backoff = Duration::from_millis(backoff);
            let config = RestartConfig { backoff, ..RestartConfig::default() };
            let delay = restart_delay(&config, attempt, random);
            let middle = backoff.saturating_mul(attempt.max(1)).min(Duration::from_secs(60));
            prop_assert!(delay <= Duration::from_secs(60), "{delay:?}");
            prop_assert!(delay + Duration::from_nanos(9) >= middle.mul_f64(0.8), "{delay:?}");
            prop_assert!(delay <= middle.mul_f64(1.2) + Duration::from_nanos(9), "{delay:?}");
        }

        #[test]
        fn a_budget_gives_as_many_restarts_as_there_are_deaths_since_the_last_stable_minute(
            max in 0_u32..6, lives in prop::collection::vec(0_u64..80, 0..40),
        ) {
            let config = RestartConfig { max, ..RestartConfig::default() };
            let mut budget = RestartBudget::default();
            let mut in_a_row = 0;
            for lived in lives {
                in_a_row = if lived >= 60 { 1 } else { in_a_row + 1 };
                let given = budget.next(&config, Duration::from_secs(lived));
                prop_assert_eq!(given, (in_a_row <= max).then_some(in_a_row));
            }
        }
    }
}
