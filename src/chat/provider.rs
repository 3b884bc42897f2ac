//! Models of providers over HTTP: one request, one event stream, retries of transient faults.
//!
//! The wire formats are implemented here instead of with `genai` (tested: 0.7.2), which enables
//! `gzip` and `http2` in reqwest for the whole program, so that the client of MCP servers would
//! decompress without our limits, and `test-util` in tokio; reports a truncated Gemini stream as
//! complete; loses Anthropic events when CR and LF arrive in separate chunks; prints the request in
//! its errors; and adds 21 packages.

mod anthropic;
mod facts;
mod fault;
mod gemini;
mod halves;
mod inline;
mod offer;
mod ollama;
mod openai;
mod responses;
mod wire;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use url::Url;

use crate::context;
use crate::fence::{self, Fence};
use crate::llm::{
    ChatMessage, Delta, LanguageModel, LlmError, LlmErrorKind, ModelPrice, ModelPrompt, ModelReply,
    OnDelta, PendingReply, Stop, TokenUsage,
};
use crate::media::{self, MediaRoom};
use base::address::is_loopback;
use base::secret::Redactor;
use base::text::{SafeText, likeness};
use config::TlsConfig;
use facts::{ASSUMED_CONTEXT_TOKENS, ModelFacts};
use fault::Fault;
use halves::EventReader;
use inline::InlineReasoning;
use mcp::{ResponseLines, SseEvents, client_builder, unreachable_reason};
use offer::ToolOffer;
pub use wire::{MediaKind, Provider, RemoteConfig, compatible_address};
use wire::{ProviderRequest, ReplyReader, RequestPlan};

/// A model of a provider, reached over HTTP.
#[derive(Debug)]
pub struct ProviderModel {
    config: RemoteConfig,
    http: reqwest::Client,
    redactor: Redactor,
    offer: ToolOffer,
    /// What was learned of the model; `None` until the provider could be asked.
    facts: Mutex<Option<ModelFacts>>,
    /// The context that Ollama was asked for last, in tokens.
    window: AtomicU64,
    /// The fields that the address has refused.
    refused: Mutex<BTreeSet<&'static str>>,
    /// Whether `OpenAI`'s Responses API is spoken, instead of Chat Completions.
    is_responses: AtomicBool,
    /// How much of pictures and sounds the provider takes in a request.
    media_room: Mutex<MediaRoom>,
}

/// The form in which a prompt is sent: after refusals, with less.
#[derive(Clone, Copy, Debug)]
struct SentForm {
    is_fenced: bool,
    /// Whether what the provider signed is left out.
    drops_state: bool,
    /// The pictures and sounds that are sent.
    media: MediaRoom,
    /// The size of the pictures and sounds of a request that was too large.
    too_large: Option<usize>,
}

/// The events of an answer as they come.
enum AnswerStream {
    Events(SseEvents),
    /// A JSON value on each line.
    Lines(ResponseLines),
    /// A body that is one JSON value, and what has come of it.
    Whole(Option<Response>, Vec<u8>),
}

impl AnswerStream {
    async fn fill(&mut self) -> std::io::Result<usize> {
        match self {
            Self::Events(events) => events.fill().await,
            Self::Lines(lines) => lines.fill().await,
            Self::Whole(body, bytes) => {
                let Some(response) = body else { return Ok(0) };
                match response.chunk().await {
                    Ok(Some(chunk)) => {
                        bytes.extend_from_slice(&chunk);
                        Ok(chunk.len())
                    }
                    ended => {
                        *body = None;
                        ended.map(|_| 0).map_err(std::io::Error::other)
                    }
                }
            }
        }
    }

    /// The next event that is complete; `Err` with the length of one over the limit.
    fn next_complete(&mut self) -> Option<Result<Vec<u8>, u64>> {
        match self {
            Self::Events(events) => events.next_complete().map(|event| match event.stray {
                Some(stray) => Ok(stray),
                None => event.over.map_or(Ok(event.data), Err),
            }),
            Self::Lines(lines) => lines.next_complete(),
            Self::Whole(_, bytes) if bytes.len() > ProviderModel::MAX_EVENT_BYTES => {
                Some(Err(bytes.len() as u64))
            }
            Self::Whole(None, bytes) if !bytes.is_empty() => Some(Ok(std::mem::take(bytes))),
            Self::Whole(..) => None,
        }
    }

    /// What is left at the end: an event without the empty line behind it, or JSON that is in no event.
    fn rest(&mut self) -> Option<Vec<u8>> {
        match self {
            Self::Events(events) => {
                let (event, _) = events.last()?;
                Some(event.stray.unwrap_or(event.data))
            }
            Self::Lines(_) | Self::Whole(..) => None,
        }
    }
}

