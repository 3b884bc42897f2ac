//! The sessions of a server whose callers use it as themselves (`oauth.exchange`): one for each token
//! of a caller, and never another's.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use base::{Secret, Timestamp};
use config::error::{Error, ErrorCode};
use mcp::SessionHandle;

/// A caller of the gateway that has signed in, with the token that it came with. The token is
/// exchanged for others, and sent to no server.
#[derive(Clone)]
pub struct CallerIdentity {
    /// Whose it is, as its issuer spells it.
    pub subject: Arc<str>,
    /// When it ends.
    pub expires: Timestamp,
    token: Secret,
    key: [u8; 32],
}

impl CallerIdentity {
    /// A caller whose token has been checked.
    pub fn new(subject: &str, token: &str, expires: Timestamp) -> Self {
        let (subject, key) = (subject.into(), Self::key_of(token));
        Self { subject, expires, token: Secret::new(token), key }
    }

    /// What sessions are kept under: another token of the same person may be good for less.
    pub fn key_of(token: &str) -> [u8; 32] {
        Sha256::digest(token).into()
    }

    /// The token, for an exchange.
    pub fn token(&self) -> &Secret {
        &self.token
    }
}

impl fmt::Debug for CallerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallerIdentity").field("subject", &self.subject).finish_non_exhaustive()
    }
}

/// The open sessions of one server, bounded by its entry.
#[derive(Default)]
pub struct Persons {
    open: Mutex<HashMap<[u8; 32], Arc<Person>>>,
}

/// The place of one token's session.
pub struct Person {
    key: [u8; 32],
    session: OnceCell<Arc<dyn SessionHandle>>,
    held: Mutex<PersonUse>,
    /// Ends the session.
    pub ended: CancellationToken,
}

/// How much a session is used.
struct PersonUse {
    calls: usize,
    last: Instant,
}

/// A call's hold on a session, which is not ended for being idle meanwhile.
pub struct PersonHold<'a> {
    persons: &'a Persons,
    person: Arc<Person>,
}

impl Persons {
    /// The place of a caller, of at most `max`. One that is not in use makes room for it.
    ///
    /// # Errors
    /// [`ErrorCode::RateLimited`] while all are in use.
    pub fn join(&self, caller: &CallerIdentity, max: usize) -> Result<PersonHold<'_>, Error> {
        let mut open = self.open.lock();
        let known = open.get(&caller.key).filter(|person| !person.ended.is_cancelled());
        let person = if let Some(person) = known.cloned() {
            person
        } else {
            open.retain(|_, person| !person.ended.is_cancelled());
            if open.len() >= max {
                let unused = open.values().filter(|person| person.held.lock().calls == 0);
                let oldest = unused.min_by_key(|person| person.held.lock().last).cloned();
                let Some(oldest) = oldest else { return Err(crowded()) };
                open.remove(&oldest.key);
                oldest.ended.cancel();
            }
            let person = Arc::new(Person {
                key: caller.key,
                session: OnceCell::new(),
                held: Mutex::new(PersonUse { calls: 0, last: Instant::now() }),
                ended: CancellationToken::new(),
            });
            open.insert(caller.key, Arc::clone(&person));
            person
        };
        person.held.lock().calls += 1;
        Ok(PersonHold { persons: self, person })
    }

    /// Ends a session that nobody has used for this long; `None` when that is done, or how long it
    /// has until then.
    pub fn retire(&self, person: &Arc<Person>, idle: Duration) -> Option<Duration> {
        // Under the lock, so that no call joins it meanwhile.
        let _open = self.open.lock();
        let held = person.held.lock();
        let left = if held.calls > 0 { idle } else { idle.saturating_sub(held.last.elapsed()) };
        if left.is_zero() {
            person.ended.cancel();
            return None;
        }
        Some(left)
    }

    /// How many sessions are open.
    pub fn count(&self) -> usize {
        let open = self.open.lock();
        open.values().filter(|person| person.session.initialized()).count()
    }

    /// Ends the session of a token.
    pub fn end(&self, key: &[u8; 32]) {
        if let Some(person) = self.open.lock().remove(key) {
            person.ended.cancel();
        }
    }

    /// Ends every session.
    pub fn end_all(&self) {
        self.open.lock().drain().for_each(|(_, person)| person.ended.cancel());
    }

    /// Forgets a session that has ended.
    pub fn forget(&self, person: &Arc<Person>) {
        person.ended.cancel();
        let mut open = self.open.lock();
        if open.get(&person.key).is_some_and(|known| Arc::ptr_eq(known, person)) {
            open.remove(&person.key);
        }
    }
}

impl PersonHold<'_> {
    /// The session, which `open` opens if there is none; one caller opens it for all that wait.
    ///
    /// # Errors
    /// Those of `open`.
    pub async fn session<W: Future<Output = Result<Arc<dyn SessionHandle>, Error>>>(
        &self,
        open: impl FnOnce(Arc<Person>) -> W,
    ) -> Result<Arc<dyn SessionHandle>, Error> {
        let opened = self.person.session.get_or_try_init(|| open(Arc::clone(&self.person)));
        opened.await.cloned()
    }

    /// Ends the session: it serves no further call.
    pub fn give_up(&self) {
        self.persons.forget(&self.person);
    }
}

impl Drop for PersonHold<'_> {
    fn drop(&mut self) {
        let is_unopened = {
            let mut held = self.person.held.lock();
            held.calls -= 1;
            held.last = Instant::now();
            held.calls == 0 && self.person.session.get().is_none()
        };
        if is_unopened {
            self.persons.forget(&self.person);
        }
    }
}

fn crowded() -> Error {
    const ROOM_RETRY_INTERVAL: Duration = Duration::from_secs(1);
    let message = "as many persons use this server as its entry permits";
    let mut error = Error::new(ErrorCode::RateLimited, message);
    error.retry_after = Some(ROOM_RETRY_INTERVAL);
    error.help("raise `maxSessions` of `exchange`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(token: &str) -> CallerIdentity {
        CallerIdentity::new("alice", token, Timestamp(0))
    }

    #[test]
    fn a_token_is_never_shown() {
        assert!(!format!("{:?}", caller("hunter2")).contains("hunter2"));
    }

    #[tokio::test]
    async fn places_are_per_token_bounded_and_end_with_it() {
        let persons = Persons::default();
        let (one, other) = (caller("one"), caller("other"));
        let first = persons.join(&one, 1).expect("a place");
        let again = persons.join(&one, 1).expect("the same place");
        assert!(Arc::ptr_eq(&first.person, &again.person));
        let crowded = persons.join(&other, 1).err().map(|error| error.code);
        assert_eq!(crowded, Some(ErrorCode::RateLimited), "nobody in a call loses the session");
        // In use, it is not idle; a token that is good no longer ends it all the same.
        assert!(persons.retire(&first.person, Duration::from_secs(1)).is_some());
        persons.end(&CallerIdentity::key_of("one"));
        assert!(first.person.ended.is_cancelled());
        let anew = persons.join(&one, 1).expect("a new place");
        assert!(!anew.person.ended.is_cancelled());
        drop((first, again));
        assert!(Arc::ptr_eq(&anew.person, &persons.join(&one, 1).expect("a place").person));
        // Nothing was opened there: the place is free.
        drop(anew);
        assert!(persons.join(&other, 1).is_ok());
    }
}
