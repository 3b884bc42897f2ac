//! What a schema costs before anything is compiled: limits, dialect, and whether checking is
//! provably cheap. Pure; walks at most as much as the limits allow.

use std::collections::HashMap;

use jsonschema::Draft;
use serde_json::{Map, Value};

use super::budget::KEYWORD;
use super::explain::safe;
use super::verdict::{Limits, SchemaProblem, SchemaProblemKind as Kind};
use crate::base::secret::percent_decoded;
use crate::config::diagnostics::child;

/// Steps (schema nodes x value nodes) that may be taken on the caller's own thread.
const CHEAP_STEPS: usize = 50_000;
/// Inlined size above which a schema is never checked on the caller's thread.
const BOUNDED: u32 = 20_000;

/// What is known of a schema's price.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    /// Its dialect.
    pub(super) dialect: Draft,
    /// Steps it takes, references inlined; `None` when that has no bound.
    price: Option<Price>,
    /// Whether text is matched against patterns.
    patterns: bool,
}

impl Cost {
    /// Whether the schema has a bound of its own, so that only the value decides.
    pub(super) const fn is_bounded(&self) -> bool {
        self.price.is_some()
    }

    /// Whether `value` can be checked within the steps allowed on the caller's thread.
    pub(super) fn is_cheap_for(&self, value: &Value) -> bool {
        let Some(price) = self.price else { return false };
        let left = CHEAP_STEPS.saturating_sub(price.here as usize);
        let mut left = left / (price.below.max(1) as usize);
        let bytes_per_step = if self.patterns { 16 } else { 1024 };
        spend(value, bytes_per_step, 0, &mut left)
    }
}

fn spend(value: &Value, bytes_per_step: usize, depth: usize, left: &mut usize) -> bool {
    let price = match value {
        Value::String(text) => 1 + text.len() / bytes_per_step,
        _ => 1,
    };
    let Some(rest) = left.checked_sub(price) else { return false };
    *left = rest;
    match value {
        _ if depth > 128 => false,
        Value::Array(items) => items.iter().all(|v| spend(v, bytes_per_step, depth + 1, left)),
        Value::Object(map) => map.values().all(|v| spend(v, bytes_per_step, depth + 1, left)),
        _ => true,
    }
}

/// Where a keyword holds sub-schemas.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holds {
    One,
    /// A schema, or an array of them (`items` before 2020-12).
    OneOrList,
    List,
    Map,
    /// Data, in which nothing is a schema.
    Data,
}

fn holds(keyword: &str) -> Option<Holds> {
    Some(match keyword {
        "additionalItems"
        | "additionalProperties"
        | "unevaluatedItems"
        | "unevaluatedProperties"
        | "contains"
        | "propertyNames"
        | "not"
        | "if"
        | "then"
        | "else"
        | "contentSchema" => Holds::One,
        "items" => Holds::OneOrList,
        "allOf" | "anyOf" | "oneOf" | "prefixItems" => Holds::List,
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
        | "dependencies" => Holds::Map,
        "enum" | "const" | "default" | "examples" | "example" => Holds::Data,
        _ => return None,
    })
}

/// The sub-schemas that stand directly in `schema`, each with keyword and inner key.
fn children(schema: &Map<String, Value>) -> impl Iterator<Item = (&str, Option<String>, &Value)> {
    schema.iter().flat_map(|(keyword, value)| {
        let list: Vec<(&str, Option<String>, &Value)> = match (holds(keyword), value) {
            (Some(Holds::List | Holds::OneOrList), Value::Array(items)) => items
                .iter()
                .enumerate()
                .map(|(i, v)| (keyword.as_str(), Some(i.to_string()), v))
                .collect(),
            (Some(Holds::Map), Value::Object(map)) => map
                .iter()
                .filter(|(_, v)| !v.is_array())
                .map(|(k, v)| (keyword.as_str(), Some(k.clone()), v))
                .collect(),
            (Some(Holds::One | Holds::OneOrList), v) => vec![(keyword.as_str(), None, v)],
            _ => Vec::new(),
        };
        list.into_iter()
    })
}

