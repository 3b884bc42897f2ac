//! The schema of a tool in the form that a model provider takes, and the way back for the arguments
//! of calls. References and `allOf` are joined, a root that is no plain object becomes a property,
//! and what is not taken is said in the description. The original stays the one that validates. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value, json};

use super::document::{Schema, SchemaDocument, SubSchema, Types};
use super::merge::{Conj, implied_types, same};
use super::provider::{Objection, SchemaForm, ToolFormat};
use base::pointer::child_pointer;
use base::text::cut;

/// Maximum number of places in an adapted schema; those beyond it are described as any value.
const MAX_PLACES: usize = 2_000;
/// Maximum depth of an adapted schema.
const MAX_PLACE_DEPTH: usize = 24;
/// Maximum number of sub-schemas joined at one place.
const MAX_PLACE_NODES: usize = 64;
/// Maximum size of a value that is said in words, in bytes.
const MAX_NOTE_BYTES: usize = 160;
/// The property that holds the arguments where the root cannot.
const WRAPPER: &str = "input";

/// What had to change for a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaChange {
    /// JSON pointer of the place within the original.
    pub pointer: String,
    /// What is not taken.
    pub what: String,
    /// Whether the provider would refuse the tool; otherwise it ignores this part.
    pub is_refused: bool,
    /// The document of the provider that says so.
    pub document: &'static str,
}

/// A schema for a provider.
#[derive(Clone, Debug)]
pub struct AdaptedSchema {
    /// The schema to send.
    pub schema: Value,
    /// What differs from the original.
    pub changes: Vec<SchemaChange>,
    names: ArgumentNames,
    is_wrapped: bool,
}

impl AdaptedSchema {
    /// Adapts a schema.
    pub fn new(document: &SchemaDocument, format: ToolFormat) -> Self {
        let mut adapter = Adapter {
            document,
            format,
            changes: Vec::new(),
            sent: BTreeMap::new(),
            known: BTreeSet::new(),
            open: Vec::new(),
            left: MAX_PLACES,
        };
        adapter.collect_names(document.raw(), 0);
        let (schema, names, is_wrapped) = adapter.root();
        Self { schema, changes: adapter.changes, names, is_wrapped }
    }

    /// The arguments of a call as the server takes them.
    pub fn decode(&self, arguments: Value) -> Value {
        let names = &self.names;
        match arguments {
            Value::Object(mut map) if self.is_wrapped && map.len() == 1 => {
                match map.remove(WRAPPER) {
                    Some(inner @ Value::Object(_)) => names
                        .renamed(inner, &|names, key| names.originals.get(key).map(String::as_str)),
                    Some(other) => json!({WRAPPER: other}),
                    None => names.renamed(Value::Object(map), &|names, key| {
                        names.originals.get(key).map(String::as_str)
                    }),
                }
            }
            other => {
                names.renamed(other, &|names, key| names.originals.get(key).map(String::as_str))
            }
        }
    }

    /// The arguments of an earlier call as the provider knows them.
    pub fn encode(&self, arguments: Value) -> Value {
        let sent = self.names.renamed(arguments, &|names, key| {
            names
                .originals
                .iter()
                .find(|(_, original)| *original == key)
                .map(|(sent, _)| sent.as_str())
        });
        if self.is_wrapped { json!({WRAPPER: sent}) } else { sent }
    }
}

/// The original names of properties, by place.
#[derive(Clone, Debug, Default, PartialEq)]
struct ArgumentNames {
    /// By the name that is sent.
    originals: BTreeMap<String, String>,
    /// Those below a property, by its original name.
    below: BTreeMap<String, ArgumentNames>,
    /// Those of items and of other properties.
    others: Option<Box<ArgumentNames>>,
}

impl ArgumentNames {
    fn is_empty(&self) -> bool {
        self.originals.is_empty() && self.below.is_empty() && self.others.is_none()
    }

    /// Adds those of an alternative. A name is sent for one original only, so nothing is lost.
    fn add(&mut self, other: Self) {
        self.originals.extend(other.originals);
        for (name, names) in other.below {
            self.below.entry(name).or_default().add(names);
        }
        if let Some(others) = other.others {
            self.add_others(*others);
        }
    }

    fn add_others(&mut self, names: Self) {
        if !names.is_empty() {
            self.others.get_or_insert_default().add(names);
        }
    }

    fn renamed(
        &self,
        value: Value,
        name: &dyn for<'a> Fn(&'a Self, &str) -> Option<&'a str>,
    ) -> Value {
        match value {
            _ if self.is_empty() => value,
            Value::Object(map) => {
                let members = map.into_iter().map(|(key, value)| {
                    let new = name(self, &key).map(str::to_owned);
                    let original = self.originals.get(&key).unwrap_or(&key);
                    let below = self.below.get(original).or(self.others.as_deref());
                    let value = match below {
                        Some(below) => below.renamed(value, name),
                        None => value,
                    };
                    (new.unwrap_or(key), value)
                });
                Value::Object(members.collect())
            }
            Value::Array(items) => {
                let Some(others) = &self.others else { return Value::Array(items) };
                items.into_iter().map(|item| others.renamed(item, name)).collect()
            }
            other => other,
        }
    }
}

/// One place while it is written.
#[derive(Default)]
struct AdaptedPlace {
    out: Map<String, Value>,
    notes: Vec<String>,
    names: ArgumentNames,
}

struct Adapter<'a> {
    document: &'a SchemaDocument,
    format: ToolFormat,
    changes: Vec<SchemaChange>,
    /// The names that are sent, by original.
    sent: BTreeMap<String, String>,
    /// Every name of a property of the document, and every one that is sent.
    known: BTreeSet<String>,
    /// The targets of the references that are being followed.
    open: Vec<*const Schema>,
    left: usize,
}

