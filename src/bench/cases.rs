//! Evaluation of models: the cases of `eval` in `mcp.tests.json`, and how runs are scored. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use base::human::count;
use base::pointer::child_pointer;
use check::CheckVerdict;
use check::expect::{OneOrMany, no_pattern, present};
use check::subject::brief;

/// Most runs of a case.
pub const MAX_EVAL_RUNS: usize = 1_000;
/// Runs of a case by default.
const DEFAULT_RUNS: usize = 5;
/// The greatest k of pass^k that is reported.
const MAX_PASS_POWER: usize = 5;

/// `eval` in `mcp.tests.json`: what models are asked, and which tools they have to choose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct EvalSettings {
    /// How often each case is run [default: 5].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub runs: Option<usize>,
    /// The models of the provider, one after the other [default: that of --model].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The model that judges answers where a case has `judge` [default: the one that was asked].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Smallest share of the runs of a case that must pass [default: 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub min_pass: Option<f64>,
    /// The cases by name.
    #[schemars(with = "BTreeMap<String, EvalCase>")]
    pub cases: IndexMap<String, EvalCase>,
}

impl EvalSettings {
    /// How often each case is run.
    pub fn many(&self) -> usize {
        self.runs.unwrap_or(DEFAULT_RUNS)
    }
}

/// One case: what a person says, and what the model has to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct EvalCase {
    /// What the person says, one turn after the other.
    pub turns: Vec<String>,
    /// The tools that have to be called (`server.tool`); of a list any one counts.
    pub tools: Vec<OneOrMany>,
    /// How the calls are compared with them [default: exact].
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub rule: Option<ToolMatch>,
    /// The arguments, by tool and name: the value, or an object of `equals`, `matches`, `oneOf`,
    /// `min`, `max`, `any`.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "BTreeMap<String, BTreeMap<String, Value>>")]
    pub arguments: IndexMap<String, IndexMap<String, Value>>,
    /// A regular expression that the last answer must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What the last answer must fulfil, in words; a model judges it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// What a tool returns instead of being called, by tool: a text, or JSON.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub results: IndexMap<String, Value>,
    /// Smallest share of its runs that must pass, instead of what `eval` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub min_pass: Option<f64>,
}

/// How calls are compared with the tools that are expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolMatch {
    /// These and no others, in any order.
    #[default]
    Exact,
    /// These and no others, in this order.
    Ordered,
    /// All of these; others may be called too.
    Subset,
    /// At least one of these.
    Any,
    /// None at all.
    None,
}

/// What an argument must be.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
struct ArgumentRule {
    #[serde(deserialize_with = "present")]
    equals: Option<Value>,
    matches: Option<String>,
    one_of: Option<Vec<Value>>,
    min: Option<f64>,
    max: Option<f64>,
    any: bool,
}

impl ArgumentRule {
    fn parse(rule: &Value) -> Result<Self, String> {
        if !rule.is_object() {
            return Ok(Self { equals: Some(rule.clone()), ..Self::default() });
        }
        let rule: Self = serde_json::from_value(rule.clone()).map_err(|error| {
            format!("{error}; to compare with an object, write {{\"equals\": {{...}}}}")
        })?;
        match rule.matches.as_deref().map(regex::Regex::new) {
            Some(Err(error)) => Err(no_pattern(&error)),
            _ => Ok(rule),
        }
    }

    fn fits(&self, value: Option<&Value>) -> bool {
        let Some(value) = value else { return false };
        let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let is_match = |pattern: &String| {
            regex::Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(&text()))
        };
        let number = value.as_f64();
        self.any
            || self.equals.as_ref().is_none_or(|equals| schema::same(equals, value))
                && self.matches.as_ref().is_none_or(is_match)
                && self.one_of.as_ref().is_none_or(|all| all.iter().any(|v| schema::same(v, value)))
                && self.min.is_none_or(|min| number.is_some_and(|number| number >= min))
                && self.max.is_none_or(|max| number.is_some_and(|number| number <= max))
    }
}

