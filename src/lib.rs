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
//! # In a build of yours
//! The default features are those of the binary. A host takes `default-features = false`: 202 packages
//! for servers that are started by a command, and 58 more with the feature `http` for those that are
//! reached over HTTP or a WebSocket (TLS, signing in).
//!
//! Two features of `serde_json` come with it, and cargo switches features on for a whole build. With
//! `preserve_order` the objects of every `serde_json::Value` keep the order of their keys: what servers
//! send is shown and passed on as it was written. `unbounded_depth` only adds a method that lifts the
//! limit on nesting, which the engine calls where its own limit applies; nothing else changes by it.
//!
//! # Architecture
//! ```text
//! main -> cli --+------------+-------------+------------+   front ends: know a terminal, stdout,
//!               tui          check         gateway      chat        HTTP or an LLM; never each other
//!               +------+-----+------+------+------+-----+
//!                      |   Deck: one running configuration          application layer, no screen
//!                      |   load, watch, trust, inputs, reload plan,
//!                      |   policy, secrets, history, saved calls, recordings
//!                      +------------+---------------------
//!                      Host: commands down; view, facts, telemetry up      engine
//!                      supervisor > server actors, router, operation, approvals, cache, limits
//!                      facts (bounded, lossless) -> projector -> watch<Arc<HostView>>, kept facts
//!                      telemetry (rings, lossy and counted) -> traffic, logs, metrics
//!               +-------------+-------------+
//!               mcp                         process         wire | operating system
//!               sessions, transports,       resolve, spawn, contain,
//!               sign-in                     stop, sweep, usage
//!                      |
//!               protocol: MCP as JSON-RPC, no I/O
//!               messages, eras, what servers offer, requests in flight, the tap
//!               +-------------+-------------+
//!               openapi: HTTP APIs as tools, for mcp
//!               config                schema             base
//!               text -> ServerConfig, JSON Schema: one   text, secret,               leaves
//!               diagnostics           reader for all     pointer, time, ring
//! ```
//! Each box is a crate below `src`, named `mcpdeck-NAME` and used under its short name; this one is the
//! stable face of them and the binary. What each knows stands in one line in its manifest. `mock` plays
//! servers from a script, `demo` holds those of `--demo`, `reach` knows the files of other MCP clients,
//! `cli::telemetry` is the log file.
//!
//! # Invariants
//! Each with what holds it; tests without a path are in `tests/engine/architecture.rs`.
//! 1. `base`, `schema`, `config`, `protocol`, `mcp`, `process`, `host` and `deck` build without a
//!    terminal, an HTTP server or an LLM client: their manifests, and
//!    `the_engine_depends_on_no_front_end`.
//! 2. Arrows run down the picture only: each part is a crate, and its manifest names what it may use.
//!    Modules of `host`, `deck`, `mcp`, `protocol` and `process` are private (the compiler); within a
//!    crate, `files_of_a_folder_do_not_go_round_in_circles`.
//! 3. One task owns one server, its process, session and state: only messages reach
//!    `host/server/actor.rs` (the compiler).
//! 4. The view changes only in [`host::HostView::apply`], and the projector is its only writer:
//!    `words_stay_where_they_belong`.
//! 5. Updates of the dashboard are pure: time, folder and environment are arguments. Drawing takes
//!    `&self` (the compiler), takes no lock and reads no clock: `words_stay_where_they_belong`.
//! 6. Every queue has a bound and a written overflow policy. Facts push back on the noisy server
//!    alone; telemetry drops the oldest and counts it. What needs a person lives in the view.
//!    `words_stay_where_they_belong` (no unbounded channel), `tests/engine/flood.rs`, `fixtures/faults`.
//! 7. Only `cli`, the terminal session and servers that are played write to stdout:
//!    `words_stay_where_they_belong` and the lints `print_stdout`, `print_stderr`.
//! 8. Text from servers becomes [`base::SafeText`] once, where it enters, and the functions that draw
//!    take nothing else: `terminal/ink.rs` (the compiler).
//! 9. Secrets are [`base::Secret`], which prints as `***`: the compiler, and `fixtures/faults`.
//! 10. A request in flight is one value with one owner, [`protocol::PendingRequest`]: id, deadline, cancel,
//!     progress, clock, byte counts, and where its answer goes. `tests/engine/wire`.
//! 11. One function, [`host::Policy::decide`], decides whether a caller may list, call, read or connect:
//!     `lists_and_calls_agree` in `tests/engine/policy.rs`.

#![cfg_attr(not(test), warn(clippy::expect_used))]

pub use base;
pub use config;
pub use config::error;
pub use deck;
pub use host;
pub use mcp;
pub use process;
pub use protocol;
pub use schema;

#[cfg(feature = "apps")]
pub use ::apps;
#[cfg(feature = "bench")]
pub use ::bench;
#[cfg(feature = "chat")]
pub use chat;
#[cfg(feature = "cli")]
pub use check;
#[cfg(feature = "cli")]
pub use cli;
#[cfg(feature = "cli")]
pub use cli::telemetry;
#[cfg(feature = "demo")]
pub use demo;
#[cfg(feature = "gateway")]
pub use gateway;
#[cfg(feature = "mock")]
pub use mock;
#[cfg(feature = "tui")]
pub use terminal;
#[cfg(feature = "tui")]
pub use tui;

/// The themes of the dashboard: names, and sources in TOML.
#[cfg(feature = "tui")]
pub const THEMES: terminal::theme::ShippedThemes = &[
    ("default", include_str!("../themes/default.toml")),
    ("dark", include_str!("../themes/dark.toml")),
    ("light", include_str!("../themes/light.toml")),
    ("high-contrast", include_str!("../themes/high-contrast.toml")),
    ("catppuccin", include_str!("../themes/catppuccin.toml")),
    ("catppuccin-latte", include_str!("../themes/catppuccin-latte.toml")),
    ("gruvbox", include_str!("../themes/gruvbox.toml")),
    ("tokyo-night", include_str!("../themes/tokyo-night.toml")),
    ("tokyo-night-light", include_str!("../themes/tokyo-night-light.toml")),
    ("nord", include_str!("../themes/nord.toml")),
    ("solarized", include_str!("../themes/solarized.toml")),
    ("solarized-light", include_str!("../themes/solarized-light.toml")),
];

pub use config::McpConfig;
pub use config::error::{Error, ErrorCode};
pub use deck::{Deck, DeckEvent};
pub use host::{Host, HostBuilder, Startup};

/// The Rust of the README is compiled with the examples of the documentation.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct ReadmeExamples;