impl ProviderModel {
    /// Longest retry delay that a provider may ask for; a longer one is reported as an error.
    const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(60);
    /// Upper bound for the configured number of attempts.
    const MAX_ATTEMPTS: u32 = 4;
    /// The same where nothing came in time.
    const MAX_SILENT_ATTEMPTS: u32 = 2;
    /// Limit for reading the body of an error response, in bytes.
    const MAX_ERROR_BYTES: usize = 64 << 10;
    /// Maximum size of an event in an answer, in bytes.
    const MAX_EVENT_BYTES: usize = 8 << 20;
    /// Limit for a description or a list of models, in bytes.
    const MAX_FACTS_BYTES: usize = 8 << 20;
    /// How long the provider may take to describe a model.
    const FACTS_TIMEOUT: Duration = Duration::from_secs(5);
    /// Least room for an answer, in tokens.
    const MIN_OUTPUT_TOKENS: u64 = 64;
    /// Most models that an error names.
    const MAX_NAMED_MODELS: usize = 20;

    /// Creates a model from its configuration.
    ///
    /// # Errors
    /// When the key would be sent unencrypted, or the address cannot be used.
    pub fn new(mut config: RemoteConfig) -> Result<Self, String> {
        if config.provider == Provider::Ollama {
            // The address of its copy of OpenAI's API means the same server.
            let path = config.base_url.path().trim_end_matches('/');
            let path = path.strip_suffix("/v1").or(path.strip_suffix("/api")).unwrap_or(path);
            let path = path.to_owned();
            config.base_url.set_path(&path);
        }
        let is_responses = AtomicBool::new(openai::prefers_responses(&config));
        wire::trim_endpoint(&mut config.base_url);
        let url = &config.base_url;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("the address of the model must begin with http:// or https://".to_owned());
        }
        if let Some(instead) = wire::signing_address(url) {
            return Err(instead);
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
        let (facts, window) = (Mutex::default(), AtomicU64::new(0));
        let refused = Mutex::new(openai::known_refused(&config));
        let media_room = Mutex::new(MediaRoom::ANY);
        Ok(Self { config, http, redactor, offer, facts, window, refused, is_responses, media_room })
    }

    /// Whether the request is one of `OpenAI`'s Responses API.
    fn speaks_responses(&self) -> bool {
        self.config.provider == Provider::OpenAi && self.is_responses.load(Ordering::Relaxed)
    }

    fn reader(&self) -> Box<dyn ReplyReader> {
        match self.config.provider {
            Provider::Gemini => Box::<gemini::GeminiReader>::default(),
            Provider::Anthropic => Box::<anthropic::AnthropicReader>::default(),
            Provider::Ollama => Box::<ollama::OllamaReader>::default(),
            Provider::OpenAi if self.speaks_responses() => {
                Box::<responses::ResponsesReader>::default()
            }
            Provider::OpenAi | Provider::Embedded => Box::<openai::OpenAiReader>::default(),
        }
    }

    fn error(&self, fault: Fault, tokens: u64, attempts: u32) -> LlmError {
        let message = SafeText::cut(&self.redactor.redact(&fault.message), 400);
        let (model, spent) = (self.config.model.clone(), fault.spent);
        LlmError { kind: fault.kind, model, message, tokens, attempts, spent }
    }

    async fn send(&self, outgoing: &ProviderRequest) -> Result<Response, Fault> {
        let request = self.http.post(self.url(&outgoing.path)).json(&outgoing.body);
        self.fetch(request, &outgoing.headers).await
    }

    /// The address of a path with its query; a query of the base URL goes along (Azure `OpenAI` API
    /// reference, `api-version`).
    fn url(&self, path: &str) -> Url {
        let mut url = self.config.base_url.clone();
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let whole = format!("{}{path}", url.path().trim_end_matches('/'));
        url.set_path(&whole);
        let both = [url.query().unwrap_or_default(), query];
        let both = both.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("&");
        url.set_query((!both.is_empty()).then_some(both.as_str()));
        url
    }

