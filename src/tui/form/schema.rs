//! A JSON Schema read once into shared, typed nodes. Pure; never fails: what cannot be understood
//! is left out of the node and stays visible in its raw schema.

use std::collections::HashMap;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

/// JSON types as a set of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Types(u8);

impl Types {
    /// Every type.
    pub const ALL: Self = Self(0b11_1111);
    /// `null`
    pub const NULL: Self = Self(1);
    /// `boolean`
    pub const BOOLEAN: Self = Self(2);
    /// `number`; whole numbers are distinguished by [`Schema::integer`].
    pub const NUMBER: Self = Self(4);
    /// `string`
    pub const STRING: Self = Self(8);
    /// `array`
    pub const ARRAY: Self = Self(16);
    /// `object`
    pub const OBJECT: Self = Self(32);

    /// The type of a value.
    pub const fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(_) => Self::NUMBER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    /// Those in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those in either.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those in `self` but not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether every type of `other` is in it.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0 && other.0 != 0
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many there are.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

/// A sub-schema, shared.
pub type Node = Arc<Schema>;

/// One sub-schema; only what a form needs, by name as in the specification.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "keywords that are there or not")]
pub struct Schema {
    /// JSON pointer of this sub-schema within the whole.
    pub at: String,
    /// `false` as a whole.
    pub never: bool,
    /// `type`; `None` when any.
    pub types: Option<Types>,
    /// Whether numbers must be whole (`integer` without `number`).
    pub integer: bool,
    /// `title`
    pub title: Option<String>,
    /// `description`
    pub description: Option<String>,
    /// `default`
    pub default: Option<Value>,
    /// `examples`
    pub examples: Vec<Value>,
    /// `writeOnly`, or `format: password`: shown as dots, never kept on disk.
    pub secret: bool,
    /// `readOnly`, `deprecated`
    pub notes: Vec<&'static str>,
    /// `enum`
    pub options: Option<Arc<Vec<Value>>>,
    /// `enumNames`, titles for `options`.
    pub option_names: Vec<String>,
    /// `const`
    pub fixed: Option<Value>,
    /// `format`, `pattern`, `contentEncoding`, `contentMediaType`
    pub format: Option<String>,
    /// `pattern`
    pub pattern: Option<String>,
    /// `contentEncoding`
    pub encoding: Option<String>,
    /// `minimum` or `exclusiveMinimum`; whether it is exclusive.
    pub minimum: Option<(f64, bool)>,
    /// `maximum` or `exclusiveMaximum`; whether it is exclusive.
    pub maximum: Option<(f64, bool)>,
    /// `multipleOf`
    pub multiple_of: Option<f64>,
    /// `minLength`, `maxLength`
    pub length: (Option<u64>, Option<u64>),
    /// `minItems`, `maxItems`
    pub items_range: (Option<u64>, Option<u64>),
    /// `uniqueItems`
    pub unique: bool,
    /// `properties`
    pub properties: IndexMap<String, Node>,
    /// `patternProperties`
    pub patterns: Vec<(String, Node)>,
    /// `additionalProperties` (or `unevaluatedProperties`)
    pub additional: Option<Node>,
    /// `propertyNames`
    pub names: Option<Node>,
    /// `required`
    pub required: Vec<String>,
    /// `dependentRequired` and the array form of `dependencies`.
    pub dependent_required: Vec<(String, Vec<String>)>,
    /// `dependentSchemas` and the schema form of `dependencies`.
    pub dependent_schemas: Vec<(String, Node)>,
    /// `prefixItems`, or `items` as an array.
    pub prefix: Vec<Node>,
    /// `items`, or `additionalItems` beside an array.
    pub items: Option<Node>,
    /// `contains`
    pub contains: Option<Node>,
    /// `allOf`
    pub all_of: Vec<Node>,
    /// `anyOf`
    pub any_of: Vec<Node>,
    /// `oneOf`
    pub one_of: Vec<Node>,
    /// `if`, `then`, `else`
    pub condition: Option<(Node, Option<Node>, Option<Node>)>,
    /// `not`
    pub not: Option<Node>,
    /// `$ref` (or `$dynamicRef`, `$recursiveRef`), as written.
    pub reference: Option<String>,
    /// `discriminator.propertyName` (of `OpenAPI`, seen in the wild).
    pub discriminator: Option<String>,
}

impl Schema {
    /// The only value there can be: its `const`, or the one of its `enum`.
    pub fn only(&self) -> Option<&Value> {
        self.fixed.as_ref().or_else(|| sole(self.options.as_ref()))
    }
}

/// The value of an `enum` that has one.
pub fn sole(options: Option<&Arc<Vec<Value>>>) -> Option<&Value> {
    options.filter(|options| options.len() == 1).map(|options| &options[0])
}

/// A whole schema, with its places by pointer and anchor.
#[derive(Debug)]
pub struct Document {
    /// The root.
    pub root: Node,
    raw: Arc<Value>,
    places: HashMap<String, Node>,
    anchors: HashMap<String, String>,
}

/// Most sub-schemas that are read; the rest are edited as JSON.
const MAX_NODES: usize = 20_000;
const MAX_DEPTH: usize = 64;

impl Document {
    /// Reads a schema.
    pub fn new(raw: &Arc<Value>) -> Self {
        let mut reader = Reader { places: HashMap::new(), anchors: HashMap::new() };
        let root = reader.read(raw, String::new(), 0);
        Self { root, raw: Arc::clone(raw), places: reader.places, anchors: reader.anchors }
    }

