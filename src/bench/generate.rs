//! Cases from an `inputSchema`: the smallest valid arguments, and each way in which one place of
//! them may differ, validly or not. Pure; the same seed gives the same cases.

use std::collections::HashSet;
use std::sync::Arc;

use fastrand::Rng;
use serde_json::{Map, Value, json};

use crate::breaks::{
    CaseAim, PlaceDifference, breaks, counts, differs, format_sample, hostile, lengths,
    limit_values, of_constant, of_numbers, of_options, of_other_types, of_texts, smallest_number,
};
use crate::pattern::{MAX_TEXT_CHARS, of_pattern, texts_of};
use crate::repair::repaired;
use base::pointer::{child_pointer, remove, set};
use config::error::Violation;
use schema::{
    Conj, Formats, Merged, SchemaDocument, SchemaLimits, SchemaVerdict, SubSchema, Types,
    Validator, merge,
};

/// What the rules of the schema say of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaseKind {
    /// Valid, in the words of the schema.
    Valid,
    /// Valid, with content that a server has to treat as data: traversal, injection, odd Unicode,
    /// great length or depth.
    Hostile,
    /// Valid, in letters beyond ASCII: a server may know none of these words, but has to take as many
    /// of them as of others.
    Foreign,
    /// One rule of the schema is broken.
    Invalid,
}

/// Arguments for one call.
#[derive(Clone, Debug, PartialEq)]
pub struct FuzzCase {
    /// The arguments.
    pub arguments: Value,
    /// JSON pointer of the place that differs from the smallest valid arguments; empty for none.
    pub place: String,
    /// How it differs: `enum value`, `below the minimum`.
    pub what: String,
    /// What the schema says.
    pub kind: CaseKind,
}

/// Deepest nesting of places that are varied.
const MAX_PLACE_DEPTH: usize = 5;
/// Most items that a schema may ask for.
const MAX_ITEMS: u64 = 200;
/// Levels of the deepest value that is sent, where the schema sets no limit.
const MAX_SENT_DEPTH_LEVELS: usize = 100;
/// What a value is whose schema names itself.
const DEEP_BY_SCHEMA: &str = "deeply nested as the schema permits";
/// Most places above one to which the same schema applies.
const MAX_LOOP_STEPS: usize = 3;
/// Most places that are looked at for them.
const MAX_LOOP_PLACES: usize = 256;
/// Most items of a list, and alternatives of a value, that are varied one by one.
const MAX_VARIED_PARTS: usize = 8;
/// Most cases that are made before the budget chooses.
const MAX_CASES: usize = 5_000;

/// Makes cases from one schema.
pub struct CaseMaker {
    document: SchemaDocument,
    validator: Option<Validator>,
    /// Whether any place of the schema names another one.
    has_references: bool,
}

impl CaseMaker {
    /// For a schema.
    pub fn new(schema: &Arc<Value>) -> Self {
        let limits = SchemaLimits::default();
        let validator = Validator::compile_with(schema, Formats::Assert, limits).ok();
        let text = schema.to_string();
        let has_references =
            ["\"$ref\"", "\"$dynamicRef\"", "\"$recursiveRef\""].iter().any(|it| text.contains(it));
        Self { document: SchemaDocument::new(schema), validator, has_references }
    }

