//! Configuration: `mcp.json` as plain data, with positions, diagnostics and expansion.
//!
//! A leaf: it knows nothing of the engine, a terminal or a network. Reads files only in
//! `discover`, `load` and `watch`.

pub mod diagnostics;
pub mod name;
pub mod schema;

pub use diagnostics::{Diagnostic, Position, Severity};
pub use name::ServerName;
pub use schema::*;
