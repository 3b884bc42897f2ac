//! The projector: the one task that numbers facts, folds them into the view and publishes both.
//!
//! Facts arrive over one bounded channel from every actor; whoever produces too many waits for a
//! place, and nobody else does (invariant 6). The view is published once per batch, so a burst costs
//! its readers one wake-up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use crate::base::human::{Dur, count};
use crate::base::logs::{LogRecord, LogSource};
use crate::base::ring::Ring;
use crate::base::text::SafeText;
use crate::base::{Clock, Timestamp};
use crate::base::{LogLevel, ServerName};
use crate::host::journal::Journal;
use crate::host::view::StepStatus;
use crate::host::{Fact, HostView, Record, ServerState};

/// Facts that may wait for the projector.
const WAITING: usize = 1_024;

enum Message {
    Fact(Timestamp, Box<Fact>),
    Flush(oneshot::Sender<()>),
}

/// Where facts go in. Cheap to clone.
#[derive(Clone)]
pub struct Facts {
    sender: mpsc::Sender<Message>,
    clock: Clock,
}

impl Facts {
    /// Records a fact; waits for a place when many are waiting.
    pub async fn record(&self, fact: Fact) {
        let _ = self.sender.send(Message::Fact(self.clock.now(), Box::new(fact))).await;
    }

    /// Records a fact from where nothing can wait. Overflow policy: a task waits instead, so the
    /// fact is not lost, only later than facts that found a place.
    pub fn post(&self, fact: Fact) {
        let message = Message::Fact(self.clock.now(), Box::new(fact));
        if let Err(mpsc::error::TrySendError::Full(message)) = self.sender.try_send(message) {
            let sender = self.sender.clone();
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    let _ = sender.send(message).await;
                });
            }
        }
    }

    /// Returns when every fact recorded before is in the view.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        if self.sender.send(Message::Flush(done)).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// The host's time.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

/// What the projector keeps up to date.
pub struct Projection {
    /// Where facts go in.
    pub facts: Facts,
    /// The view now, and every later one.
    pub view: watch::Receiver<Arc<HostView>>,
    /// The newest facts.
    pub journal: Arc<Journal>,
}

/// Starts the projector on the current runtime. It ends when the last [`Facts`] is dropped.
pub fn start(clock: Clock, logs: Ring<LogRecord>) -> Projection {
    let (sender, receiver) = mpsc::channel(WAITING);
    let (publish, view) = watch::channel(Arc::new(HostView::default()));
    let journal = Arc::new(Journal::default());
    tokio::spawn(run(receiver, publish, Arc::clone(&journal), logs));
    Projection { facts: Facts { sender, clock }, view, journal }
}

async fn run(
    mut receiver: mpsc::Receiver<Message>,
    publish: watch::Sender<Arc<HostView>>,
    journal: Arc<Journal>,
    logs: Ring<LogRecord>,
) {
    let mut view = HostView::default();
    let mut sessions = HashMap::new();
    let mut batch = Vec::new();
    while receiver.recv_many(&mut batch, WAITING).await > 0 {
        let mut flushed = Vec::new();
        let before = view.seq;
        for message in batch.drain(..) {
            match message {
                Message::Flush(done) => flushed.push(done),
                Message::Fact(at, fact) => {
                    let record = Record { seq: view.seq + 1, at, fact: *fact };
                    view.apply(&record);
                    note(&record, &mut sessions, &logs);
                    journal.push(Arc::new(record));
                }
            }
        }
        if view.seq != before {
            publish.send_replace(Arc::new(view.clone()));
        }
        for done in flushed {
            let _ = done.send(());
        }
    }
}