    /// Sends a request; its response is a success.
    async fn fetch(
        &self,
        request: RequestBuilder,
        outgoing: &[(&'static str, String)],
    ) -> Result<Response, Fault> {
        let mut headers = HeaderMap::new();
        for (name, value) in outgoing {
            let mut value = HeaderValue::from_str(value).map_err(|_| {
                let message = "the key holds characters that a header cannot";
                Fault::new(LlmErrorKind::Unauthorized, message)
            })?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        let sent = tokio::time::timeout(self.config.idle, request.headers(headers).send());
        let silent = |_| Fault::new(LlmErrorKind::Timeout, "no answer in time");
        let response = sent.await.map_err(silent)?.map_err(|error| {
            let why = unreachable_reason(&error, &self.redactor);
            let mut fault = Fault::new(LlmErrorKind::Unreachable, why);
            // Nobody listens on this machine, and waiting starts nothing.
            fault.passes &= !(error.is_connect() && is_loopback(&self.config.base_url));
            fault
        })?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(response).await)
    }

    /// Converts an error response to a fault.
    async fn refusal(&self, response: Response) -> Fault {
        let status = response.status();
        let headers = response.headers().clone();
        let moved = headers.get("location").filter(|_| status.is_redirection());
        let moved = moved.and_then(|to| to.to_str().ok()).map(str::to_owned);
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
        let error = error.filter(|error| !error.is_null()).unwrap_or(&value);
        let mut fault = Fault::reported(Some(status.as_u16()), error).with_headers(&headers);
        if value.is_null() {
            // Something in between answered, in words or with a page.
            let text = String::from_utf8_lossy(&bytes);
            let line = text.lines().map(str::trim).find(|line| !line.is_empty());
            let line = line.filter(|line| !line.starts_with('<')).unwrap_or_default();
            line.clone_into(&mut fault.message);
        }
        let reason = status.canonical_reason().unwrap_or_default();
        let number = status.as_u16();
        fault.message = match fault.message.as_str() {
            "" => format!("the provider answered HTTP {number} {reason}"),
            text => format!("HTTP {number}: {text}"),
        };
        if let Some(moved) = moved {
            // Not followed: the key is sent to the address that was named alone.
            _ = write!(fault.message, "; it points to {moved}: is the base URL right?");
        }
        let is_bare = self.config.base_url.path() == "/";
        if matches!(number, 404 | 405) && is_bare && self.config.provider != Provider::Ollama {
            fault.message.push_str("; the base URL has no path, and that of most APIs ends in /v1");
        }
        fault
    }

    /// The events of a response. A body that is JSON instead of a stream is read as one event: some
    /// addresses answer whole, or with an error and status 200.
    fn answer_stream(&self, response: Response) -> Result<AnswerStream, Fault> {
        let kind = response.headers().get(reqwest::header::CONTENT_TYPE);
        let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.to_ascii_lowercase();
        if kind.starts_with("text/html") {
            let message = "the address answered with a page for browsers: is the base URL that of \
                           the API?";
            return Err(Fault::new(LlmErrorKind::Malformed, message));
        }
        let is_json = kind.starts_with("application/json");
        Ok(match self.config.provider {
            Provider::Ollama => {
                AnswerStream::Lines(ResponseLines::new(response, Self::MAX_EVENT_BYTES))
            }
            _ if is_json => AnswerStream::Whole(Some(response), Vec::new()),
            Provider::Gemini | Provider::Anthropic | Provider::OpenAi | Provider::Embedded => {
                AnswerStream::Events(SseEvents::new(response, Self::MAX_EVENT_BYTES))
            }
        })
    }

    /// Makes one attempt, with a prompt of about this many `tokens`.
    async fn once(
        &self,
        outgoing: &ProviderRequest,
        tokens: u64,
        on: OnDelta<'_>,
    ) -> Result<ModelReply, Fault> {
        let (mut reply, mut has_begun) = (ModelReply::default(), false);
        let read = {
            let mut told = |delta| {
                has_begun = true;
                on(delta);
            };
            self.read_answer(outgoing, &mut reply, &mut told).await
        };
        let has_begun = has_begun || reply != ModelReply::default();
        // What came of an answer is paid for, also when the rest did not come.
        if has_begun || read.is_ok() {
            estimate(&mut reply, tokens);
        }
        match read {
            Ok(()) => Ok(reply),
            Err(fault) => Err(Fault { spent: reply.usage, ..fault }),
        }
    }

    /// Sends a request and reads its answer.
    async fn read_answer(
        &self,
        outgoing: &ProviderRequest,
        reply: &mut ModelReply,
        on: OnDelta<'_>,
    ) -> Result<(), Fault> {
        let response = self.send(outgoing).await?;
        let mut events = self.answer_stream(response)?;
        let mut reader = self.reader();
        let is_inline = matches!(self.config.provider, Provider::OpenAi | Provider::Ollama);
        let mut shown = ShownText {
            inline: is_inline.then(Default::default),
            fenced: self.is_fenced().then(Default::default),
        };
        let (mut is_ended, mut halves) = (false, EventReader::default());
        let malformed = |message: String| Fault::new(LlmErrorKind::Malformed, message);
        loop {
            let silent = |_| Fault::new(LlmErrorKind::Timeout, "the answer stopped coming");
            let more = tokio::time::timeout(self.config.idle, events.fill()).await;
            // A connection error only matters if the answer is incomplete, checked below.
            let is_more = matches!(more.map_err(silent)?, Ok(1..));
            while let Some(event) = events.next_complete() {
                let Ok(event) = event else {
                    return Err(malformed("one event of the answer is too large".to_owned()));
                };
                let event = event.trim_ascii();
                if event.is_empty() {
                    continue;
                }
                if event == b"[DONE]" {
                    is_ended = true;
                    continue;
                }
                let data = halves.read(event).map_err(|error| {
                    malformed(format!("an event of the answer is not JSON: {error}"))
                })?;
                read_event(&data, &mut *reader, reply, &mut |delta| shown.pass(delta, on))?;
            }
            if !is_more {
                // One that was cut off is none.
                let rest = events.rest().and_then(|rest| serde_json::from_slice(&rest).ok());
                if let Some(data) = rest {
                    read_event(&data, &mut *reader, reply, &mut |delta| shown.pass(delta, on))?;
                }
                break;
            }
        }
        if !reader.finish(reply, is_ended) {
            return Err(Fault::new(LlmErrorKind::Cut, "the answer was cut off"));
        }
        shown.finish(reply, on);
        reply.cut_last_call();
        let is_filtered = matches!(reply.stop, Stop::Filtered | Stop::Declined);
        if is_filtered && reply.text.is_empty() && reply.calls.is_empty() {
            let mut message = "the provider's content filter refused to answer".to_owned();
            if !reply.why.is_empty() {
                _ = write!(message, ": {}", reply.why);
            }
            return Err(Fault::new(LlmErrorKind::Filtered, message));
        }
        Ok(())
    }

    async fn attempts(
        &self,
        prompt: &ModelPrompt,
        on: OnDelta<'_>,
    ) -> Result<ModelReply, LlmError> {
        self.learn().await;
        let is_fenced = self.is_fenced();
        let media = *self.media_room.lock();
        let mut form = SentForm { is_fenced, drops_state: false, media, too_large: None };
        let (mut sent, mut dropped) = self.as_sent(prompt, form);
        if dropped > 0 {
            let all = media::sizes(&prompt.messages).len();
            let why = oldest_left_out(dropped, all, "the provider took no more of them before");
            on(Delta::LeftOut { tool: None, why });
        }
        let tokens = context::of_prompt(&sent);
        if let Some((tool, why)) = self.offer.excess(prompt).filter(|_| !is_fenced) {
            on(Delta::LeftOut { tool: Some(tool), why });
        }
        let mut outgoing = self.request(&sent);
        let most = self.config.attempts.clamp(1, Self::MAX_ATTEMPTS);
        let (mut attempt, mut lost) = (1, TokenUsage::default());
        loop {
            let mut fault = match self.once(&outgoing, tokens, on).await {
                Ok(mut reply) => {
                    if !is_fenced {
                        self.offer.restore(&mut reply);
                    }
                    reply.usage.add(lost);
                    reply.refused_media = dropped;
                    if let Some(size) = form.too_large {
                        let mut room = self.media_room.lock();
                        room.bytes = room.bytes.min(size.saturating_sub(1));
                    }
                    return Ok(reply);
                }
                Err(fault) => fault,
            };
            lost.add(fault.spent);
            let spent = std::mem::replace(&mut fault.spent, lost);
            let is_about_state = !form.drops_state && fault.is_about_state();
            let refused = SentRequest { prompt: &sent, body: &outgoing.body };
            let is_learned = is_about_state || self.learn_refusal(&fault, refused, on);
            form.drops_state |= is_about_state;
            if is_learned || self.learn_media(&fault, refused, &mut form, on) {
                (sent, dropped) = self.as_sent(prompt, form);
                outgoing = self.request(&sent);
                if let Some((tool, why)) = self.offer.excess(prompt).filter(|_| !is_fenced) {
                    on(Delta::LeftOut { tool: Some(tool), why });
                }
                continue;
            }
            if self.config.provider == Provider::Ollama
                && fault.message.contains(LACKS_MEMORY)
                && self.narrow()
            {
                // The conversation is made to fit what the machine has memory for.
                fault.kind = LlmErrorKind::TooLong;
                return Err(self.error(fault, tokens, attempt));
            }
            if fault.kind == LlmErrorKind::TooLong {
                if self.widen() {
                    // Each time twice as much, up to what the model takes.
                    outgoing = self.request(&sent);
                    continue;
                }
                self.learn_context(&fault, tokens);
            }
            let after = self.pause(&mut fault, attempt);
            // Silence takes minutes, and may be paid for.
            let is_silent =
                fault.kind == LlmErrorKind::Timeout && attempt >= Self::MAX_SILENT_ATTEMPTS;
            if !fault.passes || attempt >= most || is_silent {
                if self.config.provider == Provider::Ollama {
                    self.advise(&mut fault).await;
                } else if fault.names_model() {
                    self.advise_model(&mut fault).await;
                } else if fault.lacks_tools() && !is_fenced {
                    fault.message.push_str(FENCED);
                }
                return Err(self.error(fault, tokens, attempt));
            }
            let why = SafeText::cut(&self.redactor.redact(&fault.message), 200);
            tracing::warn!(
                target: "mcpdeck::chat", action = "retry", model = %self.config.model, attempt,
                delay_ms = after.as_millis() as u64, "{why}"
            );
            on(Delta::Retry { attempt, after, why, spent });
            tokio::time::sleep(after).await;
            attempt += 1;
        }
    }
}

impl ProviderModel {
    /// The prompt in the form in which it is sent, and how many of the oldest pictures and sounds are
    /// left out of it.
    fn as_sent(&self, prompt: &ModelPrompt, form: SentForm) -> (ModelPrompt, usize) {
        let mut sent = if form.is_fenced { in_blocks(prompt) } else { self.offer.adapted(prompt) };
        if !form.is_fenced {
            wire::fit_calls(&mut sent, &self.config);
            if form.drops_state {
                wire::drop_state(&mut sent, self.config.provider);
            }
        }
        let dropped = form.media.excess(&sent.messages);
        media::drop_oldest(sent.messages.iter_mut(), dropped);
        sent.messages.iter_mut().for_each(ChatMessage::say_missing);
        (sent, dropped)
    }

    /// The time before another attempt; a fault that asks for a longer one than is waited does not pass.
    fn pause(&self, fault: &mut Fault, attempt: u32) -> Duration {
        let growing = self.config.backoff * 2_u32.pow(attempt - 1);
        let after = fault.after.unwrap_or(growing.mul_f64(0.75 + fastrand::f64() / 2.0));
        if fault.passes && after > Self::MAX_RETRY_INTERVAL {
            let wait = after.as_secs();
            fault.message = format!("{}; it asks to wait {wait} s", fault.message);
            fault.passes = false;
        }
        fault.passes &= !fault.message.contains(LACKS_MEMORY);
        after
    }
}

/// Reads an event of an answer, or a list of them, as Gemini sends without a stream.
fn read_event(
    data: &Value,
    reader: &mut dyn ReplyReader,
    reply: &mut ModelReply,
    on: OnDelta<'_>,
) -> Result<(), Fault> {
    let all = data.as_array().map_or(std::slice::from_ref(data), Vec::as_slice);
    for data in all {
        if let Some(error) = fault::error_within(data) {
            return Err(Fault::reported(None, error));
        }
        reader.event(data, reply, on);
    }
    Ok(())
}

/// A request as it was sent.
#[derive(Clone, Copy)]
struct SentRequest<'a> {
    prompt: &'a ModelPrompt,
    body: &'a Value,
}

/// The text of an answer as the person sees it: without reasoning that stands within it, and without
/// the blocks that call tools. Each with the text that was left so far.
struct ShownText {
    inline: Option<(InlineReasoning, String)>,
    fenced: Option<(Fence, String)>,
}

impl ShownText {
    /// Passes progress on.
    fn pass(&mut self, delta: Delta, on: OnDelta<'_>) {
        let Delta::Text(mut text) = delta else { return on(delta) };
        if let Some((inline, said)) = &mut self.inline {
            let (reasoning, rest) = inline.push(&text);
            said.push_str(&rest);
            if !reasoning.is_empty() {
                on(Delta::Reasoning(reasoning));
            }
            text = rest;
        }
        self.pass_text(text, on);
    }

