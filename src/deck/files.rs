//! Files of JSON: read with complaints that name the file, written whole or not at all.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::base::atomic::{Readers, replace};
use crate::base::file::read_text;
use crate::base::text::path::spelled;
use crate::config::edit::without_mark;

/// What `parse` makes of a text of at most `limit` bytes, a byte order mark left out; `None` when there
/// is no such file.
///
/// # Errors
/// Names the file and what is wrong with it.
pub(crate) fn load_json<T>(
    path: &Path,
    limit: u64,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let fail = |error: &dyn Display| format!("{}: {error}", spelled(path));
    let text = read_text(path, limit).map_err(|error| fail(&error))?;
    let parse = |text: String| parse(without_mark(&text)).map_err(|error| fail(&error));
    text.map(parse).transpose()
}

/// JSON.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// JSON with comments and trailing commas; null where there is nothing else.
///
/// # Errors
/// What is wrong with it, and where.
pub(crate) fn parse_jsonc(text: &str) -> Result<Value, String> {
    let root = jsonc_parser::cst::CstRootNode::parse(text, &jsonc_parser::ParseOptions::default());
    Ok(root.map_err(|error| error.to_string())?.to_serde_value().unwrap_or_default())
}

/// Writes a value for people to read; the user alone may read it.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn save(path: &Path, value: &impl Serialize) -> io::Result<()> {
    replace(path, (serde_json::to_string_pretty(value)? + "\n").as_bytes(), Readers::Owner)
}

/// Writes a file that people edit too: with everything else in it as it was written where `edit`
/// can put the change into its text, else `all` as it is now.
///
/// # Errors
/// Names the file and says why it cannot be written.
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

/// Removes a file; one that is gone is no failure.
///
/// # Errors
/// When it cannot be removed.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
