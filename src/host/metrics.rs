//! Metrics per server and tool: counters and an HDR histogram of latency.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use base::Timestamp;
use base::human::millis;
use config::error::ErrorCode;

/// Counters of one server or one tool. Callers must provide locking.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Without rates and latency, which [`Metrics::view`] computes.
    counts: MetricsView,
    average: Option<f64>,
    latency: Option<Box<Histogram<u64>>>,
}

/// How a request ended, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// With a result.
    Success,
    /// With a result that has `isError` set.
    ToolError,
    /// With an error.
    Failed(ErrorCode),
    /// By a limit, before anything was sent.
    Limited,
}

impl Ending {
    /// The spelling in the log: `ok`, `toolError`, or the error's code.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Success => "ok",
            Self::ToolError => "toolError",
            Self::Failed(code) => code.as_str(),
            Self::Limited => ErrorCode::RateLimited.as_str(),
        }
    }
}

/// The most recent failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// When.
    pub at: Timestamp,
    /// Its code; `None` for a tool error (`isError`).
    pub code: Option<ErrorCode>,
}

/// A snapshot of [`Metrics`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct MetricsView {
    /// Requests started.
    pub requests: u64,
    /// Requests that returned a result without `isError`.
    pub successes: u64,
    /// Results with `isError` set.
    pub tool_errors: u64,
    /// Failures by code.
    pub errors: BTreeMap<ErrorCode, u64>,
    /// How many of them a limit refused before anything was sent.
    #[serde(default)]
    pub limited: u64,
    /// Requests running now.
    pub in_flight: u64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
    /// Last use.
    pub last_used: Option<Timestamp>,
    /// When the server last sent anything, on whatever connection; `None` for a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heard: Option<Timestamp>,
    /// The last failure; cancellations and refused calls do not count.
    #[serde(default)]
    pub last_failure: Option<LastFailure>,
    /// Share of successful requests, from 0 to 1; cancellations and refused calls do not count.
    #[serde(default)]
    pub success_rate: Option<f64>,
    /// Share of failed requests and tool errors, from 0 to 1; as above.
    #[serde(default)]
    pub error_rate: Option<f64>,
    /// Latency of answered requests.
    pub latency: Option<LatencyView>,
}

/// Latency of answered requests; in JSON, milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LatencyView {
    /// Shortest.
    #[serde(with = "millis")]
    pub min: Duration,
    /// Arithmetic mean.
    #[serde(with = "millis")]
    pub mean: Duration,
    /// Longest.
    #[serde(with = "millis")]
    pub max: Duration,
    /// Median.
    #[serde(with = "millis")]
    pub p50: Duration,
    /// 95th percentile.
    #[serde(with = "millis")]
    pub p95: Duration,
    /// 99th percentile.
    #[serde(with = "millis")]
    pub p99: Duration,
    /// Exponential moving average, alpha 0.2.
    #[serde(with = "millis")]
    pub average: Duration,
}

/// Metrics of one server and its targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerMetrics {
    /// All requests of the server.
    pub total: MetricsView,
    /// By tool, prompt or resource method, for example `tools/call echo`.
    pub by_target: BTreeMap<String, MetricsView>,
}

impl MetricsView {
    /// Failed calls and tool errors, without those that say nothing about the server: cancelled
    /// ones, and those that were refused before anything was sent.
    pub fn failed(&self) -> u64 {
        let failed = self.errors.iter().filter(|(code, _)| !code.is_of_caller());
        let failed = failed.map(|(_, count)| count).sum::<u64>();
        failed.saturating_sub(self.limited) + self.tool_errors
    }

    /// Cancelled calls.
    pub fn cancelled(&self) -> u64 {
        self.errors.get(&ErrorCode::Cancelled).copied().unwrap_or_default()
    }
}

impl Metrics {
    /// Weight of the latest value in the moving average.
    pub const AVERAGE_WEIGHT: f64 = 0.2;

    /// Counts a request that starts.
    pub fn begin(&mut self, now: Timestamp) {
        self.counts.requests += 1;
        self.counts.in_flight += 1;
        self.counts.last_used = Some(now);
    }

