//! Whether a result is what a step expects. Pure.

use serde_json::Value;

use crate::file::{PathExpectation, StepExpectation};
use crate::paths::read_path;
use crate::value::{StepValues, resolved};
use base::Redactor;
use base::pointer::{child_pointer, place};
use base::text::json::{self, WrittenValue};
use check::expect::{ExpectTarget, ResultExpectation, is_wanted, no_pattern, value_of};
use check::subject::{brief, brief_pair};
use config::error::Error;
use host::CallOutcome;
use protocol::ListKind;

/// The expectation with its references replaced.
///
/// # Errors
/// When a step that it refers to gave no such value.
pub fn settled(expect: &StepExpectation, steps: &StepValues) -> Result<StepExpectation, String> {
    let mut out = expect.clone();
    let ResultExpectation { json, numbers, schema, text, .. } = &expect.result;
    if let Some(json) = json {
        let written = WrittenValue { value: json.clone(), numbers: numbers.clone() };
        let WrittenValue { value, numbers } = resolved(&written, steps)?;
        (out.result.json, out.result.numbers) = (Some(value), numbers);
    }
    if let Some(schema) = schema {
        out.result.schema = Some(resolved(&schema.clone().into(), steps)?.value);
    }
    if let Some(text) = text {
        let made = resolved(&Value::String(text.clone()).into(), steps)?;
        out.result.text = Some(made.as_str().map_or_else(|| made.to_string(), str::to_owned));
    }
    for (path, rule) in &mut out.paths {
        let at = child_pointer("", path);
        let written = WrittenValue { value: rule.clone(), numbers: out.numbers.below(&at) };
        let made = resolved(&written, steps)?;
        *rule = made.value;
        out.numbers.put(&at, made.numbers);
    }
    Ok(out)
}

/// What is wrong with a result; `expect` is settled. Nothing that is masked is shown.
pub fn judge_outcome(
    expect: &StepExpectation,
    outcome: &CallOutcome,
    masks: &Redactor,
) -> Vec<String> {
    let target = ExpectTarget { kind: ListKind::Tools, name: outcome.target.clone() };
    let mut result = expect.result.clone();
    if expect.may_fail {
        result.is_error = Some(outcome.is_error);
    }
    let found = result.judge(&target, &outcome.result, outcome.duration, masks);
    let mut wrong: Vec<String> = found.into_iter().map(|finding| finding.message).collect();
    let text = CallOutcome::text_of(&outcome.result);
    wrong.extend(unwanted(expect, &text, masks));
    let value = value_of(&outcome.result);
    for (path, rule) in &expect.paths {
        let numbers = expect.numbers.below(&child_pointer("", path));
        let rule = WrittenValue { value: rule.clone(), numbers };
        if let Some(why) = judge_path(path, &rule, &value, masks) {
            wrong.push(format!("{}: {why}", brief(path, 80)));
        }
    }
    wrong.extend(outcome.output_violations.iter().take(3).map(|violation| {
        format!(
            "`structuredContent` does not fit `outputSchema`: {}: {}",
            brief(&masks.redact(place(&violation.pointer)), 120),
            brief(&masks.redact(&violation.message), 200)
        )
    }));
    wrong
}

/// What is wrong with a failure of the call itself. Nothing that is masked is shown.
pub fn judge_error(expect: &StepExpectation, error: &Error, masks: &Redactor) -> Vec<String> {
    // Where a failure is expected, the server's own JSON-RPC error counts as one.
    if (expect.result.is_error == Some(true) || expect.may_fail) && error.rpc.is_some() {
        let text = expect.result.judge_error_text(&error.message, masks);
        return text.into_iter().chain(unwanted(expect, &error.message, masks)).collect();
    }
    let mut wrong = vec![format!("the call failed: {}", brief(&masks.redact(&error.message), 300))];
    wrong.extend(error.violations.iter().take(3).map(|violation| {
        let message = masks.redact(&violation.message);
        format!("{}: {}", brief(place(&violation.pointer), 120), brief(&message, 200))
    }));
    let near = error.candidates.iter().take(3).map(|name| brief(name, 80)).collect::<Vec<_>>();
    if !near.is_empty() {
        wrong.push(format!("did you mean {}?", near.join(" or ")));
    }
    wrong.extend(error.help.as_deref().map(|help| brief(help, 300)));
    wrong
}

