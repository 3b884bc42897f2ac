//! References to values of earlier steps: `${steps.ID.path}`. Pure.

use std::collections::HashMap;

use serde_json::{Map, Value};

use base::pointer::child_pointer;
use base::text::json::{WrittenNumbers, WrittenValue};
use base::text::nearest;

/// The values of the steps that were made so far, by their ids.
pub type StepValues = HashMap<String, WrittenValue>;

/// One reference in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReference {
    /// The step.
    pub step: String,
    /// The keys and indexes below its value.
    pub path: Vec<String>,
}

/// A text as a list of plain parts and references.
enum TextPart<'a> {
    Plain(&'a str),
    Reference(StepReference),
}

/// Splits a text. `$${` stands for `${`; any other `${...}` than one of a step is an error.
fn parts(text: &str) -> Result<Vec<TextPart<'_>>, String> {
    let (mut out, mut rest) = (Vec::new(), text);
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.push(TextPart::Plain(&rest[..at]));
            out.push(TextPart::Plain("{"));
            rest = &rest[at + 2..];
            continue;
        }
        out.push(TextPart::Plain(&rest[..at]));
        let inner = &rest[at + 2..];
        let Some(end) = inner.find('}') else {
            return Err(format!(
                "`{}` is never closed; add `}}`",
                base::text::cut(&rest[at..], 40)
            ));
        };
        out.push(TextPart::Reference(reference(&inner[..end])?));
        rest = &inner[end + 1..];
    }
    out.push(TextPart::Plain(rest));
    Ok(out)
}

/// Reads what stands between `${` and `}`.
fn reference(text: &str) -> Result<StepReference, String> {
    let wrong = || {
        format!(
            "`${{{}}}` names no step; write `${{steps.ID.key}}`, or `$${{` for the characters",
            base::text::cut(text, 60)
        )
    };
    let rest = text.strip_prefix("steps.").ok_or_else(wrong)?;
    let mut words = words(rest).ok_or_else(wrong)?.into_iter();
    let step = words.next().ok_or_else(wrong)?;
    Ok(StepReference { step, path: words.collect() })
}

/// The keys of a path: `a[0].b` is `a.0.b`, and `a['b.c']` has a key with a dot. `None` for one that
/// is not written so.
fn words(path: &str) -> Option<Vec<String>> {
    let (mut out, mut rest) = (Vec::new(), path);
    loop {
        let (word, after) = if let Some(inner) = rest.strip_prefix('[') {
            match inner.chars().next()? {
                quote @ ('\'' | '"') => inner[1..].split_once(&format!("{quote}]"))?,
                _ => inner.split_once(']').filter(|(word, _)| !word.is_empty())?,
            }
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            Some(rest.split_at(end)).filter(|(word, _)| !word.is_empty())?
        };
        out.push(word.to_owned());
        rest = match after.strip_prefix('.') {
            Some(next) => next,
            None if after.is_empty() => return Some(out),
            None if after.starts_with('[') => after,
            None => return None,
        };
    }
}

/// The references of a value, in keys and texts at any depth.
///
/// # Errors
/// The first that cannot be read.
pub fn references(value: &Value) -> Result<Vec<StepReference>, String> {
    let mut found = Vec::new();
    collect(value, &mut found)?;
    Ok(found)
}

fn collect(value: &Value, found: &mut Vec<StepReference>) -> Result<(), String> {
    match value {
        Value::String(text) => {
            found.extend(parts(text)?.into_iter().filter_map(|part| match part {
                TextPart::Reference(reference) => Some(reference),
                TextPart::Plain(_) => None,
            }));
        }
        Value::Array(items) => items.iter().try_for_each(|item| collect(item, found))?,
        Value::Object(map) => map.values().try_for_each(|item| collect(item, found))?,
        _ => {}
    }
    Ok(())
}

/// A value as a file of tests writes it to be sent as it is: without references.
fn literal(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(literal_text(text)),
        Value::Array(items) => items.iter().map(literal).collect(),
        Value::Object(map) => Value::Object(literal_map(map)),
        other => other.clone(),
    }
}

/// An object as it stands in a file of tests: `${` in its texts is no reference.
#[must_use]
pub fn literal_map(map: &Map<String, Value>) -> Map<String, Value> {
    map.iter().map(|(key, value)| (key.clone(), literal(value))).collect()
}

/// A text as it stands in a file of tests: `${` in it is no reference.
#[must_use]
pub fn literal_text(text: &str) -> String {
    text.replace("${", "$${")
}

/// A value with its references replaced. A text that is one reference becomes the value itself,
/// with its type; within other text a value is written as text, or as JSON. Numbers stay as they are
/// written, here and in the values.
///
/// # Errors
/// When a step has no value, or not at that path; names both and what is there.
pub fn resolved(given: &WrittenValue, steps: &StepValues) -> Result<WrittenValue, String> {
    let WrittenValue { mut value, mut numbers } = given.clone();
    replace_at("", &mut value, &mut numbers, steps)?;
    Ok(WrittenValue { value, numbers })
}

