//! What a new place starts with: constants, defaults, and the objects that must be there. Pure.

use serde_json::{Map, Value};

use crate::tui::form::merge::{Conj, Merged, merge};
use crate::tui::form::pointer::join;
use crate::tui::form::row::{Decisions, item_conj, picks};
use crate::tui::form::schema::{SchemaDocument, SubSchema, Types};

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

/// What a place that comes into being must hold anyway: its required members that can have only one
/// value, such as the one that tells variants apart.
pub fn constants(document: &SchemaDocument, merged: &Merged) -> Map<String, Value> {
    let required = merged.properties.iter().filter(|(name, _)| merged.required.contains(*name));
    let fixed = required.filter_map(|(name, conj)| {
        Some((name.clone(), merge(document, conj, None, &[]).only()?.clone()))
    });
    fixed.collect()
}

/// An empty value of the kind a place wants: what "empty" means beside unset and null.
pub fn empty(merged: &Merged) -> Option<Value> {
    let types = merged.types - Types::NULL;
    match types {
        Types::STRING => Some(Value::String(String::new())),
        Types::ARRAY => Some(Value::Array(Vec::new())),
        Types::OBJECT => Some(Value::Object(Map::new())),
        _ => None,
    }
}

// What a schema calls secret (`writeOnly`, `format: password`): drawn as dots, and taken out of
// everything that is written to disk: drafts, history, saved calls. Pure.

const MAX_DEPTH: usize = 64;

/// Takes every secret out of `value`.
pub(super) fn strip(document: &SchemaDocument, decisions: &Decisions, value: &mut Value) {
    if document.has_secrets() {
        let root = vec![std::sync::Arc::clone(&document.root)];
        Stripper { document, decisions }.inside(&root, String::new(), value, 0);
    }
}

struct Stripper<'a> {
    document: &'a SchemaDocument,
    decisions: &'a Decisions,
}

impl Stripper<'_> {
    /// Whether the place itself is secret; goes on inside when it is not. Every alternative of a
    /// union counts, shown or not: better a value too few on disk than a secret too many.
    fn is_secret(&self, node: &SubSchema, depth: usize) -> bool {
        let mut inner = node
            .reference()
            .and_then(|reference| self.document.resolve(reference))
            .into_iter()
            .chain(["allOf", "anyOf", "oneOf"].into_iter().flat_map(|list| node.parts(list)));
        node.is_secret() || depth < MAX_DEPTH && inner.any(|node| self.is_secret(node, depth + 1))
    }

    fn inside(&self, conj: &Conj, at: String, value: &mut Value, depth: usize) {
        if depth > MAX_DEPTH || !(value.is_object() || value.is_array()) {
            return;
        }
        let merged = merge(self.document, conj, Some(value), picks(self.decisions, &at));
        match value {
            Value::Object(map) => {
                let names: Vec<String> = map.keys().cloned().collect();
                for name in names {
                    let known = merged.properties.get(&name).cloned();
                    let conj = known.or_else(|| merged.other(&name)).unwrap_or_default();
                    if conj.iter().any(|node| self.is_secret(node, 0)) {
                        map.shift_remove(&name);
                    } else if let Some(member) = map.get_mut(&name) {
                        self.inside(&conj, join(&at, &name), member, depth + 1);
                    }
                }
            }
            Value::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    let conj = item_conj(&merged, i);
                    if conj.iter().any(|node| self.is_secret(node, 0)) {
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
