//! The projector: the task that numbers facts, folds them into the view and publishes both.
//!
//! Facts arrive from every actor over one bounded channel, which applies backpressure to their
//! producers (invariant 6). The view is published once per batch, so a burst wakes its readers only
//! once.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::fact::fact_ring;
use crate::breaker::BreakerView;
use crate::{Fact, HostView, Record, ServerState};
use base::human::{Dur, count};
use base::{Clock, LogLevel, LogRecord, LogSource, Ring, SafeText, ServerName, Timestamp};
use config::ConfigChange;
use protocol::{ListChanges, ListKind};

/// Queue capacity for facts recorded with backpressure.
const FACT_CAPACITY: usize = 1_024;

/// Additional capacity for facts recorded where the producer cannot wait.
const POSTED_CAPACITY: usize = 8 * FACT_CAPACITY;

enum ProjectorMessage {
    Facts(FactBatch),
    Flush(oneshot::Sender<()>),
}

/// Facts about one server or the host, folded into the view together.
struct FactBatch {
    at: Timestamp,
    server: Option<ServerName>,
    facts: Vec<Fact>,
    _place: Option<OwnedSemaphorePermit>,
}

/// The sink for facts. Cheap to clone.
#[derive(Clone)]
pub struct Facts {
    sender: mpsc::Sender<ProjectorMessage>,
    /// Limits producers that can wait, so that the rest of the channel is left to the others.
    places: Arc<Semaphore>,
    lost: Arc<AtomicU64>,
    clock: Clock,
}

impl Facts {
    /// Records a fact about a server or the host (`None`); waits while the queue is full.
    pub async fn record<'a>(&self, server: impl Into<Option<&'a ServerName>>, fact: Fact) {
        self.record_all(server, vec![fact]).await;
    }

    /// Records related facts, which become visible in the view together.
    pub async fn record_all<'a>(
        &self,
        server: impl Into<Option<&'a ServerName>>,
        facts: Vec<Fact>,
    ) {
        let (at, server) = (self.clock.now(), server.into().cloned());
        let place = Arc::clone(&self.places).acquire_owned().await.ok();
        let _ = self
            .sender
            .send(ProjectorMessage::Facts(FactBatch { at, server, facts, _place: place }))
            .await;
    }

    /// Records a fact without waiting. Overflow policy: when the channel is full the fact is
    /// dropped and counted, and the count is reported as a failed task of the host.
    pub fn post<'a>(&self, server: impl Into<Option<&'a ServerName>>, fact: Fact) {
        let (at, server, facts) = (self.clock.now(), server.into().cloned(), vec![fact]);
        let message = ProjectorMessage::Facts(FactBatch { at, server, facts, _place: None });
        if let Err(mpsc::error::TrySendError::Full(_)) = self.sender.try_send(message) {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all facts recorded so far are in the view.
    pub async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        if self.sender.send(ProjectorMessage::Flush(done)).await.is_ok() {
            let _ = wait.await;
        }
    }

    /// The host's clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }
}

/// The interface of a running projector.
pub struct Projection {
    /// The sink for facts.
    pub facts: Facts,
    /// The current view, and every later one.
    pub view: watch::Receiver<Arc<HostView>>,
    /// The most recent facts.
    pub kept: Ring<Record>,
}

/// Starts the projector on the current runtime. It ends when the last [`Facts`] is dropped.
pub fn start(clock: Clock, logs: Ring<LogRecord>) -> Projection {
    let (sender, receiver) = mpsc::channel(FACT_CAPACITY + POSTED_CAPACITY);
    let (publish, view) = watch::channel(Arc::new(HostView::default()));
    let kept = fact_ring();
    let lost = Arc::default();
    let projector = Projector {
        view: HostView::default(),
        publish,
        kept: kept.clone(),
        logs,
        lost: Arc::clone(&lost),
        sessions: HashMap::new(),
        former: None,
        changed: HashSet::new(),
    };
    tokio::spawn(projector.run(receiver));
    let places = Arc::new(Semaphore::new(FACT_CAPACITY));
    Projection { facts: Facts { sender, places, lost, clock }, view, kept }
}

