//! A JSON Schema parsed once into shared, typed nodes. Pure. Never fails: anything not understood
//! is left out of the nodes, but remains in the raw schema.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use jsonschema::Draft;
use serde_json::{Map, Value};

use super::draft::{draft_of, ignores_siblings};
use super::keywords::{Holds, holds};
use super::resolve::RefTargets;
use super::spelling::Spellings;
use base::pointer::child_pointer;
use base::text::json::WrittenNumbers;

bitflags::bitflags! {
    /// JSON types.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Types: u8 {
        /// `null`
        const NULL = 1;
        /// `boolean`
        const BOOLEAN = 2;
        /// `number`; integers are distinguished by [`Schema::integer`].
        const NUMBER = 4;
        /// `string`
        const STRING = 8;
        /// `array`
        const ARRAY = 16;
        /// `object`
        const OBJECT = 32;
    }
}

impl Types {
    /// The type of a value.
    pub const fn from_value(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }
}

/// A sub-schema, shared.
pub type SubSchema = Arc<Schema>;

/// One sub-schema: its keywords as written, and its own sub-schemas.
#[derive(Debug, Default)]
pub struct Schema {
    /// JSON pointer of this sub-schema within the document.
    pub at: String,
    /// JSON pointer of the nearest schema above (or itself) that has an `$id`, within which its
    /// references are resolved; empty for the root.
    base: Arc<str>,
    /// Whether it is the schema `false`.
    pub never: bool,
    /// `type`; `None` for any.
    pub types: Option<Types>,
    /// Whether numbers must be whole (`integer` without `number`).
    pub integer: bool,
    /// `enum`
    pub options: Option<Arc<Vec<Value>>>,
    keywords: Map<String, Value>,
    /// Sub-schemas by keyword, then by name or index; the name is empty for a single one.
    parts: HashMap<String, IndexMap<String, SubSchema>>,
}

impl Schema {
    /// The value of a keyword that holds no sub-schema.
    pub fn value(&self, keyword: &str) -> Option<&Value> {
        self.keywords.get(keyword)
    }

    /// Like [`Schema::value`], if it is text.
    pub fn text(&self, keyword: &str) -> Option<&str> {
        self.value(keyword)?.as_str()
    }

    /// Like [`Schema::value`], if it is a non-negative integer.
    pub fn count(&self, keyword: &str) -> Option<u64> {
        self.value(keyword)?.as_u64()
    }

    /// Whether a keyword is `true`.
    pub fn flag(&self, keyword: &str) -> bool {
        self.value(keyword) == Some(&Value::Bool(true))
    }

    /// Whether a keyword is present.
    pub fn has(&self, keyword: &str) -> bool {
        self.keywords.contains_key(keyword) || self.parts.contains_key(keyword)
    }

    /// The sub-schemas of a keyword that has several, by name or index.
    pub fn named(&self, keyword: &str) -> impl Iterator<Item = (&String, &SubSchema)> {
        self.parts.get(keyword).into_iter().flatten()
    }

    /// Like [`Schema::named`], without the names.
    pub fn parts(&self, keyword: &str) -> impl Iterator<Item = &SubSchema> {
        self.named(keyword).map(|(_, node)| node)
    }

    /// The sub-schema of a keyword that has one.
    pub fn part(&self, keyword: &str) -> Option<&SubSchema> {
        self.parts(keyword).next()
    }

    /// One of `properties`.
    pub fn property(&self, name: &str) -> Option<&SubSchema> {
        self.parts.get("properties")?.get(name)
    }

    /// The sub-schema of items, or of those after a tuple.
    pub fn items(&self) -> Option<&SubSchema> {
        self.part("items").or_else(|| self.part("additionalItems"))
    }

    /// The sub-schema of properties that are not described.
    pub fn additional(&self) -> Option<&SubSchema> {
        self.part("additionalProperties").or_else(|| self.part("unevaluatedProperties"))
    }

    /// `required`
    pub fn required(&self) -> impl Iterator<Item = &str> {
        strings(self.value("required"))
    }

    /// `dependentRequired` and the array form of `dependencies`.
    pub fn dependent_required(&self) -> impl Iterator<Item = (&String, &Value)> {
        let both = ["dependentRequired", "dependencies"].into_iter();
        both.filter_map(|keyword| self.value(keyword)?.as_object()).flatten()
    }

    /// The target of its `$ref`, `$dynamicRef` or `$recursiveRef`.
    pub fn reference(&self) -> Option<&str> {
        let recursive = || self.value("$recursiveRef").map(|_| "#");
        self.text("$ref").or_else(|| self.text("$dynamicRef")).or_else(recursive)
    }

