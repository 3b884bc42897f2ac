//! What comes of a schema and of a check of a value.

use crate::error::Violation;

/// Whether `format` is an assertion or a note (JSON Schema 2020-12, validation, section 7.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Formats {
    /// What the dialect says: asserted up to draft-07, a note since 2019-09. What the engine uses
    /// for calls.
    #[default]
    Dialect,
    /// Asserted whatever the dialect; what a form shows as a warning.
    Assert,
}

/// What is wrong with a schema as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchemaProblemKind {
    /// Neither an object nor a boolean.
    NotASchema,
    /// `$schema` names a dialect that is not known.
    Dialect,
    /// A `$ref` that leaves the document.
    RemoteRef,
    /// A `$ref` to a place that does not exist.
    UnresolvedRef,
    /// A `pattern` that is no regular expression, or one too large.
    Pattern,
    /// Nested deeper than [`ContentLimits::schema_depth`](crate::config::ContentLimits).
    TooDeep,
    /// More sub-schemas than [`ContentLimits::subschemas`](crate::config::ContentLimits), or too
    /// many bytes.
    TooLarge,
    /// Compiling took longer than [`ContentLimits::schema_time`](crate::config::ContentLimits).
    TooSlow,
    /// Against the dialect's own meta-schema.
    Invalid,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaProblem {
    /// What kind.
    pub kind: SchemaProblemKind,
    /// JSON pointer into the schema; empty for the whole.
    pub pointer: String,
    /// What is wrong, safe to print.
    pub message: String,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SchemaVerdict {
    /// The value fits.
    #[default]
    Valid,
    /// It does not; every place, at most [`SchemaVerdict::MOST`].
    Invalid(Vec<Violation>),
    /// It could not be told within the limits; the reason. Such a call may only be made past
    /// validation on purpose.
    Unknown(String),
}

impl SchemaVerdict {
    /// Most violations reported by one check; the last then says that there are more.
    pub const MOST: usize = 1_000;

    /// Whether the value is known to fit.
    pub const fn is_valid(&self) -> bool {
        matches!(self, Self::Valid)
    }
}
