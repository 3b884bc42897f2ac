//! A cache of compiled validators, so that a tool's schema is compiled only once.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{OnceCell, Semaphore};

use super::{Formats, SchemaProblem, SchemaVerdict, Validator};
use config::ContentLimits;

type CompiledSchema = Arc<Result<Validator, SchemaProblem>>;
type SchemaEntries = HashMap<usize, (Weak<Value>, ContentLimits, Arc<OnceCell<CompiledSchema>>)>;

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
        Self { entries: Mutex::default(), compiling: Semaphore::new(Self::COMPILING) }
    }
}

impl Validators {
    const COMPILING: usize = 2;
    const SWEEP_AT: usize = 256;

    /// The compiled form of `schema`; a new one is compiled off the executor.
    pub async fn get(&self, schema: &Arc<Value>, limits: ContentLimits) -> CompiledSchema {
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
        limits: ContentLimits,
        value: &Value,
    ) -> SchemaVerdict {
        match self.get(schema, limits).await.as_ref() {
            Ok(validator) => validator.check_async(value).await,
            Err(problem) => {
                SchemaVerdict::Unknown(format!("its `inputSchema` is unusable: {problem}"))
            }
        }
    }

    fn cell(&self, schema: &Arc<Value>, limits: ContentLimits) -> Arc<OnceCell<CompiledSchema>> {
        let mut entries = self.entries.lock();
        let key = Arc::as_ptr(schema) as usize;
        // An address may be reused after the schema was dropped; the weak reference detects it.
        if let Some((known, compiled_for, cell)) = entries.get(&key)
            && known.strong_count() > 0
            && *compiled_for == limits
        {
            return Arc::clone(cell);
        }
        if entries.len() >= Self::SWEEP_AT && entries.len().is_power_of_two() {
            entries.retain(|_, (schema, ..)| schema.strong_count() > 0);
        }
        let cell = Arc::default();
        entries.insert(key, (Arc::downgrade(schema), limits, Arc::clone(&cell)));
        cell
    }
}
