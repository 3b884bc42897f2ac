//! Schemas of tools: valid, self-contained, with an object at the root, within the budgets.

use serde_json::Value;
use std::fmt::Write as _;

use crate::check::Finding;
use crate::check::rule::finding;
use crate::check::subject::{Entry, Subject, brief};
use crate::host::validate::{Limits, SchemaProblem, SchemaProblemKind, schema_problems};
use crate::mcp::Era;

/// Problems of one schema that are named; more of the same add nothing.
const MOST: usize = 5;

/// Checks the input and output schema of every tool.
pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    let mut findings = Vec::new();
    for tool in subject.tools() {
        for key in ["inputSchema", "outputSchema"] {
            if let Some(schema) = tool.raw.get(key) {
                one(subject, &tool, key, schema, &mut findings);
            }
        }
    }
    findings
}

fn one(subject: &Subject, tool: &Entry<'_>, key: &str, schema: &Value, out: &mut Vec<Finding>) {
    // Since 2026-07-28 structured content may be any JSON value.
    let free = key == "outputSchema" && subject.era == Some(Era::Modern);
    let is_object = schema.get("type").and_then(Value::as_str) == Some("object");
    if schema.is_object() && !is_object && !free {
        let message = match schema.get("type") {
            None => format!("`{key}` has no `type` at its root; it must be `object`"),
            Some(found) => {
                let found = brief(&found.to_string(), 40);
                format!("`{key}` has the type {found} at its root; it must be `object`")
            }
        };
        out.push(finding("schema/root", tool.place_of(&format!("/{key}")), message));
    }
    let problems: Vec<SchemaProblem> = schema_problems(schema, Limits::from(&subject.limits))
        .into_iter()
        .flat_map(|problem| locate(schema, problem))
        .collect();
    let more = problems.len().saturating_sub(MOST);
    for (index, problem) in problems.iter().take(MOST).enumerate() {
        let mut found = describe(tool, key, problem);
        if more > 0 && index + 1 == MOST {
            let _ = write!(found.message, " (and {more} more in this schema)");
        }
        out.push(found);
    }
}

/// A problem with a reference, once for every place that has it; others as they are.
fn locate(schema: &Value, problem: SchemaProblem) -> Vec<SchemaProblem> {
    let remote = match problem.kind {
        SchemaProblemKind::RemoteRef => true,
        SchemaProblemKind::UnresolvedRef => false,
        _ => return vec![problem],
    };
    let mut places = Vec::new();
    references(schema, &mut String::new(), 0, &mut |pointer, reference| {
        let local = reference.strip_prefix('#');
        let broken = match local {
            None => remote,
            Some(path) => !remote && path.starts_with('/') && schema.pointer(path).is_none(),
        };
        if broken {
            let message = format!("`$ref` {}: {}", brief(reference, 80), problem.message);
            places.push(SchemaProblem { kind: problem.kind, pointer: pointer.to_owned(), message });
        }
    });
    if places.is_empty() { vec![problem] } else { places }
}

fn references(value: &Value, pointer: &mut String, depth: usize, see: &mut dyn FnMut(&str, &str)) {
    let length = pointer.len();
    let mut step = |key: &str, item: &Value| {
        pointer.push('/');
        pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
        match item {
            Value::String(reference) if key == "$ref" => see(pointer, reference),
            _ if depth < 128 => references(item, pointer, depth + 1, see),
            _ => {}
        }
        pointer.truncate(length);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, item)| step(key, item)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| step(&index.to_string(), item));
        }
        _ => {}
    }
}

fn describe(tool: &Entry<'_>, key: &str, problem: &SchemaProblem) -> Finding {
    let rule = match problem.kind {
        SchemaProblemKind::RemoteRef => "schema/remote-ref",
        SchemaProblemKind::UnresolvedRef => "schema/unresolved-ref",
        SchemaProblemKind::Dialect => "schema/dialect",
        SchemaProblemKind::TooDeep | SchemaProblemKind::TooLarge | SchemaProblemKind::TooSlow => {
            "schema/too-complex"
        }
        SchemaProblemKind::NotASchema | SchemaProblemKind::Pattern | SchemaProblemKind::Invalid => {
            "schema/invalid"
        }
    };
    let place = tool.place_of(&format!("/{key}{}", problem.pointer));
    finding(rule, place, brief(&problem.message, 300))
}
