//! The library: the engine on a paused clock with in-process servers, sessions over pipes and HTTP,
//! the watched file, real processes, and the structure of the source. One program, because each test
//! program links the whole library.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fake;
#[path = "../support/port.rs"]
mod port;
#[path = "../support/helpers.rs"]
mod support;

mod architecture;
mod asleep;
mod callers;
mod calls;
mod changes;
mod control;
mod desired;
mod dev;
#[cfg(target_os = "linux")]
mod flood;
mod hold;
#[cfg(target_os = "linux")]
mod kill_host;
mod library;
mod policy;
#[cfg(target_os = "linux")]
mod process;
mod reload;
mod starting;
#[cfg(unix)]
mod transports;
mod twice;
mod watch;
mod wire;
