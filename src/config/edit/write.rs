//! How new values are written, and where the copies of old files go.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::base::atomic::{Readers, replace};

/// Longest list that is written in one line, in characters.
const LINE: usize = 90;

/// Copies kept of one file.
const COPIES: usize = 20;

/// The manner of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manner {
    pub(super) newline: &'static str,
    pub(super) unit: String,
}

/// A value as text; lines after the first start with `indent`. `flat` writes one line.
pub(super) fn value(value: &Value, indent: &str, manner: &Manner, flat: bool) -> String {
    let inner = format!("{indent}{}", manner.unit);
    let (open, close, parts): (char, char, Vec<String>) = match value {
        Value::Object(map) => {
            let part = |(key, item): (&String, &Value)| {
                let key = Value::String(key.clone());
                format!("{key}: {}", self::value(item, &inner, manner, flat))
            };
            ('{', '}', map.iter().map(part).collect())
        }
        Value::Array(list) => {
            let part = |item: &Value| self::value(item, &inner, manner, flat);
            ('[', ']', list.iter().map(part).collect())
        }
        scalar => return scalar.to_string(),
    };
    if parts.is_empty() {
        return format!("{open}{close}");
    }
    let line = parts.join(", ");
    let short = open == '[' && line.chars().count() <= LINE && !line.contains('\n');
    if flat || short {
        let gap = if open == '{' { " " } else { "" };
        return format!("{open}{gap}{line}{gap}{close}");
    }
    let newline = manner.newline;
    let body = parts.join(&format!(",{newline}{inner}"));
    format!("{open}{newline}{inner}{body}{newline}{indent}{close}")
}

/// Keeps a copy of a file's old text, readable by the user alone; gives its path.
pub(super) fn backup(state: &Path, path: &Path, text: &str) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(path)?;
    let hash = Sha256::digest(absolute.as_os_str().as_encoded_bytes());
    let tag = crate::base::file::hex(hash.get(..4).unwrap_or_default());
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
    for old in known.iter().take((known.len() + 1).saturating_sub(COPIES)) {
        let _ = std::fs::remove_file(folder.join(format!("{old}.json")));
    }
    Ok(copy)
}
