//! `mcpdeck --check`: from the arguments to a plan, and from the outcome to reports and exit code.

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use super::args::{CheckArgs, Common, OneServer};
use super::load::{self, LoadedConfig};
use super::output::{ExitStatus, ProgressLine};
use super::{deck, operate, output, signals, target_file};
use crate::telemetry::Telemetry;
use ::check::answers::AnswerScript;
use ::check::calls::{self, PlannedCalls, Saved};
use ::check::expect::{self, Expectations};
use ::check::model::ConfigReport;
use ::check::report::{ReportDetail, ReportFormat, ReportOutput, Style, github_summary};
use ::check::rule::finding;
use ::check::run::{self, CheckOutcome, Plan};
use ::check::{CheckFinding, CheckVerdict, Report, Severity, lock};
use ::deck::{LOCK_FILE, Lock, SavedCalls};
use base::atomic::{Readers, replace};
use base::file::is_there;
use base::text::json;
use config::{Environment, FileScope, candidates};
use host::{HostView, Startup};

/// The arguments of one check.
pub struct CheckRequest<'a> {
    /// Options of every command.
    pub common: &'a Common,
    /// Options of the check.
    pub args: &'a CheckArgs,
    /// A server without a configuration file.
    pub one: &'a OneServer,
    /// Whether to check the embedded demo servers.
    pub demo: bool,
}

struct CheckFiles {
    expect: PathBuf,
    lock: PathBuf,
    /// Whether the files in this folder belong to other servers than those being checked.
    foreign: bool,
}

/// Runs the check.
pub fn check(request: &CheckRequest<'_>, telemetry: &Telemetry) -> ExitStatus {
    let outputs = match outputs(&request.args.format) {
        Ok(outputs) => outputs,
        Err(message) => return refuse(request, &message, Vec::new()),
    };
    let CheckRequest { common, args, one, demo } = *request;
    let loaded = if demo { load::demo() } else { load::source(common, one, Startup::All) };
    let source = match loaded {
        Ok(source) => source,
        Err(diagnostics) => {
            crate::telemetry::refused(&diagnostics);
            let findings = diagnostics.iter().map(CheckFinding::from).collect();
            let config = ConfigReport { path: config_path(request), findings };
            return finish(&run::unusable(config, fail_on(args)), &outputs, request);
        }
    };
    match prepare(request, source) {
        Ok((plan, files)) => {
            telemetry.redactor().learn(load::secrets(&plan.config));
            perform(request, plan, &outputs, &files)
        }
        Err(message) => refuse(request, &message, outputs),
    }
}

/// Reports why nothing was started, on stderr and in the machine-readable reports.
fn refuse(request: &CheckRequest<'_>, message: &str, mut outputs: Vec<ReportOutput>) -> ExitStatus {
    output::complain(message);
    let path = config_path(request);
    let mut found = finding("config/problem", "", message);
    found.help = String::from("correct what the message names");
    let config = ConfigReport { path, findings: vec![found] };
    let report = run::unusable(config, fail_on(request.args));
    outputs.retain(|output| output.format != ReportFormat::Human);
    finish(&report, &outputs, request);
    ExitStatus::Usage
}

/// The file to name where nothing of it was used.
fn config_path(request: &CheckRequest<'_>) -> Option<PathBuf> {
    if request.demo || request.one.is_named() {
        return None;
    }
    load::files(request.common, &Environment::of_process()).pop()
}

fn fail_on(args: &CheckArgs) -> Severity {
    args.fail_on.unwrap_or(Severity::Warning)
}

fn prepare(
    request: &CheckRequest<'_>,
    mut source: LoadedConfig,
) -> Result<(Plan, CheckFiles), String> {
    let CheckRequest { common, args, .. } = *request;
    let known: Vec<String> = source.config.servers.keys().map(|n| n.as_str().to_owned()).collect();
    source.narrow(&args.server)?;
    let files = files(request, &source);
    files.writable(args)?;
    let expectations = match (&args.expect, is_there(&files.expect)) {
        _ if args.init => None,
        (None, false) => None,
        (None, true) if files.foreign => None,
        _ => Some(Expectations::load(&files.expect)?),
    };
    let lock = match (&args.lock_file, is_there(&files.lock)) {
        (_, false) if args.lock || args.lock_file.is_none() => None,
        (_, false) => return Err(missing(&files.lock)),
        (None, true) if files.foreign => None,
        _ => Some(Lock::read(&files.lock)?),
    };
    let answers = args.answers.as_deref().map(AnswerScript::load).transpose()?.unwrap_or_default();
    let calls = calls(args, &source, expectations.as_ref(), &known)?;
    let config_report = ConfigReport {
        path: source.path.clone(),
        findings: source.diagnostics.iter().map(CheckFinding::from).collect(),
    };
    let plan = Plan {
        config: source.config,
        config_report,
        known,
        timeout: common.timeout,
        fail_on: fail_on(args),
        allowed: args.allow.iter().map(|rule| rule.id.to_owned()).collect(),
        providers: args.providers.clone(),
        expectations,
        calls,
        lock,
        answers,
        policy: source.path.as_ref().map(|_| policy_files(common)).unwrap_or_default(),
        accounts: deck::accounts(common, request.one),
        record: common.record.clone(),
        reveal: common.reveal,
    };
    Ok((plan, files))
}

