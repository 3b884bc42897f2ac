//! `mcpdeck test`: from the arguments to a plan of the bench, and from its outcome to reports.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};

use super::args::{Common, OneServer};
use super::check::{policy_files, summarise, writable, write_report};
use super::output::{self, ExitStatus};
use super::{deck, load, operate, signals};
use crate::telemetry::Telemetry;
use ::bench::coverage::coverage;
use ::bench::file::{LoadedTests, TESTS_FILE, TestStep};
use ::bench::fuzz::{
    DEFAULT_CALL_TIMEOUT, DEFAULT_CASES, DEFAULT_SEED, FuzzPlan, FuzzReport, FuzzSettings,
    FuzzedTool, MAX_FUZZ_CASES, folder_of, fuzz,
};
use ::bench::init::RecordedCall;
use ::bench::outcome::{BenchStyle, human};
use ::bench::page::html;
use ::bench::run::{self, BenchEvent, BenchPlan, SuiteChoice, names_suite};
use ::bench::snapshot::Snapshots;
use ::bench::stage::{BenchSource, BenchStage};
use ::bench::watch::{SavedSource, SavedWatch};
use ::bench::{BenchReport, init};
use ::check::report::{ReportFormat, Style};
use ::check::run::CheckSignals;
use ::check::{CheckVerdict, Severity};
use ::deck::{FileKind, SavedCall, SavedCalls, edit_file, kind_of_file};
use base::atomic::Readers;
use base::file::is_there;
use base::human::{Dur, count};
use base::state::StateFile;
use base::text::json;
use base::text::path::spelled;
use base::{SafeText, ServerName};
use config::Environment;

pub const EXAMPLES: &str = "\
Examples:
  mcpdeck test --init                 write a first mcp.tests.json from what the servers offer
  mcpdeck test                        run every suite
  mcpdeck test --suite notes -v       one suite, with every step
  mcpdeck test --only-failed          the suites that failed in the last run
  mcpdeck test --update               keep new snapshots
  mcpdeck test --watch                again whenever a source or the file is saved
  mcpdeck test --fuzz                 look for faults in every read-only tool
  mcpdeck test --fuzz=notes.create --seed 7 --save
  mcpdeck test --eval --model NAME    does a model choose the right tools?
  mcpdeck test --format human --format junit=tests.xml --format html=tests.html

Ctrl-C or a signal ends the steps; what was begun still runs its teardown, for at most 10 seconds, and
a second signal ends that too.

Exit codes as with --check: 0 ok, 1 a step failed, 3 a server could not be started or reached,
2 arguments or a file cannot be used, 130 interrupted.";

/// `mcpdeck test`
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub struct TestArgs {
    /// The file of tests [default: mcp.tests.json beside the configuration].
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Only suites of this name; globs are allowed.
    #[arg(long, short = 's', value_name = "NAME")]
    pub suite: Vec<String>,
    /// Only suites with this tag; with several, one of them.
    #[arg(long, short = 't', value_name = "TAG")]
    pub tag: Vec<String>,
    /// Only the suites that failed in the last run of this file.
    #[arg(long)]
    pub only_failed: bool,
    /// Keep the values of steps with `snapshot` instead of comparing them.
    #[arg(long)]
    pub update: bool,
    /// Go on: run again what is touched whenever sources of a server (`dev.watch` of its entry) or
    /// the file of tests are saved.
    #[arg(long, conflicts_with_all = ["init", "fuzz", "update", "only_failed"])]
    pub watch: bool,
    /// Also show which tools, parameters, enum values, alternatives of schemas, error paths, prompts
    /// and resources the steps reached.
    #[arg(long)]
    pub coverage: bool,
    /// Write a first file from what the servers offer, from recordings (--from) and from
    /// mcp.calls.json; calls nothing.
    #[arg(long, conflicts_with_all = ["suite", "tag", "only_failed", "update", "coverage"])]
    pub init: bool,
    /// With --init: make a step of each call, read and prompt of this recording (`--record`); may be
    /// given several times.
    #[arg(long, value_name = "RECORDING", requires = "init", value_hint = ValueHint::FilePath)]
    pub from: Vec<PathBuf>,
    /// Call tools with valid and invalid arguments made from their schemas, on a copy of their
    /// server, instead of running the suites: this tool (a name or glob, `server.tool`; may be given
    /// several times), else every tool. Only tools annotated read-only, or named, are called.
    #[arg(long, value_name = "TOOL", num_args = 0..=1, require_equals = true, help_heading = "Fuzzing")]
    pub fuzz: Option<Vec<String>>,
    /// Also call tools that match and are not annotated read-only; globs (`notes.*`).
    #[arg(long, value_name = "GLOB", requires = "fuzz", value_parser = super::grants::parse_glob, help_heading = "Fuzzing")]
    pub allow: Vec<String>,
    /// Seed of the cases: the same seed makes the same calls.
    #[arg(long, value_name = "N", requires = "fuzz", default_value_t = DEFAULT_SEED, help_heading = "Fuzzing")]
    pub seed: u64,
    /// Most cases of each tool.
    #[arg(long, value_name = "N", requires = "fuzz", default_value_t = DEFAULT_CASES, value_parser = cases, help_heading = "Fuzzing")]
    pub cases: usize,
    /// Call each case on a fresh process of the server.
    #[arg(long, requires = "fuzz", help_heading = "Fuzzing")]
    pub fresh: bool,
    /// Also call tools one after the other with values that earlier ones returned.
    #[arg(long, requires = "fuzz", help_heading = "Fuzzing")]
    pub sequences: bool,
    /// Write each finding as a saved call (mcp.calls.json) and as a step of the suite `fuzz`.
    #[arg(long, requires = "fuzz", help_heading = "Fuzzing")]
    pub save: bool,
    /// Report format, with `=FILE` to write a file; may be given several times
    /// (human, json, junit, sarif, github, html) [default: human].
    #[arg(long, value_name = "FORMAT[=FILE]")]
    pub format: Vec<String>,
    /// Show every step, not only those that failed.
    #[arg(long, short = 'v', conflicts_with = "quiet")]
    pub verbose: bool,
    /// Print nothing on success.
    #[arg(long, short = 'q')]
    pub quiet: bool,
    /// Evaluation with models.
    #[cfg(feature = "chat")]
    #[command(flatten, next_help_heading = "Evaluation")]
    pub eval: EvalArgs,
    /// A single server instead of a file.
    #[command(flatten, next_help_heading = "One server")]
    pub one: OneServer,
}

