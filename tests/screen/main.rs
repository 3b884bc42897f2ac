//! The dashboard: its panes drawn in memory, and what people do at a terminal with the built program.
#![cfg(feature = "tui")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[cfg(all(unix, feature = "demo"))]
#[path = "../support/pty.rs"]
mod pty;
#[cfg(all(unix, feature = "demo"))]
#[path = "../support/helpers.rs"]
mod support;

#[cfg(all(unix, feature = "demo"))]
mod terminal;
mod tui;
