//! Two definitions compared field by field, each difference weighed. Pure.

use serde_json::{Map, Value};
use std::fmt::Write as _;

use crate::check::Finding;
use crate::check::rule::finding;
use crate::check::rules::{hidden, instructions, urls};
use crate::check::subject::brief;

/// Findings about one entry that are listed; a rewritten schema would fill the report.
const MOST: usize = 20;

/// One field that differs.
struct Change<'a> {
    pointer: String,
    before: Option<&'a Value>,
    after: Option<&'a Value>,
}

/// Adds a finding for every field in which `after` differs from `before`.
pub(super) fn compare(place: &str, before: &Value, after: &Value, findings: &mut Vec<Finding>) {
    let mut changes = Vec::new();
    differ(before, after, &mut String::new(), &mut changes);
    let mut own: Vec<Finding> = changes.iter().flat_map(|change| weigh(place, change)).collect();
    own.sort_by(Finding::order);
    let more = own.len().saturating_sub(MOST);
    own.truncate(MOST);
    if more > 0
        && let Some(last) = own.last_mut()
    {
        let _ = write!(last.message, " (and {more} more changes)");
    }
    findings.append(&mut own);
}

fn differ<'a>(
    before: &'a Value,
    after: &'a Value,
    pointer: &mut String,
    changes: &mut Vec<Change<'a>>,
) {
    if before == after {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        let some = |value: &'a Value| (!value.is_null()).then_some(value);
        changes.push(Change { pointer: pointer.clone(), before: some(before), after: some(after) });
        return;
    };
    let length = pointer.len();
    let fresh = new.keys().filter(|key| !old.contains_key(*key));
    for key in old.keys().chain(fresh) {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) => differ(old, new, pointer, changes),
            (before, after) => changes.push(Change { pointer: pointer.clone(), before, after }),
        }
        pointer.truncate(length);
    }
}

/// What a change is, once for every reason to look at it: a rule that is allowed or lowered must
/// not hide another.
fn weigh(place: &str, change: &Change<'_>) -> Vec<Finding> {
    let at = if change.pointer.is_empty() {
        place.to_owned()
    } else {
        format!("{place}#{}", brief(&change.pointer, 160))
    };
    let told = |rule: &'static str, extra: &str| {
        finding(rule, at.clone(), format!("{}{extra}", describe(change)))
    };
    let mut found = Vec::new();
    let (old, new) = (texts(change.before), texts(change.after));
    let fresh = hidden(&new);
    let known = hidden(&old);
    if !fresh.control.is_subset(&known.control) || !fresh.invisible.is_subset(&known.invisible) {
        found.push(told("lock/hidden-characters", "; the new text hides characters"));
    }
    let known = instructions(&old);
    let fresh = instructions(&new);
    if let Some((words, why)) = fresh.iter().find(|(_, why)| !known.iter().any(|(_, k)| k == why)) {
        let extra = format!("; the new text {why}: “{}”", brief(words, 80));
        found.push(told("lock/instruction", &extra));
    }
    if let Some(url) = urls(&new).difference(&urls(&old)).next() {
        found.push(told("lock/new-url", &format!("; new address {}", brief(url, 80))));
    }
    if change.pointer.starts_with("/annotations/") && change.pointer.ends_with("Hint") {
        found.push(told("lock/hint-flipped", ""));
    } else if let Some(how) = loosened(change) {
        found.push(told("lock/schema-loosened", &format!("; {how}")));
    }
    if found.is_empty() {
        found.push(told("lock/changed", ""));
    }
    found
}

fn describe(change: &Change<'_>) -> String {
    let field = change.pointer.rsplit('/').next().filter(|f| !f.is_empty()).unwrap_or("value");
    let field = brief(&field.replace("~1", "/").replace("~0", "~"), 60);
    match (change.before, change.after) {
        (Some(Value::String(old)), Some(Value::String(new))) => {
            let (old, new) = differing_part(old, new);
            format!("`{field}` changed from “{old}” to “{new}”")
        }
        (Some(old), Some(new)) => {
            format!("`{field}` changed from {} to {}", show(old), show(new))
        }
        (None, Some(new)) => format!("`{field}` is new: {}", show(new)),
        (Some(old), None) => format!("`{field}` is gone; it was {}", show(old)),
        (None, None) => format!("`{field}` changed"),
    }
}

