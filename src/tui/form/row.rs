//! The rows of a form, derived from schema and value, and the kind of each field. Pure.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::prelude::*;
use base::pointer::child_pointer;
use schema::{
    Conj, Merged, Schema, SchemaDocument, Spellings, SubSchema, Types, example_of_format,
    example_of_pattern, merge, type_words, variant_title,
};

/// Maximum number of members of one container that get rows; the rest is edited as JSON.
pub const MAX_MEMBERS: usize = 400;
/// Maximum number of rows of a form.
const MAX_ROWS: usize = 20_000;
/// Maximum number of containers within each other whose members get rows.
const MAX_NESTED_LEVELS: u16 = 48;

/// One visible line of the form.
#[derive(Clone, Debug, Default)]
pub struct FormRow {
    /// JSON pointer of the place within the value.
    pub pointer: String,
    /// Nesting depth, from 0.
    pub depth: u16,
    /// Its label: title, property name or item number.
    pub label: SafeText,
    /// Whether the place must be set.
    pub required: bool,
    /// Whether the place can be removed from its parent (an item, an extra key).
    pub removable: bool,
    pub kind: RowKind,
}

/// The kind of a row.
#[derive(Clone, Debug, Default)]
pub enum RowKind {
    /// A choice among variants (`oneOf`, `anyOf`) or types of the same place.
    Choice {
        /// Index of the choice among those of the place, from 0; [`TYPES_SLOT`] for types.
        slot: usize,
        /// Titles of the alternatives.
        titles: Vec<SafeText>,
        /// Index of the alternative that is shown.
        active: usize,
        /// The sub-schema of each alternative; empty for types.
        variants: Vec<SubSchema>,
    },
    /// A field; for a container, the row above its members.
    Field {
        field: Box<Field>,
        /// Whether it is folded; `None` if it is not a container.
        folded: Option<bool>,
    },
    /// Adds an item to a list.
    #[default]
    AddItem,
    /// Adds a key to an object; its name is typed here.
    AddKey,
    /// All other fields of a form that shows one field first.
    Rest {
        /// Their values.
        summary: SafeText,
    },
    /// Members without rows of their own; edited as JSON.
    More {
        /// Their number.
        hidden: usize,
    },
}

/// The slot of a choice among types; never used for variants.
pub const TYPES_SLOT: usize = usize::MAX;

/// The user's decisions about a place, apart from its value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldDecision {
    /// Chosen variants, by slot.
    pub picks: Vec<Option<usize>>,
    /// Index of the chosen type among those it may have.
    pub of_type: Option<usize>,
    /// Whether it was folded or unfolded.
    pub folded: Option<bool>,
    /// Whether the user chose to edit it as JSON.
    pub as_json: bool,
    /// Values of alternatives that were left, by slot and alternative, to be restored. Shared, as
    /// undo keeps the decisions.
    pub stash: HashMap<(usize, usize), Arc<Option<Value>>>,
}

/// The user's decisions, by JSON pointer.
pub type Decisions = BTreeMap<String, FieldDecision>;

/// The variants that were chosen at a place.
pub(super) fn picks<'a>(decisions: &'a Decisions, pointer: &str) -> &'a [Option<usize>] {
    decisions.get(pointer).map_or(&[], |decision| &decision.picks)
}

/// Builds all visible rows.
pub fn rows(
    document: &SchemaDocument,
    value: Option<&Value>,
    decisions: &Decisions,
) -> Vec<FormRow> {
    let mut builder = Builder { document, decisions, rows: Vec::new(), path: Vec::new() };
    let root = vec![Arc::clone(&document.root)];
    builder.place(FormRow { required: true, ..FormRow::default() }, &root, value);
    builder.rows
}

struct Builder<'a> {
    document: &'a SchemaDocument,
    decisions: &'a Decisions,
    rows: Vec<FormRow>,
    /// Sub-schemas of the containers above, to detect recursive schemas.
    path: Vec<*const Schema>,
}