/// The files whose policy applies.
pub(super) fn policy_files(common: &Common) -> Vec<PathBuf> {
    load::files(common, &load::environment(common).unwrap_or_default())
}

fn missing(path: &Path) -> String {
    format!("{}: there is no such file", path.display())
}

/// The sample calls to make: those of the expectations, and with `--calls` every saved one.
fn calls(
    args: &CheckArgs,
    source: &LoadedConfig,
    expectations: Option<&Expectations>,
    known: &[String],
) -> Result<PlannedCalls, String> {
    let named = args.calls.clone().flatten();
    if let Some(path) = named.as_ref().filter(|path| !is_there(path)) {
        return Err(missing(path));
    }
    let path = named.unwrap_or_else(|| operate::saved_path(source.path.as_deref()));
    let file = SavedCalls::load(&path)?;
    let saved = Saved { path: &path, calls: &file, all: args.calls.is_some() };
    calls::plan(expectations, saved, known)
}

/// Parses the report outputs; at most one may go to stdout.
fn outputs(formats: &[String]) -> Result<Vec<ReportOutput>, String> {
    let outputs: Vec<ReportOutput> = formats.iter().map(|f| f.parse()).collect::<Result<_, _>>()?;
    if outputs.is_empty() {
        return Ok(vec![ReportOutput::default()]);
    }
    writable(outputs.iter().map(|output| output.file.as_deref()))?;
    Ok(outputs)
}

/// Refuses files of reports that cannot be written, and two reports on stdout, which is `None`.
pub(super) fn writable<'a>(
    outputs: impl Iterator<Item = Option<&'a Path>> + Clone,
) -> Result<(), String> {
    // Fail before the servers run, not after.
    outputs.clone().flatten().try_for_each(target_file::check)?;
    if outputs.filter(Option::is_none).count() > 1 {
        return Err("only one report can go to stdout; write the others as FORMAT=FILE".to_owned());
    }
    Ok(())
}

/// The named files, or those beside the configuration. A server without a configuration uses those
/// of this folder, unless they belong to a configuration in it.
fn files(request: &CheckRequest<'_>, source: &LoadedConfig) -> CheckFiles {
    let CheckRequest { args, demo, .. } = request;
    let beside = source.path.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
    let here = || {
        let all = candidates(&Environment::of_process());
        all.iter().any(|place| place.exists && place.scope == FileScope::Project)
    };
    CheckFiles {
        expect: args.expect.clone().unwrap_or_else(|| beside.join(expect::FILE)),
        lock: args.lock_file.clone().unwrap_or_else(|| beside.join(LOCK_FILE)),
        foreign: source.path.is_none() && (*demo || here()),
    }
}

impl CheckFiles {
    /// Refuses `--init` and `--lock` when they would replace a file of something else, or could not
    /// write theirs.
    fn writable(&self, args: &CheckArgs) -> Result<(), String> {
        let other = |path: &Path, option: &str| {
            let path = path.display();
            Err(format!("{path} belongs to the configuration here; name another with {option}"))
        };
        if args.init && is_there(&self.expect) {
            let path = self.expect.display();
            return Err(format!("{path} exists; remove it first, or name another with --expect"));
        }
        if args.init && self.foreign && args.expect.is_none() {
            return other(&self.expect, "--expect");
        }
        if args.lock && self.foreign && args.lock_file.is_none() {
            return other(&self.lock, "--lock-file");
        }
        let written = [(args.init, &self.expect), (args.lock, &self.lock)];
        let mut written = written.into_iter().filter(|(is_written, _)| *is_written);
        written.try_for_each(|(_, file)| target_file::check_own(file))
    }
}