fn show(value: &Value) -> String {
    brief(&value.to_string(), 120)
}

/// The parts in which two texts differ, with a little of what stands around them.
fn differing_part(old: &str, new: &str) -> (String, String) {
    const AROUND: usize = 24;
    const LONGEST: usize = 160;
    let (a, b): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let tail =
        a[same..].iter().rev().zip(b[same..].iter().rev()).take_while(|(x, y)| x == y).count();
    let cut = |text: &[char]| {
        let start = same.saturating_sub(AROUND);
        let end = (text.len() - tail + AROUND).min(text.len());
        let shown: String = text[start..end.max(start)].iter().collect();
        let head = if start > 0 { "…" } else { "" };
        let foot = if end < text.len() { "…" } else { "" };
        format!("{head}{}{foot}", brief(&shown, LONGEST))
    };
    (cut(&a), cut(&b))
}

/// Every string in a value, joined; what a reader of the definition reads.
fn texts(value: Option<&Value>) -> String {
    fn collect(value: &Value, depth: usize, out: &mut String) {
        match value {
            Value::String(text) => {
                out.push_str(text);
                out.push('\n');
            }
            Value::Array(items) if depth < 128 => {
                for item in items {
                    collect(item, depth + 1, out);
                }
            }
            Value::Object(map) if depth < 128 => {
                for (key, value) in map {
                    out.push_str(key);
                    out.push('\n');
                    collect(value, depth + 1, out);
                }
            }
            _ => {}
        }
    }
    let mut out = String::new();
    if let Some(value) = value {
        collect(value, 0, &mut out);
    }
    out
}

/// Keywords whose presence narrows what a schema accepts.
const NARROWING: [&str; 22] = [
    "required",
    "enum",
    "const",
    "type",
    "pattern",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "additionalProperties",
    "propertyNames",
    "not",
    "allOf",
];

/// How a change makes an input schema accept more; `None` when it does not.
fn loosened(change: &Change<'_>) -> Option<String> {
    let within = change.pointer.strip_prefix("/inputSchema/")?;
    let mut parts = within.rsplit('/');
    let keyword = parts.next()?;
    // `properties/required` is a parameter that happens to be called so.
    if matches!(parts.next(), Some("properties" | "$defs" | "definitions" | "patternProperties")) {
        return None;
    }
    if !NARROWING.contains(&keyword) {
        return None;
    }
    match (change.before, change.after) {
        (Some(Value::Bool(true)) | None, _) if keyword == "additionalProperties" => None,
        (Some(_), None) => Some(format!("`{keyword}` no longer applies")),
        (Some(old), Some(new)) => wider(keyword, old, new),
        (None, _) => None,
    }
}

fn wider(keyword: &str, old: &Value, new: &Value) -> Option<String> {
    let list = |value: &Value| match value {
        Value::Array(items) => items.clone(),
        one => vec![one.clone()],
    };
    let missing = || list(old).into_iter().find(|item| !list(new).contains(item));
    let gained = || list(new).into_iter().find(|item| !list(old).contains(item));
    match keyword {
        "required" => missing().map(|name| format!("{} is no longer required", show(&name))),
        "enum" | "type" => gained().map(|item| format!("{} is accepted now", show(&item))),
        "minLength" | "minimum" | "exclusiveMinimum" | "minItems" | "minProperties" => {
            (new.as_f64()? < old.as_f64()?).then(|| "the lower limit fell".to_owned())
        }
        "maxLength" | "maximum" | "exclusiveMaximum" | "maxItems" | "maxProperties" => {
            (new.as_f64()? > old.as_f64()?).then(|| "the upper limit rose".to_owned())
        }
        "uniqueItems" => (new == &Value::Bool(false)).then(|| "items may repeat now".to_owned()),
        "additionalProperties" => {
            let free =
                |v: &Value| v == &Value::Bool(true) || v.as_object().is_some_and(Map::is_empty);
            let open = old == &Value::Bool(false) || free(new);
            open.then(|| "extra properties are accepted now".to_owned())
        }
        _ => None,
    }
}
