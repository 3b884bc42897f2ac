//! One server: its process, its session and the task that owns both.

pub mod account;
pub mod actor;
pub mod command;
pub mod connect;
pub mod context;
pub mod keeper;
pub mod lifecycle;
pub mod mailbox;
pub mod memory;
pub mod persons;
pub mod reach;
pub(crate) mod remedy;
pub mod slot;
pub mod turns;
