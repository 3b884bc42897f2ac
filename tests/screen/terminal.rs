//! What people do at a terminal: the built binary in a pseudo-terminal, keys in, its screen read by a
//! terminal emulator. Waits for text, never for time.

mod approvals;
mod asked;
mod calls;
mod chat;
mod check;
mod config;
mod dashboard;
mod dev;
mod features;
mod first_minute;
mod suites;
mod why;
