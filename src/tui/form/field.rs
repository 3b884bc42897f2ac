//! What kind of field a place gets: from the joined schema and the value that stands there. Every
//! place gets one; what cannot be shown gets an editor for its JSON, alone. Pure.

use std::sync::Arc;

use serde_json::Value;

use super::merge::{Conj, Merged};
use super::schema::{Document, Node, Types};

/// How a place is edited.
#[derive(Clone, Debug)]
pub enum FieldKind {
    /// Text.
    Text {
        /// Whether several lines are likely.
        multiline: bool,
        /// `format`, or `contentEncoding` (`base64`).
        format: Option<String>,
    },
    /// A number.
    Number {
        /// Whether it must be whole.
        integer: bool,
        /// What one step adds.
        step: f64,
        /// Lower bound, exclusive or not.
        minimum: Option<(f64, bool)>,
        /// Upper bound, exclusive or not.
        maximum: Option<(f64, bool)>,
    },
    /// `true` or `false`.
    Bool,
    /// One of some values of any type.
    Choice(Arc<Vec<Value>>),
    /// Some of some values.
    MultiChoice(Arc<Vec<Value>>),
    /// Always the same value.
    Const(Value),
    /// Always `null`.
    Null,
    /// An object.
    Object {
        /// Whether keys can be added.
        open: bool,
    },
    /// A list.
    Array {
        /// Whether items can be added, given how many there are.
        open: bool,
    },
    /// JSON, typed. With a reason when a better field could not be made.
    Json(Option<String>),
}

/// A place of the form.
#[derive(Clone, Debug)]
pub struct Field {
    /// How it is edited.
    pub kind: FieldKind,
    /// Whether `null` is allowed beside that.
    pub nullable: bool,
    /// Everything that holds there.
    pub merged: Merged,
    /// Sub-schemas that may name the values of a choice.
    naming: Vec<Node>,
}

impl Field {
    /// Decides the field for `merged`, given the value that stands there.
    pub fn new(merged: Merged, value: Option<&Value>, document: &Document) -> Self {
        let nullable = merged.types.has(Types::NULL) && merged.typed && merged.types != Types::NULL
            || merged.options.as_ref().is_some_and(|o| o.contains(&Value::Null));
        let mut kind = kind_of(&merged, value, document);
        if !shows(&kind, value) {
            let reason = "its value is of another kind than the schema says".to_owned();
            kind = FieldKind::Json(Some(reason));
        }
        let naming = match &kind {
            FieldKind::MultiChoice(_) => {
                super::merge::merge(document, &merged.items, None, &[]).nodes
            }
            FieldKind::Choice(_) => merged.nodes.clone(),
            _ => Vec::new(),
        };
        Self { kind, nullable, merged, naming }
    }

    /// Whether the place fell back to typed JSON although the schema says something about it.
    pub const fn degraded(&self) -> Option<&String> {
        match &self.kind {
            FieldKind::Json(reason) => reason.as_ref(),
            _ => None,
        }
    }

    /// Whether it is secret (`writeOnly`, `format: password`): drawn as dots.
    pub fn is_secret(&self) -> bool {
        self.merged.nodes.iter().any(|node| node.secret)
    }

    /// `title`, of the outermost sub-schema that has one.
    pub fn title(&self) -> Option<&str> {
        self.merged.first(|node| node.title.as_deref())
    }

    /// `description`
    pub fn description(&self) -> Option<&str> {
        self.merged.first(|node| node.description.as_deref())
    }

    /// `default`
    pub fn default(&self) -> Option<&Value> {
        self.merged.first(|node| node.default.as_ref())
    }

    /// A name for one of the values of a choice, when the schema gives it one.
    pub fn option_name(&self, index: usize, option: &Value) -> Option<&str> {
        let titled = self.naming.iter().find(|node| {
            let single = node.options.as_ref().filter(|o| o.len() == 1).and_then(|o| o.first());
            node.title.is_some() && node.fixed.as_ref().or(single) == Some(option)
        });
        let listed = || self.naming.iter().find_map(|node| node.option_names.get(index));
        titled.and_then(|node| node.title.as_deref()).or_else(|| listed().map(String::as_str))
    }
}

