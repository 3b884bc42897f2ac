//! Sends records to an OpenTelemetry collector (OTLP over HTTP, JSON): spans and log records. Nobody
//! waits for the collector: what does not fit into the queue is dropped and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use url::Url;

use base::{SafeText, Secret};
use config::Environment;
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

impl OtlpSignal {
    const fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Logs => "v1/logs",
        }
    }

    /// Its word in the names of variables.
    const fn word(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Logs => "LOGS",
        }
    }
}

/// A collector, and how records are sent to it.
#[derive(Clone, Debug, PartialEq)]
pub struct OtlpSettings {
    signal: OtlpSignal,
    /// Where they are posted.
    address: Url,
    headers: Vec<(String, Secret)>,
    timeout: Duration,
}

impl OtlpSettings {
    /// Timeout of requests, where nobody says another.
    const COLLECTOR_TIMEOUT: Duration = Duration::from_secs(10);

    /// A collector such as `http://127.0.0.1:4318`, to which nothing else is told.
    ///
    /// # Errors
    /// When it is no address of HTTP.
    pub fn new(collector: &Url, signal: OtlpSignal) -> Result<Self, String> {
        if !matches!(collector.scheme(), "http" | "https") {
            return Err("write the address of a collector: http://HOST:PORT".to_owned());
        }
        let mut address = collector.clone();
        let path = address.path().trim_end_matches('/').to_owned();
        if !path.ends_with(signal.path()) {
            address.set_path(&format!("{path}/{}", signal.path()));
        }
        Ok(Self { signal, address, headers: Vec::new(), timeout: Self::COLLECTOR_TIMEOUT })
    }

    /// What the variables `OTEL_EXPORTER_OTLP_...` say: headers and timeout, and the address where
    /// `collector` is none. One of the signal goes before the general one
    /// (`OTEL_EXPORTER_OTLP_TRACES_HEADERS`).
    ///
    /// # Errors
    /// The variable that is missing or cannot be followed; never its value.
    pub fn from_environment(
        collector: Option<&Url>,
        signal: OtlpSignal,
        environment: &Environment,
    ) -> Result<Self, String> {
        let variable = |end: &str| {
            let names = [format!("{}_{end}", signal.word()), end.to_owned()];
            names.into_iter().find_map(|name| {
                let name = format!("OTEL_EXPORTER_OTLP_{name}");
                let value = environment.vars.get(&name)?.clone();
                (!value.expose().trim().is_empty()).then_some((name, value))
            })
        };
        if let Some((name, protocol)) = variable("PROTOCOL")
            && protocol.expose().trim() != "http/json"
        {
            return Err(format!("{name}: records are sent as http/json alone"));
        }
        let mut settings = if let Some(collector) = collector {
            Self::new(collector, signal)?
        } else {
            let none = "no address: give one, or set OTEL_EXPORTER_OTLP_ENDPOINT";
            let (name, text) = variable("ENDPOINT").ok_or(none)?;
            let wrong = || format!("{name}: the address of a collector is expected");
            let url = Url::parse(text.expose().trim()).map_err(|_| wrong())?;
            let mut settings = Self::new(&url, signal).map_err(|_| wrong())?;
            // That of a signal is the whole address.
            if name.contains(signal.word()) {
                settings.address = url;
            }
            settings
        };
        if let Some((name, text)) = variable("TIMEOUT") {
            let millis = text.expose().trim().parse().ok().filter(|millis| *millis > 0);
            let millis = millis.ok_or_else(|| format!("{name}: milliseconds are expected"))?;
            settings.timeout = Duration::from_millis(millis);
        }
        if let Some((name, text)) = variable("HEADERS") {
            for pair in text.expose().split(',').filter(|pair| !pair.trim().is_empty()) {
                let (key, value) =
                    pair.split_once('=').ok_or(format!("{name}: KEY=VALUE,... is expected"))?;
                settings = settings
                    .header(key.trim(), decoded(value.trim()))
                    .map_err(|why| format!("{name}: {why}"))?;
            }
        }
        Ok(settings)
    }

    /// With a header, in place of one of the same name.
    ///
    /// # Errors
    /// When it cannot be a header, or is one that requests have anyway.
    pub fn header(mut self, name: &str, value: Secret) -> Result<Self, String> {
        const OWN: [&str; 5] =
            ["content-length", "content-type", "host", "connection", "transfer-encoding"];
        let name = name.to_ascii_lowercase();
        let is_name = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
        let is_text = value.expose().bytes().all(|b| b == b'\t' || (b >= b' ' && b != 0x7f));
        if name.is_empty() || !name.bytes().all(is_name) || OWN.contains(&&*name) || !is_text {
            return Err(format!("`{}` cannot be a header", SafeText::cut(&name, 60)));
        }
        self.headers.retain(|(known, _)| *known != name);
        self.headers.push((name, value));
        Ok(self)
    }
}

/// A value of `OTEL_EXPORTER_OTLP_HEADERS`, which is percent-encoded; a plus is one.
fn decoded(value: &str) -> Secret {
    let pair = format!("value={}", value.replace('&', "%26").replace('+', "%2B"));
    let value = url::form_urlencoded::parse(pair.as_bytes()).next();
    Secret::new(value.map(|(_, value)| value.into_owned()).unwrap_or_default())
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
}

#[derive(Debug)]
struct QueueState {
    queued: AtomicU64,
    dropped: AtomicU64,
    /// Whether the program ends: there are no pauses any more, and no request is made twice.
    hurry: watch::Sender<bool>,
}

