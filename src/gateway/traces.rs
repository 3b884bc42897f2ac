//! Traces for an OpenTelemetry collector (OTLP over HTTP, JSON): a span for each client operation,
//! as a child of the span in its `_meta.traceparent`. Arguments and results are not recorded.

use std::sync::Arc;

use serde_json::{Value, json};
use url::Url;

use base::Timestamp;
use base::file::random_hex;
use config::Environment;
use config::error::Error;
use deck::{OtlpQueue, OtlpSettings, OtlpSignal, attribute};
use host::{CallOutcome, Origin};

/// Exporter for spans; disabled by default.
#[derive(Clone, Debug, Default)]
pub struct Traces {
    spans: Option<OtlpQueue>,
}

/// The span of an operation in progress.
pub(super) struct TraceSpan {
    spans: OtlpQueue,
    trace: String,
    id: String,
    text: Value,
}

impl Traces {
    /// Exports to a collector such as `http://127.0.0.1:4318`, or the one that the environment names,
    /// as the environment says (`OTEL_EXPORTER_OTLP_HEADERS` and the like). Must be called in a Tokio
    /// runtime.
    ///
    /// # Errors
    /// When the address or a variable cannot be used.
    pub fn to(collector: Option<&Url>, environment: &Environment) -> Result<Self, String> {
        let signal = OtlpSignal::Traces;
        let settings = OtlpSettings::from_environment(collector, signal, environment)?;
        Ok(Self { spans: Some(OtlpQueue::to(settings)?) })
    }

    /// Sends the spans that wait, before the program ends.
    pub async fn flush(&self) {
        if let Some(spans) = &self.spans {
            spans.flush().await;
        }
    }

    /// Begins the span of an operation, as a child of the caller's span, if there is one. `None` when
    /// nothing is exported or the caller does not sample its trace (W3C Trace Context, section 3.2.2.5).
    pub(super) fn begin(
        &self,
        (method, target): (&str, Option<(&str, &str)>),
        (server, client): (Option<&str>, &Origin),
        parent: Option<&str>,
        now: Timestamp,
    ) -> Option<TraceSpan> {
        let spans = self.spans.clone().filter(|_| parent.is_none_or(is_sampled))?;
        let (mut trace, id) = (random_hex::<16>().ok()?, random_hex::<8>().ok()?);
        let mut text = json!({
            "name": method, "kind": 2, "spanId": id, "startTimeUnixNano": nanos(now),
            "attributes": [attribute("mcp.method.name", method)],
        });
        if let Some((key, target)) = target {
            text["name"] = format!("{method} {target}").into();
            text["attributes"].as_array_mut()?.push(attribute(key, target));
        }
        let attributes = text["attributes"].as_array_mut()?;
        attributes.extend(server.map(|server| attribute("mcpdeck.server", server)));
        attributes.push(attribute("mcpdeck.client", &client.to_string()));
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

    /// Ends the span and queues it.
    pub fn end(mut self, outcome: &Result<CallOutcome, Error>, now: Timestamp) {
        self.text["endTimeUnixNano"] = nanos(now).into();
        let failed = match outcome {
            Ok(outcome) if outcome.is_error => Some("tool_error"),
            Ok(_) => None,
            Err(error) => Some(error.code.as_str()),
        };
        if let Some(all) = self.text["attributes"].as_array_mut() {
            all.push(attribute("mcpdeck.outcome", failed.unwrap_or("ok")));
            all.extend(failed.map(|kind| attribute("error.type", kind)));
            // A resource may have been found by its URI alone.
            let is_named = all.iter().any(|one| one["key"] == "mcpdeck.server");
            if let Some(server) = outcome.as_ref().ok().filter(|_| !is_named) {
                all.push(attribute("mcpdeck.server", server.server.as_str()));
            }
        }
        if failed.is_some() {
            self.text["status"] = json!({"code": 2});
        }
        self.spans.send(self.text);
    }
}

fn is_sampled(parent: &str) -> bool {
    parent.get(53..).and_then(|flags| u8::from_str_radix(flags, 16).ok()).is_none_or(|f| f & 1 == 1)
}

/// OTLP/JSON encodes 64-bit numbers as strings.
fn nanos(at: Timestamp) -> String {
    format!("{}000", at.0)
}
