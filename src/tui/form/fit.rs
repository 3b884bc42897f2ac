//! Whether a value looks like a sub-schema: decides which variant is shown and whether a condition
//! applies. Quick and bounded; the engine's validator alone decides what is valid. Pure.

use serde_json::Value;

use super::schema::{Document, Schema, Types};

/// Most comparisons of one question; beyond them the answer is "yes".
const BUDGET: u32 = 5_000;

/// Whether `value` looks like `schema`.
pub fn fits(document: &Document, schema: &Schema, value: &Value) -> bool {
    let mut judge = Judge { document, left: BUDGET };
    judge.fits(schema, value, 0)
}

/// How well `value` fits: more is better. Used to choose among variants none of which fits.
pub fn likeness(document: &Document, schema: &Schema, value: &Value) -> u32 {
    let mut judge = Judge { document, left: BUDGET };
    judge.likeness(schema, value)
}

struct Judge<'a> {
    document: &'a Document,
    left: u32,
}

impl Judge<'_> {
    fn fits(&mut self, schema: &Schema, value: &Value, depth: u32) -> bool {
        if self.left == 0 || depth > 32 {
            return true;
        }
        self.left -= 1;
        !schema.never
            && fits_itself(schema, value)
            && self.fits_inside(schema, value, depth)
            && self.fits_combined(schema, value, depth)
    }

    fn fits_inside(&mut self, schema: &Schema, value: &Value, depth: u32) -> bool {
        match value {
            Value::Object(map) => {
                schema.required.iter().all(|name| map.contains_key(name))
                    && map.iter().all(|(name, v)| match schema.properties.get(name) {
                        Some(node) => self.fits(node, v, depth + 1),
                        None if schema.patterns.is_empty() => {
                            schema.additional.as_ref().is_none_or(|node| !node.never)
                        }
                        None => true,
                    })
            }
            Value::Array(items) => items.iter().take(64).enumerate().all(|(i, v)| {
                let node = schema.prefix.get(i).or(schema.items.as_ref());
                node.is_none_or(|node| self.fits(node, v, depth + 1))
            }),
            _ => true,
        }
    }

    fn fits_combined(&mut self, schema: &Schema, value: &Value, depth: u32) -> bool {
        let next = depth + 1;
        if let Some(reference) = &schema.reference
            && let Some(target) = self.document.resolve(reference)
            && !self.fits(target, value, next)
        {
            return false;
        }
        let any = |judge: &mut Self, list: &[super::schema::Node]| {
            list.is_empty() || list.iter().any(|node| judge.fits(node, value, next))
        };
        schema.all_of.iter().all(|node| self.fits(node, value, next))
            && any(self, &schema.any_of)
            && any(self, &schema.one_of)
            && schema
                .not
                .as_ref()
                .is_none_or(|node| self.left == 0 || !self.fits(node, value, next))
    }

    fn likeness(&mut self, schema: &Schema, value: &Value) -> u32 {
        let mut score = 0;
        let resolved = schema.reference.as_deref().and_then(|r| self.document.resolve(r));
        for node in std::iter::once(schema).chain(resolved.map(|node| &**node)) {
            if node.types.is_some_and(|types| types.has(Types::of(value))) {
                score += 1;
            }
            let Value::Object(map) = value else { continue };
            for (name, v) in map.iter().take(256) {
                if let Some(property) = node.properties.get(name) {
                    // A fixed value that agrees is what a discriminator is.
                    score += match (&property.fixed, &property.options) {
                        (Some(fixed), _) if same(fixed, v) => 100,
                        (Some(_), _) => 0,
                        (None, Some(options)) if options.len() == 1 && same(&options[0], v) => 100,
                        _ => 1 + u32::from(self.fits(property, v, 1)),
                    };
                }
            }
        }
        score
    }
}

fn fits_itself(schema: &Schema, value: &Value) -> bool {
    if schema.types.is_some_and(|types| !types.has(Types::of(value))) {
        return false;
    }
    if schema.fixed.as_ref().is_some_and(|fixed| !same(fixed, value)) {
        return false;
    }
    if schema.options.as_ref().is_some_and(|options| !options.iter().any(|o| same(o, value))) {
        return false;
    }
    match value {
        Value::Number(_) => {
            let n = value.as_f64().unwrap_or_default();
            (!schema.integer || n.fract() == 0.0)
                && schema.minimum.is_none_or(|(min, ex)| if ex { n > min } else { n >= min })
                && schema.maximum.is_none_or(|(max, ex)| if ex { n < max } else { n <= max })
        }
        Value::String(text) => {
            let length = text.chars().take(10_000).count() as u64;
            schema.length.0.is_none_or(|min| length >= min)
                && schema.length.1.is_none_or(|max| length <= max)
                && schema.pattern.as_deref().is_none_or(|pattern| matches(pattern, text))
        }
        _ => true,
    }
}

fn matches(pattern: &str, text: &str) -> bool {
    if pattern.len() > 256 || text.len() > 4_096 {
        return true;
    }
    regex::RegexBuilder::new(pattern)
        .size_limit(64 << 10)
        .build()
        .map_or(true, |regex| regex.is_match(text))
}

/// Equality as JSON Schema has it: numbers by value.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y || (x.as_f64() == y.as_f64() && (x.is_f64() || y.is_f64()))
        }
        _ => a == b,
    }
}
