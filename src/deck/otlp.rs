//! Sends records to an OpenTelemetry collector (OTLP over HTTP, JSON): spans and log records. Nobody
//! waits for the collector: what does not fit into the queue is dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use url::Url;

#[cfg(feature = "http")]
use config::TlsConfig;
#[cfg(feature = "http")]
use mcp::client_builder;

/// Capacity of the queue of records; further ones are dropped.
#[cfg(feature = "http")]
const RECORD_CAPACITY: usize = 4_096;
/// Maximum number of records per request.
#[cfg(feature = "http")]
const MAX_BATCH_RECORDS: usize = 512;
/// Pause between two requests, and before a request is repeated.
#[cfg(feature = "http")]
const EXPORT_INTERVAL: Duration = Duration::from_secs(2);
/// Timeout of requests to the collector.
#[cfg(feature = "http")]
const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the end of a program waits for the collector.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OtlpSignal {
    /// Spans, to `/v1/traces`.
    Traces,
    /// Log records, to `/v1/logs`.
    Logs,
}

#[cfg(feature = "http")]
impl OtlpSignal {
    const fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Logs => "v1/logs",
        }
    }

    /// The body of a request (OTLP 1.x, JSON Protobuf encoding).
    fn body(self, records: &[Value]) -> Value {
        let resource = json!({"attributes": [attribute("service.name", "mcpdeck")]});
        let scope = json!({"name": "mcpdeck"});
        match self {
            Self::Traces => json!({"resourceSpans": [{
                "resource": resource, "scopeSpans": [{"scope": scope, "spans": records}]}]}),
            Self::Logs => json!({"resourceLogs": [{
                "resource": resource, "scopeLogs": [{"scope": scope, "logRecords": records}]}]}),
        }
    }
}

/// A text attribute of a record.
pub fn attribute(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

/// A queue of records for a collector; clones share it. What is queued is sent in batches, a request
/// every two seconds at most. A request that cannot be made, or that the collector asks to repeat
/// (429, 502, 503, 504), is made again until it succeeds; meanwhile the queue may run full.
#[derive(Clone, Debug)]
pub struct OtlpQueue {
    records: mpsc::Sender<Value>,
    shared: Arc<QueueState>,
    /// How many records have left the queue for good, sent or given up.
    done: watch::Receiver<u64>,
    collector: Arc<str>,
}

#[derive(Debug)]
struct QueueState {
    queued: AtomicU64,
    dropped: AtomicU64,
    /// Whether the program ends: there are no pauses any more, and no request is made twice.
    hurry: watch::Sender<bool>,
}

impl OtlpQueue {
    /// Exports to a collector such as `http://127.0.0.1:4318`. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// When the address cannot be used, or there is no runtime.
    #[cfg(feature = "http")]
    pub fn to(collector: &Url, signal: OtlpSignal) -> Result<Self, String> {
        if !matches!(collector.scheme(), "http" | "https") {
            return Err("write the address of a collector: http://HOST:PORT".to_owned());
        }
        let runtime = tokio::runtime::Handle::try_current().map_err(|error| error.to_string())?;
        let base = collector.as_str().trim_end_matches('/');
        let http = client_builder(collector, &TlsConfig::default())?
            .redirect(reqwest::redirect::Policy::none())
            .timeout(COLLECTOR_TIMEOUT)
            .build()
            .map_err(|error| error.to_string())?;
        let (records, queue) = mpsc::channel(RECORD_CAPACITY);
        let (done, finished) = watch::channel(0);
        let shared = Arc::new(QueueState {
            queued: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            hurry: watch::Sender::new(false),
        });
        let export = OtlpExport {
            http,
            address: format!("{base}/{}", signal.path()),
            signal,
            shared: Arc::clone(&shared),
            done,
            failing: false,
        };
        runtime.spawn(export.run(queue));
        Ok(Self { records, shared, done: finished, collector: collector.as_str().into() })
    }

    /// Nothing is sent without HTTP.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "http"))]
    pub fn to(_: &Url, _: OtlpSignal) -> Result<Self, String> {
        Err("this program was built without HTTP (the feature `http` of mcpdeck)".to_owned())
    }

    /// The address of the collector.
    pub fn collector(&self) -> &str {
        &self.collector
    }

    /// Queues a record, or drops it when the queue is full. Never waits.
    pub fn send(&self, record: Value) {
        if self.records.try_send(record).is_ok() {
            self.shared.queued.fetch_add(1, Ordering::SeqCst);
        } else {
            self.shared.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How many records were dropped so far: the queue was full, or the collector refused them.
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::SeqCst)
    }

    /// Sends what is queued, before the program ends: for three seconds at most, and without trying
    /// twice.
    pub async fn flush(&self) {
        self.shared.hurry.send_replace(true);
        let queued = self.shared.queued.load(Ordering::SeqCst);
        let mut done = self.done.clone();
        let _ = tokio::time::timeout(FLUSH_TIMEOUT, done.wait_for(|done| *done >= queued)).await;
    }
}

/// The sending end of a queue.
#[cfg(feature = "http")]
struct OtlpExport {
    http: reqwest::Client,
    address: String,
    signal: OtlpSignal,
    shared: Arc<QueueState>,
    done: watch::Sender<u64>,
    failing: bool,
}

#[cfg(feature = "http")]
impl OtlpExport {
    async fn run(mut self, mut queue: mpsc::Receiver<Value>) {
        let mut batch: Vec<Value> = Vec::new();
        while queue.recv_many(&mut batch, MAX_BATCH_RECORDS).await > 0 {
            let records = std::mem::take(&mut batch);
            let body = self.signal.body(&records);
            loop {
                let sent = self.request(&body).await;
                self.report(sent.as_ref().err().map(|(why, _)| why.as_str()));
                let is_hurried = *self.shared.hurry.borrow();
                match sent {
                    Ok(()) => break,
                    Err((_, true)) if !is_hurried => self.pause().await,
                    Err(_) => {
                        self.shared.dropped.fetch_add(records.len() as u64, Ordering::SeqCst);
                        break;
                    }
                }
            }
            self.done.send_modify(|done| *done += records.len() as u64);
            self.pause().await;
        }
    }

    /// # Errors
    /// Why it failed, and whether it may be repeated.
    async fn request(&self, body: &Value) -> Result<(), (String, bool)> {
        let plain = |error: reqwest::Error| (error.without_url().to_string(), true);
        let response = self.http.post(&self.address).json(body).send().await.map_err(plain)?;
        let status = response.status();
        if status.is_success() {
            return Ok(());
        }
        Err((
            format!("the collector answered {status}"),
            matches!(status.as_u16(), 429 | 502..=504),
        ))
    }

    async fn pause(&self) {
        let mut hurry = self.shared.hurry.subscribe();
        let _ = tokio::time::timeout(EXPORT_INTERVAL, hurry.wait_for(|hurry| *hurry)).await;
    }

    /// Tells when sending begins to fail, and when it works again.
    fn report(&mut self, failure: Option<&str>) {
        let what = match self.signal {
            OtlpSignal::Traces => "traces",
            OtlpSignal::Logs => "audit events",
        };
        match failure {
            Some(why) if !self.failing => {
                tracing::warn!(target: "mcpdeck::otlp", "{what} are not exported: {why}");
            }
            None if self.failing => {
                let dropped = self.shared.dropped.load(Ordering::SeqCst);
                tracing::info!(target: "mcpdeck::otlp", dropped, "{what} are exported again");
            }
            _ => {}
        }
        self.failing = failure.is_some();
    }
}
