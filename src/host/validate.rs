//! JSON Schema validation of arguments and results (requirement R3), safe against hostile schemas.
//!
//! Owns compiling and checking. Must not fetch or read anything: a `$ref` outside the document is
//! rejected. [`ContentLimits::schema_time`] bounds every check, for any schema, pattern or value.

mod audit;
mod budget;
mod cache;
mod explain;
#[cfg(test)]
mod tests;
mod verdict;

use std::sync::Arc;

use serde_json::Value;

pub use cache::Validators;
pub use verdict::{Formats, SchemaProblem, SchemaProblemKind, SchemaVerdict};

use config::ContentLimits;

/// A compiled schema. Cheap to clone.
#[derive(Clone)]
pub struct Validator {
    inner: Arc<ValidatorInner>,
}

struct ValidatorInner {
    schema: Value,
    limits: ContentLimits,
    audit: audit::Audit,
    /// Compiled with a budget check in every sub-schema.
    validator: jsonschema::Validator,
}

impl Validator {
    /// Compiles `schema` with the default limits; the dialect is 2020-12 unless `$schema` is set.
    ///
    /// # Errors
    /// The first [`SchemaProblem`] found; [`schema_problems`] returns all.
    pub fn compile(schema: &Value) -> Result<Self, SchemaProblem> {
        Self::compile_with(schema, Formats::Dialect, ContentLimits::default())
    }

    /// Compiles `schema` with the given treatment of `format` and limits.
    ///
    /// # Errors
    /// The first [`SchemaProblem`] found.
    pub fn compile_with(
        schema: &Value,
        formats: Formats,
        limits: ContentLimits,
    ) -> Result<Self, SchemaProblem> {
        let audit = audit::audit(schema, &limits)?;
        let guarded = audit::guarded(schema);
        let validator = budget::compile(guarded, audit.dialect, formats, limits.schema_time)?;
        let inner = ValidatorInner { schema: schema.clone(), limits, audit, validator };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Checks `value`. Takes microseconds for ordinary schemas; for others blocks the thread while
    /// the budget [`ContentLimits::schema_time`] lasts (use [`Validator::check_async`] in a task).
    pub fn check(&self, value: &Value) -> SchemaVerdict {
        self.check_in_place(value).unwrap_or_else(|| self.check_on_thread(value))
    }

    /// Checks `value` without blocking the executor: in place when that is cheap, otherwise on a
    /// separate thread.
    pub async fn check_async(&self, value: &Value) -> SchemaVerdict {
        if let Some(verdict) = self.check_in_place(value) {
            return verdict;
        }
        let (this, value) = (self.clone(), value.clone());
        tokio::task::spawn_blocking(move || this.check_on_thread(&value))
            .await
            .unwrap_or_else(|_| SchemaVerdict::Unknown("the validation failed".to_owned()))
    }

    /// Checks `value` if that is cheap (a few milliseconds at most); otherwise returns `None`.
    pub fn check_in_place(&self, value: &Value) -> Option<SchemaVerdict> {
        if !self.inner.audit.is_plain || !audit::is_small(value) {
            return None;
        }
        budget::in_place(|| explain::verdict(&self.inner.validator, value))
    }

    fn check_on_thread(&self, value: &Value) -> SchemaVerdict {
        let (this, value) = (self.clone(), value.clone());
        let work = move || explain::verdict(&this.inner.validator, &value);
        budget::run(self.inner.limits.schema_time, work)
            .unwrap_or_else(|stopped| SchemaVerdict::Unknown(stopped.to_string()))
    }
}

impl std::fmt::Debug for Validator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Validator").field("schema", &self.inner.schema).finish_non_exhaustive()
    }
}

/// All problems of a schema, for a report: limits, dialect, references and violations of the
/// dialect's meta-schema. Empty when it is usable. Blocks like [`Validator::check`].
pub fn schema_problems(schema: &Value, limits: ContentLimits) -> Vec<SchemaProblem> {
    if let Err(problem) = audit::audit(schema, &limits) {
        return vec![problem];
    }
    let meta = budget::against_meta_schema(schema.clone(), limits.schema_time);
    match meta {
        Ok(problems) if !problems.is_empty() => problems,
        Err(problem) => vec![problem],
        Ok(_) => {
            Validator::compile_with(schema, Formats::Dialect, limits).err().into_iter().collect()
        }
    }
}
