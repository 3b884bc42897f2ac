//! The history of calls made in the dashboard, and half-filled forms, kept across runs.
//!
//! One JSON object per line, only appended while the program runs: a crash loses nothing, and a
//! call without an end record is known to have an unknown outcome. Nothing here is ever sent again
//! automatically.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::Digest as _;

use crate::files;
use base::atomic::{Readers, alone, create_private_folder, replace, replace_quickly};
use base::file::{hex, remove};
use base::state::StateFile;
use base::text::json::weigh;

/// One line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "camelCase")]
#[non_exhaustive]
pub enum HistoryRecord {
    /// A call began.
    #[serde(rename_all = "camelCase")]
    Began {
        /// Identifies the call; unique in the file.
        id: u64,
        /// Microseconds since 1970-01-01 UTC.
        at: u64,
        /// What was called: `server.tool`, or a URI.
        target: String,
        /// Its arguments.
        arguments: Value,
    },
    /// A call ended.
    #[serde(rename_all = "camelCase")]
    Ended {
        /// The id of the call.
        id: u64,
        /// `ok`, `tool error`, or the code of the error.
        outcome: String,
        /// Duration in milliseconds, without the time spent waiting for the user.
        millis: u64,
    },
    /// The content of a form; empty when it was cleared. Kept in a separate file.
    #[serde(rename_all = "camelCase")]
    Draft {
        /// What the form calls.
        target: String,
        /// Its content.
        #[serde(flatten)]
        draft: FormDraft,
    },
}

/// A call of the past.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryEntry {
    /// Its id.
    pub id: u64,
    /// Microseconds since 1970-01-01 UTC.
    pub at: u64,
    /// Its arguments.
    pub arguments: Value,
    /// How it ended, with its duration in milliseconds; `None` when the program ended first.
    pub outcome: Option<(String, u64)>,
}

/// Past calls and drafts, newest first per target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    entries: HashMap<String, Vec<HistoryEntry>>,
    /// Bytes of all arguments, as JSON.
    bytes: usize,
    drafts: HashMap<String, FormDraft>,
}

impl History {
    /// Most calls kept per target.
    pub const MAX_TARGET_CALLS: usize = 50;
    /// Longest record in bytes; a longer one is kept without its arguments.
    pub const MAX_RECORD_BYTES: usize = 256 << 10;
    /// Most bytes of arguments in memory; beyond that, the oldest calls are dropped.
    pub const MAX_ARGUMENT_BYTES: usize = 16 << 20;
    /// Largest file that is read, in bytes.
    const MAX_FILE_BYTES: u64 = 64 << 20;
    /// File size in bytes at which [`History::load`] compacts it.
    const MIN_COMPACTED_BYTES: u64 = 4 << 20;

    /// Reads the file; unreadable lines are skipped, a missing file is an empty history.
    pub fn load(path: &Path) -> Self {
        let mut history = Self { drafts: load(path), ..Self::default() };
        history.read(path);
        if std::fs::metadata(path).is_ok_and(|m| m.len() > Self::MIN_COMPACTED_BYTES) {
            // Read again under the lock: another window may have added to it since.
            let _ = alone(path, || Self::compact(path));
        }
        history
    }

    /// Folds the records of a file in, skipping invalid lines.
    fn read(&mut self, path: &Path) {
        // A half-written line of a killed program is skipped, not treated as a broken file.
        let bytes = Self::state_file(path).load(|bytes| Ok(bytes.to_vec())).unwrap_or_default();
        for line in String::from_utf8_lossy(&bytes).lines() {
            if let Ok(record) = serde_json::from_str(line) {
                self.apply(&record);
            }
        }
    }

