//! Connections of other clients: what was written into their files, so that it can be taken back to
//! the byte. Owns the records; writes a client's file only as planned and shown.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use base::Timestamp;
use base::atomic::{alone, check_writable};
use base::file::{file_key, hex, read_text, remove};
use base::state::{StateFile, StateFolder};
use base::text::path::spelled;
use config::{
    EditError, Environment, FileFormat, ImportHost, SourceText, entry_at, put_entry, read_document,
    take_entry, write_private_with_backup,
};

/// The name of the deck's entry in a client's file, unless another is wanted.
pub const DECK_ENTRY: &str = "mcpdeck";

/// Largest file of a client that is changed, in bytes: some keep more than their servers in it.
pub const MAX_CLIENT_FILE_BYTES: u64 = 64 << 20;

/// Largest record, in bytes: it holds the text of a client's file, escaped.
const MAX_RECORD_BYTES: u64 = 256 << 20;

/// Why a client's file was not changed; the file is as it was.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ReachError(pub String);

impl ReachError {
    fn at(path: &Path, error: &dyn std::fmt::Display) -> Self {
        Self(format!("{}: {error}", spelled(path)))
    }
}

/// How a client reaches the servers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "how")]
pub enum ConnectionKind {
    /// It starts the deck, and talks to it over stdin and stdout.
    Stdio {
        /// The profile it acts under.
        profile: Option<String>,
    },
    /// It talks to a running service.
    Http {
        /// The profile it acts under.
        profile: Option<String>,
        /// The id of its token.
        token: String,
    },
    /// It has copies of the servers' entries.
    Direct {
        /// The files they are copied from.
        files: Vec<PathBuf>,
        /// Only these; all when empty.
        servers: Vec<String>,
    },
}

/// An entry that was written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WrittenEntry {
    /// Its name in the client's file.
    pub name: String,
    /// The entry, in the client's words.
    pub value: Value,
}

/// What was written into a file of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionRecord {
    /// The client, as it is named on the command line.
    pub client: String,
    /// Its file.
    pub file: PathBuf,
    /// How it reaches the servers.
    pub kind: ConnectionKind,
    /// The entries.
    pub entries: Vec<WrittenEntry>,
    /// When.
    pub made: Timestamp,
    /// The text before; `None` when there was no file.
    before: Option<String>,
    /// The SHA-256 of the text after.
    after: String,
}

/// A change of a client's file that was not made yet.
#[derive(Clone, Debug)]
pub struct ClientChange {
    /// The file.
    pub file: PathBuf,
    /// Its text now; `None` when there is none.
    pub now: Option<String>,
    /// Its text afterwards; `None` when it goes away.
    pub then: Option<String>,
    /// Whether nothing else has changed in the file since the connection was made.
    pub is_exact: bool,
    /// The text without any entry of ours.
    base: Option<String>,
}

impl ClientChange {
    /// Whether there is something to change.
    pub fn is_empty(&self) -> bool {
        self.now == self.then
    }

    /// Whether the file may be changed.
    ///
    /// # Errors
    /// When it is read-only, with what to do.
    pub fn check_writable(&self) -> Result<(), ReachError> {
        check_writable(&self.file).map_err(|error| {
            let what = format!("{error}; nothing was changed: make it writable first");
            ReachError::at(&self.file, &what)
        })
    }
}

/// The records of all connections.
#[derive(Clone, Debug)]
pub struct Connections {
    folder: StateFolder,
}

impl Connections {
    /// Those in the state folder of an environment; `None` without one.
    pub fn from_env(env: &Environment) -> Option<Self> {
        let state = env.state_dir.as_ref()?;
        Some(Self { folder: StateFolder::new(state.join("connections")) })
    }