/// Options of the evaluation.
#[cfg(feature = "chat")]
#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Ask a model the cases of `eval`, instead of running the suites: does it choose the right
    /// tools, with the right arguments? Only read-only tools are called.
    #[arg(long, conflicts_with = "fuzz")]
    pub eval: bool,
    /// How often each case is run [default: that of the file, else 5].
    #[arg(long, value_name = "N", requires = "eval", value_parser = runs)]
    pub runs: Option<usize>,
    /// Offer the tools of all servers, and not only those of the servers that a case names.
    #[arg(long, requires = "eval")]
    pub distractors: bool,
    /// Keep every run in this file; when it exists, score its runs, without a model or a server.
    #[arg(long, value_name = "FILE", requires = "eval", value_hint = ValueHint::FilePath)]
    pub cassette: Option<PathBuf>,
    /// Stop when so many tokens were sent and received, or so many dollars were spent (`$0.50`), as
    /// far as the prices in settings.json say.
    #[arg(long, value_name = "TOKENS|$DOLLARS", requires = "eval", value_parser = budget)]
    pub budget: Option<::bench::eval::EvalBudget>,
    /// The model that judges answers where a case has `judge` [default: that of the file, else the
    /// one that is asked].
    #[arg(long, value_name = "MODEL", requires = "eval")]
    pub judge: Option<String>,
    /// Have the judge, else the first model, propose other descriptions for tools that were called for
    /// each other, and run the cases again with them: is the difference more than noise?
    #[arg(long, requires = "eval")]
    pub advise: bool,
    /// With --advise: write descriptions that helped as overlays of this profile, to the policy beside
    /// the configuration.
    #[arg(long, value_name = "PROFILE", requires = "advise")]
    pub overlay: Option<String>,
    /// Compare with an earlier JSON report: is the difference more than noise?
    #[arg(long, value_name = "REPORT", requires = "eval", value_hint = ValueHint::FilePath)]
    pub compare: Option<PathBuf>,
    /// The model.
    #[command(flatten)]
    pub model: crate::chat::ModelArgs,
}

#[cfg(feature = "chat")]
fn runs(text: &str) -> Result<usize, String> {
    let most = ::bench::cases::MAX_EVAL_RUNS;
    let many = text.parse().ok().filter(|many| (1..=most).contains(many));
    many.ok_or_else(|| format!("write a number from 1 to {most}"))
}

#[cfg(feature = "chat")]
fn budget(text: &str) -> Result<::bench::eval::EvalBudget, String> {
    use ::bench::eval::EvalBudget;
    if let Some(dollars) = text.strip_prefix('$') {
        let amount =
            dollars.parse().ok().filter(|amount: &f64| amount.is_finite() && *amount > 0.0);
        return amount.map(EvalBudget::Dollars).ok_or_else(|| "write an amount: $0.50".to_owned());
    }
    let tokens = text.parse().ok().filter(|tokens| *tokens > 0);
    tokens
        .map(EvalBudget::Tokens)
        .ok_or_else(|| "write tokens (200000) or dollars ($0.50)".to_owned())
}

fn cases(text: &str) -> Result<usize, String> {
    let many = text.parse().ok().filter(|many| (1..=MAX_FUZZ_CASES).contains(many));
    many.ok_or_else(|| format!("write a number from 1 to {MAX_FUZZ_CASES}"))
}

/// A format of the report.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TestFormat {
    /// One that the check has too.
    Check(ReportFormat),
    /// One page.
    Html,
}

/// A format and its destination; stdout without a file.
struct TestOutput {
    format: TestFormat,
    file: Option<PathBuf>,
}

