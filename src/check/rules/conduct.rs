//! How a server behaved: its start, what it sent against the protocol, and how it stopped.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::rule::finding;
use crate::subject::{CheckSubject, brief};
use crate::{CheckFinding, Severity};
use base::human::Dur;
use config::CONFIG_VERSIONS;
use host::{ServerState, StartCause, StartStep, StepStatus, line_help};
use protocol::{Era, FindingKind, ListKind, PartialList};

/// Checks the conduct of one server.
pub(super) fn check(subject: &CheckSubject) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    if let Some(at) = &subject.interrupted {
        let message = format!("the check was interrupted {at}");
        findings.push(finding("run/interrupted", "", message));
    } else if let Some(found) = start(subject) {
        findings.push(found);
    }
    protocol(subject, &mut findings);
    lists(subject, &mut findings);
    version(subject, &mut findings);
    stop(subject, &mut findings);
    declared(subject, &mut findings);
    findings.extend(subject.denied.iter().map(|(method, times)| denied(method, *times)));
    findings
}

/// A request that was refused: nobody answered it, or it is none that a client knows.
fn denied(method: &str, times: u64) -> CheckFinding {
    let often = if times == 1 { String::new() } else { format!(" {times} times") };
    let asked = format!("asked for {}{often} and was refused", brief(method, 60));
    if ["sampling/createMessage", "elicitation/create"].contains(&method) {
        return finding("answers/denied", "", asked);
    }
    let message = format!("{asked}: the protocol has no such request of a server");
    let mut found = finding("protocol/not-allowed", "", message);
    found.help = "ask only what the protocol has; what needs no answer, such as a line of a log, \
                  is a notification (`notifications/message`)"
        .into();
    found
}

/// The flags of each capability that lists or reports something.
const FLAGS: [(&str, &[&str]); 3] = [
    ("tools", &["listChanged"]),
    ("prompts", &["listChanged"]),
    ("resources", &["listChanged", "subscribe"]),
];

/// What capabilities hold beside their flags: definitions, and flags that are no flags.
fn declared(subject: &CheckSubject, findings: &mut Vec<CheckFinding>) {
    let all = subject.capabilities.as_deref();
    for (capability, flags) in FLAGS {
        let Some(Value::Object(members)) = all.and_then(|all| all.get(capability)) else {
            continue;
        };
        for flag in flags {
            let value = members.get(*flag).filter(|v| !v.is_boolean() && !v.is_null());
            let Some(value) = value else { continue };
            let message =
                format!("it is {}, neither true nor false", brief(&value.to_string(), 60));
            let place = format!("capabilities#/{capability}/{flag}");
            let mut found = finding("protocol/tolerated", place, message);
            found.help = "send true or false: anything else counts as false".into();
            findings.push(found);
        }
        let others = members
            .iter()
            .filter(|(key, value)| value.is_object() && !flags.contains(&key.as_str()));
        let others: Vec<String> = others.map(|(key, _)| brief(key, 40)).collect();
        if !others.is_empty() {
            let shown = others.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
            let more = if others.len() > 3 { ", ..." } else { "" };
            let count = base::human::count(others.len(), "member");
            let message = format!("it has {count} that the protocol does not know: {shown}{more}");
            let place = format!("capabilities#/{capability}");
            let mut found = finding("protocol/tolerated", place, message);
            found.help = format!("declare `{capability}` with its flags; the list has the rest");
            findings.push(found);
        }
    }
}

/// Reports that nothing was checked, which must not pass for a check that found nothing.
pub(super) fn nothing(subjects: &[CheckSubject]) -> Option<CheckFinding> {
    let off = |subject: &CheckSubject| subject.state == ServerState::Disabled;
    let message = match subjects.len() {
        0 => "there is no server to check",
        _ if subjects.iter().all(off) => "every server is disabled: nothing was checked",
        _ => return None,
    };
    Some(finding("run/nothing", "", message))
}

