//! Texts a server sends: hidden and control characters, instructions, missing or useless
//! descriptions.

use std::sync::Arc;

use serde_json::Value;

use crate::CheckFinding;
use crate::expect::Budgets;
use crate::rule::{capped, finding};
use crate::subject::{CheckSubject, ListedEntry, brief};
use base::pointer::child_pointer;
use base::text::inspect;
use host::schema_limits;
use protocol::{Era, ListKind};
use schema::{
    Parameter, SchemaDocument, SchemaProblem, SchemaProblemKind, parameters, schema_problems,
};

/// Maximum findings per entry and per schema, so that a hostile list does not fill the report.
const MAX_ENTRY_FINDINGS: usize = 5;
/// Maximum depth to which a value is searched; the wire refuses deeper ones.
const MAX_VALUE_DEPTH: usize = 128;

/// Checks every text of one server.
pub(super) fn texts(subject: &CheckSubject, budgets: &Budgets) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    let longest = budgets.description_bytes.unwrap_or(subject.limits.description_bytes);
    for entry in subject.entries() {
        of_entry(&entry, &mut findings);
        descriptions(&entry, longest, &mut findings);
    }
    for rejected in &subject.rejected {
        of_entry(&ListedEntry { list: rejected.list, raw: rejected.raw.as_ref() }, &mut findings);
    }
    if let Some(text) = &subject.instructions {
        judge(|| "instructions".to_owned(), text, true, &mut findings);
    }
    if let Some(info) = &subject.server_info {
        walk(info, "", 0, &mut |pointer, text| {
            judge(|| format!("serverInfo#{}", brief(pointer, 80)), text, true, &mut findings);
        });
    }
    findings
}

fn of_entry(entry: &ListedEntry<'_>, findings: &mut Vec<CheckFinding>) {
    let mut own = Vec::new();
    walk(entry.raw, "", 0, &mut |pointer, text| {
        judge(|| entry.place_of(pointer), text, speaks(pointer), &mut own);
    });
    own.sort_by(CheckFinding::order);
    findings.extend(capped(own, MAX_ENTRY_FINDINGS, &format!("in {}", entry.place())));
}

/// Whether the text at this pointer is prose meant for a model or a person.
fn speaks(pointer: &str) -> bool {
    pointer.ends_with("/description")
        || pointer.ends_with("/title")
        || pointer.ends_with("/default")
}

/// Judges one text. `place` is called for a finding only: most texts have none.
fn judge(place: impl Fn() -> String, text: &str, prose: bool, findings: &mut Vec<CheckFinding>) {
    let hidden = inspect::hidden(text);
    let list = |codes: &std::collections::BTreeSet<String>| {
        let shown: Vec<&str> = codes.iter().take(6).map(String::as_str).collect();
        let more = if codes.len() > 6 { ", ..." } else { "" };
        format!("{}{more}", shown.join(", "))
    };
    if !hidden.control.is_empty() {
        let message = format!("contains control characters: {}", list(&hidden.control));
        findings.push(finding("text/control", place(), message));
    }
    if !hidden.invisible.is_empty() {
        let message = format!("contains invisible characters: {}", list(&hidden.invisible));
        findings.push(finding("text/hidden", place(), message));
    }
    if hidden.piled {
        findings.push(finding("text/hidden", place(), "stacks combining marks on one letter"));
    }
    if hidden.buried {
        findings.push(finding("text/buried", place(), "has text below many blank lines or blanks"));
    }
    if prose {
        for (words, why) in inspect::instructions(text) {
            let message = format!("{why}: “{}”", brief(&words, 100));
            findings.push(finding("text/instruction", place(), message));
        }
    }
}

/// Every string of a value, keys included, with its JSON pointer.
fn walk(value: &Value, pointer: &str, depth: usize, see: &mut dyn FnMut(&str, &str)) {
    match value {
        _ if depth > MAX_VALUE_DEPTH => {}
        Value::String(text) => see(pointer, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                walk(item, &format!("{pointer}/{index}"), depth + 1, see);
            }
        }
        Value::Object(map) => {
            for (key, item) in map {
                let at = child_pointer(pointer, key);
                see(&at, key);
                walk(item, &at, depth + 1, see);
            }
        }
        _ => {}
    }
}