impl Adapter<'_> {
    fn collect_names(&mut self, value: &Value, depth: usize) {
        let Value::Object(map) = value else {
            if let (Value::Array(list), true) = (value, depth < 64) {
                for value in list {
                    self.collect_names(value, depth + 1);
                }
            }
            return;
        };
        if depth >= 64 {
            return;
        }
        if let Some(Value::Object(properties)) = map.get("properties") {
            self.known.extend(properties.keys().cloned());
        }
        for value in map.values() {
            self.collect_names(value, depth + 1);
        }
    }

    fn raw(&self, node: &Schema) -> Option<&Value> {
        self.document.raw().pointer(&node.at)
    }

    /// Records a form that the provider does not take; returns whether it does not.
    fn refuse(&mut self, form: SchemaForm, pointer: &str, detail: Option<&str>) -> bool {
        let Some(objection) = self.format.objects(form) else { return false };
        let what = match detail {
            Some(detail) => format!("{}: {detail}", form.problem()),
            None => form.problem().to_owned(),
        };
        let pointer = pointer.to_owned();
        let Objection { is_refused, document, .. } = objection;
        let change = SchemaChange { pointer, what, is_refused, document };
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
        true
    }

    /// Records that the provider does not read a keyword.
    fn drop(&mut self, keyword: &str, pointer: &str) {
        let change = SchemaChange {
            pointer: pointer.to_owned(),
            what: format!("`{keyword}` is not read"),
            is_refused: false,
            document: self.format.keywords_document(),
        };
        if !self.changes.contains(&change) {
            self.changes.push(change);
        }
    }

    /// All sub-schemas that apply to a place whatever its value is, outermost first.
    fn joined(&self, conj: &[SubSchema]) -> Conj {
        let mut nodes: Conj = Vec::new();
        let mut open: Vec<&SubSchema> = conj.iter().rev().collect();
        while let Some(node) = open.pop() {
            let is_new = !nodes.iter().any(|other| Arc::ptr_eq(other, node));
            if !is_new || nodes.len() >= MAX_PLACE_NODES {
                continue;
            }
            nodes.push(Arc::clone(node));
            open.extend(node.parts("allOf").collect::<Vec<_>>().into_iter().rev());
            open.extend(self.document.target(node));
        }
        nodes
    }

    fn root(&mut self) -> (Value, ArgumentNames, bool) {
        let root = Arc::clone(&self.document.root);
        let raw = self.raw(&root).cloned().unwrap_or_default();
        if raw.get("type") != Some(&json!("object")) {
            self.refuse(SchemaForm::RootType, "", None);
        }
        if ["anyOf", "oneOf", "allOf"].iter().any(|keyword| raw.get(*keyword).is_some()) {
            self.refuse(SchemaForm::RootUnion, "", None);
        }
        if ["enum", "const", "not"].iter().any(|keyword| raw.get(*keyword).is_some()) {
            self.refuse(SchemaForm::RootValue, "", None);
        }
        let nodes = self.joined(std::slice::from_ref(&root));
        if !nodes.iter().any(|node| node.has("properties")) {
            self.refuse(SchemaForm::RootProperties, "", None);
        }
        let types = types_of(&nodes);
        let is_object = types.is_none_or(|types| types.contains(Types::OBJECT));
        let union = unions(&nodes).iter().any(|(_, variants)| !are_conditions(variants));
        let refuses_union = self.format.objects(SchemaForm::RootUnion).is_some();
        let is_wrapped = !is_object || (union && refuses_union);
        let (value, names) = self.place(&[root], usize::from(is_wrapped));
        if is_wrapped {
            let schema =
                json!({"type": "object", "properties": {WRAPPER: value}, "required": [WRAPPER]});
            return (schema, names, true);
        }
        let Value::Object(mut map) = value else { return (value, names, false) };
        map.insert("type".to_owned(), json!("object"));
        for keyword in ["enum", "const"] {
            if let Some(value) = map.remove(keyword) {
                let notes = [keyword_note(keyword, &value)];
                describe(&mut map, &notes);
            }
        }
        map.entry("properties").or_insert_with(|| json!({}));
        (Value::Object(map), names, false)
    }

    /// Writes one place.
    fn place(&mut self, conj: &[SubSchema], depth: usize) -> (Value, ArgumentNames) {
        if self.left == 0 || depth > MAX_PLACE_DEPTH {
            let value = self.brief(conj, "It is not described here.");
            return (value, ArgumentNames::default());
        }
        self.left -= 1;
        let nodes = self.joined(conj);
        let mut place = AdaptedPlace::default();
        let followed = self.open.len();
        for node in &nodes {
            if node.reference().is_none() {
                continue;
            }
            let Some(target) = self.document.target(node) else {
                self.refuse(SchemaForm::LostReference, &node.at, node.reference());
                continue;
            };
            if self.open[..followed].contains(&Arc::as_ptr(target)) {
                self.open.truncate(followed);
                let name = target.at.rsplit('/').next().filter(|name| !name.is_empty());
                let name = name.unwrap_or("the whole").to_owned();
                let text = format!("The same form as {name} above.");
                let value = self.brief(&[Arc::clone(target)], &text);
                return (value, ArgumentNames::default());
            }
            self.open.push(Arc::as_ptr(target));
        }
        for node in &nodes {
            self.check_forms(node);
        }
        self.add_words(&nodes, &mut place);
        self.add_values(&nodes, &mut place);
        self.add_numbers(&nodes, &mut place);
        // What concerns another type than the declared one says nothing.
        let allows = |one| types_of(&nodes).is_none_or(|types| types.contains(one));
        for (one, keyword) in
            [(Types::OBJECT, "properties"), (Types::OBJECT, "required"), (Types::ARRAY, "items")]
        {
            if let Some(node) = nodes.iter().find(|node| node.has(keyword) && !allows(one)) {
                self.refuse(SchemaForm::OtherType, &child_pointer(&node.at, keyword), None);
            }
        }
        if allows(Types::OBJECT) {
            self.add_members(&nodes, depth, &mut place);
        }
        if allows(Types::ARRAY) {
            self.add_items(&nodes, depth, &mut place);
        }
        self.add_unions(&nodes, depth, &mut place);
        self.add_rest(&nodes, &mut place);
        // The root is the object that it must be, whatever else it may be.
        if depth > 0 {
            self.add_types(&nodes, &mut place);
        }
        self.open.truncate(followed);
        let AdaptedPlace { mut out, notes, names } = place;
        let is_typed = ["type", "anyOf", "oneOf"].iter().any(|keyword| out.contains_key(*keyword));
        if !is_typed && depth > 0 && self.refuse(SchemaForm::NoType, &nodes[0].at, None) {
            out.insert("anyOf".to_owned(), any_types());
        }
        describe(&mut out, &notes);
        if depth > 0 && self.format.objects(SchemaForm::UnionSibling).is_some() {
            if let Some(node) = nodes.iter().find(|node| self.has_siblings(node)) {
                self.refuse(SchemaForm::UnionSibling, &node.at.clone(), None);
            }
            out = alone(out);
        }
        (Value::Object(out), names)
    }

    /// Whether keywords stand beside the alternatives of a sub-schema.
    fn has_siblings(&self, node: &Schema) -> bool {
        let map = self.raw(node).and_then(Value::as_object);
        map.is_some_and(|map| {
            map.len() > 1 && (map.contains_key("anyOf") || map.contains_key("oneOf"))
        })
    }

    /// A place by its type alone, described by these words.
    fn brief(&self, conj: &[SubSchema], text: &str) -> Value {
        let mut value = json!({"description": text});
        let types = types_of(&self.joined(conj));
        match types.filter(|types| types.bits().is_power_of_two()) {
            Some(types) => {
                value["type"] = json!(words(types, false)[0]);
                if types == Types::ARRAY {
                    value["items"] = self.any_items();
                }
            }
            None if self.format.objects(SchemaForm::NoType).is_some() => {
                value["anyOf"] = any_types();
            }
            None => {}
        }
        match value {
            Value::Object(map) if self.format.objects(SchemaForm::UnionSibling).is_some() => {
                Value::Object(alone(map))
            }
            value => value,
        }
    }

    /// The items of a list of anything.
    fn any_items(&self) -> Value {
        if self.format.objects(SchemaForm::NoType).is_some() {
            json!({"anyOf": any_scalars()})
        } else {
            json!({})
        }
    }

    /// Records the forms of one sub-schema that are not taken.
    fn check_forms(&mut self, node: &Schema) {
        let Some(raw) = self.raw(node).cloned() else { return };
        if raw.is_boolean() && !node.at.is_empty() {
            self.refuse(SchemaForm::BooleanSchema, &node.at, None);
        }
        if raw.get("items").is_some_and(Value::is_array) {
            self.refuse(SchemaForm::TupleItems, &child_pointer(&node.at, "items"), None);
        }
        for keyword in ["exclusiveMinimum", "exclusiveMaximum"] {
            if raw.get(keyword).is_some_and(Value::is_boolean) {
                self.refuse(SchemaForm::FlagLimit, &child_pointer(&node.at, keyword), None);
            }
        }
        for (keyword, value) in raw.as_object().into_iter().flatten() {
            if !is_valid(keyword, value) {
                let pointer = child_pointer(&node.at, keyword);
                self.refuse(SchemaForm::InvalidValue, &pointer, None);
            }
        }
        if raw.get("type").is_some() && node.types.is_none() {
            self.refuse(SchemaForm::InvalidValue, &child_pointer(&node.at, "type"), None);
        }
    }

    /// Writes a keyword, or says it where the provider does not read it.
    fn put(&mut self, place: &mut AdaptedPlace, keyword: &str, pointer: &str, value: Value) {
        if self.format.reads(keyword) {
            place.out.insert(keyword.to_owned(), value);
        } else {
            place.notes.push(keyword_note(keyword, &value));
            self.drop(keyword, pointer);
        }
    }

    fn add_words(&mut self, nodes: &[SubSchema], place: &mut AdaptedPlace) {
        for keyword in ["title", "description"] {
            let text = nodes.iter().find_map(|node| node.text(keyword));
            if let Some(text) = text.filter(|_| self.format.reads(keyword)) {
                place.out.insert(keyword.to_owned(), text.into());
            }
        }
    }

    /// `enum` and `const`.
    fn add_values(&mut self, nodes: &[SubSchema], place: &mut AdaptedPlace) {
        let fixed = nodes.iter().find_map(|node| Some((node, node.value("const")?)));
        let listed = nodes.iter().find_map(|node| Some((node, node.options.as_ref()?)));
        let (at, values) = match (fixed, listed) {
            (Some((node, value)), _) if self.format.reads("const") => {
                self.put(place, "const", &node.at, value.clone());
                return;
            }
            (Some((node, value)), _) => (&node.at, vec![value.clone()]),
            (None, Some((node, values))) => (&node.at, values.to_vec()),
            (None, None) => return,
        };
        let mut distinct: Vec<Value> = Vec::new();
        for value in values {
            if !distinct.iter().any(|other| same(other, &value)) {
                distinct.push(value);
            }
        }
        let is_plain = distinct.iter().all(|value| value.is_string() || value.is_number());
        if distinct.is_empty() {
            return;
        }
        let is_number = distinct.iter().any(Value::is_number);
        let is_refused = !is_plain && self.refuse(SchemaForm::EnumValue, at, None)
            || is_number && self.refuse(SchemaForm::EnumNumber, at, None);
        if is_refused {
            place.notes.push(keyword_note("one of", &Value::Array(distinct)));
            return;
        }
        if distinct.iter().any(|value| value == "") && self.refuse(SchemaForm::EmptyEnum, at, None)
        {
            distinct.retain(|value| value != "");
            place.notes.push("it may also be an empty text".to_owned());
        }
        if !distinct.is_empty() {
            self.put(place, "enum", at, Value::Array(distinct));
        }
    }

    fn add_numbers(&mut self, nodes: &[SubSchema], place: &mut AdaptedPlace) {
        let lower = nodes.iter().filter_map(|n| Some((n, n.minimum()?)));
        let lower = lower.max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let upper = nodes.iter().filter_map(|n| Some((n, n.maximum()?)));
        let upper = upper.min_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let limits =
            [(lower, "minimum", "exclusiveMinimum"), (upper, "maximum", "exclusiveMaximum")];
        for (limit, plain, exclusive) in limits {
            let Some((node, (number, is_exclusive))) = limit else { continue };
            let is_whole = number.fract() == 0.0 && number.abs() < 9e15;
            #[expect(clippy::cast_possible_truncation, reason = "within the range, checked above")]
            let value = if is_whole { json!(number as i64) } else { json!(number) };
            let keyword = if is_exclusive { exclusive } else { plain };
            self.put(place, keyword, &node.at, value);
        }
    }

    fn add_members(&mut self, nodes: &[SubSchema], depth: usize, place: &mut AdaptedPlace) {
        let mut properties: IndexMap<&str, Conj> = IndexMap::new();
        for (name, node) in nodes.iter().flat_map(|node| node.named("properties")) {
            properties.entry(name).or_default().push(Arc::clone(node));
        }
        let mut out = Map::new();
        let mut sent_names: BTreeMap<&str, String> = BTreeMap::new();
        for (name, conj) in &properties {
            let at = &conj[0].at;
            let joined = self.joined(conj);
            if joined.iter().any(|node| node.never) {
                self.refuse(SchemaForm::BooleanSchema, at, None);
                place.notes.push(format!("`{name}` must not be given"));
                continue;
            }
            let (mut value, names) = self.place(conj, depth + 1);
            let sent = self.sent_name(name, at);
            if sent != *name {
                place.names.originals.insert(sent.clone(), (*name).to_owned());
                say_first(std::slice::from_mut(&mut value), &format!("`{name}`."));
            }
            if !names.is_empty() {
                place.names.below.insert((*name).to_owned(), names);
            }
            out.insert(sent.clone(), value);
            sent_names.insert(name, sent);
        }
        if !properties.is_empty() {
            place.out.insert("properties".to_owned(), Value::Object(out));
        }
        let mut required: Vec<&str> = Vec::new();
        for node in nodes {
            for name in node.required() {
                match sent_names.get(name) {
                    Some(sent) if !required.contains(&sent.as_str()) => required.push(sent),
                    Some(_) => {}
                    None => {
                        let pointer = child_pointer(&node.at, "required");
                        self.refuse(SchemaForm::UndefinedRequired, &pointer, Some(name));
                        place.notes.push(format!("`{name}` is required"));
                    }
                }
            }
        }
        if !required.is_empty() {
            place.out.insert("required".to_owned(), json!(required));
        }
        if let Some(other) = nodes.iter().find_map(|node| node.additional()) {
            // An open schema in place of `true` is refused by OpenAI ("must have a 'type' key", seen in
            // chattermate/chattermate.chat#303).
            let raw = self.raw(other);
            let is_flag = raw.is_some_and(|raw| raw.is_boolean() || is_open(raw));
            let (value, names) = if is_flag {
                (Value::Bool(!other.never), ArgumentNames::default())
            } else {
                self.place(&[Arc::clone(other)], depth + 1)
            };
            place.names.add_others(names);
            if is_flag && !self.format.reads("additionalProperties") {
                self.drop("additionalProperties", &other.at);
            } else {
                self.put(place, "additionalProperties", &other.at, value);
            }
        }
        let patterns: Vec<(String, SubSchema)> = nodes
            .iter()
            .flat_map(|node| node.named("patternProperties"))
            .filter(|(pattern, _)| is_pattern(pattern))
            .map(|(pattern, node)| (pattern.clone(), Arc::clone(node)))
            .collect();
        if let Some((_, first)) = patterns.first() {
            let at = first.at.clone();
            let mut out = Map::new();
            for (pattern, node) in patterns {
                let (value, names) = self.place(&[node], depth + 1);
                place.names.add_others(names);
                out.insert(pattern, value);
            }
            if !self.format.reads("patternProperties") {
                // Otherwise the keys that the patterns describe would be forbidden.
                place.out.remove("additionalProperties");
            }
            self.put(place, "patternProperties", &at, Value::Object(out));
        }
    }

    /// The name that is sent for a property: letters, digits and `_` for what is not taken, unlike
    /// every other name of the tool.
    fn sent_name(&mut self, name: &str, pointer: &str) -> String {
        if self.format.is_property_name(name) {
            return name.to_owned();
        }
        self.refuse(SchemaForm::PropertyName, pointer, None);
        if let Some(sent) = self.sent.get(name) {
            return sent.clone();
        }
        let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
        let text: String = name.chars().take(56).map(plain).collect();
        let text = text.trim_matches('_');
        let text = match text.chars().next() {
            Some(first) if first.is_ascii_alphabetic() => text.to_owned(),
            _ => format!("p_{text}"),
        };
        let mut sent = text.clone();
        for count in 2.. {
            if self.known.insert(sent.clone()) {
                break;
            }
            sent = format!("{text}_{count}");
        }
        self.sent.insert(name.to_owned(), sent.clone());
        sent
    }

    fn add_items(&mut self, nodes: &[SubSchema], depth: usize, place: &mut AdaptedPlace) {
        let prefix: Vec<SubSchema> =
            nodes.iter().flat_map(|node| node.parts("prefixItems")).cloned().collect();
        let items: Vec<SubSchema> = nodes.iter().filter_map(|node| node.items()).cloned().collect();
        let is_closed = items.iter().any(|node| node.never);
        let is_list = types_of(nodes).is_some_and(|types| types.contains(Types::ARRAY));
        if prefix.is_empty() {
            if is_closed {
                let any = self.any_items();
                place.out.insert("items".to_owned(), any);
                self.refuse(SchemaForm::BooleanSchema, &items[0].at, None);
                self.put(place, "maxItems", &items[0].at.clone(), json!(0));
            } else if !items.is_empty() {
                let (value, names) = self.place(&items, depth + 1);
                place.names.add_others(names);
                place.out.insert("items".to_owned(), value);
            } else if is_list {
                self.refuse(SchemaForm::ListItems, &nodes[0].at, None);
                let any = self.any_items();
                place.out.insert("items".to_owned(), any);
            }
            return;
        }
        let count = prefix.len();
        let at = prefix[0].at.clone();
        let mut written = Vec::new();
        for node in prefix.into_iter().take(64) {
            let (value, names) = self.place(&[node], depth + 1);
            place.names.add_others(names);
            written.push(value);
        }
        let mut rest = None;
        if !items.is_empty() && !is_closed {
            let (value, names) = self.place(&items, depth + 1);
            place.names.add_others(names);
            rest = Some(value);
        }
        if is_closed {
            self.put(place, "maxItems", &at, json!(count));
        }
        if self.format.reads("prefixItems") {
            place.out.insert("prefixItems".to_owned(), Value::Array(written));
            let rest = rest.unwrap_or_else(|| self.any_items());
            place.out.insert("items".to_owned(), rest);
            return;
        }
        self.drop("prefixItems", &at);
        place.notes.push(keyword_note("items, in this order", &Value::Array(written.clone())));
        let mut kinds: Vec<Value> = Vec::new();
        for value in written.into_iter().chain(rest) {
            if !kinds.contains(&value) {
                kinds.push(value);
            }
        }
        let items = if kinds.len() == 1 { kinds.remove(0) } else { json!({"anyOf": kinds}) };
        place.out.insert("items".to_owned(), items);
    }

    fn add_unions(&mut self, nodes: &[SubSchema], depth: usize, place: &mut AdaptedPlace) {
        for (keyword, variants) in unions(nodes) {
            let at = variants[0].at.clone();
            if are_conditions(&variants) {
                let sets = variants.iter().map(|node| {
                    let names: Vec<&str> = node.required().collect();
                    if names.is_empty() { "nothing".to_owned() } else { names.join(" and ") }
                });
                let sets: Vec<String> = sets.collect();
                place.notes.push(format!("give one of these: {}", sets.join(", or ")));
                continue;
            }
            let mut written: Vec<Value> = Vec::new();
            for node in variants.iter().filter(|node| !node.never).take(64) {
                let (value, names) = self.place(std::slice::from_ref(node), depth + 1);
                place.names.add(names);
                if !written.contains(&value) {
                    written.push(value);
                }
            }
            let keyword = if self.format.reads(keyword) { keyword } else { "anyOf" };
            let is_taken = place.out.contains_key("anyOf") || place.out.contains_key("oneOf");
            if is_taken {
                place.notes.push(keyword_note("and one of", &Value::Array(written)));
                self.drop("a second list of alternatives", &at);
            } else if !written.is_empty() {
                place.out.insert(keyword.to_owned(), Value::Array(written));
            }
        }
    }

    /// The keywords with plain values, and those that no provider reads.
    fn add_rest(&mut self, nodes: &[SubSchema], place: &mut AdaptedPlace) {
        const PLAIN: [&str; 12] = [
            "format",
            "pattern",
            "minLength",
            "maxLength",
            "multipleOf",
            "minItems",
            "maxItems",
            "uniqueItems",
            "minProperties",
            "maxProperties",
            "default",
            "examples",
        ];
        const NEVER_READ: [&str; 15] = [
            "not",
            "if",
            "then",
            "else",
            "contains",
            "propertyNames",
            "dependentSchemas",
            "dependentRequired",
            "dependencies",
            "contentEncoding",
            "contentMediaType",
            "minContains",
            "maxContains",
            "unevaluatedProperties",
            "unevaluatedItems",
        ];
        for keyword in PLAIN {
            let found = nodes.iter().find_map(|node| Some((node, self.raw(node)?.get(keyword)?)));
            let Some((node, value)) = found.map(|(node, value)| (Arc::clone(node), value.clone()))
            else {
                continue;
            };
            if keyword == "pattern" && value.is_string() && !is_valid(keyword, &value) {
                place.notes.push(keyword_note(keyword, &value));
            }
            if !is_valid(keyword, &value) || place.out.contains_key(keyword) {
                continue;
            }
            let value = whole(keyword, value);
            let is_odd = keyword == "format" && !is_known_format(nodes, &value);
            if is_odd && self.refuse(SchemaForm::UnknownFormat, &node.at, None) {
                place.notes.push(keyword_note(keyword, &value));
            } else {
                self.put(place, keyword, &node.at, value);
            }
        }
        for keyword in NEVER_READ {
            let found = nodes.iter().find_map(|node| self.raw(node)?.get(keyword));
            if let Some(value) = found.cloned() {
                place.notes.push(keyword_note(keyword, &value));
            }
        }
    }

    fn add_types(&mut self, nodes: &[SubSchema], place: &mut AdaptedPlace) {
        let has_union = place.out.contains_key("anyOf") || place.out.contains_key("oneOf");
        let declared = nodes.iter().any(|node| node.types.is_some());
        let Some(types) = types_of(nodes).filter(|_| declared || !has_union) else { return };
        let is_integer = nodes.iter().any(|node| node.integer);
        let names = words(types, is_integer);
        if let [name] = names[..] {
            place.out.insert("type".to_owned(), json!(name));
            return;
        }
        let plain = types - Types::NULL;
        let is_optional = types.contains(Types::NULL) && plain.bits().is_power_of_two();
        let is_exact = self.format != ToolFormat::Compatible && is_optional;
        if is_exact || self.format.objects(SchemaForm::TypeList).is_none() {
            place.out.insert("type".to_owned(), json!(names));
            return;
        }
        if !is_optional {
            self.refuse(SchemaForm::TypeList, &nodes[0].at, None);
        }
        if has_union {
            return;
        }
        // One alternative for each type, with the keywords that concern it.
        let mut outer = Map::new();
        for keyword in ["title", "description"] {
            outer.extend(place.out.remove(keyword).map(|value| (keyword.to_owned(), value)));
        }
        let inner = std::mem::take(&mut place.out);
        let alternatives = names.iter().map(|name| {
            let fits = |keyword: &str| match *name {
                "object" => matches!(keyword, "properties" | "required" | "additionalProperties"),
                "array" => matches!(keyword, "items" | "prefixItems" | "minItems" | "maxItems"),
                "string" => matches!(keyword, "format" | "enum"),
                "number" | "integer" => matches!(keyword, "minimum" | "maximum" | "enum"),
                _ => false,
            };
            let mut one = Map::new();
            one.insert("type".to_owned(), json!(name));
            for (keyword, value) in inner.iter().filter(|(keyword, _)| fits(keyword)) {
                let value = match (keyword.as_str(), value) {
                    ("enum", Value::Array(values)) => {
                        let is_text = *name == "string";
                        let of = values.iter().filter(|value| value.is_string() == is_text);
                        Value::Array(of.cloned().collect())
                    }
                    _ => value.clone(),
                };
                if value != json!([]) {
                    one.insert(keyword.clone(), value);
                }
            }
            if *name == "array" {
                one.entry("items").or_insert_with(|| self.any_items());
            }
            Value::Object(one)
        });
        outer.insert("anyOf".to_owned(), alternatives.collect());
        place.out = outer;
    }
}

