//! Validation of arguments and results, safe against hostile schemas.
//!
//! Owns compiling and checking. Must not fetch or read anything: a `$ref` outside the document is
//! rejected. [`SchemaLimits::time`] bounds every check, for any schema, pattern or value.

use std::sync::Arc;

use serde_json::Value;

use super::verdict::{Formats, SchemaLimits, SchemaProblem, SchemaVerdict};
use super::{audit, budget, explain};

/// A compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct Validator {
    inner: Arc<ValidatorInner>,
}

struct ValidatorInner {
    schema: Value,
    limits: SchemaLimits,
    audit: audit::Audit,
    /// Compiled with a budget check in every sub-schema.
    validator: jsonschema::Validator,
}

impl Validator {
    /// Compiles `schema` with the default limits; the dialect is that of `$schema`; without it,
    /// 2020-12 or the older draft that the schema is written for.
    ///
    /// # Errors
    /// The first [`SchemaProblem`] found; [`schema_problems`] returns all.
    pub fn compile(schema: &Value) -> Result<Self, SchemaProblem> {
        Self::compile_with(schema, Formats::Dialect, SchemaLimits::default())
    }

    /// Compiles `schema` with the given treatment of `format` and limits.
    ///
    /// # Errors
    /// The first [`SchemaProblem`] found.
    pub fn compile_with(
        schema: &Value,
        formats: Formats,
        limits: SchemaLimits,
    ) -> Result<Self, SchemaProblem> {
        let audit = audit::audit(schema, limits)?;
        let guarded = audit::guarded(schema);
        let validator = budget::compile(guarded, audit.dialect, formats, limits.time)?;
        let inner = ValidatorInner { schema: schema.clone(), limits, audit, validator };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Checks `value`. Takes microseconds for ordinary schemas; for others blocks the thread while
    /// the budget [`SchemaLimits::time`] lasts.
    pub fn check(&self, value: &Value) -> SchemaVerdict {
        self.check_in_place(value).unwrap_or_else(|| self.check_on_thread(value))
    }

    /// Checks `value` if that is cheap (a few milliseconds at most); otherwise returns `None`.
    pub fn check_in_place(&self, value: &Value) -> Option<SchemaVerdict> {
        if !self.inner.audit.is_plain || !audit::is_small(value) {
            return None;
        }
        budget::in_place(|| explain::verdict(&self.inner.validator, value))
    }

    /// Checks `value` on a thread of its own, and waits for the verdict.
    pub fn check_on_thread(&self, value: &Value) -> SchemaVerdict {
        let (this, value) = (self.clone(), value.clone());
        let work = move || explain::verdict(&this.inner.validator, &value);
        budget::run(self.inner.limits.time, work)
            .unwrap_or_else(|stopped| SchemaVerdict::Unknown(stopped.to_string()))
    }
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator").field("schema", &self.inner.schema).finish_non_exhaustive()
    }
}

/// All problems of a schema, for a report: limits, dialect, references and violations of the
/// dialect's meta-schema. Empty when it is usable without remarks. Blocks like [`Validator::check`].
pub fn schema_problems(schema: &Value, limits: SchemaLimits) -> Vec<SchemaProblem> {
    let audit = match audit::audit(schema, limits) {
        Ok(audit) => audit,
        Err(problem) => return vec![problem],
    };
    let named = audit::with_dialect(schema, audit.dialect);
    match budget::against_meta_schema(named, limits.time) {
        Ok(problems) if !problems.is_empty() => problems,
        Err(problem) => vec![problem],
        Ok(_) => {
            let unusable = Validator::compile_with(schema, Formats::Dialect, limits).err();
            unusable.or(audit.note).into_iter().collect()
        }
    }
}
