//! `mcp.tests.json`: suites of steps over one or several servers. Reads and checks; makes no call.
//!
//! ```json
//! { "suites": {
//!     "notes": {
//!       "steps": [
//!         { "id": "create", "tool": "notes.create", "arguments": { "title": "a" } },
//!         { "tool": "notes.read", "arguments": { "id": "${steps.create.id}" },
//!           "expect": { "json": { "title": "a" } } } ] } } }
//! ```

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cases::{EvalSettings, eval_problems};
use crate::fuzz::{FuzzSettings, MAX_FUZZ_CASES, fuzz_problems};
use crate::paths::{read_mask, read_path};
use crate::value::references;
use base::LogLevel;
use base::atomic::Readers;
use base::pointer::child_pointer;
use base::text::json::{self, WrittenNumbers, WrittenValue};
use base::text::nearest;
use base::text::path::spelled;
use check::expect::{ExpectedCall, NamedCall, ResultExpectation, no_pattern, present};
use config::{Position, put_member};
use deck::{AskedKind, ScriptedAnswer, WrittenText, edit_file};

/// Name of the file beside `mcp.json`.
pub const TESTS_FILE: &str = "mcp.tests.json";

/// What a file without a suite says.
const EMPTY_FILE: &str = "{\n  \"suites\": {}\n}\n";

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "Tests of mcpdeck test")]
pub struct TestFile {
    /// Where editors find the schema of this file.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Whether each suite gets servers of its own [default: fresh].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerUse>,
    /// How many suites run at once [default: 4].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub parallel: Option<usize>,
    /// Answers to sampling and elicitation, for every suite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<ScriptedAnswer>,
    /// What `--fuzz` cannot see from the schemas.
    #[serde(skip_serializing_if = "is_default")]
    pub fuzz: FuzzSettings,
    /// What models are asked with `--eval`.
    #[serde(skip_serializing_if = "is_default")]
    pub eval: EvalSettings,
    /// The suites by name.
    #[schemars(with = "std::collections::BTreeMap<String, TestSuite>")]
    pub suites: IndexMap<String, TestSuite>,
}

impl TestFile {
    /// Its text, with the numbers of the steps as they were written.
    pub fn text(&self) -> String {
        let value = serde_json::to_value(self).unwrap_or_default();
        let mut written = WrittenValue::from(value);
        for (at, numbers) in self.clone().numbers() {
            written.numbers.put(&at, std::mem::take(numbers));
        }
        json::pretty(&written) + "\n"
    }

    /// The numbers of what is sent and of what is compared, with the places of their values.
    fn numbers(&mut self) -> Vec<(String, &mut WrittenNumbers)> {
        let mut all = Vec::new();
        for (name, suite) in &mut self.suites {
            let TestSuite { setup, steps, teardown, .. } = suite;
            let suite = child_pointer("/suites", name);
            for (part, steps) in [("setup", setup), ("steps", steps), ("teardown", teardown)] {
                for (index, step) in steps.iter_mut().enumerate() {
                    let at = format!("{suite}/{part}/{index}");
                    all.push((format!("{at}/arguments"), &mut step.call.numbers));
                    all.push((format!("{at}/expect/json"), &mut step.expect.result.numbers));
                    all.push((format!("{at}/expect/paths"), &mut step.expect.numbers));
                }
            }
        }
        all
    }
}

/// Which servers a suite works with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ServerUse {
    /// Servers of its own, started for it and stopped after it.
    #[default]
    Fresh,
    /// The same as other shared suites; these run one after the other, in the order of the file.
    Shared,
}

/// A suite: steps in order. A step that uses the value of a failed one is skipped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TestSuite {
    /// What it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Words by which `--tag` chooses it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Why it is not run now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
    /// Whether it gets servers of its own, instead of what the file says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerUse>,
    /// How often a failed step is tried again; one that then passes is reported as flaky.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10))]
    pub retries: Option<u32>,
    /// Answers to sampling and elicitation, before those of the file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<ScriptedAnswer>,
    /// Steps before the others; when one fails, the steps are not made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub setup: Vec<TestStep>,
    /// The steps.
    pub steps: Vec<TestStep>,
    /// Steps after the others, whatever happened.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub teardown: Vec<TestStep>,
}

