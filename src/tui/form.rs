//! The form: any JSON Schema as fields, over one JSON value that is the only truth.
//!
//! The value lives in [`FormState`]; rows are derived from schema and value, so that form and JSON
//! are two views of the same thing and nothing is lost by switching. Owns no server and no call.

pub mod check;
pub mod command;
pub mod draw;
pub mod edit;
pub mod field;
mod fit;
mod hint;
pub mod input;
pub mod json;
mod keep;
mod merge;
mod moment;
pub mod mouse;
mod moved;
pub mod pointer;
pub mod popup;
pub mod problem;
pub mod row;
pub mod schema;
mod secret;
pub mod seed;
mod sheet;
pub mod state;
#[cfg(test)]
mod tests;

pub use check::{CheckJob, Checked};
pub use field::FieldKind;
pub use problem::Problem;
pub use row::{Row, RowKind};
pub use seed::Defaults;
pub use state::FormState;
