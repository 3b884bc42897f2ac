//! Tools that a model provider would refuse, or of whose schema it does not read a part.

use std::collections::BTreeMap;

use crate::CheckFinding;
use crate::rule::{capped, finding};
use crate::subject::{CheckSubject, ListedEntry};
use schema::{AdaptedSchema, ToolFormat};

/// Maximum number of findings of one tool and rule.
const MAX_TOOL_FINDINGS: usize = 5;

/// Where the longest description of a tool was seen to be refused.
const DESCRIPTION_DOCUMENT: &str = "seen in getsentry/sentry-mcp#106";

/// Something in a tool that providers do not take.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct ProviderObjection {
    /// JSON pointer within the tool.
    pointer: String,
    what: String,
    is_refused: bool,
}

/// Providers, each with the document that says so.
type Objectors = Vec<(ToolFormat, &'static str)>;

/// Checks the tools of one server for these providers.
pub(super) fn check(subject: &CheckSubject, providers: &[ToolFormat]) -> Vec<CheckFinding> {
    subject.tools().flat_map(|tool| of_tool(&tool, providers)).collect()
}

fn of_tool(tool: &ListedEntry<'_>, providers: &[ToolFormat]) -> Vec<CheckFinding> {
    let document = tool.input_schema();
    let mut found: BTreeMap<ProviderObjection, Objectors> = BTreeMap::new();
    for &provider in providers {
        if let Some(by) = provider.refuses_tool_name(tool.id()) {
            let what = "the name has characters or a length that are not taken".to_owned();
            let objection =
                ProviderObjection { pointer: "/name".to_owned(), what, is_refused: true };
            found.entry(objection).or_default().push((provider, by));
        }
        let most = provider.max_description_chars();
        let length = tool.text("description").unwrap_or_default().chars().count();
        if let Some(most) = most.filter(|most| length > *most) {
            let what = format!("the description has {length} characters, {most} are taken");
            let pointer = "/description".to_owned();
            let objection = ProviderObjection { pointer, what, is_refused: true };
            found.entry(objection).or_default().push((provider, DESCRIPTION_DOCUMENT));
        }
        for change in AdaptedSchema::new(&document, provider).changes {
            let pointer = format!("/inputSchema{}", change.pointer);
            let (what, is_refused) = (change.what, change.is_refused);
            let objection = ProviderObjection { pointer, what, is_refused };
            let objectors = found.entry(objection).or_default();
            if !objectors.iter().any(|(other, _)| *other == provider) {
                objectors.push((provider, change.document));
            }
        }
    }
    let (refused, ignored): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(objection, _)| objection.is_refused);
    let mut findings = Vec::new();
    for (rule, verb, all) in
        [("provider/refused", "refused by", refused), ("provider/ignored", "not read by", ignored)]
    {
        let all = all.into_iter().map(|(ProviderObjection { pointer, what, .. }, objectors)| {
            let by = objectors
                .iter()
                .map(|(provider, document)| format!("{} ({document})", provider.as_str()));
            let by = by.collect::<Vec<_>>().join(", ");
            finding(rule, tool.place_of(&pointer), format!("{what}; {verb} {by}"))
        });
        findings.extend(capped(all.collect(), MAX_TOOL_FINDINGS, "of this tool"));
    }
    findings
}

/// Checks the number of tools of all servers.
pub(super) fn total(subjects: &[CheckSubject], providers: &[ToolFormat]) -> Vec<CheckFinding> {
    let tools: usize = subjects.iter().map(|subject| subject.tools().count()).sum();
    let over = providers.iter().filter_map(|provider| {
        let most = provider.max_tools().filter(|most| tools > *most)?;
        let name = provider.as_str();
        let message = format!("{tools} tools are offered, {name} takes {most} in a request");
        Some(finding("provider/too-many", "", message))
    });
    over.collect()
}