struct Projector {
    view: HostView,
    publish: watch::Sender<Arc<HostView>>,
    kept: Ring<Record>,
    logs: Ring<LogRecord>,
    /// Number of dropped facts not yet reported.
    lost: Arc<AtomicU64>,
    /// Number of starts per server.
    sessions: HashMap<ServerName, u64>,
    /// The view before the published one: the next is made of it where nobody reads it any more, and
    /// the servers that have changed since it.
    former: Option<(Arc<HostView>, HashSet<ServerName>)>,
    /// Servers that have changed since the published view.
    changed: HashSet<ServerName>,
}

impl Projector {
    async fn run(mut self, mut receiver: mpsc::Receiver<ProjectorMessage>) {
        let mut messages = Vec::new();
        while receiver.recv_many(&mut messages, FACT_CAPACITY).await > 0 {
            let mut flushed = Vec::new();
            let before = self.view.seq;
            for message in messages.drain(..) {
                match message {
                    ProjectorMessage::Flush(done) => flushed.push(done),
                    ProjectorMessage::Facts(batch) => {
                        for fact in batch.facts {
                            self.fold(batch.at, batch.server.clone(), fact);
                        }
                    }
                }
            }
            self.report_lost();
            if self.view.seq != before {
                self.publish_view();
            }
            for done in flushed {
                let _ = done.send(());
            }
        }
    }

    fn publish_view(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        let next = self.former.take().and_then(|(mut former, mut since)| {
            since.extend(changed.iter().cloned());
            Arc::get_mut(&mut former)?.catch_up(&self.view, &since);
            Some(former)
        });
        let next = next.unwrap_or_else(|| Arc::new(self.view.clone()));
        self.former = Some((self.publish.send_replace(next), changed));
    }

    fn fold(&mut self, at: Timestamp, server: Option<ServerName>, fact: Fact) {
        let record = Record { seq: self.view.seq + 1, at, server, fact };
        self.changed.extend(record.server.clone());
        let flapped = self.is_unstable(record.server.as_ref());
        self.view.apply(&record);
        // Report a server with unstable lists only once.
        let again = flapped && matches!(record.fact, Fact::Listed { .. });
        let turned = !flapped && self.is_unstable(record.server.as_ref());
        if !again {
            log_fact(&record, turned, &mut self.sessions, &self.logs);
        }
        self.kept.push(Arc::new(record));
    }

    fn is_unstable(&self, server: Option<&ServerName>) -> bool {
        let server = server.and_then(|name| self.view.servers.get(name));
        server.is_some_and(|server| server.unstable.is_some())
    }

    fn report_lost(&mut self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let task = SafeText::line("projector");
            let message = SafeText::line(&format!("{lost} facts were lost: too many at once"));
            self.fold(self.view.at, None, Fact::TaskFailed { task, message });
        }
    }
}

/// Logs a fact as one structured record, and adds facts of interest to the user to
/// the log ring too. `sessions` counts the starts per server.
fn log_fact(
    record: &Record,
    unstable: bool,
    sessions: &mut HashMap<ServerName, u64>,
    logs: &Ring<LogRecord>,
) {
    let fact = &record.fact;
    let session_id = record.server.as_ref().map(|server| {
        let count = sessions.entry(server.clone()).or_default();
        *count +=
            u64::from(matches!(fact, Fact::StateChanged { state: ServerState::Starting, .. }));
        *count
    });
    let server = record.server.as_ref().map(ServerName::as_str);
    let described = describe(fact).map(|(level, text)| {
        if unstable {
            (LogLevel::Warning, format!("definitions unstable: {text}"))
        } else {
            (level, text)
        }
    });
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
            server: record.server.clone(),
            source: LogSource::Host,
            level,
            logger: None,
            text: SafeText::line(&text),
        }));
    }
}

/// The `status` of a fact for the log, and its duration.
fn status(fact: &Fact) -> (Option<&str>, Option<Duration>) {
    match fact {
        Fact::StateChanged { state, .. } => (Some(state.as_str()), None),
        Fact::StepChanged { status, took, .. } => (Some(status.into()), *took),
        Fact::Exited { exit, .. } => {
            (Some(if exit.expected { "expected" } else { "unexpected" }), None)
        }
        Fact::BreakerChanged { breaker, .. } => {
            let status = match breaker {
                BreakerView::Closed => "closed",
                BreakerView::Open { .. } => "open",
                BreakerView::HalfOpen { .. } => "half-open",
            };
            (Some(status), None)
        }
        Fact::RequestSettled { after, .. } => (Some("settled"), Some(*after)),
        Fact::ConfigRejected { .. } => (Some("refused"), None),
        _ => (None, None),
    }
}