    fn pass_text(&mut self, mut text: String, on: OnDelta<'_>) {
        if let Some((fence, said)) = &mut self.fenced {
            text = fence.push(&text);
            said.push_str(&text);
        }
        if !text.is_empty() {
            on(Delta::Text(text));
        }
    }

    /// Gives the whole answer its text, and the calls of its blocks.
    fn finish(mut self, reply: &mut ModelReply, on: OnDelta<'_>) {
        if let Some((mut inline, said)) = self.inline.take() {
            let (reasoning, rest) = inline.finish();
            if !reasoning.is_empty() {
                on(Delta::Reasoning(reasoning));
            }
            reply.text = said + &rest;
            self.pass_text(rest, on);
        }
        if let Some((mut fence, said)) = self.fenced {
            let rest = fence.finish();
            // Without the blocks: `in_blocks` adds them again to the history.
            (reply.text, reply.calls) = (said + &rest, fence.calls);
            if !rest.is_empty() {
                on(Delta::Text(rest));
            }
        }
    }
}

/// Estimates what was not counted: some leave out what came from a cache, and some count nothing.
fn estimate(reply: &mut ModelReply, tokens: u64) {
    if reply.usage.input == 0 {
        reply.usage.input = tokens;
        reply.usage.is_estimate = true;
    }
    if reply.usage.output == 0 {
        reply.usage.output = context::of_reply(reply);
        reply.usage.is_estimate |= reply.usage.output > 0;
    }
}

/// The message about pictures and sounds that are left out of a request.
fn oldest_left_out(count: usize, all: usize, why: &str) -> SafeText {
    let which = match (count, all) {
        (count, all) if count == all => "the pictures and sounds are".to_owned(),
        (1, _) => format!("the oldest of {all} pictures and sounds is"),
        (count, all) => format!("the oldest {count} of {all} pictures and sounds are"),
    };
    SafeText::cut(&format!("{which} left out: {why}"), 400)
}

/// What helps with a model that has no tool calls.
const FENCED: &str = "; --fenced is for models without tool calls of their own";
/// How Ollama says that a model and its context are too large for the machine.
const LACKS_MEMORY: &str = "requires more system memory";

/// What is learned of the model.
impl ProviderModel {
    /// Learns from a refusal which of `OpenAI`'s APIs the model is reached over; each is tried once.
    fn learn_api(&self, refusal: &str) -> bool {
        if self.config.provider != Provider::OpenAi {
            return false;
        }
        let other = if self.speaks_responses() { "v1/chat/completions" } else { "v1/responses" };
        if !refusal.contains(other) || !self.refused.lock().insert(other) {
            return false;
        }
        self.is_responses.fetch_not(Ordering::Relaxed);
        true
    }

