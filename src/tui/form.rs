//! The form: any JSON Schema as fields, over one JSON value as the single source of truth.
//!
//! The value lives in [`FormState`]; rows are derived from schema and value, so that fields and
//! JSON are two views of the same value and nothing is lost by switching. Knows no server or call.

pub mod check;
pub mod draw;
pub mod edit;
pub mod editor;
pub mod input;
pub mod row;
pub mod state;
#[cfg(test)]
mod tests;

pub use check::{CheckJob, CheckResult, Problem};
pub use editor::JsonView;
pub use row::{FieldKind, FormRow, RowKind};
pub use state::FormState;
