//! The sessions that are open in one process, and which of them ends for another. Pure.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use rmcp::transport::streamable_http_server::session::SessionId;

/// An open session, with its owner.
#[derive(Clone)]
pub(super) struct OpenSession<S> {
    pub(super) session: S,
    /// Id of the token that owns the session: knowing a session id alone grants no access.
    pub(super) owner: Option<Arc<str>>,
}

/// All open sessions, by id.
pub(super) struct SessionTable<S> {
    open: HashMap<SessionId, OpenSession<S>>,
    /// How many of them a client owns.
    owned: HashMap<Arc<str>, usize>,
    /// How many nobody owns; they count as those of one client.
    unowned: usize,
    /// Sessions that are about to be opened, and have their room already.
    reserved: usize,
    found: OldestSessions,
}

/// Since when a session is as it is, and whether it is in use.
#[derive(Clone, Copy)]
pub(super) struct SessionUse {
    pub(super) since: Instant,
    pub(super) is_in_use: bool,
}

impl SessionUse {
    fn unused_since(self) -> Option<Instant> {
        (!self.is_in_use).then_some(self.since)
    }
}

/// Unused sessions that were found by one look at all, for the next ones that have to end.
#[derive(Default)]
struct OldestSessions {
    whose: Option<Whose>,
    /// Since when each is unused, the oldest last.
    oldest: Vec<(Instant, SessionId)>,
}

/// Whose sessions end.
#[derive(PartialEq, Eq)]
enum Whose {
    /// Of those who have as many as nobody else.
    Most(usize),
    /// Of the one who opens another.
    Own(Arc<str>),
}

impl<S> Default for SessionTable<S> {
    fn default() -> Self {
        let found = OldestSessions::default();
        Self { open: HashMap::new(), owned: HashMap::new(), unowned: 0, reserved: 0, found }
    }
}

impl<S> SessionTable<S> {
    /// Most sessions that one look at all remembers.
    const MAX_REMEMBERED_SESSIONS: usize = 64;

    /// How much room is taken: by the open sessions and by those to come.
    pub(super) fn taken(&self) -> usize {
        self.open.len() + self.reserved
    }

    /// Takes room for a session to come, until [`Self::release`].
    pub(super) fn reserve(&mut self) {
        self.reserved += 1;
    }

