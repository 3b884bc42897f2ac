//! Models of providers over HTTP: one request, one event stream, retries of transient faults.
//!
//! The wire formats are implemented here instead of with `genai` (tested: 0.7.2), which enables
//! `gzip` and `http2` in reqwest for the whole program, so that the client of MCP servers would
//! decompress without our limits, and `test-util` in tokio; reports a truncated Gemini stream as
//! complete; loses Anthropic events when CR and LF arrive in separate chunks; prints the request in
//! its errors; and adds 21 packages.

mod anthropic;
mod gemini;
mod offer;
mod openai;
mod wire;

use std::time::Duration;

use futures::StreamExt as _;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Response, StatusCode};
use serde_json::Value;

use crate::context;
use crate::fence::{self, Fence};
use crate::llm::{
    ChatMessage, Delta, LanguageModel, LlmError, LlmErrorKind, ModelPrice, ModelPrompt, ModelReply,
    OnDelta, PendingReply, Stop,
};
use base::address::is_loopback;
use base::secret::Redactor;
use base::text::SafeText;
use config::TlsConfig;
use mcp::{SseEvents, client_builder, unreachable_reason};
use offer::ToolOffer;
use wire::{Fault, ProviderRequest, ReplyReader};
pub use wire::{Provider, RemoteConfig};

/// A model of a provider, reached over HTTP.
#[derive(Debug)]
pub struct ProviderModel {
    config: RemoteConfig,
    http: reqwest::Client,
    redactor: Redactor,
    offer: ToolOffer,
}

impl ProviderModel {
    /// Longest retry delay that a provider may ask for; a longer one is reported as an error.
    const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(60);
    /// Upper bound for the configured number of attempts.
    const MAX_ATTEMPTS: u32 = 4;
    /// Limit for reading the body of an error response, in bytes.
    const MAX_ERROR_BYTES: usize = 64 << 10;
    /// Maximum size of an event in an answer, in bytes.
    const MAX_EVENT_BYTES: usize = 8 << 20;

