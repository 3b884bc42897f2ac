//! Manual answers to requests of servers: safe parsing of requests, and drafts of answers.
//!
//! `sampling` and `elicitation` parse requests, `answering` is the screen of one request with its
//! draft, `draw` draws it, `roots` is the form of shared roots. None of them does I/O.

pub mod answering;
pub mod draw;
pub mod roots;
pub mod sampling;
