//! A first `mcp.tests.json` from what servers offer, from recordings and from saved calls. Makes no
//! call.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::file::{StepExpectation, TestFile, TestStep, TestSuite};
use crate::fuzz::{FuzzCall, FuzzFinding};
use crate::generate::CaseMaker;
use crate::value::{literal_map, literal_text};
use base::ServerName;
use base::secret::MASK;
use base::text::json::WrittenValue;
use check::expect::{ExpectedCall, ResultExpectation};
use check::subject::brief;
use deck::{SavedCall, SavedCalls, SavedTarget};
use host::{HostView, canonical_name, split_name};
use protocol::{ListKind, Tool};

/// Why a step for a tool that may change something is not made at first.
const NOT_READ_ONLY: &str = "not annotated read-only: remove `skip` when it may be called";

/// Why a recorded call is not made at first.
const MASKED: &str = "the recording has masked values: write them, and remove `skip`";
/// Why a step whose name or URI may not be kept is not made at first.
const MASKED_NAME: &str = "its name has masked values: write them, and remove `skip`";
/// Most steps of a server that are made from recordings.
const MAX_RECORDED_STEPS: usize = 200;

/// A call, read or prompt of a recording.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// The server.
    pub server: String,
    /// The method.
    pub method: String,
    /// Its parameters.
    pub params: WrittenValue,
    /// Whether it failed.
    pub is_error: bool,
}

impl RecordedCall {
    /// The step that makes it again; `None` for any other method.
    fn step(&self, server: &ServerName, tools: &[Arc<Tool>]) -> Option<TestStep> {
        let name = self.params["name"].as_str();
        let arguments = self.params["arguments"].as_object().cloned().unwrap_or_default();
        let is_masked = arguments.values().any(holds_mask);
        let arguments = literal_map(&arguments);
        let is_error = self.is_error.then_some(true);
        let mut step = TestStep {
            name: Some("recorded".to_owned()),
            call: ExpectedCall {
                arguments,
                numbers: self.params.numbers.below("/arguments"),
                ..ExpectedCall::default()
            },
            skip: is_masked.then(|| MASKED.to_owned()),
            expect: ending(is_error),
            ..TestStep::default()
        };
        match self.method.as_str() {
            "tools/call" => {
                let tool = tools.iter().find(|tool| Some(&*tool.name) == name)?;
                // What was refused once must be sent, to be refused again.
                step.force = self.is_error;
                step.call.tool = Some(canonical_name(server, &tool.name));
                if tool.hints.read_only != Some(true) {
                    step.skip.get_or_insert(NOT_READ_ONLY.to_owned());
                }
            }
            "prompts/get" => step.call.prompt = Some(canonical_name(server, name?)),
            "resources/read" => {
                step.call.resource = Some(literal_text(self.params["uri"].as_str()?));
                step.server = Some(server.to_string());
            }
            _ => return None,
        }
        Some(step)
    }
}

/// Whether a value of a recording was masked, wholly or in part.
fn holds_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => is_masked(text),
        Value::Array(list) => list.iter().any(holds_mask),
        Value::Object(map) => map.values().any(holds_mask),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Whether a mask stands in a text. A pair around words is emphasis of Markdown: `***now***`.
fn is_masked(text: &str) -> bool {
    let mut is_open = false;
    for (at, _) in text.match_indices(MASK) {
        let before = text[..at].chars().next_back();
        let after = text[at + MASK.len()..].chars().next();
        // The middle of a row of stars.
        if before == Some('*') || after == Some('*') {
            continue;
        }
        let opens = before.is_none_or(|c| c.is_whitespace() || "([\"'_>".contains(c))
            && after.is_some_and(char::is_alphanumeric);
        let closes = before.is_some_and(|c| c.is_alphanumeric() || ".,:!?)".contains(c))
            && after.is_none_or(|c| !c.is_alphanumeric() && !"=&/".contains(c));
        if !(if is_open { closes } else { opens }) {
            return true;
        }
        is_open = !is_open;
    }
    is_open
}

