//! The outcome of one operation as text or as one JSON object, secrets masked.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::{Value, json};

use super::args::Common;
use super::output::ExitStatus;
use super::{consent, deck, output, target_file};
use ::check::answers::AnswerScript;
use base::text::json as safe;
use base::{Redactor, SafeText, ServerName};
use config::error::{Error, ErrorCode, Violation};
use host::{CallOutcome, Host, ServerView, ServiceChanges};
use protocol::{Finding, FindingKind, Payload};

/// What was asked for, and how its outcome is printed.
#[derive(Clone, Copy)]
pub struct Printer<'a> {
    /// Key of the JSON object that holds `target`: `tool`, `prompt` or `uri`.
    pub noun: &'static str,
    /// What was asked for.
    pub target: &'a str,
    /// Text or JSON.
    pub format: OutcomeFormat,
    /// The file to write a result to instead of stdout.
    pub file: Option<&'a Path>,
}

/// Text or JSON.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OutcomeFormat {
    /// For people.
    Text,
    /// The result alone, as JSON.
    Result,
    /// For programs.
    Json,
}

impl From<bool> for OutcomeFormat {
    fn from(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// What is printed along with the outcome.
#[derive(Default)]
pub struct Aside {
    /// Values of the configuration to mask when a server echoes them.
    hidden: Redactor,
    /// Server and method of every request that was denied.
    denied: Vec<(String, String)>,
    /// Whether answers were given for them.
    has_answers: bool,
    /// Duration of the operation.
    took: Duration,
}

impl Aside {
    /// Collects it from a host when the work is done; `answers` has replied to its servers, `took`
    /// is the duration of the work.
    pub fn from_host(host: &Host, common: &Common, answers: &AnswerScript, took: Duration) -> Self {
        // At a terminal a person was asked what the answers left open.
        let denied = if consent::at_terminal().is_some() { Vec::new() } else { answers.denied() };
        let has_answers = !answers.is_empty();
        if common.reveal {
            return Self { hidden: Redactor::default(), denied, has_answers, took };
        }
        let view = host.view().borrow().clone();
        let secrets = view.servers.keys().flat_map(|server| host.secrets(server));
        Self { hidden: Redactor::new(secrets), denied, has_answers, took }
    }

    /// Reports every refused request on stderr: the result does not show that it was made without.
    fn complain(&self) {
        let mut denied: IndexMap<(&str, &str), usize> = IndexMap::new();
        for (server, method) in &self.denied {
            *denied.entry((server.as_str(), method.as_str())).or_default() += 1;
        }
        for ((server, method), times) in denied {
            let method = SafeText::cut(method, 60);
            let times = if times == 1 { String::new() } else { format!(" {times} times") };
            let why = if self.has_answers {
                "no answer of --answers fits"
            } else {
                "nobody answers here; give answers with --answers FILE, or call it in the dashboard"
            };
            output::complain(&format!("{server} asked for {method}{times} and was refused: {why}"));
        }
    }
}

/// Masks those values in the text, with a note on stderr when there were any. What is JSON stays so.
fn masked(text: &str, hidden: &Redactor) -> String {
    let masked = without(text, hidden);
    if masked != text {
        tell_masked();
    }
    masked.into_owned()
}

fn without<'a>(text: &'a str, hidden: &Redactor) -> Cow<'a, str> {
    let is_json = text.starts_with(['{', '[']);
    if is_json { hidden.redact_json_text(text) } else { hidden.redact(text) }
}

fn tell_masked() {
    output::complain("values of the configuration are masked in the answer; --reveal shows them");
}

