//! Schemas in words: signatures, parameters and types for lists and help, trees for details, titles
//! of alternatives. Pure; bounded in depth and size, because schemas come from servers. The texts
//! are not sanitised.

use std::sync::Arc;

use serde_json::Value;

use super::document::{Schema, SchemaDocument, SubSchema, Types};
use super::merge::{Conj, Merged};
use super::outline::{Outline, way_types, way_values};
use base::pointer::unescaped;

/// Maximum number of parameters of a signature.
const MAX_PARAMETERS: usize = 24;
/// Maximum number of alternatives of a type.
const MAX_ALTERNATIVES: usize = 4;
/// How deep the items of lists are named in a type.
const MAX_TYPE_DEPTH: usize = 2;
const MAX_TREE_DEPTH: usize = 8;
const MAX_TREE_LINES: usize = 400;

/// How types are spelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypeStyle {
    /// As in code: `"a" | "b"`, `[string]`, `integer | null`, `any`.
    Signature,
    /// For words that are typed: `a|b`, `string[]`, `integer`, `json`.
    Words,
}

/// A parameter of a schema of arguments.
#[derive(Clone, Debug)]
pub struct Parameter<'a> {
    /// Its name.
    pub name: String,
    /// Whether it is required whichever alternative is chosen.
    pub required: bool,
    /// What it may hold.
    pub outline: Outline<'a>,
}

impl Parameter<'_> {
    /// Its description.
    pub fn description(&self) -> &str {
        self.outline.description().unwrap_or_default()
    }

    /// The words it may have, when they are listed or boolean.
    pub fn choices(&self) -> Vec<String> {
        match self.outline.values() {
            Some(values) => {
                let spellings = self.outline.document().spellings();
                values.into_iter().map(|value| spellings.plain(value)).collect()
            }
            None if self.outline.types() == ["boolean"] => {
                ["true", "false"].map(str::to_owned).to_vec()
            }
            None => Vec::new(),
        }
    }
}

/// At most `max` parameters, in the order of the schema.
pub fn parameters(document: &SchemaDocument, max: usize) -> Vec<Parameter<'_>> {
    let whole = Outline::new(document);
    let all = whole.properties().into_iter().take(max).map(|(name, property)| Parameter {
        required: property.required,
        outline: whole.property(&property),
        name,
    });
    all.collect()
}

/// `(path: string, depth?: integer)`.
pub fn signature(document: &SchemaDocument) -> String {
    let all = parameters(document, MAX_PARAMETERS + 1);
    let mut parts: Vec<String> = all
        .iter()
        .take(MAX_PARAMETERS)
        .map(|parameter| {
            let optional = if parameter.required { "" } else { "?" };
            let kind = type_text(&parameter.outline, TypeStyle::Signature);
            format!("{}{optional}: {kind}", parameter.name)
        })
        .collect();
    if all.len() > MAX_PARAMETERS {
        parts.push("...".to_owned());
    }
    if all.is_empty() {
        parts.extend(other_keys(&Outline::new(document)).map(|kind| format!("...: {kind}")));
    }
    format!("({})", parts.join(", "))
}

/// The type of keys that a map does not name, if it says one.
fn other_keys(outline: &Outline<'_>) -> Option<String> {
    let described = |way: &&Merged| !way.closed && !way.additional.is_empty();
    let all = outline.ways().iter().filter(described).map(|way| way.additional.clone());
    let kind = Outline::from_alternatives(outline.document(), &all.collect::<Vec<_>>());
    (!kind.ways().is_empty()).then(|| type_text(&kind, TypeStyle::Signature))
}

/// The type of a place: `string`, `[object]`, `"a" | "b"`, `string | null`, ...
pub fn type_text(outline: &Outline<'_>, style: TypeStyle) -> String {
    joined(&type_words_of(outline, style, MAX_TYPE_DEPTH), style)
}

/// A word of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
enum TypeWord {
    /// The name of a type, or a list of one.
    Name(String),
    /// A value that is listed.
    Listed(String),
    /// `null`, as a type or a value; comes last.
    Null,
}

impl TypeWord {
    fn as_str(&self) -> &str {
        match self {
            Self::Name(text) | Self::Listed(text) => text,
            Self::Null => "null",
        }
    }
}