/// The types that need no further words, as alternatives.
fn any_scalars() -> Vec<Value> {
    ["string", "number", "boolean", "object"].map(|name| json!({"type": name})).to_vec()
}

/// All types, as alternatives.
fn any_types() -> Value {
    let list = json!({"type": "array", "items": {"anyOf": any_scalars()}});
    any_scalars().into_iter().chain([list, json!({"type": "null"})]).collect()
}

/// Adds notes to the description.
fn describe(out: &mut Map<String, Value>, notes: &[String]) {
    if notes.is_empty() {
        return;
    }
    let said = format!("({})", notes.join("; "));
    let text = match out.get("description").and_then(Value::as_str) {
        Some(text) if !text.is_empty() => format!("{text} {said}"),
        _ => said,
    };
    out.insert("description".to_owned(), text.into());
}

/// A place whose alternatives stand alone: words go to the first of them, what else stands beside them
/// to each, and where it cannot, the alternatives are said in words.
fn alone(mut out: Map<String, Value>) -> Map<String, Value> {
    /// Most alternatives that repeat what they have in common.
    const MAX_REPEATED_ALTERNATIVES: usize = 8;
    let Some(Value::Array(mut all)) = out.remove("anyOf").or_else(|| out.remove("oneOf")) else {
        return out;
    };
    let words: Vec<String> = ["title", "description"]
        .iter()
        .filter_map(|keyword| Some(out.remove(*keyword)?.as_str()?.to_owned()))
        .collect();
    let is_typed = all.iter().all(|alternative| alternative.get("type").is_some());
    let is_type = out.keys().all(|keyword| keyword == "type");
    let are_objects = out.get("type").is_some_and(|name| name == "object")
        && all.iter().all(|alternative| alternative["type"] == "object");
    let is_said = out.is_empty() || is_type && is_typed;
    if !is_said && are_objects && all.len() <= MAX_REPEATED_ALTERNATIVES {
        for alternative in all.iter_mut().filter_map(Value::as_object_mut) {
            join(alternative, &out);
        }
    } else if !is_said {
        let mut notes = words;
        notes.push(keyword_note("one of", &Value::Array(all)));
        describe(&mut out, &notes);
        return out;
    }
    let said = words.join(". ");
    if !said.is_empty() {
        say_first(&mut all, &said);
    }
    Map::from_iter([("anyOf".to_owned(), Value::Array(all))])
}

