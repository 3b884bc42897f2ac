//! The chat: a model that talks and calls tools through the engine, so that policy, approvals,
//! limits and recordings hold for it as for every other caller.
//!
//! `llm` is what a model is, `provider` reaches one over HTTP, `embedded` is one without; `agent`
//! runs a turn: model, calls, results, model again; `session`, `store` and `socket` are the chat of
//! `serve --chat` and of the dashboard; `replay` reads a recorded one. Must not know a terminal.

pub mod agent;
pub mod catalog;
pub mod context;
pub mod draft;
pub mod embedded;
pub mod event;
pub mod fence;
pub mod files;
pub mod llm;
pub mod prompt;
pub mod provider;
pub mod replay;
pub mod session;
pub mod settings;
#[cfg(feature = "gateway")]
pub mod socket;
pub mod store;

pub use agent::{Agent, Conversation, TurnLimits};
pub use draft::ModelDrafter;
pub use embedded::Embedded;
pub use event::{ChatEvent, DoneReason, StatusKind};
pub use llm::{ChatMessage, LanguageModel, LlmError, LlmErrorKind};
pub use provider::{Provider, ProviderModel, RemoteConfig};
pub use settings::ChatSettings;
