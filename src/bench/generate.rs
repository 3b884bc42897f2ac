//! Cases from an `inputSchema`: the smallest valid arguments, and each way in which one place of
//! them may differ, validly or not. Pure; the same seed gives the same cases.

use std::collections::HashSet;
use std::sync::Arc;

use fastrand::Rng;
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};
use serde_json::{Map, Number, Value, json};

use crate::repair::{repaired, texts_of_pattern};
use base::pointer::{child_pointer, remove, set};
use config::error::Violation;
use schema::{Conj, Formats, Merged, SchemaDocument, SchemaLimits, Types, Validator, merge};

/// What the rules of the schema say of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaseKind {
    /// Valid, in the words of the schema.
    Valid,
    /// Valid, with content that a server has to treat as data: traversal, injection, odd Unicode,
    /// great length or depth.
    Hostile,
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
/// Longest text that a schema may ask for.
const MAX_TEXT_CHARS: u64 = 20_000;
/// Most items that a schema may ask for.
const MAX_ITEMS: u64 = 200;
/// Length of a text that is sent where the schema sets no limit.
const HUGE_TEXT_CHARS: usize = 100_000;
/// Depth of a value that is sent where the schema sets no limit.
const DEEP_LIST_LEVELS: usize = 100;
/// Most cases that are made before the budget chooses.
const MAX_CASES: usize = 5_000;

/// Texts that a server has to treat as data.
const HOSTILE_TEXTS: [(&str, &str); 10] = [
    ("path traversal", "../../../../etc/passwd"),
    ("absolute path", "/etc/shadow"),
    ("shell injection", "$(id); `id` | cat & #"),
    ("SQL injection", "' OR 1=1; DROP TABLE x; --"),
    ("template injection", "{{7*7}}${7*7}<%= 7*7 %>"),
    ("markup", "<script>alert(1)</script>&amp;\"'"),
    ("right-to-left and zero-width characters", "\u{202e}abc\u{200b}\u{feff}\u{2066}"),
    ("characters beyond the first plane", "\u{1f4a9}\u{1d54f}e\u{301}\u{323}"),
    ("control characters", "a\u{0}b\u{7}\u{1b}[31mc\r\n"),
    ("format placeholders", "%s%n%x{0}{name}"),
];

/// Makes cases from one schema.
pub struct CaseMaker {
    document: SchemaDocument,
    validator: Option<Validator>,
}

/// A value for a place, and how it differs.
struct PlaceDifference {
    value: Value,
    what: String,
    hostile: bool,
}

fn differs(value: Value, what: impl Into<String>) -> PlaceDifference {
    PlaceDifference { value, what: what.into(), hostile: false }
}

fn hostile(value: Value, what: impl Into<String>) -> PlaceDifference {
    PlaceDifference { value, what: what.into(), hostile: true }
}

impl CaseMaker {
    /// For a schema.
    pub fn new(schema: &Arc<Value>) -> Self {
        let limits = SchemaLimits::default();
        let validator = Validator::compile_with(schema, Formats::Assert, limits).ok();
        Self { document: SchemaDocument::new(schema), validator }
    }

    /// Whether the schema permits these arguments.
    pub fn is_valid(&self, value: &Value) -> bool {
        self.validator.as_ref().is_some_and(|validator| validator.check(value).is_valid())
    }