/// The rule that best explains why a server did not become ready.
fn start(subject: &CheckSubject) -> Option<CheckFinding> {
    if matches!(subject.state, ServerState::Ready | ServerState::Disabled) {
        return None;
    }
    let failed = subject.steps.iter().find(|s| s.status == StepStatus::Failed);
    let step = failed.map(|s| s.step);
    let detail = failed.and_then(|s| s.detail.as_deref());
    let reason = subject.reason.as_deref().or(detail).unwrap_or("it did not become ready");
    let exit = subject.exit.as_ref().filter(|exit| !exit.expected);
    // Exit codes of a shell for a program that is missing or cannot be run.
    let not_runnable = exit.is_some_and(|exit| matches!(exit.code, Some(126 | 127)));
    let is_unauthorized = subject
        .steps
        .iter()
        .any(|seen| seen.step == StartStep::Authorize && seen.status == StepStatus::Failed);
    let cause = subject.failure.as_ref().map(|failure| &failure.cause);
    let rule = if subject.state == ServerState::Waiting {
        "start/dependency"
    } else if step == Some(StartStep::Resolve) || not_runnable {
        "start/executable"
    } else if is_unauthorized {
        "start/unauthorized"
    } else if exit.is_some() {
        "start/exited"
    } else {
        match cause {
            Some(StartCause::TimedOut) => "start/timeout",
            Some(StartCause::Exited) => "start/exited",
            Some(StartCause::Launch(_) | StartCause::Address(_) | StartCause::Other) | None => {
                "start/failed"
            }
        }
    };
    let mut found = finding(rule, "", brief(reason, 600));
    if let Some(exit) = exit.filter(|_| rule == "start/exited")
        && !found.message.contains(&exit.describe())
    {
        found.message = format!("{} ({})", found.message, exit.describe());
    }
    if let Some(help) = &subject.help {
        found.help = brief(help, 400);
    } else if rule == "start/exited" && subject.is_silent {
        found.help = "it wrote nothing to stderr: run its command in a terminal, or look in its \
                      documentation for how it logs more"
            .into();
    }
    Some(found)
}

/// One finding per rule, with the count and the first case.
fn protocol(subject: &CheckSubject, findings: &mut Vec<CheckFinding>) {
    let mut by_rule: BTreeMap<&'static str, (u64, String, Option<String>)> = BTreeMap::new();
    for (kind, times) in &subject.protocol_counts {
        let Some(mut rule) = rule_of(*kind) else { continue };
        let junk = *kind == FindingKind::Junk && subject.transport == "stdio";
        if *kind == FindingKind::Junk && !junk {
            rule = "protocol/malformed";
        }
        let first = subject.protocol.iter().find(|f| f.kind == *kind);
        let mut message = first.map_or_else(String::new, |f| f.message.to_string());
        if let Some(request) = first.and_then(|f| f.request.as_ref())
            && !message.contains(request.as_str())
        {
            message = format!("{message} ({request})");
        }
        if let Some(raw) = first.map(|f| &f.raw).filter(|raw| !raw.is_empty())
            && !message.contains(brief(raw, 60).trim_end_matches('…'))
        {
            message = format!("{message}: `{}`", brief(raw, 120));
        }
        // Of several lines only the first is quoted: what they all are stands before it.
        let line = first.map(|f| &f.raw).filter(|raw| junk && !raw.is_empty());
        let line = line.map(|raw| format!("`{}`", brief(raw, 120)));
        let entry = by_rule.entry(rule).or_insert((0, message, line));
        entry.0 += times;
    }
    for (rule, (times, message, line)) in by_rule {
        let junk = rule == "stdout/pollution";
        let message = match (junk, times) {
            (_, 1) => message,
            (true, n) => {
                let first = line.unwrap_or(message);
                format!("{n} lines on stdout are not JSON-RPC; the first: {first}")
            }
            (false, n) => format!("{n} times; the first: {message}"),
        };
        let mut found = finding(rule, "", brief(&message, 600));
        let mut lines = subject.protocol.iter().filter(|found| found.kind == FindingKind::Junk);
        if let Some(help) = lines.find_map(|found| line_help(&found.raw)).filter(|_| junk) {
            found.help = help;
        }
        if rule == "protocol/malformed" && subject.transport != "stdio" {
            found.help = "send one JSON-RPC 2.0 object, UTF-8, as each body, event or frame".into();
        }
        findings.push(found);
    }
}

/// `None` for kinds that other rules report with more detail, and for what is no fault of the server.
const fn rule_of(kind: FindingKind) -> Option<&'static str> {
    Some(match kind {
        FindingKind::Junk => "stdout/pollution",
        FindingKind::Malformed => "protocol/malformed",
        FindingKind::TooLarge => "protocol/too-large",
        FindingKind::UnknownId | FindingKind::DuplicateAnswer => "protocol/unknown-answer",
        FindingKind::LateAnswer => "protocol/late-answer",
        FindingKind::WrongShape => "protocol/wrong-shape",
        FindingKind::NotAllowed => "protocol/not-allowed",
        FindingKind::Flood => "protocol/flood",
        FindingKind::Tolerated => "protocol/tolerated",
        FindingKind::BadEntry
        | FindingKind::PartialList
        | FindingKind::Version
        | FindingKind::Leftover
        | FindingKind::AskedAfterClose
        | FindingKind::Collision => return None,
    })
}

