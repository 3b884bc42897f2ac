//! Calls after one another: what one tool returned, handed to the next.

use std::sync::Arc;

use serde_json::Value;

use super::{FuzzCall, FuzzFinding, Fuzzer, ToolRun};
use crate::generate::{CaseKind, FuzzCase};
use base::pointer::{child_pointer, set};
use check::expect::value_of;
use check::subject::brief;
use protocol::Tool;

/// Most sequences of one server.
const MAX_SEQUENCES: usize = 400;

impl Fuzzer<'_> {
    /// Calls tools one after the other with what earlier ones returned.
    pub(super) async fn sequences(&mut self, tools: &[Arc<Tool>], runs: &[ToolRun]) {
        let mut chains = 0;
        for maker in runs {
            if self.probe.restart().await.is_err() {
                return;
            }
            let made = self.probe.call(&maker.name, &maker.smallest.clone()).await;
            let Some(made) = made.into_outcome() else { continue };
            let made = value_of(&made.result).value;
            let given = leaves(&made);
            let links: Vec<(&ToolRun, String, Value)> =
                runs.iter().flat_map(|taker| links(tools, maker, taker, &given)).collect();
            for (index, (_, place, value)) in links.iter().enumerate() {
                let others = links.iter().enumerate().filter(|(other, _)| *other != index);
                let mut orders: Vec<Vec<usize>> = vec![vec![index], vec![index, index]];
                orders.extend(others.map(|(other, _)| vec![index, other, index]).take(6));
                for order in orders {
                    if chains >= MAX_SEQUENCES {
                        return;
                    }
                    chains += 1;
                    let mut calls = vec![(maker, maker.smallest.clone())];
                    for step in order {
                        let Some((run, place, value)) = links.get(step) else { continue };
                        let mut arguments = Some(run.smallest.clone());
                        set(&mut arguments, place, value.clone());
                        calls.extend(arguments.map(|arguments| (*run, arguments)));
                    }
                    self.sequence((place, value), &calls).await;
                }
            }
        }
    }

    async fn sequence(&mut self, (place, value): (&str, &Value), calls: &[(&ToolRun, Value)]) {
        // A fresh server, so that the ids are those of the first call.
        if self.probe.restart().await.is_err() {
            return;
        }
        for (at, (run, arguments)) in calls.iter().enumerate() {
            let end = self.probe.call(&run.name, arguments).await;
            let case = FuzzCase {
                arguments: arguments.clone(),
                place: place.to_owned(),
                what: format!(
                    "the value that an earlier call returned, {}",
                    brief(&value.to_string(), 60)
                ),
                kind: CaseKind::Hostile,
            };
            let Some(verdict) = self.verdict(run, &case, &end) else { continue };
            let known = self
                .report
                .findings
                .iter()
                .any(|finding| finding.rule == verdict.rule && finding.tool == run.full);
            if !known {
                let calls: Vec<FuzzCall> = calls[..=at]
                    .iter()
                    .map(|(run, arguments)| FuzzCall {
                        tool: run.full.clone(),
                        arguments: arguments.clone(),
                    })
                    .collect();
                let first = calls.first().map_or("", |call| call.tool.as_str());
                let what = format!("in a sequence after {first}");
                self.report.findings.push(FuzzFinding {
                    rule: verdict.rule,
                    severity: verdict.severity,
                    server: self.server.to_string(),
                    tool: run.full.clone(),
                    place: case.place,
                    what,
                    message: verdict.message,
                    calls,
                    count: 1,
                });
            }
            return;
        }
    }
}

/// The values of a result that another tool may take, by the normalised name of their key.
fn leaves(value: &Value) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    collect_leaves(value, "", &mut all, 0);
    all
}

fn collect_leaves(value: &Value, key: &str, all: &mut Vec<(String, Value)>, depth: usize) {
    if depth > 4 || all.len() > 64 {
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                collect_leaves(value, key, all, depth + 1);
            }
        }
        Value::Array(items) => {
            if let Some(first) = items.first() {
                collect_leaves(first, key.trim_end_matches('s'), all, depth + 1);
            }
        }
        Value::Null | Value::Bool(_) => {}
        leaf => {
            if !key.is_empty() {
                all.push((plain(key), leaf.clone()));
            }
        }
    }
}

/// A name without case and separators.
fn plain(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

/// The parameters of a tool that take a value which another returned: the tool, the place, the value.
fn links<'r>(
    tools: &[Arc<Tool>],
    maker: &ToolRun,
    taker: &'r ToolRun,
    given: &[(String, Value)],
) -> Vec<(&'r ToolRun, String, Value)> {
    let Some(tool) = tools.iter().find(|tool| *tool.name == *taker.name) else { return Vec::new() };
    let document = schema::SchemaDocument::new(&tool.input_schema);
    let parameters = schema::parameters(&document, 64);
    let mut all = Vec::new();
    for parameter in parameters {
        let name = plain(&parameter.name);
        let types = parameter.outline.types();
        let fits = |value: &Value| {
            let own = match value {
                Value::String(_) => "string",
                Value::Number(_) => "number",
                _ => return false,
            };
            types.is_empty()
                || types.contains(&own)
                || (own == "number" && types.contains(&"integer") && !value.is_f64())
        };
        let is_id = |key: &str| key == "id" && name.ends_with("id");
        let found = given.iter().find(|(key, value)| {
            fits(value)
                && (*key == name || is_id(key) || (key.ends_with(&name) && name.ends_with("id")))
        });
        if let Some((_, value)) = found
            && (maker.name != taker.name || name.ends_with("id"))
        {
            let place = child_pointer("", &parameter.name);
            all.push((taker, place, value.clone()));
        }
    }
    all
}