    /// The sub-schema a `$ref` names, when it is within this document.
    pub fn resolve(&self, reference: &str) -> Option<&Node> {
        let fragment = reference.strip_prefix('#')?;
        if let Some(node) = self.places.get(fragment) {
            return Some(node);
        }
        if let Some(at) = self.anchors.get(fragment) {
            return self.places.get(at);
        }
        let decoded = fragment.replace("%24", "$").replace("%20", " ").replace("%25", "%");
        self.places.get(&decoded)
    }

    /// The schema as it was given.
    pub fn raw(&self) -> &Arc<Value> {
        &self.raw
    }

    /// Whether any place is secret (`writeOnly`, `format: password`).
    pub fn has_secrets(&self) -> bool {
        self.places.values().any(|node| node.secret)
    }

    /// How many sub-schemas there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }
}

struct Reader {
    places: HashMap<String, Node>,
    anchors: HashMap<String, String>,
}

impl Reader {
    fn read(&mut self, raw: &Value, at: String, depth: usize) -> Node {
        let mut schema = Schema { at: at.clone(), ..Schema::default() };
        match raw {
            Value::Bool(false) => schema.never = true,
            Value::Object(map) if depth < MAX_DEPTH && self.places.len() < MAX_NODES => {
                self.fill(&mut schema, map, depth);
            }
            _ => {}
        }
        let node = Arc::new(schema);
        self.places.insert(at, Arc::clone(&node));
        node
    }

    fn fill(&mut self, out: &mut Schema, map: &Map<String, Value>, depth: usize) {
        for (key, value) in map {
            if !fill_plain(out, key, value) {
                self.fill_nested(out, map, key, value, depth);
            }
        }
        if let Some(Value::Array(prefix)) = map.get("items") {
            // Before 2020-12 a tuple was an array under `items`, its rest under `additionalItems`.
            out.prefix = self.list(out, "items", prefix, depth);
            out.items =
                map.get("additionalItems").map(|v| self.one(out, "additionalItems", v, depth));
        }
        if let Some(test) = map.get("if") {
            let test = self.one(out, "if", test, depth);
            let then = map.get("then").map(|v| self.one(out, "then", v, depth));
            let otherwise = map.get("else").map(|v| self.one(out, "else", v, depth));
            out.condition = Some((test, then, otherwise));
        }
    }

    fn fill_nested(
        &mut self,
        out: &mut Schema,
        map: &Map<String, Value>,
        key: &str,
        value: &Value,
        depth: usize,
    ) {
        match (key, value) {
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
                | "dependencies",
                Value::Object(members),
            ) => {
                for (name, v) in members {
                    if key.starts_with("depend") && v.is_array() {
                        out.dependent_required.push((name.clone(), strings(v)));
                        continue;
                    }
                    let at = super::pointer::join(&format!("{}/{key}", out.at), name);
                    let node = self.read(v, at, depth + 1);
                    match key {
                        "properties" => _ = out.properties.insert(name.clone(), node),
                        "patternProperties" => out.patterns.push((name.clone(), node)),
                        "dependentSchemas" | "dependencies" => {
                            out.dependent_schemas.push((name.clone(), node));
                        }
                        _ => {}
                    }
                }
            }
            ("additionalProperties", v) => out.additional = Some(self.one(out, key, v, depth)),
            ("unevaluatedProperties", v) if !map.contains_key("additionalProperties") => {
                out.additional = Some(self.one(out, key, v, depth));
            }
            ("propertyNames", v) => out.names = Some(self.one(out, key, v, depth)),
            ("contains", v) => out.contains = Some(self.one(out, key, v, depth)),
            ("not", v) => out.not = Some(self.one(out, key, v, depth)),
            ("items", v) if !v.is_array() => out.items = Some(self.one(out, key, v, depth)),
            ("prefixItems", Value::Array(list)) => out.prefix = self.list(out, key, list, depth),
            ("allOf", Value::Array(list)) => out.all_of = self.list(out, key, list, depth),
            ("anyOf", Value::Array(list)) => out.any_of = self.list(out, key, list, depth),
            ("oneOf", Value::Array(list)) => out.one_of = self.list(out, key, list, depth),
            ("$anchor" | "$dynamicAnchor", Value::String(name)) => {
                self.anchors.insert(name.clone(), out.at.clone());
            }
            ("items" | "additionalItems" | "if" | "then" | "else", _) => {}
            // What references point at may stand under keywords that are not known.
            (_, Value::Object(_)) => _ = self.one(out, key, value, depth),
            _ => {}
        }
    }

