//! What a new place starts with: constants, defaults, and the objects that must be there. Pure.

use serde_json::{Map, Value};

use super::merge::{Merged, merge};
use super::schema::{Document, Node, Types};

/// Which defaults are written into the value at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Defaults {
    /// Those of required places; the others are shown but not sent.
    #[default]
    Required,
    /// All of them (what an elicitation wants: MCP, elicitation, default values).
    All,
}

/// The value a required place starts with; `None` when a person must give it.
pub fn seed(document: &Document, conj: &[Node], defaults: Defaults) -> Option<Value> {
    seed_at(document, conj, defaults, 0)
}

fn seed_at(document: &Document, conj: &[Node], defaults: Defaults, depth: u32) -> Option<Value> {
    let merged = merge(document, conj, None, &[]);
    if let Some(fixed) = &merged.fixed {
        return Some(fixed.clone());
    }
    if let Some(options) = merged.options.as_ref().filter(|options| options.len() == 1) {
        return options.first().cloned();
    }
    if let Some(default) = merged.first(|node| node.default.as_ref()) {
        return Some(default.clone());
    }
    let is_object = merged.degraded.is_none()
        && merged.options.is_none()
        && (merged.types == Types::OBJECT || (!merged.typed && !merged.properties.is_empty()));
    if !is_object || depth > 6 {
        return None;
    }
    let mut map = Map::new();
    for (name, property) in &merged.properties {
        let wanted = merged.required.contains(name) || defaults == Defaults::All;
        let seeded = match (wanted, merged.required.contains(name)) {
            (true, true) => seed_at(document, property, defaults, depth + 1),
            (true, false) => default_of(document, property),
            _ => None,
        };
        if let Some(value) = seeded {
            map.insert(name.clone(), value);
        }
    }
    Some(Value::Object(map))
}

/// What a place that comes into being must hold anyway: its required members that can have only one
/// value, such as the one that tells variants apart.
pub fn constants(document: &Document, merged: &Merged) -> Map<String, Value> {
    let required = merged.properties.iter().filter(|(name, _)| merged.required.contains(*name));
    let fixed = required.filter_map(|(name, conj)| {
        let member = merge(document, conj, None, &[]);
        let only = member.options.filter(|options| options.len() == 1);
        let value = member.fixed.or_else(|| only?.first().cloned())?;
        Some((name.clone(), value))
    });
    fixed.collect()
}

fn default_of(document: &Document, conj: &[Node]) -> Option<Value> {
    merge(document, conj, None, &[]).first(|node| node.default.as_ref()).cloned()
}

/// An empty value of the kind a place wants: what "empty" means beside unset and null.
pub fn empty(merged: &Merged) -> Option<Value> {
    let types = merged.types.without(Types::NULL);
    match types {
        Types::STRING => Some(Value::String(String::new())),
        Types::ARRAY => Some(Value::Array(Vec::new())),
        Types::OBJECT => Some(Value::Object(Map::new())),
        _ => None,
    }
}
