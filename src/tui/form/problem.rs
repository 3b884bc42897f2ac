//! Problems of a form: what the engine's validator says of the value, what was typed and is no
//! value yet, and formats that look wrong; each at the row where it stands. Pure.

use std::collections::BTreeMap;

use serde_json::Value;

use super::pointer;
use super::row::{Row, RowKind};
use crate::base::text::SafeText;
use crate::error::Violation;
use crate::host::Verdict;

/// How grave a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Typed text that is no value: it cannot be sent at all.
    Draft,
    /// The engine refuses it; it can be sent on purpose.
    Violation,
    /// Worth a look; it is sent as it is.
    Note,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub pointer: String,
    /// What, in words.
    pub message: SafeText,
    /// How grave.
    pub weight: Weight,
    /// The row that shows it, when one does.
    pub row: Option<usize>,
}

/// Joins drafts, verdict and notes, in the order of the rows.
pub fn collect(
    rows: &[Row],
    value: Option<&Value>,
    drafts: &BTreeMap<String, super::state::Draft>,
    verdict: &Verdict,
    notes: &[Violation],
) -> Vec<Problem> {
    let finder = Finder::new(rows);
    let at = |pointer: &str, message: SafeText, weight| Problem {
        row: finder.row(pointer),
        pointer: pointer.to_owned(),
        message,
        weight,
    };
    let mut all: Vec<Problem> = drafts
        .iter()
        .filter(|(_, draft)| !draft.message.is_empty())
        .map(|(pointer, draft)| at(pointer, SafeText::line(&draft.message), Weight::Draft))
        .collect();
    let violations = match verdict {
        Verdict::Invalid(violations) => violations.as_slice(),
        _ => &[],
    };
    for violation in violations {
        // What is being typed there is already said to be wrong.
        if drafts.get(&violation.pointer).is_some_and(|d| !d.message.is_empty()) {
            continue;
        }
        let missing = missing_below(rows, value, violation);
        if missing.is_empty() {
            all.push(at(&violation.pointer, words(violation), Weight::Violation));
        }
        all.extend(
            missing
                .into_iter()
                .map(|pointer| at(pointer, SafeText::line("required"), Weight::Violation)),
        );
    }
    for note in notes {
        if !violations.contains(note) {
            all.push(at(&note.pointer, words(note), Weight::Note));
        }
    }
    if let Verdict::Unknown(reason) = verdict {
        let message = SafeText::line(&format!("cannot be checked: {reason}"));
        all.push(Problem { pointer: String::new(), message, weight: Weight::Violation, row: None });
    }
    all.sort_by_key(|p| (p.row.unwrap_or(usize::MAX), p.weight));
    all
}

/// Where a value fits no alternative: the required fields of the one that is shown and that are not
/// filled in yet. What is to be done stands there; that the whole fits none is said once they are.
fn missing_below<'a>(
    rows: &'a [Row],
    value: Option<&Value>,
    violation: &Violation,
) -> Vec<&'a str> {
    if !matches!(&*violation.keyword, "oneOf" | "anyOf") {
        return Vec::new();
    }
    rows.iter()
        .filter(|row| pointer::is_within(&row.pointer, &violation.pointer))
        .filter(|row| row.required && row.pointer != violation.pointer)
        .filter(|row| matches!(row.kind, RowKind::Field { .. }))
        .filter(|row| pointer::get(value, &row.pointer).is_none())
        .map(|row| row.pointer.as_str())
        .collect()
}

fn words(violation: &Violation) -> SafeText {
    if violation.keyword == "required" {
        return SafeText::line("required");
    }
    SafeText::line(&violation.message)
}

/// Finds the row that shows a place: itself, or the nearest visible one above it.
struct Finder<'a> {
    rows: std::collections::HashMap<&'a str, usize>,
}

impl<'a> Finder<'a> {
    fn new(rows: &'a [Row]) -> Self {
        let mut map = std::collections::HashMap::with_capacity(rows.len());
        for (i, row) in rows.iter().enumerate() {
            match row.kind {
                // The field line of a place is better than its choice line.
                RowKind::Field { .. } => map.insert(row.pointer.as_str(), i),
                RowKind::Variant { .. } | RowKind::Types { .. } => {
                    Some(*map.entry(row.pointer.as_str()).or_insert(i))
                }
                RowKind::Add { .. } | RowKind::More { .. } => None,
            };
        }
        Self { rows: map }
    }

    fn row(&self, pointer: &str) -> Option<usize> {
        let mut at = pointer;
        loop {
            if let Some(row) = self.rows.get(at) {
                return Some(*row);
            }
            at = at.rsplit_once('/').map(|(parent, _)| parent)?;
        }
    }
}
