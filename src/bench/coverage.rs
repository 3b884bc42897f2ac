//! What the suites reached of what servers offer: tools, parameters, enum values, alternatives of
//! schemas, error paths, prompts, resources, templates. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use base::ServerName;
use base::pointer::child_pointer;
use check::subject::brief;
use host::{canonical_name, fit_template};
use protocol::Capabilities;
use schema::{SchemaDocument, SubSchema, same};

/// Deepest place of a schema that is looked at.
const MAX_COVERED_DEPTH: usize = 6;
/// Most names that are kept of what was not reached.
const MAX_MISSED_NAMES: usize = 12;

/// A call that a suite made, for the coverage.
#[derive(Clone, Debug)]
pub struct MadeCall {
    /// The server that answered.
    pub server: ServerName,
    /// Which kind: `tool`, `prompt` or `resource`.
    pub kind: &'static str,
    /// Tool, prompt or URI, within its server.
    pub target: String,
    /// Its arguments.
    pub arguments: Value,
    /// Whether it failed.
    pub failed: bool,
}

/// How much of something was reached.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct CoveredPart {
    /// How many were reached.
    pub reached: usize,
    /// How many there are.
    pub total: usize,
    /// Some that were not.
    pub missed: Vec<String>,
}

impl CoveredPart {
    fn count(&mut self, name: impl FnOnce() -> String, is_reached: bool) {
        self.total += 1;
        if is_reached {
            self.reached += 1;
        } else if self.missed.len() < MAX_MISSED_NAMES {
            self.missed.push(name());
        }
    }

    pub(crate) fn text(&self) -> String {
        if self.total == 0 { "-".to_owned() } else { format!("{}/{}", self.reached, self.total) }
    }
}

/// What was reached of one tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCoverage {
    /// The tool: `server.tool`.
    pub tool: String,
    /// Calls that were made.
    pub calls: usize,
    /// How many of them failed: its error paths.
    pub errors: usize,
    /// Parameters, at any depth.
    pub parameters: CoveredPart,
    /// Values of enums.
    pub values: CoveredPart,
    /// Alternatives (`oneOf`, `anyOf`).
    pub branches: CoveredPart,
}

/// What was reached of everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoverageReport {
    /// The tools.
    pub tools: Vec<ToolCoverage>,
    /// The prompts.
    pub prompts: CoveredPart,
    /// The resources that are listed.
    pub resources: CoveredPart,
    /// The resource templates.
    pub templates: CoveredPart,
}

/// What servers offer.
pub type BenchOffers = BTreeMap<ServerName, Arc<Capabilities>>;

/// Compares what was called with what is offered.
pub fn coverage(offers: &BenchOffers, calls: &[MadeCall]) -> CoverageReport {
    let mut report = CoverageReport::default();
    for (server, offered) in offers {
        let made = |kind: &'static str| {
            calls.iter().filter(move |call| call.server == *server && call.kind == kind)
        };
        for tool in &offered.tools {
            let calls: Vec<&MadeCall> =
                made("tool").filter(|call| *call.target == *tool.name).collect();
            let values: Vec<&Value> = calls.iter().map(|call| &call.arguments).collect();
            let document = SchemaDocument::new(&tool.input_schema);
            let mut one = ToolCoverage {
                tool: canonical_name(server, tool.label.as_str()),
                calls: calls.len(),
                errors: calls.iter().filter(|call| call.failed).count(),
                ..ToolCoverage::default()
            };
            cover(&document, &document.root, &values, "", &mut Vec::new(), &mut one);
            report.tools.push(one);
        }
        for prompt in &offered.prompts {
            let is_reached = made("prompt").any(|call| *call.target == *prompt.name);
            report.prompts.count(|| canonical_name(server, prompt.label.as_str()), is_reached);
        }
        for resource in &offered.resources {
            let is_reached = made("resource").any(|call| *call.target == *resource.uri);
            report.resources.count(|| resource.label.to_string(), is_reached);
        }
        for template in &offered.templates {
            let is_reached =
                made("resource").any(|call| fit_template(&template.uri, &call.target).is_some());
            report.templates.count(|| template.label.to_string(), is_reached);
        }
    }
    report
}