/// One step: a call, a read, a prompt, a saved call or a wait, and what it must give.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("oneOf" = [
    {"required": ["tool"]}, {"required": ["prompt"]}, {"required": ["resource"]},
    {"required": ["saved"]}, {"required": ["wait"]}, {"required": ["fuzz"]},
]))]
pub struct TestStep {
    /// The name by which later steps use its value: `${steps.ID.key}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What it shows, for reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What is called; tools and prompts by their full names, `server.tool`.
    #[serde(flatten)]
    pub call: ExpectedCall,
    /// The method of a notification to wait for, such as `notifications/resources/updated`. One
    /// that came after the last wait of the suite counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub wait: Option<String>,
    /// The tools to fuzz on a copy of their server: `server.tool`, or a glob of read-only ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub fuzz: Option<String>,
    /// The seed of the cases [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Most cases of each tool [default: 300].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 100_000))]
    pub cases: Option<usize>,
    /// The server of the resource or of the notification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// What the `params` of the notification must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
    /// Answers to sampling and elicitation during this step, before those of the suite.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<ScriptedAnswer>,
    /// Longest time in milliseconds, instead of the server's timeout; of a wait [default: 5000].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_ms: Option<u64>,
    /// Send arguments that do not fit the schema.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    /// How often it is tried again when it fails, instead of what the suite says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 10))]
    pub retries: Option<u32>,
    /// Why it is not made now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip: Option<String>,
    /// What it must give.
    #[serde(skip_serializing_if = "is_default")]
    pub expect: StepExpectation,
}

/// What a step must give: as in `mcp.expect.json`, and more. What is left out is not checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct StepExpectation {
    /// What the result must be.
    #[serde(flatten)]
    pub result: ResultExpectation,
    /// Whether a failure is fine too: it must only be answered.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub may_fail: bool,
    /// A regular expression that the text of the result, or of its error, must not match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_text: Option<String>,
    /// By `JSONPath` (RFC 9535) into the value: the value that each match must equal, or an object of
    /// `equals`, `matches`, `type`, `count`, `minCount`, `maxCount`, `exists`, `min`, `max`.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "std::collections::BTreeMap<String, Value>")]
    pub paths: IndexMap<String, Value>,
    /// Numbers of those values that are compared as the file writes them.
    #[serde(skip)]
    pub numbers: WrittenNumbers,
    /// Whether the value must be the one kept in `mcp.tests.snapshots.json` (`--update` keeps it).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub snapshot: bool,
    /// What differs from run to run, and is left out of the snapshot: `JSONPath`s, or regular
    /// expressions between slashes (`/[0-9]+ ms/`) for parts of texts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mask: Vec<String>,
    /// Lists that the server must announce as changed, within two seconds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub list_changed: Vec<ChangedList>,
    /// The highest level of a line that the server may write to stderr or log during the step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<StderrLevel>,
    /// Most memory of the server's processes after the step, in megabytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// What the server must ask for during the step, in this order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asks: Option<Vec<AskedKind>>,
}

/// What the matches of a `JSONPath` must be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct PathExpectation {
    /// What each match must equal; there must be one.
    #[serde(deserialize_with = "present")]
    pub equals: Option<Value>,
    /// A regular expression that each match, as text, must match; there must be one.
    pub matches: Option<String>,
    /// The JSON type of each match.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// How many matches there must be.
    pub count: Option<usize>,
    /// Fewest matches.
    pub min_count: Option<usize>,
    /// Most matches.
    pub max_count: Option<usize>,
    /// Whether there must be a match.
    pub exists: Option<bool>,
    /// Smallest number.
    pub min: Option<f64>,
    /// Largest number.
    pub max: Option<f64>,
}