/// Everything that is wrong with the settings: pointer and message.
pub fn eval_problems(settings: &EvalSettings) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    if settings.runs.is_some_and(|runs| runs == 0 || runs > MAX_EVAL_RUNS) {
        wrong.push(("/eval/runs".to_owned(), format!("write 1 to {MAX_EVAL_RUNS}")));
    }
    let share = |share: Option<f64>| share.is_some_and(|share| !(0.0..=1.0).contains(&share));
    if share(settings.min_pass) {
        wrong.push(("/eval/minPass".to_owned(), "write a share from 0 to 1".to_owned()));
    }
    for (name, case) in &settings.cases {
        let at = child_pointer("/eval/cases", name);
        let mut problem = |key: &str, why: &str| wrong.push((format!("{at}{key}"), why.to_owned()));
        if case.turns.is_empty() {
            problem("", "`turns` is missing: write what the person says");
        }
        let none = case.rule == Some(ToolMatch::None);
        if none != case.tools.is_empty() {
            problem("", "write the `tools` that must be called, or `\"match\": \"none\"`");
        }
        if share(case.min_pass) {
            problem("/minPass", "write a share from 0 to 1");
        }
        if let Some(Err(error)) = case.text.as_deref().map(regex::Regex::new) {
            problem("/text", &no_pattern(&error));
        }
        for (tool, arguments) in &case.arguments {
            for (argument, rule) in arguments {
                if let Err(error) = ArgumentRule::parse(rule) {
                    let at = child_pointer(&child_pointer("/arguments", tool), argument);
                    problem(&at, &error);
                }
            }
        }
    }
    wrong
}

/// A call that a model made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvalCall {
    /// The tool: `server.tool`, or the name it gave when there is none of that name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

/// One run of a case, as a cassette keeps it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalRun {
    /// The model.
    pub model: String,
    /// The case.
    pub case: String,
    /// Which run, from 0.
    pub run: usize,
    /// What the model was asked, as one text.
    pub asked: String,
    /// The calls it made, in order.
    pub calls: Vec<EvalCall>,
    /// Its last answer.
    pub text: String,
    /// Requests to the model.
    pub rounds: u64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// How long it took, in milliseconds.
    pub millis: u64,
    /// What it cost, in dollars, where the price of the model is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// What the judge says of the last answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<EvalJudgement>,
    /// Why it was not finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl EvalRun {
    /// Its tokens and dollars, with those of its judge.
    pub fn spent(&self) -> (u64, f64) {
        let judgement = self.judgement.as_ref();
        let tokens = judgement.map_or(0, |judgement| judgement.tokens);
        let dollars = judgement.and_then(|judgement| judgement.cost).unwrap_or_default();
        (self.input_tokens + self.output_tokens + tokens, self.cost.unwrap_or_default() + dollars)
    }
}

/// The word of a judge about one answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalJudgement {
    /// What was asked for.
    pub criterion: String,
    /// Whether the answer fulfils it.
    pub passed: bool,
    /// Why.
    pub reason: String,
    /// Tokens that the judge sent and received.
    pub tokens: u64,
    /// What it cost, in dollars, where the price of the model is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

impl EvalJudgement {
    /// Reads the answer of a judge: a line that begins with PASS or FAIL, and a reason. What is none
    /// is no pass.
    pub fn parse(criterion: &str, answer: &str) -> Self {
        let mut lines = answer.lines().map(|line| line.trim_matches(['*', '#', '`', ' ']));
        let line = lines.find(|line| !line.is_empty()).unwrap_or_default();
        let word = line.get(..4).unwrap_or_default().to_ascii_uppercase();
        let ends = !line[word.len()..].starts_with(|c: char| c.is_alphanumeric());
        let rest = line[word.len()..].trim_start_matches(['*', ':', '.', '-', ' ']);
        let rest = if rest.is_empty() { lines.find(|line| !line.is_empty()) } else { Some(rest) };
        let (passed, reason) = match word.as_str() {
            "PASS" if ends => (true, rest.unwrap_or_default().to_owned()),
            "FAIL" if ends => (false, rest.unwrap_or("no reason").to_owned()),
            _ => (false, format!("the judge gave no verdict: {}", brief(line, 120))),
        };
        let criterion = criterion.to_owned();
        Self { criterion, passed, reason: brief(&reason, 300), ..Self::default() }
    }
}