    /// Creates a model from its configuration.
    ///
    /// # Errors
    /// When the key would be sent unencrypted, or the address cannot be used.
    pub fn new(config: RemoteConfig) -> Result<Self, String> {
        let url = &config.base_url;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("the address of the model must begin with http:// or https://".to_owned());
        }
        if url.scheme() == "http" && config.key.is_some() && !is_loopback(url) {
            let host = SafeText::line(url.host_str().unwrap_or_default());
            return Err(format!("the key would travel unencrypted to {host}: use https"));
        }
        let builder = client_builder(url, &TlsConfig::default())?;
        // No redirects: the key must only be sent to the configured address.
        let http = builder.redirect(reqwest::redirect::Policy::none()).build();
        let http = http.map_err(|error| error.to_string())?;
        let redactor = Redactor::new(config.key.clone());
        let offer = ToolOffer::new(config.tool_format());
        Ok(Self { config, http, redactor, offer })
    }

    fn reader(&self) -> Box<dyn ReplyReader> {
        match self.config.provider {
            Provider::Gemini => Box::<gemini::GeminiReader>::default(),
            Provider::Anthropic => Box::<anthropic::AnthropicReader>::default(),
            _ => Box::<openai::OpenAiReader>::default(),
        }
    }

    fn error(&self, fault: Fault, tokens: u64, attempts: u32) -> LlmError {
        let message = SafeText::cut(&self.redactor.redact(&fault.message), 400);
        LlmError { kind: fault.kind, model: self.config.model.clone(), message, tokens, attempts }
    }

    async fn send(&self, outgoing: &ProviderRequest) -> Result<Response, Fault> {
        let base = self.config.base_url.as_str().trim_end_matches('/');
        let mut headers = HeaderMap::new();
        for (name, value) in &outgoing.headers {
            let mut value = HeaderValue::from_str(value).map_err(|_| {
                let message = "the key holds characters that a header cannot";
                Fault::new(LlmErrorKind::Unauthorized, message)
            })?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        let request = self.http.post(format!("{base}{}", outgoing.path)).headers(headers);
        let sent = tokio::time::timeout(self.config.idle, request.json(&outgoing.body).send());
        let silent = |_| Fault::new(LlmErrorKind::Timeout, "no answer in time");
        let response = sent.await.map_err(silent)?.map_err(|error| {
            let why = unreachable_reason(&error, &self.redactor);
            Fault::new(LlmErrorKind::Unreachable, why)
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(response).await)
    }

    /// Converts an error response to a fault.
    async fn refusal(&self, response: Response) -> Fault {
        let status = response.status();
        let header = |name: &str| response.headers().get(name)?.to_str().ok()?.parse::<f64>().ok();
        let seconds = header("retry-after-ms").map(|ms| ms / 1_000.0).or(header("retry-after"));
        let mut bytes = Vec::new();
        let mut body = response.bytes_stream();
        while let Ok(Some(Ok(chunk))) = tokio::time::timeout(self.config.idle, body.next()).await {
            bytes.extend_from_slice(&chunk);
            if bytes.len() > Self::MAX_ERROR_BYTES {
                break;
            }
        }
        let value: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        // Gemini wraps an error that replaces a stream in a list.
        let error = value.get("error").or_else(|| value.get(0)?.get("error"));
        let mut fault = Fault::reported(Some(status.as_u16()), error.unwrap_or(&Value::Null));
        let reason = status.canonical_reason().unwrap_or_default();
        let number = status.as_u16();
        fault.message = match fault.message.as_str() {
            "" => format!("the provider answered HTTP {number} {reason}"),
            text => format!("HTTP {number}: {text}"),
        };
        if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
            let asked = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            fault.after = asked.or(fault.after);
        }
        fault
    }

    /// Makes one attempt.
    async fn once(&self, outgoing: &ProviderRequest, on: OnDelta<'_>) -> Result<ModelReply, Fault> {
        let mut events = SseEvents::new(self.send(outgoing).await?, Self::MAX_EVENT_BYTES);
        let mut reader = self.reader();
        // The fence parser, and the text outside of its blocks.
        let mut fenced = self.config.fenced.then(|| (Fence::default(), String::new()));
        let mut reply = ModelReply::default();
        let malformed = |message: String| Fault::new(LlmErrorKind::Malformed, message);
        loop {
            let silent = |_| Fault::new(LlmErrorKind::Timeout, "the answer stopped coming");
            let more = tokio::time::timeout(self.config.idle, events.fill()).await;
            // A connection error only matters if the answer is incomplete, checked below.
            let Ok(1..) = more.map_err(silent)? else { break };
            while let Some(event) = events.next_complete() {
                if event.over.is_some() {
                    return Err(malformed("one event of the answer is too large".to_owned()));
                }
                if event.data.is_empty() || event.data.trim_ascii() == b"[DONE]" {
                    continue;
                }
                let data: Value = serde_json::from_slice(&event.data).map_err(|error| {
                    malformed(format!("an event of the answer is not JSON: {error}"))
                })?;
                if let Some(error) = data.get("error").filter(|error| !error.is_null()) {
                    return Err(Fault::reported(None, error));
                }
                reader.event(&data, &mut reply, &mut |delta| match (&mut fenced, delta) {
                    (Some((fence, said)), Delta::Text(text)) => {
                        let text = fence.push(&text);
                        said.push_str(&text);
                        if !text.is_empty() {
                            on(Delta::Text(text));
                        }
                    }
                    (_, delta) => on(delta),
                });
            }
        }
        if !reader.finish(&mut reply) {
            return Err(Fault::new(LlmErrorKind::Cut, "the answer was cut off"));
        }
        if let Some((mut fence, said)) = fenced {
            let rest = fence.finish();
            // Without the blocks: `in_blocks` adds them again to the history.
            (reply.text, reply.calls) = (said + &rest, fence.calls);
            if !rest.is_empty() {
                on(Delta::Text(rest));
            }
        }
        if reply.stop == Stop::Filtered && reply.text.is_empty() && reply.calls.is_empty() {
            let message = "the provider's content filter refused to answer";
            return Err(Fault::new(LlmErrorKind::Filtered, message));
        }
        Ok(reply)
    }

    async fn attempts(
        &self,
        prompt: &ModelPrompt,
        on: OnDelta<'_>,
    ) -> Result<ModelReply, LlmError> {
        let as_sent = || {
            if self.config.fenced { in_blocks(prompt) } else { self.offer.adapted(prompt) }
        };
        let mut sent = as_sent();
        let tokens = context::of_prompt(&sent);
        if let Some((tool, why)) = self.offer.excess(prompt).filter(|_| !self.config.fenced) {
            on(Delta::LeftOut { tool, why });
        }
        let request = match self.config.provider {
            Provider::Gemini => gemini::request,
            Provider::Anthropic => anthropic::request,
            _ => openai::request,
        };
        let mut outgoing = request(&self.config, &sent);
        let most = self.config.attempts.clamp(1, Self::MAX_ATTEMPTS);
        let mut attempt = 1;
        loop {
            let mut fault = match self.once(&outgoing, on).await {
                Ok(mut reply) => {
                    if !self.config.fenced {
                        self.offer.restore(&mut reply);
                    }
                    if reply.usage.input == 0 && reply.usage.output == 0 {
                        reply.usage.input = tokens;
                        reply.usage.output = context::of_reply(&reply);
                        reply.usage.is_estimate = true;
                    }
                    return Ok(reply);
                }
                Err(fault) => fault,
            };
            if fault.kind == LlmErrorKind::Refused
                && let Some(tool) = self.offer.leave_out(&sent, &fault.message)
            {
                let why = offer::left_out(&tool, &self.redactor.redact(&fault.message));
                tracing::warn!(target: "mcpdeck::chat", action = "tool left out", tool, "{why}");
                on(Delta::LeftOut { tool, why });
                // Each time with one tool less, so this ends.
                sent = as_sent();
                outgoing = request(&self.config, &sent);
                continue;
            }
            let growing = self.config.backoff * 2_u32.pow(attempt - 1);
            let after = fault.after.unwrap_or(growing.mul_f64(0.75 + fastrand::f64() / 2.0));
            if fault.passes && after > Self::MAX_RETRY_INTERVAL {
                let wait = after.as_secs();
                fault.message = format!("{}; it asks to wait {wait} s", fault.message);
                fault.passes = false;
            }
            if !fault.passes || attempt >= most {
                return Err(self.error(fault, tokens, attempt));
            }
            let why = SafeText::cut(&self.redactor.redact(&fault.message), 200);
            tracing::warn!(
                target: "mcpdeck::chat", action = "retry", model = %self.config.model, attempt,
                delay_ms = after.as_millis() as u64, "{why}"
            );
            on(Delta::Retry { attempt, after, why });
            tokio::time::sleep(after).await;
            attempt += 1;
        }
    }
}

