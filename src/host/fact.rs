//! Facts: events of a host, in the past tense. Lossless; folded by [`crate::HostView::apply`]
//! and recorded as JSON lines, so that a session can be replayed. Also the ring of recent facts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::approvals::{ApprovalRequest, RuleKind, SessionRule, Settlement};
use super::breaker::BreakerView;
use super::dev::view::DevView;
use super::failure::StartFailure;
use super::view::{AccountView, ServerState, StartStep, StepStatus};
use base::ring::Weighed;
use base::{LogLevel, Ring, SafeText, ServerName, Timestamp};
use config::{ConfigChange, ContentLimits, Diagnostic, RootConfig, TransportKind};
use mcp::AuthStep;
use process::ExitView;
use protocol::{ApprovalId, Capabilities, Finding, ListChanges, ListKind, SessionView};

/// A fact with its sequence number among all facts of one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// 1, 2, 3, ... without gaps.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The server it concerns, if any.
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
#[non_exhaustive]
pub enum Fact {
    /// A configuration was put into use.
    ConfigLoaded {
        /// The files it came from.
        #[serde(serialize_with = "base::text::path::many")]
        files: Vec<PathBuf>,
        /// Warnings and notes.
        diagnostics: Vec<Diagnostic>,
        /// The servers in the order of the file.
        #[serde(default)]
        order: Vec<ServerName>,
    },
    /// A changed configuration was rejected; the last good one stays in use.
    ConfigRejected {
        /// What is wrong.
        diagnostics: Vec<Diagnostic>,
    },
    /// A reload was applied.
    Reloaded(ConfigChange),
    /// A server was added to the deck.
    ServerAdded {
        /// How it is reached.
        transport: TransportKind,
        /// Command line or URL to display, secrets masked.
        target: SafeText,
        /// What it depends on.
        dependencies: Vec<ServerName>,
        /// Limits on processing the content it sends.
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
    /// Advice about the server's current or next state.
    Advised {
        /// A sentence for the user.
        help: SafeText,
    },
    /// A start failed; the state of the server follows.
    StartFailed {
        /// Why.
        failure: StartFailure,
    },
    /// A step of a start began or ended.
    StepChanged {
        /// The step.
        step: StartStep,
        /// Its status.
        status: StepStatus,
        /// How long it took; `None` while it runs.
        took: Option<Duration>,
        /// The result: a path, a pid, a version, a count, a cause.
        detail: Option<SafeText>,
    },
    /// A step of signing in at the server was completed.
    AuthStepped {
        /// The step.
        step: AuthStep,
    },
    /// The token used at the server changed.
    AccountChanged {
        /// The account of the new token; `None` when there is no token now.
        account: Option<AccountView>,
    },
    /// The process was spawned.
    Spawned {
        /// Process id (also its session and group on Unix).
        pid: u32,
    },
    /// The handshake succeeded.
    Connected {
        /// What was negotiated.
        session: Arc<SessionView>,
    },
    /// Lists were fetched, for the first time or again.
    Listed {
        /// All current lists.
        capabilities: Arc<Capabilities>,
        /// The changes since the last fetch; `None` on the first one.
        changes: Option<Arc<ListChanges>>,
    },
    /// The process ended.
    Exited {
        /// How.
        exit: ExitView,
        /// The last lines of stderr.
        stderr_tail: Vec<SafeText>,
    },
    /// The connection or the process of a server in use ended unexpectedly.
    Crashed {
        /// How.
        reason: SafeText,
    },
    /// A restart was scheduled by the restart policy.
    RestartPlanned {
        /// The number of this restart, from 1.
        number: u32,
        /// Maximum number of restarts in a row.
        max: u32,
        /// The delay before it.
        delay: Duration,
    },
    /// It was restarted too often in a row and stays down.
    GivenUp {
        /// How often.
        restarts: u32,
    },
    /// The user has viewed changes in its lists.
    ChangesSeen {
        /// The item; `None` for all.
        item: Option<(ListKind, SafeText)>,
    },
    /// The server violated the protocol.
    Found {
        /// The violation.
        finding: Finding,
    },
    /// A circuit breaker changed.
    BreakerChanged {
        /// The tool; `None` for the server's own breaker.
        tool: Option<SafeText>,
        /// Its new state.
        breaker: BreakerView,
    },
    /// A request from a server arrived.
    RequestArrived {
        /// The request.
        request: Arc<ApprovalRequest>,
    },
    /// A request from a server is no longer open.
    RequestSettled {
        /// Which.
        id: ApprovalId,
        /// How it ended.
        settlement: Settlement,
        /// How long it was open.
        after: Duration,
    },
    /// The user extended the deadline of an open request.
    RequestExtended {
        /// Which.
        id: ApprovalId,
        /// The new deadline.
        deadline: Timestamp,
    },
    /// The roots shared with a server changed.
    RootsShared {
        /// All current roots.
        roots: Vec<RootConfig>,
    },
    /// Calls in flight did not finish before their server was stopped or restarted.
    CallsCancelled {
        /// Method and target of each.
        calls: Vec<SafeText>,
        /// Why the server ended.
        reason: SafeText,
    },
    /// The state of a server's watched sources (`dev.watch`) or of their build changed.
    DevChanged {
        /// The new state; `None` when its sources are no longer watched.
        dev: Option<Arc<DevView>>,
        /// The severity of the change.
        level: LogLevel,
        /// A description of the change.
        what: SafeText,
    },
    /// A session rule was set, used or removed.
    ApprovalRuleSet {
        /// The kind of requests it covers.
        kind: RuleKind,
        /// The current rule; `None` when the entry decides again.
        rule: Option<SessionRule>,
    },
    /// A task of the host itself failed; the host keeps running.
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
    /// Its approximate size in bytes, including shared data.
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

    /// Its name, as in the `fact` field of a record.
    pub fn name(&self) -> &'static str {
        self.into()
    }
}