/// Level and text of facts that go to the log file only.
fn quiet(fact: &Fact) -> (LogLevel, String) {
    match fact {
        Fact::ConfigLoaded { order, .. } => {
            (LogLevel::Info, format!("configuration with {}", count(order.len(), "server")))
        }
        Fact::Connected { session, .. } => {
            let version = &session.protocol_version;
            (LogLevel::Info, format!("connected with protocol {version}"))
        }
        Fact::Listed { capabilities: all, changes: None, .. } => (
            LogLevel::Info,
            format!(
                "{}, {}, {}, {}",
                count(all.tools.len(), "tool"),
                count(all.prompts.len(), "prompt"),
                count(all.resources.len(), "resource"),
                count(all.templates.len(), "resource template")
            ),
        ),
        Fact::StepChanged { step, detail, .. } => {
            let detail = detail.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
            (LogLevel::Debug, format!("{}{detail}", step.word()))
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
                ServerState::Unavailable => LogLevel::Error,
                _ => LogLevel::Info,
            };
            (level, state.because(reason.as_ref()))
        }
        Fact::Exited { exit, .. } => {
            let level = if exit.expected { LogLevel::Info } else { LogLevel::Warning };
            let escaped: Vec<&str> = exit.escaped.iter().map(SafeText::as_str).collect();
            if escaped.is_empty() {
                (level, exit.describe())
            } else {
                let names = escaped.join(", ");
                (LogLevel::Error, format!("{}; could not be ended: {names}", exit.describe()))
            }
        }
        Fact::Found { finding, .. } => (LogLevel::Warning, finding.message.to_string()),
        Fact::BreakerChanged { tool, breaker, .. } => {
            let what = tool.as_ref().map_or_else(|| "server".to_owned(), |t| format!("tool {t}"));
            let how = match breaker {
                BreakerView::Closed => "closed",
                BreakerView::Open { .. } => "open",
                BreakerView::HalfOpen { .. } => "half-open",
            };
            (LogLevel::Warning, format!("breaker of {what} is {how}"))
        }
        Fact::Listed { changes: Some(changes), .. } => {
            (LogLevel::Info, format!("lists changed: {}", in_words(changes)))
        }
        Fact::Crashed { reason, .. } => (LogLevel::Error, format!("crashed: {reason}")),
        Fact::RestartPlanned { number, max, delay, .. } => {
            (LogLevel::Info, format!("restart {number} of {max} in {}", Dur(*delay)))
        }
        Fact::GivenUp { restarts, .. } => {
            (LogLevel::Error, format!("given up after {restarts} restarts"))
        }
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
        Fact::Reloaded(ConfigChange { added, removed, changed, kept, followed }) => {
            let others = match followed.len() {
                0 => String::new(),
                others => format!(", {others} of them with other settings"),
            };
            let counts =
                [(added.len(), "added"), (removed.len(), "removed"), (changed.len(), "restarted")];
            let counts = counts.into_iter().filter(|(count, _)| *count > 0);
            let mut counts: Vec<String> =
                counts.map(|(count, what)| format!("{count} {what}")).collect();
            counts.push(format!("{} kept{others}", kept.len()));
            (LogLevel::Info, format!("configuration reloaded: {}", counts.join(", ")))
        }
        Fact::Spawned { pid, .. } => (LogLevel::Debug, format!("pid {pid}")),
        Fact::CallsCancelled { calls, reason, .. } => {
            let calls: Vec<&str> = calls.iter().map(SafeText::as_str).collect();
            (LogLevel::Warning, format!("cancelled {}: {reason}", calls.join(", ")))
        }
        Fact::AuthStepped { step, .. } => {
            let level = if step.refused.is_some() { LogLevel::Warning } else { LogLevel::Info };
            (level, format!("sign-in: {step}"))
        }
        Fact::AccountChanged { account: Some(account), .. } => {
            (LogLevel::Info, format!("uses a token of {}", account.issuer))
        }
        Fact::AccountChanged { account: None, .. } => {
            (LogLevel::Info, "no longer uses a token".to_owned())
        }
        Fact::DevChanged { level, what, .. } => (*level, what.to_string()),
        _ => return None,
    })
}

