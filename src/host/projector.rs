//! The projector: the one task that numbers facts, folds them into the view and publishes both.
//!
//! Facts arrive over one bounded channel from every actor; whoever produces too many waits for a
//! place, and nobody else does (invariant 6). The view is published once per batch, so a burst costs
//! its readers one wake-up.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot, watch};

use super::fact::Journal;
use crate::base::human::{Dur, count};
use crate::base::{Clock, LogLevel, LogRecord, LogSource, Ring, SafeText, ServerName, Timestamp};
use crate::config::ConfigChange;
use crate::host::breaker::BreakerView;
use crate::host::{Fact, HostView, Record, ServerState};
use crate::mcp::{ListChanges, ListKind};

/// Facts that may wait for the projector.
const WAITING: usize = 1_024;

/// Facts beyond those that may wait for the projector, recorded where nothing can wait.
const OVERFLOW: usize = 8 * WAITING;

enum Message {
    /// Several at once cost the readers of the view one copy.
    Facts(Timestamp, Vec<Fact>),
    /// There is something in the overflow.
    Overflow,
    Flush(oneshot::Sender<()>),
}

/// Facts that found no place, in order.
#[derive(Default)]
struct Overflow {
    facts: VecDeque<(Timestamp, Fact)>,
    lost: u64,
}

/// Where facts go in. Cheap to clone.
#[derive(Clone)]
pub struct Facts {
    sender: mpsc::Sender<Message>,
    overflow: Arc<Mutex<Overflow>>,
    clock: Clock,
}

impl Facts {
    /// Records a fact; waits for a place when many are waiting.
    pub async fn record(&self, fact: Fact) {
        self.record_all(vec![fact]).await;
    }

    /// Records facts that belong together, in one step of the view.
    pub async fn record_all(&self, facts: Vec<Fact>) {
        let _ = self.sender.send(Message::Facts(self.clock.now(), facts)).await;
    }

    /// Records a fact from where nothing can wait. Overflow policy: it waits in a list of its own
    /// and may come later than facts that found a place; when that list is full too the fact is
    /// lost, counted, and the count is a failure of the host that everybody sees.
    pub fn post(&self, fact: Fact) {
        let message = Message::Facts(self.clock.now(), vec![fact]);
        let Err(mpsc::error::TrySendError::Full(Message::Facts(at, facts))) =
            self.sender.try_send(message)
        else {
            return;
        };
        for fact in facts {
            let mut overflow = self.overflow.lock();
            if overflow.facts.len() < OVERFLOW {
                overflow.facts.push_back((at, fact));
            } else {
                overflow.lost += 1;
            }
        }
        // The projector may have emptied its channel meanwhile. A full one makes it look as well.
        let _ = self.sender.try_send(Message::Overflow);
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
    let overflow = Arc::default();
    let projector = Projector {
        view: HostView::default(),
        publish,
        journal: Arc::clone(&journal),
        logs,
        overflow: Arc::clone(&overflow),
        sessions: HashMap::new(),
    };
    tokio::spawn(projector.run(receiver));
    Projection { facts: Facts { sender, overflow, clock }, view, journal }
}

struct Projector {
    view: HostView,
    publish: watch::Sender<Arc<HostView>>,
    journal: Arc<Journal>,
    logs: Ring<LogRecord>,
    overflow: Arc<Mutex<Overflow>>,
    /// Starts of each server so far.
    sessions: HashMap<ServerName, u64>,
}

impl Projector {
    async fn run(mut self, mut receiver: mpsc::Receiver<Message>) {
        let mut batch = Vec::new();
        while receiver.recv_many(&mut batch, WAITING).await > 0 {
            let mut flushed = Vec::new();
            let before = self.view.seq;
            for message in batch.drain(..) {
                match message {
                    Message::Flush(done) => flushed.push(done),
                    Message::Facts(at, facts) => {
                        for fact in facts {
                            self.fold(at, fact);
                        }
                    }
                    Message::Overflow => {}
                }
            }
            self.take_overflow();
            if self.view.seq != before {
                self.publish.send_replace(Arc::new(self.view.clone()));
            }
            for done in flushed {
                let _ = done.send(());
            }
        }
    }

    fn fold(&mut self, at: Timestamp, fact: Fact) {
        let record = Record { seq: self.view.seq + 1, at, fact };
        let flapped = self.is_unstable(record.fact.server());
        self.view.apply(&record);
        // A server whose lists change all the time says so once.
        let again = flapped && matches!(record.fact, Fact::Listed { .. });
        let turned = !flapped && self.is_unstable(record.fact.server());
        if !again {
            note(&record, turned, &mut self.sessions, &self.logs);
        }
        self.journal.push(Arc::new(record));
    }

