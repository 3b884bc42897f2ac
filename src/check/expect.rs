//! Expectations (`mcp.expect.json`): what servers must offer, sample calls, severities, budgets.
//!
//! Owns the file format, its initial creation and its comparison with what was seen. Makes no
//! calls; [`ResultExpectation::judge`] compares the results that the runner passes in.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::rule::finding;
use super::subject::{CheckSubject, ListedEntry, brief, brief_pair};
use super::{CheckFinding, Severity, rule};
use base::Redactor;
use base::pointer::{child_pointer, place};
use base::text::json::{WrittenNumbers, WrittenValue, exact_form, within_range};
use base::text::nearest;
use deck::WrittenText;
use host::CallOutcome;
use protocol::{ListKind, Payload};
use schema::{Parameter, SchemaVerdict, Validator, parameters};

/// Name of the file beside the configuration.
pub const FILE: &str = "mcp.expect.json";

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "Expectations of mcpdeck --check")]
pub struct Expectations {
    /// Where editors find the schema of this file.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Levels of rules, by id (`describe/missing`) or by group (`describe`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: Levels,
    /// Limits for the size of definitions.
    #[serde(skip_serializing_if = "is_default")]
    pub budgets: Budgets,
    /// Servers that must exist, and what each must offer.
    pub servers: BTreeMap<String, ServerExpectation>,
}

/// What one server must offer. Anything left out is not checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerExpectation {
    /// Levels of rules for this server alone.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: Levels,
    /// Tools that must exist, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolExpectation>,
    /// Tools that must not exist: globs over names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forbidden: Vec<String>,
    /// Prompts that must exist, with the arguments they must have.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, PromptExpectation>,
    /// URIs of resources, or of templates, that must be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Calls to make, and what they must return.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<SampleCall>,
}

/// The parameters one tool must have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolExpectation {
    /// Parameters that must exist, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, ParameterExpectation>,
    /// Whether a parameter that is not listed here is a finding.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exact: bool,
}

/// What one parameter must be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ParameterExpectation {
    /// Its JSON type, or several.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<OneOrMany>,
    /// Whether it is required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub required: Option<bool>,
}

/// A word or a list of words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl OneOrMany {
    /// The types of a parameter.
    fn from_parameter(parameter: &Parameter<'_>) -> Option<Self> {
        match parameter.outline.types().as_slice() {
            [] => None,
            [one] => Some(Self::One((*one).to_owned())),
            many => Some(Self::Many(many.iter().map(|name| (*name).to_owned()).collect())),
        }
    }

    /// The words in sorted order, as `array or string`.
    fn words(&self) -> String {
        let mut all: Vec<&str> = match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many.iter().map(String::as_str).collect(),
        };
        all.sort_unstable();
        all.join(" or ")
    }
}