/// The changes of the lists by list, item and field, at most the first eight.
fn in_words(changes: &ListChanges) -> String {
    const MAX_NAMED_ITEMS: usize = 8;
    let plain = |kind: &ListKind, name: &SafeText| format!("{}: `{name}`", kind.key());
    let changed = changes.changed.iter().map(|(kind, name, fields)| {
        let fields: Vec<&str> = fields.iter().map(|field| field.pointer.as_str()).collect();
        format!("{} changed in {}", plain(kind, name), fields.join(", "))
    });
    let added = changes.added.iter().map(|(kind, name)| format!("{} added", plain(kind, name)));
    let removed =
        changes.removed.iter().map(|(kind, name)| format!("{} removed", plain(kind, name)));
    let all = changes.changed.len() + changes.added.len() + changes.removed.len();
    let mut words: Vec<String> =
        changed.chain(added).chain(removed).take(MAX_NAMED_ITEMS).collect();
    if all > MAX_NAMED_ITEMS {
        words.push(format!("and {} more", all - MAX_NAMED_ITEMS));
    }
    words.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn facts_are_numbered_without_gaps_and_a_flush_sees_them_in_the_view() {
        let projection = start(Clock::system(), Ring::new(10, 10_000));
        for _ in 0..5_000 {
            projection.facts.record(None, Fact::ShutdownBegan).await;
        }
        projection.facts.flush().await;
        assert_eq!(projection.view.borrow().seq, 5_000);
        let seqs: Vec<u64> = projection.kept.tail(usize::MAX).iter().map(|r| r.seq).collect();
        assert_eq!(seqs, (1..=5_000).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_published_view_is_what_its_facts_make_whoever_reads_older_ones() {
        let projection = start(Clock::system(), Ring::new(1_000, 1_000_000));
        let names: Vec<ServerName> =
            ["a", "b", "c", "d", "e"].iter().map(|name| ServerName::new(name)).collect();
        let ordered = |order: &[usize]| {
            let order = order.iter().map(|at| names[*at].clone()).collect();
            (None, Fact::ConfigLoaded { files: Vec::new(), diagnostics: Vec::new(), order })
        };
        let spawned = |at: usize, pid| (Some(&names[at]), Fact::Spawned { pid });
        let facts = [
            ordered(&[0, 1, 2, 3, 4]),
            spawned(0, 1),
            spawned(1, 2),
            spawned(2, 3),
            spawned(1, 4),
            spawned(2, 5),
            (Some(&names[1]), Fact::ServerRemoved),
            spawned(2, 6),
            spawned(3, 7),
            (Some(&names[0]), Fact::ServerRemoved),
            spawned(4, 8),
            spawned(0, 9),
            ordered(&[4, 3, 2, 0]),
            spawned(4, 10),
            spawned(0, 11),
            (None, Fact::ShutdownBegan),
            spawned(3, 12),
        ];
        let mut held = Vec::new();
        for (n, (server, fact)) in facts.into_iter().enumerate() {
            projection.facts.record(server, fact).await;
            projection.facts.flush().await;
            let mut expected = HostView::default();
            projection.kept.tail(usize::MAX).iter().for_each(|record| expected.apply(record));
            let published = Arc::clone(&projection.view.borrow());
            assert_eq!(*published, expected, "fact {n}");
            if n % 3 == 0 {
                held.push((published, expected));
            }
        }
        for (published, expected) in held {
            assert_eq!(*published, expected, "a kept view");
        }
    }

    #[tokio::test]
    async fn facts_posted_while_the_projector_is_busy_are_not_lost() {
        let projection = start(Clock::system(), Ring::new(10, 10_000));
        let count = FACT_CAPACITY as u64 * 3;
        for _ in 0..count {
            projection.facts.post(None, Fact::ShutdownBegan);
        }
        let mut view = projection.view.clone();
        view.wait_for(|view| view.seq == count).await.expect("the projector runs");
    }

    #[tokio::test]
    async fn facts_posted_without_end_are_bounded_and_what_is_lost_is_counted() {
        let projection = start(Clock::system(), Ring::new(10, 10_000));
        let most = (FACT_CAPACITY + POSTED_CAPACITY) as u64;
        for _ in 0..most + 77 {
            projection.facts.post(None, Fact::ShutdownBegan);
        }
        projection.facts.flush().await;
        let view = projection.view.borrow().clone();
        assert_eq!(view.seq, most + 1, "and one that says what was lost");
        assert!(view.failures[0].2.contains("77 facts"), "{:?}", view.failures);
    }
}