/// Alternatives as text; none for any.
fn joined(words: &[TypeWord], style: TypeStyle) -> String {
    let text =
        |words: &[TypeWord], or| words.iter().map(TypeWord::as_str).collect::<Vec<_>>().join(or);
    match style {
        TypeStyle::Signature if words.is_empty() => "any".to_owned(),
        TypeStyle::Signature if words.len() > MAX_ALTERNATIVES => {
            format!("{} | ...", text(&words[..MAX_ALTERNATIVES], " | "))
        }
        TypeStyle::Signature => text(words, " | "),
        TypeStyle::Words if words.is_empty() => "json".to_owned(),
        TypeStyle::Words => text(words, "|"),
    }
}

/// The alternatives of a type; empty for any.
fn type_words_of(outline: &Outline<'_>, style: TypeStyle, depth: usize) -> Vec<TypeWord> {
    let mut words: Vec<TypeWord> = Vec::new();
    for way in outline.ways() {
        let own = way_words(outline.document(), way, style, depth);
        if own.is_empty() {
            return own;
        }
        for word in own {
            if !words.contains(&word) {
                words.push(word);
            }
        }
    }
    let name = |name: &str| TypeWord::Name(name.to_owned());
    if words.contains(&name("number")) {
        words.retain(|word| *word != name("integer"));
    }
    let null = words.contains(&TypeWord::Null);
    words.retain(|word| *word != TypeWord::Null);
    // On a command line, `null` is nothing one would look for.
    if null && (style == TypeStyle::Signature || words.is_empty()) {
        words.push(TypeWord::Null);
    }
    words
}

fn way_words(
    document: &SchemaDocument,
    way: &Merged,
    style: TypeStyle,
    depth: usize,
) -> Vec<TypeWord> {
    if way.nodes.iter().any(|node| node.never) {
        return vec![TypeWord::Name("never".to_owned())];
    }
    if let Some(values) = way_values(way) {
        let word = |value: &Value| match (value, style) {
            (Value::Null, _) => TypeWord::Null,
            (Value::String(text), TypeStyle::Words) => TypeWord::Listed(text.clone()),
            (Value::String(_), TypeStyle::Signature) => TypeWord::Listed(value.to_string()),
            _ => TypeWord::Listed(document.spellings().plain(value)),
        };
        let null = way.is_nullable().then_some(TypeWord::Null);
        return values.iter().map(word).chain(null).collect();
    }
    let word = |name: &str| match name {
        "null" => TypeWord::Null,
        "array" => TypeWord::Name(list_text(document, way, style, depth)),
        _ => TypeWord::Name(name.to_owned()),
    };
    way_types(way).into_iter().map(word).collect()
}

/// `[string]`, `[string, integer]` for a tuple; `string[]`, or `array` for what has no short word.
fn list_text(document: &SchemaDocument, way: &Merged, style: TypeStyle, depth: usize) -> String {
    let items = |conj: &Conj| Outline::from_alternatives(document, std::slice::from_ref(conj));
    match style {
        TypeStyle::Words => match items(&way.items).types().as_slice() {
            [one] if way.prefix.is_empty() => format!("{one}[]"),
            _ => "array".to_owned(),
        },
        TypeStyle::Signature if depth == 0 => "[any]".to_owned(),
        TypeStyle::Signature => {
            let text = |conj: &Conj| joined(&type_words_of(&items(conj), style, depth - 1), style);
            if way.prefix.is_empty() {
                return format!("[{}]", text(&way.items));
            }
            let mut parts: Vec<String> =
                way.prefix.iter().take(MAX_ALTERNATIVES).map(text).collect();
            let ends = way.items.iter().any(|node| node.never);
            if !ends || way.prefix.len() > MAX_ALTERNATIVES {
                parts.push("...".to_owned());
            }
            format!("[{}]", parts.join(", "))
        }
    }
}

/// A line of a schema shown as a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaLine {
    /// How deep it is nested, from 1; 0 for the root, if it is not an object.
    pub depth: usize,
    /// The name of the property; empty for the root and for keys that have no name.
    pub name: String,
    /// Whether it is required.
    pub required: bool,
    /// Its type.
    pub kind: String,
    /// Limits and the like, as written.
    pub facts: Vec<(&'static str, String)>,
    /// Its description.
    pub description: Option<String>,
}

