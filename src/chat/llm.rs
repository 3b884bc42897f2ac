//! What a language model is to the chat: a prompt in, text and tool calls out, errors that say what
//! was tried. Knows no wire format.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::text::SafeText;

/// Everything a model is given at once.
#[derive(Clone, Debug, Default)]
pub struct ModelPrompt {
    /// The system prompt.
    pub system: String,
    /// The conversation, oldest first. The results of calls follow the message that made them.
    pub messages: Vec<ChatMessage>,
    /// The tools it may call.
    pub tools: Vec<ToolSpec>,
}

/// A tool as a model sees it.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// Its name within `^[A-Za-z0-9_-]{1,64}$`.
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
    /// What the person wrote.
    User {
        /// The text.
        text: String,
    },
    /// What the model answered.
    Assistant(ModelReply),
    /// The result of one call.
    Tool {
        /// The call.
        id: String,
        /// The name that the model called.
        name: String,
        /// The text of the result, for the model.
        text: String,
        /// Whether the call failed.
        is_error: bool,
    },
}

/// A model's whole answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelReply {
    /// Its text.
    pub text: String,
    /// The calls it wants, in its order.
    pub calls: Vec<ToolCall>,
    /// Blocks of the provider that are sent back unchanged, such as signed reasoning.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub carried: Vec<Value>,
    /// The provider's count of tokens.
    #[serde(skip)]
    pub usage: TokenUsage,
    /// Why it ended.
    #[serde(skip)]
    pub stop: Stop,
}

/// A call that a model wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCall {
    /// Names the call within its conversation.
    pub id: String,
    /// The name that the model called.
    pub name: String,
    /// The arguments; the text as written when there is a `problem`.
    pub arguments: Value,
    /// Why it cannot be made: malformed, or not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The provider's signature, sent back unchanged (Gemini, thought signatures).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

impl ToolCall {
    /// A call with arguments as text; none at all are an empty object.
    pub fn new(id: String, name: String, arguments: &str) -> Self {
        let call = Self { id, name, ..Self::default() };
        if arguments.trim().is_empty() {
            return Self { arguments: Value::Object(serde_json::Map::new()), ..call };
        }
        let problem = match serde_json::from_str(arguments) {
            Ok(Value::Object(object)) => return Self { arguments: Value::Object(object), ..call },
            Ok(_) => "the arguments are not a JSON object".to_owned(),
            Err(error) => format!("the arguments are not JSON: {error}"),
        };
        Self { arguments: Value::String(arguments.to_owned()), problem: Some(problem), ..call }
    }

    /// The same call, which did not come to its end.
    #[must_use]
    pub fn unfinished(mut self) -> Self {
        self.problem = Some("the call was cut off before its end".to_owned());
        self
    }
}

/// An id for a call whose provider gives none.
pub fn call_id() -> String {
    format!("call_{:08x}", fastrand::u32(..))
}

/// Why a model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// It was done, or wants its calls made.
    #[default]
    End,
    /// It reached its longest answer.
    Length,
    /// The provider's content filter cut it off.
    Filtered,
}

/// Tokens of one answer or of a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenUsage {
    /// Tokens that were sent.
    pub input: u64,
    /// Tokens that were written.
    pub output: u64,
    /// Whether this is our estimate because the provider did not count.
    pub is_estimate: bool,
}

impl TokenUsage {
    /// Adds another.
    pub fn add(&mut self, other: Self) {
        self.input += other.input;
        self.output += other.output;
        self.is_estimate |= other.is_estimate;
    }
}

/// What happens while a model answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// More text.
    Text(String),
    /// More of its reasoning.
    Reasoning(String),
    /// It is asked again; what it said so far is void.
    Retry {
        /// Which attempt failed, from 1.
        attempt: u32,
        /// When it is asked again.
        after: Duration,
        /// What failed.
        why: SafeText,
    },
}

/// Receives what happens while a model answers.
pub(crate) type OnDelta<'a> = &'a mut (dyn FnMut(Delta) + Send);
/// An answer that is on its way.
pub(crate) type PendingReply<'a> = BoxFuture<'a, Result<ModelReply, LlmError>>;

/// A language model. Dropping the future aborts the answer.
pub trait LanguageModel: Send + Sync + 'static {
    /// What it is called.
    fn name(&self) -> &str;

    /// How many tokens a prompt and its answer may have together.
    fn context(&self) -> u64;

    /// Whether it calls tools by fenced blocks in its text.
    fn is_fenced(&self) -> bool {
        false
    }

    /// Answers a prompt, telling `on` of what comes meanwhile.
    fn reply<'a>(&'a self, prompt: &'a ModelPrompt, on: OnDelta<'a>) -> PendingReply<'a>;
}

/// What went wrong with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum LlmErrorKind {
    /// The key was refused.
    Unauthorized,
    /// Too many requests, or the quota is spent.
    RateLimited,
    /// The prompt does not fit the model.
    TooLong,
    /// A content filter refused.
    Filtered,
    /// The provider failed.
    Server,
    /// The provider refused the request.
    Refused,
    /// The stream ended before its end.
    Cut,
    /// Nothing came for too long.
    Timeout,
    /// Nobody answers at the address.
    Unreachable,
    /// What came is not what the provider's documentation says.
    Malformed,
}

/// Why a model gave no answer. Holds neither the request nor the key.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LlmError {
    /// What went wrong.
    pub kind: LlmErrorKind,
    /// The model.
    pub model: String,
    /// In words.
    pub message: SafeText,
    /// Our estimate of the tokens that were sent.
    pub tokens: u64,
    /// How often it was tried.
    pub attempts: u32,
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
