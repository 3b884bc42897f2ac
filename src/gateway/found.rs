//! The tools that sessions have found, and what a list of tools holds therefore.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::catalog::ClientEntry;
use super::tokens::Client;
use base::ServerName;

/// Maximum number of found tools that stay listed; the one found longest ago makes room.
const MAX_FOUND_TOOLS: usize = 64;
/// Maximum number of sessions whose found tools are kept.
const MAX_FOUND_SESSIONS: usize = 10_000;
/// How long the found tools of a client without a session stay listed after its last request.
const FOUND_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Whose found tools: those of a session, or of a client whose protocol has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FoundKey {
    client: Arc<str>,
    profile: Arc<str>,
    session: Option<Arc<str>>,
}

/// The tools that a session has found.
#[derive(Debug, Default)]
pub(crate) struct FoundTools {
    /// By server and name there, the latest last.
    tools: Mutex<VecDeque<(ServerName, Arc<str>)>>,
    changed: watch::Sender<()>,
}

impl FoundTools {
    fn holds(&self, server: &ServerName, name: &str) -> bool {
        self.tools.lock().iter().any(|(at, known)| at == server && **known == *name)
    }

    /// Adds tools, the latest last.
    pub fn add(&self, found: &[&ClientEntry]) {
        let mut tools = self.tools.lock();
        let mut is_new = false;
        for entry in found {
            let known =
                tools.iter().position(|it| it.0 == entry.server && *it.1 == *entry.original);
            is_new |= known.is_none();
            let tool = known.and_then(|at| tools.remove(at));
            let new = || (entry.server.clone(), Arc::clone(&entry.original));
            tools.push_back(tool.unwrap_or_else(new));
        }
        let over = tools.len().saturating_sub(MAX_FOUND_TOOLS);
        tools.drain(..over);
        drop(tools);
        if is_new {
            self.changed.send_replace(());
        }
    }

    /// Told when a tool is added.
    pub fn follow(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

/// The found tools of all sessions.
#[derive(Debug, Default)]
pub(crate) struct FoundSessions(Mutex<HashMap<FoundKey, (Arc<FoundTools>, Instant)>>);

impl FoundSessions {
    /// Those of the session of a request.
    pub fn of_client(&self, client: &Client) -> Arc<FoundTools> {
        let key = FoundKey {
            client: Arc::clone(&client.id),
            profile: Arc::clone(&client.profile),
            session: client.session.clone(),
        };
        let mut all = self.0.lock();
        if all.len() >= MAX_FOUND_SESSIONS && !all.contains_key(&key) {
            let oldest = all.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        let (found, used) = all.entry(key).or_insert_with(|| (Arc::default(), Instant::now()));
        *used = Instant::now();
        Arc::clone(found)
    }

    /// Forgets those that no session follows and nobody has asked for lately.
    pub fn end_idle(&self) {
        let is_used = |(found, used): &(Arc<FoundTools>, Instant)| {
            Arc::strong_count(found) > 1 || used.elapsed() <= FOUND_TIMEOUT
        };
        self.0.lock().retain(|_, entry| is_used(entry));
    }
}

/// What a client's list of tools holds.
pub(crate) enum ToolListing {
    /// Every tool that it may see.
    Whole,
    /// The search, and what was found.
    Found(Arc<FoundTools>),
}

impl ToolListing {
    /// Whether a tool that the client may see is listed.
    pub fn holds(&self, server: &ServerName, name: &str) -> bool {
        match self {
            Self::Whole => true,
            Self::Found(found) => found.holds(server, name),
        }
    }

    /// Whether the list is a search.
    pub const fn is_search(&self) -> bool {
        matches!(self, Self::Found(_))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn entry(server: &str, name: &str) -> ClientEntry {
        let (server, original) = (ServerName::new(server), Arc::from(name));
        let raw = json!({}).into();
        ClientEntry { name: name.to_owned(), server, original, raw, hops: 0 }
    }

    #[test]
    fn what_was_found_longest_ago_makes_room_and_a_new_one_is_told() {
        let found = FoundTools::default();
        let told = found.follow();
        let all: Vec<ClientEntry> =
            (0..=MAX_FOUND_TOOLS).map(|at| entry("s", &format!("t{at}"))).collect();
        found.add(&all.iter().take(MAX_FOUND_TOOLS).collect::<Vec<_>>());
        assert!(told.has_changed().expect("open"));
        let told = found.follow();
        found.add(&[&all[0]]);
        assert!(!told.has_changed().expect("open"), "it was known");
        found.add(&[&all[MAX_FOUND_TOOLS]]);
        let holds = |name: &str| found.holds(&ServerName::new("s"), name);
        assert!(holds("t0") && !holds("t1") && holds(&format!("t{MAX_FOUND_TOOLS}")));
    }
}
