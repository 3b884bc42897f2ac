//! Streamable HTTP through rmcp's worker, with our own client under it and our own wire beside it.
//!
//! The worker decodes what it is given and would lose what it does not know. So it is given
//! stand-ins that carry the id alone; the raw results and requests wait here and take their place
//! again when the worker hands the stand-in on.

mod client;
mod events;
mod post;
mod tls;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use parking_lot::{Mutex, MutexGuard};
use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, CustomRequest, GetExtensions, ListToolsResult, RequestId,
    ServerJsonRpcMessage, ServerRequest, ServerResult, Tool,
};
use rmcp::transport::Transport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig, StreamableHttpError,
};
use serde_json::Value;
use tokio::sync::watch;

use crate::config::HttpConfig;
use crate::mcp::wire::tap::{Delivery, Expects, Tap};

pub use client::{HttpClient, HttpFailure, describe};

/// rmcp's transport over Streamable HTTP.
pub struct Http {
    tap: Arc<Tap>,
    held: Arc<Held>,
    inner: StreamableHttpClientTransport<HttpClient>,
}

/// What waits for its stand-in, and what is known of the server.
#[derive(Debug)]
pub struct Held {
    state: Mutex<State>,
    /// Whether the standalone stream of a legacy session is open, or refused.
    stream: watch::Sender<Stream>,
}

#[derive(Debug, Default)]
struct State {
    results: HashMap<i64, ServerResult>,
    requests: HashMap<RequestId, CustomRequest>,
    unauthorized: bool,
}

/// The standalone stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    /// There is no session that would have one.
    None,
    /// There is a session, and the stream is being opened.
    Awaited,
    /// Open, or refused.
    Settled,
}

impl Http {
    /// Requests that may be under way at once; rmcp's 16 would let the 17th long call wait.
    const CONCURRENT: usize = 1024;
    /// Longest pause before a broken stream is opened again.
    const LONGEST_PAUSE: Duration = Duration::from_secs(30);

    /// A transport to the server of `config`.
    ///
    /// # Errors
    /// A header that is none, or a TLS setup that fails.
    pub fn new(tap: &Arc<Tap>, config: &HttpConfig) -> Result<(Self, Arc<Held>), HttpFailure> {
        let held =
            Arc::new(Held { state: Mutex::default(), stream: watch::channel(Stream::None).0 });
        let client = HttpClient::new(Arc::clone(tap), Arc::clone(&held), &config.url)?;
        let mut retry = ExponentialBackoff::default();
        retry.max_delay = Some(Self::LONGEST_PAUSE);
        let mut worker = StreamableHttpClientTransportConfig::with_uri(config.url.as_str())
            .max_concurrent_requests(Self::CONCURRENT);
        worker.custom_headers = headers(config)?;
        worker.retry_config = Arc::new(retry);
        worker.max_sse_event_size = tap.context.limits.line_bytes;
        let inner = StreamableHttpClientTransport::with_client(client, worker);
        Ok((Self { tap: Arc::clone(tap), held: Arc::clone(&held), inner }, held))
    }
}

fn headers(config: &HttpConfig) -> Result<HashMap<HeaderName, HeaderValue>, HttpFailure> {
    let bad = |name: &str, what: &str| HttpFailure::plain(format!("header `{name}`: {what}"));
    let mut out = HashMap::new();
    for (name, value) in &config.headers {
        let key: HeaderName = name.parse().map_err(|_| bad(name, "the name is not allowed"))?;
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| bad(name, "the value holds characters that are not allowed"))?;
        value.set_sensitive(true);
        out.insert(key, value);
    }
    Ok(out)
}

impl Held {
    /// Whether the server asked for authorisation.
    pub fn is_unauthorized(&self) -> bool {
        self.state().unauthorized
    }

    fn unauthorized(&self) {
        self.state().unauthorized = true;
    }

    fn session_began(&self) {
        self.stream.send_if_modified(|stream| {
            let first = *stream == Stream::None;
            if first {
                *stream = Stream::Awaited;
            }
            first
        });
    }

