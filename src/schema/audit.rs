//! Inspects a schema before it is compiled: limits, dialect, and whether it may be checked on the
//! caller's thread. Pure; the work is bounded by the limits.

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::budget::KEYWORD;
use super::draft::{declared_draft, draft_of};
use super::explain::safe;
use super::keywords::{Holds, children, holds};
use super::verdict::{SchemaLimits, SchemaProblem, SchemaProblemKind as Kind};
use base::pointer::child_pointer;

/// Maximum size of a schema, in estimated bytes of compact JSON.
const MAX_SCHEMA_BYTES: usize = 1 << 20;
/// Maximum size of a value checked on the caller's thread: 1 per node and per 16 bytes of text.
const MAX_SMALL_VALUE_COST: usize = 50_000;
/// Maximum number of patterns in such a schema, and of entries of an `enum` or `required`: their
/// cost is not counted during a check.
const MAX_SMALL_PATTERNS: usize = 32;
const MAX_SMALL_ENTRIES: usize = 256;

/// The result of the inspection.
#[derive(Clone, Debug)]
pub(super) struct Audit {
    /// Its dialect.
    pub(super) dialect: Draft,
    /// Why it is read as an older draft than it should be without `$schema`.
    pub(super) note: Option<SchemaProblem>,
    /// Whether small values may be checked on the caller's thread: it has no references, so its
    /// depth is bounded as written, and keywords whose cost is not counted are cheap.
    pub(super) is_plain: bool,
}

/// Whether a value is small enough to be checked on the caller's thread.
pub(super) fn is_small(value: &Value) -> bool {
    fn spend(value: &Value, depth: usize, left: &mut usize) -> bool {
        let price = 1 + value.as_str().map_or(0, |text| text.len() / 16);
        let Some(rest) = left.checked_sub(price).filter(|_| depth <= 128) else { return false };
        *left = rest;
        match value {
            Value::Array(items) => items.iter().all(|v| spend(v, depth + 1, left)),
            Value::Object(map) => map.values().all(|v| spend(v, depth + 1, left)),
            _ => true,
        }
    }
    spend(value, 0, &mut { MAX_SMALL_VALUE_COST })
}

/// Whether a schema, without its sub-schemas, meets [`Audit::is_plain`].
fn is_plain(schema: &Value, patterns: &mut usize) -> bool {
    let Value::Object(map) = schema else { return true };
    let keys = map.get("patternProperties").and_then(Value::as_object);
    let pattern = map.get("pattern").and_then(Value::as_str);
    let mut all = keys.into_iter().flatten().map(|(key, _)| key.as_str()).chain(pattern);
    all.all(|pattern| {
        *patterns += 1;
        *patterns <= MAX_SMALL_PATTERNS && has_few_states(pattern)
    }) && !["$ref", "$dynamicRef", "$recursiveRef"].iter().any(|key| map.contains_key(*key))
        && ["enum", "required"].iter().all(|key| {
            map.get(*key).and_then(Value::as_array).is_none_or(|a| a.len() <= MAX_SMALL_ENTRIES)
        })
}

/// Whether a pattern is short, with at most two counted repetitions, each below 100.
fn has_few_states(pattern: &str) -> bool {
    let hundreds = |digits: &[u8]| digits.iter().all(u8::is_ascii_digit);
    pattern.len() <= 512
        && pattern.matches('{').count() <= 2
        && !pattern.as_bytes().windows(3).any(hundreds)
}

