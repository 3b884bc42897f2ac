//! Answering requests of servers by hand: what they say, read safely, and the drafts of answers.
//!
//! `sampling`, `elicitation` and `url` are pure; drawing and keys are the pane's and the overlay's.

pub mod elicitation;
pub mod sampling;
pub mod url;