impl Printer<'_> {
    /// Prints the outcome.
    pub fn finish(&self, outcome: Result<CallOutcome, Error>, aside: &Aside) -> ExitStatus {
        aside.complain();
        match outcome {
            Ok(outcome) => self.success(&outcome, aside),
            Err(error) => self.failed(&error, aside),
        }
    }

    fn success(&self, outcome: &CallOutcome, aside: &Aside) -> ExitStatus {
        let hidden = &aside.hidden;
        let exit = if outcome.is_error { ExitStatus::Failed } else { ExitStatus::Ok };
        for (what, all) in [
            ("structuredContent ", &outcome.output_violations),
            ("argument ", &outcome.guard_warnings),
        ] {
            for violation in all {
                output::complain(&format!("{what}{}: {}", violation.place(), violation.message));
            }
        }
        if !outcome.changes.is_empty() {
            output::complain(&format!("the policy service changed {}", outcome.changes.words()));
        }
        for finding in &outcome.findings {
            output::complain(&format!("{}: {}", outcome.server, finding.message));
        }
        if self.format == OutcomeFormat::Json {
            let object = Object {
                server: Some(&outcome.server),
                result: Some(&outcome.result),
                findings: findings_of(outcome),
                guard_warnings: &outcome.guard_warnings,
                changes: Some(&outcome.changes).filter(|changes| !changes.is_empty()),
                duration_ms: outcome.duration.as_millis() as u64,
                waiting_ms: outcome.waiting.as_millis() as u64,
                ..self.object(aside)
            };
            let text = masked(&(safe::compact(&object) + "\n"), hidden);
            return self.write(text.as_bytes(), exit);
        }
        if outcome.is_error {
            output::complain("the tool failed:");
        } else if self.file.is_some() {
            let is_masked = Cell::new(false);
            let shown = |text: &str| {
                let shown = without(text, hidden);
                is_masked.set(is_masked.get() || shown != text);
                shown.into_owned()
            };
            let bytes = output::bytes(&outcome.result, shown);
            if is_masked.get() {
                tell_masked();
            }
            return match bytes {
                Ok(bytes) => self.write(&bytes, exit),
                Err(message) => {
                    output::complain(&message);
                    ExitStatus::Failed
                }
            };
        }
        let text = match self.format {
            OutcomeFormat::Result => format!("{:#}", *outcome.result),
            _ => output::text(&outcome.result),
        };
        let text = masked(&text, hidden);
        // A terminal gets safe text; a file or a program gets what was sent.
        let text = if std::io::stdout().is_terminal() {
            SafeText::block(&text).as_str().to_owned()
        } else {
            text
        };
        let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        output::print(&format!("{text}{end}"), exit)
    }

    /// Writes to the requested file, else to stdout.
    fn write(&self, bytes: &[u8], exit: ExitStatus) -> ExitStatus {
        let Some(path) = self.file else { return output::print_bytes(bytes, exit) };
        let Err(message) = target_file::write(path, bytes) else {
            output::progress(&format!("wrote {} bytes to {}", bytes.len(), path.display()));
            return exit;
        };
        // The call was made, and cannot be made again for its result.
        output::complain(&format!("{message}; the result follows here"));
        if std::io::stdout().is_terminal() {
            let text = SafeText::block(&String::from_utf8_lossy(bytes));
            return output::print(&format!("{text}\n"), exit.or_failed());
        }
        output::print_bytes(bytes, exit.or_failed())
    }

    /// Unwraps the result of a step before the servers start, or prints its error.
    pub fn need<T>(&self, done: Result<T, Error>) -> Result<T, ExitStatus> {
        done.map_err(|error| self.failure(&error))
    }

    /// The exit of a run. One that a signal ended before there was an outcome still prints its object.
    pub fn ended(&self, done: Result<ExitStatus, Error>) -> ExitStatus {
        match done {
            Ok(ExitStatus::Interrupted) if self.format == OutcomeFormat::Json => {
                let error = error_json(&Error::new(ErrorCode::Cancelled, "interrupted"));
                let object = Object { error: Some(error), ..self.object(&Aside::default()) };
                output::json_line(&object, ExitStatus::Interrupted)
            }
            Ok(exit) => exit,
            Err(error) => self.failure(&error),
        }
    }

    /// Prints an error, without denied requests or a duration.
    pub fn failure(&self, error: &Error) -> ExitStatus {
        self.failed(error, &Aside::default())
    }

    fn failed(&self, error: &Error, aside: &Aside) -> ExitStatus {
        let exit = deck::exit_of(error);
        if self.format != OutcomeFormat::Json {
            deck::complain(error);
            return exit;
        }
        let (server, error) = (error.server.as_ref(), Some(error_json(error)));
        let duration_ms = aside.took.as_millis() as u64;
        output::json_line(&Object { server, error, duration_ms, ..self.object(aside) }, exit)
    }

    fn object<'a>(&'a self, aside: &Aside) -> Object<'a> {
        let denied = aside.denied.iter().map(|(_, method)| SafeText::cut(method, 60)).collect();
        let target = BTreeMap::from([(self.noun, self.target)]);
        Object { target, denied, ..Object::default() }
    }
}

/// What is printed as JSON. The result is serialized from the text it is kept as: parsing an answer
/// of millions of values into a tree would take fifty times as much memory.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Object<'a> {
    server: Option<&'a ServerName>,
    /// What was asked for, by its kind.
    #[serde(flatten)]
    target: BTreeMap<&'a str, &'a str>,
    result: Option<&'a Payload>,
    error: Option<Value>,
    findings: Vec<Value>,
    guard_warnings: &'a [Violation],
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<&'a ServiceChanges>,
    duration_ms: u64,
    waiting_ms: u64,
    denied: Vec<SafeText>,
}

/// The findings about one call.
fn findings_of(outcome: &CallOutcome) -> Vec<Value> {
    let schema = outcome.output_violations.iter().map(|violation| {
        let message = format!("structuredContent {}: {}", violation.place(), violation.message);
        json!({"kind": "output-schema", "message": message, "pointer": violation.pointer})
    });
    schema.chain(outcome.findings.iter().map(finding_json)).collect()
}

/// A finding as the JSON of every command shows it.
pub fn finding_json(finding: &Finding) -> Value {
    json!({
        "kind": finding.kind, "message": finding.message,
        "request": finding.request, "count": finding.count,
    })
}

/// Problems in the lists of a server: lists that failed or were truncated, rejected entries,
/// messages of the wrong shape.
pub fn list_findings(server: &ServerView) -> Vec<Finding> {
    let mut found: Vec<Finding> = Vec::new();
    for finding in &server.findings {
        if !found.iter().any(|other| other.message == finding.message) {
            found.push(finding.clone());
        }
    }
    if let Some(message) = unlisted_reason(server) {
        found.push(Finding::new(FindingKind::WrongShape, server.since, message));
    }
    found
}

/// Why nothing of a server was listed although it is connected.
pub fn unlisted_reason(server: &ServerView) -> Option<String> {
    let session = server.session.as_deref().filter(|s| !s.capabilities.is_object())?;
    let what = if session.capabilities.is_null() { "is missing" } else { "is not an object" };
    Some(format!("`capabilities` {what} in its handshake: nothing was listed"))
}

/// An error as the `--json` of every command shows it.
pub fn error_json(error: &Error) -> Value {
    let mut message = error.message.clone();
    for diagnostic in &error.diagnostics {
        let _ = write!(message, "; {diagnostic}");
    }
    json!({
        "code": error.code, "message": message, "server": error.server,
        "request": error.request, "candidates": error.candidates,
        "violations": error.violations, "rpc": error.rpc, "raw": error.raw,
        "help": error.clone().advised().help,
    })
}
