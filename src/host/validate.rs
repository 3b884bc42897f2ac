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
mod verdict;

use std::sync::{Arc, OnceLock};

use serde_json::Value;

pub use cache::Validators;
pub use verdict::{Formats, Limits, SchemaProblem, SchemaProblemKind, Verdict};

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
