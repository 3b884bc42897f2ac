//! Shared by the wire formats: providers, requests, readers of answers, and faults.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::llm::{ChatMessage, LlmErrorKind, ModelPrice, ModelPrompt, ModelReply, OnDelta};
use crate::media::ToolMedia;
use base::secret::Secret;
use schema::ToolFormat;

/// The provider, which determines the wire format.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::VariantArray,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Provider {
    /// Google; key in `GEMINI_API_KEY` or `GOOGLE_API_KEY`.
    Gemini,
    /// Anthropic; key in `ANTHROPIC_API_KEY`.
    Anthropic,
    /// `OpenAI` and compatible providers; key in `OPENAI_API_KEY`.
    OpenAi,
    /// Ollama, on this machine unless `OLLAMA_HOST` names another.
    Ollama,
    /// A model built into this program, without a network; calls only tools that a message names.
    Embedded,
}

impl Provider {
    /// Its spelling on the command line.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Base URL, the usual environment variables of the key (the first one set is used), and the
    /// default model.
    pub const fn defaults(self) -> (&'static str, &'static [&'static str], &'static str) {
        match self {
            Self::Gemini => (
                "https://generativelanguage.googleapis.com/v1beta",
                &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
                "gemini-flash-latest",
            ),
            Self::Anthropic => {
                ("https://api.anthropic.com/v1", &["ANTHROPIC_API_KEY"], "claude-sonnet-4-5")
            }
            Self::OpenAi => ("https://api.openai.com/v1", &["OPENAI_API_KEY"], "gpt-5-mini"),
            Self::Ollama => ("http://127.0.0.1:11434", &["OLLAMA_API_KEY"], "llama3.2"),
            Self::Embedded => ("", &[], "embedded"),
        }
    }
}

/// Names of Mistral's models.
pub(super) const MISTRAL: [&str; 6] =
    ["mistral", "ministral", "mixtral", "codestral", "devstral", "magistral"];
/// Names of Moonshot's models.
pub(super) const MOONSHOT: [&str; 2] = ["moonshot", "kimi"];

/// What a model may take beside text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MediaKind {
    /// Pictures.
    Image,
    /// Sound.
    Audio,
}

/// Configuration of a model.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    pub provider: Provider,
    /// The address before `/messages`, `/chat/completions`, `/models/...` or `/api/chat`.
    pub base_url: Url,
    /// The model.
    pub model: String,
    /// The key; sent only to `base_url`.
    pub key: Option<Secret>,
    /// Call tools by fenced blocks in the text: for models without native tool calls.
    pub fenced: bool,
    /// Context size in tokens, prompt and answer together; `None` leaves it to what the provider
    /// tells, and to what is known of the model.
    pub context: Option<u64>,
    /// What the model takes in results of tools, where the user says so.
    pub takes: Option<Vec<MediaKind>>,
    /// How long Ollama keeps the model loaded, in its words (`30m`, `-1`).
    pub keep_alive: Option<String>,
    /// What the model costs, if that is known.
    pub price: Option<ModelPrice>,
    /// Maximum size of an answer, in tokens.
    pub max_output: u64,
    /// Timeout for the response head and between events.
    pub idle: Duration,
    /// Maximum number of attempts; capped at four.
    pub attempts: u32,
    /// The pause before the second attempt; doubled for each further one.
    pub backoff: Duration,
}

impl RemoteConfig {
    /// The rules for the definitions of its tools. An address other than `OpenAI`'s own may pass
    /// requests on to any provider.
    pub(super) fn tool_format(&self) -> ToolFormat {
        match self.provider {
            Provider::Gemini => ToolFormat::Gemini,
            Provider::Anthropic => ToolFormat::Anthropic,
            Provider::Ollama => ToolFormat::Ollama,
            Provider::OpenAi if self.base_url.host_str() == Some("api.openai.com") => {
                ToolFormat::OpenAi
            }
            Provider::OpenAi | Provider::Embedded => ToolFormat::Compatible,
        }
    }

    /// Whether a call in the history may have this id: `OpenAI` takes 40 characters (vercel/ai#5171),
    /// Anthropic `^[a-zA-Z0-9_-]+$` (maximhq/bifrost#5097), Mistral exactly nine letters and digits
    /// (jackmpcollins/magentic#276).
    fn takes_id(&self, id: &str) -> bool {
        let plain = |c: char| c.is_ascii_alphanumeric();
        let format = self.tool_format();
        if format == ToolFormat::Anthropic {
            !id.is_empty() && id.chars().all(|c| plain(c) || matches!(c, '_' | '-'))
        } else if format == ToolFormat::Compatible && self.is_by(&MISTRAL) {
            id.len() == 9 && id.chars().all(plain)
        } else {
            format != ToolFormat::OpenAi || id.len() <= 40
        }
    }