    /// Counts a request that ended after `took`, excluding the time spent waiting for the user.
    pub fn end(&mut self, ending: Ending, took: Duration, at: Timestamp) {
        self.counts.in_flight = self.counts.in_flight.saturating_sub(1);
        match ending {
            Ending::Success => self.counts.successes += 1,
            Ending::ToolError => {
                self.counts.tool_errors += 1;
                self.counts.last_failure = Some(LastFailure { at, code: None });
            }
            Ending::Failed(code) => {
                *self.counts.errors.entry(code).or_default() += 1;
                if !code.is_of_caller() {
                    self.counts.last_failure = Some(LastFailure { at, code: Some(code) });
                }
                return;
            }
            Ending::Limited => {
                *self.counts.errors.entry(ErrorCode::RateLimited).or_default() += 1;
                self.counts.limited += 1;
                return;
            }
        }
        let micros = took.as_micros() as u64;
        let latency = self.latency.get_or_insert_with(|| Box::new(new_histogram()));
        latency.saturating_record(micros);
        let value = micros as f64;
        let average = self.average.unwrap_or(value);
        self.average = Some(average + Self::AVERAGE_WEIGHT * (value - average));
    }

    /// Counts transferred bytes.
    pub fn transferred(&mut self, bytes_in: u64, bytes_out: u64) {
        self.counts.bytes_in += bytes_in;
        self.counts.bytes_out += bytes_out;
    }

    /// A snapshot.
    pub fn view(&self) -> MetricsView {
        let mut view = self.counts.clone();
        let (good, bad) = (view.successes as f64, view.failed() as f64);
        if good + bad > 0.0 {
            view.success_rate = Some(good / (good + bad));
            view.error_rate = Some(bad / (good + bad));
        }
        view.latency = self.latency.as_deref().map(|h| LatencyView {
            min: Duration::from_micros(h.min()),
            mean: Duration::from_secs_f64(h.mean() / 1e6),
            max: Duration::from_micros(h.max()),
            p50: Duration::from_micros(h.value_at_quantile(0.50)),
            p95: Duration::from_micros(h.value_at_quantile(0.95)),
            p99: Duration::from_micros(h.value_at_quantile(0.99)),
            average: Duration::from_secs_f64(self.average.unwrap_or_default() / 1e6),
        });
        view
    }
}

/// Microseconds up to an hour, two significant digits: at most about 20 kB.
fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_max(3_600_000_000, 2)
        .unwrap_or_else(|_| unreachable!("an hour and two digits are within the bounds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_average_and_counts_follow_the_calls() {
        let mut metrics = Metrics::default();
        for ms in 1..=100 {
            metrics.begin(Timestamp(ms));
            metrics.end(Ending::Success, Duration::from_millis(ms), Timestamp(ms));
        }
        metrics.begin(Timestamp(101));
        metrics.begin(Timestamp(102));
        metrics.end(Ending::Failed(ErrorCode::Timeout), Duration::from_secs(30), Timestamp(131));
        let view = metrics.view();
        assert_eq!((view.requests, view.successes, view.in_flight), (102, 100, 1));
        assert_eq!(view.errors[&ErrorCode::Timeout], 1);
        let failed = view.failed();
        metrics.begin(Timestamp(3));
        metrics.end(Ending::Failed(ErrorCode::Cancelled), Duration::ZERO, Timestamp(140));
        let view = metrics.view();
        assert_eq!((view.failed(), view.cancelled()), (failed, 1), "it was wanted so");
        for refused in
            [ErrorCode::Validation, ErrorCode::PermissionDenied, ErrorCode::BudgetExceeded]
        {
            metrics.begin(Timestamp(4));
            metrics.end(Ending::Failed(refused), Duration::ZERO, Timestamp(150));
        }
        metrics.begin(Timestamp(4));
        metrics.end(Ending::Limited, Duration::ZERO, Timestamp(151));
        let view = metrics.view();
        assert_eq!(view.failed(), failed, "nothing was sent");
        assert_eq!((view.errors[&ErrorCode::RateLimited], view.limited), (1, 1));
        let timeout = LastFailure { at: Timestamp(131), code: Some(ErrorCode::Timeout) };
        assert_eq!(view.last_failure, Some(timeout), "what was cancelled did not fail");
        let rates = (view.success_rate.unwrap(), view.error_rate.unwrap());
        assert_eq!(rates, (100.0 / 101.0, 1.0 / 101.0));
        let latency = view.latency.expect("there were answers");
        let near = |value: Duration, ms: f64| (value.as_secs_f64() * 1e3 / ms - 1.0).abs() < 0.02;
        assert!(near(latency.p50, 50.0) && near(latency.p95, 95.0), "{latency:?}");
        assert!(near(latency.max, 100.0), "failures are not latencies: {latency:?}");
        assert!(latency.average > Duration::from_millis(90));
    }
}
