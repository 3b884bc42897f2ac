//! Traces for an OpenTelemetry collector (OTLP over HTTP, JSON): a span for each operation of a client,
//! under the one that its `_meta.traceparent` names. Arguments and results stay out.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use url::Url;

use crate::base::Timestamp;
use crate::base::file::random_hex;
use crate::config::TlsConfig;
use crate::error::Error;
use crate::host::CallOutcome;
use crate::mcp::client_builder;

/// Spans that wait to be sent; more are dropped.
const WAITING: usize = 2_048;
/// Spans in one request.
const BATCH: usize = 512;
/// Between two requests.
const EVERY: Duration = Duration::from_secs(2);
/// Longest wait for the collector.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where spans go; nowhere by default.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    spans: Option<mpsc::Sender<Value>>,
}

/// An operation under way.
pub(super) struct TraceSpan {
    spans: mpsc::Sender<Value>,
    trace: String,
    id: String,
    text: Value,
}

impl Traces {
    /// To the collector at an address such as `http://127.0.0.1:4318`. Must be called in a runtime.
    ///
    /// # Errors
    /// When HTTP cannot be set up.
    pub fn to(collector: &Url) -> Result<Self, String> {
        let address = format!("{}/v1/traces", collector.as_str().trim_end_matches('/'));
        let http = client_builder(collector, &TlsConfig::default())?
            .redirect(reqwest::redirect::Policy::none())
            .timeout(PATIENCE)
            .build()
            .map_err(|error| error.to_string())?;
        let (spans, mut ended) = mpsc::channel(WAITING);
        tokio::spawn(async move {
            let mut batch: Vec<Value> = Vec::new();
            while ended.recv_many(&mut batch, BATCH).await > 0 {
                let spans = std::mem::take(&mut batch);
                let body = json!({"resourceSpans": [{
                    "resource": {"attributes": [attribute("service.name", "mcpdeck")]},
                    "scopeSpans": [{"scope": {"name": "mcpdeck"}, "spans": spans}],
                }]});
                let sent = http.post(&address).json(&body).send().await;
                if let Err(error) = sent.and_then(reqwest::Response::error_for_status) {
                    let error = error.without_url();
                    tracing::warn!(target: "mcpdeck::gateway", "traces are not taken: {error}");
                }
                tokio::time::sleep(EVERY).await;
            }
        });
        Ok(Self { spans: Some(spans) })
    }

    /// An operation begins, under the caller's span if it names one.
    pub(super) fn begin(
        &self,
        (method, target): (&str, Option<(&str, &str)>),
        parent: Option<&str>,
        now: Timestamp,
    ) -> Option<TraceSpan> {
        let spans = self.spans.clone()?;
        let (mut trace, id) = (random_hex::<16>().ok()?, random_hex::<8>().ok()?);
        let mut text = json!({
            "name": method, "kind": 2, "spanId": id, "startTimeUnixNano": nanos(now),
            "attributes": [attribute("mcp.method.name", method)],
        });
        if let Some((key, target)) = target {
            text["name"] = format!("{method} {target}").into();
            text["attributes"].as_array_mut()?.push(attribute(key, target));
        }
        if let Some(parent) = parent {
            parent.get(3..35)?.clone_into(&mut trace);
            text["parentSpanId"] = parent.get(36..52)?.into();
        }
        text["traceId"] = trace.as_str().into();
        Some(TraceSpan { spans, trace, id, text })
    }
}

impl TraceSpan {
    /// The `traceparent` for the server.
    pub fn context(&self) -> Arc<str> {
        format!("00-{}-{}-01", self.trace, self.id).into()
    }

    /// The operation is over.
    pub fn end(mut self, outcome: &Result<CallOutcome, Error>, now: Timestamp) {
        self.text["endTimeUnixNano"] = nanos(now).into();
        let failed = match outcome {
            Ok(outcome) if outcome.is_error => Some("tool_error"),
            Ok(_) => None,
            Err(error) => Some(error.code.as_str()),
        };
        if let (Some(kind), Some(all)) = (failed, self.text["attributes"].as_array_mut()) {
            all.push(attribute("error.type", kind));
            self.text["status"] = json!({"code": 2});
        }
        let _ = self.spans.try_send(self.text);
    }
}

/// The trace context of a caller that is sampled, when it is one (W3C Trace Context, version 00).
pub(super) fn parent(text: &str) -> Option<Arc<str>> {
    let digits = |text: &&str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = text.split('-').filter(digits).collect();
    let [version, trace, span, flags] = parts[..] else { return None };
    let sizes = [version.len(), trace.len(), span.len(), flags.len()];
    let is_one = sizes == [2, 32, 16, 2] && version == "00" && text.len() == 55;
    is_one.then(|| text.into())
}

fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// 64-bit numbers are text in OTLP/JSON.
fn nanos(at: Timestamp) -> String {
    format!("{}000", at.0)
}
