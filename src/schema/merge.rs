//! The joined schema of one place: a sub-schema with its references, `allOf`, chosen variants, and
//! the conditions that apply to the current value. Pure.

use std::collections::HashSet;
use std::sync::Arc;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::document::{Schema, SchemaDocument, SubSchema, Types, sole, strings};

/// Sub-schemas that all apply to one place.
pub type Conj = Vec<SubSchema>;

/// A choice among alternatives at one place.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Union {
    /// The alternatives, without those for `null` only.
    pub variants: Vec<SubSchema>,
    /// The one that is shown.
    pub active: usize,
    /// Property that distinguishes the variants.
    pub discriminator: Option<String>,
}

/// Everything that applies to one place.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts of a schema")]
#[non_exhaustive]
pub struct Merged {
    /// Possible types.
    pub types: Types,
    /// Whether a type was declared at all.
    pub typed: bool,
    /// Whether numbers must be whole.
    pub integer: bool,
    /// Whether an alternative for `null` was left out of the choices.
    pub nullable: bool,
    /// The sub-schemas that were joined, outermost first.
    pub nodes: Vec<SubSchema>,
    /// Choices, in the order in which they were found.
    pub unions: Vec<Union>,
    /// `properties`, by name.
    pub properties: IndexMap<String, Conj>,
    /// `required`, including those by `dependentRequired`.
    pub required: indexmap::IndexSet<String>,
    /// Sub-schemas of other keys; if empty and not [`Merged::closed`], they may hold anything.
    pub additional: Conj,
    /// Whether other keys are forbidden.
    pub closed: bool,
    /// Whether the schema says anything about other keys.
    pub speaks_of_others: bool,
    /// `patternProperties`
    pub patterns: Vec<(String, SubSchema)>,
    /// `prefixItems`
    pub prefix: Vec<Conj>,
    /// `items`
    pub items: Conj,
    /// `enum`, joined.
    pub options: Option<Arc<Vec<Value>>>,
    /// `const`
    pub fixed: Option<Value>,
    /// Why the place cannot be shown as a field.
    pub degraded: Option<String>,
}

/// Maximum number of sub-schemas joined at one place.
const MAX_JOINED: usize = 256;

/// Joins `conj` for the value of the place. `picks` are the variants the user chose, in the order
/// of the unions; a `None` or missing one is determined from the value.
pub fn merge(
    document: &SchemaDocument,
    conj: &[SubSchema],
    value: Option<&Value>,
    picks: &[Option<usize>],
) -> Merged {
    Merger::new(document, value, picks, true).join(conj)
}

/// Like [`merge`] whatever the value is: `if`, `then`, `else` and what depends on other keys are
/// left out.
pub(super) fn merge_always(
    document: &SchemaDocument,
    conj: &[SubSchema],
    picks: &[Option<usize>],
) -> Merged {
    Merger::new(document, None, picks, false).join(conj)
}

struct Merger<'a> {
    document: &'a SchemaDocument,
    value: Option<&'a Value>,
    picks: &'a [Option<usize>],
    /// Whether conditions are tried with the value.
    has_conditions: bool,
    seen: HashSet<*const Schema>,
    out: Merged,
}

impl<'a> Merger<'a> {
    fn new(
        document: &'a SchemaDocument,
        value: Option<&'a Value>,
        picks: &'a [Option<usize>],
        has_conditions: bool,
    ) -> Self {
        let out = Merged { types: Types::all(), ..Merged::default() };
        Self { document, value, picks, has_conditions, seen: HashSet::new(), out }
    }

    fn join(mut self, conj: &[SubSchema]) -> Merged {
        for node in conj {
            self.add(node);
        }
        self.out
    }

    fn add(&mut self, node: &SubSchema) {
        if !self.seen.insert(Arc::as_ptr(node)) {
            return;
        }
        if self.out.nodes.len() >= MAX_JOINED {
            self.degrade("too many sub-schemas apply here");
            return;
        }
        self.out.nodes.push(Arc::clone(node));
        if node.never {
            self.degrade("the schema allows no value here");
        }
        self.add_scalars(node);
        self.add_members(node);
        if node.reference().is_some() {
            match self.document.target(node) {
                Some(target) => self.add(&Arc::clone(target)),
                None => self.degrade("a `$ref` points outside the schema"),
            }
        }
        for part in node.parts("allOf") {
            self.add(part);
        }
        if self.has_conditions {
            self.add_conditions(node);
        }
        for keyword in ["oneOf", "anyOf"] {
            let list: Vec<SubSchema> = node.parts(keyword).cloned().collect();
            if !list.is_empty() {
                self.add_union(node, &list);
            }
        }
    }

