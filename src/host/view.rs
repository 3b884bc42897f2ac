//! The view: an immutable snapshot of everything a front end displays, folded from facts.
//!
//! Changes only in [`HostView::apply`] (invariant 4). Holds an `Arc` per server, so that publishing
//! copies one map of pointers.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::approvals::{ApprovalRequest, RuleKind, SessionRule};
use super::breaker::BreakerView;
use super::dev::view::DevView;
use super::failure::StartFailure;
use super::{Fact, Record};
use base::{SafeText, ServerName, Timestamp};
use config::{ConfigChange, ContentLimits, Diagnostic, RootConfig, TransportKind};
use mcp::AuthStep;
use process::ExitView;
use protocol::{
    ApprovalId, Capabilities, Finding, FindingKind, ListChanges, ListKind, SessionView,
};

/// State of a server.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ServerState {
    /// Disabled by its entry.
    Disabled,
    /// Waiting for a dependency.
    #[default]
    Waiting,
    /// Being started.
    Starting,
    /// In use.
    Ready,
    /// Unusable, for the given reason.
    Unavailable,
    /// Stopped on purpose, or being stopped.
    Shutdown,
    /// Stopped until the next call (`"start": "onDemand"`).
    Sleeping,
}

impl ServerState {
    /// Whether it accepts calls: it is ready, or a call starts it.
    pub const fn is_callable(self) -> bool {
        matches!(self, Self::Ready | Self::Sleeping)
    }

    /// Whether it is running or about to run.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Ready | Self::Starting | Self::Waiting)
    }

    /// Its name in machine-readable output.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Its word in sentences and tables.
    pub fn word(self) -> &'static str {
        match self {
            Self::Shutdown => "stopped",
            Self::Disabled
            | Self::Waiting
            | Self::Starting
            | Self::Ready
            | Self::Unavailable
            | Self::Sleeping => self.as_str(),
        }
    }

    /// Its word and the reason; a reason that says the state itself stands alone.
    pub fn because(self, reason: Option<&SafeText>) -> String {
        match reason {
            None => self.word().to_owned(),
            Some(reason) if self == Self::Shutdown && STOP_REASONS.contains(&reason.as_str()) => {
                reason.to_string()
            }
            Some(reason) => format!("{}: {reason}", self.word()),
        }
    }
}

/// The reason of a server that is being stopped on request.
pub(crate) const STOPPING: &str = "stopping";
/// The reason of a server that was stopped on request.
pub(crate) const STOPPED: &str = "stopped on request";
/// The reason of a server that is being stopped to be started again on request.
pub(crate) const RESTARTING: &str = "restarting";
/// The reasons of a stop that say already that there is one.
const STOP_REASONS: [&str; 3] = [STOPPING, STOPPED, RESTARTING];

/// Steps of a start, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartStep {
    /// Find the executable.
    Resolve,
    /// Start the process, or connect.
    Spawn,
    /// First byte on stdout, or first response.
    FirstByte,
    /// Negotiate version and capabilities.
    Handshake,
    /// Authorize, where the server requires it.
    Authorize,
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    ResourceTemplates,
}

impl StartStep {
    /// Its name on a screen and in a log.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Spawn => "spawn",
            Self::FirstByte => "first byte",
            Self::Handshake => "handshake",
            Self::Authorize => "authorise",
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::ResourceTemplates => "templates",
        }
    }

    /// The step that fetches this list.
    pub(crate) const fn listing(kind: ListKind) -> Self {
        match kind {
            ListKind::Tools => Self::Tools,
            ListKind::Prompts => Self::Prompts,
            ListKind::Resources => Self::Resources,
            ListKind::ResourceTemplates => Self::ResourceTemplates,
        }
    }
}

/// Status of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum StepStatus {
    /// Running.
    Running,
    /// Done.
    Ok,
    /// Failed, for the reason in the detail.
    Failed,
    /// Not needed here.
    Skipped,
}

/// A step of the current or last start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepView {
    /// The step.
    pub step: StartStep,
    /// Its status.
    pub status: StepStatus,
    /// When it began.
    pub began: Timestamp,
    /// How long it took; `None` while it runs.
    pub took: Option<Duration>,
    /// Its result or cause.
    pub detail: Option<SafeText>,
}

