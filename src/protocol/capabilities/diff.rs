//! Differences between two versions of the lists: by entry, then by field.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::{Capabilities, FieldChange, ListChanges, ListKind};
use base::SafeText;
use base::pointer::{self, child_pointer};
use base::text::inspect::{hidden, instructions, urls};
use base::text::json::{WrittenValue, exact_form};

/// Most differing fields listed for one entry; the rest is summarised in one change at its root.
pub const MAX_FIELDS: usize = 64;

impl ListChanges {
    /// How `after` differs from `before`; `None` when it does not. The order of entries is ignored.
    pub fn between(before: &Capabilities, after: &Capabilities) -> Option<Self> {
        let mut changes = Self::default();
        for kind in ListKind::ALL {
            changes.compare(kind, &before.entries(kind), &after.entries(kind));
        }
        (!changes.is_empty()).then_some(changes)
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty() && self.changed.is_empty()
    }

    /// Merges newer changes; returns whether a listed item changed again. For a field that changed
    /// twice, the oldest and newest values are kept; if it changed back, the one in between is.
    pub fn add(&mut self, newer: &Self) -> bool {
        /// Most entries of each kind; a server that keeps inventing names loses the oldest.
        const MAX_ENTRIES: usize = 5_000;
        fn put<T>(all: &mut Vec<T>, one: T) {
            if all.len() >= MAX_ENTRIES {
                all.remove(0);
            }
            all.push(one);
        }
        let mut again = false;
        for (all, new) in [(&mut self.added, &newer.added), (&mut self.removed, &newer.removed)] {
            for item in new {
                if all.contains(item) {
                    again = true;
                } else {
                    put(all, item.clone());
                }
            }
        }
        for (kind, name, fields) in &newer.changed {
            let known = self.changed.iter_mut().find(|(k, n, _)| (k, n) == (kind, name));
            let Some((.., kept)) = known else {
                put(&mut self.changed, (*kind, name.clone(), fields.clone()));
                continue;
            };
            again = true;
            for field in fields {
                let room = kept.len() < MAX_FIELDS;
                match kept.iter_mut().find(|f| f.pointer == field.pointer) {
                    // Changed back: the value in between is what the user needs to see.
                    Some(old) if old.before == field.after => {}
                    Some(old) => old.after.clone_from(&field.after),
                    None if room => kept.push(field.clone()),
                    None => {}
                }
            }
        }
        again
    }

    /// Removes an item that the user has reviewed.
    pub fn forget(&mut self, kind: ListKind, name: &SafeText) {
        let other = |k: &ListKind, n: &SafeText| *k != kind || n != name;
        self.added.retain(|(k, n)| other(k, n));
        self.removed.retain(|(k, n)| other(k, n));
        self.changed.retain(|(k, n, _)| other(k, n));
    }

    fn compare(&mut self, kind: ListKind, before: &EntriesByName<'_>, after: &EntriesByName<'_>) {
        let old: HashMap<_, _> = before.iter().copied().collect();
        let new: HashMap<_, _> = after.iter().copied().collect();
        for (key, raw) in after {
            match old.get(key) {
                None => self.added.push((kind, SafeText::line(key))),
                Some(was) if Arc::ptr_eq(was, raw) || was == raw => {}
                Some(was) => {
                    self.changed.push((kind, SafeText::line(key), differences(was, raw)));
                }
            }
        }
        for (key, _) in before.iter().filter(|(key, _)| !new.contains_key(key)) {
            self.removed.push((kind, SafeText::line(key)));
        }
    }
}

type EntriesByName<'a> = [(&'a Arc<str>, &'a Arc<WrittenValue>)];

/// The fields in which two JSON values differ, by JSON pointer (RFC 6901), at most
/// [`MAX_FIELDS`] of them.
pub fn differences(before: &WrittenValue, after: &WrittenValue) -> Vec<FieldChange> {
    let mut fields = every_written_difference(before, after);
    if fields.len() > MAX_FIELDS {
        let rest = fields.len() - MAX_FIELDS;
        fields.truncate(MAX_FIELDS);
        fields.push(FieldChange {
            pointer: String::new(),
            before: None,
            after: Some(Value::String(format!("... and {rest} more fields differ"))),
        });
    }
    fields
}

