//! Which calls a check makes: those of the expectations and, when asked for, the saved ones. Pure.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::CheckFinding;
use crate::expect::{ExpectTarget, Expectations, NamedCall, ResultExpectation, SampleCall};
use crate::subject::brief;
use base::text::json::WrittenValue;
use deck::{SavedCall, SavedCalls, SavedTarget};
use host::split_name;
use protocol::ListKind;

/// A call with everything it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCall {
    /// How it is named in a report.
    pub label: String,
    pub target: ExpectTarget,
    pub arguments: WrittenValue,
    /// Deadline instead of the server's.
    pub timeout: Option<Duration>,
    /// Whether it skips the validation of its arguments.
    pub force: bool,
    /// What it must return.
    pub expect: ResultExpectation,
}

/// A call that was made.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    /// How it is named in a report.
    pub(crate) label: String,
    /// How long it took.
    pub(crate) took: Duration,
    /// What is wrong with its result.
    pub(crate) findings: Vec<CheckFinding>,
}

/// Calls by server, each list in the order in which they are made.
pub type PlannedCalls = BTreeMap<String, Vec<PlannedCall>>;

/// The saved calls of a project.
#[derive(Clone, Copy, Debug)]
pub struct Saved<'a> {
    /// The file, for messages.
    pub path: &'a Path,
    /// Its content.
    pub calls: &'a SavedCalls,
    /// Whether all of them are made, or only those the expectations name.
    pub all: bool,
}

/// The calls of a check over the servers in `known`.
///
/// # Errors
/// When a call cannot be made; names it and the reason.
pub fn plan(
    expectations: Option<&Expectations>,
    saved: Saved<'_>,
    known: &[String],
) -> Result<PlannedCalls, String> {
    let mut calls = PlannedCalls::new();
    let mut named: Vec<&str> = Vec::new();
    for (server, expected) in expectations.iter().flat_map(|e| &e.servers) {
        for sample in &expected.calls {
            let call = match sample.target()? {
                NamedCall::Saved(name) => {
                    named.push(name.strip_prefix('@').unwrap_or(name));
                    of_saved(sample, name, server, saved, known)?
                }
                NamedCall::Tool(name) => of_sample(sample, ListKind::Tools, name),
                NamedCall::Prompt(name) => of_sample(sample, ListKind::Prompts, name),
                NamedCall::Resource(uri) => of_sample(sample, ListKind::Resources, uri),
            };
            calls.entry(server.clone()).or_default().push(call);
        }
    }
    if saved.all {
        for (name, call) in saved.calls.calls.iter().filter(|(n, _)| !named.contains(&n.as_str())) {
            let (server, planned) =
                settle(name, call, known).map_err(|e| format!("{}: {e}", saved.path.display()))?;
            calls.entry(server).or_default().push(planned);
        }
    }
    Ok(calls)
}

fn of_sample(sample: &SampleCall, kind: ListKind, name: &str) -> PlannedCall {
    PlannedCall {
        label: brief(name, 60),
        target: ExpectTarget { kind, name: name.to_owned() },
        arguments: sample.call.written_arguments(),
        timeout: None,
        // A call that is meant to fail may have arguments that do not fit.
        force: sample.expect.is_error == Some(true),
        expect: sample.expect.clone(),
    }
}

fn of_saved(
    sample: &SampleCall,
    name: &str,
    server: &str,
    saved: Saved<'_>,
    known: &[String],
) -> Result<PlannedCall, String> {
    let fail = |error: &dyn std::fmt::Display| {
        format!("{}: calls of `{}`: {error}", saved.path.display(), brief(server, 60))
    };
    let call = saved.calls.get(name).map_err(|e| fail(&e))?;
    let (owner, mut planned) = settle(name, call, known).map_err(|e| fail(&e))?;
    if owner != server {
        return Err(fail(&format_args!("saved call `{name}` goes to server `{owner}`")));
    }
    planned.arguments = call.arguments_with(&sample.call.written_arguments());
    planned.expect = sample.expect.clone();
    planned.force |= sample.expect.is_error == Some(true);
    Ok(planned)
}

