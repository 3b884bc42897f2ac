//! User files: preferences per project, themes, keymap. A missing file counts as empty, an
//! unreadable one is reported by name, and writes are atomic.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::effect::Existing;
use crate::message::UserFiles;
use crate::prefs::Prefs;
use base::atomic::{Readers, replace};
use base::file::{file_key, read_text};
use base::state::StateFile;
use config::Environment;

/// Folders of the user's files.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Themes and keymap.
    pub config: Option<PathBuf>,
    /// Preferences and other state.
    pub state: Option<PathBuf>,
}

impl Places {
    /// `MCPDECK_CONFIG_DIR` and `MCPDECK_STATE_DIR`, or the system's folders for these.
    pub fn of_process() -> Self {
        let env = Environment::of_process();
        Self { config: env.own_config_dir(), state: env.state_dir }
    }

    /// The preferences file of a project, identified by its configuration files.
    pub fn prefs_file(&self, files: &[PathBuf]) -> Option<PathBuf> {
        let mut all = OsString::new();
        for file in files {
            all.push(std::path::absolute(file).unwrap_or_else(|_| file.clone()));
            all.push("\n");
        }
        Some(self.state.as_ref()?.join("dashboard").join(format!("{}.json", file_key(all))))
    }

    /// Themes and keymap.
    pub fn user_files(&self) -> UserFiles {
        let Some(config) = &self.config else { return UserFiles::default() };
        let mut files = UserFiles::default();
        let entries = std::fs::read_dir(config.join("themes"));
        for path in entries.into_iter().flatten().flatten().map(|entry| entry.path()) {
            if path.extension().is_none_or(|extension| extension != "toml") {
                continue;
            }
            match (path.file_stem().and_then(|name| name.to_str()), text_of(&path)) {
                (None, _) => {
                    let shown = path.display();
                    files.unread.push(format!("{shown}: its name is not UTF-8; rename the file"));
                }
                (Some(name), Some(Ok(text))) => files.themes.push((name.to_owned(), text)),
                (_, Some(Err(problem))) => files.unread.push(problem),
                (_, None) => {}
            }
        }
        files.themes.sort();
        files.unread.sort();
        files.keymap = text_of(&config.join("keymap.toml"));
        files
    }
}

/// Largest of these files that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The text of a user file, or an error that names it and a remedy; `None` if it does not exist.
fn text_of(path: &Path) -> Option<Result<String, String>> {
    let text = read_text(path, MAX_FILE_BYTES).map_err(|error| {
        let next = match error.kind() {
            io::ErrorKind::InvalidData => "save it as UTF-8",
            _ => "make it a file you can read, of at most 1 MiB",
        };
        format!("{}: {error}; {next}", path.display())
    });
    text.transpose()
}

/// Reads preferences.
pub fn read_prefs(file: Option<&Path>) -> Prefs {
    file.and_then(|file| StateFile::new(file, MAX_FILE_BYTES).load(Prefs::parse))
        .unwrap_or_default()
}

/// Writes what differs from `known`, the preferences as this dashboard last read or wrote them; the
/// rest stays as another dashboard may have written it meanwhile.
pub fn write_prefs(file: &Path, prefs: &Prefs, known: &Prefs) -> io::Result<()> {
    let write = |held: Option<Prefs>| {
        let held = held.unwrap_or_else(|| known.clone());
        Ok(Some(serde_json::to_vec_pretty(&prefs.merged(known, &held)?)?))
    };
    StateFile::new(file, MAX_FILE_BYTES).change(Prefs::parse, write).map(|_| ())
}

/// Writes a new file; if the name exists, a number is appended. Returns its path.
pub fn save_new(name: &Path, content: &[u8]) -> io::Result<PathBuf> {
    let stem = name.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let suffix = name.extension().map_or_else(String::new, |s| format!(".{}", s.to_string_lossy()));
    for number in 0..10_000 {
        let path = match number {
            0 => name.to_path_buf(),
            n => name.with_file_name(format!("{stem}-{n}{suffix}")),
        };
        match create(&path, content) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from(io::ErrorKind::AlreadyExists))
}

/// Writes a new file; one that could not be written in full is removed again.
fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).open(path)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    drop(file);
    written.inspect_err(|_| _ = std::fs::remove_file(path))
}

/// `path` with `~` at its beginning replaced by the home directory.
pub fn at_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), dirs::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

/// Writes a file and returns its size. An existing one is kept ([`io::ErrorKind::AlreadyExists`])
/// or replaced; a new one that could not be written in full is removed again.
pub fn write_file(path: &Path, content: &[u8], existing: Existing) -> io::Result<u64> {
    if path.is_dir() {
        return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
    }
    if existing == Existing::Keep {
        create(path, content)?;
    } else {
        replace(path, content, Readers::Default)?;
    }
    Ok(content.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_is_left_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places { config: None, state: Some(dir.path().into()) };
        let file = places.prefs_file(&["mcp.json".into()]).unwrap();
        let prefs = Prefs { pane: Some("logs".into()), ..Prefs::default() };
        write_prefs(&file, &prefs, &Prefs::default()).unwrap();
        assert_eq!(read_prefs(Some(&file)), prefs);
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1);
        assert_ne!(places.prefs_file(&["other.json".into()]).unwrap(), file);
    }

    #[test]
    fn a_file_that_is_there_is_replaced_only_on_purpose_and_then_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.bin");
        assert_eq!(write_file(&path, b"one", Existing::Keep).unwrap(), 3);
        let refused = write_file(&path, b"two", Existing::Keep).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"one");
        write_file(&path, b"three", Existing::Replace).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"three");
        assert!(write_file(dir.path(), b"", Existing::Replace).is_err());
        assert!(write_file(&dir.path().join("no/such"), b"", Existing::Keep).is_err());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn saving_never_overwrites() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("a.json");
        let first = save_new(&name, b"1").unwrap();
        let second = save_new(&name, b"2").unwrap();
        assert_eq!((first, second.clone()), (name.clone(), dir.path().join("a-1.json")));
        assert_eq!(std::fs::read(name).unwrap(), b"1");
    }

    #[test]
    fn themes_and_keymap_of_the_person_are_found() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("themes")).unwrap();
        std::fs::write(dir.path().join("themes/mine.toml"), "inherits = \"dark\"").unwrap();
        std::fs::write(dir.path().join("keymap.toml"), "[global]").unwrap();
        let places = Places { config: Some(dir.path().into()), state: None };
        let files = places.user_files();
        assert_eq!(files.themes, [("mine".to_owned(), "inherits = \"dark\"".to_owned())]);
        assert_eq!(files.keymap, Some(Ok("[global]".to_owned())));

        // In Latin-1.
        std::fs::write(dir.path().join("themes/other.toml"), b"# f\xfcr die Augen").unwrap();
        std::fs::write(dir.path().join("keymap.toml"), b"# f\xfcr die Finger").unwrap();
        let files = places.user_files();
        let named = |name: &str| {
            let path = dir.path().join(name);
            format!("{}: it is not valid UTF-8; save it as UTF-8", path.display())
        };
        assert_eq!(files.unread, [named("themes/other.toml")]);
        assert_eq!(files.keymap, Some(Err(named("keymap.toml"))));
    }
}