fn descriptions(entry: &ListedEntry<'_>, longest: u64, findings: &mut Vec<CheckFinding>) {
    let text = entry.text("description").map(str::trim).unwrap_or_default();
    if matches!(entry.list, ListKind::Tools | ListKind::Prompts) {
        if text.is_empty() {
            let message = format!("the {} has no description", entry.list.noun());
            findings.push(finding("describe/missing", entry.place(), message));
        } else if text.split_whitespace().nth(1).is_none() && text.is_ascii() {
            let message = format!("the description is the single word “{}”", brief(text, 40));
            findings.push(finding("describe/short", entry.place_of("/description"), message));
        }
    }
    if text.len() as u64 > longest {
        let message = format!("the description has {} bytes, the budget is {longest}", text.len());
        findings.push(finding("describe/long", entry.place_of("/description"), message));
    }
    if entry.list == ListKind::Tools {
        describe_parameters(entry, findings);
    }
}

fn describe_parameters(entry: &ListedEntry<'_>, findings: &mut Vec<CheckFinding>) {
    let schema = entry.input_schema();
    let all = parameters(&schema, usize::MAX);
    let lost = schema.lost_references();
    // A constant needs no description, nor does what allows anything or nothing. A reference that
    // leads nowhere is a finding of its own.
    let is_silent = |parameter: &&Parameter<'_>| {
        let outline = &parameter.outline;
        let is_fixed = outline.values().is_some_and(|values| values.len() == 1);
        let says = outline.first(|node| node.text("description").filter(|t| !t.trim().is_empty()));
        let is_lost =
            outline.first(|node| lost.iter().find(|other| other.at == node.at).map(|_| "lost"));
        let is_object = outline.pointer().and_then(|at| schema.raw().pointer(at));
        says.or(is_lost).is_none() && !is_fixed && is_object.is_some_and(Value::is_object)
    };
    let silent: Vec<&Parameter<'_>> = all.iter().filter(is_silent).collect();
    let Some(first) = silent.first().and_then(|parameter| parameter.outline.pointer()) else {
        return;
    };
    let names = silent.iter().take(8).map(|parameter| brief(&parameter.name, 40));
    let shown = names.collect::<Vec<_>>().join(", ");
    let more = if silent.len() > 8 { ", ..." } else { "" };
    let message = match (silent.len(), all.len()) {
        (1, _) => format!("the parameter {shown} has no description"),
        (n, all) if n == all => format!("none of {n} parameters has a description: {shown}{more}"),
        (n, all) => format!("{n} of {all} parameters have no description: {shown}{more}"),
    };
    let above = first.rsplit_once('/').map_or("", |(above, _)| above);
    let place = entry.place_of(&format!("/inputSchema{above}"));
    findings.push(finding("describe/parameter", place, message));
}

// Schemas of tools: valid, self-contained, with an object at the root, within the budgets.

/// Checks the input and output schema of every tool.
pub(super) fn schemas(subject: &CheckSubject) -> Vec<CheckFinding> {
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

fn one(
    subject: &CheckSubject,
    tool: &ListedEntry<'_>,
    key: &str,
    schema: &Value,
    out: &mut Vec<CheckFinding>,
) {
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
    let problems = schema_problems(schema, schema_limits(&subject.limits));
    let problems = problems.into_iter().flat_map(|problem| locate(schema, problem));
    let found = problems.map(|problem| describe(tool, key, &problem)).collect();
    out.extend(capped(found, MAX_ENTRY_FINDINGS, "in this schema"));
}

/// Repeats a problem with a reference for every place that has it; returns others as they are.
fn locate(schema: &Value, problem: SchemaProblem) -> Vec<SchemaProblem> {
    let is_remote = match problem.kind {
        SchemaProblemKind::RemoteRef => true,
        SchemaProblemKind::UnresolvedRef => false,
        _ => return vec![problem],
    };
    let document = SchemaDocument::new(&Arc::new(schema.clone()));
    let broken = document.lost_references().into_iter().filter_map(|node| {
        let reference = node.reference()?;
        let message = format!("`$ref` {}: {}", brief(reference, 80), problem.message);
        let pointer = format!("{}/$ref", node.at);
        let is_it = is_remote != reference.starts_with('#');
        is_it.then_some(SchemaProblem { kind: problem.kind, pointer, message })
    });
    let places: Vec<SchemaProblem> = broken.collect();
    if places.is_empty() { vec![problem] } else { places }
}

fn describe(tool: &ListedEntry<'_>, key: &str, problem: &SchemaProblem) -> CheckFinding {
    let rule = match problem.kind {
        SchemaProblemKind::RemoteRef => "schema/remote-ref",
        SchemaProblemKind::UnresolvedRef => "schema/unresolved-ref",
        SchemaProblemKind::Dialect => "schema/dialect",
        SchemaProblemKind::OlderDraft => "schema/older-draft",
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