/// Checks limits and dialect, and reckons the cost.
pub(super) fn audit(schema: &Value, limits: &Limits) -> Result<Cost, SchemaProblem> {
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
    if !measure(schema, 0, limits.bytes, &mut bytes) {
        let message =
            format!("the schema is larger than {} KiB or nested too deep", limits.bytes >> 10);
        return Err(problem(Kind::TooLarge, "", message));
    }
    let dialect = dialect(schema.get("$schema"))
        .map_err(|message| problem(Kind::Dialect, "/$schema", message))?;
    let mut seen = 0;
    walk(schema, "", 0, &mut |sub, pointer, depth| {
        if depth > limits.depth {
            let message = format!("sub-schemas are nested deeper than {}", limits.depth);
            return Err(problem(Kind::TooDeep, pointer, message));
        }
        if seen > limits.subschemas {
            let message = format!("there are more than {} sub-schemas", limits.subschemas);
            return Err(problem(Kind::TooLarge, "", message));
        }
        seen += 1;
        if depth > 0
            && let Some(declared) = sub.get("$schema")
            && let Err(message) = self::dialect(Some(declared))
        {
            return Err(problem(Kind::Dialect, &format!("{pointer}/$schema"), message));
        }
        Ok(())
    })?;
    let mut reckoning = Reckoning { root: schema, known: HashMap::new(), patterns: false };
    let price = reckoning.price(schema, 0).filter(|price| price.here.max(price.below) <= BOUNDED);
    Ok(Cost { dialect, price, patterns: reckoning.patterns })
}

/// Rough size of the compact text; false when it exceeds `max` or nests too deep to recurse into.
fn measure(value: &Value, depth: usize, max: usize, bytes: &mut usize) -> bool {
    *bytes += match value {
        Value::String(text) => text.len() + 3,
        Value::Object(map) => map.keys().map(|k| k.len() + 4).sum::<usize>() + 2,
        _ => 4,
    };
    if *bytes > max || depth > 256 {
        return false;
    }
    match value {
        Value::Array(items) => items.iter().all(|v| measure(v, depth + 1, max, bytes)),
        Value::Object(map) => map.values().all(|v| measure(v, depth + 1, max, bytes)),
        _ => true,
    }
}

fn dialect(declared: Option<&Value>) -> Result<Draft, String> {
    let Some(declared) = declared else { return Ok(Draft::Draft202012) };
    let Some(uri) = declared.as_str() else {
        return Err("`$schema` must be text".to_owned());
    };
    let bare = uri.trim_end_matches('#');
    let bare = bare.strip_prefix("https://").or_else(|| bare.strip_prefix("http://"));
    match bare.unwrap_or(uri) {
        "json-schema.org/draft/2020-12/schema" | "json-schema.org/schema" => Ok(Draft::Draft202012),
        "json-schema.org/draft/2019-09/schema" => Ok(Draft::Draft201909),
        "json-schema.org/draft-07/schema" => Ok(Draft::Draft7),
        "json-schema.org/draft-06/schema" => Ok(Draft::Draft6),
        "json-schema.org/draft-04/schema" => Ok(Draft::Draft4),
        _ => Err(format!("`$schema` names an unknown dialect: {uri}")),
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
            pointer = child(&pointer, &key);
        }
        walk(sub, &pointer, depth + 1, visit)?;
    }
    Ok(())
}

/// Steps that one application of a schema can take.
#[derive(Clone, Copy, Debug, Default)]
struct Price {
    /// At the value itself.
    here: u32,
    /// At each value below it, at most.
    below: u32,
}

impl Price {
    fn add(&mut self, other: Self) {
        self.here = self.here.saturating_add(other.here);
        self.below = self.below.saturating_add(other.below);
    }

    const fn at_most(self) -> u32 {
        if self.here > self.below { self.here } else { self.below }
    }
}

