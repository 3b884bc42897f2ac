//! JSON files: read with errors that name the file, and written atomically.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use base::atomic::{Readers, alone, replace};
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

/// Largest file that is edited, in bytes.
const MAX_EDITED_BYTES: u64 = 64 << 20;

/// Changes a text file that users also edit by hand, created if missing: under a lock, so that
/// concurrent changes of other windows are not lost. `edit` gets its text, `None` of a missing file,
/// and returns the new one; `None` leaves the file as it is. A new file is readable by `readers`.
///
/// # Errors
/// Names the file and why it cannot be read or written, or what `edit` says; the file is then
/// unchanged.
pub fn edit_file(
    path: &Path,
    readers: Readers,
    edit: impl FnOnce(Option<&str>) -> Result<Option<String>, String>,
) -> Result<(), String> {
    let fail = |error: io::Error| format!("{}: {error}", spelled(path));
    alone(path, || {
        let text = read_text(path, MAX_EDITED_BYTES).map_err(fail)?;
        match edit(text.as_deref())? {
            Some(text) => replace(path, text.as_bytes(), readers).map_err(fail),
            None => Ok(()),
        }
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_read_or_changed_stays_as_it_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("mcp.tests.json");
        std::fs::write(&path, b"{\"suites\": {}} \xff").expect("writable");
        let add = |text: Option<&str>| Ok(Some(text.unwrap_or_default().to_owned() + "x"));
        let refused = edit_file(&path, Readers::Default, add).expect_err("no UTF-8");
        assert!(refused.contains("mcp.tests.json: it is not valid UTF-8"), "{refused}");
        assert_eq!(std::fs::read(&path).expect("there").last(), Some(&0xff));
        std::fs::write(&path, "ours").expect("writable");
        let refused = edit_file(&path, Readers::Default, |_| Err("no".to_owned()));
        assert_eq!(refused, Err("no".to_owned()));
        edit_file(&path, Readers::Default, |_| Ok(None)).expect("nothing to do");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "ours");
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| edit_file(&path, Readers::Default, add).expect("edited"));
            }
        });
        assert_eq!(std::fs::read_to_string(&path).expect("there").len(), 20, "none is lost");
    }
}
