//! Facts: what happened, in the past tense. Lossless; folded by [`crate::host::HostView::apply`],
//! recorded as JSON lines, so that a session can be shown again from its record.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;
use tokio::sync::mpsc;

use super::approvals::{ApprovalRequest, RuleKind, SessionRule, Settlement};
use super::breaker::BreakerView;
use super::dev::view::DevView;
use super::view::{AccountView, ServerState, StartStep, StepStatus};
use crate::base::ring::Weighed;
use crate::base::{LogLevel, Ring, SafeText, ServerName, Timestamp};
use crate::config::{ConfigChange, ContentLimits, Diagnostic, RootConfig, TransportKind};
use crate::mcp::{ApprovalId, AuthStep, Capabilities, Finding, ListChanges, ListKind, SessionView};
use crate::process::ExitView;

/// A fact with its place in the order of all facts of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// 1, 2, 3, ... without gaps.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The server it is about, when it is about one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerName>,
    /// What happened.
    #[serde(flatten)]
    pub fact: Fact,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, IntoStaticStr)]
#[serde(tag = "fact", rename_all = "camelCase", rename_all_fields = "camelCase")]
#[strum(serialize_all = "camelCase")]
pub enum Fact {
    /// A configuration was taken into use.
    ConfigLoaded {
        /// The files it came from.
        #[serde(serialize_with = "crate::base::text::path::many")]
        files: Vec<PathBuf>,
        /// Warnings and notes.
        diagnostics: Vec<Diagnostic>,
        /// The servers in the order of the file.
        #[serde(default)]
        order: Vec<ServerName>,
    },
    /// A changed configuration could not be used; the last good one stays.
    ConfigRejected {
        /// What is wrong.
        diagnostics: Vec<Diagnostic>,
    },
    /// A reload was applied (requirement C8).
    Reloaded(ConfigChange),
    /// A server was added to the deck.
    ServerAdded {
        /// How it is reached.
        transport: TransportKind,
        /// Command line or URL to show, secrets masked.
        target: SafeText,
        /// What it depends on.
        dependencies: Vec<ServerName>,
        /// What may be made of what it sends.
        #[serde(default)]
        limits: ContentLimits,
    },
    /// A server left the deck.
    ServerRemoved,
    /// A server changed its state.
    StateChanged {
        /// The new state.
        state: ServerState,
        /// Why.
        reason: Option<SafeText>,
        /// Start attempt, from 1, when starting.
        attempt: u32,
        /// When the next attempt will be made, when one is planned.
        retry_at: Option<Timestamp>,
    },
    /// What to do about the state it is in or is about to be in.
    Advised {
        /// A sentence for a person.
        help: SafeText,
    },
    /// A step of a start began or ended.
    StepChanged {
        /// The step.
        step: StartStep,
        /// How it stands.
        status: StepStatus,
        /// How long it took; `None` while it runs.
        took: Option<Duration>,
        /// What was found: a path, a pid, a version, a count, a cause.
        detail: Option<SafeText>,
    },
    /// A step of signing in at the server was made.
    AuthStepped {
        /// The step.
        step: AuthStep,
    },
    /// Another token is in use at the server.
    AccountChanged {
        /// What is known of it; `None` when there is none any more.
        account: Option<AccountView>,
    },
    /// The process exists.
    Spawned {
        /// Process id (also its session and group on Unix).
        pid: u32,
    },
    /// The handshake succeeded.
    Connected {
        /// What was negotiated.
        session: Arc<SessionView>,
    },
    /// Lists were fetched, first or again.
    Listed {
        /// All lists now.
        capabilities: Arc<Capabilities>,
        /// What changed since before; `None` on the first fetch.
        changes: Option<Arc<ListChanges>>,
    },
    /// The process ended.
    Exited {
        /// How.
        exit: ExitView,
        /// The last lines of stderr.
        stderr_tail: Vec<SafeText>,
    },
    /// The connection or the process of a server that was in use ended, and nobody had asked for it.
    Crashed {
        /// How.
        reason: SafeText,
    },
    /// It will be restarted, as its policy says (decision D1).
    RestartPlanned {
        /// The number of this restart, from 1.
        number: u32,
        /// How many there may be in a row.
        max: u32,
        /// After how long.
        delay: Duration,
    },
    /// It was restarted too often in a row and stays down.
    GivenUp {
        /// How often.
        restarts: u32,
    },
    /// Somebody has looked at what changed in its lists.
    ChangesSeen {
        /// The item; `None` for all.
        item: Option<(ListKind, SafeText)>,
    },
    /// The server did something against the protocol.
    Found {
        /// What.
        finding: Finding,
    },
    /// A circuit breaker changed.
    BreakerChanged {
        /// The tool; `None` for the server's own breaker.
        tool: Option<SafeText>,
        /// How it stands.
        breaker: BreakerView,
    },
    /// A server asks for something.
    RequestArrived {
        /// What it asks.
        request: Arc<ApprovalRequest>,
    },
    /// A request of a server is no longer open.
    RequestSettled {
        /// Which.
        id: ApprovalId,
        /// How it ended.
        settlement: Settlement,
        /// How long it was open.
        after: Duration,
    },
    /// A person gave an open request more time.
    RequestExtended {
        /// Which.
        id: ApprovalId,
        /// When the host gives up on it now.
        deadline: Timestamp,
    },
    /// Other roots are shared with a server.
    RootsShared {
        /// All of them.
        roots: Vec<RootConfig>,
    },
    /// Calls in flight did not finish before their server was stopped or restarted.
    CallsCancelled {
        /// Method and target of each.
        calls: Vec<SafeText>,
        /// Why the server ended.
        reason: SafeText,
    },
    /// What is known of the sources of a server (`dev.watch`) and of their build is another now.
    DevChanged {
        /// All of it; `None` when its sources are watched no more.
        dev: Option<Arc<DevView>>,
        /// How much a person should know of it.
        level: LogLevel,
        /// What happened, in words.
        what: SafeText,
    },
    /// A rule of this session was set, used or taken back.
    ApprovalRuleSet {
        /// Which of them.
        kind: RuleKind,
        /// The rule from now on; `None` when the entry decides again.
        rule: Option<SessionRule>,
    },
    /// A task of the host itself failed; it goes on without it.
    TaskFailed {
        /// Which task.
        task: SafeText,
        /// The panic message or error.
        message: SafeText,
    },
    /// The host is stopping.
    ShutdownBegan,
}

