//! A run: starts every server, makes the sample calls, stops every server, and applies the rules.
//!
//! The only part of the check that knows the engine. Servers run concurrently and are stopped as
//! soon as no other server needs them, so that the check takes as long as the slowest one.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::answers::AnswerScript;
use crate::calls::{PlannedCall, PlannedCalls};
use crate::expect::Expectations;
use crate::model::{
    CheckFinding, CheckVerdict, ConfigReport, Counts, ProcessExit, Report, ServerReport,
};
use crate::rule::finding;
use crate::rules::{self, EarlyFindings, Measure};
use crate::run::stage::Run;
use crate::subject::CheckSubject;
use base::ServerName;
use base::text::path::spelled;
use config::error::{Error, ErrorCode};
use config::{McpConfig, Severity};
use deck::{Deck, Lock, Recorder};
use host::{Host, HostView, ServerState, ServerView, Startup};
use mcp::Accounts;
use protocol::{Direction, MessageKind};
use schema::ToolFormat;

mod doctor;
mod stage;

pub use stage::Settling;

/// Exit code of a run that was interrupted, as shells report Ctrl-C.
pub const INTERRUPTED_EXIT_CODE: u8 = 130;

/// Everything a run needs.
pub struct Plan {
    /// The servers to check, and their dependencies.
    pub config: McpConfig,
    /// The report on the configuration.
    pub config_report: ConfigReport,
    /// Every server of the configuration, including those left out of `config`.
    pub known: Vec<String>,
    /// Time limit for starts and requests, instead of the configured ones.
    pub timeout: Option<Duration>,
    /// Lowest severity that makes the verdict `violated`.
    pub fail_on: Severity,
    /// Rules that are not reported.
    pub allowed: Vec<String>,
    /// The model providers that must take the tools.
    pub providers: Vec<ToolFormat>,
    /// The expectations file.
    pub expectations: Option<Expectations>,
    /// The calls to make once their server is ready.
    pub calls: PlannedCalls,
    /// The lock file.
    pub lock: Option<Lock>,
    /// Answers to requests of servers.
    pub answers: AnswerScript,
    /// The files whose policy applies to the calls.
    pub policy: Vec<std::path::PathBuf>,
    /// The accounts to sign in with.
    pub accounts: Option<Accounts>,
    /// The new file that everything is recorded to.
    pub record: Option<std::path::PathBuf>,
    /// Whether findings may show values of the configuration that servers echo.
    pub reveal: bool,
}

impl Plan {
    fn calls_of(&self, server: &ServerName) -> &[PlannedCall] {
        self.calls.get(server.as_str()).map_or(&[], Vec::as_slice)
    }
}

/// The outcome of a run.
pub struct CheckOutcome {
    pub report: Report,
    /// What was seen, for `--lock` and `--init`.
    pub subjects: Vec<CheckSubject>,
    /// Whether it was interrupted by [`CheckSignals::stop`]; the report is then incomplete.
    pub interrupted: bool,
    /// What is wrong with the policy.
    pub notices: Vec<String>,
}

/// Tokens that end a run early.
#[derive(Clone, Debug, Default)]
pub struct CheckSignals {
    /// Shut down gracefully.
    pub stop: CancellationToken,
    /// Force the shutdown.
    pub force: CancellationToken,
}

/// Interval between two progress updates.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

impl CheckSignals {
    /// Stops every server, at once when `force` is cancelled; calls `each` every second meanwhile.
    pub async fn shut_down(&self, host: &Host, mut each: impl FnMut()) {
        let mut tick = tokio::time::interval(PROGRESS_INTERVAL);
        let stopping = host.shutdown();
        tokio::pin!(stopping);
        loop {
            tokio::select! {
                _ = &mut stopping => return,
                () = self.force.cancelled() => break,
                _ = tick.tick() => each(),
            }
        }
        host.force_shutdown();
        stopping.await;
    }
}

