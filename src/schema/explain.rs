//! Readable messages for violations, with the pointer of the offending value.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, JsonTypeSet, ValidationError};
use serde_json::Value;

use super::verdict::SchemaVerdict;
use base::human::count;
use base::pointer::{child_pointer, place};
use base::text::json::WrittenNumbers;
use base::{SafeText, Violation};

/// Maximum length of a value or name quoted in a message, in characters.
const MAX_QUOTE_CHARS: usize = 48;
const MAX_MESSAGE_CHARS: usize = 600;

/// Checks `value` and explains every violation.
pub(super) fn verdict(validator: &jsonschema::Validator, value: &Value) -> SchemaVerdict {
    if validator.is_valid(value) {
        return SchemaVerdict::Valid;
    }
    let mut found: Vec<Violation> = Vec::new();
    let mut left_out = 0_usize;
    for error in validator.iter_errors(value) {
        if let Some(reason) = unfinished(&error) {
            return SchemaVerdict::Unknown(reason);
        }
        for violation in violations(&error) {
            if found.len() + 1 >= SchemaVerdict::MAX_VIOLATIONS {
                left_out += 1;
            } else if !found.contains(&violation) || found.len() > 64 {
                found.push(violation);
            }
        }
    }
    if left_out > 0 {
        let message = format!("and {left_out} more violations");
        found.push(Violation { pointer: String::new(), message, keyword: "more".to_owned() });
    }
    if found.is_empty() {
        return SchemaVerdict::Valid;
    }
    SchemaVerdict::Invalid(found)
}

/// Puts the numbers of a value into the messages about them as they were written: those about one that
/// a JSON value cannot hold would otherwise name its neighbour.
pub fn quote_as_written(violations: &mut [Violation], value: &Value, numbers: &WrittenNumbers) {
    for violation in violations {
        let written = numbers.iter().find(|(place, _)| *place == violation.pointer);
        let (Some((_, written)), Some(rounded)) = (written, value.pointer(&violation.pointer))
        else {
            continue;
        };
        let quote = format!("number {}", short(written));
        violation.message = safe(&violation.message.replace(&preview(rounded), &quote));
    }
}

fn unfinished(error: &ValidationError<'_>) -> Option<String> {
    let what = match error.kind() {
        Kind::BacktrackLimitExceeded { .. } => "a pattern takes too long to match",
        Kind::RegexEngineFailure { .. } => "a pattern cannot be matched",
        _ => return None,
    };
    Some(format!("{what} at {}", place(error.instance_path().as_str())))
}

/// Converts an error of the validator, into one violation per place.
pub(super) fn violations(error: &ValidationError<'_>) -> Vec<Violation> {
    let pointer = error.instance_path().as_str().to_owned();
    let keyword = error.kind().keyword().to_owned();
    let at = |pointer: String, message: &str| Violation {
        pointer,
        message: safe(message),
        keyword: keyword.clone(),
    };
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            vec![at(child_pointer(&pointer, name), &format!("{} is required", quoted(name)))]
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unexpected
                .iter()
                .map(|name| {
                    at(child_pointer(&pointer, name), &format!("{} is not known", quoted(name)))
                })
                .collect()
        }
        _ => vec![at(pointer, &message(error))],
    }
}

fn message(error: &ValidationError<'_>) -> String {
    let got = || preview(error.instance());
    let least = |limit: u64, what: &'static str| {
        format!("must have at least {}, has {}", count(limit, what), length(error))
    };
    let most = |limit: u64, what: &'static str| {
        format!("must have at most {}, has {}", count(limit, what), length(error))
    };
    match error.kind() {
        Kind::Type { kind } => format!("expected {}, got {}", types(kind), got()),
        Kind::Enum { options } => one_of(options, error.instance()),
        Kind::Constant { expected_value } => {
            format!("must be {}, got {}", preview(expected_value), got())
        }
        Kind::Minimum { limit } => format!("must be at least {limit}, got {}", got()),
        Kind::Maximum { limit } => format!("must be at most {limit}, got {}", got()),
        Kind::ExclusiveMinimum { limit } => format!("must be more than {limit}, got {}", got()),
        Kind::ExclusiveMaximum { limit } => format!("must be less than {limit}, got {}", got()),
        Kind::MinLength { limit } => least(*limit, "character"),
        Kind::MaxLength { limit } => most(*limit, "character"),
        Kind::MinItems { limit } => least(*limit, "item"),
        Kind::MaxItems { limit } => most(*limit, "item"),
        Kind::MinProperties { limit } => least(*limit, "entry"),
        Kind::MaxProperties { limit } => most(*limit, "entry"),
        Kind::Pattern { pattern } => format!("{} does not match {}", got(), quoted(pattern)),
        Kind::Format { format } => format!("{} is not a valid {}", got(), format_name(format)),
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => none_fits(context),
        _ => error.masked().to_string(),
    }
}