    fn degrade(&mut self, reason: &str) {
        self.out.degraded.get_or_insert_with(|| reason.to_owned());
    }

    fn add_scalars(&mut self, node: &Schema) {
        let out = &mut self.out;
        if let Some(types) = node.types {
            out.types &= types;
            out.typed = true;
            out.integer |= node.integer;
        }
        if let Some(options) = &node.options {
            out.options = Some(match out.options.take() {
                None => Arc::clone(options),
                Some(before) => Arc::new(
                    before.iter().filter(|o| options.iter().any(|p| same(o, p))).cloned().collect(),
                ),
            });
        }
        if let Some(fixed) = node.value("const") {
            out.fixed.get_or_insert_with(|| fixed.clone());
        }
        if node.types.is_some() && out.types.is_empty() {
            self.degrade("no type fits all rules here");
        }
    }

    fn add_members(&mut self, node: &Schema) {
        let out = &mut self.out;
        for (name, property) in node.named("properties") {
            out.properties.entry(name.clone()).or_default().push(Arc::clone(property));
        }
        out.required.extend(node.required().map(str::to_owned));
        for (name, needed) in node.dependent_required() {
            if self.value.is_some_and(|v| v.get(name).is_some()) {
                out.required.extend(strings(Some(needed)).map(str::to_owned));
            }
        }
        if let Some(additional) = node.additional() {
            out.speaks_of_others = true;
            if additional.never {
                out.closed = true;
            } else {
                out.additional.push(Arc::clone(additional));
            }
        }
        let patterns = node.named("patternProperties");
        out.patterns.extend(patterns.map(|(name, node)| (name.clone(), Arc::clone(node))));
        for (i, item) in node.parts("prefixItems").enumerate() {
            if out.prefix.len() <= i {
                out.prefix.push(Vec::new());
            }
            out.prefix[i].push(Arc::clone(item));
        }
        out.items.extend(node.items().cloned());
    }

    fn add_conditions(&mut self, node: &Schema) {
        let empty = Value::Object(Map::new());
        let value = self.value.unwrap_or(&empty);
        if let Some(test) = node.part("if") {
            let branch = if fits(self.document, test, value) { "then" } else { "else" };
            if let Some(branch) = node.part(branch) {
                self.add(branch);
            }
        }
        for keyword in ["dependentSchemas", "dependencies"] {
            for (_, node) in node.named(keyword).filter(|(name, _)| value.get(name).is_some()) {
                self.add(node);
            }
        }
    }

    fn add_union(&mut self, owner: &Schema, list: &[SubSchema]) {
        let is_null = |node: &SubSchema| {
            node.types == Some(Types::NULL) || node.value("const").is_some_and(Value::is_null)
        };
        let variants: Vec<SubSchema> = list.iter().filter(|n| !is_null(n)).cloned().collect();
        let nullable = variants.len() < list.len();
        let value = self.value;
        if variants.is_empty() {
            self.out.types &= Types::NULL;
            self.out.typed = true;
            return;
        }
        // If all alternatives are constants, they form a single choice.
        if let Some(options) = constants(self.document, list)
            && self.out.options.is_none()
        {
            self.out.options = Some(Arc::new(options));
            self.out.nodes.extend(variants);
            return;
        }
        let before = self.out.types;
        let active = if variants.len() == 1 {
            0
        } else {
            let slot = self.out.unions.len();
            let picked = self.picks.get(slot).copied().flatten();
            let active = picked
                .filter(|pick| *pick < variants.len())
                .or_else(|| value.map(|v| best(self.document, &variants, v)))
                .unwrap_or(0);
            self.out.unions.push(Union {
                variants: variants.clone(),
                active,
                discriminator: owner.discriminator().map(str::to_owned),
            });
            active
        };
        self.add(&variants[active]);
        if nullable && before.contains(Types::NULL) {
            self.out.types |= Types::NULL;
            self.out.nullable = true;
        }
    }
}

/// The values of alternatives that are all a `const` or a one-valued `enum`.
fn constants(document: &SchemaDocument, list: &[SubSchema]) -> Option<Vec<Value>> {
    list.iter()
        .map(|node| {
            let node = document.target(node).unwrap_or(node);
            let null = (node.types == Some(Types::NULL)).then_some(Value::Null);
            node.only().cloned().or(null)
        })
        .collect()
}