/// Runs the check. Calls `show` with the view whenever it changes, and every second.
pub async fn run(
    mut plan: Plan,
    signals: &CheckSignals,
    show: &mut (dyn FnMut(&HostView) + Send),
) -> CheckOutcome {
    let began = Instant::now();
    let began_at = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S").to_string();
    // The check reports the first attempt: no restarts, and no retries by default.
    plan.config.answer_once(plan.timeout);
    for server in plan.config.servers.values_mut() {
        // Ignoring a closed stdin is a finding, and the third of the shutdown time that a deck
        // waits for it is too short on a busy machine.
        let stdin = *server.stop.stdin.get_or_insert(server.shutdown_timeout * 7 / 10);
        server.stop.term.get_or_insert(server.shutdown_timeout.saturating_sub(stdin));
    }
    let engine = Host::builder()
        .startup(Startup::Background)
        .handler(plan.answers.clone())
        .accounts(plan.accounts.clone());
    let deck = Deck::builder().config(plan.config.clone()).host(engine);
    let opened = deck.policy_of(plan.policy.clone()).open().await;
    let deck = match opened {
        Ok(deck) => deck,
        Err(error) => return refused(plan, &error, began.elapsed()),
    };
    let host = deck.host().clone();
    let recorder = plan.record.as_deref().map(|path| Recorder::start(&host, path)).transpose();
    let recorder = match recorder {
        Ok(recorder) => recorder,
        Err(error) => {
            host.shutdown().await;
            let file = plan.record.as_deref().map(spelled).unwrap_or_default();
            let message = format!("cannot record to {file}: {error}");
            let error = Error::new(ErrorCode::Configuration, message)
                .help("name another file with --record");
            return refused(plan, &error, began.elapsed());
        }
    };
    let policy = deck.policy().clone();
    let notices = policy.notices();
    let (mut runs, last) = stage::play((&host, &policy), &plan, signals, show).await;
    // A recording that could not be finished does not affect the check.
    if let Some(recorder) = recorder
        && let Err(error) = recorder.finish().await
    {
        tracing::error!(target: "mcpdeck::check", "the recording was not finished: {error}");
    }
    let mut report = Report::new(plan.config_report.clone(), plan.fail_on);
    report.began = began_at;
    let mut subjects = Vec::new();
    let mut early = Vec::new();
    for (name, run) in &mut runs {
        let Some(last) = last.servers.get(name) else { continue };
        let (mut subject, server) = record(&host, last, run);
        for (_, method) in plan.answers.denied().into_iter().filter(|(s, _)| *s == subject.name) {
            *subject.denied.entry(method).or_default() += 1;
        }
        let calls = run.calls.iter().flat_map(|call| call.findings.clone()).collect();
        early.push(EarlyFindings { calls, offers: run.offers.take() });
        subjects.push(subject);
        report.servers.push(server);
    }
    // Free what the engine holds (traffic, logs, sessions) before the rules run.
    drop((runs, last, policy, host, deck));
    let expectations = plan.expectations.unwrap_or_default();
    let measure = Measure {
        expectations: &expectations,
        allowed: &plan.allowed,
        lock: plan.lock.as_ref(),
        known: &plan.known,
        providers: &plan.providers,
    };
    // On this thread: the rules are bounded by the limits of the wire and of the schemas. Those
    // on what a server offers ran while it was stopped.
    let assessment = rules::assess(&subjects, measure, early);
    for (server, findings) in report.servers.iter_mut().zip(assessment.servers) {
        server.findings = findings;
    }
    report.findings = assessment.overall;
    report.config.findings = measure.weigh(None, report.config.findings);
    report.took = began.elapsed();
    report.settle();
    let interrupted = signals.stop.is_cancelled();
    if interrupted {
        report.verdict = report.verdict.max(CheckVerdict::Incomplete);
        report.exit_code = INTERRUPTED_EXIT_CODE;
    }
    CheckOutcome { report, subjects, interrupted, notices }
}

/// The outcome when the engine could not start.
fn refused(plan: Plan, error: &Error, took: Duration) -> CheckOutcome {
    let mut report = Report::new(plan.config_report, plan.fail_on);
    report.took = took;
    if error.diagnostics.is_empty() {
        let mut found = finding("config/problem", "", error.message.clone());
        found.help = error.help.clone().unwrap_or(found.help);
        report.config.findings.push(found);
    }
    report.config.findings.extend(error.diagnostics.iter().map(CheckFinding::from));
    report.verdict = match error.code {
        ErrorCode::Configuration => CheckVerdict::Usage,
        _ => CheckVerdict::Incomplete,
    };
    report.settle();
    CheckOutcome { report, subjects: Vec::new(), interrupted: false, notices: Vec::new() }
}