fn outputs(formats: &[String]) -> Result<Vec<TestOutput>, String> {
    let parse = |text: &String| {
        let (word, file) = match text.split_once('=') {
            Some((_, "")) => return Err(format!("`{text}` names no file after `=`")),
            Some((word, file)) => (word, Some(PathBuf::from(file))),
            None => (text.as_str(), None),
        };
        let format = if word == "html" {
            TestFormat::Html
        } else {
            TestFormat::Check(word.parse().map_err(|_| {
                format!(
                    "there is no format `{word}`; write human, json, junit, sarif, github or html"
                )
            })?)
        };
        Ok(TestOutput { format, file })
    };
    let mut all: Vec<TestOutput> = formats.iter().map(parse).collect::<Result<_, _>>()?;
    if all.is_empty() {
        all.push(TestOutput { format: TestFormat::Check(ReportFormat::Human), file: None });
    }
    writable(all.iter().map(|output| output.file.as_deref()))?;
    Ok(all)
}

/// `mcpdeck test`
pub fn test(common: &Common, args: &TestArgs, telemetry: &Telemetry) -> ExitStatus {
    perform(common, args, telemetry).unwrap_or_else(|message| output::refuse(&message))
}

fn perform(common: &Common, args: &TestArgs, telemetry: &Telemetry) -> Result<ExitStatus, String> {
    let outputs = outputs(&args.format)?;
    let source = match load::source(common, &args.one, common.startup_mode()) {
        Ok(source) => source,
        Err(diagnostics) => {
            crate::telemetry::refused(&diagnostics);
            return Ok(output::problems(&diagnostics));
        }
    };
    telemetry.redactor().learn(load::secrets(&source.config));
    source.warn_of_ignored_settings();
    let beside = source.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let path = args.file.clone().unwrap_or_else(|| beside.join(TESTS_FILE));
    let saved = SavedCalls::load(&operate::saved_path(source.path.as_deref()))?;
    let bench = BenchSource {
        policy: source.path.as_ref().map(|_| policy_files(common)).unwrap_or_default(),
        config: source.config,
        accounts: deck::accounts(common, &args.one),
        timeout: common.timeout,
        reveal: common.reveal,
    };
    if args.init {
        let mut calls = Vec::new();
        for file in &args.from {
            let read = super::recording::operations(file);
            let read = read.map_err(|error| format!("{}: {error}", spelled(file)))?;
            calls.extend(read.into_iter().flat_map(|(server, operations)| {
                operations.into_iter().map(move |operation| operation.into_call(&server))
            }));
            if calls.is_empty() {
                let file = spelled(file);
                return Err(format!("{file}: no call, read or prompt was answered in it"));
            }
        }
        return write_first(&path, bench, (&saved, &calls));
    }
    if let Some(tools) = &args.fuzz {
        let calls = operate::saved_path(source.path.as_deref());
        return fuzzed(common, args, &outputs, (tools, bench), (&path, &calls));
    }
    if !is_there(&path) {
        let path = spelled(&path);
        return Err(format!(
            "{path}: there is no such file; `mcpdeck test --init` writes a first one"
        ));
    }
    if let Some(kind) = kind_of_file(&path).filter(|kind| *kind != FileKind::Tests) {
        return Err(format!("{}: it is not a file of tests; it is {kind}", spelled(&path)));
    }
    #[cfg(feature = "chat")]
    if args.eval.eval && args.watch {
        return Err("--watch runs suites: leave out --eval".to_owned());
    }
    #[cfg(feature = "chat")]
    if args.eval.eval {
        return evaluated(common, args, &outputs, bench, &path);
    }
    let run =
        SuiteRun { common, args, outputs: &outputs, path: &path, failed: FailedSuites::new(&path) };
    let done = signals::block_on(async |signals| {
        if args.watch {
            run.watched(bench, saved, &signals).await
        } else {
            let plan = run.plan(bench, saved)?;
            Box::pin(run.once(&plan, &signals)).await
        }
    });
    done.map_err(|error| error.to_string())?
}

/// Runs the suites of a file.
struct SuiteRun<'a> {
    common: &'a Common,
    args: &'a TestArgs,
    outputs: &'a [TestOutput],
    path: &'a Path,
    failed: FailedSuites,
}

