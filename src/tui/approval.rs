//! Manual answers to requests of servers: what they say, read safely, and the drafts of answers.
//!
//! `sampling`, `elicitation` and `url` read, `completion` composes, `answering` is one request being
//! answered, `media` its pictures and sounds as files, `roots` what is shared with a server; `keys` says which key does what, `draw` shows it. None of them sends or opens anything.

pub mod answering;
pub mod draw;
pub mod elicitation;
pub mod roots;
pub mod sampling;
