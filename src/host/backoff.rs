//! Backoff: how long to wait before the next attempt. Pure; randomness comes in as a number.

use std::time::Duration;

use crate::config::{RestartConfig, RetryConfig};

/// Delay before retry number `attempt` (from 1) of a start or a request (requirement L3):
/// exponential, capped, with full jitter over its upper half. `random` is in `0.0..1.0`.
pub fn retry_delay(config: &RetryConfig, attempt: u32, random: f64) -> Duration {
    let exponent = i32::try_from(attempt.saturating_sub(1)).unwrap_or(i32::MAX);
    let full = config.initial.as_secs_f64() * config.factor.powi(exponent);
    let capped = full.min(config.max_delay.as_secs_f64()).max(0.0);
    Duration::from_secs_f64(capped * (0.5 + 0.5 * random.clamp(0.0, 1.0)))
}

/// Delay before automatic restart number `attempt` (from 1) after a death (decision D1):
/// `backoff` times the attempt, jittered by up to a fifth either way, at most 60 s.
pub fn restart_delay(config: &RestartConfig, attempt: u32, random: f64) -> Duration {
    let full = config.backoff.as_secs_f64() * f64::from(attempt.max(1));
    Duration::from_secs_f64(full.min(60.0) * (0.8 + 0.4 * random.clamp(0.0, 1.0)))
}

/// Counts deaths to decide when to give up: more than `max` in a row without a stable minute.
#[derive(Clone, Debug, Default)]
pub struct RestartBudget {
    used: u32,
}

impl RestartBudget {
    /// A server has to live this long, with an answered request, for its count to go back to zero.
    pub const STABLE: Duration = Duration::from_secs(60);

    /// Notes a death after `lived`; gives the restart's number, or `None` when it is given up.
    pub fn next(&mut self, config: &RestartConfig, lived: Duration) -> Option<u32> {
        if lived >= Self::STABLE {
            self.used = 0;
        }
        if self.used >= config.max {
            return None;
        }
        self.used += 1;
        Some(self.used)
    }

    /// A restart by hand forgives everything.
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
        assert_eq!(budget.next(&config, RestartBudget::STABLE), Some(1));
    }
}