/// What is told of a place besides its type.
const FACTS: [&str; 11] = [
    "default",
    "format",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
];

/// The members of a schema as a tree, and whether lines were left out.
pub fn tree(document: &SchemaDocument) -> (Vec<SchemaLine>, bool) {
    let root = Outline::new(document);
    let mut tree = SchemaTree { lines: Vec::new(), path: Vec::new(), is_cut: false };
    let types = root.types();
    let is_object = types.is_empty() || types == ["object"];
    if !is_object {
        tree.lines.push(line(0, String::new(), false, &root));
    }
    tree.members(&root, 1);
    (tree.lines, tree.is_cut)
}

struct SchemaTree {
    lines: Vec<SchemaLine>,
    /// The sub-schemas above, to stop where a schema contains itself.
    path: Vec<*const Schema>,
    is_cut: bool,
}

impl SchemaTree {
    /// Adds the members of an object, or of the objects of a list.
    fn members(&mut self, outline: &Outline<'_>, depth: usize) {
        let items = outline.types().contains(&"array").then(|| outline.items());
        let inner = items.as_ref().unwrap_or(outline);
        let nodes = inner.ways().iter().flat_map(|way| &way.nodes).map(Arc::as_ptr);
        let nodes: Vec<*const Schema> = nodes.collect();
        if depth > MAX_TREE_DEPTH || nodes.iter().any(|node| self.path.contains(node)) {
            return;
        }
        let above = self.path.len();
        self.path.extend(nodes);
        for (name, property) in inner.properties() {
            let member = inner.property(&property);
            if self.add(line(depth, name, property.required, &member)) {
                self.members(&member, depth + 1);
            }
        }
        if let Some(kind) = other_keys(inner) {
            self.add(SchemaLine { depth, kind, ..SchemaLine::default() });
        }
        self.path.truncate(above);
    }

    fn add(&mut self, line: SchemaLine) -> bool {
        self.is_cut |= self.lines.len() >= MAX_TREE_LINES;
        if !self.is_cut {
            self.lines.push(line);
        }
        !self.is_cut
    }
}

fn line(depth: usize, name: String, required: bool, outline: &Outline<'_>) -> SchemaLine {
    let spellings = outline.document().spellings();
    let fact =
        |key: &'static str| Some((key, spellings.plain(outline.first(|node| node.value(key))?)));
    SchemaLine {
        depth,
        name,
        required,
        kind: type_text(outline, TypeStyle::Signature),
        facts: FACTS.into_iter().filter_map(fact).collect(),
        description: outline.description().map(str::to_owned),
    }
}

/// A short title for a variant, from what distinguishes it.
pub fn variant_title(
    document: &SchemaDocument,
    node: &SubSchema,
    discriminator: Option<&str>,
) -> String {
    let target = document.target(node);
    if let Some(title) = node.text("title").or_else(|| target.and_then(|t| t.text("title"))) {
        return title.to_owned();
    }
    let shape = target.unwrap_or(node);
    let tag = shape.named("properties").find_map(|(name, property)| {
        property.only().filter(|_| discriminator.is_none_or(|d| d == name))
    });
    if let Some(tag) = tag {
        return document.spellings().plain(tag);
    }
    if let Some(name) = node.reference().and_then(|r| r.rsplit('/').next()) {
        return unescaped(name);
    }
    if let Some(fixed) = shape.value("const") {
        return document.spellings().plain(fixed);
    }
    let names: Vec<&str> =
        shape.named("properties").map(|(name, _)| name.as_str()).take(3).collect();
    let word = shape.types.map(|types| type_words(types, shape.integer));
    let item = shape.items().and_then(|item| item.types).map(|item| type_words(item, false));
    match (word, item) {
        (Some(word), _) if !names.is_empty() => format!("{word} ({})", names.join(", ")),
        (Some(word), Some(item)) => format!("{word} of {item}"),
        (Some(word), None) => word,
        (None, _) if !names.is_empty() => names.join(", "),
        (None, _) if shape.has("required") => {
            format!("with {}", shape.required().collect::<Vec<_>>().join(", "))
        }
        (None, _) => "anything".to_owned(),
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
    let words: Vec<&str> =
        all.iter().filter(|(t, _)| types.contains(*t)).map(|(_, w)| *w).collect();
    words.join(" or ")
}