    fn stream_settled(&self) {
        self.stream.send_replace(Stream::Settled);
    }

    /// Waits a moment until the standalone stream is open: what a legacy server sends on it before
    /// that is lost for ever, and the call that waits for it hangs.
    pub async fn ready(&self) {
        const PATIENCE: Duration = Duration::from_millis(300);
        let mut stream = self.stream.subscribe();
        let settled = stream.wait_for(|stream| *stream != Stream::Awaited);
        let _ = tokio::time::timeout(PATIENCE, settled).await;
    }

    /// Keeps what a message carries and gives the stand-in for it.
    fn stand_in(&self, delivery: Delivery) -> ServerJsonRpcMessage {
        match delivery.message {
            ServerJsonRpcMessage::Response(mut response) => {
                if let (RequestId::Number(id), Expects::Raw | Expects::Listen | Expects::Tools) =
                    (&response.id, delivery.expects)
                {
                    let stand_in = match (&response.result, delivery.expects) {
                        (ServerResult::CustomResult(raw), Expects::Tools) => tools(&raw.0),
                        _ => ServerResult::empty(()),
                    };
                    let raw = std::mem::replace(&mut response.result, stand_in);
                    self.state().results.insert(*id, raw);
                }
                ServerJsonRpcMessage::Response(response)
            }
            ServerJsonRpcMessage::Request(mut request) => {
                if let ServerRequest::CustomRequest(raw) = &mut request.request {
                    let stand_in = CustomRequest::new("mcpdeck/held", None);
                    let raw = std::mem::replace(raw, stand_in);
                    self.state().requests.insert(request.id.clone(), raw);
                }
                ServerJsonRpcMessage::Request(request)
            }
            other => other,
        }
    }

    /// Puts back what a stand-in stands for.
    fn restore(&self, message: ServerJsonRpcMessage) -> ServerJsonRpcMessage {
        match message {
            ServerJsonRpcMessage::Response(mut response) => {
                if let RequestId::Number(id) = response.id
                    && let Some(raw) = self.state().results.remove(&id)
                {
                    response.result = raw;
                }
                ServerJsonRpcMessage::Response(response)
            }
            ServerJsonRpcMessage::Request(mut request) => {
                if let Some(mut raw) = self.state().requests.remove(&request.id) {
                    // Which stream it came on is known to the worker alone.
                    raw.extensions.extend(std::mem::take(request.request.extensions_mut()));
                    request.request = ServerRequest::CustomRequest(raw);
                }
                ServerJsonRpcMessage::Request(request)
            }
            other => other,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

/// A page of tools as the worker needs it, to make headers of annotated arguments; tools it cannot
/// decode have none.
fn tools(raw: &Value) -> ServerResult {
    let tools: Vec<Tool> = raw
        .get("tools")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(|tool| serde_json::from_value(tool.clone()).ok())
        .collect();
    ServerResult::ListToolsResult(ListToolsResult::with_all_items(tools))
}

impl Transport<RoleClient> for Http {
    type Error = StreamableHttpError<HttpFailure>;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let body = serde_json::to_vec(&item);
        if let Ok(body) = &body {
            self.tap.sending(&item, body);
        }
        let id = match &item {
            ClientJsonRpcMessage::Request(request) => Some(request.id.clone()),
            _ => None,
        };
        let sent = self.inner.send(item);
        let tap = Arc::clone(&self.tap);
        async move {
            let result = sent.await;
            if let (Err(_), Some(RequestId::Number(id))) = (&result, id) {
                tap.unsent(id);
            }
            result
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        let Some(message) = self.inner.receive().await else {
            self.tap.ended("the HTTP connection ended");
            return None;
        };
        if let ServerJsonRpcMessage::Error(error) = &message
            && let Some(RequestId::Number(id)) = error.id
        {
            // Errors of the worker itself: the stream of the answer ended without it.
            self.tap.failed_below(id, &error.error.message);
        }
        Some(self.held.restore(message))
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}
