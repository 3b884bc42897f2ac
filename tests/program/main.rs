//! The built program without a terminal: its arguments, the verbs, the check, recordings, the demo's
//! servers, and what the README says of it.
#![cfg(all(feature = "cli", feature = "mock"))]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod arguments;
mod check;
#[cfg(feature = "demo")]
mod demo;
mod mock;
mod readme;
mod recording;
mod start_order;
#[path = "../support/helpers.rs"]
mod support;
mod verbs;
