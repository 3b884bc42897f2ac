//! JSON files: read with errors that name the file, and written atomically.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use base::atomic::{Readers, replace};
use base::file::read_text;
use base::text::path::spelled;
use config::without_mark;

/// Reads a text of at most `limit` bytes, without its byte order mark, and parses it; `None` when
/// the file does not exist.
///
/// # Errors
/// Names the file and what is wrong with it.
pub fn load_json<T>(
    path: &Path,
    limit: u64,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let fail = |error: &dyn Display| format!("{}: {error}", spelled(path));
    let text = read_text(path, limit).map_err(|error| fail(&error))?;
    let parse = |text: String| parse(without_mark(&text)).map_err(|error| fail(&error));
    text.map(parse).transpose()
}

/// Parses JSON.
///
/// # Errors
/// What is wrong with it.
pub fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// Writes a value as pretty-printed JSON, readable only by the user.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn save(path: &Path, value: &impl Serialize) -> io::Result<()> {
    replace(path, (serde_json::to_string_pretty(value)? + "\n").as_bytes(), Readers::Owner)
}

/// Writes a file that users also edit by hand: if `edit` can change its text, the rest of the text
/// is kept, else all of `all` is written.
///
/// # Errors
/// Names the file and why it cannot be written.
pub(crate) fn put(
    path: &Path,
    limit: u64,
    all: &impl Serialize,
    edit: impl FnOnce(&str) -> Option<String>,
) -> Result<(), String> {
    let fail = |error: io::Error| format!("{}: {error}", spelled(path));
    let text = read_text(path, limit).map_err(fail)?.unwrap_or_default();
    let edited = if text.trim().is_empty() { None } else { edit(&text) };
    match edited {
        Some(text) => replace(path, text.as_bytes(), Readers::Owner),
        None => save(path, all),
    }
    .map_err(fail)
}

/// The JSON files of a folder, oldest first; of more than `most` the oldest are removed.
pub(crate) fn newest(folder: &Path, most: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "json"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    for (_, old) in files.drain(..files.len().saturating_sub(most)) {
        let _ = std::fs::remove_file(old);
    }
    files.into_iter().map(|(_, path)| path).collect()
}

/// Removes a file; a missing one is not an error.
///
/// # Errors
/// When it cannot be removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
