//! `GET /metrics` for Prometheus. Call counters are kept here; server states are read from the view
//! at each scrape. Labels are names known to the host, never text from a request.

use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::tokens::Client;
use base::ServerName;
use config::error::{Error, ErrorCode};
use host::{CallOutcome, Host, ServerState};

/// Upper bounds of the latency buckets, in seconds: from a local call to the longest timeout.
const BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0];

/// Pairs of label name and value.
type Labels<const N: usize> = [(&'static str, String); N];

/// The metrics of the gateway.
#[derive(Debug)]
pub(crate) struct GatewayMetrics {
    registry: Registry,
    active: Gauge,
    duration: Family<Labels<2>, Histogram>,
    failures: Family<Labels<3>, Counter>,
    clients: Family<Labels<2>, Counter>,
}

/// A call in flight; counted as active until dropped.
pub(crate) struct CountedCall<'a> {
    metrics: &'a GatewayMetrics,
    labels: Labels<2>,
    began: Instant,
}

impl GatewayMetrics {
    /// Encodes all metrics in the `OpenMetrics` text format.
    ///
    /// # Errors
    /// When encoding fails, which is a bug.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    /// Creates the metrics of a host.
    pub fn new(host: Host) -> Self {
        let mut registry = Registry::default();
        let active = Gauge::default();
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let duration = Family::new_with_constructor(histogram);
        let failures = Family::default();
        let clients = Family::default();
        registry.register("active_tools", "Tool calls in flight", active.clone());
        registry.register_with_unit(
            "tool_duration",
            "Tool call time, excluding time a person took",
            Unit::Seconds,
            duration.clone(),
        );
        registry.register_with_unit(
            "mcp_server_operation_duration",
            "Time of server operations",
            Unit::Seconds,
            duration.clone(),
        );
        registry.register("tool_failure", "Tool calls that failed", failures.clone());
        registry.register("client_calls", "Tool calls by client", clients.clone());
        registry.register_collector(Box::new(ServerStates(host)));
        Self { registry, active, duration, failures, clients }
    }

    /// Counts a call of a known tool.
    pub fn begin(&self, client: &Client, server: &ServerName, tool: &str) -> CountedCall<'_> {
        self.active.inc();
        let (id, profile) = (client.id.to_string(), client.profile.to_string());
        self.clients.get_or_create(&[("client", id), ("profile", profile)]).inc();
        let labels = [("server", server.to_string()), ("tool", tool.to_owned())];
        CountedCall { metrics: self, labels, began: Instant::now() }
    }
}

impl CountedCall<'_> {
    /// Records the outcome and duration of the call.
    pub fn end(self, outcome: &Result<CallOutcome, Error>) {
        let metrics = self.metrics;
        let took = took(outcome, self.began.elapsed());
        metrics.duration.get_or_create(&self.labels).observe(took.as_secs_f64());
        let code = match outcome {
            Ok(outcome) if outcome.is_error => "toolError",
            Ok(_) => return,
            Err(error) => error.code.as_str(),
        };
        let [server, tool] = self.labels.clone();
        metrics.failures.get_or_create(&[server, tool, ("code", code.to_owned())]).inc();
    }
}

/// The duration of a call, excluding the time that a person took to answer.
fn took(outcome: &Result<CallOutcome, Error>, elapsed: Duration) -> Duration {
    match outcome {
        Ok(outcome) => outcome.duration,
        // All of the time was spent waiting for a decision that refused the call.
        Err(error)
            if matches!(error.code, ErrorCode::PermissionDenied | ErrorCode::PolicyBlocked) =>
        {
            Duration::ZERO
        }
        Err(_) => elapsed,
    }
}

impl Drop for CountedCall<'_> {
    fn drop(&mut self) {
        self.metrics.active.dec();
    }
}

/// Server states, read at each scrape.
struct ServerStates(Host);

impl std::fmt::Debug for ServerStates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Servers")
    }
}

impl Collector for ServerStates {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        type Read = fn(&host::ServerView) -> i64;
        let gauges: [(&str, &str, Read); 3] = [
            ("mcp_server_ready", "Whether the server is ready", |server| {
                i64::from(server.state == ServerState::Ready)
            }),
            ("mcp_server_restarts", "Restarts since the service began", |server| {
                i64::from(server.restarts)
            }),
            ("mcp_server_breaker_open", "Whether the server's breaker refuses calls", |server| {
                i64::from(!server.breaker.is_closed())
            }),
        ];
        let view = self.0.snapshot();
        for (name, help, read) in gauges {
            let gauge = ConstGauge::new(0_i64);
            let mut family = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            for server in view.servers.values() {
                let labels = [("server", server.name.as_str())];
                ConstGauge::new(read(server)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_person_who_refuses_a_call_is_not_that_of_the_tool() {
        let waited = Duration::from_secs(600);
        let failed = |code| took(&Err(Error::new(code, "")), waited);
        assert_eq!(failed(ErrorCode::PermissionDenied), Duration::ZERO);
        assert_eq!(failed(ErrorCode::PolicyBlocked), Duration::ZERO);
        assert_eq!(failed(ErrorCode::Timeout), waited);
    }
}
