//! The wire: interprets every byte of a server, whatever the transport. Parsing under a budget,
//! classification, attribution to calls, the traffic tap and the findings.
//!
//! Knows nothing of pipes and HTTP (`transport`) and nothing of requests and deadlines (`session`).
//! Everything here is synchronous: a message is interpreted where it is read, in wire order.

pub mod json;
pub mod message;
pub mod pump;
pub mod tap;
