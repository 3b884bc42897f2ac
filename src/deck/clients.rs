//! The clients of a service: what each of them does, and what the operator decided about it (pause,
//! cut, revoke). Written by the service, read by screens.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use base::{SafeText, Timestamp};
use config::error::{Error, ErrorCode};
use host::{CallOutcome, Origin, Principal};

/// Most clients that are tracked; beyond that, the one idle the longest is dropped.
const MAX_CLIENTS: usize = 1_000;

/// The current state of a client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientView {
    /// Its identity for policy decisions: the origin holds the id of its token.
    pub principal: Principal,
    /// The name and version it reports.
    pub name: Option<SafeText>,
    /// The protocol it speaks; `None` for REST.
    pub protocol: Option<SafeText>,
    /// Time of its first request since the service began.
    pub since: Timestamp,
    /// Time of its latest request.
    pub seen: Timestamp,
    /// Its calls in flight, `server.tool`, oldest first.
    pub active: Vec<SafeText>,
    /// Number of calls that ended.
    pub calls: u64,
    /// Number of those that failed or were refused.
    pub failed: u64,
    /// Time that servers spent on its calls.
    pub busy: Duration,
    /// Time spent waiting for the user during its calls.
    pub human: Duration,
    /// Whether its calls are held until the operator resumes them.
    pub is_paused: bool,
    /// Whether its token was revoked.
    pub is_revoked: bool,
}

struct Known {
    view: ClientView,
    active: BTreeMap<u64, SafeText>,
    paused: watch::Sender<bool>,
    cut: CancellationToken,
}

/// Revokes a client's token; the error is the reason it could not.
type Revoke = Box<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

#[derive(Default)]
struct ClientsInner {
    known: Mutex<BTreeMap<Origin, Known>>,
    begun: AtomicU64,
    revoke: OnceLock<Revoke>,
    served_at: OnceLock<SafeText>,
}

/// The clients of a service; clones share them.
#[derive(Clone, Default)]
pub struct Clients {
    inner: Arc<ClientsInner>,
}

/// A call in flight; counts as failed unless it `ended` before the drop.
struct Active {
    clients: Clients,
    origin: Origin,
    number: u64,
    ended: Option<(Duration, Duration)>,
}

impl Clients {
    /// Records a request of a client; returns the token that a cut cancels.
    pub fn seen(&self, principal: &Principal, now: Timestamp) -> CancellationToken {
        let mut known = self.inner.known.lock();
        let origin = &principal.origin;
        if let Some(one) = known.get_mut(origin) {
            one.view.seen = now;
            if one.view.principal != *principal {
                one.view.principal = principal.clone();
            }
            return one.cut.clone();
        }
        if known.len() >= MAX_CLIENTS {
            // A paused one must not come back without its pause.
            let idle =
                known.iter().filter(|(_, one)| one.active.is_empty() && !*one.paused.borrow());
            let oldest =
                idle.min_by_key(|(_, one)| one.view.seen).map(|(origin, _)| origin.clone());
            oldest.and_then(|oldest| known.remove(&oldest));
        }
        let cut = CancellationToken::new();
        let one = Known {
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
            cut: cut.clone(),
        };
        known.insert(origin.clone(), one);
        cut
    }

    /// Records the name and protocol that a client reported.
    pub fn introduced(&self, principal: &Principal, name: &str, protocol: &str) {
        self.with(&principal.origin, |Known { view, .. }| {
            if view.name.as_deref() != Some(name) || view.protocol.as_deref() != Some(protocol) {
                view.name = Some(SafeText::cut(name, 80));
                view.protocol = Some(SafeText::cut(protocol, 20));
            }
        });
    }

    /// Runs `work` on a client, if it is known.
    fn with<T>(&self, origin: &Origin, work: impl FnOnce(&mut Known) -> T) -> Option<T> {
        self.inner.known.lock().get_mut(origin).map(work)
    }

    /// The same for an origin as it is written.
    fn with_named<T>(&self, origin: &str, work: impl FnOnce(&mut Known) -> T) -> Option<T> {
        self.with(&Origin::parse(origin)?, work)
    }

    /// Makes a call of a client once it is not paused, and counts it.
    ///
    /// # Errors
    /// Those of the call, or that it was cancelled while it was held.
    pub async fn call(
        &self,
        principal: &Principal,
        target: &str,
        cancel: &CancellationToken,
        call: impl Future<Output = Result<CallOutcome, Error>>,
    ) -> Result<CallOutcome, Error> {
        if cancel.run_until_cancelled(self.resumed(principal)).await.is_none() {
            return Err(Error::new(ErrorCode::Cancelled, "cancelled while it was held back"));
        }
        let origin = principal.origin.clone();
        let number = self.inner.begun.fetch_add(1, Ordering::Relaxed);
        self.with(&origin, |one| one.active.insert(number, SafeText::cut(target, 200)));
        let mut active = Active { clients: self.clone(), origin, number, ended: None };
        let outcome = call.await;
        let done = outcome.as_ref().ok().filter(|outcome| !outcome.is_error);
        active.ended = done.map(|outcome| (outcome.duration, outcome.waiting));
        outcome
    }

    /// Waits until a client is not paused.
    pub async fn resumed(&self, principal: &Principal) {
        let paused = self.with(&principal.origin, |one| one.paused.subscribe());
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

    /// Toggles whether the calls of a client are held; returns whether they are held now.
    pub fn pause(&self, origin: &str) -> bool {
        let held = self.with_named(origin, |one| {
            one.paused.send_modify(|paused| *paused = !*paused);
            *one.paused.borrow()
        });
        held.unwrap_or_default()
    }

    /// Cancels the calls of a client and ends its streams; it may reconnect.
    pub fn cut(&self, origin: &str) {
        self.with_named(origin, |one| std::mem::take(&mut one.cut).cancel());
    }

    /// Revokes a client's token and cancels its calls and streams.
    ///
    /// # Errors
    /// Why its token could not be revoked; it is cut nevertheless.
    pub fn revoke(&self, origin: &str) -> Result<(), String> {
        self.cut(origin);
        let revoke = self.inner.revoke.get().ok_or("there is no service")?;
        revoke(origin.split_once(':').map_or(origin, |(_, id)| id))?;
        self.with_named(origin, |one| {
            one.view.is_revoked = true;
            one.paused.send_replace(false);
        });
        Ok(())
    }

    /// Sets the address of the service; called once, by the service.
    pub fn served_at(&self, place: &str) {
        let _ = self.inner.served_at.set(SafeText::line(place));
    }

    /// The address of the service; `None` while nothing is served.
    pub fn place(&self) -> Option<&SafeText> {
        self.inner.served_at.get()
    }

    /// Sets how tokens are revoked; called once, by the service.
    pub fn revoke_with(&self, revoke: impl Fn(&str) -> Result<(), String> + Send + Sync + 'static) {
        let _ = self.inner.revoke.set(Box::new(revoke));
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
