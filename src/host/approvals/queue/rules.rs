//! What holds for one server: rules of its entry and of the session, roots, and how many requests
//! it may make.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::ApprovalQueue;
use crate::base::allowance::Allowance;
use crate::base::{SafeText, ServerName, Timestamp};
use crate::config::{ApprovalRule, ApprovalRules, RootConfig, ServerConfig, WireLimits};
use crate::host::Fact;
use crate::host::approvals::{RuleKind, SessionRule};
use crate::mcp::{Finding, FindingKind, RequestKind};

/// What holds for one server.
pub(super) struct ServerRules {
    pub(super) approvals: ApprovalRules,
    pub(super) roots: Vec<RootConfig>,
    /// What the entry says the roots are; those of the session hold until it changes.
    entry_roots: Vec<RootConfig>,
    pub(super) max_open: usize,
    pub(super) max_waiting: Duration,
    pub(super) open: usize,
    pub(super) max_per_minute: usize,
    pub(super) rate: Allowance,
    pub(super) refused: Refused,
    /// Rules a person set while the deck runs; they come before the entry's.
    session: HashMap<RuleKind, SessionRule>,
}

/// Requests that were refused because there were too many.
#[derive(Default)]
pub(super) struct Refused {
    /// What was not reported yet: how many, and the method of the last and why it was refused.
    pending: Option<Finding>,
    reported: Option<Instant>,
}

/// A flood is reported at most once in this time, with its count.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// So many at once, and as many in a minute in the long run.
fn per_minute(most: usize) -> Allowance {
    Allowance::new(most as f64 / 60.0, most as f64)
}

impl Refused {
    /// Counts one more.
    pub(super) fn count(&mut self, method: &str, reason: &str, now: Timestamp) {
        let count = self.pending.as_ref().map_or(0, |flood| flood.count) + 1;
        let request = Some(SafeText::line(method));
        let finding = Finding::new(FindingKind::Flood, now, reason);
        self.pending = Some(Finding { request, count, ..finding });
    }

    /// What is to be reported now, if anything.
    pub(super) fn take_due(&mut self) -> Option<Finding> {
        let now = Instant::now();
        if self.reported.is_some_and(|reported| now.duration_since(reported) < REPORT_EVERY) {
            return None;
        }
        let flood = self.pending.take()?;
        self.reported = Some(now);
        Some(flood)
    }
}

impl Default for ServerRules {
    fn default() -> Self {
        let limits = WireLimits::default();
        Self {
            approvals: ApprovalRules::default(),
            roots: Vec::new(),
            entry_roots: Vec::new(),
            max_open: limits.approvals,
            max_waiting: limits.max_waiting,
            open: 0,
            max_per_minute: limits.approvals_per_minute,
            rate: per_minute(limits.approvals_per_minute),
            refused: Refused::default(),
            session: HashMap::new(),
        }
    }
}

impl ApprovalQueue {
    /// Takes the rules of a server's entry into use. Roots that were changed while the deck runs
    /// stay until those of the entry change.
    pub fn configure(&self, config: &ServerConfig) {
        let mut inner = self.inner.lock();
        let rules = inner.servers.entry(config.name.clone()).or_default();
        rules.approvals = config.approvals.clone();
        rules.max_open = config.wire.approvals;
        rules.max_waiting = config.wire.max_waiting;
        if rules.max_per_minute != config.wire.approvals_per_minute {
            rules.max_per_minute = config.wire.approvals_per_minute;
            rules.rate = per_minute(rules.max_per_minute);
        }
        if rules.entry_roots == config.roots {
            return;
        }
        rules.entry_roots.clone_from(&config.roots);
        rules.roots.clone_from(&config.roots);
        drop(inner);
        self.shared(&config.name, config.roots.clone());
    }

    /// Sets or takes back (`None`) a rule of this session. Requests that are open keep waiting.
    pub fn set_rule(&self, server: &ServerName, kind: RuleKind, rule: Option<SessionRule>) {
        // "The next none" is no rule.
        let rule = rule.filter(|rule| rule.left != Some(0));
        let mut inner = self.inner.lock();
        let rules = &mut inner.servers.entry(server.clone()).or_default().session;
        match rule.clone() {
            Some(rule) => rules.insert(kind, rule),
            None => rules.remove(&kind),
        };
        drop(inner);
        self.facts.post(server, Fact::ApprovalRuleSet { kind, rule });
    }

    /// The rule of this session that decides a request, used up by one; `None` when none does.
    pub(super) fn use_rule(&self, server: &ServerName, kind: &RequestKind) -> Option<ApprovalRule> {
        let kind = RuleKind::of(kind)?;
        let mut inner = self.inner.lock();
        let rules = &mut inner.servers.get_mut(server)?.session;
        let rule = rules.get_mut(&kind)?;
        let decided = rule.rule.clone();
        let left = rule.left.map(|left| left.saturating_sub(1));
        let used_up = left == Some(0);
        rule.left = left;
        let now = (!used_up).then(|| rule.clone());
        if used_up {
            rules.remove(&kind);
        }
        drop(inner);
        if left.is_some() {
            self.facts.post(server, Fact::ApprovalRuleSet { kind, rule: now });
        }
        Some(decided)
    }

    /// What the entry of a server says about such a request.
    pub(super) fn entry_rule(
        &self,
        server: &ServerName,
        kind: &RequestKind,
    ) -> Option<ApprovalRule> {
        let kind = RuleKind::of(kind)?;
        let inner = self.inner.lock();
        let approvals = &inner.servers.get(server)?.approvals;
        Some(match kind {
            RuleKind::Sampling => approvals.sampling.clone(),
            RuleKind::Elicitation => approvals.elicitation.clone(),
        })
    }

    /// Shares other roots with a server until those of its entry change.
    pub fn set_roots(&self, server: &ServerName, roots: Vec<RootConfig>) {
        self.inner.lock().servers.entry(server.clone()).or_default().roots.clone_from(&roots);
        self.shared(server, roots);
    }

    fn shared(&self, server: &ServerName, roots: Vec<RootConfig>) {
        self.facts.post(server, Fact::RootsShared { roots });
    }

    /// The roots shared with a server.
    pub fn roots(&self, server: &ServerName) -> Vec<RootConfig> {
        self.inner.lock().servers.get(server).map(|rules| rules.roots.clone()).unwrap_or_default()
    }

    /// Forgets a server that left the deck.
    pub fn forget(&self, server: &ServerName) {
        self.inner.lock().servers.remove(server);
    }
}