fn perform(
    request: &CheckRequest<'_>,
    mut plan: Plan,
    outputs: &[ReportOutput],
    files: &CheckFiles,
) -> ExitStatus {
    // Changes that `--lock` is about to record are not drift.
    let old = if request.args.lock { plan.lock.take() } else { None };
    let known = plan.known.clone();
    let outcome = signals::block_on(async |signals| {
        let mut progress = ProgressLine::new();
        let stop = signals.stop.clone();
        let mut show = |view: &HostView| progress.show(view, stop.is_cancelled());
        run::run(plan, &signals, &mut show).await
    });
    let Ok(outcome) = outcome else {
        output::complain("the runtime cannot be started");
        return ExitStatus::Unavailable;
    };
    for notice in &outcome.notices {
        output::notice(notice);
    }
    // A partial run writes neither lock nor expectations.
    if outcome.interrupted {
        output::complain("interrupted; every server was stopped, this is what is known so far");
        finish(&outcome.report, outputs, request);
        return ExitStatus::Interrupted;
    }
    if let Err(message) = learn(request.args, &outcome, files, old, &known) {
        // The servers ran: what was seen of them is told all the same.
        output::complain(&message);
        return finish(&outcome.report, outputs, request).or_failed();
    }
    finish(&outcome.report, outputs, request)
}

/// Writes the lock file with `--lock` and the expectations with `--init`.
fn learn(
    args: &CheckArgs,
    outcome: &CheckOutcome,
    files: &CheckFiles,
    old: Option<Lock>,
    known: &[String],
) -> Result<(), String> {
    if args.lock {
        let is_known = |name: &str| known.iter().any(|k| k == name);
        let new = lock::renewed(old.unwrap_or_default(), &outcome.subjects, is_known);
        new.write(&files.lock).map_err(|error| format!("{}: {error}", files.lock.display()))?;
        output::complain(&format!("wrote {}", files.lock.display()));
    }
    if args.init {
        let expectations = Expectations::init(&outcome.subjects);
        write_file(&files.expect, &(json::pretty(&expectations) + "\n"))?;
        output::complain(&format!("wrote {}", files.expect.display()));
    }
    Ok(())
}

/// Writes atomically, so that a failure never leaves a partial file.
pub(super) fn write_file(path: &Path, text: &str) -> Result<(), String> {
    replace(path, text.as_bytes(), Readers::Default)
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Writes the report to every output, then the summary line.
fn finish(report: &Report, outputs: &[ReportOutput], request: &CheckRequest<'_>) -> ExitStatus {
    let exit = write_all(report, outputs, style(request));
    tail(report);
    exit
}

fn style(request: &CheckRequest<'_>) -> Style {
    Style {
        colour: output::colour(request.common.color),
        detail: match (request.args.verbose, request.args.quiet) {
            (true, _) => ReportDetail::Full,
            (_, true) => ReportDetail::Quiet,
            _ => ReportDetail::Brief,
        },
    }
}

fn write_all(report: &Report, outputs: &[ReportOutput], style: Style) -> ExitStatus {
    let mut exit = ExitStatus::from(report.verdict);
    for output in outputs {
        match &output.file {
            None => exit = output::print(&output.format.render(report, style), exit),
            Some(path) => {
                let plain = Style { colour: false, ..style };
                let text = output.format.render(report, plain);
                if let Err(message) = write_report(path, &text) {
                    output::complain(&message);
                    exit = exit.or_failed();
                    if !outputs.iter().any(|output| output.file.is_none()) {
                        exit = output::print(&text, exit);
                    }
                }
            }
        }
        if output.format == ReportFormat::Github {
            summarise(&github_summary(report));
        }
    }
    exit
}

/// Writes a report to a file.
pub(super) fn write_report(path: &Path, text: &str) -> Result<(), String> {
    target_file::write(path, text.as_bytes())
}

/// Appends the job summary when running in GitHub Actions.
pub(super) fn summarise(text: &str) {
    let path = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty());
    let Some(path) = path else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    if let Err(error) = written {
        output::complain(&format!("GITHUB_STEP_SUMMARY: {error}"));
    }
}

/// Writes one JSON line for programs on failure, unless stderr is a terminal.
fn tail(report: &Report) {
    if report.verdict == CheckVerdict::Ok || std::io::stderr().is_terminal() {
        return;
    }
    let count = |severity| report.all().filter(|(_, f)| f.severity == severity).count();
    let named = |verdict| -> Vec<&str> {
        report.servers.iter().filter(|s| s.verdict == verdict).map(|s| s.name.as_str()).collect()
    };
    let line = serde_json::json!({
        "mcpdeck": "check",
        "verdict": report.verdict,
        "exitCode": report.exit_code,
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
        "violated": named(CheckVerdict::Violated),
        "incomplete": named(CheckVerdict::Incomplete),
    });
    let _ = writeln!(std::io::stderr().lock(), "{}", json::compact(&line));
}