/// Reports the closest alternative: one of the right type, with the fewest errors.
fn none_fits(context: &[Vec<ValidationError<'static>>]) -> String {
    let is_of_another_type = |e: &ValidationError<'_>| {
        e.instance_path().as_str().is_empty()
            && matches!(e.kind(), Kind::Type { .. } | Kind::Constant { .. })
    };
    let closest = context
        .iter()
        .enumerate()
        .filter(|(_, errors)| !errors.is_empty())
        .min_by_key(|(_, errors)| (errors.iter().any(is_of_another_type), errors.len()));
    let Some((index, error)) = closest.and_then(|(i, errors)| Some((i, errors.first()?))) else {
        return "fits none of the alternatives".to_owned();
    };
    if let Some(expected) = only_types(context) {
        return format!("expected {expected}, got {}", preview(error.instance()));
    }
    let (all, first) = (context.len(), violations(error).into_iter().next());
    let why = first.map(|first| format!("{}: {}", place(&first.pointer), first.message));
    let why = why.unwrap_or_default();
    format!("fits none of the {all} alternatives; closest is {}: {why}", index + 1)
}

/// The list of expected types, if every alternative failed only because of its type.
fn only_types(context: &[Vec<ValidationError<'static>>]) -> Option<String> {
    let mut set = JsonTypeSet::empty();
    for errors in context {
        let [error] = errors.as_slice() else { return None };
        match error.kind() {
            Kind::Type { kind: TypeKind::Single(t) }
                if error.instance_path().as_str().is_empty() =>
            {
                set = set.insert(*t);
            }
            _ => return None,
        }
    }
    Some(type_list(set.iter()))
}

fn one_of(options: &Value, instance: &Value) -> String {
    let options: &[Value] = options.as_array().map_or(&[], Vec::as_slice);
    let shown: Vec<String> = options.iter().take(12).map(preview).collect();
    let more = if options.len() > 12 {
        format!(" and {} more", options.len() - 12)
    } else {
        String::new()
    };
    format!("must be one of {}{more}, got {}", shown.join(", "), preview(instance))
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(one) => type_name(*one).to_owned(),
        TypeKind::Multiple(set) => type_list(set.iter()),
    }
}

fn type_list(types: impl Iterator<Item = JsonType>) -> String {
    let mut names: Vec<&str> = types.map(type_name).collect();
    names.sort_by_key(|name| *name == type_name(JsonType::Null));
    match names.as_slice() {
        [] => "nothing".to_owned(),
        [one] => (*one).to_owned(),
        [all @ .., last] => format!("{} or {last}", all.join(", ")),
    }
}

const fn type_name(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Array => "list",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "whole number",
        JsonType::Null => "null",
        JsonType::Number => "number",
        JsonType::Object => "object",
        JsonType::String => "text",
    }
}

fn format_name(format: &str) -> String {
    match format {
        "date-time" => "date and time such as 2026-01-31T09:30:00Z".to_owned(),
        "date" => "date such as 2026-01-31".to_owned(),
        "time" => "time such as 09:30:00Z".to_owned(),
        "email" => "e-mail address".to_owned(),
        "uri" => "absolute URI".to_owned(),
        other => short(other),
    }
}

/// A short description of a value: its type and, for scalars, the value.
pub(super) fn preview(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(n) => format!("number {}", short(&n.to_string())),
        Value::String(text) => format!("text {}", quoted(text)),
        Value::Array(items) => format!("a list of {}", count(items.len(), "item")),
        Value::Object(map) => format!("an object with {}", count(map.len(), "entry")),
    }
}

fn length(error: &ValidationError<'_>) -> usize {
    match error.instance().as_ref() {
        Value::String(text) => text.chars().count(),
        Value::Array(items) => items.len(),
        Value::Object(map) => map.len(),
        _ => 0,
    }
}

fn short(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(MAX_QUOTE_CHARS).collect();
    if chars.next().is_some() { format!("{head}…") } else { head }
}

fn quoted(text: &str) -> String {
    format!("{:?}", short(text))
}

/// Sanitizes and truncates a message: names and patterns come from servers.
pub(super) fn safe(message: &str) -> String {
    SafeText::cut(message, MAX_MESSAGE_CHARS).to_string()
}