/// A share with its 95 % interval (Wilson).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EvalRate {
    /// The share.
    pub rate: f64,
    /// The lower end of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl EvalRate {
    /// Of `passed` in `runs`.
    pub fn new(passed: usize, runs: usize) -> Self {
        if runs == 0 {
            return Self { rate: 0.0, low: 0.0, high: 1.0 };
        }
        let (z, n) = (1.959_964_f64, runs as f64);
        let p = passed as f64 / n;
        let middle = (p + z * z / (2.0 * n)) / (1.0 + z * z / n);
        let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
        let low = if passed == 0 { 0.0 } else { (middle - half).max(0.0) };
        let high = if passed == runs { 1.0 } else { (middle + half).min(1.0) };
        Self { rate: p, low, high }
    }

    pub(crate) fn text(self) -> String {
        // Of nothing at all.
        if self.rate <= 0.0 && self.high >= 1.0 {
            return "-".to_owned();
        }
        format!("{:.2} [{:.2}, {:.2}]", self.rate, self.low, self.high)
    }
}

/// The score of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunScore {
    /// The case.
    pub case: String,
    /// Which run, from 0.
    pub run: usize,
    /// Whether it did what the case asks for.
    pub passed: bool,
    /// Why not.
    pub why: String,
}

/// The score of one case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaseScore {
    /// The case.
    pub case: String,
    /// Runs.
    pub runs: usize,
    /// Runs that passed.
    pub passed: usize,
    /// The share.
    pub pass: EvalRate,
    /// Whether that is enough.
    pub enough: bool,
    /// The first reason of a run that failed.
    pub why: Option<String>,
}

/// The score of one tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolScore {
    /// How often it should have been called.
    pub expected: usize,
    /// How often it was.
    pub called: usize,
    /// How often rightly.
    pub right: usize,
}

/// One tool that was chosen for another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolConfusion {
    /// The tool that was expected.
    pub expected: String,
    /// The tool that was called.
    pub called: String,
    /// How often.
    pub count: usize,
    /// Words that stand in both descriptions.
    pub shared_words: Vec<String>,
}

/// The score of one model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelScore {
    /// The model.
    pub model: String,
    /// The share of runs that passed.
    pub pass: EvalRate,
    /// For k = 1, 2, ...: the share of cases in which k runs in a row pass, with its interval.
    pub pass_power: Vec<EvalRate>,
    /// Of the calls, the share that was expected.
    pub precision: EvalRate,
    /// Of the expected calls, the share that was made.
    pub recall: EvalRate,
    /// Of the arguments that cases speak of, the share that was right.
    pub arguments: EvalRate,
    /// Requests to the model.
    pub rounds: u64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens received.
    pub output_tokens: u64,
    /// What the runs and their judge cost, in dollars; `None` where a price is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Mean time of a run, in milliseconds.
    pub mean_millis: u64,
    /// The cases.
    pub cases: Vec<CaseScore>,
    /// The tools.
    pub tools: BTreeMap<String, ToolScore>,
    /// Tools that were chosen for others.
    pub confusions: Vec<ToolConfusion>,
    /// Every run.
    pub runs: Vec<RunScore>,
}

/// Whether two reports differ by more than noise (the exact test of `McNemar` over runs of the same case
/// and number).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalComparison {
    /// The model.
    pub model: String,
    /// Runs that both have.
    pub pairs: usize,
    /// Runs that failed before and pass now.
    pub better: usize,
    /// Runs that passed before and fail now.
    pub worse: usize,
    /// The probability of such a difference, or a greater one, by chance.
    pub chance: f64,
    /// Whether that is below 5 %.
    pub is_more_than_noise: bool,
}

/// Another description of a tool that was confused with others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DescriptionAdvice {
    /// The tool: `server.tool`.
    pub tool: String,
    /// The tools that were called for it, or for which it was called.
    pub confused_with: Vec<String>,
    /// Its description.
    pub before: String,
    /// The description that is proposed.
    pub after: String,
}

/// Descriptions that a model proposes for tools that were confused, measured by the same cases.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalAdvice {
    /// The model that proposes them.
    pub by: String,
    /// The descriptions.
    pub descriptions: Vec<DescriptionAdvice>,
    /// The cases with all of them beside the cases as they were, for each model.
    pub measured: Vec<EvalComparison>,
    /// Proposals that could not be used, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unusable: Vec<String>,
    /// Why it is not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

impl EvalAdvice {
    /// Whether more runs became better than worse.
    pub fn helps(&self) -> bool {
        let sum =
            |many: fn(&EvalComparison) -> usize| self.measured.iter().map(many).sum::<usize>();
        self.incomplete.is_none() && sum(|one| one.better) > sum(|one| one.worse)
    }