/// A list that a server announces as changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangedList {
    /// `notifications/tools/list_changed`
    Tools,
    /// `notifications/prompts/list_changed`
    Prompts,
    /// `notifications/resources/list_changed`
    Resources,
}

impl ChangedList {
    /// The method of its notification.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources => "notifications/resources/list_changed",
        }
    }
}

/// The highest level that is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StderrLevel {
    /// Only debugging output.
    Debug,
    /// Information.
    Info,
    /// Notices.
    Notice,
    /// Warnings.
    Warning,
    /// Errors.
    Error,
}

impl StderrLevel {
    /// The level as the logs have it.
    pub const fn level(self) -> LogLevel {
        match self {
            Self::Debug => LogLevel::Debug,
            Self::Info => LogLevel::Info,
            Self::Notice => LogLevel::Notice,
            Self::Warning => LogLevel::Warning,
            Self::Error => LogLevel::Error,
        }
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl StepExpectation {
    /// Everything that is wrong with it: the key below it, and why.
    fn problems(&self) -> Vec<(String, String)> {
        let mut wrong: Vec<(String, String)> = Vec::new();
        let mut result = self.result.clone();
        // A text with a reference is a regular expression only once that is replaced.
        result.text = result.text.filter(|text| !text.contains("${"));
        if let Err((key, error)) = result.compile() {
            wrong.push((format!("/{key}"), error));
        }
        if let Some(Err(error)) = self.not_text.as_deref().map(regex::Regex::new) {
            wrong.push(("/notText".to_owned(), no_pattern(&error)));
        }
        if self.may_fail && self.result.is_error.is_some() {
            wrong.push((
                "/mayFail".to_owned(),
                "`mayFail` and `isError` exclude each other".to_owned(),
            ));
        }
        for (path, rule) in &self.paths {
            let at = child_pointer("/paths", path);
            wrong.extend(read_path(path).err().map(|error| (at.clone(), error)));
            if let Err(error) = PathExpectation::parse(rule) {
                wrong.push((at, error));
            }
        }
        for (index, path) in self.mask.iter().enumerate() {
            wrong.extend(read_mask(path).err().map(|error| (format!("/mask/{index}"), error)));
        }
        if !self.mask.is_empty() && !self.snapshot {
            wrong.push(("/mask".to_owned(), "`mask` needs `\"snapshot\": true`".to_owned()));
        }
        wrong
    }
}

impl PathExpectation {
    /// The types a match can have.
    const TYPES: [&'static str; 7] =
        ["string", "number", "integer", "boolean", "array", "object", "null"];

    /// Reads a rule: an object of its keys, or the value that a match must equal.
    ///
    /// # Errors
    /// When a key of the object is unknown, or a value of it cannot be used.
    pub fn parse(rule: &Value) -> Result<Self, String> {
        if !rule.is_object() {
            return Ok(Self { equals: Some(rule.clone()), ..Self::default() });
        }
        let parsed: Self = serde_json::from_value(rule.clone()).map_err(|error| {
            format!("{error}; to compare with an object, write {{\"equals\": {{...}}}}")
        })?;
        if let Some(Err(error)) = parsed.matches.as_deref().map(regex::Regex::new) {
            return Err(format!("matches: {}", no_pattern(&error)));
        }
        if let Some(kind) = parsed.kind.as_deref().filter(|kind| !Self::TYPES.contains(kind)) {
            return Err(format!("`{kind}` is no JSON type; write {}", Self::TYPES.join(", ")));
        }
        Ok(parsed)
    }
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepTarget<'a> {
    /// Calls a tool.
    Tool(&'a str),
    /// Gets a prompt.
    Prompt(&'a str),
    /// Reads a resource.
    Resource(&'a str),
    /// Makes a saved call.
    Saved(&'a str),
    /// Waits for a notification.
    Wait(&'a str),
    /// Fuzzes tools.
    Fuzz(&'a str),
}

impl StepTarget<'_> {
    /// Its word and its name, for reports: `tool notes.create`.
    pub fn title(self) -> String {
        match self {
            Self::Tool(name) => format!("tool {name}"),
            Self::Prompt(name) => format!("prompt {name}"),
            Self::Resource(uri) => format!("resource {uri}"),
            Self::Saved(name) => format!("saved {name}"),
            Self::Wait(method) => format!("wait {method}"),
            Self::Fuzz(tools) => format!("fuzz {tools}"),
        }
    }
}

impl TestStep {
    /// What it does.
    ///
    /// # Errors
    /// When it says nothing of that, or more than one thing.
    pub fn target(&self) -> Result<StepTarget<'_>, &'static str> {
        let called = self.call.named().map(|call| match call {
            NamedCall::Tool(name) => StepTarget::Tool(name),
            NamedCall::Prompt(name) => StepTarget::Prompt(name),
            NamedCall::Resource(uri) => StepTarget::Resource(uri),
            NamedCall::Saved(name) => StepTarget::Saved(name),
        });
        let wait = self.wait.as_deref().map(StepTarget::Wait);
        let mut all = called.chain(wait).chain(self.fuzz.as_deref().map(StepTarget::Fuzz));
        match (all.next(), all.next()) {
            (Some(target), None) => Ok(target),
            _ => {
                Err("write exactly one of `tool`, `prompt`, `resource`, `saved`, `wait` and `fuzz`")
            }
        }
    }

    /// Its name in reports: `name`, else `id`, else what it does.
    pub fn title(&self) -> String {
        let own = self.name.clone().or_else(|| self.id.clone());
        own.or_else(|| Some(self.target().ok()?.title())).unwrap_or_default()
    }

    /// Everything in it that may hold references.
    fn texts(&self) -> Vec<(&'static str, Value)> {
        let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::String);
        vec![
            ("/arguments", Value::Object(self.call.arguments.clone())),
            ("/resource", text(&self.call.resource)),
            ("/params", self.params.clone().unwrap_or_default()),
            ("/expect/json", self.expect.result.json.clone().unwrap_or_default()),
            ("/expect/schema", self.expect.result.schema.clone().unwrap_or_default()),
            ("/expect/text", text(&self.expect.result.text)),
            ("/expect/paths", self.expect.paths.values().cloned().collect()),
        ]
    }

    /// The ids of the steps whose values it uses.
    pub fn needs(&self) -> HashSet<String> {
        let texts = self.texts();
        let all = texts.iter().filter_map(|(_, value)| references(value).ok()).flatten();
        all.map(|reference| reference.step).collect()
    }
}

impl TestSuite {
    /// Its lists of steps, by their keys, in the order in which they are made.
    pub fn parts(&self) -> [(&'static str, &[TestStep]); 3] {
        [("setup", &self.setup), ("steps", &self.steps), ("teardown", &self.teardown)]
    }
}

/// The file with its text, which finds the line of a step.
pub struct LoadedTests {
    /// Its path.
    pub path: PathBuf,
    /// Its content.
    pub file: TestFile,
    text: WrittenText,
}

impl LoadedTests {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, or every problem in it, each with its line.
    pub fn load(path: &Path) -> Result<Self, String> {
        Self::from_text(path, WrittenText::load(path)?)
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// Every problem in it, each with its line.
    pub fn parse(path: &Path, text: &str) -> Result<Self, String> {
        Self::from_text(path, WrittenText::new(path, text))
    }

    /// Changes one suite of a file, created if missing: under a lock, and with the rest of the text
    /// unchanged. `change` says whether there is anything to write.
    ///
    /// # Errors
    /// When the file cannot be read or written, or every problem in it; it is then unchanged.
    pub fn change_suite(
        path: &Path,
        name: &str,
        change: impl FnOnce(&mut TestSuite) -> bool,
    ) -> Result<(), String> {
        edit_file(path, Readers::Default, |text| {
            let text = text.unwrap_or(EMPTY_FILE);
            let kept = Self::parse(path, text)?.file.suites.shift_remove(name);
            let mut suite = kept.unwrap_or_default();
            if !change(&mut suite) {
                return Ok(None);
            }
            let value = serde_json::to_value(&suite).map_err(|error| error.to_string())?;
            let edited = put_member(text, "suites", name, &value)
                .ok_or_else(|| format!("{}: `suites` cannot be changed", spelled(path)))?;
            // What is written can be read again.
            Self::parse(path, &edited)?;
            Ok(Some(edited))
        })
    }

    fn from_text(path: &Path, text: WrittenText) -> Result<Self, String> {
        text.whole()?;
        let mut file: TestFile = text.decode()?;
        let numbers = text.written_value().map_err(|error| text.problem("", &error))?.numbers;
        for (at, own) in file.numbers() {
            *own = numbers.below(&at);
        }
        let wrong: Vec<String> =
            problems(&file).iter().map(|(at, why)| text.problem(at, why)).collect();
        if wrong.is_empty() {
            Ok(Self { path: path.to_owned(), file, text })
        } else {
            Err(wrong.join("\n"))
        }
    }

    /// A problem at a place of the file, with its line.
    pub fn problem(&self, pointer: &str, why: &str) -> String {
        self.text.problem(pointer, why)
    }

    /// The place of a step of a suite.
    pub fn position(&self, suite: &str, part: &str, index: usize) -> Position {
        let pointer = child_pointer("/suites", suite);
        self.text.position(&format!("{pointer}/{part}/{index}"))
    }
}

/// Everything that is wrong beyond the schema: pointer and message.
fn problems(file: &TestFile) -> Vec<(String, String)> {
    let mut wrong = eval_problems(&file.eval);
    wrong.extend(fuzz_problems(&file.fuzz));
    answers(&file.answers, "", &mut wrong);
    if file.parallel.is_some_and(|many| many == 0 || many > MAX_PARALLEL_SUITES) {
        wrong.push(("/parallel".to_owned(), format!("write 1 to {MAX_PARALLEL_SUITES}")));
    }
    for (name, suite) in &file.suites {
        let at = child_pointer("/suites", name);
        answers(&suite.answers, &at, &mut wrong);
        retries(suite.retries, &at, &mut wrong);
        if name.trim().is_empty() {
            wrong.push((at.clone(), "a suite needs a name".to_owned()));
        }
        let mut known: Vec<&str> = Vec::new();
        let all = suite.parts().into_iter().flat_map(|(_, steps)| steps);
        let all: Vec<&str> = all.filter_map(|step| step.id.as_deref()).collect();
        for (part, steps) in suite.parts() {
            for (index, step) in steps.iter().enumerate() {
                let at = format!("{at}/{part}/{index}");
                step_problems(step, &at, (&known, &all), &mut wrong);
                if let Some(id) = step.id.as_deref() {
                    if known.contains(&id) {
                        wrong.push((format!("{at}/id"), format!("`{id}` is the id of two steps")));
                    }
                    if id.is_empty() || id.contains(['.', '[', ']', '}', '$']) {
                        let message = "an id is a word without `.`, `[`, `]`, `}` and `$`";
                        wrong.push((format!("{at}/id"), message.to_owned()));
                    }
                    known.push(id);
                }
            }
        }
    }
    wrong
}

/// Most suites that may run at once.
pub const MAX_PARALLEL_SUITES: usize = 64;
/// Most retries of a step.
const MAX_STEP_RETRIES: u32 = 10;

fn retries(retries: Option<u32>, at: &str, wrong: &mut Vec<(String, String)>) {
    if retries.is_some_and(|many| many > MAX_STEP_RETRIES) {
        wrong.push((format!("{at}/retries"), format!("write 0 to {MAX_STEP_RETRIES}")));
    }
}

fn answers(answers: &[ScriptedAnswer], at: &str, wrong: &mut Vec<(String, String)>) {
    for (index, answer) in answers.iter().enumerate() {
        if let Some(Err(error)) = answer.matches.as_deref().map(regex::Regex::new) {
            wrong.push((format!("{at}/answers/{index}/matches"), no_pattern(&error)));
        }
    }
}

/// Adds what is wrong with a step; `known` are the ids of the steps before it, `all` those of its suite.
fn step_problems(
    step: &TestStep,
    at: &str,
    (known, all): (&[&str], &[&str]),
    wrong: &mut Vec<(String, String)>,
) {
    let mut problem = |key: &str, message: String| wrong.push((format!("{at}{key}"), message));
    let target = step.target();
    match target {
        Err(error) => problem("", error.to_owned()),
        Ok(StepTarget::Wait(_)) => {
            if step.expect != StepExpectation::default() || !step.call.arguments.is_empty() {
                problem("", "a wait has `params` and `timeoutMs`, nothing else".to_owned());
            }
        }
        Ok(StepTarget::Fuzz(_)) => {
            if step.expect != StepExpectation::default() || !step.call.arguments.is_empty() {
                problem("", "`fuzz` has `seed`, `cases` and `timeoutMs`, nothing else".to_owned());
            }
            if step.cases.is_some_and(|cases| cases == 0 || cases > MAX_FUZZ_CASES) {
                problem("/cases", format!("write 1 to {MAX_FUZZ_CASES}"));
            }
        }
        Ok(_) => {
            if step.params.is_some() {
                problem("/params", "`params` goes with `wait`; write `arguments`".to_owned());
            }
        }
    }
    if step.server.is_some() && !matches!(target, Ok(StepTarget::Resource(_) | StepTarget::Wait(_)))
    {
        let message = "`server` goes with `resource` and `wait`; write `SERVER.NAME`";
        problem("/server", message.to_owned());
    }
    if (step.seed.is_some() || step.cases.is_some()) && !matches!(target, Ok(StepTarget::Fuzz(_))) {
        problem("", "`seed` and `cases` go with `fuzz`".to_owned());
    }
    if step.timeout_ms == Some(0) {
        problem("/timeoutMs", "write more than 0".to_owned());
    }
    for (key, message) in step.expect.problems() {
        problem(&format!("/expect{key}"), message);
    }
    for (key, value) in step.texts() {
        match references(&value) {
            Err(error) => problem(key, error),
            Ok(found) => {
                for reference in found.iter().filter(|r| !known.contains(&r.step.as_str())) {
                    problem(key, no_value(&reference.step, step.id.as_deref(), (known, all)));
                }
            }
        }
    }
    answers(&step.answers, at, wrong);
    retries(step.retries, at, wrong);
}

/// Why there is no value of a step that another one, `own`, refers to.
fn no_value(named: &str, own: Option<&str>, (known, all): (&[&str], &[&str])) -> String {
    if own == Some(named) {
        return format!("`{named}` is this step itself, which has no value before it is made");
    }
    if all.contains(&named) {
        return format!("the step `{named}` comes after this one: its value is not known yet");
    }
    let near = nearest(named, known, 0.6).map(|near| format!("; did you mean `{near}`?"));
    format!("no step before this one has the id `{named}`{}", near.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        let parsed = LoadedTests::parse(Path::new("t.json"), text);
        parsed.err().expect("it is refused")
    }

    #[test]
    fn every_problem_is_named_with_its_line() {
        let text = r#"{
  // ours
  "suites": { "a": { "steps": [
    { "tool": "s.t", "prompt": "s.p" },
    { "id": "make", "tool": "s.t", "expect": { "paths": { "$.[": 1, "$.a": { "equal": 1 } } } },
    { "id": "make", "tool": "s.t", "arguments": { "n": "${steps.maek.id}" }, "expect": { "text": "(" } },
    { "wait": "notifications/x", "expect": { "isError": true } },
    { "tool": "s.t", "server": "s", "expect": { "mask": ["$.a"] } },
  ] } } }"#;
        let found = wrong(text);
        for (line, words) in [
            (4, "exactly one of"),
            (5, "not a JSONPath"),
            (5, "unknown field `equal`"),
            (6, "the id of two steps"),
            (6, "has the id `maek`; did you mean `make`?"),
            (6, "unclosed group"),
            (7, "a wait has `params`"),
            (8, "`server` goes with"),
            (8, "`mask` needs"),
        ] {
            let at = format!("t.json:{line}:");
            assert!(found.contains(words), "{words}\n{found}");
            assert!(found.contains(&at), "{at} {words}\n{found}");
        }
    }

    #[test]
    fn a_step_that_names_itself_or_a_later_one_is_refused() {
        let text = r#"{"suites": {"a": {"steps": [
    {"id": "x", "tool": "s.t", "arguments": {"n": "${steps.y}"}},
    {"id": "y", "tool": "s.t", "arguments": {"n": "${steps.x.n} ${steps.y.n}"}}]}, " ": {}}}"#;
        let found = wrong(text);
        for words in [
            "t.json:2:32: /suites/a/steps/0/arguments: the step `y` comes after this one",
            "t.json:3:32: /suites/a/steps/1/arguments: `y` is this step itself",
            "a suite needs a name",
        ] {
            assert!(found.contains(words), "{words}\n{found}");
        }
        assert_eq!(found.lines().count(), 3, "{found}");
    }

    #[test]
    fn a_glob_that_is_none_would_let_a_tool_be_called_that_was_to_be_left_alone() {
        let found = wrong("{\"fuzz\": {\n\"skip\": [\"a.*\", \"a.[b\"]}, \"suites\": {}}");
        assert!(found.contains("t.json:2:17: /fuzz/skip/1: not a glob: "), "{found}");
    }

    #[test]
    fn unknown_keys_and_keys_given_twice_are_refused() {
        assert!(wrong("{\"suite\": {}}").contains("t.json:1:"));
        assert!(wrong("{\"suites\": {\"a\": {}, \"a\": {}}}").contains("given twice"));
        assert!(wrong("").contains("empty"));
    }

    #[test]
    fn a_suite_is_changed_and_the_rest_of_the_file_is_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("t.json");
        let read = || std::fs::read_to_string(&path).expect("there");
        let tag = |name: &str, tag: &str| {
            LoadedTests::change_suite(&path, name, |suite| {
                suite.tags.push(tag.to_owned());
                true
            })
        };
        tag("a", "new").expect("a new file");
        assert!(read().contains("\"new\""), "{}", read());
        let ours = "{ // ours\n  \"suites\": {\n    // why\n    \"b\": { \"steps\": [] }\n  }\n}\n";
        std::fs::write(&path, ours).expect("writable");
        std::thread::scope(|scope| {
            for n in 0..8 {
                scope.spawn(move || tag("b", &n.to_string()).expect("changed"));
            }
        });
        let tests = LoadedTests::load(&path).expect("a file");
        assert_eq!(tests.file.suites["b"].tags.len(), 8, "none is lost");
        assert!(read().contains("{ // ours") && read().contains("// why"), "{}", read());
        for broken in [&b"{\"suites\": [1]}"[..], b"", b"{\"suites\": {}} \xff"] {
            std::fs::write(&path, broken).expect("writable");
            assert!(tag("b", "x").is_err(), "{broken:?}");
            assert_eq!(std::fs::read(&path).expect("there"), broken);
        }
        std::fs::write(&path, ours).expect("writable");
        LoadedTests::change_suite(&path, "b", |_| false).expect("nothing to do");
        assert_eq!(read(), ours);
    }
}
