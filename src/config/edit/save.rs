//! Writing an edited file: all edits or none, atomically, with a copy of the old one.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::atomic::alone;
use crate::base::atomic::{Readers, replace};
use crate::base::file::read_text;
use crate::config::Environment;
use crate::config::edit::write::backup;
use crate::config::edit::{Edit, EditError, apply};
use crate::config::source::MAX_FILE_BYTES;

/// What takes an edit back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undo {
    path: PathBuf,
    before: Option<String>,
    after: String,
    /// Where the copy of the old file is, when there was one and a place for it.
    pub backup: Option<PathBuf>,
}

/// Applies edits to a file, all or none, and replaces it atomically. A file that does not exist
/// is made.
///
/// # Errors
/// [`EditError`]; the file is then as it was.
pub fn save(path: &Path, edits: &[Edit], env: &Environment) -> Result<Undo, EditError> {
    alone(path, || {
        let before = read(path)?;
        let start = before.clone().unwrap_or_default();
        let after = edits.iter().try_fold(start, |text, edit| apply(&text, edit))?;
        write(path, before, after, env)
    })
}

/// The text of a file; nothing when it does not exist yet.
///
/// # Errors
/// When it cannot be read.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    read_text(path, MAX_FILE_BYTES)
}

/// Replaces a file by a text made elsewhere (an import), with backup and undo.
///
/// # Errors
/// [`EditError::ChangedSince`] when the file is not as `before` says any more, [`EditError::Io`].
pub fn write_with_backup(
    path: &Path,
    before: Option<String>,
    after: String,
    env: &Environment,
) -> Result<Undo, EditError> {
    alone(path, || {
        if read(path).map_err(|error| unsaved(path, &error))? != before {
            return Err(EditError::ChangedSince(path.to_path_buf()));
        }
        write(path, before, after, env)
    })
}

fn write(
    path: &Path,
    before: Option<String>,
    after: String,
    env: &Environment,
) -> Result<Undo, EditError> {
    let copy = match (&before, &env.state_dir) {
        (Some(text), Some(state)) if *text != after => {
            Some(backup(state, path, text).map_err(|error| unsaved(state, &error))?)
        }
        _ => None,
    };
    if before.as_ref() != Some(&after) {
        replace(path, after.as_bytes(), Readers::Default).map_err(|error| unsaved(path, &error))?;
    }
    Ok(Undo { path: path.to_path_buf(), before, after, backup: copy })
}

/// Names the place that could not be read or written, and what to do.
fn unsaved(place: &Path, error: &io::Error) -> EditError {
    let next = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free some space",
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => "make it writable",
        _ => "correct the cause",
    };
    let place = crate::base::text::path::spelled(place);
    EditError::Io(format!("{place}: {error}; nothing was changed: {next}, then save again"))
}

impl Undo {
    /// Puts the old file back, unless somebody changed the new one.
    ///
    /// # Errors
    /// [`EditError::ChangedSince`], [`EditError::Io`].
    pub fn undo(&self) -> Result<(), EditError> {
        alone(&self.path, || {
            if read(&self.path)?.as_ref() != Some(&self.after) {
                return Err(EditError::ChangedSince(self.path.clone()));
            }
            match &self.before {
                Some(text) => replace(&self.path, text.as_bytes(), Readers::Default)?,
                None => std::fs::remove_file(&self.path)?,
            }
            Ok(())
        })
    }
}