/// The arguments one prompt must have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptExpectation {
    /// Arguments that must exist: name, and whether it is required.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, bool>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Expectations {
    /// Reads a file; comments and trailing commas are allowed.
    ///
    /// # Errors
    /// When it cannot be read, or every problem in it, each with its line.
    pub fn load(path: &Path) -> Result<Self, String> {
        Self::from_written(&WrittenText::load(path)?)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Every problem in it, each with its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::from_written(&WrittenText::new(FILE, text))
    }

    fn from_written(written: &WrittenText) -> Result<Self, String> {
        let mut file: Self = written.decode()?;
        let numbers = written.written_value().map_err(|error| written.problem("", &error))?.numbers;
        let mut wrong = Vec::new();
        let mut report = |pointer: &[&str], message: &str| {
            let pointer = pointer.iter().fold(String::new(), |at, step| child_pointer(&at, step));
            wrong.push(written.problem(&pointer, message));
        };
        unknown_rules(&file.rules, &["rules"], &mut report);
        for (server, expected) in &mut file.servers {
            let calls = child_pointer("/servers", server) + "/calls";
            for (index, call) in expected.calls.iter_mut().enumerate() {
                call.call.numbers = numbers.below(&format!("{calls}/{index}/arguments"));
                call.expect.numbers = numbers.below(&format!("{calls}/{index}/expect/json"));
            }
        }
        for (server, expected) in &file.servers {
            unknown_rules(&expected.rules, &["servers", server, "rules"], &mut report);
            for (index, call) in expected.calls.iter().enumerate() {
                let at = ["servers", server, "calls", &index.to_string()];
                if let Err(error) = call.target() {
                    report(&at, error);
                }
                if let Err((key, error)) = call.expect.compile() {
                    report(&[&at[..], &["expect", key]].concat(), &error);
                }
            }
            for (index, pattern) in expected.forbidden.iter().enumerate() {
                if let Err(error) = globset::Glob::new(pattern) {
                    let at = ["servers", server, "forbidden", &index.to_string()];
                    report(&at, &error.to_string());
                }
            }
        }
        if wrong.is_empty() { Ok(file) } else { Err(wrong.join("\n")) }
    }

    /// An initial file that requires everything the servers offer now.
    pub fn init(subjects: &[CheckSubject]) -> Self {
        let servers = subjects
            .iter()
            .filter(|subject| subject.was_ready())
            .map(|subject| (subject.name.clone(), seen(subject)))
            .collect();
        Self { servers, ..Self::default() }
    }

    /// The findings about one server.
    pub fn compare(&self, subject: &CheckSubject) -> Vec<CheckFinding> {
        match self.servers.get(&subject.name) {
            Some(expected) if subject.was_ready() => compare(expected, subject),
            _ => Vec::new(),
        }
    }

    /// The finding with its configured severity; `None` when its rule is off. Levels of the server
    /// override levels of all servers.
    pub fn weigh(&self, server: Option<&str>, mut finding: CheckFinding) -> Option<CheckFinding> {
        let own = server.and_then(|name| self.servers.get(name));
        let level = own
            .and_then(|own| lookup(&own.rules, &finding.rule))
            .or_else(|| lookup(&self.rules, &finding.rule));
        if let Some(level) = level {
            finding.severity = level.severity()?;
        }
        Some(finding)
    }

    /// Servers that are expected but not in `known`.
    pub fn missing_servers<'a>(&self, known: impl Fn(&str) -> bool + 'a) -> Vec<CheckFinding> {
        let missing = self.servers.keys().filter(|name| !known(name));
        missing
            .map(|name| {
                let message = format!("server `{}` is expected", brief(name, 60));
                finding("expect/missing-server", "", message)
            })
            .collect()
    }
}

fn unknown_rules(levels: &Levels, at: &[&str], report: &mut dyn FnMut(&[&str], &str)) {
    for id in levels.keys() {
        let group = rule::all().any(|r| r.id.split('/').next() == Some(id.as_str()));
        if group || id.starts_with("config/") {
            continue;
        }
        if let Err(message) = rule::parse(id) {
            report(&[at, &[id.as_str()]].concat(), &message);
        }
    }
}

fn seen(subject: &CheckSubject) -> ServerExpectation {
    let resources: BTreeSet<&str> = resources(subject).filter(|uri| !uri.is_empty()).collect();
    let prompts = subject.entries_of(ListKind::Prompts).filter(|prompt| !prompt.id().is_empty());
    ServerExpectation {
        tools: subject.tools().map(|t| (t.id().to_owned(), seen_tool(&t))).collect(),
        prompts: prompts
            .map(|prompt| {
                let arguments = prompt_arguments(prompt.raw).map(|(n, r)| (n.to_owned(), r));
                (prompt.id().to_owned(), PromptExpectation { arguments: arguments.collect() })
            })
            .collect(),
        resources: resources.into_iter().map(str::to_owned).collect(),
        ..ServerExpectation::default()
    }
}

/// URIs of resources, and those of templates.
fn resources(subject: &CheckSubject) -> impl Iterator<Item = &str> {
    let lists = [ListKind::Resources, ListKind::ResourceTemplates];
    lists.into_iter().flat_map(|list| subject.entries_of(list)).map(|entry| entry.id())
}