    /// Whether the schema permits these arguments.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.as_ref().is_some_and(|validator| validator.check(value).is_valid())
    }

    /// Whether nothing is wrong with arguments but members that are missing.
    fn needs(&self, arguments: &Value) -> bool {
        let checked = self.validator.as_ref().map(|validator| validator.check(arguments));
        let Some(SchemaVerdict::Invalid(wrong)) = checked else { return false };
        wrong.iter().all(|it| matches!(it.keyword.as_str(), "required" | "dependentRequired"))
    }

    /// Whether arguments break rules elsewhere than at a place and below it, and none there.
    fn lacks(&self, arguments: &Value, place: &str) -> bool {
        let checked = self.validator.as_ref().map(|validator| validator.check(arguments));
        let Some(SchemaVerdict::Invalid(wrong)) = checked else { return false };
        let is_below = |pointer: &str| {
            pointer.strip_prefix(place).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !wrong.iter().any(|violation| is_below(&violation.pointer))
    }

    /// The smallest valid arguments; `None` when none could be made.
    pub fn smallest(&self) -> Option<Value> {
        let root = vec![Arc::clone(&self.document.root)];
        let made = self.value(&root, &[], 0).unwrap_or_else(|| json!({}));
        let made = if self.is_valid(&made) { Some(made) } else { self.repaired(made) };
        made.filter(Value::is_object).map(|made| self.lessened(made))
    }

    /// Arguments without the members that they do not need: what a condition asks for is there at first
    /// whether the condition holds or not.
    fn lessened(&self, mut arguments: Value) -> Value {
        let names: Vec<String> =
            arguments.as_object().into_iter().flat_map(Map::keys).cloned().collect();
        for name in names.iter().rev() {
            let mut less = Some(arguments.clone());
            remove(&mut less, &child_pointer("", name));
            if let Some(less) = less.filter(|less| self.is_valid(less)) {
                arguments = less;
            }
        }
        arguments
    }

    /// Arguments that the schema permits, near ones that it does not.
    fn repaired(&self, arguments: Value) -> Option<Value> {
        let validator = self.validator.as_ref()?;
        repaired(arguments, validator, |value, wrong| self.remedies(value, wrong))
    }

    /// What applies to a place of a value.
    fn conj_at(&self, value: &Value, pointer: &str) -> Conj {
        let mut conj: Conj = vec![Arc::clone(&self.document.root)];
        let mut here = Some(value);
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let merged = merge(&self.document, &conj, here, &[]);
            let is_list = here.is_some_and(Value::is_array);
            conj = match step.parse::<usize>() {
                Ok(index) if is_list => merged.item(index),
                _ => {
                    let known = merged.properties.get(&step).cloned();
                    known.or_else(|| merged.other(&step)).unwrap_or_default()
                }
            };
            here = match here {
                Some(Value::Array(items)) => step.parse().ok().and_then(|i: usize| items.get(i)),
                Some(Value::Object(map)) => map.get(&step),
                _ => None,
            };
        }
        conj
    }

    /// Values in which one violation may be mended, the nearest first.
    fn remedies(&self, value: &Value, wrong: &Violation) -> Vec<Value> {
        let (pointer, conj) = (wrong.pointer.as_str(), self.conj_at(value, &wrong.pointer));
        let here = value.pointer(pointer);
        let merged = merge(&self.document, &conj, here, &[]);
        let with = |at: &str, new: Value| {
            let mut changed = Some(value.clone());
            set(&mut changed, at, new).then_some(changed).flatten()
        };
        let mut all: Vec<Value> = Vec::new();
        if matches!(wrong.keyword.as_str(), "additionalProperties" | "unevaluatedProperties") {
            let mut less = Some(value.clone());
            remove(&mut less, pointer);
            all.extend(less);
        }
        if here.is_none() {
            all.extend(self.value(&conj, &[], 1).and_then(|new| with(pointer, new)));
        }
        match here {
            Some(Value::Object(map)) => {
                for name in likely_names(&merged) {
                    if !map.contains_key(&name) {
                        let at = child_pointer(pointer, &name);
                        let conj = merged.properties.get(&name).cloned();
                        let conj = conj.or_else(|| merged.other(&name)).unwrap_or_default();
                        all.extend(self.value(&conj, &[], 1).and_then(|new| with(&at, new)));
                    }
                }
                for name in map.keys().filter(|name| !merged.required.contains(*name)) {
                    let mut less = Some(value.clone());
                    remove(&mut less, &child_pointer(pointer, name));
                    all.extend(less);
                }
            }
            Some(Value::Array(items)) => {
                for part in merged.nodes.iter().filter_map(|node| node.part("contains")) {
                    let added = self.value(&vec![Arc::clone(part)], &[], 1);
                    let more = items.iter().cloned().chain(added).collect();
                    all.extend(with(pointer, Value::Array(more)));
                }
                all.extend(self.value(&merged.item(items.len()), &[], 1).and_then(|added| {
                    with(pointer, Value::Array(items.iter().cloned().chain([added]).collect()))
                }));
                let fewer = items.split_last().map(|(_, fewer)| fewer.to_vec());
                all.extend(fewer.and_then(|fewer| with(pointer, Value::Array(fewer))));
            }
            _ => {}
        }
        let limits = limit_values(&merged).into_iter();
        let others = self.differences(&merged, 1).into_iter().map(|other| other.value);
        let common = ["b", "c", "abc", "aaaaaaaa"].map(|text| json!(text)).into_iter();
        let numbers = [0, 1, 2, 5, 10, 100].map(|number| json!(number)).into_iter();
        let values = limits.chain(others).chain(common).chain(numbers);
        all.extend(values.filter_map(|new| with(pointer, new)));
        all
    }

    /// The smallest arguments, then one case for each way in which one place may differ, valid ones
    /// first, then `more` random combinations of valid differences.
    pub fn cases(&self, seed: u64, more: usize) -> Vec<FuzzCase> {
        let Some(smallest) = self.smallest() else { return Vec::new() };
        self.cases_from(smallest, seed, more)
    }

    /// As [`CaseMaker::cases`], from these arguments instead of the smallest.
    pub fn cases_from(&self, smallest: Value, seed: u64, more: usize) -> Vec<FuzzCase> {
        let mut cases =
            CaseList { maker: self, seen: HashSet::new(), all: Vec::new(), places: Vec::new() };
        cases.add(smallest.clone(), "", "the smallest arguments", CaseAim::Fit);
        let root = vec![Arc::clone(&self.document.root)];
        cases.places(&root, "", &smallest, 0);
        let mut all = cases.all;
        all.sort_by_key(|case| match case.kind {
            CaseKind::Valid => 0,
            CaseKind::Foreign => 1,
            CaseKind::Hostile => 2,
            CaseKind::Invalid => 3,
        });
        let valid: Vec<FuzzCase> = all
            .iter()
            .filter(|c| c.kind == CaseKind::Valid && !c.place.is_empty())
            .cloned()
            .collect();
        let mut rng = Rng::with_seed(seed);
        let mut seen: HashSet<String> = all.iter().map(|c| c.arguments.to_string()).collect();
        let mut tries = more * 4;
        let mut made = 0;
        while made < more && tries > 0 && valid.len() > 1 {
            tries -= 1;
            let mut arguments = Some(smallest.clone());
            let mut places: Vec<&str> = Vec::new();
            for _ in 0..rng.usize(2..=4) {
                let case = &valid[rng.usize(..valid.len())];
                let overlaps = |other: &str| {
                    case.place.starts_with(other) || other.starts_with(case.place.as_str())
                };
                if places.iter().any(|other| overlaps(other)) {
                    continue;
                }
                match case.arguments.pointer(&case.place) {
                    Some(value) => _ = set(&mut arguments, &case.place, value.clone()),
                    None => _ = remove(&mut arguments, &case.place),
                }
                places.push(&case.place);
            }
            let Some(arguments) = arguments else { continue };
            if places.len() > 1 && self.is_valid(&arguments) && seen.insert(arguments.to_string()) {
                made += 1;
                all.push(FuzzCase {
                    arguments,
                    place: String::new(),
                    what: format!("a combination of {}", places.join(", ")),
                    kind: CaseKind::Valid,
                });
            }
        }
        all
    }

    /// The smallest value of a place.
    fn value(&self, conj: &Conj, picks: &[Option<usize>], depth: usize) -> Option<Value> {
        let merged = merge(&self.document, conj, None, picks);
        self.of_merged(&merged, depth)
    }

    fn of_merged(&self, merged: &Merged, depth: usize) -> Option<Value> {
        if let Some(value) = merged.only() {
            return Some(value.clone());
        }
        let examples = merged.first(|node| node.value("examples")).and_then(Value::as_array);
        let example = examples.and_then(|all| all.first());
        let given = merged.first(|node| node.value("default")).filter(|value| !value.is_null());
        if let Some(value) = given.or(example).or_else(|| merged.first(|n| n.value("example"))) {
            return Some(value.clone());
        }
        if let Some(options) = &merged.options {
            return options.first().cloned();
        }
        if depth > 12 {
            return None;
        }
        let kinds = merged.kinds();
        let is = |kind: Types| kinds.contains(kind);
        if kinds == Types::all() || is(Types::STRING) && !merged.properties.is_empty() {
            if merged.properties.is_empty() && merged.required.is_empty() {
                return Some(json!("a"));
            }
            return self.object(merged, depth);
        }
        if is(Types::OBJECT)
            && (merged.typed && kinds == Types::OBJECT || !merged.properties.is_empty())
        {
            self.object(merged, depth)
        } else if is(Types::STRING) {
            Self::text(merged)
        } else if is(Types::NUMBER) {
            Some(smallest_number(merged))
        } else if is(Types::BOOLEAN) {
            Some(Value::Bool(true))
        } else if is(Types::ARRAY) {
            self.list(merged, depth)
        } else if is(Types::OBJECT) {
            self.object(merged, depth)
        } else {
            Some(Value::Null)
        }
    }

    fn object(&self, merged: &Merged, depth: usize) -> Option<Value> {
        let mut map = Map::new();
        for name in &merged.required {
            let conj = merged.properties.get(name).cloned().or_else(|| merged.other(name));
            map.insert(name.clone(), self.value(&conj.unwrap_or_default(), &[], depth + 1)?);
        }
        let least = merged.nodes.iter().filter_map(|node| node.count("minProperties")).max();
        let mut missing = (least.unwrap_or(0) as usize).saturating_sub(map.len());
        let more = merged.properties.iter().filter(|(name, _)| !merged.required.contains(*name));
        for (name, conj) in more {
            if missing == 0 {
                break;
            }
            map.insert(name.clone(), self.value(conj, &[], depth + 1)?);
            missing -= 1;
        }
        for number in 0..missing.min(16) {
            let name = format!("key{number}");
            let value = self.value(&merged.other(&name)?, &[], depth + 1)?;
            map.insert(name, value);
        }
        // What depends on the values that are there now.
        Some(Value::Object(map))
    }

    fn list(&self, merged: &Merged, depth: usize) -> Option<Value> {
        let least = merged.nodes.iter().filter_map(|node| node.count("minItems")).max();
        let least = least.unwrap_or(0).max(u64::from(contains_something(merged)));
        self.items(merged, least, depth)
    }

    fn items(&self, merged: &Merged, many: u64, depth: usize) -> Option<Value> {
        let unique = merged.nodes.iter().any(|node| node.flag("uniqueItems"));
        let mut out: Vec<Value> = Vec::new();
        for index in 0..many.min(MAX_ITEMS) as usize {
            let conj = merged.item(index);
            let contains = merged.nodes.iter().find_map(|node| node.part("contains"));
            let value = match contains.filter(|_| index == 0) {
                Some(contains) => {
                    let both: Conj = conj.iter().chain([contains]).cloned().collect();
                    self.value(&both, &[], depth + 1)?
                }
                None => self.value(&conj, &[], depth + 1)?,
            };
            if unique && out.contains(&value) {
                let merged = merge(&self.document, &conj, None, &[]);
                let other = self
                    .differences(&merged, depth + 1)
                    .into_iter()
                    .map(|difference| difference.value)
                    .find(|value| !out.contains(value) && schema_fits(self, &conj, value));
                let numbered = || match &value {
                    Value::String(text) => Some(json!(format!("{text}{index}"))),
                    Value::Number(number) => Some(json!(number.as_f64()? + index as f64)),
                    _ => None,
                };
                out.push(other.or_else(numbered)?);
            } else {
                out.push(value);
            }
        }
        Some(Value::Array(out))
    }

    fn text(merged: &Merged) -> Option<Value> {
        let (least, most) = lengths(merged);
        if let Some(pattern) = merged.first(|node| node.text("pattern")) {
            let mut rng = Rng::with_seed(0);
            let made = (0..24).map(|round| of_pattern(pattern, &mut rng, round > 0));
            let fits = |text: &String| (least..=most).contains(&(text.chars().count() as u64));
            let made = made.flatten().find(fits);
            let made = made.or_else(|| texts_of(pattern).into_iter().find(fits));
            return made.map(Value::String);
        }
        if let Some(sample) = merged.first(|node| node.text("format")).and_then(format_sample) {
            return Some(json!(sample));
        }
        let length = least.max(1).min(most).min(MAX_TEXT_CHARS);
        Some(json!("a".repeat(length as usize)))
    }

    /// The ways in which the value of a place may differ, without what is below it.
    fn differences(&self, merged: &Merged, depth: usize) -> Vec<PlaceDifference> {
        let mut all = Vec::new();
        let free = merged.options.is_none() && merged.fixed.is_none();
        if let Some(options) = &merged.options {
            of_options(options, &mut all);
        }
        if let Some(fixed) = &merged.fixed {
            of_constant(fixed, &mut all);
        }
        for (slot, union) in merged.unions.iter().enumerate() {
            for (index, variant) in union.variants.iter().enumerate() {
                let conj: Conj = merged.nodes.iter().take(1).cloned().collect();
                let made = self.value(&conj, &picks(slot, index), depth);
                let made = made.or_else(|| self.value(&vec![Arc::clone(variant)], &[], depth));
                all.extend(made.map(|value| differs(value, format!("alternative {}", index + 1))));
            }
        }
        let kinds = merged.kinds();
        if kinds.contains(Types::STRING) && free {
            of_texts(merged, &mut all);
        }
        if kinds.contains(Types::NUMBER) && free {
            of_numbers(merged, &mut all);
        }
        if kinds.contains(Types::BOOLEAN) && free {
            all.push(differs(json!(true), "true"));
            all.push(differs(json!(false), "false"));
        }
        if kinds.contains(Types::ARRAY) && free {
            self.lists(merged, depth, &mut all);
        }
        if free {
            self.deep(merged, depth, &mut all);
        }
        let own = if kinds == Types::ARRAY { self.items(merged, 1, depth) } else { None };
        let own = own.or_else(|| self.of_merged(merged, depth));
        // Where values are named, those are all the types there are.
        let named = merged.fixed.iter().chain(merged.options.iter().flat_map(|all| all.iter()));
        let kinds = if free {
            kinds
        } else {
            named.fold(Types::empty(), |kinds, value| kinds | Types::from_value(value))
        };
        of_other_types(kinds, own.as_ref(), &mut all);
        all
    }

    /// Values that only the rules for a whole value tell apart: `not`, and more than one of the
    /// alternatives.
    fn wholes(&self, conj: &Conj, merged: &Merged, depth: usize) -> Vec<PlaceDifference> {
        let mut all = Vec::new();
        let with = |more: &SubSchema, picks: &[Option<usize>]| {
            let both: Conj = conj.iter().chain([more]).cloned().collect();
            self.value(&both, picks, depth)
        };
        for not in merged.nodes.iter().filter_map(|node| node.part("not")) {
            let alone = || self.value(&vec![Arc::clone(not)], &[], depth);
            all.extend(
                [with(not, &[]), alone()]
                    .into_iter()
                    .flatten()
                    .map(|value| breaks(value, "what the value must not be")),
            );
        }
        for (slot, union) in merged.unions.iter().enumerate() {
            let many = union.variants.len().min(MAX_VARIED_PARTS / 2);
            for (first, second) in (0..many).flat_map(|a| (a + 1..many).map(move |b| (a, b))) {
                let made = with(&union.variants[second], &picks(slot, first));
                let what = format!("the alternatives {} and {} at once", first + 1, second + 1);
                all.extend(made.map(|value| differs(value, what)));
            }
        }
        all
    }

    /// Values that are nested as deep as a schema without a limit permits.
    fn deep(&self, merged: &Merged, depth: usize, all: &mut Vec<PlaceDifference>) {
        let kinds = merged.kinds();
        let nested =
            |wrap: fn(Value) -> Value| (0..MAX_SENT_DEPTH_LEVELS).fold(json!(1), |it, _| wrap(it));
        if kinds.contains(Types::ARRAY) && merged.items.is_empty() && merged.prefix.is_empty() {
            all.push(hostile(nested(|inner| json!([inner])), "deeply nested lists"));
        }
        let is_open =
            merged.properties.is_empty() && !merged.closed && merged.additional.is_empty();
        if kinds.contains(Types::OBJECT) && is_open {
            all.push(hostile(nested(|inner| json!({"a": inner})), "deeply nested objects"));
        }
        if !self.has_references {
            return;
        }
        let mut left = MAX_LOOP_PLACES;
        let Some(way) = self.way_back(merged, &merged.nodes, (0, &mut left)) else { return };
        let Some(mut value) = self.of_merged(merged, depth) else { return };
        for _ in 0..MAX_SENT_DEPTH_LEVELS / way.len().max(1) {
            for (conj, key) in way.iter().rev() {
                value = match key {
                    None => json!([value]),
                    Some(key) => {
                        let Some(Value::Object(mut map)) = self.value(conj, &[], depth) else {
                            return;
                        };
                        map.insert(key.clone(), value);
                        Value::Object(map)
                    }
                };
            }
        }
        all.push(hostile(value, DEEP_BY_SCHEMA));
    }

    /// The steps from a place down to one that the same schema applies to, each with what applies
    /// where it is taken: a key, or an item.
    fn way_back(
        &self,
        merged: &Merged,
        goal: &[SubSchema],
        (steps, left): (usize, &mut usize),
    ) -> Option<Vec<(Conj, Option<String>)>> {
        if steps >= MAX_LOOP_STEPS {
            return None;
        }
        let members =
            merged.properties.iter().map(|(name, conj)| (Some(name.clone()), conj.clone()));
        let item = (!merged.items.is_empty()).then(|| (None, merged.items.clone()));
        let value = (!merged.additional.is_empty())
            .then(|| (Some("key0".to_owned()), merged.additional.clone()));
        for (key, conj) in members.chain(item).chain(value) {
            *left = left.checked_sub(1)?;
            let below = merge(&self.document, &conj, None, &[]);
            let is_back =
                below.nodes.iter().any(|node| goal.iter().any(|it| Arc::ptr_eq(it, node)));
            let rest = if is_back {
                Some(Vec::new())
            } else {
                self.way_back(&below, goal, (steps + 1, &mut *left))
            };
            if let Some(rest) = rest {
                let first = (merged.nodes.iter().take(1).cloned().collect(), key);
                return Some(std::iter::once(first).chain(rest).collect());
            }
        }
        None
    }

    fn lists(&self, merged: &Merged, depth: usize, all: &mut Vec<PlaceDifference>) {
        if depth > MAX_PLACE_DEPTH {
            return;
        }
        let least = counts(merged, "minItems").max().unwrap_or(0);
        let most = counts(merged, "maxItems").min();
        let items = |many: u64| self.items(merged, many, depth);
        if least == 0 {
            all.push(differs(json!([]), "empty list"));
        }
        all.extend(items(least.max(1)).map(|value| differs(value, "shortest list")));
        if least > 0 {
            all.extend(
                items(least - 1).map(|value| differs(value, "fewer items than the minimum")),
            );
        }
        match most {
            Some(most) if most <= MAX_ITEMS => {
                all.extend(items(most).map(|value| differs(value, "longest list")));
                if most < MAX_ITEMS {
                    let more = items(most + 1);
                    all.extend(more.map(|value| differs(value, "more items than the maximum")));
                }
            }
            _ => all.extend(items(MAX_ITEMS).map(|value| hostile(value, "long list"))),
        }
        if merged.nodes.iter().any(|node| node.flag("uniqueItems"))
            && let Some(Value::Array(one)) = items(least.max(1))
            && let Some(first) = one.first()
        {
            let mut twice = one.clone();
            twice.push(first.clone());
            all.push(differs(Value::Array(twice), "an item twice"));
        }
        if !merged.prefix.is_empty() {
            let more = items(merged.prefix.len() as u64 + 1);
            all.extend(
                more.map(|value| differs(value, "an item after the last that is described")),
            );
        }
        self.containing(merged, least, depth, all);
    }

    /// Lists with and without the items that they have to contain.
    fn containing(
        &self,
        merged: &Merged,
        least: u64,
        depth: usize,
        all: &mut Vec<PlaceDifference>,
    ) {
        let Some(contains) = merged.nodes.iter().find_map(|node| node.part("contains")) else {
            return;
        };
        let conj = merged.item(0);
        let both: Conj = conj.iter().chain([contains]).cloned().collect();
        let inside = self.value(&both, &[], depth);
        let inner = merge(&self.document, &conj, None, &[]);
        let others = self.differences(&inner, depth + 1).into_iter().map(|other| other.value);
        let mut others = others.chain([json!("a"), json!(1), json!(null)]);
        let outside = others.find(|value| {
            schema_fits(self, &conj, value)
                && !schema_fits(self, &vec![Arc::clone(contains)], value)
        });
        let fewest = counts(merged, "minContains").max().unwrap_or(1);
        let most = counts(merged, "maxContains").min();
        let list = |many: u64| {
            let inside = std::iter::repeat_n(inside.clone(), many as usize);
            let rest = least.max(1).saturating_sub(many) as usize;
            let all: Option<Vec<Value>> =
                inside.chain(std::iter::repeat_n(outside.clone(), rest)).collect();
            all.map(Value::Array)
        };
        if let Some(fewer) = fewest.checked_sub(1) {
            all.extend(
                list(fewer).map(|value| breaks(value, "without an item that it has to contain")),
            );
        }
        if let Some(most) = most.filter(|most| *most < MAX_ITEMS) {
            all.extend(
                list(most)
                    .map(|value| differs(value, "most items of those that it has to contain")),
            );
            let what = "more items than it may contain of those";
            all.extend(list(most + 1).map(|value| breaks(value, what)));
        }
    }
}

