//! Leaf utilities that any layer may use: safe text, secrets, JSON pointers, clock, ring buffer, rate
//! allowance, whole-file reads and atomic replacement, human-readable figures.

#![cfg_attr(not(test), warn(clippy::expect_used))]

pub mod address;
pub mod allowance;
pub mod atomic;
pub mod clock;
pub mod file;
pub mod human;
pub mod logs;
pub mod masked;
pub mod name;
pub mod notices;
pub mod pointer;
pub mod ring;
pub mod secret;
pub mod state;
pub mod text;
pub mod violation;
pub mod watch;

pub use clock::{Clock, Timestamp, retry_after};
pub use logs::{LogLevel, LogRecord, LogSource};
pub use name::ServerName;
pub use ring::{Batch, Ring, Weighed};
pub use secret::{Redactor, Secret};
pub use text::SafeText;
pub use violation::Violation;
pub use watch::WatchMode;
