//! Events of a chat, one JSON object each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::ServerName;
use crate::chat::llm::TokenUsage;
use crate::chat::prompt::Cost;

/// One event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ChatEvent {
    /// More of the model's text, as it wrote it.
    Text {
        /// The text.
        text: String,
    },
    /// The model calls a tool.
    ToolCall {
        /// Names the call.
        id: String,
        /// The name that the model called.
        name: String,
        /// The server; none for a tool that does not exist.
        server: Option<ServerName>,
        /// The tool as its server spells it.
        tool: Option<String>,
        /// The arguments.
        arguments: Value,
    },
    /// What the call gave.
    ToolResult {
        /// The call.
        id: String,
        /// The name that the model called.
        name: String,
        /// Whether it failed.
        is_error: bool,
        /// The text of the result, or why there is none.
        text: String,
        /// Milliseconds without the time a person took.
        duration_ms: u64,
        /// Milliseconds a person took.
        human_ms: u64,
    },
    /// How the turn goes on.
    Status {
        /// What happens.
        status: StatusKind,
        /// The tool it concerns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// More about it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The turn fails.
    Error {
        /// A stable word for what went wrong.
        code: String,
        /// In words.
        message: String,
        /// How often it was tried.
        attempts: u32,
        /// Our estimate of the tokens that were sent.
        tokens: u64,
    },
    /// The turn is over.
    Done {
        /// Why.
        reason: DoneReason,
        /// How often the model was asked.
        rounds: u32,
        /// How many calls it made.
        tool_calls: u32,
        /// Tokens of the turn.
        usage: TokenUsage,
        /// What each server took of every prompt.
        costs: Vec<Cost>,
        /// Tools that do not exist and how often this model called them, ever.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        unknown_tools: BTreeMap<String, u64>,
    },
}

impl ChatEvent {
    /// A status with a message.
    pub fn status(status: StatusKind, message: impl Into<String>) -> Self {
        Self::Status { status, tool: None, message: Some(message.into()) }
    }
}

/// A kind, a reason or a status as it is written in events.
pub(crate) fn word(kind: &impl Serialize) -> String {
    let word = serde_json::to_value(kind).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StatusKind {
    /// The model is asked.
    Processing,
    /// More of the model's reasoning; the message holds it.
    Reasoning,
    /// The model is asked again; its text of this answer so far is void.
    Retrying,
    /// A tool runs.
    Running,
    /// The longest results were shortened to fit the context.
    Shortened,
    /// Older messages were replaced by a summary.
    Summarised,
    /// The model called a tool that does not exist.
    UnknownTool,
    /// The model wrote a call that cannot be read.
    MalformedCall,
    /// The turn is stopped before its end; the message says why.
    Stopped,
    /// The answer is complete.
    Complete,
}

/// Why a turn is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DoneReason {
    /// The model was done.
    End,
    /// Its answer reached the longest length.
    Length,
    /// The provider's filter cut it off.
    Filtered,
    /// The person aborted it.
    Aborted,
    /// The model was asked as often as a turn may.
    Rounds,
    /// The same call gave the same result again and again.
    Loop,
    /// One tool failed several times in a row.
    ToolErrors,
    /// The budget of calls or tokens is spent.
    Budget,
    /// The model gave no answer.
    Failed,
}

impl DoneReason {
    /// Whether the turn came to its end.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::End | Self::Length)
    }
}
