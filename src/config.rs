//! Configuration: `mcp.json` as plain data, with positions, diagnostics and expansion.
//!
//! A leaf: it knows nothing of the engine, a terminal or a network. Writes files only in `edit`.

pub mod change;
pub mod diagnostics;
pub mod discover;
pub mod edit;
mod entry;
mod env_file;
pub mod environment;
mod expand;
mod file;
pub mod graph;
pub mod hazards;
pub mod import;
pub mod json_schema;
mod keys;
pub mod load;
pub mod mask;
pub mod names;
pub mod overview;
pub mod print;
pub mod schema;
mod shape;
pub mod source;
pub(crate) mod syntax;

pub use change::{ConfigChange, changed_settings};
pub use diagnostics::{
    Diagnostic, Origins, Position, Severity, SnippetMark, ValueOrigin, render, render_all,
};
pub use discover::{Pairs, discover, single_command, single_url};
pub(crate) use entry::{ENTRY_LABEL, HOST_LABEL, ID_FILE};
pub use environment::{Environment, Sources, input_variable};
#[cfg(feature = "cluster")]
pub(crate) use expand::expand_argument;
pub use json_schema::json_schema;
pub use load::{InputNeed, Loaded, load, load_text};
pub use print::{PrintDetail, effective, effective_text};
pub use schema::*;