    /// Gives back the room of a session that came, or will not.
    pub(super) fn release(&mut self) {
        self.reserved -= 1;
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = &SessionId> {
        self.open.keys()
    }

    pub(super) fn get(&self, id: &str) -> Option<&OpenSession<S>> {
        self.open.get(id)
    }

    /// Adds a session that nobody owns yet.
    pub(super) fn insert(&mut self, id: SessionId, session: S) {
        self.remove(&id);
        self.open.insert(id, OpenSession { session, owner: None });
        self.unowned += 1;
    }

    /// Sets the owner of a session, unless it has one.
    pub(super) fn set_owner(&mut self, id: &str, client: &Arc<str>) {
        let unowned = self.open.get_mut(id).filter(|open| open.owner.is_none());
        if let Some(open) = unowned {
            open.owner = Some(Arc::clone(client));
            self.unowned -= 1;
            *self.owned.entry(Arc::clone(client)).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<OpenSession<S>> {
        let gone = self.open.remove(id)?;
        match &gone.owner {
            Some(owner) => {
                if let Some(count) = self.owned.get_mut(owner) {
                    *count -= 1;
                    if *count == 0 {
                        self.owned.remove(owner);
                    }
                }
            }
            None => self.unowned -= 1,
        }
        Some(gone)
    }

    /// Removes the sessions that are over.
    pub(super) fn remove_where(&mut self, is_over: impl Fn(&S) -> bool) -> Vec<OpenSession<S>> {
        let over = self.open.iter().filter(|(_, open)| is_over(&open.session));
        let over: Vec<SessionId> = over.map(|(id, _)| Arc::clone(id)).collect();
        over.into_iter().filter_map(|id| self.remove(&id)).collect()
    }

    /// Removes a session to make room for one of a client. It is taken from the client that has the
    /// most, or where that has none unused, from the next of those that have more than this client and
    /// more than their share: the oldest that nobody uses now. This client's own ends only if nobody
    /// has more. Where none of these is unused, one in use of the client that has the most ends, if
    /// that has more than this one.
    pub(super) fn remove_oldest(
        &mut self,
        client: &str,
        use_of: impl Fn(&S) -> SessionUse,
    ) -> Option<OpenSession<S>> {
        let unused_since = |session: &S| use_of(session).unused_since();
        let own = self.owned.get_key_value(client);
        let own_count = own.map_or(0, |(_, count)| *count);
        let most = self.owned.values().copied().max().unwrap_or(0).max(self.unowned);
        let whose = match own {
            Some((client, _)) if most <= own_count => Whose::Own(Arc::clone(client)),
            _ => Whose::Most(most),
        };
        let oldest = self
            .known_oldest(&whose, unused_since)
            .or_else(|| self.find_oldest(client, (own_count, whose), unused_since))
            .or_else(|| self.find_used(own_count.max(most.saturating_sub(1)), &use_of))?;
        self.remove(&oldest)
    }

    /// The oldest session of those who have more than so many.
    fn find_used(&self, than: usize, use_of: impl Fn(&S) -> SessionUse) -> Option<SessionId> {
        let of_most = self.open.iter().filter(|(_, open)| self.count(open.owner.as_ref()) > than);
        let oldest = of_most.min_by_key(|(_, open)| use_of(&open.session).since);
        oldest.map(|(id, _)| Arc::clone(id))
    }

    /// How many sessions each client has when all have as many, with one that has none yet.
    fn share(&self) -> usize {
        self.open.len() / (self.owned.len() + usize::from(self.unowned > 0) + 1)
    }

    /// The oldest one that an earlier look found, as far as that still holds.
    fn known_oldest(
        &mut self,
        whose: &Whose,
        unused_since: impl Fn(&S) -> Option<Instant>,
    ) -> Option<SessionId> {
        if self.found.whose.as_ref() != Some(whose) {
            return None;
        }
        while let Some((since, id)) = self.found.oldest.pop() {
            if let Some(open) = self.open.get(&id)
                && unused_since(&open.session) == Some(since)
                && match whose {
                    Whose::Most(most) => self.count(open.owner.as_ref()) == *most,
                    Whose::Own(client) => open.owner.as_ref() == Some(client),
                }
            {
                return Some(id);
            }
        }
        None
    }

    /// Looks at all, and remembers those that come next.
    fn find_oldest(
        &mut self,
        client: &str,
        (own, whose): (usize, Whose),
        unused_since: impl Fn(&S) -> Option<Instant>,
    ) -> Option<SessionId> {
        let enough = own.max(self.share());
        let may_lose = |owner: Option<&Arc<str>>| match &whose {
            Whose::Own(_) => owner.is_some_and(|owner| **owner == *client),
            Whose::Most(_) => self.count(owner) > enough,
        };
        let unused = self.open.iter().filter_map(|(id, open)| {
            let owner = open.owner.as_ref();
            let since = may_lose(owner).then(|| unused_since(&open.session)).flatten()?;
            Some((self.count(owner), Reverse(since), Arc::clone(id)))
        });
        let mut unused: Vec<_> = unused.collect();
        unused.sort_unstable();
        let (count, _, oldest) = unused.pop()?;
        let next = unused.into_iter().rev().take_while(|(other, ..)| *other == count);
        let next =
            next.take(Self::MAX_REMEMBERED_SESSIONS).map(|(_, Reverse(since), id)| (since, id));
        let mut next: Vec<_> = next.collect();
        next.reverse();
        self.found = OldestSessions { whose: Some(whose), oldest: next };
        Some(oldest)
    }

    /// How many sessions the owner of one has.
    fn count(&self, owner: Option<&Arc<str>>) -> usize {
        match owner {
            Some(owner) => self.owned.get(owner).copied().unwrap_or_default(),
            None => self.unowned,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::time::Duration;

    use super::*;

    /// When the session was used last, and whether it is in use.
    type Use = (Instant, bool);

    fn table(sessions: &[(&str, &str, u64)]) -> (SessionTable<Use>, Instant) {
        let (mut table, begun) = (SessionTable::default(), Instant::now());
        for (id, owner, at) in sessions {
            table.insert((*id).into(), (begun + Duration::from_secs(*at), false));
            if !owner.is_empty() {
                table.set_owner(id, &Arc::from(*owner));
            }
        }
        (table, begun)
    }

    fn end_for(table: &mut SessionTable<Use>, client: &str) -> Option<String> {
        let before: HashSet<SessionId> = table.ids().cloned().collect();
        let use_of = |&(since, is_in_use): &Use| SessionUse { since, is_in_use };
        table.remove_oldest(client, use_of)?;
        let after: HashSet<SessionId> = table.ids().cloned().collect();
        before.difference(&after).next().map(ToString::to_string)
    }

    #[test]
    fn the_oldest_of_the_client_with_the_most_ends_one_after_the_other() {
        let (mut table, _) = table(&[
            ("a1", "a", 1),
            ("b3", "b", 3),
            ("b2", "b", 2),
            ("b4", "b", 4),
            ("c0", "c", 0),
        ]);
        assert_eq!(end_for(&mut table, "a").as_deref(), Some("b2"));
        assert_eq!(end_for(&mut table, "a").as_deref(), Some("b3"));
        // Now nobody has more than `a`.
        assert_eq!(end_for(&mut table, "a").as_deref(), Some("a1"));
        assert_eq!(
            end_for(&mut table, "a").as_deref(),
            Some("c0"),
            "`a` has none, others one each"
        );
        assert_eq!(end_for(&mut table, "a").as_deref(), Some("b4"));
        assert_eq!(end_for(&mut table, "a"), None);
    }

    #[test]
    fn what_was_used_after_the_look_at_all_is_not_ended() {
        let (mut table, begun) =
            table(&[("1", "a", 1), ("2", "a", 2), ("3", "a", 3), ("4", "a", 4)]);
        assert_eq!(end_for(&mut table, "a").as_deref(), Some("1"));
        table.open.get_mut("2").unwrap().session.0 = begun + Duration::from_secs(9);
        table.open.get_mut("3").unwrap().session.1 = true;
        assert_eq!(end_for(&mut table, "a").as_deref(), Some("4"));
        assert_eq!(end_for(&mut table, "a").as_deref(), Some("2"));
        assert_eq!(end_for(&mut table, "a"), None, "the last one is in use");
    }

    #[test]
    fn who_uses_most_sessions_keeps_nobody_out_and_makes_nobody_with_few_lose_one() {
        let mut sessions: Vec<_> = (10..20).map(|id| (id.to_string(), "many", id)).collect();
        sessions.push(("few".to_owned(), "b", 0));
        let sessions: Vec<_> = sessions.iter().map(|(id, of, at)| (&**id, *of, *at)).collect();
        let (mut table, _) = table(&sessions);
        for (id, open) in &mut table.open {
            open.session.1 = **id != *"few";
        }
        assert_eq!(end_for(&mut table, "many"), None, "its own are in use");
        assert_eq!(end_for(&mut table, "new").as_deref(), Some("10"));
        assert_eq!(end_for(&mut table, "b").as_deref(), Some("11"), "its own unused one stays");
        assert_eq!(end_for(&mut table, "new").as_deref(), Some("12"));
        table.open.get_mut("15").unwrap().session.1 = false;
        assert_eq!(end_for(&mut table, "b").as_deref(), Some("15"), "the unused one goes first");
        assert!(table.get("few").is_some());
    }

    #[test]
    fn where_the_client_with_the_most_uses_all_the_next_one_gives_way() {
        let most = (0..9).map(|id| (format!("m{id}"), "most", id));
        let next = (0..6).map(|id| (format!("n{id}"), "next", id));
        let few = (0..2).map(|id| (format!("f{id}"), "few", id));
        let sessions: Vec<_> = most.chain(next).chain(few).collect();
        let sessions: Vec<_> = sessions.iter().map(|(id, of, at)| (&**id, *of, *at)).collect();
        let (mut table, _) = table(&sessions);
        for (id, open) in &mut table.open {
            open.session.1 = id.starts_with('m');
        }
        assert_eq!(end_for(&mut table, "few").as_deref(), Some("n0"));
        assert_eq!(end_for(&mut table, "new").as_deref(), Some("n1"));
        assert_eq!(end_for(&mut table, "most"), None, "nobody has more, and its own are in use");
        assert_eq!(end_for(&mut table, "next").as_deref(), Some("m0"), "another has more");
        assert_eq!((table.owned["most"], table.owned["next"], table.owned["few"]), (8, 4, 2));
    }

    #[test]
    fn sessions_that_nobody_owns_yet_count_as_those_of_one_client() {
        let (mut table, _) = table(&[("1", "", 1), ("2", "", 2), ("3", "a", 0)]);
        assert_eq!(end_for(&mut table, "a").as_deref(), Some("1"));
        assert_eq!(end_for(&mut table, "a").as_deref(), Some("3"));
        let over = table.remove_where(|_| true);
        assert_eq!((over.len(), table.taken(), table.owned.len(), table.unowned), (1, 0, 0, 0));
    }
}
