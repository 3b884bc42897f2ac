//! The words of a row: what stands there, what it takes, what it would be by default. Pure.

use ratatui::style::Style;
use serde_json::Value;

use super::draw::Look;
use super::field::{Field, FieldKind, plain, type_words};
use super::input::Edits;
use super::row::{Row, RowKind};
use super::schema::Types;
use super::state::FormState;
use crate::base::human::count;
use crate::base::text::SafeText;

/// What is shown in an empty editor.
pub(super) fn ghost(row: &Row, edits: Edits) -> String {
    match edits {
        Edits::NewKey => "name of a new entry".to_owned(),
        _ => row.field().map(placeholder).unwrap_or_default(),
    }
}

fn placeholder(field: &Field) -> String {
    let example = || field.merged.nodes.iter().find_map(|n| n.examples.first());
    match (field.default(), example()) {
        (Some(default), _) => cut(&format!("default {}", plain(default))),
        (None, Some(example)) => cut(&format!("e.g. {}", plain(example))),
        _ => String::new(),
    }
}

fn cut(text: &str) -> String {
    SafeText::line(&text.chars().take(80).collect::<String>()).as_str().to_owned()
}

pub(super) fn shown(
    state: &FormState,
    row: &Row,
    value: Option<&Value>,
    look: &Look,
) -> (String, Style) {
    match &row.kind {
        RowKind::Variant { titles, active, .. } => {
            let title = titles.get(*active).map(|t| t.as_str().to_owned()).unwrap_or_default();
            (format!("{title} {}", look.sign("▾", "v")), look.accent)
        }
        RowKind::Types { types, active } => {
            let word = types.get(*active).map(|t| type_words(*t, false)).unwrap_or_default();
            (format!("{word} {}", look.sign("▾", "v")), look.accent)
        }
        RowKind::Add { keyed } => {
            let what = if *keyed { "entry" } else { "item" };
            // Lists within lists end on lines that would look alike.
            let place = super::pointer::split(&row.pointer).map(|(_, name)| cut(&name));
            let place = place.filter(|name| name.parse::<usize>().is_err());
            let to = place.map_or_else(String::new, |name| format!(" to {name}"));
            (format!("+ add {what}{to}"), look.muted)
        }
        RowKind::More { hidden } => (format!("… {hidden} more, as JSON"), look.muted),
        RowKind::Field { field, .. } => {
            let draft =
                state.drafts.get(&row.pointer).map(|draft| (draft.text.clone(), look.error));
            let (text, style) = draft.unwrap_or_else(|| field_text(field, value, look));
            let has_text = value.is_some_and(|v| !v.is_null() && *v != "");
            if field.is_secret() && has_text {
                // Always as many: their number would tell the length.
                return (look.sign("••••••••", "********").to_owned(), look.muted);
            }
            (text, style)
        }
    }
}

/// A value of a choice by the name the schema gives it, or as it is.
fn named(field: &Field, options: &[Value], value: &Value) -> String {
    let at = options.iter().position(|option| option == value);
    let name = at.and_then(|index| field.option_name(index, value));
    name.map_or_else(|| plain(value), str::to_owned)
}

fn field_text(field: &Field, value: Option<&Value>, look: &Look) -> (String, Style) {
    let Some(value) = value else {
        let hint = placeholder(field);
        let text =
            if hint.is_empty() { "not set".to_owned() } else { format!("not set · {hint}") };
        return (text, look.faint);
    };
    match (&field.kind, value) {
        (_, Value::Null) => ("null".to_owned(), look.json_literal),
        (FieldKind::Choice(options), value) => (named(field, options, value), look.text),
        (FieldKind::MultiChoice(options), Value::Array(items)) if !items.is_empty() => {
            let named = |item: &Value| named(field, options, item);
            (items.iter().map(named).collect::<Vec<_>>().join(", "), look.text)
        }
        (_, Value::String(text)) if text.is_empty() => ("empty text".to_owned(), look.muted),
        (_, Value::Array(items)) => (
            if items.is_empty() {
                "empty list".to_owned()
            } else {
                count(items.len(), "item").to_string()
            },
            look.muted,
        ),
        (FieldKind::Object { .. }, Value::Object(map)) => (
            if map.is_empty() {
                "empty object".to_owned()
            } else {
                count(map.len(), "entry").to_string()
            },
            look.muted,
        ),
        (FieldKind::Bool, Value::Bool(on)) => {
            let sign = if *on { look.sign("✓ ", "[x] ") } else { look.sign("✗ ", "[ ] ") };
            (format!("{sign}{on}"), look.text)
        }
        (_, Value::String(text)) => (text.clone(), look.text),
        (_, other) => (other.to_string(), look.text),
    }
}