/// Whether a field of this kind can show the value without changing it.
fn shows(kind: &FieldKind, value: Option<&Value>) -> bool {
    let Some(value) = value else { return true };
    // Null stands in every field as itself: allowed or not, typing replaces it.
    if value.is_null() {
        return true;
    }
    match kind {
        FieldKind::Text { .. } => value.is_string(),
        FieldKind::Number { .. } => value.is_number(),
        FieldKind::Bool => value.is_boolean(),
        FieldKind::Object { .. } => value.is_object(),
        FieldKind::Array { .. } => value.is_array(),
        FieldKind::Null => value.is_null(),
        FieldKind::MultiChoice(options) => {
            value.as_array().is_some_and(|items| items.iter().all(|i| options.contains(i)))
        }
        FieldKind::Const(_) | FieldKind::Choice(_) | FieldKind::Json(_) => true,
    }
}

fn kind_of(merged: &Merged, value: Option<&Value>, document: &Document) -> FieldKind {
    if let Some(reason) = &merged.degraded {
        return FieldKind::Json(Some(reason.clone()));
    }
    if let Some(fixed) = &merged.fixed {
        return FieldKind::Const(fixed.clone());
    }
    if let Some(options) = &merged.options {
        return FieldKind::Choice(Arc::clone(options));
    }
    let types = merged.types.without(Types::NULL);
    let types = if merged.typed { types } else { inferred(merged) };
    match types {
        _ if merged.typed && merged.types == Types::NULL => FieldKind::Null,
        Types::STRING => text(merged),
        Types::NUMBER => number(merged),
        Types::BOOLEAN => FieldKind::Bool,
        Types::OBJECT => FieldKind::Object { open: !merged.closed || !merged.patterns.is_empty() },
        Types::ARRAY => array(merged, value, document),
        // Several types: show the one the value has, or let it be typed.
        _ => match value.map(Types::of) {
            Some(one) if merged.typed && types.has(one) => {
                let mut narrowed = merged.clone();
                narrowed.types = one;
                kind_of(&narrowed, value, document)
            }
            _ => FieldKind::Json(None),
        },
    }
}

/// The type that keywords speak of where `type` is missing.
fn inferred(merged: &Merged) -> Types {
    let any = |test: fn(&super::schema::Schema) -> bool| merged.nodes.iter().any(|n| test(n));
    if any(|n| {
        !n.properties.is_empty()
            || !n.required.is_empty()
            || n.additional.is_some()
            || !n.patterns.is_empty()
            || n.names.is_some()
    }) {
        Types::OBJECT
    } else if any(|n| !n.prefix.is_empty() || n.items.is_some() || n.contains.is_some() || n.unique)
    {
        Types::ARRAY
    } else if any(|n| n.pattern.is_some() || n.format.is_some() || n.length != (None, None)) {
        Types::STRING
    } else if any(|n| n.minimum.is_some() || n.maximum.is_some() || n.multiple_of.is_some()) {
        Types::NUMBER
    } else {
        Types::ALL
    }
}

fn text(merged: &Merged) -> FieldKind {
    let format = merged
        .first(|n| n.format.as_deref())
        .or_else(|| merged.first(|n| n.encoding.as_deref()))
        .map(str::to_owned);
    let single = format.is_some() || merged.nodes.iter().any(|n| n.pattern.is_some());
    let longest = merged.nodes.iter().filter_map(|n| n.length.1).min().unwrap_or(u64::MAX);
    FieldKind::Text { multiline: !single && longest > 120, format }
}

fn number(merged: &Merged) -> FieldKind {
    let step = merged.nodes.iter().filter_map(|n| n.multiple_of).find(|m| *m >= 1e-9);
    FieldKind::Number {
        integer: merged.integer,
        step: step.unwrap_or(1.0),
        minimum: merged.minimum(),
        maximum: merged.maximum(),
    }
}