impl SuiteRun<'_> {
    /// What is to be run, as the file says now.
    ///
    /// # Errors
    /// When the file cannot be used, or the arguments choose no suite of it.
    fn plan(&self, source: BenchSource, saved: SavedCalls) -> Result<BenchPlan, String> {
        let (path, args) = (self.path, self.args);
        let tests = LoadedTests::load(path)?;
        let only = args.only_failed.then(|| self.failed.read());
        let choice = SuiteChoice { names: args.suite.clone(), tags: args.tag.clone(), only };
        chosen(&tests, &choice, args)?;
        let snapshots = Snapshots::load(path, args.update)?;
        Ok(BenchPlan { source, tests, choice, saved, snapshots })
    }

    /// Runs it and reports.
    async fn once(&self, plan: &BenchPlan, signals: &CheckSignals) -> Result<ExitStatus, String> {
        let is_quiet = self.args.quiet;
        let show = move |event: BenchEvent<'_>| match event {
            BenchEvent::SuiteEnded(suite) if !is_quiet => {
                let name = SafeText::line(&suite.name);
                output::progress(&format!("{name}: {}", suite.verdict.as_str()));
            }
            BenchEvent::TeardownBegan(suite) => {
                let (name, most) = (SafeText::line(suite), Dur(run::TEARDOWN_TIMEOUT));
                output::complain(&format!(
                    "{name}: interrupted: its teardown runs, for {most} at most; Ctrl-C again ends \
                     it at once"
                ));
            }
            BenchEvent::SuiteBegan(_)
            | BenchEvent::StepBegan(..)
            | BenchEvent::StepEnded(..)
            | BenchEvent::SuiteEnded(_) => {}
        };
        let mut outcome = Box::pin(run::run(plan, signals, &show)).await?;
        if self.args.coverage {
            outcome.report.coverage = Some(coverage(&outcome.offers, &outcome.calls));
        }
        for notice in &outcome.notices {
            output::notice(notice);
        }
        if let Some(path) = &outcome.written {
            output::complain(&format!("wrote {}", spelled(path)));
        }
        if !outcome.interrupted {
            self.failed.write(&outcome.report);
        }
        Ok(finish(self.common, self.args, self.outputs, (&outcome.report, outcome.interrupted)))
    }

    /// Runs it now, and what is touched whenever something is saved, until the user ends it.
    async fn watched(
        &self,
        source: BenchSource,
        saved: SavedCalls,
        signals: &CheckSignals,
    ) -> Result<ExitStatus, String> {
        let opening = Box::pin(SavedWatch::open(source.clone(), self.path));
        let mut watch = match signals.stop.run_until_cancelled(opening).await {
            Some(watch) => watch.map_err(|error| error.message.clone())?,
            None => return Ok(deck::interrupted()),
        };
        let watched: Vec<String> = watch.servers().iter().map(ToString::to_string).collect();
        let file = spelled(self.path);
        output::complain(&match watched.as_slice() {
            [] => format!("watches {file}; no entry has `dev.watch`, so no sources are watched"),
            names => {
                format!("watches {file} and the sources of {}", SafeText::line(&names.join(", ")))
            }
        });
        let mut changed: Option<Vec<ServerName>> = None;
        loop {
            let ran = match self.plan(source.clone(), saved.clone()) {
                Err(message) => Err(message),
                Ok(mut plan) => {
                    let touched = changed.as_ref().map(|changed| run::touched(&plan, changed));
                    if touched.as_ref().is_some_and(HashSet::is_empty) {
                        output::complain("no suite works with it");
                        Ok(ExitStatus::Ok)
                    } else {
                        plan.choice.only = touched.or(plan.choice.only);
                        Box::pin(self.once(&plan, signals)).await
                    }
                }
            };
            // A file that cannot be used is mended, and then run.
            if let Err(message) = ran {
                output::complain(&message);
            }
            changed = loop {
                match signals.stop.run_until_cancelled(watch.next()).await {
                    None => {
                        watch.close(signals).await;
                        return Ok(deck::interrupted());
                    }
                    Some(SavedSource::Tests) => break None,
                    Some(SavedSource::Servers(names)) => break Some(names),
                    Some(SavedSource::Broken(name, lines)) => {
                        output::complain(&format!("the build of {name} failed:"));
                        for line in &lines {
                            output::complain(&format!("  {line}"));
                        }
                    }
                }
            };
        }
    }
}

/// `--eval`
#[cfg(feature = "chat")]
fn evaluated(
    common: &Common,
    args: &TestArgs,
    outputs: &[TestOutput],
    source: BenchSource,
    path: &Path,
) -> Result<ExitStatus, String> {
    use ::bench::cases::compared;
    use ::bench::eval::Cassette;
    let tests = LoadedTests::load(path)?;
    let settings = &tests.file.eval;
    if settings.cases.is_empty() {
        return Err(format!("{}: there are no cases in `eval`", spelled(path)));
    }
    // Before a model is asked.
    let before = args.eval.compare.as_deref().map(earlier_report).transpose()?;
    let file = args.eval.cassette.as_deref();
    let mut advice = None;
    let recorded = match file.filter(|file| file.exists()) {
        Some(file) if args.eval.advise => {
            let file = spelled(file);
            return Err(format!("--advise asks models, and {file} is a record of runs: remove it"));
        }
        Some(file) => Some(recorded_runs(args, file)?),
        None => None,
    };
    // One that is not complete goes on where a model is named.
    let goes_on = |tape: &Cassette| tape.incomplete.is_some() && args.eval.model.model.is_some();
    let mut interrupted = false;
    let cassette = match recorded {
        Some(tape) if !goes_on(&tape) => tape,
        tape => {
            let kept = tape.map(|tape| tape.runs).unwrap_or_default();
            let (made, advised) = ask_models(common, args, &tests, (source, kept))?;
            advice = advised.transpose()?;
            interrupted = made.incomplete.as_deref() == Some("interrupted");
            if let Some(file) = file.filter(|_| !made.runs.is_empty()) {
                made.save(file)?;
                let more = "; not complete: the same command goes on with it";
                let more = made.incomplete.as_ref().map_or("", |_| more);
                output::complain(&format!("wrote {}{more}", spelled(file)));
            }
            made
        }
    };
    let mut eval = cassette.report(settings)?;
    if let (Some(profile), Some(advice)) = (&args.eval.overlay, &advice) {
        write_overlays(common, profile, advice)?;
    }
    eval.advice = advice;
    if let (Some(file), Some(before)) = (&args.eval.compare, &before) {
        eval.comparison = compared(before, &eval);
        let has = |model: &&str| eval.comparison.iter().any(|one| one.model == **model);
        let models = eval.models.iter().map(|model| model.model.as_str());
        let lacks: Vec<&str> = models.filter(|model| !has(model)).collect();
        if !lacks.is_empty() {
            let (lacks, file) = (lacks.join(", "), spelled(file));
            let why = format!("not compared: {file} has no runs of the same cases with {lacks}");
            output::complain(&SafeText::line(&why));
        }
    }
    let mut report = BenchReport::new(Some(path));
    // The time of the runs: the same whenever a cassette is scored.
    let millis = cassette.runs.iter().map(|run| run.millis).sum();
    report.took = std::time::Duration::from_millis(millis);
    report.eval = Some(eval);
    report.settle();
    Ok(finish(common, args, outputs, (&report, interrupted)))
}

