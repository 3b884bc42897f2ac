//! Initial values of new places: constants, defaults, required objects; removal of secrets. Pure.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value};

use super::document::{Schema, SchemaDocument, SubSchema, Types};
use super::merge::{Conj, Merged, merge};
use base::pointer::child_pointer;

/// Which defaults are written into the initial value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Defaults {
    /// Those of required places; the others are shown but not sent.
    #[default]
    Required,
    /// All of them, as elicitation requires (MCP, elicitation, default values).
    All,
}

/// The initial value of a required place; `None` if the user has to provide it.
pub fn seed(document: &SchemaDocument, conj: &[SubSchema], defaults: Defaults) -> Option<Value> {
    seed_at(document, conj, defaults, 0)
}

fn seed_at(
    document: &SchemaDocument,
    conj: &[SubSchema],
    defaults: Defaults,
    depth: u32,
) -> Option<Value> {
    let merged = merge(document, conj, None, &[]);
    let default = || merged.first(|node| node.value("default"));
    if let Some(value) = merged.only().or_else(default) {
        return Some(value.clone());
    }
    let is_object = merged.degraded.is_none()
        && merged.options.is_none()
        && (merged.types == Types::OBJECT || (!merged.typed && !merged.properties.is_empty()));
    if !is_object || depth > 6 {
        return None;
    }
    let mut map = Map::new();
    for (name, property) in &merged.properties {
        let seeded = if merged.required.contains(name) {
            seed_at(document, property, defaults, depth + 1)
        } else if defaults == Defaults::All {
            merge(document, property, None, &[]).first(|node| node.value("default")).cloned()
        } else {
            None
        };
        if let Some(value) = seeded {
            map.insert(name.clone(), value);
        }
    }
    Some(Value::Object(map))
}

/// Required members of a new object that can have only one value, such as the discriminator of a
/// variant.
pub fn constants(document: &SchemaDocument, merged: &Merged) -> Map<String, Value> {
    let required = merged.properties.iter().filter(|(name, _)| merged.required.contains(*name));
    let fixed = required.filter_map(|(name, conj)| {
        Some((name.clone(), merge(document, conj, None, &[]).only()?.clone()))
    });
    fixed.collect()
}

/// The empty value of a place's type, as opposed to unset and null.
pub fn empty(merged: &Merged) -> Option<Value> {
    let types = merged.types - Types::NULL;
    match types {
        Types::STRING => Some(Value::String(String::new())),
        Types::ARRAY => Some(Value::Array(Vec::new())),
        Types::OBJECT => Some(Value::Object(Map::new())),
        _ => None,
    }
}

// Secrets as marked by a schema (`writeOnly`, `format: password`): drawn as dots, and removed from
// everything written to disk: drafts, history, saved calls. Pure.

const MAX_DEPTH: usize = 64;

/// Removes all secrets from `value`; `picks` are the variants chosen at a pointer, as in [`merge`].
pub fn strip_secrets<'a>(
    document: &'a SchemaDocument,
    picks: &'a dyn Fn(&str) -> &'a [Option<usize>],
    value: &mut Value,
) {
    if document.has_secrets() {
        let root = vec![Arc::clone(&document.root)];
        let mut stripper = Stripper { document, picks, known: HashMap::new() };
        stripper.inside(&root, String::new(), value, 0);
    }
}

struct Stripper<'a> {
    document: &'a SchemaDocument,
    picks: &'a dyn Fn(&str) -> &'a [Option<usize>],
    /// Whether places of these sub-schemas are secret.
    known: HashMap<*const Schema, bool>,
}

impl Stripper<'_> {
    /// Whether any sub-schema that may apply to the place is secret. Every alternative of a union
    /// counts, shown or not: rather drop a value than write a secret to disk.
    fn is_secret(&mut self, conj: &Conj) -> bool {
        let document = self.document;
        let secret = |node: &SubSchema| {
            let (mut seen, mut left) = (HashSet::new(), vec![node]);
            while let Some(node) = left.pop() {
                if node.is_secret() {
                    return true;
                }
                // Alternatives may lead back to each other.
                if seen.insert(Arc::as_ptr(node)) {
                    left.extend(document.target(node));
                    left.extend(["allOf", "anyOf", "oneOf"].iter().flat_map(|key| node.parts(key)));
                }
            }
            false
        };
        let known = &mut self.known;
        conj.iter().any(|node| *known.entry(Arc::as_ptr(node)).or_insert_with(|| secret(node)))
    }

    fn inside(&mut self, conj: &Conj, at: String, value: &mut Value, depth: usize) {
        if depth > MAX_DEPTH || !(value.is_object() || value.is_array()) {
            return;
        }
        let merged = merge(self.document, conj, Some(value), (self.picks)(&at));
        match value {
            Value::Object(map) => {
                let names: Vec<String> = map.keys().cloned().collect();
                for name in names {
                    let known = merged.properties.get(&name).cloned();
                    let conj = known.or_else(|| merged.other(&name)).unwrap_or_default();
                    if self.is_secret(&conj) {
                        map.shift_remove(&name);
                    } else if let Some(member) = map.get_mut(&name) {
                        self.inside(&conj, child_pointer(&at, &name), member, depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    let conj = merged.item(i);
                    if self.is_secret(&conj) {
                        *item = Value::Null;
                    } else {
                        self.inside(&conj, format!("{at}/{i}"), item, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }
}
