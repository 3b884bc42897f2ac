//! Writes an edited file atomically, with a backup of the old one.

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::Environment;
use crate::edit::EditError;
use base::atomic::{Readers, alone, check_writable, replace};
use base::file::read_text;

/// Backups kept per file.
const MAX_BACKUPS: usize = 20;

/// Largest file that is changed, in bytes: some programs keep more than their servers in it.
const MAX_EDIT_BYTES: u64 = 64 << 20;

/// Undoes one edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    path: PathBuf,
    before: Option<String>,
    after: String,
    /// Path of the backup; `None` without an old file, a change or a state folder.
    pub backup: Option<PathBuf>,
}

/// Reads the text of a file; `None` when it does not exist.
///
/// # Errors
/// When it cannot be read.
pub fn read_for_edit(path: &Path) -> io::Result<Option<String>> {
    read_text(path, MAX_EDIT_BYTES)
}

/// Replaces a file atomically with its edited text, with backup and undo. Creates a missing file.
///
/// # Errors
/// [`EditError::ChangedSince`] when the file no longer matches `before`, [`EditError::Io`].
pub fn write_with_backup(
    path: &Path,
    before: Option<String>,
    after: String,
    env: &Environment,
) -> Result<Undo, EditError> {
    write(path, (before, after), env, Readers::Default)
}

/// The same for a file that may hold a token: a new one is readable by the user alone.
///
/// # Errors
/// As [`write_with_backup`].
pub fn write_private_with_backup(
    path: &Path,
    before: Option<String>,
    after: String,
    env: &Environment,
) -> Result<Undo, EditError> {
    write(path, (before, after), env, Readers::Owner)
}

fn write(
    path: &Path,
    (before, after): (Option<String>, String),
    env: &Environment,
    readers: Readers,
) -> Result<Undo, EditError> {
    alone(path, || {
        if read_for_edit(path).map_err(|error| unsaved(path, &error))? != before {
            return Err(EditError::ChangedSince(path.to_path_buf()));
        }
        if before.as_ref() != Some(&after) {
            check_writable(path).map_err(|error| unsaved(path, &error))?;
        }
        let copy = match (&before, &env.state_dir) {
            (Some(text), Some(state)) if *text != after => {
                Some(backup(state, path, text).map_err(|error| unsaved(state, &error))?)
            }
            _ => None,
        };
        if before.as_ref() != Some(&after) {
            replace(path, after.as_bytes(), readers)
                .map_err(|error| unsaved(&refusing(path, &error), &error))?;
        }
        Ok(Undo { path: path.to_path_buf(), before, after, backup: copy })
    })
}

/// What has to be made writable: a file is written anew beside the old one, so its folder, or the
/// nearest one above it that is there.
fn refusing(path: &Path, error: &io::Error) -> PathBuf {
    let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            let folder = real.ancestors().skip(1).find(|folder| folder.is_dir());
            let folder = folder.map(Path::to_path_buf);
            folder.unwrap_or(real)
        }
        _ => path.to_path_buf(),
    }
}

/// An I/O error that names the path and suggests a remedy.
fn unsaved(place: &Path, error: &io::Error) -> EditError {
    let next = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => "make it writable",
        _ => "fix the cause",
    };
    let place = base::text::path::spelled(place);
    EditError::Io(format!("{place}: {error}; nothing was changed: {next}, then save again"))
}

impl Undo {
    /// Restores the old file, unless the new one has changed since.
    ///
    /// # Errors
    /// [`EditError::ChangedSince`], [`EditError::Io`].
    pub fn undo(&self) -> Result<(), EditError> {
        alone(&self.path, || {
            if read_for_edit(&self.path)?.as_ref() != Some(&self.after) {
                return Err(EditError::ChangedSince(self.path.clone()));
            }
            match &self.before {
                Some(text) => replace(&self.path, text.as_bytes(), Readers::Default),
                None => check_writable(&self.path).and_then(|()| std::fs::remove_file(&self.path)),
            }
            .map_err(|error| unsaved(&self.path, &error))
        })
    }
}

/// Saves a copy of a file's old text, readable only by the user; returns its path.
fn backup(state: &Path, path: &Path, text: &str) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let hash = Sha256::digest(absolute.as_os_str().as_encoded_bytes());
    let tag = base::file::hex(hash.get(..4).unwrap_or_default());
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = state.join("backups").join(format!("{name}-{tag}"));
    let numbers = |folder: &Path| -> Vec<u64> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut all: Vec<u64> = entries
            .filter_map(|e| e.file_name().to_str()?.strip_suffix(".json")?.parse().ok())
            .collect();
        all.sort_unstable();
        all
    };
    let known = numbers(&folder);
    let copy = folder.join(format!("{}.json", known.last().map_or(1, |last| last + 1)));
    replace(&copy, text.as_bytes(), Readers::Owner)?;
    for old in known.iter().take((known.len() + 1).saturating_sub(MAX_BACKUPS)) {
        let _ = std::fs::remove_file(folder.join(format!("{old}.json")));
    }
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody may create a file there, not even the superuser.
    #[test]
    #[cfg(target_os = "linux")]
    fn what_has_to_be_writable_is_named() {
        let env = Environment::default();
        let path = Path::new("/sys/none/mcp.json");
        let refused = write_with_backup(path, None, "{}".to_owned(), &env).expect_err("no file");
        let why = refused.to_string();
        assert!(why.starts_with("/sys: ") && why.contains("make it writable"), "{why}");
    }
}
