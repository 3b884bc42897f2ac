//! What people do at a terminal: the built binary in a pseudo-terminal, keys in, its screen read by a
//! terminal emulator. Waits for text, never for time.
#![cfg(all(unix, feature = "tui", feature = "demo"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod approvals;
mod calls;
mod check;
mod config;
mod dashboard;
mod dev;
#[path = "../support/pty.rs"]
mod pty;
#[path = "../support/helpers.rs"]
mod support;