fn seen_tool(tool: &ListedEntry<'_>) -> ToolExpectation {
    let schema = tool.input_schema();
    let seen = parameters(&schema, usize::MAX).into_iter().map(|parameter| {
        let kind = OneOrMany::from_parameter(&parameter);
        let required = Some(parameter.required);
        (parameter.name, ParameterExpectation { kind, required })
    });
    ToolExpectation { parameters: seen.collect(), exact: false }
}

fn prompt_arguments(prompt: &Value) -> impl Iterator<Item = (&str, bool)> {
    prompt.get("arguments").and_then(Value::as_array).into_iter().flatten().filter_map(|a| {
        let required = a.get("required").and_then(Value::as_bool).unwrap_or(false);
        Some((a.get("name")?.as_str()?, required))
    })
}

fn compare(expected: &ServerExpectation, subject: &CheckSubject) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    for (name, wanted) in &expected.tools {
        if let Some(tool) = subject.tools().find(|tool| tool.id() == name) {
            compare_tool(wanted, &tool, &mut findings);
        } else {
            let have = subject.tools().map(|tool| tool.id());
            findings.push(missing("expect/missing-tool", ("tools", "tool"), name, have));
        }
    }
    for pattern in &expected.forbidden {
        let Ok(glob) = globset::Glob::new(pattern) else { continue };
        let glob = glob.compile_matcher();
        for tool in subject.tools().filter(|tool| glob.is_match(tool.id())) {
            let message = format!("the tool matches the forbidden `{pattern}`");
            findings.push(finding("expect/forbidden-tool", tool.place(), message));
        }
    }
    for (name, wanted) in &expected.prompts {
        if let Some(prompt) =
            subject.entries_of(ListKind::Prompts).find(|prompt| prompt.id() == name)
        {
            compare_prompt(wanted, &prompt, &mut findings);
        } else {
            let have = subject.entries_of(ListKind::Prompts).map(|prompt| prompt.id());
            findings.push(missing("expect/missing-prompt", ("prompts", "prompt"), name, have));
        }
    }
    let listed = |uri: &str| resources(subject).any(|listed| listed == uri);
    for uri in expected.resources.iter().filter(|uri| !listed(uri)) {
        let have = resources(subject);
        findings.push(missing("expect/missing-resource", ("resources", "resource"), uri, have));
    }
    findings
}

/// The finding about a missing entry, with the nearest existing name.
fn missing<'a>(
    rule: &'static str,
    (list, noun): (&str, &str),
    name: &str,
    have: impl Iterator<Item = &'a str>,
) -> CheckFinding {
    let near = nearest(name, have, 0.8);
    let name = brief(name, 80);
    let mut message = format!("{noun} `{name}` is expected");
    if let Some(other) = near {
        let _ = write!(message, "; there is `{}`", brief(other, 80));
    }
    finding(rule, format!("{list}/{name}"), message)
}

fn compare_tool(
    wanted: &ToolExpectation,
    tool: &ListedEntry<'_>,
    findings: &mut Vec<CheckFinding>,
) {
    let schema = tool.input_schema();
    let offered = parameters(&schema, usize::MAX);
    let find = |name: &str| offered.iter().find(|parameter| parameter.name == name);
    let mut fail = |name: &str, message: String| {
        let at = find(name).and_then(|parameter| parameter.outline.pointer());
        let at = at.map_or_else(|| child_pointer("/properties", name), str::to_owned);
        let place = tool.place_of(&format!("/inputSchema{at}"));
        findings.push(finding("expect/parameter", place, message));
    };
    for (name, expected) in &wanted.parameters {
        let Some(parameter) = find(name) else {
            fail(name, format!("parameter `{}` is expected", brief(name, 60)));
            continue;
        };
        let required = parameter.required;
        if let Some(kind) = &expected.kind {
            let is = OneOrMany::from_parameter(parameter).map(|is| is.words());
            let should = kind.words();
            if is.as_ref() != Some(&should) {
                let is = is.map_or("has no type".to_owned(), |is| format!("is {is}"));
                fail(name, format!("parameter `{}` {is}, expected {should}", brief(name, 60)));
            }
        }
        if expected.required.is_some_and(|wanted| wanted != required) {
            let (is, should) = (need(required), need(!required));
            fail(name, format!("parameter `{}` is {is}, expected {should}", brief(name, 60)));
        }
    }
    if wanted.exact {
        for Parameter { name, .. } in &offered {
            if !wanted.parameters.contains_key(name) {
                fail(name, format!("parameter `{}` is not expected", brief(name, 60)));
            }
        }
    }
}

