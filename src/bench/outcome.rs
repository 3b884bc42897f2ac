//! The outcome of a run of the bench: the one model behind every report. Plain data and its texts.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::cases::{EvalReport, ModelScore, eval_text};
use crate::coverage::CoverageReport;
use crate::fuzz::{FuzzCall, FuzzReport};
use base::human::{Dur, count};
use check::model::{ConfigReport, DoctorStatus, DoctorStep};
use check::rule::finding;
use check::subject::brief;
use check::{CheckFinding, CheckVerdict, Report, ServerReport, Severity};
use config::Position;

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StepVerdict {
    /// It gave what was expected.
    Passed,
    /// It gave what was expected only when it was tried again.
    Flaky,
    /// It did not.
    Failed,
    /// It was not made.
    Skipped,
}

impl StepVerdict {
    /// The word shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Flaky => "flaky",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

/// One step of a suite.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepReport {
    /// `setup`, `steps` or `teardown`.
    pub part: &'static str,
    /// Its index there.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// What it does: `tool notes.create`.
    pub target: String,
    /// How it ended.
    pub verdict: StepVerdict,
    /// How often it was tried.
    pub attempts: u32,
    /// How long the last attempt took, in milliseconds.
    #[serde(rename = "durationMs", serialize_with = "whole_millis")]
    #[schemars(with = "u64")]
    pub took: Duration,
    /// What is wrong, or why it was skipped.
    pub problems: Vec<String>,
    /// Its place in the file of tests.
    #[serde(skip)]
    pub at: Option<Position>,
}

/// One suite.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuiteReport {
    /// Its name.
    pub name: String,
    /// The verdict on it.
    pub verdict: CheckVerdict,
    /// How long it took, with the start of its servers, in milliseconds.
    #[serde(rename = "durationMs", serialize_with = "whole_millis")]
    #[schemars(with = "u64")]
    pub took: Duration,
    /// Why it was skipped, or could not be run.
    pub reason: Option<String>,
    /// Its steps.
    pub steps: Vec<StepReport>,
}

impl SuiteReport {
    /// How many steps ended like this.
    pub fn many(&self, verdict: StepVerdict) -> usize {
        self.steps.iter().filter(|step| step.verdict == verdict).count()
    }

    /// Sets the verdict from the steps.
    pub fn settle(&mut self) {
        if self.many(StepVerdict::Failed) > 0 {
            self.verdict = self.verdict.max(CheckVerdict::Violated);
        }
    }
}

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BenchReport {
    /// Version of this JSON.
    pub schema_version: u32,
    /// The worst verdict.
    pub verdict: CheckVerdict,
    /// Its exit code.
    pub exit_code: u8,
    /// Duration of the whole run.
    #[serde(rename = "durationMs", serialize_with = "whole_millis")]
    #[schemars(with = "u64")]
    pub took: Duration,
    /// The file of tests.
    #[serde(serialize_with = "base::text::path::perhaps")]
    #[schemars(with = "Option<PathBuf>")]
    pub file: Option<PathBuf>,
    /// The suites, in the order of the file.
    pub suites: Vec<SuiteReport>,
    /// What fuzzing found, with `--fuzz`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fuzz: Option<FuzzReport>,
    /// What the suites reached, with `--coverage`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<CoverageReport>,
    /// How models did, with `--eval`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eval: Option<EvalReport>,
    /// When the run began, UTC; for formats that need a date.
    #[serde(skip)]
    pub began: String,
}

impl BenchReport {
    /// A report without suites yet.
    pub fn new(file: Option<&Path>) -> Self {
        Self {
            schema_version: 1,
            verdict: CheckVerdict::Ok,
            exit_code: 0,
            took: Duration::ZERO,
            file: file.map(Path::to_owned),
            suites: Vec::new(),
            fuzz: None,
            coverage: None,
            eval: None,
            began: "1970-01-01T00:00:00".to_owned(),
        }
    }

    /// The same, begun now.
    #[must_use]
    pub fn begun(mut self) -> Self {
        self.began = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S").to_string();
        self
    }

    /// Sets the verdict of every suite and of the whole.
    pub fn settle(&mut self) {
        self.suites.iter_mut().for_each(SuiteReport::settle);
        let worst = self.suites.iter().map(|suite| suite.verdict).max();
        self.verdict = self.verdict.max(worst.unwrap_or(CheckVerdict::Ok));
        if let Some(fuzz) = &self.fuzz {
            self.verdict = self.verdict.max(fuzz_verdict(fuzz));
        }
        if let Some(eval) = &self.eval {
            self.verdict = self.verdict.max(eval.verdict());
        }
        self.exit_code = self.verdict.exit_code();
    }