    /// Whether the model, or its address, has one of these names.
    pub(super) fn is_by(&self, names: &[&str]) -> bool {
        let model = self.model.to_ascii_lowercase();
        let host = self.base_url.host_str().unwrap_or_default();
        names.iter().any(|name| model.contains(name) || host.contains(name))
    }

    /// Configuration with default limits.
    pub fn new(provider: Provider, base_url: Url, model: impl Into<String>) -> Self {
        Self {
            provider,
            base_url,
            model: model.into(),
            key: None,
            fenced: false,
            context: None,
            takes: None,
            keep_alive: None,
            price: None,
            max_output: 8_192,
            idle: Duration::from_secs(90),
            attempts: 4,
            backoff: Duration::from_secs(1),
        }
    }
}

/// What a request is made from beside the prompt.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestPlan<'a> {
    pub(super) config: &'a RemoteConfig,
    /// Maximum size of the answer, in tokens.
    pub(super) max_output: u64,
    /// The context that Ollama is asked to reserve, in tokens.
    pub(super) window: u64,
    /// Whether the model can show its reasoning.
    pub(super) thinks: bool,
    /// Fields of requests that the address refuses.
    pub(super) refused: &'a BTreeSet<&'static str>,
}

/// A request in a wire format.
pub(super) struct ProviderRequest {
    /// Path relative to the base URL.
    pub(super) path: String,
    /// Headers, including the key.
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

/// The tools as objects with name, description and schema; `schema` is the key of the latter.
pub(super) fn tools(prompt: &ModelPrompt, schema: &str) -> Option<Vec<Value>> {
    let tools = prompt.tools.iter().map(|tool| {
        let mut one = json!({"name": tool.name, "description": tool.description});
        one[schema] = Value::clone(&tool.schema);
        one
    });
    (!prompt.tools.is_empty()).then(|| tools.collect())
}

/// The tools as functions of `OpenAI`'s API and of those like it.
pub(super) fn functions(prompt: &ModelPrompt) -> Option<Value> {
    let functions = tools(prompt, "parameters")?.into_iter().map(|tool| {
        let mut one = json!({"type": "function"});
        one["function"] = tool;
        one
    });
    Some(functions.collect())
}

/// The places behind which the pictures and sounds of the results before stand in a message of their
/// own: results are text alone, and those of one answer stay together.
pub(super) fn media_after(messages: &[ChatMessage], at: usize) -> Vec<(&str, &ToolMedia)> {
    let is_result = |message: &ChatMessage| matches!(message, ChatMessage::Tool { .. });
    if !is_result(&messages[at]) || messages.get(at + 1).is_some_and(is_result) {
        return Vec::new();
    }
    let first = messages[..at].iter().rposition(|message| !is_result(message));
    let results = &messages[first.map_or(0, |first| first + 1)..=at];
    let all = results.iter().filter_map(|message| match message {
        ChatMessage::Tool { name, media, .. } => Some(media.iter().map(|one| (name.as_str(), one))),
        ChatMessage::User { .. } | ChatMessage::Assistant(_) => None,
    });
    all.flatten().collect()
}

/// Groups content by role, merging consecutive messages of one role and omitting empty ones.
pub(super) fn turns(all: impl Iterator<Item = (&'static str, Vec<Value>)>, key: &str) -> Value {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for (role, content) in all {
        match turns.last_mut() {
            Some((last, so_far)) if *last == role => so_far.extend(content),
            _ if content.is_empty() => {}
            _ => turns.push((role, content)),
        }
    }
    turns.into_iter().map(|(role, content)| json!({"role": role, key: content})).collect()
}

/// Gives the calls of a conversation ids that the provider takes: those of another model, before the
/// person changed it, may have a form of their own. The provider's own ids stay as they are.
pub(super) fn fit_ids(prompt: &mut ModelPrompt, config: &RemoteConfig) {
    let fit = |id: &mut String| {
        if !config.takes_id(id) {
            *id = short_id(id);
        }
    };
    for message in &mut prompt.messages {
        match message {
            ChatMessage::Assistant(reply) => {
                reply.calls.iter_mut().for_each(|call| fit(&mut call.id));
                for block in reply.carried.iter_mut().filter(|it| it["type"] == "tool_use") {
                    let mut id = block["id"].as_str().unwrap_or_default().to_owned();
                    fit(&mut id);
                    block["id"] = id.into();
                }
            }
            ChatMessage::Tool { id, .. } => fit(id),
            ChatMessage::User { .. } => {}
        }
    }
}

/// Nine letters and digits that stand for an id, always the same ones (FNV-1a).
fn short_id(id: &str) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let mut sum = id.bytes().fold(0xcbf2_9ce4_8422_2325, step);
    let digits = (0..9).map(|_| {
        let digit = DIGITS[(sum % 36) as usize];
        sum /= 36;
        char::from(digit)
    });
    digits.collect()
}