/// The first variant that `value` fits, otherwise the most similar one.
fn best(document: &SchemaDocument, variants: &[SubSchema], value: &Value) -> usize {
    let fitting = variants.iter().take(200).position(|node| fits(document, node, value));
    fitting.unwrap_or_else(|| {
        let like =
            |node: &SubSchema| MergeJudge { document, left: MAX_COMPARISONS }.likeness(node, value);
        let scored = variants.iter().take(200).enumerate();
        scored.max_by_key(|(i, node)| (like(node), std::cmp::Reverse(*i))).map_or(0, |(i, _)| i)
    })
}

impl Merged {
    /// The only possible value, if there is just one.
    pub fn only(&self) -> Option<&Value> {
        self.fixed.as_ref().or_else(|| sole(self.options.as_ref()))
    }

    /// The types of values, without `null`: as declared, otherwise as other keywords imply.
    pub fn kinds(&self) -> Types {
        if self.typed { self.types - Types::NULL } else { self.implied() }
    }

    fn implied(&self) -> Types {
        implied_types(&self.nodes)
    }

    /// Whether `null` is allowed besides other values.
    pub fn is_nullable(&self) -> bool {
        let types = self.typed || self.nullable;
        types && self.types.contains(Types::NULL) && self.types != Types::NULL
            || self.options.as_ref().is_some_and(|options| options.contains(&Value::Null))
    }

    /// The sub-schemas of the item at `index` of a list.
    pub fn item(&self, index: usize) -> Conj {
        self.prefix.get(index).cloned().unwrap_or_else(|| self.items.clone())
    }

    /// The first result of `say` for the joined nodes.
    pub fn first<'a, T: ?Sized>(
        &'a self,
        say: impl Fn(&'a Schema) -> Option<&'a T>,
    ) -> Option<&'a T> {
        self.nodes.iter().find_map(|node| say(node))
    }

    /// The step of a number: its `multipleOf`, or 1.
    pub fn step(&self) -> f64 {
        let mut steps = self.nodes.iter().filter_map(|node| node.multiple_of());
        steps.find(|step| *step >= 1e-9).unwrap_or(1.0)
    }

    /// The tightest lower bound, and whether it is exclusive.
    pub fn minimum(&self) -> Option<(f64, bool)> {
        self.nodes.iter().filter_map(|n| n.minimum()).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The tightest upper bound, and whether it is exclusive.
    pub fn maximum(&self) -> Option<(f64, bool)> {
        self.nodes.iter().filter_map(|n| n.maximum()).min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// The sub-schemas of a key that is not a property; `None` if it is forbidden.
    pub fn other(&self, key: &str) -> Option<Conj> {
        let matching: Conj = self
            .patterns
            .iter()
            .filter(|(pattern, _)| compiled(pattern).is_some_and(|regex| regex.is_match(key)))
            .map(|(_, node)| Arc::clone(node))
            .collect();
        if !matching.is_empty() {
            return Some(matching);
        }
        (!self.closed).then(|| self.additional.clone())
    }
}

/// The types that keywords speak about where no type is declared.
pub(super) fn implied_types(nodes: &[SubSchema]) -> Types {
    const WORDS: [(Types, &str); 4] = [
        (
            Types::OBJECT,
            "properties required additionalProperties unevaluatedProperties patternProperties \
             propertyNames",
        ),
        (Types::ARRAY, "prefixItems items contains uniqueItems"),
        (Types::STRING, "pattern format minLength maxLength"),
        (Types::NUMBER, "minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
    ];
    let has = |keyword| nodes.iter().any(|node| node.has(keyword));
    let spoken = WORDS.into_iter().find(|(_, keywords)| keywords.split(' ').any(has));
    spoken.map_or(Types::all(), |(types, _)| types)
}

// Whether a value seems to fit a sub-schema: selects the variant to show and whether a condition
// applies. Fast and bounded; only the engine's validator decides what is valid. Pure.

/// Maximum number of comparisons for one check; beyond it, the value counts as fitting.
const MAX_COMPARISONS: u32 = 5_000;

/// Whether `value` seems to fit `schema`.
pub fn fits(document: &SchemaDocument, schema: &Schema, value: &Value) -> bool {
    MergeJudge { document, left: MAX_COMPARISONS }.fits(schema, value, 0)
}

struct MergeJudge<'a> {
    document: &'a SchemaDocument,
    left: u32,
}

impl MergeJudge<'_> {
    fn fits(&mut self, schema: &Schema, value: &Value, depth: u32) -> bool {
        if self.left == 0 || depth > 32 {
            return true;
        }
        self.left -= 1;
        !schema.never
            && fits_itself(schema, value)
            && self.fits_inside(schema, value, depth)
            && self.fits_combined(schema, value, depth)
    }

    fn fits_inside(&mut self, schema: &Schema, value: &Value, depth: u32) -> bool {
        match value {
            Value::Object(map) => {
                schema.required().all(|name| map.contains_key(name))
                    && map.iter().all(|(name, v)| match schema.property(name) {
                        Some(node) => self.fits(node, v, depth + 1),
                        None if schema.part("patternProperties").is_none() => {
                            schema.additional().is_none_or(|node| !node.never)
                        }
                        None => true,
                    })
            }
            Value::Array(items) => items.iter().take(64).enumerate().all(|(i, v)| {
                let node = schema.parts("prefixItems").nth(i).or_else(|| schema.items());
                node.is_none_or(|node| self.fits(node, v, depth + 1))
            }),
            _ => true,
        }
    }

    fn fits_combined(&mut self, schema: &Schema, value: &Value, depth: u32) -> bool {
        let next = depth + 1;
        if let Some(target) = self.document.target(schema)
            && !self.fits(target, value, next)
        {
            return false;
        }
        let mut any = |keyword: &str| {
            let mut list = schema.parts(keyword).peekable();
            list.peek().is_none() || list.any(|node| self.fits(node, value, next))
        };
        any("anyOf")
            && any("oneOf")
            && schema.parts("allOf").all(|node| self.fits(node, value, next))
            && !schema.part("not").is_some_and(|node| self.left > 0 && self.fits(node, value, next))
    }

    /// How similar `value` is, higher is better. Used to choose among variants if none fits.
    fn likeness(&mut self, schema: &Schema, value: &Value) -> u32 {
        let mut score = 0;
        let resolved = self.document.target(schema);
        for node in std::iter::once(schema).chain(resolved.map(|node| &**node)) {
            if node.types.is_some_and(|types| types.contains(Types::from_value(value))) {
                score += 1;
            }
            let Value::Object(map) = value else { continue };
            for (name, v) in map.iter().take(256) {
                if let Some(property) = node.property(name) {
                    // A matching fixed value works like a discriminator.
                    score += match property.only() {
                        Some(only) if same(only, v) => 100,
                        Some(_) => 0,
                        None => 1 + u32::from(self.fits(property, v, 1)),
                    };
                }
            }
        }
        score
    }
}

