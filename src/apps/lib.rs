//! MCP Apps (SEP-1865): the page that a server offers for the answers of a tool, shown in a browser.
//!
//! `document` reads the page and what it asks for, `serve` serves it on loopback in a sandbox of an
//! origin of its own, `connection` is the host's side of the protocol between page and host. What a
//! page calls goes through the engine as the caller `app:SERVER`, so that policy, consent and limits
//! apply to it.

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod connection;
mod document;
mod serve;

pub use document::{AppDocument, AppDomains};
pub use serve::{AppCall, AppEvent, AppListener, CalledTool};