/// Metadata of the token in use at a server, without the token itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountView {
    /// Who issued it.
    pub issuer: SafeText,
    /// What it allows.
    pub scopes: Vec<SafeText>,
    /// When it expires, if known.
    pub expires: Option<Timestamp>,
    /// Whether the host can refresh it.
    pub is_refreshed: bool,
}

impl AccountView {
    /// How long before the expiry of a token without refresh the user is warned.
    const EXPIRY_WARNING_INTERVAL: Duration = Duration::from_secs(10 * 60);

    /// When to warn the user; `None` when no new sign-in will be needed.
    pub fn warn_at(&self) -> Option<Timestamp> {
        let end = self.expires.filter(|_| !self.is_refreshed)?;
        Some(Timestamp(end.0.saturating_sub(Self::EXPIRY_WARNING_INTERVAL.as_micros() as u64)))
    }
}

/// Everything about one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerView {
    /// Its name.
    pub name: ServerName,
    /// How it is reached.
    pub transport: TransportKind,
    /// Command line or URL.
    pub target: SafeText,
    /// What it depends on.
    pub dependencies: Vec<ServerName>,
    /// Limits on processing the content it sends.
    #[serde(default)]
    pub limits: ContentLimits,
    /// State.
    pub state: ServerState,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub reason: Option<SafeText>,
    /// What to do about it, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<SafeText>,
    /// Why its last start failed, as data, while that is why it is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<StartFailure>,
    /// Start attempt, from 1.
    pub attempt: u32,
    /// Number of times it became ready.
    pub starts: u32,
    /// Number of times it became ready again without having been stopped on purpose.
    pub restarts: u32,
    /// Whether it was stopped on purpose, so that the next start is not a restart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rests: bool,
    /// When the next attempt will be made.
    pub retry_at: Option<Timestamp>,
    /// Process id while it lives.
    pub pid: Option<u32>,
    /// Its last negotiated session; kept when the server dies.
    pub session: Option<Arc<SessionView>>,
    /// Steps of the current or last start.
    pub steps: Vec<StepView>,
    /// Sign-in steps since the start began, the last [`ServerView::MAX_AUTH_STEPS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auth_steps: Vec<AuthStep>,
    /// The account of the token in use, if signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountView>,
    /// Its lists; kept when the server dies.
    pub capabilities: Arc<Capabilities>,
    /// Changes in the lists that the user has not viewed ([`Fact::ChangesSeen`]), with the time of
    /// the last one.
    pub changes: Option<(Timestamp, Arc<ListChanges>)>,
    /// Since when the same items of its lists have been changing repeatedly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstable: Option<Timestamp>,
    /// The last few times when items changed again before the user viewed them.
    #[serde(skip)]
    changed_again: VecDeque<Timestamp>,
    /// The last exit of its process.
    pub exit: Option<ExitView>,
    /// The last lines of stderr at that exit.
    pub stderr_tail: Vec<SafeText>,
    /// Most recent findings, at most [`ServerView::MAX_FINDINGS`].
    pub findings: VecDeque<Finding>,
    /// Total number of findings by kind.
    pub finding_counts: BTreeMap<FindingKind, u64>,
    /// The server's breaker.
    pub breaker: BreakerView,
    /// Breakers of its tools that are not closed.
    pub tool_breakers: BTreeMap<SafeText, BreakerView>,
    /// Session rules for its requests.
    pub approval_rules: BTreeMap<RuleKind, SessionRule>,
    /// Number of its requests that were refused because of a limit or without a cause.
    #[serde(default)]
    pub refused_requests: u64,
    /// Roots shared with it.
    #[serde(default)]
    pub roots: Vec<RootConfig>,
    /// Its sources and their builds, when they are watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dev: Option<Arc<DevView>>,
}

impl ServerView {
    /// Why it is in its state, with the last line of its stderr where the reason does not quote
    /// stderr already; `otherwise` when no reason is known.
    pub fn reason_in_full(&self, otherwise: &str) -> String {
        let reason = self.reason.as_ref().map_or(otherwise, |reason| reason.as_str());
        match self.unquoted_word(reason) {
            Some(line) => format!("{reason} (stderr: {line})"),
            None => reason.to_owned(),
        }
    }