fn compare_prompt(
    wanted: &PromptExpectation,
    prompt: &ListedEntry<'_>,
    findings: &mut Vec<CheckFinding>,
) {
    for (argument, required) in &wanted.arguments {
        let is = prompt_arguments(prompt.raw).find(|(n, _)| n == argument).map(|(_, r)| r);
        let shown = brief(argument, 60);
        let message = match is {
            None => format!("argument `{shown}` is expected"),
            Some(is) if is == *required => continue,
            Some(is) => {
                let (is, should) = (need(is), need(*required));
                format!("argument `{shown}` is {is}, expected {should}")
            }
        };
        findings.push(finding("expect/parameter", prompt.place(), message));
    }
}

const fn need(required: bool) -> &'static str {
    if required { "required" } else { "optional" }
}

// Sample calls: what to call, and whether the result is what was expected. Pure.

/// What is called, as files of tests and expectations write it: a tool, a prompt or a resource, or a
/// saved call, with its arguments.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ExpectedCall {
    /// The tool to call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub tool: Option<String>,
    /// The prompt to get.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub prompt: Option<String>,
    /// The URI to read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub resource: Option<String>,
    /// The name of a call in `mcp.calls.json`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub saved: Option<String>,
    /// The arguments; those of a saved call are replaced key by key.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
    /// Numbers of the arguments that are sent as the file writes them.
    #[serde(skip)]
    pub numbers: WrittenNumbers,
}

/// What a [`ExpectedCall`] names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedCall<'a> {
    /// A tool.
    Tool(&'a str),
    /// A prompt.
    Prompt(&'a str),
    /// A resource, by its URI.
    Resource(&'a str),
    /// A saved call.
    Saved(&'a str),
}

impl ExpectedCall {
    /// Everything that it names: one thing, if it is written well.
    pub fn named(&self) -> impl Iterator<Item = NamedCall<'_>> {
        let all = [
            self.tool.as_deref().map(NamedCall::Tool),
            self.prompt.as_deref().map(NamedCall::Prompt),
            self.resource.as_deref().map(NamedCall::Resource),
            self.saved.as_deref().map(NamedCall::Saved),
        ];
        all.into_iter().flatten()
    }

    /// The arguments, with their numbers as they are written.
    pub fn written_arguments(&self) -> WrittenValue {
        let (arguments, numbers) = (self.arguments.clone(), self.numbers.clone());
        WrittenValue { value: Value::Object(arguments), numbers }
    }
}

/// A call to make. Tools and prompts are named as their server spells them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["tool"]}, {"required": ["prompt"]}, {"required": ["resource"]}, {"required": ["saved"]},
]))]
pub struct SampleCall {
    /// What is called.
    #[serde(flatten)]
    pub call: ExpectedCall,
    /// What it must return.
    pub expect: ResultExpectation,
}

impl SampleCall {
    /// What it calls.
    ///
    /// # Errors
    /// When it names nothing, or several things.
    pub fn target(&self) -> Result<NamedCall<'_>, &'static str> {
        let mut all = self.call.named();
        match (all.next(), all.next()) {
            (Some(one), None) => Ok(one),
            _ => Err("write exactly one of `tool`, `prompt`, `resource` and `saved`"),
        }
    }
}

/// The target of a call, within its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectTarget {
    /// A tool, a prompt or a resource.
    pub kind: ListKind,
    /// Its name or URI.
    pub name: String,
}

impl ExpectTarget {
    /// Its place in reports: `tools/NAME`, safe to print.
    pub fn place(&self) -> String {
        format!("{}/{}", self.kind.key(), brief(&self.name, 80))
    }
}