/// Puts words in front of those of the first alternative, or of the first within it where its own
/// alternatives stand alone.
fn say_first(all: &mut [Value], said: &str) {
    let Some(Value::Object(first)) = all.first_mut() else { return };
    let is_alone = first.len() == 1;
    if let Some(Value::Array(within)) = first.get_mut("anyOf").filter(|_| is_alone) {
        return say_first(within, said);
    }
    let own = first.get("description").and_then(Value::as_str).unwrap_or_default();
    let text = format!("{said} {own}").trim_end().to_owned();
    first.insert("description".to_owned(), text.into());
}

/// Adds what all alternatives have in common to one of them, which are all objects.
fn join(alternative: &mut Map<String, Value>, common: &Map<String, Value>) {
    for (keyword, value) in common {
        match (alternative.get_mut(keyword), value) {
            (Some(Value::Object(own)), Value::Object(more)) => {
                for (name, value) in more {
                    own.entry(name.as_str()).or_insert_with(|| value.clone());
                }
            }
            (Some(Value::Array(own)), Value::Array(more)) => {
                own.extend(more.iter().filter(|it| !own.contains(it)).cloned().collect::<Vec<_>>());
            }
            (Some(_), _) => {}
            (None, value) => _ = alternative.insert(keyword.clone(), value.clone()),
        }
    }
}

