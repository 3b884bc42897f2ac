//! One server: its process, its session and the task that owns both.

pub mod actor;
pub mod allowance;
pub mod client;
pub mod connect;
pub mod keeper;
pub mod lifecycle;
pub mod process;
pub mod reach;
pub(in crate::host) mod remedy;
pub mod session;
pub mod slot;
pub mod transport;
pub mod wire;
