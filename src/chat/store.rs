//! Sessions on disk, so that a chat survives a restart of the program: one `SQLite` file with a row
//! per session, rewritten when a turn begins and ends.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension as _, params};

use base::atomic::create_private_folder;
use base::state::StateFile;
use base::text::path::spelled;
use deck::{ChatStore, KeptChat, Stored};

/// Maximum number of sessions; the least recently changed are deleted beyond it.
const MAX_SESSIONS: u32 = 1_000;
/// Format version of the file.
const FORMAT_VERSION: u32 = 1;

/// The session database.
pub struct SessionFile(Arc<Mutex<Connection>>);

impl SessionFile {
    /// Opens the file; creates it, readable only by the user, if it does not exist.
    ///
    /// # Errors
    /// Names the file and why it cannot be used.
    pub fn open(path: &Path) -> Result<Arc<dyn ChatStore>, String> {
        let wrong = |what: String| format!("{}: {what}", spelled(path));
        if let Some(folder) = path.parent() {
            create_private_folder(folder).map_err(|error| wrong(error.to_string()))?;
        }
        let mut options = std::fs::File::options();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        // The database itself is opened by its path, and would follow a link.
        StateFile::new(path, 0).open(&options).map_err(|error| wrong(error.to_string()))?;
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
                file.pragma_update(None, "user_version", FORMAT_VERSION)?;
            }
            Ok::<_, rusqlite::Error>((file, version.max(FORMAT_VERSION)))
        };
        let (file, version) = open().map_err(|error| wrong(error.to_string()))?;
        if version > FORMAT_VERSION {
            return Err(wrong("it was written by a newer mcpdeck".to_owned()));
        }
        Ok(Arc::new(Self(Arc::new(Mutex::new(file)))))
    }

    /// Runs a query on a blocking thread.
    fn ask<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Stored<'_, T> {
        let file = Arc::clone(&self.0);
        Box::pin(async move {
            let asked = tokio::task::spawn_blocking(move || ask(&file.lock())).await;
            asked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
        })
    }
}

impl ChatStore for SessionFile {
    fn save(&self, chat: KeptChat) -> Stored<'_, ()> {
        self.ask(move |file| {
            let KeptChat { id, owner, title, seq, talk } = chat;
            file.execute(
                "INSERT OR REPLACE INTO sessions
                 VALUES (?1, ?2, (SELECT ifnull(max(changed), 0) + 1 FROM sessions), ?3, ?4, ?5)",
                params![id, owner, seq as i64, title, talk],
            )?;
            let forget = "DELETE FROM sessions WHERE id NOT IN
                          (SELECT id FROM sessions ORDER BY changed DESC LIMIT ?1)";
            file.execute(forget, [MAX_SESSIONS]).map(drop)
        })
    }

    fn load<'a>(&'a self, id: &'a str, owner: &'a str) -> Stored<'a, Option<(u64, String)>> {
        let (id, owner) = (id.to_owned(), owner.to_owned());
        self.ask(move |file| {
            let query = "SELECT seq, talk FROM sessions WHERE id = ?1 AND owner = ?2";
            let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)? as u64, row.get(1)?));
            file.query_row(query, [id, owner], row).optional()
        })
    }

    fn list<'a>(&'a self, owner: &'a str) -> Stored<'a, Vec<(String, String)>> {
        let owner = owner.to_owned();
        self.ask(move |file| {
            let query = "SELECT id, title FROM sessions WHERE owner = ?1 ORDER BY changed DESC";
            let mut query = file.prepare(query)?;
            let rows = query.query_map([owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect()
        })
    }
}
