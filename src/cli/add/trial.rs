//! A draft of the configuration, and a run of the check over one server of it before anything is
//! written.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::args::{Common, OneServer};
use crate::load::LoadedConfig;
use crate::output::{self, ExitStatus, ProgressLine};
use crate::telemetry::Telemetry;
use crate::{deck, load, signals};
use ::check::answers::AnswerScript;
use ::check::calls::PlannedCalls;
use ::check::model::ConfigReport;
use ::check::report::{ReportDetail, ReportFormat, Style};
use ::check::run::{self, Plan};
use ::check::{CheckVerdict, Report, Severity, lock};
#[cfg(feature = "tui")]
use ::check::{
    model::{Counts, DoctorStatus},
    run::CheckSignals,
};
use ::deck::{Lock, Review, TrustStore};
#[cfg(feature = "tui")]
use base::human::{Dur, count};
use base::text::path::spelled;
use base::{Redactor, SafeText, ServerName};
#[cfg(feature = "tui")]
use config::Diagnostic;
use config::{
    Edit, Environment, Loaded, apply_edit, load_text, preview_import, read_for_edit,
    write_with_backup,
};
use host::HostView;
use reach::review_of;

/// A configuration file as it is, and as it would be.
#[derive(Clone, Debug)]
pub struct FileDraft {
    /// The file.
    pub path: PathBuf,
    /// Its text; `None` when there is no such file.
    pub before: Option<String>,
    /// The new text.
    pub after: String,
}

impl FileDraft {
    /// The file that commands change: the one that is named, else the one found here, else a new
    /// `mcp.json` here.
    ///
    /// # Errors
    /// When several are named, or it cannot be read.
    pub fn open(common: &Common, env: &Environment) -> Result<Self, ExitStatus> {
        let files = load::files(common, env);
        let path = match files.as_slice() {
            [] => env.cwd.join("mcp.json"),
            [file] => env.absolute(file),
            _ => return Err(output::refuse("name one file with --config: it is changed")),
        };
        // A link is followed: its target is the file.
        let path = base::atomic::resolved(&path);
        let before = read_for_edit(&path)
            .map_err(|error| output::refuse(&format!("{}: {error}", spelled(&path))))?;
        let after = before.clone().unwrap_or_default();
        Ok(Self { path, before, after })
    }

    /// The same file with an edit.
    ///
    /// # Errors
    /// When the edit cannot be made.
    pub fn edited(&self, edits: &[Edit]) -> Result<Self, ExitStatus> {
        let mut after = self.after.clone();
        for edit in edits {
            after = apply_edit(&after, edit).map_err(|error| {
                let why = SafeText::line(&error.to_string());
                output::refuse(&format!("{}: {why}", spelled(&self.path)))
            })?;
        }
        Ok(Self { after, ..self.clone() })
    }

    /// What the text means.
    ///
    /// # Errors
    /// When it is no configuration; the problems are printed.
    pub fn loaded(&self, env: &Environment) -> Result<Loaded, ExitStatus> {
        load_text(&self.path, &self.after, env).map_err(|found| output::problems(&found))
    }

    /// What one server would run, also when it waits for an input.
    ///
    /// # Errors
    /// When its entry cannot be used; the problems are printed.
    pub fn review(&self, name: &ServerName, env: &Environment) -> Result<Review, ExitStatus> {
        review_of(&self.path, &self.after, name, env).map_err(|problems| {
            output::problems(&problems);
            output::refuse("its entry cannot be used")
        })
    }

    /// The change, secrets masked.
    pub fn patch(&self) -> String {
        let before = self.before.as_deref().unwrap_or("");
        SafeText::block(&preview_import(&self.path, before, &self.after)).to_string()
    }