/// Every fact is one structured record of the log (requirement O2), and the ones a person would
/// ask about stand in the log ring too. `sessions` counts the starts of each server.
fn note(record: &Record, sessions: &mut HashMap<ServerName, u64>, logs: &Ring<LogRecord>) {
    let fact = &record.fact;
    let session_id = fact.server().map(|server| {
        let count = sessions.entry(server.clone()).or_default();
        *count +=
            u64::from(matches!(fact, Fact::StateChanged { state: ServerState::Starting, .. }));
        *count
    });
    let server = fact.server().map(ServerName::as_str);
    let described = describe(fact);
    let (level, text) = described.clone().unwrap_or_else(|| quiet(fact));
    let (status, took) = status(fact);
    let attempt = match fact {
        Fact::StateChanged { attempt: attempt @ 2.., .. } => Some(*attempt),
        _ => None,
    };
    let (action, duration_ms) = (fact.name(), took.map(|took| took.as_secs_f64() * 1e3));
    macro_rules! log {
        ($level:ident) => {
            tracing::event!(
                target: "mcpdeck::fact", tracing::Level::$level, seq = record.seq, server,
                session_id, action, status, attempt, duration_ms, "{text}"
            )
        };
    }
    match level {
        LogLevel::Error => log!(ERROR),
        LogLevel::Warning => log!(WARN),
        LogLevel::Info => log!(INFO),
        LogLevel::Debug => log!(DEBUG),
        _ => log!(TRACE),
    }
    if let Fact::ConfigRejected { diagnostics } = fact {
        for problem in diagnostics {
            let (at, text) = (problem.at.to_string(), &problem.message);
            tracing::error!(target: "mcpdeck::fact", action, at, status = problem.rule, "{text}");
        }
    }
    if described.is_some() && level != LogLevel::Debug {
        logs.push(Arc::new(LogRecord {
            at: record.at,
            server: fact.server().cloned(),
            source: LogSource::Host,
            level,
            logger: None,
            text: SafeText::line(&text),
        }));
    }
}

/// How what happened ended, in a word, and how long it took.
fn status(fact: &Fact) -> (Option<&str>, Option<Duration>) {
    match fact {
        Fact::StateChanged { state, .. } => (Some(state.as_str()), None),
        Fact::StepChanged { status, took, .. } => {
            let status = match status {
                StepStatus::Running => "running",
                StepStatus::Ok => "ok",
                StepStatus::Failed => "failed",
                StepStatus::Skipped => "skipped",
            };
            (Some(status), *took)
        }
        Fact::Exited { exit, .. } => {
            (Some(if exit.expected { "expected" } else { "unexpected" }), None)
        }
        Fact::BreakerChanged { breaker, .. } => {
            (Some(if breaker.is_closed() { "closed" } else { "open" }), None)
        }
        Fact::RequestSettled { after, .. } => (Some("settled"), Some(*after)),
        Fact::BuildEnded { took, .. } => (None, Some(*took)),
        Fact::ConfigRejected { .. } => (Some("refused"), None),
        _ => (None, None),
    }
}

/// The records that only the log file has.
fn quiet(fact: &Fact) -> (LogLevel, String) {
    match fact {
        Fact::ConfigLoaded { order, .. } => {
            (LogLevel::Info, format!("configuration with {} servers", order.len()))
        }
        Fact::Connected { session, .. } => {
            let version = &session.protocol_version;
            (LogLevel::Info, format!("connected with protocol {version}"))
        }
        Fact::Listed { capabilities: all, changes: None, .. } => (
            LogLevel::Info,
            format!(
                "{} tools, {} prompts, {} resources, {} resource templates",
                all.tools.len(),
                all.prompts.len(),
                all.resources.len(),
                all.templates.len()
            ),
        ),
        Fact::StepChanged { step, detail, .. } => {
            let detail = detail.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
            (LogLevel::Debug, format!("{step:?}{detail}"))
        }
        Fact::ServerAdded { target, .. } => (LogLevel::Debug, target.to_string()),
        Fact::ShutdownBegan => (LogLevel::Info, "the host is stopping".to_owned()),
        fact => (LogLevel::Trace, fact.name().to_owned()),
    }
}