/// What a result must be. Anything left out is not checked, unless it has a default.
///
/// The value of a result is its `structuredContent`, else its text decoded from JSON, else its text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ResultExpectation {
    /// Whether the tool must report that it failed [default: false].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// A value that the result must contain: every key and element given here must be there, others
    /// may be.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub json: Option<Value>,
    /// Numbers of that value that are compared as the file writes them.
    #[serde(skip)]
    pub numbers: WrittenNumbers,
    /// A JSON Schema of the value.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    #[schemars(with = "Value")]
    pub schema: Option<Value>,
    /// A regular expression that the text of the result, or of its error, must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Longest time the call may take, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration_ms: Option<u64>,
}

/// A value that is there, `null` included: what is expected to be `null` is not what is left out.
///
/// # Errors
/// Those of the reader.
pub fn present<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(reader).map(Some)
}

/// The parts of an expectation that are compiled once.
pub struct CompiledExpectation {
    text: Option<regex::Regex>,
    schema: Option<Validator>,
}

impl ResultExpectation {
    /// Compiles pattern and schema.
    ///
    /// # Errors
    /// When one of them is not valid: its key, and why.
    pub fn compile(&self) -> Result<CompiledExpectation, (&'static str, String)> {
        let schema = self.schema.as_ref().map(Validator::compile).transpose();
        Ok(CompiledExpectation {
            text: self.text_pattern().map_err(|error| ("text", error))?,
            schema: schema.map_err(|error| ("schema", error.to_string()))?,
        })
    }

    fn text_pattern(&self) -> Result<Option<regex::Regex>, String> {
        self.text.as_deref().map(regex::Regex::new).transpose().map_err(|error| no_pattern(&error))
    }

    /// Checks a result; `took` is the duration of its call, and `masks` know what of it no finding
    /// may show.
    pub fn judge(
        &self,
        target: &ExpectTarget,
        result: &Payload,
        took: Duration,
        masks: &Redactor,
    ) -> Vec<CheckFinding> {
        let mut wrong: Vec<String> = Vec::new();
        let failed = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
        let text = CallOutcome::text_of(result);
        if failed != self.is_error.unwrap_or(false) {
            wrong.push(if failed {
                format!("the tool failed: {}", brief(&masks.redact(&text), 200))
            } else {
                "the tool succeeded, expected it to fail".to_owned()
            });
        }
        match self.compile() {
            Ok(compiled) => {
                wrong.extend(mismatch(compiled.text.as_ref(), &text, masks));
                self.judge_value(&compiled, result, masks, &mut wrong);
            }
            Err((key, error)) => wrong.push(format!("expect.{key}: {error}")),
        }
        if let Some(most) = self.max_duration_ms
            && took > Duration::from_millis(most)
        {
            wrong.push(format!("took longer than {most} ms"));
        }
        wrong.into_iter().map(|message| sample(target, message)).collect()
    }

    /// Why the text of an error is not what is expected.
    pub fn judge_error_text(&self, text: &str, masks: &Redactor) -> Option<String> {
        match self.text_pattern() {
            Ok(pattern) => mismatch(pattern.as_ref(), text, masks),
            Err(error) => Some(format!("expect.text: {error}")),
        }
    }

    /// The value of the file, with its numbers as they are written.
    fn wanted(&self, json: &Value) -> WrittenValue {
        WrittenValue { value: json.clone(), numbers: self.numbers.clone() }
    }

    fn judge_value(
        &self,
        compiled: &CompiledExpectation,
        result: &Payload,
        masks: &Redactor,
        wrong: &mut Vec<String>,
    ) {
        if self.json.is_none() && compiled.schema.is_none() {
            return;
        }
        let value = value_of(result);
        if let Some(json) = &self.json
            && let Some((pointer, message)) = lack(&value, &self.wanted(json), masks)
        {
            wrong.push(misfit(&pointer, &message, masks));
        }
        match compiled.schema.as_ref().map(|schema| schema.check(&value)) {
            Some(SchemaVerdict::Invalid(all)) => {
                wrong.extend(all.iter().take(3).map(|v| misfit(&v.pointer, &v.message, masks)));
            }
            Some(SchemaVerdict::Unknown(why)) => {
                wrong.push(format!("could not be validated: {why}"));
            }
            Some(SchemaVerdict::Valid) | None => {}
        }
    }
}