    /// The descriptions as overlays of a profile.
    pub fn overlays(&self) -> Vec<Value> {
        let overlay = |one: &DescriptionAdvice| serde_json::json!({"tool": one.tool, "description": one.after});
        self.descriptions.iter().map(overlay).collect()
    }

    fn text(&self, out: &mut String) {
        if self.descriptions.is_empty() && self.unusable.is_empty() {
            let _ = writeln!(out, "no advice: no tool was called for another");
        }
        for one in &self.descriptions {
            let others = one.confused_with.join(", ");
            let _ = writeln!(
                out,
                "advice for {} (confused with {}), by {}:",
                brief(&one.tool, 60),
                brief(&others, 120),
                brief(&self.by, 60)
            );
            for (mark, text) in [("-", &one.before), ("+", &one.after)] {
                for line in text.lines() {
                    let _ = writeln!(out, "  {mark} {}", brief(line, 400));
                }
            }
        }
        for why in &self.unusable {
            let _ = writeln!(out, "no advice for {}", brief(why, 200));
        }
        comparison_text(out, "with these descriptions, ", &self.measured);
        if let Some(why) = &self.incomplete {
            let _ = writeln!(out, "the advice is not measured: {}", brief(why, 300));
        }
    }
}

/// The report of an evaluation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvalReport {
    /// The models.
    pub models: Vec<ModelScore>,
    /// The comparison with an earlier report.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub comparison: Vec<EvalComparison>,
    /// Other descriptions of tools that were confused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<EvalAdvice>,
    /// Why it is not complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<String>,
}

impl EvalReport {
    /// The verdict: whether every case passed often enough.
    pub fn verdict(&self) -> CheckVerdict {
        let enough = self.models.iter().flat_map(|model| &model.cases).all(|case| case.enough);
        match (&self.incomplete, enough) {
            (Some(_), _) => CheckVerdict::Incomplete,
            (None, true) => CheckVerdict::Ok,
            (None, false) => CheckVerdict::Violated,
        }
    }
}

/// What a run has of what its case expects.
struct Matched {
    passed: bool,
    why: String,
    expected: usize,
    right: usize,
    arguments: (usize, usize),
    /// Expected tools that were not called, and calls that were not expected.
    missing: Vec<String>,
    extra: Vec<String>,
}

fn matched(case: &EvalCase, run: &EvalRun) -> Matched {
    let accepts = |expected: &OneOrMany, tool: &str| match expected {
        OneOrMany::One(one) => one == tool,
        OneOrMany::Many(many) => many.iter().any(|one| one == tool),
    };
    let first = |expected: &OneOrMany| match expected {
        OneOrMany::One(one) => one.clone(),
        OneOrMany::Many(many) => many.first().cloned().unwrap_or_default(),
    };
    let mut open: Vec<&EvalCall> = run.calls.iter().collect();
    let mut missing = Vec::new();
    let mut pairs: Vec<&EvalCall> = Vec::new();
    for expected in &case.tools {
        match open.iter().position(|call| accepts(expected, &call.tool)) {
            Some(at) => pairs.push(open.remove(at)),
            None => missing.push(first(expected)),
        }
    }
    let extra: Vec<String> = open.iter().map(|call| call.tool.clone()).collect();
    let (mut right_arguments, mut all_arguments, mut wrong_argument) = (0, 0, None);
    for (tool, rules) in &case.arguments {
        let call = pairs.iter().find(|call| call.tool == *tool);
        for (name, rule) in rules {
            all_arguments += 1;
            let value = call.and_then(|call| call.arguments.get(name));
            if ArgumentRule::parse(rule).is_ok_and(|rule| rule.fits(value)) {
                right_arguments += 1;
            } else if call.is_some() {
                let shown = value.map_or("nothing".to_owned(), Value::to_string);
                wrong_argument.get_or_insert(format!("{tool}: `{name}` is {}", brief(&shown, 80)));
            }
        }
    }
    let in_order = || {
        run.calls.len() == case.tools.len()
            && case.tools.iter().zip(&run.calls).all(|(want, call)| accepts(want, &call.tool))
    };
    let tools_fit = match case.rule.unwrap_or_default() {
        ToolMatch::Exact => missing.is_empty() && extra.is_empty(),
        ToolMatch::Ordered => in_order(),
        ToolMatch::Subset => missing.is_empty(),
        ToolMatch::Any => !pairs.is_empty(),
        ToolMatch::None => run.calls.is_empty(),
    };
    let pattern = case.text.as_deref().and_then(|text| regex::Regex::new(text).ok());
    let text_fits = pattern.is_none_or(|pattern| pattern.is_match(&run.text));
    let judged = case.judge.as_ref().and(run.judgement.as_ref());
    let names = |names: &[String]| brief(&names.join(", "), 120);
    let why = if let Some(error) = &run.error {
        brief(error, 200)
    } else if !tools_fit && !missing.is_empty() {
        let others = if extra.is_empty() { "nothing".to_owned() } else { names(&extra) };
        format!("{} was not called, but {others}", names(&missing))
    } else if !tools_fit && !extra.is_empty() {
        format!("{} was called too", names(&extra))
    } else if !tools_fit {
        "the order of the calls is another".to_owned()
    } else if let Some(wrong) = wrong_argument {
        wrong
    } else if !text_fits {
        format!("the answer does not match: {}", brief(&run.text, 120))
    } else if case.judge.is_some() && judged.is_none() {
        "the answer was not judged".to_owned()
    } else if let Some(judged) = judged.filter(|judged| !judged.passed) {
        format!("the judge: {}", brief(&judged.reason, 200))
    } else {
        String::new()
    };
    Matched {
        passed: why.is_empty(),
        why,
        expected: case.tools.len(),
        right: pairs.len(),
        arguments: (right_arguments, all_arguments),
        missing,
        extra,
    }
}