    /// `discriminator.propertyName` (from `OpenAPI`, used by some servers).
    pub fn discriminator(&self) -> Option<&str> {
        self.value("discriminator")?["propertyName"].as_str()
    }

    /// `multipleOf`
    pub fn multiple_of(&self) -> Option<f64> {
        self.value("multipleOf")?.as_f64().filter(|step| *step > 0.0)
    }

    /// `minimum` or `exclusiveMinimum`, and whether it is exclusive.
    pub fn minimum(&self) -> Option<(f64, bool)> {
        self.limit("minimum", "exclusiveMinimum")
    }

    /// `maximum` or `exclusiveMaximum`, and whether it is exclusive.
    pub fn maximum(&self) -> Option<(f64, bool)> {
        self.limit("maximum", "exclusiveMaximum")
    }

    /// In draft-04, the exclusive keyword is a flag beside the plain one.
    fn limit(&self, plain: &str, exclusive: &str) -> Option<(f64, bool)> {
        let number = |keyword| self.value(keyword).and_then(Value::as_f64);
        let strict = number(exclusive).map(|limit| (limit, true));
        strict.or_else(|| Some((number(plain)?, self.flag(exclusive))))
    }

    /// `writeOnly`, or `format: password`: shown as dots, never written to disk.
    pub fn is_secret(&self) -> bool {
        self.flag("writeOnly") || self.text("format") == Some("password")
    }

    /// The only possible value: its `const`, or that of a one-valued `enum`.
    pub fn only(&self) -> Option<&Value> {
        self.value("const").or_else(|| sole(self.options.as_ref()))
    }
}

impl Schema {
    fn forget_all_but(&mut self, kept: &[&str]) {
        self.keywords.retain(|keyword, _| kept.contains(&keyword.as_str()));
        self.parts.clear();
        (self.types, self.integer, self.options) = (None, false, None);
    }
}

