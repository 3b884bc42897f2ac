//! One open request: its seat in the queue, its facts, and its withdrawal when it is dropped.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::host::approvals::desk::ApprovalDesk;
use crate::host::approvals::{Answer, Decider, PendingRequest, Settlement};
use crate::host::server::session::DeskRequest;
use crate::host::{Fact, Finding, FindingKind, Timestamp};
use crate::text::SafeText;

/// Holds a place among the open requests of a server. Dropping it unsettled withdraws the request.
pub(super) struct Open {
    desk: Arc<ApprovalDesk>,
    pub(super) request: Arc<PendingRequest>,
    /// What to say when it is dropped.
    withdrawal: Option<&'static str>,
}

impl Open {
    /// Takes a place; `None` when the server has too many open already.
    pub(super) async fn take(desk: Arc<ApprovalDesk>, asked: &DeskRequest) -> Option<Self> {
        let now = desk.facts.clock().now();
        let max_waiting = match desk.seat(asked) {
            Seat::Taken { max_waiting } => max_waiting,
            Seat::Full { tell } => {
                if let Some(limit) = tell {
                    desk.facts.record(flood(asked, limit, now)).await;
                }
                return None;
            }
        };
        let during = asked.call.and_then(|call| {
            let deck = desk.deck.get()?.upgrade()?;
            let slot = deck.slots().get(&asked.server).cloned()?;
            slot.target_of(call)
        });
        let request = Arc::new(PendingRequest {
            id: desk.next_id(),
            server: asked.server.clone(),
            kind: asked.kind.clone(),
            call: asked.call,
            during,
            params: Arc::clone(&asked.params),
            bytes: asked.bytes,
            arrived: now,
            deadline: now.plus(max_waiting),
            deferred: asked.deferred,
        });
        Some(Self { desk, request, withdrawal: Some("the call or the session that asked is gone") })
    }

    /// Lets a person answer. Called before the arrival is told, so that no answer can be too early.
    pub(super) fn park(&self) -> oneshot::Receiver<Answer> {
        let (sender, receiver) = oneshot::channel();
        self.desk.lock().waiting.insert(self.request.id, sender);
        receiver
    }

    /// Tells that the request arrived.
    pub(super) async fn arrived(&self) {
        let request = Arc::clone(&self.request);
        self.desk.facts.record(Fact::RequestArrived { request }).await;
    }

    /// Tells that an answer was given.
    pub(super) async fn answered(mut self, by: Decider, how: String) {
        self.withdrawal = None;
        let fact = self.settled(Settlement::Answered { by, how });
        self.desk.facts.record(fact).await;
    }

    /// Tells that no answer is wanted any more.
    pub(super) async fn withdrawn(mut self, reason: &str) {
        self.withdrawal = None;
        let fact = self.settled(Settlement::Withdrawn { reason: SafeText::line(reason) });
        self.desk.facts.record(fact).await;
    }

    fn settled(&self, settlement: Settlement) -> Fact {
        Fact::RequestSettled {
            id: self.request.id,
            server: self.request.server.clone(),
            settlement,
            after: self.desk.facts.clock().now().since(self.request.arrived),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.desk.leave(self.request.id, &self.request.server);
        if let Some(reason) = self.withdrawal {
            let reason = SafeText::line(reason);
            self.desk.facts.post(self.settled(Settlement::Withdrawn { reason }));
        }
    }
}

enum Seat {
    Taken {
        max_waiting: std::time::Duration,
    },
    Full {
        /// The limit, when this flood has not been told yet.
        tell: Option<usize>,
    },
}

impl ApprovalDesk {
    fn seat(&self, asked: &DeskRequest) -> Seat {
        let mut inner = self.lock();
        let rules = inner.servers.entry(asked.server.clone()).or_default();
        if rules.open >= rules.max_open {
            let tell = (!rules.flooding).then_some(rules.max_open);
            rules.flooding = true;
            return Seat::Full { tell };
        }
        rules.open += 1;
        Seat::Taken { max_waiting: rules.max_waiting }
    }

    fn leave(&self, id: crate::host::ApprovalId, server: &crate::config::ServerName) {
        let mut inner = self.lock();
        inner.waiting.remove(&id);
        if let Some(rules) = inner.servers.get_mut(server) {
            rules.open = rules.open.saturating_sub(1);
            // Told again only after the queue was half empty: one finding per flood.
            rules.flooding &= rules.open * 2 >= rules.max_open;
        }
    }
}

fn flood(asked: &DeskRequest, limit: usize, now: Timestamp) -> Fact {
    let method = asked.kind.method();
    Fact::Found {
        server: asked.server.clone(),
        finding: Finding::new(
            FindingKind::Flood,
            now,
            format!(
                "more than {limit} requests of the server are open; `{method}` and more were refused"
            ),
        ),
    }
}