/// Whether a schema says nothing of a value but words.
fn is_open(schema: &Value) -> bool {
    let words = |key: &String| key == "description" || key == "title";
    schema.as_object().is_some_and(|map| map.keys().all(words))
}

/// The alternatives of a place, by keyword.
fn unions(nodes: &[SubSchema]) -> Vec<(&'static str, Vec<SubSchema>)> {
    let lists = nodes.iter().flat_map(|node| {
        ["anyOf", "oneOf"]
            .map(|keyword| (keyword, node.parts(keyword).cloned().collect::<Vec<_>>()))
    });
    lists.filter(|(_, list)| !list.is_empty()).collect()
}

/// Whether alternatives only say which properties must be given together.
fn are_conditions(variants: &[SubSchema]) -> bool {
    let describes = [
        "properties",
        "$ref",
        "anyOf",
        "oneOf",
        "allOf",
        "items",
        "const",
        "patternProperties",
        "additionalProperties",
    ];
    variants.iter().all(|node| {
        node.has("required")
            && node.options.is_none()
            && !describes.iter().any(|keyword| node.has(keyword))
    })
}

/// Whether a format is one of those that Gemini's `Schema` has for the type of a place.
fn is_known_format(nodes: &[SubSchema], format: &Value) -> bool {
    let is_integer = nodes.iter().any(|node| node.integer);
    let known: &[&str] = match types_of(nodes) {
        Some(types) if types == Types::NUMBER && is_integer => &["int32", "int64"],
        Some(types) if types == Types::NUMBER => &["float", "double"],
        _ => &["enum", "date-time"],
    };
    format.as_str().is_some_and(|format| known.contains(&format))
}

