//! What servers offered when they were last asked, kept on disk between runs: so that one tool is
//! called without starting every server, and names are completed.
//!
//! Owns the folder `offers` of the state folder, one file for each server of a configuration file.
//! Names and parameters only, never values; starts nothing. What is kept counts for one day, and
//! only while the entry says what it said.

mod offers;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

pub use self::offers::{Offer, Offers};
use crate::base::ServerName;
use crate::base::file::StateFile;
use crate::base::hash::file_key;
use crate::config::{Environment, McpConfig, ServerConfig};
use crate::host::{HostView, ServerState, ServerView};

/// How long the lists of a server count for choosing it.
const COUNTS: Duration = Duration::from_secs(24 * 3600);
/// How long names are offered for completion.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);
/// Lists that did not change are noted again as seen after this long.
const NOTED: Duration = Duration::from_secs(600);
/// Most servers that are remembered.
const MOST: usize = 500;
/// Largest file that is read, in bytes.
const LARGEST: u64 = 4 << 20;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tool, by its bare name.
    Tool,
    /// A prompt, by its bare name.
    Prompt,
    /// A resource, by its URI.
    Resource,
}

/// The one server that had something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The server.
    pub server: ServerName,
    /// Age of the oldest list this relies on.
    pub age: Duration,
}

/// What servers offered.
pub struct Known {
    folder: PathBuf,
    cwd: PathBuf,
    now: Duration,
}

impl Known {
    /// What is known here. `None` when there is no folder to keep it in.
    pub fn of(env: &Environment) -> Option<Self> {
        let folder = env.state_dir.as_ref()?.join("offers");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        Some(Self { folder, cwd: env.cwd.clone(), now })
    }

    /// What a server offered, if it was the same server then.
    pub fn get(&self, server: &ServerConfig) -> Option<Offers> {
        let offers = read(&self.path(server)?)?;
        let same = offers.is_of(server) && self.age(&offers)? < REMEMBERED;
        same.then_some(offers)
    }

    /// The one server that has this, as far as is known of all of them: a name that two servers
    /// may have is ambiguous, and only who was asked is known not to have it.
    pub fn owner(&self, config: &McpConfig, kind: Kind, name: &str) -> Option<Owner> {
        let mut oldest = Duration::ZERO;
        let mut owners = Vec::new();
        let enabled: Vec<_> = config.servers.values().filter(|s| !s.disabled).collect();
        for server in &enabled {
            let offers = self.get(server).filter(|offers| offers.whole)?;
            oldest = oldest.max(self.age(&offers).filter(|age| *age < COUNTS)?);
            if offers.has(kind, name) {
                owners.push(server.name.clone());
            }
        }
        match <[ServerName; 1]>::try_from(owners) {
            // With one server there is nothing to spare.
            Ok([server]) if enabled.len() > 1 => Some(Owner { server, age: oldest }),
            _ => None,
        }
    }

    /// Notes what the servers of `config` offer now. A folder that cannot be written is no failure:
    /// then nothing is known next time.
    pub fn remember(&self, config: &McpConfig, view: &HostView) {
        for server in config.servers.values() {
            if let (Some(path), Some(now)) = (self.path(server), view.servers.get(&server.name)) {
                self.note(&path, server, now);
            }
        }
    }

    fn note(&self, path: &Path, server: &ServerConfig, view: &ServerView) {
        let before = read(path).filter(|offers| offers.is_of(server));
        let now = self.now.as_secs();
        let mut after = match (view.state, &before) {
            (ServerState::Ready, _) => {
                let salt = before.as_ref().map(|offers| offers.salt.clone());
                Offers::of(server, salt, &view.capabilities)
            }
            // What it offered stays known; that it was asked in vain is known too.
            (ServerState::Unavailable, Some(before)) => before.clone(),
            (ServerState::Unavailable, None) => Offers::nothing(server),
            _ => return,
        };
        let unchanged = before.as_ref().is_some_and(|before| {
            after.asked = before.asked;
            *before == after && now.saturating_sub(before.asked) < NOTED.as_secs()
        });
        if unchanged {
            return;
        }
        after.asked = now;
        let Ok(text) = serde_json::to_vec(&after) else { return };
        if before.is_none() {
            self.make_room();
        }
        if text.len() as u64 <= LARGEST && StateFile::new(path, LARGEST).write(&text).is_err() {
            tracing::debug!("what servers offer cannot be remembered");
        }
    }

    /// The file of a server; none for one that stands in no configuration file.
    fn path(&self, server: &ServerConfig) -> Option<PathBuf> {
        let file = &server.at.file;
        if file.as_os_str().is_empty() {
            return None;
        }
        let (file, name) = (file_key(self.cwd.join(file)), file_key(server.name.as_str()));
        Some(self.folder.join(format!("{file}-{name}.json")))
    }

    /// How long ago a server was asked; none when that is in the future.
    fn age(&self, offers: &Offers) -> Option<Duration> {
        self.now.checked_sub(Duration::from_secs(offers.asked))
    }

    /// Forgets the oldest when there are too many.
    fn make_room(&self) {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort();
        let excess = (files.len() + 1).saturating_sub(MOST);
        for (_, path) in files.into_iter().take(excess) {
            let _ = std::fs::remove_file(path);
        }
    }
}

fn read(path: &Path) -> Option<Offers> {
    let parse = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(|error| error.to_string());
    StateFile::new(path, LARGEST).load(parse)
}

/// Notes the offers of a host that goes on running, each time they change.
#[cfg(feature = "tui")]
pub fn notebook() -> impl Fn(&McpConfig, &HostView) + Send + Sync {
    type Seen = HashMap<ServerName, (Arc<crate::mcp::Capabilities>, ServerState)>;
    let seen: Mutex<Seen> = Mutex::default();
    move |config, view| {
        let mut seen = seen.lock();
        let news = view.servers.values().any(|server| {
            seen.get(&server.name).is_none_or(|(lists, state)| {
                !Arc::ptr_eq(lists, &server.capabilities) || *state != server.state
            })
        });
        if !news {
            return;
        }
        let now =
            view.servers.values().map(|s| (s.name.clone(), (s.capabilities.clone(), s.state)));
        *seen = now.collect();
        if let Some(known) = Known::of(&Environment::of_process()) {
            known.remember(config, view);
        }
    }
}
