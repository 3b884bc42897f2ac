//! Manual answers to requests of servers: what they say, read safely, and the drafts of answers.
//!
//! `sampling` and `elicitation` read, `answering` is one request being answered with its draft, `draw`
//! shows it, `roots` is what is shared with a server. None of them sends or opens anything.

pub mod answering;
pub mod draw;
pub mod elicitation;
pub mod roots;
pub mod sampling;