    /// Learns from a refusal what to send instead of this prompt and this body; returns whether it did.
    /// Each time less is sent, or in the other form, so this ends.
    fn learn_refusal(&self, fault: &Fault, sent: SentRequest<'_>, on: OnDelta<'_>) -> bool {
        let SentRequest { prompt, body } = sent;
        let refusal = fault.message.as_str();
        // What an account can pay for may be less than what was asked for.
        if fault.status == Some(402) {
            return self.learn_output(refusal);
        }
        if fault.kind != LlmErrorKind::Refused {
            return false;
        }
        if self.learn_api(refusal)
            || self.learn_limits(body, refusal)
            || self.offer.learn_max_tools(refusal)
        {
            return true;
        }
        let Some(tool) = self.offer.leave_out(prompt, refusal) else {
            let is_learned = self.offer.learn_plain(prompt, refusal);
            if is_learned {
                let why = "the provider refuses the schema of a tool and does not say which: all are \
                           sent in a plainer form";
                let why = format!("{why}: {}", self.redactor.redact(refusal));
                let why = SafeText::cut(&why, 400);
                tracing::warn!(target: "mcpdeck::chat", action = "schemas made plain", "{why}");
                on(Delta::LeftOut { tool: None, why });
            }
            return is_learned;
        };
        let why = offer::left_out(&tool, &self.redactor.redact(refusal));
        tracing::warn!(target: "mcpdeck::chat", action = "tool left out", tool, "{why}");
        on(Delta::LeftOut { tool: Some(tool), why });
        true
    }

