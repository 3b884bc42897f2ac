//! The HTTP client under rmcp's worker: reqwest with rustls and ring, and errors spelled out.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Once};
use std::time::Duration;

use futures::stream::BoxStream;
use http::header::{ACCEPT, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};
use parking_lot::{Mutex, MutexGuard};
use reqwest::redirect::Policy;
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, SseError, StreamableHttpClient, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::{Held, events, tls};
use crate::base::allowance::Allowance;
use crate::base::text::SafeText;
use crate::mcp::transport::unasked::Unasked;
use crate::mcp::wire::exchange::cut;
use crate::mcp::wire::tap::{Delivery, Tap};

pub(super) type Failed = StreamableHttpError<HttpFailure>;
pub(super) const BOTH: &str = "application/json, text/event-stream";
pub(super) const SESSION: &str = "mcp-session-id";
const LAST_EVENT: &str = "last-event-id";

/// What went wrong with a request, in words.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct HttpFailure(Cow<'static, str>);

impl HttpFailure {
    /// A failure described by `text`.
    pub fn plain(text: impl Into<Cow<'static, str>>) -> Self {
        Self(text.into())
    }
}

/// An error of the transport in its own words.
pub fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<Failed>() {
        Some(StreamableHttpError::Client(failure)) => failure.to_string(),
        Some(StreamableHttpError::AuthRequired(_)) => {
            "the server asks for authorisation (HTTP 401)".to_owned()
        }
        _ => error.to_string(),
    }
}

impl From<HttpFailure> for Failed {
    fn from(failure: HttpFailure) -> Self {
        StreamableHttpError::Client(failure)
    }
}

/// The client; clones share connections.
#[derive(Clone)]
pub struct HttpClient {
    pub(super) http: reqwest::Client,
    pub(super) tap: Arc<Tap>,
    pub(super) held: Arc<Held>,
    pace: Arc<Mutex<Pace>>,
}

/// How fast a server may make the host work, all streams of its session together.
struct Pace {
    unasked: Unasked,
    /// Streams that may be opened: a server that closes each at once, with `retry: 0` or by
    /// breaking it, is asked for the next one as fast as it does that.
    streams: Allowance,
}

impl Pace {
    /// Streams a second, in the long run and at once. Servers that answer by polling (2025-11-25,
    /// `retry`) close one per call every few hundred milliseconds.
    const STREAMS: (f64, f64) = (50.0, 100.0);
}