    /// Folds one record in.
    pub fn apply(&mut self, record: &HistoryRecord) {
        match record {
            HistoryRecord::Began { id, at, target, arguments } => {
                let fits = weigh(arguments) <= Self::MAX_RECORD_BYTES;
                let arguments = if fits { arguments.clone() } else { Value::Null };
                let entry = HistoryEntry { id: *id, at: *at, arguments, outcome: None };
                self.bytes += entry.bytes();
                let entries = self.entries.entry(target.clone()).or_default();
                entries.insert(0, entry);
                let full = entries.len() > Self::MAX_TARGET_CALLS;
                let gone = if full { entries.pop() } else { None };
                self.bytes -= gone.map_or(0, |entry| entry.bytes());
                while self.bytes > Self::MAX_ARGUMENT_BYTES {
                    self.forget_oldest();
                }
            }
            HistoryRecord::Ended { id, outcome, millis } => {
                let all = self.entries.values_mut().flatten();
                if let Some(entry) = { all }.find(|entry| entry.id == *id) {
                    entry.outcome = Some((outcome.clone(), *millis));
                }
            }
            HistoryRecord::Draft { target, draft } if draft.is_empty() => {
                self.drafts.remove(target);
            }
            HistoryRecord::Draft { target, draft } => {
                self.drafts.insert(target.clone(), draft.clone());
            }
        }
    }

    fn forget_oldest(&mut self) {
        let age = |all: &Vec<HistoryEntry>| all.last().map_or(u64::MAX, |entry| entry.at);
        let oldest = self.entries.values_mut().min_by_key(|all| age(all));
        match oldest.and_then(Vec::pop) {
            Some(entry) => self.bytes -= entry.bytes(),
            None => self.bytes = 0,
        }
    }

    /// Calls of a target, newest first.
    pub fn calls_of(&self, target: &str) -> &[HistoryEntry] {
        self.entries.get(target).map_or(&[], Vec::as_slice)
    }

    /// Every call with its target, newest first.
    pub fn all(&self) -> Vec<(&str, &HistoryEntry)> {
        let all = self.entries.iter();
        let all = all.flat_map(|(target, calls)| calls.iter().map(move |one| (&**target, one)));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|(_, one)| std::cmp::Reverse((one.at, one.id)));
        all
    }

    /// The draft of a target's form.
    pub fn draft(&self, target: &str) -> Option<&FormDraft> {
        self.drafts.get(target)
    }

    /// Appends one record to the file, readable only by its owner; a draft goes to its own file.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn append(path: &Path, record: &HistoryRecord) -> io::Result<()> {
        if let HistoryRecord::Draft { target, draft } = record {
            return save(path, target, draft);
        }
        let mut line = serde_json::to_string(record)?;
        if line.len() > Self::MAX_RECORD_BYTES {
            let mut short = record.clone();
            let HistoryRecord::Began { arguments, .. } = &mut short else { return Ok(()) };
            *arguments = Value::Null;
            line = serde_json::to_string(&short)?;
        }
        line.push('\n');
        if let Some(parent) = path.parent() {
            create_private_folder(parent)?;
        }
        alone(path, || Self::append_line(path, line))
    }

    fn state_file(path: &Path) -> StateFile {
        StateFile::new(path, Self::MAX_FILE_BYTES)
    }

    fn append_line(path: &Path, mut line: String) -> io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = Self::state_file(path).open_anew(&options)?;
        let before = file.metadata()?.len();
        if is_cut_short(&mut file)? {
            line.insert(0, '\n');
        }
        let written = file.write_all(line.as_bytes());
        if written.is_err() {
            // A partial line would corrupt the next one too.
            let _ = file.set_len(before);
        }
        written
    }

    /// Keeps the newest records of a file, up to half of [`Self::MIN_COMPACTED_BYTES`].
    fn compact(path: &Path) -> io::Result<()> {
        let all = Self::state_file(path).load(|bytes| Ok(bytes.to_vec())).unwrap_or_default();
        let cut = all.len().saturating_sub(Self::MIN_COMPACTED_BYTES as usize / 2);
        let rest = match memchr::memchr(b'\n', &all[cut..]) {
            // Another window has already compacted it.
            _ if cut == 0 => 0,
            Some(end) => cut + end + 1,
            None => all.len(),
        };
        replace(path, &all[rest..], Readers::Owner)
    }
}

impl HistoryEntry {
    /// Its size for [`History::MAX_ARGUMENT_BYTES`]; 0 when the arguments were too long to keep.
    fn bytes(&self) -> usize {
        if self.arguments.is_null() { 0 } else { weigh(&self.arguments) }
    }
}