/// The types that a place may have; `None` for any.
fn types_of(nodes: &[SubSchema]) -> Option<Types> {
    let declared = nodes.iter().filter_map(|node| node.types).reduce(|a, b| a & b);
    if declared.is_some_and(|types| !types.is_empty()) {
        return declared;
    }
    let values = nodes.iter().find_map(|node| match (node.value("const"), &node.options) {
        (Some(value), _) => Some(Types::from_value(value)),
        (None, Some(values)) => values.iter().map(Types::from_value).reduce(|a, b| a | b),
        (None, None) => None,
    });
    let implied = || Some(implied_types(nodes)).filter(|types| !types.is_all());
    values.or_else(implied)
}

fn words(types: Types, is_integer: bool) -> Vec<&'static str> {
    let number = if is_integer { "integer" } else { "number" };
    let all = [
        (Types::OBJECT, "object"),
        (Types::ARRAY, "array"),
        (Types::STRING, "string"),
        (Types::NUMBER, number),
        (Types::BOOLEAN, "boolean"),
        (Types::NULL, "null"),
    ];
    all.into_iter().filter(|(one, _)| types.contains(*one)).map(|(_, word)| word).collect()
}

/// Whether a keyword may have this value.
fn is_valid(keyword: &str, value: &Value) -> bool {
    match keyword {
        "title" | "description" | "format" | "$comment" => value.is_string(),
        "pattern" => value.as_str().is_some_and(is_pattern),
        "multipleOf" => value.as_f64().is_some_and(|number| number > 0.0),
        "minimum" | "maximum" => value.is_number(),
        "exclusiveMinimum" | "exclusiveMaximum" => value.is_number() || value.is_boolean(),
        "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
            value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0)
        }
        "uniqueItems" => value.is_boolean(),
        "properties" | "patternProperties" | "$defs" | "definitions" => value.is_object(),
        "required" => value.as_array().is_some_and(|names| names.iter().all(Value::is_string)),
        "enum" => value.as_array().is_some_and(|values| !values.is_empty()),
        "anyOf" | "oneOf" | "allOf" => value.as_array().is_some_and(|list| !list.is_empty()),
        "examples" => value.is_array(),
        "type" => value.is_string() || value.is_array(),
        _ => true,
    }
}