impl HttpClient {
    pub(super) fn new(tap: Arc<Tap>, held: Arc<Held>, url: &url::Url) -> Result<Self, HttpFailure> {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            // Fails only when the application installed one before: then that one is used.
            let _ = rustls::crypto::ring::default_provider().install_default();
        });
        let local = match url.host() {
            Some(url::Host::Domain(name)) => name == "localhost",
            Some(url::Host::Ipv4(ip)) => ip.is_loopback(),
            Some(url::Host::Ipv6(ip)) => ip.is_loopback(),
            None => false,
        };
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("mcpdeck/", env!("CARGO_PKG_VERSION")))
            .tcp_nodelay(true)
            .redirect(Policy::custom(same_origin));
        if local {
            // Servers without TCP_NODELAY cost 40 ms on a kept connection; a new one is cheap here.
            builder = builder.pool_max_idle_per_host(0).no_proxy();
        }
        let http = builder
            .build()
            .map_err(|error| HttpFailure::plain(format!("HTTP cannot be set up: {error}")))?;
        let streams = Allowance::new(Pace::STREAMS.0, Pace::STREAMS.1);
        let pace = Arc::new(Mutex::new(Pace { unasked: Unasked::default(), streams }));
        Ok(Self { http, tap, held, pace })
    }

    /// Shows a message to the tap; gives how many bytes of it were an answer.
    pub(super) fn show(&self, text: &[u8], out: &mut VecDeque<Delivery>) -> usize {
        // The tap counts for the whole connection: one stream after the other.
        let _turn = self.pace();
        self.tap.line(text, out);
        self.tap.take_answered()
    }

    /// So many bytes came that nobody asked for; gives how long to wait before more is read.
    pub(super) fn spend(&self, unasked: usize) -> Option<Duration> {
        // What was asked for does not wait for what another stream has used up.
        if unasked == 0 { None } else { self.pace().unasked.spend(unasked, &self.tap) }
    }

    /// Waits for its turn to open a stream.
    async fn may_open(&self) {
        let pause = self.pace().streams.spend(1.0);
        if let Some(pause) = pause {
            tokio::time::sleep(pause).await;
        }
    }

    fn pace(&self) -> MutexGuard<'_, Pace> {
        self.pace.lock()
    }

    /// Sends a request and notes its status.
    pub(super) async fn run(
        &self,
        request: reqwest::RequestBuilder,
        headers: HashMap<HeaderName, HeaderValue>,
        session: Option<&str>,
    ) -> Result<reqwest::Response, Failed> {
        let mut request = request;
        for (name, value) in headers {
            if ["accept", SESSION, LAST_EVENT].contains(&name.as_str()) {
                return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
            }
            request = request.header(name, value);
        }
        if let Some(session) = session {
            request = request.header(SESSION, session);
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        self.tap.context.seen.status(response.status().as_u16());
        if response.status() == StatusCode::UNAUTHORIZED {
            self.held.unauthorized();
            let challenge = response.headers().get(WWW_AUTHENTICATE);
            let challenge = challenge.and_then(|value| value.to_str().ok()).unwrap_or_default();
            return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(
                challenge.to_owned(),
            )));
        }
        Ok(response)
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failed {
        // reqwest's own words stop at "error sending request"; the cause is what helps.
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let what = if error.is_connect() {
            "cannot connect"
        } else if error.is_redirect() {
            "not followed"
        } else if error.is_timeout() {
            "timed out"
        } else {
            "the request failed"
        };
        let cause = cause.to_string();
        let text = match tls::explain(&cause) {
            Some(told) => format!("{what}: {told} ({cause})"),
            None => format!("{what}: {cause}"),
        };
        let text = self.tap.context.redactor.redact(&text);
        HttpFailure::plain(SafeText::line(&text).to_string()).into()
    }

    /// The error for a status that is no success.
    pub(super) fn refused(&self, response: &reqwest::Response, body: &str, posted: bool) -> Failed {
        let status = response.status();
        let mut text = format!("the server answered HTTP {status}");
        if let Some(after) = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()) {
            text += " (retry after ";
            text += cut(after, 64);
            text += ")";
        }
        if posted && matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
            text += "; the path of the endpoint may be another (often /mcp), or the server speaks \
                     only HTTP+SSE of 2024-11-05, which is not supported";
        }
        let body = cut(body.trim(), 200);
        // A page for a browser says no more than the status.
        if !body.is_empty() && !body.starts_with('<') {
            text += ": ";
            text += body;
        }
        let text = self.tap.context.redactor.redact(&text);
        HttpFailure::plain(SafeText::line(&text).to_string()).into()
    }
}

/// Follows redirects within the origin only: the headers hold secrets. And only those that keep the
/// request as it is (RFC 9110, section 15.4): a message that becomes a GET is lost without a word.
fn same_origin(attempt: reqwest::redirect::Attempt<'_>) -> reqwest::redirect::Action {
    const MOST: usize = 5;
    let first = attempt.previous().first().map(url::Url::origin);
    if attempt.previous().len() > MOST {
        return attempt.error("too many redirects");
    }
    let origin = attempt.url().origin();
    if first.as_ref() != Some(&origin) {
        let text = format!("a redirect to another origin, {}", origin.ascii_serialization());
        return attempt.error(text);
    }
    let keeps = [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT];
    if !keeps.contains(&attempt.status()) {
        let text = format!("HTTP {} would send it without its message", attempt.status());
        return attempt.error(text);
    }
    attempt.follow()
}

impl StreamableHttpClient for HttpClient {
    type Error = HttpFailure;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let _ = auth_header;
        self.post(&uri, message, session_id, custom_headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let _ = auth_header;
        let request = self.http.delete(uri.as_ref());
        self.run(request, custom_headers, Some(&session_id)).await.map(|_| ())
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        let _ = auth_header;
        self.may_open().await;
        let mut request = self.http.get(uri.as_ref()).header(ACCEPT, "text/event-stream");
        if let Some(last) = last_event_id {
            request = request.header(LAST_EVENT, last);
        }
        let response = self.run(request, custom_headers, session_id.as_deref()).await;
        self.held.stream_settled();
        let response = response?;
        if response.status() == StatusCode::METHOD_NOT_ALLOWED {
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        if !response.status().is_success() {
            return Err(self.refused(&response, "", false));
        }
        Ok(events::stream(response, self.clone(), None))
    }
}