    /// How many steps ended like this.
    pub fn many(&self, verdict: StepVerdict) -> usize {
        self.suites.iter().map(|suite| suite.many(verdict)).sum()
    }

    /// The report as one of the check, for the formats that both have (`JUnit`, SARIF, annotations
    /// of GitHub): a suite stands where a server does.
    pub fn as_check(&self) -> Report {
        let config = ConfigReport { path: self.file.clone(), findings: Vec::new() };
        let mut report = Report::new(config, Severity::Error);
        report.servers = self.suites.iter().map(suite_as_server).collect();
        if let Some(fuzz) = &self.fuzz {
            report.servers.extend(fuzz_as_servers(fuzz));
        }
        report.servers.extend(self.eval.iter().flat_map(|eval| &eval.models).map(model_as_server));
        if let Some(why) = self.eval.as_ref().and_then(|eval| eval.incomplete.as_ref()) {
            let mut server = row("eval", CheckVerdict::Incomplete, Duration::ZERO);
            server.findings.push(finding("test/not-run", "", why));
            report.servers.push(server);
        }
        (report.verdict, report.exit_code) = (self.verdict, self.exit_code);
        (report.took, report.began) = (self.took, self.began.clone());
        report
    }
}

/// The verdict on what fuzzing found.
fn fuzz_verdict(fuzz: &FuzzReport) -> CheckVerdict {
    if !fuzz.failed.is_empty() {
        CheckVerdict::Incomplete
    } else if fuzz.findings.iter().any(|finding| finding.severity > Severity::Note) {
        CheckVerdict::Violated
    } else {
        CheckVerdict::Ok
    }
}

fn fuzz_as_servers(fuzz: &FuzzReport) -> Vec<ServerReport> {
    let mut servers: Vec<ServerReport> = Vec::new();
    for found in &fuzz.findings {
        let name = format!("fuzz {}", found.server);
        if !servers.iter().any(|server| server.name == name) {
            servers.push(row(&name, CheckVerdict::Ok, Duration::ZERO));
        }
        let Some(server) = servers.iter_mut().find(|server| server.name == name) else { continue };
        let place = match found.place.as_str() {
            "" => format!("tools/{}", brief(&found.tool, 80)),
            place => format!("tools/{}#{}", brief(&found.tool, 80), brief(place, 120)),
        };
        let message = format!("{} ({}): {}", found.message, found.what, calls_text(&found.calls));
        let severity = found.severity;
        server.findings.push(CheckFinding { severity, ..finding(found.rule, place, message) });
        if severity > Severity::Note {
            server.verdict = CheckVerdict::Violated;
        }
    }
    // What was called and had no finding is a test that passed: a report without any says that
    // nothing was tested.
    for tool in &fuzz.tools {
        if fuzz.findings.iter().any(|found| found.tool == tool.tool) {
            continue;
        }
        let name = format!("fuzz {}", server_of(&tool.tool));
        if !servers.iter().any(|server| server.name == name) {
            servers.push(row(&name, CheckVerdict::Ok, Duration::ZERO));
        }
        let Some(server) = servers.iter_mut().find(|server| server.name == name) else { continue };
        server.steps.push(DoctorStep {
            name: brief(&tool.tool, 80).into(),
            status: if tool.cases > 0 { DoctorStatus::Ok } else { DoctorStatus::Skipped },
            took: None,
            detail: tool.note.clone().unwrap_or_default(),
        });
    }
    for (name, why) in &fuzz.failed {
        let mut server = row(&format!("fuzz {name}"), CheckVerdict::Incomplete, Duration::ZERO);
        server.findings.push(finding("test/not-run", "", why));
        servers.push(server);
    }
    servers
}

fn model_as_server(model: &ModelScore) -> ServerReport {
    let took = Duration::from_millis(model.mean_millis * model.runs.len() as u64);
    let mut server = row(&format!("eval {}", model.model), CheckVerdict::Ok, took);
    for case in &model.cases {
        if case.enough {
            server.steps.push(DoctorStep {
                name: case.case.clone().into(),
                status: DoctorStatus::Ok,
                took: None,
                detail: format!("{} of {}", case.passed, case.runs),
            });
            continue;
        }
        let why = case.why.clone().unwrap_or_default();
        let message = format!("{} of {} runs passed: {why}", case.passed, case.runs);
        server.findings.push(finding("test/failed", &case.case, message));
        server.verdict = CheckVerdict::Violated;
    }
    server
}

/// The server of a tool (`server.tool`).
fn server_of(tool: &str) -> &str {
    tool.split('.').next().unwrap_or_default()
}