/// A file with one suite for each server: a step for each recorded call, saved call, tool, prompt and
/// resource, each once. Steps that may change something are written with `skip`.
pub fn first_file(view: &HostView, saved: &SavedCalls, recorded: &[RecordedCall]) -> TestFile {
    let mut file = TestFile::default();
    for (name, server) in &view.servers {
        let mut suite = TestSuite::default();
        let mut called: HashSet<String> = HashSet::new();
        for call in recorded.iter().filter(|call| call.server == name.as_str()) {
            let Some(step) = call.step(name, &server.capabilities.tools) else { continue };
            if suite.steps.len() < MAX_RECORDED_STEPS && !suite.steps.contains(&step) {
                let named = [&call.params["name"], &call.params["uri"]];
                called.extend(named.into_iter().filter_map(Value::as_str).map(str::to_owned));
                suite.steps.push(step);
            }
        }
        for (call, tool) in saved.calls.iter().filter_map(|(name, call)| {
            let SavedTarget::Tool { tool } = &call.target else { return None };
            Some((name, tool))
        }) {
            let Some((_, own)) = split_name(tool, [name.as_str()]) else { continue };
            called.insert(own.to_owned());
            suite.steps.push(TestStep {
                name: Some(format!("saved call {call}")),
                call: ExpectedCall { saved: Some(call.clone()), ..ExpectedCall::default() },
                ..TestStep::default()
            });
        }
        let lists = &server.capabilities;
        for tool in lists.tools.iter().filter(|tool| !called.contains(tool.name.as_ref())) {
            let made = CaseMaker::new(&tool.input_schema).smallest();
            let (kept, masked) = name_to_keep(&tool.raw, "name", &tool.name);
            let skip = match (&made, tool.hints.read_only) {
                _ if masked.is_some() => masked,
                (None, _) => {
                    Some("no arguments could be made from its schema: write some".to_owned())
                }
                (Some(_), Some(true)) => None,
                (Some(_), _) => Some(NOT_READ_ONLY.to_owned()),
            };
            // A server may refuse a path or an id that does not exist, and must only answer.
            let is_made_up = made.as_ref().is_some_and(|it| is_made_up(it, &tool.input_schema));
            // What is beyond it may be out of reach.
            let may_fail = is_made_up || tool.hints.open_world == Some(true);
            suite.steps.push(TestStep {
                call: ExpectedCall {
                    tool: Some(canonical_name(name, kept)),
                    arguments: match made {
                        Some(Value::Object(map)) => literal_map(&map),
                        _ => Map::new(),
                    },
                    ..ExpectedCall::default()
                },
                skip,
                expect: StepExpectation { may_fail, ..StepExpectation::default() },
                ..TestStep::default()
            });
        }
        for prompt in lists.prompts.iter().filter(|it| !called.contains(it.name.as_ref())) {
            let needed = prompt.arguments.iter().filter(|argument| argument.required);
            let arguments: Map<String, Value> =
                needed.map(|a| (a.name.to_string(), Value::from("a"))).collect();
            // Prompts have no schema: a server may refuse a made-up word, and must only answer.
            let may_fail = !arguments.is_empty();
            let (kept, skip) = name_to_keep(&prompt.raw, "name", &prompt.name);
            suite.steps.push(TestStep {
                call: ExpectedCall {
                    prompt: Some(canonical_name(name, kept)),
                    arguments,
                    ..ExpectedCall::default()
                },
                skip,
                expect: StepExpectation { may_fail, ..StepExpectation::default() },
                ..TestStep::default()
            });
        }
        let unread = lists.resources.iter().filter(|it| !called.contains(it.uri.as_ref()));
        for resource in unread.take(MAX_RESOURCE_STEPS) {
            let key = ListKind::Resources.id_key();
            let (kept, skip) = name_to_keep(&resource.raw, key, &resource.uri);
            suite.steps.push(TestStep {
                call: ExpectedCall {
                    resource: Some(literal_text(kept)),
                    ..ExpectedCall::default()
                },
                skip,
                server: Some(name.to_string()),
                ..TestStep::default()
            });
        }
        if !suite.steps.is_empty() {
            suite.description = Some(format!("What {} offers", brief(name.as_str(), 60)));
            file.suites.insert(name.to_string(), suite);
        }
    }
    file
}

/// The name or URI of an entry as a file may keep it, and why its step is not made where that is not
/// how it goes to the server.
fn name_to_keep<'a>(raw: &'a Value, key: &str, sent: &'a str) -> (&'a str, Option<String>) {
    match raw[key].as_str() {
        Some(shown) if shown != sent => (shown, Some(MASKED_NAME.to_owned())),
        _ => (sent, None),
    }
}

