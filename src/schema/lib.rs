//! JSON Schema: the one reader of the schemas of tools, prompts and requests.
//!
//! A [`SchemaDocument`] is parsed once. From it come the joined schema of a place for a value
//! ([`merge`], for forms), what a place may be over all alternatives ([`Outline`], for lists, help and
//! the command line), its words ([`signature`], [`parameters`], [`tree`]) and the values of a new form
//! ([`seed`]). An [`AdaptedSchema`] is what a model provider takes. A [`Validator`] decides what is valid, and says in words what is not.
//!
//! A leaf: knows no configuration, server or screen, and does no I/O. Schemas come from servers, so
//! everything is bounded ([`SchemaLimits`]).

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod adapt;
mod audit;
mod budget;
mod document;
mod draft;
mod example;
mod explain;
mod keywords;
mod merge;
mod outline;
mod provider;
mod resolve;
mod seed;
mod spelling;
#[cfg(test)]
mod tests;
mod validate;
#[cfg(test)]
mod validate_tests;
mod verdict;
mod words;

pub use adapt::{AdaptedSchema, SchemaChange};
pub use document::{Schema, SchemaDocument, SubSchema, Types};
pub use example::{example_of_format, example_of_pattern};
pub use explain::quote_as_written;
pub use keywords::{Holds, holds};
pub use merge::{Conj, Merged, Union, fits, merge, same};
pub use outline::{Outline, OutlineProperty};
pub use provider::{SchemaForm, ToolFormat};
pub use seed::{Defaults, constants, empty, seed, strip_secrets};
pub use spelling::Spellings;
pub use validate::{Validator, schema_problems};
pub use verdict::{Formats, SchemaLimits, SchemaProblem, SchemaProblemKind, SchemaVerdict};
pub use words::{
    Parameter, SchemaLine, TypeStyle, parameters, signature, tree, type_text, type_words,
    variant_title,
};
