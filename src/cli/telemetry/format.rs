//! Formats each record as one JSON line, time, level, server and action first.

use std::fmt;
use std::io::Write as _;

use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_appender::non_blocking::NonBlocking;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::{LookupSpan, Scope};

use base::{Clock, Redactor};

/// Keys present in every line; `null` when they do not apply.
const FIXED: [&str; 8] = [
    "server",
    "request_id",
    "session_id",
    "action",
    "status",
    "duration_ms",
    "correlation_id",
    "parent_id",
];
/// Fields that contain sent or received data.
const PAYLOADS: [&str; 4] = ["arguments", "result", "payload", "params"];

/// The layer that writes the log lines.
pub(super) struct JsonLines {
    pub(super) queue: NonBlocking,
    pub(super) redactor: Redactor,
    pub(super) payloads: bool,
}

impl JsonLines {
    fn line(&self, event: &Event<'_>, mut fields: Map<String, Value>) -> String {
        event.record(&mut LogFields(&mut fields));
        correlate(&mut fields);
        let meta = event.metadata();
        let mut line = Map::new();
        line.insert("timestamp".into(), Clock::system().now().to_rfc3339().into());
        line.insert("level".into(), meta.level().as_str().into());
        line.insert("target".into(), meta.target().into());
        for key in FIXED {
            line.insert(key.into(), fields.shift_remove(key).unwrap_or_default());
        }
        if let Some(message) = fields.shift_remove("message") {
            line.insert("message".into(), message);
        }
        if !self.payloads {
            fields.retain(|key, _| !PAYLOADS.contains(&key.as_str()));
        }
        line.extend(fields);
        // Redact each string before it is escaped: a secret that contains a quote would not be
        // found in the serialized line.
        for value in line.values_mut() {
            if let Some(masked) = self.redactor.redact_json(value) {
                *value = masked;
            }
        }
        let mut text = base::text::json::compact(&line);
        text.push('\n');
        text
    }
}

/// Adds correlation ids: `call-7` for records of one call, with its session as parent; `files#2`
/// for records of the second session of server `files`.
fn correlate(fields: &mut Map<String, Value>) {
    let text = |key: &str| {
        fields.get(key).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned))
    };
    let call = text("request_id").map(|id| format!("call-{id}"));
    let session =
        text("session_id").zip(text("server")).map(|(id, server)| format!("{server}#{id}"));
    let (own, parent) = if call.is_some() { (call, session) } else { (session, None) };
    for (key, value) in [("correlation_id", own), ("parent_id", parent)] {
        if let Some(value) = value {
            fields.entry(key).or_insert_with(|| value.into());
        }
    }
}

impl<S> Layer<S> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if let Some(span) = context.span(id) {
            let mut fields = Map::new();
            attributes.record(&mut LogFields(&mut fields));
            span.extensions_mut().insert(SpanFields(fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<SpanFields>()
        {
            values.record(&mut LogFields(&mut fields.0));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Map::new();
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(own) = span.extensions().get::<SpanFields>() {
                fields.extend(own.0.clone());
            }
        }
        let line = self.line(event, fields);
        // The queue drops and counts lines when the disk is slow.
        let _ = self.queue.clone().write_all(line.as_bytes());
    }
}

struct SpanFields(Map<String, Value>);

struct LogFields<'a>(&'a mut Map<String, Value>);

impl LogFields<'_> {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for LogFields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if PAYLOADS.contains(&field.name()) {
            self.put(field, serde_json::from_str::<Value>(value).unwrap_or_else(|_| value.into()));
            return;
        }
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
}