    /// Writes the file, and approves these servers as they are in it now.
    ///
    /// # Errors
    /// When it has changed since, or cannot be written.
    pub fn write(self, approved: &[ServerName], env: &Environment) -> Result<(), ExitStatus> {
        let path = self.path.clone();
        let undo = write_with_backup(&self.path, self.before, self.after, env)
            .map_err(|error| output::refuse(&SafeText::line(&error.to_string())))?;
        let copy = undo.backup.map(|copy| format!("; the old one is in {}", spelled(&copy)));
        output::complain(&format!("wrote {}{}", spelled(&path), copy.unwrap_or_default()));
        if approved.is_empty() {
            return Ok(());
        }
        let loaded = load::load_files(&[path], env).map_err(|found| output::problems(&found))?;
        let loaded = loaded.with_waiting();
        if let Some(store) = TrustStore::from_env(env)
            && let Err(error) = store.approve(&loaded, approved)
        {
            output::warn(&format!("the approval was not kept: {error}"));
        }
        Ok(())
    }
}

/// What a trial saw.
#[derive(Debug)]
pub struct ServerTrial {
    /// The report.
    pub report: Report,
    /// What the server offers, when it was ready.
    pub offered: Lock,
}

impl ServerTrial {
    /// Whether the server could be started and looked at.
    pub fn is_whole(&self) -> bool {
        matches!(self.report.verdict, CheckVerdict::Ok | CheckVerdict::Violated)
    }

    /// Prints the report for people.
    pub fn print(&self, common: &Common) {
        let style = Style { colour: output::colour(common.color), detail: ReportDetail::Brief };
        output::print(&ReportFormat::Human.render(&self.report, style), ExitStatus::Ok);
    }
}

/// Starts one server of a draft, with those it depends on, checks it and stops it. `known` is what it
/// offered before.
///
/// # Errors
/// When the draft cannot be used, or a signal came.
pub fn run_trial(
    (common, telemetry): (&Common, &Telemetry),
    draft: &FileDraft,
    name: &ServerName,
    (known, env): (Option<Lock>, &Environment),
) -> Result<ServerTrial, ExitStatus> {
    let loaded = draft.loaded(env)?;
    let mut plan = trial_plan((common, telemetry.redactor()), (&draft.path, loaded), name)
        .map_err(|why| output::refuse(&why))?;
    plan.lock = known;
    let outcome = signals::block_on(async |signals| {
        let mut progress = ProgressLine::new();
        let stop = signals.stop.clone();
        let mut show = |view: &HostView| progress.show(view, stop.is_cancelled());
        run::run(plan, &signals, &mut show).await
    });
    let outcome = outcome.map_err(|error| output::refuse(&error.to_string()))?;
    if outcome.interrupted {
        return Err(deck::interrupted());
    }
    let offered = lock::renewed(Lock::default(), &outcome.subjects, |_| true);
    let mut report = outcome.report;
    // There is no lock file here: what to do about a change is asked below.
    let findings = report.servers.iter_mut().flat_map(|server| &mut server.findings);
    for finding in findings.filter(|finding| finding.rule.starts_with("lock/")) {
        finding.help.clear();
    }
    Ok(ServerTrial { report, offered })
}

/// A check of one server of a configuration, and of those it depends on.
fn trial_plan(
    (common, redactor): (&Common, &Redactor),
    (path, loaded): (&Path, Loaded),
    name: &ServerName,
) -> Result<Plan, String> {
    let left_out = loaded.reasons();
    let mut source = LoadedConfig {
        config: loaded.config,
        diagnostics: Vec::new(),
        left_out,
        path: Some(path.to_owned()),
    };
    source.narrow(&[name.as_str().to_owned()])?;
    redactor.learn(load::secrets(&source.config));
    let known = source.config.servers.keys().map(|name| name.as_str().to_owned()).collect();
    Ok(Plan {
        config: source.config,
        config_report: ConfigReport::default(),
        known,
        timeout: common.timeout,
        fail_on: Severity::Warning,
        allowed: Vec::new(),
        providers: Vec::new(),
        expectations: None,
        calls: PlannedCalls::new(),
        lock: None,
        answers: AnswerScript::default(),
        policy: Vec::new(),
        accounts: deck::accounts(common, &OneServer::default()),
        record: common.record.clone(),
        reveal: common.reveal,
    })
}

