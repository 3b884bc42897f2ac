//! The one model behind every report format. Plain data; its JSON is fixed and has a schema.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;
use strum::IntoStaticStr;

use config::{Diagnostic, Position, Severity};

/// The verdict of a check on one server, or on all of them.
///
/// Ordered by weight: the worst of several is their maximum.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum CheckVerdict {
    /// No finding at or above the severity of `--fail-on`.
    Ok,
    /// Findings at or above the severity of `--fail-on`.
    Violated,
    /// Nothing could be established: it did not start, was not reachable, or did not answer.
    Incomplete,
    /// The arguments or the configuration cannot be used.
    Usage,
}

impl CheckVerdict {
    /// The word shown.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// The exit code of the program.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Violated => 1,
            Self::Usage => 2,
            Self::Incomplete => 3,
        }
    }
}

/// One finding of a check.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CheckFinding {
    /// Stable id of the rule.
    pub rule: Cow<'static, str>,
    /// Its severity, after the settings of the expectations file.
    pub severity: Severity,
    /// What is wrong, in a sentence; safe to print.
    pub message: String,
    /// Where: `tools/NAME#/json/pointer`, `FILE:LINE:COLUMN`, or empty for the whole server.
    #[serde(rename = "where")]
    pub place: String,
    /// What to do about it.
    pub help: String,
    /// The place in a file, for formats that point at one.
    #[serde(skip)]
    pub at: Option<Position>,
}

impl CheckFinding {
    /// Its place as a prefix of the message: `echo: `, or nothing.
    pub(super) fn prefix(&self) -> String {
        if self.place.is_empty() { String::new() } else { format!("{}: ", self.place) }
    }

    /// What is wrong and where, in one line.
    pub fn in_words(&self) -> String {
        format!("{}{}", self.prefix(), self.message)
    }

    /// Severity first (worst first), then rule, place and message: a stable order.
    pub fn order(&self, other: &Self) -> std::cmp::Ordering {
        (other.severity, &self.rule, &self.place, &self.message).cmp(&(
            self.severity,
            &other.rule,
            &other.place,
            &other.message,
        ))
    }
}

impl From<&Diagnostic> for CheckFinding {
    fn from(diagnostic: &Diagnostic) -> Self {
        let mut message = diagnostic.message.clone();
        if let Some(server) = &diagnostic.server {
            message = format!("{server}: {message}");
        }
        Self {
            rule: Cow::Owned(diagnostic.rule.clone()),
            severity: diagnostic.severity,
            message,
            place: match (diagnostic.at.line, diagnostic.at.file.as_os_str().is_empty()) {
                (0, true) => diagnostic.pointer.clone(),
                (0, false) => diagnostic.at.file.display().to_string(),
                _ => diagnostic.at.to_string(),
            },
            help: diagnostic.help.clone().unwrap_or_default(),
            at: (diagnostic.at.line > 0).then(|| diagnostic.at.clone()),
        }
    }
}

/// How a step of the connection doctor ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DoctorStatus {
    /// Done, nothing wrong.
    Ok,
    /// Failed.
    Failed,
    /// Not needed for this server.
    Skipped,
    /// Not reached, because an earlier step failed.
    Pending,
}

/// A step of the connection doctor.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorStep {
    /// Its name, for example `handshake`, or `call NAME` for a sample call.
    pub name: Cow<'static, str>,
    /// How it ended.
    pub status: DoctorStatus,
    /// How long it took, in milliseconds.
    #[serde(rename = "durationMs", serialize_with = "millis")]
    #[schemars(with = "Option<u64>")]
    pub took: Option<Duration>,
    /// What was found.
    pub detail: String,
}

/// How many entries a server listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// Tools.
    pub tools: usize,
    /// Prompts.
    pub prompts: usize,
    /// Resources.
    pub resources: usize,
    /// Resource templates.
    pub resource_templates: usize,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ProcessExit {
    /// Exit code.
    pub code: Option<i32>,
    /// Signal number.
    pub signal: Option<i32>,
}

/// The report on one server.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerReport {
    /// Its name.
    pub name: String,
    /// The verdict on it.
    pub verdict: CheckVerdict,
    /// State it reached before it was stopped.
    pub state: &'static str,
    /// How it is reached.
    pub transport: &'static str,
    /// Negotiated version.
    pub protocol_version: Option<String>,
    /// Negotiated era.
    pub era: Option<&'static str>,
    /// `serverInfo` as sent.
    pub server_info: Option<Value>,
    /// Time from the first step to the end of its stop.
    #[serde(rename = "durationMs", serialize_with = "millis")]
    #[schemars(with = "u64")]
    pub took: Duration,
    /// The connection doctor.
    pub steps: Vec<DoctorStep>,
    /// What it listed.
    pub counts: Counts,
    /// What is wrong.
    pub findings: Vec<CheckFinding>,
    /// Last lines of stderr, when it failed.
    pub stderr_tail: Vec<String>,
    /// How its process ended.
    pub exit: Option<ProcessExit>,
    /// Position of its entry in the configuration.
    #[serde(skip)]
    pub at: Option<Position>,
}

