//! A cache of compiled validators, so that a tool's schema is compiled only once, and checks that do
//! not block the executor.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};

use config::ContentLimits;
use schema::{Formats, SchemaLimits, SchemaProblem, SchemaVerdict, Validator};

type CompiledSchema = Arc<Result<Validator, SchemaProblem>>;
type SchemaEntries = HashMap<usize, (Weak<Value>, SchemaLimits, Arc<OnceCell<CompiledSchema>>)>;

/// A cache of compiled schemas, keyed by the identity of the shared value; recompiled for other
/// limits.
///
/// Entries whose schema was dropped are removed when the cache grows.
#[derive(Debug)]
pub struct Validators {
    entries: Mutex<SchemaEntries>,
    /// Limits concurrent compilations, so that many first calls do not slow each other down.
    compiling: Semaphore,
}

impl Default for Validators {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            compiling: Semaphore::new(Self::MAX_CONCURRENT_COMPILATIONS),
        }
    }
}

impl Validators {
    const MAX_CONCURRENT_COMPILATIONS: usize = 2;
    const MIN_SWEPT_SCHEMAS: usize = 256;

    /// The compiled form of `schema`; a new one is compiled off the executor.
    pub async fn get(&self, schema: &Arc<Value>, limits: SchemaLimits) -> CompiledSchema {
        let compile =
            move |schema: &Value| Validator::compile_with(schema, Formats::Dialect, limits);
        let compiled = async {
            let _place = self.compiling.acquire().await;
            let copy = Arc::clone(schema);
            let done = tokio::task::spawn_blocking(move || compile(&copy)).await;
            Arc::new(done.unwrap_or_else(|_| compile(schema)))
        };
        Arc::clone(self.cell(schema, limits).get_or_init(|| compiled).await)
    }

    /// Checks arguments against the `inputSchema` of a tool.
    pub async fn check_input(
        &self,
        schema: &Arc<Value>,
        limits: SchemaLimits,
        value: &Value,
    ) -> SchemaVerdict {
        match self.get(schema, limits).await.as_ref() {
            Ok(validator) => check(validator, value).await,
            Err(problem) => {
                SchemaVerdict::Unknown(format!("its `inputSchema` is unusable: {problem}"))
            }
        }
    }

    fn cell(&self, schema: &Arc<Value>, limits: SchemaLimits) -> Arc<OnceCell<CompiledSchema>> {
        let mut entries = self.entries.lock();
        let key = Arc::as_ptr(schema) as usize;
        // An address may be reused after the schema was dropped; the weak reference detects it.
        if let Some((known, compiled_for, cell)) = entries.get(&key)
            && known.strong_count() > 0
            && *compiled_for == limits
        {
            return Arc::clone(cell);
        }
        if entries.len() >= Self::MIN_SWEPT_SCHEMAS && entries.len().is_power_of_two() {
            entries.retain(|_, (schema, ..)| schema.strong_count() > 0);
        }
        let cell = Arc::default();
        entries.insert(key, (Arc::downgrade(schema), limits, Arc::clone(&cell)));
        cell
    }
}

/// The limits of an entry on its schemas.
pub const fn schema_limits(limits: &ContentLimits) -> SchemaLimits {
    SchemaLimits {
        depth: limits.schema_depth,
        subschemas: limits.subschemas,
        time: limits.schema_time,
    }
}

/// Checks a value without blocking the executor: in place when that is cheap, otherwise on a
/// separate thread.
pub async fn check(validator: &Validator, value: &Value) -> SchemaVerdict {
    if let Some(verdict) = validator.check_in_place(value) {
        return verdict;
    }
    let (validator, value) = (validator.clone(), value.clone());
    tokio::task::spawn_blocking(move || validator.check_on_thread(&value))
        .await
        .unwrap_or_else(|_| SchemaVerdict::Unknown("the validation failed".to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn the_cache_compiles_a_schema_once_and_reports_reused_addresses_apart() {
        let cache = Validators::default();
        let schema = Arc::new(json!({"type": "string"}));
        let first = cache.get(&schema, SchemaLimits::default()).await;
        assert!(Arc::ptr_eq(&first, &cache.get(&schema, SchemaLimits::default()).await));
        for i in 0..600 {
            let other = Arc::new(json!({"const": i}));
            let compiled = cache.get(&other, SchemaLimits::default()).await;
            let validator = compiled.as_ref().as_ref().expect("compiles");
            assert!(validator.check(&json!(i)).is_valid());
        }
        assert!(Arc::ptr_eq(&first, &cache.get(&schema, SchemaLimits::default()).await));
        let nested = Arc::new(json!({"items": {"items": {}}}));
        assert!(cache.get(&nested, SchemaLimits::default()).await.is_ok());
        let shallow = SchemaLimits { depth: 1, ..SchemaLimits::default() };
        assert!(cache.get(&nested, shallow).await.is_err(), "limits that changed count at once");
    }

    #[tokio::test(start_paused = true)]
    async fn a_paused_clock_does_not_cut_a_check_short() {
        let validator = Validator::compile(&json!({"items": {"$ref": "#"}})).expect("compiles");
        assert!(check(&validator, &json!([[1], []])).await.is_valid());
        assert_eq!(check(&validator, &json!([[], []])).await, SchemaVerdict::Valid);
    }
}