/// Calls as the command line makes them.
pub(crate) fn calls_text(calls: &[FuzzCall]) -> String {
    let one = |call: &FuzzCall| {
        let arguments = brief(&call.arguments.to_string(), 300);
        format!("{} {arguments}", brief(&call.tool, 80))
    };
    calls.iter().map(one).collect::<Vec<_>>().join(", then ")
}

fn row(name: &str, verdict: CheckVerdict, took: Duration) -> ServerReport {
    ServerReport {
        name: name.to_owned(),
        verdict,
        state: verdict.as_str(),
        transport: "",
        protocol_version: None,
        era: None,
        server_info: None,
        took,
        steps: Vec::new(),
        counts: check::model::Counts::default(),
        findings: Vec::new(),
        stderr_tail: Vec::new(),
        exit: None,
        at: None,
    }
}

fn suite_as_server(suite: &SuiteReport) -> ServerReport {
    let mut server = row(&suite.name, suite.verdict, suite.took);
    if let Some(reason) = suite.reason.as_ref().filter(|_| suite.verdict != CheckVerdict::Ok) {
        server.findings.push(finding("test/not-run", "", reason));
    }
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for step in &suite.steps {
        let many = seen.entry(&step.name).or_default();
        *many += 1;
        // Those that read the report take what has the same name for the same.
        let name = match *many {
            1 => step.name.clone(),
            number => format!("{} ({number})", step.name),
        };
        let finds = |rule: &'static str| CheckFinding {
            at: step.at.clone(),
            ..finding(rule, &name, step.problems.join("; "))
        };
        let done = |status| DoctorStep {
            name: name.clone().into(),
            status,
            took: Some(step.took),
            detail: step.problems.join("; "),
        };
        match step.verdict {
            StepVerdict::Failed => server.findings.push(finds("test/failed")),
            StepVerdict::Flaky => server.findings.push(finds("test/flaky")),
            StepVerdict::Passed => server.steps.push(done(DoctorStatus::Ok)),
            StepVerdict::Skipped => server.steps.push(done(DoctorStatus::Skipped)),
        }
    }
    server
}

/// The JSON Schema of the JSON report.
pub fn report_schema() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<BenchReport>().to_value()
}

/// How the report for people is written.
#[derive(Clone, Copy, Debug, Default)]
pub struct BenchStyle {
    /// Whether to write escape sequences for colour.
    pub colour: bool,
    /// Whether every step is shown.
    pub verbose: bool,
    /// Whether nothing is shown but what failed.
    pub quiet: bool,
}

const RED: &str = "31";
const YELLOW: &str = "33";
const GREEN: &str = "32";
const DIM: &str = "2";