    /// Learns from a refusal that the provider does not take the pictures and sounds of a prompt: as many
    /// as there are, one of them, or any; returns whether it did. Each time fewer are sent, so this ends.
    fn learn_media(
        &self,
        fault: &Fault,
        sent: SentRequest<'_>,
        form: &mut SentForm,
        on: OnDelta<'_>,
    ) -> bool {
        let sizes = media::sizes(&sent.prompt.messages);
        let bytes = sizes.iter().sum::<usize>();
        let most = fault.most_media().filter(|most| (1..sizes.len()).contains(most));
        let room = if sizes.is_empty() {
            None
        } else if let Some(count) = most {
            self.media_room.lock().count = count;
            Some(MediaRoom { count, ..MediaRoom::ANY })
        } else if fault.is_too_large && bytes >= sent.body.to_string().len() / 2 {
            form.too_large = Some(form.too_large.map_or(bytes, |before| before.min(bytes)));
            MediaRoom::half_of(&sent.prompt.messages)
        } else {
            fault.is_about_media().then_some(MediaRoom::NONE)
        };
        let Some(room) = room else { return false };
        if fault.takes_no_media() {
            let mut facts = self.facts.lock();
            let facts = facts.get_or_insert_default();
            (facts.sees, facts.hears) = (Some(false), Some(false));
        }
        form.media = form.media.within(room);
        let refusal = self.redactor.redact(&fault.message);
        let why = oldest_left_out(form.media.excess(&sent.prompt.messages), sizes.len(), &refusal);
        tracing::warn!(target: "mcpdeck::chat", action = "pictures left out", "{why}");
        on(Delta::LeftOut { tool: None, why });
        true
    }

    /// Learns from a refusal what is not to be sent: a field that the address does not know, a longer
    /// answer than the model gives, reasoning from one that has none. Returns whether it did; each time
    /// less is sent, so this ends.
    fn learn_limits(&self, sent: &Value, refusal: &str) -> bool {
        if sent["think"] == true && refusal.contains("does not support thinking") {
            self.facts.lock().get_or_insert_default().thinks = Some(false);
            return true;
        }
        if facts::refused_output(refusal).is_some() {
            return self.learn_output(refusal);
        }
        let field = match self.config.provider {
            Provider::OpenAi if self.speaks_responses() => responses::refused_field(sent, refusal),
            Provider::OpenAi => openai::refused_field(sent, refusal),
            Provider::Gemini | Provider::Anthropic | Provider::Ollama | Provider::Embedded => None,
        };
        field.is_some_and(|field| self.refused.lock().insert(field))
    }

    /// Learns from the refusal of a prompt of about this many `tokens` how much the model takes. Where it
    /// names no less than what was known, the estimate was too low: of what other languages and data
    /// need. Where it is about bytes, half of them are tried.
    fn learn_context(&self, fault: &Fault, tokens: u64) {
        const MIN_CONTEXT_TOKENS: u64 = 1_000;
        let lower = fault.message.to_lowercase();
        let is_it = fault.is_too_large
            || ["context", "prompt", "token", "request"].iter().any(|word| lower.contains(word));
        let known = self.context();
        let named = facts::refused_context(&fault.message).unwrap_or(known);
        let less = known.min(if fault.is_too_large { tokens / 2 } else { tokens / 10 * 9 });
        if named < known {
            self.facts.lock().get_or_insert_default().context = Some(named);
        } else if is_it && less >= MIN_CONTEXT_TOKENS {
            self.facts.lock().get_or_insert_default().context = Some(less);
        }
    }

    /// Learns the longest answer that a refusal names; returns whether it is shorter than what was asked
    /// for.
    fn learn_output(&self, refusal: &str) -> bool {
        let Some(most) = facts::refused_output(refusal) else { return false };
        let mut facts = self.facts.lock();
        let known = facts.get_or_insert_default().max_output.replace(most);
        most < known.unwrap_or(self.config.max_output)
    }

    /// Takes half of the context that Ollama was asked for as all there is; returns whether that is
    /// still enough for something.
    fn narrow(&self) -> bool {
        let half = self.window.swap(0, Ordering::Relaxed) / 2;
        if half < ollama::MIN_WINDOW_TOKENS {
            return false;
        }
        let mut facts = self.facts.lock();
        let facts = facts.get_or_insert_default();
        (facts.context, facts.window) = (Some(half), None);
        true
    }