    fn is_unstable(&self, server: Option<&ServerName>) -> bool {
        let server = server.and_then(|name| self.view.servers.get(name));
        server.is_some_and(|server| server.unstable.is_some())
    }

    fn take_overflow(&mut self) {
        let (facts, lost) = {
            let mut overflow = self.overflow.lock();
            (std::mem::take(&mut overflow.facts), std::mem::take(&mut overflow.lost))
        };
        let mut last = self.view.at;
        for (at, fact) in facts {
            last = at;
            self.fold(at, fact);
        }
        if lost > 0 {
            let task = SafeText::line("projector");
            let message = SafeText::line(&format!("{lost} facts were lost: too many at once"));
            self.fold(last, Fact::TaskFailed { task, message });
        }
    }
}

/// Every fact is one structured record of the log (requirement O2), and the ones a person would
/// ask about stand in the log ring too. `sessions` counts the starts of each server.
fn note(
    record: &Record,
    unstable: bool,
    sessions: &mut HashMap<ServerName, u64>,
    logs: &Ring<LogRecord>,
) {
    let fact = &record.fact;
    let session_id = fact.server().map(|server| {
        let count = sessions.entry(server.clone()).or_default();
        *count +=
            u64::from(matches!(fact, Fact::StateChanged { state: ServerState::Starting, .. }));
        *count
    });
    let server = fact.server().map(ServerName::as_str);
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
        Fact::StepChanged { status, took, .. } => (Some(status.into()), *took),
        Fact::Exited { exit, .. } => {
            (Some(if exit.expected { "expected" } else { "unexpected" }), None)
        }
        Fact::BreakerChanged { breaker, .. } => {
            (Some(if breaker.is_closed() { "closed" } else { "open" }), None)
        }
        Fact::RequestSettled { after, .. } => (Some("settled"), Some(*after)),
        Fact::ConfigRejected { .. } => (Some("refused"), None),
        _ => (None, None),
    }
}

/// The records that only the log file has.
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
        Fact::Crashed { reason, .. } => (LogLevel::Warning, format!("crashed: {reason}")),
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
        Fact::AuthStepped { step, .. } => {
            let level = if step.refused.is_some() { LogLevel::Warning } else { LogLevel::Info };
            (level, format!("sign-in: {step}"))
        }
        Fact::AccountChanged { account: Some(account), .. } => {
            (LogLevel::Info, format!("uses a token of {}", account.issuer))
        }
        Fact::AccountChanged { account: None, .. } => {
            (LogLevel::Info, "uses no token any more".to_owned())
        }
        Fact::DevChanged { level, what, .. } => (*level, what.to_string()),
        _ => return None,
    })
}

/// What changed in the lists, by list, item and field; the first few of many.
fn in_words(changes: &ListChanges) -> String {
    const MOST: usize = 8;
    let plain = |kind: &ListKind, name: &SafeText| format!("{}: `{name}`", kind.key());
    let changed = changes.changed.iter().map(|(kind, name, fields)| {
        let fields: Vec<&str> = fields.iter().map(|field| field.pointer.as_str()).collect();
        format!("{} changed in {}", plain(kind, name), fields.join(", "))
    });
    let added = changes.added.iter().map(|(kind, name)| format!("{} added", plain(kind, name)));
    let removed =
        changes.removed.iter().map(|(kind, name)| format!("{} removed", plain(kind, name)));
    let all = changes.changed.len() + changes.added.len() + changes.removed.len();
    let mut words: Vec<String> = changed.chain(added).chain(removed).take(MOST).collect();
    if all > MOST {
        words.push(format!("and {} more", all - MOST));
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

    #[tokio::test]
    async fn facts_posted_without_end_are_bounded_and_what_is_lost_is_counted() {
        let projection = start(Clock::system(), Ring::new(10, 10_000));
        let most = (WAITING + OVERFLOW) as u64;
        for _ in 0..most + 77 {
            projection.facts.post(Fact::ShutdownBegan);
        }
        projection.facts.flush().await;
        let view = projection.view.borrow().clone();
        assert_eq!(view.seq, most + 1, "and one that says what was lost");
        assert!(view.failures[0].2.contains("77 facts"), "{:?}", view.failures);
    }
}
