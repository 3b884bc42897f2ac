//! What the wire formats share: whose they are, a request, a reader of its answer, why one failed.

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::base::secret::Secret;
use crate::chat::llm::{LlmErrorKind, ModelPrompt, ModelReply, OnDelta};

/// Whose wire format is spoken.
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
    /// `OpenAI` and everything compatible; key in `OPENAI_API_KEY`.
    OpenAi,
    /// Ollama on this machine.
    Ollama,
    /// A model inside this program that needs no network and calls only the tools that a message names.
    Embedded,
}

impl Provider {
    /// Its spelling on the command line.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Where it is reached, the variables that usually hold its key (the first that is set counts),
    /// and the model when none is named.
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
            Self::Ollama => ("http://127.0.0.1:11434/v1", &["OLLAMA_API_KEY"], "llama3.2"),
            Self::Embedded => ("", &[], "embedded"),
        }
    }
}

/// How a model is reached.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    /// Whose format.
    pub provider: Provider,
    /// The address before `/messages`, `/chat/completions` or `/models/...`.
    pub base_url: Url,
    /// The model.
    pub model: String,
    /// The key; sent to `base_url` alone.
    pub key: Option<Secret>,
    /// Call tools by fenced blocks: for models without calls of their own.
    pub fenced: bool,
    /// Tokens of prompt and answer together.
    pub context: u64,
    /// Longest answer in tokens.
    pub max_output: u64,
    /// Longest silence.
    pub idle: Duration,
    /// How often it is tried; never more than four times.
    pub attempts: u32,
    /// The pause before the second attempt; doubled for each further one.
    pub backoff: Duration,
}

impl RemoteConfig {
    /// A model with the usual limits.
    pub fn new(provider: Provider, base_url: Url, model: impl Into<String>) -> Self {
        Self {
            provider,
            base_url,
            model: model.into(),
            key: None,
            fenced: false,
            context: 100_000,
            max_output: 8_192,
            idle: Duration::from_secs(90),
            attempts: 4,
            backoff: Duration::from_secs(1),
        }
    }
}

/// A request as a wire format makes it.
pub(super) struct ProviderRequest {
    /// What follows the base address.
    pub(super) path: String,
    /// Headers, the key among them.
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) body: Value,
}

/// The tools as a list of name, description and schema, under the name that a format has for it.
pub(super) fn tools(prompt: &ModelPrompt, schema: &str) -> Option<Vec<Value>> {
    let tools = prompt.tools.iter().map(
        |tool| json!({"name": tool.name, "description": tool.description, schema: tool.schema}),
    );
    (!prompt.tools.is_empty()).then(|| tools.collect())
}

/// Messages by role, those of one role in a row put together; ones that say nothing are left out.
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

/// Reads the stream of one answer.
pub(super) trait ReplyReader: Send {
    /// Takes one event.
    fn event(&mut self, data: &Value, reply: &mut ModelReply, on: OnDelta<'_>);

    /// The stream is over: completes the calls; gives whether the answer was complete.
    fn finish(&mut self, reply: &mut ModelReply) -> bool;
}

/// Why one attempt failed.
pub(super) struct Fault {
    pub(super) kind: LlmErrorKind,
    pub(super) message: String,
    /// Whether it may be different in a moment.
    pub(super) passes: bool,
    /// When the provider wants to be asked again.
    pub(super) after: Option<Duration>,
}

impl Fault {
    pub(super) fn new(kind: LlmErrorKind, message: impl Into<String>) -> Self {
        use LlmErrorKind::{Cut, RateLimited, Server, Timeout, Unreachable};
        let passes = matches!(kind, Cut | RateLimited | Server | Timeout | Unreachable);
        Self { kind, message: message.into(), passes, after: None }
    }

    /// What an error object of a provider says: all of them write `message`, and a word for its kind.
    pub(super) fn reported(status: Option<u16>, error: &Value) -> Self {
        use LlmErrorKind as K;
        let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let text = error.as_str().unwrap_or_else(|| word("message")).to_owned();
        let words = format!("{} {} {}", word("type"), word("code"), word("status")).to_lowercase();
        let code = error.get("code").and_then(Value::as_u64).map(|code| code as u16);
        let says = |part: &str| words.contains(part) || text.to_lowercase().contains(part);
        let kind = match status.or(code) {
            _ if says("context_length") || says("too long") || says("maximum context") => {
                K::TooLong
            }
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
        let mut fault = Self::new(kind, text);
        fault.passes &= !words.contains("insufficient_quota");
        let details = error.get("details").and_then(Value::as_array);
        let delay = details.into_iter().flatten().find_map(|d| d.get("retryDelay")?.as_str());
        let delay = delay.and_then(|delay| delay.strip_suffix('s')?.parse().ok());
        fault.after = delay.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        fault
    }
}