/// The strings of a list; empty if the value is not a list.
pub fn strings(value: Option<&Value>) -> impl Iterator<Item = &str> {
    value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// The value of a one-valued `enum`.
pub fn sole(options: Option<&Arc<Vec<Value>>>) -> Option<&Value> {
    options.filter(|options| options.len() == 1).map(|options| &options[0])
}

/// A whole schema, with its sub-schemas by pointer and anchor.
#[derive(Debug, Default)]
pub struct SchemaDocument {
    /// The root.
    pub root: SubSchema,
    raw: Arc<Value>,
    places: HashMap<String, SubSchema>,
    targets: RefTargets,
    note: Option<String>,
    spellings: Arc<Spellings>,
}

/// Maximum number of sub-schemas that are parsed; places of the rest are edited as JSON.
const MAX_NODES: usize = 20_000;
const MAX_DEPTH: usize = 64;

impl SchemaDocument {
    /// Parses a schema.
    pub fn new(raw: &Arc<Value>) -> Self {
        let (draft, older) = draft_of(raw).unwrap_or((Draft::Draft202012, None));
        let mut reader = Reader { draft, places: HashMap::new(), targets: RefTargets::default() };
        let root = reader.read(raw, String::new(), &Arc::from(""), 0);
        let Reader { places, targets, .. } = reader;
        let note = older.map(|older| older.reason());
        let (raw, spellings) = (Arc::clone(raw), Arc::default());
        Self { root, raw, places, targets, note, spellings }
    }

    /// Parses a schema whose numbers are as they are written.
    pub fn written(raw: &Arc<Value>, numbers: &WrittenNumbers) -> Self {
        Self { spellings: Arc::new(Spellings::new(raw, numbers)), ..Self::new(raw) }
    }

    /// How its numbers are written.
    pub const fn spellings(&self) -> &Arc<Spellings> {
        &self.spellings
    }

    /// The sub-schema that the reference of `node` names, if it is within this document.
    pub fn target(&self, node: &Schema) -> Option<&SubSchema> {
        let pointers = self.targets.pointers(&node.base, node.reference()?);
        pointers.iter().find_map(|pointer| self.places.get(pointer))
    }

    /// What a reference at the root names as it was received, if it is within this document: by a
    /// pointer, an anchor or an `$id`.
    pub fn referenced(&self, reference: &str) -> Option<&Value> {
        let pointers = self.targets.pointers(&self.root.base, reference);
        let known = pointers.iter().find(|pointer| self.places.contains_key(*pointer))?;
        self.raw.pointer(known)
    }

    /// The sub-schemas whose reference leads nowhere within this document, in the order of their
    /// pointers.
    pub fn lost_references(&self) -> Vec<&SubSchema> {
        let is_lost = |node: &&SubSchema| node.reference().is_some() && self.target(node).is_none();
        let mut lost: Vec<&SubSchema> = self.places.values().filter(is_lost).collect();
        lost.sort_by(|a, b| a.at.cmp(&b.at));
        lost
    }

    /// The schema as received.
    pub fn raw(&self) -> &Arc<Value> {
        &self.raw
    }

    /// As which older draft it is read and why, if it is.
    pub fn draft_note(&self) -> Option<&str> {
        self.note.as_deref()
    }

    /// Whether any place is secret (`writeOnly`, `format: password`).
    pub fn has_secrets(&self) -> bool {
        self.places.values().any(|node| node.is_secret())
    }

    /// Number of sub-schemas.
    pub fn subschemas(&self) -> usize {
        self.places.len()
    }
}

/// What is still read beside a `$ref` of a draft in which it makes its siblings meaningless.
const BESIDE_REF: [&str; 9] = [
    "$ref",
    "$id",
    "title",
    "description",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
];

struct Reader {
    draft: Draft,
    places: HashMap<String, SubSchema>,
    targets: RefTargets,
}

impl Reader {
    fn read(&mut self, raw: &Value, at: String, base: &Arc<str>, depth: usize) -> SubSchema {
        let mut schema = Schema { at, base: Arc::clone(base), ..Schema::default() };
        match raw {
            Value::Bool(false) => schema.never = true,
            Value::Object(map) if depth < MAX_DEPTH && self.places.len() < MAX_NODES => {
                let key = if self.draft == Draft::Draft4 { "id" } else { "$id" };
                if let Some(id) = map.get(key).and_then(Value::as_str) {
                    schema.base = self.targets.add_id(&schema.at, base, id);
                }
                for (keyword, value) in map {
                    self.fill(&mut schema, keyword, value, depth);
                }
                if ignores_siblings(self.draft) && schema.reference().is_some() {
                    schema.forget_all_but(&BESIDE_REF);
                }
            }
            _ => {}
        }
        for anchor in ["$anchor", "$dynamicAnchor"].into_iter().filter_map(|key| schema.text(key)) {
            self.targets.add_anchor(&schema.at, &schema.base, anchor);
        }
        let node = Arc::new(schema);
        self.places.insert(node.at.clone(), Arc::clone(&node));
        node
    }

    fn fill(&mut self, out: &mut Schema, keyword: &str, value: &Value, depth: usize) {
        let at = format!("{}/{keyword}", out.at);
        let base = Arc::clone(&out.base);
        let mut part = |name: &str, at: String, value: &Value| {
            let node = self.read(value, at, &base, depth + 1);
            // Before 2020-12, a tuple was an array under `items`.
            let tuple = keyword == "items" && !name.is_empty();
            let keyword = if tuple { "prefixItems" } else { keyword };
            out.parts.entry(keyword.to_owned()).or_default().insert(name.to_owned(), node);
        };
        match (holds(keyword), value) {
            (Some(Holds::Map), Value::Object(map)) => {
                for (name, member) in map.iter().filter(|(_, member)| !member.is_array()) {
                    part(name, child_pointer(&at, name), member);
                }
            }
            (Some(Holds::List | Holds::OneOrList), Value::Array(list)) => {
                for (index, member) in list.iter().enumerate() {
                    part(&index.to_string(), format!("{at}/{index}"), member);
                }
            }
            (Some(Holds::Data), _) => {}
            // A reference may point to any object.
            (_, Value::Object(_)) | (Some(Holds::One | Holds::OneOrList), Value::Bool(_)) => {
                part("", at, value);
            }
            _ => {}
        }
        match keyword {
            "type" => (out.types, out.integer) = types(value),
            "enum" => out.options = value.as_array().cloned().map(Arc::new),
            "dependencies" => _ = out.keywords.insert(keyword.to_owned(), value.clone()),
            _ if !out.parts.contains_key(keyword) => {
                out.keywords.insert(keyword.to_owned(), value.clone());
            }
            _ => {}
        }
    }
}

fn types(value: &Value) -> (Option<Types>, bool) {
    let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    let set = names.iter().fold(Types::empty(), |set, name| {
        set | match *name {
            "null" => Types::NULL,
            "boolean" => Types::BOOLEAN,
            "number" | "integer" => Types::NUMBER,
            "string" => Types::STRING,
            "array" => Types::ARRAY,
            "object" => Types::OBJECT,
            _ => Types::empty(),
        }
    });
    let integer = names.contains(&"integer") && !names.contains(&"number");
    ((!set.is_empty()).then_some(set), integer)
}
