//! Half-filled forms, kept while they are typed: one small file per form in a folder beside the
//! history, replaced whole, so that a killed program leaves the last or the one before. Decides
//! nothing about what is secret: what comes here is written.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::Digest as _;

/// Most drafts that are kept; beyond them the oldest are forgotten.
const MOST: usize = 200;
/// Largest draft that is kept, in bytes of JSON.
pub const LARGEST: usize = 1 << 20;

/// The folder of the drafts that belong to a history file.
pub fn folder(history: &Path) -> PathBuf {
    history.with_extension("drafts")
}

/// Keeps the draft of `target`, or forgets it when it is `null`. One that is larger than
/// [`LARGEST`] is not kept; what was kept of that form before stays.
///
/// # Errors
/// Those of the file system.
pub fn save(history: &Path, target: &str, value: &Value) -> io::Result<()> {
    let path = folder(history).join(file_name(target));
    if value.is_null() {
        return match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let text = json!({"target": target, "value": value}).to_string();
    if text.len() > LARGEST {
        return Ok(());
    }
    std::fs::create_dir_all(folder(history))?;
    let beside = path.with_extension(format!("{}.new", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    // Not synchronised to the disk: this happens while somebody types, and what must survive is
    // the end of this program, not that of the machine.
    let written = options
        .open(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .and_then(|()| std::fs::rename(&beside, &path));
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}

/// Every draft by target. What cannot be read is left out.
pub fn load(history: &Path) -> HashMap<String, Value> {
    let mut files: Vec<(std::time::SystemTime, PathBuf)> = std::fs::read_dir(folder(history))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "json"))
        .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
        .collect();
    files.sort();
    for (_, old) in files.drain(..files.len().saturating_sub(MOST)) {
        let _ = std::fs::remove_file(old);
    }
    let read = |path: &Path| {
        let mut draft: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
        let target = draft.get("target")?.as_str()?.to_owned();
        Some((target, draft.get_mut("value")?.take()))
    };
    files.iter().filter_map(|(_, path)| read(path)).collect()
}

/// Targets are names and URIs of servers: never part of a path.
fn file_name(target: &str) -> String {
    let hash = sha2::Sha256::digest(target.as_bytes());
    let name = hash.iter().take(8).fold(0_u64, |name, byte| name << 8 | u64::from(*byte));
    format!("{name:016x}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_is_replaced_whole_and_forgotten_when_it_is_null() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let history = dir.path().join("deep/h.jsonl");
        save(&history, "a.t", &json!({"x": 1})).expect("writable");
        save(&history, "a.t", &json!({"x": 2})).expect("writable");
        save(&history, "../../b", &json!([])).expect("writable");
        // A program that died while it wrote.
        std::fs::write(folder(&history).join("half.99.new"), "{").expect("writable");
        std::fs::write(folder(&history).join("broken.json"), "{\"tar").expect("writable");
        let all = load(&history);
        assert_eq!(all.get("a.t"), Some(&json!({"x": 2})));
        assert_eq!(all.len(), 2);
        save(&history, "a.t", &Value::Null).expect("writable");
        save(&history, "never kept", &Value::Null).expect("nothing to do");
        assert!(!load(&history).contains_key("a.t"));
        assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 1);
    }

    #[test]
    fn drafts_are_bounded_in_number_and_size() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let history = dir.path().join("h.jsonl");
        save(&history, "a", &json!("x".repeat(LARGEST))).expect("nothing to do");
        assert!(load(&history).is_empty());
        for n in 0..MOST + 9 {
            save(&history, &n.to_string(), &json!(n)).expect("writable");
        }
        assert_eq!(load(&history).len(), MOST);
        assert_eq!(std::fs::read_dir(folder(&history)).expect("readable").count(), MOST);
    }
}