/// Reads the stream of one answer.
pub(super) trait ReplyReader: Send {
    /// Processes one event.
    fn event(&mut self, data: &Value, reply: &mut ModelReply, on: OnDelta<'_>);

    /// Completes the calls at the end of the stream; returns whether the answer was complete.
    /// `is_ended` tells that the stream said itself that it has ended (`[DONE]`).
    fn finish(&mut self, reply: &mut ModelReply, is_ended: bool) -> bool;
}

/// The words of an error: `message` with most, `detail` or `errors` with others, as text or as a list of
/// the fields at fault (Mistral, vLLM: `loc` and `msg`); and what a router was told itself (`OpenRouter`
/// API reference, Errors, `metadata.raw`).
fn error_text(error: &Value) -> String {
    /// Nested deeper, there are no words.
    const MAX_ERROR_DEPTH: usize = 4;
    fn words(value: &Value, depth: usize) -> String {
        match value {
            _ if depth > MAX_ERROR_DEPTH => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(list) => {
                let all = list.iter().map(|one| words(one, depth + 1));
                all.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
            }
            Value::Object(map) => {
                let keys = ["message", "msg", "detail", "errors", "error"];
                let found = keys.iter().filter_map(|key| map.get(*key));
                let text = found.map(|value| words(value, depth + 1)).find(|text| !text.is_empty());
                let text = text.unwrap_or_default();
                let place = map.get("loc").and_then(Value::as_array).into_iter().flatten();
                let place: Vec<String> = place
                    .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
                    .collect();
                if place.is_empty() { text } else { format!("{}: {text}", place.join(".")) }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
        }
    }
    let text = words(error, 0);
    let raw = error.pointer("/metadata/raw").and_then(Value::as_str).unwrap_or_default();
    let behind = match serde_json::from_str::<Value>(raw) {
        Ok(value) => words(&value, 0),
        Err(_) => raw.to_owned(),
    };
    if behind.is_empty() { text } else { format!("{text}: {behind}") }
}

/// How providers say that a prompt does not fit.
const TOO_LONG: [&str; 7] = [
    "context_length",
    "too long",
    "maximum context",
    "context size",
    "context length",
    "context window",
    "input token count",
];

/// Why one attempt failed.
pub(super) struct Fault {
    pub(super) kind: LlmErrorKind,
    pub(super) message: String,
    /// Whether it is transient: a retry may succeed.
    pub(super) passes: bool,
    /// The retry delay that the provider asked for.
    pub(super) after: Option<Duration>,
    /// The status of an error response.
    pub(super) status: Option<u16>,
}

impl Fault {
    pub(super) fn new(kind: LlmErrorKind, message: impl Into<String>) -> Self {
        use LlmErrorKind::{Cut, RateLimited, Server, Timeout, Unreachable};
        let passes = matches!(kind, Cut | RateLimited | Server | Timeout | Unreachable);
        Self { kind, message: message.into(), passes, after: None, status: None }
    }

    /// Classifies a provider's error object: most have `message` and a word for the kind.
    pub(super) fn reported(status: Option<u16>, error: &Value) -> Self {
        use LlmErrorKind as K;
        // Ollama passes the error of its runner on as text.
        let within = error.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let Some(inner) = within.as_ref().and_then(|within| within.get("error")) {
            return Self::reported(status, inner);
        }
        let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let text = error_text(error);
        let words = format!("{} {} {}", word("type"), word("code"), word("status")).to_lowercase();
        let code = error.get("code").and_then(Value::as_u64).or_else(|| word("code").parse().ok());
        let code = code.and_then(|code| u16::try_from(code).ok());
        let says = |part: &str| words.contains(part) || text.to_lowercase().contains(part);
        // A field that is too long is not the prompt.
        let is_field = says("array too long") || says("string too long");
        let kind = match status.or(code) {
            _ if !is_field && TOO_LONG.iter().any(|part| says(part)) => K::TooLong,
            _ if words.contains("insufficient_quota") => K::RateLimited,
            Some(413) => K::TooLong,
            Some(401 | 403) => K::Unauthorized,
            Some(429) => K::RateLimited,
            Some(408 | 409 | 500..) => K::Server,
            Some(_) => K::Refused,
            None if words.contains("rate_limit") => K::RateLimited,
            None if words.contains("authentication") || words.contains("permission") => {
                K::Unauthorized
            }
            None if words.contains("invalid_request") => K::Refused,
            None => K::Server,
        };
        let mut fault = Self { status, ..Self::new(kind, text) };
        fault.passes &= !words.contains("insufficient_quota");
        let details = error.get("details").and_then(Value::as_array);
        let delay = details.into_iter().flatten().find_map(|d| d.get("retryDelay")?.as_str());
        let delay = delay.and_then(|delay| delay.strip_suffix('s')?.parse().ok());
        fault.after = delay.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        fault
    }
}
