//! Names of tools: characters, length, duplicates and look-alikes within one server.

use std::collections::BTreeMap;

use icu_normalizer::DecomposingNormalizerBorrowed;
use serde_json::Value;

use crate::expect::Budgets;
use crate::rule::finding;
use crate::subject::{CheckSubject, ListedEntry, brief};
use crate::{CheckFinding, Severity};
use config::look;
use protocol::ListKind;

/// Longest tool name (MCP, server features, tools, tool names), in characters.
const MAX_NAME_CHARS: usize = 128;
/// Longest name several model providers accept, in characters.
const MAX_PROVIDER_NAME_CHARS: usize = 64;

/// Checks the names of one server.
pub(super) fn names(subject: &CheckSubject) -> Vec<CheckFinding> {
    let mut findings = Vec::new();
    for entry in subject.tools() {
        spelling(&entry, &mut findings);
    }
    doubled(subject, &mut findings);
    findings
}

fn spelling(entry: &ListedEntry<'_>, findings: &mut Vec<CheckFinding>) {
    let name = entry.id();
    let length = name.chars().count();
    if length > MAX_NAME_CHARS {
        let message =
            format!("the name has {length} characters, at most {MAX_NAME_CHARS} are allowed");
        findings.push(finding("name/length", entry.place(), message));
    } else if length > MAX_PROVIDER_NAME_CHARS {
        let message = format!(
            "the name has {length} characters; several model providers take {MAX_PROVIDER_NAME_CHARS}"
        );
        let mut found = finding("name/length", entry.place(), message);
        found.severity = Severity::Note;
        findings.push(found);
    }
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    let mut odd: Vec<char> = name.chars().filter(|c| !plain(c)).collect();
    odd.sort_unstable();
    odd.dedup();
    if name.is_empty() {
        findings.push(finding("name/pattern", entry.place(), "the name is empty"));
    } else if !odd.is_empty() {
        let shown: Vec<String> = odd.iter().take(8).map(|c| show(*c)).collect();
        let message = format!("`{}` contains {}", brief(name, 80), shown.join(", "));
        findings.push(finding("name/pattern", entry.place(), message));
    }
}

fn show(c: char) -> String {
    match c {
        ' ' => "a blank".to_owned(),
        '!'..='~' => format!("`{c}`"),
        _ => format!("U+{:04X}", u32::from(c)),
    }
}

fn doubled(subject: &CheckSubject, findings: &mut Vec<CheckFinding>) {
    let mut seen: BTreeMap<(ListKind, &str), usize> = BTreeMap::new();
    let rejected =
        subject.rejected.iter().map(|r| ListedEntry { list: r.list, raw: r.raw.as_ref() });
    for entry in subject.entries().chain(rejected) {
        if !entry.id().is_empty() {
            *seen.entry((entry.list, entry.id())).or_default() += 1;
        }
    }
    for ((list, id), times) in seen.iter().filter(|(_, times)| **times > 1) {
        let place = format!("{}/{}", list.key(), brief(id, 80));
        let message = format!("`{}` is listed {times} times", brief(id, 80));
        findings.push(finding("name/duplicate", place, message));
    }
    let mut shapes: BTreeMap<String, &str> = BTreeMap::new();
    for entry in subject.tools() {
        let Some(other) = shapes.insert(loose_shape(entry.id()), entry.id()) else { continue };
        if other != entry.id() {
            let message = format!("looks like `{}` of the same server", brief(other, 80));
            findings.push(finding("name/look-alike", entry.place(), message));
        }
    }
}

/// A name without differences that are easily overlooked: letter case, separators, marks on letters
/// (in any encoding, Unicode Standard Annex 15), confusable letters. Unchanged if nothing is left.
fn loose_shape(name: &str) -> String {
    let parts = DecomposingNormalizerBorrowed::new_nfd().normalize(name);
    let loose = shape(&parts).to_lowercase();
    let loose: String = loose.chars().filter(|c| c.is_alphanumeric()).collect();
    if loose.is_empty() { name.to_owned() } else { loose }
}

/// A name with every character replaced by the ASCII one it looks like.
pub(super) fn shape(name: &str) -> String {
    name.chars().filter(|c| !base::text::inspect::is_hidden(*c)).map(look).collect()
}

// Annotations of tools that contradict each other or the tool's own name.

/// Verbs in names of tools that change or remove something permanently.
const DESTRUCTIVE: &str =
    "delete remove drop destroy erase wipe kill truncate uninstall purge terminate revoke";
/// Verbs in names of tools that change something.
const WRITING: [&str; 10] =
    ["write", "create", "update", "insert", "edit", "send", "move", "rename", "upload", "set"];

/// Checks the annotations of every tool.
pub(super) fn hints(subject: &CheckSubject) -> Vec<CheckFinding> {
    subject.tools().filter_map(|tool| contradiction(&tool)).collect()
}

fn contradiction(tool: &ListedEntry<'_>) -> Option<CheckFinding> {
    let hints = tool.raw.get("annotations")?;
    let hint = |key: &str| hints.get(key).and_then(Value::as_bool);
    let verb = first_word(tool.id());
    let destructive = DESTRUCTIVE.split(' ').any(|word| word == verb);
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
            format!("`{}` is not a boolean", crate::subject::brief(odd.0, 40))
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

// What definitions cost in a model's context: exact bytes, estimated tokens.

/// Approximate bytes per token of English and JSON; wherever it is shown, it is called an estimate.
pub const BYTES_PER_TOKEN: u64 = 4;

/// Bytes of what a host puts in front of a model: the tools and the instructions.
pub fn bytes(subject: &CheckSubject) -> u64 {
    let tools: usize = subject
        .tools()
        .map(|tool| {
            let part = |key: &str| tool.raw.get(key).map_or(0, |v| v.to_string().len());
            part("name") + part("description") + part("inputSchema")
        })
        .sum();
    (tools + subject.instructions.as_ref().map_or(0, String::len)) as u64
}

/// Compares one server with its budget.
pub(super) fn context(subject: &CheckSubject, budgets: &Budgets) -> Option<CheckFinding> {
    let what = format!("{} tools take", subject.tools.len());
    over(&what, bytes(subject), budgets.context_tokens, "tools")
}

/// Compares all servers together with the total budget.
pub(super) fn total(subjects: &[CheckSubject], budgets: &Budgets) -> Option<CheckFinding> {
    let mut sizes: Vec<_> =
        subjects.iter().map(|subject| (bytes(subject), &subject.name)).collect();
    let all = sizes.iter().map(|(bytes, _)| bytes).sum();
    let mut found = over("all servers together take", all, budgets.total_context_tokens, "")?;
    // Which of them to look at first.
    sizes.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
    let largest = sizes.iter().filter(|(bytes, _)| *bytes > 0).take(MAX_NAMED_SERVERS);
    let largest: Vec<String> = largest
        .map(|(bytes, name)| {
            format!("{} {}", crate::subject::brief(name, 40), bytes / BYTES_PER_TOKEN)
        })
        .collect();
    if sizes.len() > 1 {
        found.message = format!("{}; the largest: {}", found.message, largest.join(", "));
    }
    Some(found)
}

/// How many servers the finding on all of them together names.
const MAX_NAMED_SERVERS: usize = 5;

fn over(what: &str, bytes: u64, budget: u64, place: &str) -> Option<CheckFinding> {
    let tokens = bytes / BYTES_PER_TOKEN;
    let message = format!(
        "{what} {bytes} bytes of context, about {tokens} tokens (estimated); the budget is {budget}"
    );
    (tokens > budget).then(|| finding("context/budget", place, message))
}