/// Whether the last line is incomplete because a program died while writing it.
fn is_cut_short(file: &mut std::fs::File) -> io::Result<bool> {
    if file.metadata()?.len() == 0 {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(io::SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

// Half-filled forms, saved while the user types: one small file per form in a folder beside the
// history, replaced atomically, so that a killed program leaves the last version or the one before.
// Does not decide what is secret: callers must pass only what may be written.

/// A half-filled form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FormDraft {
    /// The fields that are valid values; `null` when there are none.
    #[serde(default)]
    pub value: Value,
    /// Typed text that is not a valid value yet, by the JSON pointer of its field; the empty
    /// pointer holds the whole as JSON.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub typed: BTreeMap<String, String>,
}

impl FormDraft {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.value.is_null() && self.typed.is_empty()
    }
}

impl From<Value> for FormDraft {
    fn from(value: Value) -> Self {
        Self { value, ..Self::default() }
    }
}

/// A draft in its file.
#[derive(Serialize, Deserialize)]
struct KeptDraft<T> {
    target: String,
    #[serde(flatten)]
    draft: T,
}

/// Most drafts that are kept; beyond that, the oldest are removed.
const MAX_DRAFTS: usize = 200;
/// Largest draft that is kept, in bytes of JSON.
pub const MAX_DRAFT_BYTES: usize = 1 << 20;

/// The folder of the drafts that belong to a history file.
pub fn folder(history: &Path) -> PathBuf {
    history.with_extension("drafts")
}

/// Saves the draft of `target`, or removes it when it is empty. One larger than [`MAX_DRAFT_BYTES`] is not
/// saved; the previous draft of that form stays.
///
/// # Errors
/// Those of the file system; [`io::ErrorKind::FileTooLarge`] for a draft that is not kept.
pub fn save(history: &Path, target: &str, draft: &FormDraft) -> io::Result<()> {
    // Targets are names and URIs from servers: never use them in a path.
    let name = hex(&sha2::Sha256::digest(target.as_bytes())[..8]);
    let path = folder(history).join(format!("{name}.json"));
    if draft.is_empty() {
        return remove(&path).map(drop);
    }
    let text = serde_json::to_string(&KeptDraft { target: target.to_owned(), draft })?;
    if text.len() > MAX_DRAFT_BYTES {
        let message = format!("a form of more than {} MiB is not kept", MAX_DRAFT_BYTES >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    // Not synchronised to disk: this runs while the user types, and drafts need to survive only the
    // end of the program, not of the machine.
    replace_quickly(&path, text.as_bytes())
}

/// Every draft by target. Unreadable ones are skipped.
pub fn load(history: &Path) -> HashMap<String, FormDraft> {
    let read = |path: PathBuf| {
        let kept: KeptDraft<FormDraft> =
            StateFile::new(path, MAX_DRAFT_BYTES as u64).load(files::parse_json)?;
        Some((kept.target, kept.draft))
    };
    files::newest(&folder(history), MAX_DRAFTS).into_iter().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_calls_make_room_for_the_newest_whatever_they_were_given() {
        let mut history = History::default();
        let large = "x".repeat(200 << 10);
        for id in 0..300 {
            let target = format!("a.{}", id % 20);
            let arguments = json!({ "text": large });
            history.apply(&HistoryRecord::Began { id, at: id, target, arguments });
        }
        let all: Vec<&HistoryEntry> = history.entries.values().flatten().collect();
        let bytes: usize = all.iter().map(|entry| weigh(&entry.arguments)).sum();
        assert_eq!(bytes, history.bytes);
        assert!(
            bytes <= History::MAX_ARGUMENT_BYTES && bytes > History::MAX_ARGUMENT_BYTES / 2,
            "{bytes}"
        );
        assert!(all.iter().all(|entry| entry.at >= 300 - all.len() as u64));
        history.apply(&began(300, json!("x".repeat(History::MAX_RECORD_BYTES))));
        assert_eq!(history.calls_of("a.t")[0].arguments, Value::Null);
    }

    fn began(id: u64, arguments: Value) -> HistoryRecord {
        HistoryRecord::Began { id, at: id, target: "a.t".into(), arguments }
    }

    #[test]
    fn a_call_that_never_ended_has_an_unknown_outcome_after_a_crash() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("deep/history.jsonl");
        let ended = HistoryRecord::Ended { id: 1, outcome: "ok".into(), millis: 12 };
        let draft = HistoryRecord::Draft { target: "a.t".into(), draft: json!({"half": 1}).into() };
        for record in [began(1, json!({"n": 1})), ended, began(2, json!({"n": 2})), draft] {
            History::append(&path, &record).expect("writable");
        }
        // The crash cut the last line short.
        std::fs::OpenOptions::new()
            .append(true)
            .open(&path)
            .and_then(|mut f| f.write_all(b"{\"record\":\"be"))
            .expect("writable");
        let history = History::load(&path);
        let outcomes: Vec<_> =
            history.calls_of("a.t").iter().map(|e| (e.id, e.outcome.clone())).collect();
        assert_eq!(outcomes, [(2, None), (1, Some(("ok".to_owned(), 12)))]);
        assert_eq!(history.draft("a.t"), Some(&json!({"half": 1}).into()));
        // The next record does not become part of the line that was cut short.
        History::append(&path, &began(3, json!({"n": 3}))).expect("writable");
        assert_eq!(History::load(&path).calls_of("a.t").first().map(|e| e.id), Some(3));
    }

    #[test]
    fn many_targets_are_bounded_together_and_the_newest_calls_stay() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("h.jsonl");
        let long = "x".repeat(10_000);
        let mut text = String::new();
        for id in 1..=600_u64 {
            let began = HistoryRecord::Began {
                id,
                at: id,
                target: format!("a.t{id}"),
                arguments: json!(long),
            };
            text.push_str(&serde_json::to_string(&began).expect("JSON"));
            text.push('\n');
        }
        std::fs::write(&path, text).expect("writable");
        assert_eq!(History::load(&path).calls_of("a.t1").len(), 1);
        let again = History::load(&path);
        let kept = std::fs::metadata(&path).expect("there").len();
        assert!((1 << 20..=History::MIN_COMPACTED_BYTES / 2).contains(&kept), "{kept} bytes");
        assert_eq!((again.calls_of("a.t600").len(), again.calls_of("a.t1").len()), (1, 0));
    }

    #[test]
    fn history_is_bounded_and_survives_a_restart() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let path = dir.path().join("h.jsonl");
        let mut history = History::default();
        for id in 1..=80 {
            History::append(&path, &began(id, json!(id))).expect("writable");
            history.apply(&began(id, json!(id)));
        }
        assert_eq!(history.calls_of("a.t").len(), History::MAX_TARGET_CALLS);
        assert_eq!(History::load(&path), history);
        let mut bytes = std::fs::read(&path).expect("there");
        bytes.extend_from_slice(b"\xff\xfe broken\n");
        std::fs::write(&path, bytes).expect("writable");
        assert_eq!(History::load(&path), history, "bytes that are not text spoil their line alone");
        let huge = began(99, json!("x".repeat(History::MAX_RECORD_BYTES)));
        History::append(&path, &huge).expect("writable");
        assert_eq!(History::load(&path).calls_of("a.t")[0].arguments, Value::Null);
    }
}

#[cfg(test)]
mod drafts_tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_draft_is_replaced_whole_and_forgotten_when_it_is_null() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let history = dir.path().join("deep/h.jsonl");
        let half = FormDraft {
            value: json!({"x": 2}),
            typed: [("/n".to_owned(), "12a".to_owned())].into(),
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
        save(&history, "a.t", &FormDraft::default()).expect("writable");
        save(&history, "never kept", &FormDraft::default()).expect("nothing to do");
        assert!(!load(&history).contains_key("a.t"));
        assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 1);
    }

    #[test]
    fn drafts_are_bounded_in_number_and_size() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let history = dir.path().join("h.jsonl");
        let long = save(&history, "a", &json!("x".repeat(MAX_DRAFT_BYTES)).into());
        assert_eq!(long.expect_err("too long").kind(), io::ErrorKind::FileTooLarge);
        assert!(load(&history).is_empty());
        for n in 0..MAX_DRAFTS + 9 {
            save(&history, &n.to_string(), &json!(n).into()).expect("writable");
        }
        assert_eq!(load(&history).len(), MAX_DRAFTS);
        assert_eq!(std::fs::read_dir(folder(&history)).expect("readable").count(), MAX_DRAFTS);
    }
}
