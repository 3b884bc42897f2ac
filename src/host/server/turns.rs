//! Whose turn it is at a server whose questions name no request.
//!
//! Over a pipe, protocols before 2026-07-28 do not say during which call a server asks something
//! (sampling, elicitation). While all calls in flight are those of one caller, the question is that
//! caller's. So a call of a tool that is known to ask is sent when no other caller has a call in
//! flight, and the calls of others wait until it has asked or has ended.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

use protocol::{CallId, PendingRequest};

/// The calls in flight at one server, and what is known to ask.
#[derive(Default)]
pub struct Turns {
    state: Mutex<TurnsState>,
    /// Notified when a call has ended, or waits for the answer to its question.
    changed: Notify,
}

#[derive(Default)]
struct TurnsState {
    calls: BTreeMap<CallId, Turn>,
    /// What asks, by method and target.
    askers: HashMap<Arc<str>, Certainty>,
}

/// How certain it is that a tool, prompt or resource asks its caller something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Certainty {
    /// It was the only call in flight when a question came.
    Seen,
    /// It was one of several.
    Suspected,
}

/// What is called.
#[derive(Clone, Debug)]
pub struct CalledTarget {
    /// Its method and target.
    pub key: Arc<str>,
    /// Whether the configuration says that it asks (`approvals.askers`).
    pub is_asker: bool,
}

/// A call in flight.
struct Turn {
    caller: Arc<str>,
    what: CalledTarget,
    pending: Arc<PendingRequest>,
    /// Whether no call of another caller was in flight at any time of it.
    is_alone: bool,
    has_asked: bool,
}

/// The place of a call in flight; leaves it when dropped.
pub struct TurnGuard<'a> {
    turns: &'a Turns,
    call: CallId,
}

impl Turns {
    /// Maximum number of askers remembered; tools and prompts are few, but URIs are not.
    const MAX_ASKERS: usize = 1_000;

    /// Waits until a call can be in flight without making it uncertain whose a question is. `what`
    /// is called by it.
    pub async fn take(
        &self,
        call: CallId,
        what: &CalledTarget,
        pending: &Arc<PendingRequest>,
    ) -> TurnGuard<'_> {
        let caller = pending.caller.get().cloned().unwrap_or_default();
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Registered before the look, so that no change is missed.
            changed.as_mut().enable();
            if self.state.lock().enter(call, &caller, what, pending) {
                return TurnGuard { turns: self, call };
            }
            changed.await;
        }
    }

    /// Records that the server asked something during one of these calls.
    pub fn record_question(&self, calls: &[CallId]) {
        self.state.lock().record_question(calls);
        self.changed.notify_waiters();
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.turns.state.lock().leave(self.call);
        self.turns.changed.notify_waiters();
    }
}

impl TurnsState {
    fn enter(
        &mut self,
        call: CallId,
        caller: &Arc<str>,
        what: &CalledTarget,
        pending: &Arc<PendingRequest>,
    ) -> bool {
        let is_asker = |what: &CalledTarget| what.is_asker || self.askers.contains_key(&what.key);
        let asks = is_asker(what);
        // While a question is open, its call does nothing else: others go on.
        let may_ask = |turn: &Turn| is_asker(&turn.what) && !turn.pending.is_held();
        let mut others = self.calls.values().filter(|turn| turn.caller != *caller);
        if others.any(|turn| asks || may_ask(turn)) {
            return false;
        }
        let mut is_alone = true;
        for turn in self.calls.values_mut().filter(|turn| turn.caller != *caller) {
            (turn.is_alone, is_alone) = (false, false);
        }
        let (caller, what) = (Arc::clone(caller), what.clone());
        let pending = Arc::clone(pending);
        let turn = Turn { caller, what, pending, is_alone, has_asked: false };
        self.calls.insert(call, turn);
        true
    }

    fn record_question(&mut self, calls: &[CallId]) {
        let found = match calls {
            [_] => Certainty::Seen,
            _ => Certainty::Suspected,
        };
        for call in calls {
            let Some(turn) = self.calls.get_mut(call) else { continue };
            turn.has_asked |= found == Certainty::Seen;
            let is_known = self.askers.contains_key(&turn.what.key);
            if found == Certainty::Seen && is_known
                || !is_known && self.askers.len() < Turns::MAX_ASKERS
            {
                self.askers.insert(Arc::clone(&turn.what.key), found);
            }
        }
    }

    fn leave(&mut self, call: CallId) {
        let Some(turn) = self.calls.remove(&call) else { return };
        // It ran alone and asked nothing: another one had asked.
        if turn.is_alone
            && !turn.has_asked
            && self.askers.get(&turn.what.key) == Some(&Certainty::Suspected)
        {
            self.askers.remove(&turn.what.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use tokio_util::sync::CancellationToken;

    use super::*;

    fn call(number: u64, caller: &str) -> (CallId, Arc<PendingRequest>) {
        let limits = (Duration::from_secs(9), Duration::from_secs(9));
        let id = CallId(number);
        let pending = PendingRequest::new(
            base::Clock::system(),
            Some(id),
            limits,
            CancellationToken::new(),
            None,
        );
        let _ = pending.caller.set(caller.into());
        (id, pending)
    }

    fn target(key: &str) -> CalledTarget {
        CalledTarget { key: key.into(), is_asker: false }
    }

    #[tokio::test]
    async fn what_is_declared_to_ask_runs_alone_from_its_first_call_on() {
        let turns = Turns::default();
        let ask = CalledTarget { is_asker: true, ..target("ask") };
        let ((one, of_a), (two, of_b)) = (call(1, "a"), call(2, "b"));
        let first = turns.take(one, &ask, &of_a).await;
        assert!(turns.take(two, &target("long"), &of_b).now_or_never().is_none());
        let own = call(3, "a");
        drop(turns.take(own.0, &target("long"), &own.1).await);
        drop(first);
        let second = turns.take(two, &target("long"), &of_b).await;
        assert!(turns.take(one, &ask, &of_a).now_or_never().is_none());
        drop(second);
        drop(turns.take(one, &ask, &of_a).await);
    }

    #[tokio::test]
    async fn what_may_have_asked_runs_alone_until_it_is_known() {
        let turns = Turns::default();
        let (ask, long) = (target("ask"), target("long"));
        let ((one, of_a), (two, of_b)) = (call(1, "a"), call(2, "b"));
        let first = turns.take(one, &long, &of_a).await;
        let second = turns.take(two, &ask, &of_b).await;
        turns.record_question(&[one, two]);
        drop((first, second));

        let first = turns.take(one, &long, &of_a).await;
        assert!(turns.take(two, &ask, &of_b).now_or_never().is_none(), "either may ask");
        drop(first);
        let second = turns.take(two, &ask, &of_b).await;
        assert!(turns.take(one, &long, &of_a).now_or_never().is_none());
        let own = call(3, "b");
        let own = turns.take(own.0, &long, &own.1).await;
        turns.record_question(&[two]);
        let held = of_b.hold();
        let first = turns.take(one, &long, &of_a).await;
        drop((held, first, second, own));

        assert_eq!(turns.state.lock().askers.get(&ask.key), Some(&Certainty::Seen));
        assert_eq!(turns.state.lock().askers.len(), 1, "the other one ran alone and did not ask");
    }
}