fn describe(fact: &Fact) -> Option<(LogLevel, String)> {
    Some(match fact {
        Fact::StateChanged { state, reason, .. } => {
            let level = match state {
                ServerState::Unavailable => LogLevel::Warning,
                _ => LogLevel::Info,
            };
            let why = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            (level, format!("{}{why}", state.as_str()))
        }
        Fact::Exited { exit, .. } => {
            let level = if exit.expected { LogLevel::Info } else { LogLevel::Warning };
            (level, exit.describe())
        }
        Fact::Found { finding, .. } => (LogLevel::Warning, finding.message.to_string()),
        Fact::BreakerChanged { tool, breaker, .. } => {
            let what = tool.as_ref().map_or_else(|| "server".to_owned(), |t| format!("tool {t}"));
            let how = if breaker.is_closed() { "closed" } else { "open" };
            (LogLevel::Warning, format!("breaker of {what} is {how}"))
        }
        Fact::Listed { changes: Some(changes), .. } => (
            LogLevel::Info,
            format!(
                "lists changed: {} added, {} removed, {} changed",
                changes.added.len(),
                changes.removed.len(),
                changes.changed.len()
            ),
        ),
        Fact::RequestArrived { request } => {
            let during = request.during.as_ref();
            let during = during.map(|of| format!(" during {of}")).unwrap_or_default();
            let (id, method) = (request.id, request.kind.method());
            (LogLevel::Info, format!("request {id} asks: {method}{during}"))
        }
        Fact::RequestSettled { id, settlement, after, .. } => {
            (LogLevel::Info, format!("request {id} {settlement} after {}", Dur(*after)))
        }
        Fact::RequestExtended { id, .. } => (LogLevel::Info, format!("request {id} got more time")),
        Fact::RootsShared { roots, .. } => {
            let uris: Vec<&str> = roots.iter().map(|root| root.uri.as_str()).collect();
            let what = if uris.is_empty() { "none".to_owned() } else { uris.join(", ") };
            (LogLevel::Info, format!("shared roots: {what}"))
        }
        Fact::ApprovalRuleSet { kind, rule, .. } => {
            let method = kind.method();
            let rule = rule.as_ref();
            let rule = rule.map_or_else(|| "as its entry says".to_owned(), ToString::to_string);
            (LogLevel::Info, format!("`{method}` is decided for this session: {rule}"))
        }
        Fact::TaskFailed { task, message } => (LogLevel::Error, format!("{task}: {message}")),
        Fact::ConfigRejected { diagnostics } => (
            LogLevel::Error,
            format!("configuration refused: {}", count(diagnostics.len(), "problem")),
        ),
        Fact::Reloaded { added, removed, changed, kept, followed } => {
            let others = match followed.len() {
                0 => String::new(),
                others => format!(", {others} of them with other settings"),
            };
            let text = format!(
                "configuration reloaded: {} added, {} removed, {} restarted, {} kept{others}",
                added.len(),
                removed.len(),
                changed.len(),
                kept.len()
            );
            (LogLevel::Info, text)
        }
        Fact::Spawned { pid, .. } => (LogLevel::Debug, format!("pid {pid}")),
        Fact::CallsCancelled { calls, reason, .. } => {
            let calls: Vec<&str> = calls.iter().map(SafeText::as_str).collect();
            (LogLevel::Warning, format!("cancelled {}: {reason}", calls.join(", ")))
        }
        fact => return crate::host::dev::describe(fact),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn facts_are_numbered_without_gaps_and_a_flush_sees_them_in_the_view() {
        let projection = start(Clock::system(), Ring::new(10, 10_000));
        for _ in 0..5_000 {
            projection.facts.record(Fact::ShutdownBegan).await;
        }
        projection.facts.flush().await;
        assert_eq!(projection.view.borrow().seq, 5_000);
        let seqs: Vec<u64> = projection.journal.records().iter().map(|r| r.seq).collect();
        assert_eq!(seqs, (1..=5_000).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_fact_posted_into_a_full_channel_is_not_lost() {
        let projection = start(Clock::system(), Ring::new(10, 10_000));
        let count = WAITING as u64 * 3;
        for _ in 0..count {
            projection.facts.post(Fact::ShutdownBegan);
        }
        let mut view = projection.view.clone();
        view.wait_for(|view| view.seq == count).await.expect("the projector runs");
    }
}
