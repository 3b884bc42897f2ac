//! Expectations (`mcp.expect.json`): what servers must offer, sample calls, severities, budgets.
//!
//! Owns the file's shape, its first writing and its comparison with what was seen. Calls nothing;
//! [`sample`] judges results that the runner hands over.

pub mod sample;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::check::Finding;
use crate::check::jsonc::Written;
use crate::check::rule::{self, finding};
use crate::check::settings::{Budgets, Levels, Settings};
use crate::check::subject::{Entry, Subject, brief};

pub use sample::{ResultExpectation, SampleCall, Target};

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
    /// What definitions may cost.
    #[serde(skip_serializing_if = "is_default")]
    pub budgets: Budgets,
    /// Servers that must exist, and what each must offer.
    pub servers: BTreeMap<String, ServerExpectation>,
}

/// What one server must offer. Everything left out is free.
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
    /// Prompts that must exist, with the arguments that must.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, PromptExpectation>,
    /// URIs of resources, or of templates, that must be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Calls to make, and what they must give.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<SampleCall>,
}

/// What one tool must take.
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
    fn sorted(&self) -> Vec<&str> {
        let mut all: Vec<&str> = match self {
            Self::One(one) => vec![one],
            Self::Many(many) => many.iter().map(String::as_str).collect(),
        };
        all.sort_unstable();
        all
    }
}

/// What one prompt must take.
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
    /// Reads a file; comments and trailing commas are fine.
    ///
    /// # Errors
    /// Says what cannot be read or is not understood, each with its line.
    pub fn load(path: &Path) -> Result<Self, String> {
        Self::of(&Written::load(path)?)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Says what is not understood, each with its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        Self::of(&Written::new(FILE, text))
    }

    fn of(written: &Written) -> Result<Self, String> {
        let file: Self = written.decode()?;
        let mut wrong = Vec::new();
        let mut told = |pointer: &[&str], message: &str| {
            let escaped = pointer.iter().map(|step| step.replace('~', "~0").replace('/', "~1"));
            let pointer = escaped.fold(String::new(), |all, step| all + "/" + &step);
            wrong.push(written.problem(&pointer, message));
        };
        unknown_rules(&file.rules, &["rules"], &mut told);
        for (server, expected) in &file.servers {
            unknown_rules(&expected.rules, &["servers", server, "rules"], &mut told);
            for (index, call) in expected.calls.iter().enumerate() {
                let at = ["servers", server, "calls", &index.to_string()];
                if let Err(error) = call.is_one() {
                    told(&at, error);
                }
                if let Err(error) = call.expect.compile() {
                    told(&[&at[..], &["expect"]].concat(), &error);
                }
            }
            for (index, pattern) in expected.forbidden.iter().enumerate() {
                if let Err(error) = globset::Glob::new(pattern) {
                    let at = ["servers", server, "forbidden", &index.to_string()];
                    told(&at, &error.to_string());
                }
            }
        }
        if wrong.is_empty() { Ok(file) } else { Err(wrong.join("\n")) }
    }

    /// The severities and budgets in it.
    pub fn settings(&self, allowed: Vec<String>) -> Settings {
        Settings {
            levels: self.rules.clone(),
            servers: self.servers.iter().map(|(n, s)| (n.clone(), s.rules.clone())).collect(),
            allowed,
            budgets: self.budgets.clone(),
        }
    }

    /// A first file: what the servers offer now must stay.
    pub fn init(subjects: &[Subject]) -> Self {
        let servers = subjects
            .iter()
            .filter(|subject| subject.was_ready())
            .map(|subject| (subject.name.clone(), seen(subject)))
            .collect();
        Self { servers, ..Self::default() }
    }

    /// Findings by subject, in their order.
    pub fn compare(&self, subjects: &[Subject]) -> Vec<Vec<Finding>> {
        let judge = |subject: &Subject| match self.servers.get(&subject.name) {
            Some(expected) if subject.was_ready() => compare(expected, subject),
            _ => Vec::new(),
        };
        subjects.iter().map(judge).collect()
    }

    /// Servers that are expected but not in `known`.
    pub fn missing_servers<'a>(&self, known: impl Fn(&str) -> bool + 'a) -> Vec<Finding> {
        let missing = self.servers.keys().filter(|name| !known(name));
        missing
            .map(|name| {
                let message = format!("server `{}` is expected", brief(name, 60));
                finding("expect/missing-server", "", message)
            })
            .collect()
    }
}

