//! What servers offered in their last session, kept in the folder `definitions` of the state
//! folder, keyed by how a server is reached: for servers that start on demand (or from the lock
//! file beside the configuration), for finding the server of a tool, and for shell completion. The
//! secrets of an entry are masked in them.

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::files::{self, parse_json};
use crate::lock::{self, Lock};
use base::Redactor;
use base::state::StateFile;
use config::{Environment, McpConfig, ServerConfig};
use host::{Definitions, Digest, HostView, Memory, ServerState};
use protocol::{Capabilities, Era, FetchedList, ListKind, SessionView};

/// Largest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// Most servers whose definitions are kept.
const MAX_SERVERS: usize = 500;

/// What servers offered. Empty without a state folder.
pub struct KeptDefinitions {
    folder: Option<PathBuf>,
}

impl KeptDefinitions {
    /// Opens the definitions in the state folder of `env`.
    pub fn from_env(env: &Environment) -> Self {
        Self { folder: env.state_dir.as_ref().map(|state| state.join("definitions")) }
    }

    /// The lists of a server as last seen, and how long ago that was.
    pub fn lists(&self, config: &ServerConfig) -> Option<(Capabilities, Duration)> {
        let file = self.file(config)?;
        let seen = file.path().metadata().ok()?.modified().ok()?;
        let known: Definitions = file.load(parse_json)?;
        Some((known.capabilities, seen.elapsed().ok()?))
    }

    /// Stores what the servers of configuration files offer now. One that could not be started
    /// keeps its previous definitions, or an empty entry that records the failed attempt.
    pub fn remember(&self, config: &McpConfig, view: &HostView) {
        for (name, server) in &config.servers {
            let Some(now) =
                view.servers.get(name).filter(|_| !server.at.file.as_os_str().is_empty())
            else {
                continue;
            };
            let known = match (now.state, now.session.as_deref()) {
                (ServerState::Ready, Some(about)) => {
                    let (about, capabilities) = (about.clone(), (*now.capabilities).clone());
                    Some(Definitions { about, capabilities })
                }
                (ServerState::Unavailable, _) => {
                    let before = self.file(server).and_then(|file| file.load(parse_json));
                    before.or_else(|| Some(unlisted(Value::Null, None)))
                }
                _ => None,
            };
            if let Some(known) = &known {
                self.keep(server, known);
            }
        }
    }

    fn file(&self, config: &ServerConfig) -> Option<StateFile> {
        let name = format!("{:?}.json", Digest::of_command(config));
        Some(StateFile::new(self.folder.as_ref()?.join(name), MAX_FILE_BYTES))
    }
}

impl Memory for KeptDefinitions {
    fn recall(&self, config: &ServerConfig) -> Option<Definitions> {
        let known: Option<Definitions> = self.file(config).and_then(|file| file.load(parse_json));
        // A server that never started has no lists.
        known
            .filter(|known| known.capabilities != Capabilities::default())
            .or_else(|| locked(config))
    }

    fn keep(&self, config: &ServerConfig, definitions: &Definitions) {
        let Some(file) = self.file(config) else { return };
        // Names, addresses and capabilities are as they go over the wire, secrets included.
        let text = serde_json::to_string(definitions).unwrap_or_default();
        let masks = Redactor::new(config.secrets());
        let text = masks.redact_json_text(&text).into_owned().into_bytes();
        let kept = match file.bytes() {
            Ok(Some(kept)) if kept == text => file
                .open(OpenOptions::new().write(true))
                .and_then(|file| file.set_modified(SystemTime::now())),
            Ok(Some(_)) => file.write(&text),
            _ => {
                if let Some(folder) = &self.folder {
                    files::newest(folder, MAX_SERVERS - 1);
                }
                file.write(&text)
            }
        };
        if let Err(error) = kept {
            tracing::warn!(server = %config.name, %error, "its definitions were not saved");
        }
    }
}

/// The definitions of a server from the lock file.
fn locked(config: &ServerConfig) -> Option<Definitions> {
    let lock = Lock::read(&config.at.file.with_file_name(lock::LOCK_FILE)).ok()?;
    let locked = lock.servers.get(config.name.as_str())?;
    let mut known = unlisted(locked.server_info.clone(), locked.instructions.as_deref());
    for kind in ListKind::ALL {
        let entries = locked.list(kind).values().map(|raw| Arc::new(raw.clone())).collect();
        let list = FetchedList { entries, ..FetchedList::default() };
        known.capabilities.replace(kind, &list, &Redactor::default());
    }
    Some(known)
}

/// Definitions without lists, with what the server reports about itself.
fn unlisted(info: Value, instructions: Option<&str>) -> Definitions {
    let about = SessionView::new(Era::Legacy, "", info, instructions);
    Definitions { about, capabilities: Capabilities::default() }
}
