//! One open request: its seat in the queue, its facts, and its withdrawal when it is dropped.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::Waiting;
use super::rules::{Flood, Full};
use crate::base::ServerName;
use crate::host::Fact;
use crate::host::approvals::queue::ApprovalQueue;
use crate::host::approvals::{Decider, PendingRequest, Settlement};
use crate::mcp::ApprovalId;
use crate::mcp::session::ServerRequest;
use crate::mcp::{Answer, Claim, RequestKind};
use crate::mcp::{Finding, FindingKind};

/// Holds a place among the open requests of a server. Dropping it unsettled withdraws the request.
pub(super) struct Open {
    approvals: Arc<ApprovalQueue>,
    pub(super) request: Arc<PendingRequest>,
    claim: Arc<Claim>,
    settled: bool,
}

impl Open {
    /// Takes a place.
    pub(super) fn take(approvals: Arc<ApprovalQueue>, asked: &ServerRequest) -> Result<Self, Full> {
        let now = approvals.facts.clock().now();
        let max_waiting = approvals.seat(asked)?;
        let during = asked.call.and_then(|call| approvals.calls.get()?(&asked.server, call));
        let request = Arc::new(PendingRequest {
            id: approvals.next_id(),
            server: asked.server.clone(),
            kind: asked.kind.clone(),
            call: asked.call,
            during,
            params: Arc::clone(&asked.params),
            bytes: asked.bytes,
            arrived: now,
            deadline: now.plus(max_waiting),
            deferred: asked.deferred,
            input: asked.input.clone(),
        });
        Ok(Self { approvals, request, claim: Arc::clone(&asked.claim), settled: false })
    }

    /// How long it may wait.
    pub(super) fn patience(&self) -> Duration {
        self.request.deadline.since(self.request.arrived)
    }

    /// Lets a person answer. Called before the arrival is told, so that no answer can be too early.
    pub(super) fn park(&self, patience: watch::Sender<Duration>) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        let waiting = Waiting { request: Arc::clone(&self.request), answer, patience };
        self.approvals.lock().waiting.insert(self.request.id, waiting);
        receiver
    }

    /// Tells that the request arrived, from where nothing may come between that and its end.
    pub(super) fn arrived_and_decided(&self) {
        let request = Arc::clone(&self.request);
        self.approvals.facts.post(Fact::RequestArrived { request });
    }

    /// Tells that the request arrived.
    pub(super) async fn arrived(&self) {
        let request = Arc::clone(&self.request);
        self.approvals.facts.record(Fact::RequestArrived { request }).await;
    }

    /// Takes the request for an answer and tells so; `false` when it was withdrawn before.
    pub(super) fn answered(mut self, by: Decider, how: String) -> bool {
        let answered = self.claim.answer();
        if answered {
            self.settle(Settlement::Answered { by, how });
        }
        answered
    }

    /// Tells that no answer is wanted any more.
    pub(super) fn withdrawn(mut self, reason: &str) {
        self.withdraw(reason);
    }

    fn withdraw(&mut self, reason: &str) {
        self.claim.withdraw(reason);
        // Whoever was first knows best: the server that took it back, the session that ended.
        self.settle(Settlement::Withdrawn { reason: self.claim.reason() });
    }

    /// Posted, not awaited: whoever asked may be gone at any await, and the fact must not be lost.
    fn settle(&mut self, settlement: Settlement) {
        self.settled = true;
        self.approvals.facts.post(Fact::RequestSettled {
            id: self.request.id,
            server: self.request.server.clone(),
            settlement,
            after: self.approvals.facts.clock().now().since(self.request.arrived),
        });
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.approvals.leave(self.request.id, &self.request.server);
        if !self.settled {
            self.withdraw(match self.request.kind {
                RequestKind::SignIn => "the sign-in is over",
                _ => "the call that asked is over",
            });
        }
    }
}

impl ApprovalQueue {
    fn seat(&self, asked: &ServerRequest) -> Result<Duration, Full> {
        let now = Instant::now();
        let mut inner = self.lock();
        let rules = inner.servers.entry(asked.server.clone()).or_default();
        let full = if rules.open >= rules.max_open {
            Some(Full::Open(rules.max_open))
        } else if !asked.kind.is_own() && !rules.rate.admit(now) {
            Some(Full::Minute(rules.rate.most))
        } else {
            None
        };
        let Some(full) = full else {
            rules.open += 1;
            return Ok(rules.max_waiting);
        };
        rules.refused.count(asked.kind.method(), full);
        let flood = rules.refused.tell(now);
        drop(inner);
        self.tell_flood(&asked.server, flood);
        Err(full)
    }

    fn tell_flood(&self, server: &ServerName, flood: Option<Flood>) {
        let Some(Flood { count, method, full }) = flood else { return };
        let now = self.facts.clock().now();
        let mut finding = Finding::new(FindingKind::Flood, now, full.reason());
        finding.count = count;
        finding.request = Some(method);
        self.facts.post(Fact::Found { server: server.clone(), finding });
    }

    fn leave(&self, id: ApprovalId, server: &ServerName) {
        let mut inner = self.lock();
        inner.waiting.remove(&id);
        let Some(rules) = inner.servers.get_mut(server) else { return };
        rules.open = rules.open.saturating_sub(1);
        let flood = rules.refused.tell(Instant::now());
        drop(inner);
        self.tell_flood(server, flood);
    }
}