fn unknown_rules(levels: &Levels, at: &[&str], told: &mut dyn FnMut(&[&str], &str)) {
    for id in levels.keys() {
        let group = rule::all().any(|r| r.id.split('/').next() == Some(id.as_str()));
        if group || id.starts_with("config/") {
            continue;
        }
        if let Err(message) = rule::RuleId::parse(id) {
            told(&[at, &[id.as_str()]].concat(), &message);
        }
    }
}

fn seen(subject: &Subject) -> ServerExpectation {
    let named = |list: &[std::sync::Arc<Value>], key: &str| -> Vec<String> {
        let mut all: Vec<String> =
            list.iter().filter_map(|v| v.get(key)?.as_str()).map(str::to_owned).collect();
        all.sort();
        all.dedup();
        all
    };
    let mut resources = named(&subject.resources, "uri");
    resources.extend(named(&subject.templates, "uriTemplate"));
    ServerExpectation {
        tools: subject.tools().map(|t| (t.id().to_owned(), seen_tool(&t))).collect(),
        prompts: subject
            .prompts
            .iter()
            .filter_map(|p| {
                let arguments = prompt_arguments(p).map(|(n, r)| (n.to_owned(), r)).collect();
                Some((p.get("name")?.as_str()?.to_owned(), PromptExpectation { arguments }))
            })
            .collect(),
        resources,
        ..ServerExpectation::default()
    }
}

fn seen_tool(tool: &Entry<'_>) -> ToolExpectation {
    let parameters = parameters(tool)
        .map(|(name, schema, required)| {
            let kind = match schema.get("type") {
                Some(Value::String(one)) => Some(OneOrMany::One(one.clone())),
                Some(Value::Array(many)) => Some(OneOrMany::Many(
                    many.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
                )),
                _ => None,
            };
            (name.to_owned(), ParameterExpectation { kind, required: Some(required) })
        })
        .collect();
    ToolExpectation { parameters, exact: false }
}

/// Name, schema and whether required, of each parameter of a tool.
fn parameters<'a>(tool: &Entry<'a>) -> impl Iterator<Item = (&'a str, &'a Value, bool)> {
    let schema = tool.raw.get("inputSchema");
    let required = schema.and_then(|s| s.get("required")).and_then(Value::as_array);
    let needed =
        move |name: &str| required.is_some_and(|all| all.iter().any(|v| v.as_str() == Some(name)));
    let properties = schema.and_then(|s| s.get("properties")).and_then(Value::as_object);
    properties
        .into_iter()
        .flatten()
        .map(move |(name, schema)| (name.as_str(), schema, needed(name)))
}

fn prompt_arguments(prompt: &Value) -> impl Iterator<Item = (&str, bool)> {
    prompt.get("arguments").and_then(Value::as_array).into_iter().flatten().filter_map(|a| {
        let required = a.get("required").and_then(Value::as_bool).unwrap_or(false);
        Some((a.get("name")?.as_str()?, required))
    })
}

