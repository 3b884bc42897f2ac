//! `GET /metrics` for Prometheus. Call counters are kept here; server states are read from the view
//! at each scrape. Labels are names known to the host, never text from a request.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

use super::tokens::Client;
use base::ServerName;
use config::error::{Error, ErrorCode};
use host::{CallOutcome, DEFAULT_PROFILE, Host, Origin, ServerState};

/// Upper bounds of the latency buckets, in seconds: from a local call to the longest timeout.
const BUCKETS: [f64; 14] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0, 600.0];

/// Maximum number of tools whose series exist before their first call.
const MAX_TOOLS_AT_ZERO: usize = 500;

/// How the metrics are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetricsFormat {
    /// `OpenMetrics` 1.0.
    OpenMetrics,
    /// The text format 0.0.4 of Prometheus.
    Text,
}

impl MetricsFormat {
    /// What `Accept` prefers.
    pub fn from_accept(accept: &str) -> Self {
        let weight = |kind: &str| {
            let ranges = accept.split(',').map(|range| range.trim().to_ascii_lowercase());
            let weights = ranges.filter(|range| range.starts_with(kind)).map(|range| {
                let weight = range.split(';').find_map(|part| part.trim().strip_prefix("q="));
                weight.and_then(|weight| weight.parse::<f32>().ok()).unwrap_or(1.0)
            });
            weights.fold(0.0, f32::max)
        };
        if weight("text/plain") > weight("application/openmetrics-text") {
            Self::Text
        } else {
            Self::OpenMetrics
        }
    }

    pub const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// `OpenMetrics` in the older text format: it names counters as their samples, and has neither units
/// nor an end.
fn plain(text: &str) -> String {
    let counters: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut out = String::with_capacity(text.len());
    for line in text.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let words = line.strip_prefix("# ").and_then(|rest| {
            let (kind, rest) = rest.split_once(' ')?;
            let (name, rest) = rest.split_once(' ')?;
            (matches!(kind, "TYPE" | "HELP") && counters.contains(&name))
                .then_some((kind, name, rest))
        });
        match words {
            Some((kind, name, rest)) => _ = writeln!(out, "# {kind} {name}_total {rest}"),
            None => _ = writeln!(out, "{line}"),
        }
    }
    out
}

/// Pairs of label name and value.
type Labels<const N: usize> = [(&'static str, Arc<str>); N];

/// The metrics of the gateway.
pub(crate) struct GatewayMetrics {
    host: Host,
    registry: Registry,
    in_flight: Gauge,
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
    pub fn text(&self, format: MetricsFormat) -> Result<String, std::fmt::Error> {
        self.begin_at_zero();
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(match format {
            MetricsFormat::OpenMetrics => text,
            MetricsFormat::Text => plain(&text),
        })
    }

    /// Makes the series of every known tool exist before its first call or failure: a rate of what
    /// is not there is unknown, not zero.
    fn begin_at_zero(&self) {
        let view = self.host.snapshot();
        let tools = view.servers.values().flat_map(|server| {
            let tools = server.capabilities.tools.iter();
            tools.map(|tool| (server.name.clone().into(), Arc::clone(&tool.name)))
        });
        for (server, tool) in tools.take(MAX_TOOLS_AT_ZERO) {
            let labels = [("server", server), ("tool", tool)];
            drop(self.duration.get_or_create(&labels));
            let [server, tool] = labels;
            let code = ("code", "toolError".into());
            drop(self.failures.get_or_create(&[server, tool, code]));
        }
        // Families without any series.
        if view.servers.values().all(|server| server.capabilities.tools.is_empty()) {
            let none = Arc::<str>::default;
            drop(self.duration.get_or_create(&[("server", none()), ("tool", none())]));
            let all = [("server", none()), ("tool", none()), ("code", none())];
            drop(self.failures.get_or_create(&all));
        }
        let owner = [("client", Origin::OWNER.into()), ("profile", DEFAULT_PROFILE.into())];
        drop(self.clients.get_or_create(&owner));
    }

    /// Creates the metrics of a host.
    pub fn new(host: Host) -> Self {
        let mut registry = Registry::default();
        let in_flight = Gauge::default();
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        let duration = Family::new_with_constructor(histogram);
        let failures = Family::default();
        let clients = Family::default();
        registry.register("tool_calls_in_flight", "Tool calls in flight", in_flight.clone());
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
        registry.register_collector(Box::new(ServerStates(host.clone())));
        Self { host, registry, in_flight, duration, failures, clients }
    }

    /// Counts a call of a known tool.
    pub fn begin(&self, client: &Client, server: &ServerName, tool: &Arc<str>) -> CountedCall<'_> {
        self.in_flight.inc();
        let (id, profile) = (Arc::clone(&client.id), Arc::clone(&client.profile));
        self.clients.get_or_create(&[("client", id), ("profile", profile)]).inc();
        let labels = [("server", server.clone().into()), ("tool", Arc::clone(tool))];
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
        metrics.failures.get_or_create(&[server, tool, ("code", code.into())]).inc();
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
        self.metrics.in_flight.dec();
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
        let view = self.0.snapshot();
        let running = view.servers.values().filter(|server| server.state == ServerState::Ready);
        let running = ConstGauge::new(running.count() as i64);
        let active = encoder.encode_descriptor(
            "active_tools",
            "Tool servers that run now",
            None,
            running.metric_type(),
        )?;
        running.encode(active)?;
        let restarts = ConstCounter::new(0_u64);
        let mut family = encoder.encode_descriptor(
            "mcp_server_restarts",
            "Restarts since the service began",
            None,
            restarts.metric_type(),
        )?;
        for server in view.servers.values() {
            let labels = [("server", server.name.as_str())];
            let restarts = ConstCounter::new(u64::from(server.restarts));
            restarts.encode(family.encode_family(&labels)?)?;
        }
        let persons = self.0.person_sessions();
        if !persons.is_empty() {
            let gauge = ConstGauge::new(0_i64);
            let mut family = encoder.encode_descriptor(
                "mcp_server_person_sessions",
                "Sessions of callers who use the server as themselves",
                None,
                gauge.metric_type(),
            )?;
            for (server, count) in &persons {
                let labels = [("server", server.as_str())];
                ConstGauge::new(*count as i64).encode(family.encode_family(&labels)?)?;
            }
        }
        let gauges: [(&str, &str, Read); 2] = [
            ("mcp_server_ready", "Whether the server is ready", |server| {
                i64::from(server.state == ServerState::Ready)
            }),
            ("mcp_server_breaker_open", "Whether the server's breaker refuses calls", |server| {
                i64::from(!server.breaker.is_closed())
            }),
        ];
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
