//! Answers from the cache: fresh ones instead of a round trip, stale ones instead of an error (X1,
//! R7).

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::base::text::SafeText;
use crate::error::{Error, ErrorCode};
use crate::host::cache::{CacheKey, Keep, Kept, resource_params};
use crate::host::call::{AnswerSource, CallOutcome};
use crate::host::operation::{Answered, Operation};
use crate::host::server::slot::Live;
use crate::mcp::session::Request;

impl Operation {
    pub(super) fn fresh_answer(&self, live: &Live) -> Option<CallOutcome> {
        if self.options.bypass_cache || !live.config.cache.enabled || live.session.is_none() {
            return None;
        }
        let kept = self.deck.cache.fresh(&self.cache_key()?, self.deck.clock.now())?;
        let source = AnswerSource::Cache(kept.age);
        Some(self.answer_with(kept, source))
    }

    /// A kept answer of any age in place of the error, when the server cannot be asked.
    pub(super) fn stale_answer(&self, live: &Live, error: Error) -> Result<CallOutcome, Error> {
        let down = matches!(error.code, ErrorCode::ServerUnavailable | ErrorCode::CircuitOpen);
        let cache = &live.config.cache;
        if !down || self.options.bypass_cache || !cache.enabled || !cache.stale_if_unavailable {
            return Err(error);
        }
        let kept =
            self.cache_key().and_then(|key| self.deck.cache.any(&key, self.deck.clock.now()));
        let kept = kept.ok_or(error)?;
        // However young it is: its server could not be asked.
        let source = AnswerSource::Stale(kept.age);
        Ok(self.answer_with(kept, source))
    }

    /// Keeps an answer, unless a person had a part in it.
    pub(super) fn keep(&self, live: &Live, answered: &Answered, version: u64) {
        if let Some(key) = self.cache_key()
            && answered.waiting == Duration::ZERO
        {
            let label = SafeText::line(&self.target);
            let keep = Keep { key, label, result: answered.result.clone(), version };
            self.deck.cache.keep(&live.config.cache, keep, self.deck.clock.now());
        }
    }

    fn answer_with(&self, kept: Kept, source: AnswerSource) -> CallOutcome {
        tracing::debug!(
            target: "mcpdeck::call", server = %self.slot.name, request_id = self.id.0,
            action = "answered from the cache", fresh = kept.fresh,
        );
        CallOutcome {
            call: self.id,
            server: self.slot.name.clone(),
            target: self.target.to_string(),
            result: kept.result,
            is_error: false,
            output_violations: Vec::new(),
            guard_warnings: Vec::new(),
            forced: false,
            duration: Duration::ZERO,
            findings: Vec::new(),
            waiting: Duration::ZERO,
            source,
            caller: self.caller(&self.slot.live()),
        }
    }

    /// The key of this operation, when its answer may be kept at all.
    fn cache_key(&self) -> Option<CacheKey> {
        // Nothing is shared between callers that are decided about one by one.
        if self.admission.is_some() {
            return None;
        }
        let params = match &self.request {
            Request::ReadResource { uri } => resource_params(uri),
            Request::GetPrompt { name, arguments } => {
                canonical(&json!({"arguments": arguments, "name": &**name})).to_string()
            }
            _ => return None,
        };
        let server = self.slot.name.clone();
        Some(CacheKey { server, method: self.method.to_owned(), params })
    }
}

/// The same value with the keys of its objects in order, so that two spellings are one key.
fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut keys: Vec<_> = object.iter().collect();
            keys.sort_by_key(|(key, _)| key.as_str());
            let sorted = keys.into_iter().map(|(key, value)| (key.clone(), canonical(value)));
            Value::Object(sorted.collect::<Map<_, _>>())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}