/// The evaluation of a JSON report, to compare another one with.
///
/// # Errors
/// When it cannot be read, or is none.
#[cfg(feature = "chat")]
fn earlier_report(file: &Path) -> Result<::bench::cases::EvalReport, String> {
    let value = ::deck::WrittenText::load(file)?.value()?;
    let report = value.get("eval").cloned().unwrap_or_default();
    serde_json::from_value(report).map_err(|_| {
        let file = spelled(file);
        format!("{file}: not a JSON report of `mcpdeck test --eval --format json`")
    })
}

/// The runs of a cassette.
///
/// # Errors
/// When it cannot be read, or holds other runs than those that are asked for.
#[cfg(feature = "chat")]
fn recorded_runs(args: &TestArgs, file: &Path) -> Result<::bench::eval::Cassette, String> {
    let tape = ::bench::eval::Cassette::load(file)?;
    let shown = spelled(file);
    if tape.incomplete.is_some() {
        return Ok(tape);
    }
    if let Some(runs) = args.eval.runs.filter(|runs| *runs != tape.many()) {
        let many = tape.many();
        return Err(format!(
            "{shown} has {many} runs of each case, not {runs}: leave out --runs, or remove it to \
             record anew"
        ));
    }
    if let Some(model) = args.eval.model.model.as_ref().filter(|name| !tape.models.contains(name)) {
        let models = tape.models.join(", ");
        return Err(format!(
            "{shown} has runs of {models}, not of {model}: leave out --model, or remove it to \
             record anew"
        ));
    }
    Ok(tape)
}

/// Writes descriptions that helped as overlays of a profile.
#[cfg(feature = "chat")]
fn write_overlays(
    common: &Common,
    profile: &str,
    advice: &::bench::cases::EvalAdvice,
) -> Result<(), String> {
    if !advice.helps() {
        output::complain("no overlay is written: no more runs became better than worse");
        return Ok(());
    }
    let files = policy_files(common);
    let found = ::deck::load_policy(&files).map_err(|all| all.join("\n"))?;
    let beside = files.last().map(|file| file.with_file_name(::deck::POLICY_FILE));
    let path = beside.ok_or("--overlay: there is no configuration to write a policy beside")?;
    if let Some(other) = found.source.filter(|source| *source != path) {
        let overlays = json::pretty(&advice.overlays());
        let place = spelled(&other);
        return Err(format!(
            "the policy is in {place}: add this to `overlays` of the profile there:\n{overlays}"
        ));
    }
    edit_file(&path, Readers::Default, |text| {
        let text = text.unwrap_or("{\n  \"profiles\": {}\n}\n");
        let written = ::deck::WrittenText::new(&path, text).value()?;
        let value = with_overlays(written["profiles"][profile].clone(), advice.overlays());
        let edited = config::put_member(text, "profiles", profile, &value);
        let fixed = || format!("{}: `profiles` cannot be changed", spelled(&path));
        edited.map(Some).ok_or_else(fixed)
    })?;
    output::complain(&format!("wrote overlays of the profile `{profile}` to {}", spelled(&path)));
    Ok(())
}

/// A profile with further overlays.
#[cfg(feature = "chat")]
fn with_overlays(profile: serde_json::Value, new: Vec<serde_json::Value>) -> serde_json::Value {
    let mut profile = if profile.is_object() { profile } else { serde_json::json!({}) };
    let mut overlays = profile["overlays"].as_array().cloned().unwrap_or_default();
    // One that describes the tool, and nothing else, gives way.
    overlays.retain(|old| {
        let is_description =
            old.as_object().is_some_and(|old| old.len() == 2) && old.get("description").is_some();
        !(is_description && new.iter().any(|new| new["tool"] == old["tool"]))
    });
    overlays.extend(new);
    profile["overlays"] = overlays.into();
    profile
}