/// Whether a value of arguments stands nowhere in their schema. A list or an object that is made from
/// one fits it, and may still be nothing that the tool can work with.
fn is_made_up(made: &Value, schema: &Value) -> bool {
    let is_invented =
        |value: &Value| !matches!(value, Value::Null | Value::Bool(_)) && !is_listed(value, schema);
    made.as_object().is_some_and(|arguments| arguments.values().any(is_invented))
}

/// Whether a schema names a value as one that can be given.
fn is_listed(value: &Value, schema: &Value) -> bool {
    match schema {
        Value::Array(items) => items.iter().any(|item| is_listed(value, item)),
        Value::Object(map) => map.iter().any(|(key, item)| match key.as_str() {
            "enum" | "examples" => item.as_array().is_some_and(|all| all.contains(value)),
            "const" | "default" | "example" => item == value,
            _ => is_listed(value, item),
        }),
        _ => false,
    }
}

/// Most resources of a server that get a step.
const MAX_RESOURCE_STEPS: usize = 20;

/// An expectation of the end of a call alone.
fn ending(is_error: Option<bool>) -> StepExpectation {
    let result = ResultExpectation { is_error, ..ResultExpectation::default() };
    StepExpectation { result, ..StepExpectation::default() }
}

/// A step that makes a call again, and ends as it ended.
pub fn step_of_call(call: &SavedCall, is_error: bool) -> TestStep {
    let mut step = TestStep {
        call: ExpectedCall {
            arguments: literal_map(&call.arguments),
            numbers: call.numbers.clone(),
            ..ExpectedCall::default()
        },
        force: call.force,
        expect: ending(is_error.then_some(true)),
        ..TestStep::default()
    };
    match &call.target {
        SavedTarget::Tool { tool } => step.call.tool = Some(tool.clone()),
        SavedTarget::Prompt { prompt } => step.call.prompt = Some(prompt.clone()),
        SavedTarget::Resource { resource, server } => {
            step.call.resource = Some(literal_text(resource));
            step.server.clone_from(server);
        }
    }
    step
}

/// What must not stand in an error.
const LEAK_PATTERN: &str = "Traceback \\(most|File \"[^\"]+\", line|panicked at|goroutine \\d+ \\[|\\.(java|kt|scala|js|ts):\\d+|PRIVATE KEY|://[^/\\s:@]+:[^/\\s@]+@|(password|secret|api_?key)[=:]";

/// A step that fails as long as a finding is there: what is refused must pass, what is accepted must
/// be refused, and everything else must be answered. `None` for what a single step cannot show.
pub fn step_of_finding(finding: &FuzzFinding, call: &FuzzCall, is_last: bool) -> Option<TestStep> {
    let mut expect = StepExpectation::default();
    match finding.rule {
        "fuzz/memory" | "fuzz/claim" | "fuzz/concurrency" | "fuzz/carryover" | "fuzz/slow" => {
            return None;
        }
        "fuzz/accepted" if is_last => expect.result.is_error = Some(true),
        "fuzz/refused" | "fuzz/output" | "fuzz/state" if is_last => {}
        "fuzz/leak" if is_last => {
            expect.may_fail = true;
            expect.not_text = Some(LEAK_PATTERN.to_owned());
        }
        _ => expect.may_fail = true,
    }
    Some(TestStep {
        call: ExpectedCall {
            tool: Some(call.tool.clone()),
            arguments: call.arguments.as_object().map(literal_map).unwrap_or_default(),
            ..ExpectedCall::default()
        },
        force: true,
        expect,
        ..TestStep::default()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_masked_value_is_told_from_emphasis() {
        for masked in [
            json!("***"),
            json!("see *** in ***"),
            json!("https://h/x?a=***&b=***"),
            json!("{\"a\": \"***\", \"b\": \"***\"}"),
            json!("***now*** and ***"),
            json!([1, {"deep": "Bearer ***"}]),
        ] {
            assert!(holds_mask(&masked), "{masked}");
        }
        for plain in [
            json!("***now***"),
            json!("do it ***now, please!*** (***really***)"),
            json!("a row: ******"),
            json!({"***": [true, 3, null, "**b** *i*"]}),
        ] {
            assert!(!holds_mask(&plain), "{plain}");
        }
    }
}