/// Why a text does not match a pattern.
fn mismatch(pattern: Option<&regex::Regex>, text: &str, masks: &Redactor) -> Option<String> {
    let pattern = pattern.filter(|pattern| !pattern.is_match(text))?;
    let pattern = brief(&masks.redact(pattern.as_str()), 100);
    Some(format!("the text does not match /{pattern}/: {}", brief(&masks.redact(text), 200)))
}

/// Why a pattern is none: the last line of what the reader says.
pub fn no_pattern(error: &regex::Error) -> String {
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    format!("not a regular expression: {last}")
}

/// The value of a result: its structured content, else its text decoded from JSON, else its text,
/// else the result as it is; with its numbers as they are written there.
pub fn value_of(result: &Payload) -> WrittenValue {
    if let Some(structured) = result.get("structuredContent").filter(|value| !value.is_null()) {
        let numbers = result.numbers().below("/structuredContent");
        return WrittenValue { value: structured.clone(), numbers };
    }
    let text = CallOutcome::text_of(result);
    if let Ok(value) = serde_json::from_str(&within_range(&text)) {
        let numbers = WrittenNumbers::rounded_in(&text).unwrap_or_default();
        return WrittenValue { value, numbers };
    }
    let key = ["content", "messages", "contents"].into_iter().find_map(|key| result.get(key));
    let blocks = key.and_then(Value::as_array).map_or(0, Vec::len);
    let only_text = !text.is_empty() && blocks == 1;
    if only_text {
        return Value::String(text).into();
    }
    WrittenValue { value: Value::clone(result), numbers: result.numbers().clone() }
}

/// The place where a value does not fit, and why.
pub(super) fn misfit(pointer: &str, message: &str, masks: &Redactor) -> String {
    let (pointer, message) = (masks.redact(place(pointer)), masks.redact(message));
    format!("{}: {}", brief(&pointer, 120), brief(&message, 200))
}

/// A finding about a sample call.
pub fn sample(target: &ExpectTarget, message: String) -> CheckFinding {
    finding("expect/sample", target.place(), message)
}

/// The first place where `value` does not contain `subset`: pointer and message.
///
/// Objects must have every key; arrays must begin with the elements; the rest must be equal, numbers
/// by value, as they are written. The message shows nothing that is masked.
pub fn lack(
    value: &WrittenValue,
    subset: &WrittenValue,
    masks: &Redactor,
) -> Option<(String, String)> {
    Lacking { have: &value.numbers, want: &subset.numbers, masks }.at(value, subset, "")
}

/// Looks for what one value lacks of another.
struct Lacking<'a> {
    have: &'a WrittenNumbers,
    want: &'a WrittenNumbers,
    masks: &'a Redactor,
}

impl Lacking<'_> {
    fn at(&self, value: &Value, subset: &Value, pointer: &str) -> Option<(String, String)> {
        let within = |have: Option<&Value>, want: &Value, at: String| match have {
            Some(value) => self.at(value, want, &at),
            None => Some((at, "is missing".to_owned())),
        };
        match (value, subset) {
            (Value::Object(have), Value::Object(want)) => want
                .iter()
                .find_map(|(key, want)| within(have.get(key), want, child_pointer(pointer, key))),
            (Value::Array(have), Value::Array(want)) => {
                let mut wanted = want.iter().enumerate();
                wanted.find_map(|(i, want)| within(have.get(i), want, format!("{pointer}/{i}")))
            }
            (have, want) => {
                let is = written_at(have, self.have, pointer);
                let wanted = written_at(want, self.want, pointer);
                let is_exact = !have.is_number() || exact_form(&is) == exact_form(&wanted);
                if schema::same(have, want) && is_exact {
                    return None;
                }
                let (is, wanted) = (self.masks.redact(&is), self.masks.redact(&wanted));
                let (is, wanted) = brief_pair(&is, &wanted, 80);
                Some((pointer.to_owned(), format!("is {is}, expected {wanted}")))
            }
        }
    }
}

