//! Annotations of tools that contradict each other or the tool's own name.

use serde_json::Value;

use crate::check::Finding;
use crate::check::rule::finding;
use crate::check::subject::{Entry, Subject};

/// Verbs of names that change or remove something for good.
const DESTRUCTIVE: [&str; 12] = [
    "delete",
    "remove",
    "drop",
    "destroy",
    "erase",
    "wipe",
    "kill",
    "truncate",
    "uninstall",
    "purge",
    "terminate",
    "revoke",
];
/// Verbs of names that change something.
const WRITING: [&str; 10] =
    ["write", "create", "update", "insert", "edit", "send", "move", "rename", "upload", "set"];

/// Checks the annotations of every tool.
pub(super) fn check(subject: &Subject) -> Vec<Finding> {
    subject.tools().filter_map(|tool| contradiction(&tool)).collect()
}

fn contradiction(tool: &Entry<'_>) -> Option<Finding> {
    let hints = tool.raw.get("annotations")?;
    let hint = |key: &str| hints.get(key).and_then(Value::as_bool);
    let verb = first_word(tool.id());
    let destructive = DESTRUCTIVE.contains(&verb.as_str());
    let writing = WRITING.contains(&verb.as_str());
    let message = match (hint("readOnlyHint"), hint("destructiveHint")) {
        (Some(true), Some(true)) => "`readOnlyHint` and `destructiveHint` are both true".to_owned(),
        (Some(true), _) if destructive || writing => {
            format!("`readOnlyHint` is true, but the name begins with `{verb}`")
        }
        (_, Some(false)) if destructive => {
            format!("`destructiveHint` is false, but the name begins with `{verb}`")
        }
        _ => {
            let odd = hints.as_object()?.iter().find(|(key, value)| {
                key.ends_with("Hint") && !value.is_boolean() && !value.is_null()
            })?;
            format!("`{}` is not a boolean", crate::check::subject::brief(odd.0, 40))
        }
    };
    Some(finding("hint/contradiction", tool.place_of("/annotations"), message))
}

/// The first word of `delete_file`, `deleteFile`, `delete-file` or `delete.file`, in lower case.
fn first_word(name: &str) -> String {
    let end = name
        .char_indices()
        .skip(1)
        .find(|(_, c)| !c.is_ascii_lowercase())
        .map_or(name.len(), |(at, _)| at);
    name[..end].to_ascii_lowercase()
}