impl LanguageModel for ProviderModel {
    fn name(&self) -> &str {
        &self.config.model
    }

    fn context(&self) -> u64 {
        self.config.context
    }

    fn price(&self) -> Option<ModelPrice> {
        self.config.price
    }

    fn is_fenced(&self) -> bool {
        self.config.fenced
    }

    fn reply<'a>(&'a self, prompt: &'a ModelPrompt, on: OnDelta<'a>) -> PendingReply<'a> {
        Box::pin(self.attempts(prompt, on))
    }
}

/// Converts a prompt for a text-only model: calls become blocks, and results user messages. The
/// system prompt already contains the definitions of the tools.
fn in_blocks(prompt: &ModelPrompt) -> ModelPrompt {
    let mut messages: Vec<ChatMessage> = Vec::new();
    for message in &prompt.messages {
        match message {
            ChatMessage::Assistant(reply) => {
                let mut text = reply.text.clone();
                for call in &reply.calls {
                    if !text.is_empty() && !text.ends_with('\n') {
                        text.push('\n');
                    }
                    text += &fence::written(call);
                }
                messages.push(ChatMessage::Assistant(ModelReply { text, ..ModelReply::default() }));
            }
            ChatMessage::Tool { name, text, is_error, .. } => {
                let how = if *is_error { "failed" } else { "gave" };
                let text = format!("The call of {name} {how}:\n{text}");
                match messages.last_mut() {
                    Some(ChatMessage::User { text: all }) => *all = format!("{all}\n\n{text}"),
                    _ => messages.push(ChatMessage::User { text }),
                }
            }
            user @ ChatMessage::User { .. } => messages.push(user.clone()),
        }
    }
    ModelPrompt { system: prompt.system.clone(), messages, tools: Vec::new() }
}