impl Builder<'_> {
    fn place(&mut self, mut place: FormRow, conj: &Conj, value: Option<&Value>) {
        if self.rows.len() >= MAX_ROWS {
            return;
        }
        let mut merged = merge(self.document, conj, value, picks(self.decisions, &place.pointer));
        self.variant_rows(&mut place, &merged);
        self.type_row(&mut place, &mut merged, value);
        let mut field = Field::new(merged, value, self.document);
        if self.decisions.get(&place.pointer).is_some_and(|decision| decision.as_json) {
            field.kind = FieldKind::Json(None);
        }
        let is_root = place.pointer.is_empty() && matches!(field.kind, FieldKind::Object { .. });
        let container = matches!(field.kind, FieldKind::Object { .. } | FieldKind::Array { .. })
            && !value.is_some_and(Value::is_null);
        let folded = container && !is_root && self.is_folded(&place, &field, value);
        let merged = container.then(|| field.merged.clone());
        let is_list = matches!(field.kind, FieldKind::Array { .. });
        let open = matches!(
            field.kind,
            FieldKind::Object { open: true } | FieldKind::Array { open: true }
        );
        let inner = if is_root { place.depth } else { place.depth + 1 };
        let pointer = place.pointer.clone();
        if !is_root {
            // A group right under its choice has no label, so it gets the title of the variant.
            if let Some(FormRow { kind: RowKind::Choice { slot, titles, active, .. }, .. }) =
                self.rows.last().filter(|_| container && place.label.is_empty())
                && *slot != TYPES_SLOT
            {
                place.label = titles.get(*active).cloned().unwrap_or_default();
            }
            let folded = container.then_some(folded);
            self.push(place, RowKind::Field { field: Box::new(field), folded });
        }
        let Some(merged) = merged.filter(|_| !folded && inner < MAX_NESTED_LEVELS) else { return };
        let entered = self.path.len();
        self.path.extend(merged.nodes.iter().map(Arc::as_ptr));
        let of = ContainerRow { pointer, depth: inner, merged: &merged, value, open };
        if is_list {
            self.items(&of);
        } else {
            self.members(&of);
        }
        self.path.truncate(entered);
    }

    fn push(&mut self, place: FormRow, kind: RowKind) {
        self.rows.push(FormRow { kind, ..place });
    }

    /// Adds a choice row. Further rows of the same place have no label.
    fn choice_row(&mut self, place: &mut FormRow, kind: RowKind) {
        self.push(place.clone(), kind);
        place.label = SafeText::default();
    }

    fn variant_rows(&mut self, place: &mut FormRow, merged: &Merged) {
        for (slot, union) in merged.unions.iter().enumerate() {
            let discriminator = union.discriminator.as_deref();
            let shown = union.variants.iter().take(MAX_MEMBERS);
            let titles = shown
                .map(|v| SafeText::line(&variant_title(self.document, v, discriminator)))
                .collect();
            let (active, variants) = (union.active, union.variants.clone());
            self.choice_row(place, RowKind::Choice { slot, titles, active, variants });
        }
    }

    fn type_row(&mut self, place: &mut FormRow, merged: &mut Merged, value: Option<&Value>) {
        let types = merged.types - Types::NULL;
        let closed =
            merged.options.is_some() || merged.fixed.is_some() || merged.degraded.is_some();
        if !merged.typed || types.iter().count() < 2 || closed || merged.types.is_all() {
            return;
        }
        let all = [Types::STRING, Types::NUMBER, Types::BOOLEAN, Types::OBJECT, Types::ARRAY];
        let choices: Vec<Types> = all.into_iter().filter(|t| types.contains(*t)).collect();
        let decided = self.decisions.get(&place.pointer).and_then(|decision| decision.of_type);
        let active = match value.filter(|v| !v.is_null()) {
            Some(value) => choices.iter().position(|t| *t == Types::from_value(value)),
            None => Some(decided.filter(|at| *at < choices.len()).unwrap_or(0)),
        };
        let Some(active) = active else { return };
        let null = merged.types & Types::NULL;
        merged.types = choices[active] | null;
        let titles = choices.iter().map(|t| SafeText::line(&type_words(*t, false))).collect();
        let variants = Vec::new();
        self.choice_row(place, RowKind::Choice { slot: TYPES_SLOT, titles, active, variants });
    }

    fn is_folded(&self, place: &FormRow, field: &Field, value: Option<&Value>) -> bool {
        if let Some(decided) = self.decisions.get(&place.pointer).and_then(|d| d.folded) {
            return decided;
        }
        match value {
            // Unset optional containers are folded, as are recursive ones.
            None => {
                let mut nodes = field.merged.nodes.iter();
                !place.required || nodes.any(|node| self.path.contains(&Arc::as_ptr(node)))
            }
            Some(Value::Array(items)) => items.len() > 50,
            Some(Value::Object(map)) => map.len() > 200 && place.depth > 0,
            Some(_) => false,
        }
    }

    fn members(&mut self, of: &ContainerRow<'_>) {
        for (name, conj) in &of.merged.properties {
            // A required member with its only possible value needs no row.
            let value = of.get(name).filter(|_| of.merged.required.contains(name));
            if value.is_some() && value == merge(self.document, conj, value, &[]).only() {
                continue;
            }
            let title = merge_title(self.document, conj).unwrap_or(name);
            let place = of.member(name, SafeText::line(title));
            self.place(place, conj, of.get(name));
        }
        let hidden = self.undescribed(of);
        self.missing(of);
        self.tail(of, hidden);
        if of.wants_keys() {
            self.push(of.line(), RowKind::AddKey);
        }
    }

    /// Adds rows for keys that the schema does not describe; returns how many got none.
    fn undescribed(&mut self, of: &ContainerRow<'_>) -> usize {
        let members = of.value.and_then(Value::as_object).into_iter().flatten();
        let mut others =
            members.filter(|(name, _)| !of.merged.properties.contains_key(name.as_str()));
        for (name, member) in others.by_ref().take(MAX_MEMBERS) {
            let conj = of.merged.other(name).unwrap_or_default();
            let place = FormRow { removable: true, ..of.member(name, SafeText::line(name)) };
            self.place(place, &conj, Some(member));
        }
        others.count()
    }

    /// Adds rows for required names that are neither described nor set.
    fn missing(&mut self, of: &ContainerRow<'_>) {
        for name in &of.merged.required {
            if !of.merged.properties.contains_key(name) && of.get(name).is_none() {
                let conj = of.merged.other(name).unwrap_or_default();
                self.place(of.member(name, SafeText::line(name)), &conj, None);
            }
        }
    }

    fn items(&mut self, of: &ContainerRow<'_>) {
        let items = of.value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (i, item) in items.iter().enumerate().take(MAX_MEMBERS) {
            let (number, named) = ((i + 1).to_string(), of.merged.prefix.get(i));
            let title = named.and_then(|conj| merge_title(self.document, conj));
            let place = FormRow {
                pointer: format!("{}/{i}", of.pointer),
                depth: of.depth,
                label: SafeText::line(title.unwrap_or(&number)),
                required: true,
                removable: true,
                ..FormRow::default()
            };
            self.place(place, &of.merged.item(i), Some(item));
        }
        self.tail(of, items.len().saturating_sub(MAX_MEMBERS));
        if of.open {
            self.push(of.line(), RowKind::AddItem);
        }
    }

    fn tail(&mut self, of: &ContainerRow<'_>, hidden: usize) {
        if hidden > 0 {
            self.push(of.line(), RowKind::More { hidden });
        }
    }
}