/// Why a text is one that must not come.
fn unwanted(expect: &StepExpectation, text: &str, masks: &Redactor) -> Option<String> {
    let pattern = expect.not_text.as_deref()?;
    match regex::Regex::new(pattern) {
        Err(error) => Some(format!("expect.notText: {}", no_pattern(&error))),
        Ok(regex) if regex.is_match(text) => {
            let (pattern, text) = (masks.redact(pattern), masks.redact(text));
            Some(format!("the text matches /{}/: {}", brief(&pattern, 100), brief(&text, 200)))
        }
        Ok(_) => None,
    }
}

/// Why the matches of a path are not what a rule says.
fn judge_path(
    path: &str,
    written: &WrittenValue,
    value: &WrittenValue,
    masks: &Redactor,
) -> Option<String> {
    let parsed = match read_path(path) {
        Ok(parsed) => parsed,
        Err(error) => return Some(error),
    };
    let rule = match PathExpectation::parse(written) {
        Ok(rule) => rule,
        Err(error) => return Some(error),
    };
    let equals = written.numbers.below(if written.is_object() { "/equals" } else { "" });
    let equals = rule.equals.clone().map(|value| WrittenValue { value, numbers: equals });
    let found = parsed.query_located(value).all();
    let many = found.len();
    if let Some(exists) = rule.exists.filter(|exists| *exists == found.is_empty()) {
        return Some(if exists {
            "matches nothing".to_owned()
        } else {
            "must not exist".to_owned()
        });
    }
    if let Some(count) = rule.count.filter(|count| *count != many) {
        return Some(format!("{many} matches, expected {count}"));
    }
    if let Some(least) = rule.min_count.filter(|least| many < *least) {
        return Some(format!("{many} matches, expected at least {least}"));
    }
    if let Some(most) = rule.max_count.filter(|most| many > *most) {
        return Some(format!("{many} matches, expected at most {most}"));
    }
    let needs_one = rule.equals.is_some() || rule.matches.is_some() || rule.min.is_some();
    if found.is_empty() && (needs_one || rule.max.is_some() || rule.kind.is_some()) {
        return Some("matches nothing".to_owned());
    }
    found.iter().find_map(|node| {
        let numbers = value.numbers.below(&node.location().to_json_pointer());
        if let Some(equals) = &equals
            && !is_wanted(equals, node.node(), &numbers)
        {
            let is = json::compact(&numbers.within(node.node()));
            let (is, expected) = (masks.redact(&is), equals.to_string());
            let (is, expected) = brief_pair(&is, &masks.redact(&expected), 80);
            return Some(format!("is {is}, expected {expected}"));
        }
        judge_node(&rule, node.node(), masks)
    })
}

fn judge_node(rule: &PathExpectation, node: &Value, masks: &Redactor) -> Option<String> {
    let shown = || brief(&masks.redact(&node.to_string()), 80);
    if let Some(pattern) = &rule.matches {
        let text = node.as_str().map_or_else(|| node.to_string(), str::to_owned);
        if !regex::Regex::new(pattern).is_ok_and(|regex| regex.is_match(&text)) {
            return Some(format!(
                "is {}, which does not match /{}/",
                shown(),
                brief(&masks.redact(pattern), 80)
            ));
        }
    }
    if let Some(kind) = rule.kind.as_deref().filter(|kind| !has_type(node, kind)) {
        return Some(format!("is {}, expected a value of type {kind}", shown()));
    }
    let number = node.as_f64();
    let is_out = |bound: Option<f64>, is_out: fn(f64, f64) -> bool| {
        bound.is_some_and(|bound| number.is_none_or(|number| is_out(number, bound)))
    };
    if is_out(rule.min, |number, bound| number < bound) {
        return Some(format!("is {}, expected at least {}", shown(), rule.min.unwrap_or_default()));
    }
    if is_out(rule.max, |number, bound| number > bound) {
        return Some(format!("is {}, expected at most {}", shown(), rule.max.unwrap_or_default()));
    }
    None
}

