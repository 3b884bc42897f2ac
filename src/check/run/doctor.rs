//! The connection doctor: the ordered steps of one server's run, each with its time and result.

use std::time::Duration;

use crate::calls::Called;
use crate::model::{DoctorStatus, DoctorStep};
use crate::subject::{CheckSubject, brief};
use config::TransportKind;
use host::{ServerState, ServerView, StartStep, StepStatus, StepView};
use mcp::{AuthStep, StepKind};
use protocol::FindingKind;

/// Steps of the engine under the names of the report, in order.
const ENGINE: [(StartStep, &str); 9] = [
    (StartStep::Resolve, "executable"),
    (StartStep::Spawn, "spawn"),
    (StartStep::FirstByte, "firstByte"),
    (StartStep::Handshake, "handshake"),
    (StartStep::Authorize, "authorization"),
    (StartStep::Tools, "tools"),
    (StartStep::Prompts, "prompts"),
    (StartStep::Resources, "resources"),
    (StartStep::ResourceTemplates, "resourceTemplates"),
];

/// All steps of one server, including its sample calls and the time its stop took.
pub(super) fn steps(
    settled: &ServerView,
    last: &ServerView,
    subject: &CheckSubject,
    (calls, stop): (&[Called], Option<Duration>),
) -> Vec<DoctorStep> {
    let disabled = settled.state == ServerState::Disabled;
    let first = if disabled { DoctorStatus::Skipped } else { DoctorStatus::Ok };
    let mut steps = vec![step("configuration", DoctorStatus::Ok), step("variables", first)];
    let mut failed = false;
    for (which, name) in ENGINE {
        let seen = settled.steps.iter().find(|s| s.step == which);
        steps.push(engine_step(name, seen, settled, failed, subject));
        failed |= steps.last().is_some_and(|s| s.status == DoctorStatus::Failed);
        match which {
            StartStep::FirstByte => steps.push(junk(subject, failed)),
            StartStep::Authorize => steps.extend(settled.auth_steps.iter().map(auth_step)),
            _ => {}
        }
    }
    steps.extend(calls.iter().map(|call| DoctorStep {
        name: format!("call {}", call.label).into(),
        status: if call.findings.is_empty() { DoctorStatus::Ok } else { DoctorStatus::Failed },
        took: Some(call.took),
        detail: call.findings.first().map(|f| brief(&f.message, 200)).unwrap_or_default(),
    }));
    steps.push(shutdown(settled, last, stop));
    steps.push(leftovers(settled, last));
    steps
}

/// The name of a step of the engine in reports.
pub(super) fn name_of(step: StartStep) -> &'static str {
    ENGINE.iter().find(|(which, _)| *which == step).map_or("start", |(_, name)| name)
}

fn step(name: &'static str, status: DoctorStatus) -> DoctorStep {
    DoctorStep { name: name.into(), status, took: None, detail: String::new() }
}

fn engine_step(
    name: &'static str,
    seen: Option<&StepView>,
    server: &ServerView,
    failed: bool,
    subject: &CheckSubject,
) -> DoctorStep {
    let status = match seen.map(|s| s.status) {
        Some(StepStatus::Ok) => DoctorStatus::Ok,
        Some(StepStatus::Failed) => DoctorStatus::Failed,
        // Still running when the start was abandoned: that is where it failed.
        Some(StepStatus::Running)
            if !failed
                && (server.state == ServerState::Unavailable || subject.interrupted.is_some()) =>
        {
            DoctorStatus::Failed
        }
        Some(StepStatus::Skipped) => DoctorStatus::Skipped,
        None if matches!(server.state, ServerState::Ready | ServerState::Disabled) => {
            DoctorStatus::Skipped
        }
        Some(StepStatus::Running) | None => DoctorStatus::Pending,
    };
    let detail = match (name, status) {
        // A process id differs in each run and is useless afterwards.
        ("spawn", DoctorStatus::Ok) => String::new(),
        ("handshake", DoctorStatus::Ok) => subject.protocol_version.clone().unwrap_or_default(),
        (_, DoctorStatus::Failed) if subject.interrupted.is_some() => "interrupted".to_owned(),
        // What the connection reports of a process that ended depends on timing; the exit of the
        // process does not.
        (_, DoctorStatus::Failed) if died(subject) => subject.reason.clone().unwrap_or_default(),
        _ => seen.and_then(|s| s.detail.as_ref()).map(|d| brief(d, 400)).unwrap_or_default(),
    };
    DoctorStep { name: name.into(), status, took: seen.and_then(|s| s.took), detail }
}

