//! The approval queue: where requests of servers are decided (requirements S1, S2).
//!
//! A rule of the entry decides, or the registered callback, or a person; without any of them the
//! request is refused as the specification says. Every request and every decision is a fact.

mod decide;
mod draft;
mod open;
mod rules;

pub(crate) use decide::panic_text;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::{oneshot, watch};

use crate::base::ServerName;
use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::config::OutsideCalls;
use crate::error::{Error, ErrorCode};
use crate::host::Fact;
use crate::host::approvals::queue::rules::Rules;
use crate::host::approvals::{Drafter, PendingRequest, RequestHandler};
use crate::host::projector::Facts;
use crate::mcp::Answer;
use crate::mcp::session::{Responder, ServerRequest};
use crate::mcp::{ApprovalId, CallId};

/// Decides requests of all servers of one host.
pub struct ApprovalQueue {
    facts: Facts,
    handler: RwLock<Option<Arc<dyn RequestHandler>>>,
    drafter: RwLock<Option<Arc<dyn Drafter>>>,
    /// How many persons answer.
    present: AtomicUsize,
    ids: AtomicU64,
    inner: Mutex<Inner>,
    calls: OnceLock<FindCall>,
}

/// Looks up what a call is about.
type FindCall = Box<dyn Fn(&ServerName, CallId) -> Option<SafeText> + Send + Sync>;

/// Whether somebody answers through [`crate::Host::answer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Person {
    /// Requests wait in the view.
    Present,
    /// They do not.
    #[default]
    Absent,
}

/// A person who answers until this is dropped; requests that are open then keep waiting.
pub struct Presence(Arc<ApprovalQueue>);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.present.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Inner {
    servers: HashMap<ServerName, Rules>,
    waiting: HashMap<ApprovalId, Waiting>,
}

/// A request that waits for a person.
struct Waiting {
    request: Arc<PendingRequest>,
    answer: oneshot::Sender<Answer>,
    /// How long it may wait in all.
    patience: watch::Sender<Duration>,
}

impl ApprovalQueue {
    /// Longest time a request may wait, however often it is given more.
    pub const LONGEST: Duration = Duration::from_secs(24 * 3_600);

    /// An approval queue for one host.
    pub fn new(facts: Facts, handler: Option<Arc<dyn RequestHandler>>, person: Person) -> Self {
        Self {
            facts,
            handler: RwLock::new(handler),
            drafter: RwLock::default(),
            present: AtomicUsize::new(usize::from(person == Person::Present)),
            ids: AtomicU64::new(1),
            inner: Mutex::default(),
            calls: OnceLock::new(),
        }
    }

    /// Says how it can be looked up what a call is about.
    pub fn attach(
        &self,
        calls: impl Fn(&ServerName, CallId) -> Option<SafeText> + Send + Sync + 'static,
    ) {
        let _ = self.calls.set(Box::new(calls));
    }

    /// Registers another callback; requests that are open stay with the one before.
    pub fn set_handler(&self, handler: Option<Arc<dyn RequestHandler>>) {
        *self.handler.write() = handler;
    }

    /// Somebody answers from now on, besides those who did before.
    pub fn person_arrives(self: &Arc<Self>) -> Presence {
        self.present.fetch_add(1, Ordering::Relaxed);
        Presence(Arc::clone(self))
    }

    /// Whether a request of a server waits for a person.
    pub fn is_asking(&self, server: &ServerName) -> bool {
        self.lock().waiting.values().any(|waiting| waiting.request.server == *server)
    }

    /// Answers a request that waits for a person.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it does not wait (any more): nothing was sent.
    pub fn answer(&self, id: ApprovalId, answer: Answer) -> Result<(), Error> {
        let waiting = self.lock().waiting.remove(&id);
        match waiting.map(|waiting| waiting.answer.send(answer)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(closed(id)),
        }
    }

    /// Gives a request that waits for a person more time; gives when it ends now.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it does not wait (any more).
    pub fn extend(&self, id: ApprovalId, more: Duration) -> Result<Timestamp, Error> {
        let inner = self.lock();
        let waiting = inner.waiting.get(&id).ok_or_else(|| closed(id))?;
        waiting.patience.send_modify(|patience| {
            *patience = patience.saturating_add(more).min(Self::LONGEST).max(*patience);
        });
        let deadline = waiting.request.arrived.plus(*waiting.patience.borrow());
        let server = waiting.request.server.clone();
        drop(inner);
        self.facts.post(Fact::RequestExtended { id, server, deadline });
        Ok(deadline)
    }

    fn handler(&self) -> Option<Arc<dyn RequestHandler>> {
        self.handler.read().clone()
    }

    fn next_id(&self) -> ApprovalId {
        ApprovalId(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

fn closed(id: ApprovalId) -> Error {
    Error::new(ErrorCode::Cancelled, format!("request {id} is no longer open; nothing was sent"))
}

/// The approval queue as sessions see it.
#[derive(Clone)]
pub struct QueueHandle(pub Arc<ApprovalQueue>);

impl Responder for QueueHandle {
    fn ask(&self, request: ServerRequest) -> BoxFuture<'static, Answer> {
        Box::pin(decide::decide(Arc::clone(&self.0), request))
    }

    fn outside_calls(&self, server: &ServerName) -> OutsideCalls {
        let inner = self.0.lock();
        inner
            .servers
            .get(server)
            .map_or(OutsideCalls::default(), |rules| rules.approvals.outside_calls)
    }
}

#[cfg(test)]
mod tests;