/// A container whose members get rows.
struct ContainerRow<'c> {
    pointer: String,
    /// Nesting depth of its members.
    depth: u16,
    merged: &'c Merged,
    value: Option<&'c Value>,
    /// Whether members can be added.
    open: bool,
}

impl ContainerRow<'_> {
    fn get(&self, name: &str) -> Option<&Value> {
        self.value.and_then(|value| value.get(name))
    }

    fn member(&self, name: &str, label: SafeText) -> FormRow {
        FormRow {
            pointer: child_pointer(&self.pointer, name),
            depth: self.depth,
            label,
            required: self.merged.required.contains(name),
            ..FormRow::default()
        }
    }

    /// A row among the members that belongs to the container itself.
    fn line(&self) -> FormRow {
        FormRow { pointer: self.pointer.clone(), depth: self.depth, ..FormRow::default() }
    }

    /// Whether to offer adding keys. An object that describes its keys rarely takes others even if
    /// the schema allows them, and a root that describes none takes no arguments.
    fn wants_keys(&self) -> bool {
        let merged = self.merged;
        let is_map = merged.properties.is_empty() && !self.pointer.is_empty();
        self.open && (merged.speaks_of_others || is_map || !merged.patterns.is_empty())
    }
}

fn merge_title<'a>(document: &'a SchemaDocument, conj: &'a Conj) -> Option<&'a str> {
    let titled = |node: &'a SubSchema| node.text("title");
    conj.iter().find_map(titled).or_else(|| document.target(conj.first()?).and_then(titled))
}

impl FormRow {
    /// The field of the row, if it is one.
    pub fn field(&self) -> Option<&Field> {
        match &self.kind {
            RowKind::Field { field, .. } => Some(field),
            _ => None,
        }
    }