    /// The smallest valid arguments; `None` when none could be made.
    pub fn smallest(&self) -> Option<Value> {
        let root = vec![Arc::clone(&self.document.root)];
        let made = self.value(&root, &[], 0).unwrap_or_else(|| json!({}));
        if self.is_valid(&made) {
            return Some(made);
        }
        self.repaired(made).filter(Value::is_object)
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
        let mut cases = CaseList { maker: self, seen: HashSet::new(), all: Vec::new() };
        cases.add(smallest.clone(), "", "the smallest arguments", false);
        let root = vec![Arc::clone(&self.document.root)];
        cases.places(&root, "", &smallest, 0);
        let mut all = cases.all;
        all.sort_by_key(|case| match case.kind {
            CaseKind::Valid => 0,
            CaseKind::Hostile => 1,
            CaseKind::Invalid => 2,
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
                Some(contains) => self.value(&vec![Arc::clone(contains)], &[], depth + 1)?,
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
        if let Some(options) = &merged.options {
            all.extend(options.iter().map(|option| differs(option.clone(), "enum value")));
            let texts = options.iter().filter_map(Value::as_str);
            if let Some(text) = texts.clone().next() {
                all.push(differs(json!(format!("{text}x")), "not in the enum"));
                all.push(differs(json!(""), "not in the enum (empty)"));
                let upper = text.to_uppercase();
                if upper != text {
                    all.push(differs(json!(upper), "not in the enum (upper case)"));
                }
            }
        }
        let free = merged.options.is_none() && merged.fixed.is_none();
        for (slot, union) in merged.unions.iter().enumerate() {
            for (index, variant) in union.variants.iter().enumerate() {
                let conj: Conj = merged.nodes.iter().take(1).cloned().collect();
                let mut picks = vec![None; slot];
                picks.push(Some(index));
                let made = self.value(&conj, &picks, depth);
                let made = made.or_else(|| self.value(&vec![Arc::clone(variant)], &[], depth));
                all.extend(made.map(|value| differs(value, format!("alternative {}", index + 1))));
            }
        }
        let kinds = merged.kinds();
        if kinds.contains(Types::STRING) && free {
            Self::texts(merged, &mut all);
        }
        if kinds.contains(Types::NUMBER) && free {
            numbers(merged, &mut all);
        }
        if kinds.contains(Types::BOOLEAN) && free {
            all.push(differs(json!(true), "true"));
            all.push(differs(json!(false), "false"));
        }
        if kinds.contains(Types::ARRAY) && free {
            self.lists(merged, depth, &mut all);
        }
        for (value, what) in [
            (Value::Null, "null"),
            (json!("text"), "a text instead of another type"),
            (json!(1), "a number instead of another type"),
            (json!(true), "a boolean instead of another type"),
            (json!(["a"]), "a list instead of another type"),
            (json!({"a": 1}), "an object instead of another type"),
        ] {
            let own = Types::from_value(&value);
            if own == Types::NULL || !kinds.contains(own) {
                all.push(differs(value, what));
            }
        }
        all
    }

    fn texts(merged: &Merged, all: &mut Vec<PlaceDifference>) {
        let (least, most) = lengths(merged);
        let repeat = |many: u64| json!("a".repeat(many as usize));
        let pattern = merged.first(|node| node.text("pattern"));
        let format = merged.first(|node| node.text("format"));
        if let Some(pattern) = pattern {
            let mut rng = Rng::with_seed(1);
            let mut made: Vec<String> =
                (0..6).filter_map(|_| of_pattern(pattern, &mut rng, true)).collect();
            if made.is_empty() {
                made = texts_of(pattern);
            }
            all.extend(
                made.into_iter().map(|text| differs(json!(text), "another match of the pattern")),
            );
            for text in ["", " ", "\u{1}", "~!", "a\nb"] {
                all.push(differs(json!(text), "not of the pattern"));
            }
        } else if let Some(format) = format {
            all.extend(
                format_others(format)
                    .iter()
                    .map(|text| differs(json!(text), format!("another {format}"))),
            );
            all.push(differs(json!("no such thing"), format!("not a {format}")));
            all.push(differs(json!(""), format!("not a {format} (empty)")));
        } else {
            if least == 0 {
                all.push(differs(json!(""), "empty text"));
            }
            if least > 0 && least <= MAX_TEXT_CHARS {
                all.push(differs(repeat(least), "shortest text"));
            }
            if most <= MAX_TEXT_CHARS {
                all.push(differs(repeat(most), "longest text"));
            }
            for (what, text) in HOSTILE_TEXTS {
                all.push(hostile(json!(text), what));
            }
            if most > HUGE_TEXT_CHARS as u64 {
                all.push(hostile(json!("a".repeat(HUGE_TEXT_CHARS)), "huge text"));
            }
        }
        if least > 0 && least <= MAX_TEXT_CHARS {
            all.push(differs(repeat(least - 1), "shorter than the minimum"));
        }
        if most < MAX_TEXT_CHARS {
            all.push(differs(repeat(most + 1), "longer than the maximum"));
        }
    }

    fn lists(&self, merged: &Merged, depth: usize, all: &mut Vec<PlaceDifference>) {
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
        let conj = merged.item(0);
        if depth < MAX_PLACE_DEPTH && !conj.is_empty() {
            let inner = merge(&self.document, &conj, None, &[]);
            if !inner.kinds().contains(Types::OBJECT) {
                for difference in self.differences(&inner, depth + 1) {
                    if let Some(Value::Array(mut list)) = items(least.max(1)) {
                        list[0] = difference.value;
                        let what = format!("item: {}", difference.what);
                        all.push(PlaceDifference {
                            value: Value::Array(list),
                            what,
                            hostile: difference.hostile,
                        });
                    }
                }
            }
        }
    }
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
}

impl CaseList<'_> {
    fn add(&mut self, arguments: Value, place: &str, what: &str, hostile: bool) {
        if self.all.len() >= MAX_CASES || !self.seen.insert(arguments.to_string()) {
            return;
        }
        let kind = match (self.maker.is_valid(&arguments), hostile) {
            (true, true) => CaseKind::Hostile,
            (true, false) => CaseKind::Valid,
            (false, false) => CaseKind::Invalid,
            // What was meant as data breaks a rule that cannot be seen from here.
            (false, true) => return,
        };
        let (place, what) = (place.to_owned(), what.to_owned());
        self.all.push(FuzzCase { arguments, place, what, kind });
    }

    fn put(&mut self, template: &Value, place: &str, difference: PlaceDifference) {
        let mut arguments = Some(template.clone());
        if set(&mut arguments, place, difference.value)
            && let Some(arguments) = arguments
        {
            self.add(arguments, place, &difference.what, difference.hostile);
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
        if place.is_empty() {
            // The arguments themselves stay an object.
            for (slot, union) in merged.unions.iter().enumerate() {
                for index in 0..union.variants.len() {
                    let mut picks = vec![None; slot];
                    picks.push(Some(index));
                    if let Some(value) = maker.value(conj, &picks, 0) {
                        let what = format!("alternative {}", index + 1);
                        self.add(value.clone(), "", &what, false);
                        if index != union.active && depth == 0 {
                            let merged = merge(&maker.document, conj, None, &picks);
                            self.members(&merged, place, &value, depth);
                        }
                    }
                }
            }
        } else {
            for difference in maker.differences(&merged, depth) {
                self.put(template, place, difference);
            }
        }
        if here.is_object() {
            self.members(&merged, place, template, depth);
        }
        if let Value::Array(items) = &here
            && !items.is_empty()
        {
            self.places(&merged.item(0), &format!("{place}/0"), template, depth + 1);
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
                self.add(arguments, &at, "a required property is missing", false);
            }
        }
        for (name, conj) in &merged.properties {
            let at = child_pointer(place, name);
            if template.pointer(&at).is_some() {
                self.places(conj, &at, template, depth + 1);
                continue;
            }
            let mut arguments = Some(template.clone());
            let Some(value) = maker.value(conj, &[], depth + 1) else { continue };
            if set(&mut arguments, &at, value)
                && let Some(arguments) = arguments
            {
                self.add(arguments.clone(), &at, "an optional property", false);
                if !maker.is_valid(&arguments)
                    && let Some(whole) = maker.repaired(arguments.clone())
                    && whole.pointer(&at).is_some()
                {
                    self.add(whole, &at, "an optional property with what it needs", false);
                }
                // An optional list is varied with an item in it.
                let inner = merge(&maker.document, conj, None, &[]);
                let mut with = Some(arguments.clone());
                if inner.kinds() == Types::ARRAY
                    && arguments.pointer(&at).and_then(Value::as_array).is_some_and(Vec::is_empty)
                    && let Some(list) = maker.items(&inner, 1, depth + 1)
                {
                    set(&mut with, &at, list);
                }
                let template = with.filter(|with| maker.is_valid(with)).unwrap_or(arguments);
                self.places(conj, &at, &template, depth + 1);
            }
        }
        let unknown = child_pointer(place, "noSuchProperty");
        self.put(template, &unknown, differs(json!("x"), "an unknown property"));
        if merged.other("noSuchProperty").is_some_and(|conj| conj.is_empty()) && depth == 0 {
            let deep = (0..DEEP_LIST_LEVELS).fold(json!(1), |inner, _| json!([inner]));
            self.put(template, &unknown, hostile(deep, "a deeply nested unknown property"));
        }
    }
}

/// The bounds of a text's length; the longest is the greatest number without one.
fn lengths(merged: &Merged) -> (u64, u64) {
    let least = counts(merged, "minLength").max().unwrap_or(0);
    (least, counts(merged, "maxLength").min().unwrap_or(u64::MAX))
}

/// The values of a keyword that counts, in all schemas of a place.
fn counts(merged: &Merged, keyword: &str) -> impl Iterator<Item = u64> {
    merged.nodes.iter().filter_map(move |node| node.count(keyword))
}

/// Texts that a pattern with parts that look around matches.
fn texts_of(pattern: &str) -> Vec<String> {
    texts_of_pattern(pattern, |plain, round| {
        of_pattern(plain, &mut Rng::with_seed(round), round > 0)
    })
}

/// The numbers that schemas of a place name as limits, as they are written, and their neighbours.
fn limit_values(merged: &Merged) -> Vec<Value> {
    let mut all = Vec::new();
    for node in &merged.nodes {
        for keyword in ["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"] {
            let Some(limit) = node.value(keyword).filter(|limit| limit.is_number()) else {
                continue;
            };
            all.push(limit.clone());
            if let Some(whole) = limit.as_i64() {
                all.extend([json!(whole.saturating_add(1)), json!(whole.saturating_sub(1))]);
            }
        }
    }
    all
}

/// A number without the last digits, in which sums of fractions go wrong.
fn rounded(value: f64) -> f64 {
    if value.abs() < 1e-300 { value } else { format!("{value:.12e}").parse().unwrap_or(value) }
}

fn number(value: f64, integer: bool) -> Value {
    let value = rounded(value);
    let is_whole = value.fract() == 0.0 && value.abs() < 9e15;
    if integer || is_whole {
        return json!(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// The nearest number at or above a lower bound, or at or below an upper one, else a small one.
fn smallest_number(merged: &Merged) -> Value {
    let step = merged.step();
    let has_step = merged.nodes.iter().any(|node| node.multiple_of().is_some());
    let start = match (merged.minimum(), merged.maximum()) {
        (Some((low, open)), _) => {
            let unit = if merged.integer || has_step { step } else { 1e-3 };
            let first = if merged.integer || has_step { (low / step).ceil() * step } else { low };
            if open && first <= low { first + unit } else { first }
        }
        (None, Some((high, open))) if high < 1.0 || open && high <= 1.0 => {
            let unit = if merged.integer || has_step { step } else { 1e-3 };
            let last = if merged.integer || has_step { (high / step).floor() * step } else { high };
            if open && last >= high { last - unit } else { last }
        }
        _ => step,
    };
    number(start, merged.integer)
}

fn numbers(merged: &Merged, all: &mut Vec<PlaceDifference>) {
    let integer = merged.integer;
    let has_step = merged.nodes.iter().any(|node| node.multiple_of().is_some());
    let unit = if integer || has_step { merged.step() } else { 1e-3 };
    let mut add = |value: f64, what: &str| all.push(differs(number(value, integer), what));
    if let Some((low, open)) = merged.minimum() {
        add(if open { low + unit } else { low }, "smallest number");
        add(if open { low } else { low - unit }, "below the minimum");
        add(low - 1e6, "far below the minimum");
    } else {
        add(-1.0, "negative number");
    }
    if let Some((high, open)) = merged.maximum() {
        add(if open { high - unit } else { high }, "largest number");
        add(if open { high } else { high + unit }, "above the maximum");
        add(high + 1e6, "far above the maximum");
    }
    add(0.0, "zero");
    add(1.0, "one");
    if has_step {
        add(merged.step() * 2.0, "a multiple");
        all.push(differs(json!(merged.step() * 1.5), "not a multiple"));
    }
    if integer {
        all.push(differs(json!(1.5), "a fraction instead of a whole number"));
        for (value, what) in
            [(1_i64 << 31, "2^31"), (-(1_i64 << 31) - 1, "below -2^31"), ((1 << 53) - 1, "2^53-1")]
        {
            all.push(hostile(json!(value), what));
        }
    } else {
        all.push(differs(json!(0.5), "a fraction"));
        all.push(hostile(json!(1e300), "a huge number"));
        all.push(hostile(json!(-1e300), "a huge negative number"));
        all.push(hostile(json!(5e-324), "the least number above zero"));
    }
}

/// A text of a format.
fn format_sample(format: &str) -> Option<&'static str> {
    format_others(format).first().copied()
}

/// Texts of a format.
fn format_others(format: &str) -> &'static [&'static str] {
    match format {
        "date" => &["2026-01-15", "2024-02-29", "1970-01-01", "9999-12-31"],
        "time" => &["12:30:00Z", "00:00:00Z", "23:59:59.999+05:30"],
        "date-time" => &[
            "2026-01-15T12:30:00Z",
            "2024-02-29T23:59:59.999999+05:30",
            "1969-12-31T23:59:59-11:00",
        ],
        "duration" => &["PT1H", "P1Y2M3DT4H5M6S", "P4W"],
        "email" | "idn-email" => &["a@example.com", "first.last+tag@sub.example.org"],
        "hostname" | "idn-hostname" => &["example.com", "a.b-c.example.org"],
        "ipv4" => &["192.0.2.1", "0.0.0.0", "255.255.255.255"],
        "ipv6" => &["2001:db8::1", "::", "::ffff:192.0.2.1"],
        "uri" | "iri" | "uri-reference" | "iri-reference" => &[
            "https://example.com/a",
            "http://example.com:8080/a/b?c=d&e=%20#f",
            "urn:isbn:0451450523",
        ],
        "uuid" => &["123e4567-e89b-42d3-a456-426614174000", "00000000-0000-0000-0000-000000000000"],
        "json-pointer" => &["/a/b", "", "/a~1b/0"],
        "regex" => &["^a+$", "[0-9]{2,3}"],
        "byte" | "base64" => &["aGVsbG8=", "AA=="],
        _ => &[],
    }
}

/// A text that a pattern matches; one of many when `vary`. `None` when the pattern cannot be read.
fn of_pattern(pattern: &str, rng: &mut Rng, vary: bool) -> Option<String> {
    let parsed = ParserBuilder::new().utf8(false).build().parse(pattern).ok()?;
    let mut out = String::new();
    write_match(&parsed, rng, vary, &mut out, 0)?;
    Some(out)
}

fn write_match(hir: &Hir, rng: &mut Rng, vary: bool, out: &mut String, depth: u32) -> Option<()> {
    if depth > 64 || out.len() > MAX_TEXT_CHARS as usize {
        return None;
    }
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => {}
        HirKind::Literal(literal) => out.push_str(std::str::from_utf8(&literal.0).ok()?),
        HirKind::Class(class) => out.push(of_class(class, rng, vary)?),
        HirKind::Repetition(repetition) => {
            let most = repetition.max.unwrap_or(repetition.min.saturating_add(8));
            let many = if vary {
                rng.u32(repetition.min..=most.min(repetition.min + 64))
            } else {
                repetition.min
            };
            for _ in 0..many {
                write_match(&repetition.sub, rng, vary, out, depth + 1)?;
            }
        }
        HirKind::Capture(capture) => write_match(&capture.sub, rng, vary, out, depth + 1)?,
        HirKind::Concat(all) => {
            for part in all {
                write_match(part, rng, vary, out, depth + 1)?;
            }
        }
        HirKind::Alternation(all) => {
            let index = if vary { rng.usize(..all.len()) } else { 0 };
            write_match(all.get(index)?, rng, vary, out, depth + 1)?;
        }
    }
    Some(())
}

fn of_class(class: &Class, rng: &mut Rng, vary: bool) -> Option<char> {
    let ranges: Vec<(u32, u32)> = match class {
        Class::Unicode(class) => class.iter().map(|r| (r.start().into(), r.end().into())).collect(),
        Class::Bytes(class) => class.iter().map(|r| (r.start().into(), r.end().into())).collect(),
    };
    let has = |c: u32| ranges.iter().any(|(low, high)| (*low..=*high).contains(&c));
    let plain: Vec<u32> =
        ('a'..='z').chain('0'..='9').chain('A'..='Z').map(u32::from).filter(|c| has(*c)).collect();
    let pick = |all: &[u32], rng: &mut Rng| {
        all.get(if vary { rng.usize(..all.len().max(1)) } else { 0 }).copied()
    };
    let found = pick(&plain, rng).or_else(|| (0x20..0x7f).find(|c| has(*c)));
    found.or_else(|| ranges.first().map(|range| range.0)).and_then(char::from_u32)
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
            "not a date",
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
    fn patterns_give_texts_that_they_match() {
        let mut rng = Rng::with_seed(3);
        for pattern in ["^[a-z]+(-[0-9]{1,3})?$", "^(foo|bar)\\.[^.]{2}$", "^\\d{4}$", "x*"] {
            let regex = regex::Regex::new(pattern).expect("a pattern");
            for vary in [false, true, true, true] {
                let text = of_pattern(pattern, &mut rng, vary).expect("a text");
                assert!(regex.is_match(&text), "{pattern}: {text}");
            }
        }
        assert_eq!(of_pattern("(?=x)y", &mut rng, false), None);
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