impl Fact {
    /// Roughly how many bytes it holds, shared ones included.
    pub fn weight(&self) -> usize {
        let own = match self {
            Self::Listed { capabilities, .. } => capabilities.weight(),
            Self::RequestArrived { request } => request.bytes,
            Self::Connected { session, .. } => {
                session.instructions.as_ref().map_or(0, |text| text.len())
            }
            Self::Found { finding, .. } => finding.raw.len() + finding.message.len(),
            Self::Exited { stderr_tail: lines, .. } | Self::CallsCancelled { calls: lines, .. } => {
                lines.iter().map(|line| line.len()).sum()
            }
            Self::DevChanged { dev, .. } => dev.as_ref().map_or(0, |dev| dev.weight()),
            Self::TaskFailed { message, .. }
            | Self::Advised { help: message, .. }
            | Self::Crashed { reason: message, .. } => message.len(),
            Self::ConfigLoaded { diagnostics, .. } | Self::ConfigRejected { diagnostics } => {
                diagnostics.len() * size_of::<Diagnostic>()
            }
            _ => 0,
        };
        own + size_of::<Record>()
    }

    /// Its name, as the journal spells it in `fact`.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

// The journal: the newest facts, and those who subscribe to the next ones.
//
// Written by the projector alone; read by anybody. Never slows the projector down.

impl Weighed for Record {
    fn bytes(&self) -> usize {
        self.fact.weight()
    }
}

/// Newest facts and subscribers.
pub struct Journal {
    records: Ring<Record>,
    subscribers: Mutex<Vec<mpsc::Sender<Arc<Record>>>>,
}

impl Default for Journal {
    fn default() -> Self {
        Self { records: Ring::new(Self::KEPT, Self::BYTES), subscribers: Mutex::default() }
    }
}

impl Journal {
    /// Most facts kept.
    pub const KEPT: usize = 10_000;
    /// Most bytes of facts kept, roughly: lists and requests of servers can be large, and a noisy
    /// server must not fill the host's memory with them.
    pub const BYTES: usize = 32 << 20;
    /// Facts that may wait for one subscriber; one that reads more slowly is dropped.
    pub const WAITING: usize = 4_096;

    /// Keeps a fact and hands it to every subscriber.
    pub fn push(&self, record: Arc<Record>) {
        self.subscribers.lock().retain(|reader| reader.try_send(Arc::clone(&record)).is_ok());
        self.records.push(record);
    }

    /// Facts from now on; the channel closes when its reader falls behind.
    pub fn subscribe(&self) -> mpsc::Receiver<Arc<Record>> {
        let (sender, receiver) = mpsc::channel(Self::WAITING);
        self.subscribers.lock().push(sender);
        receiver
    }

    /// The facts that are kept, and those that come.
    pub fn ring(&self) -> Ring<Record> {
        self.records.clone()
    }

    /// The facts that are kept, oldest first.
    pub fn records(&self) -> Vec<Arc<Record>> {
        self.records.tail(Self::KEPT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::Timestamp;
    use crate::host::Fact;

    fn record(seq: u64) -> Arc<Record> {
        Arc::new(Record { seq, at: Timestamp(seq), server: None, fact: Fact::ShutdownBegan })
    }

    #[test]
    fn the_newest_facts_are_kept_and_the_oldest_go() {
        let journal = Journal::default();
        for seq in 1..=Journal::KEPT as u64 + 3 {
            journal.push(record(seq));
        }
        let records = journal.records();
        assert_eq!((records.len(), records[0].seq), (Journal::KEPT, 4));
    }

    #[test]
    fn large_facts_push_out_more_old_ones_than_small_facts_do() {
        let journal = Journal::default();
        let text = "x".repeat(1 << 20);
        for seq in 1..=100 {
            let task = crate::base::text::SafeText::line("t");
            let fact = Fact::TaskFailed { task, message: crate::base::text::SafeText::line(&text) };
            journal.push(Arc::new(Record { seq, at: Timestamp(seq), server: None, fact }));
        }
        let kept = journal.records();
        assert!(kept.len() < 40, "{} facts of 1 MiB are kept", kept.len());
        assert_eq!(kept.last().map(|record| record.seq), Some(100));
    }

    #[test]
    fn a_subscriber_that_does_not_read_is_dropped_and_the_others_go_on() {
        let journal = Journal::default();
        let mut lazy = journal.subscribe();
        for seq in 1..=Journal::WAITING as u64 {
            journal.push(record(seq));
        }
        let mut eager = journal.subscribe();
        journal.push(record(0));
        assert_eq!(eager.try_recv().map(|r| r.seq), Ok(0));
        let mut read = 0;
        while lazy.try_recv().is_ok() {
            read += 1;
        }
        assert_eq!(read, Journal::WAITING);
        assert_eq!(lazy.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }
}
