//! A call of the model, as the conversation and its own screen show it.

use crate::prelude::*;

/// A call of the model.
#[derive(Debug)]
pub(super) struct ChatCall {
    pub id: String,
    pub name: SafeText,
    /// Its server, if there is such a tool.
    pub server: Option<String>,
    pub arguments: Value,
    /// How far it is, while it runs.
    pub progress: SafeText,
    pub result: Option<ChatOutcome>,
}

#[derive(Debug)]
pub(super) struct ChatOutcome {
    pub is_error: bool,
    pub text: String,
    /// Its pictures, as content blocks of a result.
    pub pictures: Vec<Value>,
    /// How long it took, if known.
    pub took: Option<Duration>,
}