/// The configuration of a check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ConfigReport {
    /// The file, as the user named it; null for a command or URL.
    #[serde(serialize_with = "base::text::path::perhaps")]
    #[schemars(with = "Option<PathBuf>")]
    pub path: Option<PathBuf>,
    /// Its problems.
    pub findings: Vec<CheckFinding>,
}

/// The report of a check.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// Version of this JSON.
    pub schema_version: u32,
    /// The worst verdict.
    pub verdict: CheckVerdict,
    /// Its exit code.
    pub exit_code: u8,
    /// Duration of the whole run.
    #[serde(rename = "durationMs", serialize_with = "millis")]
    #[schemars(with = "u64")]
    pub took: Duration,
    /// The configuration.
    pub config: ConfigReport,
    /// Each server, in the order of the configuration.
    pub servers: Vec<ServerReport>,
    /// What is wrong across servers.
    pub findings: Vec<CheckFinding>,
    /// Lowest severity that makes the verdict `violated`.
    #[serde(skip)]
    pub fail_on: Severity,
    /// When the run began, UTC, `YYYY-MM-DDThh:mm:ss`; for formats that need a date.
    #[serde(skip)]
    pub began: String,
}

impl Report {
    /// A report without servers yet.
    pub fn new(config: ConfigReport, fail_on: Severity) -> Self {
        Self {
            schema_version: 1,
            verdict: CheckVerdict::Ok,
            exit_code: 0,
            took: Duration::ZERO,
            config,
            servers: Vec::new(),
            findings: Vec::new(),
            fail_on,
            began: "1970-01-01T00:00:00".to_owned(),
        }
    }

    /// Every finding with the server it belongs to, in a stable order.
    pub fn all(&self) -> impl Iterator<Item = (Option<&ServerReport>, &CheckFinding)> {
        let config = self.config.findings.iter().map(|f| (None, f));
        let servers =
            self.servers.iter().flat_map(|s| s.findings.iter().map(move |f| (Some(s), f)));
        config.chain(servers).chain(self.findings.iter().map(|f| (None, f)))
    }

    /// The file a finding is about, and where in it, as far as that is known.
    pub(super) fn place<'r>(
        &'r self,
        server: Option<&'r ServerReport>,
        finding: &'r CheckFinding,
    ) -> (Option<&'r Path>, Option<&'r Position>) {
        let at = finding.at.as_ref().or_else(|| server.and_then(|s| s.at.as_ref()));
        let file = at.map(|at| at.file.as_path()).or(self.config.path.as_deref());
        let file = file.filter(|file| !file.as_os_str().is_empty());
        (file, at.filter(|at| at.line > 0))
    }

    /// Sorts every list of findings and sets the verdicts: a finding at or above
    /// [`Report::fail_on`] makes it `violated`; a worse verdict is kept.
    pub fn settle(&mut self) {
        let fail_on = self.fail_on;
        let judge = |findings: &mut Vec<CheckFinding>| {
            findings.sort_by(CheckFinding::order);
            findings.dedup();
            if findings.iter().any(|f| f.severity >= fail_on) {
                CheckVerdict::Violated
            } else {
                CheckVerdict::Ok
            }
        };
        for server in &mut self.servers {
            server.verdict = server.verdict.max(judge(&mut server.findings));
        }
        let own = judge(&mut self.findings).max(judge(&mut self.config.findings));
        let worst = self.servers.iter().map(|s| s.verdict).max().unwrap_or(CheckVerdict::Ok);
        self.verdict = self.verdict.max(own).max(worst);
        self.exit_code = self.verdict.exit_code();
    }
}

/// Whole milliseconds; null where there is no time.
fn millis<S: Serializer>(
    span: &(impl Copy + Into<Option<Duration>>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let span: Option<Duration> = (*span).into();
    span.map(|span| span.as_millis() as u64).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_verdict_wins_in_the_order_usage_incomplete_violated() {
        let all = [
            CheckVerdict::Ok,
            CheckVerdict::Incomplete,
            CheckVerdict::Usage,
            CheckVerdict::Violated,
        ];
        assert_eq!(all.iter().max(), Some(&CheckVerdict::Usage));
        assert_eq!(all[..2].iter().max(), Some(&CheckVerdict::Incomplete));
        assert!(CheckVerdict::Violated < CheckVerdict::Incomplete);
        let codes: Vec<u8> = all.iter().map(|v| v.exit_code()).collect();
        assert_eq!(codes, [0, 3, 2, 1]);
    }
}
