//! What servers with `"start": "onDemand"` offer while they sleep: the definitions of their last
//! session, kept in the folder `definitions` of the state folder by what the server is reached by;
//! else those of the lock file beside the configuration.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use crate::base::SafeText;
use crate::base::file::StateFile;
use crate::config::{Environment, ServerConfig};
use crate::deck::files::json;
use crate::deck::lock::{self, Lock, LockedServer};
use crate::host::policy::Digest;
use crate::host::server::memory::{Definitions, Memory};
use crate::mcp::session::FetchedList;
use crate::mcp::{Capabilities, Era, ListKind, SessionView};

/// Largest file that is read, in bytes.
const LARGEST: u64 = 32 << 20;

/// See the module.
pub(super) struct Kept {
    folder: Option<PathBuf>,
}

impl Kept {
    pub(super) fn of(env: &Environment) -> Self {
        Self { folder: env.state_dir.as_ref().map(|state| state.join("definitions")) }
    }

    fn file(&self, config: &ServerConfig) -> Option<StateFile> {
        let name = format!("{:?}.json", Digest::of_command(config));
        Some(StateFile::new(self.folder.as_ref()?.join(name), LARGEST))
    }
}

impl Memory for Kept {
    fn recall(&self, config: &ServerConfig) -> Option<Definitions> {
        self.file(config).and_then(|file| file.load(json)).or_else(|| locked(config))
    }

    fn keep(&self, config: &ServerConfig, definitions: &Definitions) {
        let Some(file) = self.file(config) else { return };
        let text = serde_json::to_vec(definitions).unwrap_or_default();
        if file.bytes().is_ok_and(|kept| kept.as_ref() == Some(&text)) {
            return;
        }
        if let Err(error) = file.write(&text) {
            tracing::warn!(server = %config.name, %error, "what it offers is not kept");
        }
    }
}

/// What the lock file says of a server.
fn locked(config: &ServerConfig) -> Option<Definitions> {
    let lock = Lock::read(&config.at.file.with_file_name(lock::FILE)).ok()?;
    let locked = lock.servers.get(config.name.as_str())?;
    let mut capabilities = Capabilities::default();
    for kind in ListKind::ALL {
        let entries = locked.list(kind).values().map(|raw| Arc::new(raw.clone())).collect();
        capabilities.replace(kind, &FetchedList { entries, ..FetchedList::default() });
    }
    Some(Definitions { about: about(locked), capabilities })
}

fn about(locked: &LockedServer) -> SessionView {
    let info = |key: &str| locked.server_info.get(key).and_then(Value::as_str);
    let text = |key: &str| SafeText::line(info(key).unwrap_or_default());
    SessionView {
        era: Era::Legacy,
        protocol_version: SafeText::default(),
        name: text("name"),
        version: text("version"),
        title: info("title").map(SafeText::line),
        instructions: locked.instructions.as_deref().map(SafeText::block),
        capabilities: Arc::default(),
        server_info: Arc::new(locked.server_info.clone()),
    }
}
