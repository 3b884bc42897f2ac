//! The chat's interface to language models: prompts, answers with text and tool calls, and errors.
//! Independent of wire formats.

use std::fmt;
use std::fmt::Write as _;
use std::ops::Not;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::media::ToolMedia;
use base::secret::Redactor;
use base::text::SafeText;

/// The complete input of one model request.
#[derive(Clone, Debug, Default)]
pub struct ModelPrompt {
    pub system: String,
    /// The conversation, oldest first. The results of calls follow the message that made them.
    pub messages: Vec<ChatMessage>,
    /// The tools it may call.
    pub tools: Vec<ToolSpec>,
}

/// A tool as a model sees it.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// Its name; matches `^[A-Za-z0-9_-]{1,64}$`.
    pub name: String,
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments.
    pub schema: Arc<Value>,
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ChatMessage {
    /// A message of the user.
    User {
        text: String,
        /// What of it the user wrote, where files go with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        attached: Option<Box<WithFiles>>,
        /// Whether it is not sent any more, nor what it led to: a filter of the provider refused it,
        /// and would refuse all that comes with it.
        #[serde(default, skip_serializing_if = "Not::not")]
        withheld: bool,
        /// Pictures that were attached, for a model that takes them. They are not stored: the text
        /// names them.
        #[serde(skip)]
        media: Vec<ToolMedia>,
        /// How many of them there were, as the text names them.
        #[serde(default, skip_serializing_if = "is_none")]
        given: usize,
    },
    /// An answer of the model.
    Assistant(ModelReply),
    /// The result of one call.
    Tool {
        /// The id of the call.
        id: String,
        /// The name that the model called.
        name: String,
        /// The text of the result, for the model.
        text: String,
        /// Whether the call failed.
        is_error: bool,
        /// Its pictures and sounds, for a model that takes them. They are not stored: the text
        /// names them.
        #[serde(skip)]
        media: Vec<ToolMedia>,
        /// How many of them there were, as the text names them.
        #[serde(default, skip_serializing_if = "is_none")]
        given: usize,
    },
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
const fn is_none(count: &usize) -> bool {
    *count == 0
}

/// What the user wrote, and the files that go with it: the text of the message is both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WithFiles {
    pub written: String,
    pub names: Vec<String>,
    /// How many of them are pictures.
    #[serde(default)]
    pub pictures: usize,
}

impl WithFiles {
    /// The message as it is shown: with the names of its files.
    pub fn shown(&self) -> String {
        let names = self.names.iter().map(|name| format!("\n[{name}]"));
        let text = names.fold(self.written.clone(), |text, name| text + &name);
        text.trim_start().to_owned()
    }
}

/// A model's whole answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelReply {
    pub text: String,
    /// The calls it requests, in order.
    pub calls: Vec<ToolCall>,
    /// Provider blocks to send back unchanged, such as signed reasoning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<Value>,
    /// Token counts.
    #[serde(skip)]
    pub usage: TokenUsage,
    /// Why it ended.
    #[serde(skip)]
    pub stop: Stop,
    /// What the provider says of that.
    #[serde(skip)]
    pub why: String,
    /// How many of the oldest pictures and sounds of the conversation the provider was asked without,
    /// as it refused them.
    #[serde(skip)]
    pub refused_media: usize,
}

impl ChatMessage {
    /// A message of the user that is text alone.
    pub fn user(text: impl Into<String>) -> Self {
        let (media, given) = (Vec::new(), 0);
        Self::User { text: text.into(), attached: None, withheld: false, media, given }
    }

    /// Its pictures and sounds.
    pub(crate) fn media(&self) -> &[ToolMedia] {
        match self {
            Self::User { media, .. } | Self::Tool { media, .. } => media,
            Self::Assistant(_) => &[],
        }
    }

    /// The same, to take some of them away.
    pub(crate) fn media_mut(&mut self) -> Option<&mut Vec<ToolMedia>> {
        match self {
            Self::User { media, .. } | Self::Tool { media, .. } => Some(media),
            Self::Assistant(_) => None,
        }
    }