/// Scores the runs of one model. `descriptions` are those of the tools.
pub fn score(
    settings: &EvalSettings,
    model: &str,
    runs: &[EvalRun],
    descriptions: &BTreeMap<String, String>,
) -> ModelScore {
    let mut out = ModelScore { model: model.to_owned(), ..ModelScore::default() };
    let (mut expected, mut called, mut right) = (0, 0, 0);
    let (mut right_arguments, mut all_arguments, mut millis) = (0, 0, 0);
    let mut confusions: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut cost = Some(0.0);
    for (name, case) in &settings.cases {
        let all = runs.iter().filter(|run| run.case == *name && run.model == model);
        // One that was not finished says nothing of the model, but was paid for.
        let (own, unfinished): (Vec<&EvalRun>, Vec<&EvalRun>) =
            all.partition(|run| run.error.is_none());
        let mut passed = 0;
        let mut first_why = None;
        for run in &unfinished {
            first_why = first_why.or_else(|| run.error.clone().filter(|_| own.is_empty()));
            out.rounds += run.rounds;
            out.input_tokens += run.input_tokens;
            out.output_tokens += run.output_tokens;
            cost = cost.zip(run.cost).map(|(all, run)| all + run);
        }
        for run in &own {
            let one = matched(case, run);
            expected += one.expected;
            called += run.calls.len();
            right += one.right;
            right_arguments += one.arguments.0;
            all_arguments += one.arguments.1;
            out.rounds += run.rounds;
            out.input_tokens += run.input_tokens;
            out.output_tokens += run.output_tokens;
            millis += run.millis;
            let judged = run.judgement.as_ref().map_or(Some(0.0), |judged| judged.cost);
            cost = cost.zip(run.cost).zip(judged).map(|((all, run), judged)| all + run + judged);
            for call in &run.calls {
                out.tools.entry(call.tool.clone()).or_default().called += 1;
            }
            for tool in &one.missing {
                out.tools.entry(tool.clone()).or_default().expected += 1;
                for other in &one.extra {
                    *confusions.entry((tool.clone(), other.clone())).or_default() += 1;
                }
            }
            let mut extra = one.extra.clone();
            for call in &run.calls {
                if let Some(at) = extra.iter().position(|tool| *tool == call.tool) {
                    extra.remove(at);
                    continue;
                }
                let tool = out.tools.entry(call.tool.clone()).or_default();
                tool.expected += 1;
                tool.right += 1;
            }
            passed += usize::from(one.passed);
            if !one.passed {
                first_why.get_or_insert(one.why.clone());
            }
            let (case, run) = (name.clone(), run.run);
            out.runs.push(RunScore { case, run, passed: one.passed, why: one.why });
        }
        let pass = EvalRate::new(passed, own.len());
        let least = case.min_pass.or(settings.min_pass).unwrap_or(1.0);
        out.cases.push(CaseScore {
            case: name.clone(),
            runs: own.len(),
            passed,
            pass,
            enough: !own.is_empty() && pass.rate >= least - 1e-9,
            why: first_why,
        });
    }
    let all: usize = out.cases.iter().map(|case| case.runs).sum();
    let passed: usize = out.cases.iter().map(|case| case.passed).sum();
    out.pass = EvalRate::new(passed, all);
    out.pass_power = pass_power(&out.cases);
    out.precision = EvalRate::new(right, called);
    out.recall = EvalRate::new(right, expected);
    out.arguments = EvalRate::new(right_arguments, all_arguments);
    out.cost = cost.filter(|_| all > 0);
    out.mean_millis = millis.checked_div(all as u64).unwrap_or_default();
    out.confusions = confusions
        .into_iter()
        .map(|((expected, called), count)| {
            let shared_words = shared(descriptions.get(&expected), descriptions.get(&called));
            ToolConfusion { expected, called, count, shared_words }
        })
        .collect();
    out.confusions.sort_by_key(|one| std::cmp::Reverse(one.count));
    out
}