/// Checks limits and dialect.
///
/// # Errors
/// The first problem.
pub(super) fn audit(schema: &Value, limits: SchemaLimits) -> Result<Audit, SchemaProblem> {
    let problem = |kind, pointer: &str, message: String| SchemaProblem {
        kind,
        pointer: pointer.to_owned(),
        message: safe(&message),
    };
    if !matches!(schema, Value::Object(_) | Value::Bool(_)) {
        let message = "a schema is an object or true or false".to_owned();
        return Err(problem(Kind::NotASchema, "", message));
    }
    let mut bytes = 0;
    if !measure(schema, 0, &mut bytes) {
        let most = MAX_SCHEMA_BYTES >> 10;
        let message = format!("the schema is larger than {most} KiB or nested too deep");
        return Err(problem(Kind::TooLarge, "", message));
    }
    let (dialect, older) =
        draft_of(schema).map_err(|message| problem(Kind::Dialect, "/$schema", message))?;
    let (mut seen, mut patterns, mut is_plain) = (0, 0, true);
    walk(schema, "", 0, &mut |sub, pointer, depth| {
        if depth as u64 > limits.depth {
            let message = format!("sub-schemas are nested deeper than {}", limits.depth);
            return Err(problem(Kind::TooDeep, pointer, message));
        }
        if seen > limits.subschemas {
            let message = format!("there are more than {} sub-schemas", limits.subschemas);
            return Err(problem(Kind::TooLarge, "", message));
        }
        seen += 1;
        is_plain = is_plain && self::is_plain(sub, &mut patterns);
        if depth > 0
            && let Some(declared) = sub.get("$schema")
            && let Err(message) = declared_draft(declared)
        {
            return Err(problem(Kind::Dialect, &format!("{pointer}/$schema"), message));
        }
        Ok(())
    })?;
    let note = older.map(|older| problem(Kind::OlderDraft, &older.pointer, older.reason()));
    Ok(Audit { dialect, note, is_plain })
}

/// Estimates the compact size; false above [`MAX_SCHEMA_BYTES`], or when nested too deep to recurse.
fn measure(value: &Value, depth: usize, bytes: &mut usize) -> bool {
    *bytes += match value {
        Value::String(text) => text.len() + 3,
        Value::Object(map) => map.keys().map(|k| k.len() + 4).sum::<usize>() + 2,
        _ => 4,
    };
    if *bytes > MAX_SCHEMA_BYTES || depth > 256 {
        return false;
    }
    match value {
        Value::Array(items) => items.iter().all(|v| measure(v, depth + 1, bytes)),
        Value::Object(map) => map.values().all(|v| measure(v, depth + 1, bytes)),
        _ => true,
    }
}

type Visit<'v> = dyn FnMut(&Value, &str, usize) -> Result<(), SchemaProblem> + 'v;

fn walk(
    schema: &Value,
    pointer: &str,
    depth: usize,
    visit: &mut Visit<'_>,
) -> Result<(), SchemaProblem> {
    visit(schema, pointer, depth)?;
    let Value::Object(map) = schema else { return Ok(()) };
    for (keyword, key, sub) in children(map) {
        let mut pointer = format!("{pointer}/{keyword}");
        if let Some(key) = key {
            pointer = child_pointer(&pointer, &key);
        }
        walk(sub, &pointer, depth + 1, visit)?;
    }
    Ok(())
}

/// A copy of `schema` that names the dialect it is read as.
pub(super) fn with_dialect(schema: &Value, dialect: Draft) -> Value {
    let mut copy = schema.clone();
    if let Some(map) = copy.as_object_mut() {
        map.entry("$schema").or_insert_with(|| Value::from(dialect_uri(dialect)));
    }
    copy
}

const fn dialect_uri(dialect: Draft) -> &'static str {
    match dialect {
        Draft::Draft4 => "http://json-schema.org/draft-04/schema#",
        Draft::Draft6 => "http://json-schema.org/draft-06/schema#",
        Draft::Draft7 => "http://json-schema.org/draft-07/schema#",
        Draft::Draft201909 => "https://json-schema.org/draft/2019-09/schema",
        _ => "https://json-schema.org/draft/2020-12/schema",
    }
}

/// A copy of `schema` with the deadline keyword in every object that may be a schema.
///
/// Unknown keywords may contain schemas that a `$ref` refers to, so only known data is left out.
pub(super) fn guarded(schema: &Value) -> Value {
    fn schema_copy(schema: &Value) -> Value {
        match schema {
            Value::Object(map) => {
                let mut copy: Map<String, Value> =
                    map.iter().map(|(k, v)| (k.clone(), keyword_copy(k, v))).collect();
                copy.insert(KEYWORD.to_owned(), Value::Bool(true));
                Value::Object(copy)
            }
            Value::Array(items) => items.iter().map(schema_copy).collect(),
            other => other.clone(),
        }
    }
    fn keyword_copy(keyword: &str, value: &Value) -> Value {
        match (holds(keyword), value) {
            (Some(Holds::Data), _) => value.clone(),
            (Some(Holds::Map), Value::Object(map)) => {
                let copied = map.iter().map(|(k, v)| (k.clone(), schema_copy(v)));
                Value::Object(copied.collect())
            }
            _ => schema_copy(value),
        }
    }
    schema_copy(schema)
}