fn compare(expected: &ServerExpectation, subject: &Subject) -> Vec<Finding> {
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
        let is = |p: &&std::sync::Arc<Value>| p.get("name").and_then(Value::as_str) == Some(name);
        if let Some(prompt) = subject.prompts.iter().find(is) {
            compare_prompt(name, wanted, prompt, &mut findings);
        } else {
            let have = subject.prompts.iter().filter_map(|p| p.get("name")?.as_str());
            findings.push(missing("expect/missing-prompt", ("prompts", "prompt"), name, have));
        }
    }
    let listed = |uri: &str| {
        let has = |list: &[std::sync::Arc<Value>], key: &str| {
            list.iter().any(|v| v.get(key).and_then(Value::as_str) == Some(uri))
        };
        has(&subject.resources, "uri") || has(&subject.templates, "uriTemplate")
    };
    for uri in expected.resources.iter().filter(|uri| !listed(uri)) {
        let all = subject.resources.iter().filter_map(|r| r.get("uri")?.as_str());
        let have =
            all.chain(subject.templates.iter().filter_map(|t| t.get("uriTemplate")?.as_str()));
        findings.push(missing("expect/missing-resource", ("resources", "resource"), uri, have));
    }
    findings
}

/// What is expected and not there, with what is there under a similar name.
fn missing<'a>(
    rule: &'static str,
    (list, noun): (&str, &str),
    name: &str,
    have: impl Iterator<Item = &'a str>,
) -> Finding {
    let near = have
        .map(|other| (strsim::jaro_winkler(name, other), other))
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .filter(|(score, _)| *score > 0.8);
    let name = brief(name, 80);
    let mut message = format!("{noun} `{name}` is expected");
    if let Some((_, other)) = near {
        let _ = write!(message, "; there is `{}`", brief(other, 80));
    }
    finding(rule, format!("{list}/{name}"), message)
}

fn compare_tool(wanted: &ToolExpectation, tool: &Entry<'_>, findings: &mut Vec<Finding>) {
    let mut fail = |name: &str, message: String| {
        let place = tool.place_of(&format!("/inputSchema/properties/{name}"));
        findings.push(finding("expect/parameter", place, message));
    };
    for (name, expected) in &wanted.parameters {
        let Some((_, schema, required)) = parameters(tool).find(|(n, _, _)| n == name) else {
            fail(name, format!("parameter `{}` is expected", brief(name, 60)));
            continue;
        };
        if let Some(kind) = &expected.kind
            && types(schema) != kind.sorted()
        {
            let (is, should) = (types(schema).join(" or "), kind.sorted().join(" or "));
            let is = if is.is_empty() { "has no type".into() } else { format!("is {is}") };
            fail(name, format!("parameter `{}` {is}, expected {should}", brief(name, 60)));
        }
        if expected.required.is_some_and(|wanted| wanted != required) {
            let words = ["optional", "required"];
            let (is, should) = (words[usize::from(required)], words[usize::from(!required)]);
            fail(name, format!("parameter `{}` is {is}, expected {should}", brief(name, 60)));
        }
    }
    if wanted.exact {
        for (name, _, _) in parameters(tool).filter(|(n, _, _)| !wanted.parameters.contains_key(*n))
        {
            fail(name, format!("parameter `{}` is not expected", brief(name, 60)));
        }
    }
}

fn types(schema: &Value) -> Vec<&str> {
    let mut all: Vec<&str> = match schema.get("type") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    all.sort_unstable();
    all
}

fn compare_prompt(
    name: &str,
    wanted: &PromptExpectation,
    prompt: &Value,
    findings: &mut Vec<Finding>,
) {
    for (argument, required) in &wanted.arguments {
        let is = prompt_arguments(prompt).find(|(n, _)| n == argument).map(|(_, r)| r);
        let shown = brief(argument, 60);
        let message = match is {
            None => format!("argument `{shown}` is expected"),
            Some(true) if !required => format!("argument `{shown}` is required, expected optional"),
            Some(false) if *required => {
                format!("argument `{shown}` is optional, expected required")
            }
            Some(_) => continue,
        };
        findings.push(finding("expect/parameter", format!("prompts/{}", brief(name, 80)), message));
    }
}
