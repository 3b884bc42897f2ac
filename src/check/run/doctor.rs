//! The connection doctor: the ordered steps of one server's run, with time and finding of each.

use std::time::Duration;

use crate::check::calls::Called;
use crate::check::model::{Step, StepStatus};
use crate::check::subject::{Subject, brief};
use crate::config::TransportKind;
use crate::host::{ServerState, ServerView, StartStep, StepStatus as Seen, StepView};
use crate::mcp::{AuthStep, FindingKind, StepKind};

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

/// All steps of one server, which made these sample calls and took so long to stop.
pub(super) fn steps(
    settled: &ServerView,
    last: &ServerView,
    subject: &Subject,
    (calls, stop): (&[Called], Option<Duration>),
) -> Vec<Step> {
    let disabled = settled.state == ServerState::Disabled;
    let first = if disabled { StepStatus::Skipped } else { StepStatus::Ok };
    let mut steps = vec![step("configuration", StepStatus::Ok), step("variables", first)];
    let mut failed = false;
    for (which, name) in ENGINE {
        let seen = settled.steps.iter().find(|s| s.step == which);
        steps.push(engine_step(name, seen, settled, failed, subject));
        failed |= steps.last().is_some_and(|s| s.status == StepStatus::Failed);
        match which {
            StartStep::FirstByte => steps.push(junk(subject, failed)),
            StartStep::Authorize => steps.extend(settled.auth_steps.iter().map(auth_step)),
            _ => {}
        }
    }
    steps.extend(calls.iter().map(|call| Step {
        name: format!("call {}", call.label).into(),
        status: if call.findings.is_empty() { StepStatus::Ok } else { StepStatus::Failed },
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

fn step(name: &'static str, status: StepStatus) -> Step {
    Step { name: name.into(), status, took: None, detail: String::new() }
}

fn engine_step(
    name: &'static str,
    seen: Option<&StepView>,
    server: &ServerView,
    failed: bool,
    subject: &Subject,
) -> Step {
    let status = match seen.map(|s| s.status) {
        Some(Seen::Ok) => StepStatus::Ok,
        Some(Seen::Failed) => StepStatus::Failed,
        // Still running when the server was given up: that is where it failed.
        Some(Seen::Running)
            if !failed
                && (server.state == ServerState::Unavailable || subject.interrupted.is_some()) =>
        {
            StepStatus::Failed
        }
        Some(Seen::Skipped) => StepStatus::Skipped,
        None if matches!(server.state, ServerState::Ready | ServerState::Disabled) => {
            StepStatus::Skipped
        }
        Some(Seen::Running) | None => StepStatus::Pending,
    };
    let detail = match (name, status) {
        // A process id differs from run to run and says nothing after it.
        ("spawn", StepStatus::Ok) => String::new(),
        ("handshake", StepStatus::Ok) => subject.protocol_version.clone().unwrap_or_default(),
        (_, StepStatus::Failed) if subject.interrupted.is_some() => "interrupted".to_owned(),
        // What the connection saw of a process that ended depends on who was faster; how the
        // process ended does not.
        (_, StepStatus::Failed) if died(subject) => subject.reason.clone().unwrap_or_default(),
        _ => seen.and_then(|s| s.detail.as_ref()).map(|d| brief(d, 400)).unwrap_or_default(),
    };
    Step { name: name.into(), status, took: seen.and_then(|s| s.took), detail }
}

fn died(subject: &Subject) -> bool {
    !subject.was_ready() && subject.exit.as_ref().is_some_and(|exit| !exit.expected)
}

/// A step of signing in: where, and how it ended. That the server asks, and that metadata is not at
/// every place where it is looked for, is no failure.
fn auth_step(step: &AuthStep) -> Step {
    let expected = match step.kind {
        StepKind::Challenge => StepStatus::Ok,
        StepKind::ResourceMetadata | StepKind::ServerMetadata => StepStatus::Skipped,
        _ => StepStatus::Failed,
    };
    let status = match step.status {
        _ if step.refused.is_some() => StepStatus::Failed,
        Some(400..) => expected,
        _ => StepStatus::Ok,
    };
    let name = format!("sign-in: {}", step.kind.as_str()).into();
    Step { name, status, took: Some(step.took), detail: brief(&step.outcome(), 400) }
}

/// Lines on stdout that are no protocol.
fn junk(subject: &Subject, failed: bool) -> Step {
    let count = subject.protocol_counts.get(&FindingKind::Junk).copied().unwrap_or(0);
    if count == 0 {
        let heard =
            subject.steps.iter().any(|s| s.step == StartStep::FirstByte && s.status == Seen::Ok);
        let status = match subject.transport.as_str() {
            "stdio" if subject.was_ready() || (heard && !failed) => StepStatus::Ok,
            "stdio" if subject.state != ServerState::Disabled => StepStatus::Pending,
            _ => StepStatus::Skipped,
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
    timed("junk", StepStatus::Failed, None, detail)
}

fn shutdown(settled: &ServerView, last: &ServerView, took: Option<Duration>) -> Step {
    if settled.state != ServerState::Ready {
        let status = match settled.state {
            ServerState::Disabled => StepStatus::Skipped,
            _ => StepStatus::Pending,
        };
        return step("shutdown", status);
    }
    if last.transport != TransportKind::Stdio {
        return timed("shutdown", StepStatus::Ok, took, "session closed".to_owned());
    }
    let Some(exit) = &last.exit else {
        return timed("shutdown", StepStatus::Failed, took, "no end was seen".to_owned());
    };
    let rung = exit.ladder.as_deref().unwrap_or("stdin");
    let clean = exit.expected && !matches!(rung, "term" | "kill") && exit.code == Some(0);
    let detail = match (exit.expected, rung) {
        (false, _) => format!("it ended by itself: {}", exit.describe()),
        (true, "term") => "stdin was closed, then SIGTERM".to_owned(),
        (true, "kill") => "stdin was closed, then SIGTERM, then SIGKILL".to_owned(),
        (true, _) => exit.describe(),
    };
    let status = if clean { StepStatus::Ok } else { StepStatus::Failed };
    timed("shutdown", status, took, detail)
}

fn leftovers(settled: &ServerView, last: &ServerView) -> Step {
    if last.transport != TransportKind::Stdio || settled.state == ServerState::Disabled {
        return step("leftovers", StepStatus::Skipped);
    }
    match last.exit.as_ref().map(|exit| exit.swept) {
        None => step("leftovers", StepStatus::Pending),
        Some(0) => step("leftovers", StepStatus::Ok),
        Some(n) => timed("leftovers", StepStatus::Failed, None, format!("{n} processes ended now")),
    }
}

fn timed(name: &'static str, status: StepStatus, took: Option<Duration>, detail: String) -> Step {
    Step { name: name.into(), status, took, detail }
}