/// pass^k: the mean over cases of the chance that k of its runs, drawn at random, all pass; the
/// interval is that of the share of runs, to the power of k.
fn pass_power(cases: &[CaseScore]) -> Vec<EvalRate> {
    let least = cases.iter().map(|case| case.runs).min().unwrap_or(0);
    let all: usize = cases.iter().map(|case| case.runs).sum();
    let passed: usize = cases.iter().map(|case| case.passed).sum();
    let whole = EvalRate::new(passed, all);
    (1..=least.min(MAX_PASS_POWER))
        .map(|k| {
            let chance = |case: &CaseScore| {
                (0..k).fold(1.0, |chance, drawn| {
                    let left = case.passed.saturating_sub(drawn) as f64;
                    chance * left / (case.runs - drawn) as f64
                })
            };
            let rate = cases.iter().map(chance).sum::<f64>() / cases.len().max(1) as f64;
            let (low, high) = (whole.low.powi(k as i32), whole.high.powi(k as i32));
            EvalRate { rate, low: low.min(rate), high: high.max(rate) }
        })
        .collect()
}

/// Words of more than three letters that stand in both descriptions.
fn shared(one: Option<&String>, other: Option<&String>) -> Vec<String> {
    let words = |text: Option<&String>| -> BTreeSet<String> {
        let text = text.map(|text| text.to_lowercase()).unwrap_or_default();
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 3);
        words.map(str::to_owned).collect()
    };
    words(one).intersection(&words(other)).take(12).cloned().collect()
}

/// Compares the runs of two reports, pair by pair.
pub fn compared(before: &EvalReport, now: &EvalReport) -> Vec<EvalComparison> {
    let mut all = Vec::new();
    for model in &now.models {
        let Some(old) = before.models.iter().find(|old| old.model == model.model) else {
            continue;
        };
        let mut out = EvalComparison { model: model.model.clone(), ..EvalComparison::default() };
        for run in &model.runs {
            let twin = old.runs.iter().find(|old| old.case == run.case && old.run == run.run);
            let Some(twin) = twin else { continue };
            out.pairs += 1;
            out.better += usize::from(run.passed && !twin.passed);
            out.worse += usize::from(!run.passed && twin.passed);
        }
        // Other cases are nothing to compare with.
        if out.pairs > 0 {
            out.chance = by_chance(out.better, out.worse);
            out.is_more_than_noise = out.chance < 0.05;
            all.push(out);
        }
    }
    all
}

/// The two-sided probability of such an unequal division of a fair coin.
fn by_chance(one: usize, other: usize) -> f64 {
    let (many, few) = (one + other, one.min(other));
    // As logarithms: of a thousand pairs, the first term alone is too small for a number.
    let mut term = -(many as f64) * std::f64::consts::LN_2;
    let mut sum = term.exp();
    for k in 0..few {
        term += ((many - k) as f64 / (k + 1) as f64).ln();
        sum += term.exp();
    }
    (2.0 * sum).min(1.0)
}

