//! The chat: a language model that calls tools through the engine, so that policy, approvals,
//! limits and recordings apply to it as to every other caller.
//!
//! `llm` defines what a model is, `provider` implements it over HTTP, `embedded` and `scripted`
//! without a network;
//! `agent` runs a turn: model, calls, results, model again; `session`, `store` and `socket` serve
//! `serve --chat` and the dashboard; `replay` reads recordings. Independent of the terminal.

#![cfg_attr(not(test), warn(clippy::expect_used))]
#![allow(
    missing_docs,
    reason = "its readers are its authors: a doc stands where it says more than the name"
)]

pub mod agent;
pub mod catalog;
pub mod context;
pub mod draft;
pub mod embedded;
pub mod event;
pub mod fence;
pub mod files;
pub mod llm;
mod mask;
pub mod media;
pub mod prompt;
pub mod provider;
mod renewed;
pub mod replay;
pub mod scripted;
pub mod session;
pub mod settings;
mod sizes;
#[cfg(feature = "gateway")]
pub mod socket;
pub mod store;
mod whole;

pub use agent::{Agent, Conversation, TurnLimits};
pub use draft::ModelDrafter;
pub use embedded::Embedded;
pub use event::{ChatEvent, DoneReason, StatusKind};
pub use llm::{ChatMessage, LanguageModel, LlmError, LlmErrorKind};
pub use provider::{Provider, ProviderModel, RemoteConfig};
pub use scripted::Scripted;
pub use settings::ChatSettings;
