//! The lock file in a check: what changed since it was written, with a severity for each
//! difference. Finding drift never updates the file.

use serde_json::Value;

use crate::CheckFinding;
use crate::rule::{capped, finding};
use crate::subject::{CheckSubject, brief};
use deck::{Drift, DriftPlace, Lock};
use protocol::{FieldChange, Risk};

/// Maximum number of findings per entry, so that a rewritten schema does not fill the report.
const MAX_ENTRY_FINDINGS: usize = 20;

/// This lock with what `subjects` offer now. A server that did not become ready, or whose lists are
/// not complete, keeps its entry: its state is unknown. Servers that `is_known` does not know are
/// dropped.
#[must_use]
pub fn renewed(mut lock: Lock, subjects: &[CheckSubject], is_known: impl Fn(&str) -> bool) -> Lock {
    lock.servers.retain(|name, _| is_known(name));
    for subject in subjects.iter().filter(|s| s.was_ready() && s.partial.is_empty()) {
        lock.servers.insert(subject.name.clone(), subject.locked());
    }
    lock
}

/// What differs at one server.
pub fn compare(lock: &Lock, subject: &CheckSubject) -> Vec<CheckFinding> {
    if !subject.was_ready() {
        return Vec::new();
    }
    let Some(locked) = lock.servers.get(&subject.name) else {
        return vec![finding("lock/unlocked", "", "the lock file does not have this server")];
    };
    let partial: Vec<_> = subject.partial.iter().map(|(list, _)| *list).collect();
    let drift = locked.drift(&subject.locked(), &partial);
    drift.iter().flat_map(|(place, drift)| findings(place, drift)).collect()
}

/// Entries of servers that `is_known` does not know.
pub fn stale(lock: &Lock, is_known: impl Fn(&str) -> bool) -> Vec<CheckFinding> {
    let gone = lock.servers.keys().filter(|name| !is_known(name));
    gone.map(|name| {
        let message = format!("server `{}` is locked but not configured", brief(name, 60));
        finding("lock/stale", "", message)
    })
    .collect()
}

fn findings(place: &DriftPlace, drift: &Drift) -> Vec<CheckFinding> {
    let (what, at) = match place {
        DriftPlace::Instructions => ("instructions".to_owned(), "instructions".to_owned()),
        DriftPlace::ServerInfo => ("serverInfo".to_owned(), "serverInfo".to_owned()),
        DriftPlace::Authorization => ("signing in".to_owned(), "authorization".to_owned()),
        DriftPlace::Entry(kind, id) => {
            let what = format!("{} `{}`", kind.noun(), brief(id, 80));
            (what, format!("{}/{}", kind.key(), brief(id, 80)))
        }
    };
    let changes = match drift {
        Drift::Added => return vec![finding("lock/added", at, format!("{what} is new"))],
        Drift::Removed => return vec![finding("lock/removed", at, format!("{what} is gone"))],
        Drift::Changed(changes) => changes,
    };
    let weigh = match place {
        DriftPlace::Authorization => moved,
        _ => weigh,
    };
    let mut found: Vec<CheckFinding> =
        changes.iter().flat_map(|change| weigh(&at, change)).collect();
    found.sort_by(CheckFinding::order);
    capped(found, MAX_ENTRY_FINDINGS, "changes")
}

/// The findings about a change, one for each rule it violates: a rule that is allowed or lowered
/// must not hide another.
fn weigh(place: &str, change: &FieldChange) -> Vec<CheckFinding> {
    let at = if change.pointer.is_empty() {
        place.to_owned()
    } else {
        format!("{place}#{}", brief(&change.pointer, 160))
    };
    let described = describe(change);
    let mut found: Vec<CheckFinding> = Vec::new();
    for risk in change.risks() {
        let rule = match risk {
            Risk::HiddenCharacters => "lock/hidden-characters",
            Risk::Instruction(..) => "lock/instruction",
            Risk::NewUrl(_) => "lock/new-url",
            Risk::HintFlipped => "lock/hint-flipped",
            Risk::SchemaLoosened(_) => "lock/schema-loosened",
        };
        if found.iter().all(|finding| finding.rule != rule) {
            found.push(finding(rule, at.clone(), format!("{described}; {risk}")));
        }
    }
    if found.is_empty() {
        found.push(finding("lock/changed", at, described));
    }
    found
}

/// The finding about a change of the sign-in endpoints: any change is one.
fn moved(place: &str, change: &FieldChange) -> Vec<CheckFinding> {
    vec![finding("lock/authorization", format!("{place}#{}", change.pointer), describe(change))]
}

fn describe(change: &FieldChange) -> String {
    let field = change.pointer.rsplit('/').next().filter(|f| !f.is_empty()).unwrap_or("value");
    let field = brief(&field.replace("~1", "/").replace("~0", "~"), 60);
    match (&change.before, &change.after) {
        (Some(Value::String(old)), Some(Value::String(new))) => {
            let (old, new) = differing_part(old, new);
            format!("`{field}` changed from “{old}” to “{new}”")
        }
        (Some(old), Some(new)) => {
            format!("`{field}` changed from {} to {}", show(old), show(new))
        }
        (None, Some(new)) => format!("`{field}` is new: {}", show(new)),
        (Some(old), None) => format!("`{field}` is gone; it was {}", show(old)),
        (None, None) => format!("`{field}` changed"),
    }
}

fn show(value: &Value) -> String {
    brief(&value.to_string(), 120)
}

/// The parts in which two texts differ, with a little context.
fn differing_part(old: &str, new: &str) -> (String, String) {
    const CONTEXT_CHARS: usize = 24;
    const MAX_TEXT_CHARS: usize = 160;
    let (a, b): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
    let same = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let tail =
        a[same..].iter().rev().zip(b[same..].iter().rev()).take_while(|(x, y)| x == y).count();
    let cut = |text: &[char]| {
        let start = same.saturating_sub(CONTEXT_CHARS);
        let end = (text.len() - tail + CONTEXT_CHARS).min(text.len());
        let shown: String = text[start..end.max(start)].iter().collect();
        let head = if start > 0 { "…" } else { "" };
        let foot = if end < text.len() { "…" } else { "" };
        format!("{head}{}{foot}", brief(&shown, MAX_TEXT_CHARS))
    };
    (cut(&a), cut(&b))
}