/// The evaluation for people.
pub fn eval_text(report: &EvalReport) -> String {
    let mut out = String::new();
    for model in &report.models {
        let _ = writeln!(
            out,
            "{}  pass {}  precision {}  recall {}",
            brief(&model.model, 60),
            model.pass.text(),
            model.precision.text(),
            model.recall.text(),
        );
        // The first is the share of runs that pass, above.
        let powers = (1..).zip(&model.pass_power).skip(1);
        let powers: Vec<String> = powers.map(|(k, rate)| format!("^{k} {}", rate.text())).collect();
        if !powers.is_empty() {
            let _ = writeln!(out, "  pass{}", powers.join(", "));
        }
        let _ = writeln!(
            out,
            "  arguments {}; {}, {} tokens in, {} out{}, {} ms a run",
            model.arguments.text(),
            count(model.rounds, "request"),
            model.input_tokens,
            model.output_tokens,
            model.cost.map(|cost| format!(", ${cost:.4}")).unwrap_or_default(),
            model.mean_millis,
        );
        for case in &model.cases {
            let word = match (case.enough, case.runs) {
                (true, _) => "ok     ",
                (false, 0) => "not run",
                (false, _) => "FAILED ",
            };
            let why = case.why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
            let _ = writeln!(
                out,
                "  {word} {}  {} of {}{}",
                brief(&case.case, 60),
                case.passed,
                case.runs,
                brief(&why, 240)
            );
        }
        for one in &model.confusions {
            let words = one.shared_words.join(", ");
            let words = if words.is_empty() { "no word".to_owned() } else { words };
            let _ = writeln!(
                out,
                "  {} was called for {}, {}; both descriptions have: {}",
                brief(&one.called, 60),
                brief(&one.expected, 60),
                count(one.count, "time"),
                brief(&words, 120),
            );
        }
    }
    out + &eval_notes(report)
}

/// What an evaluation says beside its models: comparisons, advice, and why it is not complete.
pub(crate) fn eval_notes(report: &EvalReport) -> String {
    let mut out = String::new();
    comparison_text(&mut out, "", &report.comparison);
    if let Some(advice) = &report.advice {
        advice.text(&mut out);
    }
    if let Some(why) = &report.incomplete {
        let _ = writeln!(out, "not complete: {}", brief(why, 300));
    }
    out
}