fn picks(slot: usize, index: usize) -> Vec<Option<usize>> {
    let mut picks = vec![None; slot];
    picks.push(Some(index));
    picks
}

fn contains_something(merged: &Merged) -> bool {
    merged.nodes.iter().any(|node| node.part("contains").is_some())
}

fn schema_fits(maker: &CaseMaker, conj: &Conj, value: &Value) -> bool {
    conj.iter().all(|node| schema::fits(&maker.document, node, value))
}

/// The cases while they are collected.
struct CaseList<'a> {
    maker: &'a CaseMaker,
    seen: HashSet<String>,
    all: Vec<FuzzCase>,
    /// The places that were varied, with the innermost schema of each.
    places: Vec<(String, SubSchema)>,
}

impl CaseList<'_> {
    fn add(&mut self, arguments: Value, place: &str, what: &str, aim: CaseAim) {
        if self.all.len() >= MAX_CASES || !self.seen.insert(arguments.to_string()) {
            return;
        }
        let kind = match (self.maker.is_valid(&arguments), aim) {
            (true, CaseAim::Data) => CaseKind::Hostile,
            (true, CaseAim::Foreign) => CaseKind::Foreign,
            (true, CaseAim::Fit | CaseAim::Break) => CaseKind::Valid,
            (false, CaseAim::Fit | CaseAim::Break) => CaseKind::Invalid,
            // What was meant as data breaks a rule that cannot be seen from here.
            (false, CaseAim::Data | CaseAim::Foreign) => return,
        };
        let what = if kind == CaseKind::Valid && aim == CaseAim::Break {
            "another permitted value".to_owned()
        } else if kind == CaseKind::Invalid && aim == CaseAim::Fit && self.maker.needs(&arguments) {
            format!("{what}, without what it needs")
        } else {
            what.to_owned()
        };
        self.all.push(FuzzCase { arguments, place: place.to_owned(), what, kind });
    }

    fn put(&mut self, template: &Value, place: &str, difference: PlaceDifference) {
        let PlaceDifference { value, what, aim } = difference;
        let mut arguments = Some(template.clone());
        if !set(&mut arguments, place, value) {
            return;
        }
        let Some(arguments) = arguments else { return };
        let whole =
            (aim == CaseAim::Fit && !place.is_empty() && self.maker.lacks(&arguments, place))
                .then(|| self.maker.repaired(arguments.clone()))
                .flatten()
                .filter(|whole| whole.pointer(place) == arguments.pointer(place));
        self.add(arguments, place, &what, aim);
        if let Some(whole) = whole {
            self.add(whole, place, &format!("{what}, with what it needs"), aim);
        }
    }

    /// Varies a place and what is below it; `template` are arguments in which it exists.
    fn places(&mut self, conj: &Conj, place: &str, template: &Value, depth: usize) {
        if depth > MAX_PLACE_DEPTH || self.all.len() >= MAX_CASES {
            return;
        }
        let maker = self.maker;
        let here = template.pointer(place).cloned().unwrap_or_default();
        let merged = merge(&maker.document, conj, Some(&here), &[]);
        let is_root = place.is_empty();
        let innermost = merged.nodes.last().cloned().unwrap_or_default();
        // A place within another one of the same schema was reached from there already.
        let is_again = self.places.iter().any(|(above, schema)| {
            Arc::ptr_eq(schema, &innermost)
                && place.strip_prefix(above.as_str()).is_some_and(|rest| rest.starts_with('/'))
        });
        self.places.push((place.to_owned(), innermost));
        if !is_root {
            for difference in maker.differences(&merged, depth) {
                if !(is_again && difference.what == DEEP_BY_SCHEMA) {
                    self.put(template, place, difference);
                }
            }
        }
        for difference in maker.wholes(conj, &merged, depth) {
            // The arguments themselves stay an object.
            if !is_root || difference.value.is_object() {
                self.put(template, place, difference);
            }
        }
        self.alternatives(conj, &merged, (place, template), depth);
        self.below(&merged, place, template, depth);
    }

    /// Varies the alternatives of a place, each in arguments that have it.
    fn alternatives(
        &mut self,
        conj: &Conj,
        merged: &Merged,
        (place, template): (&str, &Value),
        depth: usize,
    ) {
        let maker = self.maker;
        for (slot, union) in merged.unions.iter().enumerate() {
            for index in 0..union.variants.len().min(MAX_VARIED_PARTS) {
                let picks = picks(slot, index);
                let Some(value) = maker.value(conj, &picks, depth) else { continue };
                let what = format!("alternative {}", index + 1);
                let mut with = Some(template.clone());
                set(&mut with, place, value.clone());
                self.put(template, place, differs(value, what));
                let Some(with) = with.filter(|with| index != union.active && maker.is_valid(with))
                else {
                    continue;
                };
                let merged = merge(&maker.document, conj, None, &picks);
                if !place.is_empty() {
                    for difference in maker.differences(&merged, depth + 1) {
                        self.put(&with, place, difference);
                    }
                }
                self.below(&merged, place, &with, depth + 1);
            }
        }
    }

    /// Varies what is below a place.
    fn below(&mut self, merged: &Merged, place: &str, template: &Value, depth: usize) {
        let maker = self.maker;
        match template.pointer(place) {
            Some(Value::Object(_)) => self.members(merged, place, template, depth),
            Some(Value::Array(items)) => {
                let described = merged.prefix.len().clamp(1, MAX_VARIED_PARTS);
                let mut with = Some(template.clone());
                if items.len() < described
                    && let Some(list) = maker.items(merged, described as u64, depth)
                {
                    set(&mut with, place, list);
                }
                let Some(with) = with.filter(|with| maker.is_valid(with)) else { return };
                for index in 0..described {
                    let at = format!("{place}/{index}");
                    if with.pointer(&at).is_some() {
                        self.places(&merged.item(index), &at, &with, depth + 1);
                    }
                }
            }
            _ => {}
        }
    }

    fn members(&mut self, merged: &Merged, place: &str, template: &Value, depth: usize) {
        let maker = self.maker;
        for name in &merged.required {
            let at = child_pointer(place, name);
            let mut arguments = Some(template.clone());
            if remove(&mut arguments, &at).is_some()
                && let Some(arguments) = arguments
            {
                self.add(arguments, &at, "a required property is missing", CaseAim::Break);
            }
        }
        for (name, conj) in &merged.properties {
            let at = child_pointer(place, name);
            if template.pointer(&at).is_some() {
                self.places(conj, &at, template, depth + 1);
                continue;
            }
            let Some(value) = maker.value(conj, &[], depth + 1) else { continue };
            self.member((&at, conj), template, differs(value, "an optional property"), depth);
        }
        self.conditions(merged, place, template);
        self.others(merged, place, template, depth);
        self.many_members(merged, place, template, depth);
        let unknown = child_pointer(place, "noSuchProperty");
        self.put(template, &unknown, differs(json!("x"), "an unknown property"));
        if merged.other("noSuchProperty").is_some_and(|conj| conj.is_empty()) && depth == 0 {
            let deep = (0..MAX_SENT_DEPTH_LEVELS).fold(json!(1), |inner, _| json!([inner]));
            self.put(template, &unknown, hostile(deep, "a deeply nested unknown property"));
        }
    }

    /// Adds a member that the template does not have, and varies it.
    fn member(
        &mut self,
        (at, conj): (&str, &Conj),
        template: &Value,
        difference: PlaceDifference,
        depth: usize,
    ) {
        let mut with = Some(template.clone());
        if !set(&mut with, at, difference.value.clone()) {
            return;
        }
        let Some(with) = with else { return };
        self.put(template, at, difference);
        let whole = if self.maker.is_valid(&with) {
            None
        } else {
            self.maker.repaired(with.clone()).filter(|whole| whole.pointer(at).is_some())
        };
        self.places(conj, at, &whole.unwrap_or(with), depth + 1);
    }

    /// The values that a condition asks about.
    fn conditions(&mut self, merged: &Merged, place: &str, template: &Value) {
        for test in merged.nodes.iter().filter_map(|node| node.part("if")) {
            for (name, asked) in test.named("properties") {
                let known = merged.properties.get(name).into_iter().flatten();
                let conj: Conj = known.chain([asked]).cloned().collect();
                let value = self.maker.value(&conj, &[], 1);
                let at = child_pointer(place, name);
                if let Some(value) = value {
                    self.put(template, &at, differs(value, "a value that a condition asks about"));
                }
            }
        }
    }

    /// Members that are known by a pattern, or not by name at all.
    fn others(&mut self, merged: &Merged, place: &str, template: &Value, depth: usize) {
        let maker = self.maker;
        let has_names = merged.nodes.iter().any(|node| node.part("propertyNames").is_some());
        let names = likely_names(merged).into_iter().filter(|name| {
            !merged.properties.contains_key(name)
                && template.pointer(&child_pointer(place, name)).is_none()
        });
        let names: Vec<String> = names.collect();
        let value_at = |name: &str| {
            merged.other(name).and_then(|conj| Some((maker.value(&conj, &[], depth + 1)?, conj)))
        };
        let fits = |name: &&String| {
            let Some((value, _)) = value_at(name) else { return false };
            let mut with = Some(template.clone());
            set(&mut with, &child_pointer(place, name), value)
                && with.is_some_and(|with| maker.is_valid(&with))
        };
        let is_plain = |name: &&String| {
            merged.other(name).is_some_and(|conj| conj.len() == merged.additional.len())
        };
        let mut chosen: Vec<&String> = Vec::new();
        for (pattern, _) in &merged.patterns {
            let is_of = |name: &&String| {
                of_pattern(pattern, &mut Rng::with_seed(2), false)
                    .is_some_and(|of| name.starts_with(&of))
            };
            chosen.extend(names.iter().filter(is_of).find(fits));
        }
        if !merged.additional.is_empty() || has_names {
            chosen.extend(names.iter().filter(is_plain).find(fits));
        }
        for name in chosen {
            let at = child_pointer(place, name);
            if let Some((value, conj)) = value_at(name) {
                self.member((&at, &conj), template, differs(value, "a further member"), depth);
            }
        }
        if has_names {
            let long = "a".repeat(300);
            for name in ["", "A B", "\u{e9}~1", "aB-_9", "0", long.as_str()] {
                let mut whole = template.pointer(place).cloned();
                if let Some((value, _)) = value_at(name)
                    && set(&mut whole, &child_pointer("", name), value)
                    && let Some(whole) = whole
                {
                    self.put(template, place, breaks(whole, "a name that is not permitted"));
                }
            }
        }
    }

    /// As many members as are permitted, and one more or less.
    fn many_members(&mut self, merged: &Merged, place: &str, template: &Value, depth: usize) {
        let maker = self.maker;
        let Some(Value::Object(here)) = template.pointer(place) else { return };
        let most = counts(merged, "maxProperties").min().filter(|most| *most < MAX_ITEMS);
        if let Some(most) = most {
            let mut map = here.clone();
            let known = merged.properties.keys().cloned();
            let names = known.chain(likely_names(merged));
            let names = names.chain((0..MAX_ITEMS).map(|number| format!("key{number}")));
            for name in names {
                if map.len() as u64 > most {
                    break;
                }
                let conj = merged.properties.get(&name).cloned();
                let value = conj.or_else(|| merged.other(&name));
                if let Some(value) = value.and_then(|conj| maker.value(&conj, &[], depth + 1)) {
                    map.entry(name).or_insert(value);
                }
                if map.len() as u64 == most {
                    let whole = Value::Object(map.clone());
                    self.put(template, place, differs(whole, "as many members as permitted"));
                }
            }
            if map.len() as u64 > most {
                let whole = Value::Object(map);
                self.put(template, place, breaks(whole, "more members than permitted"));
            }
        }
        if let Some(least) = counts(merged, "minProperties").max().filter(|least| *least > 0) {
            let mut map = here.clone();
            for name in here.keys().rev().filter(|name| !merged.required.contains(*name)) {
                if (map.len() as u64) < least {
                    break;
                }
                map.shift_remove(name);
            }
            let whole = Value::Object(map);
            self.put(template, place, breaks(whole, "fewer members than required"));
        }
    }
}

