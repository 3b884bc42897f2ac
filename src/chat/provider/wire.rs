//! Shared by the wire formats: providers, requests and readers of answers.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::llm::{ChatMessage, ModelPrice, ModelPrompt, ModelReply, OnDelta};
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

/// Providers that are compatible with `OpenAI`, by the names that people look for, and where they are
/// (the API reference of each).
const COMPATIBLE: [(&str, &str); 17] = [
    ("azure", "https://NAME.openai.azure.com/openai/v1"),
    ("bedrock", "https://bedrock-mantle.REGION.api.aws/v1"),
    ("cerebras", "https://api.cerebras.ai/v1"),
    ("deepseek", "https://api.deepseek.com/v1"),
    ("fireworks", "https://api.fireworks.ai/inference/v1"),
    ("groq", "https://api.groq.com/openai/v1"),
    ("grok", "https://api.x.ai/v1"),
    ("kimi", "https://api.moonshot.ai/v1"),
    ("llamacpp", "http://127.0.0.1:8080/v1"),
    ("lmstudio", "http://127.0.0.1:1234/v1"),
    ("mistral", "https://api.mistral.ai/v1"),
    ("moonshot", "https://api.moonshot.ai/v1"),
    ("openrouter", "https://openrouter.ai/api/v1"),
    ("together", "https://api.together.xyz/v1"),
    (
        "vertex",
        "https://REGION-aiplatform.googleapis.com/v1/projects/PROJECT/locations/REGION/endpoints/openapi",
    ),
    ("vllm", "http://127.0.0.1:8000/v1"),
    ("xai", "https://api.x.ai/v1"),
];

/// Where a provider is that is reached as one compatible with `OpenAI`: by its name, however it is
/// written.
pub fn compatible_address(name: &str) -> Option<&'static str> {
    let plain = name.chars().filter(char::is_ascii_alphanumeric);
    let plain = plain.collect::<String>().to_ascii_lowercase();
    let plain = plain.strip_suffix("ai").unwrap_or(&plain);
    let is_it = |known: &str| known.strip_suffix("ai").unwrap_or(known) == plain;
    COMPATIBLE.iter().find(|(known, _)| is_it(known)).map(|(_, address)| *address)
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
            // With its reasoning, which some count among it.
            max_output: 32_000,
            // Models think for minutes without a word, and what is asked again is paid again.
            idle: Duration::from_secs(300),
            attempts: 4,
            backoff: Duration::from_secs(1),
        }
    }
}

/// Cuts what a request adds by itself from an address that was copied whole.
pub(super) fn trim_endpoint(url: &mut Url) {
    let path = url.path().trim_end_matches('/');
    let ends = ["/chat/completions", "/responses", "/messages", "/api/chat"];
    if let Some(base) = ends.iter().find_map(|end| path.strip_suffix(end)) {
        let base = base.to_owned();
        url.set_path(&base);
    }
}

/// What to use instead of an address whose requests are signed one by one, which no key here does:
/// Amazon's and Google's clouds have others for keys and tokens (Amazon Bedrock user guide, Mantle and
/// API keys; Vertex AI guide, `OpenAI` compatibility and express mode).
pub(super) fn signing_address(url: &Url) -> Option<String> {
    let host = url.host_str().unwrap_or_default();
    let path = url.path();
    let is_compatible = ["/openai", "/anthropic"].iter().any(|part| path.contains(part));
    if host.starts_with("bedrock-runtime") && host.contains("amazonaws.com") && !is_compatible {
        let region = host.split('.').nth(1).unwrap_or("REGION");
        return Some(format!(
            "{host} wants each request signed, which is not done here; Bedrock takes its API keys at \
             https://bedrock-mantle.{region}.api.aws/v1 (--provider openai) and, for Claude, at \
             https://bedrock-mantle.{region}.api.aws/anthropic/v1 (--provider anthropic)"
        ));
    }
    if host.ends_with("aiplatform.googleapis.com") && path.contains("/publishers/anthropic") {
        return Some(format!(
            "{host} has an API of its own for Claude, which is not spoken here; a proxy that is \
             compatible with OpenAI reaches it (--provider openai --base-url URL)"
        ));
    }
    None
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

/// A picture or a sound of the result of a call.
pub(super) struct MediaOf<'a> {
    /// The name that the model called.
    pub(super) name: &'a str,
    /// Whether the call failed.
    pub(super) is_error: bool,
    pub(super) one: &'a ToolMedia,
}