    fn one(&mut self, out: &Schema, key: &str, value: &Value, depth: usize) -> Node {
        self.read(value, format!("{}/{key}", out.at), depth + 1)
    }

    fn list(&mut self, out: &Schema, key: &str, list: &[Value], depth: usize) -> Vec<Node> {
        let at = &out.at;
        list.iter()
            .enumerate()
            .map(|(i, v)| self.read(v, format!("{at}/{key}/{i}"), depth + 1))
            .collect()
    }
}

/// The strings of a list; none where no list stands.
fn strings(value: &Value) -> Vec<String> {
    let values = value.as_array().into_iter().flatten();
    values.filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// Keywords that hold no sub-schema. Gives whether `key` was one of them.
fn fill_plain(out: &mut Schema, key: &str, value: &Value) -> bool {
    let text = || value.as_str().map(str::to_owned);
    match key {
        "type" => (out.types, out.integer) = types(value),
        "title" => out.title = text(),
        "description" => out.description = text(),
        "default" => out.default = Some(value.clone()),
        "examples" => out.examples = value.as_array().cloned().unwrap_or_default(),
        "example" => out.examples = vec![value.clone()],
        "readOnly" if value == &Value::Bool(true) => out.notes.push("read-only"),
        "deprecated" if value == &Value::Bool(true) => out.notes.push("deprecated"),
        "enum" => out.options = value.as_array().cloned().map(Arc::new),
        "enumNames" => out.option_names = strings(value),
        "const" => out.fixed = Some(value.clone()),
        "format" => {
            out.format = text();
            out.secret |= out.format.as_deref() == Some("password");
        }
        "writeOnly" => out.secret |= value == &Value::Bool(true),
        "pattern" => out.pattern = text(),
        "contentEncoding" => out.encoding = text(),
        "multipleOf" => out.multiple_of = value.as_f64().filter(|m| *m > 0.0),
        "minLength" => out.length.0 = value.as_u64(),
        "maxLength" => out.length.1 = value.as_u64(),
        "minItems" => out.items_range.0 = value.as_u64(),
        "maxItems" => out.items_range.1 = value.as_u64(),
        "uniqueItems" => out.unique = value.as_bool().unwrap_or_default(),
        "required" => out.required = strings(value),
        "$ref" | "$dynamicRef" => out.reference = text(),
        "$recursiveRef" => out.reference = Some("#".to_owned()),
        "discriminator" => {
            let name = value.get("propertyName").and_then(Value::as_str);
            out.discriminator = name.map(str::to_owned);
        }
        "dependentRequired" => {
            for (name, needed) in value.as_object().into_iter().flatten() {
                out.dependent_required.push((name.clone(), strings(needed)));
            }
        }
        "minimum" | "exclusiveMinimum" | "maximum" | "exclusiveMaximum" => limit(out, key, value),
        "nullable" if value == &Value::Bool(true) => out.notes.push("nullable"),
        _ => return false,
    }
    true
}

fn limit(out: &mut Schema, key: &str, value: &Value) {
    let exclusive = key.starts_with("exclusive");
    let side = if key.to_ascii_lowercase().ends_with("minimum") {
        &mut out.minimum
    } else {
        &mut out.maximum
    };
    match value {
        // Draft-04: a flag beside `minimum`.
        Value::Bool(true) if exclusive => {
            if let Some((_, is_exclusive)) = side {
                *is_exclusive = true;
            }
        }
        _ => {
            if let Some(n) = value.as_f64() {
                *side = Some((n, exclusive));
            }
        }
    }
}

fn types(value: &Value) -> (Option<Types>, bool) {
    let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    let set = names.iter().fold(Types(0), |set, name| {
        set.or(match *name {
            "null" => Types::NULL,
            "boolean" => Types::BOOLEAN,
            "number" | "integer" => Types::NUMBER,
            "string" => Types::STRING,
            "array" => Types::ARRAY,
            "object" => Types::OBJECT,
            _ => Types(0),
        })
    });
    let integer = names.contains(&"integer") && !names.contains(&"number");
    ((!set.is_empty()).then_some(set), integer)
}
