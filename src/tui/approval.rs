//! Answering requests of servers by hand: what they say, read safely, and the drafts of answers.
//!
//! `sampling`, `elicitation` and `url` read and compose, `desk` is one request being answered,
//! `keys` says which key does what, `draw` shows it. None of them sends or opens anything.

pub mod desk;
pub mod draw;
pub mod elicitation;
pub mod keys;
pub mod sampling;
pub mod url;