struct Reckoning<'a> {
    root: &'a Value,
    /// By address; `None` while it is being reckoned (a cycle).
    known: HashMap<*const Value, Option<Price>>,
    patterns: bool,
}

impl<'a> Reckoning<'a> {
    fn price(&mut self, schema: &'a Value, depth: usize) -> Option<Price> {
        let Value::Object(map) = schema else { return Some(Price { here: 1, below: 0 }) };
        if let Some(known) = self.known.get(&std::ptr::from_ref(schema)) {
            return *known;
        }
        if depth > 200 {
            return None;
        }
        self.known.insert(schema, None);
        let mut total = Price { here: 1 + map.len() as u32, below: 0 };
        for (keyword, value) in map {
            let own = self.own(keyword, value, depth)?;
            total.add(own);
        }
        // Of `properties` and `prefixItems` only one applies to a given value below.
        let mut one_of_many = 0;
        for (keyword, _, child) in children(map) {
            if matches!(keyword, "$defs" | "definitions") {
                continue;
            }
            let price = self.price(child, depth + 1)?;
            match keyword {
                "properties" | "prefixItems" => {
                    total.here = total.here.saturating_add(1);
                    one_of_many = one_of_many.max(price.at_most());
                }
                "items"
                | "additionalItems"
                | "additionalProperties"
                | "patternProperties"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "contains"
                | "propertyNames" => {
                    total.below = total.below.saturating_add(price.at_most());
                }
                _ => total.add(price),
            }
        }
        total.below = total.below.saturating_add(one_of_many);
        self.known.insert(schema, Some(total));
        Some(total)
    }

    /// What a keyword costs besides its sub-schemas.
    fn own(&mut self, keyword: &str, value: &'a Value, depth: usize) -> Option<Price> {
        let here = |here: u32| Some(Price { here, below: 0 });
        match (keyword, value) {
            ("$ref", Value::String(target)) => {
                let pointer = target.strip_prefix('#')?;
                self.price(self.root.pointer(&percent_decoded(pointer))?, depth + 1)
            }
            ("$dynamicRef" | "$recursiveRef", _) => None,
            // A nested base URI changes what `#` means.
            ("$id", _) if depth > 0 => None,
            ("pattern", Value::String(pattern)) => here(self.pattern(pattern)?),
            ("patternProperties", Value::Object(map)) => {
                let sum = |sum: u32, p: &String| Some(sum.saturating_add(self.pattern(p)?));
                Some(Price { here: 0, below: map.keys().try_fold(0, sum)? })
            }
            ("format", _) => {
                self.patterns = true;
                here(4)
            }
            ("enum" | "required", Value::Array(items)) => here(items.len() as u32 / 4),
            ("enum" | "const" | "multipleOf", _) => here(4),
            _ => here(0),
        }
    }

    /// Only patterns whose automaton is small are matched on the caller's thread.
    fn pattern(&mut self, pattern: &str) -> Option<u32> {
        self.patterns = true;
        let counted = pattern.match_indices('{').any(|(at, _)| {
            let digits = |s: &str| s.chars().take_while(char::is_ascii_digit).count() > 2;
            let inner = &pattern[at + 1..];
            digits(inner) || inner.split_once(',').is_some_and(|(_, rest)| digits(rest))
        });
        let nested = pattern.matches('{').count() > 8;
        let special = || pattern.replace("(?:", "(").replace("(?i)", "").contains("(?");
        (pattern.len() <= 512 && !counted && !nested && !special())
            .then(|| 1 + pattern.len() as u32 / 8)
    }
}

/// A copy of `schema` with the deadline keyword in every object that may be a schema.
///
/// Unknown keywords may hold schemas that a `$ref` points into, so only known data is left out.
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
            // Maps of names to lists of names, or to anything a vocabulary likes.
            (None, Value::Object(_)) if matches!(keyword, "dependentRequired" | "$vocabulary") => {
                value.clone()
            }
            _ => schema_copy(value),
        }
    }
    schema_copy(schema)
}
