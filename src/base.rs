//! Leaves that every layer may use: safe text, secrets, clock, ring, allowance, files read and
//! replaced whole, figures as people read them.

pub mod allowance;
pub mod atomic;
pub mod clock;
pub mod file;
pub mod hash;
pub mod human;
pub mod logs;
pub mod name;
pub mod ring;
pub mod secret;
pub mod text;
pub mod turn;
pub mod watch;

pub use clock::{Clock, Timestamp};
pub use logs::LogLevel;
pub use name::ServerName;
pub use watch::WatchMode;
