//! One server: its process, its session and the task that owns both.

pub mod process;
pub mod session;
