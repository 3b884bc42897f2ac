//! The view: one immutable snapshot of everything a front end needs to draw, folded from facts.
//!
//! Changes only in [`HostView::apply`] (invariant 4). Holds an `Arc` per server, so that publishing
//! copies one map of pointers.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use indexmap::{IndexMap, IndexSet};
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::approvals::{ApprovalRequest, RuleKind, SessionRule};
use super::breaker::BreakerView;
use super::dev::view::DevView;
use super::{Fact, Record};
use crate::base::{SafeText, ServerName, Timestamp};
use crate::config::{ConfigChange, ContentLimits, Diagnostic, RootConfig, TransportKind};
use crate::mcp::{
    ApprovalId, AuthStep, Capabilities, Finding, FindingKind, ListChanges, ListKind, SessionView,
};
use crate::process::ExitView;

/// State of a server (requirement L1).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ServerState {
    /// Not started: its entry says so.
    Disabled,
    /// Waits for a dependency.
    #[default]
    Waiting,
    /// Being started.
    Starting,
    /// In use.
    Ready,
    /// Cannot be used; the reason says why.
    Unavailable,
    /// Stopped on purpose, or being stopped.
    Shutdown,
    /// Its process rests until somebody calls (`"start": "onDemand"`).
    Sleeping,
}

impl ServerState {
    /// Whether a call is answered: at once, or after the start that it causes.
    pub const fn is_callable(self) -> bool {
        matches!(self, Self::Ready | Self::Sleeping)
    }

    /// Whether it runs, or is about to.
    pub const fn is_up(self) -> bool {
        matches!(self, Self::Ready | Self::Starting | Self::Waiting)
    }

    /// The word shown.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// Steps of a start, in order; the doctor's list.
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
    /// Authorisation, where the server asks for it.
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
    /// The step that fetches this list.
    pub(in crate::host) const fn listing(kind: ListKind) -> Self {
        match kind {
            ListKind::Tools => Self::Tools,
            ListKind::Prompts => Self::Prompts,
            ListKind::Resources => Self::Resources,
            ListKind::ResourceTemplates => Self::ResourceTemplates,
        }
    }
}

/// How a step stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum StepStatus {
    /// Running.
    Running,
    /// Done.
    Ok,
    /// Failed; the detail says why.
    Failed,
    /// Not needed here.
    Skipped,
}

/// A step of the current or last start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepView {
    /// Which.
    pub step: StartStep,
    /// How it stands.
    pub status: StepStatus,
    /// When it began.
    pub began: Timestamp,
    /// How long it took; `None` while it runs.
    pub took: Option<Duration>,
    /// What was found.
    pub detail: Option<SafeText>,
}

/// The token that is in use at a server, without the token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountView {
    /// Who issued it.
    pub issuer: SafeText,
    /// What it allows.
    pub scopes: Vec<SafeText>,
    /// When it ends, when that is known.
    pub expires: Option<Timestamp>,
    /// Whether the host gets the next one by itself.
    pub is_refreshed: bool,
}

impl AccountView {
    /// How long before its end people are warned of a token that is not refreshed.
    const WARNING: Duration = Duration::from_secs(10 * 60);

