//! Events of a chat, one JSON object each.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::llm::TokenUsage;
use crate::media::ToolMedia;
use crate::prompt::Cost;
use base::ServerName;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum ChatEvent {
    /// The next part of the model's text.
    Text { text: String },
    /// The model calls a tool.
    ToolCall {
        /// The id of the call.
        id: String,
        /// The name that the model called.
        name: String,
        /// The server; `None` if the tool does not exist.
        server: Option<ServerName>,
        /// The tool's name at its server.
        tool: Option<String>,
        arguments: Value,
    },
    /// A running call tells how far it is.
    ToolProgress {
        /// The call.
        id: String,
        /// The name that the model called.
        name: String,
        /// How far it is, in words.
        message: String,
        /// Progress so far.
        progress: f64,
        /// Total, where the server tells it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        total: Option<f64>,
    },
    /// The result of a call.
    ToolResult {
        /// The call.
        id: String,
        /// The name that the model called.
        name: String,
        /// Whether it failed.
        is_error: bool,
        /// The text of the result, or why there is none.
        text: String,
        /// Its pictures: `mimeType` and about how many `bytes`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        pictures: Vec<Value>,
        /// The pictures themselves.
        #[serde(skip)]
        shown: Vec<ToolMedia>,
        /// Duration in milliseconds, excluding `human_ms`.
        duration_ms: u64,
        /// Time that the user took to answer, in milliseconds.
        human_ms: u64,
    },
    /// The progress of the turn.
    Status {
        /// The kind of status.
        status: StatusKind,
        /// The tool it concerns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// Details.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        message: Option<String>,
    },
    /// The turn failed.
    Error {
        /// A stable error code.
        code: String,
        /// The error message.
        message: String,
        /// Number of attempts.
        attempts: u32,
        /// Estimated number of tokens sent.
        tokens: u64,
    },
    /// The turn has ended.
    Done {
        /// Why.
        reason: DoneReason,
        /// The same in words.
        message: String,
        /// Number of model requests.
        rounds: u32,
        /// Number of tool calls.
        tool_calls: u32,
        /// Tokens of the turn.
        usage: TokenUsage,
        /// What the turn cost, in dollars, where the price of the model is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cost: Option<f64>,
        /// What the session has cost so far, likewise.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session_cost: Option<f64>,
        /// Cost of each server.
        costs: Vec<Cost>,
        /// Names of nonexistent tools that this model called in this chat, with counts.
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

/// The name of a kind, reason or status in events.
pub fn word(kind: &impl Serialize) -> String {
    let word = serde_json::to_value(kind).unwrap_or_default();
    word.as_str().unwrap_or_default().to_owned()
}

/// Kind of a status event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StatusKind {
    /// The model was asked.
    Processing,
    /// More of the model's reasoning; the message holds it.
    Reasoning,
    /// The model is asked again; its text of this answer so far is discarded.
    Retrying,
    /// The provider refused a tool, which is left out; the message says why.
    LeftOut,
    /// A tool is running.
    Running,
    /// The longest results were shortened to fit the context.
    Shortened,
    /// Older messages were replaced by a summary.
    Summarised,
    /// The model called a tool that does not exist.
    UnknownTool,
    /// The model wrote a call that cannot be read.
    MalformedCall,
    /// A call was not made: nobody consented, or the user or a rule refused it.
    Refused,
    /// The turn ended early or without a whole answer; the message gives the reason.
    Stopped,
    /// The answer is complete.
    Complete,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DoneReason {
    /// The model finished its answer.
    End,
    /// The answer reached the maximum length.
    Length,
    /// The provider's filter cut it off.
    Filtered,
    /// The model refused to answer.
    Refused,
    /// The answer holds nothing.
    Empty,
    /// The answer announces a tool call and holds none.
    NoCall,
    /// The provider ended the answer before its end.
    Halted,
    /// The user aborted it.
    Aborted,
    /// The turn reached its limit of model requests.
    Rounds,
    /// The same call returned the same result repeatedly.
    Loop,
    /// One tool failed several times in a row.
    ToolErrors,
    /// The turn reached its limit of calls or tokens.
    Budget,
    /// The model failed to answer.
    Failed,
}

impl DoneReason {
    /// Why, in words: what is missing from the answer, or what stopped it.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::End => "the answer is complete",
            Self::Length => "the answer was cut off at its maximum length",
            Self::Filtered => "the provider's content filter cut the answer off",
            Self::Refused => "the model refused to answer",
            Self::Empty => "the model gave an empty answer",
            Self::NoCall => "the model announced a tool call and sent none",
            Self::Halted => "the provider ended the answer before its end",
            Self::Aborted => "you stopped the answer",
            Self::Rounds => "stopped: the model was asked as often as it may be in one turn",
            Self::Loop => "stopped: the same call gave the same result again and again",
            Self::ToolErrors => "stopped: a tool failed several times in a row",
            Self::Budget => "stopped: the budget is spent",
            Self::Failed => "the model failed to answer",
        }
    }

    /// Whether the model completed its answer.
    pub const fn is_end(self) -> bool {
        matches!(self, Self::End)
    }

    /// What is missing from an answer that ended by itself, if anything is.
    pub const fn shortcoming(self) -> Option<&'static str> {
        match self {
            Self::Length
            | Self::Filtered
            | Self::Refused
            | Self::Empty
            | Self::NoCall
            | Self::Halted => Some(self.in_words()),
            Self::End
            | Self::Aborted
            | Self::Rounds
            | Self::Loop
            | Self::ToolErrors
            | Self::Budget
            | Self::Failed => None,
        }
    }
}
