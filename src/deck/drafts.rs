//! Half-filled forms, kept while they are typed: one small file per form in a folder beside the
//! history, replaced whole, so that a killed program leaves the last or the one before. Decides
//! nothing about what is secret: what comes here is written.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Digest as _;

use crate::base::atomic::replace_quickly;
use crate::base::file::StateFile;

/// A half-filled form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// What is a value already; `null` when nothing is.
    #[serde(default)]
    pub value: Value,
    /// What was typed and is no value yet, by the JSON pointer of its field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub typed: BTreeMap<String, String>,
    /// The whole as JSON, while that is being typed and is no value yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
}

impl Draft {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.value.is_null() && self.typed.is_empty() && self.json.is_none()
    }
}

impl From<Value> for Draft {
    fn from(value: Value) -> Self {
        Self { value, ..Self::default() }
    }
}

/// A draft in its file.
#[derive(Serialize, Deserialize)]
struct Kept<T> {
    target: String,
    #[serde(flatten)]
    draft: T,
}

/// Most drafts that are kept; beyond them the oldest are forgotten.
const MOST: usize = 200;
/// Largest draft that is kept, in bytes of JSON.
pub const LARGEST: usize = 1 << 20;

/// The folder of the drafts that belong to a history file.
pub fn folder(history: &Path) -> PathBuf {
    history.with_extension("drafts")
}

/// Keeps the draft of `target`, or forgets it when there is nothing in it. One that is larger than
/// [`LARGEST`] is not kept; what was kept of that form before stays.
///
/// # Errors
/// Those of the file system; [`io::ErrorKind::FileTooLarge`] for a draft that is not kept.
pub fn save(history: &Path, target: &str, draft: &Draft) -> io::Result<()> {
    let path = folder(history).join(file_name(target));
    if draft.is_empty() {
        return match std::fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
    }
    let text = serde_json::to_string(&Kept { target: target.to_owned(), draft })?;
    if text.len() > LARGEST {
        let message = format!("a form of more than {} MiB is not kept", LARGEST >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    // Not synchronised to the disk: this happens while somebody types, and what must survive is
    // the end of this program, not that of the machine.
    replace_quickly(&path, text.as_bytes())
}

/// Every draft by target. What cannot be read is left out.
pub fn load(history: &Path) -> HashMap<String, Draft> {
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
        let parse = |bytes: &[u8]| serde_json::from_slice(bytes).map_err(|error| error.to_string());
        let kept: Kept<Draft> = StateFile::new(path, LARGEST as u64).load(parse)?;
        Some((kept.target, kept.draft))
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
    use serde_json::json;

    #[test]
    fn a_draft_is_replaced_whole_and_forgotten_when_it_is_null() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let history = dir.path().join("deep/h.jsonl");
        let half = Draft {
            value: json!({"x": 2}),
            typed: [("/n".to_owned(), "12a".to_owned())].into(),
            json: Some("{\"x\":".to_owned()),
        };
        save(&history, "a.t", &json!({"x": 1}).into()).expect("writable");
        save(&history, "a.t", &half).expect("writable");
        save(&history, "../../b", &json!([]).into()).expect("writable");
        // A program that died while it wrote.
        std::fs::write(folder(&history).join("half.99.new"), "{").expect("writable");
        std::fs::write(folder(&history).join("broken.json"), "{\"tar").expect("writable");
        let all = load(&history);
        assert_eq!(all.get("a.t"), Some(&half));
        assert_eq!(all.len(), 2);
        save(&history, "a.t", &Draft::default()).expect("writable");
        save(&history, "never kept", &Draft::default()).expect("nothing to do");
        assert!(!load(&history).contains_key("a.t"));
        assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 1);
    }

    #[test]
    fn drafts_are_bounded_in_number_and_size() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let history = dir.path().join("h.jsonl");
        let long = save(&history, "a", &json!("x".repeat(LARGEST)).into());
        assert_eq!(long.expect_err("too long").kind(), io::ErrorKind::FileTooLarge);
        assert!(load(&history).is_empty());
        for n in 0..MOST + 9 {
            save(&history, &n.to_string(), &json!(n).into()).expect("writable");
        }
        assert_eq!(load(&history).len(), MOST);
        assert_eq!(std::fs::read_dir(folder(&history)).expect("readable").count(), MOST);
    }
}