/// Whether a value, whose numbers are written so, is the wanted one; numbers by value.
pub fn is_wanted(wanted: &WrittenValue, value: &Value, numbers: &WrittenNumbers) -> bool {
    if !schema::same(wanted, value) {
        return false;
    }
    let (of_wanted, of_value) = (wanted.numbers.only_rounded(), numbers.only_rounded());
    let exact = |whole: &Value, numbers: &WrittenNumbers, place: &str| {
        whole.pointer(place).map(|part| exact_form(&written_at(part, numbers, place)))
    };
    let mut places = of_wanted.iter().chain(of_value.iter()).map(|(place, _)| place);
    places.all(|place| exact(&wanted.value, &of_wanted, place) == exact(value, &of_value, place))
}

/// The part of a value at a place as JSON, a number as it is written there.
fn written_at(part: &Value, numbers: &WrittenNumbers, place: &str) -> String {
    let written = part.as_number().and_then(|number| numbers.written(place, number));
    written.map_or_else(|| part.to_string(), str::to_owned)
}

// Severities and budgets, as the expectations file sets them.

/// The severity of a rule; `off` drops its findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Not reported.
    Off,
    /// Worth knowing.
    Note,
    /// Probably a mistake.
    Warning,
    /// Wrong.
    Error,
}

impl Level {
    const fn severity(self) -> Option<Severity> {
        match self {
            Self::Off => None,
            Self::Note => Some(Severity::Note),
            Self::Warning => Some(Severity::Warning),
            Self::Error => Some(Severity::Error),
        }
    }
}

/// Levels by rule id, or by group (`describe`); the id takes precedence.
pub type Levels = BTreeMap<String, Level>;

/// Limits for the size of definitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Budgets {
    /// Estimated tokens of one server's definitions.
    pub context_tokens: u64,
    /// Estimated tokens of all servers' definitions together.
    pub total_context_tokens: u64,
    /// Bytes of one description; `limits.descriptionBytes` of its server (4096) when absent.
    pub description_bytes: Option<u64>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { context_tokens: 25_000, total_context_tokens: 60_000, description_bytes: None }
    }
}

