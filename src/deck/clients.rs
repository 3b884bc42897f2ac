//! Who uses this deck from outside: every client of a service with what it does, and what the
//! operator decides about it (pause, cut, revoke). The service writes, a screen reads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::base::{SafeText, Timestamp};
use crate::error::Error;
use crate::host::{CallOutcome, Principal};

/// Most clients that are remembered; of more, the one that was silent longest is forgotten.
const REMEMBERED: usize = 1_000;

/// A client as it stands now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientView {
    /// Who it is to decisions: the origin holds the id of its token.
    pub principal: Principal,
    /// The name and the version it gives itself.
    pub name: Option<SafeText>,
    /// The protocol it speaks; nothing for REST.
    pub protocol: Option<SafeText>,
    /// Its first request since the service began.
    pub since: Timestamp,
    /// Its newest request.
    pub seen: Timestamp,
    /// What it calls now, `server.tool`, oldest first.
    pub active: Vec<SafeText>,
    /// Calls that ended.
    pub calls: u64,
    /// Those of them that failed or were refused.
    pub failed: u64,
    /// Time that servers took for it.
    pub busy: Duration,
    /// Time that a person took to answer during its calls.
    pub human: Duration,
    /// Whether its calls wait until the operator lets them go on.
    pub is_paused: bool,
    /// Whether its token was ended.
    pub is_revoked: bool,
}

struct Known {
    view: ClientView,
    active: BTreeMap<u64, SafeText>,
    paused: watch::Sender<bool>,
    cut: CancellationToken,
}

/// Ends a client's token; says why it could not.
type Revoke = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

#[derive(Default)]
struct ClientsInner {
    known: Mutex<BTreeMap<String, Known>>,
    begun: AtomicU64,
    revoke: OnceLock<Revoke>,
    served_at: OnceLock<SafeText>,
}

/// The clients of a service; clones share them.
#[derive(Clone, Default)]
pub struct Clients {
    inner: Arc<ClientsInner>,
}

/// A call under way; it has failed when it is dropped before [`Active::end`].
pub struct Active {
    clients: Clients,
    origin: String,
    number: u64,
    ended: Option<(Duration, Duration)>,
}

impl Clients {
    /// A client has sent a request. Gives what ends its streams and calls when it is cut.
    pub fn seen(&self, principal: &Principal, now: Timestamp) -> CancellationToken {
        let mut known = self.inner.known.lock();
        let origin = principal.origin.to_string();
        if known.len() >= REMEMBERED && !known.contains_key(&origin) {
            let idle = known.iter().filter(|(_, one)| one.active.is_empty());
            let oldest =
                idle.min_by_key(|(_, one)| one.view.seen).map(|(origin, _)| origin.clone());
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        let one = known.entry(origin).or_insert_with(|| Known {
            view: ClientView {
                principal: principal.clone(),
                name: None,
                protocol: None,
                since: now,
                seen: now,
                active: Vec::new(),
                calls: 0,
                failed: 0,
                busy: Duration::ZERO,
                human: Duration::ZERO,
                is_paused: false,
                is_revoked: false,
            },
            active: BTreeMap::new(),
            paused: watch::Sender::default(),
            cut: CancellationToken::new(),
        });
        one.view.seen = now;
        one.view.principal.clone_from(principal);
        one.cut.clone()
    }

    /// A client has said what it is.
    pub fn introduced(&self, principal: &Principal, name: &str, protocol: &str) {
        self.with(&principal.origin.to_string(), |Known { view, .. }| {
            if view.name.as_deref() != Some(name) || view.protocol.as_deref() != Some(protocol) {
                view.name = Some(SafeText::cut(name, 80));
                view.protocol = Some(SafeText::cut(protocol, 20));
            }
        });
    }

    /// Does something with a client, when it is known.
    fn with<T>(&self, origin: &str, work: impl FnOnce(&mut Known) -> T) -> Option<T> {
        self.inner.known.lock().get_mut(origin).map(work)
    }

    /// A client makes a call.
    pub fn begin(&self, principal: &Principal, target: &str) -> Active {
        let origin = principal.origin.to_string();
        let number = self.inner.begun.fetch_add(1, Ordering::Relaxed);
        self.with(&origin, |one| one.active.insert(number, SafeText::cut(target, 200)));
        Active { clients: self.clone(), origin, number, ended: None }
    }

    /// Waits until a client is not paused.
    pub async fn resumed(&self, principal: &Principal) {
        let paused = self.with(&principal.origin.to_string(), |one| one.paused.subscribe());
        if let Some(mut paused) = paused {
            let _ = paused.wait_for(|paused| !paused).await;
        }
    }

    /// Every client, the newest first.
    pub fn list(&self) -> Vec<ClientView> {
        let known = self.inner.known.lock();
        let view = |one: &Known| ClientView {
            active: one.active.values().cloned().collect(),
            is_paused: *one.paused.borrow(),
            ..one.view.clone()
        };
        let mut all: Vec<ClientView> = known.values().map(view).collect();
        all.sort_by_key(|client| std::cmp::Reverse(client.since));
        all
    }

    /// Holds the calls of a client back, or lets them go on; gives whether they are held now.
    pub fn pause(&self, origin: &str) -> bool {
        let held = self.with(origin, |one| {
            one.paused.send_modify(|paused| *paused = !*paused);
            *one.paused.borrow()
        });
        held.unwrap_or_default()
    }

    /// Cancels the calls of a client and ends its streams; it may come again.
    pub fn cut(&self, origin: &str) {
        self.with(origin, |one| std::mem::take(&mut one.cut).cancel());
    }

    /// Ends a client's token, and what it does.
    ///
    /// # Errors
    /// Why its token could not be ended; it is cut all the same.
    pub fn revoke(&self, origin: &str) -> Result<(), String> {
        self.cut(origin);
        let revoke = self.inner.revoke.get().ok_or("there is no service")?;
        revoke(origin.split_once(':').map_or(origin, |(_, id)| id))?;
        self.with(origin, |one| {
            one.view.is_revoked = true;
            one.paused.send_replace(false);
        });
        Ok(())
    }

    /// Where they come in, said once, by the service.
    pub fn served_at(&self, place: &str) {
        let _ = self.inner.served_at.set(SafeText::line(place));
    }

    /// Where they come in; `None` while nothing is served.
    pub fn place(&self) -> Option<&SafeText> {
        self.inner.served_at.get()
    }

    /// How tokens are ended; said once, by the service.
    pub fn revoke_with(&self, revoke: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) {
        let _ = self.inner.revoke.set(Box::new(revoke));
    }
}

impl Active {
    /// The call is over.
    pub fn end(mut self, outcome: &Result<CallOutcome, Error>) {
        let done = outcome.as_ref().ok().filter(|outcome| !outcome.is_error);
        self.ended = done.map(|outcome| (outcome.duration, outcome.waiting));
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.clients.with(&self.origin, |one| {
            one.active.remove(&self.number);
            one.view.calls += 1;
            match self.ended {
                Some((busy, human)) => {
                    one.view.busy += busy;
                    one.view.human += human;
                }
                None => one.view.failed += 1,
            }
        });
    }
}