/// Whether a text is a regular expression, as those judge who read the current JSON Schema.
fn is_pattern(text: &str) -> bool {
    jsonschema::draft202012::new(&json!({"pattern": text})).is_ok()
}

/// A count without a fraction, where it is written with one that is zero.
fn whole(keyword: &str, value: Value) -> Value {
    let is_count = ["Length", "Items", "Properties"].iter().any(|end| keyword.ends_with(end));
    match value.as_f64().filter(|number| is_count && value.as_u64().is_none() && *number < 9e15) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked above"
        )]
        Some(number) if number >= 0.0 => json!(number as u64),
        _ => value,
    }
}

fn keyword_note(keyword: &str, value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let short = cut(&text, MAX_NOTE_BYTES);
    let more = if short.len() < text.len() { "…" } else { "" };
    format!("{keyword}: {short}{more}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapted(schema: Value, format: ToolFormat) -> AdaptedSchema {
        AdaptedSchema::new(&SchemaDocument::new(&Arc::new(schema)), format)
    }

    #[test]
    fn names_that_are_not_taken_are_changed_and_changed_back_where_they_stand() {
        let schema = json!({"type": "object", "required": ["$top", "fields[mesh]"], "properties": {
            "$top": {"type": "integer"},
            "top": {"type": "string"},
            "fields[mesh]": {"type": "array", "items": {"type": "object", "properties": {"@id": {"type": "string"}}}},
            "free": {"type": "object", "additionalProperties": true},
            "either": {"anyOf": [{"type": "object", "properties": {"a b": {"type": "string"}}}, {"type": "null"}]},
        }});
        let original = json!({
            "$top": 3, "top": "x", "fields[mesh]": [{"@id": "1"}],
            "free": {"top_2": 1, "p_id": 2}, "either": {"a b": "c"},
        });
        for format in [ToolFormat::Anthropic, ToolFormat::Gemini, ToolFormat::Compatible] {
            let adapted = adapted(schema.clone(), format);
            let sent = adapted.encode(original.clone());
            assert_ne!(sent, original);
            let names = sent.as_object().unwrap().keys();
            assert!(names.clone().all(|name| format.is_property_name(name)), "{sent}");
            assert!(names.clone().all(|name| adapted.schema["properties"].get(name).is_some()));
            assert_eq!(sent["free"], original["free"], "keys that no schema names stay");
            assert_eq!(adapted.decode(sent), original, "{format:?}");
            assert_eq!(adapted.schema["required"].as_array().unwrap().len(), 2);
        }
        let untouched = adapted(schema, ToolFormat::OpenAi);
        assert_eq!(untouched.encode(original.clone()), original);
    }

    #[test]
    fn a_root_that_is_no_plain_object_becomes_a_property_and_back() {
        let union = json!({"anyOf": [
            {"$ref": "#/$defs/A"},
            {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"]},
        ], "$defs": {"A": {"type": "object", "properties": {"a": {"type": "integer"}}}}});
        for format in ToolFormat::ALL {
            let adapted = adapted(union.clone(), format);
            let schema = adapted.schema.to_string();
            assert_eq!(adapted.schema["type"], "object", "{schema}");
            assert!(adapted.schema.get("anyOf").is_none() && !schema.contains("$ref"), "{schema}");
            assert_eq!(adapted.decode(json!({"input": {"a": 1}})), json!({"a": 1}), "{format:?}");
            // A model that does not follow the schema.
            assert_eq!(adapted.decode(json!({"a": 1})), json!({"a": 1}));
            assert_eq!(adapted.encode(json!({"a": 1})), json!({"input": {"a": 1}}));
        }
        for root in [
            json!({"type": ["object", "null"], "properties": {"a": {"type": "string"}}}),
            json!({"properties": {"a": {"type": "string"}}}),
            json!({"$schema": "http://json-schema.org/draft-07/schema#"}),
        ] {
            let sent = adapted(root, ToolFormat::Compatible).schema;
            assert!(sent["type"] == "object" && sent.get("anyOf").is_none(), "{sent}");
        }
        let conditions = json!({"type": "object", "properties": {"a": {}, "b": {}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}]});
        let flat = adapted(conditions, ToolFormat::Anthropic).schema;
        assert!(flat["properties"].get("a").is_some() && flat.get("anyOf").is_none(), "{flat}");
        assert!(flat["description"].as_str().unwrap().contains("a, or b"), "{flat}");
    }

    #[test]
    fn what_is_not_read_is_said_and_what_is_wrong_is_left_out() {
        let schema = json!({"type": "object", "properties": {
            "code": {"type": "string", "pattern": "^[A-Z]+$", "default": "A", "description": "The code"},
            "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "integer"}]},
            "odd": {"type": "uuid", "minLength": "3"},
            "any": true, "list": {"type": "array"}, "lost": {"$ref": "#/$defs/nothing"},
        }});
        let gemini = adapted(schema.clone(), ToolFormat::Gemini);
        let code = &gemini.schema["properties"]["code"]["description"];
        assert_eq!(code, "The code (pattern: ^[A-Z]+$; default: A)");
        let at = |format, form: SchemaForm| {
            let changes = adapted(schema.clone(), format).changes;
            let found = changes.into_iter().find(|change| change.what.starts_with(form.problem()));
            found.map(|change| (change.pointer, change.is_refused))
        };
        let openai = adapted(schema.clone(), ToolFormat::OpenAi).schema;
        assert_eq!(openai["properties"]["ratio"], json!({"type": "number", "exclusiveMinimum": 0}));
        assert_eq!(openai["properties"]["odd"], json!({"type": "string"}));
        let refused = |pointer: &str| Some((pointer.to_owned(), true));
        assert_eq!(at(ToolFormat::OpenAi, SchemaForm::ListItems), refused("/properties/list"));
        assert_eq!(at(ToolFormat::Ollama, SchemaForm::BooleanSchema), refused("/properties/any"));
        assert_eq!(at(ToolFormat::OpenAi, SchemaForm::LostReference), refused("/properties/lost"));
        assert_eq!(at(ToolFormat::Anthropic, SchemaForm::ListItems), None);
        let gemini_pair = &gemini.schema["properties"]["pair"]["prefixItems"];
        assert_eq!(gemini_pair, &json!([{"type": "string"}, {"type": "integer"}]));
    }

    #[test]
    fn alternatives_stand_alone_where_they_must_and_lose_nothing() {
        let compatible = |property: Value| {
            let root = json!({"type": "object", "properties": {"p": property}});
            let adapted = adapted(root, ToolFormat::Compatible);
            let is_told = |change: &SchemaChange| change.document.contains("litellm#11164");
            let told = adapted.changes.iter().any(|change| change.is_refused && is_told(change));
            (adapted.schema["properties"]["p"].clone(), told)
        };
        let optional = json!({
            "anyOf": [{"type": "string", "description": "Its name."}, {"type": "null"}],
            "title": "Branch", "description": "Where to begin.", "default": null,
        });
        let first = "Branch. Where to begin. (default: null) Its name.";
        let expected = json!({"anyOf": [
            {"type": "string", "description": first}, {"type": "null"},
        ]});
        assert_eq!(compatible(optional.clone()), (expected, true));
        let typed = json!({"type": "string", "anyOf": [
            {"type": "string", "format": "date-time"}, {"type": "string", "format": "enum"},
        ]});
        let expected = json!({"anyOf": [
            {"type": "string", "format": "date-time"}, {"type": "string", "format": "enum"},
        ]});
        assert_eq!(compatible(typed), (expected, true));
        let joined = json!({
            "type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"],
            "oneOf": [
                {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                {"type": "object", "properties": {"b": {"type": "string"}}},
            ],
        });
        let (sent, _) = compatible(joined);
        assert_eq!(sent.as_object().map(Map::len), Some(1), "{sent}");
        assert_eq!(sent["anyOf"][0]["required"], json!(["a", "id"]));
        assert_eq!(sent["anyOf"][1]["properties"]["id"], json!({"type": "integer"}));
        // What cannot be joined is said in words.
        let mixed = json!({
            "type": "array", "items": {"type": "string"},
            "anyOf": [{"type": "array", "minItems": 1}, {"type": "array", "maxItems": 9}],
        });
        let (sent, told) = compatible(mixed);
        assert!(told && sent.get("anyOf").is_none() && sent["items"]["type"] == "string", "{sent}");
        assert!(sent["description"].as_str().is_some_and(|text| text.contains("one of")), "{sent}");
        // Others take them as they are.
        let root = json!({"type": "object", "properties": {"p": optional}});
        let openai = adapted(root, ToolFormat::OpenAi).schema;
        assert_eq!(openai["properties"]["p"]["description"], "Where to begin.");
    }

    #[test]
    fn references_that_lead_back_or_multiply_end() {
        let tree = json!({"type": "object", "properties": {"tree": {"$ref": "#/$defs/Node"}},
            "$defs": {"Node": {"type": "object", "properties": {
                "left": {"$ref": "#/$defs/Node"}, "right": {"$ref": "#/$defs/Node"}}}}});
        let schema = adapted(tree, ToolFormat::OpenAi).schema;
        let left = &schema["properties"]["tree"]["properties"]["left"];
        assert_eq!(left, &json!({"type": "object", "description": "The same form as Node above."}));
        let mut defs = Map::new();
        for level in 0..30 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            let properties = json!({"a": next, "b": next, "c": next});
            defs.insert(format!("d{level}"), json!({"type": "object", "properties": properties}));
        }
        let bomb =
            json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": defs});
        let size = adapted(bomb, ToolFormat::Compatible).schema.to_string().len();
        assert!(size < 500_000, "{size}");
        for root in
            [json!(true), json!({}), json!({"$ref": "#"}), json!({"type": "string"}), json!([1])]
        {
            for format in ToolFormat::ALL {
                let schema = adapted(root.clone(), format).schema;
                assert_eq!(
                    (&schema["type"], schema["properties"].is_object()),
                    (&json!("object"), true)
                );
            }
        }
    }
}