    /// Says in its text which of its pictures and sounds are not sent any more: the text names all.
    pub(crate) fn say_missing(&mut self) {
        let (Self::User { text, media, given, .. } | Self::Tool { text, media, given, .. }) = self
        else {
            return;
        };
        let missing = given.saturating_sub(media.len());
        let _ = match (missing, *given) {
            (0, _) => Ok(()),
            (_, 1) => write!(
                text,
                "\n[This picture or sound is not sent any more: you cannot see or hear it.]"
            ),
            (all, given) if all == given => {
                write!(
                    text,
                    "\n[None of these {all} pictures and sounds is sent any more: you cannot see or hear them.]"
                )
            }
            (some, given) => write!(
                text,
                "\n[The first {some} of these {given} pictures and sounds are not sent any more: you cannot \
                 see or hear them.]"
            ),
        };
        *given = media.len();
    }
}

impl ModelReply {
    /// Marks the last call as cut off, where the answer ended at its longest before the arguments did:
    /// without any they would be taken for none.
    pub(crate) fn cut_last_call(&mut self) {
        let is_open = |call: &ToolCall| {
            call.problem.is_some() || call.arguments.as_object().is_some_and(Map::is_empty)
        };
        if self.stop == Stop::Length
            && let Some(call) = self.calls.pop_if(|call| is_open(call))
        {
            self.calls.push(call.unfinished());
        }
    }

    /// Masks these secrets. What the provider would not take back changed goes.
    pub(crate) fn mask(&mut self, secrets: &Redactor) {
        // It may have been cut off within one.
        self.text = secrets.redact_cut_off(&self.text).into_owned();
        for call in &mut self.calls {
            if let Some(masked) = secrets.redact_json(&call.arguments) {
                (call.arguments, call.signature, call.extra) = (masked, None, None);
            }
        }
        if self.carried.iter().any(|block| secrets.redact_json(block).is_some()) {
            self.carried.clear();
        }
    }

    /// Whether it says and asks nothing.
    pub fn is_blank(&self) -> bool {
        self.calls.is_empty() && self.text.trim().is_empty()
    }
}

/// A call that a model requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Its id, unique within the conversation.
    pub id: String,
    /// The name that the model called.
    pub name: String,
    /// The arguments; the raw text if there is a `problem`.
    pub arguments: Value,
    /// Why it cannot be made: malformed or incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The provider's signature, sent back unchanged (Gemini, thought signatures).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
    /// What else the provider sent with it, sent back unchanged (`extra_content` of compatible
    /// addresses).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extra: Option<Value>,
}

impl ToolCall {
    /// Parses the arguments from JSON text; empty text and `null` mean an empty object.
    pub fn new(id: String, name: String, arguments: &str) -> Self {
        let call = Self { id, name, ..Self::default() };
        if arguments.trim().is_empty() {
            return Self { arguments: Value::Object(serde_json::Map::new()), ..call };
        }
        // Some models encode them twice.
        let read = serde_json::from_str(arguments).map(|value| match value {
            Value::String(inner) => serde_json::from_str(&inner).unwrap_or(Value::String(inner)),
            Value::Null => Value::Object(serde_json::Map::new()),
            value => value,
        });
        let problem = match read {
            Ok(Value::Object(object)) => return Self { arguments: Value::Object(object), ..call },
            Ok(_) => "the arguments are not a JSON object".to_owned(),
            Err(error) => format!("the arguments are not JSON: {error}"),
        };
        Self { arguments: Value::String(arguments.to_owned()), problem: Some(problem), ..call }
    }

    /// Marks the call as cut off.
    #[must_use]
    pub fn unfinished(mut self) -> Self {
        self.problem = Some("the call was cut off before its end".to_owned());
        self
    }
}

/// Generates an id for a call whose provider assigns none.
pub fn call_id() -> String {
    format!("call_{:08x}", fastrand::u32(..))
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// It finished, or requests calls.
    #[default]
    End,
    /// The answer reached the maximum length.
    Length,
    /// The provider's content filter cut it off.
    Filtered,
    /// The same, and the provider wants what was asked left out from now on.
    Declined,
    /// The model refused to answer; the text, if any, says why.
    Refused,
    /// The provider says that the model calls a tool, and sent no call.
    NoCall,
    /// The provider ended the answer for a reason of its own, which is not that it is whole.
    Halted,
    /// The provider paused a long turn; it goes on when it is asked again.
    Paused,
}

impl Stop {
    /// Whether calls of the answer are not to be made: the provider itself does not stand by it.
    pub(crate) const fn voids_calls(self) -> bool {
        match self {
            Self::Filtered | Self::Declined | Self::Refused | Self::Halted => true,
            Self::End | Self::Length | Self::NoCall | Self::Paused => false,
        }
    }
}