/// The runs of an evaluation, and what is advised after them.
#[cfg(feature = "chat")]
type EvalRuns = (::bench::eval::Cassette, Option<Result<::bench::cases::EvalAdvice, String>>);

/// Asks the models.
#[cfg(feature = "chat")]
fn ask_models(
    common: &Common,
    args: &TestArgs,
    tests: &LoadedTests,
    (source, kept): (BenchSource, Vec<::bench::cases::EvalRun>),
) -> Result<EvalRuns, String> {
    use ::bench::eval::{EvalBudget, EvalPlan, evaluate, unknown_tools};
    use ::chat::LanguageModel;
    use std::sync::Arc;
    let settings = &tests.file.eval;
    let env = load::environment(common).unwrap_or_default();
    let mut names: Vec<Option<String>> = settings.models.iter().cloned().map(Some).collect();
    if names.is_empty() || args.eval.model.model.is_some() {
        names = vec![args.eval.model.model.clone()];
    }
    let model = |name: Option<String>| {
        let mut which = args.eval.model.clone();
        which.model = name;
        which.settings(&env)?.model(&env)
    };
    let models: Vec<Arc<dyn LanguageModel>> =
        names.into_iter().map(model).collect::<Result<_, String>>()?;
    let is_judged = settings.cases.values().any(|case| case.judge.is_some());
    let judge = args.eval.judge.clone().or_else(|| settings.judge.clone());
    let judge = judge.filter(|_| is_judged || args.eval.advise);
    let judge = judge.map(|name| model(Some(name))).transpose()?;
    if let Some(EvalBudget::Dollars(_)) = args.eval.budget
        && let Some(free) = models.iter().chain(&judge).find(|model| model.price().is_none())
    {
        let name = SafeText::line(free.name());
        return Err(format!(
            "--budget: the price of {name} is not known; give it in settings.json: {{\"chat\": \
             {{\"prices\": {{\"{name}\": {{\"input\": DOLLARS, \"output\": DOLLARS}}}}}}}}, for a \
             million tokens"
        ));
    }
    let plan = EvalPlan {
        settings,
        models,
        judge,
        runs: args.eval.runs.unwrap_or_else(|| settings.many()),
        distractors: args.eval.distractors,
        budget: args.eval.budget,
        descriptions: BTreeMap::new(),
        kept,
    };
    let is_quiet = args.quiet;
    let show = move |what: &str| {
        if !is_quiet {
            output::progress(&SafeText::line(what));
        }
    };
    let made = signals::block_on(async |signals| {
        let stage = Box::pin(BenchStage::open(source)).await;
        let stage = stage.map_err(|error| error.message.clone())?;
        for (server, reason) in stage.failed() {
            output::complain(&SafeText::line(&format!("`{server}` is left out: {reason}")));
        }
        // Before a model is paid for what cannot be right.
        let unknown = unknown_tools(settings, stage.host());
        if !unknown.is_empty() {
            stage.close(&signals).await;
            let lines = unknown.iter().map(|(at, why)| tests.problem(at, why));
            return Err(lines.collect::<Vec<_>>().join("\n"));
        }
        let made = Box::pin(evaluate(&plan, stage.host(), &signals, &show)).await;
        let mut advice = None;
        if args.eval.advise && made.incomplete.is_none() {
            let advising = ::bench::advice::advise(&plan, &made, stage.host(), &signals, &show);
            advice = Some(Box::pin(advising).await);
        }
        stage.close(&signals).await;
        Ok((made, advice))
    });
    made.map_err(|error| error.to_string())?
}

/// `--fuzz`
fn fuzzed(
    common: &Common,
    args: &TestArgs,
    outputs: &[TestOutput],
    (tools, source): (&[String], BenchSource),
    (path, calls): (&Path, &Path),
) -> Result<ExitStatus, String> {
    let mut settings =
        if is_there(path) { LoadedTests::load(path)?.file.fuzz } else { FuzzSettings::default() };
    settings.allow.extend(args.allow.iter().cloned());
    let plan = FuzzPlan {
        timeout: common.timeout.unwrap_or(DEFAULT_CALL_TIMEOUT),
        source,
        tools: tools.to_vec(),
        settings,
        beside: folder_of(path),
        seed: args.seed,
        cases: args.cases,
        fresh: args.fresh,
        sequences: args.sequences,
    };
    let is_quiet = args.quiet;
    let show = move |tool: &str| {
        if !is_quiet {
            output::progress(&SafeText::line(tool));
        }
    };
    let mut report = BenchReport::new(path.exists().then_some(path)).begun();
    let began = std::time::Instant::now();
    let done = signals::block_on(async |signals| {
        let found = fuzz(&plan, &signals, &show).await;
        (found, signals.stop.is_cancelled())
    });
    let (found, interrupted) = done.map_err(|error| error.to_string())?;
    let nothing = found.tools.iter().all(|tool| tool.cases == 0);
    if nothing && found.failed.is_empty() && !interrupted {
        let known: Vec<&FuzzedTool> = found.tools.iter().collect();
        return Err(match known.as_slice() {
            [] => {
                format!("no tool is named {}; `mcpdeck list` shows what there is", tools.join(", "))
            }
            [first, ..] => {
                let why = first.note.clone().unwrap_or_default();
                let why = SafeText::line(&why);
                format!("no tool was called: `{}` is {why}", SafeText::line(&first.tool))
            }
        });
    }
    if args.save && !interrupted {
        output::complain(&save(&found, path, calls)?);
    }
    report.took = began.elapsed();
    report.fuzz = Some(found);
    report.settle();
    Ok(finish(common, args, outputs, (&report, interrupted)))
}