/// What servers say when something behind them is out of reach: the network, an address, the program
/// there, or what opens it, which is not theirs to mend.
const UNREACHABLE: &[&str] = &[
    "econnrefused",
    "econnreset",
    "enotfound",
    "eai_again",
    "etimedout",
    "ehostunreach",
    "enetunreach",
    "fetch failed",
    "getaddrinfo",
    "connection refused",
    "connection reset by peer",
    "name or service not known",
    "name resolution",
    "could not connect to server",
    "network is unreachable",
    "no route to host",
    "max retries exceeded",
    "socket hang up",
    "all connection attempts failed",
    "connection timed out",
    "connect timeout",
    "connection attempt timed out",
    "server selection timed out",
    "temporary failure in name",
    "nodename nor servname",
    "no such host",
    "dial tcp",
    "actively refused",
    "econnaborted",
    "bad gateway",
    "service unavailable",
    "gateway timeout",
    "certificate verify failed",
    "self-signed certificate",
    "self signed certificate",
    "unable to verify the first certificate",
    "certificate has expired",
    "certificate signed by unknown authority",
    // It is reached, and refuses who asks.
    "password authentication failed",
    "authentication failed",
    "access denied for user",
    "unauthorized",
    "status code 401",
    "status code 403",
    "invalid api key",
    "invalid_api_key",
    "invalid token",
    "bad credentials",
    "no credentials",
    "missing credentials",
    "unable to locate credentials",
    // Nobody has said where it is.
    "missing required database configuration",
    "missing required configuration",
    "missing required environment",
    "environment variable",
    "api key is required",
    "api key not",
    "api key is not",
    "no api key",
    "missing api key",
    "not configured",
];

/// Whether a list failed because of something behind the server, by the server's own words.
pub fn is_behind_server(reason: &PartialList) -> bool {
    let message = match reason {
        PartialList::PageFailed { message, .. } | PartialList::Refused(message) => message,
        PartialList::Entries(_)
        | PartialList::Pages(_)
        | PartialList::Bytes(_)
        | PartialList::CursorAgain { .. } => return false,
    };
    let message = message.to_ascii_lowercase();
    UNREACHABLE.iter().any(|word| message.contains(word))
}

fn lists(subject: &CheckSubject, findings: &mut Vec<CheckFinding>) {
    // `name/duplicate` reports a name that is taken.
    for entry in subject.rejected.iter().filter(|entry| !entry.is_repeated()) {
        let name = entry.raw.get("name").or_else(|| entry.raw.get("uri")).and_then(Value::as_str);
        let named = name.map(|n| format!(" `{}`", brief(n, 60))).unwrap_or_default();
        let place = format!("{}/{}", entry.list.key(), entry.index);
        let message = format!("entry {}{named} is malformed: {}", entry.index, entry.reason);
        findings.push(finding("list/bad-entry", place, brief(&message, 400)));
    }
    for (list, reason) in &subject.partial {
        let shown = brief(&reason.to_string(), 300);
        if is_behind_server(reason) {
            let message = format!("{}: {shown}", list.method());
            findings.push(finding("list/unreachable", list.key(), message));
            continue;
        }
        let message = format!("{} is not complete: {shown}", list.method());
        let mut found = finding("list/partial", list.key(), message);
        if let Some(help) = whole(*list, reason) {
            found.help = help;
        }
        findings.push(found);
    }
    for (place, fields) in &subject.changed {
        let message = format!("changed while it was looked at, in {fields}");
        findings.push(finding("list/unstable", place.clone(), message));
    }
    // A server that declares `resources` need not have templates.
    let method = ListKind::ResourceTemplates.method();
    let templates = |f: &&protocol::Finding| {
        f.kind == FindingKind::PartialList && f.request.as_deref() == Some(method)
    };
    if let Some(earlier) = subject.protocol.iter().find(templates)
        && !subject.partial.iter().any(|(list, _)| *list == ListKind::ResourceTemplates)
    {
        let place = ListKind::ResourceTemplates.key();
        let mut found = finding("list/partial", place, earlier.message.to_string());
        found.severity = Severity::Note;
        found.help = format!("nothing is missing; a server answers `{method}` with an empty list");
        findings.push(found);
    }
}

