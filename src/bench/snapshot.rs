//! Snapshots (`mcp.tests.snapshots.json`): the values that steps gave when they were kept.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use parking_lot::Mutex;
use regex::{NoExpand, Regex};
use serde_json::{Map, Value};

use crate::paths::{ValueMask, read_mask};
use base::atomic::{Readers, replace};
use base::pointer::place;
use base::text::json;
use base::text::path::spelled;
use check::subject::{brief, brief_pair};
use deck::WrittenText;

/// What stands in a snapshot for what is masked.
const MASK: &str = "[masked]";

/// The snapshots of one file of tests.
pub struct Snapshots {
    path: PathBuf,
    /// Whether values are kept instead of compared.
    updates: bool,
    inner: Mutex<SnapshotTable>,
}

#[derive(Default)]
struct SnapshotTable {
    kept: IndexMap<String, Value>,
    changed: bool,
}

impl Snapshots {
    /// Those that belong to a file of tests: `mcp.tests.json` has `mcp.tests.snapshots.json`.
    ///
    /// # Errors
    /// When the file exists and cannot be used; names it.
    pub fn load(tests: &Path, updates: bool) -> Result<Self, String> {
        let path = tests.with_extension("snapshots.json");
        let kept = match WrittenText::find(&path)? {
            None => IndexMap::new(),
            Some(text) => match text.whole()? {
                Value::Object(map) => map.into_iter().collect(),
                _ => IndexMap::new(),
            },
        };
        Ok(Self { path, updates, inner: Mutex::new(SnapshotTable { kept, changed: false }) })
    }

    /// Compares a value with the kept one, or keeps it. Gives what is wrong.
    pub fn compare(&self, key: &str, value: &Value, masks: &[String]) -> Option<String> {
        let value = masked(value, masks);
        let mut table = self.inner.lock();
        if self.updates {
            if table.kept.get(key) != Some(&value) {
                table.kept.insert(key.to_owned(), value);
                table.changed = true;
            }
            return None;
        }
        let Some(kept) = table.kept.get(key) else {
            return Some("there is no snapshot yet; `mcpdeck test --update` keeps one".to_owned());
        };
        let differences = protocol::every_difference(kept, &value);
        let (first, more) = differences.split_first()?;
        let text = |value: &Option<Value>| {
            value.as_ref().map_or("nothing".to_owned(), ToString::to_string)
        };
        let (is, was) = brief_pair(&text(&first.after), &text(&first.before), 80);
        let more =
            if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
        Some(format!(
            "differs from its snapshot: {}: is {is}, was {was}{more}; `--update` keeps the new value",
            brief(place(&first.pointer), 120),
        ))
    }

    /// Writes the file when something was kept; gives its path then.
    ///
    /// # Errors
    /// When it cannot be written; names it.
    pub fn save(&self) -> Result<Option<PathBuf>, String> {
        let table = self.inner.lock();
        if !table.changed {
            return Ok(None);
        }
        let mut all: Map<String, Value> = table.kept.clone().into_iter().collect();
        all.sort_keys();
        let text = json::pretty(&Value::Object(all)) + "\n";
        replace(&self.path, text.as_bytes(), Readers::Default)
            .map_err(|error| format!("{}: {error}", spelled(&self.path)))?;
        Ok(Some(self.path.clone()))
    }
}

/// A value without what the masks name.
fn masked(value: &Value, masks: &[String]) -> Value {
    let mut out = value.clone();
    for mask in masks.iter().filter_map(|mask| read_mask(mask).ok()) {
        match mask {
            ValueMask::Path(path) => {
                let nodes = path.query_located(value);
                let places = nodes.iter().map(|node| node.location().to_json_pointer());
                for place in places.collect::<Vec<String>>() {
                    if let Some(node) = out.pointer_mut(&place) {
                        *node = Value::String(MASK.to_owned());
                    }
                }
            }
            ValueMask::Text(pattern) => mask_texts(&mut out, &pattern),
        }
    }
    out
}

/// Replaces what a pattern matches in every text of a value.
fn mask_texts(value: &mut Value, pattern: &Regex) {
    match value {
        Value::String(text) => {
            *text = pattern.replace_all(text, NoExpand(MASK)).into_owned();
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask_texts(item, pattern)),
        Value::Object(map) => map.values_mut().for_each(|item| mask_texts(item, pattern)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_snapshot_is_kept_then_compared_without_what_is_masked() {
        let folder = tempfile::tempdir().expect("a folder");
        let tests = folder.path().join("mcp.tests.json");
        let masks = ["$..at".to_owned()];
        let first = Snapshots::load(&tests, false).expect("no file");
        assert!(
            first.compare("s/a", &json!({"at": 1}), &masks).expect("none").contains("--update")
        );
        let update = Snapshots::load(&tests, true).expect("no file");
        assert_eq!(
            update.compare("s/a", &json!({"at": 1, "l": [{"at": 2, "n": 3}]}), &masks),
            None
        );
        let path = update.save().expect("writable").expect("written");
        assert!(path.ends_with("mcp.tests.snapshots.json"));
        let again = Snapshots::load(&tests, false).expect("readable");
        assert_eq!(again.compare("s/a", &json!({"at": 9, "l": [{"at": 8, "n": 3}]}), &masks), None);
        let wrong = again.compare("s/a", &json!({"at": 9, "l": [{"at": 8, "n": 4}]}), &masks);
        assert!(wrong.expect("it differs").contains("/l/0/n"));
        assert_eq!(again.save(), Ok(None));
    }

    #[test]
    fn a_mask_between_slashes_is_a_pattern_within_texts() {
        let masks = [r"/\d\d:\d\d/".to_owned(), "$.id".to_owned()];
        let value = json!({"id": "12:00", "t": ["at 12:00 and 12:01", 7], "n": {"u": "no time"}});
        let wanted =
            json!({"id": "[masked]", "t": ["at [masked] and [masked]", 7], "n": {"u": "no time"}});
        assert_eq!(masked(&value, &masks), wanted);
    }
}
