//! JSON Schema validation of arguments and results (requirement R3), safe against hostile schemas.
//!
//! Owns compiling and checking. Must not fetch or read anything: a `$ref` that leaves the document
//! is refused. Every check ends within [`Limits::time`], whatever schema, pattern or value.

mod audit;
mod budget;
mod cache;
mod explain;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::Value;

pub use cache::Validators;

use crate::config::ContentLimits;
use crate::error::Violation;

/// Bounds on a schema and on the time spent with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Deepest nesting of sub-schemas (default 32).
    pub depth: usize,
    /// Most sub-schemas below the root (default 2,000).
    pub subschemas: usize,
    /// Largest schema, in bytes of compact JSON, estimated (default 1 MiB).
    pub bytes: usize,
    /// Longest time for compiling, and for one check (default 250 ms); time of the processor, where
    /// the platform tells it.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { depth: 32, subschemas: 2_000, bytes: 1 << 20, time: Duration::from_millis(250) }
    }
}

impl From<&ContentLimits> for Limits {
    fn from(limits: &ContentLimits) -> Self {
        Self {
            depth: limits.schema_depth as usize,
            subschemas: limits.subschemas as usize,
            time: limits.schema_time,
            ..Self::default()
        }
    }
}

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
    /// Nested deeper than [`Limits::depth`].
    TooDeep,
    /// More sub-schemas than [`Limits::subschemas`], or larger than [`Limits::bytes`].
    TooLarge,
    /// Compiling took longer than [`Limits::time`].
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The value fits.
    Valid,
    /// It does not; every place, at most [`Validator::MAX_VIOLATIONS`].
    Invalid(Vec<Violation>),
    /// It could not be told within the limits; the reason. Such a call may only be made past
    /// validation on purpose.
    Unknown(String),
}

impl Verdict {
    /// Whether the value is known to fit.
    pub const fn is_valid(&self) -> bool {
        matches!(self, Self::Valid)
    }
}

/// A compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct Validator {
    inner: Arc<Inner>,
}

struct Inner {
    schema: Value,
    formats: Formats,
    limits: Limits,
    cost: audit::Cost,
    /// Without a budget inside: for values that are provably cheap to check.
    plain: jsonschema::Validator,
    /// With a budget in every sub-schema; built when first needed.
    guarded: OnceLock<Result<jsonschema::Validator, SchemaProblem>>,
}

impl Validator {
    /// Most violations reported by one check; the last then says that there are more.
    pub const MAX_VIOLATIONS: usize = 1_000;

    /// Compiles `schema` with the default limits; 2020-12 unless `$schema` says otherwise.
    ///
    /// # Errors
    /// The first [`SchemaProblem`] found; [`schema_problems`] gives all.
    pub fn compile(schema: &Value) -> Result<Self, SchemaProblem> {
        Self::compile_with(schema, Formats::Dialect, Limits::default())
    }

    /// Compiles `schema`, with a choice about formats and limits.
    ///
    /// # Errors
    /// The first [`SchemaProblem`] found.
    pub fn compile_with(
        schema: &Value,
        formats: Formats,
        limits: Limits,
    ) -> Result<Self, SchemaProblem> {
        let cost = audit::audit(schema, &limits)?;
        let plain = if cost.is_bounded() {
            budget::compile(schema.clone(), cost.dialect, formats, limits.time)?
        } else {
            budget::compile(audit::guarded(schema), cost.dialect, formats, limits.time)?
        };
        let inner = Inner {
            schema: schema.clone(),
            formats,
            limits,
            cost,
            plain,
            guarded: OnceLock::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Checks `value`. Returns within microseconds for ordinary schemas; blocks the thread for at
    /// most about [`Limits::time`] for the others (use [`Validator::check_async`] in a task).
    pub fn check(&self, value: &Value) -> Verdict {
        if self.is_cheap(value) {
            return explain::verdict(&self.inner.plain, value);
        }
        self.check_guarded(value)
    }

    /// Checks `value` without ever blocking the executor: in place when that is provably cheap,
    /// otherwise on a thread of its own.
    pub async fn check_async(&self, value: &Value) -> Verdict {
        if self.is_cheap(value) {
            return explain::verdict(&self.inner.plain, value);
        }
        let (this, value) = (self.clone(), value.clone());
        tokio::task::spawn_blocking(move || this.check_guarded(&value))
            .await
            .unwrap_or_else(|_| Verdict::Unknown("the validation failed".to_owned()))
    }

    /// Whether checking `value` is known to take well under a millisecond.
    pub fn is_cheap(&self, value: &Value) -> bool {
        self.inner.cost.is_cheap_for(value)
    }

    fn check_guarded(&self, value: &Value) -> Verdict {
        let this = self.clone();
        let value = value.clone();
        budget::run(self.inner.limits.time, move || this.verdict_guarded(&value))
            .unwrap_or_else(|stopped| Verdict::Unknown(stopped.to_string()))
    }

    fn verdict_guarded(&self, value: &Value) -> Verdict {
        let inner = &*self.inner;
        if !inner.cost.is_bounded() {
            return explain::verdict(&inner.plain, value);
        }
        let guarded = inner.guarded.get_or_init(|| {
            budget::build(&audit::guarded(&inner.schema), inner.cost.dialect, inner.formats)
        });
        match guarded {
            Ok(validator) => explain::verdict(validator, value),
            Err(problem) => Verdict::Unknown(problem.message.clone()),
        }
    }
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator").field("schema", &self.inner.schema).finish_non_exhaustive()
    }
}

/// Every problem of a schema, for a report: limits, dialect, references and all places where it is
/// against its dialect's meta-schema. Empty when it can be used. Blocks like [`Validator::check`].
pub fn schema_problems(schema: &Value, limits: Limits) -> Vec<SchemaProblem> {
    let cost = match audit::audit(schema, &limits) {
        Ok(cost) => cost,
        Err(problem) => return vec![problem],
    };
    let meta = budget::against_meta_schema(schema.clone(), cost.dialect, limits.time);
    match meta {
        Ok(problems) if !problems.is_empty() => problems,
        Err(problem) => vec![problem],
        Ok(_) => {
            Validator::compile_with(schema, Formats::Dialect, limits).err().into_iter().collect()
        }
    }
}