fn comparison_text(out: &mut String, prefix: &str, all: &[EvalComparison]) {
    for one in all {
        let how = if one.is_more_than_noise { "more than noise" } else { "not more than noise" };
        let chance = match one.chance {
            small if small < 0.001 => "p < 0.001".to_owned(),
            chance => format!("p = {chance:.3}"),
        };
        let _ = writeln!(
            out,
            "{prefix}{}: {} better, {} worse of {}, {chance}: {how}",
            brief(&one.model, 60),
            one.better,
            one.worse,
            count(one.pairs, "pair"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn case(value: Value) -> EvalCase {
        serde_json::from_value(value).expect("a case")
    }

    fn run(calls: &[(&str, Value)]) -> EvalRun {
        let call = |(tool, arguments): &(&str, Value)| EvalCall {
            tool: (*tool).to_owned(),
            arguments: arguments.clone(),
        };
        EvalRun { calls: calls.iter().map(call).collect(), ..EvalRun::default() }
    }

    #[test]
    fn calls_are_compared_as_the_case_says() {
        let (a, b, c) = (("s.a", json!({})), ("s.b", json!({})), ("s.c", json!({})));
        for (rule, tools, calls, passes) in [
            ("exact", json!(["s.a", "s.b"]), vec![b.clone(), a.clone()], true),
            ("exact", json!(["s.a"]), vec![a.clone(), b.clone()], false),
            ("ordered", json!(["s.a", "s.b"]), vec![b.clone(), a.clone()], false),
            ("ordered", json!(["s.a", ["s.x", "s.b"]]), vec![a.clone(), b.clone()], true),
            ("subset", json!(["s.a"]), vec![c.clone(), a.clone()], true),
            ("any", json!(["s.a", "s.b"]), vec![b.clone()], true),
            ("none", json!([]), vec![], true),
            ("none", json!([]), vec![a.clone()], false),
        ] {
            let case = case(json!({"turns": ["x"], "tools": tools, "match": rule}));
            let one = matched(&case, &run(&calls));
            assert_eq!(one.passed, passes, "{rule} {calls:?}: {}", one.why);
        }
    }

    #[test]
    fn arguments_are_compared_by_their_rules() {
        let case = case(json!({"turns": ["x"], "tools": ["s.a"], "arguments": {"s.a": {
            "n": {"min": 1, "max": 3}, "t": {"matches": "^b"}, "e": 2.0, "o": {"oneOf": ["p", "q"]}, "z": {"any": true}}}}));
        let right = json!({"n": 2, "t": "bc", "e": 2, "o": "q", "z": null});
        assert_eq!(matched(&case, &run(&[("s.a", right.clone())])).arguments, (5, 5));
        let mut wrong = right;
        wrong["n"] = json!(9);
        let one = matched(&case, &run(&[("s.a", wrong)]));
        assert_eq!((one.arguments, one.why.as_str()), ((4, 5), "s.a: `n` is 9"));
    }

    #[test]
    fn a_judge_passes_an_answer_in_so_many_words_only() {
        for (answer, passed, reason) in [
            ("PASS: it names Oslo", true, "it names Oslo"),
            ("\n**FAIL** - no city", false, "no city"),
            ("pass", true, ""),
            ("FAIL", false, "no reason"),
            ("PASS\nIt names the city.", true, "It names the city."),
            ("PASSABLE, I think", false, "the judge gave no verdict: PASSABLE, I think"),
            ("It passes.", false, "the judge gave no verdict: It passes."),
            ("\u{e9}\u{e9}\u{e9}", false, "the judge gave no verdict: \u{e9}\u{e9}\u{e9}"),
            ("", false, "the judge gave no verdict: "),
        ] {
            let judged = EvalJudgement::parse("names a city", answer);
            assert_eq!((judged.passed, judged.reason.as_str()), (passed, reason), "{answer}");
        }
        let case = case(json!({"turns": ["x"], "tools": ["s.a"], "judge": "names a city"}));
        let mut one = run(&[("s.a", json!({}))]);
        assert_eq!(matched(&case, &one).why, "the answer was not judged");
        one.judgement = Some(EvalJudgement::parse("names a city", "FAIL: none"));
        assert_eq!(matched(&case, &one).why, "the judge: none");
        one.judgement = Some(EvalJudgement::parse("names a city", "PASS: Oslo"));
        assert!(matched(&case, &one).passed);
    }

    #[test]
    fn a_run_that_was_not_finished_says_nothing_of_the_model_and_was_paid_for() {
        let mut settings = EvalSettings::default();
        let one = case(json!({"turns": ["x"], "tools": ["s.a"]}));
        settings.cases.insert("c".to_owned(), one);
        let good = EvalRun { case: "c".to_owned(), input_tokens: 5, ..run(&[("s.a", json!({}))]) };
        let down = EvalRun { calls: Vec::new(), error: Some("down".to_owned()), ..good.clone() };
        let scored = score(&settings, "", &[good, down.clone()], &BTreeMap::new());
        assert_eq!((scored.cases[0].runs, scored.cases[0].passed), (1, 1));
        assert_eq!((scored.input_tokens, scored.runs.len()), (10, 1));
        assert!((scored.recall.rate - 1.0).abs() < 1e-9);
        let none = score(&settings, "", &[down], &BTreeMap::new());
        assert_eq!((none.cases[0].runs, none.cases[0].why.as_deref()), (0, Some("down")));
        assert!(!none.cases[0].enough);
    }

    #[test]
    fn intervals_hold_the_known_rate_and_pass_power_falls() {
        for (passed, known) in [(9, 0.9), (5, 0.5), (0, 0.0), (10, 1.0)] {
            let rate = EvalRate::new(passed, 10);
            assert!(rate.low <= known && known <= rate.high, "{rate:?}");
        }
        let cases = [CaseScore { runs: 10, passed: 9, ..CaseScore::default() }];
        let powers = pass_power(&cases);
        assert!((powers[0].rate - 0.9).abs() < 1e-9 && (powers[1].rate - 0.8).abs() < 1e-9);
    }

    #[test]
    fn a_difference_is_more_than_noise_only_when_chance_is_unlikely() {
        assert!(by_chance(3, 1) > 0.5);
        assert!(by_chance(9, 0) < 0.01);
        assert!((by_chance(0, 0) - 1.0).abs() < 1e-9);
        // The exact two-sided values of small tables, and tables of thousands.
        assert!((by_chance(1, 5) - 14.0 / 64.0).abs() < 1e-9);
        assert!((by_chance(8, 2) - 112.0 / 1024.0).abs() < 1e-9);
        assert!(by_chance(1000, 1000) > 0.99);
        assert!((0.01..0.03).contains(&by_chance(2000, 2150)), "{}", by_chance(2000, 2150));
        assert!(by_chance(0, 5000) < 1e-12);
    }
}