/// Counts what `values` reach of a schema; `path` holds the places that lead here.
fn cover(
    document: &SchemaDocument,
    node: &SubSchema,
    values: &[&Value],
    at: &str,
    path: &mut Vec<String>,
    out: &mut ToolCoverage,
) {
    if path.len() > MAX_COVERED_DEPTH || path.contains(&node.at) {
        return;
    }
    path.push(node.at.clone());
    for (name, property) in node.named("properties") {
        let at = child_pointer(at, name);
        let inner: Vec<&Value> = values.iter().filter_map(|value| value.get(name)).collect();
        out.parameters.count(|| at.clone(), !inner.is_empty());
        cover(document, property, &inner, &at, path, out);
    }
    for option in node.options.iter().flat_map(|options| options.iter()) {
        let is_reached = values.iter().any(|value| same(value, option));
        out.values.count(|| format!("{at}={option}"), is_reached);
    }
    for keyword in ["oneOf", "anyOf"] {
        for (index, variant) in node.parts(keyword).enumerate() {
            let inner: Vec<&Value> = values
                .iter()
                .copied()
                .filter(|value| schema::fits(document, variant, value))
                .collect();
            out.branches.count(|| format!("{at} {keyword} {}", index + 1), !inner.is_empty());
            cover(document, variant, &inner, at, path, out);
        }
    }
    if let Some(items) = node.items() {
        let inner: Vec<&Value> =
            values.iter().filter_map(|value| value.as_array()).flatten().collect();
        cover(document, items, &inner, &format!("{at}/*"), path, out);
    }
    for part in node.parts("allOf") {
        cover(document, part, values, at, path, out);
    }
    if let Some(target) = document.target(node) {
        cover(document, target, values, at, path, out);
    }
    path.pop();
}

/// The coverage as a table for people.
pub fn table(report: &CoverageReport) -> String {
    let mut out = String::new();
    let width = report.tools.iter().map(|tool| tool.tool.chars().count()).max().unwrap_or(4);
    let width = width.clamp(4, 48);
    let _ = writeln!(
        out,
        "{:width$}  {:>5}  {:>6}  {:>10}  {:>6}  {:>8}",
        "tool", "calls", "errors", "parameters", "values", "branches"
    );
    for tool in &report.tools {
        let _ = writeln!(
            out,
            "{:width$}  {:>5}  {:>6}  {:>10}  {:>6}  {:>8}",
            brief(&tool.tool, width),
            tool.calls,
            tool.errors,
            tool.parameters.text(),
            tool.values.text(),
            tool.branches.text(),
        );
        let parts = [&tool.parameters, &tool.values, &tool.branches];
        let missed: Vec<&str> = parts
            .iter()
            .flat_map(|part| &part.missed)
            .map(String::as_str)
            .take(MAX_MISSED_NAMES)
            .collect();
        if tool.calls > 0 && !missed.is_empty() {
            let _ = writeln!(out, "{:width$}  not reached: {}", "", brief(&missed.join(", "), 160));
        }
    }
    let called = report.tools.iter().filter(|tool| tool.calls > 0).count();
    let parts = [
        ("prompts", &report.prompts),
        ("resources", &report.resources),
        ("templates", &report.templates),
    ];
    let _ = write!(out, "tools {called}/{}", report.tools.len());
    for (name, part) in parts.iter().filter(|(_, part)| part.total > 0) {
        let _ = write!(out, ", {name} {}", part.text());
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parameters_values_and_alternatives_are_counted_at_any_depth() {
        let raw = Arc::new(json!({"type": "object", "properties": {
            "mode": {"enum": ["a", "b"]},
            "where": {"oneOf": [
                {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
                {"type": "object", "properties": {"name": {"$ref": "#/$defs/n"}}, "required": ["name"]}]},
            "list": {"type": "array", "items": {"enum": [1, 2]}}},
            "$defs": {"n": {"enum": ["x", "y"]}}}));
        let document = SchemaDocument::new(&raw);
        let calls = [json!({"mode": "a", "where": {"name": "y"}}), json!({"list": [2, 2]})];
        let values: Vec<&Value> = calls.iter().collect();
        let mut one = ToolCoverage::default();
        cover(&document, &document.root, &values, "", &mut Vec::new(), &mut one);
        assert_eq!((one.parameters.reached, one.parameters.total), (4, 5), "{one:?}");
        assert_eq!(one.parameters.missed, ["/where/id"]);
        assert_eq!((one.values.reached, one.values.total), (3, 6), "{one:?}");
        assert_eq!((one.branches.reached, one.branches.total), (1, 2));
        assert_eq!(one.branches.missed, ["/where oneOf 1"]);
    }
}
