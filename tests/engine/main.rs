//! The engine on a paused clock with in-process fake servers: the guarantees of a host, through its
//! public handle.

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
