//! Compiled validators by schema, so that a tool's schema is compiled once.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;

use super::{Formats, Limits, SchemaProblem, Validator, Verdict};

type Compiled = Arc<Result<Validator, SchemaProblem>>;
type Entries = HashMap<usize, (Weak<Value>, Limits, Compiled)>;

/// A cache of compiled schemas, by the identity of the shared value; compiled anew under other
/// limits. Cheap to clone.
///
/// Entries whose schema is gone are dropped when the cache grows.
#[derive(Clone, Debug)]
pub struct Validators {
    entries: Arc<Mutex<Entries>>,
    /// Places to compile: many first calls at once must neither compile the same schema many times
    /// nor crowd each other out.
    compiling: Arc<Semaphore>,
}

impl Default for Validators {
    fn default() -> Self {
        let compiling = Arc::new(Semaphore::new(Self::COMPILING));
        Self { entries: Arc::default(), compiling }
    }
}

impl Validators {
    const SWEEP_AT: usize = 256;
    const COMPILING: usize = 2;

    /// The compiled form of `schema`; compiles it when it is new.
    pub fn get(&self, schema: &Arc<Value>, limits: Limits) -> Compiled {
        if let Some(found) = self.find(schema, limits) {
            return found;
        }
        // Compiled outside the lock: a slow schema must not hold up the others.
        let compiled = Arc::new(Validator::compile_with(schema, Formats::Dialect, limits));
        let mut entries = self.entries.lock();
        if entries.len() >= Self::SWEEP_AT && entries.len().is_power_of_two() {
            entries.retain(|_, (schema, ..)| schema.strong_count() > 0);
        }
        let key = Arc::as_ptr(schema) as usize;
        entries.insert(key, (Arc::downgrade(schema), limits, Arc::clone(&compiled)));
        compiled
    }

    /// Like [`Validators::get`], compiling off the executor when the schema is new.
    pub async fn get_async(&self, schema: &Arc<Value>, limits: Limits) -> Compiled {
        if let Some(found) = self.find(schema, limits) {
            return found;
        }
        let _place = self.compiling.acquire().await;
        if let Some(found) = self.find(schema, limits) {
            return found;
        }
        let (this, copy) = (self.clone(), Arc::clone(schema));
        match tokio::task::spawn_blocking(move || this.get(&copy, limits)).await {
            Ok(compiled) => compiled,
            Err(_) => self.get(schema, limits),
        }
    }

    /// Checks arguments against the `inputSchema` of a tool.
    pub async fn check_input(&self, schema: &Arc<Value>, limits: Limits, value: &Value) -> Verdict {
        match self.get_async(schema, limits).await.as_ref() {
            Ok(validator) => validator.check_async(value).await,
            Err(problem) => Verdict::Unknown(format!("its `inputSchema` is unusable: {problem}")),
        }
    }

    fn find(&self, schema: &Arc<Value>, limits: Limits) -> Option<Compiled> {
        let entries = self.entries.lock();
        let (weak, compiled_for, compiled) = entries.get(&(Arc::as_ptr(schema) as usize))?;
        // An address is reused after the schema is gone; the weak reference tells.
        let alive = weak.upgrade()?;
        (Arc::ptr_eq(&alive, schema) && *compiled_for == limits).then(|| Arc::clone(compiled))
    }
}