/// All fields in which two JSON values differ; a root value of `null` counts as absent. Objects are
/// compared by key, arrays of equal length by index, everything else and very deep values as a
/// whole. The order of `required`, `enum` and `type` is ignored.
pub fn every_difference(before: &Value, after: &Value) -> Vec<FieldChange> {
    let mut fields = Vec::new();
    walk("", before, after, &mut fields);
    for field in fields.iter_mut().filter(|field| field.pointer.is_empty()) {
        field.before.take_if(|value| value.is_null());
        field.after.take_if(|value| value.is_null());
    }
    fields
}

/// As [`every_difference`], of values whose numbers are as they are written: two that differ only
/// beyond what a [`Value`] holds differ. Such a number stands in the change as text.
pub fn every_written_difference(before: &WrittenValue, after: &WrittenValue) -> Vec<FieldChange> {
    let mut fields = every_difference(before, after);
    let (old, new) = (before.numbers.only_rounded(), after.numbers.only_rounded());
    let places: BTreeSet<&str> = old.iter().chain(new.iter()).map(|(place, _)| place).collect();
    for place in places {
        let (parent, _) = pointer::split(place).unwrap_or_default();
        let in_set = is_set_keyword(parent.rsplit('/').next().unwrap_or_default());
        let at = if in_set { parent } else { place };
        if fields.iter().any(|field| pointer::is_within(at, &field.pointer)) {
            continue;
        }
        let (Some(was), Some(is)) = (before.pointer(at), after.pointer(at)) else { continue };
        let [mut was, mut is] = [(&old, was), (&new, is)].map(|(numbers, value)| {
            let items = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            let text = |(index, item): (usize, &Value)| {
                let place = if in_set { format!("{at}/{index}") } else { at.to_owned() };
                let written = item.as_number().and_then(|it| numbers.written(&place, it));
                written.map_or_else(|| item.to_string(), str::to_owned)
            };
            items.iter().enumerate().map(text).collect::<Vec<_>>()
        });
        let exact = |all: &[String]| all.iter().map(|it| exact_form(it)).collect::<HashSet<_>>();
        let (was_exact, is_exact) = (exact(&was), exact(&is));
        if was_exact != is_exact {
            was.retain(|it| !is_exact.contains(&exact_form(it)));
            is.retain(|it| !was_exact.contains(&exact_form(it)));
            let [before, after] = [was, is].map(|all| Some(Value::String(all.join(", "))));
            fields.push(FieldChange { pointer: at.to_owned(), before, after });
        }
    }
    fields
}

/// Whether an array under this JSON Schema keyword is a set.
pub fn is_set_keyword(key: &str) -> bool {
    matches!(key, "required" | "enum" | "type")
}

/// Longest pointer, in bytes, below which fields are compared individually: a long key would be
/// repeated in the pointer of everything below it.
const MAX_POINTER: usize = 1_024;

fn walk(pointer: &str, before: &Value, after: &Value, fields: &mut Vec<FieldChange>) {
    let is_short = pointer.len() <= MAX_POINTER;
    let in_set = is_set_keyword(pointer.rsplit('/').next().unwrap_or_default());
    let mut below = |key: &str, old: Option<&Value>, new: Option<&Value>| {
        let pointer = child_pointer(pointer, key);
        match (old, new) {
            (Some(old), Some(new)) => walk(&pointer, old, new, fields),
            (old, new) => {
                fields.push(FieldChange { pointer, before: old.cloned(), after: new.cloned() });
            }
        }
    };
    match (before, after) {
        (Value::Object(old), Value::Object(new)) if is_short => {
            for (key, value) in old {
                if new.get(key) != Some(value) {
                    below(key, Some(value), new.get(key));
                }
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                below(key, None, Some(value));
            }
        }
        (Value::Array(old), Value::Array(new)) if is_short && !in_set && old.len() == new.len() => {
            for (index, (old, new)) in old.iter().zip(new).enumerate() {
                if old != new {
                    below(&index.to_string(), Some(old), Some(new));
                }
            }
        }
        (Value::Array(old), Value::Array(new))
            if in_set && HashSet::<_>::from_iter(old) == HashSet::from_iter(new) => {}
        _ if before == after => {}
        _ => fields.push(FieldChange {
            pointer: pointer.to_owned(),
            before: Some(before.clone()),
            after: Some(after.clone()),
        }),
    }
}