fn died(subject: &CheckSubject) -> bool {
    !subject.was_ready() && subject.exit.as_ref().is_some_and(|exit| !exit.expected)
}

/// A step of signing in: where, and how it ended. A challenge of the server, or metadata that is
/// missing at one of its possible places, is not a failure.
fn auth_step(step: &AuthStep) -> DoctorStep {
    let expected = match step.kind {
        StepKind::Challenge | StepKind::Client => DoctorStatus::Ok,
        StepKind::ResourceMetadata | StepKind::ServerMetadata => DoctorStatus::Skipped,
        _ => DoctorStatus::Failed,
    };
    let status = match step.status {
        _ if step.refused.is_some() => DoctorStatus::Failed,
        Some(400..) => expected,
        _ => DoctorStatus::Ok,
    };
    let name = format!("sign-in: {}", step.kind.as_str()).into();
    DoctorStep { name, status, took: Some(step.took), detail: brief(&step.outcome(), 400) }
}

/// Lines on stdout that are not protocol messages.
fn junk(subject: &CheckSubject, failed: bool) -> DoctorStep {
    let count = subject.protocol_counts.get(&FindingKind::Junk).copied().unwrap_or(0);
    if count == 0 {
        let saw_output = subject
            .steps
            .iter()
            .any(|s| s.step == StartStep::FirstByte && s.status == StepStatus::Ok);
        let status = match subject.transport.as_str() {
            "stdio" if subject.was_ready() || (saw_output && !failed) => DoctorStatus::Ok,
            "stdio" if subject.state != ServerState::Disabled => DoctorStatus::Pending,
            _ => DoctorStatus::Skipped,
        };
        return step("junk", status);
    }
    let first = subject.protocol.iter().find(|f| f.kind == FindingKind::Junk);
    let line = first.map(|f| if f.raw.is_empty() { &f.message } else { &f.raw });
    let lines = if count == 1 { "line" } else { "lines" };
    let detail = match line {
        Some(line) => format!("{count} {lines}; the first: `{}`", brief(line, 200)),
        None => format!("{count} {lines}"),
    };
    timed("junk", DoctorStatus::Failed, None, detail)
}

fn shutdown(settled: &ServerView, last: &ServerView, took: Option<Duration>) -> DoctorStep {
    if settled.state != ServerState::Ready {
        let status = match settled.state {
            ServerState::Disabled => DoctorStatus::Skipped,
            _ => DoctorStatus::Pending,
        };
        return step("shutdown", status);
    }
    if last.transport != TransportKind::Stdio {
        return timed("shutdown", DoctorStatus::Ok, took, "session closed".to_owned());
    }
    let Some(exit) = &last.exit else {
        return timed("shutdown", DoctorStatus::Failed, took, "no exit was seen".to_owned());
    };
    let rung = exit.ladder.as_deref().unwrap_or("stdin");
    let clean = exit.expected && !matches!(rung, "term" | "kill") && exit.code == Some(0);
    let detail = match (exit.expected, rung) {
        (false, _) => format!("it ended by itself: {}", exit.describe()),
        (true, "term") => "stdin was closed, then SIGTERM".to_owned(),
        (true, "kill") => "stdin was closed, then SIGTERM, then SIGKILL".to_owned(),
        (true, _) => exit.describe(),
    };
    let status = if clean { DoctorStatus::Ok } else { DoctorStatus::Failed };
    timed("shutdown", status, took, detail)
}

fn leftovers(settled: &ServerView, last: &ServerView) -> DoctorStep {
    if last.transport != TransportKind::Stdio || settled.state == ServerState::Disabled {
        return step("leftovers", DoctorStatus::Skipped);
    }
    match last.exit.as_ref().map(|exit| exit.swept) {
        None => step("leftovers", DoctorStatus::Pending),
        Some(0) => step("leftovers", DoctorStatus::Ok),
        Some(n) => {
            timed("leftovers", DoctorStatus::Failed, None, format!("{n} processes ended now"))
        }
    }
}

fn timed(
    name: &'static str,
    status: DoctorStatus,
    took: Option<Duration>,
    detail: String,
) -> DoctorStep {
    DoctorStep { name: name.into(), status, took, detail }
}
