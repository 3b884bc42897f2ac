//! What a place may hold over all its alternatives, whatever its value is: for lists, help, and words
//! typed on a command line. A form, which knows the value, uses [`merge`](super::merge) instead. Pure.

use std::collections::VecDeque;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::Value;

use super::document::{Schema, SchemaDocument, SubSchema, Types};
use super::merge::{Conj, Merged, merge_always};

/// Maximum number of combinations of alternatives that are looked at.
const MAX_WAYS: usize = 32;

/// Everything a place may be.
#[derive(Clone, Debug)]
pub struct Outline<'a> {
    document: &'a SchemaDocument,
    /// Each combination of alternatives; empty for a place that nothing is said about.
    ways: Vec<Merged>,
}

/// A property of a place.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct OutlineProperty {
    /// Whether it is required whichever alternative is chosen.
    pub required: bool,
    /// The sub-schemas of each alternative that describes it.
    pub alternatives: Vec<Conj>,
}

impl<'a> Outline<'a> {
    /// The whole document.
    pub fn new(document: &'a SchemaDocument) -> Self {
        Self::from_alternatives(document, &[vec![Arc::clone(&document.root)]])
    }

    /// A place to which one of `alternatives` applies.
    pub fn from_alternatives(document: &'a SchemaDocument, alternatives: &[Conj]) -> Self {
        let mut ways = Vec::new();
        for conj in alternatives.iter().filter(|conj| !conj.is_empty()) {
            // The variants chosen, and the first choice that may still be varied.
            let mut open = VecDeque::from([(Vec::new(), 0)]);
            while let Some((picks, from)) = open.pop_front()
                && ways.len() < MAX_WAYS
            {
                let merged = merge_always(document, conj, &picks);
                for (slot, union) in merged.unions.iter().enumerate().skip(from) {
                    let others =
                        (0..union.variants.len()).filter(|variant| *variant != union.active);
                    for variant in others.take(MAX_WAYS) {
                        let mut next: Vec<Option<usize>> = picks.clone();
                        next.resize(slot, None);
                        next.push(Some(variant));
                        open.push_back((next, slot + 1));
                    }
                }
                ways.push(merged);
            }
        }
        Self { document, ways }
    }