impl BenchStyle {
    /// A text in a colour, where there is colour.
    pub fn paint(self, code: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    fn verdict(self, verdict: CheckVerdict) -> String {
        let code = match verdict {
            CheckVerdict::Ok => GREEN,
            CheckVerdict::Violated | CheckVerdict::Usage => RED,
            CheckVerdict::Incomplete => YELLOW,
        };
        self.paint(code, verdict.as_str())
    }
}

/// The report for people.
pub fn human(report: &BenchReport, style: BenchStyle) -> String {
    let mut out = String::new();
    for suite in &report.suites {
        suite_text(&mut out, suite, style);
    }
    if style.quiet && report.verdict == CheckVerdict::Ok {
        return String::new();
    }
    if let Some(fuzz) = &report.fuzz {
        fuzz_text(&mut out, fuzz, style);
    }
    if let Some(eval) = &report.eval {
        out.push_str(&eval_text(eval));
    }
    if report.suites.is_empty() && (report.fuzz.is_some() || report.eval.is_some()) {
        return out;
    }
    if let Some(coverage) = &report.coverage {
        let _ = writeln!(out, "{}", crate::coverage::table(coverage));
    }
    let figures = figures(report);
    let _ = writeln!(out, "{}: {figures}, {}", style.verdict(report.verdict), Dur(report.took));
    out
}

/// How many steps there were, and how they ended.
pub(crate) fn figures(report: &BenchReport) -> String {
    let parts = [
        (report.many(StepVerdict::Failed), "failed"),
        (report.many(StepVerdict::Flaky), "flaky"),
        (report.many(StepVerdict::Skipped), "skipped"),
    ];
    let passed = report.many(StepVerdict::Passed);
    let mut figures = format!(
        "{} in {}: {passed} passed",
        count(report.suites.iter().map(|suite| suite.steps.len()).sum::<usize>(), "step"),
        count(report.suites.len(), "suite")
    );
    for (many, word) in parts.into_iter().filter(|(many, _)| *many > 0) {
        let _ = write!(figures, ", {many} {word}");
    }
    figures
}

fn fuzz_text(out: &mut String, fuzz: &FuzzReport, style: BenchStyle) {
    for finding in &fuzz.findings {
        if finding.severity == Severity::Note && !style.verbose {
            continue;
        }
        let code = match finding.severity {
            Severity::Error => RED,
            Severity::Warning => YELLOW,
            Severity::Note => DIM,
        };
        let word = style.paint(code, &format!("{:7}", finding.severity.to_string()));
        let rule = style.paint(DIM, &format!("[{}]", finding.rule));
        let place = brief(&finding.place, 80);
        let gap = if place.is_empty() { "" } else { " " };
        let _ = writeln!(
            out,
            "  {word} {}{gap}{place}: {} {rule}",
            brief(&finding.tool, 80),
            brief(&finding.message, 400)
        );
        let _ = writeln!(
            out,
            "          {}; seen in {}",
            brief(&finding.what, 160),
            count(finding.count, "case")
        );
        if !finding.calls.is_empty() {
            let _ = writeln!(out, "          {}", calls_text(&finding.calls));
        }
    }
    for (server, why) in &fuzz.failed {
        let _ = writeln!(out, "  {} {}", style.paint(YELLOW, &brief(server, 60)), brief(why, 300));
    }
    for tool in &fuzz.tools {
        if let Some(note) = tool.note.as_ref().filter(|_| style.verbose || tool.cases > 0) {
            let _ = writeln!(
                out,
                "  {} {}: {}",
                style.paint(DIM, "note   "),
                brief(&tool.tool, 80),
                brief(note, 300)
            );
        } else if style.verbose {
            let cases = format!("{} of {}", tool.cases, tool.known);
            let _ = writeln!(
                out,
                "  {} {}: {cases} cases",
                style.paint(DIM, "called "),
                brief(&tool.tool, 80)
            );
        }
    }
    let _ = writeln!(out, "fuzz: {}", fuzz_figures(fuzz));
}

/// How much was fuzzed, and how many findings there are.
pub(crate) fn fuzz_figures(fuzz: &FuzzReport) -> String {
    let called = fuzz.tools.iter().filter(|tool| tool.cases > 0).count();
    let idle = fuzz.tools.len() - called;
    let notes = fuzz.findings.iter().filter(|finding| finding.severity == Severity::Note).count();
    let found = fuzz.findings.len() - notes;
    let mut more = String::new();
    if notes > 0 {
        let _ = write!(more, ", {}", count(notes, "note"));
    }
    if idle > 0 {
        let _ = write!(more, "; {idle} not called, -v says why");
    }
    format!(
        "{} in {}, {} at {:.0} a second, seed {}{more}",
        count(found, "finding"),
        count(called, "tool"),
        count(fuzz.calls, "call"),
        fuzz.calls_per_second,
        fuzz.seed,
    )
}

fn suite_text(out: &mut String, suite: &SuiteReport, style: BenchStyle) {
    let fine = suite.verdict == CheckVerdict::Ok && suite.many(StepVerdict::Flaky) == 0;
    if style.quiet && fine {
        return;
    }
    let name = style.paint("1", &brief(&suite.name, 60));
    let took = style.paint(DIM, &Dur(suite.took).to_string());
    let verdict = match (&suite.reason, suite.verdict) {
        (Some(_), CheckVerdict::Ok) => style.paint(DIM, "skipped"),
        (_, verdict) => style.verdict(verdict),
    };
    let _ = writeln!(out, "{name}  {verdict}  {took}");
    if let Some(reason) = &suite.reason {
        let _ = writeln!(out, "  {}", brief(reason, 400));
    }
    for step in &suite.steps {
        let (code, shows) = match step.verdict {
            StepVerdict::Passed => (GREEN, style.verbose),
            StepVerdict::Flaky => (YELLOW, true),
            StepVerdict::Failed => (RED, true),
            StepVerdict::Skipped => (DIM, style.verbose || step.at.is_none()),
        };
        if !shows {
            continue;
        }
        let word = style.paint(code, &format!("{:7}", step.verdict.as_str()));
        let part = if step.part == "steps" { "" } else { step.part };
        let gap = if part.is_empty() { "" } else { " " };
        let place = step.at.as_ref().map(|at| style.paint(DIM, &format!("  {at}")));
        let place = place.filter(|_| step.verdict != StepVerdict::Passed).unwrap_or_default();
        let times = if step.attempts > 1 {
            format!(" ({} attempts)", step.attempts)
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "  {word} {part}{gap}{}{times}  {}{place}",
            brief(&step.name, 80),
            style.paint(DIM, &Dur(step.took).to_string()),
        );
        for problem in &step.problems {
            let _ = writeln!(out, "          {}", brief(problem, 500));
        }
    }
}

/// Whole milliseconds.
fn whole_millis<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(span.as_millis() as u64)
}