impl OtlpQueue {
    /// Exports to a collector. Must be called in a Tokio runtime.
    ///
    /// # Errors
    /// When the settings cannot be used, or there is no runtime.
    #[cfg(feature = "http")]
    pub fn to(settings: OtlpSettings) -> Result<Self, String> {
        let OtlpSettings { signal, address, headers, timeout } = settings;
        let runtime = tokio::runtime::Handle::try_current().map_err(|error| error.to_string())?;
        let mut all = reqwest::header::HeaderMap::new();
        for (name, value) in &headers {
            let name = reqwest::header::HeaderName::try_from(name.as_str());
            let value = reqwest::header::HeaderValue::try_from(value.expose());
            let (Ok(name), Ok(mut value)) = (name, value) else {
                return Err("a header for the collector cannot be sent".to_owned());
            };
            value.set_sensitive(true);
            all.insert(name, value);
        }
        let http = client_builder(&address, &TlsConfig::default())?
            .redirect(reqwest::redirect::Policy::none())
            .default_headers(all)
            .timeout(timeout)
            .build()
            .map_err(|error| error.to_string())?;
        let (records, queue) = mpsc::channel(RECORD_CAPACITY);
        let (done, finished) = watch::channel(0);
        let shared = Arc::new(QueueState {
            queued: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            hurry: watch::Sender::new(false),
        });
        let export =
            OtlpExport { http, address, signal, shared: Arc::clone(&shared), done, failing: false };
        runtime.spawn(export.run(queue));
        Ok(Self { records, shared, done: finished })
    }

    /// Nothing is sent without HTTP.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "http"))]
    pub fn to(_: OtlpSettings) -> Result<Self, String> {
        Err("this program was built without HTTP (the feature `http` of mcpdeck)".to_owned())
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
    address: Url,
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
        let response =
            self.http.post(self.address.clone()).json(body).send().await.map_err(plain)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(vars: &[(&str, &str)]) -> Environment {
        let vars = vars.iter().map(|(end, value)| {
            (format!("OTEL_EXPORTER_OTLP_{end}"), Secret::new((*value).to_owned()))
        });
        Environment { vars: vars.collect(), ..Environment::default() }
    }

    fn settings(signal: OtlpSignal, vars: &[(&str, &str)]) -> Result<OtlpSettings, String> {
        OtlpSettings::from_environment(None, signal, &environment(vars))
    }

    #[test]
    fn variables_are_followed_that_of_the_signal_first() {
        use OtlpSignal::{Logs, Traces};
        let general = ("ENDPOINT", "https://collector.example/otlp/");
        let own = ("LOGS_ENDPOINT", "https://logs.example/in");
        let address =
            |signal, vars: &[_]| settings(signal, vars).expect("good").address.to_string();
        assert_eq!(address(Traces, &[general, own]), "https://collector.example/otlp/v1/traces");
        assert_eq!(address(Logs, &[general, own]), "https://logs.example/in");
        let named: Url = "http://127.0.0.1:4318/v1/logs".parse().expect("an address");
        let vars = environment(&[general, ("TIMEOUT", "250"), ("PROTOCOL", "http/json")]);
        let named = OtlpSettings::from_environment(Some(&named), Logs, &vars).expect("good");
        assert_eq!(named.address.as_str(), "http://127.0.0.1:4318/v1/logs");
        assert_eq!(named.timeout, Duration::from_millis(250));

        let all = ("HEADERS", "a=1, Authorization = Basic%20YTpi+w==&x%2C,,");
        let headers = |signal, vars: &[_]| {
            let headers = settings(signal, vars).expect("good").headers;
            headers.iter().map(|(k, v)| format!("{k}: {}", v.expose())).collect::<Vec<_>>()
        };
        let both = ["a: 1", "authorization: Basic YTpi+w==&x,"];
        assert_eq!(headers(Traces, &[general, all]), both);
        assert_eq!(headers(Logs, &[general, all, ("LOGS_HEADERS", "b=2")]), ["b: 2"]);
        assert_eq!(headers(Logs, &[general, all, ("LOGS_HEADERS", " ")]), both, "empty is unset");
    }

    #[test]
    fn what_cannot_be_followed_is_named_without_its_value() {
        let good = ("ENDPOINT", "http://127.0.0.1:4318");
        for (end, value) in [
            ("PROTOCOL", "grpc"),
            ("TRACES_PROTOCOL", "http/protobuf"),
            ("TIMEOUT", "soon"),
            ("TIMEOUT", "0"),
            ("HEADERS", "hunter2"),
            ("HEADERS", "authorization=a%0d%0ahunter2"),
            ("HEADERS", "bad name=hunter2"),
            ("HEADERS", "Host=hunter2.example"),
            ("TRACES_ENDPOINT", "hunter2"),
            ("TRACES_ENDPOINT", "ftp://hunter2"),
        ] {
            let refused = settings(OtlpSignal::Traces, &[good, (end, value)]).expect_err(value);
            assert!(refused.contains(&format!("OTEL_EXPORTER_OTLP_{end}")), "{refused}");
            assert!(!refused.contains("hunter2"), "{refused}");
        }
        let none = settings(OtlpSignal::Logs, &[]).expect_err("no address");
        assert!(none.contains("OTEL_EXPORTER_OTLP_ENDPOINT"), "{none}");
        assert!(
            !format!("{:?}", settings(OtlpSignal::Logs, &[good, ("HEADERS", "a=hunter2")]))
                .contains("hunter2")
        );
    }
}