/// Checks servers that the dashboard is about to add.
#[cfg(feature = "tui")]
pub fn in_dashboard(common: &Common, telemetry: &Telemetry) -> tui::TryServer {
    // A recording of the dashboard is not one of these checks.
    let common = Common { record: None, ..common.clone() };
    let redactor = telemetry.redactor().clone();
    std::sync::Arc::new(move |trial| {
        let plan = planned(&trial, &common, &redactor);
        Box::pin(async move {
            let outcome = run::run(plan?, &CheckSignals::default(), &mut |_: &HostView| {}).await;
            Ok(reported(&outcome.report))
        })
    })
}

#[cfg(feature = "tui")]
fn planned(trial: &tui::TrialConfig, common: &Common, redactor: &Redactor) -> Result<Plan, String> {
    let in_words = |problems: Vec<Diagnostic>| {
        let all: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
        all.join("; ")
    };
    let mut env = load::environment(common).map_err(in_words)?;
    env.inputs.extend(trial.answers.iter().cloned());
    let loaded = load_text(&trial.path, &trial.text, &env).map_err(in_words)?;
    trial_plan((common, redactor), (&trial.path, loaded), &trial.name)
}

/// The report as the dashboard shows it.
#[cfg(feature = "tui")]
fn reported(report: &Report) -> tui::TrialReport {
    let is_whole = matches!(report.verdict, CheckVerdict::Ok | CheckVerdict::Violated);
    let line = |text: &str| SafeText::line(text);
    let mut findings: Vec<tui::TrialFinding> = report
        .all()
        .filter(|(_, finding)| finding.severity > Severity::Note)
        .map(|(_, finding)| tui::TrialFinding {
            severity: finding.severity,
            text: line(&finding.in_words()),
            help: line(&finding.help),
        })
        .collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let servers = &report.servers;
    let words = if is_whole {
        let sum = |of: fn(&Counts) -> usize| servers.iter().map(|one| of(&one.counts)).sum();
        let offered: [(usize, &str); 3] = [
            (sum(|counts| counts.tools), "tool"),
            (sum(|counts| counts.resources + counts.resource_templates), "resource"),
            (sum(|counts| counts.prompts), "prompt"),
        ];
        let offered = offered.iter().filter(|(n, _)| *n > 0).map(|(n, noun)| count(*n, noun));
        let offered: Vec<String> = offered.map(|text| text.to_string()).collect();
        let offered = if offered.is_empty() { "nothing".to_owned() } else { offered.join(", ") };
        format!("started in {}; it offers {offered}", Dur(report.took))
    } else {
        let failed = servers.iter().flat_map(|server| &server.steps);
        let failed = failed.into_iter().find(|step| step.status == DoctorStatus::Failed);
        failed.map_or_else(
            || "it could not be checked".to_owned(),
            |step| format!("it did not start: {}: {}", step.name, step.detail),
        )
    };
    let last_lines = servers.iter().flat_map(|server| &server.stderr_tail);
    let last_lines = last_lines.map(|text| line(text)).collect();
    tui::TrialReport { is_whole, words: line(&words), findings, last_lines }
}

/// The entry of a server as it stands in a text.
///
/// # Errors
/// When there is none; says which there are.
pub fn raw_entry(path: &Path, text: &str, name: &ServerName) -> Result<Value, String> {
    let source = config::SourceText::new(path, text);
    let root = config::read_document(config::FileFormat::Json, &source)
        .map_err(|found| found.first().map_or_else(String::new, ToString::to_string))?;
    let servers = raw_servers(&root);
    let found = servers.iter().find(|(known, _)| known == name).map(|(_, entry)| entry.clone());
    found.ok_or_else(|| {
        let names: Vec<&str> = servers.iter().map(|(name, _)| name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        format!("there is no server `{name}` in {}; there are {names}", spelled(path))
    })
}

/// The entries of a document by name, in file order.
pub fn raw_servers(root: &Value) -> Vec<(ServerName, Value)> {
    let mut out = Vec::new();
    for key in ["servers", "mcpServers"] {
        match root.get(key) {
            Some(Value::Object(map)) => {
                out.extend(map.iter().map(|(name, entry)| (ServerName::new(name), entry.clone())));
            }
            Some(Value::Array(list)) => out.extend(list.iter().filter_map(|entry| {
                Some((ServerName::new(entry.get("id")?.as_str()?), entry.clone()))
            })),
            _ => {}
        }
    }
    out
}
