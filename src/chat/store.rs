//! Sessions on disk, so that a chat goes on after the program was started again: one `SQLite` file,
//! a row for each session, written whole when a turn begins and ends.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::base::text::path::spelled;
use crate::chat::agent::Conversation;

/// Most sessions that are kept; beyond them the oldest are forgotten.
const MOST: u32 = 1_000;
/// Format of the file.
const VERSION: u32 = 1;

/// The file of the sessions.
pub struct Store(Mutex<Connection>);

/// A session as the file has it.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) talk: Conversation,
    /// The number of its last event.
    pub(super) seq: u64,
}

impl Store {
    /// Opens the file, or makes it; the user alone may read it.
    ///
    /// # Errors
    /// Names the file and says why it cannot be used.
    pub fn open(path: &Path) -> Result<Arc<Self>, String> {
        let wrong = |what: String| format!("{}: {what}", spelled(path));
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(|error| wrong(error.to_string()))?;
        }
        let mut options = std::fs::File::options();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(path).map_err(|error| wrong(error.to_string()))?;
        let open = || {
            let file = Connection::open(path)?;
            file.busy_timeout(std::time::Duration::from_secs(5))?;
            file.pragma_update(None, "journal_mode", "WAL")?;
            let version: u32 = file.pragma_query_value(None, "user_version", |row| row.get(0))?;
            if version == 0 {
                file.execute_batch(
                    "CREATE TABLE IF NOT EXISTS sessions (
                        id TEXT PRIMARY KEY, owner TEXT NOT NULL, changed INTEGER NOT NULL,
                        seq INTEGER NOT NULL, title TEXT NOT NULL, talk TEXT NOT NULL
                    ) STRICT;",
                )?;
                file.pragma_update(None, "user_version", VERSION)?;
            }
            Ok::<_, rusqlite::Error>((file, version.max(VERSION)))
        };
        let (file, version) = open().map_err(|error| wrong(error.to_string()))?;
        if version > VERSION {
            return Err(wrong("it was written by a newer mcpdeck".to_owned()));
        }
        Ok(Arc::new(Self(Mutex::new(file))))
    }

    /// Writes a session. What fails is logged: the chat goes on without it.
    pub(super) fn save(&self, id: &str, owner: &str, seq: u64, talk: &Conversation) {
        let file = self.0.lock();
        let text = serde_json::to_string(talk).unwrap_or_default();
        let written = file.execute(
            "INSERT OR REPLACE INTO sessions
             VALUES (?1, ?2, (SELECT ifnull(max(changed), 0) + 1 FROM sessions), ?3, ?4, ?5)",
            params![id, owner, seq as i64, talk.title(), text],
        );
        let forgotten = "DELETE FROM sessions WHERE id NOT IN
                         (SELECT id FROM sessions ORDER BY changed DESC LIMIT ?1)";
        if let Err(error) = written.and_then(|_| file.execute(forgotten, [MOST])) {
            tracing::error!(target: "mcpdeck::chat", "a session could not be kept: {error}");
        }
    }

    /// A session of this owner.
    pub(super) fn load(&self, id: &str, owner: &str) -> Option<Stored> {
        let file = self.0.lock();
        let query = "SELECT talk, seq FROM sessions WHERE id = ?1 AND owner = ?2";
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?));
        let (talk, seq) = file.query_row(query, [id, owner], row).optional().ok()??;
        Some(Stored { talk: serde_json::from_str(&talk).ok()?, seq: seq as u64 })
    }

    /// Id and title of this owner's sessions, the newest first.
    pub(super) fn list(&self, owner: &str) -> Vec<(String, String)> {
        let file = self.0.lock();
        let query = "SELECT id, title FROM sessions WHERE owner = ?1 ORDER BY changed DESC";
        let read = || {
            let mut query = file.prepare(query)?;
            let rows = query.query_map([owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        read().unwrap_or_default()
    }
}