// What makes a changed definition suspicious: a new address, instructing phrases, hidden
// characters, a flipped hint, a schema that accepts more. Pure; shared by the review of definitions
// and the rules about the lock file, so that both agree.

/// One reason to review a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Risk {
    /// The new text holds invisible characters that the old one did not.
    HiddenCharacters,
    /// The new text instructs a model: why it is suspicious, and its words.
    Instruction(&'static str, SafeText),
    /// The new text names this address.
    NewUrl(SafeText),
    /// A hint of `annotations` changed.
    HintFlipped,
    /// The input schema accepts more, in this way.
    SchemaLoosened(SafeText),
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HiddenCharacters => f.write_str("the new text hides characters"),
            Self::Instruction(why, words) => write!(f, "the new text {why}: “{words}”"),
            Self::NewUrl(url) => write!(f, "new address {url}"),
            Self::HintFlipped => f.write_str("a hint says something else"),
            Self::SchemaLoosened(how) => write!(f, "{how}"),
        }
    }
}

impl FieldChange {
    /// Why it is risky, each reason once.
    pub fn risks(&self) -> Vec<Risk> {
        let mut found = Vec::new();
        let (mut old, mut new) = (String::new(), String::new());
        let key = self.pointer.rsplit('/').next().unwrap_or_default();
        self.before.iter().for_each(|value| texts(key, value, &mut old));
        self.after.iter().for_each(|value| texts(key, value, &mut new));
        let (known, fresh) = (hidden(&old), hidden(&new));
        if !fresh.control.is_subset(&known.control)
            || !fresh.invisible.is_subset(&known.invisible)
            || fresh.buried && !known.buried
        {
            found.push(Risk::HiddenCharacters);
        }
        let known = instructions(&old);
        for (words, why) in instructions(&new) {
            if !known.iter().any(|(_, k)| *k == why) {
                found.push(Risk::Instruction(why, SafeText::cut(&words, 80)));
            }
        }
        let fresh = urls(&new);
        found.extend(fresh.difference(&urls(&old)).map(|u| Risk::NewUrl(SafeText::cut(u, 80))));
        if self.pointer.starts_with("/annotations/") && self.pointer.ends_with("Hint") {
            found.push(Risk::HintFlipped);
        } else if let Some(how) = self.loosened() {
            found.push(Risk::SchemaLoosened(SafeText::line(&how)));
        }
        found
    }

    /// How it makes an input schema accept more; `None` when it does not.
    fn loosened(&self) -> Option<String> {
        let within = self.pointer.strip_prefix("/inputSchema/")?;
        let mut parts = within.rsplit('/');
        let keyword = parts.next()?;
        // `properties/required` is a parameter that happens to have this name.
        if matches!(
            parts.next(),
            Some("properties" | "$defs" | "definitions" | "patternProperties")
        ) {
            return None;
        }
        if !NARROWING.split(' ').any(|word| word == keyword) {
            return None;
        }
        match (&self.before, &self.after) {
            (Some(Value::Bool(true)) | None, _) if keyword == "additionalProperties" => None,
            (Some(old), None) => {
                narrows(keyword, old).then(|| format!("`{keyword}` no longer applies"))
            }
            (Some(old), Some(new)) => wider(keyword, old, new),
            (None, _) => None,
        }
    }
}

/// Collects every key and string of the value under `key`: what a reader of the definition sees. Which
/// dialect of JSON Schema a schema is written in (section 8.1.1 of its core) says nothing to a reader.
fn texts(key: &str, value: &Value, out: &mut String) {
    match value {
        Value::String(text) if key == "$schema" && is_dialect(text) => {}
        Value::String(text) => out.extend([text.as_str(), "\n"]),
        Value::Array(items) => items.iter().for_each(|item| texts("", item, out)),
        Value::Object(map) => {
            for (key, value) in map {
                out.extend([key.as_str(), "\n"]);
                texts(key, value, out);
            }
        }
        _ => {}
    }
}

/// The published dialects of JSON Schema.
const DIALECTS: [&str; 6] = [
    "draft-03/schema",
    "draft-04/schema",
    "draft-06/schema",
    "draft-07/schema",
    "draft/2019-09/schema",
    "draft/2020-12/schema",
];