fn fits_itself(schema: &Schema, value: &Value) -> bool {
    schema.types.is_none_or(|types| types.contains(Types::from_value(value)))
        && schema.value("const").is_none_or(|fixed| same(fixed, value))
        && schema.options.as_ref().is_none_or(|options| options.iter().any(|o| same(o, value)))
        && match value {
            Value::Number(_) => {
                let n = value.as_f64().unwrap_or_default();
                (!schema.integer || n.fract() == 0.0)
                    && schema.minimum().is_none_or(|(min, ex)| if ex { n > min } else { n >= min })
                    && schema.maximum().is_none_or(|(max, ex)| if ex { n < max } else { n <= max })
            }
            Value::String(text) => {
                let length = text.chars().take(10_000).count() as u64;
                schema.count("minLength").is_none_or(|min| length >= min)
                    && schema.count("maxLength").is_none_or(|max| length <= max)
                    && schema.text("pattern").is_none_or(|pattern| matches(pattern, text))
            }
            _ => true,
        }
}

fn matches(pattern: &str, text: &str) -> bool {
    pattern.len() > 256
        || text.len() > 4_096
        || compiled(pattern).is_none_or(|regex| regex.is_match(text))
}

/// Compiles a pattern; `None` if it is invalid or too large.
fn compiled(pattern: &str) -> Option<regex::Regex> {
    regex::RegexBuilder::new(pattern).size_limit(64 << 10).build().ok()
}

/// Equality as defined by JSON Schema: numbers are compared by value.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => {
            x == y || (x.as_f64() == y.as_f64() && (x.is_f64() || y.is_f64()))
        }
        (Value::Array(x), Value::Array(y)) => {
            x.len() == y.len() && x.iter().zip(y).all(|(x, y)| same(x, y))
        }
        (Value::Object(x), Value::Object(y)) => {
            let has = |(key, x): (&String, &Value)| y.get(key).is_some_and(|y| same(x, y));
            x.len() == y.len() && x.iter().all(has)
        }
        _ => a == b,
    }
}