fn lookup(levels: &Levels, rule: &str) -> Option<Level> {
    let group = rule.split_once('/').map_or(rule, |(group, _)| group);
    levels.get(rule).or_else(|| levels.get(group)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn judge(expect: Value, result: Value) -> Vec<String> {
        let expect: ResultExpectation = serde_json::from_value(expect).expect("an expectation");
        judge_written(&expect, &result.into())
    }

    fn judge_written(expect: &ResultExpectation, result: &Payload) -> Vec<String> {
        let took = Duration::from_millis(20);
        expect
            .judge(
                &ExpectTarget { kind: ListKind::Tools, name: "t".into() },
                result,
                took,
                &Redactor::default(),
            )
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    #[test]
    fn a_subset_a_schema_a_pattern_the_error_flag_and_the_time_are_compared() {
        let result =
            json!({"content": [{"type": "text", "text": "{\"a\": {\"b\": 1, \"c\": [1, 2]}}"}]});
        assert_eq!(judge(json!({}), result.clone()), [""; 0]);
        assert_eq!(judge(json!({"json": {"a": {"b": 1.0, "c": [1]}}}), result.clone()), [""; 0]);
        assert_eq!(
            judge(json!({"json": {"a": {"b": 2}}}), result.clone()),
            ["/a/b: is 1, expected 2"]
        );
        assert_eq!(
            judge(json!({"json": {"a": {"c": [1, 2, 3]}}}), result.clone()),
            ["/a/c/2: is missing"]
        );
        assert_eq!(judge(json!({"schema": {"required": ["z"]}}), result.clone()).len(), 1);
        assert_eq!(judge(json!({"text": "^\\{.*\\}$"}), result.clone()), [""; 0]);
        assert_eq!(judge(json!({"text": "nothing"}), result.clone()).len(), 1);
        assert_eq!(judge(json!({"maxDurationMs": 10}), result.clone()), ["took longer than 10 ms"]);
        assert_eq!(judge(json!({"isError": true}), result).len(), 1);
        let failed = json!({"isError": true, "content": [{"type": "text", "text": "no"}]});
        assert_eq!(judge(json!({}), failed.clone()), ["the tool failed: no"]);
        assert_eq!(judge(json!({"isError": true, "text": "no"}), failed), [""; 0]);
    }

    #[test]
    fn structured_content_is_preferred_to_text() {
        let result =
            json!({"content": [{"type": "text", "text": "7"}], "structuredContent": {"n": 1}});
        assert_eq!(judge(json!({"json": {"n": 1}}), result), [""; 0]);
        let plain = json!({"content": [{"type": "text", "text": "no json"}]});
        assert_eq!(judge(json!({"json": {}}), plain.clone()).len(), 1);
        assert_eq!(judge(json!({"json": "no json"}), plain.clone()), [""; 0]);
        assert_eq!(judge(json!({"schema": {"type": "string"}}), plain), [""; 0]);
    }

    #[test]
    fn null_is_expected_where_it_is_written_and_large_numbers_are_compared_in_full() {
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        assert_eq!(judge(json!({"json": null}), text("null")), [""; 0]);
        assert_eq!(judge(json!({"json": null}), text("7")).len(), 1);
        assert_eq!(
            judge(json!({"json": [9_007_199_254_740_993_u64]}), text("[9007199254740992]")).len(),
            1
        );
        assert_eq!(judge(json!({"json": [1.0]}), text("[1]")), [""; 0]);
    }

    #[test]
    fn numbers_are_compared_as_they_are_written_in_the_file_and_in_the_answer() {
        let text = r#"{"servers": {"s": {"calls": [
            {"tool": "t", "expect": {"json": {"id": [123456789012345678901], "f": 1.50}}}]}}}"#;
        let file = Expectations::parse(text).expect("a file");
        let expect = &file.servers["s"].calls[0].expect;
        let judge = |id: &str, f: &str| {
            let value = format!("{{\"id\": [{id}], \"f\": {f}}}");
            let structured = format!("{{\"structuredContent\": {value}}}");
            let result = WrittenValue::parse(&structured).expect("JSON");
            let found = judge_written(expect, &result.into());
            let content = json!({"content": [{"type": "text", "text": value}]});
            assert_eq!(judge_written(expect, &content.into()), found);
            found
        };
        assert_eq!(judge("123456789012345678901", "1.5"), [""; 0]);
        assert_eq!(judge("1.23456789012345678901e20", "15e-1"), [""; 0]);
        let other = "/id/0: is 123456789012345678902, expected 123456789012345678901";
        assert_eq!(judge("123456789012345678902", "1.5"), [other]);
        assert_eq!(judge("123456789012345678901", "1.6"), ["/f: is 1.6, expected 1.50"]);
    }

    #[test]
    fn the_value_of_a_result_is_structured_content_then_json_then_text() {
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        let value_of = |result: Value| value_of(&result.into()).value;
        assert_eq!(
            value_of(json!({"structuredContent": {"a": 1}, "content": []})),
            json!({"a": 1})
        );
        assert_eq!(value_of(text("[1]")), json!([1]));
        assert_eq!(value_of(text("hi")), json!("hi"));
        let image = json!({"content": [{"type": "image", "data": ""}]});
        assert_eq!(value_of(image.clone()), image);
    }
}

#[cfg(test)]
mod settings_tests {
    use super::*;
    use crate::rule;

    fn level(expected: &Expectations, server: &str) -> Option<Severity> {
        expected.weigh(Some(server), rule::finding("describe/missing", "", "x")).map(|f| f.severity)
    }

    #[test]
    fn the_nearer_setting_wins_and_off_drops() {
        let mut expected = Expectations::default();
        assert_eq!(level(&expected, "a"), Some(Severity::Note));
        expected.rules.insert("describe".into(), Level::Warning);
        assert_eq!(level(&expected, "a"), Some(Severity::Warning));
        expected.rules.insert("describe/missing".into(), Level::Error);
        assert_eq!(level(&expected, "a"), Some(Severity::Error));
        let own = expected.servers.entry("a".into()).or_default();
        own.rules.insert("describe".into(), Level::Off);
        assert_eq!(level(&expected, "a"), None);
        assert_eq!(level(&expected, "b"), Some(Severity::Error));
    }
}
