//! The engine on a paused clock, with servers that live in the test: what a host promises, through
//! its public handle.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fake;
#[path = "../support/port.rs"]
mod port;

mod asleep;
mod callers;
mod calls;
mod changes;
mod control;
mod desired;
mod dev;
mod hold;
mod policy;
mod reload;
mod starting;
mod twice;