/// The server a saved call goes to, and the call.
fn settle(name: &str, call: &SavedCall, known: &[String]) -> Result<(String, PlannedCall), String> {
    let name = name.strip_prefix('@').unwrap_or(name);
    let (kind, found) = match &call.target {
        SavedTarget::Tool { tool } => (ListKind::Tools, owner(tool, known)),
        SavedTarget::Prompt { prompt } => (ListKind::Prompts, owner(prompt, known)),
        SavedTarget::Resource { resource, server } => {
            let server = server.as_ref().filter(|server| known.contains(server));
            let server = server.or_else(|| only(known));
            (ListKind::Resources, server.map(|server| (server.clone(), resource.clone())))
        }
    };
    let (server, target) = found.ok_or_else(|| {
        let name = brief(name, 60);
        let write = match &call.target {
            SavedTarget::Resource { .. } => "`\"server\": \"NAME\"` beside it",
            _ => "`server.name`",
        };
        format!("saved call `{name}` names no server of the configuration; write {write}")
    })?;
    let call = PlannedCall {
        label: brief(&format!("@{name}"), 60),
        target: ExpectTarget { kind, name: target },
        arguments: call.arguments_with(&WrittenValue::default()),
        timeout: call.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        force: call.force,
        expect: ResultExpectation::default(),
    };
    Ok((server, call))
}

/// The server that a full name begins with, and the rest of the name; a bare name belongs to the
/// only server there is.
fn owner(name: &str, known: &[String]) -> Option<(String, String)> {
    let (server, rest) = split_name(name, known.iter().map(String::as_str))
        .or_else(|| Some((only(known)?.as_str(), name)))?;
    Some((server.to_owned(), rest.to_owned()))
}

fn only(known: &[String]) -> Option<&String> {
    known.first().filter(|_| known.len() == 1)
}
#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn saved() -> SavedCalls {
        let mut all = SavedCalls::default();
        all.set("oslo", SavedCall::tool("weather.forecast", &json!({"city": "Oslo", "days": 1})));
        all.set("other", SavedCall::tool("notes.v2.list", &json!({})));
        all
    }

    fn planned(expect: &str, all: bool) -> Result<PlannedCalls, String> {
        let expectations = Expectations::parse(expect).expect("expectations");
        let calls = saved();
        let saved = Saved { path: Path::new("mcp.calls.json"), calls: &calls, all };
        plan(Some(&expectations), saved, &["weather".into(), "notes".into(), "notes.v2".into()])
    }

    #[test]
    fn saved_calls_are_made_when_they_are_named_or_all_are_wanted_each_once() {
        let none = planned("{}", false).expect("a plan");
        assert!(none.is_empty());
        let all = planned("{}", true).expect("a plan");
        let list = ExpectTarget { kind: ListKind::Tools, name: "list".into() };
        assert_eq!(all["notes.v2"][0].target, list, "the longest prefix");
        let text = r#"{"servers": {"weather": {"calls": [
            {"tool": "forecast"}, {"saved": "@oslo", "arguments": {"days": 3}, "expect": {"text": "sun"}}]}}}"#;
        let some = planned(text, true).expect("a plan");
        let labels: Vec<&str> = some["weather"].iter().map(|c| c.label.as_str()).collect();
        assert_eq!(labels, ["forecast", "@oslo"]);
        let oslo = &some["weather"][1];
        assert_eq!(oslo.arguments, json!({"city": "Oslo", "days": 3}));
        assert_eq!(oslo.expect.text.as_deref(), Some("sun"));
    }

    #[test]
    fn a_call_that_is_not_there_or_goes_elsewhere_is_refused_by_name() {
        let named = |name: &str, server: &str| {
            let text = json!({"servers": {server: {"calls": [{"saved": name}]}}}).to_string();
            planned(&text, false).expect_err("refused")
        };
        let error = named("osla", "weather");
        assert!(error.contains("mcp.calls.json") && error.contains("did you mean oslo"), "{error}");
        assert!(named("oslo", "notes").contains("goes to server `weather`"));
    }

    #[test]
    fn a_call_says_once_what_it_goes_to() {
        for call in [json!({}), json!({"tool": "a", "prompt": "b"})] {
            let text = json!({"servers": {"s": {"calls": [call]}}}).to_string();
            let error = Expectations::parse(&text).expect_err("refused");
            assert!(error.contains("exactly one of"), "{error}");
        }
    }
}