    /// The values of a choice, and whether several can be chosen.
    pub fn options(&self) -> Option<(&[Value], bool)> {
        match &self.field()?.kind {
            FieldKind::Choice(options) => Some((options, false)),
            FieldKind::MultiChoice(options) => Some((options, true)),
            _ => None,
        }
    }
}

// The kind of field of a place, from the joined schema and the current value. Every place has
// one; a place that no other kind can show is edited as JSON. Pure.

/// How a place is edited.
#[derive(Clone, Debug)]
pub enum FieldKind {
    Text {
        /// Whether several lines are likely.
        multiline: bool,
        /// `format`, or `contentEncoding` (`base64`).
        format: Option<String>,
    },
    Number,
    /// `true` or `false`.
    Bool,
    /// One of some values of any type.
    Choice(Arc<Vec<Value>>),
    /// Any number of some values.
    MultiChoice(Arc<Vec<Value>>),
    /// Always the same value.
    Const(Value),
    Object {
        /// Whether keys can be added.
        open: bool,
    },
    /// A list.
    Array {
        /// Whether items can be added, given how many there are.
        open: bool,
    },
    /// Typed JSON, with a reason if the schema could not be shown as another kind of field.
    Json(Option<String>),
}

/// A place of the form.
#[derive(Clone, Debug)]
pub struct Field {
    /// How it is edited.
    pub kind: FieldKind,
    /// Whether `null` is also allowed.
    pub nullable: bool,
    /// The joined schema of the place.
    pub merged: Merged,
    /// Sub-schemas that may have names for the values of a choice.
    naming: Vec<SubSchema>,
    /// How the numbers of the schema are written.
    pub spellings: Arc<Spellings>,
}

impl Field {
    /// Determines the field for `merged`, given the current value.
    pub fn new(merged: Merged, value: Option<&Value>, document: &SchemaDocument) -> Self {
        let nullable = merged.is_nullable();
        let mut kind = kind_of(&merged, value, document);
        if !shows(&kind, value) {
            let reason = "its value does not match the schema's type".to_owned();
            kind = FieldKind::Json(Some(reason));
        }
        let naming = match &kind {
            FieldKind::MultiChoice(_) => merge(document, &merged.items, None, &[]).nodes,
            FieldKind::Choice(_) => merged.nodes.clone(),
            _ => Vec::new(),
        };
        let spellings = Arc::clone(document.spellings());
        Self { kind, nullable, merged, naming, spellings }
    }

    /// Why the place fell back to typed JSON, if it did.
    pub const fn degraded(&self) -> Option<&String> {
        match &self.kind {
            FieldKind::Json(reason) => reason.as_ref(),
            _ => None,
        }
    }

    /// Whether it is secret (`writeOnly`, `format: password`): drawn as dots.
    pub fn is_secret(&self) -> bool {
        self.merged.nodes.iter().any(|node| node.is_secret())
    }

    /// `description`
    pub fn description(&self) -> Option<&str> {
        self.merged.first(|node| node.text("description"))
    }

    /// `default`
    pub fn default(&self) -> Option<&Value> {
        self.merged.first(|node| node.value("default"))
    }

    /// An example of a value: the schema's own, or one made from its pattern or format.
    pub fn example(&self) -> Option<String> {
        let plain = |value: &Value| self.spellings.plain(value);
        let first = |node: &Schema| node.value("examples")?.get(0).map(plain);
        let written = self.merged.nodes.iter().find_map(|node| first(node));
        let single = || self.merged.first(|node| node.value("example")).map(plain);
        if let Some(written) = written.or_else(single) {
            return Some(written);
        }
        let FieldKind::Text { format, .. } = &self.kind else { return None };
        let nodes = &self.merged.nodes;
        if let Some(pattern) = self.merged.first(|node| node.text("pattern")) {
            let least = nodes.iter().filter_map(|node| node.count("minLength")).max().unwrap_or(0);
            let most = nodes.iter().filter_map(|node| node.count("maxLength")).min();
            let most = usize::try_from(most.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
            return example_of_pattern(pattern, usize::try_from(least).ok()?, most);
        }
        format.as_deref().and_then(example_of_format).map(str::to_owned)
    }

    /// The values of a choice, each with its name if the schema has one. There may be thousands.
    pub fn named<'a>(
        &'a self,
        options: &'a [Value],
    ) -> impl Iterator<Item = (&'a Value, Option<&'a str>)> {
        let mut titles = HashMap::new();
        for node in &self.naming {
            if let (Some(only), Some(title)) = (node.only(), node.text("title")) {
                titles.entry(only).or_insert(title);
            }
        }
        let mut listed = vec![None; options.len()];
        for names in self.naming.iter().filter_map(|node| node.value("enumNames")?.as_array()) {
            for (known, name) in listed.iter_mut().zip(names) {
                *known = known.or_else(|| name.as_str());
            }
        }
        let name = move |(option, listed)| (option, titles.get(option).copied().or(listed));
        options.iter().zip(listed).map(name)
    }
}