/// Replaces the references of the part of a value at a pointer.
fn replace_at(
    at: &str,
    part: &mut Value,
    numbers: &mut WrittenNumbers,
    steps: &StepValues,
) -> Result<(), String> {
    match part {
        Value::String(text) => {
            let made = text_of(text, steps)?;
            numbers.put(at, made.numbers);
            *part = made.value;
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                replace_at(&format!("{at}/{index}"), item, numbers, steps)?;
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                replace_at(&child_pointer(at, key), item, numbers, steps)?;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    Ok(())
}

fn text_of(text: &str, steps: &StepValues) -> Result<WrittenValue, String> {
    let parts = parts(text)?;
    let is_plain = |part: &TextPart<'_>| matches!(part, TextPart::Plain(""));
    let mut whole = parts.iter().filter(|part| !is_plain(part));
    if let (Some(TextPart::Reference(reference)), None) = (whole.next(), whole.next()) {
        return lookup(reference, steps);
    }
    let mut out = String::new();
    for part in &parts {
        match part {
            TextPart::Plain(text) => out.push_str(text),
            TextPart::Reference(reference) => {
                let found = lookup(reference, steps)?;
                match &found.value {
                    Value::String(text) => out.push_str(text),
                    _ => out.push_str(&found.to_string()),
                }
            }
        }
    }
    Ok(Value::String(out).into())
}

fn lookup(reference: &StepReference, steps: &StepValues) -> Result<WrittenValue, String> {
    let step = &reference.step;
    let whole = steps.get(step).ok_or_else(|| format!("the step `{step}` gave no value"))?;
    let (mut at, mut pointer) = (&whole.value, String::new());
    for key in &reference.path {
        let next = match at {
            Value::Object(map) => map.get(key),
            Value::Array(items) => key.parse().ok().and_then(|index: usize| items.get(index)),
            _ => None,
        };
        at = next.ok_or_else(|| {
            let has = match at {
                Value::Object(map) => {
                    let near = nearest(key, map.keys(), 0.7).cloned();
                    let keys: Vec<&str> = map.keys().take(8).map(String::as_str).collect();
                    let near = near.map(|near| format!("; did you mean `{near}`?"));
                    near.unwrap_or_else(|| format!("; it has {}", keys.join(", ")))
                }
                Value::Array(items) => format!("; it is a list of {}", items.len()),
                _ => String::from("; it has no parts"),
            };
            format!("the value of the step `{step}` has no `{key}`{has}")
        })?;
        pointer = child_pointer(&pointer, key);
    }
    Ok(WrittenValue { value: at.clone(), numbers: whole.numbers.below(&pointer) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn values(value: Value) -> StepValues {
        StepValues::from([("a".to_owned(), value.into())])
    }

    fn resolved(given: &Value, steps: &StepValues) -> Result<Value, String> {
        super::resolved(&given.clone().into(), steps).map(|made| made.value)
    }

    #[test]
    fn a_reference_keeps_its_type_and_is_text_within_text() {
        let steps = values(json!({"id": 7, "list": [{"n": "x"}]}));
        let given = json!({"id": "${steps.a.id}", "t": "n-${steps.a.list[0].n}-$${x}", "l": ["${steps.a.list}"]});
        let made = resolved(&given, &steps).expect("resolved");
        assert_eq!(made, json!({"id": 7, "t": "n-x-${x}", "l": [[{"n": "x"}]]}));
        let named = references(&given).expect("readable");
        assert_eq!(named.len(), 3);
    }

    #[test]
    fn numbers_stay_as_they_are_written() {
        let parse = |text: &str| WrittenValue::parse(text).expect("JSON");
        let steps = parse(r#"{"n": [123456789012345678901, 1e400], "i": 1.50}"#);
        let steps = StepValues::from([("a".to_owned(), steps)]);
        let given = r#"{"k":1e3,"l":["${steps.a.n}","${steps.a.n[1]}","is ${steps.a.i}"]}"#;
        let made = super::resolved(&parse(given), &steps).expect("resolved");
        let wanted = r#"{"k":1e3,"l":[[123456789012345678901,1e400],1e400,"is 1.50"]}"#;
        assert_eq!(made.to_string(), wanted);
    }

    #[test]
    fn what_is_written_literally_is_read_back_as_it_was_whatever_it_looks_like() {
        let given = json!({
            "a": ["{{7*7}}${7*7}<%= 7*7 %>", "${", "$${", "$$${x}", "$", "{}", "${steps.a.id}"],
            "b": {"${c}": "${workspaceFolder}/x", "n": 1.5},
        });
        let written = literal(&given);
        assert_eq!(references(&written), Ok(Vec::new()));
        assert_eq!(resolved(&written, &StepValues::new()), Ok(given));
    }

    #[test]
    fn a_key_with_dots_or_spaces_stands_in_brackets() {
        let steps = values(json!({"b.c": {"d e": [1], "": 2}, "f": 3}));
        for (given, value) in [
            ("${steps.a['b.c'].d e[0]}", json!(1)),
            ("${steps.a[\"b.c\"][\"d e\"][0]}", json!(1)),
            ("${steps.a[b.c]['']}", json!(2)),
            ("${steps.a[f]}", json!(3)),
        ] {
            assert_eq!(resolved(&json!(given), &steps), Ok(value), "{given}");
        }
        for given in [
            "${steps.a..b}",
            "${steps.a.}",
            "${steps.a[]}",
            "${steps.a[0}",
            "${steps.[x]y}",
            "${steps.}",
        ] {
            assert!(references(&json!(given)).is_err(), "{given}");
        }
    }

    #[test]
    fn a_path_that_leads_nowhere_says_what_is_there() {
        let steps = values(json!({"ident": 7}));
        let wrong = |text: &str| resolved(&json!(text), &steps).expect_err("refused");
        assert!(wrong("${steps.a.idnt}").contains("did you mean `ident`?"));
        assert!(wrong("${steps.b}").contains("`b` gave no value"));
        assert!(wrong("${steps.a.ident.x}").contains("has no parts"));
        assert!(references(&json!("${env.HOME}")).expect_err("refused").contains("names no step"));
        assert!(references(&json!("${steps.a")).expect_err("refused").contains("never closed"));
    }
}
