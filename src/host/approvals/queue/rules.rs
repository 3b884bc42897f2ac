//! Settings of the queue per server: rules of its entry and of the session, roots, and request
//! limits.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::ApprovalQueue;
use crate::Fact;
use crate::approvals::{RuleKind, SessionRule};
use base::allowance::Allowance;
use base::{SafeText, ServerName, Timestamp};
use config::{ApprovalRule, ApprovalRules, RootConfig, ServerConfig, WireLimits};
use protocol::{Finding, FindingKind, RequestKind};

/// The settings and counters of one server.
pub(super) struct ServerRules {
    pub(super) approvals: ApprovalRules,
    pub(super) roots: Vec<RootConfig>,
    /// The roots of the entry; roots set at run time stay in effect until these change.
    entry_roots: Vec<RootConfig>,
    pub(super) max_open: usize,
    pub(super) max_waiting: Duration,
    pub(super) open: usize,
    pub(super) max_per_minute: usize,
    pub(super) rate: Allowance,
    pub(super) refused: Refused,
    /// Session rules set by the user; they take precedence over the entry's.
    session: HashMap<RuleKind, SessionRule>,
}

/// Requests refused because of a limit.
#[derive(Default)]
pub(super) struct Refused {
    /// Not yet reported: the count, and the method and reason of the last.
    pending: Option<Finding>,
    reported: Option<Instant>,
}

/// Minimum interval between reports of a flood, which include its count.
const FLOOD_REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// A token bucket: `most` at once, and `most` per minute on average.
fn per_minute(most: usize) -> Allowance {
    Allowance::new(most as f64 / 60.0, most as f64)
}

impl Refused {
    /// Counts a refused request.
    pub(super) fn count(&mut self, method: &str, reason: &str, now: Timestamp) {
        let count = self.pending.as_ref().map_or(0, |flood| flood.count) + 1;
        let request = Some(SafeText::line(method));
        let finding = Finding::new(FindingKind::Flood, now, reason);
        self.pending = Some(Finding { request, count, ..finding });
    }

    /// Takes the finding to report now, if one is due.
    pub(super) fn take_due(&mut self) -> Option<Finding> {
        let now = Instant::now();
        if self
            .reported
            .is_some_and(|reported| now.duration_since(reported) < FLOOD_REPORT_INTERVAL)
        {
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
    /// Applies the settings of a server's entry. Roots set at run time stay in effect until those
    /// of the entry change.
    pub fn configure(&self, config: &ServerConfig) {
        let mut inner = self.inner.lock();
        let rules = inner.servers.entry(config.name.clone()).or_default();
        rules.approvals = (*config.approvals).clone();
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

    /// Sets or removes (`None`) a session rule. Open requests keep waiting.
    pub fn set_rule(&self, server: &ServerName, kind: RuleKind, rule: Option<SessionRule>) {
        // A rule for zero requests means no rule.
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

    /// Applies the session rule for a request and counts its use; `None` when there is none.
    pub(super) fn use_rule(&self, server: &ServerName, kind: &RequestKind) -> Option<ApprovalRule> {
        let kind = RuleKind::from_request_kind(kind)?;
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

    /// The rule in the server's entry for this kind of request.
    pub(super) fn entry_rule(
        &self,
        server: &ServerName,
        kind: &RequestKind,
    ) -> Option<ApprovalRule> {
        let kind = RuleKind::from_request_kind(kind)?;
        let inner = self.inner.lock();
        let approvals = &inner.servers.get(server)?.approvals;
        Some(match kind {
            RuleKind::Sampling => approvals.sampling.clone(),
            RuleKind::Elicitation => approvals.elicitation.clone(),
        })
    }

    /// Replaces the roots shared with a server, until those of its entry change.
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

    /// Removes the state of a server that left the deck.
    pub fn forget(&self, server: &ServerName) {
        self.inner.lock().servers.remove(server);
    }
}