    /// The last line of stderr, unless this reason quotes stderr already.
    pub fn unquoted_word(&self, reason: &str) -> Option<&str> {
        let line = self.last_words().last()?.trim();
        let quotes_stderr = self.failure.as_ref().is_some_and(|failure| failure.quotes_stderr);
        (!quotes_stderr && !reason.contains(line)).then_some(line)
    }

    /// The last lines of stderr, up to the error line; without what runtimes print after it.
    pub fn last_words(&self) -> &[SafeText] {
        let said = crate::server::remedy::error_line_at(&self.stderr_tail);
        said.map_or(&[], |at| self.stderr_tail.get(..=at).unwrap_or_default())
    }

    /// Maximum number of findings kept.
    pub const MAX_FINDINGS: usize = 64;
    /// Maximum number of sign-in steps kept.
    pub const MAX_AUTH_STEPS: usize = 64;

    fn new(name: ServerName, at: Timestamp) -> Self {
        Self { name, since: at, capabilities: Capabilities::none(), ..Self::default() }
    }

    // Folds in a fact about this server. Called by [`super::HostView::apply`] only.

    fn apply(&mut self, at: Timestamp, fact: &Fact) {
        match fact {
            Fact::ServerAdded { transport, target, dependencies, limits, .. } => {
                self.transport = *transport;
                self.target = target.clone();
                self.dependencies.clone_from(dependencies);
                self.limits = *limits;
            }
            Fact::StateChanged { state, reason, attempt, retry_at, .. } => {
                if *state == ServerState::Starting {
                    self.steps.clear();
                    self.auth_steps.clear();
                }
                if *state != ServerState::Unavailable {
                    self.help = None;
                    self.failure = None;
                }
                if *state == ServerState::Ready && self.state != ServerState::Ready {
                    self.starts += 1;
                    self.restarts += u32::from(self.starts > 1 && !self.rests);
                    self.rests = false;
                }
                let stopped = *state == ServerState::Shutdown && self.state == *state;
                self.rests |= stopped || *state == ServerState::Sleeping;
                self.state = *state;
                self.since = at;
                self.reason.clone_from(reason);
                self.attempt = *attempt;
                self.retry_at = *retry_at;
            }
            Fact::Advised { help, .. } => self.help = Some(help.clone()),
            Fact::StartFailed { failure, .. } => self.failure = Some(failure.clone()),
            Fact::StepChanged { step, status, took, detail, .. } => {
                let began =
                    took.map_or(at, |took| Timestamp(at.0.saturating_sub(took.as_micros() as u64)));
                let (step, status, took) = (*step, *status, *took);
                let new = StepView { step, status, began, took, detail: detail.clone() };
                match self.steps.binary_search_by_key(&step, |known| known.step) {
                    Ok(at) => self.steps[at] = StepView { began: self.steps[at].began, ..new },
                    Err(at) => self.steps.insert(at, new),
                }
            }
            Fact::AuthStepped { step, .. } => {
                if self.auth_steps.len() == Self::MAX_AUTH_STEPS {
                    self.auth_steps.remove(0);
                }
                self.auth_steps.push(step.clone());
            }
            Fact::AccountChanged { account, .. } => self.account.clone_from(account),
            Fact::Spawned { pid, .. } => self.pid = Some(*pid),
            Fact::Connected { session, .. } => self.session = Some(Arc::clone(session)),
            Fact::Listed { capabilities, changes, .. } => {
                self.capabilities = Arc::clone(capabilities);
                if let Some(changes) = changes {
                    self.keep_changes(at, changes);
                }
            }
            Fact::ChangesSeen { item, .. } => {
                if let Some((_, changes)) = &mut self.changes {
                    let left = item.as_ref().is_some_and(|(kind, name)| {
                        Arc::make_mut(changes).forget(*kind, name);
                        !changes.is_empty()
                    });
                    if !left {
                        self.changes = None;
                        self.unstable = None;
                    }
                }
            }
            Fact::Exited { exit, stderr_tail, .. } => {
                self.pid = None;
                self.exit = Some(exit.clone());
                self.stderr_tail.clone_from(stderr_tail);
            }
            Fact::Found { finding, .. } => {
                *self.finding_counts.entry(finding.kind).or_default() += finding.count;
                if finding.refuses_request() {
                    self.refused_requests += finding.count;
                }
                if self.findings.len() == Self::MAX_FINDINGS {
                    self.findings.pop_front();
                }
                self.findings.push_back(finding.clone());
            }
            Fact::RootsShared { roots, .. } => self.roots.clone_from(roots),
            Fact::ApprovalRuleSet { kind, rule, .. } => match rule {
                Some(rule) => _ = self.approval_rules.insert(*kind, rule.clone()),
                None => _ = self.approval_rules.remove(kind),
            },
            Fact::BreakerChanged { tool: None, breaker, .. } => self.breaker = breaker.clone(),
            Fact::BreakerChanged { tool: Some(tool), breaker, .. } => {
                if breaker.is_closed() {
                    self.tool_breakers.remove(tool);
                } else {
                    self.tool_breakers.insert(tool.clone(), breaker.clone());
                }
            }
            Fact::DevChanged { dev, .. } => self.dev.clone_from(dev),
            _ => {}
        }
    }

