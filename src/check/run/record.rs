//! From the engine's view to a subject for the rules and the skeleton of a report.

use std::time::Duration;

use serde_json::Value;

use super::stage::Seen;
use super::{doctor, first_verdict};
use crate::base::ServerName;
use crate::base::Timestamp;
use crate::check::model::{Counts, Exit, ServerReport, Verdict};
use crate::check::subject::Subject;
use crate::host::{Fact, Host, ServerState, ServerView};
use crate::mcp::traffic::{Direction, MessageKind};

/// One server after the run.
pub(super) struct Recorded {
    pub(super) subject: Subject,
    pub(super) report: ServerReport,
}

/// Moments of one server, from the journal.
#[derive(Default)]
pub(super) struct Moments {
    began: Option<Timestamp>,
    stop_began: Option<Timestamp>,
    pub(super) ended: Option<Timestamp>,
}

impl Moments {
    fn of(host: &Host, name: &ServerName) -> Self {
        let mut moments = Self::default();
        // A server that failed is over: that the host stops later is no part of its time.
        let mut over = false;
        for record in host.journal() {
            if record.fact.server() != Some(name) {
                continue;
            }
            match &record.fact {
                Fact::StateChanged { state: ServerState::Starting, .. } => {
                    moments.began.get_or_insert(record.at);
                    over = false;
                }
                Fact::StateChanged { state: ServerState::Shutdown, .. } if !over => {
                    moments.stop_began.get_or_insert(record.at);
                    moments.ended = moments.ended.max(Some(record.at));
                }
                Fact::StateChanged { state: ServerState::Unavailable, .. } => {
                    moments.ended = moments.ended.max(Some(record.at));
                    over = true;
                }
                Fact::Exited { .. } => {
                    moments.ended = moments.ended.max(Some(record.at));
                }
                _ => {}
            }
        }
        moments
    }

    fn whole(&self) -> Duration {
        match (self.began, self.ended) {
            (Some(began), Some(ended)) => ended.since(began),
            _ => Duration::ZERO,
        }
    }

    pub(super) fn stop(&self) -> Option<Duration> {
        Some(self.ended?.since(self.stop_began?))
    }
}

impl Seen {
    /// What is known of a server.
    pub(super) fn record(&self, host: &Host, name: &ServerName) -> Option<Recorded> {
        let last = self.last.servers.get(name)?;
        let settled = self.settled.get(name).unwrap_or(last);
        let moments = Moments::of(host, name);
        let mut subject = Subject::from_view(last);
        subject.state = settled.state;
        subject.help = settled.help.as_ref().map(ToString::to_string);
        subject.reason = settled.reason.as_ref().map(ToString::to_string);
        subject.instructions = instructions_as_sent(host, name).or(subject.instructions);
        subject.authorization = self.authorizations.get(name).cloned().unwrap_or_default();
        subject.interrupted = self.cut.get(name).cloned();
        let mut report = report(host, settled, last, &subject, &moments);
        if subject.interrupted.is_some() {
            report.verdict = Verdict::Incomplete;
        }
        doctor::add_calls(&mut report.steps, self.calls.get(name).map_or(&[], Vec::as_slice));
        Some(Recorded { subject, report })
    }
}

fn report(
    host: &Host,
    settled: &ServerView,
    last: &ServerView,
    subject: &Subject,
    moments: &Moments,
) -> ServerReport {
    let session = last.session.as_deref();
    let failed = settled.state != ServerState::Ready && settled.state != ServerState::Disabled;
    let died = last.exit.as_ref().is_some_and(|exit| !exit.expected);
    let tail = if failed || died { &last.stderr_tail[..] } else { &[] };
    ServerReport {
        name: subject.name.clone(),
        verdict: first_verdict(settled.state),
        state: settled.state.as_str(),
        transport: last.transport.as_str(),
        protocol_version: session.map(|s| s.protocol_version.to_string()),
        era: session.map(|s| match s.era {
            crate::mcp::Era::Legacy => "legacy",
            crate::mcp::Era::Modern => "modern",
        }),
        server_info: session.map(|s| s.server_info.as_ref().clone()),
        took: moments.whole(),
        steps: doctor::steps(settled, last, subject, moments),
        counts: Counts {
            tools: subject.tools.len(),
            prompts: subject.prompts.len(),
            resources: subject.resources.len(),
            resource_templates: subject.templates.len(),
        },
        findings: Vec::new(),
        stderr_tail: tail.iter().map(ToString::to_string).collect(),
        exit: last.exit.as_ref().map(|e| Exit { code: e.code, signal: e.signal }),
        at: host.server_config(&last.name).and_then(|config| super::place_of(&config.at)),
    }
}

/// The instructions before they were made safe: the rules look for what that takes out.
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