    /// All of them, by client.
    ///
    /// # Errors
    /// When a record cannot be read.
    pub fn list(&self) -> Result<Vec<ConnectionRecord>, ReachError> {
        let names = self.folder.names().map_err(|error| ReachError(error.to_string()))?;
        let names =
            names.iter().filter(|name| Path::new(name).extension().is_some_and(|e| e == "json"));
        let read =
            |name: &String| self.read(&self.folder.file(name, MAX_RECORD_BYTES).of_secrets());
        let all: Result<Vec<_>, _> = names.map(read).collect();
        let mut all: Vec<_> = all?.into_iter().flatten().collect();
        all.sort_by(|a: &ConnectionRecord, b| (&a.client, &a.file).cmp(&(&b.client, &b.file)));
        Ok(all)
    }

    /// That of a file.
    ///
    /// # Errors
    /// When the record cannot be read.
    pub fn find(&self, file: &Path) -> Result<Option<ConnectionRecord>, ReachError> {
        self.read(&self.record_file(file))
    }

    fn record_file(&self, file: &Path) -> StateFile {
        let name = format!("{}.json", file_key(file));
        self.folder.file(&name, MAX_RECORD_BYTES).of_secrets()
    }

    #[expect(clippy::unused_self, reason = "records are read through their owner")]
    fn read(&self, file: &StateFile) -> Result<Option<ConnectionRecord>, ReachError> {
        let parse = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(|error| error.to_string());
        file.load_or_set_aside(parse).map_err(|error| ReachError(error.to_string()))
    }

    /// What a disconnection changes: the text of before comes back when nothing else has changed,
    /// else the entries go and the rest stays. `name` is that of the connection, if one is wanted.
    ///
    /// # Errors
    /// When the file cannot be read or changed; when it is connected under another name.
    pub fn disconnection(
        &self,
        host: ImportHost,
        file: &Path,
        name: Option<&str>,
    ) -> Result<ClientChange, ReachError> {
        let now = read_client(file)?;
        let Some(record) = self.find(file)? else {
            // Written by another hand, or the record is lost: an entry that starts the deck goes.
            let root = root(host, file, now.as_deref())?;
            let place = host.place(&root, name.unwrap_or(DECK_ENTRY));
            let is_deck = entry_at(&root, &place).is_some_and(starts_deck);
            let then = match &now {
                Some(text) if is_deck => take_entry(host.format(file), text, &place)
                    .map_err(|error| ReachError::at(file, &error))?,
                _ => now.clone(),
            };
            let base = then.clone();
            return Ok(ClientChange { file: file.to_owned(), now, then, is_exact: false, base });
        };
        if let Some(name) = name.filter(|name| record.entries.iter().all(|own| own.name != *name)) {
            let own: Vec<&str> = record.entries.iter().map(|own| own.name.as_str()).collect();
            let why = format!("it is connected as `{}`, not as `{name}`", own.join("`, `"));
            return Err(ReachError::at(file, &why));
        }
        let is_exact = now.as_deref().is_some_and(|text| digest(text) == record.after);
        let then = match (&now, is_exact) {
            (_, true) => record.before.clone(),
            (None, false) => None,
            (Some(text), false) => {
                let mut text = text.clone();
                for entry in &record.entries {
                    let root = root(host, file, Some(&text))?;
                    let place = host.place(&root, &entry.name);
                    let taken = take_entry(host.format(file), &text, &place)
                        .map_err(|error| ReachError::at(file, &error))?;
                    text = taken.unwrap_or(text);
                }
                Some(without_made(host, file, text, record.before.as_deref())?)
            }
        };
        Ok(ClientChange { file: file.to_owned(), now, base: then.clone(), then, is_exact })
    }