    /// When people are warned, where somebody will have to sign in again.
    pub fn warn_at(&self) -> Option<Timestamp> {
        let end = self.expires.filter(|_| !self.is_refreshed)?;
        Some(Timestamp(end.0.saturating_sub(Self::WARNING.as_micros() as u64)))
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
    /// What may be made of what it sends.
    #[serde(default)]
    pub limits: ContentLimits,
    /// State.
    pub state: ServerState,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub reason: Option<SafeText>,
    /// What to do about it, when that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<SafeText>,
    /// Start attempt, from 1.
    pub attempt: u32,
    /// Times it became ready.
    pub starts: u32,
    /// Times it became ready after the first without having been stopped on purpose before.
    pub restarts: u32,
    /// It was stopped and stayed so: the start that follows is no restart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub rests: bool,
    /// When the next attempt will be made.
    pub retry_at: Option<Timestamp>,
    /// Process id while it lives.
    pub pid: Option<u32>,
    /// What was negotiated last; kept when the server dies.
    pub session: Option<Arc<SessionView>>,
    /// Steps of the current or last start.
    pub steps: Vec<StepView>,
    /// Steps of signing in since the start began, the newest [`ServerView::AUTH_STEPS`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub auth_steps: Vec<AuthStep>,
    /// The token in use, where somebody signed in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountView>,
    /// Its lists; kept when the server dies.
    pub capabilities: Arc<Capabilities>,
    /// What changed in the lists and nobody has looked at ([`Fact::ChangesSeen`]), and when it did
    /// last.
    pub changes: Option<(Timestamp, Arc<ListChanges>)>,
    /// Since when the same items of its lists change again and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unstable: Option<Timestamp>,
    /// When items changed again before they were looked at, the newest few.
    #[serde(skip)]
    changed_again: VecDeque<Timestamp>,
    /// How the process ended last.
    pub exit: Option<ExitView>,
    /// Last lines of stderr at that time.
    pub stderr_tail: Vec<SafeText>,
    /// Newest findings, at most [`ServerView::FINDINGS`].
    pub findings: VecDeque<Finding>,
    /// Findings by kind, never forgotten.
    pub finding_counts: BTreeMap<FindingKind, u64>,
    /// The server's breaker.
    pub breaker: BreakerView,
    /// Breakers of its tools that are not closed.
    pub tool_breakers: BTreeMap<SafeText, BreakerView>,
    /// Rules of this session for its requests.
    pub approval_rules: BTreeMap<RuleKind, SessionRule>,
    /// Requests of it that were refused because there were too many, or nothing to ask about.
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
    /// The last lines of stderr up to the one that says why it ended, without what runtimes print
    /// after it.
    pub fn last_words(&self) -> &[SafeText] {
        let said = crate::host::server::remedy::telling_at(&self.stderr_tail);
        said.map_or(&[], |at| self.stderr_tail.get(..=at).unwrap_or_default())
    }

    /// Most findings kept.
    pub const FINDINGS: usize = 64;
    /// Most steps of signing in kept.
    pub const AUTH_STEPS: usize = 64;

    fn new(name: ServerName, at: Timestamp) -> Self {
        Self { name, since: at, ..Self::default() }
    }

    // How a fact about one server changes its view. Called by [`super::HostView::apply`] alone.

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
            Fact::StepChanged { step, status, took, detail, .. } => {
                let began =
                    took.map_or(at, |took| Timestamp(at.0.saturating_sub(took.as_micros() as u64)));
                let (step, status, took) = (*step, *status, *took);
                let new = StepView { step, status, began, took, detail: detail.clone() };
                match self.steps.iter_mut().find(|known| known.step == step) {
                    Some(known) => *known = StepView { began: known.began, ..new },
                    None => self.steps.push(new),
                }
            }
            Fact::AuthStepped { step, .. } => {
                if self.auth_steps.len() == Self::AUTH_STEPS {
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
                if self.findings.len() == Self::FINDINGS {
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

    /// What changed stays until it is looked at, item by item, whatever changes after it. Items that
    /// change again and again before that are one state, "definitions unstable".
    fn keep_changes(&mut self, at: Timestamp, newer: &Arc<ListChanges>) {
        const TIMES: usize = 3;
        const WITHIN: Duration = Duration::from_secs(60);
        let Some((_, kept)) = &mut self.changes else {
            self.changes = Some((at, Arc::clone(newer)));
            return;
        };
        if Arc::make_mut(kept).add(newer) {
            self.changed_again.retain(|before| at.since(*before) < WITHIN);
            self.changed_again.push_back(at);
            let unstable = self.changed_again.len() >= TIMES;
            self.unstable = if unstable { self.unstable.or(Some(at)) } else { None };
            if self.changed_again.len() > TIMES {
                self.changed_again.pop_front();
            }
        }
        self.changes = self.changes.take().map(|(_, kept)| (at, kept));
    }
}

/// Everything a front end needs to draw.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostView {
    /// Number of the last fact folded in.
    pub seq: u64,
    /// Moment of the last fact folded in.
    pub at: Timestamp,
    /// Configuration files in use.
    #[serde(serialize_with = "crate::base::text::path::many")]
    pub files: Vec<PathBuf>,
    /// Problems of the configuration in use.
    pub diagnostics: Vec<Diagnostic>,
    /// Problems of a newer configuration that was not taken into use.
    pub rejected: Vec<Diagnostic>,
    /// Last reload.
    pub reload: Option<(Timestamp, ConfigChange)>,
    /// Servers in file order.
    pub servers: IndexMap<ServerName, Arc<ServerView>>,
    /// The order of the file.
    #[serde(default)]
    pub order: IndexSet<ServerName>,
    /// Requests of servers that are open, oldest first.
    pub pending: IndexMap<ApprovalId, Arc<ApprovalRequest>>,
    /// Requests that ended, newest last, at most [`HostView::SETTLED`].
    pub settled: VecDeque<(Timestamp, Arc<ApprovalRequest>, crate::host::approvals::Settlement)>,
    /// Tasks of the host that failed.
    pub failures: Vec<(Timestamp, SafeText, SafeText)>,
    /// Whether the host is stopping.
    pub stopping: bool,
}

impl HostView {
    /// Most settled requests kept.
    pub const SETTLED: usize = 200;
    /// Most bytes of settled requests kept; the newest is kept whatever its size.
    pub const SETTLED_BYTES: usize = 8 << 20;
    /// Most failures of the host's tasks kept.
    pub const FAILURES: usize = 100;

    /// Folds one fact in. The only place where the view changes.
    pub fn apply(&mut self, record: &Record) {
        self.seq = record.seq;
        self.at = record.at;
        match &record.fact {
            Fact::ConfigLoaded { files, diagnostics, order } => {
                self.files.clone_from(files);
                self.order = order.iter().cloned().collect();
                self.sort_servers();
                self.diagnostics.clone_from(diagnostics);
                self.rejected.clear();
            }
            Fact::ConfigRejected { diagnostics } => self.rejected.clone_from(diagnostics),
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
                if self.failures.len() == Self::FAILURES {
                    self.failures.remove(0);
                }
                self.failures.push((record.at, task.clone(), message.clone()));
            }
            Fact::ShutdownBegan => self.stopping = true,
            fact => {
                if let Some(name) = &record.server {
                    let known = self.servers.contains_key(name);
                    let entry = self
                        .servers
                        .entry(name.clone())
                        .or_insert_with(|| Arc::new(ServerView::new(name.clone(), record.at)));
                    Arc::make_mut(entry).apply(record.at, fact);
                    if !known {
                        self.sort_servers();
                    }
                }
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
        while self.settled.len() > Self::SETTLED
            || (bytes > Self::SETTLED_BYTES && self.settled.len() > 1)
        {
            let Some((_, request, _)) = self.settled.pop_front() else { break };
            bytes -= request.bytes;
        }
    }
}

#[cfg(test)]
mod tests;
