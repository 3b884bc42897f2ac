//! The results of compiling a schema and of checking a value.

use std::time::Duration;

use base::Violation;

/// Whether `format` is asserted or an annotation (JSON Schema 2020-12, validation, section 7.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Formats {
    /// As in the dialect: asserted up to draft-07, an annotation since 2019-09. Used by the engine
    /// for calls.
    #[default]
    Dialect,
    /// Asserted in every dialect; used for warnings in forms.
    Assert,
}

/// Kinds of problems of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SchemaProblemKind {
    /// Neither an object nor a boolean.
    NotASchema,
    /// `$schema` names an unknown dialect.
    Dialect,
    /// There is no `$schema`, and the schema is written for an older draft: it is read as that one.
    /// The schema is usable.
    OlderDraft,
    /// A `$ref` outside the document.
    RemoteRef,
    /// A `$ref` to a place that does not exist.
    UnresolvedRef,
    /// A `pattern` that is not a regular expression, or is too large.
    Pattern,
    /// Nested deeper than [`SchemaLimits::depth`].
    TooDeep,
    /// More sub-schemas than [`SchemaLimits::subschemas`], or too many bytes.
    TooLarge,
    /// Compiling took longer than [`SchemaLimits::time`].
    TooSlow,
    /// Violates the dialect's meta-schema.
    Invalid,
}

/// Why a schema cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SchemaProblem {
    /// The kind of problem.
    pub kind: SchemaProblemKind,
    /// JSON pointer into the schema; empty for the root.
    pub pointer: String,
    /// What is wrong, safe to print.
    pub message: String,
}

/// Limits on reading and applying one schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchemaLimits {
    /// Deepest nesting of sub-schemas.
    pub depth: u64,
    /// Most sub-schemas.
    pub subschemas: u64,
    /// Longest compilation, and longest check against it.
    pub time: Duration,
}

impl Default for SchemaLimits {
    fn default() -> Self {
        Self { depth: 32, subschemas: 2_000, time: Duration::from_millis(250) }
    }
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SchemaVerdict {
    /// The value is valid.
    #[default]
    Valid,
    /// The value is invalid; all violations, at most [`SchemaVerdict::MAX_VIOLATIONS`].
    Invalid(Vec<Violation>),
    /// It could not be determined within the limits, for this reason. Such a call requires an
    /// explicit override of validation.
    Unknown(String),
}

impl SchemaVerdict {
    /// Maximum number of violations reported by one check; the last may be the count of the rest.
    pub const MAX_VIOLATIONS: usize = 1_000;

    /// Whether the value is valid.
    pub const fn is_valid(&self) -> bool {
        matches!(self, Self::Valid)
    }
}