    /// Asks the provider what it tells of the model, once. What it does not tell stays open; without
    /// an answer it is asked again next time.
    async fn learn(&self) {
        if self.facts.lock().is_some() {
            return;
        }
        let facts = match tokio::time::timeout(Self::FACTS_TIMEOUT, self.describe()).await {
            Ok(Ok(facts)) => facts,
            // Addresses need not describe their models.
            Ok(Err(fault)) if fault.status.is_some() => ModelFacts::default(),
            Ok(Err(_)) | Err(_) => return,
        };
        let model = &self.config.model;
        tracing::debug!(target: "mcpdeck::chat", action = "model described", %model, ?facts);
        self.facts.lock().get_or_insert(facts);
    }

    async fn describe(&self) -> Result<ModelFacts, Fault> {
        let model = &self.config.model;
        let is_own = self.config.base_url.host_str() == Some("api.openai.com");
        match self.config.provider {
            Provider::Ollama => {
                let request = self.http.post(self.url("/api/show")).json(&json!({"model": model}));
                let mut facts = ModelFacts::shown(&self.read(request).await?);
                // A model that is loaded with more is not loaded again with less.
                let running = self.read(self.http.get(self.url("/api/ps"))).await;
                let loaded = running.ok().and_then(|list| facts::loaded_context(&list, model));
                facts.window = facts.window.max(loaded);
                Ok(facts)
            }
            // The user's own size needs no question.
            _ if self.config.context.is_some() => Ok(ModelFacts::default()),
            Provider::Gemini | Provider::Anthropic => {
                let request = self.http.get(self.url(&format!("/models/{model}")));
                Ok(ModelFacts::described(&self.read(request).await?))
            }
            Provider::OpenAi if !is_own => {
                let list = self.read(self.http.get(self.url("/models"))).await?;
                let is_it = |entry: &&Value| facts::listed_name(entry) == Some(model);
                let entry = facts::listed(&list).iter().find(is_it);
                Ok(entry.map(ModelFacts::described).unwrap_or_default())
            }
            // OpenAI itself tells no sizes.
            Provider::OpenAi | Provider::Embedded => Ok(ModelFacts::default()),
        }
    }

