//! How a fact about one server changes its view. Called by [`super::HostView::apply`] alone.

use std::sync::Arc;
use std::time::Duration;

use super::{ServerState, ServerView, StepView};
use crate::base::Timestamp;
use crate::host::Fact;
use crate::host::dev::DevView;
use crate::mcp::auth::AuthStep;
use crate::mcp::capabilities::ListChanges;

impl ServerView {
    pub(super) fn apply(&mut self, at: Timestamp, fact: &Fact) {
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
                match self.steps.iter_mut().find(|s| s.step == *step) {
                    Some(view) => {
                        view.status = *status;
                        view.took = *took;
                        view.detail.clone_from(detail);
                    }
                    None => self.steps.push(StepView {
                        step: *step,
                        status: *status,
                        began,
                        took: *took,
                        detail: detail.clone(),
                    }),
                }
            }
            Fact::AuthStepped { step, .. } => self.keep_auth_step(step),
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
            fact => DevView::apply(&mut self.dev, at, fact),
        }
    }

    fn keep_auth_step(&mut self, step: &AuthStep) {
        if self.auth_steps.len() == Self::AUTH_STEPS {
            self.auth_steps.remove(0);
        }
        self.auth_steps.push(step.clone());
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