/// What a field takes, in words: type, limits, format, default.
pub fn hint(field: &Field) -> String {
    let mut parts: Vec<String> = Vec::new();
    match &field.kind {
        FieldKind::Text { format: Some(format), .. } => parts.push(cut(format)),
        FieldKind::Text { .. } => parts.push("text".to_owned()),
        FieldKind::Number { integer, minimum, maximum, .. } => {
            parts.push(if *integer { "whole number" } else { "number" }.to_owned());
            let bound = |word: &str, strict: &str, bound: &Option<(f64, bool)>| {
                bound.map(|(n, exclusive)| format!("{} {n}", if exclusive { strict } else { word }))
            };
            parts.extend(bound("at least", "more than", minimum));
            parts.extend(bound("at most", "less than", maximum));
            if let Some(step) = field.merged.nodes.iter().find_map(|n| n.multiple_of) {
                parts.push(format!("multiple of {step}"));
            }
        }
        FieldKind::Bool => parts.push("yes/no".to_owned()),
        FieldKind::Choice(options) => parts.push(choices("one of", field, options)),
        FieldKind::MultiChoice(options) => parts.push(choices("any of", field, options)),
        FieldKind::Const(value) => parts.push(cut(&format!("always {}", plain(value)))),
        FieldKind::Null => parts.push("null".to_owned()),
        FieldKind::Object { .. } => parts.push("object".to_owned()),
        FieldKind::Array { .. } => parts.push("list".to_owned()),
        FieldKind::Json(None) => parts.push("any JSON".to_owned()),
        FieldKind::Json(Some(reason)) => parts.push(format!("JSON: {reason}")),
    }
    parts.extend(ranges(field));
    if let Some(pattern) = field.merged.first(|n| n.pattern.as_deref()) {
        parts.push(cut(&format!("matches {pattern}")));
    }
    if field.nullable && field.merged.types != Types::NULL {
        parts.push("or null".to_owned());
    }
    if field.is_secret() {
        parts.push("secret: never written to disk".to_owned());
    }
    for note in field.merged.nodes.iter().flat_map(|n| &n.notes) {
        parts.push((*note).to_owned());
    }
    parts.join(" · ")
}

/// A few choices by name, many by their number.
fn choices(of: &str, field: &Field, options: &[Value]) -> String {
    let names: Vec<String> = options.iter().map(|option| named(field, options, option)).collect();
    match names.join(", ") {
        all if all.len() <= 60 => cut(&format!("{of} {all}")),
        _ => format!("{of} {}", options.len()),
    }
}

fn ranges(field: &Field) -> Vec<String> {
    let nodes = &field.merged.nodes;
    let range = |low: Option<u64>, high: Option<u64>, what: &'static str| match (low, high) {
        (None, None) => None,
        (Some(low), None) => Some(format!("at least {}", count(low, what))),
        (None, Some(high)) => Some(format!("at most {}", count(high, what))),
        (Some(low), Some(high)) => Some(format!("{low} to {}", count(high, what))),
    };
    let length = (
        nodes.iter().filter_map(|n| n.length.0).max(),
        nodes.iter().filter_map(|n| n.length.1).min(),
    );
    let items = (
        nodes.iter().filter_map(|n| n.items_range.0).max(),
        nodes.iter().filter_map(|n| n.items_range.1).min(),
    );
    let all = [range(length.0, length.1, "character"), range(items.0, items.1, "item")];
    all.into_iter().flatten().collect()
}