    /// The names of the models that the provider offers, sorted.
    ///
    /// # Errors
    /// When it cannot be asked, or does not tell.
    pub async fn offered(&self) -> Result<Vec<String>, LlmError> {
        let path = match self.config.provider {
            Provider::Ollama => "/api/tags",
            Provider::Gemini => "/models?pageSize=1000",
            Provider::Anthropic => "/models?limit=1000",
            Provider::OpenAi | Provider::Embedded => "/models",
        };
        let list = self.read(self.http.get(self.url(path))).await;
        let list = list.map_err(|fault| self.error(fault, 0, 1))?;
        // Gemini lists what embeds or draws too.
        let talks = |model: &&Value| {
            let methods = model["supportedGenerationMethods"].as_array();
            methods.is_none_or(|all| all.iter().any(|method| method == "generateContent"))
        };
        let names = facts::listed(&list).iter().filter(talks).filter_map(facts::listed_name);
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Sends a request with the key and reads the JSON of its response.
    async fn read(&self, request: RequestBuilder) -> Result<Value, Fault> {
        let headers = match self.config.provider {
            Provider::Gemini => gemini::headers(&self.config),
            Provider::Anthropic => anthropic::headers(&self.config),
            Provider::OpenAi | Provider::Ollama | Provider::Embedded => {
                openai::headers(&self.config)
            }
        };
        let response = self.fetch(request, &headers).await?;
        let status = response.status().as_u16();
        let malformed = |message: &str| Fault {
            status: Some(status),
            ..Fault::new(LlmErrorKind::Malformed, message)
        };
        let mut bytes = Vec::new();
        let mut body = response.bytes_stream();
        loop {
            let more = tokio::time::timeout(self.config.idle, body.next()).await;
            let silent = |_| Fault::new(LlmErrorKind::Timeout, "the answer stopped coming");
            match more.map_err(silent)? {
                Some(Ok(chunk)) => bytes.extend_from_slice(&chunk),
                Some(Err(_)) => {
                    return Err(Fault::new(LlmErrorKind::Cut, "the answer was cut off"));
                }
                None => break,
            }
            if bytes.len() > Self::MAX_FACTS_BYTES {
                return Err(malformed("the list of models is too large"));
            }
        }
        serde_json::from_slice(&bytes).map_err(|_| malformed("the answer is not JSON"))
    }

    /// The request for a prompt.
    fn request(&self, sent: &ModelPrompt) -> ProviderRequest {
        let context = self.context();
        let facts = self.facts.lock().clone().unwrap_or_default();
        let most = self.config.max_output.min(facts.max_output.unwrap_or(u64::MAX));
        // As much as a prompt leaves that fits.
        let max_output = most.min(context / 5).max(Self::MIN_OUTPUT_TOKENS);
        let before = self.window.load(Ordering::Relaxed).max(facts.window.unwrap_or_default());
        let window = ollama::window(context::of_prompt(sent), before, context);
        self.window.fetch_max(window, Ordering::Relaxed);
        let thinks = facts.thinks == Some(true);
        let refused = self.refused.lock().clone();
        let plan =
            RequestPlan { config: &self.config, max_output, window, thinks, refused: &refused };
        match self.config.provider {
            Provider::Gemini => gemini::request(plan, sent),
            Provider::Anthropic => anthropic::request(plan, sent),
            Provider::Ollama => ollama::request(plan, sent),
            Provider::OpenAi if self.speaks_responses() => responses::request(plan, sent),
            Provider::OpenAi | Provider::Embedded => openai::request(plan, sent),
        }
    }

    /// Asks Ollama for twice the context from now on; returns whether the model takes more.
    fn widen(&self) -> bool {
        let (before, most) = (self.window.load(Ordering::Relaxed), self.context());
        if self.config.provider != Provider::Ollama || before >= most {
            return false;
        }
        self.window.store(before.saturating_mul(2).min(most), Ordering::Relaxed);
        true
    }

    /// Names the models that are like one that the provider does not have.
    async fn advise_model(&self, fault: &mut Fault) {
        let Ok(names) = self.offered().await else { return };
        let score = |name: &String| likeness(&self.config.model, name);
        let mut scored: Vec<(f64, &String)> =
            names.iter().map(|name| (score(name), name)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        let near: Vec<&str> = scored.iter().take(3).map(|(_, name)| name.as_str()).collect();
        if !near.is_empty() {
            let near = near.join(", ");
            _ = write!(fault.message, "; near are {near}; --list-models prints all");
        }
    }

    /// Says what to do about an error of Ollama.
    async fn advise(&self, fault: &mut Fault) {
        let model = &self.config.model;
        let is_about_model = fault.message.contains("model");
        let more = match (fault.kind, fault.status) {
            (LlmErrorKind::Unreachable, _) => {
                let url = &self.config.base_url;
                format!("; is Ollama running at {url}? `ollama serve` starts it")
            }
            (_, Some(404)) if is_about_model => match self.offered().await {
                Ok(names) if names.is_empty() => format!("; `ollama pull {model}` installs it"),
                Ok(names) => {
                    let names = names[..names.len().min(Self::MAX_NAMED_MODELS)].join(", ");
                    format!("; installed are {names}; `ollama pull {model}` installs it")
                }
                Err(_) => String::new(),
            },
            (_, Some(404 | 405)) => {
                "; this address does not speak Ollama's API: --provider openai \
                                     is for those that are compatible with OpenAI"
                    .to_owned()
            }
            (LlmErrorKind::Unauthorized, _) if self.config.key.is_none() => {
                "; `ollama signin` signs this machine in for cloud models".to_owned()
            }
            // What its parser makes of calls of the model (ollama/ollama#12884).
            _ if fault.message.contains("error parsing tool call") => {
                "; with --fenced the calls are read from the text instead".to_owned()
            }
            _ if fault.message.contains(LACKS_MEMORY) => {
                "; a smaller model, or one with less precision, fits".to_owned()
            }
            (_, Some(400)) if fault.message.contains("does not support tools") => FENCED.to_owned(),
            _ => return,
        };
        fault.message.push_str(&more);
    }
}

impl LanguageModel for ProviderModel {
    fn name(&self) -> &str {
        &self.config.model
    }

    fn identity(&self) -> String {
        let RemoteConfig { provider, base_url, model, .. } = &self.config;
        let (kind, place) = (provider.as_str(), base_url.authority());
        format!("{kind} {place} {model}")
    }

    fn context(&self) -> u64 {
        let told = self.facts.lock().as_ref().and_then(|facts| facts.context);
        match (self.config.context, told) {
            (Some(own), Some(told)) => own.min(told),
            (Some(size), None) | (None, Some(size)) => size,
            (None, None) => facts::documented_context(self.config.provider, &self.config.model)
                .unwrap_or(ASSUMED_CONTEXT_TOKENS),
        }
    }

    fn prepare(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.learn())
    }

    fn takes(&self, mime: &str) -> bool {
        let (provider, is_picture) = (self.config.provider, mime.starts_with("image/"));
        // Results are blocks of text there.
        if self.is_fenced() || !facts::is_media_type(provider, mime) {
            return false;
        }
        let kind = if is_picture { MediaKind::Image } else { MediaKind::Audio };
        if let Some(takes) = &self.config.takes {
            return takes.contains(&kind);
        }
        let facts = self.facts.lock();
        let told = facts.as_ref().and_then(|it| if is_picture { it.sees } else { it.hears });
        told.unwrap_or_else(|| facts::documented_media(provider, &self.config.model, is_picture))
    }

    fn price(&self) -> Option<ModelPrice> {
        self.config.price
    }

    fn is_fenced(&self) -> bool {
        let calls_tools = self.facts.lock().as_ref().and_then(|facts| facts.calls_tools);
        self.config.fenced || calls_tools == Some(false)
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
                    Some(ChatMessage::User { text: all, .. }) => *all = format!("{all}\n\n{text}"),
                    _ => messages.push(ChatMessage::user(text)),
                }
            }
            user @ ChatMessage::User { .. } => messages.push(user.clone()),
        }
    }
    ModelPrompt { system: prompt.system.clone(), messages, tools: Vec::new() }
}
