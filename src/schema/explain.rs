//! Readable messages for violations, with the pointer of the offending value.

use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use jsonschema::{JsonType, JsonTypeSet, ValidationError};
use serde_json::Value;

use super::verdict::SchemaVerdict;
use base::human::count;
use base::pointer::{child_pointer, place};
use base::text::json::WrittenNumbers;
use base::text::nearest;
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
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => none_fits(error, context),
        _ => error.masked().to_string(),
    }
}

/// Reports the closest alternative: one of the right type, with the fewest errors.
fn none_fits(own: &ValidationError<'_>, context: &[Vec<ValidationError<'static>>]) -> String {
    let here = own.instance_path().as_str();
    if let Some(names) = needs_one(here, context) {
        return format!("one of {} is required", names.join(", "));
    }
    let mut expected = Expected::default();
    if expected.collect(here, context) {
        let (instance, values) = (own.instance(), &expected.values);
        return format!(
            "{}, got {}{}",
            expected.text(),
            preview(instance),
            meant(values, instance)
        );
    }
    let is_of_another_type = |e: &ValidationError<'_>| {
        e.instance_path().as_str() == here
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
    let (all, first) = (context.len(), violations(error).into_iter().next());
    let why = first.map(|first| {
        // The reader knows where the alternatives stand.
        let below = first.pointer.strip_prefix(here).unwrap_or(&first.pointer);
        let at = if below.is_empty() { String::new() } else { format!("{below}: ") };
        format!("{at}{}", first.message)
    });
    format!(
        "fits none of the {all} alternatives; closest is {}: {}",
        index + 1,
        why.unwrap_or_default()
    )
}

/// The names of members, where every alternative lacks one, and nothing else.
fn needs_one(here: &str, context: &[Vec<ValidationError<'static>>]) -> Option<Vec<String>> {
    let name = |errors: &Vec<ValidationError<'static>>| match errors.as_slice() {
        [error] if error.instance_path().as_str() == here => match error.kind() {
            Kind::Required { property } => property.as_str().map(quoted),
            _ => None,
        },
        _ => None,
    };
    let names: Option<Vec<String>> = context.iter().map(name).collect();
    names.filter(|names| names.len() > 1)
}

/// What is expected where every alternative says no more of a value than its type, or which values it
/// may be.
#[derive(Default)]
struct Expected {
    types: Option<JsonTypeSet>,
    values: Vec<Value>,
}

impl Expected {
    /// Adds the alternatives; false when one of them says something else.
    fn collect(&mut self, here: &str, context: &[Vec<ValidationError<'static>>]) -> bool {
        context.iter().all(|errors| match errors.as_slice() {
            [error] if error.instance_path().as_str() == here => match error.kind() {
                Kind::Type { kind: TypeKind::Single(one) } => {
                    let types = self.types.take().unwrap_or_else(JsonTypeSet::empty);
                    self.types = Some(types.insert(*one));
                    true
                }
                Kind::Constant { expected_value } => {
                    self.values.push(Value::clone(expected_value));
                    true
                }
                Kind::Enum { options } => {
                    self.values.extend(options.as_array().into_iter().flatten().cloned());
                    true
                }
                Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
                    self.collect(here, context)
                }
                _ => false,
            },
            _ => false,
        })
    }

    fn text(&self) -> String {
        let types = self.types.as_ref().map(|types| type_list(types.iter()));
        match (self.values.as_slice(), types) {
            ([], types) => format!("expected {}", types.unwrap_or_else(|| "nothing".to_owned())),
            (values, None) => format!("must be {}", listed(values)),
            (values, Some(types)) => format!("must be {}, or {types}", listed(values)),
        }
    }
}

/// Values as a list of what may be.
fn listed(values: &[Value]) -> String {
    let shown: Vec<String> = values.iter().take(12).map(preview).collect();
    let more = match values.len().saturating_sub(12) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("one of {}{more}", shown.join(", "))
}

fn one_of(options: &Value, instance: &Value) -> String {
    let options: &[Value] = options.as_array().map_or(&[], Vec::as_slice);
    format!("must be {}, got {}{}", listed(options), preview(instance), meant(options, instance))
}

/// The one that was meant, where a text is nearly one of the permitted values.
fn meant(options: &[Value], instance: &Value) -> String {
    let near = instance
        .as_str()
        .and_then(|text| nearest(text, options.iter().filter_map(Value::as_str), 0.8));
    near.map(|near| format!("; did you mean {}?", quoted(near))).unwrap_or_default()
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