fn has_type(node: &Value, kind: &str) -> bool {
    match kind {
        "string" => node.is_string(),
        "integer" => node.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => node.is_number(),
        "boolean" => node.is_boolean(),
        "array" => node.is_array(),
        "object" => node.is_object(),
        _ => node.is_null(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judge(path: &str, rule: &Value, value: &Value) -> Option<String> {
        let (rule, value) = (rule.clone().into(), value.clone().into());
        judge_path(path, &rule, &value, &Redactor::default())
    }

    #[test]
    fn numbers_of_paths_are_compared_as_they_are_written() {
        let parse = |text: &str| WrittenValue::parse(text).expect("JSON");
        let value = parse(r#"{"id": 123456789012345678901, "l": [{"n": 1e400}]}"#);
        let judge = |path, rule| judge_path(path, &parse(rule), &value, &Redactor::default());
        for (path, rule) in
            [("$.id", "123456789012345678901"), ("$.l[*]", r#"{"equals": {"n": 10e399}}"#)]
        {
            assert_eq!(judge(path, rule), None, "{path}");
        }
        let other = "is 123456789012345678901, expected 123456789012345678902";
        assert_eq!(judge("$.id", "123456789012345678902").as_deref(), Some(other));
        assert!(judge("$.l[0]", r#"{"equals": {"n": 1e401}}"#).is_some());
    }

    #[test]
    fn long_texts_are_shown_from_where_they_differ() {
        let (one, other) = ("a".repeat(300) + "one", "a".repeat(300) + "two");
        let why = judge("$", &json!(other), &json!(one)).expect("it is wrong");
        assert!(why.contains("aone\"") && why.contains("atwo\""), "{why}");
        assert!(why.chars().count() < 120, "{why}");
    }

    #[test]
    fn paths_are_compared_by_each_of_their_keys() {
        let value = json!({"items": [{"n": 1, "s": "ab"}, {"n": 5, "s": "ac"}], "none": null});
        for (path, rule) in [
            ("$.items", json!({"type": "array"})),
            ("$.items[*].n", json!({"min": 1, "max": 5, "count": 2})),
            ("$.items[0].n", json!(1.0)),
            ("$.items[*].s", json!({"matches": "^a"})),
            ("$.items[?@.n > 3].s", json!("ac")),
            ("$.gone", json!({"exists": false})),
            ("$.none", json!({"equals": null})),
            ("$.items[0]", json!({"equals": {"n": 1.0, "s": "ab"}})),
        ] {
            assert_eq!(judge(path, &rule, &value), None, "{path}");
        }
        for (path, rule, words) in [
            ("$.items[*].n", json!({"max": 4}), "is 5, expected at most 4"),
            ("$.items[*].s", json!("ab"), "is \"ac\", expected \"ab\""),
            ("$.gone", json!(1), "matches nothing"),
            ("$.items[0].n", json!({"equals": null}), "is 1, expected null"),
            ("$.items[0].n", json!(null), "is 1, expected null"),
            ("$.items[*]", json!({"count": 3}), "2 matches, expected 3"),
            ("$.items", json!({"exists": false}), "must not exist"),
            ("$.items[0].s", json!({"min": 1}), "expected at least 1"),
            ("$.items[0].s", json!({"type": "number"}), "of type number"),
        ] {
            let why = judge(path, &rule, &value).expect("it is wrong");
            assert!(why.contains(words), "{path}: {why}");
        }
    }
}