fn is_dialect(text: &str) -> bool {
    let own = ["http://json-schema.org/", "https://json-schema.org/"];
    let name = own.iter().find_map(|place| text.strip_prefix(place));
    name.is_some_and(|name| DIALECTS.contains(&name.strip_suffix('#').unwrap_or(name)))
}

/// Whether a keyword with this value refuses anything.
fn narrows(keyword: &str, value: &Value) -> bool {
    match (keyword, value) {
        ("required" | "allOf", Value::Array(items)) => !items.is_empty(),
        ("minLength" | "minItems" | "minProperties", value) => value.as_f64() != Some(0.0),
        ("uniqueItems", value) => value == &Value::Bool(true),
        ("additionalProperties" | "propertyNames", Value::Object(schema)) => !schema.is_empty(),
        _ => true,
    }
}

/// Keywords whose presence narrows what a schema accepts.
const NARROWING: &str = "required enum const type pattern format minLength maxLength minimum \
    maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems uniqueItems \
    minProperties maxProperties additionalProperties propertyNames not allOf";

fn wider(keyword: &str, old: &Value, new: &Value) -> Option<String> {
    /// The items of a list; anything else is one item.
    fn items(value: &Value) -> &[Value] {
        value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice)
    }
    /// The first item of `these` that is not in `those`.
    fn beyond<'a>(these: &'a Value, those: &Value) -> Option<&'a Value> {
        let known: HashSet<_> = items(those).iter().collect();
        items(these).iter().find(|item| !known.contains(item))
    }
    match keyword {
        "required" => beyond(old, new)
            .map(|name| format!("{} is no longer required", SafeText::cut(&name.to_string(), 120))),
        "enum" | "type" => beyond(new, old)
            .map(|item| format!("{} is accepted now", SafeText::cut(&item.to_string(), 120))),
        "minLength" | "minimum" | "exclusiveMinimum" | "minItems" | "minProperties" => {
            (new.as_f64()? < old.as_f64()?).then(|| "the lower limit fell".to_owned())
        }
        "maxLength" | "maximum" | "exclusiveMaximum" | "maxItems" | "maxProperties" => {
            (new.as_f64()? > old.as_f64()?).then(|| "the upper limit rose".to_owned())
        }
        "uniqueItems" => (new == &Value::Bool(false)).then(|| "items may repeat now".to_owned()),
        "additionalProperties" => {
            let free =
                |v: &Value| v == &Value::Bool(true) || v.as_object().is_some_and(Map::is_empty);
            let open = old == &Value::Bool(false) || free(new);
            open.then(|| "extra properties are accepted now".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::capabilities::FetchedList;

    fn capabilities(tools: &[Value]) -> Capabilities {
        let mut all = Capabilities::default();
        let entries = tools.iter().cloned().map(|tool| Arc::new(tool.into())).collect();
        let list = FetchedList { entries, ..FetchedList::default() };
        all.replace(ListKind::Tools, &list, &base::Redactor::default());
        all
    }

    #[test]
    fn added_removed_and_changed_entries_are_distinguished_and_order_is_no_change() {
        let tool = |name: &str, about: &str| json!({"name": name, "description": about, "inputSchema": {}});
        let before = capabilities(&[tool("a", "x"), tool("b", "x"), tool("c", "x")]);
        let after = capabilities(&[tool("c", "y"), tool("d", "x"), tool("a", "x")]);
        let changes = ListChanges::between(&before, &after).expect("there are changes");
        assert_eq!(changes.added, [(ListKind::Tools, SafeText::line("d"))]);
        assert_eq!(changes.removed, [(ListKind::Tools, SafeText::line("b"))]);
        assert_eq!(changes.changed.len(), 1);
        assert_eq!(changes.changed[0].2[0].pointer, "/description");
        let shuffled = capabilities(&[tool("b", "x"), tool("a", "x"), tool("c", "x")]);
        assert_eq!(ListChanges::between(&before, &shuffled), None);
    }

    #[test]
    fn differences_point_at_the_deepest_field_that_differs() {
        let before = json!({"s": {"a/b": [1, 2], "gone": 1}, "list": [1]});
        let after = json!({"s": {"a/b": [1, 3], "new": null}, "list": [1, 2]});
        let found: Vec<_> = differences(&before.into(), &after.into())
            .into_iter()
            .map(|f| (f.pointer, f.before, f.after))
            .collect();
        assert_eq!(
            found,
            [
                ("/s/a~1b/1".into(), Some(json!(2)), Some(json!(3))),
                ("/s/gone".into(), Some(json!(1)), None),
                ("/s/new".into(), None, Some(json!(null))),
                ("/list".into(), Some(json!([1])), Some(json!([1, 2]))),
            ]
        );
    }

    #[test]
    fn a_rewritten_entry_is_reported_in_bounded_space() {
        let wide = |n: usize| -> WrittenValue {
            (0..n).map(|k| (k.to_string(), json!(n))).collect::<Value>().into()
        };
        assert_eq!(differences(&wide(5_000), &wide(5_001)).len(), MAX_FIELDS + 1);
    }

    #[test]
    fn lists_of_any_length_are_compared_in_one_pass() {
        let names: Vec<Value> = (0..40_000).map(|n| json!(n.to_string())).collect();
        let schema =
            |names: Vec<Value>| WrittenValue::from(json!({"inputSchema": {"enum": names}}));
        let turned = names.iter().rev().cloned().collect();
        let longer = names.iter().rev().cloned().chain([json!("new")]).collect();
        let began = std::time::Instant::now();
        assert_eq!(differences(&schema(names.clone()), &schema(turned)), []);
        let changes = differences(&schema(names), &schema(longer));
        let risk = Risk::SchemaLoosened(SafeText::line("\"new\" is accepted now"));
        assert_eq!(changes[0].risks(), [risk]);
        assert!(began.elapsed().as_secs() < 5, "{:?}", began.elapsed());
    }

    #[test]
    fn the_dialect_of_a_schema_and_keywords_that_refuse_nothing_are_no_risk() {
        let draft = "http://json-schema.org/draft-07/schema#";
        let newest = "https://json-schema.org/draft/2020-12/schema";
        let risks = |before: Value, after: Value| {
            let changes = every_difference(&before, &after);
            assert!(!changes.is_empty(), "{before} {after}");
            changes.iter().flat_map(FieldChange::risks).collect::<Vec<_>>()
        };
        let input = |schema: Value| json!({"inputSchema": schema});
        for (before, after) in [
            (json!({}), json!({"outputSchema": {"$schema": draft, "type": "object"}})),
            (input(json!({})), input(json!({"$schema": draft}))),
            (input(json!({"$schema": draft})), input(json!({"$schema": newest}))),
            (input(json!({"required": [], "minLength": 0})), input(json!({}))),
            (input(json!({"uniqueItems": false, "additionalProperties": {}})), input(json!({}))),
        ] {
            assert_eq!(risks(before, after), []);
        }
        let address = |url: &str| vec![Risk::NewUrl(SafeText::line(url))];
        for (field, text, url) in [
            ("$schema", "http://json-schema.org.evil.example/draft-07/schema#", None),
            ("$schema", "https://elsewhere.example/schema", Some("https://elsewhere.example")),
            ("$schema", "https://json-schema.org/read/this", Some("https://json-schema.org")),
            ("description", draft, Some("http://json-schema.org")),
        ] {
            let found = risks(json!({}), json!({"inputSchema": {field: text}}));
            match url {
                Some(url) => assert_eq!(found, address(url), "{text}"),
                None => assert_eq!(found.len(), 1, "{text}"),
            }
        }
        for gone in [json!({"required": ["a"]}), json!({"minLength": 1}), json!({"not": {}})] {
            assert_eq!(risks(input(gone.clone()), input(json!({}))).len(), 1, "{gone}");
        }
    }

    #[test]
    fn pointers_do_not_repeat_long_keys() {
        let inner =
            |n: usize| Value::Object((0..2_000).map(|k| (k.to_string(), json!(n))).collect());
        let outer = |n: usize| json!({"a".repeat(10_000): inner(n), "b": inner(n)});
        let found = every_difference(&outer(1), &outer(2));
        assert_eq!(found.len(), 2_001);
        assert!(found.iter().map(|change| change.pointer.len()).sum::<usize>() < 100_000);
    }
}