    /// Merges changes, which are kept item by item until the user views them. Items that change
    /// repeatedly before that set the state "definitions unstable".
    fn keep_changes(&mut self, at: Timestamp, newer: &Arc<ListChanges>) {
        const MIN_CRASHES: usize = 3;
        const CRASH_WINDOW: Duration = Duration::from_secs(60);
        let Some((_, kept)) = &mut self.changes else {
            self.changes = Some((at, Arc::clone(newer)));
            return;
        };
        if Arc::make_mut(kept).add(newer) {
            self.changed_again.retain(|before| at.since(*before) < CRASH_WINDOW);
            self.changed_again.push_back(at);
            let unstable = self.changed_again.len() >= MIN_CRASHES;
            self.unstable = if unstable { self.unstable.or(Some(at)) } else { None };
            if self.changed_again.len() > MIN_CRASHES {
                self.changed_again.pop_front();
            }
        }
        self.changes = self.changes.take().map(|(_, kept)| (at, kept));
    }
}

/// Everything a front end displays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct HostView {
    /// Sequence number of the last fact folded in.
    pub seq: u64,
    /// Time of the last fact folded in.
    pub at: Timestamp,
    /// Configuration files in use.
    #[serde(serialize_with = "base::text::path::many")]
    pub files: Vec<PathBuf>,
    /// Problems of the configuration in use; none while a newer one is rejected, whose text has taken
    /// the place of the one they are about.
    pub diagnostics: Vec<Diagnostic>,
    /// Problems of a newer configuration that was rejected.
    pub rejected: Vec<Diagnostic>,
    /// Last reload.
    pub reload: Option<(Timestamp, ConfigChange)>,
    /// Servers in file order.
    pub servers: IndexMap<ServerName, Arc<ServerView>>,
    /// Server names in file order.
    #[serde(default)]
    pub order: Arc<IndexSet<ServerName>>,
    /// Open requests from servers, oldest first.
    pub pending: IndexMap<ApprovalId, Arc<ApprovalRequest>>,
    /// Settled requests, newest last, at most [`HostView::MAX_SETTLED_REQUESTS`].
    pub settled: VecDeque<(Timestamp, Arc<ApprovalRequest>, crate::approvals::Settlement)>,
    /// Failed tasks of the host: time, task and message.
    pub failures: Vec<(Timestamp, SafeText, SafeText)>,
    /// Whether the host is stopping.
    pub stopping: bool,
}

impl HostView {
    /// Maximum number of settled requests kept.
    pub const MAX_SETTLED_REQUESTS: usize = 200;
    /// Maximum bytes of settled requests kept; the newest is kept regardless of its size.
    pub const MAX_SETTLED_BYTES: usize = 8 << 20;
    /// Maximum number of task failures kept.
    pub const MAX_TASK_FAILURES: usize = 100;