/// The report of a configuration that cannot be used: nothing was started.
pub fn unusable(config: ConfigReport, fail_on: Severity) -> Report {
    let mut report = Report::new(config, fail_on);
    report.verdict = CheckVerdict::Usage;
    report.settle();
    report
}

// From the engine's view to a subject for the rules and the skeleton of a report.

/// The subject and the report of a server.
fn record(host: &Host, last: &ServerView, run: &Run) -> (CheckSubject, ServerReport) {
    let settled = run.settled.as_deref().unwrap_or(last);
    let mut subject = offered(host, last);
    subject.state = settled.state;
    subject.help = settled.help.as_ref().map(ToString::to_string);
    subject.failure.clone_from(&settled.failure);
    subject.reason = settled.reason.as_ref().map(ToString::to_string);
    subject.is_silent = last.stderr_tail.is_empty();
    subject.stdin_grace = host.server_config(&last.name).and_then(|config| config.stop.stdin);
    subject.authorization.clone_from(&run.authorization);
    subject.card.clone_from(&run.card);
    subject.interrupted.clone_from(&run.cut);
    let report = report(host, settled, last, &subject, run);
    (subject, report)
}

fn report(
    host: &Host,
    settled: &ServerView,
    last: &ServerView,
    subject: &CheckSubject,
    run: &Run,
) -> ServerReport {
    let session = last.session.as_deref();
    let failed = settled.state != ServerState::Ready && settled.state != ServerState::Disabled;
    let unreachable = subject.partial.iter().any(|(_, why)| rules::is_behind_server(why));
    let died = last.exit.as_ref().is_some_and(|exit| !exit.expected);
    let tail = if failed || died { &last.stderr_tail[..] } else { &[] };
    ServerReport {
        name: subject.name.clone(),
        // Findings may still make it worse.
        verdict: if failed || unreachable || run.cut.is_some() {
            CheckVerdict::Incomplete
        } else {
            CheckVerdict::Ok
        },
        state: settled.state.as_str(),
        transport: last.transport.as_str(),
        protocol_version: session.map(|s| s.protocol_version.to_string()),
        era: session.map(|s| match s.era {
            protocol::Era::Legacy => "legacy",
            protocol::Era::Modern => "modern",
        }),
        server_info: session.map(|s| s.server_info.as_ref().clone()),
        took: run.took(),
        steps: doctor::steps(settled, last, subject, (&run.calls, run.stop)),
        counts: Counts {
            tools: subject.tools.len(),
            prompts: subject.prompts.len(),
            resources: subject.resources.len(),
            resource_templates: subject.templates.len(),
        },
        findings: Vec::new(),
        stderr_tail: tail.iter().map(ToString::to_string).collect(),
        exit: last.exit.as_ref().map(|e| ProcessExit { code: e.code, signal: e.signal }),
        at: host.server_config(&last.name).map(|config| config.at.clone()).filter(|at| at.line > 0),
    }
}

/// The subject of a server as it is now, with its instructions as they were sent.
fn offered(host: &Host, view: &ServerView) -> CheckSubject {
    let mut subject = CheckSubject::from_view(view);
    subject.instructions = instructions_as_sent(host, &view.name).or(subject.instructions);
    subject
}

/// The instructions before sanitizing: the rules look for what that removes.
fn instructions_as_sent(host: &Host, name: &ServerName) -> Option<String> {
    let box_of = host.black_box(name)?;
    let answer = box_of.tail(64).into_iter().find(|record| {
        record.direction == Direction::In
            && record.kind == MessageKind::Response
            && !record.cut
            && matches!(record.method.as_deref(), Some("initialize" | "server/discover"))
            && record.body.contains("\"instructions\"")
    })?;
    let message: Value = serde_json::from_str(&answer.body).ok()?;
    Some(message.pointer("/result/instructions")?.as_str()?.to_owned())
}