fn array(merged: &Merged, value: Option<&Value>, document: &Document) -> FieldKind {
    let unique = merged.nodes.iter().any(|n| n.unique);
    if !merged.items.is_empty() && merged.prefix.is_empty() {
        let items = super::merge::merge(document, &merged.items, None, &[]);
        if let Some(options) = items.options.filter(|_| unique || items.fixed.is_none()) {
            let shows = value.and_then(Value::as_array).is_none_or(|chosen| {
                chosen.iter().all(|c| options.contains(c)) && no_doubles(chosen)
            });
            // Doubles are allowed where `uniqueItems` is missing, and hardly ever meant: this is
            // how several of a few are asked for (MCP, elicitation, multi-select). A list that has
            // doubles is shown as a list; as JSON any list can be made.
            if shows {
                return FieldKind::MultiChoice(options);
            }
        }
    }
    let length = value.and_then(Value::as_array).map_or(0, Vec::len) as u64;
    let most = merged.nodes.iter().filter_map(|n| n.items_range.1).min().unwrap_or(u64::MAX);
    let ends = merged.items.iter().any(|n| n.never);
    let open = length < most && (!ends || length < merged.prefix.len() as u64);
    FieldKind::Array { open }
}

fn no_doubles(items: &[Value]) -> bool {
    items.iter().enumerate().all(|(i, item)| !items[..i].contains(item))
}

/// The sub-schemas for the item at `index` of a list.
pub fn item_conj(merged: &Merged, index: usize) -> Conj {
    merged.prefix.get(index).cloned().unwrap_or_else(|| merged.items.clone())
}

/// A short name for a variant, from what tells it apart.
pub fn variant_title(document: &Document, node: &Node, discriminator: Option<&str>) -> String {
    let target = node.reference.as_deref().and_then(|r| document.resolve(r));
    if let Some(title) = node.title.as_deref().or_else(|| target.and_then(|t| t.title.as_deref())) {
        return title.to_owned();
    }
    let shape = target.unwrap_or(node);
    let tag = shape.properties.iter().find_map(|(name, property)| {
        let fits = discriminator.is_none_or(|d| d == name);
        let single = property.options.as_ref().filter(|o| o.len() == 1).map(|o| &o[0]);
        property.fixed.as_ref().or(single).filter(|_| fits)
    });
    if let Some(tag) = tag {
        return plain(tag);
    }
    if let Some(name) = node.reference.as_deref().and_then(|r| r.rsplit('/').next()) {
        return super::pointer::unescaped(name);
    }
    if let Some(fixed) = &shape.fixed {
        return plain(fixed);
    }
    if let Some(types) = shape.types {
        let word = type_words(types, shape.integer);
        let names: Vec<&str> = shape.properties.keys().take(3).map(String::as_str).collect();
        let item = shape.items.as_ref().and_then(|i| i.types);
        return match (names.is_empty(), item) {
            (false, _) => format!("{word} ({})", names.join(", ")),
            (true, Some(item)) if types == Types::ARRAY => {
                format!("{word} of {}", type_words(item, false))
            }
            _ => word,
        };
    }
    if !shape.required.is_empty() {
        return format!("with {}", shape.required.join(", "));
    }
    let names: Vec<&str> = shape.properties.keys().take(3).map(String::as_str).collect();
    if names.is_empty() { "anything".to_owned() } else { names.join(", ") }
}

/// A value as a person reads it: text without quotes.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Types in words.
pub fn type_words(types: Types, integer: bool) -> String {
    let all = [
        (Types::STRING, "text"),
        (Types::NUMBER, if integer { "whole number" } else { "number" }),
        (Types::BOOLEAN, "yes/no"),
        (Types::ARRAY, "list"),
        (Types::OBJECT, "object"),
        (Types::NULL, "null"),
    ];
    let words: Vec<&str> = all.iter().filter(|(t, _)| types.has(*t)).map(|(_, w)| *w).collect();
    words.join(" or ")
}