impl Weighed for Record {
    fn bytes(&self) -> usize {
        self.fact.weight()
    }
}

/// Maximum number of facts kept.
pub const MAX_FACTS: usize = 10_000;
/// Approximate maximum size of the facts kept, in bytes: lists and requests can be large, and a
/// noisy server must not fill the host's memory with them.
const MAX_FACT_BYTES: usize = 32 << 20;

/// The ring of the most recent facts. Written only by the projector, which it never blocks.
pub fn fact_ring() -> Ring<Record> {
    Ring::new(MAX_FACTS, MAX_FACT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fact;
    use base::Timestamp;

    fn record(seq: u64) -> Arc<Record> {
        Arc::new(Record { seq, at: Timestamp(seq), server: None, fact: Fact::ShutdownBegan })
    }

    #[test]
    fn the_newest_facts_are_kept_and_the_oldest_go() {
        let facts = fact_ring();
        for seq in 1..=MAX_FACTS as u64 + 3 {
            facts.push(record(seq));
        }
        let records = facts.tail(usize::MAX);
        assert_eq!((records.len(), records[0].seq), (MAX_FACTS, 4));
    }

    #[test]
    fn large_facts_push_out_more_old_ones_than_small_facts_do() {
        let facts = fact_ring();
        let text = "x".repeat(1 << 20);
        for seq in 1..=100 {
            let task = base::text::SafeText::line("t");
            let fact = Fact::TaskFailed { task, message: base::text::SafeText::line(&text) };
            facts.push(Arc::new(Record { seq, at: Timestamp(seq), server: None, fact }));
        }
        let kept = facts.tail(usize::MAX);
        assert!(kept.len() < 40, "{} facts of 1 MiB are kept", kept.len());
        assert_eq!(kept.last().map(|record| record.seq), Some(100));
    }
}