/// Whether a field of this kind can show the value without changing it.
fn shows(kind: &FieldKind, value: Option<&Value>) -> bool {
    let Some(value) = value else { return true };
    // Null is shown in every field, allowed or not; typing replaces it.
    if value.is_null() {
        return true;
    }
    match kind {
        FieldKind::Text { .. } => value.is_string(),
        FieldKind::Number => value.is_number(),
        FieldKind::Bool => value.is_boolean(),
        FieldKind::Object { .. } => value.is_object(),
        FieldKind::Array { .. } => value.is_array(),
        FieldKind::MultiChoice(options) => {
            value.as_array().is_some_and(|items| are_among(items, options))
        }
        FieldKind::Const(_) | FieldKind::Choice(_) | FieldKind::Json(_) => true,
    }
}

/// Whether each of these is one of the options. There may be thousands of both.
fn are_among(items: &[Value], options: &[Value]) -> bool {
    let options: HashSet<&Value> = options.iter().collect();
    items.iter().all(|item| options.contains(item))
}

fn kind_of(merged: &Merged, value: Option<&Value>, document: &SchemaDocument) -> FieldKind {
    if let Some(reason) = &merged.degraded {
        return FieldKind::Json(Some(reason.clone()));
    }
    if let Some(fixed) = &merged.fixed {
        return FieldKind::Const(fixed.clone());
    }
    if let Some(options) = &merged.options {
        return FieldKind::Choice(Arc::clone(options));
    }
    let types = merged.kinds();
    match types {
        _ if merged.typed && merged.types == Types::NULL => FieldKind::Const(Value::Null),
        Types::STRING => text(merged),
        Types::NUMBER => FieldKind::Number,
        Types::BOOLEAN => FieldKind::Bool,
        Types::OBJECT => FieldKind::Object { open: !merged.closed || !merged.patterns.is_empty() },
        Types::ARRAY => array(merged, value, document),
        // Several types: use that of the value, otherwise JSON.
        _ => match value.map(Types::from_value) {
            Some(one) if merged.typed && types.contains(one) => {
                let mut narrowed = merged.clone();
                narrowed.types = one;
                kind_of(&narrowed, value, document)
            }
            _ => FieldKind::Json(None),
        },
    }
}

fn text(merged: &Merged) -> FieldKind {
    let format =
        merged.first(|n| n.text("format").or_else(|| n.text("contentEncoding"))).map(str::to_owned);
    let single = format.is_some() || merged.nodes.iter().any(|n| n.text("pattern").is_some());
    let longest =
        merged.nodes.iter().filter_map(|n| n.count("maxLength")).min().unwrap_or(u64::MAX);
    FieldKind::Text { multiline: !single && longest > 120, format }
}

fn array(merged: &Merged, value: Option<&Value>, document: &SchemaDocument) -> FieldKind {
    let unique = merged.nodes.iter().any(|n| n.flag("uniqueItems"));
    if !merged.items.is_empty() && merged.prefix.is_empty() {
        let items = merge(document, &merged.items, None, &[]);
        if let Some(options) = items.options.filter(|_| unique || items.fixed.is_none()) {
            let shows = value.and_then(Value::as_array).is_none_or(|chosen| {
                let mut seen = HashSet::new();
                are_among(chosen, &options) && chosen.iter().all(|item| seen.insert(item))
            });
            // Without `uniqueItems`, duplicates are allowed but rarely intended: this is how
            // multi-select enums are written (MCP, elicitation). A value with duplicates is shown
            // as a list; any list can be entered as JSON.
            if shows {
                return FieldKind::MultiChoice(options);
            }
        }
    }
    let length = value.and_then(Value::as_array).map_or(0, Vec::len) as u64;
    let most = merged.nodes.iter().filter_map(|n| n.count("maxItems")).min().unwrap_or(u64::MAX);
    let ends = merged.items.iter().any(|n| n.never);
    let open = length < most && (!ends || length < merged.prefix.len() as u64);
    FieldKind::Array { open }
}
