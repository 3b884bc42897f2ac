//! mcpdeck: the flight deck for MCP (Model Context Protocol) servers.
//!
//! The library starts, supervises, queries and stops every server of an `mcp.json`; the binary of
//! the same name is its first user.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! # let folder = tempfile::tempdir().unwrap();
//! # let file = folder.path().join("mcp.json");
//! # std::fs::write(&file, r#"{"servers": {}}"#).unwrap();
//! let host = mcpdeck::Host::initialize(&file).await?;
//! for (server, offers) in host.get_tools() {
//!     println!("{server}: {} tools", offers.tools.len());
//! }
//! match host.call_tool("time.get_current_time", serde_json::json!({"timezone": "Etc/UTC"})).await {
//!     Ok(outcome) => println!("{}", outcome.result),
//!     Err(error) => println!("{}: {error}", error.code),
//! }
//! host.shutdown().await;
//! # Ok::<(), mcpdeck::Error>(())
//! # }).unwrap();
//! ```
//!
//! # Architecture
//! ```text
//!           +--------------- front ends (know ratatui, stdout, HTTP) --------------+
//!  main --> |  tui (dashboard)       check (headless)       cli verbs              |
//!           +---------^----------------------^-----------------------^-------------+
//!                     |   Host handle: commands down; view, facts, telemetry up
//!           +---------v------------------------------------------------------------+
//!  host     |  supervisor > server actors (1 task = 1 server)   router   approvals |
//!           |     | facts: bounded, lossless                   registry   cache    |
//!           |     +--> projector --> watch<Arc<HostView>> + journal                |
//!           |     | telemetry: rings, lossy and counted --> traffic, logs, metrics |
//!           +----------------------------------------------------------------------+
//!  config   (plain data; a leaf that both may read)
//! ```
//!
//! # Invariants
//! 1. `host` and `config` build without a terminal, an HTTP server or an LLM client
//!    (`cargo check --no-default-features`).
//! 2. Front ends never import each other and see the engine only through [`host::Host`].
//! 3. One task owns one server: its process, session and state.
//! 4. The view changes only in [`host::HostView::apply`]; the projector is its only writer.
//! 5. `render` takes `&self`, draws into a buffer, does no I/O, takes no lock, reads no clock.
//! 6. Every queue has a bound and a written overflow policy. Facts push back on the noisy server
//!    alone; telemetry drops the oldest and counts it. What needs a person lives in the view.
//! 7. Only `check`, `cli` and `main` write to stdout.
//! 8. Text from servers becomes [`base::text::SafeText`] once, where it enters.
//! 9. Secrets are [`base::secret::Secret`], which prints as `***`.

#![cfg_attr(not(test), warn(clippy::expect_used))]

pub mod base;
pub mod config;
pub mod deck;
pub mod error;
pub mod host;
pub mod mcp;
pub mod process;

#[cfg(feature = "chat")]
pub mod chat;
#[cfg(feature = "cli")]
pub mod check;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "demo")]
pub mod demo;
#[cfg(feature = "gateway")]
pub mod gateway;
#[cfg(feature = "mock")]
pub mod mock;
#[cfg(feature = "cli")]
pub mod telemetry;
#[cfg(feature = "tui")]
pub mod tui;

pub use config::McpConfig;
pub use deck::{Deck, DeckEvent};
pub use error::{Error, ErrorCode};
pub use host::{Host, HostBuilder, Startup};