/// Name of the suite that findings are written to.
const FUZZ_SUITE: &str = "fuzz";

/// Writes each finding as a saved call and as a step that fails as long as the fault is there; says
/// what was written.
fn save(found: &FuzzReport, path: &Path, calls: &Path) -> Result<String, String> {
    let serious = || found.findings.iter().filter(|finding| finding.severity > Severity::Note);
    let (mut saved, mut steps) = (Vec::new(), Vec::new());
    for finding in serious() {
        let last = finding.calls.len().saturating_sub(1);
        for (index, call) in finding.calls.iter().enumerate() {
            let rule = finding.rule.trim_start_matches("fuzz/");
            let number = if last > 0 { format!(" {}", index + 1) } else { String::new() };
            let name = format!("{rule} {} {}{number}", finding.tool, finding.what);
            let mut made = SavedCall::tool(&call.tool, &call.arguments);
            made.force = true;
            saved.push((name.clone(), made));
            let step = init::step_of_finding(finding, call, index == last);
            steps.extend(step.map(|step| TestStep { name: Some(name), ..step }));
        }
    }
    if saved.is_empty() {
        return Ok("nothing was found that could be saved".to_owned());
    }
    let mut places = spelled(calls).to_string();
    if !steps.is_empty() {
        places = format!("{places} and {}", spelled(path));
        LoadedTests::change_suite(path, FUZZ_SUITE, |suite| {
            for step in steps {
                suite.steps.retain(|other| other.name != step.name);
                suite.steps.push(step);
            }
            true
        })?;
    }
    let many = count(saved.len(), "call");
    for (name, made) in saved {
        SavedCalls::put(calls, &name, made)?;
    }
    Ok(format!("saved {many} in {places}"))
}

/// Refuses a choice that nothing fits, and a name or a tag that no suite has.
fn chosen(tests: &LoadedTests, choice: &SuiteChoice, args: &TestArgs) -> Result<(), String> {
    let file = &tests.file;
    if file.suites.is_empty() {
        let why = "there are no suites; `mcpdeck test --init` writes a first file";
        return Err(format!("{}: {why}", spelled(&tests.path)));
    }
    let has_tag = |tag: &String| file.suites.values().any(|suite| suite.tags.contains(tag));
    if let Some(tag) = choice.tags.iter().find(|tag| !has_tag(tag)) {
        let mut tags: Vec<&str> =
            file.suites.values().flat_map(|suite| &suite.tags).map(String::as_str).collect();
        tags.sort_unstable();
        tags.dedup();
        let there = match base::text::nearest(tag, &tags, 0.6) {
            Some(near) => format!("did you mean `{near}`?"),
            None if tags.is_empty() => "no suite has tags".to_owned(),
            None => format!(
                "there are {}",
                tags.iter().take(12).copied().collect::<Vec<_>>().join(", ")
            ),
        };
        return Err(format!("no suite has the tag `{tag}`; {there}"));
    }
    let names: Vec<&str> = file.suites.keys().map(String::as_str).collect();
    let is_known = |name: &String| names.iter().any(|suite| names_suite(name, suite));
    if let Some(name) = args.suite.iter().find(|name| !is_known(name)) {
        let near = base::text::nearest(name, &names, 0.6);
        let first: Vec<&str> = names.iter().take(12).copied().collect();
        let there = near.map(|near| format!("did you mean `{near}`?"));
        let there = there.unwrap_or_else(|| format!("there are {}", first.join(", ")));
        return Err(format!("no suite is named `{name}`; {there}"));
    }
    if file.suites.iter().any(|(name, suite)| choice.takes(name, suite)) {
        return Ok(());
    }
    if choice.only.as_ref().is_some_and(HashSet::is_empty) {
        return Err("no suite failed in the last run; leave out --only-failed".to_owned());
    }
    Err("no suite has that name and that tag, or it did not fail in the last run".to_owned())
}