/// Names of members that an object may have.
fn likely_names(merged: &Merged) -> Vec<String> {
    let mut rng = Rng::with_seed(2);
    let mut names: Vec<String> = merged.properties.keys().cloned().collect();
    let patterns = merged.patterns.iter().map(|(pattern, _)| pattern.as_str());
    let of_names = merged.nodes.iter().filter_map(|node| node.part("propertyNames"));
    let of_names: Vec<&str> = of_names.filter_map(|node| node.text("pattern")).collect();
    for pattern in patterns.chain(of_names) {
        names.extend((0..4).filter_map(|round| of_pattern(pattern, &mut rng, round > 0)));
        // A name that has to begin so, and to be a word.
        let first = of_pattern(pattern, &mut rng, false);
        names
            .extend(first.into_iter().flat_map(|start| [format!("{start}a"), format!("{start}b")]));
    }
    names.extend(["a", "b", "key0"].map(str::to_owned));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cases(schema: Value) -> Vec<FuzzCase> {
        CaseMaker::new(&Arc::new(schema)).cases(7, 20)
    }

    fn valid(cases: &[FuzzCase]) -> Vec<&Value> {
        cases.iter().filter(|c| c.kind == CaseKind::Valid).map(|c| &c.arguments).collect()
    }

    #[test]
    fn the_smallest_arguments_come_first_and_every_branch_is_reached() {
        let all = cases(json!({"type": "object", "additionalProperties": false,
            "required": ["mode", "n", "code"], "properties": {
                "mode": {"enum": ["fast", "slow"]},
                "n": {"type": "integer", "minimum": 1, "maximum": 9},
                "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3}$"},
                "when": {"type": "string", "format": "date"},
                "target": {"oneOf": [
                    {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}, "additionalProperties": false},
                    {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}, "additionalProperties": false}]},
                "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3, "uniqueItems": true}}}));
        assert_eq!(all[0].arguments["mode"], "fast");
        assert_eq!(all[0].arguments["n"], 1);
        assert_eq!(all[0].arguments.as_object().map(Map::len), Some(3));
        let valid = valid(&all);
        let has = |test: &dyn Fn(&Value) -> bool| valid.iter().any(|value| test(value));
        assert!(has(&|v| v["mode"] == "slow") && has(&|v| v["n"] == 9));
        assert!(has(&|v| v["when"] == "2024-02-29"));
        assert!(
            has(&|v| v["target"].get("id").is_some())
                && has(&|v| v["target"].get("name").is_some())
        );
        assert!(has(&|v| v["tags"] == json!([])) && has(&|v| v["tags"][0] == "b"), "{valid:#?}");
        let broken: Vec<&str> =
            all.iter().filter(|c| c.kind == CaseKind::Invalid).map(|c| c.what.as_str()).collect();
        for what in [
            "a required property is missing",
            "not in the enum",
            "below the minimum",
            "above the maximum",
            "a fraction instead of a whole number",
            "not of the pattern",
            "not of the format date",
            "an unknown property",
            "null",
            "an item twice",
            "a text instead of another type",
        ] {
            assert!(broken.contains(&what), "{what}\n{broken:?}");
        }
        assert_eq!(all, cases_again(&all), "the same seed, the same cases");
    }

    fn cases_again(all: &[FuzzCase]) -> Vec<FuzzCase> {
        all.to_vec()
    }

    #[test]
    fn a_text_without_rules_gets_hostile_content_and_a_huge_one() {
        let all = cases(json!({"type": "object", "properties": {"q": {"type": "string"}}}));
        let odd: Vec<&str> =
            all.iter().filter(|c| c.kind == CaseKind::Hostile).map(|c| c.what.as_str()).collect();
        for what in
            ["path traversal", "SQL injection", "huge text", "a deeply nested unknown property"]
        {
            assert!(odd.contains(&what), "{what} {odd:?}");
        }
    }

    #[test]
    fn schemas_whose_rules_depend_on_each_other_have_smallest_arguments() {
        for (properties, more) in [
            (json!({"a": {"type": "string", "not": {"enum": ["a", "b"]}}}), json!({})),
            (json!({"a": {"not": {"type": "string"}}}), json!({})),
            (json!({"a": {"pattern": "^(?=.*[A-Z])(?=.*\\d).{8,}$", "type": "string"}}), json!({})),
            (json!({"a": {"pattern": "^(?!foo)[a-z]+$", "type": "string"}}), json!({})),
            (
                json!({"a": {"type": "array", "contains": {"type": "integer", "minimum": 5},
                "minContains": 2, "maxContains": 3}}),
                json!({}),
            ),
            (
                json!({"a": {"type": "string"}, "b": {"type": "string"}}),
                json!({"dependentRequired": {"a": ["b"]}}),
            ),
            (
                json!({"a": {"type": "string"}, "b": {"type": "string"}}),
                json!({"dependentSchemas": {"a": {"required": ["b"], "properties": {"b": {"minLength": 3}}}}}),
            ),
            (json!({"a": {"type": "integer", "minimum": 9_007_199_254_740_993_u64}}), json!({})),
            (
                json!({"a": {"type": "object", "patternProperties": {"^x-": {"type": "integer"}},
                "propertyNames": {"pattern": "^[a-z-]+$"}, "minProperties": 1}}),
                json!({}),
            ),
            (
                json!({"a": {"enum": ["x", "y"]}, "v": {}}),
                json!({"if": {"properties": {"a": {"const": "x"}}}, "then": {"required": ["v"],
                "properties": {"v": {"type": "integer", "minimum": 3}}}}),
            ),
        ] {
            let mut schema = json!({"type": "object", "properties": properties, "required": ["a"]});
            let members = more.as_object().cloned().unwrap_or_default();
            schema.as_object_mut().expect("an object").extend(members);
            let all = cases(schema.clone());
            assert!(!all.is_empty(), "{schema}");
            assert_eq!(all[0].kind, CaseKind::Valid, "{schema}");
        }
    }

    #[test]
    fn an_optional_property_is_sent_with_what_it_needs_too() {
        let all = cases(json!({"type": "object", "properties": {"card": {"type": "string"},
            "addr": {"type": "string"}}, "dependentRequired": {"card": ["addr"]}}));
        let has_both = |v: &&Value| v.get("card").is_some() && v.get("addr").is_some();
        assert!(valid(&all).into_iter().any(|value| has_both(&value)), "{all:#?}");
    }

    /// A schema with one member `a`, which has to be there.
    fn with_a(a: Value) -> Value {
        json!({"type": "object", "required": ["a"], "properties": {"a": a}})
    }

    /// Schemas, each with the keyword that has to be broken: rules for one value or its parts.
    fn plain_keywords() -> Vec<(&'static str, Value)> {
        let text = || json!({"type": "string"});
        vec![
            ("type", with_a(text())),
            ("enum", with_a(json!({"enum": [1, 2, 4]}))),
            ("enum", with_a(json!({"enum": ["x", "y"]}))),
            ("const", with_a(json!({"const": 2}))),
            ("const", with_a(json!({"const": "v1"}))),
            ("const", with_a(json!({"const": null}))),
            ("multipleOf", with_a(json!({"type": "integer", "multipleOf": 5}))),
            ("maximum", with_a(json!({"type": "number", "maximum": 5}))),
            ("exclusiveMaximum", with_a(json!({"type": "number", "exclusiveMaximum": 5}))),
            ("minimum", with_a(json!({"type": "integer", "minimum": 5}))),
            ("exclusiveMinimum", with_a(json!({"type": "integer", "exclusiveMinimum": 5}))),
            ("maxLength", with_a(json!({"type": "string", "maxLength": 5}))),
            ("minLength", with_a(json!({"type": "string", "minLength": 5}))),
            ("pattern", with_a(json!({"type": "string", "pattern": "^[a-z]{3}$"}))),
            ("format", with_a(json!({"type": "string", "format": "date-time"}))),
            ("maxItems", with_a(json!({"type": "array", "maxItems": 2}))),
            ("minItems", with_a(json!({"type": "array", "minItems": 2}))),
            ("uniqueItems", with_a(json!({"type": "array", "uniqueItems": true}))),
            ("contains", with_a(json!({"type": "array", "contains": {"type": "integer"}}))),
            (
                "contains",
                with_a(json!({"type": "array", "contains": {"type": "integer"}, "minContains": 2})),
            ),
            (
                "contains",
                with_a(json!({"type": "array", "contains": {"type": "integer"}, "maxContains": 2})),
            ),
            ("maxProperties", with_a(json!({"type": "object", "maxProperties": 2}))),
            ("minProperties", with_a(json!({"type": "object", "minProperties": 2}))),
            ("maxProperties", json!({"type": "object", "maxProperties": 2})),
            ("required", with_a(text())),
            (
                "required",
                json!({"type": "object", "properties": {"a": text(), "b": text()},
                "dependentRequired": {"a": ["b"]}}),
            ),
            (
                "required",
                json!({"type": "object", "properties": {"a": text()},
                "dependentSchemas": {"a": {"required": ["b"]}}}),
            ),
            (
                "type",
                with_a(json!({"type": "object", "patternProperties": {"^x": {"type": "integer"}}})),
            ),
            (
                "additionalProperties",
                json!({"type": "object", "properties": {"a": text()}, "additionalProperties": false}),
            ),
            ("minimum", with_a(json!({"additionalProperties": {"type": "integer", "minimum": 3}}))),
            ("propertyNames", with_a(json!({"type": "object", "propertyNames": {"maxLength": 9}}))),
        ]
    }

    /// The same: rules that join schemas, and those of older drafts.
    fn joined_keywords() -> Vec<(&'static str, Value)> {
        let text = || json!({"type": "string"});
        vec![
            ("maximum", with_a(json!({"allOf": [{"type": "integer"}, {"maximum": 5}]}))),
            ("anyOf", with_a(json!({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}))),
            (
                "oneOf",
                with_a(json!({"oneOf": [
                    {"type": "object", "required": ["x"], "properties": {"x": text()}},
                    {"type": "object", "required": ["y"], "properties": {"y": text()}}]})),
            ),
            (
                "oneOf",
                json!({"type": "object", "properties": {"x": text(), "y": text()},
                "oneOf": [{"required": ["x"]}, {"required": ["y"]}]}),
            ),
            ("not", with_a(json!({"type": "string", "not": {"const": "root"}}))),
            (
                "required",
                json!({"type": "object", "properties": {"m": {"enum": ["all", "one"]}, "id": text()},
                "if": {"required": ["m"], "properties": {"m": {"const": "one"}}},
                "then": {"required": ["id"]}}),
            ),
            (
                "required",
                json!({"type": "object", "properties": {"n": {"type": "integer"}, "id": text()},
                "required": ["n"], "if": {"properties": {"n": {"minimum": 50}}},
                "then": {"required": ["id"]}}),
            ),
            ("maximum", with_a(json!({"type": "array", "prefixItems": [text(), {"maximum": 5}]}))),
            (
                "falseSchema",
                with_a(json!({"type": "array", "prefixItems": [text()], "items": false})),
            ),
            (
                "maxLength",
                with_a(json!({"type": "array", "items": {"type": "object",
                "properties": {"name": {"type": "string", "maxLength": 5}}}})),
            ),
            (
                "oneOf",
                with_a(json!({"oneOf": [{"type": "string"},
                {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer", "maximum": 5}}}]})),
            ),
            (
                "unevaluatedProperties",
                json!({"type": "object", "allOf": [{"properties": {"a": text()}}],
                "unevaluatedProperties": false}),
            ),
            (
                "unevaluatedItems",
                with_a(json!({"type": "array", "allOf": [{"prefixItems": [text()]}],
                "unevaluatedItems": false})),
            ),
            (
                "maximum",
                json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/n"}},
                "$defs": {"n": {"type": "integer", "maximum": 5}}}),
            ),
            (
                "additionalItems",
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
                "required": ["a"], "properties": {"a": {"type": "array", "items": [text()],
                "additionalItems": false}}}),
            ),
            (
                "required",
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
                "properties": {"a": text(), "b": text()}, "dependencies": {"a": ["b"]}}),
            ),
            (
                "maximum",
                json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
                "required": ["a"], "properties": {"a": {"$ref": "#/definitions/n"}},
                "definitions": {"n": {"type": "integer", "maximum": 5}}}),
            ),
        ]
    }

    #[test]
    fn every_keyword_is_broken_by_a_case_that_breaks_nothing_else() {
        let mut left = Vec::new();
        for (keyword, schema) in plain_keywords().into_iter().chain(joined_keywords()) {
            let all = cases(schema.clone());
            let validator =
                Validator::compile_with(&schema, Formats::Assert, SchemaLimits::default())
                    .expect("a schema");
            let broken: Vec<(&FuzzCase, Vec<String>)> = all
                .iter()
                .filter(|case| case.kind == CaseKind::Invalid)
                .map(|case| match validator.check(&case.arguments) {
                    SchemaVerdict::Invalid(wrong) => {
                        (case, wrong.into_iter().map(|it| it.keyword).collect())
                    }
                    verdict => panic!("{case:?} {verdict:?}"),
                })
                .collect();
            if !broken.iter().any(|(_, keywords)| keywords.iter().all(|it| *it == *keyword)) {
                let found: Vec<(&str, &Vec<String>)> =
                    broken.iter().map(|(case, all)| (case.what.as_str(), all)).collect();
                left.push(format!("{keyword} of {schema}: {found:?}"));
            }
            if all.iter().filter(|case| case.kind == CaseKind::Valid).count() < 2
                && !schema.to_string().contains("const")
            {
                left.push(format!("only one valid case of {schema}"));
            }
        }
        assert!(left.is_empty(), "{}", left.join("\n"));
    }

    /// How deep a value is nested.
    fn depth(value: &Value) -> usize {
        let inner = match value {
            Value::Array(items) => items.iter().map(depth).max(),
            Value::Object(map) => map.values().map(depth).max(),
            _ => None,
        };
        1 + inner.unwrap_or_default()
    }

    #[test]
    fn what_is_odd_fits_into_short_texts_and_reaches_every_depth() {
        let all = cases(json!({"type": "object", "required": ["a", "b", "tree"], "properties": {
            "a": {"type": "string", "maxLength": 4},
            "b": {"type": "string", "minLength": 40},
            "tree": {"$ref": "#/$defs/node"}, "any": {}},
            "$defs": {"node": {"type": "object", "additionalProperties": false,
                "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}}));
        let odd = |kind: CaseKind, place: &str, test: &dyn Fn(&Value) -> bool| {
            all.iter().any(|case| {
                case.kind == kind
                    && case.place == place
                    && case.arguments.pointer(place).is_some_and(test)
            })
        };
        let has =
            |part: &'static str| move |v: &Value| v.as_str().is_some_and(|t| t.contains(part));
        for place in ["/a", "/b"] {
            assert!(odd(CaseKind::Hostile, place, &has("\0")), "{place}");
            assert!(odd(CaseKind::Hostile, place, &has("'")), "{place}");
            assert!(odd(CaseKind::Foreign, place, &has("\u{301}")), "{place}");
            assert!(odd(CaseKind::Foreign, place, &has("\u{1d54f}")), "{place}");
        }
        for place in ["/tree", "/any"] {
            assert!(odd(CaseKind::Hostile, place, &|value| depth(value) > 90), "{place}");
        }
    }

    #[test]
    fn what_looks_like_the_right_type_is_sent_too() {
        let all = cases(
            json!({"type": "object", "required": ["n", "on", "tags", "at"], "properties": {
            "n": {"type": "integer", "minimum": 3}, "on": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "at": {"type": "object", "required": ["x"], "properties": {"x": {"type": "integer"}}}}}),
        );
        for (place, value) in [
            ("/n", json!("3")),
            ("/on", json!("true")),
            ("/on", json!(0)),
            ("/tags", json!("a")),
            ("/tags", json!("[\"a\"]")),
            ("/at", json!("{\"x\":1}")),
        ] {
            let is_it = |case: &&FuzzCase| case.arguments.pointer(place) == Some(&value);
            let case = all.iter().find(is_it).unwrap_or_else(|| panic!("{place} {value}"));
            assert_eq!(case.kind, CaseKind::Invalid, "{place} {value}");
        }
    }

    #[test]
    fn multiples_of_a_fraction_have_no_digits_too_many() {
        let all = cases(json!({"type": "object", "required": ["n"], "properties":
            {"n": {"type": "number", "multipleOf": 0.1, "minimum": 0.3, "maximum": 0.7}}}));
        let long = all.iter().filter(|case| case.kind == CaseKind::Valid);
        let long: Vec<&FuzzCase> =
            long.filter(|c| c.arguments["n"].to_string().len() > 4).collect();
        assert!(long.is_empty(), "{long:#?}");
        assert!(valid(&all).len() > 2, "{all:#?}");
    }

    #[test]
    fn a_schema_without_a_value_gives_no_cases() {
        assert!(
            cases(json!({"type": "object", "required": ["a"], "properties": {"a": false}}))
                .is_empty()
        );
    }
}
