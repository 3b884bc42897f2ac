//! Snapshots (`mcp.tests.snapshots.json`): the values that steps gave when they were kept.

use std::path::{Path, PathBuf};

use indexmap::IndexMap;
use parking_lot::Mutex;
use regex::{NoExpand, Regex};
use serde_json::{Map, Value};

use crate::paths::{ValueMask, read_mask};
use base::Redactor;
use base::atomic::{Readers, replace};
use base::pointer::{child_pointer, place};
use base::text::json::{self, WrittenNumbers, WrittenValue};
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
    kept: IndexMap<String, WrittenValue>,
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
            Some(text) => {
                text.whole()?;
                let all = text.written_value().map_err(|error| text.problem("", &error))?;
                let names = all.as_object().into_iter().flat_map(Map::keys);
                names
                    .map(|name| (name.clone(), rounded(all.part(&child_pointer("", name)))))
                    .collect()
            }
        };
        Ok(Self { path, updates, inner: Mutex::new(SnapshotTable { kept, changed: false }) })
    }

    /// Compares a value with the kept one, or keeps it, both without secrets. Gives what is wrong.
    pub fn compare(
        &self,
        key: &str,
        value: &WrittenValue,
        masks: &[String],
        secrets: &Redactor,
    ) -> Option<String> {
        let value = without_secrets(masked(value, masks), secrets);
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
        // One that was kept with them is compared without.
        let kept = without_secrets(kept.clone(), secrets);
        let differences = protocol::every_written_difference(&kept, &value);
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
        let mut names: Vec<&String> = table.kept.keys().collect();
        names.sort_unstable();
        let mut all = WrittenValue::from(Value::Object(Map::new()));
        for name in names {
            all.insert_written(name, table.kept[name].clone());
        }
        let text = json::pretty(&all) + "\n";
        replace(&self.path, text.as_bytes(), Readers::Default)
            .map_err(|error| format!("{}: {error}", spelled(&self.path)))?;
        Ok(Some(self.path.clone()))
    }
}

/// A value with those of its numbers that it cannot hold: another spelling is no change.
fn rounded(value: WrittenValue) -> WrittenValue {
    WrittenValue { numbers: value.numbers.only_rounded(), ..value }
}

/// A value in which secrets are masked.
fn without_secrets(value: WrittenValue, secrets: &Redactor) -> WrittenValue {
    let masked = secrets.redact_json(&value);
    WrittenValue { value: masked.unwrap_or(value.value), numbers: value.numbers }
}

/// A value without what the masks name.
fn masked(value: &WrittenValue, masks: &[String]) -> WrittenValue {
    let mut out = rounded(value.clone());
    for mask in masks.iter().filter_map(|mask| read_mask(mask).ok()) {
        match mask {
            ValueMask::Path(path) => {
                let nodes = path.query_located(value);
                let places = nodes.iter().map(|node| node.location().to_json_pointer());
                for place in places.collect::<Vec<String>>() {
                    if let Some(node) = out.value.pointer_mut(&place) {
                        *node = Value::String(MASK.to_owned());
                        out.numbers.put(&place, WrittenNumbers::default());
                    }
                }
            }
            ValueMask::Text(pattern) => mask_texts(&mut out.value, &pattern),
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
        let (masks, none) = (["$..at".to_owned()], Redactor::default());
        let first = Snapshots::load(&tests, false).expect("no file");
        assert!(
            first
                .compare("s/a", &json!({"at": 1}).into(), &masks, &none)
                .expect("none")
                .contains("--update")
        );
        let update = Snapshots::load(&tests, true).expect("no file");
        assert_eq!(
            update.compare(
                "s/a",
                &json!({"at": 1, "l": [{"at": 2, "n": 3}]}).into(),
                &masks,
                &none
            ),
            None
        );
        let path = update.save().expect("writable").expect("written");
        assert!(path.ends_with("mcp.tests.snapshots.json"));
        let again = Snapshots::load(&tests, false).expect("readable");
        assert_eq!(
            again.compare("s/a", &json!({"at": 9, "l": [{"at": 8, "n": 3}]}).into(), &masks, &none),
            None
        );
        let wrong =
            again.compare("s/a", &json!({"at": 9, "l": [{"at": 8, "n": 4}]}).into(), &masks, &none);
        assert!(wrong.expect("it differs").contains("/l/0/n"));
        assert_eq!(again.save(), Ok(None));
    }

    #[test]
    fn a_snapshot_has_no_secrets_and_one_that_was_kept_with_them_still_fits() {
        let folder = tempfile::tempdir().expect("a folder");
        let tests = folder.path().join("mcp.tests.json");
        let secrets = Redactor::new(["hunter2-token".into()]);
        let value = json!({"t": "is hunter2-token", "n": 1}).into();
        for masks in [&Redactor::default(), &secrets] {
            let update = Snapshots::load(&tests, true).expect("usable");
            assert_eq!(update.compare("s/a", &value, &[], masks), None);
            let path = update.save().expect("writable").expect("written");
            let again = Snapshots::load(&tests, false).expect("readable");
            assert_eq!(again.compare("s/a", &value, &[], &secrets), None);
            let other = json!({"t": "is hunter2-token", "n": 2}).into();
            let why = again.compare("s/a", &other, &[], &secrets).expect("it differs");
            assert!(why.contains("/n"), "{why}");
            let text = std::fs::read_to_string(path).expect("there");
            assert_eq!(text.contains("hunter2"), masks.is_empty(), "{text}");
        }
    }

    #[test]
    fn numbers_are_kept_and_compared_as_they_are_written() {
        let folder = tempfile::tempdir().expect("a folder");
        let tests = folder.path().join("mcp.tests.json");
        let value = |text: &str| WrittenValue::parse(text).expect("JSON");
        let compare = |kept: &Snapshots, text: &str| {
            kept.compare("s/a", &value(text), &[], &Redactor::default())
        };
        let update = Snapshots::load(&tests, true).expect("usable");
        assert_eq!(compare(&update, r#"{"id": 123456789012345678901, "f": 1.50}"#), None);
        let path = update.save().expect("writable").expect("written");
        let text = std::fs::read_to_string(path).expect("there");
        assert!(text.contains("123456789012345678901") && text.contains("1.5\n"), "{text}");
        let again = Snapshots::load(&tests, false).expect("readable");
        assert_eq!(compare(&again, r#"{"id": 123456789012345678901, "f": 15e-1}"#), None);
        let why = compare(&again, r#"{"id": 123456789012345678902, "f": 1.5}"#);
        assert!(why.is_some_and(|why| why.contains("123456789012345678902")));
        let update = Snapshots::load(&tests, true).expect("usable");
        assert_eq!(compare(&update, r#"{"id": 123456789012345678901, "f": 1.5}"#), None);
        assert_eq!(update.save(), Ok(None), "nothing has changed");
    }

    #[test]
    fn a_mask_between_slashes_is_a_pattern_within_texts() {
        let masks = [r"/\d\d:\d\d/".to_owned(), "$.id".to_owned()];
        let value = json!({"id": "12:00", "t": ["at 12:00 and 12:01", 7], "n": {"u": "no time"}});
        let wanted =
            json!({"id": "[masked]", "t": ["at [masked] and [masked]", 7], "n": {"u": "no time"}});
        assert_eq!(masked(&value.into(), &masks), wanted);
    }
}
