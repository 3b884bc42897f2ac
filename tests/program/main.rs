//! The built program without a dashboard: its arguments, the verbs, the check, recordings, the
//! gateway, the chat, signing in, the demo's servers, and what the README says of it.
#![cfg(all(feature = "cli", feature = "mock"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[cfg(any(feature = "chat", feature = "gateway"))]
#[path = "../engine/fake.rs"]
#[expect(dead_code, reason = "shared with the tests of the engine")]
mod fake;
#[cfg(any(feature = "chat", feature = "apps", feature = "gateway"))]
#[path = "../support/page.rs"]
mod page;
#[path = "../support/port.rs"]
mod port;
#[cfg(feature = "chat")]
#[path = "../support/provider.rs"]
mod provider;
#[cfg(all(unix, feature = "gateway", feature = "tui", feature = "demo"))]
#[path = "../support/pty.rs"]
mod pty;
#[path = "../support/helpers.rs"]
mod support;

#[cfg(feature = "apps")]
mod apps;
mod arguments;
mod auth;
#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "chat")]
mod chat;
mod check;
#[cfg(all(unix, feature = "cluster", feature = "chat"))]
#[expect(clippy::print_stderr, reason = "the long run tells its figures")]
mod cluster;
#[cfg(feature = "demo")]
mod demo;
#[cfg(feature = "gateway")]
mod gateway;
#[cfg(all(unix, feature = "gateway", feature = "tui", feature = "demo"))]
mod local;
mod mock;
mod openapi;
mod packages;
mod readme;
mod recording;
mod start_order;
mod verbs;