    /// The document it is part of.
    pub const fn document(&self) -> &'a SchemaDocument {
        self.document
    }

    pub(super) fn ways(&self) -> &[Merged] {
        &self.ways
    }

    /// The first result of `say` for the sub-schemas of the place.
    pub fn first<T: ?Sized + 'static>(&self, say: impl Fn(&Schema) -> Option<&T>) -> Option<&T> {
        self.ways.iter().find_map(|way| way.first(&say))
    }

    /// JSON pointer of the sub-schema that describes it, the first if there are several.
    pub fn pointer(&self) -> Option<&str> {
        Some(&self.ways.first()?.nodes.first()?.at)
    }

    /// `description`
    pub fn description(&self) -> Option<&str> {
        self.first(|node| node.text("description"))
    }

    /// The properties of every alternative, and those that are required without being described.
    /// What depends on a condition is there, but not required.
    pub fn properties(&self) -> IndexMap<String, OutlineProperty> {
        let mut all: IndexMap<String, OutlineProperty> = IndexMap::new();
        let mut add = |merged: &Merged| {
            for (name, conj) in &merged.properties {
                let known = &mut all.entry(name.clone()).or_default().alternatives;
                if !known.iter().any(|other| is_same(other, conj)) {
                    known.push(conj.clone());
                }
            }
        };
        self.ways.iter().for_each(&mut add);
        for node in self.ways.iter().flat_map(|way| &way.nodes) {
            for conditional in conditional(node) {
                add(&merge_always(self.document, std::slice::from_ref(conditional), &[]));
            }
        }
        let Some((first, others)) = self.ways.split_first() else { return all };
        for name in &first.required {
            if others.iter().all(|way| way.required.contains(name)) {
                all.entry(name.clone()).or_default().required = true;
            }
        }
        all
    }

    /// The outline of a property.
    #[must_use]
    pub fn property(&self, property: &OutlineProperty) -> Self {
        Self::from_alternatives(self.document, &property.alternatives)
    }

    /// What a key that is not among the properties may hold; `None` if it is forbidden.
    pub fn other(&self, key: &str) -> Option<Self> {
        let all: Vec<Conj> = self.ways.iter().filter_map(|way| way.other(key)).collect();
        let is_allowed = self.ways.is_empty() || !all.is_empty();
        is_allowed.then(|| Self::from_alternatives(self.document, &all))
    }

    /// Whether keys that are not described are forbidden.
    pub fn is_closed(&self) -> bool {
        !self.ways.is_empty() && self.ways.iter().all(|way| way.closed)
    }

    /// Whether the place names its keys and says nothing of others, or forbids them.
    pub fn names_all_keys(&self) -> bool {
        let named = |way: &Merged| !way.properties.is_empty() && !way.speaks_of_others;
        !self.ways.is_empty()
            && self.ways.iter().all(|way| way.closed || named(way) && way.patterns.is_empty())
    }

    /// Whether nothing is said about the place.
    pub fn is_open(&self) -> bool {
        self.ways.is_empty()
    }

    /// The items of a list.
    #[must_use]
    pub fn items(&self) -> Self {
        let lists = self.ways.iter().filter(|way| way.kinds().contains(Types::ARRAY));
        let all: Vec<Conj> = lists.map(|way| way.items.clone()).collect();
        Self::from_alternatives(self.document, &all)
    }

    /// The names of the JSON types that the place may have, `null` last; empty for any.
    pub fn types(&self) -> Vec<&'static str> {
        let mut all: Vec<&str> = Vec::new();
        for way in &self.ways {
            let own = way_types(way);
            if own.is_empty() {
                return own;
            }
            all.extend(own);
        }
        // A number may be whole.
        let number = all.contains(&"number");
        let is_in = |name: &&str| all.contains(name) && !(number && *name == "integer");
        TYPE_NAMES.into_iter().filter(is_in).collect()
    }

    /// The values that the place may have, if they are listed.
    pub fn values(&self) -> Option<Vec<&Value>> {
        let mut all: Vec<&Value> = Vec::new();
        for way in &self.ways {
            for value in way_values(way)? {
                if !all.contains(&value) {
                    all.push(value);
                }
            }
        }
        (!all.is_empty()).then_some(all)
    }
}

const TYPE_NAMES: [&str; 7] = ["string", "integer", "number", "boolean", "array", "object", "null"];

/// The listed values of one alternative.
pub(super) fn way_values(way: &Merged) -> Option<&[Value]> {
    let fixed = way.fixed.as_ref().map(std::slice::from_ref);
    fixed.or_else(|| way.options.as_deref().map(Vec::as_slice))
}

/// The names of the types of one alternative; empty for any.
pub(super) fn way_types(way: &Merged) -> Vec<&'static str> {
    let number = if way.integer { "integer" } else { "number" };
    if let Some(values) = way_values(way).filter(|_| !way.typed) {
        let mut names: Vec<&str> = values.iter().map(type_name).collect();
        names.extend(way.nullable.then_some("null"));
        return TYPE_NAMES.into_iter().filter(|name| names.contains(name)).collect();
    }
    let kinds = if way.typed { way.types } else { way.kinds() };
    if kinds.is_all() {
        return Vec::new();
    }
    let named = [
        (Types::STRING, "string"),
        (Types::NUMBER, number),
        (Types::BOOLEAN, "boolean"),
        (Types::ARRAY, "array"),
        (Types::OBJECT, "object"),
        (Types::NULL, "null"),
    ];
    named.into_iter().filter(|(kind, _)| kinds.contains(*kind)).map(|(_, name)| name).collect()
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(n) if n.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn is_same(a: &Conj, b: &Conj) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// The sub-schemas that apply to some values only.
fn conditional(node: &Schema) -> impl Iterator<Item = &SubSchema> {
    ["then", "else", "dependentSchemas", "dependencies"]
        .into_iter()
        .flat_map(|keyword| node.parts(keyword))
}