/// Help for an incomplete list, unless its pages are the cause.
fn whole(list: ListKind, reason: &PartialList) -> Option<String> {
    Some(match reason {
        PartialList::Entries(_) => {
            "offer fewer, or raise `limits.listEntries` of the server".to_owned()
        }
        PartialList::Pages(_) => {
            "use larger pages, or raise `limits.listPages` of the server".to_owned()
        }
        PartialList::Bytes(_) => {
            "offer fewer or shorter entries, or raise `limits.lineBytes` of the server".to_owned()
        }
        PartialList::Refused(_) => {
            format!("answer `{}` with a list, or do not declare it", list.method())
        }
        PartialList::CursorAgain { .. } | PartialList::PageFailed { .. } => return None,
    })
}

fn version(subject: &CheckSubject, findings: &mut Vec<CheckFinding>) {
    let Some(version) = subject.protocol_version.as_deref() else { return };
    let earlier = subject.protocol.iter().find(|f| f.kind == FindingKind::Version);
    if let Some(earlier) = earlier {
        findings.push(finding("protocol/version", "", brief(&earlier.message, 300)));
    } else if !CONFIG_VERSIONS.contains(&version) {
        let message = format!("version `{}` is not one the specification has", brief(version, 40));
        findings.push(finding("protocol/version", "", message));
    }
    let mut deprecated = |message: String| {
        findings.push(finding("protocol/deprecated", "", message));
    };
    if subject.transport == "sse" && version >= "2025-03-26" {
        deprecated(format!("HTTP+SSE was replaced by Streamable HTTP before {version}"));
    }
    let offers = |key: &str| {
        subject.capabilities.as_ref().is_some_and(|c| c.get(key).is_some_and(|v| !v.is_null()))
    };
    if subject.era == Some(Era::Modern) && offers("logging") {
        deprecated(format!("`logging` is deprecated in {version}: write to stderr or use tracing"));
    }
    if subject.tools().any(|tool| tool.raw.get("execution").is_some()) && version >= "2026-07-28" {
        deprecated(format!(
            "`execution` of tools belongs to the tasks of 2025-11-25, not to {version}"
        ));
    }
}

fn stop(subject: &CheckSubject, findings: &mut Vec<CheckFinding>) {
    let seen = |kind| subject.protocol.iter().find(|f| f.kind == kind);
    let exit = subject.exit.as_ref();
    if subject.was_ready()
        && let Some(exit) = exit.filter(|exit| !exit.expected)
    {
        let message = format!("the process ended by itself: {}", exit.describe());
        findings.push(finding("stop/unexpected-exit", "", message));
    }
    let ladder = exit.filter(|e| e.expected).and_then(|e| e.ladder.as_deref());
    let signalled = ladder.filter(|rung| matches!(*rung, "term" | "kill"));
    if let (true, Some(_), Some(asked)) =
        (subject.was_ready(), signalled, seen(FindingKind::AskedAfterClose))
    {
        // The check closed stdin first, and did not wait for a server that waits for an answer.
        let end = if signalled == Some("kill") { "SIGKILL" } else { "SIGTERM" };
        let message = format!("{}; {end} ended it", asked.message);
        findings.push(finding("stop/waits-for-answer", "", message));
    } else if subject.was_ready() && signalled.is_some() {
        let end = if signalled == Some("kill") { "SIGKILL" } else { "SIGTERM" };
        let grace = subject.stdin_grace.map(|grace| format!("within {}", Dur(grace)));
        let grace = grace.as_deref().unwrap_or("in the time it has");
        let message = format!("it did not exit {grace} after its stdin closed; {end} ended it");
        findings.push(finding("stop/ignored-stdin", "", message));
    } else if subject.was_ready()
        && let Some(exit) = exit.filter(|e| e.expected && (e.code.unwrap_or(1) != 0))
    {
        let message = format!("closing stdin ended it with {}", exit.describe());
        findings.push(finding("stop/exit-code", "", message));
    }
    let swept = exit.map_or(0, |exit| exit.swept);
    if swept > 0 || seen(FindingKind::Leftover).is_some() {
        let message = match (swept, seen(FindingKind::Leftover)) {
            (0, Some(earlier)) => brief(&earlier.message, 300),
            (1, _) => "one process was still running after the server had ended".to_owned(),
            (n, _) => format!("{n} processes were still running after the server had ended"),
        };
        findings.push(finding("stop/leftover", "", message));
    }
}