    /// Folds one fact in. The only place where the view changes.
    pub fn apply(&mut self, record: &Record) {
        self.seq = record.seq;
        self.at = record.at;
        match &record.fact {
            Fact::ConfigLoaded { files, diagnostics, order } => {
                self.files.clone_from(files);
                self.order = Arc::new(order.iter().cloned().collect());
                self.sort_servers();
                self.diagnostics.clone_from(diagnostics);
                self.rejected.clear();
            }
            Fact::ConfigRejected { diagnostics } => {
                self.rejected.clone_from(diagnostics);
                // They are about lines of a text that is no longer there.
                self.diagnostics.clear();
            }
            Fact::Reloaded(change) => self.reload = Some((record.at, change.clone())),
            Fact::ServerRemoved => {
                if let Some(name) = &record.server {
                    self.servers.shift_remove(name);
                }
            }
            Fact::RequestArrived { request } => {
                self.pending.insert(request.id, Arc::clone(request));
            }
            Fact::RequestSettled { id, settlement, .. } => {
                if let Some(request) = self.pending.shift_remove(id) {
                    self.settled.push_back((record.at, request, settlement.clone()));
                    self.trim_settled();
                }
            }
            Fact::RequestExtended { id, deadline, .. } => {
                if let Some(request) = self.pending.get_mut(id) {
                    Arc::make_mut(request).deadline = *deadline;
                }
            }
            Fact::TaskFailed { task, message } => {
                if self.failures.len() == Self::MAX_TASK_FAILURES {
                    self.failures.remove(0);
                }
                self.failures.push((record.at, task.clone(), message.clone()));
            }
            Fact::ShutdownBegan => self.stopping = true,
            fact => {
                if let Some(name) = &record.server {
                    if !self.servers.contains_key(name) {
                        let place =
                            |name: &ServerName| self.order.get_index_of(name).unwrap_or(usize::MAX);
                        let own = place(name);
                        let at = self.servers.partition_point(|known, _| place(known) <= own);
                        let new = Arc::new(ServerView::new(name.clone(), record.at));
                        self.servers.shift_insert(at, name.clone(), new);
                    }
                    if let Some(entry) = self.servers.get_mut(name) {
                        Arc::make_mut(entry).apply(record.at, fact);
                    }
                }
            }
        }
    }

    /// Becomes equal to a newer view of the same host, of which only these servers may differ: for a
    /// view of many servers less work than a copy.
    pub(crate) fn catch_up(&mut self, newer: &Self, changed: &HashSet<ServerName>) {
        let Self {
            seq,
            at,
            files,
            diagnostics,
            rejected,
            reload,
            servers,
            order,
            pending,
            settled,
            failures,
            stopping,
        } = newer;
        (self.seq, self.at, self.stopping) = (*seq, *at, *stopping);
        self.files.clone_from(files);
        self.diagnostics.clone_from(diagnostics);
        self.rejected.clone_from(rejected);
        self.reload.clone_from(reload);
        self.pending.clone_from(pending);
        self.settled.clone_from(settled);
        self.failures.clone_from(failures);
        let is_at = |name: &ServerName| {
            let place = servers.get_index_of(name);
            place.is_some() && place == self.servers.get_index_of(name)
        };
        let stay = Arc::ptr_eq(&self.order, order) && changed.iter().all(is_at);
        if !stay {
            self.order = Arc::clone(order);
            self.servers.clone_from(servers);
            return;
        }
        for name in changed {
            if let (Some(own), Some(new)) = (self.servers.get_mut(name), servers.get(name)) {
                *own = Arc::clone(new);
            }
        }
    }

    fn sort_servers(&mut self) {
        let order = &self.order;
        let place = |name: &ServerName| order.get_index_of(name).unwrap_or(usize::MAX);
        self.servers.sort_by(|a, _, b, _| place(a).cmp(&place(b)));
    }

    fn trim_settled(&mut self) {
        let mut bytes: usize = self.settled.iter().map(|(_, request, _)| request.bytes).sum();
        while self.settled.len() > Self::MAX_SETTLED_REQUESTS
            || (bytes > Self::MAX_SETTLED_BYTES && self.settled.len() > 1)
        {
            let Some((_, request, _)) = self.settled.pop_front() else { break };
            bytes -= request.bytes;
        }
    }
}

#[cfg(test)]
mod tests;
