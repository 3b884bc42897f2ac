//! The desk: where requests of servers are decided (requirements S1, S2).
//!
//! A rule of the entry decides, or the registered callback, or a person; without any of them the
//! request is refused as the specification says. Every request and every decision is a fact.

mod decide;
mod open;

pub(crate) use decide::panic_text;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::oneshot;

use crate::config::{
    ApprovalRule, ApprovalRules, RootConfig, ServerConfig, ServerName, WireLimits,
};
use crate::host::approvals::{Answer, RequestHandler, RuleKind, SessionRule};
use crate::host::deck::Deck;
use crate::host::projector::Facts;
use crate::host::server::session::{Desk, DeskRequest};
use crate::host::{ApprovalId, Error, ErrorCode, Fact, RequestKind};

/// Decides requests of all servers of one host.
pub struct ApprovalDesk {
    facts: Facts,
    handler: RwLock<Option<Arc<dyn RequestHandler>>>,
    person: Person,
    ids: AtomicU64,
    inner: Mutex<Inner>,
    deck: OnceLock<Weak<Deck>>,
}

/// Whether somebody answers through [`crate::Host::answer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Person {
    /// Requests wait in the view.
    Present,
    /// They do not.
    #[default]
    Absent,
}

#[derive(Default)]
struct Inner {
    servers: HashMap<ServerName, Rules>,
    waiting: HashMap<ApprovalId, oneshot::Sender<Answer>>,
}

/// What holds for one server.
#[derive(Clone)]
struct Rules {
    approvals: ApprovalRules,
    roots: Vec<RootConfig>,
    max_open: usize,
    max_waiting: Duration,
    open: usize,
    /// Whether the flood that runs now has been told.
    flooding: bool,
    /// Rules a person set while the deck runs; they come before the entry's.
    session: HashMap<RuleKind, SessionRule>,
}

impl Default for Rules {
    fn default() -> Self {
        let limits = WireLimits::default();
        Self {
            approvals: ApprovalRules::default(),
            roots: Vec::new(),
            max_open: limits.approvals,
            max_waiting: limits.max_waiting,
            open: 0,
            flooding: false,
            session: HashMap::new(),
        }
    }
}

impl ApprovalDesk {
    /// A desk for one host.
    pub fn new(facts: Facts, handler: Option<Arc<dyn RequestHandler>>, person: Person) -> Self {
        Self {
            facts,
            handler: RwLock::new(handler),
            person,
            ids: AtomicU64::new(1),
            inner: Mutex::default(),
            deck: OnceLock::new(),
        }
    }

    /// Tells the desk where it can look up what a call is about.
    pub fn attach(&self, deck: &Arc<Deck>) {
        let _ = self.deck.set(Arc::downgrade(deck));
    }

    /// Registers another callback; requests that are open stay with the one before.
    pub fn set_handler(&self, handler: Option<Arc<dyn RequestHandler>>) {
        *self.handler.write().unwrap_or_else(PoisonError::into_inner) = handler;
    }

    /// Takes the rules of a server's entry into use.
    pub fn configure(&self, config: &ServerConfig) {
        let mut inner = self.lock();
        let rules = inner.servers.entry(config.name.clone()).or_default();
        rules.approvals = config.approvals.clone();
        rules.roots.clone_from(&config.roots);
        rules.max_open = config.wire.approvals;
        rules.max_waiting = config.wire.max_waiting;
    }

    /// Sets or takes back (`None`) a rule of this session. Requests that are open keep waiting.
    pub fn set_rule(&self, server: &ServerName, kind: RuleKind, rule: Option<SessionRule>) {
        let mut inner = self.lock();
        let rules = &mut inner.servers.entry(server.clone()).or_default().session;
        match rule.clone() {
            Some(rule) => rules.insert(kind, rule),
            None => rules.remove(&kind),
        };
        drop(inner);
        self.facts.post(Fact::ApprovalRuleSet { server: server.clone(), kind, rule });
    }

    /// The rule of this session that decides a request, used up by one; `None` when none does.
    fn use_rule(&self, server: &ServerName, kind: &RequestKind) -> Option<ApprovalRule> {
        let kind = RuleKind::of(kind)?;
        let mut inner = self.lock();
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
            let server = server.clone();
            self.facts.post(Fact::ApprovalRuleSet { server, kind, rule: now });
        }
        Some(decided)
    }

    /// Shares other roots with a server until its entry changes.
    pub fn set_roots(&self, server: &ServerName, roots: Vec<RootConfig>) {
        self.lock().servers.entry(server.clone()).or_default().roots = roots;
    }

    /// The roots shared with a server.
    pub fn roots(&self, server: &ServerName) -> Vec<RootConfig> {
        self.lock().servers.get(server).map(|rules| rules.roots.clone()).unwrap_or_default()
    }

    /// Forgets a server that left the deck.
    pub fn forget(&self, server: &ServerName) {
        self.lock().servers.remove(server);
    }

    /// Answers a request that waits for a person.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it does not wait (any more): nothing was sent.
    pub fn answer(&self, id: ApprovalId, answer: Answer) -> Result<(), Error> {
        let waiting = self.lock().waiting.remove(&id);
        match waiting.map(|sender| sender.send(answer)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(Error::new(
                ErrorCode::Cancelled,
                format!("request {id} is no longer open; nothing was sent"),
            )),
        }
    }

    fn handler(&self) -> Option<Arc<dyn RequestHandler>> {
        self.handler.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn next_id(&self) -> ApprovalId {
        ApprovalId(self.ids.fetch_add(1, Ordering::Relaxed))
    }

    fn rules(&self, server: &ServerName) -> Rules {
        self.lock().servers.get(server).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The desk as sessions see it.
#[derive(Clone)]
pub struct DeskHandle(pub Arc<ApprovalDesk>);

impl Desk for DeskHandle {
    fn ask(&self, request: DeskRequest) -> BoxFuture<'static, Answer> {
        Box::pin(decide::decide(Arc::clone(&self.0), request))
    }
}

#[cfg(test)]
mod tests;