/// Tokens of one answer or of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Input tokens, with those that came from a cache or went to one.
    pub input: u64,
    /// Of these, those that the provider had in its cache.
    #[serde(default)]
    pub cached: u64,
    /// Of these, those that it put there at a price of its own.
    #[serde(default)]
    pub written: u64,
    pub output: u64,
    /// Whether these are our estimates, because the provider sent no counts.
    pub is_estimate: bool,
}

impl TokenUsage {
    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.input += other.input;
        self.cached += other.cached;
        self.written += other.written;
        self.output += other.output;
        self.is_estimate |= other.is_estimate;
    }
}

/// What a model costs, in dollars for a million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelPrice {
    pub input: f64,
    /// Input from the cache; defaults to `input`.
    pub cached: Option<f64>,
    /// Input that is put into the cache; defaults to `input`.
    pub written: Option<f64>,
    pub output: f64,
}

impl ModelPrice {
    /// What this usage costs, in dollars.
    pub fn cost(&self, usage: TokenUsage) -> f64 {
        let plain = usage.input.saturating_sub(usage.cached + usage.written);
        let parts = [
            (plain, self.input),
            (usage.cached, self.cached.unwrap_or(self.input)),
            (usage.written, self.written.unwrap_or(self.input)),
            (usage.output, self.output),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1e6
    }
}

/// Progress of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More of its reasoning.
    Reasoning(String),
    /// A retry follows; the answer so far is discarded.
    Retry {
        /// Which attempt failed, from 1.
        attempt: u32,
        /// Delay before the next attempt.
        after: Duration,
        /// Why the attempt failed.
        why: SafeText,
        /// What it has used.
        spent: TokenUsage,
    },
    /// The provider refused a tool, or the pictures and sounds, and is asked again without.
    LeftOut {
        tool: Option<String>,
        /// What happened, with the provider's words.
        why: SafeText,
    },
}

/// Receives the progress of an answer.
pub(crate) type OnDelta<'a> = &'a mut (dyn FnMut(Delta) + Send);
/// A pending answer.
pub(crate) type PendingReply<'a> = BoxFuture<'a, Result<ModelReply, LlmError>>;

/// A language model. Dropping the future aborts the answer.
pub trait LanguageModel: Send + Sync + 'static {
    fn name(&self) -> &str;

    /// Identifies the model and where it is reached: what was signed at one place is sent to no other.
    fn identity(&self) -> String {
        self.name().to_owned()
    }

    /// Context size in tokens: prompt and answer together.
    fn context(&self) -> u64;

    /// Learns what the provider tells of the model, such as its context, before the first prompt is
    /// made for it. Does nothing when it is known.
    fn prepare(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Messages to try it with.
    fn suggestions(&self) -> Vec<String> {
        Vec::new()
    }

    /// What it costs, if that is known.
    fn price(&self) -> Option<ModelPrice> {
        None
    }

    /// Whether it takes pictures or sound of this MIME type, in results of tools.
    fn takes(&self, _mime: &str) -> bool {
        false
    }

    /// Whether it calls tools by fenced blocks in its text.
    fn is_fenced(&self) -> bool {
        false
    }

    /// Answers a prompt, reporting progress to `on`.
    fn reply<'a>(&'a self, prompt: &'a ModelPrompt, on: OnDelta<'a>) -> PendingReply<'a>;
}

/// Kind of a model error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LlmErrorKind {
    /// The key was refused.
    Unauthorized,
    /// Too many requests, or the quota is exhausted.
    RateLimited,
    /// The prompt does not fit the model.
    TooLong,
    /// A content filter refused.
    Filtered,
    /// The provider had an internal error.
    Server,
    /// The provider refused the request.
    Refused,
    /// The stream ended prematurely.
    Cut,
    /// No data arrived in time.
    Timeout,
    /// The address cannot be reached.
    Unreachable,
    /// The response does not match the provider's documented format.
    Malformed,
}

/// Why a model failed to answer. Contains neither the request nor the key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmError {
    pub kind: LlmErrorKind,
    /// The model.
    pub model: String,
    pub message: SafeText,
    /// Estimated number of tokens sent.
    pub tokens: u64,
    /// Number of attempts.
    pub attempts: u32,
    /// What attempts that broke off have used.
    #[serde(skip)]
    pub spent: TokenUsage,
}

impl fmt::Display for LlmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", SafeText::line(&self.model), self.message)?;
        if self.attempts > 1 {
            write!(f, " (tried {} times)", self.attempts)?;
        }
        Ok(())
    }
}

impl std::error::Error for LlmError {}
