//! Transports of rmcp that hand every message through the [tap](super::wire::tap).
//!
//! Streamable HTTP and pipes; HTTP+SSE of 2024-11-05 and WebSocket have their place here.

pub mod http;
pub mod lines;
pub mod outbox;
pub mod pipe;
mod unasked;