    /// What a connection changes; an earlier one is taken back first. An entry of another hand under
    /// one of the names is kept; its name is returned.
    ///
    /// # Errors
    /// When the file cannot be read or changed.
    pub fn connection(
        &self,
        host: ImportHost,
        file: &Path,
        entries: &mut Vec<WrittenEntry>,
    ) -> Result<(ClientChange, Vec<String>), ReachError> {
        let mut change = if self.find(file)?.is_some() {
            self.disconnection(host, file, None)?
        } else {
            let now = read_client(file)?;
            let (then, base) = (now.clone(), now.clone());
            ClientChange { file: file.to_owned(), now, then, is_exact: true, base }
        };
        let mut kept = Vec::new();
        let mut text = change.base.clone().unwrap_or_default();
        let mut failure = None;
        entries.retain(|entry| {
            let put = || -> Result<Option<String>, ReachError> {
                let root = root(host, file, Some(&text))?;
                let place = host.place(&root, &entry.name);
                match entry_at(&root, &place) {
                    Some(there) if *there != entry.value => Ok(None),
                    _ => put_entry(host.format(file), &text, &place, &entry.value)
                        .map(Some)
                        .map_err(|error| ReachError::at(file, &error)),
                }
            };
            match put() {
                Ok(Some(changed)) => {
                    text = changed;
                    true
                }
                Ok(None) => {
                    kept.push(entry.name.clone());
                    false
                }
                Err(error) => {
                    failure.get_or_insert(error);
                    false
                }
            }
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        change.then = if entries.is_empty() { change.base.clone() } else { Some(text) };
        Ok((change, kept))
    }

    /// Makes a connection as planned. The record is written first: what is in a client's file can
    /// always be taken back.
    ///
    /// # Errors
    /// When the file has changed since it was read, or cannot be written.
    pub fn connect(
        &self,
        host: ImportHost,
        change: &ClientChange,
        (kind, entries): (ConnectionKind, Vec<WrittenEntry>),
        (env, made): (&Environment, Timestamp),
    ) -> Result<Option<PathBuf>, ReachError> {
        let Some(then) = &change.then else { return Ok(None) };
        let record = ConnectionRecord {
            client: host.slug(),
            file: change.file.clone(),
            kind,
            entries,
            made,
            before: change.base.clone(),
            after: digest(then),
        };
        let bytes = serde_json::to_vec(&record).map_err(|error| ReachError(error.to_string()))?;
        self.folder.prepare().map_err(|error| ReachError(error.to_string()))?;
        let file = self.record_file(&change.file);
        let former = file.bytes().ok().flatten();
        file.write(&bytes).map_err(|error| ReachError::at(file.path(), &error))?;
        let written =
            write_private_with_backup(&change.file, change.now.clone(), then.clone(), env);
        match written {
            Ok(undo) => Ok(undo.backup),
            Err(error) => {
                // The record of what is still there.
                let _ = match former {
                    Some(former) => file.write(&former),
                    None => std::fs::remove_file(file.path()),
                };
                Err(error.into())
            }
        }
    }

    /// Takes a connection back as planned, and forgets it.
    ///
    /// # Errors
    /// As [`Self::connect`].
    pub fn disconnect(&self, change: &ClientChange, env: &Environment) -> Result<(), ReachError> {
        match (&change.now, &change.then) {
            (Some(now), None) => alone(&change.file, || {
                if read_client(&change.file)?.as_ref() != Some(now) {
                    return Err(ReachError::at(&change.file, &"it has changed since"));
                }
                change.check_writable()?;
                std::fs::remove_file(&change.file)
                    .map_err(|error| ReachError::at(&change.file, &error))
            })?,
            (_, Some(then)) if !change.is_empty() => {
                write_private_with_backup(&change.file, change.now.clone(), then.clone(), env)?;
            }
            _ => {}
        }
        let record = self.record_file(&change.file);
        remove(record.path()).map(drop).map_err(|error| ReachError::at(record.path(), &error))
    }
}

/// A text without the objects around our entries that were not there before, where they are empty now.
fn without_made(
    host: ImportHost,
    file: &Path,
    mut text: String,
    before: Option<&str>,
) -> Result<String, ReachError> {
    let former = root(host, file, before)?;
    let mut place = host.place(&root(host, file, Some(&text))?, "");
    while let Some(around) = place.around() {
        let now = root(host, file, Some(&text))?;
        let is_empty = entry_at(&now, &around).is_some_and(|value| match value {
            Value::Object(all) => all.is_empty(),
            Value::Array(all) => all.is_empty(),
            _ => false,
        });
        if !is_empty || entry_at(&former, &around).is_some() {
            break;
        }
        let taken = take_entry(host.format(file), &text, &around)
            .map_err(|error| ReachError::at(file, &error))?;
        text = taken.unwrap_or(text);
        place = around;
    }
    Ok(text)
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

/// The text of a client's file; `None` when there is none.
///
/// # Errors
/// When it cannot be read.
pub fn read_client(file: &Path) -> Result<Option<String>, ReachError> {
    read_text(file, MAX_CLIENT_FILE_BYTES).map_err(|error| ReachError::at(file, &error))
}

/// The content of a client's file; an empty object when there is none.
fn root(host: ImportHost, file: &Path, text: Option<&str>) -> Result<Value, ReachError> {
    let empty = Value::Object(serde_json::Map::new());
    let Some(text) = text.filter(|text| !config::without_mark(text).trim().is_empty()) else {
        return Ok(empty);
    };
    let source = SourceText::new(file, text);
    let root = read_document(host.format(file), &source)
        .map_err(|problems| ReachError(config::render_all(&problems).trim_end().to_owned()))?;
    Ok(if root.is_null() { empty } else { root })
}

/// Whether an entry, in the words of any client, means the deck as a server: a program of its name, at
/// an absolute path or on `PATH`. One beside the file belongs to whoever wrote that. What it is meant
/// to be says nothing about what it runs.
pub fn starts_deck(entry: &Value) -> bool {
    let words: Vec<&str> = ["command", "cmd", "args"]
        .iter()
        .filter_map(|key| entry.get(key))
        .flat_map(|value| match value {
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            Value::String(word) => vec![word.as_str()],
            _ => Vec::new(),
        })
        .collect();
    let Some((program, args)) = words.split_first() else { return false };
    let program = Path::new(program);
    let is_beside = program.is_relative() && program.components().count() > 1;
    let is_named = program.file_stem().is_some_and(|stem| stem == "mcpdeck");
    is_named && !is_beside && args.first() == Some(&"serve")
}

/// Whether a client seems to be on this machine: its file or the folder of it is there, or its
/// program is on `PATH`.
pub fn is_installed(host: ImportHost, env: &Environment) -> bool {
    let has_folder = host.client_file(env, false).is_some_and(|file| {
        let folder = file.parent().filter(|folder| Some(*folder) != env.home.as_deref());
        file.is_file() || folder.is_some_and(Path::is_dir)
    });
    let paths = env.var("PATH").unwrap_or_default();
    let ends: &[&str] = if cfg!(windows) { &[".exe", ".cmd"] } else { &[""] };
    has_folder
        || std::env::split_paths(paths).any(|folder| {
            host.programs()
                .iter()
                .any(|name| ends.iter().any(|end| folder.join(format!("{name}{end}")).is_file()))
        })
}

/// The entries of configurations as they are written, a later file over an earlier one, each with
/// its file.
///
/// # Errors
/// When a file cannot be read or parsed.
pub fn servers_of_files(files: &[PathBuf]) -> Result<Vec<(String, Value, PathBuf)>, ReachError> {
    let mut all: BTreeMap<usize, (String, Value, PathBuf)> = BTreeMap::new();
    for file in files {
        let missing = || ReachError::at(file, &"there is no such file");
        let text = read_client(file)?.ok_or_else(missing)?;
        let root = read_document(FileFormat::Json, &SourceText::new(file, text))
            .map_err(|problems| ReachError(config::render_all(&problems).trim_end().to_owned()))?;
        for key in ["servers", "mcpServers"] {
            let found: Vec<(String, Value)> = match root.get(key) {
                Some(Value::Object(map)) => {
                    map.iter().map(|(name, entry)| (name.clone(), entry.clone())).collect()
                }
                Some(Value::Array(list)) => list.iter().filter_map(listed).collect(),
                _ => Vec::new(),
            };
            for (name, entry) in found {
                let name = name.trim().to_owned();
                let at = all.iter().find(|(_, (known, ..))| *known == name).map(|(at, _)| *at);
                all.insert(at.unwrap_or(all.len()), (name, entry, file.clone()));
            }
        }
    }
    Ok(all.into_values().collect())
}

/// A server of a list, by its `id`.
fn listed(entry: &Value) -> Option<(String, Value)> {
    let mut entry = entry.clone();
    let id = entry.as_object_mut()?.shift_remove("id")?;
    Some((id.as_str()?.to_owned(), entry))
}

impl From<EditError> for ReachError {
    fn from(error: EditError) -> Self {
        Self(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scene() -> (tempfile::TempDir, Environment, Connections) {
        let dir = tempfile::tempdir().expect("a folder");
        let env = Environment {
            cwd: dir.path().to_owned(),
            home: Some(dir.path().to_owned()),
            state_dir: Some(dir.path().join("state")),
            ..Environment::default()
        };
        let connections = Connections::from_env(&env).expect("a state folder");
        (dir, env, connections)
    }

    fn made() -> Timestamp {
        base::Clock::system().now()
    }

    fn connect(
        scene: &(tempfile::TempDir, Environment, Connections),
        host: ImportHost,
        file: &Path,
    ) {
        let (_, env, connections) = scene;
        let value = json!({"command": "/bin/mcpdeck", "args": ["serve", "--stdio"]});
        let mut entries = vec![WrittenEntry { name: "mcpdeck".to_owned(), value }];
        if host == ImportHost::Continue {
            entries[0].value["name"] = json!("mcpdeck");
        }
        let (change, kept) = connections.connection(host, file, &mut entries).expect("planned");
        assert!(kept.is_empty());
        let kind = ConnectionKind::Stdio { profile: None };
        connections.connect(host, &change, (kind, entries), (env, made())).expect("connected");
    }

    #[test]
    fn every_file_comes_back_to_the_byte() {
        for (host, name, text) in [
            (ImportHost::Cursor, "mcp.json", Some("{\r\n  // mine\r\n  \"mcpServers\": {},\r\n}")),
            (ImportHost::Codex, "config.toml", Some("model = \"x\" # mine\n\n\n[tui]\n")),
            (
                ImportHost::Goose,
                "config.yaml",
                Some("# mine\nextensions:\n  a: {type: builtin}\n\n\n"),
            ),
            (ImportHost::Continue, "config.yaml", Some("name: x\nmodels: []\n")),
            (ImportHost::Zed, "settings.json", Some("")),
            (ImportHost::VsCode, "deep/er/mcp.json", None),
        ] {
            let scene = scene();
            let file = scene.0.path().join(name);
            if let Some(text) = text {
                std::fs::write(&file, text).expect("written");
            }
            let (env, connections) = (&scene.1, &scene.2);
            // Twice: the second replaces the first.
            connect(&scene, host, &file);
            connect(&scene, host, &file);
            assert_eq!(connections.list().expect("read").len(), 1);
            let root =
                root(host, &file, read_client(&file).expect("read").as_deref()).expect("root");
            assert!(
                entry_at(&root, &host.place(&root, "mcpdeck")).is_some_and(starts_deck),
                "{root}"
            );
            let change = connections.disconnection(host, &file, None).expect("planned");
            assert!(change.is_exact);
            connections.disconnect(&change, env).expect("disconnected");
            assert_eq!(read_client(&file).expect("read").as_deref(), text, "{host:?}");
            assert!(connections.list().expect("read").is_empty());
        }
    }

    #[test]
    fn what_others_changed_meanwhile_stays() {
        let scene = scene();
        let file = scene.0.path().join("mcp.json");
        std::fs::write(&file, "{\"mcpServers\": {}}").expect("written");
        connect(&scene, ImportHost::Cursor, &file);
        let text = read_client(&file).expect("read").expect("there");
        std::fs::write(
            &file,
            text.replace("}}", "}, \"new\": {\"command\": \"x\"}}")
                .replace("\"mcpServers\"", "\"theme\": 1, \"mcpServers\""),
        )
        .expect("written");
        let change = scene.2.disconnection(ImportHost::Cursor, &file, None).expect("planned");
        assert!(!change.is_exact);
        scene.2.disconnect(&change, &scene.1).expect("disconnected");
        let left: Value =
            serde_json::from_str(&read_client(&file).expect("read").expect("there")).expect("JSON");
        assert_eq!(left["theme"], 1);
        assert!(left["mcpServers"].get("mcpdeck").is_none(), "{left}");
        // A plan that is out of date is not carried out.
        connect(&scene, ImportHost::Cursor, &file);
        let change = scene.2.disconnection(ImportHost::Cursor, &file, None).expect("planned");
        std::fs::write(&file, "{}").expect("written");
        assert!(scene.2.disconnect(&change, &scene.1).is_err());
        assert_eq!(scene.2.list().expect("read").len(), 1, "it is still known");
    }

    /// What `connect` made around its entry goes with it, also when the file has changed since.
    #[test]
    fn objects_that_were_made_for_the_entry_go_with_it() {
        for (host, name, before, later, left) in [
            (ImportHost::Cursor, "mcp.json", "{\n  \"a\": 1\n}\n", "\n", "{\n  \"a\": 1\n}\n\n"),
            (ImportHost::Cursor, "mcp.json", "", " ", "{}\n "),
            (
                ImportHost::Cursor,
                "mcp.json",
                "{\"mcpServers\": {}}",
                "\n",
                "{\"mcpServers\": {}}\n",
            ),
            (
                ImportHost::Zed,
                "settings.json",
                "// mine\n",
                "// later\n",
                "// mine\n{}\n// later\n",
            ),
            (ImportHost::Opencode, "opencode.json", "{\"a\": 1}", "\n", "{\"a\": 1}\n"),
            (ImportHost::Goose, "config.yaml", "a: 1\n", "b: 2\n", "a: 1\nb: 2\n"),
            (ImportHost::Goose, "config.yaml", "extensions:\n", "b: 2\n", "extensions: {}\nb: 2\n"),
            (ImportHost::Continue, "config.yaml", "name: x\n", "b: 2\n", "name: x\nb: 2\n"),
            (ImportHost::Codex, "config.toml", "a = 1\n", "# later\n", "a = 1\n# later\n"),
        ] {
            let scene = scene();
            let file = scene.0.path().join(name);
            std::fs::write(&file, before).expect("written");
            connect(&scene, host, &file);
            let text = read_client(&file).expect("read").expect("there");
            std::fs::write(&file, text + later).expect("written");
            let change = scene.2.disconnection(host, &file, None).expect("planned");
            assert!(!change.is_exact);
            assert_eq!(change.then.as_deref(), Some(left), "{host:?} {before:?}");
        }
    }

    #[test]
    fn an_entry_of_another_hand_is_kept() {
        let (dir, _, connections) = scene();
        let file = dir.path().join("mcp.json");
        let text = "{\"mcpServers\": {\"mcpdeck\": {\"command\": \"mine\"}}}";
        std::fs::write(&file, text).expect("written");
        let entry = WrittenEntry { name: "mcpdeck".to_owned(), value: json!({"command": "x"}) };
        let mut entries = vec![entry];
        let (change, kept) =
            connections.connection(ImportHost::Cursor, &file, &mut entries).expect("planned");
        assert!(change.is_empty() && entries.is_empty());
        assert_eq!(kept, ["mcpdeck"]);
        let change = connections.disconnection(ImportHost::Cursor, &file, None).expect("planned");
        assert!(change.is_empty(), "it does not start the deck");
    }

    #[test]
    fn entries_of_several_files_are_one_list() {
        let dir = tempfile::tempdir().expect("a folder");
        let (a, b) = (dir.path().join("a.json"), dir.path().join("b.json"));
        std::fs::write(&a, "{\"servers\": {\"x\": {\"command\": \"1\"}, \"y\": {}}}")
            .expect("written");
        std::fs::write(&b, "{\"servers\": [{\"id\": \"x\", \"command\": \"2\"}], // c\n}")
            .expect("written");
        let all = servers_of_files(&[a, b.clone()]).expect("read");
        assert_eq!(all[0], ("x".to_owned(), json!({"command": "2"}), b));
        assert_eq!(all.len(), 2);
    }
}