/// Writes a first file.
fn write_first(
    path: &Path,
    source: BenchSource,
    (saved, recorded): (&SavedCalls, &[RecordedCall]),
) -> Result<ExitStatus, String> {
    let shown = spelled(path);
    let exists = || format!("{shown} exists; remove it first, or name another file");
    if is_there(path) {
        return Err(exists());
    }
    let made = signals::block_on(async |signals| {
        let opening = Box::pin(BenchStage::open(source));
        let opened = signals.stop.run_until_cancelled(opening).await;
        let stage = match opened {
            Some(Ok(stage)) => stage,
            Some(Err(error)) => return Err(error.message.clone()),
            None => return Ok(None),
        };
        let (failed, view) = (stage.failed(), stage.host().snapshot());
        stage.close(&signals).await;
        Ok(Some((failed, init::first_file(&view, saved, recorded))))
    });
    let Some((failed, file)) = made.map_err(|error| error.to_string())?? else {
        return Ok(deck::interrupted());
    };
    for (server, reason) in &failed {
        output::complain(&SafeText::line(&format!("`{server}` is left out: {reason}")));
    }
    if file.suites.is_empty() {
        output::complain("the servers offer nothing that could be tested");
        return Ok(ExitStatus::Unavailable);
    }
    let text = file.text();
    LoadedTests::parse(path, &text)?;
    edit_file(path, Readers::Default, |kept| match kept {
        None => Ok(Some(text)),
        Some(_) => Err(exists()),
    })?;
    let steps = || file.suites.values().flat_map(|suite| &suite.steps);
    let idle = steps().filter(|step| step.skip.is_some()).count();
    output::complain(&format!(
        "wrote {shown}: {} in {}, {idle} of them with `skip`; `mcpdeck test` runs them",
        count(steps().count(), "step"),
        count(file.suites.len(), "suite"),
    ));
    Ok(if failed.is_empty() { ExitStatus::Ok } else { ExitStatus::Unavailable })
}

fn finish(
    common: &Common,
    args: &TestArgs,
    outputs: &[TestOutput],
    (report, interrupted): (&BenchReport, bool),
) -> ExitStatus {
    let mut exit = if interrupted {
        output::complain("interrupted; every server was stopped, this is what is known so far");
        ExitStatus::Interrupted
    } else {
        ExitStatus::from(report.verdict)
    };
    for one in outputs {
        let colour = one.file.is_none() && output::colour(common.color);
        let style = BenchStyle { colour, verbose: args.verbose, quiet: args.quiet };
        let text = match one.format {
            TestFormat::Html => html(report),
            TestFormat::Check(ReportFormat::Human) => human(report, style),
            TestFormat::Check(ReportFormat::Json) => json::pretty(report) + "\n",
            TestFormat::Check(format) => format.render(&report.as_check(), Style::default()),
        };
        match &one.file {
            None => exit = output::print(&text, exit),
            Some(path) => {
                if let Err(message) = write_report(path, &text) {
                    exit = output::refuse(&message);
                }
            }
        }
        if one.format == TestFormat::Check(ReportFormat::Github) {
            let plain = human(report, BenchStyle::default());
            summarise(&format!(
                "### mcpdeck test: {}\n\n{}\n",
                report.verdict.as_str(),
                fenced(&plain)
            ));
        }
    }
    exit
}

/// A text as Markdown shows it unchanged, whatever it holds.
fn fenced(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or_default();
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{fence}\n{text}{fence}")
}

/// Which suites of a file failed in its last run, kept in the state folder.
pub struct FailedSuites {
    file: Option<StateFile>,
    key: String,
}

/// Failed suites by the path of their file.
type FailedByFile = BTreeMap<String, HashSet<String>>;

/// Largest size of that file, in bytes.
const MAX_FAILED_BYTES: u64 = 4 << 20;
/// Most files of tests that are remembered.
const MAX_FAILED_FILES: usize = 256;

impl FailedSuites {
    pub fn new(tests: &Path) -> Self {
        let env = Environment::of_process();
        let folder = env.state_dir.as_ref();
        let file = folder.map(|dir| StateFile::new(dir.join("tests.json"), MAX_FAILED_BYTES));
        let key = std::fs::canonicalize(tests).unwrap_or_else(|_| tests.to_owned());
        Self { file, key: key.to_string_lossy().into_owned() }
    }

    /// Those suites.
    pub fn read(&self) -> HashSet<String> {
        let all: Option<FailedByFile> = self.file.as_ref().and_then(|f| f.load(parse_failed));
        all.and_then(|mut all| all.remove(&self.key)).unwrap_or_default()
    }

    /// Keeps the suites of a run that failed; those that did not run stay as they were.
    pub fn write(&self, report: &BenchReport) {
        let Some(file) = &self.file else { return };
        let change = |all: Option<FailedByFile>| {
            let mut all = all.unwrap_or_default();
            let failed = all.entry(self.key.clone()).or_default();
            for suite in &report.suites {
                if suite.verdict == CheckVerdict::Ok {
                    failed.remove(&suite.name);
                } else {
                    failed.insert(suite.name.clone());
                }
            }
            if failed.is_empty() {
                all.remove(&self.key);
            }
            while all.len() > MAX_FAILED_FILES {
                all.pop_first();
            }
            Ok(Some(serde_json::to_vec(&all)?))
        };
        if let Err(error) = file.change(parse_failed, change) {
            tracing::warn!(target: "mcpdeck::test", "what failed is not remembered: {error}");
        }
    }
}

fn parse_failed(bytes: &[u8]) -> Result<FailedByFile, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}