/// The words before a picture or a sound that stands behind the results.
pub(super) fn media_words(name: &str) -> String {
    format!("What the call of {name} gave:")
}

/// The places behind which the pictures and sounds of the results before stand in a message of their
/// own: results are text alone, and those of one answer stay together.
pub(super) fn media_after(messages: &[ChatMessage], at: usize) -> Vec<MediaOf<'_>> {
    let is_result = |message: &ChatMessage| matches!(message, ChatMessage::Tool { .. });
    if !is_result(&messages[at]) || messages.get(at + 1).is_some_and(is_result) {
        return Vec::new();
    }
    let first = messages[..at].iter().rposition(|message| !is_result(message));
    let results = &messages[first.map_or(0, |first| first + 1)..=at];
    let all = results.iter().filter_map(|message| match message {
        ChatMessage::Tool { name, media, is_error, .. } => {
            Some(media.iter().map(|one| MediaOf { name, is_error: *is_error, one }))
        }
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

/// Gives the calls of a conversation ids and names that the provider takes: those of another model, before
/// the person changed it, may have a form of their own, and models call tools by names that no tool has.
/// The provider's own ids stay as they are.
pub(super) fn fit_calls(prompt: &mut ModelPrompt, config: &RemoteConfig) {
    let fit = |id: &mut String| {
        if !config.takes_id(id) {
            *id = short_id(id);
        }
    };
    for message in &mut prompt.messages {
        match message {
            ChatMessage::Assistant(reply) => {
                for call in &mut reply.calls {
                    fit(&mut call.id);
                    fit_name(&mut call.name);
                }
                for block in reply.carried.iter_mut().filter(|it| it["type"] == "tool_use") {
                    let mut id = block["id"].as_str().unwrap_or_default().to_owned();
                    fit(&mut id);
                    block["id"] = id.into();
                }
            }
            ChatMessage::Tool { id, name, .. } => {
                fit(id);
                fit_name(name);
            }
            ChatMessage::User { .. } => {}
        }
    }
}

/// Gives a name in the history the form that all providers take: `^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$`
/// (pydantic/pydantic-ai#4585; mastra-ai/mastra#13632; mcp-use/mcp-use#90).
fn fit_name(name: &mut String) {
    /// Most bytes of a name.
    const MAX_NAME_BYTES: usize = 64;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_begun = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if is_begun && name.len() <= MAX_NAME_BYTES && name.chars().all(is_plain) {
        return;
    }
    let plain = name.trim().chars().map(|c| if is_plain(c) { c } else { '_' });
    *name = if is_begun { "" } else { "t_" }.chars().chain(plain).take(MAX_NAME_BYTES).collect();
}

/// Takes what the provider signed out of a conversation: it refuses what it signed for another key, or
/// long ago.
pub(super) fn drop_state(prompt: &mut ModelPrompt, provider: Provider) {
    /// What Gemini takes instead of a signature (Gemini guide, Thought signatures, FAQ).
    const UNSIGNED: &str = "skip_thought_signature_validator";
    for message in &mut prompt.messages {
        let ChatMessage::Assistant(reply) = message else { continue };
        reply.carried.retain(is_placed);
        for call in &mut reply.calls {
            call.signature = (provider == Provider::Gemini).then(|| UNSIGNED.to_owned());
            let place = "/google/thought_signature";
            if let Some(signature) = call.extra.as_mut().and_then(|it| it.pointer_mut(place)) {
                *signature = json!(UNSIGNED);
            }
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

/// Whether a carried block stands for text or a call of the answer, to keep their order.
pub(super) fn is_placed(block: &Value) -> bool {
    block["type"] == "text" || block["type"] == "tool_use"
}

/// Reads the stream of one answer.
pub(super) trait ReplyReader: Send {
    /// Processes one event.
    fn event(&mut self, data: &Value, reply: &mut ModelReply, on: OnDelta<'_>);

    /// Completes the calls at the end of the stream; returns whether the answer was complete.
    /// `is_ended` tells that the stream said itself that it has ended (`[DONE]`).
    fn finish(&mut self, reply: &mut ModelReply, is_ended: bool) -> bool;
}
